/*
 * The executor: tasks that run until they succeed, are given up or cancelled. A task says what to do, its policy how to retry (decided by
 * rea/call.h), the executor when.
 *
 *   rea_executor_submit ─▶ PENDING ─▶ RUNNING ─▶ SUCCESS | GIVEN_UP | CANCELLED | HANDED_BACK
 *                                      │   ▲
 *                                      ▼   │
 *                                     RETRYING
 *
 * Sans-IO: whatever loop a program has waits until rea_executor_next and calls rea_executor_run. No clock, no thread, no randomness of its own;
 * time never runs backwards: an earlier now counts as the last seen. One thread at a time (rea/runner.h brings threads).
 *
 * Callbacks fire inside rea_executor_run and nowhere else. A callback may call anything but rea_executor_free; a rea_executor_run inside
 * one does nothing.
 */
#ifndef REA_EXECUTOR_H
#define REA_EXECUTOR_H

#include <rea/alloc.h>
#include <rea/call.h>
#include <rea/error.h>
#include <rea/event.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rea_executor;

/* Where a task stands. X(NAME, "NAME") */
#define REA_TASK_STATE_MAP(X)                                                        \
	X(PENDING, "PENDING")         /* no attempt was made yet */                  \
	X(RUNNING, "RUNNING")         /* an attempt is under way */                  \
	X(RETRYING, "RETRYING")       /* waits for another attempt; holds no slot */ \
	X(SUCCESS, "SUCCESS")         /* over */                                     \
	X(GIVEN_UP, "GIVEN_UP")       /* over: its reason says why */                \
	X(CANCELLED, "CANCELLED")     /* over: rea_executor_cancel, or a shutdown */ \
	X(HANDED_BACK, "HANDED_BACK") /* left at a shutdown: may be submitted again */

enum rea_task_state {
#define X(name, text) REA_TASK_##name,
	REA_TASK_STATE_MAP(X)
#undef X
	    REA_TASK_STATE_COUNT
};
/* "PENDING", …; "unknown" when out of range. Static. */
REA_API const char *rea_task_state_name(enum rea_task_state state);

/* ---- handlers ---- */

/* One attempt, as its handler sees it. Borrowed, with all it points to, until the attempt was reported or its cancel hook returned true. */
struct rea_attempt {
	uint64_t id;      /* of this attempt: for rea_executor_report */
	uint64_t task_id; /* for rea_executor_cancel */
	uint32_t number;  /* 1-based; goes on where a restored task stood */
	uint32_t attempts_max;
	uint64_t deadline_ns;      /* the handler ends the attempt by then; the executor does not watch it */
	uint64_t task_deadline_ns; /* of the whole task */
	struct rea_text name;      /* the task's texts, the same on every attempt */
	struct rea_text biz_id;
	struct rea_text trace_id;
	struct rea_text key; /* Idempotency-Key: byte-identical on every attempt */
	const void *payload;
	size_t payload_len;
	struct rea_grant grant;             /* the permission that holds, with its source */
	const struct rea_policy *policy;    /* its `classify` is the handler's to apply (rea_outcome_from_http) */
	size_t instance;                    /* index into the handler's instances; 0 without */
	struct rea_instance_id instance_id; /* zero without */
	void *task_data;                    /* the task's user_data */
};

/* What executes the tasks that name it. */
struct rea_handler {
	const char *name; /* 1..REA_TASK_TEXT_MAX bytes */
	/* Make the attempt. True: it has ended, with ret_report filled, which comes as ambiguous. False: it goes on, and one rea_executor_report
	 * ends it, from within this call or later. */
	bool (*attempt)(const struct rea_attempt *attempt, struct rea_report *ret_report, void *user_data);
	/* The task was cancelled, or a shutdown does not wait any longer: stop the attempt. True: it is over, nothing of it is touched or reported
	 * any more. False: it still runs; its slot and its memory stay until it is reported, and what is reported is ignored. NULL = false. */
	bool (*cancel)(const struct rea_attempt *attempt, void *user_data);
	/* Judge a result: make a success that is not good enough a failure, or the reverse. NULL = as reported. */
	void (*judge)(const struct rea_attempt *attempt, struct rea_report *report, void *user_data);
	/* The instances as they are now, to choose one for each attempt; borrowed until this is called again. NULL = a single target, which every
	 * attempt goes to. */
	const struct rea_instances *(*instances)(void *user_data);
	struct rea_budget *budget; /* borrowed while the executor lives; NULL = none */
	uint32_t budget_shard;
	struct rea_breaker *breaker; /* borrowed while the executor lives; NULL = off */
	const struct rea_gate *gate; /* the same, in place of breaker: one that threads share (rea/shared.h) */
	void *user_data;
};

