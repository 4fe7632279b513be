/* One call, step by step: scenarios L05, L06, L14 and S11, exact counts, and what is held and given back when. */
#include "rig.h"

#include <string.h>

static struct rig rig;

static void two_instances_and_one_retry_make_two_attempts(void **state)
{
	(void)state;
	rig_init(&rig, 2);
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	assert_attempt(&rig, 1, 0);
	assert_int_equal(rig.decision.attempts_max, 2);
	assert_true(rig.decision.attempt_deadline_ns == rig.base_ns + MS(1000));
	assert_int_equal(rig.decision.grant.source, REA_PERMISSION_SOURCE_OPENAPI);
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 5);
	assert_wait(&rig, 1, 100, 105);
	assert_true(rig.decision.retryable);
	rig_attempt(&rig, 105);
	assert_attempt(&rig, 2, 1);
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 110);
	assert_give_up(&rig, 2, REA_REASON_ATTEMPTS_EXHAUSTED);
	assert_true(rig.decision.retryable);
}

/* Each field is written every time, whatever stood there. */
static void a_decision_says_everything(void **state)
{
	const struct rea_report failed = {.outcome = REA_OUTCOME_AMBIGUOUS};
	struct rea_decision *decision = &rig.decision;

	(void)state;
	rig_init(&rig, 2);
	rig_begin(&rig);
	for (int i = 0; i < 3; i++) {
		memset(decision, 0xff, sizeof(*decision));
		if (i == 0)
			rig_attempt(&rig, 0);
		else if (i == 1)
			rig_report(&rig, &failed, 10);
		else
			rea_call_cancel(&rig.call, rig.base_ns + MS(20), decision);
		assert_int_equal(decision->step, i == 0 ? REA_STEP_ATTEMPT : i == 1 ? REA_STEP_WAIT : REA_STEP_DONE);
		assert_int_equal(decision->verdict, i == 2 ? REA_VERDICT_GIVE_UP : REA_VERDICT_RETRY);
		assert_int_equal(decision->reason, i == 2 ? REA_REASON_CANCELLED : REA_REASON_NONE);
		assert_int_equal(decision->stop + decision->would_retry, 0);
		assert_int_equal(decision->retryable, i == 1);
		assert_int_equal(decision->attempt, 1);
		assert_int_equal(decision->attempts_max, 2);
		assert_int_equal(decision->instance, 0);
		assert_int_equal(decision->wait_ns, i == 1 ? MS(100) : 0);
		assert_int_equal(decision->wait_until_ns, i == 1 ? rig.base_ns + MS(110) : 0);
		assert_int_equal(decision->attempt_deadline_ns, i == 0 ? rig.base_ns + MS(1000) : 0);
		assert_int_equal(decision->grant.permission, REA_PERMISSION_IDEMPOTENT);
		assert_int_equal(decision->grant.source, REA_PERMISSION_SOURCE_OPENAPI);
		assert_int_equal(decision->evidence.kind, REA_EVIDENCE_NONE);
		assert_true(decision->evidence.value == 0 && decision->evidence.tokens == 0);
	}
}

static void a_first_success(void **state)
{
	(void)state;
	rig_init(&rig, 2);
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_end(&rig, REA_OUTCOME_OK, 3);
	assert_done(&rig, 1, REA_VERDICT_SUCCESS, REA_REASON_NONE);
	assert_false(rig.decision.retryable);
}

static void l05_backoff_beyond_the_deadline(void **state)
{
	struct rea_report throttled = {.outcome = REA_OUTCOME_THROTTLED, .code_kind = REA_CODE_HTTP, .code = 429};

	(void)state;
	rig_init(&rig, 2);
	rig.policy.min_backoff_ns = rig.policy.max_backoff_ns = MS(1000);
	rig.policy.retry_on |= REA_OUTCOME_BIT(REA_OUTCOME_THROTTLED);
	rig.policy.deadline_ns = rig.policy.attempt_timeout_ns = MS(50);
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	assert_true(rig.decision.attempt_deadline_ns == rig.base_ns + MS(50));
	rig_report(&rig, &throttled, 5);
	assert_give_up(&rig, 1, REA_REASON_DEADLINE);
	assert_true(rig.decision.wait_ns == 0);
}

static void l05_one_more_attempt_fits(void **state)
{
	(void)state;
	rig_init(&rig, 3);
	rig.policy.max_retry_next_instance = 2;
	rig.policy.min_backoff_ns = rig.policy.max_backoff_ns = MS(1000);
	rig.policy.retry_on |= REA_OUTCOME_BIT(REA_OUTCOME_THROTTLED);
	rig.policy.deadline_ns = MS(1050);
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_end(&rig, REA_OUTCOME_THROTTLED, 5);
	assert_wait(&rig, 1, 1000, 1005);
	rig_attempt(&rig, 1005);
	assert_attempt(&rig, 2, 1);
	assert_true(rig.decision.attempt_deadline_ns == rig.base_ns + MS(1050));
	rig_end(&rig, REA_OUTCOME_THROTTLED, 1010);
	assert_give_up(&rig, 2, REA_REASON_DEADLINE);
}

