/* The concurrency limiter: slots, the line, deadlines, and that no slot is ever lost. */
#include <rea/limiter.h>
#include <rea/random.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct rea_limiter limiter;

static void set_up(uint32_t concurrent_max, uint32_t waiting_max)
{
	struct rea_limiter_options options;

	rea_limiter_options_init(&options);
	options.concurrent_max = concurrent_max;
	options.waiting_max = waiting_max;
	assert_int_equal(rea_limiter_init(&limiter, &options, NULL), 0);
}

static void assert_acquire(
    struct rea_limiter_waiter *waiter, uint64_t deadline_ns, uint64_t now_ns, enum rea_limiter_verdict verdict)
{
	assert_int_equal(rea_limiter_acquire(&limiter, waiter, deadline_ns, now_ns), verdict);
	assert_int_equal(waiter->verdict, verdict);
}

static void assert_next(struct rea_limiter_waiter *expected, enum rea_limiter_verdict verdict, uint64_t now_ns)
{
	assert_ptr_equal(rea_limiter_next(&limiter, now_ns), expected);
	assert_int_equal(expected->verdict, verdict);
}

static void assert_state(uint32_t in_use, uint32_t waiting, uint64_t next_ns)
{
	assert_int_equal(rea_limiter_in_use(&limiter), in_use);
	assert_int_equal(rea_limiter_waiting(&limiter), waiting);
	assert_true(rea_limiter_next_ns(&limiter) == next_ns);
}

/* The number of slots that can be taken now; all are given back. */
static uint32_t free_slots(void)
{
	uint32_t taken = 0;

	while (rea_limiter_try_acquire(&limiter))
		taken++;
	for (uint32_t i = 0; i < taken; i++)
		rea_limiter_release(&limiter, 0);
	return taken;
}

static void the_defaults(void **state)
{
	struct rea_limiter_options options;

	(void)state;
	rea_limiter_options_init(&options);
	assert_int_equal(options.concurrent_max, 25);
	assert_int_equal(options.waiting_max, 0);
	assert_int_equal(rea_limiter_init(&limiter, &options, NULL), 0);
	assert_int_equal(free_slots(), 25);
	assert_state(0, 0, REA_NEVER);
}

static void no_more_than_the_slots(void **state)
{
	struct rea_limiter_waiter waiter = {.verdict = REA_LIMITER_ACQUIRED};

	(void)state;
	set_up(2, 0);
	assert_true(rea_limiter_try_acquire(&limiter));
	assert_acquire(&waiter, REA_NEVER, 0, REA_LIMITER_ACQUIRED);
	assert_false(rea_limiter_try_acquire(&limiter));
	assert_acquire(&waiter, REA_NEVER, 0, REA_LIMITER_REFUSED);
	assert_state(2, 0, REA_NEVER);
	rea_limiter_release(&limiter, 0);
	assert_null(rea_limiter_next(&limiter, 0));
	assert_acquire(&waiter, REA_NEVER, 0, REA_LIMITER_ACQUIRED);
}

static void in_order_of_arrival(void **state)
{
	struct rea_limiter_waiter waiters[4] = {{.user_data = NULL}};

	(void)state;
	set_up(1, 3);
	assert_true(rea_limiter_try_acquire(&limiter));
	/* Deadlines against the order: the last to come has the least time. */
	assert_acquire(&waiters[0], 400, 0, REA_LIMITER_WAITING);
	assert_acquire(&waiters[1], 300, 0, REA_LIMITER_WAITING);
	assert_acquire(&waiters[2], 200, 0, REA_LIMITER_WAITING);
	assert_acquire(&waiters[3], 100, 0, REA_LIMITER_REFUSED);
	assert_state(1, 3, 200);
	for (size_t i = 0; i < 3; i++) {
		assert_null(rea_limiter_next(&limiter, 10));
		rea_limiter_release(&limiter, 10);
		assert_int_equal(rea_limiter_next_ns(&limiter), 0);
		/* The slot is the waiter's already: nobody overtakes it. */
		assert_false(rea_limiter_try_acquire(&limiter));
		assert_next(&waiters[i], REA_LIMITER_ACQUIRED, 10);
	}
	assert_state(1, 0, REA_NEVER);
	rea_limiter_release(&limiter, 10);
	assert_int_equal(free_slots(), 1);
}

