/* What the executor promises, one promise after the other. */
#include "rig.h"

#include "executor/task.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdlib.h>

/* ---- order and slots ---- */

static void due_tasks_run_by_time_then_arrival(void **state)
{
	static const char *const names[] = {"a", "b", "c", "d", "e"};
	static const uint64_t at_ms[] = {20, 10, 0, 10, 20};
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	for (size_t i = 0; i < 5; i++) {
		struct item *item = rig_item(&rig, names[i], "o");

		item->task.not_before_ns = rig.base_ns + MS(at_ms[i]);
		rig_submit_item(item);
	}
	assert_true(rea_executor_next(rig.executor) == rig.base_ns);
	rig_run(&rig, 0);
	assert_true(rea_executor_next(rig.executor) == rig.base_ns + MS(10));
	rig_run(&rig, 9);
	rig_expect(&rig, "0 attempt c 1/3\n0 done c SUCCESS 1 ok\n");
	rig_run(&rig, 25);
	rig_expect(&rig,
	    "25 attempt b 1/3\n25 attempt d 1/3\n25 attempt a 1/3\n25 attempt e 1/3\n"
	    "25 done b SUCCESS 1 ok\n25 done d SUCCESS 1 ok\n25 done a SUCCESS 1 ok\n25 done e SUCCESS 1 ok\n");
	assert_idle(&rig);
	rig_close(&rig);
}

static void never_more_than_there_are_slots(void **state)
{
	struct item *items[5];
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.options.concurrency = 2;
	rig_open(&rig);
	for (size_t i = 0; i < 5; i++)
		items[i] = rig_submit(&rig, (const char *[]){"a", "b", "c", "d", "e"}[i], "-");
	rig_run(&rig, 0);
	rig_run(&rig, 1);
	rig_expect(&rig, "0 attempt a 1/3\n0 attempt b 1/3\n");
	assert_int_equal(rig_stats(&rig).running, 2);
	assert_int_equal(rig_stats(&rig).waiting, 3);
	/* What is due waits for a slot, and nothing is gained by looking again before one is free. */
	assert_true(rea_executor_next(rig.executor) == REA_NEVER);
	assert_int_equal(rig_report_item(items[1], 'o'), 0);
	assert_true(rea_executor_next(rig.executor) == 0);
	rig_run(&rig, 2);
	rig_expect(&rig, "2 done b SUCCESS 1 ok\n2 attempt c 1/3\n");
	rig_report_item(items[0], 'o');
	rig_report_item(items[2], 'o');
	rig_run(&rig, 3);
	rig_expect(&rig, "3 done a SUCCESS 1 ok\n3 done c SUCCESS 1 ok\n3 attempt d 1/3\n3 attempt e 1/3\n");
	rig_report_item(items[3], 'o');
	rig_report_item(items[4], 'o');
	rig_run(&rig, 4);
	assert_idle(&rig);
	rig_close(&rig);
}

static void time_never_runs_backwards(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_submit(&rig, "a", "uo");
	rig_run(&rig, 50);
	rig_expect(&rig, "50 attempt a 1/3\n50 Retry a 1 unavailable 503 wait=100\n");
	rig_run(&rig, 10);
	rig_run(&rig, 149);
	rig_expect(&rig, "");
	rea_executor_run(rig.executor, 0);
	assert_true(rea_executor_next(rig.executor) == rig.base_ns + MS(150));
	rig.now_ns = rig.base_ns;
	rig_submit(&rig, "b", "o");
	assert_true(rea_executor_next(rig.executor) == rig.base_ns + MS(149));
	rig_run(&rig, 150);
	rig_expect(&rig, "150 attempt b 1/3\n"
			 "150 attempt a 2/3\n"
			 "150 done b SUCCESS 1 ok\n"
			 "150 Success a 2 ok\n"
			 "150 done a SUCCESS 2 ok\n");
	rig_close(&rig);
}

/* Waits of the default policy are spread, and differ from seed to seed. */
static void jitter_is_always_on(void **state)
{
	uint64_t waits[20];
	size_t different = 0;

	(void)state;
	for (size_t seed = 0; seed < 20; seed++) {
		struct item *item;
		struct rig rig;

		rig_init(&rig);
		rig.options.seed = seed;
		rig_open(&rig);
		item = rig_item(&rig, "a", "u");
		item->task.policy = NULL;
		rig_submit_item(item);
		rig_run(&rig, 0);
		waits[seed] = rea_executor_next(rig.executor) - rig.base_ns;
		assert_in_range(waits[seed], MS(160), MS(240));
		different += seed > 0 && waits[seed] != waits[seed - 1];
		rig_close(&rig);
	}
	assert_int_equal(different, 19);
}

/* ---- defaults and bounds ---- */

static void the_defaults_are_those_of_the_design(void **state)
{
	struct rea_executor_options options;
	struct rea_policy policy;
	struct rea_task task;

	(void)state;
	rea_policy_task_defaults(&policy);
	assert_true(policy.enabled);
	assert_int_equal(rea_policy_attempts(&policy), 3);
	assert_true(policy.min_backoff_ns == MS(200) && policy.max_backoff_ns == S(10));
	assert_true(policy.backoff_multiplier == 1.5 && policy.jitter == 0.2);
	assert_int_equal(policy.retry_on, REA_OUTCOME_BIT(REA_OUTCOME_NEVER_SENT) | REA_OUTCOME_BIT(REA_OUTCOME_UNAVAILABLE) |
					      REA_OUTCOME_BIT(REA_OUTCOME_AMBIGUOUS));
	assert_int_equal(policy.when_all_tried, REA_ALL_TRIED_CYCLE);
	assert_int_equal(rea_policy_validate_task(&policy, REA_ATTEMPTS_MAX, NULL), 0);
	rea_executor_options_init(&options);
	assert_int_equal(options.concurrency, 16);
	assert_int_equal(options.tasks_max, 1000);
	assert_int_equal(options.task_attempts_max, 10);
	rea_task_init(&task);
	assert_int_equal(task.grant.permission, REA_PERMISSION_NONE);
	assert_true(task.deadline_ns == REA_NEVER && task.not_before_ns == 0);
}

static void assert_refused(int error, const struct rea_error_info *info, const char *key, const char *message)
{
	assert_int_equal(error, REA_ERR_INVALID);
	assert_string_equal(info->key, key);
	assert_string_equal(info->message, message);
}

static void options_out_of_bounds_build_nothing(void **state)
{
	static const struct {
		size_t offset;
		uint32_t good[2], bad[2];
		const char *key, *messages[2];
	} cases[] = {
	    {offsetof(struct rea_executor_options, concurrency), {1, 10000}, {0, 10001}, "concurrency",
		{"concurrency is 0; it must be at least 1 and at most 10000",
		    "concurrency is 10001; it must be at least 1 and at most 10000"}},
	    {offsetof(struct rea_executor_options, tasks_max), {1, 1 << 24}, {0, (1 << 24) + 1}, "tasks_max",
		{"tasks_max is 0; it must be at least 1 and at most 16777216",
		    "tasks_max is 16777217; it must be at least 1 and at most 16777216"}},
	    {offsetof(struct rea_executor_options, task_attempts_max), {1, 100}, {0, 101}, "task_attempts_max",
		{"task_attempts_max is 0; it must be at least 1 and at most 100",
		    "task_attempts_max is 101; it must be at least 1 and at most 100"}},
	};

	(void)state;
	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		struct rea_executor_options options;
		struct rea_executor *executor = NULL;
		struct rea_error_info info;
		size_t c = i / 2;

		rea_executor_options_init(&options);
		memcpy((char *)&options + cases[c].offset, &cases[c].good[i % 2], sizeof(uint32_t));
		assert_int_equal(rea_executor_new(&options, NULL, &executor, &info), 0);
		rea_executor_free(executor);
		executor = NULL;
		memcpy((char *)&options + cases[c].offset, &cases[c].bad[i % 2], sizeof(uint32_t));
		assert_refused(
		    rea_executor_new(&options, NULL, &executor, &info), &info, cases[c].key, cases[c].messages[i % 2]);
		assert_null(executor);
		assert_int_equal(rea_executor_new(&options, NULL, &executor, NULL), REA_ERR_INVALID);
	}
	rea_executor_free(NULL);
}

static void handlers_have_a_name_of_their_own(void **state)
{
	char longest[REA_TASK_TEXT_MAX + 2], number[16];
	struct rea_error_info info;
	struct rea_handler handler;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	handler = rig.handler;
	assert_refused(
	    rea_executor_handle(rig.executor, &handler, &info), &info, "handler", "handler \"work\" is there already");
	handler.name = "";
	assert_refused(rea_executor_handle(rig.executor, &handler, &info), &info, "handler",
	    "handler \"\" has no name of 1 to 1024 bytes");
	memset(longest, 'x', sizeof(longest));
	longest[REA_TASK_TEXT_MAX + 1] = '\0';
	handler.name = longest;
	assert_int_equal(rea_executor_handle(rig.executor, &handler, NULL), REA_ERR_INVALID);
	longest[REA_TASK_TEXT_MAX] = '\0';
	assert_int_equal(rea_executor_handle(rig.executor, &handler, NULL), 0);
	handler.name = "idle";
	handler.attempt = NULL;
	assert_refused(rea_executor_handle(rig.executor, &handler, &info), &info, "handler",
	    "handler \"idle\" has no attempt function");
	handler.attempt = rig_attempt;
	handler.name = number;
	for (int i = 2; i < REA_EXECUTOR_HANDLERS_MAX; i++) {
		snprintf(number, sizeof(number), "%d", i);
		assert_int_equal(rea_executor_handle(rig.executor, &handler, NULL), 0);
	}
	snprintf(number, sizeof(number), "last");
	assert_int_equal(rea_executor_handle(rig.executor, &handler, &info), REA_ERR_LIMIT);
	assert_string_equal(info.message, "handler \"last\" is one more than 1000");
	rig_close(&rig);
}

