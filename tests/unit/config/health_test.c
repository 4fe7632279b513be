/* `health-check` of a service. */
#include "refusal.h"

static void every_key(void **state)
{
	struct rea_config *config =
	    parse("services:\n"
		  "  a: {instances: [], health-check: {path: '/ready?full=1', interval-ms: 100, timeout-ms: 100,\n"
		  "      unhealthy-after: 1, healthy-after: 100}}\n"
		  "  b: {instances: [], health-check: {protocol: grpc, service: p.S}}\n"
		  "  c: {instances: [], health-check: {}}\n"
		  "  d: {instances: []}\n");
	const struct rea_config_health *a = rea_config_service(config, 0)->health,
				       *b = rea_config_service(config, 1)->health,
				       *c = rea_config_service(config, 2)->health;

	(void)state;
	assert_int_equal(a->protocol, REA_HEALTH_HTTP);
	assert_string_equal(a->path, "/ready?full=1");
	assert_int_equal(a->interval_ms, 100);
	assert_int_equal(a->timeout_ms, 100);
	assert_int_equal(a->unhealthy_after, 1);
	assert_int_equal(a->healthy_after, 100);
	assert_int_equal(a->line, 2);
	assert_int_equal(b->protocol, REA_HEALTH_GRPC);
	assert_string_equal(b->service, "p.S");
	assert_int_equal(c->protocol, REA_HEALTH_HTTP);
	assert_string_equal(c->path, "/health");
	assert_string_equal(c->service, "");
	assert_int_equal(c->interval_ms, 5000);
	assert_int_equal(c->timeout_ms, 1000);
	assert_int_equal(c->unhealthy_after, 3);
	assert_int_equal(c->healthy_after, 2);
	assert_null(rea_config_service(config, 3)->health);
	rea_config_unref(config);
}

static void refused(void **state)
{
#define CHECK(text) "services: {a: {instances: [], health-check: {" text "}}}\n"
#define KEY "services.a.health-check"
	static const struct refusal rows[] = {
	    {CHECK("protocol: tcp"), REA_ERR_INVALID, 1, 56, KEY ".protocol", "expected http or grpc, got \"tcp\""},
	    {CHECK("path: health"), REA_ERR_INVALID, 1, 52, KEY ".path", "expected a path such as /health, got \"health\""},
	    {CHECK("path: '/a b'"), REA_ERR_INVALID, 1, 52, KEY ".path", "expected a path such as /health, got \"/a b\""},
	    {CHECK("path: '/a#b'"), REA_ERR_INVALID, 1, 52, KEY ".path", "expected a path such as /health, got \"/a#b\""},
	    {CHECK("protocol: grpc, path: /a"), REA_ERR_INVALID, 1, 62, KEY ".path",
		"a check by gRPC has no path, but a `service`"},
	    {CHECK("service: a"), REA_ERR_INVALID, 1, 46, KEY ".service", "a check by HTTP has no service, but a `path`"},
	    {CHECK("interval-ms: 99"), REA_ERR_INVALID, 1, 59, KEY ".interval-ms",
		"expected a whole number from 100 to 3600000, got \"99\""},
	    {CHECK("timeout-ms: 0"), REA_ERR_INVALID, 1, 58, KEY ".timeout-ms",
		"expected a whole number from 1 to 60000, got \"0\""},
	    {CHECK("timeout-ms: 5001"), REA_ERR_INVALID, 1, 58, KEY ".timeout-ms",
		"timeout-ms is 5001; it must be at most interval-ms, which is 5000"},
	    {CHECK("interval-ms: 999"), REA_ERR_INVALID, 1, 59, KEY ".interval-ms",
		"timeout-ms is 1000; it must be at most interval-ms, which is 999"},
	    {CHECK("unhealthy-after: 101"), REA_ERR_INVALID, 1, 63, KEY ".unhealthy-after",
		"expected a whole number from 1 to 100, got \"101\""},
	    {CHECK("healthy-after: 0"), REA_ERR_INVALID, 1, 61, KEY ".healthy-after",
		"expected a whole number from 1 to 100, got \"0\""},
	};

	(void)state;
	CHECK_REFUSALS(rows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_key),
	    cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
