/*
 * The server's side of an HTTP/1.1 connection: one exchange at a time.
 *
 *     HEAD ──▶ BODY ──▶ WAIT ──▶ TUNNEL          HEAD   ▶ BODY, WAIT   open_exchange: with a body, without
 *      ▲ └───────────────▲ │       │             BODY   ▶ WAIT         receive_body: the request has arrived
 *      │        │ │        │       │             BODY, WAIT ▶ HEAD     end_exchange: another may come
 *      └────────┴──────────┘       ▼             WAIT   ▶ TUNNEL       server_respond: upgraded
 *                               CLOSED           all    ▶ CLOSED       close_session
 *
 * HEAD    no exchange is open; part of a head may have arrived.
 * BODY    the exchange is open, its request's body is arriving.
 * WAIT    the exchange is open, its request has arrived; more bytes are held, for they may be the next request or,
 *         after an upgrade, the tunnel's.
 * TUNNEL  the exchange is open; bytes pass as they are.
 * CLOSED  want_close is set, input is dropped. Reached from every state: the end of input, a malformed message, the
 *         last exchange, an answer before its request had arrived.
 *
 * The head lies in memory of the session until the next head begins. What is left of a receive when work cannot go on
 * is held. reading_paused says so at once under back-pressure; of pipelined requests some are taken in first, for only
 * who reads sees the client leave.
 */
#include "http/h1.h"

#include <rea/error.h>

#include <assert.h>

#define ANSWER_MAX 512u /* an answer of the session's own: half for the head, half for the body */
#define HEAD_KEEP 4096u /* memory kept between exchanges */
#define HELD_KEEP 4096u
#define HELD_MAX 16384u /* pipelined bytes that are taken in before reading stops */

enum state { HEAD, BODY, WAIT, TUNNEL, CLOSED };

struct h1_server {
	struct http_server base;
	struct http_server_stream stream;
	const struct http_server_events *events;
	const struct http_limits *limits;
	enum state state;
	bool working; /* a callback may be on the stack */
	bool paused;
	bool responded;    /* the response's head is written */
	bool persistent;   /* another request may follow this exchange */
	bool continue_due; /* the client waits for 100 Continue */
	bool blank_seen;   /* the one empty line that may come before a request line */
	bool shutting_down;
	struct h1_section head;
	struct h1_fields fields;
	struct http_request request;
	struct h1_body body;       /* of the request */
	struct h1_sending sending; /* the response's body */
	struct rea_buffer held;    /* received, not worked on */
};

static struct h1_server *of_server(struct http_server *server)
{
	return (struct h1_server *)server;
}

static struct h1_server *of_stream(struct http_server_stream *stream)
{
	return of_server(stream->session);
}

static bool is_open(const struct h1_server *s)
{
	return s->state == BODY || s->state == WAIT || s->state == TUNNEL;
}

static bool request_received(const struct h1_server *s)
{
	return s->state == WAIT || s->state == TUNNEL || h1_body_ended(&s->body);
}

static bool must_pause(const struct h1_server *s)
{
	size_t held = rea_buffer_length(&s->held);

	return held >= HELD_MAX || (held > 0 && s->paused);
}

static void assert_valid(const struct h1_server *s)
{
	assert(s->base.want_close == (s->state == CLOSED));
	assert(!s->base.want_reset || s->base.want_close);
	assert(s->base.error == HTTP_ERROR_NONE || s->state == CLOSED);
	assert(!s->paused || is_open(s));
	assert(!s->responded || is_open(s));
	assert(!s->continue_due || (s->state == BODY && !s->responded));
	assert(s->state != TUNNEL || s->responded);
	assert(s->state != WAIT || h1_body_ended(&s->body));
	assert(s->working || s->base.reading_paused == must_pause(s));
	assert(s->working || rea_buffer_length(&s->held) == 0 || s->base.work_pending ||
	       (is_open(s) && (s->paused || s->state == WAIT)));
}

