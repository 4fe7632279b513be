#include "base/hash.h"
#include "base/map.h"

#include "../fail_alloc.h"

#include <rea/error.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define KEYS 2000

static void many_keys(void **state)
{
	static char keys[KEYS][8];
	struct rea_map map = {.alloc = NULL};
	uint32_t value = 7;

	(void)state;
	assert_false(rea_map_find(&map, REA_SLICE_LIT("k0"), &value));
	for (uint32_t i = 0; i < KEYS; i++) {
		snprintf(keys[i], sizeof(keys[i]), "k%u", i);
		assert_false(rea_map_find(&map, rea_slice_of(keys[i]), &value));
		assert_int_equal(rea_map_insert(&map, rea_slice_of(keys[i]), i * 3), 0);
	}
	assert_int_equal(map.count, KEYS);
	assert_true(map.capacity >= 2 * KEYS);
	for (uint32_t i = 0; i < KEYS; i++) {
		assert_true(rea_map_find(&map, rea_slice_of(keys[i]), &value));
		assert_int_equal(value, i * 3);
	}
	value = 7;
	assert_false(rea_map_find(&map, REA_SLICE_LIT("k"), &value));
	assert_false(rea_map_find(&map, REA_SLICE_LIT(""), &value));
	assert_int_equal(value, 7);
	rea_map_fini(&map);
	assert_false(rea_map_find(&map, REA_SLICE_LIT("k0"), &value));
}

/* Keys are bytes: NUL and the empty one too. */
static void any_bytes(void **state)
{
	struct rea_map map = {.alloc = NULL};
	uint32_t value;

	(void)state;
	assert_int_equal(rea_map_insert(&map, REA_SLICE_LIT("a\0b"), 1), 0);
	assert_int_equal(rea_map_insert(&map, REA_SLICE_LIT("a\0c"), 2), 0);
	assert_int_equal(rea_map_insert(&map, REA_SLICE_LIT(""), 3), 0);
	assert_true(rea_map_find(&map, REA_SLICE_LIT("a\0c"), &value));
	assert_int_equal(value, 2);
	assert_true(rea_map_find(&map, REA_SLICE_LIT(""), &value));
	assert_int_equal(value, 3);
	rea_map_fini(&map);
}

static void reserved_room_cannot_fail(void **state)
{
	static const char *const keys[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
	struct fail_alloc failing;
	struct rea_map map;
	uint32_t value;

	(void)state;
	fail_alloc_init(&failing, 1, true);
	map = (struct rea_map){.alloc = &failing.alloc};
	assert_int_equal(rea_map_reserve(&map, 8), 0);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(rea_map_insert(&map, rea_slice_of(keys[i]), i), 0);
	assert_int_equal(rea_map_insert(&map, rea_slice_of(keys[8]), 8), REA_ERR_NOMEM);
	assert_int_equal(map.count, 8);
	assert_true(rea_map_find(&map, rea_slice_of(keys[7]), &value));
	assert_false(rea_map_find(&map, rea_slice_of(keys[8]), &value));
	assert_int_equal(rea_map_reserve(&map, SIZE_MAX), REA_ERR_NOMEM);
	rea_map_fini(&map);
	assert_int_equal(failing.live, 0);
}

/* The published test vectors of FNV-1a. */
static void hashes(void **state)
{
	char hex[REA_HASH_HEX_SIZE];

	(void)state;
	assert_true(rea_hash("", 0) == UINT64_C(0xcbf29ce484222325));
	assert_true(rea_hash("a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
	assert_true(rea_hash("foobar", 6) == UINT64_C(0x85944171f73967e8));
	rea_hash_hex(UINT64_C(0x0123456789abcdef), hex);
	assert_string_equal(hex, "0123456789abcdef");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(many_keys), cmocka_unit_test(any_bytes),
	    cmocka_unit_test(reserved_room_cannot_fail), cmocka_unit_test(hashes)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
