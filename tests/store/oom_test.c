/*
 * The n-th allocation of ours fails, once or for good, over the whole of a task's life in each store: it is told, nothing else happened, nothing
 * leaks, and the same asked again succeeds.
 */
#include "rig.h"

#include "../unit/fail_alloc.h"

#include <unistd.h>

/* The writer allocates too. */
struct locked_alloc {
	struct rea_alloc alloc;
	pthread_mutex_t mutex;
	struct fail_alloc failing;
};

static void *locked_realloc(void *ptr, size_t size, void *user_data)
{
	struct locked_alloc *locked = user_data;
	void *result;

	pthread_mutex_lock(&locked->mutex);
	result = fail_alloc_realloc(ptr, size, &locked->failing);
	pthread_mutex_unlock(&locked->mutex);
	return result;
}

static void locked_free(void *ptr, void *user_data)
{
	struct locked_alloc *locked = user_data;

	pthread_mutex_lock(&locked->mutex);
	fail_alloc_free(ptr, &locked->failing);
	pthread_mutex_unlock(&locked->mutex);
}

/* ---- one life, step by step: each returns what the call returned, or else the outcome tells ---- */

static uint64_t first, second, claim;

static int submit_first(struct rig *rig, struct outcome *outcome)
{
	struct rea_store_submit submit = submission("k-1", "the payload");

	return rea_store_submit(rig->store, &submit, rig->now_ns, rig_note, outcome);
}

static int submit_second(struct rig *rig, struct outcome *outcome)
{
	struct rea_store_attempt made[2] = {unavailable(rig->now_ns), unavailable(rig->now_ns)};
	struct rea_store_submit submit = submission("k-2", "the payload");

	first = outcome->task.id;
	made[0].number = 1;
	made[1].number = 2;
	submit.attempts = made;
	submit.attempts_len = 2;
	return rea_store_submit(rig->store, &submit, rig->now_ns, rig_note, outcome);
}

static int ask_due(struct rig *rig, struct outcome *outcome)
{
	second = outcome->task.id;
	return rea_store_due(rig->store, S(2000), 10, rig->now_ns, rig_note, outcome);
}

static int claim_first(struct rig *rig, struct outcome *outcome)
{
	struct rea_store_claim request = {.id = first, .lease_ns = LEASE, .load = true};

	return rea_store_claim(rig->store, &request, rig->now_ns, rig_note, outcome);
}

static int record_first(struct rig *rig, struct outcome *outcome)
{
	struct rea_store_attempt attempt = unavailable(rig->now_ns);

	claim = outcome->task.claim;
	return rea_store_record(rig->store, first, claim, &attempt, rig->now_ns, rig_note, outcome);
}

static int heartbeat_first(struct rig *rig, struct outcome *outcome)
{
	return rea_store_heartbeat(rig->store, first, claim, LEASE, rig->now_ns, rig_note, outcome);
}

static int reschedule_first(struct rig *rig, struct outcome *outcome)
{
	struct rea_store_attempt attempt = unavailable(rig->now_ns);
	struct rea_store_reschedule request = {.id = first, .claim = claim, .attempted = true, .attempt = &attempt};

	return rea_store_reschedule(rig->store, &request, rig->now_ns, rig_note, outcome);
}

static int finish_first(struct rig *rig, struct outcome *outcome)
{
	struct rea_store_attempt attempt = unavailable(rig->now_ns);
	struct rea_store_finish request = {.id = first,
	    .claim = claim,
	    .state = REA_STORE_GIVEN_UP,
	    .reason = text("permanent"),
	    .attempted = true,
	    .attempt = &attempt};

	claim = request.claim = outcome->task.claim != 0 ? outcome->task.claim : claim;
	return rea_store_finish(rig->store, &request, rig->now_ns, rig_note, outcome);
}

static int replay_first(struct rig *rig, struct outcome *outcome)
{
	return rea_store_replay(rig->store, &(struct rea_store_replay){.id = first}, rig->now_ns, rig_note, outcome);
}

static int cancel_first(struct rig *rig, struct outcome *outcome)
{
	return rea_store_cancel(rig->store, first, text("cancelled"), rig->now_ns, rig_note, outcome);
}

static int claim_second(struct rig *rig, struct outcome *outcome)
{
	struct rea_store_claim request = {.id = second, .lease_ns = LEASE};

	return rea_store_claim(rig->store, &request, rig->now_ns, rig_note, outcome);
}

static int maintain(struct rig *rig, struct outcome *outcome)
{
	return rea_store_maintain(
	    rig->store, &(struct rea_store_maintain){S(1), 10}, rig->now_ns + 2 * LEASE, rig_note, outcome);
}

/* Reads tell at once. */
static int get_second(struct rig *rig, struct outcome *outcome)
{
	struct rea_store_task task;

	outcome->told = true;
	outcome->error = rea_store_get(rig->reader, second, &task);
	if (outcome->error == 0)
		assert_text_is(task.payload, "the payload");
	return 0;
}

