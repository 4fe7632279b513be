/*
 * One thread works, two read, the writer of SQLite is a fourth: for the thread sanitizer, and for what readers may see: whole tasks, of which
 * some came later than others but none goes back.
 */
#include "driver.h"

#include <stdatomic.h>
#include <stdlib.h>

struct watcher {
	struct rig *rig;
	struct rea_store_reader *reader;
	pthread_barrier_t *start;
	atomic_bool *stop;
	const char *wrong;
};

static const char *watch_task(struct rea_store_reader *reader, uint64_t id, struct rea_store_task *seen /* as it was before */)
{
	const struct rea_store_attempt *attempts;
	struct rea_store_task task;
	size_t count;
	int error = rea_store_get(reader, id, &task);

	if (error == REA_ERR_NOT_FOUND)
		return seen->id == 0 ? NULL : "a task is gone";
	if (error != 0)
		return "a task cannot be read";
	if (task.generation < seen->generation || task.attempt < seen->attempt)
		return "a task went back";
	if (task.payload.length < 100 || task.key.length < 6)
		return "a task is not whole";
	*seen = task;
	if (rea_store_attempts(reader, id, 0, 100, &attempts, &count) != 0)
		return "its attempts cannot be read";
	return NULL;
}

static void *watch(void *arg)
{
	struct watcher *watcher = arg;
	struct rea_store_task seen[LANES + 1] = {{0}};

	pthread_barrier_wait(watcher->start);
	do {
		struct rea_store_status status;
		struct rea_store_page page;

		for (uint64_t id = 1; id <= LANES && watcher->wrong == NULL; id++)
			watcher->wrong = watch_task(watcher->reader, id, &seen[id]);
		if (rea_store_list(
			watcher->reader, &(struct rea_store_filter){.max = 5, .biz_id = text("order-7")}, &page) != 0)
			watcher->wrong = "they cannot be listed";
		rea_store_status(watcher->rig->store, &status);
		if (status.failing)
			watcher->wrong = status.message;
	} while (!atomic_load(watcher->stop) && watcher->wrong == NULL);
	return NULL;
}

static void work_and_watch(bool sqlite)
{
	struct driver *driver = malloc(sizeof(*driver));
	struct watcher watchers[2];
	pthread_t threads[2];
	pthread_barrier_t start;
	atomic_bool stop = false;
	struct rig rig;
	char path[64];

	rig_init(&rig, sqlite);
	rig_open(&rig);
	driver_init(driver, 11);
	pthread_barrier_init(&start, NULL, 3);
	for (int i = 0; i < 2; i++) {
		watchers[i] = (struct watcher){.rig = &rig, .start = &start, .stop = &stop};
		assert_int_equal(rea_store_reader_new(rig.store, &watchers[i].reader), 0);
		assert_int_equal(pthread_create(&threads[i], NULL, watch, &watchers[i]), 0);
	}
	pthread_barrier_wait(&start);
	assert_true(driver_run(driver, &rig, 400, false));
	rig_path(&rig, "copy.db", path, sizeof(path));
	if (sqlite)
		assert_int_equal(do_backup(&rig, path)->error, 0);
	assert_true(driver_run(driver, &rig, 400, false));
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
		if (watchers[i].wrong != NULL)
			fail_msg("%s", watchers[i].wrong);
		rea_store_reader_free(watchers[i].reader);
	}
	pthread_barrier_destroy(&start);
	assert_null(driver_check(driver, &rig, LOSS_NONE));
	rig_close(&rig);
	rig_fini(&rig);
	free(driver);
}

static void test_memory(void **state)
{
	(void)state;
	work_and_watch(false);
}

static void test_sqlite(void **state)
{
	(void)state;
	work_and_watch(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_memory),
	    cmocka_unit_test(test_sqlite),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
