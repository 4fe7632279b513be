/* Services, their names and instances. */
#include "refusal.h"

#define FIND(config, authority) rea_config_find_host(config, authority, strlen(authority))

static void every_key(void **state)
{
	struct rea_config *config = parse("services:\n"
					  "  user-service:\n"
					  "    hosts: [users.internal, 'users.internal:8443', '[::1]']\n"
					  "    host: users.example\n"
					  "    balance: listed\n"
					  "    protocol: h2\n"
					  "    ejection: false\n"
					  "    instances:\n"
					  "      - 127.0.0.1:9001\n"
					  "      - {address: 'users-2:9002', weight: 1000, host: b.example:80}\n"
					  "      - address: '[::1]:9003'\n"
					  "  pay:\n"
					  "    instances: []\n");
	const struct rea_config_service *s = rea_config_find_service(config, "user-service", 12),
					*pay = rea_config_service(config, 1);

	(void)state;
	assert_int_equal(rea_config_services_count(config), 2);
	assert_null(rea_config_service(config, 2));
	assert_ptr_equal(s, rea_config_service(config, 0));
	assert_int_equal(s->index, 0);
	assert_int_equal(s->line, 2);
	assert_int_equal(s->hosts_len, 3);
	assert_string_equal(s->hosts[1], "users.internal:8443");
	assert_string_equal(s->host, "users.example");
	assert_int_equal(s->balance, REA_BALANCE_LISTED);
	assert_int_equal(s->protocol, REA_PROTOCOL_H2);
	assert_false(s->ejection);
	assert_int_equal(s->instances_len, 3);
	assert_string_equal(s->instances[0].address, "127.0.0.1:9001");
	assert_int_equal(s->instances[0].weight, 1);
	assert_null(s->instances[0].host);
	assert_int_equal(s->instances[0].line, 9);
	assert_string_equal(s->instances[1].address, "users-2:9002");
	assert_int_equal(s->instances[1].weight, 1000);
	assert_string_equal(s->instances[1].host, "b.example:80");
	assert_string_equal(s->instances[2].address, "[::1]:9003");
	assert_string_equal(pay->name, "pay");
	assert_int_equal(pay->instances_len, 0);
	assert_int_equal(pay->balance, REA_BALANCE_LEAST_LOADED);
	assert_int_equal(pay->protocol, REA_PROTOCOL_HTTP1);
	assert_true(pay->ejection);
	assert_null(pay->host);
	assert_null(pay->contract);
	rea_config_unref(config);
}

static void attempts_that_its_instances_allow(void **state)
{
	static const struct {
		const char *instances;
		uint32_t same, next, stop, cycle;
	} cases[] = {
	    {"['127.0.0.1:1', '127.0.0.1:2', '[::1]:3']", 0, 1, 2, 2},
	    {"['127.0.0.1:1', '127.0.0.1:2', '[::1]:3']", 0, 2, 3, 3},
	    {"['127.0.0.1:1', '127.0.0.1:2', '[::1]:3']", 0, 3, 3, 4},
	    {"['127.0.0.1:1', '127.0.0.1:2', '[::1]:3']", 1, 3, 6, 4}, {"['127.0.0.1:1']", 0, 1, 1, 1},
	    {"['127.0.0.1:1']", 2, 1, 3, 1}, {"['127.0.0.1:1', 'users.internal:2']", 0, 4, 5, 5}, /* it may stand for many */
	    {"[]", 0, 1, 2, 2},                                                                   /* none as yet */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[256];
		struct rea_config *config;
		struct rea_policy policy;

		snprintf(text, sizeof(text), "services: {users: {instances: %s}}\n", cases[i].instances);
		config = parse(text);
		rea_policy_defaults(&policy);
		policy.max_retry_same_instance = cases[i].same;
		policy.max_retry_next_instance = cases[i].next;
		assert_int_equal(rea_config_attempts(rea_config_service(config, 0), &policy), cases[i].stop);
		policy.when_all_tried = REA_ALL_TRIED_CYCLE;
		assert_int_equal(rea_config_attempts(rea_config_service(config, 0), &policy), cases[i].cycle);
		rea_config_unref(config);
	}
}

