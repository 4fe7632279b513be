/* Scenario files: by the tables of the reader of rea.yaml, so that a mistake is told with its place and what would be right. */
#include "lab/scenario.h"

#include "base/buffer.h"
#include "config/reader.h"

#include <rea/time.h>

#include <assert.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#define OPERATIONS_MAX 8
#define FAULTS_MAX 64
#define GOALS_MAX 32

#define FILE_BYTES_MAX ((size_t)1024 * 1024)

/* ---- figures ---- */

static const struct {
	const char *name, *text;
	bool lower;
} figures[] = {
#define X(name, text, lower, what) {text, what, lower},
    LAB_FIGURE_MAP(X)
#undef X
};

const char *lab_figure_name(enum lab_figure figure)
{
	return figures[figure].name;
}

const char *lab_figure_text(enum lab_figure figure)
{
	return figures[figure].text;
}

bool lab_figure_lower_is_better(enum lab_figure figure)
{
	return figures[figure].lower;
}

/* ---- what a document may say ---- */

struct document {
	struct lab_scenario scenario; /* first, so that a field's offset is that in the scenario */
	const struct rea__node *layers, *operations, *faults, *goals;
};

struct fault_reading {
	struct lab_fault fault;
	const char *layer, *instance;
};

struct operation_reading {
	struct lab_operation operation;
	int permission;
};

static const struct rea__choice fault_kinds[] = {
#define X(name, text) {text, LAB_FAULT_##name},
    LAB_FAULT_MAP(X)
#undef X
	{NULL, 0}};

static const struct rea__choice permissions[] = {{"safe", REA_PERMISSION_SAFE},
    {"idempotent", REA_PERMISSION_IDEMPOTENT}, {"with-key", REA_PERMISSION_IDEMPOTENT_WITH_KEY},
    {"unknown", REA_PERMISSION_UNKNOWN}, {"forbid", REA_PERMISSION_FORBID}, {NULL, 0}};

static const struct rea__choice figure_names[] = {
#define X(name, text, lower, what) {text, LAB_##name},
    LAB_FIGURE_MAP(X)
#undef X
	{NULL, 0}};

#define AT(type, member) .offset = offsetof(type, member)

static const struct rea__field root_fields[] = {
    {.name = "name", .type = &rea__type_text, AT(struct lab_scenario, name)},
    {.name = "about", .type = &rea__type_text, AT(struct lab_scenario, about)},
    {.name = "duration-s", .type = &rea__type_double, AT(struct lab_scenario, duration_s), .min = 1, .max = 3600},
    {.name = "warm-up-s", .type = &rea__type_double, AT(struct lab_scenario, warm_up_s), .min = 0, .max = 3600},
    {.name = "clients", .type = &rea__type_u32, AT(struct lab_scenario, clients), .min = 1, .max = 10000},
    {.name = "load", .type = &rea__type_double, AT(struct lab_scenario, load), .min = 0, .max = 10, .above_min = true},
    {.name = "rate", .type = &rea__type_double, AT(struct lab_scenario, rate), .min = 0, .max = 1000000, .above_min = true},
    {.name = "deadline-ms", .type = &rea__type_ms, AT(struct lab_scenario, deadline_ns), .min = 10, .max = 600000},
    {.name = "attempt-timeout-ms", .type = &rea__type_ms, AT(struct lab_scenario, attempt_timeout_ns), .min = 10, .max = 600000},
    {.name = "network-ms", .type = &rea__type_ms, AT(struct lab_scenario, network_ns), .min = 0, .max = 10000},
    {.name = "layers", .type = &rea__type_node, AT(struct document, layers)},
    {.name = "operations", .type = &rea__type_node, AT(struct document, operations)},
    {.name = "faults", .type = &rea__type_node, AT(struct document, faults)},
    {.name = "goals", .type = &rea__type_node, AT(struct document, goals)},
};

