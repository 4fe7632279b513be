/*
 * One call through a guard, step by step. Time, and who calls, come from outside.
 *
 *            next: the stages make it wait
 *   READY ─────────────────────────────────▶ RESERVED, IN_LINE
 *    ▲ │                                        │    │
 *    │ │ next: an attempt                       │    │ next: refused, cancel
 *    │ └──────────────▶ FLYING ◀────────────────┘    │
 *    │ report: retry      │                          │
 *    └────────────────────┤ report: final, cancel    │
 *                         └──────▶ DONE ◀────────────┘  also from READY: next, refused; cancel
 *
 *   NONE      zero-initialised: not begun
 *   READY     holds nothing of the stages; the core's call is READY or WAITING
 *   RESERVED  holds a permit of the rate that may be used at due_ns
 *   IN_LINE   holds that, and a place in the limiter's line, or the slot that came of it
 *   FLYING    holds a slot; the core's call is FLYING
 *   DONE      holds nothing
 */
#include "guard/internal.h"

#include <assert.h>
#include <string.h>

void rea_guard_call_options_init(struct rea_guard_call_options *options)
{
	*options = (struct rea_guard_call_options){.version = REA_GUARD_CALL_OPTIONS_VERSION, .deadline_ns = REA_NEVER};
}

/* ---- what is told of a call ---- */

static struct rea_text first_text(struct rea_text a, struct rea_text b)
{
	return a.length > 0 ? a : b;
}

static struct rea_text trace_id_of(const struct rea_guard_call *call)
{
	const struct rea_guard_call_options *options = call->options;

	return options->outer != NULL ? first_text(options->trace_id, options->outer->trace_id) : options->trace_id;
}

/* What the caller calls it, else the trace, else the call itself. */
static struct rea_text biz_id_of(const struct rea_guard_call *call)
{
	const struct rea_guard_call_options *options = call->options;
	struct rea_text biz_id =
	    options->outer != NULL ? first_text(options->biz_id, options->outer->biz_id) : options->biz_id;

	return first_text(biz_id, first_text(trace_id_of(call), options->call_id));
}

static enum rea_event_type event_type(const struct rea_decision *decision)
{
	if (decision->would_retry)
		return REA_EVENT_WOULD_RETRY;
	switch (decision->verdict) {
	case REA_VERDICT_RETRY:
		return REA_EVENT_RETRY;
	case REA_VERDICT_SUCCESS:
		return REA_EVENT_SUCCESS;
	case REA_VERDICT_GIVE_UP:
		break;
	}
	return REA_EVENT_GIVE_UP;
}

/* The instance of the last attempt; "" without a list. */
static struct rea_text instance_of(const struct rea_guard_call *call, char *buffer, size_t size)
{
	uint32_t tried = call->call.tried_len;

	if (tried == 0)
		return (struct rea_text){NULL, 0};
	return (struct rea_text){buffer, rea_instance_id_format(&call->call.tried[tried - 1], buffer, size)};
}

/* report NULL: no attempt was made after the last decision; it counts as one that never began. */
static void tell(
    struct rea_guard_call *call, const struct rea_report *report, const struct rea_decision *decision, uint64_t now_ns)
{
	static const struct rea_report never_begun = {.outcome = REA_OUTCOME_NEVER_SENT};
	const struct rea_guard_options *options = &call->guard->options;
	bool attempted = report != NULL;
	struct rea_event event;
	char instance[64], evidence[REA_EVIDENCE_TEXT_MAX];