#define REFUSE(change, key, message)                                                                                     \
	do {                                                                                                             \
		struct item *item = rig_item(&rig, "a", "o");                                                            \
		struct rea_policy p = rig.policy;                                                                        \
		struct rea_task *t = &item->task;                                                                        \
		t->policy = &p;                                                                                          \
		change;                                                                                                  \
		assert_refused(rea_executor_submit(rig.executor, t, rig.now_ns, &item->id, &info), &info, key, message); \
		assert_int_equal(rea_executor_submit(rig.executor, t, rig.now_ns, &item->id, NULL), REA_ERR_INVALID);    \
		rig.items_len--;                                                                                         \
	} while (0)
#define ACCEPT(change)                                                                                   \
	do {                                                                                             \
		struct item *item = rig_item(&rig, "a", "o");                                            \
		struct rea_policy p = rig.policy;                                                        \
		struct rea_task *t = &item->task;                                                        \
		t->policy = &p;                                                                          \
		change;                                                                                  \
		assert_int_equal(rea_executor_submit(rig.executor, t, rig.now_ns, &item->id, &info), 0); \
		rig_run_until(&rig, 0);                                                                  \
		assert_int_equal(item->ended, 1);                                                        \
		rig.items_len--;                                                                         \
	} while (0)

static char megabytes[REA_TASK_PAYLOAD_MAX + 1];

static void tasks_out_of_bounds_are_refused(void **state)
{
	struct rea_error_info info;
	struct rea_instance_id tried[3] = {{.port = 1}, {.port = 2}, {.port = 3}};
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig.log_len = 0;
	ACCEPT(t->biz_id = ((struct rea_text){megabytes, REA_TASK_TEXT_MAX}));
	REFUSE(t->biz_id = ((struct rea_text){megabytes, REA_TASK_TEXT_MAX + 1}), "biz_id",
	    "the length of biz_id is 1025; it must be at most 1024");
	REFUSE(t->name = ((struct rea_text){megabytes, REA_TASK_TEXT_MAX + 1}), "name",
	    "the length of name is 1025; it must be at most 1024");
	REFUSE(t->trace_id = ((struct rea_text){megabytes, REA_TASK_TEXT_MAX + 1}), "trace_id",
	    "the length of trace_id is 1025; it must be at most 1024");
	REFUSE(t->key = ((struct rea_text){megabytes, REA_TASK_TEXT_MAX + 1}), "key",
	    "the length of key is 1025; it must be at most 1024");
	ACCEPT((t->payload = megabytes, t->payload_len = REA_TASK_PAYLOAD_MAX));
	REFUSE((t->payload = megabytes, t->payload_len = REA_TASK_PAYLOAD_MAX + 1), "payload_len",
	    "payload_len is 16777217; it must be at most 16777216");
	REFUSE(t->version = 0, "version", "the task's version is 0; it must be at least 1 and at most 1 (rea_task_init)");
	REFUSE(t->grant.permission = REA_PERMISSION_COUNT, "grant", "grant.permission is 6; it must be at most 5");
	REFUSE(t->past.interrupted = true, "past", "past.attempts is 0; it must be at least 1 (one was interrupted)");
	REFUSE(t->past.report.outcome = REA_OUTCOME_COUNT, "past", "past.report.outcome is 9; it must be at most 8");
	ACCEPT((t->past.attempts = 2, t->past.tried = tried, t->past.tried_len = 2));
	REFUSE((t->past.attempts = 2, t->past.tried = tried, t->past.tried_len = 3), "past",
	    "past.tried_len is 3; it must be at most 2 (attempts, of which 10 are remembered)");
	rig_close(&rig);
}

static void policies_out_of_bounds_are_refused(void **state)
{
	struct rea_error_info info;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.policy.max_backoff_ns = S(1);
	rig_open(&rig);
	ACCEPT(p.min_backoff_ns = MS(20));
	REFUSE(p.min_backoff_ns = MS(20) - 1, "min-backoff-ms",
	    "min-backoff-ms is 19.999999; it must be at least 20 (the smallest backoff of the profile)");
	REFUSE(p.jitter = 0, "jitter", "jitter is 0; it must be above 0 and at most 1");
	ACCEPT(p.max_retry_next_instance = 9);
	REFUSE(p.max_retry_next_instance = 10, "max-retry-next-instance",
	    "the number of attempts, 1 + max-retry-next-instance, is 11; it must be at least 1 and at most 10");
	ACCEPT(p.deadline_ns = S(30 * 24 * 3600));
	REFUSE(p.deadline_ns = S(30 * 24 * 3600) + MS(1), "deadline-ms",
	    "deadline-ms is 2592000001; it must be above 0 and at most 2592000000");
	rig_close(&rig);

	/* Raised: up to 100 attempts, but only with waits of a second. */
	rig_init(&rig);
	rig.options.task_attempts_max = 100;
	rig.policy.min_backoff_ns = MS(20);
	rig.policy.max_backoff_ns = S(1);
	rig_open(&rig);
	ACCEPT(p.max_retry_next_instance = 9);
	REFUSE(p.max_retry_next_instance = 10, "min-backoff-ms",
	    "min-backoff-ms is 20; it must be at least 1000 (with more than 10 attempts)");
	REFUSE((p.max_retry_next_instance = 99, p.min_backoff_ns = S(1) - 1), "min-backoff-ms",
	    "min-backoff-ms is 999.999999; it must be at least 1000 (with more than 10 attempts)");
	ACCEPT((p.max_retry_next_instance = 99, p.min_backoff_ns = S(1)));
	REFUSE((p.max_retry_next_instance = 100, p.min_backoff_ns = S(1)), "max-retry-next-instance",
	    "the number of attempts, 1 + max-retry-next-instance, is 101; it must be at least 1 and at most 100");
	REFUSE((p.max_retry_next_instance = 10, p.min_backoff_ns = S(1), p.when_all_tried = REA_ALL_TRIED_STOP),
	    "max-retry-next-instance",
	    "the number of attempts, (1 + max-retry-same-instance) * (1 + max-retry-next-instance), is 11; it must be "
	    "at "
	    "least 1 and at most 10");
	rig_close(&rig);

	/* Lowered: the default policy has three attempts. */
	rig_init(&rig);
	rig.options.task_attempts_max = 2;
	rig_open(&rig);
	REFUSE(t->policy = NULL, "max-retry-next-instance",
	    "the number of attempts, 1 + max-retry-next-instance, is 3; it must be at least 1 and at most 2");
	rig_close(&rig);
}

static void a_refusal_says_why(void **state)
{
	struct rea_error_info info;
	struct item *item;
	struct rig rig;
	uint64_t id = 7;

	(void)state;
	rig_init(&rig);
	rig.options.tasks_max = 2;
	rig_open(&rig);
	item = rig_item(&rig, "x", "o");
	item->task.handler = "play";
	assert_int_equal(rea_executor_submit(rig.executor, &item->task, rig.now_ns, &id, &info), REA_ERR_NOT_FOUND);
	assert_string_equal(info.key, "handler");
	assert_string_equal(info.message, "handler \"play\" is not registered");
	rig.items_len--;
	rig_submit(&rig, "a", "-");
	rig_submit(&rig, "b", "o");
	rig_run(&rig, 0);
	rig_submit(&rig, "c", "o");
	item = rig_item(&rig, "d", "o");
	assert_int_equal(rea_executor_submit(rig.executor, &item->task, rig.now_ns, &id, &info), REA_ERR_FULL);
	assert_string_equal(info.key, "tasks_max");
	assert_string_equal(info.message, "the executor holds 2 tasks; it takes another when one of them has ended");
	assert_int_equal(id, 7);
	assert_int_equal(rig_stats(&rig).refused, 2);
	assert_int_equal(rig_stats(&rig).submitted, 3);
	rig_run(&rig, 1);
	rig_submit_item(item);
	rea_executor_shutdown(rig.executor, REA_SHUTDOWN_DRAIN, REA_NEVER);
	assert_int_equal(rea_executor_submit(rig.executor, &item->task, rig.now_ns, &id, &info), REA_ERR_CLOSED);
	assert_string_equal(info.message, "the executor is shutting down and takes no more tasks");
	rig.stops = true;
	rig_close(&rig);
}

/* ---- permission ---- */

static void without_permission_there_is_one_attempt(void **state)
{
	static const struct {
		enum rea_permission permission;
		const char *key, *end;
	} cases[] = {
	    {REA_PERMISSION_NONE, "", "not_declared"},
	    {REA_PERMISSION_UNKNOWN, "k", "not_declared"},
	    {REA_PERMISSION_FORBID, "k", "forbidden"},
	    {REA_PERMISSION_IDEMPOTENT_WITH_KEY, "", "key_missing"},
	    {REA_PERMISSION_IDEMPOTENT_WITH_KEY, "k", "attempts_exhausted"},
	    {REA_PERMISSION_SAFE, "", "attempts_exhausted"},
	};
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct item *item = rig_item(&rig, "a", "a");
		bool once = strcmp(cases[i].end, "attempts_exhausted") != 0;

		item->task.grant.permission = cases[i].permission;
		item->task.key = (struct rea_text){cases[i].key, strlen(cases[i].key)};
		rig_submit_item(item);
		rig_run_until(&rig, 1000 * (i + 1));
		assert_string_equal(rea_reason_name(item->reason), cases[i].end);
		assert_int_equal(rig_stats(&rig).attempts[REA_OUTCOME_AMBIGUOUS], once ? i + 1 : i + 3 + 2 * (i - 4));
	}
	rig_close(&rig);
}

/* ---- context travels in the task ---- */

static struct item *inner;

static void submit_inner(struct item *item, const struct rea_attempt *attempt)
{
	if (strcmp(item->name, "outer") != 0) {
		assert_int_equal(attempt->key.length, 0);
		assert_int_equal(attempt->biz_id.length, 0);
		assert_int_equal(attempt->trace_id.length, 0);
		assert_int_equal(attempt->grant.permission, REA_PERMISSION_NONE);
		assert_true(attempt->task_deadline_ns > item->rig->base_ns + S(60));
		return;
	}
	assert_memory_equal(attempt->key.text, "key-1", 5);
	assert_memory_equal(attempt->biz_id.text, "order 7", 7);
	assert_memory_equal(attempt->trace_id.text, "trace", 5);
	assert_int_equal(attempt->grant.permission, REA_PERMISSION_IDEMPOTENT_WITH_KEY);
	assert_true(attempt->task_deadline_ns == item->rig->base_ns + S(30));
	if (attempt->number == 1) {
		inner = rig_item(item->rig, "inner", "a");
		inner->task.grant.permission = REA_PERMISSION_NONE;
		rig_submit_item(inner);
	}
}

