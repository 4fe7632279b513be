/*
 * One call through the sidecar, from its request's head to the last byte of its reply.
 *
 *   BEGIN ─▶ CONNECT ─▶ SEND ─▶ HOLD ─▶ STREAM ─▶ end
 *     │         │         │      │        └─ reply passed on, whole or cut
 *     │         └────┬────┴──────┘
 *     │       attempt failed: WAIT ─▶ CONNECT …, or answered and end
 *     └─ no attempt to make: answered and end
 *
 * The engine (rea/call.h) decides; this file asks it and acts. While `decided` is false exactly one more decision will come. One timer serves
 * all phases, since each waits for one thing.
 */
#include "proxy/held.h"

#include "base/container.h"

#include <assert.h>
#include <stdlib.h>

#define SPARES_MAX 256
/* What a spare exchange may keep in its buffers. */
#define SPARE_BYTES_MAX ((size_t)16 * 1024)
/* A tunnel in which nothing moves for so long is given up, and so is a gRPC call: its messages come when they come. */
#define TUNNEL_IDLE_NS (3600 * REA_NS_PER_S)

static void on_timer(struct wheel_timer *timer, uint64_t now_ns);

static struct exchange *exchange_new(struct proxy_worker *worker)
{
	struct exchange *exchange = worker->spare;

	if (exchange != NULL) {
		worker->spare = exchange->next_spare;
		worker->spare_len--;
		memset((char *)exchange + offsetof(struct exchange, worker), 0,
		    offsetof(struct exchange, scratch) - offsetof(struct exchange, worker));
	} else {
		exchange = calloc(1, sizeof(*exchange));
		if (exchange == NULL)
			return NULL;
	}
	exchange->worker = worker;
	exchange->timer.fire = on_timer;
	return exchange;
}

static void exchange_free(struct exchange *exchange)
{
	held_fini(&exchange->held);
	rea_buffer_fini(&exchange->body);
	free(exchange);
}

void exchange_free_spares(struct proxy_worker *worker)
{
	while (worker->spare != NULL) {
		struct exchange *exchange = worker->spare;

		worker->spare = exchange->next_spare;
		exchange_free(exchange);
	}
	worker->spare_len = 0;
}

static void recycle(struct exchange *exchange)
{
	struct proxy_worker *worker = exchange->worker;

	free(exchange->trailers);
	exchange->trailers = NULL;
	for (size_t i = 0; i < sizeof(exchange->slots) / sizeof(exchange->slots[0]); i++)
		free(exchange->slots[i].trouble);
	if (worker->spare_len >= SPARES_MAX) {
		exchange_free(exchange);
		return;
	}
	held_drop(&exchange->held);
	rea_buffer_clear(&exchange->body);
	rea_buffer_trim(&exchange->body, SPARE_BYTES_MAX);
	rea_buffer_trim(&exchange->held.body, SPARE_BYTES_MAX);
	exchange->next_spare = worker->spare;
	worker->spare = exchange;
	worker->spare_len++;
}

void exchange_end(struct exchange *exchange)
{
	struct proxy_worker *worker = exchange->worker;
	static const struct rea_report none = {.outcome = REA_OUTCOME_CANCELLED};

	assert(exchange->decided);
	record_call_end(exchange);
	loop_timer_stop(worker->loop, &exchange->timer);
	if (exchange->current != NULL)
		attempt_drop(exchange->current, &none);
	if (exchange->holding != NULL)
		attempt_drop(exchange->holding, &none);
	exchange->downstream->user = NULL;
	view_unref(exchange->view);
	recycle(exchange);
}

void exchange_abandon(struct exchange *exchange)
{
	exchange->abandoned = true;
	exchange_set_phase(exchange, exchange->phase, 0);
}

static uint64_t idle_max_ns(const struct exchange *exchange)
{
	const struct rea_config_settings *settings = rea_config_settings(exchange->view->snapshot->config);

	return exchange->tunnel || exchange->grpc ? TUNNEL_IDLE_NS : rea_time_from_ms(settings->timeouts.stream_idle_ms);
}

void exchange_set_phase(struct exchange *exchange, enum exchange_phase phase, uint64_t due_ns)
{
	struct loop *loop = exchange->worker->loop;

	exchange->phase = phase;
	/* Without a time of its own a phase ends when bodies stand still. */
	if (exchange->abandoned)
		due_ns = 0;
	else if (due_ns == REA_NEVER)
		due_ns = rea_time_add(loop_now(loop), idle_max_ns(exchange));
	loop_timer_start(loop, &exchange->timer, rea_time_min(due_ns, exchange->deadline_ns));
}

