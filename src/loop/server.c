/*
 * HTTP connections that were accepted: transport, timeouts and an orderly end around a session.
 *
 *   (HANDSHAKE ──▶) IDLE ──first byte──▶ HEAD ──whole head──▶ BUSY ──exchange over──▶ IDLE
 *    └───────any───────▶ LINGER (sent all, told the peer, waits for its end) ──▶ closed
 *
 * In IDLE the keep-alive timeout runs, in HEAD the head timeout from the head's first byte, in BUSY none: exchanges belong to whoever answers them.
 * With TLS a connection begins in HANDSHAKE, where the head timeout runs.
 *
 * Which HTTP is spoken TLS has agreed on (ALPN), or the first bytes tell: the preface of HTTP/2 is no request of HTTP/1, though "PR" may begin
 * one. Until they differ the bytes are only counted.
 */
#include "loop/stream.h"

#include "base/container.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 4096
/* How long a peer may take to read our last words, and to stop talking. */
#define LINGER_NS (2 * REA_NS_PER_S)
#define LINGER_NS_MAX (10 * REA_NS_PER_S)

enum phase { PHASE_HANDSHAKE, PHASE_IDLE, PHASE_HEAD, PHASE_BUSY, PHASE_LINGER };

struct loop_http_conn {
	struct stream stream; /* first: a stream is its connection */
	struct loop_http_listener *listener;
	struct http_server *session;
	bool chosen;      /* session speaks what the client speaks; else it is HTTP/1.1's */
	bool multiplexed; /* it is HTTP/2's */
	size_t preface;   /* bytes of H2_PREFACE that have come, while that is not chosen */
	struct loop_http_conn *prev, *next;
	struct wheel_timer timer;
	enum phase phase;
	uv_shutdown_t shutdown;
	uint64_t linger_end_ns;
	bool too_slow; /* it has had its time: no patience at the end either */
	char peer[LOOP_ADDRESS_MAX];
};

struct loop_http_listener {
	uv_tcp_t tcp;
	struct loop *loop;
	struct loop_http_options options;
	struct loop_http_conn *conns;
	size_t open;
	bool pending; /* a connection waits in the kernel until one closes */
	bool draining;
	bool closed;
	void (*done)(void *arg);
	void *done_arg;
	char address[LOOP_ADDRESS_MAX];
};

static void accept_pending(struct loop_http_listener *listener);

static struct loop_http_conn *conn_of(struct stream *stream)
{
	return (struct loop_http_conn *)stream;
}

static void listener_check_done(struct loop_http_listener *listener)
{
	if (!listener->closed || listener->open > 0)
		return;
	if (listener->done != NULL)
		listener->done(listener->done_arg);
	tls_context_unref(listener->options.tls);
	free(listener);
}

static void close_conn(struct loop_http_conn *conn, bool reset)
{
	loop_timer_stop(conn->stream.loop, &conn->timer);
	if (reset)
		stream_close_reset(&conn->stream);
	else
		stream_close(&conn->stream);
}

static void set_phase(struct loop_http_conn *conn, enum phase phase)
{
	const struct loop_http_options *options = &conn->listener->options;
	struct loop *loop = conn->stream.loop;
	uint64_t timeout = 0;

	if (conn->phase == phase)
		return;
	conn->phase = phase;
	switch (phase) {
	case PHASE_IDLE:
		timeout = options->idle_timeout_ns;
		break;
	case PHASE_HANDSHAKE:
	case PHASE_HEAD:
		timeout = options->head_timeout_ns;
		break;
	case PHASE_BUSY:
		loop_timer_stop(loop, &conn->timer);
		return;
	case PHASE_LINGER:
		timeout = LINGER_NS;
		break;
	}
	loop_timer_start(loop, &conn->timer, rea_time_add(loop_now(loop), timeout));
}

static void on_shutdown(uv_shutdown_t *request, int status)
{
	(void)request;
	(void)status;
}

/* Everything is said: end our direction, then wait for the peer's end, so that what it still sends does not reset our last words away. */
static void linger(struct loop_http_conn *conn)
{
	if (conn->phase == PHASE_LINGER || conn->stream.closing)
		return;
	set_phase(conn, PHASE_LINGER);
	conn->linger_end_ns = rea_time_add(loop_now(conn->stream.loop), conn->too_slow ? LINGER_NS : LINGER_NS_MAX);
	conn->shutdown.data = conn;
	if (stream_shutdown(&conn->stream, &conn->shutdown, on_shutdown) != 0 || stream_read_start(&conn->stream) != 0)
		close_conn(conn, false);
}

static void say_goodbye(struct loop_http_conn *conn)
{
	if (conn->session->want_reset)
		close_conn(conn, true);
	else
		linger(conn);
}

