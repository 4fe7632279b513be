/* A server in a thread of the test that answers request after request as its script says, and keeps what it saw. */
#ifndef REA_TESTS_CURL_SERVER_H
#define REA_TESTS_CURL_SERVER_H

#include <rea/balancer.h>

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	SERVER_STEPS_MAX = 4,
	SERVER_REQUESTS_MAX = 32,
	SERVER_CONNS_MAX = 32,
	SERVER_BYTES_MAX = 300000,
	SERVER_REQUEST_MAX = 8192
};

/* What follows the reply. */
enum server_then { KEEP = 0, CLOSE, RESET };

struct server_step {
	const char *reply; /* NULL = none */
	enum server_then then;
	size_t length;   /* of the reply; 0 = a text */
	bool early;      /* reply to the request's head, leave its body */
	const char *raw; /* reply to these bytes, whatever stands around them: for what is not HTTP/1.1 */
	size_t raw_length;
};

struct server_conn {
	int fd;
	bool continued; /* the request that is arriving was told to go on */
	size_t length;
	char bytes[SERVER_BYTES_MAX];
};

struct server {
	int fd;
	struct rea_instance_id id;
	struct server_step steps[SERVER_STEPS_MAX]; /* the last one repeats */
	size_t steps_len;                           /* 0 = connections are refused */
	int wake[2];
	pthread_t thread;
	struct server_conn *conns[SERVER_CONNS_MAX];
	/* To be read after server_stop, but for the counts. */
	atomic_uint requests;
	atomic_uint accepted;
	size_t conn_of[SERVER_REQUESTS_MAX]; /* which connection, in order of acceptance */
	size_t body_length[SERVER_REQUESTS_MAX];
	char request[SERVER_REQUESTS_MAX][SERVER_REQUEST_MAX]; /* head and body, cut */
};

#define OK_REPLY "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
#define EMPTY_REPLY(status, fields) "HTTP/1.1 " status " x\r\n" fields "Content-Length: 0\r\n\r\n"
#define BODY_REPLY(status, length, body) "HTTP/1.1 " status " x\r\nContent-Length: " length "\r\n\r\n" body

static inline void server_listen(struct server *server, bool listening)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	int error;

	server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	error = bind(server->fd, (struct sockaddr *)&address, length);
	assert(error == 0);
	error = getsockname(server->fd, (struct sockaddr *)&address, &length);
	assert(error == 0);
	server->id = (struct rea_instance_id){{[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}, ntohs(address.sin_port)};
	/* A port that is bound and not listened to refuses. */
	if (listening)
		error = listen(server->fd, 16);
	assert(error == 0);
}

/* A field of the head that ends at head_end, name with colon; NULL = it has none. Bodies are long and come in many pieces: they are not searched. */
static inline const char *server_head_field(const char *text, const char *head_end, const char *name)
{
	const char *line = text;

	while ((line = memchr(line, '\n', (size_t)(head_end - line))) != NULL)
		if (strncasecmp(++line, name, strlen(name)) == 0)
			return line + strlen(name);
	return NULL;
}

/* Length of the first request in the connection's bytes, 0 = not whole yet. */
static inline size_t server_request_length(const struct server_conn *conn, bool head_only)
{
	const char *text = conn->bytes, *head_end = strstr(text, "\r\n\r\n"), *field;
	size_t head = head_end != NULL ? (size_t)(head_end - text) + 4 : 0;

	if (head_end == NULL || head_only)
		return head;
	if (server_head_field(text, head_end, "Transfer-Encoding: chunked") != NULL) {
		const char *end = strstr(head_end, "\r\n0\r\n\r\n");

		return end != NULL ? (size_t)(end - text) + 7 : 0;
	}
	field = server_head_field(text, head_end, "Content-Length:");
	if (field == NULL)
		return head;
	head += strtoul(field, NULL, 10);
	return conn->length >= head ? head : 0;
}

