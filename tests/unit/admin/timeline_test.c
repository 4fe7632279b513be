/* One timeline from the ring, the history and the tasks: each event once, in order, whatever it came from. */
#include "admin/timeline.h"

#include "../event/sample.h"

#include <dirent.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

static char directory[] = "rea-timeline-test-XXXXXX";
static struct admin_sources sources;
static struct rea_event_ring *ring;
static struct answer answer;
static int tasks_error;

static struct rea_event event_with(uint64_t id, uint64_t start_ms)
{
	struct rea_event event = sample_event();

	event.id = id;
	event.attempt = (uint32_t)id;
	event.attempt_start_ns = MS(start_ms);
	event.time_ns = MS(start_ms + 12);
	return event;
}

static void remember(uint64_t id, uint64_t start_ms)
{
	struct rea_event event = event_with(id, start_ms);

	assert_int_equal(rea_event_ring_add(ring, &event), 0);
}

/* Events first..last into the file, one every 100 ms of the monotonic clock, and of the wall clock. */
static void record(uint64_t first, uint64_t last)
{
	struct rea_event_sqlite_options options;
	struct rea_event_sqlite *sink;

	rea_event_sqlite_options_init(&options);
	options.path = "events";
	options.keep_s = 315360000;
	assert_int_equal(rea_event_sqlite_open(&options, &sink, NULL), 0);
	for (uint64_t id = first; id <= last; id++) {
		struct rea_event event = event_with(id, 100 * id);

		event.time_unix_ns += (int64_t)MS(100 * id);
		assert_true(rea_event_sqlite_add(sink, &event));
	}
	assert_int_equal(rea_event_sqlite_close(sink), 0);
}

static void ask(const char *biz_id, bool text)
{
	answer_fini(&answer);
	answer_init(&answer, NULL);
	timeline_answer(&answer, &sources, text_of(biz_id), text);
	assert_false(answer.failed);
	assert_int_equal(rea_buffer_append(&answer.body, "", 1), 0);
}

static json_t *document(void)
{
	json_t *json = json_loads(rea_buffer_data(&answer.body), 0, NULL);

	assert_int_equal(answer.status, 200);
	assert_non_null(json);
	return json;
}

/* The attempt numbers, "1 2 3", of the events in their order. */
static void assert_attempts(const char *expected)
{
	json_t *json = document(), *event;
	char text[256] = "";
	size_t i;

	json_array_foreach(json_object_get(json, "events"), i, event) snprintf(text + strlen(text),
	    sizeof(text) - strlen(text), "%s%lld", i > 0 ? " " : "", json_integer_value(json_object_get(event, "attempt")));
	assert_string_equal(text, expected);
	json_decref(json);
}

static json_int_t number(const char *name)
{
	json_t *json = document();
	json_int_t value = json_integer_value(json_object_get(json, name));

	json_decref(json);
	return value;
}

static void test_ring_and_history(void **state)
{
	(void)state;
	record(1, 7);
	for (uint64_t id = 5; id <= 9; id++)
		remember(id, 100 * id);
	/* The ring has 5..9, the file 1..7. */
	ask("order-42", false);
	assert_attempts("1 2 3 4 5 6 7 8 9");
	assert_int_equal(number("left_out"), 0);
	/* Only one of them. */
	sources.ring = NULL;
	ask("order-42", false);
	assert_attempts("1 2 3 4 5 6 7");
	sources.ring = ring;
	rea_event_sqlite_reader_free(sources.history);
	sources.history = NULL;
	ask("order-42", false);
	assert_attempts("5 6 7 8 9");
	ask("another", false);
	assert_int_equal(answer.status, 404);
}

/* The ring may have no event of this biz_id, and still its oldest one says where the history ends. */
static void test_history_alone(void **state)
{
	struct rea_event other = event_with(4, 1);

	(void)state;
	record(1, 3);
	other.biz_id = text_of("another");
	assert_int_equal(rea_event_ring_add(ring, &other), 0);
	ask("order-42", false);
	assert_attempts("1 2 3");
	ask("another", false);
	assert_attempts("4");
}

static void test_order_is_by_start(void **state)
{
	(void)state;
	record(1, 3);     /* at 100, 200, 300 ms */
	remember(4, 150); /* long under way */
	remember(5, 10000);
	ask("order-42", false);
	assert_attempts("1 4 2 3 5");
	ask("order-42", true);
	assert_string_equal(answer.content_type, "text/plain; charset=utf-8");
	assert_non_null(strstr(rea_buffer_data(&answer.body), "      +50 ms  #4/2"));
}

