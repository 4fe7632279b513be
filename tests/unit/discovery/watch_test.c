/* New content of one file, however it comes. Waits for events, never for a time; a hung test is ended by the runner. */
#include "discovery/watch.h"

#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct bed {
	struct loop loop;
	struct watch *watch;
	char directory[32];
	char path[64];
	char content[64]; /* the last seen */
	char error[320];
	size_t calls;
	bool stop_watch; /* from inside the callback */
};

static void in_bed(const struct bed *bed, const char *name, char ret_path[64])
{
	snprintf(ret_path, 64, "%s/%s", bed->directory, name);
}

static void write_path(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void write_in(const struct bed *bed, const char *name, const char *text)
{
	char path[64];

	in_bed(bed, name, path);
	write_path(path, text);
}

static void rename_in(const struct bed *bed, const char *from, const char *to)
{
	char old[64], new[64];

	in_bed(bed, from, old);
	in_bed(bed, to, new);
	assert_int_equal(rename(old, new), 0);
}

static void on_changed(const char *text, size_t length, const struct rea_error_info *error, void *user_data)
{
	struct bed *bed = user_data;

	bed->calls++;
	if (error != NULL)
		snprintf(bed->error, sizeof(bed->error), "%s", error->message);
	else
		snprintf(bed->content, sizeof(bed->content), "%.*s", (int)length, text);
	if (bed->stop_watch) {
		watch_stop(bed->watch);
		bed->watch = NULL;
	}
	loop_stop(&bed->loop);
}

static struct bed *bed_new(void)
{
	struct bed *bed = calloc(1, sizeof(*bed));

	assert_non_null(bed);
	snprintf(bed->directory, sizeof(bed->directory), "/tmp/rea-watch-XXXXXX");
	assert_non_null(mkdtemp(bed->directory));
	in_bed(bed, "rea.yaml", bed->path);
	assert_int_equal(loop_init(&bed->loop, 1), 0);
	return bed;
}

/* Watch for anything but `known`. */
static void start(struct bed *bed, const char *known)
{
	char version[REA_HASH_HEX_SIZE];

	rea_hash_hex(rea_hash(known, strlen(known)), version);
	assert_int_equal(watch_start(&bed->loop, bed->path, version, on_changed, bed, &bed->watch), 0);
}

/* Run until the next callback. */
static const char *next(struct bed *bed)
{
	size_t calls = bed->calls;

	loop_run(&bed->loop);
	assert_int_equal(bed->calls, calls + 1);
	return bed->content;
}

static void on_quiet(struct wheel_timer *timer, uint64_t now_ns)
{
	(void)timer;
	(void)now_ns;
}

/* Run for some time in which nothing may be told. */
static void nothing_for(struct bed *bed, uint64_t ms)
{
	struct wheel_timer timer = {.fire = on_quiet};
	size_t calls = bed->calls;

	loop_timer_start(&bed->loop, &timer, rea_time_add(loop_now(&bed->loop), rea_time_from_ms(ms)));
	while (wheel_timer_active(&timer))
		uv_run(&bed->loop.uv, UV_RUN_ONCE);
	assert_int_equal(bed->calls, calls);
}

static void bed_free(struct bed *bed)
{
	char command[64];

	watch_stop(bed->watch);
	uv_run(&bed->loop.uv, UV_RUN_NOWAIT); /* takes a stop that nobody waited for */
	loop_fini(&bed->loop);
	snprintf(command, sizeof(command), "rm -r '%s'", bed->directory);
	assert_int_equal(system(command), 0);
	free(bed);
}

static void written_in_place(void **state)
{
	struct bed *bed = bed_new();

	(void)state;
	write_path(bed->path, "one");
	start(bed, "one");
	nothing_for(bed, 150);
	write_path(bed->path, "two");
	assert_string_equal(next(bed), "two");
	/* Touched, and written with what is there already: no news. */
	write_path(bed->path, "two");
	nothing_for(bed, 150);
	bed_free(bed);
}

static void changed_between_load_and_watch(void **state)
{
	struct bed *bed = bed_new();

	(void)state;
	write_path(bed->path, "newer");
	start(bed, "older");
	assert_string_equal(next(bed), "newer");
	bed_free(bed);
}

static void renamed_over(void **state)
{
	struct bed *bed = bed_new();

	(void)state;
	write_path(bed->path, "one");
	start(bed, "one");
	nothing_for(bed, 120);
	for (int i = 0; i < 3; i++) {
		char text[16];

		snprintf(text, sizeof(text), "version %d", i);
		write_in(bed, ".rea.yaml.swp", text);
		rename_in(bed, ".rea.yaml.swp", "rea.yaml");
		assert_string_equal(next(bed), text);
	}
	bed_free(bed);
}

static void link_in(const struct bed *bed, const char *target, const char *name)
{
	char path[64];

	in_bed(bed, name, path);
	assert_int_equal(symlink(target, path), 0);
}

static void directory_in(const struct bed *bed, const char *name)
{
	char path[64];

	in_bed(bed, name, path);
	assert_int_equal(mkdir(path, 0700), 0);
}

/* rea.yaml -> ..data/rea.yaml, ..data -> a directory for each version, swung by a rename. */
static void a_config_map_swings(void **state)
{
	struct bed *bed = bed_new();

	(void)state;
	directory_in(bed, "..1");
	write_in(bed, "..1/rea.yaml", "one");
	link_in(bed, "..1", "..data");
	link_in(bed, "..data/rea.yaml", "rea.yaml");
	start(bed, "one");
	nothing_for(bed, 120);
	directory_in(bed, "..2");
	write_in(bed, "..2/rea.yaml", "two");
	link_in(bed, "..2", "..tmp");
	rename_in(bed, "..tmp", "..data");
	assert_string_equal(next(bed), "two");
	/* And what happens in the new directory is seen as well. */
	write_in(bed, "..2/rea.yaml", "three");
	assert_string_equal(next(bed), "three");
	bed_free(bed);
}

/* The link's directory and the file's are watched, but not the one between: the poll finds what swings there. */
static void a_swing_that_no_event_tells(void **state)
{
	struct bed *bed = bed_new();

	(void)state;
	directory_in(bed, "between");
	directory_in(bed, "a");
	directory_in(bed, "b");
	write_in(bed, "a/rea.yaml", "one");
	write_in(bed, "b/rea.yaml", "two");
	link_in(bed, "../a", "between/current");
	link_in(bed, "between/current/rea.yaml", "rea.yaml");
	start(bed, "one");
	nothing_for(bed, 120);
	link_in(bed, "../b", "between/next");
	rename_in(bed, "between/next", "between/current");
	assert_string_equal(next(bed), "two");
	bed_free(bed);
}

static void gone_and_back(void **state)
{
	struct bed *bed = bed_new();

	(void)state;
	write_path(bed->path, "one");
	start(bed, "one");
	nothing_for(bed, 120);
	assert_int_equal(unlink(bed->path), 0);
	next(bed);
	assert_string_equal(bed->error, "cannot be read: No such file or directory");
	assert_string_equal(bed->content, "");
	/* Told once. */
	nothing_for(bed, 2100);
	write_path(bed->path, "one");
	assert_string_equal(next(bed), "one");
	bed_free(bed);
}

static void looking_at_once(void **state)
{
	struct bed *bed = bed_new();

	(void)state;
	write_path(bed->path, "one");
	start(bed, "one");
	watch_look(bed->watch, false);
	assert_int_equal(bed->calls, 0);
	watch_look(bed->watch, true);
	assert_int_equal(bed->calls, 1);
	assert_string_equal(bed->content, "one");
	write_path(bed->path, "two");
	watch_look(bed->watch, false);
	assert_int_equal(bed->calls, 2);
	assert_int_equal(unlink(bed->path), 0);
	watch_look(bed->watch, true);
	assert_int_equal(bed->calls, 3);
	assert_string_equal(bed->error, "cannot be read: No such file or directory");
	bed_free(bed);
}

/* A named pipe would block whoever opens it. */
static void no_regular_file(void **state)
{
	struct bed *bed = bed_new();

	(void)state;
	assert_int_equal(mkfifo(bed->path, 0600), 0);
	start(bed, "one");
	next(bed);
	assert_string_equal(bed->error, "cannot be read: Invalid argument");
	bed_free(bed);
}

static void stopped_in_its_callback(void **state)
{
	struct bed *bed = bed_new();

	(void)state;
	write_path(bed->path, "one");
	start(bed, "");
	bed->stop_watch = true;
	assert_string_equal(next(bed), "one");
	write_path(bed->path, "two");
	nothing_for(bed, 150);
	bed_free(bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(written_in_place),
	    cmocka_unit_test(changed_between_load_and_watch),
	    cmocka_unit_test(renamed_over),
	    cmocka_unit_test(a_config_map_swings),
	    cmocka_unit_test(a_swing_that_no_event_tells),
	    cmocka_unit_test(gone_and_back),
	    cmocka_unit_test(looking_at_once),
	    cmocka_unit_test(no_regular_file),
	    cmocka_unit_test(stopped_in_its_callback),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