static void l05_a_deadline_that_is_past(void **state)
{
	(void)state;
	rig_init(&rig, 2);
	rig.options.deadline_ns = rig.base_ns;
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	assert_give_up(&rig, 0, REA_REASON_DEADLINE);
	/* A total of 1 ms still runs once, though nothing useful fits. */
	rig_init(&rig, 2);
	rig.policy.deadline_ns = MS(1);
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	assert_attempt(&rig, 1, 0);
	assert_true(rig.decision.attempt_deadline_ns == rig.base_ns + MS(1));
	rig_end(&rig, REA_OUTCOME_AMBIGUOUS, 1);
	assert_give_up(&rig, 1, REA_REASON_DEADLINE);
}

/* Wait and a useful attempt must fit: max(10 ms, median latency). */
static void a_useful_attempt_must_fit(void **state)
{
	static const struct {
		uint64_t deadline_ms, useful_ms;
		bool fits;
	} rows[] = {{115, 0, true}, {114, 0, false}, {115, 10, true}, {155, 50, true}, {154, 50, false}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		rig_init(&rig, 2);
		rig.options.deadline_ns = rig.base_ns + MS(rows[i].deadline_ms);
		rig.options.useful_ns = MS(rows[i].useful_ms);
		rig_begin(&rig);
		rig_attempt(&rig, 0);
		rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 5);
		if (rows[i].fits)
			assert_wait(&rig, 1, 100, 105);
		else
			assert_give_up(&rig, 1, REA_REASON_DEADLINE);
	}
}

static void a_late_timer_meets_the_deadline(void **state)
{
	(void)state;
	rig_init(&rig, 2);
	rig.policy.deadline_ns = MS(120);
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 5);
	rig_attempt(&rig, 120);
	assert_give_up(&rig, 1, REA_REASON_DEADLINE);
}

static void l06_sleeps_lie_between_attempts(void **state)
{
	(void)state;
	for (int heals = 0; heals < 2; heals++) {
		rig_init(&rig, 3);
		rig.policy.max_retry_next_instance = 2;
		rig_begin(&rig);
		rig_attempt(&rig, 0);
		assert_attempt(&rig, 1, 0);
		rig_end(&rig, REA_OUTCOME_AMBIGUOUS, 0);
		assert_wait(&rig, 1, 100, 100);
		rig_attempt(&rig, 100);
		assert_attempt(&rig, 2, 1);
		rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 100);
		assert_wait(&rig, 2, 100, 200);
		rig_attempt(&rig, 200);
		assert_attempt(&rig, 3, 2);
		rig_end(&rig, heals ? REA_OUTCOME_OK : REA_OUTCOME_UNAVAILABLE, 200);
		if (heals)
			assert_done(&rig, 3, REA_VERDICT_SUCCESS, REA_REASON_NONE);
		else
			assert_give_up(&rig, 3, REA_REASON_ATTEMPTS_EXHAUSTED);
	}
	rig_init(&rig, 3);
	rig.policy.max_retry_next_instance = 0;
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_end(&rig, REA_OUTCOME_AMBIGUOUS, 0);
	assert_give_up(&rig, 1, REA_REASON_ATTEMPTS_EXHAUSTED);
}

static void an_early_attempt_waits_on(void **state)
{
	(void)state;
	rig_init(&rig, 2);
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 5);
	rig_attempt(&rig, 65);
	assert_wait(&rig, 1, 40, 105);
	/* Time never runs backwards: the earlier now counts as 65. */
	rig_attempt(&rig, 0);
	assert_wait(&rig, 1, 40, 105);
	rig_attempt(&rig, 105);
	assert_attempt(&rig, 2, 1);
}

static void waits_grow_to_the_cap(void **state)
{
	static const uint64_t waits_ms[] = {100, 200, 400, 500, 500};
	uint64_t at_ms = 0;

	(void)state;
	rig_init(&rig, 10);
	rig.policy.max_retry_next_instance = 9;
	rig.policy.backoff_multiplier = 2;
	rig.policy.max_backoff_ns = MS(500);
	rig_begin(&rig);
	for (uint32_t i = 0; i < 5; i++) {
		rig_attempt(&rig, at_ms);
		assert_attempt(&rig, i + 1, i);
		rig_end(&rig, REA_OUTCOME_UNAVAILABLE, at_ms);
		assert_wait(&rig, i + 1, waits_ms[i], at_ms + waits_ms[i]);
		at_ms += waits_ms[i];
	}
}

