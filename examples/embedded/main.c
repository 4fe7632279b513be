/*
 * On a microcontroller: no threads, no heap, no clock but a tick, nothing of the library but base and core, compiled along. A flaky sensor is read
 * once a second, with a few quick retries; a breaker keeps the bus free while it is dead. All in 4096 bytes of RAM, the stack too.
 */
#include <rea/call.h>

#include <stdio.h>

#define RAM_BYTES 4096
#define STACK_BYTES 1024 /* of it; a test measures what is used */

/* ---- the board: a tick, a sensor that is dead from second 20 to 40 and noisy besides, a line out ---- */

static uint32_t tick_ms;

static uint64_t now_ns(void)
{
	return rea_time_from_ms(tick_ms);
}

static bool read_sensor(int *ret_celsius)
{
	static uint32_t noise = 1;

	noise = noise * 1664525 + 1013904223;
	tick_ms += 2;
	*ret_celsius = 20 + (int)(noise >> 30);
	return (tick_ms < 20000 || tick_ms >= 40000) && noise >> 29 != 0;
}

/* ---- memory: an arena that is filled once ---- */
static _Alignas(max_align_t) unsigned char arena[1856];
static size_t arena_used;

static void *arena_realloc(void *ptr, size_t size, void *user_data)
{
	void *piece = arena + arena_used;

	(void)user_data;
	size = (size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
	if (ptr != NULL || size > sizeof(arena) - arena_used)
		return NULL;
	arena_used += size;
	return piece;
}

static void arena_free(void *ptr, void *user_data)
{
	(void)ptr, (void)user_data; /* what is made at the start stays */
}

/* ---- the program ---- */

static struct rea_policy policy;
static struct rea_call_options options;
static struct rea_call call;
static struct rea_random jitter;

static bool start(void)
{
	static const struct rea_alloc alloc = {NULL, arena_realloc, arena_free};

	rea_policy_defaults(&policy);
	policy.enabled = true;
	policy.max_retry_next_instance = 3;
	policy.min_backoff_ns = policy.max_backoff_ns = 20 * REA_NS_PER_MS;
	policy.attempt_timeout_ns = 50 * REA_NS_PER_MS;
	policy.deadline_ns = 500 * REA_NS_PER_MS;
	policy.breaker.window_size = policy.breaker.minimum_calls = 10;
	policy.breaker.wait_in_open_ns = 5 * REA_NS_PER_S;
	policy.breaker.permitted_in_half_open = 1;
	rea_call_options_init(&options);
	options.policy = &policy;
	options.grant = (struct rea_grant){REA_PERMISSION_SAFE, REA_PERMISSION_SOURCE_CALLER};
	options.single_target = true;
	rea_random_init(&jitter, 1);
	return rea_budget_new(&policy.budget, 1, &alloc, &options.budget, NULL) == 0 &&
	       rea_breaker_new(&policy.breaker, &alloc, &options.breaker, NULL) == 0;
}

/* One reading; returns how many attempts it took, or 0 when it was given up. */
static uint32_t read_with_retries(int *ret_celsius)
{
	struct rea_decision decision;

	rea_call_begin(&call, &options, now_ns());
	for (;;) {
		struct rea_report report = {.outcome = REA_OUTCOME_OK};

		rea_call_attempt(&call, NULL, &jitter, now_ns(), &decision);
		if (decision.step == REA_STEP_ATTEMPT) {
			if (!read_sensor(ret_celsius))
				report.outcome = REA_OUTCOME_UNAVAILABLE;
			rea_call_report(&call, &report, NULL, &jitter, now_ns(), &decision);
		}
		if (decision.step == REA_STEP_DONE)
			return decision.verdict == REA_VERDICT_SUCCESS ? decision.attempt : 0;
		tick_ms = (uint32_t)rea_time_to_ms(decision.wait_until_ns); /* sleep */
	}
}

int main(void)
{
	const size_t ram = sizeof(policy) + sizeof(options) + sizeof(call) + sizeof(jitter) + sizeof(arena) + STACK_BYTES;
	uint32_t good = 0, repeated = 0, attempts;
	int celsius = 0;

	if (!start())
		return 1;
	for (uint32_t second = 1; second <= 60; second++) {
		attempts = read_with_retries(&celsius);
		good += attempts > 0;
		repeated += attempts > 1;
		tick_ms = second * 1000;
	}
	printf("%u readings good, %u of them at a later try, %u given up\n", good, repeated, 60 - good);
	printf("ram: %zu of %d bytes; of the arena %zu of %zu\n", ram, RAM_BYTES, arena_used, sizeof(arena));
	return ram > RAM_BYTES;
}
