/* The budget rules with tokens: gRPC's throttle and the AWS SDKs' quota, with their published vectors. */
#include <rea/budget.h>
#include <rea/error.h>
#include <rea/random.h>
#include <rea/time.h>

#include "../fail_alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* No rule here looks at the time. */
#define NOW 0

static struct rea_budget_policy grpc(uint32_t max_tokens, uint32_t token_ratio_permille)
{
	return (struct rea_budget_policy){
	    .rule = REA_BUDGET_GRPC, .max_tokens = max_tokens, .token_ratio_permille = token_ratio_permille};
}

static struct rea_budget_policy aws(uint32_t transient, uint32_t timeout, uint32_t throttling)
{
	return (struct rea_budget_policy){.rule = REA_BUDGET_AWS,
	    .capacity = 500,
	    .cost_transient = transient,
	    .cost_timeout = timeout,
	    .cost_throttling = throttling};
}

static struct rea_budget *new_budget(struct rea_budget_policy policy)
{
	struct rea_budget *budget = NULL;

	assert_int_equal(rea_budget_new(&policy, 2, NULL, &budget, NULL), 0);
	return budget;
}

static void report(struct rea_budget *budget, uint32_t times, enum rea_budget_result result)
{
	for (uint32_t i = 0; i < times; i++)
		rea_budget_report(budget, i % 2, result, NULL, NOW);
}

/* ---- grpc ---- */

/* One failure and its decision. */
static bool fail_and_ask(struct rea_budget *budget)
{
	struct rea_budget_lease lease = {.held = false};
	bool permitted, granted;

	rea_budget_report(budget, 0, REA_BUDGET_TRANSIENT, NULL, NOW);
	permitted = rea_budget_permits(budget, REA_BUDGET_TRANSIENT, NOW);
	granted = rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, NOW, &lease);
	assert_int_equal(granted, permitted);
	assert_int_equal(lease.held, granted);
	return granted;
}

static void grpc_four_failures_may_retry_the_fifth_may_not(void **state)
{
	struct rea_budget *budget = new_budget(grpc(10, 100));

	(void)state;
	for (uint32_t left = 4; left > 0; left--) {
		assert_int_equal(rea_budget_available(budget, NOW), left);
		assert_true(fail_and_ask(budget));
	}
	assert_int_equal(rea_budget_available(budget, NOW), 0);
	assert_false(fail_and_ask(budget)); /* 5.0 is not above 5 */
	assert_false(fail_and_ask(budget));
	rea_budget_free(budget);
}

static void grpc_from_five(void **state)
{
	(void)state;
	for (uint32_t successes = 10; successes <= 11; successes++) {
		struct rea_budget *budget = new_budget(grpc(10, 100));

		report(budget, 5, REA_BUDGET_TRANSIENT);
		report(budget, successes, REA_BUDGET_SUCCESS);
		assert_int_equal(fail_and_ask(budget), successes == 11);
		rea_budget_free(budget);
	}
}

/* Ratios keep their three decimals. */
static void grpc_counts_thousandths(void **state)
{
	static const struct {
		uint32_t permille, successes;
	} rows[] = {{1, 1001}, {333, 4}, {500, 3}, {999, 2}, {1000, 2}, {1001, 1}, {999999, 1}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rea_budget *budget = new_budget(grpc(10, rows[i].permille));

		report(budget, 5, REA_BUDGET_TRANSIENT);
		report(budget, rows[i].successes - 1, REA_BUDGET_SUCCESS);
		assert_false(fail_and_ask(budget));
		rea_budget_free(budget);

		budget = new_budget(grpc(10, rows[i].permille));
		report(budget, 5, REA_BUDGET_TRANSIENT);
		report(budget, rows[i].successes, REA_BUDGET_SUCCESS);
		assert_true(fail_and_ask(budget));
		rea_budget_free(budget);
	}
}

