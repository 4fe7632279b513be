#include "lab/policies.h"

#include <rea/config.h>
#include <rea/time.h>

#include <stdio.h>

#define MS(n) ((uint64_t)(n)*REA_NS_PER_MS)

/* ---- the built-in ones ---- */

static void set_none(struct lab_policy *policy)
{
	policy->core.enabled = false;
}

static void wait_fixed(struct rea_policy *core, uint32_t retries, uint64_t wait_ns)
{
	core->max_retry_next_instance = retries;
	core->min_backoff_ns = core->max_backoff_ns = core->backoff_floor_ns = wait_ns;
	core->backoff_multiplier = 1;
	core->jitter = 0;
}

static void wait_exponential(
    struct rea_policy *core, uint32_t retries, uint64_t base_ns, double multiplier, uint64_t cap_ns, double jitter)
{
	core->max_retry_next_instance = retries;
	core->min_backoff_ns = base_ns;
	core->max_backoff_ns = cap_ns;
	core->backoff_multiplier = multiplier;
	core->jitter = jitter;
}

static void wait_full(struct rea_policy *core, uint32_t retries, uint64_t base_ns, uint64_t cap_ns)
{
	wait_exponential(core, retries, base_ns, 2, cap_ns, 1);
	core->jitter_kind = REA_JITTER_FULL;
	core->backoff_floor_ns = REA_BACKOFF_NS_MIN;
}

static void set_fixed(struct lab_policy *policy)
{
	wait_fixed(&policy->core, 2, MS(1000));
}

static void set_exponential(struct lab_policy *policy)
{
	wait_exponential(&policy->core, 2, MS(200), 1.5, MS(10000), 0.2);
}

static void set_full_jitter(struct lab_policy *policy)
{
	wait_full(&policy->core, 2, MS(100), MS(20000));
}

static void set_ratio(struct lab_policy *policy)
{
	wait_exponential(&policy->core, 2, MS(100), 2, MS(1000), 0.2);
	policy->budget = true;
	policy->core.budget.rule = REA_BUDGET_RATIO;
}

static void set_grpc(struct lab_policy *policy)
{
	wait_exponential(&policy->core, 4, MS(100), 2, MS(1000), 0.2);
	policy->budget = true;
	policy->core.budget.rule = REA_BUDGET_GRPC;
}

static void set_aws(struct lab_policy *policy)
{
	wait_full(&policy->core, 2, MS(50), MS(20000));
	policy->budget = true;
	policy->core.budget.rule = REA_BUDGET_AWS;
}

static void set_envoy(struct lab_policy *policy)
{
	wait_full(&policy->core, 2, MS(25), MS(250));
	policy->balances = true;
	policy->core.when_all_tried = REA_ALL_TRIED_CYCLE;
	policy->active_share = 0.2;
	policy->active_min = 3;
}

static void set_resilience4j(struct lab_policy *policy)
{
	wait_fixed(&policy->core, 2, MS(500));
	policy->core.breaker.enabled = true;
}

static void set_ours(struct lab_policy *policy)
{
	const struct rea_policy_layer *adaptive = rea_policy_profile("adaptive", strlen("adaptive"));

	rea_policy_merge(&adaptive, 1, SIZE_MAX, &policy->core);
	policy->core.enabled = true;
	policy->asks = policy->balances = policy->budget = true;
}

static void set_always(struct lab_policy *policy)
{
	set_ours(policy);
	policy->budget = false;
}

static const struct {
	const char *name, *about;
	void (*set)(struct lab_policy *policy);
	bool usual;
} built_in[] = {
    {"none", "one attempt", set_none, true},
    {"fixed", "2 retries, 1 s apart: the defaults of Spring Retry and of Spring's own RetryTemplate before it",
	set_fixed, true},
    {"exponential", "2 retries, 200 ms growing by 1.5, 20 % jitter", set_exponential, true},
    {"full-jitter", "2 retries, anywhere from 0 to 100 and 200 ms: the article of the AWS architecture blog",
	set_full_jitter, true},
    {"ratio", "2 retries, 100 ms doubling, within 20 % of the calls of 10 s and 10 a second: Finagle's RetryBudget",
	set_ratio, true},
    {"grpc", "4 retries, 100 ms doubling, 10 tokens and 0.1 for a success: gRFC A6", set_grpc, true},
    {"aws", "2 retries, anywhere from 0 to 50 and 100 ms, quota of 500 at 14 a retry: standard mode of the AWS SDKs, 2026",
	set_aws, true},
    {"envoy",
	"2 retries, anywhere from 0 to 25 and 50 ms, on other hosts, at most 20 % (3) under way: Envoy's retry budget; "
	"no outlier "
	"detection",
	set_envoy, true},
    {"resilience4j", "2 retries, 500 ms apart, circuit breaker: Resilience4j's defaults", set_resilience4j, true},
    {"adaptive", "rea: 9 retries, full jitter from 20 to 250 ms, evidence-gated budget", set_ours, true},
    {"always", "the same without a budget: the control that has to fail", set_always, false},
};

const char *lab_policy_name(size_t index)
{
	return index < sizeof(built_in) / sizeof(built_in[0]) ? built_in[index].name : NULL;
}

static void begin(struct lab_policy *policy)
{
	*policy = (struct lab_policy){.name = NULL};
	rea_policy_defaults(&policy->core);
	policy->core.enabled = true;
}

static void set_times(struct lab_policy *policy, const struct lab_scenario *scenario)
{
	policy->core.attempt_timeout_ns = scenario->attempt_timeout_ns;
	policy->core.deadline_ns = scenario->deadline_ns;
}

int lab_policy_find(const char *name, const struct lab_scenario *scenario, struct lab_policy *ret_policy)
{
	for (size_t i = 0; i < sizeof(built_in) / sizeof(built_in[0]); i++) {
		if (strcmp(built_in[i].name, name) != 0)
			continue;
		begin(ret_policy);
		built_in[i].set(ret_policy);
		set_times(ret_policy, scenario);
		ret_policy->name = built_in[i].name;
		ret_policy->about = built_in[i].about;
		ret_policy->usual = built_in[i].usual;
		return 0;
	}
	return REA_ERR_NOT_FOUND;
}

int lab_policy_load(const char *path, const struct lab_scenario *scenario, struct lab_policy *ret_policy,
    struct rea_error_info *ret_info)
{
	struct rea_config *config;
	int error = rea_config_load(path, NULL, &config, ret_info);

	if (error != 0)
		return error;
	begin(ret_policy);
	error = rea_config_policy(config, NULL, "", &ret_policy->core);
	rea_config_unref(config);
	set_times(ret_policy, scenario);
	ret_policy->name = path;
	ret_policy->about = "the global level of this file, with the scenario's times";
	ret_policy->asks = ret_policy->balances = ret_policy->budget = true;
	return error;
}
