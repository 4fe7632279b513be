/*
 * Random sequences of public calls against simple models: the property test feeds them from a generator, the fuzzer from its corpus. The first
 * byte says what is driven: a guard with all its stages, a shared breaker, a limiter, a budget of the rule ratio, one of the rule evidence. What is not as the model says aborts.
 */
#ifndef REA_TESTS_GUARD_DRIVE_H
#define REA_TESTS_GUARD_DRIVE_H

#include <rea/guard.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Not assert: it must not depend on how the tests are built. */
#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

#define DRIVE_MS(n) ((uint64_t)(n)*REA_NS_PER_MS)

/* ---- input: zeros behind its end ---- */

struct drive_input {
	const uint8_t *data;
	size_t size;
};

static inline uint32_t drive_byte(struct drive_input *in)
{
	if (in->size == 0)
		return 0;
	in->size--;
	return *in->data++;
}

/* 0 to n - 1. */
static inline uint32_t drive_below(struct drive_input *in, uint32_t n)
{
	return (drive_byte(in) << 8 | drive_byte(in)) % n;
}

/* ---- breakers: the shared one and the one of one thread ---- */

struct drive_permit {
	struct rea_breaker_permit one, shared;
};

static inline struct rea_breaker_policy drive_breaker_policy(struct drive_input *in)
{
	return (struct rea_breaker_policy){
	    .enabled = true,
	    .failure_rate_threshold = 1 + drive_below(in, 100),
	    .slow_call_rate_threshold = 1 + drive_below(in, 100),
	    .slow_call_duration_ns = DRIVE_MS(10),
	    .window_type = drive_below(in, 2) ? REA_BREAKER_TIME_BASED : REA_BREAKER_COUNT_BASED,
	    .window_size = 1 + drive_below(in, 12),
	    .minimum_calls = 1 + drive_below(in, 12),
	    .wait_in_open_ns = DRIVE_MS(1 + drive_below(in, 2000)),
	    .permitted_in_half_open = 1 + drive_below(in, 4),
	    .max_wait_in_half_open_ns = DRIVE_MS(drive_below(in, 2000)),
	};
}

static inline void drive_breakers(struct drive_input *in)
{
	enum { SHARDS = 3, OPEN_MAX = 6 };
	struct rea_breaker_policy policy = drive_breaker_policy(in);
	struct drive_permit open[OPEN_MAX];
	struct rea_shared_breaker *shared;
	struct rea_breaker *one;
	uint64_t now_ns = DRIVE_MS(1000000);
	size_t open_len = 0;

	CHECK(rea_breaker_new(&policy, NULL, &one, NULL) == 0);
	CHECK(rea_shared_breaker_new(&policy, SHARDS, NULL, &shared, NULL) == 0);
	while (in->size > 0) {
		uint32_t op = drive_byte(in);

		if (op < 100 && open_len < OPEN_MAX) {
			bool given = rea_breaker_acquire(one, now_ns, &open[open_len].one);

			CHECK(rea_shared_breaker_acquire(shared, now_ns, &open[open_len].shared) == given);
			open_len += given;
		} else if (op < 200 && open_len > 0) {
			size_t i = drive_below(in, (uint32_t)open_len);
			enum rea_breaker_result result = (enum rea_breaker_result)drive_below(in, 3);
			uint64_t latency_ns = DRIVE_MS(drive_below(in, 20));

			rea_breaker_report(one, &open[i].one, result, latency_ns, now_ns);
			rea_shared_breaker_report(
			    shared, drive_below(in, SHARDS), &open[i].shared, result, latency_ns, now_ns);
			open[i] = open[--open_len];
		} else if (op < 205) {
			enum rea_breaker_state to = (enum rea_breaker_state)drive_below(in, REA_BREAKER_STATE_COUNT);

			rea_breaker_force(one, to, now_ns);
			rea_shared_breaker_force(shared, to, now_ns);
		} else if (op < 215) {
			CHECK(rea_shared_breaker_failure_rate(shared, now_ns) == rea_breaker_failure_rate(one, now_ns));
			CHECK(rea_shared_breaker_slow_call_rate(shared, now_ns) == rea_breaker_slow_call_rate(one, now_ns));
		} else {
			now_ns += DRIVE_MS(drive_below(in, op < 220 ? 20000 : 300));
		}
		CHECK(rea_shared_breaker_state(shared) == rea_breaker_state(one));
		CHECK(rea_shared_breaker_permits(shared, now_ns) == rea_breaker_permits(one, now_ns));
	}
	rea_breaker_free(one);
	rea_shared_breaker_free(shared);
}

