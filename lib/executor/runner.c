/*
 * Threads around an executor. Guarantees: the executor is touched under one lock; that lock is open in every callback; a
 * blocked attempt delays neither timers nor callbacks; a thread is woken only when there is something for it to do.
 *
 * One thread, the keeper, drives the executor: what the executor begins goes into `jobs`, from where the workers take
 * it, and what they report is told by the keeper.
 */
#include <rea/runner.h>

#include "base/bounds.h"
#include "executor/internal.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* What the program registered; the executor knows wrappers around it. */
struct runner_handler {
	struct runner_handler *next;
	struct rea_runner *runner;
	struct rea_handler is;
};

struct job {
	const struct rea_attempt *attempt;
	const struct runner_handler *handler;
};

struct rea_runner {
	struct rea_alloc alloc;
	struct rea_executor *executor;
	struct runner_handler *handlers;
	pthread_mutex_t lock;
	pthread_cond_t changed;   /* for the keeper */
	pthread_cond_t job_added; /* for the workers */
	uint64_t asleep_until_ns; /* of the keeper; 0 = it is awake and will look at the executor before it sleeps */
	bool closing;             /* a shutdown has begun */
	bool over;                /* and has ended: the workers may go */
	struct job *jobs;         /* a ring of as many as there are slots */
	uint32_t jobs_max, jobs_first, jobs_len;
	uint32_t threads_len;
	pthread_t threads[]; /* the keeper, the workers */
};

void rea_runner_options_init(struct rea_runner_options *options)
{
	*options = (struct rea_runner_options){.version = REA_RUNNER_OPTIONS_VERSION, .threads = 4};
	rea_executor_options_init(&options->executor);
	options->executor.concurrency = 0;
}

uint64_t rea_runner_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * REA_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* ---- the lock ---- */

static void lock(void *user_data)
{
	struct rea_runner *runner = user_data;

	pthread_mutex_lock(&runner->lock);
}

static void unlock(void *user_data)
{
	struct rea_runner *runner = user_data;

	pthread_mutex_unlock(&runner->lock);
}

static bool is_over(const struct rea_runner *runner)
{
	return runner->closing && rea__executor_is_empty(runner->executor);
}

/* The executor has changed: does the keeper sleep too long? */
static void wake_keeper(struct rea_runner *runner)
{
	if (rea_executor_next(runner->executor) >= runner->asleep_until_ns && !is_over(runner))
		return;
	runner->asleep_until_ns = 0;
	pthread_cond_signal(&runner->changed);
}

/* ---- jobs ---- */

static struct job *job_at(const struct rea_runner *runner, uint32_t index)
{
	return &runner->jobs[(runner->jobs_first + index) % runner->jobs_max];
}

/* The executor begins an attempt: one of the threads is to execute it. */
static bool begin_attempt(const struct rea_attempt *attempt, struct rea_report *ret_report, void *user_data)
{
	struct runner_handler *handler = user_data;
	struct rea_runner *runner = handler->runner;

	(void)ret_report;
	lock(runner);
	assert(runner->jobs_len < runner->jobs_max);
	*job_at(runner, runner->jobs_len++) = (struct job){attempt, handler};
	pthread_cond_signal(&runner->job_added);
	unlock(runner);
	return false;
}

/* True: no thread has begun it, and none will. */
static bool withdraw_job(struct rea_runner *runner, const struct rea_attempt *attempt)
{
	uint32_t i = 0;
	bool found;

	lock(runner);
	while (i < runner->jobs_len && job_at(runner, i)->attempt != attempt)
		i++;
	found = i < runner->jobs_len;
	for (; i + 1 < runner->jobs_len; i++)
		*job_at(runner, i) = *job_at(runner, i + 1);
	runner->jobs_len -= found;
	unlock(runner);
	return found;
}

static bool cancel_attempt(const struct rea_attempt *attempt, void *user_data)
{
	struct runner_handler *handler = user_data;

	if (withdraw_job(handler->runner, attempt))
		return true;
	return handler->is.cancel != NULL && handler->is.cancel(attempt, handler->is.user_data);
}

/* ---- threads ---- */

static void sleep_until(struct rea_runner *runner, uint64_t wake_ns)
{
	struct timespec at = {(time_t)(wake_ns / REA_NS_PER_S), (long)(wake_ns % REA_NS_PER_S)};

	runner->asleep_until_ns = wake_ns;
	if (wake_ns == REA_NEVER)
		pthread_cond_wait(&runner->changed, &runner->lock);
	else
		pthread_cond_timedwait(&runner->changed, &runner->lock, &at);
	runner->asleep_until_ns = 0;
}

