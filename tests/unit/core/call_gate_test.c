/* A breaker of another kind in front of a call, and a refusal by the caller's own stages. */
#include "rig.h"

struct gate {
	struct rea_gate gate;
	bool open;
	uint64_t taken;
	uint32_t acquired, refused, asked;
	enum rea_breaker_result results[4];
	uint64_t latencies_ns[4];
	uint32_t reported;
};

static bool acquire(void *user_data, uint64_t now_ns, struct rea_breaker_permit *ret_permit)
{
	struct gate *gate = user_data;

	(void)now_ns;
	*ret_permit = (struct rea_breaker_permit){++gate->taken, !gate->open};
	gate->acquired += !gate->open;
	gate->refused += gate->open;
	return !gate->open;
}

static bool permits(void *user_data, uint64_t now_ns)
{
	struct gate *gate = user_data;

	(void)now_ns;
	gate->asked++;
	return !gate->open;
}

static void report(void *user_data, struct rea_breaker_permit *permit, enum rea_breaker_result result,
    uint64_t latency_ns, uint64_t now_ns)
{
	struct gate *gate = user_data;

	(void)now_ns;
	assert_true(permit->given && permit->generation == gate->taken);
	gate->results[gate->reported] = result;
	gate->latencies_ns[gate->reported++] = latency_ns;
}

static void start(struct rig *rig, struct gate *gate)
{
	*gate = (struct gate){.gate = {acquire, permits, report, gate}};
	rig_init(rig, 3);
	rig->policy.max_retry_next_instance = 2;
	rig->options.gate = &gate->gate;
	rig_begin(rig);
}

static void each_attempt_passes_the_gate(void **state)
{
	struct rea_report failed = {.outcome = REA_OUTCOME_UNAVAILABLE, .latency_ns = MS(7)};
	struct gate gate;
	struct rig rig;

	(void)state;
	start(&rig, &gate);
	rig_attempt(&rig, 0);
	rig_report(&rig, &failed, 0);
	assert_wait(&rig, 1, 100, 100);
	assert_int_equal(gate.asked, 1);
	rig_attempt(&rig, 100);
	rig_end(&rig, REA_OUTCOME_OK, 101);
	assert_done(&rig, 2, REA_VERDICT_SUCCESS, REA_REASON_NONE);
	assert_int_equal(gate.acquired, 2);
	assert_int_equal(gate.reported, 2);
	assert_int_equal(gate.results[0], REA_BREAKER_FAILURE);
	assert_int_equal(gate.latencies_ns[0], MS(7));
	assert_int_equal(gate.results[1], REA_BREAKER_SUCCESS);
}

static void a_closed_gate_ends_the_call(void **state)
{
	struct gate gate;
	struct rig rig;

	(void)state;
	/* Rule 11, before a wait. */
	start(&rig, &gate);
	rig_attempt(&rig, 0);
	gate.open = true;
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 0);
	assert_give_up(&rig, 1, REA_REASON_BREAKER_OPEN);
	/* And at an attempt: nothing was given, nothing is reported. */
	start(&rig, &gate);
	gate.open = true;
	rig_attempt(&rig, 0);
	assert_give_up(&rig, 0, REA_REASON_BREAKER_OPEN);
	assert_int_equal(gate.refused, 1);
	assert_int_equal(gate.reported, 0);
}

static void what_ends_without_a_result_is_ignored(void **state)
{
	struct rea_retry_limit limit;
	struct gate gate;
	struct rig rig;

	(void)state;
	start(&rig, &gate);
	rig_attempt(&rig, 0);
	rea_call_cancel(&rig.call, rig.base_ns, &rig.decision);
	assert_int_equal(gate.reported, 1);
	assert_int_equal(gate.results[0], REA_BREAKER_IGNORED);
	/* Refused by the limit on retries, which comes after the gate. */
	start(&rig, &gate);
	rea_retry_limit_init(&limit, 1);
	rig.options.limit = &limit;
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 0);
	assert_true(rea_retry_limit_acquire(&limit));
	rig_attempt(&rig, 100);
	assert_give_up(&rig, 1, REA_REASON_OVERLOADED);
	assert_int_equal(gate.reported, 2);
	assert_int_equal(gate.results[1], REA_BREAKER_IGNORED);
}

/* The caller's own stages refuse, before the first attempt and after a wait: what the call holds goes back. */
static void a_refusal_by_the_caller_gives_everything_back(void **state)
{
	struct rea_budget_policy policy = {.rule = REA_BUDGET_RATIO, .reserve_per_s = 1, .window_ms = 1000};
	struct gate gate;
	struct rig rig;

	(void)state;
	start(&rig, &gate);
	assert_int_equal(rea_budget_new(&policy, 1, NULL, &rig.options.budget, NULL), 0);
	rig_begin(&rig);
	rea_call_refuse(&rig.call, REA_REASON_OVERLOADED, rig.base_ns, &rig.decision);
	assert_give_up(&rig, 0, REA_REASON_OVERLOADED);
	assert_true(rig.decision.stop);
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 0);
	assert_int_equal(rea_budget_available(rig.options.budget, rig.base_ns), 0);
	rea_call_refuse(&rig.call, REA_REASON_OVERLOADED, rig.base_ns + MS(100), &rig.decision);
	assert_give_up(&rig, 1, REA_REASON_OVERLOADED);
	assert_int_equal(rea_budget_available(rig.options.budget, rig.base_ns + MS(100)), 1);
	assert_int_equal(gate.acquired, gate.reported);
	rea_budget_free(rig.options.budget);
}

/* Options that were filled in where the call keeps them are the same as options that were copied. */
static void options_may_be_filled_in_their_place(void **state)
{
	struct gate gate;
	struct rig rig;

	(void)state;
	start(&rig, &gate);
	rig.call.options = rig.options;
	rea_call_begin(&rig.call, &rig.call.options, rig.base_ns);
	rig_attempt(&rig, 0);
	assert_attempt(&rig, 1, 0);
	rig_end(&rig, REA_OUTCOME_OK, 1);
	assert_done(&rig, 1, REA_VERDICT_SUCCESS, REA_REASON_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_attempt_passes_the_gate),
	    cmocka_unit_test(a_closed_gate_ends_the_call),
	    cmocka_unit_test(what_ends_without_a_result_is_ignored),
	    cmocka_unit_test(a_refusal_by_the_caller_gives_everything_back),
	    cmocka_unit_test(options_may_be_filled_in_their_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
