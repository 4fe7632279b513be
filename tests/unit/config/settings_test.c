/* Everything beside the services: each key, its default, its bounds. */
#include "refusal.h"

static void the_defaults(void **state)
{
	struct rea_config *config = parse("");
	const struct rea_config_settings *s = rea_config_settings(config);

	(void)state;
	assert_int_equal(s->listen_len, 1);
	assert_string_equal(s->listen[0].address, "127.0.0.1:7070");
	assert_string_equal(s->admin, "127.0.0.1:7071");
	assert_int_equal(s->threads, 1);
	assert_string_equal(s->biz_id_header, "x-biz-id");
	assert_null(s->events.file);
	assert_int_equal(s->events.ring, 4096);
	assert_true(s->events.sample_success == 0);
	assert_int_equal(s->events.queue_bytes, 262144);
	assert_null(s->events.sqlite);
	assert_int_equal(s->events.sqlite_retention_hours, 168);
	assert_int_equal(s->events.sqlite_max_mb, 1024);
	assert_int_equal(s->limits.concurrent_retries, 256);
	assert_int_equal(s->limits.parked_calls, 1000);
	assert_int_equal(s->limits.header_bytes, 32768);
	assert_int_equal(s->limits.headers, 100);
	assert_int_equal(s->limits.connections, 10000);
	assert_int_equal(s->limits.upstream_connections, 1024);
	assert_int_equal(s->limits.upstream_idle, 64);
	assert_int_equal(s->timeouts.request_head_ms, 10000);
	assert_int_equal(s->timeouts.keep_alive_ms, 60000);
	assert_int_equal(s->timeouts.stream_idle_ms, 30000);
	assert_int_equal(s->timeouts.upstream_idle_ms, 30000);
	assert_int_equal(s->timeouts.drain_ms, 10000);
	assert_int_equal(s->upgrade, REA_TUNNEL_REFUSE);
	assert_int_equal(s->connect, REA_TUNNEL_REFUSE);
	rea_config_unref(config);
}

static void every_key(void **state)
{
	struct rea_config *config =
	    parse("listen: [127.0.0.1:1, '[::1]:2', 0.0.0.0:0]\n"
		  "admin: 127.0.0.1:3\n"
		  "threads: 64\n"
		  "biz-id-header: X-Order\n"
		  "http: {upgrade: tunnel, connect: tunnel}\n"
		  "events: {file: \"-\", ring: 0, sample-success: 0.25, queue-bytes: 67108864, sqlite: e.db,\n"
		  "  sqlite-retention-hours: 87600, sqlite-max-mb: 8}\n"
		  "limits:\n"
		  "  concurrent-retries: 1\n"
		  "  header-bytes: 1024\n"
		  "  headers: 8\n"
		  "  connections: 2\n"
		  "  upstream-connections: 3\n"
		  "  upstream-idle: 0\n"
		  "timeouts:\n"
		  "  request-head-ms: 1\n"
		  "  keep-alive-ms: 2\n"
		  "  stream-idle-ms: 3\n"
		  "  upstream-idle-ms: 4\n"
		  "  drain-ms: 0\n");
	const struct rea_config_settings *s = rea_config_settings(config);

	(void)state;
	assert_int_equal(s->listen_len, 3);
	assert_string_equal(s->listen[1].address, "[::1]:2");
	assert_int_equal(s->listen[2].line, 1);
	assert_string_equal(s->admin, "127.0.0.1:3");
	assert_int_equal(s->threads, 64);
	assert_string_equal(s->biz_id_header, "X-Order");
	assert_int_equal(s->upgrade, REA_TUNNEL_ALLOW);
	assert_int_equal(s->connect, REA_TUNNEL_ALLOW);
	assert_string_equal(s->events.file, "-");
	assert_int_equal(s->events.ring, 0);
	assert_true(s->events.sample_success == 0.25);
	assert_int_equal(s->events.queue_bytes, 67108864);
	assert_string_equal(s->events.sqlite, "e.db");
	assert_int_equal(s->events.sqlite_retention_hours, 87600);
	assert_int_equal(s->events.sqlite_max_mb, 8);
	assert_int_equal(s->limits.concurrent_retries, 1);
	assert_int_equal(s->limits.header_bytes, 1024);
	assert_int_equal(s->limits.headers, 8);
	assert_int_equal(s->limits.connections, 2);
	assert_int_equal(s->limits.upstream_connections, 3);
	assert_int_equal(s->limits.upstream_idle, 0);
	assert_int_equal(s->timeouts.request_head_ms, 1);
	assert_int_equal(s->timeouts.keep_alive_ms, 2);
	assert_int_equal(s->timeouts.stream_idle_ms, 3);
	assert_int_equal(s->timeouts.upstream_idle_ms, 4);
	assert_int_equal(s->timeouts.drain_ms, 0);
	rea_config_unref(config);
}

