/* Scenario files: what they say is what is read, and every mistake is told with its place. */
#include "lab/scenario.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define LAYERS "layers: [{name: a, instances: 2, workers: 4, service-ms: 10}]\n"
#define HEAD "name: x\nload: 0.5\nduration-s: 20\nwarm-up-s: 5\n" LAYERS

static int parse(const char *text, struct lab_scenario *scenario, struct rea_error_info *info)
{
	return lab_scenario_parse("f", text, strlen(text), NULL, scenario, info);
}

static void test_values(void **state)
{
	struct lab_scenario scenario;
	struct rea_error_info info;

	(void)state;
	assert_int_equal(0,
	    parse("name: x\nrate: 40\nclients: 7\nduration-s: 30\nwarm-up-s: 10\ndeadline-ms: "
		  "2000\nattempt-timeout-ms: 500\n"
		  "layers:\n  - {name: edge, instances: 3}\n  - {name: shop, instances: 2, workers: 4, queue: 9, "
		  "service-ms: 20, sigma: 0.5, tail-share: "
		  "0.1, tail-factor: 3, gate: true}\n"
		  "operations:\n  - {name: pay, permission: with-key, key: true, share: 0.25}\n  - {name: read, "
		  "permission: safe, share: 0.75}\n"
		  "faults:\n  - {kind: slow, factor: 4, layer: edge, instance: C, at-ms: 12000, for-ms: 1000}\n"
		  "  - {kind: error, windows: 2, for-ms: 100, for-ms-max: 200, share: 0.5, status: 500, costly: true}\n"
		  "goals: [{figure: peak, value: 1.5}]\n",
		&scenario, &info));
	assert_string_equal("x", scenario.name);
	assert_true(lab_scenario_rate(&scenario) == 40);
	assert_int_equal(7, scenario.clients);
	assert_int_equal(UINT64_C(2000000000), scenario.deadline_ns);
	assert_int_equal(2, scenario.layers_len);
	assert_int_equal(9, scenario.layers[1].queue);
	assert_true(scenario.layers[1].gate);
	assert_int_equal(REA_PERMISSION_IDEMPOTENT_WITH_KEY, scenario.operations[0].permission);
	assert_true(scenario.operations[0].key);
	assert_int_equal(LAB_FAULT_SLOW, scenario.faults[0].kind);
	assert_int_equal(0, scenario.faults[0].layer);
	assert_int_equal(2, scenario.faults[0].instance);
	assert_int_equal(1, scenario.faults[1].layer);
	assert_int_equal(LAB_EVERY_INSTANCE, scenario.faults[1].instance);
	assert_int_equal(500, scenario.faults[1].status);
	assert_int_equal(LAB_PEAK, scenario.goals[0].figure);
	lab_scenario_fini(&scenario);
}

static void test_rate_from_load(void **state)
{
	struct lab_scenario scenario;
	struct rea_error_info info;

	(void)state;
	/* 2 instances of 4 slots do 800 requests of 10 ms a second. */
	assert_int_equal(0, parse(HEAD, &scenario, &info));
	assert_true(lab_scenario_rate(&scenario) == 400);
	lab_scenario_fini(&scenario);
}

