/*
 * The server's side of an HTTP/2 connection: many exchanges at once, each a stream.
 *
 *     HEAD ──▶ OPEN ──▶ SENDING ──▶ closed          a stream's life; `over` and `closed` of h2.h say where it stands
 *
 * HEAD    its head is arriving. What is refused there the session answers itself, and nobody hears of it.
 * OPEN    on_request was called; its user answers. It ends with finish, reset or on_abort: then it is over.
 * SENDING over, but what was written waits for the peer's window.
 * closed  nghttp2 has forgotten it. Not over by then: on_abort.
 *
 * The connection ends when both sides have said goodbye, or when one breaks the protocol: then nghttp2 writes why, want_close is set when
 * that stands in out, and every open stream is aborted.
 */
#include "http/h2.h"
#include "http/h1.h"

#include "base/container.h"

#include <rea/error.h>
#include <rea/time.h>

#include <assert.h>

#define MASK(id) (UINT64_C(1) << HTTP_FIELD_##id)

struct h2_server {
	struct http_server base;
	struct h2 h2;
	const struct http_server_events *events;
	size_t open;  /* streams that are not over */
	bool greeted; /* the client has sent its preface */
	bool shutting_down;
	uint64_t waste; /* frames that led nowhere, times REA_NS_PER_S; see charge */
	uint64_t waste_ns;
	int32_t last_id;  /* of the streams that were opened, or should have been */
	int32_t unopened; /* its head has begun, and nghttp2 has not taken it; 0 = none such */
	size_t resets;    /* ever */
	int32_t reset_ids[H2_RESETS_KEPT];
};

struct server_stream {
	struct h2_stream h2; /* first */
	struct http_server_stream base;
	struct http_request request;
	uint64_t begun_ns;
	bool told; /* of: on_request */
	bool responded;
	bool continue_due; /* the client waits for 100 Continue */
};

static struct h2_server *of_server(struct http_server *server)
{
	return (struct h2_server *)server;
}

static struct h2_server *of_h2(struct h2 *h2)
{
	return REA_CONTAINER_OF(h2, struct h2_server, h2);
}

static struct server_stream *of_base(struct http_server_stream *stream)
{
	return REA_CONTAINER_OF(stream, struct server_stream, base);
}

static struct server_stream *of_stream(struct h2_stream *stream)
{
	return (struct server_stream *)stream;
}

static void leave(struct server_stream *s)
{
	of_h2(s->h2.h2)->open--;
	s->told = false;
}

/* ---- what floods ---- */

/* A bucket that empties with time. False = it has run over: the connection ends. */
static bool charge(struct h2_server *server)
{
	uint64_t now = server->base.now_ns, gone = rea_time_mul(rea_time_sub(now, server->waste_ns), H2_WASTE_PER_S);

	server->waste = rea_time_add(rea_time_sub(server->waste, gone), REA_NS_PER_S);
	server->waste_ns = rea_time_max(now, server->waste_ns);
	if (server->waste <= H2_WASTE_MAX * REA_NS_PER_S)
		return true;
	server->h2.error = HTTP_ERROR_FLOOD;
	return false;
}

/* ---- what comes too late ---- */

static void note_reset(struct h2_server *server, int32_t id)
{
	server->reset_ids[server->resets++ % H2_RESETS_KEPT] = id;
}

static bool was_reset(const struct h2_server *server, int32_t id)
{
	size_t kept = server->resets < H2_RESETS_KEPT ? server->resets : H2_RESETS_KEPT;

	for (size_t i = 0; i < kept; i++)
		if (server->reset_ids[i] == id)
			return true;
	return false;
}