static void camel_case(void **state)
{
	struct rea_config *config =
	    parse("bizIdHeader: x-a\nevents: {sampleSuccess: 1, file: off}\nlimits: {concurrentRetries: 7}\n"
		  "timeouts: {requestHeadMs: 5, drainMs: 6}\n");
	const struct rea_config_settings *s = rea_config_settings(config);

	(void)state;
	assert_string_equal(s->biz_id_header, "x-a");
	assert_true(s->events.sample_success == 1);
	assert_null(s->events.file);
	assert_int_equal(s->limits.concurrent_retries, 7);
	assert_int_equal(s->timeouts.request_head_ms, 5);
	assert_int_equal(s->timeouts.drain_ms, 6);
	rea_config_unref(config);
}

/* A port that the kernel chooses may stand twice: they will differ. */
static void free_ports_do_not_clash(void **state)
{
	struct rea_config *config = parse("listen: [127.0.0.1:0, 127.0.0.1:0]\nadmin: 127.0.0.1:0\n");

	(void)state;
	assert_int_equal(rea_config_settings(config)->listen_len, 2);
	rea_config_unref(config);
}

static const struct refusal refusals[] = {
    {"listne: 127.0.0.1:7070\n", REA_ERR_INVALID, 1, 1, "listne", "the document has no key \"listne\"; did you mean listen?"},
    {"listen: localhost:7070\n", REA_ERR_INVALID, 1, 9,
	"listen", "expected an address and a port such as 127.0.0.1:7070 or [::1]:7070, got \"localhost:7070\"; names are not looked up here: did you mean 127.0.0.1?"},
    {"listen: 7070\n", REA_ERR_INVALID, 1, 9, "listen",
	"expected an address and a port such as 127.0.0.1:7070 or [::1]:7070, got \"7070\""},
    {"listen: []\n", REA_ERR_INVALID, 1, 9, "listen", "expected at least one address, got a list"},
    {"listen:\n", REA_ERR_INVALID, 1, 8, "listen",
	"expected an address and a port such as 127.0.0.1:7070 or [::1]:7070, got nothing"},
    {"listen: {a: b}\n", REA_ERR_INVALID, 1, 10, "listen.a", "a listener has no key \"a\""},
    {"listen: [127.0.0.1:7070, 127.0.0.1:7070]\n", REA_ERR_INVALID, 1, 26, "listen[1]",
	"127.0.0.1:7070 stands in this list twice"},
    {"listen: 127.0.0.1:7071\n", REA_ERR_INVALID, 1, 9, "listen", "127.0.0.1:7071 cannot be both `listen` and `admin`"},
    {"listen: 127.0.0.1:70000\n", REA_ERR_INVALID, 1, 9, "listen",
	"expected an address and a port such as 127.0.0.1:7070 or [::1]:7070, got \"127.0.0.1:70000\""},
    {"listen: 300.0.0.1:80\n", REA_ERR_INVALID, 1, 9, "listen",
	"expected an address and a port such as 127.0.0.1:7070 or [::1]:7070, got \"300.0.0.1:80\""},
    {"admin: off\n", REA_ERR_INVALID, 1, 8, "admin",
	"expected an address and a port such as 127.0.0.1:7070 or [::1]:7070, got \"off\""},
    {"admin: [127.0.0.1:1]\n", REA_ERR_INVALID, 1, 8, "admin",
	"expected an address and a port such as 127.0.0.1:7070 or [::1]:7070, got a list"},
    {"threads: 0\n", REA_ERR_INVALID, 1, 10, "threads", "expected a whole number from 1 to 64, got \"0\""},
    {"threads: 65\n", REA_ERR_INVALID, 1, 10, "threads", "expected a whole number from 1 to 64, got \"65\""},
    {"threads: two\n", REA_ERR_INVALID, 1, 10, "threads", "expected a whole number from 1 to 64, got \"two\""},
    {"threads: -1\n", REA_ERR_INVALID, 1, 10, "threads", "expected a whole number from 1 to 64, got \"-1\""},
    {"threads: 04\n", REA_ERR_INVALID, 1, 10, "threads", "expected a whole number from 1 to 64, got \"04\""},
    {"threads: 1.0\n", REA_ERR_INVALID, 1, 10, "threads", "expected a whole number from 1 to 64, got \"1.0\""},
    {"threads: 99999999999999999999\n", REA_ERR_INVALID, 1, 10, "threads",
	"expected a whole number from 1 to 64, got \"99999999999999999999\""},
    {"biz-id-header: x biz\n", REA_ERR_INVALID, 1, 16, "biz-id-header",
	"expected the name of a header such as x-biz-id, got \"x biz\""},
    {"bizIdHeader: \"\"\n", REA_ERR_INVALID, 1, 14, "bizIdHeader", "expected the name of a header such as x-biz-id, got \"\""},
    {"http: {upgrade: allow}\n", REA_ERR_INVALID, 1, 17, "http.upgrade", "expected refuse or tunnel, got \"allow\""},
    {"http: {connect: tunel}\n", REA_ERR_INVALID, 1, 17, "http.connect",
	"expected refuse or tunnel, got \"tunel\"; did you mean tunnel?"},
    {"http: refuse\n", REA_ERR_INVALID, 1, 7, "http", "expected a mapping of keys to values, got \"refuse\""},
    {"http: {conect: refuse}\n", REA_ERR_INVALID, 1, 8, "http.conect", "http has no key \"conect\"; did you mean connect?"},
    {"events: {file: \"\"}\n", REA_ERR_INVALID, 1, 16, "events.file",
	"expected a path, \"-\" for standard output, or off, got \"\""},
    {"events: {ring: 1000001}\n", REA_ERR_INVALID, 1, 16, "events.ring",
	"expected a whole number from 0 to 1000000, got \"1000001\""},
    {"events: {sample-success: 2}\n", REA_ERR_INVALID, 1, 26, "events.sample-success",
	"expected a number from 0 to 1, got \"2\""},
    {"events: {sample-success: 50%}\n", REA_ERR_INVALID, 1, 26, "events.sample-success",
	"expected a number from 0 to 1, got \"50%\"; did you mean 0.5?"},
    {"events: {queue-bytes: 5000}\n", REA_ERR_INVALID, 1, 23, "events.queue-bytes", "expected a power of two, got \"5000\""},
    {"events: {sqlite: [x]}\n", REA_ERR_INVALID, 1, 18, "events.sqlite", "expected a path, or off, got a list"},
    {"events: {sqlite-max-mb: 7}\n", REA_ERR_INVALID, 1, 25, "events.sqlite-max-mb",
	"expected a whole number from 8 to 1048576, got \"7\""},
    {"events: {queue-bytes: 2048}\n", REA_ERR_INVALID, 1, 23, "events.queue-bytes",
	"expected a whole number from 4096 to 67108864, got \"2048\""},
    {"events: {queueBytes: 134217728}\n", REA_ERR_INVALID, 1, 22, "events.queueBytes",
	"expected a whole number from 4096 to 67108864, got \"134217728\""},
    {"limits: {parked-calls: 0}\n", REA_ERR_INVALID, 1, 24, "limits.parked-calls",
	"expected a whole number from 1 to 1000000, got \"0\""},
    {"limits: {concurrent-retries: 0}\n", REA_ERR_INVALID, 1, 30, "limits.concurrent-retries",
	"expected a whole number from 1 to 1000000, got \"0\"; this limit cannot be turned off"},
    {"limits: {header-bytes: 512}\n", REA_ERR_INVALID, 1, 24, "limits.header-bytes",
	"expected a whole number from 1024 to 1048576, got \"512\""},
    {"limits: {headers: 7}\n", REA_ERR_INVALID, 1, 19, "limits.headers", "expected a whole number from 8 to 1000, got \"7\""},
    {"limits: {connections: 0}\n", REA_ERR_INVALID, 1, 23, "limits.connections",
	"expected a whole number from 1 to 1000000, got \"0\""},
    {"limits: {upstream-connections: 0}\n", REA_ERR_INVALID, 1, 32, "limits.upstream-connections",
	"expected a whole number from 1 to 1000000, got \"0\""},
    {"limits: {upstream-idle: many}\n", REA_ERR_INVALID, 1, 25, "limits.upstream-idle",
	"expected a whole number from 0 to 1000000, got \"many\""},
    {"limits: {sockets: 5}\n", REA_ERR_INVALID, 1, 10, "limits.sockets", "limits has no key \"sockets\""},
    {"timeouts: {request-head-ms: 0}\n", REA_ERR_INVALID, 1, 29, "timeouts.request-head-ms",
	"expected a whole number from 1 to 86400000, got \"0\""},
    {"timeouts: {keep-alive-ms: 1m}\n", REA_ERR_INVALID, 1, 27, "timeouts.keep-alive-ms",
	"expected a whole number from 1 to 86400000, got \"1m\"; did you mean 60000?"},
    {"timeouts: {stream-idle-ms: 30s}\n", REA_ERR_INVALID, 1, 28, "timeouts.stream-idle-ms",
	"expected a whole number from 1 to 86400000, got \"30s\"; did you mean 30000?"},
    {"timeouts: {upstream-idle-ms: 500ms}\n", REA_ERR_INVALID, 1, 30, "timeouts.upstream-idle-ms",
	"expected a whole number from 1 to 86400000, got \"500ms\"; did you mean 500?"},
    {"timeouts: {drain-ms: 86400001}\n", REA_ERR_INVALID, 1, 22, "timeouts.drain-ms",
	"expected a whole number from 0 to 86400000, got \"86400001\""},
    {"timeouts:\n  keep-alive-ms: 1\n  keepAliveMs: 2\n", REA_ERR_INVALID, 3, 3, "timeouts.keepAliveMs",
	"keep-alive-ms stands here a second time; the first is on line 2"},
    {"threads: 1\nthreads: 2\n", REA_ERR_INVALID, 2, 1, "threads",
	"the key \"threads\" stands here a second time; the first is on line 1"},
    {"[1, 2]\n", REA_ERR_INVALID, 1, 1, "", "expected a mapping of keys to values, got a list"},
    {"hello\n", REA_ERR_INVALID, 1, 1, "", "expected a mapping of keys to values, got \"hello\""},
};

static void refused(void **state)
{
	(void)state;
	CHECK_REFUSALS(refusals);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_defaults),
	    cmocka_unit_test(every_key),
	    cmocka_unit_test(camel_case),
	    cmocka_unit_test(free_ports_do_not_clash),
	    cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