static void *keep(void *user_data)
{
	struct rea_runner *runner = user_data;

	lock(runner);
	while (!is_over(runner)) {
		uint64_t now_ns = rea_runner_now(), next_ns = rea_executor_next(runner->executor);

		if (next_ns <= now_ns)
			rea_executor_run(runner->executor, now_ns);
		else
			sleep_until(runner, next_ns);
	}
	runner->over = true;
	pthread_cond_broadcast(&runner->job_added);
	unlock(runner);
	return NULL;
}

static void execute(struct rea_runner *runner)
{
	struct job job = *job_at(runner, 0);
	uint64_t attempt_id = job.attempt->id;
	struct rea_report report = {.outcome = REA_OUTCOME_AMBIGUOUS};
	bool ended;

	runner->jobs_first = (runner->jobs_first + 1) % runner->jobs_max;
	runner->jobs_len--;
	unlock(runner);
	ended = job.handler->is.attempt(job.attempt, &report, job.handler->is.user_data);
	lock(runner);
	if (ended)
		rea_executor_report(runner->executor, attempt_id, &report, rea_runner_now());
	wake_keeper(runner);
}

static void *work(void *user_data)
{
	struct rea_runner *runner = user_data;

	lock(runner);
	while (!runner->over) {
		if (runner->jobs_len > 0)
			execute(runner);
		else
			pthread_cond_wait(&runner->job_added, &runner->lock);
	}
	unlock(runner);
	return NULL;
}

static int start_threads(struct rea_runner *runner, uint32_t count, struct rea_error_info *ret_info)
{
	struct rea_format text;
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (runner->threads_len < count && pthread_create(&runner->threads[runner->threads_len], NULL,
						  runner->threads_len == 0 ? keep : work, runner) == 0)
		runner->threads_len++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (runner->threads_len == count)
		return 0;
	text = rea__begin_refusal(ret_info, "threads");
	rea_format_text(&text, "the system starts ");
	rea_format_u64(&text, runner->threads_len);
	rea_format_text(&text, " threads, not ");
	rea_format_u64(&text, count);
	return REA_ERR_LIMIT;
}

/* ---- new, free ---- */

static int check_options(const struct rea_runner_options *options, struct rea_error_info *ret_info)
{
	const struct rea__bound bounds[] = {
	    {"version", "the options' version", options->version, REA_RUNNER_OPTIONS_VERSION,
		REA_RUNNER_OPTIONS_VERSION, false, "rea_runner_options_init"},
	    {"threads", "threads", options->threads, 1, REA_RUNNER_THREADS_MAX, false, NULL},
	};

	return rea__check_bounds(bounds, sizeof(bounds) / sizeof(bounds[0]), ret_info);
}

static uint64_t choose_seed(void)
{
	uint64_t seed;

	return getrandom(&seed, sizeof(seed), 0) == (ssize_t)sizeof(seed) ? seed : rea_runner_now();
}

static int new_executor(struct rea_runner *runner, const struct rea_runner_options *options, struct rea_error_info *ret_info)
{
	const struct rea__gate gate = {unlock, lock, runner};
	struct rea_executor_options inner = options->executor;
	int error;

	if (inner.concurrency == 0)
		inner.concurrency = options->threads;
	if (inner.seed == 0)
		inner.seed = choose_seed();
	error = rea_executor_new(&inner, &runner->alloc, &runner->executor, ret_info);
	if (error != 0)
		return error;
	rea__executor_set_gate(runner->executor, &gate);
	runner->jobs_max = inner.concurrency;
	runner->jobs = runner->alloc.realloc(NULL, runner->jobs_max * sizeof(*runner->jobs), runner->alloc.user_data);
	return runner->jobs != NULL ? 0 : REA_ERR_NOMEM;
}

static void init_lock(struct rea_runner *runner)
{
	pthread_condattr_t attributes;

	pthread_mutex_init(&runner->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&runner->changed, &attributes);
	pthread_cond_init(&runner->job_added, NULL);
	pthread_condattr_destroy(&attributes);
}

int rea_runner_new(const struct rea_runner_options *options, const struct rea_alloc *alloc,
    struct rea_runner **ret_runner, struct rea_error_info *ret_info)
{
	struct rea_runner *runner;
	int error = check_options(options, ret_info);

	if (error != 0)
		return error;
	if (alloc == NULL)
		alloc = rea_alloc_default();
	runner = alloc->realloc(NULL, sizeof(*runner) + (options->threads + 1) * sizeof(pthread_t), alloc->user_data);
	if (runner == NULL)
		return REA_ERR_NOMEM;
	*runner = (struct rea_runner){.alloc = *alloc};
	init_lock(runner);
	error = new_executor(runner, options, ret_info);
	if (error == 0)
		error = start_threads(runner, options->threads + 1, ret_info);
	if (error != 0) {
		rea_runner_free(runner);
		return error;
	}
	*ret_runner = runner;
	return 0;
}

