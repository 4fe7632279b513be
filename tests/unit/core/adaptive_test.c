/* Adaptive limits, against numbers worked out by hand. */
#include <rea/adaptive.h>
#include <rea/time.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MS(n) ((uint64_t)(n)*REA_NS_PER_MS)

static struct rea_adaptive adaptive;

static void set_up(enum rea_adaptive_rule rule, uint32_t limit_start)
{
	struct rea_adaptive_options options;

	rea_adaptive_options_init(&options, rule);
	options.limit_start = limit_start;
	assert_int_equal(rea_adaptive_init(&adaptive, &options, NULL), 0);
	assert_int_equal(rea_adaptive_limit(&adaptive), limit_start);
}

/* Calls that use the whole limit. */
static void run(uint32_t calls, uint64_t latency_ms)
{
	for (uint32_t i = 0; i < calls; i++)
		rea_adaptive_report(&adaptive, MS(latency_ms), rea_adaptive_limit(&adaptive), false);
}

static void assert_limit(double expected)
{
	if (fabs(adaptive.limit - expected) > 1e-6)
		fail_msg("%.9f is not %.9f", adaptive.limit, expected);
}

static void assert_long_ms(double expected)
{
	if (fabs(adaptive.long_ns / 1e6 - expected) > 1e-6)
		fail_msg("%.9f is not %.9f", adaptive.long_ns / 1e6, expected);
}

static void the_defaults(void **state)
{
	static const uint32_t rows[][3] = {{20, 20, 200}, {10, 1, 200}, {20, 1, 1000}};

	(void)state;
	for (uint32_t rule = 0; rule < REA_ADAPTIVE_RULE_COUNT; rule++) {
		struct rea_adaptive_options options;

		rea_adaptive_options_init(&options, (enum rea_adaptive_rule)rule);
		assert_int_equal(options.rule, rule);
		assert_int_equal(options.limit_start, rows[rule][0]);
		assert_int_equal(options.limit_min, rows[rule][1]);
		assert_int_equal(options.limit_max, rows[rule][2]);
		assert_true(options.queue == 4 && options.smoothing == 0.2 && options.tolerance == 1);
		assert_int_equal(options.window, 600);
		assert_true(options.latency_ns_max == MS(5000));
		assert_int_equal(rea_adaptive_init(&adaptive, &options, NULL), 0);
		assert_int_equal(rea_adaptive_limit(&adaptive), rows[rule][0]);
	}
}

/* ---- gradient2 ---- */

/* Latency as ever: gradient 1, so the queue's 4 come in by a fifth each time. */
static void gradient2_grows_by_the_queue(void **state)
{
	(void)state;
	set_up(REA_ADAPTIVE_GRADIENT2, 20);
	assert_int_equal(rea_adaptive_report(&adaptive, MS(100), 20, false), 20);
	assert_limit(20.8);
	assert_int_equal(rea_adaptive_report(&adaptive, MS(100), 20, false), 21);
	assert_limit(21.6);
	run(8, 100);
	assert_limit(28);
	run(214, 100);
	assert_limit(199.2);
	run(1, 100);
	assert_limit(200);
	run(1000, 100);
	assert_limit(200);
}

static void gradient2_shrinks_with_latency(void **state)
{
	(void)state;
	set_up(REA_ADAPTIVE_GRADIENT2, 20);
	run(10, 100);
	/* long = 100 + 100·2/601, gradient = long/200 = 0.501663894, 28 ▶ 0.8·28 + 0.2·(28·gradient + 4) */
	run(1, 200);
	assert_long_ms(100.332778702);
	assert_limit(26.009317804);
	/* Never below half in one step: long/1000 is a tenth. 26.0093 ▶ 0.8·26.0093 + 0.2·(13.00466 + 4) */
	run(1, 1000);
	assert_limit(24.208386024);
	/* And never below the smallest limit: the queue's 4 hold 8 against a gradient of a half. */
	run(100, 1000000);
	assert_limit(20);
}

