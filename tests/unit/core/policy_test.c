/* Layers, profiles and bounds; scenario Y02. */
#include <rea/policy.h>
#include <rea/time.h>

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MS(n) ((uint64_t)(n)*REA_NS_PER_MS)
#define BIT(key) (UINT32_C(1) << REA_POLICY_##key)

static struct rea_policy defaults(void)
{
	struct rea_policy policy;

	rea_policy_defaults(&policy);
	return policy;
}

static struct rea_policy merge(
    const struct rea_policy_layer *a, const struct rea_policy_layer *b, const struct rea_policy_layer *c)
{
	const struct rea_policy_layer *layers[] = {a, b, c};
	struct rea_policy policy;

	rea_policy_merge(layers, 3, 0, &policy);
	return policy;
}

static const struct rea_policy_layer *profile(const char *name)
{
	return rea_policy_profile(name, strlen(name));
}

static void the_defaults(void **state)
{
	struct rea_policy p = defaults();

	(void)state;
	assert_false(p.enabled);
	assert_int_equal(p.max_retry_same_instance, 0);
	assert_int_equal(p.max_retry_next_instance, 1);
	assert_true(p.min_backoff_ns == MS(100) && p.max_backoff_ns == MS(1000));
	assert_true(p.backoff_multiplier == 2.0 && p.jitter == 0.2);
	assert_int_equal(p.jitter_kind, REA_JITTER_SYMMETRIC);
	assert_true(p.backoff_floor_ns == MS(20));
	assert_true(p.attempt_timeout_ns == MS(1000) && p.deadline_ns == MS(3000));
	assert_int_equal(p.retry_on, REA_RETRY_ON_DEFAULT);
	assert_int_equal(p.never_sent, REA_NEVER_SENT_STRICT);
	assert_int_equal(p.when_all_tried, REA_ALL_TRIED_STOP);
	assert_int_equal(p.mode, REA_MODE_ENFORCE);
	assert_true(p.chain_stop);
	assert_int_equal(p.replay_limit_bytes, 65536);
	assert_int_equal(p.budget.rule, REA_BUDGET_EVIDENCE);
	assert_int_equal(p.budget.ratio_permille, 200);
	assert_int_equal(p.budget.reserve_per_s, 10);
	assert_int_equal(p.budget.window_ms, 10000);
	assert_false(p.breaker.enabled);
	assert_true(p.breaker.failure_rate_threshold == 50 && p.breaker.slow_call_rate_threshold == 100);
	assert_true(p.breaker.slow_call_duration_ns == MS(60000) && p.breaker.wait_in_open_ns == MS(60000));
	assert_int_equal(p.breaker.window_size, 100);
	assert_int_equal(p.breaker.minimum_calls, 100);
	assert_int_equal(p.breaker.permitted_in_half_open, 10);
	assert_true(p.breaker.max_wait_in_half_open_ns == 0);
	assert_int_equal(p.classify_len, 0);
	assert_int_equal(rea_policy_validate(&p, NULL), 0);
	assert_int_equal(rea_policy_attempts(&p), 2);
}

static void y02_master_switch(void **state)
{
	const struct rea_policy_layer on = {.set = BIT(ENABLED), .values.enabled = true}, off = {.set = BIT(ENABLED)},
				      silent = {.set = BIT(MAX_RETRY_NEXT_INSTANCE), .values.max_retry_next_instance = 3};

	(void)state;
	/* Written at the global layer it is final; absent there, a lower layer may enable. */
	assert_false(merge(&off, NULL, &on).enabled);
	assert_false(merge(&off, &on, NULL).enabled);
	assert_true(merge(NULL, NULL, &on).enabled);
	assert_true(merge(&silent, NULL, &on).enabled);
	/* Off at a service is no master switch, and a layer that says nothing of it inherits, whatever else it sets. */
	assert_true(merge(NULL, &off, &on).enabled);
	assert_true(merge(&on, &silent, &silent).enabled);
	assert_false(merge(&on, &off, &silent).enabled);
	assert_false(merge(NULL, &silent, &silent).enabled);
}

