/* What another configuration changes, as it is told. */
#include "refusal.h"

#include <stdio.h>

struct told {
	char texts[REA_CONFIG_CHANGES][1024]; /* lines */
	size_t counts[REA_CONFIG_CHANGES];
};

static void on_change(enum rea_config_change kind, const char *text, void *user_data)
{
	struct told *told = user_data;
	size_t used = strlen(told->texts[kind]);

	snprintf(told->texts[kind] + used, sizeof(told->texts[kind]) - used, "%s\n", text);
}

static void compare(const char *before, const char *after, size_t max, struct told *ret_told)
{
	struct rea_config *was = parse(before), *is = parse(after);

	memset(ret_told, 0, sizeof(*ret_told));
	rea_config_compare(was, is, max, on_change, ret_told, ret_told->counts);
	rea_config_unref(was);
	rea_config_unref(is);
}

#define CONTRACT(retryable)                                                     \
	"services: {users: {instances: []}, pay: {instances: []}}\n"            \
	"contracts:\n  users:\n    context: api\n    operations:\n"             \
	"      - {get: '/users/{id}', id: getUser, retryable: " retryable "}\n" \
	"      - {post: /users, id: addUser, retryable: with-key}\n"

static void nothing(void **state)
{
	static const char text[] =
	    CONTRACT("true") "rpc: {feign: {retry: {enabled: true, classify: {409: unavailable}}}}\n";
	struct told told;

	(void)state;
	/* Where it stands does not matter. */
	compare(text, CONTRACT("true") "\n# new\nrpc: {feign: {retry: {classify: {409: unavailable}, enabled: true}}}\n",
	    20, &told);
	assert_string_equal(told.texts[REA_CHANGED_KEY], "");
	assert_string_equal(told.texts[REA_CHANGED_METHOD], "");
	assert_int_equal(told.counts[REA_CHANGED_KEY], 0);
	assert_int_equal(told.counts[REA_CHANGED_METHOD], 0);
}

static void keys_of_every_level(void **state)
{
	struct told told;

	(void)state;
	compare("limits: {concurrent-retries: 256}\nprofiles: {own: {jitter: 0.5}}\n"
		"rpc: {feign: {retry: {enabled: true, max-retry-next-instance: 1, mode: observe,\n"
		"  service-configs: {users: {profile: own, method-configs: {api_get: {deadline-ms: 2000}}}, old: "
		"{enabled: false}}}}}\n",
	    "limits: {concurrent-retries: 300}\nprofiles: {own: {jitter: 0.4}}\ntasks: {policy: {deadline-ms: 5000}}\n"
	    "rpc: {feign: {retry: {enabled: true, max-retry-next-instance: 2,\n"
	    "  service-configs: {users: {profile: adaptive, method-configs: {api_get: {deadline-ms: 1500}}}}}},\n"
	    "  grpc: {retry: {service-configs: {users: {method-configs: {a.B_C: {enabled: true}}}}}}}\n",
	    20, &told);
	assert_string_equal(told.texts[REA_CHANGED_KEY],
	    "limits.concurrent-retries: 300, was 256\n"
	    "tasks.policy.deadline-ms: 5000, was not set\n"
	    "profiles.own.jitter: 0.4, was 0.5\n"
	    "rpc.feign.retry.max-retry-next-instance: 2, was 1\n"
	    "rpc.feign.retry.mode: not set, was observe\n"
	    "rpc.feign.retry.service-configs.users.profile: adaptive, was own\n"
	    "rpc.feign.retry.service-configs.users.method-configs.api_get.deadline-ms: 1500, was 2000\n"
	    "rpc.feign.retry.service-configs.old.enabled: not set, was false\n"
	    "rpc.grpc.retry.service-configs.users.method-configs.a.B_C.enabled: true, was not set\n");
	assert_int_equal(told.counts[REA_CHANGED_KEY], 9);
}

static void services(void **state)
{
	struct told told;

	(void)state;
	compare("services: {users: {instances: ['127.0.0.1:1']}, old: {instances: []}}\n",
	    "services: {users: {instances: ['127.0.0.1:2'], host: b, hosts: [c], balance: listed, protocol: h2, "
	    "ejection: false},\n"
	    "  new: {instances: []}}\n",
	    20, &told);
	assert_string_equal(told.texts[REA_CHANGED_KEY],
	    "services.users.hosts\nservices.users.host\nservices.users.instances\nservices.users.balance\n"
	    "services.users.protocol\nservices.users.ejection\nservices.new: new\nservices.old: gone\n");
}

