/* Layers and what they come to. Scenarios Y01 and Y02. */
#include "config/snapshot.h"

#include "refusal.h"

#include <rea/time.h>

static struct rea_policy policy_of(const struct rea_config *config, const char *service, const char *method)
{
	struct rea_policy policy;

	assert_int_equal(rea_config_policy(config, service, method, &policy), 0);
	return policy;
}

/* What a call may do under the policy, were the callee to permit everything. */
static uint32_t retries(const struct rea_config *config, const char *service, const char *method)
{
	struct rea_policy policy = policy_of(config, service, method);

	return policy.enabled ? rea_policy_attempts(&policy) - 1 : 0;
}

/* The document as it stands in a Nacos data id. */
static void y01_a_nacos_document(void **state)
{
	struct rea_config *config = parse(RETRY "      enabled: true\n"
						"      max-retry-same-instance: 0\n"
						"      max-retry-next-instance: 2\n"
						"      min-backoff-ms: 100\n"
						"      max-backoff-ms: 1000\n"
						"      backoff-multiplier: 2.0\n"
						"      service-configs:\n"
						"        user-service:\n"
						"          enabled: true\n"
						"          max-retry-next-instance: 3\n"
						"          method-configs:\n"
						"            user-api_getUserInfo:\n"
						"              enabled: true\n"
						"              max-retry-next-instance: 2\n"
						"            user-api_updateUserBalance:\n"
						"              enabled: false\n");
	struct rea_policy method = policy_of(config, "user-service", "user-api_getUserInfo");

	(void)state;
	assert_int_equal(retries(config, "user-service", "user-api_getUserInfo"), 2);
	assert_int_equal(retries(config, "user-service", "user-api_other"), 3);
	assert_int_equal(retries(config, "user-service", NULL), 3);
	assert_int_equal(retries(config, "user-service", "user-api_updateUserBalance"), 0);
	assert_int_equal(retries(config, "order-service", "order-api_get"), 2);
	assert_int_equal(retries(config, NULL, NULL), 2);
	assert_true(method.min_backoff_ns == 100 * REA_NS_PER_MS && method.max_backoff_ns == 1000 * REA_NS_PER_MS);
	assert_true(method.backoff_multiplier == 2.0 && method.jitter == 0.2);
	assert_int_equal(policy_of(config, "user-service", "user-api_updateUserBalance").max_retry_next_instance, 3);
	rea_config_unref(config);
}

static void y02_master_switch(void **state)
{
	static const struct {
		const char *global, *service, *method;
		bool enabled;
	} cases[] = {
	    {"enabled: false", "", "enabled: true", false},
	    {"enabled: false", "enabled: true", "", false},
	    {"mode: enforce", "", "enabled: true", true},
	    {"mode: enforce", "enabled: true", "enabled: false", false},
	    {"enabled: true", "max-retry-next-instance: 3", "", true},
	    {"enabled: true", "enabled: false", "enabled: true", true},
	    {"enabled: true", "enabled: false", "max-retry-next-instance: 3", false},
	    {"mode: enforce", "", "", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rea_config *config;
		char text[512];

		snprintf(text, sizeof(text),
		    "rpc: {feign: {retry: {%s, service-configs: {s: {%s%s method-configs: {m: {%s}}}}}}}\n",
		    cases[i].global, cases[i].service, cases[i].service[0] ? "," : "", cases[i].method);
		config = parse(text);
		if (policy_of(config, "s", "m").enabled != cases[i].enabled)
			fail_msg("not %d: %s", cases[i].enabled, text);
		rea_config_unref(config);
	}
}

/* A method that sets only a count inherits `enabled` and the backoff from its service. */
static void each_key_on_its_own(void **state)
{
	struct rea_config *config = parse(RETRY "      deadline-ms: 9000\n"
						"      service-configs:\n"
						"        s:\n"
						"          enabled: true\n"
						"          min-backoff-ms: 50\n"
						"          method-configs:\n"
						"            m: {max-retry-next-instance: 5}\n");
	struct rea_policy policy = policy_of(config, "s", "m");

	(void)state;
	assert_true(policy.enabled);
	assert_int_equal(policy.max_retry_next_instance, 5);
	assert_true(policy.min_backoff_ns == 50 * REA_NS_PER_MS && policy.deadline_ns == 9000 * REA_NS_PER_MS);
	assert_int_equal(policy_of(config, "s", NULL).max_retry_next_instance, 1);
	rea_config_unref(config);
}

/* A document without a retry block has the defaults everywhere. */
static void nothing_said(void **state)
{
	static const char *const texts[] = {"", "rpc:\n", "rpc: {feign: }\n", "rpc: {feign: {retry: }}\n"};
	struct rea_policy defaults;

	(void)state;
	rea_policy_defaults(&defaults);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct rea_config *config = parse(texts[i]);
		struct rea_policy policy = policy_of(config, "any", "any_thing");

		assert_false(policy.enabled);
		assert_int_equal(policy.max_retry_next_instance, defaults.max_retry_next_instance);
		assert_true(policy.deadline_ns == defaults.deadline_ns && policy.jitter == defaults.jitter);
		rea_config_unref(config);
	}
}

/* Empty levels inherit everything. */
static void empty_levels(void **state)
{
	struct rea_config *config = parse(RETRY "      enabled: true\n"
						"      service-configs:\n"
						"        s:\n"
						"        t: {method-configs: {m: , n: {}}}\n");

	(void)state;
	assert_int_equal(retries(config, "s", NULL), 1);
	assert_int_equal(retries(config, "t", "m"), 1);
	assert_int_equal(retries(config, "t", "n"), 1);
	rea_config_unref(config);
}

