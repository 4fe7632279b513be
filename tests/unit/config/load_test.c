/* From a file. */
#include "../fail_alloc.h"
#include "everything.h"
#include "refusal.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[] = "/tmp/rea-load-XXXXXX";
static char path[64];

static void write_file(const char *text, size_t length)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, length, file), length);
	fclose(file);
}

static void a_file(void **state)
{
	struct rea_config *config = NULL;
	struct rea_error_info info;

	(void)state;
	write_file(everything, sizeof(everything) - 1);
	assert_int_equal(rea_config_load(path, NULL, &config, &info), 0);
	assert_int_equal(rea_config_services_count(config), 2);
	rea_config_unref(config);
}

static void its_name_stands_in_refusals(void **state)
{
	struct rea_config *config = NULL;
	struct rea_error_info info;

	(void)state;
	write_file("threads: 0\n", 11);
	assert_int_equal(rea_config_load(path, NULL, &config, &info), REA_ERR_INVALID);
	assert_string_equal(info.file, path);
	assert_int_equal(info.column, 10);
	assert_null(config);
}

static void unreadable(void **state)
{
	struct rea_config *config = NULL;
	struct rea_error_info info;

	(void)state;
	assert_int_equal(rea_config_load("/nonexistent/rea.yaml", NULL, &config, &info), REA_ERR_IO);
	assert_string_equal(info.file, "/nonexistent/rea.yaml");
	assert_string_equal(info.message, "cannot be read: No such file or directory");
	assert_int_equal(rea_config_load(directory, NULL, &config, &info), REA_ERR_IO);
	assert_string_equal(info.message, "cannot be read: Is a directory");
	assert_int_equal(rea_config_load("/nonexistent/rea.yaml", NULL, &config, NULL), REA_ERR_IO);
	assert_null(config);
}

/* One byte over the limit is refused, and no more than that is read. */
static void too_large(void **state)
{
	struct rea_config *config = NULL;
	struct rea_error_info info;

	(void)state;
	write_file("", 0);
	assert_int_equal(truncate(path, (off_t)1 << 40), 0);
	assert_int_equal(rea_config_load(path, NULL, &config, &info), REA_ERR_LIMIT);
	assert_string_equal(info.message, "the document is larger than 16 MiB");
	assert_int_equal(truncate(path, 0), 0);
}

static void out_of_memory(void **state)
{
	(void)state;
	write_file(everything, sizeof(everything) - 1);
	for (size_t n = 0;; n++) {
		struct rea_config *config = NULL;
		struct rea_error_info info;
		struct fail_alloc failing;
		int error;

		fail_alloc_init(&failing, n, true);
		error = rea_config_load(path, &failing.alloc, &config, &info);
		if (error == 0)
			rea_config_unref(config);
		assert_int_equal(failing.live, 0);
		if (error == 0)
			break;
		assert_int_equal(error, REA_ERR_NOMEM);
	}
}

static int set_up(void **state)
{
	(void)state;
	if (mkdtemp(directory) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/rea.yaml", directory);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(directory);
}

/* The policy of another file, without memory: nothing changes. */
static void a_policy_out_of_memory(void **state)
{
	static const char policy[] = "rpc: {feign: {retry: {enabled: true, max-retry-next-instance: 3}}}\n";
	struct rea_config *base, *config = NULL;
	struct rea_error_info info;
	size_t failures = 0;

	(void)state;
	assert_int_equal(rea_config_parse("base", everything, sizeof(everything) - 1, NULL, &base, &info), 0);
	write_file(policy, sizeof(policy) - 1);
	for (; config == NULL; failures++) {
		struct fail_alloc failing;
		int error;

		fail_alloc_init(&failing, failures, false);
		error = rea_config_load_policy(base, path, &failing.alloc, &config, &info);
		assert_int_equal(error, config == NULL ? REA_ERR_NOMEM : 0);
		rea_config_unref(config);
		assert_int_equal(failing.live, 0);
	}
	assert_true(failures > 5);
	rea_config_unref(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_file),
	    cmocka_unit_test(its_name_stands_in_refusals),
	    cmocka_unit_test(unreadable),
	    cmocka_unit_test(too_large),
	    cmocka_unit_test(out_of_memory),
	    cmocka_unit_test(a_policy_out_of_memory),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
