/* Lists as registries, files and DNS write them, good and bad, and every byte that a registry is told of a provider. */
#include "discovery/naming_wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct roster_list list;

static int fini(void **state)
{
	(void)state;
	roster_list_fini(&list);
	return 0;
}

static void assert_entry(size_t index, const char *name, uint16_t port, uint32_t weight)
{
	assert_true(index < list.len);
	assert_string_equal(list.items[index].name, name);
	assert_int_equal(list.items[index].port, port);
	assert_int_equal(list.items[index].weight, weight);
}

static void nacos_v1(void **state)
{
	uint64_t cache_ms;

	(void)state;
	assert_int_equal(
	    naming_read_nacos_v1(
		rea_slice_of("{\"cacheMillis\":10000,\"reachProtectionThreshold\":true,\"hosts\":["
			     "{\"ip\":\"10.0.0.2\",\"port\":80,\"weight\":2.5,\"healthy\":true,\"enabled\":true,"
			     "\"metadata\":{\"rea.retryable\":\"a\"}},"
			     "{\"ip\":\"10.0.0.1\",\"port\":81},"
			     "{\"ip\":\"10.0.0.3\",\"port\":80,\"healthy\":false},"
			     "{\"ip\":\"10.0.0.4\",\"port\":80,\"enabled\":false},"
			     "{\"ip\":\"10.0.0.5\",\"port\":80,\"weight\":0}]}"),
		&list, &cache_ms),
	    0);
	assert_int_equal(cache_ms, 10000);
	assert_true(list.protection);
	assert_int_equal(list.listed, 5);
	assert_int_equal(list.len, 2);
	assert_entry(0, "10.0.0.1", 81, 100);
	assert_entry(1, "10.0.0.2", 80, 250);
	assert_null(list.items[0].permits);
	assert_string_equal(list.items[1].permits, "*=4,a=2");
	assert_string_equal(list.problem, "");
}

static void nacos_bounds(void **state)
{
	static const struct {
		const char *cache;
		uint64_t ms;
	} cases[] = {{"0", 1000}, {"999", 1000}, {"1000", 1000}, {"60000", 60000}, {"60001", 60000}, {"-5", 1000},
	    {"\"x\"", 1000}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[64];
		uint64_t cache_ms;

		snprintf(text, sizeof(text), "{\"hosts\":[],\"cacheMillis\":%s}", cases[i].cache);
		assert_int_equal(naming_read_nacos_v1(rea_slice_of(text), &list, &cache_ms), 0);
		assert_int_equal(cache_ms, cases[i].ms);
	}
}

static void nacos_wrong(void **state)
{
	static const char *const no_lists[] = {"", "x", "[]", "{}", "{\"hosts\":7}", "{\"hosts\":{}}", "{\"hosts\":["};
	static const char *const odd[] = {"{\"ip\":\"10.0.0.1\",\"port\":0}", "{\"ip\":\"10.0.0.1\",\"port\":65536}",
	    "{\"ip\":\"10.0.0.1\",\"port\":-1}", "{\"ip\":\"10.0.0.1\",\"port\":\"80\"}", "{\"ip\":\"\",\"port\":80}",
	    "{\"ip\":\"a b\",\"port\":80}", "{\"port\":80}", "{\"ip\":7,\"port\":80}", "{}", "7", "null",
	    "{\"ip\":\"10.0.0.1\",\"port\":80,\"weight\":-0.5}", "{\"ip\":\"10.0.0.1\",\"port\":80,\"weight\":\"NaN\"}",
	    "{\"ip\":\"10.0.0.1\",\"port\":80,\"weight\":\"inf\"}", "{\"ip\":\"10.0.0.1\",\"port\":80,\"weight\":[]}"};
	struct rea_buffer text = {.alloc = NULL};
	uint64_t cache_ms;

	(void)state;
	for (size_t i = 0; i < sizeof(no_lists) / sizeof(no_lists[0]); i++)
		assert_int_equal(naming_read_nacos_v1(rea_slice_of(no_lists[i]), &list, &cache_ms), REA_ERR_SYNTAX);
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		char hosts[200];

		snprintf(hosts, sizeof(hosts), "{\"hosts\":[%s,{\"ip\":\"10.0.0.9\",\"port\":80}]}", odd[i]);
		assert_int_equal(naming_read_nacos_v1(rea_slice_of(hosts), &list, &cache_ms), 0);
		assert_int_equal(list.len, 1);
		assert_entry(0, "10.0.0.9", 80, 100);
		assert_string_not_equal(list.problem, "");
		roster_list_fini(&list);
	}
	for (size_t count = ROSTER_INSTANCES_MAX; count <= ROSTER_INSTANCES_MAX + 1; count++) {
		rea_buffer_clear(&text);
		assert_int_equal(rea_buffer_append_slice(&text, rea_slice_of("{\"hosts\":[7")), 0);
		for (size_t i = 1; i < count; i++)
			assert_int_equal(rea_buffer_append_slice(&text, rea_slice_of(",7")), 0);
		assert_int_equal(rea_buffer_append_slice(&text, rea_slice_of("]}")), 0);
		assert_int_equal(naming_read_nacos_v1(rea_slice_make(rea_buffer_data(&text), rea_buffer_length(&text)),
				     &list, &cache_ms),
		    count > ROSTER_INSTANCES_MAX ? REA_ERR_LIMIT : 0);
	}
	rea_buffer_fini(&text);
}

