/* Scenarios L09 and L10, exact numbers of every rule, and the breaker against a plain model. */
#include <rea/breaker.h>
#include <rea/error.h>
#include <rea/random.h>
#include <rea/time.h>

#include "../fail_alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MS(n) ((uint64_t)(n)*REA_NS_PER_MS)
#define S(n) ((uint64_t)(n)*REA_NS_PER_S)

static struct rea_breaker_policy small_policy(uint32_t permitted)
{
	/* Scenarios L09, L10: 4 calls, 50 %, open 1000 ms. */
	return (struct rea_breaker_policy){
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
}

static struct rea_breaker *new_breaker(struct rea_breaker_policy policy)
{
	struct rea_breaker *breaker = NULL;

	assert_int_equal(rea_breaker_new(&policy, NULL, &breaker, NULL), 0);
	return breaker;
}

static void call(struct rea_breaker *breaker, enum rea_breaker_result result, uint64_t latency_ns, uint64_t now_ns)
{
	struct rea_breaker_permit permit;

	assert_true(rea_breaker_acquire(breaker, now_ns, &permit));
	rea_breaker_report(breaker, &permit, result, latency_ns, now_ns);
	assert_false(permit.given);
}

static void calls(struct rea_breaker *breaker, unsigned n, enum rea_breaker_result result, uint64_t now_ns)
{
	while (n-- > 0)
		call(breaker, result, 0, now_ns);
}

static void assert_state(const struct rea_breaker *breaker, enum rea_breaker_state state)
{
	assert_string_equal(rea_breaker_state_name(rea_breaker_state(breaker)), rea_breaker_state_name(state));
}

/* L09: opened at t = 0 by four failures, one probe admitted at t = 1001. */
static struct rea_breaker *breaker_with_probe(struct rea_breaker_permit *ret_probe)
{
	struct rea_breaker *breaker = new_breaker(small_policy(1));
	struct rea_breaker_permit refused;

