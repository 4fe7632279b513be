/*
 * Between the interface and the stores behind it: operations under way, and what a store implements.
 *
 * The interface checks and copies an operation, hands it to the store, and tells its result. A store fills op->result and gives the
 * operation back with rea__store_complete, from any thread. An operation belongs to one side at a time.
 */
#ifndef REA_STORE_BACKEND_H
#define REA_STORE_BACKEND_H

#include "base/arena.h"
#include "store/clock.h"
#include "store/machine.h"

#include <pthread.h>

enum rea__op_type {
	REA__OP_SUBMIT,
	REA__OP_CLAIM,
	REA__OP_HEARTBEAT,
	REA__OP_RECORD,
	REA__OP_RESCHEDULE,
	REA__OP_FINISH,
	REA__OP_CANCEL,
	REA__OP_REPLAY,
	REA__OP_DUE,
	REA__OP_MAINTAIN,
	REA__OP_BACKUP
};

struct rea__op {
	struct rea__op *next;
	enum rea__op_type type;
	int64_t now_ns; /* of rows, as start_unix_ns of attempts is */
	void (*done)(const struct rea_store_result *result, void *user_data);
	void *user_data;
	size_t bytes;
	union {
		struct rea_store_submit submit;
		struct rea_store_claim claim;
		struct {
			uint64_t id;
			uint64_t claim;
			uint64_t lease_ns;                       /* heartbeat */
			const struct rea_store_attempt *attempt; /* record */
		} hold;
		struct rea_store_reschedule reschedule;
		struct rea_store_finish finish;
		struct {
			uint64_t id;
			struct rea_text reason;
		} cancel;
		struct rea_store_replay replay;
		struct {
			int64_t until_ns;
			uint32_t max;
		} due;
		struct rea_store_maintain maintain;
		struct {
			const char *path;
		} backup;
	} in;
	struct rea_store_result result;
	struct rea_arena arena; /* of what result points to */
};

struct rea__ops {
	struct rea__op *first;
	struct rea__op *last;
};

static inline void rea__ops_push(struct rea__ops *ops, struct rea__op *op)
{
	op->next = NULL;
	if (ops->last == NULL)
		ops->first = op;
	else
		ops->last->next = op;
	ops->last = op;
}

static inline struct rea__op *rea__ops_pop(struct rea__ops *ops)
{
	struct rea__op *op = ops->first;

	if (op != NULL) {
		ops->first = op->next;
		if (ops->first == NULL)
			ops->last = NULL;
	}
	return op;
}

/* Tasks that one rea_store_list looks at, at most. */
#define REA__LIST_SCAN_MAX 10000

/* What a store does. */
struct rea__backend {
	void (*start)(struct rea_store *store, struct rea__op *op);
	/* Completes every operation that was started. */
	void (*stop)(struct rea_store *store);
	void (*free)(struct rea_store *store);
	void (*status)(struct rea_store *store, struct rea_store_status *ret_status);
	int (*reader_new)(struct rea_store *store, struct rea_store_reader **ret_reader);
	void (*reader_free)(struct rea_store_reader *reader);
	int (*get)(struct rea_store_reader *reader, uint64_t id, struct rea_store_task *ret_task);
	int (*list)(struct rea_store_reader *reader, const struct rea_store_filter *filter, struct rea_store_page *ret_page);
	int (*attempts)(struct rea_store_reader *reader, uint64_t id, uint32_t after, uint32_t max,
	    const struct rea_store_attempt **ret_attempts, size_t *ret_attempts_len);
};

/* A store begins with this. */
struct rea_store {
	const struct rea__backend *backend;
	struct rea_alloc alloc;
	struct rea_store_options options;
	struct rea__clock clock;
	/* the owner's thread */
	uint64_t now_ns;
	uint32_t ops_len; /* under way */
	uint64_t ops_bytes;
	bool closing;
	pthread_mutex_t mutex; /* over what follows, and what the store adds */
	struct rea__ops completed;
};

/* A reader begins with this. */
struct rea_store_reader {
	struct rea_store *store;
	struct rea_arena arena; /* of what the latest call handed out */
};

/* Returns 0, or REA_ERR_INVALID with info (may be NULL). */
int rea__store_options_check(const struct rea_store_options *options, struct rea_error_info *info);
/* The clock is not set. Returns 0 or REA_ERR_NOMEM. */
int rea__store_init(struct rea_store *store, const struct rea__backend *backend, const struct rea_store_options *options);
void rea__store_fini(struct rea_store *store);
/* Check the bounds, and copy: extra bytes follow the operation for the texts and attempts it points to. */
int rea__op_new(struct rea_store *store, enum rea__op_type type, size_t extra, struct rea__op **ret_op);
void rea__op_start(struct rea_store *store, struct rea__op *op, uint64_t now_ns,
    void (*done)(const struct rea_store_result *result, void *user_data), void *user_data);
/* Give operations back, in the order of their start. Any thread; the mutex is not held. */
void rea__store_complete(struct rea_store *store, struct rea__ops *ops);

/* ---- what all stores do with a row ---- */

/* The change that CLAIM … REPLAY ask for. */
int rea__op_apply(const struct rea__op *op, struct rea__row *row, struct rea__change *change);
/* The task that CLAIM … REPLAY are about. */
uint64_t rea__op_id(const struct rea__op *op);
/* How such an operation went: error, and the row as it now is, or was found. */
void rea__op_conclude(const struct rea_store *store, struct rea__op *op, const struct rea__row *row, int error);
/* Numbers only. */
struct rea_store_task rea__task_of(const struct rea_store *store, const struct rea__row *row);
/* Into the arena. Returns 0 or REA_ERR_NOMEM. */
int rea__text_copy(struct rea_arena *arena, struct rea_text *text);
bool rea__filter_matches(const struct rea_store_filter *filter, enum rea_store_state state, struct rea_text target);
bool rea__text_equal(struct rea_text a, struct rea_text b);

#endif
