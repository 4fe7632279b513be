/* Out of memory at every allocation of executor and runner: an error, nothing changed, nothing lost, and it goes on. */
#include "../fail_alloc.h"

#include <rea/runner.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { HANDLERS = 5, TASKS = 40, ALLOCATIONS_MAX = 200 };

#define NOW_NS (1000 * REA_NS_PER_S)

struct counts {
	uint32_t submitted, done, attempts;
};

static bool attempt(const struct rea_attempt *attempt, struct rea_report *ret_report, void *user_data)
{
	struct counts *counts = user_data;

	__atomic_add_fetch(&counts->attempts, 1, __ATOMIC_RELAXED);
	ret_report->outcome = attempt->number == 1 ? REA_OUTCOME_UNAVAILABLE : REA_OUTCOME_OK;
	return true;
}

static void done(const struct rea_task_end *end, void *user_data)
{
	struct counts *counts = user_data;

	(void)end;
	counts->done++;
}

static struct rea_handler handler_of(struct counts *counts, const char *name)
{
	return (struct rea_handler){.name = name, .attempt = attempt, .user_data = counts};
}

static struct rea_task task_of(struct counts *counts)
{
	struct rea_task task;

	rea_task_init(&task);
	task.handler = "1";
	task.grant.permission = REA_PERMISSION_SAFE;
	task.name = (struct rea_text){"a task", 6};
	task.payload = "payload";
	task.payload_len = 7;
	task.done = done;
	task.user_data = counts;
	return task;
}

/* Every function of the executor, each again when it fails for want of memory. Returns false when that does not help. */
static bool use_executor(struct fail_alloc *failing, struct counts *counts)
{
	struct rea_executor *executor = NULL;
	struct rea_executor_options options;
	struct rea_executor_stats stats;
	int tries = 0, error;
	uint64_t id = 0;

	rea_executor_options_init(&options);
	while ((error = rea_executor_new(&options, &failing->alloc, &executor, NULL)) == REA_ERR_NOMEM && tries++ == 0)
		assert_null(executor);
	if (error != 0)
		return false;
	for (int i = 0; i < HANDLERS && tries < 2; i++) {
		char name[8];
		struct rea_handler handler = handler_of(counts, name);

		snprintf(name, sizeof(name), "%d", i);
		while ((error = rea_executor_handle(executor, &handler, NULL)) == REA_ERR_NOMEM && tries++ == 0)
			;
		/* Not half there: it could be registered again. */
		assert_int_equal(error, tries < 2 ? 0 : REA_ERR_NOMEM);
	}
	for (int i = 0; i < TASKS && tries < 2; i++) {
		struct rea_task task = task_of(counts);

		while ((error = rea_executor_submit(executor, &task, NOW_NS, &id, NULL)) == REA_ERR_NOMEM && tries++ == 0)
			;
		counts->submitted += error == 0;
	}
	rea_executor_stats(executor, &stats);
	assert_int_equal(stats.tasks, counts->submitted);
	/* Deciding takes no memory, also when there is none any more. */
	rea_executor_run(executor, NOW_NS);
	rea_executor_cancel(executor, id, NOW_NS);
	rea_executor_run(executor, NOW_NS + REA_NS_PER_S);
	rea_executor_shutdown(executor, REA_SHUTDOWN_HAND_BACK, 0);
	rea_executor_run(executor, NOW_NS + REA_NS_PER_S);
	assert_int_equal(counts->done, counts->submitted);
	rea_executor_free(executor);
	return tries < 2;
}

static bool use_runner(struct fail_alloc *failing, struct counts *counts)
{
	struct rea_runner_options options;
	struct rea_runner *runner = NULL;
	int tries = 0, error;
	uint64_t id;

	rea_runner_options_init(&options);
	options.threads = 2;
	options.executor.seed = 1;
	while ((error = rea_runner_new(&options, &failing->alloc, &runner, NULL)) == REA_ERR_NOMEM && tries++ == 0)
		assert_null(runner);
	if (error != 0)
		return false;
	for (int i = 0; i < HANDLERS && tries < 2; i++) {
		char name[8];
		struct rea_handler handler = handler_of(counts, name);

		snprintf(name, sizeof(name), "%d", i);
		while ((error = rea_runner_handle(runner, &handler, NULL)) == REA_ERR_NOMEM && tries++ == 0)
			;
		assert_int_equal(error, tries < 2 ? 0 : REA_ERR_NOMEM);
	}
	for (int i = 0; i < TASKS && tries < 2; i++) {
		struct rea_task task = task_of(counts);

		while ((error = rea_runner_submit(runner, &task, &id, NULL)) == REA_ERR_NOMEM && tries++ == 0)
			;
		counts->submitted += error == 0;
	}
	rea_runner_shutdown(runner, REA_SHUTDOWN_HAND_BACK, REA_NEVER);
	rea_runner_free(runner);
	assert_int_equal(counts->done, counts->submitted);
	return tries < 2;
}

/* The n-th allocation fails, for every n until none fails any more. Returns how many there are. */
static size_t fail_each(bool (*use)(struct fail_alloc *failing, struct counts *counts), bool for_good)
{
	for (size_t n = 0; n < ALLOCATIONS_MAX; n++) {
		struct counts counts = {0};
		struct fail_alloc failing;
		bool went_on;

		fail_alloc_init(&failing, n, for_good);
		went_on = use(&failing, &counts);
		assert_int_equal(failing.live, 0);
		if (failing.failed == 0) {
			assert_int_equal(counts.submitted, TASKS);
			return n;
		}
		assert_int_equal(went_on, !for_good);
	}
	return ALLOCATIONS_MAX;
}

static void the_executor_goes_on(void **state)
{
	size_t allocations = fail_each(use_executor, false);

	(void)state;
	/* The executor, its slots; per handler itself and its place, the names twice; per task one; three times four tables. */
	assert_int_equal(allocations, 2 + 2 * HANDLERS + 2 + TASKS + 3 * 4);
	assert_int_equal(fail_each(use_executor, true), allocations);
}

static void the_runner_goes_on(void **state)
{
	size_t allocations = fail_each(use_runner, false);

	(void)state;
	assert_in_range(allocations, 4 + 3 * HANDLERS + TASKS, ALLOCATIONS_MAX - 1);
	assert_int_equal(fail_each(use_runner, true), allocations);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_executor_goes_on),
	    cmocka_unit_test(the_runner_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
