/*
 * The store of durable tasks: what is acknowledged here survives. One interface, several stores behind it: memory (below),
 * SQLite (rea/store_sqlite.h).
 *
 *   submit ─▶ PENDING ─claim─▶ RUNNING ─finish─▶ SUCCESS | GIVEN_UP | CANCELLED ─replay─▶ PENDING, next generation
 *                                │  ▲
 *                      reschedule▼  │claim
 *                              RETRYING
 *
 * Every change of a task names the claim under which it is made, and is refused with REA_ERR_CONFLICT when that is no longer the
 * one that holds: a worker that comes too late changes nothing. A claim is a lease: nobody else gets the task until it ends.
 *
 * Operations are asynchronous. Each returns at once; what became of it is told by `done`, inside rea_store_drain or rea_store_close
 * and nowhere else, exactly once, in the order of the calls. If the call itself returns an error, done never fires. Success means:
 *   on disk (a sync came after it)   submit, finish, cancel, replay, and claim unless it is relaxed
 *   survives the process alone       heartbeat, record, reschedule, maintain, a relaxed claim: on disk with the next sync, which a
 *                                    power cut may forestall; what is lost then is at most one attempt
 * An operation that failed with REA_ERR_IO or REA_ERR_NOMEM has changed nothing (but for a process that dies in the midst of failing: then
 * as for one that was never acknowledged, it may or may not have happened).
 *
 * Which tasks the caller has to keep in memory: an open task that nobody runs is either *soon* or on disk alone. Soon is what
 * rea_store_due has handed out, and what an operation gave a time no later than that (its result says `soon`). Everything else
 * waits on disk until a rea_store_due asks beyond its time; a million of them cost no memory.
 *
 * Times given and told are monotonic nanoseconds, an earlier now counts as the last seen; each store keeps time in its rows in its
 * own way. A step of the wall clock moves nothing.
 *
 * One thread at a time for a store, one for each reader; they may be different ones. The allocator must bear calls from several
 * threads. Texts that are too long, delays beyond bounds and other misuse are refused with REA_ERR_INVALID.
 */
#ifndef REA_STORE_H
#define REA_STORE_H

#include <rea/alloc.h>
#include <rea/error.h>
#include <rea/event.h>
#include <rea/outcome.h>
#include <rea/time.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rea_store;

/* X(NAME, "NAME"). The values stand in rows and are never renumbered. */
#define REA_STORE_STATE_MAP(X)                                                  \
	X(PENDING, "PENDING")     /* this generation has made no attempt yet */ \
	X(RUNNING, "RUNNING")     /* claimed: an attempt is under way */        \
	X(RETRYING, "RETRYING")   /* waits for another attempt */               \
	X(SUCCESS, "SUCCESS")     /* over */                                    \
	X(GIVEN_UP, "GIVEN_UP")   /* over: its reason says why */               \
	X(CANCELLED, "CANCELLED") /* over */

enum rea_store_state {
#define X(name, text) REA_STORE_##name,
	REA_STORE_STATE_MAP(X)
#undef X
	    REA_STORE_STATE_COUNT
};
#define REA_STORE_STATE_BIT(state) (UINT32_C(1) << (state))
#define REA_STORE_STATES_OPEN                                                              \
	(REA_STORE_STATE_BIT(REA_STORE_PENDING) | REA_STORE_STATE_BIT(REA_STORE_RUNNING) | \
	    REA_STORE_STATE_BIT(REA_STORE_RETRYING))
#define REA_STORE_STATES_ALL ((UINT32_C(1) << REA_STORE_STATE_COUNT) - 1)
/* "PENDING", …; "unknown" when out of range. Static. */
REA_API const char *rea_store_state_name(enum rea_store_state state);
/* The state called name (length bytes), or -1. */
REA_API int rea_store_state_parse(const char *name, size_t length);

#define REA_STORE_TEXT_MAX 1024                                        /* bytes of any text */
#define REA_STORE_PAYLOAD_MAX (UINT32_C(17) << 20)                     /* a body of 16 MiB and what goes around it */
#define REA_STORE_DELAY_NS_MAX (UINT64_C(3653) * 86400 * REA_NS_PER_S) /* ten years: of a delay, a lease, an age */
#define REA_STORE_DUE_MAX 256                                          /* tasks of one rea_store_due */
#define REA_STORE_MAINTAIN_MAX 1000                                    /* rows that one rea_store_maintain looks at */
#define REA_STORE_PAGE_MAX 1000                                        /* tasks, or attempts, of one read */
#define REA_STORE_SUBMIT_ATTEMPTS_MAX 100                              /* attempts made before a submit */

/* ---- what is stored ---- */

