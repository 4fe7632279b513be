/* Calls in the calling thread, in real time: waits where they belong, cancelled within 10 ms, a place in line; stacked layers (L14). */
#include "rig.h"

#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* A busy machine may hold a thread up; what is measured is that nothing sleeps to a time that nobody named. */
#define SLACK_MS 100

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * REA_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* What an attempt is told to say, and what it saw. */
struct script {
	struct rea_report reports[10];
	uint32_t calls;
	uint64_t begun_ns[10];
	struct rea_guard_attempt seen[10];
};

static struct rea_report play(const struct rea_guard_attempt *attempt, void *arg)
{
	struct script *script = arg;

	assert_int_equal(attempt->number, script->calls + 1);
	script->begun_ns[script->calls] = clock_ns();
	script->seen[script->calls] = *attempt;
	return script->reports[script->calls++];
}

/* All real waits of these tests are of 30 ms, exactly. */
static void start(struct rig *rig, struct rea_guard_run_options *options, uint32_t retries)
{
	rig_init(rig);
	rig->options.policy.max_retry_next_instance = retries;
	rig->options.policy.min_backoff_ns = rig->options.policy.max_backoff_ns = MS(30);
	rea_guard_run_options_init(options);
	options->call = rig->call_options;
}

static void it_sleeps_between_attempts(void **state)
{
	struct script script = {
	    .reports = {[0] = {.outcome = REA_OUTCOME_UNAVAILABLE}, [1] = {.outcome = REA_OUTCOME_NEVER_SENT}}};
	struct rea_guard_run_options options;
	struct rea_guard_result result;
	uint64_t end_ns;
	struct rig rig;

	(void)state;
	start(&rig, &options, 2);
	options.call.key = (struct rea_text){"order-7", 7};
	options.call.biz_id = (struct rea_text){"biz-1", 5};
	rig_start(&rig);
	assert_int_equal(rea_guard_run(&rig.thread, play, &script, &options, &result), REA_VERDICT_SUCCESS);
	end_ns = clock_ns();
	assert_int_equal(script.calls, 3);
	for (int i = 1; i < 3; i++)
		assert_in_range(script.begun_ns[i] - script.begun_ns[i - 1], MS(30), MS(30 + SLACK_MS));
	assert_in_range(end_ns - script.begun_ns[2], 0, MS(SLACK_MS));
	for (int i = 0; i < 3; i++) {
		const struct rea_guard_attempt *seen = &script.seen[i];

		assert_int_equal(seen->attempts_max, 3);
		/* The very bytes that were given, on every attempt. */
		assert_ptr_equal(seen->key.text, options.call.key.text);
		assert_int_equal(seen->key.length, 7);
		assert_int_equal(seen->biz_id.length, 5);
		assert_null(seen->instance);
		assert_int_equal(seen->grant.permission, REA_PERMISSION_IDEMPOTENT);
		assert_ptr_equal(seen->policy, rea_guard_policy(rig.guard));
		assert_in_range(seen->deadline_ns - script.begun_ns[i], S(1) - MS(SLACK_MS), S(1));
	}
	assert_int_equal(result.decision.attempt, 3);
	assert_int_equal(result.stage, REA_GUARD_STAGE_NONE);
	assert_int_equal(rig.events_len, 3);
	rig_stop(&rig);
}

/* L05, real: less than 20 ms later, and with the error kept. */
static void it_does_not_sleep_towards_a_deadline(void **state)
{
	struct script script = {.reports = {{.outcome = REA_OUTCOME_THROTTLED, .code_kind = REA_CODE_HTTP, .code = 429}}};
	struct rea_guard_run_options options;
	struct rea_guard_result result;
	struct rig rig;
	uint64_t end_ns;

	(void)state;
	start(&rig, &options, 2);
	rig.options.policy.retry_on |= REA_OUTCOME_BIT(REA_OUTCOME_THROTTLED);
	rig.options.policy.min_backoff_ns = rig.options.policy.max_backoff_ns = MS(1000);
	rig.options.policy.deadline_ns = rig.options.policy.attempt_timeout_ns = MS(50);
	rig_start(&rig);
	assert_int_equal(rea_guard_run(&rig.thread, play, &script, &options, &result), REA_VERDICT_GIVE_UP);
	end_ns = clock_ns();
	assert_int_equal(script.calls, 1);
	assert_in_range(end_ns - script.begun_ns[0], 0, MS(20));
	assert_int_equal(result.decision.reason, REA_REASON_DEADLINE);
	assert_int_equal(result.report.code, 429);
	rig_stop(&rig);
}

