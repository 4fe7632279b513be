/* Every endpoint's answer, byte for byte where it is ours to say. */
#include "admin/answer.h"

#include "../event/sample.h"
#include "../fail_alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>
#include <jansson.h>

static enum admin_readiness readiness;
static struct admin_config config;
static struct answer answer;

static enum admin_readiness say_readiness(void *user_data)
{
	assert_ptr_equal(user_data, &readiness);
	return readiness;
}

static void say_metrics(struct rea_prometheus *out, void *user_data)
{
	(void)user_data;
	rea_prometheus_family(out, "rea_x_total", REA_METRIC_COUNTER, "X.");
	rea_prometheus_sample(out, "rea_x_total", NULL, 0, 7);
}

static void say_config(struct admin_config *ret_config, void *user_data)
{
	(void)user_data;
	*ret_config = config;
}

static struct admin_service service;

static bool say_service(struct rea_slice name, struct admin_service *ret_service, void *user_data)
{
	(void)user_data;
	*ret_service = service;
	return rea_slice_equal(name, REA_SLICE_LIT("user/service"));
}

static size_t instances_len;

static bool say_instance(struct rea_slice name, size_t index, struct admin_instance *ret_instance, void *user_data)
{
	static const struct admin_instance two[] = {{.address = "127.0.0.1:9001", .weight = 1},
	    {.address = "[::1]:9002", .ejected = 2, .ejections = 5, .weight = 300, .tier = 2, .unhealthy = true}};

	assert_ptr_equal(user_data, &readiness);
	assert_true(rea_slice_equal(name, REA_SLICE_LIT("user/service")));
	if (index >= instances_len)
		return false;
	*ret_instance = two[index];
	return true;
}

static struct admin_sources sources = {.service = say_service,
    .instance = say_instance,
    .readiness = say_readiness,
    .metrics = say_metrics,
    .config = say_config,
    .user_data = &readiness};

static const char *ask(enum http_method method, const char *target)
{
	answer_fini(&answer);
	answer_init(&answer, NULL);
	answer_request(&answer, &sources, method, rea_slice_of(target));
	assert_int_equal(rea_buffer_append(&answer.body, "", 1), 0);
	return rea_buffer_data(&answer.body);
}

static void assert_answer(const char *target, uint16_t status, const char *content_type, const char *body)
{
	assert_string_equal(ask(HTTP_GET, target), body);
	assert_int_equal(answer.status, status);
	assert_string_equal(answer.content_type, content_type);
	assert_string_equal(answer.allow, "");
}

static void fill_ring(struct rea_event_ring **ret_ring, size_t size, uint32_t events)
{
	struct rea_event event = sample_event();

	assert_int_equal(rea_event_ring_new(size, NULL, ret_ring, NULL), 0);
	for (uint32_t i = 1; i <= events; i++) {
		event.attempt = i;
		event.attempt_start_ns = MS(i);
		event.time_ns = MS(i) + MS(12);
		assert_int_equal(rea_event_ring_add(*ret_ring, &event), 0);
	}
	sources.ring = *ret_ring;
}

static void test_openapi(void **state)
{
	json_t *document = json_loads(ask(HTTP_GET, "/v1/openapi.json"), 0, NULL);

	(void)state;
	assert_int_equal(answer.status, 200);
	assert_string_equal(answer.content_type, "application/json");
	assert_string_equal(json_string_value(json_object_get(document, "openapi")), "3.1.0");
	assert_non_null(json_object_get(json_object_get(document, "paths"), "/v1/openapi.json"));
	json_decref(document);
}

static int teardown(void **state)
{
	(void)state;
	answer_fini(&answer);
	rea_event_ring_free((struct rea_event_ring *)(uintptr_t)sources.ring);
	sources.ring = NULL;
	return 0;
}

static void test_health(void **state)
{
	(void)state;
	assert_answer("/healthz", 200, "text/plain; charset=utf-8", "ok");
	assert_answer("/healthz?verbose", 200, "text/plain; charset=utf-8", "ok");
	readiness = ADMIN_STARTING;
	assert_answer("/readyz", 503, "text/plain; charset=utf-8", "starting");
	readiness = ADMIN_READY;
	assert_answer("/readyz", 200, "text/plain; charset=utf-8", "ready");
	readiness = ADMIN_DRAINING;
	assert_answer("/readyz", 503, "text/plain; charset=utf-8", "draining");
	assert_answer("/version", 200, "application/json", "{\"name\":\"rea\",\"version\":\"" REA_VERSION "\"}\n");
	assert_answer("/metrics", 200, "text/plain; version=0.0.4; charset=utf-8",
	    "# HELP rea_x_total X.\n# TYPE rea_x_total counter\nrea_x_total 7\n");
}

