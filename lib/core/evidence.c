/*
 * Guarantees: a retry on evidence is granted only outside of congestion, while at least 15 % of the attempts succeed, and at most twice for each
 * first attempt of the last 2 s and four times more; the others cost a token each, of which there are two at first and one for ten
 * first attempts, never more than two at a time. One exception: a call that was parked before it reached anybody comes once in spite of congestion,
 * after life has returned. No number here is rounded away: the tokens are thousandths.
 */
#include "core/evidence.h"

#include "core/internal.h"

#include <rea/time.h>

#include <assert.h>
#include <math.h>
#include <string.h>

#define TOKENS_FOR_A_FIRST (REA__EVIDENCE_TOKEN / 10)
/* Shares of the newest sample in the moving averages. */
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
#define TROUBLE_NS (2 * REA_NS_PER_S)
/* A call that so many instances could not be reached for knows of no living one. */
#define DEAD_INSTANCES 3
/* Averages lose all meaning in the underflow of what they keep. */
#define BATCH_SUCCESSES_MAX 1024

void rea__evidence_reset(struct rea__evidence *evidence)
{
	*evidence = (struct rea__evidence){
	    .generation = evidence->generation + 1, .tokens = REA__EVIDENCE_TOKENS_MAX, .success = 1, .instances = 1};
}

/* ---- one thread's batch ---- */

/* ln(1 + i/32) */
static const float logarithms[] = {0, 0.03077166F, 0.06062462F, 0.08961216F, 0.117783F, 0.145182F, 0.1718503F,
    0.1978257F, 0.2231436F, 0.2478362F, 0.2719337F, 0.2954642F, 0.3184537F, 0.3409266F, 0.3629055F, 0.3844117F,
    0.4054651F, 0.4260844F, 0.4462871F, 0.4660897F, 0.4855078F, 0.504556F, 0.5232481F, 0.5415973F, 0.5596158F,
    0.5773154F, 0.5947071F, 0.6118015F, 0.6286087F, 0.645138F, 0.6613985F, 0.6773988F, 0.6931472F};

double rea__evidence_log(uint64_t latency_ns)
{
	const double ln_2 = 0.69314718055994531;
	double x = (double)latency_ns, part;
	uint64_t bits;
	size_t i;

	memcpy(&bits, &x, sizeof(bits));
	/* The top five bits of the fraction say between which two; the other 47 how far. */
	i = bits >> 47 & 31;
	part = (double)(bits & ((UINT64_C(1) << 47) - 1)) / (double)(UINT64_C(1) << 47);
	return (double)((int)(bits >> 52) - 1023) * ln_2 + logarithms[i] + part * (logarithms[i + 1] - logarithms[i]);
}

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
	batch->keep_success *= 1 - REA__EVIDENCE_SUCCESS_WEIGHT;
	batch->keep_pushback *= 1 - PUSHBACK_WEIGHT;
	if (latency_ns > 0)
		measure(batch, rea__evidence_log(latency_ns), now_ns);
	return batch->latency > batch->hot_above || batch->successes >= BATCH_SUCCESSES_MAX;
}

/* ---- the last 2 s ---- */

static void add(struct rea__evidence_slot *sum, const struct rea__evidence_slot *more)
{
	sum->firsts += more->firsts;
	sum->retries += more->retries;
	sum->outcomes += more->outcomes;
	sum->timeouts += more->timeouts;
	sum->timeout_instances |= more->timeout_instances;
}

static bool in_window(const struct rea__evidence *evidence, uint32_t number)
{
	return evidence->window.number - number < REA__EVIDENCE_SLOTS;
}

/* An earlier now counts as the latest seen. The window is summed anew ten times a second, and kept up in between. */
void rea__evidence_see_time(struct rea__evidence *evidence, uint64_t now_ns)
{
	uint32_t number = rea__evidence_slot_number(now_ns);

	if (evidence->now_ns == 0)
		evidence->last_ok_ns = evidence->slice_ns = now_ns;
	if (now_ns <= evidence->now_ns)
		return;
	evidence->now_ns = now_ns;
	if (number == evidence->window.number)
		return;
	evidence->window = (struct rea__evidence_slot){.number = number};
	for (size_t i = 0; i < REA__EVIDENCE_SLOTS; i++)
		if (in_window(evidence, evidence->slots[i].number))
			add(&evidence->window, &evidence->slots[i]);
}

