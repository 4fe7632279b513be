#include "sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>

struct output {
	char text[65536];
	size_t length;
};

static void collect(const char *text, size_t length, void *user_data)
{
	struct output *output = user_data;

	assert_true(output->length + length < sizeof(output->text));
	memcpy(output->text + output->length, text, length);
	output->length += length;
	output->text[output->length] = '\0';
}

static struct output output;
static struct rea_timeline timeline;

static int begin(void **state)
{
	(void)state;
	output.length = 0;
	output.text[0] = '\0';
	rea_timeline_begin(&timeline, collect, &output);
	return 0;
}

static void test_healed_call(void **state)
{
	struct rea_event event = sample_event();

	(void)state;
	rea_timeline_event(&timeline, &event);
	event.type = REA_EVENT_SUCCESS;
	event.verdict = REA_VERDICT_SUCCESS;
	event.attempt = 2;
	event.attempt_start_ns = MS(5116) + 500000;
	event.time_ns = event.attempt_start_ns + 3440000;
	event.cost_ns = 3440000;
	event.outcome = REA_OUTCOME_OK;
	event.code = 200;
	event.instance = text_of("127.0.0.1:9002");
	rea_timeline_event(&timeline, &event);
	assert_string_equal(output.text,
	    "biz_id order-42, from 2026-01-02T03:04:05.666Z\n"
	    "call 7f3a2c  user-service  users_get  GET /users/42  permission idempotent (config), at most 2 attempts "
	    "(1 retry)\n"
	    "       +0 ms  #1/2    127.0.0.1:9001         unavailable 503             12 ms  retry in 104 ms\n"
	    "     +117 ms  #2/2    127.0.0.1:9002         ok 200                     3.4 ms  success after 2 attempts "
	    "(1 retry)\n");
}

static void test_refused_payment(void **state)
{
	struct rea_event event = sample_event();

	(void)state;
	event.type = REA_EVENT_GIVE_UP;
	event.verdict = REA_VERDICT_GIVE_UP;
	event.reason = REA_REASON_NOT_DECLARED;
	event.detail = text_of("GET /pay");
	event.grant = (struct rea_grant){REA_PERMISSION_UNKNOWN, REA_PERMISSION_SOURCE_NONE};
	event.attempts_max = 1;
	rea_timeline_event(&timeline, &event);
	assert_non_null(strstr(output.text, "permission unknown, at most 1 attempt (0 retries)\n"));
	assert_non_null(strstr(output.text, "#1/1    127.0.0.1:9001         unavailable 503             12 ms  give "
					    "up: not_declared (GET /pay is not declared repeatable)\n"));
}

/* Every reason has a name and a sentence of its own. */
static void test_every_reason_is_explained(void **state)
{
	static const char *const sentences[REA_REASON_COUNT] = {
	    [REA_REASON_CANCELLED] = "cancelled (the caller left, or rea is shutting down)",
	    [REA_REASON_PERMANENT] = "permanent (asking again would not change the answer)",
	    [REA_REASON_BLOCKED] = "blocked (the address is not allowed)",
	    [REA_REASON_SERVER_REFUSED] = "server_refused (user-service asked not to be tried again)",
	    [REA_REASON_NOT_RETRYABLE] = "not_retryable (the policy's retry-on does not name unavailable)",
	    [REA_REASON_FORBIDDEN] = "forbidden (GET /users/42 is declared not repeatable)",
	    [REA_REASON_NOT_DECLARED] = "not_declared (GET /users/42 is not declared repeatable)",
	    [REA_REASON_KEY_MISSING] =
		"key_missing (GET /users/42 is repeatable only with an Idempotency-Key, and the call has none)",
	    [REA_REASON_NOT_ENABLED] = "not_enabled (the policy does not enable retries of GET /users/42)",
	    [REA_REASON_CHAIN_STOPPED] = "chain_stopped (a layer above is already retrying this call)",
	    [REA_REASON_BODY_OVER_LIMIT] = "body_over_limit (the request body is larger than replay-limit-bytes)",
	    [REA_REASON_BODY_INCOMPLETE] = "body_incomplete (the reply came before the whole request body)",
	    [REA_REASON_RESPONSE_STARTED] = "response_started (a part of the reply was already passed on)",
	    [REA_REASON_ATTEMPTS_EXHAUSTED] = "attempts_exhausted (the policy allows 3 attempts (2 retries))",
	    [REA_REASON_DEADLINE] = "deadline (no useful attempt fits before the deadline)",
	    [REA_REASON_NO_UNTRIED_INSTANCE] =
		"no_untried_instance (user-service has no instance that this call has not tried)",
	    [REA_REASON_BREAKER_OPEN] = "breaker_open (the circuit breaker of user-service is open)",
	    [REA_REASON_BUDGET_EXHAUSTED] = "budget_exhausted (the retry budget of user-service is used up)",
	    [REA_REASON_OVERLOADED] = "overloaded (too many retries are in flight)",
	    [REA_REASON_PARKED] = "parked (waiting until user-service recovers)",
	    [REA_REASON_CRASH_LOOP] = "crash_loop (the process died in every one of its last attempts)",
	};

	for (int reason = REA_REASON_NONE + 1; reason < REA_REASON_COUNT; reason++) {
		struct rea_event event = sample_event();
		char expected[256] = "  give up after 2 attempts (1 retry): ";

		begin(state);
		event.type = REA_EVENT_GIVE_UP;
		event.reason = (enum rea_reason)reason;
		event.attempt = 2;
		event.attempts_max = 3;
		rea_timeline_event(&timeline, &event);
		assert_non_null(sentences[reason]);
		strcat(strcat(expected, sentences[reason]), "\n");
		assert_non_null(strstr(output.text, expected));
	}
}

