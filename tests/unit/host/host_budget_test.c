/* One budget, many processes: never more retries than it allows, whoever dies; and files that are not ours are left alone. */
#include <rea/host_budget.h>

#include "../fail_alloc.h"
#include "host/shared_evidence.h"

#include <rea/random.h>
#include <rea/time.h>

#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PROCESSES 10
#define FIRSTS 50
/* Virtual: all within one slot of time. */
#define NOW_NS (1000 * REA_NS_PER_S)
#define BYTES (64 + 16 + 2 * 8 * 640)

static char directory[] = "/tmp/rea-host-test-XXXXXX";
static const struct rea_budget_policy policy = {
    .rule = REA_BUDGET_RATIO, .ratio_permille = 200, .reserve_per_s = 2, .window_ms = 10000};
static struct rea_error_info info;

static int fresh(void **state)
{
	(void)state;
	unsetenv("XDG_RUNTIME_DIR");
	unlink("budget");
	return 0;
}

static struct rea_budget *open_budget(const struct rea_budget_policy *numbers)
{
	struct rea_budget *budget = NULL;

	assert_int_equal(rea_host_budget_open("./budget", numbers, NULL, &budget, &info), 0);
	return budget;
}

static bool take(struct rea_budget *budget)
{
	struct rea_budget_lease lease;

	return rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, NOW_NS, &lease);
}

static void two_openers_spend_one_budget(void **state)
{
	struct rea_budget *one = open_budget(&policy), *two = open_budget(&policy), *three;
	struct rea_budget_lease lease;
	struct stat file;

	(void)state;
	assert_int_equal(rea_budget_available(one, NOW_NS), 20);
	for (uint32_t i = 0; i < 10; i++)
		rea_budget_deposit(i % 2 ? one : two, i, NOW_NS); /* any shard */
	assert_int_equal(rea_budget_available(one, NOW_NS), 22);
	for (int i = 0; i < 21; i++)
		assert_true(take(i % 2 ? one : two));
	assert_true(rea_budget_withdraw(two, REA_BUDGET_TIMEOUT, NOW_NS, &lease));
	assert_false(take(one));
	assert_false(rea_budget_permits(two, REA_BUDGET_TRANSIENT, NOW_NS));
	rea_budget_refund(two, &lease, NOW_NS);
	rea_budget_refund(two, &lease, NOW_NS);
	rea_budget_free(one);
	rea_budget_free(two);
	three = open_budget(&policy); /* what was spent stays spent */
	assert_int_equal(rea_budget_available(three, NOW_NS), 1);
	assert_int_equal(rea_budget_available(three, NOW_NS + 11 * REA_NS_PER_S), 20);
	rea_budget_free(three);
	assert_int_equal(stat("budget", &file), 0);
	assert_int_equal(file.st_size, BYTES);
	assert_int_equal(file.st_mode & 0777, 0600);
}

/* A policy of one's own over the counts of all. */
static void numbers_are_each_processs_own(void **state)
{
	struct rea_budget_policy wide = {
	    .rule = REA_BUDGET_RATIO, .ratio_permille = 1000, .reserve_per_s = 1, .window_ms = 60000};
	struct rea_budget *one = open_budget(&policy), *two = open_budget(&wide);

	(void)state;
	for (int i = 0; i < 20; i++)
		assert_true(take(one));
	assert_false(take(one));
	assert_int_equal(rea_budget_available(two, NOW_NS), 40);
	assert_int_equal(rea_budget_available(one, NOW_NS + 11 * REA_NS_PER_S), 20);
	assert_int_equal(rea_budget_available(two, NOW_NS + 11 * REA_NS_PER_S), 40);
	rea_budget_free(one);
	rea_budget_free(two);
}

