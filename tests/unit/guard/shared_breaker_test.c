/* The shared breaker: scenarios L09 and L10, its own ways (quiet counting, generations, refusals), and equality with the breaker of one thread. */
#include <rea/error.h>
#include <rea/random.h>
#include <rea/shared.h>
#include <rea/time.h>

#include "../fail_alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MS(n) ((uint64_t)(n)*REA_NS_PER_MS)
#define S(n) ((uint64_t)(n)*REA_NS_PER_S)

enum { SHARDS = 4 };

/* L09, L10: 4 calls, 50 %, open 1000 ms, half-open at most 2000 ms. */
static struct rea_breaker_policy small_policy(uint32_t permitted)
{
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

static struct rea_shared_breaker *new_breaker(struct rea_breaker_policy policy)
{
	struct rea_shared_breaker *breaker = NULL;

	assert_int_equal(rea_shared_breaker_new(&policy, SHARDS, NULL, &breaker, NULL), 0);
	return breaker;
}

static void assert_state(const struct rea_shared_breaker *breaker, enum rea_breaker_state state)
{
	assert_string_equal(rea_breaker_state_name(rea_shared_breaker_state(breaker)), rea_breaker_state_name(state));
}

static void call(struct rea_shared_breaker *breaker, uint32_t shard, enum rea_breaker_result result, uint64_t now_ns)
{
	struct rea_breaker_permit permit;

	assert_true(rea_shared_breaker_acquire(breaker, now_ns, &permit));
	rea_shared_breaker_report(breaker, shard, &permit, result, 0, now_ns);
	assert_false(permit.given);
}

static void fail_on_all_shards(struct rea_shared_breaker *breaker, uint64_t now_ns)
{
	for (uint32_t shard = 0; shard < SHARDS; shard++)
		call(breaker, shard, REA_BREAKER_FAILURE, now_ns);
	assert_state(breaker, REA_BREAKER_OPEN);
}

/* ---- L09: half-open cannot stick ---- */

/* Opened at t = 0 by four failures, one probe admitted at t = 1001. */
static struct rea_shared_breaker *breaker_with_probe(struct rea_breaker_permit *ret_probe)
{
	struct rea_shared_breaker *breaker = new_breaker(small_policy(1));
	struct rea_breaker_permit refused;

