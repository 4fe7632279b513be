/*
 * What a guarded call costs, in CPU time of its thread: with time supplied, with clock reads of its own, refused; alone and by two threads on one
 * guard, each pinned to a processor. Budget, breaker and record are on, as in a service. Medians of several runs.
 *
 * A line for each case: who, what, threads, CPU ns, wall ns, bytes allocated, all per call, between tabs; bench/run library reads it.
 */
#include <rea/guard.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CALLS = 500000, RUNS = 5, THREADS_MAX = 2 };

static const struct rea_report ok = {.outcome = REA_OUTCOME_OK, .latency_ns = REA_NS_PER_MS};

static uint64_t read_clock(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * REA_NS_PER_S + (uint64_t)now.tv_nsec;
}

static uint64_t epoch_ns; /* where supplied time begins in this run */

/* ---- what is measured; each returns how many calls succeeded ---- */

typedef uint64_t work_function(struct rea_guard_thread *thread, struct rea_guard_run_options *options);

static uint64_t call_once(
    struct rea_guard_thread *thread, const struct rea_guard_run_options *options, uint64_t begin_ns, uint64_t end_ns)
{
	struct rea_decision decision;
	struct rea_guard_call call;

	rea_guard_begin(&call, thread, &options->call, begin_ns);
	rea_guard_next(&call, thread, NULL, begin_ns, &decision);
	if (decision.step == REA_STEP_ATTEMPT)
		rea_guard_report(&call, thread, &ok, NULL, end_ns, &decision);
	return decision.verdict == REA_VERDICT_SUCCESS;
}

/* Time supplied: the program read its clock once for many calls. */
static uint64_t supplied(struct rea_guard_thread *thread, struct rea_guard_run_options *options)
{
	uint64_t now_ns = epoch_ns, successes = 0;

	for (uint32_t i = 0; i < CALLS; i++, now_ns += 10 * REA_NS_PER_US)
		successes += call_once(thread, options, now_ns, now_ns);
	return successes;
}

/* The clock is read for each call, but the time that counts goes on slowly enough for a rate. */
static uint64_t clocked(struct rea_guard_thread *thread, struct rea_guard_run_options *options)
{
	uint64_t now_ns = epoch_ns, successes = 0;

	for (uint32_t i = 0; i < CALLS; i++, now_ns += 10 * REA_NS_PER_US) {
		uint64_t begin_ns = rea_time_max(now_ns, read_clock(CLOCK_MONOTONIC));

		successes += call_once(thread, options, begin_ns, rea_time_max(begin_ns, read_clock(CLOCK_MONOTONIC)));
	}
	return successes;
}

static struct rea_report succeed(const struct rea_guard_attempt *attempt, void *arg)
{
	(void)attempt;
	(void)arg;
	return rea_report_ok();
}

static uint64_t own_clock(struct rea_guard_thread *thread, struct rea_guard_run_options *options)
{
	uint64_t successes = 0;

	for (uint32_t i = 0; i < CALLS; i++)
		successes += rea_guard_run(thread, succeed, NULL, options, NULL) == REA_VERDICT_SUCCESS;
	return successes;
}

/* The breaker of the guard alone. */
static uint64_t breaker_supplied(struct rea_guard_thread *thread, struct rea_guard_run_options *options)
{
	struct rea_shared_breaker *breaker = rea_guard_breaker(thread->guard);
	uint64_t now_ns = epoch_ns, successes = 0;
	struct rea_breaker_permit permit;

	(void)options;
	for (uint32_t i = 0; i < CALLS; i++, now_ns += 10 * REA_NS_PER_US) {
		successes += rea_shared_breaker_acquire(breaker, now_ns, &permit);
		rea_shared_breaker_report(breaker, thread->shard, &permit, REA_BREAKER_SUCCESS, REA_NS_PER_MS, now_ns);
	}
	return successes;
}

static uint64_t breaker_clocked(struct rea_guard_thread *thread, struct rea_guard_run_options *options)
{
	struct rea_shared_breaker *breaker = rea_guard_breaker(thread->guard);
	struct rea_breaker_permit permit;
	uint64_t successes = 0;

	(void)options;
	for (uint32_t i = 0; i < CALLS; i++) {
		uint64_t begin_ns = read_clock(CLOCK_MONOTONIC), end_ns;

		if (!rea_shared_breaker_acquire(breaker, begin_ns, &permit))
			continue;
		end_ns = read_clock(CLOCK_MONOTONIC);
		rea_shared_breaker_report(breaker, thread->shard, &permit, REA_BREAKER_SUCCESS, end_ns - begin_ns, end_ns);
		successes++;
	}
	return successes;
}

/* ---- measuring ---- */

struct cost {
	double cpu_ns, wall_ns; /* per call */
};

struct worker {
	pthread_t thread;
	unsigned cpu;
	struct rea_guard *guard;
	pthread_barrier_t *barrier;
	work_function *work;
	uint64_t successes;
	struct cost cost;
};

