#include "core/common_window.h"

#include <stdbool.h>
#include <stddef.h>

/* 44 bits of number, 12 of them the epoch, and 20 bits of count, which stops at its largest value. */
#define COUNT_BITS 20
#define COUNT_MAX ((UINT64_C(1) << COUNT_BITS) - 1)
#define EPOCH_SHIFT 32
/* How far another process's clock may be ahead: it was read later than ours. */
#define AHEAD_SLOTS 10
/* A slot from further ahead than this is left over from something else. */
#define STRANGE_SLOTS (10 * REA__COMMON_SLOTS)

static uint64_t number_of(uint32_t epoch, uint64_t time_ms)
{
	return (uint64_t)epoch << EPOCH_SHIFT | (time_ms / REA__COMMON_SLOT_MS & ((UINT64_C(1) << EPOCH_SHIFT) - 1));
}

static size_t index_of(uint64_t number)
{
	return (size_t)(number % REA__COMMON_SLOTS);
}

static bool swap(uint64_t *slot, uint64_t *before, uint64_t after)
{
	return __atomic_compare_exchange_n(slot, before, after, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static bool is_later(uint64_t number, uint64_t than, size_t index)
{
	return index_of(number) == index && number > than && number - than < STRANGE_SLOTS;
}

void rea__common_window_add(struct rea__common_window *window, uint32_t epoch, uint64_t now_ms)
{
	uint64_t number = number_of(epoch, now_ms);
	size_t index = index_of(number);
	uint64_t *slot = &window->slots[index];
	uint64_t before = __atomic_load_n(slot, __ATOMIC_SEQ_CST), after;

	do {
		uint64_t found = before >> COUNT_BITS;

		if (found != number && !is_later(found, number, index))
			after = number << COUNT_BITS | 1;
		else if ((before & COUNT_MAX) < COUNT_MAX)
			after = before + 1;
		else
			return;
	} while (!swap(slot, &before, after));
}

void rea__common_window_remove(struct rea__common_window *window, uint32_t epoch, uint64_t time_ms)
{
	uint64_t number = number_of(epoch, time_ms), *slot = &window->slots[index_of(number)];
	uint64_t before = __atomic_load_n(slot, __ATOMIC_SEQ_CST);

	while (before >> COUNT_BITS == number && (before & COUNT_MAX) > 0)
		if (swap(slot, &before, before - 1))
			return;
}

uint64_t rea__common_window_sum(const struct rea__common_window *window, uint32_t epoch, uint32_t window_ms, uint64_t now_ms)
{
	uint64_t now = number_of(epoch, now_ms), back = (window_ms + REA__COMMON_SLOT_MS - 1) / REA__COMMON_SLOT_MS, sum = 0;

	for (uint64_t number = back < now ? now - back : 0; number <= now + AHEAD_SLOTS; number++) {
		uint64_t slot = __atomic_load_n(&window->slots[index_of(number)], __ATOMIC_SEQ_CST);

		sum += slot >> COUNT_BITS == number ? slot & COUNT_MAX : 0;
	}
	return sum;
}
