#include <rea/backoff.h>

#include <rea/time.h>

/* base^n, infinite when too large. At most 64 rounds; exact while the result has at most 53 significant bits. */
static double power(double base, uint64_t n)
{
	double result = 1;

	for (; n > 0; n >>= 1) {
		if (n & 1)
			result *= base;
		base *= base;
	}
	return result;
}

/* Of a value >= 0, to the nearest; what does not fit becomes UINT64_MAX. */
static uint64_t to_ns(double value)
{
	return value < 18446744073709551616.0 ? (uint64_t)(value + 0.5) : UINT64_MAX;
}

uint64_t rea_backoff_exponential(const struct rea_backoff *backoff, uint64_t n)
{
	double factor;

	/* Not `<=`: a multiplier that is no number does not multiply. */
	if (n <= 1 || backoff->base_ns == 0 || !(backoff->multiplier > 1))
		return rea_time_min(backoff->base_ns, backoff->cap_ns);
	factor = power(backoff->multiplier, n - 1);
	return rea_time_min(to_ns((double)backoff->base_ns * factor), backoff->cap_ns);
}

/* Uniform in [low, high]: the random bits are a fraction of the range, so that their middle is its middle. */
static uint64_t pick(uint64_t low_ns, uint64_t high_ns, uint64_t random)
{
	if (high_ns <= low_ns)
		return low_ns;
	return low_ns + (uint64_t)(((unsigned __int128)random * ((unsigned __int128)(high_ns - low_ns) + 1)) >> 64);
}

static uint64_t symmetric(const struct rea_backoff *backoff, uint64_t e_ns, uint64_t random)
{
	double ratio = backoff->ratio > 0 ? backoff->ratio : 0;
	uint64_t spread_ns = rea_time_min(to_ns((double)e_ns * ratio), e_ns);

	return pick(rea_time_max(backoff->floor_ns, e_ns - spread_ns), rea_time_add(e_ns, spread_ns), random);
}

static uint64_t full(const struct rea_backoff *backoff, uint64_t e_ns, uint64_t random)
{
	uint64_t range_ns = e_ns > backoff->floor_ns ? e_ns - backoff->floor_ns : 0;

	return pick(backoff->floor_ns, rea_time_add(backoff->floor_ns, rea_time_max(range_ns, REA_NS_PER_MS)), random);
}

uint64_t rea_backoff_delay(const struct rea_backoff *backoff, uint64_t n, uint64_t random)
{
	/* Cap first, jitter second: jitter before the cap would line half of all calls up on the cap. */
	uint64_t e_ns = rea_backoff_exponential(backoff, n);

	return rea_time_max(
	    backoff->jitter == REA_JITTER_FULL ? full(backoff, e_ns, random) : symmetric(backoff, e_ns, random),
	    REA_BACKOFF_NS_MIN);
}

uint64_t rea_backoff_server_wait(uint64_t after_ns, uint64_t random)
{
	return pick(after_ns, rea_time_add(after_ns, after_ns / 5), random);
}