static int list_by_biz_id(struct rig *rig, struct outcome *outcome)
{
	struct rea_store_page page;

	outcome->told = true;
	outcome->error = rea_store_list(rig->reader, &(struct rea_store_filter){.max = 5, .biz_id = text("order-7")}, &page);
	if (outcome->error == 0)
		assert_int_equal(page.tasks_len, 2);
	return 0;
}

static int list_open(struct rig *rig, struct outcome *outcome)
{
	struct rea_store_page page;

	outcome->told = true;
	outcome->error = rea_store_list(rig->reader, &(struct rea_store_filter){.max = 5, .target = text("users")}, &page);
	if (outcome->error == 0)
		assert_text_is(page.tasks[0].key, "k-2");
	return 0;
}

static int attempts_of_second(struct rig *rig, struct outcome *outcome)
{
	const struct rea_store_attempt *attempts;
	size_t count;

	outcome->told = true;
	outcome->error = rea_store_attempts(rig->reader, second, 0, 10, &attempts, &count);
	if (outcome->error == 0)
		assert_text_is(attempts[count - 1].detail, "try later");
	return 0;
}

static int backup(struct rig *rig, struct outcome *outcome)
{
	char path[64];

	if (!rig->sqlite) {
		outcome->told = true;
		return outcome->error = 0;
	}
	rig_path(rig, "copy.db", path, sizeof(path));
	unlink(path);
	return rea_store_sqlite_backup(rig->store, path, rig_note, outcome);
}

static int (*const steps[])(struct rig *rig, struct outcome *outcome) = {submit_first, submit_second, ask_due,
    submit_first, claim_first, record_first, heartbeat_first, reschedule_first, claim_first, finish_first, replay_first,
    list_by_biz_id, cancel_first, claim_second, get_second, list_open, attempts_of_second, backup, maintain, maintain};

/* Until it succeeds, which is at the second time, or never. */
static int do_step(struct rig *rig, struct outcome *outcome, size_t number, bool for_good)
{
	static struct outcome next;
	int error;

	for (int tries = 0;; tries++) {
		memset(&next, 0, sizeof(next));
		next.task = outcome->task;
		error = steps[number](rig, &next);
		if (error == 0) {
			rig_wait(rig, &next);
			error = next.error;
		}
		if (error != REA_ERR_NOMEM || for_good)
			break;
		assert_in_range(tries, 0, 1);
	}
	if (error != 0 && error != REA_ERR_NOMEM)
		fail_msg("step %zu: %s", number, rea_error_name(error));
	*outcome = next;
	return error;
}

static int open_all(struct rig *rig)
{
	int error = rig_try_open(rig, NULL);

	if (error != 0)
		return error;
	error = rea_store_reader_new(rig->store, &rig->reader);
	if (error != 0) {
		rig->reader = NULL;
		rig_close(rig);
	}
	return error;
}

static int live(struct rig *rig, bool for_good)
{
	static struct outcome outcome;
	int error = open_all(rig);

	if (error == REA_ERR_NOMEM && !for_good)
		error = open_all(rig);
	if (error != 0) {
		assert_int_equal(error, REA_ERR_NOMEM);
		return error;
	}
	memset(&outcome, 0, sizeof(outcome));
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && error == 0; i++)
		error = do_step(rig, &outcome, i, for_good);
	if (error == 0) {
		((struct locked_alloc *)rig->options.store.alloc->user_data)->failing.left = SIZE_MAX;
		assert_int_equal(state_of(rig, first), REA_STORE_STATE_COUNT); /* purged */
		assert_int_equal(state_of(rig, second), REA_STORE_RETRYING);
	}
	rig_close(rig);
	return error;
}

static void fail_each(bool sqlite, bool for_good)
{
	for (size_t n = 0;; n++) {
		struct locked_alloc locked = {
		    {&locked, locked_realloc, locked_free}, PTHREAD_MUTEX_INITIALIZER, {{0}, 0, false, 0, 0}};
		struct rig rig;
		int error;

		rig_init(&rig, sqlite);
		rig.options.sync_off = true;
		rig.options.store.alloc = &locked.alloc;
		fail_alloc_init(&locked.failing, n, for_good);
		error = live(&rig, for_good);
		assert_true(error == 0 || (for_good && error == REA_ERR_NOMEM));
		assert_int_equal(locked.failing.live, 0);
		rig_fini(&rig);
		if (locked.failing.failed == 0) {
			assert_in_range(n, 30, 1000);
			return;
		}
	}
}

static void test_memory_store(void **state)
{
	(void)state;
	fail_each(false, false);
	fail_each(false, true);
}

static void test_sqlite_store(void **state)
{
	(void)state;
	fail_each(true, false);
	fail_each(true, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_memory_store),
	    cmocka_unit_test(test_sqlite_store),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
