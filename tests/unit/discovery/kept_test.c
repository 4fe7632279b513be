/* Snapshots on disk: whole or not at all, for us alone, with an age. */
#include "discovery/kept.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[] = "/tmp/rea-kept-XXXXXX";

static const char *const servers[] = {"http://a:1", "http://b:1"};
static const struct rea_config_source source = {.kind = REA_SOURCE_NACOS,
    .name = "d",
    .servers = servers,
    .servers_len = 2,
    .group = "g",
    .namespace_id = "n",
    .context_path = "/nacos"};

static void files_differ_as_sources_do(void **state)
{
	struct rea_config_source other[] = {source, source, source, source, source, source};
	char *path = kept_path("/x", &source);

	(void)state;
	other[0].kind = REA_SOURCE_ETCD;
	other[1].name = "e";
	other[2].group = "h";
	other[3].namespace_id = "";
	other[4].servers_len = 1;
	/* The same letters, cut elsewhere. */
	other[5].group = "gd";
	other[5].name = "";
	assert_non_null(path);
	assert_memory_equal(path, "/x/nacos-", 9);
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
		char *second = kept_path("/x", &other[i]);

		assert_non_null(second);
		assert_string_not_equal(path, second);
		free(second);
	}
	free(path);
}

static void what_is_written_is_read(void **state)
{
	struct rea_buffer content = {.alloc = NULL};
	char path[128];
	struct stat status;
	uint64_t age_s;

	(void)state;
	snprintf(path, sizeof(path), "%s/made/of/parts.yaml", directory);
	assert_int_equal(kept_read(path, 0, &content, &age_s), ENOENT);
	assert_int_equal(kept_write(path, "one\r\n\0", 6), 0);
	assert_int_equal(kept_write(path, "two", 3), 0);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
	assert_int_equal(kept_read(path, status.st_mtim.tv_sec + 7200, &content, &age_s), 0);
	assert_int_equal(age_s, 7200);
	assert_int_equal(rea_buffer_length(&content), 3);
	assert_memory_equal(rea_buffer_data(&content), "two", 3);
	/* A clock that was set back. */
	rea_buffer_clear(&content);
	assert_int_equal(kept_read(path, status.st_mtim.tv_sec - 10, &content, &age_s), 0);
	assert_int_equal(age_s, 0);
	kept_remove(path);
	assert_int_equal(kept_read(path, 0, &content, &age_s), ENOENT);
	kept_remove(path);
	kept_touch(path);
	rea_buffer_fini(&content);
}

static void a_failure_leaves_what_was_there(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/taken", directory);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(kept_write(path, "x", 1), EISDIR);
	assert_int_equal(kept_write("/dev/null/below", "x", 1), ENOTDIR);
}

static void a_link_is_not_followed(void **state)
{
	struct rea_buffer content = {.alloc = NULL};
	char path[128];
	uint64_t age_s;

	(void)state;
	snprintf(path, sizeof(path), "%s/link", directory);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_int_equal(kept_read(path, 0, &content, &age_s), ELOOP);
	rea_buffer_fini(&content);
}

static int set_up(void **state)
{
	(void)state;
	return mkdtemp(directory) != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(files_differ_as_sources_do),
	    cmocka_unit_test(what_is_written_is_read),
	    cmocka_unit_test(a_failure_leaves_what_was_there),
	    cmocka_unit_test(a_link_is_not_followed),
	};

	return cmocka_run_group_tests_name("kept", tests, set_up, tear_down);
}