/* The level stays in [0, max]: a long outage is forgotten as fast as a short one, and calm is not hoarded. */
static void grpc_level_is_clamped(void **state)
{
	struct rea_budget *budget = new_budget(grpc(10, 100));

	(void)state;
	report(budget, 1000, REA_BUDGET_SUCCESS);
	assert_int_equal(rea_budget_available(budget, NOW), 4);
	report(budget, 1000, REA_BUDGET_THROTTLING);
	report(budget, 60, REA_BUDGET_SUCCESS);
	assert_false(fail_and_ask(budget)); /* 6.0 - 1 */
	report(budget, 11, REA_BUDGET_SUCCESS);
	assert_true(fail_and_ask(budget)); /* 6.1 - 1 */
	rea_budget_free(budget);
}

static void grpc_charges_every_failure_but_what_tells_nothing(void **state)
{
	struct rea_budget *budget = new_budget(grpc(10, 100));
	struct rea_budget_lease lease;

	(void)state;
	report(budget, 100, REA_BUDGET_NEUTRAL);
	assert_int_equal(rea_budget_available(budget, NOW), 4);
	report(budget, 1, REA_BUDGET_TIMEOUT);
	report(budget, 1, REA_BUDGET_THROTTLING);
	report(budget, 1, REA_BUDGET_TRANSIENT);
	assert_int_equal(rea_budget_available(budget, NOW), 1);
	/* Neither a deposit nor a retry, sent or not, moves the level. */
	rea_budget_deposit(budget, 0, NOW);
	assert_true(rea_budget_withdraw(budget, REA_BUDGET_TIMEOUT, NOW, &lease));
	rea_budget_refund(budget, &lease, NOW);
	assert_false(lease.held);
	assert_int_equal(rea_budget_available(budget, NOW), 1);
	/* A success counts whatever attempt it was. */
	assert_true(rea_budget_withdraw(budget, REA_BUDGET_TIMEOUT, NOW, &lease));
	for (int i = 0; i < 30; i++)
		rea_budget_report(budget, 0, REA_BUDGET_SUCCESS, &lease, NOW);
	assert_int_equal(rea_budget_available(budget, NOW), 4);
	rea_budget_free(budget);
}

static void grpc_a_new_maximum_moves_the_level_in_proportion(void **state)
{
	struct rea_budget_policy policy = grpc(10, 100);
	struct rea_budget *budget = new_budget(policy);

	(void)state;
	report(budget, 2, REA_BUDGET_TRANSIENT); /* 8 of 10 */
	policy.max_tokens = 1000;                /* 800 */
	rea_budget_configure(budget, &policy);
	assert_int_equal(rea_budget_available(budget, NOW), 299);
	policy.max_tokens = 3; /* 2.4 */
	rea_budget_configure(budget, &policy);
	assert_int_equal(rea_budget_available(budget, NOW), 0);
	report(budget, 1, REA_BUDGET_SUCCESS); /* 2.5 */
	assert_int_equal(rea_budget_available(budget, NOW), 0);
	report(budget, 1, REA_BUDGET_SUCCESS); /* 2.6 - 1 is above 1.5 */
	assert_int_equal(rea_budget_available(budget, NOW), 1);
	policy.token_ratio_permille = 400;
	rea_budget_configure(budget, &policy);
	assert_int_equal(rea_budget_available(budget, NOW), 1);
	report(budget, 100, REA_BUDGET_TRANSIENT);
	policy.max_tokens = 10; /* 0 stays 0 */
	rea_budget_configure(budget, &policy);
	report(budget, 15, REA_BUDGET_SUCCESS);
	assert_false(fail_and_ask(budget)); /* 6.0 - 1 */
	rea_budget_free(budget);
}

/* ---- aws ---- */

