/*
 * A concurrency limiter (bulkhead): at most so many calls at once, and a bounded line of waiters in order of arrival, each with its own deadline.
 *
 *   rea_limiter_acquire ─▶ ACQUIRED ─▶ … the call … ─▶ rea_limiter_release
 *                      ├─▶ WAITING ─▶ rea_limiter_next hands it out: ACQUIRED or EXPIRED
 *                      └─▶ REFUSED, EXPIRED
 *
 * No clock and no callback: release, cancel and resize only settle who is next; the caller then takes the settled waiters with rea_limiter_next,
 * at once and whenever rea_limiter_next_ns is due. No memory of its own: a waiter is a node that its owner keeps. One thread at a time.
 * Time never runs backwards: an earlier now counts as the last seen.
 */
#ifndef REA_LIMITER_H
#define REA_LIMITER_H

#include <rea/error.h>
#include <rea/time.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REA_LIMITER_CONCURRENT_MAX 1000000
#define REA_LIMITER_WAITING_MAX 1000000

/* What became of a wish for a slot. X(NAME, "name") */
#define REA_LIMITER_VERDICT_MAP(X)                                                     \
	X(ACQUIRED, "acquired") /* it holds a slot: rea_limiter_release when done */   \
	X(WAITING, "waiting")   /* in line: rea_limiter_next will hand it out, once */ \
	X(REFUSED, "refused")   /* no slot is free and the line is full */             \
	X(EXPIRED, "expired")   /* no slot became free by the deadline */

enum rea_limiter_verdict {
#define X(name, text) REA_LIMITER_##name,
	REA_LIMITER_VERDICT_MAP(X)
#undef X
	    REA_LIMITER_VERDICT_COUNT
};

/* One who waits. Zero-initialise it; while it waits it stays where it is, and its owner cancels it before it goes away. */
struct rea_limiter_waiter {
	enum rea_limiter_verdict verdict; /* the latest */
	void *user_data;                  /* the owner's */
	uint64_t deadline_ns;             /* private, like all that follows */
	uint64_t ticket;
	uint32_t place;
	struct rea_limiter_waiter *prev, *next;
	struct rea_limiter_waiter *heap_child, *heap_prev, *heap_next;
};

struct rea_limiter_line {
	struct rea_limiter_waiter *first, *last;
};

/* Embed it; every member is private. */
struct rea_limiter {
	uint32_t concurrent_max;
	uint32_t waiting_max;
	uint32_t in_use;
	uint32_t waiting;
	uint64_t tickets;
	uint64_t now_ns;                    /* latest seen */
	struct rea_limiter_line line;       /* who waits, by arrival */
	struct rea_limiter_line settled;    /* whose wait is over, not handed out yet */
	struct rea_limiter_waiter *soonest; /* who waits, a pairing heap by deadline */
};

struct rea_limiter_options {
	uint32_t version;        /* set by rea_limiter_options_init */
	uint32_t concurrent_max; /* slots; 1..1000000; default 25 */
	uint32_t waiting_max;    /* 0..1000000; default 0: nobody waits */
};
#define REA_LIMITER_OPTIONS_VERSION 1
REA_API void rea_limiter_options_init(struct rea_limiter_options *options);

/* options: copied. Returns 0, or REA_ERR_INVALID with field and message in ret_info (may be NULL), the limiter untouched. There is nothing to
 * free; cancel who waits before it goes away. */
REA_API int rea_limiter_init(
    struct rea_limiter *limiter, const struct rea_limiter_options *options, struct rea_error_info *ret_info);
/* New numbers, within the bounds of the options. Slots in use stay: with fewer of them nobody gets one until enough came back. Who waits stays. */
REA_API void rea_limiter_resize(struct rea_limiter *limiter, uint32_t concurrent_max, uint32_t waiting_max, uint64_t now_ns);

/* Take a slot if one is free. */
REA_API bool rea_limiter_try_acquire(struct rea_limiter *limiter);
/* Take a slot or, where none is free, get in line until deadline_ns (absolute; REA_NEVER = for ever). waiter: idle; borrowed while it waits. Returns
 * the verdict, which is the waiter's too: ACQUIRED, WAITING, REFUSED, or EXPIRED if it would have to wait and the deadline is not later than now. */
REA_API enum rea_limiter_verdict rea_limiter_acquire(
    struct rea_limiter *limiter, struct rea_limiter_waiter *waiter, uint64_t deadline_ns, uint64_t now_ns);
/* Give a slot back; it goes to the first in line. */
REA_API void rea_limiter_release(struct rea_limiter *limiter, uint64_t now_ns);
/* Stop waiting. A slot that was given and not yet handed out goes to the next in line. For an idle waiter nothing happens; a slot that
 * was handed out is released, not cancelled. */
REA_API void rea_limiter_cancel(struct rea_limiter *limiter, struct rea_limiter_waiter *waiter, uint64_t now_ns);

/* Hand out one whose wait is over: its verdict is ACQUIRED or EXPIRED, and it is idle again. NULL = no more. Call it until then after release,
 * cancel and resize, and when next_ns is due. */
REA_API struct rea_limiter_waiter *rea_limiter_next(struct rea_limiter *limiter, uint64_t now_ns);
/* When rea_limiter_next should be called: 0 = somebody is settled, else the earliest deadline in line; REA_NEVER = nobody waits for a time. */
REA_API uint64_t rea_limiter_next_ns(const struct rea_limiter *limiter);

/* Slots taken, those of settled waiters too. */
REA_API uint32_t rea_limiter_in_use(const struct rea_limiter *limiter);
REA_API uint32_t rea_limiter_waiting(const struct rea_limiter *limiter);
/* "acquired", …; "unknown" when out of range. Static. */
REA_API const char *rea_limiter_verdict_name(enum rea_limiter_verdict verdict);

#ifdef __cplusplus
}
#endif
#endif
