/*
 * HTTP/1.1 sessions under hostile bytes.
 *
 * Input: a byte of mode, a byte that says how the rest is cut, the rest. Each input runs twice, whole and cut: both
 * runs must tell the same story and send the same bytes. Each run checks what a callee relies on: one exchange at a
 * time, bodies of the announced length, nothing in heads that could end a line. The sessions check their own state
 * after every call.
 */
#include "http/http.h"

#include <stdio.h>
#include <stdlib.h>

enum mode {
	CLIENT = 1,  /* else server */
	EARLY = 2,   /* server: answer when the head has come. Client: the request stays unfinished */
	PAUSING = 4, /* pause at each head, resume after each receive */
	LATER = 8,   /* server: answer after receive has returned. Client: ask for an upgrade */
	STREAM = 16, /* server: the answer's length is not announced. Client: the method is HEAD */
	TUNNEL = 32, /* server: take upgrades. Client: the method is CONNECT */
};

struct run {
	unsigned mode;
	struct rea_buffer story;
	uint64_t body;   /* bytes of the present body */
	uint64_t length; /* announced */
	bool open;
	bool body_ended;
	bool tunnel;
	bool paused;
	bool answered;
	struct http_server_stream *server_stream;
	const struct http_request *request;
	struct http_client_stream *client_stream;
};

static const struct http_limits limits = {.head_bytes = 1024, .fields = 16, .chunk_ext_bytes = 32, .trailer_bytes = 128};

static void require(bool fact, const char *what)
{
	if (fact)
		return;
	fprintf(stderr, "violated: %s\n", what);
	abort();
}
#define REQUIRE(fact) require(fact, #fact)

static void tell(struct run *run, const char *what, struct rea_slice text)
{
	REQUIRE(rea_buffer_append(&run->story, what, strlen(what)) == 0);
	REQUIRE(rea_buffer_append_slice(&run->story, text) == 0);
}

static void check_slice(struct rea_slice text)
{
	for (size_t i = 0; i < text.length; i++)
		REQUIRE(text.data[i] != '\r' && text.data[i] != '\n' && text.data[i] != '\0');
}

static void tell_fields(struct run *run, const struct http_field *fields, size_t fields_len)
{
	REQUIRE(fields_len <= limits.fields);
	for (size_t i = 0; i < fields_len; i++) {
		check_slice(fields[i].name);
		check_slice(fields[i].value);
		REQUIRE(fields[i].name.length > 0 && memchr(fields[i].name.data, ':', fields[i].name.length) == NULL);
		REQUIRE(fields[i].id == http_field_id_of(fields[i].name));
		tell(run, fields[i].hop_by_hop ? "\n!" : "\n", fields[i].name);
		tell(run, ": ", fields[i].value);
	}
}

static void tell_body(struct run *run, const char *data, size_t length)
{
	REQUIRE(length > 0 && run->open && (!run->body_ended || run->tunnel));
	run->body += length;
	REQUIRE(run->tunnel || run->length == HTTP_LENGTH_UNKNOWN || run->body <= run->length);
	tell(run, "", rea_slice_make(data, length));
}

static void tell_end(struct run *run, const struct http_field *trailers, size_t trailers_len)
{
	REQUIRE(run->open && (!run->body_ended || run->tunnel));
	REQUIRE(run->tunnel || run->length == HTTP_LENGTH_UNKNOWN || run->body == run->length);
	run->body_ended = true;
	tell(run, "\nend", rea_slice_make(NULL, 0));
	tell_fields(run, trailers, trailers_len);
}

static void begin_body(struct run *run, uint64_t length)
{
	run->length = length;
	run->body = 0;
	run->body_ended = false;
	tell(run, "\n\n", rea_slice_make(NULL, 0));
}

/* ---- server ---- */

static bool takes_tunnel(const struct run *run)
{
	return (run->mode & TUNNEL) && (run->request->upgrade || run->request->method_id == HTTP_CONNECT);
}

