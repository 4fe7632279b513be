/* Making a guard: defaults, bounds, memory, threads; and what it says of itself. */
#include "rig.h"

#include "../fail_alloc.h"

#include <float.h>

/* ---- bounds ---- */

/* One option at a time is set out of its bounds; `set` may be given a value. */
struct out_of_bounds {
	void (*set)(struct rea_guard_options *options);
	const char *key;
	const char *message;
};

#define SETTER(name, statement)                             \
	static void name(struct rea_guard_options *options) \
	{                                                   \
		statement;                                  \
	}

static char long_name[REA_GUARD_NAME_MAX + 2];

SETTER(name_too_long, options->name = long_name)
SETTER(no_threads, options->threads = 0)
SETTER(too_many_threads, options->threads = 1025)
SETTER(rate_wait_too_long, options->rate_wait_ns = REA_POLICY_DEADLINE_NS_MAX + MS(1))
SETTER(line_wait_too_long, options->limiter_wait_ns = REA_NEVER)
SETTER(adaptive_alone, options->adaptive_on = true)
SETTER(no_retries, options->concurrent_retries = 0)
SETTER(too_many_retries, options->concurrent_retries = 1000001)
SETTER(nobody_parked, options->parked_calls = 0)
SETTER(too_many_attempts, options->policy.max_retry_next_instance = 10)
SETTER(backoff_too_short, options->policy.min_backoff_ns = MS(19))
SETTER(cap_below_base, options->policy.max_backoff_ns = MS(50))
SETTER(multiplier_too_small, options->policy.backoff_multiplier = 0.5)
SETTER(no_jitter, options->policy.jitter = 0)
SETTER(jitter_too_large, options->policy.jitter = 1.5)
SETTER(no_deadline, options->policy.deadline_ns = 0)
SETTER(timeout_over_deadline, options->policy.attempt_timeout_ns = S(4))
SETTER(retry_on_ok, options->policy.retry_on = REA_OUTCOME_BIT(REA_OUTCOME_OK))
SETTER(never_sent_odd, options->policy.never_sent = (enum rea_never_sent)2)
SETTER(all_tried_odd, options->policy.when_all_tried = (enum rea_when_all_tried)7)
SETTER(mode_odd, options->policy.mode = (enum rea_mode)2)
SETTER(jitter_kind_odd, options->policy.jitter_kind = (enum rea_jitter)2)
SETTER(window_type_odd, options->policy.breaker.window_type = (enum rea_breaker_window)2)
SETTER(threshold_zero, options->policy.breaker.failure_rate_threshold = 0)
SETTER(window_empty, options->policy.breaker.window_size = 0)
SETTER(budget_ratio, (options->policy.budget.rule = REA_BUDGET_RATIO, options->policy.budget.ratio_permille = 1001))
SETTER(rate_zero, options->rate_on = true; options->rate.permits = 0)
SETTER(burst_zero, options->rate_on = true; options->rate.burst = 0)
SETTER(slots_zero, options->limiter_on = true; options->limiter.concurrent_max = 0)
SETTER(line_too_long, options->limiter_on = true; options->limiter.waiting_max = 1000001)
SETTER(adaptive_min, options->limiter_on = options->adaptive_on = true; options->adaptive.limit_min = 0)

static const struct out_of_bounds cases[] = {
    {name_too_long, "name", "the length of the name is 256; it must be at most 255"},
    {no_threads, "threads", "threads is 0; it must be at least 1 and at most 1024"},
    {too_many_threads, "threads", "threads is 1025; it must be at least 1 and at most 1024"},
    {rate_wait_too_long, "rate_wait_ns", "rate_wait_ns in ms is 3600001; it must be at most 3600000"},
    {line_wait_too_long, "limiter_wait_ns", "limiter_wait_ns in ms is 18446744073709.55078125; it must be at most 3600000"},
    {adaptive_alone, "adaptive_on", "adaptive_on is 1; it must be at most 0 (limiter_on)"},
    {no_retries, "concurrent_retries", "concurrent_retries is 0; it must be at least 1 and at most 1000000"},
    {too_many_retries, "concurrent_retries", "concurrent_retries is 1000001; it must be at least 1 and at most 1000000"},
    {nobody_parked, "parked_calls", "parked_calls is 0; it must be at least 1 and at most 1000000"},
    {too_many_attempts, "max-retry-next-instance", NULL},
    {backoff_too_short, "min-backoff-ms", NULL},
    {cap_below_base, "max-backoff-ms", NULL},
    {multiplier_too_small, "backoff-multiplier", NULL},
    {no_jitter, "jitter", NULL},
    {jitter_too_large, "jitter", "jitter is 1.5; it must be above 0 and at most 1"},
    {no_deadline, "deadline-ms", NULL},
    {timeout_over_deadline, "attempt-timeout-ms", NULL},
    {retry_on_ok, "retry-on", NULL},
    {never_sent_odd, "never-sent", "never-sent is 2; it must be at most 1"},
    {all_tried_odd, "when-all-tried", "when-all-tried is 7; it must be at most 1"},
    {mode_odd, "mode", "mode is 2; it must be at most 1"},
    {jitter_kind_odd, "(jitter kind)", "the kind of jitter is 2; it must be at most 1"},
    {window_type_odd, "breaker", "the breaker's window type is 2; it must be at most 1"},
    {threshold_zero, "breaker", NULL},
    {window_empty, "breaker", NULL},
    {budget_ratio, "budget", NULL},
    {rate_zero, "permits", "permits is 0; it must be at least 1 and at most 1000000"},
    {burst_zero, "burst", NULL},
    {slots_zero, "concurrent_max", "concurrent_max is 0; it must be at least 1 and at most 1000000"},
    {line_too_long, "waiting_max", NULL},
    {adaptive_min, "limit_min", NULL},
};

