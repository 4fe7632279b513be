/*
 * A connection works off one exchange at a time:
 *
 *   IDLE ──head──▶ RECEIVING ──body──▶ WAITING ──delay──▶ REPLYING ──▶ IDLE
 *                      │                  │ ▲                └──▶ ENDING
 *                      └─early, no-read───┼─┘
 *                                         ├──▶ HANGING
 *                                         ├──▶ FLOODING  headers without end
 *                                         ├──▶ TUNNEL    what arrives goes back
 *                                         └──▶ ENDING ──all sent──▶ reset, or LINGERING ──▶ closed
 *
 * In WAITING, REPLYING (pauses and drips) and LINGERING the timer may run. When the client leaves, the connection is closed in any state.
 */
#include "lab/upstream.h"

#include "base/container.h"
#include "base/container.h"
#include "lab/record.h"
#include "loop/stream.h"

#include <stdlib.h>

#define BACKLOG 1024
/* An echo begins when the request is complete or this much of it has come: a reply that begins earlier costs the connection. */
#define ECHO_KEEP ((size_t)64 * 1024)
#define LINGER_NS REA_NS_PER_S
#define PATTERN 251 /* byte i of `body-bytes` is i modulo this */
#define PIECE_BYTES ((size_t)PATTERN * 128)

enum phase {
	PHASE_IDLE,
	PHASE_RECEIVING,
	PHASE_WAITING,
	PHASE_REPLYING,
	PHASE_HANGING,
	PHASE_FLOODING,
	PHASE_TUNNEL,
	PHASE_ENDING,
	PHASE_LINGERING
};

struct instance {
	struct instance *next;
	struct lab_bed *bed;
	char *name;
	struct lab_script script;
	uv_tcp_t tcp;
	struct wheel_timer refusal;
	struct conn *conns;
	char address[LOOP_ADDRESS_MAX];
};

struct lab_bed {
	struct loop *loop;
	FILE *log;
	struct rea_random random;
	uint64_t connections; /* ever accepted */
	struct instance *instances;
	struct instance **last;
	char pattern[PIECE_BYTES + PATTERN];
};

struct conn {
	struct stream stream; /* first: a stream is its connection */
	struct instance *instance;
	struct conn *prev, *next;
	struct http_server *session;
	struct wheel_timer timer;
	uv_shutdown_t shutdown;
	enum phase phase;
	bool reset_when_sent; /* how ENDING ends */
	/* the exchange */
	struct http_server_stream *exchange;
	const struct lab_step *step;
	struct lab_record record;
	bool recorded;
	bool body_held;         /* the session keeps the body back */
	struct rea_buffer kept; /* of a body that is to be echoed */
	bool has_body;          /* the reply: one without a body cannot be cut in it */
	uint64_t reply_bytes;   /* of the reply's body that are to be sent */
	uint64_t replied;
};

static const struct http_limits limits = {
    .head_bytes = 1024 * 1024, .fields = 1000, .chunk_ext_bytes = 256, .trailer_bytes = 8192};

static struct conn *conn_of(struct stream *stream)
{
	return (struct conn *)stream;
}

static struct loop *loop_of(const struct conn *conn)
{
	return conn->stream.loop;
}

static void start_timer(struct conn *conn, uint64_t after_ns)
{
	loop_timer_start(loop_of(conn), &conn->timer, rea_time_add(loop_now(loop_of(conn)), after_ns));
}

/* ---- the record ---- */

static void record_request(struct conn *conn, bool complete)
{
	if (conn->recorded)
		return;
	conn->recorded = true;
	conn->record.complete = complete;
	conn->record.end_ns = loop_now(loop_of(conn));
	lab_record_request(conn->instance->bed->log, &conn->record);
}

static void record_broken(struct conn *conn, const char *event, const char *why)
{
	if (conn->exchange != NULL)
		record_request(conn, false);
	conn->record.end_ns = loop_now(loop_of(conn));
	lab_record_broken(conn->instance->bed->log, event, &conn->record, why);
}

/* ---- the end of a connection ---- */

