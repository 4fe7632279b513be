/* Budget and limit under many threads: never more than there is, and the books balance. Meant to run under the thread sanitizer too. */
#include <rea/budget.h>
#include <rea/random.h>
#include <rea/time.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { THREADS = 4, ROUNDS = 20000, LIMIT = 3, RESERVE_PER_S = 100 };

static struct rea_budget *budget;
static struct rea_retry_limit limit;
static uint32_t in_flight, in_flight_max;

struct worker {
	pthread_t thread;
	uint32_t shard;
	uint32_t kept, refunded;
	uint32_t held;
};

/* All in one slot of time, so that the sums are exact at every moment. */
#define NOW_NS (1000 * REA_NS_PER_S)

static void note_in_flight(void)
{
	uint32_t now = __atomic_add_fetch(&in_flight, 1, __ATOMIC_SEQ_CST),
		 seen = __atomic_load_n(&in_flight_max, __ATOMIC_SEQ_CST);

	while (now > seen &&
	       !__atomic_compare_exchange_n(&in_flight_max, &seen, now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	struct rea_budget_lease lease;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		rea_budget_deposit(budget, worker->shard, NOW_NS);
		if (rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, NOW_NS, &lease)) {
			worker->kept++;
			if (i % 3 == 0) {
				rea_budget_refund(budget, &lease, NOW_NS);
				worker->kept--;
				worker->refunded++;
			}
		}
		if (!rea_retry_limit_acquire(&limit))
			continue;
		note_in_flight();
		worker->held++;
		__atomic_sub_fetch(&in_flight, 1, __ATOMIC_SEQ_CST);
		rea_retry_limit_release(&limit);
	}
	return NULL;
}

static void the_books_balance(void **state)
{
	struct rea_budget_policy policy = {.ratio_permille = 200, .reserve_per_s = RESERVE_PER_S, .window_ms = 10000};
	const uint32_t allowed = THREADS * ROUNDS / 5 + RESERVE_PER_S * 10;
	struct worker workers[THREADS] = {0};
	struct rea_budget_lease lease;
	uint64_t kept = 0;

	(void)state;
	assert_int_equal(rea_budget_new(&policy, THREADS, NULL, &budget, NULL), 0);
	rea_retry_limit_init(&limit, LIMIT);
	for (uint32_t i = 0; i < THREADS; i++) {
		workers[i].shard = i;
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
		kept += workers[i].kept;
		assert_true(workers[i].held > 0);
	}
	assert_true(kept <= allowed);
	assert_true(rea_budget_available(budget, NOW_NS) == allowed - kept);
	while (rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, NOW_NS, &lease))
		kept++;
	assert_true(kept == allowed);
	assert_in_range(in_flight_max, 1, LIMIT);
	assert_int_equal(rea_retry_limit_in_use(&limit), 0);
	rea_budget_free(budget);
}

/* While time goes on and the numbers change, a reader sees only sums that can be. */
static void *turn_slots(void *arg)
{
	const uint32_t *shard = arg;

	for (uint32_t i = 0; i < ROUNDS; i++)
		rea_budget_deposit(budget, *shard, NOW_NS + i * 10 * REA_NS_PER_MS);
	return NULL;
}

static void a_reader_never_sees_a_torn_slot(void **state)
{
	struct rea_budget_policy policy = {.ratio_permille = 1000, .reserve_per_s = 0, .window_ms = 10000};
	uint32_t shards[2] = {0, 1};
	pthread_t threads[2];

	(void)state;
	assert_int_equal(rea_budget_new(&policy, 2, NULL, &budget, NULL), 0);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, turn_slots, &shards[i]), 0);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		/* 100 deposits a second and shard; the reader's time is anywhere, and at most ten slots count. */
		assert_in_range(rea_budget_available(budget, NOW_NS + i * 10 * REA_NS_PER_MS), 0, 2000);
		if (i % 1000 == 0)
			rea_budget_configure(budget, &policy);
	}
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	rea_budget_free(budget);
}

/* A budget of one retry, fought over: whoever has it has it alone. */
static void *take_the_last(void *arg)
{
	(void)arg;
	for (uint32_t taken = 0; taken < ROUNDS;) {
		struct rea_budget_lease lease;

		if (!rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, NOW_NS, &lease))
			continue;
		note_in_flight();
		taken++;
		__atomic_sub_fetch(&in_flight, 1, __ATOMIC_SEQ_CST);
		rea_budget_refund(budget, &lease, NOW_NS);
	}
	return NULL;
}