/* In the slot with that number, which is in the window. */
static void count(struct rea__evidence *evidence, const struct rea__evidence_slot *more)
{
	struct rea__evidence_slot *slot = &evidence->slots[more->number % REA__EVIDENCE_SLOTS];

	if (slot->number != more->number)
		*slot = (struct rea__evidence_slot){.number = more->number};
	add(slot, more);
	add(&evidence->window, more);
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
static bool timeouts_everywhere(const struct rea__evidence *evidence)
{
	const struct rea__evidence_slot *sum = &evidence->window;
	uint32_t instances = evidence->instances < 32 ? evidence->instances : 32;

	return sum->outcomes >= OUTCOMES_MIN && sum->timeouts > TIMEOUTS_MAX * sum->outcomes &&
	       2 * bits(sum->timeout_instances) > instances;
}

static struct rea_evidence heat_of(const struct rea__evidence *evidence)
{
	const struct rea__evidence_slot *sum = &evidence->window;
	double timeouts = sum->outcomes > 0 ? (double)sum->timeouts / sum->outcomes : 0;

	if (has_baseline(evidence) && excess(evidence) > evidence->theta)
		return (struct rea_evidence){.kind = REA_EVIDENCE_LATENCY, .value = exp(excess(evidence))};
	if (timeouts_everywhere(evidence) &&
	    (timeouts > TIMEOUTS_MANY || (has_baseline(evidence) && excess(evidence) > TIMEOUTS_THETA * evidence->theta)))
		return (struct rea_evidence){.kind = REA_EVIDENCE_TIMEOUTS, .value = timeouts};
	if (evidence->pushback > PUSHBACK_MAX)
		return (struct rea_evidence){.kind = REA_EVIDENCE_PUSHBACK, .value = evidence->pushback};
	return (struct rea_evidence){.kind = REA_EVIDENCE_NONE};
}

/* After an outcome, and only then: what is known does not become news by being looked at again. */
static void judge(struct rea__evidence *evidence, uint64_t outcome_ns)
{
	struct rea_evidence heat = heat_of(evidence);

	if (heat.kind == REA_EVIDENCE_NONE)
		return;
	evidence->heat = heat;
	evidence->congested_until_ns =
	    rea_time_max(evidence->congested_until_ns, rea_time_add(outcome_ns, REA__EVIDENCE_CONGESTED_NS));
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

REA__COLD static void close_slice(struct rea__evidence *evidence)
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

	evidence->tokens = (uint32_t)rea_time_min(tokens, REA__EVIDENCE_TOKENS_MAX);
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
	if (in_window(evidence, batch->slot))
		count(evidence, &(struct rea__evidence_slot){
				    .number = batch->slot, .firsts = batch->firsts, .outcomes = batch->successes});
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
static double hot_above(const struct rea__evidence *evidence)
{
	const struct rea__evidence_slot *sum = &evidence->window;
	bool timeouts = timeouts_everywhere(evidence);

	if (evidence->pushback > PUSHBACK_MAX || (timeouts && sum->timeouts > TIMEOUTS_MANY * sum->outcomes))
		return -INFINITY;
	if (!has_baseline(evidence))
		return INFINITY;
	return evidence->baseline + (timeouts ? TIMEOUTS_THETA : 1) * evidence->theta;
}

static void tell(const struct rea__evidence *evidence, struct rea__evidence_batch *ret_batch)
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
	    .hot_above = hot_above(evidence),
	    .centre = evidence->centre,
	    .clip = evidence->means_len > 0 ? CLIP_SIGMAS * sqrt(evidence->variance) : INFINITY,
	    .congested_until_ns = evidence->congested_until_ns,
	};
}

