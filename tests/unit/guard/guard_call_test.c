/* Calls through a guard in virtual time: scenarios L05, L06, L07, L09, L10, the order of the stages, what each gives back, and what calls carry. */
#include "rig.h"

#include <stdlib.h>

/* ---- L05: backoff beyond the deadline ---- */

static void init_l05(struct rig *rig, uint64_t deadline_ms)
{
	rig_init(rig);
	rig->options.policy.retry_on |= REA_OUTCOME_BIT(REA_OUTCOME_THROTTLED);
	rig->options.policy.min_backoff_ns = rig->options.policy.max_backoff_ns = MS(1000);
	rig->options.policy.deadline_ns = MS(deadline_ms);
	rig->options.policy.attempt_timeout_ns = deadline_ms < 1000 ? MS(deadline_ms) : MS(1000);
	rig_start(rig);
}

static void a_wait_beyond_the_deadline_ends_the_call_now(void **state)
{
	struct rea_guard_call call;
	struct rig rig;

	(void)state;
	init_l05(&rig, 50);
	rig_fly(&rig, &call, 0);
	rig_report(&rig, &call, rea_report_from_http(429, NULL), 5);
	assert_give_up(&rig, REA_REASON_DEADLINE, 1);
	assert_stage(&call, REA_GUARD_STAGE_CALL);
	assert_int_equal(rig.events_len, 1);
	assert_event(&rig, 0, REA_EVENT_GIVE_UP, 1, REA_REASON_DEADLINE, 5);
	assert_int_equal(rig.events[0].event.code, 429);
	rig_stop(&rig);
}

static void a_wait_that_fits_makes_one_more_attempt(void **state)
{
	struct rea_guard_call call;
	struct rig rig;

	(void)state;
	init_l05(&rig, 1050);
	rig_fly(&rig, &call, 0);
	rig_report(&rig, &call, rea_report_from_http(429, NULL), 5);
	assert_wait(&rig, REA_REASON_NONE, 1005);
	rig_next(&rig, &call, 1005);
	assert_attempt(&rig, 2);
	assert_int_equal(rig.decision.attempt_deadline_ns, rig.base_ns + MS(1050));
	rig_report(&rig, &call, rea_report_from_http(429, NULL), 1006);
	assert_give_up(&rig, REA_REASON_ATTEMPTS_EXHAUSTED, 2);
	rig_stop(&rig);
}

static void a_deadline_that_has_passed_makes_no_attempt(void **state)
{
	struct rea_guard_call call, holder;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.options.rate_on = rig.options.limiter_on = true;
	rig.options.limiter.concurrent_max = 1;
	rig_start(&rig);
	/* Not even a full stage is asked. */
	rig_fly(&rig, &holder, 0);
	rig.call_options.deadline_ns = rig.base_ns;
	rig_begin(&rig, &call, 1);
	rig_next(&rig, &call, 1);
	assert_give_up(&rig, REA_REASON_DEADLINE, 0);
	assert_event(&rig, 0, REA_EVENT_GIVE_UP, 1, REA_REASON_DEADLINE, 1);
	rig_end(&rig, &holder, REA_OUTCOME_OK, 1);
	/* A total of one millisecond still runs once. */
	rig.call_options.deadline_ns = rig.base_ns + MS(3);
	rig_fly(&rig, &call, 2);
	rig_end(&rig, &call, REA_OUTCOME_UNAVAILABLE, 3);
	assert_give_up(&rig, REA_REASON_DEADLINE, 1);
	rig_stop(&rig);
}

/* ---- L06: waits lie between attempts, nowhere else ---- */

static void init_l06(struct rig *rig, uint32_t retries)
{
	rig_init(rig);
	rig->options.policy.max_retry_next_instance = retries;
	rig_start(rig);
}

static void waits_lie_between_attempts(void **state)
{
	struct rea_guard_call call;
	struct rig rig;

	(void)state;
	init_l06(&rig, 2);
	rig_begin(&rig, &call, 0);
	for (uint32_t attempt = 1; attempt <= 3; attempt++) {
		rig_next(&rig, &call, 100 * (attempt - 1));
		assert_attempt(&rig, attempt);
		rig_end(&rig, &call, REA_OUTCOME_UNAVAILABLE, 100 * (attempt - 1));
		if (attempt < 3)
			assert_wait(&rig, REA_REASON_NONE, 100 * attempt);
	}
	assert_give_up(&rig, REA_REASON_ATTEMPTS_EXHAUSTED, 3);
	assert_true(rig.decision.stop);
	assert_int_equal(rig.events_len, 3);
	assert_event(&rig, 0, REA_EVENT_RETRY, 1, REA_REASON_NONE, 0);
	assert_event(&rig, 1, REA_EVENT_RETRY, 2, REA_REASON_NONE, 100);
	assert_event(&rig, 2, REA_EVENT_GIVE_UP, 3, REA_REASON_ATTEMPTS_EXHAUSTED, 200);
	assert_int_equal(rig.events[0].event.next_delay_ns, MS(100));
	rig_stop(&rig);
}

static void asked_too_early_it_says_when(void **state)
{
	struct rea_guard_call call;
	struct rig rig;

	(void)state;
	init_l06(&rig, 2);
	rig_fly(&rig, &call, 0);
	rig_end(&rig, &call, REA_OUTCOME_UNAVAILABLE, 0);
	for (uint64_t at_ms = 0; at_ms < 100; at_ms += 33) {
		rig_next(&rig, &call, at_ms);
		assert_wait(&rig, REA_REASON_NONE, 100);
	}
	rig_next(&rig, &call, 100);
	assert_attempt(&rig, 2);
	rig_end(&rig, &call, REA_OUTCOME_OK, 100);
	assert_success(&rig, 2);
	rig_stop(&rig);
}

static void no_retries_no_retry_event(void **state)
{
	struct rig rig;

	(void)state;
	init_l06(&rig, 0);
	rig_call(&rig, REA_OUTCOME_UNAVAILABLE, 0);
	assert_give_up(&rig, REA_REASON_ATTEMPTS_EXHAUSTED, 1);
	assert_int_equal(rig.events_len, 1);
	assert_event(&rig, 0, REA_EVENT_GIVE_UP, 1, REA_REASON_ATTEMPTS_EXHAUSTED, 0);
	rig_stop(&rig);
}

