/*
 * The rate limiter: GCRA, told as a line of time.
 *
 * Each permit takes a stretch of the line as long as the interval; no two stretches overlap, and none begins before the moment of its reservation.
 * Permits may be used burst intervals before their stretch ends:
 *
 *        now                         taken_to
 *   ──────┼──────▓▓▓▓▓▓▓▓░░░░▓▓▓▓▓▓▓▓┼────────▶      ▓ taken  ░ a gap: given back, to be taken first
 *
 * What is used in [a, b] lies on the line within [a, b + burst · interval], so it is at most burst + (b - a) / interval permits, however
 * reservations and cancellations mix. taken_to is GCRA's theoretical arrival time. Without gaps a decision is two additions and a comparison; of
 * gaps there are at most REA_RATE_GAPS_MAX, and the earliest is forgotten first: its permits are lost, never doubled.
 */
#include <rea/rate.h>

#include "base/bounds.h"
#include "core/internal.h"

#include <assert.h>
#include <string.h>

void rea_rate_options_init(struct rea_rate_options *options)
{
	*options = (struct rea_rate_options){
	    .version = REA_RATE_OPTIONS_VERSION, .permits = 50, .period_ns = REA_NS_PER_S, .burst = 50};
}

static int check(const struct rea_rate_options *options, struct rea_error_info *info)
{
	double period_us = (double)options->period_ns / (double)REA_NS_PER_US;
	bool dense = period_us < REA_RATE_PERMITS_MAX;
	const struct rea__bound bounds[] = {
	    {"period_ns", "period_ns", (double)options->period_ns, (double)REA_RATE_PERIOD_NS_MIN,
		(double)REA_RATE_PERIOD_NS_MAX, false, NULL},
	    {"permits", "permits", options->permits, 1, dense ? period_us : REA_RATE_PERMITS_MAX, false,
		dense ? "one in a microsecond" : NULL},
	    {"burst", "burst", options->burst, 1, REA_RATE_BURST_MAX, false, NULL},
	};

	assert(options->version == REA_RATE_OPTIONS_VERSION &&
	       "the options were not initialised by rea_rate_options_init");
	return rea__check_bounds(bounds, sizeof(bounds) / sizeof(bounds[0]), info);
}

REA__COLD int rea_rate_configure(struct rea_rate *rate, const struct rea_rate_options *options, struct rea_error_info *ret_info)
{
	if (check(options, ret_info) != 0)
		return REA_ERR_INVALID;
	rate->interval_ns = (options->period_ns + options->permits - 1) / options->permits;
	rate->burst = options->burst;
	return 0;
}

int rea_rate_init(struct rea_rate *rate, const struct rea_rate_options *options, struct rea_error_info *ret_info)
{
	struct rea_rate fresh = {.taken_to_ns = 0};

	if (rea_rate_configure(&fresh, options, ret_info) != 0)
		return REA_ERR_INVALID;
	*rate = fresh;
	return 0;
}

static void rate_assert_valid(const struct rea_rate *rate)
{
	assert(rate->gaps_len <= REA_RATE_GAPS_MAX);
	for (uint32_t i = 0; i < rate->gaps_len; i++) {
		uint64_t next_ns = i + 1 < rate->gaps_len ? rate->gaps[i + 1].start_ns : rate->taken_to_ns;

		assert(rate->gaps[i].start_ns < rate->gaps[i].end_ns && rate->gaps[i].end_ns < next_ns);
	}
}

static uint64_t latest(const struct rea_rate *rate, uint64_t now_ns)
{
	return rea_time_max(rate->now_ns, now_ns);
}

static void remove_gap(struct rea_rate *rate, uint32_t index)
{
	rate->gaps_len--;
	memmove(&rate->gaps[index], &rate->gaps[index + 1], (rate->gaps_len - index) * sizeof(rate->gaps[0]));
}

/* What is past can never be taken. */
static void see_time(struct rea_rate *rate, uint64_t now_ns)
{
	rate->now_ns = latest(rate, now_ns);
	while (rate->gaps_len > 0 && rate->gaps[0].end_ns <= rate->now_ns)
		remove_gap(rate, 0);
}

