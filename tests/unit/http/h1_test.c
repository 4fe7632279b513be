#include "http/h1.h"
#include "recorder.h"

#include <rea/error.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct parsed {
	char head[8192];
	struct h1_fields fields;
	struct http_request request;
	struct http_response response;
	enum h1_framing framing;
	bool persistent;
};

static enum http_error parse(struct parsed *p, const char *head)
{
	snprintf(p->head, sizeof(p->head), "%s", head);
	return h1_request_parse(p->head, strlen(p->head), &limits, &p->fields, &p->request, &p->framing, &p->persistent);
}

static enum http_error parse_response(struct parsed *p, struct h1_asked asked, const char *head)
{
	snprintf(p->head, sizeof(p->head), "%s", head);
	return h1_response_parse(
	    p->head, strlen(p->head), &limits, asked, &p->fields, &p->response, &p->framing, &p->persistent);
}

static void assert_slice(struct rea_slice slice, const char *text)
{
	assert_int_equal(slice.length, strlen(text));
	assert_memory_equal(slice.data, text, slice.length);
}

#define GET "GET / HTTP/1.1\r\nHost: a\r\n"

/* ---- sections ---- */

/*
 * One byte at a time every byte is looked at once: those that were gathered are never searched again, which a changed
 * one proves.
 */
static void a_section_that_drips_in_is_searched_once(void **state)
{
	static const char head[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
	struct h1_section section = {0};
	struct rea_slice whole = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(head) - 1; i++) {
		struct rea_slice in = {head + i, 1};

		assert_int_equal(whole.length, 0);
		assert_int_equal(h1_section_take(&section, 4096, false, &in, &whole), HTTP_ERROR_NONE);
		assert_int_equal(in.length, 0);
		if (i == 5)
			section.bytes.data[2] = '\n';
	}
	assert_int_equal(whole.length, sizeof(head) - 1);
	h1_section_fini(&section);
}

static void a_section_takes_nothing_that_follows_it(void **state)
{
	static const char bytes[] = "a\r\n\r\nrest";
	struct h1_section section = {0};
	struct rea_slice in = {bytes, 9}, whole;

	(void)state;
	assert_int_equal(h1_section_take(&section, 4096, false, &in, &whole), HTTP_ERROR_NONE);
	assert_ptr_equal(whole.data, bytes); /* not copied */
	assert_int_equal(whole.length, 5);
	assert_slice(in, "rest");
	h1_section_clear(&section);
	in = rea_slice_make(bytes, 9);
	assert_int_equal(h1_section_take(&section, 4096, true, &in, &whole), HTTP_ERROR_NONE);
	assert_ptr_equal(whole.data, section.bytes.data); /* kept */
	assert_int_equal(rea_buffer_length(&section.bytes), 5);
	h1_section_fini(&section);
}

static void a_section_has_a_largest_size(void **state)
{
	struct h1_section section = {0};
	struct rea_slice in = REA_SLICE_LIT("abc\r\n\r\n"), whole;

	(void)state;
	assert_int_equal(h1_section_take(&section, 7, false, &in, &whole), HTTP_ERROR_NONE);
	assert_int_equal(whole.length, 7);
	in = REA_SLICE_LIT("abc\r\n\r\n");
	assert_int_equal(h1_section_take(&section, 6, false, &in, &whole), HTTP_ERROR_HEAD_TOO_LARGE);
	h1_section_fini(&section);
}

/* ---- heads ---- */

static void a_request_is_read(void **state)
{
	struct parsed p = {0};

	(void)state;
	assert_int_equal(
	    parse(&p, "POST /a?b HTTP/1.1\r\nHost: c:1\r\nX-Y: \t z \r\nContent-Length: 9223372036854775807\r\n\r\n"),
	    HTTP_ERROR_NONE);
	assert_int_equal(p.request.method_id, HTTP_POST);
	assert_slice(p.request.method, "POST");
	assert_slice(p.request.path, "/a?b");
	assert_slice(p.request.authority, "c:1");
	assert_int_equal(p.request.scheme.length, 0);
	assert_int_equal(p.request.version, 11);
	assert_int_equal(p.request.body_length, INT64_MAX);
	assert_int_equal(p.framing, H1_FRAMING_LENGTH);
	assert_true(p.persistent);
	assert_int_equal(p.request.fields_len, 3);
	assert_slice(p.request.fields[1].name, "X-Y");
	assert_slice(p.request.fields[1].value, "z");
	assert_int_equal(p.request.fields[1].id, HTTP_FIELD_OTHER);
	assert_int_equal(p.request.fields[2].id, HTTP_FIELD_CONTENT_LENGTH);
	h1_fields_fini(&p.fields);
}

