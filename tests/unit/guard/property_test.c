/* Thousands of random sequences of public calls, on a virtual clock, against the models of drive.h. */
#include "drive.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { SEQUENCES = 10000, BYTES_MAX = 2000 };

static void random_sequences(void **state)
{
	uint8_t bytes[BYTES_MAX];

	(void)state;
	for (uint64_t seed = 0; seed < SEQUENCES; seed++) {
		struct rea_random random;
		size_t size;

		rea_random_init(&random, seed);
		size = 50 + (size_t)rea_random_below(&random, BYTES_MAX - 50);
		for (size_t i = 0; i < size; i++)
			bytes[i] = (uint8_t)rea_random_next(&random);
		bytes[0] = (uint8_t)seed;
		drive(bytes, size);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(random_sequences),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
