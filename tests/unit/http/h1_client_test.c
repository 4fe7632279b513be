#include "http/h1.h"
#include "oom.h"
#include "recorder.h"

#include <rea/error.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct fixture {
	struct recorder recorder;
	struct http_client *client;
	struct http_client_stream *stream;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	oom_start(0, false);
	f->recorder.log.alloc = f->recorder.body.alloc = &oom_exempt;
	f->client = h1_client_new(&client_events, &limits, &f->recorder);
	*state = f;
	return f->client ? 0 : -1;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	http_client_free(f->client);
	recorder_fini(&f->recorder);
	free(f);
	return 0;
}

#define assert_log(f, text) assert_string_equal(recorder_text(&(f)->recorder), text)
#define assert_sent(f, text) assert_string_equal(taken(&(f)->client->out), text)

static struct http_request_head head_of(const char *method, uint64_t body_length)
{
	return (struct http_request_head){.method = rea_slice_of(method),
	    .authority = REA_SLICE_LIT("a"),
	    .path = REA_SLICE_LIT("/x"),
	    .body_length = body_length};
}

static void begin(struct fixture *f, const char *method, uint64_t body_length)
{
	struct http_request_head head = head_of(method, body_length);

	f->stream = http_client_begin(f->client, &head, f);
	assert_non_null(f->stream);
	assert_ptr_equal(f->stream->user, f);
}

/* A request without a body, sent. */
static void ask(struct fixture *f, const char *method)
{
	begin(f, method, 0);
	assert_int_equal(http_client_finish(f->stream, NULL, 0), 0);
	taken(&f->client->out);
}

#define OK5 "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
#define OK5_LOG "response 200 OK 1.1 length 5 [Content-Length:5]\n"

/* ---- requests ---- */

static void requests_are_framed_by_method_and_length(void **state)
{
	static const struct {
		const char *method;
		uint64_t length;
		const char *sent;
	} cases[] = {
	    {"GET", 0, "GET /x HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"},
	    {"DELETE", 0, "DELETE /x HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"},
	    {"POST", 0, "POST /x HTTP/1.1\\r\\nHost: a\\r\\nContent-Length: 0\\r\\n\\r\\n"},
	    {"PUT", 0, "PUT /x HTTP/1.1\\r\\nHost: a\\r\\nContent-Length: 0\\r\\n\\r\\n"},
	    {"PATCH", 0, "PATCH /x HTTP/1.1\\r\\nHost: a\\r\\nContent-Length: 0\\r\\n\\r\\n"},
	    {"GET", 2, "GET /x HTTP/1.1\\r\\nHost: a\\r\\nContent-Length: 2\\r\\n\\r\\nhi"},
	    {"POST", HTTP_LENGTH_UNKNOWN, "POST /x HTTP/1.1\\r\\nHost: a\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n2\\r\\nhi\\r\\n0\\r\\n\\r\\n"},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		begin(f, cases[i].method, cases[i].length);
		if (cases[i].length > 0)
			assert_int_equal(http_client_write(f->stream, "hi", 2), 0);
		assert_int_equal(http_client_finish(f->stream, NULL, 0), 0);
		assert_sent(f, cases[i].sent);
		assert_int_equal(client_feed(f->client, "HTTP/1.1 204 No Content\r\n\r\n"), 0);
	}
}

static void a_session_takes_one_exchange_at_a_time(void **state)
{
	struct fixture *f = *state;
	struct http_request_head head = head_of("GET", 0);

	assert_true(f->client->reusable);
	begin(f, "GET", 0);
	assert_false(f->client->reusable);
	assert_null(http_client_begin(f->client, &head, NULL));
	assert_sent(f, "GET /x HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n");
}

static void a_body_must_have_its_length(void **state)
{
	struct fixture *f = *state;

	begin(f, "POST", 5);
	assert_int_equal(http_client_write(f->stream, "hello!", 6), REA_ERR_INVALID);
	assert_int_equal(http_client_write(f->stream, "hell", 4), 0);
	assert_int_equal(http_client_finish(f->stream, NULL, 0), REA_ERR_INVALID);
}

/* ---- responses ---- */