static void answer(struct run *run)
{
	struct http_server_stream *stream = run->server_stream;
	uint16_t status = run->request->method_id == HTTP_CONNECT ? 405 : 200;
	struct http_response_head head = {
	    .status = status, .body_length = (run->mode & STREAM) ? HTTP_LENGTH_UNKNOWN : 5, .has_body = true};

	run->answered = true;
	if (takes_tunnel(run)) {
		head = (struct http_response_head){.status = run->request->upgrade ? 101 : 200, .upgraded = true};
		if (run->request->method_id == HTTP_CONNECT)
			head.status = 200;
		if (http_server_respond(stream, &head) == 0) {
			run->tunnel = true;
			return;
		}
		head = (struct http_response_head){.status = 500};
	}
	REQUIRE(http_server_respond(stream, &head) == 0);
	REQUIRE(!head.has_body || http_server_write(stream, "hello", 5) == 0);
	run->open = false;
	run->paused = false;
	REQUIRE(http_server_finish(stream, NULL, 0) == 0);
}

static struct run *of_server(struct http_server_stream *stream)
{
	return http_server_owner(stream->session);
}

static void on_request(struct http_server_stream *stream, const struct http_request *request)
{
	struct run *run = of_server(stream);

	REQUIRE(!run->open);
	run->open = true;
	run->answered = run->tunnel = false;
	run->server_stream = stream;
	run->request = request;
	check_slice(request->path);
	check_slice(request->authority);
	REQUIRE(memchr(request->path.length ? request->path.data : "", ' ', request->path.length) == NULL);
	REQUIRE(request->method_id == HTTP_CONNECT || request->path.data[0] == '/' || request->path.data[0] == '*');
	tell(run, "\n", request->method);
	tell(run, " ", request->scheme);
	tell(run, " ", request->authority);
	tell(run, " ", request->path);
	tell_fields(run, request->fields, request->fields_len);
	begin_body(run, request->body_length);
	if (run->mode & PAUSING) {
		run->paused = true;
		http_server_pause(stream);
	}
	if (run->mode & EARLY)
		answer(run);
}

static void on_body(struct http_server_stream *stream, const char *data, size_t length)
{
	tell_body(of_server(stream), data, length);
}

static void on_body_end(struct http_server_stream *stream, const struct http_field *trailers, size_t trailers_len)
{
	struct run *run = of_server(stream);

	tell_end(run, trailers, trailers_len);
	if (!run->answered && !(run->mode & LATER))
		answer(run);
}

static void on_abort(struct http_server_stream *stream, enum http_error error)
{
	struct run *run = of_server(stream);

	REQUIRE(run->open);
	run->open = run->paused = false;
	tell(run, "\nabort ", rea_slice_of(http_error_text(error)));
}

static void look_after_server(struct run *run, struct http_server *server)
{
	for (;;) {
		if (run->open && run->paused) {
			run->paused = false;
			(void)http_server_resume(run->server_stream);
		} else if (run->open && run->body_ended && !run->answered) {
			answer(run);
		} else if (server->work_pending) {
			(void)http_server_receive(server, NULL, 0);
		} else {
			return;
		}
	}
}

static void run_server(struct run *run, const char *data, size_t length, size_t step)
{
	static const struct http_server_events events = {
	    .on_request = on_request, .on_body = on_body, .on_body_end = on_body_end, .on_abort = on_abort};
	struct http_server *server = h1_server_new(&events, &limits, run);

	for (size_t at = 0; at < length; at += step) {
		(void)http_server_receive(server, data + at, length - at < step ? length - at : step);
		look_after_server(run, server);
		REQUIRE(!server->reading_paused);
	}
	http_server_eof(server);
	REQUIRE(!run->open);
	REQUIRE(server->want_close);
	tell(run, "\nsent ", rea_slice_make(server->out.data, 0));
	tell(run, http_error_text(server->error),
	    rea_slice_make(server->out.data ? rea_buffer_data(&server->out) : NULL, rea_buffer_length(&server->out)));
	http_server_free(server);
}

/* ---- client ---- */

static struct run *of_client(struct http_client_stream *stream)
{
	return http_client_owner(stream->session);
}

