/*
 * The scenario that every language of this directory plays. What this program prints is what each of them has to print: how large the structs
 * are and where fields stand, values that go by value, an error, a callback, and the trace of a call that fails and is retried.
 */
#include <rea/explain.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE(type) printf("sizeof %s = %zu\n", #type, sizeof(struct type))
#define FIELD(type, field) printf("offsetof %s.%s = %zu\n", #type, #field, offsetof(struct type, field))

static void print_layout(void)
{
	SIZE(rea_policy);
	FIELD(rea_policy, jitter);
	FIELD(rea_policy, chain_stop);
	FIELD(rea_policy, budget);
	FIELD(rea_policy, breaker);
	FIELD(rea_policy, classify);
	FIELD(rea_budget_policy, cost_throttling);
	FIELD(rea_breaker_policy, max_wait_in_half_open_ns);
	SIZE(rea_call_options);
	FIELD(rea_call_options, budget);
	FIELD(rea_call_options, single_target);
	SIZE(rea_call);
	FIELD(rea_call, tried);
	SIZE(rea_decision);
	FIELD(rea_decision, instance);
	FIELD(rea_decision, grant);
	SIZE(rea_report);
	FIELD(rea_report, latency_ns);
	SIZE(rea_instance);
	FIELD(rea_instance, load);
	SIZE(rea_instances);
	SIZE(rea_error_info);
}

/* A struct in, a struct out. */
static void combine(void)
{
	struct rea_grant a = {REA_PERMISSION_IDEMPOTENT, REA_PERMISSION_SOURCE_OPENAPI};
	struct rea_grant b = {REA_PERMISSION_FORBID, REA_PERMISSION_SOURCE_REGISTRY};
	struct rea_grant both = rea_grant_combine(a, b);

	printf("%s says %s\n", rea_permission_source_name(both.source), rea_permission_name(both.permission));
}

static void refuse(void)
{
	struct rea_policy policy;
	struct rea_error_info info;
	int error;

	rea_policy_defaults(&policy);
	policy.backoff_multiplier = 0.5;
	error = rea_policy_validate(&policy, &info);
	printf("%s: %s: %s\n", rea_error_name(error), info.key, info.message);
}

static void on_change(enum rea_breaker_state from, enum rea_breaker_state to, uint64_t now_ns, void *user_data)
{
	printf("breaker %u: %s -> %s at %llu\n", *(unsigned *)user_data, rea_breaker_state_name(from),
	    rea_breaker_state_name(to), (unsigned long long)now_ns);
}

static void open_breaker(void)
{
	unsigned number = 7;
	struct rea_policy policy;
	struct rea_breaker *breaker;

	rea_policy_defaults(&policy);
	if (rea_breaker_new(&policy.breaker, NULL, &breaker, NULL) != 0)
		abort();
	rea_breaker_on_change(breaker, on_change, &number);
	rea_breaker_force(breaker, REA_BREAKER_OPEN, 5 * REA_NS_PER_S);
	printf("failure rate %.1f\n", rea_breaker_failure_rate(breaker, 5 * REA_NS_PER_S));
	rea_breaker_free(breaker);
}

/* ---- the call ---- */

#define BASE_NS (1000 * REA_NS_PER_S)

static void trace(const struct rea_decision *decision, const struct rea_report *report,
    const struct rea_instance *instance, uint64_t now_ns)
{
	char line[REA_TRACE_LINE_MAX];

	rea_trace_line(decision, report, &instance->id, BASE_NS, now_ns, line, sizeof(line));
	printf("%s\n", line);
}

static void call(void)
{
	const struct rea_report fault = {.outcome = REA_OUTCOME_UNAVAILABLE, .code_kind = REA_CODE_HTTP, .code = 503},
				good = {.outcome = REA_OUTCOME_OK, .code_kind = REA_CODE_HTTP, .code = 200};
	struct rea_instance items[] = {{.weight = 1}, {.weight = 1}}, *chosen;
	struct rea_instances instances = {.items = items, .count = 2, .balance = REA_BALANCE_LISTED};
	struct rea_call_options options;
	struct rea_policy policy;
	struct rea_random random;
	struct rea_budget *budget;
	struct rea_decision decision;
	struct rea_call call;
	uint64_t now_ns = BASE_NS;

	rea_policy_defaults(&policy);
	policy.enabled = true;
	if (rea_budget_new(&policy.budget, 1, NULL, &budget, NULL) != 0 ||
	    !rea_instance_id_parse("127.0.0.1:9001", 14, &items[0].id) ||
	    !rea_instance_id_parse("[::1]:9002", 10, &items[1].id))
		abort();
	rea_random_init(&random, 1);
	rea_call_options_init(&options);
	options.policy = &policy;
	options.budget = budget;
	options.grant = (struct rea_grant){REA_PERMISSION_IDEMPOTENT, REA_PERMISSION_SOURCE_CALLER};

	rea_call_begin(&call, &options, now_ns);
	rea_call_attempt(&call, &instances, &random, now_ns, &decision);
	chosen = &items[decision.instance];
	trace(&decision, NULL, chosen, now_ns);
	now_ns += 5 * REA_NS_PER_MS;
	rea_call_report(&call, &fault, &instances, &random, now_ns, &decision);
	trace(&decision, &fault, chosen, now_ns);
	now_ns = decision.wait_until_ns;
	rea_call_attempt(&call, &instances, &random, now_ns, &decision);
	chosen = &items[decision.instance];
	trace(&decision, NULL, chosen, now_ns);
	now_ns += 7 * REA_NS_PER_MS;
	rea_call_report(&call, &good, &instances, &random, now_ns, &decision);
	trace(&decision, &good, chosen, now_ns);
	rea_budget_free(budget);
}

int main(void)
{
	printf("rea %s\n", rea_version());
	print_layout();
	combine();
	refuse();
	open_breaker();
	call();
	return 0;
}