/* What a task is; never changes. */
struct rea_store_spec {
	struct rea_text target; /* what it goes to, for filters and limits: a service, an origin; not empty */
	struct rea_text biz_id; /* "" = none */
	struct rea_text key;    /* a second submit with it is the same task, as long as this one is kept; "" = none */
	uint8_t fingerprint[16]; /* what a second submit has to equal: the caller's hash of the body and all else that counts */
	struct rea_text payload; /* the request and its policy, as the caller writes them; opaque */
};

/* One attempt that has ended. */
struct rea_store_attempt {
	uint32_t number;     /* told by reads, given to submit; else that of the claim */
	uint32_t generation; /* told by reads */
	bool interrupted;    /* told by reads: nobody knows how it ended (crash, expired lease); outcome AMBIGUOUS */
	enum rea_outcome outcome; /* CANCELLED: the task was cancelled meanwhile */
	enum rea_code_kind code_kind;
	uint32_t code;
	uint64_t start_ns;     /* given */
	int64_t start_unix_ns; /* told by reads */
	uint64_t cost_ns;
	struct rea_text instance; /* "" = none */
	struct rea_text reason;   /* of the decision that followed; "" = it was retried, or a success */
	struct rea_text detail;   /* for people: what the target said; "" = nothing */
};

/* A task as it stands. */
struct rea_store_task {
	uint64_t id; /* never used again; a later submit has a greater one */
	enum rea_store_state state;
	uint32_t generation;      /* 1, one more with each replay */
	uint32_t attempt;         /* number of the latest attempt that was begun; goes on over generations; 0 = none */
	uint32_t attempts_before; /* of it in earlier generations */
	uint32_t crashes;         /* attempts in a row, up to the latest, that were interrupted */
	uint64_t claim;           /* RUNNING: of the holder, greater than any before; else 0 */
	uint64_t due_ns;          /* PENDING, RETRYING: next attempt; RUNNING: end of the lease; else REA_NEVER */
	int64_t updated_unix_ns;  /* latest change */
	/* The rest only in reads, and target in rea_store_due, and all of it after a claim with load. Else empty. */
	int64_t submitted_unix_ns;
	struct rea_text target;
	struct rea_text biz_id;
	struct rea_text key;
	struct rea_text payload; /* rea_store_get and a claim with load */
	struct rea_text reason;  /* SUCCESS, GIVEN_UP, CANCELLED: as given */
};

/* What became of an operation; borrowed, with all it points to, until done returns. */
struct rea_store_result {
	int error; /* 0, what the operation's comment lists, or REA_ERR_IO, REA_ERR_NOMEM, REA_ERR_CORRUPT, REA_ERR_LIMIT (numbers are used up) */
	struct rea_store_task task; /* after the operation; with REA_ERR_CONFLICT as it was found */
	bool existed; /* submit: this key and fingerprint were there already; nothing was written. task has submitted_unix_ns */
	bool soon; /* the task waits for a time that rea_store_due has passed: the caller keeps it */
	const struct rea_store_task *tasks; /* due: handed out; maintain: those with an expired lease that are soon */
	size_t tasks_len;
	bool more;        /* due: there are others before until_ns; maintain: there is more to do at once */
	uint32_t expired; /* maintain: leases that had ended */
	uint32_t purged;  /* maintain: tasks that are gone for good */
};

/* ---- a store ---- */

/* The system's clocks, read together. */
struct rea_store_clock {
	uint64_t now_ns;  /* monotonic: the clock of every now_ns given later */
	int64_t unix_ns;  /* wall clock */
	uint64_t boot_ns; /* since the boot, suspended time too; 0 = not known */
	char boot_id[40]; /* tells one boot from another; "" = not known */
};
REA_API void rea_store_clock_read(struct rea_store_clock *ret_clock);

struct rea_store_options {
	uint32_t version;              /* set by rea_store_options_init */
	const struct rea_alloc *alloc; /* default NULL = malloc; copied */
	struct rea_store_clock clock;  /* default: as of rea_store_options_init */
	uint32_t queue_max;            /* operations under way, 1..1000000, default 65536 */
	uint64_t queue_bytes_max;      /* of their memory, at least 1 MiB, default 256 MiB */
	/* There is something for rea_store_drain, or rea_store_status has changed. From any thread, inside an operation too; only
	 * passes the news on. Default NULL. */
	void (*wake)(void *user_data);
	void *user_data;
};
#define REA_STORE_OPTIONS_VERSION 1
REA_API void rea_store_options_init(struct rea_store_options *options);

/* A store that forgets everything at rea_store_close. options: copied. Returns 0, REA_ERR_NOMEM, or REA_ERR_INVALID with key
 * and message in ret_info (may be NULL). */
