/*
 * What is due when: a 4-ary heap of numbered items, the earliest first, equal times in order of arrival. Numbers are
 * the owner's, each below the capacity and in the heap at most once; any item can be taken out in O(log n).
 * Zero-initialised it is empty.
 */
#ifndef REA_BASE_HEAP_H
#define REA_BASE_HEAP_H

#include <rea/alloc.h>

struct rea_heap_item {
	uint64_t due_ns;
	uint32_t order; /* of arrival; wraps, so it tells apart what came within 2^31 arrivals */
	uint32_t number;
};

struct rea_heap {
	struct rea_heap_item *items;
	uint32_t *places; /* by number: where its item stands */
	uint32_t count;
	uint32_t capacity;
	uint32_t arrivals;
};

void rea_heap_fini(struct rea_heap *heap, const struct rea_alloc *alloc);
/* Room for the numbers below capacity (at most 2^28). Returns 0 or REA_ERR_NOMEM, what is in the heap unchanged. */
int rea_heap_reserve(struct rea_heap *heap, uint32_t capacity, const struct rea_alloc *alloc);
void rea_heap_push(struct rea_heap *heap, uint32_t number, uint64_t due_ns);
/* The number of the first; the heap is not empty. */
uint32_t rea_heap_pop(struct rea_heap *heap);
/* number: in the heap. */
void rea_heap_remove(struct rea_heap *heap, uint32_t number);
/* When the first is due; REA_NEVER when empty. */
uint64_t rea_heap_next(const struct rea_heap *heap);

#endif