/* The inner task has no key and no permission of its own: it is not retried. The outer one keeps its own. */
static void a_nested_task_neither_inherits_nor_clears(void **state)
{
	struct item *outer;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.on_attempt = submit_inner;
	rig_open(&rig);
	outer = rig_item(&rig, "outer", "aao");
	outer->task.grant.permission = REA_PERMISSION_IDEMPOTENT_WITH_KEY;
	outer->task.key = (struct rea_text){"key-1", 5};
	outer->task.biz_id = (struct rea_text){"order 7", 7};
	outer->task.trace_id = (struct rea_text){"trace", 5};
	outer->task.deadline_ns = rig.base_ns + S(30);
	rig_submit_item(outer);
	rig_run_until(&rig, 1000);
	rig_expect(&rig, "0 attempt outer 1/3\n"
			 "0 Retry outer 1 ambiguous wait=100\n"
			 "0 attempt inner 1/3\n"
			 "0 GiveUp inner 1 ambiguous not_declared\n"
			 "0 done inner GIVEN_UP 1 ambiguous not_declared\n"
			 "100 attempt outer 2/3\n"
			 "100 Retry outer 2 ambiguous wait=100\n"
			 "200 attempt outer 3/3\n"
			 "200 Success outer 3 ok\n"
			 "200 done outer SUCCESS 3 ok\n");
	rig_close(&rig);
}

static const char payload[] = "{\"a\": 1}";

static void look_at_copies(struct item *item, const struct rea_attempt *attempt)
{
	(void)item;
	assert_int_equal(attempt->payload_len, sizeof(payload));
	assert_memory_equal(attempt->payload, payload, sizeof(payload));
	assert_int_equal((uintptr_t)attempt->payload % 8, 0);
	assert_int_equal(attempt->key.length, 3);
	assert_memory_equal(attempt->key.text, "k\0y", 3);
}

/* Every attempt has the same bytes, whatever the caller does with its own. */
static void what_is_submitted_is_copied(void **state)
{
	char text[] = "k\0y", body[sizeof(payload)], name[] = "work";
	struct item *item;
	struct rig rig;

	(void)state;
	memcpy(body, payload, sizeof(payload));
	rig_init(&rig);
	rig.on_attempt = look_at_copies;
	rig_open(&rig);
	item = rig_item(&rig, "a", "uuo");
	item->task.handler = name;
	item->task.key = (struct rea_text){text, 3};
	item->task.payload = body;
	item->task.payload_len = sizeof(body);
	rig_submit_item(item);
	memset(text, 'x', sizeof(text));
	memset(body, 'x', sizeof(body));
	memset(name, 'x', sizeof(name));
	rig_run_until(&rig, 1000);
	assert_int_equal(item->state, REA_TASK_SUCCESS);
	rig_close(&rig);
}

/* ---- cancel ---- */

static void cancel_before_its_time(void **state)
{
	struct item *item;
	struct rig rig;
	enum rea_task_state task_state;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	item = rig_item(&rig, "a", "o");
	item->task.not_before_ns = rig.base_ns + S(60);
	rig_submit_item(item);
	assert_int_equal(rea_executor_state(rig.executor, item->id, &task_state), 0);
	assert_int_equal(task_state, REA_TASK_PENDING);
	assert_int_equal(rig_cancel(item), 0);
	assert_int_equal(rig_cancel(item), 0);
	/* No callback fires inside the call. */
	rig_expect(&rig, "");
	assert_true(rea_executor_next(rig.executor) == 0);
	rig_run(&rig, 1);
	rig_expect(&rig, "1 GiveUp a 1 cancelled cancelled\n1 done a CANCELLED 0 - cancelled\n");
	assert_int_equal(rig_cancel(item), REA_ERR_NOT_FOUND);
	assert_int_equal(rea_executor_state(rig.executor, item->id, &task_state), REA_ERR_NOT_FOUND);
	assert_idle(&rig);
	rig_close(&rig);
}

/* The hook ends it: slot and memory are free, and whatever is still reported is ignored. */
static void cancel_an_attempt_that_stops(void **state)
{
	struct item *a, *b;
	struct rig rig;
	enum rea_task_state task_state;

	(void)state;
	rig_init(&rig);
	rig.options.concurrency = 1;
	rig.stops = true;
	rig_open(&rig);
	a = rig_submit(&rig, "a", "u-");
	rig_run_until(&rig, 100);
	assert_int_equal(rea_executor_state(rig.executor, a->id, &task_state), 0);
	assert_int_equal(task_state, REA_TASK_RUNNING);
	assert_int_equal(rig_cancel(a), 0);
	rig_run_until(&rig, 110);
	rig_expect(&rig, "0 attempt a 1/3\n"
			 "0 Retry a 1 unavailable 503 wait=100\n"
			 "100 attempt a 2/3\n"
			 "100 stop a\n"
			 "100 GiveUp a 2 cancelled cancelled\n"
			 "100 done a CANCELLED 2 unavailable 503 cancelled\n");
	assert_idle(&rig);
	assert_int_equal(rig_report_item(a, 'o'), REA_ERR_NOT_FOUND);
	b = rig_submit(&rig, "b", "-");
	rig_run_until(&rig, 120);
	/* The same slots, other ids. */
	assert_true(a->id != b->id && a->attempt_id != b->attempt_id);
	assert_int_equal(rig_report_item(a, 'u'), REA_ERR_NOT_FOUND);
	assert_int_equal(rig_cancel(a), REA_ERR_NOT_FOUND);
	assert_int_equal(rig_report_item(b, 'o'), 0);
	rig_run_until(&rig, 130);
	rig_expect(&rig, "110 attempt b 1/3\n120 done b SUCCESS 1 ok\n");
	rig_close(&rig);
}

/* The hook only asks: the task is over at once, its slot is not, until the handler has had its last word. */
static void cancel_an_attempt_that_goes_on(void **state)
{
	struct item *a;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.options.concurrency = 1;
	rig_open(&rig);
	a = rig_submit(&rig, "a", "-");
	rig_submit(&rig, "b", "o");
	rig_run(&rig, 0);
	rig_cancel(a);
	rig_run_until(&rig, 5);
	rig_expect(&rig, "0 attempt a 1/3\n"
			 "0 stop a\n"
			 "0 GiveUp a 1 cancelled cancelled\n"
			 "0 done a CANCELLED 1 ok cancelled\n");
	assert_int_equal(rig_stats(&rig).running, 1);
	assert_int_equal(rig_stats(&rig).tasks, 1);
	assert_int_equal(rig_report_item(a, 'o'), REA_ERR_NOT_FOUND);
	assert_int_equal(rig_stats(&rig).running, 0);
	assert_int_equal(rig_report_item(a, 'o'), REA_ERR_NOT_FOUND);
	rig_run_until(&rig, 10);
	rig_expect(&rig, "5 attempt b 1/3\n5 done b SUCCESS 1 ok\n");
	assert_idle(&rig);
	rig_close(&rig);
}

/* Between cancel and the next run the handler reports: it is over, so it is not asked to stop. */
static void a_report_after_a_cancel_is_ignored(void **state)
{
	struct item *a;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	a = rig_submit(&rig, "a", "-");
	rig_run(&rig, 0);
	rig_cancel(a);
	assert_int_equal(rig_report_item(a, 'o'), REA_ERR_NOT_FOUND);
	rig_run(&rig, 1);
	rig_expect(&rig, "0 attempt a 1/3\n1 GiveUp a 1 cancelled cancelled\n1 done a CANCELLED 1 ok cancelled\n");
	assert_idle(&rig);
	rig_close(&rig);
}

/* The other way round the report stands: a success is one, a failure is not repeated. */
static void a_cancel_after_a_report_stops_what_follows(void **state)
{
	struct item *a, *b;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	a = rig_submit(&rig, "a", "-");
	b = rig_submit(&rig, "b", "-");
	rig_run(&rig, 0);
	rig_report_item(a, 'o');
	rig_report_item(b, 'u');
	assert_int_equal(rig_cancel(a), 0);
	assert_int_equal(rig_cancel(b), 0);
	rig_run(&rig, 1);
	rig_expect(&rig, "0 attempt a 1/3\n"
			 "0 attempt b 1/3\n"
			 "1 done a SUCCESS 1 ok\n"
			 "1 Retry b 1 unavailable 503 wait=100\n"
			 "1 GiveUp b 2 cancelled cancelled\n"
			 "1 done b CANCELLED 1 unavailable 503 cancelled\n");
	assert_idle(&rig);
	rig_close(&rig);
}

static void reports_for_nobody(void **state)
{
	struct item *a;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	a = rig_submit(&rig, "a", "-");
	a->attempt_id = 0;
	assert_int_equal(rig_report_item(a, 'o'), REA_ERR_NOT_FOUND);
	a->attempt_id = UINT64_MAX;
	assert_int_equal(rig_report_item(a, 'o'), REA_ERR_NOT_FOUND);
	assert_int_equal(rea_executor_cancel(rig.executor, 0, rig.now_ns), REA_ERR_NOT_FOUND);
	assert_int_equal(rea_executor_cancel(rig.executor, UINT64_MAX, rig.now_ns), REA_ERR_NOT_FOUND);
	assert_int_equal(rea_executor_cancel(rig.executor, a->id + (UINT64_C(1) << 32), rig.now_ns), REA_ERR_NOT_FOUND);
	assert_int_equal(rea_executor_cancel(rig.executor, a->id + 1, rig.now_ns), REA_ERR_NOT_FOUND);
	rig_run(&rig, 0);
	assert_int_equal(rig_report_item(a, 'u'), 0);
	assert_int_equal(rig_report_item(a, 'o'), REA_ERR_NOT_FOUND);
	rig_run(&rig, 0);
	assert_int_equal(rig_report_item(a, 'o'), REA_ERR_NOT_FOUND);
	rig_run_until(&rig, 100);
	rig_report_item(a, 'o');
	rig_run(&rig, 101);
	assert_int_equal(a->state, REA_TASK_SUCCESS);
	rig_close(&rig);
}