	calls(breaker, 4, REA_BREAKER_FAILURE, 0);
	assert_state(breaker, REA_BREAKER_OPEN);
	assert_false(rea_breaker_acquire(breaker, MS(999), &refused));
	assert_false(refused.given);
	assert_true(rea_breaker_acquire(breaker, MS(1001), ret_probe));
	assert_state(breaker, REA_BREAKER_HALF_OPEN);
	assert_false(rea_breaker_acquire(breaker, MS(1001), &refused));
	return breaker;
}

/* L09 (a), (b), (d): ignored, cancelled and refused by a later stage are all reported as IGNORED. */
static void test_ignored_probe_gives_its_permit_back(void **state)
{
	struct rea_breaker_permit probe, next;
	struct rea_breaker *breaker = breaker_with_probe(&probe);

	(void)state;
	for (uint64_t i = 0; i < 100; i++) {
		rea_breaker_report(breaker, &probe, REA_BREAKER_IGNORED, 0, MS(1001));
		assert_state(breaker, REA_BREAKER_HALF_OPEN);
		assert_true(rea_breaker_permits(breaker, MS(1002)));
		assert_true(rea_breaker_acquire(breaker, MS(1002), &probe));
		assert_false(rea_breaker_acquire(breaker, MS(1002), &next));
	}
	rea_breaker_report(breaker, &probe, REA_BREAKER_SUCCESS, 0, MS(1003));
	assert_state(breaker, REA_BREAKER_CLOSED);
	rea_breaker_free(breaker);
}

/* L09 (c). */
static void test_probe_that_never_reports_is_reclaimed(void **state)
{
	struct rea_breaker_permit probe, next;
	struct rea_breaker *breaker = breaker_with_probe(&probe);

	(void)state;
	assert_false(rea_breaker_acquire(breaker, MS(3000), &next));
	assert_state(breaker, REA_BREAKER_HALF_OPEN);
	assert_false(rea_breaker_acquire(breaker, MS(3001), &next));
	assert_state(breaker, REA_BREAKER_OPEN);
	assert_false(rea_breaker_permits(breaker, MS(4000)));
	assert_false(rea_breaker_acquire(breaker, MS(4000), &next));
	assert_true(rea_breaker_permits(breaker, MS(4001)));
	assert_true(rea_breaker_acquire(breaker, MS(4001), &next));
	assert_state(breaker, REA_BREAKER_HALF_OPEN);
	/* The lost probe turns up after all: it belongs to an older generation. */
	rea_breaker_report(breaker, &probe, REA_BREAKER_SUCCESS, 0, MS(4002));
	assert_state(breaker, REA_BREAKER_HALF_OPEN);
	rea_breaker_report(breaker, &next, REA_BREAKER_SUCCESS, 0, MS(4003));
	assert_state(breaker, REA_BREAKER_CLOSED);
	rea_breaker_free(breaker);
}

/* Nobody asked between 1001 and 9000: the new wait ran from 3001 and is long over. */
static void test_reclaim_happens_as_of_its_due_time(void **state)
{
	struct rea_breaker_permit probe, next;
	struct rea_breaker *breaker = breaker_with_probe(&probe);

	(void)state;
	assert_false(rea_breaker_permits(breaker, MS(4000)));
	assert_true(rea_breaker_permits(breaker, MS(9000)));
	assert_true(rea_breaker_acquire(breaker, MS(9000), &next));
	assert_state(breaker, REA_BREAKER_HALF_OPEN);
	rea_breaker_free(breaker);
}

/* A report alone brings the time forward too. */
static void test_report_after_the_limit_decides_nothing(void **state)
{
	struct rea_breaker_permit probe;
	struct rea_breaker *breaker = breaker_with_probe(&probe);

	(void)state;
	rea_breaker_report(breaker, &probe, REA_BREAKER_SUCCESS, 0, MS(3001));
	assert_state(breaker, REA_BREAKER_OPEN);
	rea_breaker_free(breaker);
}

/* L09 (e). */
static void test_failed_probe_opens_below_the_window_minimum(void **state)
{
	struct rea_breaker_permit probe, next;
	struct rea_breaker *breaker = breaker_with_probe(&probe);

	(void)state;
	rea_breaker_report(breaker, &probe, REA_BREAKER_FAILURE, 0, MS(1500));
	assert_state(breaker, REA_BREAKER_OPEN);
	assert_false(rea_breaker_acquire(breaker, MS(2499), &next));
	assert_true(rea_breaker_acquire(breaker, MS(2500), &next));
	rea_breaker_free(breaker);
}

static void test_no_limit_in_half_open_waits_for_ever(void **state)
{
	struct rea_breaker_policy policy = small_policy(1);
	struct rea_breaker_permit probe, next;
	struct rea_breaker *breaker;

	(void)state;
	policy.max_wait_in_half_open_ns = 0;
	breaker = new_breaker(policy);
	calls(breaker, 4, REA_BREAKER_FAILURE, 0);
	assert_true(rea_breaker_acquire(breaker, MS(1000), &probe));
	assert_false(rea_breaker_acquire(breaker, REA_NEVER - 1, &next));
	assert_state(breaker, REA_BREAKER_HALF_OPEN);
	rea_breaker_free(breaker);
}

/* L10: five calls begun while CLOSED are in flight when four failures open the breaker; one of two probes begun. */
struct generations {
	struct rea_breaker *breaker;
	struct rea_breaker_permit old[5];
	struct rea_breaker_permit probe;
};

static struct generations begin_generations(void)
{
	struct generations g = {.breaker = new_breaker(small_policy(2))};

