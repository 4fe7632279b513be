#include "base/format.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static char text[64];
static struct rea_format format;

static int set_up(void **state)
{
	(void)state;
	rea_format_init(&format, text, sizeof(text));
	return 0;
}

static void assert_text(const char *expected)
{
	assert_string_equal(text, expected);
	assert_int_equal(format.length, strlen(expected));
	rea_format_init(&format, text, sizeof(text));
}

static void numbers_of_every_size(void **state)
{
	(void)state;
	assert_text("");
	rea_format_u64(&format, 0);
	assert_text("0");
	rea_format_u64(&format, UINT64_MAX);
	assert_text("18446744073709551615");
	rea_format_hex(&format, 0);
	assert_text("0");
	rea_format_hex(&format, UINT64_C(0xfedcba9876543210));
	assert_text("fedcba9876543210");
}

static void fixed_point_keeps_its_zeros(void **state)
{
	(void)state;
	rea_format_fixed(&format, 12345, 3);
	assert_text("12.345");
	rea_format_fixed(&format, 5, 3);
	assert_text("0.005");
	rea_format_fixed(&format, 104000, 3);
	assert_text("104.000");
	rea_format_fixed(&format, 7, 0);
	assert_text("7");
	rea_format_fixed(&format, UINT64_MAX, 19);
	assert_text("1.8446744073709551615");
}

static void doubles_read_as_a_person_writes_them(void **state)
{
	static const struct {
		double value;
		const char *expected;
	} rows[] = {
	    {0, "0"},
	    {0.2, "0.2"},
	    {-1, "-1"},
	    {1.5, "1.5"},
	    {0.1 + 0.2, "0.3"},
	    {0.123456789, "0.123456789"},
	    {0.9999999999, "1"},
	    {3600000, "3600000"},
	    {999999999999999, "999999999999999"},
	    {1e15, "1e15"},
	    {2.5e300, "2.5e300"},
	    {DBL_MAX, "1.797693135e308"},
	    {1e-12, "0"},
	    {INFINITY, "inf"},
	    {-INFINITY, "-inf"},
	    {NAN, "nan"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		rea_format_double(&format, rows[i].value);
		assert_text(rows[i].expected);
	}
}

static void text_is_cut_at_the_end_and_its_length_counted(void **state)
{
	char small[6] = "xxxxx";

	(void)state;
	rea_format_init(&format, small, 5);
	rea_format_text(&format, "abc");
	rea_format_text(&format, "defg");
	rea_format_text(&format, "h");
	assert_string_equal(small, "abcd");
	assert_int_equal(small[5], '\0');
	assert_int_equal(format.length, 8);
	rea_format_init(&format, small, 1);
	rea_format_text(&format, "abc");
	assert_string_equal(small, "");
}

static void without_room_the_length_is_counted(void **state)
{
	(void)state;
	rea_format_init(&format, NULL, 0);
	rea_format_text(&format, "abc");
	rea_format_bytes(&format, NULL, 0);
	rea_format_u64(&format, 1234);
	assert_int_equal(format.length, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(numbers_of_every_size, set_up),
	    cmocka_unit_test_setup(fixed_point_keeps_its_zeros, set_up),
	    cmocka_unit_test_setup(doubles_read_as_a_person_writes_them, set_up),
	    cmocka_unit_test_setup(text_is_cut_at_the_end_and_its_length_counted, set_up),
	    cmocka_unit_test_setup(without_room_the_length_is_counted, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