static void a_servers_wait_is_kept(void **state)
{
	struct rea_report report = {.outcome = REA_OUTCOME_UNAVAILABLE, .flags = REA_REPORT_AFTER, .after_ns = MS(2000)};

	(void)state;
	rig_init(&rig, 2);
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_report(&rig, &report, 5);
	assert_int_equal(rig.decision.step, REA_STEP_WAIT);
	assert_in_range(rig.decision.wait_ns, MS(2000), MS(2400));
	/* Shorter than our own backoff: the longer holds. */
	rig_init(&rig, 2);
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	report.after_ns = 0;
	rig_report(&rig, &report, 5);
	assert_wait(&rig, 1, 100, 105);
	/* It does not fit: give up at once, not at the deadline. */
	rig_init(&rig, 2);
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	report.after_ns = REA_NEVER - 1;
	rig_report(&rig, &report, 5);
	assert_give_up(&rig, 1, REA_REASON_DEADLINE);
}

/* ---- the deadline of a request that still arrives ---- */

static void an_open_deadline(void **state)
{
	struct rea_report report = {.outcome = REA_OUTCOME_NEVER_SENT};

	(void)state;
	rig_init(&rig, 3);
	rig.policy.max_retry_next_instance = 2;
	rig.policy.deadline_ns = MS(500);
	rig.options.deadline_open = true;
	rig_begin(&rig);
	assert_true(rea_call_deadline(&rig.call) == REA_NEVER);
	rig_attempt(&rig, 60000);
	assert_attempt(&rig, 1, 0);
	assert_true(rig.decision.attempt_deadline_ns == REA_NEVER);
	rig_report(&rig, &report, 61000);
	assert_wait(&rig, 1, 100, 61100);
	rea_call_start_deadline(&rig.call, rig.base_ns + MS(61050));
	assert_true(rea_call_deadline(&rig.call) == rig.base_ns + MS(61550));
	rea_call_start_deadline(&rig.call, rig.base_ns + MS(61090));
	assert_true(rea_call_deadline(&rig.call) == rig.base_ns + MS(61550));
	rig_attempt(&rig, 61100);
	assert_attempt(&rig, 2, 1);
	assert_true(rig.decision.attempt_deadline_ns == rig.base_ns + MS(61550));
}

static void an_open_deadline_bounds_waits_as_if_it_began_now(void **state)
{
	struct rea_report report = {.outcome = REA_OUTCOME_NEVER_SENT, .flags = REA_REPORT_AFTER, .after_ns = MS(480)};

	(void)state;
	rig_init(&rig, 2);
	rig.policy.deadline_ns = MS(500);
	rig.options.deadline_open = true;
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	report.after_ns = MS(600);
	rig_report(&rig, &report, 60000);
	assert_give_up(&rig, 1, REA_REASON_DEADLINE);
	/* The caller's own deadline holds too, once it starts. */
	rig_init(&rig, 2);
	rig.options.deadline_open = true;
	rig.options.deadline_ns = rig.base_ns + MS(300);
	rig_begin(&rig);
	rea_call_start_deadline(&rig.call, rig.base_ns + MS(100));
	assert_true(rea_call_deadline(&rig.call) == rig.base_ns + MS(300));
}

/* ---- instances ---- */

static void s11_a_refreshed_list_changes_nothing(void **state)
{
	struct rea_instance fresh[RIG_INSTANCES];

	(void)state;
	rig_init(&rig, 3);
	rig.policy.max_retry_next_instance = 3;
	rig_begin(&rig);
	for (uint32_t attempt = 1; attempt <= 3; attempt++) {
		rig_attempt(&rig, 200 * attempt);
		assert_attempt(&rig, attempt, attempt - 1);
		/* New objects with equal addresses, other weights. */
		memcpy(fresh, rig.items, sizeof(fresh));
		for (size_t i = 0; i < 3; i++)
			fresh[i].weight = 1 + attempt;
		rig.list.items = fresh;
		rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 200 * attempt);
		if (attempt < 3)
			assert_int_equal(rig.decision.step, REA_STEP_WAIT);
	}
	assert_give_up(&rig, 3, REA_REASON_NO_UNTRIED_INSTANCE);
}

static void s11_one_instance(void **state)
{
	(void)state;
	rig_init(&rig, 1);
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 5);
	assert_give_up(&rig, 1, REA_REASON_NO_UNTRIED_INSTANCE);
	/* Under cycle too: never the same twice in a row. */
	rig_init(&rig, 1);
	rig.policy.when_all_tried = REA_ALL_TRIED_CYCLE;
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 5);
	assert_give_up(&rig, 1, REA_REASON_NO_UNTRIED_INSTANCE);
}

static void no_instance_at_all(void **state)
{
	(void)state;
	rig_init(&rig, 0);
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	assert_give_up(&rig, 0, REA_REASON_NO_UNTRIED_INSTANCE);
}

static void the_list_shrinks_during_a_wait(void **state)
{
	(void)state;
	rig_init(&rig, 2);
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 5);
	rig.list.count = 1;
	rig_attempt(&rig, 105);
	assert_give_up(&rig, 1, REA_REASON_NO_UNTRIED_INSTANCE);
}