	for (size_t i = 0; i < 5; i++)
		assert_true(rea_breaker_acquire(g.breaker, 0, &g.old[i]));
	calls(g.breaker, 4, REA_BREAKER_FAILURE, 0);
	assert_state(g.breaker, REA_BREAKER_OPEN);
	assert_true(rea_breaker_acquire(g.breaker, MS(1001), &g.probe));
	assert_state(g.breaker, REA_BREAKER_HALF_OPEN);
	return g;
}

/* L10 (a). */
static void test_old_ignored_calls_give_no_permit(void **state)
{
	struct generations g = begin_generations();
	struct rea_breaker_permit permit;
	unsigned admitted = 0;

	(void)state;
	for (size_t i = 0; i < 5; i++)
		rea_breaker_report(g.breaker, &g.old[i], REA_BREAKER_IGNORED, 0, MS(1002));
	for (size_t i = 0; i < 10; i++)
		admitted += rea_breaker_acquire(g.breaker, MS(1003), &permit);
	assert_int_equal(admitted, 1);
	rea_breaker_free(g.breaker);
}

/* L10 (b), (c). */
static void test_old_results_never_decide(void **state)
{
	static const enum rea_breaker_result results[] = {REA_BREAKER_SUCCESS, REA_BREAKER_FAILURE};

	(void)state;
	for (size_t r = 0; r < 2; r++) {
		struct generations g = begin_generations();

		for (size_t i = 0; i < 5; i++) {
			rea_breaker_report(g.breaker, &g.old[i], results[r], 0, MS(1002));
			assert_state(g.breaker, REA_BREAKER_HALF_OPEN);
		}
		/* In statistics they count: the window of four holds old results alone now. */
		assert_true(
		    rea_breaker_failure_rate(g.breaker, MS(1002)) == (results[r] == REA_BREAKER_FAILURE ? 100.0 : 0.0));
		rea_breaker_free(g.breaker);
	}
}

static void test_old_results_stay_out_of_a_fresh_window(void **state)
{
	struct generations g = begin_generations();

	(void)state;
	rea_breaker_report(g.breaker, &g.probe, REA_BREAKER_SUCCESS, 0, MS(1002));
	call(g.breaker, REA_BREAKER_SUCCESS, 0, MS(1003));
	assert_state(g.breaker, REA_BREAKER_CLOSED);
	for (size_t i = 0; i < 5; i++)
		rea_breaker_report(g.breaker, &g.old[i], REA_BREAKER_FAILURE, 0, MS(1004));
	calls(g.breaker, 3, REA_BREAKER_SUCCESS, MS(1005));
	assert_true(rea_breaker_failure_rate(g.breaker, MS(1005)) == -1.0);
	assert_state(g.breaker, REA_BREAKER_CLOSED);
	calls(g.breaker, 1, REA_BREAKER_FAILURE, MS(1005));
	assert_true(rea_breaker_failure_rate(g.breaker, MS(1005)) == 25.0);
	rea_breaker_free(g.breaker);
}

static void test_permit_is_good_for_one_report(void **state)
{
	struct rea_breaker *breaker = new_breaker(small_policy(1));
	struct rea_breaker_permit permit, copy = {0};

	(void)state;
	assert_true(rea_breaker_acquire(breaker, 0, &permit));
	for (size_t i = 0; i < 8; i++)
		rea_breaker_report(breaker, &permit, REA_BREAKER_FAILURE, 0, 0);
	rea_breaker_report(breaker, &copy, REA_BREAKER_FAILURE, 0, 0);
	assert_state(breaker, REA_BREAKER_CLOSED);
	rea_breaker_free(breaker);
}

static void test_opens_at_the_threshold_not_below(void **state)
{
	struct rea_breaker_policy policy = small_policy(1);
	struct rea_breaker *breaker;

	(void)state;
	policy.window_size = policy.minimum_calls = 10;
	breaker = new_breaker(policy);
	calls(breaker, 6, REA_BREAKER_SUCCESS, 0);
	calls(breaker, 4, REA_BREAKER_FAILURE, 0);
	assert_true(rea_breaker_failure_rate(breaker, 0) == 40.0);
	assert_state(breaker, REA_BREAKER_CLOSED);
	calls(breaker, 1, REA_BREAKER_FAILURE, 0); /* pushes out a success: 5 of 10 */
	assert_true(rea_breaker_failure_rate(breaker, 0) == 50.0);
	assert_state(breaker, REA_BREAKER_OPEN);
	rea_breaker_free(breaker);
}

static void test_slow_is_longer_than_the_duration(void **state)
{
	struct rea_breaker_policy policy = small_policy(1);
	struct rea_breaker *breaker;

	(void)state;
	policy.slow_call_duration_ns = MS(100);
	policy.slow_call_rate_threshold = 75;
	breaker = new_breaker(policy);
	for (size_t i = 0; i < 8; i++)
		call(breaker, REA_BREAKER_SUCCESS, MS(100), 0);
	assert_true(rea_breaker_slow_call_rate(breaker, 0) == 0.0);
	call(breaker, REA_BREAKER_SUCCESS, MS(100) + 1, 0);
	call(breaker, REA_BREAKER_SUCCESS, MS(100) + 1, 0);
	assert_true(rea_breaker_slow_call_rate(breaker, 0) == 50.0);
	assert_state(breaker, REA_BREAKER_CLOSED);
	call(breaker, REA_BREAKER_SUCCESS, MS(100) + 1, 0);
	assert_state(breaker, REA_BREAKER_OPEN);
	assert_true(rea_breaker_failure_rate(breaker, 0) == 0.0);
	/* A slow probe opens it again. */
	call(breaker, REA_BREAKER_SUCCESS, MS(100) + 1, MS(1000));
	assert_state(breaker, REA_BREAKER_OPEN);
	call(breaker, REA_BREAKER_SUCCESS, MS(100), MS(2000));
	assert_state(breaker, REA_BREAKER_CLOSED);
	rea_breaker_free(breaker);
}

static void test_minimum_is_capped_by_a_count_window(void **state)
{
	struct rea_breaker_policy policy = small_policy(1);
	struct rea_breaker *breaker;

	(void)state;
	policy.minimum_calls = 100;
	breaker = new_breaker(policy);
	calls(breaker, 3, REA_BREAKER_FAILURE, 0);
	assert_true(rea_breaker_failure_rate(breaker, 0) == -1.0);
	assert_true(rea_breaker_slow_call_rate(breaker, 0) == -1.0);
	assert_state(breaker, REA_BREAKER_CLOSED);
	calls(breaker, 1, REA_BREAKER_FAILURE, 0);
	assert_state(breaker, REA_BREAKER_OPEN);
	rea_breaker_free(breaker);
}

static void test_half_open_decides_once_min_of_minimum_and_permitted_are_in(void **state)
{
	struct rea_breaker_policy policy = small_policy(10);
	struct rea_breaker *breaker = new_breaker(policy);

	(void)state;
	calls(breaker, 4, REA_BREAKER_FAILURE, 0);
	calls(breaker, 3, REA_BREAKER_SUCCESS, MS(1000));
	assert_state(breaker, REA_BREAKER_HALF_OPEN);
	calls(breaker, 1, REA_BREAKER_FAILURE, MS(1000)); /* 4 = minimum < 10 are in, 25 % failed */
	assert_state(breaker, REA_BREAKER_CLOSED);
	rea_breaker_free(breaker);

	policy.permitted_in_half_open = 2;
	breaker = new_breaker(policy);
	calls(breaker, 4, REA_BREAKER_FAILURE, 0);
	calls(breaker, 1, REA_BREAKER_FAILURE, MS(1000)); /* one of two: not yet */
	assert_state(breaker, REA_BREAKER_HALF_OPEN);
	calls(breaker, 1, REA_BREAKER_SUCCESS, MS(1000)); /* 50 % reaches the threshold */
	assert_state(breaker, REA_BREAKER_OPEN);
	rea_breaker_free(breaker);
}

static struct rea_breaker *time_breaker(uint32_t seconds, uint32_t minimum)
{
	struct rea_breaker_policy policy = small_policy(1);

