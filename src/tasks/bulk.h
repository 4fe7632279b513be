/*
 * Submitting the lines of a file, each a submit object of the task API, in batches.
 *
 * Every line has an idempotency key, its own or one made of its content, so that the same file can be handed in again after whatever went wrong: what is
 * there already is found, not repeated.
 */
#ifndef REA_SRC_TASKS_BULK_H
#define REA_SRC_TASKS_BULK_H

#include "tasks/client.h"

#include <stdio.h>

struct bulk_options {
	const char *name;       /* of the file, for messages */
	const char *key_prefix; /* of the keys that are made */
	bool json;              /* print each task as a line */
	bool progress;          /* on standard error */
};

/* Returns the exit code: 0 all are taken, or were there; 1 some were refused, which is told line by line, or it could not go on. */
int bulk_submit(struct tasks_client *client, FILE *file, const struct bulk_options *options);

#endif
