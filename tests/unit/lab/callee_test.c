/* What an instance does with requests, to the nanosecond: service times without spread are exact. */
#include "lab/callee.h"

#include <rea/time.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define MS(n) ((uint64_t)(n)*REA_NS_PER_MS)
#define WORKS 8

struct bed {
	struct lab_scenario scenario;
	struct lab_agenda agenda;
	struct lab_callee callee;
	struct lab_work works[WORKS];
	struct {
		enum lab_answer answer;
		uint64_t at_ns;
	} answers[WORKS];
	uint64_t now_ns;
};

static struct bed bed;

static void on_answered(struct lab_work *work, enum lab_answer answer, uint64_t now_ns)
{
	bed.answers[work - bed.works].answer = answer;
	bed.answers[work - bed.works].at_ns = now_ns;
}

/* One layer with 10 ms for each request. */
static void set_up(const char *layer, const char *rest)
{
	struct rea_error_info info;
	char text[1024];
	int length = snprintf(text, sizeof(text),
	    "name: x\nrate: 1\nduration-s: 20\nwarm-up-s: 1\nlayers: [{name: a, service-ms: 10, error-ms: 2, %s}]\n%s",
	    layer, rest);

	memset(&bed, 0, sizeof(bed));
	if (lab_scenario_parse("f", text, (size_t)length, NULL, &bed.scenario, &info) != 0)
		fail_msg("%u:%u: %s", info.line, info.column, info.message);
	assert_int_equal(0, lab_callee_init(&bed.callee, &bed.scenario, true, &bed.agenda, 1));
}

static void tear_down(void)
{
	lab_callee_fini(&bed.callee);
	lab_agenda_fini(&bed.agenda);
	lab_scenario_fini(&bed.scenario);
}

static void run_until(uint64_t at_ns)
{
	while (lab_agenda_next(&bed.agenda) <= at_ns)
		lab_agenda_fire(&bed.agenda, lab_agenda_next(&bed.agenda));
	bed.now_ns = at_ns;
}

static void arrive(int index, uint64_t call, uint64_t at_ns)
{
	run_until(at_ns);
	bed.works[index] = (struct lab_work){.call = call,
	    .attempt = 1,
	    .deadline_ns = at_ns + MS(1000),
	    .tells = true,
	    .call_deadline_ns = at_ns + MS(3000),
	    .answered = on_answered};
	assert_int_equal(0, lab_callee_arrive(&bed.callee.instances[0][0], &bed.works[index], at_ns));
}

static void assert_answer(int index, enum lab_answer answer, uint64_t at_ns)
{
	assert_int_equal(at_ns, bed.answers[index].at_ns);
	assert_int_equal(answer, bed.answers[index].answer);
}

static void test_slots_and_queue(void **state)
{
	(void)state;
	set_up("workers: 1, queue: 1", "");
	arrive(0, 0, MS(100));
	arrive(1, 1, MS(101));
	arrive(2, 2, MS(102)); /* no place left */
	run_until(MS(500));
	assert_answer(0, LAB_ANSWER_OK, MS(110));
	assert_answer(1, LAB_ANSWER_OK, MS(120));
	assert_answer(2, LAB_ANSWER_ERROR, MS(104));
	assert_int_equal(503, bed.works[2].status);
	assert_int_equal(3, bed.callee.instances[0][0].arrivals[1]);
	assert_int_equal(1, bed.callee.seen[0].executions);
	assert_int_equal(0, bed.callee.seen[2].executions);
	tear_down();
}

static void test_faults(void **state)
{
	(void)state;
	set_up("workers: 4",
	    "faults:\n - {kind: error, status: 500, at-ms: 2000, for-ms: 100}\n - {kind: error, costly: true, at-ms: "
	    "3000, for-ms: 100}\n"
	    " - {kind: hang, at-ms: 4000, for-ms: 100}\n - {kind: slow, factor: 5, at-ms: 5000, for-ms: 100}\n"
	    " - {kind: drop, at-ms: 6000, for-ms: 100}\n - {kind: refuse, at-ms: 7000, for-ms: 100}\n");
	arrive(0, 0, MS(1999));
	arrive(1, 1, MS(2000));
	arrive(2, 2, MS(3000));
	arrive(3, 3, MS(4000));
	arrive(4, 4, MS(5000));
	arrive(5, 5, MS(6000));
	run_until(MS(6999));
	assert_answer(0, LAB_ANSWER_OK, MS(2009));
	assert_answer(1, LAB_ANSWER_ERROR, MS(2002));
	assert_int_equal(500, bed.works[1].status);
	assert_answer(2, LAB_ANSWER_ERROR, MS(3010));
	assert_int_equal(0, bed.callee.seen[2].executions);
	assert_int_equal(0, bed.answers[3].at_ns);
	assert_true(lab_callee_leave(&bed.works[3]));
	assert_answer(4, LAB_ANSWER_OK, MS(5050));
	assert_answer(5, LAB_ANSWER_RESET, MS(6010));
	assert_int_equal(1, bed.callee.seen[5].executions);
	assert_false(lab_callee_refuses(&bed.callee, &bed.callee.instances[0][0], MS(6999)));
	assert_true(lab_callee_refuses(&bed.callee, &bed.callee.instances[0][0], MS(7000)));
	assert_false(lab_callee_refuses(&bed.callee, &bed.callee.instances[0][0], MS(7100)));
	assert_true(lab_callee_faulty(&bed.callee, MS(2050)));
	assert_false(lab_callee_faulty(&bed.callee, MS(2100)));
	tear_down();
}