	policy.window_type = REA_BREAKER_TIME_BASED;
	policy.window_size = seconds;
	policy.minimum_calls = minimum;
	return new_breaker(policy);
}

static void test_time_window_forgets_by_the_second(void **state)
{
	struct rea_breaker *breaker = time_breaker(10, 2);

	(void)state;
	calls(breaker, 3, REA_BREAKER_SUCCESS, S(5));
	calls(breaker, 1, REA_BREAKER_SUCCESS, S(6));
	calls(breaker, 1, REA_BREAKER_FAILURE, S(14) + 999999999);
	assert_true(rea_breaker_failure_rate(breaker, S(14)) == 20.0); /* 1 of 5 */
	assert_true(rea_breaker_failure_rate(breaker, S(15)) == 50.0); /* second 5 has left: 1 of 2; reading changes nothing */
	assert_true(rea_breaker_failure_rate(breaker, S(16)) == -1.0);
	assert_true(rea_breaker_failure_rate(breaker, S(1000000)) == -1.0);
	assert_state(breaker, REA_BREAKER_CLOSED);
	calls(breaker, 1, REA_BREAKER_FAILURE, S(15)); /* 2 of 3 */
	assert_state(breaker, REA_BREAKER_OPEN);
	rea_breaker_free(breaker);
}

static void test_time_window_survives_long_silence(void **state)
{
	struct rea_breaker *breaker = time_breaker(3, 2);

	(void)state;
	calls(breaker, 5, REA_BREAKER_SUCCESS, S(1));
	calls(breaker, 1, REA_BREAKER_FAILURE, S(86400));
	assert_state(breaker, REA_BREAKER_CLOSED);
	calls(breaker, 1, REA_BREAKER_FAILURE, S(86402));
	assert_state(breaker, REA_BREAKER_OPEN);
	rea_breaker_free(breaker);
}

/* A clock that is set back empties Resilience4j's time window. Here an earlier time counts as the last one seen: the
 * calls of the last 10 s stay in the window, and an open breaker does not open for longer. */
static void test_time_never_runs_backwards(void **state)
{
	struct rea_breaker *breaker = time_breaker(10, 1);
	struct rea_breaker_permit permit;

	(void)state;
	for (uint64_t t = 0; t < 100; t++)
		calls(breaker, 10, REA_BREAKER_SUCCESS, S(100) + MS(t * 100));
	calls(breaker, 10, REA_BREAKER_SUCCESS, S(50)); /* counts as 109.9 s */
	assert_true(rea_breaker_failure_rate(breaker, S(50)) == 0.0);
	calls(breaker, 1009, REA_BREAKER_FAILURE, S(1)); /* 1010 ok + 1009 failed: below 50 % */
	assert_state(breaker, REA_BREAKER_CLOSED);
	calls(breaker, 1, REA_BREAKER_FAILURE, S(1));
	assert_state(breaker, REA_BREAKER_OPEN);
	/* Opened at 109.9 s, not at 1 s. */
	assert_false(rea_breaker_acquire(breaker, S(3), &permit));
	assert_false(rea_breaker_acquire(breaker, MS(110899), &permit));
	assert_true(rea_breaker_acquire(breaker, MS(110900), &permit));
	assert_true(rea_breaker_acquire(breaker, 0, &permit) == false);
	rea_breaker_free(breaker);
}

static void test_forced_states(void **state)
{
	struct rea_breaker *breaker = new_breaker(small_policy(1));
	struct rea_breaker_permit permit, old;

	(void)state;
	rea_breaker_force(breaker, REA_BREAKER_FORCED_OPEN, 0);
	assert_false(rea_breaker_acquire(breaker, S(100000), &permit));
	assert_false(rea_breaker_permits(breaker, S(100000)));

	rea_breaker_force(breaker, REA_BREAKER_DISABLED, S(100000));
	calls(breaker, 100, REA_BREAKER_FAILURE, S(100000));
	assert_state(breaker, REA_BREAKER_DISABLED);
	assert_true(rea_breaker_failure_rate(breaker, S(100000)) == -1.0);

	rea_breaker_force(breaker, REA_BREAKER_METRICS_ONLY, S(100000));
	assert_true(rea_breaker_acquire(breaker, S(100000), &old));
	calls(breaker, 100, REA_BREAKER_FAILURE, S(100000));
	assert_state(breaker, REA_BREAKER_METRICS_ONLY);
	assert_true(rea_breaker_failure_rate(breaker, S(100000)) == 100.0);

	rea_breaker_force(breaker, REA_BREAKER_CLOSED, S(100000));
	assert_true(rea_breaker_failure_rate(breaker, S(100000)) == -1.0);
	calls(breaker, 3, REA_BREAKER_FAILURE, S(100000));
	rea_breaker_report(breaker, &old, REA_BREAKER_FAILURE, 0, S(100000));
	assert_state(breaker, REA_BREAKER_CLOSED);

	rea_breaker_force(breaker, REA_BREAKER_CLOSED, S(100000)); /* fresh again */
	calls(breaker, 3, REA_BREAKER_FAILURE, S(100000));
	assert_state(breaker, REA_BREAKER_CLOSED);

	rea_breaker_force(breaker, REA_BREAKER_OPEN, S(100000));
	assert_false(rea_breaker_permits(breaker, S(100001) - 1));
	assert_true(rea_breaker_permits(breaker, S(100001)));

	rea_breaker_force(breaker, REA_BREAKER_HALF_OPEN, S(100002));
	assert_true(rea_breaker_acquire(breaker, S(100002), &permit));
	assert_false(rea_breaker_permits(breaker, S(100002)));
	rea_breaker_force(breaker, REA_BREAKER_HALF_OPEN, S(100002)); /* permits anew; the old one is not of it */
	assert_true(rea_breaker_permits(breaker, S(100002)));
	rea_breaker_report(breaker, &permit, REA_BREAKER_SUCCESS, 0, S(100002));
	assert_state(breaker, REA_BREAKER_HALF_OPEN);
	rea_breaker_free(breaker);
}

struct changes {
	size_t count;
	struct {
		enum rea_breaker_state from, to;
		uint64_t now_ns;
	} list[8];
};

static void note_change(enum rea_breaker_state from, enum rea_breaker_state to, uint64_t now_ns, void *user_data)
{
	struct changes *changes = user_data;

	assert_in_range(changes->count, 0, 7);
	changes->list[changes->count].from = from;
	changes->list[changes->count].to = to;
	changes->list[changes->count++].now_ns = now_ns;
}

static void test_changes_are_told_once_with_their_time(void **state)
{
	struct rea_breaker *breaker = new_breaker(small_policy(1));
	struct rea_breaker_permit permit;
	struct changes changes = {0};
	static const struct {
		enum rea_breaker_state from, to;
		uint64_t now_ns;
	} expected[] = {
	    {REA_BREAKER_CLOSED, REA_BREAKER_OPEN, MS(7)},
	    {REA_BREAKER_OPEN, REA_BREAKER_HALF_OPEN, MS(1007)},
	    {REA_BREAKER_HALF_OPEN, REA_BREAKER_OPEN, MS(3007)},
	    {REA_BREAKER_OPEN, REA_BREAKER_HALF_OPEN, MS(9000)},
	    {REA_BREAKER_HALF_OPEN, REA_BREAKER_CLOSED, MS(9001)},
	};

	(void)state;
	rea_breaker_on_change(breaker, note_change, &changes);
	rea_breaker_force(breaker, REA_BREAKER_CLOSED, 0); /* no change */
	calls(breaker, 4, REA_BREAKER_FAILURE, MS(7));
	rea_breaker_acquire(breaker, MS(1007), &permit);
	rea_breaker_acquire(breaker, MS(9000), &permit);
	rea_breaker_report(breaker, &permit, REA_BREAKER_SUCCESS, 0, MS(9001));
	assert_int_equal(changes.count, 5);
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(changes.list[i].from, expected[i].from);
		assert_int_equal(changes.list[i].to, expected[i].to);
		assert_true(changes.list[i].now_ns == expected[i].now_ns);
	}
	rea_breaker_free(breaker);
}

