/*
 * What the HTTP/1.1 codec costs: a typical GET of 400 bytes read, and written for an upstream; the same through whole
 * sessions, with its answer; thread CPU time. The best of several runs: what disturbs a run only ever adds.
 */
#include "http/h1.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 1000000, RUNS = 5 };

static const char request[] = "GET /user-service/users/42?fields=name,mail&expand=roles HTTP/1.1\r\n"
			      "Host: 127.0.0.1:8080\r\n"
			      "User-Agent: python-requests/2.28.1\r\n"
			      "Accept-Encoding: gzip, deflate\r\n"
			      "Accept: application/json\r\n"
			      "Connection: keep-alive\r\n"
			      "X-Biz-Id: order-20240617-000042\r\n"
			      "Idempotency-Key: 7f9c24e8-3b1a-4d5e-9f60-1c2d3e4f5a6b\r\n"
			      "Traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n"
			      "Authorization: Bearer abcdef.ghijkl\r\n\r\n";
static const char response[] = "HTTP/1.1 200 OK\r\nDate: Mon, 17 Jun 2024 10:00:00 GMT\r\nContent-Type: "
			       "application/json\r\nContent-Length: 20\r\n\r\n{\"id\":42,\"name\":\"a\"}";
static const struct http_limits limits = {.head_bytes = 32768, .fields = 100, .chunk_ext_bytes = 256, .trailer_bytes = 8192};

static double cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void check(bool fine)
{
	if (!fine)
		abort();
}

struct codec {
	struct h1_section section;
	struct h1_fields fields;
	struct http_request request;
	struct rea_buffer out;
};

static void read_request(void *arg)
{
	struct codec *c = arg;
	struct rea_slice in = {request, sizeof(request) - 1}, whole;
	enum h1_framing framing;
	bool persistent;

	h1_section_clear(&c->section);
	check(h1_section_take(&c->section, limits.head_bytes, true, &in, &whole) == HTTP_ERROR_NONE);
	check(h1_request_parse(c->section.bytes.data, whole.length, &limits, &c->fields, &c->request, &framing,
		  &persistent) == HTTP_ERROR_NONE);
}

static struct http_request_head forwarded(const struct http_request *r)
{
	static const struct http_field more[] = {
	    {REA_SLICE_LIT("Via"), REA_SLICE_LIT("1.1 rea"), HTTP_FIELD_VIA, false},
	    {REA_SLICE_LIT("X-Forwarded-For"), REA_SLICE_LIT("127.0.0.1"), HTTP_FIELD_X_FORWARDED_FOR, false},
	    {REA_SLICE_LIT("rea-attempt"), REA_SLICE_LIT("1/2"), HTTP_FIELD_REA_ATTEMPT, false},
	};

	return (struct http_request_head){.method = r->method,
	    .authority = REA_SLICE_LIT("127.0.0.1:9001"),
	    .path = r->path,
	    .fields = r->fields,
	    .fields_len = r->fields_len,
	    .more = more,
	    .more_len = 3};
}

static void write_request(void *arg)
{
	struct codec *c = arg;
	struct http_request_head head = forwarded(&c->request);

	rea_buffer_clear(&c->out);
	check(h1_request_write(&c->out, &head, H1_FRAMING_NONE) == 0);
}

/* ---- a request through both sessions, its answer back ---- */

struct relay {
	struct http_server *server;
	struct http_client *client;
	struct http_server_stream *stream;
};

static void on_request(struct http_server_stream *stream, const struct http_request *r)
{
	struct relay *relay = http_server_owner(stream->session);
	struct http_request_head head = forwarded(r);

	relay->stream = stream;
	stream->user = http_client_begin(relay->client, &head, NULL);
}

static void on_body(struct http_server_stream *stream, const char *data, size_t length)
{
	(void)stream;
	(void)data;
	(void)length;
}

static void on_body_end(struct http_server_stream *stream, const struct http_field *trailers, size_t trailers_len)
{
	check(http_client_finish(stream->user, trailers, trailers_len) == 0);
}

static void on_abort(struct http_server_stream *stream, enum http_error error)
{
	(void)stream;
	(void)error;
	abort();
}

static void on_response(struct http_client_stream *stream, const struct http_response *r)
{
	struct relay *relay = http_client_owner(stream->session);
	struct http_response_head head = {.status = r->status,
	    .reason = r->reason,
	    .fields = r->fields,
	    .fields_len = r->fields_len,
	    .body_length = r->body_length,
	    .has_body = r->has_body};

	check(http_server_respond(relay->stream, &head) == 0);
}

static void on_response_body(struct http_client_stream *stream, const char *data, size_t length)
{
	struct relay *relay = http_client_owner(stream->session);

	check(http_server_write(relay->stream, data, length) == 0);
}

static void on_response_end(struct http_client_stream *stream, const struct http_field *trailers, size_t trailers_len)
{
	struct relay *relay = http_client_owner(stream->session);

	check(http_server_finish(relay->stream, trailers, trailers_len) == 0);
}

static void on_error(struct http_client_stream *stream, enum http_error error)
{
	(void)stream;
	(void)error;
	abort();
}

static void relay_one(void *arg)
{
	struct relay *relay = arg;

	check(http_server_receive(relay->server, request, sizeof(request) - 1) == 0);
	rea_buffer_clear(&relay->client->out);
	check(http_client_receive(relay->client, response, sizeof(response) - 1) == 0);
	rea_buffer_clear(&relay->server->out);
}

static void measure(const char *what, void (*once)(void *arg), void *arg)
{
	double best = 1e18;

	for (int run = 0; run < RUNS; run++) {
		double start = cpu_ns(), ns;

		for (int i = 0; i < ROUNDS; i++)
			once(arg);
		ns = (cpu_ns() - start) / ROUNDS;
		best = ns < best ? ns : best;
	}
	printf("%-48s %6.0f ns\n", what, best);
}

int main(void)
{
	static const struct http_server_events server_events = {
	    .on_request = on_request, .on_body = on_body, .on_body_end = on_body_end, .on_abort = on_abort};
	static const struct http_client_events client_events = {.on_interim = on_response,
	    .on_response = on_response,
	    .on_body = on_response_body,
	    .on_body_end = on_response_end,
	    .on_error = on_error};
	struct codec codec = {0};
	struct relay relay = {0};

	printf("a GET of %zu bytes with 9 fields\n", sizeof(request) - 1);
	measure("read", read_request, &codec);
	measure("write for an upstream", write_request, &codec);
	relay.server = h1_server_new(&server_events, &limits, &relay);
	relay.client = h1_client_new(&client_events, &limits, &relay);
	check(relay.server != NULL && relay.client != NULL);
	measure("through both sessions, its answer back", relay_one, &relay);
	http_server_free(relay.server);
	http_client_free(relay.client);
	h1_section_fini(&codec.section);
	h1_fields_fini(&codec.fields);
	rea_buffer_fini(&codec.out);
	return 0;
}