static void methods_are_known(void **state)
{
	static const char *const names[] = {
	    "FOO", "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"};

	(void)state;
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(h1_method_of(rea_slice_of(names[i])), i);
	assert_int_equal(h1_method_of(REA_SLICE_LIT("get")), HTTP_OTHER);
	assert_int_equal(h1_method_of(REA_SLICE_LIT("")), HTTP_OTHER);
}

static void absolute_targets_are_split(void **state)
{
	struct parsed p = {0};

	(void)state;
	assert_int_equal(parse(&p, "GET http://b:8/x?y HTTP/1.1\r\nHost: a\r\n\r\n"), HTTP_ERROR_NONE);
	assert_true(p.request.absolute_form);
	assert_slice(p.request.scheme, "http");
	assert_slice(p.request.authority, "b:8"); /* not Host */
	assert_slice(p.request.path, "/x?y");
	assert_int_equal(parse(&p, "GET http://b:8?y HTTP/1.1\r\nHost: a\r\n\r\n"), HTTP_ERROR_NONE);
	assert_slice(p.request.authority, "b:8");
	assert_slice(p.request.path, "/?y");
	assert_int_equal(parse(&p, "GET HTTPS://b HTTP/1.1\r\nHost: a\r\n\r\n"), HTTP_ERROR_NONE);
	assert_slice(p.request.scheme, "HTTPS");
	assert_slice(p.request.authority, "b");
	assert_slice(p.request.path, "/");
	assert_int_equal(parse(&p, "OPTIONS http://b HTTP/1.1\r\nHost: a\r\n\r\n"), HTTP_ERROR_NONE);
	assert_slice(p.request.path, "*");
	h1_fields_fini(&p.fields);
}

static void persistence_follows_version_and_connection(void **state)
{
	static const struct {
		const char *head;
		bool persistent;
	} cases[] = {
	    {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", true},
	    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: Close\r\n\r\n", false},
	    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: x, close\r\n\r\n", false},
	    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n", false},
	    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: closed\r\n\r\n", true},
	    {"GET / HTTP/1.0\r\n\r\n", false},
	    {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true},
	    {"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", false},
	};
	struct parsed p = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(parse(&p, cases[i].head), HTTP_ERROR_NONE);
		assert_int_equal(p.persistent, cases[i].persistent);
	}
	h1_fields_fini(&p.fields);
}

