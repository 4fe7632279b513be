/*
 * Guarantees: a retry on evidence is granted only outside of congestion, while at least 15 % of the attempts succeed, and at most twice for each
 * first attempt of the last 2 s and four times more; the others cost a token each, of which there are two at first and one for ten
 * first attempts, never more than two at a time. No number here is rounded away: the tokens are thousandths.
 */
#include "core/evidence.h"

#include <rea/time.h>

#include <assert.h>
#include <math.h>
#include <string.h>

#define TOKENS_MAX (2 * REA__EVIDENCE_TOKEN)
#define TOKENS_FOR_A_FIRST (REA__EVIDENCE_TOKEN / 10)
/* Shares of the newest sample in the moving averages. */
#define SUCCESS_WEIGHT 0.15
#define LATENCY_WEIGHT 0.12
#define PUSHBACK_WEIGHT 0.1
/* Of the newest slice in the variance. */
#define VARIANCE_WEIGHT 0.25
/* Samples are clipped at so many standard deviations of the last slices. */
#define CLIP_SIGMAS 2.5
#define SLICE_NS (5 * REA_NS_PER_S)
#define SLICE_SAMPLES_MIN 20
#define SUCCESS_MIN 0.15
#define PUSHBACK_MAX 0.05
#define TIMEOUTS_MAX 0.05
#define TIMEOUTS_MANY 0.5
/* With many timeouts so much of the band is enough. */
#define TIMEOUTS_THETA 0.6
#define OUTCOMES_MIN 8
#define CONGESTED_NS (300 * REA_NS_PER_MS)
#define TROUBLE_NS (2 * REA_NS_PER_S)
#define RETRIES_PER_FIRST 2
#define FIRSTS_SPARE 2
/* A call that so many instances could not be reached for knows of no living one. */
#define DEAD_INSTANCES 3
/* Averages lose all meaning in the underflow of what they keep. */
#define BATCH_SUCCESSES_MAX 1024

void rea__evidence_reset(struct rea__evidence *evidence)
{
	*evidence = (struct rea__evidence){
	    .generation = evidence->generation + 1, .tokens = TOKENS_MAX, .success = 1, .instances = 1};
}

/* ---- one thread's batch ---- */

static double clip(double value, double max)
{
	return value > max ? max : value < -max ? -max : value;
}

static void measure(struct rea__evidence_batch *batch, double x, uint64_t now_ns)
{
	double apart = clip(x - batch->centre, batch->clip);

	if (!batch->measured)
		batch->latency_from = batch->latency = x;
	batch->measured = true;
	batch->latency += LATENCY_WEIGHT * (x - batch->latency);
	batch->keep_latency *= 1 - LATENCY_WEIGHT;
	batch->samples++;
	batch->sum += x;
	if (now_ns < batch->congested_until_ns)
		return;
	batch->calm++;
	batch->calm_sum += apart;
	batch->calm_squares += apart * apart;
}

bool rea__evidence_batch_success(struct rea__evidence_batch *batch, uint64_t latency_ns, uint64_t now_ns)
{
	batch->successes++;
	batch->ok_ns = now_ns;
	batch->keep_success *= 1 - SUCCESS_WEIGHT;
	batch->keep_pushback *= 1 - PUSHBACK_WEIGHT;
	if (latency_ns > 0)
		measure(batch, log((double)latency_ns), now_ns);
	return batch->latency > batch->hot_above || batch->successes >= BATCH_SUCCESSES_MAX;
}

/* ---- the last 2 s ---- */

/* An earlier now counts as the latest seen. */
static void see_time(struct rea__evidence *evidence, uint64_t now_ns)
{
	if (evidence->now_ns == 0)
		evidence->last_ok_ns = evidence->slice_ns = now_ns;
	evidence->now_ns = rea_time_max(evidence->now_ns, now_ns);
}

static struct rea__evidence_slot *slot_at(struct rea__evidence *evidence, uint32_t number)
{
	struct rea__evidence_slot *slot = &evidence->slots[number % REA__EVIDENCE_SLOTS];

	if (slot->number != number)
		*slot = (struct rea__evidence_slot){.number = number};
	return slot;
}

static struct rea__evidence_slot *slot_now(struct rea__evidence *evidence)
{
	return slot_at(evidence, rea__evidence_slot_number(evidence->now_ns));
}

