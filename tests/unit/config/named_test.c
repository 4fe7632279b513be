/* The documents that a document names, broken or not. */
#include "../fail_alloc.h"
#include "refusal.h"

#include <stdlib.h>
#include <unistd.h>

static char directory[] = "/tmp/rea-named-XXXXXX";

struct told {
	char text[1024]; /* lines */
	size_t count;
};

static void on_file(const struct rea_config_contract_file *file, void *user_data)
{
	struct told *told = user_data;
	size_t used = strlen(told->text);

	told->count++;
	snprintf(told->text + used, sizeof(told->text) - used, "%s %s\n", file->path, file->version);
}

static int tell(const char *name, const char *text, struct told *ret_told)
{
	memset(ret_told, 0, sizeof(*ret_told));
	return rea_config_named_files(name, text, strlen(text), NULL, on_file, ret_told);
}

static void contracts_and_service_configs(void **state)
{
	struct told told;

	(void)state;
	/* Nothing of this would be taken up. */
	assert_int_equal(
	    tell("/etc/rea/rea.yaml",
		"unknown: 1\n"
		"services: {a: {grpc-service-config: a.json}, b: {grpcServiceConfig: /b.json}, c: 3}\n"
		"contracts: {a: {files: [a.yaml, {x: y}, '']}, b: {operations: []}, c: {files: c.yaml}, d: [1]}\n",
		&told),
	    0);
	assert_string_equal(told.text, "/etc/rea/a.yaml \n/etc/rea/c.yaml \n/etc/rea/a.json \n/b.json \n");
}

static void none(void **state)
{
	struct told told;

	(void)state;
	assert_int_equal(tell("rea.yaml", "", &told), 0);
	assert_int_equal(tell("rea.yaml", "[1, 2]\n", &told), 0);
	assert_int_equal(tell("rea.yaml", "contracts: 3\nservices: [x]\n", &told), 0);
	assert_int_equal(told.count, 0);
	assert_int_equal(tell("rea.yaml", "contracts: {", &told), REA_ERR_SYNTAX);
	assert_int_equal(told.count, 0);
}

/* The version is that of rea_config_contract_files, so that whoever watches hears of changes alone. */
static void versions(void **state)
{
	static const char document[] = "services: {a: {instances: []}}\ncontracts: {a: {files: [a.yaml, b.yaml]}}\n";
	char name[64], path[2][64], expected[256];
	struct rea_config *config;
	const struct rea_config_contract_file *files;
	struct told told;
	size_t count;

	(void)state;
	snprintf(name, sizeof(name), "%s/rea.yaml", directory);
	for (int i = 0; i < 2; i++) {
		FILE *file;

		snprintf(path[i], sizeof(path[i]), "%s/%c.yaml", directory, "ab"[i]);
		file = fopen(path[i], "w");
		assert_non_null(file);
		if (i == 0)
			fputs("context: a\noperations: [{get: /a, id: get}]\n", file);
		else
			fputs("context: a\noperations: [{get: /b, id: got}]\n", file);
		fclose(file);
	}
	assert_int_equal(rea_config_parse(name, document, strlen(document), NULL, &config, NULL), 0);
	files = rea_config_contract_files(config, &count);
	assert_int_equal(count, 2);
	snprintf(expected, sizeof(expected), "%s %s\n%s %s\n", files[0].path, files[0].version, files[1].path,
	    files[1].version);
	assert_int_equal(tell(name, document, &told), 0);
	assert_string_equal(told.text, expected);
	rea_config_unref(config);
	for (size_t n = 0;; n++) {
		struct fail_alloc failing;
		int error;

		fail_alloc_init(&failing, n, true);
		error = rea_config_named_files(name, document, strlen(document), &failing.alloc, on_file, &told);
		assert_int_equal(failing.live, 0);
		if (error == 0)
			break;
		assert_int_equal(error, REA_ERR_NOMEM);
		memset(&told, 0, sizeof(told));
	}
	unlink(path[0]);
	unlink(path[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(contracts_and_service_configs),
	    cmocka_unit_test(none),
	    cmocka_unit_test(versions),
	};
	int failed;

	if (mkdtemp(directory) == NULL)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(directory);
	return failed;
}
