/* When a task may begin at a target. Times in ms. */
#include "queue/target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MS(n) ((uint64_t)(n)*REA_NS_PER_MS)

static struct target *target;
static uint64_t wake_ns;

static int set_up(void **state)
{
	(void)state;
	target = target_new(REA_SLICE_LIT("pay"), false);
	target_configure(target, 4, 0);
	return target == NULL;
}

static int tear_down(void **state)
{
	(void)state;
	target_free(target);
	return 0;
}

static bool begins(uint64_t at_ms)
{
	return target_begin(target, MS(at_ms), &wake_ns);
}

/* One more every 20 ms, up to its concurrency; a hold begins it anew. */
static void a_mountain_is_climbed(void **state)
{
	(void)state;
	assert_true(begins(1000));
	assert_false(begins(1000));
	assert_int_equal(wake_ns, MS(1020));
	assert_true(begins(1020));
	assert_false(begins(1039));
	assert_int_equal(wake_ns, MS(1040));
	assert_true(begins(1100));
	assert_true(begins(1100));
	assert_false(begins(1100));
	assert_int_equal(wake_ns, REA_NEVER);
	target_end(target);
	assert_true(begins(1100));
	assert_int_equal(target->running, 4);
	target_hold(target, MS(2000), "breaker_open");
	for (int i = 0; i < 4; i++)
		target_end(target);
	assert_false(begins(1999));
	assert_int_equal(wake_ns, MS(2000));
	assert_string_equal(target->held_why, "breaker_open");
	assert_true(begins(2000));
	assert_false(begins(2000));
	assert_int_equal(wake_ns, MS(2020));
}

static void an_earlier_hold_changes_nothing(void **state)
{
	(void)state;
	target_hold(target, MS(500), "a");
	target_hold(target, MS(400), "b");
	assert_false(begins(450));
	assert_int_equal(wake_ns, MS(500));
	assert_string_equal(target->held_why, "a");
}

static void pause_and_drain(void **state)
{
	(void)state;
	target->paused = true;
	target->paused_until_ns = MS(300);
	assert_false(begins(299));
	assert_int_equal(wake_ns, MS(300));
	assert_true(begins(300));
	assert_false(target->paused);
	target->paused = true;
	target->paused_until_ns = REA_NEVER;
	assert_false(begins(10000));
	assert_int_equal(wake_ns, REA_NEVER);
	target->paused = false;
	target->draining = true;
	assert_false(begins(10000));
	assert_int_equal(wake_ns, REA_NEVER);
}

/* One after the other, whatever they would like; after a quiet time at once. */
static void refused_retries_ask_in_turn(void **state)
{
	(void)state;
	assert_int_equal(target_ask(target, MS(1000)), MS(1000));
	assert_int_equal(target_ask(target, MS(900)), MS(1002));
	assert_int_equal(target_ask(target, MS(1003)), MS(1004));
	assert_int_equal(target_ask(target, MS(2000)), MS(2000));
}

/* So many in a stretch, whole numbers or not. */
static uint32_t count(double rate_per_s, uint64_t until_ms)
{
	uint32_t begun = 0;

	target_free(target);
	target = target_new(REA_SLICE_LIT("pay"), false);
	target_configure(target, 10000, rate_per_s);
	for (uint64_t at = 100000; at < 100000 + until_ms; at++)
		while (begins(at)) {
			begun++;
			target_end(target);
		}
	return begun;
}

static void the_rate_is_kept(void **state)
{
	(void)state;
	/* A burst of a tenth of a second's worth comes on top. */
	assert_in_range(count(10, 5000), 50, 51);
	assert_in_range(count(0.5, 10000), 5, 6);
	assert_in_range(count(200, 1000), 200, 220);
	assert_in_range(count(2.5, 4000), 10, 11);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_mountain_is_climbed, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(an_earlier_hold_changes_nothing, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(pause_and_drain, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(refused_retries_ask_in_turn, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(the_rate_is_kept, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
