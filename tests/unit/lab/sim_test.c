/*
 * The lab in virtual time, as CI runs it: every scenario that is shipped, two seeds. What must never happen does not, and a budget that lets everything through
 * is found out.
 */
#include "lab/sim.h"
#include "lab/study.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <glob.h>
#include <math.h>

static void load(const char *name, struct lab_scenario *scenario)
{
	struct rea_error_info info;
	char path[512];

	snprintf(path, sizeof(path), "%s/%s.yaml", getenv("REA_SCENARIOS"), name);
	if (lab_scenario_load(path, NULL, scenario, &info) != 0)
		fail_msg("%s:%u:%u: %s: %s", info.file, info.line, info.column, info.key, info.message);
}

/* "none" and the named policy. */
static void study_of(const struct lab_scenario *scenario, const char *policy, uint32_t seeds, struct lab_study *study)
{
	*study = (struct lab_study){
	    .scenario = scenario, .seeds = seeds, .first_seed = 1, .run = lab_sim_run, .entries_len = 2};
	assert_int_equal(0, lab_policy_find("none", scenario, &study->entries[0].policy));
	assert_int_equal(0, lab_policy_find(policy, scenario, &study->entries[1].policy));
	assert_int_equal(0, lab_study_run(study));
}

static void test_replay(void **state)
{
	struct lab_scenario scenario;
	struct lab_policy policy;
	struct lab_measure first, again, other;

	(void)state;
	load("S1", &scenario);
	assert_int_equal(0, lab_policy_find("adaptive", &scenario, &policy));
	assert_int_equal(0, lab_sim_run(NULL, &scenario, &policy, true, 42, &first));
	assert_int_equal(0, lab_sim_run(NULL, &scenario, &policy, true, 42, &again));
	assert_int_equal(0, lab_sim_run(NULL, &scenario, &policy, true, 43, &other));
	assert_memory_equal(&first.latencies, &again.latencies, sizeof(first.latencies));
	assert_memory_equal(first.arrivals, again.arrivals, first.bins * sizeof(*first.arrivals));
	assert_memory_equal(first.done_ok, again.done_ok, first.bins * sizeof(*first.done_ok));
	assert_memory_not_equal(first.arrivals, other.arrivals, first.bins * sizeof(*first.arrivals));
	lab_measure_fini(&first);
	lab_measure_fini(&again);
	lab_measure_fini(&other);
	lab_scenario_fini(&scenario);
}

/* What is offered, and what goes wrong, does not depend on the policy. */
static void test_same_for_all(void **state)
{
	struct lab_scenario scenario;
	struct lab_study study;

	(void)state;
	load("S1", &scenario);
	study_of(&scenario, "exponential", 2, &study);
	assert_memory_equal(study.entries[0].runs[0].begun, study.entries[1].runs[0].begun,
	    study.entries[0].runs[0].bins * sizeof(uint32_t));
	assert_int_equal(4, study.entries[0].runs[0].windows_len);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(study.entries[0].runs[0].windows[i].from_ns, study.entries[1].runs[0].windows[i].from_ns);
	lab_study_fini(&study);
	lab_scenario_fini(&scenario);
}

/* Half of the attempts fail, three are made: 87.5 % of the calls that end in the window succeed, 1.75 attempts each. */
static void test_against_arithmetic(void **state)
{
	struct lab_scenario scenario;
	struct lab_study study;

	(void)state;
	load("S1L", &scenario);
	study_of(&scenario, "full-jitter", 2, &study);
	assert_true(fabs(study.entries[0].figures[LAB_SUCCESS_INSIDE].median - 0.5) < 0.01);
	assert_true(fabs(study.entries[1].figures[LAB_SUCCESS_INSIDE].median - 0.875) < 0.01);
	assert_true(fabs(study.entries[1].figures[LAB_ATTEMPTS_INSIDE].median - 1.75) < 0.01);
	lab_study_fini(&study);
	lab_scenario_fini(&scenario);
}

