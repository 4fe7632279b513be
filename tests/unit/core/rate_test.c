/* The rate limiter: exact waits, bursts, reservations that come back, and that no stretch of time ever sees too many. */
#include <rea/random.h>
#include <rea/rate.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MS(n) ((uint64_t)(n)*REA_NS_PER_MS)
#define S(n) ((uint64_t)(n)*REA_NS_PER_S)

static struct rea_rate rate;

static struct rea_rate_options numbers(uint32_t permits, uint64_t period_ns, uint32_t burst)
{
	return (struct rea_rate_options){REA_RATE_OPTIONS_VERSION, permits, period_ns, burst};
}

static void set_up(uint32_t permits, uint64_t period_ns, uint32_t burst)
{
	struct rea_rate_options options = numbers(permits, period_ns, burst);

	assert_int_equal(rea_rate_init(&rate, &options, NULL), 0);
}

/* Reserves and checks the wait, which rea_rate_wait foretells. */
static struct rea_rate_reservation reserve(uint32_t permits, uint64_t now_ns, uint64_t expected_ns)
{
	struct rea_rate_reservation reservation;

	assert_true(rea_rate_wait(&rate, permits, now_ns) == expected_ns);
	assert_true(rea_rate_reserve(&rate, permits, REA_NEVER, now_ns, &reservation));
	assert_true(reservation.wait_ns == expected_ns);
	return reservation;
}

/* Permits that can be had at once; they are taken. */
static uint32_t drain(uint64_t now_ns)
{
	uint32_t taken = 0;

	while (rea_rate_acquire(&rate, 1, now_ns))
		taken++;
	return taken;
}

static void the_defaults(void **state)
{
	struct rea_rate_options options;

	(void)state;
	rea_rate_options_init(&options);
	assert_int_equal(options.permits, 50);
	assert_true(options.period_ns == S(1));
	assert_int_equal(options.burst, 50);
	assert_int_equal(rea_rate_init(&rate, &options, NULL), 0);
	assert_int_equal(drain(S(1000)), 50);
	assert_int_equal(drain(S(1000) + MS(20) - 1), 0);
	assert_int_equal(drain(S(1000) + MS(20)), 1);
}

static void a_burst_then_an_even_flow(void **state)
{
	(void)state;
	set_up(10, S(1), 3);
	assert_int_equal(drain(0), 3); /* also at the very beginning of time */
	for (uint64_t tick = 1; tick <= 100; tick++) {
		assert_false(rea_rate_acquire(&rate, 1, MS(100) * tick - 1));
		assert_true(rea_rate_acquire(&rate, 1, MS(100) * tick));
		assert_false(rea_rate_acquire(&rate, 1, MS(100) * tick));
	}
	/* A quiet time gives the burst back, one permit each 100 ms, and no more than that. */
	assert_int_equal(drain(S(10) + MS(299)), 2);
	assert_int_equal(drain(S(100)), 3);
}

static void reservations_say_how_long_to_wait(void **state)
{
	(void)state;
	set_up(10, S(1), 1);
	reserve(1, S(5), 0);
	reserve(1, S(5), MS(100));
	reserve(1, S(5), MS(200));
	reserve(1, S(5) + MS(30), MS(270));
	assert_false(rea_rate_acquire(&rate, 1, S(5) + MS(350)));
	assert_true(rea_rate_acquire(&rate, 1, S(5) + MS(400)));
}

static void a_wait_that_is_too_long_takes_nothing(void **state)
{
	struct rea_rate_reservation reservation, untouched;

	(void)state;
	set_up(10, S(1), 1);
	reserve(1, S(5), 0);
	memset(&reservation, 0x5a, sizeof(reservation));
	untouched = reservation;
	for (int i = 0; i < 1000; i++)
		assert_false(rea_rate_reserve(&rate, 1, MS(100) - 1, S(5), &reservation));
	assert_memory_equal(&reservation, &untouched, sizeof(reservation));
	assert_true(rea_rate_reserve(&rate, 1, MS(100), S(5), &reservation));
	assert_true(reservation.wait_ns == MS(100));
}