/* ---- limiter: a line in an array ---- */

static inline void drive_limiter(struct drive_input *in)
{
	enum { CLIENTS = 8 };
	struct rea_limiter_options options;
	struct rea_limiter_waiter waiters[CLIENTS] = {0};
	enum { AWAY, HOLDS, WAITS } place[CLIENTS] = {AWAY};
	uint64_t deadline_ns[CLIENTS] = {0}, now_ns = DRIVE_MS(1000);
	size_t line[CLIENTS], line_len = 0;
	struct rea_limiter limiter;
	uint32_t held = 0;

	rea_limiter_options_init(&options);
	options.concurrent_max = 1 + drive_below(in, 4);
	options.waiting_max = drive_below(in, 5);
	CHECK(rea_limiter_init(&limiter, &options, NULL) == 0);
	while (in->size > 0) {
		uint32_t op = drive_byte(in) % 4;
		size_t i = drive_below(in, CLIENTS), kept = 0;
		struct rea_limiter_waiter *waiter;

		if (op == 0 && place[i] == AWAY) {
			uint64_t wait_ns = DRIVE_MS(drive_below(in, 50));
			enum rea_limiter_verdict right = held < options.concurrent_max     ? REA_LIMITER_ACQUIRED
							 : wait_ns == 0                    ? REA_LIMITER_EXPIRED
							 : line_len == options.waiting_max ? REA_LIMITER_REFUSED
											   : REA_LIMITER_WAITING;
			enum rea_limiter_verdict verdict =
			    rea_limiter_acquire(&limiter, &waiters[i], now_ns + wait_ns, now_ns);

			/* A full line and no time at all: either is a right refusal. */
			CHECK(verdict == right || (wait_ns == 0 && verdict == REA_LIMITER_REFUSED));
			deadline_ns[i] = now_ns + wait_ns;
			place[i] = right == REA_LIMITER_ACQUIRED ? HOLDS : right == REA_LIMITER_WAITING ? WAITS : AWAY;
			held += place[i] == HOLDS;
			if (place[i] == WAITS)
				line[line_len++] = i;
		} else if (op == 1 && place[i] == HOLDS) {
			rea_limiter_release(&limiter, now_ns);
			place[i] = AWAY;
			held--;
		} else if (op == 2 && place[i] == WAITS) {
			rea_limiter_cancel(&limiter, &waiters[i], now_ns);
			place[i] = AWAY;
		} else if (op == 3) {
			now_ns += DRIVE_MS(drive_below(in, 30));
		}
		/* The model: who left or is too late goes, then the first ones get what is free. */
		for (size_t n = 0; n < line_len; n++) {
			size_t who = line[n];

			if (place[who] == WAITS && deadline_ns[who] <= now_ns)
				place[who] = AWAY;
			else if (place[who] == WAITS && held < options.concurrent_max && ++held)
				place[who] = HOLDS;
			else if (place[who] == WAITS)
				line[kept++] = who;
		}
		line_len = kept;
		while ((waiter = rea_limiter_next(&limiter, now_ns)) != NULL)
			CHECK(place[waiter - waiters] == (waiter->verdict == REA_LIMITER_ACQUIRED ? HOLDS : AWAY));
		CHECK(rea_limiter_in_use(&limiter) == held && rea_limiter_waiting(&limiter) == line_len);
	}
}

/* ---- budget: the ratio rule between the two windows that its slots allow ---- */