static const struct rea__field layer_fields[] = {
    {.name = "name", .type = &rea__type_text, AT(struct lab_layer, name)},
    {.name = "instances", .type = &rea__type_u32, AT(struct lab_layer, instances), .min = 1, .max = LAB_INSTANCES_MAX},
    {.name = "workers", .type = &rea__type_u32, AT(struct lab_layer, workers), .min = 0, .max = 100000, .note = "0 is no limit"},
    {.name = "queue", .type = &rea__type_u32, AT(struct lab_layer, queue), .min = 0, .max = 1000000},
    {.name = "service-ms", .type = &rea__type_ms, AT(struct lab_layer, service_ns), .min = 1, .max = 600000},
    {.name = "sigma", .type = &rea__type_double, AT(struct lab_layer, sigma), .min = 0, .max = 3},
    {.name = "tail-share", .type = &rea__type_double, AT(struct lab_layer, tail_share), .min = 0, .max = 1},
    {.name = "tail-factor", .type = &rea__type_double, AT(struct lab_layer, tail_factor), .min = 1, .max = 1000},
    {.name = "error-ms", .type = &rea__type_ms, AT(struct lab_layer, error_ns), .min = 0, .max = 600000},
    {.name = "heeds-deadlines", .type = &rea__type_bool, AT(struct lab_layer, heeds_deadlines)},
    {.name = "gate", .type = &rea__type_bool, AT(struct lab_layer, gate)},
    {.name = "margin", .type = &rea__type_double, AT(struct lab_layer, margin), .min = 0, .max = 100},
    {.name = "forgets", .type = &rea__type_bool, AT(struct lab_layer, forgets)},
    {.name = "honours-keys", .type = &rea__type_bool, AT(struct lab_layer, honours_keys)},
};

static const struct rea__field operation_fields[] = {
    {.name = "name", .type = &rea__type_text, AT(struct lab_operation, name)},
    {.name = "share", .type = &rea__type_double, AT(struct lab_operation, share), .min = 0, .max = 1, .above_min = true},
    {.name = "permission", .type = &rea__type_choice, AT(struct operation_reading, permission), .choices = permissions},
    {.name = "key", .type = &rea__type_bool, AT(struct lab_operation, key)},
};

static const struct rea__field fault_fields[] = {
    {.name = "kind", .type = &rea__type_choice, AT(struct lab_fault, kind), .choices = fault_kinds},
    {.name = "layer", .type = &rea__type_text, AT(struct fault_reading, layer)},
    {.name = "instance", .type = &rea__type_text, AT(struct fault_reading, instance)},
    {.name = "at-ms", .type = &rea__type_ms, AT(struct lab_fault, at_ns), .min = 0, .max = 3600000},
    {.name = "for-ms", .type = &rea__type_ms, AT(struct lab_fault, for_ns), .min = 1, .max = 3600000},
    {.name = "for-ms-max", .type = &rea__type_ms, AT(struct lab_fault, for_max_ns), .min = 1, .max = 3600000},
    {.name = "windows", .type = &rea__type_u32, AT(struct lab_fault, windows), .min = 1, .max = 1000},
    {.name = "share", .type = &rea__type_double, AT(struct lab_fault, share), .min = 0, .max = 1},
    {.name = "factor", .type = &rea__type_double, AT(struct lab_fault, factor), .min = 1, .max = 1000},
    {.name = "status", .type = &rea__type_u32, AT(struct lab_fault, status), .min = 400, .max = 599},
    {.name = "costly", .type = &rea__type_bool, AT(struct lab_fault, costly)},
};

struct goal_reading {
	int figure;
	double value;
};

static const struct rea__field goal_fields[] = {
    {.name = "figure", .type = &rea__type_choice, AT(struct goal_reading, figure), .choices = figure_names},
    {.name = "value", .type = &rea__type_double, AT(struct goal_reading, value), .min = 0, .max = DBL_MAX},
};

#define BLOCK(title, table)                                                                                                 \
	{                                                                                                                   \
		.name = title, .fields = table, .fields_len = sizeof(table) / sizeof((table)[0]), .lines_at = REA__NO_LINES \
	}

