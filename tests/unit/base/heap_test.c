#include "base/heap.h"

#include "../fail_alloc.h"

#include <rea/error.h>
#include <rea/random.h>
#include <rea/time.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void earliest_first(void **state)
{
	static const uint64_t dues[] = {50, 10, 40, 30, 20, 60, 0, REA_NEVER};
	static const uint32_t order[] = {6, 1, 4, 3, 2, 0, 5, 7};
	struct rea_heap heap = {0};

	(void)state;
	assert_true(rea_heap_next(&heap) == REA_NEVER);
	assert_int_equal(rea_heap_reserve(&heap, 8, rea_alloc_default()), 0);
	for (uint32_t i = 0; i < 8; i++)
		rea_heap_push(&heap, i, dues[i]);
	for (uint32_t i = 0; i < 8; i++) {
		assert_true(rea_heap_next(&heap) == dues[order[i]]);
		assert_int_equal(rea_heap_pop(&heap), order[i]);
	}
	assert_true(rea_heap_next(&heap) == REA_NEVER);
	rea_heap_fini(&heap, rea_alloc_default());
}

/* Also when the count of arrivals wraps between them. */
static void equal_times_in_order_of_arrival(void **state)
{
	static const uint32_t firsts[] = {0, UINT32_MAX - 50, INT32_MAX - 50};
	enum { COUNT = 100 };

	(void)state;
	for (size_t f = 0; f < 3; f++) {
		struct rea_heap heap = {.arrivals = firsts[f]};

		assert_int_equal(rea_heap_reserve(&heap, COUNT, rea_alloc_default()), 0);
		for (uint32_t i = 0; i < COUNT; i++)
			rea_heap_push(&heap, (i * 37) % COUNT, 7);
		for (uint32_t i = 0; i < COUNT; i++)
			assert_int_equal(rea_heap_pop(&heap), (i * 37) % COUNT);
		rea_heap_fini(&heap, rea_alloc_default());
	}
}

/* ---- against a list that is searched ---- */

enum { NUMBERS = 200, STEPS = 200000 };

struct model {
	bool in[NUMBERS];
	uint64_t due_ns[NUMBERS], arrival[NUMBERS];
	uint64_t arrivals;
};

static uint32_t first_of(const struct model *model)
{
	uint32_t best = NUMBERS;

	for (uint32_t i = 0; i < NUMBERS; i++)
		if (model->in[i] &&
		    (best == NUMBERS || model->due_ns[i] < model->due_ns[best] ||
			(model->due_ns[i] == model->due_ns[best] && model->arrival[i] < model->arrival[best])))
			best = i;
	return best;
}

static void any_sequence(void **state)
{
	struct model model = {0};
	struct rea_heap heap = {.arrivals = UINT32_MAX - STEPS / 4};
	struct rea_random random;
	uint32_t most = 0;

	(void)state;
	rea_random_init(&random, 4);
	assert_int_equal(rea_heap_reserve(&heap, NUMBERS, rea_alloc_default()), 0);
	for (uint32_t step = 0; step < STEPS; step++) {
		uint32_t number = (uint32_t)rea_random_below(&random, NUMBERS), first = first_of(&model);
		uint32_t choice = (uint32_t)rea_random_below(&random, 8);

		if (!model.in[number] && choice < 4 + step / 1000 % 3) {
			model.in[number] = true;
			model.due_ns[number] = rea_random_below(&random, 50);
			model.arrival[number] = model.arrivals++;
			rea_heap_push(&heap, number, model.due_ns[number]);
		} else if (model.in[number] && choice == 7) {
			model.in[number] = false;
			rea_heap_remove(&heap, number);
		} else if (first < NUMBERS && choice == 6) {
			assert_int_equal(rea_heap_pop(&heap), first);
			model.in[first] = false;
		}
		first = first_of(&model);
		assert_true(rea_heap_next(&heap) == (first < NUMBERS ? model.due_ns[first] : REA_NEVER));
		most = heap.count > most ? heap.count : most;
	}
	assert_in_range(most, NUMBERS / 2, NUMBERS);
	rea_heap_fini(&heap, rea_alloc_default());
}

static void out_of_memory(void **state)
{
	(void)state;
	for (size_t left = 0; left < 3; left++) {
		struct rea_heap heap = {0};
		struct fail_alloc failing;

		fail_alloc_init(&failing, 2, true);
		assert_int_equal(rea_heap_reserve(&heap, 2, &failing.alloc), 0);
		rea_heap_push(&heap, 1, 5);
		rea_heap_push(&heap, 0, 3);
		failing.left = left;
		assert_int_equal(rea_heap_reserve(&heap, 1000, &failing.alloc), left < 2 ? REA_ERR_NOMEM : 0);
		assert_int_equal(heap.capacity, left < 2 ? 2 : 1000);
		assert_int_equal(rea_heap_pop(&heap), 0);
		assert_int_equal(rea_heap_pop(&heap), 1);
		rea_heap_fini(&heap, &failing.alloc);
		assert_int_equal(failing.live, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(earliest_first),
	    cmocka_unit_test(equal_times_in_order_of_arrival),
	    cmocka_unit_test(any_sequence),
	    cmocka_unit_test(out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
