/*
 * Replies. A failed one that may be followed by another attempt is held, with its body, until a later attempt brings something better; a
 * good one goes to the caller as it comes. Nothing of a call is retried once a part of a reply was passed on.
 */
#include "proxy/held.h"

/* A good reply's head waits this long for its first body byte: a connection that dies in between has shown the caller nothing yet. */
#define HOLD_NS (10 * REA_NS_PER_MS)

static bool says_stop(const struct http_response *response)
{
	const struct http_field *field = http_field_find(response->fields, response->fields_len, HTTP_FIELD_REA_RETRY);
	uint64_t wait;

	return field != NULL && rea_hint_parse(field->value.data, field->value.length, &wait) == REA_HINT_STOP;
}

/* The reply as it came, but for `rea-retry: stop` when it is the end of retries. */
void reply_pass(struct exchange *exchange, const struct http_response *response)
{
	static const struct http_field stop = {.name = REA_SLICE_LIT("rea-retry"), .value = REA_SLICE_LIT("stop")};
	bool add_stop = exchange->decided && exchange->decision.stop && !says_stop(response);
	const struct http_response_head head = {
	    .status = response->status,
	    .reason = response->reason,
	    .fields = response->fields,
	    .fields_len = response->fields_len,
	    .more = &stop,
	    .more_len = add_stop ? 1 : 0,
	    .body_length = response->body_length,
	    .has_body = response->has_body,
	    .upgraded = response->upgraded,
	};

	exchange->responded = true;
	exchange->progress_ns = loop_now(exchange->worker->loop);
	exchange_set_phase(exchange, EXCHANGE_STREAM, REA_NEVER);
	if (http_server_respond(exchange->downstream, &head) != 0)
		exchange_abandon(exchange);
	loop_http_conn_flush(loop_http_conn_of(exchange->downstream));
}

static void pass_body(struct exchange *exchange, struct attempt *attempt, const char *data, size_t length)
{
	struct loop_http_conn *conn = loop_http_conn_of(exchange->downstream);

	exchange->progress_ns = loop_now(exchange->worker->loop);
	if (http_server_write(exchange->downstream, data, length) != 0)
		exchange_abandon(exchange);
	loop_http_conn_flush(conn);
	if (attempt != NULL && loop_http_conn_congested(conn)) {
		attempt->paused = true;
		http_client_pause(attempt->stream);
		loop_http_client_flush(attempt->link->client);
	}
}

/* What the reply says about repeating the call. */
static void read_hints(struct loop *loop, const struct http_response *response, struct rea_report *report)
{
	int64_t wall_s = loop_wall_ns(loop) / (int64_t)REA_NS_PER_S;
	const struct http_field *after = NULL;
	uint64_t wait;

	for (size_t i = 0; i < response->fields_len; i++) {
		const struct http_field *field = &response->fields[i];

		if (field->id == HTTP_FIELD_RETRY_AFTER) {
			/* Two that differ say nothing. */
			if (after != NULL && !rea_slice_equal(after->value, field->value))
				report->flags &= ~REA_REPORT_AFTER;
			else if (after == NULL &&
				 rea_retry_after_parse(field->value.data, field->value.length, wall_s, &report->after_ns) &&
				 report->after_ns > 0)
				report->flags |= REA_REPORT_AFTER;
			after = field;
		}
	}
	for (size_t i = 0; i < response->fields_len; i++) {
		const struct http_field *field = &response->fields[i];

		if (field->id != HTTP_FIELD_REA_RETRY)
			continue;
		if (rea_hint_parse(field->value.data, field->value.length, &wait) == REA_HINT_STOP) {
			report->flags |= REA_REPORT_STOP;
		} else {
			report->outcome = REA_OUTCOME_PUSHBACK;
			report->flags |= REA_REPORT_AFTER;
			report->after_ns = wait;
		}
	}
}

struct rea_report reply_judge(
    const struct attempt *attempt, const struct http_response *response, const struct rea_policy *policy)
{
	struct loop *loop = attempt->upstream->worker->loop;
	struct rea_report report = {
	    .outcome = rea_outcome_from_http(response->status, policy->classify, policy->classify_len),
	    .code_kind = REA_CODE_HTTP,
	    .code = response->status,
	    .latency_ns = rea_time_sub(loop_now(loop), attempt->start_ns),
	};

	if (response->upgraded)
		report.outcome = REA_OUTCOME_OK;
	if (report.outcome != REA_OUTCOME_OK)
		read_hints(loop, response, &report);
	return report;
}