/* The first place from now on for something that long: in a gap, whose index is returned, or behind all (gaps_len). */
static uint32_t find_place(const struct rea_rate *rate, uint64_t length_ns, uint64_t now_ns, struct rea_rate_stretch *ret_place)
{
	uint32_t i;

	ret_place->start_ns = rea_time_max(rate->taken_to_ns, now_ns);
	for (i = 0; i < rate->gaps_len; i++) {
		uint64_t start_ns = rea_time_max(rate->gaps[i].start_ns, now_ns);

		if (rea_time_sub(rate->gaps[i].end_ns, start_ns) < length_ns)
			continue;
		ret_place->start_ns = start_ns;
		break;
	}
	ret_place->end_ns = rea_time_add(ret_place->start_ns, length_ns);
	return i;
}

/* REA_NEVER for a place that reaches to the end of time. */
static uint64_t wait_of(const struct rea_rate *rate, const struct rea_rate_stretch *place, uint64_t now_ns)
{
	return rea_time_sub(rea_time_sub(place->end_ns, rate->burst * rate->interval_ns), now_ns);
}

/* What of the gap lies before the place is past. */
static void occupy(struct rea_rate *rate, uint32_t gap, const struct rea_rate_stretch *place)
{
	if (gap == rate->gaps_len) {
		rate->taken_to_ns = place->end_ns;
		return;
	}
	rate->gaps[gap].start_ns = place->end_ns;
	if (rate->gaps[gap].start_ns == rate->gaps[gap].end_ns)
		remove_gap(rate, gap);
}

bool rea_rate_reserve(struct rea_rate *rate, uint32_t permits, uint64_t wait_max_ns, uint64_t now_ns,
    struct rea_rate_reservation *ret_reservation)
{
	struct rea_rate_reservation reservation;
	uint32_t gap;

	assert(permits >= 1 && "rea_rate: permits is 0");
	if (permits > rate->burst)
		return false;
	see_time(rate, now_ns);
	gap = find_place(rate, permits * rate->interval_ns, rate->now_ns, &reservation.stretch);
	reservation.wait_ns = wait_of(rate, &reservation.stretch, rate->now_ns);
	if (reservation.wait_ns > wait_max_ns || reservation.wait_ns == REA_NEVER)
		return false;
	occupy(rate, gap, &reservation.stretch);
	rate_assert_valid(rate);
	*ret_reservation = reservation;
	return true;
}

bool rea_rate_acquire(struct rea_rate *rate, uint32_t permits, uint64_t now_ns)
{
	struct rea_rate_reservation at_once;

	return rea_rate_reserve(rate, permits, 0, now_ns, &at_once);
}

uint64_t rea_rate_wait(const struct rea_rate *rate, uint32_t permits, uint64_t now_ns)
{
	struct rea_rate_stretch place;

	assert(permits >= 1 && "rea_rate: permits is 0");
	if (permits > rate->burst)
		return REA_NEVER;
	now_ns = latest(rate, now_ns);
	find_place(rate, permits * rate->interval_ns, now_ns, &place);
	return wait_of(rate, &place, now_ns);
}

/* Between its neighbours, as one with those that it touches. */
static void add_gap(struct rea_rate *rate, struct rea_rate_stretch gap)
{
	uint32_t i = 0;

	while (i < rate->gaps_len && rate->gaps[i].end_ns < gap.start_ns)
		i++;
	while (i < rate->gaps_len && rate->gaps[i].start_ns <= gap.end_ns) {
		gap.start_ns = rea_time_min(gap.start_ns, rate->gaps[i].start_ns);
		gap.end_ns = rea_time_max(gap.end_ns, rate->gaps[i].end_ns);
		remove_gap(rate, i);
	}
	if (rate->gaps_len == REA_RATE_GAPS_MAX) {
		if (i == 0)
			return;
		remove_gap(rate, 0);
		i--;
	}
	memmove(&rate->gaps[i + 1], &rate->gaps[i], (rate->gaps_len - i) * sizeof(rate->gaps[0]));
	rate->gaps[i] = gap;
	rate->gaps_len++;
}

/* A gap at the end of the line is none. */
static void pull_back(struct rea_rate *rate)
{
	while (rate->gaps_len > 0 && rate->gaps[rate->gaps_len - 1].end_ns == rate->taken_to_ns)
		rate->taken_to_ns = rate->gaps[--rate->gaps_len].start_ns;
}

void rea_rate_cancel(struct rea_rate *rate, struct rea_rate_reservation *reservation, uint64_t now_ns)
{
	struct rea_rate_stretch stretch = reservation->stretch;

	if (stretch.end_ns == 0)
		return;
	*reservation = (struct rea_rate_reservation){.wait_ns = 0};
	see_time(rate, now_ns);
	add_gap(rate, stretch);
	pull_back(rate);
	rate_assert_valid(rate);
}