static const struct rea__block root_block = BLOCK("a scenario", root_fields), layer_block = BLOCK("a layer", layer_fields),
			       operation_block = BLOCK("an operation", operation_fields),
			       fault_block = BLOCK("a fault", fault_fields), goal_block = BLOCK("a goal", goal_fields);

/* What has no place in the document. */
__attribute__((format(printf, 2, 3))) static int refuse_whole(struct rea__reader *reader, const char *format, ...)
{
	va_list args;

	snprintf(reader->info->file, sizeof(reader->info->file), "%s", reader->tree->file);
	va_start(args, format);
	vsnprintf(reader->info->message, sizeof(reader->info->message), format, args);
	va_end(args);
	return REA_ERR_INVALID;
}

/* ---- settings from outside: they count as if the document said so ---- */

static const struct rea__field *find_field(const struct rea__block *block, struct rea_slice key)
{
	assert(block->fields != NULL);
	for (size_t i = 0; i < block->fields_len; i++)
		if (block->fields[i].type != &rea__type_node && rea__key_equal(key, block->fields[i].name))
			return &block->fields[i];
	return NULL;
}

/* Those of the settings that name a key of this block. */
static int apply_settings(struct rea__reader *reader, const char *const *vary, const struct rea__block *block, void *out)
{
	int error = 0;

	for (; error == 0 && vary != NULL && *vary != NULL; vary++) {
		const char *equals = strchr(*vary, '=');
		const struct rea__field *field =
		    equals ? find_field(block, rea_slice_make(*vary, (size_t)(equals - *vary))) : NULL;
		struct rea__node key = {.kind = REA__SCALAR};
		struct rea__node node = {.kind = REA__SCALAR, .plain = true, .key = &key, .parent = reader->tree->root};

		if (field == NULL || strcmp(field->name, "name") == 0)
			continue;
		key.text = field->name;
		key.length = (uint32_t)strlen(field->name);
		node.text = equals + 1;
		node.length = (uint32_t)strlen(equals + 1);
		error = field->type->read(reader, &node, field, (char *)out + field->offset);
	}
	return error;
}

static int check_settings(struct rea__reader *reader, const char *const *vary)
{
	for (; vary != NULL && *vary != NULL; vary++) {
		const char *equals = strchr(*vary, '=');
		struct rea_slice key = rea_slice_make(*vary, equals ? (size_t)(equals - *vary) : strlen(*vary));

		if (equals == NULL ||
		    (!find_field(&root_block, key) && !find_field(&layer_block, key) && !find_field(&fault_block, key)))
			return refuse_whole(
			    reader, "%s is no KEY=VALUE of a scenario, of its layers or of its faults", *vary);
	}
	return 0;
}

/* ---- lists ---- */

/* ret_count: of the children of a list, 0 when it is absent. */
static int count_list(
    struct rea__reader *reader, const struct rea__node *node, const char *what, uint32_t max, uint32_t *ret_count)
{
	const struct rea__node *first;
	int error;

	*ret_count = 0;
	if (node == NULL)
		return 0;
	error = rea__expect_sequence(reader, node, what, &first);
	if (error == 0 && node->length > max)
		error = rea__refuse(reader, node, "expected at most %u of them, got %u", max, node->length);
	if (error == 0)
		*ret_count = node->length;
	return error;
}

static int new_list(struct rea__reader *reader, uint32_t count, size_t size, void *ret_list)
{
	void *list = rea_arena_array(reader->arena, count, size);

	if (list == NULL)
		return rea__nomem(reader);
	memcpy(ret_list, &list, sizeof(list));
	return 0;
}

static int read_layer(struct rea__reader *reader, const struct rea__node *node, const char *const *vary, bool last,
    struct lab_layer *layer)
{
	const struct rea__node *seen[REA__BLOCK_FIELDS_MAX];
	int error;