	fail_on_all_shards(breaker, 0);
	assert_false(rea_shared_breaker_acquire(breaker, MS(999), &refused));
	assert_false(refused.given);
	assert_false(rea_shared_breaker_permits(breaker, MS(999)));
	assert_true(rea_shared_breaker_permits(breaker, MS(1000)));
	assert_true(rea_shared_breaker_acquire(breaker, MS(1001), ret_probe));
	assert_state(breaker, REA_BREAKER_HALF_OPEN);
	assert_false(rea_shared_breaker_acquire(breaker, MS(1001), &refused));
	assert_false(rea_shared_breaker_permits(breaker, MS(1001)));
	return breaker;
}

/* L09 (a), (b), (d): ignored, cancelled and refused by a later stage are all reported as IGNORED. */
static void an_ignored_probe_gives_its_permit_back(void **state)
{
	struct rea_breaker_permit probe, next;
	struct rea_shared_breaker *breaker = breaker_with_probe(&probe);

	(void)state;
	for (uint32_t i = 0; i < 100; i++) {
		rea_shared_breaker_report(breaker, i % SHARDS, &probe, REA_BREAKER_IGNORED, 0, MS(1001));
		assert_state(breaker, REA_BREAKER_HALF_OPEN);
		assert_true(rea_shared_breaker_permits(breaker, MS(1002)));
		assert_true(rea_shared_breaker_acquire(breaker, MS(1002), &probe));
		assert_false(rea_shared_breaker_acquire(breaker, MS(1002), &next));
	}
	rea_shared_breaker_report(breaker, 0, &probe, REA_BREAKER_SUCCESS, 0, MS(1003));
	assert_state(breaker, REA_BREAKER_CLOSED);
	rea_shared_breaker_free(breaker);
}

/* L09 (c). */
static void a_probe_that_never_reports_is_reclaimed(void **state)
{
	struct rea_breaker_permit probe, next;
	struct rea_shared_breaker *breaker = breaker_with_probe(&probe);

	(void)state;
	assert_false(rea_shared_breaker_acquire(breaker, MS(3000), &next));
	assert_state(breaker, REA_BREAKER_HALF_OPEN);
	assert_false(rea_shared_breaker_acquire(breaker, MS(3001), &next));
	assert_state(breaker, REA_BREAKER_OPEN);
	assert_false(rea_shared_breaker_permits(breaker, MS(4000)));
	assert_false(rea_shared_breaker_acquire(breaker, MS(4000), &next));
	assert_true(rea_shared_breaker_acquire(breaker, MS(4001), &next));
	assert_state(breaker, REA_BREAKER_HALF_OPEN);
	/* The lost probe turns up after all: it belongs to an older generation. */
	rea_shared_breaker_report(breaker, 0, &probe, REA_BREAKER_SUCCESS, 0, MS(4002));
	assert_state(breaker, REA_BREAKER_HALF_OPEN);
	rea_shared_breaker_report(breaker, 0, &next, REA_BREAKER_SUCCESS, 0, MS(4003));
	assert_state(breaker, REA_BREAKER_CLOSED);
	rea_shared_breaker_free(breaker);
}

/* Nobody asked between 1001 and 9000: the new wait ran from 3001 and is long over. One acquire goes through OPEN to HALF_OPEN. */
static void what_was_due_happens_as_of_its_time(void **state)
{
	struct rea_breaker_permit probe, next;
	struct rea_shared_breaker *breaker = breaker_with_probe(&probe);

	(void)state;
	assert_false(rea_shared_breaker_permits(breaker, MS(4000)));
	assert_true(rea_shared_breaker_permits(breaker, MS(4001)));
	assert_true(rea_shared_breaker_acquire(breaker, MS(9000), &next));
	assert_state(breaker, REA_BREAKER_HALF_OPEN);
	rea_shared_breaker_free(breaker);
}

/* L09 (e): the window's minimum is not what decides in half-open. */
static void a_failed_probe_opens(void **state)
{
	struct rea_breaker_policy policy = small_policy(1);
	struct rea_breaker_permit probe;
	struct rea_shared_breaker *breaker;

	(void)state;
	policy.window_size = policy.minimum_calls = 100;
	breaker = new_breaker(policy);
	rea_shared_breaker_force(breaker, REA_BREAKER_OPEN, 0);
	assert_true(rea_shared_breaker_acquire(breaker, MS(1001), &probe));
	rea_shared_breaker_report(breaker, 0, &probe, REA_BREAKER_FAILURE, 0, MS(1002));
	assert_state(breaker, REA_BREAKER_OPEN);
	assert_false(rea_shared_breaker_acquire(breaker, MS(2001), &probe));
	assert_true(rea_shared_breaker_acquire(breaker, MS(2002), &probe));
	rea_shared_breaker_free(breaker);
}

/* ---- L10: generations ---- */

struct l10 {
	struct rea_shared_breaker *breaker;
	struct rea_breaker_permit old[5]; /* begun while CLOSED, still under way */
	struct rea_breaker_permit probe;
};

static struct l10 begin_l10(void)
{
	struct l10 l10 = {.breaker = new_breaker(small_policy(2))};