/* Attempts at instances, in order, of a call that always fails; the list may change after each. */
static void assert_sequence(const char *expected, enum rea_reason last)
{
	uint64_t at_ms = 0;

	rig_begin(&rig);
	for (uint32_t attempt = 1; *expected != '\0'; expected++, attempt++, at_ms += 100) {
		rig_attempt(&rig, at_ms);
		assert_attempt(&rig, attempt, (size_t)(*expected - 'A'));
		rig_end(&rig, REA_OUTCOME_UNAVAILABLE, at_ms);
		if (expected[1] != '\0')
			assert_wait(&rig, attempt, 100, at_ms + 100);
		else
			assert_give_up(&rig, attempt, last);
	}
}

static void same_instance_first_then_the_next(void **state)
{
	(void)state;
	rig_init(&rig, 5);
	rig.policy.max_retry_same_instance = 1;
	rig.policy.max_retry_next_instance = 2;
	assert_sequence("AABBCC", REA_REASON_ATTEMPTS_EXHAUSTED);
	rig_init(&rig, 5);
	rig.policy.max_retry_same_instance = 2;
	rig.policy.max_retry_next_instance = 0;
	assert_sequence("AAA", REA_REASON_ATTEMPTS_EXHAUSTED);
	rig_init(&rig, 2);
	rig.policy.max_retry_same_instance = 1;
	rig.policy.max_retry_next_instance = 4;
	assert_sequence("AABB", REA_REASON_NO_UNTRIED_INSTANCE);
}

static void a_same_instance_that_left_counts_as_moving_on(void **state)
{
	(void)state;
	rig_init(&rig, 2);
	rig.policy.max_retry_same_instance = 1;
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	assert_attempt(&rig, 1, 0);
	/* A leaves: the list is B alone. */
	rig.list.items = &rig.items[1];
	rig.list.count = 1;
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 0);
	rig_attempt(&rig, 100);
	assert_attempt(&rig, 2, 0);
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 100);
	rig_attempt(&rig, 200);
	assert_attempt(&rig, 3, 0);
	/* Two instances were the policy's bound; A is back, and nothing is left. */
	rig.list.items = rig.items;
	rig.list.count = 2;
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 200);
	assert_give_up(&rig, 3, REA_REASON_ATTEMPTS_EXHAUSTED);
	/* With no move left, one that leaves during the wait ends the call. */
	rig_init(&rig, 2);
	rig.policy.max_retry_same_instance = 1;
	rig.policy.max_retry_next_instance = 0;
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 0);
	assert_wait(&rig, 1, 100, 100);
	rig.list.items = &rig.items[1];
	rig.list.count = 1;
	rig_attempt(&rig, 100);
	assert_give_up(&rig, 1, REA_REASON_ATTEMPTS_EXHAUSTED);
}

static void cycle_starts_new_rounds(void **state)
{
	(void)state;
	rig_init(&rig, 3);
	rig.policy.when_all_tried = REA_ALL_TRIED_CYCLE;
	rig.policy.max_retry_next_instance = 7;
	rig.policy.max_retry_same_instance = 2; /* means nothing under cycle */
	assert_sequence("ABCABCAB", REA_REASON_ATTEMPTS_EXHAUSTED);
	rig_init(&rig, 2);
	rig.policy.when_all_tried = REA_ALL_TRIED_CYCLE;
	rig.policy.max_retry_next_instance = 4;
	assert_sequence("ABABA", REA_REASON_ATTEMPTS_EXHAUSTED);
}

static void cycle_takes_a_newcomer_first(void **state)
{
	(void)state;
	rig_init(&rig, 2);
	rig.policy.when_all_tried = REA_ALL_TRIED_CYCLE;
	rig.policy.max_retry_next_instance = 5;
	rig_begin(&rig);
	for (uint32_t attempt = 1; attempt <= 6; attempt++) {
		static const size_t expected[] = {0, 1, 0, 2, 1, 0};

		rig_attempt(&rig, 100 * attempt);
		assert_attempt(&rig, attempt, expected[attempt - 1]);
		if (attempt == 3)
			rig.list.count = 3;
		rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 100 * attempt);
	}
	assert_give_up(&rig, 6, REA_REASON_ATTEMPTS_EXHAUSTED);
}

/* ---- permission of instances: a rolling revocation ---- */

static void an_instance_may_forbid_for_itself(void **state)
{
	(void)state;
	rig_init(&rig, 3);
	rig.items[1].grant = (struct rea_grant){REA_PERMISSION_FORBID, REA_PERMISSION_SOURCE_REGISTRY};
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_end(&rig, REA_OUTCOME_AMBIGUOUS, 0);
	rig_attempt(&rig, 100);
	assert_attempt(&rig, 2, 2); /* not instance 1 */
	/* A first attempt may go there, but it is not repeated. */
	rig.list.items = &rig.items[1];
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	assert_attempt(&rig, 1, 0);
	assert_int_equal(rig.decision.grant.permission, REA_PERMISSION_FORBID);
	assert_int_equal(rig.decision.grant.source, REA_PERMISSION_SOURCE_REGISTRY);
	rig_end(&rig, REA_OUTCOME_AMBIGUOUS, 0);
	assert_give_up(&rig, 1, REA_REASON_FORBIDDEN);
	assert_int_equal(rig.decision.grant.source, REA_PERMISSION_SOURCE_REGISTRY);
}

