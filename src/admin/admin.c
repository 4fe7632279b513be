/*
 * Connections of the admin API. What the tables of other rooms name is handed to them with its whole body; of all else the body is read and
 * thrown away, up to a limit, and answer.c says what is answered.
 *
 * An exchange lives from its head to the end of its answer, or its abort.
 */
#include "admin/admin.h"

#include "admin/answer.h"
#include "admin/health.h"
#include "admin/route.h"
#include "base/container.h"
#include "http/grpc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define HEAD_TIMEOUT_NS (10 * REA_NS_PER_S)
/* Short: connections that say nothing must not keep a health check waiting for one of the few places. */
#define IDLE_TIMEOUT_NS (5 * REA_NS_PER_S)
#define FIELDS_MAX 6

struct admin {
	struct loop_http_listener *listener;
	struct admin_sources sources;
	void (*closed)(void *arg);
	void *closed_arg;
};

struct exchange {
	struct admin_request request;
	struct http_server_stream *stream;
	const struct admin_route *route; /* NULL = answer.c's business */
	void *route_data;
	struct rea_buffer body; /* with a route */
	uint64_t body_bytes;
	bool inside; /* the session's callback is on the stack: it sends by itself */
};

static const struct admin *admin_of(struct http_server_stream *stream)
{
	return loop_http_conn_user(loop_http_conn_of(stream));
}

/* ---- sending ---- */

static size_t make_fields(const struct answer *answer, char retry_after[12], struct http_field fields[FIELDS_MAX])
{
	size_t count = 3;

	fields[0] = (struct http_field){.name = REA_SLICE_LIT("content-type"), .value = rea_slice_of(answer->content_type)};
	fields[1] = (struct http_field){.name = REA_SLICE_LIT("cache-control"), .value = REA_SLICE_LIT("no-store")};
	fields[2] = (struct http_field){.name = REA_SLICE_LIT("x-content-type-options"), .value = REA_SLICE_LIT("nosniff")};
	if (answer->allow[0] != '\0')
		fields[count++] = (struct http_field){.name = REA_SLICE_LIT("allow"), .value = rea_slice_of(answer->allow)};
	if (answer->location[0] != '\0')
		fields[count++] =
		    (struct http_field){.name = REA_SLICE_LIT("location"), .value = rea_slice_of(answer->location)};
	if (answer->retry_after_s > 0) {
		snprintf(retry_after, 12, "%u", answer->retry_after_s);
		fields[count++] =
		    (struct http_field){.name = REA_SLICE_LIT("retry-after"), .value = rea_slice_of(retry_after)};
	}
	return count;
}

static int send_head(struct http_server_stream *stream, const struct answer *answer, uint64_t length, bool has_body, bool close)
{
	struct http_field fields[FIELDS_MAX];
	char retry_after[12];
	struct http_response_head head = {
	    .status = answer->status,
	    .fields = fields,
	    .fields_len = make_fields(answer, retry_after, fields),
	    .body_length = length,
	    .has_body = has_body,
	    .close = close,
	};

	return http_server_respond(stream, &head);
}

/* The stream's last act; a session without memory for it cuts the connection. */
static void send_answer(struct http_server_stream *stream, const struct answer *answer, bool has_body, bool close)
{
	size_t length = rea_buffer_length(&answer->body);

	if (send_head(stream, answer, length, has_body, close) != 0 ||
	    (has_body && length > 0 && http_server_write(stream, rea_buffer_data(&answer->body), length) != 0) ||
	    http_server_finish(stream, NULL, 0) != 0)
		http_server_reset(stream);
}

static void refuse(struct http_server_stream *stream, uint16_t status, const char *detail)
{
	struct answer answer;

	answer_init(&answer, NULL);
	answer_problem(&answer, status, detail);
	send_answer(stream, &answer, true, true);
	answer_fini(&answer);
}

static void refuse_body(struct http_server_stream *stream, uint64_t max)
{
	char detail[64];

	if (max == ANSWER_REQUEST_BODY_MAX)
		snprintf(detail, sizeof(detail), "a request body may have 1 MiB");
	else
		snprintf(detail, sizeof(detail), "a request body may have %llu bytes", (unsigned long long)max);
	refuse(stream, 413, detail);
}

static void end_exchange(struct http_server_stream *stream)
{
	struct exchange *exchange = stream->user;

	stream->user = NULL;
	rea_buffer_fini(&exchange->body);
	free(exchange);
}

/* ---- answers of other rooms ---- */

static struct exchange *exchange_of(struct admin_request *request)
{
	return REA_CONTAINER_OF(request, struct exchange, request);
}

