/* Ejection, probes and readmission through the calls that cause them. Times in ms. */
#include "rig.h"

#include <string.h>

static struct rig rig;
static struct rea_load loads[RIG_INSTANCES];
static uint64_t now_ns;

static void set_up(size_t instances, enum rea_balance balance)
{
	rig_init(&rig, instances);
	rea_random_init(&rig.random, 7);
	rig.list.balance = balance;
	rig.list.equal_weights = true;
	now_ns = rig.base_ns;
	for (size_t i = 0; i < RIG_INSTANCES; i++) {
		loads[i] = (struct rea_load){0};
		rig.items[i].load = &loads[i];
	}
}

static bool ejected(size_t instance)
{
	return rea_load_ejected(&loads[instance]);
}

static size_t ejected_count(void)
{
	size_t count = 0;

	for (size_t i = 0; i < rig.list.count; i++)
		count += ejected(i);
	return count;
}

/* An attempt under way ends as it does through rea: the load hears of it, then the call. */
static void end(struct rea_call *call, size_t instance, enum rea_outcome outcome, uint64_t latency_ns)
{
	struct rea_report report = {.outcome = outcome, .latency_ns = latency_ns};

	rea_load_end(&loads[instance], &report, now_ns);
	rea_call_report(call, &report, &rig.list, &rig.random, now_ns, &rig.decision);
}

/* A call's next attempt; returns its instance, SIZE_MAX = there was none. */
static size_t attempt(struct rea_call *call)
{
	rea_call_attempt(call, &rig.list, &rig.random, now_ns, &rig.decision);
	if (rig.decision.step != REA_STEP_ATTEMPT)
		return SIZE_MAX;
	rea_load_begin(&loads[rig.decision.instance], now_ns);
	return rig.decision.instance;
}

static size_t begin(struct rea_call *call)
{
	rea_call_begin(call, &rig.options, now_ns);
	return attempt(call);
}

/* One attempt at this instance that ends at once, whatever else there is. */
static void see(size_t instance, enum rea_outcome outcome)
{
	const struct rea_instances alone = {.items = &rig.items[instance], .count = 1};
	struct rea_call call;

	rea_call_begin(&call, &rig.options, now_ns);
	rea_call_attempt(&call, &alone, &rig.random, now_ns, &rig.decision);
	assert_int_equal(rig.decision.step, REA_STEP_ATTEMPT);
	rea_load_begin(&loads[instance], now_ns);
	end(&call, instance, outcome, 0);
}

static void see_many(size_t instance, unsigned answers, unsigned failures)
{
	while (answers-- > 0)
		see(instance, REA_OUTCOME_OK);
	while (failures-- > 0)
		see(instance, REA_OUTCOME_UNAVAILABLE);
}

/* ---- the judgement ---- */

static void one_bad_of_four_after_three_failures(void **state)
{
	unsigned failures = 0;

	(void)state;
	set_up(4, REA_BALANCE_LEAST_LOADED);
	for (int i = 0; i < 40000; i++, now_ns += MS(5)) {
		bool bad = i >= 1000;
		struct rea_call call;
		size_t instance = begin(&call);

		failures += bad && instance == 2;
		end(&call, instance, bad && instance == 2 ? REA_OUTCOME_NEVER_SENT : REA_OUTCOME_OK, 0);
		while (rig.decision.step == REA_STEP_WAIT) {
			now_ns = rig.decision.wait_until_ns;
			instance = attempt(&call);
			assert_true(instance != 2);
			end(&call, instance, REA_OUTCOME_OK, 0);
		}
		if (failures == 3)
			break;
		assert_int_equal(ejected_count(), 0);
	}
	assert_int_equal(failures, 3);
	assert_true(ejected(2));
	assert_int_equal(ejected_count(), 1);
	/* Until a probe is due nothing goes there. */
	for (now_ns += 1; now_ns < loads[2].ejection.until_ns; now_ns += MS(1)) {
		struct rea_call call;
		size_t instance = begin(&call);

		assert_true(instance != 2);
		end(&call, instance, REA_OUTCOME_OK, 0);
	}
}

