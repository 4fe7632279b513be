/*
 * One attempt of a task at an instance.
 *
 *   proxy_deliver ─▶ connection, pooled or new ─▶ request out ─▶ reply's head ─▶ reply's body, up to reply_max ─▶ done
 *
 * One timer ends it at its deadline in whichever of these it stands; before its first turn the same timer carries what went wrong at once, since done
 * may not fire inside proxy_deliver. A reply's status speaks from its head on when it is a failure; a success must come whole, or at least
 * as much of it as is kept.
 */
#include "proxy/deliver.h"
#include "proxy/internal.h"

#include "base/container.h"
#include "base/format.h"

#include <assert.h>
#include <stdlib.h>

/* Given to the connection at once; more waits until it has drained. */
#define PIECE_BYTES ((size_t)64 * 1024)
#define CONTENT_TYPE_MAX 128
#define DETAIL_MAX 192

/* What rea writes itself. */
#define SKIP                                                                                 \
	(UINT64_C(1) << HTTP_FIELD_IDEMPOTENCY_KEY | UINT64_C(1) << HTTP_FIELD_REA_ATTEMPT | \
	    UINT64_C(1) << HTTP_FIELD_REA_DEADLINE_MS)

struct proxy_delivery {
	struct attempt attempt; /* first: an attempt here is its delivery */
	struct view *view;
	struct view_service *service;
	struct proxy_delivery_options options;
	struct wheel_timer timer;
	bool over;           /* report is final, the timer will tell it */
	bool replied;        /* the reply's head has come: report is what it says */
	bool status_follows; /* gRPC: the reply's trailers decide */
	bool reply_cut;
	enum http_error error; /* why the reply could not be read */
	struct rea_report report;
	struct rea_buffer reply;
	size_t content_type_len;
	char content_type[CONTENT_TYPE_MAX];
	void (*done)(const struct proxy_delivery_result *result, void *user_data);
	void *user_data;
};

static struct proxy_delivery *delivery_of(struct attempt *attempt)
{
	return REA_CONTAINER_OF(attempt, struct proxy_delivery, attempt);
}

/* ---- routes ---- */

static struct view_service *find_service(struct view *view, struct rea_slice name)
{
	const struct rea_config_service *config = rea_config_find_service(view->snapshot->config, name.data, name.length);

	return config != NULL ? &view->services[config->index] : NULL;
}

bool proxy_service_breaker(struct proxy_worker *worker, struct rea_slice service, enum rea_breaker_state *ret_state)
{
	const struct view_service *in = find_service(worker->view, service);

	return in != NULL && view_service_breaker(in, ret_state);
}

bool proxy_route_get(struct proxy_worker *worker, struct rea_slice service, struct rea_slice method,
    struct rea_slice path, struct proxy_route *ret_route)
{
	struct view *view = worker->view;
	struct view_service *in = find_service(view, service);
	struct circuit *circuit;

	if (in == NULL)
		return false;
	*ret_route = (struct proxy_route){
	    .service = in->config,
	    .budget = in->state->budget,
	    .budget_shard = worker->index,
	    .limit = &worker->proxy->limit,
	    .useful_ns = (uint64_t)in->median_latency_ns,
	    .biz_id_header = rea_config_settings(view->snapshot->config)->biz_id_header,
	    .view = view,
	    .in = in,
	};
	view_service_method(in, method, path, &ret_route->operation, &ret_route->policy);
	if (ret_route->operation != NULL)
		ret_route->grant = ret_route->operation->grant;
	ret_route->instances = view_service_instances(in, ret_route->operation);
	circuit = view_service_circuit(in, ret_route->operation, false);
	ret_route->breaker = circuit != NULL ? circuit->breaker : NULL;
	view->refs++;
	return true;
}

void proxy_route_put(struct proxy_route *route)
{
	view_unref(route->view);
	route->view = NULL;
}

/* ---- the end ---- */

static void delivery_free(struct proxy_delivery *delivery)
{
	loop_timer_stop(delivery->attempt.upstream->worker->loop, &delivery->timer);
	rea_buffer_fini(&delivery->reply);
	free(delivery->attempt.trouble);
	view_unref(delivery->view);
	free(delivery);
}

static const char *describe(const struct proxy_delivery *delivery, char *text, size_t size)
{
	const struct rea_report *report = &delivery->report;
	struct rea_format out;

	if (report->outcome == REA_OUTCOME_OK || report->code_kind == REA_CODE_HTTP)
		return "";
	rea_format_init(&out, text, size);
	rea_format_text(&out, delivery->attempt.upstream->name);
	rea_format_text(&out, ": ");
	if (delivery->attempt.trouble != NULL)
		return delivery->attempt.trouble;
	if (delivery->error != HTTP_ERROR_NONE && delivery->error != HTTP_ERROR_TRUNCATED) {
		rea_format_text(&out, "the reply cannot be read: ");
		rea_format_text(&out, http_error_text(delivery->error));
	} else {
		rea_format_text(&out, report->outcome == REA_OUTCOME_NEVER_SENT ? "not reached: "
				      : delivery->replied                       ? "in the middle of the reply: "
										: "no reply: ");
		rea_format_text(&out, uv_strerror(-(int)report->code));
	}
	return text;
}

