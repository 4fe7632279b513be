/* The log on good files, full disks, cut writes, slow pipes and rotation. */
#include "sample.h"

#include "../fail_alloc.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define READ_MAX (4 * 1024 * 1024)

static char directory[] = "rea-log-test-XXXXXX";
static char content[READ_MAX + 1];

static int make_directory(void **state)
{
	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	return mkdtemp(directory) ? chdir(directory) : -1;
}

static int remove_directory(void **state)
{
	(void)state;
	unlink("events");
	unlink("events.1");
	unlink("out");
	return chdir("..") || rmdir(directory);
}

static struct rea_event_log *open_log(const char *path)
{
	struct rea_event_log *log = NULL;

	assert_int_equal(rea_event_log_open(path, NULL, &log, NULL), 0);
	return log;
}

static bool add(struct rea_event_log *log, uint32_t number)
{
	struct rea_event event = sample_event();

	event.attempt = number;
	return rea_event_log_add(log, &event);
}

static size_t read_all(int fd)
{
	size_t length = 0;
	ssize_t n;

	while ((n = read(fd, content + length, READ_MAX - length)) > 0)
		length += (size_t)n;
	content[length] = '\0';
	return length;
}

static size_t read_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t length;

	assert_true(fd >= 0);
	length = read_all(fd);
	close(fd);
	return length;
}

/* The content is whole lines, numbered first, first + 1, …; returns how many. */
static uint32_t assert_whole_lines(uint32_t first)
{
	uint32_t n = 0;

	for (char *line = content, *end; *line; line = end + 1, n++) {
		char expected[REA_EVENT_JSON_MAX];
		struct rea_event event = sample_event();

		end = strchr(line, '\n');
		assert_non_null(end);
		*end = '\0';
		event.attempt = first + n;
		rea_event_json(&event, expected, sizeof(expected));
		assert_string_equal(line, expected);
	}
	return n;
}

static void test_lines(void **state)
{
	struct rea_event_log *log = open_log("events");
	struct stat status;

	(void)state;
	for (uint32_t i = 1; i <= 1000; i++)
		assert_true(add(log, i));
	assert_true(rea_event_log_flush(log));
	assert_true(rea_event_log_flush(log));
	read_file("events");
	assert_int_equal(assert_whole_lines(1), 1000);
	assert_true(add(log, 1001));
	rea_event_log_close(log); /* flushes */
	read_file("events");
	assert_int_equal(assert_whole_lines(1), 1001);
	assert_int_equal(stat("events", &status), 0);
	assert_int_equal(status.st_mode & 0137, 0);
	log = open_log("events"); /* appends */
	assert_true(add(log, 1002));
	rea_event_log_close(log);
	read_file("events");
	assert_int_equal(assert_whole_lines(1), 1002);
	rea_event_log_close(NULL);
	unlink("events");
}

static void test_unwritable_path(void **state)
{
	struct rea_event_log *log = NULL;
	struct rea_error_info info;
	struct fail_alloc failing;

	(void)state;
	assert_int_equal(rea_event_log_open("no/such/directory", NULL, &log, &info), REA_ERR_IO);
	assert_null(log);
	assert_string_equal(info.file, "no/such/directory");
	assert_string_equal(info.message, "cannot open it for appending: No such file or directory");
	assert_int_equal(rea_event_log_open("no/such/directory", NULL, &log, NULL), REA_ERR_IO);
	fail_alloc_init(&failing, 0, true);
	assert_int_equal(rea_event_log_open("events", &failing.alloc, &log, NULL), REA_ERR_NOMEM);
	assert_int_equal(access("events", F_OK), -1);
}

static void test_full_device(void **state)
{
	struct rea_event_log *log = open_log("/dev/full");
	uint64_t taken = 0;

	(void)state;
	for (uint32_t i = 0; i < 2000; i++)
		taken += add(log, i);
	assert_false(rea_event_log_flush(log));
	assert_in_range(taken, 50, 500); /* as many as the buffer holds */
	assert_int_equal(rea_event_log_dropped(log), 2000 - taken);
	rea_event_log_close(log);
}

/* A file that may grow to limit bytes: writes come out short, then fail. */
static void limit_files(rlim_t limit)
{
	struct rlimit rlimit = {limit, RLIM_INFINITY};

	assert_int_equal(setrlimit(RLIMIT_FSIZE, &rlimit), 0);
}

static void test_short_write_is_taken_back_to_whole_lines(void **state)
{
	(void)state;
	for (rlim_t limit = 900; limit < 1500; limit += 7) {
		struct rea_event_log *log = open_log("events");
		uint32_t whole;

		for (uint32_t i = 1; i <= 20; i++)
			assert_true(add(log, i));
		limit_files(limit);
		assert_false(rea_event_log_flush(log));
		read_file("events");
		whole = assert_whole_lines(1);
		assert_in_range(whole, 1, 3);
		/* There is room again: nothing is lost, nothing is there twice. */
		limit_files(RLIM_INFINITY);
		assert_true(rea_event_log_flush(log));
		assert_int_equal(rea_event_log_dropped(log), 0);
		rea_event_log_close(log);
		read_file("events");
		assert_int_equal(assert_whole_lines(1), 20);
		unlink("events");
	}
}