	*layer = (struct lab_layer){
	    .instances = 1, .queue = 1000, .service_ns = 10 * REA_NS_PER_MS, .tail_factor = 1, .margin = 3, .error_ns = REA_NS_PER_MS};
	error = rea__block_read(reader, node, &layer_block, layer, seen);
	if (error == 0 && layer->name == NULL)
		error = rea__refuse(reader, node, "a layer needs a name");
	if (error == 0 && layer->gate && layer->workers == 0)
		error = rea__refuse(reader, node, "a gate needs workers: without them nothing waits");
	return error == 0 && last ? apply_settings(reader, vary, &layer_block, layer) : error;
}

static int read_layers(
    struct rea__reader *reader, const struct rea__node *node, const char *const *vary, struct lab_scenario *scenario)
{
	int error = count_list(reader, node, "a list of layers", LAB_LAYERS_MAX, &scenario->layers_len);

	if (error == 0 && scenario->layers_len == 0)
		error = rea__refuse(
		    reader, node != NULL ? node : reader->tree->root, "a scenario needs `layers`, at least one");
	node = node != NULL && node->kind == REA__SEQUENCE ? node->first : NULL;
	for (uint32_t i = 0; error == 0 && node != NULL && i < scenario->layers_len; i++, node = node->next) {
		error = read_layer(reader, node, vary, i + 1 == scenario->layers_len, &scenario->layers[i]);
		for (uint32_t k = 0; error == 0 && k < i; k++)
			if (strcmp(scenario->layers[k].name, scenario->layers[i].name) == 0)
				error = rea__refuse(reader, node, "two layers are called %s", scenario->layers[i].name);
	}
	return error;
}

static int read_operations(struct rea__reader *reader, const struct rea__node *node, struct lab_scenario *scenario)
{
	static struct lab_operation reads = {.name = "read", .share = 1, .permission = REA_PERMISSION_SAFE};
	double sum = 0;
	int error = count_list(reader, node, "a list of operations", OPERATIONS_MAX, &scenario->operations_len);

	if (error == 0 && scenario->operations_len == 0) {
		scenario->operations = &reads;
		scenario->operations_len = 1;
		return 0;
	}
	if (error == 0)
		error = new_list(reader, scenario->operations_len, sizeof(*scenario->operations), &scenario->operations);
	node = error == 0 ? node->first : NULL;
	for (uint32_t i = 0; error == 0 && node != NULL; i++, node = node->next) {
		struct operation_reading reading = {.operation = {.share = 1}, .permission = REA_PERMISSION_UNKNOWN};

		error = rea__block_read(reader, node, &operation_block, &reading, NULL);
		if (error == 0 && reading.operation.name == NULL)
			error = rea__refuse(reader, node, "an operation needs a name");
		reading.operation.permission = (enum rea_permission)reading.permission;
		scenario->operations[i] = reading.operation;
		sum += reading.operation.share;
	}
	if (error == 0 && fabs(sum - 1) > 0.001)
		error = rea__refuse(reader, scenario->operations_len > 0 && node == NULL ? reader->tree->root : node,
		    "the shares of the operations come to %g, not 1", sum);
	return error;
}

/* ---- faults ---- */

static int find_layer(struct rea__reader *reader, const struct rea__node *node, const char *name,
    const struct lab_scenario *scenario, uint32_t *ret_layer)
{
	*ret_layer = scenario->layers_len - 1;
	if (name == NULL)
		return 0;
	for (uint32_t i = 0; i < scenario->layers_len; i++)
		if (strcmp(scenario->layers[i].name, name) == 0) {
			*ret_layer = i;
			return 0;
		}
	return rea__refuse(reader, node, "there is no layer %s", name);
}

static int find_instance(struct rea__reader *reader, const struct rea__node *node, const char *name,
    const struct lab_layer *layer, uint32_t *ret_instance)
{
	*ret_instance = LAB_EVERY_INSTANCE;
	if (name == NULL || strcmp(name, "all") == 0)
		return 0;
	if (name[0] >= 'A' && name[1] == '\0' && (uint32_t)(name[0] - 'A') < layer->instances) {
		*ret_instance = (uint32_t)(name[0] - 'A');
		return 0;
	}
	return rea__refuse(reader, node, "there is no instance %s: the layer %s has A to %c, and `all`", name,
	    layer->name, 'A' + (char)(layer->instances - 1));
}