static void test_config(void **state)
{
	struct rea_error_info error = {.file = "rea \"x\".yaml", .line = 3, .column = 7, .key = "listen", .message = "no"};

	(void)state;
	config = (struct admin_config){"rea.yaml", "00ff", INT64_C(1767323045678901234), 2, 0, NULL};
	assert_answer("/v1/config", 200,
	    "application/json", "{\"version\":\"00ff\",\"path\":\"rea.yaml\",\"loaded_at\":\"2026-01-02T03:04:05Z\",\"reloads\":2,\"rejects\":0,\"last_error\":null}\n");
	config.last_error = &error;
	config.rejects = 1;
	assert_answer("/v1/config", 200, "application/json",
	    "{\"version\":\"00ff\",\"path\":\"rea.yaml\",\"loaded_at\":\"2026-01-02T03:04:05Z\",\"reloads\":2,"
	    "\"rejects\":1,\"last_error\":"
	    "{\"line\":3,\"column\":7,\"file\":\"rea \\\"x\\\".yaml\",\"key\":\"listen\",\"message\":\"no\"}}\n");
}

static void test_service(void **state)
{
	(void)state;
	service = (struct admin_service){.budget = {.rule = REA_BUDGET_RATIO, .available = 100},
	    .parked_calls_max = 1000,
	    .retries_in_flight = 3,
	    .concurrent_retries_max = 256,
	    .discovery = {.source = "the configuration", .age_ns = REA_NEVER}};
	assert_answer("/v1/services/user%2fservice", 200, "application/json",
	    "{\"service\":\"user/service\",\"budget\":{\"rule\":\"ratio\",\"available\":100},\"parked_calls\":0,"
	    "\"parked_calls_max\":1000,\"retries_in_flight\":3,\"concurrent_retries_max\":256,"
	    "\"discovery\":{\"source\":\"the configuration\",\"failures\":0,\"troubled\":false,\"empty_held\":false,"
	    "\"protection\":false},\"instances\":[]}\n");
	service.discovery.source = "nacos public/G/\"";
	service.discovery.age_ns = 1500 * REA_NS_PER_MS;
	service.discovery.failures = 2;
	service.discovery.troubled = service.discovery.empty_held = service.discovery.protection = true;
	instances_len = 2;
	service.budget = (struct rea_budget_view){.rule = REA_BUDGET_EVIDENCE,
	    .available = 1,
	    .tokens = 1.5,
	    .first_attempts = 20,
	    .retries = 4,
	    .outcomes = 24,
	    .timeouts = 2,
	    .success = 0.5,
	    .pushback = 0.25,
	    .latency_ns = 23e6,
	    .baseline_ns = 1e7,
	    .latency_ratio_max = 2,
	    .congested_ns = 250000000,
	    .heat = {.kind = REA_EVIDENCE_LATENCY, .value = 2.3},
	    .since_success_ns = 1234567};
	assert_answer("/v1/services/user%2fservice", 200, "application/json",
	    "{\"service\":\"user/"
	    "service\",\"budget\":{\"rule\":\"evidence\",\"available\":1,\"tokens\":1.5,\"success\":0.5,"
	    "\"pushback\":0.25,\"first_attempts\":20,\"retries\":4,\"outcomes\":24,\"timeouts\":2,\"latency_ms\":23,"
	    "\"baseline_ms\":10,\"latency_ratio\":2.3,\"latency_ratio_max\":2,\"since_success_ms\":1.235,\"congested_"
	    "ms\":250,"
	    "\"congestion\":\"latency 2.3x baseline, tokens 0\"},\"parked_calls\":0,"
	    "\"parked_calls_max\":1000,\"retries_in_flight\":3,\"concurrent_retries_max\":256,"
	    "\"discovery\":{\"source\":\"nacos public/G/\\\"\",\"age_ms\":1500,\"failures\":2,\"troubled\":true,"
	    "\"empty_held\":true,\"protection\":true},\"instances\":["
	    "{\"address\":\"127.0.0.1:9001\",\"ejected\":0,\"ejections\":0,\"weight\":1,\"tier\":0,\"unhealthy\":false}"
	    ","
	    "{\"address\":\"[::1]:9002\",\"ejected\":2,\"ejections\":5,\"weight\":300,\"tier\":2,\"unhealthy\":true}]}"
	    "\n");
	assert_answer("/v1/services/other", 404, "application/problem+json",
	    "{\"title\":\"Not Found\",\"status\":404,\"detail\":\"there is no service of this name\"}\n");
	assert_answer("/v1/services/%zz", 404, "application/problem+json",
	    "{\"title\":\"Not Found\",\"status\":404,\"detail\":\"there is no service of this name\"}\n");
}