/* Instance 0 against the other two, who share what is said of them. */
static void who_is_worse(void **state)
{
	static const struct {
		unsigned answers, failures;               /* of instance 0, in this order */
		unsigned others_answers, others_failures; /* of instance 1; instance 2 answers once and fails never */
		bool worse;
	} cases[] = {
	    {0, 3, 9, 0, false}, /* with three more failures, 3 of 10 */
	    {0, 3, 10, 0, true}, /* 3 of 11 */
	    {0, 2, 100, 0, false},
	    {100, 3, 100, 0, true},
	    {100, 2, 100, 0, false},
	    {0, 3, 11, 1, false}, /* 4 of 13 */
	    {0, 3, 12, 1, false}, /* 4 of 14, but a fourteenth twice is more than the three that are left out */
	    {0, 4, 12, 1, true},  /* 1 of 4 against 1 of 14, twice */
	    {0, 100, 70, 30, false},
	    {0, 100, 75, 25, true},
	    {30, 35, 75, 25, false}, /* 32 of 65 are less than twice 25 of 101 */
	    {30, 36, 75, 25, true},
	    {4, 5, 100, 0, true},
	    {0, 100, 0, 100, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		set_up(3, REA_BALANCE_LISTED);
		see_many(1, cases[i].others_answers, cases[i].others_failures);
		see(2, REA_OUTCOME_OK);
		/* The others' own failures eject nobody here. */
		assert_int_equal(ejected_count(), 0);
		see_many(0, cases[i].answers, cases[i].failures);
		if (ejected(0) != cases[i].worse)
			fail_msg("case %zu: %s", i, ejected(0) ? "ejected" : "not ejected");
	}
}

/* Half of ten attempts does without a streak. */
static void half_of_ten(void **state)
{
	(void)state;
	set_up(2, REA_BALANCE_LISTED);
	see_many(1, 50, 0);
	for (int i = 0; i < 4; i++)
		see_many(0, 1, 1);
	assert_false(ejected(0));
	see_many(0, 1, 1);
	assert_true(ejected(0));
	assert_int_equal(loads[0].ejection.streak, 1);
}

static void only_what_is_recent(void **state)
{
	(void)state;
	/* The peers' answers are gone after 5 s at the latest, after 2.5 s at the earliest. */
	set_up(2, REA_BALANCE_LISTED);
	see_many(1, 50, 0);
	now_ns += MS(4999);
	see_many(1, 1, 0);
	see_many(0, 0, 3);
	assert_true(ejected(0));
	set_up(2, REA_BALANCE_LISTED);
	see_many(1, 50, 0);
	now_ns += S(5);
	see_many(1, 1, 0);
	see_many(0, 0, 3);
	assert_false(ejected(0));
	set_up(2, REA_BALANCE_LISTED);
	see_many(1, 50, 0);
	now_ns += MS(2500);
	see_many(1, 1, 0);
	assert_int_equal(loads[1].ejection.attempts, 1);
	assert_int_equal(loads[1].ejection.attempts_before, 50);
	now_ns += MS(2499);
	see_many(0, 0, 2);
	see_many(1, 1, 0);
	see_many(0, 0, 1);
	assert_true(ejected(0));
	/* A streak lasts. */
	set_up(2, REA_BALANCE_LISTED);
	see_many(0, 0, 2);
	now_ns += S(6);
	see_many(1, 50, 0);
	see_many(0, 0, 1);
	assert_int_equal(loads[0].ejection.streak, 3);
	assert_int_equal(loads[0].ejection.failures, 1);
	assert_true(ejected(0));
}

/* That they did well before says nothing of a moment in which everything begins to fail. */
static void the_others_do_well_now(void **state)
{
	(void)state;
	set_up(5, REA_BALANCE_LISTED);
	for (size_t i = 0; i < 5; i++)
		see_many(i, 50, 0);
	now_ns += MS(1);
	see_many(0, 0, 3);
	assert_false(ejected(0));
	see(1, REA_OUTCOME_OK);
	see(0, REA_OUTCOME_UNAVAILABLE);
	assert_false(ejected(0));
	see(2, REA_OUTCOME_UNAVAILABLE);
	see(3, REA_OUTCOME_OK);
	see(0, REA_OUTCOME_UNAVAILABLE);
	assert_false(ejected(0)); /* two of three do */
	see(4, REA_OUTCOME_OK);
	see(0, REA_OUTCOME_UNAVAILABLE);
	assert_true(ejected(0));
	/* Where all that were asked do, two are enough: the second repetition of three is the last one known when the third failure is judged. */
	set_up(4, REA_BALANCE_LISTED);
	for (size_t i = 0; i < 4; i++)
		see_many(i, 50, 0);
	now_ns += MS(1);
	for (size_t i = 1; i < 4; i++) {
		see(0, REA_OUTCOME_UNAVAILABLE);
		assert_int_equal(ejected(0), i == 3);
		see(i, REA_OUTCOME_OK);
	}
	/* Of a few, all that were asked of late: one that nobody has asked for 5 s is not waited for. */
	set_up(4, REA_BALANCE_LISTED);
	see(3, REA_OUTCOME_OK);
	now_ns += S(5) - 1;
	see_many(1, 50, 0);
	see_many(2, 50, 0);
	now_ns += 1;
	see_many(0, 0, 3);
	see(1, REA_OUTCOME_OK);
	see(0, REA_OUTCOME_UNAVAILABLE);
	assert_false(ejected(0));
	see(2, REA_OUTCOME_OK);
	see(0, REA_OUTCOME_UNAVAILABLE);
	assert_true(ejected(0));
}

static void answer_after_20_ms(size_t instance)
{
	const struct rea_report report = {.outcome = REA_OUTCOME_OK, .latency_ns = MS(20)};

	rea_load_begin(&loads[instance], now_ns);
	now_ns += MS(20);
	rea_load_end(&loads[instance], &report, now_ns);
}

/* Of two instances the first gives no answer for so long, and the other one does, in 20 ms, at that time. */
static void wait_in_vain(struct rea_call *call, uint64_t wait_ns, uint64_t peer_ns)
{
	set_up(2, REA_BALANCE_LISTED);
	for (int i = 0; i < 50; i++)
		answer_after_20_ms(1);
	assert_int_equal(begin(call), 0);
	now_ns += peer_ns - MS(20);
	answer_after_20_ms(1);
	now_ns += wait_ns - peer_ns;
	end(call, 0, REA_OUTCOME_AMBIGUOUS, wait_ns);
}

static void silence_counts_twice(void **state)
{
	static const struct {
		uint64_t wait_ns, peer_ns;
		uint32_t streak;
	} cases[] = {
	    {MS(160), MS(100), 2}, {MS(160) - 1, MS(100), 1}, /* less than eight times what the peer takes */
	    {MS(1000), MS(841), 2}, {MS(1000), MS(840), 1},   /* the peer has been silent as long */
	};
	struct rea_call call;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		wait_in_vain(&call, cases[i].wait_ns, cases[i].peer_ns);
		assert_int_equal(loads[0].ejection.streak, cases[i].streak);
		assert_int_equal(loads[0].ejection.suspect, cases[i].streak == 2);
	}
	/* Who answers somebody else is not silent. */
	wait_in_vain(&call, MS(160), MS(100));
	assert_int_equal(begin(&call), 0);
	now_ns += MS(500);
	see(0, REA_OUTCOME_OK);
	assert_false(loads[0].ejection.suspect);
	answer_after_20_ms(1);
	end(&call, 0, REA_OUTCOME_AMBIGUOUS, MS(520));
	assert_int_equal(loads[0].ejection.streak, 1);
}

