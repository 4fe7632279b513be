/*
 * Timers on a hierarchical wheel: start and stop in constant time. Sans-IO: whoever owns it asks when the next is due and runs it.
 *
 * Resolution 1 ms: a timer fires at or after its time, never before. Five levels of 64 slots hold 12 days; later times wait in the last slot
 * and are placed anew.
 */
#ifndef REA_SRC_LOOP_WHEEL_H
#define REA_SRC_LOOP_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

#define WHEEL_LEVELS 5
#define WHEEL_SLOTS 64

struct wheel_timer {
	struct wheel_timer *next;  /* private; NULL = not started */
	struct wheel_timer **link; /* private */
	uint64_t due_ns;           /* private */
	uint16_t place;            /* private */
	void (*fire)(struct wheel_timer *timer, uint64_t now_ns);
};

struct wheel {
	uint64_t tick; /* ms up to which everything has fired */
	uint64_t bitmap[WHEEL_LEVELS];
	struct wheel_timer *slots[WHEEL_LEVELS][WHEEL_SLOTS];
};

void wheel_init(struct wheel *wheel, uint64_t now_ns);
void wheel_start(struct wheel *wheel, struct wheel_timer *timer, uint64_t due_ns);
void wheel_stop(struct wheel *wheel, struct wheel_timer *timer); /* a stopped one: no-op */
static inline bool wheel_timer_active(const struct wheel_timer *timer)
{
	return timer->link != 0;
}
/* When wheel_run is worth calling next (may be early for far timers, never late); UINT64_MAX = no timer. */
uint64_t wheel_next(const struct wheel *wheel);
/* Fire everything due at now. Timers may be started and stopped from fire. */
void wheel_run(struct wheel *wheel, uint64_t now_ns);

#endif