static void several_permits_at_once(void **state)
{
	struct rea_rate_reservation reservation;

	(void)state;
	set_up(10, S(1), 5);
	reserve(3, S(1), 0);
	reserve(2, S(1), 0);
	reserve(5, S(1), MS(500));
	reserve(1, S(1), MS(600));
	/* More than the burst can never be had. */
	assert_true(rea_rate_wait(&rate, 6, S(100)) == REA_NEVER);
	assert_false(rea_rate_reserve(&rate, 6, REA_NEVER, S(100), &reservation));
	assert_false(rea_rate_acquire(&rate, UINT32_MAX, S(100)));
	assert_true(rea_rate_acquire(&rate, 5, S(100)));
}

/* The interval is rounded up, so that there are never more than was asked for. */
static void thirds_of_a_second(void **state)
{
	uint32_t used = 0;

	(void)state;
	set_up(3, S(1), 1);
	reserve(1, 0, 0);
	reserve(1, 0, 333333334);
	reserve(1, 0, 666666668);
	set_up(3, S(1), 1);
	for (uint64_t now_ns = 0; now_ns < S(3600); now_ns += MS(1))
		used += rea_rate_acquire(&rate, 1, now_ns);
	assert_int_equal(used, 3600 * 1000 / 334 + 1); /* as often as the clock of 1 ms lets it */
	set_up(1000000, S(1), 1);
	reserve(1, 0, 0);
	reserve(1, 0, 1000);
}

static void time_never_runs_backwards(void **state)
{
	struct rea_rate_reservation last;

	(void)state;
	set_up(10, S(1), 1);
	reserve(1, S(5), 0);
	reserve(1, S(1), MS(100));
	assert_false(rea_rate_acquire(&rate, 1, 0));
	assert_true(rea_rate_wait(&rate, 1, 0) == MS(200));
	/* A cancel sees the time too. */
	last = reserve(1, 0, MS(200));
	rea_rate_cancel(&rate, &last, S(5) + MS(150));
	assert_true(rea_rate_wait(&rate, 1, S(5)) == MS(50));
}

static void the_end_of_time(void **state)
{
	struct rea_rate_reservation reservation;

	(void)state;
	set_up(1, REA_RATE_PERIOD_NS_MAX, 1000000);
	assert_true(rea_rate_acquire(&rate, 1000000, 0));
	assert_true(rea_rate_wait(&rate, 1000000, 0) == REA_RATE_PERIOD_NS_MAX * 1000000);
	set_up(10, S(1), 2);
	assert_true(rea_rate_acquire(&rate, 1, REA_NEVER - S(1)));
	assert_true(rea_rate_acquire(&rate, 1, REA_NEVER - S(1)));
	/* A place that reaches beyond it is none. */
	assert_true(rea_rate_wait(&rate, 1, REA_NEVER - 1) == REA_NEVER);
	assert_false(rea_rate_acquire(&rate, 1, REA_NEVER - 1));
	assert_false(rea_rate_reserve(&rate, 1, REA_NEVER, REA_NEVER - 1, &reservation));
	assert_false(rea_rate_acquire(&rate, 1, REA_NEVER));
}

/* ---- what comes back ---- */

static void the_last_reservation_comes_back_whole(void **state)
{
	struct rea_rate_reservation first, second, third;

	(void)state;
	set_up(10, S(1), 1);
	first = reserve(1, S(5), 0);
	second = reserve(1, S(5), MS(100));
	third = reserve(1, S(5), MS(200));
	rea_rate_cancel(&rate, &third, S(5));
	rea_rate_cancel(&rate, &third, S(5)); /* cleared: nothing */
	assert_true(rea_rate_wait(&rate, 1, S(5)) == MS(200));
	rea_rate_cancel(&rate, &second, S(5));
	rea_rate_cancel(&rate, &first, S(5));
	reserve(1, S(5), 0);
}

/* The time of one that is cancelled goes to the next who comes; those behind it keep theirs, and nobody shares one. */
static void a_gap_is_taken_first(void **state)
{
	struct rea_rate_reservation second;

	(void)state;
	set_up(10, S(1), 1);
	reserve(1, S(5), 0);
	second = reserve(1, S(5), MS(100));
	reserve(1, S(5), MS(200));
	rea_rate_cancel(&rate, &second, S(5) + MS(50));
	reserve(1, S(5) + MS(50), MS(50));
	reserve(1, S(5) + MS(50), MS(250));
}

