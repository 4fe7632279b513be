/*
 * The concurrency limiter. One who waits goes through these places:
 *
 *            acquire                release, resize, cancel of another: a slot is free
 *   IDLE ──────────────▶ IN_LINE ──────────────────────────────────────────────────────▶ SETTLED (ACQUIRED)
 *    ▲                    │   │                        the deadline has come                  │
 *    │       cancel       │   └────────────────────────────────────────────────────▶ SETTLED (EXPIRED)
 *    ├────────────────────┘                                                                   │
 *    └────────────────────────────────────────────────────────────────────────────────────────┘
 *                                              next, cancel
 *   IDLE     in no list; the owner's
 *   IN_LINE  in the line by arrival and in the heap by deadline
 *   SETTLED  in the settled list; ACQUIRED holds a slot
 *
 * Guarantees: nobody waits while a slot is free, so nobody overtakes; a slot goes to the first in line whose deadline is still to come; each
 * slot that was taken is either held by a caller or by a settled waiter, and a cancel gives back the latter: none leaks. Taking a slot and refusing
 * one cost a comparison or two; the rest costs O(log n) of those in line, amortised.
 */
#include <rea/limiter.h>

#include "base/bounds.h"
#include "core/internal.h"

#include <assert.h>

enum place { IDLE, IN_LINE, SETTLED };

void rea_limiter_options_init(struct rea_limiter_options *options)
{
	*options = (struct rea_limiter_options){.version = REA_LIMITER_OPTIONS_VERSION, .concurrent_max = 25};
}

REA__COLD int rea_limiter_init(
    struct rea_limiter *limiter, const struct rea_limiter_options *options, struct rea_error_info *ret_info)
{
	const struct rea__bound bounds[] = {
	    {"concurrent_max", "concurrent_max", options->concurrent_max, 1, REA_LIMITER_CONCURRENT_MAX, false, NULL},
	    {"waiting_max", "waiting_max", options->waiting_max, 0, REA_LIMITER_WAITING_MAX, false, NULL},
	};

	assert(options->version == REA_LIMITER_OPTIONS_VERSION &&
	       "the options were not initialised by rea_limiter_options_init");
	if (rea__check_bounds(bounds, sizeof(bounds) / sizeof(bounds[0]), ret_info) != 0)
		return REA_ERR_INVALID;
	*limiter = (struct rea_limiter){.concurrent_max = options->concurrent_max, .waiting_max = options->waiting_max};
	return 0;
}

static void limiter_assert_valid(const struct rea_limiter *limiter)
{
	assert((limiter->waiting == 0) == (limiter->line.first == NULL));
	assert((limiter->waiting == 0) == (limiter->soonest == NULL));
	assert(limiter->waiting == 0 || limiter->in_use >= limiter->concurrent_max);
}

/* ---- a list of waiters ---- */

static void append(struct rea_limiter_line *line, struct rea_limiter_waiter *waiter)
{
	waiter->next = NULL;
	waiter->prev = line->last;
	*(line->last ? &line->last->next : &line->first) = waiter;
	line->last = waiter;
}

static void take_out(struct rea_limiter_line *line, struct rea_limiter_waiter *waiter)
{
	*(waiter->prev ? &waiter->prev->next : &line->first) = waiter->next;
	*(waiter->next ? &waiter->next->prev : &line->last) = waiter->prev;
}

/* ---- a pairing heap of waiters, the earliest deadline at the root, of equal ones the first to arrive ---- */

static bool is_sooner(const struct rea_limiter_waiter *a, const struct rea_limiter_waiter *b)
{
	return a->deadline_ns != b->deadline_ns ? a->deadline_ns < b->deadline_ns : a->ticket < b->ticket;
}

/* Of two roots, which may be NULL, the later one becomes the first child of the other. */
static struct rea_limiter_waiter *meld(struct rea_limiter_waiter *a, struct rea_limiter_waiter *b)
{
	struct rea_limiter_waiter *root = b == NULL || (a != NULL && is_sooner(a, b)) ? a : b, *child = root == a ? b : a;

	if (child == NULL)
		return root;
	child->heap_prev = root;
	child->heap_next = root->heap_child;
	if (child->heap_next != NULL)
		child->heap_next->heap_prev = child;
	root->heap_child = child;
	return root;
}

/* A row of siblings becomes one heap: pairs from left to right, then all pairs from right to left. */
static struct rea_limiter_waiter *meld_row(struct rea_limiter_waiter *row)
{
	struct rea_limiter_waiter *pairs = NULL, *heap = NULL;

	while (row != NULL) {
		struct rea_limiter_waiter *a = row, *b = a->heap_next, *pair;

		row = b != NULL ? b->heap_next : NULL;
		pair = meld(a, b);
		pair->heap_next = pairs;
		pairs = pair;
	}
	while (pairs != NULL) {
		struct rea_limiter_waiter *pair = pairs;

		pairs = pair->heap_next;
		heap = meld(heap, pair);
	}
	return heap;
}

static void heap_push(struct rea_limiter *limiter, struct rea_limiter_waiter *waiter)
{
	waiter->heap_child = NULL;
	limiter->soonest = meld(limiter->soonest, waiter);
}

static void heap_take_out(struct rea_limiter *limiter, struct rea_limiter_waiter *waiter)
{
	struct rea_limiter_waiter *below = meld_row(waiter->heap_child);

	if (waiter == limiter->soonest) {
		limiter->soonest = below;
		return;
	}
	if (waiter->heap_prev->heap_child == waiter)
		waiter->heap_prev->heap_child = waiter->heap_next;
	else
		waiter->heap_prev->heap_next = waiter->heap_next;
	if (waiter->heap_next != NULL)
		waiter->heap_next->heap_prev = waiter->heap_prev;
	limiter->soonest = meld(limiter->soonest, below);
}

