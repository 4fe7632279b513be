/*
 * What only a store on disk has to do: be there again, as it was, whatever happened between.
 */
#include "rig.h"

#include <rea/random.h>

#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_rig(void **state)
{
	struct rig *rig = malloc(sizeof(*rig));

	rig_init(rig, true);
	rig_open(rig);
	*state = rig;
	return 0;
}

static int close_rig(void **state)
{
	struct rig *rig = *state;

	if (rig->store != NULL)
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

static void reopen(struct rig *rig)
{
	rig_close(rig);
	rig_open(rig);
}

/* ---- there again ---- */

static void test_everything_is_there_again(void **state)
{
	struct rig *rig = *state;
	struct rea_store_submit submit = submission("k-1", "the payload"), other = submission("k-1", "another");
	const struct rea_store_attempt *attempts;
	uint64_t retrying = do_submit(rig, &submit)->task.id, over = new_task(rig, 0), pending = new_task(rig, S(60));
	struct rea_store_task task;

	do_reschedule(rig, retrying, claimed(rig, retrying), MS(104));
	do_finish(rig, over, claimed(rig, over), REA_STORE_GIVEN_UP);
	reopen(rig);
	task = task_of(rig, retrying);
	assert_int_equal(task.state, REA_STORE_RETRYING);
	assert_int_equal(task.due_ns, S(1000) + MS(104));
	assert_int_equal(task.attempt, 1);
	assert_int_equal(task.crashes, 0);
	assert_text_is(task.target, "users");
	assert_text_is(task.biz_id, "order-7");
	assert_text_is(task.key, "k-1");
	assert_text_is(task.payload, "the payload");
	assert_int_equal(attempts_of(rig, retrying, &attempts), 1);
	assert_text_is(attempts[0].instance, "127.0.0.1:9001");
	assert_int_equal(state_of(rig, over), REA_STORE_GIVEN_UP);
	assert_int_equal(state_of(rig, pending), REA_STORE_PENDING);
	assert_int_equal(status_of(rig).counts[REA_STORE_PENDING], 1);
	assert_int_equal(status_of(rig).counts[REA_STORE_RETRYING], 1);
	assert_int_equal(status_of(rig).counts[REA_STORE_GIVEN_UP], 1);
	assert_int_equal(status_of(rig).interrupted, 0);
	assert_true(do_submit(rig, &submit)->existed);
	assert_int_equal(do_submit(rig, &other)->error, REA_ERR_CONFLICT);
}

/* Soon was what the last process had in memory; this one asks for all of it, overdue first. */
static void test_due_begins_anew(void **state)
{
	struct rig *rig = *state;
	uint64_t near = new_task(rig, S(1)), handed_out, far;
	struct outcome *outcome;

	handed_out = new_task(rig, S(2));
	assert_int_equal(do_due(rig, S(1010), 10)->tasks_len, 2);
	far = new_task(rig, S(100));
	reopen(rig);
	outcome = do_due(rig, REA_NEVER, 10);
	assert_int_equal(outcome->tasks_len, 3);
	assert_int_equal(outcome->tasks[0].id, near);
	assert_int_equal(outcome->tasks[1].id, handed_out);
	assert_int_equal(outcome->tasks[2].id, far);
}

/* The process dies: as good as one that closes without a word of the tasks it runs. */
static void test_running_is_interrupted(void **state)
{
	struct rig *rig = *state;
	const struct rea_store_attempt *attempts;
	uint64_t id = new_task(rig, 0), claim = claimed(rig, id);
	struct outcome *outcome;
	struct rea_store_task task;

	rig->now_ns += MS(250);
	rig->options.store.clock.now_ns += MS(250);
	rig->options.store.clock.boot_ns += MS(250);
	reopen(rig);
	assert_int_equal(status_of(rig).interrupted, 1);
	task = task_of(rig, id);
	assert_int_equal(task.state, REA_STORE_RETRYING);
	assert_int_equal(task.attempt, 1);
	assert_int_equal(task.crashes, 1);
	assert_int_equal(task.due_ns, rig->now_ns);
	assert_int_equal(attempts_of(rig, id, &attempts), 1);
	assert_true(attempts[0].interrupted);
	assert_int_equal(attempts[0].outcome, REA_OUTCOME_AMBIGUOUS);
	assert_int_equal(attempts[0].cost_ns, MS(250));
	assert_int_equal(do_finish(rig, id, claim, REA_STORE_SUCCESS)->error, REA_ERR_CONFLICT);
	outcome = do_due(rig, rig->now_ns + 1, 10);
	assert_int_equal(outcome->tasks_len, 1);
	assert_int_equal(outcome->tasks[0].crashes, 1);
	outcome = do_claim(rig, id);
	assert_int_equal(outcome->task.attempt, 2);
	assert_true(outcome->task.claim > claim);

	/* A task that kills the process each time is seen to. */
	for (uint32_t crashes = 2; crashes < 5; crashes++) {
		reopen(rig);
		assert_int_equal(task_of(rig, id).crashes, crashes);
		claimed(rig, id);
	}
	reopen(rig);
	assert_int_equal(attempts_of(rig, id, &attempts), 5);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(attempts[i].number, i + 1);
}

static void test_many_running_are_interrupted(void **state)
{
	struct rig *rig = *state;

	for (int i = 0; i < 600; i++)
		claimed(rig, new_task(rig, 0));
	reopen(rig);
	assert_int_equal(status_of(rig).interrupted, 600);
	assert_int_equal(status_of(rig).counts[REA_STORE_RETRYING], 600);
	assert_int_equal(do_due(rig, REA_NEVER, 256)->tasks_len, 256);
}

/* Ids and claims are never given out twice, not even when nothing is left that tells of them. */
static void test_numbers_are_not_used_again(void **state)
{
	struct rig *rig = *state;
	uint64_t id = new_task(rig, 0), claim = claimed(rig, id), next;

	do_finish(rig, id, claim, REA_STORE_SUCCESS);
	rig->now_ns += S(1);
	assert_int_equal(do_maintain(rig, 0, 10)->purged, 1);
	reopen(rig);
	next = new_task(rig, 0);
	assert_int_equal(next, id + 1); /* a clean end leaves no gap */
	assert_true(claimed(rig, next) > claim);
}

static void test_replayed_task_survives(void **state)
{
	struct rig *rig = *state;
	uint64_t id = new_task(rig, 0);

	do_finish(rig, id, claimed(rig, id), REA_STORE_GIVEN_UP);
	do_replay(rig, id, 1, false);
	reopen(rig);
	assert_int_equal(task_of(rig, id).generation, 2);
	assert_int_equal(do_replay(rig, id, 1, false)->error, REA_ERR_CONFLICT);
	assert_int_equal(rig_sql_number(rig, "SELECT (SELECT count(*) FROM task) * 10 + (SELECT count(*) FROM done)"), 10);
}

/* ---- clocks ---- */

/* The wall clock steps while the process is away; the boot is the same. Then while it is another boot. */
static void test_wall_clock_steps(void **state)
{
	static const int64_t steps[] = {3600, -3600};
	struct rig *rig = *state;

	for (size_t i = 0; i < 2; i++) {
		uint64_t id = new_task(rig, S(20));

		rig_close(rig);
		rig->options.store.clock.unix_ns += (int64_t)S(10) + steps[i] * (int64_t)REA_NS_PER_S;
		rig->options.store.clock.boot_ns += S(10);
		rig->options.store.clock.now_ns += S(10);
		rig->now_ns += S(10);
		rig_open(rig);
		assert_int_equal(task_of(rig, id).due_ns, rig->now_ns + S(10));
		rig->now_ns += S(10) - 1;
		assert_int_equal(do_claim(rig, id)->error, REA_ERR_CONFLICT);
		rig->now_ns += 1;
		assert_int_equal(do_finish(rig, id, claimed(rig, id), REA_STORE_SUCCESS)->error, 0);
		assert_int_equal(do_claim(rig, id)->error, REA_ERR_CONFLICT);
		rig->options.store.clock.now_ns += S(10);
		rig->options.store.clock.boot_ns += S(10);
	}
}

/* After another boot the wall clock is all there is; set back, it holds nothing up for longer than the machine was down. */
static void test_another_boot(void **state)
{
	struct rig *rig = *state;
	uint64_t id = new_task(rig, S(20)), claim;

	rig_close(rig);
	rig->options.store.clock = (struct rea_store_clock){S(5), (int64_t)S(1700000012), S(7), "boot-2"};
	rig->now_ns = S(5);
	rig_open(rig);
	assert_int_equal(task_of(rig, id).due_ns, S(5) + S(8));
	rig->now_ns = S(13);
	claim = claimed(rig, id);
	do_reschedule(rig, id, claim, S(20)); /* at 1700000040, seen until 1700000020 */
	rig_close(rig);
	rig->options.store.clock = (struct rea_store_clock){S(2), (int64_t)S(1700000020 - 3600), S(3), "boot-3"};
	rig->now_ns = S(2);
	rig_open(rig);
	assert_int_equal(task_of(rig, id).due_ns, S(2) + S(20));
	rig_close(rig);
	rig->options.store.clock = (struct rea_store_clock){S(2), (int64_t)S(1700000100), S(3), "boot-4"};
	rig_open(rig);
	assert_int_equal(task_of(rig, id).due_ns, 0); /* overdue since before this boot */
	assert_int_equal(do_due(rig, S(2), 10)->tasks_len, 1);
}

/* ---- the file ---- */

static void test_the_file_is_set_up(void **state)
{
	struct rig *rig = *state;

	new_task(rig, 0);
	assert_int_equal(rig_sql_number(rig, "PRAGMA page_size"), 8192);
	assert_int_equal(rig_sql_number(rig, "PRAGMA auto_vacuum"), 2);
	assert_int_equal(rig_sql_number(rig, "PRAGMA user_version"), 1);
	assert_int_equal(rig_sql_number(rig, "SELECT journal_mode = 'wal' FROM pragma_journal_mode"), 1);
}

static void expect_refusal(struct rig *rig, int error, const char *words)
{
	struct rea_error_info info = {0};

	assert_int_equal(rig_try_open(rig, &info), error);
	if (strstr(info.message, words) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", info.message, words);
	assert_string_equal(info.file, rig->path);
	assert_int_equal(rig_try_open(rig, NULL), error);
}

static void test_newer_schema_is_refused(void **state)
{
	struct rig *rig = *state;
	uint64_t id = new_task(rig, 0);

	rig_close(rig);
	rig_sql(rig, "PRAGMA user_version=2");
	expect_refusal(rig, REA_ERR_INVALID, "its schema has version 2, this library knows up to 1");
	rig_sql(rig, "PRAGMA user_version=-1");
	expect_refusal(rig, REA_ERR_INVALID, "version -1");
	rig_sql(rig, "PRAGMA user_version=1");
	rig_open(rig);
	assert_int_equal(state_of(rig, id), REA_STORE_PENDING);
}

static void test_other_files_are_refused(void **state)
{
	struct rig *rig = *state;
	FILE *file;

	rig_close(rig);
	rig_sql(rig, "PRAGMA application_id=1");
	expect_refusal(rig, REA_ERR_INVALID, "another program");
	assert_int_equal(unlink(rig->path), 0);
	rig_sql(rig, "CREATE TABLE addresses (name TEXT)");
	expect_refusal(rig, REA_ERR_INVALID, "another program");
	assert_int_equal(rig_sql_number(rig, "SELECT count(*) FROM sqlite_schema"), 1);
	assert_int_equal(unlink(rig->path), 0);
	file = fopen(rig->path, "w");
	for (int i = 0; i < 4096; i++)
		fputs("no database ", file);
	fclose(file);
	expect_refusal(rig, REA_ERR_CORRUPT, "not a database");
	assert_int_equal(unlink(rig->path), 0);
	assert_int_equal(mkdir(rig->path, 0700), 0);
	expect_refusal(rig, REA_ERR_IO, "unable to open");
	assert_int_equal(rmdir(rig->path), 0);
	rig_open(rig);
}

static void test_one_process_at_a_time(void **state)
{
	struct rig *rig = *state;
	struct rea_store *store = rig->store;

	expect_refusal(rig, REA_ERR_BUSY, "another process");
	rig->store = store;
	assert_int_equal(new_task(rig, 0), 1); /* unharmed */
}

static void test_options_of_sqlite(void **state)
{
	struct rig *rig = *state;
	struct rea_error_info info;

	rig_close(rig);
#define WITH(member, value, expected)                                  \
	do {                                                           \
		struct rea_store_sqlite_options before = rig->options; \
		rig->options.member = value;                           \
		assert_int_equal(rig_try_open(rig, &info), expected);  \
		if ((expected) == 0)                                   \
			rea_store_close(rig->store);                   \
		rig->options = before;                                 \
	} while (0)
	WITH(path, NULL, REA_ERR_INVALID);
	WITH(path, "", REA_ERR_INVALID);
	WITH(path, "/no/such/directory/tasks.db", REA_ERR_IO);
	WITH(vfs, "nobody registered this", REA_ERR_CORRUPT);
	WITH(size_max, (1 << 20) - 1, REA_ERR_INVALID);
	assert_string_equal(info.key, "size_max");
	assert_string_equal(info.message, "size_max is 1048575; it must be at least 1048576");
	WITH(size_max, 1 << 20, 0);
	WITH(cache_bytes, (64 << 10) - 1, REA_ERR_INVALID);
	assert_string_equal(info.message, "cache_bytes is 65535; it must be at least 65536 and at most 1073741824");
	WITH(cache_bytes, 64 << 10, 0);
	WITH(cache_bytes, 1 << 30, 0);
	WITH(cache_bytes, (1 << 30) + 1, REA_ERR_INVALID);
#undef WITH
	rig->store = NULL;
}

/* ---- commits ---- */

/* What queues while one commit is under way is one commit; each waits for the disk. */
static void test_commits_are_shared(void **state)
{
	struct rig *rig = *state;
	struct rea_store_submit submit = submission("", "body");
	struct outcome *outcome = calloc(1, sizeof(*outcome));
	struct rea_store_status before = status_of(rig), after;

	for (int i = 0; i < 999; i++)
		assert_int_equal(rea_store_submit(rig->store, &submit, rig->now_ns, NULL, NULL), 0);
	assert_int_equal(rea_store_submit(rig->store, &submit, rig->now_ns, rig_note, outcome), 0);
	rig_wait(rig, outcome);
	after = status_of(rig);
	assert_int_equal(after.operations - before.operations, 1000);
	assert_in_range(after.commits - before.commits, 4, 900);
	assert_int_equal(after.syncs - before.syncs, after.commits - before.commits);
	free(outcome);
}

static void test_what_may_ride_does(void **state)
{
	struct rig *rig = *state;
	uint64_t id = new_task(rig, 0), claim;
	struct rea_store_status before = status_of(rig), after;
	struct outcome *outcome;

	outcome = do_claim_with(rig, &(struct rea_store_claim){.id = id, .lease_ns = LEASE, .relaxed = true});
	claim = outcome->task.claim;
	do_heartbeat(rig, id, claim, LEASE);
	do_record(rig, id, claim);
	do_reschedule(rig, id, claim, 0);
	after = status_of(rig);
	/* A flush may have come between; it is a sync. */
	assert_int_equal((after.commits - before.commits) - (after.syncs - before.syncs), 4);
	before = after;
	claim = claimed(rig, id);
	do_finish(rig, id, claim, REA_STORE_GIVEN_UP);
	do_replay(rig, id, 0, false);
	do_cancel(rig, id);
	assert_int_equal(status_of(rig).syncs - before.syncs, 4);
}

/* The last of what rode is synced although nothing follows. */
static void test_the_last_is_flushed(void **state)
{
	struct rig *rig = *state;
	uint64_t id = new_task(rig, 0), syncs = status_of(rig).syncs, commits;

	do_claim_with(rig, &(struct rea_store_claim){.id = id, .lease_ns = LEASE, .relaxed = true});
	for (int i = 0; i < 1000 && status_of(rig).syncs == syncs; i++)
		usleep(5000);
	commits = status_of(rig).commits;
	assert_int_equal(status_of(rig).syncs, syncs + 1);
	usleep(120000);
	assert_int_equal(status_of(rig).commits, commits); /* once is enough */
}

/* The log is written back as it grows, and does not grow for ever. */
static void test_log_is_written_back(void **state)
{
	struct rig *rig = *state;
	char path[64];
	struct stat file;

	for (int i = 0; i < 3000; i++) {
		struct rea_store_submit submit = submission("", "body");

		assert_int_equal(rea_store_submit(rig->store, &submit, rig->now_ns, NULL, NULL), 0);
		if (i % 10 == 0)
			new_task(rig, 0);
	}
	snprintf(path, sizeof(path), "%s-wal", rig->path);
	assert_int_equal(stat(path, &file), 0);
	assert_in_range(file.st_size, 256 * 8192, 600 * 8192);
}

/* ---- keys and business ids, beyond what memory holds of them ---- */

static void submit_keyed(struct rig *rig, size_t from, size_t to)
{
	struct outcome *outcome = calloc(1, sizeof(*outcome));

	for (size_t i = from; i < to; i++) {
		char key[32], biz_id[32], payload[32];
		struct rea_store_submit submit;

		snprintf(key, sizeof(key), "key-%zu", i);
		snprintf(biz_id, sizeof(biz_id), "order-%zu", i / 4);
		snprintf(payload, sizeof(payload), "%zu", i);
		submit = submission(key, payload);
		submit.spec.biz_id = text(biz_id);
		if (i + 1 == to)
			assert_int_equal(rea_store_submit(rig->store, &submit, rig->now_ns, rig_note, outcome), 0);
		else if (i % 1000 != 999)
			assert_int_equal(rea_store_submit(rig->store, &submit, rig->now_ns, NULL, NULL), 0);
		else
			do_submit(rig, &submit);
	}
	rig_wait(rig, outcome);
	free(outcome);
}

/* That each key from..to leads to its task, and so does each biz_id to its four. */
static void check_names(struct rig *rig, size_t from, size_t to, size_t step, bool kept)
{
	for (size_t i = from; i < to; i += step) {
		char key[32], biz_id[32], payload[32];
		struct rea_store_filter filter = {.max = 10};
		struct rea_store_submit other;
		struct rea_store_page page;
		struct outcome *outcome;
		size_t found = 0;

		snprintf(biz_id, sizeof(biz_id), "order-%zu", i / 4);
		filter.biz_id = text(biz_id);
		do {
			assert_int_equal(rea_store_list(rig->reader, &filter, &page), 0);
			found += page.tasks_len;
			filter.before_id = page.next;
		} while (page.next != 0);
		assert_int_equal(found, kept ? 4 : 0);
		if (!kept)
			continue;
		snprintf(key, sizeof(key), "key-%zu", i);
		other = submission(key, "something else");
		outcome = do_submit(rig, &other);
		assert_int_equal(outcome->error, REA_ERR_CONFLICT);
		snprintf(payload, sizeof(payload), "%zu", i);
		assert_text_is(task_of(rig, outcome->task.id).payload, payload);
	}
}

static void test_names(void **state)
{
	struct rig *rig = *state;
	struct rea_store_page page;
	struct rea_store_filter filter = {.max = 1000};
	size_t cancelled = 0, purged = 0;
	struct outcome *outcome;

	rig_close(rig);
	rig->options.sync_off = true;
	rig_open(rig);
	submit_keyed(rig, 0, 40000);
	check_names(rig, 0, 40000, 331, true);
	assert_in_range(rig_sql_number(rig, "SELECT count(*) FROM name"), 40000, 60000);
	assert_in_range(rig_sql_number(rig, "SELECT value FROM meta WHERE name = 'folded_id'"), 1, 1);
	reopen(rig); /* more than a round lies behind: it is folded at once */
	assert_int_equal(rig_sql_number(rig, "SELECT count(*) FROM name"), 80000);
	assert_int_equal(rig_sql_number(rig, "SELECT value FROM meta WHERE name = 'folded_id'"), 40001);
	check_names(rig, 0, 40000, 331, true);
	submit_keyed(rig, 40000, 80000);
	check_names(rig, 0, 80000, 977, true);
	assert_int_equal(rig_sql_number(rig, "SELECT value FROM meta WHERE name = 'folded_id'"), 40001);
	reopen(rig);
	check_names(rig, 0, 80000, 977, true);

	filter.before_id = 20001; /* the oldest 20,000 go */
	do {
		assert_int_equal(rea_store_list(rig->reader, &filter, &page), 0);
		for (size_t i = 0; i < page.tasks_len; i++, cancelled++)
			assert_int_equal(
			    rea_store_cancel(rig->store, page.tasks[i].id, text(""), rig->now_ns, NULL, NULL), 0);
		filter.before_id = page.next;
	} while (page.next != 0);
	assert_int_equal(cancelled, 20000);
	rig->now_ns += S(1);
	do {
		outcome = do_maintain(rig, 0, 1000);
		purged += outcome->purged;
	} while (outcome->more);
	assert_int_equal(purged, 20000);
	check_names(rig, 0, 20000, 331, false);
	check_names(rig, 20000, 80000, 977, true);
	submit_keyed(rig, 80000, 120000);
	check_names(rig, 20000, 120000, 977, true);
	/* A round later no name of a purged task is left. */
	assert_int_equal(rig_sql_number(rig, "SELECT count(*) FROM name WHERE id <= 20000"), 0);
	submit_keyed(rig, 0, 4); /* a key may come back */
	check_names(rig, 0, 4, 1, true);
}

/* ---- space ---- */

static void test_space_is_given_back(void **state)
{
	struct rig *rig = *state;
	char *payload = calloc(1, 100000);
	struct rea_store_submit submit = submission("", "");
	struct outcome *outcome;
	int64_t pages;
	uint64_t id = 0;

	submit.spec.payload = (struct rea_text){payload, 100000};
	for (int i = 0; i < 200; i++) {
		id = do_submit(rig, &submit)->task.id;
		do_cancel(rig, id);
	}
	pages = rig_sql_number(rig, "PRAGMA page_count");
	assert_true(pages > 2000);
	rig->now_ns += S(1);
	do
		outcome = do_maintain(rig, 0, 100);
	while (outcome->more);
	assert_int_equal(outcome->error, 0);
	assert_in_range(rig_sql_number(rig, "PRAGMA page_count"), 1, 1100);
	assert_int_equal(rig_sql_number(rig, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
	new_task(rig, 0);
	free(payload);
}

/* ---- backup ---- */

static void test_backup_while_in_use(void **state)
{
	struct rig *rig = *state;
	struct rea_store_submit submit = submission("", "body");
	struct outcome *backup = calloc(1, sizeof(*backup)), *outcome;
	char path[64], part[80];
	uint64_t first, last, copied;

	for (int i = 0; i < 3000; i++)
		assert_int_equal(rea_store_submit(rig->store, &submit, rig->now_ns, NULL, NULL), 0);
	first = last = new_task(rig, 0);
	rig_path(rig, "copy.db", path, sizeof(path));
	assert_int_equal(rea_store_sqlite_backup(rig->store, path, rig_note, backup), 0);
	assert_int_equal(do_backup(rig, path)->error, REA_ERR_CONFLICT); /* one at a time */
	while (!backup->told)
		last = new_task(rig, 0);
	assert_int_equal(backup->error, 0);
	outcome = do_backup(rig, path);
	assert_int_equal(outcome->error, REA_ERR_CONFLICT); /* it is there */
	snprintf(part, sizeof(part), "%s.part", path);
	assert_int_equal(access(part, F_OK), -1);
	rig_close(rig);

	rig->options.path = path;
	rig_open(rig);
	copied = status_of(rig).counts[REA_STORE_PENDING];
	assert_in_range(copied, first, last);
	assert_int_equal(state_of(rig, first), REA_STORE_PENDING);
	new_task(rig, 0);
	rig_close(rig);
	strcpy(rig->path, path);
	assert_int_equal(rig_sql_number(rig, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
	free(backup);
}

static void test_backup_that_cannot_be(void **state)
{
	struct rig *rig = *state;
	char path[64];
	struct outcome *outcome = calloc(1, sizeof(*outcome));

	assert_int_equal(do_backup(rig, "/no/such/directory/copy.db")->error, REA_ERR_IO);
	assert_int_equal(rea_store_sqlite_backup(rig->store, "", rig_note, NULL), REA_ERR_INVALID);
	assert_int_equal(rea_store_sqlite_backup(rig->store, NULL, rig_note, NULL), REA_ERR_INVALID);
	assert_false(status_of(rig).failing);
	for (int i = 0; i < 200; i++)
		new_task(rig, 0);
	rig_path(rig, "copy.db", path, sizeof(path));
	assert_int_equal(rea_store_sqlite_backup(rig->store, path, rig_note, outcome), 0);
	rig_close(rig); /* complete or given up, but told, and nothing half is left */
	assert_true(outcome->told);
	assert_true(outcome->error == 0 || outcome->error == REA_ERR_CLOSED);
	assert_int_equal(access(path, F_OK), outcome->error == 0 ? 0 : -1);
	strcat(path, ".part");
	assert_int_equal(access(path, F_OK), -1);
	free(outcome);
}

/* ---- damage ---- */

/* Rows that the machine never writes: an error where they are asked for, and nobody else suffers. */
static void test_damaged_rows(void **state)
{
	static const char *const damage[] = {
	    "UPDATE task SET state = 9 WHERE id = 2",
	    "UPDATE task SET state = 3 WHERE id = 2",
	    "UPDATE task SET generation = 0 WHERE id = 2",
	    "UPDATE task SET generation = 4294967296 WHERE id = 2",
	    "UPDATE task SET attempt = -1 WHERE id = 2",
	    "UPDATE task SET attempts_before = 7 WHERE id = 2",
	    "UPDATE task SET claim = 5 WHERE id = 2",
	    "UPDATE task SET due_ns = 9223372036854775807 WHERE id = 2",
	    "UPDATE task SET later = 2 WHERE id = 2",
	    "UPDATE task SET target = printf('%.2000c', 'x') WHERE id = 2",
	    "UPDATE spec SET biz_id = printf('%.2000c', 'x') WHERE id = 2",
	    "DELETE FROM spec WHERE id = 2",
	};
	struct rig *rig = *state;
	struct rea_store_task task;

	for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
		struct rea_store_page page;
		struct outcome *outcome;

		rig_close(rig);
		unlink(rig->path);
		rig_open(rig);
		for (int j = 0; j < 3; j++)
			new_task(rig, 0);
		rig_close(rig);
		rig_sql(rig, damage[i]);
		rig_open(rig);
		if (rea_store_get(rig->reader, 2, &task) != REA_ERR_CORRUPT)
			fail_msg("%s: not seen", damage[i]);
		assert_int_equal(rea_store_list(rig->reader, &(struct rea_store_filter){.max = 10}, &page), 0);
		assert_int_equal(page.tasks_len, 2);
		assert_int_equal(page.damaged, 1);
		outcome = do_due(rig, REA_NEVER, 10);
		assert_int_equal(outcome->error, 0);
		assert_in_range(outcome->tasks_len, 2, 3);
		for (uint64_t id = 1; id <= 3; id += 2)
			assert_int_equal(do_finish(rig, id, claimed(rig, id), REA_STORE_SUCCESS)->error, 0);
		do_maintain(rig, 0, 10);
		assert_false(status_of(rig).failing);
	}
}

/* An operation on a damaged row fails alone, not with the batch it came in. */
static void test_damage_does_not_spread(void **state)
{
	struct rig *rig = *state;
	struct rea_store_submit submit = submission("", "body");
	struct outcome *outcomes = calloc(41, sizeof(*outcomes));

	for (int i = 0; i < 40; i++)
		new_task(rig, 0);
	rig_close(rig);
	rig_sql(rig, "UPDATE task SET generation = 0 WHERE id = 20");
	rig_open(rig);
	for (size_t i = 0; i < 40; i++)
		assert_int_equal(rea_store_claim(rig->store, &(struct rea_store_claim){.id = i + 1, .lease_ns = LEASE},
				     rig->now_ns, rig_note, &outcomes[i]),
		    0);
	assert_int_equal(rea_store_submit(rig->store, &submit, rig->now_ns, rig_note, &outcomes[40]), 0);
	for (size_t i = 0; i <= 40; i++) {
		rig_wait(rig, &outcomes[i]);
		assert_int_equal(outcomes[i].error, i == 19 ? REA_ERR_CORRUPT : 0);
	}
	assert_true(status_of(rig).damaged > 0);
	assert_int_equal(status_of(rig).counts[REA_STORE_RUNNING], 39);
	free(outcomes);
}

static void test_damaged_attempts(void **state)
{
	static const char *const damage[] = {"outcome = 'fine'", "code_kind = 4", "number = 0", "cost_ns = -1",
	    "interrupted = 2", "code = 4294967296", "reason = printf('%.2000c', 'x')"};
	struct rig *rig = *state;

	for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
		const struct rea_store_attempt *attempts;
		char sql[128];
		size_t count;
		uint64_t id = new_task(rig, 0);

		do_reschedule(rig, id, claimed(rig, id), 0);
		snprintf(sql, sizeof(sql), "UPDATE attempt SET %s WHERE id = %llu", damage[i], (unsigned long long)id);
		rig_sql(rig, sql);
		if (strncmp(damage[i], "number", 6) == 0)
			assert_int_equal(rea_store_attempts(rig->reader, id, 0, 10, &attempts, &count), 0);
		else
			assert_int_equal(rea_store_attempts(rig->reader, id, 0, 10, &attempts, &count), REA_ERR_CORRUPT);
	}
}

static void flip(int fd, off_t at, unsigned char mask)
{
	unsigned char byte;

	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= mask;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
}

/* Bytes of the file turn over: whatever is asked, the answer is an answer or an error. */
static void test_damaged_pages(void **state)
{
	struct rig *rig = *state;
	struct rea_random random;
	char copy[64], command[200];
	off_t size;
	int opened = 0;

	for (int i = 0; i < 60; i++) {
		char key[16];
		struct rea_store_submit submit;
		uint64_t id;

		snprintf(key, sizeof(key), "key-%d", i);
		submit = submission(key, "body");
		id = do_submit(rig, &submit)->task.id;
		if (i % 3 == 0)
			do_reschedule(rig, id, claimed(rig, id), S(1));
		if (i % 3 == 1)
			do_finish(rig, id, claimed(rig, id), REA_STORE_GIVEN_UP);
	}
	rig_close(rig);
	rig_path(rig, "whole.db", copy, sizeof(copy));
	snprintf(command, sizeof(command), "cp %s %s", rig->path, copy);
	assert_int_equal(system(command), 0);
	rig->options.sync_off = true;
	rea_random_init(&random, 3);
	for (int round = 0; round < 150; round++) {
		int fd;

		snprintf(command, sizeof(command), "cp %s %s", copy, rig->path);
		assert_int_equal(system(command), 0);
		fd = open(rig->path, O_RDWR);
		size = lseek(fd, 0, SEEK_END);
		for (int i = 0; i < 1 + round / 10; i++)
			flip(fd, (off_t)rea_random_below(&random, (uint64_t)size),
			    (unsigned char)(1 + rea_random_below(&random, 255)));
		close(fd);
		if (rig_try_open(rig, NULL) != 0)
			continue;
		opened++;
		if (rea_store_reader_new(rig->store, &rig->reader) == 0) {
			for (uint64_t id = 1; id <= 60; id++) {
				const struct rea_store_attempt *attempts;
				struct rea_store_task task;
				size_t count;

				rea_store_get(rig->reader, id, &task);
				rea_store_attempts(rig->reader, id, 0, 10, &attempts, &count);
			}
			rea_store_list(rig->reader, &(struct rea_store_filter){.max = 100}, &(struct rea_store_page){0});
			rea_store_list(rig->reader, &(struct rea_store_filter){.max = 100, .biz_id = text("order-7")},
			    &(struct rea_store_page){0});
		}
		do_due(rig, REA_NEVER, 100);
		for (uint64_t id = 1; id <= 60; id += 7) {
			do_claim(rig, id);
			do_cancel(rig, id);
			do_replay(rig, id, 0, true);
		}
		do_maintain(rig, 0, 100);
		rea_store_reader_free(rig->reader);
		rea_store_close(rig->store);
		rig->reader = NULL;
	}
	rig->store = NULL;
	assert_true(opened > 50);
}

/* ---- the same as in memory ---- */

static void assert_same(const struct outcome *a, const struct outcome *b)
{
	assert_int_equal(a->error, b->error);
	assert_int_equal(a->existed, b->existed);
	assert_int_equal(a->soon, b->soon);
	assert_int_equal(a->more, b->more);
	assert_int_equal(a->expired, b->expired);
	assert_int_equal(a->purged, b->purged);
	assert_int_equal(a->task.id, b->task.id);
	assert_int_equal(a->task.state, b->task.state);
	assert_int_equal(a->task.generation, b->task.generation);
	assert_int_equal(a->task.attempt, b->task.attempt);
	assert_int_equal(a->task.attempts_before, b->task.attempts_before);
	assert_int_equal(a->task.crashes, b->task.crashes);
	assert_int_equal(a->task.claim, b->task.claim);
	assert_true(a->task.due_ns == b->task.due_ns);
	assert_int_equal(a->tasks_len, b->tasks_len);
	for (size_t i = 0; i < a->tasks_len; i++) {
		assert_int_equal(a->tasks[i].id, b->tasks[i].id);
		assert_int_equal(a->tasks[i].state, b->tasks[i].state);
		assert_int_equal(a->tasks[i].due_ns, b->tasks[i].due_ns);
	}
}

static struct outcome *do_random(struct rig *rig, struct rea_random *random, const uint64_t *claims)
{
	uint64_t id = 1 + rea_random_below(random, 40), claim = claims[id];
	struct rea_store_submit submit;
	char key[16];

	rig->now_ns += rea_random_below(random, MS(200));
	switch (rea_random_below(random, 12)) {
	case 0:
	case 1:
		snprintf(key, sizeof(key), "k-%u", (unsigned)rea_random_below(random, 60));
		submit = submission(key, rea_random_below(random, 9) == 0 ? "other" : "body");
		submit.delay_ns = rea_random_below(random, S(2));
		return do_submit(rig, &submit);
	case 2:
	case 3:
	case 4:
		return do_claim_with(rig, &(struct rea_store_claim){.id = id, .lease_ns = S(1)});
	case 5:
		return do_heartbeat(rig, id, claim ? claim : 1, S(1));
	case 6:
		return do_record(rig, id, claim ? claim : 1);
	case 7:
		return claim ? do_reschedule(rig, id, claim, rea_random_below(random, S(3)))
			     : do_reschedule_with(rig, &(struct rea_store_reschedule){.id = id});
	case 8:
		return do_finish(
		    rig, id, claim ? claim : 1, rea_random_below(random, 2) ? REA_STORE_SUCCESS : REA_STORE_GIVEN_UP);
	case 9:
		return rea_random_below(random, 4) ? do_replay(rig, id, 0, true) : do_cancel(rig, id);
	case 10:
		return do_due(
		    rig, rig->now_ns + rea_random_below(random, S(3)), (uint32_t)(1 + rea_random_below(random, 5)));
	default:
		return do_maintain(rig, S(4), 1000);
	}
}

/* Thousands of operations, each with the same result from both stores. */
static void test_same_as_memory(void **state)
{
	struct rig *sqlite = *state, *memory = malloc(sizeof(*memory));
	struct outcome *expected = malloc(sizeof(*expected));
	uint64_t claims[64] = {0};
	struct rea_random random;

	rig_close(sqlite);
	sqlite->options.sync_off = true;
	rig_open(sqlite);
	rig_init(memory, false);
	rig_open(memory);
	rea_random_init(&random, 5);
	for (int i = 0; i < 20000; i++) {
		struct rea_random again = random;
		struct outcome *actual;

		*expected = *do_random(memory, &random, claims);
		actual = do_random(sqlite, &again, claims);
		assert_same(actual, expected);
		if (expected->task.id > 0 && expected->task.id < 64)
			claims[expected->task.id] = expected->task.claim;
	}
	for (uint64_t id = 1; id < 60; id++)
		assert_int_equal(state_of(sqlite, id), state_of(memory, id));
	rig_close(memory);
	rig_fini(memory);
	free(memory);
	free(expected);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, open_rig, close_rig)
	const struct CMUnitTest tests[] = {
	    TEST(test_everything_is_there_again),
	    TEST(test_due_begins_anew),
	    TEST(test_running_is_interrupted),
	    TEST(test_many_running_are_interrupted),
	    TEST(test_numbers_are_not_used_again),
	    TEST(test_replayed_task_survives),
	    TEST(test_wall_clock_steps),
	    TEST(test_another_boot),
	    TEST(test_the_file_is_set_up),
	    TEST(test_newer_schema_is_refused),
	    TEST(test_other_files_are_refused),
	    TEST(test_one_process_at_a_time),
	    TEST(test_options_of_sqlite),
	    TEST(test_commits_are_shared),
	    TEST(test_what_may_ride_does),
	    TEST(test_the_last_is_flushed),
	    TEST(test_log_is_written_back),
	    TEST(test_names),
	    TEST(test_space_is_given_back),
	    TEST(test_backup_while_in_use),
	    TEST(test_backup_that_cannot_be),
	    TEST(test_damaged_rows),
	    TEST(test_damage_does_not_spread),
	    TEST(test_damaged_attempts),
	    TEST(test_damaged_pages),
	    TEST(test_same_as_memory),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}
