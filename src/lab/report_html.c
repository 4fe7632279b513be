#include "lab/report.h"

#include <math.h>

#define WIDTH 640
#define HEIGHT 240
#define LEFT 52
#define RIGHT 12
#define TOP 10
#define BOTTOM 26

/* ---- text ---- */

static void escape(FILE *out, const char *text)
{
	for (; *text != '\0'; text++) {
		switch (*text) {
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '&':
			fputs("&amp;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		default:
			fputc(*text, out);
		}
	}
}

static const char style[] =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1400px;margin:2em auto;padding:0 1em;color:#222;background:#fff}"
    "h1{font-size:1.5em}h2{font-size:1.2em;margin-top:2.5em;border-top:1px solid "
    "#ccc;padding-top:1em}h3{font-size:1em;margin:1em 0 .3em}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}td,th{padding:.15em "
    ".7em;text-align:right;border-bottom:1px solid #ddd}"
    "th:first-child,td:first-child{text-align:left}.missed{color:#b00020;font-weight:600}.judged{font-weight:600}"
    ".plots{display:flex;flex-wrap:wrap;gap:1em}figure{margin:0}svg{max-width:100%;height:auto}figcaption{font-size:."
    "9em}"
    ".scroll{overflow-x:auto}.key span{display:inline-block;margin-right:1em}.key "
    "i{display:inline-block;width:1.2em;height:.25em;margin-right:.3em;vertical-align:middle}"
    ".axis{stroke:#888;stroke-width:1}.grid{stroke:#8883;stroke-width:1}.label{font-size:11px;fill:currentColor}.fault{"
    "fill:#c003;stroke:none}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}h2{border-color:#444}td,th{border-color:#333}"
    ".missed{color:#ff7b7b}}";

static const char *const colors[] = {"#7f7f7f", "#e69f00", "#56b4e9", "#009e73", "#cc79a7", "#8c564b", "#0072b2",
    "#9467bd", "#bcbd22", "#d62728", "#17becf", "#2ca02c", "#ff7f0e", "#1f77b4", "#e377c2", "#333333"};

static const char *color_of(uint32_t index)
{
	return colors[index % (sizeof(colors) / sizeof(colors[0]))];
}

/* ---- plots ---- */

struct plot {
	FILE *out;
	double x_min, x_max, y_max;
	bool log_x, log_y; /* y_max is then 1, and the axis goes down to 1e-4 */
};

static double place_x(const struct plot *plot, double x)
{
	double at = plot->log_x ? log(x / plot->x_min) / log(plot->x_max / plot->x_min)
				: (x - plot->x_min) / (plot->x_max - plot->x_min);

	return LEFT + at * (WIDTH - LEFT - RIGHT);
}

static double place_y(const struct plot *plot, double y)
{
	double at = plot->log_y ? 1 + log10(fmax(y, 1e-4)) / 4 : y / plot->y_max;

	return HEIGHT - BOTTOM - fmin(at, 1) * (HEIGHT - TOP - BOTTOM);
}

/* Of about seven ticks: 1, 2 or 5 of a power of ten. */
static double round_step(double range)
{
	double power = pow(10, floor(log10(range / 7))), steps = range / 7 / power;

	return power * (steps > 5 ? 10 : steps > 2 ? 5 : steps > 1 ? 2 : 1);
}

static void put_y_tick(const struct plot *plot, double value)
{
	double y = place_y(plot, value);

	fprintf(plot->out,
	    "<line class=grid x1=%d x2=%d y1=%.1f y2=%.1f /><text class=label x=%d y=%.1f text-anchor=end>%.4g</text>",
	    LEFT, WIDTH - RIGHT, y, y, LEFT - 5, y + 4, value);
}

static void put_x_tick(const struct plot *plot, double value)
{
	if (value >= plot->x_min)
		fprintf(plot->out, "<text class=label x=%.1f y=%d text-anchor=middle>%.4g</text>", place_x(plot, value),
		    HEIGHT - 8, value);
}

static void begin_plot(const struct plot *plot, const char *caption)
{
	fprintf(plot->out, "<figure><figcaption>%s</figcaption><svg viewBox=\"0 0 %d %d\" width=%d height=%d role=img>",
	    caption, WIDTH, HEIGHT, WIDTH, HEIGHT);
	if (plot->log_y)
		for (double value = 1; value > 0.5e-4; value /= 10)
			put_y_tick(plot, value);
	else
		for (double value = 0, step = round_step(plot->y_max); value <= plot->y_max * 1.001; value += step)
			put_y_tick(plot, value);
	if (plot->log_x)
		for (double value = 1; value <= plot->x_max; value *= 10)
			put_x_tick(plot, value);
	else
		for (double step = round_step(plot->x_max - plot->x_min), value = ceil(plot->x_min / step) * step;
		     value <= plot->x_max * 1.001; value += step)
			put_x_tick(plot, value);
	fprintf(plot->out, "<line class=axis x1=%d x2=%d y1=%d y2=%d />", LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM,
	    HEIGHT - BOTTOM);
}

static void shade_faults(const struct plot *plot, const struct lab_measure *run)
{
	for (uint32_t i = 0; i < run->windows_len; i++) {
		double from = place_x(plot, (double)run->windows[i].from_ns / 1e9),
		       to = place_x(plot, (double)run->windows[i].to_ns / 1e9);

		fprintf(plot->out, "<rect class=fault x=%.1f y=%d width=%.1f height=%d />", from, TOP,
		    fmax(to - from, 1), HEIGHT - TOP - BOTTOM);
	}
}

static void begin_line(const struct plot *plot, uint32_t color, bool thick)
{
	fprintf(plot->out, "<polyline fill=none stroke=\"%s\" stroke-width=%s points=\"", color_of(color),
	    thick ? "2.2" : "1.1");
}

/* Half seconds of counts per 100 ms, in units of `unit` a second. */
static void put_series(const struct plot *plot, const uint32_t *bins, const struct lab_scenario *scenario, double unit,
    uint32_t color, bool thick)
{
	begin_line(plot, color, thick);
	for (uint32_t bin = 0; bin + 5 <= (uint32_t)(scenario->duration_s * 10); bin += 5) {
		double sum = 0;

		for (uint32_t i = 0; i < 5; i++)
			sum += bins[bin + i];
		fprintf(plot->out, "%.1f,%.1f ", place_x(plot, bin / 10.0 + 0.25),
		    place_y(plot, fmin(2 * sum / unit, plot->y_max)));
	}
	fputs("\"/>", plot->out);
}

static void end_plot(const struct plot *plot)
{
	fputs("</svg></figure>", plot->out);
}

static bool is_judged(const struct lab_entry *entry, const struct lab_entry *judged)
{
	return entry == judged;
}

static void plot_over_time(const struct lab_study *study, const struct lab_entry *judged, bool goodput, FILE *out)
{
	const struct lab_scenario *scenario = study->scenario;
	double rate = lab_scenario_rate(scenario);
	struct plot plot = {.out = out, .x_min = 0, .x_max = scenario->duration_s, .y_max = 1.25};

	for (uint32_t i = 0; !goodput && i < study->entries_len; i++)
		plot.y_max = fmax(plot.y_max, fmin(4, study->entries[i].runs[0].figures[LAB_PEAK] * 1.05));
	begin_plot(&plot, goodput ? "Successes a second, by the calls that were planned"
				  : "Requests at the last layer a second, by the calls that were planned");
	shade_faults(&plot, &study->entries[0].runs[0]);
	for (uint32_t i = 0; i < study->entries_len; i++) {
		const struct lab_measure *run = &study->entries[i].runs[0];

		put_series(&plot, goodput ? run->done_ok : run->arrivals, scenario, rate, i,
		    is_judged(&study->entries[i], judged));
	}
	end_plot(&plot);
}

static void plot_latencies(const struct lab_study *study, const struct lab_entry *judged, FILE *out)
{
	struct plot plot = {
	    .out = out, .x_min = 5, .x_max = 2.0 * (double)study->scenario->deadline_ns / 1e6, .log_x = true, .log_y = true};

	begin_plot(&plot, "Share of calls that take longer than so many ms, of those begun while a fault lasted");
	for (uint32_t i = 0; i < study->entries_len; i++) {
		const struct lab_latencies *latencies = &study->entries[i].runs[0].inside_latencies;
		double left = 1;

		begin_line(&plot, i, is_judged(&study->entries[i], judged));
		for (int bucket = 0; latencies->total > 0 && bucket < LAB_LATENCIES && left > 1e-4; bucket++) {
			double ms = 0.01 * pow(1.01, bucket + 1);

			left -= (double)latencies->counts[bucket] / (double)latencies->total;
			if (ms >= plot.x_min && ms <= plot.x_max && bucket % 3 == 0)
				fprintf(out, "%.1f,%.1f ", place_x(&plot, ms), place_y(&plot, left));
		}
		fputs("\"/>", out);
	}
	end_plot(&plot);
}

static void plot_instances(const struct lab_study *study, const struct lab_entry *judged, FILE *out)
{
	const struct lab_scenario *scenario = study->scenario;
	const struct lab_measure *run = &judged->runs[0];
	uint32_t instances = scenario->layers[scenario->layers_len - 1].instances;
	struct plot plot = {.out = out, .x_min = 0, .x_max = scenario->duration_s, .y_max = 2.5};

	begin_plot(&plot, "Requests at each instance under the judged policy, by its fair share");
	shade_faults(&plot, run);
	for (uint32_t i = 0; i < instances; i++)
		put_series(&plot, &run->instances[(size_t)i * run->bins], scenario,
		    lab_scenario_rate(scenario) / instances, i, false);
	end_plot(&plot);
}

/* ---- tables ---- */

static void put_value(FILE *out, enum lab_figure figure, double value)
{
	char text[LAB_FIGURE_TEXT];

	fputs(lab_figure_format(figure, value, text), out);
}

static void put_goals(const struct lab_study *study, const struct lab_entry *judged, FILE *out)
{
	fprintf(out, "<div class=scroll><table><tr><th>figure<th>goal<th>");
	escape(out, judged->policy.name);
	fprintf(out, "<th>lowest seed<th>highest seed<th>possible<th>best peer");
	for (uint32_t i = 0; i < study->scenario->goals_len; i++) {
		const struct lab_goal *goal = &study->scenario->goals[i];
		const struct lab_spread *spread = &judged->figures[goal->figure];
		const struct lab_entry *best = lab_study_best(study, goal->figure, judged);

		fprintf(out, "<tr%s><td title=\"%s\">%s<td>%s ", lab_goal_met(goal, judged) ? "" : " class=missed",
		    lab_figure_text(goal->figure), lab_figure_name(goal->figure),
		    lab_figure_lower_is_better(goal->figure) ? "≤" : "≥");
		put_value(out, goal->figure, goal->value);
		fputs("<td>", out);
		put_value(out, goal->figure, spread->median);
		fputs(lab_goal_met(goal, judged) ? "<td>" : " (missed)<td>", out);
		put_value(out, goal->figure, spread->low);
		fputs("<td>", out);
		put_value(out, goal->figure, spread->high);
		fputs("<td>", out);
		put_value(out, goal->figure, lab_bound(study->scenario, goal->figure));
		fputs("<td>", out);
		if (best != NULL) {
			put_value(out, goal->figure, best->figures[goal->figure].median);
			fputc(' ', out);
			escape(out, best->policy.name);
		}
	}
	fputs("</table></div>", out);
}

static void put_policies(const struct lab_study *study, const struct lab_entry *judged, FILE *out)
{
	fputs("<div class=scroll><table><tr><th>policy", out);
	for (int i = 0; i < LAB_FIGURES; i++)
		fprintf(out, "<th title=\"%s\">%s", lab_figure_text((enum lab_figure)i),
		    lab_figure_name((enum lab_figure)i));
	for (uint32_t k = 0; k <= study->entries_len; k++) {
		const struct lab_entry *entry = k < study->entries_len ? &study->entries[k] : NULL;

		fprintf(out, "<tr%s><td title=\"", entry == judged ? " class=judged" : "");
		escape(out, entry != NULL ? entry->policy.about : "by theory, whatever the policy");
		fputs("\">", out);
		escape(out, entry != NULL ? entry->policy.name : "possible");
		if (entry != NULL && entry->invalid)
			fputs(" <span class=missed>invalid</span>", out);
		for (int i = 0; i < LAB_FIGURES; i++) {
			fputs("<td>", out);
			put_value(out, (enum lab_figure)i,
			    entry != NULL ? entry->figures[i].median : lab_bound(study->scenario, (enum lab_figure)i));
		}
	}
	fputs("</table></div>", out);
}

static void put_key(const struct lab_study *study, FILE *out)
{
	fputs("<p class=key>", out);
	for (uint32_t i = 0; i < study->entries_len; i++) {
		fprintf(out, "<span><i style=\"background:%s\"></i>", color_of(i));
		escape(out, study->entries[i].policy.name);
		fputs("</span>", out);
	}
	fputs("</p>", out);
}

/* What each policy is, and why its calls were given up. */
static void put_deeds(const struct lab_study *study, FILE *out)
{
	fputs("<h3>What each policy did</h3><div class=scroll><table><tr><th>policy<th style=\"text-align:left\">what "
	      "it is<th "
	      "style=\"text-align:left\">calls given up, first seed",
	    out);
	for (uint32_t k = 0; k < study->entries_len; k++) {
		const struct lab_entry *entry = &study->entries[k];
		const char *comma = "";

		fputs("<tr><td>", out);
		escape(out, entry->policy.name);
		fputs("<td style=\"text-align:left\">", out);
		escape(out, entry->policy.about);
		fputs("<td style=\"text-align:left\">", out);
		for (int i = 0; i < REA_REASON_COUNT; i++)
			if (entry->runs[0].reasons[i] > 0) {
				fprintf(out, "%s%s %llu", comma, rea_reason_name((enum rea_reason)i),
				    (unsigned long long)entry->runs[0].reasons[i]);
				comma = ", ";
			}
	}
	fputs("</table></div>", out);
}

static void put_study(const struct lab_study *study, const struct lab_entry *judged, FILE *out)
{
	const struct lab_scenario *scenario = study->scenario;

	fputs("<h2>", out);
	escape(out, scenario->name);
	fputs("</h2><p>", out);
	escape(out, scenario->about ? scenario->about : "");
	fprintf(out,
	    ". %u clients make %.0f calls a second for %g s, of which %g s are measured; %s, seeds %llu to %llu; "
	    "medians. Without faults and retries "
	    "99 of 100 calls take less than %.0f ms. Red bands are faults; plots show the first seed.</p>",
	    scenario->clients, lab_scenario_rate(scenario), scenario->duration_s,
	    scenario->duration_s - scenario->warm_up_s, study->how, (unsigned long long)study->first_seed,
	    (unsigned long long)(study->first_seed + study->seeds - 1), study->calm_p99_ms.median);
	put_goals(study, judged, out);
	put_key(study, out);
	fputs("<div class=plots>", out);
	plot_over_time(study, judged, false, out);
	plot_over_time(study, judged, true, out);
	plot_latencies(study, judged, out);
	plot_instances(study, judged, out);
	fputs("</div><h3>All figures</h3>", out);
	put_policies(study, judged, out);
	put_deeds(study, out);
}

/* A figure over the values of a sweep. */
static void plot_sweep(const struct lab_study *studies, const struct lab_entry *const *judged, uint32_t studies_len,
    const struct lab_sweep *sweep, enum lab_figure figure, FILE *out)
{
	struct plot plot = {.out = out, .x_min = sweep->values[0], .x_max = sweep->values[studies_len - 1], .y_max = 0};

	for (uint32_t i = 0; i < studies_len; i++)
		for (uint32_t k = 0; k < studies[i].entries_len; k++)
			if (isfinite(studies[i].entries[k].figures[figure].median))
				plot.y_max = fmax(plot.y_max, studies[i].entries[k].figures[figure].median);
	if (plot.y_max <= 0)
		return;
	begin_plot(&plot, lab_figure_text(figure));
	for (uint32_t k = 0; k < studies[0].entries_len; k++) {
		begin_line(&plot, k, is_judged(&studies[0].entries[k], judged[0]));
		for (uint32_t i = 0; i < studies_len; i++) {
			double median = studies[i].entries[k].figures[figure].median;

			if (isfinite(median))
				fprintf(out, "%.1f,%.1f ", place_x(&plot, sweep->values[i]),
				    place_y(&plot, fmax(median, 0)));
		}
		fputs("\"/>", out);
	}
	end_plot(&plot);
}

static void put_sweep(const struct lab_study *studies, const struct lab_entry *const *judged, uint32_t studies_len,
    const struct lab_sweep *sweep, FILE *out)
{
	const struct lab_scenario *scenario = studies[0].scenario;

	fputs("<h2>", out);
	escape(out, scenario->name);
	fputs(" by ", out);
	escape(out, sweep->key);
	fputs("</h2>", out);
	put_key(&studies[0], out);
	fputs("<div class=plots>", out);
	for (uint32_t i = 0; i < scenario->goals_len; i++)
		plot_sweep(studies, judged, studies_len, sweep, scenario->goals[i].figure, out);
	fputs("</div>", out);
}

void lab_report_html(const struct lab_study *studies, const struct lab_entry *const *judged, uint32_t studies_len,
    const struct lab_sweep *sweep, FILE *out)
{
	fprintf(out,
	    "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport "
	    "content=\"width=device-width\"><title>Retry policies under "
	    "faults</title><style>%s</style><h1>Retry policies under faults</h1>",
	    style);
	if (sweep != NULL)
		put_sweep(studies, judged, studies_len, sweep, out);
	for (uint32_t i = 0; i < studies_len; i++)
		put_study(&studies[i], judged[i], out);
	fputs("</html>\n", out);
}
