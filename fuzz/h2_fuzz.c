/*
 * HTTP/2 sessions under hostile frames.
 *
 * Input: a byte of mode, a byte that says how the rest is cut, the rest: frames, behind a preface and SETTINGS that are put before them. Each input runs
 * twice, whole and cut: each stream must tell the same story. Each run checks what a callee relies on: nothing about a stream after its end, bodies of the
 * announced length, nothing in heads that could end a line of HTTP/1.
 */
#include "http/http.h"

#include <stdio.h>
#include <stdlib.h>

enum mode {
	CLIENT = 1, /* else server */
	EARLY = 2,  /* server: answer when the head has come. Client: requests stay unfinished */
	PAUSING = 4, /* pause at each head, resume after each receive; then the cut decides what a reset still lets through */
	TALKING = 8, /* send after each receive, which closes streams; the same */
	BIG = 16,    /* the answer is longer than a window */
};

#define STREAMS 64

struct run;

struct exchange {
	struct run *run;
	struct rea_buffer story;
	size_t head_len; /* of the story */
	struct http_server_stream *server_stream;
	struct http_client_stream *client_stream;
	const struct http_request *request;
	uint64_t body;
	uint64_t length; /* announced */
	bool open;
	bool body_ended;
	bool answered;
	bool paused;
};

struct run {
	unsigned mode;
	size_t count;
	struct exchange exchanges[STREAMS];
};

static const struct http_limits limits = {.head_bytes = 1024, .fields = 16, .chunk_ext_bytes = 32, .trailer_bytes = 128};
static char big[100000];

static void require(bool fact, const char *what)
{
	if (fact)
		return;
	fprintf(stderr, "violated: %s\n", what);
	abort();
}
#define REQUIRE(fact) require(fact, #fact)

static void tell(struct exchange *exchange, const char *what, struct rea_slice text)
{
	REQUIRE(rea_buffer_append(&exchange->story, what, strlen(what)) == 0);
	REQUIRE(rea_buffer_append_slice(&exchange->story, text) == 0);
}

static void check_slice(struct rea_slice text)
{
	for (size_t i = 0; i < text.length; i++)
		REQUIRE(text.data[i] != '\r' && text.data[i] != '\n' && text.data[i] != '\0');
}

static void tell_fields(struct exchange *exchange, const struct http_field *fields, size_t fields_len)
{
	REQUIRE(fields_len <= limits.fields);
	for (size_t i = 0; i < fields_len; i++) {
		check_slice(fields[i].name);
		check_slice(fields[i].value);
		REQUIRE(fields[i].name.length > 0 && memchr(fields[i].name.data, ':', fields[i].name.length) == NULL);
		REQUIRE(fields[i].id == http_field_id_of(fields[i].name));
		tell(exchange, fields[i].hop_by_hop ? "\n!" : "\n", fields[i].name);
		tell(exchange, ": ", fields[i].value);
	}
}

static void tell_body(struct exchange *exchange, const char *data, size_t length)
{
	REQUIRE(length > 0 && exchange->open && !exchange->body_ended);
	exchange->body += length;
	REQUIRE(exchange->length == HTTP_LENGTH_UNKNOWN || exchange->body <= exchange->length);
	tell(exchange, "", rea_slice_make(data, length));
}

static void tell_end(struct exchange *exchange, const struct http_field *trailers, size_t trailers_len)
{
	REQUIRE(exchange->open && !exchange->body_ended);
	REQUIRE(exchange->length == HTTP_LENGTH_UNKNOWN || exchange->body == exchange->length);
	exchange->body_ended = true;
	tell(exchange, "\nend", rea_slice_make(NULL, 0));
	tell_fields(exchange, trailers, trailers_len);
}

/* ---- server ---- */

static void answer(struct exchange *exchange)
{
	static const struct http_field trailer = {REA_SLICE_LIT("x-t"), REA_SLICE_LIT("1"), HTTP_FIELD_OTHER, false};
	const struct http_response_head head = {.status = 200, .has_body = true, .body_length = HTTP_LENGTH_UNKNOWN};
	size_t length = exchange->run->mode & BIG ? sizeof(big) : 5;

	exchange->answered = true;
	exchange->open = false;
	REQUIRE(http_server_respond(exchange->server_stream, &head) == 0);
	REQUIRE(http_server_write(exchange->server_stream, big, length) == 0);
	REQUIRE(http_server_finish(exchange->server_stream, &trailer, 1) == 0);
}

