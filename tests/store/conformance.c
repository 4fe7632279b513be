/*
 * The suite that every store runs. Time is an integer: the clock of these tests stands at 1000 s until a test moves it.
 */
#include "conformance.h"

#include "rig.h"

#include <stdlib.h>

static bool run_on_sqlite;

static int open_rig(void **state)
{
	struct rig *rig = malloc(sizeof(*rig));

	rig_init(rig, run_on_sqlite);
	rig_open(rig);
	*state = rig;
	return 0;
}

static int close_rig(void **state)
{
	struct rig *rig = *state;

	rig_close(rig);
	rig_fini(rig);
	free(rig);
	return 0;
}

static struct rea_store_status status_of(struct rig *rig)
{
	struct rea_store_status status;

	rea_store_status(rig->store, &status);
	return status;
}

static void assert_counts(struct rig *rig, uint64_t pending, uint64_t running, uint64_t retrying, uint64_t success,
    uint64_t given_up, uint64_t cancelled)
{
	struct rea_store_status status = status_of(rig);
	const uint64_t expected[] = {pending, running, retrying, success, given_up, cancelled};

	for (int i = 0; i < REA_STORE_STATE_COUNT; i++)
		if (status.counts[i] != expected[i])
			fail_msg("%s: %llu, not %llu", rea_store_state_name((enum rea_store_state)i),
			    (unsigned long long)status.counts[i], (unsigned long long)expected[i]);
}

/* ---- one life ---- */

static void test_a_life(void **state)
{
	struct rig *rig = *state;
	struct rea_store_submit submit = submission("k-1", "the payload");
	struct outcome *outcome = do_submit(rig, &submit);
	const struct rea_store_attempt *attempts;
	struct rea_store_task task;
	uint64_t id = outcome->task.id, claim;

	assert_int_equal(outcome->error, 0);
	assert_false(outcome->existed);
	assert_int_equal(outcome->task.state, REA_STORE_PENDING);
	assert_int_equal(outcome->task.generation, 1);
	assert_int_equal(outcome->task.due_ns, S(1000));
	assert_counts(rig, 1, 0, 0, 0, 0, 0);
	task = task_of(rig, id);
	assert_int_equal(task.submitted_unix_ns, (int64_t)S(1700000000));
	assert_text_is(task.target, "users");
	assert_text_is(task.biz_id, "order-7");
	assert_text_is(task.key, "k-1");
	assert_text_is(task.payload, "the payload");
	assert_text_is(task.reason, "");

	rig->now_ns += MS(5);
	outcome = do_claim(rig, id);
	claim = outcome->task.claim;
	assert_int_equal(outcome->error, 0);
	assert_int_equal(outcome->task.attempt, 1);
	assert_true(claim > 0);
	assert_int_equal(outcome->task.due_ns, rig->now_ns + LEASE);
	assert_counts(rig, 0, 1, 0, 0, 0, 0);

	rig->now_ns += MS(12);
	outcome = do_reschedule(rig, id, claim, MS(104));
	assert_int_equal(outcome->error, 0);
	assert_int_equal(outcome->task.state, REA_STORE_RETRYING);
	assert_int_equal(outcome->task.due_ns, rig->now_ns + MS(104));
	assert_int_equal(outcome->task.claim, 0);

	rig->now_ns += MS(104) - 1;
	assert_int_equal(do_claim(rig, id)->error, REA_ERR_CONFLICT); /* not early */
	rig->now_ns += 1;
	claim = claimed(rig, id);
	outcome = do_finish(rig, id, claim, REA_STORE_GIVEN_UP);
	assert_int_equal(outcome->error, 0);
	assert_int_equal(outcome->task.state, REA_STORE_GIVEN_UP);
	assert_int_equal(outcome->task.attempt, 2);
	assert_true(outcome->task.due_ns == REA_NEVER);
	assert_counts(rig, 0, 0, 0, 0, 1, 0);

	task = task_of(rig, id);
	assert_text_is(task.reason, "permanent");
	assert_text_is(task.payload, "the payload");
	assert_int_equal(task.updated_unix_ns, (int64_t)(S(1700000000) + rig->now_ns - S(1000)));
	assert_int_equal(attempts_of(rig, id, &attempts), 2);
	assert_int_equal(attempts[0].number, 1);
	assert_int_equal(attempts[0].generation, 1);
	assert_int_equal(attempts[0].outcome, REA_OUTCOME_UNAVAILABLE);
	assert_int_equal(attempts[0].code_kind, REA_CODE_HTTP);
	assert_int_equal(attempts[0].code, 503);
	assert_int_equal(attempts[0].start_unix_ns, (int64_t)(S(1700000000) + MS(17)));
	assert_int_equal(attempts[0].cost_ns, MS(12));
	assert_false(attempts[0].interrupted);
	assert_text_is(attempts[0].instance, "127.0.0.1:9001");
	assert_text_is(attempts[0].detail, "try later");
	assert_text_is(attempts[0].reason, "");
	assert_int_equal(attempts[1].number, 2);
	assert_int_equal(attempts[1].outcome, REA_OUTCOME_PERMANENT);
	assert_text_is(attempts[1].reason, "permanent");
}

static void test_terminal_is_terminal(void **state)
{
	static const enum rea_store_state ends[] = {REA_STORE_SUCCESS, REA_STORE_GIVEN_UP, REA_STORE_CANCELLED};
	struct rig *rig = *state;

	for (size_t i = 0; i < 3; i++) {
		uint64_t id = new_task(rig, 0), claim = claimed(rig, id);

		assert_int_equal(do_finish(rig, id, claim, ends[i])->error, 0);
		for (size_t j = 0; j < 3; j++) {
			struct outcome *outcome = do_finish(rig, id, claim, ends[j]);

			assert_int_equal(outcome->error, REA_ERR_CONFLICT);
			assert_int_equal(outcome->task.state, ends[i]);
		}
		assert_int_equal(do_cancel(rig, id)->error, REA_ERR_CONFLICT);
		assert_int_equal(do_claim(rig, id)->error, REA_ERR_CONFLICT);
		assert_int_equal(do_record(rig, id, claim)->error, REA_ERR_CONFLICT);
		assert_int_equal(do_heartbeat(rig, id, claim, LEASE)->error, REA_ERR_CONFLICT);
		assert_int_equal(do_reschedule(rig, id, claim, 0)->error, REA_ERR_CONFLICT);
		assert_int_equal(state_of(rig, id), ends[i]);
	}
	assert_counts(rig, 0, 0, 0, 1, 1, 1);
}

static void test_unknown_ids(void **state)
{
	static const uint64_t ids[] = {0, 1, 99, INT64_MAX, UINT64_MAX};
	struct rig *rig = *state;
	const struct rea_store_attempt *attempts;

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		assert_int_equal(do_claim(rig, ids[i])->error, REA_ERR_NOT_FOUND);
		assert_int_equal(do_heartbeat(rig, ids[i], 1, LEASE)->error, REA_ERR_NOT_FOUND);
		assert_int_equal(do_record(rig, ids[i], 1)->error, REA_ERR_NOT_FOUND);
		assert_int_equal(do_reschedule(rig, ids[i], 1, 0)->error, REA_ERR_NOT_FOUND);
		assert_int_equal(do_finish(rig, ids[i], 1, REA_STORE_SUCCESS)->error, REA_ERR_NOT_FOUND);
		assert_int_equal(do_cancel(rig, ids[i])->error, REA_ERR_NOT_FOUND);
		assert_int_equal(do_replay(rig, ids[i], 0, true)->error, REA_ERR_NOT_FOUND);
		assert_int_equal(state_of(rig, ids[i]), REA_STORE_STATE_COUNT);
		assert_int_equal(attempts_of(rig, ids[i], &attempts), 0);
	}
}

