/* Where instances are found and providers made known: what the document may say of it. */
#include "refusal.h"

#include "../fail_alloc.h"

#define SHARED                                                                                                         \
	"sources:\n"                                                                                                   \
	"  nacos: {servers: ['n1:8848', 'https://n2:8848'], namespace: blue, username: u, password: p, context-path: " \
	"/, "                                                                                                          \
	"mode: v3, poll-ms: 2000}\n"                                                                                   \
	"  etcd: {servers: [127.0.0.1:2379], ca-file: ca.pem}\n"                                                       \
	"  dns: {servers: ['127.0.0.1:53', '[::1]:5353']}\n"

static struct rea_config *load_text(const char *text)
{
	struct rea_config *config;
	struct rea_error_info info;

	if (rea_config_parse("rea.yaml", text, strlen(text), NULL, &config, &info) != 0)
		fail_msg("%u:%u: %s: %s", info.line, info.column, info.key, info.message);
	return config;
}

static const struct rea_config_discovery *found(const struct rea_config *config, const char *service)
{
	return &rea_config_find_service(config, service, strlen(service))->discovery;
}

static void every_place(void **state)
{
	struct rea_config *config =
	    load_text(SHARED "services:\n"
			     "  list: {instances: ['a:1']}\n"
			     "  file: {instances-file: a.json, empty-grace-ms: 0}\n"
			     "  dns: {dns: {name: users.internal, port: 80}}\n"
			     "  srv: {dns: {name: _http._tcp.users.internal, srv: true}}\n"
			     "  nacos: {nacos: {}}\n"
			     "  nacos2: {nacos: {service: s, group: G, namespace: public, clusters: 'a,b'}}\n"
			     "  etcd: {etcd: {prefix: /s/}}\n");
	const struct rea_config_settings *settings = rea_config_settings(config);

	(void)state;
	assert_int_equal(found(config, "list")->kind, REA_DISCOVERY_LIST);
	assert_int_equal(found(config, "list")->empty_grace_ms, 60000);
	assert_int_equal(found(config, "file")->kind, REA_DISCOVERY_FILE);
	assert_string_equal(found(config, "file")->name, "a.json");
	assert_int_equal(found(config, "file")->empty_grace_ms, 0);
	assert_int_equal(found(config, "dns")->kind, REA_DISCOVERY_DNS);
	assert_string_equal(found(config, "dns")->name, "users.internal");
	assert_int_equal(found(config, "dns")->port, 80);
	assert_string_equal(found(config, "srv")->name, "_http._tcp.users.internal");
	assert_int_equal(found(config, "srv")->port, 0);
	assert_int_equal(found(config, "nacos")->kind, REA_DISCOVERY_NACOS);
	assert_string_equal(found(config, "nacos")->name, "nacos");
	assert_string_equal(found(config, "nacos")->group, "DEFAULT_GROUP");
	assert_string_equal(found(config, "nacos")->namespace_id, "blue");
	assert_string_equal(found(config, "nacos")->clusters, "");
	assert_string_equal(found(config, "nacos2")->name, "s");
	assert_string_equal(found(config, "nacos2")->group, "G");
	assert_string_equal(found(config, "nacos2")->namespace_id, "");
	assert_string_equal(found(config, "nacos2")->clusters, "a,b");
	assert_int_equal(found(config, "etcd")->kind, REA_DISCOVERY_ETCD);
	assert_string_equal(found(config, "etcd")->name, "/s/");
	assert_int_equal(settings->sources.nacos->servers_len, 2);
	assert_string_equal(settings->sources.nacos->servers[1], "https://n2:8848");
	assert_string_equal(settings->sources.nacos->context_path, "");
	assert_int_equal(settings->sources.nacos->mode, REA_NACOS_V3);
	assert_int_equal(settings->sources.nacos->poll_ms, 2000);
	assert_string_equal(settings->sources.etcd->ca_file, "ca.pem");
	assert_int_equal(settings->sources.dns_servers_len, 2);
	assert_string_equal(settings->sources.dns_servers[1], "[::1]:5353");
	rea_config_unref(config);
}

