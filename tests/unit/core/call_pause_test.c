/* A call without its object between two attempts, and a call with a single target. */
#include "rig.h"

#include <string.h>

/* ---- paused and resumed ---- */

enum { CALLS = 20000, INSTANCES = 5 };

/* One of two worlds that are to do the same. */
struct side {
	struct rig rig;
	struct rea_budget *budget;
	struct rea_instance_id tried[REA_ATTEMPTS_MAX]; /* kept while the call has no object */
	bool pauses;
};

static void pause_and_resume(struct side *side, uint64_t now_ns)
{
	struct rea_call_past past;
	struct rea_call_options options = side->rig.options;

	options.deadline_ns = rea_call_deadline(&side->rig.call);
	rea_call_pause(&side->rig.call, &past);
	assert_true(rea_call_done(&side->rig.call));
	memcpy(side->tried, past.tried, past.tried_len * sizeof(side->tried[0]));
	past.tried = side->tried;
	memset(&side->rig.call, 0xa5, sizeof(side->rig.call));
	rea_call_resume(&side->rig.call, &options, &past, now_ns);
}

static void begin(struct side *side, uint64_t seed, bool pauses)
{
	struct rea_budget_policy budget = {.rule = REA_BUDGET_RATIO, .window_ms = 1000};
	struct rea_random random;
	struct rig *rig = &side->rig;

	rea_random_init(&random, seed);
	side->pauses = pauses;
	rig_init(rig, 1 + (size_t)rea_random_below(&random, INSTANCES));
	rea_random_init(&rig->random, seed);
	rig->list.balance = rea_random_below(&random, 2) ? REA_BALANCE_LISTED : REA_BALANCE_LEAST_LOADED;
	rig->items[0].grant.permission = rea_random_below(&random, 4) ? REA_PERMISSION_NONE : REA_PERMISSION_FORBID;
	rig->policy.when_all_tried = rea_random_below(&random, 2) ? REA_ALL_TRIED_CYCLE : REA_ALL_TRIED_STOP;
	rig->policy.max_retry_next_instance = (uint32_t)rea_random_below(&random, 4);
	rig->policy.max_retry_same_instance = (uint32_t)rea_random_below(&random, 2);
	if (rig->policy.when_all_tried == REA_ALL_TRIED_CYCLE && rea_random_below(&random, 2))
		rig->policy.max_retry_next_instance = 30;
	rig->policy.never_sent = rea_random_below(&random, 2) ? REA_NEVER_SENT_ALLOW : REA_NEVER_SENT_STRICT;
	rig->options.single_target = rea_random_below(&random, 3) == 0;
	budget.reserve_per_s = rea_random_below(&random, 2) ? 3 : 50;
	assert_int_equal(rea_budget_new(&budget, 1, NULL, &side->budget, NULL), 0);
	rig->options.budget = side->budget;
	rig_begin(rig);
}

static void attempt(struct side *side, uint64_t now_ns)
{
	rea_call_attempt(&side->rig.call, &side->rig.list, &side->rig.random, now_ns, &side->rig.decision);
}

static void assert_same(const struct side *a, const struct side *b)
{
	const struct rea_decision *one = &a->rig.decision, *two = &b->rig.decision;

	assert_int_equal(one->step, two->step);
	assert_int_equal(one->verdict, two->verdict);
	assert_int_equal(one->reason, two->reason);
	assert_int_equal(one->attempt, two->attempt);
	assert_int_equal(one->attempts_max, two->attempts_max);
	assert_int_equal(one->instance, two->instance);
	assert_true(one->wait_until_ns == two->wait_until_ns);
	assert_true(one->attempt_deadline_ns == two->attempt_deadline_ns);
	assert_true(one->stop == two->stop && one->retryable == two->retryable);
	assert_int_equal(one->grant.permission, two->grant.permission);
}

static uint32_t run_both(struct side sides[2], uint64_t seed)
{
	static const enum rea_outcome outcomes[] = {REA_OUTCOME_UNAVAILABLE, REA_OUTCOME_UNAVAILABLE,
	    REA_OUTCOME_AMBIGUOUS, REA_OUTCOME_NEVER_SENT, REA_OUTCOME_OK, REA_OUTCOME_PERMANENT};
	struct rea_random random;
	uint64_t now_ns = S(1000), left;

	rea_random_init(&random, ~seed);
	for (;;) {
		struct rea_report report = {.outcome = outcomes[rea_random_below(&random, seed % 3 == 0 ? 6 : 4)]};
		bool cancelled;

		for (int i = 0; i < 2; i++)
			attempt(&sides[i], now_ns);
		assert_same(&sides[0], &sides[1]);
		if (sides[0].rig.decision.step == REA_STEP_DONE)
			break;
		now_ns += MS(rea_random_below(&random, 300));
		for (int i = 0; i < 2; i++)
			rea_call_report(&sides[i].rig.call, &report, &sides[i].rig.list, &sides[i].rig.random, now_ns,
			    &sides[i].rig.decision);
		assert_same(&sides[0], &sides[1]);
		if (sides[0].rig.decision.step == REA_STEP_DONE)
			break;
		pause_and_resume(&sides[1], now_ns);
		cancelled = rea_random_below(&random, 20) == 0;
		for (int i = 0; i < 2 && cancelled; i++)
			rea_call_cancel(&sides[i].rig.call, now_ns, &sides[i].rig.decision);
		left = rea_budget_available(sides[0].budget, now_ns);
		assert_true(left == rea_budget_available(sides[1].budget, now_ns));
		if (cancelled)
			break;
		now_ns = sides[0].rig.decision.wait_until_ns;
	}
	return rea_call_attempts(&sides[0].rig.call);
}