/* A parked call sleeps in its thread, goes on when somebody else has success, and ends at once when it is told to. */
static struct rea_report fail_until_parked(const struct rea_guard_attempt *attempt, void *arg)
{
	struct rig *rig = arg;

	(void)attempt;
	if (rig->events_len > 0 && rig->events[rig->events_len - 1].event.reason == REA_REASON_PARKED)
		return (struct rea_report){.outcome = REA_OUTCOME_OK};
	return (struct rea_report){.outcome = REA_OUTCOME_UNAVAILABLE};
}

static void a_parked_call_sleeps(void **state)
{
	struct rea_guard_run_options options;
	struct rea_guard_result result;
	uint64_t begin_ns;
	struct rig rig;

	(void)state;
	start(&rig, &options, 9);
	rig.options.policy.deadline_ns = rig.options.policy.attempt_timeout_ns = MS(1000);
	rig_start(&rig);
	for (int i = 0; i < 4; i++)
		if (rig.events_len == 0 || rig.events[rig.events_len - 1].event.reason != REA_REASON_BUDGET_EXHAUSTED)
			rea_guard_run(&rig.thread, fail_until_parked, &rig, &options, &result);
	/* Nobody else has success: it is given up after half of its time. */
	assert_int_equal(result.decision.reason, REA_REASON_BUDGET_EXHAUSTED);
	assert_int_equal(result.stage, REA_GUARD_STAGE_CALL);
	begin_ns = clock_ns();
	options.cancel_fd = eventfd(1, EFD_CLOEXEC);
	rig.events_len = 0;
	rea_guard_run(&rig.thread, fail_until_parked, &rig, &options, &result);
	assert_true(result.decision.reason == REA_REASON_CANCELLED || result.decision.reason == REA_REASON_BUDGET_EXHAUSTED);
	assert_in_range(clock_ns() - begin_ns, 0, MS(SLACK_MS));
	close(options.cancel_fd);
	rig_stop(&rig);
}

static void without_options_there_is_one_attempt(void **state)
{
	struct script script = {.reports = {{.outcome = REA_OUTCOME_UNAVAILABLE}}};
	struct rea_guard_run_options options;
	struct rig rig;

	(void)state;
	start(&rig, &options, 2);
	rig_start(&rig);
	assert_int_equal(rea_guard_run(&rig.thread, play, &script, NULL, NULL), REA_VERDICT_GIVE_UP);
	assert_int_equal(script.calls, 1);
	rig_stop(&rig);
}

static void a_refusal_makes_no_attempt(void **state)
{
	struct script script = {0};
	struct rea_guard_run_options options;
	struct rea_guard_result result;
	struct rig rig;

	(void)state;
	start(&rig, &options, 2);
	rig.options.policy.breaker.enabled = true;
	rig_start(&rig);
	rea_shared_breaker_force(rea_guard_breaker(rig.guard), REA_BREAKER_FORCED_OPEN, 0);
	assert_int_equal(rea_guard_run(&rig.thread, play, &script, &options, &result), REA_VERDICT_GIVE_UP);
	assert_int_equal(script.calls, 0);
	assert_int_equal(result.decision.reason, REA_REASON_BREAKER_OPEN);
	assert_int_equal(result.stage, REA_GUARD_STAGE_BREAKER);
	assert_int_equal(result.report.outcome, REA_OUTCOME_NEVER_SENT);
	rig_stop(&rig);
}

/* ---- cancel from another thread ---- */

struct canceller {
	int fd;
	uint64_t said_ns;
};