static void deadlines_in_order_of_time(void **state)
{
	struct rea_limiter_waiter waiters[6] = {{.user_data = NULL}};

	(void)state;
	set_up(1, 10);
	assert_true(rea_limiter_try_acquire(&limiter));
	assert_acquire(&waiters[0], REA_NEVER, 5, REA_LIMITER_WAITING);
	assert_acquire(&waiters[1], 300, 5, REA_LIMITER_WAITING);
	assert_acquire(&waiters[2], 100, 5, REA_LIMITER_WAITING);
	assert_acquire(&waiters[3], 200, 5, REA_LIMITER_WAITING);
	assert_acquire(&waiters[4], 100, 5, REA_LIMITER_WAITING);
	/* No time to wait at all. */
	assert_acquire(&waiters[5], 5, 5, REA_LIMITER_EXPIRED);
	assert_state(1, 5, 100);
	assert_null(rea_limiter_next(&limiter, 99));
	/* Equal deadlines in order of arrival. */
	assert_next(&waiters[2], REA_LIMITER_EXPIRED, 100);
	assert_next(&waiters[4], REA_LIMITER_EXPIRED, 100);
	assert_null(rea_limiter_next(&limiter, 100));
	assert_state(1, 3, 200);
	assert_next(&waiters[3], REA_LIMITER_EXPIRED, 400);
	assert_next(&waiters[1], REA_LIMITER_EXPIRED, 400);
	assert_null(rea_limiter_next(&limiter, UINT64_MAX - 1));
	assert_state(1, 1, REA_NEVER);
}

/* A slot that becomes free at the deadline comes too late, and goes to the next. */
static void a_slot_never_goes_to_one_who_is_late(void **state)
{
	struct rea_limiter_waiter waiters[2] = {{.user_data = NULL}};

	(void)state;
	set_up(1, 2);
	assert_true(rea_limiter_try_acquire(&limiter));
	assert_acquire(&waiters[0], 100, 0, REA_LIMITER_WAITING);
	assert_acquire(&waiters[1], 101, 0, REA_LIMITER_WAITING);
	rea_limiter_release(&limiter, 100);
	assert_next(&waiters[0], REA_LIMITER_EXPIRED, 100);
	assert_next(&waiters[1], REA_LIMITER_ACQUIRED, 100);
	rea_limiter_release(&limiter, 100);
	assert_int_equal(free_slots(), 1);
	/* What was granted in time stays granted, however late it is handed out. */
	assert_true(rea_limiter_try_acquire(&limiter));
	assert_acquire(&waiters[0], 200, 150, REA_LIMITER_WAITING);
	rea_limiter_release(&limiter, 199);
	assert_next(&waiters[0], REA_LIMITER_ACQUIRED, 1000);
}

static void one_who_is_late_keeps_no_place_in_line(void **state)
{
	struct rea_limiter_waiter waiters[2] = {{.user_data = NULL}};

	(void)state;
	set_up(1, 1);
	assert_true(rea_limiter_try_acquire(&limiter));
	assert_acquire(&waiters[0], 100, 0, REA_LIMITER_WAITING);
	assert_acquire(&waiters[1], 300, 99, REA_LIMITER_REFUSED);
	assert_acquire(&waiters[1], 300, 100, REA_LIMITER_WAITING);
	assert_next(&waiters[0], REA_LIMITER_EXPIRED, 100);
	/* An earlier now counts as the last seen. */
	assert_acquire(&waiters[0], 50, 0, REA_LIMITER_EXPIRED);
}

