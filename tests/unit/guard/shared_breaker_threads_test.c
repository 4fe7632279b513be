/* Many threads on one breaker: the books balance, half-open never gives out more than it has. Meant to run under the thread sanitizer too. */
#include <rea/random.h>
#include <rea/shared.h>
#include <rea/time.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MS(n) ((uint64_t)(n)*REA_NS_PER_MS)
#define S(n) ((uint64_t)(n)*REA_NS_PER_S)

enum { THREADS = 8, ROUNDS = 20000, PERMITTED = 3, GENERATIONS_MAX = 100000 };

static struct rea_shared_breaker *breaker;

struct worker {
	pthread_t thread;
	uint32_t shard;
	uint64_t failures;
	uint64_t probes;
};

static void run(struct worker *workers, void *(*work)(void *))
{
	for (uint32_t i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.shard = i};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (uint32_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
}

/* ---- nothing is lost, nothing counted twice ---- */

static void *count_results(void *arg)
{
	struct worker *worker = arg;
	struct rea_breaker_permit permit;
	struct rea_random random;

	rea_random_init(&random, worker->shard);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		bool failed = rea_random_below(&random, 50) == 0;

		assert_true(rea_shared_breaker_acquire(breaker, S(1000) + MS(i), &permit));
		worker->failures += failed;
		rea_shared_breaker_report(breaker, worker->shard, &permit,
		    failed ? REA_BREAKER_FAILURE : REA_BREAKER_SUCCESS, 0, S(1000) + MS(i));
		if (i % 1000 == 0)
			rea_shared_breaker_failure_rate(breaker, S(1000) + MS(i));
	}
	return NULL;
}

static void the_books_balance(void **state)
{
	struct rea_breaker_policy policy = {.enabled = true,
	    .failure_rate_threshold = 100,
	    .slow_call_rate_threshold = 100,
	    .slow_call_duration_ns = S(60),
	    .window_type = REA_BREAKER_TIME_BASED,
	    .window_size = 3600,
	    .minimum_calls = THREADS * ROUNDS,
	    .wait_in_open_ns = MS(1000),
	    .permitted_in_half_open = 1};
	struct worker workers[THREADS];
	uint64_t failures = 0;

	(void)state;
	assert_int_equal(rea_shared_breaker_new(&policy, THREADS, NULL, &breaker, NULL), 0);
	run(workers, count_results);
	for (int i = 0; i < THREADS; i++)
		failures += workers[i].failures;
	/* Above -1: not one of the calls is missing. */
	assert_true(rea_shared_breaker_failure_rate(breaker, S(1020)) == (double)failures * 100.0 / (THREADS * ROUNDS));
	rea_shared_breaker_free(breaker);
}

/* ---- half-open ---- */

static uint64_t clock_ns;                     /* one time for all, moved by whoever comes */
static uint32_t outstanding[GENERATIONS_MAX]; /* permits by generation */
static uint32_t most[GENERATIONS_MAX];
static bool half_open[GENERATIONS_MAX];
static uint64_t half_opens;

static void hear(const struct rea_breaker_change *change, void *user_data)
{
	(void)user_data;
	if (change->to != REA_BREAKER_HALF_OPEN || change->generation >= GENERATIONS_MAX)
		return;
	__atomic_store_n(&half_open[change->generation], true, __ATOMIC_RELAXED);
	__atomic_fetch_add(&half_opens, 1, __ATOMIC_RELAXED);
}

static void note_given(uint64_t generation)
{
	uint32_t now = __atomic_add_fetch(&outstanding[generation], 1, __ATOMIC_SEQ_CST),
		 seen = __atomic_load_n(&most[generation], __ATOMIC_SEQ_CST);

	while (now > seen &&
	       !__atomic_compare_exchange_n(&most[generation], &seen, now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
}

static void *probe(void *arg)
{
	struct worker *worker = arg;
	struct rea_breaker_permit permit;
	struct rea_random random;

	rea_random_init(&random, 100 + worker->shard);
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t now_ns = __atomic_add_fetch(&clock_ns, MS(1), __ATOMIC_RELAXED),
			 dice = rea_random_below(&random, 10);
		uint64_t generation;

		if (!rea_shared_breaker_acquire(breaker, now_ns, &permit))
			continue;
		generation = permit.generation < GENERATIONS_MAX ? permit.generation : 0;
		note_given(generation);
		worker->probes++;
		if (dice == 0)
			sched_yield();
		/* Before the report: what is reported may be given out again at once. */
		__atomic_fetch_sub(&outstanding[generation], 1, __ATOMIC_SEQ_CST);
		rea_shared_breaker_report(breaker, worker->shard, &permit,
		    dice < 3   ? REA_BREAKER_IGNORED
		    : dice < 6 ? REA_BREAKER_FAILURE
			       : REA_BREAKER_SUCCESS,
		    0, now_ns);
	}
	return NULL;
}

static void half_open_gives_out_what_it_has(void **state)
{
	struct rea_breaker_policy policy = {.enabled = true,
	    .failure_rate_threshold = 40,
	    .slow_call_rate_threshold = 100,
	    .slow_call_duration_ns = S(60),
	    .window_type = REA_BREAKER_COUNT_BASED,
	    .window_size = 10,
	    .minimum_calls = 5,
	    .wait_in_open_ns = MS(5),
	    .permitted_in_half_open = PERMITTED,
	    .max_wait_in_half_open_ns = MS(50)};
	struct worker workers[THREADS];
	uint32_t reached = 0;

	(void)state;
	clock_ns = S(1000);
	assert_int_equal(rea_shared_breaker_new(&policy, THREADS, NULL, &breaker, NULL), 0);
	rea_shared_breaker_on_change(breaker, hear, NULL);
	run(workers, probe);
	for (size_t i = 0; i < GENERATIONS_MAX; i++) {
		if (!half_open[i])
			continue;
		assert_in_range(most[i], 0, PERMITTED);
		reached = most[i] > reached ? most[i] : reached;
	}
	assert_true(half_opens > 10);
	assert_in_range(reached, 1, PERMITTED);
	rea_shared_breaker_free(breaker);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_books_balance),
	    cmocka_unit_test(half_open_gives_out_what_it_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
