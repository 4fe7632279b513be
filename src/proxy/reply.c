/*
 * Replies. A failed one that may be followed by another attempt is held, with its body, until a later attempt brings something better; a
 * good one goes to the caller as it comes. Nothing of a call is retried once a part of a reply was passed on.
 */
#include "proxy/held.h"

#include <stdlib.h>

/* A good reply's head waits this long for its first body byte: a connection that dies in between has shown the caller nothing yet. */
#define HOLD_NS (10 * REA_NS_PER_MS)

static bool says_stop(const struct http_field *fields, size_t fields_len)
{
	const struct http_field *field = http_field_find(fields, fields_len, HTTP_FIELD_REA_RETRY);
	uint64_t wait;

	return field != NULL && rea_hint_parse(field->value.data, field->value.length, &wait) == REA_HINT_STOP;
}

/* Of a gRPC reply that is more than its head, fields that speak of its end stand behind it. */
static bool ends_with_trailers(const struct exchange *exchange, const struct http_response *response)
{
	return exchange->grpc && response->has_body && response->body_length != 0;
}

/* What is added to these fields of a reply that is the end of retries. */
static size_t choose_stops(const struct exchange *exchange, const struct http_field *fields, size_t fields_len,
    const struct http_field **ret_stops)
{
	static const struct http_field stops[] = {STOP_FIELD, PUSHBACK_STOP_FIELD};
	bool pushback = http_field_find(fields, fields_len, HTTP_FIELD_GRPC_RETRY_PUSHBACK_MS) != NULL;

	*ret_stops = stops;
	if (!exchange->decided || !exchange->decision.stop || says_stop(fields, fields_len))
		return 0;
	return exchange->grpc && !pushback ? 2 : 1;
}

/* The reply as it came, but for `rea-retry: stop` when it is the end of retries. */
void reply_pass(struct exchange *exchange, const struct http_response *response)
{
	const struct http_field *stops;
	size_t stops_len = choose_stops(exchange, response->fields, response->fields_len, &stops);
	const struct http_response_head head = {
	    .status = response->status,
	    .reason = response->reason,
	    .fields = response->fields,
	    .fields_len = response->fields_len,
	    .more = stops,
	    .more_len = ends_with_trailers(exchange, response) ? 0 : stops_len,
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
	if (attempt != NULL && loop_http_conn_congested(exchange->downstream)) {
		attempt->paused = true;
		http_client_pause(attempt->stream);
		loop_http_client_flush(attempt->link->client);
	}
}

void reply_read_hints(struct loop *loop, const struct http_field *fields, size_t fields_len, struct rea_report *report)
{
	int64_t wall_s = loop_wall_ns(loop) / (int64_t)REA_NS_PER_S;
	const struct http_field *after = NULL;
	uint64_t wait;

	for (size_t i = 0; i < fields_len; i++) {
		const struct http_field *field = &fields[i];

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
	for (size_t i = 0; i < fields_len; i++) {
		const struct http_field *field = &fields[i];

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
		reply_read_hints(loop, response->fields, response->fields_len, &report);
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

/* Whether a good head is kept back for what comes next. Of a gRPC reply that may be all there is before its status. */
static bool waits_for_more(const struct attempt *attempt, const struct http_response *response)
{
	const struct exchange *exchange = attempt->exchange;

	if (!exchange->may_retry || !response->has_body || response->upgraded)
		return false;
	if (exchange->status_follows)
		return exchange->operation == NULL || !exchange->operation->server_streams;
	return loop_http_client_session(attempt->link->client)->unread == 0;
}

void reply_head(struct attempt *attempt, const struct http_response *response)
{
	struct exchange *exchange = attempt->exchange;
	struct rea_report report = exchange->grpc
				       ? grpc_reply_head(attempt, response, exchange->policy, &exchange->status_follows)
				       : reply_judge(attempt, response, exchange->policy);

	reply_leave_held(exchange);
	exchange->report = report;
	if (report.outcome != REA_OUTCOME_OK) {
		exchange_report(exchange, attempt, &report, response);
	} else if (waits_for_more(attempt, response)) {
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

/* Trailers and what is added to them, one allocation. NULL: nothing is, or there is no memory to say it. */
static struct http_field *add_stops(const struct exchange *exchange, const struct http_field *trailers, size_t *trailers_len)
{
	const struct http_field *stops;
	size_t stops_len = exchange->grpc ? choose_stops(exchange, trailers, *trailers_len, &stops) : 0;
	struct http_field *all = stops_len > 0 ? malloc((*trailers_len + stops_len) * sizeof(*all)) : NULL;

	if (all == NULL)
		return NULL;
	for (size_t i = 0; i < *trailers_len; i++)
		all[i] = trailers[i];
	for (size_t i = 0; i < stops_len; i++)
		all[(*trailers_len)++] = stops[i];
	return all;
}

/* Everything was passed on. The request's head is gone with the stream: no event may follow. */
static void finish(struct exchange *exchange, const struct http_field *trailers, size_t trailers_len)
{
	struct loop_http_conn *conn = loop_http_conn_of(exchange->downstream);
	/* Without trailers the head was all, and has said it. */
	struct http_field *all = trailers_len > 0 ? add_stops(exchange, trailers, &trailers_len) : NULL;

	/* A finish that fails has cut the reply itself. */
	http_server_finish(exchange->downstream, all != NULL ? all : trailers, trailers_len);
	free(all);
	exchange_end(exchange);
	loop_http_conn_flush(conn);
}

void reply_end(struct attempt *attempt, const struct http_field *trailers, size_t trailers_len)
{
	struct exchange *exchange = attempt->exchange;
	struct rea_report report = exchange->report;

	attempt->stream = NULL;
	attempt->over = true;
	if (attempt == exchange->holding) {
		held_complete(&exchange->held, trailers, trailers_len);
		exchange->holding = NULL;
		link_put(attempt);
		return;
	}
	if (exchange->status_follows)
		report = grpc_reply_trailers(attempt, trailers, trailers_len, exchange->policy);
	exchange->status_follows = false;
	if (exchange->phase == EXCHANGE_HOLD && report.outcome != REA_OUTCOME_OK) {
		/* Nothing was passed on: a failed reply like any other, all of which is here. */
		held_complete(&exchange->held, trailers, trailers_len);
		link_put(attempt);
		exchange_report(exchange, attempt, &report, NULL);
		return;
	}
	if (exchange->phase == EXCHANGE_HOLD)
		reply_release(exchange);
	if (!exchange->decided)
		exchange_report(exchange, attempt, &report, NULL);
	link_put(attempt);
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
	exchange->status_follows = false;
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

	exchange->current = attempt;
	exchange->holding = NULL;
	reply_pass(exchange, &held->head);
	if (rea_buffer_length(&held->body) > 0)
		pass_body(exchange, attempt, rea_buffer_data(&held->body), rea_buffer_length(&held->body));
	if (held->complete)
		finish(exchange, held->trailers, held->trailers_len);
	else
		held_drop(held);
}
