/* Kitex's retry documents: what of them is read and as what, what is left out or refused and where, what stands above them, and bundles. */
#include "refusal.h"

#include "../fail_alloc.h"

#include <rea/time.h>

#include <stdlib.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define MS REA_NS_PER_MS
#define BIT(outcome) REA_OUTCOME_BIT(REA_OUTCOME_##outcome)
#define NAME "nacos public/DEFAULT_GROUP/shop.users.retry"
#define PLAIN                                                                                                \
	"services: {users: {instances: ['127.0.0.1:1', '127.0.0.1:2', '127.0.0.1:3', '127.0.0.1:4']}, pay: " \
	"{instances: ['127.0.0.1:5']}}\n"
#define FAILURE(stop, more) "{\"enable\": true, \"type\": 0, \"failure_policy\": {\"stop_policy\": {" stop "}" more "}}"

/* What Kitex's own manual shows. */
static const char manual[] =
    "{\n"
    "  \"*\": {\"enable\": true, \"type\": 0, \"failure_policy\": {\n"
    "    \"stop_policy\": {\"max_retry_times\": 3, \"max_duration_ms\": 2000,\n"
    "      \"cb_policy\": {\"error_rate\": 0.5}},\n"
    "    \"backoff_policy\": {\"backoff_type\": \"fixed\", \"cfg_items\": {\"fix_ms\": 50}},\n"
    "    \"retry_same_node\": false}},\n"
    "  \"echo\": {\"enable\": true, \"type\": 1, \"backup_policy\": {\"retry_delay_ms\": 100}}\n"
    "}\n";

static int put(const char *base_text, const char *name, const char *text, struct rea_config **ret_config,
    struct rea_error_info *ret_info)
{
	struct rea_config *base = parse(base_text);
	int error = rea_config_with_policy(base, name, text, strlen(text), NULL, ret_config, ret_info);

	rea_config_unref(base);
	return error;
}

static struct rea_config *put_good(const char *base_text, const char *name, const char *text)
{
	struct rea_config *config = NULL;
	struct rea_error_info info;

	if (put(base_text, name, text, &config, &info) != 0)
		fail_msg("%s:%u:%u: %s: %s", info.file, info.line, info.column, info.key, info.message);
	return config;
}

static struct rea_policy policy_of(const struct rea_config *config, const char *service, const char *method)
{
	struct rea_policy policy;

	assert_int_equal(rea_config_policy(config, service, method, &policy), 0);
	return policy;
}

static const struct rea_policy *grpc_of(const struct rea_config *config, const char *path)
{
	return rea_config_grpc_policy(config, rea_config_find_service(config, "users", 5), path, strlen(path));
}

static void every_value(void **state)
{
	struct rea_config *config = put_good(PLAIN, NAME, manual);
	struct rea_policy p = policy_of(config, "users", "get");

	(void)state;
	assert_true(p.enabled);
	assert_int_equal(p.max_retry_same_instance, 0);
	assert_int_equal(p.max_retry_next_instance, 3);
	assert_true(p.deadline_ns == 2000 * MS);
	assert_true(p.attempt_timeout_ns == 1000 * MS);
	assert_true(p.min_backoff_ns == 50 * MS);
	assert_true(p.max_backoff_ns == 50 * MS);
	assert_true(p.backoff_multiplier == 1);
	assert_true(p.jitter == 0.2);
	assert_int_equal(p.retry_on, BIT(NEVER_SENT) | BIT(PUSHBACK) | BIT(AMBIGUOUS));
	assert_true(p.chain_stop);
	assert_int_equal(p.budget.rule, REA_BUDGET_EVIDENCE);
	assert_false(p.breaker.enabled);
	assert_false(policy_of(config, "users", "echo").enabled);
	assert_false(policy_of(config, "pay", NULL).enabled);
	assert_false(policy_of(config, NULL, NULL).enabled);
	assert_true(rea_config_find_service(config, "users", 5)->policy->enabled);
	/* gRPC's paths name a service as well. */
	assert_true(grpc_of(config, "/p.S/get")->enabled);
	assert_false(grpc_of(config, "/p.S/echo")->enabled);
	assert_true(grpc_of(config, "/echo")->enabled);
	assert_true(grpc_of(config, "")->enabled);
	rea_config_unref(config);
}

