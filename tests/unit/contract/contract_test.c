/* Operations: what is refused, what matches, and what is known to nobody. */
#include <rea/contract.h>
#include <rea/random.h>

#include "../fail_alloc.h"
#include "naive.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

struct spec {
	const char *method;
	const char *path;
};

static int add(
    struct rea_contract *contract, const char *key, const char *method, const char *path, struct rea_error_info *info)
{
	const struct rea_operation operation = {.key = key,
	    .http_method = method,
	    .path = path,
	    .grant = {REA_PERMISSION_IDEMPOTENT, REA_PERMISSION_SOURCE_CONFIG},
	    .line = 7};

	return rea_contract_add(contract, &operation, info);
}

static int combine(struct rea_contract *contract, const char *key, const char *method, const char *path,
    enum rea_permission permission, struct rea_error_info *info)
{
	const struct rea_operation operation = {.key = key,
	    .http_method = method,
	    .path = path,
	    .grant = {permission, REA_PERMISSION_SOURCE_OPENAPI},
	    .generate_key = permission == REA_PERMISSION_IDEMPOTENT_WITH_KEY};

	return rea_contract_combine(contract, &operation, info);
}

/* Keys are the specs' numbers. */
static struct rea_contract *contract_of(const struct spec *specs, size_t count)
{
	struct rea_contract *contract;
	struct rea_error_info info;
	char key[16];

	assert_int_equal(rea_contract_new(NULL, &contract), 0);
	for (size_t i = 0; i < count; i++) {
		snprintf(key, sizeof(key), "%zu", i);
		if (add(contract, key, specs[i].method, specs[i].path, &info) != 0)
			fail_msg("%s %s: %s", specs[i].method, specs[i].path, info.message);
	}
	assert_int_equal(rea_contract_finish(contract), 0);
	return contract;
}

/* The index of the operation, -1 = none. */
static int match(const struct rea_contract *contract, const char *method, const char *path)
{
	const struct rea_operation *operation = rea_contract_match(contract, method, strlen(method), path, strlen(path));

	return operation ? (int)operation->index : -1;
}

static void operations_are_copied(void **state)
{
	char key[] = "api_get", method[] = "GET", path[] = "/a/{b}";
	const struct rea_operation given = {.key = key,
	    .http_method = method,
	    .path = path,
	    .grant = {REA_PERMISSION_IDEMPOTENT_WITH_KEY, REA_PERMISSION_SOURCE_OPENAPI},
	    .generate_key = true,
	    .index = 99,
	    .line = 3};
	const struct rea_operation *operation;
	struct rea_contract *contract;

	(void)state;
	assert_int_equal(rea_contract_new(NULL, &contract), 0);
	assert_int_equal(rea_contract_add(contract, &given, NULL), 0);
	assert_int_equal(add(contract, "other", "GET", "/", NULL), 0);
	memset(key, 'x', sizeof(key) - 1);
	memset(method, 'x', sizeof(method) - 1);
	memset(path, 'x', sizeof(path) - 1);
	assert_int_equal(rea_contract_finish(contract), 0);
	assert_int_equal(rea_contract_count(contract), 2);
	operation = rea_contract_find_key(contract, "api_get", 7);
	assert_ptr_equal(operation, rea_contract_operation(contract, 0));
	assert_string_equal(operation->key, "api_get");
	assert_string_equal(operation->http_method, "GET");
	assert_string_equal(operation->path, "/a/{b}");
	assert_int_equal(operation->grant.permission, REA_PERMISSION_IDEMPOTENT_WITH_KEY);
	assert_int_equal(operation->grant.source, REA_PERMISSION_SOURCE_OPENAPI);
	assert_true(operation->generate_key);
	assert_int_equal(operation->index, 0);
	assert_int_equal(operation->line, 3);
	assert_null(rea_contract_find_key(contract, "api_ge", 6));
	assert_null(rea_contract_find_key(contract, "", 0));
	assert_ptr_equal(rea_contract_match(contract, "GET", 3, "/a/1", 4), operation);
	rea_contract_free(contract);
	rea_contract_free(NULL);
}

