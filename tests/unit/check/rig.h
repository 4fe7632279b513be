/* A check with one allocator, and what it finds. */
#ifndef REA_TESTS_CHECK_RIG_H
#define REA_TESTS_CHECK_RIG_H

#include "check/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline struct check *new_check(const struct check_options *options)
{
	struct check_options defaults = {.product_max = CHECK_PRODUCT_MAX_DEFAULT};
	struct check *check = NULL;

	assert_int_equal(check_new(options ? options : &defaults, NULL, &check), 0);
	return check;
}

static inline void add(struct check *check, const char *name, const char *text)
{
	struct rea_error_info info = {.line = 0};
	int error = check_add(check, name, text, strlen(text), &info);

	if (error != 0)
		fail_msg("%s:%u:%u: %s", name, info.line, info.column, info.message);
}

/* How many findings of a rule there are. */
static inline size_t found(const struct check *check, const char *rule)
{
	size_t count = 0;

	for (const struct check_finding *finding = check->findings; finding != NULL; finding = finding->next)
		count += strcmp(finding->rule->id, rule) == 0;
	return count;
}

#endif