void reply_hold(struct attempt *attempt, const struct http_response *response)
{
	static const struct rea_report none = {.outcome = REA_OUTCOME_CANCELLED};

	if (held_set(&attempt->exchange->held, response))
		attempt->exchange->holding = attempt;
	else
		attempt_drop(attempt, &none);
}

static void hold_head(struct attempt *attempt, const struct http_response *response)
{
	struct exchange *exchange = attempt->exchange;

	if (held_set(&exchange->held, response))
		exchange_set_phase(exchange, EXCHANGE_HOLD, rea_time_add(loop_now(exchange->worker->loop), HOLD_NS));
	else
		reply_pass(exchange, response);
}

/* A later attempt has an answer: the held one, and what still comes of it, is of no use any more. */
void reply_leave_held(struct exchange *exchange)
{
	static const struct rea_report none = {.outcome = REA_OUTCOME_CANCELLED};

	held_drop(&exchange->held);
	if (exchange->holding != NULL)
		attempt_drop(exchange->holding, &none);
	exchange->holding = NULL;
}

void reply_head(struct attempt *attempt, const struct http_response *response)
{
	struct exchange *exchange = attempt->exchange;
	struct rea_report report = reply_judge(attempt, response, exchange->policy);

	reply_leave_held(exchange);
	exchange->report = report;
	if (report.outcome != REA_OUTCOME_OK) {
		exchange_report(exchange, attempt, &report, response);
	} else if (exchange->may_retry && response->has_body && !response->upgraded &&
		   loop_http_client_session(attempt->link->client)->unread == 0) {
		hold_head(attempt, response);
	} else {
		reply_pass(exchange, response);
	}
}

void reply_release(struct exchange *exchange)
{
	reply_pass(exchange, &exchange->held.head);
	held_drop(&exchange->held);
}

void reply_body(struct attempt *attempt, const char *data, size_t length)
{
	struct exchange *exchange = attempt->exchange;

	if (attempt == exchange->holding) {
		if (!held_append(&exchange->held, data, length))
			reply_leave_held(exchange);
		return;
	}
	if (exchange->phase == EXCHANGE_HOLD)
		reply_release(exchange);
	pass_body(exchange, attempt, data, length);
}

/* Everything was passed on. The request's head is gone with the stream: no event may follow. */
static void finish(struct exchange *exchange, const struct http_field *trailers, size_t trailers_len)
{
	struct loop_http_conn *conn = loop_http_conn_of(exchange->downstream);

	/* A finish that fails has cut the reply itself. */
	http_server_finish(exchange->downstream, trailers, trailers_len);
	exchange_end(exchange);
	loop_http_conn_flush(conn);
}

void reply_end(struct attempt *attempt, const struct http_field *trailers, size_t trailers_len)
{
	struct exchange *exchange = attempt->exchange;
	struct link *link = attempt->link;

	attempt->stream = NULL;
	if (attempt == exchange->holding) {
		exchange->held.complete = true;
		exchange->holding = NULL;
		link_put(link);
		return;
	}
	if (exchange->phase == EXCHANGE_HOLD)
		reply_release(exchange);
	if (!exchange->decided) {
		struct rea_report report = exchange->report;

		exchange_report(exchange, attempt, &report, NULL);
	}
	link_put(link);
	finish(exchange, trailers, trailers_len);
}

/* The caller must see that what it got is not whole. */
static void cut(struct exchange *exchange)
{
	struct loop_http_conn *conn = loop_http_conn_of(exchange->downstream);

	http_server_reset(exchange->downstream);
	exchange_end(exchange);
	loop_http_conn_flush(conn);
}

void reply_failed(struct attempt *attempt, const struct rea_report *report)
{
	struct exchange *exchange = attempt->exchange;

	if (attempt == exchange->holding) {
		reply_leave_held(exchange);
		return;
	}
	if (exchange->phase == EXCHANGE_HOLD)
		held_drop(&exchange->held);
	attempt_drop(attempt, report);
	if (!exchange->decided)
		exchange_report(exchange, attempt, report, NULL);
	else
		cut(exchange);
}

void reply_adopt(struct exchange *exchange)
{
	struct held_reply *held = &exchange->held;
	struct attempt *attempt = exchange->holding;
	bool attempt_left;

	exchange->current = attempt;
	exchange->holding = NULL;
	reply_pass(exchange, &held->head);
	if (rea_buffer_length(&held->body) > 0)
		pass_body(exchange, attempt, rea_buffer_data(&held->body), rea_buffer_length(&held->body));
	attempt_left = !held->complete;
	held_drop(held);
	if (!attempt_left)
		finish(exchange, NULL, 0);
}
