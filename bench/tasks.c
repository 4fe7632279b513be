/*
 * Load on a server of durable tasks, from one thread on epoll, one request under way per keep-alive connection:
 *
 *   tasks put PORT CONNECTIONS SECONDS BYTES       beanstalkd: `put` of a job
 *   tasks cycle PORT CONNECTIONS SECONDS BYTES     beanstalkd: put, reserve, delete, each answer awaited
 *   tasks post PORT CONNECTIONS SECONDS BYTES REQUEST            HTTP: the request in the file REQUEST
 *   tasks deliver PORT CONNECTIONS SECONDS BYTES REQUEST TARGET  the same, and awaits its delivery at 127.0.0.1:TARGET, where this program
 *                                                                answers 200; the path of a delivery ends in the number of the connection
 *
 * In REQUEST, which is the head without Content-Length, an empty line and the body, %P stands for BYTES of payload and %L for the connection's number.
 * Prints what was done per second, and percentiles 50 and 99 of the time that one took in microseconds, between tabs. bench/run tasks reads it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LANES_MAX = 1024, BYTES_MAX = 60000, BUFFER = 1 << 17, EVENTS = 256, LATENCY_US_MAX = 10000000, GRACE_S = 10 };

enum kind { LANE, LISTENER, TARGET };
enum step { PUT, RESERVE, DELETE, POST };

/* A connection: of a lane to the server, or of the server to the target here. */
struct peer {
	enum kind kind;
	int fd;
	char *in;
	size_t in_len;
};

struct lane {
	struct peer peer;
	char *request;
	size_t request_len;
	enum step step;
	char delete_line[64];
	uint64_t begun_ns;
	bool under_way, acknowledged, delivered;
};

static struct lane lanes[LANES_MAX];
static uint32_t lanes_len, lanes_under_way;
static enum mode { MODE_PUT, MODE_CYCLE, MODE_POST, MODE_DELIVER } mode;
static uint32_t latencies[LATENCY_US_MAX + 1];
static uint64_t done, end_ns;
static int epoll_fd;

static _Noreturn __attribute__((format(printf, 1, 2))) void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("tasks: ", stderr);
	vfprintf(stderr, format, args);
	fputs("\n", stderr);
	va_end(args);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void watch(struct peer *peer)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};
	int on = 1;

	if (peer->kind != LISTENER && (peer->in = malloc(BUFFER)) == NULL)
		die("out of memory");
	setsockopt(peer->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (fcntl(peer->fd, F_SETFL, O_NONBLOCK) != 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, peer->fd, &event) != 0)
		die("a connection cannot be watched: %s", strerror(errno));
}

/* A request is small and nothing else is on the way: it fits into the socket's buffer. */
static void send_all(int fd, const char *bytes, size_t length)
{
	if (send(fd, bytes, length, MSG_NOSIGNAL) != (ssize_t)length)
		die("a request of %zu bytes was not sent: %s", length, strerror(errno));
}

/* ---- one lane ---- */

static void begin(struct lane *lane)
{
	if (!lane->under_way)
		lanes_under_way++;
	lane->under_way = true;
	lane->acknowledged = lane->delivered = false;
	lane->step = mode == MODE_PUT || mode == MODE_CYCLE ? PUT : POST;
	lane->begun_ns = now_ns();
	send_all(lane->peer.fd, lane->request, lane->request_len);
}

static void finish(struct lane *lane)
{
	uint64_t now = now_ns(), us = (now - lane->begun_ns) / 1000;

	latencies[us < LATENCY_US_MAX ? us : LATENCY_US_MAX]++;
	if (now < end_ns) {
		done++;
		begin(lane);
		return;
	}
	lane->under_way = false;
	lanes_under_way--;
}

static void finish_if_delivered(struct lane *lane)
{
	if (lane->acknowledged && lane->delivered)
		finish(lane);
}

/* A message of HTTP is whole: its length; else 0. */
static size_t whole_message(const struct peer *peer)
{
	const char *end = memmem(peer->in, peer->in_len, "\r\n\r\n", 4), *line = peer->in;
	size_t length = 0, head;

	if (end == NULL)
		return 0;
	head = (size_t)(end - peer->in) + 4;
	while ((line = memchr(line, '\n', (size_t)(end - line))) != NULL) {
		line++;
		if (strncasecmp(line, "content-length:", 15) == 0)
			length = strtoul(line + 15, NULL, 10);
		else if (strncasecmp(line, "transfer-encoding:", 18) == 0)
			die("a message without Content-Length");
	}
	return head + length <= peer->in_len ? head + length : 0;
}

static void take(struct peer *peer, size_t length)
{
	memmove(peer->in, peer->in + length, peer->in_len - length);
	peer->in_len -= length;
}