static void test_capacity_comes_back(void **state)
{
	(void)state;
	set_up("workers: 2", "faults: [{kind: capacity, share: 0, at-ms: 2000, for-ms: 500}]\n");
	arrive(0, 0, MS(2100));
	arrive(1, 1, MS(2200));
	run_until(MS(2499));
	assert_int_equal(0, bed.answers[0].at_ns);
	run_until(MS(3000));
	assert_answer(0, LAB_ANSWER_OK, MS(2510));
	assert_answer(1, LAB_ANSWER_OK, MS(2510));
	tear_down();
}

static void test_who_leaves(void **state)
{
	(void)state;
	set_up("workers: 1, forgets: true", "");
	arrive(0, 0, MS(1000));
	arrive(1, 1, MS(1001));
	arrive(2, 2, MS(1002));
	assert_false(lab_callee_leave(&bed.works[0])); /* it is being worked on */
	assert_true(lab_callee_leave(&bed.works[1]));
	run_until(MS(2000));
	assert_answer(0, LAB_ANSWER_OK, MS(1010));
	assert_int_equal(0, bed.answers[1].at_ns);
	assert_answer(2, LAB_ANSWER_OK, MS(1020));
	assert_true(bed.callee.work_ns == (double)MS(20));
	assert_true(bed.callee.wasted_ns == (double)MS(10));
	tear_down();
}

static void test_gate(void **state)
{
	(void)state;
	/* The attempt timeout is 1 s: half of it is 50 requests of 10 ms. */
	set_up("workers: 1, gate: true", "");
	for (int i = 0; i < 4; i++)
		arrive(i, (uint64_t)i, MS(1000));
	bed.works[4] = (struct lab_work){
	    .call = 4, .deadline_ns = MS(1046), .tells = true, .call_deadline_ns = MS(3000), .answered = on_answered};
	assert_int_equal(0, lab_callee_arrive(&bed.callee.instances[0][0], &bed.works[4], MS(1000))); /* done at 1050: too late */
	run_until(MS(2000));
	assert_answer(3, LAB_ANSWER_OK, MS(1040));
	assert_answer(4, LAB_ANSWER_PUSHBACK, MS(1002));
	tear_down();
}

static void test_deadline_in_queue(void **state)
{
	(void)state;
	set_up("workers: 1, heeds-deadlines: true", "");
	arrive(0, 0, MS(1000));
	for (int i = 1; i < 3; i++) {
		bed.works[i] = (struct lab_work){
		    .call = 1, .deadline_ns = MS(1016), .tells = i == 1, .call_deadline_ns = MS(3000), .answered = on_answered};
		assert_int_equal(0, lab_callee_arrive(&bed.callee.instances[0][0], &bed.works[i], MS(1001)));
	}
	run_until(MS(2000));
	assert_answer(1, LAB_ANSWER_PUSHBACK, MS(1012));
	assert_answer(2, LAB_ANSWER_OK, MS(1020)); /* it did not tell */
	tear_down();
}

static void test_keys(void **state)
{
	(void)state;
	set_up("workers: 4, honours-keys: true", "operations: [{name: pay, permission: with-key, key: true}]\n");
	arrive(0, 7, MS(1000));
	arrive(1, 7, MS(1005)); /* joins, and looks again after 10 ms */
	arrive(2, 7, MS(1100));
	run_until(MS(2000));
	assert_answer(0, LAB_ANSWER_OK, MS(1010));
	assert_answer(1, LAB_ANSWER_OK, MS(1015));
	assert_answer(2, LAB_ANSWER_OK, MS(1102));
	assert_int_equal(1, bed.callee.seen[7].executions);
	tear_down();
}

static void test_late(void **state)
{
	(void)state;
	set_up("workers: 1", "");
	arrive(0, 0, MS(1000));
	bed.works[1] =
	    (struct lab_work){.call = 1, .deadline_ns = MS(1000), .call_deadline_ns = MS(1000), .answered = on_answered};
	assert_int_equal(0, lab_callee_arrive(&bed.callee.instances[0][0], &bed.works[1], MS(1000)));
	assert_int_equal(0, bed.callee.late);
	bed.works[2] =
	    (struct lab_work){.call = 1, .deadline_ns = MS(1000), .call_deadline_ns = MS(1000), .answered = on_answered};
	assert_int_equal(0, lab_callee_arrive(&bed.callee.instances[0][0], &bed.works[2], MS(1000) + 1));
	assert_int_equal(1, bed.callee.late);
	run_until(MS(2000));
	assert_int_equal(2, bed.callee.seen[1].executions);
	tear_down();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_slots_and_queue),
	    cmocka_unit_test(test_faults),
	    cmocka_unit_test(test_capacity_comes_back),
	    cmocka_unit_test(test_who_leaves),
	    cmocka_unit_test(test_gate),
	    cmocka_unit_test(test_deadline_in_queue),
	    cmocka_unit_test(test_keys),
	    cmocka_unit_test(test_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