/* A suspect, and one that is ejected, are found out in twice what their peers take, 100 ms at least, if the call can go elsewhere. */
static void finding_out_takes_no_second(void **state)
{
	struct rea_call call;

	(void)state;
	wait_in_vain(&call, MS(1000), MS(900));
	assert_int_equal(begin(&call), 0);
	assert_true(rig.decision.attempt_deadline_ns == now_ns + MS(100));
	end(&call, 0, REA_OUTCOME_CANCELLED, 0);
	loads[1].latency_ns = 60e6;
	assert_int_equal(begin(&call), 0);
	assert_true(rig.decision.attempt_deadline_ns == now_ns + MS(120));
	now_ns += MS(100);
	answer_after_20_ms(1);
	end(&call, 0, REA_OUTCOME_AMBIGUOUS, MS(120));
	assert_true(ejected(0));
	loads[1].latency_ns = 60e6;
	now_ns = loads[0].ejection.until_ns;
	assert_int_equal(begin(&call), 0);
	assert_true(rig.decision.attempt_deadline_ns == now_ns + MS(120));
	end(&call, 0, REA_OUTCOME_AMBIGUOUS, MS(120));
	/* A call that would not be repeated has all its time. */
	rig.options.grant.permission = REA_PERMISSION_UNKNOWN;
	now_ns = loads[0].ejection.until_ns + 2 * (uint64_t)loads[0].ejection.pause_ns;
	assert_int_equal(begin(&call), 0);
	assert_true(rig.decision.attempt_deadline_ns == now_ns + rig.policy.attempt_timeout_ns);
}

