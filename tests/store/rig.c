#include "rig.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <unistd.h>

static void woken(void *user_data)
{
	struct rig *rig = user_data;

	pthread_mutex_lock(&rig->mutex);
	rig->wakes++;
	pthread_cond_broadcast(&rig->woken);
	pthread_mutex_unlock(&rig->mutex);
}

void rig_init(struct rig *rig, bool sqlite)
{
	memset(rig, 0, sizeof(*rig));
	rig->sqlite = sqlite;
	rig->now_ns = S(1000);
	pthread_mutex_init(&rig->mutex, NULL);
	pthread_cond_init(&rig->woken, NULL);
	strcpy(rig->directory, "/tmp/rea-store-XXXXXX");
	assert_non_null(mkdtemp(rig->directory));
	rig_path(rig, "tasks.db", rig->path, sizeof(rig->path));
	rea_store_sqlite_options_init(&rig->options);
	rig->options.path = rig->path;
	rig->options.store.wake = woken;
	rig->options.store.user_data = rig;
	rig->options.store.clock = (struct rea_store_clock){rig->now_ns, (int64_t)S(1700000000), S(5000), "boot-1"};
}

void rig_fini(struct rig *rig)
{
	char command[80];

	snprintf(command, sizeof(command), "rm -rf %s", rig->directory);
	assert_int_equal(system(command), 0);
	pthread_cond_destroy(&rig->woken);
	pthread_mutex_destroy(&rig->mutex);
}

int rig_try_open(struct rig *rig, struct rea_error_info *ret_info)
{
	if (!rig->sqlite)
		return rea_store_memory_new(&rig->options.store, &rig->store, ret_info);
	return rea_store_sqlite_open(&rig->options, &rig->store, ret_info);
}

void rig_open(struct rig *rig)
{
	struct rea_error_info info = {0};
	int error = rig_try_open(rig, &info);

	if (error != 0)
		fail_msg("%s: %s", rea_error_name(error), info.message);
	assert_int_equal(rea_store_reader_new(rig->store, &rig->reader), 0);
}

void rig_close(struct rig *rig)
{
	rea_store_reader_free(rig->reader);
	rea_store_close(rig->store);
	rig->reader = NULL;
	rig->store = NULL;
}

void rig_path(const struct rig *rig, const char *name, char *ret_path, size_t size)
{
	snprintf(ret_path, size, "%s/%s", rig->directory, name);
}

static int first_number(void *number, int columns, char **texts, char **names)
{
	(void)names;
	*(int64_t *)number = columns > 0 && texts[0] != NULL ? atoll(texts[0]) : 0;
	return 0;
}

int64_t rig_sql_number(const struct rig *rig, const char *sql)
{
	int64_t number = 0;
	sqlite3 *handle;
	char *message = NULL;

	assert_int_equal(sqlite3_open(rig->path, &handle), SQLITE_OK);
	if (sqlite3_exec(handle, sql, first_number, &number, &message) != SQLITE_OK)
		fail_msg("%s: %s", sql, message);
	assert_int_equal(sqlite3_close(handle), SQLITE_OK);
	return number;
}

void rig_sql(const struct rig *rig, const char *sql)
{
	rig_sql_number(rig, sql);
}

void rig_wait(struct rig *rig, const struct outcome *outcome)
{
	while (!outcome->told) {
		uint64_t wakes;

		pthread_mutex_lock(&rig->mutex);
		wakes = rig->wakes;
		pthread_mutex_unlock(&rig->mutex);
		if (rea_store_drain(rig->store) > 0)
			continue;
		pthread_mutex_lock(&rig->mutex);
		while (rig->wakes == wakes)
			pthread_cond_wait(&rig->woken, &rig->mutex);
		pthread_mutex_unlock(&rig->mutex);
	}
}

void rig_wait_failing(struct rig *rig, bool failing)
{
	for (;;) {
		struct rea_store_status status;
		uint64_t wakes;

		pthread_mutex_lock(&rig->mutex);
		wakes = rig->wakes;
		pthread_mutex_unlock(&rig->mutex);
		rea_store_status(rig->store, &status);
		if (status.failing == failing)
			return;
		pthread_mutex_lock(&rig->mutex);
		while (rig->wakes == wakes)
			pthread_cond_wait(&rig->woken, &rig->mutex);
		pthread_mutex_unlock(&rig->mutex);
	}
}

