/* Events of a window that processes share: exact sums at every edge, and what is left over or damaged counts as nothing. */
#include "core/common_window.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct rea__common_window window;

static int empty(void **state)
{
	(void)state;
	memset(&window, 0, sizeof(window));
	return 0;
}

static void add(uint64_t now_ms, int times)
{
	for (int i = 0; i < times; i++)
		rea__common_window_add(&window, 7, now_ms);
}

static uint64_t sum(uint32_t window_ms, uint64_t now_ms)
{
	return rea__common_window_sum(&window, 7, window_ms, now_ms);
}

static void counts_until_the_slot_has_left(void **state)
{
	(void)state;
	add(5000, 3);
	add(5099, 2); /* the same slot */
	add(5100, 1);
	assert_int_equal(sum(1000, 5100), 6);
	assert_int_equal(sum(1000, 6099), 6);
	assert_int_equal(sum(1000, 6100), 1); /* slot 50 began 1100 ms ago */
	assert_int_equal(sum(1000, 6199), 1);
	assert_int_equal(sum(1000, 6200), 0);
	assert_int_equal(sum(1001, 6199), 6); /* a part of a slot is the whole slot */
	assert_int_equal(sum(60000, 65099), 6);
	assert_int_equal(sum(60000, 65100), 1);
}

static void a_clock_that_is_a_second_ahead_counts(void **state)
{
	(void)state;
	add(6000, 1);
	assert_int_equal(sum(1000, 5000), 1);
	assert_int_equal(sum(1000, 4999), 0);
}

static void a_slot_is_used_again(void **state)
{
	(void)state;
	add(1000, 5);
	add(1000 + 64000, 1);
	assert_int_equal(sum(60000, 65000), 1);
	add(1000, 1); /* a process that slept for a minute: it counts where its slot has gone on to */
	assert_int_equal(sum(60000, 65000), 2);
}

static void takes_back_only_what_is_there(void **state)
{
	(void)state;
	add(5000, 2);
	rea__common_window_remove(&window, 7, 5050);
	assert_int_equal(sum(1000, 5000), 1);
	rea__common_window_remove(&window, 7, 5100);
	rea__common_window_remove(&window, 7, 5000 + 64000);
	rea__common_window_remove(&window, 8, 5000);
	assert_int_equal(sum(1000, 5000), 1);
	rea__common_window_remove(&window, 7, 5000);
	rea__common_window_remove(&window, 7, 5000);
	assert_int_equal(sum(1000, 5000), 0);
}

static void another_boot_begins_anew(void **state)
{
	(void)state;
	add(5000, 9);
	assert_int_equal(rea__common_window_sum(&window, 8, 1000, 5000), 0);
	assert_int_equal(rea__common_window_sum(&window, 6, 1000, 5000), 0);
	rea__common_window_add(&window, 6, 5000);
	assert_int_equal(rea__common_window_sum(&window, 6, 1000, 5000), 1);
}

/* Without a boot id: a clock that began anew finds a slot of the far future, and takes it. */
static void the_far_future_is_left_over(void **state)
{
	(void)state;
	add(UINT64_C(64000) * 1000 + 5000, 4);
	assert_int_equal(sum(1000, 5000), 0);
	add(5000, 1);
	assert_int_equal(sum(1000, 5000), 1);
}

static void damage_counts_as_nothing(void **state)
{
	(void)state;
	memset(&window, 0xff, sizeof(window));
	assert_int_equal(sum(60000, 5000), 0);
	add(5000, 1);
	assert_int_equal(sum(60000, 5000), 1);
	memset(&window, 0, sizeof(window));
	window.slots[3] = (UINT64_C(7) << 32 | 50) << 20 | 11; /* the slot of 5000 ms stands at 50 + 7 * 2^32 mod 640 */
	assert_int_equal(sum(60000, 5000), 0);
}

static void a_full_slot_stays_full(void **state)
{
	(void)state;
	add(5000, (1 << 20) + 5);
	assert_int_equal(sum(1000, 5000), (1 << 20) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(counts_until_the_slot_has_left, empty),
	    cmocka_unit_test_setup(a_clock_that_is_a_second_ahead_counts, empty),
	    cmocka_unit_test_setup(a_slot_is_used_again, empty),
	    cmocka_unit_test_setup(takes_back_only_what_is_there, empty),
	    cmocka_unit_test_setup(another_boot_begins_anew, empty),
	    cmocka_unit_test_setup(the_far_future_is_left_over, empty),
	    cmocka_unit_test_setup(damage_counts_as_nothing, empty),
	    cmocka_unit_test_setup(a_full_slot_stays_full, empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
