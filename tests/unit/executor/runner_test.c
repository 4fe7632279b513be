/* Threads around an executor. Meant to run under the thread sanitizer too. Tests wait for what happens, never for time to pass. */
#include <rea/runner.h>

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS(n) ((uint64_t)(n)*REA_NS_PER_MS)

/* ---- a place to wait at ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void add(uint32_t *count, int delta)
{
	pthread_mutex_lock(&lock);
	*count += (uint32_t)delta;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void await(const uint32_t *count, uint32_t at_least)
{
	pthread_mutex_lock(&lock);
	while (*count < at_least)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

/* ---- the world of a test ---- */

struct world {
	struct rea_runner *runner;
	struct rea_policy policy;
	uint32_t begun, open, ended; /* attempts; tasks that are done */
	uint32_t running, running_max;
	uint32_t states[REA_TASK_STATE_COUNT];
	uint32_t events;
	uint64_t attempt_ids[64];
	uint32_t in_callback, overlaps;
	void (*on_done)(struct world *world, const struct rea_task_end *end);
};

/* Blocks until `open` lets it go. */
static bool wait_until_open(const struct rea_attempt *attempt, struct rea_report *ret_report, void *user_data)
{
	struct world *world = user_data;

	(void)attempt;
	add(&world->begun, 1);
	await(&world->open, 1);
	ret_report->outcome = REA_OUTCOME_OK;
	return true;
}

static bool open_the_door(const struct rea_attempt *attempt, void *user_data)
{
	struct world *world = user_data;

	(void)attempt;
	add(&world->open, 1);
	return false;
}

static bool fail_twice(const struct rea_attempt *attempt, struct rea_report *ret_report, void *user_data)
{
	struct world *world = user_data;

	pthread_mutex_lock(&lock);
	world->begun++;
	world->running++;
	if (world->running > world->running_max)
		world->running_max = world->running;
	pthread_mutex_unlock(&lock);
	ret_report->outcome = attempt->number < 3 ? REA_OUTCOME_UNAVAILABLE : REA_OUTCOME_OK;
	add(&world->running, -1);
	return true;
}

/* Another thread is to report it. */
static bool go_on(const struct rea_attempt *attempt, struct rea_report *ret_report, void *user_data)
{
	struct world *world = user_data;

	(void)ret_report;
	pthread_mutex_lock(&lock);
	world->attempt_ids[world->begun % 64] = attempt->id;
	pthread_mutex_unlock(&lock);
	add(&world->begun, 1);
	return false;
}

static bool it_stops(const struct rea_attempt *attempt, void *user_data)
{
	(void)attempt;
	(void)user_data;
	return true;
}

/* Callbacks come one at a time. */
static void enter_callback(struct world *world)
{
	if (__atomic_add_fetch(&world->in_callback, 1, __ATOMIC_SEQ_CST) > 1)
		__atomic_add_fetch(&world->overlaps, 1, __ATOMIC_SEQ_CST);
}

static void leave_callback(struct world *world)
{
	__atomic_sub_fetch(&world->in_callback, 1, __ATOMIC_SEQ_CST);
}

static void done(const struct rea_task_end *end, void *user_data)
{
	struct world *world = user_data;

	enter_callback(world);
	if (world->on_done != NULL)
		world->on_done(world, end);
	leave_callback(world);
	add(&world->states[end->state], 1);
	add(&world->ended, 1);
}

static void count_event(struct rea_event *event, void *user_data)
{
	struct world *world = user_data;

	(void)event;
	enter_callback(world);
	add(&world->events, 1);
	leave_callback(world);
}

static void open_world(struct world *world, uint32_t threads, uint32_t concurrency)
{
	const struct rea_handler handlers[] = {
	    {.name = "wait", .attempt = wait_until_open, .cancel = open_the_door, .user_data = world},
	    {.name = "fail", .attempt = fail_twice, .user_data = world},
	    {.name = "async", .attempt = go_on, .cancel = it_stops, .user_data = world},
	};
	struct rea_runner_options options;

	memset(world, 0, sizeof(*world));
	rea_policy_task_defaults(&world->policy);
	world->policy.min_backoff_ns = MS(20);
	rea_runner_options_init(&options);
	options.threads = threads;
	options.executor.concurrency = concurrency;
	options.executor.tasks_max = 10000;
	options.executor.event = count_event;
	options.executor.user_data = world;
	assert_int_equal(rea_runner_new(&options, NULL, &world->runner, NULL), 0);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(rea_runner_handle(world->runner, &handlers[i], NULL), 0);
}

