#include "http/tunnel.h"

struct tunnel {
	struct http_client base; /* first */
	struct http_client_stream stream;
	const struct http_client_events *events;
	bool open;
};

static struct tunnel *tunnel_of(struct http_client *client)
{
	return (struct tunnel *)client;
}

static struct http_client_stream *begin(struct http_client *client, const struct http_request_head *head, void *user)
{
	struct tunnel *tunnel = tunnel_of(client);

	(void)head;
	tunnel->open = true;
	tunnel->stream = (struct http_client_stream){.session = client, .user = user, .first_byte = client->taken};
	return &tunnel->stream;
}

static int tunnel_write(struct http_client_stream *stream, const char *data, size_t length)
{
	return rea_buffer_append(&stream->session->out, data, length);
}

static int finish(struct http_client_stream *stream, const struct http_field *trailers, size_t trailers_len)
{
	(void)stream;
	(void)trailers;
	(void)trailers_len;
	return 0;
}

static int receive(struct http_client *client, const char *data, size_t length)
{
	struct tunnel *tunnel = tunnel_of(client);

	if (tunnel->open)
		tunnel->events->on_body(&tunnel->stream, data, length);
	return 0;
}

static void eof(struct http_client *client)
{
	struct tunnel *tunnel = tunnel_of(client);

	if (!tunnel->open)
		return;
	tunnel->open = false;
	tunnel->events->on_body_end(&tunnel->stream, NULL, 0);
}

static void tunnel_pause(struct http_client_stream *stream)
{
	stream->session->reading_paused = true;
}

static int resume(struct http_client_stream *stream)
{
	stream->session->reading_paused = false;
	return 0;
}

static void cancel(struct http_client_stream *stream)
{
	tunnel_of(stream->session)->open = false;
}

static void drained(struct http_client *client)
{
	struct tunnel *tunnel = tunnel_of(client);

	if (tunnel->open && tunnel->events->on_writable != NULL)
		tunnel->events->on_writable(&tunnel->stream);
}

static void tunnel_free(struct http_client *client)
{
	const struct rea_alloc *alloc = rea_alloc_default();

	rea_buffer_fini(&client->out);
	alloc->free(client, alloc->user_data);
}

static const struct http_client_ops ops = {
    .begin = begin,
    .write = tunnel_write,
    .finish = finish,
    .receive = receive,
    .eof = eof,
    .pause = tunnel_pause,
    .resume = resume,
    .cancel = cancel,
    .drained = drained,
    .free = tunnel_free,
};

struct http_client *tunnel_client_new(const struct http_client_events *events, const struct http_limits *limits, void *owner)
{
	const struct rea_alloc *alloc = rea_alloc_default();
	struct tunnel *tunnel = alloc->realloc(NULL, sizeof(*tunnel), alloc->user_data);

	(void)limits;
	if (tunnel == NULL)
		return NULL;
	*tunnel = (struct tunnel){.base = {.ops = &ops, .owner = owner}, .events = events};
	return &tunnel->base;
}