static void expect(const struct peer *peer, const char *start)
{
	if (peer->in_len < strlen(start) || memcmp(peer->in, start, strlen(start)) != 0)
		die("expected \"%s\", got \"%.*s\"", start, (int)(peer->in_len < 500 ? peer->in_len : 500), peer->in);
}

static void answered_by_http(struct lane *lane)
{
	size_t length = whole_message(&lane->peer);

	if (length == 0)
		return;
	expect(&lane->peer, "HTTP/1.1 20");
	take(&lane->peer, length);
	lane->acknowledged = true;
	if (mode == MODE_POST)
		finish(lane);
	else
		finish_if_delivered(lane);
}

static void answered_by_beanstalkd(struct lane *lane)
{
	const char *line_end = memmem(lane->peer.in, lane->peer.in_len, "\r\n", 2);
	unsigned long long id, bytes;
	size_t length;

	if (line_end == NULL)
		return;
	length = (size_t)(line_end - lane->peer.in) + 2;
	switch (lane->step) {
	case PUT:
		expect(&lane->peer, "INSERTED ");
		take(&lane->peer, length);
		if (mode == MODE_PUT) {
			finish(lane);
			return;
		}
		lane->step = RESERVE;
		send_all(lane->peer.fd, "reserve\r\n", 9);
		return;
	case RESERVE:
		expect(&lane->peer, "RESERVED ");
		if (sscanf(lane->peer.in, "RESERVED %llu %llu", &id, &bytes) != 2)
			die("a job without an id");
		if (lane->peer.in_len < length + bytes + 2)
			return;
		take(&lane->peer, length + bytes + 2);
		lane->step = DELETE;
		send_all(lane->peer.fd, lane->delete_line,
		    (size_t)snprintf(lane->delete_line, sizeof(lane->delete_line), "delete %llu\r\n", id));
		return;
	case DELETE:
		expect(&lane->peer, "DELETED\r\n");
		take(&lane->peer, length);
		finish(lane);
		return;
	case POST:
		return;
	}
}

/* ---- the target of deliveries ---- */

static void delivered(struct peer *peer)
{
	size_t length = whole_message(peer);
	const char *path_end, *number = NULL;
	unsigned long lane;

	if (length == 0)
		return;
	path_end = memmem(peer->in, length, " HTTP/1.", 8);
	if (path_end == NULL || (number = memrchr(peer->in, '/', (size_t)(path_end - peer->in))) == NULL)
		die("a delivery without a path");
	lane = strtoul(number + 1, NULL, 10);
	if (lane >= lanes_len || lanes[lane].delivered)
		die("a delivery that nobody waits for: \"%.*s\"", (int)(path_end - peer->in), peer->in);
	take(peer, length);
	send_all(peer->fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 38);
	lanes[lane].delivered = true;
	finish_if_delivered(&lanes[lane]);
}

static void accept_peer(const struct peer *listener)
{
	struct peer *peer = calloc(1, sizeof(*peer));

	if (peer == NULL || (peer->fd = accept(listener->fd, NULL, NULL)) < 0)
		die("a delivery was not accepted: %s", strerror(errno));
	peer->kind = TARGET;
	watch(peer);
}

static void listen_at(struct peer *listener, uint16_t port)
{
	struct sockaddr_in address = {
	    .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int on = 1;

	listener->kind = LISTENER;
	listener->fd = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener->fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(listener->fd, LANES_MAX) != 0)
		die("cannot listen at %u: %s", port, strerror(errno));
	watch(listener);
}

/* ---- all of them ---- */

static void readable(struct peer *peer)
{
	ssize_t got;

	if (peer->kind == LISTENER) {
		accept_peer(peer);
		return;
	}
	got = recv(peer->fd, peer->in + peer->in_len, BUFFER - peer->in_len, 0);
	if (got < 0 && errno == EAGAIN)
		return;
	if (got <= 0 && peer->kind == TARGET) {
		close(peer->fd);
		free(peer->in);
		free(peer);
		return;
	}
	if (got <= 0)
		die("the server closed a connection");
	peer->in_len += (size_t)got;
	if (peer->kind == TARGET)
		delivered(peer);
	else if (((struct lane *)peer)->step == POST)
		answered_by_http((struct lane *)peer);
	else
		answered_by_beanstalkd((struct lane *)peer);
}

static void serve(void)
{
	struct epoll_event events[EVENTS];
	uint64_t give_up_ns = end_ns + (uint64_t)GRACE_S * 1000000000;

	while (lanes_under_way > 0) {
		int count = epoll_wait(epoll_fd, events, EVENTS, 1000);

		if (now_ns() > give_up_ns)
			die("%u of %u connections still wait for an answer", lanes_under_way, lanes_len);
		for (int i = 0; i < count; i++)
			readable(events[i].data.ptr);
	}
}

