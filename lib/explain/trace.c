/* The decision trace: the text that two faces of rea must agree on. */
#include <rea/explain.h>

#include "base/format.h"

static void format_ms(struct rea_format *text, uint64_t ns)
{
	rea_format_fixed(text, ns / REA_NS_PER_US, 3);
	rea_format_text(text, "ms");
}

static void format_code(struct rea_format *text, const struct rea_report *report)
{
	static const char *const prefixes[] = {
	    [REA_CODE_HTTP] = "", [REA_CODE_GRPC] = "grpc:", [REA_CODE_ERRNO] = "errno:", [REA_CODE_EXIT] = "exit:"};

	if (report == NULL || report->code_kind == REA_CODE_NONE) {
		rea_format_text(text, "-");
		return;
	}
	rea_format_text(text, prefixes[report->code_kind]);
	rea_format_u64(text, report->code);
}

static const char *verdict_of(const struct rea_decision *decision)
{
	if (decision->step == REA_STEP_ATTEMPT)
		return "-";
	return decision->would_retry ? "would_retry" : rea_verdict_name(decision->verdict);
}

size_t rea_trace_line(const struct rea_decision *decision, const struct rea_report *report,
    const struct rea_instance_id *instance, uint64_t base_ns, uint64_t now_ns, char *ret_line, size_t size)
{
	char address[64] = "-";
	struct rea_format text;

	if (instance != NULL)
		rea_instance_id_format(instance, address, sizeof(address));
	rea_format_init(&text, ret_line, size);
	rea_format_text(&text, "t=");
	format_ms(&text, rea_time_sub(now_ns, base_ns));
	rea_format_text(&text, " attempt=");
	rea_format_u64(&text, decision->attempt);
	rea_format_text(&text, "/");
	rea_format_u64(&text, decision->attempts_max);
	rea_format_text(&text, " instance=");
	rea_format_text(&text, address);
	rea_format_text(&text, " outcome=");
	rea_format_text(&text, report ? rea_outcome_name(report->outcome) : "-");
	rea_format_text(&text, " code=");
	format_code(&text, report);
	rea_format_text(&text, " verdict=");
	rea_format_text(&text, verdict_of(decision));
	rea_format_text(&text, " reason=");
	rea_format_text(&text, decision->reason == REA_REASON_NONE ? "-" : rea_reason_name(decision->reason));
	rea_format_text(&text, " wait=");
	if (decision->step == REA_STEP_WAIT || decision->would_retry)
		format_ms(&text, decision->wait_ns);
	else
		rea_format_text(&text, "-");
	return text.length;
}
