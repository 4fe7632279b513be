/*
 * Only a backoff: try, wait, try again, each wait longer than the last and no two programs in step.
 *
 *   cc backoff.c $(pkg-config --cflags --libs rea)
 */
#include <rea/backoff.h>
#include <rea/random.h>
#include <rea/time.h>

#include <stdio.h>
#include <time.h>

/* Something that works at the fourth try. */
static bool connect_somewhere(uint64_t try)
{
	return try == 4;
}

static void sleep_ns(uint64_t ns)
{
	nanosleep(&(struct timespec){(time_t)(ns / REA_NS_PER_S), (long)(ns % REA_NS_PER_S)}, NULL);
}

int main(void)
{
	/* The five lines. */
	struct rea_backoff backoff = {.base_ns = 20 * REA_NS_PER_MS, .cap_ns = REA_NS_PER_S, .multiplier = 2, .ratio = 0.2};
	struct rea_random random;
	rea_random_init(&random, (uint64_t)time(NULL));
	uint64_t try = 1;
	for (; !connect_somewhere(try); try++)
		sleep_ns(rea_backoff_delay(&backoff, try, rea_random_next(&random)));

	printf("connected at try %d\n", (int)try);
	return 0;
}