/* Not inside proxy_deliver. */
static void finish(struct proxy_delivery *delivery)
{
	struct attempt *attempt = &delivery->attempt;
	const struct rea_report *report = &delivery->report;
	char detail[DETAIL_MAX];
	struct proxy_delivery_result result = {
	    .report = *report,
	    .instance = attempt->upstream->name,
	    .content_type = rea_slice_make(delivery->content_type, delivery->content_type_len),
	    .reply_cut = delivery->reply_cut,
	    .detail = describe(delivery, detail, sizeof(detail)),
	};

	if (rea_buffer_length(&delivery->reply) > 0)
		result.reply = rea_slice_make(rea_buffer_data(&delivery->reply), rea_buffer_length(&delivery->reply));
	attempt_drop(attempt, report);
	if (!delivery->options.check) {
		rea_service_stats_attempt(delivery->service->stats, report->outcome, delivery->options.is_retry);
		if (report->outcome == REA_OUTCOME_OK)
			view_service_learn(delivery->service, report->latency_ns);
	}
	delivery->done(&result, delivery->user_data);
	/* Whoever was told has asked the engine. */
	if (!delivery->options.check)
		upstream_tell(attempt->upstream, delivery->service->config->name);
	delivery_free(delivery);
}

static void finish_soon(struct proxy_delivery *delivery, const struct rea_report *report)
{
	attempt_drop(&delivery->attempt, report);
	delivery->over = true;
	delivery->report = *report;
	loop_timer_start(delivery->attempt.upstream->worker->loop, &delivery->timer, 0);
}

/* The exchange ended before its time. A failure that the reply's head has told stays what it is. */
static void finish_broken(struct proxy_delivery *delivery, const struct rea_report *report)
{
	delivery->reply_cut = delivery->replied;
	if (!delivery->replied || delivery->report.outcome == REA_OUTCOME_OK)
		delivery->report = *report;
	finish(delivery);
}

static void on_timer(struct wheel_timer *timer, uint64_t now_ns)
{
	struct proxy_delivery *delivery = REA_CONTAINER_OF(timer, struct proxy_delivery, timer);
	struct rea_report report;

	(void)now_ns;
	if (delivery->over) {
		finish(delivery);
		return;
	}
	report = attempt_report_io(&delivery->attempt, attempt_phase(&delivery->attempt), UV_ETIMEDOUT);
	finish_broken(delivery, &report);
}

/* ---- the request ---- */

static void pump(struct attempt *attempt)
{
	const struct rea_slice body = delivery_of(attempt)->options.body;
	struct loop_http_client *client = attempt->link->client;

	if (attempt->stream == NULL || attempt->request_finished)
		return;
	while (attempt->given < body.length && !loop_http_client_congested(attempt->stream)) {
		size_t piece = body.length - (size_t)attempt->given;

		if (piece > PIECE_BYTES)
			piece = PIECE_BYTES;
		/* Out of memory reads as an instance that takes nothing: the deadline ends it. */
		if (http_client_write(attempt->stream, body.data + attempt->given, piece) != 0)
			return;
		attempt->given += piece;
	}
	if (attempt->given == body.length) {
		attempt->request_finished = true;
		http_client_finish(attempt->stream, NULL, 0);
	}
	loop_http_client_flush(client);
}

static void begin(struct attempt *attempt)
{
	struct proxy_delivery *delivery = delivery_of(attempt);
	struct loop_http_client *client = attempt->link->client;
	struct http_request_head head = delivery->options.head;
	const char *host = view_service_host(delivery->service, delivery->options.instance);
	struct rea_report report;

	head.scheme = view_service_scheme(delivery->service);
	head.authority = rea_slice_of(host != NULL ? host : attempt->upstream->name);
	head.skip |= SKIP;
	head.body_length = delivery->options.body.length;
	attempt->given = 0;
	attempt->request_finished = false;
	attempt->stream = loop_http_client_begin(client, &head, attempt);
	if (attempt->stream == NULL) {
		report = attempt_report_io(attempt, REA_PHASE_UNSENT, UV_ENOMEM);
		finish_soon(delivery, &report);
		return;
	}
	pump(attempt);
}

static void get_link(struct proxy_delivery *delivery, bool fresh)
{
	struct attempt *attempt = &delivery->attempt;
	struct rea_report report;
	bool ready;
	int error = link_get(attempt->upstream, attempt, delivery->service,
	    link_wants(delivery->service) | (delivery->options.grpc ? LINK_H2 : 0) | (fresh ? LINK_FRESH : 0), &ready);

	if (error != 0) {
		report = attempt_report_io(attempt, REA_PHASE_CONNECT, error);
		finish_soon(delivery, &report);
	} else if (ready) {
		begin(attempt);
	}
}