static void only_instances_that_do_not_permit_are_left(void **state)
{
	static const struct {
		enum rea_permission permission;
		enum rea_reason reason;
	} rows[] = {{REA_PERMISSION_FORBID, REA_REASON_FORBIDDEN}, {REA_PERMISSION_UNKNOWN, REA_REASON_NOT_DECLARED},
	    {REA_PERMISSION_IDEMPOTENT_WITH_KEY, REA_REASON_KEY_MISSING}};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		for (int cycle = 0; cycle < 2; cycle++) {
			rig_init(&rig, 2);
			rig.policy.when_all_tried = cycle ? REA_ALL_TRIED_CYCLE : REA_ALL_TRIED_STOP;
			rig.items[1].grant.permission = rows[i].permission;
			rig_begin(&rig);
			rig_attempt(&rig, 0);
			rig_end(&rig, REA_OUTCOME_AMBIGUOUS, 0);
			assert_give_up(&rig, 1, rows[i].reason);
		}
	}
	/* Revoked during the wait. */
	rig_init(&rig, 2);
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_end(&rig, REA_OUTCOME_AMBIGUOUS, 0);
	rig.items[1].grant.permission = REA_PERMISSION_FORBID;
	rig_attempt(&rig, 100);
	assert_give_up(&rig, 1, REA_REASON_FORBIDDEN);
}

static void a_same_instance_that_revokes_is_left(void **state)
{
	(void)state;
	rig_init(&rig, 2);
	rig.policy.max_retry_same_instance = 1;
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_end(&rig, REA_OUTCOME_AMBIGUOUS, 0);
	rig.items[0].grant.permission = REA_PERMISSION_FORBID;
	rig_attempt(&rig, 100);
	assert_attempt(&rig, 2, 1);
}

/* ---- L14: layers ---- */

struct layers {
	struct rea_policy inner_policy;
	struct rea_budget *inner_budget;
	uint32_t backend_requests;
};

/* One request to the inner rea: it calls a backend that always answers 503. Returns what the outer one sees. */
static struct rea_report call_inner(struct layers *layers)
{
	struct rig inner;
	struct rea_report seen = {.outcome = REA_OUTCOME_UNAVAILABLE, .code_kind = REA_CODE_HTTP, .code = 503};
	uint64_t at_ms = 0;

	rig_init(&inner, 5);
	inner.policy = layers->inner_policy;
	inner.options.budget = layers->inner_budget;
	rig_begin(&inner);
	for (rig_attempt(&inner, at_ms); inner.decision.step == REA_STEP_ATTEMPT; rig_attempt(&inner, at_ms)) {
		layers->backend_requests++;
		rig_end(&inner, REA_OUTCOME_UNAVAILABLE, at_ms);
		if (inner.decision.step == REA_STEP_DONE)
			break;
		at_ms += inner.decision.wait_ns / REA_NS_PER_MS;
	}
	/* The give-up says "do not retry" after retries, and when the budget allowed none. */
	if (rea_call_attempts(&inner.call) > 1 || inner.decision.reason == REA_REASON_BUDGET_EXHAUSTED)
		seen.flags = REA_REPORT_STOP;
	return seen;
}

static uint32_t run_layers(struct layers *layers)
{
	uint64_t at_ms = 0;

	rig_init(&rig, 10);
	layers->inner_policy = rig.policy;
	rig.policy.max_retry_next_instance = 4;
	rig_begin(&rig);
	for (;; at_ms += 100) {
		struct rea_report seen;

		rig_attempt(&rig, at_ms);
		seen = call_inner(layers);
		rig_report(&rig, &seen, at_ms);
		if (rig.decision.step == REA_STEP_DONE)
			return layers->backend_requests;
	}
}

static void l14_the_outer_layer_obeys_the_inner(void **state)
{
	struct rea_budget_policy none = {.ratio_permille = 0, .reserve_per_s = 0, .window_ms = 10000};
	struct layers layers = {.backend_requests = 0};

	(void)state;
	assert_int_equal(run_layers(&layers), 2);
	assert_give_up(&rig, 1, REA_REASON_SERVER_REFUSED);
	layers = (struct layers){.backend_requests = 0};
	assert_int_equal(rea_budget_new(&none, 1, NULL, &layers.inner_budget, NULL), 0);
	assert_int_equal(run_layers(&layers), 1);
	assert_give_up(&rig, 1, REA_REASON_SERVER_REFUSED);
	rea_budget_free(layers.inner_budget);
}