static void set_state(struct h1_server *s, enum state state)
{
	switch (state) {
	case HEAD:
		assert(s->state == WAIT || s->state == BODY);
		break;
	case BODY:
	case WAIT:
		assert(s->state == HEAD || s->state == BODY);
		break;
	case TUNNEL:
		assert(s->state == WAIT);
		break;
	case CLOSED:
		s->base.want_close = true;
		break;
	}
	if (state == HEAD || state == CLOSED) {
		s->paused = false;
		s->responded = false;
	}
	if (state != BODY)
		s->continue_due = false;
	s->state = state;
}

/*
 * Bytes that were held for the old state may be worked on in the new one. Nobody does it now unless a receive is under
 * way.
 */
static void note_pending(struct h1_server *s)
{
	if (s->state == CLOSED) {
		if (!s->working)
			rea_buffer_clear(&s->held);
		s->base.reading_paused = false;
	}
	s->base.work_pending = !s->working && rea_buffer_length(&s->held) > 0;
}

static void close_session(struct h1_server *s)
{
	set_state(s, CLOSED);
	note_pending(s);
}

/* ---- answers of the session's own ---- */

static void answer_problem(struct h1_server *s, uint16_t status, const char *detail)
{
	static const struct http_field type[] = {
	    {REA_SLICE_LIT("Content-Type"), REA_SLICE_LIT("application/problem+json"), HTTP_FIELD_OTHER, false},
	};
	bool bodiless = is_open(s) && s->request.method_id == HTTP_HEAD;
	struct http_response_head head = {.status = status, .fields = type, .fields_len = 1};
	char text[ANSWER_MAX / 2];
	size_t length = http_problem_format(text, sizeof(text), status, detail, "");

	head.body_length = length;
	/* Room for all of it first: rather no answer than half of one. */
	if (rea_buffer_reserve(&s->base.out, ANSWER_MAX) != 0)
		return;
	(void)h1_response_write(&s->base.out, &head, H1_FRAMING_LENGTH, H1_CONNECTION_CLOSE);
	if (!bodiless)
		(void)rea_buffer_append(&s->base.out, text, length);
}

/* A plain end of the connection would look like the end of this response. */
static bool end_is_close(const struct h1_server *s)
{
	return s->responded && s->sending.framing == H1_FRAMING_CLOSE;
}

static void refuse(struct h1_server *s, enum http_error error)
{
	bool was_open = is_open(s);

	if (was_open && s->responded)
		s->base.want_reset = end_is_close(s);
	else if (http_error_status(error) != 0)
		answer_problem(s, http_error_status(error), http_error_text(error));
	s->base.error = error;
	close_session(s);
	if (was_open)
		s->events->on_abort(&s->stream, error);
}

/* ---- receiving ---- */

static void send_continue(struct h1_server *s)
{
	if (!s->continue_due || s->paused || s->responded)
		return;
	/* Without memory for it the client sends the body after a wait of its own. */
	(void)h1_interim_write(&s->base.out, 100, NULL, 0);
	s->continue_due = false;
}

static void open_exchange(struct h1_server *s, enum h1_framing framing)
{
	h1_body_begin(&s->body, framing, s->request.body_length);
	set_state(s, framing == H1_FRAMING_NONE ? WAIT : BODY);
	s->continue_due = s->request.expect_continue;
	s->events->on_request(&s->stream, &s->request);
	if (framing == H1_FRAMING_NONE && is_open(s))
		s->events->on_body_end(&s->stream, NULL, 0);
	send_continue(s);
}

static void receive_head(struct h1_server *s, struct rea_slice *in)
{
	struct rea_slice whole;
	enum h1_framing framing;
	enum http_error error;

	if (rea_buffer_length(&s->head.bytes) == 0 && !h1_request_may_begin(*in->data)) {
		refuse(s, HTTP_ERROR_BAD_REQUEST_LINE);
		return;
	}
	error = h1_section_take(&s->head, s->limits->head_bytes, true, in, &whole);
	if (error == HTTP_ERROR_HEAD_TOO_LARGE && s->head.line == 0)
		error = HTTP_ERROR_URI_TOO_LONG;
	if (error == HTTP_ERROR_NONE && whole.length == 0)
		return;
	if (error == HTTP_ERROR_NONE && whole.length == 2 && !s->blank_seen) {
		s->blank_seen = true;
		h1_section_clear(&s->head);
		return;
	}
	if (error == HTTP_ERROR_NONE)
		error = h1_request_parse(s->head.bytes.data + s->head.bytes.start, whole.length, s->limits, &s->fields,
		    &s->request, &framing, &s->persistent);
	if (error != HTTP_ERROR_NONE)
		refuse(s, error);
	else
		open_exchange(s, framing);
}