/* Who says that it has ended but not how does not know how. */
static void silence_is_ambiguous(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_submit(&rig, "a", "?o");
	rig_run(&rig, 0);
	rig_expect(&rig, "0 attempt a 1/3\n0 Retry a 1 ambiguous wait=100\n");
	rig_close(&rig);
}

static uint64_t seen_latency_ns;

static void note_latency(const struct rea_attempt *attempt, struct rea_report *report, void *user_data)
{
	(void)attempt;
	(void)user_data;
	seen_latency_ns = report->latency_ns;
}

static void the_latency_is_filled_in(void **state)
{
	struct rea_report report = {.outcome = REA_OUTCOME_UNAVAILABLE};
	struct item *item;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.handler.judge = note_latency;
	rig_open(&rig);
	item = rig_submit(&rig, "a", "-");
	rig_run(&rig, 0);
	rea_executor_report(rig.executor, item->attempt_id, &report, rig.base_ns + MS(30));
	rig_run(&rig, 40);
	assert_true(seen_latency_ns == MS(30));
	rig_run(&rig, 130);
	report.latency_ns = 7;
	rea_executor_report(rig.executor, item->attempt_id, &report, rig.base_ns + MS(150));
	rig_run(&rig, 150);
	assert_true(seen_latency_ns == 7);
	rig_close(&rig);
}

/* ---- callbacks that call back ---- */

static void cancel_oneself(struct item *item, const struct rea_attempt *attempt)
{
	assert_int_equal(rea_executor_cancel(item->rig->executor, attempt->task_id, item->rig->now_ns), 0);
}

static void a_handler_may_cancel_its_own_task(void **state)
{
	struct item *a, *b;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.on_attempt = cancel_oneself;
	rig.stops = true;
	rig_open(&rig);
	a = rig_submit(&rig, "a", "o");
	b = rig_submit(&rig, "b", "-");
	rig_run(&rig, 0);
	rig_expect(&rig, "0 attempt a 1/3\n"
			 "0 attempt b 1/3\n"
			 "0 GiveUp a 1 cancelled cancelled\n"
			 "0 done a CANCELLED 1 ok cancelled\n"
			 "0 stop b\n"
			 "0 GiveUp b 1 cancelled cancelled\n"
			 "0 done b CANCELLED 1 ok cancelled\n");
	assert_int_equal(a->ended + b->ended, 2);
	assert_idle(&rig);
	rig_close(&rig);
}

static void cancel_the_other(struct item *item, const struct rea_attempt *attempt)
{
	(void)attempt;
	for (size_t i = 0; i < item->rig->items_len; i++)
		if (&item->rig->items[i] != item)
			rig_cancel(&item->rig->items[i]);
}

/* b is due in the same run, has its slot, but its turn has not come. */
static void a_task_cancelled_before_its_turn_is_not_begun(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.on_attempt = cancel_the_other;
	rig_open(&rig);
	rig_submit(&rig, "a", "o");
	rig_submit(&rig, "b", "o");
	rig_run(&rig, 0);
	rig_expect(&rig, "0 attempt a 1/3\n"
			 "0 GiveUp b 1 cancelled cancelled\n"
			 "0 done b CANCELLED 0 - cancelled\n"
			 "0 done a SUCCESS 1 ok\n");
	assert_idle(&rig);
	rig_close(&rig);
}

static void report_at_once(struct item *item, const struct rea_attempt *attempt)
{
	struct rea_report report = rig_report(attempt->number == 1 ? 'u' : 'o');

	assert_int_equal(rea_executor_report(item->rig->executor, attempt->id, &report, item->rig->now_ns), 0);
	assert_int_equal(rea_executor_report(item->rig->executor, attempt->id, &report, item->rig->now_ns), REA_ERR_NOT_FOUND);
	/* A run inside a run does nothing. */
	rea_executor_run(item->rig->executor, item->rig->now_ns + S(100));
}

static void a_handler_may_report_from_within(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.on_attempt = report_at_once;
	rig_open(&rig);
	rig_submit(&rig, "a", "-");
	rig_run(&rig, 0);
	rig_expect(&rig, "0 attempt a 1/3\n0 Retry a 1 unavailable 503 wait=100\n");
	rig_run(&rig, 100000);
	rig_expect(&rig, "100000 attempt a 2/3\n100000 Success a 2 ok\n100000 done a SUCCESS 2 ok\n");
	rig_close(&rig);
}

static void submit_follower(struct item *item, const struct rea_task_end *end)
{
	(void)end;
	if (item->rig->items_len < 4)
		rig_submit(item->rig, "follower", "o");
}

/* The task that ended has made room, also where there was none, and what is added waits for the next run. */
static void a_done_callback_may_submit(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.options.tasks_max = rig.options.concurrency = 1;
	rig.on_done = submit_follower;
	rig_open(&rig);
	rig_submit(&rig, "first", "o");
	rig_run(&rig, 0);
	rig_expect(&rig, "0 attempt first 1/3\n0 done first SUCCESS 1 ok\n");
	assert_true(rea_executor_next(rig.executor) <= rig.now_ns);
	rig_run(&rig, 0);
	rig_expect(&rig, "0 attempt follower 1/3\n0 done follower SUCCESS 1 ok\n");
	rig_run_until(&rig, 0);
	assert_int_equal(rig.items_len, 4);
	assert_idle(&rig);
	rig_close(&rig);
}

static void cancel_on_retry(struct rig *rig, const struct rea_event *event)
{
	if (event->type == REA_EVENT_RETRY)
		assert_int_equal(rig_cancel(&rig->items[0]), 0);
}

static void an_event_callback_may_cancel(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.on_event = cancel_on_retry;
	rig_open(&rig);
	rig_submit(&rig, "a", "u");
	rig_run(&rig, 0);
	rig_expect(&rig, "0 attempt a 1/3\n"
			 "0 Retry a 1 unavailable 503 wait=100\n"
			 "0 GiveUp a 2 cancelled cancelled\n"
			 "0 done a CANCELLED 1 unavailable 503 cancelled\n");
	assert_idle(&rig);
	rig_close(&rig);
}

static void report_late(struct item *item)
{
	rig_report_item(item, 'o');
}

/* The hook itself brings the report: the attempt is over although the hook says that it goes on. */
static void a_cancel_hook_may_report(void **state)
{
	struct item *a;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.on_stop = report_late;
	rig_open(&rig);
	a = rig_submit(&rig, "a", "-");
	rig_run(&rig, 0);
	rig_cancel(a);
	rig_run(&rig, 1);
	assert_int_equal(a->state, REA_TASK_CANCELLED);
	assert_idle(&rig);
	rig_close(&rig);
}

static void report_when_done(struct item *item, const struct rea_task_end *end)
{
	(void)end;
	rig_report_item(item, 'o');
	assert_int_equal(end->task->name.length, 1);
	assert_memory_equal(end->task->name.text, "a", 1);
}

/* What done was given stays until it returns, even if the handler reports meanwhile. */
static void a_last_word_inside_done(void **state)
{
	struct item *a;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.on_done = report_when_done;
	rig_open(&rig);
	a = rig_submit(&rig, "a", "-");
	rig_run(&rig, 0);
	rig_cancel(a);
	rig_run(&rig, 1);
	assert_idle(&rig);
	rig_close(&rig);
}

/* ---- shutdown ---- */

/* running, waiting for a retry, not due yet. */
static void open_for_shutdown(struct rig *rig, struct item *items[3])
{
	rig_init(rig);
	rig_open(rig);
	items[0] = rig_submit(rig, "a", "-");
	items[1] = rig_submit(rig, "b", "uo");
	items[2] = rig_item(rig, "c", "o");
	items[2]->task.not_before_ns = rig->base_ns + MS(500);
	rig_submit_item(items[2]);
	rig_run(rig, 0);
	rig_expect(rig, "0 attempt a 1/3\n0 attempt b 1/3\n0 Retry b 1 unavailable 503 wait=100\n");
}

static void drain_runs_everything_to_its_end(void **state)
{
	struct item *items[3];
	struct rig rig;

	(void)state;
	open_for_shutdown(&rig, items);
	rea_executor_shutdown(rig.executor, REA_SHUTDOWN_DRAIN, REA_NEVER);
	rig_run_until(&rig, 50);
	rig_report_item(items[0], 'u');
	items[0]->script = "o";
	items[0]->at = 0;
	rig_run_until(&rig, 1000);
	rig_expect(&rig, "50 Retry a 1 unavailable 503 wait=100\n"
			 "100 attempt b 2/3\n"
			 "100 Success b 2 ok\n"
			 "100 done b SUCCESS 2 ok\n"
			 "150 attempt a 2/3\n"
			 "150 Success a 2 ok\n"
			 "150 done a SUCCESS 2 ok\n"
			 "500 attempt c 1/3\n"
			 "500 done c SUCCESS 1 ok\n");
	assert_idle(&rig);
	rig_close(&rig);
}

/* At the deadline the rest is handed back; what runs is stopped, and that it may have run is known. */
static void drain_until_a_deadline(void **state)
{
	struct item *items[3];
	struct rig rig;

	(void)state;
	open_for_shutdown(&rig, items);
	rig.stops = true;
	rea_executor_shutdown(rig.executor, REA_SHUTDOWN_DRAIN, rig.base_ns + MS(300));
	rig_run_until(&rig, 299);
	rig_expect(&rig, "100 attempt b 2/3\n100 Success b 2 ok\n100 done b SUCCESS 2 ok\n");
	assert_true(rea_executor_next(rig.executor) == rig.base_ns + MS(300));
	rig_run_until(&rig, 1000);
	rig_expect(&rig, "300 done c HANDED_BACK 0 -\n"
			 "300 stop a\n"
			 "300 Retry a 1 ambiguous wait=100\n"
			 "300 done a HANDED_BACK 1 ambiguous\n");
	assert_idle(&rig);
	rig_close(&rig);
}

