/*
 * Leaving out an instance that does worse than its peers, and letting it back in.
 *
 *         judge                    sent, when due
 *   IN ──────────▶ OUT ──────────────────────────────────────▶ PROBED
 *   ▲               ▲ ◀──────── end: answered, cancelled ──────── │
 *   │               │ ◀──────── end: failed, the pause doubles ── │
 *   └───────────────────────────── end: answered for the third time
 *
 *   IN      until_ns is 0
 *   OUT     until_ns is when a probe is due; probe_ns is 0
 *   PROBED  probe_ns is when the probe was sent; until_ns is when it is forgotten, if its end is never told
 *
 * Guarantees: one probe at a time; only what was sent as a probe, or after it, decides; never more than half of a list is out; where everything fails
 * nothing is ejected, since only an instance that fails clearly more often than the others is, and only while those do well. "Clearly" is three
 * failures, both ways: that many more would not make the peers look bad, that many less would not make it look well. So a few unlucky attempts
 * decide nothing. An instance that says nothing while its peers answer need not be waited for three times.
 */
#include "core/internal.h"

#include <rea/time.h>

#define HALF_NS (2500 * REA_NS_PER_MS)
#define STREAK 3
#define ATTEMPTS_MIN 10
/* So many peers have to do well; or one less, if all that were asked do. */
#define OTHERS 3
#define PROOFS 3
#define PAUSE_NS_MIN (1600 * REA_NS_PER_MS)
#define PAUSE_NS_MAX (2400 * REA_NS_PER_MS)
/* 2 s, 4 s, 8 s, 16 s and then 30 s. */
#define DOUBLINGS_MAX 4
#define LONGEST 15
/* An instance that was in for so long begins with the first pause again; a probe that has not ended by then is forgotten. */
#define LONG_NS (30 * REA_NS_PER_S)
/* A probe, and an attempt at a suspect, may take so many times what its peers take; at least what a new connection with TLS may take. */
#define PROBE_LATENCIES 2
#define PROBE_NS_MIN (100 * REA_NS_PER_MS)
/* A wait in vain that took so many times what the peers take counts as two failures, and the next one is cut short. */
#define SILENCE_LATENCIES 8

struct tally {
	uint64_t attempts, failures;
};

bool rea_load_ejected(const struct rea_load *load)
{
	return load->ejection.until_ns != 0;
}

static uint64_t pause_ns(const struct rea_ejection *e)
{
	return (uint64_t)e->pause_ns * (e->doublings < DOUBLINGS_MAX ? 1U << e->doublings : LONGEST);
}

/* ---- what is seen of it ---- */

static void count(struct rea_ejection *e, bool answered, uint64_t sent_ns, uint64_t now_ns)
{
	uint64_t age_ns = rea_time_sub(now_ns, e->half_ns);

	if (age_ns >= HALF_NS) {
		bool known = age_ns < 2 * HALF_NS;

		e->attempts_before = known ? e->attempts : 0;
		e->failures_before = known ? e->failures : 0;
		e->attempts = e->failures = 0;
		e->half_ns = now_ns;
	}
	e->attempts++;
	e->failures += !answered;
	if (e->streak == 0)
		e->streak_ns = sent_ns;
	e->asked_ns = rea_time_max(e->asked_ns, sent_ns);
	if (answered)
		e->well_ns = rea_time_max(e->well_ns, sent_ns);
	e->streak = answered ? 0 : e->streak + 1;
	e->suspect &= !answered;
}

static void add_recent(struct tally *total, const struct rea_ejection *e, uint64_t now_ns)
{
	uint64_t age_ns = rea_time_sub(now_ns, e->half_ns);

	if (age_ns >= 2 * HALF_NS)
		return;
	total->attempts += e->attempts + (age_ns < HALF_NS ? e->attempts_before : 0);
	total->failures += e->failures + (age_ns < HALF_NS ? e->failures_before : 0);
}