static bool has_body(const struct admin_request *request)
{
	return request->http->method_id != HTTP_HEAD;
}

/* The exchange is over, and what its session has to say is on its way. */
static void leave(struct exchange *exchange)
{
	struct loop_http_conn *conn = exchange->inside ? NULL : loop_http_conn_of(exchange->stream);

	end_exchange(exchange->stream);
	if (conn != NULL)
		loop_http_conn_flush(conn);
}

void admin_answer(struct admin_request *request, const struct answer *answer)
{
	struct exchange *exchange = exchange_of(request);
	static const struct answer no_memory = {.status = 503, .content_type = "text/plain; charset=utf-8"};

	send_answer(exchange->stream, answer->failed ? &no_memory : answer, has_body(request), false);
	leave(exchange);
}

void admin_answer_grpc(struct admin_request *request, unsigned status, const char *message, const char *data, size_t length)
{
	struct exchange *exchange = exchange_of(request);
	char number[12], text[128];
	struct http_field fields[3] = {
	    {.name = REA_SLICE_LIT("content-type"), .value = REA_SLICE_LIT("application/grpc")},
	    {.name = REA_SLICE_LIT("grpc-status"),
		.value = rea_slice_make(number, (size_t)snprintf(number, sizeof(number), "%u", status))},
	    {.name = REA_SLICE_LIT("grpc-message"),
		.value = rea_slice_make(text, grpc_message_encode(rea_slice_of(message), text, sizeof(text)))},
	};
	size_t ends = message[0] != '\0' ? 2 : 1;
	/* Without messages the head is all there is. */
	struct http_response_head head = {
	    .status = 200,
	    .fields = fields,
	    .fields_len = length > 0 ? 1 : 1 + ends,
	    .body_length = length > 0 ? HTTP_LENGTH_UNKNOWN : 0,
	    .has_body = length > 0,
	};

	if (http_server_respond(exchange->stream, &head) != 0 ||
	    (length > 0 && http_server_write(exchange->stream, data, length) != 0) ||
	    http_server_finish(exchange->stream, fields + 1, length > 0 ? ends : 0) != 0)
		http_server_reset(exchange->stream);
	leave(exchange);
}

static bool cut_off(struct exchange *exchange)
{
	http_server_reset(exchange->stream);
	leave(exchange);
	return false;
}

bool admin_stream(struct admin_request *request, const struct answer *answer)
{
	struct exchange *exchange = exchange_of(request);

	if (answer->failed || send_head(exchange->stream, answer, HTTP_LENGTH_UNKNOWN, has_body(request), false) != 0)
		return cut_off(exchange);
	return admin_stream_write(request, rea_buffer_data(&answer->body), rea_buffer_length(&answer->body));
}

bool admin_stream_write(struct admin_request *request, const char *data, size_t length)
{
	struct exchange *exchange = exchange_of(request);

	if (length > 0 && http_server_write(exchange->stream, data, length) != 0)
		return cut_off(exchange);
	if (!exchange->inside)
		loop_http_conn_flush(loop_http_conn_of(exchange->stream));
	return true;
}

bool admin_stream_congested(const struct admin_request *request)
{
	const struct exchange *exchange = REA_CONTAINER_OF(request, const struct exchange, request);

	return loop_http_conn_congested(exchange->stream);
}

void admin_stream_end(struct admin_request *request)
{
	struct exchange *exchange = exchange_of(request);

	if (http_server_finish(exchange->stream, NULL, 0) != 0)
		http_server_reset(exchange->stream);
	leave(exchange);
}

void admin_stream_cut(struct admin_request *request)
{
	struct http_server_stream *stream = exchange_of(request)->stream;

	end_exchange(stream);
	loop_http_conn_reset(stream);
}

/* ---- requests ---- */

/* Those of other rooms, and our own behind them. */
static size_t tables_len(const struct admin *admin)
{
	return admin->sources.tables_len + 1;
}

static struct admin_routes table_at(const struct admin *admin, size_t index)
{
	return index < admin->sources.tables_len ? admin->sources.tables[index] : health_routes(&admin->sources);
}

/* "/v1/tasks/replay" is itself, and no task of that name. */
static bool is_literal(const struct admin *admin, struct rea_slice path)
{
	for (size_t i = 0; i < tables_len(admin); i++) {
		const struct admin_routes table = table_at(admin, i);

		for (size_t k = 0; k < table.routes_len; k++)
			if (rea_slice_equal(rea_slice_of(table.routes[k].pattern), path))
				return true;
	}
	return false;
}