static void what_is_out_of_bounds_is_refused(void **state)
{
	(void)state;
	memset(long_name, 'x', REA_GUARD_NAME_MAX + 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rea_guard_options options;
		struct rea_guard *guard = NULL;
		struct rea_error_info info = {0};
		struct fail_alloc alloc;

		fail_alloc_init(&alloc, 100, false);
		rea_guard_options_init(&options);
		cases[i].set(&options);
		assert_int_equal(rea_guard_new(&options, &alloc.alloc, &guard, &info), REA_ERR_INVALID);
		assert_null(guard);
		assert_int_equal(alloc.live, 0);
		assert_string_equal(info.key, cases[i].key);
		if (cases[i].message)
			assert_string_equal(info.message, cases[i].message);
		else
			assert_true(strstr(info.message, "must be") || strstr(info.message, "may name"));
		assert_int_equal(rea_guard_new(&options, &alloc.alloc, &guard, NULL), REA_ERR_INVALID);
	}
}

static void the_bounds_themselves_are_allowed(void **state)
{
	struct rea_guard_options options;
	struct rea_error_info info;
	struct rea_guard *guard;

	(void)state;
	memset(long_name, 'x', REA_GUARD_NAME_MAX);
	long_name[REA_GUARD_NAME_MAX] = '\0';
	rea_guard_options_init(&options);
	options.name = long_name;
	options.threads = REA_SHARDS_MAX;
	options.rate_on = options.limiter_on = options.adaptive_on = true;
	options.rate_wait_ns = options.limiter_wait_ns = REA_POLICY_DEADLINE_NS_MAX;
	options.concurrent_retries = REA_GUARD_RETRIES_MAX;
	options.policy.breaker.enabled = true;
	options.limiter.waiting_max = REA_LIMITER_WAITING_MAX;
	assert_int_equal(rea_guard_new(&options, NULL, &guard, &info), 0);
	rea_guard_free(guard);
	options.name = NULL;
	assert_int_equal(rea_guard_new(&options, NULL, &guard, &info), 0);
	rea_guard_free(guard);
	rea_guard_free(NULL);
}

/* ---- memory ---- */

/* Each allocation fails once, and from there on for good. */
static void out_of_memory_makes_nothing(void **state)
{
	struct rea_guard_options options;
	struct rea_guard *guard = NULL;
	size_t needed = 0;

	(void)state;
	rea_guard_options_init(&options);
	options.rate_on = options.limiter_on = options.adaptive_on = true;
	options.policy.breaker.enabled = true;
	for (int for_good = 0; for_good < 2; for_good++) {
		for (needed = 0;; needed++) {
			struct fail_alloc alloc;
			int error;

			fail_alloc_init(&alloc, needed, for_good);
			error = rea_guard_new(&options, &alloc.alloc, &guard, NULL);
			if (error == 0) {
				rea_guard_free(guard);
				assert_int_equal(alloc.live, 0);
				break;
			}
			assert_int_equal(error, REA_ERR_NOMEM);
			assert_null(guard);
			assert_int_equal(alloc.live, 0);
		}
		guard = NULL;
		assert_int_equal(needed, 3);
	}
}

static struct rea_report fail_attempt(const struct rea_guard_attempt *attempt, void *arg)
{
	(void)attempt;
	(void)arg;
	return rea_report_fail(REA_OUTCOME_UNAVAILABLE);
}