static void a_cancel_in_every_place(void **state)
{
	struct rea_limiter_waiter waiters[4] = {{.user_data = NULL}};

	(void)state;
	set_up(1, 4);
	rea_limiter_cancel(&limiter, &waiters[0], 0); /* idle: nothing */
	assert_true(rea_limiter_try_acquire(&limiter));
	for (size_t i = 0; i < 4; i++)
		assert_acquire(&waiters[i], 100 * (i + 1), 0, REA_LIMITER_WAITING);
	rea_limiter_cancel(&limiter, &waiters[1], 0); /* in line */
	rea_limiter_cancel(&limiter, &waiters[1], 0);
	assert_state(1, 3, 100);
	rea_limiter_release(&limiter, 0);
	rea_limiter_cancel(&limiter, &waiters[0], 0); /* granted, not handed out: the slot goes on */
	assert_state(1, 1, 0);
	assert_next(&waiters[2], REA_LIMITER_ACQUIRED, 0);
	rea_limiter_cancel(&limiter, &waiters[2], 0); /* handed out: its slot is released, not cancelled */
	assert_state(1, 1, 400);
	/* Late, not handed out. */
	assert_acquire(&waiters[0], 500, 400, REA_LIMITER_WAITING);
	rea_limiter_cancel(&limiter, &waiters[3], 400);
	assert_state(1, 1, 500);
	assert_null(rea_limiter_next(&limiter, 400));
	rea_limiter_release(&limiter, 400);
	assert_next(&waiters[0], REA_LIMITER_ACQUIRED, 400);
	rea_limiter_release(&limiter, 400);
	assert_int_equal(free_slots(), 1);
}

static void new_numbers(void **state)
{
	struct rea_limiter_waiter waiters[4] = {{.user_data = NULL}};

	(void)state;
	set_up(2, 4);
	assert_true(rea_limiter_try_acquire(&limiter));
	assert_true(rea_limiter_try_acquire(&limiter));
	for (size_t i = 0; i < 3; i++)
		assert_acquire(&waiters[i], REA_NEVER, 0, REA_LIMITER_WAITING);
	/* Fewer slots than are in use: nothing until enough came back. */
	rea_limiter_resize(&limiter, 1, 4, 0);
	rea_limiter_release(&limiter, 0);
	assert_null(rea_limiter_next(&limiter, 0));
	rea_limiter_release(&limiter, 0);
	assert_next(&waiters[0], REA_LIMITER_ACQUIRED, 0);
	/* More slots go to the line at once; who waits stays though the line is closed. */
	rea_limiter_resize(&limiter, 2, 0, 0);
	assert_next(&waiters[1], REA_LIMITER_ACQUIRED, 0);
	assert_null(rea_limiter_next(&limiter, 0));
	assert_acquire(&waiters[3], REA_NEVER, 0, REA_LIMITER_REFUSED);
	assert_state(2, 1, REA_NEVER);
	rea_limiter_release(&limiter, 0);
	assert_next(&waiters[2], REA_LIMITER_ACQUIRED, 0);
}

/* Everybody who waits goes away in one of four ways, a thousand times; then every permit is free. */
static void a_thousand_rounds_of_abandoned_waiters(void **state)
{
	enum { SLOTS = 5, WAITERS = 20 };
	uint64_t now_ns = 0;

	(void)state;
	set_up(SLOTS, WAITERS);
	for (uint32_t round = 0; round < 1000; round++, now_ns += 1000) {
		struct rea_limiter_waiter waiters[WAITERS] = {{.user_data = NULL}};
		struct rea_limiter_waiter *settled;

		for (uint32_t i = 0; i < SLOTS; i++)
			assert_true(rea_limiter_try_acquire(&limiter));
		for (uint32_t i = 0; i < WAITERS; i++)
			assert_acquire(&waiters[i], now_ns + (i % 4 == 0 ? 100 : 900), now_ns, REA_LIMITER_WAITING);
		for (uint32_t i = 1; i < WAITERS; i += 4) /* cancelled while waiting */
			rea_limiter_cancel(&limiter, &waiters[i], now_ns);
		for (uint32_t i = 0; i < SLOTS; i++) /* too late for those of 100, granted to five others */
			rea_limiter_release(&limiter, now_ns + 100);
		for (uint32_t i = 2; i < WAITERS; i += 4) /* cancelled though granted, or still waiting */
			rea_limiter_cancel(&limiter, &waiters[i], now_ns + 100);
		while ((settled = rea_limiter_next(&limiter, now_ns + 100)) != NULL)
			if (settled->verdict == REA_LIMITER_ACQUIRED)
				rea_limiter_release(&limiter, now_ns + 100);
		assert_state(0, 0, REA_NEVER);
	}
	assert_int_equal(free_slots(), SLOTS);
}

/* ---- against a plain model: an array by arrival ---- */

enum { MODEL_WAITERS = 40, MODEL_OPERATIONS = 20000 };