static void test_mistakes(void **state)
{
	static const struct {
		const char *text;
		uint32_t line, column;
		const char *message;
	} cases[] = {
	    {"", 0, 0, "empty"},
	    {"load: 1\n" LAYERS, 1, 1, "a scenario needs a name"},
	    {"name: x\n" LAYERS, 1, 1, "needs `load` or `rate`"},
	    {"name: x\nload: 1\nrate: 1\n" LAYERS, 1, 1, "not both"},
	    {"name: x\nload: 1\n", 1, 1, "needs `layers`"},
	    {"name: x\nload: 1\nlayers: [{name: a}]\n", 1, 1, "its `workers`"},
	    {"name: x\nload: 1\nlayers: [{instances: 2}]\n", 3, 10, "a layer needs a name"},
	    {"name: x\nrate: 1\nlayers: [{name: a}, {name: a}]\n", 3, 21, "two layers are called a"},
	    {"name: x\nload: 0.5\nduration-s: 20\nwarm-up-s: 20\n" LAYERS, 1, 1, "leaves nothing"},
	    {HEAD "clients: 0\n", 6, 10, "a whole number from 1"},
	    {HEAD "client: 5\n", 6, 1, "did you mean"},
	    {HEAD "attempt-timeout-ms: 5000\n", 1, 1, "more than deadline-ms"},
	    {HEAD "operations: [{name: a, share: 0.5}]\n", 1, 1, "come to 0.5, not 1"},
	    {HEAD "faults: [{kind: explode, at-ms: 6000, for-ms: 1}]\n", 6, 17, "explode"},
	    {HEAD "faults: [{kind: hang, at-ms: 6000}]\n", 6, 10, "how long it lasts"},
	    {HEAD "faults: [{kind: hang, for-ms: 10}]\n", 6, 10, "`at-ms`, or `windows`"},
	    {HEAD "faults: [{kind: hang, at-ms: 4000, for-ms: 10}]\n", 6, 30, "within the warm-up"},
	    {HEAD "faults: [{kind: hang, at-ms: 19000, for-ms: 1001}]\n", 6, 30, "after the run's 20 s"},
	    {HEAD "faults: [{kind: hang, windows: 10, for-ms: 1600}]\n", 6, 11, "do not fit"},
	    {HEAD "faults: [{kind: hang, windows: 2, for-ms: 200, for-ms-max: 100}]\n", 6, 60, "less than for-ms"},
	    {HEAD "faults: [{kind: hang, at-ms: 6000, for-ms: 10, for-ms-max: 20}]\n", 6, 48, "is for `windows`"},
	    {HEAD "faults: [{kind: hang, instance: C, at-ms: 6000, for-ms: 10}]\n", 6, 33,
		"there is no instance C: the layer a has A to B"},
	    {HEAD "faults: [{kind: hang, layer: b, at-ms: 6000, for-ms: 10}]\n", 6, 30, "there is no layer b"},
	    {HEAD "faults: [{kind: slow, at-ms: 6000, for-ms: 10}]\n", 6, 10, "slow needs `factor`"},
	    {HEAD "faults: [{kind: hang, factor: 2, at-ms: 6000, for-ms: 10}]\n", 6, 23, "factor is for slow"},
	    {HEAD "faults: [{kind: capacity, at-ms: 6000, for-ms: 10}]\n", 6, 10, "capacity needs `share`"},
	    {HEAD "faults: [{kind: refuse, share: 0.5, at-ms: 6000, for-ms: 10}]\n", 6, 25, "as a whole"},
	    {HEAD "faults: [{kind: hang, status: 500, at-ms: 6000, for-ms: 10}]\n", 6, 23, "this is for error"},
	    {HEAD "goals: [{figure: speed, value: 1}]\n", 6, 18, "speed"},
	    {HEAD "goals: [{figure: peak}]\n", 6, 9, "`figure` and `value`"},
	    {"name: x\nrate: 1000000\nduration-s: 3600\n" LAYERS, 1, 1, "20000000 are the limit"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct lab_scenario scenario;
		struct rea_error_info info;

		assert_true(parse(cases[i].text, &scenario, &info) < 0);
		if (info.line != cases[i].line || info.column != cases[i].column ||
		    strstr(info.message, cases[i].message) == NULL)
			fail_msg("%zu: %u:%u: %s", i, info.line, info.column, info.message);
	}
}

static void test_settings(void **state)
{
	static const char *const settings[] = {"clients=9", "instances=5", "share=0.25", NULL};
	static const char *const unknown[] = {"colour=9", NULL}, *const out[] = {"share=1.5", NULL};
	static const char text[] = HEAD "faults: [{kind: error, at-ms: 6000, for-ms: 10}]\n";
	struct lab_scenario scenario;
	struct rea_error_info info;

	(void)state;
	assert_int_equal(0, lab_scenario_parse("f", text, strlen(text), settings, &scenario, &info));
	assert_int_equal(9, scenario.clients);
	assert_int_equal(5, scenario.layers[0].instances);
	assert_true(scenario.faults[0].share == 0.25);
	lab_scenario_fini(&scenario);
	assert_int_equal(REA_ERR_INVALID, lab_scenario_parse("f", text, strlen(text), unknown, &scenario, &info));
	assert_non_null(strstr(info.message, "colour=9 is no KEY=VALUE"));
	assert_int_equal(REA_ERR_INVALID, lab_scenario_parse("f", text, strlen(text), out, &scenario, &info));
	assert_string_equal("share", info.key);
}

static void test_no_file(void **state)
{
	struct lab_scenario scenario;
	struct rea_error_info info;

	(void)state;
	assert_int_equal(REA_ERR_IO, lab_scenario_load("/there/is/none", NULL, &scenario, &info));
	assert_string_equal("/there/is/none", info.file);
	assert_non_null(strstr(info.message, "No such file"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_values),
	    cmocka_unit_test(test_rate_from_load),
	    cmocka_unit_test(test_mistakes),
	    cmocka_unit_test(test_settings),
	    cmocka_unit_test(test_no_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