static void success_at_the_third_attempt(void **state)
{
	struct rea_guard_call call;
	struct rig rig;

	(void)state;
	init_l06(&rig, 2);
	rig_begin(&rig, &call, 0);
	for (uint32_t attempt = 1; attempt <= 3; attempt++) {
		rig_next(&rig, &call, 100 * (attempt - 1));
		rig_end(&rig, &call, attempt < 3 ? REA_OUTCOME_UNAVAILABLE : REA_OUTCOME_OK, 100 * (attempt - 1));
	}
	assert_success(&rig, 3);
	assert_int_equal(rig.events_len, 3);
	assert_event(&rig, 2, REA_EVENT_SUCCESS, 3, REA_REASON_NONE, 200);
	assert_stage(&call, REA_GUARD_STAGE_NONE);
	rig_stop(&rig);
}

static void a_first_try_success_is_only_counted(void **state)
{
	struct rea_service_stats stats;
	struct rig rig;

	(void)state;
	init_l06(&rig, 2);
	for (int i = 0; i < 5; i++)
		rig_call(&rig, REA_OUTCOME_OK, 0);
	assert_int_equal(rig.events_len, 0);
	rea_guard_stats(rig.guard, &stats);
	assert_int_equal(stats.calls, 5);
	assert_int_equal(stats.first_try_successes, 5);
	assert_int_equal(stats.attempts[REA_OUTCOME_OK], 5);
	assert_int_equal(stats.in_flight, 0);
	rig_stop(&rig);
}

/* ---- L07: a backoff holds no slot and can be cancelled ---- */

static void a_backoff_holds_no_slot(void **state)
{
	struct rea_guard_call a, b, c;
	struct rig rig;
	char text[4096];

	(void)state;
	rig_init(&rig);
	rig.options.limiter_on = true;
	rig.options.limiter.concurrent_max = 2;
	rig.options.policy.min_backoff_ns = rig.options.policy.max_backoff_ns = S(10);
	rig.options.policy.deadline_ns = S(60);
	rig_start(&rig);
	rig_fly(&rig, &a, 0);
	rig_fly(&rig, &b, 0);
	rig_end(&rig, &a, REA_OUTCOME_UNAVAILABLE, 0);
	rig_end(&rig, &b, REA_OUTCOME_UNAVAILABLE, 0);
	assert_wait(&rig, REA_REASON_NONE, 10000);
	rig_fly(&rig, &c, 1);
	rig_cancel(&rig, &a, 2);
	assert_give_up(&rig, REA_REASON_CANCELLED, 1);
	assert_event(&rig, 2, REA_EVENT_GIVE_UP, 2, REA_REASON_CANCELLED, 2);
	assert_int_equal(rig.events[2].event.outcome, REA_OUTCOME_CANCELLED);
	rig_end(&rig, &c, REA_OUTCOME_OK, 3);
	rea_guard_explain(rig.guard, rig.base_ns + MS(3), text, sizeof(text));
	assert_non_null(
	    strstr(text, "2 concurrency limiter: waits at most 1000 ms; 2 slots, a line of 0; 0 in use, 0 waiting"));
	rig_next(&rig, &b, 10000);
	assert_attempt(&rig, 2);
	rig_end(&rig, &b, REA_OUTCOME_OK, 10001);
	assert_success(&rig, 2);
	rig_stop(&rig);
}

/* ---- L09, L10 through the guard ---- */

static void init_breaker(struct rig *rig, uint32_t permitted)
{
	rig_init(rig);
	rig->options.policy.breaker = (struct rea_breaker_policy){
	    .enabled = true,
	    .failure_rate_threshold = 50,
	    .slow_call_rate_threshold = 100,
	    .slow_call_duration_ns = S(60),
	    .window_type = REA_BREAKER_COUNT_BASED,
	    .window_size = 4,
	    .minimum_calls = 4,
	    .wait_in_open_ns = MS(1000),
	    .permitted_in_half_open = permitted,
	    .max_wait_in_half_open_ns = MS(2000),
	};
	rig->options.policy.max_retry_next_instance = 0;
	rig->options.policy.deadline_ns = S(60);
}

static void assert_breaker(const struct rig *rig, enum rea_breaker_state state)
{
	assert_string_equal(rea_breaker_state_name(rea_shared_breaker_state(rea_guard_breaker(rig->guard))),
	    rea_breaker_state_name(state));
}

static void open_breaker(struct rig *rig)
{
	for (int i = 0; i < 4; i++)
		rig_call(rig, REA_OUTCOME_UNAVAILABLE, 0);
	assert_breaker(rig, REA_BREAKER_OPEN);
}

static void assert_refused(struct rig *rig, uint64_t at_ms)
{
	struct rea_guard_call call;

	rig_begin(rig, &call, at_ms);
	rig_next(rig, &call, at_ms);
	assert_give_up(rig, REA_REASON_BREAKER_OPEN, 0);
	assert_stage(&call, REA_GUARD_STAGE_BREAKER);
}

static void fly_probe(struct rig *rig, struct rea_guard_call *probe)
{
	open_breaker(rig);
	assert_refused(rig, 999);
	rig_fly(rig, probe, 1001);
	assert_breaker(rig, REA_BREAKER_HALF_OPEN);
	assert_refused(rig, 1001);
}

/* (a) an outcome that the breaker ignores, (b) a cancelled probe. */
static void a_probe_that_says_nothing_gives_its_permit_back(void **state)
{
	(void)state;
	for (int cancelled = 0; cancelled < 2; cancelled++) {
		struct rea_guard_call probe, next;
		struct rig rig;

		init_breaker(&rig, 1);
		rig_start(&rig);
		fly_probe(&rig, &probe);
		if (cancelled)
			rig_cancel(&rig, &probe, 1001);
		else
			rig_end(&rig, &probe, REA_OUTCOME_THROTTLED, 1001);
		rig_fly(&rig, &next, 1002);
		rig_end(&rig, &next, REA_OUTCOME_OK, 1003);
		assert_breaker(&rig, REA_BREAKER_CLOSED);
		rig_stop(&rig);
	}
}

