/* Numbers are given, taken back and given again; what came later than asked for is not due. */
#include "curl/schedule.h"
#include "../fail_alloc.h"

#include <rea/error.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MANY = 100 };

/* Only their addresses count. */
static char transfers[MANY];

static struct rea__transfer *transfer(size_t index)
{
	return (struct rea__transfer *)(void *)&transfers[index];
}

static void numbers_are_used_again(void **state)
{
	struct rea__schedule schedule = {0};
	uint32_t numbers[MANY], number;

	(void)state;
	for (size_t i = 0; i < MANY; i++) {
		assert_int_equal(rea__schedule_add(&schedule, transfer(i), rea_alloc_default(), &numbers[i]), 0);
		assert_int_equal(numbers[i], i);
		rea_heap_push(&schedule.heap, numbers[i], MANY - i);
	}
	assert_ptr_equal(rea__schedule_due(&schedule, MANY, schedule.heap.arrivals), transfer(MANY - 1));
	rea_heap_remove(&schedule.heap, 40);
	rea__schedule_remove(&schedule, 40);
	assert_int_equal(rea__schedule_add(&schedule, transfer(40), rea_alloc_default(), &number), 0);
	assert_int_equal(number, 40);
	rea__schedule_fini(&schedule, rea_alloc_default());
}

static void due_is_what_was_there_and_whose_time_has_come(void **state)
{
	struct rea__schedule schedule = {0};
	uint32_t number, arrivals;

	(void)state;
	assert_null(rea__schedule_due(&schedule, 100, 0));
	assert_int_equal(rea__schedule_add(&schedule, transfer(0), rea_alloc_default(), &number), 0);
	arrivals = schedule.heap.arrivals;
	rea_heap_push(&schedule.heap, number, 50);
	assert_null(rea__schedule_due(&schedule, 49, arrivals + 1));
	assert_ptr_equal(rea__schedule_due(&schedule, 50, arrivals + 1), transfer(0));
	assert_null(rea__schedule_due(&schedule, 50, arrivals));
	rea__schedule_fini(&schedule, rea_alloc_default());
}

static void without_memory_nothing_changes(void **state)
{
	(void)state;
	for (size_t left = 0; left < 3; left++) {
		struct rea__schedule schedule = {0};
		struct fail_alloc failing;
		uint32_t number;

		fail_alloc_init(&failing, left, false);
		assert_int_equal(rea__schedule_add(&schedule, transfer(0), &failing.alloc, &number), REA_ERR_NOMEM);
		assert_int_equal(rea__schedule_add(&schedule, transfer(0), &failing.alloc, &number), 0);
		assert_int_equal(number, 0);
		rea__schedule_fini(&schedule, &failing.alloc);
		assert_int_equal(failing.live, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(numbers_are_used_again),
	    cmocka_unit_test(due_is_what_was_there_and_whose_time_has_come),
	    cmocka_unit_test(without_memory_nothing_changes),
	};

	return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
