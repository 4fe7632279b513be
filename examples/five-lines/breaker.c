/*
 * Only a circuit breaker: a callee that fails half of the time is left alone for a while.
 *
 *   cc breaker.c $(pkg-config --cflags --libs rea)
 */
#include <rea/breaker.h>
#include <rea/time.h>

#include <stdio.h>
#include <time.h>

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * REA_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* It is down. */
static bool call_somebody(void)
{
	return false;
}

int main(void)
{
	struct rea_policy policy;
	struct rea_breaker *breaker;
	struct rea_breaker_permit permit;
	int made = 0, spared = 0;

	rea_policy_defaults(&policy);
	policy.breaker.window_size = policy.breaker.minimum_calls = 20;
	if (rea_breaker_new(&policy.breaker, NULL, &breaker, NULL) != 0)
		return 1;
	for (int i = 0; i < 100; i++) {
		/* The five lines. */
		if (rea_breaker_acquire(breaker, now_ns(), &permit)) {
			uint64_t start_ns = now_ns();
			bool ok = call_somebody();
			uint64_t end_ns = now_ns();
			rea_breaker_report(breaker, &permit, ok ? REA_BREAKER_SUCCESS : REA_BREAKER_FAILURE,
			    end_ns - start_ns, end_ns);
			made++;
		} else {
			spared++;
		}
	}
	printf("%d calls made, %d spared: %s\n", made, spared, rea_breaker_state_name(rea_breaker_state(breaker)));
	rea_breaker_free(breaker);
	return 0;
}
