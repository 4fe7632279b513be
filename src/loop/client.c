/* HTTP connections that were made: transport around a client session. Timeouts belong to whoever made it. */
#include "loop/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

struct loop_http_client {
	struct stream stream; /* first: a stream is its client */
	struct http_client *session;
	struct loop_http_client_options options;
	uv_connect_t connect;
	uint64_t mark; /* stream.sent when the exchange began */
	int status;    /* why the transport ended, 0 = it has not */
	bool ended;    /* it has, but the session still holds bytes that a paused stream has not taken */
	bool connected;
	bool silent; /* closed by its owner: no more callbacks */
};

static struct loop_http_client *client_of(struct stream *stream)
{
	return (struct loop_http_client *)stream;
}

static void report_close(struct loop_http_client *client, int status)
{
	if (!client->silent) {
		client->silent = true;
		client->options.on_close(client, status);
	}
	stream_close(&client->stream);
}

/* Bring the transport in line with what the session wants. */
static void settle(struct loop_http_client *client)
{
	if (client->silent || !client->connected)
		return;
	if (client->ended && !client->session->reading_paused) {
		report_close(client, client->status);
		return;
	}
	if (client->session->reading_paused || client->ended)
		stream_read_stop(&client->stream);
	else
		stream_read_start(&client->stream);
	stream_flush(&client->stream);
}

static void on_read(struct stream *stream, const char *data, size_t length)
{
	struct loop_http_client *client = client_of(stream);

	if (client->silent)
		return;
	if (http_client_receive(client->session, data, length) < 0)
		report_close(client, UV_EPROTO);
	else
		settle(client);
}

static void on_end(struct stream *stream, int status)
{
	struct loop_http_client *client = client_of(stream);

	client->status = status;
	client->ended = true;
	/* A reply that only the connection's end would end is whole only if that end was an orderly one. */
	client->session->broken = status != UV_EOF;
	if (!client->silent)
		http_client_eof(client->session);
	if (client->silent || !client->session->reading_paused)
		report_close(client, status);
}

static void on_sent(struct stream *stream)
{
	(void)stream;
}

static void on_drain(struct stream *stream)
{
	struct loop_http_client *client = client_of(stream);

	if (!client->silent && client->options.on_drain != NULL)
		client->options.on_drain(client);
}

static void on_closed(struct stream *stream)
{
	struct loop_http_client *client = client_of(stream);

	http_client_free(client->session);
	free(client);
}

static const struct stream_events stream_events = {on_read, on_end, on_sent, on_drain, on_closed};

static void on_connect(uv_connect_t *request, int status)
{
	struct loop_http_client *client = request->data;
	struct loop *loop = client->stream.loop;

	if (!client->silent) {
		if (status == 0)
			status = stream_read_start(&client->stream);
		client->connected = status == 0;
		client->options.on_connect(client, status);
		if (status != 0) {
			client->silent = true;
			stream_close(&client->stream);
		}
	}
	loop_flush(loop);
}

int loop_http_connect(struct loop *loop, const struct sockaddr *address, const struct loop_http_client_options *options,
    struct loop_http_client **ret_client)
{
	struct loop_http_client *client = calloc(1, sizeof(*client));
	int error = UV_ENOMEM;

	if (client == NULL)
		return UV_ENOMEM;
	client->options = *options;
	client->session = options->make(options->events, &client->options.limits, client);
	if (client->session == NULL)
		goto fail;
	error = stream_init(&client->stream, loop, &stream_events, &client->session->out);
	if (error != 0)
		goto fail;
	client->connect.data = client;
	error = uv_tcp_connect(&client->connect, &client->stream.tcp, address, on_connect);
	if (error != 0) {
		client->silent = true;
		stream_close(&client->stream);
		return error;
	}
	uv_tcp_nodelay(&client->stream.tcp, 1);
	*ret_client = client;
	return 0;
fail:
	http_client_free(client->session);
	free(client);
	return error;
}

struct http_client *loop_http_client_session(struct loop_http_client *client)
{
	return client->session;
}

void *loop_http_client_user(const struct loop_http_client *client)
{
	return client->options.user;
}

void loop_http_client_set_user(struct loop_http_client *client, void *user)
{
	client->options.user = user;
}

void loop_http_client_flush(struct loop_http_client *client)
{
	settle(client);
}

bool loop_http_client_congested(const struct loop_http_client *client)
{
	/* Remembering that it was asked is no change that a caller can see. */
	return stream_congested((struct stream *)(uintptr_t)&client->stream);
}

int loop_http_client_status(const struct loop_http_client *client)
{
	return client->status;
}

uint64_t loop_http_client_sent(const struct loop_http_client *client)
{
	return client->stream.sent - client->mark;
}

void loop_http_client_mark(struct loop_http_client *client)
{
	client->mark = client->stream.sent;
}

bool loop_http_client_alive(const struct loop_http_client *client)
{
	uv_os_fd_t fd;
	char byte;

	if (uv_fileno((const uv_handle_t *)&client->stream.tcp, &fd) != 0)
		return false;
	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

void loop_http_client_close(struct loop_http_client *client)
{
	client->silent = true;
	stream_close(&client->stream);
}