static void l14_never_sent_allow(void **state)
{
	(void)state;
	rig_init(&rig, 2);
	rig.policy.never_sent = REA_NEVER_SENT_ALLOW;
	rig.options.grant.permission = REA_PERMISSION_NONE;
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_end(&rig, REA_OUTCOME_AMBIGUOUS, 0);
	assert_give_up(&rig, 1, REA_REASON_NOT_DECLARED);
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_end(&rig, REA_OUTCOME_NEVER_SENT, 0);
	rig_attempt(&rig, 100);
	assert_attempt(&rig, 2, 1);
	/* What is let through is the outcome, not the call: the second attempt was sent. */
	rig_end(&rig, REA_OUTCOME_AMBIGUOUS, 100);
	assert_give_up(&rig, 2, REA_REASON_NOT_DECLARED);
	rig.options.grant.permission = REA_PERMISSION_IDEMPOTENT;
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_end(&rig, REA_OUTCOME_AMBIGUOUS, 0);
	assert_wait(&rig, 1, 100, 100);
}

/* ---- what is held, and when it comes back ---- */

static const struct rea_budget_policy three_retries = {.ratio_permille = 0, .reserve_per_s = 3, .window_ms = 1000};

static void the_budget_is_spent_by_retries_that_start(void **state)
{
	struct rea_budget_policy policy = {.ratio_permille = 500, .reserve_per_s = 1, .window_ms = 1000};
	struct rea_budget *budget;

	(void)state;
	assert_int_equal(rea_budget_new(&policy, 1, NULL, &budget, NULL), 0);
	rig_init(&rig, 2);
	rig.options.budget = budget;
	rig_begin(&rig);
	assert_true(rea_budget_available(budget, rig.base_ns) == 1);
	rig_attempt(&rig, 0); /* half a retry is deposited */
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 0);
	assert_true(rea_budget_available(budget, rig.base_ns) == 0);
	rig_attempt(&rig, 100);
	rig_end(&rig, REA_OUTCOME_OK, 100);
	assert_true(rea_budget_available(budget, rig.base_ns + MS(100)) == 0);
	/* The second call deposits the other half; a retry deposits nothing. */
	rig.base_ns += MS(200);
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	assert_true(rea_budget_available(budget, rig.base_ns) == 1);
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 0);
	rig_attempt(&rig, 100);
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 100);
	assert_give_up(&rig, 2, REA_REASON_ATTEMPTS_EXHAUSTED);
	assert_true(rea_budget_available(budget, rig.base_ns + MS(100)) == 0);
	rea_budget_free(budget);
}

static void a_retry_that_never_starts_is_refunded(void **state)
{
	struct rea_budget *budget;

	(void)state;
	assert_int_equal(rea_budget_new(&three_retries, 1, NULL, &budget, NULL), 0);
	for (int how = 0; how < 3; how++) {
		rig_init(&rig, 2);
		rig.options.budget = budget;
		rig.policy.deadline_ns = rig.policy.attempt_timeout_ns = MS(300);
		rig_begin(&rig);
		rig_attempt(&rig, 0);
		rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 0);
		assert_true(rea_budget_available(budget, rig.base_ns) == 2);
		if (how == 0) {
			rea_call_cancel(&rig.call, rig.base_ns + MS(50), &rig.decision);
			assert_give_up(&rig, 1, REA_REASON_CANCELLED);
		} else if (how == 1) {
			rig_attempt(&rig, 300);
			assert_give_up(&rig, 1, REA_REASON_DEADLINE);
		} else {
			rig.list.count = 1;
			rig_attempt(&rig, 100);
			assert_give_up(&rig, 1, REA_REASON_NO_UNTRIED_INSTANCE);
		}
		assert_true(rea_budget_available(budget, rig.base_ns) == 3);
	}
	rea_budget_free(budget);
}

static void a_backoff_holds_no_slot(void **state)
{
	struct rea_retry_limit limit;

	(void)state;
	rea_retry_limit_init(&limit, 1);
	rig_init(&rig, 3);
	rig.policy.max_retry_next_instance = 2;
	rig.options.limit = &limit;
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	assert_int_equal(rea_retry_limit_in_use(&limit), 0); /* a first attempt is no retry */
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 0);
	assert_int_equal(rea_retry_limit_in_use(&limit), 0);
	rig_attempt(&rig, 100);
	assert_int_equal(rea_retry_limit_in_use(&limit), 1);
	/* The slot is free again when the next retry is decided: a limit of one serves a whole call. */
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 100);
	assert_wait(&rig, 2, 100, 200);
	assert_int_equal(rea_retry_limit_in_use(&limit), 0);
	rig_attempt(&rig, 200);
	rea_call_cancel(&rig.call, rig.base_ns + MS(210), &rig.decision);
	assert_int_equal(rea_retry_limit_in_use(&limit), 0);
}

