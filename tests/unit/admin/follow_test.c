/* Server-sent events on a socket: what follows, what was missed, who reads too slowly. The ring and whoever follows it live on the loop's thread. */
#include "harness.h"

#include "admin/follow.h"

#include <poll.h>
#include <stdlib.h>

#define FIRST 1000u

static struct follow *follow;
static struct admin_routes table;
static struct rea_event_ring *events;
static struct follow_options options;
static uint64_t next_id;
static size_t ring_size = 8;
static char metrics[4096];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ran = PTHREAD_COND_INITIALIZER;

/* ---- on the loop's thread ---- */

struct errand {
	struct loop_post post;
	void (*run)(unsigned n);
	unsigned n;
	bool done;
};

static void run_errand(struct loop_post *post)
{
	struct errand *errand = (struct errand *)(void *)post;

	errand->run(errand->n);
	pthread_mutex_lock(&mutex);
	errand->done = true;
	pthread_cond_signal(&ran);
	pthread_mutex_unlock(&mutex);
}

static void on_loop(void (*run_there)(unsigned n), unsigned n)
{
	struct errand errand = {.post = {.fn = run_errand}, .run = run_there, .n = n};

	loop_post(&loop, &errand.post);
	pthread_mutex_lock(&mutex);
	while (!errand.done)
		pthread_cond_wait(&ran, &mutex);
	pthread_mutex_unlock(&mutex);
}

/* n events: every third one is a GiveUp, every second one of order-42, the others of order-43. */
static void happen(unsigned n)
{
	while (n-- > 0) {
		struct rea_event event = sample_event();

		event.id = next_id++;
		event.type = event.id % 3 == 0 ? REA_EVENT_GIVE_UP : REA_EVENT_RETRY;
		if (event.id % 2 == 1)
			event.biz_id = text_of("order-43");
		rea_event_ring_add(events, &event);
		follow_events(follow);
	}
}

static void end_all(unsigned n)
{
	(void)n;
	follow_end(follow);
	loop_flush(&loop);
}

static bool take_metrics(const char *text, size_t length, void *user_data)
{
	(void)user_data;
	strncat(metrics, text, length);
	return true;
}

static void read_metrics(unsigned n)
{
	struct rea_prometheus out = {.write = take_metrics};

	(void)n;
	metrics[0] = '\0';
	follow_metrics(follow, &out);
}

static bool metric_is(const char *sample)
{
	on_loop(read_metrics, 0);
	return strstr(metrics, sample) != NULL;
}

static void wait_for_metric(const char *sample)
{
	for (int left = 10000; !metric_is(sample); left--) {
		if (left == 0)
			fail_msg("never %s: %s", sample, metrics);
		poll(NULL, 0, 1);
	}
}

/* ---- the client ---- */

struct client {
	int fd;
	size_t length;
	char text[32 << 20]; /* what came, without the chunks' heads */
	size_t raw_length;
	size_t chunk; /* where the next chunk begins in raw; 0 = the head is not whole yet */
	char raw[32 << 20];
};

static struct client client;

