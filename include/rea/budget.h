/*
 * The retry budget of one service, and the limit on concurrent retries of a process.
 *
 * A budget follows one of three rules, which its policy names:
 *   ratio  a share of the first attempts in a sliding window, and a reserve that is always there
 *   grpc   gRPC's throttle: a failure takes a token, a success gives a part of one back, retries go while more than half is left
 *   aws    the AWS SDKs' quota: a retry costs tokens by the failure it follows; a success gives the last retry's back, or one
 *
 * The life of a call:
 *   deposit ─▶ attempt ─▶ report ─▶ withdraw ─▶ attempt ─▶ report ─▶ …
 *                                      └─▶ refund, if that retry is never sent
 *
 * A budget is shared by all threads of a process. Under ratio a deposit, made for each first attempt, writes only the caller's own shard, and a
 * retry, the rare case, sums the shards. Under grpc and aws the level is one word; a success that finds it full writes nothing.
 */
#ifndef REA_BUDGET_H
#define REA_BUDGET_H

#include <rea/alloc.h>
#include <rea/policy.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rea_budget;

/* What an attempt came to, as far as budgets tell it apart. */
enum rea_budget_result {
	REA_BUDGET_SUCCESS,
	REA_BUDGET_TRANSIENT,  /* a failure that may pass, or one whose reply forbids another try */
	REA_BUDGET_TIMEOUT,    /* the same, after a wait in vain: for a connection or for a reply */
	REA_BUDGET_THROTTLING, /* the same, because the callee asked for less */
	REA_BUDGET_NEUTRAL     /* tells nothing: cancelled, or a failure that will not pass */
};

/* One retry that was taken. Plain value; {0} is none. It ends in one refund, if the retry is never sent, or in the report of its attempt. */
struct rea_budget_lease {
	uint64_t taken_ns;         /* private */
	enum rea_budget_rule rule; /* private: the one it was taken under */
	uint32_t cost;             /* private: in tokens of that rule */
	bool held;                 /* false: nothing was taken, or it is settled */
};

/* policy: copied. shards >= 1: how many threads deposit and report, each under its own index. alloc may be NULL. Returns 0, REA_ERR_NOMEM or
 * REA_ERR_INVALID (rea_budget_policy_validate says why). */
REA_API int rea_budget_new(const struct rea_budget_policy *policy, uint32_t shards, const struct rea_alloc *alloc,
    struct rea_budget **ret_budget);
REA_API void rea_budget_free(struct rea_budget *budget);
/* New numbers for a living budget. Under the same rule what was deposited and spent stays, and a level of tokens moves in proportion to the
 * new capacity; another rule begins full. Leases live on. Any thread, one at a time. */
REA_API void rea_budget_configure(struct rea_budget *budget, const struct rea_budget_policy *policy);

/* A first attempt was sent. Only the shard's own thread. */
REA_API void rea_budget_deposit(struct rea_budget *budget, uint32_t shard, uint64_t now_ns);
/* An attempt has ended. lease: of the retry that it was, settled by this; NULL or {0} for a first attempt. Only the shard's own thread. */
REA_API void rea_budget_report(struct rea_budget *budget, uint32_t shard, enum rea_budget_result result,
    struct rea_budget_lease *lease, uint64_t now_ns);
/* Take one retry after a failure, which was reported. failure: TRANSIENT, TIMEOUT or THROTTLING. False = exhausted, nothing taken, ret_lease
 * untouched. Any thread. */
REA_API bool rea_budget_withdraw(
    struct rea_budget *budget, enum rea_budget_result failure, uint64_t now_ns, struct rea_budget_lease *ret_lease);
/* Would a withdraw be granted now? Changes nothing. Any thread. */
REA_API bool rea_budget_permits(const struct rea_budget *budget, enum rea_budget_result failure, uint64_t now_ns);
/* Give back a retry that was never sent; the lease is settled, a settled one gives nothing. Any thread. */
REA_API void rea_budget_refund(struct rea_budget *budget, struct rea_budget_lease *lease, uint64_t now_ns);
/* Retries that could be taken now, each after one more transient failure; for display. Any thread. */
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