static void bounds_and_kinds(void **state)
{
	static const struct {
		const char *method;
		bool enabled, chain_stop;
		uint32_t same, next, deadline_ms, timeout_ms, backoff_ms;
		double jitter;
	} rows[] = {
	    {FAILURE("\"max_retry_times\": 5", ""), true, true, 0, 5, 3000, 1000, 20, 0.2},
	    {FAILURE("\"max_retry_times\": 1, \"max_duration_ms\": 0", ", \"retry_same_node\": true"), true, true, 1, 0,
		3000, 1000, 20, 0.2},
	    {FAILURE("\"max_retry_times\": 2, \"max_duration_ms\": 400, \"disable_chain_stop\": true", ""), true, false,
		0, 2, 400, 400, 20, 0.2},
	    {FAILURE("\"max_retry_times\": 2, \"max_duration_ms\": 4294967295, \"ddl_stop\": true", ""), true, true, 0,
		2, 3600000, 1000, 20, 0.2},
	    {FAILURE("\"max_retry_times\": 2", ", \"backoff_policy\": {\"backoff_type\": \"random\", \"cfg_items\": "
					       "{\"min_ms\": 50, \"max_ms\": 150}}"),
		true, true, 0, 2, 3000, 1000, 100, 0.5},
	    {FAILURE("\"max_retry_times\": 2",
		 ", \"backoff_policy\": {\"backoff_type\": \"random\", \"cfg_items\": {\"min_ms\": 0, \"max_ms\": 0}}"),
		true, true, 0, 2, 3000, 1000, 20, 0.2},
	    {FAILURE("\"max_retry_times\": 2",
		 ", \"backoff_policy\": {\"backoff_type\": \"fixed\", \"cfg_items\": {\"fix_ms\": 3}}"),
		true, true, 0, 2, 3000, 1000, 20, 0.2},
	    {FAILURE("\"max_retry_times\": 2", ", \"backoff_policy\": {\"backoff_type\": \"none\"}"), true, true, 0, 2,
		3000, 1000, 20, 0.2},
	    /* Turned off, each in one of Kitex's ways; then a mixed one, of which the retries are left. */
	    {FAILURE("\"max_retry_times\": 0", ""), false, true, 0, 1, 3000, 1000, 20, 0.2},
	    {FAILURE("", ""), false, true, 0, 1, 3000, 1000, 20, 0.2},
	    {"{\"enable\": false}", false, true, 0, 1, 3000, 1000, 100, 0.2},
	    {"{\"enable\": true, \"type\": 1}", false, true, 0, 1, 3000, 1000, 100, 0.2},
	    {"{\"enable\": true, \"type\": 2, \"mixed_policy\": {\"retry_delay_ms\": 9, \"stop_policy\": "
	     "{\"max_retry_times\": 2}}}",
		true, true, 0, 2, 3000, 1000, 20, 0.2},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		char text[500];
		struct rea_config *config;
		struct rea_policy p;

		snprintf(text, sizeof(text), "{\"m_x\": %s}", rows[i].method);
		config = put_good(PLAIN, NAME, text);
		p = policy_of(config, "users", "m_x");
		if (p.enabled != rows[i].enabled || p.chain_stop != rows[i].chain_stop ||
		    p.max_retry_same_instance != rows[i].same || p.max_retry_next_instance != rows[i].next ||
		    p.deadline_ns != rows[i].deadline_ms * MS || p.attempt_timeout_ns != rows[i].timeout_ms * MS ||
		    p.min_backoff_ns != rows[i].backoff_ms * MS)
			fail_msg("row %zu", i);
		assert_true(p.jitter == rows[i].jitter);
		/* Whom the document does not name it says nothing of. */
		assert_false(policy_of(config, "users", "m").enabled);
		assert_int_equal(policy_of(config, "users", NULL).retry_on, REA_RETRY_ON_DEFAULT);
		rea_config_unref(config);
	}
}

