/*
 * Time as the library sees it: monotonic nanoseconds in a uint64_t, handed in by the caller.
 * REA_NEVER is later than everything. All arithmetic on times goes through these helpers, which saturate.
 */
#ifndef REA_TIME_H
#define REA_TIME_H

#include <rea/api.h>

#define REA_NEVER UINT64_MAX
#define REA_NS_PER_US UINT64_C(1000)
#define REA_NS_PER_MS UINT64_C(1000000)
#define REA_NS_PER_S UINT64_C(1000000000)

static inline uint64_t rea_time_add(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns > REA_NEVER - b_ns ? REA_NEVER : a_ns + b_ns;
}

/* 0 when b is later than a. REA_NEVER minus anything finite is REA_NEVER. */
static inline uint64_t rea_time_sub(uint64_t a_ns, uint64_t b_ns)
{
	if (a_ns == REA_NEVER)
		return REA_NEVER;
	return a_ns > b_ns ? a_ns - b_ns : 0;
}

static inline uint64_t rea_time_min(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

static inline uint64_t rea_time_max(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns > b_ns ? a_ns : b_ns;
}

static inline uint64_t rea_time_mul(uint64_t a_ns, uint64_t factor)
{
	if (factor != 0 && a_ns > REA_NEVER / factor)
		return REA_NEVER;
	return a_ns * factor;
}

static inline uint64_t rea_time_from_ms(uint64_t ms)
{
	return rea_time_mul(ms, REA_NS_PER_MS);
}

/* Rounds up, so that a positive time never reads as 0 ms. */
static inline uint64_t rea_time_to_ms(uint64_t ns)
{
	return ns / REA_NS_PER_MS + (ns % REA_NS_PER_MS != 0);
}

#endif
