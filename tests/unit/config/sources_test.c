/* `sources`: what it may say, and a configuration under another policy. */
#include "everything.h"
#include "refusal.h"

#include "../fail_alloc.h"

static struct rea_config *load_text(const char *text)
{
	struct rea_config *config;
	struct rea_error_info info;

	if (rea_config_parse("rea.yaml", text, strlen(text), NULL, &config, &info) != 0)
		fail_msg("%u:%u: %s: %s", info.line, info.column, info.key, info.message);
	return config;
}

static void every_kind(void **state)
{
	struct rea_config *config = load_text(
	    "sources:\n"
	    "  snapshot-dir: /var/lib/rea\n"
	    "  policy:\n"
	    "    - file: policy.yaml\n"
	    "    - nacos: {servers: ['nacos-1:8848', 'https://[::1]:8849'], data-id: a.yml, username: u, password: "
	    "'file:p'}\n"
	    "    - nacos: {servers: [127.0.0.1:1], data-id: b, group: G, namespace: public, context-path: /, mode: v3, "
	    "poll-ms: 1000}\n"
	    "    - etcd: {servers: ['http://127.0.0.1:2379'], key: /rea, ca-file: ca.pem, failover-file: f.yaml}\n");
	const struct rea_config_settings *settings = rea_config_settings(config);
	const struct rea_config_source *sources = settings->sources.policy;

	(void)state;
	assert_string_equal(settings->sources.snapshot_dir, "/var/lib/rea");
	assert_int_equal(settings->sources.policy_len, 4);
	assert_int_equal(sources[0].kind, REA_SOURCE_FILE);
	assert_string_equal(sources[0].name, "policy.yaml");
	assert_int_equal(sources[0].servers_len, 0);
	assert_int_equal(sources[1].kind, REA_SOURCE_NACOS);
	assert_int_equal(sources[1].servers_len, 2);
	assert_string_equal(sources[1].servers[0], "http://nacos-1:8848");
	assert_string_equal(sources[1].servers[1], "https://[::1]:8849");
	assert_string_equal(sources[1].group, "DEFAULT_GROUP");
	assert_string_equal(sources[1].namespace_id, "");
	assert_string_equal(sources[1].context_path, "/nacos");
	assert_int_equal(sources[1].mode, REA_NACOS_AUTO);
	assert_int_equal(sources[1].poll_ms, 5000);
	assert_string_equal(sources[1].username, "u");
	assert_string_equal(sources[1].password, "file:p");
	assert_string_equal(sources[2].group, "G");
	assert_string_equal(sources[2].namespace_id, "");
	assert_string_equal(sources[2].context_path, "");
	assert_int_equal(sources[2].mode, REA_NACOS_V3);
	assert_int_equal(sources[2].poll_ms, 1000);
	assert_null(sources[2].username);
	assert_int_equal(sources[3].kind, REA_SOURCE_ETCD);
	assert_string_equal(sources[3].name, "/rea");
	assert_string_equal(sources[3].ca_file, "ca.pem");
	assert_string_equal(sources[3].failover_file, "f.yaml");
	rea_config_unref(config);
}

#define NACOS "sources:\n  policy:\n    - nacos: "

