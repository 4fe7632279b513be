/* The ratio budget's numbers (Finagle's vectors) and the limit on concurrent retries. The rules with tokens: budget_tokens_test. */
#include <rea/budget.h>
#include <rea/error.h>
#include <rea/random.h>
#include <rea/time.h>

#include "../fail_alloc.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MS(n) ((uint64_t)(n)*REA_NS_PER_MS)
#define S(n) ((uint64_t)(n)*REA_NS_PER_S)

static const struct rea_budget_policy defaults = {.ratio_permille = 200, .reserve_per_s = 10, .window_ms = 10000};

static struct rea_budget *new_budget(uint32_t ratio_permille, uint32_t reserve_per_s, uint32_t window_ms)
{
	struct rea_budget_policy policy = {
	    .ratio_permille = ratio_permille, .reserve_per_s = reserve_per_s, .window_ms = window_ms};
	struct rea_budget *budget = NULL;

	assert_int_equal(rea_budget_new(&policy, 3, NULL, &budget, NULL), 0);
	return budget;
}

static void deposit(struct rea_budget *budget, uint32_t times, uint64_t now_ns)
{
	for (uint32_t i = 0; i < times; i++)
		rea_budget_deposit(budget, i % 3, now_ns);
}

static bool take(struct rea_budget *budget, uint64_t now_ns)
{
	struct rea_budget_lease lease;

	return rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, now_ns, &lease);
}

static void give_back(struct rea_budget *budget, uint64_t taken_ns, uint64_t now_ns)
{
	struct rea_budget_lease lease = {.taken_ns = taken_ns, .rule = REA_BUDGET_RATIO, .held = true};

	rea_budget_refund(budget, &lease, now_ns);
	assert_false(lease.held);
	rea_budget_refund(budget, &lease, now_ns);
}

/* How many can be taken now; all of them are. */
static uint32_t drain(struct rea_budget *budget, uint64_t now_ns)
{
	uint64_t promised = rea_budget_available(budget, now_ns);
	uint32_t taken = 0;

	while (take(budget, now_ns))
		taken++;
	assert_true(taken == promised);
	assert_true(rea_budget_available(budget, now_ns) == 0);
	return taken;
}

static void the_reserve_and_one_in_five(void **state)
{
	struct rea_budget *budget = new_budget(200, 10, 10000);

	(void)state;
	assert_int_equal(drain(budget, S(100)), 100);
	deposit(budget, 4, S(100));
	assert_int_equal(drain(budget, S(100)), 0);
	deposit(budget, 1, S(100));
	assert_int_equal(drain(budget, S(100)), 1);
	deposit(budget, 1000, S(100));
	assert_int_equal(drain(budget, S(100)), 200);
	rea_budget_free(budget);
}

/* Other budgets round 1/ratio: 0.3 becomes a third, 0.6 to 0.9 become 1. */
static void no_ratio_is_rounded(void **state)
{
	(void)state;
	for (uint32_t permille = 0; permille <= 1000; permille++) {
		struct rea_budget *budget = new_budget(permille, 0, 10000);

		deposit(budget, 1000, S(5));
		assert_int_equal(drain(budget, S(5)), permille);
		rea_budget_free(budget);
	}
}

static void nothing_overflows(void **state)
{
	struct rea_budget *budget = new_budget(1000, UINT32_MAX, 60000);

	(void)state;
	deposit(budget, 1000, S(1));
	assert_true(rea_budget_available(budget, S(1)) == UINT64_C(4294967295) * 60 + 1000);
	rea_budget_free(budget);
	budget = new_budget(1, 1, 1000);
	assert_int_equal(drain(budget, UINT64_MAX - 1), 1);
	deposit(budget, 1000, UINT64_MAX - 1);
	assert_int_equal(drain(budget, UINT64_MAX - 1), 1);
	rea_budget_free(budget);
}