static void a_gap_that_is_past_is_lost(void **state)
{
	struct rea_rate_reservation second, fourth;

	(void)state;
	set_up(10, S(1), 1);
	reserve(1, S(5), 0);
	second = reserve(1, S(5), MS(100));
	reserve(1, S(5), MS(200));
	/* Of [100, 200) only 99 ms are left: too little before the one at 200. */
	rea_rate_cancel(&rate, &second, S(5) + MS(101));
	reserve(1, S(5) + MS(101), MS(199));
	fourth = reserve(1, S(5) + MS(101), MS(299));
	reserve(1, S(5) + MS(101), MS(399));
	rea_rate_cancel(&rate, &fourth, S(6));
	assert_int_equal(drain(S(6)), 1);
}

/* Of two permits given back as one gap, one is taken; the other is still there. */
static void a_gap_is_taken_in_parts(void **state)
{
	struct rea_rate_reservation pair, single;

	(void)state;
	set_up(10, S(1), 2);
	reserve(2, S(5), 0);
	pair = reserve(2, S(5), MS(200));
	single = reserve(1, S(5), MS(300));
	reserve(1, S(5), MS(400));
	rea_rate_cancel(&rate, &single, S(5));
	rea_rate_cancel(&rate, &pair, S(5)); /* one gap of three */
	reserve(2, S(5), MS(200));
	reserve(1, S(5), MS(300));
	reserve(1, S(5), MS(500));
}

/* Whoever gives up first, middle or last: when all have, nothing is left of them. */
static void all_of_them_cancelled_is_as_if_never_reserved(void **state)
{
	enum { COUNT = 8 };
	static const size_t orders[][COUNT] = {{0, 1, 2, 3, 4, 5, 6, 7}, {7, 6, 5, 4, 3, 2, 1, 0},
	    {1, 3, 5, 7, 0, 2, 4, 6}, {6, 4, 2, 0, 7, 5, 3, 1}, {3, 0, 7, 5, 1, 6, 2, 4}};

	(void)state;
	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		struct rea_rate_reservation reservations[COUNT];

		set_up(10, S(1), 1);
		reserve(1, S(5), 0);
		for (uint32_t k = 0; k < COUNT; k++)
			reservations[k] = reserve(1, S(5), MS(100) * (k + 1));
		for (uint32_t k = 0; k < COUNT; k++)
			rea_rate_cancel(&rate, &reservations[orders[i][k]], S(5));
		reserve(1, S(5), MS(100));
	}
}

/* With more gaps than it keeps, the earliest are lost: too few permits then, never too many. */
static void too_many_gaps(void **state)
{
	enum { COUNT = 2 * REA_RATE_GAPS_MAX + 6 };
	struct rea_rate_reservation reservations[COUNT], earliest;

	(void)state;
	set_up(10, S(1), 1);
	reserve(1, S(5), 0);
	for (uint32_t k = 0; k < COUNT; k++)
		reservations[k] = reserve(1, S(5), MS(100) * (k + 1));
	earliest = reservations[0];
	for (uint32_t k = 2; k < COUNT - 1; k += 2) /* ten gaps, apart */
		rea_rate_cancel(&rate, &reservations[k], S(5));
	rea_rate_cancel(&rate, &earliest, S(5));
	for (uint32_t k = COUNT - 2 - 2 * (REA_RATE_GAPS_MAX - 1); k < COUNT - 1; k += 2)
		reserve(1, S(5), MS(100) * (k + 1));
	reserve(1, S(5), MS(100) * (COUNT + 1));
}

static void new_numbers(void **state)
{
	struct rea_rate_options options = numbers(100, S(1), 1), wrong = numbers(0, S(1), 1);

	(void)state;
	set_up(10, S(1), 1);
	reserve(1, S(5), 0);
	reserve(1, S(5), MS(100));
	assert_int_equal(rea_rate_configure(&rate, &wrong, NULL), REA_ERR_INVALID);
	assert_int_equal(rea_rate_configure(&rate, &options, NULL), 0);
	/* What is reserved keeps its time; from then on the new interval holds. */
	reserve(1, S(5), MS(200));
	reserve(1, S(5), MS(210));
}

