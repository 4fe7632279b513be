#include <rea/random.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Computed by another implementation of the published algorithm. */
static void known_sequences(void **state)
{
	struct rea_random random;

	(void)state;
	rea_random_init(&random, 0);
	assert_true(random.s[0] == UINT64_C(0xe220a8397b1dcdaf) && random.s[3] == UINT64_C(0xf88bb8a8724c81ec));
	assert_true(rea_random_next(&random) == UINT64_C(0x99ec5f36cb75f2b4));
	assert_true(rea_random_next(&random) == UINT64_C(0xbf6e1f784956452a));
	rea_random_init(&random, 42);
	for (int i = 0; i < 999; i++)
		rea_random_next(&random);
	assert_true(rea_random_next(&random) == UINT64_C(0x8de5848c61ab8968));
}

static void a_copy_replays(void **state)
{
	struct rea_random random, copy;

	(void)state;
	rea_random_init(&random, 7);
	copy = random;
	for (int i = 0; i < 100; i++)
		assert_true(rea_random_next(&random) == rea_random_next(&copy));
}

static void below_is_uniform(void **state)
{
	struct rea_random random;
	unsigned counts[10] = {0};

	(void)state;
	rea_random_init(&random, 1);
	for (int i = 0; i < 100000; i++)
		counts[rea_random_below(&random, 10)]++;
	for (int i = 0; i < 10; i++)
		assert_in_range(counts[i], 9700, 10300);
	assert_true(rea_random_below(&random, 0) == 0);
	assert_true(rea_random_below(&random, 1) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(known_sequences),
	    cmocka_unit_test(a_copy_replays),
	    cmocka_unit_test(below_is_uniform),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
