/*
 * What a breaker has seen lately: the results of the last calls, or those of the last seconds, with their running sum; and what the
 * thresholds say to it. The ground that the breaker of one thread and the one of many stand on.
 */
#ifndef REA_CORE_WINDOW_H
#define REA_CORE_WINDOW_H

#include <rea/policy.h>

struct rea__tally {
	uint32_t calls;
	uint32_t failures;
	uint32_t slow;
};

/* A ring of slots with its sum. A slot is one call of a count window, or one second of a time window. */
struct rea__window {
	struct rea__tally total;
	uint64_t head; /* slot under way: number of the next call, or the second */
	uint32_t size;
	bool timed;
	struct rea__tally *slots;
};

/* One more call. */
static inline void rea__tally_count(struct rea__tally *tally, bool failed, bool slow)
{
	tally->calls++;
	tally->failures += failed;
	tally->slow += slow;
}

static inline bool rea__is_slow(const struct rea_breaker_policy *policy, uint64_t latency_ns)
{
	return latency_ns > policy->slow_call_duration_ns;
}

/* slots: policy->window_size of them, borrowed while the window lives. */
void rea__window_init(struct rea__window *window, const struct rea_breaker_policy *policy, struct rea__tally *slots);
void rea__window_clear(struct rea__window *window);
/* The sum as it is at now, which is not earlier than what was added last. */
struct rea__tally rea__window_at(const struct rea__window *window, uint64_t now_ns);
/* One result, now. */
void rea__window_add(struct rea__window *window, bool failed, bool slow, uint64_t now_ns);
/* Good and quick calls that ended in the second of time_ns, which may be over; a count window takes them as the latest. */
void rea__window_add_successes(struct rea__window *window, uint64_t count, uint64_t time_ns);

/* Enough calls to decide on? A count window smaller than the minimum could never be full enough. */
uint32_t rea__minimum_calls(const struct rea_breaker_policy *policy);
double rea__percent(uint32_t part, uint32_t calls);
bool rea__over_threshold(const struct rea_breaker_policy *policy, const struct rea__tally *tally);

#endif