/* ---- places ---- */

static void get_in_line(struct rea_limiter *limiter, struct rea_limiter_waiter *waiter, uint64_t deadline_ns)
{
	waiter->deadline_ns = deadline_ns;
	waiter->ticket = limiter->tickets++;
	waiter->place = IN_LINE;
	append(&limiter->line, waiter);
	heap_push(limiter, waiter);
	limiter->waiting++;
}

static void leave_line(struct rea_limiter *limiter, struct rea_limiter_waiter *waiter)
{
	assert(waiter->place == IN_LINE);
	take_out(&limiter->line, waiter);
	heap_take_out(limiter, waiter);
	limiter->waiting--;
	waiter->place = IDLE;
}

static void settle(struct rea_limiter *limiter, struct rea_limiter_waiter *waiter, enum rea_limiter_verdict verdict)
{
	leave_line(limiter, waiter);
	waiter->verdict = verdict;
	waiter->place = SETTLED;
	append(&limiter->settled, waiter);
}

static void leave_settled(struct rea_limiter *limiter, struct rea_limiter_waiter *waiter)
{
	assert(waiter->place == SETTLED);
	take_out(&limiter->settled, waiter);
	waiter->place = IDLE;
}

static void see_time(struct rea_limiter *limiter, uint64_t now_ns)
{
	limiter->now_ns = rea_time_max(limiter->now_ns, now_ns);
}

/* Settle who is late, then who can have a slot. */
static void settle_all(struct rea_limiter *limiter, uint64_t now_ns)
{
	see_time(limiter, now_ns);
	while (limiter->soonest != NULL && limiter->soonest->deadline_ns <= limiter->now_ns)
		settle(limiter, limiter->soonest, REA_LIMITER_EXPIRED);
	while (limiter->line.first != NULL && limiter->in_use < limiter->concurrent_max) {
		limiter->in_use++;
		settle(limiter, limiter->line.first, REA_LIMITER_ACQUIRED);
	}
	limiter_assert_valid(limiter);
}

/* ---- what callers do ---- */

void rea_limiter_resize(struct rea_limiter *limiter, uint32_t concurrent_max, uint32_t waiting_max, uint64_t now_ns)
{
	assert(concurrent_max >= 1 && concurrent_max <= REA_LIMITER_CONCURRENT_MAX &&
	       waiting_max <= REA_LIMITER_WAITING_MAX && "rea_limiter_resize: a number is out of its bounds");
	limiter->concurrent_max = concurrent_max;
	limiter->waiting_max = waiting_max;
	settle_all(limiter, now_ns);
}

bool rea_limiter_try_acquire(struct rea_limiter *limiter)
{
	if (limiter->in_use >= limiter->concurrent_max)
		return false;
	limiter->in_use++;
	return true;
}

enum rea_limiter_verdict rea_limiter_acquire(
    struct rea_limiter *limiter, struct rea_limiter_waiter *waiter, uint64_t deadline_ns, uint64_t now_ns)
{
	assert(waiter->place == IDLE && "rea_limiter_acquire: the waiter is in line already");
	if (rea_limiter_try_acquire(limiter))
		return waiter->verdict = REA_LIMITER_ACQUIRED;
	/* Who is late must not keep a place in line. */
	settle_all(limiter, now_ns);
	if (deadline_ns <= limiter->now_ns)
		return waiter->verdict = REA_LIMITER_EXPIRED;
	if (limiter->waiting >= limiter->waiting_max)
		return waiter->verdict = REA_LIMITER_REFUSED;
	get_in_line(limiter, waiter, deadline_ns);
	return waiter->verdict = REA_LIMITER_WAITING;
}

void rea_limiter_release(struct rea_limiter *limiter, uint64_t now_ns)
{
	assert(limiter->in_use > 0 && "rea_limiter_release: nothing was acquired");
	limiter->in_use--;
	settle_all(limiter, now_ns);
}

void rea_limiter_cancel(struct rea_limiter *limiter, struct rea_limiter_waiter *waiter, uint64_t now_ns)
{
	if (waiter->place == IN_LINE) {
		leave_line(limiter, waiter);
	} else if (waiter->place == SETTLED) {
		leave_settled(limiter, waiter);
		if (waiter->verdict == REA_LIMITER_ACQUIRED)
			rea_limiter_release(limiter, now_ns);
	}
}

struct rea_limiter_waiter *rea_limiter_next(struct rea_limiter *limiter, uint64_t now_ns)
{
	struct rea_limiter_waiter *waiter;

	settle_all(limiter, now_ns);
	waiter = limiter->settled.first;
	if (waiter != NULL)
		leave_settled(limiter, waiter);
	return waiter;
}

uint64_t rea_limiter_next_ns(const struct rea_limiter *limiter)
{
	if (limiter->settled.first != NULL)
		return 0;
	return limiter->soonest != NULL ? limiter->soonest->deadline_ns : REA_NEVER;
}

uint32_t rea_limiter_in_use(const struct rea_limiter *limiter)
{
	return limiter->in_use;
}

uint32_t rea_limiter_waiting(const struct rea_limiter *limiter)
{
	return limiter->waiting;
}

const char *rea_limiter_verdict_name(enum rea_limiter_verdict verdict)
{
	static const char *const names[] = {
#define X(name, text) text,
	    REA_LIMITER_VERDICT_MAP(X)
#undef X
	};

	return (size_t)verdict < REA_LIMITER_VERDICT_COUNT ? names[verdict] : "unknown";
}
