/*
 * Circuit breaker with Resilience4j's states, names and defaults (ALGORITHMS.md section 5), on monotonic time and
 * with permits that carry the generation they were given in: a result of a call begun before the breaker opened
 * counts in statistics, never in a half-open decision.
 *
 * One thread at a time.
 */
#ifndef REA_BREAKER_H
#define REA_BREAKER_H

#include <rea/alloc.h>
#include <rea/policy.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rea_breaker;

/* X(NAME, "name") */
#define REA_BREAKER_STATE_MAP(X)      \
	X(CLOSED, "closed")           \
	X(OPEN, "open")               \
	X(HALF_OPEN, "half_open")     \
	X(DISABLED, "disabled")       \
	X(FORCED_OPEN, "forced_open") \
	X(METRICS_ONLY, "metrics_only")

enum rea_breaker_state {
#define X(name, text) REA_BREAKER_##name,
	REA_BREAKER_STATE_MAP(X)
#undef X
	    REA_BREAKER_STATE_COUNT
};

/* A permission to make one call. Plain value; every permit that was given must come back once through
 * rea_breaker_report. */
struct rea_breaker_permit {
	uint64_t generation; /* private */
	bool given;          /* false: nothing to report */
};

enum rea_breaker_result {
	REA_BREAKER_SUCCESS,
	REA_BREAKER_FAILURE,
	REA_BREAKER_IGNORED /* cancelled, refused by a later stage, never sent for our own reasons: the permit goes back */
};

/* policy: copied; its `enabled` is the caller's business. alloc may be NULL. Returns 0, REA_ERR_NOMEM, or
 * REA_ERR_INVALID with key and message in ret_info (may be NULL). */
REA_API int rea_breaker_new(const struct rea_breaker_policy *policy, const struct rea_alloc *alloc,
    struct rea_breaker **ret_breaker, struct rea_error_info *ret_info);
REA_API void rea_breaker_free(struct rea_breaker *breaker); /* NULL is fine */

/* Ask before a call. True: go, with the permit filled. False: open. */
REA_API bool rea_breaker_acquire(struct rea_breaker *breaker, uint64_t now_ns, struct rea_breaker_permit *ret_permit);
/* Would an acquire be granted now? Changes nothing. */
REA_API bool rea_breaker_permits(const struct rea_breaker *breaker, uint64_t now_ns);
/* The call's end. A permit is good for one report; it is cleared. */
REA_API void rea_breaker_report(struct rea_breaker *breaker, struct rea_breaker_permit *permit,
    enum rea_breaker_result result, uint64_t latency_ns, uint64_t now_ns);

/* The state at now (an OPEN whose wait has passed still reads OPEN until the next acquire). */
REA_API enum rea_breaker_state rea_breaker_state(const struct rea_breaker *breaker);
/* Operator's override: any state; CLOSED starts a fresh window. */
REA_API void rea_breaker_force(struct rea_breaker *breaker, enum rea_breaker_state state, uint64_t now_ns);
/* Percent over the window, or -1 below the minimum number of calls. The window goes on through OPEN and HALF_OPEN;
 * closing starts it afresh. */
REA_API double rea_breaker_failure_rate(const struct rea_breaker *breaker, uint64_t now_ns);
REA_API double rea_breaker_slow_call_rate(const struct rea_breaker *breaker, uint64_t now_ns);
/* Called inside acquire, report and force when the state changes; must not call back into the breaker. now_ns is when
 * the change was due: what max_wait_in_half_open ends is noticed at the next call. NULL = none. */
REA_API void rea_breaker_on_change(struct rea_breaker *breaker,
    void (*changed)(enum rea_breaker_state from, enum rea_breaker_state to, uint64_t now_ns, void *user_data),
    void *user_data);
/* "closed", …; "unknown" when out of range. Static. */
REA_API const char *rea_breaker_state_name(enum rea_breaker_state state);

#ifdef __cplusplus
}
#endif
#endif
