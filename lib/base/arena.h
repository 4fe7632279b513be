/*
 * Memory that is given back all at once. Pieces are zeroed and aligned for any object. Not a byte is copied or
 * moved later, so pointers into an arena stay good until rea_arena_fini.
 */
#ifndef REA_BASE_ARENA_H
#define REA_BASE_ARENA_H

#include "base/slice.h"

#include <rea/alloc.h>

struct rea_arena_chunk;

struct rea_arena {
	const struct rea_alloc *alloc; /* borrowed while the arena lives */
	struct rea_arena_chunk *chunks;
	char *at;
	char *end;
	size_t chunk_size; /* of the next chunk */
};

void rea_arena_init(struct rea_arena *arena, const struct rea_alloc *alloc);
void rea_arena_fini(struct rea_arena *arena);
/* NULL = out of memory. A size of 0 gives a pointer that must not be read. */
void *rea_arena_alloc(struct rea_arena *arena, size_t size);
/* The same for count objects; NULL also when the product does not fit a size_t. */
void *rea_arena_array(struct rea_arena *arena, size_t count, size_t size);
/* A terminated copy. */
char *rea_arena_string(struct rea_arena *arena, struct rea_slice text);

#endif
