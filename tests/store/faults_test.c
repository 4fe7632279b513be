/*
 * The disk fails, once or for a while, or is full: nothing that was acknowledged is lost, nothing that failed has happened, and the store goes on by
 * itself when it can.
 */
#include "driver.h"
#include "shim.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#define TIMES 100
#define STEPS 700

static void start(struct rig *rig)
{
	shim_reset();
	rig_init(rig, true);
	rig->options.vfs = SHIM_NAME;
}

static void check(struct driver *driver, struct rig *rig, enum driver_loss loss, uint64_t n)
{
	const char *wrong = driver_check(driver, rig, loss);

	if (wrong != NULL)
		fail_msg("failure at %llu: %s", (unsigned long long)n, wrong);
}

static void check_file(struct rig *rig)
{
	assert_int_equal(rig_sql_number(rig, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
}

/* Work, until the steps are done; whenever it stops, see what is there and wait until it goes on. Returns how often it stopped. */
static int work_through(struct driver *driver, struct rig *rig, uint64_t n, bool for_good)
{
	struct rea_store_submit submit = submission("", "body");
	int stopped = 0;

	while (!driver_run(driver, rig, STEPS, false)) {
		stopped++;
		if (for_good && shim_failed()) {
			assert_int_equal(do_submit(rig, &submit)->error, REA_ERR_IO);
			check(driver, rig, LOSS_NONE, n);
			shim_heal();
		}
		rig_wait_failing(rig, false);
		check(driver, rig, LOSS_NONE, n);
	}
	return stopped;
}

/* The n-th operation fails, for a hundred n over the whole of the work. */
static void fail_everywhere(enum shim_kinds kinds, bool for_good)
{
	struct driver *driver = malloc(sizeof(*driver));
	uint64_t total = 0;
	int stopped = 0;

	for (int i = 0; i < TIMES; i++) {
		struct rig rig;
		uint64_t n = i == 0 ? 1000000 : 1 + total * (uint64_t)i / TIMES, before;

		start(&rig);
		if (kinds == SHIM_READS)
			rig.options.cache_bytes = 64 << 10; /* else there is little to read */
		rig_open(&rig);
		driver_init(driver, (uint64_t)i);
		before = shim_count(kinds);
		shim_fail(n, kinds, for_good);
		stopped += work_through(driver, &rig, n, for_good);
		if (i == 0)
			total = shim_count(kinds) - before;
		shim_heal();
		rig_wait_failing(&rig, false);
		check(driver, &rig, LOSS_NONE, n);
		rig_close(&rig);
		check_file(&rig);
		rig_open(&rig);
		check(driver, &rig, LOSS_PROCESS, n);
		rig_close(&rig);
		rig_fini(&rig);
	}
	assert_in_range(stopped, TIMES / 2, 2 * TIMES);
	free(driver);
}

static void test_nth_write_fails(void **state)
{
	(void)state;
	fail_everywhere(SHIM_WRITES, false);
}

static void test_nth_sync_fails(void **state)
{
	(void)state;
	fail_everywhere(SHIM_SYNCS, false);
}

static void test_nth_read_fails(void **state)
{
	(void)state;
	fail_everywhere(SHIM_READS, false);
}

static void test_all_fail_from_the_nth_on(void **state)
{
	(void)state;
	fail_everywhere(SHIM_CHANGES, true);
}

/* A failed sync: what was to be acknowledged is not, whatever comes after, until the store has looked. */
static void test_failed_sync_is_told(void **state)
{
	struct rea_store_submit submit = submission("k-1", "body"), other = submission("k-1", "another body");
	struct rea_store_status status;
	struct outcome *outcome;
	struct rig rig;
	uint64_t id;

	(void)state;
	start(&rig);
	rig_open(&rig);
	id = new_task(&rig, 0);
	shim_fail(1, SHIM_SYNCS, true);
	assert_int_equal(do_submit(&rig, &submit)->error, REA_ERR_IO);
	assert_int_equal(do_claim(&rig, id)->error, REA_ERR_IO);
	assert_int_equal(do_due(&rig, REA_NEVER, 1)->error, REA_ERR_IO);
	rea_store_status(rig.store, &status);
	assert_true(status.failing);
	assert_true(status.failures > 0);
	assert_non_null(strstr(status.message, "SQLite code"));
	assert_int_equal(status.counts[REA_STORE_PENDING], 1);
	assert_int_equal(state_of(&rig, id), REA_STORE_PENDING);
	shim_heal();
	rig_wait_failing(&rig, false);
	outcome = do_submit(&rig, &other); /* the failed submit has burnt nothing */
	assert_int_equal(outcome->error, 0);
	assert_false(outcome->existed);
	assert_int_equal(do_finish(&rig, id, claimed(&rig, id), REA_STORE_SUCCESS)->error, 0);
	rig_close(&rig);
	rig_fini(&rig);
}

/* What rode on a later sync is not forgotten when that one fails; due goes on where it stood. */
static void test_horizon_outlives_a_failure(void **state)
{
	struct rea_store_submit submit = submission("", "body");
	struct rig rig;

	(void)state;
	start(&rig);
	rig_open(&rig);
	for (int i = 0; i < 4; i++)
		new_task(&rig, S(1));
	assert_int_equal(do_due(&rig, S(2000), 2)->tasks_len, 2);
	shim_fail(1, SHIM_SYNCS, false);
	assert_int_equal(do_submit(&rig, &submit)->error, REA_ERR_IO);
	rig_wait_failing(&rig, false);
	assert_int_equal(do_due(&rig, S(2000), 10)->tasks_len, 2);
	assert_int_equal(do_due(&rig, S(2000), 10)->tasks_len, 0);
	rig_close(&rig);
	rig_fini(&rig);
}

/* A commit that folds keys into their table fails: they are still known. */
static void test_keys_outlive_a_failure(void **state)
{
	struct rig rig;

	(void)state;
	start(&rig);
	rig_open(&rig);
	for (int i = 0; i < 400; i++) {
		char key[16];
		struct rea_store_submit submit;

		snprintf(key, sizeof(key), "key-%d", i);
		submit = submission(key, "body");
		if (i % 64 == 63)
			shim_fail(1, SHIM_SYNCS, false);
		while (do_submit(&rig, &submit)->error == REA_ERR_IO)
			rig_wait_failing(&rig, false);
	}
	for (int i = 0; i < 400; i++) {
		char key[16];
		struct rea_store_submit other;

		snprintf(key, sizeof(key), "key-%d", i);
		other = submission(key, "another body");
		assert_int_equal(do_submit(&rig, &other)->error, REA_ERR_CONFLICT);
	}
	rig_close(&rig);
	rig_fini(&rig);
}

static void test_opening_fails(void **state)
{
	struct driver *driver = malloc(sizeof(*driver));
	struct rig rig;
	int refused = 0;

	(void)state;
	start(&rig);
	rig_open(&rig);
	driver_init(driver, 7);
	assert_true(driver_run(driver, &rig, STEPS, false));
	rig_close(&rig);
	for (uint64_t n = 1; n < 60; n++) {
		struct rea_error_info info = {0};
		int error;

		shim_fail(n, SHIM_CHANGES, n % 2);
		error = rig_try_open(&rig, &info);
		if (error == 0)
			rea_store_close(rig.store);
		else {
			assert_int_equal(error, REA_ERR_IO);
			assert_true(info.message[0] != '\0');
			refused++;
		}
		shim_heal();
	}
	assert_in_range(refused, 5, 58);
	check_file(&rig);
	rig_open(&rig);
	check(driver, &rig, LOSS_PROCESS, 0);
	rig_close(&rig);
	rig_fini(&rig);
	free(driver);
}

static void test_backup_fails(void **state)
{
	struct rig rig;
	char path[64];
	struct rea_store_status status;

	(void)state;
	start(&rig);
	rig_open(&rig);
	for (int i = 0; i < 100; i++)
		new_task(&rig, 0);
	rig_path(&rig, "copy.db", path, sizeof(path));
	for (uint64_t n = 1; n < 8; n++) {
		shim_fail(n, SHIM_CHANGES, false);
		assert_int_equal(do_backup(&rig, path)->error, REA_ERR_IO);
		assert_int_equal(access(path, F_OK), -1);
		shim_heal();
		rea_store_status(rig.store, &status);
		assert_false(status.failing); /* it is the copy's trouble alone */
	}
	assert_int_equal(do_backup(&rig, path)->error, 0);
	rig_close(&rig);
	rig_fini(&rig);
}

/* ---- full ---- */

/* Fill it, see that what was acknowledged is there, make room, go on. */
static void fill_and_go_on(struct rig *rig, void (*make_room)(struct rig *rig))
{
	char *payload = calloc(1, 20000);
	struct rea_store_submit submit = submission("", "");
	uint64_t ids[2000];
	struct outcome *outcome;
	size_t count = 0;

	submit.spec.payload = (struct rea_text){payload, 20000};
	while (count < 2000 && (outcome = do_submit(rig, &submit))->error == 0)
		ids[count++] = outcome->task.id;
	assert_in_range(count, 10, 1999);
	assert_int_equal(outcome->error, REA_ERR_IO);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(state_of(rig, ids[i]), REA_STORE_PENDING);
	make_room(rig);
	rig_wait_failing(rig, false);
	for (int i = 0; (outcome = do_submit(rig, &submit))->error != 0 && i < 200; i++)
		usleep(10000);
	assert_int_equal(outcome->error, 0);
	rig_wait_failing(rig, false);
	for (size_t i = 1; i < count; i++)
		assert_int_equal(state_of(rig, ids[i]), REA_STORE_PENDING);
	rig_close(rig);
	check_file(rig);
	rig_open(rig);
	for (size_t i = 1; i < count; i++)
		assert_int_equal(state_of(rig, ids[i]), REA_STORE_PENDING);
	free(payload);
}

/* What stops the store for want of room does not stop it from taking back what is no longer wanted. */
static void purge_first(struct rig *rig)
{
	struct outcome *outcome;

	do {
		rig_wait_failing(rig, false);
		outcome = do_cancel(rig, 1);
	} while (outcome->error == REA_ERR_IO);
	assert_true(outcome->error == 0 || outcome->error == REA_ERR_CONFLICT);
	rig->now_ns += S(1);
	do {
		rig_wait_failing(rig, false);
		outcome = do_maintain(rig, 0, 10);
	} while (outcome->error == REA_ERR_IO);
	assert_int_equal(outcome->purged, 1);
}

static void test_size_limit(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig, true);
	rig.options.size_max = 1 << 20;
	rig_open(&rig);
	fill_and_go_on(&rig, purge_first);
	rig_close(&rig);
	rig_fini(&rig);
}

static void remove_ballast(struct rig *rig)
{
	char path[64];

	rig_path(rig, "ballast", path, sizeof(path));
	assert_int_equal(unlink(path), 0);
}

/* A file system of 4 MiB, 2 of them taken by somebody else, who goes. */
static void test_full_disk(void **state)
{
	struct rig rig;
	char path[64];
	FILE *file;

	(void)state;
	rig_init(&rig, true);
	if (mount("tmpfs", rig.directory, "tmpfs", 0, "size=4m") != 0) {
		rig_fini(&rig);
		skip(); /* only root may */
	}
	rig_path(&rig, "ballast", path, sizeof(path));
	file = fopen(path, "w");
	for (int i = 0; i < 2 << 20; i++)
		putc('x', file);
	assert_int_equal(fclose(file), 0);
	rig_open(&rig);
	fill_and_go_on(&rig, remove_ballast);
	rig_close(&rig);
	assert_int_equal(umount(rig.directory), 0);
	rig_fini(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_nth_write_fails),
	    cmocka_unit_test(test_nth_sync_fails),
	    cmocka_unit_test(test_nth_read_fails),
	    cmocka_unit_test(test_all_fail_from_the_nth_on),
	    cmocka_unit_test(test_failed_sync_is_told),
	    cmocka_unit_test(test_horizon_outlives_a_failure),
	    cmocka_unit_test(test_keys_outlive_a_failure),
	    cmocka_unit_test(test_opening_fails),
	    cmocka_unit_test(test_backup_fails),
	    cmocka_unit_test(test_size_limit),
	    cmocka_unit_test(test_full_disk),
	};

	shim_install(false);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