static void *cancel_in_50_ms(void *arg)
{
	static const struct timespec wait = {0, 50000000};
	struct canceller *canceller = arg;
	uint64_t one = 1;

	nanosleep(&wait, NULL);
	__atomic_store_n(&canceller->said_ns, clock_ns(), __ATOMIC_RELAXED);
	assert_int_equal(write(canceller->fd, &one, sizeof(one)), sizeof(one));
	return NULL;
}

static void a_sleep_is_cancelled_at_once(void **state)
{
	uint64_t fastest_ns = REA_NEVER;

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct script script = {
		    .reports = {{.outcome = REA_OUTCOME_UNAVAILABLE, .code = 503, .code_kind = REA_CODE_HTTP}}};
		struct canceller canceller = {.fd = eventfd(0, 0)};
		struct rea_guard_run_options options;
		struct rea_guard_result result;
		struct rig rig;
		pthread_t thread;

		start(&rig, &options, 2);
		rig.options.policy.min_backoff_ns = rig.options.policy.max_backoff_ns = S(8);
		options.cancel_fd = canceller.fd;
		rig_start(&rig);
		assert_int_equal(pthread_create(&thread, NULL, cancel_in_50_ms, &canceller), 0);
		assert_int_equal(rea_guard_run(&rig.thread, play, &script, &options, &result), REA_VERDICT_GIVE_UP);
		fastest_ns = rea_time_min(fastest_ns, clock_ns() - __atomic_load_n(&canceller.said_ns, __ATOMIC_RELAXED));
		assert_int_equal(result.decision.reason, REA_REASON_CANCELLED);
		/* What the last attempt came to is kept. */
		assert_int_equal(result.report.code, 503);
		assert_int_equal(script.calls, 1);
		assert_int_equal(script.seen[0].cancel_fd, canceller.fd);
		pthread_join(thread, NULL);
		/* Said once, it holds for every call that is given it: here the next wait ends before it begins. */
		script.calls = 0;
		assert_int_equal(rea_guard_run(&rig.thread, play, &script, &options, NULL), REA_VERDICT_GIVE_UP);
		assert_int_equal(script.calls, 1);
		close(canceller.fd);
		rig_stop(&rig);
	}
	assert_in_range(fastest_ns, 0, MS(10));
}

/* The end of a pipe whose other side was closed says the same. */
static void a_closed_pipe_cancels(void **state)
{
	struct script script = {.reports = {{.outcome = REA_OUTCOME_UNAVAILABLE}}};
	struct rea_guard_run_options options;
	struct rea_guard_result result;
	struct rig rig;
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	close(fds[1]);
	start(&rig, &options, 2);
	options.cancel_fd = fds[0];
	rig_start(&rig);
	rea_guard_run(&rig.thread, play, &script, &options, &result);
	assert_int_equal(result.decision.reason, REA_REASON_CANCELLED);
	close(fds[0]);
	rig_stop(&rig);
}

/* ---- the line ---- */

struct waiter {
	struct rig *rig;
	struct rea_guard_thread thread;
	struct rea_guard_run_options options;
	struct rea_guard_result result;
	uint64_t first_ns; /* its first attempt began */
	uint64_t end_ns;
	uint64_t cpu_ns; /* that all of it took */
};

static struct rea_report succeed_at_second(const struct rea_guard_attempt *attempt, void *arg)
{
	struct waiter *waiter = arg;

	if (attempt->number > 1)
		return rea_report_ok();
	waiter->first_ns = clock_ns();
	return rea_report_fail(REA_OUTCOME_UNAVAILABLE);
}

static void *run_one(void *arg)
{
	struct waiter *waiter = arg;
	struct timespec cpu;

	rea_guard_run(&waiter->thread, succeed_at_second, waiter, &waiter->options, &waiter->result);
	waiter->end_ns = clock_ns();
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
	waiter->cpu_ns = (uint64_t)cpu.tv_sec * REA_NS_PER_S + (uint64_t)cpu.tv_nsec;
	return NULL;
}

