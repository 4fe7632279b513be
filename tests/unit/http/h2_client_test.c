/* The client's end of HTTP/2, talked to by frames written by hand, and then by our own server. */
#include "frames.h"
#include "oom.h"
#include "recorder.h"

#include <rea/error.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define END NGHTTP2_FLAG_END_STREAM
#define ASKED ":method=GET :scheme=http :authority=a :path=/x"

struct fixture {
	struct recorder recorder;
	struct http_client *client;
	struct http_client_stream *stream;
	struct frames_reader reader;
	struct rea_buffer in;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	oom_start(0, false);
	f->recorder.log.alloc = f->recorder.body.alloc = &oom_exempt;
	f->client = h2_client_new(&client_events, &limits, &f->recorder);
	*state = f;
	return f->client ? 0 : -1;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	http_client_free(f->client);
	recorder_fini(&f->recorder);
	frames_fini(&f->reader);
	rea_buffer_fini(&f->in);
	free(f);
	return 0;
}

static int feed(struct fixture *f)
{
	int result = http_client_receive(f->client, rea_buffer_data(&f->in), rea_buffer_length(&f->in));

	rea_buffer_clear(&f->in);
	return result;
}

static const char *all_sent(struct fixture *f)
{
	f->client->taken = 0;
	http_client_fill(f->client);
	return frames_text(&f->reader, &f->client->out);
}

static const char *sent(struct fixture *f)
{
	http_client_fill(f->client);
	return frames_messages(&f->reader, &f->client->out);
}

#define assert_log(f, text) assert_string_equal(recorder_text(&(f)->recorder), text)
#define assert_sent(f, text) assert_string_equal(sent(f), text)

static struct http_request_head head_of(const char *method, uint64_t body_length)
{
	return (struct http_request_head){.method = rea_slice_of(method),
	    .scheme = REA_SLICE_LIT("http"),
	    .authority = REA_SLICE_LIT("a"),
	    .path = REA_SLICE_LIT("/x"),
	    .body_length = body_length};
}

static struct http_client_stream *begin(struct fixture *f, const char *method, uint64_t body_length)
{
	struct http_request_head head = head_of(method, body_length);

	f->stream = http_client_begin(f->client, &head, f);
	return f->stream;
}

static struct http_client_stream *get(struct fixture *f)
{
	struct http_client_stream *stream = begin(f, "GET", 0);

	assert_non_null(stream);
	assert_int_equal(http_client_finish(stream, NULL, 0), 0);
	return stream;
}