/* (c) */
static void a_probe_that_never_reports_does_not_stick(void **state)
{
	struct rea_guard_call probe, next;
	struct rig rig;

	(void)state;
	init_breaker(&rig, 1);
	rig_start(&rig);
	fly_probe(&rig, &probe);
	assert_refused(&rig, 3000);
	assert_refused(&rig, 3001);
	assert_breaker(&rig, REA_BREAKER_OPEN);
	assert_refused(&rig, 4000);
	rig_fly(&rig, &next, 4001);
	/* What turns up after all decides nothing. */
	rig_end(&rig, &probe, REA_OUTCOME_OK, 4002);
	assert_breaker(&rig, REA_BREAKER_HALF_OPEN);
	rig_end(&rig, &next, REA_OUTCOME_OK, 4003);
	assert_breaker(&rig, REA_BREAKER_CLOSED);
	rig_stop(&rig);
}

/* (d) The limit on concurrent retries comes after the breaker. */
static void a_probe_refused_by_a_later_stage_gives_its_permit_back(void **state)
{
	struct rea_guard_call x, y, z;
	struct rig rig;

	(void)state;
	init_breaker(&rig, 2);
	rig.options.policy.max_retry_next_instance = 1;
	rig.options.policy.min_backoff_ns = rig.options.policy.max_backoff_ns = MS(1100);
	rig.options.concurrent_retries = 1;
	rig_start(&rig);
	rig_fly(&rig, &x, 0);
	rig_fly(&rig, &y, 0);
	rig_end(&rig, &x, REA_OUTCOME_UNAVAILABLE, 0);
	rig_end(&rig, &y, REA_OUTCOME_UNAVAILABLE, 0);
	rig_call(&rig, REA_OUTCOME_UNAVAILABLE, 0);
	rig_call(&rig, REA_OUTCOME_UNAVAILABLE, 0);
	assert_breaker(&rig, REA_BREAKER_OPEN);
	rig_next(&rig, &x, 1100);
	assert_attempt(&rig, 2);
	rig_next(&rig, &y, 1100);
	assert_give_up(&rig, REA_REASON_OVERLOADED, 1);
	assert_stage(&y, REA_GUARD_STAGE_CALL);
	rig_fly(&rig, &z, 1101);
	assert_refused(&rig, 1101);
	rig_end(&rig, &x, REA_OUTCOME_OK, 1102);
	rig_end(&rig, &z, REA_OUTCOME_OK, 1102);
	assert_breaker(&rig, REA_BREAKER_CLOSED);
	rig_stop(&rig);
}

/* (e) */
static void a_failed_probe_opens_whatever_the_minimum(void **state)
{
	struct rea_guard_call probe;
	struct rig rig;

	(void)state;
	init_breaker(&rig, 1);
	rig.options.policy.breaker.window_size = rig.options.policy.breaker.minimum_calls = 100;
	rig_start(&rig);
	rea_shared_breaker_force(rea_guard_breaker(rig.guard), REA_BREAKER_OPEN, rig.base_ns);
	rig_fly(&rig, &probe, 1001);
	rig_end(&rig, &probe, REA_OUTCOME_UNAVAILABLE, 1002);
	assert_breaker(&rig, REA_BREAKER_OPEN);
	assert_refused(&rig, 2001);
	rig_stop(&rig);
}

/* L10: five calls begun while CLOSED end in HALF_OPEN. */
static void calls_of_an_older_generation_are_no_probes(void **state)
{
	static const enum rea_outcome outcomes[] = {REA_OUTCOME_THROTTLED, REA_OUTCOME_OK, REA_OUTCOME_FAILED};

	(void)state;
	for (size_t o = 0; o < 3; o++) {
		struct rea_guard_call old[5], probes[2];
		struct rig rig;

		init_breaker(&rig, 2);
		rig_start(&rig);
		for (int i = 0; i < 5; i++)
			rig_fly(&rig, &old[i], 0);
		open_breaker(&rig);
		rig_fly(&rig, &probes[0], 1001);
		for (int i = 0; i < 5; i++) {
			rig_end(&rig, &old[i], outcomes[o], 1002);
			assert_breaker(&rig, REA_BREAKER_HALF_OPEN);
		}
		/* Two in all, not six. */
		rig_fly(&rig, &probes[1], 1003);
		assert_refused(&rig, 1003);
		rig_end(&rig, &probes[0], REA_OUTCOME_OK, 1004);
		rig_end(&rig, &probes[1], REA_OUTCOME_OK, 1004);
		assert_breaker(&rig, REA_BREAKER_CLOSED);
		rig_stop(&rig);
	}
}

/* Rule 11: an open breaker ends the call before it waits. */
static void an_open_breaker_grants_no_wait(void **state)
{
	struct rea_guard_call call;
	struct rig rig;

	(void)state;
	init_breaker(&rig, 1);
	rig.options.policy.max_retry_next_instance = 1;
	rig_start(&rig);
	for (int i = 0; i < 3; i++)
		rig_call(&rig, REA_OUTCOME_UNAVAILABLE, 0);
	rig_fly(&rig, &call, 0);
	rig_end(&rig, &call, REA_OUTCOME_UNAVAILABLE, 0);
	assert_give_up(&rig, REA_REASON_BREAKER_OPEN, 1);
	assert_stage(&call, REA_GUARD_STAGE_BREAKER);
	rig_stop(&rig);
}

static void the_breaker_tells_of_its_changes(void **state)
{
	struct rea_guard_call probe;
	struct rig rig;

	(void)state;
	init_breaker(&rig, 1);
	rig_start(&rig);
	fly_probe(&rig, &probe);
	/* Four failures: the last of them opens, before its own GiveUp. */
	assert_event(&rig, 3, REA_EVENT_BREAKER, 0, REA_REASON_NONE, 0);
	assert_string_equal(rig.events[3].detail, "closed to open");
	rig_end(&rig, &probe, REA_OUTCOME_OK, 1002);
	assert_event(&rig, rig.events_len - 1, REA_EVENT_BREAKER, 0, REA_REASON_NONE, 1002);
	assert_string_equal(rig.events[rig.events_len - 1].detail, "half_open to closed");
	rig_stop(&rig);
}

/* ---- the order of the stages, and what comes back ---- */

