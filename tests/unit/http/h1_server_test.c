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
	struct http_server *server;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	oom_start(0, false);
	f->recorder.log.alloc = f->recorder.body.alloc = &oom_exempt;
	f->server = h1_server_new(&server_events, &limits, &f->recorder);
	*state = f;
	return f->server ? 0 : -1;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	http_server_free(f->server);
	recorder_fini(&f->recorder);
	free(f);
	return 0;
}

#define assert_log(f, text) assert_string_equal(recorder_text(&(f)->recorder), text)
#define assert_sent(f, text) assert_string_equal(taken(&(f)->server->out), text)

static int respond(struct fixture *f, uint16_t status, uint64_t length)
{
	struct http_response_head head = {.status = status, .body_length = length, .has_body = true};

	return http_server_respond(f->recorder.server_stream, &head);
}

static int write_text(struct fixture *f, const char *text)
{
	return http_server_write(f->recorder.server_stream, text, strlen(text));
}

static int finish(struct fixture *f)
{
	return http_server_finish(f->recorder.server_stream, NULL, 0);
}

static void answer(struct fixture *f, const char *text)
{
	assert_int_equal(respond(f, 200, strlen(text)), 0);
	assert_int_equal(write_text(f, text), 0);
	assert_int_equal(finish(f), 0);
}

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
#define GET_LOG "request GET / of a 1.1 length 0 [Host:a]\nend\n"
#define POST5 "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"
#define POST5_LOG "request POST / of a 1.1 length 5 [Host:a] [Content-Length:5]\n"
#define CHUNKED "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
#define CHUNKED_LOG "request POST / of a 1.1 length ? [Host:a] ![Transfer-Encoding:chunked]\n"
#define OK "HTTP/1.1 200 OK\\r\\nContent-Length: "

/* ---- exchanges ---- */

static void an_exchange_and_the_next(void **state)
{
	struct fixture *f = *state;

	assert_true(http_server_idle(f->server));
	assert_int_equal(server_feed(f->server, POST5 "hel"), 0);
	assert_false(http_server_idle(f->server));
	assert_log(f, POST5_LOG "body hel\n");
	assert_int_equal(server_feed(f->server, "lo"), 0);
	assert_log(f, "body lo\nend\n");
	answer(f, "hi");
	assert_sent(f, OK "2\\r\\n\\r\\nhi");
	assert_true(http_server_idle(f->server));
	assert_false(f->server->want_close);
	assert_int_equal(server_feed(f->server, GET), 0);
	assert_log(f, GET_LOG);
	answer(f, "");
	assert_sent(f, OK "0\\r\\n\\r\\n");
	assert_true(http_server_owner(f->server) == &f->recorder);
}