static void never_more_than_half(void **state)
{
	static const size_t most[] = {0, 0, 1, 1, 2, 2, 3};

	(void)state;
	for (size_t count = 1; count <= 6; count++) {
		set_up(count, REA_BALANCE_LISTED);
		for (size_t i = 0; i + 1 < count; i++) {
			see_many(count - 1, 1000, 0);
			see_many(i, 0, 3);
		}
		if (count == 1)
			see_many(0, 0, 50);
		assert_int_equal(ejected_count(), most[count]);
	}
	/* What is not measured counts as one of the set, and accuses nobody. */
	set_up(4, REA_BALANCE_LISTED);
	rig.items[2].load = rig.items[3].load = NULL;
	see_many(1, 0, 3);
	assert_int_equal(ejected_count(), 0);
	see_many(0, 50, 0);
	see_many(1, 0, 3);
	assert_true(ejected(1));
}

/* A caller who left and a call that was refused for good are no failures. */
static void what_is_no_failure(void **state)
{
	(void)state;
	set_up(2, REA_BALANCE_LISTED);
	see_many(1, 50, 0);
	for (int i = 0; i < 20; i++) {
		see(0, REA_OUTCOME_CANCELLED);
		see(0, REA_OUTCOME_PERMANENT);
	}
	assert_false(ejected(0));
	assert_int_equal(loads[0].ejection.failures, 0);
	assert_int_equal(loads[0].ejection.attempts, 20);
}

/* ---- everything fails ---- */

static void nothing_is_ejected_while_all_fail(void **state)
{
	static const unsigned rates[] = {20, 100, 1000}, percents[] = {50, 75, 100};
	unsigned failed = 0;

	(void)state;
	rea_random_init(&rig.random, 1);
	for (size_t r = 0; r < 3; r++)
		for (size_t p = 0; p < 3; p++)
			for (size_t count = 2; count <= 10; count += 2)
				for (uint64_t seed = 1; seed <= 5; seed++) {
					struct rea_random outcomes;
					struct rea_call call;

					set_up(count, REA_BALANCE_LEAST_LOADED);
					rea_random_init(&outcomes, seed);
					rea_random_init(&rig.random, seed + 100);
					for (uint64_t t = 0; t < 60 * rates[r]; t++, now_ns += REA_NS_PER_S / rates[r]) {
						size_t instance = begin(&call);
						bool fails = rea_random_below(&outcomes, 100) < percents[p];

						failed += fails;
						end(&call, instance, fails ? REA_OUTCOME_UNAVAILABLE : REA_OUTCOME_OK,
						    MS(1));
						assert_int_equal(ejected_count(), 0);
					}
				}
	assert_true(failed > 1000000);
}

/* ---- pauses and probes ---- */

static void eject_first(void)
{
	see_many(1, 50, 0);
	see_many(0, 0, 3);
	assert_true(ejected(0));
}

static void pauses_double_and_have_an_end(void **state)
{
	static const uint64_t times[] = {1, 2, 4, 8, 15, 15, 15};
	struct rea_call call;
	uint64_t pause;

	(void)state;
	set_up(2, REA_BALANCE_LISTED);
	eject_first();
	pause = loads[0].ejection.pause_ns;
	assert_in_range(pause, MS(1600), MS(2400));
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		assert_true(loads[0].ejection.until_ns == now_ns + times[i] * pause);
		now_ns += times[i] * pause - 1;
		assert_int_equal(begin(&call), 1);
		end(&call, 1, REA_OUTCOME_OK, 0);
		now_ns++;
		assert_int_equal(begin(&call), 0);
		assert_true(loads[0].ejection.probe_ns == now_ns);
		end(&call, 0, REA_OUTCOME_NEVER_SENT, 0);
		assert_true(loads[0].ejection.probe_ns == 0);
	}
	assert_int_equal(loads[0].ejection.doublings, 4);
}

static void pauses_differ(void **state)
{
	uint64_t least = MS(2400), most = MS(1600);

	(void)state;
	for (uint64_t seed = 0; seed < 1000; seed++) {
		set_up(2, REA_BALANCE_LISTED);
		rea_random_init(&rig.random, seed);
		eject_first();
		least = rea_time_min(least, loads[0].ejection.pause_ns);
		most = rea_time_max(most, loads[0].ejection.pause_ns);
	}
	assert_in_range(least, MS(1600), MS(1605));
	assert_in_range(most, MS(2395), MS(2400));
}