static void init_stages(struct rig *rig)
{
	init_breaker(rig, 1);
	rig->options.rate_on = rig->options.limiter_on = true;
	rig->options.rate.permits = 2;
	rig->options.rate.period_ns = S(1);
	rig->options.rate.burst = 2;
	rig->options.limiter.concurrent_max = 1;
}

static void assert_overloaded(struct rig *rig, enum rea_guard_stage stage, uint64_t at_ms)
{
	struct rea_guard_call call;

	rig_begin(rig, &call, at_ms);
	rig_next(rig, &call, at_ms);
	assert_give_up(rig, REA_REASON_OVERLOADED, 0);
	assert_true(rig->decision.stop);
	assert_stage(&call, stage);
}

/* The rate speaks before the limiter, the limiter before the breaker. */
static void the_stages_speak_in_their_order(void **state)
{
	struct rea_guard_call holder;
	struct rig rig;

	(void)state;
	init_stages(&rig);
	rig_start(&rig);
	rig_fly(&rig, &holder, 0);
	rea_shared_breaker_force(rea_guard_breaker(rig.guard), REA_BREAKER_FORCED_OPEN, rig.base_ns);
	assert_overloaded(&rig, REA_GUARD_STAGE_LIMITER, 0);
	rig_end(&rig, &holder, REA_OUTCOME_OK, 0);
	assert_refused(&rig, 0);
	rea_shared_breaker_force(rea_guard_breaker(rig.guard), REA_BREAKER_CLOSED, rig.base_ns);
	rig_call(&rig, REA_OUTCOME_OK, 0);
	rea_shared_breaker_force(rea_guard_breaker(rig.guard), REA_BREAKER_FORCED_OPEN, rig.base_ns);
	assert_overloaded(&rig, REA_GUARD_STAGE_RATE, 0);
	rig_stop(&rig);
}

/* A thousand refusals by each later stage cost the earlier ones nothing. */
static void a_refusal_gives_back_what_it_took(void **state)
{
	struct rea_guard_call holder;
	struct rig rig;

	(void)state;
	init_stages(&rig);
	rig_start(&rig);
	rig_fly(&rig, &holder, 0);
	for (int i = 0; i < 1000; i++)
		assert_overloaded(&rig, REA_GUARD_STAGE_LIMITER, 0);
	rig_end(&rig, &holder, REA_OUTCOME_OK, 0);
	rea_shared_breaker_force(rea_guard_breaker(rig.guard), REA_BREAKER_FORCED_OPEN, rig.base_ns);
	for (int i = 0; i < 1000; i++)
		assert_refused(&rig, 0);
	rea_shared_breaker_force(rea_guard_breaker(rig.guard), REA_BREAKER_CLOSED, rig.base_ns);
	/* One permit was used, one is left, and the slot is free. */
	rig_call(&rig, REA_OUTCOME_OK, 0);
	assert_overloaded(&rig, REA_GUARD_STAGE_RATE, 0);
	rig_stop(&rig);
}

static void a_rate_may_be_waited_for(void **state)
{
	struct rea_guard_call calls[3], fourth;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.options.rate_on = true;
	rig.options.rate.permits = 10;
	rig.options.rate.burst = 1;
	rig.options.rate_wait_ns = MS(200);
	rig_start(&rig);
	rig_fly(&rig, &calls[0], 0);
	rig_end(&rig, &calls[0], REA_OUTCOME_OK, 0);
	for (uint64_t i = 1; i < 3; i++) {
		rig_begin(&rig, &calls[i], 0);
		rig_next(&rig, &calls[i], 0);
		assert_wait(&rig, REA_REASON_PARKED, 100 * i);
		assert_stage(&calls[i], REA_GUARD_STAGE_RATE);
	}
	rig_begin(&rig, &fourth, 0);
	rig_next(&rig, &fourth, 0);
	assert_give_up(&rig, REA_REASON_OVERLOADED, 0);
	rig_next(&rig, &calls[1], 99);
	assert_wait(&rig, REA_REASON_PARKED, 100);
	rig_next(&rig, &calls[1], 100);
	assert_attempt(&rig, 1);
	rig_end(&rig, &calls[1], REA_OUTCOME_OK, 101);
	/* Given back, its time goes to the next. */
	rig_cancel(&rig, &calls[2], 150);
	assert_give_up(&rig, REA_REASON_CANCELLED, 0);
	rig_begin(&rig, &fourth, 150);
	rig_next(&rig, &fourth, 150);
	assert_wait(&rig, REA_REASON_PARKED, 200);
	rig_next(&rig, &fourth, 200);
	rig_end(&rig, &fourth, REA_OUTCOME_OK, 200);
	rig_stop(&rig);
}

/* Nothing waits for what it cannot use: a wait that leaves no useful time is refused, and so is one while the breaker is open. */
static void there_is_no_waiting_in_vain(void **state)
{
	struct rea_guard_call call;
	struct rig rig;

	(void)state;
	init_breaker(&rig, 1);
	rig.options.rate_on = true;
	rig.options.rate.permits = 10;
	rig.options.rate.burst = 1;
	rig.options.rate_wait_ns = S(1);
	rig_start(&rig);
	rig_call(&rig, REA_OUTCOME_OK, 0);
	rig.call_options.deadline_ns = rig.base_ns + MS(110) - 1;
	rig_begin(&rig, &call, 0);
	rig_next(&rig, &call, 0);
	assert_give_up(&rig, REA_REASON_OVERLOADED, 0);
	rig.call_options.deadline_ns = rig.base_ns + MS(110);
	rig_begin(&rig, &call, 0);
	rig_next(&rig, &call, 0);
	assert_wait(&rig, REA_REASON_PARKED, 100);
	rig_cancel(&rig, &call, 0);
	rig.call_options.deadline_ns = REA_NEVER;
	rea_shared_breaker_force(rea_guard_breaker(rig.guard), REA_BREAKER_FORCED_OPEN, rig.base_ns);
	rig_begin(&rig, &call, 0);
	rig_next(&rig, &call, 0);
	assert_give_up(&rig, REA_REASON_OVERLOADED, 0);
	rig_stop(&rig);
}

/* ---- the line ---- */

static void init_line(struct rig *rig, uint32_t waiting)
{
	rig_init(rig);
	rig->options.limiter_on = true;
	rig->options.limiter.concurrent_max = 1;
	rig->options.limiter.waiting_max = waiting;
	rig->options.limiter_wait_ns = MS(500);
}

