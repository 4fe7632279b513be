/* Every change in every state: what it makes of a row, or that it is refused and changes nothing. */
#include "store/machine.h"

#include <rea/random.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define NOW 1000000

enum action {
	CLAIM,
	HEARTBEAT,
	RECORD,
	RESCHEDULE,
	GIVE_BACK,
	POSTPONE,
	FINISH,
	FINISH_UNMADE,
	FINISH_UNCLAIMED,
	CANCEL,
	REPLAY,
	ACTION_COUNT
};

static const struct rea_store_attempt made = {.outcome = REA_OUTCOME_UNAVAILABLE, .code = 503};

static int act(struct rea__row *row, enum action action, uint64_t claim, struct rea__change *change)
{
	const struct rea_store_reschedule back = {.claim = claim, .delay_ns = 50}, postpone = {.delay_ns = 50},
					  retry = {.claim = claim, .delay_ns = 50, .attempted = true, .attempt = &made};
	const struct rea_store_finish unmade = {.claim = claim, .state = REA_STORE_GIVEN_UP},
				      unclaimed = {.state = REA_STORE_GIVEN_UP},
				      end = {.claim = claim, .state = REA_STORE_GIVEN_UP, .attempted = true, .attempt = &made};

	switch (action) {
	case CLAIM:
		return rea__row_claim(row, &(struct rea_store_claim){.lease_ns = 30}, change);
	case HEARTBEAT:
		return rea__row_heartbeat(row, claim, 40, change);
	case RECORD:
		return rea__row_record(row, claim, &made, change);
	case RESCHEDULE:
		return rea__row_reschedule(row, &retry, change);
	case GIVE_BACK:
		return rea__row_reschedule(row, &back, change);
	case POSTPONE:
		return rea__row_reschedule(row, &postpone, change);
	case FINISH:
		return rea__row_finish(row, &end, change);
	case FINISH_UNMADE:
		return rea__row_finish(row, &unmade, change);
	case FINISH_UNCLAIMED:
		return rea__row_finish(row, &unclaimed, change);
	case CANCEL:
		return rea__row_cancel(row, change);
	case REPLAY:
		return rea__row_replay(row, &(struct rea_store_replay){.delay_ns = 60, .force = true}, change);
	case ACTION_COUNT:
		break;
	}
	return REA_ERR_INVALID;
}

/* A row in each state, in its second generation, with up to 5 attempts behind it. */
static struct rea__row row_in(enum rea_store_state state)
{
	struct rea__row row = {.id = 7,
	    .state = state,
	    .generation = 2,
	    .attempt = 5,
	    .attempts_before = 3,
	    .due_ns = REA__ROW_NEVER,
	    .updated_ns = NOW - 9};

	if (state == REA_STORE_PENDING)
		row.attempt = 3;
	if (rea__state_open(state))
		row.due_ns = NOW;
	if (state == REA_STORE_RUNNING) {
		row.claim = 77;
		row.due_ns = NOW + 1;
		row.crashes = 2;
	}
	assert_true(rea__row_valid(&row));
	return row;
}

static void test_table_of_changes(void **state)
{
	/* By action and state (PENDING RUNNING RETRYING SUCCESS GIVEN_UP CANCELLED): the state after it, '-' = refused. */
	static const char *const table[ACTION_COUNT] = {
	    [CLAIM] = "R-R---",
	    [HEARTBEAT] = "-R----",
	    [RECORD] = "-R----",
	    [RESCHEDULE] = "-T----",
	    [GIVE_BACK] = "-T----",
	    [POSTPONE] = "P-T---",
	    [FINISH] = "-G----",
	    [FINISH_UNMADE] = "-G----",
	    [FINISH_UNCLAIMED] = "G-G---",
	    [CANCEL] = "CCC---",
	    [REPLAY] = "---PPP",
	};
	static const char letters[] = "PRTSGC";

	(void)state;
	for (int action = 0; action < ACTION_COUNT; action++)
		for (int from = 0; from < REA_STORE_STATE_COUNT; from++) {
			struct rea__row before = row_in((enum rea_store_state)from), after = before;
			struct rea__change change = {.now_ns = NOW, .horizon = REA__HORIZON_NONE, .token = 78};
			int error = act(&after, (enum action)action, 77, &change);
			char result = error == 0 ? letters[after.state] : '-';

			if (result != table[action][from])
				fail_msg("action %d in state %d: %c", action, from, result);
			if (error == 0) {
				assert_true(rea__row_valid(&after));
				continue;
			}
			assert_int_equal(error, REA_ERR_CONFLICT);
			assert_memory_equal(&before, &after, sizeof(before));
			assert_false(change.logged);
		}
}