static void assert_line(const struct rea_event *event, const char *expected)
{
	begin(NULL);
	rea_timeline_event(&timeline, event);
	if (!strstr(output.text, expected))
		assert_string_equal(output.text, expected);
}

static void test_other_events(void **state)
{
	struct rea_event event = sample_event();

	(void)state;
	event.type = REA_EVENT_WOULD_RETRY;
	assert_line(&event, "  would retry in 104 ms, but the policy only observes\n");
	event.type = REA_EVENT_REPLAY;
	assert_line(&event, "  replayed by an operator\n");
	event.type = REA_EVENT_RETRY;
	event.reason = REA_REASON_PARKED;
	assert_line(&event, "  look again in 104 ms: parked (waiting until user-service recovers)\n");
	event = (struct rea_event){.type = REA_EVENT_BREAKER, .service = text_of("s"), .detail = text_of("closed to open")};
	assert_line(&event, "from 1970-01-01T00:00:00.000Z\n       +0 ms  breaker of s: closed to open\n");
	event.type = REA_EVENT_CONFIG;
	assert_line(&event, "       +0 ms  configuration: closed to open\n");
}

static void test_codes(void **state)
{
	struct rea_event event = sample_event();

	(void)state;
	event.outcome = REA_OUTCOME_NEVER_SENT;
	event.code_kind = REA_CODE_ERRNO;
	event.code = ECONNREFUSED;
	assert_line(&event, "  never_sent ECONNREFUSED     12 ms");
	event.code = 9999;
	assert_line(&event, "  never_sent errno 9999  ");
	event.code_kind = REA_CODE_GRPC;
	event.code = 14;
	assert_line(&event, "  never_sent grpc 14  ");
	event.code_kind = REA_CODE_NONE;
	assert_line(&event, "  never_sent                  12 ms");
}

/* An event without an instance and without a cost is that of an attempt that was not made. */
static void test_attempt_that_was_not_made(void **state)
{
	struct rea_event event = sample_event();

	(void)state;
	event.type = REA_EVENT_GIVE_UP;
	event.reason = REA_REASON_BREAKER_OPEN;
	event.attempt = 2;
	event.attempts_max = 3;
	event.instance = (struct rea_text){NULL, 0};
	event.cost_ns = 0;
	assert_line(&event, "#2/3    -  ");
	assert_line(&event, "  give up: breaker_open (");
	event.attempt = 3;
	assert_line(&event, "  give up after 2 attempts (1 retry): breaker_open (");
	/* A call without a list of instances has none to name. */
	event.cost_ns = 1;
	assert_line(&event, "#3/3    -  ");
	assert_line(&event, "  give up after 3 attempts (2 retries): breaker_open (");
}

