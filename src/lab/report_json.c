#include "lab/report.h"

#include <jansson.h>
#include <math.h>

static json_t *number(double value)
{
	return isnan(value) || isinf(value) ? json_null() : json_real(value);
}

static json_t *spread(const struct lab_spread *spread)
{
	return json_pack("{s:o, s:o, s:o}", "median", number(spread->median), "low", number(spread->low), "high",
	    number(spread->high));
}

/* Sums of ten bins. */
static json_t *seconds(const uint32_t *bins, uint32_t count)
{
	json_t *list = json_array();
	uint32_t sum = 0;

	for (uint32_t i = 0; i < count; i++) {
		sum += bins[i];
		if (i % 10 == 9) {
			json_array_append_new(list, json_integer(sum));
			sum = 0;
		}
	}
	return list;
}

static json_t *first_run(const struct lab_measure *run)
{
	const struct lab_scenario *scenario = run->scenario;
	uint32_t bins = (uint32_t)(scenario->duration_s * 10);
	json_t *instances = json_array(), *reasons = json_object(), *windows = json_array();

	for (uint32_t i = 0; i < scenario->layers[scenario->layers_len - 1].instances; i++)
		json_array_append_new(instances, seconds(&run->instances[(size_t)i * run->bins], bins));
	for (int i = 0; i < REA_REASON_COUNT; i++)
		if (run->reasons[i] > 0)
			json_object_set_new(
			    reasons, rea_reason_name((enum rea_reason)i), json_integer((json_int_t)run->reasons[i]));
	for (uint32_t i = 0; i < run->windows_len; i++)
		json_array_append_new(windows,
		    json_pack("[f, f]", (double)run->windows[i].from_ns / 1e9, (double)run->windows[i].to_ns / 1e9));
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "requests_per_s", seconds(run->arrivals, bins),
	    "calls_per_s", seconds(run->begun, bins), "successes_per_s", seconds(run->done_ok, bins),
	    "requests_per_s_by_instance", instances, "given_up", reasons, "faults_s", windows);
}

static json_t *entry_of(const struct lab_study *study, const struct lab_entry *entry)
{
	json_t *figures = json_object(), *seeds = json_array();

	for (int i = 0; i < LAB_FIGURES; i++)
		json_object_set_new(figures, lab_figure_name((enum lab_figure)i), spread(&entry->figures[i]));
	for (uint32_t k = 0; k < study->seeds; k++) {
		json_t *run = json_pack("{s:I}", "seed", (json_int_t)study->first_seed + k);

		for (int i = 0; i < LAB_FIGURES; i++)
			json_object_set_new(run, lab_figure_name((enum lab_figure)i), number(entry->runs[k].figures[i]));
		json_object_set_new(run, "schedule-p99-ms", number(entry->runs[k].schedule_p99_ms));
		json_array_append_new(seeds, run);
	}
	return json_pack("{s:s, s:s, s:b, s:o, s:o, s:o}", "policy", entry->policy.name, "about", entry->policy.about,
	    "valid", !entry->invalid, "figures", figures, "seeds", seeds, "first_seed", first_run(&entry->runs[0]));
}

static json_t *goals_of(const struct lab_study *study, const struct lab_entry *judged)
{
	json_t *goals = json_array();

	for (uint32_t i = 0; judged != NULL && i < study->scenario->goals_len; i++) {
		const struct lab_goal *goal = &study->scenario->goals[i];
		const struct lab_entry *best = lab_study_best(study, goal->figure, judged);

		json_array_append_new(
		    goals, json_pack("{s:s, s:b, s:f, s:o, s:o, s:b, s:s?, s:o}", "figure",
			       lab_figure_name(goal->figure), "at_most", lab_figure_lower_is_better(goal->figure),
			       "goal", goal->value, "result", number(judged->figures[goal->figure].median), "possible",
			       number(lab_bound(study->scenario, goal->figure)), "met", lab_goal_met(goal, judged),
			       "best_peer", best != NULL ? best->policy.name : NULL, "best_peer_result",
			       number(best != NULL ? best->figures[goal->figure].median : NAN)));
	}
	return goals;
}

static json_t *study_of(const struct lab_study *study, const struct lab_entry *judged)
{
	const struct lab_scenario *scenario = study->scenario;
	json_t *entries = json_array(), *bounds = json_object();

	for (uint32_t i = 0; i < study->entries_len; i++)
		json_array_append_new(entries, entry_of(study, &study->entries[i]));
	for (int i = 0; i < LAB_FIGURES; i++)
		json_object_set_new(
		    bounds, lab_figure_name((enum lab_figure)i), number(lab_bound(scenario, (enum lab_figure)i)));
	return json_pack("{s:s, s:s?, s:s, s:I, s:i, s:i, s:f, s:f, s:f, s:o, s:s?, s:o, s:o, s:o}", "scenario",
	    scenario->name, "about", scenario->about, "how", study->how, "seed", (json_int_t)study->first_seed, "seeds",
	    (int)study->seeds, "clients", (int)scenario->clients, "calls_per_s", lab_scenario_rate(scenario),
	    "duration_s", scenario->duration_s, "warm_up_s", scenario->warm_up_s, "p99_without_faults_ms",
	    spread(&study->calm_p99_ms), "judged", judged != NULL ? judged->policy.name : NULL, "goals",
	    goals_of(study, judged), "possible", bounds, "policies", entries);
}

int lab_report_json(const struct lab_study *studies, const struct lab_entry *const *judged, uint32_t studies_len, FILE *out)
{
	json_t *list = json_array();
	int error = 0;

	for (uint32_t i = 0; error == 0 && i < studies_len; i++)
		error = json_array_append_new(list, study_of(&studies[i], judged[i]));
	if (error == 0)
		error = json_dumpf(list, out, JSON_INDENT(1) | JSON_REAL_PRECISION(8));
	fputc('\n', out);
	json_decref(list);
	return error == 0 ? 0 : REA_ERR_NOMEM;
}