static void refusals(void **state)
{
	static const struct refusal table[] = {
	    {"sources: {polcy: []}\n", REA_ERR_INVALID, 1, 11, "sources.polcy",
		"sources has no key \"polcy\"; did you mean policy?"},
	    {"sources: {policy: x}\n", REA_ERR_INVALID, 1, 19, "sources.policy", "expected a list of sources, got \"x\""},
	    {"sources: {policy: [{}]}\n", REA_ERR_INVALID, 1, 20, "sources.policy[0]",
		"a source is one of `file`, `nacos` and `etcd`"},
	    {"sources: {policy: [{file: a, etcd: {}}]}\n", REA_ERR_INVALID, 1, 20, "sources.policy[0]",
		"a source is one of `file`, `nacos` and `etcd`"},
	    {NACOS "{data-id: a}\n", REA_ERR_INVALID, 3, 14, "sources.policy[0].nacos",
		"nacos needs `servers`, here or in sources.nacos"},
	    {NACOS "{servers: [a:1]}\n", REA_ERR_INVALID, 3, 14, "sources.policy[0].nacos", "nacos needs `data-id`"},
	    {NACOS "{servers: [], data-id: a}\n", REA_ERR_INVALID, 3, 24, "sources.policy[0].nacos.servers",
		"from 1 to 16 servers can be asked"},
	    {NACOS "{servers: [nacos], data-id: a}\n", REA_ERR_INVALID, 3, 25, "sources.policy[0].nacos.servers[0]",
		"expected a server such as 127.0.0.1:8848 or https://nacos.internal:8848, got \"nacos\""},
	    {NACOS "{servers: ['http://a:1/nacos'], data-id: a}\n", REA_ERR_INVALID, 3, 25, "sources.policy[0].nacos.servers[0]",
		"expected a server such as 127.0.0.1:8848 or https://nacos.internal:8848, got \"http://a:1/nacos\""},
	    {NACOS "{servers: [a:1], data-id: a/b}\n", REA_ERR_INVALID, 3, 40, "sources.policy[0].nacos.data-id",
		"expected letters, digits and any of _ - . :, 256 at most, got \"a/b\""},
	    {NACOS "{servers: [a:1], data-id: a, context-path: nacos}\n", REA_ERR_INVALID, 3, 57,
		"sources.policy[0].nacos.context-path", "expected a path such as /nacos, or / alone, got \"nacos\""},
	    {NACOS "{servers: [a:1], data-id: a, poll-ms: 999}\n", REA_ERR_INVALID, 3, 52,
		"sources.policy[0].nacos.poll-ms", "expected a whole number from 1000 to 3600000, got \"999\""},
	    {NACOS "{servers: [a:1], data-id: a, username: u}\n", REA_ERR_INVALID, 3, 14, "sources.policy[0].nacos",
		"`username` and `password` are given together, or neither is"},
	    {NACOS "{servers: [a:1], data-id: a, username: u, password: [s3cret]}\n", REA_ERR_INVALID, 3, 66,
		"sources.policy[0].nacos.password", "expected a password, or file:PATH of a file that holds it"},
	    {"sources: {policy: [{etcd: {servers: [a:1]}}]}\n", REA_ERR_INVALID, 1, 27, "sources.policy[0].etcd",
		"etcd needs `key`"},
	    {"sources: {policy: [{file: a}, {file: a}, {file: a}, {file: a}, {file: a}, {file: a}, {file: a}, {file: "
	     "a}, {file: a}]}\n",
		REA_ERR_INVALID, 1, 19, "sources.policy", "at most 8 sources are asked"},
	};

	(void)state;
	CHECK_REFUSALS(table);
}

/* ---- another policy ---- */

static int with(struct rea_config *base, const char *text, struct rea_config **ret_config, struct rea_error_info *ret_info)
{
	return rea_config_with_policy(base, "policy.yaml", text, strlen(text), NULL, ret_config, ret_info);
}

static uint32_t retries(const struct rea_config *config, const char *service, const char *method)
{
	struct rea_policy policy;

	assert_int_equal(rea_config_policy(config, service, method, &policy), 0);
	return policy.enabled ? policy.max_retry_next_instance : 0;
}

static void a_policy_takes_the_place_of_the_documents_own(void **state)
{
	struct rea_config *base = load_text(everything), *first, *second, *none;
	struct rea_error_info info;
	const struct rea_config_service *users;

	(void)state;
	assert_int_equal(with(base,
			     "rpc: {feign: {retry: {enabled: true, max-retry-next-instance: 2, service-configs: "
			     "{users: {method-configs: "
			     "{user-api_get: {max-retry-next-instance: 4}}}}}}}\n",
			     &first, &info),
	    0);
	assert_int_equal(retries(first, "users", "user-api_get"), 4);
	assert_int_equal(retries(first, "users", "user-api_create"), 2);
	assert_int_equal(retries(base, "users", "user-api_get"), 3);
	/* A key that is gone from the document is gone (S12), and so is all of it. */
	assert_int_equal(with(first, "rpc: {feign: {retry: {enabled: true}}}\n", &second, &info), 0);
	assert_int_equal(with(second, "", &none, &info), 0);
	rea_config_unref(first);
	assert_int_equal(retries(second, "users", "user-api_get"), 1);
	assert_int_equal(retries(none, "users", "user-api_get"), 0);
	assert_string_not_equal(rea_config_version(base), rea_config_version(second));
	assert_string_not_equal(rea_config_version(none), rea_config_version(second));
	/* What is not policy is what it was, also when nobody else holds it. */
	rea_config_unref(base);
	rea_config_unref(none);
	users = rea_config_find_host(second, "users.internal:81", 17);
	assert_non_null(users);
	assert_string_equal(users->name, "users");
	assert_int_equal(users->instances_len, 2);
	assert_int_equal(rea_contract_count(users->contract), 3);
	assert_ptr_equal(users, rea_config_service(second, 0));
	assert_true(users->operation_policies[0]->enabled);
	assert_int_equal(rea_config_settings(second)->threads, 2);
	assert_int_equal(rea_config_policy_line(second), 1);
	rea_config_unref(second);
}

