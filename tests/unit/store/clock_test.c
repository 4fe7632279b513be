/* The time of rows: nothing that happens to the wall clock makes it jump. */
#include "store/clock.h"

#include "store/machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define S(n) ((int64_t)(n) * (int64_t)REA_NS_PER_S)
#define WALL S(1700000000)
#define HOUR S(3600)

static const struct rea__clock_past nothing = {"", 0, INT64_MIN};

static struct rea_store_clock at(int64_t monotonic_s, int64_t unix_ns, int64_t boot_s, const char *boot_id)
{
	struct rea_store_clock now = {(uint64_t)S(monotonic_s), unix_ns, (uint64_t)S(boot_s), ""};

	strcpy(now.boot_id, boot_id);
	return now;
}

static void test_first_opening_is_the_wall_clock(void **state)
{
	struct rea_store_clock now = at(100, WALL, 5000, "boot-1");
	struct rea__clock_past left;
	struct rea__clock clock;

	(void)state;
	rea__clock_start(&clock, &now, &nothing, &left);
	assert_true(rea__clock_to_row(&clock, (uint64_t)S(100)) == WALL);
	assert_true(rea__clock_to_row(&clock, (uint64_t)S(103)) == WALL + S(3));
	assert_true(rea__clock_from_row(&clock, WALL + S(3)) == (uint64_t)S(103));
	assert_true(rea__clock_from_row(&clock, WALL - S(101)) == 0);
	assert_string_equal(left.boot_id, "boot-1");
	assert_true(left.boot_offset_ns == WALL - S(5000));
	assert_true(left.seen_ns == WALL);
}

/* Ten seconds later in the same boot, whatever the wall clock says meanwhile. */
static void test_same_boot_goes_on(void **state)
{
	static const int64_t steps[] = {0, HOUR, -HOUR, 10000 * HOUR};
	struct rea_store_clock now = at(100, WALL, 5000, "boot-1");
	struct rea__clock_past left;
	struct rea__clock clock;

	(void)state;
	rea__clock_start(&clock, &now, &nothing, &left);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		struct rea_store_clock later = at(7, WALL + S(10) + steps[i], 5010, "boot-1");
		struct rea__clock_past again;

		rea__clock_start(&clock, &later, &left, &again);
		assert_true(rea__clock_to_row(&clock, (uint64_t)S(7)) == WALL + S(10));
		assert_true(again.boot_offset_ns == left.boot_offset_ns);
	}
}

static int64_t after_another_boot(int64_t unix_ns, int64_t seen_ns)
{
	struct rea_store_clock now = at(3, unix_ns, 20, "boot-2");
	struct rea__clock_past past = {"boot-1", WALL - S(5000), seen_ns}, left;
	struct rea__clock clock;

	rea__clock_start(&clock, &now, &past, &left);
	return rea__clock_to_row(&clock, (uint64_t)S(3));
}

static void test_another_boot(void **state)
{
	(void)state;
	assert_true(after_another_boot(WALL + S(60), WALL) == WALL + S(60));
	assert_true(after_another_boot(WALL - HOUR, WALL) == WALL);
	assert_true(after_another_boot(WALL, WALL + 24 * HOUR) == WALL + 24 * HOUR);
	assert_true(after_another_boot(WALL, WALL + 24 * HOUR + 1) == WALL); /* such a row is not to be believed */
	assert_true(after_another_boot(WALL, INT64_MIN) == WALL);
	assert_true(after_another_boot(WALL, INT64_MAX) == WALL);
}

/* A system that tells no boot, or no time since it, is asked for the wall clock each time. */
static void test_unknown_boot(void **state)
{
	struct rea_store_clock no_id = at(100, WALL, 5000, ""), no_time = at(100, WALL, 0, "boot-1");
	struct rea__clock_past past = {"", 0, INT64_MIN}, left;
	struct rea__clock clock;

	(void)state;
	rea__clock_start(&clock, &no_id, &past, &left);
	assert_true(rea__clock_to_row(&clock, (uint64_t)S(100)) == WALL);
	strcpy(past.boot_id, "boot-1");
	rea__clock_start(&clock, &no_time, &past, &left);
	assert_true(rea__clock_to_row(&clock, (uint64_t)S(100)) == WALL);
}

static void test_never_and_the_ends(void **state)
{
	static const int64_t offsets[] = {INT64_MIN, -1, 0, 1, INT64_MAX};

	(void)state;
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		struct rea__clock clock = {offsets[i]};

		assert_true(rea__clock_to_row(&clock, REA_NEVER) == REA__ROW_NEVER);
		assert_true(rea__clock_from_row(&clock, REA__ROW_NEVER) == REA_NEVER);
		assert_true(rea__clock_to_row(&clock, REA_NEVER - 1) != REA__ROW_NEVER);
		assert_true(rea__clock_from_row(&clock, REA__ROW_NEVER - 1) != REA_NEVER);
		assert_true(rea__clock_from_row(&clock, INT64_MIN) == 0 || offsets[i] == INT64_MIN);
	}
}

static void test_system_clocks(void **state)
{
	struct rea_store_clock first, second;

	(void)state;
	rea_store_clock_read(&first);
	rea_store_clock_read(&second);
	assert_true(first.now_ns > 0 && second.now_ns >= first.now_ns);
	assert_true(first.unix_ns > WALL);
	assert_true(first.boot_ns >= first.now_ns);
	assert_int_equal(strlen(first.boot_id), 36);
	assert_string_equal(first.boot_id, second.boot_id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_first_opening_is_the_wall_clock),
	    cmocka_unit_test(test_same_boot_goes_on),
	    cmocka_unit_test(test_another_boot),
	    cmocka_unit_test(test_unknown_boot),
	    cmocka_unit_test(test_never_and_the_ends),
	    cmocka_unit_test(test_system_clocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