struct model {
	struct rea_limiter_waiter waiters[MODEL_WAITERS];
	size_t line[MODEL_WAITERS], line_len;
	size_t settled[MODEL_WAITERS], settled_len;
	bool granted[MODEL_WAITERS];
	uint32_t in_use, max, waiting_max;
	uint64_t now_ns;
};

static size_t remove_at(size_t *list, size_t *len, size_t at)
{
	size_t item = list[at];

	memmove(&list[at], &list[at + 1], (--*len - at) * sizeof(list[0]));
	return item;
}

static size_t position(const size_t *list, size_t len, size_t item)
{
	for (size_t i = 0; i < len; i++)
		if (list[i] == item)
			return i;
	return SIZE_MAX;
}

static void model_settle(struct model *model)
{
	for (;;) {
		size_t best = SIZE_MAX;

		for (size_t i = 0; i < model->line_len; i++) {
			uint64_t deadline_ns = model->waiters[model->line[i]].deadline_ns;

			if (deadline_ns <= model->now_ns &&
			    (best == SIZE_MAX || deadline_ns < model->waiters[model->line[best]].deadline_ns))
				best = i;
		}
		if (best == SIZE_MAX)
			break;
		best = remove_at(model->line, &model->line_len, best);
		model->granted[best] = false;
		model->settled[model->settled_len++] = best;
	}
	while (model->line_len > 0 && model->in_use < model->max) {
		size_t first = remove_at(model->line, &model->line_len, 0);

		model->in_use++;
		model->granted[first] = true;
		model->settled[model->settled_len++] = first;
	}
}

static void model_acquire(struct model *model, size_t who, uint64_t deadline_ns)
{
	enum rea_limiter_verdict expected = REA_LIMITER_WAITING;

	if (position(model->line, model->line_len, who) != SIZE_MAX ||
	    position(model->settled, model->settled_len, who) != SIZE_MAX)
		return;
	if (model->in_use < model->max) {
		model->in_use++;
		expected = REA_LIMITER_ACQUIRED;
	} else {
		model_settle(model);
		if (deadline_ns <= model->now_ns)
			expected = REA_LIMITER_EXPIRED;
		else if (model->line_len >= model->waiting_max)
			expected = REA_LIMITER_REFUSED;
	}
	assert_acquire(&model->waiters[who], deadline_ns, model->now_ns, expected);
	if (expected == REA_LIMITER_WAITING)
		model->line[model->line_len++] = who;
}

static void model_cancel(struct model *model, size_t who)
{
	size_t in_line = position(model->line, model->line_len, who),
	       settled = position(model->settled, model->settled_len, who);

	rea_limiter_cancel(&limiter, &model->waiters[who], model->now_ns);
	if (in_line != SIZE_MAX)
		remove_at(model->line, &model->line_len, in_line);
	if (settled == SIZE_MAX)
		return;
	remove_at(model->settled, &model->settled_len, settled);
	if (model->granted[who]) {
		model->in_use--;
		model_settle(model);
	}
}

static void model_next(struct model *model)
{
	struct rea_limiter_waiter *next = rea_limiter_next(&limiter, model->now_ns);
	size_t expected;

	model_settle(model);
	if (model->settled_len == 0) {
		assert_null(next);
		return;
	}
	expected = remove_at(model->settled, &model->settled_len, 0);
	assert_ptr_equal(next, &model->waiters[expected]);
	assert_int_equal(next->verdict, model->granted[expected] ? REA_LIMITER_ACQUIRED : REA_LIMITER_EXPIRED);
}

static void model_compare(const struct model *model)
{
	uint64_t next_ns = REA_NEVER;

	for (size_t i = 0; i < model->line_len; i++)
		next_ns = rea_time_min(next_ns, model->waiters[model->line[i]].deadline_ns);
	assert_state(model->in_use, (uint32_t)model->line_len, model->settled_len > 0 ? 0 : next_ns);
}

