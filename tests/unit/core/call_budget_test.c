/* What a call tells its budget and takes from it, under the rules with tokens: scenario L12, and gRPC's order of charges. */
#include "rig.h"

#include <errno.h>

static struct rig rig;
static struct rea_budget *budget;
static struct rea_budget_policy policy;

static void set_up(struct rea_budget_policy of_budget)
{
	policy = of_budget;
	assert_int_equal(rea_budget_new(&policy, 1, NULL, &budget, NULL), 0);
	rig_init(&rig, 3);
	rig.policy.max_retry_next_instance = 2;
	rig.policy.retry_on |= REA_OUTCOME_BIT(REA_OUTCOME_FAILED) | REA_OUTCOME_BIT(REA_OUTCOME_THROTTLED);
	rig.options.budget = budget;
}

static void set_up_aws(uint32_t transient, uint32_t timeout, uint32_t throttling)
{
	set_up((struct rea_budget_policy){.rule = REA_BUDGET_AWS,
	    .capacity = 500,
	    .cost_transient = transient,
	    .cost_timeout = timeout,
	    .cost_throttling = throttling});
}

static void set_up_grpc(uint32_t max_tokens, uint32_t token_ratio_permille)
{
	set_up((struct rea_budget_policy){
	    .rule = REA_BUDGET_GRPC, .max_tokens = max_tokens, .token_ratio_permille = token_ratio_permille});
}

static void tear_down(void)
{
	rea_budget_free(budget);
}

/* The quota's tokens, seen through a rule where a retry costs one. */
static uint64_t balance(void)
{
	struct rea_budget_policy ones = policy;
	uint64_t tokens;

	ones.cost_transient = 1;
	rea_budget_configure(budget, &ones);
	tokens = rea_budget_available(budget, rig.base_ns);
	rea_budget_configure(budget, &policy);
	return tokens;
}

/* A call whose n-th attempt ends with outcomes[n]; returns the attempts it made. */
static uint32_t run(const struct rea_report *reports)
{
	uint64_t at_ms = 0;

	rig_begin(&rig);
	for (uint32_t attempt = 0;; attempt++) {
		rig_attempt(&rig, at_ms);
		assert_attempt(&rig, attempt + 1, attempt);
		rig_report(&rig, &reports[attempt], at_ms);
		if (rig.decision.step == REA_STEP_DONE)
			return rea_call_attempts(&rig.call);
		at_ms += 100;
	}
}

static const struct rea_report ok = {.outcome = REA_OUTCOME_OK}, failed = {.outcome = REA_OUTCOME_FAILED};

/* ---- aws ---- */

static void run_outage(const struct rea_report *report, uint32_t full_calls, uint32_t one_retry, uint32_t left)
{
	const struct rea_report reports[] = {*report, *report, *report};

	for (uint32_t call = 0; call < 60; call++) {
		uint32_t attempts = run(reports);

		assert_int_equal(attempts, call < full_calls ? 3 : call < full_calls + one_retry ? 2 : 1);
		assert_give_up(&rig, attempts, attempts == 3 ? REA_REASON_ATTEMPTS_EXHAUSTED : REA_REASON_BUDGET_EXHAUSTED);
	}
	assert_int_equal(balance(), left);
}