static void permissions_and_policies(void **state)
{
	struct told told;

	(void)state;
	compare(CONTRACT("true"), CONTRACT("false"), 20, &told);
	assert_string_equal(told.texts[REA_CHANGED_METHOD], "users api_getUser (permission forbid, was idempotent)\n");
	compare(CONTRACT("true"),
	    CONTRACT("false") "rpc: {feign: {retry: {service-configs: {users: {enabled: true}}}}}\n", 20, &told);
	assert_string_equal(told.texts[REA_CHANGED_METHOD],
	    "users api_getUser (permission forbid, was idempotent; policy)\nusers api_addUser (policy)\n");
	/* A key that comes to nothing for anybody. */
	compare(CONTRACT("true") "rpc: {feign: {retry: {enabled: false}}}\n",
	    CONTRACT("true") "rpc: {feign: {retry: {enabled: false, service-configs: {users: {enabled: true}}}}}\n", 20,
	    &told);
	assert_int_equal(told.counts[REA_CHANGED_KEY], 1);
	assert_int_equal(told.counts[REA_CHANGED_METHOD], 0);
}

static void a_service_without_a_contract(void **state)
{
	struct told told;

	(void)state;
	compare("rpc: {feign: {retry: {service-configs: {users: {method-configs: {api_get: {enabled: true}}}}}}}\n", "rpc: {feign: {retry: {service-configs: {users: {enabled: true, method-configs: {api_get: {enabled: true}}}}}}}\n",
	    20, &told);
	assert_string_equal(
	    told.texts[REA_CHANGED_METHOD], "users, every method without settings of its own (policy)\n");
	compare("rpc: {feign: {retry: {service-configs: {users: {method-configs: {api_get: {enabled: true}}}}}}}\n", "",
	    20, &told);
	assert_string_equal(told.texts[REA_CHANGED_METHOD], "users api_get (policy)\n");
	compare("services: {users: {instances: []}}\n",
	    "services: {users: {instances: []}}\nrpc: {grpc: {retry: {service-configs: {users: {enabled: true}}}}}\n",
	    20, &told);
	assert_string_equal(
	    told.texts[REA_CHANGED_METHOD], "users, every gRPC method without settings of its own (policy)\n");
}

/* The rest is counted. */
static void no_more_than_asked_for(void **state)
{
	struct told told;

	(void)state;
	compare(CONTRACT("true"), CONTRACT("true") "rpc: {feign: {retry: {enabled: true, jitter: 0.3}}}\n", 1, &told);
	assert_string_equal(told.texts[REA_CHANGED_KEY], "rpc.feign.retry.enabled: true, was not set\n");
	assert_int_equal(told.counts[REA_CHANGED_KEY], 2);
	assert_string_equal(told.texts[REA_CHANGED_METHOD], "users api_getUser (policy)\n");
	assert_int_equal(told.counts[REA_CHANGED_METHOD], 3);
}

static void another_policy_over_the_same(void **state)
{
	static const char policy[] = "rpc: {feign: {retry: {enabled: true}}}\n";
	struct rea_config *base = parse(CONTRACT("true")), *next;
	struct told told = {.counts = {0}};

	(void)state;
	assert_int_equal(rea_config_with_policy(base, "nacos", policy, strlen(policy), NULL, &next, NULL), 0);
	rea_config_compare(base, next, 20, on_change, &told, told.counts);
	assert_string_equal(told.texts[REA_CHANGED_KEY], "rpc.feign.retry.enabled: true, was not set\n");
	assert_int_equal(told.counts[REA_CHANGED_METHOD], 3);
	rea_config_unref(base);
	rea_config_unref(next);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing),
	    cmocka_unit_test(keys_of_every_level),
	    cmocka_unit_test(services),
	    cmocka_unit_test(permissions_and_policies),
	    cmocka_unit_test(a_service_without_a_contract),
	    cmocka_unit_test(no_more_than_asked_for),
	    cmocka_unit_test(another_policy_over_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
