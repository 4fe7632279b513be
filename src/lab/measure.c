#include "lab/measure.h"

#include <rea/time.h>

#include <math.h>
#include <stdlib.h>

#define LATENCY_FIRST_MS 0.01
#define LATENCY_STEP 1.01
#define SECOND_BINS 10
/* A service has recovered when so much succeeds, for so long. */
#define RECOVERED 0.99
#define RECOVERED_BINS 5

/* ---- counting ---- */

static uint32_t *new_bins(uint32_t count)
{
	return calloc(count, sizeof(uint32_t));
}

int lab_measure_init(struct lab_measure *measure, const struct lab_scenario *scenario, uint32_t bins)
{
	*measure = (struct lab_measure){.scenario = scenario, .bins = bins};
	for (int i = 0; i < LAB_FIGURES; i++)
		measure->figures[i] = NAN;
	measure->begun = new_bins(bins);
	measure->begun_ok = new_bins(bins);
	measure->done_ok = new_bins(bins);
	measure->arrivals = new_bins(bins);
	measure->instances = new_bins(bins * scenario->layers[scenario->layers_len - 1].instances);
	if (measure->begun && measure->begun_ok && measure->done_ok && measure->arrivals && measure->instances)
		return 0;
	lab_measure_fini(measure);
	return REA_ERR_NOMEM;
}

void lab_measure_fini(struct lab_measure *measure)
{
	free(measure->begun);
	free(measure->begun_ok);
	free(measure->done_ok);
	free(measure->arrivals);
	free(measure->instances);
	free(measure->windows);
	measure->windows = NULL;
	measure->begun = measure->begun_ok = measure->done_ok = measure->arrivals = measure->instances = NULL;
}

static uint32_t bin_of(const struct lab_measure *measure, uint64_t at_ns)
{
	uint64_t bin = at_ns / LAB_BIN_NS;

	return bin < measure->bins ? (uint32_t)bin : measure->bins - 1;
}

void lab_latencies_add(struct lab_latencies *latencies, uint64_t latency_ns)
{
	double steps = log((double)latency_ns / REA_NS_PER_MS / LATENCY_FIRST_MS) / log(LATENCY_STEP);

	latencies->counts[steps < 0 ? 0 : steps < LAB_LATENCIES - 1 ? (size_t)steps : LAB_LATENCIES - 1]++;
	latencies->total++;
}

double lab_latencies_at(const struct lab_latencies *latencies, double share)
{
	double left = share * (double)latencies->total;
	size_t i = 0;

	if (latencies->total == 0)
		return NAN;
	while (i + 1 < LAB_LATENCIES && (left -= latencies->counts[i]) > 0)
		i++;
	return LATENCY_FIRST_MS * pow(LATENCY_STEP, (double)i + 0.5);
}

void lab_measure_begun(struct lab_measure *measure, uint64_t begin_ns)
{
	measure->begun[bin_of(measure, begin_ns)]++;
}

static bool is_measured(const struct lab_measure *measure, uint64_t at_ns)
{
	return (double)at_ns >= measure->scenario->warm_up_s * REA_NS_PER_S;
}

void lab_measure_done(struct lab_measure *measure, const struct lab_callee *callee, uint64_t begin_ns,
    uint32_t attempts, enum rea_verdict verdict, enum rea_reason reason, uint64_t now_ns)
{
	bool ok = verdict == REA_VERDICT_SUCCESS;

	measure->begun_ok[bin_of(measure, begin_ns)] += ok;
	measure->done_ok[bin_of(measure, now_ns)] += ok;
	if (!is_measured(measure, begin_ns))
		return;
	measure->calls++;
	measure->succeeded += ok;
	measure->attempts += attempts;
	measure->reasons[reason] += !ok;
	lab_latencies_add(&measure->latencies, now_ns - begin_ns);
	if (!lab_callee_faulty(callee, begin_ns))
		return;
	measure->inside_calls++;
	measure->inside_succeeded += ok;
	measure->inside_attempts += attempts;
	lab_latencies_add(&measure->inside_latencies, now_ns - begin_ns);
}

/* ---- figures ---- */

static double share(uint64_t part, uint64_t whole)
{
	return whole > 0 ? (double)part / (double)whole : NAN;
}

static uint32_t first_bin(const struct lab_measure *measure)
{
	return (uint32_t)ceil(measure->scenario->warm_up_s * SECOND_BINS);
}

static uint32_t last_bin(const struct lab_measure *measure)
{
	return (uint32_t)(measure->scenario->duration_s * SECOND_BINS);
}

/* The worst second, by what would come without faults and retries. */
static double peak(const struct lab_measure *measure)
{
	double rate = lab_scenario_rate(measure->scenario), worst = 0;
	uint64_t sum = 0;

	for (uint32_t bin = first_bin(measure); bin < last_bin(measure); bin++) {
		sum += measure->arrivals[bin];
		if (bin >= first_bin(measure) + SECOND_BINS)
			sum -= measure->arrivals[bin - SECOND_BINS];
		worst = fmax(worst, (double)sum / rate);
	}
	return worst;
}