	for (size_t i = 0; i < 5; i++)
		assert_true(rea_shared_breaker_acquire(l10.breaker, 0, &l10.old[i]));
	fail_on_all_shards(l10.breaker, 0);
	assert_true(rea_shared_breaker_acquire(l10.breaker, MS(1001), &l10.probe));
	assert_state(l10.breaker, REA_BREAKER_HALF_OPEN);
	return l10;
}

static void old_permits_that_come_back_are_no_probes(void **state)
{
	struct l10 l10 = begin_l10();
	struct rea_breaker_permit permit;
	unsigned admitted = 0;

	(void)state;
	for (uint32_t i = 0; i < 5; i++)
		rea_shared_breaker_report(l10.breaker, i % SHARDS, &l10.old[i], REA_BREAKER_IGNORED, 0, MS(1002));
	while (rea_shared_breaker_acquire(l10.breaker, MS(1002), &permit))
		admitted++;
	assert_int_equal(admitted, 1);
	rea_shared_breaker_free(l10.breaker);
}

static void old_results_decide_nothing(void **state)
{
	static const enum rea_breaker_result results[] = {REA_BREAKER_SUCCESS, REA_BREAKER_FAILURE};

	(void)state;
	for (size_t r = 0; r < 2; r++) {
		struct l10 l10 = begin_l10();

		for (uint32_t i = 0; i < 5; i++) {
			rea_shared_breaker_report(l10.breaker, i % SHARDS, &l10.old[i], results[r], 0, MS(1002));
			assert_state(l10.breaker, REA_BREAKER_HALF_OPEN);
		}
		/* Counted in statistics: the window holds the last four. */
		assert_true(rea_shared_breaker_failure_rate(l10.breaker, MS(1002)) == (r == 0 ? 0 : 100));
		rea_shared_breaker_free(l10.breaker);
	}
}

/* Closing starts afresh: what began before must not be in the new window. */
static void old_results_are_not_in_the_new_window(void **state)
{
	struct l10 l10 = begin_l10();
	struct rea_breaker_permit second;

	(void)state;
	assert_true(rea_shared_breaker_acquire(l10.breaker, MS(1001), &second));
	rea_shared_breaker_report(l10.breaker, 0, &l10.probe, REA_BREAKER_SUCCESS, 0, MS(1002));
	rea_shared_breaker_report(l10.breaker, 1, &second, REA_BREAKER_SUCCESS, 0, MS(1002));
	assert_state(l10.breaker, REA_BREAKER_CLOSED);
	for (uint32_t i = 0; i < 5; i++)
		rea_shared_breaker_report(l10.breaker, i % SHARDS, &l10.old[i],
		    i % 2 ? REA_BREAKER_FAILURE : REA_BREAKER_SUCCESS, 0, MS(1003));
	assert_state(l10.breaker, REA_BREAKER_CLOSED);
	assert_true(rea_shared_breaker_failure_rate(l10.breaker, MS(1003)) == -1);
	rea_shared_breaker_free(l10.breaker);
}

/* ---- quiet counting ---- */

/* The minimum is reached by a success on another shard than the failures': exactly there it opens. */
static void a_success_that_reaches_the_minimum_opens(void **state)
{
	struct rea_breaker_policy policy = small_policy(1);
	struct rea_shared_breaker *breaker;

	(void)state;
	policy.window_size = policy.minimum_calls = 10;
	breaker = new_breaker(policy);
	for (uint32_t i = 0; i < 4; i++)
		call(breaker, i, REA_BREAKER_SUCCESS, 0);
	for (uint32_t i = 0; i < 5; i++)
		call(breaker, 0, REA_BREAKER_FAILURE, 0);
	assert_state(breaker, REA_BREAKER_CLOSED);
	call(breaker, 3, REA_BREAKER_SUCCESS, 0);
	assert_state(breaker, REA_BREAKER_OPEN);
	rea_shared_breaker_free(breaker);
}

/* Successes that wait in the shards push failures out of a count window when the next failure looks. */
static void waiting_successes_are_older_than_what_looks_at_them(void **state)
{
	struct rea_breaker_policy policy = small_policy(1);
	struct rea_shared_breaker *breaker;

	(void)state;
	policy.window_size = 10;
	policy.minimum_calls = 10;
	breaker = new_breaker(policy);
	for (uint32_t i = 0; i < 10; i++)
		call(breaker, 0, REA_BREAKER_SUCCESS, 0);
	for (uint32_t i = 0; i < 4; i++)
		call(breaker, 0, REA_BREAKER_FAILURE, 0);
	for (uint32_t i = 0; i < 1000; i++)
		call(breaker, 1 + i % 3, REA_BREAKER_SUCCESS, 0);
	for (uint32_t i = 0; i < 4; i++) {
		call(breaker, 0, REA_BREAKER_FAILURE, 0);
		assert_true(rea_shared_breaker_failure_rate(breaker, 0) == 10.0 * (i + 1));
	}
	call(breaker, 2, REA_BREAKER_FAILURE, 0);
	assert_state(breaker, REA_BREAKER_OPEN);
	rea_shared_breaker_free(breaker);
}

/* A time window: old successes leave with their second, and the first result after that sees what is left. */
static void a_new_second_is_looked_at(void **state)
{
	struct rea_breaker_policy policy = small_policy(1);
	struct rea_shared_breaker *breaker;

	(void)state;
	policy.window_type = REA_BREAKER_TIME_BASED;
	policy.window_size = 10;
	policy.minimum_calls = 5;
	breaker = new_breaker(policy);
	for (uint32_t i = 0; i < 100; i++)
		call(breaker, i % SHARDS, REA_BREAKER_SUCCESS, S(100));
	for (uint32_t i = 0; i < 10; i++)
		call(breaker, i % SHARDS, REA_BREAKER_FAILURE, S(105));
	assert_state(breaker, REA_BREAKER_CLOSED);
	call(breaker, 0, REA_BREAKER_SUCCESS, S(110) - 1);
	assert_state(breaker, REA_BREAKER_CLOSED);
	call(breaker, 0, REA_BREAKER_SUCCESS, S(110));
	assert_state(breaker, REA_BREAKER_OPEN);
	rea_shared_breaker_free(breaker);
}

/* What a shard holds belongs to the second that it came in, however late it is moved. */
static void waiting_successes_keep_their_second(void **state)
{
	struct rea_breaker_policy policy = small_policy(1);
	struct rea_shared_breaker *breaker;

	(void)state;
	policy.window_type = REA_BREAKER_TIME_BASED;
	policy.window_size = 10;
	policy.minimum_calls = 1;
	policy.failure_rate_threshold = 100;
	breaker = new_breaker(policy);
	for (uint32_t i = 0; i < 9; i++)
		call(breaker, 1, REA_BREAKER_SUCCESS, S(100));
	call(breaker, 0, REA_BREAKER_FAILURE, S(105));
	assert_true(rea_shared_breaker_failure_rate(breaker, S(109)) == 10);
	assert_true(rea_shared_breaker_failure_rate(breaker, S(110)) == 100);
	assert_true(rea_shared_breaker_failure_rate(breaker, S(115)) == -1);
	rea_shared_breaker_free(breaker);
}

/* A shard never holds so many that the number could run over. */
static void a_full_shard_is_emptied(void **state)
{
	struct rea_breaker_policy policy = small_policy(1);
	struct rea_shared_breaker *breaker;
	const uint32_t calls = 65536 * 3 + 7;

	(void)state;
	policy.window_type = REA_BREAKER_TIME_BASED;
	policy.window_size = 10;
	policy.minimum_calls = calls + 1;
	breaker = new_breaker(policy);
	for (uint32_t i = 0; i < calls; i++)
		call(breaker, 2, REA_BREAKER_SUCCESS, S(1));
	assert_true(rea_shared_breaker_failure_rate(breaker, S(1)) == -1);
	call(breaker, 2, REA_BREAKER_SUCCESS, S(1));
	assert_true(rea_shared_breaker_failure_rate(breaker, S(1)) == 0);
	rea_shared_breaker_free(breaker);
}

static void slow_calls_count_at_once(void **state)
{
	struct rea_breaker_policy policy = small_policy(1);
	struct rea_shared_breaker *breaker;
	struct rea_breaker_permit permit;

	(void)state;
	policy.slow_call_duration_ns = MS(10);
	breaker = new_breaker(policy);
	for (uint32_t shard = 0; shard < SHARDS; shard++) {
		assert_state(breaker, REA_BREAKER_CLOSED);
		assert_true(rea_shared_breaker_acquire(breaker, 0, &permit));
		rea_shared_breaker_report(breaker, shard, &permit, REA_BREAKER_SUCCESS, MS(10) + 1, 0);
	}
	assert_state(breaker, REA_BREAKER_OPEN);
	assert_true(rea_shared_breaker_slow_call_rate(breaker, 0) == 100);
	assert_true(rea_shared_breaker_failure_rate(breaker, 0) == 0);
	rea_shared_breaker_free(breaker);
}

/* ---- like the breaker of one thread ---- */

struct open_permit {
	struct rea_breaker_permit one, shared;
};

struct twins {
	struct rea_breaker *one;
	struct rea_shared_breaker *shared;
	struct rea_random random;
	uint64_t now_ns;
	struct open_permit open[8];
	size_t open_len;
};

static void report_one(struct twins *twins)
{
	size_t i = (size_t)rea_random_below(&twins->random, twins->open_len);
	uint64_t dice = rea_random_below(&twins->random, 100), latency_ns = dice % 7 == 0 ? MS(20) : MS(1);
	enum rea_breaker_result result = dice < 45   ? REA_BREAKER_FAILURE
					 : dice < 50 ? REA_BREAKER_IGNORED
						     : REA_BREAKER_SUCCESS;
	uint32_t shard = (uint32_t)rea_random_below(&twins->random, SHARDS);

	rea_breaker_report(twins->one, &twins->open[i].one, result, latency_ns, twins->now_ns);
	rea_shared_breaker_report(twins->shared, shard, &twins->open[i].shared, result, latency_ns, twins->now_ns);
	twins->open[i] = twins->open[--twins->open_len];
}

static void acquire_one(struct twins *twins)
{
	struct open_permit *permit = &twins->open[twins->open_len];
	bool given = rea_breaker_acquire(twins->one, twins->now_ns, &permit->one);

	assert_int_equal(rea_shared_breaker_acquire(twins->shared, twins->now_ns, &permit->shared), given);
	twins->open_len += given;
}

static void step(struct twins *twins)
{
	uint64_t dice = rea_random_below(&twins->random, 1000);

	if (dice < 480 && twins->open_len < 8)
		acquire_one(twins);
	else if (dice < 980 && twins->open_len > 0)
		report_one(twins);
	else if (dice < 983) {
		enum rea_breaker_state to =
		    (enum rea_breaker_state)rea_random_below(&twins->random, REA_BREAKER_STATE_COUNT);

		rea_breaker_force(twins->one, to, twins->now_ns);
		rea_shared_breaker_force(twins->shared, to, twins->now_ns);
	} else {
		twins->now_ns += rea_random_below(&twins->random, dice < 985 ? S(20) : MS(300));
	}
}

static void compare(struct twins *twins)
{
	assert_state(twins->shared, rea_breaker_state(twins->one));
	assert_int_equal(
	    rea_shared_breaker_permits(twins->shared, twins->now_ns), rea_breaker_permits(twins->one, twins->now_ns));
	/* Asking for a rate moves what waits in the shards, so it is asked seldom. */
	if (rea_random_below(&twins->random, 100) != 0)
		return;
	assert_true(rea_shared_breaker_failure_rate(twins->shared, twins->now_ns) ==
		    rea_breaker_failure_rate(twins->one, twins->now_ns));
	assert_true(rea_shared_breaker_slow_call_rate(twins->shared, twins->now_ns) ==
		    rea_breaker_slow_call_rate(twins->one, twins->now_ns));
}

static struct rea_breaker_policy random_policy(struct rea_random *random)
{
	struct rea_breaker_policy policy = small_policy(1 + (uint32_t)rea_random_below(random, 5));