static void property_the_same_as_a_plain_model(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 20; seed++) {
		struct model model = {.max = 1 + (uint32_t)seed % 7, .waiting_max = (uint32_t)seed * 2};
		struct rea_random random;

		rea_random_init(&random, seed);
		set_up(model.max, model.waiting_max);
		for (int i = 0; i < MODEL_OPERATIONS; i++) {
			size_t who = rea_random_below(&random, MODEL_WAITERS);
			uint64_t what = rea_random_below(&random, 20);

			model.now_ns += rea_random_below(&random, 4) * rea_random_below(&random, 4);
			if (what < 8) {
				uint64_t wait_ns = rea_random_below(&random, 5) == 0 ? 5 : rea_random_below(&random, 200);

				model_acquire(&model, who, what == 0 ? REA_NEVER : model.now_ns + wait_ns);
			} else if (what < 11) {
				model_cancel(&model, who);
			} else if (what < 14) {
				model_next(&model);
			} else if (what == 14) {
				model.max = 1 + (uint32_t)rea_random_below(&random, 8);
				rea_limiter_resize(&limiter, model.max, model.waiting_max, model.now_ns);
				model_settle(&model);
			} else if (model.in_use > 0) {
				uint32_t undelivered = 0;

				for (size_t k = 0; k < model.settled_len; k++)
					undelivered += model.granted[model.settled[k]];
				if (model.in_use == undelivered)
					continue;
				rea_limiter_release(&limiter, model.now_ns);
				model.in_use--;
				model_settle(&model);
			}
			model_compare(&model);
		}
	}
}

static void assert_refused(struct rea_limiter_options options, const char *key, const char *message)
{
	struct rea_limiter untouched;
	struct rea_error_info info;

	memset(&limiter, 0x5a, sizeof(limiter));
	memset(&untouched, 0x5a, sizeof(untouched));
	assert_int_equal(rea_limiter_init(&limiter, &options, NULL), REA_ERR_INVALID);
	assert_int_equal(rea_limiter_init(&limiter, &options, &info), REA_ERR_INVALID);
	assert_memory_equal(&limiter, &untouched, sizeof(untouched));
	assert_string_equal(info.key, key);
	assert_string_equal(info.message, message);
	assert_string_equal(info.file, "");
}

static void wrong_numbers_are_refused(void **state)
{
	const struct rea_limiter_options largest = {REA_LIMITER_OPTIONS_VERSION, 1000000, 1000000};
	const struct rea_limiter_options smallest = {REA_LIMITER_OPTIONS_VERSION, 1, 0};

	(void)state;
	assert_int_equal(rea_limiter_init(&limiter, &largest, NULL), 0);
	assert_int_equal(rea_limiter_init(&limiter, &smallest, NULL), 0);
	assert_refused((struct rea_limiter_options){REA_LIMITER_OPTIONS_VERSION, 0, 0}, "concurrent_max",
	    "concurrent_max is 0; it must be at least 1 and at most 1000000");
	assert_refused((struct rea_limiter_options){REA_LIMITER_OPTIONS_VERSION, 1000001, 0}, "concurrent_max",
	    "concurrent_max is 1000001; it must be at least 1 and at most 1000000");
	assert_refused((struct rea_limiter_options){REA_LIMITER_OPTIONS_VERSION, 1, 1000001}, "waiting_max",
	    "waiting_max is 1000001; it must be at most 1000000");
}

static void names(void **state)
{
	(void)state;
	assert_string_equal(rea_limiter_verdict_name(REA_LIMITER_ACQUIRED), "acquired");
	assert_string_equal(rea_limiter_verdict_name(REA_LIMITER_WAITING), "waiting");
	assert_string_equal(rea_limiter_verdict_name(REA_LIMITER_REFUSED), "refused");
	assert_string_equal(rea_limiter_verdict_name(REA_LIMITER_EXPIRED), "expired");
	assert_string_equal(rea_limiter_verdict_name((enum rea_limiter_verdict)4), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_defaults),
	    cmocka_unit_test(no_more_than_the_slots),
	    cmocka_unit_test(in_order_of_arrival),
	    cmocka_unit_test(deadlines_in_order_of_time),
	    cmocka_unit_test(a_slot_never_goes_to_one_who_is_late),
	    cmocka_unit_test(one_who_is_late_keeps_no_place_in_line),
	    cmocka_unit_test(a_cancel_in_every_place),
	    cmocka_unit_test(new_numbers),
	    cmocka_unit_test(a_thousand_rounds_of_abandoned_waiters),
	    cmocka_unit_test(property_the_same_as_a_plain_model),
	    cmocka_unit_test(wrong_numbers_are_refused),
	    cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
