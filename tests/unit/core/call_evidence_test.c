/* Calls under the budget's rule `evidence`: when they are parked, what they hold meanwhile, how they come back. */
#include "rig.h"

#include <rea/event.h>

#include <string.h>

static const struct rea_budget_policy evidence = {.rule = REA_BUDGET_EVIDENCE};
static struct rig rig;
static struct rea_budget *budget;
static struct rea_retry_limit parking;

/* Three instances, the adaptive profile, deadline 3 s. */
static int set_up(void **state)
{
	const struct rea_policy_layer *adaptive = rea_policy_profile("adaptive", strlen("adaptive"));

	(void)state;
	rig_init(&rig, 3);
	rea_policy_merge(&adaptive, 1, SIZE_MAX, &rig.policy);
	rig.policy.enabled = true;
	assert_int_equal(rea_budget_new(&evidence, 1, NULL, &budget, NULL), 0);
	rea_retry_limit_init(&parking, 2);
	rig.options.budget = budget;
	rig.options.parking = &parking;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	assert_int_equal(rea_retry_limit_in_use(&parking), 0);
	rea_budget_free(budget);
	return 0;
}

/* Everything fails: 12 in a row leave 14 % success, and the tokens are spent. */
static void outage(void)
{
	struct rea_budget_lease lease;

	for (int i = 0; i < 12; i++)
		rea_budget_report(budget, 0, REA_BUDGET_TRANSIENT, NULL, rig.base_ns);
	while (rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, rig.base_ns, &lease))
		;
}

static void life(uint64_t at_ms)
{
	for (int i = 0; i < 5; i++)
		rea_budget_report(budget, 0, REA_BUDGET_SUCCESS, NULL, rig.base_ns + MS(at_ms));
}

static void fail_first(enum rea_outcome outcome)
{
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	assert_attempt(&rig, 1, 0);
	rig_end(&rig, outcome, 0);
}

static void assert_parked(uint64_t until_ms)
{
	assert_int_equal(rig.decision.step, REA_STEP_WAIT);
	assert_int_equal(rig.decision.verdict, REA_VERDICT_RETRY);
	assert_string_equal(rea_reason_name(rig.decision.reason), "parked");
	assert_int_equal(rig.decision.wait_until_ns, rig.base_ns + MS(until_ms));
	assert_int_equal(rea_retry_limit_in_use(&parking), 1);
}

static void assert_says(const char *text)
{
	char said[REA_EVIDENCE_TEXT_MAX];

	rea_evidence_format(&rig.decision.evidence, said, sizeof(said));
	assert_string_equal(said, text);
}

/* Look at a parked call when it is due; returns when that was, in ms rounded up. */
static uint64_t look(void)
{
	uint64_t at_ms = rea_time_to_ms(rig.decision.wait_until_ns - rig.base_ns);

	rig_midpoint(&rig);
	rig_attempt(&rig, at_ms);
	return at_ms;
}

static void parked_until_it_is_hopeless(void **state)
{
	uint64_t at_ms = 0;

	(void)state;
	outage();
	fail_first(REA_OUTCOME_UNAVAILABLE);
	assert_int_equal(rig.decision.reason, REA_REASON_PARKED);
	assert_true(rig.decision.retryable);
	assert_true(rig.decision.wait_ns >= MS(50) && rig.decision.wait_ns <= MS(100));
	assert_int_equal(rea_retry_limit_in_use(&parking), 1);
	assert_says("success 12 %, tokens 0.1");
	/* Asked too early it says the same. */
	rig_attempt(&rig, 1);
	assert_int_equal(rig.decision.reason, REA_REASON_PARKED);
	while (rig.decision.step == REA_STEP_WAIT) {
		assert_int_equal(rig.decision.reason, REA_REASON_PARKED);
		assert_true(rig.decision.wait_ns <= MS(100));
		at_ms = look();
	}
	/* Half of its 3 s. */
	assert_give_up(&rig, 1, REA_REASON_BUDGET_EXHAUSTED);
	assert_true(at_ms >= 1500 && at_ms < 1600);
	assert_true(rig.decision.stop && rig.decision.retryable);
	assert_says("success 12 %, tokens 0.1");
}

