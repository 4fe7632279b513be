/* The reports for programs: JSON of our own, and SARIF 2.1.0. */
#include "check/model.h"

#include <jansson.h>

/* jansson gives NULL when memory has run out, and takes it: one look at the end is enough. */
struct builder {
	struct check *check;
	bool failed;
};

static json_t *made(struct builder *builder, json_t *value)
{
	builder->failed = builder->failed || value == NULL;
	return value;
}

static json_t *text(struct builder *builder, const char *value)
{
	return made(builder, json_string(value));
}

static json_t *number(struct builder *builder, uint64_t value)
{
	return made(builder, json_integer(value < (uint64_t)INT64_MAX ? (json_int_t)value : INT64_MAX));
}

/* Milliseconds; null = no limit. */
static json_t *milliseconds(struct builder *builder, uint64_t ns)
{
	return ns == REA_NEVER ? json_null() : number(builder, rea_time_to_ms(ns));
}

static json_t *object(struct builder *builder)
{
	return made(builder, json_object());
}

static json_t *array(struct builder *builder)
{
	return made(builder, json_array());
}

/* Takes value. */
static void set(struct builder *builder, json_t *into, const char *key, json_t *value)
{
	if (json_object_set_new(into, key, value) != 0)
		builder->failed = true;
}

static void add(struct builder *builder, json_t *into, json_t *value)
{
	if (json_array_append_new(into, value) != 0)
		builder->failed = true;
}

struct sink {
	struct rea_buffer *out;
	int error; /* the first one: jansson does not look at every answer that it gets */
};

static int append(const char *bytes, size_t length, void *user_data)
{
	struct sink *sink = user_data;

	if (sink->error == 0)
		sink->error = rea_buffer_append(sink->out, bytes, length);
	return sink->error == 0 ? 0 : -1;
}

/* Takes root. */
static int finish(struct builder *builder, json_t *root, struct rea_buffer *out)
{
	size_t before = rea_buffer_length(out);
	struct sink sink = {out, builder->check->error};
	int error;

	if (sink.error == 0 && (builder->failed || json_dump_callback(root, append, &sink, JSON_INDENT(2)) != 0))
		sink.error = REA_ERR_NOMEM;
	append("\n", 1, &sink);
	error = sink.error;
	if (error != 0)
		out->end = out->start + before;
	json_decref(root);
	return error;
}

static const char *const severities[] = {[CHECK_INFO] = "info", [CHECK_WARNING] = "warning", [CHECK_ERROR] = "error"};

/* ------------------------------------------------------------------ JSON */

static void set_place(struct builder *builder, json_t *into, struct check_place place)
{
	set(builder, into, "file", text(builder, place.file->shown));
	set(builder, into, "line", number(builder, place.line));
	set(builder, into, "column", number(builder, place.line > 0 ? place.column : 0));
}

static json_t *layer_json(struct builder *builder, const struct check_layer *layer)
{
	json_t *json = object(builder);

	set(builder, json, "name", text(builder, layer->name));
	set(builder, json, "requests", number(builder, check_layer_requests(layer)));
	if (layer->written && layer->number > 0) {
		set(builder, json, "key", text(builder, layer->key));
		set(builder, json, "number", number(builder, layer->number));
		set(builder, json, "counts", text(builder, layer->counts_retries ? "retries" : "attempts"));
	}
	set(builder, json, "hidden", made(builder, json_boolean(layer->hidden)));
	set(builder, json, "unknown", made(builder, json_boolean(layer->unknown)));
	set(builder, json, "when", layer->when ? text(builder, layer->when) : json_null());
	set(builder, json, "attempt_ms", milliseconds(builder, layer->attempt_ns));
	set(builder, json, "total_ms", milliseconds(builder, layer->total_ns));
	set_place(builder, json, layer->place);
	return json;
}

static json_t *row_json(struct builder *builder, const struct check_target *target, enum check_failure failure)
{
	json_t *row = object(builder);
	uint64_t worst = 0;

	set(builder, row, "failure", text(builder, check_failure_name(failure)));
	for (int method = 0; method < CHECK_METHODS; method++) {
		json_t *cell = object(builder);

		set(builder, cell, "least",
		    number(builder, check_requests_least(target, failure, (enum check_method)method)));
		set(builder, cell, "most", number(builder, check_requests_most(target, failure, (enum check_method)method)));
		set(builder, row, check_method_name((enum check_method)method), cell);
		worst = rea_time_max(worst, check_time(target, failure, (enum check_method)method));
	}
	set(builder, row, "worst_ms", milliseconds(builder, worst));
	return row;
}