	if (options->event == NULL)
		return;
	if (!attempted)
		report = &never_begun;
	event = (struct rea_event){
	    .type = event_type(decision),
	    .attempt_start_ns = attempted ? call->attempt_ns : now_ns,
	    .time_ns = now_ns,
	    .call_id = call->options->call_id,
	    .biz_id = biz_id_of(call),
	    .key = call->options->key,
	    .trace_id = trace_id_of(call),
	    .service = {options->name, strlen(options->name)},
	    .method = call->options->method,
	    .instance = attempted ? instance_of(call, instance, sizeof(instance)) : (struct rea_text){NULL, 0},
	    .evidence = {evidence, rea_evidence_format(&decision->evidence, evidence, sizeof(evidence))},
	    .attempt = attempted ? decision->attempt : decision->attempt + 1,
	    .attempts_max = decision->attempts_max,
	    .outcome = decision->reason == REA_REASON_CANCELLED ? REA_OUTCOME_CANCELLED : report->outcome,
	    .code_kind = report->code_kind,
	    .code = report->code,
	    .cost_ns = attempted ? rea_time_sub(now_ns, call->attempt_ns) : 0,
	    .retryable = decision->retryable,
	    .next_delay_ns = decision->wait_ns,
	    .verdict = decision->verdict,
	    .reason = decision->reason,
	    .grant = decision->grant,
	};
	options->event(&event, options->user_data);
}

/* ---- begin ---- */

static struct rea__guard_shard *shard_of(const struct rea_guard_thread *thread)
{
	assert(thread->guard != NULL && "rea_guard: the thread has not joined, or has left");
	return &thread->guard->shards[thread->shard];
}

/* The call goes on under this thread. */
static struct rea_service_stats *take_over(struct rea_guard_call *call, const struct rea_guard_thread *thread)
{
	struct rea__guard_shard *shard = shard_of(thread);

	assert(call->guard == thread->guard && "rea_guard: the thread has joined another guard than the call's");
	call->call.options.budget_shard = thread->shard;
	if (call->guard->breaker != NULL)
		call->call.options.gate = &shard->gate.gate;
	return &shard->stats;
}

/* What the attempt that a call is a part of lends to it. */
static uint64_t deadline_within(const struct rea_guard_attempt *outer, uint64_t deadline_ns)
{
	return outer != NULL ? rea_time_min(deadline_ns, outer->deadline_ns) : deadline_ns;
}

static bool is_chained(const struct rea_guard_attempt *outer)
{
	return outer != NULL && outer->number > 1;
}

void rea_guard_begin(struct rea_guard_call *call, struct rea_guard_thread *thread,
    const struct rea_guard_call_options *options, uint64_t now_ns)
{
	struct rea__guard_shard *shard = shard_of(thread);
	struct rea_guard *guard = thread->guard;

	assert(options->version == REA_GUARD_CALL_OPTIONS_VERSION &&
	       "rea_guard_begin: the options were not initialised by rea_guard_call_options_init");
	assert(options->grant.permission < REA_PERMISSION_COUNT && options->grant.source < REA_PERMISSION_SOURCE_COUNT &&
	       "rea_guard_begin: the grant is none of rea/permission.h");
	call->options = options;
	call->guard = guard;
	call->state = REA__GUARD_READY;
	call->stage = REA_GUARD_STAGE_NONE;
	call->wake_fd = REA__WAKE_CALLBACK;
	call->begin_ns = now_ns;
	/* Where the call keeps them, so that they are copied once. */
	call->call.options = guard->call;
	call->call.options.grant = options->grant;
	call->call.options.has_key = options->key.length > 0;
	call->call.options.chained = options->chained || is_chained(options->outer);
	call->call.options.deadline_ns = deadline_within(options->outer, options->deadline_ns);
	call->call.options.useful_ns = options->useful_ns;
	call->call.options.budget_shard = thread->shard;
	call->call.options.gate = guard->breaker != NULL ? &shard->gate.gate : NULL;
	rea_call_begin(&call->call, &call->call.options, now_ns);
	rea_service_stats_begin(&shard->stats);
}

/* ---- next, report, cancel ---- */

static void finish(
    struct rea_guard_call *call, struct rea_service_stats *stats, const struct rea_decision *decision, uint64_t now_ns)
{
	bool success = decision->verdict == REA_VERDICT_SUCCESS;