static void by_authority(void **state)
{
	struct rea_config *config = parse("services:\n"
					  "  Users: {hosts: [users.internal, '[::1]'], instances: []}\n"
					  "  pay: {hosts: ['users.internal:8443'], instances: []}\n");
	const struct rea_config_service *users = rea_config_service(config, 0), *pay = rea_config_service(config, 1);
	char longest[400];

	(void)state;
	assert_ptr_equal(FIND(config, "users"), users);
	assert_ptr_equal(FIND(config, "USERS:80"), users);
	assert_ptr_equal(FIND(config, "users:"), users); /* an empty port is a port left out */
	assert_ptr_equal(FIND(config, "Users.Internal"), users);
	assert_ptr_equal(FIND(config, "users.internal:80"), users);
	assert_ptr_equal(FIND(config, "users.internal:8443"), pay);
	assert_ptr_equal(FIND(config, "[::1]"), users);
	assert_ptr_equal(FIND(config, "[::1]:80"), users);
	assert_null(FIND(config, "::1"));
	assert_null(FIND(config, ""));
	assert_null(FIND(config, ":80"));
	assert_null(FIND(config, "users.internal:8x"));
	assert_null(FIND(config, "other"));
	/* By name it is exact. */
	assert_null(rea_config_find_service(config, "users", 5));
	memset(longest, 'a', sizeof(longest));
	assert_null(rea_config_find_host(config, longest, sizeof(longest)));
	rea_config_unref(config);
}

/* A name that leads to its own service says nothing new. */
static void own_name_among_hosts(void **state)
{
	struct rea_config *config = parse("services: {users: {hosts: [users, Users, a.b, A.b], instances: []}}\n");

	(void)state;
	assert_ptr_equal(FIND(config, "a.b"), rea_config_service(config, 0));
	rea_config_unref(config);
}

