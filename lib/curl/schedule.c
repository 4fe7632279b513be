#include "curl/schedule.h"

#include <rea/error.h>

#define SLOTS_MIN 8

void rea__schedule_fini(struct rea__schedule *schedule, const struct rea_alloc *alloc)
{
	rea_heap_fini(&schedule->heap, alloc);
	alloc->free(schedule->slots, alloc->user_data);
}

static int grow(struct rea__schedule *schedule, const struct rea_alloc *alloc)
{
	uint32_t had = schedule->heap.capacity, capacity = had > 0 ? 2 * had : SLOTS_MIN;
	union rea__slot *slots = alloc->realloc(schedule->slots, capacity * sizeof(*slots), alloc->user_data);

	if (slots == NULL)
		return REA_ERR_NOMEM;
	schedule->slots = slots;
	if (rea_heap_reserve(&schedule->heap, capacity, alloc) != 0)
		return REA_ERR_NOMEM;
	for (uint32_t number = capacity; number > had; number--) {
		slots[number - 1].next_free = schedule->free;
		schedule->free = number;
	}
	return 0;
}

int rea__schedule_add(
    struct rea__schedule *schedule, struct rea__transfer *transfer, const struct rea_alloc *alloc, uint32_t *ret_number)
{
	uint32_t number;

	if (schedule->free == 0 && grow(schedule, alloc) != 0)
		return REA_ERR_NOMEM;
	number = schedule->free - 1;
	schedule->free = schedule->slots[number].next_free;
	schedule->slots[number].transfer = transfer;
	*ret_number = number;
	return 0;
}

void rea__schedule_remove(struct rea__schedule *schedule, uint32_t number)
{
	schedule->slots[number].next_free = schedule->free;
	schedule->free = number + 1;
}

struct rea__transfer *rea__schedule_due(const struct rea__schedule *schedule, uint64_t now_ns, uint32_t arrivals)
{
	const struct rea_heap *heap = &schedule->heap;

	if (rea_heap_next(heap) > now_ns || (int32_t)(heap->items[0].order - arrivals) >= 0)
		return NULL;
	return schedule->slots[heap->items[0].number].transfer;
}
