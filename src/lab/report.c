#include "lab/report.h"

#include <math.h>
#include <string.h>

/* The columns of a comparison, besides those that the scenario has goals for. */
static bool is_column(const struct lab_study *study, enum lab_figure figure)
{
	static const enum lab_figure always[] = {LAB_SUCCESS, LAB_SUCCESS_INSIDE, LAB_ATTEMPTS_INSIDE, LAB_PEAK,
	    LAB_P99_INSIDE_MS, LAB_RECOVERY_S, LAB_WASTED, LAB_DUPLICATES, LAB_LATE};

	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		if (always[i] == figure)
			return true;
	for (uint32_t i = 0; i < study->scenario->goals_len; i++)
		if (study->scenario->goals[i].figure == figure)
			return true;
	return false;
}

static void print_head(const struct lab_study *study, FILE *out)
{
	const struct lab_scenario *scenario = study->scenario;
	const struct lab_layer *last = &scenario->layers[scenario->layers_len - 1];
	char text[LAB_FIGURE_TEXT];

	fprintf(out, "%s: %s\n", scenario->name, scenario->about ? scenario->about : "");
	fprintf(out, "%s; seeds %llu to %llu; %u clients, %.0f calls/s for %g s (%g s of warm-up not measured); %u instances of %u slots%s\n",
	    study->how, (unsigned long long)study->first_seed,
	    (unsigned long long)(study->first_seed + study->seeds - 1), scenario->clients, lab_scenario_rate(scenario),
	    scenario->duration_s, scenario->warm_up_s, last->instances, last->workers, last->gate ? ", with a gate" : "");
	fprintf(out, "without faults and retries 99 of 100 calls take less than %s ms\n\n",
	    lab_figure_format(LAB_P99_MS, study->calm_p99_ms.median, text));
}

/* "99.93 %", and the lowest and highest of the seeds where they differ. */
static int format_spread(enum lab_figure figure, const struct lab_spread *spread, char *ret_text, size_t size)
{
	char median[LAB_FIGURE_TEXT], low[LAB_FIGURE_TEXT], high[LAB_FIGURE_TEXT];
	const char *m = lab_figure_format(figure, spread->median, median),
		   *l = lab_figure_format(figure, spread->low, low), *h = lab_figure_format(figure, spread->high, high);

	if (strcmp(l, h) == 0)
		return snprintf(ret_text, size, "%s", m);
	return snprintf(ret_text, size, "%s (%s-%s)", m, l, h);
}

/* ---- for a terminal ---- */

#define CELL 96

static void print_summary(const struct lab_study *study, FILE *out)
{
	fprintf(out, "%-14s", "");
	for (int i = 0; i < LAB_FIGURES; i++)
		if (is_column(study, (enum lab_figure)i))
			fprintf(out, " %16s", lab_figure_name((enum lab_figure)i));
	for (uint32_t k = 0; k <= study->entries_len; k++) {
		const struct lab_entry *entry = k < study->entries_len ? &study->entries[k] : NULL;

		fprintf(out, "\n%-14s", entry != NULL ? entry->policy.name : "best possible");
		for (int i = 0; i < LAB_FIGURES; i++) {
			enum lab_figure figure = (enum lab_figure)i;
			char text[LAB_FIGURE_TEXT];

			if (is_column(study, figure))
				fprintf(out, " %16s",
				    lab_figure_format(figure,
					entry != NULL ? entry->figures[figure].median : lab_bound(study->scenario, figure),
					text));
		}
	}
	fprintf(out, "\n\n");
}

static uint32_t print_goals(const struct lab_study *study, const struct lab_entry *judged, bool color, FILE *out)
{
	uint32_t missed = 0;

	if (judged == NULL || study->scenario->goals_len == 0)
		return 0;
	fprintf(out, "%-20s %-14s %-40s %-12s %s\n", judged->policy.name, "goal", "result (lowest-highest seed)",
	    "possible", "best peer");
	for (uint32_t i = 0; i < study->scenario->goals_len; i++) {
		const struct lab_goal *goal = &study->scenario->goals[i];
		const struct lab_entry *best = lab_study_best(study, goal->figure, judged);
		bool met = lab_goal_met(goal, judged);
		char value[LAB_FIGURE_TEXT], bound[LAB_FIGURE_TEXT], peer[LAB_FIGURE_TEXT], cell[CELL];

		missed += !met;
		format_spread(goal->figure, &judged->figures[goal->figure], cell, sizeof(cell));
		fprintf(out, "%s%-20s %s %-11s %-40s %-12s %s %s%s%s\n", !met && color ? "\033[31m" : "",
		    lab_figure_name(goal->figure), lab_figure_lower_is_better(goal->figure) ? "<=" : ">=",
		    lab_figure_format(goal->figure, goal->value, value), cell,
		    lab_figure_format(goal->figure, lab_bound(study->scenario, goal->figure), bound),
		    best != NULL ? lab_figure_format(goal->figure, best->figures[goal->figure].median, peer) : "-",
		    best != NULL ? best->policy.name : "", met ? "" : "  MISSED", !met && color ? "\033[0m" : "");
	}
	fprintf(out, "\n");
	return missed;
}

