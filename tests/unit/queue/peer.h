/*
 * Targets on the loop of the test: each answers request after request as its script says, and keeps what it saw. And names: what getaddrinfo answers is
 * the test's to say, and no connection leaves this machine.
 */
#ifndef REA_TESTS_QUEUE_PEER_H
#define REA_TESTS_QUEUE_PEER_H

#include "loop/loop.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PEER_STEPS_MAX = 4, PEER_REQUESTS_MAX = 64, PEER_REQUEST_MAX = 4096 };

/* What follows the reply. */
enum peer_then {
	PEER_KEEP = 0,
	PEER_CLOSE,
	PEER_RESET,
	PEER_SILENT, /* nothing more, ever */
	PEER_DRIP,   /* the filler, a byte each 5 ms */
	PEER_FLOOD   /* the filler, for as long as it is taken */
};

struct peer_step {
	const char *reply; /* NULL = none */
	enum peer_then then;
	const char *filler;
	size_t length; /* of the reply; 0 = a text */
};

struct peer {
	uv_tcp_t listener;
	uint16_t port;
	struct peer_step steps[PEER_STEPS_MAX]; /* the last one repeats */
	size_t steps_len;
	unsigned accepted;
	unsigned open;
	unsigned requests;
	uint64_t flooded; /* bytes that were taken */
	bool early;       /* replies to the head of a request, and looks at nothing more */
	size_t body_length[PEER_REQUESTS_MAX];
	char request[PEER_REQUESTS_MAX][PEER_REQUEST_MAX]; /* head and body, cut */
};

struct peer_conn {
	uv_tcp_t tcp;
	uv_timer_t timer;
	uv_write_t write;
	struct peer *peer;
	struct peer_step step;
	unsigned closing; /* handles that are still open once it closes */
	bool deaf;
	size_t length;
	char *bytes;
	char flood[65536];
};

static inline void peer_on_conn_closed(uv_handle_t *handle)
{
	struct peer_conn *conn = handle->data;

	if (--conn->closing > 0)
		return;
	free(conn->bytes);
	free(conn);
}

static inline void peer_conn_close(struct peer_conn *conn, bool reset)
{
	if (conn->closing > 0)
		return;
	conn->closing = 2;
	conn->peer->open--;
	uv_close((uv_handle_t *)&conn->timer, peer_on_conn_closed);
	if (!reset || uv_tcp_close_reset(&conn->tcp, peer_on_conn_closed) != 0)
		uv_close((uv_handle_t *)&conn->tcp, peer_on_conn_closed);
}

static inline void peer_send(struct peer_conn *conn, const char *data, size_t length)
{
	uv_buf_t buf = uv_buf_init((char *)(uintptr_t)data, (unsigned)length);

	/* Replies are smaller than a socket's buffer. */
	assert(length == 0 || uv_try_write((uv_stream_t *)&conn->tcp, &buf, 1) == (int)length);
}

static inline void peer_on_drip(uv_timer_t *timer)
{
	struct peer_conn *conn = timer->data;
	uv_buf_t buf = uv_buf_init((char *)(uintptr_t)conn->step.filler, 1);

	if (uv_try_write((uv_stream_t *)&conn->tcp, &buf, 1) != 1)
		peer_conn_close(conn, false);
	conn->step.filler = conn->step.filler[1] != '\0' ? conn->step.filler + 1 : conn->step.filler;
}

static inline void peer_flood(struct peer_conn *conn);

static inline void peer_on_flooded(uv_write_t *write, int status)
{
	struct peer_conn *conn = write->data;

	if (conn->closing > 0)
		return;
	if (status != 0) {
		peer_conn_close(conn, false);
		return;
	}
	conn->peer->flooded += sizeof(conn->flood);
	peer_flood(conn);
}

static inline void peer_flood(struct peer_conn *conn)
{
	uv_buf_t buf = uv_buf_init(conn->flood, sizeof(conn->flood));

	conn->write.data = conn;
	if (uv_write(&conn->write, (uv_stream_t *)&conn->tcp, &buf, 1, peer_on_flooded) != 0)
		peer_conn_close(conn, false);
}

static inline void peer_answer(struct peer_conn *conn)
{
	struct peer *peer = conn->peer;
	size_t at = peer->requests < peer->steps_len ? peer->requests : peer->steps_len - 1, filler;

	conn->step = peer->steps[at];
	peer->requests++;
	if (conn->step.reply != NULL)
		peer_send(conn, conn->step.reply, conn->step.length > 0 ? conn->step.length : strlen(conn->step.reply));
	switch (conn->step.then) {
	case PEER_KEEP:
	case PEER_SILENT:
		break;
	case PEER_CLOSE:
	case PEER_RESET:
		peer_conn_close(conn, conn->step.then == PEER_RESET);
		break;
	case PEER_DRIP:
		uv_timer_start(&conn->timer, peer_on_drip, 0, 5);
		break;
	case PEER_FLOOD:
		filler = strlen(conn->step.filler);
		for (size_t i = 0; i < sizeof(conn->flood); i++)
			conn->flood[i] = conn->step.filler[i % filler];
		peer_flood(conn);
		break;
	}
}