REA_API int rea_store_memory_new(
    const struct rea_store_options *options, struct rea_store **ret_store, struct rea_error_info *ret_info);
/* Finishes what was begun, tells it, and frees the store, which has no reader any more. NULL is fine. */
REA_API void rea_store_close(struct rea_store *store);
/* Tells what has become of operations that ended; done may begin others. Returns how many. */
REA_API size_t rea_store_drain(struct rea_store *store);

struct rea_store_status {
	bool failing; /* every operation fails with REA_ERR_IO until the store has verified itself; it tries on its own */
	char message[192];                      /* the latest failure; "" = none */
	uint64_t counts[REA_STORE_STATE_COUNT]; /* tasks by state, as acknowledged */
	uint64_t operations;                    /* acknowledged, ever */
	uint64_t commits;
	uint64_t syncs;       /* commits that waited for the disk */
	uint64_t failures;    /* commits that failed */
	uint64_t interrupted; /* tasks that were RUNNING when the store was opened */
	uint64_t damaged;     /* rows that could not be read, at opening and since */
};
/* Any thread. */
REA_API void rea_store_status(const struct rea_store *store, struct rea_store_status *ret_status);

/* ---- operations ----
 * All arguments are copied. Each returns 0, REA_ERR_INVALID, REA_ERR_NOMEM, REA_ERR_FULL (queue_max or queue_bytes_max), or REA_ERR_CLOSED:
 * rea_store_close has begun.
 * NOT_FOUND: there is no such task, not any more. CONFLICT: it is in another state, generation or under another claim. */

struct rea_store_submit {
	struct rea_store_spec spec;
	uint64_t delay_ns; /* before the first attempt, or the next */
	/* Attempts that were made already, with numbers 1, 2, …: the task begins as RETRYING. Default none. */
	const struct rea_store_attempt *attempts;
	size_t attempts_len;
	bool only_look; /* take nothing: NOT_FOUND where it would have been taken. Default false */
};
/* Result: 0; CONFLICT: the key is that of a task with another fingerprint, told by `task`; NOT_FOUND. */
REA_API int rea_store_submit(struct rea_store *store, const struct rea_store_submit *submit, uint64_t now_ns,
    void (*done)(const struct rea_store_result *result, void *user_data), void *user_data);

struct rea_store_claim {
	uint64_t id;
	uint32_t generation; /* 0 = whichever it is */
	uint64_t lease_ns;   /* > 0 */
	bool load;           /* hand the spec out too */
	bool relaxed; /* the task may be repeated: a power cut may forget this claim, and its attempt is then made again */
};
/* The next attempt begins: task.claim and task.attempt are its. The task waits and its time has come, or it is RUNNING and its lease
 * has ended (then that attempt is recorded as interrupted). Result: 0, NOT_FOUND, CONFLICT. */
REA_API int rea_store_claim(struct rea_store *store, const struct rea_store_claim *claim, uint64_t now_ns,
    void (*done)(const struct rea_store_result *result, void *user_data), void *user_data);
/* The lease now ends lease_ns from now. Result: 0, NOT_FOUND, CONFLICT: the claim is lost. */
REA_API int rea_store_heartbeat(struct rea_store *store, uint64_t id, uint64_t claim, uint64_t lease_ns,
    uint64_t now_ns, void (*done)(const struct rea_store_result *result, void *user_data), void *user_data);
/* The attempt has ended, and another begins at once under the same claim. Result: 0, NOT_FOUND, CONFLICT. */
REA_API int rea_store_record(struct rea_store *store, uint64_t id, uint64_t claim, const struct rea_store_attempt *attempt,
    uint64_t now_ns, void (*done)(const struct rea_store_result *result, void *user_data), void *user_data);

struct rea_store_reschedule {
	uint64_t id;
	uint64_t claim;    /* 0: nobody runs it; the task waits, and goes on waiting until another time */
	uint64_t delay_ns; /* before the next attempt */
	bool attempted;    /* the claimed attempt was made; false gives its number back */
	const struct rea_store_attempt *attempt; /* its record; NULL = keep none; only if attempted */
};
/* Let go of a task until later. Result: 0, NOT_FOUND, CONFLICT. */
REA_API int rea_store_reschedule(struct rea_store *store, const struct rea_store_reschedule *reschedule,
    uint64_t now_ns, void (*done)(const struct rea_store_result *result, void *user_data), void *user_data);

