/* Scenarios L01, L02 and the delays of R-Q06. */
#include <rea/backoff.h>
#include <rea/random.h>
#include <rea/time.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MS(n) ((uint64_t)(n)*REA_NS_PER_MS)
#define MIDPOINT (UINT64_C(1) << 63)

static struct rea_backoff plain(uint64_t base_ms, double multiplier, uint64_t cap_ms)
{
	return (struct rea_backoff){.base_ns = MS(base_ms), .cap_ns = MS(cap_ms), .multiplier = multiplier};
}

static void l01_never_overflows(void **state)
{
	static const struct {
		double multiplier;
		uint64_t capped_from;
	} rows[] = {{2, 9}, {1.5, 14}};
	static const uint64_t far[] = {2147483647, 4294967296, UINT64_MAX - 1, UINT64_MAX};

	(void)state;
	for (size_t r = 0; r < 2; r++) {
		struct rea_backoff backoff = plain(200, rows[r].multiplier, 30000);
		uint64_t before = 0;

		for (uint64_t n = 1; n <= 2000; n++) {
			uint64_t delay = rea_backoff_delay(&backoff, n, n * UINT64_C(0x9e3779b97f4a7c15));

			assert_true(delay == rea_backoff_exponential(&backoff, n));
			assert_true(delay >= MS(200) && delay <= MS(30000) && delay >= before);
			assert_true((delay == MS(30000)) == (n >= rows[r].capped_from));
			before = delay;
		}
		for (size_t i = 0; i < 4; i++)
			assert_true(rea_backoff_exponential(&backoff, far[i]) == MS(30000));
	}
}

static void exact_values(void **state)
{
	static const uint64_t doubling_ms[] = {200, 200, 400, 800, 1600, 3200, 6400, 12800, 25600};
	static const uint64_t by_half_us[] = {200000, 200000, 300000, 450000, 675000, 1012500, 1518750};
	struct rea_backoff doubling = plain(200, 2, 30000), by_half = plain(200, 1.5, 30000),
			   odd = {.base_ns = 3, .cap_ns = MS(1), .multiplier = 1.5};

	(void)state;
	/* Index 0 counts as the first retry. */
	for (uint64_t n = 0; n < 9; n++)
		assert_true(rea_backoff_exponential(&doubling, n) == MS(doubling_ms[n]));
	for (uint64_t n = 0; n < 7; n++)
		assert_true(rea_backoff_exponential(&by_half, n) == by_half_us[n] * REA_NS_PER_US);
	assert_true(rea_backoff_exponential(&odd, 2) == 5); /* 4.5, to the nearest */
}

static void a_cap_of_forever_saturates(void **state)
{
	struct rea_backoff backoff = {.base_ns = MS(200), .cap_ns = UINT64_MAX, .multiplier = 2};
	uint64_t before = 0;

	(void)state;
	for (uint64_t n = 1; n <= 2000; n++) {
		uint64_t delay = rea_backoff_exponential(&backoff, n);

		/* 2e8 · 2^36 is the last that fits. */
		assert_true(delay == (n <= 37 ? MS(200) << (n - 1) : UINT64_MAX));
		assert_true(delay >= before);
		before = delay;
	}
	backoff.ratio = 1;
	assert_true(rea_backoff_delay(&backoff, 100, UINT64_MAX) == UINT64_MAX);
	assert_true(rea_backoff_delay(&backoff, 100, 0) == REA_BACKOFF_NS_MIN);
	backoff.jitter = REA_JITTER_FULL;
	assert_true(rea_backoff_delay(&backoff, 100, UINT64_MAX) == UINT64_MAX);
}

static void strange_numbers_are_harmless(void **state)
{
	static const double multipliers[] = {0, -2, 0.5, 1, -INFINITY};
	struct rea_backoff backoff = plain(50, 1, 1000);

	(void)state;
	for (size_t i = 0; i < 5; i++) {
		backoff.multiplier = multipliers[i];
		assert_true(rea_backoff_exponential(&backoff, 1000) == MS(50));
	}
	backoff.multiplier = NAN;
	assert_true(rea_backoff_exponential(&backoff, 1000) == MS(50));
	backoff.multiplier = INFINITY;
	assert_true(rea_backoff_exponential(&backoff, 2) == MS(1000));
	backoff.base_ns = 0;
	assert_true(rea_backoff_exponential(&backoff, 2) == 0);
	assert_true(rea_backoff_delay(&backoff, 2, MIDPOINT) == REA_BACKOFF_NS_MIN);
	backoff = plain(50, 1, 1000);
	backoff.ratio = NAN;
	assert_true(rea_backoff_delay(&backoff, 1, UINT64_MAX) == MS(50));
	backoff.ratio = -1;
	assert_true(rea_backoff_delay(&backoff, 1, UINT64_MAX) == MS(50));
	backoff.ratio = INFINITY;
	assert_true(rea_backoff_delay(&backoff, 1, UINT64_MAX) == MS(100));
	/* A base above the cap: the cap holds. */
	backoff = plain(500, 2, 100);
	assert_true(rea_backoff_exponential(&backoff, 1) == MS(100));
}

