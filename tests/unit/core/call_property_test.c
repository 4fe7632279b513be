/* Random policies, outcomes, instances and times: what holds for every call, whatever happens. */
#include "rig.h"

enum { CALLS = 30000 };

struct world {
	struct rea_random random; /* of the test, not of the engine */
	struct rea_budget *budget;
	struct rea_retry_limit limit;
	uint64_t now_ns;
};

static uint64_t below(struct world *world, uint64_t bound)
{
	return rea_random_below(&world->random, bound);
}

static void random_policy(struct world *world, struct rea_policy *policy)
{
	rea_policy_defaults(policy);
	if (below(world, 3) == 0) {
		const struct rea_policy_layer *adaptive = rea_policy_profile("adaptive", 8);

		rea_policy_merge(&adaptive, 1, SIZE_MAX, policy);
	}
	policy->enabled = below(world, 20) > 0;
	policy->max_retry_same_instance = (uint32_t)below(world, 3);
	policy->max_retry_next_instance = (uint32_t)below(world, 10);
	policy->min_backoff_ns = policy->backoff_floor_ns + below(world, MS(200));
	policy->max_backoff_ns = policy->min_backoff_ns + below(world, S(1));
	policy->backoff_multiplier = 1 + (double)below(world, 3000) / 1000;
	policy->jitter = (double)(1 + below(world, 1000)) / 1000;
	policy->when_all_tried = below(world, 2) ? REA_ALL_TRIED_CYCLE : REA_ALL_TRIED_STOP;
	policy->never_sent = below(world, 2) ? REA_NEVER_SENT_ALLOW : REA_NEVER_SENT_STRICT;
	policy->retry_on = (uint32_t)below(world, 128) << 1 & 0x7e;
	policy->deadline_ns = MS(50) + below(world, S(20));
	policy->attempt_timeout_ns = policy->deadline_ns / 2 + 1;
	if (rea_policy_validate(policy, NULL) != 0)
		policy->max_retry_same_instance = policy->max_retry_next_instance = 1;
	assert_int_equal(rea_policy_validate(policy, NULL), 0);
}

static void random_list(struct world *world, struct rig *rig)
{
	rig->list.count = (size_t)below(world, RIG_INSTANCES + 1);
	rig->list.items = rig->items;
	for (size_t i = 0; i < RIG_INSTANCES; i++) {
		rig->items[i].id = rig_id((size_t)below(world, RIG_INSTANCES)); /* some twice */
		rig->items[i].weight = 1 + (uint32_t)below(world, 3);
		rig->items[i].grant.permission = below(world, 12) == 0 ? REA_PERMISSION_FORBID : REA_PERMISSION_NONE;
	}
	rig->list.balance = below(world, 2) ? REA_BALANCE_LISTED : REA_BALANCE_LEAST_LOADED;
}

static void random_call(struct world *world, struct rig *rig)
{
	rig_init(rig, 0);
	random_policy(world, &rig->policy);
	random_list(world, rig);
	rig->base_ns = world->now_ns;
	rea_random_init(&rig->random, below(world, UINT64_MAX));
	rig->options.grant.permission = (enum rea_permission)below(world, REA_PERMISSION_COUNT);
	if (below(world, 2))
		rig->options.grant.permission = REA_PERMISSION_SAFE;
	rig->options.has_key = below(world, 2);
	rig->options.budget = world->budget;
	rig->options.limit = &world->limit;
	rig->options.deadline_open = below(world, 8) == 0;
}

static struct rea_report random_report(struct world *world)
{
	struct rea_report report = {.outcome = (enum rea_outcome)below(world, REA_OUTCOME_COUNT)};

	if (below(world, 2))
		report.outcome = REA_OUTCOME_UNAVAILABLE;
	if (below(world, 10) == 0) {
		report.flags = REA_REPORT_AFTER;
		report.after_ns = below(world, S(2));
	}
	return report;
}