struct rea_store_finish {
	uint64_t id;
	uint64_t claim;             /* 0: nobody runs it; the task waits */
	enum rea_store_state state; /* SUCCESS (only if attempted), GIVEN_UP or CANCELLED */
	struct rea_text reason;
	bool attempted; /* as for reschedule */
	const struct rea_store_attempt *attempt;
};
/* The end of this generation. Result: 0, NOT_FOUND, CONFLICT. */
REA_API int rea_store_finish(struct rea_store *store, const struct rea_store_finish *finish, uint64_t now_ns,
    void (*done)(const struct rea_store_result *result, void *user_data), void *user_data);
/* CANCELLED, whoever runs it; an attempt under way is recorded with outcome CANCELLED, and its worker's claim is lost. Result: 0, NOT_FOUND,
 * CONFLICT: it is over. */
REA_API int rea_store_cancel(struct rea_store *store, uint64_t id, struct rea_text reason, uint64_t now_ns,
    void (*done)(const struct rea_store_result *result, void *user_data), void *user_data);

struct rea_store_replay {
	uint64_t id;
	uint32_t generation; /* that is over; 0 = whichever it is. With it a replay that was asked for twice happens once. */
	uint64_t delay_ns;
	bool force; /* a SUCCESS too */
};
/* A new generation of a task that is over. Result: 0, NOT_FOUND, CONFLICT: it is open, or a SUCCESS without force. */
REA_API int rea_store_replay(struct rea_store *store, const struct rea_store_replay *replay, uint64_t now_ns,
    void (*done)(const struct rea_store_result *result, void *user_data), void *user_data);

/* The next waiting tasks with a time before until_ns that no earlier call has handed out, by time, equal times by id; at most max, 1..256.
 * From then on they are soon. After opening a store all are to be asked for anew. With until_ns a second or two ahead of now, what is soon
 * stays what is about to run. */
REA_API int rea_store_due(struct rea_store *store, uint64_t until_ns, uint32_t max, uint64_t now_ns,
    void (*done)(const struct rea_store_result *result, void *user_data), void *user_data);

struct rea_store_maintain {
	uint64_t keep_ns;  /* tasks that have been over for longer go, with their attempts and keys */
	uint32_t rows_max; /* to look at, 1..1000 */
};
/* A bit of housekeeping, to be called every second or so, and again while there is more. Of leases that have ended the attempt is recorded as
 * interrupted, and the task waits to be claimed at once. */
REA_API int rea_store_maintain(struct rea_store *store, const struct rea_store_maintain *maintain, uint64_t now_ns,
    void (*done)(const struct rea_store_result *result, void *user_data), void *user_data);

/* ---- reads ----
 * Of what is committed, at once, waiting for a disk if need be. What is handed out is borrowed until the next call on that reader. */

struct rea_store_reader;
/* Returns 0, REA_ERR_NOMEM or REA_ERR_IO. */
REA_API int rea_store_reader_new(struct rea_store *store, struct rea_store_reader **ret_reader);
/* Before its store is closed. NULL is fine. */
REA_API void rea_store_reader_free(struct rea_store_reader *reader);

/* Returns 0, REA_ERR_NOT_FOUND, REA_ERR_CORRUPT, REA_ERR_IO or REA_ERR_NOMEM. */
REA_API int rea_store_get(struct rea_store_reader *reader, uint64_t id, struct rea_store_task *ret_task);

struct rea_store_filter {
	uint32_t states;        /* REA_STORE_STATE_BIT…; 0 = all */
	struct rea_text target; /* "" = all */
	struct rea_text biz_id; /* "" = all */
	uint64_t before_id;     /* those with a smaller id: the cursor; 0 = from the newest on */
	uint32_t max;           /* 1..1000 */
	uint32_t payload_max;   /* first bytes of each payload that are wanted, at most 65536; 0 = none */
};
struct rea_store_page {
	const struct rea_store_task *tasks; /* the newest first, with as much of the payload as was wanted */
	size_t tasks_len;
	uint64_t next; /* before_id of the next page; 0 = this is the last. A page may be short, even empty, and not be the last: one call
	                 * looks at a bounded number of tasks. */
	size_t damaged; /* rows left out because they could not be read */
};
/* Returns 0, REA_ERR_INVALID, REA_ERR_IO, REA_ERR_NOMEM or REA_ERR_CORRUPT. */
REA_API int rea_store_list(
    struct rea_store_reader *reader, const struct rea_store_filter *filter, struct rea_store_page *ret_page);

/* The recorded attempts of a task with a number above after, in order; at most max, 1..1000; none if there is no such task. Returns as
 * rea_store_list. */
REA_API int rea_store_attempts(struct rea_store_reader *reader, uint64_t id, uint32_t after, uint32_t max,
    const struct rea_store_attempt **ret_attempts, size_t *ret_attempts_len);

#ifdef __cplusplus
}
#endif
#endif
