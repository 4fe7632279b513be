/*
 * A guard: all that stands between a program and a callee in one object, which any number of threads share.
 *
 *   each attempt:  rate limiter ─▶ concurrency limiter ─▶ circuit breaker ─▶ the call: permission, policy, deadline, budget, backoff
 *
 * The first two and the breaker are optional; the order is fixed, and rea_guard_explain prints it with every number that holds. What an attempt
 * took from one of them is given back when a later one refuses. A wait between attempts holds nothing.
 *
 * Two ways to run, and they mix:
 *   rea_guard_run     in the calling thread, which sleeps between attempts
 *   struct rea_guard_call   in a loop of the program's own: begin, ask when next, feed the outcome; no clock, no I/O, no allocation
 * The third is the executor (rea/executor.h).
 *
 * A thread joins once and hands its struct rea_guard_thread to each function; there are no thread-locals, so whatever a call carries (permission,
 * key, business id, deadline) is in the call's own options and nowhere else.
 */
#ifndef REA_GUARD_H
#define REA_GUARD_H

#include <rea/adaptive.h>
#include <rea/call.h>
#include <rea/event.h>
#include <rea/limiter.h>
#include <rea/metrics.h>
#include <rea/rate.h>
#include <rea/shared.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rea_guard;
struct rea_guard_call;

/* ---- making one ---- */

#define REA_GUARD_NAME_MAX 255
#define REA_GUARD_RETRIES_MAX 1000000

struct rea_guard_options {
	uint32_t version; /* set by rea_guard_options_init */
	const char *name; /* of the callee, at most REA_GUARD_NAME_MAX bytes: the `service` of its events; default "" */
	uint32_t threads; /* that may have joined at once; 1..REA_SHARDS_MAX; default 16 */
	struct rea_policy policy; /* default rea_policy_defaults: no retry until `enabled` is set, breaker off until `breaker.enabled` is */

	bool rate_on; /* default false */
	struct rea_rate_options rate;
	uint64_t rate_wait_ns; /* longest wait for a permit; at most REA_POLICY_DEADLINE_NS_MAX; default 0: none */

	bool limiter_on; /* default false */
	struct rea_limiter_options limiter;
	uint64_t limiter_wait_ns; /* longest wait in line, where there is one; at most REA_POLICY_DEADLINE_NS_MAX; default 1 s */
	bool adaptive_on; /* limiter.concurrent_max follows the latency; needs limiter_on; default false */
	struct rea_adaptive_options adaptive;

	uint32_t concurrent_retries; /* retries in flight; 1..REA_GUARD_RETRIES_MAX; default 256 */
	struct rea_retry_limit *retry_limit; /* borrowed while the guard lives: one for all guards of a process; NULL = its own */
	uint32_t parked_calls;           /* calls that the budget has parked; 1..REA_GUARD_RETRIES_MAX; default 1000 */
	struct rea_retry_limit *parking; /* borrowed while the guard lives: one for all guards of a process; NULL = its own */

	/* A decision: everything but a success at the first attempt, which is only counted; and a change of the breaker's state. On the thread that
	 * made it, when all is settled: it may use the guard, but not the call. The event is borrowed until return; its time_unix_ns is 0, for the
	 * receiver to set. NULL = nobody listens. */
	void (*event)(struct rea_event *event, void *user_data);
	/* A call that waits in line for a slot has one: call rea_guard_next soon, on whatever thread has it. From any thread, under a lock of the
	 * guard: it must not use the guard, only pass the word on. NULL: such calls do not wait in line; those of rea_guard_run do anyway. */
	void (*wake)(struct rea_guard_call *call, void *user_data);
	void *user_data;
};
#define REA_GUARD_OPTIONS_VERSION 1
/* The defaults, all of them. */
REA_API void rea_guard_options_init(struct rea_guard_options *options);

/* options: copied, the name too. alloc may be NULL. Returns 0, REA_ERR_NOMEM, or REA_ERR_INVALID with the field, its value and its bound in
 * ret_info (may be NULL). */
REA_API int rea_guard_new(const struct rea_guard_options *options, const struct rea_alloc *alloc,
    struct rea_guard **ret_guard, struct rea_error_info *ret_info);
/* Every call is over and every thread has left. NULL is fine. */
REA_API void rea_guard_free(struct rea_guard *guard);

