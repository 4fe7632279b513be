#include "base/buffer.h"

#include "../fail_alloc.h"

#include <rea/error.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void assert_content(const struct rea_buffer *buffer, const char *expected)
{
	assert_int_equal(rea_buffer_length(buffer), strlen(expected));
	assert_memory_equal(rea_buffer_data(buffer), expected, strlen(expected));
}

static void bytes_come_out_as_they_went_in(void **state)
{
	struct rea_buffer buffer = {0};
	uint64_t written = 0, read = 0;

	(void)state;
	/* Three in, two out, until it has grown and moved many times. */
	for (int round = 0; round < 5000; round++) {
		for (int i = 0; i < 3; i++) {
			char byte = (char)(written++ % 251);

			assert_int_equal(rea_buffer_append(&buffer, &byte, 1), 0);
		}
		assert_int_equal((unsigned char)rea_buffer_data(&buffer)[0], read % 251);
		assert_int_equal((unsigned char)rea_buffer_data(&buffer)[1], (read + 1) % 251);
		rea_buffer_consume(&buffer, 2);
		read += 2;
	}
	assert_int_equal(rea_buffer_length(&buffer), 5000);
	rea_buffer_consume(&buffer, 5000);
	assert_int_equal(buffer.end, 0);
	rea_buffer_fini(&buffer);
}

static void a_small_queue_does_not_grow(void **state)
{
	struct rea_buffer buffer = {0};

	(void)state;
	for (int i = 0; i < 10000; i++) {
		assert_int_equal(rea_buffer_append(&buffer, "0123456789", 10), 0);
		if (i > 0)
			rea_buffer_consume(&buffer, 10);
	}
	assert_int_equal(buffer.capacity, 512);
	rea_buffer_fini(&buffer);
}

static void numbers_and_slices(void **state)
{
	struct rea_buffer buffer = {0};

	(void)state;
	assert_int_equal(rea_buffer_append_u64(&buffer, UINT64_MAX), 0);
	assert_int_equal(rea_buffer_append_slice(&buffer, REA_SLICE_LIT(", ")), 0);
	assert_int_equal(rea_buffer_append_u64(&buffer, 0), 0);
	assert_content(&buffer, "18446744073709551615, 0");
	rea_buffer_fini(&buffer);
}

static void trim_gives_back_only_an_empty_large_one(void **state)
{
	struct rea_buffer buffer = {0};

	(void)state;
	assert_int_equal(rea_buffer_reserve(&buffer, 4096), 0);
	assert_int_equal(rea_buffer_append(&buffer, "x", 1), 0);
	rea_buffer_trim(&buffer, 512);
	assert_int_equal(buffer.capacity, 4096);
	rea_buffer_consume(&buffer, 1);
	rea_buffer_trim(&buffer, 4096);
	assert_int_equal(buffer.capacity, 4096);
	rea_buffer_trim(&buffer, 4095);
	assert_int_equal(buffer.capacity, 0);
}

static void without_memory_nothing_changes(void **state)
{
	struct fail_alloc failing;
	struct rea_buffer buffer = {0};

	(void)state;
	fail_alloc_init(&failing, 1, true);
	buffer.alloc = &failing.alloc;
	assert_int_equal(rea_buffer_append(&buffer, "abc", 3), 0);
	rea_buffer_consume(&buffer, 1);
	assert_int_equal(rea_buffer_reserve(&buffer, 1000), REA_ERR_NOMEM);
	assert_int_equal(rea_buffer_reserve(&buffer, SIZE_MAX - 8), REA_ERR_NOMEM);
	assert_content(&buffer, "bc");
	assert_int_equal(rea_buffer_append(&buffer, "d", 1), 0);
	assert_content(&buffer, "bcd");
	rea_buffer_fini(&buffer);
	assert_int_equal(failing.live, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bytes_come_out_as_they_went_in),
	    cmocka_unit_test(a_small_queue_does_not_grow),
	    cmocka_unit_test(numbers_and_slices),
	    cmocka_unit_test(trim_gives_back_only_an_empty_large_one),
	    cmocka_unit_test(without_memory_nothing_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
