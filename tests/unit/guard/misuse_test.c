/* Using a guard out of its order dies on an assertion, and the sentence says what was wrong. Each misuse has a process of its own. */
#include "rig.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs misuse in a child; its standard error must hold the sentence, and an abort must have ended it. */
static void assert_dies(void (*misuse)(struct rig *rig), const char *sentence)
{
	char text[4096];
	size_t length = 0;
	ssize_t got;
	int fds[2], status;
	pid_t child;

	assert_int_equal(pipe(fds), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct rlimit none = {0, 0};
		struct rig rig;

		setrlimit(RLIMIT_CORE, &none);
		signal(SIGABRT, SIG_DFL);
		dup2(fds[1], STDERR_FILENO);
		rig_init(&rig);
		rig_start(&rig);
		misuse(&rig);
		_exit(0);
	}
	close(fds[1]);
	while (length < sizeof(text) - 1 && (got = read(fds[0], text + length, sizeof(text) - 1 - length)) > 0)
		length += (size_t)got;
	text[length] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	if (strstr(text, sentence) == NULL)
		fail_msg("\"%s\" is not in: %s", sentence, text);
}

static void report_without_begin(struct rig *rig)
{
	struct rea_guard_call call = {0};

	rig_end(rig, &call, REA_OUTCOME_OK, 0);
}

static void report_without_attempt(struct rig *rig)
{
	struct rea_guard_call call;

	rig_begin(rig, &call, 0);
	rig_end(rig, &call, REA_OUTCOME_OK, 0);
}

static void report_twice(struct rig *rig)
{
	struct rea_guard_call call;

	rig_fly(rig, &call, 0);
	rig_end(rig, &call, REA_OUTCOME_OK, 0);
	rig_end(rig, &call, REA_OUTCOME_OK, 0);
}

static void report_nonsense(struct rig *rig)
{
	struct rea_guard_call call;

	rig_fly(rig, &call, 0);
	rig_end(rig, &call, (enum rea_outcome)99, 0);
}

static void next_without_begin(struct rig *rig)
{
	struct rea_guard_call call = {0};

	rig_next(rig, &call, 0);
}

static void next_in_flight(struct rig *rig)
{
	struct rea_guard_call call;

	rig_fly(rig, &call, 0);
	rig_next(rig, &call, 0);
}

static void next_after_the_end(struct rig *rig)
{
	struct rea_guard_call call;

	rig_fly(rig, &call, 0);
	rig_end(rig, &call, REA_OUTCOME_OK, 0);
	rig_next(rig, &call, 0);
}

static void cancel_without_begin(struct rig *rig)
{
	struct rea_guard_call call = {0};

	rig_cancel(rig, &call, 0);
}

static void free_with_a_call_open(struct rig *rig)
{
	struct rea_guard_call call;

	rig_fly(rig, &call, 0);
	rea_guard_leave(&rig->thread);
	rea_guard_free(rig->guard);
}

static void free_with_a_thread(struct rig *rig)
{
	rea_guard_free(rig->guard);
}

static void leave_twice(struct rig *rig)
{
	rea_guard_leave(&rig->thread);
	rea_guard_leave(&rig->thread);
}

/* Whoever calls has joined, and a guard is freed when all have left: so this is how a guard is used that is gone. */
static void begin_after_free(struct rig *rig)
{
	struct rea_guard_call call;

	rea_guard_leave(&rig->thread);
	rea_guard_free(rig->guard);
	rig_begin(rig, &call, 0);
}

static void run_after_free(struct rig *rig)
{
	rea_guard_leave(&rig->thread);
	rea_guard_free(rig->guard);
	rea_guard_run(&rig->thread, NULL, NULL, NULL, NULL);
}

static void thread_of_another_guard(struct rig *rig)
{
	struct rea_guard_call call;
	struct rig other;

	rig_init(&other);
	rig_start(&other);
	rig_begin(rig, &call, 0);
	rig_next(&other, &call, 0);
}

static void list_after_the_first_attempt(struct rig *rig)
{
	struct rea_instance item = {.weight = 1};
	struct rea_guard_call call;

	rig_fly(rig, &call, 0);
	rig_end(rig, &call, REA_OUTCOME_UNAVAILABLE, 0);
	rig->list = (struct rea_instances){.items = &item, .count = 1};
	rig_next(rig, &call, 100);
}

static void options_of_no_version(struct rig *rig)
{
	rig->call_options = (struct rea_guard_call_options){0};
	rig_fly(rig, &(struct rea_guard_call){0}, 0);
}

static void permission_out_of_range(struct rig *rig)
{
	rig->call_options.grant.permission = REA_PERMISSION_COUNT;
	rig_fly(rig, &(struct rea_guard_call){0}, 0);
}

static void attempt_between_attempts(struct rig *rig)
{
	struct rea_guard_attempt attempt;
	struct rea_guard_call call;

	rig_begin(rig, &call, 0);
	rea_guard_call_attempt(&call, NULL, &rig->decision, &attempt);
}

static struct rea_report succeed(const struct rea_guard_attempt *attempt, void *arg)
{
	(void)attempt;
	(void)arg;
	return rea_report_ok();
}

static void run_options_of_no_version(struct rig *rig)
{
	struct rea_guard_run_options options = {0};

	rea_guard_run(&rig->thread, succeed, NULL, &options, NULL);
}