static void literals_beat_parameters_from_the_left(void **state)
{
	static const struct spec specs[] = {
	    {"GET", "/"},             /* 0 */
	    {"GET", "/users/{id}"},   /* 1 */
	    {"GET", "/users/me"},     /* 2 */
	    {"POST", "/users/{id}"},  /* 3 */
	    {"GET", "/{a}/me"},       /* 4 */
	    {"GET", "/{a}/{b}/x"},    /* 5 */
	    {"GET", "/users/{b}/y"},  /* 6 */
	    {"GET", "/users/me/{c}"}, /* 7 */
	    {"GET", "/{a}"},          /* 8 */
	    {"GET", "/a%20b/c"},      /* 9 */
	    {"GET", "/%7Bid%7D"},     /* 10 */
	};
	static const struct {
		const char *method, *path;
		int index;
	} cases[] = {
	    {"GET", "/", 0},
	    {"GET", "/?", 0},
	    {"GET", "/users/42", 1},
	    {"GET", "/users/me", 2},
	    {"GET", "/users/me?id=/../%", 2},
	    {"GET", "/users/mee", 1},
	    {"GET", "/users/m", 1},
	    {"POST", "/users/me", 3},
	    {"GET", "/pay/me", 4},
	    {"GET", "/pay/you", -1},
	    {"GET", "/users/me/x", 7},
	    {"GET", "/users/me/y", 7},
	    {"GET", "/users/you/y", 6},
	    {"GET", "/users/you/x", 5}, /* back from /users/{b} to /{a} */
	    {"GET", "/users/you/z", -1},
	    {"GET", "/users", 8},
	    {"GET", "/USERS", 8},
	    {"GET", "/a%20b/c", 9},
	    {"GET", "/%61%20%62/%63", 9},
	    {"GET", "/%75sers/%6de", 2},
	    {"GET", "/users%3fx", 8},
	    {"GET", "/{id}", 10},
	    {"GET", "/%7bid%7D", 10},
	    {"get", "/users/me", -1},
	    {"GE", "/users/me", -1},
	    {"GETT", "/users/me", -1},
	    {"DELETE", "/users/me", -1},
	    {"", "/users/me", -1},
	};
	struct rea_contract *contract = contract_of(specs, sizeof(specs) / sizeof(specs[0]));

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (match(contract, cases[i].method, cases[i].path) != cases[i].index)
			fail_msg("%s %s is %d", cases[i].method, cases[i].path,
			    match(contract, cases[i].method, cases[i].path));
	rea_contract_free(contract);
}

/* What servers read in different ways, no template matches, however wide it is. */
static void doubtful_paths_match_nothing(void **state)
{
	static const struct spec specs[] = {{"GET", "/{a}"}, {"GET", "/{a}/{b}"}, {"GET", "/{a}/{b}/{c}"}, {"GET", "/"}};
	static const char *const paths[] = {"", "a", "*", "?", "a/b", "http://h/a", "//", "/a/", "/a//b", "//a", "/.",
	    "/..", "/a/.", "/a/..", "/a/../b", "/./a", "/%2e", "/%2E%2e", "/.%2e/a", "/a/%2e./b", "/a\\b", "/a%5cb",
	    "/a%2fb", "/a%2Fb", "/%", "/%4", "/%4g", "/%g4", "/a%", "/a;b", "/a;v=1/b", "/a#b", "/a b", "/a\tb",
	    "/a\x7f", "/a%00", "/a%0ab", "/a%7f"};
	static const char *const good[] = {"/...", "/.a", "/a.", "/..a/b", "/a%3bb", "/a%23", "/a%3f", "/a%20b",
	    "/%2e%2e%2e", "/a:b@c!$&'()*+,=~", "/\xc3\xa4", "/%c3%a4", "/a%25", "/a%252e"};
	struct rea_contract *contract = contract_of(specs, sizeof(specs) / sizeof(specs[0]));

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (match(contract, "GET", paths[i]) != -1)
			fail_msg("%s matches", paths[i]);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (match(contract, "GET", good[i]) == -1)
			fail_msg("%s does not match", good[i]);
	/* Bytes beyond the given length are not read. */
	assert_null(rea_contract_match(contract, "GET", 3, "/a%41", 4));
	assert_null(rea_contract_match(contract, "GET", 3, "/", 0));
	rea_contract_free(contract);
}

