/* Counting, the exact text, and promtool's opinion of it. */
#include "sample.h"

#include <rea/metrics.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static char text[262144];
static size_t text_length;

static bool collect(const char *piece, size_t length, void *user_data)
{
	(void)user_data;
	assert_true(text_length + length < sizeof(text));
	memcpy(text + text_length, piece, length);
	text_length += length;
	text[text_length] = '\0';
	return true;
}

static struct rea_prometheus new_out(void)
{
	text_length = 0;
	text[0] = '\0';
	return (struct rea_prometheus){.write = collect};
}

static void assert_line(const char *line)
{
	char with_ends[512];

	snprintf(with_ends, sizeof(with_ends), "\n%s\n", line);
	if (!strstr(text, with_ends))
		assert_string_equal(text, with_ends);
}

static void test_counting(void **state)
{
	struct rea_service_stats stats = {0}, total = {0};

	(void)state;
	rea_service_stats_begin(&stats);
	rea_service_stats_begin(&stats);
	rea_service_stats_begin(&stats);
	rea_service_stats_attempt(&stats, REA_OUTCOME_OK, false);
	rea_service_stats_call(&stats, REA_REASON_NONE, true, MS(1));
	rea_service_stats_attempt(&stats, REA_OUTCOME_UNAVAILABLE, false);
	rea_service_stats_attempt(&stats, REA_OUTCOME_UNAVAILABLE, true);
	rea_service_stats_call(&stats, REA_REASON_ATTEMPTS_EXHAUSTED, false, MS(1) + 1);
	rea_service_stats_would_retry(&stats);
	rea_service_stats_over_limit(&stats);
	rea_service_stats_sum(&total, &stats);
	rea_service_stats_sum(&total, &stats);
	assert_int_equal(total.calls, 4);
	assert_int_equal(total.in_flight, 2);
	assert_int_equal(total.first_try_successes, 2);
	assert_int_equal(total.retries, 2);
	assert_int_equal(total.attempts[REA_OUTCOME_OK], 2);
	assert_int_equal(total.attempts[REA_OUTCOME_UNAVAILABLE], 4);
	assert_int_equal(total.results[REA_REASON_NONE], 2);
	assert_int_equal(total.results[REA_REASON_ATTEMPTS_EXHAUSTED], 2);
	assert_int_equal(total.would_retry, 2);
	assert_int_equal(total.replay_over_limit, 2);
	assert_int_equal(total.latency_count[0], 2); /* a bound belongs to its bucket */
	assert_int_equal(total.latency_count[1], 2);
	assert_int_equal(total.latency_sum_ns, 2 * (2 * MS(1) + 1));
}

static void test_buckets(void **state)
{
	struct rea_service_stats stats = {0};

	(void)state;
	rea_service_stats_call(&stats, REA_REASON_NONE, true, 0);
	rea_service_stats_call(&stats, REA_REASON_NONE, true, MS(10000));
	rea_service_stats_call(&stats, REA_REASON_NONE, true, MS(10000) + 1);
	rea_service_stats_call(&stats, REA_REASON_NONE, true, UINT64_MAX);
	assert_int_equal(stats.latency_count[0], 1);
	assert_int_equal(stats.latency_count[REA_LATENCY_BUCKETS - 2], 1);
	assert_int_equal(stats.latency_count[REA_LATENCY_BUCKETS - 1], 2);
}

static void write_two_services(void)
{
	static const char *const names[] = {"user-service", "odd \"name\"\\\n\xff"};
	struct rea_service_stats stats[2] = {{0}, {0}};
	struct rea_prometheus out = new_out();

	rea_service_stats_begin(&stats[0]);
	rea_service_stats_begin(&stats[0]);
	rea_service_stats_attempt(&stats[0], REA_OUTCOME_AMBIGUOUS, false);
	rea_service_stats_attempt(&stats[0], REA_OUTCOME_OK, true);
	rea_service_stats_call(&stats[0], REA_REASON_NONE, false, MS(30));
	stats[1].calls = UINT64_MAX;
	stats[1].latency_count[3] = 7;
	stats[1].latency_sum_ns = 1;
	rea_prometheus_services(&out, names, stats, 2);
	assert_false(out.failed);
}