static void l12_a_the_quota_drains(void **state)
{
	const struct rea_report read_timeout = {
	    .outcome = REA_OUTCOME_AMBIGUOUS, .code_kind = REA_CODE_ERRNO, .code = ETIMEDOUT};
	const struct rea_report connect_timeout = {
	    .outcome = REA_OUTCOME_NEVER_SENT, .code_kind = REA_CODE_ERRNO, .code = ETIMEDOUT};
	const struct rea_report refused = {
	    .outcome = REA_OUTCOME_NEVER_SENT, .code_kind = REA_CODE_ERRNO, .code = ECONNREFUSED};
	/* The number alone means nothing. */
	const struct rea_report status = {.outcome = REA_OUTCOME_UNAVAILABLE, .code_kind = REA_CODE_HTTP, .code = ETIMEDOUT};
	const struct rea_report throttled = {.outcome = REA_OUTCOME_THROTTLED};
	const struct {
		const struct rea_report *report;
		uint32_t transient, timeout, throttling, full_calls, one_retry, left;
	} rows[] = {
	    {&failed, 5, 10, 5, 50, 0, 0},
	    {&failed, 14, 14, 5, 17, 1, 10},
	    {&read_timeout, 5, 10, 5, 25, 0, 0},
	    {&connect_timeout, 5, 10, 5, 25, 0, 0},
	    {&refused, 5, 10, 5, 50, 0, 0},
	    {&status, 5, 10, 5, 50, 0, 0},
	    {&throttled, 14, 14, 5, 50, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		set_up_aws(rows[i].transient, rows[i].timeout, rows[i].throttling);
		run_outage(rows[i].report, rows[i].full_calls, rows[i].one_retry, rows[i].left);
		tear_down();
	}
}

static void l12_b_and_recovers(void **state)
{
	const struct rea_report heals[] = {failed, ok}, fails[] = {failed, failed, failed};

	(void)state;
	set_up_aws(5, 10, 5);
	run_outage(&failed, 50, 0, 0);
	for (int i = 0; i < 4; i++)
		run(&ok);
	assert_int_equal(run(fails), 1);
	assert_give_up(&rig, 1, REA_REASON_BUDGET_EXHAUSTED);
	run(&ok);
	assert_int_equal(balance(), 5);
	assert_int_equal(run(heals), 2);
	assert_done(&rig, 2, REA_VERDICT_SUCCESS, REA_REASON_NONE);
	assert_int_equal(balance(), 5);
	tear_down();
}

static void l12_c_only_the_last_lease_returns(void **state)
{
	const struct rea_report reports[] = {failed, failed, ok};

	(void)state;
	set_up_aws(5, 10, 5);
	assert_int_equal(run(reports), 3);
	assert_int_equal(balance(), 495);
	tear_down();
}

static void l12_d_below_the_cost(void **state)
{
	const struct rea_report reports[] = {failed, failed, failed};

	(void)state;
	set_up_aws(7, 10, 5);
	for (int i = 0; i < 36; i++)
		run(reports);
	assert_int_equal(balance(), 3);
	assert_int_equal(run(reports), 1);
	assert_give_up(&rig, 1, REA_REASON_BUDGET_EXHAUSTED);
	assert_int_equal(balance(), 3);
	tear_down();
}

static void l12_e_a_million_successes(void **state)
{
	(void)state;
	set_up_aws(14, 14, 5);
	run_outage(&failed, 17, 1, 10);
	for (int i = 0; i < 1000000; i++)
		run(&ok);
	assert_int_equal(balance(), 500);
	tear_down();
}

static void l12_g_a_lease_that_is_never_used_returns(void **state)
{
	struct rea_retry_limit limit;

	(void)state;
	set_up_aws(14, 14, 5);
	rea_retry_limit_init(&limit, 1);
	rig.options.limit = &limit;
	for (int how = 0; how < 4; how++) {
		rig.list.count = 3;
		rig_begin(&rig);
		rig_attempt(&rig, 0);
		if (how == 0)
			assert_true(rea_retry_limit_acquire(&limit)); /* refused in the moment of the lease */
		rig_report(&rig, &failed, 0);
		assert_int_equal(balance(), how == 0 ? 500 : 486);
		if (how == 0)
			rea_retry_limit_release(&limit);
		else if (how == 1)
			rea_call_cancel(&rig.call, rig.base_ns + MS(50), &rig.decision);
		else if (how == 2)
			rig_attempt(&rig, 10000); /* too late */
		else
			rig.list.count = 0, rig_attempt(&rig, 100);
		assert_true(rea_call_done(&rig.call));
		assert_int_equal(balance(), 500);
	}
	tear_down();
}

static void an_attempt_that_was_sent_is_paid(void **state)
{
	const struct rea_report cancelled = {.outcome = REA_OUTCOME_CANCELLED};

	(void)state;
	for (int how = 0; how < 2; how++) {
		set_up_aws(14, 14, 5);
		rig_begin(&rig);
		rig_attempt(&rig, 0);
		rig_report(&rig, &failed, 0);
		rig_attempt(&rig, 100);
		assert_attempt(&rig, 2, 1);
		if (how == 0)
			rea_call_cancel(&rig.call, rig.base_ns + MS(150), &rig.decision);
		else
			rig_report(&rig, &cancelled, 150);
		assert_give_up(&rig, 2, REA_REASON_CANCELLED);
		assert_int_equal(balance(), 486);
		tear_down();
	}
}

/* ---- grpc ---- */

static void grpc_vector_of_calls(void **state)
{
	const struct rea_report reports[] = {failed, failed, failed};

	(void)state;
	set_up_grpc(10, 100);
	/* Failures 1 to 4 may retry, the 5th may not. */
	assert_int_equal(run(reports), 3); /* 10 -> 7 */
	assert_give_up(&rig, 3, REA_REASON_ATTEMPTS_EXHAUSTED);
	assert_int_equal(run(reports), 2); /* 6, then 5 */
	assert_give_up(&rig, 2, REA_REASON_BUDGET_EXHAUSTED);
	for (int i = 0; i < 10; i++)
		run(&ok);
	assert_int_equal(run(reports), 1); /* 6 -> 5 */
	assert_give_up(&rig, 1, REA_REASON_BUDGET_EXHAUSTED);
	for (int i = 0; i < 11; i++)
		run(&ok);
	assert_int_equal(run(reports), 2); /* 6.1 -> 5.1, 4.1 */
	tear_down();
}

/* What one attempt moves a throttle of 1000 tokens by, in tokens: it begins 100 below full. */
static int64_t charge_of(const struct rea_report *report)
{
	int64_t before;

	for (int i = 0; i < 100; i++)
		rea_budget_report(budget, 0, REA_BUDGET_TRANSIENT, NULL, rig.base_ns);
	before = (int64_t)rea_budget_available(budget, rig.base_ns);
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_report(&rig, report, 0);
	return (int64_t)rea_budget_available(budget, rig.base_ns) - before;
}

static void grpc_charges_failures_with_a_retryable_class(void **state)
{
	static const struct {
		struct rea_report report;
		int64_t charge;
		enum rea_reason reason; /* NONE = retry or success */
	} rows[] = {
	    {{.outcome = REA_OUTCOME_OK}, 1, REA_REASON_NONE},
	    {{.outcome = REA_OUTCOME_NEVER_SENT}, -1, REA_REASON_NONE},
	    {{.outcome = REA_OUTCOME_PUSHBACK}, -1, REA_REASON_NONE},
	    {{.outcome = REA_OUTCOME_UNAVAILABLE}, -1, REA_REASON_NONE},
	    {{.outcome = REA_OUTCOME_AMBIGUOUS}, -1, REA_REASON_NONE},
	    {{.outcome = REA_OUTCOME_THROTTLED}, 0, REA_REASON_NOT_RETRYABLE},
	    {{.outcome = REA_OUTCOME_FAILED}, 0, REA_REASON_NOT_RETRYABLE},
	    {{.outcome = REA_OUTCOME_PERMANENT}, 0, REA_REASON_PERMANENT},
	    {{.outcome = REA_OUTCOME_CANCELLED}, 0, REA_REASON_CANCELLED},
	    /* A pushback that says "do not retry" counts, whatever the class. */
	    {{.outcome = REA_OUTCOME_UNAVAILABLE, .flags = REA_REPORT_STOP}, -1, REA_REASON_SERVER_REFUSED},
	    {{.outcome = REA_OUTCOME_FAILED, .flags = REA_REPORT_STOP}, -1, REA_REASON_SERVER_REFUSED},
	    {{.outcome = REA_OUTCOME_PERMANENT, .flags = REA_REPORT_STOP}, -1, REA_REASON_PERMANENT},
	    {{.outcome = REA_OUTCOME_CANCELLED, .flags = REA_REPORT_STOP}, 0, REA_REASON_CANCELLED},
	    {{.outcome = REA_OUTCOME_OK, .flags = REA_REPORT_STOP}, 1, REA_REASON_NONE},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		set_up_grpc(1000, 1000);
		rig.policy.retry_on = REA_RETRY_ON_DEFAULT;
		assert_int_equal(charge_of(&rows[i].report), rows[i].charge);
		assert_int_equal(rig.decision.reason, rows[i].reason);
		tear_down();
	}
}

/* The charge comes before every later rule, so that calls which could not retry anyway feed the throttle too. */
static void grpc_charges_before_the_later_rules(void **state)
{
	static const enum rea_reason reasons[] = {REA_REASON_FORBIDDEN, REA_REASON_NOT_DECLARED, REA_REASON_NOT_ENABLED,
	    REA_REASON_CHAIN_STOPPED, REA_REASON_BODY_OVER_LIMIT, REA_REASON_ATTEMPTS_EXHAUSTED, REA_REASON_DEADLINE,
	    REA_REASON_NO_UNTRIED_INSTANCE, REA_REASON_NONE};

	(void)state;
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		struct rea_report report = {.outcome = REA_OUTCOME_UNAVAILABLE};

		set_up_grpc(1000, 1000);
		if (reasons[i] == REA_REASON_FORBIDDEN)
			rig.options.grant.permission = REA_PERMISSION_FORBID;
		else if (reasons[i] == REA_REASON_NOT_DECLARED)
			rig.options.grant.permission = REA_PERMISSION_NONE;
		else if (reasons[i] == REA_REASON_NOT_ENABLED)
			rig.policy.enabled = false;
		else if (reasons[i] == REA_REASON_CHAIN_STOPPED)
			rig.options.chained = true;
		else if (reasons[i] == REA_REASON_BODY_OVER_LIMIT)
			report.flags = REA_REPORT_BODY_OVER_LIMIT;
		else if (reasons[i] == REA_REASON_ATTEMPTS_EXHAUSTED)
			rig.policy.max_retry_next_instance = 0;
		else if (reasons[i] == REA_REASON_DEADLINE)
			rig.policy.deadline_ns = rig.policy.attempt_timeout_ns = MS(50);
		else if (reasons[i] == REA_REASON_NO_UNTRIED_INSTANCE)
			rig.list.count = 1;
		else
			rig.policy.mode = REA_MODE_OBSERVE; /* what happened counts, though nothing is taken */
		assert_int_equal(charge_of(&report), -1);
		assert_give_up(&rig, 1, reasons[i]);
		tear_down();
	}
}

