/*
 * For services with many threads: shards, and a circuit breaker that all of them share.
 *
 * What every call counts is written to a cache line of the thread's own. A thread takes a shard once, when it begins, and hands its index to
 * each function that counts; there are no thread-locals. An object that was made for n shards (rea/budget.h, the breaker here, rea/guard.h) has
 * room for the indexes 0 to n - 1.
 */
#ifndef REA_SHARED_H
#define REA_SHARED_H

#include <rea/call.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- shards ---- */

#define REA_SHARDS_MAX 1024

/* Who has which index. Embed it; every member is private. Any thread. */
struct rea_shards {
	uint32_t max;
	uint64_t taken[REA_SHARDS_MAX / 64]; /* atomic, one bit each */
};
/* max: 1..REA_SHARDS_MAX. */
REA_API void rea_shards_init(struct rea_shards *shards, uint32_t max);
/* The lowest free index. Returns 0, or REA_ERR_FULL when max are taken. */
REA_API int rea_shards_take(struct rea_shards *shards, uint32_t *ret_shard);
/* The thread counts no more under this index; the next one that takes it goes on from there. */
REA_API void rea_shards_give_back(struct rea_shards *shards, uint32_t shard);

/* ---- circuit breaker ---- */

/*
 * The breaker of rea/breaker.h, by the same rules: for results that come one after the other both come to the same decision at the same one.
 *
 * While it is closed, letting a call through is one read of a word that hardly ever changes, and a success that is not slow is one store to the
 * caller's shard. Such successes are moved into the window when something happens that they could have a part in: a failure, a slow call, a new second (time
 * windows), the last calls before the minimum, or 65536 more of them on one shard. Until then they are missing from nothing but the window: the
 * breaker never opens at a rate that was not there. Everything else, failures above all, takes a lock. A refusal takes none.
 *
 * Results that race with a change of state belong to the generation of their permit: they may be counted in statistics, never in a decision.
 *
 * Any thread. Threads may bring times that differ a little: where a state or a window changes an earlier now counts as the latest one seen; whether
 * an open breaker refuses goes by the caller's own.
 */
struct rea_shared_breaker;

/* policy: copied; its `enabled` is the caller's business. shards: 1..REA_SHARDS_MAX. alloc may be NULL. Returns 0, REA_ERR_NOMEM, or
 * REA_ERR_INVALID with key and message in ret_info (may be NULL). */
REA_API int rea_shared_breaker_new(const struct rea_breaker_policy *policy, uint32_t shards,
    const struct rea_alloc *alloc, struct rea_shared_breaker **ret_breaker, struct rea_error_info *ret_info);
REA_API void rea_shared_breaker_free(struct rea_shared_breaker *breaker); /* NULL is fine */

/* As rea_breaker_acquire, rea_breaker_permits and rea_breaker_report. The permit may be reported under another shard than it was acquired on,
 * by the thread that has that shard. */
REA_API bool rea_shared_breaker_acquire(
    struct rea_shared_breaker *breaker, uint64_t now_ns, struct rea_breaker_permit *ret_permit);
REA_API bool rea_shared_breaker_permits(const struct rea_shared_breaker *breaker, uint64_t now_ns);
REA_API void rea_shared_breaker_report(struct rea_shared_breaker *breaker, uint32_t shard,
    struct rea_breaker_permit *permit, enum rea_breaker_result result, uint64_t latency_ns, uint64_t now_ns);

REA_API enum rea_breaker_state rea_shared_breaker_state(const struct rea_shared_breaker *breaker);
REA_API void rea_shared_breaker_force(struct rea_shared_breaker *breaker, enum rea_breaker_state state, uint64_t now_ns);
/* Percent, or -1 below the minimum number of calls. */
REA_API double rea_shared_breaker_failure_rate(const struct rea_shared_breaker *breaker, uint64_t now_ns);
REA_API double rea_shared_breaker_slow_call_rate(const struct rea_shared_breaker *breaker, uint64_t now_ns);
/* In words, as rea/explain.h has it. */
REA_API size_t rea_shared_breaker_explain(
    const struct rea_shared_breaker *breaker, uint64_t now_ns, char *ret_text, size_t size);

/* A change of state, told by the thread that made it after it has let go of the lock: it may call back into the breaker. Two changes in quick
 * succession may be told out of order; generation is their order. now_ns is when the change was due. */
struct rea_breaker_change {
	enum rea_breaker_state from, to;
	uint64_t generation;
	uint64_t now_ns;
};
/* Before the breaker is shared. NULL = none. */
REA_API void rea_shared_breaker_on_change(struct rea_shared_breaker *breaker,
    void (*changed)(const struct rea_breaker_change *change, void *user_data), void *user_data);

/* The breaker as a call under a shard sees it: `gate` for rea_call_options. Embed it; the rest is private. */
struct rea_shared_gate {
	struct rea_gate gate; /* user_data: this object, which stays where it is */
	struct rea_shared_breaker *breaker;
	uint32_t shard;
};
/* breaker: borrowed while the gate is in use, by the shard's thread alone. */
REA_API void rea_shared_gate_init(struct rea_shared_gate *gate, struct rea_shared_breaker *breaker, uint32_t shard);

#ifdef __cplusplus
}
#endif
#endif
