#include <rea/alloc.h>

#include <stdlib.h>

static void *default_realloc(void *ptr, size_t size, void *user_data)
{
	(void)user_data;
	return realloc(ptr, size);
}

static void default_free(void *ptr, void *user_data)
{
	(void)user_data;
	free(ptr);
}

const struct rea_alloc *rea_alloc_default(void)
{
	static const struct rea_alloc alloc = {NULL, default_realloc, default_free};

	return &alloc;
}
