/*
 * Which instance an attempt goes to: of two drawn at random by weight, the less loaded one. Two, because one is blind and all of them send
 * every thread to the same best instance at once.
 *
 * Guarantees: idle instances are picked exactly by their weights; an instance that is worse is picked less but never forgotten, as what
 * was seen of it fades; failing fast never makes an instance look good.
 */
#include <rea/balancer.h>

#include "core/internal.h"

#include <rea/time.h>

#include <assert.h>

/* Share of the newest sample in a moving average. */
#define SAMPLE_WEIGHT 0.15
/* What was seen of an instance counts half after this time without news of it. */
#define HALF_LIFE_NS (10 * REA_NS_PER_S)
/* Below this all latencies are alike. */
#define LATENCY_NS_MIN 1000.0
/* Loads closer than this are equal: noise must not override the weights. */
#define TIE 1.15

/* Nothing is excluded and everything permitted, as for each first attempt. */
static bool have_all(const struct rea__candidates *candidates)
{
	return candidates->excluded_len == 0 && candidates->permitted == REA__PERMISSIONS_ALL;
}

bool rea__candidates_have(const struct rea__candidates *candidates, const struct rea_instance *instance)
{
	struct rea_grant grant;

	if (!candidates->ejected && rea__is_ejected(instance) && !rea__may_probe(candidates, instance))
		return false;
	if (have_all(candidates))
		return true;
	grant = rea_grant_combine(candidates->grant, instance->grant);
	return (candidates->permitted & REA__PERMISSION_BIT(grant.permission)) != 0 &&
	       !rea__instance_id_in(&instance->id, candidates->excluded, candidates->excluded_len);
}

/* ---- what is seen of an instance ---- */

/* 2^-(silence / half-life): exact at whole half-lives, straight lines between them. */
static double fading(const struct rea_load *load, uint64_t now_ns)
{
	uint64_t silence_ns = rea_time_sub(now_ns, load->updated_ns), halvings = silence_ns / HALF_LIFE_NS;
	double part = (double)(silence_ns % HALF_LIFE_NS) / (double)HALF_LIFE_NS;

	return halvings < 63 ? (1 - part / 2) / (double)(UINT64_C(1) << halvings) : 0;
}

void rea_load_begin(struct rea_load *load, uint64_t now_ns)
{
	if (load->in_flight++ == 0)
		load->busy_ns = now_ns;
}

void rea_load_end(struct rea_load *load, const struct rea_report *report, uint64_t now_ns)
{
	/* The longer the silence, the more the newest sample counts; before the first there was none, but good faith. */
	double kept = (1 - SAMPLE_WEIGHT) * (load->samples > 0 ? fading(load, now_ns) : 1);
	double latency_ns = (double)report->latency_ns;
	bool answered = report->outcome == REA_OUTCOME_OK || report->outcome == REA_OUTCOME_PERMANENT;

	assert(load->in_flight > 0);
	load->in_flight--;
	if (answered)
		load->answered_ns = rea_time_max(load->answered_ns, now_ns);
	if (answered && load->latency_ns <= 0)
		load->latency_ns = latency_ns;
	else if (answered || (load->latency_ns > 0 && latency_ns > load->latency_ns))
		/* A failure, or a caller who left, tells only how long there was no answer. */
		load->latency_ns = kept * load->latency_ns + (1 - kept) * latency_ns;
	if (report->outcome != REA_OUTCOME_CANCELLED) {
		load->failure_rate = kept * load->failure_rate + (answered ? 0 : 1 - kept);
		load->samples += load->samples < UINT32_MAX;
		load->updated_ns = rea_time_max(load->updated_ns, now_ns);
	}
	rea__ejection_end(load, report, answered, now_ns);
}

/* ---- the choice ---- */

static uint32_t weight_of(const struct rea_instance *instance)
{
	return instance->weight > 0 ? instance->weight : 1;
}

/* How long it has owed an answer. */
static double silence_of(const struct rea_load *load, uint64_t now_ns)
{
	if (load == NULL || load->in_flight == 0)
		return 0;
	return (double)rea_time_sub(now_ns, rea_time_max(load->busy_ns, load->answered_ns));
}

