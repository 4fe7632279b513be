/*
 * The client's side of an HTTP/2 connection: many exchanges at once, each a stream.
 *
 *     WAITING ──▶ SENT ──▶ ANSWERED ──▶ over ──▶ closed
 *
 * WAITING   begin was called; nghttp2 holds the head until the peer allows another stream. first_byte is UINT64_MAX. How many it allows its
 *           SETTINGS say, which are the first that it says: until then one goes ahead and the others wait for that, lest they be refused.
 * SENT      its head stands in out, or has left; 1xx may come.
 * ANSWERED  on_response was called, its body is arriving.
 * over      on_body_end, on_error or cancel. What is left of the request is not sent; a reset tells the peer.
 * closed    nghttp2 has forgotten it. Not over by then: on_error, unless what was held is still to be read.
 *
 * base.closing: the peer has said goodbye, or the connection is at its end, or out of stream ids. Streams that the peer takes still end as
 * they would have.
 */
#include "http/h2.h"
#include "http/h1.h"

#include "base/container.h"

#include <rea/error.h>
#include <rea/time.h>

#include <assert.h>

#define MASK(id) (UINT64_C(1) << HTTP_FIELD_##id)

struct h2_client {
	struct http_client base;
	struct h2 h2;
	const struct http_client_events *events;
	bool greeted; /* the peer's SETTINGS have come */
};

struct client_stream {
	struct h2_stream h2; /* first */
	struct http_client_stream base;
	unsigned interims;
	bool head;     /* what was asked for has no body */
	bool answered; /* something came: the peer has begun to work on it */
};

static struct h2_client *of_client(struct http_client *client)
{
	return (struct h2_client *)client;
}

static struct h2_client *of_h2(struct h2 *h2)
{
	return REA_CONTAINER_OF(h2, struct h2_client, h2);
}

static struct client_stream *of_base(struct http_client_stream *stream)
{
	return REA_CONTAINER_OF(stream, struct client_stream, base);
}

static struct client_stream *of_stream(struct h2_stream *stream)
{
	return (struct client_stream *)stream;
}

static void update(struct h2_client *c)
{
	nghttp2_session *session = c->h2.session;
	uint32_t allowed = c->greeted
			       ? nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
			       : H2_STREAMS_MAX;

	c->base.closing = c->h2.dead || !nghttp2_session_check_request_allowed(session);
	c->base.reusable = !c->base.closing && c->h2.streams_len < allowed;
	c->base.full = c->h2.streams_len >= allowed && c->h2.streams_len - allowed >= H2_WAITING_MAX;
	c->base.reading_paused = c->h2.dead && c->h2.streams != NULL;
}

/* ---- the request ---- */

/* The one coding of trailers is the one member of TE that HTTP/2 knows. */
static bool takes_trailers(struct rea_slice te)
{
	static const struct rea_slice word = REA_SLICE_LIT("trailers");

	for (size_t i = 0; i + word.length <= te.length; i++)
		if (rea_slice_equal_nocase(rea_slice_make(te.data + i, word.length), word) &&
		    (i == 0 || te.data[i - 1] == ',' || te.data[i - 1] == ' ') &&
		    (i + word.length == te.length || te.data[i + word.length] == ',' || te.data[i + word.length] == ' '))
			return true;
	return false;
}

static bool make_head(struct h2 *h2, const struct http_request_head *head, char length[H2_DIGITS])
{
	uint64_t except = head->skip | MASK(HOST) | MASK(CONTENT_LENGTH) | MASK(EXPECT);
	const struct http_field *te = http_field_find(head->fields, head->fields_len, HTTP_FIELD_TE);
	bool announced = head->body_length != HTTP_LENGTH_UNKNOWN && head->body_length > 0;

	h2_head_begin(h2);
	return h2_head_add(h2, REA_SLICE_LIT(":method"), head->method) &&
	       h2_head_add(h2, REA_SLICE_LIT(":scheme"), head->scheme) &&
	       h2_head_add(h2, REA_SLICE_LIT(":authority"), head->authority) &&
	       h2_head_add(h2, REA_SLICE_LIT(":path"), head->path) &&
	       h2_head_add_fields(h2, head->fields, head->fields_len, except) &&
	       h2_head_add_fields(h2, head->more, head->more_len, 0) &&
	       (te == NULL || !takes_trailers(te->value) || h2_head_add(h2, REA_SLICE_LIT("te"), REA_SLICE_LIT("trailers"))) &&
	       (!announced || h2_head_add(h2, REA_SLICE_LIT("content-length"), h2_decimal(head->body_length, length)));
}

