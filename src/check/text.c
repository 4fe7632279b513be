/* The report for people: what each call can become, then what is wrong with it. */
#include "check/model.h"

#include <stdarg.h>
#include <stdio.h>

#define BOLD "1"
#define RED "31"
#define YELLOW "33"
#define BLUE "36"

struct report {
	struct check *check;
	struct rea_buffer *out;
	bool color;
	int error;
};

static __attribute__((format(printf, 2, 3))) void print(struct report *report, const char *format, ...)
{
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (report->error != 0 || length <= 0)
		return;
	/* One byte more for the terminator, which is then left out. */
	report->error = rea_buffer_reserve(report->out, (size_t)length + 1);
	if (report->error != 0)
		return;
	va_start(args, format);
	vsnprintf(report->out->data + report->out->end, (size_t)length + 1, format, args);
	va_end(args);
	report->out->end += (size_t)length;
}

static const char *start(const struct report *report, const char *color)
{
	if (!report->color)
		return "";
	return strcmp(color, BOLD) == 0     ? "\033[1m"
	       : strcmp(color, RED) == 0    ? "\033[31m"
	       : strcmp(color, YELLOW) == 0 ? "\033[33m"
					    : "\033[36m";
}

static const char *stop(const struct report *report)
{
	return report->color ? "\033[0m" : "";
}

static const char *place_text(struct check *check, struct check_place place)
{
	if (place.line == 0)
		return place.file->shown;
	return check_text(check, "%s:%u:%u", place.file->shown, place.line, place.column);
}

/* ------------------------------------------------------------------ targets */

static const char *range(struct check *check, uint64_t least, uint64_t most)
{
	if (most == REA_NEVER)
		return "without end";
	return least == most ? check_text(check, "%llu", (unsigned long long)most)
			     : check_text(check, "%llu..%llu", (unsigned long long)least, (unsigned long long)most);
}

static bool is_quiet(const struct check_target *target, enum check_failure failure)
{
	for (int method = 0; method < CHECK_METHODS; method++)
		if (check_requests_most(target, failure, (enum check_method)method) > 1)
			return false;
	return true;
}

static uint64_t row_time(const struct check_target *target, enum check_failure failure)
{
	uint64_t worst = 0;

	for (int method = 0; method < CHECK_METHODS; method++)
		worst = rea_time_max(worst, check_time(target, failure, (enum check_method)method));
	return worst;
}

static void print_cell(
    struct report *report, const struct check_target *target, enum check_failure failure, enum check_method method)
{
	uint64_t most = check_requests_most(target, failure, method);
	const char *text = range(report->check, check_requests_least(target, failure, method), most);
	bool loud = most > report->check->options.product_max;

	print(report, "  %s%11s%s", loud ? start(report, RED) : "", text, loud ? stop(report) : "");
}

/* gRPC has one kind of call. */
static int columns_of(const struct check_target *target)
{
	return target->app->kind == CHECK_KIND_GRPC ? 1 : CHECK_METHODS;
}

static void print_row(struct report *report, const struct check_target *target, enum check_failure failure)
{
	print(report, "    %-16s", check_failure_name(failure));
	for (int method = 0; method < columns_of(target); method++)
		print_cell(report, target, failure, (enum check_method)method);
	print(report, "  %11s\n", check_time_text(report->check, row_time(target, failure)));
}

static void print_table(struct report *report, const struct check_target *target)
{
	int quiet = 0;

	for (int failure = 0; failure < CHECK_FAILURES; failure++)
		quiet += is_quiet(target, (enum check_failure)failure);
	if (quiet == CHECK_FAILURES) {
		print(report, "    one call is one request\n");
		return;
	}
	print(report, "    %-16s", "requests on");
	for (int method = 0; method < columns_of(target); method++)
		print(report, "  %11s",
		    columns_of(target) == 1 ? "any method" : check_method_name((enum check_method)method));
	print(report, "  %11s\n", "worst case");
	for (int failure = 0; failure < CHECK_FAILURES; failure++)
		if (!is_quiet(target, (enum check_failure)failure))
			print_row(report, target, (enum check_failure)failure);
	if (quiet > 0)
		print(report, "    anything else: 1\n");
}

static const char *count_text(struct check *check, const struct check_layer *layer)
{
	uint32_t requests = check_layer_requests(layer);

	if (layer->unknown)
		return check_text(check, "at least %u request%s", requests, requests > 1 ? "s" : "");
	if (requests == 1)
		return "1 request";
	return check_text(check, "%u requests (%u retr%s)", requests, requests - 1, requests == 2 ? "y" : "ies");
}

static void print_layer(struct report *report, const struct check_layer *layer)
{
	struct check *check = report->check;

	print(report, "    %-20s %s", layer->name, count_text(check, layer));
	if (layer->attempt_ns != REA_NEVER)
		print(report, ", each up to %s", check_time_text(check, layer->attempt_ns));
	if (layer->total_ns != REA_NEVER)
		print(report, ", all up to %s", check_time_text(check, layer->total_ns));
	if (layer->written && layer->number > 0)
		print(report, "; %s: %u", layer->key, layer->number);
	if (layer->hidden)
		print(report, "; by itself");
	if (layer->when != NULL)
		print(report, "; %s", layer->when);
	print(report, "\n");
}