/* A policy without servers of its own asks those that all share, and has its own all the same where it says so. */
static void policies_share_servers(void **state)
{
	struct rea_config *config =
	    load_text(SHARED "  policy:\n    - nacos: {data-id: a, mode: v1}\n    - etcd: {key: /k}\n"
			     "    - nacos: {data-id: b, servers: [own:1]}\n");
	const struct rea_config_source *sources = rea_config_settings(config)->sources.policy;

	(void)state;
	assert_int_equal(sources[0].servers_len, 2);
	assert_string_equal(sources[0].username, "u");
	assert_string_equal(sources[0].namespace_id, "blue");
	assert_int_equal(sources[0].mode, REA_NACOS_V1);
	assert_int_equal(sources[0].poll_ms, 2000);
	assert_string_equal(sources[1].servers[0], "http://127.0.0.1:2379");
	assert_string_equal(sources[1].ca_file, "ca.pem");
	assert_int_equal(sources[2].servers_len, 1);
	assert_null(sources[2].username);
	rea_config_unref(config);
}

static void registrations(void **state)
{
	struct rea_config *config =
	    load_text(SHARED "services: {users: {instances: []}}\n"
			     "register:\n"
			     "  - {in: nacos, service: users, address: '10.0.0.7:9001'}\n"
			     "  - {in: etcd, service: u2, address: '[::1]:1', weight: 0.5, prefix: /p/, ttl-s: 300, "
			     "contract: users, metadata: {a: b, c: 7}}\n");
	const struct rea_config_settings *settings = rea_config_settings(config);
	const struct rea_config_registration *items = settings->registrations;

	(void)state;
	assert_int_equal(settings->registrations_len, 2);
	assert_int_equal(items[0].in, REA_SOURCE_NACOS);
	assert_string_equal(items[0].service, "users");
	assert_string_equal(items[0].address, "10.0.0.7:9001");
	assert_true(items[0].weight == 1);
	assert_string_equal(items[0].group, "DEFAULT_GROUP");
	assert_string_equal(items[0].cluster, "DEFAULT");
	assert_null(items[0].contract);
	assert_int_equal(items[0].metadata_len, 0);
	assert_int_equal(items[1].in, REA_SOURCE_ETCD);
	assert_true(items[1].weight == 0.5);
	assert_string_equal(items[1].prefix, "/p/");
	assert_int_equal(items[1].ttl_s, 300);
	assert_string_equal(items[1].contract, "users");
	assert_int_equal(items[1].metadata_len, 2);
	assert_string_equal(items[1].metadata[1].name, "c");
	assert_string_equal(items[1].metadata[1].value, "7");
	rea_config_unref(config);
}

#define S "services:\n  s: "
#define R SHARED "register:\n  - "

