/*
 * A call in the calling thread. Guarantee: between two attempts the thread sleeps until the time the decision named, until a slot in line is its
 * own, or until cancel_fd is readable, whichever comes first; never longer, never in between for nothing.
 */
#include "guard/internal.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

void rea_guard_run_options_init(struct rea_guard_run_options *options)
{
	*options = (struct rea_guard_run_options){.version = REA_GUARD_RUN_OPTIONS_VERSION, .cancel_fd = -1};
	rea_guard_call_options_init(&options->call);
}

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * REA_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* ---- sleeping ---- */

static struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / REA_NS_PER_S), .tv_nsec = (long)(ns % REA_NS_PER_S)};
}

/* Sleep until until_ns, or until one of the descriptors (-1 = none) is readable. Returns true if cancel_fd was what ended it. */
static bool sleep_until(uint64_t until_ns, int cancel_fd, int wake_fd)
{
	struct pollfd fds[] = {{.fd = cancel_fd, .events = POLLIN}, {.fd = wake_fd, .events = POLLIN}};
	uint64_t now_ns;
	uint64_t woken;

	while ((now_ns = clock_ns()) < until_ns) {
		struct timespec left = to_timespec(until_ns - now_ns);
		int ready = ppoll(fds, 2, &left, NULL);

		assert((ready >= 0 || errno == EINTR) && !(fds[0].revents & POLLNVAL) &&
		       "rea_guard_run: cancel_fd is not open");
		if (ready <= 0)
			continue;
		if (fds[0].revents != 0)
			return true;
		/* Said once too often is harmless; to leave it said would make the next sleep none. */
		(void)!read(wake_fd, &woken, sizeof(woken));
		return false;
	}
	return false;
}

/* What a slot in line is told through; made at the first need, as most programs have no line. */
static int wake_fd_of(struct rea_guard_thread *thread)
{
	const struct rea_guard_options *options = &thread->guard->options;

	if (!options->limiter_on || options->limiter.waiting_max == 0)
		return REA__WAKE_NOBODY;
	if (thread->wake_fd < 0)
		thread->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return thread->wake_fd >= 0 ? thread->wake_fd : REA__WAKE_NOBODY;
}

/* ---- running ---- */

struct run {
	struct rea_guard_thread *thread;
	struct rea_report (*attempt)(const struct rea_guard_attempt *attempt, void *arg);
	void *arg;
	const struct rea_guard_run_options *options;
	struct rea_guard_call call;
};

static void make_attempt(struct run *run, struct rea_guard_result *result)
{
	struct rea_guard_attempt attempt;

	rea_guard_call_attempt(&run->call, run->options->instances, &result->decision, &attempt);
	attempt.cancel_fd = run->options->cancel_fd;
	result->report = run->attempt(&attempt, run->arg);
	rea_guard_report(&run->call, run->thread, &result->report, run->options->instances, clock_ns(), &result->decision);
}

static void go_on(struct run *run, uint64_t now_ns, struct rea_guard_result *result)
{
	rea_guard_next(&run->call, run->thread, run->options->instances, now_ns, &result->decision);
	if (result->decision.step == REA_STEP_ATTEMPT)
		make_attempt(run, result);
}

static void wait_and_go_on(struct run *run, struct rea_guard_result *result)
{
	if (sleep_until(result->decision.wait_until_ns, run->options->cancel_fd,
		run->call.wake_fd >= 0 ? run->call.wake_fd : -1))
		rea_guard_cancel(&run->call, run->thread, clock_ns(), &result->decision);
	else
		go_on(run, clock_ns(), result);
}

enum rea_verdict rea_guard_run(struct rea_guard_thread *thread,
    struct rea_report (*attempt)(const struct rea_guard_attempt *attempt, void *arg), void *arg,
    const struct rea_guard_run_options *options, struct rea_guard_result *ret_result)
{
	struct rea_guard_result result = {.report = {.outcome = REA_OUTCOME_NEVER_SENT}};
	struct rea_guard_run_options defaults;
	uint64_t now_ns = clock_ns();
	struct run run; /* its call is begun below */

	run.thread = thread;
	run.attempt = attempt;
	run.arg = arg;
	run.options = options;
	if (options == NULL) {
		rea_guard_run_options_init(&defaults);
		run.options = &defaults;
	}
	assert(run.options->version == REA_GUARD_RUN_OPTIONS_VERSION &&
	       "rea_guard_run: the options were not initialised by rea_guard_run_options_init");
	rea_guard_begin(&run.call, thread, &run.options->call, now_ns);
	run.call.wake_fd = wake_fd_of(thread);
	go_on(&run, now_ns, &result);
	while (result.decision.step == REA_STEP_WAIT)
		wait_and_go_on(&run, &result);
	result.stage = rea_guard_call_stage(&run.call);
	if (ret_result != NULL)
		*ret_result = result;
	return result.decision.verdict;
}