static void on_request(struct http_server_stream *stream, const struct http_request *request)
{
	struct run *run = http_server_owner(stream->session);
	struct exchange *exchange;

	stream->user = NULL;
	if (run->count == STREAMS)
		return;
	exchange = &run->exchanges[run->count++];
	*exchange = (struct exchange){
	    .run = run, .server_stream = stream, .request = request, .length = request->body_length, .open = true};
	stream->user = exchange;
	check_slice(request->method);
	check_slice(request->authority);
	check_slice(request->path);
	REQUIRE(request->method.length > 0 && request->authority.length > 0);
	REQUIRE(request->path.length > 0 && (request->path.data[0] == '/' || request->path.length == 1));
	REQUIRE(request->version == 20 && !request->upgrade && request->method_id != HTTP_CONNECT);
	tell(exchange, "request ", request->method);
	tell(exchange, " ", request->path);
	tell(exchange, " ", request->authority);
	tell_fields(exchange, request->fields, request->fields_len);
	exchange->head_len = rea_buffer_length(&exchange->story);
	if (run->mode & PAUSING) {
		exchange->paused = true;
		http_server_pause(stream);
	}
	if (run->mode & EARLY)
		answer(exchange);
}

static void on_body(struct http_server_stream *stream, const char *data, size_t length)
{
	if (stream->user != NULL)
		tell_body(stream->user, data, length);
}

static void on_body_end(struct http_server_stream *stream, const struct http_field *trailers, size_t trailers_len)
{
	struct exchange *exchange = stream->user;

	if (exchange == NULL)
		return;
	tell_end(exchange, trailers, trailers_len);
	if (!exchange->answered)
		answer(exchange);
}

static void on_abort(struct http_server_stream *stream, enum http_error error)
{
	struct exchange *exchange = stream->user;

	if (exchange == NULL)
		return;
	REQUIRE(exchange->open);
	exchange->open = false;
	/* How much of a frame that is too long came before that was known is a matter of the cut. */
	exchange->story.end = exchange->story.start + exchange->head_len;
	tell(exchange, "\nabort ", rea_slice_of(http_error_text(error)));
}

static void resume_all(struct run *run)
{
	for (size_t i = 0; i < run->count; i++) {
		struct exchange *exchange = &run->exchanges[i];

		if (!exchange->paused || !exchange->open)
			continue;
		exchange->paused = false;
		if (run->mode & CLIENT)
			(void)http_client_resume(exchange->client_stream);
		else
			(void)http_server_resume(exchange->server_stream);
	}
}

static void run_server(struct run *run, const char *data, size_t length, size_t step)
{
	static const char settings[] = "\0\0\0\4\0\0\0\0\0";
	static const struct http_server_events events = {
	    .on_request = on_request, .on_body = on_body, .on_body_end = on_body_end, .on_abort = on_abort};
	struct http_server *server = h2_server_new(&events, &limits, run);

	REQUIRE(server != NULL);
	(void)http_server_receive(server, H2_PREFACE, H2_PREFACE_LENGTH);
	(void)http_server_receive(server, settings, sizeof(settings) - 1);
	for (size_t at = 0; at < length && !server->want_close; at += step) {
		(void)http_server_receive(server, data + at, length - at < step ? length - at : step);
		resume_all(run);
		if (run->mode & TALKING) {
			http_server_fill(server);
			REQUIRE(rea_buffer_length(&server->out) < 64 * 1024);
			rea_buffer_clear(&server->out);
		}
	}
	http_server_fill(server);
	http_server_eof(server);
	REQUIRE(server->want_close);
	for (size_t i = 0; i < run->count; i++)
		REQUIRE(!run->exchanges[i].open);
	http_server_free(server);
}

/* ---- client ---- */

static void tell_response(struct exchange *exchange, const char *what, const struct http_response *response)
{
	char status[8];

	REQUIRE(exchange->open && response->status >= 100 && response->status <= 999 && response->version == 20);
	snprintf(status, sizeof(status), "%u", response->status);
	tell(exchange, what, rea_slice_of(status));
	tell_fields(exchange, response->fields, response->fields_len);
}

static void on_interim(struct http_client_stream *stream, const struct http_response *response)
{
	REQUIRE(response->status < 200 && response->status != 101);
	tell_response(stream->user, "interim ", response);
}