static void print_invalid(const struct lab_study *study, FILE *out)
{
	for (uint32_t i = 0; i < study->entries_len; i++)
		if (study->entries[i].invalid)
			fprintf(out, "INVALID: the load for %s could not be offered as planned; its figures mean nothing\n",
			    study->entries[i].policy.name);
}

uint32_t lab_report_text(const struct lab_study *study, const struct lab_entry *judged, bool color, FILE *out)
{
	print_head(study, out);
	print_invalid(study, out);
	print_summary(study, out);
	return print_goals(study, judged, color, out);
}

void lab_report_sweep(const struct lab_study *studies, uint32_t studies_len, const struct lab_sweep *sweep, FILE *out)
{
	const struct lab_scenario *scenario = studies[0].scenario;

	fprintf(out, "%s: %s; %s, medians of seeds %llu to %llu\n", scenario->name,
	    scenario->about ? scenario->about : "", studies[0].how, (unsigned long long)studies[0].first_seed,
	    (unsigned long long)(studies[0].first_seed + studies[0].seeds - 1));
	for (uint32_t g = 0; g < scenario->goals_len; g++) {
		enum lab_figure figure = scenario->goals[g].figure;
		char text[LAB_FIGURE_TEXT];

		fprintf(out, "\n%s (goal %s)\n%-14s", lab_figure_name(figure),
		    lab_figure_format(figure, scenario->goals[g].value, text), sweep->key);
		for (uint32_t i = 0; i < studies_len; i++)
			fprintf(out, " %12g", sweep->values[i]);
		for (uint32_t k = 0; k < studies[0].entries_len; k++) {
			fprintf(out, "\n%-14s", studies[0].entries[k].policy.name);
			for (uint32_t i = 0; i < studies_len; i++)
				fprintf(out, " %12s",
				    lab_figure_format(figure, studies[i].entries[k].figures[figure].median, text));
		}
		fprintf(out, "\n");
	}
}

/* ---- markdown ---- */

void lab_report_markdown(const struct lab_study *study, const struct lab_entry *judged, FILE *out)
{
	const struct lab_scenario *scenario = study->scenario;

	fprintf(out, "### %s: %s\n\n%u clients, %.0f calls/s, %g s; %s; seeds %llu to %llu. Without faults and retries P99 is %.0f ms.\n\n",
	    scenario->name, scenario->about ? scenario->about : "", scenario->clients, lab_scenario_rate(scenario),
	    scenario->duration_s - scenario->warm_up_s, study->how, (unsigned long long)study->first_seed,
	    (unsigned long long)(study->first_seed + study->seeds - 1), study->calm_p99_ms.median);
	fprintf(out, "| goal | %s (lowest-highest seed) | possible | best peer |\n|---|---|---|---|\n", judged->policy.name);
	for (uint32_t i = 0; i < scenario->goals_len; i++) {
		const struct lab_goal *goal = &scenario->goals[i];
		const struct lab_entry *best = lab_study_best(study, goal->figure, judged);
		char value[LAB_FIGURE_TEXT], bound[LAB_FIGURE_TEXT], peer[LAB_FIGURE_TEXT], cell[CELL];

		format_spread(goal->figure, &judged->figures[goal->figure], cell, sizeof(cell));
		fprintf(out, "| %s %s %s | %s%s | %s | %s %s |\n", lab_figure_name(goal->figure),
		    lab_figure_lower_is_better(goal->figure) ? "≤" : "≥",
		    lab_figure_format(goal->figure, goal->value, value), cell, lab_goal_met(goal, judged) ? "" : " **missed**",
		    lab_figure_format(goal->figure, lab_bound(scenario, goal->figure), bound),
		    best != NULL ? lab_figure_format(goal->figure, best->figures[goal->figure].median, peer) : "-",
		    best != NULL ? best->policy.name : "");
	}
	fprintf(out, "\n| policy | success | inside | attempts inside | peak | P99 inside, ms | recovery, s | wasted | "
		     "duplicates |\n"
		     "|---|---|---|---|---|---|---|---|---|\n");
	for (uint32_t i = 0; i < study->entries_len; i++) {
		static const enum lab_figure columns[] = {LAB_SUCCESS, LAB_SUCCESS_INSIDE, LAB_ATTEMPTS_INSIDE,
		    LAB_PEAK, LAB_P99_INSIDE_MS, LAB_RECOVERY_S, LAB_WASTED, LAB_DUPLICATES};

		fprintf(out, "| %s |", study->entries[i].policy.name);
		for (size_t k = 0; k < sizeof(columns) / sizeof(columns[0]); k++) {
			char text[LAB_FIGURE_TEXT];

			fprintf(out, " %s |",
			    lab_figure_format(columns[k], study->entries[i].figures[columns[k]].median, text));
		}
		fprintf(out, "\n");
	}
	fprintf(out, "\n");
}