/* The tokens, seen through a rule where a retry costs one. */
static uint64_t balance(struct rea_budget *budget, const struct rea_budget_policy *policy)
{
	struct rea_budget_policy ones = *policy;
	uint64_t tokens;

	ones.cost_transient = 1;
	rea_budget_configure(budget, &ones);
	tokens = rea_budget_available(budget, NOW);
	rea_budget_configure(budget, policy);
	return tokens;
}

struct outage {
	uint32_t full_calls, retries;
};

/* Calls of three attempts that all fail. */
static struct outage run_outage(struct rea_budget *budget, enum rea_budget_result failure, uint32_t calls)
{
	struct outage seen = {0, 0};

	for (uint32_t i = 0; i < calls; i++) {
		struct rea_budget_lease lease = {.held = false};
		uint32_t retries = 0;

		rea_budget_report(budget, 0, failure, &lease, NOW);
		while (retries < 2 && rea_budget_withdraw(budget, failure, NOW, &lease)) {
			retries++;
			rea_budget_report(budget, 0, failure, &lease, NOW);
			assert_false(lease.held);
		}
		seen.retries += retries;
		/* Once it is empty it stays so. */
		assert_true(retries < 2 || seen.full_calls == i);
		seen.full_calls += retries == 2;
	}
	return seen;
}

static void aws_total_outage(void **state)
{
	static const struct {
		uint32_t transient, timeout;
		enum rea_budget_result failure;
		uint32_t full_calls, retries, left;
	} rows[] = {
	    {5, 10, REA_BUDGET_TRANSIENT, 50, 100, 0},
	    {5, 10, REA_BUDGET_TIMEOUT, 25, 50, 0},
	    {5, 10, REA_BUDGET_THROTTLING, 50, 100, 0},
	    {14, 14, REA_BUDGET_TRANSIENT, 17, 35, 10},
	    {14, 14, REA_BUDGET_TIMEOUT, 17, 35, 10},
	    {14, 14, REA_BUDGET_THROTTLING, 50, 100, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rea_budget_policy policy = aws(rows[i].transient, rows[i].timeout, 5);
		struct rea_budget *budget = new_budget(policy);
		struct outage seen = run_outage(budget, rows[i].failure, 60);

		assert_int_equal(seen.full_calls, rows[i].full_calls);
		assert_int_equal(seen.retries, rows[i].retries);
		assert_int_equal(balance(budget, &policy), rows[i].left);
		rea_budget_free(budget);
	}
}

static void aws_clean_first_tries_fill_it(void **state)
{
	static const uint32_t costs[] = {5, 14};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct rea_budget *budget = new_budget(aws(1, 1, costs[i]));
		struct rea_budget_lease lease;

		while (rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, NOW, &lease))
			;
		report(budget, costs[i] - 1, REA_BUDGET_SUCCESS);
		assert_false(rea_budget_withdraw(budget, REA_BUDGET_THROTTLING, NOW, &lease));
		report(budget, 1, REA_BUDGET_SUCCESS);
		assert_true(rea_budget_permits(budget, REA_BUDGET_THROTTLING, NOW));
		assert_true(rea_budget_withdraw(budget, REA_BUDGET_THROTTLING, NOW, &lease));
		assert_false(rea_budget_permits(budget, REA_BUDGET_TRANSIENT, NOW));
		rea_budget_free(budget);
	}
}

static void aws_a_success_returns_the_last_lease_only(void **state)
{
	struct rea_budget_policy policy = aws(5, 10, 7);
	struct rea_budget *budget = new_budget(policy);
	struct rea_budget_lease lease;

	(void)state;
	assert_true(rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, NOW, &lease));
	rea_budget_report(budget, 0, REA_BUDGET_TIMEOUT, &lease, NOW);
	assert_int_equal(balance(budget, &policy), 495);
	assert_true(rea_budget_withdraw(budget, REA_BUDGET_TIMEOUT, NOW, &lease));
	assert_int_equal(balance(budget, &policy), 485);
	rea_budget_report(budget, 0, REA_BUDGET_SUCCESS, &lease, NOW);
	assert_int_equal(balance(budget, &policy), 495);
	/* Its lease is settled: what comes after it counts as a first try, and there is nothing to give back. */
	rea_budget_refund(budget, &lease, NOW);
	assert_int_equal(balance(budget, &policy), 495);
	rea_budget_report(budget, 0, REA_BUDGET_SUCCESS, &lease, NOW);
	assert_int_equal(balance(budget, &policy), 496);
	rea_budget_free(budget);
}