static void tell_response(struct run *run, const struct http_response *response)
{
	char status[8];

	snprintf(status, sizeof(status), "\n%u ", (unsigned)response->status);
	check_slice(response->reason);
	tell(run, status, response->reason);
	tell_fields(run, response->fields, response->fields_len);
}

static void on_interim(struct http_client_stream *stream, const struct http_response *response)
{
	REQUIRE(response->status / 100 == 1 && response->status != 101);
	tell_response(of_client(stream), response);
}

static void on_response(struct http_client_stream *stream, const struct http_response *response)
{
	struct run *run = of_client(stream);

	REQUIRE(!run->open && !run->body_ended);
	run->open = true;
	run->tunnel = response->upgraded;
	tell_response(run, response);
	begin_body(run, response->has_body || response->upgraded ? response->body_length : 0);
	if (run->mode & PAUSING) {
		run->paused = true;
		http_client_pause(stream);
	}
}

static void on_response_body(struct http_client_stream *stream, const char *data, size_t length)
{
	tell_body(of_client(stream), data, length);
}

static void on_response_end(struct http_client_stream *stream, const struct http_field *trailers, size_t trailers_len)
{
	struct run *run = of_client(stream);

	tell_end(run, trailers, trailers_len);
	run->open = run->paused = false;
}

static void on_error(struct http_client_stream *stream, enum http_error error)
{
	struct run *run = of_client(stream);

	REQUIRE(!run->body_ended);
	run->open = run->paused = false;
	run->body_ended = true;
	tell(run, "\nerror ", rea_slice_of(http_error_text(error)));
}

static void run_client(struct run *run, const char *data, size_t length, size_t step)
{
	static const struct http_client_events events = {
	    .on_interim = on_interim,
	    .on_response = on_response,
	    .on_body = on_response_body,
	    .on_body_end = on_response_end,
	    .on_error = on_error,
	};
	struct http_client *client = h1_client_new(&events, &limits, run);
	const char *method = (run->mode & TUNNEL) ? "CONNECT" : (run->mode & STREAM) ? "HEAD" : "POST";
	struct http_request_head head = {.method = rea_slice_of(method),
	    .authority = REA_SLICE_LIT("a:1"),
	    .path = REA_SLICE_LIT("/"),
	    .upgrade = (run->mode & LATER) != 0,
	    .body_length = (run->mode & TUNNEL) ? 0 : 5};

	run->client_stream = http_client_begin(client, &head, NULL);
	if (!(run->mode & EARLY)) {
		REQUIRE((run->mode & TUNNEL) || http_client_write(run->client_stream, "hello", 5) == 0);
		REQUIRE(http_client_finish(run->client_stream, NULL, 0) == 0);
	}
	for (size_t at = 0; at < length; at += step) {
		(void)http_client_receive(client, data + at, length - at < step ? length - at : step);
		if (run->paused) {
			run->paused = false;
			(void)http_client_resume(run->client_stream);
		}
		REQUIRE(!client->reading_paused);
		REQUIRE(!client->reusable || (run->body_ended && !(run->mode & EARLY)));
	}
	http_client_eof(client);
	REQUIRE(run->body_ended && !client->reusable);
	http_client_free(client);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run whole = {0}, cut = {0};
	const char *bytes = (const char *)data + 2;
	size_t step;

	if (size < 3)
		return 0;
	whole.mode = cut.mode = data[0];
	step = data[1] % 32u + 1;
	size -= 2;
	if (whole.mode & CLIENT) {
		run_client(&whole, bytes, size, size);
		run_client(&cut, bytes, size, step);
	} else {
		run_server(&whole, bytes, size, size);
		run_server(&cut, bytes, size, step);
	}
	REQUIRE(rea_buffer_length(&whole.story) == rea_buffer_length(&cut.story) &&
		memcmp(rea_buffer_data(&whole.story), rea_buffer_data(&cut.story), rea_buffer_length(&cut.story)) == 0);
	rea_buffer_fini(&whole.story);
	rea_buffer_fini(&cut.story);
	return 0;
}
