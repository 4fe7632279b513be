/* A guard with a clock of its own and an ear for its events. Times are in ms since the rig's begin. */
#ifndef REA_TESTS_GUARD_RIG_H
#define REA_TESTS_GUARD_RIG_H

#include <rea/guard.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MS(n) ((uint64_t)(n)*REA_NS_PER_MS)
#define S(n) ((uint64_t)(n)*REA_NS_PER_S)

enum { RIG_EVENTS = 32, RIG_WOKEN = 16 };

struct rig_event {
	struct rea_event event; /* its texts are gone, but for those below */
	char instance[64];
	char biz_id[64];
	char detail[64];
};

struct rig {
	struct rea_guard_options options; /* rig_init: enabled, retries wait 100 ms, deadline 10 s */
	struct rea_guard *guard;
	struct rea_guard_thread thread;
	struct rea_guard_call_options call_options; /* rig_init: idempotent */
	struct rea_instances list;                  /* with items NULL, there is no list */
	struct rea_decision decision;               /* the last one */
	uint64_t base_ns;
	struct rig_event events[RIG_EVENTS];
	size_t events_len;
	char evidence[REA_EVIDENCE_TEXT_MAX]; /* of the last event */
	struct rea_guard_call *woken[RIG_WOKEN];
	size_t woken_len;
};

static inline void rig_copy(char *to, size_t size, struct rea_text text)
{
	size_t length = text.length < size ? text.length : size - 1;

	if (length > 0)
		memcpy(to, text.text, length);
	to[length] = '\0';
}

static inline void rig_hear(struct rea_event *event, void *user_data)
{
	struct rig *rig = user_data;
	struct rig_event *heard = &rig->events[rig->events_len % RIG_EVENTS];

	rig->events_len++;
	heard->event = *event;
	rig_copy(heard->instance, sizeof(heard->instance), event->instance);
	rig_copy(heard->biz_id, sizeof(heard->biz_id), event->biz_id);
	rig_copy(heard->detail, sizeof(heard->detail), event->detail);
	rig_copy(rig->evidence, sizeof(rig->evidence), event->evidence);
}

static inline void rig_wake(struct rea_guard_call *call, void *user_data)
{
	struct rig *rig = user_data;

	rig->woken[rig->woken_len++ % RIG_WOKEN] = call;
}

static inline void rig_init(struct rig *rig)
{
	*rig = (struct rig){.base_ns = S(1000)};
	rea_guard_options_init(&rig->options);
	rig->options.name = "users";
	rig->options.policy.enabled = true;
	rig->options.policy.min_backoff_ns = rig->options.policy.max_backoff_ns = MS(100);
	rig->options.policy.backoff_multiplier = 1;
	rig->options.policy.jitter = 1e-12; /* less than a nanosecond of 100 ms */
	rig->options.policy.deadline_ns = S(10);
	rig->options.event = rig_hear;
	rig->options.wake = rig_wake;
	rig->options.user_data = rig;
	rea_guard_call_options_init(&rig->call_options);
	rig->call_options.grant = (struct rea_grant){REA_PERMISSION_IDEMPOTENT, REA_PERMISSION_SOURCE_CALLER};
}

/* Not before everything above is as the test wants it. */
static inline void rig_start(struct rig *rig)
{
	assert_int_equal(rea_guard_new(&rig->options, NULL, &rig->guard, NULL), 0);
	assert_int_equal(rea_guard_join(rig->guard, 1, &rig->thread), 0);
}

static inline void rig_stop(struct rig *rig)
{
	rea_guard_leave(&rig->thread);
	rea_guard_free(rig->guard);
}

static inline const struct rea_instances *rig_list(const struct rig *rig)
{
	return rig->list.items != NULL ? &rig->list : NULL;
}

static inline void rig_begin(struct rig *rig, struct rea_guard_call *call, uint64_t at_ms)
{
	rea_guard_begin(call, &rig->thread, &rig->call_options, rig->base_ns + MS(at_ms));
}

