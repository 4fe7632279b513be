/*
 * The retry budget of one service, and the limit on concurrent retries of a process.
 *
 * Both are shared by all threads of a process. A deposit, made for each first attempt, writes only the caller's own shard; a retry,
 * the rare case, sums the shards.
 */
#ifndef REA_BUDGET_H
#define REA_BUDGET_H

#include <rea/alloc.h>
#include <rea/policy.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rea_budget;

/* policy: copied. shards >= 1: how many threads deposit, each under its own index. alloc may be NULL. Returns 0, REA_ERR_NOMEM or
 * REA_ERR_INVALID. */
REA_API int rea_budget_new(const struct rea_budget_policy *policy, uint32_t shards, const struct rea_alloc *alloc,
    struct rea_budget **ret_budget);
REA_API void rea_budget_free(struct rea_budget *budget);
/* New numbers for a living budget; what was deposited and spent stays. Any thread. */
REA_API void rea_budget_configure(struct rea_budget *budget, const struct rea_budget_policy *policy);

/* A first attempt was sent. Only the shard's own thread. */
REA_API void rea_budget_deposit(struct rea_budget *budget, uint32_t shard, uint64_t now_ns);
/* Take one retry. False = exhausted, nothing taken. Any thread. */
REA_API bool rea_budget_withdraw(struct rea_budget *budget, uint64_t now_ns);
/* Give back a retry that was taken at taken_ns and never sent. Any thread. */
REA_API void rea_budget_refund(struct rea_budget *budget, uint64_t taken_ns, uint64_t now_ns);
/* Retries that could be taken now, for display. Any thread. */
REA_API uint64_t rea_budget_available(const struct rea_budget *budget, uint64_t now_ns);

/* The limit on retries in flight: plain data, any thread. Holds a slot from a retry's start to its report; a backoff holds none. */
struct rea_retry_limit {
	uint32_t in_use; /* private, atomic */
	uint32_t max;    /* private, atomic; >= 1 */
};
REA_API void rea_retry_limit_init(struct rea_retry_limit *limit, uint32_t max);
REA_API void rea_retry_limit_configure(struct rea_retry_limit *limit, uint32_t max);
REA_API bool rea_retry_limit_acquire(struct rea_retry_limit *limit);
REA_API void rea_retry_limit_release(struct rea_retry_limit *limit);
/* True when an acquire would fail now. */
REA_API bool rea_retry_limit_full(const struct rea_retry_limit *limit);
REA_API uint32_t rea_retry_limit_in_use(const struct rea_retry_limit *limit);

#ifdef __cplusplus
}
#endif
#endif
