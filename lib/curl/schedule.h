/*
 * Which call is due when. Each has a number for the heap while it lives. Zero-initialised it is empty.
 */
#ifndef REA_CURL_SCHEDULE_H
#define REA_CURL_SCHEDULE_H

#include "base/heap.h"

struct rea__transfer;

union rea__slot {
	struct rea__transfer *transfer;
	uint32_t next_free;
};

struct rea__schedule {
	struct rea_heap heap;
	union rea__slot *slots; /* by number, as many as the heap has room for */
	uint32_t free;          /* the first number that nobody has, plus 1; 0 = none */
};

void rea__schedule_fini(struct rea__schedule *schedule, const struct rea_alloc *alloc);
/* A number for a transfer, which is not due yet. Returns 0 or REA_ERR_NOMEM, nothing changed. */
int rea__schedule_add(struct rea__schedule *schedule, struct rea__transfer *transfer, const struct rea_alloc *alloc,
    uint32_t *ret_number);
/* The number is free again; it must not be due. */
void rea__schedule_remove(struct rea__schedule *schedule, uint32_t number);
/* The transfer that is due first, if it is due at now_ns and was put into the heap before its arrivals stood at
 * `arrivals`; else NULL. */
struct rea__transfer *rea__schedule_due(const struct rea__schedule *schedule, uint64_t now_ns, uint32_t arrivals);

#endif
