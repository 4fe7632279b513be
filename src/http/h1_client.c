/*
 * The client's side of an HTTP/1.1 connection: one exchange at a time.
 *
 *     IDLE ──▶ HEAD ──▶ BODY ──▶ SENDING         IDLE   ▶ HEAD         client_begin
 *      ▲         │       │          │            HEAD   ▶ BODY, TUNNEL open_response: as usual, upgraded
 *      └─────────│───────┴──────────┘            BODY   ▶ IDLE, SENDING end_response: the request was finished, or not yet
 *                ▼                               SENDING ▶ IDLE        client_finish
 *              TUNNEL ──▶ DEAD                   all    ▶ DEAD         fail, end_of_input, client_cancel
 *
 * IDLE    no exchange is open; begin is possible while base.reusable. A byte received is one too many.
 * HEAD    the request goes out, the response's head has not arrived whole.
 * BODY    the response's body is arriving; the request may still be going out.
 * SENDING the response has arrived before the request was finished.
 * TUNNEL  bytes pass as they are, both ways.
 * DEAD    nothing can be done but free.
 *
 * base.reusable is true only in IDLE, and there only after exchanges that left nothing unread. It is true before
 * on_body_end is called, so that callee may begin the next exchange right there.
 */
#include "http/h1.h"

#include <rea/error.h>

#include <assert.h>

#define HELD_KEEP 65536u

enum state { IDLE, HEAD, BODY, SENDING, TUNNEL, DEAD };

struct h1_client {
	struct http_client base;
	struct http_client_stream stream;
	const struct http_client_events *events;
	const struct http_limits *limits;
	enum state state;
	bool working; /* a callback may be on the stack */
	bool paused;
	bool request_finished;
	bool persistent; /* the response allows another exchange */
	bool eof;        /* the peer's end was seen, and waits for what is held */
	enum http_error error;
	unsigned interims;
	struct h1_asked asked;
	struct h1_sending sending; /* the request's body */
	struct h1_section head;
	struct h1_fields fields;
	struct h1_body body;    /* of the response */
	struct rea_buffer held; /* received, not worked on */
};

static struct h1_client *of_client(struct http_client *client)
{
	return (struct h1_client *)client;
}

static struct h1_client *of_stream(struct http_client_stream *stream)
{
	return of_client(stream->session);
}

/* on_body_end or on_error is still to come. */
static bool receiving(const struct h1_client *c)
{
	return c->state == HEAD || c->state == BODY || c->state == TUNNEL;
}

static void assert_valid(const struct h1_client *c)
{
	assert(!c->base.reusable || (c->state == IDLE && c->request_finished));
	assert(!c->paused || receiving(c));
	assert(c->error == HTTP_ERROR_NONE || c->state == DEAD);
	assert(c->state != SENDING || !c->request_finished);
	assert(c->working || c->base.reading_paused == (rea_buffer_length(&c->held) > 0));
	assert(c->working || !c->base.reading_paused || (receiving(c) && c->paused));
}

static void set_state(struct h1_client *c, enum state state)
{
	switch (state) {
	case IDLE:
		assert(c->state == BODY || c->state == SENDING);
		break;
	case HEAD:
		assert(c->state == IDLE);
		break;
	case BODY:
	case TUNNEL:
		assert(c->state == HEAD);
		break;
	case SENDING:
		assert(c->state == BODY);
		break;
	case DEAD:
		break;
	}
	c->state = state;
	if (!receiving(c))
		c->paused = false;
	c->base.reusable = state == IDLE && c->persistent;
}

static void fail(struct h1_client *c, enum http_error error)
{
	bool was_receiving = receiving(c);

	c->error = error;
	set_state(c, DEAD);
	if (was_receiving)
		c->events->on_error(&c->stream, error);
}

/* ---- the request ---- */

static enum h1_framing request_framing(const struct http_request_head *head, enum http_method method)
{
	if (head->body_length == HTTP_LENGTH_UNKNOWN)
		return H1_FRAMING_CHUNKED;
	if (head->body_length > 0 || method == HTTP_POST || method == HTTP_PUT || method == HTTP_PATCH)
		return H1_FRAMING_LENGTH;
	return H1_FRAMING_NONE;
}

static struct http_client_stream *client_begin(struct http_client *client, const struct http_request_head *head, void *user)
{
	struct h1_client *c = of_client(client);
	enum http_method method = h1_method_of(head->method);
	enum h1_framing framing = request_framing(head, method);

	if (!c->base.reusable)
		return NULL;
	c->stream.first_byte = c->base.taken + rea_buffer_length(&c->base.out);
	if (h1_request_write(&c->base.out, head, framing) != 0)
		return NULL;
	c->sending = (struct h1_sending){framing, head->body_length};
	c->asked =
	    (struct h1_asked){.head = method == HTTP_HEAD, .connect = method == HTTP_CONNECT, .upgrade = head->upgrade};
	c->request_finished = false;
	c->interims = 0;
	c->base.keep_alive_s = 0;
	c->stream.user = user;
	set_state(c, HEAD);
	return &c->stream;
}