/* After a reboot the monotonic clock begins anew: the wall clock orders. */
static void test_across_a_reboot(void **state)
{
	sqlite3 *handle;
	struct rea_event event = event_with(3, 5);

	(void)state;
	record(1, 2);
	assert_int_equal(sqlite3_open("events", &handle), SQLITE_OK);
	assert_int_equal(sqlite3_exec(handle, "UPDATE boot SET boot_id = 'earlier'", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(handle);
	event.time_unix_ns += (int64_t)MS(60000);
	assert_int_equal(rea_event_ring_add(ring, &event), 0);
	ask("order-42", false);
	assert_attempts("1 2 3");
	ask("order-42", true);
	assert_non_null(strstr(rea_buffer_data(&answer.body), "   +59900 ms  #3/2"));
}

static void test_damaged_rows_are_told(void **state)
{
	sqlite3 *handle;

	(void)state;
	record(1, 3);
	assert_int_equal(sqlite3_open("events", &handle), SQLITE_OK);
	assert_int_equal(sqlite3_exec(handle, "UPDATE event SET type = 'x' WHERE id = 2", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(handle);
	ask("order-42", false);
	assert_attempts("1 3");
	assert_int_equal(number("damaged"), 1);
}

static void test_history_that_cannot_be_read(void **state)
{
	FILE *file = fopen("events", "w");
	json_t *json;

	(void)state;
	fputs("this is no database, but a text that is long enough to be taken for a page of one, or so it may seem to "
	      "be .....",
	    file);
	fclose(file);
	remember(1, 1);
	ask("order-42", false);
	assert_attempts("1");
	json = document();
	assert_non_null(
	    strstr(json_string_value(json_object_get(json, "incomplete")), "events.sqlite cannot be read: "));
	json_decref(json);
	ask("order-42", true);
	assert_memory_equal(rea_buffer_data(&answer.body), "incomplete: events.sqlite cannot be read: ", 42);
	ask("another", false);
	assert_int_equal(answer.status, 503);
}

/* Attempt 2 of task 7f3a2c is among the events, attempt 8 of it is not. */
static int tell_tasks(struct rea_text biz_id, struct timeline *timeline, void *user_data)
{
	struct rea_event attempt = event_with(0, 0);

	(void)user_data;
	if (biz_id.length != 8)
		return tasks_error;
	timeline_add_task(timeline,
	    REA_SLICE_LIT("{\"id\":\"17\",\"state\":\"PENDING\",\"attempts\":0,\"target\":\"a\\u001bb\\u009bc\","
			  "\"due\":\"2026-01-02T03:04:05.678Z\",\"reason\":\"\"}"));
	timeline_add_task(timeline,
	    REA_SLICE_LIT(
		"{\"id\":\"18\",\"state\":\"GIVEN_UP\",\"attempts\":2,\"method\":\"POST\",\"url\":\"https://x/\","
		"\"due\":null,\"reason\":\"permanent\"}"));
	attempt.attempt = 2;
	timeline_add_attempt(timeline, &attempt);
	attempt.attempt = 8;
	attempt.time_unix_ns += (int64_t)MS(50);
	attempt.time_ns = (uint64_t)attempt.time_unix_ns;
	attempt.attempt_start_ns = attempt.time_ns - MS(12);
	timeline_add_attempt(timeline, &attempt);
	return tasks_error;
}

static void test_tasks(void **state)
{
	json_t *json;

	(void)state;
	sources.tasks = tell_tasks;
	remember(1, 100);
	remember(2, 200);
	ask("order-42", false);
	assert_attempts("1 2 8");
	json = document();
	assert_int_equal(json_array_size(json_object_get(json, "tasks")), 2);
	assert_string_equal(json_string_value(json_object_get(json_array_get(json_object_get(json, "tasks"), 1), "id")), "18");
	json_decref(json);
	ask("order-42", true);
	assert_non_null(strstr(rea_buffer_data(&answer.body),
	    "\ntask 17  PENDING  a?b?c  0 attempts, next at 2026-01-02T03:04:05.678Z\n"
	    "task 18  GIVEN_UP  POST https://x/  2 attempts (1 retry): permanent\n"));
	ask("nobody", false);
	assert_int_equal(answer.status, 404);
	tasks_error = REA_ERR_IO;
	ask("order-42", false);
	assert_non_null(strstr(rea_buffer_data(&answer.body), "\"incomplete\":\"the tasks cannot be read\""));
	ask("nobody", false);
	assert_int_equal(answer.status, 503);
}

/* ---- */

static int setup(void **state)
{
	(void)state;
	memset(&sources, 0, sizeof(sources));
	tasks_error = 0;
	sources.ring = NULL;
	if (rea_event_ring_new(100, NULL, &ring, NULL) != 0)
		return -1;
	sources.ring = ring;
	return access("events", F_OK) == 0 ? -1 : rea_event_sqlite_reader_new("events", NULL, &sources.history);
}

/* Without a file there is no history. */
static int setup_without(void **state)
{
	int code = setup(state);

	rea_event_sqlite_reader_free(sources.history);
	sources.history = NULL;
	return code;
}

static int teardown(void **state)
{
	DIR *entries = opendir(".");
	struct dirent *entry;

	(void)state;
	rea_event_sqlite_reader_free(sources.history);
	rea_event_ring_free(ring);
	answer_fini(&answer);
	answer_init(&answer, NULL);
	while ((entry = readdir(entries)) != NULL)
		unlink(entry->d_name);
	return closedir(entries);
}

static int make_directory(void **state)
{
	(void)state;
	return mkdtemp(directory) ? chdir(directory) : -1;
}

static int remove_directory(void **state)
{
	(void)state;
	return chdir("..") || rmdir(directory);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_ring_and_history),
	    TEST(test_history_alone),
	    TEST(test_order_is_by_start),
	    TEST(test_across_a_reboot),
	    TEST(test_damaged_rows_are_told),
	    TEST(test_history_that_cannot_be_read),
	    cmocka_unit_test_setup_teardown(test_tasks, setup_without, teardown),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