static void aws_a_retry_that_is_never_sent_costs_nothing(void **state)
{
	struct rea_budget_policy policy = aws(14, 14, 5);
	struct rea_budget *budget = new_budget(policy);
	struct rea_budget_lease lease, copy;

	(void)state;
	assert_true(rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, NOW, &lease));
	assert_int_equal(balance(budget, &policy), 486);
	rea_budget_refund(budget, &lease, NOW);
	rea_budget_refund(budget, &lease, NOW);
	assert_int_equal(balance(budget, &policy), 500);
	/* And the other end: what tells nothing settles the lease without giving it back. */
	assert_true(rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, NOW, &lease));
	rea_budget_report(budget, 0, REA_BUDGET_NEUTRAL, &lease, NOW);
	rea_budget_refund(budget, &lease, NOW);
	assert_int_equal(balance(budget, &policy), 486);
	/* What is denied leaves the caller's lease alone. */
	memset(&lease, 0x5a, sizeof(lease));
	copy = lease;
	while (rea_budget_withdraw(budget, REA_BUDGET_THROTTLING, NOW, &lease))
		copy = lease;
	assert_memory_equal(&lease, &copy, sizeof(lease));
	rea_budget_free(budget);
}

static void aws_less_than_the_cost_is_denied_and_stays(void **state)
{
	struct rea_budget_policy policy = aws(7, 5, 3);
	struct rea_budget *budget = new_budget(policy);
	struct rea_budget_lease lease;

	(void)state;
	for (int i = 0; i < 71; i++)
		assert_true(rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, NOW, &lease));
	assert_int_equal(balance(budget, &policy), 3);
	assert_false(rea_budget_withdraw(budget, REA_BUDGET_TIMEOUT, NOW, &lease));
	assert_int_equal(balance(budget, &policy), 3);
	assert_true(rea_budget_withdraw(budget, REA_BUDGET_THROTTLING, NOW, &lease));
	assert_int_equal(balance(budget, &policy), 0);
	assert_false(rea_budget_withdraw(budget, REA_BUDGET_THROTTLING, NOW, &lease));
	rea_budget_free(budget);
}

static void aws_a_million_successes_are_500(void **state)
{
	struct rea_budget_policy policy = aws(14, 14, 5);
	struct rea_budget *budget = new_budget(policy);
	struct rea_budget_lease lease;

	(void)state;
	while (rea_budget_withdraw(budget, REA_BUDGET_THROTTLING, NOW, &lease))
		;
	report(budget, 1000000, REA_BUDGET_SUCCESS);
	assert_int_equal(balance(budget, &policy), 500);
	/* A lease that comes back to a full quota is lost. */
	assert_true(rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, NOW, &lease));
	report(budget, 10, REA_BUDGET_SUCCESS);
	rea_budget_refund(budget, &lease, NOW);
	assert_int_equal(balance(budget, &policy), 500);
	rea_budget_free(budget);
}

static void aws_new_numbers(void **state)
{
	struct rea_budget_policy policy = aws(14, 14, 5);
	struct rea_budget *budget = new_budget(policy);
	struct rea_budget_lease lease;

	(void)state;
	assert_true(rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, NOW, &lease));
	policy.capacity = 1000;
	rea_budget_configure(budget, &policy);
	assert_int_equal(balance(budget, &policy), 972);
	policy.cost_transient = 100;
	rea_budget_configure(budget, &policy);
	assert_int_equal(rea_budget_available(budget, NOW), 9);
	/* The lease returns what it cost. */
	rea_budget_refund(budget, &lease, NOW);
	assert_int_equal(balance(budget, &policy), 986);
	rea_budget_free(budget);
}

