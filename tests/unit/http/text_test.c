#include "http/http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void errors_have_words_and_a_status(void **state)
{
	(void)state;
	assert_string_equal(http_error_text(HTTP_ERROR_NONE), "no error");
	assert_string_equal(http_error_text(HTTP_ERROR_BAD_REQUEST_LINE), "malformed request line");
	assert_string_equal(http_error_text(HTTP_ERROR_NOMEM), "out of memory");
	assert_string_equal(http_error_text(HTTP_ERROR_COUNT), "unknown error");
	assert_int_equal(http_error_status(HTTP_ERROR_NONE), 0);
	assert_int_equal(http_error_status(HTTP_ERROR_BAD_VERSION), 505);
	assert_int_equal(http_error_status(HTTP_ERROR_BAD_ENCODING), 501);
	assert_int_equal(http_error_status(HTTP_ERROR_TRUNCATED), 0);
	assert_int_equal(http_error_status(HTTP_ERROR_COUNT), 0);
}

static void statuses_have_their_phrase(void **state)
{
	(void)state;
	assert_string_equal(http_status_reason(200), "OK");
	assert_string_equal(http_status_reason(431), "Request Header Fields Too Large");
	assert_string_equal(http_status_reason(299), "");
	/* Every status that an error answers with has one. */
	for (unsigned error = 1; error < HTTP_ERROR_COUNT; error++)
		assert_true(http_error_status(error) == 0 || http_status_reason(http_error_status(error))[0] != '\0');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(errors_have_words_and_a_status),
	    cmocka_unit_test(statuses_have_their_phrase),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
