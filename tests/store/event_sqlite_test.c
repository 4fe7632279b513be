/*
 * Events in a SQLite file: what was added is there once, across restarts, failing and full disks and damaged files; nothing is added that is
 * not counted; what is old leaves.
 */
#include "../unit/event/sample.h"
#include "../unit/fail_alloc.h"
#include "shim.h"

#include <rea/event_sqlite.h>
#include <rea/store.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_MS 20000

static char directory[] = "rea-events-test-XXXXXX";

static int64_t wall_ns(void)
{
	struct rea_store_clock clock;

	rea_store_clock_read(&clock);
	return clock.unix_ns;
}

static struct rea_event event_with_id(uint64_t id)
{
	struct rea_event event = sample_event();

	event.id = id;
	event.attempt = (uint32_t)id;
	event.time_unix_ns = wall_ns();
	return event;
}

static struct rea_event_sqlite_options options_for(const char *path)
{
	struct rea_event_sqlite_options options;

	rea_event_sqlite_options_init(&options);
	options.path = path;
	return options;
}

static struct rea_event_sqlite *open_with(const struct rea_event_sqlite_options *options)
{
	struct rea_event_sqlite *sink = NULL;
	struct rea_error_info info;

	if (rea_event_sqlite_open(options, &sink, &info) != 0)
		fail_msg("%s: %s", info.file, info.message);
	return sink;
}

static struct rea_event_sqlite *open_sink(void)
{
	struct rea_event_sqlite_options options = options_for("events");

	return open_with(&options);
}

static void add_range(struct rea_event_sqlite *sink, uint64_t first, uint64_t last)
{
	for (uint64_t id = first; id <= last; id++) {
		struct rea_event event = event_with_id(id);

		assert_true(rea_event_sqlite_add(sink, &event));
	}
}

static struct rea_event_sqlite_status status_of(struct rea_event_sqlite *sink)
{
	struct rea_event_sqlite_status status;

	rea_event_sqlite_status(sink, &status);
	return status;
}

static void nap(void)
{
	const struct timespec ms = {0, 1000000};

	nanosleep(&ms, NULL);
}

