/*
 * The power goes, at a hundred moments: of what was not synced, some sectors are on the disk and some are not. Every task that was acknowledged is
 * there. The same without syncs has to be found out: else this test finds nothing.
 */
#include "driver.h"
#include "shim.h"

#include <stdlib.h>

#define TIMES 100
#define STEPS 700

static uint64_t operations; /* that so many steps need */

/* Open the files as the cut has left them. NULL, or what is wrong. */
static const char *check_after(struct driver *driver, struct rig *rig)
{
	struct rea_error_info info = {0};
	const char *wrong;

	rig->options.vfs = NULL;
	if (rig_try_open(rig, &info) != 0)
		return "it does not open";
	assert_int_equal(rea_store_reader_new(rig->store, &rig->reader), 0);
	wrong = driver_check(driver, rig, LOSS_POWER);
	rig_close(rig);
	if (wrong != NULL)
		return wrong;
	return rig_sql_number(rig, "SELECT integrity_check = 'ok' FROM pragma_integrity_check") == 1 ? NULL
												     : "a damaged file";
}

struct plan {
	uint64_t seed;
	bool sync_off;
	bool fail_first; /* a sync fails, and the store resumes, before the power goes */
};

static const char *play(struct driver *driver, const struct plan *plan)
{
	struct rea_random random;
	const char *wrong;
	struct rig rig;

	rea_random_init(&random, plan->seed);
	shim_reset();
	rig_init(&rig, true);
	rig.options.vfs = SHIM_NAME;
	rig.options.sync_off = plan->sync_off;
	rig_open(&rig);
	driver_init(driver, plan->seed);
	if (plan->fail_first) {
		shim_fail(1 + rea_random_below(&random, 30), SHIM_SYNCS, false);
		driver_run(driver, &rig, STEPS / 4, false);
		shim_heal();
		rig_wait_failing(&rig, false);
	}
	shim_cut(plan->sync_off ? operations : 1 + rea_random_below(&random, operations)); /* something has to be at stake */
	driver_run(driver, &rig, STEPS, true);
	if (!shim_failed())
		shim_cut(1);
	rig_close(&rig);
	shim_restore(plan->seed % 4); /* 0: nothing but what was synced */
	wrong = check_after(driver, &rig);
	rig_fini(&rig);
	return wrong;
}

static int count_operations(void **state)
{
	struct driver *driver = malloc(sizeof(*driver));
	struct rig rig;
	uint64_t before;

	(void)state;
	shim_reset();
	rig_init(&rig, true);
	rig.options.vfs = SHIM_NAME;
	rig_open(&rig);
	driver_init(driver, 0);
	before = shim_count(SHIM_CHANGES);
	assert_true(driver_run(driver, &rig, STEPS, false));
	operations = shim_count(SHIM_CHANGES) - before;
	rig_close(&rig);
	rig_fini(&rig);
	free(driver);
	return 0;
}

static void test_power_cuts(void **state)
{
	struct driver *driver = malloc(sizeof(*driver));

	(void)state;
	for (uint64_t seed = 1; seed <= TIMES; seed++) {
		const char *wrong = play(driver, &(struct plan){.seed = seed});

		if (wrong != NULL)
			fail_msg("power cut %llu: %s", (unsigned long long)seed, wrong);
	}
	free(driver);
}

/* What failed, and was told so, does not come back from the log. */
static void test_power_cuts_after_a_failed_sync(void **state)
{
	struct driver *driver = malloc(sizeof(*driver));

	(void)state;
	for (uint64_t seed = 1; seed <= TIMES; seed++) {
		const char *wrong = play(driver, &(struct plan){.seed = 1000 + seed, .fail_first = true});

		if (wrong != NULL)
			fail_msg("power cut %llu: %s", (unsigned long long)seed, wrong);
	}
	free(driver);
}

static void test_without_syncs_it_is_found(void **state)
{
	struct driver *driver = malloc(sizeof(*driver));
	int found = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= TIMES / 10; seed++)
		found += play(driver, &(struct plan){.seed = seed, .sync_off = true}) != NULL;
	assert_int_equal(found, TIMES / 10);
	free(driver);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_power_cuts),
	    cmocka_unit_test(test_power_cuts_after_a_failed_sync),
	    cmocka_unit_test(test_without_syncs_it_is_found),
	};

	shim_install(true);
	return cmocka_run_group_tests(tests, count_operations, NULL);
}