	call->state = REA__GUARD_DONE;
	if (success)
		call->stage = REA_GUARD_STAGE_NONE;
	else if (decision->reason == REA_REASON_BREAKER_OPEN)
		call->stage = REA_GUARD_STAGE_BREAKER;
	if (decision->would_retry)
		rea_service_stats_would_retry(stats);
	rea_service_stats_call(
	    stats, decision->reason, success && decision->attempt == 1, rea_time_sub(now_ns, call->begin_ns));
}

/* WAIT, because a limiter says so and not an outcome. */
static void describe_parked(const struct rea_guard_call *call, uint64_t now_ns, struct rea_decision *ret_decision)
{
	*ret_decision = (struct rea_decision){
	    .step = REA_STEP_WAIT,
	    .verdict = REA_VERDICT_RETRY,
	    .reason = REA_REASON_PARKED,
	    .attempt = call->call.attempts,
	    .attempts_max = call->call.attempts_max,
	    .wait_ns = rea_time_sub(call->due_ns, now_ns),
	    .wait_until_ns = call->due_ns,
	    .grant = call->call.grant,
	};
}

/* The stages are passed: the core has the last word. */
static void try_attempt(struct rea_guard_call *call, struct rea_guard_thread *thread,
    const struct rea_instances *instances, uint64_t now_ns, struct rea_decision *ret_decision)
{
	call->stage = REA_GUARD_STAGE_CALL;
	rea_call_attempt(&call->call, instances, &thread->random, now_ns, ret_decision);
	if (ret_decision->step == REA_STEP_ATTEMPT) {
		call->state = REA__GUARD_FLYING;
		call->attempt_ns = now_ns;
		return;
	}
	rea__guard_unpass(call, now_ns);
}

static bool is_waiting(const struct rea_guard_call *call)
{
	return call->state == REA__GUARD_RESERVED || call->state == REA__GUARD_IN_LINE;
}

/* The wait after an outcome is not over, the budget has yet to say when it is, or the deadline has passed: nothing is asked of the stages. */
static bool no_attempt_now(const struct rea_guard_call *call, uint64_t now_ns)
{
	return now_ns < call->call.wait_until_ns || call->call.park.held || now_ns >= call->call.deadline_ns;
}

static uint64_t see_time(const struct rea_guard_call *call, uint64_t now_ns)
{
	return rea_time_max(call->call.now_ns, now_ns);
}

void rea_guard_next(struct rea_guard_call *call, struct rea_guard_thread *thread, const struct rea_instances *instances,
    uint64_t now_ns, struct rea_decision *ret_decision)
{
	struct rea_service_stats *stats;

	assert((call->state == REA__GUARD_READY || is_waiting(call)) &&
	       "rea_guard_next: the call was not begun, has an attempt under way, or is over");
	stats = take_over(call, thread);
	now_ns = see_time(call, now_ns);
	if (call->call.attempts == 0)
		call->call.options.single_target = instances == NULL;
	assert(call->call.options.single_target == (instances == NULL) &&
	       "rea_guard_next: a call has a list of instances from its first attempt on, or never");
	if (no_attempt_now(call, now_ns)) {
		if (is_waiting(call))
			rea__guard_unpass(call, now_ns);
		call->stage = REA_GUARD_STAGE_CALL;
		rea_call_attempt(&call->call, instances, &thread->random, now_ns, ret_decision);
	} else {
		switch (rea__guard_pass(call, now_ns)) {
		case REA__PASSED:
			try_attempt(call, thread, instances, now_ns, ret_decision);
			break;
		case REA__PARKED:
			describe_parked(call, now_ns, ret_decision);
			break;
		case REA__REFUSED:
			rea_call_refuse(&call->call, REA_REASON_OVERLOADED, now_ns, ret_decision);
			break;
		}
	}
	if (ret_decision->step == REA_STEP_DONE) {
		finish(call, stats, ret_decision, now_ns);
		tell(call, NULL, ret_decision, now_ns);
	}
}

