#include "recorder.h"

#include <stdio.h>
#include <stdlib.h>

const struct http_limits limits = {.head_bytes = 4096, .fields = 40, .chunk_ext_bytes = 64, .trailer_bytes = 512};

static void append(struct rea_buffer *out, const char *text)
{
	if (rea_buffer_append(out, text, strlen(text)) != 0)
		abort();
}

void escape(struct rea_buffer *out, const char *data, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		char text[8];
		unsigned char c = (unsigned char)data[i];

		if (c == '\r' || c == '\n')
			snprintf(text, sizeof(text), "\\%c", c == '\r' ? 'r' : 'n');
		else if (c < ' ' || c > '~' || c == '\\')
			snprintf(text, sizeof(text), "\\x%02x", c);
		else
			snprintf(text, sizeof(text), "%c", c);
		append(out, text);
	}
}

static void append_slice(struct rea_buffer *out, struct rea_slice slice)
{
	escape(out, slice.data, slice.length);
}

const char *taken(struct rea_buffer *out)
{
	static struct rea_buffer text;

	rea_buffer_clear(&text);
	if (rea_buffer_length(out) > 0)
		escape(&text, rea_buffer_data(out), rea_buffer_length(out));
	if (rea_buffer_append(&text, "", 1) != 0)
		abort();
	rea_buffer_clear(out);
	return rea_buffer_data(&text);
}

void recorder_fini(struct recorder *recorder)
{
	rea_buffer_fini(&recorder->log);
	rea_buffer_fini(&recorder->body);
}

static void flush_body(struct recorder *recorder)
{
	if (rea_buffer_length(&recorder->body) == 0)
		return;
	append(&recorder->log, "body ");
	append_slice(&recorder->log, rea_slice_make(rea_buffer_data(&recorder->body), rea_buffer_length(&recorder->body)));
	append(&recorder->log, "\n");
	rea_buffer_clear(&recorder->body);
}

const char *recorder_text(struct recorder *recorder)
{
	flush_body(recorder);
	if (rea_buffer_append(&recorder->log, "", 1) != 0)
		abort();
	rea_buffer_clear(&recorder->log);
	return recorder->log.data;
}

/* " [name:value]", with "!" when it stays behind. */
static void append_fields(struct rea_buffer *out, const struct http_field *fields, size_t fields_len)
{
	for (size_t i = 0; i < fields_len; i++) {
		append(out, fields[i].hop_by_hop ? " ![" : " [");
		append_slice(out, fields[i].name);
		append(out, ":");
		append_slice(out, fields[i].value);
		append(out, "]");
	}
}

static void append_length(struct rea_buffer *out, uint64_t length)
{
	if (length == HTTP_LENGTH_UNKNOWN)
		append(out, "?");
	else if (rea_buffer_append_u64(out, length) != 0)
		abort();
}

/* ---- server ---- */

static struct recorder *of_server(struct http_server_stream *stream)
{
	return http_server_owner(stream->session);
}

/* GET /path of host, 11, length 0, flags, fields */
static void on_request(struct http_server_stream *stream, const struct http_request *request)
{
	struct recorder *recorder = of_server(stream);
	struct rea_buffer *log = &recorder->log;

	flush_body(recorder);
	recorder->server_stream = stream;
	recorder->request = request;
	append(log, "request ");
	append_slice(log, request->method);
	append(log, " ");
	append_slice(log, request->path);
	append(log, " of ");
	append_slice(log, request->scheme);
	append(log, request->scheme.length > 0 ? "://" : "");
	append_slice(log, request->authority);
	append(log, request->version == 10 ? " 1.0 length " : request->version == 20 ? " 2 length " : " 1.1 length ");
	append_length(log, request->body_length);
	append(log, request->expect_continue ? " expects" : "");
	append(log, request->upgrade ? " upgrade" : "");
	append_fields(log, request->fields, request->fields_len);
	append(log, "\n");
	if (recorder->pause)
		http_server_pause(stream);
}

static void on_body(struct http_server_stream *stream, const char *data, size_t length)
{
	if (length == 0 || rea_buffer_append(&of_server(stream)->body, data, length) != 0)
		abort();
}

