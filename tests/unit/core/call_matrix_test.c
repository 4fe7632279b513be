/*
 * The decision matrix of DESIGN.md sections 3 to 5: every permission with every outcome, key and policy; every rule alone, every pair of rules
 * in their order; every reason reached.
 */
#include "rig.h"

static bool reached[REA_REASON_COUNT];

/* ---- permission × outcome × key × never-sent × enabled ---- */

/* Columns: ok never_sent pushback throttled unavailable ambiguous failed permanent cancelled, under the default retry-on.
 * s success, r retry, n not_retryable, f forbidden, u not_declared, k key_missing, p permanent, c cancelled. */
static const struct {
	enum rea_permission permission;
	bool allow, key; /* never-sent: allow; the call carries a key */
	const char *verdicts;
} grid[] = {
    {REA_PERMISSION_NONE, false, false, "suunuunpc"},
    {REA_PERMISSION_NONE, false, true, "suunuunpc"},
    {REA_PERMISSION_NONE, true, false, "srrnuunpc"},
    {REA_PERMISSION_NONE, true, true, "srrnuunpc"},
    {REA_PERMISSION_SAFE, false, false, "srrnrrnpc"},
    {REA_PERMISSION_SAFE, false, true, "srrnrrnpc"},
    {REA_PERMISSION_SAFE, true, false, "srrnrrnpc"},
    {REA_PERMISSION_SAFE, true, true, "srrnrrnpc"},
    {REA_PERMISSION_IDEMPOTENT, false, false, "srrnrrnpc"},
    {REA_PERMISSION_IDEMPOTENT, false, true, "srrnrrnpc"},
    {REA_PERMISSION_IDEMPOTENT, true, false, "srrnrrnpc"},
    {REA_PERMISSION_IDEMPOTENT, true, true, "srrnrrnpc"},
    {REA_PERMISSION_IDEMPOTENT_WITH_KEY, false, false, "skknkknpc"},
    {REA_PERMISSION_IDEMPOTENT_WITH_KEY, false, true, "srrnrrnpc"},
    {REA_PERMISSION_IDEMPOTENT_WITH_KEY, true, false, "srrnkknpc"},
    {REA_PERMISSION_IDEMPOTENT_WITH_KEY, true, true, "srrnrrnpc"},
    {REA_PERMISSION_UNKNOWN, false, false, "suunuunpc"},
    {REA_PERMISSION_UNKNOWN, false, true, "suunuunpc"},
    {REA_PERMISSION_UNKNOWN, true, false, "srrnuunpc"},
    {REA_PERMISSION_UNKNOWN, true, true, "srrnuunpc"},
    {REA_PERMISSION_FORBID, false, false, "sffnffnpc"},
    {REA_PERMISSION_FORBID, false, true, "sffnffnpc"},
    {REA_PERMISSION_FORBID, true, false, "sffnffnpc"},
    {REA_PERMISSION_FORBID, true, true, "sffnffnpc"},
};

static enum rea_reason reason_of(char letter)
{
	switch (letter) {
	case 'n':
		return REA_REASON_NOT_RETRYABLE;
	case 'f':
		return REA_REASON_FORBIDDEN;
	case 'u':
		return REA_REASON_NOT_DECLARED;
	case 'k':
		return REA_REASON_KEY_MISSING;
	case 'p':
		return REA_REASON_PERMANENT;
	case 'c':
		return REA_REASON_CANCELLED;
	default:
		return REA_REASON_NONE;
	}
}