static void grpc_exhausted_attempts_still_feed_the_throttle(void **state)
{
	(void)state;
	set_up_grpc(10, 100);
	rig.policy.max_retry_next_instance = 0;
	for (int i = 0; i < 6; i++) {
		assert_int_equal(run(&failed), 1);
		assert_give_up(&rig, 1, REA_REASON_ATTEMPTS_EXHAUSTED);
	}
	rig.policy.max_retry_next_instance = 2;
	assert_int_equal(run(&failed), 1);
	assert_give_up(&rig, 1, REA_REASON_BUDGET_EXHAUSTED);
	tear_down();
}

static void observe_asks_and_takes_nothing(void **state)
{
	(void)state;
	set_up_aws(300, 300, 300);
	rig.policy.mode = REA_MODE_OBSERVE;
	for (int i = 0; i < 3; i++) {
		run(&failed);
		assert_give_up(&rig, 1, REA_REASON_NONE);
		assert_true(rig.decision.would_retry);
		assert_int_equal(balance(), 500);
	}
	rig.policy.mode = REA_MODE_ENFORCE;
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_report(&rig, &failed, 0);
	assert_wait(&rig, 1, 100, 100);
	rig.policy.mode = REA_MODE_OBSERVE;
	run(&failed);
	assert_give_up(&rig, 1, REA_REASON_BUDGET_EXHAUSTED);
	assert_false(rig.decision.would_retry);
	tear_down();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(l12_a_the_quota_drains),
	    cmocka_unit_test(l12_b_and_recovers),
	    cmocka_unit_test(l12_c_only_the_last_lease_returns),
	    cmocka_unit_test(l12_d_below_the_cost),
	    cmocka_unit_test(l12_e_a_million_successes),
	    cmocka_unit_test(l12_g_a_lease_that_is_never_used_returns),
	    cmocka_unit_test(an_attempt_that_was_sent_is_paid),
	    cmocka_unit_test(grpc_vector_of_calls),
	    cmocka_unit_test(grpc_charges_failures_with_a_retryable_class),
	    cmocka_unit_test(grpc_charges_before_the_later_rules),
	    cmocka_unit_test(grpc_exhausted_attempts_still_feed_the_throttle),
	    cmocka_unit_test(observe_asks_and_takes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