static struct http_client_stream *client_begin(struct http_client *client, const struct http_request_head *head, void *user)
{
	struct h2_client *c = of_client(client);
	enum http_method method = h1_method_of(head->method);
	nghttp2_data_provider provider;
	char length[H2_DIGITS];
	struct client_stream *s;

	/* Upgrades and tunnels are HTTP/1's. */
	if (c->base.closing || c->base.full || head->upgrade || method == HTTP_CONNECT || !make_head(&c->h2, head, length))
		return NULL;
	s = (struct client_stream *)h2_stream_new(&c->h2);
	if (s == NULL)
		return NULL;
	s->h2.body = head->body_length != 0;
	s->h2.left = head->body_length;
	s->head = method == HTTP_HEAD;
	s->base = (struct http_client_stream){.session = client, .user = user, .first_byte = UINT64_MAX};
	provider = h2_body_of(&s->h2);
	s->h2.id = nghttp2_submit_request(c->h2.session, NULL, c->h2.nv, c->h2.nv_len, s->h2.body ? &provider : NULL, s);
	if (s->h2.id < 0) {
		h2_stream_drop(&s->h2);
		return NULL;
	}
	update(c);
	return &s->base;
}

static int client_write(struct http_client_stream *stream, const char *data, size_t length)
{
	return h2_stream_write(&of_base(stream)->h2, data, length);
}

static int client_finish(struct http_client_stream *stream, const struct http_field *trailers, size_t trailers_len)
{
	return h2_stream_finish(&of_base(stream)->h2, trailers, trailers_len);
}

static bool client_congested(struct http_client_stream *stream)
{
	return h2_stream_congested(&of_base(stream)->h2);
}

/* ---- the response ---- */

static bool read_status(struct rea_slice text, uint16_t *ret_status)
{
	uint64_t status;

	if (text.length != 3 || !rea_slice_to_u64(text, &status) || status < 100)
		return false;
	*ret_status = (uint16_t)status;
	return true;
}

static void head_received(struct h2_stream *stream, bool ends)
{
	struct h2_client *c = of_h2(stream->h2);
	struct client_stream *s = of_stream(stream);
	struct h2_fields *head = &stream->head;
	struct http_response response = {.fields = head->items, .fields_len = head->length, .version = 20};

	s->answered = true;
	if (head->error != HTTP_ERROR_NONE) {
		h2_stream_refuse(stream, head->error, NGHTTP2_ENHANCE_YOUR_CALM);
		return;
	}
	if (!read_status(head->pseudo[H2_STATUS], &response.status) ||
	    (response.status < 200 && ++s->interims > H1_INTERIM_MAX)) {
		h2_stream_refuse(stream, HTTP_ERROR_UNEXPECTED, NGHTTP2_PROTOCOL_ERROR);
		return;
	}
	if (response.status < 200) {
		response.body_length = HTTP_LENGTH_UNKNOWN;
		c->events->on_interim(&s->base, &response);
		h2_fields_clear(head);
		return;
	}
	stream->headed = true;
	response.has_body = !s->head && response.status != 204 && response.status != 304;
	response.body_length = response.has_body && ends ? 0 : h2_content_length(head);
	c->base.unread = stream->h2->unread;
	c->events->on_response(&s->base, &response);
}

static void body_received(struct h2_stream *stream, const char *data, size_t length)
{
	of_h2(stream->h2)->events->on_body(&of_stream(stream)->base, data, length);
}

/* The peer needs no more of the request. */
static void body_ended(struct h2_stream *stream)
{
	bool cut = !stream->finished && !stream->closed;

	if (cut)
		h2_stream_cancel(stream, NGHTTP2_CANCEL);
	else
		h2_stream_over(stream);
	of_h2(stream->h2)->events->on_body_end(&of_stream(stream)->base, stream->trailers.items, stream->trailers.length);
}

static void writable(struct h2_stream *stream)
{
	const struct h2_client *c = of_h2(stream->h2);

	if (c->events->on_writable != NULL)
		c->events->on_writable(&of_stream(stream)->base);
}

static void broken(struct h2_stream *stream, enum http_error error, uint32_t code)
{
	struct h2_client *c = of_h2(stream->h2);
	struct client_stream *s = of_stream(stream);

	/* A peer that has begun to answer has processed it, whatever it says. */
	if (error == HTTP_ERROR_RESET && code == NGHTTP2_REFUSED_STREAM && !s->answered)
		error = HTTP_ERROR_REFUSED;
	/* What one stream did wrong ends the others too: nobody knows how far they came. */
	if (c->h2.dead && error != HTTP_ERROR_NOMEM)
		error = HTTP_ERROR_TRUNCATED;
	s->base.error_code = code;
	update(c);
	c->events->on_error(&s->base, error);
}