static void check_cell(struct rig *rig, size_t row, enum rea_outcome outcome, bool enabled, uint32_t attempts_left)
{
	char expected = grid[row].verdicts[outcome];
	enum rea_reason reason = reason_of(expected);
	bool repeatable = expected == 'r' && enabled;

	if (expected == 'r')
		reason = !enabled             ? REA_REASON_NOT_ENABLED
			 : attempts_left == 0 ? REA_REASON_ATTEMPTS_EXHAUSTED
					      : REA_REASON_NONE;
	rig->policy.enabled = enabled;
	rig->policy.max_retry_next_instance = attempts_left;
	rig->policy.never_sent = grid[row].allow ? REA_NEVER_SENT_ALLOW : REA_NEVER_SENT_STRICT;
	rig->options.grant.permission = grid[row].permission;
	rig->options.has_key = grid[row].key;
	rig_begin(rig);
	rig_attempt(rig, 0);
	rig_end(rig, outcome, 0);
	if (rig->decision.reason != reason)
		fail_msg("%s, %s, allow=%d key=%d enabled=%d left=%u: %s instead of %s",
		    rea_permission_name(grid[row].permission), rea_outcome_name(outcome), grid[row].allow, grid[row].key,
		    enabled, attempts_left, rea_reason_name(rig->decision.reason), rea_reason_name(reason));
	assert_int_equal(rig->decision.retryable, repeatable);
	assert_int_equal(rig->decision.step, repeatable && attempts_left > 0 ? REA_STEP_WAIT : REA_STEP_DONE);
	assert_int_equal(rig->decision.verdict, expected == 's'             ? REA_VERDICT_SUCCESS
						: reason == REA_REASON_NONE ? REA_VERDICT_RETRY
									    : REA_VERDICT_GIVE_UP);
	reached[reason] = true;
}

static void the_matrix(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig, 10);
	for (size_t row = 0; row < sizeof(grid) / sizeof(grid[0]); row++)
		for (int outcome = 0; outcome < REA_OUTCOME_COUNT; outcome++)
			for (int enabled = 0; enabled < 2; enabled++)
				for (uint32_t attempts_left = 0; attempts_left < 3; attempts_left++)
					check_cell(&rig, row, (enum rea_outcome)outcome, enabled, attempts_left);
}

/* ---- each rule alone, and each pair: the first that speaks gives the reason ---- */

/* A call that would be retried, until conditions are added. */
struct scene {
	struct rig rig;
	struct rea_report report;
	struct rea_budget *budget;
	struct rea_breaker *breaker;
	struct rea_retry_limit limit;
};

static void cancelled(struct scene *scene)
{
	scene->report.outcome = REA_OUTCOME_CANCELLED;
}

static void permanent(struct scene *scene)
{
	scene->report.outcome = REA_OUTCOME_PERMANENT;
}

static void blocked(struct scene *scene)
{
	scene->report.outcome = REA_OUTCOME_PERMANENT;
	scene->report.flags |= REA_REPORT_BLOCKED;
}

static void server_refused(struct scene *scene)
{
	scene->report.flags |= REA_REPORT_STOP;
}

static void not_retryable(struct scene *scene)
{
	scene->rig.policy.retry_on = 0;
}

static void forbidden(struct scene *scene)
{
	scene->rig.options.grant.permission = REA_PERMISSION_FORBID;
}

static void not_declared(struct scene *scene)
{
	scene->rig.options.grant.permission = REA_PERMISSION_UNKNOWN;
}

static void key_missing(struct scene *scene)
{
	scene->rig.options.grant.permission = REA_PERMISSION_IDEMPOTENT_WITH_KEY;
}

static void not_enabled(struct scene *scene)
{
	scene->rig.policy.enabled = false;
}

static void chain_stopped(struct scene *scene)
{
	scene->rig.options.chained = true;
}

static void body_over_limit(struct scene *scene)
{
	scene->report.flags |= REA_REPORT_BODY_OVER_LIMIT;
}

static void body_incomplete(struct scene *scene)
{
	scene->report.flags |= REA_REPORT_BODY_INCOMPLETE;
}

static void response_started(struct scene *scene)
{
	scene->report.flags |= REA_REPORT_RESPONSE_STARTED;
}

static void attempts_exhausted(struct scene *scene)
{
	scene->rig.policy.max_retry_next_instance = 0;
}