static void connection_close_is_obeyed(void **state)
{
	struct fixture *f = *state;

	f->recorder.answer = "x";
	assert_int_equal(server_feed(f->server, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" GET), 0);
	assert_log(f, "request GET / of a 1.1 length 0 [Host:a] ![Connection:close]\nend\n");
	assert_sent(f, OK "1\\r\\nConnection: close\\r\\n\\r\\nx");
	assert_true(f->server->want_close);
	assert_false(f->server->want_reset);
	assert_int_equal(server_feed(f->server, GET), 0); /* dropped */
	assert_log(f, "");
}

static void the_callee_can_close(void **state)
{
	struct fixture *f = *state;
	struct http_response_head head = {.status = 200, .has_body = true, .close = true};

	server_feed(f->server, GET);
	assert_int_equal(http_server_respond(f->recorder.server_stream, &head), 0);
	assert_false(f->server->want_close);
	assert_int_equal(finish(f), 0);
	assert_sent(f, OK "0\\r\\nConnection: close\\r\\n\\r\\n");
	assert_true(f->server->want_close);
}

static void http_10_closes_unless_asked(void **state)
{
	struct fixture *f = *state;

	f->recorder.answer = "x";
	assert_int_equal(server_feed(f->server, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), 0);
	assert_log(f, "request GET / of  1.0 length 0 ![Connection:keep-alive]\nend\n");
	assert_sent(f, OK "1\\r\\nConnection: keep-alive\\r\\n\\r\\nx");
	assert_int_equal(server_feed(f->server, "GET / HTTP/1.0\r\n\r\n"), 0);
	assert_sent(f, OK "1\\r\\nConnection: close\\r\\n\\r\\nx");
	assert_true(f->server->want_close);
}

static void pipelined_requests_wait_for_their_turn(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(server_feed(f->server, GET), 0);
	assert_false(f->server->reading_paused);
	assert_int_equal(server_feed(f->server, POST5 "hel"), 0);
	assert_false(f->server->reading_paused);
	assert_log(f, GET_LOG);
	answer(f, "1");
	assert_true(f->server->work_pending);
	assert_log(f, ""); /* no callback from inside finish */
	assert_false(http_server_idle(f->server));
	assert_true(http_server_in_head(f->server));
	assert_int_equal(http_server_receive(f->server, NULL, 0), 0);
	assert_false(f->server->work_pending);
	assert_false(f->server->reading_paused);
	assert_log(f, POST5_LOG "body hel\n");
	assert_int_equal(server_feed(f->server, "lo" GET), 0);
	assert_log(f, "body lo\nend\n");
	answer(f, "2");
	/* Bytes that come before the owner noticed are behind those held. */
	assert_int_equal(server_feed(f->server, GET), 0);
	assert_log(f, GET_LOG);
	answer(f, "3");
	assert_int_equal(http_server_receive(f->server, NULL, 0), 0);
	assert_log(f, GET_LOG);
	answer(f, "4");
	assert_false(f->server->work_pending);
	assert_sent(f, OK "1\\r\\n\\r\\n1" OK "1\\r\\n\\r\\n2" OK "1\\r\\n\\r\\n3" OK "1\\r\\n\\r\\n4");
}

static void pipelined_requests_answered_at_once_go_through(void **state)
{
	struct fixture *f = *state;

	f->recorder.answer = "x";
	assert_int_equal(server_feed(f->server, GET "\r\n" GET POST5 "hello\r\n" GET "GET"), 0);
	assert_log(f, GET_LOG GET_LOG POST5_LOG "body hello\nend\n" GET_LOG);
	assert_sent(f, OK "1\\r\\n\\r\\nx" OK "1\\r\\n\\r\\nx" OK "1\\r\\n\\r\\nx" OK "1\\r\\n\\r\\nx");
	assert_true(http_server_in_head(f->server));
	assert_false(f->server->reading_paused);
}

/* The request lives in the session's memory: what comes later does not touch it. */
static void a_request_stays_until_its_stream_is_over(void **state)
{
	struct fixture *f = *state;
	char bytes[] = "GET /path HTTP/1.1\r\nHost: a\r\nX: value\r\n\r\n";

	assert_int_equal(http_server_receive(f->server, bytes, sizeof(bytes) - 1), 0);
	memset(bytes, '!', sizeof(bytes) - 1);
	for (int i = 0; i < 100; i++)
		server_feed(f->server, GET GET GET GET);
	assert_memory_equal(f->recorder.request->path.data, "/path", 5);
	assert_memory_equal(f->recorder.request->fields[1].value.data, "value", 5);
}

/* ---- 100 Continue ---- */

#define EXPECT "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
#define CONTINUE "HTTP/1.1 100 Continue\\r\\n\\r\\n"

static void continue_is_sent_when_the_body_is_wanted(void **state)
{
	struct fixture *f = *state;

	server_feed(f->server, EXPECT);
	assert_sent(f, CONTINUE);
	http_server_interim(f->recorder.server_stream, 100, NULL, 0); /* not again */
	server_feed(f->server, "hi");
	assert_log(f, "request POST / of a 1.1 length 2 expects [Host:a] [Content-Length:2] "
		      "[Expect:100-continue]\nbody hi\nend\n");
	answer(f, "");
	assert_sent(f, OK "0\\r\\n\\r\\n");
}

static void continue_waits_for_resume(void **state)
{
	struct fixture *f = *state;

	f->recorder.pause = true;
	server_feed(f->server, EXPECT);
	assert_sent(f, "");
	http_server_interim(f->recorder.server_stream, 100, NULL, 0);
	assert_sent(f, "");
	assert_int_equal(http_server_resume(f->recorder.server_stream), 0);
	assert_sent(f, CONTINUE);
}

static void no_continue_after_an_answer(void **state)
{
	struct fixture *f = *state;

	f->recorder.pause = true;
	server_feed(f->server, EXPECT);
	assert_int_equal(respond(f, 403, 0), 0);
	assert_int_equal(http_server_resume(f->recorder.server_stream), 0);
	assert_int_equal(finish(f), 0);
	assert_sent(f, "HTTP/1.1 403 Forbidden\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n");
	assert_true(f->server->want_close); /* what the client still sends is for the transport to drop */
}

static void interim_responses_pass_but_not_to_http_10(void **state)
{
	struct fixture *f = *state;
	const struct http_field link = {REA_SLICE_LIT("Link"), REA_SLICE_LIT("</a>"), HTTP_FIELD_OTHER, false};

	server_feed(f->server, GET);
	http_server_interim(f->recorder.server_stream, 103, &link, 1);
	http_server_interim(f->recorder.server_stream, 100, NULL, 0);
	answer(f, "");
	assert_sent(f, "HTTP/1.1 103 Early Hints\\r\\nLink: </a>\\r\\n\\r\\n" OK "0\\r\\n\\r\\n");
	server_feed(f->server, "GET / HTTP/1.0\r\n\r\n");
	http_server_interim(f->recorder.server_stream, 103, &link, 1);
	assert_sent(f, "");
}

/* ---- refusals ---- */

static void a_refused_head_is_answered_and_not_told(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(server_feed(f->server, "GET / HTTP/1.1\r\nHost : a\r\n\r\n"), REA_ERR_SYNTAX);
	assert_log(f, "");
	assert_sent(f, "HTTP/1.1 400 Bad Request\\r\\nContent-Type: application/problem+json\\r\\nContent-Length: "
		       "71\\r\\nConnection: close\\r\\n\\r\\n"
		       "{\"title\":\"Bad Request\",\"status\":400,\"detail\":\"malformed header field\"}\\n");
	assert_true(f->server->want_close);
	assert_int_equal(f->server->error, HTTP_ERROR_BAD_FIELD);
	assert_int_equal(server_feed(f->server, GET), REA_ERR_SYNTAX);
	assert_log(f, "");
	assert_sent(f, "");
}

static void a_refused_body_is_answered_and_aborted(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(server_feed(f->server, CHUNKED "5\r\nhello\r\nzz\r\n"), REA_ERR_SYNTAX);
	assert_log(f, CHUNKED_LOG "body hello\nabort: malformed chunk\n");
	assert_sent(f, "HTTP/1.1 400 Bad Request\\r\\nContent-Type: application/problem+json\\r\\nContent-Length: "
		       "64\\r\\nConnection: close\\r\\n\\r\\n"
		       "{\"title\":\"Bad Request\",\"status\":400,\"detail\":\"malformed chunk\"}\\n");
}

static void the_answer_to_head_has_no_body(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(
	    server_feed(f->server, "HEAD / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), REA_ERR_SYNTAX);
	assert_sent(f, "HTTP/1.1 400 Bad Request\\r\\nContent-Type: application/problem+json\\r\\nContent-Length: "
		       "64\\r\\nConnection: close\\r\\n\\r\\n");
}

static void a_refused_body_cuts_a_response_that_was_begun(void **state)
{
	struct fixture *f = *state;

	server_feed(f->server, CHUNKED);
	assert_int_equal(respond(f, 200, HTTP_LENGTH_UNKNOWN), 0);
	assert_int_equal(write_text(f, "so far"), 0);
	assert_int_equal(server_feed(f->server, "zz\r\n"), REA_ERR_SYNTAX);
	assert_log(f, CHUNKED_LOG "abort: malformed chunk\n");
	assert_sent(
	    f, "HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\nConnection: close\\r\\n\\r\\n6\\r\\nso far\\r\\n");
	assert_true(f->server->want_close);
}

static void heads_are_limited(void **state)
{
	struct fixture *f = *state;
	char head[8192] = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
	size_t prefix = strlen(head), room = limits.head_bytes - prefix - 4;

	memset(head + prefix, 'x', room);
	strcpy(head + prefix + room, "\r\n\r\n");
	assert_int_equal(strlen(head), limits.head_bytes);
	f->recorder.answer = "";
	assert_int_equal(server_feed(f->server, head), 0);
	recorder_text(&f->recorder);
	taken(&f->server->out);
	strcpy(head + prefix + room, "x\r\n\r\n");
	assert_int_equal(server_feed(f->server, head), REA_ERR_SYNTAX);
	assert_int_equal(f->server->error, HTTP_ERROR_HEAD_TOO_LARGE);
	assert_non_null(strstr(taken(&f->server->out), "HTTP/1.1 431 "));
	assert_log(f, "");
}

static void a_request_line_without_end_is_too_long_a_target(void **state)
{
	struct fixture *f = *state;
	char head[8192] = "GET /";

	memset(head + 5, 'x', limits.head_bytes - 5);
	head[limits.head_bytes - 1] = '\0';
	assert_int_equal(server_feed(f->server, head), 0);
	assert_int_equal(server_feed(f->server, "x"), REA_ERR_SYNTAX);
	assert_int_equal(f->server->error, HTTP_ERROR_URI_TOO_LONG);
	assert_non_null(strstr(taken(&f->server->out), "HTTP/1.1 414 URI Too Long"));
}

static void a_late_head_is_answered_408(void **state)
{
	struct fixture *f = *state;

	server_feed(f->server, "GET / HT");
	assert_true(http_server_in_head(f->server));
	http_server_timeout(f->server);
	assert_non_null(strstr(taken(&f->server->out), "HTTP/1.1 408 Request Timeout\\r\\n"));
	assert_true(f->server->want_close);
	assert_int_equal(server_feed(f->server, "TP/1.1\r\n\r\n"), 0);
	assert_log(f, "");
}

/* Only so much is taken in ahead of its turn; and who reads sees the client leave. */
static void pipelined_requests_stop_reading_at_a_limit(void **state)
{
	struct fixture *f = *state;
	static char many[16384];

	memset(many, 'x', sizeof(many));
	server_feed(f->server, GET);
	assert_int_equal(http_server_receive(f->server, many, sizeof(many) - 1), 0);
	assert_false(f->server->reading_paused);
	assert_int_equal(http_server_receive(f->server, many, 1), 0);
	assert_true(f->server->reading_paused);
	http_server_eof(f->server);
	assert_log(f, GET_LOG "abort: no error\n");
}

/* ---- early answers ---- */

static void an_early_answer_closes_and_drops_the_rest(void **state)
{
	struct fixture *f = *state;

	server_feed(f->server, POST5 "h");
	answer(f, "no");
	assert_sent(f, OK "2\\r\\nConnection: close\\r\\n\\r\\nno");
	assert_true(f->server->want_close);
	assert_true(http_server_idle(f->server));
	assert_int_equal(server_feed(f->server, "ello"), 0);
	assert_int_equal(server_feed(f->server, GET), 0);
	assert_log(f, POST5_LOG "body h\n");
}

static void an_answer_at_the_last_piece_is_not_early(void **state)
{
	struct fixture *f = *state;

	f->recorder.pause = true;
	server_feed(f->server, GET);
	answer(f, "x"); /* paused, but there is no body */
	assert_sent(f, OK "1\\r\\n\\r\\nx");
	assert_true(http_server_idle(f->server));
}

static void an_early_answer_while_paused_drops_what_is_held(void **state)
{
	struct fixture *f = *state;

	f->recorder.pause = true;
	server_feed(f->server, POST5 "hello" GET);
	assert_true(f->server->reading_paused);
	answer(f, "no");
	assert_sent(f, OK "2\\r\\nConnection: close\\r\\n\\r\\nno");
	assert_false(f->server->work_pending);
	assert_true(f->server->want_close);
	assert_false(f->server->reading_paused);
	assert_log(f, POST5_LOG);
}

/* ---- bodies of responses ---- */

static void unknown_lengths_are_chunked(void **state)
{
	struct fixture *f = *state;
	const struct http_field sum = {REA_SLICE_LIT("X-Sum"), REA_SLICE_LIT("1"), HTTP_FIELD_OTHER, false};

	server_feed(f->server, GET);
	assert_int_equal(respond(f, 200, HTTP_LENGTH_UNKNOWN), 0);
	assert_int_equal(write_text(f, "hello"), 0);
	assert_int_equal(http_server_finish(f->recorder.server_stream, &sum, 1), 0);
	assert_sent(f,
	    "HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n5\\r\\nhello\\r\\n0\\r\\nX-Sum: 1\\r\\n\\r\\n");
	assert_true(http_server_idle(f->server));
}

static void unknown_lengths_go_to_http_10_until_close(void **state)
{
	struct fixture *f = *state;

	server_feed(f->server, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
	assert_int_equal(respond(f, 200, HTTP_LENGTH_UNKNOWN), 0);
	assert_int_equal(write_text(f, "hello"), 0);
	assert_int_equal(finish(f), 0);
	assert_sent(f, "HTTP/1.1 200 OK\\r\\nConnection: close\\r\\n\\r\\nhello");
	assert_true(f->server->want_close);
	assert_false(f->server->want_reset);
}

static void announced_lengths_are_kept(void **state)
{
	struct fixture *f = *state;

	server_feed(f->server, GET);
	assert_int_equal(respond(f, 200, 5), 0);
	assert_int_equal(write_text(f, "hello!"), REA_ERR_INVALID);
	assert_int_equal(write_text(f, "hell"), 0);
	assert_int_equal(finish(f), REA_ERR_INVALID); /* cut */
	assert_sent(f, OK "5\\r\\n\\r\\nhell");
	assert_true(f->server->want_close);
	assert_false(f->server->want_reset); /* the length tells */
}

static void bodiless_responses(void **state)
{
	struct fixture *f = *state;
	struct http_response_head none = {.status = 204, .body_length = 0};

	f->recorder.answer = "hello"; /* to HEAD it is dropped, but announced */
	server_feed(f->server, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
	assert_sent(f, OK "5\\r\\n\\r\\n");
	f->recorder.answer = NULL;
	server_feed(f->server, GET);
	assert_int_equal(http_server_respond(f->recorder.server_stream, &none), 0);
	assert_int_equal(write_text(f, "dropped"), 0);
	assert_int_equal(finish(f), 0);
	assert_sent(f, "HTTP/1.1 204 No Content\\r\\n\\r\\n");
	server_feed(f->server, GET);
	none = (struct http_response_head){.status = 304, .body_length = 7};
	assert_int_equal(http_server_respond(f->recorder.server_stream, &none), 0);
	assert_int_equal(finish(f), 0);
	assert_sent(f, "HTTP/1.1 304 Not Modified\\r\\nContent-Length: 7\\r\\n\\r\\n");
	server_feed(f->server, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
	none = (struct http_response_head){.status = 200, .body_length = HTTP_LENGTH_UNKNOWN};
	assert_int_equal(http_server_respond(f->recorder.server_stream, &none), 0);
	assert_int_equal(finish(f), 0);
	assert_sent(f, "HTTP/1.1 200 OK\\r\\n\\r\\n");
	server_feed(f->server, GET);
	/* "No body" where one may be is a body of length 0, whatever is announced. */
	assert_int_equal(http_server_respond(f->recorder.server_stream, &none), 0);
	assert_int_equal(write_text(f, "x"), REA_ERR_INVALID);
	assert_int_equal(finish(f), 0);
	assert_sent(f, OK "0\\r\\n\\r\\n");
	assert_true(http_server_idle(f->server));
}

static void impossible_statuses_are_refused(void **state)
{
	struct fixture *f = *state;
	struct http_response_head upgraded = {.status = 101, .upgraded = true};

	server_feed(f->server, GET);
	assert_int_equal(respond(f, 100, 0), REA_ERR_INVALID);
	assert_int_equal(respond(f, 101, 0), REA_ERR_INVALID);
	assert_int_equal(respond(f, 1000, 0), REA_ERR_INVALID);
	assert_int_equal(http_server_respond(f->recorder.server_stream, &upgraded), REA_ERR_INVALID); /* nobody asked */
	assert_sent(f, "");
	answer(f, "");
}

/* ---- the end ---- */

static void reset_leaves_a_chunked_response_without_end(void **state)
{
	struct fixture *f = *state;

	server_feed(f->server, GET);
	assert_int_equal(respond(f, 200, HTTP_LENGTH_UNKNOWN), 0);
	assert_int_equal(write_text(f, "half"), 0);
	http_server_reset(f->recorder.server_stream);
	assert_sent(f, "HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n4\\r\\nhalf\\r\\n");
	assert_true(f->server->want_close);
	assert_false(f->server->want_reset);
	/* Until the owner closes, nothing happens any more. */
	assert_int_equal(write_text(f, "more"), REA_ERR_IO);
	assert_int_equal(finish(f), REA_ERR_IO);
	assert_int_equal(respond(f, 200, 0), REA_ERR_IO);
	assert_int_equal(http_server_resume(f->recorder.server_stream), REA_ERR_IO);
	http_server_pause(f->recorder.server_stream);
	http_server_interim(f->recorder.server_stream, 103, NULL, 0);
	http_server_reset(f->recorder.server_stream);
	http_server_eof(f->server);
	assert_sent(f, "");
	assert_log(f, GET_LOG);
}

static void reset_of_a_response_until_close_is_a_reset(void **state)
{
	struct fixture *f = *state;

	server_feed(f->server, "GET / HTTP/1.0\r\n\r\n");
	assert_int_equal(respond(f, 200, HTTP_LENGTH_UNKNOWN), 0);
	assert_int_equal(write_text(f, "half"), 0);
	http_server_reset(f->recorder.server_stream);
	assert_true(f->server->want_close);
	assert_true(f->server->want_reset);
}

static void a_client_that_leaves_aborts(void **state)
{
	struct fixture *f = *state;

	server_feed(f->server, GET GET);
	http_server_eof(f->server);
	assert_log(f, GET_LOG "abort: no error\n");
	assert_true(f->server->want_close);
	assert_false(f->server->reading_paused);
	http_server_eof(f->server);
	assert_log(f, "");
}

static void a_client_that_leaves_in_its_body_is_cut(void **state)
{
	struct fixture *f = *state;

	server_feed(f->server, POST5 "hell");
	http_server_eof(f->server);
	assert_log(f, POST5_LOG "body hell\nabort: the peer closed in the middle of a message\n");
	assert_sent(f, "");
}

static void a_client_that_leaves_between_requests_just_closes(void **state)
{
	struct fixture *f = *state;

	f->recorder.answer = "x";
	server_feed(f->server, GET "GET / HT");
	http_server_eof(f->server);
	assert_log(f, GET_LOG);
	assert_true(f->server->want_close);
}

static void an_open_exchange_hears_of_drained_output(void **state)
{
	struct fixture *f = *state;

	http_server_drained(f->server);
	assert_log(f, "");
	server_feed(f->server, GET);
	http_server_drained(f->server);
	assert_log(f, GET_LOG "writable\n");
	answer(f, "");
	http_server_drained(f->server);
	assert_log(f, "");
}

static void shutdown_of_an_idle_session(void **state)
{
	struct fixture *f = *state;

	http_server_shutdown(f->server);
	assert_true(f->server->want_close);
}

static void shutdown_lets_the_open_exchange_end(void **state)
{
	struct fixture *f = *state;

	server_feed(f->server, GET GET);
	http_server_shutdown(f->server);
	assert_false(f->server->want_close);
	answer(f, "x");
	assert_sent(f, OK "1\\r\\nConnection: close\\r\\n\\r\\nx");
	assert_true(f->server->want_close);
	assert_false(f->server->work_pending);
	assert_log(f, GET_LOG);
}

static void shutdown_after_the_head_closes_too(void **state)
{
	struct fixture *f = *state;

	server_feed(f->server, GET);
	assert_int_equal(respond(f, 200, 0), 0);
	http_server_shutdown(f->server);
	assert_int_equal(finish(f), 0);
	assert_true(f->server->want_close);
}

static void shutdown_in_a_head_serves_it(void **state)
{
	struct fixture *f = *state;

	server_feed(f->server, "GET / HT");
	http_server_shutdown(f->server);
	assert_false(f->server->want_close);
	server_feed(f->server, "TP/1.1\r\nHost: a\r\n\r\n");
	answer(f, "x");
	assert_sent(f, OK "1\\r\\nConnection: close\\r\\n\\r\\nx");
	assert_true(f->server->want_close);
}

/* ---- pauses and tunnels ---- */

static void pause_holds_the_body(void **state)
{
	struct fixture *f = *state;

	f->recorder.pause = true;
	assert_int_equal(server_feed(f->server, POST5), 0);
	assert_false(f->server->reading_paused);
	assert_int_equal(server_feed(f->server, "he"), 0);
	assert_true(f->server->reading_paused);
	assert_int_equal(server_feed(f->server, "llo" GET), 0);
	assert_log(f, POST5_LOG);
	assert_int_equal(http_server_resume(f->recorder.server_stream), 0);
	assert_log(f, "body hello\nend\n");
	assert_false(f->server->reading_paused); /* the next request waits, and its client may leave */
	answer(f, "");
	assert_int_equal(http_server_receive(f->server, NULL, 0), 0);
	assert_log(f, GET_LOG);
}

static void an_upgrade_becomes_a_tunnel(void **state)
{
	struct fixture *f = *state;
	const struct http_field upgrade = {REA_SLICE_LIT("Upgrade"), REA_SLICE_LIT("echo"), HTTP_FIELD_UPGRADE, true};
	struct http_response_head head = {.status = 101, .fields = &upgrade, .fields_len = 1, .upgraded = true};

	server_feed(f->server, "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nearly\n");
	assert_log(f, "request GET / of a 1.1 length 0 upgrade [Host:a] ![Connection:upgrade] ![Upgrade:echo]\nend\n");
	assert_int_equal(http_server_respond(f->recorder.server_stream, &head), 0);
	assert_sent(f, "HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: echo\\r\\nConnection: upgrade\\r\\n\\r\\n");
	assert_true(f->server->work_pending);
	assert_int_equal(http_server_receive(f->server, NULL, 0), 0);
	assert_log(f, "body early\\n\n");
	assert_int_equal(write_text(f, "\x81raw"), 0);
	assert_sent(f, "\\x81raw");
	http_server_pause(f->recorder.server_stream);
	assert_int_equal(server_feed(f->server, "held"), 0);
	assert_true(f->server->reading_paused);
	assert_int_equal(http_server_resume(f->recorder.server_stream), 0);
	assert_log(f, "body held\n");
	assert_int_equal(finish(f), 0);
	assert_true(f->server->want_close);
	assert_false(f->server->want_reset);
}

static void an_upgrade_not_taken_is_a_request_like_others(void **state)
{
	struct fixture *f = *state;

	f->recorder.answer = "x";
	server_feed(f->server, "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n" GET);
	assert_sent(f, OK "1\\r\\n\\r\\nx" OK "1\\r\\n\\r\\nx");
}

static void connect_becomes_a_tunnel(void **state)
{
	struct fixture *f = *state;
	struct http_response_head head = {.status = 200, .upgraded = true};

	server_feed(f->server, "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n");
	assert_log(f, "request CONNECT  of a:1 1.1 length 0 [Host:a:1]\nend\n");
	assert_int_equal(respond(f, 200, 0), REA_ERR_INVALID);
	assert_int_equal(http_server_respond(f->recorder.server_stream, &head), 0);
	assert_sent(f, "HTTP/1.1 200 OK\\r\\n\\r\\n");
	server_feed(f->server, GET);
	assert_log(f, "body GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n\n");
	http_server_eof(f->server);
	assert_log(f, "abort: no error\n");
}

static void a_refused_connect_closes(void **state)
{
	struct fixture *f = *state;

	server_feed(f->server, "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n" GET);
	assert_int_equal(respond(f, 405, 0), 0);
	assert_int_equal(finish(f), 0);
	assert_sent(f, "HTTP/1.1 405 Method Not Allowed\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n");
	assert_true(f->server->want_close);
	assert_log(f, "request CONNECT  of a:1 1.1 length 0 [Host:a:1]\nend\n"); /* what followed is no request */
}

/* ---- memory ---- */

/* The head of the answer would have room, its body would not. */
static void a_refusal_is_answered_whole_or_not_at_all(void **state)
{
	struct fixture *f = *state;
	static const char filler[512];
	size_t room;

	f->recorder.answer = "";
	server_feed(f->server, GET);
	room = f->server->out.capacity - f->server->out.end;
	assert_int_equal(rea_buffer_append(&f->server->out, filler, room - 202), 0);
	room = rea_buffer_length(&f->server->out);
	oom_start(1, true);
	server_feed(f->server, "GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n");
	assert_int_equal(rea_buffer_length(&f->server->out), room);
	assert_true(f->server->want_close);
}

static void steady_state_allocates_nothing(void **state)
{
	struct fixture *f = *state;

	f->recorder.answer = "hello";
	for (int i = 0; i < 100; i++) {
		if (i == 1)
			oom_start(1, true);
		assert_int_equal(
		    server_feed(f->server, CHUNKED "5\r\nhello\r\n0\r\nA: b\r\n\r\n" GET "GET / HTTP/1.1\r\nX:"), 0);
		assert_int_equal(server_feed(f->server, "y\r\nHost: a\r\n\r\n"), 0);
		recorder_text(&f->recorder);
		rea_buffer_clear(&f->server->out);
	}
	assert_int_equal(oom_count, 0);
}

static void converse(struct recorder *recorder)
{
	struct http_server *server = h1_server_new(&server_events, &limits, recorder);

	if (server == NULL)
		return;
	recorder->answer = "hello";
	server_feed(server, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n");
	server_feed(server, "5\r");
	server_feed(server, "\nhello\r\n0\r\nA:");
	server_feed(server, " b\r\n\r\nGET /");
	recorder->answer = NULL;
	server_feed(server, " HTTP/1.1\r\nHost: a\r\n\r\n");
	server_feed(server, GET);
	if (!server->want_close) {
		http_server_interim(recorder->server_stream, 103, NULL, 0);
		if (http_server_respond(recorder->server_stream,
			&(struct http_response_head){.status = 200, .body_length = HTTP_LENGTH_UNKNOWN, .has_body = true}) == 0 &&
		    http_server_write(recorder->server_stream, "hello", 5) == 0)
			http_server_finish(recorder->server_stream, NULL, 0);
		else
			http_server_reset(recorder->server_stream);
	}
	server_feed(server, "POST /\n");
	/* Whatever was sent is whole responses. */
	if (rea_buffer_length(&server->out) > 0)
		assert_memory_equal(rea_buffer_data(&server->out), "HTTP/1.1 ", 9);
	http_server_free(server);
}

static void out_of_memory_anywhere_ends_in_order(void **state)
{
	unsigned long count;

	(void)state;
	for (int for_good = 0; for_good < 2; for_good++) {
		count = 1;
		for (unsigned long at = 1; at <= count; at++) {
			struct recorder recorder = {.log.alloc = &oom_exempt, .body.alloc = &oom_exempt};

			oom_start(at, for_good);
			converse(&recorder);
			count = at == 1 && oom_count < 8 ? 8 : oom_count > count ? oom_count : count;
			oom_start(0, false);
			recorder_fini(&recorder);
		}
		assert_true(count >= 8);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(an_exchange_and_the_next),
	    TEST(connection_close_is_obeyed),
	    TEST(the_callee_can_close),
	    TEST(http_10_closes_unless_asked),
	    TEST(pipelined_requests_wait_for_their_turn),
	    TEST(pipelined_requests_answered_at_once_go_through),
	    TEST(a_request_stays_until_its_stream_is_over),
	    TEST(continue_is_sent_when_the_body_is_wanted),
	    TEST(continue_waits_for_resume),
	    TEST(no_continue_after_an_answer),
	    TEST(interim_responses_pass_but_not_to_http_10),
	    TEST(a_refused_head_is_answered_and_not_told),
	    TEST(a_refused_body_is_answered_and_aborted),
	    TEST(the_answer_to_head_has_no_body),
	    TEST(a_refused_body_cuts_a_response_that_was_begun),
	    TEST(heads_are_limited),
	    TEST(a_request_line_without_end_is_too_long_a_target),
	    TEST(a_late_head_is_answered_408),
	    TEST(pipelined_requests_stop_reading_at_a_limit),
	    TEST(an_early_answer_closes_and_drops_the_rest),
	    TEST(an_answer_at_the_last_piece_is_not_early),
	    TEST(an_early_answer_while_paused_drops_what_is_held),
	    TEST(unknown_lengths_are_chunked),
	    TEST(unknown_lengths_go_to_http_10_until_close),
	    TEST(announced_lengths_are_kept),
	    TEST(bodiless_responses),
	    TEST(impossible_statuses_are_refused),
	    TEST(reset_leaves_a_chunked_response_without_end),
	    TEST(reset_of_a_response_until_close_is_a_reset),
	    TEST(a_client_that_leaves_aborts),
	    TEST(a_client_that_leaves_in_its_body_is_cut),
	    TEST(a_client_that_leaves_between_requests_just_closes),
	    TEST(an_open_exchange_hears_of_drained_output),
	    TEST(shutdown_of_an_idle_session),
	    TEST(shutdown_lets_the_open_exchange_end),
	    TEST(shutdown_after_the_head_closes_too),
	    TEST(shutdown_in_a_head_serves_it),
	    TEST(pause_holds_the_body),
	    TEST(an_upgrade_becomes_a_tunnel),
	    TEST(an_upgrade_not_taken_is_a_request_like_others),
	    TEST(connect_becomes_a_tunnel),
	    TEST(a_refused_connect_closes),
	    TEST(a_refusal_is_answered_whole_or_not_at_all),
	    TEST(steady_state_allocates_nothing),
	    TEST(out_of_memory_anywhere_ends_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
