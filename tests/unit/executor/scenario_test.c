/* The library scenarios that an executor answers for: L05, L06, L07, Q06. Times are exact. */
#include "rig.h"

/* ---- L05: backoff beyond the deadline ---- */

static void rig_l05(struct rig *rig, uint64_t deadline_ms)
{
	rig_init(rig);
	rig->policy.retry_on |= REA_OUTCOME_BIT(REA_OUTCOME_THROTTLED);
	rig->policy.min_backoff_ns = rig->policy.max_backoff_ns = MS(1000);
	rig->policy.deadline_ns = MS(deadline_ms);
	rig->policy.attempt_timeout_ns = rea_time_min(MS(1000), rig->policy.deadline_ns);
	rig_open(rig);
}

static void l05_a_wait_beyond_the_deadline_is_not_begun(void **state)
{
	struct item *item;
	struct rig rig;

	(void)state;
	rig_l05(&rig, 50);
	item = rig_submit(&rig, "a", "-");
	rig_run(&rig, 0);
	assert_true(item->attempt_deadline_ns == rig.base_ns + MS(50));
	rig.now_ns = rig.base_ns + MS(5);
	assert_int_equal(rig_report_item(item, 't'), 0);
	rig_run_until(&rig, 5);
	rig_expect(&rig, "0 attempt a 1/3\n"
			 "5 GiveUp a 1 throttled 429 deadline\n"
			 "5 done a GIVEN_UP 1 throttled 429 deadline\n");
	assert_idle(&rig);
	rig_close(&rig);
}

static void l05_a_wait_within_it_is(void **state)
{
	struct item *item;
	struct rig rig;

	(void)state;
	rig_l05(&rig, 1050);
	item = rig_submit(&rig, "a", "-");
	rig_run(&rig, 0);
	rig.now_ns = rig.base_ns + MS(5);
	rig_report_item(item, 't');
	rig_run_until(&rig, 1005);
	assert_true(item->attempt_deadline_ns == rig.base_ns + MS(1050));
	rig.now_ns = rig.base_ns + MS(1010);
	rig_report_item(item, 't');
	rig_run_until(&rig, 5000);
	rig_expect(&rig, "0 attempt a 1/3\n"
			 "5 Retry a 1 throttled 429 wait=1000\n"
			 "1005 attempt a 2/3\n"
			 "1010 GiveUp a 2 throttled 429 deadline\n"
			 "1010 done a GIVEN_UP 2 throttled 429 deadline\n");
	assert_idle(&rig);
	rig_close(&rig);
}

static void l05_past_at_submit_is_no_attempt(void **state)
{
	struct item *item;
	struct rig rig;

	(void)state;
	rig_l05(&rig, 50);
	item = rig_item(&rig, "a", "o");
	item->task.deadline_ns = rig.base_ns;
	rig_submit_item(item);
	rig_run_until(&rig, 0);
	rig_expect(&rig, "0 GiveUp a 1 never_sent deadline\n"
			 "0 done a GIVEN_UP 0 - deadline\n");
	assert_idle(&rig);
	rig_close(&rig);
}

/* The policy's total runs from the first attempt on: however small, a fresh task runs once, also one that had to wait. */
static void l05_a_total_of_1_ms_runs_once(void **state)
{
	struct item *item;
	struct rig rig;

	(void)state;
	rig_l05(&rig, 1);
	item = rig_item(&rig, "a", "o");
	item->task.not_before_ns = rig.base_ns + MS(70);
	rig_submit_item(item);
	rig_run_until(&rig, 100);
	assert_true(item->attempt_deadline_ns == rig.base_ns + MS(71));
	rig_expect(&rig, "70 attempt a 1/3\n"
			 "70 done a SUCCESS 1 ok\n");
	rig_close(&rig);
}

/* ---- L06: sleeps lie between attempts, nowhere else ---- */

static void l06_always_failing(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_submit(&rig, "a", "u");
	rig_run_until(&rig, 10000);
	rig_expect(&rig, "0 attempt a 1/3\n"
			 "0 Retry a 1 unavailable 503 wait=100\n"
			 "100 attempt a 2/3\n"
			 "100 Retry a 2 unavailable 503 wait=100\n"
			 "200 attempt a 3/3\n"
			 "200 GiveUp a 3 unavailable 503 attempts_exhausted\n"
			 "200 done a GIVEN_UP 3 unavailable 503 attempts_exhausted\n");
	assert_idle(&rig);
	rig_close(&rig);
}

static void l06_no_retries(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.policy.max_retry_next_instance = 0;
	rig_open(&rig);
	rig_submit(&rig, "a", "u");
	rig_run_until(&rig, 10000);
	rig_expect(&rig, "0 attempt a 1/1\n"
			 "0 GiveUp a 1 unavailable 503 attempts_exhausted\n"
			 "0 done a GIVEN_UP 1 unavailable 503 attempts_exhausted\n");
	assert_idle(&rig);
	rig_close(&rig);
}

