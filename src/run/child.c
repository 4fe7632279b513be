/*
 * The life of an attempt:
 *
 *   RUNNING ─▶ (its time is over, or we got TERM) TERM sent ─▶ (grace is over) KILL sent
 *      └──────────────┴─────────────────────────────┴─▶ the leader has ended: reaped
 *
 * After its time whatever is left of the group is killed before the leader is reaped: until then nobody else can have the group's number.
 */
#include "run/child.h"

#include "run/codes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define READ_BYTES 16384
#define EVER (-1)

uint64_t run_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * REA_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Rounded up, and not so long that an int could not say it. */
static int poll_ms(uint64_t until_ns)
{
	uint64_t left_ms;

	if (until_ns == REA_NEVER)
		return EVER;
	left_ms = rea_time_to_ms(rea_time_sub(until_ns, run_now()));
	return left_ms < 60000 ? (int)left_ms : 60000;
}

/* ---- signals ---- */

/* Passed on to the command. Those of `ends` also say that there shall be no other attempt. */
static const int ends[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
static const int others[] = {SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT, SIGTSTP};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* What our parent made us ignore (nohup) stays ignored, here and in the command. */
static void add_unless_ignored(sigset_t *set, int number)
{
	struct sigaction action;

	if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_IGN)
		sigaddset(set, number);
}

bool run_signals_init(struct run_signals *signals)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < COUNT(ends); i++)
		add_unless_ignored(&set, ends[i]);
	for (size_t i = 0; i < COUNT(others); i++)
		add_unless_ignored(&set, others[i]);
	/* A parent that ignores its children's end has us inherit that, and nothing could be waited for. */
	signal(SIGCHLD, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, &signals->mask);
	signals->end = 0;
	signals->fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	return signals->fd >= 0;
}

static bool is_end(int number)
{
	for (size_t i = 0; i < COUNT(ends); i++)
		if (ends[i] == number)
			return true;
	return false;
}

/* Stopped from the terminal: first the command, which is in another group, then we. */
static void stop_with(pid_t group)
{
	if (group != 0)
		kill(-group, SIGSTOP);
	raise(SIGSTOP);
	if (group != 0)
		kill(-group, SIGCONT);
}

/* Takes all signals that are there. group: to pass them on to; 0 = none. */
static void take_signals(struct run_signals *signals, pid_t group)
{
	struct signalfd_siginfo info;

	while (read(signals->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		int number = (int)info.ssi_signo;

		if (number == SIGCHLD)
			continue;
		if (number == SIGTSTP)
			stop_with(group);
		else if (group != 0)
			kill(-group, number);
		if (is_end(number) && signals->end == 0)
			signals->end = number;
	}
}

bool run_wait(struct run_signals *signals, uint64_t until_ns)
{
	while (signals->end == 0 && run_now() < until_ns) {
		struct pollfd poll_fd = {.fd = signals->fd, .events = POLLIN};

		if (poll(&poll_fd, 1, poll_ms(until_ns)) > 0)
			take_signals(signals, 0);
	}
	return signals->end == 0;
}

/* ---- input ---- */

void run_input_init(struct run_input *input, bool none, size_t limit)
{
	struct stat file;

	*input = (struct run_input){.kind = RUN_INPUT_STREAM, .limit = limit};
	/* Else some descriptor of ours would become the command's standard input. */
	if (fcntl(STDIN_FILENO, F_GETFD) < 0)
		(void)!open("/dev/null", O_RDONLY);
	if (none || fstat(STDIN_FILENO, &file) != 0 || isatty(STDIN_FILENO))
		input->kind = RUN_INPUT_NONE;
	else if (S_ISREG(file.st_mode)) {
		input->start = lseek(STDIN_FILENO, 0, SEEK_CUR);
		input->kind = input->start >= 0 ? RUN_INPUT_FILE : RUN_INPUT_STREAM;
	} else if (S_ISCHR(file.st_mode)) /* /dev/null and its like */
		input->kind = RUN_INPUT_FILE;
}

void run_input_fini(struct run_input *input)
{
	rea_buffer_fini(&input->kept);
}

/* Read what there is. Out of memory counts as more than can be kept. */
static void read_input(struct run_input *input)
{
	ssize_t length;

	if (rea_buffer_reserve(&input->kept, READ_BYTES) != 0) {
		input->ended = input->lost = true;
		return;
	}
	length = read(STDIN_FILENO, input->kept.data + input->kept.end, READ_BYTES);
	if (length > 0)
		input->kept.end += (size_t)length;
	else if (length == 0 || (errno != EINTR && errno != EAGAIN))
		input->ended = true;
	if (rea_buffer_length(&input->kept) > input->limit)
		input->lost = true;
}

/* ---- the command ---- */

struct running {
	pid_t pid;
	int feed;    /* its standard input; -1 = closed, or none of ours */
	size_t sent; /* of input->kept */
	bool timed_out;
	bool term_sent;
	uint64_t next_ns; /* TERM, then KILL, is due */
};

static void set_number(const char *name, uint32_t value)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", value);
	setenv(name, text, 1);
}

