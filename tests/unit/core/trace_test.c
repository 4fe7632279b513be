/* The trace's format, and the script of tests/data/decision_trace.txt. `trace_test --print` prints that file as this build would have it. */
#include "trace_script.h"

static void assert_line(const struct rea_decision *decision, const struct rea_report *report,
    const struct rea_instance_id *instance, uint64_t now_ns, const char *expected)
{
	char line[REA_TRACE_LINE_MAX];

	assert_int_equal(rea_trace_line(decision, report, instance, S(1000), now_ns, line, sizeof(line)), strlen(expected));
	assert_string_equal(line, expected);
}

static void the_format(void **state)
{
	struct rea_report report = {.outcome = REA_OUTCOME_UNAVAILABLE, .code_kind = REA_CODE_HTTP, .code = 503};
	struct rea_decision decision = {
	    .step = REA_STEP_WAIT, .verdict = REA_VERDICT_RETRY, .attempt = 1, .attempts_max = 2, .wait_ns = MS(104)};
	struct rea_instance_id id = rig_id(0);

	(void)state;
	assert_line(&decision, &report, &id,
	    S(1000) + 12345678, "t=12.345ms attempt=1/2 instance=127.0.0.1:9001 outcome=unavailable code=503 verdict=retry reason=- wait=104.000ms");
	report.code_kind = REA_CODE_GRPC;
	report.code = 14;
	decision.step = REA_STEP_DONE;
	decision.verdict = REA_VERDICT_GIVE_UP;
	decision.reason = REA_REASON_BUDGET_EXHAUSTED;
	assert_line(&decision, &report, &id,
	    S(1000), "t=0.000ms attempt=1/2 instance=127.0.0.1:9001 outcome=unavailable code=grpc:14 verdict=give_up reason=budget_exhausted wait=-");
	decision =
	    (struct rea_decision){.step = REA_STEP_ATTEMPT, .verdict = REA_VERDICT_RETRY, .attempt = 2, .attempts_max = 2};
	assert_line(&decision, NULL, &id, S(1001),
	    "t=1000.000ms attempt=2/2 instance=127.0.0.1:9001 outcome=- code=- verdict=- reason=- wait=-");
	/* Before the base: 0. */
	decision = (struct rea_decision){.step = REA_STEP_DONE, .verdict = REA_VERDICT_SUCCESS, .attempts_max = 2};
	assert_line(&decision, NULL, NULL, 0,
	    "t=0.000ms attempt=0/2 instance=- outcome=- code=- verdict=success reason=- wait=-");
}

static void the_longest_line_fits(void **state)
{
	struct rea_report report = {.outcome = REA_OUTCOME_UNAVAILABLE, .code_kind = REA_CODE_ERRNO, .code = UINT32_MAX};
	struct rea_decision decision = {.step = REA_STEP_WAIT,
	    .verdict = REA_VERDICT_GIVE_UP,
	    .reason = REA_REASON_NO_UNTRIED_INSTANCE,
	    .would_retry = true,
	    .attempt = UINT32_MAX,
	    .attempts_max = UINT32_MAX,
	    .wait_ns = UINT64_MAX};
	struct rea_instance_id id = {.port = UINT16_MAX};
	char line[REA_TRACE_LINE_MAX], cut[10];

	(void)state;
	memset(id.address, 0xff, sizeof(id.address));
	assert_in_range(rea_trace_line(&decision, &report, &id, 0, UINT64_MAX, line, sizeof(line)), 200, sizeof(line) - 1);
	assert_int_equal(rea_trace_line(&decision, &report, &id, 0, UINT64_MAX, cut, sizeof(cut)), strlen(line));
	assert_memory_equal(cut, line, sizeof(cut) - 1);
	assert_int_equal(cut[sizeof(cut) - 1], '\0');
}

/* ---- the script ---- */

static void call_begin(struct player *player)
{
	rea_random_init(&player->rig.random, player->seed);
	rea_call_begin(&player->rig.call, &player->rig.options, player->now_ns);
}

static void call_attempt(struct player *player)
{
	struct rig *rig = &player->rig;

	rea_call_attempt(&rig->call, &rig->list, &rig->random, player->now_ns, &rig->decision);
	if (rig->decision.step == REA_STEP_ATTEMPT)
		player->instance = rig->items[rig->decision.instance].id;
}

static void call_report(struct player *player, const struct rea_report *report)
{
	struct rig *rig = &player->rig;

	rea_call_report(&rig->call, report, &rig->list, &rig->random, player->now_ns, &rig->decision);
}

static void call_cancel(struct player *player)
{
	rea_call_cancel(&player->rig.call, player->now_ns, &player->rig.decision);
}

static const struct face call_face = {call_begin, call_attempt, call_report, call_cancel, NULL};

static void the_script(void **state)
{
	(void)state;
	assert_script(&call_face, NULL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_format),
	    cmocka_unit_test(the_longest_line_fits),
	    cmocka_unit_test(the_script),
	};

	if (argc == 2 && strcmp(argv[1], "--print") == 0) {
		struct player player = {.face = &call_face, .printed = stdout};

		script_play(&player, script_open());
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