static void tokens_are_shared_too(void **state)
{
	struct rea_budget_policy tokens = {
	    .rule = REA_BUDGET_AWS, .capacity = 20, .cost_transient = 2, .cost_timeout = 2, .cost_throttling = 2};
	struct rea_budget *one = open_budget(&tokens), *two;

	(void)state;
	for (int i = 0; i < 5; i++)
		assert_true(take(one));
	two = open_budget(&tokens); /* does not fill it again */
	assert_int_equal(rea_budget_available(two, NOW_NS), 5);
	rea_budget_report(two, 3, REA_BUDGET_SUCCESS, NULL, NOW_NS);
	rea_budget_report(two, 3, REA_BUDGET_SUCCESS, NULL, NOW_NS);
	assert_int_equal(rea_budget_available(one, NOW_NS), 6);
	rea_budget_free(two);
	tokens.capacity = 40;
	two = open_budget(&tokens);
	assert_int_equal(rea_budget_available(one, NOW_NS), 12); /* in proportion */
	rea_budget_free(one);
	rea_budget_free(two);
}

/* ---- processes ---- */

static int child_takes(int start)
{
	struct rea_budget *budget = NULL;
	int taken = 0;
	char byte;

	if (rea_host_budget_open("./budget", &policy, NULL, &budget, NULL) != 0)
		return 255;
	if (read(start, &byte, 1) != 0) /* all at once: when the parent closes its end */
		return 255;
	for (int i = 0; i < FIRSTS; i++)
		rea_budget_deposit(budget, 0, NOW_NS);
	for (int i = 0; i < 100000; i++)
		taken += take(budget);
	return taken;
}

static void ten_processes_retry_no_more_than_one_budget_allows(void **state)
{
	int start[2], taken = 0;

	(void)state;
	assert_int_equal(pipe(start), 0);
	for (int i = 0; i < PROCESSES; i++) {
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (pid == 0) {
			close(start[1]);
			_exit(child_takes(start[0]));
		}
	}
	close(start[0]);
	close(start[1]);
	for (int i = 0; i < PROCESSES; i++) {
		int status;

		assert_true(wait(&status) > 0);
		assert_true(WIFEXITED(status));
		assert_in_range(WEXITSTATUS(status), 0, 250);
		taken += WEXITSTATUS(status);
	}
	/* 500 first attempts, of which a fifth, and 2 a second over 10 s: no more, and in the end no less. */
	assert_int_equal(taken, PROCESSES * FIRSTS / 5 + 20);
}

/* ---- the last retry ---- */

#define ROUNDS 20000

/* Where two processes meet: each counts itself in, and waits for the other. */
struct meeting {
	uint64_t arrived;
	uint64_t taken;
};

static void meet(struct meeting *meeting, uint64_t round)
{
	__atomic_add_fetch(&meeting->arrived, 1, __ATOMIC_SEQ_CST);
	for (int turns = 0; __atomic_load_n(&meeting->arrived, __ATOMIC_SEQ_CST) < 2 * round; turns++)
		if (turns > 10000)
			sched_yield();
}

static void race(struct meeting *meeting, struct rea_budget *budget)
{
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		struct rea_budget_lease lease;

		meet(meeting, round);
		if (rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, round * 10 * REA_NS_PER_S, &lease))
			__atomic_add_fetch(&meeting->taken, 1, __ATOMIC_SEQ_CST);
	}
}

/* One retry a round, and two who want it at the same moment: never both. */
static void the_last_retry_goes_to_one(void **state)
{
	const struct rea_budget_policy one = {.rule = REA_BUDGET_RATIO, .reserve_per_s = 1, .window_ms = 1000};
	struct rea_budget *budget = open_budget(&one);
	struct meeting *meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid;

	(void)state;
	assert_true(meeting != MAP_FAILED);
	pid = fork();
	assert_true(pid >= 0);
	race(meeting, budget);
	if (pid == 0)
		_exit(0);
	assert_true(waitpid(pid, NULL, 0) == pid);
	assert_in_range(meeting->taken, ROUNDS / 100, ROUNDS); /* neither, when both see the other's before it is taken back */
	munmap(meeting, sizeof(*meeting));
	rea_budget_free(budget);
}

