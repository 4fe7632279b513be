/* Guarantee: an index belongs to one thread at a time, and who takes it sees all that its last owner wrote. */
#include <rea/shared.h>

#include <rea/error.h>

#include <assert.h>
#include <string.h>

void rea_shards_init(struct rea_shards *shards, uint32_t max)
{
	assert(max >= 1 && max <= REA_SHARDS_MAX && "rea_shards_init: max is out of its bounds");
	memset(shards, 0, sizeof(*shards));
	shards->max = max;
}

/* The lowest free index below max in this word of the map, or -1. */
static int take_in_word(struct rea_shards *shards, uint32_t word)
{
	uint64_t taken = __atomic_load_n(&shards->taken[word], __ATOMIC_RELAXED);

	while (~taken != 0) {
		int bit = __builtin_ctzll(~taken);

		if (64 * word + (uint32_t)bit >= shards->max)
			return -1;
		if (__atomic_compare_exchange_n(&shards->taken[word], &taken, taken | UINT64_C(1) << bit, true,
			__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return bit;
	}
	return -1;
}

int rea_shards_take(struct rea_shards *shards, uint32_t *ret_shard)
{
	for (uint32_t word = 0; 64 * word < shards->max; word++) {
		int bit = take_in_word(shards, word);

		if (bit < 0)
			continue;
		*ret_shard = 64 * word + (uint32_t)bit;
		return 0;
	}
	return REA_ERR_FULL;
}

void rea_shards_give_back(struct rea_shards *shards, uint32_t shard)
{
	uint64_t bit = UINT64_C(1) << shard % 64, before;

	assert(shard < shards->max && "rea_shards_give_back: there is no such shard");
	before = __atomic_fetch_and(&shards->taken[shard / 64], ~bit, __ATOMIC_RELEASE);
	assert((before & bit) != 0 && "rea_shards_give_back: the shard is not taken");
	(void)before;
}