static void keys_of_contracts(void **state)
{
	struct rea_config *config = put_good(PLAIN
	    "contracts: {users: {context: user-api, operations: [{get: /u/1, id: get_one, retryable: true},\n"
	    "{get: /u, id: all, retryable: true}]}}\n",
	    "shop.users.retry", "{\"get_one\": " FAILURE("\"max_retry_times\": 2", "") "}");
	const struct rea_config_service *users = rea_config_find_service(config, "users", 5);

	(void)state;
	assert_string_equal(rea_contract_operation(users->contract, 0)->key, "user-api_get_one");
	assert_true(users->operation_policies[0]->enabled);
	assert_int_equal(users->operation_policies[0]->max_retry_next_instance, 2);
	assert_false(users->operation_policies[1]->enabled);
	assert_true(policy_of(config, "users", "user-api_get_one").enabled);
	rea_config_unref(config);
}

static void our_own_documents_stand_above(void **state)
{
	static const char own[] = PLAIN
	    "rpc:\n  feign:\n    retry:\n      min-backoff-ms: 70\n      max-backoff-ms: 500\n      service-configs:\n"
	    "        users: {max-retry-next-instance: 2, method-configs: {get: {deadline-ms: 1500}, echo: {enabled: "
	    "true}}}\n"
	    "        pay: {enabled: true, method-configs: {get: {deadline-ms: 1700}}}\n";
	struct rea_config *config = put_good(own, NAME, manual), *again;
	struct rea_policy p = policy_of(config, "users", "get");
	struct rea_error_info info;

	(void)state;
	assert_true(p.enabled);
	assert_int_equal(p.max_retry_next_instance, 2);
	assert_true(p.deadline_ns == 1500 * MS);
	assert_true(p.min_backoff_ns == 70 * MS);
	assert_true(p.max_backoff_ns == 500 * MS);
	assert_true(p.backoff_multiplier == 1);
	assert_true(policy_of(config, "users", "list").deadline_ns == 2000 * MS);
	assert_true(policy_of(config, "users", "echo").enabled);
	assert_int_equal(policy_of(config, "pay", "get").deadline_ns, 1700 * MS);
	/* Without it all is as the document of the base has it; with the next one nothing of the last is left. */
	assert_int_equal(rea_config_with_policy(config, NAME, "{}", 2, NULL, &again, &info), 0);
	rea_config_unref(config);
	assert_false(policy_of(again, "users", "list").enabled);
	assert_true(policy_of(again, "users", "list").deadline_ns == 3000 * MS);
	assert_int_equal(policy_of(again, "users", "get").deadline_ns, 1500 * MS);
	rea_config_unref(again);
	/* The master switch is one of ours. */
	config = put_good(PLAIN "rpc: {feign: {retry: {enabled: false}}}\n", NAME, manual);
	assert_false(policy_of(config, "users", "get").enabled);
	assert_true(rea_config_settings(config)->tasks.retries_off);
	rea_config_unref(config);
}

static void what_does_not_fit_with_ours_is_refused(void **state)
{
	struct rea_config *config = NULL;
	struct rea_error_info info;

	(void)state;
	assert_int_equal(put(PLAIN "rpc: {feign: {retry: {attempt-timeout-ms: 2500}}}\n", NAME, manual, &config, &info),
	    REA_ERR_INVALID);
	assert_string_equal(info.message,
	    "with " NAME ": attempt-timeout-ms is 2500; it must be above 0 and at most 2000 (deadline-ms)");
}

static void which_service(void **state)
{
	static const char base[] = "services: {users: {instances: []}, eu.users: {instances: []}}\n";
	static const struct {
		const char *name, *service;
	} rows[] = {{"shop.users.retry", "users"}, {"/etc/x.y/shop.eu.users.retry", "eu.users"},
	    {"etcd /k/a.b.c.users.retry", "users"}, {"eu.users.retry", "users"}};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct rea_config *config =
		    put_good(base, rows[i].name, "{\"*\": " FAILURE("\"max_retry_times\": 2", "") "}");

		assert_int_equal(policy_of(config, "users", NULL).enabled, strcmp(rows[i].service, "users") == 0);
		assert_int_equal(policy_of(config, "eu.users", NULL).enabled, strcmp(rows[i].service, "users") != 0);
		rea_config_unref(config);
	}
}