static void connect_lane(struct lane *lane, uint16_t port)
{
	struct sockaddr_in address = {
	    .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	lane->peer.kind = LANE;
	lane->peer.fd = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(lane->peer.fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		die("cannot connect to %u: %s", port, strerror(errno));
	watch(&lane->peer);
}

/* ---- requests ---- */

static char *append(char *to, const char *bytes, size_t length)
{
	memcpy(to, bytes, length);
	return to + length;
}

static char *append_filled(char *to, const char *text, const char *payload, uint32_t lane)
{
	char number[16];

	for (; *text != '\0'; text++) {
		if (strncmp(text, "%P", 2) == 0 || strncmp(text, "%L", 2) == 0) {
			snprintf(number, sizeof(number), "%u", lane);
			text++;
			to = *text == 'P' ? append(to, payload, strlen(payload)) : append(to, number, strlen(number));
		} else
			*to++ = *text;
	}
	*to = '\0';
	return to;
}

static void make_put(struct lane *lane, const char *payload)
{
	lane->request_len = (size_t)snprintf(lane->request, BUFFER, "put 1024 0 60 %zu\r\n%s\r\n", strlen(payload), payload);
}

static void make_post(struct lane *lane, const char *template, const char *payload, uint32_t number)
{
	static char body[BUFFER];
	const char *split = strstr(template, "\n\n");
	char *to = lane->request;

	if (split == NULL)
		die("the request has no empty line");
	append_filled(body, split + 2, payload, number);
	for (const char *at = template; at <= split; at++)
		to = *at == '\n' ? append(to, "\r\n", 2) : append(to, at, 1);
	to += sprintf(to, "Content-Length: %zu\r\n\r\n", strlen(body));
	lane->request_len = (size_t)(append(to, body, strlen(body)) - lane->request);
}

static void read_template(const char *path, char *ret_text, size_t size)
{
	FILE *file = fopen(path, "r");

	if (file == NULL)
		die("%s: %s", path, strerror(errno));
	ret_text[fread(ret_text, 1, size - 1, file)] = '\0';
	fclose(file);
}

static uint64_t percentile_us(double percent)
{
	uint64_t total = 0, seen = 0, us = 0;

	for (size_t i = 0; i <= LATENCY_US_MAX; i++)
		total += latencies[i];
	while (total > 0 && (double)(seen += latencies[us]) < (double)total * percent / 100)
		us++;
	return us;
}

static bool parse_mode(const char *word, int argc)
{
	static const char *const words[] = {"put", "cycle", "post", "deliver"};
	static const int arguments[] = {6, 6, 7, 8};

	for (int i = 0; i < 4; i++) {
		if (strcmp(word, words[i]) == 0 && argc == arguments[i]) {
			mode = (enum mode)i;
			return true;
		}
	}
	return false;
}

int main(int argc, char **argv)
{
	static char template[BUFFER / 2], payload[BYTES_MAX + 1];
	struct peer listener;
	double seconds;
	size_t bytes;
	uint64_t start_ns;

	if (argc < 6 || !parse_mode(argv[1], argc))
		die("usage: tasks put|cycle|post|deliver PORT CONNECTIONS SECONDS BYTES [REQUEST [TARGET]]");
	lanes_len = (uint32_t)strtoul(argv[3], NULL, 10);
	seconds = atof(argv[4]);
	bytes = strtoul(argv[5], NULL, 10);
	if (lanes_len < 1 || lanes_len > LANES_MAX || seconds <= 0 || bytes > BYTES_MAX)
		die("CONNECTIONS 1..%d, SECONDS above 0, BYTES 0..%d", LANES_MAX, BYTES_MAX);
	memset(payload, 'p', bytes);
	if (mode == MODE_POST || mode == MODE_DELIVER)
		read_template(argv[6], template, sizeof(template));
	if ((epoll_fd = epoll_create1(0)) < 0)
		die("no epoll: %s", strerror(errno));
	if (mode == MODE_DELIVER)
		listen_at(&listener, (uint16_t)strtoul(argv[7], NULL, 10));
	for (uint32_t i = 0; i < lanes_len; i++) {
		if ((lanes[i].request = malloc(BUFFER)) == NULL)
			die("out of memory");
		if (mode == MODE_PUT || mode == MODE_CYCLE)
			make_put(&lanes[i], payload);
		else
			make_post(&lanes[i], template, payload, i);
		connect_lane(&lanes[i], (uint16_t)strtoul(argv[2], NULL, 10));
	}
	start_ns = now_ns();
	end_ns = start_ns + (uint64_t)(seconds * 1e9);
	for (uint32_t i = 0; i < lanes_len; i++)
		begin(&lanes[i]);
	serve();
	printf("%.0f\t%llu\t%llu\t%llu\n", (double)done / seconds, (unsigned long long)percentile_us(50),
	    (unsigned long long)percentile_us(99), (unsigned long long)done);
	return 0;
}