/* ---- properties ---- */

/* Without cancellations: GCRA as it is written everywhere. */
static void property_plain_gcra(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 50; seed++) {
		uint64_t interval_ns = 1000 + seed * 37, arrival_ns = 0, now_ns = 0;
		uint32_t burst = 1 + (uint32_t)seed % 6;
		struct rea_random random;

		rea_random_init(&random, seed);
		set_up(1000, interval_ns * 1000, burst);
		for (int i = 0; i < 5000; i++) {
			uint32_t permits = 1 + (uint32_t)rea_random_below(&random, burst);
			uint64_t wait_max_ns = rea_random_below(&random, 10 * interval_ns), wait_ns, next_ns;
			struct rea_rate_reservation reservation;

			now_ns += rea_random_below(
			    &random, rea_random_below(&random, 20) == 0 ? 20 * interval_ns : 3 * interval_ns);
			next_ns = (arrival_ns > now_ns ? arrival_ns : now_ns) + permits * interval_ns;
			wait_ns = next_ns > now_ns + burst * interval_ns ? next_ns - burst * interval_ns - now_ns : 0;
			assert_true(rea_rate_wait(&rate, permits, now_ns) == wait_ns);
			assert_int_equal(rea_rate_reserve(&rate, permits, wait_max_ns, now_ns, &reservation),
			    wait_ns <= wait_max_ns);
			if (wait_ns > wait_max_ns)
				continue;
			assert_true(reservation.wait_ns == wait_ns);
			arrival_ns = next_ns;
		}
	}
}

enum { EVENTS = 400, LIVE = 8 };

struct event {
	uint64_t start_ns, end_ns, use_ns;
	uint32_t permits;
	bool cancelled;
};

/* The earliest place from now on that no event takes. */
static uint64_t model_place(const struct event *events, size_t count, uint64_t length_ns, uint64_t now_ns)
{
	uint64_t start_ns = now_ns;

	for (size_t i = 0; i < count; i++)
		if (!events[i].cancelled && events[i].start_ns < start_ns + length_ns && events[i].end_ns > start_ns) {
			start_ns = events[i].end_ns;
			i = SIZE_MAX; /* look at all again */
		}
	return start_ns;
}

/* What is used between any two uses is at most the burst and what the time between them allows. */
static void assert_never_too_many(const struct event *events, size_t count, uint64_t interval_ns, uint32_t burst)
{
	for (size_t i = 0; i < count; i++) {
		for (size_t j = 0; j < count && !events[i].cancelled; j++) {
			uint64_t from_ns = events[i].use_ns, to_ns = events[j].use_ns, permits = 0;

			for (size_t k = 0; k < count && from_ns <= to_ns; k++)
				if (!events[k].cancelled && events[k].use_ns >= from_ns && events[k].use_ns <= to_ns)
					permits += events[k].permits;
			if (!events[j].cancelled && from_ns <= to_ns)
				assert_true(permits <= burst + (to_ns - from_ns) / interval_ns);
		}
	}
}

static void property_cancellations(void **state)
{
	uint32_t cancelled = 0, in_gaps = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 40; seed++) {
		static struct event events[EVENTS];
		struct rea_rate_reservation reservations[LIVE] = {{.wait_ns = 0}};
		size_t of[LIVE] = {0}, count = 0;
		uint64_t interval_ns = 1000 + seed, now_ns = S(1), end_ns = 0;
		uint32_t burst = 1 + (uint32_t)seed % 4;
		struct rea_random random;

		rea_random_init(&random, seed);
		set_up(1000, interval_ns * 1000, burst);
		while (count < EVENTS) {
			size_t slot = rea_random_below(&random, LIVE);
			struct event *event = &events[count];
			uint64_t place_ns;

			now_ns += rea_random_below(&random, interval_ns);
			if (rea_random_below(&random, 3) > 0) {
				struct event *old = &events[of[slot]];

				/* Only what was not used yet; cleared ones give nothing. */
				if (reservations[slot].stretch.end_ns != 0 && old->use_ns > now_ns) {
					old->cancelled = true;
					cancelled++;
					rea_rate_cancel(&rate, &reservations[slot], now_ns);
				}
				rea_rate_cancel(&rate, &(struct rea_rate_reservation){.wait_ns = 0}, now_ns);
				continue;
			}
			*event = (struct event){.permits = 1 + (uint32_t)rea_random_below(&random, burst)};
			place_ns = model_place(events, count, event->permits * interval_ns, now_ns);
			assert_true(rea_rate_reserve(&rate, event->permits, REA_NEVER, now_ns, &reservations[slot]));
			event->start_ns = reservations[slot].stretch.start_ns;
			event->end_ns = reservations[slot].stretch.end_ns;
			event->use_ns = now_ns + reservations[slot].wait_ns;
			assert_true(event->start_ns == place_ns);
			assert_true(event->end_ns == place_ns + event->permits * interval_ns);
			in_gaps += event->end_ns < end_ns;
			end_ns = event->end_ns > end_ns ? event->end_ns : end_ns;
			of[slot] = count++;
		}
		assert_never_too_many(events, count, interval_ns, burst);
	}
	assert_true(cancelled > 1000 && in_gaps > 1000);
}