static void refusals(void **state)
{
	static const struct {
		const char *name, *text;
		uint32_t line, column;
		const char *key, *message;
	} rows[] = {
	    {"shop.user.retry", "{}", 1, 1, "",
		"its name, Client.Server.retry as Kitex has it, has no service of rea.yaml for the Server"},
	    {NAME, "[]", 1, 1, "", "a retry document of Kitex is an object: {\"*\": {\"enable\": true, …}}"},
	    {NAME, "{\"a\": 1}", 1, 7, "a", "expected an object with enable, type and failure_policy, got \"1\""},
	    {NAME, "rpc: {feign: {}}", 1, 6, "rpc",
		"a method needs enable: true or false. A document of this name is read as Kitex writes it"},
	    {NAME, "{\"a\": {\"enable\": 7}}", 1, 18, "a.enable", "expected true or false, got \"7\""},
	    {NAME, "{\"a\": {\"enable\": true,\n\"type\": 3}}", 2, 9, "a.type",
		"expected a whole number from 0 to 2, got \"3\""},
	    {NAME, "{\"a\": {\"enable\": true}}", 1, 7, "a", "this type needs failure_policy"},
	    {NAME, "{\"a\": {\"enable\": true, \"type\": 2, \"failure_policy\": {}}}", 1, 7, "a",
		"this type needs mixed_policy"},
	    {NAME, "{\"a\": {\"enable\": true, \"failure_policy\": []}}", 1, 42, "a.failure_policy",
		"expected an object, got a list"},
	    {NAME, "{\"a\": " FAILURE("\"max_retry_times\": 6", "") "}", 1, 89,
		"a.failure_policy.stop_policy.max_retry_times", "expected a number from 0 to 5, got \"6\""},
	    {NAME, "{\"a\": " FAILURE("\"max_retry_times\": -1", "") "}", 1, 89,
		"a.failure_policy.stop_policy.max_retry_times", "expected a number from 0 to 5, got \"-1\""},
	    {NAME, "{\"a\": " FAILURE("\"max_retry_times\": 1.5", "") "}", 1, 89,
		"a.failure_policy.stop_policy.max_retry_times", "expected a whole number of retries, got \"1.5\""},
	    {NAME, "{\"a\": " FAILURE("\"max_retry_times\": 1", ",\n\"backoff_policy\": {\"backoff_type\": \"fixed\"}") "}",
		2, 19, "a.failure_policy.backoff_policy", "this backoff_type needs cfg_items with fix_ms"},
	    {NAME, "{\"a\": " FAILURE("\"max_retry_times\": 1", ",\n\"backoff_policy\": {\"backoff_type\": \"slow\"}") "}",
		2, 36, "a.failure_policy.backoff_policy.backoff_type", "expected none, fixed or random, got \"slow\""},
	    {NAME, "{\"a\": " FAILURE("\"max_retry_times\": 1", ",\n\"backoff_policy\": {\"backoff_type\": \"random\", \"cfg_items\": {\"min_ms\": 9, \"max_ms\": 8}}") "}",
		2, 83, "a.failure_policy.backoff_policy.cfg_items.max_ms", "max_ms is less than min_ms"},
	    {NAME,
		"{\"a\": " FAILURE("\"max_retry_times\": 1",
		    ",\n\"backoff_policy\": {\"backoff_type\": \"fixed\", \"cfg_items\": {\"fix_ms\": 1e308}}") "}",
		2, 69, "a.failure_policy.backoff_policy.cfg_items.fix_ms",
		"expected a number from 0 to 3600000, got \"1e308\""},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct rea_config *config = NULL;
		struct rea_error_info info;

		if (put(PLAIN, rows[i].name, rows[i].text, &config, &info) != REA_ERR_INVALID)
			fail_msg("not refused: %s", rows[i].text);
		assert_string_equal(info.message, rows[i].message);
		assert_string_equal(info.file, rows[i].name);
		assert_string_equal(info.key, rows[i].key);
		if (info.line != rows[i].line || info.column != rows[i].column)
			fail_msg("at %u:%u, not %u:%u: %s", info.line, info.column, rows[i].line, rows[i].column,
			    rows[i].text);
	}
}