/* ---- tasks ---- */

#define REA_TASK_TEXT_MAX 1024                    /* bytes of a name, biz_id, trace_id or key */
#define REA_TASK_PAYLOAD_MAX (UINT32_C(16) << 20) /* bytes */

/* What has come of a task so far, in this executor or another; {0} = nothing yet. */
struct rea_task_past {
	uint32_t attempts;
	bool interrupted; /* the last attempt never ended: it counts as ambiguous, and what follows is decided before anything is tried again */
	struct rea_report report; /* of the last attempt that ended; only outcome, code_kind and code are kept */
	const struct rea_instance_id *tried; /* instances of the last attempts, in order; at most REA_ATTEMPTS_MAX; NULL = not known */
	size_t tried_len;
};

struct rea_task_end;

struct rea_task {
	uint32_t version;                /* set by rea_task_init */
	const char *handler;             /* its name */
	const struct rea_policy *policy; /* borrowed while the task lives; NULL = rea_policy_task_defaults */
	struct rea_text name; /* what the program calls it; `call_id` of its events; empty = its id as a number */
	struct rea_text biz_id;
	struct rea_text trace_id;
	struct rea_text key; /* Idempotency-Key; empty = none */
	const void *payload;
	size_t payload_len;
	struct rea_grant grant; /* what the target declares; default NONE: one attempt */
	bool chained;           /* a layer above is already retrying */
	uint64_t not_before_ns; /* default 0 = at once */
	uint64_t deadline_ns; /* absolute; default REA_NEVER: the policy's deadline alone, which runs from the first attempt on */
	struct rea_task_past past;
	/* The task has left the executor: fires exactly once for every task that was submitted. NULL = nobody asks. */
	void (*done)(const struct rea_task_end *end, void *user_data);
	void *user_data;
};
#define REA_TASK_VERSION 1
REA_API void rea_task_init(struct rea_task *task);

/* How a task left. Borrowed until done returns. */
struct rea_task_end {
	uint64_t id;               /* no longer valid */
	enum rea_task_state state; /* SUCCESS, GIVEN_UP, CANCELLED or HANDED_BACK */
	enum rea_reason reason;    /* NONE for SUCCESS and HANDED_BACK, and in observe mode */
	bool stop;                 /* do not begin anew what was given up here (rea_decision) */
	uint32_t attempts; /* made in all; past.report of the task is that of the last one, also of one that was cancelled */
	uint32_t attempts_max;
	/* The task as it stands now: HANDED_BACK may be submitted again as it is, here or later; not_before_ns is its next time. */
	const struct rea_task *task;
};

/* ---- the executor ---- */

#define REA_EXECUTOR_CONCURRENCY_MAX 10000
#define REA_EXECUTOR_TASKS_MAX (UINT32_C(1) << 24)
#define REA_EXECUTOR_HANDLERS_MAX 1000

struct rea_executor_options {
	uint32_t version;           /* set by rea_executor_options_init */
	uint32_t concurrency;       /* attempts under way at once; 1..10000; default 16 */
	uint32_t tasks_max;         /* tasks it holds in all; 1..2^24; default 1000 */
	uint32_t task_attempts_max; /* bound of a policy's attempts; 1..REA_TASK_ATTEMPTS_MAX; default REA_ATTEMPTS_MAX */
	uint64_t seed;              /* of the jitter: a different one in each process; default 0 */
	struct rea_retry_limit *retry_limit; /* borrowed while the executor lives; NULL = none but concurrency */
	struct rea_retry_limit *parking; /* borrowed while the executor lives: tasks that a budget has parked; NULL = none but tasks_max */
	/* A decision: everything but a success at the first attempt, which is only counted. The event is borrowed until this returns; its
	 * time_unix_ns is 0, for the receiver to set. NULL = nobody listens. */
	void (*event)(struct rea_event *event, void *user_data);
	void *user_data; /* of event */
};
#define REA_EXECUTOR_OPTIONS_VERSION 1
REA_API void rea_executor_options_init(struct rea_executor_options *options);

/* options: copied. alloc may be NULL. Returns 0, REA_ERR_NOMEM, or REA_ERR_INVALID with key and message in ret_info (may be NULL). */
REA_API int rea_executor_new(const struct rea_executor_options *options, const struct rea_alloc *alloc,
    struct rea_executor **ret_executor, struct rea_error_info *ret_info);