/* The time of a fault must lie within the run, and behind the warm-up. */
static int check_times(struct rea__reader *reader, const struct rea__node *node, const struct rea__node *const *seen,
    const struct lab_scenario *scenario, struct lab_fault *fault)
{
	double measured_s = scenario->duration_s - scenario->warm_up_s;
	double longest_s = (double)rea_time_max(fault->for_ns, fault->for_max_ns) / REA_NS_PER_S;

	if (fault->for_ns == 0)
		return rea__refuse(reader, node, "a fault needs `for-ms`: how long it lasts");
	if ((fault->windows > 0) == (seen[3] != NULL))
		return rea__refuse(reader, node, "a fault needs `at-ms`, or `windows` for a number of times at random");
	if (fault->for_max_ns != 0 && fault->windows == 0)
		return rea__refuse_key(reader, seen[5], "for-ms-max is for `windows`");
	if (fault->for_max_ns != 0 && fault->for_max_ns < fault->for_ns)
		return rea__refuse(reader, seen[5], "for-ms-max is less than for-ms");
	if (fault->windows > 0 && longest_s * fault->windows > measured_s)
		return rea__refuse_key(reader, node->first,
		    "%u windows of %g s do not fit in the %g s after the warm-up", fault->windows, longest_s, measured_s);
	if (fault->windows == 0 && (double)fault->at_ns / REA_NS_PER_S < scenario->warm_up_s)
		return rea__refuse(
		    reader, seen[3], "at-ms is within the warm-up of %g s, which is not measured", scenario->warm_up_s);
	if (fault->windows == 0 && (double)fault->at_ns / REA_NS_PER_S + longest_s > scenario->duration_s)
		return rea__refuse(reader, seen[3], "the fault ends at %g s, after the run's %g s",
		    (double)fault->at_ns / REA_NS_PER_S + longest_s, scenario->duration_s);
	return 0;
}

static int check_kind(struct rea__reader *reader, const struct rea__node *node, const struct rea__node *const *seen,
    const struct lab_fault *fault)
{
	if (seen[0] == NULL)
		return rea__refuse(reader, node, "a fault needs a `kind`");
	if (fault->kind == LAB_FAULT_SLOW && seen[8] == NULL)
		return rea__refuse(reader, node, "slow needs `factor`: how many times as long");
	if (fault->kind != LAB_FAULT_SLOW && seen[8] != NULL)
		return rea__refuse_key(reader, seen[8], "factor is for slow");
	if (fault->kind == LAB_FAULT_CAPACITY && seen[7] == NULL)
		return rea__refuse(reader, node, "capacity needs `share`: how much of it is left");
	if (fault->kind != LAB_FAULT_ERROR && (seen[9] != NULL || seen[10] != NULL))
		return rea__refuse_key(reader, seen[9] != NULL ? seen[9] : seen[10], "this is for error");
	if ((fault->kind == LAB_FAULT_REFUSE || fault->kind == LAB_FAULT_SLOW) && seen[7] != NULL)
		return rea__refuse_key(
		    reader, seen[7], "an instance refuses, or is slow, as a whole: there is no share of it");
	return 0;
}

static int read_fault(struct rea__reader *reader, const struct rea__node *node, const char *const *vary,
    const struct lab_scenario *scenario, struct lab_fault *ret_fault)
{
	struct fault_reading reading = {.fault = {.share = 1, .factor = 1, .status = 503}};
	const struct rea__node *seen[REA__BLOCK_FIELDS_MAX];
	struct lab_fault *fault = &reading.fault;
	int error = rea__block_read(reader, node, &fault_block, &reading, seen);

	if (error == 0)
		error = apply_settings(reader, vary, &fault_block, &reading);
	if (error == 0)
		error = check_kind(reader, node, seen, fault);
	if (error == 0)
		error = check_times(reader, node, seen, scenario, fault);
	if (error == 0)
		error = find_layer(reader, seen[1], reading.layer, scenario, &fault->layer);
	if (error == 0)
		error = find_instance(reader, seen[2], reading.instance, &scenario->layers[fault->layer], &fault->instance);
	if (error == 0 && fault->kind == LAB_FAULT_CAPACITY && scenario->layers[fault->layer].workers == 0)
		error = rea__refuse(reader, node, "the layer %s has no worker slots that could be fewer",
		    scenario->layers[fault->layer].name);
	fault->line = node->line;
	*ret_fault = *fault;
	return error;
}