/* Requests while faults lasted, by the bins that lie wholly within one, and by the calls that began in them. */
static double load_inside(const struct lab_measure *measure, const struct lab_callee *callee)
{
	double arrivals = 0, begun = 0;

	for (uint32_t bin = first_bin(measure); bin < last_bin(measure); bin++) {
		if (!lab_callee_faulty(callee, bin * LAB_BIN_NS) || !lab_callee_faulty(callee, (bin + 1) * LAB_BIN_NS - 1))
			continue;
		arrivals += measure->arrivals[bin];
		begun += measure->begun[bin];
	}
	return begun > 0 ? arrivals / begun : NAN;
}

static bool is_well(const struct lab_measure *measure, uint32_t bin)
{
	return measure->begun_ok[bin] >= RECOVERED * measure->begun[bin];
}

/* Seconds from the end of a window until calls succeed again; up to the next window, or the end of the run, if they do not. */
static double recovery_after(
    const struct lab_measure *measure, const struct lab_callee *callee, const struct lab_window *window)
{
	uint32_t end = (uint32_t)((window->to_ns + LAB_BIN_NS - 1) / LAB_BIN_NS), bin, well = 0;

	for (bin = end; bin < last_bin(measure) && well < RECOVERED_BINS; bin++) {
		if (lab_callee_faulty(callee, bin * LAB_BIN_NS))
			break;
		well = is_well(measure, bin) ? well + 1 : 0;
	}
	return (double)(bin - well - end) / SECOND_BINS;
}

static double recovery(const struct lab_measure *measure, const struct lab_callee *callee)
{
	double worst = callee->windows_len > 0 ? 0 : NAN;

	for (uint32_t i = 0; i < callee->windows_len; i++)
		worst = fmax(worst, recovery_after(measure, callee, &callee->windows[i]));
	return worst;
}

static bool may_repeat(const struct lab_scenario *scenario, uint32_t operation)
{
	enum rea_permission permission = scenario->operations[operation].permission;

	return permission == REA_PERMISSION_SAFE || permission == REA_PERMISSION_IDEMPOTENT;
}

static double duplicates(const struct lab_measure *measure, const struct lab_callee *callee)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < callee->seen_capacity; i++)
		count += callee->seen[i].executions > 1 && !may_repeat(measure->scenario, callee->seen[i].operation);
	return (double)count;
}

static void take_arrivals(struct lab_measure *measure, const struct lab_callee *callee)
{
	uint32_t layer = measure->scenario->layers_len - 1;

	for (uint32_t i = 0; i < measure->scenario->layers[layer].instances; i++)
		for (uint32_t bin = 0; bin < measure->bins; bin++) {
			measure->instances[i * measure->bins + bin] = callee->instances[layer][i].arrivals[bin];
			measure->arrivals[bin] += callee->instances[layer][i].arrivals[bin];
		}
}

void lab_measure_finish(struct lab_measure *measure, struct lab_callee *callee, uint64_t ejections)
{
	double *figures = measure->figures;

	take_arrivals(measure, callee);
	figures[LAB_SUCCESS] = share(measure->succeeded, measure->calls);
	figures[LAB_SUCCESS_INSIDE] = share(measure->inside_succeeded, measure->inside_calls);
	figures[LAB_SUCCESS_OF_BOUND] = figures[LAB_SUCCESS_INSIDE] / lab_bound(measure->scenario, LAB_SUCCESS_INSIDE);
	figures[LAB_ATTEMPTS] = share(measure->attempts, measure->calls);
	figures[LAB_ATTEMPTS_INSIDE] = share(measure->inside_attempts, measure->inside_calls);
	figures[LAB_LOAD_INSIDE] = load_inside(measure, callee);
	figures[LAB_PEAK] = peak(measure);
	figures[LAB_P99_MS] = lab_latencies_at(&measure->latencies, 0.99);
	figures[LAB_P99_INSIDE_MS] = lab_latencies_at(&measure->inside_latencies, 0.99);
	figures[LAB_RECOVERY_S] = recovery(measure, callee);
	figures[LAB_WASTED] = callee->work_ns > 0 ? callee->wasted_ns / callee->work_ns : 0;
	figures[LAB_DUPLICATES] = duplicates(measure, callee);
	figures[LAB_LATE] = (double)callee->late;
	figures[LAB_EJECTIONS] = (double)ejections;
	measure->windows = callee->windows;
	measure->windows_len = callee->windows_len;
	callee->windows = NULL;
	callee->windows_len = 0;
}

/* ---- theory ---- */

/* What one fault leaves possible: success of the calls begun in it, and attempts for each of them. */
struct possible {
	double success, attempts;
};