static void deadline(struct scene *scene)
{
	scene->rig.policy.deadline_ns = scene->rig.policy.attempt_timeout_ns = MS(100);
}

static void no_untried_instance(struct scene *scene)
{
	scene->rig.list.count = 1;
}

static void breaker_open(struct scene *scene)
{
	scene->rig.options.breaker = scene->breaker;
}

static void budget_exhausted(struct scene *scene)
{
	scene->rig.options.budget = scene->budget;
}

static void overloaded(struct scene *scene)
{
	scene->rig.options.limit = &scene->limit;
}

/* In the order of the rules. Of those with the same `exclusive` only one can hold at a time. */
static const struct {
	enum rea_reason reason;
	void (*add)(struct scene *scene);
	bool retryable;
	char exclusive;
} rules[] = {
    {REA_REASON_CANCELLED, cancelled, false, 'o'},
    {REA_REASON_PERMANENT, permanent, false, 'o'},
    {REA_REASON_BLOCKED, blocked, false, 'o'},
    {REA_REASON_SERVER_REFUSED, server_refused, false, 0},
    {REA_REASON_NOT_RETRYABLE, not_retryable, false, 0},
    {REA_REASON_FORBIDDEN, forbidden, false, 'p'},
    {REA_REASON_NOT_DECLARED, not_declared, false, 'p'},
    {REA_REASON_KEY_MISSING, key_missing, false, 'p'},
    {REA_REASON_NOT_ENABLED, not_enabled, false, 0},
    {REA_REASON_CHAIN_STOPPED, chain_stopped, false, 0},
    {REA_REASON_BODY_OVER_LIMIT, body_over_limit, true, 0},
    {REA_REASON_BODY_INCOMPLETE, body_incomplete, true, 0},
    {REA_REASON_RESPONSE_STARTED, response_started, true, 0},
    {REA_REASON_ATTEMPTS_EXHAUSTED, attempts_exhausted, true, 0},
    {REA_REASON_DEADLINE, deadline, true, 0},
    {REA_REASON_NO_UNTRIED_INSTANCE, no_untried_instance, true, 0},
    {REA_REASON_BREAKER_OPEN, breaker_open, true, 0},
    {REA_REASON_BUDGET_EXHAUSTED, budget_exhausted, true, 0},
    {REA_REASON_OVERLOADED, overloaded, true, 0},
};
enum { RULES = sizeof(rules) / sizeof(rules[0]) };

static void scene_init(struct scene *scene)
{
	struct rea_budget_policy none = {.ratio_permille = 0, .reserve_per_s = 0, .window_ms = 1000};
	struct rea_breaker_policy breaker;

	*scene = (struct scene){.report = {.outcome = REA_OUTCOME_UNAVAILABLE}};
	rig_init(&scene->rig, 3);
	assert_int_equal(rea_budget_new(&none, 1, NULL, &scene->budget, NULL), 0);
	breaker = scene->rig.policy.breaker;
	breaker.enabled = true;
	breaker.window_size = breaker.minimum_calls = 1;
	assert_int_equal(rea_breaker_new(&breaker, NULL, &scene->breaker, NULL), 0);
	rea_retry_limit_init(&scene->limit, 1);
	assert_true(rea_retry_limit_acquire(&scene->limit));
}

static void scene_play(struct scene *scene)
{
	rig_begin(&scene->rig);
	rig_attempt(&scene->rig, 0);
	assert_attempt(&scene->rig, 1, 0);
	rig_report(&scene->rig, &scene->report, 0);
}

static void scene_fini(struct scene *scene)
{
	rea_budget_free(scene->budget);
	rea_breaker_free(scene->breaker);
}

static void without_conditions_there_is_a_retry(void **state)
{
	struct scene scene;

	(void)state;
	scene_init(&scene);
	scene_play(&scene);
	assert_wait(&scene.rig, 1, 100, 100);
	scene_fini(&scene);
}

