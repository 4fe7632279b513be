/* Submits as JSON, payloads, fingerprints, times; what is refused over HTTP stands in tests/e2e/test_tasks.py. */
#include "queue/task.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct rea_config_settings settings;
static struct task_problem problem;

static bool read_text(const char *text, struct task_submit *ret_submit)
{
	struct task_document document;

	assert_true(task_document_load(&document, rea_slice_of(text), JSON_ALLOW_NUL, NULL));
	return task_submit_read(ret_submit, document, rea_slice_make(NULL, 0), &settings, &problem);
}

static void fingerprint(const char *text, uint8_t ret[16])
{
	struct task_submit submit;

	assert_true(read_text(text, &submit));
	task_fingerprint(&submit, ret);
	task_submit_fini(&submit);
}

static void assert_text(struct rea_slice text, const char *expected)
{
	assert_true(rea_slice_equal(text, rea_slice_of(expected)));
}

static const char full[] =
    "{\"service\":\"pay\",\"path\":\"/"
    "orders?x=1\",\"method\":\"PUT\",\"headers\":{\"x-b\":\"2\",\"X-A\":\"1\"},\"body_base64\":\"AAEC\","
    "\"biz_id\":\"b\",\"key\":\"k\",\"delay_ms\":5,\"max_age_ms\":60000,\"mode\":\"sync-first\","
    "\"policy\":{\"max-attempts\":7,\"min-backoff-ms\":30,\"max-backoff-ms\":40,\"backoff-multiplier\":3,\"jitter\":0."
    "5,"
    "\"attempt-timeout-ms\":100,\"deadline-ms\":5000,\"retry-on\":[\"failed\"],\"classify\":{\"409\":\"unavailable\","
    "\"410\":\"ok\"}}}";

static char padding[600];

/* Whether the body is read apart is a matter of speed: what is read is the same, and what is no JSON is none. The padding stands for @. */
static void assert_same(const char *pattern, bool cut)
{
	const char *at = strchr(pattern, '@');
	char text[2048], message[160];
	struct task_document document;
	json_error_t wrong, wrong_whole;
	json_t *whole;

	snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - pattern), pattern, padding, at + 1);
	whole = json_loads(text, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &wrong_whole);
	if (!task_document_load(&document, rea_slice_of(text), JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &wrong)) {
		assert_null(whole);
		assert_string_equal(wrong.text, wrong_whole.text);
		assert_int_equal(wrong.column, wrong_whole.column);
		return;
	}
	snprintf(message, sizeof(message), "%.100s", pattern);
	if (document.cut != cut)
		fail_msg("%s", message);
	if (document.cut) {
		const json_t *body = json_object_get(whole, "body");

		assert_true(rea_slice_equal(rea_slice_make(json_string_value(body), json_string_length(body)),
		    rea_slice_make(rea_buffer_data(&document.body), rea_buffer_length(&document.body))));
		json_object_set_new(whole, "body", json_string(""));
	}
	assert_true(json_equal(whole, document.json));
	json_decref(whole);
	task_document_fini(&document);
}

static void a_long_body_is_read_apart(void **state)
{
	(void)state;
	memset(padding, 'x', sizeof(padding) - 1);
	assert_same("{\"service\":\"pay\",\"body\":\"@\",\"path\":\"/\"}", true);
	assert_same(" { \"a\" : [ { \"body\" : \"no\" } ] , \"body\" : \"@\" } ", true);
	assert_same("{\"k\":\"body\",\"body\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t@\\\"\"}", true);
	assert_same("{\"pad\":\"@\",\"body\":\"\"}", true);
	/* left to the other */
	assert_same("{\"body\":\"\\u0000@\"}", false);
	assert_same("{\"body\":\"\xc3\xa9@\"}", false);
	assert_same("{\"body\":[\"@\"]}", false);
	assert_same("{\"headers\":{\"body\":\"@\"}}", false);
	assert_same("[{\"body\":\"@\"}]", false);
	assert_same("{\"\\u0062ody\":\"@\"}", false);
	/* none */
	assert_same("{\"body\":\"@", true);
	assert_same("{\"body\":\"@\\", true);
	assert_same("{\"body\":\"@\\q\"}", true);
	assert_same("{\"body\":\"@\n\"}", true);
	assert_same("{\"body\":\"\xff@\"}", true);
	assert_same("{\"body\":\"@\",}", true);
	assert_same("{\"body\":\"@\"} x", true);
	assert_same("{\"body\":\"@\",\"body\":\"\"}", true);
	assert_same("{\"body\":\"@\",\"\\u0062ody\":\"\"}", true);
	assert_same("{\"a\"]},\"body\":\"@\"}", true);
}