/* In the child. */
_Noreturn static void become(const struct run_attempt *attempt, const struct run_signals *signals, int input_fd)
{
	int error;

	setpgid(0, 0);
	/* If we are killed no command shall go on alone, beside the one that is started instead. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	signal(SIGPIPE, SIG_DFL);
	sigprocmask(SIG_SETMASK, &signals->mask, NULL);
	if (input_fd >= 0)
		dup2(input_fd, STDIN_FILENO);
	set_number("REA_ATTEMPT", attempt->number);
	set_number("REA_ATTEMPTS_MAX", attempt->attempts_max);
	setenv("REA_KEY", attempt->key, 1);
	execvp(attempt->argv[0], attempt->argv);
	error = errno;
	fprintf(stderr, "rea run: cannot run %s: %s\n", attempt->argv[0], strerror(error));
	_exit(error == ENOENT ? RUN_NOT_FOUND : RUN_CANNOT_RUN);
}

/* pair: the command's end of its input, and ours. False: errno says why. */
static bool open_input(struct run_input *input, int pair[2])
{
	pair[0] = pair[1] = -1;
	switch (input->kind) {
	case RUN_INPUT_NONE:
		pair[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		return pair[0] >= 0;
	case RUN_INPUT_FILE:
		lseek(STDIN_FILENO, input->start, SEEK_SET);
		return true;
	case RUN_INPUT_STREAM:
		break;
	}
	/* Only our end is not to block: the command's is as it expects it. */
	return pipe2(pair, O_CLOEXEC) == 0 && fcntl(pair[1], F_SETFL, O_NONBLOCK) == 0;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static bool start(const struct run_attempt *attempt, struct run_input *input, const struct run_signals *signals,
    struct running *running)
{
	int pair[2];

	*running = (struct running){.feed = -1, .next_ns = attempt->deadline_ns};
	if (!open_input(input, pair))
		return false;
	running->pid = fork();
	if (running->pid == 0)
		become(attempt, signals, pair[0]);
	if (running->pid > 0)
		setpgid(running->pid, running->pid); /* by whoever comes first */
	close_fd(&pair[0]);
	running->feed = pair[1];
	if (running->pid < 0)
		close_fd(&running->feed);
	return running->pid > 0;
}

static bool all_sent(const struct running *running, const struct run_input *input)
{
	return running->sent == rea_buffer_length(&input->kept);
}

/* Pass on what is there, and close behind the last of it. */
static void feed(struct running *running, struct run_input *input)
{
	while (running->feed >= 0 && !all_sent(running, input)) {
		ssize_t length = write(running->feed, rea_buffer_data(&input->kept) + running->sent,
		    rea_buffer_length(&input->kept) - running->sent);

		if (length > 0)
			running->sent += (size_t)length;
		else if (errno == EAGAIN)
			return;
		else if (errno != EINTR)
			close_fd(&running->feed); /* it does not want more */
	}
	if (input->lost) { /* nobody will ask for it again */
		rea_buffer_consume(&input->kept, running->sent);
		running->sent = 0;
	}
	if (input->ended && all_sent(running, input))
		close_fd(&running->feed);
}

static void on_time(struct running *running, uint64_t grace_ns)
{
	uint64_t now_ns = run_now();

	if (now_ns < running->next_ns)
		return;
	kill(-running->pid, running->term_sent ? SIGKILL : SIGTERM);
	kill(-running->pid, SIGCONT); /* a stopped one would not hear it */
	running->timed_out = running->timed_out || !running->term_sent;
	running->next_ns = running->term_sent ? REA_NEVER : rea_time_add(now_ns, grace_ns);
	running->term_sent = true;
}

/* Who tells us to end kills us in a while: before that the command is to be gone. Other signals a command may live on with. */
static void on_told_to_end(struct running *running, uint64_t grace_ns)
{
	if (running->term_sent)
		return;
	running->next_ns = rea_time_add(run_now(), grace_ns);
	running->term_sent = true;
}

/* Has the leader ended? It is not reaped. */
static bool has_ended(pid_t pid)
{
	siginfo_t info = {.si_pid = 0};

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid;
}

static int status_of(int wait_status)
{
	return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : RUN_SIGNALLED + WTERMSIG(wait_status);
}

/* Everything that can happen, once. */
static void turn(
    struct running *running, const struct run_attempt *attempt, struct run_input *input, struct run_signals *signals)
{
	bool feeding = running->feed >= 0, hungry = feeding && all_sent(running, input) && !input->ended;
	struct pollfd fds[] = {
	    {.fd = signals->fd, .events = POLLIN},
	    {.fd = feeding ? running->feed : -1, .events = hungry ? 0 : POLLOUT}, /* always: its other end is closed */
	    {.fd = hungry ? STDIN_FILENO : -1, .events = POLLIN},
	};

	if (poll(fds, COUNT(fds), poll_ms(running->next_ns)) > 0) {
		if (fds[0].revents != 0)
			take_signals(signals, running->pid);
		if (signals->end == SIGTERM)
			on_told_to_end(running, attempt->grace_ns);
		if (fds[2].revents != 0)
			read_input(input);
		if (fds[1].revents & (POLLERR | POLLHUP))
			close_fd(&running->feed);
		if (feeding)
			feed(running, input);
	}
	on_time(running, attempt->grace_ns);
}

void run_attempt(
    const struct run_attempt *attempt, struct run_input *input, struct run_signals *signals, struct run_end *ret_end)
{
	struct running running;
	int status = 0;

	*ret_end = (struct run_end){.status = RUN_CANNOT_RUN};
	if (!start(attempt, input, signals, &running)) {
		fprintf(stderr, "rea run: cannot start a process: %s\n", strerror(errno));
		return;
	}
	while (!has_ended(running.pid))
		turn(&running, attempt, input, signals);
	if (running.timed_out)
		kill(-running.pid, SIGKILL);
	while (waitpid(running.pid, &status, 0) < 0 && errno == EINTR)
		;
	close_fd(&running.feed);
	ret_end->pid = running.pid;
	ret_end->timed_out = running.timed_out;
	ret_end->status = running.timed_out ? RUN_TIMED_OUT : status_of(status);
}
