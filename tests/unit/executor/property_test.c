/*
 * Random submits, cancels, reports, times and shutdowns, from outside and from inside of callbacks, against a model that
 * knows little: the limits hold, nothing runs early or out of turn, and every task leaves exactly once.
 */
#include <rea/executor.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MS(n) ((uint64_t)(n)*REA_NS_PER_MS)

enum { ROUNDS = 10000, STEPS = 150, TASKS = 400, SLOTS_MAX = 4, HELD_MAX = 12 };

/* A task, as far as its callbacks have told. */
struct known {
	struct world *world;
	uint64_t id;
	uint64_t due_ns; /* not before */
	uint64_t arrival;
	uint32_t attempts; /* begun */
	bool waiting;      /* submitted or told to retry, and not begun */
	bool cancelled;    /* cancel returned 0 */
	uint32_t ends, last_events;
	bool repeatable;
};

/* An attempt that its handler has. */
struct flight {
	uint64_t id;
	struct known *task;
	bool stopping; /* its hook was called and said that it goes on */
};

struct world {
	struct rea_random random; /* of the test */
	struct rea_executor *executor;
	struct rea_policy policy;
	struct known tasks[TASKS];
	size_t tasks_len, held; /* held: submitted and not ended */
	struct flight flights[SLOTS_MAX];
	size_t flights_len, slots;
	uint64_t late_ids[8]; /* of attempts that are over */
	uint64_t now_ns, arrivals;
	uint64_t retries, events, first_try_successes, cancels_kept;
	bool closed, in_run;
	uint32_t depth;
};

static uint64_t below(struct world *world, uint64_t bound)
{
	return rea_random_below(&world->random, bound);
}

static bool one_in(struct world *world, uint64_t bound)
{
	return below(world, bound) == 0;
}

static void end_flight(struct world *world, size_t index)
{
	world->late_ids[below(world, 8)] = world->flights[index].id;
	world->flights[index] = world->flights[--world->flights_len];
}

/* ---- what callbacks do to the executor ---- */

static void submit(struct world *world);

static void cancel_any(struct world *world)
{
	struct known *task;

	if (world->tasks_len == 0)
		return;
	task = &world->tasks[below(world, world->tasks_len)];
	if (rea_executor_cancel(world->executor, task->id, world->now_ns) == 0) {
		assert_int_equal(task->ends, 0);
		task->cancelled = true;
		/* It may be told only later, but it is not begun any more. */
		task->waiting = false;
	} else {
		assert_int_equal(task->ends, 1);
	}
}

static struct rea_report random_report(struct world *world)
{
	static const enum rea_outcome outcomes[] = {REA_OUTCOME_OK, REA_OUTCOME_UNAVAILABLE, REA_OUTCOME_UNAVAILABLE,
	    REA_OUTCOME_AMBIGUOUS, REA_OUTCOME_NEVER_SENT, REA_OUTCOME_PERMANENT};

	return (struct rea_report){.outcome = outcomes[below(world, 6)]};
}

static void report_any(struct world *world)
{
	struct rea_report report = random_report(world);
	struct flight flight;
	size_t index;
	int error;

	if (world->flights_len == 0)
		return;
	index = below(world, world->flights_len);
	flight = world->flights[index];
	end_flight(world, index);
	error = rea_executor_report(world->executor, flight.id, &report, world->now_ns);
	/* A shutdown stops what nobody has cancelled. */
	if (flight.task->cancelled || flight.stopping || (world->closed && error != 0))
		assert_int_equal(error, REA_ERR_NOT_FOUND);
	else
		assert_int_equal(error, 0);
}

static void report_late(struct world *world)
{
	struct rea_report report = random_report(world);

	assert_int_equal(rea_executor_report(world->executor, world->late_ids[below(world, 8)], &report, world->now_ns),
	    REA_ERR_NOT_FOUND);
}

static void disturb(struct world *world)
{
	if (world->depth > 0)
		return;
	world->depth++;
	switch (below(world, 16)) {
	case 0:
		submit(world);
		break;
	case 1:
		cancel_any(world);
		break;
	case 2:
		report_any(world);
		break;
	case 3:
		report_late(world);
		break;
	case 4:
		rea_executor_run(world->executor, world->now_ns);
		break;
	default:
		break;
	}
	world->depth--;
}

/* ---- callbacks ---- */

/* Whose turn is it? Nobody waits who is due earlier, or as early and came before. */
static void assert_turn(const struct world *world, const struct known *task)
{
	for (size_t i = 0; i < world->tasks_len; i++) {
		const struct known *other = &world->tasks[i];

		if (!other->waiting || other == task)
			continue;
		assert_true(
		    other->due_ns > task->due_ns || (other->due_ns == task->due_ns && other->arrival > task->arrival));
	}
}