static void gradient2_keeps_its_balance_at_a_steady_gradient(void **state)
{
	(void)state;
	set_up(REA_ADAPTIVE_GRADIENT2, 100);
	run(10, 100);
	/* At gradient g the limit goes to 4/(1 - g): at 0.9 to 40. Each report is held at 100/0.9 of an average that is set back. */
	for (int i = 0; i < 1000; i++) {
		adaptive.long_ns = 100e6;
		rea_adaptive_report(&adaptive, 111333333, 200, false);
	}
	assert_limit(4 / (1 - (100e6 + 11333333.0 * 2 / 601) / 111333333));
	assert_true(fabs(adaptive.limit - 40) < 1);
}

/* Faster than half the long average: that one is brought down by a tenth, lest a slow time be remembered for hundreds of calls. */
static void gradient2_corrects_its_drift(void **state)
{
	(void)state;
	set_up(REA_ADAPTIVE_GRADIENT2, 20);
	run(10, 100);
	/* (100 - 90·2/601)·0.9 */
	run(1, 10);
	assert_long_ms(89.730449251);
	assert_limit(28.8);
	/* Exactly twice is no reason. */
	set_up(REA_ADAPTIVE_GRADIENT2, 20);
	run(9, 100);
	adaptive.long_ns = 110e6;
	run(1, 50); /* the tenth of the plain mean: 110 - 60/10 */
	assert_long_ms(93.6);
	set_up(REA_ADAPTIVE_GRADIENT2, 20);
	run(9, 100);
	adaptive.long_ns = 105e6 + 5e6 / 9;
	run(1, 50); /* 100 = 2·50 */
	assert_long_ms(100);
}

static void gradient2_begins_with_a_plain_mean(void **state)
{
	(void)state;
	set_up(REA_ADAPTIVE_GRADIENT2, 20);
	run(1, 100);
	assert_long_ms(100);
	run(1, 200);
	assert_long_ms(150);
	run(1, 210);
	assert_long_ms(170);
	run(7, 170);
	assert_long_ms(170);
	/* The eleventh weighs 2/601. */
	run(1, 771);
	assert_long_ms(172);
}

static void gradient2_stays_while_less_than_half_is_used(void **state)
{
	(void)state;
	set_up(REA_ADAPTIVE_GRADIENT2, 28);
	for (uint32_t in_flight = 0; in_flight < 14; in_flight++) {
		rea_adaptive_report(&adaptive, MS(100), in_flight, false);
		rea_adaptive_report(&adaptive, MS(100), in_flight, true);
		assert_limit(28);
	}
	/* What was measured counts all the same. */
	assert_long_ms(100);
	rea_adaptive_report(&adaptive, MS(100), 14, false);
	assert_limit(28.8);
}

/* A timeout tells nothing of latency: constant ones would look like a steady callee and let the limit grow to its end. */
static void gradient2_shrinks_by_a_tenth_when_dropped(void **state)
{
	(void)state;
	set_up(REA_ADAPTIVE_GRADIENT2, 200);
	run(10, 100);
	rea_adaptive_report(&adaptive, MS(1000), 200, true);
	assert_limit(180);
	rea_adaptive_report(&adaptive, MS(1), 200, true);
	assert_limit(162);
	assert_long_ms(100);
	for (int i = 0; i < 100; i++)
		rea_adaptive_report(&adaptive, MS(1000), 200, true);
	assert_limit(20);
}

static void gradient2_by_its_options(void **state)
{
	struct rea_adaptive_options options;

	(void)state;
	rea_adaptive_options_init(&options, REA_ADAPTIVE_GRADIENT2);
	options.limit_start = 50;
	options.tolerance = 1.5;
	options.smoothing = 1;
	options.queue = 10;
	options.window = 19;
	assert_int_equal(rea_adaptive_init(&adaptive, &options, NULL), 0);
	run(10, 100);
	assert_limit(150);
	/* long = 100 + 40/10; 1.5·104/140 is above 1: still no reason to shrink. */
	run(1, 140);
	assert_long_ms(104);
	assert_limit(160);
	/* long = 104 + 312/10 - 0.8; 1.5·134.4/408 = 0.494.. ▶ 0.5 */
	run(1, 408);
	assert_long_ms(134.4);
	assert_limit(90);
	options.queue = 0;
	assert_int_equal(rea_adaptive_init(&adaptive, &options, NULL), 0);
	run(100, 100);
	assert_limit(50);
}