/* {"address":"10.0.0.1:80"}, {"Op":0,"Addr":"10.0.0.2:80"}, 10.0.0.3:80, nothing. */
static void etcd(void **state)
{
	json_t *answer = json_loads("{\"header\":{\"revision\":\"7\"},\"kvs\":["
				    "{\"value\":\"eyJhZGRyZXNzIjoiMTAuMC4wLjE6ODAifQ==\"},"
				    "{\"value\":\"eyJPcCI6MCwiQWRkciI6IjEwLjAuMC4yOjgwIn0=\"},"
				    "{\"value\":\"MTAuMC4wLjM6ODA=\"},{\"key\":\"a\"}]}",
	    0, NULL);

	(void)state;
	assert_int_equal(naming_read_etcd(answer, &list), 0);
	json_decref(answer);
	assert_int_equal(list.len, 3);
	assert_entry(0, "10.0.0.1", 80, 100);
	assert_entry(1, "10.0.0.2", 80, 100);
	assert_entry(2, "10.0.0.3", 80, 100);
	assert_string_equal(list.problem, "\"\" is no address with a port: it is left out");
	roster_list_fini(&list);
	/* What others wrote must not look like a line of our log; here "\nrea: \x1b\xc3\xa9". */
	answer = json_loads("{\"header\":{\"revision\":\"7\"},\"kvs\":[{\"value\":\"CnJlYTogG8Op\"}]}", 0, NULL);
	assert_int_equal(naming_read_etcd(answer, &list), 0);
	json_decref(answer);
	assert_string_equal(list.problem, "\"?rea: ???\" is no address with a port: it is left out");
	roster_list_fini(&list);
	answer = json_loads("{\"header\":{\"revision\":\"7\"}}", 0, NULL);
	assert_int_equal(naming_read_etcd(answer, &list), 0);
	assert_int_equal(list.len, 0);
	json_decref(answer);
	answer = json_loads("{\"header\":{\"revision\":\"7\"},\"kvs\":[{\"value\":\"!\"}]}", 0, NULL);
	assert_int_equal(naming_read_etcd(answer, &list), REA_ERR_SYNTAX);
	json_decref(answer);
	answer = json_loads("{\"kvs\":[]}", 0, NULL);
	assert_int_equal(naming_read_etcd(answer, &list), REA_ERR_SYNTAX);
	json_decref(answer);
}

static void files(void **state)
{
	struct rea_error_info info;

	(void)state;
	/* In the order in which they stand. */
	assert_int_equal(
	    naming_read_file(
		rea_slice_of("[\"b:80\", {\"address\": \"[::1]:81\", \"weight\": 3, \"host\": \"users\"}, \"a:80\"]"),
		&list, &info),
	    0);
	assert_int_equal(list.len, 3);
	assert_entry(0, "b", 80, 100);
	assert_entry(1, "::1", 81, 300);
	assert_string_equal(list.items[1].host, "users");
	assert_entry(2, "a", 80, 100);
	roster_list_fini(&list);
	assert_int_equal(naming_read_file(rea_slice_of("{\"instances\": [\"b:80\"]}"), &list, &info), 0);
	assert_int_equal(list.len, 1);
	roster_list_fini(&list);
	assert_int_equal(naming_read_file(rea_slice_of("[\n  \"b:80\"\n  7]"), &list, &info), REA_ERR_SYNTAX);
	assert_int_equal(info.line, 3);
	assert_int_equal(info.column, 3);
	assert_int_equal(naming_read_file(rea_slice_of("{}"), &list, &info), REA_ERR_SYNTAX);
	assert_string_equal(info.message, "it is no list of instances, 10000 at most");
	assert_int_equal(naming_read_file(rea_slice_of("[{\"address\": \"a:80\", \"host\": \"a\\nb\"}]"), &list, &info), 0);
	assert_null(list.items[0].host);
	assert_string_equal(list.problem, "the host of a:80 is none: it is left out");
}