static void on_response(struct http_client_stream *stream, const struct http_response *response)
{
	struct exchange *exchange = stream->user;

	REQUIRE(!exchange->answered && response->status >= 200);
	exchange->answered = true;
	exchange->length = response->has_body ? response->body_length : 0;
	tell_response(exchange, "response ", response);
	if (exchange->run->mode & PAUSING) {
		exchange->paused = true;
		http_client_pause(stream);
	}
}

static void on_response_body(struct http_client_stream *stream, const char *data, size_t length)
{
	tell_body(stream->user, data, length);
}

static void on_response_end(struct http_client_stream *stream, const struct http_field *trailers, size_t trailers_len)
{
	struct exchange *exchange = stream->user;

	REQUIRE(exchange->answered);
	tell_end(exchange, trailers, trailers_len);
	exchange->open = false;
}

static void on_error(struct http_client_stream *stream, enum http_error error)
{
	struct exchange *exchange = stream->user;

	REQUIRE(exchange->open);
	exchange->open = false;
	tell(exchange, "\nerror ", rea_slice_of(http_error_text(error)));
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
	static const char settings[] = "\0\0\0\4\0\0\0\0\0";
	struct http_client *client = h2_client_new(&events, &limits, run);
	const struct http_request_head head = {.method = REA_SLICE_LIT("POST"),
	    .scheme = REA_SLICE_LIT("http"),
	    .authority = REA_SLICE_LIT("a"),
	    .path = REA_SLICE_LIT("/"),
	    .body_length = HTTP_LENGTH_UNKNOWN};

	REQUIRE(client != NULL);
	for (run->count = 0; run->count < 3; run->count++) {
		struct exchange *exchange = &run->exchanges[run->count];

		*exchange = (struct exchange){.run = run, .length = HTTP_LENGTH_UNKNOWN, .open = true};
		exchange->client_stream = http_client_begin(client, &head, exchange);
		REQUIRE(exchange->client_stream != NULL);
		REQUIRE(http_client_write(exchange->client_stream, big, run->mode & BIG ? sizeof(big) : 5) == 0);
		if (!(run->mode & EARLY))
			REQUIRE(http_client_finish(exchange->client_stream, NULL, 0) == 0);
	}
	do {
		http_client_fill(client);
		rea_buffer_clear(&client->out);
	} while (client->output_waits);
	(void)http_client_receive(client, settings, sizeof(settings) - 1);
	for (size_t at = 0; at < length && !client->closing; at += step) {
		if (http_client_receive(client, data + at, length - at < step ? length - at : step) < 0)
			break;
		resume_all(run);
		if (run->mode & TALKING) {
			http_client_fill(client);
			rea_buffer_clear(&client->out);
		}
	}
	http_client_fill(client);
	http_client_eof(client);
	REQUIRE(!client->reusable && client->closing);
	for (size_t i = 0; i < run->count; i++)
		REQUIRE(!run->exchanges[i].open);
	http_client_free(client);
}

static void run_one(struct run *run, const char *data, size_t length, size_t step)
{
	if (run->mode & CLIENT)
		run_client(run, data, length, step);
	else
		run_server(run, data, length, step);
}

static void run_fini(struct run *run)
{
	for (size_t i = 0; i < STREAMS; i++)
		rea_buffer_fini(&run->exchanges[i].story);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run whole = {0}, cut = {0};

	if (size < 3)
		return 0;
	whole.mode = cut.mode = data[0];
	run_one(&whole, (const char *)data + 2, size - 2, size - 2);
	run_one(&cut, (const char *)data + 2, size - 2, data[1] % 64u + 1);
	/* What a goodbye leaves of the rest depends on when it is heard. */
	if (!(whole.mode & (PAUSING | TALKING | CLIENT))) {
		REQUIRE(whole.count == cut.count);
		for (size_t i = 0; i < whole.count; i++) {
			const struct rea_buffer *a = &whole.exchanges[i].story, *b = &cut.exchanges[i].story;

			REQUIRE(rea_buffer_length(a) == rea_buffer_length(b) &&
				memcmp(rea_buffer_data(a), rea_buffer_data(b), rea_buffer_length(a)) == 0);
		}
	}
	run_fini(&whole);
	run_fini(&cut);
	return 0;
}