static void shard_given_back_twice(struct rig *rig)
{
	struct rea_shards shards;

	(void)rig;
	rea_shards_init(&shards, 4);
	rea_shards_give_back(&shards, 2);
}

/* ---- the pieces alone ---- */

static void call_options(struct rig *rig, struct rea_call_options *ret_options)
{
	rea_call_options_init(ret_options);
	ret_options->policy = rea_guard_policy(rig->guard);
	ret_options->single_target = true;
}

static void call_reports_twice(struct rig *rig)
{
	const struct rea_report ok = {.outcome = REA_OUTCOME_OK};
	struct rea_call_options options;
	struct rea_random random;
	struct rea_call call;

	call_options(rig, &options);
	rea_random_init(&random, 1);
	rea_call_begin(&call, &options, 0);
	rea_call_attempt(&call, NULL, &random, 0, &rig->decision);
	rea_call_report(&call, &ok, NULL, &random, 0, &rig->decision);
	rea_call_report(&call, &ok, NULL, &random, 0, &rig->decision);
}

static void call_reports_without_attempt(struct rig *rig)
{
	const struct rea_report ok = {.outcome = REA_OUTCOME_OK};
	struct rea_call_options options;
	struct rea_random random;
	struct rea_call call;

	call_options(rig, &options);
	rea_random_init(&random, 1);
	rea_call_begin(&call, &options, 0);
	rea_call_report(&call, &ok, NULL, &random, 0, &rig->decision);
}

static void call_attempts_in_flight(struct rig *rig)
{
	struct rea_call_options options;
	struct rea_random random;
	struct rea_call call;

	call_options(rig, &options);
	rea_random_init(&random, 1);
	rea_call_begin(&call, &options, 0);
	rea_call_attempt(&call, NULL, &random, 0, &rig->decision);
	rea_call_attempt(&call, NULL, &random, 0, &rig->decision);
}

static void call_options_of_no_version(struct rig *rig)
{
	struct rea_call_options options = {0};
	struct rea_call call;

	(void)rig;
	rea_call_begin(&call, &options, 0);
}

static void slot_released_twice(struct rig *rig)
{
	struct rea_limiter_options options;
	struct rea_limiter limiter;

	(void)rig;
	rea_limiter_options_init(&options);
	rea_limiter_init(&limiter, &options, NULL);
	rea_limiter_try_acquire(&limiter);
	rea_limiter_release(&limiter, 0);
	rea_limiter_release(&limiter, 0);
}

static void waiter_in_line_twice(struct rig *rig)
{
	struct rea_limiter_waiter waiter = {0};
	struct rea_limiter_options options;
	struct rea_limiter limiter;

	(void)rig;
	rea_limiter_options_init(&options);
	options.concurrent_max = options.waiting_max = 1;
	rea_limiter_init(&limiter, &options, NULL);
	rea_limiter_try_acquire(&limiter);
	rea_limiter_acquire(&limiter, &waiter, REA_NEVER, 0);
	rea_limiter_acquire(&limiter, &waiter, REA_NEVER, 0);
}

static void misuse_dies_with_a_sentence(void **state)
{
	static const struct {
		void (*misuse)(struct rig *rig);
		const char *sentence;
	} cases[] = {
	    {report_without_begin, "rea_guard_report: no attempt of the call is under way"},
	    {report_without_attempt, "rea_guard_report: no attempt of the call is under way"},
	    {report_twice, "rea_guard_report: no attempt of the call is under way"},
	    {report_nonsense, "rea_guard_report: the outcome is none of rea/outcome.h"},
	    {next_without_begin, "rea_guard_next: the call was not begun"},
	    {next_in_flight, "rea_guard_next: the call was not begun, has an attempt under way, or is over"},
	    {next_after_the_end, "rea_guard_next: the call was not begun, has an attempt under way, or is over"},
	    {cancel_without_begin, "rea_guard_cancel: the call was not begun"},
	    {free_with_a_call_open, "rea_guard_free: a call is still open"},
	    {free_with_a_thread, "rea_guard_free: a thread has not left"},
	    {leave_twice, "rea_guard_leave: the thread has not joined"},
	    {thread_of_another_guard, "the thread has joined another guard than the call's"},
	    {list_after_the_first_attempt, "a call has a list of instances from its first attempt on, or never"},
	    {options_of_no_version, "the options were not initialised by rea_guard_call_options_init"},
	    {permission_out_of_range, "rea_guard_begin: the grant is none of rea/permission.h"},
	    {attempt_between_attempts, "rea_guard_call_attempt: no attempt of the call is under way"},
	    {run_options_of_no_version, "the options were not initialised by rea_guard_run_options_init"},
	    {begin_after_free, "rea_guard: the thread has not joined, or has left"},
	    {run_after_free, "rea_guard: the thread has not joined, or has left"},
	    {call_reports_twice, "rea_call_report: no attempt of the call is under way"},
	    {call_reports_without_attempt, "rea_call_report: no attempt of the call is under way"},
	    {call_attempts_in_flight, "rea_call_attempt: the call was not begun, has an attempt under way, or is over"},
	    {call_options_of_no_version, "rea_call_begin: the options were not initialised by rea_call_options_init"},
	    {slot_released_twice, "rea_limiter_release: nothing was acquired"},
	    {waiter_in_line_twice, "rea_limiter_acquire: the waiter is in line already"},
	    {shard_given_back_twice, "rea_shards_give_back: the shard is not taken"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_dies(cases[i].misuse, cases[i].sentence);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(misuse_dies_with_a_sentence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