static void a_pause_changes_nothing(void **state)
{
	uint32_t most = 0, calls_of[40] = {0};

	(void)state;
	for (uint64_t seed = 0; seed < CALLS; seed++) {
		struct side sides[2];
		uint32_t attempts;

		for (int i = 0; i < 2; i++)
			begin(&sides[i], seed, i == 1);
		attempts = run_both(sides, seed);
		calls_of[attempts]++;
		most = attempts > most ? attempts : most;
		for (int i = 0; i < 2; i++)
			rea_budget_free(sides[i].budget);
	}
	/* It went through several attempts often enough, and beyond what is remembered. */
	assert_true(calls_of[3] > CALLS / 100 && most > REA_ATTEMPTS_MAX);
}

static struct rea_call_past past_of(uint32_t attempts, enum rea_outcome outcome)
{
	return (struct rea_call_past){.attempts = attempts, .outcome = outcome};
}

static void resume(struct rig *rig, const struct rea_call_past *past)
{
	rig->options.deadline_ns = rig->base_ns + S(10);
	rea_call_resume(&rig->call, &rig->options, past, rig->base_ns);
}

/* What was under way when its process died is not known: who may repeat does, who may not does not. */
static void an_interrupted_attempt_is_ambiguous(void **state)
{
	struct rea_call_past past = past_of(1, REA_OUTCOME_OK);
	struct rig rig;

	(void)state;
	past.flying = true;
	rig_init(&rig, 2);
	resume(&rig, &past);
	rig_end(&rig, REA_OUTCOME_AMBIGUOUS, 0);
	assert_wait(&rig, 1, 100, 100);
	rig_attempt(&rig, 100);
	assert_attempt(&rig, 2, 0);

	rig.options.grant.permission = REA_PERMISSION_UNKNOWN;
	resume(&rig, &past);
	rig_end(&rig, REA_OUTCOME_AMBIGUOUS, 0);
	assert_give_up(&rig, 1, REA_REASON_NOT_DECLARED);
}

static void it_may_not_be_retried_before_its_wait_is_over(void **state)
{
	struct rea_call_past past = past_of(1, REA_OUTCOME_UNAVAILABLE);
	struct rig rig;

	(void)state;
	rig_init(&rig, 2);
	past.wait_until_ns = rig.base_ns + MS(70);
	resume(&rig, &past);
	rig_attempt(&rig, 69);
	assert_wait(&rig, 1, 1, 70);
	rig_attempt(&rig, 70);
	assert_attempt(&rig, 2, 0);
}

/* More attempts than the policy has by now: the next one is not made. */
static void a_smaller_policy_ends_it(void **state)
{
	struct rea_call_past past = past_of(5, REA_OUTCOME_UNAVAILABLE);
	struct rig rig;

	(void)state;
	rig_init(&rig, 2);
	resume(&rig, &past);
	rig_attempt(&rig, 0);
	assert_give_up(&rig, 5, REA_REASON_ATTEMPTS_EXHAUSTED);
	assert_int_equal(rig.decision.attempts_max, 5);
	rig.options.single_target = true;
	resume(&rig, &past);
	rig_attempt(&rig, 0);
	assert_give_up(&rig, 5, REA_REASON_ATTEMPTS_EXHAUSTED);
}

/* The deadline is that of the whole call: it is not counted anew. */
static void the_deadline_stays(void **state)
{
	struct rea_call_past past = past_of(1, REA_OUTCOME_UNAVAILABLE);
	struct rig rig;

	(void)state;
	rig_init(&rig, 2);
	rig.policy.deadline_ns = rig.policy.attempt_timeout_ns = S(1);
	rig.options.deadline_ns = rig.base_ns + S(30);
	rea_call_resume(&rig.call, &rig.options, &past, rig.base_ns + S(20));
	assert_true(rea_call_deadline(&rig.call) == rig.base_ns + S(30));
	rig.options.deadline_ns = rig.base_ns + MS(50);
	rea_call_resume(&rig.call, &rig.options, &past, rig.base_ns + MS(50));
	rig_attempt(&rig, 50);
	assert_give_up(&rig, 1, REA_REASON_DEADLINE);
}

