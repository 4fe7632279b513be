/*
 * The runner: threads around an executor, for programs without a loop. Handlers may block.
 *
 *   rea_runner_options_init(&options);
 *   rea_runner_new(&options, NULL, &runner, NULL);
 *   rea_runner_handle(runner, &handler, NULL);
 *   rea_runner_submit(runner, &task, &id, NULL);
 *   …
 *   rea_runner_shutdown(runner, REA_SHUTDOWN_DRAIN, rea_time_add(rea_runner_now(), 5 * REA_NS_PER_S));
 *   rea_runner_free(runner);
 *
 * Everything here may be called from any thread, and from any callback but for rea_runner_free. Attempts are made by the worker threads,
 * several at once. All other callbacks (cancel, judge, instances, event, done) come from one thread of their own, one at a time and in order,
 * and never inside the call that registered them. No lock is held in a callback. While one of these blocks, due tasks and other callbacks wait;
 * a blocked attempt holds up nothing but its own thread. Nothing is kept in thread-local storage.
 *
 * Times are those of rea_runner_now.
 */
#ifndef REA_RUNNER_H
#define REA_RUNNER_H

#include <rea/executor.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REA_RUNNER_THREADS_MAX 1024

struct rea_runner;

struct rea_runner_options {
	uint32_t version;                     /* set by rea_runner_options_init */
	uint32_t threads;                     /* workers; 1..REA_RUNNER_THREADS_MAX; default 4 */
	struct rea_executor_options executor; /* its defaults, but: concurrency 0 = as many as threads; seed 0 = the system's choice */
};
#define REA_RUNNER_OPTIONS_VERSION 1
REA_API void rea_runner_options_init(struct rea_runner_options *options);

/* Starts the threads, with all signals blocked. alloc may be NULL; it is used by one thread at a time. Returns 0, REA_ERR_NOMEM, REA_ERR_INVALID, or
 * REA_ERR_LIMIT when the system gives no more threads; the last two with ret_info (may be NULL). */
REA_API int rea_runner_new(const struct rea_runner_options *options, const struct rea_alloc *alloc,
    struct rea_runner **ret_runner, struct rea_error_info *ret_info);
/* Waits until every task has left and every attempt has ended; cancels all unless a shutdown has begun. Not from a callback. NULL is fine. */
REA_API void rea_runner_free(struct rea_runner *runner);
/* Monotonic time, nanoseconds. */
REA_API uint64_t rea_runner_now(void);

/* As rea_executor_handle. `attempt` may block and return true; one that returns false goes on elsewhere until rea_runner_report. `cancel` returns
 * true only for the latter: a thread that is still in `attempt` is not over. It can be called while `attempt` is returning. */
REA_API int rea_runner_handle(struct rea_runner *runner, const struct rea_handler *handler, struct rea_error_info *ret_info);
/* As rea_executor_submit, _report, _cancel, _state, _stats, _explain. */
REA_API int rea_runner_submit(
    struct rea_runner *runner, const struct rea_task *task, uint64_t *ret_id, struct rea_error_info *ret_info);
REA_API int rea_runner_report(struct rea_runner *runner, uint64_t attempt_id, const struct rea_report *report);
REA_API int rea_runner_cancel(struct rea_runner *runner, uint64_t id);
REA_API int rea_runner_state(const struct rea_runner *runner, uint64_t id, enum rea_task_state *ret_state);
REA_API void rea_runner_stats(const struct rea_runner *runner, struct rea_executor_stats *ret_stats);
REA_API size_t rea_runner_explain(const struct rea_runner *runner, char *ret_text, size_t size);
/* As rea_executor_shutdown; does not wait. */
REA_API void rea_runner_shutdown(struct rea_runner *runner, enum rea_shutdown mode, uint64_t deadline_ns);

#ifdef __cplusplus
}
#endif
#endif