static void the_first_rule_that_speaks_gives_the_reason(void **state)
{
	(void)state;
	for (size_t first = 0; first < RULES; first++) {
		for (size_t second = first; second < RULES; second++) {
			struct scene scene;

			if (second != first && rules[first].exclusive != 0 && rules[first].exclusive == rules[second].exclusive)
				continue;
			scene_init(&scene);
			/* The later one first: an earlier rule must not depend on who set its condition last. */
			rules[second].add(&scene);
			rules[first].add(&scene);
			scene_play(&scene);
			if (scene.rig.decision.reason != rules[first].reason)
				fail_msg("%s with %s: %s", rea_reason_name(rules[first].reason),
				    rea_reason_name(rules[second].reason), rea_reason_name(scene.rig.decision.reason));
			assert_give_up(&scene.rig, 1, rules[first].reason);
			assert_int_equal(scene.rig.decision.retryable, rules[first].retryable);
			reached[rules[first].reason] = true;
			scene_fini(&scene);
		}
	}
}

/* ---- parked: not yet a reason to end ---- */

static void parked(struct scene *scene, struct rea_retry_limit *parking)
{
	struct rea_budget_policy evidence = {.rule = REA_BUDGET_EVIDENCE};
	struct rea_budget_lease lease;

	rea_budget_free(scene->budget);
	assert_int_equal(rea_budget_new(&evidence, 1, NULL, &scene->budget, NULL), 0);
	for (int i = 0; i < 12; i++)
		rea_budget_report(scene->budget, 0, REA_BUDGET_TRANSIENT, NULL, scene->rig.base_ns);
	while (rea_budget_withdraw(scene->budget, REA_BUDGET_TRANSIENT, scene->rig.base_ns, &lease))
		;
	rea_retry_limit_init(parking, 1);
	scene->rig.options.budget = scene->budget;
	scene->rig.options.parking = parking;
}

/* Every rule before the budget's speaks first; the limit on retries is not asked before there is one. */
static void parked_comes_last(void **state)
{
	(void)state;
	for (size_t i = 0; i <= RULES; i++) {
		struct rea_retry_limit parking;
		struct scene scene;
		bool earlier = i < RULES && rules[i].reason < REA_REASON_BUDGET_EXHAUSTED;

		if (i < RULES && rules[i].reason == REA_REASON_BUDGET_EXHAUSTED)
			continue;
		scene_init(&scene);
		if (i < RULES)
			rules[i].add(&scene);
		parked(&scene, &parking);
		scene_play(&scene);
		if (earlier) {
			assert_give_up(&scene.rig, 1, rules[i].reason);
			assert_int_equal(rea_retry_limit_in_use(&parking), 0);
		} else {
			assert_int_equal(scene.rig.decision.step, REA_STEP_WAIT);
			assert_int_equal(scene.rig.decision.reason, REA_REASON_PARKED);
			reached[REA_REASON_PARKED] = true;
			rea_call_cancel(&scene.rig.call, scene.rig.base_ns, &scene.rig.decision);
		}
		scene_fini(&scene);
	}
}

/* The rules from the deadline on are asked again each time. */
static void a_parked_call_is_decided_again_from_the_deadline_on(void **state)
{
	(void)state;
	for (size_t i = 0; i < RULES; i++) {
		struct rea_retry_limit parking;
		struct scene scene;
		enum rea_reason expected = rules[i].reason;

		if (expected != REA_REASON_NO_UNTRIED_INSTANCE && expected != REA_REASON_BREAKER_OPEN)
			continue;
		scene_init(&scene);
		scene.rig.options.breaker = scene.breaker;
		parked(&scene, &parking);
		rea_breaker_force(scene.breaker, REA_BREAKER_DISABLED, scene.rig.base_ns);
		scene_play(&scene);
		assert_int_equal(scene.rig.decision.reason, REA_REASON_PARKED);
		if (expected == REA_REASON_BREAKER_OPEN)
			rea_breaker_force(scene.breaker, REA_BREAKER_FORCED_OPEN, scene.rig.base_ns);
		else
			rules[i].add(&scene);
		rig_attempt(&scene.rig, 100);
		assert_give_up(&scene.rig, 1, expected);
		assert_true(scene.rig.decision.retryable);
		assert_int_equal(rea_retry_limit_in_use(&parking), 0);
		scene_fini(&scene);
	}
}