static inline void drive_budget(struct drive_input *in)
{
	enum { EVENTS_MAX = 512, SHARDS = 2 };
	struct rea_policy policy;
	struct rea_budget *budget;
	uint64_t first_ns[EVENTS_MAX], retry_ns[EVENTS_MAX], now_ns = DRIVE_MS(1000000);
	size_t firsts = 0, retries = 0;

	rea_policy_defaults(&policy);
	policy.budget.rule = REA_BUDGET_RATIO;
	policy.budget.ratio_permille = drive_below(in, 1001);
	policy.budget.reserve_per_s = drive_below(in, 3);
	policy.budget.window_ms = 1000 * (1 + drive_below(in, 10));
	CHECK(rea_budget_new(&policy.budget, SHARDS, NULL, &budget, NULL) == 0);
	while (in->size > 0 && firsts < EVENTS_MAX && retries < EVENTS_MAX) {
		uint32_t op = drive_byte(in);

		if (op < 120) {
			rea_budget_deposit(budget, op % SHARDS, now_ns);
			first_ns[firsts++] = now_ns;
		} else if (op < 220) {
			uint64_t window_ns = DRIVE_MS(policy.budget.window_ms), slot_ns = window_ns / 10, paid = 0,
				 taken = 0;
			struct rea_budget_lease lease = {0};
			bool permits = rea_budget_permits(budget, REA_BUDGET_TRANSIENT, now_ns);

			CHECK(permits == (rea_budget_available(budget, now_ns) > 0));
			CHECK(rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, now_ns, &lease) == permits);
			if (!permits)
				continue;
			/* At most what the whole window could pay for, less what surely is still in it. */
			for (size_t i = 0; i < firsts; i++)
				paid += now_ns - first_ns[i] <= window_ns;
			for (size_t i = 0; i < retries; i++)
				taken += now_ns - retry_ns[i] < window_ns - slot_ns;
			CHECK(taken * 1000 + 1000 <= paid * policy.budget.ratio_permille +
							 (uint64_t)policy.budget.reserve_per_s * policy.budget.window_ms);
			if (op < 140) {
				uint64_t before = rea_budget_available(budget, now_ns);

				rea_budget_refund(budget, &lease, now_ns);
				rea_budget_refund(budget, &lease, now_ns);
				CHECK(rea_budget_available(budget, now_ns) <= before + 1);
			} else {
				retry_ns[retries++] = now_ns;
			}
		} else {
			now_ns += DRIVE_MS(drive_below(in, op < 224 ? 20000 : 300));
		}
	}
	rea_budget_free(budget);
}

/* ---- budget: what the rule evidence says that it has seen in the last 20 tenths of a second ---- */

static inline size_t drive_seen(const uint64_t *times_ns, size_t len, uint64_t now_ns)
{
	size_t seen = 0;

	for (size_t i = 0; i < len; i++)
		seen += now_ns / DRIVE_MS(100) - times_ns[i] / DRIVE_MS(100) < 20;
	return seen;
}