static void what_leaves_the_window_leaves_on_both_sides(void **state)
{
	struct rea_budget *budget = new_budget(200, 10, 10000);

	(void)state;
	deposit(budget, 500, S(100));
	assert_int_equal(drain(budget, S(104)), 200);
	/* Deposits of t = 100 count through 109.999; then only the reserve is left, and it is overdrawn. */
	assert_true(rea_budget_available(budget, S(110) - 1) == 0);
	deposit(budget, 500, S(110) - 1);
	assert_int_equal(drain(budget, S(110) - 1), 100);
	assert_true(rea_budget_available(budget, S(110)) == 0);
	/* The withdrawals of t = 104 leave at 114, those of t = 109.999 (slot 109) and its deposits at 119. */
	assert_true(rea_budget_available(budget, S(114) - 1) == 0);
	assert_true(rea_budget_available(budget, S(114)) == 100);
	assert_true(rea_budget_available(budget, S(119) - 1) == 100);
	assert_true(rea_budget_available(budget, S(119)) == 100);
	assert_true(rea_budget_available(budget, S(1000)) == 100);
	rea_budget_free(budget);
}

static void a_steady_stream_gets_its_share_every_second(void **state)
{
	struct rea_budget *budget = new_budget(200, 0, 10000);
	uint32_t taken = 0;

	(void)state;
	for (uint32_t second = 0; second < 100; second++) {
		deposit(budget, 50, S(second));
		taken += drain(budget, S(second) + MS(500));
	}
	assert_int_equal(taken, 1000);
	rea_budget_free(budget);
}

static void a_refund_gives_back_what_was_taken(void **state)
{
	struct rea_budget *budget = new_budget(0, 10, 10000);

	(void)state;
	assert_int_equal(drain(budget, S(50)), 100);
	give_back(budget, S(50), S(52));
	assert_int_equal(drain(budget, S(52)), 1);
	/* Of the 100 that leave at 60 one was given back, the one of 52 stays. */
	assert_true(rea_budget_available(budget, S(60)) == 99);
	/* What has left the window came back by itself: a refund then gives nothing. */
	give_back(budget, S(50), S(60));
	assert_true(rea_budget_available(budget, S(60)) == 99);
	give_back(budget, S(52), S(60));
	assert_true(rea_budget_available(budget, S(60)) == 100);
	give_back(budget, S(52), S(60));
	assert_true(rea_budget_available(budget, S(60)) == 100);
	rea_budget_free(budget);
}

/* The retry that comes back is the one that was taken, not a later one. */
static void a_refund_knows_its_time(void **state)
{
	struct rea_budget *budget = new_budget(0, 10, 10000);

	(void)state;
	assert_true(take(budget, S(50)));
	assert_true(take(budget, S(55)));
	give_back(budget, S(50), S(56));
	assert_true(rea_budget_available(budget, S(56)) == 99);
	assert_true(rea_budget_available(budget, S(60)) == 99);
	/* Its slot was reused by now: what is there belongs to others. */
	for (uint32_t second = 60; second < 70; second++)
		assert_true(take(budget, S(second)));
	give_back(budget, S(55), S(69));
	assert_true(rea_budget_available(budget, S(69)) == 90);
	rea_budget_free(budget);
}

/* A refund may empty the newest slot; the oldest must not make room for its successor before its time. */
static void an_emptied_slot_costs_no_other(void **state)
{
	struct rea_budget *budget = new_budget(0, 10, 10000);

	(void)state;
	for (uint32_t second = 0; second < 10; second++)
		assert_true(take(budget, S(50 + second)));
	give_back(budget, S(59), S(59));
	for (uint32_t i = 0; i < 5; i++) {
		assert_true(take(budget, S(59) + MS(500)));
		give_back(budget, S(59) + MS(500), S(59) + MS(500));
	}
	assert_true(rea_budget_available(budget, S(59) + MS(999)) == 91);
	rea_budget_free(budget);
}