static void test_another_claim_changes_nothing(void **state)
{
	static const enum action actions[] = {HEARTBEAT, RECORD, RESCHEDULE, GIVE_BACK, FINISH, FINISH_UNMADE};

	(void)state;
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
		for (uint64_t claim = 0; claim < 80; claim += 76) {
			struct rea__row before = row_in(REA_STORE_RUNNING), after = before;
			struct rea__change change = {.now_ns = NOW, .horizon = REA__HORIZON_NONE};

			assert_int_equal(act(&after, actions[i], claim, &change), REA_ERR_CONFLICT);
			assert_memory_equal(&before, &after, sizeof(before));
			assert_false(change.logged);
		}
}

/* Who has no claim has made no attempt. */
static void test_attempt_without_a_claim(void **state)
{
	static const enum rea_store_state waiting[] = {REA_STORE_PENDING, REA_STORE_RETRYING};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct rea__row row = row_in(waiting[i]);
		struct rea__change change = {.now_ns = NOW, .horizon = REA__HORIZON_NONE};

		assert_int_equal(act(&row, RESCHEDULE, 0, &change), REA_ERR_CONFLICT);
		assert_int_equal(act(&row, FINISH, 0, &change), REA_ERR_CONFLICT);
		assert_false(change.logged);
	}
}

static void test_numbers(void **state)
{
	static const struct {
		enum action action;
		uint32_t attempt;
		uint32_t crashes;
		bool logged;
	} table[] = {
	    {HEARTBEAT, 5, 2, false},
	    {RECORD, 6, 0, true},
	    {RESCHEDULE, 5, 0, true},
	    {GIVE_BACK, 4, 2, false},
	    {FINISH, 5, 0, true},
	    {FINISH_UNMADE, 4, 2, false},
	    {CANCEL, 5, 2, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct rea__row row = row_in(REA_STORE_RUNNING);
		struct rea__change change = {.now_ns = NOW, .horizon = REA__HORIZON_NONE};

		assert_int_equal(act(&row, table[i].action, 77, &change), 0);
		assert_int_equal(row.attempt, table[i].attempt);
		assert_int_equal(row.crashes, table[i].crashes);
		assert_int_equal(change.logged, table[i].logged);
		if (!change.logged)
			continue;
		assert_int_equal(change.attempt.number, 5);
		assert_int_equal(change.attempt.generation, 2);
		assert_int_equal(change.attempt.outcome,
		    table[i].action == CANCEL ? REA_OUTCOME_CANCELLED : REA_OUTCOME_UNAVAILABLE);
	}
}

static void test_times(void **state)
{
	struct rea__change change = {.now_ns = NOW, .horizon = REA__HORIZON_NONE, .token = 78};
	struct rea__row row = row_in(REA_STORE_PENDING);

	(void)state;
	assert_int_equal(act(&row, CLAIM, 0, &change), 0);
	assert_int_equal(row.due_ns, NOW + 30);
	assert_int_equal(row.updated_ns, NOW);
	assert_int_equal(row.claim, 78);
	change.now_ns = NOW + 5;
	assert_int_equal(act(&row, HEARTBEAT, 78, &change), 0);
	assert_int_equal(row.due_ns, NOW + 45);
	assert_int_equal(row.updated_ns, NOW); /* the attempt began then */
	assert_int_equal(act(&row, RECORD, 78, &change), 0);
	assert_int_equal(row.due_ns, NOW + 45);
	assert_int_equal(row.updated_ns, NOW + 5);
	assert_int_equal(act(&row, RESCHEDULE, 78, &change), 0);
	assert_int_equal(row.due_ns, NOW + 55);
	assert_int_equal(row.claim, 0);
}

/* The attempt that was under way is logged, and the next number is another. */
static void test_claim_of_an_ended_lease(void **state)
{
	struct rea__change change = {.now_ns = NOW + 1, .horizon = REA__HORIZON_NONE, .token = 78};
	struct rea__row row = row_in(REA_STORE_RUNNING);

	(void)state;
	assert_int_equal(act(&row, CLAIM, 0, &change), 0);
	assert_int_equal(row.claim, 78);
	assert_int_equal(row.attempt, 6);
	assert_int_equal(row.crashes, 3);
	assert_true(change.logged);
	assert_true(change.attempt.interrupted);
	assert_int_equal(change.attempt.number, 5);
	assert_int_equal(change.attempt.outcome, REA_OUTCOME_AMBIGUOUS);
	assert_int_equal(change.attempt.start_unix_ns, NOW - 9);
	assert_int_equal(change.attempt.cost_ns, 10);
}

static void test_horizon(void **state)
{
	static const struct {
		int64_t due_ns;
		uint64_t id;
		bool later;
	} table[] = {{NOW + 51, 0, false}, {NOW + 50, 7, false}, {NOW + 50, 8, false}, {NOW + 50, 6, true},
	    {NOW + 49, UINT64_MAX, true}};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct rea__change change = {.now_ns = NOW, .horizon = {table[i].due_ns, table[i].id}};
		struct rea__row row = row_in(REA_STORE_RETRYING);

		assert_int_equal(act(&row, POSTPONE, 0, &change), 0); /* to NOW + 50, with id 7 */
		assert_int_equal(row.later, table[i].later);
		assert_int_equal(rea__row_soon(&row), !table[i].later);
	}
}