static inline void drive_evidence(struct drive_input *in)
{
	enum { EVENTS_MAX = 512, SHARDS = 2 };
	const struct rea_budget_policy policy = {.rule = REA_BUDGET_EVIDENCE};
	struct rea_budget *budget;
	struct rea_budget_view view;
	struct rea_budget_lease lease;
	uint64_t first_ns[EVENTS_MAX], retry_ns[EVENTS_MAX], outcome_ns[EVENTS_MAX], timeout_ns[EVENTS_MAX];
	uint64_t now_ns = DRIVE_MS(1000000);
	size_t firsts = 0, retries = 0, outcomes = 0, timeouts = 0;

	CHECK(rea_budget_new(&policy, SHARDS, NULL, &budget, NULL) == 0);
	while (in->size > 0 && firsts < EVENTS_MAX && retries < EVENTS_MAX && outcomes < EVENTS_MAX) {
		uint32_t op = drive_byte(in);

		if (op < 80) {
			rea_budget_deposit(budget, op % SHARDS, now_ns);
			first_ns[firsts++] = now_ns;
		} else if (op < 160) {
			enum rea_budget_result result = (enum rea_budget_result)drive_below(in, REA_BUDGET_NEUTRAL + 1);

			rea_budget_report(budget, op % SHARDS, result, NULL, now_ns);
			if (result != REA_BUDGET_NEUTRAL)
				outcome_ns[outcomes++] = now_ns;
			if (result == REA_BUDGET_TIMEOUT)
				timeout_ns[timeouts++] = now_ns;
		} else if (op < 220) {
			bool permits = rea_budget_permits(budget, REA_BUDGET_TRANSIENT, now_ns);

			CHECK(permits == (rea_budget_available(budget, now_ns) > 0));
			CHECK(rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, now_ns, &lease) == permits);
			if (permits && op < 180) {
				rea_budget_refund(budget, &lease, now_ns);
				rea_budget_refund(budget, &lease, now_ns);
				CHECK(rea_budget_permits(budget, REA_BUDGET_TRANSIENT, now_ns));
			} else if (permits) {
				retry_ns[retries++] = now_ns;
			}
		} else {
			now_ns += DRIVE_MS(drive_below(in, op < 224 ? 20000 : 300));
		}
		rea_budget_look(budget, now_ns, &view);
		CHECK(view.rule == REA_BUDGET_EVIDENCE && view.available == rea_budget_available(budget, now_ns));
		CHECK(view.tokens >= 0 && view.tokens <= 2);
		CHECK(view.success >= 0 && view.success <= 1 && view.pushback >= 0 && view.pushback <= 1);
		CHECK(view.retries == drive_seen(retry_ns, retries, now_ns));
		CHECK(view.timeouts == drive_seen(timeout_ns, timeouts, now_ns));
		/* What a shard has not brought in yet is missing. */
		CHECK(view.first_attempts <= drive_seen(first_ns, firsts, now_ns));
		CHECK(view.outcomes <= drive_seen(outcome_ns, outcomes, now_ns));
		CHECK((view.congested_ns == 0) || view.heat.kind != REA_EVIDENCE_NONE);
	}
	rea_budget_free(budget);
}

/* ---- a guard ---- */

enum { DRIVE_CALLS = 6, DRIVE_THREADS = 2, DRIVE_PAST = 64 };
enum drive_place { DRIVE_IDLE, DRIVE_WAITING, DRIVE_PARKED, DRIVE_FLYING };

struct drive_call {
	struct rea_guard_call call;
	struct rea_guard_call_options options;
	enum drive_place place;
	bool woken;
	bool parked;       /* by the budget */
	uint32_t arrival;  /* in line; 0 = it is not */
	uint32_t attempts; /* made */
	uint32_t terminal_events;
	uint64_t earliest_ns; /* no attempt before */
	uint64_t granted_ns;  /* when the rate lets the coming attempt begin */
	uint64_t deadline_ns; /* none from here on */
	struct rea_decision decision;
	struct rea_breaker_permit twin; /* of the model's breaker */
};

struct drive_guard {
	struct drive_input *in;
	struct rea_guard_options options;
	struct rea_guard *guard;
	struct rea_guard_thread threads[DRIVE_THREADS];
	struct rea_breaker *twin;
	struct drive_call calls[DRIVE_CALLS];
	struct drive_call *active; /* whose events are coming */
	uint64_t now_ns;
	uint32_t arrivals;
	uint64_t past_ns[DRIVE_PAST]; /* when the rate let the last attempts begin */
	size_t past_len;
	struct rea_service_stats right;
};

static inline void drive_hear(struct rea_event *event, void *user_data)
{
	struct drive_guard *world = user_data;

	if (event->type == REA_EVENT_BREAKER)
		return;
	CHECK(world->active != NULL);
	world->active->terminal_events += event->type != REA_EVENT_RETRY;
}