/* Bring the transport in line with what the session wants. */
static void settle(struct loop_http_conn *conn)
{
	struct http_server *session = conn->session;

	if (conn->stream.closing || conn->phase == PHASE_LINGER)
		return;
	/* The next of several pipelined requests waits inside for the end of the one before. */
	while (session->work_pending)
		http_server_receive(session, NULL, 0);
	if (conn->stream.closing)
		return;
	if (session->want_close && stream_pending(&conn->stream) == 0) {
		say_goodbye(conn);
		return;
	}
	stream_flush(&conn->stream);
	if (session->reading_paused)
		stream_read_stop(&conn->stream);
	else
		stream_read_start(&conn->stream);
	if (http_server_in_head(session) || (!conn->chosen && conn->preface > 0))
		set_phase(conn, PHASE_HEAD);
	else if (http_server_idle(session))
		set_phase(conn, PHASE_IDLE);
	else
		set_phase(conn, PHASE_BUSY);
}

/* A peer in the middle of sending may look for our answer only when it is through. */
static void linger_on(struct loop_http_conn *conn)
{
	struct loop *loop = conn->stream.loop;

	loop_timer_start(loop, &conn->timer, rea_time_min(conn->linger_end_ns, rea_time_add(loop_now(loop), LINGER_NS)));
}

static void feed(struct loop_http_conn *conn, const char *data, size_t length)
{
	conn->session->now_ns = loop_now(conn->stream.loop);
	/* What it refuses it answers, and then wants to be closed. */
	http_server_receive(conn->session, data, length);
}

/* Without memory for it the connection stays one of HTTP/1.1, which refuses the preface. */
static void choose_h2(struct loop_http_conn *conn)
{
	const struct loop_http_options *options = &conn->listener->options;
	struct http_server *session = h2_server_new(options->events, &options->limits, conn);

	if (session == NULL)
		return;
	http_server_free(conn->session);
	conn->session = session;
	conn->stream.out = &session->out;
	conn->multiplexed = true;
}

/* How many of these bytes belong to what may be a preface. */
static size_t take_preface(struct loop_http_conn *conn, const char *data, size_t length)
{
	size_t taken = 0;

	while (taken < length && conn->preface < H2_PREFACE_LENGTH && data[taken] == H2_PREFACE[conn->preface]) {
		taken++;
		conn->preface++;
	}
	if (taken == length && conn->preface < H2_PREFACE_LENGTH)
		return taken;
	conn->chosen = true;
	if (conn->preface == H2_PREFACE_LENGTH)
		choose_h2(conn);
	if (conn->preface > 0)
		feed(conn, H2_PREFACE, conn->preface);
	return taken;
}

static void on_read(struct stream *stream, const char *data, size_t length)
{
	struct loop_http_conn *conn = conn_of(stream);
	size_t taken;

	if (conn->phase == PHASE_LINGER) {
		linger_on(conn);
		return;
	}
	taken = conn->chosen ? 0 : take_preface(conn, data, length);
	if (taken < length)
		feed(conn, data + taken, length - taken);
	settle(conn);
}

/* An alert, or an answer that a browser can show, must arrive. */
static void refused(struct loop_http_conn *conn, int status)
{
	static const char plain[] = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: text/plain\r\n"
				    "content-length: 39\r\n\r\nThis port speaks TLS: ask with https.\r\n";
	const struct loop_http_options *options = &conn->listener->options;

	if (options->on_refused != NULL && !tls_session_untouched(conn->stream.tls))
		options->on_refused(conn->peer, stream_trouble(&conn->stream), options->user);
	if (status != UV_EPROTO) {
		close_conn(conn, false);
		return;
	}
	if (tls_session_asked_plainly(conn->stream.tls)) {
		/* Without memory for it there is no answer. */
		rea_buffer_append(tls_wire(conn->stream.tls), plain, sizeof(plain) - 1);
	}
	linger(conn);
}

static void on_end(struct stream *stream, int status)
{
	struct loop_http_conn *conn = conn_of(stream);

	if (stream->closing)
		return;
	if (conn->phase == PHASE_HANDSHAKE) {
		refused(conn, status);
		return;
	}
	if (conn->phase != PHASE_LINGER)
		http_server_eof(conn->session);
	if (stream->closing)
		return;
	if (status == UV_EOF && conn->phase != PHASE_LINGER && stream_pending(stream) > 0) {
		conn->session->want_close = true;
		stream_flush(stream);
	} else {
		close_conn(conn, false);
	}
}

static void on_sent(struct stream *stream)
{
	struct loop_http_conn *conn = conn_of(stream);

	if (conn->session->want_close)
		say_goodbye(conn);
}

static void on_drain(struct stream *stream)
{
	struct loop_http_conn *conn = conn_of(stream);

	http_server_drained(conn->session);
	settle(conn);
}