static void on_body_end(struct http_server_stream *stream, const struct http_field *trailers, size_t trailers_len)
{
	struct recorder *recorder = of_server(stream);
	size_t length = recorder->answer ? strlen(recorder->answer) : 0;
	/* A 200 would open a tunnel to CONNECT. */
	struct http_response_head head = {
	    .status = recorder->request->method_id == HTTP_CONNECT ? 405 : 200, .body_length = length, .has_body = true};

	flush_body(recorder);
	append(&recorder->log, "end");
	append_fields(&recorder->log, trailers, trailers_len);
	append(&recorder->log, "\n");
	if (recorder->answer == NULL)
		return;
	if (http_server_respond(stream, &head) != 0 || http_server_write(stream, recorder->answer, length) != 0 ||
	    http_server_finish(stream, NULL, 0) != 0)
		http_server_reset(stream);
}

static void on_abort(struct http_server_stream *stream, enum http_error error)
{
	struct recorder *recorder = of_server(stream);

	flush_body(recorder);
	append(&recorder->log, "abort: ");
	append(&recorder->log, http_error_text(error));
	append(&recorder->log, "\n");
}

static void on_writable(struct http_server_stream *stream)
{
	append(&of_server(stream)->log, "writable\n");
}

const struct http_server_events server_events = {
    .on_request = on_request, .on_body = on_body, .on_body_end = on_body_end, .on_abort = on_abort, .on_writable = on_writable};

int server_feed(struct http_server *server, const char *text)
{
	return http_server_receive(server, text, strlen(text));
}

/* ---- client ---- */

static struct recorder *of_client(struct http_client_stream *stream)
{
	return http_client_owner(stream->session);
}

static void append_response(struct recorder *recorder, const char *what, const struct http_response *response)
{
	struct rea_buffer *log = &recorder->log;

	flush_body(recorder);
	append(log, what);
	append_length(log, response->status);
	append(log, " ");
	append_slice(log, response->reason);
	append(log, response->version == 10 ? " 1.0 length " : response->version == 20 ? " 2 length " : " 1.1 length ");
	append_length(log, response->body_length);
	append(log, response->has_body ? "" : " bodiless");
	append(log, response->upgraded ? " upgraded" : "");
	append_fields(log, response->fields, response->fields_len);
	append(log, "\n");
}

static void on_interim(struct http_client_stream *stream, const struct http_response *response)
{
	append_response(of_client(stream), "interim ", response);
}

static void on_response(struct http_client_stream *stream, const struct http_response *response)
{
	struct recorder *recorder = of_client(stream);

	recorder->client_stream = stream;
	append_response(recorder, "response ", response);
	if (recorder->pause)
		http_client_pause(stream);
}

static void on_response_body(struct http_client_stream *stream, const char *data, size_t length)
{
	if (length == 0 || rea_buffer_append(&of_client(stream)->body, data, length) != 0)
		abort();
}

static void on_response_end(struct http_client_stream *stream, const struct http_field *trailers, size_t trailers_len)
{
	struct recorder *recorder = of_client(stream);

	flush_body(recorder);
	append(&recorder->log, "end");
	append_fields(&recorder->log, trailers, trailers_len);
	append(&recorder->log, "\n");
	recorder->reusable_at_end = stream->session->reusable;
}

static void on_error(struct http_client_stream *stream, enum http_error error)
{
	struct recorder *recorder = of_client(stream);

	flush_body(recorder);
	append(&recorder->log, "error: ");
	append(&recorder->log, http_error_text(error));
	append(&recorder->log, "\n");
}

static void on_client_writable(struct http_client_stream *stream)
{
	append(&of_client(stream)->log, "writable\n");
}

const struct http_client_events client_events = {
    .on_interim = on_interim,
    .on_response = on_response,
    .on_body = on_response_body,
    .on_body_end = on_response_end,
    .on_error = on_error,
    .on_writable = on_client_writable,
};

int client_feed(struct http_client *client, const char *text)
{
	return http_client_receive(client, text, strlen(text));
}