static bool in_window(const struct rea__evidence *evidence, uint32_t number)
{
	return rea__evidence_slot_number(evidence->now_ns) - number < REA__EVIDENCE_SLOTS;
}

static struct rea__evidence_slot window_sum(const struct rea__evidence *evidence)
{
	struct rea__evidence_slot sum = {0};

	for (size_t i = 0; i < REA__EVIDENCE_SLOTS; i++) {
		const struct rea__evidence_slot *slot = &evidence->slots[i];

		if (!in_window(evidence, slot->number))
			continue;
		sum.firsts += slot->firsts;
		sum.retries += slot->retries;
		sum.outcomes += slot->outcomes;
		sum.timeouts += slot->timeouts;
		sum.timeout_instances |= slot->timeout_instances;
	}
	return sum;
}

/* ---- congestion ---- */

static bool has_baseline(const struct rea__evidence *evidence)
{
	return evidence->means_len >= 2;
}

/* How far the latency is above what it is in quiet times. */
static double excess(const struct rea__evidence *evidence)
{
	return has_baseline(evidence) ? evidence->latency - evidence->baseline : 0;
}

static uint32_t bits(uint32_t set)
{
	uint32_t count = 0;

	for (; set != 0; set &= set - 1)
		count++;
	return count;
}

/* Many attempts time out, and not only those at one sick instance. */
static bool timeouts_everywhere(const struct rea__evidence *evidence, const struct rea__evidence_slot *sum)
{
	uint32_t instances = evidence->instances < 32 ? evidence->instances : 32;

	return sum->outcomes >= OUTCOMES_MIN && sum->timeouts > TIMEOUTS_MAX * sum->outcomes &&
	       2 * bits(sum->timeout_instances) > instances;
}

static struct rea_evidence heat_of(const struct rea__evidence *evidence, const struct rea__evidence_slot *sum)
{
	double timeouts = sum->outcomes > 0 ? (double)sum->timeouts / sum->outcomes : 0;

	if (has_baseline(evidence) && excess(evidence) > evidence->theta)
		return (struct rea_evidence){.kind = REA_EVIDENCE_LATENCY, .value = exp(excess(evidence))};
	if (timeouts_everywhere(evidence, sum) &&
	    (timeouts > TIMEOUTS_MANY || (has_baseline(evidence) && excess(evidence) > TIMEOUTS_THETA * evidence->theta)))
		return (struct rea_evidence){.kind = REA_EVIDENCE_TIMEOUTS, .value = timeouts};
	if (evidence->pushback > PUSHBACK_MAX)
		return (struct rea_evidence){.kind = REA_EVIDENCE_PUSHBACK, .value = evidence->pushback};
	return (struct rea_evidence){.kind = REA_EVIDENCE_NONE};
}

/* After an outcome, and only then: what is known does not become news by being looked at again. */
static void judge(struct rea__evidence *evidence, const struct rea__evidence_slot *sum, uint64_t outcome_ns)
{
	struct rea_evidence heat = heat_of(evidence, sum);

	if (heat.kind == REA_EVIDENCE_NONE)
		return;
	evidence->heat = heat;
	evidence->congested_until_ns = rea_time_max(evidence->congested_until_ns, rea_time_add(outcome_ns, CONGESTED_NS));
}

/* ---- the baseline ---- */

static double second_smallest(const double *values, uint32_t count)
{
	double first = INFINITY, second = INFINITY;

	for (uint32_t i = 0; i < count; i++) {
		if (values[i] < first) {
			second = first;
			first = values[i];
		} else if (values[i] < second) {
			second = values[i];
		}
	}
	return second;
}

/* Of the slice's calm samples, about their own mean. */
static double slice_variance(const struct rea__evidence *evidence)
{
	double mean = evidence->calm_sum / evidence->calm;
	double variance = evidence->calm_squares / evidence->calm - mean * mean;

	return variance > 0 ? variance : 0;
}

