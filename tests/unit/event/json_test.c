#include "sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>

static char json[REA_EVENT_JSON_MAX];

static const char *json_of(const struct rea_event *event)
{
	size_t length = rea_event_json(event, json, sizeof(json));

	assert_true(length < sizeof(json));
	assert_int_equal(strlen(json), length);
	return json;
}

static void test_every_field(void **state)
{
	struct rea_event event = sample_event();

	(void)state;
	assert_string_equal(json_of(&event),
	    "{\"time\":\"2026-01-02T03:04:05.678Z\",\"type\":\"Retry\",\"call_id\":\"7f3a2c\",\"biz_id\":\"order-42\","
	    "\"key\":\"k-1\","
	    "\"trace_id\":\"4bf92f3577b34da6a3ce929d0e0e4736\",\"service\":\"user-service\",\"method\":\"users_get\","
	    "\"instance\":\"127.0.0.1:9001\","
	    "\"attempt\":1,\"attempts_max\":2,\"retries\":0,\"outcome\":\"unavailable\",\"error_code\":503,\"error_"
	    "code_kind\":\"http\",\"cost_ms\":12.000,"
	    "\"retryable\":true,\"next_delay_ms\":104.000,\"verdict\":\"retry\",\"permission\":\"idempotent\","
	    "\"permission_source\":\"config\","
	    "\"detail\":\"GET /users/42\",\"start_ms\":5000.000,\"end_ms\":5012.000}");
}

static void test_final_events(void **state)
{
	struct rea_event event = sample_event();

	(void)state;
	event.type = REA_EVENT_GIVE_UP;
	event.verdict = REA_VERDICT_GIVE_UP;
	event.reason = REA_REASON_NOT_DECLARED;
	event.retryable = false;
	event.grant = (struct rea_grant){REA_PERMISSION_NONE, REA_PERMISSION_SOURCE_NONE};
	event.key = event.trace_id = event.method = (struct rea_text){NULL, 0};
	event.code_kind = REA_CODE_NONE;
	event.cost_ns = 1500; /* a wait of a GiveUp says nothing */
	assert_string_equal(json_of(&event),
	    "{\"time\":\"2026-01-02T03:04:05.678Z\",\"type\":\"GiveUp\",\"call_id\":\"7f3a2c\",\"biz_id\":\"order-42\","
	    "\"service\":\"user-service\","
	    "\"instance\":\"127.0.0.1:9001\",\"attempt\":1,\"attempts_max\":2,\"retries\":0,\"outcome\":"
	    "\"unavailable\",\"cost_ms\":0.002,\"retryable\":false,"
	    "\"verdict\":\"give_up\",\"reason\":\"not_declared\",\"detail\":\"GET "
	    "/users/42\",\"start_ms\":5000.000,\"end_ms\":5012.000}");
}

static void test_events_of_no_call(void **state)
{
	struct rea_event event = {
	    .type = REA_EVENT_CONFIG,
	    .time_unix_ns = 0,
	    .attempt_start_ns = 1,
	    .time_ns = 1499,
	    .detail = {"rejected", 8},
	};

	(void)state;
	assert_string_equal(json_of(&event), "{\"time\":\"1970-01-01T00:00:00.000Z\",\"type\":\"Config\",\"detail\":"
					     "\"rejected\",\"start_ms\":0.000,\"end_ms\":0.001}");
}

