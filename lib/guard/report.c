/* What an attempt came to, from what programs have at hand. */
#include <rea/guard.h>

#include <errno.h>

struct rea_report rea_report_ok(void)
{
	return (struct rea_report){.outcome = REA_OUTCOME_OK};
}

struct rea_report rea_report_fail(enum rea_outcome outcome)
{
	return (struct rea_report){.outcome = outcome};
}

/* Errors in the program or its rights: the same call will have them again. */
static bool is_own_fault(int error)
{
	switch (error) {
	case EACCES:
	case EAFNOSUPPORT:
	case EBADF:
	case EFAULT:
	case EINVAL:
	case EISCONN:
	case ENOSYS:
	case ENOTSOCK:
	case EOPNOTSUPP:
	case EPERM:
	case EPROTONOSUPPORT:
		return true;
	default:
		return false;
	}
}

static enum rea_outcome outcome_of(int error, enum rea_phase phase)
{
	if (error == 0)
		return REA_OUTCOME_OK;
	if (error == ECANCELED)
		return REA_OUTCOME_CANCELLED;
	return is_own_fault(error) ? REA_OUTCOME_PERMANENT : rea_outcome_from_phase(phase);
}

struct rea_report rea_report_from_errno(int error, enum rea_phase phase)
{
	return (struct rea_report){.outcome = outcome_of(error, phase),
	    .code_kind = error != 0 ? REA_CODE_ERRNO : REA_CODE_NONE,
	    .code = (uint32_t)error};
}

struct rea_report rea_report_from_http(uint32_t status, const struct rea_policy *policy)
{
	return (struct rea_report){.outcome = policy != NULL
						  ? rea_outcome_from_http(status, policy->classify, policy->classify_len)
						  : rea_outcome_from_http(status, NULL, 0),
	    .code_kind = REA_CODE_HTTP,
	    .code = status};
}

/* A call that was refused here and never reached its callee has not been executed; one that was given up after attempts is what its last one was. */
struct rea_report rea_report_from_result(const struct rea_guard_result *result)
{
	struct rea_report report = result->report;

	if (result->decision.reason == REA_REASON_CANCELLED)
		report.outcome = REA_OUTCOME_CANCELLED;
	if (result->decision.stop)
		report.flags |= REA_REPORT_STOP;
	report.latency_ns = 0;
	return report;
}
