#include "http/http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const char *const names[] = {NULL,
#define X(id, text) text,
    HTTP_FIELD_MAP(X)
#undef X
};

static void every_known_name_has_its_id_in_any_case(void **state)
{
	(void)state;
	for (unsigned id = 1; id < HTTP_FIELD_COUNT; id++) {
		char upper[64];
		size_t length = strlen(names[id]);

		for (size_t i = 0; i < length; i++)
			upper[i] = (char)(names[id][i] >= 'a' && names[id][i] <= 'z' ? names[id][i] - 32 : names[id][i]);
		assert_int_equal(http_field_id_of(rea_slice_of(names[id])), id);
		assert_int_equal(http_field_id_of(rea_slice_make(upper, length)), id);
	}
}

/* Each byte of each known name replaced, one left out, one more. */
static void near_misses_are_unknown(void **state)
{
	(void)state;
	for (unsigned id = 1; id < HTTP_FIELD_COUNT; id++) {
		char text[64];
		size_t length = strlen(names[id]);

		for (size_t i = 0; i < length; i++) {
			memcpy(text, names[id], length);
			text[i] = '~';
			assert_int_equal(http_field_id_of(rea_slice_make(text, length)), HTTP_FIELD_OTHER);
		}
		memcpy(text, names[id], length);
		text[length] = 's';
		assert_int_equal(http_field_id_of(rea_slice_make(text, length - 1)), HTTP_FIELD_OTHER);
		assert_int_equal(http_field_id_of(rea_slice_make(text, length + 1)), HTTP_FIELD_OTHER);
	}
	assert_int_equal(http_field_id_of(rea_slice_make(NULL, 0)), HTTP_FIELD_OTHER);
}

static void look_ups_give_the_first(void **state)
{
	const struct http_field fields[] = {
	    {.name = REA_SLICE_LIT("X-A"), .value = REA_SLICE_LIT("1")},
	    {.name = REA_SLICE_LIT("Via"), .value = REA_SLICE_LIT("2"), .id = HTTP_FIELD_VIA},
	    {.name = REA_SLICE_LIT("via"), .value = REA_SLICE_LIT("3"), .id = HTTP_FIELD_VIA},
	};

	(void)state;
	assert_ptr_equal(http_field_find(fields, 3, HTTP_FIELD_VIA), &fields[1]);
	assert_null(http_field_find(fields, 3, HTTP_FIELD_DATE));
	assert_ptr_equal(http_field_named(fields, 3, REA_SLICE_LIT("x-a")), &fields[0]);
	assert_ptr_equal(http_field_named(fields, 3, REA_SLICE_LIT("VIA")), &fields[1]);
	assert_null(http_field_named(fields, 3, REA_SLICE_LIT("x-b")));
	assert_null(http_field_named(NULL, 0, REA_SLICE_LIT("x-b")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_known_name_has_its_id_in_any_case),
	    cmocka_unit_test(near_misses_are_unknown),
	    cmocka_unit_test(look_ups_give_the_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