void rea__evidence_merge(struct rea__evidence *evidence, struct rea__evidence_batch *batch, uint64_t now_ns)
{
	bool valid = batch->generation == evidence->generation;

	rea__evidence_see_time(evidence, now_ns);
	/* Nothing new, and nothing to be told. */
	if (valid && batch->slot == evidence->window.number && batch->firsts + batch->successes == 0)
		return;
	if (valid)
		bring_in(evidence, batch);
	if (valid && batch->successes > 0)
		judge(evidence, batch->ok_ns);
	close_slice(evidence);
	tell(evidence, batch);
}

void rea__evidence_failure(struct rea__evidence *evidence, struct rea__evidence_batch *batch,
    const struct rea__budget_attempt *attempt, uint64_t now_ns)
{
	struct rea__evidence_slot one = {.outcomes = 1};

	rea__evidence_merge(evidence, batch, now_ns);
	one.number = evidence->window.number;
	if (attempt->result == REA_BUDGET_TIMEOUT) {
		one.timeouts = 1;
		one.timeout_instances = UINT32_C(1) << attempt->instance % 32;
	}
	count(evidence, &one);
	evidence->instances = attempt->instances;
	if (!attempt->stop)
		evidence->success -= REA__EVIDENCE_SUCCESS_WEIGHT * evidence->success;
	evidence->pushback += PUSHBACK_WEIGHT * ((attempt->result == REA_BUDGET_THROTTLING) - evidence->pushback);
	judge(evidence, evidence->now_ns);
	tell(evidence, batch);
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

/* Since the call was parked. */
static bool life_returned(const struct rea__evidence *evidence, const struct rea__budget_question *question)
{
	return question->parked && evidence->last_ok_ns > question->parked_ns;
}

static bool is_dead(const struct rea__evidence *evidence, const struct rea__budget_question *question)
{
	uint32_t enough = question->instances < DEAD_INSTANCES ? question->instances : DEAD_INSTANCES;

	return question->refused_by >= enough && !life_returned(evidence, question);
}

static bool has_room(const struct rea__evidence *evidence)
{
	return evidence->window.retries < rea__evidence_room(evidence->window.firsts);
}

/* What speaks against a retry, the heaviest first; NONE = nothing. */
static struct rea_evidence against(const struct rea__evidence *evidence, const struct rea__budget_question *question)
{
	if (is_dead(evidence, question))
		return (struct rea_evidence){.kind = REA_EVIDENCE_DEAD, .value = question->refused_by};
	if (!succeeds(evidence))
		return (struct rea_evidence){.kind = REA_EVIDENCE_SUCCESS, .value = evidence->success};
	if (is_congested(evidence))
		return evidence->heat;
	if (!has_room(evidence))
		return (struct rea_evidence){.kind = REA_EVIDENCE_RETRIES, .value = evidence->window.retries};
	return (struct rea_evidence){.kind = REA_EVIDENCE_NONE};
}

/* The backlog of an outage must not come back at once. */
static bool has_to_spread(const struct rea__evidence *evidence, const struct rea__budget_question *question)
{
	return life_returned(evidence, question) && !question->spread && evidence->trouble_ns != 0 &&
	       rea_time_sub(evidence->now_ns, evidence->trouble_ns) < TROUBLE_NS;
}

/*
 * Of a call that reached nobody the service has had no work yet: it is as good as a first attempt that comes late, and those are never refused. It
 * has let others go first; were it kept waiting while they make the service slow, it would wait until its time is over.
 */
static bool is_backlog(const struct rea__evidence *evidence, const struct rea__budget_question *question)
{
	return question->unserved && question->spread && life_returned(evidence, question) && succeeds(evidence) &&
	       has_room(evidence);
}

/* Is there hope that the service is back in time? */
static bool may_park(const struct rea__evidence *evidence, const struct rea__budget_question *question)
{
	uint64_t parked_ns = question->parked ? rea_time_sub(evidence->now_ns, question->parked_ns) : 0;

	return parked_ns < question->park_max_ns &&
	       (succeeds(evidence) || rea_time_sub(evidence->now_ns, evidence->last_ok_ns) < question->park_max_ns);
}

enum rea__budget_answer rea__evidence_ask(struct rea__evidence *evidence, const struct rea__budget_question *question,
    uint64_t now_ns, enum rea__evidence_ground *ret_ground, struct rea_evidence *ret_says)
{
	bool spreads;

	rea__evidence_see_time(evidence, now_ns);
	*ret_says = against(evidence, question);
	spreads = has_to_spread(evidence, question);
	if (question->pushback || ret_says->kind == REA_EVIDENCE_DEAD || ret_says->kind == REA_EVIDENCE_SUCCESS)
		evidence->trouble_ns = evidence->now_ns;
	if (spreads) {
		*ret_says = (struct rea_evidence){.kind = REA_EVIDENCE_RECOVERING,
		    .value = (double)rea_time_sub(evidence->now_ns, question->parked_ns)};
		return REA__BUDGET_SPREAD;
	}
	*ret_ground = ret_says->kind == REA_EVIDENCE_NONE ? REA__GROUND_EVIDENCE
		      : is_backlog(evidence, question)    ? REA__GROUND_BACKLOG
							  : REA__GROUND_TOKEN;
	if (*ret_ground != REA__GROUND_TOKEN || evidence->tokens >= REA__EVIDENCE_TOKEN) {
		ret_says->kind = REA_EVIDENCE_NONE;
		return REA__BUDGET_GRANTED;
	}
	ret_says->tokens = tokens_of(evidence);
	return !question->pushback && may_park(evidence, question) ? REA__BUDGET_PARK : REA__BUDGET_REFUSED;
}

void rea__evidence_take(struct rea__evidence *evidence, enum rea__evidence_ground ground, uint64_t now_ns)
{
	rea__evidence_see_time(evidence, now_ns);
	if (ground == REA__GROUND_TOKEN) {
		assert(evidence->tokens >= REA__EVIDENCE_TOKEN);
		evidence->tokens -= REA__EVIDENCE_TOKEN;
		evidence->token_retries++;
		/* 10 % of the first attempts, and 2. */
		assert(evidence->token_retries * 10 <= evidence->firsts + 20);
	} else {
		assert(succeeds(evidence) && has_room(evidence));
		assert(ground == REA__GROUND_BACKLOG || !is_congested(evidence));
	}
	count(evidence, &(struct rea__evidence_slot){.number = evidence->window.number, .retries = 1});
}

void rea__evidence_give_back(struct rea__evidence *evidence, bool token, uint64_t taken_ns)
{
	uint32_t number = rea__evidence_slot_number(taken_ns);
	struct rea__evidence_slot *slot = &evidence->slots[number % REA__EVIDENCE_SLOTS];

	if (slot->number == number && slot->retries > 0) {
		slot->retries--;
		evidence->window.retries -= in_window(evidence, number);
	}
	if (!token)
		return;
	evidence->tokens = (uint32_t)rea_time_min(evidence->tokens + REA__EVIDENCE_TOKEN, REA__EVIDENCE_TOKENS_MAX);
	if (evidence->token_retries > 0)
		evidence->token_retries--;
}

/* ---- looking ---- */

uint64_t rea__evidence_available(struct rea__evidence *evidence, uint64_t now_ns)
{
	static const struct rea__budget_question anyone = {.failure = REA_BUDGET_TRANSIENT, .instances = 1};
	uint64_t tokens = evidence->tokens / REA__EVIDENCE_TOKEN;

	rea__evidence_see_time(evidence, now_ns);
	if (against(evidence, &anyone).kind != REA_EVIDENCE_NONE)
		return tokens;
	return tokens + rea__evidence_room(evidence->window.firsts) - evidence->window.retries;
}

REA__COLD void rea__evidence_view(struct rea__evidence *evidence, uint64_t now_ns, struct rea_budget_view *ret_view)
{
	rea__evidence_see_time(evidence, now_ns);
	*ret_view = (struct rea_budget_view){
	    .rule = REA_BUDGET_EVIDENCE,
	    .available = rea__evidence_available(evidence, now_ns),
	    .tokens = tokens_of(evidence),
	    .first_attempts = evidence->window.firsts,
	    .retries = evidence->window.retries,
	    .outcomes = evidence->window.outcomes,
	    .timeouts = evidence->window.timeouts,
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
