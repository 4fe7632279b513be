/*
 * Adaptive concurrency limits. Guarantees: the limit stays within its bounds whatever is reported; it grows only while at least half of it is used; a
 * dropped call never makes it grow and never counts as a measurement.
 */
#include <rea/adaptive.h>

#include "base/bounds.h"

#include <rea/time.h>

#include <assert.h>
#include <float.h>
#include <math.h>

/* Gradient2: so many samples make a plain mean before the exponential one begins, lest the first call count for hundreds. */
#define WARM_UP 10
/* Vegas: the lowest latency holds for U[0.5, 1) · 30 · limit calls. */
#define PROBE_FACTOR 30

void rea_adaptive_options_init(struct rea_adaptive_options *options, enum rea_adaptive_rule rule)
{
	*options = (struct rea_adaptive_options){
	    .version = REA_ADAPTIVE_OPTIONS_VERSION,
	    .rule = rule,
	    .limit_start = rule == REA_ADAPTIVE_AIMD ? 10 : 20,
	    .limit_min = rule == REA_ADAPTIVE_GRADIENT2 ? 20 : 1,
	    .limit_max = rule == REA_ADAPTIVE_VEGAS ? 1000 : 200,
	    .queue = 4,
	    .smoothing = 0.2,
	    .tolerance = 1,
	    .window = 600,
	    .latency_ns_max = 5 * REA_NS_PER_S,
	};
}

static int check(const struct rea_adaptive_options *o, struct rea_error_info *info)
{
	const struct rea__bound bounds[] = {
	    {"rule", "rule", o->rule, 0, REA_ADAPTIVE_RULE_COUNT - 1, false, NULL},
	    {"limit_max", "limit_max", o->limit_max, 1, REA_ADAPTIVE_LIMIT_MAX, false, NULL},
	    {"limit_min", "limit_min", o->limit_min, 1, o->limit_max, false, "limit_max"},
	    {"limit_start", "limit_start", o->limit_start, o->limit_min, o->limit_max, false, "limit_min, limit_max"},
	    {"queue", "queue", o->queue, 0, 1000, false, NULL},
	    {"smoothing", "smoothing", o->smoothing, 0, 1, true, NULL},
	    {"tolerance", "tolerance", o->tolerance, 1, 10, false, NULL},
	    {"window", "window", o->window, WARM_UP, 1000000, false, NULL},
	    {"latency_ns_max", "latency_ns_max", (double)o->latency_ns_max, 1, DBL_MAX, false, NULL},
	};

	assert(o->version == REA_ADAPTIVE_OPTIONS_VERSION &&
	       "the options were not initialised by rea_adaptive_options_init");
	return rea__check_bounds(bounds, sizeof(bounds) / sizeof(bounds[0]), info);
}

static void choose_probe(struct rea_adaptive *adaptive)
{
	uint64_t span = PROBE_FACTOR * (uint64_t)adaptive->limit;

	adaptive->probe_in = span / 2 + rea_random_below(&adaptive->random, span - span / 2);
}

int rea_adaptive_init(struct rea_adaptive *adaptive, const struct rea_adaptive_options *options, struct rea_error_info *ret_info)
{
	if (check(options, ret_info) != 0)
		return REA_ERR_INVALID;
	*adaptive = (struct rea_adaptive){.options = *options, .limit = options->limit_start};
	rea_random_init(&adaptive->random, options->seed);
	choose_probe(adaptive);
	return 0;
}

static double clamp(double value, double min, double max)
{
	if (value < min)
		return min;
	return value < max ? value : max;
}

static void set_limit(struct rea_adaptive *adaptive, double limit)
{
	adaptive->limit = clamp(limit, adaptive->options.limit_min, adaptive->options.limit_max);
}

/* ---- gradient2 ---- */

static void average_add(struct rea_adaptive *adaptive, double latency_ns)
{
	double weight = 2.0 / (adaptive->options.window + 1.0);

	if (adaptive->samples < WARM_UP)
		weight = 1.0 / ++adaptive->samples;
	adaptive->long_ns += (latency_ns - adaptive->long_ns) * weight;
}