/* The order, and each number with what is left of it now, in words as rea/explain.h has it. Any thread. */
REA_API size_t rea_guard_explain(const struct rea_guard *guard, uint64_t now_ns, char *ret_text, size_t size);
/* The numbers of all threads so far. Any thread. */
REA_API void rea_guard_stats(const struct rea_guard *guard, struct rea_service_stats *ret_stats);
/* The breaker, for its state and for operators; NULL without one. */
REA_API struct rea_shared_breaker *rea_guard_breaker(struct rea_guard *guard);
/* The policy as it holds; its `classify` is the program's to apply. */
REA_API const struct rea_policy *rea_guard_policy(const struct rea_guard *guard);

/* ---- threads ---- */

/* A thread's part of a guard. Embed it, on the stack if need be; every member is private. */
struct rea_guard_thread {
	struct rea_guard *guard;
	uint32_t shard;
	int wake_fd;
	struct rea_random random;
};
/* seed: of waits and choices, a different one for each thread (rea_seed). Returns 0, or REA_ERR_FULL when options.threads have joined. */
REA_API int rea_guard_join(struct rea_guard *guard, uint64_t seed, struct rea_guard_thread *ret_thread);
/* The thread's calls are over, or go on under other threads. */
REA_API void rea_guard_leave(struct rea_guard_thread *thread);
/* 64 random bits from the system. */
REA_API uint64_t rea_seed(void);

/* ---- what a call carries ---- */

/* One attempt as the function that makes it sees it; borrowed, with all it points to, until that returns. */
struct rea_guard_attempt {
	uint32_t number; /* 1-based */
	uint32_t attempts_max;
	uint64_t deadline_ns; /* of this attempt, on CLOCK_MONOTONIC under rea_guard_run: end it by then */
	const struct rea_instance *instance; /* to send it to; NULL = there is no list */
	struct rea_text key;                 /* Idempotency-Key: byte-identical on every attempt */
	struct rea_text biz_id;
	struct rea_text trace_id;
	struct rea_grant grant; /* the permission that holds, with its source */
	const struct rea_policy *policy;
	int cancel_fd; /* as given; -1 = none: poll it beside the attempt's own descriptors */
};

/* Plain data. Borrowed, with all it points to, while the call lives. */
struct rea_guard_call_options {
	uint32_t version;       /* set by rea_guard_call_options_init */
	struct rea_grant grant; /* what the callee declares; default NONE, which permits nothing */
	struct rea_text key;    /* Idempotency-Key; empty = none */
	struct rea_text biz_id; /* the texts of its events; empty = none */
	struct rea_text trace_id;
	struct rea_text call_id;
	struct rea_text method;
	uint64_t deadline_ns; /* absolute; default REA_NEVER: the policy's deadline alone */
	uint64_t useful_ns;   /* median latency of an attempt; default 0 = unknown */
	bool chained;         /* a layer above is already retrying; default false */
	/* The attempt that this call is a part of; NULL = none. It lends its deadline and, where none is given here, biz_id and trace_id; above its first
	 * attempt this call is chained. Never its permission, never its key: those are between one caller and one callee. */
	const struct rea_guard_attempt *outer;
};
#define REA_GUARD_CALL_OPTIONS_VERSION 1
REA_API void rea_guard_call_options_init(struct rea_guard_call_options *options);

/* ---- (a) in the program's own loop ---- */

/* Which part of the guard ended a call or makes it wait. X(NAME, "name") */
#define REA_GUARD_STAGE_MAP(X) \
	X(NONE, "none")        \
	X(RATE, "rate")        \
	X(LIMITER, "limiter")  \
	X(BREAKER, "breaker")  \
	X(CALL, "call")

enum rea_guard_stage {
#define X(name, text) REA_GUARD_STAGE_##name,
	REA_GUARD_STAGE_MAP(X)
#undef X
	    REA_GUARD_STAGE_COUNT
};

/* Embed it; every member is private but user_data. Zero-initialise it, or begin. */
struct rea_guard_call {
	void *user_data; /* the program's */
	const struct rea_guard_call_options *options;
	struct rea_guard *guard;
	uint32_t state;
	enum rea_guard_stage stage;
	int wake_fd;
	uint32_t in_flight; /* slots taken when the attempt began */
	uint64_t begin_ns;
	uint64_t attempt_ns; /* the attempt under way began */
	uint64_t due_ns;     /* PARKED: when to look again */
	struct rea_rate_reservation reservation;
	struct rea_limiter_waiter waiter;
	struct rea_call call;
};