static inline void drive_wake(struct rea_guard_call *call, void *user_data)
{
	struct drive_guard *world = user_data;
	struct drive_call *woken = call->user_data;

	CHECK(woken->place == DRIVE_PARKED && !woken->woken);
	/* Nobody who came before is passed over, but for those whose time is up. */
	for (size_t i = 0; i < DRIVE_CALLS; i++) {
		struct drive_call *other = &world->calls[i];

		if (other->arrival > 0 && !other->woken && other != world->active && other->arrival < woken->arrival)
			CHECK(other->decision.wait_until_ns <= world->now_ns ||
			      woken->decision.wait_until_ns <= world->now_ns);
	}
	woken->woken = true;
}

static inline void drive_guard_start(struct drive_guard *world)
{
	struct drive_input *in = world->in;
	struct rea_guard_options *options = &world->options;

	rea_guard_options_init(options);
	options->threads = DRIVE_THREADS;
	options->policy.enabled = drive_below(in, 8) != 0;
	options->policy.max_retry_next_instance = drive_below(in, 5);
	options->policy.min_backoff_ns = DRIVE_MS(20 + drive_below(in, 200));
	options->policy.max_backoff_ns = options->policy.min_backoff_ns * 4;
	options->policy.deadline_ns = DRIVE_MS(1000 + drive_below(in, 4000));
	options->policy.budget.reserve_per_s = drive_below(in, 4);
	options->policy.budget.window_ms = 1000;
	options->concurrent_retries = 1 + drive_below(in, 3);
	options->rate_on = drive_below(in, 2);
	options->rate.permits = 1 + drive_below(in, 40);
	options->rate.burst = 1 + drive_below(in, 5);
	options->rate_wait_ns = DRIVE_MS(drive_below(in, 500));
	options->limiter_on = drive_below(in, 2);
	options->limiter.concurrent_max = 1 + drive_below(in, 3);
	options->limiter.waiting_max = drive_below(in, 4);
	options->limiter_wait_ns = DRIVE_MS(drive_below(in, 500));
	options->policy.breaker = drive_breaker_policy(in);
	options->policy.breaker.enabled = drive_below(in, 2);
	options->policy.budget.rule = drive_below(in, 2) ? REA_BUDGET_EVIDENCE : REA_BUDGET_RATIO;
	options->parked_calls = 1 + drive_below(in, 3);
	options->event = drive_hear;
	options->wake = drive_wake;
	options->user_data = world;
	CHECK(rea_guard_new(options, NULL, &world->guard, NULL) == 0);
	CHECK(rea_breaker_new(&options->policy.breaker, NULL, &world->twin, NULL) == 0);
	for (uint64_t i = 0; i < DRIVE_THREADS; i++)
		CHECK(rea_guard_join(world->guard, i, &world->threads[i]) == 0);
}

static inline uint32_t drive_count(const struct drive_guard *world, enum drive_place place, uint32_t attempts_min)
{
	uint32_t count = 0;

	for (size_t i = 0; i < DRIVE_CALLS; i++)
		count += world->calls[i].place == place && world->calls[i].attempts >= attempts_min;
	return count;
}

static inline uint32_t drive_count_parked(const struct drive_guard *world)
{
	uint32_t count = 0;

	for (size_t i = 0; i < DRIVE_CALLS; i++)
		count += world->calls[i].parked;
	return count;
}

static inline bool drive_may_repeat(const struct drive_guard *world, const struct drive_call *call, enum rea_outcome outcome)
{
	enum rea_permission permission = call->options.grant.permission;

	return world->options.policy.enabled && (REA_RETRY_ON_DEFAULT >> outcome & 1) && !call->options.chained &&
	       (permission == REA_PERMISSION_SAFE || permission == REA_PERMISSION_IDEMPOTENT ||
		   (permission == REA_PERMISSION_IDEMPOTENT_WITH_KEY && call->options.key.length > 0));
}

static inline enum rea_breaker_result drive_breaker_result(enum rea_outcome outcome)
{
	if (outcome == REA_OUTCOME_OK || outcome == REA_OUTCOME_PERMANENT)
		return REA_BREAKER_SUCCESS;
	return outcome == REA_OUTCOME_PUSHBACK || outcome == REA_OUTCOME_THROTTLED || outcome == REA_OUTCOME_CANCELLED
		   ? REA_BREAKER_IGNORED
		   : REA_BREAKER_FAILURE;
}