/* ---- aimd ---- */

static void aimd_one_more_while_half_is_used(void **state)
{
	(void)state;
	set_up(REA_ADAPTIVE_AIMD, 10);
	assert_int_equal(rea_adaptive_report(&adaptive, MS(1), 4, false), 10);
	assert_int_equal(rea_adaptive_report(&adaptive, MS(1), 5, false), 11);
	assert_int_equal(rea_adaptive_report(&adaptive, MS(1), 5, false), 11);
	assert_int_equal(rea_adaptive_report(&adaptive, MS(1), 6, false), 12);
	run(1000, 5000);
	assert_limit(200);
}

static void aimd_a_tenth_less_after_a_drop(void **state)
{
	static const uint32_t steps[] = {
	    90, 81, 72, 64, 57, 51, 45, 40, 36, 32, 28, 25, 22, 19, 17, 15, 13, 11, 9, 8, 7, 6, 5, 4, 3, 2, 1, 1};

	(void)state;
	set_up(REA_ADAPTIVE_AIMD, 100);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		assert_int_equal(rea_adaptive_report(&adaptive, MS(1), 0, true), steps[i]);
	/* Too slow is dropped; exactly 5 s is not. */
	set_up(REA_ADAPTIVE_AIMD, 100);
	assert_int_equal(rea_adaptive_report(&adaptive, MS(5000), 50, false), 101);
	assert_int_equal(rea_adaptive_report(&adaptive, MS(5000) + 1, 50, false), 90);
}

/* ---- vegas ---- */

static void vegas_by_its_queue(void **state)
{
	/* Of a limit of 20, L = 1 and a lowest latency of 100 ms: queue = ceil(20·(1 - 100/latency)). */
	static const struct {
		uint64_t latency_ms;
		uint32_t limit;
	} rows[] = {
	    {100, 26}, /* 0: 6 L more */
	    {105, 26}, /* 0.95 ▶ 1 = L */
	    {106, 21}, /* 1.13 ▶ 2 < 3 L: L more */
	    {111, 21}, /* 1.98 ▶ 2 */
	    {112, 20}, /* 2.14 ▶ 3 = 3 L: as it is */
	    {142, 20}, /* 5.92 ▶ 6 = 6 L */
	    {143, 19}, /* 6.01 ▶ 7: L less */
	    {100000, 19},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		set_up(REA_ADAPTIVE_VEGAS, 20);
		assert_int_equal(rea_adaptive_report(&adaptive, MS(100), 20, false), 20); /* a measurement */
		assert_int_equal(rea_adaptive_report(&adaptive, MS(rows[i].latency_ms), 10, false), rows[i].limit);
	}
	/* Unused, it stays; a lower latency is a measurement. */
	set_up(REA_ADAPTIVE_VEGAS, 20);
	run(1, 100);
	assert_int_equal(rea_adaptive_report(&adaptive, MS(100), 9, false), 20);
	assert_int_equal(rea_adaptive_report(&adaptive, MS(1000), 9, false), 20);
	assert_int_equal(rea_adaptive_report(&adaptive, MS(50), 20, false), 20);
	assert_int_equal(rea_adaptive_report(&adaptive, MS(100), 20, false), 19);
}

/* A latency of 0 is a latency, the lowest there is. */
static void vegas_of_no_latency(void **state)
{
	(void)state;
	set_up(REA_ADAPTIVE_VEGAS, 20);
	rea_adaptive_report(&adaptive, 0, 20, false);
	assert_int_equal(rea_adaptive_report(&adaptive, MS(1), 20, false), 19);
	assert_int_equal(rea_adaptive_report(&adaptive, 0, 20, false), 25);
}

static void vegas_steps_by_the_logarithm(void **state)
{
	static const uint32_t rows[][2] = {{1, 1}, {9, 1}, {10, 1}, {99, 1}, {100, 2}, {999, 2}, {1000, 3}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t limit = rows[i][0], step = rows[i][1], more = limit + 6 * step;

		set_up(REA_ADAPTIVE_VEGAS, limit);
		assert_int_equal(rea_adaptive_report(&adaptive, MS(100), 0, true), limit > step ? limit - step : 1);
		set_up(REA_ADAPTIVE_VEGAS, limit);
		run(1, 100);
		assert_int_equal(rea_adaptive_report(&adaptive, MS(100), limit, false), more < 1000 ? more : 1000);
	}
}