/* A question for _a._b.t, and its answers. */
#define HEADER(answers) "\x12\x34\x81\x80\x00\x01\x00" answers "\x00\x00\x00\x00"
#define QUESTION "\x02_a\x02_b\x01t\x00\x00\x21\x00\x01"
#define SRV(ttl, priority, weight, port, target, length) \
	"\xc0\x0c\x00\x21\x00\x01\x00\x00\x00" ttl "\x00" length "\x00" priority "\x00" weight "\x1f" port target

static int read_srv(const char *answer, size_t length, uint32_t *ret_ttl_s)
{
	return naming_read_srv((const unsigned char *)answer, length, &list, ret_ttl_s);
}

static void srv(void **state)
{
	/* 8001 and 8002; a pointer to t in the second one's target. */
	static const char two[] = HEADER("\x02") QUESTION SRV("\x1e", "\x02", "\x05", "\x41", "\x01x\x01t\x00", "\x0b")
	    SRV("\x0a", "\x01", "\x00", "\x42", "\x01y\xc0\x12", "\x0a");
	static const char none[] = HEADER("\x00") QUESTION;
	static const char dot[] = HEADER("\x01") QUESTION SRV("\x1e", "\x00", "\x00", "\x41", "\x00", "\x07");
	uint32_t ttl_s;

	(void)state;
	assert_int_equal(read_srv(two, sizeof(two) - 1, &ttl_s), 0);
	assert_int_equal(ttl_s, 10);
	assert_int_equal(list.len, 2);
	assert_entry(0, "y.t", 8002, 1);
	assert_int_equal(list.items[0].tier, 1);
	assert_entry(1, "x.t", 8001, 500);
	assert_int_equal(list.items[1].tier, 2);
	roster_list_fini(&list);
	assert_int_equal(read_srv(none, sizeof(none) - 1, &ttl_s), REA_ERR_NOT_FOUND);
	assert_int_equal(read_srv(dot, sizeof(dot) - 1, &ttl_s), 0);
	assert_int_equal(list.len, 0);
	for (size_t length = 0; length < sizeof(two) - 1; length++) {
		roster_list_fini(&list);
		assert_int_equal(read_srv(two, length, &ttl_s), REA_ERR_SYNTAX);
	}
}

static void srv_wrong(void **state)
{
	/* A name that points at itself; one whose record is shorter than its target. */
	static const char loop[] =
	    HEADER("\x01") "\xc0\x0c\x00\x21\x00\x01" SRV("\x1e", "\x00", "\x00", "\x41", "\x00", "\x07");
	static const char shorter[] = HEADER("\x01") QUESTION SRV("\x1e", "\x00", "\x00", "\x41", "\x01x\x01t\x00", "\x08");
	static const char tiny[] = HEADER("\x01") QUESTION SRV("\x1e", "\x00", "\x00", "\x41", "\x00", "\x06");
	uint32_t ttl_s;

	(void)state;
	assert_int_equal(read_srv(loop, sizeof(loop) - 1, &ttl_s), REA_ERR_SYNTAX);
	assert_int_equal(read_srv(shorter, sizeof(shorter) - 1, &ttl_s), REA_ERR_SYNTAX);
	assert_int_equal(read_srv(tiny, sizeof(tiny) - 1, &ttl_s), REA_ERR_SYNTAX);
}

static void assert_written(
    int (*write)(const struct naming_provider *, bool, struct rea_buffer *), bool v3, const char *expected)
{
	json_t *metadata = json_pack("{s:s}", "a", "b&");
	const struct naming_provider provider = {.service = "users",
	    .address = "[::1]:80",
	    .group = "G",
	    .cluster = "C",
	    .namespace_id = "",
	    .weight = 2.5,
	    .metadata = metadata};
	struct rea_buffer out = {.alloc = NULL};

	assert_int_equal(write(&provider, v3, &out), 0);
	assert_int_equal(rea_buffer_append(&out, "", 1), 0);
	assert_string_equal(rea_buffer_data(&out), expected);
	rea_buffer_fini(&out);
	json_decref(metadata);
}