static bool attempt(const struct rea_attempt *attempt, struct rea_report *ret_report, void *user_data)
{
	struct world *world = user_data;
	struct known *task = attempt->task_data;
	uint64_t id = attempt->id;

	assert_true(world->in_run);
	assert_true(task->waiting && !task->cancelled);
	assert_int_equal(task->ends, 0);
	assert_true(world->now_ns >= task->due_ns);
	assert_turn(world, task);
	assert_true(attempt->task_id == task->id);
	assert_int_equal(attempt->number, task->attempts + 1);
	assert_true(attempt->number <= attempt->attempts_max);
	assert_int_equal(attempt->key.length, 3);
	task->attempts++;
	task->waiting = false;
	world->retries += attempt->number > 1;
	assert_true(world->flights_len < world->slots);
	world->flights[world->flights_len++] = (struct flight){id, task, false};
	disturb(world);
	/* The disturbance may have reported it. */
	for (size_t i = 0; i < world->flights_len; i++) {
		if (world->flights[i].id == id && one_in(world, 2)) {
			end_flight(world, i);
			*ret_report = random_report(world);
			return true;
		}
	}
	return false;
}

static bool stop(const struct rea_attempt *attempt, void *user_data)
{
	struct world *world = user_data;
	uint64_t id = attempt->id;

	assert_true(world->in_run);
	disturb(world);
	for (size_t i = 0; i < world->flights_len; i++) {
		if (world->flights[i].id != id)
			continue;
		if (one_in(world, 2)) {
			end_flight(world, i);
			return true;
		}
		world->flights[i].stopping = true;
	}
	return false;
}

static void event(struct rea_event *event, void *user_data)
{
	struct world *world = user_data;
	uint64_t id = 0;
	struct known *task = NULL;

	for (size_t i = 0; i < event->call_id.length; i++)
		id = id * 10 + (uint64_t)(event->call_id.text[i] - '0');
	for (size_t i = 0; i < world->tasks_len; i++)
		if (world->tasks[i].id == id)
			task = &world->tasks[i];
	assert_non_null(task);
	assert_true(world->in_run);
	world->events++;
	assert_int_equal(task->ends + task->last_events, 0);
	if (event->type == REA_EVENT_RETRY) {
		assert_true(task->repeatable);
		assert_true(event->next_delay_ns >= MS(20));
		task->due_ns = event->time_ns + event->next_delay_ns;
		disturb(world);
		task->arrival = world->arrivals++;
		task->waiting = !task->cancelled;
		return;
	}
	task->last_events++;
	disturb(world);
}

static void done(const struct rea_task_end *end, void *user_data)
{
	struct known *task = user_data;
	struct world *world = task->world;

	assert_true(world->in_run);
	assert_true(end->id == task->id);
	assert_int_equal(++task->ends, 1);
	assert_int_equal(end->attempts, task->attempts);
	world->first_try_successes += end->state == REA_TASK_SUCCESS && end->attempts == 1;
	assert_int_equal(task->last_events,
	    end->state != REA_TASK_HANDED_BACK && !(end->state == REA_TASK_SUCCESS && end->attempts == 1));
	if (end->state == REA_TASK_CANCELLED)
		assert_true(task->cancelled || world->closed);
	if (end->state == REA_TASK_HANDED_BACK)
		assert_true(world->closed && !task->cancelled);
	task->waiting = false;
	world->held--;
	disturb(world);
}

static void submit(struct world *world)
{
	struct known *known = &world->tasks[world->tasks_len];
	struct rea_task task;
	int error;

	if (world->tasks_len == TASKS)
		return;
	*known = (struct known){.world = world, .repeatable = !one_in(world, 5)};
	rea_task_init(&task);
	task.handler = "work";
	task.policy = &world->policy;
	task.grant.permission = known->repeatable ? REA_PERMISSION_IDEMPOTENT_WITH_KEY : REA_PERMISSION_UNKNOWN;
	task.key = (struct rea_text){"key", 3};
	task.done = done;
	task.user_data = known;
	if (one_in(world, 2))
		task.not_before_ns = world->now_ns + MS(below(world, 200));
	known->due_ns = rea_time_max(task.not_before_ns, world->now_ns);
	error = rea_executor_submit(world->executor, &task, world->now_ns, &known->id, NULL);
	if (world->closed || world->held == HELD_MAX) {
		assert_int_equal(error, world->closed ? REA_ERR_CLOSED : REA_ERR_FULL);
		return;
	}
	assert_int_equal(error, 0);
	for (size_t i = 0; i < world->tasks_len; i++)
		assert_true(world->tasks[i].id != known->id);
	known->arrival = world->arrivals++;
	/* What a callback adds has its turn in the next run. */
	known->waiting = true;
	world->tasks_len++;
	world->held++;
}