/* nghttp2 forgets closed streams, and passes over what comes for them; PRIORITY it does not look at. */
static bool is_out_of_turn(struct h2_server *server, const nghttp2_frame_hd *head)
{
	int32_t id = head->stream_id;

	/* One that nghttp2 refuses without a word to us. */
	if (server->unopened != 0)
		note_reset(server, server->unopened);
	server->unopened = 0;
	if (head->type == NGHTTP2_PRIORITY)
		return id == 0;
	if ((head->type != NGHTTP2_DATA && head->type != NGHTTP2_HEADERS) || id % 2 == 0)
		return false;
	if (id <= server->last_id)
		return nghttp2_session_find_stream(server->h2.session, id) == NULL && !was_reset(server, id);
	if (head->type == NGHTTP2_HEADERS)
		server->last_id = server->unopened = id;
	return false;
}

static bool frame_begins(struct h2 *h2, const nghttp2_frame_hd *head)
{
	struct h2_server *server = of_h2(h2);
	bool waste = head->type == NGHTTP2_PRIORITY ||
		     (head->type == NGHTTP2_SETTINGS && !(head->flags & NGHTTP2_FLAG_ACK)) ||
		     (head->type == NGHTTP2_DATA && head->length == 0 && !(head->flags & NGHTTP2_FLAG_END_STREAM));

	server->greeted = true;
	if (is_out_of_turn(server, head)) {
		h2->error = HTTP_ERROR_PROTOCOL;
		h2->code = head->stream_id == 0 ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_STREAM_CLOSED;
		return false;
	}
	return !waste || charge(server);
}

/* A request that is given up after a while was meant. */
static bool was_waste(const struct h2_server *server, const struct server_stream *s)
{
	return s == NULL || rea_time_sub(server->base.now_ns, s->begun_ns) < H2_WASTE_NS;
}

static bool on_frame(struct h2 *h2, const nghttp2_frame *frame)
{
	struct h2_server *server = of_h2(h2);

	if (frame->hd.type == NGHTTP2_RST_STREAM &&
	    was_waste(server, nghttp2_session_get_stream_user_data(h2->session, frame->hd.stream_id)))
		return charge(server);
	/* The answer to shutdown's ping: whatever was on its way then has come. */
	if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) && server->shutting_down)
		(void)nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE,
		    nghttp2_session_get_last_proc_stream_id(h2->session), NGHTTP2_NO_ERROR, NULL, 0);
	return true;
}

/* A client that makes us reset streams wastes as much as one that resets them itself. */
static void frame_starts(struct h2 *h2, const nghttp2_frame *frame)
{
	if (frame->hd.type != NGHTTP2_RST_STREAM)
		return;
	note_reset(of_h2(h2), frame->hd.stream_id);
	if ((frame->rst_stream.error_code == NGHTTP2_PROTOCOL_ERROR || frame->rst_stream.error_code == NGHTTP2_FLOW_CONTROL_ERROR ||
		frame->rst_stream.error_code == NGHTTP2_STREAM_CLOSED) &&
	    !charge(of_h2(h2)))
		(void)nghttp2_session_terminate_session(h2->session, NGHTTP2_ENHANCE_YOUR_CALM);
}

static void frame_sent(struct h2 *h2, const nghttp2_frame *frame)
{
	const struct h2_stream *stream;

	/* shutdown's first: pings overtake what waits, so this one is made only now. */
	if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.last_stream_id == INT32_MAX)
		(void)nghttp2_submit_ping(h2->session, NGHTTP2_FLAG_NONE, NULL);
	if ((frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS) ||
	    !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return;
	/* The answer is out, and the rest of the request is of no use. */
	stream = nghttp2_session_get_stream_user_data(h2->session, frame->hd.stream_id);
	if (stream != NULL && !stream->received)
		(void)nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_NO_ERROR);
}

/* ---- responses ---- */