/* Cancels everything unless a shutdown has begun. */
static void close_runner(struct rea_runner *runner)
{
	lock(runner);
	if (!runner->closing)
		rea_executor_shutdown(runner->executor, REA_SHUTDOWN_CANCEL, 0);
	runner->closing = true;
	wake_keeper(runner);
	unlock(runner);
}

void rea_runner_free(struct rea_runner *runner)
{
	struct runner_handler *handler;
	struct rea_alloc alloc;

	if (runner == NULL)
		return;
	if (runner->threads_len > 0)
		close_runner(runner);
	for (uint32_t i = 0; i < runner->threads_len; i++) {
		int error = pthread_join(runner->threads[i], NULL);

		assert(error == 0 && "a runner is not freed by its own callbacks");
		(void)error;
	}
	alloc = runner->alloc;
	rea_executor_free(runner->executor);
	while ((handler = runner->handlers) != NULL) {
		runner->handlers = handler->next;
		alloc.free(handler, alloc.user_data);
	}
	alloc.free(runner->jobs, alloc.user_data);
	pthread_cond_destroy(&runner->job_added);
	pthread_cond_destroy(&runner->changed);
	pthread_mutex_destroy(&runner->lock);
	alloc.free(runner, alloc.user_data);
}

/* ---- the executor's functions, under the lock ---- */

static int add_handler(struct rea_runner *runner, const struct rea_handler *handler, struct rea_error_info *ret_info)
{
	struct runner_handler *added = runner->alloc.realloc(NULL, sizeof(*added), runner->alloc.user_data);
	struct rea_handler wrapper = *handler;
	int error;

	if (added == NULL)
		return REA_ERR_NOMEM;
	*added = (struct runner_handler){.runner = runner, .is = *handler};
	if (handler->attempt != NULL)
		wrapper.attempt = begin_attempt;
	wrapper.cancel = cancel_attempt;
	wrapper.user_data = added;
	error = rea_executor_handle(runner->executor, &wrapper, ret_info);
	if (error != 0) {
		runner->alloc.free(added, runner->alloc.user_data);
		return error;
	}
	added->next = runner->handlers;
	runner->handlers = added;
	return 0;
}

int rea_runner_handle(struct rea_runner *runner, const struct rea_handler *handler, struct rea_error_info *ret_info)
{
	int error;

	lock(runner);
	error = add_handler(runner, handler, ret_info);
	unlock(runner);
	return error;
}

int rea_runner_submit(struct rea_runner *runner, const struct rea_task *task, uint64_t *ret_id, struct rea_error_info *ret_info)
{
	int error;

	lock(runner);
	error = rea_executor_submit(runner->executor, task, rea_runner_now(), ret_id, ret_info);
	wake_keeper(runner);
	unlock(runner);
	return error;
}

int rea_runner_report(struct rea_runner *runner, uint64_t attempt_id, const struct rea_report *report)
{
	int error;

	lock(runner);
	error = rea_executor_report(runner->executor, attempt_id, report, rea_runner_now());
	wake_keeper(runner);
	unlock(runner);
	return error;
}

int rea_runner_cancel(struct rea_runner *runner, uint64_t id)
{
	int error;

	lock(runner);
	error = rea_executor_cancel(runner->executor, id, rea_runner_now());
	wake_keeper(runner);
	unlock(runner);
	return error;
}

void rea_runner_shutdown(struct rea_runner *runner, enum rea_shutdown mode, uint64_t deadline_ns)
{
	lock(runner);
	runner->closing = true;
	rea_executor_shutdown(runner->executor, mode, deadline_ns);
	wake_keeper(runner);
	unlock(runner);
}

/* Looking takes the lock and changes nothing, so the runner is the same for a caller who may not change it. */
static struct rea_runner *to_look_at(const struct rea_runner *runner)
{
	return (struct rea_runner *)(uintptr_t)runner;
}

int rea_runner_state(const struct rea_runner *runner, uint64_t id, enum rea_task_state *ret_state)
{
	int error;

	lock(to_look_at(runner));
	error = rea_executor_state(runner->executor, id, ret_state);
	unlock(to_look_at(runner));
	return error;
}

void rea_runner_stats(const struct rea_runner *runner, struct rea_executor_stats *ret_stats)
{
	lock(to_look_at(runner));
	rea_executor_stats(runner->executor, ret_stats);
	unlock(to_look_at(runner));
}

size_t rea_runner_explain(const struct rea_runner *runner, char *ret_text, size_t size)
{
	size_t length;

	lock(to_look_at(runner));
	length = rea_executor_explain(runner->executor, rea_runner_now(), ret_text, size);
	unlock(to_look_at(runner));
	return length;
}