/* Success of an operation if each attempt fails with probability p, and the attempts it takes. */
static struct possible possible_with_failures(double p)
{
	double all = pow(p, REA_ATTEMPTS_MAX);

	return (struct possible){1 - all, p < 1 ? (1 - all) / (1 - p) : 1};
}

static struct possible possible_of(const struct lab_scenario *scenario, const struct lab_fault *fault)
{
	const struct lab_layer *layer = &scenario->layers[fault->layer];
	double struck = fault->instance == LAB_EVERY_INSTANCE ? 1 : 1.0 / layer->instances;
	double capacity = layer->workers * layer->instances / (lab_layer_mean_ns(layer) / REA_NS_PER_S);
	double load = layer->workers > 0 ? lab_scenario_rate(scenario) / capacity : 0;
	double lasts = fault->windows > 0 && fault->for_max_ns > 0 ? (double)(fault->for_ns + fault->for_max_ns) / 2
								   : (double)fault->for_ns;
	double bridged = fmin(1, (double)scenario->deadline_ns / lasts); /* calls whose deadline is after the fault */
	struct possible possible = {1, 1};

	switch ((enum lab_fault_kind)fault->kind) {
	case LAB_FAULT_ERROR:
		/* With another instance to go to, it can be left alone altogether. */
		if (struck < 1)
			return possible;
		possible = possible_with_failures(fault->share);
		if (fault->share >= 1)
			possible.success = bridged;
		else if (fault->costly && load > 0)
			possible.success = fmin(possible.success, (1 - fault->share) / load + bridged);
		return possible;
	case LAB_FAULT_REFUSE:
	case LAB_FAULT_HANG:
		if (struck < 1)
			possible.success = load > 0 ? fmin(1, (1 - struck * fault->share) / load) : 1;
		else if (fault->share < 1)
			possible = possible_with_failures(fault->share);
		else
			possible.success = bridged;
		return possible;
	case LAB_FAULT_SLOW:
		possible.success = load > 0 ? fmin(1, (1 - struck + struck / fault->factor) / load) : 1;
		return possible;
	case LAB_FAULT_CAPACITY:
		possible.success = load > 0 ? fmin(1, (1 - struck + struck * fault->share) / load) : 1;
		return possible;
	case LAB_FAULT_DROP:
		break;
	}
	/* What must not be repeated, and was carried out, is lost. */
	possible.success = possible.attempts = 0;
	for (uint32_t i = 0; i < scenario->operations_len; i++) {
		const struct lab_operation *operation = &scenario->operations[i];
		bool repeats = may_repeat(scenario, i) ||
			       (operation->permission == REA_PERMISSION_IDEMPOTENT_WITH_KEY && operation->key);
		struct possible own = possible_with_failures(struck * fault->share);

		possible.success += operation->share * (repeats ? own.success : 1 - struck * fault->share);
		possible.attempts += operation->share * (repeats ? own.attempts : 1);
	}
	return possible;
}

/* Faults beside each other are taken as if they never met. */
double lab_bound(const struct lab_scenario *scenario, enum lab_figure figure)
{
	double measured_ns = (scenario->duration_s - scenario->warm_up_s) * REA_NS_PER_S;
	struct possible sum = {0, 0};
	double lasts_ns = 0, most = 1;

	for (uint32_t i = 0; i < scenario->faults_len; i++) {
		const struct lab_fault *fault = &scenario->faults[i];
		struct possible possible = possible_of(scenario, fault);
		double mean = fault->for_max_ns > 0 ? (double)(fault->for_ns + fault->for_max_ns) / 2 : (double)fault->for_ns;
		double weight = mean * (fault->windows > 0 ? fault->windows : 1);

		sum.success += weight * possible.success;
		sum.attempts += weight * possible.attempts;
		most = fmax(most, possible.attempts);
		lasts_ns += weight;
	}
	switch (figure) {
	case LAB_SUCCESS:
		return fmin(1, 1 - (lasts_ns - sum.success) / measured_ns);
	case LAB_SUCCESS_INSIDE:
		return lasts_ns > 0 ? sum.success / lasts_ns : 1;
	case LAB_ATTEMPTS:
		return 1 + (sum.attempts - lasts_ns) / measured_ns;
	case LAB_ATTEMPTS_INSIDE:
	case LAB_LOAD_INSIDE:
		return lasts_ns > 0 ? sum.attempts / lasts_ns : 1;
	case LAB_PEAK:
		return most;
	case LAB_P99_RATIO:
	case LAB_SUCCESS_OF_BOUND:
		return 1;
	case LAB_RECOVERY_S:
	case LAB_WASTED:
	case LAB_DUPLICATES:
	case LAB_LATE:
		return 0;
	case LAB_P99_MS:
	case LAB_P99_INSIDE_MS:
	case LAB_EJECTIONS:
	case LAB_HARM:
	case LAB_FIGURES:
		break;
	}
	return NAN;
}