/* ---- submit ---- */

static void test_submit_is_idempotent(void **state)
{
	struct rig *rig = *state;
	struct rea_store_submit first = submission("k-1", "body"), other = submission("k-1", "other body"),
				second_key = submission("k-2", "body");
	uint64_t id = do_submit(rig, &first)->task.id;
	struct outcome *outcome = do_submit(rig, &first);

	assert_int_equal(outcome->error, 0);
	assert_true(outcome->existed);
	assert_int_equal(outcome->task.id, id);
	assert_int_equal(outcome->task.submitted_unix_ns, (int64_t)S(1700000000));
	outcome = do_submit(rig, &other);
	assert_int_equal(outcome->error, REA_ERR_CONFLICT);
	assert_false(outcome->existed);
	assert_int_equal(outcome->task.id, id);
	assert_counts(rig, 1, 0, 0, 0, 0, 0);
	outcome = do_submit(rig, &second_key);
	assert_false(outcome->existed);
	assert_int_not_equal(outcome->task.id, id);

	assert_int_equal(do_finish(rig, id, claimed(rig, id), REA_STORE_SUCCESS)->error, 0);
	outcome = do_submit(rig, &first);
	assert_true(outcome->existed);
	assert_int_equal(outcome->task.state, REA_STORE_SUCCESS);
	assert_int_equal(do_submit(rig, &other)->error, REA_ERR_CONFLICT);
	assert_counts(rig, 1, 0, 0, 1, 0, 0);
}

static void test_without_key_each_is_new(void **state)
{
	struct rig *rig = *state;
	uint64_t last = 0;

	for (int i = 0; i < 100; i++) {
		uint64_t id = new_task(rig, 0);

		assert_true(id > last);
		last = id;
	}
	assert_counts(rig, 100, 0, 0, 0, 0, 0);
}

/* Fifty at once, with one key: one task. */
static void test_submit_only_looks(void **state)
{
	struct rig *rig = *state;
	struct rea_store_submit look = submission("k-1", "body"), first = look, other = submission("k-1", "other body");
	uint64_t id;

	look.only_look = other.only_look = true;
	assert_int_equal(do_submit(rig, &look)->error, REA_ERR_NOT_FOUND);
	assert_counts(rig, 0, 0, 0, 0, 0, 0);
	id = do_submit(rig, &first)->task.id;
	assert_true(do_submit(rig, &look)->existed);
	assert_int_equal(do_submit(rig, &look)->task.id, id);
	assert_int_equal(do_submit(rig, &other)->error, REA_ERR_CONFLICT);
	assert_counts(rig, 1, 0, 0, 0, 0, 0);
}

static void test_parallel_submits(void **state)
{
	struct rig *rig = *state;
	struct rea_store_submit submit = submission("k-1", "body");
	struct outcome *outcomes = calloc(50, sizeof(*outcomes));
	size_t existed = 0;

	for (int i = 0; i < 50; i++)
		assert_int_equal(rea_store_submit(rig->store, &submit, rig->now_ns, rig_note, &outcomes[i]), 0);
	for (int i = 0; i < 50; i++) {
		rig_wait(rig, &outcomes[i]);
		assert_int_equal(outcomes[i].error, 0);
		assert_int_equal(outcomes[i].task.id, outcomes[0].task.id);
		existed += outcomes[i].existed;
	}
	assert_int_equal(existed, 49);
	assert_counts(rig, 1, 0, 0, 0, 0, 0);
	free(outcomes);
}

static void test_submit_after_attempts(void **state)
{
	struct rig *rig = *state;
	struct rea_store_attempt made[2] = {unavailable(S(999)), unavailable(S(1000))};
	struct rea_store_submit submit = submission("", "body");
	const struct rea_store_attempt *attempts;
	struct outcome *outcome;
	uint64_t id;

	made[0].number = 1;
	made[1].number = 2;
	made[1].instance = text("127.0.0.1:9002");
	submit.attempts = made;
	submit.attempts_len = 2;
	submit.delay_ns = MS(200);
	outcome = do_submit(rig, &submit);
	id = outcome->task.id;
	assert_int_equal(outcome->task.state, REA_STORE_RETRYING);
	assert_int_equal(outcome->task.attempt, 2);
	assert_int_equal(outcome->task.due_ns, S(1000) + MS(200));
	assert_int_equal(attempts_of(rig, id, &attempts), 2);
	assert_int_equal(attempts[0].start_unix_ns, (int64_t)S(1699999999));
	assert_text_is(attempts[1].instance, "127.0.0.1:9002");
	rig->now_ns += MS(200);
	assert_int_equal(do_claim(rig, id)->task.attempt, 3);
}

/* What the caller gave may change at once. */
static void test_arguments_are_copied(void **state)
{
	struct rig *rig = *state;
	char key[] = "k-1", payload[] = "body", reason[] = "why", detail[] = "what";
	struct rea_store_submit submit = submission(key, payload);
	struct rea_store_attempt attempt = unavailable(rig->now_ns);
	struct outcome *outcome = calloc(1, sizeof(*outcome));
	const struct rea_store_attempt *attempts;
	struct rea_store_finish finish;
	uint64_t id;

	submit.spec.key = text(key);
	submit.spec.payload = text(payload);
	assert_int_equal(rea_store_submit(rig->store, &submit, rig->now_ns, rig_note, outcome), 0);
	memset(key, 'x', sizeof(key) - 1);
	memset(payload, 'x', sizeof(payload) - 1);
	rig_wait(rig, outcome);
	id = outcome->task.id;
	assert_text_is(task_of(rig, id).key, "k-1");
	assert_text_is(task_of(rig, id).payload, "body");

	attempt.detail = text(detail);
	finish = (struct rea_store_finish){.id = id,
	    .claim = claimed(rig, id),
	    .state = REA_STORE_GIVEN_UP,
	    .reason = text(reason),
	    .attempted = true,
	    .attempt = &attempt};
	memset(outcome, 0, sizeof(*outcome));
	assert_int_equal(rea_store_finish(rig->store, &finish, rig->now_ns, rig_note, outcome), 0);
	memset(reason, 'x', sizeof(reason) - 1);
	memset(detail, 'x', sizeof(detail) - 1);
	memset(&attempt, 0, sizeof(attempt));
	rig_wait(rig, outcome);
	assert_text_is(task_of(rig, id).reason, "why");
	assert_int_equal(attempts_of(rig, id, &attempts), 1);
	assert_text_is(attempts[0].detail, "what");
	free(outcome);
}

static void test_texts_are_bytes(void **state)
{
	static const char bytes[] = "\0a\xff\xfe'\";--\0\n\x80";
	const struct rea_text raw = {bytes, sizeof(bytes) - 1};
	struct rig *rig = *state;
	struct rea_store_submit submit = {.spec = {.target = raw, .biz_id = raw, .key = raw, .payload = raw}};
	struct rea_store_filter filter = {.target = raw, .biz_id = raw, .max = 10};
	struct rea_store_task task;
	struct rea_store_page page;
	uint64_t id = do_submit(rig, &submit)->task.id;

	task = task_of(rig, id);
	assert_int_equal(task.key.length, raw.length);
	assert_memory_equal(task.target.text, bytes, raw.length);
	assert_memory_equal(task.biz_id.text, bytes, raw.length);
	assert_memory_equal(task.key.text, bytes, raw.length);
	assert_memory_equal(task.payload.text, bytes, raw.length);
	assert_true(do_submit(rig, &submit)->existed);
	assert_int_equal(rea_store_list(rig->reader, &filter, &page), 0);
	assert_int_equal(page.tasks_len, 1);
	filter.biz_id = (struct rea_text){bytes, raw.length - 1};
	assert_int_equal(rea_store_list(rig->reader, &filter, &page), 0);
	assert_int_equal(page.tasks_len, 0);
}