static void test_unknown_resources(void **state)
{
	static const char *const targets[] = {"/", "", "*", "/health", "/healthz/", "//healthz", "/v1", "/v1/timelines",
	    "/v1/timelines/", "/v1/timelines/a/b", "/v1/timelines/a/", "/v1/events/1", "/HEALTHZ", "/%68ealthz"};

	(void)state;
	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++)
		assert_answer(targets[i], 404, "application/problem+json",
		    "{\"title\":\"Not Found\",\"status\":404,\"detail\":\"there is no such resource\"}\n");
	ask(HTTP_POST, "/nothing");
	assert_int_equal(answer.status, 404);
}

static void test_methods(void **state)
{
	static const enum http_method others[] = {
	    HTTP_OTHER, HTTP_POST, HTTP_PUT, HTTP_DELETE, HTTP_PATCH, HTTP_OPTIONS, HTTP_TRACE};

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		assert_string_equal(ask(others[i], "/v1/timelines/x"),
		    "{\"title\":\"Method Not Allowed\",\"status\":405,\"detail\":\"this resource does not know the "
		    "method\"}\n");
		assert_int_equal(answer.status, 405);
		assert_string_equal(answer.allow, "GET, HEAD");
	}
	assert_string_equal(ask(HTTP_HEAD, "/healthz"), "ok");
	assert_int_equal(answer.status, 200);
}

static void test_timeline_as_json(void **state)
{
	struct rea_event_ring *ring;
	struct rea_event event = sample_event();
	json_t *document, *events;
	char line[REA_EVENT_JSON_MAX], expected[4 * REA_EVENT_JSON_MAX];

	(void)state;
	fill_ring(&ring, 8, 0);
	assert_int_equal(rea_event_ring_add(ring, &event), 0);
	rea_event_json(&event, line, sizeof(line));
	snprintf(expected, sizeof(expected),
	    "{\"biz_id\":\"order-42\",\"left_out\":0,\"events\":[\n%s],\"tasks\":[]}\n", line);
	assert_answer("/v1/timelines/order-42", 200, "application/json", expected);
	assert_answer("/v1/timelines/order%2d42?x=1&format=json", 200, "application/json", expected);
	event.attempt = 2;
	rea_event_ring_add(ring, &event);
	document = json_loads(ask(HTTP_GET, "/v1/timelines/order-42"), 0, NULL);
	events = json_object_get(document, "events");
	assert_int_equal(json_array_size(events), 2);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(events, 1), "attempt")), 2);
	json_decref(document);
}

static void test_timeline_as_text(void **state)
{
	struct rea_event_ring *ring;
	const char *text;

	(void)state;
	fill_ring(&ring, 8, 2);
	text = ask(HTTP_GET, "/v1/timelines/order-42?format=text");
	assert_int_equal(answer.status, 200);
	assert_string_equal(answer.content_type, "text/plain; charset=utf-8");
	assert_memory_equal(text, "biz_id order-42, from ", 22);
	assert_non_null(strstr(text, "       +1 ms  #2/2    127.0.0.1:9001 "));
}

static void test_unknown_and_malformed_ids(void **state)
{
	static const char *const malformed[] = {
	    "/v1/timelines/%", "/v1/timelines/%4", "/v1/timelines/%zz", "/v1/timelines/a%4g"};
	struct rea_event_ring *ring;
	char long_target[1100] = "/v1/timelines/";

	(void)state;
	assert_answer("/v1/timelines/x", 404,
	    "application/problem+json", "{\"title\":\"Not Found\",\"status\":404,\"detail\":\"no event of this biz_id is kept: nothing of it failed, or it is too long ago\"}\n");
	fill_ring(&ring, 8, 1);
	ask(HTTP_GET, "/v1/timelines/order-43");
	assert_int_equal(answer.status, 404);
	for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
		ask(HTTP_GET, malformed[i]);
		assert_int_equal(answer.status, 400);
	}
	ask(HTTP_GET, "/v1/timelines/order-42?format=xml");
	assert_int_equal(answer.status, 400);
	memset(long_target + 14, 'a', 1024);
	ask(HTTP_GET, long_target);
	assert_int_equal(answer.status, 404);
	long_target[14 + 1024] = 'a';
	ask(HTTP_GET, long_target);
	assert_int_equal(answer.status, 400);
}