static void refused(void **state)
{
	static const struct {
		const char *key, *method, *path, *message;
	} cases[] = {
	    {"b", "GET", "a", "the path \"a\" does not begin with \"/\""},
	    {"b", "GET", "", "the path \"\" does not begin with \"/\""},
	    {"b", "GET", "/a//b", "the path \"/a//b\" has an empty segment"},
	    {"b", "GET", "/a/", "the path \"/a/\" has an empty segment"},
	    {"b", "GET", "/a/.", "the path \"/a/.\" has a dot segment"},
	    {"b", "GET", "/%2e%2E/a", "the path \"/%2e%2E/a\" has a dot segment"},
	    {"b", "GET", "/a%2fb", "the path \"/a%2fb\" has a character that does not belong in a path"},
	    {"b", "GET", "/a b", "the path \"/a b\" has a character that does not belong in a path"},
	    {"b", "GET", "/a;b", "the path \"/a;b\" has a character that does not belong in a path"},
	    {"b", "GET", "/a%", "the path \"/a%\" has a \"%\" without two hex digits"},
	    {"b", "GET", "/a?b", "the path \"/a?b\" has a query, which is no part of a template"},
	    {"b", "GET", "/{}", "the path \"/{}\" has a parameter without a name"},
	    {"b", "GET", "/{a", "the path \"/{a\" has a \"{\" that is not closed in its segment"},
	    {"b", "GET", "/{a/b}", "the path \"/{a/b}\" has a \"{\" that is not closed in its segment"},
	    {"b", "GET", "/a}", "the path \"/a}\" has a parameter that is not a whole segment"},
	    {"b", "GET", "/{a}b", "the path \"/{a}b\" has a parameter that is not a whole segment"},
	    {"b", "GET", "/b{a}", "the path \"/b{a}\" has a parameter that is not a whole segment"},
	    {"b", "GET",
		"/{a}{b}", "the path \"/{a}{b}\" has a parameter whose name is not made of letters, digits, \"_\", \"-\" and \".\""},
	    {"b", "GET", "/{*a}",
		"the path \"/{*a}\" has a parameter whose name is not made of letters, digits, \"_\", \"-\" and \".\""},
	    {"b", "GET",
		"/{a%41}", "the path \"/{a%41}\" has a parameter whose name is not made of letters, digits, \"_\", \"-\" and \".\""},
	    {"b", "", "/b", "\"\" is no HTTP method"},
	    {"b", "G T", "/b", "\"G T\" is no HTTP method"},
	    {"b", "GET\xc3\xa4", "/b", "\"GET\xc3\xa4\" is no HTTP method"},
	    {"", "GET", "/b", "the method key is empty"},
	    {"a", "GET", "/b", "the method key \"a\" is used twice: for GET /a/{x} and for GET /b"},
	    {"b", "GET", "/a/{y}", "GET /a/{y} takes the same requests as /a/{x}, which has the key \"a\""},
	    {"b", "GET", "/%61/{y}", "GET /%61/{y} takes the same requests as /a/{x}, which has the key \"a\""},
	};
	struct rea_contract *contract;
	struct rea_error_info info;

	(void)state;
	assert_int_equal(rea_contract_new(NULL, &contract), 0);
	assert_int_equal(add(contract, "a", "GET", "/a/{x}", NULL), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(add(contract, cases[i].key, cases[i].method, cases[i].path, &info), REA_ERR_INVALID);
		assert_string_equal(info.message, cases[i].message);
		assert_int_equal(info.line, 7);
		assert_int_equal(add(contract, cases[i].key, cases[i].method, cases[i].path, NULL), REA_ERR_INVALID);
	}
	assert_int_equal(rea_contract_count(contract), 1);
	/* What was refused left nothing behind. */
	assert_int_equal(add(contract, "b", "GET", "/b", NULL), 0);
	assert_int_equal(add(contract, "c", "POST", "/a/{y}", NULL), 0);
	rea_contract_free(contract);
}