/* A thread whose clock was read a little earlier than the other's. */
static void clocks_that_disagree(void **state)
{
	struct rea_budget *budget = new_budget(1000, 0, 10000);

	(void)state;
	rea_budget_deposit(budget, 0, S(30));
	assert_true(rea_budget_available(budget, S(30) - 1) == 1);
	assert_true(take(budget, S(30)));
	rea_budget_deposit(budget, 1, S(30) - 1);
	assert_true(take(budget, S(30) - 1));
	assert_false(take(budget, S(30)));
	give_back(budget, S(30) - 1, S(30));
	give_back(budget, S(30), S(30));
	assert_int_equal(drain(budget, S(30)), 2);
	rea_budget_free(budget);
}

static void new_numbers_for_a_living_budget(void **state)
{
	struct rea_budget *budget = new_budget(200, 10, 10000);
	struct rea_budget_policy policy = {.ratio_permille = 500, .reserve_per_s = 0, .window_ms = 10000};

	(void)state;
	deposit(budget, 100, S(200));
	for (int i = 0; i < 30; i++)
		assert_true(take(budget, S(200)));
	/* What was deposited and spent stays: 50 - 30. */
	rea_budget_configure(budget, &policy);
	assert_true(rea_budget_available(budget, S(200)) == 20);
	policy.ratio_permille = 100;
	rea_budget_configure(budget, &policy);
	assert_true(rea_budget_available(budget, S(200)) == 0);
	/* A longer window remembers longer, a shorter one forgets at once. */
	policy = (struct rea_budget_policy){.ratio_permille = 1000, .reserve_per_s = 0, .window_ms = 60000};
	rea_budget_configure(budget, &policy);
	assert_true(rea_budget_available(budget, S(259)) == 70);
	policy.window_ms = 1000;
	rea_budget_configure(budget, &policy);
	assert_true(rea_budget_available(budget, S(259)) == 0);
	deposit(budget, 7, S(259));
	assert_int_equal(drain(budget, S(259)), 7);
	rea_budget_free(budget);
}

/* Against a plain list of events: never more than the rule allows, never less. */
static void property_the_same_as_a_plain_ledger(void **state)
{
	enum { EVENTS = 4000 };
	static struct {
		uint64_t slot_s;
		int deposits, retries;
	} seconds[EVENTS];
	struct rea_random random;

	(void)state;
	for (uint64_t seed = 0; seed < 30; seed++) {
		uint32_t permille = (uint32_t)(seed * 33), reserve = (uint32_t)(seed % 4);
		struct rea_budget *budget = new_budget(permille, reserve, 10000);
		uint64_t now_ns = S(1000);
		size_t count = 0;

		rea_random_init(&random, seed);
		for (size_t i = 0; i < EVENTS; i++) {
			int64_t credits = (int64_t)reserve * 10 * 1000000;

			now_ns += rea_random_below(&random, rea_random_below(&random, 50) == 0 ? S(12) : MS(100));
			for (size_t k = 0; k < count; k++)
				if (seconds[k].slot_s + 10 > now_ns / REA_NS_PER_S)
					credits += (int64_t)seconds[k].deposits * permille * 1000 -
						   (int64_t)seconds[k].retries * 1000000;
			if (count == 0 || seconds[count - 1].slot_s != now_ns / REA_NS_PER_S) {
				seconds[count].slot_s = now_ns / REA_NS_PER_S;
				seconds[count].deposits = seconds[count].retries = 0;
				count++;
			}
			assert_true(rea_budget_available(budget, now_ns) == (credits > 0 ? (uint64_t)credits / 1000000 : 0));
			if (rea_random_below(&random, 3) > 0) {
				rea_budget_deposit(budget, (uint32_t)rea_random_below(&random, 3), now_ns);
				seconds[count - 1].deposits++;
			} else {
				bool granted = take(budget, now_ns);

				assert_int_equal(granted, credits >= 1000000);
				seconds[count - 1].retries += granted;
			}
		}
		rea_budget_free(budget);
	}
}