static inline void server_close(struct server *server, size_t conn, bool reset)
{
	struct linger hard = {1, 0};

	if (reset)
		setsockopt(server->conns[conn]->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	close(server->conns[conn]->fd);
	free(server->conns[conn]);
	server->conns[conn] = NULL;
}

static inline const struct server_step *server_step(const struct server *server)
{
	unsigned n = atomic_load(&server->requests);

	return &server->steps[n < server->steps_len ? n : server->steps_len - 1];
}

/* Returns whether the connection is still there. */
static inline bool server_answer(struct server *server, size_t conn, size_t length)
{
	const struct server_step *step = server_step(server);
	struct server_conn *from = server->conns[conn];
	unsigned n = atomic_load(&server->requests);
	size_t reply_length = step->reply == NULL ? 0 : step->length > 0 ? step->length : strlen(step->reply), sent = 0;
	const char *body = strstr(from->bytes, "\r\n\r\n");

	assert(n < SERVER_REQUESTS_MAX);
	server->conn_of[n] = conn;
	server->body_length[n] = body != NULL ? length - (size_t)(body + 4 - from->bytes) : 0;
	memcpy(server->request[n], from->bytes, length < SERVER_REQUEST_MAX ? length : SERVER_REQUEST_MAX - 1);
	memmove(from->bytes, from->bytes + length, from->length - length + 1);
	from->length -= length;
	from->continued = false;
	atomic_store(&server->requests, n + 1);
	while (sent < reply_length) {
		ssize_t put = send(from->fd, step->reply + sent, reply_length - sent, MSG_NOSIGNAL);

		if (put <= 0)
			break;
		sent += (size_t)put;
	}
	if (step->then != KEEP)
		server_close(server, conn, step->then == RESET);
	return step->then == KEEP;
}

/* A client that asks before it sends the body may. */
static inline void server_continue(struct server_conn *conn)
{
	static const char reply[] = "HTTP/1.1 100 Continue\r\n\r\n";

	const char *head_end = conn->continued ? NULL : strstr(conn->bytes, "\r\n\r\n");

	if (head_end == NULL || server_head_field(conn->bytes, head_end, "Expect: 100-continue\r\n") == NULL)
		return;
	conn->continued = send(conn->fd, reply, sizeof(reply) - 1, MSG_NOSIGNAL) > 0;
}

static inline void server_read(struct server *server, size_t conn)
{
	struct server_conn *from = server->conns[conn];
	ssize_t got = recv(from->fd, from->bytes + from->length, SERVER_BYTES_MAX - 1 - from->length, 0);
	const struct server_step *step;
	size_t length;

	if (got <= 0) {
		server_close(server, conn, false);
		return;
	}
	from->length += (size_t)got;
	from->bytes[from->length] = '\0';
	step = server_step(server);
	if (step->raw != NULL) {
		if (memmem(from->bytes, from->length, step->raw, step->raw_length) != NULL)
			server_answer(server, conn, from->length);
		return;
	}
	if (!step->early)
		server_continue(from);
	while (server->conns[conn] != NULL && (length = server_request_length(from, server_step(server)->early)) > 0)
		if (!server_answer(server, conn, length))
			return;
}

static inline void *server_run(void *user_data)
{
	struct server *server = user_data;

	for (;;) {
		struct pollfd fds[SERVER_CONNS_MAX + 2] = {{server->wake[0], POLLIN, 0}, {server->fd, POLLIN, 0}};
		size_t accepted = atomic_load(&server->accepted);

		for (size_t i = 0; i < accepted; i++)
			fds[i + 2] = (struct pollfd){server->conns[i] != NULL ? server->conns[i]->fd : -1, POLLIN, 0};
		poll(fds, accepted + 2, -1);
		if (fds[0].revents != 0)
			break;
		for (size_t i = 0; i < accepted; i++)
			if (server->conns[i] != NULL && fds[i + 2].revents != 0)
				server_read(server, i);
		if (fds[1].revents != 0) {
			assert(accepted < SERVER_CONNS_MAX);
			server->conns[accepted] = calloc(1, sizeof(**server->conns));
			server->conns[accepted]->fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC);
			atomic_store(&server->accepted, (unsigned)accepted + 1);
		}
	}
	for (size_t i = 0; i < SERVER_CONNS_MAX; i++)
		if (server->conns[i] != NULL)
			server_close(server, i, false);
	return NULL;
}

/* steps: copied; none = connections are refused. */
static inline void server_start(struct server *server, const struct server_step *steps, size_t steps_len)
{
	int error;

	memset(server, 0, sizeof(*server));
	assert(steps_len <= SERVER_STEPS_MAX);
	for (size_t i = 0; i < steps_len; i++)
		server->steps[i] = steps[i];
	server->steps_len = steps_len;
	server_listen(server, steps_len > 0);
	if (steps_len == 0)
		return;
	error = pipe(server->wake);
	assert(error == 0);
	error = pthread_create(&server->thread, NULL, server_run, server);
	assert(error == 0);
}

static inline void server_stop(struct server *server)
{
	if (server->fd == 0)
		return;
	if (server->steps_len > 0) {
		ssize_t put = write(server->wake[1], "x", 1);

		assert(put == 1);
		pthread_join(server->thread, NULL);
		close(server->wake[0]);
		close(server->wake[1]);
	}
	close(server->fd);
	server->fd = 0;
}

/* The value of a field of a request, in a buffer that the next call uses again; NULL = it is not there. */
static inline const char *server_field(const struct server *server, size_t request, const char *name)
{
	static char value[512];
	char line[64];
	const char *at, *end;

	snprintf(line, sizeof(line), "\r\n%s: ", name);
	at = strcasestr(server->request[request], line);
	if (at == NULL)
		return NULL;
	at += strlen(line);
	end = strstr(at, "\r\n");
	snprintf(value, sizeof(value), "%.*s", (int)(end - at), at);
	return value;
}

static inline const char *server_body(const struct server *server, size_t request)
{
	return strstr(server->request[request], "\r\n\r\n") + 4;
}

#endif