static void hand_back_lets_attempts_end(void **state)
{
	struct item *items[3];
	struct rig rig;

	(void)state;
	open_for_shutdown(&rig, items);
	rea_executor_shutdown(rig.executor, REA_SHUTDOWN_HAND_BACK, rig.base_ns + S(10));
	assert_true(rea_executor_next(rig.executor) == 0);
	rig_run_until(&rig, 10);
	rig_expect(&rig, "0 done b HANDED_BACK 1 unavailable 503\n0 done c HANDED_BACK 0 -\n");
	assert_true(rea_executor_next(rig.executor) == rig.base_ns + S(10));
	rig_report_item(items[0], 'u');
	rig_run_until(&rig, 1000);
	rig_expect(&rig, "10 Retry a 1 unavailable 503 wait=100\n10 done a HANDED_BACK 1 unavailable 503\n");
	assert_int_equal(rig_stats(&rig).tasks, 0);
	rig_close(&rig);
}

/* Without permission an interrupted attempt is the last one. */
static void an_interrupted_write_is_given_up(void **state)
{
	struct item *item;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	item = rig_item(&rig, "a", "-");
	item->task.grant.permission = REA_PERMISSION_NONE;
	rig_submit_item(item);
	rig_run(&rig, 0);
	rea_executor_shutdown(rig.executor, REA_SHUTDOWN_HAND_BACK, rig.base_ns + MS(20));
	rig_run_until(&rig, 20);
	rig_expect(&rig, "0 attempt a 1/3\n"
			 "20 stop a\n"
			 "20 GiveUp a 1 ambiguous not_declared\n"
			 "20 done a GIVEN_UP 1 ambiguous not_declared\n");
	/* Its handler goes on. */
	assert_int_equal(rig_stats(&rig).running, 1);
	rig_report_item(item, 'o');
	assert_idle(&rig);
	rig_close(&rig);
}

static void shutdown_cancels(void **state)
{
	struct item *items[3];
	struct rig rig;

	(void)state;
	open_for_shutdown(&rig, items);
	rig.stops = true;
	rea_executor_shutdown(rig.executor, REA_SHUTDOWN_CANCEL, REA_NEVER);
	rig_run_until(&rig, 0);
	rig_expect(&rig, "0 GiveUp b 2 cancelled cancelled\n"
			 "0 done b CANCELLED 1 unavailable 503 cancelled\n"
			 "0 GiveUp c 1 cancelled cancelled\n"
			 "0 done c CANCELLED 0 - cancelled\n"
			 "0 stop a\n"
			 "0 GiveUp a 1 cancelled cancelled\n"
			 "0 done a CANCELLED 1 ok cancelled\n");
	assert_idle(&rig);
	rig_close(&rig);
}

static void a_shutdown_may_be_hurried(void **state)
{
	struct item *items[3];
	struct rig rig;

	(void)state;
	open_for_shutdown(&rig, items);
	rig.stops = true;
	rea_executor_shutdown(rig.executor, REA_SHUTDOWN_DRAIN, rig.base_ns + S(10));
	rig_run(&rig, 1);
	rea_executor_shutdown(rig.executor, REA_SHUTDOWN_HAND_BACK, rig.base_ns + S(20));
	rig_run(&rig, 2);
	rig_expect(&rig, "2 done b HANDED_BACK 1 unavailable 503\n2 done c HANDED_BACK 0 -\n");
	/* Slower is not possible any more. */
	rea_executor_shutdown(rig.executor, REA_SHUTDOWN_DRAIN, REA_NEVER);
	assert_true(rea_executor_next(rig.executor) == rig.base_ns + S(10));
	rea_executor_shutdown(rig.executor, REA_SHUTDOWN_CANCEL, 0);
	rig_run(&rig, 3);
	rig_expect(&rig, "3 stop a\n3 GiveUp a 1 cancelled cancelled\n3 done a CANCELLED 1 ok cancelled\n");
	assert_idle(&rig);
	rig_close(&rig);
}

static void shut_down_and_cancel(struct item *item, const struct rea_task_end *end)
{
	(void)end;
	rea_executor_shutdown(item->rig->executor, REA_SHUTDOWN_CANCEL, 0);
	for (size_t i = 0; i < item->rig->items_len; i++)
		rig_cancel(&item->rig->items[i]);
}

static void a_callback_may_shut_down(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.on_done = shut_down_and_cancel;
	rig_open(&rig);
	rig_submit(&rig, "a", "o");
	rig_submit(&rig, "b", "u");
	rig_submit(&rig, "c", "o")->task.not_before_ns = 0;
	rig_run(&rig, 0);
	rig_run_until(&rig, 1000);
	rig_expect(&rig, "0 attempt a 1/3\n"
			 "0 attempt b 1/3\n"
			 "0 attempt c 1/3\n"
			 "0 done a SUCCESS 1 ok\n"
			 "0 Retry b 1 unavailable 503 wait=100\n"
			 "0 GiveUp b 2 cancelled cancelled\n"
			 "0 done b CANCELLED 1 unavailable 503 cancelled\n"
			 "0 done c SUCCESS 1 ok\n");
	assert_idle(&rig);
	rig_close(&rig);
}

/* Nothing else than the mode says that the retry of b is not wanted any more. */
static void shut_down(struct item *item, const struct rea_task_end *end)
{
	(void)end;
	rea_executor_shutdown(item->rig->executor, REA_SHUTDOWN_CANCEL, 0);
}

static void what_is_being_told_is_cancelled_too(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.on_done = shut_down;
	rig_open(&rig);
	rig_submit(&rig, "a", "o");
	rig_submit(&rig, "b", "u");
	rig_run(&rig, 0);
	rig_expect(&rig, "0 attempt a 1/3\n"
			 "0 attempt b 1/3\n"
			 "0 done a SUCCESS 1 ok\n"
			 "0 Retry b 1 unavailable 503 wait=100\n"
			 "0 GiveUp b 2 cancelled cancelled\n"
			 "0 done b CANCELLED 1 unavailable 503 cancelled\n");
	rig_close(&rig);
}

/* Its task may be repeated and is handed back; its slot is kept for the handler, which has not stopped. */
static void an_interrupted_handler_keeps_its_slot(void **state)
{
	struct item *item;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	item = rig_submit(&rig, "a", "-");
	rig_run(&rig, 0);
	rea_executor_shutdown(rig.executor, REA_SHUTDOWN_DRAIN, rig.base_ns + MS(20));
	rig_run_until(&rig, 20);
	rig_expect(&rig, "0 attempt a 1/3\n"
			 "20 stop a\n"
			 "20 Retry a 1 ambiguous wait=100\n"
			 "20 done a HANDED_BACK 1 ambiguous\n");
	assert_int_equal(rig_stats(&rig).tasks, 0);
	assert_int_equal(rig_stats(&rig).running, 1);
	assert_int_equal(rig_report_item(item, 'o'), REA_ERR_NOT_FOUND);
	assert_idle(&rig);
	rig_close(&rig);
}

static void hurry_up(struct item *item)
{
	rea_executor_shutdown(item->rig->executor, REA_SHUTDOWN_CANCEL, 0);
}

/* The same, but the hook itself has no more time. */
static void a_hook_may_hurry_the_shutdown(void **state)
{
	struct item *item;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.on_stop = hurry_up;
	rig_open(&rig);
	item = rig_submit(&rig, "a", "-");
	rig_run(&rig, 0);
	rea_executor_shutdown(rig.executor, REA_SHUTDOWN_DRAIN, rig.base_ns + MS(20));
	rig_run_until(&rig, 20);
	rig_expect(&rig, "0 attempt a 1/3\n"
			 "20 stop a\n"
			 "20 Retry a 1 ambiguous wait=100\n"
			 "20 GiveUp a 2 cancelled cancelled\n"
			 "20 done a CANCELLED 1 ambiguous cancelled\n");
	assert_int_equal(rig_stats(&rig).running, 1);
	rig_report_item(item, 'o');
	assert_idle(&rig);
	rig_close(&rig);
}

static void a_shutdown_does_not_slow_down(void **state)
{
	struct item *item;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	item = rig_submit(&rig, "a", "-");
	rig_run(&rig, 0);
	rea_executor_shutdown(rig.executor, REA_SHUTDOWN_HAND_BACK, REA_NEVER);
	rea_executor_shutdown(rig.executor, REA_SHUTDOWN_DRAIN, REA_NEVER);
	rig_report_item(item, 'u');
	rig_run(&rig, 1);
	assert_int_equal(item->state, REA_TASK_HANDED_BACK);
	rig_close(&rig);
}

static void cancel_the_others(struct item *item, const struct rea_task_end *end)
{
	(void)end;
	for (size_t i = 0; i < item->rig->items_len; i++)
		rig_cancel(&item->rig->items[i]);
}

/* In one run b is cancelled and then, with all the rest, interrupted: it is not handed back. */
static void an_interruption_does_not_undo_a_cancel(void **state)
{
	struct item *a;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.on_done = cancel_the_others;
	rig.stops = true;
	rig_open(&rig);
	a = rig_submit(&rig, "a", "-");
	rig_submit(&rig, "b", "-");
	rig_run(&rig, 0);
	rig_report_item(a, 'o');
	rea_executor_shutdown(rig.executor, REA_SHUTDOWN_HAND_BACK, rig.base_ns + MS(10));
	rig_run(&rig, 10);
	rig_expect(&rig, "0 attempt a 1/3\n"
			 "0 attempt b 1/3\n"
			 "10 done a SUCCESS 1 ok\n"
			 "10 stop b\n"
			 "10 GiveUp b 1 cancelled cancelled\n"
			 "10 done b CANCELLED 1 ok cancelled\n");
	rig_close(&rig);
}

/* ---- handed back and restored ---- */

static struct rig second;

/* Submit it to the other executor, as it is. */
static void move_on(struct item *item, const struct rea_task_end *end)
{
	struct item *moved = rig_item(&second, item->name, item->script);

	assert_int_equal(end->state, REA_TASK_HANDED_BACK);
	moved->at = item->at;
	moved->task = *end->task;
	assert_int_equal((uintptr_t)end->task->past.tried % alignof(struct rea_instance_id), 0);
	moved->task.user_data = moved;
	rig_submit_item(moved);
}