static void greet(struct fixture *f)
{
	frame_put(&f->in, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
	assert_int_equal(feed(f), 0);
	sent(f);
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

static void goaway(struct fixture *f, uint32_t last, uint32_t code)
{
	unsigned char payload[8] = {0, 0, 0, (unsigned char)last, 0, 0, 0, (unsigned char)code};

	frame_put(&f->in, NGHTTP2_GOAWAY, 0, 0, payload, sizeof(payload));
	feed(f);
}

static void reset(struct fixture *f, uint32_t stream, uint32_t code)
{
	u32_put(&f->in, NGHTTP2_RST_STREAM, 0, stream, code);
	feed(f);
}

/* ---- exchanges ---- */

static void what_is_said_first(void **state)
{
	struct fixture *f = *state;

	assert_true(f->client->reusable);
	assert_true(f->client->multiplexed);
	get(f);
	assert_string_equal(
	    all_sent(f), "PREFACE\nSETTINGS 6=4096 9=1 2=0\nWINDOW_UPDATE 0 983041\nHEADERS 1 end " ASKED "\n");
}

static void an_exchange(void **state)
{
	struct fixture *f = *state;

	greet(f);
	begin(f, "POST", 4);
	assert_int_equal(http_client_write(f->stream, "body", 4), 0);
	assert_int_equal(http_client_finish(f->stream, NULL, 0), 0);
	assert_sent(
	    f, "HEADERS 1 :method=POST :scheme=http :authority=a :path=/x content-length=4\nDATA 1 4 end body\n");
	headers(f, 0, 1, ":status=103\nlink=</a>\n");
	headers(f, 0, 1, ":status=200\ncontent-length=5\nx-a=b\n");
	assert_log(
	    f, "interim 103  2 length ? bodiless [link:</a>]\nresponse 200  2 length 5 [content-length:5] [x-a:b]\n");
	data(f, END, 1, "hello");
	assert_log(f, "body hello\nend\n");
	assert_sent(f, "");
	assert_true(f->client->reusable);
}

static void fields_that_pass(void **state)
{
	struct fixture *f = *state;
	const struct http_field fields[] = {
	    {REA_SLICE_LIT("Host"), REA_SLICE_LIT("b"), HTTP_FIELD_HOST, false},
	    {REA_SLICE_LIT("Connection"), REA_SLICE_LIT("x"), HTTP_FIELD_CONNECTION, true},
	    {REA_SLICE_LIT("X"), REA_SLICE_LIT("named"), HTTP_FIELD_OTHER, true},
	    {REA_SLICE_LIT("TE"), REA_SLICE_LIT("gzip, trailers"), HTTP_FIELD_TE, true},
	    {REA_SLICE_LIT("Content-Length"), REA_SLICE_LIT("9"), HTTP_FIELD_CONTENT_LENGTH, false},
	    {REA_SLICE_LIT("Expect"), REA_SLICE_LIT("100-continue"), HTTP_FIELD_EXPECT, false},
	    {REA_SLICE_LIT("Rea-Attempt"), REA_SLICE_LIT("7/9"), HTTP_FIELD_REA_ATTEMPT, false},
	    {REA_SLICE_LIT("X-Mixed"), REA_SLICE_LIT("Case"), HTTP_FIELD_OTHER, false},
	};
	const struct http_field more = {REA_SLICE_LIT("rea-attempt"), REA_SLICE_LIT("1/2"), HTTP_FIELD_REA_ATTEMPT, false};
	struct http_request_head head = head_of("POST", HTTP_LENGTH_UNKNOWN);

	greet(f);
	head.fields = fields;
	head.fields_len = sizeof(fields) / sizeof(*fields);
	head.skip = UINT64_C(1) << HTTP_FIELD_REA_ATTEMPT;
	head.more = &more;
	head.more_len = 1;
	f->stream = http_client_begin(f->client, &head, NULL);
	assert_sent(
	    f, "HEADERS 1 :method=POST :scheme=http :authority=a :path=/x x-mixed=Case rea-attempt=1/2 te=trailers\n");
	/* A blank says nothing of trailers. */
	head.fields = &(struct http_field){REA_SLICE_LIT("TE"), REA_SLICE_LIT("xtrailers"), HTTP_FIELD_TE, true};
	head.fields_len = 1;
	head.more_len = 0;
	f->stream = http_client_begin(f->client, &head, NULL);
	assert_sent(f, "HEADERS 3 :method=POST :scheme=http :authority=a :path=/x\n");
}

static void what_it_cannot_ask(void **state)
{
	struct fixture *f = *state;
	struct http_request_head head = head_of("GET", 0);

	greet(f);
	assert_null(begin(f, "CONNECT", 0));
	head.upgrade = true;
	assert_null(http_client_begin(f->client, &head, NULL));
	assert_sent(f, "");
}

static void responses_without_a_body(void **state)
{
	struct fixture *f = *state;

	greet(f);
	begin(f, "HEAD", 0);
	sent(f);
	headers(f, END, 1, ":status=200\ncontent-length=7\n");
	assert_log(f, "response 200  2 length 7 bodiless [content-length:7]\nend\n");
	get(f);
	sent(f);
	headers(f, 0, 3, ":status=304\n");
	data(f, END, 3, "");
	assert_log(f, "response 304  2 length ? bodiless\nend\n");
	get(f);
	sent(f);
	headers(f, END, 5, ":status=200\ngrpc-status=5\n");
	assert_log(f, "response 200  2 length 0 [grpc-status:5]\nend\n");
}

static void trailers(void **state)
{
	struct fixture *f = *state;
	const struct http_field trailer = {REA_SLICE_LIT("X-T"), REA_SLICE_LIT("1"), HTTP_FIELD_OTHER, false};

	greet(f);
	begin(f, "POST", HTTP_LENGTH_UNKNOWN);
	http_client_write(f->stream, "body", 4);
	http_client_finish(f->stream, &trailer, 1);
	assert_sent(
	    f, "HEADERS 1 :method=POST :scheme=http :authority=a :path=/x\nDATA 1 4 body\nHEADERS 1 end x-t=1\n");
	headers(f, 0, 1, ":status=200\n");
	data(f, 0, 1, "hello");
	headers(f, END, 1, "grpc-status=0\n");
	assert_log(f, "response 200  2 length ?\nbody hello\nend [grpc-status:0]\n");
}

static void a_response_before_the_request_is_whole(void **state)
{
	struct fixture *f = *state;

	greet(f);
	begin(f, "POST", HTTP_LENGTH_UNKNOWN);
	http_client_write(f->stream, "some", 4);
	sent(f);
	headers(f, END, 1, ":status=413\n");
	assert_log(f, "response 413  2 length 0\nend\n");
	assert_int_equal(http_client_write(f->stream, "more", 4), REA_ERR_IO);
	assert_sent(f, "RST_STREAM 1 CANCEL\n");
	/* Servers say so, too. */
	begin(f, "POST", HTTP_LENGTH_UNKNOWN);
	sent(f);
	headers_put(&f->in, END, 3, ":status=200\n");
	u32_put(&f->in, NGHTTP2_RST_STREAM, 0, 3, NGHTTP2_NO_ERROR);
	assert_int_equal(feed(f), 0);
	assert_log(f, "response 200  2 length 0\nend\n");
	assert_sent(f, "RST_STREAM 3 CANCEL\n");
}

static void interims_are_counted(void **state)
{
	struct fixture *f = *state;

	greet(f);
	get(f);
	get(f);
	sent(f);
	for (int i = 0; i < 10; i++)
		headers(f, 0, 1, ":status=102\n");
	recorder_text(&f->recorder);
	headers(f, 0, 1, ":status=102\n");
	assert_log(f, "error: bytes nobody asked for\n");
	assert_sent(f, "RST_STREAM 1 PROTOCOL_ERROR\n");
	headers(f, END, 3, ":status=200\n");
	assert_log(f, "response 200  2 length 0\nend\n");
}

static void a_cancelled_one(void **state)
{
	struct fixture *f = *state;
	struct http_client_stream *first;

	greet(f);
	first = get(f);
	get(f);
	sent(f);
	http_client_cancel(first);
	assert_sent(f, "RST_STREAM 1 CANCEL\n");
	/* What was on its way is nobody's. */
	headers(f, 0, 1, ":status=200\n");
	data(f, END, 1, "late");
	headers(f, END, 3, ":status=200\n");
	assert_log(f, "response 200  2 length 0\nend\n");
	assert_int_equal(f->client->reusable, true);
	/* Not even begun: nothing is sent of it. */
	http_client_cancel(get(f));
	assert_sent(f, "");
}

/* ---- how far it has come ---- */

static void when_the_first_byte_is_out(void **state)
{
	struct fixture *f = *state;
	struct http_client_stream *first, *second;

	greet(f);
	f->client->taken = 1000;
	first = get(f);
	second = get(f);
	assert_true(first->first_byte == UINT64_MAX);
	http_client_fill(f->client);
	assert_int_equal(first->first_byte, 1000);
	assert_true(second->first_byte > 1000 && second->first_byte < 1000 + rea_buffer_length(&f->client->out));
}

static void the_peers_limit(void **state)
{
	struct fixture *f = *state;
	struct http_client_stream *waiting;

	/* What a peer has not told is 100. */
	for (int i = 0; i < 100; i++) {
		assert_true(f->client->reusable);
		get(f);
	}
	assert_false(f->client->reusable);
	assert_false(f->client->closing);
	/* One more is not refused: it waits with the others for what the peer allows. One goes ahead. */
	waiting = get(f);
	assert_sent(f, "HEADERS 1 end " ASKED "\n");
	settings_put(&f->in, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1000);
	feed(f);
	assert_true(f->client->reusable);
	sent(f);
	assert_true(waiting->first_byte != UINT64_MAX);
	tear_down(state);
	assert_int_equal(set_up(state), 0);
	f = *state;
	get(f);
	get(f);
	waiting = get(f);
	settings_put(&f->in, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 2);
	feed(f);
	assert_false(f->client->reusable);
	/* The third was begun before anybody knew: it waits, unsent. */
	assert_sent(f, "HEADERS 1 end " ASKED "\nHEADERS 3 end " ASKED "\n");
	assert_true(waiting->first_byte == UINT64_MAX);
	headers(f, END, 1, ":status=200\n");
	assert_sent(f, "HEADERS 5 end " ASKED "\n");
	assert_true(waiting->first_byte != UINT64_MAX);
	assert_false(f->client->reusable);
	headers(f, END, 3, ":status=200\n");
	assert_true(f->client->reusable);
}

/* Who is given up keeps its place until its turn comes. */
static void how_many_may_wait(void **state)
{
	struct fixture *f = *state;

	settings_put(&f->in, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1);
	feed(f);
	get(f);
	for (int i = 0; i < 1000; i++) {
		assert_false(f->client->full);
		http_client_cancel(get(f));
	}
	assert_true(f->client->full);
	assert_null(begin(f, "GET", 0));
	assert_sent(f, "HEADERS 1 end " ASKED "\n");
	headers(f, END, 1, ":status=200\n");
	assert_sent(f, "");
	assert_false(f->client->full);
	get(f);
	assert_sent(f, "HEADERS 2003 end " ASKED "\n");
	f->stream = NULL;
}

static void who_waits_may_leave_and_hears_of_a_goodbye(void **state)
{
	struct fixture *f = *state;
	struct http_client_stream *second;

	settings_put(&f->in, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1);
	feed(f);
	get(f);
	second = get(f);
	get(f);
	get(f);
	assert_sent(f, "HEADERS 1 end " ASKED "\n");
	http_client_cancel(second);
	assert_sent(f, "");
	headers(f, END, 1, ":status=200\n");
	assert_sent(f, "HEADERS 5 end " ASKED "\n");
	assert_log(f, "response 200  2 length 0\nend\n");
	/* Not when its turn comes. */
	goaway(f, 5, NGHTTP2_NO_ERROR);
	assert_log(f, "error: the peer went away before it took the stream\n");
	headers(f, END, 5, ":status=200\n");
	assert_log(f, "response 200  2 length 0\nend\n");
	assert_sent(f, "");
}

static void refused_ones(void **state)
{
	struct fixture *f = *state;
	struct http_client_stream *stream;

	greet(f);
	stream = get(f);
	get(f);
	sent(f);
	reset(f, 1, NGHTTP2_REFUSED_STREAM);
	assert_log(f, "error: the peer refused the stream, unprocessed\n");
	assert_int_equal(stream->error_code, NGHTTP2_REFUSED_STREAM);
	/* Who has answered has processed. */
	headers(f, 0, 3, ":status=200\n");
	reset(f, 3, NGHTTP2_REFUSED_STREAM);
	assert_log(f, "response 200  2 length ?\nerror: the peer reset the stream\n");
	stream = get(f);
	sent(f);
	reset(f, 5, NGHTTP2_ENHANCE_YOUR_CALM);
	assert_log(f, "error: the peer reset the stream\n");
	assert_int_equal(stream->error_code, NGHTTP2_ENHANCE_YOUR_CALM);
	assert_true(f->client->reusable);
}

static void a_peer_that_goes_away(void **state)
{
	struct fixture *f = *state;

	greet(f);
	get(f);
	get(f);
	sent(f);
	get(f);
	goaway(f, 1, NGHTTP2_NO_ERROR);
	/* So does the one that waits. */
	assert_log(f, "error: the peer went away before it took the stream\nerror: the peer went away before it took "
		      "the stream\n");
	assert_false(f->client->reusable);
	assert_true(f->client->closing);
	assert_sent(f, "");
	headers(f, 0, 1, ":status=200\n");
	data(f, END, 1, "whole");
	assert_log(f, "response 200  2 length ?\nbody whole\nend\n");
	assert_null(begin(f, "GET", 0));
}

/* First the warning, then the last one taken. */
static void a_peer_that_goes_away_gracefully(void **state)
{
	struct fixture *f = *state;
	unsigned char warning[8] = {0x7f, 0xff, 0xff, 0xff};

	greet(f);
	get(f);
	get(f);
	sent(f);
	frame_put(&f->in, NGHTTP2_GOAWAY, 0, 0, warning, sizeof(warning));
	feed(f);
	assert_log(f, "");
	assert_true(f->client->closing);
	goaway(f, 3, NGHTTP2_NO_ERROR);
	assert_log(f, "");
	headers(f, END, 1, ":status=200\n");
	headers(f, END, 3, ":status=200\n");
	assert_log(f, "response 200  2 length 0\nend\nresponse 200  2 length 0\nend\n");
}

static void an_end_in_the_middle(void **state)
{
	struct fixture *f = *state;

	greet(f);
	get(f);
	get(f);
	sent(f);
	headers(f, 0, 1, ":status=200\n");
	recorder_text(&f->recorder);
	http_client_eof(f->client);
	assert_log(f,
	    "error: the peer closed in the middle of a message\nerror: the peer closed in the middle of a message\n");
	assert_false(f->client->reusable);
	assert_true(f->client->closing);
	assert_null(begin(f, "GET", 0));
}

/* ---- flow control ---- */

static void a_paused_one_is_read_to_its_end_later(void **state)
{
	struct fixture *f = *state;
	struct http_client_stream *slow;

	greet(f);
	slow = get(f);
	get(f);
	sent(f);
	f->recorder.pause = true;
	headers(f, 0, 1, ":status=200\n");
	f->recorder.pause = false;
	data(f, 0, 1, "held");
	headers(f, END, 1, "x-t=1\n");
	headers(f, 0, 3, ":status=200\n");
	data(f, END, 3, "quick");
	assert_log(f, "response 200  2 length ?\nresponse 200  2 length ?\nbody quick\nend\n");
	assert_int_equal(http_client_resume(slow), 0);
	assert_log(f, "body held\nend [x-t:1]\n");
	assert_sent(f, "");
}

static void what_has_come_in_whole_outlives_the_connection(void **state)
{
	struct fixture *f = *state;
	struct http_client_stream *slow;

	greet(f);
	slow = get(f);
	get(f);
	sent(f);
	f->recorder.pause = true;
	headers(f, 0, 1, ":status=200\n");
	headers(f, 0, 3, ":status=200\n");
	f->recorder.pause = false;
	data(f, END, 1, "held");
	data(f, 0, 3, "half");
	recorder_text(&f->recorder);
	http_client_eof(f->client);
	assert_log(f, "error: the peer closed in the middle of a message\n");
	assert_true(f->client->reading_paused);
	assert_int_equal(http_client_resume(slow), 0);
	assert_log(f, "body held\nend\n");
	assert_false(f->client->reading_paused);
}

static void a_window_that_opens(void **state)
{
	struct fixture *f = *state;
	static char big[16384];

	greet(f);
	begin(f, "POST", HTTP_LENGTH_UNKNOWN);
	for (int i = 0; i < 5; i++) {
		assert_false(f->client->ops->congested(f->stream));
		assert_int_equal(http_client_write(f->stream, big, sizeof(big)), 0);
		do {
			rea_buffer_clear(&f->client->out);
			http_client_fill(f->client);
		} while (f->client->output_waits);
	}
	/* 65535 have gone. */
	assert_true(f->client->ops->congested(f->stream));
	u32_put(&f->in, NGHTTP2_WINDOW_UPDATE, 0, 1, 16384);
	feed(f);
	http_client_fill(f->client);
	assert_log(f, "");
	u32_put(&f->in, NGHTTP2_WINDOW_UPDATE, 0, 0, 16384);
	feed(f);
	rea_buffer_clear(&f->client->out);
	http_client_fill(f->client);
	assert_log(f, "writable\n");
}

/* ---- what is refused ---- */

static const struct {
	const char *fields;
	uint8_t flags;
	const char *error;
	const char *sent;
} malformed[] = {
    {"x-a=b\n", 0, "a violation of HTTP/2", "PROTOCOL_ERROR"},
    {":status=20\n", 0, "a violation of HTTP/2", "PROTOCOL_ERROR"},
    {":status=099\n", 0, "bytes nobody asked for", "PROTOCOL_ERROR"},
    {":status=101\n", 0, "a violation of HTTP/2", "PROTOCOL_ERROR"},
    {":status=100\n", END, "a violation of HTTP/2", "PROTOCOL_ERROR"},
    {":status=200\n:status=200\n", 0, "a violation of HTTP/2", "PROTOCOL_ERROR"},
    {":status=200\n:path=/\n", 0, "a violation of HTTP/2", "PROTOCOL_ERROR"},
    {":status=200\nX=y\n", 0, "a violation of HTTP/2", "PROTOCOL_ERROR"},
    {":status=200\nconnection=close\n", 0, "a violation of HTTP/2", "PROTOCOL_ERROR"},
    {":status=200\ntransfer-encoding=chunked\n", 0, "a violation of HTTP/2", "PROTOCOL_ERROR"},
    {":status=200\ncontent-length=5\n", END, "a violation of HTTP/2", "PROTOCOL_ERROR"},
    {":status=200\ncontent-length=5\ncontent-length=5\n", 0, "a violation of HTTP/2", "PROTOCOL_ERROR"},
};

static void malformed_responses_are_reset(void **state)
{
	struct fixture *f = *state;
	char text[80];

	greet(f);
	for (uint32_t i = 0; i < sizeof(malformed) / sizeof(*malformed); i++) {
		get(f);
		sent(f);
		headers(f, malformed[i].flags, 2 * i + 1, malformed[i].fields);
		snprintf(text, sizeof(text), "RST_STREAM %u %s\n", 2 * i + 1, malformed[i].sent);
		assert_sent(f, text);
		snprintf(text, sizeof(text), "error: %s\n", malformed[i].error);
		assert_log(f, text);
	}
	assert_true(f->client->reusable);
}

static void too_large_a_head(void **state)
{
	struct fixture *f = *state;
	struct rea_buffer fields = {0};

	greet(f);
	get(f);
	sent(f);
	rea_buffer_append(&fields, ":status=200\n", 12);
	for (int i = 0; i < 41; i++)
		rea_buffer_append(&fields, "a=b\n", 4);
	rea_buffer_append(&fields, "", 1);
	headers(f, END, 1, rea_buffer_data(&fields));
	assert_log(f, "error: too many header fields\n");
	assert_sent(f, "RST_STREAM 1 ENHANCE_YOUR_CALM\n");
	rea_buffer_fini(&fields);
}

static void bodies_that_lie(void **state)
{
	struct fixture *f = *state;

	greet(f);
	get(f);
	get(f);
	sent(f);
	headers(f, 0, 1, ":status=200\ncontent-length=3\n");
	headers(f, 0, 3, ":status=200\ncontent-length=3\n");
	recorder_text(&f->recorder);
	data(f, END, 1, "2.");
	data(f, 0, 3, "four");
	assert_sent(f, "RST_STREAM 1 PROTOCOL_ERROR\nRST_STREAM 3 PROTOCOL_ERROR\n");
	assert_log(f, "body 2.\nerror: a violation of HTTP/2\nerror: a violation of HTTP/2\n");
}

/* Of whose making it was nobody knows: what was under way may have been done. */
static void a_broken_connection(void **state)
{
	struct fixture *f = *state;

	greet(f);
	get(f);
	get(f);
	sent(f);
	/* Once the peer knows that nobody may push; before, only the push is refused. */
	frame_put(&f->in, NGHTTP2_PUSH_PROMISE, 4, 1, "\0\0\0\2\x82", 5);
	feed(f);
	assert_sent(f, "RST_STREAM 2 CANCEL\n");
	assert_log(f, "");
	frame_put(&f->in, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, NULL, 0);
	frame_put(&f->in, NGHTTP2_PUSH_PROMISE, 4, 1, "\0\0\0\4\x82", 5);
	feed(f);
	assert_sent(f, "GOAWAY 0 PROTOCOL_ERROR\n");
	assert_log(f,
	    "error: the peer closed in the middle of a message\nerror: the peer closed in the middle of a message\n");
	assert_true(f->client->closing);
}

static void another_protocol(void **state)
{
	struct fixture *f = *state;
	static const char h1[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";

	get(f);
	sent(f);
	http_client_receive(f->client, h1, sizeof(h1) - 1);
	assert_sent(f, "GOAWAY 0 PROTOCOL_ERROR\n");
	assert_true(f->client->closing);
	assert_log(f, "error: the peer closed in the middle of a message\n");
}

static void signs_of_life(void **state)
{
	struct fixture *f = *state;

	greet(f);
	f->client->ops->ping(f->client);
	assert_string_equal(all_sent(f), "PING\n");
	frame_put(&f->in, NGHTTP2_PING, 0, 0, "12345678", 8);
	assert_int_equal(feed(f), 0);
	assert_string_equal(all_sent(f), "PING ack\n");
}

/* ---- both ends ---- */

static void carry(struct http_client *client, struct http_server *server, size_t step)
{
	bool moved;

	do {
		struct rea_buffer *ends[2] = {&client->out, &server->out};

		http_client_fill(client);
		http_server_fill(server);
		moved = false;
		for (int end = 0; end < 2; end++) {
			char piece[64];
			size_t length = rea_buffer_length(ends[end]);

			if (length == 0)
				continue;
			length = length < step ? length : step;
			memcpy(piece, rea_buffer_data(ends[end]), length);
			rea_buffer_consume(ends[end], length);
			if (end == 0)
				assert_int_equal(http_server_receive(server, piece, length), 0);
			else if (http_client_receive(client, piece, length) != 0)
				assert_true(client->closing);
			moved = true;
		}
	} while (moved);
}

static void what_one_session_writes_the_other_reads(void **state)
{
	struct fixture *f = *state;
	const struct http_field field = {REA_SLICE_LIT("X-A"), REA_SLICE_LIT("b"), HTTP_FIELD_OTHER, false};

	for (size_t step = 1; step <= 64; step++) {
		struct recorder served = {.answer = "answer", .log.alloc = &oom_exempt, .body.alloc = &oom_exempt};
		struct http_server *server = h2_server_new(&server_events, &limits, &served);
		struct http_client *client = h2_client_new(&client_events, &limits, &f->recorder);
		struct http_request_head head = head_of("POST", HTTP_LENGTH_UNKNOWN);

		head.fields = &field;
		head.fields_len = 1;
		for (int i = 0; i < 3; i++) {
			f->stream = http_client_begin(client, &head, NULL);
			assert_int_equal(http_client_write(f->stream, "request body", 12), 0);
			assert_int_equal(http_client_finish(f->stream, &field, 1), 0);
			carry(client, server, step);
			assert_string_equal(recorder_text(&served),
			    "request POST /x of http://a 2 length ? [x-a:b]\nbody request body\nend [x-a:b]\n");
			assert_log(f, "response 200  2 length 6 [content-length:6]\nbody answer\nend\n");
		}
		http_server_shutdown(server);
		carry(client, server, step);
		/* Nothing is open: it has nothing to wait for. */
		assert_true(client->closing);
		http_server_eof(server);
		assert_true(server->want_close);
		http_server_free(server);
		http_client_free(client);
		recorder_fini(&served);
	}
}

/* ---- memory ---- */

static void converse(struct recorder *recorder)
{
	static const struct http_field trailer = {REA_SLICE_LIT("a"), REA_SLICE_LIT("b"), HTTP_FIELD_OTHER, false};
	struct http_client *client = h2_client_new(&client_events, &limits, recorder);
	struct http_request_head head = head_of("POST", HTTP_LENGTH_UNKNOWN);
	struct rea_buffer in = {.alloc = &oom_exempt};
	struct http_client_stream *first, *second;

	if (client == NULL)
		return;
	head.more = &trailer;
	head.more_len = 1;
	first = http_client_begin(client, &head, NULL);
	second = http_client_begin(client, &head, NULL);
	if (first != NULL) {
		if (http_client_write(first, "body", 4) != 0 || http_client_finish(first, &trailer, 1) != 0)
			http_client_cancel(first);
	}
	http_client_fill(client);
	frame_put(&in, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
	headers_put(&in, 0, 1, ":status=103\nx=y\n");
	headers_put(&in, 0, 1, ":status=200\nx-a=b\n");
	frame_put(&in, NGHTTP2_DATA, 0, 1, "hello", 5);
	headers_put(&in, END, 1, "x-t=1\n");
	frame_put(&in, NGHTTP2_PING, 0, 0, "12345678", 8);
	http_client_receive(client, rea_buffer_data(&in), rea_buffer_length(&in));
	http_client_fill(client);
	if (second != NULL && !client->closing && strstr(recorder_text(recorder), "error") == NULL) {
		(void)http_client_write(second, "more", 4);
		http_client_cancel(second);
	}
	http_client_fill(client);
	http_client_eof(client);
	rea_buffer_fini(&in);
	http_client_free(client);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	    TEST(what_is_said_first),
	    TEST(an_exchange),
	    TEST(fields_that_pass),
	    TEST(what_it_cannot_ask),
	    TEST(responses_without_a_body),
	    TEST(trailers),
	    TEST(a_response_before_the_request_is_whole),
	    TEST(interims_are_counted),
	    TEST(a_cancelled_one),
	    TEST(when_the_first_byte_is_out),
	    TEST(the_peers_limit),
	    TEST(how_many_may_wait),
	    TEST(who_waits_may_leave_and_hears_of_a_goodbye),
	    TEST(refused_ones),
	    TEST(a_peer_that_goes_away),
	    TEST(a_peer_that_goes_away_gracefully),
	    TEST(an_end_in_the_middle),
	    TEST(a_paused_one_is_read_to_its_end_later),
	    TEST(what_has_come_in_whole_outlives_the_connection),
	    TEST(a_window_that_opens),
	    TEST(malformed_responses_are_reset),
	    TEST(too_large_a_head),
	    TEST(bodies_that_lie),
	    TEST(a_broken_connection),
	    TEST(another_protocol),
	    TEST(signs_of_life),
	    TEST(what_one_session_writes_the_other_reads),
	    cmocka_unit_test(out_of_memory_anywhere_ends_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