static void test_text_of_services(void **state)
{
	static const char beginning[] =
	    "# HELP rea_calls_total Finished calls.\n"
	    "# TYPE rea_calls_total counter\n"
	    "rea_calls_total{service=\"user-service\"} 1\n"
	    "rea_calls_total{service=\"odd \\\"name\\\"\\\\\\n\xef\xbf\xbd\"} 18446744073709551615\n"
	    "# HELP rea_calls_in_flight Calls that are open now.\n"
	    "# TYPE rea_calls_in_flight gauge\n"
	    "rea_calls_in_flight{service=\"user-service\"} 1\n";

	(void)state;
	write_two_services();
	assert_memory_equal(text, beginning, sizeof(beginning) - 1);
	assert_line("rea_retries_total{service=\"user-service\"} 1");
	assert_line("rea_first_try_successes_total{service=\"user-service\"} 0");
	assert_line("rea_would_retry_total{service=\"user-service\"} 0");
	assert_line("rea_replay_over_limit_total{service=\"user-service\"} 0");
	assert_line("rea_attempts_total{service=\"user-service\",outcome=\"ambiguous\"} 1");
	assert_line("rea_attempts_total{service=\"user-service\",outcome=\"cancelled\"} 0");
	assert_line("rea_results_total{service=\"user-service\",reason=\"success\"} 1");
	assert_line("rea_results_total{service=\"user-service\",reason=\"parked\"} 0");
	assert_line("# TYPE rea_call_duration_seconds histogram");
	assert_line("rea_call_duration_seconds_bucket{service=\"user-service\",le=\"0.025\"} 0");
	assert_line("rea_call_duration_seconds_bucket{service=\"user-service\",le=\"0.05\"} 1");
	assert_line("rea_call_duration_seconds_bucket{service=\"user-service\",le=\"+Inf\"} 1");
	assert_line("rea_call_duration_seconds_sum{service=\"user-service\"} 0.030000000");
	assert_line("rea_call_duration_seconds_count{service=\"user-service\"} 1");
}

static void test_numbers(void **state)
{
	static const struct {
		double value;
		const char *expected;
	} cases[] = {
	    {0, "m 0\n"},
	    {1, "m 1\n"},
	    {0.5, "m 0.5\n"},
	    {-2.25, "m -2.25\n"},
	    {9007199254740993.0, "m 9007199254740992\n"},
	    {0.1, "m 0.1\n"},
	    {(double)NAN, "m NaN\n"},
	    {(double)INFINITY, "m +Inf\n"},
	    {-(double)INFINITY, "m -Inf\n"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rea_prometheus out = new_out();

		rea_prometheus_sample(&out, "m", NULL, 0, cases[i].value);
		assert_string_equal(text, cases[i].expected);
	}
}

static void test_family(void **state)
{
	struct rea_prometheus out = new_out();
	const char *labels[] = {"a", "1", "b", "2"};

	(void)state;
	rea_prometheus_family(&out, "m", REA_METRIC_GAUGE, "One \"line\" \\ and\nanother.");
	rea_prometheus_sample(&out, "m", labels, 4, 3);
	assert_string_equal(text, "# HELP m One \"line\" \\\\ and\\nanother.\n# TYPE m gauge\nm{a=\"1\",b=\"2\"} 3\n");
}

static bool refuse(const char *piece, size_t length, void *user_data)
{
	(void)piece;
	(void)length;
	return --*(int *)user_data > 0;
}

static void test_writing_stops_when_refused(void **state)
{
	int left = 3;
	struct rea_prometheus out = {.write = refuse, .user_data = &left};

	(void)state;
	rea_prometheus_family(&out, "m", REA_METRIC_COUNTER, "Help.");
	assert_true(out.failed);
	assert_int_equal(left, 0);
}

static void test_promtool(void **state)
{
	FILE *promtool;

	(void)state;
	if (system("command -v promtool >/dev/null 2>&1") != 0) {
		print_message("SKIPPED: promtool is not installed (Debian package prometheus)\n");
		skip();
	}
	write_two_services();
	promtool = popen("promtool check metrics 2>&1", "w");
	assert_non_null(promtool);
	assert_int_equal(fwrite(text, 1, text_length, promtool), text_length);
	assert_int_equal(pclose(promtool), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_counting),
	    cmocka_unit_test(test_buckets),
	    cmocka_unit_test(test_text_of_services),
	    cmocka_unit_test(test_numbers),
	    cmocka_unit_test(test_family),
	    cmocka_unit_test(test_writing_stops_when_refused),
	    cmocka_unit_test(test_promtool),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