static uint32_t keys_seen;

static void look_at_key(struct item *item, const struct rea_attempt *attempt)
{
	assert_true(attempt->key.length == 3 && memcmp(attempt->key.text, "k-1", 3) == 0);
	assert_true(attempt->task_deadline_ns == item->rig->base_ns + S(24 * 3600));
	keys_seen++;
}

/* Attempt numbers, key, deadline and wait go on as if nothing had happened. */
static void a_task_goes_on_elsewhere(void **state)
{
	struct item *item;
	struct rig rig;

	(void)state;
	keys_seen = 0;
	rig_init(&rig);
	rig_init(&second);
	rig.on_attempt = second.on_attempt = look_at_key;
	rig.on_done = move_on;
	rig_open(&rig);
	rig_open(&second);
	item = rig_item(&rig, "a", "uuo");
	item->task.key = (struct rea_text){"k-1", 3};
	rig_submit_item(item);
	rig_run(&rig, 0);
	rea_executor_shutdown(rig.executor, REA_SHUTDOWN_HAND_BACK, REA_NEVER);
	rig_run(&rig, 60);
	rig_expect(
	    &rig, "0 attempt a 1/3\n0 Retry a 1 unavailable 503 wait=100\n60 done a HANDED_BACK 1 unavailable 503\n");
	second.now_ns = rig.now_ns;
	rig_run_until(&second, 1000);
	rig_expect(&second, "100 attempt a 2/3\n"
			    "100 Retry a 2 unavailable 503 wait=100\n"
			    "200 attempt a 3/3\n"
			    "200 Success a 3 ok\n"
			    "200 done a SUCCESS 3 ok\n");
	assert_int_equal(keys_seen, 3);
	rig_close(&rig);
	rig_close(&second);
}

static void judge_own_attempts(const struct rea_attempt *attempt, struct rea_report *report, void *user_data)
{
	(void)user_data;
	assert_true(attempt->number == 4 && report->outcome == REA_OUTCOME_OK);
}

/* Its process died while the third attempt ran: nobody has a result of that. */
static void an_interrupted_task_is_decided_first(void **state)
{
	struct item *item;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.handler.judge = judge_own_attempts;
	rig.policy.max_retry_next_instance = 3;
	rig_open(&rig);
	item = rig_item(&rig, "a", "o");
	item->task.past = (struct rea_task_past){.attempts = 3, .interrupted = true};
	rig_submit_item(item);
	rig_run_until(&rig, 1000);
	rig_expect(&rig, "0 Retry a 3 ambiguous wait=100\n"
			 "100 attempt a 4/4\n"
			 "100 Success a 4 ok\n"
			 "100 done a SUCCESS 4 ok\n");
	/* Who may not repeat it does not. */
	rig.base_ns = rig.now_ns;
	item = rig_item(&rig, "b", "o");
	item->task.past = (struct rea_task_past){.attempts = 1, .interrupted = true};
	item->task.grant.permission = REA_PERMISSION_UNKNOWN;
	rig_submit_item(item);
	rig_run_until(&rig, 1000);
	rig_expect(&rig, "0 GiveUp b 1 ambiguous not_declared\n0 done b GIVEN_UP 1 ambiguous not_declared\n");
	assert_idle(&rig);
	/* Not even decided: it is handed back as it came. */
	rig.base_ns = rig.now_ns;
	item = rig_item(&rig, "c", "o");
	item->task.past = (struct rea_task_past){.attempts = 2, .interrupted = true};
	rig_submit_item(item);
	rea_executor_shutdown(rig.executor, REA_SHUTDOWN_HAND_BACK, 0);
	rig_run(&rig, 0);
	rig_expect(&rig, "0 done c HANDED_BACK 2 ok\n");
	rig_close(&rig);
}

/* ---- instances, budget, breaker, limit ---- */

static struct rea_instance hosts[] = {{.id = {{[15] = 1}, 9001}, .weight = 1}, {.id = {{[15] = 2}, 9002}, .weight = 1},
    {.id = {{[15] = 3}, 9003}, .weight = 1}};
static struct rea_instances hosts_list = {.items = hosts, .count = 3, .balance = REA_BALANCE_LISTED};
static uint16_t ports[16];
static size_t ports_len;

static const struct rea_instances *list_hosts(void *user_data)
{
	(void)user_data;
	return &hosts_list;
}

static void note_port(struct item *item, const struct rea_attempt *attempt)
{
	(void)item;
	assert_true(rea_instance_id_equal(&attempt->instance_id, &hosts_list.items[attempt->instance].id));
	ports[ports_len++] = attempt->instance_id.port;
}

/* What was tried is kept while the task waits, and handed back with it. */
static void instances_are_tried_in_rounds(void **state)
{
	static const uint16_t expected[] = {9001, 9002, 9003, 9001, 9002, 9003};
	struct item *item;
	struct rig rig;

	(void)state;
	ports_len = 0;
	rig_init(&rig);
	rig_init(&second);
	rig.handler.instances = second.handler.instances = list_hosts;
	rig.on_attempt = second.on_attempt = note_port;
	rig.on_done = move_on;
	rig.policy.max_retry_next_instance = 5;
	rig_open(&rig);
	rig_open(&second);
	item = rig_item(&rig, "a", "u");
	/* An odd length in front of the ids. */
	item->task.payload = "xyz";
	item->task.payload_len = 3;
	rig_submit_item(item);
	rig_run_until(&rig, 100);
	rea_executor_shutdown(rig.executor, REA_SHUTDOWN_HAND_BACK, REA_NEVER);
	rig_run(&rig, 110);
	assert_int_equal(item->state, REA_TASK_HANDED_BACK);
	second.now_ns = rig.now_ns;
	rig_run_until(&second, 1000);
	assert_int_equal(ports_len, 6);
	assert_memory_equal(ports, expected, sizeof(expected));
	rig_close(&rig);
	rig_close(&second);
}

static void look_at_tried(struct item *item, const struct rea_task_end *end)
{
	(void)item;
	assert_int_equal(end->task->past.tried_len, 4);
	for (size_t i = 0; i < 4; i++)
		assert_true(rea_instance_id_equal(&end->task->past.tried[i], &hosts[i % 3].id));
}

/* The policy has fewer attempts than were made; what was tried stays known. */
static void more_was_tried_than_the_policy_has(void **state)
{
	const struct rea_instance_id tried[] = {hosts[0].id, hosts[1].id, hosts[2].id, hosts[0].id};
	struct item *item;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_init(&second);
	rig.handler.instances = second.handler.instances = list_hosts;
	rig.on_done = move_on;
	rig.policy.max_retry_next_instance = 0;
	rig_open(&rig);
	rig_open(&second);
	item = rig_item(&rig, "a", "u");
	item->task.past = (struct rea_task_past){.attempts = 4, .tried = tried, .tried_len = 4};
	rig_submit_item(item);
	rea_executor_shutdown(rig.executor, REA_SHUTDOWN_HAND_BACK, REA_NEVER);
	rig_run(&rig, 0);
	assert_int_equal(item->state, REA_TASK_HANDED_BACK);
	second.on_done = look_at_tried;
	rig_run(&second, 0);
	rig_expect(&second, "0 GiveUp a 5 never_sent attempts_exhausted\n0 done a GIVEN_UP 4 ok attempts_exhausted\n");
	rig_close(&rig);
	rig_close(&second);
}

static void a_list_may_be_empty(void **state)
{
	struct rig rig;

	(void)state;
	hosts_list.count = 0;
	rig_init(&rig);
	rig.handler.instances = list_hosts;
	rig_open(&rig);
	rig_submit(&rig, "a", "u");
	rig_run_until(&rig, 1000);
	rig_expect(&rig, "0 GiveUp a 1 never_sent no_untried_instance\n0 done a GIVEN_UP 0 - no_untried_instance\n");
	hosts_list.count = 3;
	assert_idle(&rig);
	rig_close(&rig);
}

/* A retry that is never made goes back into the budget: cancelled, or handed back. */
static void the_budget_gets_back_what_is_not_used(void **state)
{
	struct rea_budget_policy policy = {.rule = REA_BUDGET_RATIO, .reserve_per_s = 3, .window_ms = 1000};
	struct rea_budget *budget;
	struct rig rig;

	(void)state;
	assert_int_equal(rea_budget_new(&policy, 1, NULL, &budget, NULL), 0);
	rig_init(&rig);
	rig.handler.budget = budget;
	rig_open(&rig);
	for (int i = 0; i < 4; i++)
		rig_submit(&rig, "a", "u");
	rig_run(&rig, 0);
	assert_int_equal(rea_budget_available(budget, rig.now_ns), 0);
	assert_int_equal(rig.items[3].reason, REA_REASON_BUDGET_EXHAUSTED);
	rig_cancel(&rig.items[0]);
	rig_run(&rig, 1);
	assert_int_equal(rea_budget_available(budget, rig.now_ns), 1);
	rea_executor_shutdown(rig.executor, REA_SHUTDOWN_HAND_BACK, REA_NEVER);
	rig_run(&rig, 2);
	assert_int_equal(rea_budget_available(budget, rig.now_ns), 3);
	rig_close(&rig);

	/* One that is made is spent, also when its task was paused in between. */
	rig_init(&rig);
	rig.handler.budget = budget;
	rig_open(&rig);
	rig_submit(&rig, "a", "u");
	rig_run_until(&rig, 200);
	assert_int_equal(rea_budget_available(budget, rig.now_ns), 1);
	rig_close(&rig);
	rea_budget_free(budget);
}