static void close_conn(struct conn *conn, bool reset)
{
	loop_timer_stop(loop_of(conn), &conn->timer);
	if (reset)
		stream_close_reset(&conn->stream);
	else
		stream_close(&conn->stream);
}

static void on_shutdown(uv_shutdown_t *request, int status)
{
	(void)request;
	(void)status;
}

/* An end that the peer sees as FIN, with all that was said before it: what it still sends is read, lest the kernel makes it a reset. */
static void linger(struct conn *conn)
{
	conn->phase = PHASE_LINGERING;
	start_timer(conn, LINGER_NS);
	if (uv_shutdown(&conn->shutdown, (uv_stream_t *)&conn->stream.tcp, on_shutdown) != 0)
		close_conn(conn, false);
	else if (conn->step == NULL || !conn->step->no_read)
		stream_read_start(&conn->stream);
}

static void end_when_sent(struct conn *conn, bool reset)
{
	loop_timer_stop(loop_of(conn), &conn->timer);
	if (conn->exchange != NULL)
		record_request(conn, false);
	conn->phase = PHASE_ENDING;
	conn->reset_when_sent = reset;
	if (stream_pending(&conn->stream) > 0)
		stream_flush(&conn->stream);
	else if (reset)
		close_conn(conn, true);
	else
		linger(conn);
}

/* Bring the transport in line with what the session wants. */
static void settle(struct conn *conn)
{
	while (conn->session->work_pending && !conn->stream.closing)
		http_server_receive(conn->session, NULL, 0);
	if (conn->stream.closing || conn->phase == PHASE_LINGERING)
		return;
	if (conn->session->want_close && conn->phase != PHASE_ENDING) {
		end_when_sent(conn, false);
		return;
	}
	stream_flush(&conn->stream);
	if (conn->session->reading_paused || conn->body_held)
		stream_read_stop(&conn->stream);
	else
		stream_read_start(&conn->stream);
}

/* ---- replies ---- */

static void exchange_over(struct conn *conn, const struct http_field *trailers, size_t trailers_len)
{
	struct http_server_stream *exchange = conn->exchange;

	record_request(conn, false);
	conn->exchange = NULL;
	conn->phase = PHASE_IDLE;
	http_server_finish(exchange, trailers, trailers_len);
}

static bool congested(struct conn *conn)
{
	return stream_congested(&conn->stream);
}

static void body_sent(struct conn *conn)
{
	const struct lab_step *step = conn->step;

	if (step->reset_after != UINT64_MAX && conn->has_body)
		end_when_sent(conn, true);
	else if ((step->cut && conn->has_body) || step->no_read)
		end_when_sent(conn, false);
	else if (conn->recorded)
		exchange_over(conn, step->trailers, step->trailers_len);
	/* Else the request's body is still on its way: its end ends the exchange. */
}

static size_t next_piece(const struct conn *conn, const char **ret_data)
{
	const struct lab_step *step = conn->step;
	uint64_t left = conn->reply_bytes - conn->replied, piece = step->drip_bytes > 0 ? step->drip_bytes : PIECE_BYTES;

	if (piece > PIECE_BYTES)
		piece = PIECE_BYTES;
	*ret_data = step->body.length > 0 ? step->body.data + conn->replied
					  : conn->instance->bed->pattern + conn->replied % PATTERN;
	return (size_t)(left < piece ? left : piece);
}

static void send_body(struct conn *conn)
{
	while (conn->replied < conn->reply_bytes && !congested(conn)) {
		const char *data;
		size_t length = next_piece(conn, &data);

		http_server_write(conn->exchange, data, length);
		conn->replied += length;
		if (conn->step->drip_bytes > 0 && conn->replied < conn->reply_bytes) {
			start_timer(conn, conn->step->drip_ns);
			return;
		}
	}
	if (conn->replied == conn->reply_bytes)
		body_sent(conn);
}

static void release_body(struct conn *conn)
{
	if (!conn->body_held)
		return;
	conn->body_held = false;
	http_server_resume(conn->exchange);
}

static void hold_body(struct conn *conn)
{
	if (conn->body_held)
		return;
	conn->body_held = true;
	http_server_pause(conn->exchange);
}

