/*
 * What happens when: timers on a heap, the earliest first, equal times in the order they were set. Sans-IO: virtual time jumps from one to the next; on sockets
 * whoever owns it asks when the next is due and runs it.
 */
#ifndef REA_SRC_LAB_AGENDA_H
#define REA_SRC_LAB_AGENDA_H

#include "base/heap.h"

#include <stdbool.h>

struct lab_timer {
	void (*fire)(struct lab_timer *timer, uint64_t now_ns);
	uint32_t number; /* private */
	bool set;        /* private */
};

/* Zero-initialised it is empty. */
struct lab_agenda {
	struct rea_heap heap;
	struct lab_timer **timers; /* by number */
	uint32_t *free;            /* numbers that nobody has */
	uint32_t free_len, len, capacity;
};

void lab_agenda_fini(struct lab_agenda *agenda);
/* A timer joins, so that setting it cannot fail, and leaves. Returns 0 or REA_ERR_NOMEM. */
int lab_agenda_join(
    struct lab_agenda *agenda, struct lab_timer *timer, void (*fire)(struct lab_timer *timer, uint64_t now_ns));
void lab_agenda_leave(struct lab_agenda *agenda, struct lab_timer *timer);
/* One that is set already is set anew. */
void lab_agenda_set(struct lab_agenda *agenda, struct lab_timer *timer, uint64_t due_ns);
void lab_agenda_unset(struct lab_agenda *agenda, struct lab_timer *timer);
/* REA_NEVER when nothing is set. */
uint64_t lab_agenda_next(const struct lab_agenda *agenda);
/* Take out the first and fire it, at now; something is set. */
void lab_agenda_fire(struct lab_agenda *agenda, uint64_t now_ns);

#endif
