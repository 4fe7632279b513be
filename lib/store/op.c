/*
 * Operations under way: their memory and their bounds, the way back, and what every store does with them.
 *
 * Stores in libraries of their own link this once more; it keeps no state of its own.
 */
#include "base/bounds.h"
#include "store/backend.h"

#include <assert.h>
#include <float.h>

#define QUEUE_MAX 1000000
#define QUEUE_BYTES_MIN (UINT64_C(1) << 20)

int rea__store_options_check(const struct rea_store_options *options, struct rea_error_info *info)
{
	const struct rea__bound bounds[] = {
	    {"queue_max", "queue_max", options->queue_max, 1, QUEUE_MAX, false, NULL},
	    {"queue_bytes_max", "queue_bytes_max", (double)options->queue_bytes_max, QUEUE_BYTES_MIN, DBL_MAX, false, NULL},
	};

	assert(options->version == REA_STORE_OPTIONS_VERSION &&
	       "rea_store: the options were not initialised by rea_store_options_init");
	return rea__check_bounds(bounds, sizeof(bounds) / sizeof(bounds[0]), info);
}

int rea__store_init(struct rea_store *store, const struct rea__backend *backend, const struct rea_store_options *options)
{
	store->backend = backend;
	store->options = *options;
	store->alloc = options->alloc != NULL ? *options->alloc : *rea_alloc_default();
	store->options.alloc = &store->alloc;
	store->now_ns = options->clock.now_ns;
	return pthread_mutex_init(&store->mutex, NULL) == 0 ? 0 : REA_ERR_NOMEM;
}

void rea__store_fini(struct rea_store *store)
{
	pthread_mutex_destroy(&store->mutex);
}

/* ---- there ---- */

int rea__op_new(struct rea_store *store, enum rea__op_type type, size_t extra, struct rea__op **ret_op)
{
	size_t bytes = sizeof(struct rea__op) + extra;
	struct rea__op *op;

	if (store->closing)
		return REA_ERR_CLOSED;
	if (store->ops_len >= store->options.queue_max || bytes > store->options.queue_bytes_max - store->ops_bytes)
		return REA_ERR_FULL;
	op = store->alloc.realloc(NULL, bytes, store->alloc.user_data);
	if (op == NULL)
		return REA_ERR_NOMEM;
	memset(op, 0, sizeof(*op));
	op->type = type;
	op->bytes = bytes;
	rea_arena_init(&op->arena, &store->alloc);
	*ret_op = op;
	return 0;
}

void rea__op_start(struct rea_store *store, struct rea__op *op, uint64_t now_ns,
    void (*done)(const struct rea_store_result *result, void *user_data), void *user_data)
{
	store->now_ns = rea_time_max(store->now_ns, now_ns);
	op->now_ns = rea__clock_to_row(&store->clock, store->now_ns);
	op->done = done;
	op->user_data = user_data;
	store->ops_len++;
	store->ops_bytes += op->bytes;
	store->backend->start(store, op);
}

/* ---- and back ---- */

void rea__store_complete(struct rea_store *store, struct rea__ops *ops)
{
	bool first;

	if (ops->first == NULL)
		return;
	pthread_mutex_lock(&store->mutex);
	first = store->completed.first == NULL;
	if (first)
		store->completed = *ops;
	else {
		store->completed.last->next = ops->first;
		store->completed.last = ops->last;
	}
	pthread_mutex_unlock(&store->mutex);
	*ops = (struct rea__ops){NULL, NULL};
	if (first && store->options.wake != NULL)
		store->options.wake(store->options.user_data);
}

/* ---- what all stores do with a row ---- */

int rea__op_apply(const struct rea__op *op, struct rea__row *row, struct rea__change *change)
{
	switch (op->type) {
	case REA__OP_CLAIM:
		return rea__row_claim(row, &op->in.claim, change);
	case REA__OP_HEARTBEAT:
		return rea__row_heartbeat(row, op->in.hold.claim, op->in.hold.lease_ns, change);
	case REA__OP_RECORD:
		return rea__row_record(row, op->in.hold.claim, op->in.hold.attempt, change);
	case REA__OP_RESCHEDULE:
		return rea__row_reschedule(row, &op->in.reschedule, change);
	case REA__OP_FINISH:
		return rea__row_finish(row, &op->in.finish, change);
	case REA__OP_CANCEL:
		return rea__row_cancel(row, change);
	case REA__OP_REPLAY:
		return rea__row_replay(row, &op->in.replay, change);
	case REA__OP_SUBMIT:
	case REA__OP_DUE:
	case REA__OP_MAINTAIN:
	case REA__OP_BACKUP:
		break;
	}
	assert(false && (const void *)"an operation on one row");
	return REA_ERR_INVALID;
}

uint64_t rea__op_id(const struct rea__op *op)
{
	switch (op->type) {
	case REA__OP_CLAIM:
		return op->in.claim.id;
	case REA__OP_HEARTBEAT:
	case REA__OP_RECORD:
		return op->in.hold.id;
	case REA__OP_RESCHEDULE:
		return op->in.reschedule.id;
	case REA__OP_FINISH:
		return op->in.finish.id;
	case REA__OP_CANCEL:
		return op->in.cancel.id;
	case REA__OP_REPLAY:
		return op->in.replay.id;
	case REA__OP_SUBMIT:
	case REA__OP_DUE:
	case REA__OP_MAINTAIN:
	case REA__OP_BACKUP:
		break;
	}
	return 0;
}

struct rea_store_task rea__task_of(const struct rea_store *store, const struct rea__row *row)
{
	return (struct rea_store_task){
	    .id = row->id,
	    .state = row->state,
	    .generation = row->generation,
	    .attempt = row->attempt,
	    .attempts_before = row->attempts_before,
	    .crashes = row->crashes,
	    .claim = row->claim,
	    .due_ns = rea__clock_from_row(&store->clock, row->due_ns),
	    .updated_unix_ns = row->updated_ns,
	};
}

void rea__op_conclude(const struct rea_store *store, struct rea__op *op, const struct rea__row *row, int error)
{
	op->result.error = error;
	if (error != 0 && error != REA_ERR_CONFLICT)
		return;
	op->result.task = rea__task_of(store, row);
	op->result.soon = error == 0 && rea__row_soon(row);
}

int rea__text_copy(struct rea_arena *arena, struct rea_text *text)
{
	char *copy = rea_arena_string(arena, rea_slice_make(text->text, text->length));

	if (copy == NULL)
		return REA_ERR_NOMEM;
	text->text = copy;
	return 0;
}

bool rea__text_equal(struct rea_text a, struct rea_text b)
{
	return rea_slice_equal(rea_slice_make(a.text, a.length), rea_slice_make(b.text, b.length));
}

bool rea__filter_matches(const struct rea_store_filter *filter, enum rea_store_state state, struct rea_text target)
{
	if (filter->states != 0 && (filter->states & REA_STORE_STATE_BIT(state)) == 0)
		return false;
	return filter->target.length == 0 || rea__text_equal(filter->target, target);
}