/* Many are killed while they take and give back: nobody waits, and each has spent one retry at most. */
static void who_is_killed_blocks_nobody(void **state)
{
	struct rea_budget *budget = open_budget(&policy);
	struct rea_random random;
	uint64_t left;

	(void)state;
	rea_random_init(&random, 1);
	for (int i = 0; i < PROCESSES; i++) {
		pid_t pid = fork();
		struct rea_budget_lease lease;

		assert_true(pid >= 0);
		while (pid == 0)
			if (rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, NOW_NS, &lease))
				rea_budget_refund(budget, &lease, NOW_NS);
		for (uint64_t turn = 50 + rea_random_below(&random, 200); turn > 0; turn--)
			if (rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, NOW_NS, &lease))
				rea_budget_refund(budget, &lease, NOW_NS);
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_true(waitpid(pid, NULL, 0) == pid);
	}
	left = rea_budget_available(budget, NOW_NS);
	assert_in_range(left, 20 - PROCESSES, 20);
	for (uint64_t i = 0; i < left; i++)
		assert_true(take(budget));
	assert_false(take(budget));
	rea_budget_free(budget);
}

/* ---- evidence ---- */

static const struct rea_budget_policy evidence = {.rule = REA_BUDGET_EVIDENCE};

static void end(struct rea_budget *budget, enum rea_budget_result result, int times, uint64_t now_ns)
{
	for (int i = 0; i < times; i++)
		rea_budget_report(budget, 0, result, NULL, now_ns);
}

static struct rea_budget_view look(const struct rea_budget *budget, uint64_t now_ns)
{
	struct rea_budget_view view;

	rea_budget_look(budget, now_ns, &view);
	return view;
}

/* What one has seen, the other knows: that nothing succeeds, that it does again, that it is congested and why. */
static void two_see_the_same(void **state)
{
	struct rea_budget *one = open_budget(&evidence), *two = open_budget(&evidence);
	uint64_t now_ns = NOW_NS;

	(void)state;
	assert_true(look(two, now_ns).success == 1);
	assert_true(look(two, now_ns).tokens == 2);
	assert_int_equal(rea_budget_available(two, now_ns), 2 + 4);
	end(one, REA_BUDGET_TRANSIENT, 12, now_ns);
	assert_in_range(1000 * look(two, now_ns).success, 142, 143);
	assert_int_equal(rea_budget_available(two, now_ns), 2);
	assert_true(take(one));
	assert_true(take(two));
	assert_false(take(one));
	assert_false(take(two));
	/* Ten first attempts, by whomever, earn one more. */
	for (int i = 0; i < 10; i++)
		rea_budget_deposit(i % 2 ? one : two, 0, now_ns);
	assert_int_equal(look(one, now_ns).first_attempts, 10);
	assert_true(take(two));
	assert_false(take(one));
	now_ns += REA_NS_PER_S;
	end(two, REA_BUDGET_SUCCESS, 20, now_ns);
	assert_true(look(one, now_ns).since_success_ns == 0);
	assert_in_range(1000 * look(one, now_ns).success, 960, 970);
	assert_int_equal(look(one, now_ns).retries, 3);
	assert_int_equal(rea_budget_available(one, now_ns), 2 * (10 + 2) - 3);
	end(one, REA_BUDGET_THROTTLING, 3, now_ns);
	assert_true(look(two, now_ns).congested_ns >= 300 * REA_NS_PER_MS);
	assert_int_equal(look(two, now_ns).heat.kind, REA_EVIDENCE_PUSHBACK);
	assert_in_range(1000 * look(two, now_ns).heat.value, 100, 300);
	assert_int_equal(rea_budget_available(two, now_ns), 0);
	rea_budget_free(one);
	rea_budget_free(two);
}

static void a_lease_goes_back_to_all(void **state)
{
	struct rea_budget *one = open_budget(&evidence), *two = open_budget(&evidence);
	struct rea_budget_lease token, free_one;

	(void)state;
	assert_true(rea_budget_withdraw(one, REA_BUDGET_TRANSIENT, NOW_NS, &free_one));
	end(one, REA_BUDGET_TRANSIENT, 12, NOW_NS);
	assert_true(rea_budget_withdraw(one, REA_BUDGET_TRANSIENT, NOW_NS, &token));
	assert_int_equal(look(two, NOW_NS).retries, 2);
	assert_true(look(two, NOW_NS).tokens == 1);
	rea_budget_refund(one, &free_one, NOW_NS);
	assert_int_equal(look(two, NOW_NS).retries, 1);
	assert_true(look(two, NOW_NS).tokens == 1);
	rea_budget_refund(one, &token, NOW_NS);
	assert_int_equal(look(two, NOW_NS).retries, 0);
	assert_true(look(two, NOW_NS).tokens == 2);
	rea_budget_free(one);
	rea_budget_free(two);
}