/* ---- claims ---- */

static void test_late_worker_loses(void **state)
{
	struct rig *rig = *state;
	const struct rea_store_attempt *attempts;
	uint64_t id = new_task(rig, 0), old = claimed(rig, id), claim;
	struct outcome *outcome;

	assert_int_equal(do_claim(rig, id)->error, REA_ERR_CONFLICT); /* somebody has it */
	rig->now_ns += LEASE - 1;
	assert_int_equal(do_claim(rig, id)->error, REA_ERR_CONFLICT);
	rig->now_ns += 1;
	outcome = do_claim(rig, id);
	claim = outcome->task.claim;
	assert_int_equal(outcome->error, 0);
	assert_true(claim > old);
	assert_int_equal(outcome->task.attempt, 2);
	assert_int_equal(outcome->task.crashes, 1);
	assert_int_equal(attempts_of(rig, id, &attempts), 1);
	assert_int_equal(attempts[0].number, 1);
	assert_true(attempts[0].interrupted);
	assert_int_equal(attempts[0].outcome, REA_OUTCOME_AMBIGUOUS);
	assert_int_equal(attempts[0].cost_ns, LEASE);
	assert_int_equal(attempts[0].start_unix_ns, (int64_t)S(1700000000));

	assert_int_equal(do_heartbeat(rig, id, old, LEASE)->error, REA_ERR_CONFLICT);
	assert_int_equal(do_record(rig, id, old)->error, REA_ERR_CONFLICT);
	assert_int_equal(do_reschedule(rig, id, old, 0)->error, REA_ERR_CONFLICT);
	assert_int_equal(do_finish(rig, id, old, REA_STORE_SUCCESS)->error, REA_ERR_CONFLICT);
	assert_int_equal(do_reschedule_with(rig, &(struct rea_store_reschedule){.id = id})->error, REA_ERR_CONFLICT);
	assert_int_equal(state_of(rig, id), REA_STORE_RUNNING);
	assert_int_equal(attempts_of(rig, id, &attempts), 1);
	assert_int_equal(do_finish(rig, id, claim, REA_STORE_SUCCESS)->error, 0);
	assert_int_equal(do_finish(rig, id, claim, REA_STORE_SUCCESS)->error, REA_ERR_CONFLICT);
}

/* A lease that has ended but was not taken is still its holder's. */
static void test_heartbeat(void **state)
{
	struct rig *rig = *state;
	uint64_t id = new_task(rig, 0), claim = claimed(rig, id);
	struct outcome *outcome;

	rig->now_ns += LEASE - 1;
	outcome = do_heartbeat(rig, id, claim, LEASE);
	assert_int_equal(outcome->error, 0);
	assert_int_equal(outcome->task.due_ns, rig->now_ns + LEASE);
	rig->now_ns += LEASE - 1;
	assert_int_equal(do_claim(rig, id)->error, REA_ERR_CONFLICT);
	rig->now_ns += 2;
	assert_int_equal(do_heartbeat(rig, id, claim, LEASE)->error, 0);
	assert_int_equal(do_finish(rig, id, claim, REA_STORE_SUCCESS)->error, 0);
}

static void test_several_attempts_under_one_claim(void **state)
{
	struct rig *rig = *state;
	const struct rea_store_attempt *attempts;
	uint64_t id = new_task(rig, 0), claim = claimed(rig, id);
	struct outcome *outcome = do_record(rig, id, claim);

	assert_int_equal(outcome->error, 0);
	assert_int_equal(outcome->task.state, REA_STORE_RUNNING);
	assert_int_equal(outcome->task.attempt, 2);
	assert_int_equal(outcome->task.claim, claim);
	rig->now_ns += MS(30);
	assert_int_equal(do_record(rig, id, claim)->task.attempt, 3);
	assert_int_equal(do_finish(rig, id, claim, REA_STORE_SUCCESS)->error, 0);
	assert_int_equal(attempts_of(rig, id, &attempts), 2);
	assert_int_equal(attempts[1].number, 2);
	assert_int_equal(task_of(rig, id).attempt, 3);
}

static void test_attempt_that_was_not_made(void **state)
{
	struct rig *rig = *state;
	const struct rea_store_attempt *attempts;
	uint64_t id = new_task(rig, 0), claim = claimed(rig, id);
	struct rea_store_reschedule back = {.id = id, .claim = claim, .delay_ns = MS(1)};
	struct outcome *outcome = do_reschedule_with(rig, &back);

	assert_int_equal(outcome->error, 0);
	assert_int_equal(outcome->task.state, REA_STORE_PENDING);
	assert_int_equal(outcome->task.attempt, 0);
	rig->now_ns += MS(1);
	claim = claimed(rig, id);
	assert_int_equal(do_reschedule(rig, id, claim, 0)->task.attempt, 1);
	back.claim = claimed(rig, id);
	outcome = do_reschedule_with(rig, &back);
	assert_int_equal(outcome->task.state, REA_STORE_RETRYING);
	assert_int_equal(outcome->task.attempt, 1);
	rig->now_ns += MS(1);
	claim = claimed(rig, id);
	outcome = do_finish_with(rig,
	    &(struct rea_store_finish){.id = id, .claim = claim, .state = REA_STORE_GIVEN_UP, .reason = text("deadline")});
	assert_int_equal(outcome->task.attempt, 1);
	assert_int_equal(attempts_of(rig, id, &attempts), 1);
}

static void test_without_a_claim(void **state)
{
	struct rig *rig = *state;
	uint64_t id = new_task(rig, S(5));
	struct outcome *outcome = do_reschedule_with(rig, &(struct rea_store_reschedule){.id = id, .delay_ns = S(60)});

	assert_int_equal(outcome->error, 0);
	assert_int_equal(outcome->task.state, REA_STORE_PENDING);
	assert_int_equal(outcome->task.due_ns, rig->now_ns + S(60));
	outcome = do_finish_with(
	    rig, &(struct rea_store_finish){.id = id, .state = REA_STORE_GIVEN_UP, .reason = text("deadline")});
	assert_int_equal(outcome->error, 0);
	assert_int_equal(outcome->task.attempt, 0);
	assert_text_is(task_of(rig, id).reason, "deadline");
}

static void test_claim_loads(void **state)
{
	struct rig *rig = *state;
	struct rea_store_submit submit = submission("k-1", "the payload");
	uint64_t id = do_submit(rig, &submit)->task.id;
	struct outcome *outcome =
	    do_claim_with(rig, &(struct rea_store_claim){.id = id, .lease_ns = LEASE, .load = true, .relaxed = true});

	assert_int_equal(outcome->error, 0);
	assert_text_is(outcome->task.target, "users");
	assert_text_is(outcome->task.biz_id, "order-7");
	assert_text_is(outcome->task.key, "k-1");
	assert_text_is(outcome->task.payload, "the payload");
	assert_int_equal(outcome->task.submitted_unix_ns, (int64_t)S(1700000000));
}

static void test_claim_of_a_generation(void **state)
{
	struct rig *rig = *state;
	uint64_t id = new_task(rig, 0);
	struct rea_store_claim claim = {.id = id, .generation = 2, .lease_ns = LEASE};

	assert_int_equal(do_claim_with(rig, &claim)->error, REA_ERR_CONFLICT);
	claim.generation = 1;
	assert_int_equal(do_claim_with(rig, &claim)->error, 0);
}

/* ---- cancel, replay ---- */