/* ---- from one rule to another ---- */

static void another_rule_begins_full_and_old_leases_stay_right(void **state)
{
	struct rea_budget_policy ratio = {.rule = REA_BUDGET_RATIO, .reserve_per_s = 1, .window_ms = 10000};
	struct rea_budget_policy quota = aws(500, 14, 5), throttle = grpc(10, 100);
	struct rea_budget *budget = new_budget(ratio);
	struct rea_budget_lease from_ratio, from_aws, from_grpc;

	(void)state;
	assert_true(rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, NOW, &from_ratio));
	assert_int_equal(rea_budget_available(budget, NOW), 9);
	rea_budget_configure(budget, &quota);
	assert_int_equal(balance(budget, &quota), 500);
	assert_true(rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, NOW, &from_aws));
	/* The success of a retry that was paid for elsewhere is no first try. */
	rea_budget_report(
	    budget, 0, REA_BUDGET_SUCCESS, &(struct rea_budget_lease){.rule = REA_BUDGET_GRPC, .held = true}, NOW);
	assert_int_equal(balance(budget, &quota), 0);
	rea_budget_configure(budget, &throttle);
	assert_true(rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, NOW, &from_grpc));
	report(budget, 7, REA_BUDGET_TRANSIENT);
	assert_int_equal(rea_budget_available(budget, NOW), 0);
	/* Back: the spent quota is full again, and what comes back late is not too much. */
	rea_budget_configure(budget, &quota);
	rea_budget_refund(budget, &from_aws, NOW);
	rea_budget_refund(budget, &from_grpc, NOW);
	assert_int_equal(balance(budget, &quota), 500);
	rea_budget_configure(budget, &throttle);
	assert_int_equal(rea_budget_available(budget, NOW), 4);
	/* A window goes on by itself. */
	rea_budget_configure(budget, &ratio);
	assert_int_equal(rea_budget_available(budget, NOW), 9);
	rea_budget_refund(budget, &from_ratio, NOW);
	assert_int_equal(rea_budget_available(budget, NOW), 10);
	rea_budget_free(budget);
}

/* ---- against a plain ledger ---- */

static void property_the_same_as_a_plain_ledger(void **state)
{
	enum { OPERATIONS = 20000, LEASES = 8 };
	struct rea_random random;

	(void)state;
	for (uint64_t seed = 0; seed < 20; seed++) {
		struct rea_budget_policy policy = aws(1 + (uint32_t)seed, 20, 5), other = grpc(10 + (uint32_t)seed, 70);
		struct rea_budget *quota = new_budget(policy), *throttle = new_budget(other);
		struct rea_budget_lease leases[LEASES] = {{.held = false}}, unused;
		int64_t tokens = 500, half = other.max_tokens * 500, milli = 2 * half;

		rea_random_init(&random, seed);
		for (int i = 0; i < OPERATIONS; i++) {
			static const enum rea_budget_result kinds[] = {
			    REA_BUDGET_TRANSIENT, REA_BUDGET_TIMEOUT, REA_BUDGET_THROTTLING};
			struct rea_budget_lease *lease = &leases[rea_random_below(&random, LEASES)];
			uint64_t kind = rea_random_below(&random, 3);
			const int64_t cost[] = {(int64_t)seed + 1, 20, 5};

			if (!lease->held) {
				bool granted = tokens >= cost[kind];

				if (rea_random_below(&random, 3) > 0) {
					rea_budget_report(quota, 1, REA_BUDGET_SUCCESS, NULL, NOW);
					tokens += tokens < 500;
					continue;
				}
				assert_int_equal(rea_budget_withdraw(quota, kinds[kind], NOW, lease), granted);
				tokens -= granted ? cost[kind] : 0;
			} else {
				uint64_t end = rea_random_below(&random, 3);

				if (end < 2)
					tokens += lease->cost;
				if (end == 0)
					rea_budget_refund(quota, lease, NOW);
				else
					rea_budget_report(quota, 1, end == 1 ? REA_BUDGET_SUCCESS : kinds[kind], lease, NOW);
				assert_false(lease->held);
				tokens = tokens < 500 ? tokens : 500;
			}
			assert_int_equal(rea_budget_available(quota, NOW), tokens / ((int64_t)seed + 1));

			if (rea_random_below(&random, 14) > 0) {
				rea_budget_report(throttle, 0, REA_BUDGET_SUCCESS, NULL, NOW);
				milli += milli + 70 < 2 * half ? 70 : 2 * half - milli;
			} else {
				rea_budget_report(throttle, 0, kinds[kind], NULL, NOW);
				milli -= milli < 1000 ? milli : 1000;
			}
			assert_int_equal(rea_budget_withdraw(throttle, kinds[kind], NOW, &unused), milli > half);
		}
		rea_budget_free(quota);
		rea_budget_free(throttle);
	}
}

