#include "base/arena.h"

#include "../fail_alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static bool is_zero(const char *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (bytes[i] != 0)
			return false;
	return true;
}

/* Pieces of all sizes are aligned, zeroed and apart; everything goes at once. */
static void pieces(void **state)
{
	struct fail_alloc counting;
	struct rea_arena arena;
	char *piece[200];

	(void)state;
	fail_alloc_init(&counting, SIZE_MAX, true);
	rea_arena_init(&arena, &counting.alloc);
	for (size_t i = 0; i < 200; i++) {
		size_t size = i * i;

		piece[i] = rea_arena_alloc(&arena, size);
		assert_non_null(piece[i]);
		assert_int_equal((uintptr_t)piece[i] % _Alignof(max_align_t), 0);
		assert_true(is_zero(piece[i], size));
		memset(piece[i], (int)i, size);
	}
	for (size_t i = 0; i < 200; i++)
		for (size_t k = 0; k < i * i; k++)
			assert_int_equal(piece[i][k], (char)i);
	/* Many pieces in few chunks. */
	assert_true(counting.live < 150);
	rea_arena_fini(&arena);
	assert_int_equal(counting.live, 0);
	rea_arena_fini(&arena);
}

static void texts(void **state)
{
	struct rea_arena arena;

	(void)state;
	rea_arena_init(&arena, rea_alloc_default());
	assert_string_equal(rea_arena_string(&arena, rea_slice_make("abcdef", 3)), "abc");
	assert_string_equal(rea_arena_string(&arena, rea_slice_make(NULL, 0)), "");
	rea_arena_fini(&arena);
}

static void impossible_sizes(void **state)
{
	struct rea_arena arena;

	(void)state;
	rea_arena_init(&arena, rea_alloc_default());
	assert_null(rea_arena_alloc(&arena, SIZE_MAX));
	assert_null(rea_arena_array(&arena, SIZE_MAX / 2, 3));
	assert_non_null(rea_arena_array(&arena, 0, 8));
	assert_non_null(rea_arena_array(&arena, 3, 8));
	rea_arena_fini(&arena);
}

static void out_of_memory(void **state)
{
	struct fail_alloc failing;
	struct rea_arena arena;

	(void)state;
	fail_alloc_init(&failing, 1, true);
	rea_arena_init(&arena, &failing.alloc);
	assert_non_null(rea_arena_alloc(&arena, 0));
	assert_null(rea_arena_alloc(&arena, 100000));
	/* What is left of the chunk can still be used. */
	assert_non_null(rea_arena_alloc(&arena, 16));
	rea_arena_fini(&arena);
	assert_int_equal(failing.live, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(pieces), cmocka_unit_test(texts),
	    cmocka_unit_test(impossible_sizes), cmocka_unit_test(out_of_memory)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