static uint64_t submit(struct world *world, const char *handler)
{
	struct rea_task task;
	uint64_t id = 0;

	rea_task_init(&task);
	task.handler = handler;
	task.policy = &world->policy;
	task.grant.permission = REA_PERMISSION_IDEMPOTENT;
	task.done = done;
	task.user_data = world;
	assert_int_equal(rea_runner_submit(world->runner, &task, &id, NULL), 0);
	return id;
}

static void close_world(struct world *world)
{
	rea_runner_free(world->runner);
	assert_int_equal(world->overlaps, 0);
}

/* ---- ordinary life ---- */

static void tasks_are_retried_until_they_succeed(void **state)
{
	struct rea_executor_stats stats;
	struct world world;
	char text[1024];
	size_t length;

	(void)state;
	open_world(&world, 3, 0);
	for (int i = 0; i < 20; i++)
		submit(&world, "fail");
	await(&world.ended, 20);
	/* The last task keeps its place until its done() has returned, a moment after it has told. */
	do {
		sched_yield();
		length = rea_runner_explain(world.runner, text, sizeof(text));
	} while (strstr(text, "; 0 held, 0 waiting, 0 running") == NULL);
	rea_runner_stats(world.runner, &stats);
	close_world(&world);
	assert_int_equal(length, strlen(text));
	assert_non_null(strstr(
	    text, "executor: 3 attempts at once, 10000 tasks of at most 10 attempts; 0 held, 0 waiting, 0 running\n"));
	assert_int_equal(world.states[REA_TASK_SUCCESS], 20);
	assert_int_equal(world.begun, 60);
	assert_int_equal(world.events, 60);
	assert_in_range(world.running_max, 1, 3);
	assert_int_equal(stats.attempts[REA_OUTCOME_UNAVAILABLE], 40);
}

/* All workers but one are busy. */
static void one_free_thread_is_enough(void **state)
{
	struct world world;

	(void)state;
	open_world(&world, 3, 0);
	submit(&world, "wait");
	submit(&world, "wait");
	await(&world.begun, 2);
	submit(&world, "fail");
	submit(&world, "fail");
	await(&world.ended, 2);
	add(&world.open, 1);
	await(&world.ended, 4);
	close_world(&world);
	assert_int_equal(world.states[REA_TASK_SUCCESS], 4);
}

/* A sleeper that waits for a far time is woken by an earlier one. */
static void an_earlier_task_wakes_a_sleeper(void **state)
{
	struct rea_task task;
	struct world world;
	uint64_t id;

	(void)state;
	open_world(&world, 2, 0);
	rea_task_init(&task);
	task.handler = "fail";
	task.grant.permission = REA_PERMISSION_IDEMPOTENT;
	task.not_before_ns = rea_runner_now() + 3600 * REA_NS_PER_S;
	assert_int_equal(rea_runner_submit(world.runner, &task, &id, NULL), 0);
	submit(&world, "fail");
	await(&world.ended, 1);
	close_world(&world);
	assert_int_equal(world.states[REA_TASK_SUCCESS], 1);
}

static void an_attempt_may_go_on_elsewhere(void **state)
{
	struct rea_report report = {.outcome = REA_OUTCOME_UNAVAILABLE};
	enum rea_task_state task_state;
	struct world world;
	uint64_t first, id;

	(void)state;
	open_world(&world, 1, 4);
	id = submit(&world, "async");
	submit(&world, "async");
	/* One thread, several attempts: it does not wait for them. */
	await(&world.begun, 2);
	pthread_mutex_lock(&lock);
	first = world.attempt_ids[0];
	pthread_mutex_unlock(&lock);
	assert_int_equal(rea_runner_state(world.runner, id, &task_state), 0);
	assert_int_equal(task_state, REA_TASK_RUNNING);
	assert_int_equal(rea_runner_report(world.runner, first, &report), 0);
	assert_int_equal(rea_runner_report(world.runner, first, &report), REA_ERR_NOT_FOUND);
	await(&world.begun, 3);
	report.outcome = REA_OUTCOME_OK;
	pthread_mutex_lock(&lock);
	first = world.attempt_ids[2];
	pthread_mutex_unlock(&lock);
	assert_int_equal(rea_runner_report(world.runner, first, &report), 0);
	await(&world.ended, 1);
	assert_int_equal(rea_runner_state(world.runner, id, &task_state), REA_ERR_NOT_FOUND);
	close_world(&world);
	assert_int_equal(world.states[REA_TASK_SUCCESS], 1);
	assert_int_equal(world.states[REA_TASK_CANCELLED], 1);
}