/* The end of a call that has no reply of its own to pass on. */
static void give_up(struct exchange *exchange)
{
	struct loop_http_conn *conn = loop_http_conn_of(exchange->downstream);

	if (exchange->responded && exchange->grpc) {
		exchange_answer_trailers(exchange);
	} else if (exchange->responded) {
		http_server_reset(exchange->downstream);
	} else if (exchange->held.present) {
		reply_adopt(exchange);
		return;
	} else {
		exchange_answer_give_up(exchange);
	}
	exchange_end(exchange);
	loop_http_conn_flush(conn);
}

static void next_attempt(struct exchange *exchange)
{
	struct loop *loop = exchange->worker->loop;
	struct rea_decision *decision = &exchange->decision;
	static const struct rea_report none = {.outcome = REA_OUTCOME_NEVER_SENT};

	rea_call_attempt(&exchange->call, view_service_instances(exchange->service, exchange->operation), &loop->random,
	    loop_now(loop), decision);
	switch (decision->step) {
	case REA_STEP_ATTEMPT:
		attempt_start(exchange, decision);
		return;
	case REA_STEP_WAIT:
		exchange_set_phase(exchange, EXCHANGE_WAIT, decision->wait_until_ns);
		return;
	case REA_STEP_DONE:
		exchange->decided = true;
		/* What the caller is answered with is how the last attempt ended, if there was one. */
		record_decision(exchange, NULL, decision, &none);
		give_up(exchange);
		return;
	}
}

/* What the engine has to know of the request besides the outcome. */
static uint32_t replay_flags(const struct exchange *exchange)
{
	uint32_t flags = 0;

	if (!exchange->body_complete)
		flags |= REA_REPORT_BODY_INCOMPLETE;
	if (exchange->over_limit)
		flags |= REA_REPORT_BODY_OVER_LIMIT;
	if (exchange->responded)
		flags |= REA_REPORT_RESPONSE_STARTED;
	return flags;
}

static void leave_load(struct attempt *attempt, const struct rea_report *report, uint64_t now_ns)
{
	if (attempt->in_load)
		rea_load_end(&attempt->upstream->load, report, now_ns);
	attempt->in_load = false;
}

void exchange_report(struct exchange *exchange, struct attempt *attempt, const struct rea_report *report,
    const struct http_response *response)
{
	struct loop *loop = exchange->worker->loop;
	struct rea_decision *decision = &exchange->decision;
	uint64_t now = loop_now(loop);

	exchange->report = *report;
	/* A success that was passed on is no half-passed reply: it is whole. */
	if (report->outcome != REA_OUTCOME_OK)
		exchange->report.flags |= replay_flags(exchange);
	leave_load(attempt, report, now);
	rea_call_report(&exchange->call, &exchange->report,
	    view_service_instances(exchange->service, exchange->operation), &loop->random, now, decision);
	record_decision(exchange, attempt, decision, &exchange->report);
	upstream_tell(attempt->upstream, exchange->service->config->name);
	if (report->outcome == REA_OUTCOME_OK)
		view_service_learn(exchange->service, report->latency_ns);
	/* The caller has it already, or is about to: good, or, with gRPC, a failure that its trailers tell. */
	if (report->outcome == REA_OUTCOME_OK || (attempt->over && exchange->responded)) {
		exchange->decided = true;
		return;
	}
	/* What is known of an earlier reply holds only while nothing was sent after it. One that is over is itself held. */
	if (response == NULL && !attempt->over && report->outcome != REA_OUTCOME_NEVER_SENT)
		reply_leave_held(exchange);
	if (decision->step == REA_STEP_WAIT) {
		exchange->current = NULL;
		if (response != NULL)
			reply_hold(attempt, response);
		exchange_set_phase(exchange, EXCHANGE_WAIT, decision->wait_until_ns);
		return;
	}
	exchange->decided = true;
	if (response != NULL) {
		reply_pass(exchange, response);
	} else {
		exchange->current = NULL;
		give_up(exchange);
	}
}

/* The call ends from the caller's side. The request is still there to tell of. */
static void decide_cancelled(struct exchange *exchange)
{
	struct rea_report report = {.outcome = REA_OUTCOME_CANCELLED};
	struct attempt *attempt = exchange->current;
	struct loop *loop = exchange->worker->loop;

	if (exchange->decided)
		return;
	if (attempt != NULL)
		report.latency_ns = rea_time_sub(loop_now(loop), attempt->start_ns);
	rea_call_cancel(&exchange->call, loop_now(loop), &exchange->decision);
	exchange->decided = true;
	record_decision(exchange, attempt, &exchange->decision, &report);
}