/* In every stretch of time that the latest permit is at an end of, at most the burst and what the rate allows were granted. */
static inline void drive_check_rate(struct drive_guard *world, uint64_t latest_ns)
{
	uint64_t interval_ns =
	    (world->options.rate.period_ns + world->options.rate.permits - 1) / world->options.rate.permits;
	size_t len = world->past_len < DRIVE_PAST ? world->past_len : DRIVE_PAST;

	for (size_t i = 0; i < len; i++) {
		uint64_t from_ns = rea_time_min(latest_ns, world->past_ns[i]),
			 to_ns = rea_time_max(latest_ns, world->past_ns[i]), in = 0;

		for (size_t j = 0; j < len; j++)
			in += world->past_ns[j] >= from_ns && world->past_ns[j] <= to_ns;
		CHECK(in <= world->options.rate.burst + (to_ns - from_ns) / interval_ns);
	}
}

static inline void drive_attempt_began(struct drive_guard *world, struct drive_call *call)
{
	CHECK(call->decision.attempt == ++call->attempts &&
	      call->attempts <= 1 + world->options.policy.max_retry_next_instance);
	CHECK(world->now_ns >= call->earliest_ns && world->now_ns < call->deadline_ns);
	CHECK(call->decision.attempt_deadline_ns <= call->deadline_ns);
	call->place = DRIVE_FLYING;
	if (world->options.policy.breaker.enabled)
		CHECK(rea_breaker_acquire(world->twin, world->now_ns, &call->twin));
	if (world->options.limiter_on)
		CHECK(drive_count(world, DRIVE_FLYING, 0) <= world->options.limiter.concurrent_max);
	CHECK(drive_count(world, DRIVE_FLYING, 2) <= world->options.concurrent_retries);
	world->past_ns[world->past_len++ % DRIVE_PAST] = call->granted_ns;
	if (world->options.rate_on)
		drive_check_rate(world, call->granted_ns);
}

static inline void drive_call_ended(struct drive_guard *world, struct drive_call *call)
{
	bool quiet = call->decision.verdict == REA_VERDICT_SUCCESS && call->attempts == 1;

	call->place = DRIVE_IDLE;
	world->right.calls++;
	world->right.results[call->decision.reason]++;
	world->right.first_try_successes += quiet;
	CHECK(call->terminal_events == !quiet);
	CHECK(call->decision.attempt == call->attempts);
	call->parked = false;
}

static inline void drive_begin(struct drive_guard *world, struct drive_call *call, struct rea_guard_thread *thread)
{
	static const char key[] = "key";

	rea_guard_call_options_init(&call->options);
	call->options.grant.permission = (enum rea_permission)drive_below(world->in, REA_PERMISSION_COUNT);
	call->options.chained = drive_below(world->in, 8) == 0;
	call->options.key = (struct rea_text){key, drive_below(world->in, 2) * 3};
	if (drive_below(world->in, 3) == 0)
		call->options.deadline_ns = world->now_ns + DRIVE_MS(drive_below(world->in, 1000));
	call->deadline_ns = rea_time_min(call->options.deadline_ns, world->now_ns + world->options.policy.deadline_ns);
	call->earliest_ns = world->now_ns;
	call->attempts = call->terminal_events = 0;
	call->woken = call->parked = false;
	call->place = DRIVE_WAITING;
	call->call.user_data = call;
	rea_guard_begin(&call->call, thread, &call->options, world->now_ns);
}

static inline void drive_leave_line(struct drive_call *call)
{
	call->woken = false;
	call->arrival = 0;
}

/* Between two attempts: the wait goes on, or the budget was asked again and lets it through after a backoff, or not yet. */
static inline void drive_look_again(struct drive_guard *world, struct drive_call *call)
{
	bool parked = call->decision.reason == REA_REASON_PARKED;

	CHECK(!parked || call->parked);
	if (!call->parked || world->now_ns < call->earliest_ns)
		CHECK(call->decision.wait_until_ns == call->earliest_ns && parked == call->parked);
	else
		CHECK(parked || call->decision.wait_until_ns >= world->now_ns + DRIVE_MS(20));
	call->earliest_ns = call->decision.wait_until_ns;
	call->parked = parked;
}