/* False: the session would not say it (200 to CONNECT without a tunnel), and the connection is reset. */
static bool send_head(struct conn *conn, uint16_t status, uint64_t length, bool has_body, bool upgraded)
{
	const struct lab_step *step = conn->step;
	struct http_field fields[LAB_FIELDS_MAX + 2];
	struct http_response_head head = {.status = status,
	    .fields = fields,
	    .fields_len = step->fields_len,
	    .body_length = length,
	    .has_body = has_body,
	    .close = step->close_after,
	    .upgraded = upgraded};

	memcpy(fields, step->fields, step->fields_len * sizeof(*fields));
	fields[head.fields_len++] =
	    (struct http_field){.name = REA_SLICE_LIT("x-upstream"), .value = rea_slice_of(conn->instance->name)};
	if (upgraded && status == 101)
		fields[head.fields_len++] = (struct http_field){
		    .name = REA_SLICE_LIT("upgrade"), .value = REA_SLICE_LIT("echo"), .id = HTTP_FIELD_UPGRADE};
	if (http_server_respond(conn->exchange, &head) == 0)
		return true;
	end_when_sent(conn, true);
	return false;
}

static void begin_echo(struct conn *conn)
{
	if (rea_buffer_length(&conn->kept) > 0)
		http_server_write(conn->exchange, rea_buffer_data(&conn->kept), rea_buffer_length(&conn->kept));
	rea_buffer_clear(&conn->kept);
	if (conn->recorded)
		exchange_over(conn, conn->record.trailers, conn->record.trailers_len);
	else
		release_body(conn);
}

static void begin_reply(struct conn *conn)
{
	const struct lab_step *step = conn->step;
	const struct http_request *request = conn->record.request;
	bool has_body = request->method_id != HTTP_HEAD && step->status != 204 && step->status != 304;
	uint64_t body = step->body.length > 0 ? step->body.length : step->body_bytes,
		 length = step->echo ? request->body_length : body;

	conn->phase = PHASE_REPLYING;
	conn->has_body = has_body;
	conn->replied = 0;
	conn->reply_bytes = has_body ? (body < step->reset_after ? body : step->reset_after) : 0;
	/* Of the replies without a body only one to HEAD announces a length. */
	if (step->chunked || (!has_body && request->method_id != HTTP_HEAD))
		length = HTTP_LENGTH_UNKNOWN;
	if (!send_head(conn, step->status, length == HTTP_LENGTH_UNKNOWN ? length : length + step->cut, has_body, false))
		return;
	if (step->echo) {
		begin_echo(conn);
	} else if (step->pause_ns > 0) {
		start_timer(conn, step->pause_ns);
	} else {
		send_body(conn);
	}
}

static void begin_tunnel(struct conn *conn)
{
	const struct http_request *request = conn->record.request;

	if (!request->upgrade && request->method_id != HTTP_CONNECT) {
		if (send_head(conn, 426, 0, true, false))
			exchange_over(conn, NULL, 0);
		return;
	}
	conn->phase = PHASE_TUNNEL;
	send_head(conn, request->method_id == HTTP_CONNECT ? 200 : 101, 0, false, true);
}

static void send_raw(struct conn *conn, const char *text)
{
	rea_buffer_append(&conn->session->out, text, strlen(text));
}

static void flood(struct conn *conn)
{
	conn->phase = PHASE_FLOODING;
	while (!congested(conn))
		send_raw(conn, "x-endless: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\r\n");
}

static void answer(struct conn *conn)
{
	switch (conn->step->end) {
	case LAB_REPLY:
		begin_reply(conn);
		break;
	case LAB_RESET:
		end_when_sent(conn, true);
		break;
	case LAB_CLOSE:
		end_when_sent(conn, false);
		break;
	case LAB_HANG:
		conn->phase = PHASE_HANGING;
		break;
	case LAB_GARBAGE:
		send_raw(conn, "\x16\x03\x01 this is not HTTP\r\n\r\n\xff\xfe");
		end_when_sent(conn, false);
		break;
	case LAB_ENDLESS_HEADERS:
		send_raw(conn, "HTTP/1.1 200 OK\r\n");
		flood(conn);
		break;
	case LAB_UPGRADE:
		begin_tunnel(conn);
		break;
	}
}