static void body_stalled(struct exchange *exchange)
{
	struct loop_http_conn *conn = loop_http_conn_of(exchange->downstream);

	/* A caller that we keep waiting is not the one that stalls; nor is one that has said all. */
	if (exchange->paused || exchange->body_complete) {
		attempt_timeout(exchange->current);
		return;
	}
	decide_cancelled(exchange);
	exchange_answer_problem(exchange->downstream, exchange->grpc, 408, "the request body did not arrive",
	    REA_REASON_CANCELLED, false, true);
	exchange_end(exchange);
	loop_http_conn_flush(conn);
}

/* Bodies note when they moved instead of setting the timer anew. */
static bool still_moving(struct exchange *exchange, uint64_t now_ns)
{
	uint64_t due = rea_time_add(exchange->progress_ns, idle_max_ns(exchange));

	if (due <= now_ns)
		return false;
	exchange_set_phase(exchange, exchange->phase, due);
	return true;
}

/* The time that a gRPC caller gave is over. */
static void deadline_passed(struct exchange *exchange)
{
	static const struct rea_report none = {.outcome = REA_OUTCOME_NEVER_SENT};

	if (exchange->current != NULL) {
		attempt_timeout(exchange->current);
		return;
	}
	rea_call_refuse(&exchange->call, REA_REASON_DEADLINE, loop_now(exchange->worker->loop), &exchange->decision);
	exchange->decided = true;
	record_decision(exchange, NULL, &exchange->decision, &none);
	give_up(exchange);
}

static void on_timer(struct wheel_timer *timer, uint64_t now_ns)
{
	struct exchange *exchange = REA_CONTAINER_OF(timer, struct exchange, timer);

	if (exchange->abandoned) {
		struct http_server_stream *downstream = exchange->downstream;

		decide_cancelled(exchange);
		exchange_end(exchange);
		loop_http_conn_reset(downstream);
		return;
	}
	if (now_ns >= exchange->deadline_ns) {
		deadline_passed(exchange);
		return;
	}
	switch (exchange->phase) {
	case EXCHANGE_BEGIN:
		break;
	case EXCHANGE_CONNECT:
		attempt_timeout(exchange->current);
		break;
	case EXCHANGE_SEND:
		if (exchange->current->deadline_ns != REA_NEVER)
			attempt_timeout(exchange->current);
		else if (!still_moving(exchange, now_ns))
			body_stalled(exchange);
		break;
	case EXCHANGE_HOLD:
		reply_release(exchange);
		break;
	case EXCHANGE_STREAM:
		if (!still_moving(exchange, now_ns))
			attempt_timeout(exchange->current);
		break;
	case EXCHANGE_WAIT:
		next_attempt(exchange);
		break;
	}
}

/* ---- what the caller's connection tells ---- */

/* Many clients offer h2c, or TLS (RFC 2817: Apache HttpClient since 5.4), with every request; ignoring it is an answer, too (RFC 9110 7.8). */
static bool is_mere_offer(struct rea_slice protocol)
{
	struct rea_slice tls = REA_SLICE_LIT("TLS/");

	return rea_slice_equal_nocase(protocol, REA_SLICE_LIT("h2c")) ||
	       (protocol.length > tls.length && rea_slice_equal_nocase(rea_slice_make(protocol.data, tls.length), tls));
}

static bool wants_upgrade(const struct http_request *request)
{
	const struct http_field *field =
	    request->upgrade ? http_field_find(request->fields, request->fields_len, HTTP_FIELD_UPGRADE) : NULL;

	return field != NULL && !is_mere_offer(field->value);
}

