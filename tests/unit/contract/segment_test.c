#include "contract/segment.h"

#include <rea/contract.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void cutting(void **state)
{
	static const char path[] = "/users/a%20%62/c?d/e";
	struct rea__segment segments[REA_CONTRACT_SEGMENTS_MAX];
	char decoded[16];
	size_t count;

	(void)state;
	assert_int_equal(rea__path_split(path, sizeof(path) - 1, segments, &count), REA__PATH_OK);
	assert_int_equal(count, 3);
	assert_ptr_equal(segments[0].text, path + 1);
	assert_int_equal(segments[0].length, 5);
	assert_false(segments[0].escaped);
	assert_ptr_equal(segments[1].text, path + 7);
	assert_int_equal(segments[1].length, 7);
	assert_true(segments[1].escaped);
	assert_int_equal(rea__segment_decode(&segments[1], decoded), 3);
	assert_memory_equal(decoded, "a b", 3);
	assert_true(rea__segment_equal(&segments[1], "a b", 3));
	assert_false(rea__segment_equal(&segments[1], "a b", 2));
	assert_false(rea__segment_equal(&segments[1], "a bc", 4));
	assert_false(rea__segment_equal(&segments[1], "a c", 3));
	assert_true(rea__segment_equal(&segments[0], "users", 5));
	assert_false(rea__segment_equal(&segments[0], "user", 4));
	assert_int_equal(segments[2].length, 1);
}

/* The hash is that of the decoded text. */
static void hashes(void **state)
{
	struct rea__segment segments[REA_CONTRACT_SEGMENTS_MAX];
	size_t count;

	(void)state;
	assert_int_equal(rea__path_split("/pay/%70%61y/paz", 16, segments, &count), REA__PATH_OK);
	assert_true(segments[0].hash == segments[1].hash);
	assert_true(segments[0].hash != segments[2].hash);
}

static void faults(void **state)
{
	static const struct {
		const char *path;
		enum rea__path fault;
	} cases[] = {{"/", REA__PATH_OK}, {"/?a", REA__PATH_OK}, {"", REA__PATH_NOT_ROOTED}, {"a/b", REA__PATH_NOT_ROOTED},
	    {"/a/", REA__PATH_EMPTY_SEGMENT}, {"//", REA__PATH_EMPTY_SEGMENT}, {"/a/%2e", REA__PATH_DOT_SEGMENT},
	    {"/a\\b", REA__PATH_BAD_CHARACTER}, {"/a%2f", REA__PATH_BAD_CHARACTER}, {"/a%zz", REA__PATH_BAD_ESCAPE}};
	struct rea__segment segments[REA_CONTRACT_SEGMENTS_MAX];
	size_t count;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		count = 9;
		assert_int_equal(rea__path_split(cases[i].path, strlen(cases[i].path), segments, &count), cases[i].fault);
		assert_int_equal(count, 0);
	}
}

static void tokens(void **state)
{
	(void)state;
	assert_true(rea__is_token("x-biz-id", 8));
	assert_true(rea__is_token("!#$%&'*+-.^_`|~09azAZ", 21));
	assert_false(rea__is_token("", 0));
	assert_false(rea__is_token("a b", 3));
	assert_false(rea__is_token("a\0b", 3));
	assert_false(rea__is_token("a:", 2));
	assert_false(rea__is_token("\x7f", 1));
	assert_false(rea__is_token("\xe4", 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(cutting), cmocka_unit_test(hashes), cmocka_unit_test(faults), cmocka_unit_test(tokens)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