	policy.window_type = rea_random_below(random, 2) ? REA_BREAKER_TIME_BASED : REA_BREAKER_COUNT_BASED;
	policy.window_size = 1 + (uint32_t)rea_random_below(random, 30);
	policy.minimum_calls = 1 + (uint32_t)rea_random_below(random, 30);
	policy.failure_rate_threshold = 1 + (double)rea_random_below(random, 100);
	policy.slow_call_rate_threshold = 1 + (double)rea_random_below(random, 100);
	policy.slow_call_duration_ns = MS(10);
	policy.max_wait_in_half_open_ns = rea_random_below(random, 2) ? MS(2000) : 0;
	return policy;
}

static void decides_as_the_breaker_of_one_thread(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 400; seed++) {
		struct twins twins = {.now_ns = S(1000)};
		struct rea_breaker_policy policy;

		rea_random_init(&twins.random, seed);
		policy = random_policy(&twins.random);
		assert_int_equal(rea_breaker_new(&policy, NULL, &twins.one, NULL), 0);
		twins.shared = new_breaker(policy);
		for (int i = 0; i < 1500; i++) {
			step(&twins);
			compare(&twins);
		}
		rea_breaker_free(twins.one);
		rea_shared_breaker_free(twins.shared);
	}
}

/* ---- changes, times, bounds ---- */

