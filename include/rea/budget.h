/*
 * The retry budget of one service, and the limit on concurrent retries of a process.
 *
 * A budget follows one of four rules, which its policy names:
 *   evidence  one retry for ten first attempts always, two at once; more as long as retries are seen to pay and seen not to hurt
 *   ratio     a share of the first attempts in a sliding window, and a reserve that is always there
 *   grpc      gRPC's throttle: a failure takes a token, a success gives a part of one back, retries go while more than half is left
 *   aws       the AWS SDKs' quota: a retry costs tokens by the failure it follows; a success gives the last retry's back, or one
 *
 * The life of a call:
 *   deposit ─▶ attempt ─▶ report ─▶ withdraw ─▶ attempt ─▶ report ─▶ …
 *                                      └─▶ refund, if that retry is never sent
 *
 * A budget is shared by all threads of a process. Under ratio a deposit, made for each first attempt, writes only the caller's own shard, and a
 * retry, the rare case, sums the shards. Under grpc and aws the level is one word; a success that finds it full writes nothing. Under evidence
 * there is one state for all threads: a first attempt and a success write the caller's shard alone and are brought into that state with the shard's
 * next failure, or when it counts again in another tenth of a second; failures and retries take a lock.
 */
#ifndef REA_BUDGET_H
#define REA_BUDGET_H

#include <rea/alloc.h>
#include <rea/policy.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rea_budget;

/* What speaks against a retry, and what the value of it means. */
enum rea_evidence_kind {
	REA_EVIDENCE_NONE,       /* nothing */
	REA_EVIDENCE_TOKENS,     /* the rule has none left; how many */
	REA_EVIDENCE_LATENCY,    /* congestion: so many times what it takes in quiet times */
	REA_EVIDENCE_TIMEOUTS,   /* congestion: their share of outcomes, 0..1 */
	REA_EVIDENCE_PUSHBACK,   /* congestion: the callee asks for less; the share of replies that do */
	REA_EVIDENCE_SUCCESS,    /* too few attempts succeed; the share that does */
	REA_EVIDENCE_DEAD,       /* so many instances could not be reached, and nothing succeeds */
	REA_EVIDENCE_RETRIES,    /* so many retries in 2 s are enough for its first attempts */
	REA_EVIDENCE_RECOVERING, /* life has returned after so many ns: those who wait spread out */
	REA_EVIDENCE_PARKED      /* so many calls wait, as many as may */
};

/* Why a budget refused a retry, or makes it wait. Plain value; {0} is none. */
struct rea_evidence {
	enum rea_evidence_kind kind;
	double value;
	double tokens; /* under the rule evidence: what is left besides; less than 1 */
};

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

/* policy: copied. shards >= 1: how many threads deposit and report, each under its own index. alloc may be NULL. Returns 0, REA_ERR_NOMEM, or
 * REA_ERR_INVALID with key and message in ret_info (may be NULL). */
REA_API int rea_budget_new(const struct rea_budget_policy *policy, uint32_t shards, const struct rea_alloc *alloc,
    struct rea_budget **ret_budget, struct rea_error_info *ret_info);
REA_API void rea_budget_free(struct rea_budget *budget); /* NULL is fine */
/* New numbers for a living budget. Under the same rule what was deposited, spent and seen stays, and a level of tokens moves in proportion to the
 * new capacity; another rule begins full. Leases live on. Any thread, one at a time. */
REA_API void rea_budget_configure(struct rea_budget *budget, const struct rea_budget_policy *policy);

/* A first attempt was sent. Only the shard's own thread. */
REA_API void rea_budget_deposit(struct rea_budget *budget, uint32_t shard, uint64_t now_ns);
/* An attempt has ended. lease: of the retry that it was, settled by this; NULL or {0} for a first attempt. Only the shard's own thread. What only
 * a call knows (rea/call.h: latency, instance) this leaves out. */
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

/* A budget as it stands, for display. Shares are 0..1. What is not named is of the rule evidence alone, else 0. */
struct rea_budget_view {
	enum rea_budget_rule rule; /* of every rule */
	uint64_t available;        /* of every rule: rea_budget_available */
	double tokens;
	uint64_t first_attempts; /* of the last 2 s, as all that follows */
	uint64_t retries;        /* granted */
	uint64_t outcomes;
	uint64_t timeouts;
	double success;            /* moving average */
	double pushback;           /* moving average */
	double latency_ns;         /* moving average of successes; 0 = none yet */
	double baseline_ns;        /* in quiet times; 0 = not known yet: about 10 s of calls tell it */
	double latency_ratio_max;  /* more than so many times the baseline is congestion; 0 = not known yet */
	uint64_t congested_ns;     /* no evidence for so long, if nothing more is seen; 0 = not congested */
	struct rea_evidence heat;  /* of the congestion, the present or the last one */
	uint64_t since_success_ns; /* 0 too when there was no attempt yet */
};
/* Any thread. */
REA_API void rea_budget_look(const struct rea_budget *budget, uint64_t now_ns, struct rea_budget_view *ret_view);

/* A limit on how many there are at once: plain data, any thread. Of retries in flight: a slot is held from a retry's start to its report, a backoff
 * holds none. Of parked calls: from the first decision to wait until the retry is granted, or the end of the call. */
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
REA_API uint32_t rea_retry_limit_max(const struct rea_retry_limit *limit);

#ifdef __cplusplus
}
#endif
#endif