static void l06_success_at_the_third(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_submit(&rig, "a", "uao");
	rig_run_until(&rig, 10000);
	rig_expect(&rig, "0 attempt a 1/3\n"
			 "0 Retry a 1 unavailable 503 wait=100\n"
			 "100 attempt a 2/3\n"
			 "100 Retry a 2 ambiguous wait=100\n"
			 "200 attempt a 3/3\n"
			 "200 Success a 3 ok\n"
			 "200 done a SUCCESS 3 ok\n");
	assert_idle(&rig);
	rig_close(&rig);
}

/* Each attempt succeeds with a result; only the third is good enough. */
static void judge(const struct rea_attempt *attempt, struct rea_report *report, void *user_data)
{
	(void)user_data;
	assert_int_equal(report->outcome, REA_OUTCOME_OK);
	if (attempt->number < 3)
		report->outcome = REA_OUTCOME_UNAVAILABLE;
}

static void judge_strictly(const struct rea_attempt *attempt, struct rea_report *report, void *user_data)
{
	(void)attempt;
	(void)user_data;
	report->outcome = REA_OUTCOME_UNAVAILABLE;
}

static void l06_a_result_that_is_not_good_enough(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.handler.judge = judge;
	rig_open(&rig);
	rig_submit(&rig, "a", "o");
	rig_run_until(&rig, 10000);
	rig_expect(&rig, "0 attempt a 1/3\n"
			 "0 Retry a 1 unavailable wait=100\n"
			 "100 attempt a 2/3\n"
			 "100 Retry a 2 unavailable wait=100\n"
			 "200 attempt a 3/3\n"
			 "200 Success a 3 ok\n"
			 "200 done a SUCCESS 3 ok\n");
	assert_idle(&rig);
	rig_close(&rig);

	rig_init(&rig);
	rig.handler.judge = judge_strictly;
	rig_open(&rig);
	rig_submit(&rig, "a", "o");
	rig_run_until(&rig, 10000);
	rig_expect(&rig, "0 attempt a 1/3\n"
			 "0 Retry a 1 unavailable wait=100\n"
			 "100 attempt a 2/3\n"
			 "100 Retry a 2 unavailable wait=100\n"
			 "200 attempt a 3/3\n"
			 "200 GiveUp a 3 unavailable attempts_exhausted\n"
			 "200 done a GIVEN_UP 3 unavailable attempts_exhausted\n");
	assert_idle(&rig);
	rig_close(&rig);
}

/* ---- L07: a backoff holds no slot and can be cancelled ---- */

static void l07_backoff_holds_no_slot(void **state)
{
	struct item *a, *b;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.options.concurrency = 2;
	rig.policy.min_backoff_ns = rig.policy.max_backoff_ns = S(10);
	rig_open(&rig);
	a = rig_submit(&rig, "A", "uo");
	b = rig_submit(&rig, "B", "uo");
	rig_run_until(&rig, 0);
	rig_expect(&rig, "0 attempt A 1/3\n"
			 "0 attempt B 1/3\n"
			 "0 Retry A 1 unavailable 503 wait=10000\n"
			 "0 Retry B 1 unavailable 503 wait=10000\n");
	assert_int_equal(rig_stats(&rig).running, 0);
	rig.now_ns = rig.base_ns + MS(1);
	rig_submit(&rig, "C", "o");
	rig_run_until(&rig, 1);
	rig_expect(&rig, "1 attempt C 1/3\n"
			 "1 done C SUCCESS 1 ok\n");
	rig.now_ns = rig.base_ns + MS(2);
	assert_int_equal(rig_cancel(a), 0);
	rig_run_until(&rig, 2);
	rig_expect(&rig, "2 GiveUp A 2 cancelled cancelled\n"
			 "2 done A CANCELLED 1 unavailable 503 cancelled\n");
	assert_int_equal(rig_stats(&rig).running, 0);
	rig_run_until(&rig, 9999);
	rig_expect(&rig, "");
	rig_run_until(&rig, 20000);
	rig_expect(&rig, "10000 attempt B 2/3\n"
			 "10000 Success B 2 ok\n"
			 "10000 done B SUCCESS 2 ok\n");
	assert_int_equal(b->ended, 1);
	assert_idle(&rig);
	rig_close(&rig);
}

/* ---- Q06: backoff arithmetic and exact attempt counts, below the policy's bounds ---- */

struct gaps {
	uint32_t count;
	uint64_t last_ns, smallest_ns, largest_ns;
};

static struct gaps gaps;

static void measure_gap(struct item *item, const struct rea_attempt *attempt)
{
	uint64_t gap_ns = item->rig->now_ns - gaps.last_ns;

	assert_int_equal(attempt->number, ++gaps.count);
	gaps.last_ns = item->rig->now_ns;
	if (attempt->number == 1)
		return;
	gaps.smallest_ns = attempt->number == 2 ? gap_ns : rea_time_min(gaps.smallest_ns, gap_ns);
	gaps.largest_ns = rea_time_max(gaps.largest_ns, gap_ns);
	item->rig->log_len = 0;
}

static struct item *submit_unbounded(struct rig *rig, const char *script)
{
	struct item *item = rig_item(rig, "a", script);