static int read_faults(
    struct rea__reader *reader, const struct rea__node *node, const char *const *vary, struct lab_scenario *scenario)
{
	int error = count_list(reader, node, "a list of faults", FAULTS_MAX, &scenario->faults_len);

	if (error == 0)
		error = new_list(reader, scenario->faults_len, sizeof(*scenario->faults), &scenario->faults);
	node = error == 0 && node != NULL ? node->first : NULL;
	for (uint32_t i = 0; error == 0 && node != NULL; i++, node = node->next)
		error = read_fault(reader, node, vary, scenario, &scenario->faults[i]);
	return error;
}

static int read_goals(struct rea__reader *reader, const struct rea__node *node, struct lab_scenario *scenario)
{
	int error = count_list(reader, node, "a list of goals", GOALS_MAX, &scenario->goals_len);

	if (error == 0)
		error = new_list(reader, scenario->goals_len, sizeof(*scenario->goals), &scenario->goals);
	node = error == 0 && node != NULL ? node->first : NULL;
	for (uint32_t i = 0; error == 0 && node != NULL; i++, node = node->next) {
		const struct rea__node *seen[REA__BLOCK_FIELDS_MAX];
		struct goal_reading reading = {0};

		error = rea__block_read(reader, node, &goal_block, &reading, seen);
		if (error == 0 && (seen[0] == NULL || seen[1] == NULL))
			error = rea__refuse(reader, node, "a goal needs `figure` and `value`");
		scenario->goals[i] = (struct lab_goal){.figure = (enum lab_figure)reading.figure, .value = reading.value};
	}
	return error;
}

/* ---- the whole ---- */

double lab_layer_mean_ns(const struct lab_layer *layer)
{
	double mean = (double)layer->service_ns * exp(layer->sigma * layer->sigma / 2);

	return mean * (1 + layer->tail_share * (layer->tail_factor - 1));
}

double lab_scenario_rate(const struct lab_scenario *scenario)
{
	const struct lab_layer *last = &scenario->layers[scenario->layers_len - 1];

	if (scenario->rate > 0)
		return scenario->rate;
	return scenario->load * last->instances * last->workers / (lab_layer_mean_ns(last) / REA_NS_PER_S);
}

static int check_whole(struct rea__reader *reader, const struct lab_scenario *scenario)
{
	const struct rea__node *root = reader->tree->root;

	if (scenario->name == NULL)
		return rea__refuse(reader, root, "a scenario needs a name");
	if ((scenario->load > 0) == (scenario->rate > 0))
		return rea__refuse(reader, root, "a scenario needs `load` or `rate`, and not both");
	if (scenario->load > 0 && scenario->layers[scenario->layers_len - 1].workers == 0)
		return rea__refuse(reader, root,
		    "`load` is a share of what the last layer can do, which needs its `workers`; else say `rate`");
	if (scenario->warm_up_s >= scenario->duration_s)
		return rea__refuse(reader, root, "the warm-up of %g s leaves nothing of the %g s to measure",
		    scenario->warm_up_s, scenario->duration_s);
	if (scenario->attempt_timeout_ns > scenario->deadline_ns)
		return rea__refuse(reader, root, "attempt-timeout-ms is more than deadline-ms");
	if (lab_scenario_rate(scenario) * scenario->duration_s > LAB_CALLS_MAX)
		return rea__refuse(reader, root, "that comes to %.0f calls; %.0f are the limit",
		    lab_scenario_rate(scenario) * scenario->duration_s, (double)LAB_CALLS_MAX);
	return 0;
}

