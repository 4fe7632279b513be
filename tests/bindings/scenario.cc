/* The scenario of scenario.c in C++17. */
#include <rea/explain.h>

#include <cstddef>
#include <iomanip>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string_view>

#define SIZE(type) std::cout << "sizeof " #type " = " << sizeof(type) << '\n'
#define FIELD(type, field) std::cout << "offsetof " #type "." #field " = " << offsetof(type, field) << '\n'

namespace
{

template <auto free> struct freed {
	template <typename T> void operator()(T *object) const
	{
		free(object);
	}
};
using breaker_ptr = std::unique_ptr<rea_breaker, freed<rea_breaker_free>>;
using budget_ptr = std::unique_ptr<rea_budget, freed<rea_budget_free>>;

void check(int error)
{
	if (error != 0)
		throw std::runtime_error(rea_error_text(error));
}

rea_policy default_policy()
{
	rea_policy policy;

	rea_policy_defaults(&policy);
	return policy;
}

void print_layout()
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

void combine()
{
	rea_grant both = rea_grant_combine({REA_PERMISSION_IDEMPOTENT, REA_PERMISSION_SOURCE_OPENAPI},
	    {REA_PERMISSION_FORBID, REA_PERMISSION_SOURCE_REGISTRY});

	std::cout << rea_permission_source_name(both.source) << " says " << rea_permission_name(both.permission) << '\n';
}

void refuse()
{
	rea_policy policy = default_policy();
	rea_error_info info;

	policy.backoff_multiplier = 0.5;
	int error = rea_policy_validate(&policy, &info);
	std::cout << rea_error_name(error) << ": " << info.key << ": " << info.message << '\n';
}

void open_breaker()
{
	unsigned number = 7;
	rea_policy policy = default_policy();
	rea_breaker *made;

	check(rea_breaker_new(&policy.breaker, nullptr, &made, nullptr));
	breaker_ptr breaker(made);
	rea_breaker_on_change(
	    made,
	    [](enum rea_breaker_state from, enum rea_breaker_state to, uint64_t now_ns, void *user_data) {
		    std::cout << "breaker " << *static_cast<unsigned *>(user_data) << ": " << rea_breaker_state_name(from)
			      << " -> " << rea_breaker_state_name(to) << " at " << now_ns << '\n';
	    },
	    &number);
	rea_breaker_force(made, REA_BREAKER_OPEN, 5 * REA_NS_PER_S);
	std::cout << "failure rate " << std::fixed << std::setprecision(1)
		  << rea_breaker_failure_rate(made, 5 * REA_NS_PER_S) << '\n';
}

constexpr uint64_t base_ns = 1000 * REA_NS_PER_S;

void trace(const rea_decision &decision, const rea_report *report, const rea_instance &instance, uint64_t now_ns)
{
	char line[REA_TRACE_LINE_MAX];

	rea_trace_line(&decision, report, &instance.id, base_ns, now_ns, line, sizeof(line));
	std::cout << line << '\n';
}

rea_instance at(std::string_view address)
{
	rea_instance instance{};

	instance.weight = 1;
	if (!rea_instance_id_parse(address.data(), address.size(), &instance.id))
		throw std::runtime_error("no address");
	return instance;
}

rea_report http(rea_outcome outcome, uint32_t status)
{
	rea_report report{};

	report.outcome = outcome;
	report.code_kind = REA_CODE_HTTP;
	report.code = status;
	return report;
}

void call()
{
	const rea_report fault = http(REA_OUTCOME_UNAVAILABLE, 503), good = http(REA_OUTCOME_OK, 200);
	const rea_instance items[] = {at("127.0.0.1:9001"), at("[::1]:9002")};
	const rea_instances instances{items, std::size(items), REA_BALANCE_LISTED, false};
	rea_policy policy = default_policy();
	rea_call_options options;
	rea_random random;
	rea_budget *made;
	rea_decision decision;
	rea_call call;
	uint64_t now_ns = base_ns;

	policy.enabled = true;
	check(rea_budget_new(&policy.budget, 1, nullptr, &made, nullptr));
	budget_ptr budget(made);
	rea_random_init(&random, 1);
	rea_call_options_init(&options);
	options.policy = &policy;
	options.budget = made;
	options.grant = {REA_PERMISSION_IDEMPOTENT, REA_PERMISSION_SOURCE_CALLER};

	rea_call_begin(&call, &options, now_ns);
	rea_call_attempt(&call, &instances, &random, now_ns, &decision);
	size_t chosen = decision.instance;
	trace(decision, nullptr, items[chosen], now_ns);
	now_ns += 5 * REA_NS_PER_MS;
	rea_call_report(&call, &fault, &instances, &random, now_ns, &decision);
	trace(decision, &fault, items[chosen], now_ns);
	now_ns = decision.wait_until_ns;
	rea_call_attempt(&call, &instances, &random, now_ns, &decision);
	chosen = decision.instance;
	trace(decision, nullptr, items[chosen], now_ns);
	now_ns += 7 * REA_NS_PER_MS;
	rea_call_report(&call, &good, &instances, &random, now_ns, &decision);
	trace(decision, &good, items[chosen], now_ns);
}

} // namespace

int main()
{
	std::cout << "rea " << rea_version() << '\n';
	print_layout();
	combine();
	refuse();
	open_breaker();
	call();
	return 0;
}