/* ---- cancel ---- */

static void cancel_asks_a_blocked_thread(void **state)
{
	struct world world;
	uint64_t id;

	(void)state;
	/* The only one: who asks is another. */
	open_world(&world, 1, 0);
	id = submit(&world, "wait");
	await(&world.begun, 1);
	assert_int_equal(rea_runner_cancel(world.runner, id), 0);
	await(&world.ended, 1);
	assert_int_equal(world.states[REA_TASK_CANCELLED], 1);
	assert_int_equal(rea_runner_cancel(world.runner, id), REA_ERR_NOT_FOUND);
	/* Its slot is given back when the thread is. */
	submit(&world, "fail");
	await(&world.ended, 2);
	close_world(&world);
}

/* The executor has begun it, no thread has: it is over at once. */
static void cancel_what_no_thread_has_begun(void **state)
{
	struct rea_executor_stats stats;
	struct world world;
	uint64_t id;

	(void)state;
	open_world(&world, 1, 3);
	submit(&world, "wait");
	await(&world.begun, 1);
	id = submit(&world, "fail");
	submit(&world, "wait");
	submit(&world, "wait");
	do
		rea_runner_stats(world.runner, &stats);
	while (stats.running < 3);
	assert_int_equal(rea_runner_cancel(world.runner, id), 0);
	await(&world.ended, 1);
	add(&world.open, 1);
	await(&world.ended, 4);
	close_world(&world);
	assert_int_equal(world.states[REA_TASK_CANCELLED], 1);
	assert_int_equal(world.states[REA_TASK_SUCCESS], 3);
	assert_int_equal(world.begun, 3);
}

/* ---- shutdown ---- */

static void drain(void **state)
{
	struct world world;

	(void)state;
	open_world(&world, 4, 0);
	for (int i = 0; i < 10; i++)
		submit(&world, "fail");
	rea_runner_shutdown(world.runner, REA_SHUTDOWN_DRAIN, REA_NEVER);
	close_world(&world);
	assert_int_equal(world.states[REA_TASK_SUCCESS], 10);
	assert_int_equal(world.begun, 30);
}

/* At the deadline what blocks is asked to stop, and what waits is handed back. */
static void drain_until_a_deadline(void **state)
{
	struct world world;

	(void)state;
	open_world(&world, 2, 0);
	submit(&world, "wait");
	submit(&world, "wait");
	submit(&world, "fail");
	await(&world.begun, 2);
	rea_runner_shutdown(world.runner, REA_SHUTDOWN_DRAIN, rea_runner_now() + MS(30));
	close_world(&world);
	assert_int_equal(world.states[REA_TASK_HANDED_BACK], 3);
	assert_int_equal(world.begun, 2);
	assert_true(world.open > 0);
}

static void hand_back(void **state)
{
	struct world world;

	(void)state;
	open_world(&world, 1, 0);
	submit(&world, "wait");
	await(&world.begun, 1);
	submit(&world, "fail");
	rea_runner_shutdown(world.runner, REA_SHUTDOWN_HAND_BACK, REA_NEVER);
	add(&world.open, 1);
	close_world(&world);
	assert_int_equal(world.states[REA_TASK_SUCCESS], 1);
	assert_int_equal(world.states[REA_TASK_HANDED_BACK], 1);
}

static void free_cancels(void **state)
{
	struct rea_task task;
	struct world world;
	uint64_t id;

	(void)state;
	open_world(&world, 2, 0);
	submit(&world, "wait");
	await(&world.begun, 1);
	rea_task_init(&task);
	task.handler = "fail";
	task.not_before_ns = rea_runner_now() + 3600 * REA_NS_PER_S;
	task.done = done;
	task.user_data = &world;
	assert_int_equal(rea_runner_submit(world.runner, &task, &id, NULL), 0);
	close_world(&world);
	assert_int_equal(world.states[REA_TASK_CANCELLED], 2);
	rea_runner_free(NULL);
}

/* ---- callbacks that call back ---- */