/* A task that the budget parks waits like one in backoff: without a slot, in its place of the parking until it goes on or ends. */
static void parked_tasks_wait_for_the_budget(void **state)
{
	const struct rea_budget_policy policy = {.rule = REA_BUDGET_EVIDENCE};
	struct rea_retry_limit parking;
	struct rea_budget_lease lease;
	struct rea_budget *budget;
	struct rig rig;

	(void)state;
	assert_int_equal(rea_budget_new(&policy, 1, NULL, &budget, NULL), 0);
	rea_retry_limit_init(&parking, 3);
	rig_init(&rig);
	rig.policy.deadline_ns = rig.policy.attempt_timeout_ns = S(20);
	rig.handler.budget = budget;
	rig.options.parking = &parking;
	rig.options.concurrency = 1;
	for (int i = 0; i < 12; i++)
		rea_budget_report(budget, 0, REA_BUDGET_TRANSIENT, NULL, rig.now_ns);
	while (rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, rig.now_ns, &lease))
		;
	rig_open(&rig);
	for (int i = 0; i < 4; i++)
		rig_submit(&rig, (const char *[]){"a", "b", "c", "d"}[i], "uo");
	rig_run_until(&rig, 10);
	assert_int_equal(rea_retry_limit_in_use(&parking), 3);
	assert_int_equal(rig_stats(&rig).running, 0);
	assert_int_equal(rig_stats(&rig).waiting, 3);
	assert_int_equal(rig.items[3].reason, REA_REASON_BUDGET_EXHAUSTED);
	rig_cancel(&rig.items[0]);
	rig_run_until(&rig, 1000);
	assert_int_equal(rea_retry_limit_in_use(&parking), 2);
	assert_int_equal(rig_stats(&rig).waiting, 2);
	assert_int_equal(rig_stats(&rig).retries, 0);
	/* Life returns. */
	for (int i = 0; i < 5; i++)
		rea_budget_report(budget, 0, REA_BUDGET_SUCCESS, NULL, rig.now_ns);
	rig_run_until(&rig, 5000);
	assert_int_equal(rig.items[1].state, REA_TASK_SUCCESS);
	assert_int_equal(rig.items[2].state, REA_TASK_SUCCESS);
	assert_int_equal(rea_retry_limit_in_use(&parking), 0);
	/* One event for the attempt that led to it, none for each look. */
	assert_int_equal(rig_stats(&rig).events, 4 + 1 + 2);
	rig_close(&rig);
	rea_budget_free(budget);
}

static void breaker_and_limit_are_asked(void **state)
{
	struct rea_retry_limit limit;
	struct rea_breaker *breaker;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.policy.breaker.minimum_calls = rig.policy.breaker.window_size = 1;
	assert_int_equal(rea_breaker_new(&rig.policy.breaker, NULL, &breaker, NULL), 0);
	rig.handler.breaker = breaker;
	rea_retry_limit_init(&limit, 1);
	rig.options.retry_limit = &limit;
	rig_open(&rig);
	rig_submit(&rig, "a", "u");
	rig_run_until(&rig, 0);
	rig_expect(&rig, "0 attempt a 1/3\n"
			 "0 GiveUp a 1 unavailable 503 breaker_open\n"
			 "0 done a GIVEN_UP 1 unavailable 503 breaker_open\n");
	rig_close(&rig);
	rea_breaker_free(breaker);

	rig_init(&rig);
	rig.options.retry_limit = &limit;
	rig_open(&rig);
	rig_submit(&rig, "a", "u-");
	rig_run_until(&rig, 100);
	assert_int_equal(rea_retry_limit_in_use(&limit), 1);
	rig.now_ns++;
	rig_submit(&rig, "b", "u");
	rig_run_until(&rig, 101);
	assert_int_equal(rig.items[1].reason, REA_REASON_OVERLOADED);
	rig_report_item(&rig.items[0], 'o');
	rig_run_until(&rig, 102);
	assert_int_equal(rea_retry_limit_in_use(&limit), 0);
	rig_close(&rig);
}

static uint32_t permits_out;

static bool gate_acquire(void *user_data, uint64_t now_ns, struct rea_breaker_permit *ret_permit)
{
	const bool *open = user_data;

	(void)now_ns;
	permits_out += !*open;
	ret_permit->given = !*open;
	return !*open;
}

static bool gate_permits(void *user_data, uint64_t now_ns)
{
	const bool *open = user_data;

	(void)now_ns;
	return !*open;
}

static void gate_report(void *user_data, struct rea_breaker_permit *permit, enum rea_breaker_result result,
    uint64_t latency_ns, uint64_t now_ns)
{
	(void)user_data;
	(void)permit;
	(void)result;
	(void)latency_ns;
	(void)now_ns;
	permits_out--;
}

static void a_gate_stands_for_a_breaker(void **state)
{
	struct rea_gate gate = {gate_acquire, gate_permits, gate_report, NULL};
	struct rea_error_info info;
	struct rea_breaker *breaker;
	bool open = false;
	struct rig rig;

	(void)state;
	permits_out = 0;
	gate.user_data = &open;
	rig_init(&rig);
	rig.handler.gate = &gate;
	rig_open(&rig);
	rig_submit(&rig, "a", "-");
	rig_run(&rig, 0);
	assert_int_equal(permits_out, 1);
	open = true;
	rig_submit(&rig, "b", "o");
	rig_report_item(&rig.items[0], 'u');
	rig_run(&rig, 1);
	assert_int_equal(permits_out, 0);
	assert_int_equal(rig.items[0].reason, REA_REASON_BREAKER_OPEN);
	assert_int_equal(rig.items[1].reason, REA_REASON_BREAKER_OPEN);

	/* One of them. */
	assert_int_equal(rea_breaker_new(&rig.policy.breaker, NULL, &breaker, NULL), 0);
	rig.handler.name = "both";
	rig.handler.breaker = breaker;
	assert_refused(rea_executor_handle(rig.executor, &rig.handler, &info), &info, "handler",
	    "handler \"both\" has both a breaker and a gate");
	rea_breaker_free(breaker);
	rig_close(&rig);
}

/* ---- what is told ---- */

static size_t events_seen;

static void look_at_event(struct rig *rig, const struct rea_event *event)
{
	assert_int_equal(event->type, REA_EVENT_RETRY);
	assert_true(event->attempt_start_ns == rig->base_ns && event->time_ns == rig->base_ns + MS(30));
	assert_true(event->cost_ns == MS(30) && event->next_delay_ns == MS(100));
	assert_memory_equal(event->biz_id.text, "order", 5);
	assert_memory_equal(event->key.text, "key", 3);
	assert_memory_equal(event->trace_id.text, "trace", 5);
	assert_memory_equal(event->service.text, "work", 4);
	assert_int_equal(event->method.length + event->detail.length, 0);
	assert_memory_equal(event->instance.text, "[::1]:9001", event->instance.length);
	assert_int_equal(event->instance.length, 10);
	assert_int_equal(event->attempts_max, 3);
	assert_true(event->retryable);
	assert_int_equal(event->verdict, REA_VERDICT_RETRY);
	assert_int_equal(event->grant.permission, REA_PERMISSION_IDEMPOTENT);
	assert_int_equal(event->grant.source, REA_PERMISSION_SOURCE_CALLER);
	events_seen++;
}

static void an_event_says_everything(void **state)
{
	struct item *item;
	struct rig rig;

	(void)state;
	events_seen = 0;
	rig_init(&rig);
	rig.on_event = look_at_event;
	rig.handler.instances = list_hosts;
	rig_open(&rig);
	item = rig_item(&rig, "a", "-");
	item->task.biz_id = (struct rea_text){"order", 5};
	item->task.key = (struct rea_text){"key", 3};
	item->task.trace_id = (struct rea_text){"trace", 5};
	rig_submit_item(item);
	rig_run(&rig, 0);
	rig.now_ns += MS(30);
	rig_report_item(item, 'u');
	rig_run(&rig, 30);
	assert_int_equal(events_seen, 1);
	rig.on_event = NULL;
	rig_close(&rig);
}

static void a_task_without_a_name_is_its_number(void **state)
{
	struct item *item;
	struct rig rig;
	char expected[256];

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	item = rig_item(&rig, "", "p");
	rig_submit_item(item);
	rig_run(&rig, 0);
	snprintf(expected, sizeof(expected),
	    "0 attempt  1/3\n0 GiveUp %" PRIu64
	    " 1 permanent 403 permanent\n0 done  GIVEN_UP 1 permanent 403 permanent\n",
	    item->id);
	rig_expect(&rig, expected);
	rig_close(&rig);
}

static void nobody_has_to_listen(void **state)
{
	struct item *item;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.options.event = NULL;
	rig.handler.cancel = NULL;
	rig_open(&rig);
	item = rig_item(&rig, "a", "uo");
	item->task.done = NULL;
	rig_submit_item(item);
	rig_run_until(&rig, 1000);
	rig_expect(&rig, "0 attempt a 1/3\n100 attempt a 2/3\n");
	assert_int_equal(rig_stats(&rig).events, 2);
	rig.items_len = 0;
	item = rig_submit(&rig, "b", "-");
	rig_run_until(&rig, 2000);
	rig_cancel(item);
	rig_run_until(&rig, 3000);
	assert_int_equal(rig_stats(&rig).running, 1);
	rig_report_item(item, 'o');
	assert_idle(&rig);
	rig_close(&rig);
}

static void observe_mode_only_says(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.policy.mode = REA_MODE_OBSERVE;
	rig_open(&rig);
	rig_submit(&rig, "a", "u");
	rig_run_until(&rig, 1000);
	rig_expect(
	    &rig, "0 attempt a 1/3\n0 WouldRetry a 1 unavailable 503 wait=100\n0 done a GIVEN_UP 1 unavailable 503\n");
	rig_close(&rig);
}

static void counters_add_up(void **state)
{
	struct rea_executor_stats stats;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_submit(&rig, "a", "o");
	rig_submit(&rig, "b", "uo");
	rig_submit(&rig, "c", "u");
	rig_submit(&rig, "d", "u");
	rig_submit(&rig, "e", "uu-");
	rig_run_until(&rig, 150);
	rig_cancel(&rig.items[3]);
	rig_run_until(&rig, 1000);
	stats = rig_stats(&rig);
	assert_int_equal(stats.submitted, 5);
	assert_int_equal(stats.attempts[REA_OUTCOME_OK], 2);
	assert_int_equal(stats.attempts[REA_OUTCOME_UNAVAILABLE], 1 + 3 + 2 + 2);
	assert_int_equal(stats.retries, 1 + 2 + 1 + 2);
	assert_int_equal(stats.first_try_successes, 1);
	assert_int_equal(stats.events, 2 + 3 + 3 + 2);
	assert_int_equal(stats.ended[REA_TASK_SUCCESS], 2);
	assert_int_equal(stats.ended[REA_TASK_GIVEN_UP], 1);
	assert_int_equal(stats.ended[REA_TASK_CANCELLED], 1);
	assert_int_equal(stats.tasks, 1);
	assert_int_equal(stats.running, 1);
	assert_int_equal(stats.waiting, 0);
	assert_string_equal(rea_task_state_name(REA_TASK_PENDING), "PENDING");
	assert_string_equal(rea_task_state_name(REA_TASK_HANDED_BACK), "HANDED_BACK");
	assert_string_equal(rea_task_state_name(REA_TASK_STATE_COUNT), "unknown");
	rig.stops = true;
	rig_close(&rig);
}