static void three_answers_readmit(void **state)
{
	struct rea_call call, other;

	(void)state;
	set_up(2, REA_BALANCE_LISTED);
	eject_first();
	now_ns = loads[0].ejection.until_ns;
	for (uint32_t proof = 0; proof < 3; proof++, now_ns += MS(10)) {
		assert_int_equal(loads[0].ejection.proofs, proof);
		assert_int_equal(begin(&call), 0);
		/* One at a time. */
		assert_int_equal(begin(&other), 1);
		end(&other, 1, REA_OUTCOME_OK, 0);
		now_ns += MS(20);
		end(&call, 0, REA_OUTCOME_OK, MS(20));
	}
	assert_false(ejected(0));
	/* It begins anew. */
	assert_true(loads[0].failure_rate == 0);
	assert_true(loads[0].latency_ns == 20e6);
	assert_int_equal(loads[0].ejection.streak, 0);
	assert_int_equal(loads[0].ejection.attempts, 0);
	/* Out again within 30 s: the pause has doubled. After 30 s in it is short again. */
	see_many(1, 50, 0);
	see_many(0, 0, 3);
	assert_int_equal(loads[0].ejection.doublings, 1);
	assert_true(loads[0].ejection.until_ns == now_ns + 2 * (uint64_t)loads[0].ejection.pause_ns);
	now_ns = loads[0].ejection.until_ns;
	see_many(0, 3, 0);
	assert_false(ejected(0));
	now_ns += S(30);
	see_many(1, 50, 0);
	see_many(0, 0, 3);
	assert_int_equal(loads[0].ejection.doublings, 0);
	/* A failure after two answers takes them back. */
	now_ns = loads[0].ejection.until_ns;
	see_many(0, 2, 1);
	assert_int_equal(loads[0].ejection.proofs, 0);
	now_ns = loads[0].ejection.until_ns;
	see_many(0, 2, 0);
	assert_true(ejected(0));
	see_many(0, 1, 0);
	assert_false(ejected(0));
}

static void what_was_under_way_before_decides_nothing(void **state)
{
	struct rea_call old, probe;

	(void)state;
	set_up(2, REA_BALANCE_LISTED);
	see_many(1, 50, 0);
	assert_int_equal(begin(&old), 0);
	see_many(0, 0, 3);
	now_ns = loads[0].ejection.until_ns;
	assert_int_equal(begin(&probe), 0);
	end(&old, 0, REA_OUTCOME_AMBIGUOUS, now_ns - rig.base_ns);
	assert_true(loads[0].ejection.probe_ns == now_ns);
	assert_int_equal(loads[0].ejection.doublings, 0);
	now_ns += MS(1);
	end(&probe, 0, REA_OUTCOME_OK, MS(1));
	assert_int_equal(loads[0].ejection.proofs, 1);
}

static void a_probe_cannot_stick(void **state)
{
	struct rea_call call;
	uint64_t sent_ns;

	(void)state;
	set_up(2, REA_BALANCE_LISTED);
	eject_first();
	now_ns = loads[0].ejection.until_ns;
	/* The caller leaves: the next one is the probe. */
	assert_int_equal(begin(&call), 0);
	end(&call, 0, REA_OUTCOME_CANCELLED, 0);
	assert_int_equal(loads[0].ejection.proofs, 0);
	assert_int_equal(loads[0].ejection.doublings, 0);
	/* Its end is never told. */
	sent_ns = now_ns;
	assert_int_equal(begin(&call), 0);
	now_ns = sent_ns + S(30) - 1;
	assert_int_equal(begin(&call), 1);
	end(&call, 1, REA_OUTCOME_OK, 0);
	now_ns++;
	assert_int_equal(begin(&call), 0);
}

static void only_calls_that_would_be_repeated_are_probes(void **state)
{
	struct rea_call call;
	uint64_t due_ns, pause_ns;

	(void)state;
	for (int i = 0; i < 7; i++) {
		set_up(2, REA_BALANCE_LISTED);
		eject_first();
		due_ns = loads[0].ejection.until_ns;
		pause_ns = loads[0].ejection.pause_ns;
		switch (i) {
		case 0:
			rig.options.grant.permission = REA_PERMISSION_UNKNOWN;
			break;
		case 1:
			rig.options.grant.permission = REA_PERMISSION_IDEMPOTENT_WITH_KEY;
			break;
		case 2:
			rig.policy.enabled = false;
			break;
		case 3:
			rig.policy.max_retry_next_instance = 0;
			break;
		case 4:
			rig.options.chained = true;
			break;
		case 5:
			rig.policy.mode = REA_MODE_OBSERVE;
			break;
		case 6:
			rig.items[0].grant = (struct rea_grant){REA_PERMISSION_FORBID, REA_PERMISSION_SOURCE_REGISTRY};
			break;
		}
		now_ns = due_ns + pause_ns - 1;
		assert_int_equal(begin(&call), 1);
		end(&call, 1, REA_OUTCOME_OK, 0);
		now_ns++;
		assert_int_equal(begin(&call), 0);
	}
	set_up(2, REA_BALANCE_LISTED);
	eject_first();
	now_ns = loads[0].ejection.until_ns;
	rig.options.grant.permission = REA_PERMISSION_IDEMPOTENT_WITH_KEY;
	rig.options.has_key = true;
	assert_int_equal(begin(&call), 0);
}