static int connect_small(int receive_bytes)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (receive_bytes > 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
	address.sin_port = htons((uint16_t)atoi(strrchr(admin_address(admin), ':') + 1));
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void ask(struct client *c, const char *query, const char *fields, int receive_bytes)
{
	char request[2048];
	int length = snprintf(
	    request, sizeof(request), "GET /v1/events/stream%s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n", query, fields);

	c->fd = connect_small(receive_bytes);
	c->length = c->raw_length = c->chunk = 0;
	c->text[0] = c->raw[0] = '\0';
	assert_int_equal(send(c->fd, request, (size_t)length, MSG_NOSIGNAL), length);
}

/* Everything after the head that came whole, chunks put together. */
static void unchunk(struct client *c)
{
	const char *end = c->chunk == 0 ? strstr(c->raw, "\r\n\r\n") : NULL;

	if (end != NULL)
		c->chunk = (size_t)(end + 4 - c->raw);
	while (c->chunk != 0) {
		const char *line = strstr(c->raw + c->chunk, "\r\n");
		size_t size = strtoul(c->raw + c->chunk, NULL, 16);

		if (line == NULL || line + 2 + size + 2 > c->raw + c->raw_length)
			break;
		memcpy(c->text + c->length, line + 2, size);
		c->length += size;
		c->chunk = (size_t)(line + 2 + size + 2 - c->raw);
	}
	c->text[c->length] = '\0';
}

/* Reads once; false: the end, or nothing within the time. */
static bool hear_some(struct client *c, int timeout_ms)
{
	struct pollfd pollfd = {.fd = c->fd, .events = POLLIN};
	ssize_t n;

	if (poll(&pollfd, 1, timeout_ms) != 1)
		return false;
	n = recv(c->fd, c->raw + c->raw_length, sizeof(c->raw) - 1 - c->raw_length, 0);
	if (n <= 0)
		return false;
	c->raw_length += (size_t)n;
	c->raw[c->raw_length] = '\0';
	unchunk(c);
	return true;
}

static void hear_until(struct client *c, const char *text)
{
	/* Not from the beginning every time: there may be megabytes. */
	while (strstr(c->text + (c->length > 65536 ? c->length - 65536 : 0), text) == NULL)
		if (!hear_some(c, 10000))
			fail_msg("%s never came: %.2000s", text, c->raw);
}

/* As strstr, which a sanitizer makes look at all of the text each time: there are megabytes, and thousands of finds. */
static const char *find(const char *at, const char *needle)
{
	while ((at = strchr(at, needle[0])) != NULL && strncmp(at, needle, strlen(needle)) != 0)
		at++;
	return at;
}

static unsigned count_of(const char *haystack, const char *needle)
{
	unsigned count = 0;

	for (const char *at = haystack; (at = find(at, needle)) != NULL; at++)
		count++;
	return count;
}

static void leave(struct client *c)
{
	close(c->fd);
	wait_for_metric("rea_event_followers 0\n");
}

static const char *expected_event(uint64_t id, const char *type)
{
	static char text[REA_EVENT_JSON_MAX + 100];
	struct rea_event event = sample_event();
	int length = snprintf(text, sizeof(text), "id: %llu\nevent: %s\ndata: ", (unsigned long long)id, type);

	event.type = id % 3 == 0 ? REA_EVENT_GIVE_UP : REA_EVENT_RETRY;
	if (id % 2 == 1)
		event.biz_id = text_of("order-43");
	length += (int)rea_event_json(&event, text + length, REA_EVENT_JSON_MAX);
	strcpy(text + length, "\n\n");
	return text;
}

/* ---- tests ---- */

static void test_what_comes_is_sent(void **state)
{
	char text[1 << 16] = "retry: 2000\n\n";

	(void)state;
	on_loop(happen, 3); /* before it came */
	ask(&client, "", "", 0);
	hear_until(&client, "retry: 2000\n\n");
	assert_non_null(strcasestr(client.raw, "\r\ncontent-type: text/event-stream\r\n"));
	assert_non_null(strcasestr(client.raw, "\r\ncache-control: no-store\r\n"));
	on_loop(happen, 2);
	on_loop(happen, 1);
	strcat(text, expected_event(FIRST + 3, "Retry"));
	strcat(text, expected_event(FIRST + 4, "Retry"));
	strcat(text, expected_event(FIRST + 5, "GiveUp"));
	hear_until(&client, "id: 1005\n");
	assert_string_equal(client.text, text);
	leave(&client);
}

static void test_filters(void **state)
{
	(void)state;
	ask(&client, "?biz_id=order-4%32&type=GiveUp,Breaker", "", 0);
	hear_until(&client, "retry: ");
	on_loop(happen, 12); /* GiveUp: 1002, 1005, 1008, 1011; of order-42: 1002 and 1008 */
	hear_until(&client, "id: 1008\n");
	on_loop(happen, 3); /* 1014 */
	hear_until(&client, "id: 1014\n");
	assert_int_equal(count_of(client.text, "\nevent: "), 3);
	assert_int_equal(count_of(client.text, "id: 1002\nevent: GiveUp\n"), 1);
	leave(&client);
}

static void test_resume(void **state)
{
	(void)state;
	on_loop(happen, 10); /* the ring keeps 8: 1002..1009 */
	ask(&client, "", "Last-Event-ID: 1006\r\n", 0);
	hear_until(&client, "id: 1009\n");
	assert_int_equal(count_of(client.text, "\nevent: "), 3);
	assert_null(strstr(client.text, "lost"));
	leave(&client);
	ask(&client, "", "Last-Event-ID: 1001\r\n", 0);
	hear_until(&client, "id: 1009\n");
	assert_int_equal(count_of(client.text, "\nevent: "), 8);
	assert_null(strstr(client.text, "lost"));
	leave(&client);
	ask(&client, "", "Last-Event-ID: 999\r\n", 0);
	hear_until(&client, "id: 1009\n");
	assert_int_equal(count_of(client.text, "\nevent: "), 9);
	assert_non_null(
	    strstr(client.text, "id: 1001\nevent: lost\ndata: {\"lost\":2,\"restarted\":false}\n\nid: 1002\n"));
	leave(&client);
	/* An id of an earlier process: what was lost of this one can be counted. One of a clock that was ahead is no better. */
	ask(&client, "", "Last-Event-ID: 17\r\n", 0);
	hear_until(&client, "id: 1009\n");
	assert_non_null(
	    strstr(client.text, "id: 1001\nevent: lost\ndata: {\"lost\":2,\"restarted\":true}\n\nid: 1002\n"));
	leave(&client);
	ask(&client, "", "Last-Event-ID: 1010\r\n", 0);
	hear_until(&client, "\"restarted\":true");
	leave(&client);
	ask(&client, "", "Last-Event-ID: 1009\r\n", 0);
	hear_until(&client, "retry: ");
	on_loop(happen, 1);
	hear_until(&client, "id: 1010\n");
	assert_int_equal(count_of(client.text, "\nevent: "), 1);
	leave(&client);
	wait_for_metric("rea_event_followers_lost_total 6\n");
}

static void test_bad_questions(void **state)
{
	static const char *const queries[] = {
	    "?type=Other", "?type=,", "?type=retry", "?biz_id=", "?biz_id=%4", "?type=%00", "?type=Retry%2COther"};
	static const char *const ids[] = {"x", "-1", "1 2", "99999999999999999999"};

	(void)state;
	for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
		ask(&client, queries[i], "Connection: close\r\n", 0);
		while (hear_some(&client, 10000))
			;
		if (strstr(client.raw, "HTTP/1.1 400 ") == NULL)
			fail_msg("%s: %s", queries[i], client.raw);
		assert_non_null(strstr(client.raw, "application/problem+json"));
		close(client.fd);
	}
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		char fields[128];

		snprintf(fields, sizeof(fields), "Last-Event-ID: %s\r\nConnection: close\r\n", ids[i]);
		ask(&client, "", fields, 0);
		while (hear_some(&client, 10000))
			;
		assert_non_null(strstr(client.raw, "HTTP/1.1 400 "));
		close(client.fd);
	}
	assert_true(metric_is("rea_event_followers 0\n"));
}

