/*
 * Calls in a loop of one's own, here io_uring: asks a UDP server on this machine all questions at once, and again when no answer comes.
 * One system call a turn hands over what is to be sent and waits for an answer or until the guard wants to be asked. Where the kernel or a
 * container refuses io_uring it says so and ends with 77.
 *   cc main.c -o ask $(pkg-config --cflags --libs rea liburing) && ./ask 9001 apple pear plum
 */
#include <rea/guard.h>

#include <arpa/inet.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { QUESTIONS_MAX = 64, TEXT_MAX = 1400, REFUSED = 77 };

struct question {
	const char *text;
	struct rea_guard_call call;
	struct rea_decision decision; /* the last: what the call is at */
	uint64_t due_ns;              /* its attempt's time is up, or its wait is over */
	char packet[TEXT_MAX + 16];   /* the kernel's until it is sent; the same each time */
};

static struct question questions[QUESTIONS_MAX];
static size_t questions_len, open_len;
static struct rea_guard_call_options options; /* the same for all of them: they may be asked again */
static struct rea_guard_thread thread;
static struct io_uring ring;
static char answer[TEXT_MAX + 1]; /* the kernel's while it waits for one */
static int server;

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * REA_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* A place for an operation that begins with the next turn: there are enough for an answer and every question. */
static struct io_uring_sqe *place(void)
{
	struct io_uring_sqe *operation = io_uring_get_sqe(&ring);

	if (operation == NULL)
		abort();
	return operation;
}

/* Nobody looks at what became of it: what was not sent is not answered. */
static void send_question(struct question *question)
{
	struct io_uring_sqe *operation = place();

	io_uring_prep_send(operation, server, question->packet, strlen(question->packet), 0);
	io_uring_sqe_set_data(operation, NULL);
}

static void expect_answer(void)
{
	struct io_uring_sqe *operation = place();

	io_uring_prep_recv(operation, server, answer, TEXT_MAX, 0);
	io_uring_sqe_set_data(operation, answer);
}

/* One step of its call (report NULL: it is due), and what that asks for. */
static void step(struct question *question, const struct rea_report *report)
{
	struct rea_decision *decision = &question->decision;

	if (report != NULL)
		rea_guard_report(&question->call, &thread, report, NULL, clock_ns(), decision);
	else
		rea_guard_next(&question->call, &thread, NULL, clock_ns(), decision);
	question->due_ns = decision->step == REA_STEP_ATTEMPT ? decision->attempt_deadline_ns : decision->wait_until_ns;
	if (decision->step == REA_STEP_ATTEMPT) {
		send_question(question);
	} else if (decision->step == REA_STEP_DONE) {
		question->due_ns = REA_NEVER;
		open_len--;
		if (decision->verdict != REA_VERDICT_SUCCESS)
			printf("%s: no answer (%s)\n", question->text, rea_reason_name(decision->reason));
	}
}

static void read_answer(int length)
{
	char *text;
	unsigned long i;

	answer[length > 0 ? length : 0] = '\0';
	i = strtoul(answer, &text, 10);
	/* What comes when nobody waits for it is late, or nonsense. */
	if (i >= questions_len || text == answer || questions[i].decision.step != REA_STEP_ATTEMPT)
		return;
	printf("%s:%s\n", questions[i].text, text);
	step(&questions[i], &(struct rea_report){.outcome = REA_OUTCOME_OK});
}

/* Hands over what is prepared, waits until something has ended or it is next_ns, and takes what has ended. */
static void turn(uint64_t next_ns)
{
	uint64_t wait_ns = rea_time_sub(next_ns, clock_ns());
	struct __kernel_timespec wait = {(int64_t)(wait_ns / REA_NS_PER_S), (long long)(wait_ns % REA_NS_PER_S)};
	struct io_uring_cqe *ended;

	io_uring_submit_and_wait_timeout(&ring, &ended, 1, &wait, NULL);
	while (io_uring_peek_cqe(&ring, &ended) == 0) {
		bool is_answer = io_uring_cqe_get_data(ended) == answer;
		int result = ended->res;

		io_uring_cqe_seen(&ring, ended);
		if (is_answer) {
			read_answer(result);
			expect_answer();
		}
	}
}

static struct rea_guard *make_guard(void)
{
	struct rea_guard_options guard_options;
	struct rea_guard *guard;

	rea_guard_options_init(&guard_options);
	guard_options.policy.enabled = true;
	guard_options.policy.max_retry_next_instance = 3;
	guard_options.policy.attempt_timeout_ns = 200 * REA_NS_PER_MS;
	if (rea_guard_new(&guard_options, NULL, &guard, NULL) != 0 || rea_guard_join(guard, rea_seed(), &thread) != 0)
		exit(1);
	rea_guard_call_options_init(&options);
	options.grant = (struct rea_grant){REA_PERMISSION_SAFE, REA_PERMISSION_SOURCE_CALLER};
	return guard;
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argc > 1 ? argv[1] : "0"))};
	const struct rea_report timeout = rea_report_fail(REA_OUTCOME_AMBIGUOUS);
	int error = io_uring_queue_init(2 * QUESTIONS_MAX, &ring, 0);
	struct rea_guard *guard;

	if (error < 0) {
		fprintf(stderr, "io_uring is refused here: %s\n", strerror(-error));
		return REFUSED;
	}
	guard = make_guard();
	server = socket(AF_INET, SOCK_DGRAM, 0);
	if (connect(server, (struct sockaddr *)&address, sizeof(address)) != 0)
		return 1;
	expect_answer();
	for (; (int)questions_len < argc - 2 && questions_len < QUESTIONS_MAX; questions_len++, open_len++) {
		struct question *question = &questions[questions_len];

		question->text = argv[questions_len + 2];
		snprintf(question->packet, sizeof(question->packet), "%zu %.*s", questions_len, TEXT_MAX, question->text);
		rea_guard_begin(&question->call, &thread, &options, clock_ns());
		step(question, NULL);
	}
	while (open_len > 0) {
		uint64_t now_ns = clock_ns(), next_ns = REA_NEVER;

		for (struct question *question = questions; question < questions + questions_len; question++) {
			if (question->due_ns <= now_ns)
				step(question, question->decision.step == REA_STEP_ATTEMPT ? &timeout : NULL);
			next_ns = rea_time_min(next_ns, question->due_ns);
		}
		if (open_len > 0)
			turn(next_ns);
	}
	io_uring_queue_exit(&ring);
	rea_guard_leave(&thread);
	rea_guard_free(guard);
	return 0;
}
