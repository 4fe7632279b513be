/*
 * A task as the executor holds it: one piece of memory, as large as the task needs, with everything that it was
 * submitted with and what has come of it so far.
 */
#ifndef REA_EXECUTOR_TASK_H
#define REA_EXECUTOR_TASK_H

#include <rea/executor.h>

#include <stdalign.h>

struct rea__run;

struct rea__handler {
	struct rea_handler is; /* is.name points to name */
	char name[];
};

enum rea__task_state {
	REA__TASK_WAITING, /* in the heap, for its time or for a slot */
	REA__TASK_RUNNING, /* has a slot: `run` */
	REA__TASK_LEAVING  /* leaves without a slot; while it is not told: `next` */
};

struct rea__task {
	const struct rea__handler *handler;
	const struct rea_policy *policy;
	void (*done)(const struct rea_task_end *end, void *user_data);
	void *user_data;
	uint64_t deadline_ns;
	union {
		struct rea__run *run;
		struct rea__task *next;
	};
	uint32_t slot;
	uint32_t attempts;
	uint32_t code; /* of the last attempt that ended, with outcome and code_kind */
	uint32_t payload_len;
	uint16_t name_len, biz_id_len, trace_id_len, key_len;
	uint8_t state;
	uint8_t outcome, code_kind;
	uint8_t permission, source;
	uint8_t tried_len, tried_max;
	bool chained, interrupted;
	/* If the handler has a budget, what is held of it; the payload; tried_max ids of instances; the texts. */
	alignas(8) unsigned char bytes[];
};

/* Is every field within its bounds? The policy is not looked at. Returns 0, or REA_ERR_INVALID with ret_info. */
int rea__task_check(const struct rea_task *task, struct rea_error_info *ret_info);
/* from: with a policy. NULL = out of memory. handler: borrowed while the task lives. */
struct rea__task *rea__task_new(
    const struct rea_task *from, const struct rea__handler *handler, const struct rea_alloc *alloc);
/* The task as it could be submitted again, but for not_before_ns. Borrowed while the task lives. */
void rea__task_view(const struct rea__task *task, struct rea_task *ret_view);
/* What the engine needs to go on: attempts > 0. Everything but wait_until_ns. */
struct rea_call_past rea__task_past(const struct rea__task *task);
/* Keep what a paused call leaves. */
void rea__task_keep(struct rea__task *task, const struct rea_call_past *past);

#endif
