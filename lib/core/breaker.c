/*
 * Circuit breaker.
 *
 * Guarantees: half-open never hands out more permits than are permitted; a result decides only in the generation its
 * permit was given in.
 *
 *                        threshold reached
 *          ┌──────────┐ ──────────────────▶ ┌──────────┐ ◀──────────────────────────┐
 *       ──▶│  CLOSED  │                     │   OPEN   │  threshold reached, or     │
 *          └──────────┘                     └──────────┘  too long in half-open     │
 *               ▲                                │ wait passed, next acquire        │
 *               │ below the thresholds           ▼                                  │
 *               └─────────────────────────  ┌───────────┐ ──────────────────────────┘
 *                                           │ HALF_OPEN │
 *                                           └───────────┘
 *   transition               made by
 *   CLOSED    -> OPEN        decide_closed: a result of this generation reached a threshold
 *   OPEN      -> HALF_OPEN   rea_breaker_acquire: the wait has passed
 *   HALF_OPEN -> OPEN        decide_half_open; catch_up: permits did not come back in time
 *   HALF_OPEN -> CLOSED      decide_half_open
 *   any       -> any         rea_breaker_force
 *
 *   state         permits                 results go to                   holds
 *   CLOSED        all                     window, if of this generation   the window began with the state
 *   OPEN          none                    window                          since + wait_in_open is when it may be tried
 *   HALF_OPEN     permits_left            window; probes decide           permits_left + probes.calls <= permitted
 *   DISABLED      all                     nowhere
 *   FORCED_OPEN   none                    window
 *   METRICS_ONLY  all                     window                          never leaves by itself
 *
 * Each change of state begins a generation. The window lives on through OPEN and HALF_OPEN, where it decides nothing,
 * so that late results still show in the rates; closing starts it afresh.
 */
#include "core/breaker.h"

#include "base/probe.h"
#include "core/internal.h"
#include "core/window.h"

#include <rea/error.h>
#include <rea/time.h>

#include <assert.h>
#include <string.h>

struct rea_breaker {
	struct rea_breaker_policy policy;
	struct rea_alloc alloc;
	enum rea_breaker_state state;
	uint64_t generation;
	uint64_t now_ns;          /* latest seen */
	uint64_t since_ns;        /* the state began */
	uint32_t permits_left;    /* HALF_OPEN: probes that may still begin */
	struct rea__tally probes; /* HALF_OPEN: their results */
	void (*changed)(enum rea_breaker_state from, enum rea_breaker_state to, uint64_t now_ns, void *user_data);
	void *user_data;
	struct rea__window window;
	struct rea__tally slots[];
};

/* ---- state ---- */

static void breaker_assert_valid(const struct rea_breaker *breaker)
{
	const struct rea__tally *total = &breaker->window.total, *probes = &breaker->probes;

	assert(breaker->state < REA_BREAKER_STATE_COUNT);
	assert(breaker->since_ns <= breaker->now_ns);
	assert(total->failures <= total->calls && total->slow <= total->calls);
	assert(breaker->policy.window_type == REA_BREAKER_TIME_BASED || total->calls <= breaker->window.size);
	assert(probes->failures <= probes->calls && probes->slow <= probes->calls);
	if (breaker->state == REA_BREAKER_HALF_OPEN)
		assert(breaker->permits_left + probes->calls <= breaker->policy.permitted_in_half_open);
	else
		assert(breaker->permits_left == 0 && probes->calls == 0);
}

static bool may_follow(enum rea_breaker_state from, enum rea_breaker_state to)
{
	return (from == REA_BREAKER_CLOSED && to == REA_BREAKER_OPEN) ||
	       (from == REA_BREAKER_OPEN && to == REA_BREAKER_HALF_OPEN) ||
	       (from == REA_BREAKER_HALF_OPEN && (to == REA_BREAKER_OPEN || to == REA_BREAKER_CLOSED));
}

/* The only place where the state changes. */
static void change_state(struct rea_breaker *breaker, enum rea_breaker_state to, bool forced, uint64_t at_ns)
{
	enum rea_breaker_state from = breaker->state;

	assert(forced || may_follow(from, to));
	breaker->state = to;
	breaker->since_ns = at_ns;
	breaker->generation++;
	breaker->permits_left = to == REA_BREAKER_HALF_OPEN ? breaker->policy.permitted_in_half_open : 0;
	memset(&breaker->probes, 0, sizeof(breaker->probes));
	if (to == REA_BREAKER_CLOSED)
		rea__window_clear(&breaker->window);
	if (from == to)
		return;
	REA__PROBE(breaker_change, breaker, from, to, at_ns);
	if (breaker->changed)
		breaker->changed(from, to, at_ns, breaker->user_data);
}