static void test_durations(void **state)
{
	static const struct {
		uint64_t ns;
		const char *expected;
	} cases[] = {
	    {0, "0.0 ms"},
	    {49999, "0.0 ms"},
	    {50000, "0.1 ms"},
	    {9949999, "9.9 ms"},
	    {9950000, "10 ms"},
	    {10499999, "10 ms"},
	    {10500000, "11 ms"},
	    {UINT64_MAX, "18446744073710 ms"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rea_event event = sample_event();
		char expected[64] = "retry in ";

		event.next_delay_ns = cases[i].ns;
		assert_line(&event, strcat(expected, cases[i].expected));
	}
}

static void test_each_call_has_its_header(void **state)
{
	struct rea_event a = sample_event(), b = sample_event();
	char long_id[100];

	(void)state;
	b.call_id = text_of("b");
	rea_timeline_event(&timeline, &a);
	rea_timeline_event(&timeline, &a);
	rea_timeline_event(&timeline, &b);
	rea_timeline_event(&timeline, &a);
	assert_int_equal(timeline.lines, 1 + 3 + 4);
	begin(NULL);
	memset(long_id, 'c', sizeof(long_id));
	a.call_id = (struct rea_text){long_id, sizeof(long_id)};
	rea_timeline_event(&timeline, &a);
	rea_timeline_event(&timeline, &a);
	assert_int_equal(timeline.lines, 1 + 1 + 2);
}

/* A biz_id comes from outside: no control character reaches the terminal. */
static void test_hostile_texts(void **state)
{
	struct rea_event event = sample_event();
	char everything[256];

	(void)state;
	for (size_t i = 0; i < 256; i++)
		everything[i] = (char)i;
	event.call_id = event.biz_id = event.service = event.method = event.instance = event.detail =
	    (struct rea_text){everything, 256};
	event.type = REA_EVENT_GIVE_UP;
	event.reason = REA_REASON_FORBIDDEN;
	rea_timeline_event(&timeline, &event);
	event.biz_id = text_of("\x1b[31m\xc2\x9b"
			       "1m\n");
	begin(NULL);
	rea_timeline_event(&timeline, &event);
	assert_memory_equal(output.text, "biz_id ?[31m?1m?, from", 22);
	for (size_t i = 0; i < output.length; i++)
		assert_true((unsigned char)output.text[i] >= 0x20 || output.text[i] == '\n');
	for (const char *p = output.text; (p = strchr(p, '\xc2')) != NULL; p++)
		assert_true((unsigned char)p[1] >= 0xa0);
}

static void test_longest_texts(void **state)
{
	struct rea_event event = sample_event();
	char text[REA_EVENT_TEXT_MAX];

	(void)state;
	memset(text, '\xff', sizeof(text)); /* each becomes three bytes */
	event.call_id = event.biz_id = event.service = event.method = event.instance = event.detail =
	    (struct rea_text){text, sizeof(text)};
	event.type = REA_EVENT_GIVE_UP;
	event.reason = REA_REASON_NOT_ENABLED;
	rea_timeline_event(&timeline, &event);
	assert_int_equal(timeline.lines, 3);
	assert_int_equal(output.text[output.length - 1], '\n');
}

static void test_color(void **state)
{
	struct rea_event event = sample_event();

	(void)state;
	timeline.color = true;
	rea_timeline_event(&timeline, &event);
	assert_memory_equal(output.text, "\033[1mbiz_id order-42", 19);
	assert_non_null(strstr(output.text, "12 ms  \033[33mretry in 104 ms\033[0m\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(test_healed_call, begin),
	    cmocka_unit_test_setup(test_refused_payment, begin),
	    cmocka_unit_test(test_every_reason_is_explained),
	    cmocka_unit_test(test_other_events),
	    cmocka_unit_test(test_codes),
	    cmocka_unit_test(test_attempt_that_was_not_made),
	    cmocka_unit_test(test_durations),
	    cmocka_unit_test_setup(test_each_call_has_its_header, begin),
	    cmocka_unit_test_setup(test_hostile_texts, begin),
	    cmocka_unit_test_setup(test_longest_texts, begin),
	    cmocka_unit_test_setup(test_color, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
