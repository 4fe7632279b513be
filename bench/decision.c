/*
 * What deciding costs: a call that succeeds at once (begin, attempt, report), and one that is retried. Time is supplied, so no clock is read
 * in the loop; permission, policy, budget, breaker and the limit on retries are all on, over three instances.
 */
#include <rea/call.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CALLS 2000000
#define ROUNDS 7

struct bed {
	struct rea_policy policy;
	struct rea_call_options options;
	struct rea_load loads[3];
	struct rea_instance items[3];
	struct rea_instances instances;
	struct rea_random random;
	struct rea_retry_limit limit;
	uint64_t now_ns;
};

static void bed_init(struct bed *bed)
{
	*bed = (struct bed){.now_ns = REA_NS_PER_S};
	rea_policy_defaults(&bed->policy);
	bed->policy.enabled = bed->policy.breaker.enabled = true;
	bed->policy.breaker.failure_rate_threshold = 60; /* the retried call fails half of its attempts */
	bed->policy.budget.ratio_permille = 1000;
	rea_random_init(&bed->random, 1);
	rea_retry_limit_init(&bed->limit, 256);
	for (size_t i = 0; i < 3; i++)
		bed->items[i] = (struct rea_instance){
		    .id = {.address = {[15] = 1}, .port = (uint16_t)(9001 + i)}, .weight = 1, .load = &bed->loads[i]};
	bed->instances = (struct rea_instances){.items = bed->items, .count = 3, .equal_weights = true};
	rea_call_options_init(&bed->options);
	bed->options.policy = &bed->policy;
	bed->options.grant = (struct rea_grant){REA_PERMISSION_IDEMPOTENT, REA_PERMISSION_SOURCE_CONFIG};
	bed->options.limit = &bed->limit;
	if (rea_budget_new(&bed->policy.budget, 1, NULL, &bed->options.budget) != 0 ||
	    rea_breaker_new(&bed->policy.breaker, NULL, &bed->options.breaker) != 0)
		exit(1);
}

static void bed_fini(struct bed *bed)
{
	rea_budget_free(bed->options.budget);
	rea_breaker_free(bed->options.breaker);
}

static void attempt(struct bed *bed, struct rea_call *call, enum rea_outcome outcome, struct rea_decision *decision)
{
	struct rea_report report = {.outcome = outcome, .code_kind = REA_CODE_HTTP, .latency_ns = 400 * REA_NS_PER_US};

	rea_call_attempt(call, &bed->instances, &bed->random, bed->now_ns, decision);
	if (decision->step != REA_STEP_ATTEMPT)
		exit(1);
	rea_call_report(call, &report, &bed->instances, &bed->random, bed->now_ns, decision);
}

static void call_once(struct bed *bed, bool retried)
{
	struct rea_decision decision;
	struct rea_call call;

	rea_call_begin(&call, &bed->options, bed->now_ns);
	if (retried) {
		attempt(bed, &call, REA_OUTCOME_UNAVAILABLE, &decision);
		if (decision.step != REA_STEP_WAIT)
			exit(1);
		bed->now_ns = decision.wait_until_ns;
	}
	attempt(bed, &call, REA_OUTCOME_OK, &decision);
	if (decision.verdict != REA_VERDICT_SUCCESS)
		exit(1);
	bed->now_ns += 10 * REA_NS_PER_US;
}

static double cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double measure(bool retried)
{
	double best = 1e9;

	for (int round = 0; round < ROUNDS; round++) {
		struct bed bed;
		double start;

		bed_init(&bed);
		start = cpu_ns();
		for (int i = 0; i < CALLS; i++)
			call_once(&bed, retried);
		start = (cpu_ns() - start) / CALLS;
		best = start < best ? start : best;
		bed_fini(&bed);
	}
	return best;
}

int main(void)
{
	printf("a call that succeeds at once: %.0f ns\n", measure(false));
	printf("a call that is retried once: %.0f ns\n", measure(true));
	return 0;
}