static void the_global_layer_may_stand_anywhere(void **state)
{
	const struct rea_policy_layer on = {.set = BIT(ENABLED), .values.enabled = true}, off = {.set = BIT(ENABLED)};
	const struct rea_policy_layer *layers[] = {&off, NULL, &on};
	struct rea_policy policy;

	(void)state;
	/* Below the global layer stands its profile, which is no master switch. */
	rea_policy_merge(layers, 3, 1, &policy);
	assert_true(policy.enabled);
	rea_policy_merge(layers, 3, SIZE_MAX, &policy);
	assert_true(policy.enabled);
	layers[1] = &off;
	rea_policy_merge(layers, 3, 1, &policy);
	assert_false(policy.enabled);
	rea_policy_merge(NULL, 0, SIZE_MAX, &policy);
	assert_false(policy.enabled);
}

static void a_method_that_sets_only_a_count_inherits_the_rest(void **state)
{
	const struct rea_policy_layer service = {.set = BIT(ENABLED) | BIT(MIN_BACKOFF) | BIT(MAX_BACKOFF),
					  .values = {.enabled = true, .min_backoff_ns = MS(40), .max_backoff_ns = MS(400)}},
				      method = {.set = BIT(MAX_RETRY_NEXT_INSTANCE), .values.max_retry_next_instance = 2};
	struct rea_policy policy = merge(NULL, &service, &method);

	(void)state;
	assert_true(policy.enabled);
	assert_true(policy.min_backoff_ns == MS(40) && policy.max_backoff_ns == MS(400));
	assert_int_equal(policy.max_retry_next_instance, 2);
	assert_true(policy.backoff_multiplier == 2.0);
}