/* Answers what cannot become a call. service: NULL = none was matched. True = answered. */
static bool refuse(struct http_server_stream *stream, struct view *view, const struct http_request *request,
    const struct view_service *service)
{
	const struct rea_config_settings *settings = rea_config_settings(view->snapshot->config);
	bool body = request->body_length != 0, grpc = grpc_call_is(request);
	uint64_t timeout;

	if (service == NULL && grpc)
		exchange_answer_problem(stream, true, 404,
		    "no service of that name: address one by :authority or name its package in grpc-services",
		    REA_REASON_NONE, false, body);
	else if (grpc && !grpc_call_timeout(request, &timeout))
		exchange_answer_problem(stream, true, 400,
		    "grpc-timeout is not 1 to 8 digits and one of H, M, S, m, u, n", REA_REASON_NONE, false, body);
	else if (service == NULL)
		exchange_answer_problem(stream, false, 404,
		    "no service of that name: address one by path prefix, by Host or as http_proxy", REA_REASON_NONE,
		    false, body);
	else if (request->method_id == HTTP_CONNECT && settings->connect == REA_TUNNEL_REFUSE)
		exchange_answer_problem(
		    stream, false, 501, "CONNECT is not enabled here (http.connect)", REA_REASON_NONE, false, body);
	else if (settings->upgrade == REA_TUNNEL_REFUSE && wants_upgrade(request))
		exchange_answer_problem(stream, false, 501, "protocol upgrades are not enabled here (http.upgrade)",
		    REA_REASON_NONE, false, body);
	else if (service->config->protocol == REA_PROTOCOL_H2 && wants_upgrade(request))
		exchange_answer_problem(stream, false, 501,
		    "HTTP/2, which this service's instances speak, has no upgrades", REA_REASON_NONE, false, body);
	else
		return false;
	return true;
}

static bool set_path(struct exchange *exchange, struct rea_slice path)
{
	if (path.length > 0 && path.data[0] != '?') {
		exchange->path = path;
		return true;
	}
	/* Nothing was left after the prefix. */
	if (path.length == 0 && exchange->request->method_id == HTTP_CONNECT)
		return true;
	exchange->path = scratch_put(exchange, REA_SLICE_LIT("/"));
	if (path.length > EXCHANGE_SCRATCH_BYTES / 2)
		return false;
	exchange->path.length += scratch_put(exchange, path).length;
	return true;
}

static bool repeatable(struct rea_grant grant, const struct rea_policy *policy, bool has_key)
{
	switch (grant.permission) {
	case REA_PERMISSION_SAFE:
	case REA_PERMISSION_IDEMPOTENT:
		return true;
	case REA_PERMISSION_IDEMPOTENT_WITH_KEY:
		return has_key || policy->never_sent == REA_NEVER_SENT_ALLOW;
	case REA_PERMISSION_NONE:
	case REA_PERMISSION_UNKNOWN:
		return policy->never_sent == REA_NEVER_SENT_ALLOW;
	case REA_PERMISSION_FORBID:
	case REA_PERMISSION_COUNT:
		break;
	}
	return false;
}

static void begin_call(struct exchange *exchange, uint64_t deadline_ms)
{
	struct view_service *service = exchange->service;
	struct proxy_worker *worker = exchange->worker;
	const struct rea_operation *operation = exchange->operation;
	struct circuit *circuit = view_service_circuit(service, operation, exchange->grpc);
	struct rea_call_options options;

	rea_call_options_init(&options);
	options.policy = exchange->policy;
	if (operation != NULL)
		options.grant = operation->grant;
	options.has_key = exchange->key.length > 0;
	options.chained = exchange->chained_from > 1;
	if (deadline_ms != UINT64_MAX)
		options.deadline_ns = rea_time_add(exchange->begin_ns, rea_time_from_ms(deadline_ms));
	options.deadline_ns = rea_time_min(options.deadline_ns, exchange->deadline_ns);
	options.deadline_open = exchange->untimed || exchange->request->body_length != 0;
	options.useful_ns = (uint64_t)service->median_latency_ns;
	options.budget = service->state->budget;
	options.budget_shard = worker->index;
	options.breaker = circuit != NULL ? circuit->breaker : NULL;
	options.limit = &worker->proxy->limit;
	options.parking = &worker->proxy->parking;
	exchange->may_retry = exchange->policy->enabled && !exchange->tunnel && rea_policy_attempts(exchange->policy) > 1 &&
			      !(options.chained && exchange->policy->chain_stop) &&
			      repeatable(view_service_grant(service, operation), exchange->policy, options.has_key);
	exchange->body_streamed = !exchange->may_retry;
	rea_call_begin(&exchange->call, &options, exchange->begin_ns);
}

/* A gRPC call has a policy of its own, and a time of its own. */
static void set_times(struct exchange *exchange)
{
	uint64_t timeout;

	exchange->deadline_ns = REA_NEVER;
	exchange->grpc = grpc_call_is(exchange->request);
	if (!exchange->grpc)
		return;
	exchange->policy = rea_config_grpc_policy(exchange->view->snapshot->config, exchange->service->config,
	    exchange->request->path.data, exchange->request->path.length);
	exchange->untimed = !grpc_call_timed(exchange->operation, exchange->policy);
	if (grpc_call_timeout(exchange->request, &timeout))
		exchange->deadline_ns = rea_time_add(exchange->begin_ns, timeout);
}

