#include "base/arena.h"

#include <stdalign.h>

#define CHUNK_SIZE_FIRST ((size_t)2048)
#define CHUNK_SIZE_MAX ((size_t)256 * 1024)

struct rea_arena_chunk {
	struct rea_arena_chunk *next;
	alignas(max_align_t) char bytes[];
};

void rea_arena_init(struct rea_arena *arena, const struct rea_alloc *alloc)
{
	memset(arena, 0, sizeof(*arena));
	arena->alloc = alloc;
	arena->chunk_size = CHUNK_SIZE_FIRST;
}

void rea_arena_fini(struct rea_arena *arena)
{
	struct rea_arena_chunk *chunk;

	while ((chunk = arena->chunks) != NULL) {
		arena->chunks = chunk->next;
		arena->alloc->free(chunk, arena->alloc->user_data);
	}
	arena->at = arena->end = NULL;
}

static struct rea_arena_chunk *add_chunk(struct rea_arena *arena, size_t size)
{
	struct rea_arena_chunk *chunk = arena->alloc->realloc(NULL, sizeof(*chunk) + size, arena->alloc->user_data);

	if (chunk == NULL)
		return NULL;
	chunk->next = arena->chunks;
	arena->chunks = chunk;
	return chunk;
}

void *rea_arena_alloc(struct rea_arena *arena, size_t size)
{
	struct rea_arena_chunk *chunk;
	void *piece;

	if (size > SIZE_MAX / 2)
		return NULL;
	/* A size of 0 too takes room, or its pointer might be NULL, which means something else. */
	size = (size / alignof(max_align_t) + 1) * alignof(max_align_t);
	if (size > arena->chunk_size / 2) {
		/* A big piece gets a chunk of its own, and the current one stays in use. */
		chunk = add_chunk(arena, size);
		return chunk ? memset(chunk->bytes, 0, size) : NULL;
	}
	if ((size_t)(arena->end - arena->at) < size) {
		chunk = add_chunk(arena, arena->chunk_size);
		if (chunk == NULL)
			return NULL;
		arena->at = chunk->bytes;
		arena->end = chunk->bytes + arena->chunk_size;
		if (arena->chunk_size < CHUNK_SIZE_MAX)
			arena->chunk_size *= 2;
	}
	piece = arena->at;
	arena->at += size;
	return memset(piece, 0, size);
}

void *rea_arena_array(struct rea_arena *arena, size_t count, size_t size)
{
	return size != 0 && count > SIZE_MAX / size ? NULL : rea_arena_alloc(arena, count * size);
}

char *rea_arena_string(struct rea_arena *arena, struct rea_slice text)
{
	char *copy = rea_arena_alloc(arena, text.length + 1);

	if (copy != NULL && text.length > 0)
		memcpy(copy, text.data, text.length);
	return copy;
}
