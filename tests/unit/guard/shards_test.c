/* Indexes of threads: the lowest free one, each once, none lost. */
#include <rea/error.h>
#include <rea/shared.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void the_lowest_free_index_comes_next(void **state)
{
	struct rea_shards shards;
	uint32_t index;

	(void)state;
	rea_shards_init(&shards, 130);
	for (uint32_t i = 0; i < 130; i++) {
		assert_int_equal(rea_shards_take(&shards, &index), 0);
		assert_int_equal(index, i);
	}
	index = 7;
	assert_int_equal(rea_shards_take(&shards, &index), REA_ERR_FULL);
	assert_int_equal(index, 7);
	rea_shards_give_back(&shards, 129);
	rea_shards_give_back(&shards, 64);
	assert_int_equal(rea_shards_take(&shards, &index), 0);
	assert_int_equal(index, 64);
	assert_int_equal(rea_shards_take(&shards, &index), 0);
	assert_int_equal(index, 129);
	assert_int_equal(rea_shards_take(&shards, &index), REA_ERR_FULL);
}

static void there_are_as_many_as_said(void **state)
{
	static const uint32_t sizes[] = {1, 63, 64, 65, REA_SHARDS_MAX};

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct rea_shards shards;
		uint32_t index, taken = 0;

		rea_shards_init(&shards, sizes[i]);
		while (rea_shards_take(&shards, &index) == 0)
			taken++;
		assert_int_equal(taken, sizes[i]);
	}
}

enum { THREADS = 8, ROUNDS = 5000, SHARDS = 5 };

static struct rea_shards contended;
/* Not atomic: two owners of one index at once are a race that the thread sanitizer sees, and a count that comes out wrong. */
static uint64_t owned[SHARDS];

static void *take_and_give_back(void *arg)
{
	uint64_t *taken = arg;
	uint32_t index;

	for (int i = 0; i < ROUNDS; i++) {
		if (rea_shards_take(&contended, &index) != 0)
			continue;
		owned[index]++;
		++*taken;
		rea_shards_give_back(&contended, index);
	}
	return NULL;
}

static void an_index_has_one_owner(void **state)
{
	pthread_t threads[THREADS];
	uint64_t taken[THREADS] = {0}, sum = 0, counted = 0;

	(void)state;
	rea_shards_init(&contended, SHARDS);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, take_and_give_back, &taken[i]), 0);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		sum += taken[i];
	}
	for (int i = 0; i < SHARDS; i++)
		counted += owned[i];
	assert_true(sum > 0 && sum == counted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_lowest_free_index_comes_next),
	    cmocka_unit_test(there_are_as_many_as_said),
	    cmocka_unit_test(an_index_has_one_owner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