static void print_target(struct report *report, const struct check_target *target)
{
	struct check *check = report->check;

	print(report, "\n%s%s%s %s%s  %s\n", start(report, BOLD), target->kind, stop(report), target->name,
	    target->profile[0] != '\0'
		? check_text(check, " under profile %s", check_shown(check, rea_slice_of(target->profile)))
		: "",
	    place_text(check, target->place));
	for (const struct check_layer *layer = target->layers; layer != NULL; layer = layer->inner)
		print_layer(report, layer);
	if (check_attempt_time(target) == REA_NEVER)
		print(report, "    one attempt has no limit\n");
	else
		print(report, "    one attempt takes up to %s\n", check_time_text(check, check_attempt_time(target)));
	print_table(report, target);
	if (target->note[0] != '\0')
		print(report, "    %s\n", target->note);
}

static void print_app(struct report *report, const struct check_app *app)
{
	static const char *const kinds[] = {[CHECK_KIND_AUTO] = "",
#define X(name, text, english) [CHECK_KIND_##name] = english,
	    CHECK_KIND_MAP(X)
#undef X
	};

	print(report, "%s%s%s: %s\n", start(report, BOLD), app->name, stop(report), kinds[app->kind]);
	if (app->targets == NULL)
		print(report, "    nothing here makes calls that could be repeated\n");
	for (const struct check_target *target = app->targets; target != NULL && report->error == 0; target = target->next)
		if (check_target_is_news(target))
			print_target(report, target);
	print(report, "\n");
}

static void print_chain(struct report *report, const struct check_chain *chain)
{
	struct check *check = report->check;

	print(report, "%s%s%s: what one call becomes behind %s\n", start(report, BOLD), chain->text, stop(report),
	    chain->apps[chain->apps_len - 1]->name);
	for (size_t i = 0; i < chain->apps_len; i++)
		print(report, "    %s\n", check_chain_hop(check, chain, i));
	print(report, "    %-16s", "requests on");
	for (int method = 0; method < CHECK_METHODS; method++)
		print(report, "  %11s", check_method_name((enum check_method)method));
	print(report, "\n");
	for (int failure = 0; failure < CHECK_FAILURES; failure++) {
		print(report, "    %-16s", check_failure_name((enum check_failure)failure));
		for (int method = 0; method < CHECK_METHODS; method++) {
			uint64_t requests =
			    check_chain_requests(chain, (enum check_failure)failure, (enum check_method)method);

			print(report, "  %11s", range(check, requests, requests));
		}
		print(report, "\n");
	}
	print(report, "\n");
}

/* ------------------------------------------------------------------ findings */

static void print_finding(struct report *report, const struct check_finding *finding)
{
	static const char *const words[] = {[CHECK_INFO] = "info", [CHECK_WARNING] = "warning", [CHECK_ERROR] = "error"};
	static const char *const colors[] = {[CHECK_INFO] = BLUE, [CHECK_WARNING] = YELLOW, [CHECK_ERROR] = RED};

	print(report, "%s%s%s: %s%s%s: %s [%s]\n    why: %s\n    instead: %s\n", start(report, BOLD),
	    place_text(report->check, finding->place), stop(report), start(report, colors[finding->severity]),
	    words[finding->severity], stop(report), finding->message, finding->rule->id, finding->rule->why,
	    finding->instead);
}

static const char *counted(struct check *check, size_t count, const char *word)
{
	return check_text(check, "%zu %s%s", count, word, count == 1 ? "" : "s");
}

int check_report_text(struct check *check, bool color, struct rea_buffer *ret_text)
{
	struct report report = {check, ret_text, color, 0};
	size_t problems = 0;

	for (const struct check_app *app = check->apps; app != NULL; app = app->next)
		if (app->live)
			print_app(&report, app);
	for (const struct check_chain *chain = check->chains; chain != NULL; chain = chain->next)
		print_chain(&report, chain);
	for (const struct check_finding *finding = check->findings; finding != NULL && report.error == 0;
	     finding = finding->next)
		print_finding(&report, finding);
	for (const struct check_problem *problem = check->problems; problem != NULL; problem = problem->next)
		problems++;
	print(&report, "%s%s, %s, %s in %s", check->findings ? "\n" : "",
	    counted(check, check->counts[CHECK_ERROR], "error"), counted(check, check->counts[CHECK_WARNING], "warning"),
	    counted(check, check->counts[CHECK_INFO], "note"), counted(check, check->files_len, "file"));
	if (problems > 0)
		print(&report, "; %s could not be read", counted(check, problems, "file"));
	print(&report, "%s\n", check->full ? "; further findings are left out" : "");
	return check->error != 0 ? check->error : report.error;
}