/* A call that has failed once is not tried on it, however long ago the probe was due. */
static void a_retry_is_no_probe(void **state)
{
	struct rea_call call;

	(void)state;
	set_up(3, REA_BALANCE_LISTED);
	rig.policy.deadline_ns = S(100);
	see_many(1, 50, 0);
	see_many(0, 0, 3);
	assert_int_equal(begin(&call), 1);
	end(&call, 1, REA_OUTCOME_UNAVAILABLE, 0);
	now_ns = loads[0].ejection.until_ns + S(10);
	assert_int_equal(attempt(&call), 2);
}

/* ---- the last resort ---- */

static void retries_take_an_ejected_one_when_nothing_else_is_left(void **state)
{
	struct rea_call call;

	(void)state;
	set_up(3, REA_BALANCE_LISTED);
	rig.policy.max_retry_next_instance = 3;
	eject_first();
	now_ns += MS(10);
	assert_int_equal(begin(&call), 1);
	end(&call, 1, REA_OUTCOME_UNAVAILABLE, 0);
	now_ns = rig.decision.wait_until_ns;
	assert_int_equal(attempt(&call), 2);
	end(&call, 2, REA_OUTCOME_UNAVAILABLE, 0);
	now_ns = rig.decision.wait_until_ns;
	/* Rule 10 counts it as untried. It is no probe: none was due. */
	assert_int_equal(attempt(&call), 0);
	assert_true(loads[0].ejection.probe_ns == 0);
	end(&call, 0, REA_OUTCOME_UNAVAILABLE, 0);
	assert_give_up(&(struct rig){.call = call, .decision = rig.decision}, 3, REA_REASON_NO_UNTRIED_INSTANCE);
	assert_int_equal(loads[0].ejection.doublings, 0);
}

static void a_new_round_of_the_others_comes_first(void **state)
{
	static const size_t order[] = {1, 2, 3, 1, 2, 3, 1};
	struct rea_call call;

	(void)state;
	set_up(4, REA_BALANCE_LISTED);
	rig.policy.when_all_tried = REA_ALL_TRIED_CYCLE;
	rig.policy.max_retry_next_instance = 6;
	eject_first();
	rea_call_begin(&call, &rig.options, now_ns);
	for (size_t i = 0; i < 7; i++) {
		assert_int_equal(attempt(&call), order[i]);
		end(&call, order[i], REA_OUTCOME_UNAVAILABLE, 0);
		if (i < 6)
			now_ns = rig.decision.wait_until_ns;
	}
	/* Of two, one ejected: the other never twice in a row. */
	set_up(2, REA_BALANCE_LISTED);
	rig.policy.when_all_tried = REA_ALL_TRIED_CYCLE;
	rig.policy.max_retry_next_instance = 3;
	eject_first();
	rea_call_begin(&call, &rig.options, now_ns);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(attempt(&call), 1 - i % 2);
		end(&call, 1 - i % 2, REA_OUTCOME_UNAVAILABLE, 0);
		if (i < 3)
			now_ns = rig.decision.wait_until_ns;
	}
}

static void the_same_instance_is_left_when_it_is_ejected(void **state)
{
	struct rea_call call;

	(void)state;
	set_up(2, REA_BALANCE_LISTED);
	rig.policy.max_retry_same_instance = 3;
	see_many(1, 50, 0);
	see_many(0, 0, 1);
	assert_int_equal(begin(&call), 0);
	end(&call, 0, REA_OUTCOME_UNAVAILABLE, 0);
	now_ns = rig.decision.wait_until_ns;
	assert_int_equal(attempt(&call), 0);
	end(&call, 0, REA_OUTCOME_UNAVAILABLE, 0);
	assert_true(ejected(0));
	now_ns = rig.decision.wait_until_ns;
	assert_int_equal(attempt(&call), 1);
	/* Where no move is left it is tried all the same. */
	set_up(2, REA_BALANCE_LISTED);
	rig.policy.max_retry_same_instance = 3;
	rig.policy.max_retry_next_instance = 0;
	see_many(1, 50, 0);
	see_many(0, 0, 2);
	assert_int_equal(begin(&call), 0);
	end(&call, 0, REA_OUTCOME_UNAVAILABLE, 0);
	assert_true(ejected(0));
	now_ns = rig.decision.wait_until_ns;
	assert_int_equal(attempt(&call), 0);
}

