/* What rea_event_json wrote comes back, and nothing else is taken for an event. */
#include "event_read.h"

#include "../event/sample.h"

#include <rea/random.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

/* Written, read and written again, the line is the same. */
static void assert_round_trip(const struct rea_event *event)
{
	char first[REA_EVENT_JSON_MAX], second[REA_EVENT_JSON_MAX];
	struct rea_event read;
	json_t *json;

	rea_event_json(event, first, sizeof(first));
	json = json_loads(first, 0, NULL);
	assert_non_null(json);
	assert_true(event_read(json, &read));
	rea_event_json(&read, second, sizeof(second));
	assert_string_equal(first, second);
	assert_true(read.attempt_start_ns == event->attempt_start_ns);
	assert_true(read.time_ns == event->time_ns);
	assert_true(read.time_unix_ns == event->time_unix_ns / 1000000 * 1000000);
	json_decref(json);
}

static void test_sample(void **state)
{
	struct rea_event event = sample_event(), config = {.type = REA_EVENT_CONFIG};

	(void)state;
	assert_round_trip(&event);
	assert_round_trip(&config);
}

static uint64_t random_time(struct rea_random *random)
{
	return rea_random_below(random, UINT64_C(1) << rea_random_below(random, 48)) * 1000;
}

static void test_random_events(void **state)
{
	struct rea_random random;

	(void)state;
	rea_random_init(&random, 11);
	for (size_t i = 0; i < 5000; i++) {
		struct rea_event event = sample_event();

		event.type = (enum rea_event_type)rea_random_below(&random, REA_EVENT_TYPE_COUNT);
		event.time_unix_ns = (int64_t)rea_random_below(&random, UINT64_C(4000000000000000000));
		event.attempt_start_ns = random_time(&random);
		event.time_ns = random_time(&random);
		event.cost_ns = random_time(&random);
		event.next_delay_ns = random_time(&random);
		event.attempt = (uint32_t)rea_random_below(&random, 3);
		event.attempts_max = (uint32_t)rea_random_below(&random, 11);
		event.outcome = (enum rea_outcome)rea_random_below(&random, REA_OUTCOME_COUNT);
		event.code_kind = (enum rea_code_kind)rea_random_below(&random, 4);
		event.code = (uint32_t)rea_random_next(&random);
		event.retryable = rea_random_below(&random, 2);
		event.verdict = (enum rea_verdict)rea_random_below(&random, 3);
		event.reason = (enum rea_reason)rea_random_below(&random, REA_REASON_COUNT);
		event.grant.permission = (enum rea_permission)rea_random_below(&random, REA_PERMISSION_COUNT);
		event.grant.source = (enum rea_permission_source)rea_random_below(&random, REA_PERMISSION_SOURCE_COUNT);
		if (rea_random_below(&random, 2))
			event.detail = event.key = (struct rea_text){NULL, 0};
		assert_round_trip(&event);
	}
}

static void test_malformed(void **state)
{
	static const char *const lines[] = {
	    "[]",
	    "\"x\"",
	    "{}",
	    "{\"type\":\"Retry\"}",
	    "{\"time\":\"2026-01-02T03:04:05.678Z\"}",
	    "{\"time\":\"2026-01-02T03:04:05.678Z\",\"type\":\"Other\"}",
	    "{\"time\":\"2026-01-02T03:04:05.678Z\",\"type\":7}",
	    "{\"time\":\"2026-01-02T03:04:05.678\",\"type\":\"Retry\"}",
	    "{\"time\":\"2026-01-02T03:04:05.678Zx\",\"type\":\"Retry\"}",
	    "{\"time\":\"2026-01-02T03:04-05.678Z\",\"type\":\"Retry\"}",
	    "{\"time\":\"2026-01-02T03:04:0x.678Z\",\"type\":\"Retry\"}",
	    "{\"time\":\"2026-01-02T03:04:05.678Z\",\"type\":\"Retry\",\"attempt\":-1}",
	    "{\"time\":\"2026-01-02T03:04:05.678Z\",\"type\":\"Retry\",\"attempt\":4294967296}",
	    "{\"time\":\"2026-01-02T03:04:05.678Z\",\"type\":\"Retry\",\"attempt\":1.5}",
	    "{\"time\":\"2026-01-02T03:04:05.678Z\",\"type\":\"Retry\",\"cost_ms\":-0.001}",
	    "{\"time\":\"2026-01-02T03:04:05.678Z\",\"type\":\"Retry\",\"cost_ms\":1e300}",
	    "{\"time\":\"2026-01-02T03:04:05.678Z\",\"type\":\"Retry\",\"cost_ms\":\"1\"}",
	    "{\"time\":\"2026-01-02T03:04:05.678Z\",\"type\":\"Retry\",\"outcome\":\"fine\"}",
	    "{\"time\":\"2026-01-02T03:04:05.678Z\",\"type\":\"Retry\",\"reason\":null}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		json_t *json = json_loads(lines[i], JSON_DECODE_ANY, NULL);
		struct rea_event event;

		assert_non_null(json);
		assert_false(event_read(json, &event));
		json_decref(json);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_sample),
	    cmocka_unit_test(test_random_events),
	    cmocka_unit_test(test_malformed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
