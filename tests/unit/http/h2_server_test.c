/* The server's end of HTTP/2, talked to by frames written by hand. */
#include "frames.h"
#include "oom.h"
#include "recorder.h"

#include <rea/error.h>
#include <rea/time.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define END NGHTTP2_FLAG_END_STREAM
#define GET ":method=GET\n:scheme=http\n:authority=a\n:path=/x\n"
#define POST ":method=POST\n:scheme=http\n:authority=a\n:path=/x\n"
#define SAYS_GET "request GET /x of http://a 2 length 0\nend\n"

struct fixture {
	struct recorder recorder;
	struct http_server *server;
	struct frames_reader reader;
	struct rea_buffer in;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	oom_start(0, false);
	f->recorder.log.alloc = f->recorder.body.alloc = &oom_exempt;
	f->server = h2_server_new(&server_events, &limits, &f->recorder);
	*state = f;
	return f->server ? 0 : -1;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	http_server_free(f->server);
	recorder_fini(&f->recorder);
	frames_fini(&f->reader);
	rea_buffer_fini(&f->in);
	free(f);
	return 0;
}

static int feed(struct fixture *f)
{
	int result = http_server_receive(f->server, rea_buffer_data(&f->in), rea_buffer_length(&f->in));

	rea_buffer_clear(&f->in);
	return result;
}

static const char *all_sent(struct fixture *f)
{
	http_server_fill(f->server);
	return frames_text(&f->reader, &f->server->out);
}

static const char *sent(struct fixture *f)
{
	http_server_fill(f->server);
	return frames_messages(&f->reader, &f->server->out);
}

#define assert_log(f, text) assert_string_equal(recorder_text(&(f)->recorder), text)
#define assert_sent(f, text) assert_string_equal(sent(f), text)