static void back_when_life_is(void **state)
{
	uint64_t at_ms;

	(void)state;
	outage();
	fail_first(REA_OUTCOME_UNAVAILABLE);
	look();
	at_ms = look();
	life(at_ms + 1);
	at_ms = look();
	/* First it lets others go, for up to twice the time that it was parked; then it has its backoff like everybody. */
	assert_int_equal(rig.decision.reason, REA_REASON_PARKED);
	assert_true(rig.decision.wait_ns > 0 && rig.decision.wait_ns < MS(2 * at_ms));
	assert_int_equal(rig.decision.evidence.kind, REA_EVIDENCE_RECOVERING);
	at_ms = look();
	assert_int_equal(rig.decision.step, REA_STEP_WAIT);
	assert_int_equal(rig.decision.reason, REA_REASON_NONE);
	assert_true(rig.decision.wait_ns >= MS(10) && rig.decision.wait_ns <= MS(20));
	assert_int_equal(rea_retry_limit_in_use(&parking), 0);
	assert_says("");
	look();
	assert_attempt(&rig, 2, 1);
	rig_end(&rig, REA_OUTCOME_OK, at_ms + 100);
	assert_done(&rig, 2, REA_VERDICT_SUCCESS, REA_REASON_NONE);
}

static void a_token_lets_one_go(void **state)
{
	(void)state;
	outage();
	fail_first(REA_OUTCOME_UNAVAILABLE);
	for (int i = 0; i < 9; i++)
		rea_budget_deposit(budget, 0, rig.base_ns);
	look();
	assert_int_equal(rig.decision.reason, REA_REASON_NONE);
	assert_says("");
	look();
	assert_attempt(&rig, 2, 1);
	rig_end(&rig, REA_OUTCOME_UNAVAILABLE, 200);
	assert_int_equal(rig.decision.reason, REA_REASON_PARKED);
	rea_call_cancel(&rig.call, rig.base_ns + MS(210), &rig.decision);
	assert_give_up(&rig, 2, REA_REASON_CANCELLED);
}

static void the_parking_has_an_end(void **state)
{
	struct rig others[2];

	(void)state;
	outage();
	for (int i = 0; i < 2; i++) {
		fail_first(REA_OUTCOME_UNAVAILABLE);
		others[i] = rig;
	}
	assert_int_equal(rea_retry_limit_in_use(&parking), 2);
	fail_first(REA_OUTCOME_UNAVAILABLE);
	assert_give_up(&rig, 1, REA_REASON_BUDGET_EXHAUSTED);
	assert_says("2 calls parked");
	/* Whoever leaves makes room. */
	rea_call_refuse(&others[0].call, REA_REASON_OVERLOADED, rig.base_ns, &rig.decision);
	fail_first(REA_OUTCOME_UNAVAILABLE);
	assert_int_equal(rig.decision.reason, REA_REASON_PARKED);
	rea_call_cancel(&rig.call, rig.base_ns, &rig.decision);
	rea_call_cancel(&others[1].call, rig.base_ns, &rig.decision);
}

static void without_a_parking_it_is_given_up(void **state)
{
	(void)state;
	rig.options.parking = NULL;
	outage();
	fail_first(REA_OUTCOME_UNAVAILABLE);
	assert_give_up(&rig, 1, REA_REASON_BUDGET_EXHAUSTED);
	assert_says("success 12 %, tokens 0.1");
}

static void observe_mode_takes_no_place(void **state)
{
	(void)state;
	rig.policy.mode = REA_MODE_OBSERVE;
	outage();
	fail_first(REA_OUTCOME_UNAVAILABLE);
	assert_give_up(&rig, 1, REA_REASON_PARKED);
	assert_true(rig.decision.would_retry);
	assert_int_equal(rea_retry_limit_in_use(&parking), 0);
}

static void a_pause_keeps_the_place(void **state)
{
	struct rea_call_options options;
	struct rea_call_past past;
	uint64_t deadline_ns;

	(void)state;
	outage();
	fail_first(REA_OUTCOME_NEVER_SENT);
	deadline_ns = rea_call_deadline(&rig.call);
	rea_call_pause(&rig.call, &past);
	assert_true(past.park.held && past.refused == 1);
	assert_int_equal(rea_retry_limit_in_use(&parking), 1);
	options = rig.options;
	options.deadline_ns = deadline_ns;
	memset(&rig.call, 0x55, sizeof(past.lease));
	rea_call_resume(&rig.call, &options, &past, past.wait_until_ns);
	rig.decision.wait_until_ns = past.wait_until_ns;
	look();
	assert_int_equal(rig.decision.reason, REA_REASON_PARKED);
	rea_call_cancel(&rig.call, rig.base_ns + MS(200), &rig.decision);
}

