/*
 * The allocator that objects are built with. Whoever makes an object gives one, or NULL for malloc and free;
 * nothing else in the libraries allocates. Copied into the object; user_data must outlive it.
 */
#ifndef REA_ALLOC_H
#define REA_ALLOC_H

#include <rea/api.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rea_alloc {
	void *user_data;
	/* Like realloc: ptr NULL allocates, never called with size 0. NULL = out of memory, ptr stays valid. */
	void *(*realloc)(void *ptr, size_t size, void *user_data);
	/* ptr may be NULL. */
	void (*free)(void *ptr, void *user_data);
};

/* malloc and free. Static; never NULL. */
REA_API const struct rea_alloc *rea_alloc_default(void);

#ifdef __cplusplus
}
#endif
#endif
