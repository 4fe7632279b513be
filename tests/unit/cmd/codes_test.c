/* What exit codes mean, and which lists of them are refused. */
#include "run/codes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct run_codes codes;
static struct rea_error_info info;

static int fresh(void **state)
{
	(void)state;
	run_codes_init(&codes);
	return 0;
}

static int count(enum rea_outcome outcome)
{
	int found = 0;

	for (int code = 0; code < 256; code++)
		found += codes.outcomes[code] == outcome;
	return found;
}

static void the_defaults(void **state)
{
	static const uint8_t permanent[] = {2, 64, 65, 66, 67, 76, 77, 78, 126, 127};

	(void)state;
	for (size_t i = 0; i < sizeof(permanent); i++)
		assert_int_equal(codes.outcomes[permanent[i]], REA_OUTCOME_PERMANENT);
	assert_int_equal(count(REA_OUTCOME_PERMANENT), sizeof(permanent));
	assert_int_equal(codes.outcomes[0], REA_OUTCOME_OK);
	assert_int_equal(count(REA_OUTCOME_OK), 1);
	assert_int_equal(codes.outcomes[69], REA_OUTCOME_UNAVAILABLE);
	assert_int_equal(codes.outcomes[75], REA_OUTCOME_UNAVAILABLE);
	assert_int_equal(count(REA_OUTCOME_UNAVAILABLE), 2);
	assert_int_equal(codes.outcomes[129], REA_OUTCOME_AMBIGUOUS);
	assert_int_equal(count(REA_OUTCOME_AMBIGUOUS), 127);
	assert_int_equal(count(REA_OUTCOME_FAILED), 256 - 1 - 10 - 2 - 127);
}

static void chosen(void **state)
{
	(void)state;
	assert_int_equal(run_codes_retry(&codes, "2,75,100-102,255", &info), 0);
	assert_int_equal(codes.outcomes[2], REA_OUTCOME_FAILED);
	assert_int_equal(codes.outcomes[75], REA_OUTCOME_UNAVAILABLE);
	assert_int_equal(codes.outcomes[102], REA_OUTCOME_FAILED);
	assert_int_equal(codes.outcomes[255], REA_OUTCOME_AMBIGUOUS);
	assert_int_equal(codes.outcomes[0], REA_OUTCOME_OK);
	assert_int_equal(count(REA_OUTCOME_PERMANENT), 255 - 6);
	assert_int_equal(run_codes_permanent(&codes, "102", &info), 0);
	assert_int_equal(count(REA_OUTCOME_PERMANENT), 255 - 5);
	assert_int_equal(run_codes_retry(&codes, "1-125,128-255", &info), 0);
	assert_int_equal(count(REA_OUTCOME_PERMANENT), 2);
}

static void refused(void **state)
{
	static const char *const lists[] = {
	    "", "0", "256", "1,", ",1", "1,,2", "5-3", "1-", "-1", "a", "1 2", "1-2-3", "99999999999999999999", "1;2"};
	struct run_codes before = codes;

	(void)state;
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		assert_int_equal(run_codes_retry(&codes, lists[i], &info), REA_ERR_INVALID);
		assert_non_null(
		    strstr(info.message, "is no list of exit codes; expected numbers and ranges from 1 to 255"));
		assert_int_equal(run_codes_permanent(&codes, lists[i], &info), REA_ERR_INVALID);
	}
	assert_int_equal(run_codes_retry(&codes, "120-126", &info), REA_ERR_INVALID);
	assert_string_equal(info.message, "126 and 127 say that there is nothing to run: they are never retried");
	assert_int_equal(run_codes_retry(&codes, "127", &info), REA_ERR_INVALID);
	assert_memory_equal(&codes, &before, sizeof(codes));
	assert_int_equal(run_codes_permanent(&codes, "126,127", &info), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(the_defaults, fresh),
	    cmocka_unit_test_setup(chosen, fresh),
	    cmocka_unit_test_setup(refused, fresh),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