static void test_times(void **state)
{
	static const struct {
		int64_t unix_ns;
		const char *expected;
	} cases[] = {
	    {INT64_C(951782400000000000), "2000-02-29T00:00:00.000Z"},
	    {INT64_C(951868799999999999), "2000-02-29T23:59:59.999Z"},
	    {INT64_C(951868800000000000), "2000-03-01T00:00:00.000Z"},
	    {INT64_C(4107542400000000000), "2100-03-01T00:00:00.000Z"}, /* no leap year */
	    {-1, "1969-12-31T23:59:59.999Z"},
	    {INT64_C(-86400000000000), "1969-12-31T00:00:00.000Z"},
	    {INT64_MAX, "2262-04-11T23:47:16.854Z"},
	    {INT64_MIN, "1677-09-21T00:12:43.145Z"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rea_event event = {.type = REA_EVENT_CONFIG, .time_unix_ns = cases[i].unix_ns};
		char expected[64] = "{\"time\":\"";

		strcat(expected, cases[i].expected);
		strcat(expected, "\"");
		assert_memory_equal(json_of(&event), expected, strlen(expected));
	}
}

static void test_durations_round_and_do_not_overflow(void **state)
{
	struct rea_event event = sample_event();

	(void)state;
	event.cost_ns = UINT64_MAX;
	event.next_delay_ns = 499;
	json_of(&event);
	assert_non_null(strstr(json, "\"cost_ms\":18446744073709.552,"));
	assert_non_null(strstr(json, "\"next_delay_ms\":0.000,"));
}

static void assert_string_json(const char *text, size_t length, const char *expected)
{
	char out[256];

	assert_int_equal(rea_json_string(text, length, out, sizeof(out)), strlen(expected));
	assert_string_equal(out, expected);
}

static void test_strings(void **state)
{
	(void)state;
	assert_string_json(NULL, 0, "\"\"");
	assert_string_json("a\"b\\c/", 6, "\"a\\\"b\\\\c/\"");
	assert_string_json("\n\r\t\b\0\x1f\x7f", 7, "\"\\n\\r\\t\\u0008\\u0000\\u001f\\u007f\"");
	assert_string_json("\xc2\x9b"
			   "31m",
	    5, "\"\\u009b31m\""); /* no terminal gets a C1 control */
	assert_string_json("gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80", 11, "\"gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80\"");
	assert_string_json("a\xff\xc3(\xed\xa0\x80", 7, "\"a\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

static void test_short_buffers_are_cut_and_counted(void **state)
{
	struct rea_event event = sample_event();
	size_t whole = rea_event_json(&event, json, sizeof(json));
	char cut[64];

	(void)state;
	for (size_t size = 0; size <= sizeof(cut); size++) {
		memset(cut, 'x', sizeof(cut));
		assert_int_equal(rea_event_json(&event, cut, size), whole);
		if (size > 0) {
			assert_int_equal(strlen(cut), size - 1);
			assert_memory_equal(cut, json, size - 1);
		}
		for (size_t i = size; i < sizeof(cut); i++)
			assert_int_equal(cut[i], 'x');
	}
}

/* The worst texts in every field still fit, and a JSON reader takes the line. */
static void test_worst_texts_fit(void **state)
{
	static const char bytes[] = {'\x01', '\xff', '"', '\x80', 'a'};
	char worst[1000];

	(void)state;
	for (size_t b = 0; b < sizeof(bytes); b++) {
		struct rea_event event = sample_event();
		struct rea_text text = {worst, sizeof(worst)};
		json_error_t error;
		json_t *document;

		memset(worst, bytes[b], sizeof(worst));
		event.call_id = event.biz_id = event.key = event.trace_id = event.service = event.method =
		    event.instance = event.detail = text;
		event.attempt_start_ns = event.time_ns = event.cost_ns = event.next_delay_ns = UINT64_MAX;
		event.attempt = event.attempts_max = event.code = UINT32_MAX;
		event.reason = REA_REASON_NO_UNTRIED_INSTANCE;
		event.grant = (struct rea_grant){REA_PERMISSION_IDEMPOTENT_WITH_KEY, REA_PERMISSION_SOURCE_CONTRACT};
		document = json_loads(json_of(&event), 0, &error);
		assert_non_null(document);
		assert_int_equal(json_string_length(json_object_get(document, "detail")) >= REA_EVENT_TEXT_MAX - 3, 1);
		json_decref(document);
	}
}

static void test_type_names(void **state)
{
	(void)state;
	assert_string_equal(rea_event_type_name(REA_EVENT_WOULD_RETRY), "WouldRetry");
	assert_string_equal(rea_event_type_name(REA_EVENT_GIVE_UP), "GiveUp");
	assert_string_equal(rea_event_type_name(REA_EVENT_TYPE_COUNT), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_every_field),
	    cmocka_unit_test(test_final_events),
	    cmocka_unit_test(test_events_of_no_call),
	    cmocka_unit_test(test_times),
	    cmocka_unit_test(test_durations_round_and_do_not_overflow),
	    cmocka_unit_test(test_strings),
	    cmocka_unit_test(test_short_buffers_are_cut_and_counted),
	    cmocka_unit_test(test_worst_texts_fit),
	    cmocka_unit_test(test_type_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