static void a_submit_and_its_payload(void **state)
{
	struct task_submit submit;
	struct task_request request;
	struct rea_buffer payload = {.alloc = NULL};
	const struct rea_policy *policy = &request.policy.values;

	(void)state;
	assert_true(read_text(full, &submit));
	assert_true(submit.sync_first);
	assert_int_equal(submit.delay_ns, 5000000);
	assert_text(submit.target, "pay");
	submit.request.message_id = UINT64_C(0xfedcba9876543210);
	assert_int_equal(task_encode(&submit.request, &payload), 0);
	task_submit_fini(&submit);
	assert_true(task_decode(rea_slice_make(payload.data, rea_buffer_length(&payload)), &request));
	assert_text(request.method, "PUT");
	assert_text(request.path, "/orders?x=1");
	assert_int_equal(request.fields_len, 2);
	assert_text(request.fields[0].name, "X-A");
	assert_text(request.fields[1].value, "2");
	assert_int_equal(request.body.length, 3);
	assert_memory_equal(request.body.data, "\0\1\2", 3);
	assert_int_equal(request.max_age_ns, UINT64_C(60000000000));
	assert_int_equal(request.message_id, UINT64_C(0xfedcba9876543210));
	assert_int_equal(policy->max_retry_next_instance, 6);
	assert_int_equal(policy->min_backoff_ns, 30000000);
	assert_int_equal(policy->max_backoff_ns, 40000000);
	assert_true(policy->backoff_multiplier == 3 && policy->jitter == 0.5);
	assert_int_equal(policy->attempt_timeout_ns, 100000000);
	assert_int_equal(policy->deadline_ns, UINT64_C(5000000000));
	assert_int_equal(policy->retry_on, REA_OUTCOME_BIT(REA_OUTCOME_FAILED));
	assert_int_equal(policy->classify_len, 2);
	assert_int_equal(policy->classify[1].code, 410);
	assert_int_equal(policy->classify[1].outcome, REA_OUTCOME_OK);
	/* Cut anywhere, or with more behind it, it is no payload. */
	for (size_t length = 0; length < rea_buffer_length(&payload); length++) {
		char *cut = malloc(length + 1);

		memcpy(cut, payload.data, length);
		assert_false(task_decode(rea_slice_make(cut, length), &request));
		free(cut);
	}
	assert_int_equal(rea_buffer_append(&payload, "x", 1), 0);
	assert_false(task_decode(rea_slice_make(payload.data, rea_buffer_length(&payload)), &request));
	rea_buffer_fini(&payload);
}

static void what_counts_for_the_fingerprint(void **state)
{
	static const char *const others[] = {
	    "{\"service\":\"pax\",\"path\":\"/a\",\"headers\":{\"a\":\"1\",\"b\":\"2\"},\"body\":\"x\"}",
	    "{\"service\":\"pay\",\"path\":\"/b\",\"headers\":{\"a\":\"1\",\"b\":\"2\"},\"body\":\"x\"}",
	    "{\"service\":\"pay\",\"path\":\"/a\",\"headers\":{\"a\":\"1\",\"b\":\"3\"},\"body\":\"x\"}",
	    "{\"service\":\"pay\",\"path\":\"/a\",\"headers\":{\"a\":\"1\"},\"body\":\"x\"}",
	    "{\"service\":\"pay\",\"path\":\"/a\",\"headers\":{\"a\":\"1\",\"b\":\"2\"},\"body\":\"y\"}",
	    "{\"service\":\"pay\",\"path\":\"/"
	    "a\",\"headers\":{\"a\":\"1\",\"b\":\"2\"},\"body\":\"x\",\"method\":\"PUT\"}",
	    "{\"service\":\"pay\",\"path\":\"/"
	    "a\",\"headers\":{\"a\":\"1\",\"b\":\"2\"},\"body\":\"x\",\"biz_id\":\"b\"}",
	    "{\"service\":\"pay\",\"path\":\"/a\",\"headers\":{\"a\":\"1\",\"b\":\"2\"},\"body\":\"x\",\"delay_ms\":1}",
	    "{\"service\":\"pay\",\"path\":\"/"
	    "a\",\"headers\":{\"a\":\"1\",\"b\":\"2\"},\"body\":\"x\",\"max_age_ms\":1}",
	    "{\"service\":\"pay\",\"path\":\"/"
	    "a\",\"headers\":{\"a\":\"1\",\"b\":\"2\"},\"body\":\"x\",\"mode\":\"sync-first\"}",
	    "{\"service\":\"pay\",\"path\":\"/"
	    "a\",\"headers\":{\"a\":\"1\",\"b\":\"2\"},\"body\":\"x\",\"policy\":{\"max-attempts\":2}}",
	};
	uint8_t one[16], other[16];

	(void)state;
	fingerprint("{\"service\":\"pay\",\"path\":\"/a\",\"headers\":{\"a\":\"1\",\"b\":\"2\"},\"body\":\"x\"}", one);
	fingerprint("{\"body_base64\":\"eA==\",\"path\":\"/"
		    "a\",\"headers\":{\"b\":\"2\",\"a\":\"1\"},\"key\":\"k\",\"service\":\"pay\"}",
	    other);
	assert_memory_equal(one, other, 16);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		fingerprint(others[i], other);
		assert_memory_not_equal(one, other, 16);
	}
}

