/* An allocator for tests that counts what lives and fails at will. */
#ifndef REA_TESTS_FAIL_ALLOC_H
#define REA_TESTS_FAIL_ALLOC_H

#include <rea/alloc.h>

#include <stdlib.h>

struct fail_alloc {
	struct rea_alloc alloc;
	size_t left;   /* allocations that still succeed */
	bool for_good; /* after the first failure all fail; else only that one */
	size_t failed;
	size_t live;
};

static inline void *fail_alloc_realloc(void *ptr, size_t size, void *user_data)
{
	struct fail_alloc *failing = user_data;
	void *result;

	if (failing->left == 0 && (failing->for_good || failing->failed == 0)) {
		failing->failed++;
		return NULL;
	}
	if (failing->left > 0)
		failing->left--;
	result = realloc(ptr, size);
	if (result == NULL)
		abort();
	failing->live += ptr == NULL;
	return result;
}

static inline void fail_alloc_free(void *ptr, void *user_data)
{
	struct fail_alloc *failing = user_data;

	failing->live -= ptr != NULL;
	free(ptr);
}

/* The allocation after `left` good ones fails. */
static inline void fail_alloc_init(struct fail_alloc *failing, size_t left, bool for_good)
{
	*failing = (struct fail_alloc){{failing, fail_alloc_realloc, fail_alloc_free}, left, for_good, 0, 0};
}

#endif
