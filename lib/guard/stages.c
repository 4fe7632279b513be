/*
 * The stages before the call: rate limiter and concurrency limiter, each under a lock of its own that is taken only where it is on.
 *
 * Guarantee: a permit of the rate is used by an attempt or given back, a slot is released once, whoever refuses, expires or cancels; who gets
 * a slot in line is told while the limiter's lock is held, so a call that is over is never told.
 */
#include "guard/internal.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>

/* An attempt with less time than this is none (as in core/call.c, rule 9). */
#define USEFUL_NS_MIN (10 * REA_NS_PER_MS)

/* How long a call may still wait for an attempt: no longer than wait_max_ns, than its deadline leaves use for, or while the breaker is open. */
static uint64_t time_to_wait(const struct rea_guard_call *call, uint64_t wait_max_ns, uint64_t now_ns)
{
	uint64_t useful_ns = rea_time_max(USEFUL_NS_MIN, call->options->useful_ns);
	uint64_t left_ns = rea_time_sub(rea_call_deadline(&call->call), rea_time_add(now_ns, useful_ns));

	if (call->guard->breaker != NULL && !rea_shared_breaker_permits(call->guard->breaker, now_ns))
		return 0;
	return rea_time_min(wait_max_ns, left_ns);
}

static enum rea__answer refuse(struct rea_guard_call *call, enum rea_guard_stage stage)
{
	call->stage = stage;
	return REA__REFUSED;
}

static enum rea__answer park(
    struct rea_guard_call *call, enum rea__guard_state state, enum rea_guard_stage stage, uint64_t due_ns)
{
	call->state = state;
	call->stage = stage;
	call->due_ns = due_ns;
	return REA__PARKED;
}

/* ---- rate ---- */

static enum rea__answer pass_rate(struct rea_guard_call *call, uint64_t now_ns)
{
	struct rea_guard *guard = call->guard;
	uint64_t wait_max_ns = time_to_wait(call, guard->options.rate_wait_ns, now_ns);
	bool granted;

	pthread_mutex_lock(&guard->rate_lock);
	granted = rea_rate_reserve(&guard->rate, 1, wait_max_ns, now_ns, &call->reservation);
	pthread_mutex_unlock(&guard->rate_lock);
	if (!granted)
		return refuse(call, REA_GUARD_STAGE_RATE);
	if (call->reservation.wait_ns == 0)
		return REA__PASSED;
	return park(call, REA__GUARD_RESERVED, REA_GUARD_STAGE_RATE, rea_time_add(now_ns, call->reservation.wait_ns));
}

static void give_permit_back(struct rea_guard_call *call, uint64_t now_ns)
{
	struct rea_guard *guard = call->guard;

	pthread_mutex_lock(&guard->rate_lock);
	rea_rate_cancel(&guard->rate, &call->reservation, now_ns);
	pthread_mutex_unlock(&guard->rate_lock);
}

/* ---- the line for a slot; all of it under the limiter's lock ---- */

