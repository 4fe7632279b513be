/* Eight threads on one guard with every stage on, in real time: nothing over its limit, nothing lost. Meant for the thread sanitizer above all. */
#include "rig.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 8, CALLS = 400, SLOTS = 3 };

static struct rea_guard *guard;
static uint32_t in_flight, in_flight_max;
static uint64_t events, told_calls;

static void note_begin(void)
{
	uint32_t now = __atomic_add_fetch(&in_flight, 1, __ATOMIC_SEQ_CST),
		 seen = __atomic_load_n(&in_flight_max, __ATOMIC_SEQ_CST);

	while (now > seen &&
	       !__atomic_compare_exchange_n(&in_flight_max, &seen, now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
}

static void hear(struct rea_event *event, void *user_data)
{
	(void)user_data;
	__atomic_fetch_add(&events, 1, __ATOMIC_RELAXED);
	if (event->type == REA_EVENT_GIVE_UP || event->type == REA_EVENT_SUCCESS)
		__atomic_fetch_add(&told_calls, 1, __ATOMIC_RELAXED);
}

struct worker {
	pthread_t thread;
	uint32_t index;
	struct rea_random random;
	uint64_t attempts, successes, first_try;
	uint32_t attempt;
};

static struct rea_report act(const struct rea_guard_attempt *attempt, void *arg)
{
	struct worker *worker = arg;
	uint64_t dice = rea_random_below(&worker->random, 100);

	note_begin();
	worker->attempts++;
	worker->attempt = attempt->number;
	if (dice < 20)
		sched_yield();
	__atomic_sub_fetch(&in_flight, 1, __ATOMIC_SEQ_CST);
	if (dice < 6)
		return rea_report_fail(REA_OUTCOME_UNAVAILABLE);
	return dice < 9 ? rea_report_fail(REA_OUTCOME_PERMANENT) : rea_report_ok();
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	struct rea_guard_run_options options;
	struct rea_guard_thread thread;
	uint64_t one = 1;

	rea_random_init(&worker->random, worker->index);
	assert_int_equal(rea_guard_join(guard, rea_seed(), &thread), 0);
	rea_guard_run_options_init(&options);
	options.call.grant = (struct rea_grant){REA_PERMISSION_SAFE, REA_PERMISSION_SOURCE_CALLER};
	/* One of them is cancelled in its waits from the beginning. */
	options.cancel_fd = worker->index == 0 ? eventfd(0, 0) : -1;
	if (worker->index == 0)
		assert_int_equal(write(options.cancel_fd, &one, sizeof(one)), sizeof(one));
	for (int i = 0; i < CALLS; i++) {
		bool success = rea_guard_run(&thread, act, worker, &options, NULL) == REA_VERDICT_SUCCESS;

		worker->successes += success;
		worker->first_try += success && worker->attempt == 1;
		if (i % 50 == 0) {
			char text[64];

			rea_guard_explain(guard, 0, text, sizeof(text));
			rea_guard_leave(&thread);
			assert_int_equal(rea_guard_join(guard, rea_seed(), &thread), 0);
		}
	}
	if (options.cancel_fd >= 0)
		close(options.cancel_fd);
	rea_guard_leave(&thread);
	return NULL;
}

static void many_threads_share_one_guard(void **state)
{
	uint64_t attempts = 0, successes = 0, first_try = 0, ended = 0;
	struct worker workers[THREADS] = {0};
	struct rea_guard_options options;
	struct rea_service_stats stats;
	char text[4096];

	(void)state;
	rea_guard_options_init(&options);
	options.threads = THREADS;
	options.policy.enabled = true;
	options.policy.min_backoff_ns = options.policy.max_backoff_ns = MS(20);
	options.policy.breaker.enabled = true;
	options.policy.breaker.window_size = options.policy.breaker.minimum_calls = 10;
	options.policy.breaker.failure_rate_threshold = 40;
	options.policy.breaker.wait_in_open_ns = MS(5);
	options.policy.breaker.permitted_in_half_open = 2;
	options.policy.breaker.max_wait_in_half_open_ns = MS(50);
	options.rate_on = options.limiter_on = true;
	options.rate.permits = 1000000;
	options.rate.burst = 1000;
	options.rate_wait_ns = MS(20);
	options.limiter.concurrent_max = SLOTS;
	options.limiter.waiting_max = THREADS;
	options.event = hear;
	assert_int_equal(rea_guard_new(&options, NULL, &guard, NULL), 0);
	for (uint32_t i = 0; i < THREADS; i++) {
		workers[i].index = i;
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
		attempts += workers[i].attempts;
		successes += workers[i].successes;
		first_try += workers[i].first_try;
	}
	rea_guard_stats(guard, &stats);
	for (size_t i = 0; i < REA_OUTCOME_COUNT; i++)
		ended += stats.attempts[i];
	assert_int_equal(stats.calls, THREADS * CALLS);
	assert_int_equal(stats.in_flight, 0);
	assert_int_equal(ended, attempts);
	assert_int_equal(stats.results[REA_REASON_NONE], successes);
	assert_int_equal(stats.first_try_successes, first_try);
	/* Every call but the quiet ones was told once to its end. */
	assert_int_equal(told_calls, THREADS * CALLS - first_try);
	assert_in_range(in_flight_max, 1, SLOTS);
	rea_guard_explain(guard, 0, text, sizeof(text));
	assert_non_null(strstr(text, "; 0 in use, 0 waiting\n"));
	rea_guard_free(guard);
}

/* ---- calls that go from one thread to the other ---- */

enum { HANDED = 20000, QUEUE = 16 };

/* From one thread to one other. */
struct queue {
	pthread_mutex_t lock;
	struct rea_guard_call *calls[QUEUE];
	uint32_t put, taken;
};

static bool queue_put(struct queue *queue, struct rea_guard_call *call)
{
	bool room;

	pthread_mutex_lock(&queue->lock);
	room = queue->put - queue->taken < QUEUE;
	if (room)
		queue->calls[queue->put++ % QUEUE] = call;
	pthread_mutex_unlock(&queue->lock);
	return room;
}

static struct rea_guard_call *queue_take(struct queue *queue)
{
	struct rea_guard_call *call = NULL;

	pthread_mutex_lock(&queue->lock);
	if (queue->put != queue->taken)
		call = queue->calls[queue->taken++ % QUEUE];
	pthread_mutex_unlock(&queue->lock);
	return call;
}

struct hander {
	pthread_t thread;
	struct queue *out, *in;
};

static void finish_call(struct rea_guard_call *call, struct rea_guard_thread *thread)
{
	struct rea_report ok = rea_report_ok();
	struct rea_decision decision;

	rea_guard_next(call, thread, NULL, S(1), &decision);
	rea_guard_report(call, thread, &ok, NULL, S(1), &decision);
	assert_int_equal(decision.verdict, REA_VERDICT_SUCCESS);
}

/* Of the calls that a thread begins it finishes one itself, and hands the next to the other. */
static void *hand_over(void *arg)
{
	struct rea_guard_call_options options;
	struct rea_guard_call *calls = malloc(HANDED * sizeof(*calls)), own, *call;
	struct rea_guard_thread thread;
	struct hander *hander = arg;
	uint32_t handed = 0, ended = 0;

	assert_non_null(calls);
	assert_int_equal(rea_guard_join(guard, 1, &thread), 0);
	rea_guard_call_options_init(&options);
	for (uint32_t begun = 0; handed < HANDED || ended < HANDED;) {
		if (begun == handed && begun < HANDED) {
			rea_guard_begin(&own, &thread, &options, S(1));
			finish_call(&own, &thread);
			rea_guard_begin(&calls[begun++], &thread, &options, S(1));
		}
		if (handed < begun && queue_put(hander->out, &calls[handed]))
			handed++;
		while ((call = queue_take(hander->in)) != NULL) {
			finish_call(call, &thread);
			ended++;
		}
	}
	rea_guard_leave(&thread);
	return calls;
}

/* Whoever has a call counts it under its own shard: not one is lost. */
static void calls_go_from_thread_to_thread(void **state)
{
	struct queue queues[2] = {{.lock = PTHREAD_MUTEX_INITIALIZER}, {.lock = PTHREAD_MUTEX_INITIALIZER}};
	struct hander handers[2] = {{.out = &queues[0], .in = &queues[1]}, {.out = &queues[1], .in = &queues[0]}};
	struct rea_guard_options options;
	struct rea_service_stats stats;
	char text[4096], right[64];
	void *calls[2];

	(void)state;
	rea_guard_options_init(&options);
	options.policy.breaker.enabled = true;
	options.policy.breaker.window_type = REA_BREAKER_TIME_BASED;
	options.policy.breaker.minimum_calls = 4 * HANDED;
	options.policy.budget.rule = REA_BUDGET_RATIO;
	options.policy.budget.ratio_permille = 1000;
	options.policy.budget.reserve_per_s = 0;
	assert_int_equal(rea_guard_new(&options, NULL, &guard, NULL), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&handers[i].thread, NULL, hand_over, &handers[i]), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(handers[i].thread, &calls[i]), 0);
	rea_guard_stats(guard, &stats);
	assert_int_equal(stats.calls, 4 * HANDED);
	assert_int_equal(stats.in_flight, 0);
	rea_guard_explain(guard, S(1), text, sizeof(text));
	snprintf(right, sizeof(right), "; %d retries left\n", 4 * HANDED);
	assert_non_null(strstr(text, right));
	/* Above -1: the window has them all. */
	assert_true(rea_shared_breaker_failure_rate(rea_guard_breaker(guard), S(1)) == 0);
	rea_guard_free(guard);
	free(calls[0]);
	free(calls[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(calls_go_from_thread_to_thread),
	    cmocka_unit_test(many_threads_share_one_guard),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