/* ---- what a rule does not say ---- */

static void chain_stop_may_be_off(void **state)
{
	struct scene scene;

	(void)state;
	scene_init(&scene);
	scene.rig.options.chained = true;
	scene.rig.policy.chain_stop = false;
	scene_play(&scene);
	assert_wait(&scene.rig, 1, 100, 100);
	scene_fini(&scene);
}

static void an_incomplete_body_is_no_matter_when_nothing_was_sent(void **state)
{
	struct scene scene;

	(void)state;
	scene_init(&scene);
	scene.report.outcome = REA_OUTCOME_NEVER_SENT;
	scene.report.flags = REA_REPORT_BODY_INCOMPLETE;
	scene_play(&scene);
	assert_wait(&scene.rig, 1, 100, 100);
	scene.report.flags |= REA_REPORT_BODY_OVER_LIMIT;
	scene_play(&scene);
	assert_give_up(&scene.rig, 1, REA_REASON_BODY_OVER_LIMIT);
	scene_fini(&scene);
}

static void success_needs_nothing(void **state)
{
	struct scene scene;

	(void)state;
	scene_init(&scene);
	for (size_t i = 3; i < RULES; i++)
		rules[i].add(&scene);
	scene.report.outcome = REA_OUTCOME_OK;
	scene_play(&scene);
	assert_done(&scene.rig, 1, REA_VERDICT_SUCCESS, REA_REASON_NONE);
	scene_fini(&scene);
}

static void throttled_and_failed_retry_when_named(void **state)
{
	struct scene scene;

	(void)state;
	scene_init(&scene);
	scene.rig.policy.retry_on = REA_OUTCOME_BIT(REA_OUTCOME_THROTTLED) | REA_OUTCOME_BIT(REA_OUTCOME_FAILED);
	scene.report.outcome = REA_OUTCOME_THROTTLED;
	scene_play(&scene);
	assert_wait(&scene.rig, 1, 100, 100);
	scene.report.outcome = REA_OUTCOME_FAILED;
	scene_play(&scene);
	assert_wait(&scene.rig, 1, 100, 100);
	scene.report.outcome = REA_OUTCOME_UNAVAILABLE;
	scene_play(&scene);
	assert_give_up(&scene.rig, 1, REA_REASON_NOT_RETRYABLE);
	scene_fini(&scene);
}

/* Last. */
static void every_reason_was_reached(void **state)
{
	(void)state;
	for (int reason = 0; reason < REA_REASON_COUNT; reason++)
		if (!reached[reason] && reason != REA_REASON_CRASH_LOOP) /* the queue's own */
			fail_msg("reason %s", rea_reason_name((enum rea_reason)reason));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_matrix),
	    cmocka_unit_test(without_conditions_there_is_a_retry),
	    cmocka_unit_test(the_first_rule_that_speaks_gives_the_reason),
	    cmocka_unit_test(parked_comes_last),
	    cmocka_unit_test(a_parked_call_is_decided_again_from_the_deadline_on),
	    cmocka_unit_test(chain_stop_may_be_off),
	    cmocka_unit_test(an_incomplete_body_is_no_matter_when_nothing_was_sent),
	    cmocka_unit_test(success_needs_nothing),
	    cmocka_unit_test(throttled_and_failed_retry_when_named),
	    cmocka_unit_test(every_reason_was_reached),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
