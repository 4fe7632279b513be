#include "base/map.h"

#include "base/hash.h"

#include <rea/error.h>

#include <assert.h>

#define CAPACITY_MIN 8

static const struct rea_alloc *alloc_of(const struct rea_map *map)
{
	return map->alloc ? map->alloc : rea_alloc_default();
}

void rea_map_fini(struct rea_map *map)
{
	alloc_of(map)->free(map->slots, alloc_of(map)->user_data);
	map->slots = NULL;
	map->capacity = map->count = 0;
}

/* The slot that holds the key, or the free one where it belongs. */
static struct rea_map_slot *slot_of(const struct rea_map *map, struct rea_slice key)
{
	size_t mask = map->capacity - 1;
	size_t i = (size_t)rea_hash(key.data, key.length) & mask;

	while (map->slots[i].key != NULL && !rea_slice_equal(rea_slice_make(map->slots[i].key, map->slots[i].length), key))
		i = (i + 1) & mask;
	return &map->slots[i];
}

int rea_map_reserve(struct rea_map *map, size_t count)
{
	struct rea_map bigger = *map;

	if (map->capacity / 2 >= count)
		return 0;
	if (bigger.capacity == 0)
		bigger.capacity = CAPACITY_MIN;
	while (bigger.capacity / 2 < count) {
		if (bigger.capacity > SIZE_MAX / 2 / sizeof(*map->slots))
			return REA_ERR_NOMEM;
		bigger.capacity *= 2;
	}
	bigger.slots = alloc_of(map)->realloc(NULL, bigger.capacity * sizeof(*map->slots), alloc_of(map)->user_data);
	if (bigger.slots == NULL)
		return REA_ERR_NOMEM;
	memset(bigger.slots, 0, bigger.capacity * sizeof(*map->slots));
	for (size_t i = 0; i < map->capacity; i++)
		if (map->slots[i].key != NULL)
			*slot_of(&bigger, rea_slice_make(map->slots[i].key, map->slots[i].length)) = map->slots[i];
	alloc_of(map)->free(map->slots, alloc_of(map)->user_data);
	*map = bigger;
	return 0;
}

int rea_map_insert(struct rea_map *map, struct rea_slice key, uint32_t value)
{
	struct rea_map_slot *slot;
	int error = rea_map_reserve(map, map->count + 1);

	if (error != 0)
		return error;
	assert(key.data != NULL && key.length <= UINT32_MAX);
	slot = slot_of(map, key);
	assert(slot->key == NULL);
	*slot = (struct rea_map_slot){key.data, (uint32_t)key.length, value};
	map->count++;
	return 0;
}

bool rea_map_find(const struct rea_map *map, struct rea_slice key, uint32_t *ret_value)
{
	const struct rea_map_slot *slot;

	if (map->count == 0)
		return false;
	slot = slot_of(map, key);
	if (slot->key == NULL)
		return false;
	*ret_value = slot->value;
	return true;
}
