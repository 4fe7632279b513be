/* HTTP connections that were made: transport around a client session. Timeouts belong to whoever made it. */
#include "loop/stream.h"

#include "base/container.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

/* More often without need is taken for an attack by servers of gRPC: they allow one ping in 5 minutes. */
#define SILENCE_NS (310 * REA_NS_PER_S)
#define ANSWER_NS (5 * REA_NS_PER_S)

struct loop_http_client {
	struct stream stream; /* first: a stream is its client */
	struct http_client *session;
	struct loop_http_client_options options;
	uv_connect_t connect;
	struct wheel_timer life; /* HTTP/2: when the peer has been silent for too long */
	uint64_t read_ns;        /* when it last said something */
	bool doubted;            /* it was asked, and says nothing */
	int status;              /* why the transport ended, 0 = it has not */
	bool ended;              /* it has, but the session still holds bytes that a paused stream has not taken */
	bool connected;
	bool silent; /* closed by its owner: no more callbacks */
};

static struct loop_http_client *client_of(struct stream *stream)
{
	return (struct loop_http_client *)stream;
}

static void close_client(struct loop_http_client *client)
{
	client->silent = true;
	loop_timer_stop(client->stream.loop, &client->life);
	stream_close(&client->stream);
}

static void report_close(struct loop_http_client *client, int status)
{
	if (!client->silent) {
		client->silent = true;
		client->options.on_close(client, status);
	}
	close_client(client);
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
	client->read_ns = loop_now(stream->loop);
	client->doubted = false;
	if (http_client_receive(client->session, data, length) < 0) {
		client->status = UV_EPROTO;
		client->ended = true;
	}
	settle(client);
}

static void connected(struct loop_http_client *client, int status)
{
	struct loop *loop = client->stream.loop;

	if (client->silent)
		return;
	client->connected = status == 0;
	client->read_ns = loop_now(loop);
	if (status == 0 && client->session->ops->ping != NULL)
		loop_timer_start(loop, &client->life, rea_time_add(client->read_ns, SILENCE_NS));
	client->options.on_connect(client, status);
	if (status != 0)
		close_client(client);
}

static void on_secure(struct stream *stream)
{
	connected(client_of(stream), 0);
}

static void on_end(struct stream *stream, int status)
{
	struct loop_http_client *client = client_of(stream);

	client->status = status;
	client->ended = true;
	if (!client->connected) {
		connected(client, status);
		return;
	}
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

	if (client->silent)
		return;
	http_client_drained(client->session);
	settle(client);
}

static void on_flush(struct stream *stream)
{
	struct loop_http_client *client = client_of(stream);

	if (client->silent || !client->connected)
		return;
	client->session->taken = stream->sent;
	http_client_fill(client->session);
	if (client->session->output_waits)
		stream_congested(stream);
}

static void on_closed(struct stream *stream)
{
	struct loop_http_client *client = client_of(stream);

	http_client_free(client->session);
	free(client);
}

static const struct stream_events stream_events = {on_read, on_end, on_sent, on_drain, on_closed, on_flush, on_secure};

/* ---- signs of life ---- */

static void ask(struct loop_http_client *client)
{
	struct loop *loop = client->stream.loop;

	client->doubted = true;
	client->session->ops->ping(client->session);
	loop_timer_start(loop, &client->life, rea_time_add(loop_now(loop), ANSWER_NS));
	settle(client);
}

static void on_life(struct wheel_timer *timer, uint64_t now_ns)
{
	struct loop_http_client *client = REA_CONTAINER_OF(timer, struct loop_http_client, life);

	if (client->doubted)
		on_end(&client->stream, UV_ETIMEDOUT);
	else if (rea_time_sub(now_ns, client->read_ns) >= SILENCE_NS)
		ask(client);
	else
		loop_timer_start(client->stream.loop, timer, rea_time_add(client->read_ns, SILENCE_NS));
}

void loop_http_client_doubt(struct loop_http_client *client, uint64_t since_ns)
{
	if (client->session->ops->ping != NULL && !client->doubted && !client->ended && client->read_ns <= since_ns)
		ask(client);
}

bool loop_http_client_doubted(const struct loop_http_client *client)
{
	return client->doubted;
}

static void on_connect(uv_connect_t *request, int status)
{
	struct loop_http_client *client = request->data;
	struct loop *loop = client->stream.loop;

	if (status == 0 && !client->silent)
		status = stream_read_start(&client->stream);
	if (status == 0 && client->stream.tls != NULL && !client->silent)
		stream_handshake(&client->stream);
	else
		connected(client, status);
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
	client->life.fire = on_life;
	client->session = options->make(options->events, &client->options.limits, client);
	if (options->tls != NULL)
		client->stream.tls = tls_session_client(options->tls, options->tls_name, options->tls_h2, options->tickets);
	if (client->session == NULL || (options->tls != NULL && client->stream.tls == NULL))
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
	tls_session_free(client->stream.tls);
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

bool loop_http_client_congested(struct http_client_stream *stream)
{
	struct loop_http_client *client = http_client_owner(stream->session);

	return stream->session->ops->congested != NULL ? stream->session->ops->congested(stream)
						       : stream_congested(&client->stream);
}

int loop_http_client_status(const struct loop_http_client *client)
{
	return client->status;
}

const char *loop_http_client_trouble(const struct loop_http_client *client)
{
	return stream_trouble(&client->stream);
}

struct http_client_stream *loop_http_client_begin(
    struct loop_http_client *client, const struct http_request_head *head, void *user)
{
	client->session->taken = client->stream.sent;
	return http_client_begin(client->session, head, user);
}

bool loop_http_client_unsent(const struct http_client_stream *stream)
{
	const struct loop_http_client *client = http_client_owner(stream->session);

	return client->stream.sent <= stream->first_byte;
}

bool loop_http_client_alive(const struct loop_http_client *client)
{
	uv_os_fd_t fd;
	char byte;
	ssize_t got;

	if (uv_fileno((const uv_handle_t *)&client->stream.tcp, &fd) != 0)
		return false;
	got = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	/* Between exchanges HTTP/1 has nothing to say. */
	return got > 0 ? client->session->multiplexed : got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

void loop_http_client_close(struct loop_http_client *client)
{
	close_client(client);
}
