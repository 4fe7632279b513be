/* Replies that rea makes itself: problem+json (RFC 9457) with the rule that spoke in `rea-reason`. */
#include "proxy/internal.h"

#include <errno.h>

void exchange_answer_problem(struct http_server_stream *stream, uint16_t status, const char *detail,
    enum rea_reason reason, bool stop, bool close)
{
	const char *name = rea_reason_name(reason);
	struct http_field fields[3];
	struct http_response_head head = {.status = status, .fields = fields, .has_body = true, .close = close};
	char body[HTTP_PROBLEM_MAX];
	size_t length = http_problem_format(body, sizeof(body), status, detail, name);

	fields[head.fields_len++] = (struct http_field){
	    REA_SLICE_LIT("content-type"), REA_SLICE_LIT("application/problem+json"), HTTP_FIELD_OTHER, false};
	if (reason != REA_REASON_NONE)
		fields[head.fields_len++] =
		    (struct http_field){REA_SLICE_LIT("rea-reason"), rea_slice_of(name), HTTP_FIELD_REA_REASON, false};
	if (stop)
		fields[head.fields_len++] =
		    (struct http_field){REA_SLICE_LIT("rea-retry"), REA_SLICE_LIT("stop"), HTTP_FIELD_REA_RETRY, false};
	head.body_length = length;
	if (http_server_respond(stream, &head) != 0 || http_server_write(stream, body, length) != 0 ||
	    http_server_finish(stream, NULL, 0) != 0)
		http_server_reset(stream);
}

struct answer {
	uint16_t status;
	const char *detail;
};

/* Why there is no reply to pass on, by the rule that spoke first and the outcome after it. */
static struct answer choose(const struct rea_decision *decision, const struct rea_report *report, bool attempted)
{
	if (decision->reason == REA_REASON_DEADLINE)
		return (struct answer){504, "the deadline has passed"};
	if (decision->reason == REA_REASON_BREAKER_OPEN)
		return (struct answer){503, "the circuit breaker of this service is open"};
	if (decision->reason == REA_REASON_OVERLOADED)
		return (struct answer){503, "too many retries are under way"};
	if (!attempted)
		return (struct answer){503, "the service has no instance"};
	if (report->outcome == REA_OUTCOME_NEVER_SENT)
		return (struct answer){502, "the instance could not be reached; nothing was sent"};
	if (report->outcome == REA_OUTCOME_PERMANENT)
		return (struct answer){502, "the instance's reply could not be understood"};
	if (report->code == ETIMEDOUT)
		return (struct answer){504, "the instance did not answer in time; whether it acted is not known"};
	return (struct answer){502, "the connection to the instance broke; whether it acted is not known"};
}

void exchange_answer_give_up(struct exchange *exchange)
{
	const struct rea_decision *decision = &exchange->decision;
	struct answer answer = choose(decision, &exchange->report, rea_call_attempts(&exchange->call) > 0);

	exchange_answer_problem(exchange->downstream, answer.status, answer.detail, decision->reason, decision->stop,
	    !exchange->body_complete);
}