static void on_flush(struct stream *stream)
{
	struct loop_http_conn *conn = conn_of(stream);

	if (conn->phase == PHASE_LINGER || conn->phase == PHASE_HANDSHAKE)
		return;
	http_server_fill(conn->session);
	if (conn->session->output_waits)
		stream_congested(stream);
	else if (conn->session->want_close && stream_pending(stream) == 0)
		say_goodbye(conn);
}

static void on_closed(struct stream *stream)
{
	struct loop_http_conn *conn = conn_of(stream);
	struct loop_http_listener *listener = conn->listener;

	if (conn->prev != NULL)
		conn->prev->next = conn->next;
	else
		listener->conns = conn->next;
	if (conn->next != NULL)
		conn->next->prev = conn->prev;
	listener->open--;
	http_server_free(conn->session);
	free(conn);
	accept_pending(listener);
	listener_check_done(listener);
}

static void on_secure(struct stream *stream)
{
	struct loop_http_conn *conn = conn_of(stream);

	/* What it was to begin is over already. */
	if (conn->phase == PHASE_LINGER)
		return;
	set_phase(conn, PHASE_IDLE);
	if (!tls_session_h2(stream->tls))
		return;
	conn->chosen = true;
	choose_h2(conn);
	stream_flush(stream);
}

static const struct stream_events stream_events = {
    .on_read = on_read,
    .on_end = on_end,
    .on_sent = on_sent,
    .on_drain = on_drain,
    .on_closed = on_closed,
    .on_flush = on_flush,
    .on_secure = on_secure,
};

static void on_timeout(struct wheel_timer *timer, uint64_t now_ns)
{
	struct loop_http_conn *conn = REA_CONTAINER_OF(timer, struct loop_http_conn, timer);

	(void)now_ns;
	/* HTTP/2 says goodbye to who is idle, too. */
	if (conn->phase == PHASE_HEAD || (conn->multiplexed && conn->phase == PHASE_IDLE && !conn->too_slow)) {
		conn->too_slow = true;
		http_server_timeout(conn->session);
		settle(conn);
	} else {
		close_conn(conn, conn->phase == PHASE_LINGER);
	}
}

static void free_unborn(uv_handle_t *handle)
{
	struct loop_http_conn *conn = conn_of(handle->data);

	tls_session_free(conn->stream.tls);
	http_server_free(conn->session);
	free(conn);
}

static void accept_one(struct loop_http_listener *listener)
{
	struct loop_http_conn *conn = calloc(1, sizeof(*conn));
	struct sockaddr_storage peer;
	int length = sizeof(peer);

	/* Without memory the connection stays in the kernel's queue until one of ours closes. */
	listener->pending = true;
	if (conn == NULL)
		return;
	conn->session = h1_server_new(listener->options.events, &listener->options.limits, conn);
	if (listener->options.tls != NULL)
		conn->stream.tls = tls_session_server(listener->options.tls);
	if (conn->session == NULL || (listener->options.tls != NULL && conn->stream.tls == NULL) ||
	    stream_init(&conn->stream, listener->loop, &stream_events, &conn->session->out) != 0) {
		tls_session_free(conn->stream.tls);
		http_server_free(conn->session);
		free(conn);
		return;
	}
	listener->pending = false;
	if (uv_accept((uv_stream_t *)&listener->tcp, (uv_stream_t *)&conn->stream.tcp) != 0) {
		uv_close((uv_handle_t *)&conn->stream.tcp, free_unborn);
		return;
	}
	conn->listener = listener;
	conn->next = listener->conns;
	if (conn->next != NULL)
		conn->next->prev = conn;
	listener->conns = conn;
	listener->open++;
	uv_tcp_nodelay(&conn->stream.tcp, 1);
	if (uv_tcp_getpeername(&conn->stream.tcp, (struct sockaddr *)&peer, &length) == 0)
		loop_address_host((const struct sockaddr *)&peer, conn->peer, sizeof(conn->peer));
	conn->timer.fire = on_timeout;
	conn->phase = PHASE_BUSY;
	set_phase(conn, conn->stream.tls != NULL ? PHASE_HANDSHAKE : PHASE_IDLE);
	if (stream_read_start(&conn->stream) != 0)
		close_conn(conn, false);
}

/* An accept that is left out makes libuv stop listening to the socket until it is made up for: no spin, no refusal. */
static void on_connection(uv_stream_t *server, int status)
{
	struct loop_http_listener *listener = server->data;

	if (status != 0)
		return;
	if (listener->open >= listener->options.connections_max)
		listener->pending = true;
	else
		accept_one(listener);
}

static void accept_pending(struct loop_http_listener *listener)
{
	if (listener->pending && !listener->draining && listener->open < listener->options.connections_max)
		accept_one(listener);
}