/* A table that knows the path. ret_route NULL: not this method; allow then lists those that there are. */
static bool find_route(const struct admin *admin, struct exchange *exchange, char allow[ROUTE_ALLOW_MAX])
{
	enum http_method wanted = route_method(exchange->request.http->method_id);
	bool known = false, literal = is_literal(admin, exchange->request.path);

	for (size_t i = 0; i < tables_len(admin) && exchange->route == NULL; i++) {
		const struct admin_routes table = table_at(admin, i);

		for (size_t k = 0; k < table.routes_len && exchange->route == NULL; k++) {
			if ((literal && strchr(table.routes[k].pattern, '{') != NULL) ||
			    !route_matches(table.routes[k].pattern, exchange->request.path, exchange->request.parameters))
				continue;
			known = true;
			route_allow(allow, table.routes[k].method);
			if (table.routes[k].method != wanted)
				continue;
			exchange->route = &table.routes[k];
			exchange->route_data = table.user_data;
		}
	}
	return known;
}

static uint64_t body_max(const struct exchange *exchange)
{
	return exchange->route != NULL ? exchange->route->body_max : ANSWER_REQUEST_BODY_MAX;
}

static void refuse_method(struct http_server_stream *stream, const char *allow, bool has_body)
{
	struct answer answer;

	answer_init(&answer, NULL);
	answer_problem(&answer, 405, "this resource does not know the method");
	snprintf(answer.allow, sizeof(answer.allow), "%s", allow);
	send_answer(stream, &answer, has_body, false);
	answer_fini(&answer);
}

/* "127.0.0.1:7071", "[::1]" and "localhost" name this listener whatever a resolver says; other names only where they are configured, since a
 * web page can make a name of its own lead here. */
static bool host_is_ours(const struct admin_sources *sources, struct rea_slice authority)
{
	struct rea_slice host = authority;
	size_t digits = authority.length;
	struct rea_instance_id id;
	char literal[LOOP_ADDRESS_MAX + 8];

	while (digits > 0 && authority.data[digits - 1] >= '0' && authority.data[digits - 1] <= '9')
		digits--;
	if (digits > 0 && authority.data[digits - 1] == ':')
		host.length = digits - 1;
	if (rea_slice_equal_nocase(host, REA_SLICE_LIT("localhost")))
		return true;
	for (size_t i = 0; i < sources->hosts_len; i++)
		if (rea_slice_equal_nocase(host, rea_slice_of(sources->hosts[i])))
			return true;
	if (host.length > LOOP_ADDRESS_MAX)
		return false;
	snprintf(literal, sizeof(literal), "%.*s:1", (int)host.length, host.data);
	return rea_instance_id_parse(literal, strlen(literal), &id);
}

static bool origin_is_ours(const struct http_request *request)
{
	const struct rea_slice scheme = REA_SLICE_LIT("http://"), name = REA_SLICE_LIT("origin");

	for (size_t i = 0; i < request->fields_len; i++) {
		const struct rea_slice value = request->fields[i].value;

		if (rea_slice_equal_nocase(request->fields[i].name, name) &&
		    (value.length <= scheme.length || memcmp(value.data, scheme.data, scheme.length) != 0 ||
			!rea_slice_equal_nocase(rea_slice_make(value.data + scheme.length, value.length - scheme.length),
			    request->authority)))
			return false;
	}
	return true;
}

/* A browser that some page has sent here changes nothing, and under a name that the page has made up it reads nothing. Probes and scrapers come
 * under any name. */
static const char *why_not(const struct admin *admin, const struct exchange *exchange)
{
	static const char api[] = "/v1/";
	const struct http_request *request = exchange->request.http;
	struct rea_slice path = exchange->request.path;
	bool changes = exchange->route != NULL && route_method(request->method_id) != HTTP_GET;

	if (changes && !origin_is_ours(request))
		return "a request that changes something must come from here: Origin names another place";
	if ((changes || (path.length >= strlen(api) && memcmp(path.data, api, strlen(api)) == 0)) &&
	    !host_is_ours(&admin->sources, request->authority))
		return "Host names another place: admin-hosts in rea.yaml lists the names of this API";
	return NULL;
}

/* False: it was answered, and is over. */
static bool admit(struct http_server_stream *stream, struct exchange *exchange)
{
	const struct http_request *request = exchange->request.http;
	char allow[ROUTE_ALLOW_MAX] = "";
	bool known = find_route(admin_of(stream), exchange, allow);
	const char *refusal = why_not(admin_of(stream), exchange);

	if (known && exchange->route == NULL) {
		refuse_method(stream, allow, request->method_id != HTTP_HEAD);
		return false;
	}
	if (refusal != NULL) {
		refuse(stream, 403, refusal);
		return false;
	}
	if (request->body_length != HTTP_LENGTH_UNKNOWN && request->body_length > body_max(exchange)) {
		refuse_body(stream, body_max(exchange));
		return false;
	}
	return true;
}