static int submit_head(struct server_stream *s, const struct http_response_head *head, uint64_t announced, bool body)
{
	struct h2 *h2 = s->h2.h2;
	nghttp2_data_provider provider = h2_body_of(&s->h2);
	char status[H2_DIGITS], length[H2_DIGITS];
	int error;

	h2_head_begin(h2);
	if (!h2_head_add(h2, REA_SLICE_LIT(":status"), h2_decimal(head->status, status)) ||
	    !h2_head_add_fields(h2, head->fields, head->fields_len, MASK(CONTENT_LENGTH)) ||
	    !h2_head_add_fields(h2, head->more, head->more_len, MASK(CONTENT_LENGTH)) ||
	    (announced != HTTP_LENGTH_UNKNOWN &&
		!h2_head_add(h2, REA_SLICE_LIT("content-length"), h2_decimal(announced, length))))
		return REA_ERR_NOMEM;
	error = nghttp2_submit_response(h2->session, s->h2.id, h2->nv, h2->nv_len, body ? &provider : NULL);
	if (error == NGHTTP2_ERR_NOMEM)
		return REA_ERR_NOMEM;
	return error == 0 ? 0 : REA_ERR_IO;
}

static bool may_have_body(const struct server_stream *s, uint16_t status)
{
	return s->request.method_id != HTTP_HEAD && status != 204 && status != 304;
}

static int respond(struct server_stream *s, const struct http_response_head *head)
{
	bool may = may_have_body(s, head->status), body = may && head->has_body && head->body_length != 0;
	uint64_t announced = head->body_length;
	int error;

	/* The end of the head says that there is nothing; a length of 0 only repeats it, which is no news of a head that had none. */
	if (head->status == 204 ||
	    (may && announced == 0 && http_field_find(head->fields, head->fields_len, HTTP_FIELD_CONTENT_LENGTH) == NULL))
		announced = HTTP_LENGTH_UNKNOWN;
	else if (may && !head->has_body)
		announced = 0;
	error = submit_head(s, head, announced, body);
	if (error != 0)
		return error;
	s->h2.body = body;
	s->h2.left = announced;
	s->responded = true;
	s->continue_due = false;
	return 0;
}

/* An answer of the session's own, to what nobody else hears of. */
static void answer(struct server_stream *s, enum http_error error)
{
	static const struct http_field type[] = {
	    {REA_SLICE_LIT("content-type"), REA_SLICE_LIT("application/problem+json"), HTTP_FIELD_OTHER, false},
	};
	uint16_t status = http_error_status(error);
	const char *detail = http_error_text(error);
	char text[HTTP_PROBLEM_MAX];
	struct http_response_head head = {.status = status, .fields = type, .fields_len = 1, .has_body = true};

	if (s->request.method_id == HTTP_CONNECT && error == HTTP_ERROR_BAD_TARGET) {
		head.status = status = 501;
		detail = "CONNECT is not spoken over HTTP/2 here";
	}
	head.body_length = http_problem_format(text, sizeof(text), status, detail, "");
	if (respond(s, &head) != 0 || h2_stream_write(&s->h2, text, (size_t)head.body_length) != 0 ||
	    h2_stream_finish(&s->h2, NULL, 0) != 0)
		h2_stream_cancel(&s->h2, NGHTTP2_INTERNAL_ERROR);
	else
		h2_stream_over(&s->h2);
}

/* ---- requests ---- */

static struct h2_stream *stream_opened(struct h2 *h2, int32_t id)
{
	struct h2_server *server = of_h2(h2);
	struct server_stream *s = (struct server_stream *)h2_stream_new(h2);

	if (s == NULL)
		return NULL;
	server->unopened = 0;
	s->h2.id = id;
	s->base.session = &server->base;
	s->begun_ns = server->base.now_ns;
	return &s->h2;
}