static int bind_socket(const struct sockaddr_storage *address, bool reuse_port, int *ret_fd)
{
	socklen_t length = address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1, error;

	if (fd < 0)
		return uv_translate_sys_error(errno);
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
	    (reuse_port && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0) ||
	    bind(fd, (const struct sockaddr *)address, length) != 0) {
		error = uv_translate_sys_error(errno);
		close(fd);
		return error;
	}
	*ret_fd = fd;
	return 0;
}

static int refuse(struct rea_error_info *info, const char *address, int error)
{
	if (info != NULL) {
		memset(info, 0, sizeof(*info));
		snprintf(info->message, sizeof(info->message), "cannot listen on %s: %s", address, uv_strerror(error));
	}
	return REA_ERR_IO;
}

static void free_listener(uv_handle_t *handle)
{
	struct loop_http_listener *listener = handle->data;

	tls_context_unref(listener->options.tls);
	free(listener);
}

int loop_http_listen(struct loop *loop, const char *address, bool reuse_port, const struct loop_http_options *options,
    struct loop_http_listener **ret_listener, struct rea_error_info *ret_info)
{
	struct loop_http_listener *listener;
	struct sockaddr_storage bound;
	int length = sizeof(bound), fd = -1, error = loop_address_parse(address, &bound);

	if (error != 0 || (error = bind_socket(&bound, reuse_port, &fd)) != 0)
		return refuse(ret_info, address, error);
	listener = calloc(1, sizeof(*listener));
	if (listener == NULL || uv_tcp_init(&loop->uv, &listener->tcp) != 0) {
		free(listener);
		close(fd);
		return REA_ERR_NOMEM;
	}
	listener->tcp.data = listener;
	listener->loop = loop;
	listener->options = *options;
	tls_context_ref(options->tls);
	error = uv_tcp_open(&listener->tcp, fd);
	if (error != 0)
		close(fd);
	if (error == 0)
		error = uv_listen((uv_stream_t *)&listener->tcp, BACKLOG, on_connection);
	if (error != 0) {
		uv_close((uv_handle_t *)&listener->tcp, free_listener);
		return refuse(ret_info, address, error);
	}
	if (uv_tcp_getsockname(&listener->tcp, (struct sockaddr *)&bound, &length) == 0)
		loop_address_format((const struct sockaddr *)&bound, listener->address, sizeof(listener->address));
	*ret_listener = listener;
	return 0;
}

const char *loop_http_listener_address(const struct loop_http_listener *listener)
{
	return listener->address;
}

void loop_http_listener_configure(struct loop_http_listener *listener, const struct loop_http_options *options)
{
	struct tls_context *before = listener->options.tls;

	listener->options = *options;
	tls_context_ref(options->tls);
	tls_context_unref(before);
	accept_pending(listener);
}

size_t loop_http_listener_connections(const struct loop_http_listener *listener)
{
	return listener->open;
}

static void on_listener_closed(uv_handle_t *handle)
{
	struct loop_http_listener *listener = handle->data;

	listener->closed = true;
	listener_check_done(listener);
}

void loop_http_listener_drain(struct loop_http_listener *listener, void (*done)(void *arg), void *arg)
{
	listener->done = done;
	listener->done_arg = arg;
	if (listener->draining)
		return;
	listener->draining = true;
	uv_close((uv_handle_t *)&listener->tcp, on_listener_closed);
	for (struct loop_http_conn *conn = listener->conns; conn != NULL; conn = conn->next) {
		http_server_shutdown(conn->session);
		settle(conn);
	}
}

void loop_http_listener_kill(struct loop_http_listener *listener)
{
	for (struct loop_http_conn *conn = listener->conns; conn != NULL; conn = conn->next) {
		if (!conn->stream.closing && conn->phase != PHASE_LINGER)
			http_server_eof(conn->session);
		close_conn(conn, true);
	}
}

struct loop_http_conn *loop_http_conn_of(struct http_server_stream *stream)
{
	return http_server_owner(stream->session);
}

struct loop *loop_http_conn_loop(const struct loop_http_conn *conn)
{
	return conn->stream.loop;
}

void *loop_http_conn_user(const struct loop_http_conn *conn)
{
	return conn->listener->options.user;
}

const char *loop_http_conn_peer(const struct loop_http_conn *conn)
{
	return conn->peer;
}

void loop_http_conn_flush(struct loop_http_conn *conn)
{
	settle(conn);
}

bool loop_http_conn_congested(struct http_server_stream *stream)
{
	return stream->session->ops->congested != NULL ? stream->session->ops->congested(stream)
						       : stream_congested(&loop_http_conn_of(stream)->stream);
}

void loop_http_conn_reset(struct http_server_stream *stream)
{
	struct loop_http_conn *conn = loop_http_conn_of(stream);

	if (!conn->multiplexed) {
		close_conn(conn, true);
		return;
	}
	http_server_reset(stream);
	settle(conn);
}