static void unreachable_instances(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 2; i++) {
		if (i == 0)
			fail_first(REA_OUTCOME_NEVER_SENT);
		else
			rig_end(&rig, REA_OUTCOME_NEVER_SENT, 100 * i);
		/* Two of three are no proof. */
		assert_int_equal(rig.decision.reason, REA_REASON_NONE);
		rig_attempt(&rig, 100 * (i + 1));
	}
	/* The third is, and what is left are the two tokens. */
	rig_end(&rig, REA_OUTCOME_NEVER_SENT, 200);
	assert_int_equal(rig.decision.reason, REA_REASON_NONE);
	rig_attempt(&rig, 300);
	rig_end(&rig, REA_OUTCOME_NEVER_SENT, 300);
	assert_int_equal(rig.decision.reason, REA_REASON_NONE);
	rig_attempt(&rig, 400);
	rig_end(&rig, REA_OUTCOME_NEVER_SENT, 400);
	assert_int_equal(rig.decision.reason, REA_REASON_PARKED);
	assert_says("unreachable at 3 instances, tokens 0");
	assert_parked(475);
	rea_call_cancel(&rig.call, rig.base_ns + MS(500), &rig.decision);
}

/* Parked by an outage; life returns, and with it so many others that the service is slow. */
static void back_among_many_others(enum rea_outcome first)
{
	uint64_t at_ms;

	outage();
	fail_first(first);
	look();
	at_ms = look();
	life(at_ms + 1);
	at_ms = look();
	assert_int_equal(rig.decision.evidence.kind, REA_EVIDENCE_RECOVERING);
	for (int i = 0; i < 40; i++)
		rea_budget_report(budget, 0, REA_BUDGET_TIMEOUT, NULL, rig.base_ns + MS(at_ms));
	life(at_ms);
	look();
}

static void who_reached_nobody_goes_before_congestion(void **state)
{
	(void)state;
	back_among_many_others(REA_OUTCOME_NEVER_SENT);
	assert_int_equal(rig.decision.reason, REA_REASON_NONE);
	assert_int_equal(rig.decision.step, REA_STEP_WAIT);
	rea_call_cancel(&rig.call, rig.call.now_ns, &rig.decision);
}

static void who_was_served_does_not(void **state)
{
	(void)state;
	back_among_many_others(REA_OUTCOME_UNAVAILABLE);
	assert_int_equal(rig.decision.reason, REA_REASON_PARKED);
	assert_int_equal(rig.decision.evidence.kind, REA_EVIDENCE_TIMEOUTS);
	rea_call_cancel(&rig.call, rig.call.now_ns, &rig.decision);
}

static void the_second_pushback_without_a_time_is_the_last(void **state)
{
	struct rea_report pushback = {.outcome = REA_OUTCOME_PUSHBACK};

	(void)state;
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_report(&rig, &pushback, 0);
	assert_int_equal(rig.decision.step, REA_STEP_WAIT);
	rig_attempt(&rig, 100);
	rig_report(&rig, &pushback, 100);
	assert_give_up(&rig, 2, REA_REASON_SERVER_REFUSED);
	/* With a time it counts like any other: the second token. */
	pushback.flags = REA_REPORT_AFTER;
	pushback.after_ns = MS(200);
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_report(&rig, &pushback, 0);
	assert_int_equal(rig.decision.step, REA_STEP_WAIT);
	assert_true(rig.decision.wait_ns >= MS(200));
	rig_attempt(&rig, 300);
	rig_report(&rig, &pushback, 300);
	/* Pushed back and without a token nobody is parked. */
	assert_give_up(&rig, 2, REA_REASON_BUDGET_EXHAUSTED);
}