/* Until condition holds of `status`. */
#define WAIT_FOR(sink, condition)                                                  \
	do {                                                                       \
		struct rea_event_sqlite_status status = status_of(sink);           \
		int left = PATIENCE_MS;                                            \
                                                                                   \
		for (; !(condition) && left > 0; left--, status = status_of(sink)) \
			nap();                                                     \
		if (left == 0)                                                     \
			fail_msg("never: " #condition " (%s)", status.message);    \
	} while (0)

static int read_from(const char *path, const char *biz_id, uint64_t before_id, size_t max,
    struct rea_event_page *ret_page, struct rea_event_sqlite_reader **ret_reader)
{
	assert_int_equal(rea_event_sqlite_reader_new(path, NULL, ret_reader), 0);
	return rea_event_sqlite_read(*ret_reader, text_of(biz_id), before_id, max, ret_page, NULL);
}

/* The file has the events first..last of order-42, whole and in order, and no other of it. */
static void assert_file_has(uint64_t first, uint64_t last)
{
	struct rea_event_sqlite_reader *reader;
	struct rea_event_page page;

	assert_int_equal(read_from("events", "order-42", REA_NEVER, REA_EVENT_SQLITE_PAGE_MAX, &page, &reader), 0);
	assert_int_equal(page.events_len, last - first + 1);
	assert_int_equal(page.left_out, 0);
	assert_int_equal(page.damaged, 0);
	for (size_t i = 0; i < page.events_len; i++) {
		struct rea_event expected = event_with_id(first + i);
		char line[REA_EVENT_JSON_MAX], other[REA_EVENT_JSON_MAX];

		assert_int_equal(page.events[i].id, first + i);
		expected.time_unix_ns = page.events[i].time_unix_ns;
		rea_event_json(&expected, line, sizeof(line));
		rea_event_json(&page.events[i], other, sizeof(other));
		assert_string_equal(other, line);
	}
	rea_event_sqlite_reader_free(reader);
}

static sqlite3 *open_database(const char *path)
{
	sqlite3 *handle;

	assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
	return handle;
}

static void run_sql(const char *path, const char *sql)
{
	sqlite3 *handle = open_database(path);

	if (sqlite3_exec(handle, sql, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(handle));
	sqlite3_close(handle);
}

static int64_t sql_number(const char *path, const char *sql)
{
	sqlite3 *handle = open_database(path);
	sqlite3_stmt *statement;
	int64_t number;

	assert_int_equal(sqlite3_prepare_v2(handle, sql, -1, &statement, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
	number = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	sqlite3_close(handle);
	return number;
}

/* ---- the way there and back ---- */

static void test_every_field_comes_back(void **state)
{
	struct rea_event_sqlite *sink = open_sink();
	struct rea_event_sqlite_reader *reader;
	struct rea_event events[3] = {sample_event(), sample_event(), {.type = REA_EVENT_CONFIG}};
	struct rea_event_page page;

	(void)state;
	events[0].id = 7;
	events[0].evidence = text_of("success 0.42 of 100");
	events[1].id = 8;
	events[1].biz_id = text_of("another");
	events[1].next_delay_ns = REA_NEVER; /* SQLite's numbers end earlier */
	events[1].time_unix_ns = events[0].time_unix_ns = wall_ns();
	events[2].id = 9;
	events[2].time_unix_ns = wall_ns();
	for (size_t i = 0; i < 3; i++)
		assert_true(rea_event_sqlite_add(sink, &events[i]));
	assert_int_equal(rea_event_sqlite_close(sink), 0);
	assert_int_equal(read_from("events", "order-42", REA_NEVER, 10, &page, &reader), 0);
	assert_int_equal(page.events_len, 1);
	assert_false(page.wall_clock);
#define SAME(field) assert_true(page.events[0].field == events[0].field)
#define SAME_TEXT(field)                                                     \
	assert_true(page.events[0].field.length == events[0].field.length && \
		    memcmp(page.events[0].field.text, events[0].field.text, events[0].field.length) == 0)
	SAME(id);
	SAME(type);
	SAME(time_unix_ns);
	SAME(attempt_start_ns);
	SAME(time_ns);
	SAME_TEXT(call_id);
	SAME_TEXT(biz_id);
	SAME_TEXT(key);
	SAME_TEXT(trace_id);
	SAME_TEXT(service);
	SAME_TEXT(method);
	SAME_TEXT(instance);
	SAME_TEXT(detail);
	SAME_TEXT(evidence);
	SAME(attempt);
	SAME(attempts_max);
	SAME(outcome);
	SAME(code_kind);
	SAME(code);
	SAME(cost_ns);
	SAME(retryable);
	SAME(next_delay_ns);
	SAME(verdict);
	SAME(reason);
	SAME(grant.permission);
	SAME(grant.source);
	assert_int_equal(rea_event_sqlite_read(reader, text_of("another"), REA_NEVER, 10, &page, NULL), 0);
	assert_int_equal(page.events_len, 1);
	assert_true(page.events[0].next_delay_ns == INT64_MAX);
	assert_int_equal(rea_event_sqlite_read(reader, text_of("nobody"), REA_NEVER, 10, &page, NULL), 0);
	assert_int_equal(page.events_len, 0);
	rea_event_sqlite_reader_free(reader);
}

static void test_texts_of_any_kind(void **state)
{
	static const char nul[] = "a\0b", broken[] = "\xff\xfe'\"\x01";
	struct rea_event_sqlite *sink = open_sink();
	struct rea_event_sqlite_reader *reader;
	struct rea_event event = event_with_id(1);
	struct rea_event_page page;
	char big[1000];

	(void)state;
	memset(big, 'x', sizeof(big));
	event.biz_id = (struct rea_text){nul, 3};
	event.detail = (struct rea_text){broken, 5};
	event.key = (struct rea_text){big, sizeof(big)};
	assert_true(rea_event_sqlite_add(sink, &event));
	event = event_with_id(2);
	event.biz_id = (struct rea_text){big, sizeof(big)};
	assert_true(rea_event_sqlite_add(sink, &event));
	rea_event_sqlite_close(sink);
	assert_int_equal(rea_event_sqlite_reader_new("events", NULL, &reader), 0);
	assert_int_equal(rea_event_sqlite_read(reader, (struct rea_text){nul, 3}, REA_NEVER, 10, &page, NULL), 0);
	assert_int_equal(page.events_len, 1);
	assert_int_equal(page.events[0].detail.length, 5);
	assert_memory_equal(page.events[0].detail.text, broken, 5);
	assert_int_equal(page.events[0].key.length, REA_EVENT_TEXT_MAX);
	assert_int_equal(rea_event_sqlite_read(reader, (struct rea_text){nul, 1}, REA_NEVER, 10, &page, NULL), 0);
	assert_int_equal(page.events_len, 0);
	/* A business id is cut where it is recorded, and where it is asked for. */
	assert_int_equal(rea_event_sqlite_read(reader, (struct rea_text){big, sizeof(big)}, REA_NEVER, 10, &page, NULL), 0);
	assert_int_equal(page.events_len, 1);
	assert_int_equal(page.events[0].id, 2);
	rea_event_sqlite_reader_free(reader);
}

static void test_pages(void **state)
{
	struct rea_event_sqlite *sink = open_sink();
	struct rea_event_sqlite_reader *reader;
	struct rea_event_page page;

	(void)state;
	add_range(sink, 11, 30);
	rea_event_sqlite_close(sink);
	assert_int_equal(read_from("events", "order-42", REA_NEVER, 5, &page, &reader), 0);
	assert_int_equal(page.events_len, 5);
	assert_int_equal(page.left_out, 15);
	assert_int_equal(page.events[0].id, 26);
	assert_int_equal(page.events[4].id, 30);
	assert_int_equal(rea_event_sqlite_read(reader, text_of("order-42"), 26, 100, &page, NULL), 0);
	assert_int_equal(page.events_len, 15);
	assert_int_equal(page.events[14].id, 25);
	assert_int_equal(rea_event_sqlite_read(reader, text_of("order-42"), 11, 100, &page, NULL), 0);
	assert_int_equal(page.events_len, 0);
	assert_int_equal(rea_event_sqlite_read(reader, text_of(""), 11, 100, &page, NULL), REA_ERR_INVALID);
	assert_int_equal(rea_event_sqlite_read(reader, text_of("x"), 11, 0, &page, NULL), REA_ERR_INVALID);
	assert_int_equal(rea_event_sqlite_read(reader, text_of("x"), 11, REA_EVENT_SQLITE_PAGE_MAX + 1, &page, NULL),
	    REA_ERR_INVALID);
	rea_event_sqlite_reader_free(reader);
}

static void test_restart(void **state)
{
	struct rea_event_sqlite *sink = open_sink(), *other = NULL;
	struct rea_event_sqlite_options options = options_for("events");
	struct rea_error_info info;

	(void)state;
	assert_int_equal(rea_event_sqlite_next_id(sink), 1);
	add_range(sink, 1, 1000);
	assert_int_equal(rea_event_sqlite_open(&options, &other, &info), REA_ERR_BUSY);
	assert_string_equal(info.message, "another process has it open");
	assert_int_equal(rea_event_sqlite_close(sink), 0);
	sink = open_sink();
	assert_int_equal(rea_event_sqlite_next_id(sink), 1001);
	add_range(sink, 1001, 1003);
	/* Of two with one id the first stays. */
	add_range(sink, 1000, 1000);
	WAIT_FOR(sink, status.written == 4 && status.waiting == 0 && status.dropped == 0);
	assert_file_has(1, 1003);
	rea_event_sqlite_close(sink);
	assert_int_equal(rea_event_sqlite_close(NULL), 0);
}

/* Monotonic times of another boot mean nothing here: both come out in wall clock time. */
static void test_another_boot(void **state)
{
	struct rea_event_sqlite *sink = open_sink();
	struct rea_event_sqlite_reader *reader;
	struct rea_event event = event_with_id(1);
	struct rea_event_page page;

	(void)state;
	assert_true(rea_event_sqlite_add(sink, &event));
	rea_event_sqlite_close(sink);
	run_sql("events", "UPDATE boot SET boot_id = 'earlier'");
	sink = open_sink();
	event.id = 2;
	event.attempt_start_ns = MS(3);
	event.time_ns = MS(10);
	assert_true(rea_event_sqlite_add(sink, &event));
	rea_event_sqlite_close(sink);
	assert_int_equal(read_from("events", "order-42", REA_NEVER, 10, &page, &reader), 0);
	assert_int_equal(page.events_len, 2);
	assert_true(page.wall_clock);
	for (size_t i = 0; i < 2; i++)
		assert_true(page.events[i].time_ns == (uint64_t)event.time_unix_ns);
	assert_true(page.events[0].attempt_start_ns == (uint64_t)event.time_unix_ns - MS(12));
	assert_true(page.events[1].attempt_start_ns == (uint64_t)event.time_unix_ns - MS(7));
	rea_event_sqlite_reader_free(reader);
}

/* ---- what is too old, too much ---- */

static void test_retention(void **state)
{
	struct rea_event_sqlite_options options = options_for("events");
	struct rea_event_sqlite *sink;
	int64_t now_ns = wall_ns();

	(void)state;
	options.keep_s = 3600;
	sink = open_with(&options);
	for (uint64_t id = 1; id <= 3000; id++) {
		struct rea_event event = event_with_id(id);

		/* Half of them are just too old; among them stand ones that a wrong clock put into the future. */
		event.time_unix_ns = id % 3 == 0  ? now_ns + INT64_C(86400) * 1000000000
				     : id <= 1500 ? now_ns - INT64_C(3601) * 1000000000
						  : now_ns - INT64_C(3000) * 1000000000;
		assert_true(rea_event_sqlite_add(sink, &event));
	}
	WAIT_FOR(sink, status.written == 3000 && status.removed == 1000);
	rea_event_sqlite_close(sink);
	sink = open_with(&options); /* keeps house at once */
	WAIT_FOR(sink, status.removed == 0);
	rea_event_sqlite_close(sink);
	assert_int_equal(sql_number("events", "SELECT count(*) FROM event"), 2000);
	assert_int_equal(sql_number("events", "SELECT count(*) FROM event WHERE id <= 1500 AND id % 3 <> 0"), 0);
}

/* With nothing to write, too, a few hundred at a time. */
static void test_retention_of_an_idle_file(void **state)
{
	struct rea_event_sqlite_options options = options_for("events");
	struct rea_event_sqlite *sink = open_with(&options);

	(void)state;
	add_range(sink, 1, 2000);
	rea_event_sqlite_close(sink);
	run_sql("events", "UPDATE event SET time_ns = time_ns - 700000000000000 WHERE id <= 1200");
	sink = open_with(&options);
	WAIT_FOR(sink, status.removed == 1200);
	rea_event_sqlite_close(sink);
	assert_file_has(1201, 2000);
}

static uint64_t file_bytes(const char *path)
{
	FILE *file = fopen(path, "r");
	long end;

	assert_non_null(file);
	assert_int_equal(fseek(file, 0, SEEK_END), 0);
	end = ftell(file);
	fclose(file);
	return (uint64_t)end;
}

static void test_size(void **state)
{
	struct rea_event_sqlite_options options = options_for("events");
	struct rea_event_sqlite *sink;
	struct rea_event_sqlite_status seen;
	char big[REA_EVENT_TEXT_MAX];
	uint64_t id = 0;

	(void)state;
	memset(big, 'x', sizeof(big));
	options.size_max = 8 << 20;
	sink = open_with(&options);
	/* Some 30 MB of events. */
	while (id < 15000) {
		struct rea_event event = event_with_id(++id);

		event.key = event.trace_id = event.service = event.method = event.instance = event.detail =
		    (struct rea_text){big, sizeof(big)};
		while (!rea_event_sqlite_add(sink, &event))
			nap();
	}
	WAIT_FOR(sink, status.waiting == 0);
	seen = status_of(sink);
	assert_false(seen.failing);
	assert_int_equal(seen.failures, 0);
	assert_int_equal(seen.written, 15000);
	rea_event_sqlite_close(sink);
	assert_true(file_bytes("events") <= 8 << 20);
	/* The newest are there, without a gap, and enough of them. */
	assert_int_equal(sql_number("events", "SELECT max(id) FROM event"), 15000);
	assert_int_equal(sql_number("events", "SELECT count(*) - (max(id) - min(id) + 1) FROM event"), 0);
	assert_int_equal(sql_number("events", "SELECT count(*) FROM event"), 15000 - (int64_t)seen.removed);
	assert_true(sql_number("events", "SELECT count(*) FROM event") > 2500);
	/* A file that has to become smaller gives room back, without a VACUUM. */
	run_sql("events", "DELETE FROM event WHERE id <= 14000");
	sink = open_with(&options);
	for (int left = PATIENCE_MS; sql_number("events", "PRAGMA freelist_count") > 256; left--) {
		assert_true(left > 0);
		nap();
	}
	rea_event_sqlite_close(sink);
}

/* ---- trouble ---- */

static void start_shim(struct rea_event_sqlite_options *options)
{
	shim_reset();
	*options = options_for("events");
	options->vfs = SHIM_NAME;
}

/* The n-th operation fails, for n over the whole of the work: no event is lost, none is there twice, and the sink goes on. */
static void fail_everywhere(enum shim_kinds kinds, bool for_good)
{
	uint64_t total = 100;
	int failed = 0;

	for (uint64_t i = 0; i <= 30; i++) {
		struct rea_event_sqlite_options options;
		struct rea_event_sqlite *sink;
		uint64_t before;

		start_shim(&options);
		sink = open_with(&options);
		before = shim_count(kinds);
		if (i > 0)
			shim_fail(1 + (i - 1) * total / 30, kinds, for_good);
		for (uint64_t id = 1; id <= 200; id++) {
			add_range(sink, id, id);
			if (id % 40 == 0)
				for (int left = 200;
				     left > 0 && status_of(sink).waiting > 0 && !status_of(sink).failing; left--)
					nap();
		}
		if (i == 0) {
			WAIT_FOR(sink, status.waiting == 0);
			total = shim_count(kinds) - before;
		}
		failed += shim_failed();
		shim_heal();
		WAIT_FOR(sink, status.waiting == 0 && !status.failing && status.dropped == 0 && status.written == 200);
		assert_int_equal(rea_event_sqlite_close(sink), 0);
		assert_file_has(1, 200);
		assert_int_equal(sql_number("events", "SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
		unlink("events");
	}
	assert_in_range(failed, 20, 30);
}

static void test_nth_write_fails(void **state)
{
	(void)state;
	fail_everywhere(SHIM_WRITES, false);
}

static void test_all_fail_from_the_nth_on(void **state)
{
	(void)state;
	fail_everywhere(SHIM_CHANGES, true);
}

static void count_wakes(void *user_data)
{
	__atomic_fetch_add((int *)user_data, 1, __ATOMIC_SEQ_CST);
}

/* The queue holds what it can, then drops and counts; add does not wait; what waited is written when the disk is well again. */
static void test_full_queue_drops_and_counts(void **state)
{
	struct rea_event_sqlite_options options;
	struct rea_event_sqlite_status seen;
	struct rea_event_sqlite *sink;
	uint64_t added = 0;
	int wakes = 0;

	(void)state;
	start_shim(&options);
	options.queue_bytes = 16 << 10;
	options.wake = count_wakes;
	options.user_data = &wakes;
	sink = open_with(&options);
	shim_fail(1, SHIM_CHANGES, true);
	for (uint64_t id = 1; id <= 500; id++) {
		struct rea_event event = event_with_id(id);

		added += rea_event_sqlite_add(sink, &event);
	}
	WAIT_FOR(sink, status.failing);
	seen = status_of(sink);
	assert_in_range(added, 20, 60);
	assert_int_equal(seen.waiting, added);
	assert_int_equal(seen.dropped, 500 - added);
	assert_int_equal(seen.written, 0);
	assert_true(seen.message[0] != '\0');
	assert_int_equal(__atomic_load_n(&wakes, __ATOMIC_SEQ_CST), 1);
	shim_heal();
	WAIT_FOR(sink, !status.failing && status.written == added && status.waiting == 0);
	assert_int_equal(__atomic_load_n(&wakes, __ATOMIC_SEQ_CST), 2);
	assert_int_equal(rea_event_sqlite_close(sink), 0);
	assert_file_has(1, added);
}

static void test_close_tells_what_was_not_written(void **state)
{
	struct rea_event_sqlite_options options;
	struct rea_event_sqlite *sink;

	(void)state;
	start_shim(&options);
	sink = open_with(&options);
	add_range(sink, 1, 10);
	WAIT_FOR(sink, status.waiting == 0);
	shim_fail(1, SHIM_CHANGES, true);
	add_range(sink, 11, 17);
	assert_int_equal(rea_event_sqlite_close(sink), 7);
	shim_heal();
	assert_file_has(1, 10);
}

/* A file system of one megabyte, full. Only root may mount one. */
static void test_disk_full(void **state)
{
	struct rea_event_sqlite_options options = options_for("disk/events");
	struct rea_event_sqlite *sink;
	char junk[4096] = {0};
	int fd;

	(void)state;
	assert_int_equal(mkdir("disk", 0700), 0);
	if (mount("tmpfs", "disk", "tmpfs", 0, "size=2m") != 0) {
		rmdir("disk");
		skip();
	}
	fd = open("disk/junk", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	while (write(fd, junk, sizeof(junk)) > 0)
		;
	/* Full from the start: it starts nevertheless. */
	sink = open_with(&options);
	assert_true(status_of(sink).failing);
	assert_int_equal(rea_event_sqlite_next_id(sink), 1);
	add_range(sink, 1, 10);
	WAIT_FOR(sink, status.failures > 1 && status.waiting == 10);
	assert_int_equal(ftruncate(fd, 0), 0);
	WAIT_FOR(sink, !status.failing && status.written == 10);
	/* Full while it runs. */
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	while (write(fd, junk, sizeof(junk)) > 0)
		;
	add_range(sink, 11, 2000);
	WAIT_FOR(sink, status.failing && status.waiting > 0);
	assert_int_equal(ftruncate(fd, 0), 0);
	WAIT_FOR(sink, !status.failing && status.written == 2000 && status.dropped == 0);
	close(fd);
	assert_int_equal(rea_event_sqlite_close(sink), 0);
	assert_int_equal(sql_number("disk/events", "SELECT count(*) FROM event"), 2000);
	assert_int_equal(umount("disk"), 0);
	rmdir("disk");
}

static void write_file(const char *path, const char *text, size_t length)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, length), (ssize_t)length);
	close(fd);
}

/* Not a database, cut short, overwritten in the middle: set aside, begun anew, told; the damaged file is kept. */
static void test_damaged_file_is_set_aside(void **state)
{
	struct rea_event_sqlite_status seen;
	struct rea_event_sqlite *sink;
	char junk[65536];

	(void)state;
	memset(junk, 'j', sizeof(junk));
	write_file("events", junk, sizeof(junk));
	sink = open_sink();
	seen = status_of(sink);
	assert_int_equal(seen.set_aside, 1);
	assert_false(seen.failing);
	assert_string_equal(seen.message, "the file was damaged and set aside; its name ends in .damaged-1 now");
	assert_true(file_bytes("events.damaged-1") == sizeof(junk));
	add_range(sink, 1, 500);
	rea_event_sqlite_close(sink);
	assert_file_has(1, 500);
	assert_int_equal(truncate("events", 8192 * 2), 0);
	sink = open_sink();
	add_range(sink, 501, 510);
	WAIT_FOR(sink, status.set_aside == 1 && status.waiting == 0);
	rea_event_sqlite_close(sink);
	assert_file_has(501, 510);
	assert_true(file_bytes("events.damaged-2") > 0);
}

/* While it is in use: what waited then goes into the new file. */
static void test_damage_under_way(void **state)
{
	struct rea_event_sqlite_reader *reader;
	struct rea_event_sqlite *sink = open_sink();
	struct rea_event_page page;

	(void)state;
	add_range(sink, 1, 10);
	WAIT_FOR(sink, status.waiting == 0);
	assert_int_equal(read_from("events", "order-42", REA_NEVER, 10, &page, &reader), 0);
	assert_int_equal(page.events_len, 10);
	run_sql("events", "DROP TABLE event");
	add_range(sink, 11, 20);
	WAIT_FOR(sink, status.set_aside == 1 && status.written == 20 && !status.failing);
	/* A reader that was there before sees the new file. */
	assert_int_equal(rea_event_sqlite_read(reader, text_of("order-42"), REA_NEVER, 10, &page, NULL), 0);
	assert_int_equal(page.events_len, 10);
	assert_int_equal(page.events[0].id, 11);
	rea_event_sqlite_reader_free(reader);
	rea_event_sqlite_close(sink);
	assert_file_has(11, 20);
}

static void assert_refused(const char *path, int error, const char *message)
{
	struct rea_event_sqlite_options options = options_for(path);
	struct rea_event_sqlite *sink = NULL;
	struct rea_error_info info;

	assert_int_equal(rea_event_sqlite_open(&options, &sink, &info), error);
	assert_null(sink);
	assert_string_equal(info.message, message);
}

static void test_refusals(void **state)
{
	struct rea_event_sqlite_reader *reader;
	struct rea_event_sqlite_options options = options_for("events");
	struct rea_event_sqlite *sink = NULL;
	struct rea_error_info info;
	struct rea_event_page page;

	(void)state;
	run_sql("events", "CREATE TABLE own (x)");
	assert_refused("events", REA_ERR_INVALID, "this is a database of another program");
	assert_int_equal(read_from("events", "x", REA_NEVER, 1, &page, &reader), REA_ERR_INVALID);
	rea_event_sqlite_reader_free(reader);
	unlink("events");
	rea_event_sqlite_close(open_sink());
	run_sql("events", "PRAGMA user_version=99");
	assert_refused("events", REA_ERR_INVALID,
	    "its schema has version 99, this library knows up to 1: use the newer rea that wrote it");
	assert_refused("no/such/directory", REA_ERR_IO, "its lock file cannot be opened (errno 2: No such file or directory)");
	assert_int_equal(mkdir("directory", 0700), 0);
	assert_int_equal(access("directory-lock", F_OK), -1);
	options.path = "directory";
	assert_int_equal(rea_event_sqlite_open(&options, &sink, &info), REA_ERR_IO);
	rmdir("directory");
	unlink("directory-lock");
	assert_int_equal(read_from("nowhere", "x", REA_NEVER, 1, &page, &reader), REA_ERR_NOT_FOUND);
	rea_event_sqlite_reader_free(reader);
	options = options_for("");
	assert_int_equal(rea_event_sqlite_open(&options, &sink, &info), REA_ERR_INVALID);
	assert_string_equal(info.key, "path");
	options = options_for("events");
	options.queue_bytes = 20000;
	assert_int_equal(rea_event_sqlite_open(&options, &sink, &info), REA_ERR_INVALID);
	assert_string_equal(info.key, "queue_bytes");
	options = options_for("events");
	options.size_max = (8 << 20) - 1;
	assert_int_equal(rea_event_sqlite_open(&options, &sink, &info), REA_ERR_INVALID);
	assert_string_equal(info.key, "size_max");
	options = options_for("events");
	options.keep_s = 59;
	assert_int_equal(rea_event_sqlite_open(&options, &sink, &info), REA_ERR_INVALID);
	assert_string_equal(info.key, "keep_s");
}

/* Rows that somebody else has changed: those that are no event are left out and counted. */
static void test_foreign_rows(void **state)
{
	static const char *const changes[] = {
	    "UPDATE event SET type = 'Other' WHERE id = 2",
	    "UPDATE event SET retryable = 2 WHERE id = 3",
	    "UPDATE event SET attempt = -1 WHERE id = 4",
	    "UPDATE event SET detail = hex(zeroblob(129)) WHERE id = 5",
	    "UPDATE event SET reason = 'none of ours' WHERE id = 6",
	    "UPDATE event SET code = 4294967296 WHERE id = 7",
	};
	struct rea_event_sqlite_reader *reader;
	struct rea_event_sqlite *sink = open_sink();
	struct rea_event_page page;

	(void)state;
	add_range(sink, 1, 8);
	rea_event_sqlite_close(sink);
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
		run_sql("events", changes[i]);
	assert_int_equal(read_from("events", "order-42", REA_NEVER, 100, &page, &reader), 0);
	assert_int_equal(page.damaged, 6);
	assert_int_equal(page.events_len, 2);
	assert_int_equal(page.events[0].id, 1);
	assert_int_equal(page.events[1].id, 8);
	rea_event_sqlite_reader_free(reader);
}

/* A process that dies takes with it what had not been written, and leaves a good file. */
static void test_kill(void **state)
{
	(void)state;
	for (uint64_t n = 1; n <= 40; n++) {
		int status;
		pid_t child = fork();
		int64_t count;

		if (child == 0) {
			struct rea_event_sqlite_options options;
			struct rea_event_sqlite *sink;

			start_shim(&options);
			shim_kill(8 + n * 3);
			sink = open_with(&options);
			for (uint64_t id = 1; id <= 100000; id++) {
				struct rea_event event = event_with_id(id);

				rea_event_sqlite_add(sink, &event);
			}
			rea_event_sqlite_close(sink);
			_exit(0);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		rea_event_sqlite_close(open_sink());
		assert_int_equal(sql_number("events", "SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
		count = sql_number("events", "SELECT count(*) FROM event");
		assert_int_equal(sql_number("events", "SELECT ifnull(max(id), 0) FROM event"), count);
		unlink("events");
	}
}

static void test_out_of_memory(void **state)
{
	struct rea_event_sqlite_options options = options_for("events");

	(void)state;
	for (uint64_t n = 0; n < 2; n++) {
		struct rea_event_sqlite *sink = NULL;
		struct rea_error_info info;
		struct fail_alloc failing;

		fail_alloc_init(&failing, n, true);
		options.alloc = &failing.alloc;
		assert_int_equal(rea_event_sqlite_open(&options, &sink, &info), REA_ERR_NOMEM);
		assert_null(sink);
	}
}

/* ---- */

static int make_directory(void **state)
{
	(void)state;
	shim_install(false);
	return mkdtemp(directory) ? chdir(directory) : -1;
}

static int remove_files(void **state)
{
	DIR *entries = opendir(".");
	struct dirent *entry;

	(void)state;
	while ((entry = readdir(entries)) != NULL)
		unlink(entry->d_name);
	return closedir(entries);
}

static int remove_directory(void **state)
{
	(void)state;
	return chdir("..") || rmdir(directory);
}

#define TEST(name) cmocka_unit_test_teardown(name, remove_files)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_every_field_comes_back),
	    TEST(test_texts_of_any_kind),
	    TEST(test_pages),
	    TEST(test_restart),
	    TEST(test_another_boot),
	    TEST(test_retention),
	    TEST(test_retention_of_an_idle_file),
	    TEST(test_size),
	    TEST(test_nth_write_fails),
	    TEST(test_all_fail_from_the_nth_on),
	    TEST(test_full_queue_drops_and_counts),
	    TEST(test_close_tells_what_was_not_written),
	    TEST(test_disk_full),
	    TEST(test_damaged_file_is_set_aside),
	    TEST(test_damage_under_way),
	    TEST(test_refusals),
	    TEST(test_foreign_rows),
	    TEST(test_kill),
	    TEST(test_out_of_memory),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