static struct h2_stream *first_waiting(struct h2 *h2)
{
	struct h2_stream *stream = h2->streams;

	while (stream != NULL && (stream->over || of_stream(stream)->base.first_byte != UINT64_MAX))
		stream = stream->next;
	return stream;
}

static bool on_frame(struct h2 *h2, const nghttp2_frame *frame)
{
	struct h2_client *c = of_h2(h2);
	struct h2_stream *stream;

	if (frame->hd.type == NGHTTP2_SETTINGS && !(frame->hd.flags & NGHTTP2_FLAG_ACK))
		c->greeted = true;
	if (frame->hd.type == NGHTTP2_SETTINGS || frame->hd.type == NGHTTP2_GOAWAY)
		update(c);
	/* Those that wait would hear of it only when their turn comes. */
	while (frame->hd.type == NGHTTP2_GOAWAY && (stream = first_waiting(h2)) != NULL)
		h2_stream_refuse(stream, HTTP_ERROR_GOING_AWAY, NGHTTP2_CANCEL);
	return true;
}

static void frame_starts(struct h2 *h2, const nghttp2_frame *frame)
{
	struct h2_client *c = of_h2(h2);
	struct client_stream *s;

	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return;
	s = nghttp2_session_get_stream_user_data(h2->session, frame->hd.stream_id);
	if (s != NULL)
		s->base.first_byte = c->base.taken + rea_buffer_length(&c->base.out);
}

static void ended(struct h2 *h2)
{
	update(of_h2(h2));
}

/* ---- operations ---- */

static int client_receive(struct http_client *client, const char *data, size_t length)
{
	struct h2_client *c = of_client(client);
	int result = h2_receive(&c->h2, data, length);

	c->base.unread = 0;
	update(c);
	return result != 0 ? result : c->h2.dead ? REA_ERR_IO : 0;
}

static void client_eof(struct http_client *client)
{
	h2_end(&of_client(client)->h2, HTTP_ERROR_NONE);
}

static void client_pause(struct http_client_stream *stream)
{
	of_base(stream)->h2.paused = true;
}

static int client_resume(struct http_client_stream *stream)
{
	struct client_stream *s = of_base(stream);
	struct h2_client *c = of_h2(s->h2.h2);
	int error;

	if (s->h2.over)
		return REA_ERR_IO;
	error = h2_stream_resume(&s->h2);
	update(c);
	return error;
}

static void client_cancel(struct http_client_stream *stream)
{
	struct client_stream *s = of_base(stream);

	h2_stream_cancel(&s->h2, NGHTTP2_CANCEL);
	update(of_h2(s->h2.h2));
}

/* Streams have their own backlogs: fill tells them. */
static void client_drained(struct http_client *client)
{
	(void)client;
}

static void client_fill(struct http_client *client)
{
	struct h2_client *c = of_client(client);

	client->output_waits = h2_fill(&c->h2);
	update(c);
}

static void client_ping(struct http_client *client)
{
	struct h2_client *c = of_client(client);

	if (!c->h2.dead)
		(void)nghttp2_submit_ping(c->h2.session, NGHTTP2_FLAG_NONE, NULL);
}

static void client_free(struct http_client *client)
{
	struct h2_client *c = of_client(client);
	const struct rea_alloc *alloc = rea_alloc_default();

	assert(!c->h2.inside);
	h2_fini(&c->h2);
	rea_buffer_fini(&c->base.out);
	alloc->free(c, alloc->user_data);
}

struct http_client *h2_client_new(const struct http_client_events *events, const struct http_limits *limits, void *owner)
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
	    .fill = client_fill,
	    .congested = client_congested,
	    .ping = client_ping,
	    .free = client_free,
	};
	static const struct h2_role role = {
	    .stream_size = sizeof(struct client_stream),
	    .keeps_received = true,
	    .head = head_received,
	    .body = body_received,
	    .body_end = body_ended,
	    .writable = writable,
	    .broken = broken,
	    .frame = on_frame,
	    .frame_starts = frame_starts,
	    .ended = ended,
	};
	const struct rea_alloc *alloc = rea_alloc_default();
	struct h2_client *c = alloc->realloc(NULL, sizeof(*c), alloc->user_data);

	if (c == NULL)
		return NULL;
	*c = (struct h2_client){.base = {.ops = &ops, .owner = owner, .multiplexed = true}, .events = events};
	if (h2_init(&c->h2, &role, limits, &c->base.out, false) == 0) {
		update(c);
		return &c->base;
	}
	client_free(&c->base);
	return NULL;
}