/* ---- memory ---- */

static size_t allocated, allocations_live;

/* In front of each block, and as aligned as malloc's. */
union header {
	size_t size;
	max_align_t align;
};

static void *count_realloc(void *ptr, size_t size, void *user_data)
{
	union header *old = ptr != NULL ? (union header *)ptr - 1 : NULL, *block;

	(void)user_data;
	if (old != NULL)
		allocated -= old->size;
	block = realloc(old, sizeof(*block) + size);
	assert_non_null(block);
	allocations_live += ptr == NULL;
	allocated += size;
	block->size = size;
	return block + 1;
}

static void count_free(void *ptr, void *user_data)
{
	(void)user_data;
	if (ptr == NULL)
		return;
	allocated -= ((union header *)ptr - 1)->size;
	allocations_live--;
	free((union header *)ptr - 1);
}

/* Every pending task costs at most 48 bytes on top of itself, also just after the tables have grown. */
static void a_pending_task_is_small(void **state)
{
	static const struct rea_alloc alloc = {NULL, count_realloc, count_free};
	enum { TASKS = 30000, TEXTS = 20, PAYLOAD = 100 };
	struct item *item;
	struct rig rig;
	size_t before, worst = 0;

	(void)state;
	rig_init(&rig);
	rig.options.tasks_max = 100 * TASKS;
	rig.options.event = NULL;
	assert_int_equal(rea_executor_new(&rig.options, &alloc, &rig.executor, NULL), 0);
	assert_int_equal(rea_executor_handle(rig.executor, &rig.handler, NULL), 0);
	item = rig_item(&rig, "0123456789", "o");
	item->task.biz_id = item->task.name;
	item->task.payload = megabytes;
	item->task.payload_len = PAYLOAD;
	item->task.not_before_ns = rig.base_ns + S(60);
	item->task.done = NULL;
	before = allocated;
	for (size_t i = 1; i <= TASKS; i++) {
		size_t each;

		rig_submit_item(item);
		each = (allocated - before) / i;
		if (i > TASKS / 100 && each > worst)
			worst = each;
	}
	/* The task itself is what it was submitted with, packed, and where it stands. */
	assert_in_range(sizeof(struct rea__task), 64, sizeof(struct rea_task) / 2);
	assert_in_range(worst - sizeof(struct rea__task) - TEXTS - PAYLOAD, 32, 48);
	rig.items_len = 0;
	rig_close(&rig);
	assert_int_equal(allocated, 0);
	assert_int_equal(allocations_live, 0);
}

static bool never_permits(void *user_data, uint64_t now_ns)
{
	(void)user_data;
	(void)now_ns;
	return false;
}

static void it_tells_of_itself(void **state)
{
	static const char right[] = "executor: 2 attempts at once, 1000 tasks of at most 10 attempts; 3 held, 1 "
				    "waiting, 2 running; something is due in "
				    "500 ms; drains\n"
				    "concurrent retries: 1 of 5\n"
				    "parked tasks: 0 of 1000\n"
				    "handler work\n"
				    "  budget: ratio, 0.2 of first attempts and 3 a second in 1000 ms; 3 retries left\n"
				    "  circuit breaker: failures from 50 % or slow calls from 100 % (slower than 60000 "
				    "ms) of the last 100 calls, from 100 "
				    "calls on; open for 60000 ms, then 10 calls; closed, calls seen 0\n"
				    "handler gated\n"
				    "  gate: refuses calls\n";
	const struct rea_budget_policy policy = {
	    .rule = REA_BUDGET_RATIO, .ratio_permille = 200, .reserve_per_s = 3, .window_ms = 1000};
	const struct rea_gate gate = {.permits = never_permits};
	struct rea_retry_limit limit;
	struct rea_handler gated;
	char text[1024], small[9];
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rea_retry_limit_init(&limit, 5);
	assert_true(rea_retry_limit_acquire(&limit));
	rig.options.retry_limit = &limit;
	rig.options.concurrency = 2;
	assert_int_equal(rea_budget_new(&policy, 1, NULL, &rig.handler.budget, NULL), 0);
	assert_int_equal(rea_breaker_new(&rig.policy.breaker, NULL, &rig.handler.breaker, NULL), 0);
	rig_open(&rig);
	gated = rig.handler;
	gated.name = "gated";
	gated.budget = NULL;
	gated.breaker = NULL;
	gated.gate = &gate;
	assert_int_equal(rea_executor_handle(rig.executor, &gated, NULL), 0);
	for (int i = 0; i < 3; i++)
		rig_submit(&rig, "a", "-");
	rig_run(&rig, 0);
	rea_executor_shutdown(rig.executor, REA_SHUTDOWN_DRAIN, rig.now_ns + MS(500));
	assert_int_equal(rea_executor_explain(rig.executor, rig.now_ns, NULL, 0), strlen(right));
	assert_int_equal(rea_executor_explain(rig.executor, rig.now_ns, small, sizeof(small)), strlen(right));
	assert_string_equal(small, "executor");
	assert_int_equal(rea_executor_explain(rig.executor, rig.now_ns, text, sizeof(text)), strlen(right));
	assert_string_equal(text, right);
	rig.stops = true;
	rea_executor_shutdown(rig.executor, REA_SHUTDOWN_CANCEL, REA_NEVER);
	assert_non_null(
	    strstr((rea_executor_explain(rig.executor, rig.now_ns, text, sizeof(text)), text), "; cancels\n"));
	rig_run(&rig, 1);
	rea_executor_explain(rig.executor, rig.now_ns, text, sizeof(text));
	assert_non_null(strstr(text, "; 0 held, 0 waiting, 0 running; cancels\n"));
	rig_close(&rig);
	rea_budget_free(rig.handler.budget);
	rea_breaker_free(rig.handler.breaker);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_tells_of_itself),
	    cmocka_unit_test(due_tasks_run_by_time_then_arrival),
	    cmocka_unit_test(never_more_than_there_are_slots),
	    cmocka_unit_test(time_never_runs_backwards),
	    cmocka_unit_test(jitter_is_always_on),
	    cmocka_unit_test(the_defaults_are_those_of_the_design),
	    cmocka_unit_test(options_out_of_bounds_build_nothing),
	    cmocka_unit_test(handlers_have_a_name_of_their_own),
	    cmocka_unit_test(tasks_out_of_bounds_are_refused),
	    cmocka_unit_test(policies_out_of_bounds_are_refused),
	    cmocka_unit_test(a_refusal_says_why),
	    cmocka_unit_test(without_permission_there_is_one_attempt),
	    cmocka_unit_test(a_nested_task_neither_inherits_nor_clears),
	    cmocka_unit_test(what_is_submitted_is_copied),
	    cmocka_unit_test(cancel_before_its_time),
	    cmocka_unit_test(cancel_an_attempt_that_stops),
	    cmocka_unit_test(cancel_an_attempt_that_goes_on),
	    cmocka_unit_test(a_report_after_a_cancel_is_ignored),
	    cmocka_unit_test(a_cancel_after_a_report_stops_what_follows),
	    cmocka_unit_test(reports_for_nobody),
	    cmocka_unit_test(silence_is_ambiguous),
	    cmocka_unit_test(the_latency_is_filled_in),
	    cmocka_unit_test(a_handler_may_cancel_its_own_task),
	    cmocka_unit_test(a_task_cancelled_before_its_turn_is_not_begun),
	    cmocka_unit_test(a_handler_may_report_from_within),
	    cmocka_unit_test(a_done_callback_may_submit),
	    cmocka_unit_test(an_event_callback_may_cancel),
	    cmocka_unit_test(a_cancel_hook_may_report),
	    cmocka_unit_test(a_last_word_inside_done),
	    cmocka_unit_test(drain_runs_everything_to_its_end),
	    cmocka_unit_test(drain_until_a_deadline),
	    cmocka_unit_test(hand_back_lets_attempts_end),
	    cmocka_unit_test(an_interrupted_write_is_given_up),
	    cmocka_unit_test(shutdown_cancels),
	    cmocka_unit_test(a_shutdown_may_be_hurried),
	    cmocka_unit_test(a_callback_may_shut_down),
	    cmocka_unit_test(what_is_being_told_is_cancelled_too),
	    cmocka_unit_test(an_interrupted_handler_keeps_its_slot),
	    cmocka_unit_test(a_hook_may_hurry_the_shutdown),
	    cmocka_unit_test(a_shutdown_does_not_slow_down),
	    cmocka_unit_test(an_interruption_does_not_undo_a_cancel),
	    cmocka_unit_test(a_task_goes_on_elsewhere),
	    cmocka_unit_test(an_interrupted_task_is_decided_first),
	    cmocka_unit_test(instances_are_tried_in_rounds),
	    cmocka_unit_test(more_was_tried_than_the_policy_has),
	    cmocka_unit_test(a_list_may_be_empty),
	    cmocka_unit_test(the_budget_gets_back_what_is_not_used),
	    cmocka_unit_test(parked_tasks_wait_for_the_budget),
	    cmocka_unit_test(breaker_and_limit_are_asked),
	    cmocka_unit_test(a_gate_stands_for_a_breaker),
	    cmocka_unit_test(an_event_says_everything),
	    cmocka_unit_test(a_task_without_a_name_is_its_number),
	    cmocka_unit_test(nobody_has_to_listen),
	    cmocka_unit_test(observe_mode_only_says),
	    cmocka_unit_test(counters_add_up),
	    cmocka_unit_test(a_pending_task_is_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