static void receive_body(struct h1_server *s, struct rea_slice *in)
{
	struct rea_slice piece;
	enum http_error error;

	switch (h1_body_next(&s->body, s->limits, in, &piece, &error)) {
	case H1_MORE:
		return;
	case H1_PIECE:
		s->events->on_body(&s->stream, piece.data, piece.length);
		return;
	case H1_END:
		set_state(s, WAIT);
		s->events->on_body_end(&s->stream, s->body.trailers.items, s->body.trailers.length);
		return;
	case H1_BAD:
		refuse(s, error);
		return;
	}
}

static void receive_tunnel(struct h1_server *s, struct rea_slice *in)
{
	struct rea_slice all = *in;

	*in = rea_slice_make(all.data + all.length, 0);
	s->events->on_body(&s->stream, all.data, all.length);
}

/* Whether *in, or what is known without more bytes, can be worked on. */
static bool can_work(const struct h1_server *s, const struct rea_slice *in)
{
	switch (s->state) {
	case HEAD:
		return in->length > 0;
	case BODY:
		return h1_body_ended(&s->body) || (in->length > 0 && !s->paused);
	case WAIT:
	case CLOSED:
		return false;
	case TUNNEL:
		return in->length > 0 && !s->paused;
	}
	return false;
}

static void work(struct h1_server *s, struct rea_slice *in)
{
	s->working = true;
	s->base.work_pending = false;
	while (can_work(s, in)) {
		switch (s->state) {
		case HEAD:
			receive_head(s, in);
			break;
		case BODY:
			receive_body(s, in);
			break;
		case TUNNEL:
			receive_tunnel(s, in);
			break;
		case WAIT:
		case CLOSED:
			break;
		}
	}
	s->working = false;
}

/* The oldest bytes first. */
static void work_on_held(struct h1_server *s)
{
	struct rea_slice in;

	if (rea_buffer_length(&s->held) == 0)
		return;
	in = rea_slice_make(rea_buffer_data(&s->held), rea_buffer_length(&s->held));
	work(s, &in);
	rea_buffer_consume(&s->held, rea_buffer_length(&s->held) - in.length);
}

static int settle(struct h1_server *s)
{
	if (s->state == CLOSED)
		rea_buffer_clear(&s->held);
	rea_buffer_trim(&s->held, HELD_KEEP);
	s->base.reading_paused = must_pause(s);
	assert_valid(s);
	if (s->base.error == HTTP_ERROR_NONE)
		return 0;
	return s->base.error == HTTP_ERROR_NOMEM ? REA_ERR_NOMEM : REA_ERR_SYNTAX;
}

static int server_receive(struct http_server *server, const char *data, size_t length)
{
	struct h1_server *s = of_server(server);
	struct rea_slice in = {data, length};
	bool fresh = rea_buffer_length(&s->held) == 0;

	assert(!s->working);
	if (fresh)
		work(s, &in);
	if (s->state != CLOSED && rea_buffer_append(&s->held, in.data, in.length) != 0)
		refuse(s, HTTP_ERROR_NOMEM);
	if (!fresh)
		work_on_held(s);
	return settle(s);
}

static void server_eof(struct http_server *server)
{
	struct h1_server *s = of_server(server);
	bool was_open = is_open(s);
	enum http_error error = s->state == BODY ? HTTP_ERROR_TRUNCATED : HTTP_ERROR_NONE;

	assert(!s->working);
	if (s->state == CLOSED)
		return;
	close_session(s);
	if (was_open)
		s->events->on_abort(&s->stream, error);
}