static bool somebody_waits(struct rig *rig)
{
	char text[4096];

	rea_guard_explain(rig->guard, clock_ns(), text, sizeof(text));
	return strstr(text, " 1 waiting") != NULL;
}

/* The slot is held by a call in a loop; one that runs in a thread gets it when it comes back, or is cancelled in line. */
static void one_waits_in_line_for_a_slot(void **state)
{
	(void)state;
	for (int cancelled = 0; cancelled < 2; cancelled++) {
		struct rea_guard_run_options options;
		struct rea_guard_call holder;
		struct waiter waiter;
		struct rig rig;
		pthread_t thread;
		uint64_t said_ns, one = 1;

		start(&rig, &options, 1);
		rig.options.limiter_on = true;
		rig.options.limiter.concurrent_max = 1;
		rig.options.limiter.waiting_max = 1;
		rig.options.limiter_wait_ns = S(9);
		rig.options.wake = NULL;
		rig.base_ns = clock_ns();
		rig_start(&rig);
		waiter = (struct waiter){.rig = &rig, .options = options};
		waiter.options.cancel_fd = eventfd(0, 0);
		assert_int_equal(rea_guard_join(rig.guard, 5, &waiter.thread), 0);
		rig_fly(&rig, &holder, 0);
		assert_int_equal(pthread_create(&thread, NULL, run_one, &waiter), 0);
		while (!somebody_waits(&rig))
			sched_yield();
		said_ns = clock_ns();
		if (cancelled)
			assert_int_equal(write(waiter.options.cancel_fd, &one, sizeof(one)), sizeof(one));
		else
			rig_end(&rig, &holder, REA_OUTCOME_OK, 1);
		pthread_join(thread, NULL);
		assert_in_range((cancelled ? waiter.end_ns : waiter.first_ns) - said_ns, 0, MS(SLACK_MS));
		assert_int_equal(waiter.result.decision.verdict, cancelled ? REA_VERDICT_GIVE_UP : REA_VERDICT_SUCCESS);
		/* It slept: in line, and then the 30 ms before its second attempt. */
		assert_in_range(waiter.cpu_ns, 0, MS(15));
		if (cancelled)
			rig_end(&rig, &holder, REA_OUTCOME_OK, 1);
		assert_false(somebody_waits(&rig));
		close(waiter.options.cancel_fd);
		rea_guard_leave(&waiter.thread);
		rig_stop(&rig);
	}
}

/* ---- L14: stacked layers ---- */

struct layers {
	struct rea_guard_thread *outer, *inner;
	struct rea_guard_run_options inner_options;
	struct rea_guard_result inner_result;
	uint32_t requests; /* that the backend saw */
};

static struct rea_report backend(const struct rea_guard_attempt *attempt, void *arg)
{
	struct layers *layers = arg;

	(void)attempt;
	layers->requests++;
	return rea_report_from_http(503, NULL);
}

static struct rea_report inner_call(const struct rea_guard_attempt *attempt, void *arg)
{
	struct layers *layers = arg;

	layers->inner_options.call.outer = attempt;
	rea_guard_run(layers->inner, backend, layers, &layers->inner_options, &layers->inner_result);
	return rea_report_from_result(&layers->inner_result);
}

/* Requests that the backend sees, with an outer policy of 5 attempts around an inner one. */
static uint32_t run_layers(uint32_t inner_retries, uint32_t inner_reserve_per_s, struct rea_guard_result *ret_result)
{
	struct rea_guard_run_options outer_options;
	struct layers layers = {0};
	struct rig outer, inner;

	start(&outer, &outer_options, 4);
	rig_start(&outer);
	start(&inner, &layers.inner_options, inner_retries);
	inner.options.policy.budget.rule = REA_BUDGET_RATIO;
	inner.options.policy.budget.ratio_permille = 0;
	inner.options.policy.budget.reserve_per_s = inner_reserve_per_s;
	rig_start(&inner);
	layers.outer = &outer.thread;
	layers.inner = &inner.thread;
	rea_guard_run(&outer.thread, inner_call, &layers, &outer_options, ret_result);
	rig_stop(&outer);
	rig_stop(&inner);
	return layers.requests;
}

