#include "http/tunnel.h"
#include "recorder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void bytes_go_through_as_they_are(void **state)
{
	struct recorder recorder = {0};
	struct http_client *tunnel = tunnel_client_new(&client_events, &limits, &recorder);
	const struct http_request_head head = {.method = REA_SLICE_LIT("CONNECT"), .authority = REA_SLICE_LIT("a:1")};
	struct http_client_stream *stream;

	(void)state;
	assert_int_equal(client_feed(tunnel, "before"), 0);
	stream = http_client_begin(tunnel, &head, &recorder);
	assert_ptr_equal(stream->user, &recorder);
	assert_int_equal(http_client_write(stream, "GET", 3), 0);
	assert_string_equal(taken(&tunnel->out), "GET"); /* and no head before it */
	assert_int_equal(client_feed(tunnel, "HTTP/0.9"), 0);
	assert_int_equal(http_client_finish(stream, NULL, 0), 0);
	http_client_pause(stream);
	assert_true(tunnel->reading_paused);
	assert_int_equal(http_client_resume(stream), 0);
	assert_false(tunnel->reading_paused);
	http_client_eof(tunnel);
	http_client_eof(tunnel);
	assert_string_equal(recorder_text(&recorder), "body HTTP/0.9\nend\n");
	assert_false(tunnel->reusable);
	http_client_free(tunnel);
	recorder_fini(&recorder);
}

static void nothing_is_told_after_cancel(void **state)
{
	struct recorder recorder = {0};
	struct http_client *tunnel = tunnel_client_new(&client_events, &limits, &recorder);
	const struct http_request_head head = {.method = REA_SLICE_LIT("CONNECT"), .authority = REA_SLICE_LIT("a:1")};

	(void)state;
	http_client_cancel(http_client_begin(tunnel, &head, NULL));
	client_feed(tunnel, "late");
	http_client_eof(tunnel);
	assert_string_equal(recorder_text(&recorder), "");
	http_client_free(tunnel);
	recorder_fini(&recorder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bytes_go_through_as_they_are),
	    cmocka_unit_test(nothing_is_told_after_cancel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