static void l02_jitter_is_real_and_bounded(void **state)
{
	struct rea_backoff backoff = plain(1000, 1, 1000);
	struct rea_random random;
	bool seen[401] = {false};
	unsigned distinct = 0;
	double sum_ms = 0;

	(void)state;
	backoff.ratio = 0.2;
	rea_random_init(&random, 2024);
	for (int i = 0; i < 10000; i++) {
		uint64_t delay = rea_backoff_delay(&backoff, 1, rea_random_next(&random));

		assert_true(delay >= MS(800) && delay <= MS(1200));
		distinct += !seen[delay / REA_NS_PER_MS - 800];
		seen[delay / REA_NS_PER_MS - 800] = true;
		sum_ms += (double)delay / 1e6;
	}
	assert_in_range(distinct, 350, 401);
	assert_true(fabs(sum_ms / 10000 - 1000) <= 5);
	assert_true(rea_backoff_delay(&backoff, 1, 0) == MS(800));
	assert_true(rea_backoff_delay(&backoff, 1, MIDPOINT) == MS(1000));
	assert_true(rea_backoff_delay(&backoff, 1, UINT64_MAX) == MS(1200));
}

static void a_jitter_below_a_millisecond(void **state)
{
	struct rea_backoff backoff = plain(20, 1, 1000);

	(void)state;
	backoff.ratio = 0.01;
	backoff.floor_ns = MS(20);
	assert_true(rea_backoff_delay(&backoff, 1, 0) == MS(20));
	assert_true(rea_backoff_delay(&backoff, 1, UINT64_MAX) == MS(20) + 200000);
	/* The floor is a bound of the range, not a place where delays line up: its middle is midway. */
	assert_true(rea_backoff_delay(&backoff, 1, MIDPOINT) == MS(20) + 100000);
}

static void full_jitter(void **state)
{
	struct rea_backoff backoff = plain(20, 1.5, 250);

	(void)state;
	backoff.jitter = REA_JITTER_FULL;
	backoff.floor_ns = MS(10);
	assert_true(rea_backoff_delay(&backoff, 1, 0) == MS(10));
	assert_true(rea_backoff_delay(&backoff, 1, MIDPOINT) == MS(15));
	assert_true(rea_backoff_delay(&backoff, 1, UINT64_MAX) == MS(20));
	assert_true(rea_backoff_delay(&backoff, 3, UINT64_MAX) == MS(45));
	assert_true(rea_backoff_delay(&backoff, 50, UINT64_MAX) == MS(250));
	/* Never less than 1 ms of range. */
	backoff.base_ns = MS(10);
	assert_true(rea_backoff_delay(&backoff, 1, UINT64_MAX) == MS(11));
	backoff.base_ns = MS(5);
	assert_true(rea_backoff_delay(&backoff, 1, 0) == MS(10));
}

static void a_servers_wait_is_never_shortened(void **state)
{
	(void)state;
	assert_true(rea_backoff_server_wait(MS(2000), 0) == MS(2000));
	assert_true(rea_backoff_server_wait(MS(2000), UINT64_MAX) == MS(2400));
	assert_true(rea_backoff_server_wait(0, UINT64_MAX) == 0);
	assert_true(rea_backoff_server_wait(REA_NEVER - 1, UINT64_MAX) == REA_NEVER);
	assert_true(rea_backoff_server_wait(REA_NEVER - 1, 0) == REA_NEVER - 1);
}

/* Any backoff that a policy can ask for: never 0, never below the floor, never above cap·(1+j), not decreasing in its middle. */
static void property_bounds(void **state)
{
	struct rea_random random;

	(void)state;
	rea_random_init(&random, 99);
	for (int i = 0; i < 20000; i++) {
		struct rea_backoff backoff = {
		    .base_ns = MS(10) + rea_random_below(&random, MS(2000)),
		    .multiplier = 1 + (double)rea_random_below(&random, 9000) / 1000,
		    .ratio = (double)(1 + rea_random_below(&random, 1000)) / 1000,
		    .floor_ns = MS(10),
		    .jitter = rea_random_below(&random, 2) ? REA_JITTER_FULL : REA_JITTER_SYMMETRIC,
		};
		uint64_t n = 1 + rea_random_below(&random, 100), delay_ns;
		double highest;

		backoff.cap_ns = backoff.base_ns + rea_random_below(&random, MS(100000));
		delay_ns = rea_backoff_delay(&backoff, n, rea_random_next(&random));
		highest = backoff.jitter == REA_JITTER_FULL ? fmax((double)backoff.cap_ns, 11e6)
							    : (double)backoff.cap_ns * (1 + backoff.ratio) + 1;
		assert_true(delay_ns >= backoff.floor_ns && (double)delay_ns <= highest);
		assert_true(rea_backoff_exponential(&backoff, n) <= rea_backoff_exponential(&backoff, n + 1));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(l01_never_overflows),
	    cmocka_unit_test(exact_values),
	    cmocka_unit_test(a_cap_of_forever_saturates),
	    cmocka_unit_test(strange_numbers_are_harmless),
	    cmocka_unit_test(l02_jitter_is_real_and_bounded),
	    cmocka_unit_test(a_jitter_below_a_millisecond),
	    cmocka_unit_test(full_jitter),
	    cmocka_unit_test(a_servers_wait_is_never_shortened),
	    cmocka_unit_test(property_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