/* A service without a contract may name methods that nobody declares: they match nothing until somebody does. */
static void methods_nobody_declares(void **state)
{
	struct rea_config *config =
	    parse(SERVICE RETRY "      service-configs: {users: {method-configs: {a_b: {enabled: true}}}}\n");

	(void)state;
	assert_true(policy_of(config, "users", "a_b").enabled);
	rea_config_unref(config);
}

/* rpc.grpc.retry is read like the other, and each says nothing about the other's calls. */
static const struct rea_policy *grpc_policy_of(const struct rea_config *config, const char *path)
{
	return rea_config_grpc_policy(config, rea_config_service(config, 0), path, strlen(path));
}

static void grpc_is_apart(void **state)
{
	struct rea_config *config = parse(SERVICE OPERATION
	    "{get: /a, id: b}\n"
	    "rpc: {grpc: {retry: {enabled: true, service-configs: {users: {method-configs: {p.Users_Get: "
	    "{max-retry-next-instance: 4}}}}}}}\n");

	(void)state;
	assert_false(policy_of(config, "users", NULL).enabled);
	assert_false(policy_of(config, "users", "p.Users_Get").enabled);
	assert_int_equal(grpc_policy_of(config, "/p.Users/Get")->max_retry_next_instance, 4);
	assert_int_equal(grpc_policy_of(config, "/p.Users/Put")->max_retry_next_instance, 1);
	assert_true(grpc_policy_of(config, "/p.Users/Put")->enabled);
	assert_ptr_equal(grpc_policy_of(config, "/p.Users/Put"), rea_config_service(config, 0)->grpc_policy);
	rea_config_unref(config);
	config = parse(SERVICE RETRY "      enabled: true\n");
	assert_false(grpc_policy_of(config, "/p.Users/Get")->enabled);
	rea_config_unref(config);
}

static void a_budget_of_grpc_is_the_services(void **state)
{
	static const struct {
		const char *rpc;
		enum rea_budget_rule rule;
	} rows[] = {
	    {"rpc: {}\n", REA_BUDGET_EVIDENCE},
	    {"rpc: {feign: {retry: {budget: {rule: ratio}}}}\n", REA_BUDGET_RATIO},
	    {"rpc: {feign: {retry: {budget: {rule: ratio}}}, grpc: {retry: {budget: {rule: grpc}}}}\n", REA_BUDGET_GRPC},
	    {"rpc: {feign: {retry: {budget: {rule: ratio}}}, grpc: {retry: {enabled: true}}}\n", REA_BUDGET_RATIO},
	    {"rpc: {grpc: {retry: {service-configs: {users: {budget: {rule: aws}}}}}}\n", REA_BUDGET_AWS},
	    {"rpc: {grpc: {retry: {service-configs: {others: {budget: {rule: aws}}}}}}\n", REA_BUDGET_EVIDENCE},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[300];
		struct rea_config *config;

		snprintf(text, sizeof(text), "%s%s", SERVICE, rows[i].rpc);
		config = parse(text);
		assert_int_equal(rea_config_service(config, 0)->budget->rule, rows[i].rule);
		rea_config_unref(config);
	}
}

/* Ten methods with the same words share one policy; under another service they come to another one. */
static void equal_layers_are_shared(void **state)
{
	struct rea_config *config = parse(RETRY "      service-configs:\n"
						"        s:\n"
						"          enabled: true\n"
						"          method-configs:\n"
						"            a: {max-retry-next-instance: 4}\n"
						"            b: {maxRetryNextInstance: 4}\n"
						"            c: {max-retry-next-instance: 5}\n"
						"        t:\n"
						"          method-configs:\n"
						"            a: {max-retry-next-instance: 4}\n"
						"        u:\n"
						"          enabled: true\n"
						"          method-configs:\n"
						"            a: {max-retry-next-instance: 4}\n");
	const struct rea__service_config *s = &config->feign.services[0], *t = &config->feign.services[1],
					 *u = &config->feign.services[2];

	(void)state;
	assert_ptr_equal(s->methods[0].policy, s->methods[1].policy);
	assert_ptr_not_equal(s->methods[0].policy, s->methods[2].policy);
	assert_ptr_not_equal(s->methods[0].policy, t->methods[0].policy);
	assert_ptr_equal(s->policy, u->policy);
	assert_true(s->methods[0].policy->enabled);
	assert_false(t->methods[0].policy->enabled);
	assert_true(u->methods[0].policy->enabled);
	assert_int_equal(s->methods[2].policy->max_retry_next_instance, 5);
	rea_config_unref(config);
}

/* A level that repeats the words of the level above is not taken for it. */
static void a_level_like_its_parent(void **state)
{
	struct rea_config *config = parse("rpc: {feign: {retry: {jitter: 0.3, service-configs: {s: {jitter: 0.3, "
					  "method-configs: {m: {jitter: 0.3}}}}}}}\n");

	(void)state;
	assert_true(policy_of(config, NULL, NULL).jitter == 0.3);
	assert_true(policy_of(config, "s", NULL).jitter == 0.3);
	assert_true(policy_of(config, "s", "m").jitter == 0.3);
	rea_config_unref(config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(y01_a_nacos_document),
	    cmocka_unit_test(y02_master_switch),
	    cmocka_unit_test(each_key_on_its_own),
	    cmocka_unit_test(nothing_said),
	    cmocka_unit_test(empty_levels),
	    cmocka_unit_test(methods_nobody_declares),
	    cmocka_unit_test(grpc_is_apart),
	    cmocka_unit_test(a_budget_of_grpc_is_the_services),
	    cmocka_unit_test(equal_layers_are_shared),
	    cmocka_unit_test(a_level_like_its_parent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