static int read_document(struct rea__reader *reader, const char *const *vary, struct lab_scenario *ret_scenario)
{
	struct document document = {.scenario = *ret_scenario};
	struct lab_scenario *scenario = &document.scenario;
	int error;

	reader->arena = &scenario->arena;
	scenario->duration_s = 115;
	scenario->warm_up_s = 15;
	scenario->clients = 50;
	scenario->deadline_ns = 3 * REA_NS_PER_S;
	scenario->attempt_timeout_ns = REA_NS_PER_S;
	if (reader->tree->root == NULL)
		return refuse_whole(reader, "the document is empty");
	error = rea__block_read(reader, reader->tree->root, &root_block, &document, NULL);
	if (error == 0)
		error = check_settings(reader, vary);
	if (error == 0)
		error = apply_settings(reader, vary, &root_block, &document);
	if (error == 0)
		error = read_layers(reader, document.layers, vary, scenario);
	if (error == 0)
		error = check_whole(reader, scenario);
	if (error == 0)
		error = read_operations(reader, document.operations, scenario);
	if (error == 0)
		error = read_faults(reader, document.faults, vary, scenario);
	if (error == 0)
		error = read_goals(reader, document.goals, scenario);
	*ret_scenario = *scenario;
	return error;
}

int lab_scenario_parse(const char *name, const char *text, size_t length, const char *const *vary,
    struct lab_scenario *ret_scenario, struct rea_error_info *ret_info)
{
	struct lab_scenario scenario = {.name = NULL};
	struct rea__reader reader = {.info = ret_info};
	struct rea__tree tree;
	int error;

	memset(ret_info, 0, sizeof(*ret_info));
	error = rea__tree_parse(name, text, length, rea_alloc_default(), &tree, ret_info);
	if (error != 0)
		return error;
	rea_arena_init(&scenario.arena, rea_alloc_default());
	reader.tree = &tree;
	error = read_document(&reader, vary, &scenario);
	rea__tree_free(&tree);
	if (error == 0)
		*ret_scenario = scenario;
	else
		rea_arena_fini(&scenario.arena);
	return error;
}

static int read_file(const char *path, struct rea_buffer *text)
{
	FILE *file = fopen(path, "r");
	size_t length;
	int error = 0;

	if (file == NULL)
		return REA_ERR_IO;
	do {
		error = rea_buffer_reserve(text, 4096);
		length = error == 0 ? fread(text->data + text->end, 1, 4096, file) : 0;
		text->end += length;
	} while (length > 0 && rea_buffer_length(text) <= FILE_BYTES_MAX);
	if (ferror(file))
		error = REA_ERR_IO;
	else if (rea_buffer_length(text) > FILE_BYTES_MAX)
		error = REA_ERR_LIMIT;
	fclose(file);
	return error;
}

int lab_scenario_load(
    const char *path, const char *const *vary, struct lab_scenario *ret_scenario, struct rea_error_info *ret_info)
{
	struct rea_buffer text = {.data = NULL};
	int error = read_file(path, &text);

	if (error == 0)
		error = lab_scenario_parse(path, rea_buffer_length(&text) > 0 ? rea_buffer_data(&text) : "",
		    rea_buffer_length(&text), vary, ret_scenario, ret_info);
	else
		*ret_info = (struct rea_error_info){.line = 0};
	if (error != 0 && ret_info->message[0] == '\0') {
		snprintf(ret_info->file, sizeof(ret_info->file), "%s", path);
		snprintf(ret_info->message, sizeof(ret_info->message), "cannot be read: %s",
		    error == REA_ERR_IO ? strerror(errno) : rea_error_text(error));
	}
	rea_buffer_fini(&text);
	return error;
}

void lab_scenario_fini(struct lab_scenario *scenario)
{
	rea_arena_fini(&scenario->arena);
}