/* A full jitter may be any wait, so it is cut to one that fits; a wait that was asked for is not. */
static void waits_that_fit_the_deadline(void **state)
{
	struct rea_report report = {.outcome = REA_OUTCOME_UNAVAILABLE};

	(void)state;
	rig.options.useful_ns = MS(40);
	rig.policy.deadline_ns = rig.policy.attempt_timeout_ns = MS(150);
	for (uint64_t at_ms = 90; at_ms <= 103; at_ms++) {
		rig_begin(&rig);
		rig_attempt(&rig, 0);
		rea_random_init(&rig.random, at_ms);
		rea_call_report(&rig.call, &report, &rig.list, &rig.random, rig.base_ns + MS(at_ms), &rig.decision);
		/* 1.2 · 40 ms are left before 102; 1.1 · 40 ms are kept for the attempt where the wait was cut. */
		if (at_ms >= 102) {
			assert_give_up(&rig, 1, REA_REASON_DEADLINE);
			continue;
		}
		assert_int_equal(rig.decision.step, REA_STEP_WAIT);
		assert_true(rig.decision.wait_ns >= MS(1) && at_ms + 40 + rea_time_to_ms(rig.decision.wait_ns) <= 150);
		rea_call_cancel(&rig.call, rig.base_ns + MS(at_ms), &rig.decision);
	}
	report.flags = REA_REPORT_AFTER;
	report.after_ns = MS(70);
	rig_begin(&rig);
	rig_attempt(&rig, 0);
	rig_report(&rig, &report, 50);
	assert_give_up(&rig, 1, REA_REASON_DEADLINE);
}

/* ---- S3 in small: 300 calls a second, an outage of 1 s; what a service gets to bear ---- */

enum { CALLS = 900 };

struct played {
	struct rea_call call;
	struct rea_decision decision;
	uint64_t due_ns;
	bool over, ok, was_parked;
};

static void an_outage_in_virtual_time(void **state)
{
	static struct played calls[CALLS];
	uint32_t in_outage = 0, firsts_in_outage = 0, ok = 0, parked_max = 0, busiest = 0, ms_with_work = 0;

	(void)state;
	rea_retry_limit_configure(&parking, 1000);
	rea_random_init(&rig.random, 7);
	rig.list.balance = REA_BALANCE_LEAST_LOADED;
	for (uint64_t ms = 0; ms < 7000; ms++) {
		uint64_t now_ns = rig.base_ns + MS(ms);
		bool down = ms >= 1000 && ms < 2000;
		uint32_t sent = 0;

		for (uint64_t i = 0; i < CALLS && i * 10 / 3 <= ms; i++) {
			struct played *played = &calls[i];
			struct rea_report report = {
			    .outcome = down ? REA_OUTCOME_UNAVAILABLE : REA_OUTCOME_OK, .latency_ns = MS(1)};

			if (played->due_ns == 0) {
				rea_call_begin(&played->call, &rig.options, now_ns);
				played->due_ns = now_ns;
			}
			if (played->over || played->due_ns > now_ns)
				continue;
			rea_call_attempt(&played->call, &rig.list, &rig.random, now_ns, &played->decision);
			if (played->decision.step == REA_STEP_ATTEMPT) {
				sent++;
				in_outage += down;
				firsts_in_outage += down && played->decision.attempt == 1;
				rea_call_report(&played->call, &report, &rig.list, &rig.random, now_ns, &played->decision);
			}
			played->was_parked |= played->decision.reason == REA_REASON_PARKED;
			played->over = played->decision.step == REA_STEP_DONE;
			played->ok = played->over && played->decision.verdict == REA_VERDICT_SUCCESS;
			ok += played->ok;
			played->due_ns = played->decision.wait_until_ns;
		}
		busiest = ms >= 2000 && sent > busiest ? sent : busiest;
		ms_with_work += ms >= 2000 && sent > 0;
		parked_max = rea_retry_limit_in_use(&parking) > parked_max ? rea_retry_limit_in_use(&parking) : parked_max;
	}
	assert_int_equal(firsts_in_outage, 300);
	/* A tenth, two, and what was granted before the evidence was gone. */
	assert_true(in_outage - firsts_in_outage <= 30 + 2 + 30);
	assert_int_equal(ok, CALLS);
	assert_true(parked_max > 200);
	/* They come back over time, not in one blow. */
	assert_true(busiest <= 8 && ms_with_work > 300);
	for (size_t i = 0; i < CALLS; i++)
		assert_true(calls[i].over);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(parked_until_it_is_hopeless, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(back_when_life_is, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_token_lets_one_go, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(the_parking_has_an_end, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(without_a_parking_it_is_given_up, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(observe_mode_takes_no_place, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_pause_keeps_the_place, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(unreachable_instances, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(who_reached_nobody_goes_before_congestion, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(who_was_served_does_not, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(the_second_pushback_without_a_time_is_the_last, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(waits_that_fit_the_deadline, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(an_outage_in_virtual_time, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
