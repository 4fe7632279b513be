/*
 * Durable tasks: taken into the store, delivered when their time has come and their target may be asked, tried again or given up as the engine decides.
 *
 * Everything here belongs to the loop's thread, and no callback fires inside the call that it was given to.
 */
#ifndef REA_SRC_QUEUE_QUEUE_H
#define REA_SRC_QUEUE_QUEUE_H

#include "loop/loop.h"
#include "proxy/proxy.h"
#include "queue/task.h"

#include <rea/config.h>
#include <rea/event.h>
#include <rea/metrics.h>
#include <rea/store.h>

struct queue;

struct queue_options {
	struct loop *loop;           /* borrowed while the queue lives */
	struct proxy_worker *worker; /* whose connections go to services; on the same loop */
	struct rea_config *config;   /* its tasks.file is the store; a reference is taken */
	/* What was decided, after it is on disk where it has to be. Borrowed until return. */
	void (*event)(const struct rea_event *event, void *user_data);
	/* One line for whoever runs this: the store cannot be opened, or is open at last. */
	void (*notice)(const char *text, void *user_data);
	void *user_data;
};

/* What a queue would refuse about a configuration: patterns, secrets. Returns 0, or REA_ERR_INVALID with ret_info. */
int queue_check(const struct rea_config *config, struct rea_error_info *ret_info);
/* Opens the store, which may take seconds. When that fails for a reason that may pass (a full disk, another process, a damaged file) the queue is there without it and tries
 * again every QUEUE_OPEN_EVERY_S seconds; when it is wrong for good (no such directory, no permission, no database of ours) it is refused. Returns 0, REA_ERR_NOMEM, or what rea_store_sqlite_open and queue_check return, with ret_info. */
int queue_new(const struct queue_options *options, struct queue **ret_queue, struct rea_error_info *ret_info);
/* From now on this configuration. Without memory the old one stays. */
void queue_configure(struct queue *queue, struct rea_config *config);
/* Begin nothing more and take nothing more; what is under way may end until then, and is interrupted after it. stopped is called once when nothing
 * is left. */
void queue_stop(struct queue *queue, uint64_t deadline_ns, void (*stopped)(void *arg), void *arg);
/* It has stopped, or nothing was ever begun. Waits for the store's last commit. NULL is fine. */
void queue_free(struct queue *queue);

#define QUEUE_OPEN_EVERY_S 5
/* Is its store open? Until then only queue_configure, queue_stop, queue_free, queue_metrics, queue_settings and queue_trouble may be called. */
bool queue_is_open(const struct queue *queue);
/* What keeps it from taking and delivering tasks now. False = nothing. */
bool queue_trouble(struct queue *queue, char *ret_text, size_t size);

void queue_metrics(struct queue *queue, struct rea_prometheus *out);
const struct rea_config_settings *queue_settings(const struct queue *queue);
struct loop *queue_loop(const struct queue *queue);
/* For what is only looked at. */
struct rea_store_reader *queue_reader(struct queue *queue);
int64_t queue_unix_of(struct queue *queue, uint64_t time_ns);

/* ---- handing in ---- */

/* What became of a submit. Borrowed until done returns. */
struct queue_receipt {
	struct task_problem problem;       /* status 0 = it was taken */
	uint32_t retry_after_s;            /* with a problem: later it may be taken; 0 = not */
	bool existed;                      /* this key and content were there already */
	const struct rea_store_task *task; /* as it stands; NULL: sync-first and a success, so that nothing is stored */
	/* Of sync-first, once an attempt was made. */
	bool tried;
	uint32_t code; /* HTTP status of the target; 0 = none */
	struct rea_slice content_type;
	struct rea_slice reply;
	bool reply_cut;
};
typedef void (*queue_receipt_fn)(const struct queue_receipt *receipt, void *user_data);

/* submit: borrowed until done, or return if it is refused; target and path of a URL are brought into their normal form, a key is made where the contract says so. True: done will
 * be called, once. False: refused, with the problem. */
bool queue_submit(struct queue *queue, struct task_submit *submit, queue_receipt_fn done, void *user_data,
    struct queue_receipt *ret_refusal);

/* ---- changing ---- */

typedef void (*queue_task_fn)(const struct rea_store_result *result, void *user_data);
/* Each returns as the operation of rea/store.h does. */
int queue_cancel(struct queue *queue, uint64_t id, queue_task_fn done, void *user_data);
int queue_replay(struct queue *queue, const struct rea_store_replay *replay, queue_task_fn done, void *user_data);

/* ---- targets ---- */

struct queue_target {
	struct rea_slice name;
	bool paused;              /* by an operator */
	uint64_t paused_until_ns; /* REA_NEVER = until resumed; 0 = it is not */
	const char *why;          /* of the operator's pause, or what else holds it up now; "" = nothing */
	uint64_t held_until_ns;   /* Retry-After, breaker, no instance: nothing begins before; 0 = nothing holds it */
	bool draining;            /* what runs ends, nothing begins */
	uint32_t running;
	uint64_t waiting; /* due, in memory */
	uint32_t concurrency;
	double rate_per_s; /* 0 = no limit */
	const char *breaker; /* of a service: the state of whichever of its methods' breakers lets the least through; NULL = it has none */
};
#define QUEUE_WHY_MAX 128

void queue_targets_each(
    struct queue *queue, void (*each)(const struct queue_target *target, void *user_data), void *user_data);
/* False: there is no such target. */
bool queue_target_get(struct queue *queue, struct rea_slice name, struct queue_target *ret_target);
/* Kept over restarts. for_ns: REA_NEVER = until resumed. Return 0, REA_ERR_NOT_FOUND, REA_ERR_IO (it could not be written down; nothing has changed) or
 * REA_ERR_NOMEM. */
int queue_target_pause(struct queue *queue, struct rea_slice name, uint64_t for_ns, const char *why);
int queue_target_resume(struct queue *queue, struct rea_slice name);
int queue_target_drain(struct queue *queue, struct rea_slice name);

#endif