static void submit_two_cancel_one(struct world *world, const struct rea_task_end *end)
{
	uint64_t id;

	/* Only this thread changes the counts. */
	if (end->state == REA_TASK_SUCCESS && world->states[REA_TASK_SUCCESS] < 9) {
		submit(world, "fail");
		id = submit(world, "async");
		assert_int_equal(rea_runner_cancel(world->runner, id), 0);
	}
}

static void a_done_callback_may_submit_and_cancel(void **state)
{
	struct world world;

	(void)state;
	open_world(&world, 2, 0);
	world.on_done = submit_two_cancel_one;
	submit(&world, "fail");
	await(&world.ended, 19);
	close_world(&world);
	assert_int_equal(world.states[REA_TASK_SUCCESS], 10);
	assert_int_equal(world.states[REA_TASK_CANCELLED], 9);
}

static bool submit_inside(const struct rea_attempt *attempt, struct rea_report *ret_report, void *user_data)
{
	struct world *world = user_data;

	submit(world, "fail");
	/* Its own task, while its thread is in here. */
	assert_int_equal(rea_runner_cancel(world->runner, attempt->task_id), 0);
	ret_report->outcome = REA_OUTCOME_OK;
	return true;
}

static void a_handler_may_submit_and_cancel(void **state)
{
	struct rea_handler handler = {.name = "nest", .attempt = submit_inside};
	struct world world;

	(void)state;
	open_world(&world, 1, 0);
	handler.user_data = &world;
	assert_int_equal(rea_runner_handle(world.runner, &handler, NULL), 0);
	submit(&world, "nest");
	await(&world.ended, 2);
	close_world(&world);
	assert_int_equal(world.states[REA_TASK_CANCELLED], 1);
	assert_int_equal(world.states[REA_TASK_SUCCESS], 1);
}

static void shut_down(struct world *world, const struct rea_task_end *end)
{
	(void)end;
	rea_runner_shutdown(world->runner, REA_SHUTDOWN_CANCEL, 0);
}

static void a_callback_may_shut_down(void **state)
{
	struct world world;

	(void)state;
	open_world(&world, 2, 0);
	world.on_done = shut_down;
	submit(&world, "fail");
	await(&world.ended, 1);
	close_world(&world);
	assert_int_equal(world.ended, 1);
}

/* ---- bounds ---- */