static void refusals(void **state)
{
	static const struct refusal table[] = {
	    {S "{}\n", REA_ERR_INVALID, 2, 3, "services.s",
		"the service s has no `instances`, nor `instances-file`, `dns`, `nacos` or `etcd` to find them by"},
	    {S "{instances: [], dns: {name: a, port: 1}}\n", REA_ERR_INVALID, 2, 22, "services.s.dns",
		"the instances of s come from one place: `dns` stands here as well as `instances`"},
	    {S "{nacos: {}}\n", REA_ERR_INVALID, 2, 14, "services.s.nacos",
		"nacos needs `sources.nacos`, which says which servers are asked"},
	    {S "{etcd: {prefix: /a}}\n", REA_ERR_INVALID, 2, 13, "services.s.etcd",
		"etcd needs `sources.etcd`, which says which servers are asked"},
	    {SHARED S "{etcd: {}}\n", REA_ERR_INVALID, 6, 13, "services.s.etcd", "etcd needs a `prefix`"},
	    {S "{dns: {port: 1}}\n", REA_ERR_INVALID, 2, 12, "services.s.dns", "dns needs a `name`"},
	    {S "{dns: {name: a}}\n", REA_ERR_INVALID, 2, 12,
		"services.s.dns", "dns needs a `port` for the addresses of the name, or `srv: true` where the records say the ports; one of the two"},
	    {S "{dns: {name: a, port: 1, srv: true}}\n", REA_ERR_INVALID, 2, 12,
		"services.s.dns", "dns needs a `port` for the addresses of the name, or `srv: true` where the records say the ports; one of the two"},
	    {S "{dns: {name: a, port: 65536}}\n", REA_ERR_INVALID, 2, 28, "services.s.dns.port",
		"expected a whole number from 1 to 65535, got \"65536\""},
	    {S "{dns: {name: 'a b', port: 1}}\n", REA_ERR_INVALID, 2, 19, "services.s.dns.name",
		"expected a name such as users.internal or _http._tcp.users.internal, got \"a b\""},
	    {S "{instances-file: []}\n", REA_ERR_INVALID, 2, 23, "services.s.instances-file",
		"expected the path of a file, got a list"},
	    {"sources: {nacos: {}}\n", REA_ERR_INVALID, 1, 18, "sources.nacos", "sources.nacos needs `servers`"},
	    {"sources: {dns: {servers: []}}\n", REA_ERR_INVALID, 1, 26, "sources.dns.servers",
		"from 1 to 8 servers can be asked"},
	    {SHARED "  policy: [{nacos: {data-id: a, username: x, password: y}}]\n", REA_ERR_INVALID, 5, 20,
		"sources.policy[0].nacos",
		"`username`, `password` and `ca-file` belong to `servers`: they stand beside them in sources.nacos"},
	    {"sources: {policy: [{etcd: {key: a}}]}\n", REA_ERR_INVALID, 1, 27, "sources.policy[0].etcd",
		"etcd needs `servers`, here or in sources.etcd"},
	    {R "{service: s, address: '1.1.1.1:1'}\n", REA_ERR_INVALID, 6, 5, "register[0]",
		"a registration needs `in`, `service` and `address`"},
	    {R "{in: nacos, service: s, address: '1.1.1.1:0'}\n", REA_ERR_INVALID, 6, 38, "register[0].address",
		"a provider needs a port: 0 is none"},
	    {R "{in: nacos, service: s, address: '1.1.1.1:1', weight: 0}\n", REA_ERR_INVALID, 6, 59,
		"register[0].weight", "expected a number above 0 and at most 10000, got \"0\""},
	    {R "{in: nacos, service: s, address: '1.1.1.1:1', contract: x}\n", REA_ERR_INVALID, 6, 61,
		"register[0].contract", "there is no service x, so it has no contract to tell"},
	    {"register:\n  - {in: etcd, service: s, address: '1.1.1.1:1'}\n", REA_ERR_INVALID, 2, 5, "register[0]",
		"a registration in etcd needs `sources.etcd`, which says which servers are told"},
	};

	(void)state;
	CHECK_REFUSALS(table);
}

static void without_memory(void **state)
{
	static const char text[] =
	    SHARED "services: {a: {nacos: {}}, b: {dns: {name: x, port: 1}}, c: {etcd: {prefix: /p}}}\n"
		   "register: [{in: nacos, service: a, address: '1.1.1.1:1', contract: b, metadata: {x: y}}]\n";

	(void)state;
	for (size_t allowed = 0;; allowed++) {
		struct rea_config *config = NULL;
		struct rea_error_info info;
		struct fail_alloc fail;
		int error;

		fail_alloc_init(&fail, allowed, false);
		error = rea_config_parse("rea.yaml", text, sizeof(text) - 1, &fail.alloc, &config, &info);
		if (error == 0) {
			assert_true(allowed > 3);
			rea_config_unref(config);
			assert_int_equal(fail.live, 0);
			return;
		}
		assert_int_equal(error, REA_ERR_NOMEM);
		assert_int_equal(fail.live, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_place),
	    cmocka_unit_test(policies_share_servers),
	    cmocka_unit_test(registrations),
	    cmocka_unit_test(refusals),
	    cmocka_unit_test(without_memory),
	};

	return cmocka_run_group_tests_name("discovery", tests, NULL, NULL);
}
