/* What the files of this room share beyond the public header. */
#ifndef REA_EXECUTOR_INTERNAL_H
#define REA_EXECUTOR_INTERNAL_H

#include <rea/executor.h>

/* rea_executor_submit without the policy's bounds, which the executor itself does not depend on. */
int rea__executor_submit_unbounded(struct rea_executor *executor, const struct rea_task *task, uint64_t now_ns,
    uint64_t *ret_id, struct rea_error_info *ret_info);

/*
 * Threads: whoever shares an executor calls it under one lock, and the executor opens that lock around each callback.
 * A callback may call the executor again, so other threads may do the same meanwhile: one promise holds for both.
 */
struct rea__gate {
	void (*open)(void *user_data);
	void (*close)(void *user_data);
	void *user_data;
};
/* Before the first task. */
void rea__executor_set_gate(struct rea_executor *executor, const struct rea__gate *gate);
/* No task, and no handler at work. */
bool rea__executor_is_empty(const struct rea_executor *executor);

#endif