static void limits(void **state)
{
	char path[REA_CONTRACT_PATH_MAX + 2], segments[2 * REA_CONTRACT_SEGMENTS_MAX + 3];
	struct rea_contract *contract;
	struct rea_error_info info;

	(void)state;
	assert_int_equal(rea_contract_new(NULL, &contract), 0);
	memset(path, 'a', sizeof(path));
	path[0] = '/';
	path[REA_CONTRACT_PATH_MAX + 1] = '\0';
	assert_int_equal(add(contract, "a", "GET", path, &info), REA_ERR_LIMIT);
	assert_string_equal(info.message, "a path template is longer than 4096 bytes");
	path[REA_CONTRACT_PATH_MAX] = '\0';
	assert_int_equal(add(contract, "a", "GET", path, &info), 0);
	for (size_t i = 0; i <= REA_CONTRACT_SEGMENTS_MAX; i++)
		memcpy(segments + 2 * i, "/a", 3);
	assert_int_equal(add(contract, "b", "GET", segments, &info), REA_ERR_LIMIT);
	assert_non_null(strstr(info.message, "has more than 64 segments"));
	segments[2 * REA_CONTRACT_SEGMENTS_MAX] = '\0';
	assert_int_equal(add(contract, "b", "GET", segments, &info), 0);
	assert_int_equal(rea_contract_finish(contract), 0);
	assert_int_equal(match(contract, "GET", path), 0);
	assert_int_equal(match(contract, "GET", segments), 1);
	memcpy(segments + 2 * REA_CONTRACT_SEGMENTS_MAX, "/a", 3);
	assert_int_equal(match(contract, "GET", segments), -1);
	rea_contract_free(contract);
}

static void nothing_declared(void **state)
{
	struct rea_contract *contract = contract_of(NULL, 0);

	(void)state;
	assert_int_equal(rea_contract_count(contract), 0);
	assert_int_equal(match(contract, "GET", "/"), -1);
	assert_int_equal(match(contract, "GET", "/a/b"), -1);
	assert_null(rea_contract_find_key(contract, "a", 1));
	rea_contract_free(contract);
}

/* A failed add changes nothing: it can be made again, and what was there is still found. */
static void out_of_memory(void **state)
{
	static const struct spec specs[] = {{"GET", "/a/{b}/c"}, {"GET", "/a/x"}, {"POST", "/a/x"},
	    {"GET", "/{z}/d/e/f/g/h/i/j/k/l/m/n/o/p"}, {"GET", "/q/r/s/t/u/v/w"}};

	(void)state;
	for (size_t n = 0;; n++) {
		struct rea_contract *contract = NULL;
		struct fail_alloc failing;
		size_t failures = 0;
		char key[16];

		fail_alloc_init(&failing, n, false);
		if (rea_contract_new(&failing.alloc, &contract) != 0) {
			assert_null(contract);
			assert_int_equal(failing.live, 0);
			continue;
		}
		for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
			snprintf(key, sizeof(key), "%zu", i);
			while (add(contract, key, specs[i].method, specs[i].path, NULL) == REA_ERR_NOMEM) {
				failures++;
				assert_int_equal(rea_contract_count(contract), i);
			}
		}
		while (combine(contract, "0", specs[0].method, specs[0].path, REA_PERMISSION_FORBID, NULL) == REA_ERR_NOMEM)
			failures++;
		while (combine(contract, "5", "PUT", "/z", REA_PERMISSION_SAFE, NULL) == REA_ERR_NOMEM)
			failures++;
		assert_int_equal(failures, failing.failed);
		assert_int_equal(rea_contract_count(contract), 6);
		assert_int_equal(rea_contract_finish(contract), 0);
		assert_int_equal(rea_contract_operation(contract, 0)->grant.permission, REA_PERMISSION_FORBID);
		assert_int_equal(match(contract, "PUT", "/z"), 5);
		assert_int_equal(match(contract, "GET", "/a/1/c"), 0);
		assert_int_equal(match(contract, "GET", "/a/x"), 1);
		assert_int_equal(match(contract, "POST", "/a/x"), 2);
		assert_int_equal(match(contract, "GET", "/q/r/s/t/u/v/w"), 4);
		rea_contract_free(contract);
		assert_int_equal(failing.live, 0);
		if (failing.failed == 0)
			break;
	}
}