static void server_pause(struct http_server_stream *stream)
{
	struct h1_server *s = of_stream(stream);

	assert(is_open(s) || s->state == CLOSED);
	s->paused = s->state != CLOSED;
}

static int server_resume(struct http_server_stream *stream)
{
	struct h1_server *s = of_stream(stream);

	if (s->state == CLOSED)
		return REA_ERR_IO;
	assert(is_open(s));
	s->paused = false;
	send_continue(s);
	if (s->working) /* that receive goes on with it */
		return 0;
	work_on_held(s);
	return settle(s);
}

/* ---- responding ---- */

static void server_interim(
    struct http_server_stream *stream, uint16_t status, const struct http_field *fields, size_t fields_len)
{
	struct h1_server *s = of_stream(stream);

	if (s->state == CLOSED)
		return;
	assert(is_open(s) && !s->responded && status >= 100 && status < 200 && status != 101);
	if (status == 100)
		send_continue(s);
	else if (s->request.version >= 11)
		(void)h1_interim_write(&s->base.out, status, fields, fields_len); /* nothing depends on one */
}

static bool may_have_body(const struct h1_server *s, uint16_t status)
{
	return s->request.method_id != HTTP_HEAD && status >= 200 && status != 204 && status != 304;
}

static enum h1_framing response_framing(const struct h1_server *s, const struct http_response_head *head)
{
	if (head->upgraded)
		return H1_FRAMING_CLOSE;
	if (!may_have_body(s, head->status))
		return H1_FRAMING_NONE;
	if (!head->has_body || head->body_length != HTTP_LENGTH_UNKNOWN)
		return H1_FRAMING_LENGTH;
	return s->request.version >= 11 ? H1_FRAMING_CHUNKED : H1_FRAMING_CLOSE;
}

static enum h1_connection response_connection(const struct h1_server *s, const struct http_response_head *head, bool persists)
{
	if (head->upgraded)
		return head->status == 101 ? H1_CONNECTION_UPGRADE : H1_CONNECTION_DEFAULT;
	if (!persists)
		return H1_CONNECTION_CLOSE;
	return s->request.version >= 11 ? H1_CONNECTION_DEFAULT : H1_CONNECTION_KEEP_ALIVE;
}

/* A client that was refused its tunnel may have sent the tunnel's first bytes: they are no request. */
static bool persists_after(const struct h1_server *s)
{
	return s->persistent && request_received(s) && !s->shutting_down && s->request.method_id != HTTP_CONNECT;
}

/* An upgrade must have been asked for and its request must have ended; 2xx to CONNECT and 101 are nothing else. */
static bool upgrade_valid(const struct h1_server *s, const struct http_response_head *head)
{
	bool connected = s->request.method_id == HTTP_CONNECT && head->status / 100 == 2;

	if (!head->upgraded)
		return !connected && head->status != 101;
	return s->state == WAIT && (connected || (head->status == 101 && s->request.upgrade));
}

static int server_respond(struct http_server_stream *stream, const struct http_response_head *head)
{
	struct h1_server *s = of_stream(stream);
	struct http_response_head written = *head;
	enum h1_framing framing = response_framing(s, head);
	bool persists = framing != H1_FRAMING_CLOSE && !head->close && persists_after(s);

	if (s->state == CLOSED)
		return REA_ERR_IO;
	assert(is_open(s) && !s->responded);
	if (head->status < 101 || head->status > 999 || (head->status < 200 && !head->upgraded) || !upgrade_valid(s, head))
		return REA_ERR_INVALID;
	if (head->status == 204)
		written.body_length = HTTP_LENGTH_UNKNOWN;
	else if (framing == H1_FRAMING_LENGTH && !head->has_body)
		written.body_length = 0;
	if (h1_response_write(&s->base.out, &written, framing, response_connection(s, head, persists)) != 0)
		return REA_ERR_NOMEM;
	s->sending = (struct h1_sending){framing, written.body_length};
	s->persistent = persists;
	s->responded = true;
	s->continue_due = false;
	if (head->upgraded) {
		set_state(s, TUNNEL);
		note_pending(s);
	}
	return 0;
}