static int client_write(struct http_client_stream *stream, const char *data, size_t length)
{
	struct h1_client *c = of_stream(stream);

	if (c->state == DEAD)
		return REA_ERR_IO;
	assert(c->state == TUNNEL || !c->request_finished);
	return h1_sending_write(&c->sending, &c->base.out, data, length);
}

/* A request that is cut leaves a peer that waits for the rest: the session is of no more use. */
static int client_finish(struct http_client_stream *stream, const struct http_field *trailers, size_t trailers_len)
{
	struct h1_client *c = of_stream(stream);
	int error;

	if (c->state == DEAD)
		return REA_ERR_IO;
	assert(c->state == TUNNEL || !c->request_finished);
	error = h1_sending_finish(&c->sending, &c->base.out, trailers, trailers_len);
	if (error != 0)
		return error;
	c->request_finished = true;
	if (c->state == SENDING)
		set_state(c, IDLE);
	return 0;
}

/* ---- the response ---- */

/* "timeout=5, max=100" */
static uint32_t keep_alive_hint(const struct http_response *response)
{
	const struct http_field *field = http_field_find(response->fields, response->fields_len, HTTP_FIELD_KEEP_ALIVE);
	struct rea_slice name = REA_SLICE_LIT("timeout=");
	const char *p, *end, *digits;
	uint64_t seconds;

	if (field == NULL)
		return 0;
	for (p = field->value.data, end = p + field->value.length; (size_t)(end - p) > name.length; p++) {
		if (!rea_slice_equal_nocase(rea_slice_make(p, name.length), name))
			continue;
		for (p += name.length, digits = p; p < end && *p >= '0' && *p <= '9'; p++)
			;
		if (!rea_slice_to_u64(rea_slice_make(digits, (size_t)(p - digits)), &seconds) || seconds > UINT32_MAX)
			return 0;
		return (uint32_t)seconds;
	}
	return 0;
}

static void open_response(struct h1_client *c, const struct http_response *response, enum h1_framing framing)
{
	c->base.keep_alive_s = keep_alive_hint(response);
	if (response->upgraded) {
		c->request_finished = true;
		c->sending = (struct h1_sending){.framing = H1_FRAMING_CLOSE};
		set_state(c, TUNNEL);
	} else {
		h1_body_begin(&c->body, framing, response->body_length);
		set_state(c, BODY);
	}
	c->events->on_response(&c->stream, response);
}

static void receive_head(struct h1_client *c, struct rea_slice *in)
{
	struct http_response response;
	struct rea_slice whole;
	enum h1_framing framing;
	enum http_error error = h1_section_take(&c->head, c->limits->head_bytes, false, in, &whole);

	if (error == HTTP_ERROR_NONE && whole.length == 0)
		return;
	if (error == HTTP_ERROR_NONE)
		error = h1_response_parse(
		    whole.data, whole.length, c->limits, c->asked, &c->fields, &response, &framing, &c->persistent);
	c->base.unread = in->length;
	if (error == HTTP_ERROR_NONE && response.upgraded && response.status == 101 && !c->request_finished)
		error = HTTP_ERROR_UNEXPECTED; /* the new protocol begins behind the request, which has no end yet */
	if (error == HTTP_ERROR_NONE && response.status < 200 && !response.upgraded && ++c->interims > H1_INTERIM_MAX)
		error = HTTP_ERROR_UNEXPECTED;
	if (error != HTTP_ERROR_NONE)
		fail(c, error);
	else if (response.status < 200 && !response.upgraded)
		c->events->on_interim(&c->stream, &response);
	else
		open_response(c, &response, framing);
	h1_section_clear(&c->head);
}

/* unread: bytes were received behind the response. */
static void end_response(struct h1_client *c, bool unread)
{
	if (unread)
		c->persistent = false;
	set_state(c, c->request_finished ? IDLE : SENDING);
	c->events->on_body_end(&c->stream, c->body.trailers.items, c->body.trailers.length);
}

static void receive_body(struct h1_client *c, struct rea_slice *in)
{
	struct rea_slice piece;
	enum http_error error;

	enum h1_event event = h1_body_next(&c->body, c->limits, in, &piece, &error);

	c->base.unread = in->length;
	switch (event) {
	case H1_MORE:
		return;
	case H1_PIECE:
		c->events->on_body(&c->stream, piece.data, piece.length);
		return;
	case H1_END:
		end_response(c, in->length > 0);
		return;
	case H1_BAD:
		fail(c, error);
		return;
	}
}

static void receive_tunnel(struct h1_client *c, struct rea_slice *in)
{
	struct rea_slice all = *in;

	*in = rea_slice_make(all.data + all.length, 0);
	c->events->on_body(&c->stream, all.data, all.length);
}

/* Whether *in, or what is known without more bytes, can be worked on. */
static bool can_work(const struct h1_client *c, const struct rea_slice *in)
{
	switch (c->state) {
	case IDLE:
	case HEAD:
	case SENDING:
		return in->length > 0;
	case TUNNEL:
		return in->length > 0 && !c->paused;
	case BODY:
		return h1_body_ended(&c->body) || (in->length > 0 && !c->paused);
	case DEAD:
		return false;
	}
	return false;
}

