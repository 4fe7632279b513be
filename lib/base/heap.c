#include "base/heap.h"

#include <rea/error.h>
#include <rea/time.h>

#include <assert.h>

#define CHILDREN 4

void rea_heap_fini(struct rea_heap *heap, const struct rea_alloc *alloc)
{
	alloc->free(heap->items, alloc->user_data);
	alloc->free(heap->places, alloc->user_data);
	*heap = (struct rea_heap){0};
}

int rea_heap_reserve(struct rea_heap *heap, uint32_t capacity, const struct rea_alloc *alloc)
{
	void *grown;

	if (capacity <= heap->capacity)
		return 0;
	assert(capacity <= UINT32_MAX / (4 * CHILDREN)); /* places of children are computed in 32 bits */
	if ((grown = alloc->realloc(heap->items, capacity * sizeof(*heap->items), alloc->user_data)) == NULL)
		return REA_ERR_NOMEM;
	heap->items = grown;
	if ((grown = alloc->realloc(heap->places, capacity * sizeof(*heap->places), alloc->user_data)) == NULL)
		return REA_ERR_NOMEM;
	heap->places = grown;
	heap->capacity = capacity;
	return 0;
}

static bool is_before(const struct rea_heap_item *a, const struct rea_heap_item *b)
{
	return a->due_ns < b->due_ns || (a->due_ns == b->due_ns && (int32_t)(a->order - b->order) < 0);
}

static void put(struct rea_heap *heap, uint32_t place, struct rea_heap_item item)
{
	heap->items[place] = item;
	heap->places[item.number] = place;
}

/* Fill the hole at place with item, or with what stands above it while that comes later. */
static void rise(struct rea_heap *heap, uint32_t place, struct rea_heap_item item)
{
	while (place > 0) {
		uint32_t parent = (place - 1) / CHILDREN;

		if (!is_before(&item, &heap->items[parent]))
			break;
		put(heap, place, heap->items[parent]);
		place = parent;
	}
	put(heap, place, item);
}

/* The earliest of the children that begin at first. A full family takes two rounds of comparisons that do not wait
 * for each other. */
static uint32_t earliest(const struct rea_heap *heap, uint32_t first)
{
	const struct rea_heap_item *items = heap->items;
	uint32_t best = first;

	if (heap->count - first >= CHILDREN) {
		uint32_t left = first + is_before(&items[first + 1], &items[first]);
		uint32_t right = first + 2 + is_before(&items[first + 3], &items[first + 2]);

		return is_before(&items[right], &items[left]) ? right : left;
	}
	for (uint32_t i = first + 1; i < heap->count; i++)
		if (is_before(&items[i], &items[best]))
			best = i;
	return best;
}

/* Close the hole at place with the last item. It came from the bottom and mostly belongs there: the hole goes all the
 * way down first, without asking, and the item rises from there. */
static void close_hole(struct rea_heap *heap, uint32_t place)
{
	struct rea_heap_item last = heap->items[--heap->count];

	if (place == heap->count)
		return;
	while (place * CHILDREN + 1 < heap->count) {
		uint32_t child = earliest(heap, place * CHILDREN + 1);

		put(heap, place, heap->items[child]);
		place = child;
	}
	rise(heap, place, last);
}

void rea_heap_push(struct rea_heap *heap, uint32_t number, uint64_t due_ns)
{
	assert(number < heap->capacity && heap->count < heap->capacity);
	rise(heap, heap->count++, (struct rea_heap_item){due_ns, heap->arrivals++, number});
}

uint32_t rea_heap_pop(struct rea_heap *heap)
{
	uint32_t number;

	assert(heap->count > 0);
	number = heap->items[0].number;
	close_hole(heap, 0);
	return number;
}

void rea_heap_remove(struct rea_heap *heap, uint32_t number)
{
	uint32_t place = heap->places[number];

	assert(place < heap->count && heap->items[place].number == number);
	close_hole(heap, place);
}

uint64_t rea_heap_next(const struct rea_heap *heap)
{
	return heap->count > 0 ? heap->items[0].due_ns : REA_NEVER;
}