static void profiles_of_the_document_can_be_named(void **state)
{
	struct rea_config *base = load_text(everything), *config;
	struct rea_error_info info;

	(void)state;
	assert_int_equal(with(base, "rpc: {feign: {retry: {enabled: true, profile: critical}}}\n", &config, &info), 0);
	assert_int_equal(retries(config, "users", "x"), 2);
	rea_config_unref(config);
	rea_config_unref(base);
}

static void the_master_switch_is_that_of_the_policy(void **state)
{
	struct rea_config *base = load_text("rpc: {feign: {retry: {enabled: false}}}\n"), *config;
	struct rea_error_info info;

	(void)state;
	assert_true(rea_config_settings(base)->tasks.retries_off);
	assert_int_equal(with(base, "rpc: {feign: {retry: {enabled: true}}}\n", &config, &info), 0);
	assert_false(rea_config_settings(config)->tasks.retries_off);
	rea_config_unref(config);
	assert_int_equal(with(base, "rpc: {feign: {retry: {enabled: false}}}\n", &config, &info), 0);
	assert_true(rea_config_settings(config)->tasks.retries_off);
	rea_config_unref(config);
	rea_config_unref(base);
}

static void bad_policies_change_nothing(void **state)
{
	static const struct refusal table[] = {
	    {"services: {}\n", REA_ERR_INVALID, 1, 1, "services", "a policy document has no key \"services\""},
	    {"rpc: {feign: {retry: {jitter: 0}}}\n", REA_ERR_INVALID, 1, 31, "rpc.feign.retry.jitter", NULL},
	    {"rpc: {feign: {retry: {service-configs: {users: {method-configs: {user-api_gt: {}}}}}}}\n",
		REA_ERR_INVALID, 1, 66, "rpc.feign.retry.service-configs.users.method-configs.user-api_gt", NULL},
	    {"rpc: [\n", REA_ERR_SYNTAX, 2, 1, "", NULL},
	    {"a: &a [x]\nb: *a\n", REA_ERR_INVALID, 2, 4, "", NULL},
	    {"- x\n", REA_ERR_INVALID, 1, 1, "", NULL},
	};
	struct rea_config *base = load_text(everything);

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct rea_config *config = NULL;
		struct rea_error_info info;
		int error = with(base, table[i].text, &config, &info);

		if (error >= 0 || config != NULL)
			fail_msg("taken: %s", table[i].text);
		assert_string_equal(info.file, "policy.yaml");
		assert_int_equal(info.line, table[i].line);
		if (table[i].key[0] != '\0')
			assert_string_equal(info.key, table[i].key);
		if (table[i].message != NULL)
			assert_string_equal(info.message, table[i].message);
	}
	assert_int_equal(retries(base, "users", "user-api_get"), 3);
	rea_config_unref(base);
}

static void out_of_memory_changes_nothing(void **state)
{
	static const char text[] =
	    "rpc: {feign: {retry: {enabled: true, service-configs: {users: {method-configs: {user-api_get: {}}}}}}}\n";
	struct rea_config *base = load_text(everything);
	bool done = false;

	(void)state;
	for (size_t allowed = 0; !done; allowed++) {
		struct fail_alloc fail;
		struct rea_config *config = NULL;
		struct rea_error_info info;
		int error;

		fail_alloc_init(&fail, allowed, false);
		error = rea_config_with_policy(base, "p", text, strlen(text), &fail.alloc, &config, &info);
		done = error == 0;
		if (!done) {
			assert_int_equal(error, REA_ERR_NOMEM);
			assert_null(config);
		}
		rea_config_unref(config);
		assert_int_equal(fail.live, 0);
	}
	assert_int_equal(retries(base, "users", "user-api_get"), 3);
	rea_config_unref(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_kind),
	    cmocka_unit_test(refusals),
	    cmocka_unit_test(a_policy_takes_the_place_of_the_documents_own),
	    cmocka_unit_test(profiles_of_the_document_can_be_named),
	    cmocka_unit_test(the_master_switch_is_that_of_the_policy),
	    cmocka_unit_test(bad_policies_change_nothing),
	    cmocka_unit_test(out_of_memory_changes_nothing),
	};

	return cmocka_run_group_tests_name("sources", tests, NULL, NULL);
}