static void begin_answer(struct conn *conn)
{
	if (conn->step->delay_ns == 0) {
		answer(conn);
		return;
	}
	conn->phase = PHASE_WAITING;
	start_timer(conn, conn->step->delay_ns);
}

/* ---- the session's side ---- */

static void send_interim(struct conn *conn)
{
	struct http_field field = {.name = REA_SLICE_LIT("x-interim"), .value = rea_slice_of(conn->instance->name)};

	if (conn->record.request->expect_continue && !conn->step->no_read)
		http_server_interim(conn->exchange, 100, NULL, 0);
	if (conn->step->interim != 0)
		http_server_interim(conn->exchange, conn->step->interim, &field, 1);
}

static void on_request(struct http_server_stream *exchange, const struct http_request *request)
{
	struct conn *conn = http_server_owner(exchange->session);
	struct instance *instance = conn->instance;

	conn->exchange = exchange;
	conn->step = lab_script_next(&instance->script, request->method, request->path, &instance->bed->random);
	conn->recorded = false;
	conn->body_held = false;
	rea_buffer_clear(&conn->kept);
	conn->phase = PHASE_RECEIVING;
	conn->record.t_ns = loop_now(loop_of(conn));
	conn->record.n++;
	conn->record.request = request;
	conn->record.trailers_len = 0;
	conn->record.body_bytes = 0;
	conn->record.action = conn->step->text;
	EVP_DigestInit_ex(conn->record.body, EVP_sha256(), NULL);
	send_interim(conn);
	if (conn->step->no_read) {
		hold_body(conn);
		record_request(conn, request->body_length == 0);
	}
	if (conn->step->no_read || conn->step->early)
		begin_answer(conn);
}

static void echo(struct conn *conn, const char *data, size_t length)
{
	if (conn->phase == PHASE_TUNNEL || conn->phase == PHASE_REPLYING) {
		http_server_write(conn->exchange, data, length);
		if (congested(conn))
			hold_body(conn);
		return;
	}
	rea_buffer_append(&conn->kept, data, length);
	if (conn->phase == PHASE_RECEIVING && rea_buffer_length(&conn->kept) > ECHO_KEEP)
		begin_answer(conn);
	if (conn->phase == PHASE_WAITING)
		hold_body(conn);
}

static void on_body(struct http_server_stream *exchange, const char *data, size_t length)
{
	struct conn *conn = http_server_owner(exchange->session);

	if (conn->phase != PHASE_TUNNEL) {
		conn->record.body_bytes += length;
		EVP_DigestUpdate(conn->record.body, data, length);
	}
	if (conn->phase == PHASE_TUNNEL || conn->step->echo)
		echo(conn, data, length);
}

static void on_body_end(struct http_server_stream *exchange, const struct http_field *trailers, size_t trailers_len)
{
	struct conn *conn = http_server_owner(exchange->session);

	if (conn->phase == PHASE_TUNNEL)
		return;
	conn->record.trailers = trailers;
	conn->record.trailers_len = trailers_len;
	record_request(conn, true);
	if (conn->phase == PHASE_RECEIVING)
		begin_answer(conn);
	else if (conn->phase == PHASE_REPLYING && conn->step->echo)
		exchange_over(conn, trailers, trailers_len);
	else if (conn->phase == PHASE_REPLYING && conn->replied == conn->reply_bytes && !wheel_timer_active(&conn->timer))
		body_sent(conn);
	conn->record.trailers_len = 0; /* they were borrowed */
}

static void on_abort(struct http_server_stream *exchange, enum http_error error)
{
	struct conn *conn = http_server_owner(exchange->session);

	record_broken(conn, "aborted", error != HTTP_ERROR_NONE ? http_error_text(error) : "the client left");
	conn->exchange = NULL;
}

static const struct http_server_events session_events = {
    .on_request = on_request, .on_body = on_body, .on_body_end = on_body_end, .on_abort = on_abort};

/* ---- the transport's side ---- */