static void wrong_numbers_are_refused(void **state)
{
	static const struct rea_budget_policy wrong[] = {{.ratio_permille = 1001, .reserve_per_s = 10, .window_ms = 10000},
	    {.ratio_permille = 200, .reserve_per_s = 10, .window_ms = 999},
	    {.ratio_permille = 200, .reserve_per_s = 10, .window_ms = 60001},
	    {.rule = (enum rea_budget_rule)9, .ratio_permille = 200, .reserve_per_s = 10, .window_ms = 10000}};
	struct rea_budget *budget = (void *)1;
	struct rea_error_info info;

	(void)state;
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(rea_budget_new(&wrong[i], 1, NULL, &budget, NULL), REA_ERR_INVALID);
	assert_int_equal(rea_budget_new(&defaults, 0, NULL, &budget, &info), REA_ERR_INVALID);
	assert_string_equal(info.key, "shards");
	assert_string_equal(info.message, "the number of shards is 0; it must be at least 1");
	assert_ptr_equal(budget, (void *)1);
}

static void out_of_memory(void **state)
{
	struct rea_budget *budget = (void *)1;
	struct fail_alloc failing;
	size_t n = 0;

	(void)state;
	for (;; n++) {
		int error;

		fail_alloc_init(&failing, n, true);
		error = rea_budget_new(&defaults, 8, &failing.alloc, &budget, NULL);
		if (error == 0)
			break;
		assert_int_equal(error, REA_ERR_NOMEM);
		assert_ptr_equal(budget, (void *)1);
		assert_int_equal(failing.live, 0);
	}
	assert_true(n > 0);
	/* Nothing else allocates. */
	deposit(budget, 100, S(1));
	assert_int_equal(drain(budget, S(1)), 120);
	rea_budget_free(budget);
	assert_int_equal(failing.live, 0);
	rea_budget_free(NULL);
}

static void the_limit(void **state)
{
	struct rea_retry_limit limit;

	(void)state;
	rea_retry_limit_init(&limit, 2);
	assert_false(rea_retry_limit_full(&limit));
	assert_true(rea_retry_limit_acquire(&limit));
	assert_true(rea_retry_limit_acquire(&limit));
	assert_true(rea_retry_limit_full(&limit));
	assert_false(rea_retry_limit_acquire(&limit));
	assert_int_equal(rea_retry_limit_in_use(&limit), 2);
	/* Lowered under what is in use: nothing new until enough came back. */
	rea_retry_limit_configure(&limit, 1);
	rea_retry_limit_release(&limit);
	assert_false(rea_retry_limit_acquire(&limit));
	rea_retry_limit_release(&limit);
	assert_true(rea_retry_limit_acquire(&limit));
	rea_retry_limit_configure(&limit, 2);
	assert_true(rea_retry_limit_acquire(&limit));
	rea_retry_limit_release(&limit);
	rea_retry_limit_release(&limit);
	assert_int_equal(rea_retry_limit_in_use(&limit), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_reserve_and_one_in_five),
	    cmocka_unit_test(no_ratio_is_rounded),
	    cmocka_unit_test(nothing_overflows),
	    cmocka_unit_test(what_leaves_the_window_leaves_on_both_sides),
	    cmocka_unit_test(a_steady_stream_gets_its_share_every_second),
	    cmocka_unit_test(a_refund_gives_back_what_was_taken),
	    cmocka_unit_test(a_refund_knows_its_time),
	    cmocka_unit_test(an_emptied_slot_costs_no_other),
	    cmocka_unit_test(clocks_that_disagree),
	    cmocka_unit_test(new_numbers_for_a_living_budget),
	    cmocka_unit_test(property_the_same_as_a_plain_ledger),
	    cmocka_unit_test(wrong_numbers_are_refused),
	    cmocka_unit_test(out_of_memory),
	    cmocka_unit_test(the_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
