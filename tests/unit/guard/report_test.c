/* What programs have at hand, as reports. */
#include <rea/guard.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void errors_go_by_their_phase(void **state)
{
	static const struct {
		int error;
		enum rea_phase phase;
		enum rea_outcome outcome;
	} cases[] = {
	    {0, REA_PHASE_SENT, REA_OUTCOME_OK},
	    {ECONNREFUSED, REA_PHASE_CONNECT, REA_OUTCOME_NEVER_SENT},
	    {ETIMEDOUT, REA_PHASE_CONNECT, REA_OUTCOME_NEVER_SENT},
	    {ETIMEDOUT, REA_PHASE_SENT, REA_OUTCOME_AMBIGUOUS},
	    {EAGAIN, REA_PHASE_SENT, REA_OUTCOME_AMBIGUOUS},
	    {ECONNRESET, REA_PHASE_UNSENT, REA_OUTCOME_NEVER_SENT},
	    {ECONNRESET, REA_PHASE_SENT, REA_OUTCOME_AMBIGUOUS},
	    {EPIPE, REA_PHASE_SENT, REA_OUTCOME_AMBIGUOUS},
	    {EMFILE, REA_PHASE_CONNECT, REA_OUTCOME_NEVER_SENT},
	    {EACCES, REA_PHASE_CONNECT, REA_OUTCOME_PERMANENT},
	    {EINVAL, REA_PHASE_SENT, REA_OUTCOME_PERMANENT},
	    {EBADF, REA_PHASE_UNSENT, REA_OUTCOME_PERMANENT},
	    {ECANCELED, REA_PHASE_SENT, REA_OUTCOME_CANCELLED},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rea_report report = rea_report_from_errno(cases[i].error, cases[i].phase);

		assert_string_equal(rea_outcome_name(report.outcome), rea_outcome_name(cases[i].outcome));
		assert_int_equal(report.code, cases[i].error);
		assert_int_equal(report.code_kind, cases[i].error != 0 ? REA_CODE_ERRNO : REA_CODE_NONE);
	}
}

static void statuses_go_by_the_policy(void **state)
{
	struct rea_policy policy;
	struct rea_report report;

	(void)state;
	rea_policy_defaults(&policy);
	policy.classify_len = 1;
	policy.classify[0] = (struct rea_classify_rule){REA_CODE_HTTP, 409, REA_OUTCOME_UNAVAILABLE};
	report = rea_report_from_http(409, &policy);
	assert_int_equal(report.outcome, REA_OUTCOME_UNAVAILABLE);
	assert_int_equal(report.code_kind, REA_CODE_HTTP);
	assert_int_equal(report.code, 409);
	assert_int_equal(rea_report_from_http(409, NULL).outcome, REA_OUTCOME_PERMANENT);
	assert_int_equal(rea_report_from_http(204, NULL).outcome, REA_OUTCOME_OK);
}

/* A call within an attempt: its last outcome, and whether it may be begun anew. */
static void a_result_is_the_outer_report(void **state)
{
	struct rea_guard_result result = {
	    .decision = {.verdict = REA_VERDICT_GIVE_UP, .reason = REA_REASON_ATTEMPTS_EXHAUSTED, .stop = true},
	    .report = {.outcome = REA_OUTCOME_UNAVAILABLE, .code_kind = REA_CODE_HTTP, .code = 503, .latency_ns = 7},
	};
	struct rea_report report = rea_report_from_result(&result);

	(void)state;
	assert_int_equal(report.outcome, REA_OUTCOME_UNAVAILABLE);
	assert_int_equal(report.code, 503);
	assert_int_equal(report.flags, REA_REPORT_STOP);
	assert_int_equal(report.latency_ns, 0);
	result.decision.stop = false;
	assert_int_equal(rea_report_from_result(&result).flags, 0);
	result.decision.reason = REA_REASON_CANCELLED;
	assert_int_equal(rea_report_from_result(&result).outcome, REA_OUTCOME_CANCELLED);
	assert_int_equal(rea_report_ok().outcome, REA_OUTCOME_OK);
	assert_int_equal(rea_report_fail(REA_OUTCOME_FAILED).outcome, REA_OUTCOME_FAILED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(errors_go_by_their_phase),
	    cmocka_unit_test(statuses_go_by_the_policy),
	    cmocka_unit_test(a_result_is_the_outer_report),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