static void on_read(struct stream *stream, const char *data, size_t length)
{
	struct conn *conn = conn_of(stream);

	if (conn->phase == PHASE_LINGERING || conn->phase == PHASE_ENDING)
		return;
	if (http_server_receive(conn->session, data, length) < 0) {
		if (conn->phase == PHASE_IDLE)
			record_broken(conn, "malformed", "no HTTP request");
		conn->session->want_close = true;
	}
	settle(conn);
}

/* A client that ends its side has left: rea never sends a FIN before it has its answer. */
static void on_end(struct stream *stream, int status)
{
	struct conn *conn = conn_of(stream);

	if (conn->exchange != NULL && conn->phase != PHASE_ENDING && conn->phase != PHASE_LINGERING)
		record_broken(conn, "aborted", status == UV_EOF ? "the client left" : uv_strerror(status));
	close_conn(conn, false);
}

static void on_sent(struct stream *stream)
{
	struct conn *conn = conn_of(stream);

	if (conn->phase == PHASE_ENDING && conn->reset_when_sent)
		close_conn(conn, true);
	else if (conn->phase == PHASE_ENDING)
		linger(conn);
}

static void on_drain(struct stream *stream)
{
	struct conn *conn = conn_of(stream);

	if (conn->phase == PHASE_FLOODING)
		flood(conn);
	else if (conn->phase == PHASE_TUNNEL || (conn->phase == PHASE_REPLYING && conn->step->echo))
		release_body(conn);
	else if (conn->phase == PHASE_REPLYING && !wheel_timer_active(&conn->timer))
		send_body(conn);
	settle(conn);
}

static void on_closed(struct stream *stream)
{
	struct conn *conn = conn_of(stream);

	if (conn->prev != NULL)
		conn->prev->next = conn->next;
	else
		conn->instance->conns = conn->next;
	if (conn->next != NULL)
		conn->next->prev = conn->prev;
	http_server_free(conn->session);
	EVP_MD_CTX_free(conn->record.body);
	rea_buffer_fini(&conn->kept);
	free(conn);
}

static const struct stream_events transport_events = {
    .on_read = on_read,
    .on_end = on_end,
    .on_sent = on_sent,
    .on_drain = on_drain,
    .on_closed = on_closed,
};

static void on_timer(struct wheel_timer *timer, uint64_t now_ns)
{
	struct conn *conn = REA_CONTAINER_OF(timer, struct conn, timer);

	(void)now_ns;
	if (conn->phase == PHASE_WAITING)
		answer(conn);
	else if (conn->phase == PHASE_REPLYING)
		send_body(conn);
	else if (conn->phase == PHASE_LINGERING)
		close_conn(conn, false);
	settle(conn);
}

static struct conn *new_conn(struct instance *instance)
{
	struct conn *conn = calloc(1, sizeof(*conn));

	if (conn == NULL)
		return NULL;
	conn->record.body = EVP_MD_CTX_new();
	conn->session = h1_server_new(&session_events, &limits, conn);
	if (conn->record.body == NULL || conn->session == NULL ||
	    stream_init(&conn->stream, instance->bed->loop, &transport_events, &conn->session->out) != 0) {
		EVP_MD_CTX_free(conn->record.body);
		http_server_free(conn->session);
		free(conn);
		return NULL;
	}
	conn->instance = instance;
	conn->record.instance = instance->name;
	conn->record.connection = ++instance->bed->connections;
	conn->timer.fire = on_timer;
	conn->next = instance->conns;
	if (conn->next != NULL)
		conn->next->prev = conn;
	instance->conns = conn;
	return conn;
}

static void on_connection(uv_stream_t *server, int status)
{
	struct conn *conn = status == 0 ? new_conn(server->data) : NULL;

	if (conn == NULL)
		return;
	if (uv_accept(server, (uv_stream_t *)&conn->stream.tcp) != 0 || stream_read_start(&conn->stream) != 0) {
		close_conn(conn, false);
		return;
	}
	uv_tcp_nodelay(&conn->stream.tcp, 1);
}

/* ---- instances ---- */

struct lab_bed *lab_bed_new(struct loop *loop, FILE *log, uint64_t seed)
{
	struct lab_bed *bed = calloc(1, sizeof(*bed));