static inline void peer_take_request(struct peer_conn *conn)
{
	const char *head_end = strstr(conn->bytes, "\r\n\r\n"), *field;
	size_t head, body = 0;
	struct peer *peer = conn->peer;

	if (head_end == NULL)
		return;
	field = strcasestr(conn->bytes, "\r\ncontent-length:");
	if (field != NULL && field < head_end)
		body = strtoul(field + 17, NULL, 10);
	head = (size_t)(head_end - conn->bytes) + 4;
	if (peer->early)
		conn->deaf = true;
	else if (conn->length < head + body)
		return;
	assert(peer->requests < PEER_REQUESTS_MAX);
	snprintf(peer->request[peer->requests], PEER_REQUEST_MAX, "%s", conn->bytes);
	peer->body_length[peer->requests] = body;
	if (!conn->deaf) {
		conn->length -= head + body;
		memmove(conn->bytes, conn->bytes + head + body, conn->length + 1);
	}
	peer_answer(conn);
}

static inline void peer_on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	(void)handle;
	*buf = uv_buf_init(malloc(suggested), (unsigned)suggested);
}

static inline void peer_on_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf)
{
	struct peer_conn *conn = stream->data;

	if (nread > 0 && conn->closing == 0 && !conn->deaf) {
		conn->bytes = realloc(conn->bytes, conn->length + (size_t)nread + 1);
		memcpy(conn->bytes + conn->length, buf->base, (size_t)nread);
		conn->length += (size_t)nread;
		conn->bytes[conn->length] = '\0';
		peer_take_request(conn);
	} else if (nread < 0) {
		peer_conn_close(conn, false);
	}
	free(buf->base);
}

static inline void peer_on_connection(uv_stream_t *stream, int status)
{
	struct peer *peer = stream->data;
	struct peer_conn *conn = calloc(1, sizeof(*conn));

	assert(status == 0);
	conn->peer = peer;
	uv_tcp_init(stream->loop, &conn->tcp);
	uv_timer_init(stream->loop, &conn->timer);
	conn->tcp.data = conn->timer.data = conn;
	status = uv_accept(stream, (uv_stream_t *)&conn->tcp);
	assert(status == 0);
	peer->accepted++;
	peer->open++;
	uv_read_start((uv_stream_t *)&conn->tcp, peer_on_alloc, peer_on_read);
}

/* steps_len 0: nobody listens there. */
static inline void peer_start(struct peer *peer, struct loop *loop, const struct peer_step *steps, size_t steps_len)
{
	struct sockaddr_in address;
	int length = sizeof(address), error;

	memset(peer, 0, sizeof(*peer));
	if (steps_len > 0)
		memcpy(peer->steps, steps, steps_len * sizeof(*steps));
	peer->steps_len = steps_len;
	peer->listener.data = peer;
	uv_ip4_addr("127.0.0.1", 0, &address);
	uv_tcp_init(&loop->uv, &peer->listener);
	error = uv_tcp_bind(&peer->listener, (struct sockaddr *)&address, 0);
	assert(error == 0);
	if (steps_len > 0)
		error = uv_listen((uv_stream_t *)&peer->listener, 64, peer_on_connection);
	assert(error == 0);
	uv_tcp_getsockname(&peer->listener, (struct sockaddr *)&address, &length);
	peer->port = ntohs(address.sin_port);
}

static inline void peer_stop(struct peer *peer)
{
	uv_close((uv_handle_t *)&peer->listener, NULL);
}

/* A field's value as the n-th request had it; NULL = it had none. */
static inline const char *peer_field(struct peer *peer, size_t n, const char *name)
{
	static char value[512];
	char search[80];
	const char *at;

	snprintf(search, sizeof(search), "\r\n%s:", name);
	at = strcasestr(peer->request[n], search);
	if (at == NULL || at > strstr(peer->request[n], "\r\n\r\n"))
		return NULL;
	at += strlen(search);
	at += strspn(at, " ");
	snprintf(value, sizeof(value), "%.*s", (int)strcspn(at, "\r"), at);
	return value;
}

/* Until condition holds. */
#define peer_run_until(loop, condition)                   \
	do {                                              \
		while (!(condition))                      \
			uv_run(&(loop)->uv, UV_RUN_ONCE); \
	} while (0)

/* ---- names ---- */

/* What the next lookups answer, one after the other, the last one again and again; NULL = there is no such name. */
extern const char *const *names_answers;
extern atomic_uint names_asked;
/* While set, lookups do not return. */
extern atomic_bool names_hang;
/* Connections to other machines that were tried; each is refused. */
extern atomic_uint connects_outside;
extern char connects_last[LOOP_ADDRESS_MAX];

#endif