/* ---- what is refused ---- */

static void assert_refused(struct rea_rate_options options, const char *key, const char *message)
{
	struct rea_rate untouched;
	struct rea_error_info info;

	memset(&rate, 0x5a, sizeof(rate));
	memset(&untouched, 0x5a, sizeof(untouched));
	assert_int_equal(rea_rate_init(&rate, &options, NULL), REA_ERR_INVALID);
	assert_int_equal(rea_rate_init(&rate, &options, &info), REA_ERR_INVALID);
	assert_memory_equal(&rate, &untouched, sizeof(untouched));
	assert_string_equal(info.key, key);
	assert_string_equal(info.message, message);
}

static void wrong_numbers_are_refused(void **state)
{
	const struct rea_rate_options legal[] = {numbers(1, MS(1), 1), numbers(1000, MS(1), 1000000),
	    numbers(1000000, S(1), 1), numbers(1000000, S(3600), 1)};

	(void)state;
	for (size_t i = 0; i < sizeof(legal) / sizeof(legal[0]); i++)
		assert_int_equal(rea_rate_init(&rate, &legal[i], NULL), 0);
	assert_refused(numbers(0, S(1), 1), "permits", "permits is 0; it must be at least 1 and at most 1000000");
	assert_refused(numbers(1000001, S(3), 1), "permits", "permits is 1000001; it must be at least 1 and at most 1000000");
	assert_refused(numbers(1001, MS(1), 1), "permits",
	    "permits is 1001; it must be at least 1 and at most 1000 (one in a microsecond)");
	assert_refused(numbers(1, MS(1) - 1, 1), "period_ns",
	    "period_ns is 999999; it must be at least 1000000 and at most 3600000000000");
	assert_refused(numbers(1, S(3600) + 1, 1), "period_ns",
	    "period_ns is 3600000000001; it must be at least 1000000 and at most 3600000000000");
	assert_refused(numbers(1, S(1), 0), "burst", "burst is 0; it must be at least 1 and at most 1000000");
	assert_refused(numbers(1, S(1), 1000001), "burst", "burst is 1000001; it must be at least 1 and at most 1000000");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_defaults),
	    cmocka_unit_test(a_burst_then_an_even_flow),
	    cmocka_unit_test(reservations_say_how_long_to_wait),
	    cmocka_unit_test(a_wait_that_is_too_long_takes_nothing),
	    cmocka_unit_test(several_permits_at_once),
	    cmocka_unit_test(thirds_of_a_second),
	    cmocka_unit_test(time_never_runs_backwards),
	    cmocka_unit_test(the_end_of_time),
	    cmocka_unit_test(the_last_reservation_comes_back_whole),
	    cmocka_unit_test(a_gap_is_taken_first),
	    cmocka_unit_test(a_gap_that_is_past_is_lost),
	    cmocka_unit_test(a_gap_is_taken_in_parts),
	    cmocka_unit_test(all_of_them_cancelled_is_as_if_never_reserved),
	    cmocka_unit_test(too_many_gaps),
	    cmocka_unit_test(new_numbers),
	    cmocka_unit_test(property_plain_gcra),
	    cmocka_unit_test(property_cancellations),
	    cmocka_unit_test(wrong_numbers_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