/* ---- choosing around it ---- */

static void the_others_share_by_weight(void **state)
{
	unsigned picks[4] = {0};

	(void)state;
	for (int equal = 0; equal < 2; equal++) {
		static const uint32_t weights[] = {5, 1, 3, 4};

		set_up(4, REA_BALANCE_LEAST_LOADED);
		rig.list.equal_weights = equal;
		for (size_t i = 0; i < 4 && !equal; i++)
			rig.items[i].weight = weights[i];
		see_many(1, 50, 0);
		see_many(0, 0, 3);
		for (size_t i = 0; i < 4; i++) {
			picks[i] = 0;
			loads[i].failure_rate = loads[i].latency_ns = 0;
		}
		for (int i = 0; i < 40000; i++)
			picks[rea_balancer_choose(&rig.list, NULL, 0, &rig.random, now_ns)]++;
		assert_int_equal(picks[0], 0);
		for (size_t i = 1; i < 4; i++) {
			double share = equal ? 1.0 / 3 : weights[i] / 8.0;

			assert_true(picks[i] > (share - 0.01) * 40000 && picks[i] < (share + 0.01) * 40000);
		}
	}
	/* All that is left, and a probe of what has no calls that may be repeated. */
	assert_int_equal(rea_balancer_choose(&rig.list, (struct rea_instance_id[]){rig_id(1), rig_id(2), rig_id(3)}, 3,
			     &rig.random, now_ns),
	    0);
	now_ns = loads[0].ejection.until_ns + loads[0].ejection.pause_ns;
	while (rea_balancer_choose(&rig.list, NULL, 0, &rig.random, now_ns) != 0)
		picks[0]++;
	assert_true(picks[0] < 20);
}

/* A list that ejects none, and what another list that shares its loads has ejected. */
static void a_list_that_ejects_none(void **state)
{
	struct rea_call call;

	(void)state;
	set_up(2, REA_BALANCE_LISTED);
	rig.list.never_eject = true;
	see_many(1, 50, 0);
	see_many(0, 0, 50);
	assert_int_equal(ejected_count(), 0);
	rig.list.never_eject = false;
	see_many(0, 0, 1);
	assert_true(ejected(0));
	assert_int_equal(begin(&call), 1);
	end(&call, 1, REA_OUTCOME_OK, 0);
	rig.list.never_eject = true;
	assert_int_equal(begin(&call), 0);
	assert_int_equal(rea_balancer_choose(&rig.list, NULL, 0, &rig.random, now_ns), 0);
}

/* ---- properties ---- */

struct flying {
	struct rea_call call;
	size_t instance; /* SIZE_MAX = it waits */
	uint64_t sent_ns;
	bool probe;
};

static void check_choice(const struct flying *f, size_t before_ejected)
{
	bool other = false;

	assert_true(ejected_count() == before_ejected);
	if (!ejected(f->instance) || f->probe)
		return;
	/* An ejected one without being its probe: there was nothing else. */
	for (size_t i = 0; i < rig.list.count; i++) {
		bool tried = false;

		for (uint32_t k = 0; k < f->call.tried_len; k++)
			tried |= rea_instance_id_equal(&f->call.tried[k], &rig.items[i].id);
		other |= !ejected(i) && !tried;
	}
	assert_false(other);
}