	gaps = (struct gaps){0};
	rig->on_attempt = measure_gap;
	rig_open(rig);
	assert_int_equal(rea_executor_submit(rig->executor, &item->task, rig->now_ns, &item->id, NULL), REA_ERR_INVALID);
	assert_int_equal(rea__executor_submit_unbounded(rig->executor, &item->task, rig->now_ns, &item->id, NULL), 0);
	return item;
}

static void q06_twelve_hundred_attempts(void **state)
{
	struct item *item;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.policy.max_retry_next_instance = 1199;
	rig.policy.min_backoff_ns = rig.policy.max_backoff_ns = MS(50);
	rig.policy.backoff_multiplier = 10;
	rig.policy.jitter = 0.2;
	rig.policy.retry_on |= REA_OUTCOME_BIT(REA_OUTCOME_FAILED);
	item = submit_unbounded(&rig, "f");
	rig_run_until(&rig, 1200 * 60);
	assert_int_equal(gaps.count, 1200);
	assert_in_range(gaps.smallest_ns, MS(40), MS(41));
	assert_in_range(gaps.largest_ns, MS(59), MS(60));
	assert_int_equal(item->state, REA_TASK_GIVEN_UP);
	assert_int_equal(item->reason, REA_REASON_ATTEMPTS_EXHAUSTED);
	assert_idle(&rig);
	rig_close(&rig);
}

/* Delays grow until they are longer than time itself. */
static void q06_no_cap(void **state)
{
	uint64_t next_ns = 0, last_ns = 0;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.policy.max_retry_next_instance = 1999;
	rig.policy.min_backoff_ns = MS(50);
	rig.policy.max_backoff_ns = UINT64_MAX;
	rig.policy.backoff_multiplier = 10;
	rig.policy.deadline_ns = REA_NEVER;
	submit_unbounded(&rig, "u");
	while (next_ns != REA_NEVER) {
		rig.now_ns = rea_time_max(rig.now_ns, next_ns);
		rea_executor_run(rig.executor, rig.now_ns);
		next_ns = rea_executor_next(rig.executor);
		assert_true(next_ns > last_ns);
		last_ns = next_ns;
	}
	/* The 13th wait, 50 ms · 10^12, is beyond 2^64 ns. */
	assert_int_equal(gaps.count, 13);
	rig_close(&rig);
}

static void classify(const struct rea_attempt *attempt, struct rea_report *report, void *user_data)
{
	(void)user_data;
	report->outcome = rea_outcome_from_http(report->code, attempt->policy->classify, attempt->policy->classify_len);
}

static void q06_a_code_means_something_else_here(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.handler.judge = classify;
	rig_open(&rig);
	rig_submit(&rig, "a", "p");
	rig_run_until(&rig, 10000);
	rig_expect(&rig, "0 attempt a 1/3\n"
			 "0 GiveUp a 1 permanent 403 permanent\n"
			 "0 done a GIVEN_UP 1 permanent 403 permanent\n");
	rig.policy.classify[0] = (struct rea_classify_rule){REA_CODE_HTTP, 403, REA_OUTCOME_UNAVAILABLE};
	rig.policy.classify_len = 1;
	rig.base_ns = rig.now_ns;
	rig_submit(&rig, "b", "p");
	rig_run_until(&rig, 10000);
	rig_expect(&rig, "0 attempt b 1/3\n"
			 "0 Retry b 1 unavailable 403 wait=100\n"
			 "100 attempt b 2/3\n"
			 "100 Retry b 2 unavailable 403 wait=100\n"
			 "200 attempt b 3/3\n"
			 "200 GiveUp b 3 unavailable 403 attempts_exhausted\n"
			 "200 done b GIVEN_UP 3 unavailable 403 attempts_exhausted\n");
	rig_close(&rig);
}

static void q06_no_base_is_no_busy_loop(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.policy.max_retry_next_instance = 99;
	rig.policy.min_backoff_ns = rig.policy.max_backoff_ns = rig.policy.backoff_floor_ns = 0;
	submit_unbounded(&rig, "u");
	rig_run_until(&rig, 98);
	assert_int_equal(gaps.count, 99);
	rig_run_until(&rig, 99);
	assert_int_equal(gaps.count, 100);
	assert_true(gaps.smallest_ns == MS(1) && gaps.largest_ns == MS(1));
	assert_idle(&rig);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(l05_a_wait_beyond_the_deadline_is_not_begun),
	    cmocka_unit_test(l05_a_wait_within_it_is),
	    cmocka_unit_test(l05_past_at_submit_is_no_attempt),
	    cmocka_unit_test(l05_a_total_of_1_ms_runs_once),
	    cmocka_unit_test(l06_always_failing),
	    cmocka_unit_test(l06_no_retries),
	    cmocka_unit_test(l06_success_at_the_third),
	    cmocka_unit_test(l06_a_result_that_is_not_good_enough),
	    cmocka_unit_test(l07_backoff_holds_no_slot),
	    cmocka_unit_test(q06_twelve_hundred_attempts),
	    cmocka_unit_test(q06_no_cap),
	    cmocka_unit_test(q06_a_code_means_something_else_here),
	    cmocka_unit_test(q06_no_base_is_no_busy_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
