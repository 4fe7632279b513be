/* Budget and limit under many threads: never more than there is, and the books balance. Meant to run under the thread sanitizer too. */
#include <rea/budget.h>
#include <rea/time.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { THREADS = 4, ROUNDS = 20000, LIMIT = 3, RESERVE_PER_S = 100 };

static struct rea_budget *budget;
static struct rea_retry_limit limit;
static uint32_t in_flight, in_flight_max;

struct worker {
	pthread_t thread;
	uint32_t shard;
	uint32_t kept, refunded;
	uint32_t held;
};

/* All in one slot of time, so that the sums are exact at every moment. */
#define NOW_NS (1000 * REA_NS_PER_S)

static void note_in_flight(void)
{
	uint32_t now = __atomic_add_fetch(&in_flight, 1, __ATOMIC_SEQ_CST),
		 seen = __atomic_load_n(&in_flight_max, __ATOMIC_SEQ_CST);

	while (now > seen &&
	       !__atomic_compare_exchange_n(&in_flight_max, &seen, now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
}

static void *work(void *arg)
{
	struct worker *worker = arg;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		rea_budget_deposit(budget, worker->shard, NOW_NS);
		if (rea_budget_withdraw(budget, NOW_NS)) {
			worker->kept++;
			if (i % 3 == 0) {
				rea_budget_refund(budget, NOW_NS, NOW_NS);
				worker->kept--;
				worker->refunded++;
			}
		}
		if (!rea_retry_limit_acquire(&limit))
			continue;
		note_in_flight();
		worker->held++;
		__atomic_sub_fetch(&in_flight, 1, __ATOMIC_SEQ_CST);
		rea_retry_limit_release(&limit);
	}
	return NULL;
}

static void the_books_balance(void **state)
{
	struct rea_budget_policy policy = {REA_BUDGET_RATIO, 200, RESERVE_PER_S, 10000};
	const uint32_t allowed = THREADS * ROUNDS / 5 + RESERVE_PER_S * 10;
	struct worker workers[THREADS] = {0};
	uint64_t kept = 0;

	(void)state;
	assert_int_equal(rea_budget_new(&policy, THREADS, NULL, &budget), 0);
	rea_retry_limit_init(&limit, LIMIT);
	for (uint32_t i = 0; i < THREADS; i++) {
		workers[i].shard = i;
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
		kept += workers[i].kept;
		assert_true(workers[i].held > 0);
	}
	assert_true(kept <= allowed);
	assert_true(rea_budget_available(budget, NOW_NS) == allowed - kept);
	while (rea_budget_withdraw(budget, NOW_NS))
		kept++;
	assert_true(kept == allowed);
	assert_in_range(in_flight_max, 1, LIMIT);
	assert_int_equal(rea_retry_limit_in_use(&limit), 0);
	rea_budget_free(budget);
}

/* While time goes on and the numbers change, a reader sees only sums that can be. */
static void *turn_slots(void *arg)
{
	const uint32_t *shard = arg;

	for (uint32_t i = 0; i < ROUNDS; i++)
		rea_budget_deposit(budget, *shard, NOW_NS + i * 10 * REA_NS_PER_MS);
	return NULL;
}

static void a_reader_never_sees_a_torn_slot(void **state)
{
	struct rea_budget_policy policy = {REA_BUDGET_RATIO, 1000, 0, 10000};
	uint32_t shards[2] = {0, 1};
	pthread_t threads[2];

	(void)state;
	assert_int_equal(rea_budget_new(&policy, 2, NULL, &budget), 0);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, turn_slots, &shards[i]), 0);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		/* 100 deposits a second and shard; the reader's time is anywhere, and at most ten slots count. */
		assert_in_range(rea_budget_available(budget, NOW_NS + i * 10 * REA_NS_PER_MS), 0, 2000);
		if (i % 1000 == 0)
			rea_budget_configure(budget, &policy);
	}
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	rea_budget_free(budget);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_books_balance),
	    cmocka_unit_test(a_reader_never_sees_a_torn_slot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