static void park(struct rig *rig, struct rea_guard_call *call, uint64_t at_ms)
{
	rig_begin(rig, call, at_ms);
	rig_next(rig, call, at_ms);
	assert_wait(rig, REA_REASON_PARKED, at_ms + 500);
	assert_stage(call, REA_GUARD_STAGE_LIMITER);
}

static void a_slot_goes_down_the_line(void **state)
{
	struct rea_guard_call a, b, c;
	struct rig rig;

	(void)state;
	init_line(&rig, 2);
	rig_start(&rig);
	rig_fly(&rig, &a, 0);
	park(&rig, &b, 1);
	park(&rig, &c, 2);
	assert_overloaded(&rig, REA_GUARD_STAGE_LIMITER, 3);
	rig_end(&rig, &a, REA_OUTCOME_OK, 10);
	assert_int_equal(rig.woken_len, 1);
	assert_ptr_equal(rig.woken[0], &b);
	rig_next(&rig, &b, 11);
	assert_attempt(&rig, 1);
	rig_next(&rig, &c, 12);
	assert_wait(&rig, REA_REASON_PARKED, 502);
	rig_cancel(&rig, &b, 13);
	assert_int_equal(rig.woken_len, 2);
	assert_ptr_equal(rig.woken[1], &c);
	rig_next(&rig, &c, 14);
	rig_end(&rig, &c, REA_OUTCOME_OK, 15);
	assert_success(&rig, 1);
	rig_stop(&rig);
}

static void who_waits_too_long_is_refused(void **state)
{
	struct rea_guard_call a, b;
	struct rig rig;

	(void)state;
	init_line(&rig, 1);
	rig_start(&rig);
	rig_fly(&rig, &a, 0);
	park(&rig, &b, 1);
	rig_next(&rig, &b, 500);
	assert_wait(&rig, REA_REASON_PARKED, 501);
	rig_next(&rig, &b, 501);
	assert_give_up(&rig, REA_REASON_OVERLOADED, 0);
	/* The one whose time is up told itself; nobody else had to. */
	assert_int_equal(rig.woken_len, 0);
	rig_end(&rig, &a, REA_OUTCOME_OK, 502);
	rig_call(&rig, REA_OUTCOME_OK, 503);
	rig_stop(&rig);
}

/* A slot that was given to one who then leaves without having looked. */
static void a_slot_given_to_one_who_leaves_goes_on(void **state)
{
	struct rea_guard_call a, b, c;
	struct rig rig;

	(void)state;
	init_line(&rig, 2);
	rig_start(&rig);
	rig_fly(&rig, &a, 0);
	park(&rig, &b, 1);
	park(&rig, &c, 2);
	rig_end(&rig, &a, REA_OUTCOME_OK, 10);
	rig_cancel(&rig, &b, 11);
	assert_ptr_equal(rig.woken[1], &c);
	rig_next(&rig, &c, 12);
	assert_attempt(&rig, 1);
	rig_end(&rig, &c, REA_OUTCOME_OK, 13);
	rig_stop(&rig);
}

static void a_thousand_who_give_up_waiting_leak_nothing(void **state)
{
	struct rea_guard_call holder, waiting[3];
	struct rig rig;
	char text[4096];

	(void)state;
	init_line(&rig, 3);
	rig_start(&rig);
	for (uint64_t round = 0; round < 1000; round++) {
		uint64_t at_ms = 1000 * round;

		rig_fly(&rig, &holder, at_ms);
		for (uint64_t i = 0; i < 3; i++)
			park(&rig, &waiting[i], at_ms + i);
		rig_cancel(&rig, &waiting[round % 3], at_ms + 5);
		rig_end(&rig, &holder, REA_OUTCOME_OK, at_ms + 6);
		for (uint64_t i = 0; i < 3; i++)
			if (i != round % 3)
				rig_cancel(&rig, &waiting[i], at_ms + 7);
	}
	rea_guard_explain(rig.guard, rig.base_ns, text, sizeof(text));
	assert_non_null(strstr(text, "; 0 in use, 0 waiting"));
	rig_stop(&rig);
}

/* Without anyone to pass the word on a call in a loop does not wait in line. */
static void without_wake_nobody_waits_in_line(void **state)
{
	struct rea_guard_call a;
	struct rig rig;

	(void)state;
	init_line(&rig, 5);
	rig.options.wake = NULL;
	rig_start(&rig);
	rig_fly(&rig, &a, 0);
	assert_overloaded(&rig, REA_GUARD_STAGE_LIMITER, 1);
	rig_end(&rig, &a, REA_OUTCOME_OK, 2);
	rig_stop(&rig);
}

static void the_limit_follows_the_latency(void **state)
{
	struct rig rig;
	char text[4096];

	(void)state;
	rig_init(&rig);
	rig.options.limiter_on = rig.options.adaptive_on = true;
	rea_adaptive_options_init(&rig.options.adaptive, REA_ADAPTIVE_AIMD);
	rig.options.adaptive.limit_start = 10;
	rig_start(&rig);
	rea_guard_explain(rig.guard, rig.base_ns, text, sizeof(text));
	assert_non_null(strstr(text, "  adaptive limit: 10 by aimd from 1 to 200"));
	/* A drop takes a tenth: 10, 9, 8; what failed at once for another reason says nothing. */
	rig_call(&rig, REA_OUTCOME_THROTTLED, 0);
	rig_call(&rig, REA_OUTCOME_AMBIGUOUS, 0);
	rig_call(&rig, REA_OUTCOME_NEVER_SENT, 0);
	rig_call(&rig, REA_OUTCOME_FAILED, 0);
	rea_guard_explain(rig.guard, rig.base_ns, text, sizeof(text));
	assert_non_null(strstr(text, " ms; 8 slots"));
	rig_stop(&rig);
}

/* ---- what a call carries, and what it does not ---- */