static void test_numbers_out_of_bounds_are_refused(void **state)
{
	struct rea_breaker *breaker = NULL;
	struct rea_breaker_policy good = small_policy(1), bad;
	struct rea_error_info info;

	(void)state;
#define REFUSED(field, value, sentence)                                                  \
	bad = good;                                                                      \
	bad.field = value;                                                               \
	assert_int_equal(rea_breaker_new(&bad, NULL, &breaker, &info), REA_ERR_INVALID); \
	assert_int_equal(rea_breaker_new(&bad, NULL, &breaker, NULL), REA_ERR_INVALID);  \
	assert_string_equal(info.key, "breaker");                                        \
	assert_string_equal(info.message, "the breaker's " sentence);                    \
	assert_null(breaker)
	REFUSED(failure_rate_threshold, 0, "failure rate threshold is 0; it must be above 0 and at most 100");
	REFUSED(failure_rate_threshold, 100.1, "failure rate threshold is 100.1; it must be above 0 and at most 100");
	REFUSED(failure_rate_threshold, (double)(0.0f / 0.0f),
	    "failure rate threshold is nan; it must be above 0 and at most 100");
	REFUSED(slow_call_rate_threshold, -1, "slow call rate threshold is -1; it must be above 0 and at most 100");
	REFUSED(slow_call_duration_ns, 0, "slow call duration in ms is 0; it must be above 0");
	REFUSED(window_type, (enum rea_breaker_window)2, "window type is 2; it must be at most 1");
	REFUSED(window_size, 0, "window in calls is 0; it must be at least 1 and at most 10000");
	REFUSED(window_size, 10001, "window in calls is 10001; it must be at least 1 and at most 10000");
	REFUSED(minimum_calls, 0, "minimum number of calls is 0; it must be at least 1");
	REFUSED(wait_in_open_ns, 0, "wait in the open state in ms is 0; it must be above 0");
	REFUSED(permitted_in_half_open, 0,
	    "permitted calls in the half-open state is 0; it must be at least 1 and at most 1000");
	REFUSED(permitted_in_half_open, 1001,
	    "permitted calls in the half-open state is 1001; it must be at least 1 and at most 1000");
	good.window_type = REA_BREAKER_TIME_BASED;
	REFUSED(window_size, 3601, "window in seconds is 3601; it must be at least 1 and at most 3600");
#undef REFUSED
}

