/* Each object alone in words, at numbers that are not the defaults, so that none is left out or taken for another. */
#include <rea/explain.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MS(n) ((uint64_t)(n)*REA_NS_PER_MS)
#define S(n) ((uint64_t)(n)*REA_NS_PER_S)

/* The whole, its length, and its beginning where there is no room for more. */
#define assert_explains(function, object, now_ns, right)                                         \
	do {                                                                                     \
		char text[2048], small[20];                                                      \
                                                                                                 \
		assert_int_equal(function(object, now_ns, NULL, 0), strlen(right));              \
		assert_int_equal(function(object, now_ns, small, sizeof(small)), strlen(right)); \
		assert_int_equal(strlen(small), sizeof(small) - 1);                              \
		assert_memory_equal(small, right, sizeof(small) - 1);                            \
		assert_int_equal(function(object, now_ns, text, sizeof(text)), strlen(right));   \
		assert_string_equal(text, right);                                                \
	} while (0)

/* ---- policy ---- */

static void a_policy_by_default(void **state)
{
	struct rea_policy policy;

	(void)state;
	rea_policy_defaults(&policy);
	assert_explains(rea_policy_explain, &policy, 0,
	    "attempts: 2 (retries: 1), but retries are not enabled, on never_sent, pushback, unavailable, ambiguous\n"
	    "instances: retries at the same 0, moves to another 1, each tried once\n"
	    "permission: each call brings its own; none within a retry of a layer above\n"
	    "deadline: 3000 ms, of an attempt 1000 ms\n"
	    "backoff: 100 ms x 2 up to 1000 ms, jitter 0.2, never below 20 ms\n"
	    "replay: bodies of at most 65536 bytes\n"
	    "budget: evidence, 1 for 10 first attempts and more while retries pay and do not hurt\n"
	    "breaker: off\n");
}

static void a_policy_with_everything_set(void **state)
{
	struct rea_policy policy;

	(void)state;
	rea_policy_defaults(&policy);
	policy.enabled = true;
	policy.mode = REA_MODE_OBSERVE;
	policy.max_retry_same_instance = 2;
	policy.max_retry_next_instance = 3;
	policy.when_all_tried = REA_ALL_TRIED_CYCLE;
	policy.never_sent = REA_NEVER_SENT_ALLOW;
	policy.chain_stop = false;
	policy.retry_on = REA_OUTCOME_BIT(REA_OUTCOME_FAILED);
	policy.deadline_ns = S(7);
	policy.attempt_timeout_ns = MS(1500);
	policy.min_backoff_ns = MS(30);
	policy.max_backoff_ns = MS(400);
	policy.backoff_multiplier = 1.5;
	policy.jitter_kind = REA_JITTER_FULL;
	policy.backoff_floor_ns = MS(10);
	policy.replay_limit_bytes = 1000;
	policy.classify[0] = (struct rea_classify_rule){REA_CODE_HTTP, 409, REA_OUTCOME_UNAVAILABLE};
	policy.classify[1] = (struct rea_classify_rule){REA_CODE_GRPC, 8, REA_OUTCOME_THROTTLED};
	policy.classify_len = 2;
	policy.budget.rule = REA_BUDGET_GRPC;
	policy.breaker.enabled = true;
	policy.breaker.window_type = REA_BREAKER_TIME_BASED;
	policy.breaker.max_wait_in_half_open_ns = MS(5);
	assert_explains(rea_policy_explain, &policy, 0,
	    "attempts: 4 (retries: 3), observed only, on failed\n"
	    "instances: retries at the same 2, moves to another 3, round and round\n"
	    "permission: each call brings its own; what was never sent needs none\n"
	    "deadline: 7000 ms, of an attempt 1500 ms\n"
	    "backoff: 30 ms x 1.5 up to 400 ms, full jitter, never below 10 ms\n"
	    "replay: bodies of at most 1000 bytes\n"
	    "codes: http 409 is unavailable, grpc 8 is throttled\n"
	    "budget: grpc, 10 tokens, 0.1 back for a success\n"
	    "breaker: failures from 50 % or slow calls from 100 % (slower than 60000 ms) of the last 100 seconds, from "
	    "100 "
	    "calls on; open for 60000 ms, then 10 calls within 5 ms\n");
}

/* ---- budget ---- */

