/*
 * What waiting costs with a million tasks pending: the schedule alone (pop and push, cancel), whole tasks through the executor, and their memory.
 * Thread CPU time, time supplied, times spread over an hour. The best of several runs: what disturbs a run only ever adds.
 */
#include "base/heap.h"

#include <rea/executor.h>
#include <rea/random.h>
#include <rea/time.h>

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PENDING = 1000000, OPERATIONS = 1000000, RUNS = 3 };

#define HOUR_NS (3600 * REA_NS_PER_S)

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * REA_NS_PER_S + (uint64_t)now.tv_nsec;
}

static void must(int error)
{
	if (error != 0) {
		fprintf(stderr, "%s\n", rea_error_text(error));
		exit(1);
	}
}

static void say(const char *what, uint64_t best_ns, const char *unit)
{
	printf("%-48s %6.1f %s\n", what, (double)best_ns / OPERATIONS, unit);
}

/* ---- the schedule ---- */

static uint64_t pop_and_push(struct rea_heap *heap, struct rea_random *random)
{
	uint64_t start_ns = cpu_ns();

	for (uint32_t i = 0; i < OPERATIONS; i++) {
		uint64_t due_ns = rea_heap_next(heap);

		rea_heap_push(heap, rea_heap_pop(heap), due_ns + rea_random_below(random, HOUR_NS));
	}
	return cpu_ns() - start_ns;
}

static uint64_t remove_and_push(struct rea_heap *heap, struct rea_random *random)
{
	uint64_t start_ns = cpu_ns();

	for (uint32_t i = 0; i < OPERATIONS; i++) {
		uint32_t number = (uint32_t)rea_random_below(random, PENDING);

		rea_heap_remove(heap, number);
		rea_heap_push(heap, number, rea_random_below(random, HOUR_NS));
	}
	return cpu_ns() - start_ns;
}

static void measure_schedule(void)
{
	uint64_t best_pop_ns = UINT64_MAX, best_remove_ns = UINT64_MAX;
	struct rea_heap heap = {0};
	struct rea_random random;

	rea_random_init(&random, 1);
	must(rea_heap_reserve(&heap, PENDING, rea_alloc_default()));
	for (uint32_t i = 0; i < PENDING; i++)
		rea_heap_push(&heap, i, rea_random_below(&random, HOUR_NS));
	for (int run = 0; run < RUNS; run++) {
		best_pop_ns = rea_time_min(best_pop_ns, pop_and_push(&heap, &random));
		best_remove_ns = rea_time_min(best_remove_ns, remove_and_push(&heap, &random));
	}
	say("schedule: pop + push", best_pop_ns, "ns");
	say("schedule: remove any + push", best_remove_ns, "ns");
	rea_heap_fini(&heap, rea_alloc_default());
}

/* ---- whole tasks ---- */

static uint64_t ids[PENDING];

static bool succeed(const struct rea_attempt *attempt, struct rea_report *ret_report, void *user_data)
{
	(void)attempt;
	(void)user_data;
	ret_report->outcome = REA_OUTCOME_OK;
	return true;
}

static uint64_t submit(struct rea_executor *executor, uint64_t not_before_ns, uint64_t now_ns)
{
	struct rea_task task;
	uint64_t id;

	rea_task_init(&task);
	task.handler = "work";
	task.not_before_ns = not_before_ns;
	must(rea_executor_submit(executor, &task, now_ns, &id, NULL));
	return id;
}

static struct rea_executor *open_executor(void)
{
	const struct rea_handler handler = {.name = "work", .attempt = succeed};
	struct rea_executor_options options;
	struct rea_executor *executor;

	rea_executor_options_init(&options);
	options.concurrency = 1;
	options.tasks_max = PENDING + 1;
	must(rea_executor_new(&options, NULL, &executor, NULL));
	must(rea_executor_handle(executor, &handler, NULL));
	return executor;
}

/* The next one runs, succeeds and is gone; a new one takes its place. */
static uint64_t run_and_submit(struct rea_executor *executor, struct rea_random *random, uint64_t *now_ns)
{
	uint64_t start_ns = cpu_ns();

	for (uint32_t i = 0; i < OPERATIONS; i++) {
		*now_ns = rea_time_max(*now_ns, rea_executor_next(executor));
		rea_executor_run(executor, *now_ns);
		submit(executor, *now_ns + rea_random_below(random, HOUR_NS), *now_ns);
	}
	return cpu_ns() - start_ns;
}

static uint64_t cancel_and_submit(struct rea_executor *executor, struct rea_random *random, uint64_t now_ns)
{
	uint64_t start_ns = cpu_ns();

	for (uint32_t i = 0; i < OPERATIONS; i++) {
		uint32_t number = (uint32_t)rea_random_below(random, PENDING);

		must(rea_executor_cancel(executor, ids[number], now_ns));
		rea_executor_run(executor, now_ns);
		ids[number] = submit(executor, now_ns + 1 + rea_random_below(random, HOUR_NS), now_ns);
	}
	return cpu_ns() - start_ns;
}

static size_t heap_in_use(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

static void measure_tasks(void)
{
	uint64_t best_ns = UINT64_MAX, now_ns = HOUR_NS, start_ns;
	size_t before = heap_in_use();
	struct rea_executor *executor = open_executor();
	struct rea_random random;

	rea_random_init(&random, 1);
	start_ns = cpu_ns();
	for (uint32_t i = 0; i < PENDING; i++)
		ids[i] = submit(executor, now_ns + 1 + rea_random_below(&random, HOUR_NS), now_ns);
	say("task: submit", cpu_ns() - start_ns, "ns");
	printf("%-48s %6.1f bytes, with malloc's own\n", "task: memory while pending",
	    (double)(heap_in_use() - before) / PENDING);
	for (int run = 0; run < RUNS; run++)
		best_ns = rea_time_min(best_ns, cancel_and_submit(executor, &random, now_ns));
	say("task: cancel any + submit", best_ns, "ns");
	best_ns = UINT64_MAX;
	for (int run = 0; run < RUNS; run++)
		best_ns = rea_time_min(best_ns, run_and_submit(executor, &random, &now_ns));
	say("task: submit, wait its turn, attempt, success", best_ns, "ns");
	rea_executor_shutdown(executor, REA_SHUTDOWN_CANCEL, 0);
	rea_executor_run(executor, now_ns);
	rea_executor_free(executor);
}

int main(void)
{
	measure_schedule();
	measure_tasks();
	return 0;
}
