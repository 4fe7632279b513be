/*
 * One call: the decision of DESIGN.md section 5 as a plain object that a caller embeds.
 *
 *   rea_call_begin ─▶ rea_call_attempt ─▶ ATTEMPT instance ─▶ rea_call_report ─▶ WAIT until ─▶ rea_call_attempt …
 *                            └▶ DONE                                 └▶ DONE
 *
 * No clock, no I/O, no thread, no allocation. One thread at a time. Time never runs backwards: an earlier now counts as the last seen.
 */
#ifndef REA_CALL_H
#define REA_CALL_H

#include <rea/balancer.h>
#include <rea/breaker.h>
#include <rea/budget.h>
#include <rea/permission.h>
#include <rea/policy.h>
#include <rea/time.h>

#ifdef __cplusplus
extern "C" {
#endif

enum rea_verdict { REA_VERDICT_SUCCESS, REA_VERDICT_RETRY, REA_VERDICT_GIVE_UP };

/* Why. X(NAME, "name"), in the order of the rules. */
#define REA_REASON_MAP(X)                             \
	X(NONE, "")                                   \
	X(CANCELLED, "cancelled")                     \
	X(PERMANENT, "permanent")                     \
	X(BLOCKED, "blocked")                         \
	X(SERVER_REFUSED, "server_refused")           \
	X(NOT_RETRYABLE, "not_retryable")             \
	X(FORBIDDEN, "forbidden")                     \
	X(NOT_DECLARED, "not_declared")               \
	X(KEY_MISSING, "key_missing")                 \
	X(NOT_ENABLED, "not_enabled")                 \
	X(CHAIN_STOPPED, "chain_stopped")             \
	X(BODY_OVER_LIMIT, "body_over_limit")         \
	X(BODY_INCOMPLETE, "body_incomplete")         \
	X(RESPONSE_STARTED, "response_started")       \
	X(ATTEMPTS_EXHAUSTED, "attempts_exhausted")   \
	X(DEADLINE, "deadline")                       \
	X(NO_UNTRIED_INSTANCE, "no_untried_instance") \
	X(BREAKER_OPEN, "breaker_open")               \
	X(BUDGET_EXHAUSTED, "budget_exhausted")       \
	X(OVERLOADED, "overloaded")                   \
	X(PARKED, "parked")                           \
	X(CRASH_LOOP, "crash_loop")

enum rea_reason {
#define X(name, text) REA_REASON_##name,
	REA_REASON_MAP(X)
#undef X
	    REA_REASON_COUNT
};

/* What to do now. */
enum rea_step {
	REA_STEP_ATTEMPT, /* send the request to `instance`, end it by `attempt_deadline_ns`, then rea_call_report */
	REA_STEP_WAIT, /* rea_call_attempt again at `wait_until_ns`; reason PARKED: the budget may let it through later, it is asked again then */
	REA_STEP_DONE  /* the call is over: verdict and reason are final */
};

struct rea_decision {
	enum rea_step step;
	enum rea_verdict verdict; /* of the attempt just reported; RETRY for WAIT and ATTEMPT */
	enum rea_reason reason;   /* NONE for success and retry, PARKED for a wait that no attempt is sure to follow */
	bool stop; /* the call is given up in a way that a layer above must not retry: tell it `rea-retry: stop` */
	bool would_retry; /* observe mode: enforce would have retried, after wait_ns */
	bool retryable;   /* rules 3 to 6 found nothing against repeating this outcome */
	uint32_t attempt; /* ATTEMPT: number of the attempt to make; else of the one reported; 1-based, 0 = none was made */
	uint32_t attempts_max;
	size_t instance;              /* ATTEMPT: index into the instances given */
	uint64_t wait_ns;             /* WAIT, or would_retry */
	uint64_t wait_until_ns;       /* WAIT */
	uint64_t attempt_deadline_ns; /* ATTEMPT: absolute */
	struct rea_grant grant;       /* the permission that held, with its source */
	struct rea_evidence evidence; /* with budget_exhausted and parked: what spoke against a retry */
};

/* A breaker of another kind: one that threads share (rea/shared.h), or the program's own. The functions do what rea_breaker_acquire, _permits and
 * _report do: no permit without a report. Plain data, for any number of calls. */
struct rea_gate {
	bool (*acquire)(void *user_data, uint64_t now_ns, struct rea_breaker_permit *ret_permit);
	bool (*permits)(void *user_data, uint64_t now_ns);
	void (*report)(void *user_data, struct rea_breaker_permit *permit, enum rea_breaker_result result,
	    uint64_t latency_ns, uint64_t now_ns);
	void *user_data;
};

struct rea_call_options {
	uint32_t version;                /* set by rea_call_options_init */
	const struct rea_policy *policy; /* borrowed while the call lives; never NULL; one that rea_policy_validate accepts */
	struct rea_grant grant;          /* of all sources but the instance; default NONE */
	bool has_key;                    /* the call carries an Idempotency-Key */
	bool chained;                    /* an incoming mark says that a layer above is already retrying */
	uint64_t deadline_ns; /* absolute; default REA_NEVER = now + policy's deadline; the earlier of the two holds */
	bool deadline_open; /* no deadline runs yet (the request is still arriving): rea_call_start_deadline starts it */
	uint64_t useful_ns; /* median latency of an attempt, 0 = unknown; an attempt needs max(10 ms, this) to be useful */
	struct rea_budget *budget; /* borrowed; NULL = none (only for programs that have their own) */
	uint32_t budget_shard;
	struct rea_breaker *breaker;   /* borrowed; NULL = off */
	const struct rea_gate *gate;   /* borrowed; a breaker of another kind, in place of `breaker`; NULL = none */
	struct rea_retry_limit *limit; /* borrowed; NULL = none */
	struct rea_retry_limit *parking; /* borrowed; how many calls may be parked at once; NULL = none is parked, but given up */
	bool single_target; /* there is one target and no choice: instances are not looked at (NULL), every attempt is a move */
};
#define REA_CALL_OPTIONS_VERSION 1
REA_API void rea_call_options_init(struct rea_call_options *options);

/* A call that is parked: it waits for the budget, which is asked again every 50 to 100 ms (less often once it has waited for seconds). {0} = it is
 * not. Every member is private. */
struct rea_call_park {
	uint64_t since_ns;
	uint64_t asked_ns; /* not before this time, says the server */
	enum rea_budget_result failure;
	bool pushback; /* of the last attempt */
	bool spread;   /* it has let others go first since life returned */
	bool held;     /* it has its place in `parking` */
};

/* Embed it; every member is private. */
struct rea_call {
	struct rea_call_options options;
	uint32_t state;
	uint32_t attempts;             /* started */
	uint32_t same_left;            /* retries left on the current instance */
	uint32_t next_left;            /* moves left to another one */
	uint32_t attempts_max;         /* not beside attempts: a load of both would wait for the store of one */
	uint32_t permitted;            /* bit per rea_permission: which ones let the last outcome be repeated */
	enum rea_outcome last_outcome; /* set while WAITING */
	bool limit_held;               /* a slot of the limit, for the retry under way */
	uint32_t refused; /* bit per entry of tried, or the lowest of a single target: it could not be reached; the highest: another one was */
	uint64_t now_ns;      /* latest seen */
	uint64_t begin_ns;    /* when its time began to run */
	uint64_t deadline_ns; /* REA_NEVER while open */
	uint64_t wait_until_ns;
	struct rea_call_park park;     /* only while WAITING */
	struct rea_grant grant;        /* with the current instance's */
	struct rea_budget_lease lease; /* of the coming retry, or of the one under way */
	struct rea_breaker_permit permit;
	uint32_t tried_len;
	struct rea_instance_id tried[REA_ATTEMPTS_MAX]; /* of the last attempts, in order */
};

/* A call between two attempts, as it can be kept small, or stored, without its object. */
struct rea_call_past {
	uint32_t attempts;        /* made so far; >= 1 */
	enum rea_outcome outcome; /* of the last one */
	bool flying; /* the last one never ended (its process did): what continues the call reports it before anything else */
	uint64_t wait_until_ns;
	struct rea_budget_lease lease; /* of the coming retry; {0} = none: there is no budget, or it was another process's */
	struct rea_call_park park;           /* held: instead of a retry that was granted; {0} = it is not parked */
	uint32_t refused;                    /* private; 0 = not known */
	const struct rea_instance_id *tried; /* instances of the last attempts, in order; NULL with 0 when they are not known */
	size_t tried_len;                    /* <= REA_ATTEMPTS_MAX and <= attempts */
};

/* options: copied, or filled in where the call keeps them (call->options), which saves that. */
REA_API void rea_call_begin(struct rea_call *call, const struct rea_call_options *options, uint64_t now_ns);
/* The request is complete: the policy's deadline runs from now. Only with deadline_open; later calls change nothing. */
REA_API void rea_call_start_deadline(struct rea_call *call, uint64_t now_ns);
/* Choose the instance of the next attempt. ATTEMPT, or DONE when there is none to make (deadline, no instance, breaker, limit); for attempts after
 * the first also WAIT when called before the wait is over, and for a parked call: it stays parked, or goes on after its backoff. */
REA_API void rea_call_attempt(struct rea_call *call, const struct rea_instances *instances, struct rea_random *random,
    uint64_t now_ns, struct rea_decision *ret_decision);
/* The attempt under way has ended. WAIT or DONE. report: borrowed until return. instances: the list as it is now. */
REA_API void rea_call_report(struct rea_call *call, const struct rea_report *report,
    const struct rea_instances *instances, struct rea_random *random, uint64_t now_ns, struct rea_decision *ret_decision);
/* End the call in any state, during a wait too: gives back budget, slot and permit. DONE with reason cancelled. */
REA_API void rea_call_cancel(struct rea_call *call, uint64_t now_ns, struct rea_decision *ret_decision);
/* End the call before an attempt because of what the caller itself has in front of it: DONE with that reason. */
REA_API void rea_call_refuse(
    struct rea_call *call, enum rea_reason reason, uint64_t now_ns, struct rea_decision *ret_decision);
/* What has to be kept of a call that WAITs; lease and place in the parking go over to ret_past and the object is dead. tried: borrowed while the object lives. */
REA_API void rea_call_pause(struct rea_call *call, struct rea_call_past *ret_past);
/* Instead of rea_call_begin: go on where a call stood. options: copied; deadline_ns is that of the whole call (rea_call_deadline). past: borrowed until
 * return. Then rea_call_attempt, or rea_call_report if it was flying. */
REA_API void rea_call_resume(
    struct rea_call *call, const struct rea_call_options *options, const struct rea_call_past *past, uint64_t now_ns);
/* Absolute deadline of the call; REA_NEVER while open. */
REA_API uint64_t rea_call_deadline(const struct rea_call *call);
REA_API uint32_t rea_call_attempts(const struct rea_call *call);
REA_API bool rea_call_done(const struct rea_call *call);

REA_API const char *rea_verdict_name(enum rea_verdict verdict); /* "success", "retry", "give_up" */
REA_API const char *rea_reason_name(enum rea_reason reason);    /* "" for NONE */

/* "127.0.0.1:9001" or "[::1]:9001"; size >= 56 always fits. Returns the length. */
REA_API size_t rea_instance_id_format(const struct rea_instance_id *id, char *ret_text, size_t size);
/* The reverse; "127.0.0.1:80", "[::1]:80". Returns false for names and anything else. */
REA_API bool rea_instance_id_parse(const char *text, size_t length, struct rea_instance_id *ret_id);

#ifdef __cplusplus
}
#endif
#endif