/* Five lines to standard output, into a file that is not open for append and that holds `before` bytes already. The
 * file may grow to 1000 bytes at first. */
static void log_to_standard_output(size_t before)
{
	int saved = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	int out = open("out", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct rea_event_log *log;

	fflush(stdout);
	assert_int_equal(ftruncate(out, (off_t)before), 0);
	assert_true(out >= 0 && dup2(out, STDOUT_FILENO) == STDOUT_FILENO);
	log = open_log("-");
	for (uint32_t i = 1; i <= 5; i++)
		add(log, i);
	limit_files(1000);
	rea_event_log_flush(log);
	limit_files(RLIM_INFINITY);
	rea_event_log_close(log);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	close(out);
}

static void test_standard_output(void **state)
{
	(void)state;
	log_to_standard_output(0);
	read_file("out");
	assert_int_equal(assert_whole_lines(1), 5);
	unlink("out");
}

/* What stands behind our last byte belongs to somebody else: it is not cut away. */
static void test_bytes_behind_ours_stay(void **state)
{
	(void)state;
	log_to_standard_output(100000);
	assert_int_equal(read_file("out"), 100000);
	assert_int_equal(assert_whole_lines(1), 5);
	unlink("out");
}

/* Nobody reads: nothing waits, lines are dropped and counted. Then somebody does: whole lines. */
static void test_slow_pipe(void **state)
{
	int reader;
	struct rea_event_log *log;
	uint32_t taken = 0;

	(void)state;
	assert_int_equal(mkfifo("events", 0600), 0);
	reader = open("events", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	log = open_log("events");
	for (uint32_t i = 1; i <= 5000; i++)
		if (add(log, taken + 1))
			taken++;
	assert_true(taken < 5000);
	assert_int_equal(rea_event_log_dropped(log), 5000 - taken);
	assert_false(rea_event_log_flush(log));
	for (size_t length = 0;;) {
		ssize_t n = read(reader, content + length, READ_MAX - length);

		if (n > 0)
			length += (size_t)n;
		content[length] = '\0';
		if (rea_event_log_flush(log) && n <= 0)
			break;
	}
	assert_int_equal(assert_whole_lines(1), taken);
	/* The reader goes away: an error, not a signal that kills. */
	close(reader);
	assert_true(add(log, 1));
	assert_false(rea_event_log_flush(log));
	rea_event_log_close(log);
	unlink("events");
}

static void test_rotation(void **state)
{
	struct rea_event_log *log = open_log("events");
	struct rea_error_info info;

	(void)state;
	assert_true(add(log, 1));
	assert_int_equal(rename("events", "events.1"), 0);
	assert_true(add(log, 2));
	assert_int_equal(rea_event_log_reopen(log, &info), 0);
	assert_true(add(log, 3));
	/* The path cannot be opened: the old file stays. */
	assert_true(rea_event_log_flush(log));
	unlink("events");
	assert_int_equal(mkdir("events", 0700), 0);
	assert_int_equal(rea_event_log_reopen(log, &info), REA_ERR_IO);
	assert_string_equal(info.message, "cannot open it for appending: Is a directory");
	assert_true(add(log, 4));
	assert_true(rea_event_log_flush(log));
	assert_int_equal(rmdir("events"), 0);
	assert_int_equal(rea_event_log_reopen(log, &info), 0);
	assert_true(add(log, 5));
	rea_event_log_close(log);
	read_file("events.1");
	assert_int_equal(assert_whole_lines(1), 2);
	read_file("events");
	assert_int_equal(assert_whole_lines(5), 1);
	unlink("events");
	unlink("events.1");
}

/* What a pipe took of a line cannot go on in the next file: that line is dropped, the others move. */
static void test_rotation_in_the_middle_of_a_line(void **state)
{
	struct rea_event_log *log;
	uint32_t taken = 0, in_file;
	int reader;

	(void)state;
	assert_int_equal(mkfifo("events", 0600), 0);
	reader = open("events", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	log = open_log("events");
	while (add(log, taken + 1))
		taken++;
	unlink("events");
	assert_int_equal(rea_event_log_reopen(log, NULL), 0);
	assert_int_equal(rea_event_log_dropped(log), 2);
	rea_event_log_close(log);
	read_all(reader);
	close(reader);
	*(strrchr(content, '\n') + 1) = '\0';
	in_file = assert_whole_lines(1);
	read_file("events");
	assert_int_equal(in_file + 1 + assert_whole_lines(in_file + 2), taken);
	unlink("events");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_lines),
	    cmocka_unit_test(test_unwritable_path),
	    cmocka_unit_test(test_full_device),
	    cmocka_unit_test(test_short_write_is_taken_back_to_whole_lines),
	    cmocka_unit_test(test_standard_output),
	    cmocka_unit_test(test_bytes_behind_ours_stay),
	    cmocka_unit_test(test_slow_pipe),
	    cmocka_unit_test(test_rotation),
	    cmocka_unit_test(test_rotation_in_the_middle_of_a_line),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