static json_t *target_json(struct builder *builder, const struct check_target *target)
{
	json_t *json = object(builder), *layers = array(builder), *rows = array(builder);

	set(builder, json, "hop", text(builder, target->app->name));
	set(builder, json, "kind", text(builder, target->kind));
	set(builder, json, "name", text(builder, target->name));
	set(builder, json, "profile", text(builder, check_shown(builder->check, rea_slice_of(target->profile))));
	set_place(builder, json, target->place);
	for (const struct check_layer *layer = target->layers; layer != NULL; layer = layer->inner)
		add(builder, layers, layer_json(builder, layer));
	set(builder, json, "layers", layers);
	set(builder, json, "attempt_ms", milliseconds(builder, check_attempt_time(target)));
	set(builder, json, "worst_ms", milliseconds(builder, check_time_worst(target)));
	for (int failure = 0; failure < CHECK_FAILURES; failure++)
		add(builder, rows, row_json(builder, target, (enum check_failure)failure));
	set(builder, json, "requests", rows);
	return json;
}

static json_t *chain_json(struct builder *builder, const struct check_chain *chain)
{
	json_t *json = object(builder), *rows = array(builder), *hops = array(builder);

	set(builder, json, "chain", text(builder, chain->text));
	for (size_t i = 0; i < chain->apps_len; i++)
		add(builder, hops, text(builder, check_chain_hop(builder->check, chain, i)));
	set(builder, json, "hops", hops);
	for (int failure = 0; failure < CHECK_FAILURES; failure++) {
		json_t *row = object(builder);

		set(builder, row, "failure", text(builder, check_failure_name((enum check_failure)failure)));
		for (int method = 0; method < CHECK_METHODS; method++)
			set(builder, row, check_method_name((enum check_method)method),
			    number(builder,
				check_chain_requests(chain, (enum check_failure)failure, (enum check_method)method)));
		add(builder, rows, row);
	}
	set(builder, json, "requests", rows);
	return json;
}

static json_t *finding_json(struct builder *builder, const struct check_finding *finding)
{
	json_t *json = object(builder);

	set(builder, json, "rule", text(builder, finding->rule->id));
	set(builder, json, "severity", text(builder, severities[finding->severity]));
	set_place(builder, json, finding->place);
	set(builder, json, "target", text(builder, finding->subject));
	set(builder, json, "message", text(builder, finding->message));
	set(builder, json, "why", text(builder, finding->rule->why));
	set(builder, json, "instead", text(builder, finding->instead));
	set(builder, json, "fixable", made(builder, json_boolean(finding->edits != NULL)));
	return json;
}

static json_t *problem_json(struct builder *builder, const struct check_problem *problem)
{
	const struct rea_error_info *info = &problem->info;
	json_t *json = object(builder);

	set(builder, json, "file", text(builder, check_shown(builder->check, rea_slice_of(info->file))));
	set(builder, json, "line", number(builder, info->line));
	set(builder, json, "column", number(builder, info->column));
	set(builder, json, "message", text(builder, check_shown(builder->check, rea_slice_of(info->message))));
	return json;
}

int check_report_json(struct check *check, struct rea_buffer *ret_text)
{
	struct builder builder = {check, false};
	json_t *root = object(&builder), *targets = array(&builder), *chains = array(&builder), *findings = array(&builder);
	json_t *errors = array(&builder), *summary = object(&builder);

	for (const struct check_app *app = check->apps; app != NULL; app = app->next)
		for (const struct check_target *target = app->targets; target != NULL; target = target->next)
			if (check_target_is_news(target))
				add(&builder, targets, target_json(&builder, target));
	for (const struct check_chain *chain = check->chains; chain != NULL; chain = chain->next)
		add(&builder, chains, chain_json(&builder, chain));
	for (const struct check_finding *finding = check->findings; finding != NULL; finding = finding->next)
		add(&builder, findings, finding_json(&builder, finding));
	for (const struct check_problem *problem = check->problems; problem != NULL; problem = problem->next)
		add(&builder, errors, problem_json(&builder, problem));
	set(&builder, root, "version", number(&builder, 1));
	set(&builder, root, "targets", targets);
	set(&builder, root, "chains", chains);
	set(&builder, root, "findings", findings);
	set(&builder, root, "errors", errors);
	for (int severity = CHECK_SEVERITIES - 1; severity >= 0; severity--)
		set(&builder, summary, severities[severity], number(&builder, check->counts[severity]));
	set(&builder, summary, "complete", made(&builder, json_boolean(!check->full)));
	set(&builder, root, "summary", summary);
	return finish(&builder, root, ret_text);
}

/* ------------------------------------------------------------------ SARIF */

static const char *level(enum check_severity severity)
{
	return severity == CHECK_ERROR ? "error" : severity == CHECK_WARNING ? "warning" : "note";
}

static json_t *message(struct builder *builder, const char *value)
{
	json_t *json = object(builder);

	set(builder, json, "text", text(builder, value));
	return json;
}

