/* xoshiro256** by Blackman and Vigna, seeded through splitmix64. */
#include <rea/random.h>

static uint64_t rotate_left(uint64_t x, unsigned k)
{
	return (x << k) | (x >> (64 - k));
}

void rea_random_init(struct rea_random *random, uint64_t seed)
{
	for (size_t i = 0; i < 4; i++) {
		uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);

		z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
		z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
		random->s[i] = z ^ (z >> 31);
	}
}

uint64_t rea_random_next(struct rea_random *random)
{
	uint64_t *s = random->s, result = rotate_left(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate_left(s[3], 45);
	return result;
}

uint64_t rea_random_below(struct rea_random *random, uint64_t bound)
{
	/* The high half of the 128-bit product; the bias is below bound / 2^64. */
	return (uint64_t)(((unsigned __int128)rea_random_next(random) * bound) >> 64);
}