/* A probe was answered. */
static void prove(struct rea_load *load, uint64_t latency_ns, uint64_t now_ns)
{
	struct rea_ejection *e = &load->ejection;

	if (e->proofs == 0) {
		/* What it was like before is no reason to shun it now. */
		load->failure_rate = 0;
		load->latency_ns = (double)latency_ns;
	}
	if (++e->proofs == PROOFS)
		*e = (struct rea_ejection){.since_ns = now_ns, .doublings = e->doublings, .pause_ns = e->pause_ns};
}

void rea__ejection_end(struct rea_load *load, const struct rea_report *report, bool answered, uint64_t now_ns)
{
	struct rea_ejection *e = &load->ejection;
	uint64_t sent_ns = rea_time_sub(now_ns, report->latency_ns);

	if (report->outcome != REA_OUTCOME_CANCELLED)
		count(e, answered, sent_ns, now_ns);
	/* One that was under way before knows nothing of how it is now. */
	if (e->probe_ns == 0 || sent_ns < e->probe_ns)
		return;
	e->probe_ns = 0;
	e->until_ns = now_ns;
	if (report->outcome == REA_OUTCOME_CANCELLED)
		return;
	if (!answered) {
		e->proofs = 0;
		e->doublings += e->doublings < DOUBLINGS_MAX;
		e->until_ns = rea_time_add(now_ns, pause_ns(e));
	} else {
		prove(load, report->latency_ns, now_ns);
	}
}

/* ---- its peers ---- */

/* Of those that are in: the mean of their latencies, 0 = not known; and when one of them last answered. */
struct peers {
	double latency_ns;
	uint64_t answered_ns;
};

static struct peers peers_of(const struct rea_instances *instances, size_t index)
{
	struct peers peers = {0, 0};
	uint32_t count = 0;

	for (size_t i = 0; i < instances->count; i++) {
		const struct rea_load *load = instances->items[i].load;

		if (i == index || load == NULL || load->latency_ns <= 0 || load->ejection.until_ns != 0)
			continue;
		peers.latency_ns += (load->latency_ns - peers.latency_ns) / ++count;
		peers.answered_ns = rea_time_max(peers.answered_ns, load->answered_ns);
	}
	return peers;
}

/* ---- probes ---- */

bool rea__may_probe(const struct rea__candidates *candidates, const struct rea_instance *instance)
{
	const struct rea_ejection *e = &instance->load->ejection;
	struct rea_grant grant = rea_grant_combine(candidates->grant, instance->grant);
	uint64_t due_ns = e->until_ns;

	/* Calls that would not be repeated are spared for another pause; if nothing else comes, the instance must not stay out for ever. */
	if (!(candidates->probes & REA__PERMISSION_BIT(grant.permission)))
		due_ns = rea_time_add(due_ns, pause_ns(e));
	return candidates->excluded_len == 0 && candidates->now_ns >= due_ns;
}

uint64_t rea__ejection_sent(
    const struct rea_instances *instances, size_t index, struct rea_grant grant, uint32_t probes, uint64_t now_ns)
{
	const struct rea_instance *instance = &instances->items[index];
	struct rea_ejection *e = &instance->load->ejection;
	bool probe = e->until_ns != 0 && now_ns >= e->until_ns;
	double latency_ns = 0;

	if (probe) {
		e->probe_ns = now_ns;
		e->until_ns = rea_time_add(now_ns, LONG_NS);
	}
	/* A call that would be repeated elsewhere need not find out at its caller's cost how long the instance takes. */
	if ((probe || e->suspect) && (probes & REA__PERMISSION_BIT(rea_grant_combine(grant, instance->grant).permission)))
		latency_ns = peers_of(instances, index).latency_ns;
	return latency_ns > 0 ? rea_time_max(PROBE_NS_MIN, (uint64_t)(latency_ns * PROBE_LATENCIES)) : REA_NEVER;
}

/* ---- the judgement ---- */

