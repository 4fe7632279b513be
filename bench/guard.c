/*
 * What a guarded call costs, in CPU time of its thread: with time supplied, with clock reads of its own, refused; alone and by two threads on one
 * guard, each pinned to a processor. Budget, breaker and record are on, as in a service. The best of several runs: what disturbs one only adds.
 */
#include <rea/guard.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CALLS = 2000000, RUNS = 15, THREADS_MAX = 2 };

static const struct rea_report ok = {.outcome = REA_OUTCOME_OK, .latency_ns = REA_NS_PER_MS};

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * REA_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* ---- what is measured; each returns how many calls succeeded ---- */

/* Time supplied: the program read its clock once for many calls. */
static uint64_t supplied(struct rea_guard_thread *thread, struct rea_guard_run_options *options)
{
	uint64_t now_ns = 1000 * REA_NS_PER_S, successes = 0;
	struct rea_decision decision;
	struct rea_guard_call call;

	for (uint32_t i = 0; i < CALLS; i++, now_ns += 10 * REA_NS_PER_US) {
		rea_guard_begin(&call, thread, &options->call, now_ns);
		rea_guard_next(&call, thread, NULL, now_ns, &decision);
		if (decision.step == REA_STEP_ATTEMPT)
			rea_guard_report(&call, thread, &ok, NULL, now_ns, &decision);
		successes += decision.verdict == REA_VERDICT_SUCCESS;
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

/* A breaker alone. */
static struct rea_shared_breaker *breaker;

static uint64_t breaker_only(struct rea_guard_thread *thread, struct rea_guard_run_options *options)
{
	uint64_t now_ns = 1000 * REA_NS_PER_S, successes = 0;
	struct rea_breaker_permit permit;

	(void)options;
	for (uint32_t i = 0; i < CALLS; i++, now_ns += 10 * REA_NS_PER_US) {
		successes += rea_shared_breaker_acquire(breaker, now_ns, &permit);
		rea_shared_breaker_report(breaker, thread->shard, &permit, REA_BREAKER_SUCCESS, REA_NS_PER_MS, now_ns);
	}
	return successes;
}

/* ---- measuring ---- */

struct worker {
	pthread_t thread;
	unsigned cpu;
	struct rea_guard *guard;
	pthread_barrier_t *barrier;
	uint64_t (*work)(struct rea_guard_thread *thread, struct rea_guard_run_options *options);
	uint64_t successes;
	double ns; /* per call */
};

static void *work(void *arg)
{
	struct rea_guard_run_options options;
	struct worker *worker = arg;
	struct rea_guard_thread thread;
	uint64_t start_ns;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(worker->cpu, &cpus);
	pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
	rea_guard_run_options_init(&options);
	options.call.grant = (struct rea_grant){REA_PERMISSION_IDEMPOTENT, REA_PERMISSION_SOURCE_CALLER};
	if (rea_guard_join(worker->guard, worker->cpu, &thread) != 0)
		abort();
	pthread_barrier_wait(worker->barrier);
	start_ns = cpu_ns();
	worker->successes = worker->work(&thread, &options);
	worker->ns = (double)(cpu_ns() - start_ns) / CALLS;
	rea_guard_leave(&thread);
	return NULL;
}

static double run(struct rea_guard *guard, uint64_t (*what)(struct rea_guard_thread *, struct rea_guard_run_options *),
    int threads, uint64_t successes)
{
	struct worker workers[THREADS_MAX];
	pthread_barrier_t barrier;
	double worst = 0;

	pthread_barrier_init(&barrier, NULL, (unsigned)threads);
	for (int i = 0; i < threads; i++) {
		workers[i] = (struct worker){.cpu = (unsigned)i, .guard = guard, .barrier = &barrier, .work = what};
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
			abort();
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		if (workers[i].successes != successes)
			abort();
		worst = workers[i].ns > worst ? workers[i].ns : worst;
	}
	pthread_barrier_destroy(&barrier);
	return worst;
}

static void measure(struct rea_guard *guard, const char *name,
    uint64_t (*what)(struct rea_guard_thread *, struct rea_guard_run_options *), uint64_t successes)
{
	double best[THREADS_MAX] = {1e9, 1e9};

	for (int i = 0; i < RUNS; i++) {
		for (int threads = 1; threads <= THREADS_MAX; threads++) {
			double ns = run(guard, what, threads, successes);

			best[threads - 1] = ns < best[threads - 1] ? ns : best[threads - 1];
		}
	}
	printf("%-44s %6.1f ns %6.1f ns %6.2f\n", name, best[0], best[1], best[1] / best[0]);
}

/* ---- no allocation on the way ---- */

static size_t allocations;

static void *counting_realloc(void *ptr, size_t size, void *user_data)
{
	(void)user_data;
	allocations++;
	return realloc(ptr, size);
}

static void counting_free(void *ptr, void *user_data)
{
	(void)user_data;
	free(ptr);
}

int main(void)
{
	static const struct rea_alloc alloc = {NULL, counting_realloc, counting_free};
	struct rea_guard_options options;
	struct rea_guard *guard;
	size_t before;

	rea_guard_options_init(&options);
	options.policy.enabled = true;
	options.policy.breaker.enabled = true;
	if (rea_guard_new(&options, &alloc, &guard, NULL) != 0)
		return 1;
	breaker = rea_guard_breaker(guard);
	before = allocations;
	printf("%-44s %9s %9s %6s\n", "guarded call: budget, breaker, record", "1 thread", "2 threads", "ratio");
	measure(guard, "success, time supplied", supplied, CALLS);
	measure(guard, "success, own clock reads (rea_guard_run)", own_clock, CALLS);
	measure(guard, "the breaker of it alone", breaker_only, CALLS);
	rea_shared_breaker_force(breaker, REA_BREAKER_FORCED_OPEN, 0);
	measure(guard, "refused, time supplied", supplied, 0);
	measure(guard, "refused, the breaker of it alone", breaker_only, 0);
	printf("allocations on the way: %zu\n", allocations - before);
	rea_guard_free(guard);
	return 0;
}