static void test_limits_of_numbers(void **state)
{
	struct rea__change change = {.now_ns = NOW, .horizon = REA__HORIZON_NONE, .token = 78};
	struct rea__row row = row_in(REA_STORE_RETRYING), before;

	(void)state;
	row.attempt = UINT32_MAX;
	before = row;
	assert_int_equal(act(&row, CLAIM, 0, &change), REA_ERR_LIMIT);
	assert_memory_equal(&row, &before, sizeof(row));
	row = row_in(REA_STORE_RUNNING);
	row.attempt = UINT32_MAX;
	assert_int_equal(act(&row, RECORD, 77, &change), REA_ERR_LIMIT);
	row = row_in(REA_STORE_GIVEN_UP);
	row.generation = UINT32_MAX;
	assert_int_equal(act(&row, REPLAY, 0, &change), REA_ERR_LIMIT);
	assert_int_equal(rea__row_time_add(REA__ROW_NEVER - 5, 3), REA__ROW_NEVER - 2);
	assert_int_equal(rea__row_time_add(REA__ROW_NEVER - 5, 5), REA__ROW_NEVER - 1);
	assert_int_equal(rea__row_time_add(REA__ROW_NEVER - 1, REA_STORE_DELAY_NS_MAX), REA__ROW_NEVER - 1);
	assert_int_equal(rea__row_time_add(INT64_MIN, 1), INT64_MIN + 1);
}

static void test_what_is_no_valid_row(void **state)
{
	(void)state;
#define BROKEN(from, change)                        \
	do {                                        \
		struct rea__row row = row_in(from); \
		row.change;                         \
		assert_false(rea__row_valid(&row)); \
	} while (0)
	for (int from = 0; from < REA_STORE_STATE_COUNT; from++) {
		BROKEN((enum rea_store_state)from, id = 0);
		BROKEN((enum rea_store_state)from, generation = 0);
		BROKEN((enum rea_store_state)from, attempt = 2);
		BROKEN((enum rea_store_state)from, state = REA_STORE_STATE_COUNT);
	}
	BROKEN(REA_STORE_PENDING, claim = 1);
	BROKEN(REA_STORE_PENDING, attempt = 4);
	BROKEN(REA_STORE_PENDING, due_ns = REA__ROW_NEVER);
	BROKEN(REA_STORE_RETRYING, attempt = 3);
	BROKEN(REA_STORE_RETRYING, claim = 1);
	BROKEN(REA_STORE_RUNNING, claim = 0);
	BROKEN(REA_STORE_RUNNING, attempt = 3);
	BROKEN(REA_STORE_RUNNING, later = true);
	BROKEN(REA_STORE_RUNNING, due_ns = REA__ROW_NEVER);
	BROKEN(REA_STORE_SUCCESS, claim = 1);
	BROKEN(REA_STORE_GIVEN_UP, due_ns = NOW);
	BROKEN(REA_STORE_CANCELLED, later = true);
#undef BROKEN
}

/* Whatever is asked in whatever order: rows stay valid, and numbers in the log only grow. */
static void test_random_walks(void **state)
{
	struct rea_random random;
	uint32_t logged = 0;

	(void)state;
	rea_random_init(&random, 1);
	for (int walk = 0; walk < 500; walk++) {
		struct rea__row row = {.id = 1};
		struct rea__change first = {.now_ns = NOW, .horizon = REA__HORIZON_NONE};
		uint32_t last_logged = 0, last_generation = 0;
		int64_t now_ns = NOW;

		rea__row_submit(&row, &(struct rea_store_submit){.delay_ns = 0}, &first);
		for (uint64_t step = 1; step < 200; step++) {
			struct rea__change change = {.now_ns = now_ns += (int64_t)rea_random_below(&random, 400),
			    .horizon = {NOW + (int64_t)rea_random_below(&random, 6000), 0},
			    .token = step};
			uint64_t claim = rea_random_below(&random, 8) == 0 ? step - 1 : row.claim;
			int error = act(&row, (enum action)rea_random_below(&random, ACTION_COUNT), claim, &change);

			assert_true(rea__row_valid(&row));
			assert_true(error == 0 || !change.logged);
			if (!change.logged)
				continue;
			assert_true(change.attempt.number > last_logged);
			assert_true(change.attempt.generation >= last_generation);
			last_logged = change.attempt.number;
			last_generation = change.attempt.generation;
			logged++;
		}
	}
	assert_true(logged > 1500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_table_of_changes),
	    cmocka_unit_test(test_another_claim_changes_nothing),
	    cmocka_unit_test(test_attempt_without_a_claim),
	    cmocka_unit_test(test_numbers),
	    cmocka_unit_test(test_times),
	    cmocka_unit_test(test_claim_of_an_ended_lease),
	    cmocka_unit_test(test_horizon),
	    cmocka_unit_test(test_limits_of_numbers),
	    cmocka_unit_test(test_what_is_no_valid_row),
	    cmocka_unit_test(test_random_walks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
