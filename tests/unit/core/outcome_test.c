#include <rea/outcome.h>
#include <rea/time.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void http_statuses(void **state)
{
	static const struct {
		uint32_t first, last;
		enum rea_outcome outcome;
	} rows[] = {
	    {0, 99, REA_OUTCOME_PERMANENT},
	    {100, 399, REA_OUTCOME_OK},
	    {400, 428, REA_OUTCOME_PERMANENT},
	    {429, 429, REA_OUTCOME_THROTTLED},
	    {430, 499, REA_OUTCOME_PERMANENT},
	    {500, 501, REA_OUTCOME_FAILED},
	    {502, 502, REA_OUTCOME_AMBIGUOUS},
	    {503, 503, REA_OUTCOME_UNAVAILABLE},
	    {504, 504, REA_OUTCOME_AMBIGUOUS},
	    {505, 599, REA_OUTCOME_FAILED},
	    {600, 1000, REA_OUTCOME_PERMANENT},
	    {UINT32_MAX, UINT32_MAX, REA_OUTCOME_PERMANENT},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (uint64_t status = rows[i].first; status <= rows[i].last; status++)
			assert_int_equal(rea_outcome_from_http((uint32_t)status, NULL, 0), rows[i].outcome);
}

static void grpc_statuses(void **state)
{
	static const enum rea_outcome expected[] = {
	    REA_OUTCOME_OK,          /* OK */
	    REA_OUTCOME_AMBIGUOUS,   /* CANCELLED, said by the server: it was stopped in the middle */
	    REA_OUTCOME_FAILED,      /* UNKNOWN */
	    REA_OUTCOME_PERMANENT,   /* INVALID_ARGUMENT */
	    REA_OUTCOME_AMBIGUOUS,   /* DEADLINE_EXCEEDED */
	    REA_OUTCOME_PERMANENT,   /* NOT_FOUND */
	    REA_OUTCOME_PERMANENT,   /* ALREADY_EXISTS */
	    REA_OUTCOME_PERMANENT,   /* PERMISSION_DENIED */
	    REA_OUTCOME_THROTTLED,   /* RESOURCE_EXHAUSTED */
	    REA_OUTCOME_PERMANENT,   /* FAILED_PRECONDITION */
	    REA_OUTCOME_PERMANENT,   /* ABORTED */
	    REA_OUTCOME_PERMANENT,   /* OUT_OF_RANGE */
	    REA_OUTCOME_FAILED,      /* UNIMPLEMENTED */
	    REA_OUTCOME_FAILED,      /* INTERNAL */
	    REA_OUTCOME_UNAVAILABLE, /* UNAVAILABLE */
	    REA_OUTCOME_FAILED,      /* DATA_LOSS */
	    REA_OUTCOME_PERMANENT,   /* UNAUTHENTICATED */
	};

	(void)state;
	for (uint32_t status = 0; status < 17; status++)
		assert_int_equal(rea_outcome_from_grpc(status, NULL, 0), expected[status]);
	assert_int_equal(rea_outcome_from_grpc(17, NULL, 0), REA_OUTCOME_FAILED);
	assert_int_equal(rea_outcome_from_grpc(UINT32_MAX, NULL, 0), REA_OUTCOME_FAILED);
}

static void a_rule_says_what_a_code_means_here(void **state)
{
	static const struct rea_classify_rule rules[] = {
	    {REA_CODE_GRPC, 14, REA_OUTCOME_PERMANENT},
	    {REA_CODE_HTTP, 409, REA_OUTCOME_UNAVAILABLE},
	    {REA_CODE_HTTP, 409, REA_OUTCOME_FAILED},
	    {REA_CODE_HTTP, 200, REA_OUTCOME_FAILED},
	    {REA_CODE_HTTP, 10, REA_OUTCOME_OK},
	};

	(void)state;
	assert_int_equal(rea_outcome_from_http(409, rules, 5), REA_OUTCOME_UNAVAILABLE);
	assert_int_equal(rea_outcome_from_http(409, rules, 1), REA_OUTCOME_PERMANENT);
	assert_int_equal(rea_outcome_from_http(200, rules, 5), REA_OUTCOME_FAILED);
	assert_int_equal(rea_outcome_from_http(503, rules, 5), REA_OUTCOME_UNAVAILABLE);
	assert_int_equal(rea_outcome_from_grpc(14, rules, 5), REA_OUTCOME_PERMANENT);
	assert_int_equal(rea_outcome_from_grpc(10, rules, 5), REA_OUTCOME_PERMANENT);
}

static void phases(void **state)
{
	(void)state;
	assert_int_equal(rea_outcome_from_phase(REA_PHASE_CONNECT), REA_OUTCOME_NEVER_SENT);
	assert_int_equal(rea_outcome_from_phase(REA_PHASE_UNSENT), REA_OUTCOME_NEVER_SENT);
	assert_int_equal(rea_outcome_from_phase(REA_PHASE_SENT), REA_OUTCOME_AMBIGUOUS);
}

static void names_go_both_ways(void **state)
{
	(void)state;
	for (int i = 0; i < REA_OUTCOME_COUNT; i++) {
		const char *name = rea_outcome_name((enum rea_outcome)i);

		assert_int_equal(rea_outcome_parse(name, strlen(name)), i);
		assert_int_equal(rea_outcome_parse(name, strlen(name) - 1), -1);
	}
	assert_int_equal(rea_outcome_parse("timeoutt", 8), -1);
	assert_int_equal(rea_outcome_parse("OK", 2), -1);
	assert_int_equal(rea_outcome_parse(NULL, 0), -1);
	assert_string_equal(rea_outcome_name(REA_OUTCOME_COUNT), "unknown");
}

/* Sun, 06 Nov 1994 08:49:37 GMT */
#define EXAMPLE_S 784111777

static void assert_wait(const char *value, int64_t now_unix_s, uint64_t expected_s)
{
	uint64_t wait_ns = 1;

	assert_true(rea_retry_after_parse(value, strlen(value), now_unix_s, &wait_ns));
	assert_true(wait_ns == expected_s * REA_NS_PER_S);
}

static void assert_no_wait(const char *value)
{
	uint64_t wait_ns = 77;

	assert_false(rea_retry_after_parse(value, strlen(value), EXAMPLE_S - 10, &wait_ns));
	assert_true(wait_ns == 77);
}

static void retry_after_seconds(void **state)
{
	static const char *const too_large[] = {
	    "18446744074", "18446744073709551615", "99999999999999999999", "340282366920938463463374607431768211456"};
	uint64_t wait_ns;

	(void)state;
	assert_wait("0", 0, 0);
	assert_wait("2", 0, 2);
	assert_wait("0120", 0, 120);
	assert_wait("18446744073", 0, UINT64_C(18446744073));
	for (size_t i = 0; i < 4; i++) {
		assert_true(rea_retry_after_parse(too_large[i], strlen(too_large[i]), 0, &wait_ns));
		assert_true(wait_ns == REA_NEVER - 1);
	}
}

static void retry_after_dates(void **state)
{
	(void)state;
	assert_wait("Sun, 06 Nov 1994 08:49:37 GMT", EXAMPLE_S - 2, 2);
	assert_wait("Sunday, 06-Nov-94 08:49:37 GMT", EXAMPLE_S - 2, 2);
	assert_wait("Sun Nov  6 08:49:37 1994", EXAMPLE_S - 2, 2);
	assert_wait("Wed Nov 16 08:49:37 1994", EXAMPLE_S, 864000);
	/* The past, and now. */
	assert_wait("Sun, 06 Nov 1994 08:49:37 GMT", EXAMPLE_S, 0);
	assert_wait("Sun, 06 Nov 1994 08:49:37 GMT", INT64_MAX, 0);
	assert_wait("Sun, 06 Nov 1994 08:49:37 GMT", EXAMPLE_S + 1, 0);
	/* Leap days, the last second of a day, a leap second, the ends of the calendar. */
	assert_wait("Thu, 29 Feb 2024 23:59:59 GMT", 1709164800, 86399);
	assert_wait("Fri, 01 Mar 2024 00:00:00 GMT", 1709164800, 86400);
	assert_wait("Tue, 29 Feb 2000 00:00:00 GMT", 951782399, 1);
	assert_wait("Sat, 31 Dec 2016 23:59:60 GMT", 1483228799, 1);
	assert_wait("Thu, 01 Jan 1970 00:00:01 GMT", 0, 1);
	assert_wait("Sat, 01 Jan 0000 00:00:00 GMT", -62167219201, 1);
	assert_wait("Fri, 31 Dec 9999 23:59:59 GMT", 253402300798, 1);
}

static void a_two_digit_year_is_near(void **state)
{
	const int64_t year_2030 = 1893456000, year_2079 = 3439756800;

	(void)state;
	assert_wait("Tuesday, 01-Jan-30 00:00:05 GMT", year_2030, 5);
	/* 49 years ahead is the future, 51 years ahead is the past. */
	assert_wait("Sunday, 01-Jan-79 00:00:00 GMT", year_2030, (uint64_t)(year_2079 - year_2030));
	assert_wait("Thursday, 01-Jan-81 00:00:00 GMT", year_2030, 0);
}

static void retry_after_that_is_none(void **state)
{
	static const char *const values[] = {"", " ", "-1", "+1", "1.5", "1 ", " 1", "1e400", "inf", "abc", "0x10",
	    "1,2", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 06 Nov 1994 08:49:37 GMT ",
	    "sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 nov 1994 08:49:37 GMT", "Sun, 6 Nov 1994 08:49:37 GMT",
	    "Sun, 31 Nov 1994 08:49:37 GMT", "Wed, 29 Feb 2023 00:00:00 GMT", "Thu, 29 Feb 1900 00:00:00 GMT",
	    "Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT", "Sun, 06 Nov 1994 08:60:37 GMT",
	    "Sun, 06 Nov 1994 08:49:61 GMT", "Sun, 06-Nov-94 08:49:37 GMT", "Sunday, 06-Nov-1994 08:49:37 GMT",
	    "Sun Nov 6 08:49:37 1994", "Sun Nov  6 08:49:37 1994 GMT", "Sun Nov 06 08:49:37 94",
	    "Xyz, 06 Nov 1994 08:49:37 GMT"};

	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		assert_no_wait(values[i]);
}

static void retry_after_of_64_kib(void **state)
{
	const size_t length = 65536;
	char *digits = malloc(length);
	uint64_t wait_ns;

	(void)state;
	assert_non_null(digits);
	memset(digits, '9', length);
	assert_true(rea_retry_after_parse(digits, length, 0, &wait_ns));
	assert_true(wait_ns == REA_NEVER - 1);
	digits[length - 1] = 'x';
	assert_false(rea_retry_after_parse(digits, length, 0, &wait_ns));
	free(digits);
}

static void hints(void **state)
{
	static const struct {
		const char *value;
		enum rea_hint hint;
		uint64_t wait_ns;
	} rows[] = {
	    {"stop", REA_HINT_STOP, 77},
	    {" STOP\t", REA_HINT_STOP, 77},
	    {"after=0", REA_HINT_AFTER, 0},
	    {"\t After=250 ", REA_HINT_AFTER, 250 * REA_NS_PER_MS},
	    {"after=99999999999999999999", REA_HINT_AFTER, REA_NEVER - 1},
	    /* What cannot be understood stops. */
	    {"", REA_HINT_STOP, 77},
	    {"after", REA_HINT_STOP, 77},
	    {"after=", REA_HINT_STOP, 77},
	    {"after=-1", REA_HINT_STOP, 77},
	    {"after= 5", REA_HINT_STOP, 77},
	    {"after=1.5", REA_HINT_STOP, 77},
	    {"after=5, stop", REA_HINT_STOP, 77},
	    {"go", REA_HINT_STOP, 77},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t wait_ns = 77;

		assert_int_equal(rea_hint_parse(rows[i].value, strlen(rows[i].value), &wait_ns), rows[i].hint);
		assert_true(wait_ns == rows[i].wait_ns);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(http_statuses),
	    cmocka_unit_test(grpc_statuses),
	    cmocka_unit_test(a_rule_says_what_a_code_means_here),
	    cmocka_unit_test(phases),
	    cmocka_unit_test(names_go_both_ways),
	    cmocka_unit_test(retry_after_seconds),
	    cmocka_unit_test(retry_after_dates),
	    cmocka_unit_test(a_two_digit_year_is_near),
	    cmocka_unit_test(retry_after_that_is_none),
	    cmocka_unit_test(retry_after_of_64_kib),
	    cmocka_unit_test(hints),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