/* Each key, set alone, changes its own members and nothing else. */
static void each_key_is_on_its_own(void **state)
{
	struct rea_policy_layer layer = {.values = {.enabled = true,
					     .max_retry_same_instance = 1,
					     .max_retry_next_instance = 2,
					     .min_backoff_ns = MS(30),
					     .max_backoff_ns = MS(300),
					     .backoff_multiplier = 3,
					     .jitter = 0.5,
					     .jitter_kind = REA_JITTER_FULL,
					     .backoff_floor_ns = MS(10),
					     .attempt_timeout_ns = MS(500),
					     .deadline_ns = MS(5000),
					     .retry_on = REA_OUTCOME_BIT(REA_OUTCOME_FAILED),
					     .never_sent = REA_NEVER_SENT_ALLOW,
					     .when_all_tried = REA_ALL_TRIED_CYCLE,
					     .mode = REA_MODE_OBSERVE,
					     .chain_stop = false,
					     .replay_limit_bytes = 1,
					     .budget = {.ratio_permille = 1, .reserve_per_s = 2, .window_ms = 3000},
					     .breaker = {.enabled = true, .window_size = 7},
					     .classify_len = 1,
					     .classify = {{REA_CODE_HTTP, 409, REA_OUTCOME_UNAVAILABLE}}}};
	struct rea_policy all, one, none = defaults();

	(void)state;
	layer.set = (UINT32_C(1) << REA_POLICY_KEY_COUNT) - 1;
	all = merge(NULL, &layer, NULL);
	assert_memory_equal(&all.budget, &layer.values.budget, sizeof(all.budget));
	assert_int_equal(all.breaker.window_size, 7);
	assert_int_equal(all.classify[0].code, 409);
	for (uint32_t key = 0; key < REA_POLICY_KEY_COUNT; key++) {
		layer.set = UINT32_C(1) << key;
		one = merge(NULL, &layer, NULL);
#define CHANGED(key_name, member)                                                                                        \
	assert_memory_equal(&one.member, key == REA_POLICY_##key_name ? &all.member : &none.member, sizeof(one.member)); \
	assert_memory_not_equal(&all.member, &none.member, sizeof(one.member))
		CHANGED(ENABLED, enabled);
		CHANGED(MAX_RETRY_SAME_INSTANCE, max_retry_same_instance);
		CHANGED(MAX_RETRY_NEXT_INSTANCE, max_retry_next_instance);
		CHANGED(MIN_BACKOFF, min_backoff_ns);
		CHANGED(MAX_BACKOFF, max_backoff_ns);
		CHANGED(BACKOFF_MULTIPLIER, backoff_multiplier);
		CHANGED(JITTER, jitter);
		CHANGED(ATTEMPT_TIMEOUT, attempt_timeout_ns);
		CHANGED(DEADLINE, deadline_ns);
		CHANGED(RETRY_ON, retry_on);
		CHANGED(NEVER_SENT, never_sent);
		CHANGED(WHEN_ALL_TRIED, when_all_tried);
		CHANGED(MODE, mode);
		CHANGED(CLASSIFY, classify_len);
		CHANGED(CLASSIFY, classify);
		CHANGED(BUDGET, budget.ratio_permille);
		CHANGED(BREAKER, breaker.window_size);
		CHANGED(CHAIN_STOP, chain_stop);
		CHANGED(REPLAY_LIMIT, replay_limit_bytes);
		CHANGED(JITTER_KIND, jitter_kind);
		CHANGED(JITTER_KIND, backoff_floor_ns);
#undef CHANGED
	}
}

static void the_profiles(void **state)
{
	struct rea_policy policy = merge(profile("adaptive"), NULL, NULL);
	struct rea_backoff backoff;

	(void)state;
	assert_int_equal(rea_policy_attempts(&policy), 10);
	assert_int_equal(policy.when_all_tried, REA_ALL_TRIED_CYCLE);
	assert_int_equal(policy.budget.rule, REA_BUDGET_EVIDENCE);
	assert_int_equal(rea_policy_validate(&policy, NULL), 0);
	assert_false(policy.enabled);
	rea_policy_backoff(&policy, &backoff);
	assert_true(backoff.base_ns == MS(20) && backoff.cap_ns == MS(250) && backoff.floor_ns == MS(10));
	assert_true(backoff.multiplier == 1.2);
	assert_int_equal(backoff.jitter, REA_JITTER_FULL);
	policy = merge(profile("connect-only"), NULL, NULL);
	assert_int_equal(policy.retry_on, REA_OUTCOME_BIT(REA_OUTCOME_NEVER_SENT));
	assert_int_equal(rea_policy_validate(&policy, NULL), 0);
	assert_null(profile("conservativ"));
	assert_null(profile("conservative "));
	assert_null(rea_policy_profile("", 0));
}

static void conservative_undoes_what_is_inherited_but_enabled(void **state)
{
	const struct rea_policy_layer on = {.set = BIT(ENABLED), .values.enabled = true};
	struct rea_policy policy, plain = defaults();
	const struct rea_policy_layer *layers[] = {&on, profile("adaptive"), profile("conservative")};

	(void)state;
	rea_policy_merge(layers, 3, 0, &policy);
	assert_true(policy.enabled);
	policy.enabled = false;
	assert_memory_equal(&policy.min_backoff_ns, &plain.min_backoff_ns, sizeof(policy.min_backoff_ns));
	assert_int_equal(policy.when_all_tried, plain.when_all_tried);
	assert_int_equal(policy.jitter_kind, plain.jitter_kind);
	assert_true(policy.backoff_floor_ns == plain.backoff_floor_ns);
	assert_int_equal(policy.max_retry_next_instance, plain.max_retry_next_instance);
}

static void explicit_keys_override_a_profile(void **state)
{
	const struct rea_policy_layer keys = {.set = BIT(MAX_RETRY_NEXT_INSTANCE), .values.max_retry_next_instance = 4};
	struct rea_policy policy = merge(NULL, profile("adaptive"), &keys);

	(void)state;
	assert_int_equal(rea_policy_attempts(&policy), 5);
	assert_true(policy.min_backoff_ns == MS(20));
}

static void attempts_multiply(void **state)
{
	struct rea_policy policy = defaults();

	(void)state;
	policy.max_retry_same_instance = 1;
	policy.max_retry_next_instance = 4;
	assert_int_equal(rea_policy_attempts(&policy), 10);
	policy.when_all_tried = REA_ALL_TRIED_CYCLE;
	assert_int_equal(rea_policy_attempts(&policy), 5);
	policy.max_retry_next_instance = UINT32_MAX;
	assert_true(rea_policy_attempts(&policy) == UINT32_MAX);
	policy.when_all_tried = REA_ALL_TRIED_STOP;
	policy.max_retry_same_instance = UINT32_MAX;
	assert_true(rea_policy_attempts(&policy) == UINT32_MAX);
}

/* ---- bounds: each row is one change to the defaults, refused with this key and message; NULL = accepted ---- */

static void assert_verdict(const struct rea_policy *policy, const char *key, const char *message)
{
	struct rea_error_info info;

	memset(&info, 'x', sizeof(info));
	if (key == NULL) {
		assert_int_equal(rea_policy_validate(policy, &info), 0);
		assert_int_equal(info.key[0], 'x');
		return;
	}
	assert_int_equal(rea_policy_validate(policy, &info), REA_ERR_INVALID);
	assert_int_equal(rea_policy_validate(policy, NULL), REA_ERR_INVALID);
	assert_string_equal(info.key, key);
	assert_string_equal(info.message, message);
	assert_string_equal(info.file, "");
	assert_int_equal(info.line, 0);
}

#define ACCEPT(change)                            \
	do {                                      \
		struct rea_policy p = defaults(); \
		change;                           \
		assert_verdict(&p, NULL, NULL);   \
	} while (0)
#define REFUSE(change, key, message)              \
	do {                                      \
		struct rea_policy p = defaults(); \
		change;                           \
		assert_verdict(&p, key, message); \
	} while (0)

static void bounds_of_attempts(void **state)
{
	(void)state;
	ACCEPT(p.max_retry_next_instance = 9);
	ACCEPT(p.max_retry_next_instance = 0);
	REFUSE(p.max_retry_next_instance = 11, "max-retry-next-instance",
	    "the number of attempts, (1 + max-retry-same-instance) * (1 + max-retry-next-instance), is 12; it must be "
	    "at least 1 "
	    "and at most 10");
	REFUSE((p.max_retry_next_instance = 4, p.max_retry_same_instance = 2), "max-retry-next-instance",
	    "the number of attempts, (1 + max-retry-same-instance) * (1 + max-retry-next-instance), is 15; it must be "
	    "at least 1 "
	    "and at most 10");
	ACCEPT((p.max_retry_next_instance = 9, p.max_retry_same_instance = 2, p.when_all_tried = REA_ALL_TRIED_CYCLE));
	REFUSE((p.max_retry_next_instance = 10, p.when_all_tried = REA_ALL_TRIED_CYCLE), "max-retry-next-instance",
	    "the number of attempts, 1 + max-retry-next-instance, is 11; it must be at least 1 and at most 10");
}

static void bounds_of_the_backoff(void **state)
{
	(void)state;
	ACCEPT(p.min_backoff_ns = MS(20));
	REFUSE(p.min_backoff_ns = MS(20) - 1, "min-backoff-ms",
	    "min-backoff-ms is 19.999999; it must be at least 20 (the smallest backoff of the profile)");
	REFUSE(p.min_backoff_ns = MS(5), "min-backoff-ms",
	    "min-backoff-ms is 5; it must be at least 20 (the smallest backoff of the profile)");
	ACCEPT((p.jitter_kind = REA_JITTER_FULL, p.backoff_floor_ns = MS(10), p.min_backoff_ns = MS(10)));
	REFUSE((p.jitter_kind = REA_JITTER_FULL, p.backoff_floor_ns = MS(10), p.min_backoff_ns = MS(9)),
	    "min-backoff-ms", "min-backoff-ms is 9; it must be at least 10 (the smallest backoff of the profile)");
	REFUSE(p.backoff_floor_ns = MS(10), "(jitter kind)", "the floor of the backoff in ms is 10; it must be at least 20");
	ACCEPT(p.max_backoff_ns = MS(100));
	REFUSE(p.max_backoff_ns = MS(50), "max-backoff-ms", "max-backoff-ms is 50; it must be at least 100 (min-backoff-ms)");
	ACCEPT(p.backoff_multiplier = 1);
	REFUSE(p.backoff_multiplier = 0.5, "backoff-multiplier", "backoff-multiplier is 0.5; it must be at least 1");
	REFUSE(p.backoff_multiplier = NAN, "backoff-multiplier", "backoff-multiplier is nan; it must be at least 1");
	REFUSE(p.backoff_multiplier = INFINITY, "backoff-multiplier",
	    "backoff-multiplier is inf; it must be at least 1 and finite");
	ACCEPT(p.jitter = 1);
	ACCEPT(p.jitter = 0.01);
	REFUSE(p.jitter = 0, "jitter", "jitter is 0; it must be above 0 and at most 1");
	REFUSE(p.jitter = -0.2, "jitter", "jitter is -0.2; it must be above 0 and at most 1");
	REFUSE(p.jitter = 2, "jitter", "jitter is 2; it must be above 0 and at most 1");
	REFUSE(p.jitter = NAN, "jitter", "jitter is nan; it must be above 0 and at most 1");
	REFUSE(p.jitter = INFINITY, "jitter", "jitter is inf; it must be above 0 and at most 1");
}

static void bounds_of_times_and_sizes(void **state)
{
	(void)state;
	ACCEPT(p.deadline_ns = REA_POLICY_DEADLINE_NS_MAX);
	REFUSE(p.deadline_ns = REA_POLICY_DEADLINE_NS_MAX + MS(1), "deadline-ms",
	    "deadline-ms is 3600001; it must be above 0 and at most 3600000");
	REFUSE(p.deadline_ns = 0, "deadline-ms", "deadline-ms is 0; it must be above 0 and at most 3600000");
	ACCEPT(p.attempt_timeout_ns = MS(3000));
	REFUSE((p.attempt_timeout_ns = MS(3000), p.deadline_ns = MS(1000)), "attempt-timeout-ms",
	    "attempt-timeout-ms is 3000; it must be above 0 and at most 1000 (deadline-ms)");
	REFUSE(p.attempt_timeout_ns = 0, "attempt-timeout-ms",
	    "attempt-timeout-ms is 0; it must be above 0 and at most 3000 (deadline-ms)");
	ACCEPT(p.replay_limit_bytes = 0);
	ACCEPT(p.replay_limit_bytes = REA_POLICY_REPLAY_BYTES_MAX);
	REFUSE(p.replay_limit_bytes = REA_POLICY_REPLAY_BYTES_MAX + 1, "replay-limit-bytes",
	    "replay-limit-bytes is 16777217; it must be at most 16777216");
}

static void bounds_of_outcomes(void **state)
{
#define MAY_NAME "; it may name never_sent, pushback, throttled, unavailable, ambiguous and failed"
	(void)state;
	ACCEPT(p.retry_on = 0);
	ACCEPT(p.retry_on =
		   REA_RETRY_ON_DEFAULT | REA_OUTCOME_BIT(REA_OUTCOME_THROTTLED) | REA_OUTCOME_BIT(REA_OUTCOME_FAILED));
	REFUSE(p.retry_on |= REA_OUTCOME_BIT(REA_OUTCOME_OK), "retry-on",
	    "retry-on names ok, which is never retried" MAY_NAME);
	REFUSE(p.retry_on |= REA_OUTCOME_BIT(REA_OUTCOME_PERMANENT), "retry-on",
	    "retry-on names permanent, which is never retried" MAY_NAME);
	REFUSE(p.retry_on |= REA_OUTCOME_BIT(REA_OUTCOME_CANCELLED), "retry-on",
	    "retry-on names cancelled, which is never retried" MAY_NAME);
	REFUSE(p.retry_on |= REA_OUTCOME_BIT(31), "retry-on", "retry-on names unknown, which is never retried" MAY_NAME);
#define MAY_MAP "; it maps an HTTP status 100 to 599 or a gRPC status 0 to 16 to any class but cancelled"
#define CLASSIFY(...) (p.classify_len = 1, p.classify[0] = (struct rea_classify_rule){__VA_ARGS__})
	ACCEPT(CLASSIFY(REA_CODE_HTTP, 409, REA_OUTCOME_UNAVAILABLE));
	ACCEPT(CLASSIFY(REA_CODE_HTTP, 599, REA_OUTCOME_OK));
	ACCEPT(CLASSIFY(REA_CODE_GRPC, 16, REA_OUTCOME_PERMANENT));
	REFUSE(CLASSIFY(REA_CODE_HTTP, 99, REA_OUTCOME_OK), "classify", "classify maps 99 to ok" MAY_MAP);
	REFUSE(CLASSIFY(REA_CODE_HTTP, 600, REA_OUTCOME_OK), "classify", "classify maps 600 to ok" MAY_MAP);
	REFUSE(CLASSIFY(REA_CODE_GRPC, 17, REA_OUTCOME_FAILED), "classify", "classify maps 17 to failed" MAY_MAP);
	REFUSE(CLASSIFY(REA_CODE_ERRNO, 5, REA_OUTCOME_FAILED), "classify", "classify maps 5 to failed" MAY_MAP);
	REFUSE(CLASSIFY(REA_CODE_HTTP, 409, REA_OUTCOME_CANCELLED), "classify", "classify maps 409 to cancelled" MAY_MAP);
	REFUSE(p.classify_len = REA_CLASSIFY_RULES_MAX + 1, "classify",
	    "the number of codes in classify is 33; it must be at most 32");
}

static void bounds_of_budget_and_breaker(void **state)
{
	(void)state;
	ACCEPT((p.budget.rule = REA_BUDGET_RATIO, p.budget.ratio_permille = 1000, p.budget.window_ms = 60000,
	    p.budget.reserve_per_s = UINT32_MAX));
	ACCEPT((p.budget.rule = REA_BUDGET_RATIO, p.budget.ratio_permille = 0, p.budget.window_ms = 1000,
	    p.budget.reserve_per_s = 0));
	REFUSE((p.budget.rule = REA_BUDGET_RATIO, p.budget.ratio_permille = 150000), "budget",
	    "the budget's ratio is 150; it must be at most 1");
	REFUSE((p.budget.rule = REA_BUDGET_RATIO, p.budget.window_ms = 999), "budget",
	    "the budget's window in ms is 999; it must be at least 1000 and at most 60000");
	REFUSE((p.budget.rule = REA_BUDGET_RATIO, p.budget.window_ms = 60001), "budget",
	    "the budget's window in ms is 60001; it must be at least 1000 and at most 60000");
	ACCEPT(p.breaker.failure_rate_threshold = 100);
	REFUSE(p.breaker.failure_rate_threshold = 0, "breaker",
	    "the breaker's failure rate threshold is 0; it must be above 0 and at most 100");
	REFUSE(p.breaker.failure_rate_threshold = NAN, "breaker",
	    "the breaker's failure rate threshold is nan; it must be above 0 and at most 100");
	REFUSE(p.breaker.slow_call_rate_threshold = 101, "breaker",
	    "the breaker's slow call rate threshold is 101; it must be above 0 and at most 100");
	REFUSE(p.breaker.slow_call_duration_ns = 0, "breaker",
	    "the breaker's slow call duration in ms is 0; it must be above 0");
	ACCEPT(p.breaker.window_size = 10000);
	REFUSE(p.breaker.window_size = 10001, "breaker",
	    "the breaker's window in calls is 10001; it must be at least 1 and at most 10000");
	ACCEPT((p.breaker.window_type = REA_BREAKER_TIME_BASED, p.breaker.window_size = 3600));
	REFUSE((p.breaker.window_type = REA_BREAKER_TIME_BASED, p.breaker.window_size = 3601), "breaker",
	    "the breaker's window in seconds is 3601; it must be at least 1 and at most 3600");
	REFUSE(p.breaker.window_size = 0, "breaker",
	    "the breaker's window in calls is 0; it must be at least 1 and at most 10000");
	REFUSE(p.breaker.minimum_calls = 0, "breaker", "the breaker's minimum number of calls is 0; it must be at least 1");
	REFUSE(p.breaker.wait_in_open_ns = 0, "breaker",
	    "the breaker's wait in the open state in ms is 0; it must be above 0");
	ACCEPT(p.breaker.permitted_in_half_open = 1000);
	REFUSE(p.breaker.permitted_in_half_open = 1001, "breaker",
	    "the breaker's permitted calls in the half-open state is 1001; it must be at least 1 and at most 1000");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_defaults),
	    cmocka_unit_test(y02_master_switch),
	    cmocka_unit_test(the_global_layer_may_stand_anywhere),
	    cmocka_unit_test(a_method_that_sets_only_a_count_inherits_the_rest),
	    cmocka_unit_test(each_key_is_on_its_own),
	    cmocka_unit_test(the_profiles),
	    cmocka_unit_test(conservative_undoes_what_is_inherited_but_enabled),
	    cmocka_unit_test(explicit_keys_override_a_profile),
	    cmocka_unit_test(attempts_multiply),
	    cmocka_unit_test(bounds_of_attempts),
	    cmocka_unit_test(bounds_of_the_backoff),
	    cmocka_unit_test(bounds_of_times_and_sizes),
	    cmocka_unit_test(bounds_of_outcomes),
	    cmocka_unit_test(bounds_of_budget_and_breaker),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