/* Of two instances, a unless b is clearly less loaded: how long one more request would take on it, in effect. */
static size_t less_loaded(const struct rea_instances *instances, size_t a, size_t b, double mean_weight, uint64_t now_ns)
{
	static const struct rea_load unmeasured = {0};
	const struct rea_instance *pair[] = {&instances->items[a], &instances->items[b]};
	double latency[2], load[2];

	for (size_t i = 0; i < 2; i++) {
		const struct rea_load *seen = pair[i]->load ? pair[i]->load : &unmeasured;
		double faded = fading(seen, now_ns), success = 1.02 - seen->failure_rate * faded;

		latency[i] = seen->latency_ns * faded;
		load[i] = (1 + seen->in_flight * mean_weight / weight_of(pair[i])) / (success * success);
	}
	for (size_t i = 0; i < 2; i++) {
		/* An unknown latency counts as the other's: a new instance is neither flooded nor shunned. */
		double expected = latency[i] > 0 ? latency[i] : latency[1 - i], silence = silence_of(pair[i]->load, now_ns);

		/* It takes at least as long as it is taking. */
		expected = expected > silence ? expected : silence;
		load[i] *= expected > LATENCY_NS_MIN ? expected : LATENCY_NS_MIN;
	}
	return load[1] * TIE < load[0] ? b : a;
}

static size_t choose_listed(const struct rea_instances *instances, const struct rea__candidates *candidates)
{
	size_t best = SIZE_MAX;

	for (size_t i = 0; i < instances->count; i++)
		if ((best == SIZE_MAX || instances->items[i].tier < instances->items[best].tier) &&
		    rea__candidates_have(candidates, &instances->items[i]))
			best = i;
	return best;
}

/* A candidate of this tier other than skip, drawn by weight. weight: the sum of theirs, > 0. */
static size_t draw(const struct rea_instances *instances, const struct rea__candidates *candidates, uint32_t tier,
    size_t skip, uint64_t weight, struct rea_random *random)
{
	uint64_t rest = rea_random_below(random, weight);
	size_t i = 0;

	for (;; i++) {
		assert(i < instances->count);
		if (i == skip || instances->items[i].tier != tier || !rea__candidates_have(candidates, &instances->items[i]))
			continue;
		if (rest < weight_of(&instances->items[i]))
			return i;
		rest -= weight_of(&instances->items[i]);
	}
}

static size_t choose_weighted(const struct rea_instances *instances, const struct rea__candidates *candidates,
    struct rea_random *random, uint64_t now_ns)
{
	uint64_t weight = 0;
	uint32_t tier = UINT32_MAX;
	size_t count = 0, a, b;

	/* Of the lowest tier that has any. */
	for (size_t i = 0; i < instances->count; i++) {
		const struct rea_instance *instance = &instances->items[i];

		if (instance->tier > tier || !rea__candidates_have(candidates, instance))
			continue;
		if (instance->tier < tier)
			weight = count = 0;
		tier = instance->tier;
		weight += weight_of(instance);
		count++;
	}
	if (count == 0)
		return SIZE_MAX;
	a = draw(instances, candidates, tier, SIZE_MAX, weight, random);
	if (count == 1)
		return a;
	b = draw(instances, candidates, tier, a, weight - weight_of(&instances->items[a]), random);
	return less_loaded(instances, a, b, (double)weight / (double)count, now_ns);
}

/* All are candidates with the same weight. */
static size_t choose_equal(const struct rea_instances *instances, const struct rea__candidates *candidates,
    struct rea_random *random, uint64_t now_ns)
{
	size_t a, b;

	if (instances->count < 2)
		return instances->count == 1 ? 0 : SIZE_MAX;
	a = (size_t)rea_random_below(random, instances->count);
	b = (size_t)rea_random_below(random, instances->count - 1);
	if (b >= a)
		b++;
	/* Only a draw that meets an ejected one looks at the whole list. */
	if (rea__is_ejected(&instances->items[a]) || rea__is_ejected(&instances->items[b]))
		return choose_weighted(instances, candidates, random, now_ns);
	return less_loaded(instances, a, b, weight_of(&instances->items[0]), now_ns);
}

size_t rea__balancer_choose(const struct rea_instances *instances, const struct rea__candidates *candidates,
    struct rea_random *random, uint64_t now_ns)
{
	if (instances->balance == REA_BALANCE_LISTED)
		return choose_listed(instances, candidates);
	if (instances->equal_weights && have_all(candidates))
		return choose_equal(instances, candidates, random, now_ns);
	return choose_weighted(instances, candidates, random, now_ns);
}

size_t rea_balancer_choose(const struct rea_instances *instances, const struct rea_instance_id *excluded,
    size_t excluded_len, struct rea_random *random, uint64_t now_ns)
{
	struct rea__candidates candidates = {.excluded = excluded,
	    .excluded_len = excluded_len,
	    .permitted = REA__PERMISSIONS_ALL,
	    .ejected = instances->never_eject,
	    .now_ns = now_ns};
	size_t chosen = rea__balancer_choose(instances, &candidates, random, now_ns);

	candidates.ejected = true;
	return chosen != SIZE_MAX ? chosen : rea__balancer_choose(instances, &candidates, random, now_ns);
}