static void close_slice(struct rea__evidence *evidence)
{
	if (evidence->samples < SLICE_SAMPLES_MIN || rea_time_sub(evidence->now_ns, evidence->slice_ns) < SLICE_NS)
		return;
	if (evidence->calm >= SLICE_SAMPLES_MIN)
		evidence->variance =
		    evidence->means_len == 0
			? slice_variance(evidence)
			: evidence->variance + VARIANCE_WEIGHT * (slice_variance(evidence) - evidence->variance);
	evidence->centre = evidence->sum / evidence->samples;
	evidence->means[evidence->means_next] = evidence->centre;
	evidence->means_next = (evidence->means_next + 1) % REA__EVIDENCE_MEANS;
	if (evidence->means_len < REA__EVIDENCE_MEANS)
		evidence->means_len++;
	evidence->baseline = second_smallest(evidence->means, evidence->means_len);
	evidence->theta = fmax(log(2), 4.5 * sqrt(evidence->variance * LATENCY_WEIGHT / (2 - LATENCY_WEIGHT)));
	evidence->slice_ns = evidence->now_ns;
	evidence->samples = evidence->calm = 0;
	evidence->sum = evidence->calm_sum = evidence->calm_squares = 0;
}

/* ---- merging ---- */

static void earn(struct rea__evidence *evidence, uint32_t firsts)
{
	uint64_t tokens = evidence->tokens + (uint64_t)firsts * TOKENS_FOR_A_FIRST;

	evidence->tokens = (uint32_t)rea_time_min(tokens, TOKENS_MAX);
	evidence->firsts += firsts;
}

/* Calm samples, whose deviations were taken from the batch's centre. */
static void bring_in_calm(struct rea__evidence *evidence, const struct rea__evidence_batch *batch)
{
	double shift = batch->centre - evidence->centre;

	evidence->calm += batch->calm;
	evidence->calm_sum += batch->calm_sum + batch->calm * shift;
	evidence->calm_squares += batch->calm_squares + 2 * shift * batch->calm_sum + batch->calm * shift * shift;
}

/* What follows one another in a batch is brought in as if it had come at once: every average is linear in what it was before. */
static void bring_in(struct rea__evidence *evidence, const struct rea__evidence_batch *batch)
{
	if (in_window(evidence, batch->slot)) {
		struct rea__evidence_slot *slot = slot_at(evidence, batch->slot);

		slot->firsts += batch->firsts;
		slot->outcomes += batch->successes;
	}
	earn(evidence, batch->firsts);
	evidence->success = 1 - (1 - evidence->success) * batch->keep_success;
	evidence->pushback *= batch->keep_pushback;
	evidence->last_ok_ns = rea_time_max(evidence->last_ok_ns, batch->ok_ns);
	if (batch->samples == 0)
		return;
	evidence->latency = evidence->measured
				? batch->latency + batch->keep_latency * (evidence->latency - batch->latency_from)
				: batch->latency;
	evidence->measured = true;
	evidence->samples += batch->samples;
	evidence->sum += batch->sum;
	bring_in_calm(evidence, batch);
}

/* A success with a latency above this would be found hot: what is hot whatever the latency makes each of them news. */
static double hot_above(const struct rea__evidence *evidence, const struct rea__evidence_slot *sum)
{
	bool timeouts = timeouts_everywhere(evidence, sum);

	if (evidence->pushback > PUSHBACK_MAX || (timeouts && sum->timeouts > TIMEOUTS_MANY * sum->outcomes))
		return -INFINITY;
	if (!has_baseline(evidence))
		return INFINITY;
	return evidence->baseline + (timeouts ? TIMEOUTS_THETA : 1) * evidence->theta;
}

static void tell(
    const struct rea__evidence *evidence, const struct rea__evidence_slot *sum, struct rea__evidence_batch *ret_batch)
{
	*ret_batch = (struct rea__evidence_batch){
	    .slot = rea__evidence_slot_number(evidence->now_ns),
	    .generation = evidence->generation,
	    .keep_success = 1,
	    .keep_pushback = 1,
	    .keep_latency = 1,
	    .measured = evidence->measured,
	    .latency_from = evidence->latency,
	    .latency = evidence->latency,
	    .hot_above = hot_above(evidence, sum),
	    .centre = evidence->centre,
	    .clip = evidence->means_len > 0 ? CLIP_SIGMAS * sqrt(evidence->variance) : INFINITY,
	    .congested_until_ns = evidence->congested_until_ns,
	};
}