/* Cookies come in crumbs; HTTP/1 knows only one of them (RFC 9113, 8.2.3). */
static bool join_cookies(struct h2_stream *stream)
{
	static const struct rea_slice cookie = REA_SLICE_LIT("cookie");
	struct h2_fields *head = &stream->head;
	struct http_field *first = NULL;
	size_t kept = 0, crumbs = 0;

	for (size_t i = 0; i < head->length; i++)
		crumbs += rea_slice_equal(head->items[i].name, cookie);
	if (crumbs < 2)
		return true;
	for (size_t i = 0; i < head->length; i++) {
		if (!rea_slice_equal(head->items[i].name, cookie))
			continue;
		if (rea_buffer_length(&stream->text) > 0 && rea_buffer_append(&stream->text, "; ", 2) != 0)
			return false;
		if (rea_buffer_append_slice(&stream->text, head->items[i].value) != 0)
			return false;
	}
	for (size_t i = 0; i < head->length; i++) {
		bool crumb = rea_slice_equal(head->items[i].name, cookie);

		if (crumb && first != NULL)
			continue;
		head->items[kept] = head->items[i];
		if (crumb)
			first = &head->items[kept];
		kept++;
	}
	first->value = rea_slice_make(rea_buffer_data(&stream->text), rea_buffer_length(&stream->text));
	head->length = kept;
	return true;
}

static bool scheme_known(struct rea_slice scheme)
{
	return rea_slice_equal_nocase(scheme, REA_SLICE_LIT("http")) ||
	       rea_slice_equal_nocase(scheme, REA_SLICE_LIT("https"));
}

/* nghttp2 has seen to what HTTP/2 demands; what HTTP/1 would read otherwise is refused as there. */
static enum http_error read_head(struct server_stream *s, bool ends)
{
	struct h2_fields *head = &s->h2.head;
	struct http_request *request = &s->request;
	const struct http_field *expect;

	*request = (struct http_request){.method_id = h1_method_of(head->pseudo[H2_METHOD]), .version = 20};
	if (head->error != HTTP_ERROR_NONE)
		return head->error;
	if (!join_cookies(&s->h2))
		return HTTP_ERROR_NOMEM;
	request->method = head->pseudo[H2_METHOD];
	request->scheme = head->pseudo[H2_SCHEME];
	request->authority = head->pseudo[H2_AUTHORITY];
	request->path = head->pseudo[H2_PATH];
	request->fields = head->items;
	request->fields_len = head->length;
	request->body_length = ends ? 0 : h2_content_length(head);
	if (request->method_id == HTTP_CONNECT || !scheme_known(request->scheme) || !h1_target_valid(request->path))
		return HTTP_ERROR_BAD_TARGET;
	if (request->authority.length == 0) {
		const struct http_field *host = http_field_find(head->items, head->length, HTTP_FIELD_HOST);

		if (host != NULL)
			request->authority = host->value;
	}
	if (!h1_authority_valid(request->authority, false))
		return HTTP_ERROR_BAD_HOST;
	expect = http_field_find(head->items, head->length, HTTP_FIELD_EXPECT);
	if (expect != NULL && !rea_slice_equal_nocase(expect->value, REA_SLICE_LIT("100-continue")))
		return HTTP_ERROR_EXPECTATION;
	request->expect_continue = expect != NULL && request->body_length != 0;
	return HTTP_ERROR_NONE;
}

/* A request for two places (RFC 9113, 8.3.1). */
static bool two_hosts(const struct server_stream *s)
{
	const struct h2_fields *head = &s->h2.head;
	struct rea_slice authority = head->pseudo[H2_AUTHORITY];

	for (size_t i = 0; i < head->length; i++) {
		if (head->items[i].id != HTTP_FIELD_HOST)
			continue;
		if (authority.length > 0 && !rea_slice_equal_nocase(authority, head->items[i].value))
			return true;
		authority = head->items[i].value;
	}
	return false;
}

static void send_continue(struct server_stream *s)
{
	static const nghttp2_nv status = {
	    (uint8_t *)(uintptr_t) ":status", (uint8_t *)(uintptr_t) "100", 7, 3, NGHTTP2_NV_FLAG_NONE};

	if (!s->continue_due || s->h2.paused || s->responded || s->h2.over)
		return;
	/* Without memory for it the client sends the body after a wait of its own. */
	(void)nghttp2_submit_headers(s->h2.h2->session, NGHTTP2_FLAG_NONE, s->h2.id, NULL, &status, 1, NULL);
	s->continue_due = false;
}