static void on_request(struct http_server_stream *stream, const struct http_request *request)
{
	struct exchange *exchange = calloc(1, sizeof(*exchange));

	if (exchange == NULL) {
		refuse(stream, 503, "out of memory");
		return;
	}
	exchange->stream = stream;
	exchange->request.http = request;
	route_split(request->path, &exchange->request.path, &exchange->request.query);
	if (admit(stream, exchange))
		stream->user = exchange;
	else
		free(exchange);
}

static void on_body(struct http_server_stream *stream, const char *data, size_t length)
{
	struct exchange *exchange = stream->user;
	uint64_t max;

	if (exchange == NULL)
		return; /* refused already; what still comes is dropped */
	max = body_max(exchange);
	exchange->body_bytes += length;
	if (exchange->body_bytes > max) {
		end_exchange(stream);
		refuse_body(stream, max);
	} else if (exchange->route != NULL && rea_buffer_append(&exchange->body, data, length) != 0) {
		end_exchange(stream);
		refuse(stream, 503, "out of memory");
	}
}

static void hand_over(struct exchange *exchange)
{
	struct http_server_stream *stream = exchange->stream;

	exchange->request.body = rea_slice_make(rea_buffer_data(&exchange->body), rea_buffer_length(&exchange->body));
	exchange->inside = true;
	exchange->route->handle(&exchange->request, exchange->route_data);
	if (stream->user == exchange) {
		assert(exchange->request.aborted != NULL && "who answers later wants to know who has left");
		exchange->inside = false;
	}
}

static void on_body_end(struct http_server_stream *stream, const struct http_field *trailers, size_t trailers_len)
{
	struct exchange *exchange = stream->user;
	const struct http_request *request;
	struct answer answer;

	(void)trailers;
	(void)trailers_len;
	if (exchange == NULL)
		return;
	if (exchange->route != NULL) {
		hand_over(exchange);
		return;
	}
	request = exchange->request.http;
	answer_init(&answer, NULL);
	answer_request(&answer, &admin_of(stream)->sources, request->method_id, request->path);
	end_exchange(stream);
	send_answer(stream, &answer, request->method_id != HTTP_HEAD, false);
	answer_fini(&answer);
}

static void on_abort(struct http_server_stream *stream, enum http_error error)
{
	struct exchange *exchange = stream->user;

	(void)error;
	if (exchange == NULL)
		return;
	if (exchange->request.aborted != NULL)
		exchange->request.aborted(&exchange->request);
	end_exchange(stream);
}

static void on_writable(struct http_server_stream *stream)
{
	struct exchange *exchange = stream->user;

	if (exchange != NULL && exchange->request.writable != NULL)
		exchange->request.writable(&exchange->request);
}

static const struct http_server_events events = {
    .on_request = on_request,
    .on_body = on_body,
    .on_body_end = on_body_end,
    .on_abort = on_abort,
    .on_writable = on_writable,
};

/* ---- the listener ---- */

int admin_new(struct loop *loop, const char *address, const struct admin_sources *sources, struct admin **ret_admin,
    struct rea_error_info *ret_info)
{
	struct admin *admin = calloc(1, sizeof(*admin));
	struct loop_http_options options = {
	    .events = &events,
	    .limits = {.head_bytes = 16384, .fields = 100, .chunk_ext_bytes = 256, .trailer_bytes = 8192},
	    .connections_max = sources->connections_max > 0 ? sources->connections_max : ADMIN_CONNECTIONS,
	    .head_timeout_ns = HEAD_TIMEOUT_NS,
	    .idle_timeout_ns = IDLE_TIMEOUT_NS,
	    .user = admin,
	};
	int error;

	if (admin == NULL)
		return REA_ERR_NOMEM;
	admin->sources = *sources;
	error = loop_http_listen(loop, address, false, &options, &admin->listener, ret_info);
	if (error != 0) {
		free(admin);
		return error;
	}
	*ret_admin = admin;
	return 0;
}

const char *admin_address(const struct admin *admin)
{
	return loop_http_listener_address(admin->listener);
}

static void on_closed(void *arg)
{
	struct admin *admin = arg;

	if (admin->closed)
		admin->closed(admin->closed_arg);
	free(admin);
}

void admin_close(struct admin *admin, void (*closed)(void *arg), void *arg)
{
	if (admin == NULL)
		return;
	admin->closed = closed;
	admin->closed_arg = arg;
	loop_http_listener_drain(admin->listener, on_closed, admin);
	loop_http_listener_kill(admin->listener);
}