static void budgets_of_each_rule(void **state)
{
	static const struct {
		struct rea_budget_policy policy;
		const char *right; /* after a failure and a retry */
	} rows[] = {
	    {{.rule = REA_BUDGET_RATIO, .ratio_permille = 250, .reserve_per_s = 3, .window_ms = 2000},
		"budget: ratio, 0.25 of first attempts and 3 a second in 2000 ms; 5 retries left\n"},
	    {{.rule = REA_BUDGET_GRPC, .max_tokens = 12, .token_ratio_permille = 1500},
		"budget: grpc, 12 tokens, 1.5 back for a success; 4 retries left\n"},
	    {{.rule = REA_BUDGET_AWS, .capacity = 300, .cost_transient = 10, .cost_timeout = 11, .cost_throttling = 12},
		"budget: aws, 300 tokens, costs 10 transient, 11 timeout, 12 throttling; 29 retries left\n"},
	    {{.rule = REA_BUDGET_EVIDENCE},
		"budget: evidence, 1 for 10 first attempts and more while retries pay and do not hurt; 7 retries left\n"
		"evidence: success 85 %, pushback 0 %, tokens 2; in 2 s first attempts 1, retries 1, outcomes 1, "
		"timeouts 0\n"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rea_budget_lease lease;
		struct rea_budget *budget;

		assert_int_equal(rea_budget_new(&rows[i].policy, 1, NULL, &budget, NULL), 0);
		rea_budget_deposit(budget, 0, S(100));
		rea_budget_report(budget, 0, REA_BUDGET_TRANSIENT, NULL, S(100));
		assert_true(rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, S(100), &lease));
		assert_explains(rea_budget_explain, budget, S(100), rows[i].right);
		rea_budget_free(budget);
	}
}

/* Another rule: its numbers, not those of the first. */
static void a_budget_that_was_configured(void **state)
{
	struct rea_budget_policy policy = {
	    .rule = REA_BUDGET_AWS, .capacity = 300, .cost_transient = 1, .cost_timeout = 1, .cost_throttling = 1};
	struct rea_budget *budget;

	(void)state;
	assert_int_equal(rea_budget_new(&policy, 1, NULL, &budget, NULL), 0);
	policy.rule = REA_BUDGET_GRPC;
	policy.max_tokens = 8;
	policy.token_ratio_permille = 100;
	rea_budget_configure(budget, &policy);
	assert_explains(rea_budget_explain, budget, 0, "budget: grpc, 8 tokens, 0.1 back for a success; 3 retries left\n");
	rea_budget_free(budget);
}

/* Timeouts and nothing else. */
static void a_budget_that_sees_congestion(void **state)
{
	const struct rea_budget_policy policy = {.rule = REA_BUDGET_EVIDENCE};
	struct rea_budget_view view;
	struct rea_budget *budget;
	char text[512];

	(void)state;
	assert_int_equal(rea_budget_new(&policy, 1, NULL, &budget, NULL), 0);
	for (int i = 0; i < 10; i++) {
		rea_budget_deposit(budget, 0, S(100));
		rea_budget_report(budget, 0, REA_BUDGET_TIMEOUT, NULL, S(100));
	}
	rea_budget_look(budget, S(100), &view);
	assert_true(view.congested_ns > 0);
	rea_budget_explain(budget, S(100), text, sizeof(text));
	assert_non_null(strstr(text, ", congested: "));
	assert_non_null(strstr(text, " ms more; in 2 s first attempts 10, retries 0, outcomes 10, timeouts 10\n"));
	rea_budget_free(budget);
}

/* ---- breaker ---- */

static void a_breaker_in_its_states(void **state)
{
#define NUMBERS                                                                                                        \
	"circuit breaker: failures from 40 % or slow calls from 90 % (slower than 20 ms) of the last 4 calls, from 4 " \
	"calls "                                                                                                       \
	"on; open for 1000 ms, then 3 calls within 50 ms; "
	const struct rea_breaker_policy policy = {.failure_rate_threshold = 40,
	    .slow_call_rate_threshold = 90,
	    .slow_call_duration_ns = MS(20),
	    .window_size = 4,
	    .minimum_calls = 4,
	    .wait_in_open_ns = S(1),
	    .permitted_in_half_open = 3,
	    .max_wait_in_half_open_ns = MS(50)};
	struct rea_breaker_permit permit;
	struct rea_breaker *breaker;

	(void)state;
	assert_int_equal(rea_breaker_new(&policy, NULL, &breaker, NULL), 0);
	assert_true(rea_breaker_acquire(breaker, S(1), &permit));
	rea_breaker_report(breaker, &permit, REA_BREAKER_SUCCESS, MS(30), S(1));
	assert_explains(rea_breaker_explain, breaker, S(1), NUMBERS "closed, calls seen 1\n");
	for (int i = 0; i < 3; i++) {
		assert_true(rea_breaker_acquire(breaker, S(1), &permit));
		rea_breaker_report(breaker, &permit, i == 0 ? REA_BREAKER_SUCCESS : REA_BREAKER_FAILURE, MS(1), S(1));
	}
	assert_explains(rea_breaker_explain, breaker, MS(1300),
	    NUMBERS "open, for 700 ms more, calls seen 4, failing 50 %, slow 25 %\n");
	assert_true(rea_breaker_acquire(breaker, S(2), &permit));
	assert_explains(rea_breaker_explain, breaker, MS(2010),
	    NUMBERS "half_open, 2 calls left, for 40 ms more, calls seen 4, failing 50 %, slow 25 %\n");
	rea_breaker_force(breaker, REA_BREAKER_FORCED_OPEN, S(2));
	assert_explains(rea_breaker_explain, breaker, S(2), NUMBERS "forced_open, calls seen 4, failing 50 %, slow 25 %\n");
	rea_breaker_free(breaker);
#undef NUMBERS
}