void rea__evidence_merge(struct rea__evidence *evidence, struct rea__evidence_batch *batch, uint64_t now_ns)
{
	bool valid = batch->generation == evidence->generation;
	struct rea__evidence_slot sum;

	see_time(evidence, now_ns);
	if (valid)
		bring_in(evidence, batch);
	sum = window_sum(evidence);
	if (valid && batch->successes > 0)
		judge(evidence, &sum, batch->ok_ns);
	close_slice(evidence);
	tell(evidence, &sum, batch);
}

void rea__evidence_failure(struct rea__evidence *evidence, struct rea__evidence_batch *batch,
    const struct rea__budget_attempt *attempt, uint64_t now_ns)
{
	struct rea__evidence_slot *slot, sum;

	rea__evidence_merge(evidence, batch, now_ns);
	slot = slot_now(evidence);
	slot->outcomes++;
	if (attempt->result == REA_BUDGET_TIMEOUT) {
		slot->timeouts++;
		slot->timeout_instances |= UINT32_C(1) << attempt->instance % 32;
	}
	evidence->instances = attempt->instances;
	if (!attempt->stop)
		evidence->success -= SUCCESS_WEIGHT * evidence->success;
	evidence->pushback += PUSHBACK_WEIGHT * ((attempt->result == REA_BUDGET_THROTTLING) - evidence->pushback);
	sum = window_sum(evidence);
	judge(evidence, &sum, evidence->now_ns);
	tell(evidence, &sum, batch);
}

/* ---- asking ---- */

static double tokens_of(const struct rea__evidence *evidence)
{
	return (double)evidence->tokens / REA__EVIDENCE_TOKEN;
}

static bool is_congested(const struct rea__evidence *evidence)
{
	return evidence->now_ns < evidence->congested_until_ns;
}

static bool succeeds(const struct rea__evidence *evidence)
{
	return evidence->success >= SUCCESS_MIN;
}

static bool is_dead(const struct rea__evidence *evidence, const struct rea__budget_question *question)
{
	uint32_t enough = question->instances < DEAD_INSTANCES ? question->instances : DEAD_INSTANCES;

	return question->refused_by >= enough && !(question->parked && evidence->last_ok_ns > question->parked_ns);
}

static bool has_room(const struct rea__evidence_slot *sum)
{
	return sum->retries < RETRIES_PER_FIRST * ((uint64_t)sum->firsts + FIRSTS_SPARE);
}

/* What speaks against a retry, the heaviest first; NONE = nothing. */
static struct rea_evidence against(const struct rea__evidence *evidence, const struct rea__budget_question *question)
{
	struct rea__evidence_slot sum = window_sum(evidence);

	if (is_dead(evidence, question))
		return (struct rea_evidence){.kind = REA_EVIDENCE_DEAD, .value = question->refused_by};
	if (!succeeds(evidence))
		return (struct rea_evidence){.kind = REA_EVIDENCE_SUCCESS, .value = evidence->success};
	if (is_congested(evidence))
		return evidence->heat;
	if (!has_room(&sum))
		return (struct rea_evidence){.kind = REA_EVIDENCE_RETRIES, .value = sum.retries};
	return (struct rea_evidence){.kind = REA_EVIDENCE_NONE};
}

/* The backlog of an outage must not come back at once. */
static bool has_to_spread(const struct rea__evidence *evidence, const struct rea__budget_question *question)
{
	return question->parked && !question->spread && evidence->last_ok_ns > question->parked_ns &&
	       evidence->trouble_ns != 0 && rea_time_sub(evidence->now_ns, evidence->trouble_ns) < TROUBLE_NS;
}

/* Is there hope that the service is back in time? */
static bool may_park(const struct rea__evidence *evidence, const struct rea__budget_question *question)
{
	uint64_t parked_ns = question->parked ? rea_time_sub(evidence->now_ns, question->parked_ns) : 0;

	return parked_ns < question->park_max_ns &&
	       (succeeds(evidence) || rea_time_sub(evidence->now_ns, evidence->last_ok_ns) < question->park_max_ns);
}