/* Of the attempts of a call, the last one: never twice in a row under cycle, else never again but for same-instance retries. */
static void assert_not_repeated(const struct rig *rig, const struct rea_instance_id *tried, uint32_t count)
{
	bool cycle = rig->policy.when_all_tried == REA_ALL_TRIED_CYCLE;
	uint32_t in_a_row = 1, before;

	while (in_a_row < count && rea_instance_id_equal(&tried[count - 1 - in_a_row], &tried[count - 1]))
		in_a_row++;
	assert_true(in_a_row <= 1 + (cycle ? 0 : rig->policy.max_retry_same_instance));
	for (before = 0; !cycle && before + in_a_row < count; before++)
		assert_false(rea_instance_id_equal(&tried[before], &tried[count - 1]));
}

static void assert_wait_in_bounds(const struct rig *rig, const struct rea_report *report, uint64_t now_ns)
{
	double cap = (double)rig->policy.max_backoff_ns, highest = cap * (1 + rig->policy.jitter) + 1;
	uint64_t wait_ns = rig->decision.wait_ns;

	if (rig->policy.jitter_kind == REA_JITTER_FULL)
		highest = cap > 11e6 ? cap : 11e6;
	if (report->flags & REA_REPORT_AFTER) {
		assert_true(wait_ns >= report->after_ns);
		highest = highest > (double)report->after_ns * 1.2 ? highest : (double)report->after_ns * 1.2;
	}
	/* A full jitter is cut where it would not fit: then it goes down to 1 ms, and ends where 1.1 useful attempts are left. */
	if (rig->policy.jitter_kind == REA_JITTER_FULL &&
	    rig->decision.wait_until_ns + MS(11) <= rea_call_deadline(&rig->call))
		assert_true(wait_ns >= MS(1));
	else
		assert_true(wait_ns >= rig->policy.backoff_floor_ns);
	assert_true((double)wait_ns <= highest);
	assert_true(rig->decision.wait_until_ns == now_ns + wait_ns);
	if (rea_call_deadline(&rig->call) != REA_NEVER)
		assert_true(rig->decision.wait_until_ns + MS(10) <= rea_call_deadline(&rig->call));
}

static bool may_repeat(const struct rig *rig, const struct rea_report *report)
{
	enum rea_permission permission = rig->decision.grant.permission;
	bool unsent = report->outcome == REA_OUTCOME_NEVER_SENT || report->outcome == REA_OUTCOME_PUSHBACK;

	if (!rig->policy.enabled || !(rig->policy.retry_on >> report->outcome & 1))
		return false;
	if (rig->policy.never_sent == REA_NEVER_SENT_ALLOW && unsent && permission != REA_PERMISSION_FORBID)
		return true;
	return permission == REA_PERMISSION_SAFE || permission == REA_PERMISSION_IDEMPOTENT ||
	       (permission == REA_PERMISSION_IDEMPOTENT_WITH_KEY && rig->options.has_key);
}