static void *work(void *arg)
{
	struct rea_guard_run_options options;
	struct worker *worker = arg;
	struct rea_guard_thread thread;
	uint64_t cpu_ns, wall_ns;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(worker->cpu, &cpus);
	pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
	rea_guard_run_options_init(&options);
	options.call.grant = (struct rea_grant){REA_PERMISSION_IDEMPOTENT, REA_PERMISSION_SOURCE_CALLER};
	if (rea_guard_join(worker->guard, worker->cpu, &thread) != 0)
		abort();
	pthread_barrier_wait(worker->barrier);
	wall_ns = read_clock(CLOCK_MONOTONIC);
	cpu_ns = read_clock(CLOCK_THREAD_CPUTIME_ID);
	worker->successes = worker->work(&thread, &options);
	worker->cost.cpu_ns = (double)(read_clock(CLOCK_THREAD_CPUTIME_ID) - cpu_ns) / CALLS;
	worker->cost.wall_ns = (double)(read_clock(CLOCK_MONOTONIC) - wall_ns) / CALLS;
	rea_guard_leave(&thread);
	return NULL;
}

/* The dearer of the threads. */
static struct cost run(struct rea_guard *guard, work_function *what, int threads, bool refused)
{
	struct worker workers[THREADS_MAX];
	pthread_barrier_t barrier;
	struct cost worst = {0, 0};

	pthread_barrier_init(&barrier, NULL, (unsigned)threads);
	for (int i = 0; i < threads; i++) {
		workers[i] = (struct worker){.cpu = (unsigned)i, .guard = guard, .barrier = &barrier, .work = what};
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
			abort();
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		if (workers[i].successes != (refused ? 0 : CALLS))
			abort();
		if (workers[i].cost.cpu_ns > worst.cpu_ns)
			worst = workers[i].cost;
	}
	pthread_barrier_destroy(&barrier);
	return worst;
}

static int by_cpu(const void *a, const void *b)
{
	double left = ((const struct cost *)a)->cpu_ns, right = ((const struct cost *)b)->cpu_ns;

	return (left > right) - (left < right);
}

/* ---- allocations on the way are counted ---- */

static size_t allocated; /* bytes */

static void *counting_realloc(void *ptr, size_t size, void *user_data)
{
	(void)user_data;
	allocated += size;
	return realloc(ptr, size);
}

static void counting_free(void *ptr, void *user_data)
{
	(void)user_data;
	free(ptr);
}

static struct rea_guard *open_guard(bool rate_on, bool refused)
{
	static const struct rea_alloc alloc = {NULL, counting_realloc, counting_free};
	struct rea_guard_options options;
	struct rea_guard *guard;

	rea_guard_options_init(&options);
	options.policy.enabled = true;
	options.policy.breaker.enabled = true;
	options.rate_on = rate_on;
	options.rate.permits = options.rate.burst = 1000000;
	if (rea_guard_new(&options, &alloc, &guard, NULL) != 0)
		abort();
	if (refused)
		rea_shared_breaker_force(rea_guard_breaker(guard), REA_BREAKER_FORCED_OPEN, 0);
	return guard;
}

static void measure(const char *who, const char *what, work_function *function, bool rate_on, bool refused)
{
	for (int threads = 1; threads <= THREADS_MAX; threads++) {
		struct rea_guard *guard = open_guard(rate_on, refused);
		struct cost costs[RUNS];
		size_t before = allocated;

		for (int i = 0; i < RUNS; i++, epoch_ns += 1000 * REA_NS_PER_S)
			costs[i] = run(guard, function, threads, refused);
		qsort(costs, RUNS, sizeof(costs[0]), by_cpu);
		printf("%s\t%s\t%d\t%.1f\t%.1f\t%.3f\n", who, what, threads, costs[RUNS / 2].cpu_ns,
		    costs[RUNS / 2].wall_ns, (double)(allocated - before) / (RUNS * CALLS * threads));
		rea_guard_free(guard);
	}
}

int main(void)
{
	epoch_ns = read_clock(CLOCK_MONOTONIC) + 1000 * REA_NS_PER_S;
	measure("rea, time supplied", "breaker", breaker_supplied, false, false);
	measure("rea", "breaker", breaker_clocked, false, false);
	measure("rea, time supplied", "guard", supplied, false, false);
	measure("rea", "guard", own_clock, false, false);
	measure("rea, time supplied", "guard+rate", supplied, true, false);
	measure("rea", "guard+rate", clocked, true, false);
	measure("rea, time supplied", "breaker-refused", breaker_supplied, false, true);
	measure("rea", "breaker-refused", breaker_clocked, false, true);
	measure("rea, time supplied", "guard-refused", supplied, false, true);
	measure("rea", "guard-refused", own_clock, false, true);
	return 0;
}