static int server_write(struct http_server_stream *stream, const char *data, size_t length)
{
	struct h1_server *s = of_stream(stream);

	if (s->state == CLOSED)
		return REA_ERR_IO;
	assert(is_open(s) && s->responded);
	return h1_sending_write(&s->sending, &s->base.out, data, length);
}

static void server_reset(struct http_server_stream *stream)
{
	struct h1_server *s = of_stream(stream);

	if (s->state == CLOSED)
		return;
	assert(is_open(s));
	s->base.want_reset = end_is_close(s);
	close_session(s);
}

static void next_exchange(struct h1_server *s)
{
	set_state(s, HEAD);
	h1_section_clear(&s->head);
	rea_buffer_trim(&s->head.bytes, HEAD_KEEP);
	s->blank_seen = false;
	note_pending(s);
}

static void end_exchange(struct h1_server *s)
{
	if (request_received(s) && s->persistent && !s->shutting_down)
		next_exchange(s);
	else
		close_session(s);
}

static int server_finish(struct http_server_stream *stream, const struct http_field *trailers, size_t trailers_len)
{
	struct h1_server *s = of_stream(stream);
	int error;

	if (s->state == CLOSED)
		return REA_ERR_IO;
	assert(is_open(s) && s->responded);
	error = h1_sending_finish(&s->sending, &s->base.out, trailers, trailers_len);
	if (error == 0)
		end_exchange(s);
	else
		server_reset(stream);
	return error;
}

/* ---- the session ---- */

static void server_shutdown(struct http_server *server)
{
	struct h1_server *s = of_server(server);

	s->shutting_down = true;
	if (s->state == HEAD && rea_buffer_length(&s->head.bytes) == 0 && rea_buffer_length(&s->held) == 0)
		close_session(s);
}

static void server_timeout(struct http_server *server)
{
	struct h1_server *s = of_server(server);

	assert(!s->working);
	if (s->state != HEAD)
		return;
	answer_problem(s, 408, "the request head did not arrive in time");
	close_session(s);
}

static void server_drained(struct http_server *server)
{
	struct h1_server *s = of_server(server);

	if (is_open(s) && s->events->on_writable != NULL)
		s->events->on_writable(&s->stream);
}

static bool server_in_head(const struct http_server *server)
{
	const struct h1_server *s = (const struct h1_server *)server;

	return s->state == HEAD && (rea_buffer_length(&s->head.bytes) > 0 || rea_buffer_length(&s->held) > 0);
}

static bool server_idle(const struct http_server *server)
{
	const struct h1_server *s = (const struct h1_server *)server;

	return !is_open(s) && !server_in_head(server);
}

static void server_free(struct http_server *server)
{
	struct h1_server *s = of_server(server);
	const struct rea_alloc *alloc = rea_alloc_default();

	assert(!s->working);
	rea_buffer_fini(&s->base.out);
	rea_buffer_fini(&s->held);
	h1_section_fini(&s->head);
	h1_fields_fini(&s->fields);
	h1_body_fini(&s->body);
	alloc->free(s, alloc->user_data);
}

struct http_server *h1_server_new(const struct http_server_events *events, const struct http_limits *limits, void *owner)
{
	static const struct http_server_ops ops = {
	    .receive = server_receive,
	    .eof = server_eof,
	    .interim = server_interim,
	    .respond = server_respond,
	    .write = server_write,
	    .finish = server_finish,
	    .reset = server_reset,
	    .pause = server_pause,
	    .resume = server_resume,
	    .timeout = server_timeout,
	    .drained = server_drained,
	    .shutdown = server_shutdown,
	    .idle = server_idle,
	    .in_head = server_in_head,
	    .free = server_free,
	};
	const struct rea_alloc *alloc = rea_alloc_default();
	struct h1_server *s = alloc->realloc(NULL, sizeof(*s), alloc->user_data);

	if (s == NULL)
		return NULL;
	*s = (struct h1_server){.base = {.ops = &ops, .owner = owner}, .events = events, .limits = limits};
	s->stream.session = &s->base;
	return &s->base;
}

void *http_server_owner(const struct http_server *server)
{
	return server->owner;
}