static void test_cancel(void **state)
{
	struct rig *rig = *state;
	const struct rea_store_attempt *attempts;
	uint64_t pending = new_task(rig, S(9)), running = new_task(rig, 0), retrying = new_task(rig, 0), claim;

	claim = claimed(rig, running);
	do_reschedule(rig, retrying, claimed(rig, retrying), S(9));
	assert_int_equal(do_cancel(rig, pending)->error, 0);
	rig->now_ns += MS(7);
	assert_int_equal(do_cancel(rig, running)->task.state, REA_STORE_CANCELLED);
	assert_int_equal(do_cancel(rig, retrying)->error, 0);
	assert_counts(rig, 0, 0, 0, 0, 0, 3);
	assert_text_is(task_of(rig, pending).reason, "cancelled");
	assert_int_equal(do_finish(rig, running, claim, REA_STORE_SUCCESS)->error, REA_ERR_CONFLICT);
	assert_int_equal(do_cancel(rig, running)->error, REA_ERR_CONFLICT);
	assert_int_equal(attempts_of(rig, pending, &attempts), 0);
	assert_int_equal(attempts_of(rig, running, &attempts), 1);
	assert_int_equal(attempts[0].outcome, REA_OUTCOME_CANCELLED);
	assert_false(attempts[0].interrupted);
	assert_int_equal(attempts[0].cost_ns, MS(7));
	rig->now_ns += S(9);
	assert_int_equal(do_due(rig, REA_NEVER, 10)->tasks_len, 0);
}

static void test_replay(void **state)
{
	struct rig *rig = *state;
	const struct rea_store_attempt *attempts;
	struct rea_store_submit submit = submission("k-1", "body");
	uint64_t id = do_submit(rig, &submit)->task.id;
	struct outcome *outcome;

	assert_int_equal(do_replay(rig, id, 0, true)->error, REA_ERR_CONFLICT); /* it is open */
	do_reschedule(rig, id, claimed(rig, id), 0);
	do_finish(rig, id, claimed(rig, id), REA_STORE_GIVEN_UP);
	outcome = do_replay(rig, id, 1, false);
	assert_int_equal(outcome->error, 0);
	assert_int_equal(outcome->task.state, REA_STORE_PENDING);
	assert_int_equal(outcome->task.generation, 2);
	assert_int_equal(outcome->task.attempt, 2);
	assert_int_equal(outcome->task.attempts_before, 2);
	assert_int_equal(do_replay(rig, id, 1, false)->error, REA_ERR_CONFLICT); /* asked twice, done once */
	assert_text_is(task_of(rig, id).reason, "");
	assert_text_is(task_of(rig, id).payload, "body");
	assert_text_is(task_of(rig, id).key, "k-1");
	assert_counts(rig, 1, 0, 0, 0, 0, 0);
	assert_int_equal(do_claim(rig, id)->task.attempt, 3);
	assert_int_equal(do_finish(rig, id, task_of(rig, id).claim, REA_STORE_GIVEN_UP)->error, 0);
	assert_int_equal(attempts_of(rig, id, &attempts), 3);
	assert_int_equal(attempts[1].generation, 1);
	assert_int_equal(attempts[2].generation, 2);
	assert_int_equal(attempts[2].number, 3);

	assert_int_equal(do_replay(rig, id, 1, false)->error, REA_ERR_CONFLICT); /* of a generation before */
	assert_int_equal(do_replay(rig, id, 2, false)->error, 0);
	assert_int_equal(do_finish(rig, id, claimed(rig, id), REA_STORE_SUCCESS)->error, 0);
	assert_int_equal(do_replay(rig, id, 0, false)->error, REA_ERR_CONFLICT);
	assert_int_equal(do_replay(rig, id, 0, true)->task.generation, 4);
	assert_int_equal(do_cancel(rig, id)->error, 0);
	assert_int_equal(do_replay(rig, id, 0, false)->error, 0);
}

/* ---- due ---- */

static void test_due_is_ordered_and_paged(void **state)
{
	struct rig *rig = *state;
	uint64_t c = new_task(rig, S(3)), a = new_task(rig, S(1)), b = new_task(rig, S(2)), b2 = new_task(rig, S(2)),
		 b3 = new_task(rig, S(2)), far = new_task(rig, S(100));
	struct outcome *outcome = do_due(rig, S(1001), 10);

	assert_int_equal(outcome->tasks_len, 0); /* before, not at */
	assert_false(outcome->more);
	outcome = do_due(rig, S(1003) + 1, 2);
	assert_int_equal(outcome->tasks_len, 2);
	assert_true(outcome->more);
	assert_int_equal(outcome->tasks[0].id, a);
	assert_int_equal(outcome->tasks[0].due_ns, S(1001));
	assert_text_is(outcome->tasks[0].target, "users");
	assert_int_equal(outcome->tasks[0].state, REA_STORE_PENDING);
	assert_int_equal(outcome->tasks[1].id, b);
	outcome = do_due(rig, S(1003) + 1, 1);
	assert_int_equal(outcome->tasks[0].id, b2);
	assert_true(outcome->more);
	outcome = do_due(rig, S(1003) + 1, 2);
	assert_int_equal(outcome->tasks_len, 2);
	assert_int_equal(outcome->tasks[0].id, b3);
	assert_int_equal(outcome->tasks[1].id, c);
	assert_false(outcome->more);
	assert_int_equal(do_due(rig, S(1003) + 1, 10)->tasks_len, 0);
	assert_int_equal(do_due(rig, S(1001), 10)->tasks_len, 0);
	outcome = do_due(rig, REA_NEVER, 10);
	assert_int_equal(outcome->tasks_len, 1);
	assert_int_equal(outcome->tasks[0].id, far);
}

/* Everything that waits is soon, or will be handed out: exactly once. */
static void test_soon(void **state)
{
	struct rig *rig = *state;
	struct rea_store_submit at_once = submission("", "a"), later = submission("", "b");
	uint64_t first, id, claim;
	struct outcome *outcome;

	later.delay_ns = S(2);
	assert_false(do_submit(rig, &at_once)->soon); /* nothing was asked for yet */
	outcome = do_due(rig, S(1002), 10);
	assert_int_equal(outcome->tasks_len, 1);
	first = outcome->tasks[0].id;
	outcome = do_submit(rig, &at_once);
	id = outcome->task.id;
	assert_true(outcome->soon);
	assert_false(do_submit(rig, &later)->soon); /* at 1002 */
	later.delay_ns = S(2) - 1;
	assert_true(do_submit(rig, &later)->soon);

	claim = claimed(rig, id);
	outcome = do_reschedule(rig, id, claim, S(1));
	assert_true(outcome->soon);
	outcome = do_reschedule_with(rig, &(struct rea_store_reschedule){.id = id, .delay_ns = S(5)});
	assert_false(outcome->soon); /* back to the disk */
	outcome = do_reschedule_with(rig, &(struct rea_store_reschedule){.id = first, .delay_ns = S(4)});
	assert_false(outcome->soon);
	outcome = do_due(rig, REA_NEVER, 10);
	assert_int_equal(outcome->tasks_len, 3);
	assert_int_equal(outcome->tasks[0].due_ns, S(1002));
	assert_int_equal(outcome->tasks[1].id, first);
	assert_int_equal(outcome->tasks[2].id, id);

	do_finish(rig, first, (rig->now_ns += S(9), claimed(rig, first)), REA_STORE_GIVEN_UP);
	assert_true(do_replay(rig, first, 0, false)->soon);
}

