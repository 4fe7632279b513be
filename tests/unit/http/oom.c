#include "oom.h"

#include <stdlib.h>

unsigned long oom_count, oom_at;
bool oom_for_good;

const struct rea_alloc *__wrap_rea_alloc_default(void);

void oom_start(unsigned long at, bool for_good)
{
	oom_count = 0;
	oom_at = at;
	oom_for_good = for_good;
}

static void *failing_realloc(void *ptr, size_t size, void *user_data)
{
	(void)user_data;
	oom_count++;
	if (oom_at != 0 && (oom_count == oom_at || (oom_for_good && oom_count > oom_at)))
		return NULL;
	return realloc(ptr, size);
}

static void *sure_realloc(void *ptr, size_t size, void *user_data)
{
	(void)user_data;
	return realloc(ptr, size);
}

static void plain_free(void *ptr, void *user_data)
{
	(void)user_data;
	free(ptr);
}

const struct rea_alloc oom_exempt = {NULL, sure_realloc, plain_free};

const struct rea_alloc *__wrap_rea_alloc_default(void)
{
	static const struct rea_alloc failing = {NULL, failing_realloc, plain_free};

	return &failing;
}