static double gradient_of(struct rea_adaptive *adaptive, double short_ns)
{
	double growth;

	average_add(adaptive, short_ns);
	growth = adaptive->long_ns / short_ns;
	/* After a slow time the long average comes down faster than by itself. */
	if (growth > 2)
		adaptive->long_ns *= 0.9;
	return clamp(adaptive->options.tolerance * growth, 0.5, 1);
}

static void report_gradient2(struct rea_adaptive *adaptive, double latency_ns, uint32_t in_flight, bool dropped)
{
	const struct rea_adaptive_options *options = &adaptive->options;
	double gradient = dropped ? 0.5 : gradient_of(adaptive, latency_ns);
	double limit = adaptive->limit * gradient + (dropped ? 0 : options->queue);

	if (in_flight < adaptive->limit / 2)
		return;
	set_limit(adaptive, adaptive->limit * (1 - options->smoothing) + limit * options->smoothing);
}

/* ---- aimd ---- */

static void report_aimd(struct rea_adaptive *adaptive, uint64_t latency_ns, uint32_t in_flight, bool dropped)
{
	double limit = adaptive->limit;

	if (dropped || latency_ns > adaptive->options.latency_ns_max)
		set_limit(adaptive, floor(limit * 9 / 10)); /* of a whole number, so it is at least one less */
	else if (2.0 * in_flight >= limit)
		set_limit(adaptive, limit + 1);
}

/* ---- vegas ---- */

/* The whole part of log10, at least 1. */
static uint32_t log10_of(double limit)
{
	uint32_t digits = 1;

	for (double bound = 100; bound <= limit; bound *= 10)
		digits++;
	return digits;
}

/* A measurement of the callee without a queue: the first, a lower one, and one now and then, since a route may have become longer. */
static bool probe(struct rea_adaptive *adaptive, uint64_t latency_ns)
{
	bool due = adaptive->probe_in == 0;

	if (due)
		choose_probe(adaptive);
	else
		adaptive->probe_in--;
	if (!due && adaptive->lowest_ns != 0 && latency_ns >= adaptive->lowest_ns)
		return false;
	adaptive->lowest_ns = latency_ns;
	return true;
}

static void report_vegas(struct rea_adaptive *adaptive, uint64_t latency_ns, uint32_t in_flight, bool dropped)
{
	double limit = adaptive->limit, queue;
	uint32_t step = log10_of(limit); /* whole, so that the limit is */

	if (dropped) {
		set_limit(adaptive, limit - step);
		return;
	}
	if (probe(adaptive, latency_ns) || 2.0 * in_flight < limit)
		return;
	queue = ceil(limit * (1 - (double)adaptive->lowest_ns / (double)latency_ns));
	if (queue <= step)
		set_limit(adaptive, limit + 6 * step);
	else if (queue < 3 * step)
		set_limit(adaptive, limit + step);
	else if (queue > 6 * step)
		set_limit(adaptive, limit - step);
}

uint32_t rea_adaptive_report(struct rea_adaptive *adaptive, uint64_t latency_ns, uint32_t in_flight, bool dropped)
{
	if (latency_ns == 0)
		latency_ns = 1;
	switch (adaptive->options.rule) {
	case REA_ADAPTIVE_GRADIENT2:
		report_gradient2(adaptive, (double)latency_ns, in_flight, dropped);
		break;
	case REA_ADAPTIVE_AIMD:
		report_aimd(adaptive, latency_ns, in_flight, dropped);
		break;
	case REA_ADAPTIVE_VEGAS:
		report_vegas(adaptive, latency_ns, in_flight, dropped);
		break;
	case REA_ADAPTIVE_RULE_COUNT:
		break;
	}
	return rea_adaptive_limit(adaptive);
}

uint32_t rea_adaptive_limit(const struct rea_adaptive *adaptive)
{
	return (uint32_t)adaptive->limit;
}

const char *rea_adaptive_rule_name(enum rea_adaptive_rule rule)
{
	static const char *const names[] = {
#define X(name, text) text,
	    REA_ADAPTIVE_RULE_MAP(X)
#undef X
	};

	return rule < REA_ADAPTIVE_RULE_COUNT ? names[rule] : "unknown";
}