/* Each process takes what it gets; how much all of them got. */
static uint64_t ten_take(bool fail)
{
	uint64_t *taken = mmap(NULL, sizeof(*taken), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), sum;
	int start[2];

	assert_true(taken != MAP_FAILED && pipe(start) == 0);
	for (int i = 0; i < PROCESSES; i++) {
		pid_t pid = fork();
		struct rea_budget *budget;
		char byte;

		assert_true(pid >= 0);
		if (pid != 0)
			continue;
		close(start[1]);
		budget = open_budget(&evidence);
		if (read(start[0], &byte, 1) != 0)
			_exit(1);
		for (int k = 0; k < FIRSTS; k++)
			rea_budget_deposit(budget, 0, NOW_NS);
		for (int k = 0; k < 20000; k++) {
			if (fail)
				rea_budget_report(budget, 0, REA_BUDGET_TRANSIENT, NULL, NOW_NS);
			if (take(budget))
				__atomic_add_fetch(taken, 1, __ATOMIC_SEQ_CST);
		}
		_exit(0);
	}
	close(start[0]);
	close(start[1]);
	for (int i = 0; i < PROCESSES; i++) {
		int status;

		assert_true(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	sum = *taken;
	munmap(taken, sizeof(*taken));
	return sum;
}

static void ten_processes_have_the_evidence_of_one(void **state)
{
	(void)state;
	/* Two for each of 500 first attempts and 4, and the two tokens: no more, and in the end no less. */
	assert_int_equal(ten_take(false), 2 * (PROCESSES * FIRSTS + 2) + 2);
	/* Where everything fails, the tokens: 2, one for ten first attempts, and what was granted before twelve failures were seen. */
	assert_int_equal(fresh(state), 0);
	assert_in_range(ten_take(true), 2, 2 + PROCESSES * FIRSTS / 10 + 12);
}

/* Who has seen a token that another one takes before him gets none, and leaves no trace. */
static void the_last_token_goes_to_one(void **state)
{
	static struct rea__common_budget common;
	struct rea__shared_evidence shared = {0};

	(void)state;
	assert_true(rea__shared_evidence_take(&shared, &common, 7, true, NOW_NS));
	assert_true(rea__shared_evidence_take(&shared, &common, 7, true, NOW_NS));
	assert_false(rea__shared_evidence_take(&shared, &common, 7, true, NOW_NS));
	assert_int_equal(rea__common_window_sum(&common.retries, 7, 2000, NOW_NS / REA_NS_PER_MS), 2);
	assert_true(rea__shared_evidence_take(&shared, &common, 7, false, NOW_NS));
	assert_true(rea__shared_evidence_take(&shared, &common, 7, false, NOW_NS));
	assert_false(rea__shared_evidence_take(&shared, &common, 7, false, NOW_NS));
	/* After the next boot nothing of it is there. */
	assert_true(rea__shared_evidence_take(&shared, &common, 8, true, NOW_NS));
}

static void killed_with_evidence(void **state)
{
	struct rea_budget *budget = open_budget(&evidence);

	(void)state;
	end(budget, REA_BUDGET_TRANSIENT, 12, NOW_NS);
	for (int i = 0; i < PROCESSES; i++) {
		pid_t pid = fork();
		struct rea_budget_lease lease;

		assert_true(pid >= 0);
		while (pid == 0) {
			end(budget, REA_BUDGET_TRANSIENT, 1, NOW_NS);
			if (rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, NOW_NS, &lease))
				rea_budget_refund(budget, &lease, NOW_NS);
		}
		for (int turn = 0; turn < 100 * (i + 1); turn++)
			end(budget, REA_BUDGET_TRANSIENT, 1, NOW_NS);
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_true(waitpid(pid, NULL, 0) == pid);
	}
	/* Nobody waits, and what the dead have taken comes back with the first attempts of the living. */
	for (int i = 0; i < 20; i++)
		rea_budget_deposit(budget, 0, NOW_NS);
	assert_true(look(budget, NOW_NS).tokens == 2);
	assert_true(take(budget) && take(budget));
	assert_false(take(budget));
	rea_budget_free(budget);
}

/* Times of a boot that could not be told from this one: the file lives longer than the clock. */
static void times_of_another_boot_are_none(void **state)
{
	const uint64_t then_ns = NOW_NS + 3600 * REA_NS_PER_S;
	struct rea_budget *one = open_budget(&evidence), *two;

	(void)state;
	end(one, REA_BUDGET_SUCCESS, 1, then_ns);
	end(one, REA_BUDGET_THROTTLING, 3, then_ns);
	assert_true(look(one, then_ns).congested_ns >= 300 * REA_NS_PER_MS);
	rea_budget_free(one);
	one = open_budget(&evidence);
	two = open_budget(&evidence);
	assert_int_equal(look(one, NOW_NS).congested_ns, 0);
	assert_int_equal(look(two, NOW_NS).congested_ns, 0);
	/* What is seen now is told again, and ends when it ends. */
	end(one, REA_BUDGET_THROTTLING, 3, NOW_NS + REA_NS_PER_S);
	assert_true(look(two, NOW_NS + REA_NS_PER_S).congested_ns >= 300 * REA_NS_PER_MS);
	assert_int_equal(look(two, NOW_NS + 2 * REA_NS_PER_S).congested_ns, 0);
	/* So is a success, and it grows old. */
	end(one, REA_BUDGET_SUCCESS, 1, NOW_NS + 3 * REA_NS_PER_S);
	assert_int_equal(look(two, NOW_NS + 5 * REA_NS_PER_S).since_success_ns, 2 * REA_NS_PER_S);
	rea_budget_free(one);
	rea_budget_free(two);
}

/* A process that was stopped for a minute still has the time of before in its hands. */
static void who_was_stopped_sets_nothing_back(void **state)
{
	const uint64_t then_ns = NOW_NS + 60 * REA_NS_PER_S;
	struct rea_budget *stopped = open_budget(&evidence), *other = open_budget(&evidence), *third;

	(void)state;
	assert_int_equal(look(stopped, NOW_NS).congested_ns, 0);
	end(other, REA_BUDGET_SUCCESS, 1, then_ns);
	end(other, REA_BUDGET_THROTTLING, 3, then_ns);
	end(stopped, REA_BUDGET_SUCCESS, 1, NOW_NS);
	end(stopped, REA_BUDGET_THROTTLING, 3, NOW_NS);
	third = open_budget(&evidence);
	assert_true(look(third, then_ns).congested_ns >= 300 * REA_NS_PER_MS);
	assert_int_equal(look(third, then_ns).since_success_ns, 0);
	/* A clock that was read half a second later is no boot. */
	end(other, REA_BUDGET_THROTTLING, 1, then_ns + 1500 * REA_NS_PER_MS);
	assert_int_equal(look(third, then_ns + 1000 * REA_NS_PER_MS).congested_ns, 300 * REA_NS_PER_MS);
	rea_budget_free(stopped);
	rea_budget_free(other);
	rea_budget_free(third);
}

/* Words that nobody of us has written: they count as little as they can. */
static void damaged_words_do_no_harm(void **state)
{
	struct rea_budget *budget = open_budget(&evidence);
	int fd = open("budget", O_RDWR);
	uint64_t words[6];

	(void)state;
	end(budget, REA_BUDGET_THROTTLING, 3, NOW_NS);
	assert_true(pread(fd, words, sizeof(words), 8) == sizeof(words));
	for (size_t i = 0; i < 6; i++)
		words[i] |= (UINT64_C(1) << 52) - 1;
	assert_true(pwrite(fd, words, sizeof(words), 8) == sizeof(words));
	close(fd);
	assert_true(look(budget, NOW_NS).tokens == 2);
	assert_true(look(budget, NOW_NS).success == 1);
	assert_true(look(budget, NOW_NS).congested_ns <= 301 * REA_NS_PER_MS);
	assert_int_equal(look(budget, NOW_NS).since_success_ns, 0);
	end(budget, REA_BUDGET_SUCCESS, 1, NOW_NS);
	rea_budget_deposit(budget, 0, NOW_NS);
	assert_true(take(budget));
	rea_budget_free(budget);
}

/* ---- files that are not ours ---- */

static int try_open(const char *name)
{
	struct rea_budget *budget = NULL;
	int error;

	memset(&info, 0xff, sizeof(info));
	error = rea_host_budget_open(name, &policy, NULL, &budget, &info);
	assert_true(error != 0 ? budget == NULL && strlen(info.message) > 10 : budget != NULL);
	rea_budget_free(budget);
	return error;
}

static void write_file(const char *name, const char *bytes, size_t length)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_true(write(fd, bytes, length) == (ssize_t)length);
	close(fd);
}

