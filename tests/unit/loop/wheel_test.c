/* The timer wheel on exact times, and against a plain list of timers over random ones. */
#include "loop/wheel.h"

#include <rea/random.h>
#include <rea/time.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MS REA_NS_PER_MS
#define TIMERS 500

struct probe {
	struct wheel_timer timer; /* first */
	uint64_t due_ns;          /* 0 = not started */
	uint64_t fired_ns;
	unsigned fired;
};

static void fire(struct wheel_timer *timer, uint64_t now_ns)
{
	struct probe *probe = (struct probe *)timer;

	probe->fired++;
	probe->fired_ns = now_ns;
	probe->due_ns = 0;
}

static void fires_at_its_time_and_never_before(void **state)
{
	static const uint64_t due_ms[] = {1, 2, 63, 64, 65, 127, 128, 4095, 4096, 4097, 262143, 262144, 262145,
	    16777216, 1073741824, 2147483648, 9000000000};
	struct wheel wheel;

	(void)state;
	for (size_t i = 0; i < sizeof(due_ms) / sizeof(due_ms[0]); i++) {
		struct probe probe = {.timer = {.fire = fire}};
		uint64_t start = 77 * MS + 1, due = start + due_ms[i] * MS, steps = 0, next;

		wheel_init(&wheel, start);
		wheel_start(&wheel, &probe.timer, due);
		while (probe.fired == 0) {
			next = wheel_next(&wheel);
			assert_true(next != UINT64_MAX);
			wheel_run(&wheel, next);
			assert_true(++steps < 10000);
		}
		/* The next whole millisecond at or after the due time. */
		assert_int_equal(probe.fired_ns, rea_time_to_ms(due) * MS);
		assert_int_equal(wheel_next(&wheel), UINT64_MAX);
		assert_false(wheel_timer_active(&probe.timer));
	}
}

static void a_due_time_in_the_past_fires_at_the_next_tick(void **state)
{
	struct probe probe = {.timer = {.fire = fire}};
	struct wheel wheel;

	(void)state;
	wheel_init(&wheel, 1000 * MS);
	wheel_start(&wheel, &probe.timer, 0);
	assert_int_equal(wheel_next(&wheel), 1001 * MS);
	wheel_run(&wheel, 1001 * MS);
	assert_int_equal(probe.fired, 1);
}

static void stop_and_restart(void **state)
{
	struct probe probe = {.timer = {.fire = fire}};
	struct wheel wheel;

	(void)state;
	wheel_init(&wheel, 0);
	wheel_stop(&wheel, &probe.timer);
	wheel_start(&wheel, &probe.timer, 10 * MS);
	wheel_start(&wheel, &probe.timer, 5000 * MS);
	wheel_run(&wheel, 4999 * MS);
	assert_int_equal(probe.fired, 0);
	wheel_stop(&wheel, &probe.timer);
	wheel_run(&wheel, 6000 * MS);
	assert_int_equal(probe.fired, 0);
	assert_int_equal(wheel_next(&wheel), UINT64_MAX);
}

struct chain {
	struct wheel_timer timer; /* first */
	struct wheel *wheel;
	struct wheel_timer *victim;
	unsigned fired;
};

static void fire_chain(struct wheel_timer *timer, uint64_t now_ns)
{
	struct chain *chain = (struct chain *)timer;

	chain->fired++;
	wheel_stop(chain->wheel, chain->victim);
	wheel_start(chain->wheel, timer, now_ns);
}

/* From fire: stopping another timer that is due at the same time holds, and a restart for now waits for the next tick. */
static void timers_may_be_changed_while_firing(void **state)
{
	struct wheel wheel;
	struct chain a = {.timer = {.fire = fire_chain}, .wheel = &wheel}, b = a;

	(void)state;
	a.victim = &b.timer;
	b.victim = &a.timer;
	wheel_init(&wheel, 0);
	wheel_start(&wheel, &a.timer, 7 * MS);
	wheel_start(&wheel, &b.timer, 7 * MS);
	wheel_run(&wheel, 7 * MS);
	assert_int_equal(a.fired + b.fired, 1);
	wheel_run(&wheel, 8 * MS);
	assert_int_equal(a.fired + b.fired, 2);
}

static void agrees_with_a_list(void **state)
{
	static struct probe probes[TIMERS];
	struct rea_random random;
	struct wheel wheel;
	uint64_t now = 123456789;

	(void)state;
	rea_random_init(&random, 42);
	memset(probes, 0, sizeof(probes));
	wheel_init(&wheel, now);
	for (size_t i = 0; i < TIMERS; i++)
		probes[i].timer.fire = fire;
	for (unsigned step = 0; step < 20000; step++) {
		struct probe *probe = &probes[rea_random_below(&random, TIMERS)];
		unsigned shift = (unsigned)rea_random_below(&random, 36);

		if (rea_random_below(&random, 4) == 0) {
			wheel_stop(&wheel, &probe->timer);
			probe->due_ns = 0;
		} else {
			probe->due_ns = now + rea_random_below(&random, UINT64_C(1) << shift) + 1;
			wheel_start(&wheel, &probe->timer, probe->due_ns);
		}
		now += rea_random_below(&random, 3 * MS);
		wheel_run(&wheel, now);
		for (size_t i = 0; i < TIMERS; i++) {
			/* What is left must lie ahead; a due time counts from its whole millisecond. */
			if (probes[i].due_ns != 0)
				assert_true(rea_time_to_ms(probes[i].due_ns) * MS > now / MS * MS);
			assert_int_equal(wheel_timer_active(&probes[i].timer), probes[i].due_ns != 0);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(fires_at_its_time_and_never_before),
	    cmocka_unit_test(a_due_time_in_the_past_fires_at_the_next_tick),
	    cmocka_unit_test(stop_and_restart),
	    cmocka_unit_test(timers_may_be_changed_while_firing),
	    cmocka_unit_test(agrees_with_a_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