static void a_source_needs_its_service(void **state)
{
	static const struct refusal rows[] = {
	    {PLAIN "sources:\n  policy:\n    - file: /etc/shop.user.retry\n", REA_ERR_INVALID, 4, 1,
		"", "\"/etc/shop.user.retry\" is a name as Kitex has it, Client.Server.retry, and no service here is its Server"},
	};
	struct rea_config *config =
	    parse(PLAIN "sources:\n  policy:\n    - file: /etc/shop.users.retry\n    - file: rpc-retry.yml\n"
			"    - file: /a.b/users.retry\n");

	(void)state;
	CHECK_REFUSALS(rows);
	assert_true(rea_config_settings(config)->sources.policy[0].kitex);
	assert_false(rea_config_settings(config)->sources.policy[1].kitex);
	assert_false(rea_config_settings(config)->sources.policy[2].kitex);
	rea_config_unref(config);
}

/* ---- bundles ---- */

#define OWN "rpc: {feign: {retry: {enabled: true}}}\n"
#define NONE "{\"*\": {\"enable\": false}}"
#define LIST "{\"list\": {\"enable\": false}}\n"

static void bundles(void **state)
{
	struct rea_config *config = put_good(PLAIN "rpc: {feign: {retry: {deadline-ms: 9000}}}\n", "a bundle",
	    "\x1e"
	    "39 rpc-retry.yml\n" OWN "24 shop.pay.retry\n" NONE "28 shop.users.retry\n" LIST "2 shop.gone.retry\n{}");

	(void)state;
	/* `rpc` of the bundle in place of the base's, above all of Kitex. */
	assert_true(policy_of(config, "users", "get").enabled);
	assert_true(policy_of(config, "users", "list").enabled);
	assert_true(policy_of(config, "pay", NULL).enabled);
	assert_true(policy_of(config, "users", NULL).deadline_ns == 3000 * MS);
	rea_config_unref(config);
	config = put_good(PLAIN "rpc: {feign: {retry: {deadline-ms: 9000}}}\n", "", "\x1e");
	assert_true(policy_of(config, "users", NULL).deadline_ns == 9000 * MS);
	rea_config_unref(config);
	config = put_good(PLAIN "rpc: {feign: {retry: {deadline-ms: 9000}}}\n", "",
	    "\x1e"
	    "28 shop.users.retry\n" LIST);
	assert_true(policy_of(config, "users", "list").deadline_ns == 9000 * MS);
	rea_config_unref(config);
}

static void bundles_that_are_none(void **state)
{
	static const char *const rows[] = {"\x1e\n",
	    "\x1e"
	    "3 a\n{}",
	    "\x1e"
	    "2a\n{}",
	    "\x1e"
	    "x a\n{}",
	    "\x1e"
	    " a\n",
	    "\x1e"
	    "2 a\n{}{}",
	    "\x1e"
	    "18446744073709551615 a\n{}",
	    "\x1e"
	    "0 a\n0 a\n0 a\n0 a\n0 a\n0 a\n0 a\n0 a\n0 a\n0 a\n"};
	struct rea_config *config = NULL;
	struct rea_error_info info;

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		assert_int_equal(put(PLAIN, "b", rows[i], &config, &info), REA_ERR_INVALID);
		assert_string_equal(info.message, "this is no bundle of documents");
	}
	assert_int_equal(put(PLAIN, "b",
			     "\x1e"
			     "2 a.users.retry\n{}3 b.users.retry\n{}\n",
			     &config, &info),
	    REA_ERR_INVALID);
	assert_string_equal(info.message, "a.users.retry is of the service users as well");
	assert_string_equal(info.file, "b.users.retry");
}