void rea_guard_report(struct rea_guard_call *call, struct rea_guard_thread *thread, const struct rea_report *report,
    const struct rea_instances *instances, uint64_t now_ns, struct rea_decision *ret_decision)
{
	struct rea_service_stats *stats;
	struct rea_report timed;

	assert(call->state == REA__GUARD_FLYING && "rea_guard_report: no attempt of the call is under way");
	assert(report->outcome < REA_OUTCOME_COUNT && "rea_guard_report: the outcome is none of rea/outcome.h");
	stats = take_over(call, thread);
	now_ns = see_time(call, now_ns);
	if (report->latency_ns == 0) {
		timed = *report;
		timed.latency_ns = rea_time_sub(now_ns, call->attempt_ns);
		report = &timed;
	}
	rea__guard_land(call, report, now_ns);
	call->state = REA__GUARD_READY;
	rea_call_report(&call->call, report, instances, &thread->random, now_ns, ret_decision);
	rea_service_stats_attempt(stats, report->outcome, ret_decision->attempt > 1);
	if (ret_decision->step == REA_STEP_DONE)
		finish(call, stats, ret_decision, now_ns);
	if (ret_decision->verdict != REA_VERDICT_SUCCESS || ret_decision->attempt > 1)
		tell(call, report, ret_decision, now_ns);
}

void rea_guard_cancel(
    struct rea_guard_call *call, struct rea_guard_thread *thread, uint64_t now_ns, struct rea_decision *ret_decision)
{
	static const struct rea_report cancelled = {.outcome = REA_OUTCOME_CANCELLED};
	bool flying = call->state == REA__GUARD_FLYING, over = call->state == REA__GUARD_DONE;
	struct rea_service_stats *stats;

	assert(call->state != REA__GUARD_NONE && "rea_guard_cancel: the call was not begun");
	stats = take_over(call, thread);
	now_ns = see_time(call, now_ns);
	if (flying)
		rea__guard_land(call, NULL, now_ns);
	else if (is_waiting(call))
		rea__guard_unpass(call, now_ns);
	if (!over)
		call->stage = REA_GUARD_STAGE_CALL;
	rea_call_cancel(&call->call, now_ns, ret_decision);
	if (over)
		return;
	if (flying)
		rea_service_stats_attempt(stats, REA_OUTCOME_CANCELLED, ret_decision->attempt > 1);
	finish(call, stats, ret_decision, now_ns);
	tell(call, flying ? &cancelled : NULL, ret_decision, now_ns);
}

/* ---- looking ---- */

enum rea_guard_stage rea_guard_call_stage(const struct rea_guard_call *call)
{
	return call->stage;
}

void rea_guard_call_attempt(const struct rea_guard_call *call, const struct rea_instances *instances,
    const struct rea_decision *decision, struct rea_guard_attempt *ret_attempt)
{
	assert(call->state == REA__GUARD_FLYING && "rea_guard_call_attempt: no attempt of the call is under way");
	*ret_attempt = (struct rea_guard_attempt){
	    .number = decision->attempt,
	    .attempts_max = decision->attempts_max,
	    .deadline_ns = decision->attempt_deadline_ns,
	    .instance = instances != NULL ? &instances->items[decision->instance] : NULL,
	    .key = call->options->key,
	    .biz_id = biz_id_of(call),
	    .trace_id = trace_id_of(call),
	    .grant = decision->grant,
	    .policy = &call->guard->options.policy,
	    .cancel_fd = -1,
	};
}

const char *rea_guard_stage_name(enum rea_guard_stage stage)
{
	static const char *const names[] = {
#define X(name, text) text,
	    REA_GUARD_STAGE_MAP(X)
#undef X
	};

	return stage < REA_GUARD_STAGE_COUNT ? names[stage] : "unknown";
}