/* Another document of the same contract: the more restrictive word holds, with its source; what fits neither key nor shape is refused. */
static void documents_are_combined(void **state)
{
	struct rea_contract *contract;
	struct rea_error_info info;
	const struct rea_operation *operation;

	(void)state;
	assert_int_equal(rea_contract_new(NULL, &contract), 0);
	assert_int_equal(combine(contract, "pay", "POST", "/pay/{id}", REA_PERMISSION_IDEMPOTENT, &info), 0);
	assert_int_equal(combine(contract, "pay", "POST", "/pay/{order}", REA_PERMISSION_IDEMPOTENT_WITH_KEY, &info), 0);
	assert_int_equal(combine(contract, "pay", "POST", "/pay/{id}", REA_PERMISSION_SAFE, &info), 0);
	assert_int_equal(rea_contract_count(contract), 1);
	operation = rea_contract_operation(contract, 0);
	assert_int_equal(operation->grant.permission, REA_PERMISSION_IDEMPOTENT_WITH_KEY);
	assert_true(operation->generate_key);
	assert_string_equal(operation->path, "/pay/{id}");
	assert_int_equal(combine(contract, "pay", "POST", "/pay/{id}", REA_PERMISSION_FORBID, &info), 0);
	assert_false(operation->generate_key);
	assert_int_equal(combine(contract, "pay", "PUT", "/pay/{id}", REA_PERMISSION_SAFE, &info), REA_ERR_INVALID);
	assert_string_equal(
	    info.message, "the method key \"pay\" is used twice: for POST /pay/{id} and for PUT /pay/{id}");
	assert_int_equal(combine(contract, "buy", "POST", "/pay/{x}", REA_PERMISSION_SAFE, &info), REA_ERR_INVALID);
	assert_string_equal(
	    info.message, "POST /pay/{x} takes the same requests as /pay/{id}, which has the key \"pay\"");
	assert_int_equal(rea_contract_count(contract), 1);
	rea_contract_free(contract);
}

/* A path out of a small alphabet, so that templates and requests meet often. */
static void random_path(struct rea_random *random, bool template_text, char *path)
{
	static const char *const words[] = {"a", "b", "aa", "%61", "me", "{x}", "{y}", "%62"}, *const odd[] = {"..",
												   "%2e", "a%2fb", "",
												   "%4", "a;b"};
	size_t segments = rea_random_below(random, 5), at = 0;

	path[at++] = '/';
	for (size_t i = 0; i < segments; i++) {
		const char *word = words[rea_random_below(random, template_text ? 8 : 5)];

		if (!template_text && rea_random_below(random, 40) == 0)
			word = odd[rea_random_below(random, 6)];
		at += (size_t)sprintf(path + at, "%s%s", i > 0 ? "/" : "", word);
	}
	path[at] = '\0';
}

static void agrees_with_the_naive_matcher(void **state)
{
	static const char *const methods[] = {"GET", "POST"};
	struct rea_random random;
	size_t matches = 0;
	char path[128], key[24];

	(void)state;
	rea_random_init(&random, 1);
	for (int round = 0; round < 300; round++) {
		struct rea_contract *contract;

		assert_int_equal(rea_contract_new(NULL, &contract), 0);
		for (size_t i = rea_random_below(&random, 40); i > 0; i--) {
			random_path(&random, true, path);
			snprintf(key, sizeof(key), "%zu", i);
			add(contract, key, methods[rea_random_below(&random, 2)], path, NULL);
		}
		assert_int_equal(rea_contract_finish(contract), 0);
		for (int i = 0; i < 100; i++) {
			const char *method = methods[rea_random_below(&random, 2)];
			const struct rea_operation *found, *expected;

			random_path(&random, false, path);
			found = rea_contract_match(contract, method, strlen(method), path, strlen(path));
			expected = naive_match(contract, method, strlen(method), path, strlen(path));
			if (found != expected)
				fail_msg("%s %s: %s, not %s", method, path, found ? found->path : "-",
				    expected ? expected->path : "-");
			matches += found != NULL;
		}
		rea_contract_free(contract);
	}
	assert_true(matches > 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(operations_are_copied),
	    cmocka_unit_test(documents_are_combined),
	    cmocka_unit_test(literals_beat_parameters_from_the_left),
	    cmocka_unit_test(doubtful_paths_match_nothing),
	    cmocka_unit_test(refused),
	    cmocka_unit_test(limits),
	    cmocka_unit_test(nothing_declared),
	    cmocka_unit_test(out_of_memory),
	    cmocka_unit_test(agrees_with_the_naive_matcher),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