static const struct refusal refusals[] = {
    {"services: [a]\n", REA_ERR_INVALID, 1, 11, "services", "expected a mapping of keys to values, got a list"},
    {"services: {a/b: {instances: []}}\n", REA_ERR_INVALID, 1, 12,
	"services.a/b", "the name of a service is made of letters, digits, \"-\", \"_\" and \".\", since it stands in paths and in Host"},
    {"services: {..: {instances: []}}\n", REA_ERR_INVALID, 1, 12,
	"services...", "the name of a service is made of letters, digits, \"-\", \"_\" and \".\", since it stands in paths and in Host"},
    {"services: {users: {}}\n", REA_ERR_INVALID, 1, 12, "services.users",
	"the service users has no `instances`, nor `instances-file`, `dns`, `nacos` or `etcd` to find them by"},
    {"services: {users: }\n", REA_ERR_INVALID, 1, 12, "services.users",
	"the service users has no `instances`, nor `instances-file`, `dns`, `nacos` or `etcd` to find them by"},
    {"services: {users: {instances: }}\n", REA_ERR_INVALID, 1, 31, "services.users.instances",
	"expected a list of instances, got nothing"},
    {"services: {users: {instances: 127.0.0.1:1}}\n", REA_ERR_INVALID, 1, 31, "services.users.instances",
	"expected a list of instances, got \"127.0.0.1:1\""},
    {"services: {users: {instances: [127.0.0.1]}}\n", REA_ERR_INVALID, 1, 32, "services.users.instances[0]",
	"expected an address and a port such as 127.0.0.1:9001, [::1]:9001 or users-1:9001, got \"127.0.0.1\""},
    {"services: {users: {instances: [\"127.0.0.1:0\"]}}\n", REA_ERR_INVALID, 1, 32, "services.users.instances[0]",
	"expected an address and a port such as 127.0.0.1:9001, [::1]:9001 or users-1:9001, got \"127.0.0.1:0\""},
    {"services: {users: {instances: [1.2.3:80]}}\n", REA_ERR_INVALID, 1, 32, "services.users.instances[0]",
	"expected an address and a port such as 127.0.0.1:9001, [::1]:9001 or users-1:9001, got \"1.2.3:80\""},
    {"services: {users: {instances: [[x]]}}\n", REA_ERR_INVALID, 1, 32, "services.users.instances[0]",
	"expected a mapping of keys to values, got a list"},
    {"services: {users: {instances: [{weight: 2}]}}\n", REA_ERR_INVALID, 1, 32, "services.users.instances[0]",
	"an instance needs an `address`"},
    {"services: {users: {instances: [{address: 127.0.0.1:1, weight: 0}]}}\n", REA_ERR_INVALID, 1, 63,
	"services.users.instances[0].weight", "expected a whole number from 1 to 1000, got \"0\""},
    {"services: {users: {instances: [{address: 127.0.0.1:1, wieght: 1}]}}\n", REA_ERR_INVALID, 1, 55,
	"services.users.instances[0].wieght", "an instance has no key \"wieght\"; did you mean weight?"},
    {"services: {users: {instances: [{address: 127.0.0.1:1, host: a b}]}}\n", REA_ERR_INVALID, 1, 61,
	"services.users.instances[0].host", "expected a host such as users.internal, with or without a port, got \"a b\""},
    {"services: {users: {instances: [127.0.0.1:1, {address: 127.0.0.1:1}]}}\n", REA_ERR_INVALID, 1, 45,
	"services.users.instances[1]", "the instance 127.0.0.1:1 is listed twice; the first is on line 1"},
    {"services: {users: {instances: [], protocol: h3}}\n", REA_ERR_INVALID, 1, 45, "services.users.protocol",
	"expected http1 or h2, got \"h3\"; did you mean h2?"},
    {"services: {users: {instances: [], balance: random}}\n", REA_ERR_INVALID, 1, 44, "services.users.balance",
	"expected least-loaded or listed, got \"random\""},
    {"services: {users: {instances: [], host: \"a/b\"}}\n", REA_ERR_INVALID, 1, 41, "services.users.host",
	"expected a host such as users.internal, with or without a port, got \"a/b\""},
    {"services: {users: {instances: [], hosts: users}}\n", REA_ERR_INVALID, 1, 42, "services.users.hosts",
	"expected a list of hosts, got \"users\""},
    {"services: {users: {instances: [], hosts: [\"a b\"]}}\n", REA_ERR_INVALID, 1, 43, "services.users.hosts[0]",
	"expected a host such as users.internal, with or without a port, got \"a b\""},
    {"services: {users: {instances: [], hosts: [pay]}, pay: {instances: []}}\n", REA_ERR_INVALID, 1, 43,
	"services.users.hosts[0]", "pay already leads to the service pay"},
    {"services: {users: {instances: []}, Users: {instances: []}}\n", REA_ERR_INVALID, 1, 36, "services.Users",
	"the names of services must differ in more than case, since hosts do not; there is already users"},
    {"services: {users: {instances: [], hosts: [a.b]}, pay: {instances: [], hosts: [A.B]}}\n", REA_ERR_INVALID, 1, 79,
	"services.pay.hosts[0]", "A.B already leads to the service users"},
    {"services: {users: {instances: [], port: 1}}\n", REA_ERR_INVALID, 1, 35, "services.users.port",
	"a service has no key \"port\""},
};

static void refused(void **state)
{
	(void)state;
	CHECK_REFUSALS(refusals);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_key),
	    cmocka_unit_test(attempts_that_its_instances_allow),
	    cmocka_unit_test(by_authority),
	    cmocka_unit_test(own_name_among_hosts),
	    cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