/*
 *   rea_guard_begin ─▶ rea_guard_next ─▶ ATTEMPT ─▶ rea_guard_report ─▶ WAIT until ─▶ rea_guard_next …
 *                           ├▶ WAIT (parked) ─▶ rea_guard_next       └▶ DONE
 *                           └▶ DONE
 *
 * One thread at a time has a call, not always the same one: `thread` is the part of the one that calls. instances: as for rea_call_attempt;
 * NULL = there is no list, and every attempt goes to the one callee. A now that is earlier than the last one of the call counts as that.
 * Using a call out of this order dies on an assertion.
 */
REA_API void rea_guard_begin(struct rea_guard_call *call, struct rea_guard_thread *thread,
    const struct rea_guard_call_options *options, uint64_t now_ns);
/* ATTEMPT: send it, then report. WAIT: again at wait_until_ns, or when `wake` says so; reason `parked` if it is a limiter that makes it wait,
 * or the budget (rea_guard_call_stage tells which). DONE. */
REA_API void rea_guard_next(struct rea_guard_call *call, struct rea_guard_thread *thread,
    const struct rea_instances *instances, uint64_t now_ns, struct rea_decision *ret_decision);
/* The attempt under way has ended. WAIT or DONE. report: borrowed until return; a latency_ns of 0 is filled in. */
REA_API void rea_guard_report(struct rea_guard_call *call, struct rea_guard_thread *thread, const struct rea_report *report,
    const struct rea_instances *instances, uint64_t now_ns, struct rea_decision *ret_decision);
/* End the call in any state, DONE with reason cancelled; one that is over stays as it is (DONE, reason cancelled too). */
REA_API void rea_guard_cancel(
    struct rea_guard_call *call, struct rea_guard_thread *thread, uint64_t now_ns, struct rea_decision *ret_decision);
/* Who made it wait, or ended it. */
REA_API enum rea_guard_stage rea_guard_call_stage(const struct rea_guard_call *call);
/* The attempt under way, for what is called within it. */
REA_API void rea_guard_call_attempt(const struct rea_guard_call *call, const struct rea_instances *instances,
    const struct rea_decision *decision, struct rea_guard_attempt *ret_attempt);
/* "none", …; "unknown" when out of range. Static. */
REA_API const char *rea_guard_stage_name(enum rea_guard_stage stage);

/* ---- (b) in the calling thread ---- */

struct rea_guard_run_options {
	uint32_t version; /* set by rea_guard_run_options_init */
	struct rea_guard_call_options call;
	const struct rea_instances *instances; /* borrowed until return; default NULL = one callee, no list */
	/* A descriptor that becomes readable when the call shall end, from any thread: an eventfd, a pipe. Never read; waits look at it, the
	 * attempt's function may. Default -1 = none. */
	int cancel_fd;
};
#define REA_GUARD_RUN_OPTIONS_VERSION 1
REA_API void rea_guard_run_options_init(struct rea_guard_run_options *options);

/* How a call ended. */
struct rea_guard_result {
	struct rea_decision decision; /* the last: verdict, reason, attempts, stop */
	enum rea_guard_stage stage;   /* who ended it; NONE for success */
	struct rea_report report;     /* of the last attempt that ended; NEVER_SENT when none was made */
};

/* Call `attempt` until it succeeds or the guard gives up, sleeping in between. Returns REA_VERDICT_SUCCESS, which is 0, or REA_VERDICT_GIVE_UP.
 * options NULL = as initialised: one attempt. ret_result may be NULL. attempt: must return by its deadline; may run other calls on this thread. */
REA_API enum rea_verdict rea_guard_run(struct rea_guard_thread *thread,
    struct rea_report (*attempt)(const struct rea_guard_attempt *attempt, void *arg), void *arg,
    const struct rea_guard_run_options *options, struct rea_guard_result *ret_result);

/* ---- reports ---- */

REA_API struct rea_report rea_report_ok(void);
/* Any other outcome, without a code. */
REA_API struct rea_report rea_report_fail(enum rea_outcome outcome);
/* From an errno value. 0 is OK, ECANCELED is CANCELLED; what no repetition mends (EACCES, EINVAL, …) is PERMANENT; everything else by its phase. */
REA_API struct rea_report rea_report_from_errno(int error, enum rea_phase phase);
/* From an HTTP status. policy: for its `classify`; NULL = none. */
REA_API struct rea_report rea_report_from_http(uint32_t status, const struct rea_policy *policy);
/* From a call within the attempt: what it came to, and whether it may be begun anew. */
REA_API struct rea_report rea_report_from_result(const struct rea_guard_result *result);

#ifdef __cplusplus
}
#endif
#endif