struct heard {
	struct rea_shared_breaker *breaker;
	struct rea_breaker_change changes[8];
	size_t count;
};

static void hear(const struct rea_breaker_change *change, void *user_data)
{
	struct heard *heard = user_data;
	struct rea_breaker_permit permit;

	heard->changes[heard->count++] = *change;
	/* It may call back: here the probe is taken from within the change that made it possible, and given back. */
	if (rea_shared_breaker_acquire(heard->breaker, change->now_ns, &permit))
		rea_shared_breaker_report(heard->breaker, 0, &permit, REA_BREAKER_IGNORED, 0, change->now_ns);
}

static void changes_are_told_in_order_and_may_call_back(void **state)
{
	struct heard heard = {.breaker = new_breaker(small_policy(1))};
	struct rea_breaker_permit permit;

	(void)state;
	rea_shared_breaker_on_change(heard.breaker, hear, &heard);
	fail_on_all_shards(heard.breaker, MS(5));
	assert_true(rea_shared_breaker_acquire(heard.breaker, MS(1005), &permit));
	/* Overdue at 3005: OPEN as of then, HALF_OPEN now. */
	assert_true(rea_shared_breaker_acquire(heard.breaker, MS(9000), &permit));
	rea_shared_breaker_report(heard.breaker, 0, &permit, REA_BREAKER_SUCCESS, 0, MS(9001));
	assert_int_equal(heard.count, 5);
	for (size_t i = 0; i < 5; i++) {
		static const struct rea_breaker_change right[] = {
		    {REA_BREAKER_CLOSED, REA_BREAKER_OPEN, 2, MS(5)},
		    {REA_BREAKER_OPEN, REA_BREAKER_HALF_OPEN, 3, MS(1005)},
		    {REA_BREAKER_HALF_OPEN, REA_BREAKER_OPEN, 4, MS(3005)},
		    {REA_BREAKER_OPEN, REA_BREAKER_HALF_OPEN, 5, MS(9000)},
		    {REA_BREAKER_HALF_OPEN, REA_BREAKER_CLOSED, 6, MS(9001)},
		};

		assert_int_equal(heard.changes[i].from, right[i].from);
		assert_int_equal(heard.changes[i].to, right[i].to);
		assert_int_equal(heard.changes[i].generation, right[i].generation);
		assert_int_equal(heard.changes[i].now_ns, right[i].now_ns);
	}
	rea_shared_breaker_free(heard.breaker);
}