static void on_connect_failed(struct attempt *attempt, int status)
{
	struct rea_report report = attempt_report_io(attempt, REA_PHASE_CONNECT, status);

	finish_broken(delivery_of(attempt), &report);
}

static void broken(struct attempt *attempt, int status, enum http_error error)
{
	struct proxy_delivery *delivery = delivery_of(attempt);
	struct rea_report report;

	if (attempt_went_stale(attempt, error)) {
		get_link(delivery, true);
		return;
	}
	delivery->error = error;
	report = attempt_report_broken(attempt, status, error);
	finish_broken(delivery, &report);
}

static void on_closed(struct attempt *attempt, int status)
{
	broken(attempt, status, HTTP_ERROR_TRUNCATED);
}

/* ---- the reply ---- */

static void on_interim(struct http_client_stream *stream, const struct http_response *response)
{
	(void)stream;
	(void)response;
}

static void keep_content_type(struct proxy_delivery *delivery, const struct http_response *response)
{
	const struct http_field *field =
	    http_field_named(response->fields, response->fields_len, REA_SLICE_LIT("content-type"));

	if (field == NULL || field->value.length > CONTENT_TYPE_MAX)
		return;
	memcpy(delivery->content_type, field->value.data, field->value.length);
	delivery->content_type_len = field->value.length;
}

static void on_response(struct http_client_stream *stream, const struct http_response *response)
{
	struct attempt *attempt = stream->user;
	struct proxy_delivery *delivery = delivery_of(attempt);

	delivery->replied = true;
	if (delivery->options.grpc)
		delivery->report = grpc_reply_head(attempt, response, delivery->options.policy, &delivery->status_follows);
	else
		delivery->report = reply_judge(attempt, response, delivery->options.policy);
	keep_content_type(delivery, response);
}

static void on_body(struct http_client_stream *stream, const char *data, size_t length)
{
	struct proxy_delivery *delivery = delivery_of(stream->user);
	size_t room = delivery->options.reply_max - rea_buffer_length(&delivery->reply);

	delivery->reply_cut = length > room;
	if (rea_buffer_append(&delivery->reply, data, length > room ? room : length) != 0)
		delivery->reply_cut = true;
	if (delivery->reply_cut)
		finish(delivery);
}

static void on_body_end(struct http_client_stream *stream, const struct http_field *trailers, size_t trailers_len)
{
	struct attempt *attempt = stream->user;
	struct proxy_delivery *delivery = delivery_of(attempt);

	if (delivery->status_follows)
		delivery->report = grpc_reply_trailers(attempt, trailers, trailers_len, delivery->options.policy);
	attempt->stream = NULL;
	link_put(attempt);
	finish(delivery_of(attempt));
}

static void on_error(struct http_client_stream *stream, enum http_error error)
{
	struct attempt *attempt = stream->user;

	broken(attempt, loop_http_client_status(attempt->link->client), error);
}

static void on_writable(struct http_client_stream *stream)
{
	pump(stream->user);
}

/* Every connection is asked: a task that meets a closing one may not be tried again. */
const struct link_users delivery_links = {
    .trust_ns = 0,
    .events = {on_interim, on_response, on_body, on_body_end, on_error, on_writable},
    .connected = begin,
    .connect_failed = on_connect_failed,
    .closed = on_closed,
};

/* ---- begin and cancel ---- */

struct proxy_delivery *proxy_deliver(const struct proxy_route *route, const struct proxy_delivery_options *options,
    void (*done)(const struct proxy_delivery_result *result, void *user_data), void *user_data)
{
	struct proxy_delivery *delivery = calloc(1, sizeof(*delivery));
	struct upstream *upstream = route->in->upstreams[options->instance];
	struct loop *loop = upstream->worker->loop;

	assert(options->instance < route->in->instances.count);
	if (delivery == NULL)
		return NULL;
	delivery->view = route->view;
	delivery->view->refs++;
	delivery->service = route->in;
	delivery->options = *options;
	delivery->done = done;
	delivery->user_data = user_data;
	delivery->timer.fire = on_timer;
	delivery->attempt = (struct attempt){
	    .upstream = upstream,
	    .instance = options->instance,
	    .start_ns = loop_now(loop),
	    .deadline_ns = options->deadline_ns,
	    .in_load = !options->check,
	};
	if (delivery->attempt.in_load)
		rea_load_begin(&upstream->load, delivery->attempt.start_ns);
	loop_timer_start(loop, &delivery->timer, options->deadline_ns);
	get_link(delivery, false);
	return delivery;
}

void proxy_delivery_cancel(struct proxy_delivery *delivery)
{
	static const struct rea_report cancelled = {.outcome = REA_OUTCOME_CANCELLED};

	attempt_drop(&delivery->attempt, &cancelled);
	if (!delivery->options.check)
		rea_service_stats_attempt(delivery->service->stats, REA_OUTCOME_CANCELLED, delivery->options.is_retry);
	delivery_free(delivery);
}
