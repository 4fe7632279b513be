#include "base/slice.h"

#include <rea/error.h>
#include <rea/time.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void comparison(void **state)
{
	(void)state;
	assert_true(rea_slice_equal(rea_slice_of("abc"), REA_SLICE_LIT("abc")));
	assert_false(rea_slice_equal(rea_slice_of("abc"), REA_SLICE_LIT("abC")));
	assert_false(rea_slice_equal(rea_slice_of("ab"), REA_SLICE_LIT("abc")));
	assert_true(rea_slice_equal(rea_slice_of(NULL), rea_slice_of("")));
	assert_true(rea_slice_equal_nocase(rea_slice_of("Retry-AFTER"), REA_SLICE_LIT("retry-after")));
	/* '@' and '`', '[' and '{' differ by the same bit as letters do. */
	assert_false(rea_slice_equal_nocase(rea_slice_of("@["), REA_SLICE_LIT("`{")));
}

static void decimal(void **state)
{
	uint64_t value = 77;

	(void)state;
	assert_true(rea_slice_to_u64(rea_slice_of("0"), &value) && value == 0);
	assert_true(rea_slice_to_u64(rea_slice_of("007"), &value) && value == 7);
	assert_true(rea_slice_to_u64(rea_slice_of("18446744073709551615"), &value) && value == UINT64_MAX);
	value = 77;
	assert_false(rea_slice_to_u64(rea_slice_of("18446744073709551616"), &value));
	assert_false(rea_slice_to_u64(rea_slice_of(""), &value));
	assert_false(rea_slice_to_u64(rea_slice_of("+1"), &value));
	assert_false(rea_slice_to_u64(rea_slice_of("1 "), &value));
	assert_true(value == 77);
}

static void times_saturate(void **state)
{
	(void)state;
	assert_true(rea_time_add(REA_NEVER - 1, 1) == REA_NEVER);
	assert_true(rea_time_add(REA_NEVER, REA_NEVER) == REA_NEVER);
	assert_true(rea_time_sub(5, 7) == 0);
	assert_true(rea_time_sub(REA_NEVER, 7) == REA_NEVER);
	assert_true(rea_time_mul(REA_NEVER / 2 + 1, 2) == REA_NEVER);
	assert_true(rea_time_mul(REA_NEVER, 0) == 0);
	assert_true(rea_time_to_ms(1) == 1);
	assert_true(rea_time_to_ms(REA_NS_PER_MS) == 1);
	assert_true(rea_time_to_ms(REA_NS_PER_MS + 1) == 2);
	assert_true(rea_time_from_ms(UINT64_MAX) == REA_NEVER);
}

static void errors_have_names_and_english(void **state)
{
	(void)state;
	assert_string_equal(rea_error_name(REA_ERR_NOMEM), "nomem");
	assert_string_equal(rea_error_text(REA_ERR_FULL), "a bounded buffer is full");
	assert_string_equal(rea_error_name(0), "ok");
	assert_string_equal(rea_error_name(1), "unknown");
	assert_string_equal(rea_error_name(-1000), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(comparison),
	    cmocka_unit_test(decimal),
	    cmocka_unit_test(times_saturate),
	    cmocka_unit_test(errors_have_names_and_english),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