static void a_full_limit_refuses_when_decided_and_when_due(void **state)
{
	struct rea_retry_limit limit;
	struct rea_budget *budget;

	(void)state;
	rea_retry_limit_init(&limit, 1);
	assert_int_equal(rea_budget_new(&three_retries, 1, NULL, &budget, NULL), 0);
	rig_init(&rig, 2);
	rig.options.limit = &limit;
	rig.options.budget = budget;
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	assert_true(rea_retry_limit_acquire(&limit));
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 0);
	assert_give_up(&rig, 1, REA_REASON_OVERLOADED);
	assert_true(rea_budget_available(budget, rig.base_ns) == 3);
	rea_retry_limit_release(&limit);
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 0);
	assert_wait(&rig, 1, 100, 100);
	assert_true(rea_retry_limit_acquire(&limit));
	rig_attempt(&rig, 100);
	assert_give_up(&rig, 1, REA_REASON_OVERLOADED);
	assert_true(rea_budget_available(budget, rig.base_ns + MS(100)) == 3);
	assert_int_equal(rea_retry_limit_in_use(&limit), 1);
	rea_budget_free(budget);
}

/* A breaker that opens after one failure of one call and lets one probe through. */
static struct rea_breaker *new_breaker(void)
{
	struct rea_breaker_policy policy;
	struct rea_breaker *breaker;

	rig_init(&rig, 2);
	policy = rig.policy.breaker;
	policy.enabled = true;
	policy.window_size = policy.minimum_calls = policy.permitted_in_half_open = 1;
	policy.wait_in_open_ns = MS(1000);
	assert_int_equal(rea_breaker_new(&policy, NULL, &breaker, NULL), 0);
	rig.options.breaker = breaker;
	return breaker;
}

static void an_open_breaker_refuses(void **state)
{
	struct rea_breaker *breaker = new_breaker();

	(void)state;
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 0);
	assert_give_up(&rig, 1, REA_REASON_BREAKER_OPEN);
	assert_true(rig.decision.retryable);
	rig_begin(&rig);
	rig_attempt(&rig, 10);
	assert_give_up(&rig, 0, REA_REASON_BREAKER_OPEN);
	rea_breaker_free(breaker);
}

static void every_outcome_counts_for_the_breaker_as_it_should(void **state)
{
	static const struct {
		enum rea_outcome outcome;
		enum rea_breaker_state state; /* of a probe that ends so: what comes next */
	} rows[] = {
	    {REA_OUTCOME_OK, REA_BREAKER_CLOSED},
	    {REA_OUTCOME_PERMANENT, REA_BREAKER_CLOSED},
	    {REA_OUTCOME_NEVER_SENT, REA_BREAKER_OPEN},
	    {REA_OUTCOME_UNAVAILABLE, REA_BREAKER_OPEN},
	    {REA_OUTCOME_AMBIGUOUS, REA_BREAKER_OPEN},
	    {REA_OUTCOME_FAILED, REA_BREAKER_OPEN},
	    {REA_OUTCOME_PUSHBACK, REA_BREAKER_HALF_OPEN},
	    {REA_OUTCOME_THROTTLED, REA_BREAKER_HALF_OPEN},
	    {REA_OUTCOME_CANCELLED, REA_BREAKER_HALF_OPEN},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rea_breaker *breaker = new_breaker();

		rea_breaker_force(breaker, REA_BREAKER_OPEN, rig.base_ns);
		rig.base_ns += S(2);
		rig_begin(&rig);
		rig_attempt(&rig, 0);
		assert_attempt(&rig, 1, 0);
		assert_int_equal(rea_breaker_state(breaker), REA_BREAKER_HALF_OPEN);
		assert_false(rea_breaker_permits(breaker, rig.base_ns));
		rig_end(&rig, rows[i].outcome, 0);
		assert_int_equal(rea_breaker_state(breaker), rows[i].state);
		/* Ignored: the permit of the only probe is there again. */
		if (rows[i].state == REA_BREAKER_HALF_OPEN)
			assert_true(rea_breaker_permits(breaker, rig.base_ns));
		rea_breaker_free(breaker);
	}
}

static void a_permit_comes_back_from_every_exit(void **state)
{
	struct rea_retry_limit limit;

	(void)state;
	rea_retry_limit_init(&limit, 1);
	for (int how = 0; how < 2; how++) {
		struct rea_breaker *breaker = new_breaker();

		rig.options.limit = &limit;
		rea_breaker_force(breaker, REA_BREAKER_OPEN, rig.base_ns);
		rig.base_ns += S(2);
		rig_begin(&rig);
		rig_attempt(&rig, 0);
		if (how == 0) {
			rea_call_cancel(&rig.call, rig.base_ns, &rig.decision);
			assert_give_up(&rig, 1, REA_REASON_CANCELLED);
		} else {
			/* Refused by the limit after the breaker had said yes. */
			rig_end(&rig, REA_OUTCOME_PUSHBACK, 0);
			assert_int_equal(rig.decision.step, REA_STEP_WAIT);
			assert_true(rea_retry_limit_acquire(&limit));
			rig_attempt(&rig, 100);
			assert_give_up(&rig, 1, REA_REASON_OVERLOADED);
		}
		assert_true(rea_breaker_permits(breaker, rig.base_ns + MS(100)));
		rea_breaker_free(breaker);
	}
}