/* The inner call's permission is its own: it has none, though the attempt that it is a part of has; and the outer one keeps its own. */
static void a_nested_call_neither_inherits_nor_clears_a_permission(void **state)
{
	struct rea_guard_call outer, inner;
	struct rea_guard_call_options inner_options;
	struct rea_guard_attempt attempt;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.call_options.key = (struct rea_text){"order-7", 7};
	rig.call_options.grant.permission = REA_PERMISSION_IDEMPOTENT_WITH_KEY;
	rig_start(&rig);
	rig_fly(&rig, &outer, 0);
	rea_guard_call_attempt(&outer, NULL, &rig.decision, &attempt);
	assert_int_equal(attempt.key.length, 7);

	rea_guard_call_options_init(&inner_options);
	inner_options.outer = &attempt;
	rea_guard_begin(&inner, &rig.thread, &inner_options, rig.base_ns);
	rig_next(&rig, &inner, 0);
	rea_guard_call_attempt(&inner, NULL, &rig.decision, &attempt);
	assert_int_equal(attempt.key.length, 0);
	assert_int_equal(attempt.grant.permission, REA_PERMISSION_NONE);
	rig_end(&rig, &inner, REA_OUTCOME_UNAVAILABLE, 1);
	assert_give_up(&rig, REA_REASON_NOT_DECLARED, 1);

	/* With the permission but without the key it is no better off. */
	inner_options.outer = NULL;
	inner_options.grant = rig.call_options.grant;
	rea_guard_begin(&inner, &rig.thread, &inner_options, rig.base_ns);
	rig_next(&rig, &inner, 1);
	rig_end(&rig, &inner, REA_OUTCOME_UNAVAILABLE, 1);
	assert_give_up(&rig, REA_REASON_KEY_MISSING, 1);

	/* And a permissive inner call opens nothing for a strict outer one. */
	rig_end(&rig, &outer, REA_OUTCOME_UNAVAILABLE, 2);
	assert_wait(&rig, REA_REASON_NONE, 102);
	rig_next(&rig, &outer, 102);
	assert_attempt(&rig, 2);
	assert_int_equal(rig.decision.grant.permission, REA_PERMISSION_IDEMPOTENT_WITH_KEY);
	rig_end(&rig, &outer, REA_OUTCOME_OK, 103);
	rig_stop(&rig);
}

static void a_permissive_call_opens_nothing_for_the_one_around_it(void **state)
{
	struct rea_guard_call outer;
	struct rea_guard_call_options strict;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_start(&rig);
	rea_guard_call_options_init(&strict);
	rea_guard_begin(&outer, &rig.thread, &strict, rig.base_ns);
	rig_next(&rig, &outer, 0);
	rig_call(&rig, REA_OUTCOME_UNAVAILABLE, 1);
	rig_end(&rig, &outer, REA_OUTCOME_UNAVAILABLE, 2);
	assert_give_up(&rig, REA_REASON_NOT_DECLARED, 1);
	rig_stop(&rig);
}

/* The same thread, the same memory of a call, one request after the other: as in a pool. */
static void a_reused_thread_leaks_no_permission(void **state)
{
	struct rea_guard_call_options none;
	struct rea_guard_call call;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.call_options.key = (struct rea_text){"order-7", 7};
	rig.call_options.biz_id = (struct rea_text){"biz-1", 5};
	rig_start(&rig);
	rea_guard_call_options_init(&none);
	for (int i = 0; i < 10; i++) {
		rig_fly(&rig, &call, 0);
		rig_end(&rig, &call, REA_OUTCOME_UNAVAILABLE, 1);
		assert_int_equal(rig.decision.step, REA_STEP_WAIT);
		rig_cancel(&rig, &call, 1);

		rea_guard_begin(&call, &rig.thread, &none, rig.base_ns);
		rig_next(&rig, &call, 2);
		rig.events_len = 0;
		rig_end(&rig, &call, REA_OUTCOME_UNAVAILABLE, 2);
		assert_give_up(&rig, REA_REASON_NOT_DECLARED, 1);
		assert_string_equal(rig.events[0].biz_id, "");
		assert_int_equal(rig.events[0].event.key.length, 0);
	}
	rig_stop(&rig);
}

static void an_attempt_lends_deadline_texts_and_chain(void **state)
{
	struct rea_guard_attempt first = {.number = 1, .biz_id = {"biz-1", 5}, .trace_id = {"trace-1", 7}};
	struct rea_guard_call_options options;
	struct rea_guard_call call;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_start(&rig);
	first.deadline_ns = rig.base_ns + MS(150);
	options = rig.call_options;
	options.outer = &first;
	rea_guard_begin(&call, &rig.thread, &options, rig.base_ns);
	rig_next(&rig, &call, 0);
	assert_int_equal(rig.decision.attempt_deadline_ns, rig.base_ns + MS(150));
	rig_end(&rig, &call, REA_OUTCOME_UNAVAILABLE, 41);
	assert_give_up(&rig, REA_REASON_DEADLINE, 1);
	assert_string_equal(rig.events[0].biz_id, "biz-1");
	assert_int_equal(rig.events[0].event.trace_id.length, 7);
	/* Its own texts go before; in the second attempt it is itself part of a retry. */
	first.number = 2;
	options.biz_id = (struct rea_text){"mine", 4};
	rea_guard_begin(&call, &rig.thread, &options, rig.base_ns);
	rig_next(&rig, &call, 0);
	rig_end(&rig, &call, REA_OUTCOME_UNAVAILABLE, 1);
	assert_give_up(&rig, REA_REASON_CHAIN_STOPPED, 1);
	assert_string_equal(rig.events[1].biz_id, "mine");
	rig_stop(&rig);
}

/* Begun here, continued there: a queue between two threads, here played by two parts of one guard. */
static void a_call_may_change_its_thread(void **state)
{
	struct rea_guard_thread other;
	struct rea_service_stats stats;
	struct rea_guard_call call;
	struct rea_report failed = rea_report_fail(REA_OUTCOME_UNAVAILABLE), ok = rea_report_ok();
	struct rig rig;

	(void)state;
	init_breaker(&rig, 1);
	rig.options.policy.max_retry_next_instance = 1;
	rig.options.limiter_on = true;
	rig_start(&rig);
	assert_int_equal(rea_guard_join(rig.guard, 2, &other), 0);
	rig_fly(&rig, &call, 0);
	rea_guard_report(&call, &other, &failed, NULL, rig.base_ns + MS(1), &rig.decision);
	assert_wait(&rig, REA_REASON_NONE, 101);
	rea_guard_next(&call, &other, NULL, rig.base_ns + MS(101), &rig.decision);
	assert_attempt(&rig, 2);
	rea_guard_leave(&other);
	rea_guard_report(&call, &rig.thread, &ok, NULL, rig.base_ns + MS(102), &rig.decision);
	assert_success(&rig, 2);
	rea_guard_stats(rig.guard, &stats);
	assert_int_equal(stats.calls, 1);
	assert_int_equal(stats.in_flight, 0);
	assert_int_equal(stats.retries, 1);
	rig_stop(&rig);
}

