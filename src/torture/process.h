/* A child process that says on its standard output when it is ready. */
#ifndef REA_SRC_TORTURE_PROCESS_H
#define REA_SRC_TORTURE_PROCESS_H

#include "base/buffer.h"

#include <sys/types.h>

struct process {
	pid_t pid; /* 0 = none */
	int output;
	struct rea_buffer said;
};

/* argv: NULL at its end; errors_path: its standard error is appended there. It is killed when this process ends. False: errno says why. */
bool process_start(struct process *process, const char *const argv[], const char *errors_path);
/* Waits until a line has been said that begins with prefix; its rest, cut at size, goes to ret_rest. False: the process has ended, or has said nothing
 * for timeout_ms. */
bool process_wait_line(struct process *process, const char *prefix, int timeout_ms, char *ret_rest, size_t size);
/* Ends it with that signal and waits for its end. Returns its exit code, or 128 + the signal that ended it. */
int process_end(struct process *process, int number);

#endif