enum rea__budget_answer rea__evidence_ask(struct rea__evidence *evidence, const struct rea__budget_question *question,
    uint64_t now_ns, bool *ret_token, struct rea_evidence *ret_says)
{
	bool spreads;

	see_time(evidence, now_ns);
	*ret_says = against(evidence, question);
	spreads = has_to_spread(evidence, question);
	if (question->pushback || ret_says->kind == REA_EVIDENCE_DEAD || ret_says->kind == REA_EVIDENCE_SUCCESS)
		evidence->trouble_ns = evidence->now_ns;
	if (spreads) {
		*ret_says = (struct rea_evidence){.kind = REA_EVIDENCE_RECOVERING,
		    .value = (double)rea_time_sub(evidence->now_ns, question->parked_ns)};
		return REA__BUDGET_SPREAD;
	}
	*ret_token = ret_says->kind != REA_EVIDENCE_NONE;
	if (!*ret_token || evidence->tokens >= REA__EVIDENCE_TOKEN) {
		ret_says->kind = REA_EVIDENCE_NONE;
		return REA__BUDGET_GRANTED;
	}
	ret_says->tokens = tokens_of(evidence);
	return !question->pushback && may_park(evidence, question) ? REA__BUDGET_PARK : REA__BUDGET_REFUSED;
}

void rea__evidence_take(struct rea__evidence *evidence, bool token, uint64_t now_ns)
{
	see_time(evidence, now_ns);
	if (token) {
		assert(evidence->tokens >= REA__EVIDENCE_TOKEN);
		evidence->tokens -= REA__EVIDENCE_TOKEN;
		evidence->token_retries++;
		/* 10 % of the first attempts, and 2. */
		assert(evidence->token_retries * 10 <= evidence->firsts + 20);
	} else {
		struct rea__evidence_slot sum = window_sum(evidence);

		assert(succeeds(evidence) && !is_congested(evidence) && has_room(&sum));
	}
	slot_now(evidence)->retries++;
}

void rea__evidence_give_back(struct rea__evidence *evidence, bool token, uint64_t taken_ns)
{
	uint32_t number = rea__evidence_slot_number(taken_ns);
	struct rea__evidence_slot *slot = &evidence->slots[number % REA__EVIDENCE_SLOTS];

	if (slot->number == number && slot->retries > 0)
		slot->retries--;
	if (!token)
		return;
	evidence->tokens = (uint32_t)rea_time_min(evidence->tokens + REA__EVIDENCE_TOKEN, TOKENS_MAX);
	if (evidence->token_retries > 0)
		evidence->token_retries--;
}

/* ---- looking ---- */

uint64_t rea__evidence_available(struct rea__evidence *evidence, uint64_t now_ns)
{
	static const struct rea__budget_question anyone = {.failure = REA_BUDGET_TRANSIENT, .instances = 1};
	uint64_t tokens = evidence->tokens / REA__EVIDENCE_TOKEN;
	struct rea__evidence_slot sum;

	see_time(evidence, now_ns);
	sum = window_sum(evidence);
	if (against(evidence, &anyone).kind != REA_EVIDENCE_NONE)
		return tokens;
	return tokens + RETRIES_PER_FIRST * ((uint64_t)sum.firsts + FIRSTS_SPARE) - sum.retries;
}

void rea__evidence_view(struct rea__evidence *evidence, uint64_t now_ns, struct rea_budget_view *ret_view)
{
	struct rea__evidence_slot sum;

	see_time(evidence, now_ns);
	sum = window_sum(evidence);
	*ret_view = (struct rea_budget_view){
	    .rule = REA_BUDGET_EVIDENCE,
	    .available = rea__evidence_available(evidence, now_ns),
	    .tokens = tokens_of(evidence),
	    .first_attempts = sum.firsts,
	    .retries = sum.retries,
	    .outcomes = sum.outcomes,
	    .timeouts = sum.timeouts,
	    .success = evidence->success,
	    .pushback = evidence->pushback,
	    .latency_ns = evidence->measured ? exp(evidence->latency) : 0,
	    .baseline_ns = has_baseline(evidence) ? exp(evidence->baseline) : 0,
	    .latency_ratio_max = has_baseline(evidence) ? exp(evidence->theta) : 0,
	    .congested_ns = rea_time_sub(evidence->congested_until_ns, evidence->now_ns),
	    .heat = evidence->heat,
	    .since_success_ns = rea_time_sub(evidence->now_ns, evidence->last_ok_ns),
	};
}