/* A callee that has become slower for good is measured anew after U[0.5, 1) · 30 · limit calls. */
static void vegas_measures_anew(void **state)
{
	uint32_t lowest = UINT32_MAX, highest = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 300; seed++) {
		struct rea_adaptive_options options;
		uint32_t calls = 1;

		rea_adaptive_options_init(&options, REA_ADAPTIVE_VEGAS);
		options.seed = seed;
		assert_int_equal(rea_adaptive_init(&adaptive, &options, NULL), 0);
		rea_adaptive_report(&adaptive, MS(100), 0, false);
		while (adaptive.lowest_ns == MS(100)) {
			rea_adaptive_report(&adaptive, MS(200), 0, false);
			calls++;
		}
		assert_true(adaptive.lowest_ns == MS(200));
		lowest = calls < lowest ? calls : lowest;
		highest = calls > highest ? calls : highest;
	}
	assert_in_range(lowest, 301, 310);
	assert_in_range(highest, 590, 600);
}

/* ---- whatever comes ---- */

static void property_within_its_bounds(void **state)
{
	struct rea_random random;

	(void)state;
	rea_random_init(&random, 7);
	for (uint32_t rule = 0; rule < REA_ADAPTIVE_RULE_COUNT; rule++) {
		for (int run_number = 0; run_number < 20; run_number++) {
			struct rea_adaptive_options options;

			rea_adaptive_options_init(&options, (enum rea_adaptive_rule)rule);
			options.limit_min = 1 + (uint32_t)rea_random_below(&random, 50);
			options.limit_max = options.limit_min + (uint32_t)rea_random_below(&random, 500);
			options.limit_start = options.limit_min;
			assert_int_equal(rea_adaptive_init(&adaptive, &options, NULL), 0);
			for (int i = 0; i < 2000; i++) {
				uint32_t before = rea_adaptive_limit(&adaptive), after;
				uint32_t in_flight = (uint32_t)rea_random_below(&random, 3 * before);
				bool dropped = rea_random_below(&random, 10) == 0;
				uint64_t latency_ns = rea_random_next(&random) >> rea_random_below(&random, 64);

				after = rea_adaptive_report(&adaptive, latency_ns, in_flight, dropped);
				assert_int_equal(after, rea_adaptive_limit(&adaptive));
				assert_in_range(after, options.limit_min, options.limit_max);
				if (dropped || 2 * in_flight < before)
					assert_true(after <= before);
			}
		}
	}
}

static void assert_refused(struct rea_adaptive_options options, const char *key, const char *message)
{
	struct rea_adaptive untouched;
	struct rea_error_info info;

	memset(&adaptive, 0x5a, sizeof(adaptive));
	memset(&untouched, 0x5a, sizeof(untouched));
	assert_int_equal(rea_adaptive_init(&adaptive, &options, NULL), REA_ERR_INVALID);
	assert_int_equal(rea_adaptive_init(&adaptive, &options, &info), REA_ERR_INVALID);
	assert_memory_equal(&adaptive, &untouched, sizeof(untouched));
	assert_string_equal(info.key, key);
	assert_string_equal(info.message, message);
}

#define REFUSE(change, key, message)                                   \
	do {                                                           \
		struct rea_adaptive_options o;                         \
		rea_adaptive_options_init(&o, REA_ADAPTIVE_GRADIENT2); \
		change;                                                \
		assert_refused(o, key, message);                       \
	} while (0)
#define ACCEPT(change)                                                       \
	do {                                                                 \
		struct rea_adaptive_options o;                               \
		rea_adaptive_options_init(&o, REA_ADAPTIVE_GRADIENT2);       \
		change;                                                      \
		assert_int_equal(rea_adaptive_init(&adaptive, &o, NULL), 0); \
	} while (0)