static void test_out_of_memory(void **state)
{
	struct rea_breaker_policy policy = small_policy(1);
	struct rea_breaker *breaker = NULL;
	struct fail_alloc failing;

	(void)state;
	fail_alloc_init(&failing, 0, true);
	assert_int_equal(rea_breaker_new(&policy, &failing.alloc, &breaker, NULL), REA_ERR_NOMEM);
	assert_null(breaker);
	fail_alloc_init(&failing, 1, true);
	assert_int_equal(rea_breaker_new(&policy, &failing.alloc, &breaker, NULL), 0);
	calls(breaker, 4, REA_BREAKER_FAILURE, 0); /* decisions allocate nothing */
	rea_breaker_free(breaker);
	assert_int_equal(failing.live, 0);
	rea_breaker_free(NULL);
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(rea_breaker_state_name(REA_BREAKER_HALF_OPEN), "half_open");
	assert_string_equal(rea_breaker_state_name(REA_BREAKER_METRICS_ONLY), "metrics_only");
	assert_string_equal(rea_breaker_state_name(REA_BREAKER_STATE_COUNT), "unknown");
}

/*
 * The breaker against a model that keeps every result of the window in a list and counts them anew each time.
 */
#define MODEL_RESULTS 4096

struct model {
	struct rea_breaker_policy policy;
	enum rea_breaker_state state;
	uint64_t generation, since_ns;
	uint32_t permits_left;
	struct {
		uint64_t at_ns;
		bool failed, slow;
	} results[MODEL_RESULTS], probes[16];
	size_t results_len, probes_len;
};