static void times(void **state)
{
	static const struct {
		const char *text;
		int64_t unix_ns;
	} good[] = {
	    {"1970-01-01T00:00:00Z", 0},
	    {"2026-01-02T03:04:05Z", INT64_C(1767323045000000000)},
	    {"2026-01-02t03:04:05.678z", INT64_C(1767323045678000000)},
	    {"2026-01-02T05:04:05+02:00", INT64_C(1767323045000000000)},
	    {"2026-01-01T22:34:05.123456789123-04:30", INT64_C(1767323045123456789)},
	    {"2024-02-29T00:00:00Z", INT64_C(1709164800000000000)},
	    {"2000-02-29T23:59:60Z", INT64_C(951868800000000000)},
	};
	static const char *const bad[] = {"", "2026-01-02", "2026-01-02T03:04:05", "2026-13-02T03:04:05Z",
	    "2026-02-29T00:00:00Z", "2100-02-29T00:00:00Z", "2026-01-02T24:00:00Z", "2026-01-02T03:04:05.Z",
	    "2026-01-02T03:04:05.5", "2026-01-02T03:04:05+2:00", "2026-01-02T03:04:05Zx", "1969-12-31T23:59:59Z",
	    "1970-01-01T00:00:00+00:01", "2262-01-01T00:00:00Z", " 2026-01-02T03:04:05Z"};
	char text[TASK_TIME_SIZE];
	int64_t unix_ns;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_true(task_time_parse(rea_slice_of(good[i].text), &unix_ns));
		assert_true(unix_ns == good[i].unix_ns);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (task_time_parse(rea_slice_of(bad[i]), &unix_ns))
			fail_msg("%s is a time", bad[i]);
	task_time_format(INT64_C(1767323045678999999), text);
	assert_string_equal(text, "2026-01-02T03:04:05.678Z");
}

static void base64(void **state)
{
	static const char *const bad[] = {
	    "a", "ab", "abc", "abc=d", "ab==cd==", "a===", "====", "ab!=", "aB==", "aaB=", "YQ==\\n"};
	struct task_submit submit;
	char text[128];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "{\"service\":\"a\",\"path\":\"/\",\"body_base64\":\"%s\"}", bad[i]);
		if (read_text(text, &submit))
			fail_msg("%s is base64", bad[i]);
		assert_string_equal(problem.field, "/body_base64");
	}
	assert_true(read_text("{\"service\":\"a\",\"path\":\"/\",\"body_base64\":\"\"}", &submit));
	assert_int_equal(submit.request.body.length, 0);
	task_submit_fini(&submit);
}

/* Layers: defaults, the configuration, the task; calls give classify alone, and the master switch wins. */
static void the_policy_that_holds(void **state)
{
	struct rea_policy_layer configured = {.set = UINT32_C(1) << REA_POLICY_MAX_BACKOFF,
				    .values = {.max_backoff_ns = 5000000000}},
				own = {.set = UINT32_C(1) << REA_POLICY_MIN_BACKOFF,
				    .values = {.min_backoff_ns = 8000000000}},
				nothing = {.set = 0};
	struct rea_policy calls, policy;

	(void)state;
	rea_policy_defaults(&calls);
	calls.classify_len = 1;
	calls.classify[0] = (struct rea_classify_rule){REA_CODE_HTTP, 409, REA_OUTCOME_UNAVAILABLE};
	task_policy(&configured, &nothing, false, &calls, &policy);
	assert_true(policy.enabled);
	assert_int_equal(rea_policy_attempts(&policy), 3);
	assert_int_equal(policy.max_backoff_ns, 5000000000);
	assert_int_equal(policy.min_backoff_ns, 200000000);
	assert_int_equal(policy.classify_len, 1);
	task_policy(&configured, &own, true, NULL, &policy);
	assert_false(policy.enabled);
	assert_int_equal(policy.min_backoff_ns, 8000000000);
	assert_int_equal(policy.max_backoff_ns, 8000000000);
	own.set |= UINT32_C(1) << REA_POLICY_CLASSIFY;
	task_policy(&configured, &own, false, &calls, &policy);
	assert_int_equal(policy.classify_len, 0);
}

static int set_up(void **state)
{
	(void)state;
	rea_config_settings_defaults(&settings);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_long_body_is_read_apart),
	    cmocka_unit_test(a_submit_and_its_payload),
	    cmocka_unit_test(what_counts_for_the_fingerprint),
	    cmocka_unit_test(times),
	    cmocka_unit_test(base64),
	    cmocka_unit_test(the_policy_that_holds),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
