/*
 * Calls in libevent's loop: asks a UDP server on this machine all questions at once, and again when no answer comes. Each call has a timer, set
 * to when its guard wants to be asked next.
 *   cc main.c -o ask $(pkg-config --cflags --libs rea libevent_core) && ./ask 9001 apple pear plum
 */
#include <rea/guard.h>

#include <arpa/inet.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { QUESTIONS_MAX = 64, TEXT_MAX = 1400 };

struct question {
	const char *text;
	struct rea_guard_call call;
	struct rea_decision decision; /* the last: what the call is at */
	struct event *timer;          /* its attempt's time is up, or its wait is over */
};

static struct question questions[QUESTIONS_MAX];
static size_t questions_len, open_len;
static struct rea_guard_call_options options; /* the same for all of them: they may be asked again */
static struct rea_guard_thread thread;
static struct event_base *base;
static int server;

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * REA_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Never early: libevent counts in microseconds. */
static void set_timer(struct event *timer, uint64_t due_ns)
{
	uint64_t wait_us = rea_time_sub(due_ns, clock_ns()) / 1000 + 1;
	struct timeval wait = {(time_t)(wait_us / 1000000), (suseconds_t)(wait_us % 1000000)};

	event_add(timer, &wait);
}

/* One step of its call (report NULL: it is due), and what that asks for. */
static void step(struct question *question, const struct rea_report *report)
{
	struct rea_decision *decision = &question->decision;

	if (report != NULL)
		rea_guard_report(&question->call, &thread, report, NULL, clock_ns(), decision);
	else
		rea_guard_next(&question->call, &thread, NULL, clock_ns(), decision);
	if (decision->step == REA_STEP_ATTEMPT) {
		dprintf(server, "%d %s", (int)(question - questions), question->text);
		set_timer(question->timer, decision->attempt_deadline_ns);
	} else if (decision->step == REA_STEP_WAIT) {
		set_timer(question->timer, decision->wait_until_ns);
	} else {
		if (decision->verdict != REA_VERDICT_SUCCESS)
			printf("%s: no answer (%s)\n", question->text, rea_reason_name(decision->reason));
		event_del(question->timer);
		if (--open_len == 0)
			event_base_loopbreak(base);
	}
}

static void on_timer(evutil_socket_t fd, short what, void *user_data)
{
	const struct rea_report timeout = rea_report_fail(REA_OUTCOME_AMBIGUOUS);
	struct question *question = user_data;

	(void)fd, (void)what;
	step(question, question->decision.step == REA_STEP_ATTEMPT ? &timeout : NULL);
}

static void on_answer(evutil_socket_t fd, short what, void *user_data)
{
	char packet[TEXT_MAX], *text;
	ssize_t length = recv(fd, packet, sizeof(packet) - 1, 0);
	unsigned long i;

	(void)what, (void)user_data;
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
	struct rea_guard *guard = make_guard();
	struct event *answers;

	base = event_base_new();
	server = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	if (base == NULL || connect(server, (struct sockaddr *)&address, sizeof(address)) != 0)
		return 1;
	answers = event_new(base, server, EV_READ | EV_PERSIST, on_answer, NULL);
	event_add(answers, NULL);
	for (; (int)questions_len < argc - 2 && questions_len < QUESTIONS_MAX; questions_len++, open_len++) {
		struct question *question = &questions[questions_len];

		question->text = argv[questions_len + 2];
		question->timer = event_new(base, -1, 0, on_timer, question);
		rea_guard_begin(&question->call, &thread, &options, clock_ns());
		step(question, NULL);
	}
	if (open_len > 0)
		event_base_dispatch(base);
	for (size_t i = 0; i < questions_len; i++)
		event_free(questions[i].timer);
	event_free(answers);
	event_base_free(base);
	rea_guard_leave(&thread);
	rea_guard_free(guard);
	return 0;
}