/* An id with every byte is found, and comes back as valid JSON. */
static void test_id_with_odd_bytes(void **state)
{
	static const char odd[] = "a/b \"%\x01\xff";
	struct rea_event event = sample_event();
	struct rea_event_ring *ring;
	json_t *document;

	(void)state;
	fill_ring(&ring, 8, 0);
	event.biz_id = (struct rea_text){odd, sizeof(odd) - 1};
	rea_event_ring_add(ring, &event);
	document = json_loads(ask(HTTP_GET, "/v1/timelines/a%2Fb%20%22%25%01%FF"), 0, NULL);
	assert_int_equal(answer.status, 200);
	assert_string_equal(json_string_value(json_object_get(document, "biz_id")), "a/b \"%\x01\xef\xbf\xbd");
	json_decref(document);
}

static void assert_events(const char *target, int64_t left_out, size_t count, int64_t first)
{
	json_t *document = json_loads(ask(HTTP_GET, target), 0, NULL), *events = json_object_get(document, "events");

	assert_int_equal(answer.status, 200);
	assert_int_equal(json_integer_value(json_object_get(document, "left_out")), left_out);
	assert_int_equal(json_array_size(events), count);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(events, 0), "attempt")), first);
	json_decref(document);
}

static void test_latest_events(void **state)
{
	static const char *const bad[] = {"/v1/events?limit=0", "/v1/events?limit=1001", "/v1/events?limit=-1",
	    "/v1/events?limit=", "/v1/events?limit=1x"};
	struct rea_event_ring *ring;

	(void)state;
	assert_answer("/v1/events", 200, "application/json", "{\"left_out\":0,\"events\":[]}\n");
	fill_ring(&ring, 2000, 1500);
	assert_events("/v1/events", 1400, 100, 1401);
	assert_events("/v1/events?limit=1", 1499, 1, 1500);
	assert_events("/v1/events?a=b&limit=1000&limit=2", 500, 1000, 501);
	assert_events("/v1/events?xlimit=3", 1400, 100, 1401);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ask(HTTP_GET, bad[i]);
		assert_int_equal(answer.status, 400);
	}
}

static void test_long_timeline_keeps_the_latest(void **state)
{
	struct rea_event_ring *ring;

	(void)state;
	fill_ring(&ring, 20000, ANSWER_TIMELINE_MAX + 5);
	assert_events("/v1/timelines/order-42", 5, ANSWER_TIMELINE_MAX, 6);
	ask(HTTP_GET, "/v1/timelines/order-42?format=text");
	assert_null(strstr(rea_buffer_data(&answer.body), "#5/2 "));
	assert_non_null(strstr(rea_buffer_data(&answer.body), "#6/2 "));
}

/* Whatever allocation fails: a whole answer, or 503 without a body. */
static void test_out_of_memory(void **state)
{
	static const char *const targets[] = {
	    "/healthz", "/nothing", "/metrics", "/v1/config", "/v1/events", "/v1/timelines/order-42?format=text"};
	struct rea_event_ring *ring;

	(void)state;
	config = (struct admin_config){"rea.yaml", "00ff", 0, 0, 0, NULL};
	fill_ring(&ring, 100, 100);
	for (size_t t = 0; t < sizeof(targets) / sizeof(targets[0]); t++)
		for (int for_good = 0; for_good < 2; for_good++)
			for (size_t n = 0; n < 12; n++) {
				struct fail_alloc failing;
				struct answer mine;

				fail_alloc_init(&failing, n, for_good);
				answer_init(&mine, &failing.alloc);
				answer_request(&mine, &sources, HTTP_GET, rea_slice_of(targets[t]));
				if (failing.failed > 0) {
					assert_int_equal(mine.status, 503);
					assert_int_equal(rea_buffer_length(&mine.body), 0);
				} else {
					const char *whole = ask(HTTP_GET, targets[t]);

					assert_int_equal(mine.status, answer.status);
					assert_int_equal(rea_buffer_length(&mine.body), strlen(whole));
				}
				answer_fini(&mine);
				assert_int_equal(failing.live, 0);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(test_health, teardown),
	    cmocka_unit_test_teardown(test_config, teardown),
	    cmocka_unit_test_teardown(test_service, teardown),
	    cmocka_unit_test_teardown(test_openapi, teardown),
	    cmocka_unit_test_teardown(test_unknown_resources, teardown),
	    cmocka_unit_test_teardown(test_methods, teardown),
	    cmocka_unit_test_teardown(test_timeline_as_json, teardown),
	    cmocka_unit_test_teardown(test_timeline_as_text, teardown),
	    cmocka_unit_test_teardown(test_unknown_and_malformed_ids, teardown),
	    cmocka_unit_test_teardown(test_id_with_odd_bytes, teardown),
	    cmocka_unit_test_teardown(test_latest_events, teardown),
	    cmocka_unit_test_teardown(test_long_timeline_keeps_the_latest, teardown),
	    cmocka_unit_test_teardown(test_out_of_memory, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
