/*
 * Connections of the admin API. A request's body is read and thrown away, up to a limit; when it is whole, answer.c
 * says what is answered.
 *
 * An exchange lives from its head to its answer or its abort.
 */
#include "admin/admin.h"

#include "admin/answer.h"

#include <stdlib.h>

#define CONNECTIONS_MAX 64
#define HEAD_TIMEOUT_NS (10 * REA_NS_PER_S)
/* Short: connections that say nothing must not keep a health check waiting for one of the few places. */
#define IDLE_TIMEOUT_NS (5 * REA_NS_PER_S)

struct admin {
	struct loop_http_listener *listener;
	struct admin_sources sources;
	void (*closed)(void *arg);
	void *closed_arg;
};

struct exchange {
	const struct http_request *request; /* as long as the stream */
	uint64_t body_bytes;
};

static const struct admin *admin_of(struct http_server_stream *stream)
{
	return loop_http_conn_user(loop_http_conn_of(stream));
}

/* The stream's last act; a session without memory for it cuts the connection. */
static void send_answer(struct http_server_stream *stream, const struct answer *answer, bool has_body, bool close)
{
	struct http_field fields[4] = {
	    {.name = REA_SLICE_LIT("content-type"), .value = rea_slice_of(answer->content_type)},
	    {.name = REA_SLICE_LIT("cache-control"), .value = REA_SLICE_LIT("no-store")},
	    {.name = REA_SLICE_LIT("x-content-type-options"), .value = REA_SLICE_LIT("nosniff")},
	    {.name = REA_SLICE_LIT("allow"), .value = rea_slice_of(answer->allow)},
	};
	size_t length = rea_buffer_length(&answer->body);
	struct http_response_head head = {
	    .status = answer->status,
	    .fields = fields,
	    .fields_len = answer->allow[0] ? 4 : 3,
	    .body_length = length,
	    .has_body = has_body,
	    .close = close,
	};

	if (http_server_respond(stream, &head) != 0 ||
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

static void end_exchange(struct http_server_stream *stream)
{
	free(stream->user);
	stream->user = NULL;
}

static void on_request(struct http_server_stream *stream, const struct http_request *request)
{
	struct exchange *exchange;

	if (request->body_length != HTTP_LENGTH_UNKNOWN && request->body_length > ANSWER_REQUEST_BODY_MAX) {
		refuse(stream, 413, "a request body may have 1 MiB");
		return;
	}
	exchange = calloc(1, sizeof(*exchange));
	if (exchange == NULL) {
		refuse(stream, 503, "out of memory");
		return;
	}
	exchange->request = request;
	stream->user = exchange;
}

static void on_body(struct http_server_stream *stream, const char *data, size_t length)
{
	struct exchange *exchange = stream->user;

	(void)data;
	exchange->body_bytes += length;
	if (exchange->body_bytes <= ANSWER_REQUEST_BODY_MAX)
		return;
	end_exchange(stream);
	refuse(stream, 413, "a request body may have 1 MiB");
}

static void on_body_end(struct http_server_stream *stream, const struct http_field *trailers, size_t trailers_len)
{
	const struct http_request *request = ((struct exchange *)stream->user)->request;
	struct answer answer;

	(void)trailers;
	(void)trailers_len;
	answer_init(&answer, NULL);
	answer_request(&answer, &admin_of(stream)->sources, request->method_id, request->path);
	end_exchange(stream);
	send_answer(stream, &answer, request->method_id != HTTP_HEAD, false);
	answer_fini(&answer);
}

static void on_abort(struct http_server_stream *stream, enum http_error error)
{
	(void)error;
	end_exchange(stream);
}

static const struct http_server_events events = {
    .on_request = on_request,
    .on_body = on_body,
    .on_body_end = on_body_end,
    .on_abort = on_abort,
};

int admin_new(struct loop *loop, const char *address, const struct admin_sources *sources, struct admin **ret_admin,
    struct rea_error_info *ret_info)
{
	struct admin *admin = calloc(1, sizeof(*admin));
	struct loop_http_options options = {
	    .events = &events,
	    .limits = {.head_bytes = 16384, .fields = 100, .chunk_ext_bytes = 256, .trailer_bytes = 8192},
	    .connections_max = CONNECTIONS_MAX,
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