static void run_call(struct world *world, struct rig *rig)
{
	uint32_t attempts_max = rea_policy_attempts(&rig->policy), attempts = 0;
	struct rea_instance_id tried[REA_ATTEMPTS_MAX];

	rea_call_begin(&rig->call, &rig->options, world->now_ns);
	for (;;) {
		uint64_t available = rea_budget_available(world->budget, world->now_ns);
		struct rea_report report;

		rea_call_attempt(&rig->call, &rig->list, &rig->random, world->now_ns, &rig->decision);
		if (rig->decision.step == REA_STEP_DONE)
			return;
		assert_int_equal(rig->decision.step, REA_STEP_ATTEMPT);
		assert_true(rig->decision.instance < rig->list.count && attempts < attempts_max);
		assert_true(world->now_ns < rea_call_deadline(&rig->call));
		tried[attempts] = rig->items[rig->decision.instance].id;
		assert_int_equal(rig->decision.attempt, ++attempts);
		assert_not_repeated(rig, tried, attempts);
		assert_int_equal(rea_retry_limit_in_use(&world->limit), attempts > 1);
		if (attempts > 1)
			assert_true(rea_budget_available(world->budget, world->now_ns) == available); /* paid when decided */

		world->now_ns += below(world, MS(300));
		if (below(world, 30) == 0) {
			rea_call_cancel(&rig->call, world->now_ns, &rig->decision);
			return;
		}
		if (below(world, 5) == 0)
			random_list(world, rig);
		if (rig->options.deadline_open && below(world, 3) == 0)
			rea_call_start_deadline(&rig->call, world->now_ns);
		report = random_report(world);
		available = rea_budget_available(world->budget, world->now_ns);
		rea_call_report(&rig->call, &report, &rig->list, &rig->random, world->now_ns, &rig->decision);
		assert_int_equal(rea_retry_limit_in_use(&world->limit), 0);
		if (rig->decision.step == REA_STEP_DONE) {
			assert_true(rea_budget_available(world->budget, world->now_ns) == available);
			assert_int_equal(rig->decision.verdict == REA_VERDICT_SUCCESS, report.outcome == REA_OUTCOME_OK);
			assert_int_equal(rig->decision.reason == REA_REASON_NONE, report.outcome == REA_OUTCOME_OK);
			return;
		}
		assert_true(may_repeat(rig, &report));
		assert_true(available > 0 && rea_budget_available(world->budget, world->now_ns) == available - 1);
		assert_wait_in_bounds(rig, &report, world->now_ns);
		if (below(world, 20) == 0) {
			rea_call_cancel(&rig->call, world->now_ns, &rig->decision);
			assert_true(rea_budget_available(world->budget, world->now_ns) == available);
			return;
		}
		world->now_ns = rig->decision.wait_until_ns + below(world, MS(3));
		if (below(world, 5) == 0)
			random_list(world, rig);
	}
}

static void every_call(void **state)
{
	struct rea_budget_policy policy = {.ratio_permille = 300, .reserve_per_s = 2, .window_ms = 10000};
	struct world world = {.now_ns = S(1000)};
	uint32_t reached_attempts = 0;
	struct rig rig;

	(void)state;
	rea_random_init(&world.random, 20240229);
	assert_int_equal(rea_budget_new(&policy, 1, NULL, &world.budget, NULL), 0);
	rea_retry_limit_init(&world.limit, 1);
	for (int i = 0; i < CALLS; i++) {
		random_call(&world, &rig);
		run_call(&world, &rig);
		assert_true(rea_call_done(&rig.call));
		assert_int_equal(rea_retry_limit_in_use(&world.limit), 0);
		if (rea_call_attempts(&rig.call) > reached_attempts)
			reached_attempts = rea_call_attempts(&rig.call);
	}
	/* The test went as deep as it can. */
	assert_int_equal(reached_attempts, REA_ATTEMPTS_MAX);
	rea_budget_free(world.budget);
}

/* Under cycle with a list that stays: each round is the whole list. */
static void rounds_are_whole(void **state)
{
	struct rig rig;

	(void)state;
	for (uint64_t seed = 0; seed < 2000; seed++) {
		size_t instances = 2 + seed % 5;
		struct rea_instance_id tried[REA_ATTEMPTS_MAX];

		rig_init(&rig, instances);
		rea_random_init(&rig.random, seed);
		rig.list.balance = REA_BALANCE_LEAST_LOADED;
		rig.policy.when_all_tried = REA_ALL_TRIED_CYCLE;
		rig.policy.max_retry_next_instance = 9;
		rig_begin(&rig);
		for (uint32_t attempt = 0; attempt < 10; attempt++) {
			struct rea_report report = {.outcome = REA_OUTCOME_UNAVAILABLE};

			rig_attempt(&rig, 200 * attempt);
			tried[attempt] = rig.items[rig.decision.instance].id;
			for (size_t back = 1; back < instances && back <= attempt; back++)
				assert_false(rea_instance_id_equal(&tried[attempt], &tried[attempt - back]));
			rea_call_report(
			    &rig.call, &report, &rig.list, &rig.random, rig.base_ns + MS(200 * attempt), &rig.decision);
		}
		assert_give_up(&rig, 10, REA_REASON_ATTEMPTS_EXHAUSTED);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_call),
	    cmocka_unit_test(rounds_are_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