static void model_enter(struct model *m, enum rea_breaker_state state, uint64_t at_ns)
{
	m->state = state;
	m->since_ns = at_ns;
	m->generation++;
	m->permits_left = state == REA_BREAKER_HALF_OPEN ? m->policy.permitted_in_half_open : 0;
	m->probes_len = 0;
	if (state == REA_BREAKER_CLOSED)
		m->results_len = 0;
}

static void model_rates(const struct model *m, uint64_t now_ns, uint32_t *calls_len, double *failed, double *slow)
{
	uint32_t n = 0, f = 0, s = 0;

	for (size_t i = 0; i < m->results_len; i++) {
		if (m->policy.window_type == REA_BREAKER_COUNT_BASED
			? i + m->policy.window_size < m->results_len
			: now_ns / REA_NS_PER_S - m->results[i].at_ns / REA_NS_PER_S >= m->policy.window_size)
			continue;
		n++;
		f += m->results[i].failed;
		s += m->results[i].slow;
	}
	*calls_len = n;
	*failed = n ? f * 100.0 / n : 0;
	*slow = n ? s * 100.0 / n : 0;
}

static uint32_t model_minimum(const struct model *m)
{
	return m->policy.window_type == REA_BREAKER_COUNT_BASED && m->policy.window_size < m->policy.minimum_calls
		   ? m->policy.window_size
		   : m->policy.minimum_calls;
}

static void model_time(struct model *m, uint64_t now_ns)
{
	if (m->state == REA_BREAKER_HALF_OPEN && m->policy.max_wait_in_half_open_ns &&
	    now_ns >= m->since_ns + m->policy.max_wait_in_half_open_ns)
		model_enter(m, REA_BREAKER_OPEN, m->since_ns + m->policy.max_wait_in_half_open_ns);
}

static bool model_acquire(struct model *m, uint64_t now_ns)
{
	model_time(m, now_ns);
	if (m->state == REA_BREAKER_OPEN && now_ns >= m->since_ns + m->policy.wait_in_open_ns)
		model_enter(m, REA_BREAKER_HALF_OPEN, now_ns);
	if (m->state == REA_BREAKER_HALF_OPEN)
		return m->permits_left > 0 && m->permits_left--;
	return m->state == REA_BREAKER_CLOSED;
}

static void model_report(struct model *m, uint64_t generation, enum rea_breaker_result result, bool slow, uint64_t now_ns)
{
	bool current, failed = result == REA_BREAKER_FAILURE;
	double failed_rate, slow_rate;
	uint32_t n;

	model_time(m, now_ns);
	current = generation == m->generation;
	if (result == REA_BREAKER_IGNORED) {
		m->permits_left += current && m->state == REA_BREAKER_HALF_OPEN;
		return;
	}
	if (current || m->state != REA_BREAKER_CLOSED) {
		assert_in_range(m->results_len, 0, MODEL_RESULTS - 1);
		m->results[m->results_len].at_ns = now_ns;
		m->results[m->results_len].failed = failed;
		m->results[m->results_len++].slow = slow;
	}
	if (!current)
		return;
	if (m->state == REA_BREAKER_CLOSED) {
		model_rates(m, now_ns, &n, &failed_rate, &slow_rate);
		if (n >= model_minimum(m) &&
		    (failed_rate >= m->policy.failure_rate_threshold || slow_rate >= m->policy.slow_call_rate_threshold))
			model_enter(m, REA_BREAKER_OPEN, now_ns);
	} else if (m->state == REA_BREAKER_HALF_OPEN) {
		uint32_t f = 0, s = 0,
			 needed = m->policy.minimum_calls < m->policy.permitted_in_half_open
				      ? m->policy.minimum_calls
				      : m->policy.permitted_in_half_open;

		m->probes[m->probes_len].failed = failed;
		m->probes[m->probes_len++].slow = slow;
		if (m->probes_len < needed)
			return;
		for (size_t i = 0; i < m->probes_len; i++) {
			f += m->probes[i].failed;
			s += m->probes[i].slow;
		}
		model_enter(m,
		    f * 100.0 / (double)m->probes_len >= m->policy.failure_rate_threshold ||
			    s * 100.0 / (double)m->probes_len >= m->policy.slow_call_rate_threshold
			? REA_BREAKER_OPEN
			: REA_BREAKER_CLOSED,
		    now_ns);
	}
}

