/* The golden decision trace, played through the executor: it decides what the engine decides, at the same times, with the same draws. */
#include "../core/trace_script.h"

#include <rea/executor.h>

struct run {
	struct rea_executor *executor;
	struct player *player;
	uint64_t id, attempt_id;
	bool begun; /* the handler has an attempt */
	bool ended; /* the task has left */
};

static bool attempt(const struct rea_attempt *attempt, struct rea_report *ret_report, void *user_data)
{
	struct run *run = user_data;

	(void)ret_report;
	run->begun = true;
	run->attempt_id = attempt->id;
	run->player->instance = attempt->instance_id;
	run->player->rig.decision = (struct rea_decision){.step = REA_STEP_ATTEMPT,
	    .verdict = REA_VERDICT_RETRY,
	    .attempt = attempt->number,
	    .attempts_max = attempt->attempts_max};
	return false;
}

static const struct rea_instances *instances(void *user_data)
{
	struct run *run = user_data;

	return &run->player->rig.list;
}

static void event(struct rea_event *event, void *user_data)
{
	struct run *run = user_data;
	bool waits = event->type == REA_EVENT_RETRY;

	run->player->rig.decision = (struct rea_decision){.step = waits ? REA_STEP_WAIT : REA_STEP_DONE,
	    .verdict = event->verdict,
	    .reason = event->reason,
	    .would_retry = event->type == REA_EVENT_WOULD_RETRY,
	    .attempt = event->attempt,
	    .attempts_max = event->attempts_max,
	    .wait_ns = event->next_delay_ns,
	    .wait_until_ns = waits ? event->time_ns + event->next_delay_ns : 0};
}

static void done(const struct rea_task_end *end, void *user_data)
{
	struct run *run = user_data;
	struct rea_decision *decision = &run->player->rig.decision;

	run->ended = true;
	decision->step = REA_STEP_DONE;
	decision->verdict = end->state == REA_TASK_SUCCESS ? REA_VERDICT_SUCCESS : REA_VERDICT_GIVE_UP;
	decision->reason = end->reason;
	decision->attempt = end->attempts;
	decision->attempts_max = end->attempts_max;
}

static void begin(struct player *player)
{
	struct run *run = player->user_data;
	struct rea_executor_options options;
	struct rea_handler handler = {
	    .name = "call", .attempt = attempt, .instances = instances, .budget = player->budget, .user_data = run};
	struct rea_task task;

	*run = (struct run){.player = player};
	rea_executor_options_init(&options);
	options.seed = player->seed;
	options.event = event;
	options.user_data = run;
	assert_int_equal(rea_executor_new(&options, NULL, &run->executor, NULL), 0);
	assert_int_equal(rea_executor_handle(run->executor, &handler, NULL), 0);
	rea_task_init(&task);
	task.handler = "call";
	task.policy = &player->rig.policy;
	task.grant = player->rig.options.grant;
	task.chained = player->rig.options.chained;
	if (player->rig.options.has_key)
		task.key = (struct rea_text){"key", 3};
	task.done = done;
	task.user_data = run;
	assert_int_equal(rea_executor_submit(run->executor, &task, player->now_ns, &run->id, NULL), 0);
}

static void next(struct player *player)
{
	struct run *run = player->user_data;

	run->begun = false;
	assert_true(rea_executor_next(run->executor) <= player->now_ns);
	rea_executor_run(run->executor, player->now_ns);
	assert_true(run->begun != run->ended);
}

static void report(struct player *player, const struct rea_report *report)
{
	struct run *run = player->user_data;

	assert_int_equal(rea_executor_report(run->executor, run->attempt_id, report, player->now_ns), 0);
	rea_executor_run(run->executor, player->now_ns);
	if (player->rig.decision.step == REA_STEP_WAIT)
		assert_true(rea_executor_next(run->executor) == player->rig.decision.wait_until_ns);
}

static void cancel(struct player *player)
{
	struct run *run = player->user_data;

	assert_int_equal(rea_executor_cancel(run->executor, run->id, player->now_ns), 0);
	rea_executor_run(run->executor, player->now_ns);
}

static void end(struct player *player)
{
	struct run *run = player->user_data;
	struct rea_report late = {.outcome = REA_OUTCOME_OK};

	/* The handler of a cancelled attempt has the last word. */
	rea_executor_report(run->executor, run->attempt_id, &late, player->now_ns);
	assert_true(run->ended);
	rea_executor_free(run->executor);
}

static void the_script(void **state)
{
	static const struct face face = {begin, next, report, cancel, end};
	struct run run;

	(void)state;
	assert_script(&face, &run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_script)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