static void options_out_of_bounds_build_nothing(void **state)
{
	static const struct {
		uint32_t threads, concurrency;
		const char *key, *message;
	} cases[] = {
	    {0, 0, "threads", "threads is 0; it must be at least 1 and at most 1024"},
	    {1025, 0, "threads", "threads is 1025; it must be at least 1 and at most 1024"},
	    {2, 10001, "concurrency", "concurrency is 10001; it must be at least 1 and at most 10000"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rea_runner_options options;
		struct rea_runner *runner = NULL;
		struct rea_error_info info;

		rea_runner_options_init(&options);
		options.threads = cases[i].threads;
		options.executor.concurrency = cases[i].concurrency;
		assert_int_equal(rea_runner_new(&options, NULL, &runner, &info), REA_ERR_INVALID);
		assert_string_equal(info.key, cases[i].key);
		assert_string_equal(info.message, cases[i].message);
		assert_null(runner);
	}
}

static void refusals_are_the_executors(void **state)
{
	struct rea_handler handler = {.name = "fail", .attempt = fail_twice};
	struct rea_error_info info;
	struct rea_task task;
	struct world world;
	uint64_t id = 5;

	(void)state;
	open_world(&world, 1, 0);
	assert_int_equal(rea_runner_handle(world.runner, &handler, &info), REA_ERR_INVALID);
	assert_string_equal(info.message, "handler \"fail\" is there already");
	handler.name = "none";
	handler.attempt = NULL;
	assert_int_equal(rea_runner_handle(world.runner, &handler, &info), REA_ERR_INVALID);
	assert_string_equal(info.message, "handler \"none\" has no attempt function");
	rea_task_init(&task);
	task.handler = "none";
	assert_int_equal(rea_runner_submit(world.runner, &task, &id, NULL), REA_ERR_NOT_FOUND);
	assert_int_equal(id, 5);
	rea_runner_shutdown(world.runner, REA_SHUTDOWN_DRAIN, REA_NEVER);
	task.handler = "fail";
	assert_int_equal(rea_runner_submit(world.runner, &task, &id, NULL), REA_ERR_CLOSED);
	close_world(&world);
}

/* ---- everything at once ---- */

enum { STORMERS = 8, STORM = 200 };

struct stormer {
	struct world *world;
	pthread_t thread;
	struct rea_random random;
};

static bool storm_attempt(const struct rea_attempt *attempt, struct rea_report *ret_report, void *user_data)
{
	struct world *world = user_data;

	(void)attempt;
	pthread_mutex_lock(&lock);
	world->running++;
	if (world->running > world->running_max)
		world->running_max = world->running;
	world->running--;
	pthread_mutex_unlock(&lock);
	ret_report->outcome = attempt->id % 3 == 0 ? REA_OUTCOME_UNAVAILABLE : REA_OUTCOME_OK;
	return true;
}

static void *storm(void *user_data)
{
	struct stormer *stormer = user_data;
	struct world *world = stormer->world;
	uint64_t ids[STORM];

	for (uint32_t i = 0; i < STORM; i++) {
		struct rea_report report = {.outcome = REA_OUTCOME_OK};
		struct rea_executor_stats stats;
		uint64_t choice = rea_random_below(&stormer->random, 8);

		ids[i] = submit(world, choice < 5 ? "storm" : "async");
		if (choice == 0)
			rea_runner_cancel(world->runner, ids[rea_random_below(&stormer->random, i + 1)]);
		if (choice == 1)
			rea_runner_stats(world->runner, &stats);
		if (choice > 4) {
			uint64_t id;

			pthread_mutex_lock(&lock);
			id = world->attempt_ids[rea_random_below(&stormer->random, 64)];
			pthread_mutex_unlock(&lock);
			rea_runner_report(world->runner, id, &report);
		}
	}
	return NULL;
}

static void eight_threads_storm(void **state)
{
	struct rea_handler handler = {.name = "storm", .attempt = storm_attempt};
	struct stormer stormers[STORMERS];
	struct rea_executor_stats stats;
	struct world world;
	uint64_t ended = 0;

	(void)state;
	open_world(&world, 8, 32);
	handler.user_data = &world;
	assert_int_equal(rea_runner_handle(world.runner, &handler, NULL), 0);
	/* Later ones may find all slots taken by attempts that nobody reports. */
	for (int i = 0; i < STORMERS; i++)
		submit(&world, "storm");
	await(&world.ended, STORMERS);
	for (uint64_t i = 0; i < STORMERS; i++) {
		stormers[i].world = &world;
		rea_random_init(&stormers[i].random, i);
		assert_int_equal(pthread_create(&stormers[i].thread, NULL, storm, &stormers[i]), 0);
	}
	for (size_t i = 0; i < STORMERS; i++)
		assert_int_equal(pthread_join(stormers[i].thread, NULL), 0);
	rea_runner_stats(world.runner, &stats);
	assert_int_equal(stats.submitted, STORMERS * (STORM + 1));
	assert_true(stats.running <= 32);
	rea_runner_shutdown(world.runner, REA_SHUTDOWN_HAND_BACK, rea_runner_now() + MS(50));
	close_world(&world);
	for (size_t i = 0; i < REA_TASK_STATE_COUNT; i++)
		ended += world.states[i];
	assert_int_equal(ended, STORMERS * (STORM + 1));
	assert_int_equal(world.ended, STORMERS * (STORM + 1));
	assert_in_range(world.running_max, 1, 8);
	assert_true(world.states[REA_TASK_SUCCESS] > 0 && world.states[REA_TASK_CANCELLED] > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(tasks_are_retried_until_they_succeed),
	    cmocka_unit_test(one_free_thread_is_enough),
	    cmocka_unit_test(an_earlier_task_wakes_a_sleeper),
	    cmocka_unit_test(an_attempt_may_go_on_elsewhere),
	    cmocka_unit_test(cancel_asks_a_blocked_thread),
	    cmocka_unit_test(cancel_what_no_thread_has_begun),
	    cmocka_unit_test(drain),
	    cmocka_unit_test(drain_until_a_deadline),
	    cmocka_unit_test(hand_back),
	    cmocka_unit_test(free_cancels),
	    cmocka_unit_test(a_done_callback_may_submit_and_cancel),
	    cmocka_unit_test(a_handler_may_submit_and_cancel),
	    cmocka_unit_test(a_callback_may_shut_down),
	    cmocka_unit_test(options_out_of_bounds_build_nothing),
	    cmocka_unit_test(refusals_are_the_executors),
	    cmocka_unit_test(eight_threads_storm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