static void what_is_no_budget_is_left_alone(void **state)
{
	static char other[BYTES];
	static char found[BYTES];
	int fd;

	(void)state;
	write_file("budget", "x", 1);
	assert_int_equal(try_open("./budget"), REA_ERR_CORRUPT);
	assert_string_equal(info.file, "./budget");
	assert_string_equal(info.message, "it has 1 bytes where a budget has 10320: cut short, or not a budget");
	rea_budget_free((unlink("budget"), open_budget(&policy)));
	assert_int_equal(truncate("budget", BYTES - 1), 0);
	assert_int_equal(try_open("./budget"), REA_ERR_CORRUPT);
	assert_int_equal(truncate("budget", BYTES + 1), 0);
	assert_int_equal(try_open("./budget"), REA_ERR_CORRUPT);
	memset(other, 'a', sizeof(other));
	write_file("budget", other, BYTES);
	assert_int_equal(try_open("./budget"), REA_ERR_CORRUPT);
	fd = open("budget", O_RDONLY);
	assert_true(read(fd, found, BYTES) == BYTES && memcmp(found, other, BYTES) == 0);
	close(fd);
	/* The same mark with another version. */
	rea_budget_free((unlink("budget"), open_budget(&policy)));
	fd = open("budget", O_RDWR);
	assert_true(pread(fd, found, 1, 0) == 1 && found[0] == 1);
	found[0] = 2;
	assert_true(pwrite(fd, found, 1, 0) == 1);
	close(fd);
	assert_int_equal(try_open("./budget"), REA_ERR_CORRUPT);
}