/* A page that ends between equal times does not make a later submit soon that it has not reached. */
static void test_horizon_between_equal_times(void **state)
{
	struct rig *rig = *state;
	struct rea_store_submit submit = submission("", "body");
	uint64_t a = new_task(rig, S(1)), b = new_task(rig, S(1)), c;
	struct outcome *outcome;

	assert_int_equal(do_due(rig, S(2000), 1)->tasks[0].id, a);
	submit.delay_ns = S(1);
	outcome = do_submit(rig, &submit);
	c = outcome->task.id;
	assert_false(outcome->soon);
	outcome = do_due(rig, S(2000), 10);
	assert_int_equal(outcome->tasks_len, 2);
	assert_int_equal(outcome->tasks[0].id, b);
	assert_int_equal(outcome->tasks[1].id, c);
}

static void test_running_is_not_due(void **state)
{
	struct rig *rig = *state;
	uint64_t id = new_task(rig, 0);

	claimed(rig, id);
	rig->now_ns += 2 * LEASE;
	assert_int_equal(do_due(rig, REA_NEVER, 10)->tasks_len, 0);
}

/* ---- maintain ---- */

static void test_leases_that_end(void **state)
{
	struct rig *rig = *state;
	const struct rea_store_attempt *attempts;
	uint64_t a = new_task(rig, 0), b = new_task(rig, 0), later = new_task(rig, 0);
	struct outcome *outcome;

	claimed(rig, a);
	claimed(rig, b);
	rig->now_ns += 1;
	claimed(rig, later);
	rig->now_ns += LEASE - 2;
	outcome = do_maintain(rig, 0, 10);
	assert_int_equal(outcome->expired, 0);
	rig->now_ns += 1;
	outcome = do_maintain(rig, 0, 1);
	assert_int_equal(outcome->expired, 1);
	assert_true(outcome->more);
	outcome = do_maintain(rig, 0, 10);
	assert_int_equal(outcome->expired, 1);
	assert_int_equal(outcome->tasks_len, 0); /* it is not soon: it will be handed out */
	outcome = do_due(rig, REA_NEVER, 10);
	assert_int_equal(outcome->tasks_len, 2);
	assert_int_equal(outcome->tasks[0].id, a);
	assert_int_equal(outcome->tasks[0].state, REA_STORE_RETRYING);
	assert_int_equal(outcome->tasks[0].crashes, 1);
	assert_int_equal(outcome->tasks[0].due_ns, rig->now_ns);
	assert_int_equal(attempts_of(rig, a, &attempts), 1);
	assert_true(attempts[0].interrupted);

	rig->now_ns += 1;
	outcome = do_maintain(rig, 0, 10);
	assert_int_equal(outcome->expired, 1);
	assert_int_equal(outcome->tasks_len, 1); /* it is soon: nobody else tells of it */
	assert_int_equal(outcome->tasks[0].id, later);
	assert_int_equal(outcome->tasks[0].due_ns, rig->now_ns);
	assert_text_is(outcome->tasks[0].target, "users");
	assert_counts(rig, 0, 0, 3, 0, 0, 0);
}

static void test_crashes_are_counted_in_a_row(void **state)
{
	struct rig *rig = *state;
	uint64_t id = new_task(rig, 0), claim;

	for (uint32_t i = 1; i <= 3; i++) {
		claimed(rig, id);
		rig->now_ns += LEASE;
		assert_int_equal(do_maintain(rig, 0, 10)->expired, 1);
		assert_int_equal(task_of(rig, id).crashes, i);
	}
	claim = claimed(rig, id);
	assert_int_equal(task_of(rig, id).crashes, 3);
	assert_int_equal(do_reschedule_with(rig, &(struct rea_store_reschedule){.id = id, .claim = claim})->task.crashes, 3);
	claim = claimed(rig, id);
	assert_int_equal(do_reschedule(rig, id, claim, 0)->task.crashes, 0);
}

static void test_purge(void **state)
{
	struct rig *rig = *state;
	struct rea_store_submit submit = submission("k-1", "body"), other = submission("k-1", "other body");
	const struct rea_store_attempt *attempts;
	uint64_t old = do_submit(rig, &submit)->task.id, open_task = new_task(rig, 0), young;
	struct outcome *outcome;

	do_finish(rig, old, claimed(rig, old), REA_STORE_GIVEN_UP);
	rig->now_ns += S(60);
	young = new_task(rig, 0);
	do_cancel(rig, young);
	rig->now_ns += S(40) - 1;
	outcome = do_maintain(rig, S(100), 100);
	assert_int_equal(outcome->purged, 0);
	assert_false(outcome->more);
	rig->now_ns += 1;
	outcome = do_maintain(rig, S(100), 100);
	assert_int_equal(outcome->purged, 1);
	assert_int_equal(state_of(rig, old), REA_STORE_STATE_COUNT);
	assert_int_equal(attempts_of(rig, old, &attempts), 0);
	assert_int_equal(do_replay(rig, old, 0, true)->error, REA_ERR_NOT_FOUND);
	assert_int_equal(state_of(rig, young), REA_STORE_CANCELLED);
	assert_int_equal(state_of(rig, open_task), REA_STORE_PENDING);
	assert_counts(rig, 1, 0, 0, 0, 0, 1);
	outcome = do_submit(rig, &other); /* the key is free again */
	assert_int_equal(outcome->error, 0);
	assert_false(outcome->existed);
	assert_true(outcome->task.id > young);
}

/* In small steps, more tells when to go on, and nothing is left. */
static void test_purge_in_steps(void **state)
{
	struct rig *rig = *state;
	uint32_t purged = 0, steps = 0;
	struct outcome *outcome;

	for (int i = 0; i < 50; i++)
		do_cancel(rig, new_task(rig, 0));
	rig->now_ns += S(1);
	do {
		outcome = do_maintain(rig, S(1), 7);
		purged += outcome->purged;
		steps++;
	} while (outcome->more);
	assert_int_equal(purged, 50);
	assert_int_equal(steps, 8);
	assert_counts(rig, 0, 0, 0, 0, 0, 0);
}

/* ---- reads ---- */

static size_t list_all(struct rig *rig, struct rea_store_filter filter, uint64_t *ret_ids, size_t max)
{
	struct rea_store_page page;
	size_t count = 0;

	do {
		assert_int_equal(rea_store_list(rig->reader, &filter, &page), 0);
		assert_int_equal(page.damaged, 0);
		for (size_t i = 0; i < page.tasks_len; i++) {
			assert_in_range(count, 0, max - 1);
			ret_ids[count++] = page.tasks[i].id;
		}
		filter.before_id = page.next;
	} while (page.next != 0);
	return count;
}