/* ---- limiters ---- */

static void a_limiter_with_a_line(void **state)
{
	struct rea_limiter_waiter waiters[2] = {0};
	struct rea_limiter_options options;
	struct rea_limiter limiter;

	(void)state;
	rea_limiter_options_init(&options);
	options.concurrent_max = 1;
	options.waiting_max = 5;
	assert_int_equal(rea_limiter_init(&limiter, &options, NULL), 0);
	assert_explains(rea_limiter_explain, &limiter, 0, "concurrency limiter: 1 slots, a line of 5; 0 in use, 0 waiting\n");
	rea_limiter_acquire(&limiter, &waiters[0], S(9), S(1));
	rea_limiter_acquire(&limiter, &waiters[1], S(9), S(1));
	assert_explains(rea_limiter_explain, &limiter, S(2),
	    "concurrency limiter: 1 slots, a line of 5; 1 in use, 1 waiting; the next wait ends in 7000 ms\n");
}

static void a_rate_that_is_used_up(void **state)
{
	struct rea_rate_options options;
	struct rea_rate rate;

	(void)state;
	rea_rate_options_init(&options);
	options.permits = 40;
	options.burst = 2;
	assert_int_equal(rea_rate_init(&rate, &options, NULL), 0);
	assert_true(rea_rate_acquire(&rate, 2, S(1)));
	assert_explains(rea_rate_explain, &rate, MS(1005),
	    "rate limiter: a permit each 25 ms, bursts of 2; the next permit in 20 ms\n");
}

static void adaptive_limits_of_each_rule(void **state)
{
	static const char *const fresh[] = {
	    "adaptive limit: 20 by gradient2 from 20 to 200, queue 4, smoothing 0.2, tolerance 1, window 600 calls\n",
	    "adaptive limit: 10 by aimd from 1 to 200, dropped from 5000 ms on\n",
	    "adaptive limit: 20 by vegas from 1 to 1000\n",
	};
	static const char *const taught[] = {
	    "adaptive limit: 20 by gradient2 from 20 to 200, queue 4, smoothing 0.2, tolerance 1, window 600 calls; "
	    "latency 8 ms "
	    "on average\n",
	    "adaptive limit: 11 by aimd from 1 to 200, dropped from 5000 ms on\n",
	    "adaptive limit: 20 by vegas from 1 to 1000; latency 8 ms at least\n",
	};

	(void)state;
	for (unsigned i = 0; i < REA_ADAPTIVE_RULE_COUNT; i++) {
		struct rea_adaptive_options options;
		struct rea_adaptive adaptive;

		rea_adaptive_options_init(&options, (enum rea_adaptive_rule)i);
		assert_int_equal(rea_adaptive_init(&adaptive, &options, NULL), 0);
		assert_explains(rea_adaptive_explain, &adaptive, 0, fresh[i]);
		rea_adaptive_report(&adaptive, MS(8), 6, false);
		assert_explains(rea_adaptive_explain, &adaptive, 0, taught[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_policy_by_default),
	    cmocka_unit_test(a_policy_with_everything_set),
	    cmocka_unit_test(budgets_of_each_rule),
	    cmocka_unit_test(a_budget_that_was_configured),
	    cmocka_unit_test(a_budget_that_sees_congestion),
	    cmocka_unit_test(a_breaker_in_its_states),
	    cmocka_unit_test(a_limiter_with_a_line),
	    cmocka_unit_test(a_rate_that_is_used_up),
	    cmocka_unit_test(adaptive_limits_of_each_rule),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