/* A follower that does not read costs its buffers and no more; when it reads again, what it got and what it is told it lost are all that happened. */
static void test_slow_reader(void **state)
{
	unsigned got, lost = 0;

	(void)state;
	ask(&client, "", "", 4096);
	hear_until(&client, "retry: ");
	for (unsigned i = 0; i < 5000; i++)
		on_loop(happen, 4);
	hear_until(&client, "id: 20999\n");
	got = count_of(client.text, "\nevent: Retry") + count_of(client.text, "\nevent: GiveUp");
	for (const char *at = client.text; (at = find(at, "{\"lost\":")) != NULL; at++)
		lost += (unsigned)atoi(at + 8);
	assert_int_equal(got + lost, 20000);
	assert_true(lost > 10000);
	assert_null(strstr(client.text, "\"restarted\":true"));
	leave(&client);
}

/* One who comes back for everything that a large ring has is sent as much as its connection takes, and no more is kept for it. */
static void test_slow_return(void **state)
{
	unsigned got, lost = 0;

	(void)state;
	on_loop(happen, 20000);
	ask(&client, "", "Last-Event-ID: 999\r\n", 4096);
	wait_for_metric("rea_event_followers 1\n");
	on_loop(happen, 20000);
	hear_until(&client, "id: 40999\n");
	got = count_of(client.text, "\nevent: Retry") + count_of(client.text, "\nevent: GiveUp");
	for (const char *at = client.text; (at = find(at, "{\"lost\":")) != NULL; at++)
		lost += (unsigned)atoi(at + 8);
	assert_int_equal(got + lost, 40000);
	assert_true(lost > 5000);
	leave(&client);
}

