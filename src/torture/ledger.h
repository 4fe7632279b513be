/*
 * What was handed in, what was acknowledged, and what is seen of it: by the API after each restart, and by the target. It finds the first promise that was
 * broken. Any thread.
 */
#ifndef REA_SRC_TORTURE_LEDGER_H
#define REA_SRC_TORTURE_LEDGER_H

#include <rea/random.h>

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a task is there to show. */
enum ledger_kind {
	LEDGER_AGAIN, /* its target permits repetition by key: delivered at least once */
	LEDGER_ONCE,  /* its target permits none: sent at most once, whatever is killed when */
	LEDGER_LATER  /* due in an hour: it waits, or is cancelled */
};

/* Promises that can be broken. X(NAME, "name", "what it says") */
#define LEDGER_PROMISES(X)                                                                           \
	X(KEPT, "acknowledged", "every acknowledged task is there after every restart")              \
	X(KEYS, "keys", "one key is one task, whoever asks again")                                   \
	X(I1, "I1", "every acknowledged task has ended, or has a next time")                         \
	X(I2, "I2", "every request of a task has the same key and body")                             \
	X(I3, "I3", "a target never sees more requests of a task than attempts were recorded")       \
	X(I4, "I4", "what has ended stays as it ended")                                              \
	X(I5, "I5", "never more attempts under way than the limit")                                  \
	X(I6, "I6", "attempts are never counted backwards")                                          \
	X(I7, "I7", "without permission no task is sent twice")                                      \
	X(SEEN, "delivered", "every task that succeeded was seen by its target, and no unknown one") \
	X(CANCELLED, "cancelled", "what was cancelled stays cancelled, and is not sent")

enum ledger_promise {
#define X(name, text, says) LEDGER_##name,
	LEDGER_PROMISES(X)
#undef X
	    LEDGER_PROMISES_COUNT
};

struct ledger;

/* concurrency: the target's limit. power_cuts: attempts that may be repeated need not all have been counted (I3, I6). NULL: out of memory. */
struct ledger *ledger_new(uint64_t seed, uint32_t concurrency, bool power_cuts);
void ledger_free(struct ledger *ledger);

/* ---- handing in ---- */

#define LEDGER_KEY_MAX 48
#define LEDGER_BODY_MAX 2100

/* One submit; the same number always has the same content. */
struct ledger_task {
	uint32_t number;
	enum ledger_kind kind;
	bool again; /* it was handed in before */
	char key[LEDGER_KEY_MAX];
	char body[LEDGER_BODY_MAX];
};
/* The next one: mostly new, now and then one that was there. False: out of memory. */
bool ledger_next(struct ledger *ledger, struct rea_random *random, struct ledger_task *ret_task);
void ledger_acknowledged(struct ledger *ledger, uint32_t number, uint64_t id, bool existed);
void ledger_cancelled(struct ledger *ledger, uint32_t number);
/* An answer that says something else than "taken" or "not now". */
void ledger_refused(struct ledger *ledger, uint32_t number, long status, const char *detail);

/* ---- looking ---- */

/* All tasks, from here to ledger_listed. */
void ledger_list(struct ledger *ledger);
void ledger_listed_task(struct ledger *ledger, const json_t *task);
/* ret_open: tasks that are neither over nor due in an hour. */
void ledger_listed(struct ledger *ledger, size_t *ret_open);
/* How many attempts are under way now, as the process tells. */
void ledger_running(struct ledger *ledger, uint32_t running);
/* The process came back from a kill without what it had, or not at all. */
void ledger_lost(struct ledger *ledger, const char *why);
/* A line of the target's log. */
void ledger_request(struct ledger *ledger, const json_t *line);
/* Nothing more comes, and every task has had the time to end. */
void ledger_close(struct ledger *ledger);

/* ---- results ---- */

struct ledger_counts {
	size_t tasks, submits, repeated; /* repeated: answered with the task that was there */
	size_t acknowledged;
	size_t stored; /* in the last list */
	size_t succeeded, given_up, cancelled, waiting;
	size_t crash_loops;         /* of given_up: it was running too often when the process died */
	size_t requests, delivered; /* tasks that the target has seen */
	uint32_t running_max;
};
void ledger_count(struct ledger *ledger, struct ledger_counts *ret_counts);
/* Is there a broken promise? */
bool ledger_broken(struct ledger *ledger);
/* The first breach of this one, "" = it was kept. */
const char *ledger_breach(const struct ledger *ledger, enum ledger_promise promise);
/* False: it ended before this one could be looked at. */
bool ledger_looked(const struct ledger *ledger, enum ledger_promise promise);
const char *ledger_promise_name(enum ledger_promise promise);
const char *ledger_promise_says(enum ledger_promise promise);

#endif