static uint64_t open_until(const struct rea_breaker_policy *policy, uint64_t since_ns)
{
	return rea_time_add(since_ns, policy->wait_in_open_ns);
}

/* When half-open stops waiting for its permits. */
static uint64_t half_open_until(const struct rea_breaker *breaker)
{
	uint64_t wait_ns = breaker->policy.max_wait_in_half_open_ns;

	return wait_ns ? rea_time_add(breaker->since_ns, wait_ns) : REA_NEVER;
}

/* Bring the breaker to now. What a timer would have done meanwhile happens as of the time it was due. */
static uint64_t catch_up(struct rea_breaker *breaker, uint64_t now_ns)
{
	breaker_assert_valid(breaker);
	breaker->now_ns = rea_time_max(breaker->now_ns, now_ns);
	if (breaker->state == REA_BREAKER_HALF_OPEN && breaker->now_ns >= half_open_until(breaker))
		change_state(breaker, REA_BREAKER_OPEN, false, half_open_until(breaker));
	return breaker->now_ns;
}

REA__COLD int rea_breaker_new(const struct rea_breaker_policy *policy, const struct rea_alloc *alloc,
    struct rea_breaker **ret_breaker, struct rea_error_info *ret_info)
{
	struct rea_breaker *breaker;
	int error = rea_breaker_policy_validate(policy, ret_info);

	if (error != 0)
		return error;
	if (alloc == NULL)
		alloc = rea_alloc_default();
	breaker = alloc->realloc(NULL, sizeof(*breaker) + policy->window_size * sizeof(struct rea__tally), alloc->user_data);
	if (breaker == NULL)
		return REA_ERR_NOMEM;
	memset(breaker, 0, sizeof(*breaker));
	breaker->policy = *policy;
	breaker->alloc = *alloc;
	breaker->state = REA_BREAKER_CLOSED;
	rea__window_init(&breaker->window, policy, breaker->slots);
	*ret_breaker = breaker;
	return 0;
}

void rea_breaker_free(struct rea_breaker *breaker)
{
	if (breaker)
		breaker->alloc.free(breaker, breaker->alloc.user_data);
}

static bool take_permit(struct rea_breaker *breaker)
{
	switch (breaker->state) {
	case REA_BREAKER_CLOSED:
	case REA_BREAKER_DISABLED:
	case REA_BREAKER_METRICS_ONLY:
		return true;
	case REA_BREAKER_OPEN:
	case REA_BREAKER_FORCED_OPEN:
		return false;
	case REA_BREAKER_HALF_OPEN:
		if (breaker->permits_left == 0)
			return false;
		breaker->permits_left--;
		return true;
	case REA_BREAKER_STATE_COUNT:
		break;
	}
	assert(false);
	return false;
}

bool rea_breaker_acquire(struct rea_breaker *breaker, uint64_t now_ns, struct rea_breaker_permit *ret_permit)
{
	now_ns = catch_up(breaker, now_ns);
	if (breaker->state == REA_BREAKER_OPEN && now_ns >= open_until(&breaker->policy, breaker->since_ns))
		change_state(breaker, REA_BREAKER_HALF_OPEN, false, now_ns);
	ret_permit->given = take_permit(breaker);
	ret_permit->generation = breaker->generation;
	breaker_assert_valid(breaker);
	return ret_permit->given;
}

bool rea_breaker_permits(const struct rea_breaker *breaker, uint64_t now_ns)
{
	uint64_t reclaim_ns;

	now_ns = rea_time_max(breaker->now_ns, now_ns);
	switch (breaker->state) {
	case REA_BREAKER_CLOSED:
	case REA_BREAKER_DISABLED:
	case REA_BREAKER_METRICS_ONLY:
		return true;
	case REA_BREAKER_FORCED_OPEN:
		return false;
	case REA_BREAKER_OPEN:
		return now_ns >= open_until(&breaker->policy, breaker->since_ns);
	case REA_BREAKER_HALF_OPEN:
		reclaim_ns = half_open_until(breaker);
		return now_ns < reclaim_ns ? breaker->permits_left > 0 : now_ns >= open_until(&breaker->policy, reclaim_ns);
	case REA_BREAKER_STATE_COUNT:
		break;
	}
	assert(false);
	return false;
}

static void decide_closed(struct rea_breaker *breaker)
{
	const struct rea__tally *total = &breaker->window.total;

	if (total->calls >= rea__minimum_calls(&breaker->policy) && rea__over_threshold(&breaker->policy, total))
		change_state(breaker, REA_BREAKER_OPEN, false, breaker->now_ns);
}

