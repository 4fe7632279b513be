/* One try of a call at one instance: connection, request, and how it ends. */
#include "http/grpc.h"
#include "proxy/internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct rea_report attempt_report_io(const struct attempt *attempt, enum rea_phase phase, int uv_error)
{
	/* An orderly end in the wrong place is told like a reset. */
	int error = uv_error == UV_EOF ? ECONNRESET : -uv_error;

	return (struct rea_report){
	    .outcome = rea_outcome_from_phase(phase),
	    .code_kind = REA_CODE_ERRNO,
	    .code = (uint32_t)error,
	    .latency_ns = rea_time_sub(loop_now(attempt->upstream->worker->loop), attempt->start_ns),
	};
}

struct rea_report attempt_report_broken(struct attempt *attempt, int status, enum http_error error)
{
	struct rea_report report = attempt_report_io(attempt, attempt_phase(attempt), status != 0 ? status : UV_EOF);

	if (attempt->link != NULL)
		link_note_trouble(attempt->link, attempt);

	if (error == HTTP_ERROR_REFUSED || error == HTTP_ERROR_GOING_AWAY) {
		/* The peer says that it did nothing. */
		report.outcome = REA_OUTCOME_NEVER_SENT;
		report.code = ECONNREFUSED;
	} else if (error == HTTP_ERROR_RESET) {
		report.code = ECONNRESET;
	} else if (error != HTTP_ERROR_TRUNCATED) {
		/* The reply cannot be decoded. */
		report.outcome = REA_OUTCOME_PERMANENT;
		report.code_kind = REA_CODE_NONE;
		report.code = 0;
	}
	return report;
}

bool attempt_went_stale(struct attempt *attempt, enum http_error error)
{
	if (!attempt->link->reused || attempt->renewed ||
	    (error != HTTP_ERROR_GOING_AWAY && attempt_phase(attempt) != REA_PHASE_UNSENT))
		return false;
	attempt->renewed = true;
	attempt->stream = NULL;
	link_close(attempt);
	return true;
}

enum rea_phase attempt_phase(const struct attempt *attempt)
{
	if (attempt->link == NULL || attempt->stream == NULL)
		return REA_PHASE_CONNECT;
	return loop_http_client_unsent(attempt->stream) ? REA_PHASE_UNSENT : REA_PHASE_SENT;
}

void attempt_drop(struct attempt *attempt, const struct rea_report *report)
{
	if (attempt->in_load) {
		rea_load_end(&attempt->upstream->load, report, loop_now(attempt->upstream->worker->loop));
		attempt->in_load = false;
	}
	if (attempt->stream != NULL)
		http_client_cancel(attempt->stream);
	attempt->stream = NULL;
	if (attempt->link != NULL)
		link_close(attempt);
}

/* Nothing came of it: no reply to look at. */
static void failed(struct attempt *attempt, const struct rea_report *report)
{
	attempt_drop(attempt, report);
	exchange_report(attempt->exchange, attempt, report, NULL);
}

/* The upstream end of a CONNECT stands: from here on bytes go through as they are. */
static void tunnel_open(struct attempt *attempt)
{
	const struct http_response_head head = {.status = 200, .has_body = false, .upgraded = true};
	struct exchange *exchange = attempt->exchange;

	exchange->responded = true;
	exchange_set_phase(exchange, EXCHANGE_STREAM, REA_NEVER);
	if (http_server_respond(exchange->downstream, &head) != 0)
		exchange_abandon(exchange);
	loop_http_conn_flush(loop_http_conn_of(exchange->downstream));
}

static void begin(struct attempt *attempt)
{
	struct exchange *exchange = attempt->exchange;
	struct loop_http_client *client = attempt->link->client;
	uint64_t now = loop_now(exchange->worker->loop), deadline = rea_call_deadline(&exchange->call);
	/* While the request is still arriving the whole time lies ahead. */
	uint64_t remaining = deadline == REA_NEVER ? exchange->policy->deadline_ns : rea_time_sub(deadline, now);
	struct http_request_head head;
	struct rea_report report;

	if (exchange->grpc)
		remaining = grpc_attempt_left(attempt);
	head_make(exchange, attempt->number, exchange->decision.attempts_max, remaining, &head);
	attempt->given = 0;
	attempt->stream = loop_http_client_begin(client, &head, attempt);
	if (attempt->stream == NULL) {
		report = attempt_report_io(attempt, REA_PHASE_UNSENT, UV_ENOMEM);
		failed(attempt, &report);
		return;
	}
	if (attempt->link->raw) {
		tunnel_open(attempt);
		return;
	}
	exchange_set_phase(exchange, EXCHANGE_SEND, attempt->deadline_ns);
	loop_http_client_flush(client);
	body_pump(exchange);
}

