/* What the files of the queue share. */
#ifndef REA_SRC_QUEUE_INTERNAL_H
#define REA_SRC_QUEUE_INTERNAL_H

#include "base/heap.h"
#include "base/map.h"
#include "queue/deliver.h"
#include "queue/queue.h"
#include "queue/target.h"
#include "queue/vet.h"

#include <rea/call.h>

#include <stdatomic.h>

/* ---- what the configuration says of tasks, as a snapshot ---- */

struct rule {
	const struct rea_config_url *config;
	struct vet_pattern pattern;
	struct deliver_url_rule deliver;
	struct sign_key keys[SIGN_KEYS_MAX];
};

struct rules {
	uint32_t refs;
	struct rea_config *config;
	const struct rea_config_settings *settings;
	struct rule *urls;
	size_t urls_len;
};

/* Returns 0, REA_ERR_NOMEM, or REA_ERR_INVALID with ret_info. One reference. */
int rules_new(struct rea_config *config, struct rules **ret_rules, struct rea_error_info *ret_info);
struct rules *rules_ref(struct rules *rules);
void rules_unref(struct rules *rules);
/* The first pattern that matches; NULL = this URL is not allowed. */
const struct rule *rules_match(const struct rules *rules, const struct vet_url *url);

/* ---- a task that is soon, in memory ---- */

struct run;

/* Numbered; waits in the heap until it is due, then in its target's line. */
struct entry {
	uint64_t id;
	struct target *target;
	struct run *run; /* kept from the attempt before; NULL = it is loaded */
	uint32_t next;   /* in the target's line, or of free ones */
	bool repeatable; /* a claim need not wait for the disk: repeating it is allowed */
};

/* ---- one attempt, from its claim to what the store keeps of it ---- */

/*
 *            claimed              delivered             written
 *   CLAIMING ───────▶ FLYING ───────────────▶ SETTLING ────────▶ gone, or IDLE: kept for the next attempt
 *       └── decided without an attempt ──────────▲
 */
enum run_state { RUN_IDLE, RUN_CLAIMING, RUN_FLYING, RUN_SETTLING };

/* What is written when it is over. */
enum settle { SETTLE_FINISH, SETTLE_RESCHEDULE, SETTLE_SUBMIT, SETTLE_REPLY };

struct run {
	struct queue *queue;
	struct run *prev, *next; /* of all that hold a slot */
	struct target *target;
	struct rules *rules;
	enum run_state state;
	uint64_t id; /* 0: sync-first, not in the store yet */
	uint64_t claim;
	uint32_t generation;
	uint32_t number; /* of the attempt, over all generations */
	uint32_t attempts_before;
	bool repeatable;
	bool wait_in_memory;    /* until decision.wait_until_ns; the store believes that it waits for nothing */
	struct rea_buffer text; /* payload, key, biz_id, target */
	struct rea_slice key, biz_id;
	struct task_request request;
	struct vet_url url;
	const struct rule *rule; /* of a URL */
	struct proxy_route route;
	bool has_route;
	struct rea_policy policy;
	struct rea_grant grant;
	bool single;
	struct rea_call call;
	bool has_call;
	uint64_t deadline_ns;
	struct delivery_request delivery_request;
	struct delivery *delivery;
	char webhook_id[24];

	uint64_t start_ns, end_ns;
	struct rea_report report;
	struct rea_decision decision;
	enum settle settle;
	bool attempted;
	bool told; /* an event follows the commit */
	uint64_t delay_ns;
	const char *reason;
	char instance[64];
	char detail[192];
	struct wheel_timer timer; /* to write again what the store did not take */

	/* sync-first */
	queue_receipt_fn receipt;
	void *receipt_data;
	uint8_t fingerprint[16];
	uint64_t submitted_ns;
	struct rea_buffer reply;
	size_t content_type_len; /* of reply, in front */
	bool reply_cut;
};

#define RUNS_KEPT_MAX 1024

/* ---- the store, until it is the queue's ---- */

struct opening {
	char *path;
	uv_work_t work; /* what follows is its thread's while it runs */
	int error;
	struct rea_error_info why;
	struct rea_store *store;
	struct rea_store_reader *reader;
	struct wheel_timer timer; /* to try again */
	char trouble[512];        /* why it is not open */
};

struct queue {
	struct queue_options options;
	struct loop *loop;
	struct rea_store *store; /* NULL until it is open */
	struct rea_store_reader *reader;
	struct opening opening;
	struct rules *rules;
	struct deliver_urls *urls;
	struct loop_post drain;
	atomic_bool drain_due;
	struct rea_random random;

	struct target *targets, **targets_end; /* in the order of their coming */
	struct target **by_number;
	struct rea_map by_name;
	struct target *ready, **ready_end;

	struct entry *entries;
	uint32_t entries_len, entries_capacity, free_entry;
	uint32_t entries_used;
	struct rea_heap heap;

	struct run *runs;
	uint32_t running, kept;

	struct wheel_timer timer; /* of the heap */
	struct wheel_timer tick;  /* asks the store for what is due, and keeps house */
	bool asking, keeping_house;
	uint32_t operations; /* whose done has not come */
	uint32_t submits;    /* those of them that may add a task */

	bool stopping, interrupting;
	struct wheel_timer stop_timer;
	void (*stopped)(void *arg);
	void *stopped_arg;
	struct loop_post stopped_post;

	char *pauses_path;

	struct {
		uint64_t attempts[REA_OUTCOME_COUNT];
		uint64_t retries, events, first_try_successes, accepted, existed, refused, claims_lost, held;
		uint64_t ended[REA_STORE_STATE_COUNT];
	} stats;
};

/* queue.c */
uint64_t queue_now(const struct queue *queue);
/* The target called so; made when there is none. NULL = out of memory, or too many. */
struct target *queue_target_of(struct queue *queue, struct rea_slice name);
/* A task that is soon. run: kept for it, or NULL. Without memory it stays in the store and comes back with the next start; told on standard error. */
void queue_add(struct queue *queue, uint64_t id, struct target *target, uint64_t due_ns, bool repeatable, struct run *run);
/* Its turn comes in the next queue_dispatch. */
void queue_look_at(struct queue *queue, struct target *target);
/* Something has ended or changed: begin what may begin. */
void queue_dispatch(struct queue *queue);
void queue_emit(struct queue *queue, struct rea_event *event);
void queue_check_stopped(struct queue *queue);
/* An operation of the store was begun, or has told its end. */
void queue_operation(struct queue *queue, int by);

/* run.c */
/* A slot of the queue and one of the target are taken. run: kept, or NULL. */
bool run_claim(struct queue *queue, struct target *target, const struct entry *entry);
/* sync-first: an attempt before anything is stored; slots are taken. NULL = out of memory. */
struct run *run_begin_sync(struct queue *queue, struct target *target, const struct task_submit *submit,
    struct rules *rules, queue_receipt_fn receipt, void *receipt_data);
/* The task is cancelled in the store: no more of this. */
void run_cancelled(struct run *run);
/* A shutdown waits no longer. */
void run_interrupt(struct run *run);
/* One that is kept is not needed. */
void run_drop(struct run *run);
void run_free(struct run *run);

/* open.c */
/* Returns 0 when it is open or tried again later, or an error with ret_info. */
int open_begin(struct queue *queue, struct rea_error_info *ret_info);
void open_end(struct queue *queue);

/* pauses.c: what operators have said of targets, in a file beside the store */
int pauses_load(struct queue *queue, struct rea_error_info *ret_info);
int pauses_save(struct queue *queue);

#endif
