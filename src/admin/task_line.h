/* A task as the API tells of it, in one line for people. */
#ifndef REA_SRC_ADMIN_TASK_LINE_H
#define REA_SRC_ADMIN_TASK_LINE_H

#include <jansson.h>

#include <stddef.h>

#define TASK_LINE_MAX 1024

/* "task 17  RETRYING  charge-service  POST /charge  2 attempts (1 retry), next at 2026-01-02T03:04:05.678Z". Whatever the texts hold, nothing but
 * printable UTF-8 gets out. Cut at size; returns the length. */
size_t task_line(const json_t *task, char *ret_text, size_t size);

#endif
