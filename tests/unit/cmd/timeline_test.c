/* `rea timeline` as a person runs it: from a log, from an admin API, and what it says when it cannot. Takes the
 * program's path. */
#include "../admin/harness.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

static const char *program;
static char directory[] = "rea-timeline-test-XXXXXX";
static char output[65536];

/* Runs `rea timeline ARGUMENTS`, both outputs together. Returns the exit code. */
static int run_timeline(const char *arguments)
{
	char command[2048];
	size_t length;
	FILE *pipe;
	int status;

	snprintf(command, sizeof(command), "http_proxy=http://127.0.0.1:1 '%s' timeline %s 2>&1", program, arguments);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	length = fread(output, 1, sizeof(output) - 1, pipe);
	output[length] = '\0';
	status = pclose(pipe);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void append(const char *text, size_t length, void *user_data)
{
	strncat(user_data, text, length);
}

static void write_events(const struct rea_event *events, size_t count, const char *rest)
{
	FILE *file = fopen("events", "w");
	char line[REA_EVENT_JSON_MAX];

	assert_non_null(file);
	for (size_t i = 0; i < count; i++) {
		rea_event_json(&events[i], line, sizeof(line));
		fprintf(file, "%s\n", line);
	}
	fputs(rest, file);
	assert_int_equal(fclose(file), 0);
}

/* Three events: the first two out of order, and one of another biz_id. */
static void three_events(struct rea_event events[3])
{
	events[0] = events[1] = events[2] = sample_event();
	events[0].type = REA_EVENT_GIVE_UP;
	events[0].reason = REA_REASON_ATTEMPTS_EXHAUSTED;
	events[0].verdict = REA_VERDICT_GIVE_UP;
	events[0].attempt = 2;
	events[0].attempt_start_ns = MS(5116);
	events[0].time_ns = MS(5119);
	events[2].biz_id = text_of("order-43");
}

static void test_from_a_log(void **state)
{
	struct rea_event events[3];
	struct rea_timeline timeline;
	char expected[4096] = "";

	(void)state;
	three_events(events);
	write_events(events, 3, "");
	events[0].time_unix_ns = events[1].time_unix_ns = events[1].time_unix_ns / 1000000 * 1000000;
	rea_timeline_begin(&timeline, append, expected);
	rea_timeline_event(&timeline, &events[1]);
	rea_timeline_event(&timeline, &events[0]);
	assert_int_equal(run_timeline("--file events order-42"), 0);
	assert_string_equal(output, expected);
}

static void test_from_a_log_as_json(void **state)
{
	struct rea_event events[3];
	char first[REA_EVENT_JSON_MAX], second[REA_EVENT_JSON_MAX], expected[3 * REA_EVENT_JSON_MAX];

	(void)state;
	three_events(events);
	write_events(events, 3, "");
	rea_event_json(&events[0], first, sizeof(first));
	rea_event_json(&events[1], second, sizeof(second));
	snprintf(expected, sizeof(expected),
	    "{\"biz_id\":\"order-42\",\"left_out\":0,\"events\":[\n%s,\n%s],\"tasks\":[]}\n", second, first);
	assert_int_equal(run_timeline("--json -f events order-42"), 0);
	assert_string_equal(output, expected);
}

static void test_broken_lines_are_told_and_skipped(void **state)
{
	struct rea_event event = sample_event();

	(void)state;
	write_events(&event, 1, "\nnot json\n{\"time\":\"2026-01-");
	assert_int_equal(run_timeline("--file events order-42"), 0);
	assert_non_null(strstr(output, "rea: events:3: not an event, skipped\nrea: events:4: not an event, skipped\n"));
	assert_non_null(strstr(output, "retry in 104 ms\n"));
}

static void test_failures_of_a_log(void **state)
{
	struct rea_event event = sample_event();

	(void)state;
	write_events(&event, 1, "");
	assert_int_equal(run_timeline("--file events order-4"), 1);
	assert_string_equal(output, "rea: events has no event of biz_id order-4\n");
	assert_int_equal(run_timeline("--file nowhere order-42"), 1);
	assert_string_equal(output, "rea: cannot read nowhere: No such file or directory\n");
	assert_int_equal(run_timeline("--file . order-42"), 1);
	assert_string_equal(output, "rea: cannot read .: Is a directory\n");
	assert_int_equal(run_timeline("--file events order-42 >/dev/full"), 1);
}

static void test_from_the_admin_api(void **state)
{
	char arguments[128];

	(void)state;
	snprintf(arguments, sizeof(arguments), "--admin %s order-42", admin_address(admin));
	assert_int_equal(run_timeline(arguments), 0);
	assert_string_equal(output,
	    "biz_id order-42, from 2026-01-02T03:04:05.666Z\n"
	    "call 7f3a2c  user-service  users_get  GET /users/42  permission idempotent (config), at most 2 attempts "
	    "(1 retry)\n"
	    "       +0 ms  #1/2    127.0.0.1:9001         unavailable 503             12 ms  retry in 104 ms\n");
	snprintf(arguments, sizeof(arguments), "--json --admin %s order-42", admin_address(admin));
	assert_int_equal(run_timeline(arguments), 0);
	assert_memory_equal(output, "{\"biz_id\":\"order-42\",\"left_out\":0,\"events\":[\n{\"time\":", 53);
	snprintf(arguments, sizeof(arguments), "--admin %s 'a/b c?%%'", admin_address(admin));
	assert_int_equal(run_timeline(arguments), 1);
	assert_string_equal(output, "rea: nothing about biz_id a/b c?%: no event of this biz_id is kept: nothing of it "
				    "failed, or it is too long ago\n");
}

static void test_no_admin_api(void **state)
{
	char address[32], arguments[128], expected[128];

	(void)state;
	free_address(address);
	snprintf(arguments, sizeof(arguments), "--admin %s order-42", address);
	snprintf(expected, sizeof(expected), "rea: cannot ask the admin API at %s: ", address);
	assert_int_equal(run_timeline(arguments), 1);
	assert_memory_equal(output, expected, strlen(expected));
	assert_int_equal(run_timeline("--admin file:///etc/passwd order-42"), 1);
	assert_memory_equal(output, "rea: cannot ask the admin API at file:///etc/passwd: ", 53);
}

static void test_usage(void **state)
{
	static const char *const wrong[] = {"", "a b", "--file f --admin a b", "--file f --config c b",
	    "--admin a --config c b", "--unknown x", "''", "--file"};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(run_timeline(wrong[i]), 2);
		assert_non_null(strstr(output, "usage: rea timeline "));
	}
	assert_int_equal(run_timeline("--help"), 0);
	assert_memory_equal(output, "usage: rea timeline ", 20);
}

static int setup(void **state)
{
	unsetenv("no_proxy");
	return mkdtemp(directory) == NULL || chdir(directory) != 0 || start_admin(state) != 0 ? -1 : 0;
}

static int teardown(void **state)
{
	unlink("events");
	return stop_admin(state) != 0 || chdir("..") != 0 || rmdir(directory) != 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_from_a_log),
	    cmocka_unit_test(test_from_a_log_as_json),
	    cmocka_unit_test(test_broken_lines_are_told_and_skipped),
	    cmocka_unit_test(test_failures_of_a_log),
	    cmocka_unit_test(test_from_the_admin_api),
	    cmocka_unit_test(test_no_admin_api),
	    cmocka_unit_test(test_usage),
	};

	if (argc != 2 || (program = realpath(argv[1], NULL)) == NULL)
		return 2;
	return cmocka_run_group_tests(tests, setup, teardown);
}