static void what_others_can_write_is_refused(void **state)
{
	(void)state;
	rea_budget_free(open_budget(&policy));
	assert_int_equal(chmod("budget", 0620), 0);
	assert_int_equal(try_open("./budget"), REA_ERR_CONFLICT);
	assert_string_equal(info.message, "others may write it: its mode should be 0600");
	assert_int_equal(chmod("budget", 0600), 0);
	assert_int_equal(try_open("./budget"), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown("budget", 65534, 65534), 0);
		assert_int_equal(try_open("./budget"), REA_ERR_CONFLICT);
		assert_string_equal(info.message, "it belongs to another user (65534)");
	}
	unlink("budget");
	assert_int_equal(symlink("elsewhere", "budget"), 0);
	assert_int_equal(try_open("./budget"), REA_ERR_CONFLICT);
	assert_int_not_equal(access("elsewhere", F_OK), 0);
	unlink("budget");
	assert_int_equal(mkfifo("budget", 0600), 0);
	assert_int_equal(try_open("./budget"), REA_ERR_CONFLICT);
	unlink("budget");
	assert_int_equal(try_open("./"), REA_ERR_IO);
	assert_int_equal(try_open("./missing/budget"), REA_ERR_IO);
}

static void set_runtime(const char *below)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", directory, below);
	assert_int_equal(setenv("XDG_RUNTIME_DIR", path, 1), 0);
}