/* ---- instances ---- */

static void attempts_go_to_other_instances(void **state)
{
	struct rea_instance items[2] = {
	    {.id = {{[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}, 9001}, .weight = 1},
	    {.id = {{[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}, 9002}, .weight = 1},
	};
	struct rea_guard_attempt attempt;
	struct rea_guard_call call;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.options.policy.max_retry_next_instance = 2;
	rig.list = (struct rea_instances){.items = items, .count = 2, .balance = REA_BALANCE_LISTED};
	rig_start(&rig);
	rig_fly(&rig, &call, 0);
	rea_guard_call_attempt(&call, &rig.list, &rig.decision, &attempt);
	assert_ptr_equal(attempt.instance, &items[0]);
	rig_end(&rig, &call, REA_OUTCOME_UNAVAILABLE, 1);
	assert_string_equal(rig.events[0].instance, "127.0.0.1:9001");
	rig_next(&rig, &call, 101);
	rea_guard_call_attempt(&call, &rig.list, &rig.decision, &attempt);
	assert_ptr_equal(attempt.instance, &items[1]);
	rig_end(&rig, &call, REA_OUTCOME_UNAVAILABLE, 102);
	assert_give_up(&rig, REA_REASON_NO_UNTRIED_INSTANCE, 2);
	assert_string_equal(rig.events[1].instance, "127.0.0.1:9002");
	rig_stop(&rig);
}

/* ---- time and callbacks ---- */

static void time_that_goes_back_counts_as_the_last_seen(void **state)
{
	struct rea_guard_call call;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.options.rate_on = rig.options.limiter_on = true;
	rig_start(&rig);
	rig_begin(&rig, &call, 500);
	rig_next(&rig, &call, 0);
	assert_attempt(&rig, 1);
	assert_int_equal(rig.decision.attempt_deadline_ns, rig.base_ns + MS(1500));
	rig_end(&rig, &call, REA_OUTCOME_UNAVAILABLE, 100);
	assert_wait(&rig, REA_REASON_NONE, 600);
	assert_int_equal(rig.events[0].event.cost_ns, 0);
	rig_next(&rig, &call, 599);
	rig_next(&rig, &call, 400);
	assert_wait(&rig, REA_REASON_NONE, 600);
	assert_int_equal(rig.decision.wait_ns, MS(1));
	rig_next(&rig, &call, 600);
	rig_end(&rig, &call, REA_OUTCOME_OK, 0);
	assert_success(&rig, 2);
	rig_stop(&rig);
}

/* Each event makes a call of its own on the same guard and thread, whose events do the same, down to a depth. */
static int depth;

static void call_again(struct rea_event *event, void *user_data)
{
	struct rig *rig = user_data;
	struct rea_decision before = rig->decision;

	rig_hear(event, rig);
	if (event->type == REA_EVENT_BREAKER || ++depth > 5)
		return;
	rig_call(rig, REA_OUTCOME_PERMANENT, 0);
	rig->decision = before;
}

static void a_listener_may_use_the_guard(void **state)
{
	struct rea_service_stats stats;
	struct rea_guard_call call;
	struct rig rig;

	(void)state;
	init_breaker(&rig, 1);
	rig.options.limiter_on = true;
	rig.options.limiter.concurrent_max = 1;
	rig.options.event = call_again;
	rig_start(&rig);
	depth = 0;
	rig_fly(&rig, &call, 0);
	rig_end(&rig, &call, REA_OUTCOME_UNAVAILABLE, 1);
	assert_int_equal(depth, 6);
	rea_guard_stats(rig.guard, &stats);
	assert_int_equal(stats.calls, 6);
	assert_int_equal(stats.in_flight, 0);
	rig_stop(&rig);
}

/* Observe mode says what it would do, and does not. */
static void observing_it_would_retry(void **state)
{
	struct rea_service_stats stats;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.options.policy.mode = REA_MODE_OBSERVE;
	rig_start(&rig);
	rig_call(&rig, REA_OUTCOME_UNAVAILABLE, 0);
	assert_give_up(&rig, REA_REASON_NONE, 1);
	assert_event(&rig, 0, REA_EVENT_WOULD_RETRY, 1, REA_REASON_NONE, 0);
	rea_guard_stats(rig.guard, &stats);
	assert_int_equal(stats.would_retry, 1);
	rig_stop(&rig);
}

static void a_cancelled_call_stays_over(void **state)
{
	struct rea_service_stats stats;
	struct rea_guard_call call;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.options.limiter_on = true;
	rig_start(&rig);
	rig_begin(&rig, &call, 0);
	rig_cancel(&rig, &call, 1);
	assert_give_up(&rig, REA_REASON_CANCELLED, 0);
	rig_fly(&rig, &call, 2);
	for (int i = 0; i < 3; i++) {
		rig_cancel(&rig, &call, 3);
		assert_give_up(&rig, REA_REASON_CANCELLED, 1);
	}
	assert_int_equal(rig.events_len, 2);
	assert_event(&rig, 1, REA_EVENT_GIVE_UP, 1, REA_REASON_CANCELLED, 3);
	rea_guard_stats(rig.guard, &stats);
	assert_int_equal(stats.calls, 2);
	assert_int_equal(stats.attempts[REA_OUTCOME_CANCELLED], 1);
	assert_int_equal(stats.in_flight, 0);
	rig_stop(&rig);
}

/* What was not yet sent of a cancelled retry goes back to the budget. */
static void a_cancelled_wait_gives_its_retry_back(void **state)
{
	struct rea_guard_call call;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.options.policy.budget.rule = REA_BUDGET_RATIO;
	rig.options.policy.budget.ratio_permille = 0;
	rig.options.policy.budget.reserve_per_s = 1;
	rig.options.policy.budget.window_ms = 1000;
	rig_start(&rig);
	for (int i = 0; i < 10; i++) {
		rig_fly(&rig, &call, 0);
		rig_end(&rig, &call, REA_OUTCOME_UNAVAILABLE, 0);
		assert_wait(&rig, REA_REASON_NONE, 100);
		rig_cancel(&rig, &call, 0);
	}
	rig_fly(&rig, &call, 0);
	rig_end(&rig, &call, REA_OUTCOME_UNAVAILABLE, 0);
	rig_next(&rig, &call, 100);
	rig_end(&rig, &call, REA_OUTCOME_OK, 100);
	rig_call(&rig, REA_OUTCOME_UNAVAILABLE, 101);
	assert_give_up(&rig, REA_REASON_BUDGET_EXHAUSTED, 1);
	assert_true(rig.decision.stop);
	rig_stop(&rig);
}

/* The budget parks as a limiter does, but holds nothing of the stages: no slot, no permit. */
static void parked_by_the_budget(void **state)
{
	struct rea_guard_call spenders[4], call, other;
	uint64_t at_ms = 0;
	size_t spent = 0;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.options.limiter_on = true;
	rig.options.limiter.concurrent_max = 1;
	rig_start(&rig);
	/* 0.85^14 is 10 %; the two tokens go to two calls that wait for their retry. */
	for (int i = 0; i < 14; i++)
		rig_call(&rig, REA_OUTCOME_UNAVAILABLE, 0);
	for (; spent < 2; spent++) {
		rig_fly(&rig, &spenders[spent], 0);
		rig_end(&rig, &spenders[spent], REA_OUTCOME_UNAVAILABLE, 0);
		assert_wait(&rig, REA_REASON_NONE, 100);
	}
	rig_fly(&rig, &call, 0);
	rig_end(&rig, &call, REA_OUTCOME_UNAVAILABLE, 0);
	assert_int_equal(rig.decision.step, REA_STEP_WAIT);
	assert_string_equal(rea_reason_name(rig.decision.reason), "parked");
	assert_stage(&call, REA_GUARD_STAGE_CALL);
	assert_event(&rig, rig.events_len - 1, REA_EVENT_RETRY, 1, REA_REASON_PARKED, 0);
	assert_memory_equal(rig.evidence, "success ", 8);
	/* The one slot is free for others, and its success is what the parked call waits for. */
	rig_fly(&rig, &other, 10);
	for (int i = 0; i < 5; i++) {
		rig_end(&rig, &other, REA_OUTCOME_OK, 10);
		rig_fly(&rig, &other, 10);
	}
	/* With the slot taken it still may look. */
	while (at_ms == 0 || rig.decision.reason == REA_REASON_PARKED) {
		rig_next(&rig, &call, at_ms);
		assert_int_equal(rig.decision.step, REA_STEP_WAIT);
		at_ms = rea_time_to_ms(rig.decision.wait_until_ns - rig.base_ns);
		assert_true(at_ms < 1000);
	}
	assert_int_equal(rig.decision.wait_ns, MS(100));
	rig_end(&rig, &other, REA_OUTCOME_OK, at_ms);
	rig_next(&rig, &call, at_ms);
	assert_attempt(&rig, 2);
	rig_end(&rig, &call, REA_OUTCOME_OK, at_ms);
	assert_success(&rig, 2);
	while (spent > 0)
		rig_cancel(&rig, &spenders[--spent], at_ms);
	rig_stop(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_wait_beyond_the_deadline_ends_the_call_now),
	    cmocka_unit_test(a_wait_that_fits_makes_one_more_attempt),
	    cmocka_unit_test(a_deadline_that_has_passed_makes_no_attempt),
	    cmocka_unit_test(waits_lie_between_attempts),
	    cmocka_unit_test(asked_too_early_it_says_when),
	    cmocka_unit_test(no_retries_no_retry_event),
	    cmocka_unit_test(success_at_the_third_attempt),
	    cmocka_unit_test(a_first_try_success_is_only_counted),
	    cmocka_unit_test(a_backoff_holds_no_slot),
	    cmocka_unit_test(a_probe_that_says_nothing_gives_its_permit_back),
	    cmocka_unit_test(a_probe_that_never_reports_does_not_stick),
	    cmocka_unit_test(a_probe_refused_by_a_later_stage_gives_its_permit_back),
	    cmocka_unit_test(a_failed_probe_opens_whatever_the_minimum),
	    cmocka_unit_test(calls_of_an_older_generation_are_no_probes),
	    cmocka_unit_test(an_open_breaker_grants_no_wait),
	    cmocka_unit_test(the_breaker_tells_of_its_changes),
	    cmocka_unit_test(the_stages_speak_in_their_order),
	    cmocka_unit_test(a_refusal_gives_back_what_it_took),
	    cmocka_unit_test(a_rate_may_be_waited_for),
	    cmocka_unit_test(there_is_no_waiting_in_vain),
	    cmocka_unit_test(a_slot_goes_down_the_line),
	    cmocka_unit_test(who_waits_too_long_is_refused),
	    cmocka_unit_test(a_slot_given_to_one_who_leaves_goes_on),
	    cmocka_unit_test(a_thousand_who_give_up_waiting_leak_nothing),
	    cmocka_unit_test(without_wake_nobody_waits_in_line),
	    cmocka_unit_test(the_limit_follows_the_latency),
	    cmocka_unit_test(a_nested_call_neither_inherits_nor_clears_a_permission),
	    cmocka_unit_test(a_permissive_call_opens_nothing_for_the_one_around_it),
	    cmocka_unit_test(a_reused_thread_leaks_no_permission),
	    cmocka_unit_test(an_attempt_lends_deadline_texts_and_chain),
	    cmocka_unit_test(a_call_may_change_its_thread),
	    cmocka_unit_test(attempts_go_to_other_instances),
	    cmocka_unit_test(time_that_goes_back_counts_as_the_last_seen),
	    cmocka_unit_test(a_listener_may_use_the_guard),
	    cmocka_unit_test(observing_it_would_retry),
	    cmocka_unit_test(a_cancelled_call_stays_over),
	    cmocka_unit_test(a_cancelled_wait_gives_its_retry_back),
	    cmocka_unit_test(parked_by_the_budget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
