/*
 * One attempt of a command: a process group of its own, fed with what came on our standard input, ended when its time is over.
 *
 * One thread; the signals that matter are blocked and read from a descriptor, so that none is lost between two looks.
 */
#ifndef REA_SRC_RUN_CHILD_H
#define REA_SRC_RUN_CHILD_H

#include "base/buffer.h"

#include <rea/time.h>

#include <signal.h>
#include <sys/types.h>

/* CLOCK_MONOTONIC. */
uint64_t run_now(void);

/* ---- signals ---- */

struct run_signals {
	int fd;
	int end;       /* the signal that told us to come to an end; 0 = none */
	sigset_t mask; /* that was there before, and is the command's */
};
/* From here on until the process ends. False, with errno: no descriptor. */
bool run_signals_init(struct run_signals *signals);
/* Until until_ns, or until a signal says to end. False then. */
bool run_wait(struct run_signals *signals, uint64_t until_ns);

/* ---- input ---- */

enum run_input_kind {
	RUN_INPUT_NONE,  /* /dev/null */
	RUN_INPUT_FILE,  /* can seek: the command reads it itself, each attempt from where it stood */
	RUN_INPUT_STREAM /* is kept while it is passed on, up to the limit */
};

struct run_input {
	enum run_input_kind kind;
	off_t start; /* FILE */
	struct rea_buffer kept;
	size_t limit;
	bool ended; /* STREAM: nothing more comes */
	bool lost;  /* more than the limit came: it cannot be repeated */
};
/* Our standard input as it is: a terminal, or nothing, is NONE. */
void run_input_init(struct run_input *input, bool none, size_t limit);
void run_input_fini(struct run_input *input);

/* ---- an attempt ---- */

struct run_attempt {
	char **argv; /* NULL at its end */
	uint32_t number;
	uint32_t attempts_max;
	const char *key;      /* the same for all attempts */
	uint64_t deadline_ns; /* absolute: then SIGTERM, to the group */
	uint64_t grace_ns;    /* from SIGTERM, that one or one of ours, to SIGKILL */
};

struct run_end {
	pid_t pid;  /* 0 = it could not be started */
	int status; /* 0..255, as a shell says it; RUN_… */
	bool timed_out;
};
/* Run the command to its end. */
void run_attempt(
    const struct run_attempt *attempt, struct run_input *input, struct run_signals *signals, struct run_end *ret_end);

#endif