static void time_that_goes_back_changes_nothing(void **state)
{
	struct rea_breaker_policy policy = small_policy(1);
	struct rea_shared_breaker *breaker;
	struct rea_breaker_permit permit;

	(void)state;
	policy.window_type = REA_BREAKER_TIME_BASED;
	policy.window_size = 10;
	policy.minimum_calls = 100;
	breaker = new_breaker(policy);
	for (uint32_t i = 0; i < 90; i++)
		call(breaker, i % SHARDS, REA_BREAKER_SUCCESS, S(1000));
	/* Five seconds back, as a wall clock would: nothing leaves the window. */
	for (uint32_t i = 0; i < 10; i++)
		call(breaker, i % SHARDS, REA_BREAKER_FAILURE, S(995));
	assert_true(rea_shared_breaker_failure_rate(breaker, S(1000)) == 10);
	assert_true(rea_shared_breaker_failure_rate(breaker, S(1009)) == 10);
	assert_true(rea_shared_breaker_failure_rate(breaker, S(1010)) == -1);
	/* OPEN begins at the latest time seen, whatever the one who opens it thinks. */
	rea_shared_breaker_force(breaker, REA_BREAKER_OPEN, S(900));
	assert_false(rea_shared_breaker_acquire(breaker, S(1001) - 1, &permit));
	assert_true(rea_shared_breaker_acquire(breaker, S(1001), &permit));
	rea_shared_breaker_free(breaker);
}