/* After it was made everything else goes on without memory: no public function asks for any. */
static void calls_allocate_nothing(void **state)
{
	struct rea_guard_run_options run_options;
	struct rea_guard_thread thread;
	struct fail_alloc alloc;
	struct rig rig;
	char text[64];

	(void)state;
	rig_init(&rig);
	rig.options.rate_on = rig.options.limiter_on = true;
	rig.options.limiter.waiting_max = 10;
	rig.options.policy.breaker.enabled = true;
	rig.options.policy.min_backoff_ns = rig.options.policy.max_backoff_ns = MS(20);
	fail_alloc_init(&alloc, 3, true);
	assert_int_equal(rea_guard_new(&rig.options, &alloc.alloc, &rig.guard, NULL), 0);
	assert_int_equal(rea_guard_join(rig.guard, 1, &rig.thread), 0);
	for (int i = 0; i < 20; i++)
		rig_call(&rig, i % 3 ? REA_OUTCOME_OK : REA_OUTCOME_UNAVAILABLE, 1000 * (uint64_t)i);
	rea_guard_run_options_init(&run_options);
	run_options.call.grant = rig.call_options.grant;
	assert_int_equal(rea_guard_run(&rig.thread, fail_attempt, NULL, &run_options, NULL), REA_VERDICT_GIVE_UP);
	assert_int_equal(rea_guard_join(rig.guard, 2, &thread), 0);
	rea_guard_leave(&thread);
	rea_guard_explain(rig.guard, S(2000), text, sizeof(text));
	assert_int_equal(alloc.failed, 0);
	rig_stop(&rig);
	assert_int_equal(alloc.live, 0);
}

/* ---- threads ---- */

static void as_many_threads_join_as_said(void **state)
{
	struct rea_guard_options options;
	struct rea_guard_thread threads[3], refused;
	struct rea_guard *guard;

	(void)state;
	rea_guard_options_init(&options);
	options.threads = 3;
	assert_int_equal(rea_guard_new(&options, NULL, &guard, NULL), 0);
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(rea_guard_join(guard, i, &threads[i]), 0);
	assert_int_equal(rea_guard_join(guard, 3, &refused), REA_ERR_FULL);
	rea_guard_leave(&threads[1]);
	assert_int_equal(rea_guard_join(guard, 3, &threads[1]), 0);
	for (int i = 0; i < 3; i++)
		rea_guard_leave(&threads[i]);
	rea_guard_free(guard);
}

static void seeds_differ(void **state)
{
	(void)state;
	assert_true(rea_seed() != rea_seed());
}

/* ---- what it says ---- */

static void explain_prints_the_defaults(void **state)
{
	static const char right[] =
	    "guard without a name, for 16 threads; each attempt passes\n"
	    "1 rate limiter: off\n"
	    "2 concurrency limiter: off\n"
	    "3 circuit breaker: off\n"
	    "4 call\n"
	    "  attempts: 2 (retries: 1), but retries are not enabled, on never_sent, pushback, unavailable, ambiguous\n"
	    "  instances: retries at the same 0, moves to another 1, each tried once\n"
	    "  permission: each call brings its own; none within a retry of a layer above\n"
	    "  deadline: 3000 ms, of an attempt 1000 ms\n"
	    "  backoff: 100 ms x 2 up to 1000 ms, jitter 0.2, never below 20 ms\n"
	    "  replay: bodies of at most 65536 bytes\n"
	    "  budget: evidence, 1 for 10 first attempts and more while retries pay and do not hurt; 6 retries left\n"
	    "  evidence: success 100 %, pushback 0 %, tokens 2; in 2 s first attempts 0, retries 0, outcomes 0, "
	    "timeouts 0\n"
	    "  concurrent retries: 0 of 256\n"
	    "  parked calls: 0 of 1000\n";
	struct rea_guard_options options;
	struct rea_guard *guard;
	char text[2048], small[20];

	(void)state;
	rea_guard_options_init(&options);
	assert_int_equal(rea_guard_new(&options, NULL, &guard, NULL), 0);
	assert_int_equal(rea_guard_explain(guard, S(1), text, sizeof(text)), strlen(right));
	assert_string_equal(text, right);
	assert_int_equal(rea_guard_explain(guard, S(1), small, sizeof(small)), strlen(right));
	assert_memory_equal(small, right, sizeof(small) - 1);
	assert_int_equal(small[sizeof(small) - 1], '\0');
	assert_int_equal(rea_guard_explain(guard, S(1), NULL, 0), strlen(right));
	rea_guard_free(guard);
}

