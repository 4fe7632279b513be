#include "lab/study.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- of several seeds ---- */

static int compare(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

static struct lab_spread spread_of(double *values, uint32_t count)
{
	uint32_t known = 0;

	for (uint32_t i = 0; i < count; i++)
		if (!isnan(values[i]))
			values[known++] = values[i];
	if (known == 0)
		return (struct lab_spread){NAN, NAN, NAN};
	qsort(values, known, sizeof(*values), compare);
	return (struct lab_spread){(values[(known - 1) / 2] + values[known / 2]) / 2, values[0], values[known - 1]};
}

static struct lab_spread spread_of_runs(const struct lab_measure *runs, uint32_t count, enum lab_figure figure)
{
	double values[LAB_SEEDS_MAX];

	for (uint32_t i = 0; i < count; i++)
		values[i] = runs[i].figures[figure];
	return spread_of(values, count);
}

/* ---- running ---- */

static int run_baseline(struct lab_study *study, double *ret_p99_ms)
{
	struct lab_measure measure;
	struct lab_policy none;
	int error = lab_policy_find("none", study->scenario, &none);

	for (uint32_t i = 0; error == 0 && i < study->seeds; i++) {
		error = study->run(study->context, study->scenario, &none, false, study->first_seed + i, &measure);
		if (error != 0)
			break;
		ret_p99_ms[i] = measure.figures[LAB_P99_MS];
		lab_measure_fini(&measure);
	}
	return error;
}

static void say(const struct lab_study *study, uint32_t done)
{
	if (study->progress != NULL)
		study->progress(study, done, study->entries_len * study->seeds);
}

static int run_entry(struct lab_study *study, struct lab_entry *entry, const double *calm_p99_ms)
{
	entry->runs = calloc(study->seeds, sizeof(*entry->runs));
	if (entry->runs == NULL)
		return REA_ERR_NOMEM;
	for (uint32_t i = 0; i < study->seeds; i++) {
		struct lab_measure *run = &entry->runs[i];
		int error = study->run(study->context, study->scenario, &entry->policy, true, study->first_seed + i, run);

		if (error != 0)
			return error;
		run->figures[LAB_P99_RATIO] = run->figures[LAB_P99_INSIDE_MS] / calm_p99_ms[i];
		entry->invalid |= run->invalid;
		if (i > 0)
			lab_measure_fini(run);
		say(study, (uint32_t)(entry - study->entries) * study->seeds + i + 1);
	}
	return 0;
}

/* How far below one attempt for each call; there is none without "none". */
static void set_harm(struct lab_study *study)
{
	const struct lab_entry *none = NULL;

	for (uint32_t i = 0; i < study->entries_len; i++)
		if (strcmp(study->entries[i].policy.name, "none") == 0)
			none = &study->entries[i];
	for (uint32_t i = 0; none != NULL && i < study->entries_len; i++)
		for (uint32_t k = 0; k < study->seeds; k++)
			study->entries[i].runs[k].figures[LAB_HARM] =
			    100 * (none->runs[k].figures[LAB_SUCCESS] - study->entries[i].runs[k].figures[LAB_SUCCESS]);
}

int lab_study_run(struct lab_study *study)
{
	double calm_p99_ms[LAB_SEEDS_MAX] = {0};
	int error = run_baseline(study, calm_p99_ms);

	for (uint32_t i = 0; error == 0 && i < study->entries_len; i++)
		error = run_entry(study, &study->entries[i], calm_p99_ms);
	if (error != 0)
		return error;
	set_harm(study);
	for (uint32_t i = 0; i < study->entries_len; i++)
		for (int figure = 0; figure < LAB_FIGURES; figure++)
			study->entries[i].figures[figure] =
			    spread_of_runs(study->entries[i].runs, study->seeds, (enum lab_figure)figure);
	study->calm_p99_ms = spread_of(calm_p99_ms, study->seeds);
	return 0;
}

void lab_study_fini(struct lab_study *study)
{
	for (uint32_t i = 0; i < study->entries_len; i++) {
		for (uint32_t k = 0; study->entries[i].runs != NULL && k < study->seeds; k++)
			lab_measure_fini(&study->entries[i].runs[k]);
		free(study->entries[i].runs);
		study->entries[i].runs = NULL;
	}
}

/* ---- judging ---- */

bool lab_goal_met(const struct lab_goal *goal, const struct lab_entry *entry)
{
	double median = entry->figures[goal->figure].median;

	return lab_figure_lower_is_better(goal->figure) ? median <= goal->value : median >= goal->value;
}

uint32_t lab_study_missed(const struct lab_study *study, const struct lab_entry *entry)
{
	uint32_t missed = 0;

	for (uint32_t i = 0; i < study->scenario->goals_len; i++)
		missed += !lab_goal_met(&study->scenario->goals[i], entry);
	return missed;
}

const struct lab_entry *lab_study_best(const struct lab_study *study, enum lab_figure figure, const struct lab_entry *but)
{
	const struct lab_entry *best = NULL;

	for (uint32_t i = 0; i < study->entries_len; i++) {
		const struct lab_entry *entry = &study->entries[i];
		double median = entry->figures[figure].median;

		if (entry == but || isnan(median))
			continue;
		if (best == NULL || (lab_figure_lower_is_better(figure) ? median < best->figures[figure].median
									: median > best->figures[figure].median))
			best = entry;
	}
	return best;
}

const char *lab_figure_format(enum lab_figure figure, double value, char ret_text[LAB_FIGURE_TEXT])
{
	if (isnan(value))
		return "-";
	if (figure == LAB_SUCCESS || figure == LAB_SUCCESS_INSIDE || figure == LAB_SUCCESS_OF_BOUND || figure == LAB_WASTED)
		snprintf(ret_text, LAB_FIGURE_TEXT, "%.3f %%", 100 * value);
	else
		snprintf(ret_text, LAB_FIGURE_TEXT, "%.*f",
		    figure == LAB_DUPLICATES || figure == LAB_LATE || figure == LAB_EJECTIONS || figure == LAB_P99_MS ||
			    figure == LAB_P99_INSIDE_MS
			? 0
		    : figure == LAB_RECOVERY_S || figure == LAB_HARM ? 2
								     : 3,
		    value);
	return ret_text;
}