static void a_report_needs_a_permit(void **state)
{
	struct rea_shared_breaker *breaker = new_breaker(small_policy(1));
	struct rea_breaker_permit none = {0, false};

	(void)state;
	for (int i = 0; i < 10; i++)
		rea_shared_breaker_report(breaker, 0, &none, REA_BREAKER_FAILURE, 0, 0);
	assert_state(breaker, REA_BREAKER_CLOSED);
	assert_true(rea_shared_breaker_failure_rate(breaker, 0) == -1);
	rea_shared_breaker_free(breaker);
}

static void what_is_out_of_bounds_is_refused(void **state)
{
	struct rea_breaker_policy policy = small_policy(1);
	struct rea_shared_breaker *breaker = NULL;
	struct rea_error_info info;

	(void)state;
	assert_int_equal(rea_shared_breaker_new(&policy, 0, NULL, &breaker, &info), REA_ERR_INVALID);
	assert_string_equal(info.key, "shards");
	assert_string_equal(info.message, "the number of shards is 0; it must be at least 1 and at most 1024");
	assert_int_equal(rea_shared_breaker_new(&policy, REA_SHARDS_MAX + 1, NULL, &breaker, NULL), REA_ERR_INVALID);
	policy.window_size = 10001;
	assert_int_equal(rea_shared_breaker_new(&policy, 1, NULL, &breaker, &info), REA_ERR_INVALID);
	assert_string_equal(
	    info.message, "the breaker's window in calls is 10001; it must be at least 1 and at most 10000");
	policy = small_policy(0);
	assert_int_equal(rea_shared_breaker_new(&policy, 1, NULL, &breaker, NULL), REA_ERR_INVALID);
	assert_null(breaker);
	policy = small_policy(1000);
	policy.window_size = 10000;
	assert_int_equal(rea_shared_breaker_new(&policy, REA_SHARDS_MAX, NULL, &breaker, &info), 0);
	rea_shared_breaker_free(breaker);
	rea_shared_breaker_free(NULL);
}