static void test_list(void **state)
{
	struct rig *rig = *state;
	struct rea_store_submit submit = submission("", "body");
	struct rea_store_page page;
	uint64_t ids[30], found[40];

	for (size_t i = 0; i < 30; i++) {
		char biz_id[16];

		snprintf(biz_id, sizeof(biz_id), "order-%zu", i % 3);
		submit.spec.target = text(i % 2 ? "users" : "mails");
		submit.spec.biz_id = text(biz_id);
		ids[i] = do_submit(rig, &submit)->task.id;
	}
	for (size_t i = 0; i < 30; i += 5)
		do_finish(rig, ids[i], claimed(rig, ids[i]), i % 10 ? REA_STORE_SUCCESS : REA_STORE_GIVEN_UP);

	for (uint32_t max = 1; max <= 31; max += 6) {
		assert_int_equal(list_all(rig, (struct rea_store_filter){.max = max}, found, 40), 30);
		for (size_t i = 0; i < 30; i++)
			assert_int_equal(found[i], ids[29 - i]);
	}
	assert_int_equal(list_all(rig, (struct rea_store_filter){.states = REA_STORE_STATES_OPEN, .max = 7}, found, 40), 24);
	assert_int_equal(
	    list_all(rig, (struct rea_store_filter){.states = REA_STORE_STATE_BIT(REA_STORE_GIVEN_UP), .max = 2}, found, 40),
	    3);
	assert_int_equal(found[0], ids[20]);
	assert_int_equal(found[2], ids[0]);
	assert_int_equal(
	    list_all(rig,
		(struct rea_store_filter){
		    .states = REA_STORE_STATE_BIT(REA_STORE_GIVEN_UP) | REA_STORE_STATE_BIT(REA_STORE_PENDING), .max = 5},
		found, 40),
	    27);
	assert_int_equal(list_all(rig, (struct rea_store_filter){.target = text("mails"), .max = 4}, found, 40), 15);
	assert_int_equal(list_all(rig, (struct rea_store_filter){.biz_id = text("order-1"), .max = 4}, found, 40), 10);
	assert_int_equal(found[0], ids[28]);
	assert_int_equal(list_all(rig,
			     (struct rea_store_filter){.biz_id = text("order-0"),
				 .target = text("users"),
				 .states = REA_STORE_STATE_BIT(REA_STORE_SUCCESS),
				 .max = 1},
			     found, 40),
	    1);
	assert_int_equal(found[0], ids[15]);
	assert_int_equal(list_all(rig, (struct rea_store_filter){.biz_id = text("order-9"), .max = 4}, found, 40), 0);

	assert_int_equal(rea_store_list(rig->reader, &(struct rea_store_filter){.max = 1, .before_id = ids[1]}, &page), 0);
	assert_int_equal(page.tasks_len, 1);
	assert_int_equal(page.next, 0);
	assert_int_equal(page.tasks[0].id, ids[0]);
	assert_int_equal(page.tasks[0].state, REA_STORE_GIVEN_UP);
	assert_text_is(page.tasks[0].reason, "permanent");
	assert_text_is(page.tasks[0].biz_id, "order-0");
	assert_int_equal(page.tasks[0].payload.length, 0);
	assert_int_equal(page.tasks[0].submitted_unix_ns, (int64_t)S(1700000000));
}

/* As much of the payload as is wanted, of open tasks and of those that are over, with and without a filter by name. */
static void test_list_with_payloads(void **state)
{
	struct rig *rig = *state;
	static char long_body[100000];
	struct rea_store_submit submit = submission("", "body");
	struct rea_store_filter filter = {.max = 3, .payload_max = 20000};
	struct rea_store_page page;
	uint64_t id;

	memset(long_body, 'x', sizeof(long_body) - 1);
	long_body[0] = 'a';
	long_body[19999] = 'z';
	submit.spec.biz_id = text("order");
	do_submit(rig, &submit);
	submit.spec.payload = text(long_body);
	id = do_submit(rig, &submit)->task.id;
	do_finish(rig, id, claimed(rig, id), REA_STORE_SUCCESS);
	submit.spec.payload = text("");
	do_submit(rig, &submit);
	for (int named = 0; named < 2; named++) {
		filter.biz_id = text(named ? "order" : "");
		assert_int_equal(rea_store_list(rig->reader, &filter, &page), 0);
		assert_int_equal(page.tasks_len, 3);
		assert_int_equal(page.tasks[0].payload.length, 0);
		assert_int_equal(page.tasks[1].payload.length, 20000);
		assert_memory_equal(page.tasks[1].payload.text, long_body, 20000);
		assert_text_is(page.tasks[2].payload, "body");
	}
	filter.payload_max = 65537;
	assert_int_equal(rea_store_list(rig->reader, &filter, &page), REA_ERR_INVALID);
}

/* A page that finds nothing ends after so many tasks, and the next goes on there. */
static void test_list_looks_at_a_bounded_number(void **state)
{
	struct rig *rig = *state;
	struct rea_store_submit submit = submission("", "body");
	struct rea_store_filter filter = {.target = text("mails"), .max = 10};
	struct outcome *outcome = calloc(1, sizeof(*outcome));
	struct rea_store_page page;
	uint64_t id;

	submit.spec.target = text("mails");
	id = do_submit(rig, &submit)->task.id;
	submit.spec.target = text("users");
	for (int i = 0; i < 9999; i++)
		assert_int_equal(rea_store_submit(rig->store, &submit, rig->now_ns, NULL, NULL), 0);
	assert_int_equal(rea_store_submit(rig->store, &submit, rig->now_ns, rig_note, outcome), 0);
	rig_wait(rig, outcome);
	assert_int_equal(rea_store_list(rig->reader, &filter, &page), 0);
	assert_int_equal(page.tasks_len, 0);
	assert_int_equal(page.next, id + 1);
	filter.before_id = page.next;
	assert_int_equal(rea_store_list(rig->reader, &filter, &page), 0);
	assert_int_equal(page.tasks_len, 1);
	assert_int_equal(page.next, 0);
	free(outcome);
}

static void test_attempts_are_paged(void **state)
{
	struct rig *rig = *state;
	const struct rea_store_attempt *attempts;
	uint64_t id = new_task(rig, 0), claim = claimed(rig, id);
	size_t count;

	for (int i = 0; i < 10; i++)
		do_record(rig, id, claim);
	assert_int_equal(rea_store_attempts(rig->reader, id, 0, 4, &attempts, &count), 0);
	assert_int_equal(count, 4);
	assert_int_equal(attempts[3].number, 4);
	assert_int_equal(rea_store_attempts(rig->reader, id, 8, 4, &attempts, &count), 0);
	assert_int_equal(count, 2);
	assert_int_equal(attempts[0].number, 9);
}

/* ---- bounds ---- */

static void test_bounds_of_submit(void **state)
{
	struct rig *rig = *state;
	char *big = calloc(1, REA_STORE_PAYLOAD_MAX + 1);
	struct rea_store_attempt attempts[REA_STORE_SUBMIT_ATTEMPTS_MAX + 1] = {{0}};
	struct rea_text fits = {big, REA_STORE_TEXT_MAX}, long_text = {big, REA_STORE_TEXT_MAX + 1};
	struct rea_store_submit submit = submission("", "");
	struct rea_store_task task;
	uint64_t id;

	submit.spec =
	    (struct rea_store_spec){.target = fits, .biz_id = fits, .key = fits, .payload = {big, REA_STORE_PAYLOAD_MAX}};
	submit.delay_ns = REA_STORE_DELAY_NS_MAX;
	for (size_t i = 0; i <= REA_STORE_SUBMIT_ATTEMPTS_MAX; i++)
		attempts[i].number = (uint32_t)i + 1;
	submit.attempts = attempts;
	submit.attempts_len = REA_STORE_SUBMIT_ATTEMPTS_MAX;
	big[REA_STORE_PAYLOAD_MAX - 1] = 'z';
	id = do_submit(rig, &submit)->task.id;
	task = task_of(rig, id);
	assert_int_equal(task.payload.length, REA_STORE_PAYLOAD_MAX);
	assert_int_equal(task.payload.text[REA_STORE_PAYLOAD_MAX - 1], 'z');
	assert_int_equal(task.due_ns, rig->now_ns + REA_STORE_DELAY_NS_MAX);

#define REFUSED(change)                                                                                               \
	do {                                                                                                          \
		struct rea_store_submit wrong = submission("", "");                                                   \
		wrong.change;                                                                                         \
		assert_int_equal(rea_store_submit(rig->store, &wrong, rig->now_ns, rig_note, NULL), REA_ERR_INVALID); \
	} while (0)
	REFUSED(spec.target = text(""));
	REFUSED(spec.target = long_text);
	REFUSED(spec.biz_id = long_text);
	REFUSED(spec.key = long_text);
	REFUSED(spec.payload = ((struct rea_text){big, REA_STORE_PAYLOAD_MAX + 1}));
	REFUSED(delay_ns = REA_STORE_DELAY_NS_MAX + 1);
	REFUSED(attempts_len = REA_STORE_SUBMIT_ATTEMPTS_MAX + 1; wrong.attempts = attempts);
	attempts[1].number = 3;
	REFUSED(attempts_len = 2; wrong.attempts = attempts);
#undef REFUSED
	assert_int_equal(status_of(rig).counts[REA_STORE_RETRYING], 1);
	free(big);
}

