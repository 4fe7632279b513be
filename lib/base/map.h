/*
 * A table from texts to numbers (mostly an index into somebody's array), open addressing. Nothing is ever removed.
 * Zero-initialised it is empty and uses malloc.
 */
#ifndef REA_BASE_MAP_H
#define REA_BASE_MAP_H

#include "base/slice.h"

#include <rea/alloc.h>

struct rea_map_slot {
	const char *key; /* NULL = free */
	uint32_t length;
	uint32_t value;
};

struct rea_map {
	const struct rea_alloc *alloc; /* borrowed; NULL = malloc */
	struct rea_map_slot *slots;
	size_t capacity; /* 0, or a power of two of which at most half is used */
	size_t count;
};

void rea_map_fini(struct rea_map *map);
/* Room for count keys in all. Returns 0 or REA_ERR_NOMEM, the map unchanged. */
int rea_map_reserve(struct rea_map *map, size_t count);
/* key: not in the map yet; borrowed while the map lives. Returns 0 or REA_ERR_NOMEM, the map unchanged. */
int rea_map_insert(struct rea_map *map, struct rea_slice key, uint32_t value);
bool rea_map_find(const struct rea_map *map, struct rea_slice key, uint32_t *ret_value);

#endif