static void head_received(struct h2_stream *stream, bool ends)
{
	struct h2_server *server = of_h2(stream->h2);
	struct server_stream *s = of_stream(stream);
	enum http_error error;

	stream->headed = true;
	if (two_hosts(s)) {
		h2_stream_cancel(stream, NGHTTP2_PROTOCOL_ERROR);
		return;
	}
	error = read_head(s, ends);
	if (error != HTTP_ERROR_NONE) {
		answer(s, error);
		return;
	}
	s->told = true;
	server->open++;
	s->continue_due = s->request.expect_continue;
	server->events->on_request(&s->base, &s->request);
	/* An announced length of 0 may be followed by the frame that ends it. */
	if (s->request.body_length == 0 && !stream->over) {
		stream->end_told = true;
		server->events->on_body_end(&s->base, NULL, 0);
	}
	send_continue(s);
}

static void body_received(struct h2_stream *stream, const char *data, size_t length)
{
	of_h2(stream->h2)->events->on_body(&of_stream(stream)->base, data, length);
}

static void body_ended(struct h2_stream *stream)
{
	of_h2(stream->h2)->events->on_body_end(&of_stream(stream)->base, stream->trailers.items, stream->trailers.length);
}

static void writable(struct h2_stream *stream)
{
	const struct h2_server *server = of_h2(stream->h2);

	if (server->events->on_writable != NULL)
		server->events->on_writable(&of_stream(stream)->base);
}

static void broken(struct h2_stream *stream, enum http_error error, uint32_t code)
{
	struct h2_server *server = of_h2(stream->h2);
	struct server_stream *s = of_stream(stream);

	(void)code;
	if (!s->told)
		return;
	leave(s);
	/* That the client has gone is no error of it. */
	if (error == HTTP_ERROR_RESET || error == HTTP_ERROR_GOING_AWAY || (error == HTTP_ERROR_TRUNCATED && stream->received))
		error = HTTP_ERROR_NONE;
	server->events->on_abort(&s->base, error);
}

static void ended(struct h2 *h2)
{
	struct h2_server *server = of_h2(h2);

	server->base.want_close = true;
	server->base.error = h2->error;
}

/* ---- operations ---- */

static int server_receive(struct http_server *server, const char *data, size_t length)
{
	return h2_receive(&of_server(server)->h2, data, length);
}

static void server_eof(struct http_server *server)
{
	h2_end(&of_server(server)->h2, HTTP_ERROR_NONE);
}

static void server_fill(struct http_server *server)
{
	server->output_waits = h2_fill(&of_server(server)->h2);
}

static void server_interim(
    struct http_server_stream *stream, uint16_t status, const struct http_field *fields, size_t fields_len)
{
	struct server_stream *s = of_base(stream);
	struct h2 *h2 = s->h2.h2;
	char text[H2_DIGITS];

	if (s->h2.over || h2->dead)
		return;
	assert(!s->responded && status >= 100 && status < 200 && status != 101);
	if (status == 100) {
		send_continue(s);
		return;
	}
	h2_head_begin(h2);
	/* Nothing depends on one. */
	if (h2_head_add(h2, REA_SLICE_LIT(":status"), h2_decimal(status, text)) &&
	    h2_head_add_fields(h2, fields, fields_len, MASK(CONTENT_LENGTH)))
		(void)nghttp2_submit_headers(h2->session, NGHTTP2_FLAG_NONE, s->h2.id, NULL, h2->nv, h2->nv_len, NULL);
}

static int server_respond(struct http_server_stream *stream, const struct http_response_head *head)
{
	struct server_stream *s = of_base(stream);

	if (s->h2.over || s->h2.h2->dead)
		return REA_ERR_IO;
	assert(!s->responded);
	if (head->status < 200 || head->status > 999 || head->upgraded)
		return REA_ERR_INVALID;
	return respond(s, head);
}

static int server_write(struct http_server_stream *stream, const char *data, size_t length)
{
	return h2_stream_write(&of_base(stream)->h2, data, length);
}