static void test_bounds_of_operations(void **state)
{
	struct rig *rig = *state;
	struct rea_store *store = rig->store;
	static const char long_bytes[REA_STORE_TEXT_MAX + 1];
	const struct rea_text fits = {long_bytes, REA_STORE_TEXT_MAX}, long_text = {long_bytes, REA_STORE_TEXT_MAX + 1};
	struct rea_store_attempt attempt = unavailable(0);
	struct rea_store_reschedule reschedule = {.id = 1, .claim = 1};
	struct rea_store_finish finish = {.id = 1, .state = REA_STORE_PENDING};
	uint64_t id = new_task(rig, 0), claim = claimed(rig, id), over = REA_STORE_DELAY_NS_MAX + 1;

#define INVALID(call) assert_int_equal(call, REA_ERR_INVALID)
	INVALID(rea_store_claim(store, &(struct rea_store_claim){.id = 1}, 0, NULL, NULL));
	INVALID(rea_store_claim(store, &(struct rea_store_claim){.id = 1, .lease_ns = over}, 0, NULL, NULL));
	INVALID(rea_store_heartbeat(store, 1, 0, 1, 0, NULL, NULL));
	INVALID(rea_store_heartbeat(store, 1, 1, 0, 0, NULL, NULL));
	INVALID(rea_store_record(store, 1, 0, &attempt, 0, NULL, NULL));
	attempt.reason = fits;
	assert_int_equal(rea_store_record(store, id, claim, &attempt, 0, NULL, NULL), 0);
	attempt.reason = long_text;
	INVALID(rea_store_record(store, 1, 1, &attempt, 0, NULL, NULL));
	attempt = unavailable(0);
	attempt.outcome = REA_OUTCOME_COUNT;
	INVALID(rea_store_record(store, 1, 1, &attempt, 0, NULL, NULL));
	attempt = unavailable(0);
	attempt.cost_ns = (uint64_t)INT64_MAX + 1;
	INVALID(rea_store_record(store, 1, 1, &attempt, 0, NULL, NULL));
	attempt = unavailable(0);
	reschedule.attempt = &attempt; /* of an attempt that was not made */
	INVALID(rea_store_reschedule(store, &reschedule, 0, NULL, NULL));
	reschedule.attempted = true;
	reschedule.claim = 0; /* which nobody made */
	INVALID(rea_store_reschedule(store, &reschedule, 0, NULL, NULL));
	reschedule = (struct rea_store_reschedule){.id = 1, .delay_ns = over};
	INVALID(rea_store_reschedule(store, &reschedule, 0, NULL, NULL));
	INVALID(rea_store_finish(store, &finish, 0, NULL, NULL));
	finish.state = REA_STORE_SUCCESS; /* without an attempt */
	INVALID(rea_store_finish(store, &finish, 0, NULL, NULL));
	finish.state = REA_STORE_GIVEN_UP;
	finish.reason = long_text;
	INVALID(rea_store_finish(store, &finish, 0, NULL, NULL));
	INVALID(rea_store_cancel(store, 1, long_text, 0, NULL, NULL));
	INVALID(rea_store_replay(store, &(struct rea_store_replay){.id = 1, .delay_ns = over}, 0, NULL, NULL));
	INVALID(rea_store_due(store, 0, 0, 0, NULL, NULL));
	INVALID(rea_store_due(store, 0, REA_STORE_DUE_MAX + 1, 0, NULL, NULL));
	INVALID(rea_store_maintain(store, &(struct rea_store_maintain){over, 1}, 0, NULL, NULL));
	INVALID(rea_store_maintain(store, &(struct rea_store_maintain){0, 0}, 0, NULL, NULL));
	INVALID(rea_store_maintain(store, &(struct rea_store_maintain){0, REA_STORE_MAINTAIN_MAX + 1}, 0, NULL, NULL));
#undef INVALID
}

static void test_bounds_of_reads(void **state)
{
	struct rig *rig = *state;
	static const char long_bytes[REA_STORE_TEXT_MAX + 1];
	const struct rea_text long_text = {long_bytes, sizeof(long_bytes)};
	const struct rea_store_attempt *attempts;
	struct rea_store_page page;
	size_t count;

#define LIST(...) rea_store_list(rig->reader, &(struct rea_store_filter){__VA_ARGS__}, &page)
	assert_int_equal(LIST(.max = 0), REA_ERR_INVALID);
	assert_int_equal(LIST(.max = REA_STORE_PAGE_MAX), 0);
	assert_int_equal(LIST(.max = REA_STORE_PAGE_MAX + 1), REA_ERR_INVALID);
	assert_int_equal(LIST(.max = 1, .states = REA_STORE_STATES_ALL), 0);
	assert_int_equal(LIST(.max = 1, .states = REA_STORE_STATES_ALL + 1), REA_ERR_INVALID);
	assert_int_equal(LIST(.max = 1, .target = long_text), REA_ERR_INVALID);
	assert_int_equal(LIST(.max = 1, .biz_id = long_text), REA_ERR_INVALID);
	assert_int_equal(LIST(.max = 1, .before_id = UINT64_MAX), 0);
#undef LIST
	assert_int_equal(rea_store_attempts(rig->reader, 1, 0, 0, &attempts, &count), REA_ERR_INVALID);
	assert_int_equal(rea_store_attempts(rig->reader, 1, 0, REA_STORE_PAGE_MAX, &attempts, &count), 0);
	assert_int_equal(rea_store_attempts(rig->reader, 1, 0, REA_STORE_PAGE_MAX + 1, &attempts, &count), REA_ERR_INVALID);
}

/* What was accepted and not yet told is bounded, in number and in bytes. */
static void test_bounded_queue(void **state)
{
	struct rig *rig = *state;
	struct rea_store_submit submit = submission("", "body");
	char *payload = calloc(1, 1 << 19);
	struct outcome *outcome = calloc(1, sizeof(*outcome));

	rig_close(rig);
	rig->options.store.queue_max = 3;
	rig->options.store.queue_bytes_max = 1 << 20;
	rig_open(rig);
	for (int i = 0; i < 2; i++)
		assert_int_equal(rea_store_submit(rig->store, &submit, rig->now_ns, NULL, NULL), 0);
	assert_int_equal(rea_store_submit(rig->store, &submit, rig->now_ns, rig_note, outcome), 0);
	assert_int_equal(rea_store_submit(rig->store, &submit, rig->now_ns, rig_note, NULL), REA_ERR_FULL);
	rig_wait(rig, outcome);
	submit.spec.payload = (struct rea_text){payload, 1 << 19};
	assert_int_equal(rea_store_submit(rig->store, &submit, rig->now_ns, NULL, NULL), 0);
	assert_int_equal(rea_store_submit(rig->store, &submit, rig->now_ns, rig_note, NULL), REA_ERR_FULL);
	memset(outcome, 0, sizeof(*outcome));
	submit.spec.payload.length = 1 << 18;
	assert_int_equal(rea_store_submit(rig->store, &submit, rig->now_ns, rig_note, outcome), 0);
	rig_wait(rig, outcome);
	assert_counts(rig, 5, 0, 0, 0, 0, 0);
	free(payload);
	free(outcome);
}