static void names_live_in_a_directory_of_our_own(void **state)
{
	struct stat file;

	(void)state;
	assert_int_equal(mkdir("run", 0700), 0);
	set_runtime("run");
	assert_int_equal(try_open("payments-1.x_y"), 0);
	assert_int_equal(stat("run/rea/payments-1.x_y.budget", &file), 0);
	assert_int_equal(stat("run/rea", &file), 0);
	assert_int_equal(file.st_mode & 0777, 0700);
	assert_int_equal(try_open(""), REA_ERR_INVALID);
	assert_int_equal(try_open(".hidden"), REA_ERR_INVALID);
	assert_int_equal(try_open("a b"), REA_ERR_INVALID);
	assert_int_equal(try_open("0123456789012345678901234567890123456789012345678901234567890123"), 0);
	assert_int_equal(try_open("01234567890123456789012345678901234567890123456789012345678901234"), REA_ERR_INVALID);
}

/* A runtime directory that is not ours alone is passed over, and a temporary one is refused. */
static void a_directory_of_others_is_not_used(void **state)
{
	char path[256];

	(void)state;
	if (geteuid() == 0)
		skip(); /* root has /run/rea */
	snprintf(path, sizeof(path), "%s/rea-%u", directory, (unsigned)geteuid());
	assert_int_equal(setenv("TMPDIR", directory, 1), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chmod(path, 0777), 0);
	assert_int_equal(try_open("payments"), REA_ERR_CONFLICT);
	assert_string_equal(info.message, "others may write in this directory: its mode should be 0700");
	assert_int_equal(chmod(path, 0700), 0);
	assert_int_equal(try_open("payments"), 0);
	unsetenv("TMPDIR");
}

static void wrong_numbers_and_no_memory(void **state)
{
	struct rea_budget_policy wrong = policy;
	struct rea_budget *budget = NULL;
	struct fail_alloc failing;

	(void)state;
	fail_alloc_init(&failing, 0, true);
	wrong.ratio_permille = 1001;
	assert_int_equal(rea_host_budget_open("./budget", &wrong, NULL, &budget, &info), REA_ERR_INVALID);
	assert_string_equal(info.key, "budget");
	assert_int_equal(rea_host_budget_open("./budget", &policy, &failing.alloc, &budget, &info), REA_ERR_NOMEM);
	assert_string_equal(info.message, "out of memory");
	assert_null(budget);
}

static int enter(void **state)
{
	(void)state;
	return mkdtemp(directory) == NULL || chdir(directory) != 0;
}

static int leave(void **state)
{
	char command[256];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", directory);
	return chdir("/") != 0 || system(command) != 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(two_openers_spend_one_budget, fresh),
	    cmocka_unit_test_setup(numbers_are_each_processs_own, fresh),
	    cmocka_unit_test_setup(tokens_are_shared_too, fresh),
	    cmocka_unit_test_setup(ten_processes_retry_no_more_than_one_budget_allows, fresh),
	    cmocka_unit_test_setup(the_last_retry_goes_to_one, fresh),
	    cmocka_unit_test_setup(who_is_killed_blocks_nobody, fresh),
	    cmocka_unit_test_setup(two_see_the_same, fresh),
	    cmocka_unit_test_setup(a_lease_goes_back_to_all, fresh),
	    cmocka_unit_test_setup(ten_processes_have_the_evidence_of_one, fresh),
	    cmocka_unit_test(the_last_token_goes_to_one),
	    cmocka_unit_test_setup(killed_with_evidence, fresh),
	    cmocka_unit_test_setup(times_of_another_boot_are_none, fresh),
	    cmocka_unit_test_setup(who_was_stopped_sets_nothing_back, fresh),
	    cmocka_unit_test_setup(damaged_words_do_no_harm, fresh),
	    cmocka_unit_test_setup(what_is_no_budget_is_left_alone, fresh),
	    cmocka_unit_test_setup(what_others_can_write_is_refused, fresh),
	    cmocka_unit_test_setup(names_live_in_a_directory_of_our_own, fresh),
	    cmocka_unit_test_setup(a_directory_of_others_is_not_used, fresh),
	    cmocka_unit_test_setup(wrong_numbers_and_no_memory, fresh),
	};

	return cmocka_run_group_tests(tests, enter, leave);
}
