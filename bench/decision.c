/*
 * What a decision costs: begin, attempt and a good report of one call, thread CPU time, with time supplied.
 *
 * Three measured instances; bare, weighted, with budget and limit as the proxy has them, with a breaker. The best of several runs: what disturbs
 * a run only ever adds.
 */
#include <rea/call.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CALLS = 10000000, RUNS = 5, INSTANCES = 3 };

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * REA_NS_PER_S + (uint64_t)now.tv_nsec;
}

static double run(const struct rea_call_options *options, const struct rea_instances *instances, struct rea_random *random)
{
	static const struct rea_report ok = {.outcome = REA_OUTCOME_OK, .latency_ns = REA_NS_PER_MS};
	uint64_t now_ns = 1000 * REA_NS_PER_S, start_ns = cpu_ns(), successes = 0;

	for (uint32_t i = 0; i < CALLS; i++, now_ns += 10 * REA_NS_PER_US) {
		struct rea_decision decision;
		struct rea_call call;

		rea_call_begin(&call, options, now_ns);
		rea_call_attempt(&call, instances, random, now_ns, &decision);
		rea_call_report(&call, &ok, instances, random, now_ns, &decision);
		successes += decision.verdict == REA_VERDICT_SUCCESS;
	}
	if (successes != CALLS)
		abort();
	return (double)(cpu_ns() - start_ns) / CALLS;
}

static void measure(const char *what, const struct rea_call_options *options, bool equal_weights)
{
	struct rea_load loads[INSTANCES];
	struct rea_instance items[INSTANCES];
	struct rea_instances instances = {.items = items, .count = INSTANCES, .equal_weights = equal_weights};
	struct rea_random random;
	double best = 1e9;

	for (uint16_t i = 0; i < INSTANCES; i++) {
		loads[i] = (struct rea_load){.samples = 1, .latency_ns = 1e6, .updated_ns = 1000 * REA_NS_PER_S};
		items[i] = (struct rea_instance){.id = {{127, 0, 0, 1}, i}, .weight = 1, .load = &loads[i]};
	}
	rea_random_init(&random, 1);
	for (int i = 0; i < RUNS; i++) {
		double ns = run(options, &instances, &random);

		best = ns < best ? ns : best;
	}
	printf("%-40s %6.1f ns per call\n", what, best);
}

int main(void)
{
	struct rea_call_options options;
	struct rea_retry_limit limit;
	struct rea_policy policy;

	rea_policy_defaults(&policy);
	policy.enabled = true;
	rea_call_options_init(&options);
	options.policy = &policy;
	options.grant = (struct rea_grant){REA_PERMISSION_IDEMPOTENT, REA_PERMISSION_SOURCE_OPENAPI};
	measure("begin + attempt + report(ok)", &options, true);
	measure("the same with unequal weights", &options, false);
	if (rea_budget_new(&policy.budget, 1, NULL, &options.budget, NULL) != 0)
		return 1;
	rea_retry_limit_init(&limit, 256);
	options.limit = &limit;
	measure("the same with budget and limit", &options, true);
	policy.breaker.enabled = true;
	if (rea_breaker_new(&policy.breaker, NULL, &options.breaker, NULL) != 0)
		return 1;
	measure("the same with budget, limit and breaker", &options, true);
	rea_breaker_free(options.breaker);
	rea_budget_free(options.budget);
	return 0;
}