static void test_options(void **state)
{
	struct rig *rig = *state;
	struct rea_store_options *options = &rig->options.store;

	rig_close(rig);
/* refusal NULL: it is fine. */
#define WITH(member, value, refusal)                                                                 \
	do {                                                                                         \
		struct rea_store_options before = *options;                                          \
		struct rea_error_info info = {0};                                                    \
		options->member = value;                                                             \
		assert_int_equal(rig_try_open(rig, &info), (refusal) == NULL ? 0 : REA_ERR_INVALID); \
		assert_string_equal(info.message, (refusal) == NULL ? "" : (refusal));               \
		assert_string_equal(info.key, (refusal) == NULL ? "" : #member);                     \
		if ((refusal) == NULL)                                                               \
			rea_store_close(rig->store);                                                 \
		*options = before;                                                                   \
	} while (0)
	WITH(queue_max, 0, "queue_max is 0; it must be at least 1 and at most 1000000");
	WITH(queue_max, 1, NULL);
	WITH(queue_max, 1000000, NULL);
	WITH(queue_max, 1000001, "queue_max is 1000001; it must be at least 1 and at most 1000000");
	WITH(queue_bytes_max, (1 << 20) - 1, "queue_bytes_max is 1048575; it must be at least 1048576");
	WITH(queue_bytes_max, 1 << 20, NULL);
#undef WITH
	rea_store_close(NULL);
	rea_store_reader_free(NULL);
	rig_open(rig);
}

/* ---- telling ---- */

struct order {
	uint32_t next;
	uint32_t told[64];
	uint32_t told_len;
};

struct order_item {
	struct order *order;
	uint32_t number;
};

static void note_order(const struct rea_store_result *result, void *user_data)
{
	struct order_item *item = user_data;

	(void)result;
	item->order->told[item->order->told_len++] = item->number;
}

static void test_told_in_order_and_only_when_drained(void **state)
{
	struct rig *rig = *state;
	struct rea_store_submit submit = submission("", "body");
	struct order order = {0};
	struct order_item items[60];

	for (uint32_t i = 0; i < 60; i++) {
		items[i] = (struct order_item){&order, i};
		if (i % 3 == 0)
			assert_int_equal(rea_store_submit(rig->store, &submit, rig->now_ns, note_order, &items[i]), 0);
		else if (i % 3 == 1)
			assert_int_equal(rea_store_cancel(rig->store, i, text(""), rig->now_ns, note_order, &items[i]), 0);
		else
			assert_int_equal(rea_store_due(rig->store, REA_NEVER, 1, rig->now_ns, note_order, &items[i]), 0);
		assert_int_equal(order.told_len, 0);
	}
	rig_close(rig); /* tells the rest */
	assert_int_equal(order.told_len, 60);
	for (uint32_t i = 0; i < 60; i++)
		assert_int_equal(order.told[i], i);
	rig_open(rig);
}

struct chain {
	struct rig *rig;
	int left;
	struct outcome end;
};

static void submit_another(const struct rea_store_result *result, void *user_data)
{
	struct chain *chain = user_data;
	struct rea_store_submit submit = submission("", "body");

	assert_int_equal(result->error, 0);
	if (chain->left-- > 0)
		assert_int_equal(rea_store_submit(chain->rig->store, &submit, chain->rig->now_ns, submit_another, chain), 0);
	else
		rig_note(result, &chain->end);
}

static void test_done_may_begin_another(void **state)
{
	struct rig *rig = *state;
	struct rea_store_submit submit = submission("", "body");
	struct chain *chain = calloc(1, sizeof(*chain));

	chain->rig = rig;
	chain->left = 9;
	assert_int_equal(rea_store_submit(rig->store, &submit, rig->now_ns, submit_another, chain), 0);
	rig_wait(rig, &chain->end);
	assert_counts(rig, 10, 0, 0, 0, 0, 0);
	free(chain);
}

static void refuse_when_closing(const struct rea_store_result *result, void *user_data)
{
	struct chain *chain = user_data;
	struct rea_store_submit submit = submission("", "body");

	assert_int_equal(result->error, 0);
	assert_int_equal(rea_store_submit(chain->rig->store, &submit, chain->rig->now_ns, NULL, NULL), REA_ERR_CLOSED);
	chain->left = 1;
}

static void test_nothing_begins_while_closing(void **state)
{
	struct rig *rig = *state;
	struct rea_store_submit submit = submission("", "body");
	struct chain *chain = calloc(1, sizeof(*chain));

	chain->rig = rig;
	assert_int_equal(rea_store_submit(rig->store, &submit, rig->now_ns, refuse_when_closing, chain), 0);
	rig_close(rig);
	assert_int_equal(chain->left, 1);
	free(chain);
	rig_open(rig);
}

static void test_time_never_runs_backwards(void **state)
{
	struct rig *rig = *state;
	uint64_t id = new_task(rig, S(5));

	rig->now_ns = S(1005);
	new_task(rig, 0);
	rig->now_ns = S(3); /* counts as 1005 */
	assert_int_equal(do_claim(rig, id)->error, 0);
	assert_int_equal(task_of(rig, id).due_ns, S(1005) + LEASE);
}

/* ---- names ---- */

static void test_names(void **state)
{
	(void)state;
	for (int i = 0; i < REA_STORE_STATE_COUNT; i++) {
		const char *name = rea_store_state_name((enum rea_store_state)i);

		assert_int_equal(rea_store_state_parse(name, strlen(name)), i);
	}
	assert_string_equal(rea_store_state_name(REA_STORE_GIVEN_UP), "GIVEN_UP");
	assert_string_equal(rea_store_state_name(REA_STORE_STATE_COUNT), "unknown");
	assert_int_equal(rea_store_state_parse("success", 7), -1);
	assert_int_equal(rea_store_state_parse("SUCCESSX", 8), -1);
}

int conformance_run(const char *name, bool sqlite)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, open_rig, close_rig)
	const struct CMUnitTest tests[] = {
	    TEST(test_a_life),
	    TEST(test_terminal_is_terminal),
	    TEST(test_unknown_ids),
	    TEST(test_submit_is_idempotent),
	    TEST(test_without_key_each_is_new),
	    TEST(test_submit_only_looks),
	    TEST(test_parallel_submits),
	    TEST(test_submit_after_attempts),
	    TEST(test_arguments_are_copied),
	    TEST(test_texts_are_bytes),
	    TEST(test_late_worker_loses),
	    TEST(test_heartbeat),
	    TEST(test_several_attempts_under_one_claim),
	    TEST(test_attempt_that_was_not_made),
	    TEST(test_without_a_claim),
	    TEST(test_claim_loads),
	    TEST(test_claim_of_a_generation),
	    TEST(test_cancel),
	    TEST(test_replay),
	    TEST(test_due_is_ordered_and_paged),
	    TEST(test_soon),
	    TEST(test_horizon_between_equal_times),
	    TEST(test_running_is_not_due),
	    TEST(test_leases_that_end),
	    TEST(test_crashes_are_counted_in_a_row),
	    TEST(test_purge),
	    TEST(test_purge_in_steps),
	    TEST(test_list),
	    TEST(test_list_with_payloads),
	    TEST(test_list_looks_at_a_bounded_number),
	    TEST(test_attempts_are_paged),
	    TEST(test_bounds_of_submit),
	    TEST(test_bounds_of_operations),
	    TEST(test_bounds_of_reads),
	    TEST(test_bounded_queue),
	    TEST(test_options),
	    TEST(test_told_in_order_and_only_when_drained),
	    TEST(test_done_may_begin_another),
	    TEST(test_nothing_begins_while_closing),
	    TEST(test_time_never_runs_backwards),
	    cmocka_unit_test(test_names),
	};
#undef TEST

	run_on_sqlite = sqlite;
	return _cmocka_run_group_tests(name, tests, sizeof(tests) / sizeof(tests[0]), NULL, NULL);
}