/* A path as a URI reference: what is no plain character of one is escaped. */
static const char *uri(struct builder *builder, const char *name)
{
	static const char hex[] = "0123456789ABCDEF";
	char *out = check_alloc(builder->check, 3 * strlen(name) + 1), *to = out;

	if (out == NULL)
		return "";
	for (const unsigned char *c = (const unsigned char *)name; *c != '\0'; c++) {
		if ((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
		    strchr("-._~/", *c) != NULL) {
			*to++ = (char)*c;
			continue;
		}
		*to++ = '%';
		*to++ = hex[*c >> 4];
		*to++ = hex[*c & 15];
	}
	return out;
}

static json_t *location(struct builder *builder, const char *file, uint32_t line, uint32_t column)
{
	json_t *json = object(builder), *physical = object(builder), *artifact = object(builder), *region = object(builder);

	set(builder, artifact, "uri", text(builder, uri(builder, file)));
	set(builder, physical, "artifactLocation", artifact);
	/* A finding about a file as a whole stands on its first line. */
	set(builder, region, "startLine", number(builder, line > 0 ? line : 1));
	set(builder, region, "startColumn", number(builder, line > 0 && column > 0 ? column : 1));
	set(builder, physical, "region", region);
	set(builder, json, "physicalLocation", physical);
	return json;
}

static json_t *rule_json(struct builder *builder, const struct check_rule *rule)
{
	json_t *json = object(builder), *configuration = object(builder);

	set(builder, json, "id", text(builder, rule->id));
	set(builder, json, "shortDescription", message(builder, rule->title));
	set(builder, json, "fullDescription", message(builder, rule->why));
	set(builder, configuration, "level", text(builder, level(rule->severity)));
	set(builder, json, "defaultConfiguration", configuration);
	return json;
}

static json_t *result_json(struct builder *builder, const struct check_finding *finding)
{
	json_t *json = object(builder), *locations = array(builder);

	set(builder, json, "ruleId", text(builder, finding->rule->id));
	set(builder, json, "ruleIndex", number(builder, (uint64_t)(finding->rule - check_rules)));
	set(builder, json, "level", text(builder, level(finding->severity)));
	set(builder, json, "message",
	    message(builder, check_text(builder->check, "%s. Instead: %s", finding->message, finding->instead)));
	add(builder, locations, location(builder, finding->place.file->name, finding->place.line, finding->place.column));
	set(builder, json, "locations", locations);
	return json;
}

static json_t *notification_json(struct builder *builder, const struct check_problem *problem)
{
	json_t *json = object(builder), *locations = array(builder);

	set(builder, json, "level", text(builder, "error"));
	set(builder, json, "message", message(builder, check_shown(builder->check, rea_slice_of(problem->info.message))));
	add(builder, locations, location(builder, problem->info.file, problem->info.line, problem->info.column));
	set(builder, json, "locations", locations);
	return json;
}

static json_t *driver_json(struct builder *builder)
{
	json_t *tool = object(builder), *driver = object(builder), *rules = array(builder);

	for (size_t i = 0; i < check_rules_len; i++)
		add(builder, rules, rule_json(builder, &check_rules[i]));
	set(builder, driver, "name", text(builder, "rea check"));
	set(builder, driver, "version", text(builder, REA_VERSION));
	set(builder, driver, "rules", rules);
	set(builder, tool, "driver", driver);
	return tool;
}

static json_t *invocations_json(struct builder *builder)
{
	json_t *invocations = array(builder), *invocation = object(builder), *notifications = array(builder);

	for (const struct check_problem *problem = builder->check->problems; problem != NULL; problem = problem->next)
		add(builder, notifications, notification_json(builder, problem));
	set(builder, invocation, "executionSuccessful", made(builder, json_boolean(builder->check->problems == NULL)));
	set(builder, invocation, "toolExecutionNotifications", notifications);
	add(builder, invocations, invocation);
	return invocations;
}

int check_report_sarif(struct check *check, struct rea_buffer *ret_text)
{
	struct builder builder = {check, false};
	json_t *root = object(&builder), *runs = array(&builder), *run = object(&builder), *results = array(&builder);

	for (const struct check_finding *finding = check->findings; finding != NULL; finding = finding->next)
		add(&builder, results, result_json(&builder, finding));
	set(&builder, run, "tool", driver_json(&builder));
	set(&builder, run, "invocations", invocations_json(&builder));
	set(&builder, run, "columnKind", text(&builder, "unicodeCodePoints"));
	set(&builder, run, "results", results);
	add(&builder, runs, run);
	set(&builder, root, "$schema", text(&builder, "https://json.schemastore.org/sarif-2.1.0.json"));
	set(&builder, root, "version", text(&builder, "2.1.0"));
	set(&builder, root, "runs", runs);
	return finish(&builder, root, ret_text);
}
