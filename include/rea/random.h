/*
 * A seeded generator (xoshiro256**). Plain data: embed it, copy it to replay. One thread at a time. Not for secrets.
 */
#ifndef REA_RANDOM_H
#define REA_RANDOM_H

#include <rea/api.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rea_random {
	uint64_t s[4]; /* private */
};

/* Any seed is good, 0 too. Equal seeds give equal sequences on every machine. */
REA_API void rea_random_init(struct rea_random *random, uint64_t seed);
REA_API uint64_t rea_random_next(struct rea_random *random);
/* Uniform in [0, bound); 0 when bound is 0. */
REA_API uint64_t rea_random_below(struct rea_random *random, uint64_t bound);

#ifdef __cplusplus
}
#endif
#endif
