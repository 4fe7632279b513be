#include "event/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_lengths(void **state)
{
	static const struct {
		const char *text;
		size_t expected;
	} cases[] = {
	    {"a", 1},
	    {"\x7f", 1},
	    {"\xc2\x80", 2},
	    {"\xdf\xbf", 2},
	    {"\xe0\xa0\x80", 3},
	    {"\xed\x9f\xbf", 3},
	    {"\xee\x80\x80", 3},
	    {"\xef\xbf\xbf", 3},
	    {"\xf0\x90\x80\x80", 4},
	    {"\xf4\x8f\xbf\xbf", 4},
	    {"", 0},
	    {"\x80", 0},
	    {"\xbf", 0},
	    {"\xc0\x80", 0},
	    {"\xc1\xbf", 0},
	    {"\xc2", 0},
	    {"\xc2 ", 0},
	    {"\xe0\x9f\xbf", 0},
	    {"\xed\xa0\x80", 0},
	    {"\xe2\x82", 0},
	    {"\xe2\x82 ", 0},
	    {"\xf0\x8f\xbf\xbf", 0},
	    {"\xf4\x90\x80\x80", 0},
	    {"\xf5\x80\x80\x80", 0},
	    {"\xf0\x9f\x98", 0},
	    {"\xff", 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(rea__utf8_length(cases[i].text, strlen(cases[i].text)), cases[i].expected);
	assert_int_equal(rea__utf8_length("\0", 1), 1);
}

/* Every code point encodes to a well-formed character, the surrogates to none. */
static void test_all_code_points(void **state)
{
	(void)state;
	for (uint32_t c = 0x80; c <= 0x110000; c++) {
		unsigned char text[4];
		size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

		for (size_t i = n - 1; i > 0; i--)
			text[i] = (unsigned char)(0x80 | (c >> (6 * (n - 1 - i)) & 0x3f));
		text[0] = (unsigned char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | c >> (6 * (n - 1)));
		assert_int_equal(rea__utf8_length((char *)text, n), (c >= 0xd800 && c < 0xe000) || c > 0x10ffff ? 0 : n);
		assert_int_equal(rea__utf8_length((char *)text, n - 1), 0);
	}
}

static void test_controls(void **state)
{
	(void)state;
	assert_true(rea__utf8_is_control("\x1b", 1));
	assert_true(rea__utf8_is_control("\0", 1));
	assert_true(rea__utf8_is_control("\x7f", 1));
	assert_true(rea__utf8_is_control("\xc2\x9b", 2)); /* CSI */
	assert_false(rea__utf8_is_control("\xc2\xa0", 2));
	assert_false(rea__utf8_is_control(" ", 1));
	assert_false(rea__utf8_is_control("\xc3\x9f", 2));
}

static void test_cut(void **state)
{
	(void)state;
	assert_int_equal(rea__utf8_cut("abcdef", 6, 6), 6);
	assert_int_equal(rea__utf8_cut("abcdef", 6, 5), 5);
	assert_int_equal(rea__utf8_cut("abc\xc3\xa4z", 6, 4), 3);
	assert_int_equal(rea__utf8_cut("abc\xc3\xa4z", 6, 5), 5);
	assert_int_equal(rea__utf8_cut("\xf0\x9f\x98\x80z", 5, 3), 0);
	/* No UTF-8 at all: never more than three bytes are given up. */
	assert_int_equal(rea__utf8_cut("\x80\x80\x80\x80\x80\x80\x80\x80", 8, 7), 4);
	assert_int_equal(rea__utf8_cut(NULL, 0, 5), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_lengths),
	    cmocka_unit_test(test_all_code_points),
	    cmocka_unit_test(test_controls),
	    cmocka_unit_test(test_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
