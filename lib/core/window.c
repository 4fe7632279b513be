/*
 * Guarantees: a result costs the same whatever the window holds (a time window also clears each second that has passed, once); the sum is that of
 * the slots; nothing overflows.
 */
#include "core/window.h"

#include <rea/time.h>

#include <string.h>

#define WINDOW_SECONDS_MAX 3600
/* Calls that one second of a time window counts; the rates stay right without the rest, and the sum of all seconds
 * cannot overflow. */
#define SLOT_CALLS_MAX (UINT32_MAX / WINDOW_SECONDS_MAX)

static void tally_subtract(struct rea__tally *tally, const struct rea__tally *part)
{
	tally->calls -= part->calls;
	tally->failures -= part->failures;
	tally->slow -= part->slow;
}

void rea__window_init(struct rea__window *window, const struct rea_breaker_policy *policy, struct rea__tally *slots)
{
	window->head = 0;
	window->size = policy->window_size;
	window->timed = policy->window_type == REA_BREAKER_TIME_BASED;
	window->slots = slots;
	rea__window_clear(window);
}

void rea__window_clear(struct rea__window *window)
{
	memset(window->slots, 0, window->size * sizeof(*window->slots));
	memset(&window->total, 0, sizeof(window->total));
}

/* How many slots of a time window hold seconds that have left it at second. */
static uint32_t stale_slots(const struct rea__window *window, uint64_t second)
{
	uint64_t passed = second - window->head;

	return passed < window->size ? (uint32_t)passed : window->size;
}

/* Without the seconds that have left it. */
static struct rea__tally total_in_second(const struct rea__window *window, uint64_t second)
{
	uint32_t stale = stale_slots(window, second);
	struct rea__tally total = window->total;

	for (uint32_t i = 1; i <= stale; i++)
		tally_subtract(&total, &window->slots[(window->head + i) % window->size]);
	return total;
}

struct rea__tally rea__window_at(const struct rea__window *window, uint64_t now_ns)
{
	return window->timed ? total_in_second(window, now_ns / REA_NS_PER_S) : window->total;
}

/* Each second is cleared once, however many results it gets. */
static void advance(struct rea__window *window, uint64_t second)
{
	uint32_t stale = stale_slots(window, second);

	window->total = total_in_second(window, second);
	for (uint32_t i = 1; i <= stale; i++)
		memset(&window->slots[(window->head + i) % window->size], 0, sizeof(*window->slots));
	window->head = second;
}

static void add_as_next(struct rea__window *window, bool failed, bool slow)
{
	struct rea__tally *slot = &window->slots[window->head++ % window->size];

	tally_subtract(&window->total, slot);
	slot->calls = 1;
	slot->failures = failed;
	slot->slow = slow;
	rea__tally_count(&window->total, failed, slow);
}

void rea__window_add(struct rea__window *window, bool failed, bool slow, uint64_t now_ns)
{
	struct rea__tally *slot;

	if (!window->timed) {
		add_as_next(window, failed, slow);
		return;
	}
	advance(window, now_ns / REA_NS_PER_S);
	slot = &window->slots[window->head % window->size];
	if (slot->calls == SLOT_CALLS_MAX)
		return;
	rea__tally_count(slot, failed, slow);
	rea__tally_count(&window->total, failed, slow);
}

/* second: not later than the head. */
static void add_successes_in_second(struct rea__window *window, uint64_t count, uint64_t second)
{
	struct rea__tally *slot = &window->slots[second % window->size];
	uint32_t fit = (uint32_t)rea_time_min(count, SLOT_CALLS_MAX - slot->calls);

	if (window->head - second >= window->size)
		return;
	slot->calls += fit;
	window->total.calls += fit;
}

void rea__window_add_successes(struct rea__window *window, uint64_t count, uint64_t time_ns)
{
	uint64_t second = time_ns / REA_NS_PER_S;

	if (!window->timed) {
		/* More than the window holds would only go round. */
		for (uint64_t i = rea_time_min(count, window->size); i > 0; i--)
			add_as_next(window, false, false);
		return;
	}
	if (second > window->head)
		advance(window, second);
	add_successes_in_second(window, count, second);
}

uint32_t rea__minimum_calls(const struct rea_breaker_policy *policy)
{
	if (policy->window_type == REA_BREAKER_COUNT_BASED && policy->window_size < policy->minimum_calls)
		return policy->window_size;
	return policy->minimum_calls;
}

double rea__percent(uint32_t part, uint32_t calls)
{
	return (double)part * 100.0 / (double)calls;
}

bool rea__over_threshold(const struct rea_breaker_policy *policy, const struct rea__tally *tally)
{
	return rea__percent(tally->failures, tally->calls) >= policy->failure_rate_threshold ||
	       rea__percent(tally->slow, tally->calls) >= policy->slow_call_rate_threshold;
}