static inline void drive_next(struct drive_guard *world, struct drive_call *call, struct rea_guard_thread *thread)
{
	bool waited = call->place == DRIVE_PARKED;

	if (!waited)
		call->granted_ns = world->now_ns;
	rea_guard_next(&call->call, thread, NULL, world->now_ns, &call->decision);
	switch (call->decision.step) {
	case REA_STEP_ATTEMPT:
		drive_attempt_began(world, call);
		break;
	case REA_STEP_WAIT:
		CHECK(call->decision.wait_until_ns > world->now_ns && call->decision.wait_until_ns <= call->deadline_ns);
		if (rea_guard_call_stage(&call->call) == REA_GUARD_STAGE_CALL) {
			CHECK(!waited);
			drive_look_again(world, call);
			break;
		}
		CHECK(call->decision.reason == REA_REASON_PARKED && !call->parked);
		if (rea_guard_call_stage(&call->call) == REA_GUARD_STAGE_LIMITER && call->arrival == 0)
			call->arrival = ++world->arrivals;
		if (rea_guard_call_stage(&call->call) == REA_GUARD_STAGE_RATE)
			call->granted_ns = call->decision.wait_until_ns;
		call->place = DRIVE_PARKED;
		break;
	case REA_STEP_DONE:
		CHECK(call->decision.verdict == REA_VERDICT_GIVE_UP);
		if (call->parked) {
			/* It was only asked whether there may be one. */
			CHECK(call->decision.reason != REA_REASON_BREAKER_OPEN ||
			      !rea_breaker_permits(world->twin, world->now_ns));
		} else if (call->decision.reason == REA_REASON_BREAKER_OPEN)
			CHECK(!rea_breaker_acquire(world->twin, world->now_ns, &call->twin));
		else if (rea_guard_call_stage(&call->call) == REA_GUARD_STAGE_CALL &&
			 call->decision.reason == REA_REASON_OVERLOADED && world->options.policy.breaker.enabled) {
			/* The permit was there, the slot for a retry was not. */
			CHECK(rea_breaker_acquire(world->twin, world->now_ns, &call->twin));
			rea_breaker_report(world->twin, &call->twin, REA_BREAKER_IGNORED, 0, world->now_ns);
		}
		drive_call_ended(world, call);
		break;
	}
	if (call->place != DRIVE_PARKED)
		drive_leave_line(call);
}

static inline void drive_report(struct drive_guard *world, struct drive_call *call, struct rea_guard_thread *thread)
{
	struct rea_report report = {.outcome = (enum rea_outcome)drive_below(world->in, REA_OUTCOME_COUNT),
	    .latency_ns = DRIVE_MS(1 + drive_below(world->in, 20))};

	/* The model goes first: what the guard decides depends on it. */
	call->place = DRIVE_WAITING;
	rea_breaker_report(world->twin, &call->twin, drive_breaker_result(report.outcome), report.latency_ns, world->now_ns);
	world->right.attempts[report.outcome]++;
	world->right.retries += call->attempts > 1;
	rea_guard_report(&call->call, thread, &report, NULL, world->now_ns, &call->decision);
	CHECK((call->decision.verdict == REA_VERDICT_SUCCESS) == (report.outcome == REA_OUTCOME_OK));
	if (call->decision.step == REA_STEP_DONE) {
		drive_call_ended(world, call);
		return;
	}
	CHECK(drive_may_repeat(world, call, report.outcome));
	CHECK(call->decision.wait_until_ns >= world->now_ns + DRIVE_MS(20) &&
	      call->decision.wait_until_ns < call->deadline_ns);
	if (world->options.policy.breaker.enabled)
		CHECK(rea_breaker_permits(world->twin, world->now_ns));
	call->earliest_ns = call->decision.wait_until_ns;
	call->parked = call->decision.reason == REA_REASON_PARKED;
}