/* ---- the world outside ---- */

static void run(struct world *world)
{
	assert_int_equal(world->depth, 0);
	world->in_run = true;
	/* Callbacks that submit would be compared with what is already in the private list: they only watch. */
	rea_executor_run(world->executor, world->now_ns);
	world->in_run = false;
}

static void assert_stats(struct world *world)
{
	struct rea_executor_stats stats;
	uint64_t ended = 0;

	rea_executor_stats(world->executor, &stats);
	for (int i = 0; i < REA_TASK_STATE_COUNT; i++)
		ended += stats.ended[i];
	assert_int_equal(stats.tasks, world->held);
	assert_int_equal(stats.submitted, world->tasks_len);
	assert_int_equal(stats.submitted, ended + stats.tasks);
	assert_true(stats.running <= world->slots && stats.running >= world->flights_len);
	assert_int_equal(stats.events, world->events);
	assert_int_equal(stats.first_try_successes, world->first_try_successes);
	assert_int_equal(stats.retries, world->retries);
}

static void step(struct world *world)
{
	uint64_t next_ns;

	switch (below(world, 6)) {
	case 0:
	case 1:
		submit(world);
		break;
	case 2:
		report_any(world);
		break;
	case 3:
		if (one_in(world, 3))
			cancel_any(world);
		else
			report_late(world);
		break;
	case 4:
		world->now_ns += MS(below(world, 60));
		run(world);
		break;
	default:
		next_ns = rea_executor_next(world->executor);
		if (next_ns != REA_NEVER)
			world->now_ns = rea_time_max(world->now_ns, next_ns);
		run(world);
		/* A run leaves nothing behind that could be done now, save what its callbacks added. */
		break;
	}
	assert_stats(world);
}

static void close_world(struct world *world)
{
	enum rea_shutdown mode = (enum rea_shutdown)(1 + below(world, 3));
	uint64_t deadline_ns = world->now_ns + MS(below(world, 300)), patience = 10000;
	struct rea_executor_stats stats;

	world->closed = true;
	rea_executor_shutdown(world->executor, mode, deadline_ns);
	for (;;) {
		uint64_t next_ns = rea_executor_next(world->executor);

		rea_executor_stats(world->executor, &stats);
		if (stats.tasks == 0)
			break;
		assert_true(patience-- > 0 && next_ns != REA_NEVER);
		world->now_ns = rea_time_max(world->now_ns, next_ns);
		run(world);
		assert_true(world->held == 0 || world->now_ns <= deadline_ns);
	}
	/* The last words of those who did not stop. */
	while (world->flights_len > 0)
		report_any(world);
	assert_stats(world);
	for (size_t i = 0; i < world->tasks_len; i++)
		assert_int_equal(world->tasks[i].ends, 1);
	rea_executor_free(world->executor);
}

static void open_world(struct world *world, uint64_t seed)
{
	struct rea_executor_options options;
	struct rea_handler handler = {.name = "work", .attempt = attempt, .cancel = stop, .user_data = world};

	memset(world, 0, sizeof(*world));
	rea_random_init(&world->random, seed);
	world->now_ns = MS(1000000);
	world->slots = 1 + below(world, SLOTS_MAX);
	rea_policy_task_defaults(&world->policy);
	world->policy.max_retry_next_instance = (uint32_t)below(world, 5);
	world->policy.min_backoff_ns = MS(20 + below(world, 50));
	if (one_in(world, 4)) {
		world->policy.deadline_ns = MS(100);
		world->policy.attempt_timeout_ns = MS(50);
	}
	rea_executor_options_init(&options);
	options.concurrency = (uint32_t)world->slots;
	options.tasks_max = HELD_MAX;
	options.seed = seed;
	options.event = event;
	options.user_data = world;
	assert_int_equal(rea_executor_new(&options, NULL, &world->executor, NULL), 0);
	assert_int_equal(rea_executor_handle(world->executor, &handler, NULL), 0);
}

static void any_history(void **state)
{
	static struct world world;
	uint64_t attempts = 0;

	(void)state;
	for (uint64_t round = 0; round < ROUNDS; round++) {
		open_world(&world, round);
		for (int i = 0; i < STEPS; i++)
			step(&world);
		close_world(&world);
		for (size_t i = 0; i < world.tasks_len; i++)
			attempts += world.tasks[i].attempts;
	}
	/* It was not idle. */
	assert_true(attempts > ROUNDS * 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(any_history)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