	if (bed == NULL)
		return NULL;
	bed->loop = loop;
	bed->log = log;
	bed->last = &bed->instances;
	rea_random_init(&bed->random, seed);
	for (size_t i = 0; i < sizeof(bed->pattern); i++)
		bed->pattern[i] = (char)(i % PATTERN);
	return bed;
}

static int refuse_to_add(struct rea_error_info *info, const char *address, int error)
{
	snprintf(info->message, sizeof(info->message), "cannot listen on %s: %s", address, uv_strerror(error));
	return error == UV_ENOMEM ? REA_ERR_NOMEM : REA_ERR_IO;
}

/* A socket that is bound and does not listen refuses connections and keeps its port. */
static int start_listening(struct instance *instance)
{
	return uv_listen((uv_stream_t *)&instance->tcp, BACKLOG, on_connection);
}

static void on_refusal_over(struct wheel_timer *timer, uint64_t now_ns)
{
	struct instance *instance = REA_CONTAINER_OF(timer, struct instance, refusal);
	int error = start_listening(instance);

	(void)now_ns;
	if (error != 0)
		fprintf(stderr, "rea upstream: %s: cannot listen on %s: %s\n", instance->name, instance->address,
		    uv_strerror(error));
}

static int bind_instance(struct instance *instance, const char *address)
{
	struct loop *loop = instance->bed->loop;
	struct sockaddr_storage bound;
	int length = sizeof(bound), error = loop_address_parse(address, &bound);

	if (error == 0)
		error = uv_tcp_bind(&instance->tcp, (const struct sockaddr *)&bound, 0);
	if (error == 0)
		error = uv_tcp_getsockname(&instance->tcp, (struct sockaddr *)&bound, &length);
	if (error != 0)
		return error;
	loop_address_format((const struct sockaddr *)&bound, instance->address, sizeof(instance->address));
	if (instance->script.refuse_ns == 0)
		return start_listening(instance);
	if (instance->script.refuse_ns != REA_NEVER)
		loop_timer_start(loop, &instance->refusal, rea_time_add(loop_now(loop), instance->script.refuse_ns));
	return 0;
}

int lab_bed_add(struct lab_bed *bed, const char *name, const char *address, struct lab_script *script,
    struct rea_error_info *ret_info)
{
	struct instance *instance = calloc(1, sizeof(*instance));
	int error;

	if (instance == NULL || (instance->name = strdup(name)) == NULL || uv_tcp_init(&bed->loop->uv, &instance->tcp) != 0) {
		if (instance != NULL)
			free(instance->name);
		free(instance);
		lab_script_fini(script);
		return refuse_to_add(ret_info, address, UV_ENOMEM);
	}
	instance->bed = bed;
	instance->script = *script;
	instance->tcp.data = instance;
	instance->refusal.fire = on_refusal_over;
	*bed->last = instance;
	bed->last = &instance->next;
	error = bind_instance(instance, address);
	return error != 0 ? refuse_to_add(ret_info, address, error) : 0;
}

void lab_bed_print(const struct lab_bed *bed, FILE *out)
{
	for (const struct instance *instance = bed->instances; instance != NULL; instance = instance->next)
		fprintf(out, "%s listening on %s\n", instance->name, instance->address);
	fflush(out);
}

void lab_bed_close(struct lab_bed *bed)
{
	for (struct instance *instance = bed != NULL ? bed->instances : NULL; instance != NULL; instance = instance->next) {
		loop_timer_stop(bed->loop, &instance->refusal);
		if (!uv_is_closing((uv_handle_t *)&instance->tcp))
			uv_close((uv_handle_t *)&instance->tcp, NULL);
		for (struct conn *conn = instance->conns; conn != NULL; conn = conn->next)
			close_conn(conn, true);
	}
}

void lab_bed_free(struct lab_bed *bed)
{
	struct instance *instance;

	while (bed != NULL && (instance = bed->instances) != NULL) {
		bed->instances = instance->next;
		lab_script_fini(&instance->script);
		free(instance->name);
		free(instance);
	}
	free(bed);
}