static void property_random_outcomes(void **state)
{
	enum { FLYING = 12 };
	unsigned ejections = 0, readmissions = 0, probes = 0, doublings = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct flying flying[FLYING];
		struct rea_random world;
		uint32_t bad[RIG_INSTANCES];
		size_t count;

		rea_random_init(&world, seed);
		count = 1 + (size_t)rea_random_below(&world, RIG_INSTANCES);
		set_up(count, rea_random_below(&world, 2) ? REA_BALANCE_LISTED : REA_BALANCE_LEAST_LOADED);
		rea_random_init(&rig.random, seed);
		rig.list.equal_weights = rea_random_below(&world, 2);
		rig.policy.when_all_tried = rea_random_below(&world, 2) ? REA_ALL_TRIED_CYCLE : REA_ALL_TRIED_STOP;
		rig.policy.max_retry_next_instance = 3;
		rig.options.grant.permission = rea_random_below(&world, 4) ? REA_PERMISSION_SAFE : REA_PERMISSION_UNKNOWN;
		for (size_t i = 0; i < FLYING; i++)
			flying[i].instance = begin(&flying[i].call), flying[i].sent_ns = now_ns, flying[i].probe = false;
		for (int step = 0; step < 4000; step++) {
			struct flying *f = &flying[rea_random_below(&world, FLYING)];
			size_t out = ejected_count();

			if (step % 500 == 0)
				for (size_t i = 0; i < count; i++)
					bad[i] = (uint32_t)rea_random_below(&world, 3) * 50;
			now_ns += rea_random_below(&world, MS(20));
			if (f->instance != SIZE_MAX) {
				bool fails = rea_random_below(&world, 100) < bad[f->instance],
				     left = rea_random_below(&world, 20) == 0, was = ejected(f->instance);
				uint32_t doubled = loads[f->instance].ejection.doublings;

				end(&f->call, f->instance,
				    left    ? REA_OUTCOME_CANCELLED
				    : fails ? REA_OUTCOME_UNAVAILABLE
					    : REA_OUTCOME_OK,
				    now_ns - f->sent_ns);
				/* A failure ejects, an answer to a probe readmits, and each only this instance. */
				assert_true(ejected_count() == out + ejected(f->instance) - was);
				assert_true(!was || ejected(f->instance) || (!fails && !left && f->probe));
				assert_true(was || !ejected(f->instance) || (fails && !left));
				ejections += !was && ejected(f->instance);
				readmissions += was && !ejected(f->instance);
				doublings += was && loads[f->instance].ejection.doublings > doubled;
				f->instance = SIZE_MAX;
				f->probe = false;
				out = ejected_count();
			} else if (rea_call_done(&f->call)) {
				rea_call_begin(&f->call, &rig.options, now_ns);
			}
			if (!rea_call_done(&f->call)) {
				struct rea_load before[RIG_INSTANCES];

				memcpy(before, loads, sizeof(before));
				f->instance = attempt(&f->call);
				f->sent_ns = now_ns;
				if (f->instance != SIZE_MAX) {
					f->probe = loads[f->instance].ejection.probe_ns !=
						   before[f->instance].ejection.probe_ns;
					probes += f->probe;
					check_choice(f, out);
				} else if (rea_call_done(&f->call)) {
					assert_int_not_equal(rig.decision.reason, REA_REASON_NO_UNTRIED_INSTANCE);
				}
			}
			assert_true(ejected_count() <= count / 2);
			for (size_t i = 0; i < count; i++) {
				size_t under_way = 0;

				for (size_t k = 0; k < FLYING; k++)
					under_way += flying[k].instance == i && flying[k].probe &&
						     flying[k].sent_ns == loads[i].ejection.probe_ns;
				assert_true(under_way <= 1);
				assert_true(loads[i].ejection.proofs < 3 && loads[i].ejection.doublings <= 4);
				assert_true(loads[i].ejection.probe_ns == 0 || ejected(i));
			}
		}
	}
	assert_true(ejections > 100 && readmissions > 50 && probes > 300 && doublings > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_bad_of_four_after_three_failures),
	    cmocka_unit_test(who_is_worse),
	    cmocka_unit_test(half_of_ten),
	    cmocka_unit_test(only_what_is_recent),
	    cmocka_unit_test(the_others_do_well_now),
	    cmocka_unit_test(silence_counts_twice),
	    cmocka_unit_test(finding_out_takes_no_second),
	    cmocka_unit_test(never_more_than_half),
	    cmocka_unit_test(what_is_no_failure),
	    cmocka_unit_test(nothing_is_ejected_while_all_fail),
	    cmocka_unit_test(pauses_double_and_have_an_end),
	    cmocka_unit_test(pauses_differ),
	    cmocka_unit_test(three_answers_readmit),
	    cmocka_unit_test(what_was_under_way_before_decides_nothing),
	    cmocka_unit_test(a_probe_cannot_stick),
	    cmocka_unit_test(only_calls_that_would_be_repeated_are_probes),
	    cmocka_unit_test(a_retry_is_no_probe),
	    cmocka_unit_test(retries_take_an_ejected_one_when_nothing_else_is_left),
	    cmocka_unit_test(a_new_round_of_the_others_comes_first),
	    cmocka_unit_test(the_same_instance_is_left_when_it_is_ejected),
	    cmocka_unit_test(the_others_share_by_weight),
	    cmocka_unit_test(a_list_that_ejects_none),
	    cmocka_unit_test(property_random_outcomes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