static void decide_half_open(struct rea_breaker *breaker, bool failed, bool slow)
{
	const struct rea_breaker_policy *policy = &breaker->policy;
	uint32_t needed = policy->minimum_calls < policy->permitted_in_half_open ? policy->minimum_calls
										 : policy->permitted_in_half_open;

	rea__tally_count(&breaker->probes, failed, slow);
	if (breaker->probes.calls >= needed)
		change_state(breaker, rea__over_threshold(policy, &breaker->probes) ? REA_BREAKER_OPEN : REA_BREAKER_CLOSED,
		    false, breaker->now_ns);
}

static void count(struct rea_breaker *breaker, bool failed, bool slow, bool current)
{
	if (breaker->state == REA_BREAKER_DISABLED || (breaker->state == REA_BREAKER_CLOSED && !current))
		return;
	rea__window_add(&breaker->window, failed, slow, breaker->now_ns);
}

void rea_breaker_report(struct rea_breaker *breaker, struct rea_breaker_permit *permit, enum rea_breaker_result result,
    uint64_t latency_ns, uint64_t now_ns)
{
	bool failed = result == REA_BREAKER_FAILURE, slow = rea__is_slow(&breaker->policy, latency_ns);
	bool current;

	if (!permit->given)
		return;
	permit->given = false;
	catch_up(breaker, now_ns);
	current = permit->generation == breaker->generation;
	if (result == REA_BREAKER_IGNORED) {
		if (current && breaker->state == REA_BREAKER_HALF_OPEN)
			breaker->permits_left++;
	} else {
		count(breaker, failed, slow, current);
		if (current && breaker->state == REA_BREAKER_CLOSED)
			decide_closed(breaker);
		else if (current && breaker->state == REA_BREAKER_HALF_OPEN)
			decide_half_open(breaker, failed, slow);
	}
	breaker_assert_valid(breaker);
}

enum rea_breaker_state rea_breaker_state(const struct rea_breaker *breaker)
{
	return breaker->state;
}

void rea_breaker_force(struct rea_breaker *breaker, enum rea_breaker_state state, uint64_t now_ns)
{
	assert(state < REA_BREAKER_STATE_COUNT && "rea_breaker_force: the state is none of rea/breaker.h");
	now_ns = catch_up(breaker, now_ns);
	change_state(breaker, state, true, now_ns);
	breaker_assert_valid(breaker);
}

static struct rea__tally total_at(const struct rea_breaker *breaker, uint64_t now_ns)
{
	return rea__window_at(&breaker->window, rea_time_max(breaker->now_ns, now_ns));
}

double rea_breaker_failure_rate(const struct rea_breaker *breaker, uint64_t now_ns)
{
	struct rea__tally total = total_at(breaker, now_ns);

	return total.calls < rea__minimum_calls(&breaker->policy) ? -1 : rea__percent(total.failures, total.calls);
}

double rea_breaker_slow_call_rate(const struct rea_breaker *breaker, uint64_t now_ns)
{
	struct rea__tally total = total_at(breaker, now_ns);

	return total.calls < rea__minimum_calls(&breaker->policy) ? -1 : rea__percent(total.slow, total.calls);
}

void rea__breaker_look(const struct rea_breaker *breaker, uint64_t now_ns, struct rea__breaker_view *ret_view)
{
	const struct rea_breaker_policy *policy = &breaker->policy;
	uint64_t end_ns = REA_NEVER;

	if (breaker->state == REA_BREAKER_OPEN)
		end_ns = open_until(policy, breaker->since_ns);
	else if (breaker->state == REA_BREAKER_HALF_OPEN)
		end_ns = half_open_until(breaker);
	*ret_view = (struct rea__breaker_view){.policy = policy,
	    .state = breaker->state,
	    .left_ns = rea_time_sub(end_ns, rea_time_max(breaker->now_ns, now_ns)),
	    .permits_left = breaker->permits_left,
	    .calls = total_at(breaker, now_ns).calls,
	    .failure_rate = rea_breaker_failure_rate(breaker, now_ns),
	    .slow_call_rate = rea_breaker_slow_call_rate(breaker, now_ns)};
}

void rea_breaker_on_change(struct rea_breaker *breaker,
    void (*changed)(enum rea_breaker_state from, enum rea_breaker_state to, uint64_t now_ns, void *user_data), void *user_data)
{
	breaker->changed = changed;
	breaker->user_data = user_data;
}

const char *rea_breaker_state_name(enum rea_breaker_state state)
{
	static const char *const names[REA_BREAKER_STATE_COUNT] = {
#define X(name, text) text,
	    REA_BREAKER_STATE_MAP(X)
#undef X
	};

	return (size_t)state < REA_BREAKER_STATE_COUNT ? names[state] : "unknown";
}