/* ---- what is refused ---- */

static void wrong_numbers_are_refused(void **state)
{
	static const struct {
		struct rea_budget_policy policy;
		const char *message;
	} rows[] = {
	    {{.rule = REA_BUDGET_GRPC, .max_tokens = 0, .token_ratio_permille = 100},
		"the budget's max-tokens is 0; it must be at least 1 and at most 1000"},
	    {{.rule = REA_BUDGET_GRPC, .max_tokens = 1001, .token_ratio_permille = 100},
		"the budget's max-tokens is 1001; it must be at least 1 and at most 1000"},
	    {{.rule = REA_BUDGET_GRPC, .max_tokens = 10, .token_ratio_permille = 0},
		"the budget's token-ratio is 0; it must be at least 0.001 and at most 1000"},
	    {{.rule = REA_BUDGET_GRPC, .max_tokens = 10, .token_ratio_permille = 1000001},
		"the budget's token-ratio is 1000.001; it must be at least 0.001 and at most 1000"},
	    {{.rule = REA_BUDGET_AWS, .capacity = 0, .cost_transient = 1, .cost_timeout = 1, .cost_throttling = 1},
		"the budget's capacity is 0; it must be at least 1 and at most 1000000"},
	    {{.rule = REA_BUDGET_AWS, .capacity = 1000001, .cost_transient = 1, .cost_timeout = 1, .cost_throttling = 1},
		"the budget's capacity is 1000001; it must be at least 1 and at most 1000000"},
	    {{.rule = REA_BUDGET_AWS, .capacity = 20, .cost_transient = 21, .cost_timeout = 1, .cost_throttling = 1},
		"the budget's cost-transient is 21; it must be at least 1 and at most 20 (capacity)"},
	    {{.rule = REA_BUDGET_AWS, .capacity = 20, .cost_transient = 1, .cost_timeout = 0, .cost_throttling = 1},
		"the budget's cost-timeout is 0; it must be at least 1 and at most 20 (capacity)"},
	    {{.rule = REA_BUDGET_AWS, .capacity = 20, .cost_transient = 1, .cost_timeout = 1, .cost_throttling = 0},
		"the budget's cost-throttling is 0; it must be at least 1 and at most 20 (capacity)"},
	    {{.rule = (enum rea_budget_rule)4}, "the budget's rule is 4; it must be evidence, ratio, grpc or aws"},
	};
	struct rea_budget *budget = (void *)1;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rea_error_info info;

		assert_int_equal(rea_budget_new(&rows[i].policy, 1, NULL, &budget, NULL), REA_ERR_INVALID);
		assert_int_equal(rea_budget_new(&rows[i].policy, 1, NULL, &budget, &info), REA_ERR_INVALID);
		assert_ptr_equal(budget, (void *)1);
		assert_string_equal(info.message, rows[i].message);
		assert_int_equal(rea_budget_policy_validate(&rows[i].policy, NULL), REA_ERR_INVALID);
		assert_int_equal(rea_budget_policy_validate(&rows[i].policy, &info), REA_ERR_INVALID);
		assert_string_equal(info.key, "budget");
		assert_string_equal(info.message, rows[i].message);
	}
}