static void run_against_model(uint64_t seed)
{
	static struct model m;
	struct rea_random random;
	struct rea_breaker *breaker;
	struct {
		struct rea_breaker_permit permit;
		uint64_t generation;
	} open[64];
	size_t open_len = 0;
	uint64_t now_ns = 0;

	rea_random_init(&random, seed);
	memset(&m, 0, sizeof(m));
	m.policy = small_policy(1 + (uint32_t)rea_random_below(&random, 5));
	m.policy.window_type = rea_random_below(&random, 2) ? REA_BREAKER_TIME_BASED : REA_BREAKER_COUNT_BASED;
	m.policy.window_size = 1 + (uint32_t)rea_random_below(&random, 12);
	m.policy.minimum_calls = 1 + (uint32_t)rea_random_below(&random, 12);
	m.policy.failure_rate_threshold = 10 + (double)rea_random_below(&random, 80);
	m.policy.slow_call_rate_threshold = 10 + (double)rea_random_below(&random, 90);
	m.policy.slow_call_duration_ns = MS(10);
	m.policy.max_wait_in_half_open_ns = rea_random_below(&random, 2) ? MS(2000) : 0;
	breaker = new_breaker(m.policy);
	for (unsigned i = 0; i < 1500; i++) {
		uint32_t n;
		double failed, slow;

		now_ns += rea_random_below(&random, 20) == 0 ? MS(rea_random_below(&random, 5000))
							     : MS(rea_random_below(&random, 50));
		if (open_len < 64 && rea_random_below(&random, 2)) {
			struct rea_breaker_permit permit;
			bool foretold = rea_breaker_permits(breaker, now_ns),
			     given = rea_breaker_acquire(breaker, now_ns, &permit);

			assert_int_equal(given, foretold);
			assert_int_equal(given, model_acquire(&m, now_ns));
			if (given) {
				open[open_len].permit = permit;
				open[open_len++].generation = m.generation;
			}
		} else if (open_len > 0) {
			size_t pick = (size_t)rea_random_below(&random, open_len);
			enum rea_breaker_result result = (enum rea_breaker_result)rea_random_below(&random, 3);
			uint64_t latency_ns = MS(5 + rea_random_below(&random, 10));

			rea_breaker_report(breaker, &open[pick].permit, result, latency_ns, now_ns);
			model_report(&m, open[pick].generation, result, latency_ns > MS(10), now_ns);
			open[pick] = open[--open_len];
		}
		assert_state(breaker, m.state);
		model_rates(&m, now_ns, &n, &failed, &slow);
		assert_true(rea_breaker_failure_rate(breaker, now_ns) == (n < model_minimum(&m) ? -1 : failed));
		assert_true(rea_breaker_slow_call_rate(breaker, now_ns) == (n < model_minimum(&m) ? -1 : slow));
	}
	rea_breaker_free(breaker);
}

static void test_against_model(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 200; seed++)
		run_against_model(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_ignored_probe_gives_its_permit_back),
	    cmocka_unit_test(test_probe_that_never_reports_is_reclaimed),
	    cmocka_unit_test(test_reclaim_happens_as_of_its_due_time),
	    cmocka_unit_test(test_report_after_the_limit_decides_nothing),
	    cmocka_unit_test(test_failed_probe_opens_below_the_window_minimum),
	    cmocka_unit_test(test_no_limit_in_half_open_waits_for_ever),
	    cmocka_unit_test(test_old_ignored_calls_give_no_permit),
	    cmocka_unit_test(test_old_results_never_decide),
	    cmocka_unit_test(test_old_results_stay_out_of_a_fresh_window),
	    cmocka_unit_test(test_permit_is_good_for_one_report),
	    cmocka_unit_test(test_opens_at_the_threshold_not_below),
	    cmocka_unit_test(test_slow_is_longer_than_the_duration),
	    cmocka_unit_test(test_minimum_is_capped_by_a_count_window),
	    cmocka_unit_test(test_half_open_decides_once_min_of_minimum_and_permitted_are_in),
	    cmocka_unit_test(test_time_window_forgets_by_the_second),
	    cmocka_unit_test(test_time_window_survives_long_silence),
	    cmocka_unit_test(test_time_never_runs_backwards),
	    cmocka_unit_test(test_forced_states),
	    cmocka_unit_test(test_changes_are_told_once_with_their_time),
	    cmocka_unit_test(test_numbers_out_of_bounds_are_refused),
	    cmocka_unit_test(test_out_of_memory),
	    cmocka_unit_test(test_names),
	    cmocka_unit_test(test_against_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
