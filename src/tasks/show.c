#include "tasks/show.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void show_json(const json_t *json)
{
	json_dumpf(json, stdout, JSON_COMPACT);
	putchar('\n');
}

/* A member as text, "-" where there is none. Whatever it holds, nothing but text gets to the terminal. Returns how many characters. */
static int put(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);
	const char *text = json_string_value(value);
	int width = 0;

	if (json_is_integer(value))
		return printf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
	if (json_is_real(value))
		return printf("%.3g", json_real_value(value));
	if (json_is_boolean(value))
		return printf("%s", json_is_true(value) ? "yes" : "no");
	if (text == NULL || text[0] == '\0')
		return printf("-");
	for (; *text != '\0'; text++) {
		putchar((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text);
		width += ((unsigned char)*text & 0xc0) != 0x80; /* UTF-8 goes on */
	}
	return width;
}

static void column(const json_t *object, const char *name, int width)
{
	int used = put(object, name);

	printf("%*s", used < width ? width - used + 1 : 1, "");
}

/* ---- tasks ---- */

void show_tasks_title(void)
{
	printf("%-10s %-9s %-8s %-20s %-7s %-24s %-24s %s\n", "ID", "STATE", "ATTEMPTS", "TARGET", "METHOD", "PATH",
	    "DUE", "REASON");
}

void show_task_line(const json_t *task)
{
	column(task, "id", 10);
	column(task, "state", 9);
	column(task, "attempts", 8);
	column(task, "target", 20);
	column(task, "method", 7);
	column(task, json_object_get(task, "path") != NULL ? "path" : "url", 24);
	column(task, "due", 24);
	put(task, "reason");
	putchar('\n');
}

void show_task(const json_t *task)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)task, name, value)
	{
		if (json_is_null(value) || json_is_object(value) || json_is_array(value))
			continue;
		printf("%-11s ", name);
		put(task, name);
		putchar('\n');
	}
}

/* ---- attempts ---- */

void show_attempts_title(void)
{
	printf("\n%-4s %-24s %-12s %-5s %9s  %-21s %s\n", "#", "START", "OUTCOME", "CODE", "COST MS", "INSTANCE", "REASON");
}

void show_attempt_line(const json_t *attempt)
{
	const json_t *cost = json_object_get(attempt, "cost_ms");

	column(attempt, "number", 4);
	column(attempt, "start", 24);
	if (json_is_true(json_object_get(attempt, "interrupted")))
		printf("%-12s ", "interrupted");
	else
		column(attempt, "outcome", 12);
	column(attempt, "code", 5);
	if (json_is_number(cost))
		printf("%9.1f  ", json_number_value(cost));
	else
		printf("%9s  ", "-");
	column(attempt, "instance", 21);
	put(attempt, "reason");
	if (json_string_length(json_object_get(attempt, "detail")) > 0) {
		printf("  ");
		put(attempt, "detail");
	}
	putchar('\n');
}

/* ---- targets ---- */

void show_targets_title(void)
{
	printf("%-30s %-8s %7s %8s %11s %-9s %s\n", "TARGET", "STATE", "RUNNING", "WAITING", "CONCURRENCY", "BREAKER", "WHY");
}

static void right(const json_t *object, const char *name, int width)
{
	const json_t *value = json_object_get(object, name);

	if (json_is_integer(value))
		printf("%*" JSON_INTEGER_FORMAT " ", width, json_integer_value(value));
	else
		printf("%*s ", width, "-");
}

void show_target_line(const json_t *target)
{
	bool paused = json_is_true(json_object_get(target, "paused")),
	     draining = json_is_true(json_object_get(target, "draining"));

	column(target, "name", 30);
	printf("%-8s ", draining ? "draining" : paused ? "paused" : "open");
	right(target, "running", 7);
	right(target, "waiting", 8);
	right(target, "concurrency", 11);
	column(target, "breaker", 9);
	put(target, "why");
	if (json_is_string(json_object_get(target, "paused_until"))) {
		printf(", until ");
		put(target, "paused_until");
	}
	putchar('\n');
}