/* ---- explain, changes ---- */

static void collect(const char *text, size_t length, void *user_data)
{
	char *out = user_data;
	size_t used = strlen(out);

	if (used + length < 16000) {
		memcpy(out + used, text, length);
		out[used + length] = '\0';
	}
}

static void explain_names_the_document(void **state)
{
	struct rea_config *config = put_good(PLAIN "rpc: {feign: {retry: {min-backoff-ms: 30}}}\n", NAME, manual);
	char out[16000] = "";

	(void)state;
	assert_int_equal(rea_config_explain(config, "users", "get", collect, out, NULL), 0);
	assert_non_null(strstr(out, "  enabled                   true          " NAME ", line 2\n"));
	assert_non_null(strstr(out, "  deadline-ms               2000          " NAME ", line 3\n"));
	assert_non_null(strstr(out, "  min-backoff-ms            30            global, line 2\n"));
	out[0] = '\0';
	assert_int_equal(rea_config_explain(config, "users", "echo", collect, out, NULL), 0);
	assert_non_null(strstr(out, "attempts: 1 attempt, no retries: enabled is false (" NAME
				    ", line 7: type 1, backup requests, which rea does not send)\n"));
	out[0] = '\0';
	assert_int_equal(rea_config_explain(config, NULL, NULL, collect, out, NULL), 0);
	assert_non_null(strstr(out, "\nbelow rpc, for calls of users: " NAME "\n"));
	rea_config_unref(config);
}

static void tell_change(enum rea_config_change kind, const char *text, void *user_data)
{
	(void)kind;
	collect(text, strlen(text), user_data);
	collect("\n", 1, user_data);
}

static void changes_are_named(void **state)
{
	struct rea_config *base = parse(PLAIN), *config = NULL;
	struct rea_error_info info;
	size_t counts[REA_CONFIG_CHANGES];
	char out[16000] = "";

	(void)state;
	assert_int_equal(rea_config_with_policy(base, NAME, manual, strlen(manual), NULL, &config, &info), 0);
	rea_config_compare(base, config, 20, tell_change, out, counts);
	assert_string_equal(out, "users, every method without settings of its own (policy)\n"
				 "users, every gRPC method without settings of its own (policy)\n");
	rea_config_unref(config);
	rea_config_unref(base);
}

/* ---- memory ---- */

static void out_of_memory(void **state)
{
	static const char text[] = "\x1e"
				   "28 shop.users.retry\n" LIST "39 rpc-retry.yml\n" OWN;
	struct rea_config *base = parse(
			      PLAIN "rpc: {feign: {retry: {service-configs: {pay: {method-configs: {a: {}}}}}}}\n"),
			  *config;
	struct rea_error_info info;
	struct fail_alloc failing;

	(void)state;
	for (int which = 0; which < 2; which++) {
		for (size_t n = 0;; n++) {
			int error;

			fail_alloc_init(&failing, n, which > 0);
			error = rea_config_with_policy(base, NAME, which ? text : manual,
			    which ? sizeof(text) - 1 : sizeof(manual) - 1, &failing.alloc, &config, &info);

			if (error == 0)
				break;
			assert_int_equal(error, REA_ERR_NOMEM);
			assert_int_equal(failing.live, 0);
		}
		rea_config_unref(config);
	}
	rea_config_unref(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_value),
	    cmocka_unit_test(bounds_and_kinds),
	    cmocka_unit_test(keys_of_contracts),
	    cmocka_unit_test(our_own_documents_stand_above),
	    cmocka_unit_test(what_does_not_fit_with_ours_is_refused),
	    cmocka_unit_test(which_service),
	    cmocka_unit_test(refusals),
	    cmocka_unit_test(a_source_needs_its_service),
	    cmocka_unit_test(bundles),
	    cmocka_unit_test(bundles_that_are_none),
	    cmocka_unit_test(explain_names_the_document),
	    cmocka_unit_test(changes_are_named),
	    cmocka_unit_test(out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