static void server_reset(struct http_server_stream *stream)
{
	struct server_stream *s = of_base(stream);

	if (s->told)
		leave(s);
	h2_stream_cancel(&s->h2, NGHTTP2_INTERNAL_ERROR);
}

static int server_finish(struct http_server_stream *stream, const struct http_field *trailers, size_t trailers_len)
{
	struct server_stream *s = of_base(stream);
	int error = h2_stream_finish(&s->h2, trailers, trailers_len);

	if (error != 0) {
		server_reset(stream);
		return error;
	}
	leave(s);
	h2_stream_over(&s->h2);
	return 0;
}

static void server_pause(struct http_server_stream *stream)
{
	of_base(stream)->h2.paused = true;
}

static int server_resume(struct http_server_stream *stream)
{
	struct server_stream *s = of_base(stream);

	if (s->h2.over || s->h2.h2->dead)
		return REA_ERR_IO;
	s->h2.paused = false;
	send_continue(s);
	return h2_stream_resume(&s->h2);
}

static bool server_congested(struct http_server_stream *stream)
{
	return h2_stream_congested(&of_base(stream)->h2);
}

/* Streams have their own backlogs: fill tells them. */
static void server_drained(struct http_server *server)
{
	(void)server;
}

/*
 * In two steps, since requests may be on their way: the first GOAWAY takes them all, and what comes before the answer to the ping is answered; the
 * second names the last.
 */
static void server_shutdown(struct http_server *server)
{
	struct h2_server *s = of_server(server);

	if (s->shutting_down || s->h2.dead)
		return;
	s->shutting_down = true;
	if (nghttp2_submit_shutdown_notice(s->h2.session) != 0)
		(void)nghttp2_session_terminate_session(s->h2.session, NGHTTP2_NO_ERROR);
}

/* Neither a request nor the rest of a head came. */
static void server_timeout(struct http_server *server)
{
	struct h2_server *s = of_server(server);

	if (!s->h2.dead && s->open == 0)
		(void)nghttp2_session_terminate_session(s->h2.session, NGHTTP2_NO_ERROR);
}

static bool server_in_head(const struct http_server *server)
{
	const struct h2_server *s = (const struct h2_server *)server;

	return s->open == 0 && !s->h2.dead && (!s->greeted || s->h2.head_of != NULL);
}

static bool server_idle(const struct http_server *server)
{
	return ((const struct h2_server *)server)->open == 0 && !server_in_head(server);
}

static void server_free(struct http_server *server)
{
	struct h2_server *s = of_server(server);
	const struct rea_alloc *alloc = rea_alloc_default();

	assert(!s->h2.inside);
	h2_fini(&s->h2);
	rea_buffer_fini(&s->base.out);
	alloc->free(s, alloc->user_data);
}

struct http_server *h2_server_new(const struct http_server_events *events, const struct http_limits *limits, void *owner)
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
	    .fill = server_fill,
	    .congested = server_congested,
	    .shutdown = server_shutdown,
	    .idle = server_idle,
	    .in_head = server_in_head,
	    .free = server_free,
	};
	static const struct h2_role role = {
	    .stream_size = sizeof(struct server_stream),
	    .opened = stream_opened,
	    .head = head_received,
	    .body = body_received,
	    .body_end = body_ended,
	    .writable = writable,
	    .broken = broken,
	    .frame_begins = frame_begins,
	    .frame = on_frame,
	    .frame_starts = frame_starts,
	    .frame_sent = frame_sent,
	    .ended = ended,
	};
	const struct rea_alloc *alloc = rea_alloc_default();
	struct h2_server *s = alloc->realloc(NULL, sizeof(*s), alloc->user_data);

	if (s == NULL)
		return NULL;
	*s = (struct h2_server){.base = {.ops = &ops, .owner = owner}, .events = events};
	if (h2_init(&s->h2, &role, limits, &s->base.out, true) == 0)
		return &s->base;
	server_free(&s->base);
	return NULL;
}