static void cancelling(void **state)
{
	(void)state;
	rig_init(&rig, 2);
	rig_begin(&rig);
	rea_call_cancel(&rig.call, rig.base_ns, &rig.decision);
	assert_give_up(&rig, 0, REA_REASON_CANCELLED);
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rea_call_cancel(&rig.call, rig.base_ns, &rig.decision);
	assert_give_up(&rig, 1, REA_REASON_CANCELLED);
	/* Once more is no harm. */
	rea_call_cancel(&rig.call, rig.base_ns, &rig.decision);
	assert_give_up(&rig, 1, REA_REASON_CANCELLED);
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_end(&rig, REA_OUTCOME_CANCELLED, 0);
	assert_give_up(&rig, 1, REA_REASON_CANCELLED);
}

static void observe_mode_takes_nothing(void **state)
{
	struct rea_budget_lease lease;
	struct rea_budget *budget;
	struct rea_retry_limit limit;

	(void)state;
	assert_int_equal(rea_budget_new(&three_retries, 1, NULL, &budget, NULL), 0);
	rea_retry_limit_init(&limit, 1);
	rig_init(&rig, 2);
	rig.policy.mode = REA_MODE_OBSERVE;
	rig.options.budget = budget;
	rig.options.limit = &limit;
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 0);
	assert_give_up(&rig, 1, REA_REASON_NONE);
	assert_true(rig.decision.would_retry && rig.decision.retryable);
	assert_true(rig.decision.wait_ns == MS(100));
	assert_true(rea_budget_available(budget, rig.base_ns) == 3);
	assert_int_equal(rea_retry_limit_in_use(&limit), 0);
	/* What enforce would refuse, observe refuses too. */
	assert_true(rea_retry_limit_acquire(&limit));
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 0);
	assert_give_up(&rig, 1, REA_REASON_OVERLOADED);
	assert_false(rig.decision.would_retry);
	while (rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, rig.base_ns, &lease))
		;
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 0);
	assert_give_up(&rig, 1, REA_REASON_BUDGET_EXHAUSTED);
	rea_budget_free(budget);
}

static void names(void **state)
{
	(void)state;
	assert_string_equal(rea_verdict_name(REA_VERDICT_SUCCESS), "success");
	assert_string_equal(rea_verdict_name(REA_VERDICT_RETRY), "retry");
	assert_string_equal(rea_verdict_name(REA_VERDICT_GIVE_UP), "give_up");
	assert_string_equal(rea_reason_name(REA_REASON_NONE), "");
	assert_string_equal(rea_reason_name(REA_REASON_PARKED), "parked");
	assert_string_equal(rea_reason_name(REA_REASON_COUNT), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_decision_says_everything),
	    cmocka_unit_test(two_instances_and_one_retry_make_two_attempts),
	    cmocka_unit_test(a_first_success),
	    cmocka_unit_test(l05_backoff_beyond_the_deadline),
	    cmocka_unit_test(l05_one_more_attempt_fits),
	    cmocka_unit_test(l05_a_deadline_that_is_past),
	    cmocka_unit_test(a_useful_attempt_must_fit),
	    cmocka_unit_test(a_late_timer_meets_the_deadline),
	    cmocka_unit_test(l06_sleeps_lie_between_attempts),
	    cmocka_unit_test(an_early_attempt_waits_on),
	    cmocka_unit_test(waits_grow_to_the_cap),
	    cmocka_unit_test(a_servers_wait_is_kept),
	    cmocka_unit_test(an_open_deadline),
	    cmocka_unit_test(an_open_deadline_bounds_waits_as_if_it_began_now),
	    cmocka_unit_test(s11_a_refreshed_list_changes_nothing),
	    cmocka_unit_test(s11_one_instance),
	    cmocka_unit_test(no_instance_at_all),
	    cmocka_unit_test(the_list_shrinks_during_a_wait),
	    cmocka_unit_test(same_instance_first_then_the_next),
	    cmocka_unit_test(a_same_instance_that_left_counts_as_moving_on),
	    cmocka_unit_test(cycle_starts_new_rounds),
	    cmocka_unit_test(cycle_takes_a_newcomer_first),
	    cmocka_unit_test(an_instance_may_forbid_for_itself),
	    cmocka_unit_test(only_instances_that_do_not_permit_are_left),
	    cmocka_unit_test(a_same_instance_that_revokes_is_left),
	    cmocka_unit_test(l14_the_outer_layer_obeys_the_inner),
	    cmocka_unit_test(l14_never_sent_allow),
	    cmocka_unit_test(the_budget_is_spent_by_retries_that_start),
	    cmocka_unit_test(a_retry_that_never_starts_is_refunded),
	    cmocka_unit_test(a_backoff_holds_no_slot),
	    cmocka_unit_test(a_full_limit_refuses_when_decided_and_when_due),
	    cmocka_unit_test(an_open_breaker_refuses),
	    cmocka_unit_test(every_outcome_counts_for_the_breaker_as_it_should),
	    cmocka_unit_test(a_permit_comes_back_from_every_exit),
	    cmocka_unit_test(cancelling),
	    cmocka_unit_test(observe_mode_takes_nothing),
	    cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
