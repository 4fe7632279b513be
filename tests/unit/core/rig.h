/* One call with all that it stands on, for tests that look at its decisions. Times are in ms since the call's begin. */
#ifndef REA_TESTS_CORE_RIG_H
#define REA_TESTS_CORE_RIG_H

#include <rea/call.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MS(n) ((uint64_t)(n)*REA_NS_PER_MS)
#define S(n) ((uint64_t)(n)*REA_NS_PER_S)

enum { RIG_INSTANCES = 10 };

struct rig {
	struct rea_policy policy;        /* rig_init: enabled, fixed wait 100 ms, deadline 10 s */
	struct rea_call_options options; /* rig_init: idempotent, no budget, breaker, limit */
	struct rea_instance items[RIG_INSTANCES];
	struct rea_instances list; /* rig_init: `instances` of them, in the list's order */
	struct rea_random random;
	struct rea_call call;
	struct rea_decision decision; /* the last one */
	uint64_t base_ns;
};

static inline struct rea_instance_id rig_id(size_t index)
{
	return (struct rea_instance_id){{[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}, (uint16_t)(9001 + index)};
}

static inline void rig_init(struct rig *rig, size_t instances)
{
	*rig = (struct rig){.base_ns = S(1000)};
	rea_policy_defaults(&rig->policy);
	rig->policy.enabled = true;
	rig->policy.min_backoff_ns = rig->policy.max_backoff_ns = MS(100);
	rig->policy.backoff_multiplier = 1;
	rig->policy.deadline_ns = S(10);
	rea_call_options_init(&rig->options);
	rig->options.policy = &rig->policy;
	rig->options.grant = (struct rea_grant){REA_PERMISSION_IDEMPOTENT, REA_PERMISSION_SOURCE_OPENAPI};
	for (size_t i = 0; i < RIG_INSTANCES; i++)
		rig->items[i] = (struct rea_instance){.id = rig_id(i), .weight = 1};
	rig->list = (struct rea_instances){.items = rig->items, .count = instances, .balance = REA_BALANCE_LISTED};
}

/* The next random value is the midpoint, which makes a jittered wait the undisturbed one. */
static inline void rig_midpoint(struct rig *rig)
{
	/* xoshiro256** gives rotate_left(s[1] * 5, 7) * 9; 0xcccc…cd is 1/5. */
	rig->random = (struct rea_random){{1, (UINT64_C(1) << 56) * UINT64_C(0xcccccccccccccccd), 2, 3}};
}

static inline void rig_begin(struct rig *rig)
{
	rea_call_begin(&rig->call, &rig->options, rig->base_ns);
}

static inline void rig_attempt(struct rig *rig, uint64_t at_ms)
{
	rea_call_attempt(&rig->call, &rig->list, &rig->random, rig->base_ns + MS(at_ms), &rig->decision);
}

static inline void rig_report(struct rig *rig, const struct rea_report *report, uint64_t at_ms)
{
	rig_midpoint(rig);
	rea_call_report(&rig->call, report, &rig->list, &rig->random, rig->base_ns + MS(at_ms), &rig->decision);
}

static inline void rig_end(struct rig *rig, enum rea_outcome outcome, uint64_t at_ms)
{
	struct rea_report report = {.outcome = outcome};

	rig_report(rig, &report, at_ms);
}

static inline void assert_attempt(const struct rig *rig, uint32_t number, size_t instance)
{
	assert_int_equal(rig->decision.step, REA_STEP_ATTEMPT);
	assert_int_equal(rig->decision.verdict, REA_VERDICT_RETRY);
	assert_int_equal(rig->decision.reason, REA_REASON_NONE);
	assert_int_equal(rig->decision.attempt, number);
	assert_int_equal(rig->decision.instance, instance);
	assert_false(rea_call_done(&rig->call));
}

static inline void assert_wait(const struct rig *rig, uint32_t attempt, uint64_t wait_ms, uint64_t until_ms)
{
	assert_int_equal(rig->decision.step, REA_STEP_WAIT);
	assert_int_equal(rig->decision.verdict, REA_VERDICT_RETRY);
	assert_int_equal(rig->decision.reason, REA_REASON_NONE);
	assert_int_equal(rig->decision.attempt, attempt);
	assert_true(rig->decision.wait_ns == MS(wait_ms));
	assert_true(rig->decision.wait_until_ns == rig->base_ns + MS(until_ms));
	assert_false(rea_call_done(&rig->call));
}

static inline void assert_done(const struct rig *rig, uint32_t attempt, enum rea_verdict verdict, enum rea_reason reason)
{
	assert_int_equal(rig->decision.step, REA_STEP_DONE);
	assert_int_equal(rig->decision.verdict, verdict);
	assert_string_equal(rea_reason_name(rig->decision.reason), rea_reason_name(reason));
	assert_int_equal(rig->decision.attempt, attempt);
	assert_true(rea_call_done(&rig->call));
	assert_int_equal(rea_call_attempts(&rig->call), attempt);
}

static inline void assert_give_up(const struct rig *rig, uint32_t attempt, enum rea_reason reason)
{
	assert_done(rig, attempt, REA_VERDICT_GIVE_UP, reason);
}

#endif