static void test_heartbeat_and_patience(void **state)
{
	(void)state;
	ask(&client, "", "", 4096);
	hear_until(&client, "retry: 2000\n\n:\n\n:\n\n");
	/* Now it stops reading. */
	for (unsigned i = 0; i < 2000; i++)
		on_loop(happen, 8);
	wait_for_metric("rea_event_followers_cut_total 1\n");
	assert_true(metric_is("rea_event_followers 0\n"));
	while (hear_some(&client, 10000))
		;
	close(client.fd);
}

static void test_too_many(void **state)
{
	static struct client others[3];

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		ask(&others[i], "", "", 0);
		hear_until(&others[i], "retry: ");
	}
	ask(&client, "", "Connection: close\r\n", 0);
	while (hear_some(&client, 10000))
		;
	assert_non_null(strstr(client.raw, "HTTP/1.1 503 "));
	assert_non_null(strcasestr(client.raw, "\r\nretry-after: 5\r\n"));
	close(client.fd);
	close(others[1].fd);
	wait_for_metric("rea_event_followers 2\n");
	ask(&client, "", "", 0);
	hear_until(&client, "retry: ");
	on_loop(happen, 1);
	hear_until(&client, "id: 1000\n");
	hear_until(&others[0], "id: 1000\n");
	hear_until(&others[2], "id: 1000\n");
	close(others[0].fd);
	close(others[2].fd);
	leave(&client);
}

static void test_end(void **state)
{
	(void)state;
	ask(&client, "", "Connection: close\r\n", 0);
	hear_until(&client, "retry: ");
	on_loop(end_all, 0);
	while (hear_some(&client, 10000))
		;
	assert_true(strlen(client.raw) > 5);
	assert_string_equal(client.raw + client.raw_length - 5, "0\r\n\r\n");
	close(client.fd);
	ask(&client, "", "Connection: close\r\n", 0);
	while (hear_some(&client, 10000))
		;
	assert_non_null(strstr(client.raw, "HTTP/1.1 503 "));
	close(client.fd);
}

static void test_head(void **state)
{
	static const char request[] = "HEAD /v1/events/stream HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

	(void)state;
	client.fd = connect_small(0);
	client.length = client.raw_length = client.chunk = 0;
	assert_int_equal(send(client.fd, request, sizeof(request) - 1, MSG_NOSIGNAL), sizeof(request) - 1);
	while (hear_some(&client, 10000))
		;
	assert_memory_equal(client.raw, "HTTP/1.1 200 ", 13);
	assert_string_equal(client.raw + client.raw_length - 4, "\r\n\r\n");
	close(client.fd);
	assert_true(metric_is("rea_event_followers 0\n"));
}

/* ---- */

static void add_table(struct admin_sources *sources)
{
	options.ring = events;
	options.first_id = next_id = FIRST;
	if (follow_new(&loop, &options, &follow) != 0)
		abort();
	table = follow_routes(follow);
	sources->tables = &table;
	sources->tables_len = 1;
}

static int start(void **state)
{
	static const struct follow_options defaults = FOLLOW_OPTIONS_DEFAULT;
	uint64_t heartbeat_ns = options.heartbeat_ns;

	options = defaults;
	options.followers_max = 3;
	if (heartbeat_ns > 0)
		options.heartbeat_ns = heartbeat_ns;
	prepare = add_table;
	if (rea_event_ring_new(ring_size, NULL, &events, NULL) != 0)
		return -1;
	return start_admin(state);
}

static int start_fast(void **state)
{
	options.heartbeat_ns = MS(5);
	return start(state);
}

static int start_large(void **state)
{
	ring_size = 20000;
	return start(state);
}

static int finish(void **state)
{
	int code = stop_admin(state);

	follow_free(follow);
	rea_event_ring_free(events);
	options.heartbeat_ns = 0;
	ring_size = 8;
	return code;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_what_comes_is_sent),
	    TEST(test_filters),
	    TEST(test_resume),
	    TEST(test_bad_questions),
	    TEST(test_slow_reader),
	    cmocka_unit_test_setup_teardown(test_slow_return, start_large, finish),
	    cmocka_unit_test_setup_teardown(test_heartbeat_and_patience, start_fast, finish),
	    TEST(test_too_many),
	    TEST(test_end),
	    TEST(test_head),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