static void upgrade_needs_both_fields_and_version_11(void **state)
{
	struct parsed p = {0};

	(void)state;
	assert_int_equal(parse(&p, GET "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), HTTP_ERROR_NONE);
	assert_true(p.request.upgrade);
	assert_int_equal(parse(&p, GET "Upgrade: websocket\r\n\r\n"), HTTP_ERROR_NONE);
	assert_false(p.request.upgrade);
	assert_int_equal(parse(&p, GET "Connection: upgrade\r\n\r\n"), HTTP_ERROR_NONE);
	assert_false(p.request.upgrade);
	assert_int_equal(parse(&p, "GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"), HTTP_ERROR_NONE);
	assert_false(p.request.upgrade);
	h1_fields_fini(&p.fields);
}

static void expectations(void **state)
{
	struct parsed p = {0};

	(void)state;
	assert_int_equal(parse(&p, GET "Expect: 100-CONTINUE\r\nContent-Length: 1\r\n\r\n"), HTTP_ERROR_NONE);
	assert_true(p.request.expect_continue);
	assert_int_equal(parse(&p, GET "Expect: 100-continue\r\n\r\n"), HTTP_ERROR_NONE);
	assert_false(p.request.expect_continue); /* no body to wait for */
	assert_int_equal(parse(&p, "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"), HTTP_ERROR_NONE);
	assert_false(p.request.expect_continue);
	assert_int_equal(parse(&p, "POST / HTTP/1.0\r\nExpect: more\r\nContent-Length: 1\r\n\r\n"), HTTP_ERROR_NONE);
	assert_int_equal(parse(&p, GET "Expect: 100-continue\r\nExpect: more\r\n\r\n"), HTTP_ERROR_EXPECTATION);
	h1_fields_fini(&p.fields);
}

/* ---- what stays behind ---- */

static bool stays_behind(const struct parsed *p, const char *name)
{
	const struct http_field *field = http_field_named(p->request.fields, p->request.fields_len, rea_slice_of(name));

	assert_non_null(field);
	return field->hop_by_hop;
}

static void connection_level_fields_are_marked(void **state)
{
	static const char *const names[] = {"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate",
	    "Proxy-Authorization", "TE", "Trailer", "Upgrade"};
	struct parsed p = {0};

	(void)state;
	assert_int_equal(
	    parse(&p, GET "Connection: x-hop\r\nX-Hop: 1\r\nx-HOP: 2\r\nX-Hops: 3\r\nKeep-Alive: "
			  "1\r\nProxy-Connection: 1\r\nProxy-Authenticate: 1\r\n"
			  "Proxy-Authorization: 1\r\nTE: 1\r\nTrailer: 1\r\nUpgrade: 1\r\nVia: 1\r\nAccept: 1\r\n\r\n"),
	    HTTP_ERROR_NONE);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		assert_true(stays_behind(&p, names[i]));
	assert_true(p.request.fields[2].hop_by_hop);
	assert_true(p.request.fields[3].hop_by_hop); /* every one of the name */
	assert_false(stays_behind(&p, "X-Hops"));
	assert_false(stays_behind(&p, "Via"));
	assert_false(stays_behind(&p, "Accept"));
	assert_false(stays_behind(&p, "Host"));
	h1_fields_fini(&p.fields);
}

static void connection_cannot_name_away_what_rea_acts_on(void **state)
{
	static const char *const names[] = {"Host", "Content-Length", "Expect", "Date", "Via", "X-Forwarded-For",
	    "Idempotency-Key", "Retry-After", "Traceparent", "Rea-Retry", "Rea-Attempt", "Rea-Deadline-Ms",
	    "Rea-Reason", "Grpc-Previous-Rpc-Attempts", "Grpc-Retry-Pushback-Ms", "X-Envoy-Attempt-Count",
	    "Rpc-Persist-Retryreq", "Amz-Sdk-Request", "Authorization"};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct parsed p = {0};
		char head[256];
		const char *value = strcmp(names[i], "Expect") == 0 ? "100-continue" : "1",
			   *host = strcmp(names[i], "Host") == 0 ? "" : "Host: a\r\n";

		snprintf(head, sizeof(head), "GET / HTTP/1.1\r\n%sConnection: %s\r\n%s: %s\r\n\r\n", host, names[i],
		    names[i], value);
		assert_int_equal(parse(&p, head), HTTP_ERROR_NONE);
		assert_false(stays_behind(&p, names[i]));
		h1_fields_fini(&p.fields);
	}
}

/* ---- limits ---- */

static void fields_are_limited(void **state)
{
	struct parsed p = {0};
	char head[4096] = GET;

	(void)state;
	for (uint32_t i = 1; i < limits.fields; i++)
		strcat(head, "A: b\r\n");
	strcat(head, "\r\n");
	assert_int_equal(parse(&p, head), HTTP_ERROR_NONE);
	assert_int_equal(p.request.fields_len, limits.fields);
	strcpy(head + strlen(head) - 2, "A: b\r\n\r\n");
	assert_int_equal(parse(&p, head), HTTP_ERROR_TOO_MANY_FIELDS);
	h1_fields_fini(&p.fields);
}

static void connection_options_are_limited(void **state)
{
	struct parsed p = {0};
	char head[4096] = GET "Connection: a";

	(void)state;
	for (unsigned i = 1; i < H1_CONNECTION_OPTIONS_MAX; i++)
		strcat(head, ",a");
	strcat(head, "\r\n\r\n");
	assert_int_equal(parse(&p, head), HTTP_ERROR_NONE);
	strcpy(head + strlen(head) - 4, ",a\r\n\r\n");
	assert_int_equal(parse(&p, head), HTTP_ERROR_BAD_FIELD);
	h1_fields_fini(&p.fields);
}

/* Not even where eight bytes are looked at together. */
static void no_control_byte_gets_into_a_value(void **state)
{
	struct parsed p = {0};

	(void)state;
	for (unsigned byte = 0; byte < 256; byte++) {
		bool fine = byte >= ' ' ? byte != 0x7f : byte == '\t';

		for (size_t at = 0; at < 24; at++) {
			char head[96] = GET "X: .........................\r\n\r\n";
			char *value = strstr(head, "X: ") + 3;
			size_t length = strlen(head);

			value[at] = (char)byte;
			assert_int_equal(h1_request_parse(head, length, &limits, &p.fields, &p.request, &p.framing,
					     &p.persistent) == HTTP_ERROR_NONE,
			    fine);
		}
	}
	h1_fields_fini(&p.fields);
}

/* ---- responses ---- */

static void responses_are_framed_by_what_was_asked(void **state)
{
	static const struct h1_asked get = {0}, head = {.head = true}, connect = {.connect = true},
				     upgrade = {.upgrade = true};
	const struct {
		struct h1_asked asked;
		const char *text;
		enum h1_framing framing;
		uint64_t length;
		bool has_body, upgraded, persistent;
	} cases[] = {
	    {get, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", H1_FRAMING_LENGTH, 5, true, false, true},
	    {get, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", H1_FRAMING_NONE, 0, true, false, true},
	    {get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", H1_FRAMING_CHUNKED, HTTP_LENGTH_UNKNOWN,
		true, false, true},
	    {get, "HTTP/1.1 200 OK\r\n\r\n", H1_FRAMING_CLOSE, HTTP_LENGTH_UNKNOWN, true, false, false},
	    {get, "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\n", H1_FRAMING_LENGTH, 5, true,
		false, true},
	    {get, "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", H1_FRAMING_LENGTH, 5, true, false, false},
	    {head, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", H1_FRAMING_NONE, 5, false, false, true},
	    {head, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", H1_FRAMING_NONE, HTTP_LENGTH_UNKNOWN, false,
		false, true},
	    {get, "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", H1_FRAMING_NONE, 5, false, false, true},
	    {get, "HTTP/1.1 204 No Content\r\n\r\n", H1_FRAMING_NONE, HTTP_LENGTH_UNKNOWN, false, false, true},
	    {get, "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", H1_FRAMING_NONE, HTTP_LENGTH_UNKNOWN, false,
		false, true},
	    {get, "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", H1_FRAMING_NONE, HTTP_LENGTH_UNKNOWN, false,
		false, false},
	    {get, "HTTP/1.1 100 Continue\r\n\r\n", H1_FRAMING_NONE, HTTP_LENGTH_UNKNOWN, false, false, true},
	    {connect, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", H1_FRAMING_CLOSE, HTTP_LENGTH_UNKNOWN, false, true, false},
	    {connect, "HTTP/1.1 403 No\r\nContent-Length: 5\r\n\r\n", H1_FRAMING_LENGTH, 5, true, false, true},
	    {upgrade, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", H1_FRAMING_CLOSE,
		HTTP_LENGTH_UNKNOWN, false, true, false},
	    {upgrade, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", H1_FRAMING_LENGTH, 5, true, false, true},
	};
	struct parsed p = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (parse_response(&p, cases[i].asked, cases[i].text) != HTTP_ERROR_NONE)
			fail_msg("refused: %s", cases[i].text);
		if (p.framing != cases[i].framing || p.response.body_length != cases[i].length ||
		    p.response.has_body != cases[i].has_body || p.response.upgraded != cases[i].upgraded ||
		    p.persistent != cases[i].persistent)
			fail_msg("%s: framing %d length %lld body %d upgraded %d persistent %d", cases[i].text, p.framing,
			    (long long)p.response.body_length, p.response.has_body, p.response.upgraded, p.persistent);
	}
	h1_fields_fini(&p.fields);
}

/* ---- bodies ---- */

/* What a chunked body of these bytes comes to: its pieces joined, "|", its trailers; or the error. */
static const char *dechunk(const char *bytes)
{
	static char text[4096];
	struct h1_body body = {0};
	struct rea_slice in = rea_slice_of(bytes), piece;
	enum http_error error = HTTP_ERROR_NONE;
	enum h1_event event;

	text[0] = '\0';
	h1_body_begin(&body, H1_FRAMING_CHUNKED, 0);
	while ((event = h1_body_next(&body, &limits, &in, &piece, &error)) == H1_PIECE)
		strncat(text, piece.data, piece.length);
	if (event == H1_BAD)
		snprintf(text, sizeof(text), "%s", http_error_text(error));
	strcat(text, event == H1_MORE ? "..." : "|");
	for (size_t i = 0; i < body.trailers.length; i++)
		strncat(text, body.trailers.items[i].name.data,
		    body.trailers.items[i].name.length + 2 + body.trailers.items[i].value.length);
	h1_body_fini(&body);
	return text;
}

static void chunks_are_joined(void **state)
{
	(void)state;
	assert_string_equal(dechunk("5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"), "hello!|");
	assert_string_equal(dechunk("5\r\nhel"), "hel...");
	assert_string_equal(dechunk("0\r\n"), "...");
	assert_string_equal(dechunk("7fffffffffffffff\r\nx"), "x...");
	assert_string_equal(dechunk("8000000000000000\r\nx"), "malformed chunk|");
	assert_string_equal(dechunk("0000000000000001\r\nx\r\n0\r\n\r\n"), "x|");
	assert_string_equal(dechunk("00000000000000001\r\nx\r\n0\r\n\r\n"), "malformed chunk|");
}

static void forbidden_trailers_are_dropped(void **state)
{
	(void)state;
	assert_string_equal(
	    dechunk("0\r\nX-Sum: 1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nHost: b\r\nConnection: "
		    "close\r\nAuthorization: x\r\nCookie: c\r\n"
		    "Content-Type: a/b\r\nSet-Cookie: d\r\nIdempotency-Key: k\r\nVia: v\r\nrea-retry: stop\r\n\r\n"),
	    "|X-Sum: 1rea-retry: stop");
}

static void chunk_extensions_are_limited(void **state)
{
	char bytes[256] = "1;";

	(void)state;
	memset(bytes + 2, 'a', limits.chunk_ext_bytes - 1);
	strcpy(bytes + 1 + limits.chunk_ext_bytes, "\r\nx\r\n0\r\n\r\n");
	assert_string_equal(dechunk(bytes), "x|");
	strcpy(bytes + 1 + limits.chunk_ext_bytes, "a\r\nx\r\n0\r\n\r\n");
	assert_string_equal(dechunk(bytes), "chunk extension too large|");
	memset(bytes + 2, 'a', 200); /* no end in sight */
	bytes[202] = '\0';
	assert_string_equal(dechunk(bytes), "chunk extension too large|");
}

static void trailers_are_limited(void **state)
{
	char bytes[2048] = "0\r\nX: ";
	size_t room = limits.trailer_bytes - 3 - 4; /* "X: " and the line ends */

	(void)state;
	memset(bytes + 6, 'a', room);
	strcpy(bytes + 6 + room, "\r\n\r\n");
	assert_int_equal(strlen(bytes) - 3, limits.trailer_bytes);
	assert_int_equal(dechunk(bytes)[0], '|');
	strcpy(bytes + 6 + room, "a\r\n\r\n");
	assert_string_equal(dechunk(bytes), "trailer section too large|");
	strcpy(bytes, "0\r\n");
	for (uint32_t i = 0; i < limits.fields; i++)
		strcat(bytes, "A: b\r\n");
	strcat(bytes, "\r\n");
	assert_int_equal(dechunk(bytes)[0], '|');
	strcpy(bytes + strlen(bytes) - 2, "A: b\r\n\r\n");
	assert_string_equal(dechunk(bytes), "too many header fields|");
}

static void a_known_length_ends_exactly(void **state)
{
	struct h1_body body = {0};
	struct rea_slice in = REA_SLICE_LIT("hello, GET"), piece;
	enum http_error error;

	(void)state;
	h1_body_begin(&body, H1_FRAMING_LENGTH, 5);
	assert_false(h1_body_ended(&body));
	assert_int_equal(h1_body_next(&body, &limits, &in, &piece, &error), H1_PIECE);
	assert_slice(piece, "hello");
	assert_true(h1_body_ended(&body));
	assert_int_equal(h1_body_next(&body, &limits, &in, &piece, &error), H1_END);
	assert_slice(in, ", GET");
	h1_body_begin(&body, H1_FRAMING_CLOSE, 0);
	assert_int_equal(h1_body_next(&body, &limits, &in, &piece, &error), H1_PIECE);
	assert_int_equal(h1_body_next(&body, &limits, &in, &piece, &error), H1_MORE);
	assert_false(h1_body_ended(&body));
	h1_body_fini(&body);
}

/* ---- writing ---- */

static const struct http_field sample[] = {
    {REA_SLICE_LIT("Host"), REA_SLICE_LIT("old"), HTTP_FIELD_HOST, false},
    {REA_SLICE_LIT("Connection"), REA_SLICE_LIT("x-hop, upgrade"), HTTP_FIELD_CONNECTION, true},
    {REA_SLICE_LIT("X-Hop"), REA_SLICE_LIT("1"), HTTP_FIELD_OTHER, true},
    {REA_SLICE_LIT("Upgrade"), REA_SLICE_LIT("websocket"), HTTP_FIELD_UPGRADE, true},
    {REA_SLICE_LIT("Content-Length"), REA_SLICE_LIT("99"), HTTP_FIELD_CONTENT_LENGTH, false},
    {REA_SLICE_LIT("Expect"), REA_SLICE_LIT("100-continue"), HTTP_FIELD_EXPECT, false},
    {REA_SLICE_LIT("Transfer-Encoding"), REA_SLICE_LIT("chunked"), HTTP_FIELD_TRANSFER_ENCODING, false},
    {REA_SLICE_LIT("Via"), REA_SLICE_LIT("1.1 x"), HTTP_FIELD_VIA, false},
    {REA_SLICE_LIT("Accept"), REA_SLICE_LIT("*/*"), HTTP_FIELD_OTHER, false},
    {REA_SLICE_LIT("X-Empty"), {NULL, 0}, HTTP_FIELD_OTHER, false},
};
#define SAMPLE .fields = sample, .fields_len = sizeof(sample) / sizeof(*sample)

static void requests_are_written(void **state)
{
	static const struct http_field more[] = {
	    {REA_SLICE_LIT("Via"), REA_SLICE_LIT("1.1 x, 1.1 rea"), HTTP_FIELD_VIA, false}};
	struct rea_buffer out = {0};
	struct http_request_head head = {.method = REA_SLICE_LIT("POST"),
	    .authority = REA_SLICE_LIT("b:1"),
	    .path = REA_SLICE_LIT("/x"),
	    SAMPLE,
	    .skip = UINT64_C(1) << HTTP_FIELD_VIA,
	    .more = more,
	    .more_len = 1,
	    .body_length = 12};

	(void)state;
	assert_int_equal(h1_request_write(&out, &head, H1_FRAMING_LENGTH), 0);
	assert_string_equal(taken(&out), "POST /x HTTP/1.1\\r\\nHost: b:1\\r\\nAccept: */*\\r\\nX-Empty: \\r\\nVia: "
					 "1.1 x, 1.1 rea\\r\\nContent-Length: 12\\r\\n\\r\\n");
	head.more_len = 0;
	head.skip = 0;
	head.upgrade = true;
	assert_int_equal(h1_request_write(&out, &head, H1_FRAMING_CHUNKED), 0);
	assert_string_equal(taken(&out), "POST /x HTTP/1.1\\r\\nHost: b:1\\r\\nUpgrade: websocket\\r\\nVia: 1.1 "
					 "x\\r\\nAccept: */*\\r\\nX-Empty: \\r\\nTransfer-Encoding: chunked\\r\\n"
					 "Connection: upgrade\\r\\n\\r\\n");
	head = (struct http_request_head){.method = REA_SLICE_LIT("CONNECT"), .authority = REA_SLICE_LIT("b:1")};
	assert_int_equal(h1_request_write(&out, &head, H1_FRAMING_NONE), 0);
	assert_string_equal(taken(&out), "CONNECT b:1 HTTP/1.1\\r\\nHost: b:1\\r\\n\\r\\n");
	rea_buffer_fini(&out);
}

static void responses_are_written(void **state)
{
	static const struct http_field more[] = {
	    {REA_SLICE_LIT("rea-retry"), REA_SLICE_LIT("stop"), HTTP_FIELD_REA_RETRY, false}};
	struct rea_buffer out = {0};
	struct http_response_head head = {.status = 200, SAMPLE, .body_length = UINT64_MAX - 1, .more = more, .more_len = 1};

	(void)state;
	head.fields++; /* Host is no field of a response */
	head.fields_len--;
	assert_int_equal(h1_response_write(&out, &head, H1_FRAMING_LENGTH, H1_CONNECTION_KEEP_ALIVE), 0);
	assert_string_equal(taken(&out),
	    "HTTP/1.1 200 OK\\r\\nExpect: 100-continue\\r\\nVia: 1.1 x\\r\\nAccept: */*\\r\\nX-Empty: \\r\\nrea-retry: "
	    "stop\\r\\n"
	    "Content-Length: 18446744073709551614\\r\\nConnection: keep-alive\\r\\n\\r\\n");
	head = (struct http_response_head){.status = 101, .fields = sample + 1, .fields_len = 3};
	assert_int_equal(h1_response_write(&out, &head, H1_FRAMING_CLOSE, H1_CONNECTION_UPGRADE), 0);
	assert_string_equal(taken(&out),
	    "HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: upgrade\\r\\n\\r\\n");
	head = (struct http_response_head){
	    .status = 299, .reason = REA_SLICE_LIT("As You Like"), .body_length = HTTP_LENGTH_UNKNOWN};
	assert_int_equal(h1_response_write(&out, &head, H1_FRAMING_NONE, H1_CONNECTION_CLOSE), 0);
	assert_string_equal(taken(&out), "HTTP/1.1 299 As You Like\\r\\nConnection: close\\r\\n\\r\\n");
	head = (struct http_response_head){.status = 299, .body_length = HTTP_LENGTH_UNKNOWN};
	assert_int_equal(h1_response_write(&out, &head, H1_FRAMING_CHUNKED, H1_CONNECTION_DEFAULT), 0);
	assert_string_equal(taken(&out), "HTTP/1.1 299 \\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n");
	assert_int_equal(h1_interim_write(&out, 103, sample + 7, 2), 0);
	assert_string_equal(taken(&out), "HTTP/1.1 103 Early Hints\\r\\nVia: 1.1 x\\r\\nAccept: */*\\r\\n\\r\\n");
	rea_buffer_fini(&out);
}

static void bodies_are_written_as_framed(void **state)
{
	struct rea_buffer out = {0};
	struct h1_sending chunked = {.framing = H1_FRAMING_CHUNKED}, length = {H1_FRAMING_LENGTH, 5},
			  none = {.framing = H1_FRAMING_NONE};

	(void)state;
	assert_int_equal(h1_sending_write(&chunked, &out, "hello, world, and", 17), 0);
	assert_int_equal(h1_sending_write(&chunked, &out, "", 0), 0);
	assert_int_equal(h1_sending_finish(&chunked, &out, sample + 6, 3), 0);
	assert_string_equal(
	    taken(&out), "11\\r\\nhello, world, and\\r\\n0\\r\\nVia: 1.1 x\\r\\nAccept: */*\\r\\n\\r\\n");
	assert_int_equal(h1_sending_write(&length, &out, "hel", 3), 0);
	assert_int_equal(h1_sending_finish(&length, &out, NULL, 0), REA_ERR_INVALID);
	assert_int_equal(h1_sending_write(&length, &out, "lo!", 3), REA_ERR_INVALID);
	assert_int_equal(h1_sending_write(&length, &out, "lo", 2), 0);
	assert_int_equal(h1_sending_finish(&length, &out, sample, 1), 0);
	assert_string_equal(taken(&out), "hello");
	assert_int_equal(h1_sending_write(&none, &out, "hello", 5), 0);
	assert_int_equal(h1_sending_finish(&none, &out, sample, 1), 0);
	assert_string_equal(taken(&out), "");
	rea_buffer_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_section_that_drips_in_is_searched_once),
	    cmocka_unit_test(a_section_takes_nothing_that_follows_it),
	    cmocka_unit_test(a_section_has_a_largest_size),
	    cmocka_unit_test(a_request_is_read),
	    cmocka_unit_test(methods_are_known),
	    cmocka_unit_test(absolute_targets_are_split),
	    cmocka_unit_test(persistence_follows_version_and_connection),
	    cmocka_unit_test(upgrade_needs_both_fields_and_version_11),
	    cmocka_unit_test(expectations),
	    cmocka_unit_test(connection_level_fields_are_marked),
	    cmocka_unit_test(connection_cannot_name_away_what_rea_acts_on),
	    cmocka_unit_test(fields_are_limited),
	    cmocka_unit_test(connection_options_are_limited),
	    cmocka_unit_test(no_control_byte_gets_into_a_value),
	    cmocka_unit_test(responses_are_framed_by_what_was_asked),
	    cmocka_unit_test(chunks_are_joined),
	    cmocka_unit_test(forbidden_trailers_are_dropped),
	    cmocka_unit_test(chunk_extensions_are_limited),
	    cmocka_unit_test(trailers_are_limited),
	    cmocka_unit_test(a_known_length_ends_exactly),
	    cmocka_unit_test(requests_are_written),
	    cmocka_unit_test(responses_are_written),
	    cmocka_unit_test(bodies_are_written_as_framed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
