/* What a breaker tells of itself beyond rea/breaker.h; the one that threads share tells the same. */
#ifndef REA_CORE_BREAKER_H
#define REA_CORE_BREAKER_H

#include <rea/breaker.h>

struct rea__breaker_view {
	const struct rea_breaker_policy *policy; /* borrowed while the breaker lives */
	enum rea_breaker_state state;
	uint64_t left_ns; /* OPEN: until it may be tried; HALF_OPEN: until permits that did not come back are given up; REA_NEVER = no limit */
	uint32_t permits_left;               /* HALF_OPEN */
	uint32_t calls;                      /* in the window */
	double failure_rate, slow_call_rate; /* percent; -1 below the minimum */
};

void rea__breaker_look(const struct rea_breaker *breaker, uint64_t now_ns, struct rea__breaker_view *ret_view);

#endif
