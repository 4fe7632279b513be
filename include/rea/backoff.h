/*
 * How long to wait before a retry. Pure: the random value is an argument.
 */
#ifndef REA_BACKOFF_H
#define REA_BACKOFF_H

#include <rea/api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* No delay is ever shorter. */
#define REA_BACKOFF_NS_MIN UINT64_C(1000000)

enum rea_jitter {
	REA_JITTER_SYMMETRIC, /* uniform in [max(floor, e(1-j)), e(1+j)] */
	REA_JITTER_FULL       /* floor + U(0, max(1 ms, e - floor)) */
};

struct rea_backoff {
	uint64_t base_ns;
	uint64_t cap_ns;   /* of the exponential, before jitter; >= base_ns */
	double multiplier; /* >= 1 */
	double ratio;      /* of the symmetric jitter, 0..1 */
	uint64_t floor_ns; /* no jittered delay is below it */
	enum rea_jitter jitter;
};

/* min(cap, base · multiplier^(n-1)) of retry n >= 1, saturating; n = 0 counts as 1. Constant time. */
REA_API uint64_t rea_backoff_exponential(const struct rea_backoff *backoff, uint64_t n);
/* The same with jitter. random: 64 uniform bits; the same bits give the same delay. Never below REA_BACKOFF_NS_MIN. */
REA_API uint64_t rea_backoff_delay(const struct rea_backoff *backoff, uint64_t n, uint64_t random);
/* A server's wait with jitter, which only ever adds: in [after_ns, after_ns · 1.2]. */
REA_API uint64_t rea_backoff_server_wait(uint64_t after_ns, uint64_t random);

#ifdef __cplusplus
}
#endif
#endif
