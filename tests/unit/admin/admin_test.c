/* The admin API on a socket: a loop in a thread, plain bytes in and out. */
#include "harness.h"

#include <stdlib.h>

static char reply[1 << 20];

static int connect_admin(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct timeval limit = {.tv_sec = 20};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_port = htons((uint16_t)atoi(strrchr(admin_address(admin), ':') + 1));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void say_bytes(int fd, const char *text, size_t length)
{
	while (length > 0) {
		ssize_t n = send(fd, text, length, MSG_NOSIGNAL);

		if (n <= 0)
			return; /* refused early: the answer tells */
		text += n;
		length -= (size_t)n;
	}
}

/* Everything up to the end of the connection. */
static const char *hear(int fd)
{
	size_t length = 0;
	ssize_t n;

	while ((n = recv(fd, reply + length, sizeof(reply) - 1 - length, 0)) > 0)
		length += (size_t)n;
	reply[length] = '\0';
	close(fd);
	return reply;
}

static const char *ask(const char *request)
{
	int fd = connect_admin();

	say_bytes(fd, request, strlen(request));
	return hear(fd);
}

static void assert_begins(const char *text, const char *beginning)
{
	assert_memory_equal(text, beginning, strlen(beginning));
}

static void assert_ends(const char *text, const char *end)
{
	assert_true(strlen(text) >= strlen(end));
	assert_string_equal(text + strlen(text) - strlen(end), end);
}

static void test_get(void **state)
{
	(void)state;
	ask("GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
	assert_begins(reply, "HTTP/1.1 200 OK\r\n");
	assert_non_null(strcasestr(reply, "\r\ncontent-type: text/plain; charset=utf-8\r\n"));
	assert_non_null(strcasestr(reply, "\r\ncontent-length: 2\r\n"));
	assert_non_null(strcasestr(reply, "\r\ncache-control: no-store\r\n"));
	assert_ends(reply, "\r\n\r\nok");
	ask("GET /v1/timelines/order-42?format=text HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
	assert_non_null(strstr(reply, "retry in 104 ms\n"));
}

static void test_head(void **state)
{
	(void)state;
	ask("HEAD /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
	assert_begins(reply, "HTTP/1.1 200 OK\r\n");
	assert_non_null(strcasestr(reply, "\r\ncontent-length: 2\r\n"));
	assert_ends(reply, "\r\n\r\n");
}

static void test_other_methods(void **state)
{
	(void)state;
	ask("DELETE /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
	assert_begins(reply, "HTTP/1.1 405 ");
	assert_non_null(strcasestr(reply, "\r\nallow: GET, HEAD\r\n"));
}

static void test_several_on_one_connection(void **state)
{
	(void)state;
	ask("POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
	    "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n"
	    "GET /version HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
	assert_begins(reply, "HTTP/1.1 405 ");
	assert_non_null(strstr(reply, "HTTP/1.1 404 "));
	assert_ends(reply, "{\"name\":\"rea\",\"version\":\"" REA_VERSION "\"}\n");
}

static void post(size_t body, bool chunked)
{
	char head[256], *bytes = calloc(1, body + 1);
	int fd = connect_admin();

	assert_non_null(bytes);
	memset(bytes, 'x', body);
	if (chunked)
		snprintf(head,
		    sizeof(head), "POST /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n%zx\r\n",
		    body);
	else
		snprintf(head, sizeof(head),
		    "POST /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n", body);
	say_bytes(fd, head, strlen(head));
	say_bytes(fd, bytes, body);
	if (chunked)
		say_bytes(fd, "\r\n0\r\n\r\n", 7);
	free(bytes);
	hear(fd);
}

/* A body is read to its end up to 1 MiB; a byte more is refused, announced or not. */
static void test_body_limit(void **state)
{
	(void)state;
	for (int chunked = 0; chunked < 2; chunked++) {
		post(1024 * 1024, chunked);
		assert_begins(reply, "HTTP/1.1 405 ");
		post(1024 * 1024 + 1, chunked);
		assert_begins(reply, "HTTP/1.1 413 ");
		assert_non_null(strstr(reply, "\"status\":413"));
	}
}

/* Clients that leave at any byte leave nothing behind (the leak checker looks), and the server answers the next. */
static void test_clients_that_leave(void **state)
{
	static const char request[] = "POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";

	(void)state;
	for (size_t i = 0; i <= sizeof(request) - 1; i++) {
		int fd = connect_admin();

		say_bytes(fd, request, i);
		close(fd);
	}
	ask("GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
	assert_begins(reply, "HTTP/1.1 200 OK\r\n");
}

static void test_handed_in_routes(void **state)
{
	(void)state;
	ask("POST /echo/a%2Fb/x/c HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: "
	    "8\r\n\r\n12345678");
	assert_begins(reply, "HTTP/1.1 201 Created\r\n");
	assert_non_null(strcasestr(reply, "\r\nlocation: /here\r\n"));
	assert_non_null(strcasestr(reply, "\r\nretry-after: 7\r\n"));
	assert_ends(reply, "\r\n\r\na%2Fb|c|12345678");
	ask("POST /echo/a/x/b HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 9\r\n\r\n123456789");
	assert_begins(reply, "HTTP/1.1 413 ");
	ask("POST /echo/a/x/b HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: "
	    "chunked\r\n\r\n9\r\n123456789\r\n0\r\n\r\n");
	assert_begins(reply, "HTTP/1.1 413 ");
	ask("POST /echo//x/b HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
	assert_begins(reply, "HTTP/1.1 404 ");
	ask("GET /echo/a/x/b HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
	assert_begins(reply, "HTTP/1.1 405 ");
	assert_non_null(strcasestr(reply, "\r\nallow: POST\r\n"));
	ask("GET /stream HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
	assert_non_null(strcasestr(reply, "\r\ntransfer-encoding: chunked\r\n"));
	assert_ends(reply, "\r\n\r\n4\r\none \r\n3\r\ntwo\r\n0\r\n\r\n");
	ask("HEAD /stream HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
	assert_begins(reply, "HTTP/1.1 200 ");
	assert_ends(reply, "\r\n\r\n");
}

static void test_answers_later(void **state)
{
	int fd = connect_admin(), gone = connect_admin();
	static const char later[] =
	    "POST /later HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
	static const char release[] =
	    "POST /release HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

	(void)state;
	/* One that leaves is told of; then one that stays is answered. */
	say_bytes(gone, later, sizeof(later) - 1);
	shutdown(gone, SHUT_WR);
	assert_string_equal(hear(gone), "");
	say_bytes(fd, later, sizeof(later) - 1);
	do
		assert_ends(ask(release), "released");
	while (recv(fd, reply, sizeof(reply), MSG_PEEK | MSG_DONTWAIT) < 0);
	assert_ends(hear(fd), "\r\n\r\nat last");
	assert_int_equal(aborted, 1);
}

static const char *change(const char *host, const char *origin)
{
	char request[512];

	snprintf(request, sizeof(request),
	    "POST /release HTTP/1.1\r\nHost: %s\r\n%s%s%sConnection: close\r\nContent-Length: 0\r\n\r\n", host,
	    origin ? "Origin: " : "", origin ? origin : "", origin ? "\r\n" : "");
	return ask(request);
}

static const char *read_as(const char *host, const char *path)
{
	char request[256];

	snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, host);
	return ask(request);
}

/* A page in a browser changes nothing, by whatever name it came here. */
static void test_browsers(void **state)
{
	static const char *const good[] = {
	    "127.0.0.1:7071", "[::1]:7071", "[::1]", "LOCALHOST:1", "rea.internal", "Rea.Internal:80", "10.0.0.1"};
	static const char *const bad[] = {"evil.example", "evil.example:7071", "rea.internal.evil.example",
	    "localhost.evil.example", "127.0.0.1.evil.example"};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_begins(change(good[i], NULL), "HTTP/1.1 200 ");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_begins(change(bad[i], NULL), "HTTP/1.1 403 ");
	assert_begins(change("127.0.0.1:7071", "http://127.0.0.1:7071"), "HTTP/1.1 200 ");
	assert_begins(change("127.0.0.1:7071", "http://127.0.0.1:7072"), "HTTP/1.1 403 ");
	assert_begins(change("127.0.0.1:7071", "https://127.0.0.1:7071"), "HTTP/1.1 403 ");
	assert_begins(change("127.0.0.1:7071", "null"), "HTTP/1.1 403 ");
	/* A second one counts like the first. */
	assert_begins(
	    change("127.0.0.1:7071", "http://127.0.0.1:7071\r\nOrigin: http://evil.example"), "HTTP/1.1 403 ");
	/* What the API tells is nobody else's either; how it is is anybody's. */
	assert_begins(read_as("localhost", "/v1/events"), "HTTP/1.1 200 ");
	assert_begins(read_as("rea.internal", "/v1/events"), "HTTP/1.1 200 ");
	assert_begins(read_as("evil.example", "/v1/events"), "HTTP/1.1 403 ");
	assert_begins(read_as("evil.example", "/v1/timelines/x"), "HTTP/1.1 403 ");
	assert_begins(read_as("any.example", "/healthz"), "HTTP/1.1 200 ");
	assert_begins(read_as("any.example", "/metrics"), "HTTP/1.1 200 ");
}

static void test_address_in_use(void **state)
{
	struct loop other;
	struct admin *second = NULL;
	struct rea_error_info info;

	(void)state;
	assert_int_equal(loop_init(&other, 1), 0);
	assert_int_equal(admin_new(&other, admin_address(admin), &no_sources, &second, &info), REA_ERR_IO);
	assert_null(second);
	assert_non_null(strstr(info.message, "address already in use"));
	loop_fini(&other);
	admin_close(NULL, NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_get),
	    cmocka_unit_test(test_head),
	    cmocka_unit_test(test_other_methods),
	    cmocka_unit_test(test_several_on_one_connection),
	    cmocka_unit_test(test_body_limit),
	    cmocka_unit_test(test_clients_that_leave),
	    cmocka_unit_test(test_handed_in_routes),
	    cmocka_unit_test(test_answers_later),
	    cmocka_unit_test(test_browsers),
	    cmocka_unit_test(test_address_in_use),
	};

	return cmocka_run_group_tests(tests, start_admin, stop_admin);
}
