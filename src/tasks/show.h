/* Tasks, attempts and targets as people read them, and as JSON, one object a line. */
#ifndef REA_SRC_TASKS_SHOW_H
#define REA_SRC_TASKS_SHOW_H

#include <jansson.h>

#include <stdbool.h>

void show_json(const json_t *json);
void show_tasks_title(void);
void show_task_line(const json_t *task);
void show_task(const json_t *task);
void show_attempts_title(void);
void show_attempt_line(const json_t *attempt);
void show_targets_title(void);
void show_target_line(const json_t *target);

#endif