static void providers(void **state)
{
	json_t *metadata = json_pack("{s:s}", "a", "b");
	const struct naming_provider provider = {.address = "10.0.0.1:80", .weight = 1, .metadata = metadata};
	char *text;

	(void)state;
	assert_written(naming_write_nacos, false,
	    "serviceName=G%40%40users&groupName=G&namespaceId=public&ip=%3A%3A1&port=80&clusterName=C&weight=2.5&"
	    "enabled=true"
	    "&healthy=true&ephemeral=true&metadata=%7B%22a%22%3A%22b%26%22%7D");
	assert_written(naming_write_nacos, true,
	    "serviceName=users&groupName=G&namespaceId=public&ip=%3A%3A1&port=80&clusterName=C&weight=2.5&enabled=true"
	    "&healthy=true&ephemeral=true&metadata=%7B%22a%22%3A%22b%26%22%7D");
	assert_written(naming_write_beat, true,
	    "serviceName=users&groupName=G&namespaceId=public&ip=%3A%3A1&port=80&clusterName=C&weight=2.5&enabled=true"
	    "&healthy=true&ephemeral=true&metadata=%7B%22a%22%3A%22b%26%22%7D&heartBeat=true");
	assert_written(naming_write_beat, false,
	    "serviceName=G%40%40users&groupName=G&namespaceId=public&ip=%3A%3A1&port=80&clusterName=C&ephemeral=true&"
	    "beat="
	    "%7B%22cluster%22%3A%22C%22%2C%22ip%22%3A%22%3A%3A1%22%2C%22metadata%22%3A%7B%22a%22%3A%22b%26%22%7D%2C%"
	    "22port%22%3A80"
	    "%2C%22scheduled%22%3Atrue%2C%22serviceName%22%3A%22G%40%40users%22%2C%22weight%22%3A2.5%7D");
	text = naming_write_etcd(&provider);
	assert_string_equal(text, "{\"address\":\"10.0.0.1:80\",\"metadata\":{\"a\":\"b\"},\"weight\":1.0}");
	free(text);
	text = naming_put_body("/k", "v", UINT64_C(9007199254740993));
	assert_string_equal(text, "{\"key\":\"L2s=\",\"value\":\"dg==\",\"lease\":\"9007199254740993\"}");
	free(text);
	text = naming_grant_body(15);
	assert_string_equal(text, "{\"TTL\":\"15\"}");
	free(text);
	text = naming_lease_body(7);
	assert_string_equal(text, "{\"ID\":\"7\"}");
	free(text);
	json_decref(metadata);
}

static void beats(void **state)
{
	static const struct {
		long status;
		const char *reply;
		enum naming_beat beat;
		uint64_t interval_ms;
	} cases[] = {
	    {200, "{\"clientBeatInterval\":5000,\"code\":10200}", NAMING_ALIVE, 5000},
	    {200, "{\"clientBeatInterval\":1,\"code\":10200}", NAMING_ALIVE, 1000},
	    {200, "{\"clientBeatInterval\":99999999}", NAMING_ALIVE, 60000},
	    {200, "{\"code\":0,\"data\":\"ok\"}", NAMING_ALIVE, 7},
	    {200, "ok", NAMING_ALIVE, 7},
	    {200, "{\"code\":20404}", NAMING_UNKNOWN, 7},
	    {404, "{\"code\":21003}", NAMING_UNKNOWN, 7},
	    {404, "", NAMING_UNKNOWN, 7},
	    {200, "{\"code\":500}", NAMING_REFUSED, 7},
	    {500, "", NAMING_REFUSED, 7},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t interval_ms = 7;

		assert_int_equal(
		    naming_read_beat(cases[i].status, rea_slice_of(cases[i].reply), &interval_ms), cases[i].beat);
		assert_int_equal(interval_ms, cases[i].interval_ms);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(nacos_v1, fini),
	    cmocka_unit_test_teardown(nacos_bounds, fini),
	    cmocka_unit_test_teardown(nacos_wrong, fini),
	    cmocka_unit_test_teardown(etcd, fini),
	    cmocka_unit_test_teardown(files, fini),
	    cmocka_unit_test_teardown(srv, fini),
	    cmocka_unit_test_teardown(srv_wrong, fini),
	    cmocka_unit_test(providers),
	    cmocka_unit_test(beats),
	};

	return cmocka_run_group_tests_name("naming_wire", tests, NULL, NULL);
}
