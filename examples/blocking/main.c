/*
 * A blocking call with retries: connects to the addresses given, one after the other, until one sends a line, and prints it. Control-C
 * ends an attempt and a wait between two at once.
 *   cc main.c -o ask $(pkg-config --cflags --libs rea) && ./ask 127.0.0.1:9001 127.0.0.1:9002
 */
#include <rea/guard.h>

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { INSTANCES_MAX = 10, LINE_MAX = 256 };

static int stop_pipe[2];

static void stop(int signal_number)
{
	(void)signal_number;
	(void)!write(stop_pipe[1], "", 1);
}

/* Until fd is ready, the attempt's time is up or Control-C is pressed. Returns 0 or an errno, as all here. */
static int wait_for(int fd, short events, const struct rea_guard_attempt *attempt)
{
	struct pollfd fds[] = {{.fd = fd, .events = events}, {.fd = attempt->cancel_fd, .events = POLLIN}};
	struct timespec now;
	uint64_t left_ns;

	clock_gettime(CLOCK_MONOTONIC, &now);
	left_ns = rea_time_sub(attempt->deadline_ns, (uint64_t)now.tv_sec * REA_NS_PER_S + (uint64_t)now.tv_nsec);
	while (poll(fds, 2, (int)rea_time_to_ms(left_ns)) < 0)
		; /* a signal, and then the pipe has something to say */
	if (fds[1].revents != 0)
		return ECANCELED;
	return fds[0].revents == 0 ? ETIMEDOUT : 0;
}

static int connect_to(int fd, const struct rea_guard_attempt *attempt)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(attempt->instance->id.port)};
	socklen_t size = sizeof(int);
	int error = 0;

	memcpy(&address.sin_addr, attempt->instance->id.address + 12, 4);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		error = errno == EINPROGRESS ? wait_for(fd, POLLOUT, attempt) : errno;
	if (error == 0)
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
	return error;
}

static int read_line(int fd, const struct rea_guard_attempt *attempt, char *line)
{
	int error = wait_for(fd, POLLIN, attempt);
	ssize_t length = error == 0 ? read(fd, line, LINE_MAX - 1) : 0;

	line[length > 0 ? length : 0] = '\0';
	return error != 0 || length > 0 ? error : length == 0 ? ECONNRESET : errno;
}

/* One attempt: what the guard calls, as often as it takes. */
static struct rea_report ask(const struct rea_guard_attempt *attempt, void *line)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), error = fd < 0 ? errno : connect_to(fd, attempt);
	struct rea_report report = rea_report_from_errno(error, REA_PHASE_CONNECT);

	if (error == 0)
		report = rea_report_from_errno(read_line(fd, attempt, line), REA_PHASE_SENT);
	close(fd);
	return report;
}

static void on_event(struct rea_event *event, void *user_data)
{
	(void)user_data;
	fprintf(stderr, "attempt %u at %.*s: %s, %s %s\n", event->attempt, (int)event->instance.length, event->instance.text,
	    rea_outcome_name(event->outcome), rea_verdict_name(event->verdict), rea_reason_name(event->reason));
}

int main(int argc, char **argv)
{
	struct rea_instance items[INSTANCES_MAX];
	struct rea_instances list = {.items = items, .balance = REA_BALANCE_LISTED};
	struct rea_guard_options options;
	struct rea_guard_run_options run;
	struct rea_guard_thread thread;
	struct rea_guard *guard;
	char line[LINE_MAX];
	bool ok;

	for (int i = 1; i < argc && list.count < INSTANCES_MAX; i++) {
		items[list.count] = (struct rea_instance){.weight = 1};
		list.count += rea_instance_id_parse(argv[i], strlen(argv[i]), &items[list.count].id);
	}
	rea_guard_options_init(&options);
	options.policy.enabled = true;
	options.policy.max_retry_next_instance = INSTANCES_MAX - 1;
	options.event = on_event;
	if (pipe(stop_pipe) != 0 || rea_guard_new(&options, NULL, &guard, NULL) != 0 ||
	    rea_guard_join(guard, rea_seed(), &thread) != 0)
		return 1;
	signal(SIGINT, stop);
	rea_guard_run_options_init(&run);
	run.call.grant = (struct rea_grant){REA_PERMISSION_SAFE, REA_PERMISSION_SOURCE_CALLER};
	run.instances = &list;
	run.cancel_fd = stop_pipe[0];
	ok = rea_guard_run(&thread, ask, line, &run, NULL) == REA_VERDICT_SUCCESS;
	if (ok)
		fputs(line, stdout);
	rea_guard_leave(&thread);
	rea_guard_free(guard);
	return !ok;
}