static void greet(struct fixture *f)
{
	rea_buffer_append(&f->in, H2_PREFACE, H2_PREFACE_LENGTH);
	frame_put(&f->in, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
	assert_int_equal(feed(f), 0);
	assert_sent(f, "");
}

static void headers(struct fixture *f, uint8_t flags, uint32_t stream, const char *fields)
{
	headers_put(&f->in, flags, stream, fields);
	feed(f);
}

static void data(struct fixture *f, uint8_t flags, uint32_t stream, const char *text)
{
	frame_put(&f->in, NGHTTP2_DATA, flags, stream, text, strlen(text));
	feed(f);
}

static const struct http_response_head ok = {.status = 200, .has_body = true, .body_length = HTTP_LENGTH_UNKNOWN};

static void respond(struct http_server_stream *stream, const struct http_response_head *head)
{
	assert_int_equal(http_server_respond(stream, head), 0);
}

/* ---- exchanges ---- */

static void what_is_said_first(void **state)
{
	struct fixture *f = *state;

	rea_buffer_append(&f->in, H2_PREFACE, H2_PREFACE_LENGTH);
	assert_true(http_server_in_head(f->server));
	frame_put(&f->in, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
	assert_int_equal(feed(f), 0);
	assert_string_equal(all_sent(f), "SETTINGS 6=4096 9=1 3=100\nSETTINGS ack\nWINDOW_UPDATE 0 983041\n");
	assert_true(http_server_idle(f->server));
	assert_false(http_server_in_head(f->server));
}

static void an_exchange(void **state)
{
	struct fixture *f = *state;

	greet(f);
	f->recorder.answer = "hello";
	headers(f, 0, 1, POST "content-length=4\nx-a=b\ncookie=c=1\ncookie=d=2\n");
	assert_log(f, "request POST /x of http://a 2 length 4 [content-length:4] [x-a:b] [cookie:c=1; d=2]\n");
	assert_false(http_server_idle(f->server));
	data(f, END, 1, "body");
	assert_log(f, "body body\nend\n");
	assert_sent(f, "HEADERS 1 :status=200 content-length=5\nDATA 1 5 end hello\n");
	assert_true(http_server_idle(f->server));
}

static void trailers_both_ways(void **state)
{
	struct fixture *f = *state;
	const struct http_field trailer[] = {{REA_SLICE_LIT("Grpc-Status"), REA_SLICE_LIT("0"), HTTP_FIELD_OTHER, false},
	    {REA_SLICE_LIT("connection"), REA_SLICE_LIT("x"), HTTP_FIELD_CONNECTION, true}};

	greet(f);
	headers(f, 0, 1, POST "te=trailers\n");
	data(f, 0, 1, "body");
	headers(f, END, 1, "x-t=1\nset-cookie=no\n");
	assert_log(f, "request POST /x of http://a 2 length ? ![te:trailers]\nbody body\nend [x-t:1]\n");
	respond(f->recorder.server_stream, &ok);
	http_server_write(f->recorder.server_stream, "hello", 5);
	assert_int_equal(http_server_finish(f->recorder.server_stream, trailer, 2), 0);
	assert_sent(f, "HEADERS 1 :status=200\nDATA 1 5 hello\nHEADERS 1 end grpc-status=0\n");
}

static void trailers_behind_a_body_that_has_gone(void **state)
{
	struct fixture *f = *state;
	const struct http_field trailer = {REA_SLICE_LIT("a"), REA_SLICE_LIT(""), HTTP_FIELD_OTHER, false};

	greet(f);
	headers(f, END, 1, GET);
	respond(f->recorder.server_stream, &ok);
	http_server_write(f->recorder.server_stream, "hello", 5);
	assert_sent(f, "HEADERS 1 :status=200\nDATA 1 5 hello\n");
	assert_int_equal(http_server_finish(f->recorder.server_stream, &trailer, 1), 0);
	assert_sent(f, "HEADERS 1 end a=\n");
}

static void heads_without_a_body(void **state)
{
	struct fixture *f = *state;
	const struct http_field length = {
	    REA_SLICE_LIT("content-length"), REA_SLICE_LIT("7"), HTTP_FIELD_CONTENT_LENGTH, false};
	static const struct {
		const char *method;
		struct http_response_head head;
		const char *sent;
	} cases[] = {
	    {"HEAD", {.status = 200, .body_length = 7}, ":status=200 content-length=7"},
	    {"HEAD", {.status = 200, .body_length = HTTP_LENGTH_UNKNOWN}, ":status=200"},
	    {"GET", {.status = 204, .body_length = 0}, ":status=204"},
	    {"GET", {.status = 304, .body_length = 7}, ":status=304 content-length=7"},
	    /* As of gRPC: the head says everything, and says no length. */
	    {"GET", {.status = 200, .has_body = true, .body_length = 0}, ":status=200"},
	};

	greet(f);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char text[128];

		snprintf(text, sizeof(text), ":method=%s\n:scheme=http\n:authority=a\n:path=/\n", cases[i].method);
		headers(f, END, 2 * i + 1, text);
		respond(f->recorder.server_stream, &cases[i].head);
		assert_int_equal(http_server_write(f->recorder.server_stream, "dropped", 7), 0);
		assert_int_equal(http_server_finish(f->recorder.server_stream, NULL, 0), 0);
		snprintf(text, sizeof(text), "HEADERS %u end %s\n", 2 * i + 1, cases[i].sent);
		assert_sent(f, text);
	}
	headers(f, END, 11, GET);
	respond(f->recorder.server_stream,
	    &(struct http_response_head){.status = 200, .has_body = true, .fields = &length, .fields_len = 1});
	http_server_finish(f->recorder.server_stream, NULL, 0);
	assert_sent(f, "HEADERS 11 end :status=200 content-length=0\n");
}

static void interim_replies(void **state)
{
	struct fixture *f = *state;
	const struct http_field link = {REA_SLICE_LIT("Link"), REA_SLICE_LIT("</a>"), HTTP_FIELD_OTHER, false};

	greet(f);
	headers(f, 0, 1, POST "expect=100-continue\n");
	assert_sent(f, "HEADERS 1 :status=100\n");
	http_server_interim(f->recorder.server_stream, 103, &link, 1);
	http_server_interim(f->recorder.server_stream, 100, NULL, 0);
	assert_sent(f, "HEADERS 1 :status=103 link=</a>\n");
	f->recorder.pause = true;
	headers(f, 0, 3, POST "expect=100-continue\n");
	assert_sent(f, "");
	http_server_resume(f->recorder.server_stream);
	assert_sent(f, "HEADERS 3 :status=100\n");
}

static void many_at_once(void **state)
{
	struct fixture *f = *state;
	struct http_server_stream *first, *second;

	greet(f);
	headers(f, END, 1, GET);
	first = f->recorder.server_stream;
	headers(f, END, 3, GET);
	second = f->recorder.server_stream;
	assert_ptr_not_equal(first, second);
	respond(second, &ok);
	http_server_write(second, "second", 6);
	http_server_finish(second, NULL, 0);
	respond(first, &ok);
	http_server_write(first, "first", 5);
	http_server_finish(first, NULL, 0);
	assert_sent(f, "HEADERS 3 :status=200\nHEADERS 1 :status=200\nDATA 1 5 end first\nDATA 3 6 end second\n");
}

static void an_answer_before_the_request_has_come(void **state)
{
	struct fixture *f = *state;

	greet(f);
	headers(f, 0, 1, POST);
	respond(f->recorder.server_stream, &ok);
	http_server_write(f->recorder.server_stream, "no", 2);
	http_server_finish(f->recorder.server_stream, NULL, 0);
	assert_sent(f, "HEADERS 1 :status=200\nDATA 1 2 end no\nRST_STREAM 1 NO_ERROR\n");
	data(f, 0, 1, "what was on its way");
	assert_log(f, "request POST /x of http://a 2 length ?\n");
	assert_sent(f, "");
	assert_false(f->server->want_close);
}

static void a_cut_answer_is_reset(void **state)
{
	struct fixture *f = *state;

	greet(f);
	headers(f, END, 1, GET);
	respond(f->recorder.server_stream, &ok);
	http_server_write(f->recorder.server_stream, "half", 4);
	assert_sent(f, "HEADERS 1 :status=200\nDATA 1 4 half\n");
	http_server_write(f->recorder.server_stream, "lost", 4);
	http_server_reset(f->recorder.server_stream);
	http_server_reset(f->recorder.server_stream);
	assert_int_equal(http_server_write(f->recorder.server_stream, "x", 1), REA_ERR_IO);
	assert_sent(f, "RST_STREAM 1 INTERNAL_ERROR\n");
	assert_log(f, SAYS_GET);
}

static void lengths_are_kept(void **state)
{
	struct fixture *f = *state;
	const struct http_response_head five = {.status = 200, .has_body = true, .body_length = 5};

	greet(f);
	headers(f, END, 1, GET);
	respond(f->recorder.server_stream, &five);
	assert_int_equal(http_server_write(f->recorder.server_stream, "123456", 6), REA_ERR_INVALID);
	assert_int_equal(http_server_write(f->recorder.server_stream, "1234", 4), 0);
	assert_int_equal(http_server_finish(f->recorder.server_stream, NULL, 0), REA_ERR_INVALID);
	assert_sent(f, "RST_STREAM 1 INTERNAL_ERROR\n");
}

static void clients_that_leave(void **state)
{
	struct fixture *f = *state;

	greet(f);
	headers(f, 0, 1, POST);
	headers(f, END, 3, GET);
	u32_put(&f->in, NGHTTP2_RST_STREAM, 0, 1, NGHTTP2_CANCEL);
	feed(f);
	assert_log(f, "request POST /x of http://a 2 length ?\n" SAYS_GET "abort: no error\n");
	headers(f, 0, 5, POST);
	http_server_eof(f->server);
	assert_log(f, "request POST /x of http://a 2 length ?\nabort: the peer closed in the middle of a "
		      "message\nabort: no error\n");
	assert_true(f->server->want_close);
	assert_int_equal(f->server->error, HTTP_ERROR_NONE);
}

/* ---- flow control ---- */

static void a_paused_stream_keeps_its_window(void **state)
{
	struct fixture *f = *state;
	static char big[16384];
	struct http_server_stream *slow;

	greet(f);
	f->recorder.pause = true;
	headers(f, 0, 1, POST);
	slow = f->recorder.server_stream;
	f->recorder.pause = false;
	headers(f, 0, 3, POST);
	memset(big, 'x', sizeof(big));
	for (int i = 0; i < 3; i++)
		frame_put(&f->in, NGHTTP2_DATA, 0, 1, big, sizeof(big));
	feed(f);
	assert_string_equal(all_sent(f), "");
	assert_log(f, "request POST /x of http://a 2 length ?\nrequest POST /x of http://a 2 length ?\n");
	/* Its neighbour goes on, and is given back what it has used. */
	for (int i = 0; i < 3; i++)
		frame_put(&f->in, NGHTTP2_DATA, 0, 3, big, sizeof(big));
	feed(f);
	assert_string_equal(all_sent(f), "WINDOW_UPDATE 3 32768\n");
	assert_int_equal(rea_buffer_length(&f->recorder.body), 49152);
	rea_buffer_clear(&f->recorder.body);
	/* All of what is held comes, then its window is open again. */
	assert_int_equal(http_server_resume(slow), 0);
	assert_int_equal(rea_buffer_length(&f->recorder.body), 49152);
	assert_string_equal(all_sent(f), "WINDOW_UPDATE 1 32768\n");
	rea_buffer_clear(&f->recorder.body);
}

/* Past its window: an error of the stream alone. */
static void who_ignores_a_window_is_reset(void **state)
{
	struct fixture *f = *state;
	static char big[16384];

	greet(f);
	f->recorder.pause = true;
	headers(f, 0, 1, POST);
	headers(f, END, 3, GET);
	recorder_text(&f->recorder);
	for (int i = 0; i < 4; i++)
		frame_put(&f->in, NGHTTP2_DATA, 0, 1, big, sizeof(big) - (i == 3));
	feed(f);
	assert_sent(f, "");
	data(f, 0, 1, "y");
	assert_sent(f, "RST_STREAM 1 FLOW_CONTROL_ERROR\n");
	assert_log(f, "abort: a violation of HTTP/2\n");
	respond(f->recorder.server_stream, &ok);
	http_server_finish(f->recorder.server_stream, NULL, 0);
	assert_sent(f, "HEADERS 3 :status=200\nDATA 3 0 end\n");
}

static void a_slow_reader_slows_the_writer(void **state)
{
	struct fixture *f = *state;
	static char big[16384];
	struct http_server_stream *stream;
	size_t written = 0;

	greet(f);
	headers(f, END, 1, GET);
	recorder_text(&f->recorder);
	stream = f->recorder.server_stream;
	respond(stream, &ok);
	/* The client's window, and then what a stream may hold. */
	while (!f->server->ops->congested(stream)) {
		assert_int_equal(http_server_write(stream, big, sizeof(big)), 0);
		written += sizeof(big);
		http_server_fill(f->server);
		if (f->server->output_waits)
			rea_buffer_clear(&f->server->out);
	}
	assert_int_equal(written, 65536 + 16384);
	assert_log(f, "");
	u32_put(&f->in, NGHTTP2_WINDOW_UPDATE, 0, 1, 8192);
	u32_put(&f->in, NGHTTP2_WINDOW_UPDATE, 0, 0, 1 << 20);
	feed(f);
	rea_buffer_clear(&f->server->out);
	http_server_fill(f->server);
	assert_log(f, "");
	/* 16385 were waiting: 8192 have gone, 4096 remain. */
	u32_put(&f->in, NGHTTP2_WINDOW_UPDATE, 0, 1, 4097);
	feed(f);
	http_server_fill(f->server);
	assert_log(f, "");
	u32_put(&f->in, NGHTTP2_WINDOW_UPDATE, 0, 1, 1);
	feed(f);
	http_server_fill(f->server);
	assert_log(f, "writable\n");
	assert_false(f->server->ops->congested(stream));
}

/* However many streams have something to say: what a peer that does not read costs is bounded. */
static void out_is_bounded(void **state)
{
	struct fixture *f = *state;
	static char big[16384];

	greet(f);
	u32_put(&f->in, NGHTTP2_WINDOW_UPDATE, 0, 0, 1 << 24);
	for (uint32_t i = 0; i < 50; i++) {
		headers(f, END, 2 * i + 1, GET);
		respond(f->recorder.server_stream, &ok);
		http_server_write(f->recorder.server_stream, big, sizeof(big));
	}
	http_server_fill(f->server);
	assert_true(f->server->output_waits);
	assert_in_range(rea_buffer_length(&f->server->out), 16384, 16384 + 16384 + 64);
	rea_buffer_clear(&f->server->out);
	http_server_fill(f->server);
	assert_true(f->server->output_waits);
}

/* ---- what is refused ---- */

static const struct {
	const char *fields;
	const char *sent; /* behind the stream's number */
} malformed[] = {
    {":method=GET\n:scheme=http\n:path=/\n", "PROTOCOL_ERROR"},                      /* nowhere to go */
    {":method=GET\n:authority=a\n:path=/\n", "PROTOCOL_ERROR"},                      /* no scheme */
    {":scheme=http\n:authority=a\n:path=/\n", "PROTOCOL_ERROR"},                     /* no method */
    {":method=GET\n:scheme=http\n:authority=a\n", "PROTOCOL_ERROR"},                 /* no path */
    {":method=GET\n:scheme=http\n:authority=a\n:path=\n", "PROTOCOL_ERROR"},         /* an empty one */
    {":method=GET\n:scheme=http\n:authority=a\n:path=x\n", "PROTOCOL_ERROR"},        /* a relative one */
    {":method=GET\n:scheme=http\n:authority=a\n:path=*\n", "PROTOCOL_ERROR"},        /* OPTIONS' alone */
    {GET ":path=/y\n", "PROTOCOL_ERROR"},                                            /* two */
    {GET ":status=200\n", "PROTOCOL_ERROR"},                                         /* a response's */
    {GET ":protocol=websocket\n", "PROTOCOL_ERROR"},                                 /* was not offered */
    {GET ":other=1\n", "PROTOCOL_ERROR"},                                            /* unknown */
    {":method=GET\n:scheme=http\nx-a=b\n:authority=a\n:path=/\n", "PROTOCOL_ERROR"}, /* behind a field */
    {GET "X-A=b\n", "PROTOCOL_ERROR"},                                               /* upper case */
    {GET "x a=b\n", "PROTOCOL_ERROR"},                                               /* not a name */
    {GET "x-a= b\n", "PROTOCOL_ERROR"},                                              /* a blank at its end */
    {GET "x-a=b\rc: d\n", "PROTOCOL_ERROR"},                                         /* would end a line of HTTP/1 */
    {GET "connection=close\n", "PROTOCOL_ERROR"}, {GET "connection=keep-alive\nkeep-alive=5\n", "PROTOCOL_ERROR"},
    {GET "proxy-connection=keep-alive\n", "PROTOCOL_ERROR"}, {GET "transfer-encoding=chunked\n", "PROTOCOL_ERROR"},
    {GET "upgrade=h2c\n", "PROTOCOL_ERROR"}, {GET "te=gzip\n", "PROTOCOL_ERROR"},
    {GET "host=b\n", "PROTOCOL_ERROR"}, /* two places */
    {GET "host=a\nhost=a\n", "PROTOCOL_ERROR"}, {GET "content-length=1\ncontent-length=1\n", "PROTOCOL_ERROR"},
    {GET "content-length=-1\n", "PROTOCOL_ERROR"}, {GET "content-length=4\n", "PROTOCOL_ERROR"}, /* END_STREAM says 0 */
};

static void malformed_requests_are_reset(void **state)
{
	struct fixture *f = *state;
	char text[64];

	greet(f);
	for (uint32_t i = 0; i < sizeof(malformed) / sizeof(*malformed); i++) {
		headers(f, END, 2 * i + 1, malformed[i].fields);
		snprintf(text, sizeof(text), "RST_STREAM %u %s\n", 2 * i + 1, malformed[i].sent);
		assert_sent(f, text);
		assert_log(f, "");
	}
	/* The connection lives. */
	headers(f, END, 99, GET);
	assert_log(f, SAYS_GET);
	assert_false(f->server->want_close);
}

static const struct {
	const char *fields;
	const char *status;
} refused[] = {
    {":method=GET\n:scheme=http\n:authority=u@a\n:path=/\n", "400"},
    {":method=GET\n:scheme=http\n:authority=a:99999\n:path=/\n", "400"},
    {":method=GET\n:scheme=ftp\n:authority=a\n:path=/\n", "400"},
    {":method=CONNECT\n:authority=a:1\n", "501"},
    {POST "expect=cake\n", "417"},
};

static void what_the_session_answers_itself(void **state)
{
	struct fixture *f = *state;
	char text[64];

	greet(f);
	for (uint32_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		headers(f, END, 2 * i + 1, refused[i].fields);
		snprintf(text, sizeof(text), "HEADERS %u :status=%s content-type=application/problem+json", 2 * i + 1,
		    refused[i].status);
		assert_memory_equal(sent(f), text, strlen(text));
		assert_log(f, "");
	}
}

static void limits_of_a_head(void **state)
{
	struct fixture *f = *state;
	struct rea_buffer fields = {0};
	char value[4096];

	greet(f);
	/* 32 bytes and both texts for each: 4 + 39 + 38 + 37 and what is in them. */
	memset(value, 'v', sizeof(value));
	rea_buffer_append(&fields, GET "x-a=", strlen(GET "x-a="));
	rea_buffer_append(&fields, value, 4096 - 5 * 32 - (7 + 3 + 7 + 4 + 10 + 1 + 5 + 2) - 3);
	rea_buffer_append(&fields, "\n", 2);
	headers(f, END, 1, rea_buffer_data(&fields));
	assert_memory_equal(recorder_text(&f->recorder), "request GET", 11);
	fields.end -= 2;
	rea_buffer_append(&fields, "v\n", 3);
	headers(f, END, 3, rea_buffer_data(&fields));
	assert_log(f, "");
	assert_memory_equal(sent(f), "HEADERS 3 :status=431", 21);
	rea_buffer_clear(&fields);
	rea_buffer_append(&fields, GET, strlen(GET));
	for (int i = 0; i < 40; i++)
		rea_buffer_append(&fields, "a=b\n", 4);
	rea_buffer_append(&fields, "", 1);
	headers(f, END, 5, rea_buffer_data(&fields));
	assert_memory_equal(recorder_text(&f->recorder), "request GET", 11);
	fields.end--;
	rea_buffer_append(&fields, "a=b\n", 5);
	headers(f, END, 7, rea_buffer_data(&fields));
	assert_log(f, "");
	assert_memory_equal(sent(f), "HEADERS 7 :status=431", 21);
	rea_buffer_fini(&fields);
}

static void trailers_have_their_own_limit(void **state)
{
	struct fixture *f = *state;
	char text[600] = "x-t=";

	greet(f);
	headers(f, 0, 1, POST);
	headers(f, 0, 3, POST);
	recorder_text(&f->recorder);
	memset(text + 4, 'v', 512 - 32 - 3 + 1);
	headers(f, END, 1, text);
	assert_log(f, "abort: trailer section too large\n");
	assert_sent(f, "RST_STREAM 1 ENHANCE_YOUR_CALM\n");
	text[4 + 512 - 32 - 3] = '\0';
	headers(f, END, 3, text);
	assert_memory_equal(recorder_text(&f->recorder), "end [x-t:vvv", 12);
}

static void bodies_that_lie(void **state)
{
	struct fixture *f = *state;

	greet(f);
	headers(f, 0, 1, POST "content-length=3\n");
	headers(f, 0, 3, POST "content-length=3\n");
	headers(f, 0, 5, POST "content-length=3\n");
	recorder_text(&f->recorder);
	data(f, 0, 1, "four");
	assert_sent(f, "RST_STREAM 1 PROTOCOL_ERROR\n");
	assert_log(f, "abort: a violation of HTTP/2\n");
	data(f, END, 3, "2.");
	assert_sent(f, "RST_STREAM 3 PROTOCOL_ERROR\n");
	assert_log(f, "body 2.\nabort: a violation of HTTP/2\n");
	data(f, END, 5, "3..");
	assert_log(f, "body 3..\nend\n");
}

/* ---- frames ---- */

struct frame {
	const char *name;
	uint8_t type;
	uint8_t flags;
	uint32_t stream;
	const char *payload;
	size_t length;
	const char *sent;
};

/* Stream 1 is open, stream 3 half closed, 5 idle. */
static const struct frame bad_frames[] = {
    {"data on stream 0", NGHTTP2_DATA, 0, 0, "x", 1, "GOAWAY 3 PROTOCOL_ERROR\n"},
    {"data on an idle stream", NGHTTP2_DATA, 0, 5, "x", 1, "GOAWAY 3 PROTOCOL_ERROR\n"},
    {"data after the end", NGHTTP2_DATA, 0, 3, "x", 1, "GOAWAY 3 STREAM_CLOSED\n"},
    {"padding longer than the frame", NGHTTP2_DATA, NGHTTP2_FLAG_PADDED, 1, "\x05x", 2, "GOAWAY 3 PROTOCOL_ERROR\n"},
    {"headers on stream 0", NGHTTP2_HEADERS, 4, 0, "\x82", 1, "GOAWAY 3 PROTOCOL_ERROR\n"},
    {"headers on an even stream", NGHTTP2_HEADERS, 4, 2, "\x82", 1, "GOAWAY 3 PROTOCOL_ERROR\n"},
    {"an index that is not there", NGHTTP2_HEADERS, 4, 5, "\xff\xff\x7f", 3, "GOAWAY 5 COMPRESSION_ERROR\n"},
    {"trailers without an end", NGHTTP2_HEADERS, 4, 1, "\0\1a\1b", 5, "RST_STREAM 1 PROTOCOL_ERROR\n"},
    {"a continuation of nothing", NGHTTP2_CONTINUATION, 4, 1, "", 0, "GOAWAY 3 PROTOCOL_ERROR\n"},
    {"a short RST_STREAM", NGHTTP2_RST_STREAM, 0, 1, "xxx", 3, "GOAWAY 3 FRAME_SIZE_ERROR\n"},
    {"RST_STREAM on stream 0", NGHTTP2_RST_STREAM, 0, 0, "\0\0\0\0", 4, "GOAWAY 3 PROTOCOL_ERROR\n"},
    {"RST_STREAM on an idle stream", NGHTTP2_RST_STREAM, 0, 5, "\0\0\0\0", 4, "GOAWAY 3 PROTOCOL_ERROR\n"},
    {"SETTINGS on a stream", NGHTTP2_SETTINGS, 0, 1, "", 0, "GOAWAY 3 PROTOCOL_ERROR\n"},
    {"SETTINGS of a half", NGHTTP2_SETTINGS, 0, 0, "xxx", 3, "GOAWAY 3 FRAME_SIZE_ERROR\n"},
    {"an acknowledgement with contents", NGHTTP2_SETTINGS, 1, 0, "\0\1\0\0\0\0", 6, "GOAWAY 3 FRAME_SIZE_ERROR\n"},
    {"push that is neither", NGHTTP2_SETTINGS, 0, 0, "\0\2\0\0\0\2", 6, "GOAWAY 3 PROTOCOL_ERROR\n"},
    {"a window past the bound", NGHTTP2_SETTINGS, 0, 0, "\0\4\x80\0\0\0", 6, "GOAWAY 3 FLOW_CONTROL_ERROR\n"},
    {"frames below the least size", NGHTTP2_SETTINGS, 0, 0, "\0\5\0\0\x3f\xff", 6, "GOAWAY 3 PROTOCOL_ERROR\n"},
    {"a push of a client's", NGHTTP2_PUSH_PROMISE, 4, 1, "\0\0\0\2\x82", 5, "GOAWAY 3 PROTOCOL_ERROR\n"},
    {"a PING of 7 bytes", NGHTTP2_PING, 0, 0, "1234567", 7, "GOAWAY 3 FRAME_SIZE_ERROR\n"},
    {"a PING on a stream", NGHTTP2_PING, 0, 1, "12345678", 8, "GOAWAY 3 PROTOCOL_ERROR\n"},
    {"a GOAWAY on a stream", NGHTTP2_GOAWAY, 0, 1, "\0\0\0\0\0\0\0\0", 8, "GOAWAY 3 PROTOCOL_ERROR\n"},
    {"a WINDOW_UPDATE of 3 bytes", NGHTTP2_WINDOW_UPDATE, 0, 1, "xxx", 3, "GOAWAY 3 FRAME_SIZE_ERROR\n"},
    {"a WINDOW_UPDATE of nothing", NGHTTP2_WINDOW_UPDATE, 0, 1, "\0\0\0\0", 4, "GOAWAY 3 PROTOCOL_ERROR\n"},
    {"of nothing, on the connection", NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0\0\0", 4, "GOAWAY 3 PROTOCOL_ERROR\n"},
    {"a stream's window past the bound", NGHTTP2_WINDOW_UPDATE, 0, 1, "\x7f\xff\xff\xff", 4,
	"RST_STREAM 1 FLOW_CONTROL_ERROR\n"},
    {"the connection's past the bound", NGHTTP2_WINDOW_UPDATE, 0, 0, "\x7f\xff\xff\xff", 4, "GOAWAY 3 FLOW_CONTROL_ERROR\n"},
    {"a WINDOW_UPDATE on an idle stream", NGHTTP2_WINDOW_UPDATE, 0, 5, "\0\0\0\1", 4, "GOAWAY 3 PROTOCOL_ERROR\n"},
    {"a type that nobody knows", 0x77, 0, 1, "xxx", 3, ""},
};

/* The right code, at the right scope; of a stream's error its neighbour hears nothing. */
static void malformed_frames(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(bad_frames) / sizeof(*bad_frames); i++) {
		const struct frame *bad = &bad_frames[i];
		struct fixture *f;
		bool of_connection = strncmp(bad->sent, "GOAWAY", 6) == 0;

		assert_int_equal(set_up((void **)&f), 0);
		greet(f);
		headers(f, 0, 1, POST);
		headers(f, END, 3, GET);
		recorder_text(&f->recorder);
		frame_put(&f->in, bad->type, bad->flags, bad->stream, bad->payload, bad->length);
		feed(f);
		if (strcmp(sent(f), bad->sent) != 0)
			fail_msg("%s: %s", bad->name, rea_buffer_data(&f->reader.text));
		assert_int_equal(f->server->want_close, of_connection);
		assert_int_equal(f->server->error, of_connection ? HTTP_ERROR_PROTOCOL : HTTP_ERROR_NONE);
		if (!of_connection && *bad->sent != '\0') {
			assert_log(f, "abort: a violation of HTTP/2\n");
			respond(f->recorder.server_stream, &ok);
			http_server_finish(f->recorder.server_stream, NULL, 0);
			assert_sent(f, "HEADERS 3 :status=200\nDATA 3 0 end\n");
		}
		tear_down((void **)&f);
	}
}

static void what_comes_for_a_closed_stream(void **state)
{
	static const struct frame late[] = {
	    {"data", NGHTTP2_DATA, 0, 1, "x", 1, "GOAWAY 1 STREAM_CLOSED\n"},
	    {"headers", NGHTTP2_HEADERS, 4, 1, "\x82", 1, "GOAWAY 1 STREAM_CLOSED\n"},
	    {"a window", NGHTTP2_WINDOW_UPDATE, 0, 1, "\0\0\0\1", 4, ""},
	    {"a priority of nothing", NGHTTP2_PRIORITY, 0, 0, "\0\0\0\0\1", 5, "GOAWAY 1 PROTOCOL_ERROR\n"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(late) / sizeof(*late); i++) {
		struct fixture *f;

		assert_int_equal(set_up((void **)&f), 0);
		greet(f);
		f->recorder.answer = "";
		headers(f, END, 1, GET);
		assert_sent(f, "HEADERS 1 end :status=200\n");
		frame_put(&f->in, late[i].type, late[i].flags, late[i].stream, late[i].payload, late[i].length);
		feed(f);
		if (strcmp(sent(f), late[i].sent) != 0)
			fail_msg("%s: %s", late[i].name, rea_buffer_data(&f->reader.text));
		tear_down((void **)&f);
	}
}

/* What was on its way when we reset a stream is no fault: of the last 128. */
static void what_comes_for_a_stream_that_we_reset(void **state)
{
	struct fixture *f = *state;

	greet(f);
	for (uint32_t i = 0; i < 129; i++) {
		headers(f, 0, 2 * i + 1, POST);
		http_server_reset(f->recorder.server_stream);
		http_server_fill(f->server);
	}
	sent(f);
	data(f, 0, 3, "late");
	data(f, 0, 257, "late");
	assert_sent(f, "");
	data(f, 0, 1, "too late");
	assert_sent(f, "GOAWAY 257 STREAM_CLOSED\n");
}

static void too_long_a_frame(void **state)
{
	struct fixture *f = *state;
	static char big[16385];

	greet(f);
	headers(f, 0, 1, POST);
	frame_put(&f->in, NGHTTP2_DATA, 0, 1, big, sizeof(big));
	feed(f);
	assert_sent(f, "GOAWAY 1 FRAME_SIZE_ERROR\n");
	assert_true(f->server->want_close);
}

static void a_frame_in_the_middle_of_a_head(void **state)
{
	struct fixture *f = *state;

	greet(f);
	frame_put(&f->in, NGHTTP2_HEADERS, END, 1, "\x82", 1);
	feed(f);
	assert_true(http_server_in_head(f->server));
	frame_put(&f->in, NGHTTP2_PING, 0, 0, "12345678", 8);
	feed(f);
	assert_sent(f, "GOAWAY 1 PROTOCOL_ERROR\n");
}

static void no_preface(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(http_server_receive(f->server, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27), REA_ERR_SYNTAX);
	assert_true(f->server->want_close);
	assert_sent(f, "GOAWAY 0 PROTOCOL_ERROR\n");
}

/* ---- floods ---- */

static void too_many_streams(void **state)
{
	struct fixture *f = *state;

	greet(f);
	frame_put(&f->in, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, NULL, 0);
	for (uint32_t i = 0; i < 100; i++)
		headers(f, 0, 2 * i + 1, POST);
	assert_sent(f, "");
	headers(f, 0, 201, POST);
	assert_sent(f, "GOAWAY 199 PROTOCOL_ERROR\n");
}

/* Before it can know our bound: the one more is refused. */
static void too_many_streams_at_once(void **state)
{
	struct fixture *f = *state;

	greet(f);
	for (uint32_t i = 0; i <= 100; i++)
		headers(f, 0, 2 * i + 1, POST);
	data(f, 0, 201, "it does not know yet");
	assert_sent(f, "RST_STREAM 201 REFUSED_STREAM\n");
	assert_false(f->server->want_close);
}

static void open_and_reset(struct fixture *f, uint32_t i)
{
	headers_put(&f->in, END, 2 * i + 1, GET);
	u32_put(&f->in, NGHTTP2_RST_STREAM, 0, 2 * i + 1, NGHTTP2_CANCEL);
	feed(f);
	http_server_fill(f->server);
}

static void rapid_resets(void **state)
{
	struct fixture *f = *state;
	uint32_t i = 0;

	greet(f);
	f->server->now_ns = REA_NS_PER_S;
	for (; i < 500; i++)
		open_and_reset(f, i);
	assert_false(f->server->want_close);
	/* 50 a second are forgiven. */
	f->server->now_ns += REA_NS_PER_S;
	for (; i < 550; i++)
		open_and_reset(f, i);
	assert_sent(f, "");
	assert_false(f->server->want_close);
	open_and_reset(f, i);
	assert_sent(f, "GOAWAY 1101 ENHANCE_YOUR_CALM\n");
	assert_true(f->server->want_close);
	assert_int_equal(f->server->error, HTTP_ERROR_FLOOD);
}

/* Calls that were given up after a while are no flood. */
static void slow_resets(void **state)
{
	struct fixture *f = *state;

	greet(f);
	for (uint32_t i = 0; i < 2000; i++) {
		headers(f, END, 2 * i + 1, GET);
		f->server->now_ns += 50 * REA_NS_PER_MS;
		u32_put(&f->in, NGHTTP2_RST_STREAM, 0, 2 * i + 1, NGHTTP2_CANCEL);
		feed(f);
		rea_buffer_clear(&f->recorder.log);
		http_server_fill(f->server);
	}
	assert_sent(f, "");
	assert_false(f->server->want_close);
}

/* The client makes us reset its streams, which is as good for it. */
static void made_resets(void **state)
{
	struct fixture *f = *state;

	greet(f);
	f->server->now_ns = REA_NS_PER_S;
	for (uint32_t i = 0; i < 500; i++) {
		headers_put(&f->in, END, 2 * i + 1, GET);
		u32_put(&f->in, NGHTTP2_WINDOW_UPDATE, 0, 2 * i + 1, 0x7fffffff);
		feed(f);
		rea_buffer_clear(&f->recorder.log);
		http_server_fill(f->server);
	}
	assert_non_null(strstr(sent(f), "RST_STREAM 999 FLOW_CONTROL_ERROR\n"));
	headers_put(&f->in, END, 1001, GET);
	u32_put(&f->in, NGHTTP2_WINDOW_UPDATE, 0, 1001, 0x7fffffff);
	feed(f);
	http_server_fill(f->server);
	assert_non_null(strstr(sent(f), "GOAWAY 1001 ENHANCE_YOUR_CALM\n"));
	assert_true(f->server->want_close);
}

static void continuations(void **state)
{
	struct fixture *f = *state;

	greet(f);
	frame_put(&f->in, NGHTTP2_HEADERS, END, 1, "\x82", 1);
	for (int i = 0; i < 8; i++)
		frame_put(&f->in, NGHTTP2_CONTINUATION, 0, 1, "\0\1a\1b", 5);
	assert_int_equal(feed(f), 0);
	assert_sent(f, "");
	frame_put(&f->in, NGHTTP2_CONTINUATION, 0, 1, "\0\1a\1b", 5);
	assert_int_equal(feed(f), REA_ERR_SYNTAX);
	assert_sent(f, "GOAWAY 1 ENHANCE_YOUR_CALM\n");
	assert_int_equal(f->server->error, HTTP_ERROR_FLOOD);
	assert_log(f, "");
}

static void frames_that_lead_nowhere(void **state)
{
	static const struct frame frames[] = {
	    {"empty DATA", NGHTTP2_DATA, 0, 1, "", 0, NULL},
	    {"SETTINGS", NGHTTP2_SETTINGS, 0, 0, "", 0, NULL},
	    {"PRIORITY", NGHTTP2_PRIORITY, 0, 1, "\0\0\0\0\1", 5, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(frames) / sizeof(*frames); i++) {
		struct fixture *f;
		unsigned count = 0;

		assert_int_equal(set_up((void **)&f), 0);
		greet(f);
		headers(f, 0, 1, POST);
		while (!f->server->want_close && count < 1000) {
			frame_put(&f->in, frames[i].type, 0, frames[i].stream, frames[i].payload, frames[i].length);
			feed(f);
			http_server_fill(f->server);
			count++;
		}
		/* greet's own SETTINGS were the first. */
		assert_int_equal(count, 500);
		assert_int_equal(f->server->error, HTTP_ERROR_FLOOD);
		tear_down((void **)&f);
	}
}

/* Answers that nobody reads gather, up to a bound. */
static void pings_that_are_not_read(void **state)
{
	struct fixture *f = *state;
	unsigned count = 0;

	greet(f);
	headers(f, END, 1, GET);
	respond(f->recorder.server_stream, &ok);
	while (!f->server->want_close && count < 10000) {
		frame_put(&f->in, NGHTTP2_PING, 0, 0, "12345678", 8);
		feed(f);
		http_server_fill(f->server);
		count++;
	}
	/* 16 KiB of answers of 17 bytes, and a thousand inside. */
	assert_in_range(count, 1900, 2000);
	assert_int_equal(f->server->error, HTTP_ERROR_FLOOD);
	assert_in_range(rea_buffer_length(&f->server->out), 16384, 16384 + 64);
}

/* ---- the end ---- */

static void a_graceful_end(void **state)
{
	struct fixture *f = *state;
	struct http_server_stream *first;

	greet(f);
	headers(f, END, 1, GET);
	first = f->recorder.server_stream;
	http_server_shutdown(f->server);
	http_server_shutdown(f->server);
	assert_string_equal(all_sent(f), "GOAWAY 2147483647 NO_ERROR\nPING\n");
	/* It was on its way. */
	headers(f, END, 3, GET);
	frame_put(&f->in, NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, "\0\0\0\0\0\0\0\0", 8);
	feed(f);
	assert_string_equal(all_sent(f), "GOAWAY 3 NO_ERROR\n");
	/* That was not: it is as if it had never come. */
	headers(f, END, 5, GET);
	assert_log(f, SAYS_GET SAYS_GET);
	respond(f->recorder.server_stream, &ok);
	http_server_finish(f->recorder.server_stream, NULL, 0);
	assert_false(f->server->want_close);
	respond(first, &ok);
	http_server_finish(first, NULL, 0);
	assert_sent(f, "HEADERS 3 :status=200\nHEADERS 1 :status=200\nDATA 1 0 end\nDATA 3 0 end\n");
	assert_true(f->server->want_close);
	assert_int_equal(f->server->error, HTTP_ERROR_NONE);
}

static void idle_ones_are_told(void **state)
{
	struct fixture *f = *state;

	greet(f);
	http_server_timeout(f->server);
	assert_sent(f, "GOAWAY 0 NO_ERROR\n");
	assert_true(f->server->want_close);
}

static void a_client_that_says_goodbye(void **state)
{
	struct fixture *f = *state;

	greet(f);
	f->recorder.answer = "bye";
	headers(f, 0, 1, POST);
	frame_put(&f->in, NGHTTP2_GOAWAY, 0, 0, "\0\0\0\0\0\0\0\0", 8);
	feed(f);
	assert_false(f->server->want_close);
	data(f, END, 1, "x");
	assert_sent(f, "HEADERS 1 :status=200 content-length=3\nDATA 1 3 end bye\n");
	assert_true(f->server->want_close);
}

/* ---- cuts, memory ---- */

static void put_conversation(struct rea_buffer *in)
{
	rea_buffer_append(in, H2_PREFACE, H2_PREFACE_LENGTH);
	frame_put(in, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
	headers_put(in, 0, 1, POST "content-length=9\ncookie=a\ncookie=b\n");
	frame_put(in, NGHTTP2_DATA, 0, 1, "some ", 5);
	frame_put(in, NGHTTP2_HEADERS, END, 3, "\x82\x86\x41\1a", 5);
	frame_put(in, NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 3, "\4\2/x", 4);
	frame_put(in, NGHTTP2_DATA, 0, 1, "body", 4);
	headers_put(in, END, 1, "x-t=1\n");
	frame_put(in, NGHTTP2_PING, 0, 0, "12345678", 8);
	headers_put(in, 0, 5, POST);
	u32_put(in, NGHTTP2_RST_STREAM, 0, 5, NGHTTP2_CANCEL);
}

static void however_bytes_are_cut(void **state)
{
	static const char story[] =
	    "request POST /x of http://a 2 length 9 [content-length:9] [cookie:a; b]\nbody some \n" SAYS_GET
	    "body body\nend [x-t:1]\nrequest POST /x of http://a 2 length ?\nabort: no error\n";
	struct rea_buffer all = {0};

	(void)state;
	put_conversation(&all);
	for (size_t step = 1; step <= rea_buffer_length(&all); step++) {
		struct fixture *f;

		assert_int_equal(set_up((void **)&f), 0);
		f->recorder.answer = "hello";
		for (size_t at = 0; at < rea_buffer_length(&all); at += step) {
			size_t left = rea_buffer_length(&all) - at;

			http_server_receive(f->server, rea_buffer_data(&all) + at, left < step ? left : step);
		}
		assert_log(f, story);
		assert_string_equal(all_sent(f),
		    "SETTINGS 6=4096 9=1 3=100\nSETTINGS ack\nPING ack\nWINDOW_UPDATE 0 983041\nHEADERS 3 :status=200 "
		    "content-length=5\n"
		    "HEADERS 1 :status=200 content-length=5\nDATA 1 5 end hello\nDATA 3 5 end hello\n");
		tear_down((void **)&f);
	}
	rea_buffer_fini(&all);
}

static void converse(struct recorder *recorder)
{
	struct http_server *server = h2_server_new(&server_events, &limits, recorder);
	struct rea_buffer all = {.alloc = &oom_exempt};

	if (server == NULL)
		return;
	recorder->answer = "hello";
	put_conversation(&all);
	http_server_receive(server, rea_buffer_data(&all), rea_buffer_length(&all));
	http_server_fill(server);
	rea_buffer_clear(&all);
	recorder->answer = NULL;
	recorder->pause = true;
	headers_put(&all, 0, 7, POST "expect=100-continue\n");
	frame_put(&all, NGHTTP2_DATA, END, 7, "held", 4);
	recorder->server_stream = NULL;
	http_server_receive(server, rea_buffer_data(&all), rea_buffer_length(&all));
	if (recorder->server_stream != NULL && !server->want_close && strstr(recorder_text(recorder), "abort") == NULL) {
		static const struct http_field trailer = {REA_SLICE_LIT("a"), REA_SLICE_LIT("b"), HTTP_FIELD_OTHER, false};
		struct http_server_stream *stream = recorder->server_stream;

		http_server_resume(stream);
		http_server_interim(stream, 103, &trailer, 1);
		if (http_server_respond(stream, &ok) != 0 || http_server_write(stream, "hello", 5) != 0)
			http_server_reset(stream);
		else
			http_server_finish(stream, &trailer, 1);
	}
	http_server_fill(server);
	http_server_shutdown(server);
	http_server_fill(server);
	http_server_eof(server);
	rea_buffer_fini(&all);
	http_server_free(server);
}

static void out_of_memory_anywhere_ends_in_order(void **state)
{
	unsigned long count = 1;

	(void)state;
	for (int for_good = 0; for_good < 2; for_good++) {
		/* The first run fails nowhere, and counts. */
		for (unsigned long at = 0; at <= count; at++) {
			struct recorder recorder = {.log.alloc = &oom_exempt, .body.alloc = &oom_exempt};

			oom_start(at, for_good);
			converse(&recorder);
			count = oom_count > count ? oom_count : count;
			oom_start(0, false);
			recorder_fini(&recorder);
		}
		assert_true(count > 40);
	}
}

static void streams_are_used_again(void **state)
{
	struct fixture *f = *state;

	greet(f);
	f->recorder.answer = "hello";
	for (uint32_t i = 0; i < 200; i++) {
		/* What is left are nghttp2's own for a stream. */
		if (i == 100)
			oom_start(0, false);
		headers(f, 0, 2 * i + 1, POST "x-a=b\n");
		data(f, END, 2 * i + 1, "body");
		rea_buffer_clear(&f->recorder.log);
		http_server_fill(f->server);
		rea_buffer_clear(&f->server->out);
	}
	print_message("%lu allocations an exchange\n", oom_count / 100);
	assert_in_range(oom_count / 100, 0, 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	    TEST(what_is_said_first),
	    TEST(an_exchange),
	    TEST(trailers_both_ways),
	    TEST(trailers_behind_a_body_that_has_gone),
	    TEST(heads_without_a_body),
	    TEST(interim_replies),
	    TEST(many_at_once),
	    TEST(an_answer_before_the_request_has_come),
	    TEST(a_cut_answer_is_reset),
	    TEST(lengths_are_kept),
	    TEST(clients_that_leave),
	    TEST(a_paused_stream_keeps_its_window),
	    TEST(who_ignores_a_window_is_reset),
	    TEST(a_slow_reader_slows_the_writer),
	    TEST(out_is_bounded),
	    TEST(malformed_requests_are_reset),
	    TEST(what_the_session_answers_itself),
	    TEST(limits_of_a_head),
	    TEST(trailers_have_their_own_limit),
	    TEST(bodies_that_lie),
	    cmocka_unit_test(malformed_frames),
	    cmocka_unit_test(what_comes_for_a_closed_stream),
	    TEST(what_comes_for_a_stream_that_we_reset),
	    TEST(too_long_a_frame),
	    TEST(a_frame_in_the_middle_of_a_head),
	    TEST(no_preface),
	    TEST(too_many_streams),
	    TEST(too_many_streams_at_once),
	    TEST(rapid_resets),
	    TEST(slow_resets),
	    TEST(made_resets),
	    TEST(continuations),
	    cmocka_unit_test(frames_that_lead_nowhere),
	    TEST(pings_that_are_not_read),
	    TEST(a_graceful_end),
	    TEST(idle_ones_are_told),
	    TEST(a_client_that_says_goodbye),
	    cmocka_unit_test(however_bytes_are_cut),
	    cmocka_unit_test(out_of_memory_anywhere_ends_in_order),
	    TEST(streams_are_used_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