static void out_of_memory_makes_nothing(void **state)
{
	struct rea_breaker_policy policy = small_policy(1);
	struct rea_shared_breaker *breaker = NULL;
	struct fail_alloc failing;

	(void)state;
	fail_alloc_init(&failing, 0, true);
	assert_int_equal(rea_shared_breaker_new(&policy, 1, &failing.alloc, &breaker, NULL), REA_ERR_NOMEM);
	assert_null(breaker);
	fail_alloc_init(&failing, 1, true);
	assert_int_equal(rea_shared_breaker_new(&policy, 1, &failing.alloc, &breaker, NULL), 0);
	for (uint32_t i = 0; i < 1000; i++)
		call(breaker, 0, REA_BREAKER_SUCCESS, S(i));
	assert_int_equal(failing.failed, 0);
	rea_shared_breaker_free(breaker);
	assert_int_equal(failing.live, 0);
}

/* The numbers and words of the breaker of one thread, with what the shards hold. */
static void it_tells_of_itself(void **state)
{
#define NUMBERS                                                                                                     \
	"circuit breaker: failures from 50 % or slow calls from 100 % (slower than 60000 ms) of the last 4 calls, " \
	"from 4 calls "                                                                                             \
	"on; open for 1000 ms, then 3 calls within 2000 ms; "
	struct rea_shared_breaker *breaker = new_breaker(small_policy(3));
	struct rea_breaker_permit permit;
	char text[512];

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		call(breaker, i, REA_BREAKER_SUCCESS, S(1));
	rea_shared_breaker_explain(breaker, S(1), text, sizeof(text));
	assert_string_equal(text, NUMBERS "closed, calls seen 3; for 4 threads\n");
	call(breaker, 0, REA_BREAKER_FAILURE, S(1));
	call(breaker, 0, REA_BREAKER_FAILURE, S(1));
	rea_shared_breaker_explain(breaker, MS(1200), text, sizeof(text));
	assert_string_equal(
	    text, NUMBERS "open, for 800 ms more, calls seen 4, failing 50 %, slow 0 %; for 4 threads\n");
	assert_true(rea_shared_breaker_acquire(breaker, S(2), &permit));
	rea_shared_breaker_explain(breaker, S(3), text, sizeof(text));
	assert_string_equal(text,
	    NUMBERS "half_open, 2 calls left, for 1000 ms more, calls seen 4, failing 50 %, slow 0 %; for 4 threads\n");
	assert_int_equal(rea_shared_breaker_explain(breaker, S(3), NULL, 0), strlen(text));
	rea_shared_breaker_free(breaker);
#undef NUMBERS
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_tells_of_itself),
	    cmocka_unit_test(an_ignored_probe_gives_its_permit_back),
	    cmocka_unit_test(a_probe_that_never_reports_is_reclaimed),
	    cmocka_unit_test(what_was_due_happens_as_of_its_time),
	    cmocka_unit_test(a_failed_probe_opens),
	    cmocka_unit_test(old_permits_that_come_back_are_no_probes),
	    cmocka_unit_test(old_results_decide_nothing),
	    cmocka_unit_test(old_results_are_not_in_the_new_window),
	    cmocka_unit_test(a_success_that_reaches_the_minimum_opens),
	    cmocka_unit_test(waiting_successes_are_older_than_what_looks_at_them),
	    cmocka_unit_test(a_new_second_is_looked_at),
	    cmocka_unit_test(waiting_successes_keep_their_second),
	    cmocka_unit_test(a_full_shard_is_emptied),
	    cmocka_unit_test(slow_calls_count_at_once),
	    cmocka_unit_test(decides_as_the_breaker_of_one_thread),
	    cmocka_unit_test(changes_are_told_in_order_and_may_call_back),
	    cmocka_unit_test(time_that_goes_back_changes_nothing),
	    cmocka_unit_test(a_report_needs_a_permit),
	    cmocka_unit_test(what_is_out_of_bounds_is_refused),
	    cmocka_unit_test(out_of_memory_makes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