/* The bounds themselves are legal, and the keys of other rules are nobody's business. */
static void the_bounds_are_legal(void **state)
{
	static const struct rea_budget_policy rows[] = {
	    {.rule = REA_BUDGET_GRPC, .max_tokens = 1, .token_ratio_permille = 1},
	    {.rule = REA_BUDGET_GRPC, .max_tokens = 1000, .token_ratio_permille = 1000000},
	    {.rule = REA_BUDGET_AWS, .capacity = 1, .cost_transient = 1, .cost_timeout = 1, .cost_throttling = 1},
	    {.rule = REA_BUDGET_AWS, .capacity = 1000000, .cost_transient = 1000000, .cost_timeout = 1000000, .cost_throttling = 1000000},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rea_budget *budget = new_budget(rows[i]);

		assert_int_equal(rea_budget_available(budget, NOW), i == 1 ? 499 : i > 1);
		report(budget, 3, REA_BUDGET_SUCCESS);
		assert_int_equal(rea_budget_available(budget, NOW), i == 1 ? 499 : i > 1);
		rea_budget_free(budget);
	}
}

static void out_of_memory(void **state)
{
	struct rea_budget_policy policy = aws(14, 14, 5);
	struct rea_budget *budget = (void *)1;
	struct rea_budget_lease lease;
	struct fail_alloc failing;

	(void)state;
	fail_alloc_init(&failing, 0, false);
	assert_int_equal(rea_budget_new(&policy, 8, &failing.alloc, &budget, NULL), REA_ERR_NOMEM);
	assert_ptr_equal(budget, (void *)1);
	assert_int_equal(rea_budget_new(&policy, 8, &failing.alloc, &budget, NULL), 0);
	fail_alloc_init(&failing, 0, true);
	failing.live = 1;
	/* Nothing else allocates. */
	assert_true(rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, NOW, &lease));
	rea_budget_report(budget, 7, REA_BUDGET_SUCCESS, &lease, NOW);
	rea_budget_free(budget);
	assert_int_equal(failing.failed, 0);
	assert_int_equal(failing.live, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(grpc_four_failures_may_retry_the_fifth_may_not),
	    cmocka_unit_test(grpc_from_five),
	    cmocka_unit_test(grpc_counts_thousandths),
	    cmocka_unit_test(grpc_level_is_clamped),
	    cmocka_unit_test(grpc_charges_every_failure_but_what_tells_nothing),
	    cmocka_unit_test(grpc_a_new_maximum_moves_the_level_in_proportion),
	    cmocka_unit_test(aws_total_outage),
	    cmocka_unit_test(aws_clean_first_tries_fill_it),
	    cmocka_unit_test(aws_a_success_returns_the_last_lease_only),
	    cmocka_unit_test(aws_a_retry_that_is_never_sent_costs_nothing),
	    cmocka_unit_test(aws_less_than_the_cost_is_denied_and_stays),
	    cmocka_unit_test(aws_a_million_successes_are_500),
	    cmocka_unit_test(aws_new_numbers),
	    cmocka_unit_test(another_rule_begins_full_and_old_leases_stay_right),
	    cmocka_unit_test(property_the_same_as_a_plain_ledger),
	    cmocka_unit_test(wrong_numbers_are_refused),
	    cmocka_unit_test(the_bounds_are_legal),
	    cmocka_unit_test(out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