static void the_last_retry_goes_to_one(void **state)
{
	static const struct rea_budget_policy policies[] = {
	    {.rule = REA_BUDGET_RATIO, .reserve_per_s = 1, .window_ms = 1000},
	    {.rule = REA_BUDGET_AWS, .capacity = 1, .cost_transient = 1, .cost_timeout = 1, .cost_throttling = 1},
	};

	(void)state;
	for (size_t rule = 0; rule < 2; rule++) {
		pthread_t threads[THREADS];

		in_flight = in_flight_max = 0;
		assert_int_equal(rea_budget_new(&policies[rule], 1, NULL, &budget, NULL), 0);
		for (size_t i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, take_the_last, NULL), 0);
		for (size_t i = 0; i < THREADS; i++)
			assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(in_flight_max, 1);
		assert_true(rea_budget_available(budget, NOW_NS) == 1);
		rea_budget_free(budget);
	}
}

/* Under evidence: an outage seen by all threads, with a reload and a reader beside them. What is granted beyond the evidence is a tenth and two. */
static void *bear_an_outage(void *arg)
{
	struct worker *worker = arg;
	struct rea_budget_lease lease;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint64_t now_ns = NOW_NS + i * REA_NS_PER_MS;

		rea_budget_deposit(budget, worker->shard, now_ns);
		rea_budget_report(budget, worker->shard, REA_BUDGET_TRANSIENT, NULL, now_ns);
		worker->kept += rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, now_ns, &lease);
	}
	return NULL;
}

static void an_outage_seen_by_all(void **state)
{
	const struct rea_budget_policy policy = {.rule = REA_BUDGET_EVIDENCE};
	const uint32_t firsts = THREADS * ROUNDS;
	struct worker workers[THREADS] = {0};
	struct rea_budget_view view;
	uint32_t kept = 0;

	(void)state;
	assert_int_equal(rea_budget_new(&policy, THREADS, NULL, &budget, NULL), 0);
	for (uint32_t i = 0; i < THREADS; i++) {
		workers[i].shard = i;
		assert_int_equal(pthread_create(&workers[i].thread, NULL, bear_an_outage, &workers[i]), 0);
	}
	for (uint32_t i = 0; i < 1000; i++) {
		rea_budget_look(budget, NOW_NS, &view);
		assert_true(view.tokens >= 0 && view.tokens <= 2 && view.success >= 0 && view.success <= 1);
		rea_budget_configure(budget, &policy);
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
		kept += workers[i].kept;
	}
	rea_budget_look(budget, NOW_NS + ROUNDS * REA_NS_PER_MS, &view);
	assert_true(view.success < 1e-9);
	/* The first twelve failures let no more than twelve through. */
	assert_in_range(kept, firsts / 10 - 2 * THREADS, firsts / 10 + 2 + 12);
	rea_budget_free(budget);
}

/*
 * R-L12 (f): the quota under mixed operations. Its level hovers far below its capacity, where nothing is cut off, so that every operation counts.
 */
enum { QUOTA_THREADS = 8, QUOTA_OPERATIONS = 1000000 / QUOTA_THREADS, CAPACITY = 500, COST = 5 };

struct ledger {
	pthread_t thread;
	uint32_t shard;
	int64_t change; /* of the tokens, by this thread */
	uint64_t granted, denied;
	uint64_t out_of_bounds; /* levels that cannot be */
};

static void *spend_and_earn(void *arg)
{
	struct ledger *ledger = arg;
	struct rea_random random;

	rea_random_init(&random, ledger->shard);
	for (uint32_t i = 0; i < QUOTA_OPERATIONS; i++) {
		struct rea_budget_lease lease = {.held = false};
		uint64_t what = rea_random_below(&random, 8);

		if (what < 4) {
			rea_budget_report(budget, ledger->shard, REA_BUDGET_SUCCESS, NULL, NOW_NS);
			ledger->change++;
			continue;
		}
		if (!rea_budget_withdraw(budget, REA_BUDGET_THROTTLING, NOW_NS, &lease)) {
			ledger->denied++;
			continue;
		}
		ledger->granted++;
		if (what == 4)
			rea_budget_refund(budget, &lease, NOW_NS);
		else if (what == 5)
			rea_budget_report(budget, ledger->shard, REA_BUDGET_SUCCESS, &lease, NOW_NS);
		else
			ledger->change -= COST;
		/* A cost of one in this test's policy shows the tokens. */
		ledger->out_of_bounds += rea_budget_available(budget, NOW_NS) >= CAPACITY;
	}
	return NULL;
}