static void keep_text(char *buffer, size_t size, struct rea_text *kept)
{
	size_t length = kept->length < size ? kept->length : size;

	if (length > 0)
		memcpy(buffer, kept->text, length);
	*kept = (struct rea_text){buffer, length};
}

void rig_note(const struct rea_store_result *result, void *user_data)
{
	struct outcome *outcome = user_data;
	struct rea_text *texts[] = {&outcome->task.target, &outcome->task.biz_id, &outcome->task.key, &outcome->task.payload};

	assert_false(outcome->told);
	outcome->told = true;
	outcome->error = result->error;
	outcome->task = result->task;
	outcome->existed = result->existed;
	outcome->soon = result->soon;
	outcome->more = result->more;
	outcome->expired = result->expired;
	outcome->purged = result->purged;
	outcome->tasks_len = result->tasks_len;
	for (size_t i = 0; i < 4; i++)
		keep_text(outcome->texts[i], sizeof(outcome->texts[i]), texts[i]);
	assert_in_range(result->tasks_len, 0, REA_STORE_DUE_MAX);
	for (size_t i = 0; i < result->tasks_len; i++) {
		outcome->tasks[i] = result->tasks[i];
		keep_text(outcome->targets[i], sizeof(outcome->targets[i]), &outcome->tasks[i].target);
	}
}

/* One at a time is enough: each call waits. */
static struct outcome *fresh_outcome(void)
{
	static struct outcome outcome;

	memset(&outcome, 0, sizeof(outcome));
	return &outcome;
}

/* The call was accepted, and its result is awaited. */
static struct outcome *await(struct rig *rig, struct outcome *outcome, int error)
{
	if (error != 0)
		fail_msg("refused: %s", rea_error_name(error));
	assert_false(outcome->told);
	rig_wait(rig, outcome);
	return outcome;
}

struct rea_text text(const char *string)
{
	return (struct rea_text){string, strlen(string)};
}

struct rea_store_submit submission(const char *key, const char *payload)
{
	struct rea_store_submit submit = {
	    .spec = {.target = text("users"), .biz_id = text("order-7"), .key = text(key), .payload = text(payload)}};
	size_t length = strlen(payload);

	memcpy(submit.spec.fingerprint, payload, length < 16 ? length : 16);
	return submit;
}

struct rea_store_attempt unavailable(uint64_t start_ns)
{
	return (struct rea_store_attempt){.outcome = REA_OUTCOME_UNAVAILABLE,
	    .code_kind = REA_CODE_HTTP,
	    .code = 503,
	    .start_ns = start_ns,
	    .cost_ns = MS(12),
	    .instance = text("127.0.0.1:9001"),
	    .detail = text("try later")};
}

struct outcome *do_submit(struct rig *rig, const struct rea_store_submit *submit)
{
	struct outcome *outcome = fresh_outcome();

	return await(rig, outcome, rea_store_submit(rig->store, submit, rig->now_ns, rig_note, outcome));
}

uint64_t new_task(struct rig *rig, uint64_t delay_ns)
{
	struct rea_store_submit submit = submission("", "payload");
	struct outcome *outcome;

	submit.delay_ns = delay_ns;
	outcome = do_submit(rig, &submit);
	assert_int_equal(outcome->error, 0);
	return outcome->task.id;
}

struct outcome *do_claim_with(struct rig *rig, const struct rea_store_claim *claim)
{
	struct outcome *outcome = fresh_outcome();

	return await(rig, outcome, rea_store_claim(rig->store, claim, rig->now_ns, rig_note, outcome));
}

struct outcome *do_claim(struct rig *rig, uint64_t id)
{
	return do_claim_with(rig, &(struct rea_store_claim){.id = id, .lease_ns = LEASE});
}

uint64_t claimed(struct rig *rig, uint64_t id)
{
	struct outcome *outcome = do_claim(rig, id);

	assert_int_equal(outcome->error, 0);
	assert_int_equal(outcome->task.state, REA_STORE_RUNNING);
	return outcome->task.claim;
}

struct outcome *do_heartbeat(struct rig *rig, uint64_t id, uint64_t claim, uint64_t lease_ns)
{
	struct outcome *outcome = fresh_outcome();

	return await(rig, outcome, rea_store_heartbeat(rig->store, id, claim, lease_ns, rig->now_ns, rig_note, outcome));
}