static void on_request(struct http_server_stream *stream, const struct http_request *request)
{
	struct proxy_worker *worker = loop_http_conn_user(loop_http_conn_of(stream));
	struct view *view = worker->view;
	struct exchange *exchange;
	struct match match;
	uint64_t deadline_ms;

	stream->user = NULL;
	if (refuse(stream, view, request, match_service(view, request, &match) ? match.service : NULL)) {
		worker_count(&worker->refused);
		return;
	}
	exchange = exchange_new(worker);
	if (exchange == NULL) {
		exchange_answer_problem(stream, grpc_call_is(request), 503, "out of memory", REA_REASON_NONE, false, true);
		return;
	}
	stream->user = exchange;
	exchange->downstream = stream;
	exchange->request = request;
	exchange->view = view;
	view->refs++;
	exchange->service = match.service;
	exchange->authority = match.authority;
	exchange->begin_ns = exchange->progress_ns = loop_now(worker->loop);
	exchange->id = rea_random_next(&worker->loop->random);
	exchange->tunnel = request->method_id == HTTP_CONNECT || wants_upgrade(request);
	rea_service_stats_begin(match.service->stats);
	view_service_method(match.service, request->method, match.path, &exchange->operation, &exchange->policy);
	set_times(exchange);
	head_read(exchange, &deadline_ms);
	if (!set_path(exchange, match.path)) {
		exchange_answer_problem(stream, exchange->grpc, 414,
		    "the query is too long for a path of nothing but the service's name", REA_REASON_NONE, false, true);
		exchange->decided = true;
		exchange_end(exchange);
		return;
	}
	head_prepare(exchange);
	begin_call(exchange, deadline_ms);
	next_attempt(exchange);
}

static void on_body(struct http_server_stream *stream, const char *data, size_t length)
{
	struct exchange *exchange = stream->user;

	if (exchange != NULL)
		body_receive(exchange, data, length);
}

/* From here on the clocks run: how long the caller took to send its request is its own affair. */
static void start_clocks(struct exchange *exchange)
{
	struct loop *loop = exchange->worker->loop;
	uint64_t now = loop_now(loop), deadline;
	struct attempt *attempt = exchange->current;

	if (exchange->untimed)
		return;
	rea_call_start_deadline(&exchange->call, now);
	deadline = rea_call_deadline(&exchange->call);
	if (attempt == NULL || attempt->deadline_ns != REA_NEVER)
		return;
	attempt->deadline_ns = rea_time_min(rea_time_add(now, exchange->policy->attempt_timeout_ns), deadline);
	if (exchange->phase == EXCHANGE_SEND)
		exchange_set_phase(exchange, EXCHANGE_SEND, attempt->deadline_ns);
}

static void on_body_end(struct http_server_stream *stream, const struct http_field *trailers, size_t trailers_len)
{
	struct exchange *exchange = stream->user;

	if (exchange == NULL || exchange->body_complete)
		return;
	/* Trailers are the least of a request: without memory they are lost rather than the call. */
	if (trailers_len > 0)
		exchange->trailers = fields_copy(trailers, trailers_len);
	exchange->trailers_len = exchange->trailers != NULL ? trailers_len : 0;
	exchange->body_complete = true;
	if (exchange->request->body_length != 0)
		start_clocks(exchange);
	body_pump(exchange);
}

static void on_abort(struct http_server_stream *stream, enum http_error error)
{
	struct exchange *exchange = stream->user;

	(void)error;
	if (exchange == NULL)
		return;
	decide_cancelled(exchange);
	exchange_end(exchange);
}

static void on_writable(struct http_server_stream *stream)
{
	struct exchange *exchange = stream->user;
	struct attempt *attempt = exchange != NULL ? exchange->current : NULL;
	struct loop_http_client *client;

	if (attempt == NULL || !attempt->paused)
		return;
	attempt->paused = false;
	exchange->progress_ns = loop_now(exchange->worker->loop);
	client = attempt->link->client;
	/* May bring more of the reply, or its end, before it returns; the connection itself is freed later. */
	http_client_resume(attempt->stream);
	loop_http_client_flush(client);
}

const struct http_server_events exchange_events = {on_request, on_body, on_body_end, on_abort, on_writable};
