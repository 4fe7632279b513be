/*
 * kill -9 at the n-th operation on the disk, for a hundred n: whatever was acknowledged before, also what may ride on a later sync, is there
 * when the next process opens the store.
 */
#include "driver.h"
#include "shim.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIMES 100
#define STEPS 700

static void run_and_be_killed(struct driver *driver, struct rig *rig, uint64_t n, bool while_opening)
{
	if (while_opening)
		shim_kill(n);
	rig_open(rig);
	if (!while_opening)
		shim_kill(n);
	driver_run(driver, rig, STEPS, true);
	raise(SIGKILL);
}

static void kill_at(struct driver *driver, struct rig *rig, uint64_t n, bool while_opening)
{
	int status = 0;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		run_and_be_killed(driver, rig, n, while_opening);
		_exit(1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void check_after(struct driver *driver, struct rig *rig, uint64_t n)
{
	const char *vfs = rig->options.vfs, *wrong;

	rig->options.vfs = NULL;
	rig_open(rig);
	wrong = driver_check(driver, rig, LOSS_PROCESS);
	rig_close(rig);
	rig->options.vfs = vfs;
	if (wrong != NULL)
		fail_msg("killed at %llu: %s", (unsigned long long)n, wrong);
	assert_int_equal(rig_sql_number(rig, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
}

/* What the child was told, the parent knows. */
static struct driver *shared_driver(void)
{
	struct driver *driver = mmap(NULL, sizeof(*driver), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(driver != MAP_FAILED);
	return driver;
}

/* How many operations the steps need. */
static uint64_t count_operations(struct driver *driver)
{
	struct rig rig;
	uint64_t before, count;

	rig_init(&rig, true);
	rig.options.vfs = SHIM_NAME;
	rig_open(&rig);
	driver_init(driver, 0);
	before = shim_count(SHIM_CHANGES);
	assert_true(driver_run(driver, &rig, STEPS, false));
	count = shim_count(SHIM_CHANGES) - before;
	rig_close(&rig);
	rig_fini(&rig);
	return count;
}

static void test_killed_at_work(void **state)
{
	struct driver *driver = shared_driver();
	uint64_t operations = count_operations(driver);

	(void)state;
	for (uint64_t i = 0; i < TIMES; i++) {
		uint64_t n = 1 + operations * i / TIMES;
		struct rig rig;

		rig_init(&rig, true);
		rig.options.vfs = SHIM_NAME;
		driver_init(driver, i);
		kill_at(driver, &rig, n, false);
		check_after(driver, &rig, n);
		rig_fini(&rig);
	}
	munmap(driver, sizeof(*driver));
}

/* A new file, and one that a killed process has left: opening is done or it is not. */
static void test_killed_while_opening(void **state)
{
	struct driver *driver = shared_driver();

	(void)state;
	for (uint64_t n = 1; n < 40; n++) {
		struct rig rig;

		rig_init(&rig, true);
		rig.options.vfs = SHIM_NAME;
		driver_init(driver, n);
		kill_at(driver, &rig, n, true);
		driver_init(driver, n);
		kill_at(driver, &rig, 200 + n, false);
		rig_fini(&rig);
	}
	munmap(driver, sizeof(*driver));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_killed_at_work),
	    cmocka_unit_test(test_killed_while_opening),
	};

	shim_install(false);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
