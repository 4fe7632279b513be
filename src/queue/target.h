/*
 * What tasks go to, and whether one may begin there now: concurrency, rate, an operator's pause, what the target or the engine asked for. Sans-IO: times
 * and wake-ups are the queue's.
 */
#ifndef REA_SRC_QUEUE_TARGET_H
#define REA_SRC_QUEUE_TARGET_H

#include "base/slice.h"
#include "loop/wheel.h"

#include <rea/error.h>
#include <rea/rate.h>
#include <rea/time.h>

#define TARGET_WHY_MAX 128
#define TARGET_NONE UINT32_MAX
/* Retries that were refused for the sake of others ask again one after the other, at most so often. */
#define TARGET_ASK_NS (2 * REA_NS_PER_MS)
/* What is due all at once, after a stop of hours, does not come all at once. */
#define TARGET_STEP_NS (20 * REA_NS_PER_MS)

struct target {
	struct target *next; /* in the queue's list of all */
	char *name;          /* a service, or an origin; owned */
	size_t name_len;
	bool is_url;

	uint32_t concurrency;
	uint64_t climb_ns; /* when it was first gone to, or again after a hold: from then on one more may run every TARGET_STEP_NS; 0 = not yet */
	double rate_per_s;
	struct rea_rate rate;
	uint32_t running;

	bool paused, draining;    /* by an operator */
	uint64_t paused_until_ns; /* REA_NEVER = until resumed */
	char paused_why[TARGET_WHY_MAX];
	uint64_t ask_ns;        /* when the next retry that was refused may ask again */
	uint64_t held_until_ns; /* asked for by the target, or nothing to be had there; 0 = not */
	char held_why[TARGET_WHY_MAX];

	/* Entries that are due, by number; the queue's. */
	uint32_t first, last;
	uint64_t waiting;
	struct target *next_ready;
	bool ready;               /* in the queue's ring of targets to look at */
	struct wheel_timer timer; /* the queue's: when to look again */
	void *user;
};

/* name: copied. NULL = out of memory. */
struct target *target_new(struct rea_slice name, bool is_url);
void target_free(struct target *target);
/* rate_per_s: 0 = no limit. */
void target_configure(struct target *target, uint32_t concurrency, double rate_per_s);
/* One attempt may begin now, and its permit of the rate is taken; else ret_wake_ns says when to ask again (REA_NEVER: not before something ends or is
 * changed). */
bool target_begin(struct target *target, uint64_t now_ns, uint64_t *ret_wake_ns);
/* The attempt has ended. */
void target_end(struct target *target);
/* Nothing begins before until_ns; a later hold stays. */
void target_hold(struct target *target, uint64_t until_ns, const char *why);
/* When a retry that was refused, though its target is well, asks again: not before earliest_ns. */
uint64_t target_ask(struct target *target, uint64_t earliest_ns);

#endif