/* Instances that were tried before are not tried again; without them nothing is known. */
static void what_was_tried_is_remembered(void **state)
{
	const struct rea_instance_id tried[] = {rig_id(1), rig_id(0)};
	struct rea_call_past past = past_of(2, REA_OUTCOME_UNAVAILABLE);
	struct rig rig;

	(void)state;
	rig_init(&rig, 3);
	rig.policy.max_retry_next_instance = 2;
	past.tried = tried;
	past.tried_len = 2;
	resume(&rig, &past);
	rig_attempt(&rig, 0);
	assert_attempt(&rig, 3, 2);
	past.tried_len = 0;
	resume(&rig, &past);
	rig_attempt(&rig, 0);
	assert_attempt(&rig, 3, 0);
}

/* ---- a single target ---- */

static void single(struct rig *rig, uint32_t attempts)
{
	rig_init(rig, 0);
	rig->list = (struct rea_instances){0};
	rig->options.single_target = true;
	rig->policy.when_all_tried = REA_ALL_TRIED_CYCLE;
	rig->policy.max_retry_next_instance = attempts - 1;
	rig->policy.deadline_ns = S(1000);
	rig_begin(rig);
}

static void one_target_takes_all_attempts(void **state)
{
	static const uint32_t counts[] = {1, 2, 10, 11, 100, 1200};
	struct rig rig;

	(void)state;
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		single(&rig, counts[i]);
		for (uint32_t n = 1; n <= counts[i]; n++) {
			rea_call_attempt(&rig.call, NULL, &rig.random, rig.base_ns + MS(100 * n), &rig.decision);
			assert_attempt(&rig, n, 0);
			assert_int_equal(rig.decision.attempts_max, counts[i]);
			rig_midpoint(&rig);
			rea_call_report(&rig.call, &(struct rea_report){.outcome = REA_OUTCOME_UNAVAILABLE}, NULL,
			    &rig.random, rig.base_ns + MS(100 * n), &rig.decision);
			if (n < counts[i])
				assert_wait(&rig, n, 100, 100 * n + 100);
		}
		assert_give_up(&rig, counts[i], REA_REASON_ATTEMPTS_EXHAUSTED);
	}
}

/* Where the policy counts instances, it counts attempts at the one target: (1 + 1) · (1 + 2). */
static void both_kinds_of_retries_are_moves(void **state)
{
	struct rig rig;

	(void)state;
	single(&rig, 3);
	rig.policy.when_all_tried = REA_ALL_TRIED_STOP;
	rig.policy.max_retry_same_instance = 1;
	rig_begin(&rig);
	for (uint32_t n = 1; n <= 6; n++) {
		rig_attempt(&rig, 100 * n);
		assert_attempt(&rig, n, 0);
		rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 100 * n);
	}
	assert_give_up(&rig, 6, REA_REASON_ATTEMPTS_EXHAUSTED);
}

static void the_other_rules_hold(void **state)
{
	struct rig rig;

	(void)state;
	single(&rig, 3);
	rig.options.grant.permission = REA_PERMISSION_NONE;
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 5);
	assert_give_up(&rig, 1, REA_REASON_NOT_DECLARED);

	single(&rig, 3);
	rig_attempt(&rig, 0);
	rig_end(&rig, REA_OUTCOME_FAILED, 5);
	assert_give_up(&rig, 1, REA_REASON_NOT_RETRYABLE);

	single(&rig, 3);
	rig.options.deadline_ns = rig.base_ns + MS(110);
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	assert_true(rig.decision.attempt_deadline_ns == rig.base_ns + MS(110));
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 1);
	assert_give_up(&rig, 1, REA_REASON_DEADLINE);
}

/* ---- many attempts at instances ---- */

/* Under cycle each round is the whole list, also beyond the attempts that are remembered. */
static void long_rounds_are_whole(void **state)
{
	struct rig rig;

	(void)state;
	for (size_t instances = 2; instances <= RIG_INSTANCES; instances++) {
		struct rea_instance_id tried[50];

		rig_init(&rig, instances);
		rig.list.balance = REA_BALANCE_LEAST_LOADED;
		rig.policy.when_all_tried = REA_ALL_TRIED_CYCLE;
		rig.policy.max_retry_next_instance = 49;
		rig_begin(&rig);
		for (uint32_t n = 0; n < 50; n++) {
			rig_attempt(&rig, 100 * n);
			assert_int_equal(rig.decision.attempt, n + 1);
			tried[n] = rig.items[rig.decision.instance].id;
			for (size_t back = 1; back < instances && back <= n; back++)
				assert_false(rea_instance_id_equal(&tried[n], &tried[n - back]));
			rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 100 * n);
		}
		assert_give_up(&rig, 50, REA_REASON_ATTEMPTS_EXHAUSTED);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_pause_changes_nothing),
	    cmocka_unit_test(an_interrupted_attempt_is_ambiguous),
	    cmocka_unit_test(it_may_not_be_retried_before_its_wait_is_over),
	    cmocka_unit_test(a_smaller_policy_ends_it),
	    cmocka_unit_test(the_deadline_stays),
	    cmocka_unit_test(what_was_tried_is_remembered),
	    cmocka_unit_test(one_target_takes_all_attempts),
	    cmocka_unit_test(both_kinds_of_retries_are_moves),
	    cmocka_unit_test(the_other_rules_hold),
	    cmocka_unit_test(long_rounds_are_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
