/* What the files of this room share. */
#ifndef REA_GUARD_INTERNAL_H
#define REA_GUARD_INTERNAL_H

#include <rea/guard.h>

#include <pthread.h>

#define REA__CACHE_LINE 64

/* What one thread writes: on cache lines of its own. */
struct rea__guard_shard {
	_Alignas(REA__CACHE_LINE) struct rea_service_stats stats;
	struct rea_shared_gate gate;
};

struct rea_guard {
	/* Read by every call, never written. */
	struct rea_guard_options options; /* name: name[] */
	struct rea_call_options call;     /* what all calls begin with */
	struct rea_budget *budget;
	struct rea_shared_breaker *breaker; /* NULL = off */
	struct rea_retry_limit *retry_limit;
	struct rea_retry_limit *parking;
	struct rea__guard_shard *shards;
	struct rea_alloc alloc;
	void *block; /* what was allocated */
	char name[REA_GUARD_NAME_MAX + 1];

	_Alignas(REA__CACHE_LINE) struct rea_retry_limit own_retry_limit;
	struct rea_retry_limit own_parking;
	struct rea_shards taken;
	_Alignas(REA__CACHE_LINE) pthread_mutex_t rate_lock;
	struct rea_rate rate;
	_Alignas(REA__CACHE_LINE) pthread_mutex_t limiter_lock;
	struct rea_limiter limiter;
	struct rea_adaptive adaptive;
};

/* Where a call stands: guard_call.c has the diagram. */
enum rea__guard_state {
	REA__GUARD_NONE,
	REA__GUARD_READY,
	REA__GUARD_RESERVED,
	REA__GUARD_IN_LINE,
	REA__GUARD_FLYING,
	REA__GUARD_DONE
};

/* Of rea_guard_call.wake_fd, where it is no descriptor. */
#define REA__WAKE_CALLBACK (-1) /* the guard's `wake` passes the word on */
#define REA__WAKE_NOBODY (-2)   /* the call cannot wait in line */

/* ---- stages.c: what stands before the call ---- */

enum rea__answer {
	REA__PASSED,
	REA__PARKED, /* look again at call->due_ns */
	REA__REFUSED /* call->stage says by whom; nothing is held */
};

/* Take what an attempt needs, or get in line for it. The state becomes RESERVED or IN_LINE as that is held. */
enum rea__answer rea__guard_pass(struct rea_guard_call *call, uint64_t now_ns);
/* Give back what rea__guard_pass took or waits for: there will be no attempt now. */
void rea__guard_unpass(struct rea_guard_call *call, uint64_t now_ns);
/* The attempt has ended. report NULL: it was cancelled. */
void rea__guard_land(struct rea_guard_call *call, const struct rea_report *report, uint64_t now_ns);

#endif