static void one_layer_retries(void **state)
{
	struct rea_guard_result result;

	(void)state;
	/* The inner one gave up after retrying: the outer one stops. Two requests, not ten. */
	assert_int_equal(run_layers(1, 10, &result), 2);
	assert_int_equal(result.decision.reason, REA_REASON_SERVER_REFUSED);
	assert_int_equal(result.decision.attempt, 1);
	/* The inner one's budget is exhausted: the same. */
	assert_int_equal(run_layers(1, 0, &result), 1);
	assert_int_equal(result.decision.reason, REA_REASON_SERVER_REFUSED);
	/* An inner one that does not retry leaves it to the outer one. */
	assert_int_equal(run_layers(0, 10, &result), 5);
	assert_int_equal(result.decision.reason, REA_REASON_ATTEMPTS_EXHAUSTED);
}

/* never-sent: allow. What was provably not executed is retried without permission, a timeout is not. */
static void what_was_never_sent_may_be_allowed(void **state)
{
	static const struct {
		int error;
		enum rea_phase phase;
		enum rea_permission permission;
		uint32_t requests;
	} cases[] = {
	    {ETIMEDOUT, REA_PHASE_SENT, REA_PERMISSION_NONE, 1},
	    {ECONNREFUSED, REA_PHASE_CONNECT, REA_PERMISSION_NONE, 2},
	    {ETIMEDOUT, REA_PHASE_SENT, REA_PERMISSION_SAFE, 2},
	    {ECONNREFUSED, REA_PHASE_CONNECT, REA_PERMISSION_FORBID, 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rea_report report = rea_report_from_errno(cases[i].error, cases[i].phase);
		struct script script = {.reports = {report, report}};
		struct rea_guard_run_options options;
		struct rig rig;

		start(&rig, &options, 1);
		rig.options.policy.never_sent = REA_NEVER_SENT_ALLOW;
		options.call.grant.permission = cases[i].permission;
		rig_start(&rig);
		assert_int_equal(rea_guard_run(&rig.thread, play, &script, &options, NULL), REA_VERDICT_GIVE_UP);
		assert_int_equal(script.calls, cases[i].requests);
		rig_stop(&rig);
	}
}

/* A run within a run on one thread: each has its own line, waits and permission. */
static struct rea_report nest(const struct rea_guard_attempt *attempt, void *arg)
{
	struct rig *rig = arg;
	struct script script = {.reports = {{.outcome = REA_OUTCOME_UNAVAILABLE}}};
	struct rea_guard_result result;

	(void)attempt;
	rea_guard_run(&rig->thread, play, &script, NULL, &result);
	assert_int_equal(result.decision.reason, REA_REASON_NOT_DECLARED);
	return attempt->number < 2 ? rea_report_fail(REA_OUTCOME_UNAVAILABLE) : rea_report_ok();
}

static void a_run_within_a_run_has_its_own_permission(void **state)
{
	struct rea_guard_run_options options;
	struct rea_guard_result result;
	struct rig rig;

	(void)state;
	start(&rig, &options, 1);
	rig_start(&rig);
	assert_int_equal(rea_guard_run(&rig.thread, nest, &rig, &options, &result), REA_VERDICT_SUCCESS);
	assert_int_equal(result.decision.attempt, 2);
	rig_stop(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_sleeps_between_attempts),
	    cmocka_unit_test(it_does_not_sleep_towards_a_deadline),
	    cmocka_unit_test(a_parked_call_sleeps),
	    cmocka_unit_test(without_options_there_is_one_attempt),
	    cmocka_unit_test(a_refusal_makes_no_attempt),
	    cmocka_unit_test(a_sleep_is_cancelled_at_once),
	    cmocka_unit_test(a_closed_pipe_cancels),
	    cmocka_unit_test(one_waits_in_line_for_a_slot),
	    cmocka_unit_test(one_layer_retries),
	    cmocka_unit_test(what_was_never_sent_may_be_allowed),
	    cmocka_unit_test(a_run_within_a_run_has_its_own_permission),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