static void tell(struct rea_guard_call *call)
{
	static const uint64_t one = 1;

	if (call->wake_fd >= 0)
		while (write(call->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
			;
	else
		call->guard->options.wake(call, call->guard->options.user_data);
}

/* Tell those whose wait is over, but for the one that asks. */
static void hand_out(struct rea_guard *guard, const struct rea_guard_call *asking, uint64_t now_ns)
{
	struct rea_limiter_waiter *waiter;

	while ((waiter = rea_limiter_next(&guard->limiter, now_ns)) != NULL)
		if (waiter->user_data != asking)
			tell(waiter->user_data);
}

static bool may_wait_in_line(const struct rea_guard_call *call)
{
	if (call->wake_fd == REA__WAKE_CALLBACK)
		return call->guard->options.wake != NULL;
	return call->wake_fd != REA__WAKE_NOBODY;
}

static void get_in_line(struct rea_guard_call *call, uint64_t now_ns)
{
	struct rea_guard *guard = call->guard;
	uint64_t wait_ns = may_wait_in_line(call) ? time_to_wait(call, guard->options.limiter_wait_ns, now_ns) : 0;

	call->waiter = (struct rea_limiter_waiter){.user_data = call};
	call->due_ns = rea_time_add(now_ns, wait_ns);
	rea_limiter_acquire(&guard->limiter, &call->waiter, call->due_ns, now_ns);
}

static enum rea__answer pass_limiter(struct rea_guard_call *call, uint64_t now_ns)
{
	struct rea_guard *guard = call->guard;
	enum rea_limiter_verdict verdict;

	pthread_mutex_lock(&guard->limiter_lock);
	if (call->state != REA__GUARD_IN_LINE)
		get_in_line(call, now_ns);
	hand_out(guard, call, now_ns);
	verdict = call->waiter.verdict;
	call->in_flight = rea_limiter_in_use(&guard->limiter);
	pthread_mutex_unlock(&guard->limiter_lock);

	call->state = REA__GUARD_IN_LINE;
	switch (verdict) {
	case REA_LIMITER_ACQUIRED:
		return REA__PASSED;
	case REA_LIMITER_WAITING:
		return park(call, REA__GUARD_IN_LINE, REA_GUARD_STAGE_LIMITER, call->due_ns);
	case REA_LIMITER_REFUSED:
	case REA_LIMITER_EXPIRED:
	case REA_LIMITER_VERDICT_COUNT:
		break;
	}
	return refuse(call, REA_GUARD_STAGE_LIMITER);
}

/* Leave the line, or give back the slot that came of it. */
static void leave_line(struct rea_guard_call *call, uint64_t now_ns)
{
	struct rea_guard *guard = call->guard;

	pthread_mutex_lock(&guard->limiter_lock);
	if (call->waiter.verdict == REA_LIMITER_WAITING)
		rea_limiter_cancel(&guard->limiter, &call->waiter, now_ns);
	else if (call->waiter.verdict == REA_LIMITER_ACQUIRED)
		rea_limiter_release(&guard->limiter, now_ns);
	hand_out(guard, call, now_ns);
	pthread_mutex_unlock(&guard->limiter_lock);
}

/* ---- both ---- */

enum rea__answer rea__guard_pass(struct rea_guard_call *call, uint64_t now_ns)
{
	const struct rea_guard_options *options = &call->guard->options;
	enum rea__answer answer = REA__PASSED;

	if (call->state == REA__GUARD_RESERVED && now_ns < call->due_ns)
		return REA__PARKED;
	if (options->rate_on && call->state == REA__GUARD_READY)
		answer = pass_rate(call, now_ns);
	if (options->limiter_on && answer == REA__PASSED) {
		answer = pass_limiter(call, now_ns);
		if (answer == REA__REFUSED && options->rate_on)
			give_permit_back(call, now_ns);
	}
	return answer;
}

void rea__guard_unpass(struct rea_guard_call *call, uint64_t now_ns)
{
	const struct rea_guard_options *options = &call->guard->options;

	if (call->state == REA__GUARD_IN_LINE)
		leave_line(call, now_ns);
	if (options->rate_on)
		give_permit_back(call, now_ns);
}

/* What the latency of this attempt tells of the callee's load. */
enum sample { SAMPLE_NONE, SAMPLE_LATENCY, SAMPLE_DROPPED };

static enum sample sample_of(enum rea_outcome outcome)
{
	switch (outcome) {
	case REA_OUTCOME_OK:
	case REA_OUTCOME_PERMANENT:
		return SAMPLE_LATENCY;
	case REA_OUTCOME_PUSHBACK:
	case REA_OUTCOME_THROTTLED:
	case REA_OUTCOME_UNAVAILABLE:
	case REA_OUTCOME_AMBIGUOUS:
		return SAMPLE_DROPPED;
	case REA_OUTCOME_NEVER_SENT:
	case REA_OUTCOME_FAILED:
	case REA_OUTCOME_CANCELLED:
	case REA_OUTCOME_COUNT:
		break;
	}
	return SAMPLE_NONE;
}

static void adapt(struct rea_guard_call *call, const struct rea_report *report, uint64_t now_ns)
{
	struct rea_guard *guard = call->guard;
	enum sample sample = sample_of(report->outcome);
	uint32_t limit;

	if (sample == SAMPLE_NONE)
		return;
	limit = rea_adaptive_report(&guard->adaptive, report->latency_ns, call->in_flight, sample == SAMPLE_DROPPED);
	rea_limiter_resize(&guard->limiter, limit, guard->options.limiter.waiting_max, now_ns);
}

void rea__guard_land(struct rea_guard_call *call, const struct rea_report *report, uint64_t now_ns)
{
	struct rea_guard *guard = call->guard;

	if (!guard->options.limiter_on)
		return;
	pthread_mutex_lock(&guard->limiter_lock);
	rea_limiter_release(&guard->limiter, now_ns);
	if (guard->options.adaptive_on && report != NULL)
		adapt(call, report, now_ns);
	hand_out(guard, NULL, now_ns);
	pthread_mutex_unlock(&guard->limiter_lock);
}
