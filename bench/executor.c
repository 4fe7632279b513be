/*
 * What waiting costs with a million tasks pending: the schedule alone (pop and push, cancel), whole tasks through the executor, and their memory.
 * Time supplied, times spread over an hour. Medians of several runs.
 *
 * A line for each case: who, what, threads, CPU ns, wall ns, bytes for each that waits, between tabs; bench/run library reads it. Bytes are those of
 * the heap with its places; of a task with all that it costs, malloc's own too; or only of what the executor has on top of the task.
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

struct cost {
	uint64_t cpu_ns, wall_ns;
};

static struct cost spent_since(struct cost start)
{
	struct timespec cpu, wall;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
	clock_gettime(CLOCK_MONOTONIC, &wall);
	return (struct cost){(uint64_t)cpu.tv_sec * REA_NS_PER_S + (uint64_t)cpu.tv_nsec - start.cpu_ns,
	    (uint64_t)wall.tv_sec * REA_NS_PER_S + (uint64_t)wall.tv_nsec - start.wall_ns};
}

static struct cost start(void)
{
	return spent_since((struct cost){0, 0});
}

static void must(int error)
{
	if (error != 0) {
		fprintf(stderr, "%s\n", rea_error_text(error));
		exit(1);
	}
}

static int by_cpu(const void *a, const void *b)
{
	uint64_t left = ((const struct cost *)a)->cpu_ns, right = ((const struct cost *)b)->cpu_ns;

	return (left > right) - (left < right);
}

static void say(const char *who, const char *what, struct cost costs[RUNS], double bytes)
{
	qsort(costs, RUNS, sizeof(costs[0]), by_cpu);
	printf("%s\t%s\t1\t%.1f\t%.1f\t%.1f\n", who, what, (double)costs[RUNS / 2].cpu_ns / OPERATIONS,
	    (double)costs[RUNS / 2].wall_ns / OPERATIONS, bytes);
}

/* ---- memory is counted: the tasks are small, what is on top of them is large ---- */

enum { LARGE = 4096 };

static size_t large; /* bytes in use in large pieces */

static void *counting_realloc(void *ptr, size_t size, void *user_data)
{
	size_t before = ptr != NULL ? malloc_usable_size(ptr) : 0, after;

	(void)user_data;
	ptr = realloc(ptr, size);
	after = ptr != NULL ? malloc_usable_size(ptr) : before;
	large += (after >= LARGE ? after : 0) - (before >= LARGE ? before : 0);
	return ptr;
}

static void counting_free(void *ptr, void *user_data)
{
	size_t size = ptr != NULL ? malloc_usable_size(ptr) : 0;

	(void)user_data;
	large -= size >= LARGE ? size : 0;
	free(ptr);
}

static const struct rea_alloc alloc = {NULL, counting_realloc, counting_free};

static size_t in_use(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

/* ---- the schedule ---- */

static struct cost pop_and_push(struct rea_heap *heap, struct rea_random *random)
{
	struct cost begin = start();

	for (uint32_t i = 0; i < OPERATIONS; i++) {
		uint64_t due_ns = rea_heap_next(heap);

		rea_heap_push(heap, rea_heap_pop(heap), due_ns + rea_random_below(random, HOUR_NS));
	}
	return spent_since(begin);
}

static struct cost remove_and_push(struct rea_heap *heap, struct rea_random *random)
{
	struct cost begin = start();

	for (uint32_t i = 0; i < OPERATIONS; i++) {
		uint32_t number = (uint32_t)rea_random_below(random, PENDING);

		rea_heap_remove(heap, number);
		rea_heap_push(heap, number, rea_random_below(random, HOUR_NS));
	}
	return spent_since(begin);
}

static void measure_schedule(void)
{
	struct cost pops[RUNS], removals[RUNS];
	struct rea_heap heap = {0};
	struct rea_random random;
	double bytes;

	rea_random_init(&random, 1);
	must(rea_heap_reserve(&heap, PENDING, &alloc));
	bytes = (double)large / PENDING;
	for (uint32_t i = 0; i < PENDING; i++)
		rea_heap_push(&heap, i, rea_random_below(&random, HOUR_NS));
	for (int run = 0; run < RUNS; run++) {
		pops[run] = pop_and_push(&heap, &random);
		removals[run] = remove_and_push(&heap, &random);
	}
	say("rea, the heap alone", "pop+push", pops, bytes);
	say("rea, the heap alone", "remove+push", removals, bytes);
	rea_heap_fini(&heap, &alloc);
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
	must(rea_executor_new(&options, &alloc, &executor, NULL));
	must(rea_executor_handle(executor, &handler, NULL));
	return executor;
}

/* The next one runs, succeeds and is gone; a new one takes its place. */
static struct cost run_and_submit(struct rea_executor *executor, struct rea_random *random, uint64_t *now_ns)
{
	struct cost begin = start();

	for (uint32_t i = 0; i < OPERATIONS; i++) {
		*now_ns = rea_time_max(*now_ns, rea_executor_next(executor));
		rea_executor_run(executor, *now_ns);
		submit(executor, *now_ns + rea_random_below(random, HOUR_NS), *now_ns);
	}
	return spent_since(begin);
}

static struct cost cancel_and_submit(struct rea_executor *executor, struct rea_random *random, uint64_t now_ns)
{
	struct cost begin = start();

	for (uint32_t i = 0; i < OPERATIONS; i++) {
		uint32_t number = (uint32_t)rea_random_below(random, PENDING);

		must(rea_executor_cancel(executor, ids[number], now_ns));
		rea_executor_run(executor, now_ns);
		ids[number] = submit(executor, now_ns + 1 + rea_random_below(random, HOUR_NS), now_ns);
	}
	return spent_since(begin);
}

static void measure_tasks(void)
{
	struct cost cancels[RUNS], runs[RUNS];
	uint64_t now_ns = HOUR_NS;
	struct rea_executor *executor;
	struct rea_random random;
	size_t before = in_use();
	double whole, on_top;

	large = 0;
	executor = open_executor();
	rea_random_init(&random, 1);
	for (uint32_t i = 0; i < PENDING; i++)
		ids[i] = submit(executor, now_ns + 1 + rea_random_below(&random, HOUR_NS), now_ns);
	whole = (double)(in_use() - before) / PENDING;
	on_top = (double)large / PENDING;
	for (int run = 0; run < RUNS; run++)
		cancels[run] = cancel_and_submit(executor, &random, now_ns);
	for (int run = 0; run < RUNS; run++)
		runs[run] = run_and_submit(executor, &random, &now_ns);
	say("rea", "pending", cancels, whole);
	say("rea", "run+submit", runs, on_top);
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