static void get_link(struct attempt *attempt, bool fresh)
{
	struct exchange *exchange = attempt->exchange;
	bool raw = exchange->tunnel && exchange->request->method_id == HTTP_CONNECT, ready;
	unsigned wants = raw ? LINK_RAW : link_wants(exchange->service) | (exchange->grpc ? LINK_H2 : 0);
	int error = link_get(attempt->upstream, attempt, exchange->service, wants | (fresh ? LINK_FRESH : 0), &ready);
	struct rea_report report;

	if (error != 0) {
		report = attempt_report_io(attempt, REA_PHASE_CONNECT, error);
		failed(attempt, &report);
	} else if (ready) {
		begin(attempt);
	} else {
		exchange_set_phase(exchange, EXCHANGE_CONNECT,
		    rea_time_min(attempt->deadline_ns, rea_time_add(attempt->start_ns, exchange->policy->attempt_timeout_ns)));
	}
}

void attempt_start(struct exchange *exchange, const struct rea_decision *decision)
{
	struct attempt *attempt = exchange->holding == &exchange->slots[0] ? &exchange->slots[1] : &exchange->slots[0];

	/* What was given away cannot be sent again: the engine was told so and does not ask for it. */
	assert(exchange->body_base == 0);
	for (size_t i = 0; i < sizeof(exchange->slots) / sizeof(exchange->slots[0]); i++) {
		free(exchange->slots[i].trouble);
		exchange->slots[i].trouble = NULL;
	}
	*attempt = (struct attempt){
	    .exchange = exchange,
	    .upstream = exchange->service->upstreams[decision->instance],
	    .instance = decision->instance,
	    .number = decision->attempt,
	    .start_ns = loop_now(exchange->worker->loop),
	    .deadline_ns = decision->attempt_deadline_ns,
	    .in_load = true,
	};
	exchange->current = attempt;
	rea_load_begin(&attempt->upstream->load, attempt->start_ns);
	get_link(attempt, false);
}

static void on_connect_failed(struct attempt *attempt, int status)
{
	struct rea_report report = attempt_report_io(attempt, REA_PHASE_CONNECT, status);

	failed(attempt, &report);
}

/* The connection died in the middle of the exchange. */
static void broken(struct attempt *attempt, int status, enum http_error error)
{
	struct rea_report report;

	if (attempt->exchange->body_base == 0 && attempt_went_stale(attempt, error)) {
		get_link(attempt, true);
		return;
	}
	report = attempt_report_broken(attempt, status, error);
	if (attempt->exchange->grpc && error == HTTP_ERROR_RESET) {
		report.code_kind = REA_CODE_GRPC;
		report.code = grpc_status_from_h2(attempt->stream->error_code);
	}
	reply_failed(attempt, &report);
}

static void on_error(struct http_client_stream *stream, enum http_error error)
{
	struct attempt *attempt = stream->user;

	broken(attempt, loop_http_client_status(attempt->link->client), error);
}

static void on_closed(struct attempt *attempt, int status)
{
	broken(attempt, status, HTTP_ERROR_TRUNCATED);
}

static void on_writable(struct http_client_stream *stream)
{
	const struct attempt *attempt = stream->user;

	body_pump(attempt->exchange);
}

void attempt_timeout(struct attempt *attempt)
{
	struct rea_report report = attempt_report_io(attempt, attempt_phase(attempt), UV_ETIMEDOUT);

	reply_failed(attempt, &report);
}

static void on_interim(struct http_client_stream *stream, const struct http_response *response)
{
	struct attempt *attempt = stream->user;
	struct exchange *exchange = attempt->exchange;

	/* 100 was ours to give: the session on the caller's side has done so. */
	if (response->status == 100 || exchange->responded)
		return;
	http_server_interim(exchange->downstream, response->status, response->fields, response->fields_len);
	loop_http_conn_flush(loop_http_conn_of(exchange->downstream));
}

static void on_response(struct http_client_stream *stream, const struct http_response *response)
{
	reply_head(stream->user, response);
}

static void on_body(struct http_client_stream *stream, const char *data, size_t length)
{
	reply_body(stream->user, data, length);
}

static void on_body_end(struct http_client_stream *stream, const struct http_field *trailers, size_t trailers_len)
{
	reply_end(stream->user, trailers, trailers_len);
}

const struct link_users call_links = {
    .trust_ns = REA_NS_PER_S,
    .events = {on_interim, on_response, on_body, on_body_end, on_error, on_writable},
    .connected = begin,
    .connect_failed = on_connect_failed,
    .closed = on_closed,
};