static inline void drive_cancel(struct drive_guard *world, struct drive_call *call, struct rea_guard_thread *thread)
{
	if (call->place == DRIVE_FLYING) {
		rea_breaker_report(world->twin, &call->twin, REA_BREAKER_IGNORED, 0, world->now_ns);
		world->right.attempts[REA_OUTCOME_CANCELLED]++;
		world->right.retries += call->attempts > 1;
	}
	call->place = DRIVE_IDLE;
	drive_leave_line(call);
	rea_guard_cancel(&call->call, thread, world->now_ns, &call->decision);
	CHECK(call->decision.reason == REA_REASON_CANCELLED);
	drive_call_ended(world, call);
}

static inline void drive_compare(struct drive_guard *world)
{
	struct rea_service_stats stats;

	rea_guard_stats(world->guard, &stats);
	world->right.in_flight = DRIVE_CALLS - drive_count(world, DRIVE_IDLE, 0);
	CHECK(stats.calls == world->right.calls && stats.in_flight == world->right.in_flight);
	CHECK(stats.retries == world->right.retries && stats.first_try_successes == world->right.first_try_successes);
	CHECK(memcmp(stats.attempts, world->right.attempts, sizeof(stats.attempts)) == 0);
	CHECK(memcmp(stats.results, world->right.results, sizeof(stats.results)) == 0);
	CHECK(drive_count_parked(world) <= world->options.parked_calls);
	if (world->options.policy.breaker.enabled)
		CHECK(rea_shared_breaker_state(rea_guard_breaker(world->guard)) == rea_breaker_state(world->twin));
}

static inline void drive_step(struct drive_guard *world)
{
	uint32_t op = drive_byte(world->in);
	struct drive_call *call = &world->calls[op % DRIVE_CALLS];
	struct rea_guard_thread *thread = &world->threads[drive_byte(world->in) % DRIVE_THREADS];

	world->active = call;
	if (op >= 200)
		world->now_ns += DRIVE_MS(drive_below(world->in, op < 205 ? 20000 : 100));
	else if (call->place == DRIVE_IDLE)
		drive_begin(world, call, thread);
	else if (op < 15)
		drive_cancel(world, call, thread);
	else if (call->place == DRIVE_FLYING)
		drive_report(world, call, thread);
	else
		drive_next(world, call, thread);
	world->active = NULL;
}

static inline void drive_guard_stop(struct drive_guard *world)
{
	char text[4096];

	for (size_t i = 0; i < DRIVE_CALLS; i++) {
		world->active = &world->calls[i];
		if (world->calls[i].place != DRIVE_IDLE)
			drive_cancel(world, &world->calls[i], &world->threads[0]);
	}
	drive_compare(world);
	rea_guard_explain(world->guard, world->now_ns, text, sizeof(text));
	CHECK(!world->options.limiter_on || strstr(text, "; 0 in use, 0 waiting\n") != NULL);
	CHECK(strstr(text, "  concurrent retries: 0 of ") != NULL && strstr(text, "  parked calls: 0 of ") != NULL);
	for (size_t i = 0; i < DRIVE_THREADS; i++)
		rea_guard_leave(&world->threads[i]);
	rea_guard_free(world->guard);
	rea_breaker_free(world->twin);
}

static inline void drive_guard(struct drive_input *in)
{
	struct drive_guard world = {.in = in, .now_ns = DRIVE_MS(1000000)};

	drive_guard_start(&world);
	while (in->size > 0) {
		drive_step(&world);
		drive_compare(&world);
	}
	drive_guard_stop(&world);
}

/* ---- all ---- */

static inline void drive(const uint8_t *data, size_t size)
{
	struct drive_input in = {data, size};

	switch (drive_byte(&in) % 6) {
	case 0:
		drive_breakers(&in);
		break;
	case 1:
		drive_limiter(&in);
		break;
	case 2:
		drive_budget(&in);
		break;
	case 3:
		drive_evidence(&in);
		break;
	default:
		drive_guard(&in);
		break;
	}
}

#endif