/* The executor holds no task (rea_executor_shutdown brings it there). NULL is fine. */
REA_API void rea_executor_free(struct rea_executor *executor);

/* handler: copied, its name too; it stays as long as the executor. Returns 0, REA_ERR_NOMEM, REA_ERR_LIMIT beyond REA_EXECUTOR_HANDLERS_MAX, or
 * REA_ERR_INVALID (no attempt function, breaker and gate; a name that is empty, too long or taken), with ret_info. */
REA_API int rea_executor_handle(
    struct rea_executor *executor, const struct rea_handler *handler, struct rea_error_info *ret_info);

/* task: copied, all but its policy. An attempt is made at the earliest in the next rea_executor_run. Returns 0; REA_ERR_FULL: tasks_max are held;
 * REA_ERR_CLOSED: a shutdown has begun; REA_ERR_NOT_FOUND: no such handler; REA_ERR_INVALID: a field is out of its bounds; REA_ERR_NOMEM. All
 * but the last with ret_info (may be NULL). */
REA_API int rea_executor_submit(struct rea_executor *executor, const struct rea_task *task, uint64_t now_ns,
    uint64_t *ret_id, struct rea_error_info *ret_info);
/* The attempt has ended. attempt_id: of struct rea_attempt. report: copied; a latency_ns of 0 is filled in. Returns 0, or REA_ERR_NOT_FOUND when
 * nobody waits for it any longer: it was reported, or its task was cancelled. */
REA_API int rea_executor_report(
    struct rea_executor *executor, uint64_t attempt_id, const struct rea_report *report, uint64_t now_ns);
/* No further attempt; one under way is stopped by its handler's hook. The task ends as CANCELLED in the next rea_executor_run, unless an attempt
 * that was reported before ends it otherwise. Returns 0, or REA_ERR_NOT_FOUND when there is no such task any more. */
REA_API int rea_executor_cancel(struct rea_executor *executor, uint64_t id, uint64_t now_ns);

/* When rea_executor_run has something to do: 0 = at once; REA_NEVER = not before something is submitted, reported or cancelled. */
REA_API uint64_t rea_executor_next(const struct rea_executor *executor);
/* Tell what was decided, and begin what is due at now as far as there are slots. What callbacks add waits for the next run. */
REA_API void rea_executor_run(struct rea_executor *executor, uint64_t now_ns);

enum rea_shutdown {
	REA_SHUTDOWN_DRAIN = 1, /* what is there runs to its end; at the deadline the rest is handed back */
	REA_SHUTDOWN_HAND_BACK, /* what does not run is handed back; what runs may end until the deadline */
	REA_SHUTDOWN_CANCEL     /* everything is cancelled; the deadline means nothing */
};
/* Take nothing more and complete every task exactly once, in the runs that follow; it is over when rea_executor_stats has no tasks and nothing
 * running. An attempt that the deadline interrupts counts as ambiguous: its task is handed back if it may be repeated, else given up.
 * deadline_ns: absolute; REA_NEVER = none. May be called again to go faster: a later mode of the enum, an earlier deadline. */
REA_API void rea_executor_shutdown(struct rea_executor *executor, enum rea_shutdown mode, uint64_t deadline_ns);

/* Counters since the beginning, and gauges. */
struct rea_executor_stats {
	uint64_t submitted;
	uint64_t refused;                     /* submits that returned an error */
	uint64_t attempts[REA_OUTCOME_COUNT]; /* ended attempts, by outcome as judged */
	uint64_t retries;                     /* attempts after a task's first that were begun */
	uint64_t events;                      /* decisions that were told, or would have been were there a listener */
	uint64_t first_try_successes;         /* no event */
	uint64_t ended[REA_TASK_STATE_COUNT]; /* tasks that left, by how */
	uint32_t tasks;                       /* held now */
	uint32_t waiting;                     /* of them waiting for their time or for a slot */
	uint32_t running;                     /* slots in use: attempts under way, those of cancelled tasks too */
};
REA_API void rea_executor_stats(const struct rea_executor *executor, struct rea_executor_stats *ret_stats);
/* What it may hold and holds, when something is due, and of each handler its budget and breaker: in words, as rea/explain.h has it. */
REA_API size_t rea_executor_explain(const struct rea_executor *executor, uint64_t now_ns, char *ret_text, size_t size);
/* Where a task stands: PENDING, RUNNING or RETRYING. Returns 0 or REA_ERR_NOT_FOUND. */
REA_API int rea_executor_state(const struct rea_executor *executor, uint64_t id, enum rea_task_state *ret_state);

#ifdef __cplusplus
}
#endif
#endif
