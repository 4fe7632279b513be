/*
 * Replies that rea makes itself: problem+json (RFC 9457) with the rule that spoke in `rea-reason`; to gRPC's clients a status, with the same words
 * in its message.
 */
#include "http/grpc.h"
#include "proxy/internal.h"

#include <errno.h>
#include <stdio.h>

static enum grpc_status grpc_status_for(uint16_t status)
{
	switch (status) {
	case 404:
	case 501:
		return GRPC_UNIMPLEMENTED;
	case 408:
	case 504:
		return GRPC_DEADLINE_EXCEEDED;
	case 502:
	case 503:
		return GRPC_UNAVAILABLE;
	default:
		return GRPC_INTERNAL;
	}
}

/* What says a status: ready to be fields of a head, or of trailers. */
struct status_fields {
	struct http_field fields[6];
	size_t len;
	char number[4];
	char message[256];
};

static void status_add(struct status_fields *out, const char *name, struct rea_slice value, enum http_field_id id)
{
	out->fields[out->len++] = (struct http_field){rea_slice_of(name), value, (uint8_t)id, false};
}

static void status_make(
    struct status_fields *out, enum grpc_status status, const char *detail, enum rea_reason reason, bool stop)
{
	const char *name = rea_reason_name(reason);
	char text[200];
	int length = snprintf(text, sizeof(text), reason != REA_REASON_NONE ? "rea: %s (%s)" : "rea: %s", detail, name);
	int digits = snprintf(out->number, sizeof(out->number), "%u", (unsigned)status % GRPC_STATUS_COUNT);

	status_add(out, "grpc-status", rea_slice_make(out->number, (size_t)digits), HTTP_FIELD_GRPC_STATUS);
	status_add(out, "grpc-message",
	    rea_slice_make(out->message,
		grpc_message_encode(rea_slice_make(text, (size_t)length < sizeof(text) ? (size_t)length : sizeof(text) - 1),
		    out->message, sizeof(out->message))),
	    HTTP_FIELD_OTHER);
	if (reason != REA_REASON_NONE)
		status_add(out, "rea-reason", rea_slice_of(name), HTTP_FIELD_REA_REASON);
	if (stop) {
		out->fields[out->len++] = (struct http_field)STOP_FIELD;
		out->fields[out->len++] = (struct http_field)PUSHBACK_STOP_FIELD;
	}
}

/* A trailers-only reply. */
static void answer_status(
    struct http_server_stream *stream, enum grpc_status status, const char *detail, enum rea_reason reason, bool stop)
{
	struct status_fields out = {.len = 0};
	struct http_response_head head = {.status = 200};

	status_add(&out, "content-type", REA_SLICE_LIT("application/grpc"), HTTP_FIELD_CONTENT_TYPE);
	status_make(&out, status, detail, reason, stop);
	head.fields = out.fields;
	head.fields_len = out.len;
	if (http_server_respond(stream, &head) != 0 || http_server_finish(stream, NULL, 0) != 0)
		http_server_reset(stream);
}

static void answer_problem(struct http_server_stream *stream, uint16_t status, const char *detail,
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
		fields[head.fields_len++] = (struct http_field)STOP_FIELD;
	head.body_length = length;
	if (http_server_respond(stream, &head) != 0 || http_server_write(stream, body, length) != 0 ||
	    http_server_finish(stream, NULL, 0) != 0)
		http_server_reset(stream);
}

void exchange_answer_problem(struct http_server_stream *stream, bool grpc, uint16_t status, const char *detail,
    enum rea_reason reason, bool stop, bool close)
{
	if (grpc)
		answer_status(stream, grpc_status_for(status), detail, reason, stop);
	else
		answer_problem(stream, status, detail, reason, stop, close);
}

struct answer {
	uint16_t status;
	const char *detail;
};

/* What TLS had against the connection of the latest attempt; NULL = nothing. */
static const char *trouble_of(const struct exchange *exchange)
{
	for (size_t i = 0; i < sizeof(exchange->slots) / sizeof(exchange->slots[0]); i++)
		if (exchange->slots[i].trouble != NULL)
			return exchange->slots[i].trouble;
	return NULL;
}

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

static struct answer choose_answer(const struct exchange *exchange)
{
	struct answer answer = choose(&exchange->decision, &exchange->report, rea_call_attempts(&exchange->call) > 0);
	const char *trouble = trouble_of(exchange);

	if (answer.status == 502 && exchange->report.outcome == REA_OUTCOME_NEVER_SENT && trouble != NULL)
		answer.detail = trouble;
	return answer;
}

/* What ended a stream says more than that it ended; a reply that cannot be understood is not UNAVAILABLE. */
static enum grpc_status choose_status(const struct exchange *exchange, const struct answer *answer)
{
	const struct rea_report *report = &exchange->report;

	if (answer->status == 502 && report->code_kind == REA_CODE_GRPC)
		return (enum grpc_status)report->code;
	if (answer->status == 502 && report->outcome == REA_OUTCOME_PERMANENT)
		return GRPC_INTERNAL;
	return grpc_status_for(answer->status);
}

void exchange_answer_give_up(struct exchange *exchange)
{
	const struct rea_decision *decision = &exchange->decision;
	struct answer answer = choose_answer(exchange);

	if (exchange->grpc)
		answer_status(exchange->downstream, choose_status(exchange, &answer), answer.detail, decision->reason,
		    decision->stop);
	else
		answer_problem(exchange->downstream, answer.status, answer.detail, decision->reason, decision->stop,
		    !exchange->body_complete);
}

void exchange_answer_trailers(struct exchange *exchange)
{
	struct answer answer = choose_answer(exchange);
	struct status_fields out = {.len = 0};

	status_make(
	    &out, choose_status(exchange, &answer), answer.detail, exchange->decision.reason, exchange->decision.stop);
	if (http_server_finish(exchange->downstream, out.fields, out.len) != 0)
		http_server_reset(exchange->downstream);
}
