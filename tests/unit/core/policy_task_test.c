/* What a task's policy may be, and what it is when nobody says anything. */
#include <rea/policy.h>
#include <rea/time.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MS(n) ((uint64_t)(n)*REA_NS_PER_MS)

static void the_defaults(void **state)
{
	struct rea_policy task, call;

	(void)state;
	rea_policy_defaults(&call);
	rea_policy_task_defaults(&task);
	assert_true(task.enabled && !call.enabled);
	assert_int_equal(rea_policy_attempts(&task), 3);
	assert_true(task.min_backoff_ns == MS(200) && task.max_backoff_ns == MS(10000) && task.backoff_multiplier == 1.5);
	assert_true(task.deadline_ns == MS(86400000));
	assert_int_equal(task.retry_on, call.retry_on & ~REA_OUTCOME_BIT(REA_OUTCOME_PUSHBACK));
	assert_int_equal(task.when_all_tried, REA_ALL_TRIED_CYCLE);
	/* The rest is a call's. */
	assert_true(task.jitter == call.jitter && task.attempt_timeout_ns == call.attempt_timeout_ns);
	assert_int_equal(task.never_sent, call.never_sent);
	assert_true(!task.breaker.enabled && task.breaker.minimum_calls == call.breaker.minimum_calls);
	assert_int_equal(task.budget.ratio_permille, call.budget.ratio_permille);
	assert_int_equal(rea_policy_validate_task(&task, REA_ATTEMPTS_MAX, NULL), 0);
	/* A call would wait too long. */
	assert_int_equal(rea_policy_validate(&task, NULL), REA_ERR_INVALID);
}

static int validate(uint32_t retries, uint64_t base_ms, enum rea_when_all_tried when_all_tried, uint32_t attempts_max,
    struct rea_error_info *info)
{
	struct rea_policy policy;

	rea_policy_task_defaults(&policy);
	policy.max_retry_next_instance = retries;
	policy.min_backoff_ns = MS(base_ms);
	policy.when_all_tried = when_all_tried;
	return rea_policy_validate_task(&policy, attempts_max, info);
}

static void many_attempts_need_long_waits(void **state)
{
	const enum rea_when_all_tried cycle = REA_ALL_TRIED_CYCLE, stop = REA_ALL_TRIED_STOP;
	struct rea_error_info info;

	(void)state;
	assert_int_equal(validate(9, 20, cycle, 10, &info), 0);
	assert_int_equal(validate(9, 19, cycle, 100, &info), REA_ERR_INVALID);
	assert_string_equal(info.key, "min-backoff-ms");
	assert_int_equal(validate(10, 1000, cycle, 10, &info), REA_ERR_INVALID);
	assert_string_equal(info.key, "max-retry-next-instance");
	assert_int_equal(validate(10, 1000, cycle, 11, &info), 0);
	assert_int_equal(validate(10, 999, cycle, 11, &info), REA_ERR_INVALID);
	assert_string_equal(
	    info.message, "min-backoff-ms is 999; it must be at least 1000 (with more than 10 attempts)");
	assert_int_equal(validate(99, 1000, cycle, REA_TASK_ATTEMPTS_MAX, &info), 0);
	assert_int_equal(validate(100, 1000, cycle, REA_TASK_ATTEMPTS_MAX, &info), REA_ERR_INVALID);
	/* Each at an instance that was not tried: ten are remembered. */
	assert_int_equal(validate(9, 1000, stop, 100, &info), 0);
	assert_int_equal(validate(10, 1000, stop, 100, &info), REA_ERR_INVALID);
	assert_string_equal(info.key, "max-retry-next-instance");
	/* A bound below ten holds as well. */
	assert_int_equal(validate(2, 200, stop, 2, &info), REA_ERR_INVALID);
}

static void a_task_may_take_days(void **state)
{
	struct rea_policy policy;
	struct rea_error_info info;

	(void)state;
	rea_policy_task_defaults(&policy);
	policy.deadline_ns = REA_TASK_DEADLINE_NS_MAX;
	assert_int_equal(rea_policy_validate_task(&policy, 10, &info), 0);
	policy.deadline_ns += MS(1);
	assert_int_equal(rea_policy_validate_task(&policy, 10, &info), REA_ERR_INVALID);
	assert_string_equal(info.key, "deadline-ms");
	policy.deadline_ns = MS(1000);
	policy.retry_on = REA_OUTCOME_BIT(REA_OUTCOME_OK);
	assert_int_equal(rea_policy_validate_task(&policy, 10, &info), REA_ERR_INVALID);
	assert_string_equal(info.key, "retry-on");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_defaults),
	    cmocka_unit_test(many_attempts_need_long_waits),
	    cmocka_unit_test(a_task_may_take_days),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