static void explain_prints_each_number(void **state)
{
	static const char right[] =
	    "guard users, for 16 threads; each attempt passes\n"
	    "1 rate limiter: waits at most 10 ms; a permit each 20 ms, bursts of 50; the next permit in 0 ms\n"
	    "2 concurrency limiter: waits at most 1000 ms; 20 slots, a line of 7; 1 in use, 0 waiting\n"
	    "  adaptive limit: 20 by gradient2 from 20 to 200, queue 4, smoothing 0.2, tolerance 1, window 600 calls; "
	    "latency 0.000001 ms on average\n"
	    "3 circuit breaker: failures from 50 % or slow calls from 100 % (slower than 60000 ms) of the last 2 "
	    "calls, from 2 calls on; "
	    "open for 60000 ms, then 10 calls within 5 ms; half_open, 9 calls left, for 5 ms more, calls seen 2, "
	    "failing 50 %, slow 0 %\n"
	    "4 call\n"
	    "  attempts: 10 (retries: 9), observed only, on never_sent\n"
	    "  instances: retries at the same 0, moves to another 9, each tried once\n"
	    "  permission: each call brings its own; what was never sent needs none\n"
	    "  deadline: 10000 ms, of an attempt 1000 ms\n"
	    "  backoff: 20 ms x 1.5 up to 250 ms, full jitter, never below 10 ms\n"
	    "  replay: bodies of at most 65536 bytes\n"
	    "  budget: aws, 500 tokens, costs 14 transient, 14 timeout, 5 throttling; 35 retries left\n"
	    "  concurrent retries: 1 of 3, with others\n"
	    "  parked calls: 0 of 1000\n";
	struct rea_retry_limit limit;
	struct rea_guard_call call;
	struct rig rig;
	char text[2048];

	(void)state;
	rig_init(&rig);
	rea_retry_limit_init(&limit, 3);
	assert_true(rea_retry_limit_acquire(&limit));
	rig.options.retry_limit = &limit;
	rig.options.rate_on = rig.options.limiter_on = rig.options.adaptive_on = true;
	rig.options.rate_wait_ns = MS(10);
	rig.options.limiter.waiting_max = 7;
	rig.options.policy.breaker.enabled = true;
	rig.options.policy.breaker.window_size = 2;
	rig.options.policy.breaker.minimum_calls = 2;
	rig.options.policy.breaker.max_wait_in_half_open_ns = MS(5);
	rig.options.policy.mode = REA_MODE_OBSERVE;
	rig.options.policy.max_retry_next_instance = 9;
	rig.options.policy.retry_on = REA_OUTCOME_BIT(REA_OUTCOME_NEVER_SENT);
	rig.options.policy.never_sent = REA_NEVER_SENT_ALLOW;
	rig.options.policy.chain_stop = false;
	rig.options.policy.jitter_kind = REA_JITTER_FULL;
	rig.options.policy.min_backoff_ns = MS(20);
	rig.options.policy.max_backoff_ns = MS(250);
	rig.options.policy.backoff_multiplier = 1.5;
	rig.options.policy.backoff_floor_ns = MS(10);
	rig.options.policy.budget.rule = REA_BUDGET_AWS;
	rig_start(&rig);
	rig_call(&rig, REA_OUTCOME_OK, 0);
	rig_call(&rig, REA_OUTCOME_FAILED, 0);
	rig_fly(&rig, &call, 60000);
	rea_guard_explain(rig.guard, rig.base_ns + S(60), text, sizeof(text));
	assert_string_equal(text, right);
	rig_end(&rig, &call, REA_OUTCOME_OK, 60000);
	rig_stop(&rig);
}

static void names_are_as_documented(void **state)
{
	(void)state;
	assert_string_equal(rea_guard_stage_name(REA_GUARD_STAGE_NONE), "none");
	assert_string_equal(rea_guard_stage_name(REA_GUARD_STAGE_CALL), "call");
	assert_string_equal(rea_guard_stage_name((enum rea_guard_stage)99), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_out_of_bounds_is_refused),
	    cmocka_unit_test(the_bounds_themselves_are_allowed),
	    cmocka_unit_test(out_of_memory_makes_nothing),
	    cmocka_unit_test(calls_allocate_nothing),
	    cmocka_unit_test(as_many_threads_join_as_said),
	    cmocka_unit_test(seeds_differ),
	    cmocka_unit_test(explain_prints_the_defaults),
	    cmocka_unit_test(explain_prints_each_number),
	    cmocka_unit_test(names_are_as_documented),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