struct outcome *do_record(struct rig *rig, uint64_t id, uint64_t claim)
{
	struct outcome *outcome = fresh_outcome();
	struct rea_store_attempt attempt = unavailable(rig->now_ns);

	return await(rig, outcome, rea_store_record(rig->store, id, claim, &attempt, rig->now_ns, rig_note, outcome));
}

struct outcome *do_reschedule_with(struct rig *rig, const struct rea_store_reschedule *reschedule)
{
	struct outcome *outcome = fresh_outcome();

	return await(rig, outcome, rea_store_reschedule(rig->store, reschedule, rig->now_ns, rig_note, outcome));
}

struct outcome *do_reschedule(struct rig *rig, uint64_t id, uint64_t claim, uint64_t delay_ns)
{
	struct rea_store_attempt attempt = unavailable(rig->now_ns);

	return do_reschedule_with(
	    rig, &(struct rea_store_reschedule){
		     .id = id, .claim = claim, .delay_ns = delay_ns, .attempted = true, .attempt = &attempt});
}

struct outcome *do_finish_with(struct rig *rig, const struct rea_store_finish *finish)
{
	struct outcome *outcome = fresh_outcome();

	return await(rig, outcome, rea_store_finish(rig->store, finish, rig->now_ns, rig_note, outcome));
}

struct outcome *do_finish(struct rig *rig, uint64_t id, uint64_t claim, enum rea_store_state state)
{
	struct rea_store_attempt attempt = unavailable(rig->now_ns);
	bool success = state == REA_STORE_SUCCESS;

	attempt.outcome = REA_OUTCOME_PERMANENT;
	attempt.reason = text("permanent");
	return do_finish_with(rig, &(struct rea_store_finish){.id = id,
				       .claim = claim,
				       .state = state,
				       .reason = text(success ? "" : "permanent"),
				       .attempted = true,
				       .attempt = success ? NULL : &attempt});
}

struct outcome *do_cancel(struct rig *rig, uint64_t id)
{
	struct outcome *outcome = fresh_outcome();

	return await(rig, outcome, rea_store_cancel(rig->store, id, text("cancelled"), rig->now_ns, rig_note, outcome));
}

struct outcome *do_replay(struct rig *rig, uint64_t id, uint32_t generation, bool force)
{
	struct outcome *outcome = fresh_outcome();
	struct rea_store_replay replay = {.id = id, .generation = generation, .force = force};

	return await(rig, outcome, rea_store_replay(rig->store, &replay, rig->now_ns, rig_note, outcome));
}

struct outcome *do_due(struct rig *rig, uint64_t until_ns, uint32_t max)
{
	struct outcome *outcome = fresh_outcome();

	return await(rig, outcome, rea_store_due(rig->store, until_ns, max, rig->now_ns, rig_note, outcome));
}

struct outcome *do_maintain(struct rig *rig, uint64_t keep_ns, uint32_t rows_max)
{
	struct outcome *outcome = fresh_outcome();
	struct rea_store_maintain maintain = {keep_ns, rows_max};

	return await(rig, outcome, rea_store_maintain(rig->store, &maintain, rig->now_ns, rig_note, outcome));
}

struct outcome *do_backup(struct rig *rig, const char *path)
{
	struct outcome *outcome = fresh_outcome();

	return await(rig, outcome, rea_store_sqlite_backup(rig->store, path, rig_note, outcome));
}

enum rea_store_state state_of(struct rig *rig, uint64_t id)
{
	struct rea_store_task task;
	int error = rea_store_get(rig->reader, id, &task);

	assert_true(error == 0 || error == REA_ERR_NOT_FOUND);
	return error == 0 ? task.state : REA_STORE_STATE_COUNT;
}

struct rea_store_task task_of(struct rig *rig, uint64_t id)
{
	struct rea_store_task task;

	assert_int_equal(rea_store_get(rig->reader, id, &task), 0);
	return task;
}

size_t attempts_of(struct rig *rig, uint64_t id, const struct rea_store_attempt **ret_attempts)
{
	size_t count;

	assert_int_equal(rea_store_attempts(rig->reader, id, 0, REA_STORE_PAGE_MAX, ret_attempts, &count), 0);
	return count;
}

void assert_text_is(struct rea_text actual, const char *expected)
{
	if (actual.length != strlen(expected) || memcmp(actual.text, expected, actual.length) != 0)
		fail_msg("\"%.*s\" is not \"%s\"", (int)actual.length, actual.text, expected);
}