static void a_response_and_the_next(void **state)
{
	struct fixture *f = *state;

	ask(f, "GET");
	assert_int_equal(client_feed(f->client, OK5 "hel"), 0);
	assert_log(f, OK5_LOG "body hel\n");
	assert_false(f->client->reusable);
	assert_int_equal(client_feed(f->client, "lo"), 0);
	assert_log(f, "body lo\nend\n");
	assert_true(f->recorder.reusable_at_end);
	assert_true(f->client->reusable);
	ask(f, "GET");
	assert_int_equal(
	    client_feed(f->client,
		"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 1\r\nHost: b\r\n\r\n"),
	    0);
	assert_log(f, "response 200  1.1 length ? ![Transfer-Encoding:chunked]\nbody hi\nend [X-Sum:1]\n");
	assert_true(f->client->reusable);
}

static void what_ends_a_connection_is_not_reusable(void **state)
{
	static const char *const responses[] = {
	    "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
	    "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
	    "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
	};
	(void)state;
	for (size_t i = 0; i < sizeof(responses) / sizeof(*responses); i++) {
		struct fixture *f;
		struct http_request_head head = head_of("GET", 0);

		set_up((void **)&f);
		ask(f, "GET");
		assert_int_equal(client_feed(f->client, responses[i]), 0);
		assert_non_null(strstr(recorder_text(&f->recorder), "\nend\n"));
		assert_false(f->recorder.reusable_at_end);
		assert_false(f->client->reusable);
		assert_null(http_client_begin(f->client, &head, NULL));
		tear_down((void **)&f);
	}
}

static void bytes_behind_a_response_are_not_the_next_one(void **state)
{
	struct fixture *f = *state;

	ask(f, "GET");
	assert_int_equal(client_feed(f->client, OK5 "hello" OK5 "again"), REA_ERR_SYNTAX);
	assert_log(f, OK5_LOG "body hello\nend\n");
	assert_false(f->recorder.reusable_at_end);
	assert_false(f->client->reusable);
}

static void bytes_nobody_asked_for_kill_an_idle_session(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(client_feed(f->client, "HTTP/1.1 408 Request Timeout\r\n\r\n"), REA_ERR_SYNTAX);
	assert_false(f->client->reusable);
	assert_log(f, "");
}

static void the_end_of_an_idle_session(void **state)
{
	struct fixture *f = *state;

	http_client_eof(f->client);
	assert_false(f->client->reusable);
	assert_log(f, "");
}

static void responses_until_close(void **state)
{
	struct fixture *f = *state;

	ask(f, "GET");
	assert_int_equal(client_feed(f->client, "HTTP/1.1 200 OK\r\n\r\nhel"), 0);
	assert_int_equal(client_feed(f->client, "lo"), 0);
	http_client_eof(f->client);
	assert_log(f, "response 200 OK 1.1 length ?\nbody hello\nend\n");
	assert_false(f->client->reusable);
}

/* A reset ends nothing: what only the end of the connection could end is cut. */
static void a_reset_is_no_end(void **state)
{
	struct fixture *f = *state;

	ask(f, "GET");
	assert_int_equal(client_feed(f->client, "HTTP/1.1 200 OK\r\n\r\nhel"), 0);
	f->client->broken = true;
	http_client_eof(f->client);
	assert_log(f, "response 200 OK 1.1 length ?\nbody hel\nerror: the peer closed in the middle of a message\n");
}