static void wrong_numbers_are_refused(void **state)
{
	(void)state;
	REFUSE(o.rule = REA_ADAPTIVE_RULE_COUNT, "rule", "rule is 3; it must be at most 2");
	REFUSE(o.limit_max = 0, "limit_max", "limit_max is 0; it must be at least 1 and at most 1000000");
	REFUSE(o.limit_max = 1000001, "limit_max", "limit_max is 1000001; it must be at least 1 and at most 1000000");
	REFUSE(o.limit_min = 0, "limit_min", "limit_min is 0; it must be at least 1 and at most 200 (limit_max)");
	REFUSE(o.limit_min = 201, "limit_min", "limit_min is 201; it must be at least 1 and at most 200 (limit_max)");
	REFUSE(o.limit_start = 19, "limit_start",
	    "limit_start is 19; it must be at least 20 and at most 200 (limit_min, limit_max)");
	REFUSE(o.limit_start = 201, "limit_start",
	    "limit_start is 201; it must be at least 20 and at most 200 (limit_min, limit_max)");
	REFUSE(o.queue = -1, "queue", "queue is -1; it must be at least 0 and at most 1000");
	REFUSE(o.queue = NAN, "queue", "queue is nan; it must be at least 0 and at most 1000");
	REFUSE(o.queue = 1000.5, "queue", "queue is 1000.5; it must be at most 1000");
	REFUSE(o.smoothing = 0, "smoothing", "smoothing is 0; it must be above 0 and at most 1");
	REFUSE(o.smoothing = 1.5, "smoothing", "smoothing is 1.5; it must be above 0 and at most 1");
	REFUSE(o.tolerance = 0.9, "tolerance", "tolerance is 0.9; it must be at least 1 and at most 10");
	REFUSE(o.tolerance = INFINITY, "tolerance", "tolerance is inf; it must be at least 1 and at most 10");
	REFUSE(o.window = 9, "window", "window is 9; it must be at least 10 and at most 1000000");
	REFUSE(o.window = 1000001, "window", "window is 1000001; it must be at least 10 and at most 1000000");
	REFUSE(o.latency_ns_max = 0, "latency_ns_max", "latency_ns_max is 0; it must be at least 1");
	ACCEPT((o.limit_min = o.limit_start = o.limit_max = 1));
	ACCEPT((o.limit_min = 1, o.limit_max = 1000000));
	ACCEPT((o.queue = 0, o.smoothing = 1, o.tolerance = 10, o.window = 10, o.latency_ns_max = UINT64_MAX));
	ACCEPT((o.queue = 1000, o.smoothing = 0.001, o.tolerance = 1, o.window = 1000000, o.latency_ns_max = 1));
}

static void names(void **state)
{
	(void)state;
	assert_string_equal(rea_adaptive_rule_name(REA_ADAPTIVE_GRADIENT2), "gradient2");
	assert_string_equal(rea_adaptive_rule_name(REA_ADAPTIVE_AIMD), "aimd");
	assert_string_equal(rea_adaptive_rule_name(REA_ADAPTIVE_VEGAS), "vegas");
	assert_string_equal(rea_adaptive_rule_name(REA_ADAPTIVE_RULE_COUNT), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_defaults),
	    cmocka_unit_test(gradient2_grows_by_the_queue),
	    cmocka_unit_test(gradient2_shrinks_with_latency),
	    cmocka_unit_test(gradient2_keeps_its_balance_at_a_steady_gradient),
	    cmocka_unit_test(gradient2_corrects_its_drift),
	    cmocka_unit_test(gradient2_begins_with_a_plain_mean),
	    cmocka_unit_test(gradient2_stays_while_less_than_half_is_used),
	    cmocka_unit_test(gradient2_shrinks_by_a_tenth_when_dropped),
	    cmocka_unit_test(gradient2_by_its_options),
	    cmocka_unit_test(aimd_one_more_while_half_is_used),
	    cmocka_unit_test(aimd_a_tenth_less_after_a_drop),
	    cmocka_unit_test(vegas_by_its_queue),
	    cmocka_unit_test(vegas_of_no_latency),
	    cmocka_unit_test(vegas_steps_by_the_logarithm),
	    cmocka_unit_test(vegas_measures_anew),
	    cmocka_unit_test(property_within_its_bounds),
	    cmocka_unit_test(wrong_numbers_are_refused),
	    cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