/* settings: KEY=VALUE over the file's, or NULL. */
static void check_scenario(const char *path, const char *const *settings, uint32_t seeds)
{
	struct lab_scenario scenario;
	struct lab_study study;
	struct rea_error_info info;

	if (lab_scenario_load(path, settings, &scenario, &info) != 0)
		fail_msg("%s:%u:%u: %s", info.file, info.line, info.column, info.message);
	study_of(&scenario, "adaptive", seeds, &study);
	for (uint32_t seed = 0; seed < study.seeds; seed++) {
		const double *figures = study.entries[1].runs[seed].figures;

		if (figures[LAB_DUPLICATES] > 0 || figures[LAB_LATE] > 0 || figures[LAB_HARM] > 0.7 ||
		    figures[LAB_ATTEMPTS] > REA_ATTEMPTS_MAX)
			fail_msg("%s %s, seed %u: %g duplicates, %g late, %g points of harm, %g attempts",
			    scenario.name, settings ? settings[0] : "", seed + 1, figures[LAB_DUPLICATES],
			    figures[LAB_LATE], figures[LAB_HARM], figures[LAB_ATTEMPTS]);
	}
	lab_study_fini(&study);
	lab_scenario_fini(&scenario);
}

/* What must never happen does not happen in other sizes either: nothing is made for fifty clients. */
static void test_other_sizes(void **state)
{
	static const char *const names[] = {"S1", "S3", "S4", "S5"};
	static const char *const sizes[] = {
	    "clients=4", "clients=200", "instances=2", "instances=10", "load=0.5", "load=0.85", "sigma=1.1"};
	char path[512];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
			const char *const settings[] = {sizes[k], NULL};

			snprintf(path, sizeof(path), "%s/%s.yaml", getenv("REA_SCENARIOS"), names[i]);
			check_scenario(path, settings, 1);
		}
}

static void test_every_scenario(void **state)
{
	char pattern[512];
	glob_t found;

	(void)state;
	snprintf(pattern, sizeof(pattern), "%s/*.yaml", getenv("REA_SCENARIOS"));
	assert_int_equal(0, glob(pattern, 0, NULL, &found));
	assert_true(found.gl_pathc >= 17);
	for (size_t i = 0; i < found.gl_pathc; i++)
		check_scenario(found.gl_pathv[i], NULL, 2);
	globfree(&found);
}

/* Does the policy miss the goals of load and recovery? */
static bool is_red(const char *name, const char *policy)
{
	struct lab_scenario scenario;
	struct lab_study study;
	bool red = false;

	load(name, &scenario);
	study_of(&scenario, policy, 2, &study);
	for (uint32_t i = 0; i < scenario.goals_len; i++) {
		const struct lab_goal *goal = &scenario.goals[i];

		if (goal->figure == LAB_LOAD_INSIDE || goal->figure == LAB_PEAK || goal->figure == LAB_RECOVERY_S)
			red |= !lab_goal_met(goal, &study.entries[1]);
	}
	lab_study_fini(&study);
	lab_scenario_fini(&scenario);
	return red;
}

static void test_negative_control(void **state)
{
	(void)state;
	assert_false(is_red("S3", "adaptive"));
	assert_false(is_red("S4", "adaptive"));
	assert_true(is_red("S3", "always"));
	assert_true(is_red("S4", "always"));
}

/* Classic policies repeat writes whose answer was lost; the control must see it. */
static void test_duplicates_are_seen(void **state)
{
	struct lab_scenario scenario;
	struct lab_study study;

	(void)state;
	load("S5", &scenario);
	study_of(&scenario, "exponential", 2, &study);
	assert_true(study.entries[0].figures[LAB_DUPLICATES].median == 0);
	assert_true(study.entries[1].figures[LAB_DUPLICATES].median > 1000);
	lab_study_fini(&study);
	lab_scenario_fini(&scenario);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_replay),
	    cmocka_unit_test(test_same_for_all),
	    cmocka_unit_test(test_against_arithmetic),
	    cmocka_unit_test(test_every_scenario),
	    cmocka_unit_test(test_other_sizes),
	    cmocka_unit_test(test_negative_control),
	    cmocka_unit_test(test_duplicates_are_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
