/*
 * Calls in a loop of one's own, here epoll: asks a UDP server on this machine all questions at once, and again when no answer comes.
 *   cc main.c -o ask $(pkg-config --cflags --libs rea) && ./ask 9001 apple pear plum
 */
#include <rea/guard.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { QUESTIONS_MAX = 64, TEXT_MAX = 1400 };

struct question {
	const char *text;
	struct rea_guard_call call;
	struct rea_decision decision; /* the last: what the call is at */
	uint64_t due_ns;              /* its attempt's time is up, or its wait is over */
};

static struct question questions[QUESTIONS_MAX];
static size_t questions_len, open_len;
static struct rea_guard_call_options options; /* the same for all of them: they may be asked again */
static struct rea_guard_thread thread;
static int server;

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * REA_NS_PER_S + (uint64_t)now.tv_nsec;
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
		dprintf(server, "%d %s", (int)(question - questions), question->text);
	} else if (decision->step == REA_STEP_DONE) {
		question->due_ns = REA_NEVER;
		open_len--;
		if (decision->verdict != REA_VERDICT_SUCCESS)
			printf("%s: no answer (%s)\n", question->text, rea_reason_name(decision->reason));
	}
}

static void read_answer(void)
{
	char packet[TEXT_MAX], *text;
	ssize_t length = recv(server, packet, sizeof(packet) - 1, 0);
	unsigned long i;

	packet[length > 0 ? length : 0] = '\0';
	i = strtoul(packet, &text, 10);
	/* What comes when nobody waits for it is late, or nonsense. */
	if (i >= questions_len || text == packet || questions[i].decision.step != REA_STEP_ATTEMPT)
		return;
	printf("%s:%s\n", questions[i].text, text);
	step(&questions[i], &(struct rea_report){.outcome = REA_OUTCOME_OK});
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
	struct epoll_event event = {.events = EPOLLIN};
	struct rea_guard *guard = make_guard();
	int epoll = epoll_create1(0);

	server = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	if (connect(server, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    epoll_ctl(epoll, EPOLL_CTL_ADD, server, &event) != 0)
		return 1;
	for (; (int)questions_len < argc - 2 && questions_len < QUESTIONS_MAX; questions_len++, open_len++) {
		questions[questions_len].text = argv[questions_len + 2];
		rea_guard_begin(&questions[questions_len].call, &thread, &options, clock_ns());
		step(&questions[questions_len], NULL);
	}
	while (open_len > 0) {
		uint64_t now_ns = clock_ns(), next_ns = REA_NEVER;

		for (struct question *question = questions; question < questions + questions_len; question++) {
			if (question->due_ns <= now_ns)
				step(question, question->decision.step == REA_STEP_ATTEMPT ? &timeout : NULL);
			next_ns = rea_time_min(next_ns, question->due_ns);
		}
		if (open_len > 0 && epoll_wait(epoll, &event, 1, (int)rea_time_to_ms(rea_time_sub(next_ns, now_ns))) > 0)
			read_answer();
	}
	rea_guard_leave(&thread);
	rea_guard_free(guard);
	return 0;
}
