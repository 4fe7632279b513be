#include "torture/process.h"

#include <rea/time.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PIECE 4096

_Noreturn static void become(const char *const argv[], int output, int errors)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(output, STDOUT_FILENO);
	dup2(errors, STDERR_FILENO);
	execv("/proc/self/exe", (char *const *)argv);
	_exit(127);
}

bool process_start(struct process *process, const char *const argv[], const char *errors_path)
{
	int ends[2] = {-1, -1}, errors = open(errors_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	*process = (struct process){.output = -1};
	if (errors >= 0 && pipe2(ends, O_CLOEXEC) == 0) {
		process->pid = fork();
		if (process->pid == 0)
			become(argv, ends[1], errors);
		close(ends[1]);
		process->output = ends[0];
	}
	if (errors >= 0)
		close(errors);
	if (process->pid > 0)
		return true;
	if (process->output >= 0)
		close(process->output);
	process->pid = 0;
	return false;
}

static bool find_line(const struct process *process, const char *prefix, char *ret_rest, size_t size)
{
	const char *line = process->said.data != NULL ? rea_buffer_data(&process->said) : NULL, *end;
	size_t left = rea_buffer_length(&process->said), length = strlen(prefix);

	for (; line != NULL && (end = memchr(line, '\n', left)) != NULL; left -= (size_t)(end + 1 - line), line = end + 1)
		if ((size_t)(end - line) >= length && memcmp(line, prefix, length) == 0) {
			snprintf(ret_rest, size, "%.*s", (int)((size_t)(end - line) - length), line + length);
			return true;
		}
	return false;
}

/* False: nothing more comes. */
static bool listen_once(struct process *process, int timeout_ms)
{
	struct pollfd poll_fd = {.fd = process->output, .events = POLLIN};
	ssize_t length;

	if (poll(&poll_fd, 1, timeout_ms) <= 0 || rea_buffer_reserve(&process->said, PIECE) != 0)
		return false;
	length = read(process->output, process->said.data + process->said.end, PIECE);
	process->said.end += length > 0 ? (size_t)length : 0;
	return length > 0 || (length < 0 && errno == EINTR);
}

bool process_wait_line(struct process *process, const char *prefix, int timeout_ms, char *ret_rest, size_t size)
{
	while (!find_line(process, prefix, ret_rest, size))
		if (!listen_once(process, timeout_ms))
			return false;
	return true;
}

int process_end(struct process *process, int number)
{
	int status = 0;

	if (process->pid == 0)
		return 0;
	kill(process->pid, number);
	while (waitpid(process->pid, &status, 0) < 0 && errno == EINTR)
		;
	close(process->output);
	rea_buffer_fini(&process->said);
	process->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