static void cut_responses(void **state)
{
	static const char *const cut[] = {
	    "", "HTTP/1.1 2", OK5 "hell", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"};

	(void)state;
	for (size_t i = 0; i < sizeof(cut) / sizeof(*cut); i++) {
		struct fixture *f;

		set_up((void **)&f);
		ask(f, "GET");
		assert_int_equal(client_feed(f->client, cut[i]), 0);
		http_client_eof(f->client);
		assert_non_null(
		    strstr(recorder_text(&f->recorder), "error: the peer closed in the middle of a message\n"));
		tear_down((void **)&f);
	}
}

static void interim_responses(void **state)
{
	struct fixture *f = *state;

	ask(f, "GET");
	for (unsigned i = 0; i < H1_INTERIM_MAX; i++)
		assert_int_equal(client_feed(f->client, "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"), 0);
	assert_string_equal(recorder_text(&f->recorder) +
				strlen("interim 103 Early Hints 1.1 length ? bodiless [Link:a]\n") * (H1_INTERIM_MAX - 1),
	    "interim 103 Early Hints 1.1 length ? bodiless [Link:a]\n");
	assert_int_equal(client_feed(f->client, OK5 "hello"), 0);
	assert_log(f, OK5_LOG "body hello\nend\n");
	ask(f, "GET"); /* counts anew */
	for (unsigned i = 0; i < H1_INTERIM_MAX; i++)
		assert_int_equal(client_feed(f->client, "HTTP/1.1 100 Continue\r\n\r\n"), 0);
	recorder_text(&f->recorder);
	assert_int_equal(client_feed(f->client, "HTTP/1.1 100 Continue\r\n\r\n"), REA_ERR_SYNTAX);
	assert_log(f, "error: bytes nobody asked for\n");
}

static void heads_are_limited(void **state)
{
	struct fixture *f = *state;
	char head[8192] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: ";
	size_t prefix = strlen(head), room = limits.head_bytes - prefix - 4;

	memset(head + prefix, 'x', room);
	strcpy(head + prefix + room, "\r\n\r\n");
	ask(f, "GET");
	assert_int_equal(client_feed(f->client, head), 0);
	recorder_text(&f->recorder);
	strcpy(head + prefix + room, "x\r\n\r\n");
	ask(f, "GET");
	assert_int_equal(client_feed(f->client, head), REA_ERR_SYNTAX);
	assert_log(f, "error: message head too large\n");
}

static void the_keep_alive_hint(void **state)
{
	static const struct {
		const char *field;
		uint32_t hint;
	} cases[] = {
	    {"Keep-Alive: timeout=5, max=100\r\n", 5},
	    {"Keep-Alive: max=1, Timeout=75\r\n", 75},
	    {"Keep-Alive: timeout=\r\n", 0},
	    {"Keep-Alive: timeout=4294967296\r\n", 0},
	    {"Keep-Alive: max=3\r\n", 0},
	    {"Keep-Alive:\r\n", 0},
	    {"", 0},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char response[128];

		snprintf(response, sizeof(response), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n%s\r\n", cases[i].field);
		ask(f, "GET");
		assert_int_equal(client_feed(f->client, response), 0);
		assert_int_equal(f->client->keep_alive_s, cases[i].hint);
	}
}

/* ---- early responses ---- */

static void an_early_response_is_reusable_once_the_request_is_finished(void **state)
{
	struct fixture *f = *state;

	begin(f, "POST", 5);
	assert_int_equal(http_client_write(f->stream, "he", 2), 0);
	assert_int_equal(client_feed(f->client, OK5 "hello"), 0);
	assert_log(f, OK5_LOG "body hello\nend\n");
	assert_false(f->recorder.reusable_at_end);
	assert_false(f->client->reusable);
	assert_int_equal(http_client_write(f->stream, "llo", 3), 0);
	assert_int_equal(http_client_finish(f->stream, NULL, 0), 0);
	assert_true(f->client->reusable);
	ask(f, "GET");
}

static void bytes_behind_an_early_response_kill(void **state)
{
	struct fixture *f = *state;

	begin(f, "POST", 5);
	assert_int_equal(client_feed(f->client, OK5 "hello"), 0);
	recorder_text(&f->recorder);
	assert_int_equal(client_feed(f->client, "H"), REA_ERR_SYNTAX);
	assert_log(f, ""); /* the response was told already */
	assert_int_equal(http_client_write(f->stream, "hello", 5), REA_ERR_IO);
	assert_int_equal(http_client_finish(f->stream, NULL, 0), REA_ERR_IO);
}

/* ---- pauses, cancelling, tunnels ---- */

static void pause_holds_the_body(void **state)
{
	struct fixture *f = *state;

	f->recorder.pause = true;
	ask(f, "GET");
	assert_int_equal(client_feed(f->client, OK5), 0);
	assert_false(f->client->reading_paused);
	assert_int_equal(client_feed(f->client, "hel"), 0);
	assert_true(f->client->reading_paused);
	assert_int_equal(client_feed(f->client, "lo"), 0);
	assert_log(f, OK5_LOG);
	assert_int_equal(http_client_resume(f->stream), 0);
	assert_log(f, "body hello\nend\n");
	assert_false(f->client->reading_paused);
	assert_true(f->client->reusable);
}

static void the_end_waits_for_what_is_held(void **state)
{
	struct fixture *f = *state;

	f->recorder.pause = true;
	ask(f, "GET");
	assert_int_equal(client_feed(f->client, "HTTP/1.1 200 OK\r\n\r\nhello"), 0);
	http_client_eof(f->client);
	assert_log(f, "response 200 OK 1.1 length ?\n");
	http_client_resume(f->stream);
	assert_log(f, "body hello\nend\n");
}

static void cancel_ends_it(void **state)
{
	struct fixture *f = *state;

	f->recorder.pause = true;
	ask(f, "GET");
	assert_int_equal(client_feed(f->client, OK5 "he"), 0);
	recorder_text(&f->recorder);
	http_client_cancel(f->stream);
	assert_false(f->client->reading_paused);
	assert_true(client_feed(f->client, "llo") < 0);
	http_client_eof(f->client);
	assert_log(f, "");
	assert_false(f->client->reusable);
}

static void an_upgrade_becomes_a_tunnel(void **state)
{
	struct fixture *f = *state;
	const struct http_field upgrade = {REA_SLICE_LIT("Upgrade"), REA_SLICE_LIT("echo"), HTTP_FIELD_UPGRADE, true};
	struct http_request_head head = head_of("GET", 0);

	head.fields = &upgrade;
	head.fields_len = 1;
	head.upgrade = true;
	f->stream = http_client_begin(f->client, &head, NULL);
	http_client_finish(f->stream, NULL, 0);
	assert_sent(f, "GET /x HTTP/1.1\\r\\nHost: a\\r\\nUpgrade: echo\\r\\nConnection: upgrade\\r\\n\\r\\n");
	assert_int_equal(client_feed(f->client,
			     "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nearly"),
	    0);
	assert_log(f, "response 101 Switching Protocols 1.1 length ? bodiless upgraded ![Connection:upgrade] "
		      "![Upgrade:echo]\nbody early\n");
	assert_int_equal(http_client_write(f->stream, "raw", 3), 0);
	assert_sent(f, "raw");
	http_client_pause(f->stream);
	assert_int_equal(client_feed(f->client, "held"), 0);
	assert_log(f, "");
	assert_int_equal(http_client_resume(f->stream), 0);
	assert_log(f, "body held\n");
	http_client_eof(f->client);
	assert_log(f, "end\n");
	assert_false(f->client->reusable);
}

static void an_upgrade_nobody_asked_for_is_an_error(void **state)
{
	struct fixture *f = *state;

	ask(f, "GET");
	assert_int_equal(client_feed(f->client, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n\r\n"), REA_ERR_SYNTAX);
	assert_log(f, "error: bytes nobody asked for\n");
}

static void an_upgrade_before_the_request_has_ended_is_an_error(void **state)
{
	struct fixture *f = *state;
	struct http_request_head head = head_of("POST", 5);

	head.upgrade = true;
	f->stream = http_client_begin(f->client, &head, NULL);
	assert_int_equal(client_feed(f->client, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n\r\n"), REA_ERR_SYNTAX);
	assert_log(f, "error: bytes nobody asked for\n");
}

static void connect_becomes_a_tunnel(void **state)
{
	struct fixture *f = *state;

	begin(f, "CONNECT", 0);
	http_client_finish(f->stream, NULL, 0);
	assert_sent(f, "CONNECT a HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n");
	assert_int_equal(client_feed(f->client, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nHTTP"), 0);
	assert_log(f, "response 200 OK 1.1 length ? bodiless upgraded [Content-Length:2]\nbody HTTP\n");
	http_client_cancel(f->stream);
}

/* ---- what callees do inside callbacks ---- */

static struct http_client *inner;
static size_t seen_unread[3];
static unsigned begun;

static void ignore_response(struct http_client_stream *stream, const struct http_response *response)
{
	(void)response;
	seen_unread[0] = stream->session->unread;
}

static void note_body(struct http_client_stream *stream, const char *data, size_t length)
{
	(void)data;
	(void)length;
	seen_unread[1] = stream->session->unread;
}

static void begin_again(struct http_client_stream *stream, const struct http_field *trailers, size_t trailers_len)
{
	struct http_request_head head = head_of("GET", 0);

	(void)trailers;
	(void)trailers_len;
	seen_unread[2] = stream->session->unread;
	if (++begun < 3) {
		stream = http_client_begin(inner, &head, NULL);
		assert_non_null(stream);
		assert_int_equal(http_client_finish(stream, NULL, 0), 0);
	}
}

static void cancel_in_body(struct http_client_stream *stream, const char *data, size_t length)
{
	(void)data;
	(void)length;
	http_client_cancel(stream);
}

static void fail_here(struct http_client_stream *stream, enum http_error error)
{
	(void)stream;
	fail_msg("%s", http_error_text(error));
}

static void the_next_exchange_may_begin_at_the_end_of_the_last(void **state)
{
	static const struct http_client_events events = {
	    .on_interim = ignore_response,
	    .on_response = ignore_response,
	    .on_body = note_body,
	    .on_body_end = begin_again,
	    .on_error = fail_here,
	};
	struct http_request_head head = head_of("GET", 0);

	(void)state;
	begun = 0;
	inner = h1_client_new(&events, &limits, NULL);
	http_client_finish(http_client_begin(inner, &head, NULL), NULL, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(client_feed(inner, OK5 "hello"), 0);
	assert_int_equal(begun, 3);
	assert_true(inner->reusable);
	assert_string_equal(taken(&inner->out), "GET /x HTTP/1.1\\r\\nHost: a\\r\\n\\r\\nGET /x HTTP/1.1\\r\\nHost: "
						"a\\r\\n\\r\\nGET /x HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n");
	http_client_free(inner);
}

static void unread_bytes_are_seen_in_callbacks(void **state)
{
	static const struct http_client_events events = {
	    .on_interim = ignore_response,
	    .on_response = ignore_response,
	    .on_body = note_body,
	    .on_body_end = begin_again,
	    .on_error = fail_here,
	};
	struct http_request_head head = head_of("GET", 0);

	(void)state;
	begun = 3;
	inner = h1_client_new(&events, &limits, NULL);
	http_client_finish(http_client_begin(inner, &head, NULL), NULL, 0);
	client_feed(inner, OK5 "hello!!");
	assert_int_equal(seen_unread[0], 7);
	assert_int_equal(seen_unread[1], 2);
	assert_int_equal(seen_unread[2], 2);
	assert_int_equal(inner->unread, 0);
	http_client_free(inner);
}

static void cancel_inside_a_callback(void **state)
{
	static const struct http_client_events events = {
	    .on_interim = ignore_response,
	    .on_response = ignore_response,
	    .on_body = cancel_in_body,
	    .on_body_end = begin_again,
	    .on_error = fail_here,
	};
	struct http_request_head head = head_of("GET", 0);

	(void)state;
	begun = 0;
	inner = h1_client_new(&events, &limits, NULL);
	http_client_finish(http_client_begin(inner, &head, NULL), NULL, 0);
	assert_int_equal(client_feed(inner, OK5 "hello"), REA_ERR_IO);
	assert_int_equal(begun, 0);
	http_client_free(inner);
}

/* ---- client and server together ---- */

static void carry(struct rea_buffer *from, struct http_client *to_client, struct http_server *to_server, size_t step)
{
	while (rea_buffer_length(from) > 0) {
		char piece[16];
		size_t length = rea_buffer_length(from) < step ? rea_buffer_length(from) : step;

		memcpy(piece, rea_buffer_data(from), length);
		rea_buffer_consume(from, length);
		assert_int_equal(to_client ? http_client_receive(to_client, piece, length)
					   : http_server_receive(to_server, piece, length),
		    0);
	}
}

static void what_one_session_writes_the_other_reads(void **state)
{
	struct fixture *f = *state;
	const struct http_field field = {REA_SLICE_LIT("X-A"), REA_SLICE_LIT("b"), HTTP_FIELD_OTHER, false};

	for (size_t step = 1; step <= 16; step++) {
		struct recorder served = {.answer = "answer"};
		struct http_server *server = h1_server_new(&server_events, &limits, &served);
		struct http_request_head head = head_of("POST", HTTP_LENGTH_UNKNOWN);

		head.fields = &field;
		head.fields_len = 1;
		for (int i = 0; i < 3; i++) {
			f->stream = http_client_begin(f->client, &head, NULL);
			assert_int_equal(http_client_write(f->stream, "request body", 12), 0);
			assert_int_equal(http_client_finish(f->stream, &field, 1), 0);
			carry(&f->client->out, NULL, server, step);
			assert_string_equal(recorder_text(&served),
			    "request POST /x of a 1.1 length ? [Host:a] [X-A:b] "
			    "![Transfer-Encoding:chunked]\nbody request body\nend [X-A:b]\n");
			carry(&server->out, f->client, NULL, step);
			assert_log(f, "response 200 OK 1.1 length 6 [Content-Length:6]\nbody answer\nend\n");
		}
		http_server_free(server);
		recorder_fini(&served);
	}
}

/* ---- memory ---- */

static void steady_state_allocates_nothing(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 100; i++) {
		if (i == 1)
			oom_start(1, true);
		ask(f, "GET");
		assert_int_equal(client_feed(f->client, "HTTP/1.1 200 OK\r\nTransfer-Enco"), 0);
		assert_int_equal(client_feed(f->client, "ding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b"), 0);
		assert_int_equal(client_feed(f->client, "\r\n\r\n"), 0);
		assert_non_null(strstr(recorder_text(&f->recorder), "end [A:b]\n"));
	}
	assert_int_equal(oom_count, 0);
}

static void converse(struct recorder *recorder)
{
	struct http_client *client = h1_client_new(&client_events, &limits, recorder);
	struct http_request_head head = head_of("POST", HTTP_LENGTH_UNKNOWN);
	struct http_client_stream *stream = client ? http_client_begin(client, &head, NULL) : NULL;

	if (stream != NULL && http_client_write(stream, "hello", 5) == 0 && http_client_finish(stream, NULL, 0) == 0) {
		recorder->pause = true;
		client_feed(client, "HTTP/1.1 200 OK\r\nTransfer-");
		client_feed(client, "Encoding: chunked\r\n\r\n5\r\nhel");
		client_feed(client, "lo\r\n0\r\nA: ");
		http_client_resume(stream);
		client_feed(client, "b\r\n\r\n");
		if (!client->reusable)
			assert_non_null(strstr(recorder_text(recorder), "error: out of memory\n"));
	}
	http_client_free(client);
}

static void out_of_memory_anywhere_ends_in_order(void **state)
{
	(void)state;
	for (int for_good = 0; for_good < 2; for_good++) {
		for (unsigned long at = 1; at <= 9; at++) {
			struct recorder recorder = {.log.alloc = &oom_exempt, .body.alloc = &oom_exempt};

			oom_start(at, for_good);
			converse(&recorder);
			assert_true(at > 7 || oom_count >= at); /* seven at least were there to fail */
			oom_start(0, false);
			recorder_fini(&recorder);
		}
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(requests_are_framed_by_method_and_length),
	    TEST(a_session_takes_one_exchange_at_a_time),
	    TEST(a_body_must_have_its_length),
	    TEST(a_response_and_the_next),
	    cmocka_unit_test(what_ends_a_connection_is_not_reusable),
	    TEST(bytes_behind_a_response_are_not_the_next_one),
	    TEST(bytes_nobody_asked_for_kill_an_idle_session),
	    TEST(the_end_of_an_idle_session),
	    TEST(responses_until_close),
	    TEST(a_reset_is_no_end),
	    cmocka_unit_test(cut_responses),
	    TEST(interim_responses),
	    TEST(heads_are_limited),
	    TEST(the_keep_alive_hint),
	    TEST(an_early_response_is_reusable_once_the_request_is_finished),
	    TEST(bytes_behind_an_early_response_kill),
	    TEST(pause_holds_the_body),
	    TEST(the_end_waits_for_what_is_held),
	    TEST(cancel_ends_it),
	    TEST(an_upgrade_becomes_a_tunnel),
	    TEST(an_upgrade_nobody_asked_for_is_an_error),
	    TEST(an_upgrade_before_the_request_has_ended_is_an_error),
	    TEST(connect_becomes_a_tunnel),
	    cmocka_unit_test(the_next_exchange_may_begin_at_the_end_of_the_last),
	    cmocka_unit_test(unread_bytes_are_seen_in_callbacks),
	    cmocka_unit_test(cancel_inside_a_callback),
	    TEST(what_one_session_writes_the_other_reads),
	    TEST(steady_state_allocates_nothing),
	    TEST(out_of_memory_anywhere_ends_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