static inline void rig_next(struct rig *rig, struct rea_guard_call *call, uint64_t at_ms)
{
	rea_guard_next(call, &rig->thread, rig_list(rig), rig->base_ns + MS(at_ms), &rig->decision);
}

static inline void rig_report(struct rig *rig, struct rea_guard_call *call, struct rea_report report, uint64_t at_ms)
{
	rea_guard_report(call, &rig->thread, &report, rig_list(rig), rig->base_ns + MS(at_ms), &rig->decision);
}

static inline void rig_end(struct rig *rig, struct rea_guard_call *call, enum rea_outcome outcome, uint64_t at_ms)
{
	rig_report(rig, call, rea_report_fail(outcome), at_ms);
}

static inline void rig_cancel(struct rig *rig, struct rea_guard_call *call, uint64_t at_ms)
{
	rea_guard_cancel(call, &rig->thread, rig->base_ns + MS(at_ms), &rig->decision);
}

/* begin and next, to an attempt. */
static inline void rig_fly(struct rig *rig, struct rea_guard_call *call, uint64_t at_ms)
{
	rig_begin(rig, call, at_ms);
	rig_next(rig, call, at_ms);
	assert_int_equal(rig->decision.step, REA_STEP_ATTEMPT);
}

/* A whole call of one attempt. */
static inline void rig_call(struct rig *rig, enum rea_outcome outcome, uint64_t at_ms)
{
	struct rea_guard_call call;

	rig_fly(rig, &call, at_ms);
	rig_end(rig, &call, outcome, at_ms);
	if (rig->decision.step == REA_STEP_WAIT)
		rig_cancel(rig, &call, at_ms);
}

static inline void assert_attempt(const struct rig *rig, uint32_t number)
{
	assert_int_equal(rig->decision.step, REA_STEP_ATTEMPT);
	assert_int_equal(rig->decision.attempt, number);
}

static inline void assert_wait(const struct rig *rig, enum rea_reason reason, uint64_t until_ms)
{
	assert_int_equal(rig->decision.step, REA_STEP_WAIT);
	assert_string_equal(rea_reason_name(rig->decision.reason), rea_reason_name(reason));
	assert_int_equal(rig->decision.wait_until_ns, rig->base_ns + MS(until_ms));
}

static inline void assert_success(const struct rig *rig, uint32_t attempts)
{
	assert_int_equal(rig->decision.step, REA_STEP_DONE);
	assert_int_equal(rig->decision.verdict, REA_VERDICT_SUCCESS);
	assert_int_equal(rig->decision.attempt, attempts);
}

static inline void assert_give_up(const struct rig *rig, enum rea_reason reason, uint32_t attempts)
{
	assert_int_equal(rig->decision.step, REA_STEP_DONE);
	assert_int_equal(rig->decision.verdict, REA_VERDICT_GIVE_UP);
	assert_string_equal(rea_reason_name(rig->decision.reason), rea_reason_name(reason));
	assert_int_equal(rig->decision.attempt, attempts);
}

static inline void assert_stage(const struct rea_guard_call *call, enum rea_guard_stage stage)
{
	assert_string_equal(rea_guard_stage_name(rea_guard_call_stage(call)), rea_guard_stage_name(stage));
}

static inline void assert_event(const struct rig *rig, size_t index, enum rea_event_type type, uint32_t attempt,
    enum rea_reason reason, uint64_t at_ms)
{
	const struct rea_event *event = &rig->events[index].event;

	assert_true(index < rig->events_len);
	assert_string_equal(rea_event_type_name(event->type), rea_event_type_name(type));
	assert_int_equal(event->attempt, attempt);
	assert_string_equal(rea_reason_name(event->reason), rea_reason_name(reason));
	assert_int_equal(event->time_ns, rig->base_ns + MS(at_ms));
}

#endif