static void work(struct h1_client *c, struct rea_slice *in)
{
	c->working = true;
	while (can_work(c, in)) {
		switch (c->state) {
		case IDLE:
		case SENDING:
			fail(c, HTTP_ERROR_UNEXPECTED);
			break;
		case HEAD:
			receive_head(c, in);
			break;
		case BODY:
			receive_body(c, in);
			break;
		case TUNNEL:
			receive_tunnel(c, in);
			break;
		case DEAD:
			break;
		}
	}
	c->working = false;
	c->base.unread = 0;
}

static void work_on_held(struct h1_client *c)
{
	struct rea_slice in;

	if (rea_buffer_length(&c->held) == 0)
		return;
	in = rea_slice_make(rea_buffer_data(&c->held), rea_buffer_length(&c->held));
	work(c, &in);
	rea_buffer_consume(&c->held, rea_buffer_length(&c->held) - in.length);
}

/* The peer sends no more, and all that it sent has been worked on. */
static void end_of_input(struct h1_client *c)
{
	bool ends_here =
	    !c->base.broken && (c->state == TUNNEL || (c->state == BODY && c->body.framing == H1_FRAMING_CLOSE));

	if (receiving(c) && !ends_here) {
		fail(c, HTTP_ERROR_TRUNCATED);
		return;
	}
	set_state(c, DEAD);
	if (ends_here)
		c->events->on_body_end(&c->stream, NULL, 0);
}

static int result(const struct h1_client *c)
{
	if (c->state != DEAD)
		return 0;
	if (c->error == HTTP_ERROR_NONE)
		return REA_ERR_IO;
	return c->error == HTTP_ERROR_NOMEM ? REA_ERR_NOMEM : REA_ERR_SYNTAX;
}

static int settle(struct h1_client *c)
{
	if (c->state == DEAD)
		rea_buffer_clear(&c->held);
	if (c->eof && rea_buffer_length(&c->held) == 0 && c->state != DEAD)
		end_of_input(c);
	rea_buffer_trim(&c->held, HELD_KEEP);
	c->base.reading_paused = rea_buffer_length(&c->held) > 0;
	assert_valid(c);
	return result(c);
}

static int client_receive(struct http_client *client, const char *data, size_t length)
{
	struct h1_client *c = of_client(client);
	struct rea_slice in = {data, length};
	bool fresh = rea_buffer_length(&c->held) == 0;

	assert(!c->working);
	if (fresh)
		work(c, &in);
	if (c->state != DEAD && rea_buffer_append(&c->held, in.data, in.length) != 0)
		fail(c, HTTP_ERROR_NOMEM);
	if (!fresh)
		work_on_held(c);
	return settle(c);
}

static void client_eof(struct http_client *client)
{
	struct h1_client *c = of_client(client);

	assert(!c->working);
	c->eof = true;
	(void)settle(c);
}

static void client_pause(struct http_client_stream *stream)
{
	struct h1_client *c = of_stream(stream);

	assert(receiving(c));
	c->paused = true;
}

static int client_resume(struct http_client_stream *stream)
{
	struct h1_client *c = of_stream(stream);

	c->paused = false;
	if (c->working) /* that receive goes on with it */
		return 0;
	work_on_held(c);
	return settle(c);
}

static void client_cancel(struct http_client_stream *stream)
{
	struct h1_client *c = of_stream(stream);

	set_state(c, DEAD);
	if (!c->working) {
		rea_buffer_clear(&c->held);
		c->base.reading_paused = false;
	}
}

/* ---- the session ---- */

static void client_drained(struct http_client *client)
{
	struct h1_client *c = of_client(client);

	if (c->state != IDLE && c->state != DEAD && c->events->on_writable != NULL)
		c->events->on_writable(&c->stream);
}

static void client_free(struct http_client *client)
{
	struct h1_client *c = of_client(client);
	const struct rea_alloc *alloc = rea_alloc_default();

	assert(!c->working);
	rea_buffer_fini(&c->base.out);
	rea_buffer_fini(&c->held);
	h1_section_fini(&c->head);
	h1_fields_fini(&c->fields);
	h1_body_fini(&c->body);
	alloc->free(c, alloc->user_data);
}

struct http_client *h1_client_new(const struct http_client_events *events, const struct http_limits *limits, void *owner)
{
	static const struct http_client_ops ops = {
	    .begin = client_begin,
	    .write = client_write,
	    .finish = client_finish,
	    .receive = client_receive,
	    .eof = client_eof,
	    .pause = client_pause,
	    .resume = client_resume,
	    .cancel = client_cancel,
	    .drained = client_drained,
	    .free = client_free,
	};
	const struct rea_alloc *alloc = rea_alloc_default();
	struct h1_client *c = alloc->realloc(NULL, sizeof(*c), alloc->user_data);

	if (c == NULL)
		return NULL;
	*c = (struct h1_client){.events = events, .limits = limits, .request_finished = true};
	c->base = (struct http_client){.ops = &ops, .reusable = true, .owner = owner};
	c->stream.session = &c->base;
	return &c->base;
}

void *http_client_owner(const struct http_client *client)
{
	return client->owner;
}