static bool is_worse(const struct tally *own, uint32_t streak, const struct tally *others)
{
	if (streak < STREAK && (own->attempts < ATTEMPTS_MIN || own->failures * 2 < own->attempts))
		return false;
	return own->failures >= STREAK && (others->failures + STREAK) * 10 < others->attempts * 3 &&
	       (own->failures - STREAK) * others->attempts >= 2 * others->failures * own->attempts;
}

/* Not only before: when everything begins to fail, one of them is the first to fail three times. */
static bool others_do_well(const struct rea_instances *instances, const struct rea_load *accused, uint64_t now_ns)
{
	uint32_t peers = 0, asked = 0, well = 0;

	for (size_t i = 0; i < instances->count; i++) {
		const struct rea_load *load = instances->items[i].load;

		if (load == NULL || load == accused || rea__is_ejected(&instances->items[i]) ||
		    rea_time_sub(now_ns, load->updated_ns) >= 2 * HALF_NS)
			continue;
		peers++;
		asked += load->ejection.asked_ns >= accused->ejection.streak_ns;
		well += load->ejection.well_ns >= accused->ejection.streak_ns;
	}
	/* Where calls come one after the other, the third has not yet been repeated when it is judged. */
	return well >= OTHERS || (well >= asked && well >= (peers < OTHERS - 1 ? peers : OTHERS - 1));
}

static void eject(struct rea_ejection *e, struct rea_random *random, uint64_t now_ns)
{
	bool soon = e->pause_ns != 0 && rea_time_sub(now_ns, e->since_ns) < LONG_NS;

	e->doublings = soon ? e->doublings + (e->doublings < DOUBLINGS_MAX) : 0;
	e->pause_ns = (uint32_t)(PAUSE_NS_MIN + rea_random_below(random, PAUSE_NS_MAX - PAUSE_NS_MIN + 1));
	e->since_ns = now_ns;
	e->proofs = 0;
	e->until_ns = rea_time_add(now_ns, pause_ns(e));
}

/* The failure ended a long wait, in which peers answered and this instance said nothing. */
static bool was_silent(const struct rea_instances *instances, size_t index, const struct rea_report *report, uint64_t now_ns)
{
	const struct rea_load *accused = instances->items[index].load;
	struct peers peers = peers_of(instances, index);
	double patience_ns = SILENCE_LATENCIES * peers.latency_ns;
	uint64_t sent_ns = rea_time_sub(now_ns, report->latency_ns);

	return rea_time_max(accused->busy_ns, accused->answered_ns) <= sent_ns &&
	       (double)report->latency_ns >= patience_ns && (double)rea_time_sub(now_ns, peers.answered_ns) < patience_ns;
}

void rea__balancer_judge(const struct rea_instances *instances, size_t index, const struct rea_report *report,
    struct rea_random *random, uint64_t now_ns)
{
	struct rea_load *accused = index != SIZE_MAX ? instances->items[index].load : NULL;
	struct tally own = {0, 0}, others = {0, 0};
	size_t out = 1;

	if (accused == NULL || instances->never_eject || rea_load_ejected(accused))
		return;
	if (was_silent(instances, index, report, now_ns)) {
		accused->ejection.suspect = true;
		accused->ejection.streak++;
	}
	for (size_t i = 0; i < instances->count; i++) {
		const struct rea_load *load = instances->items[i].load;

		if (rea__is_ejected(&instances->items[i]))
			out++;
		else if (load != NULL)
			add_recent(load == accused ? &own : &others, &load->ejection, now_ns);
	}
	/* A streak counts however long it took: an instance that fails is chosen ever less. */
	own.failures = rea_time_max(own.failures, accused->ejection.streak);
	own.attempts = rea_time_max(own.attempts, own.failures);
	if (out <= instances->count / 2 && is_worse(&own, accused->ejection.streak, &others) &&
	    others_do_well(instances, accused, now_ns))
		eject(&accused->ejection, random, now_ns);
}