static struct rea_budget_policy quota_policy(uint32_t capacity)
{
	return (struct rea_budget_policy){
	    .rule = REA_BUDGET_AWS, .capacity = capacity, .cost_transient = 1, .cost_timeout = COST, .cost_throttling = COST};
}

static void l12_f_the_quota_equals_the_serial_ledger(void **state)
{
	struct rea_budget_policy policy = quota_policy(CAPACITY);
	struct ledger ledgers[QUOTA_THREADS] = {{.shard = 0}};
	int64_t expected = CAPACITY - 90 * COST;
	struct rea_budget_lease lease;

	(void)state;
	assert_int_equal(rea_budget_new(&policy, QUOTA_THREADS, NULL, &budget, NULL), 0);
	for (int i = 0; i < 90; i++)
		assert_true(rea_budget_withdraw(budget, REA_BUDGET_TIMEOUT, NOW_NS, &lease));
	for (uint32_t i = 0; i < QUOTA_THREADS; i++) {
		ledgers[i].shard = i;
		assert_int_equal(pthread_create(&ledgers[i].thread, NULL, spend_and_earn, &ledgers[i]), 0);
	}
	for (uint32_t i = 0; i < QUOTA_THREADS; i++) {
		assert_int_equal(pthread_join(ledgers[i].thread, NULL), 0);
		expected += ledgers[i].change;
		assert_int_equal(ledgers[i].out_of_bounds, 0);
		assert_true(ledgers[i].granted > 1000 && ledgers[i].denied > 1000);
	}
	assert_in_range(expected, 0, CAPACITY);
	assert_true(rea_budget_available(budget, NOW_NS) == (uint64_t)expected);
	rea_budget_free(budget);
}

/* At both ends, and while the capacity changes, the level never leaves its bounds. */
static void *swing(void *arg)
{
	struct ledger *ledger = arg;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct rea_budget_lease lease = {.held = false};

		if (i / 500 % 2 == 0)
			rea_budget_report(budget, ledger->shard, REA_BUDGET_SUCCESS, NULL, NOW_NS);
		else
			(void)rea_budget_withdraw(budget, REA_BUDGET_TIMEOUT, NOW_NS, &lease);
		ledger->out_of_bounds += rea_budget_available(budget, NOW_NS) > CAPACITY;
	}
	return NULL;
}

static void the_level_stays_within_its_bounds(void **state)
{
	struct rea_budget_policy small = quota_policy(CAPACITY / 2), large = quota_policy(CAPACITY);
	struct ledger ledgers[THREADS] = {{.shard = 0}};

	(void)state;
	assert_int_equal(rea_budget_new(&large, THREADS, NULL, &budget, NULL), 0);
	for (uint32_t i = 0; i < THREADS; i++) {
		ledgers[i].shard = i;
		assert_int_equal(pthread_create(&ledgers[i].thread, NULL, swing, &ledgers[i]), 0);
	}
	for (uint32_t i = 0; i < ROUNDS; i++) {
		rea_budget_configure(budget, i % 2 ? &large : &small);
		assert_in_range(rea_budget_available(budget, NOW_NS), 0, i % 2 ? CAPACITY : CAPACITY / 2);
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(ledgers[i].thread, NULL), 0);
		assert_int_equal(ledgers[i].out_of_bounds, 0);
	}
	rea_budget_configure(budget, &large);
	for (uint32_t i = 0; i < 1000; i++)
		rea_budget_report(budget, 0, REA_BUDGET_SUCCESS, NULL, NOW_NS);
	assert_true(rea_budget_available(budget, NOW_NS) == CAPACITY);
	rea_budget_free(budget);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_books_balance),
	    cmocka_unit_test(a_reader_never_sees_a_torn_slot),
	    cmocka_unit_test(the_last_retry_goes_to_one),
	    cmocka_unit_test(an_outage_seen_by_all),
	    cmocka_unit_test(l12_f_the_quota_equals_the_serial_ledger),
	    cmocka_unit_test(the_level_stays_within_its_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
