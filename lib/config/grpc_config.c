/*
 * gRPC service configs (JSON, as gRPC's clients read them): a layer of a caller's wishes that stands below rea's own documents.
 *
 * Of methodConfig, `name`, `timeout` and `retryPolicy` are read, and `retryThrottling` of the whole; all else, which is not about retries, is left
 * unread. What gRPC allows and rea does not, such as a first wait of 1 ms, is raised to what rea allows: that way is never more dangerous.
 */
#include "config/contract_document.h"
#include "config/snapshot.h"

#include <rea/time.h>

#include <stdio.h>

#define BIT(key) (UINT32_C(1) << (key))
/* gRPC's clients make no more, whatever the document says. */
#define GRPC_ATTEMPTS_MAX 5
#define GRPC_CODES 17
#define CODE_UNAVAILABLE 14

static const char *const code_names[GRPC_CODES] = {"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
    "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"};

/* One methodConfig while it is read. */
struct reading {
	struct rea__reader *reader;
	struct rea__policy_reading values; /* only `values` is used */
	uint32_t set;
	const struct rea__node *seen[REA__BLOCK_FIELDS_MAX]; /* where each key was said */
};

static void say(struct reading *reading, enum rea_policy_key key, const struct rea__node *node)
{
	reading->set |= BIT(key);
	reading->seen[key] = node;
}

/* ---- values ---- */

/* "1.5s": seconds with up to nine digits behind the point, as protobuf writes durations. */
static bool parse_duration(struct rea_slice text, uint64_t *ret_ns)
{
	const char *dot;
	struct rea_slice whole, part = {NULL, 0};
	uint64_t seconds, ns = 0;

	if (text.length < 2 || text.data[text.length - 1] != 's')
		return false;
	whole = rea_slice_make(text.data, text.length - 1);
	dot = memchr(whole.data, '.', whole.length);
	if (dot != NULL) {
		part = rea_slice_make(dot + 1, (size_t)(whole.data + whole.length - dot) - 1);
		whole.length = (size_t)(dot - whole.data);
		if (part.length > 9 || !rea_slice_to_u64(part, &ns))
			return false;
		for (size_t i = part.length; i < 9; i++)
			ns *= 10;
	}
	if (!rea_slice_to_u64(whole, &seconds))
		return false;
	*ret_ns = rea_time_add(rea_time_mul(seconds, REA_NS_PER_S), ns);
	return true;
}

static int read_duration(struct rea__reader *reader, const struct rea__node *parent, const char *name,
    const struct rea__node **ret_node, uint64_t *ret_ns)
{
	static const char expected[] = "a time above 0 such as \"0.1s\"";
	const struct rea__node *node = rea__node_child(parent, name);

	if (node == NULL)
		return rea__refuse(reader, parent, "a retryPolicy needs %s", name);
	*ret_node = node;
	if (node->kind != REA__SCALAR || !parse_duration(rea__node_text(node), ret_ns) || *ret_ns == 0)
		return rea__refuse_value(reader, node, expected, "");
	return 0;
}

static int read_number(struct rea__reader *reader, const struct rea__node *parent, const char *block, const char *name,
    double min, double max, bool above_min, const struct rea__node **ret_node, double *ret_value)
{
	const struct rea__field field = {.name = name, .min = min, .max = max, .above_min = above_min};
	const struct rea__node *node = rea__node_child(parent, name);

	if (node == NULL)
		return rea__refuse(reader, parent, "a %s needs %s", block, name);
	*ret_node = node;
	return rea__type_double.read(reader, node, &field, ret_value);
}

/* A status by its name, in any case, or by its number. */
static int read_code(struct rea__reader *reader, const struct rea__node *node, uint32_t *ret_code)
{
	struct rea__suggest suggest;
	char hint[REA__SUGGEST_SIZE], quote[REA__QUOTE_SIZE];
	struct rea_slice text = node->kind == REA__SCALAR ? rea__node_text(node) : rea_slice_make(NULL, 0);
	uint64_t number;

	if (node->plain && rea_slice_to_u64(text, &number) && number < GRPC_CODES) {
		*ret_code = (uint32_t)number;
		return 0;
	}
	for (uint32_t code = 0; code < GRPC_CODES; code++) {
		if (rea_slice_equal_nocase(text, rea_slice_of(code_names[code]))) {
			*ret_code = code;
			return 0;
		}
	}
	rea__suggest_init(&suggest, text);
	for (uint32_t code = 0; code < GRPC_CODES; code++)
		rea__suggest_offer(&suggest, code_names[code]);
	return rea__refuse(
	    reader, node, "there is no gRPC status %s%s", rea__quote(text, quote), rea__suggest_text(&suggest, hint));
}

/* ---- retryableStatusCodes ---- */

static void classify(struct rea_policy *policy, uint32_t code, enum rea_outcome outcome)
{
	policy->classify[policy->classify_len++] =
	    (struct rea_classify_rule){.kind = REA_CODE_GRPC, .code = code, .outcome = outcome};
}

/*
 * A list of statuses in terms of outcomes. A listed one that is retried as what it is anyway stays what it is; another one counts as UNAVAILABLE. One
 * that is not listed and would be retried counts as FAILED. A connection that broke is UNAVAILABLE for gRPC's clients, too.
 */
static void apply_codes(struct reading *reading, uint32_t listed, const struct rea__node *node)
{
	const uint32_t natural = REA_OUTCOME_BIT(REA_OUTCOME_UNAVAILABLE) | REA_OUTCOME_BIT(REA_OUTCOME_AMBIGUOUS) |
				 REA_OUTCOME_BIT(REA_OUTCOME_THROTTLED);
	struct rea_policy *policy = &reading->values.values;

	policy->retry_on = REA_OUTCOME_BIT(REA_OUTCOME_NEVER_SENT) | REA_OUTCOME_BIT(REA_OUTCOME_PUSHBACK);
	if (listed & BIT(CODE_UNAVAILABLE))
		policy->retry_on |= REA_OUTCOME_BIT(REA_OUTCOME_AMBIGUOUS);
	for (uint32_t code = 1; code < GRPC_CODES; code++) {
		enum rea_outcome outcome = rea_outcome_from_grpc(code, NULL, 0);

		if (!(listed & BIT(code)))
			continue;
		if (!(natural & REA_OUTCOME_BIT(outcome))) {
			outcome = REA_OUTCOME_UNAVAILABLE;
			classify(policy, code, outcome);
		}
		policy->retry_on |= REA_OUTCOME_BIT(outcome);
	}
	for (uint32_t code = 1; code < GRPC_CODES; code++)
		if (!(listed & BIT(code)) && (policy->retry_on & REA_OUTCOME_BIT(rea_outcome_from_grpc(code, NULL, 0))))
			classify(policy, code, REA_OUTCOME_FAILED);
	say(reading, REA_POLICY_RETRY_ON, node);
	say(reading, REA_POLICY_CLASSIFY, node);
}

static int read_codes(struct reading *reading, const struct rea__node *policy)
{
	const struct rea__node *node = rea__node_child(policy, "retryableStatusCodes"), *item = NULL;
	uint32_t listed = 0, code = 0;
	int error;

	if (node == NULL || node->kind != REA__SEQUENCE || node->first == NULL)
		return rea__refuse(reading->reader, node ? node : policy,
		    "a retryPolicy needs retryableStatusCodes, a list of at least one gRPC status");
	for (item = node->first; item != NULL; item = item->next) {
		error = read_code(reading->reader, item, &code);
		if (error != 0)
			return error;
		if (code == 0)
			return rea__refuse(reading->reader, item, "OK is no failure that could be retried");
		listed |= BIT(code);
	}
	apply_codes(reading, listed, node);
	return 0;
}

/* ---- a methodConfig ---- */

#define HOUR_NS REA_POLICY_DEADLINE_NS_MAX

static int read_attempts(struct reading *reading, const struct rea__node *policy)
{
	const struct rea__node *node;
	double attempts;
	int error =
	    read_number(reading->reader, policy, "retryPolicy", "maxAttempts", 2, UINT32_MAX, false, &node, &attempts);

	if (error != 0)
		return error;
	if (attempts != (double)(uint32_t)attempts)
		return rea__refuse_value(reading->reader, node, "a whole number of attempts, the first one included", "");
	reading->values.values.max_retry_next_instance =
	    attempts > GRPC_ATTEMPTS_MAX ? GRPC_ATTEMPTS_MAX - 1 : (uint32_t)attempts - 1;
	reading->values.values.enabled = true;
	say(reading, REA_POLICY_MAX_RETRY_SAME_INSTANCE, node);
	say(reading, REA_POLICY_MAX_RETRY_NEXT_INSTANCE, node);
	say(reading, REA_POLICY_ENABLED, policy);
	return 0;
}

static int read_backoff(struct reading *reading, const struct rea__node *policy)
{
	struct rea_policy *values = &reading->values.values;
	const struct rea__node *first = NULL, *most = NULL, *factor = NULL;
	int error = read_duration(reading->reader, policy, "initialBackoff", &first, &values->min_backoff_ns);

	if (error == 0)
		error = read_duration(reading->reader, policy, "maxBackoff", &most, &values->max_backoff_ns);
	if (error == 0)
		error = read_number(reading->reader, policy, "retryPolicy", "backoffMultiplier", 0, 1e9, true, &factor,
		    &values->backoff_multiplier);
	if (error != 0)
		return error;
	values->min_backoff_ns = rea_time_min(rea_time_max(values->min_backoff_ns, REA_POLICY_BACKOFF_NS_MIN), HOUR_NS);
	values->max_backoff_ns = rea_time_min(rea_time_max(values->max_backoff_ns, values->min_backoff_ns), HOUR_NS);
	if (values->backoff_multiplier < 1)
		values->backoff_multiplier = 1;
	if (values->backoff_multiplier > 1000)
		values->backoff_multiplier = 1000;
	say(reading, REA_POLICY_MIN_BACKOFF, first);
	say(reading, REA_POLICY_MAX_BACKOFF, most);
	say(reading, REA_POLICY_BACKOFF_MULTIPLIER, factor);
	return 0;
}

static int read_retry_policy(struct reading *reading, const struct rea__node *entry)
{
	const struct rea__node *policy = rea__node_child(entry, "retryPolicy"),
			       *hedging = rea__node_child(entry, "hedgingPolicy");
	int error;

	if (hedging != NULL)
		return rea__refuse_key(reading->reader,
		    hedging, "rea does not hedge: nothing here sends a call twice at once. Use a retryPolicy, or leave it out of this copy");
	if (policy == NULL)
		return 0;
	if (policy->kind != REA__MAPPING)
		return rea__refuse_value(reading->reader, policy, "a mapping with maxAttempts, initialBackoff and so on", "");
	error = read_attempts(reading, policy);
	if (error == 0)
		error = read_backoff(reading, policy);
	return error ? error : read_codes(reading, policy);
}

/* gRPC has one time, for the call with all of its attempts. */
static int read_timeout(struct reading *reading, const struct rea__node *entry)
{
	const struct rea__node *node = rea__node_child(entry, "timeout");
	struct rea_policy *values = &reading->values.values;
	int error;

	if (node == NULL)
		return 0;
	error = read_duration(reading->reader, entry, "timeout", &node, &values->deadline_ns);
	if (error != 0)
		return error;
	values->deadline_ns = values->attempt_timeout_ns =
	    rea_time_min(rea_time_max(values->deadline_ns, REA_NS_PER_MS), REA_POLICY_DEADLINE_NS_MAX);
	say(reading, REA_POLICY_DEADLINE, node);
	say(reading, REA_POLICY_ATTEMPT_TIMEOUT, node);
	return 0;
}

/* ---- retryThrottling ---- */

static int read_throttling(struct reading *reading, const struct rea__node *root)
{
	const struct rea__node *node = rea__node_child(root, "retryThrottling"), *where;
	struct rea_budget_policy *budget = &reading->values.values.budget;
	double tokens, ratio;
	int error;

	if (node == NULL)
		return 0;
	error = read_number(
	    reading->reader, node, "retryThrottling", "maxTokens", 0, REA_BUDGET_MAX_TOKENS_MAX, true, &where, &tokens);
	if (error == 0 && tokens != (double)(uint32_t)tokens)
		error = rea__refuse_value(reading->reader, where, "a whole number of tokens", "");
	if (error == 0)
		error = read_number(reading->reader, node, "retryThrottling", "tokenRatio", 0,
		    REA_BUDGET_TOKEN_RATIO_PERMILLE_MAX / 1000.0, true, &where, &ratio);
	if (error != 0)
		return error;
	*budget = rea__policy_default_values()->budget;
	budget->rule = REA_BUDGET_GRPC;
	budget->max_tokens = (uint32_t)tokens;
	/* Digits behind the third are ignored, as gRPC does. */
	budget->token_ratio_permille = (uint32_t)(ratio * 1000 + 1e-6);
	if (budget->token_ratio_permille == 0)
		return rea__refuse_value(reading->reader, where, "at least 0.001", "");
	say(reading, REA_POLICY_BUDGET, node);
	return 0;
}

/* ---- names ---- */

/* "package.Service/Method" of one `name`. */
static int read_name(struct rea__reader *reader, const struct rea__node *node, const char **ret_name)
{
	const struct rea__node *service = rea__node_child(node, "service"), *method = rea__node_child(node, "method");
	struct rea_slice of =
	    service != NULL && service->kind == REA__SCALAR ? rea__node_text(service) : rea_slice_make("", 0);
	struct rea_slice name =
	    method != NULL && method->kind == REA__SCALAR ? rea__node_text(method) : rea_slice_make("", 0);

	if (node->kind != REA__MAPPING)
		return rea__refuse_value(
		    reader, node, "a name such as {\"service\": \"package.Service\", \"method\": \"Method\"}", "");
	if (of.length == 0 && name.length > 0)
		return rea__refuse(reader, method, "a method needs the service that it belongs to");
	if (memchr(of.data, '/', of.length) != NULL || memchr(name.data, '/', name.length) != NULL)
		return rea__refuse(reader, node, "no part of a name has a slash in it");
	*ret_name = of.length == 0 ? "" : rea__join(reader->arena, rea_arena_string(reader->arena, of), "/", name);
	return *ret_name == NULL ? rea__nomem(reader) : 0;
}

static int add_entry(struct rea__reader *reader, const struct rea__node *node, const struct reading *reading,
    const char *name, struct rea__wishes *grpc)
{
	struct rea__wish *entry;
	uint32_t at;

	/* The default one is there already, for retryThrottling; it may be said once. */
	if (rea_map_find(&grpc->by_name, rea_slice_of(name), &at) && (name[0] != '\0' || grpc->entries[at].lines != NULL))
		return rea__refuse(reader, node, "another methodConfig has this name already");
	if (name[0] == '\0') {
		entry = &grpc->entries[0];
	} else {
		entry = &grpc->entries[grpc->entries_len];
		if (rea_map_insert(&grpc->by_name, rea_slice_of(name), (uint32_t)grpc->entries_len) != 0)
			return rea__nomem(reader);
		grpc->entries_len++;
	}
	entry->name = name;
	entry->keys.set = reading->set;
	entry->keys.values = reading->values.values;
	return rea__lines_new(reader, reading->set, reading->seen, &entry->lines);
}

/* ---- the document ---- */

static int read_method_config(
    struct rea__reader *reader, const struct rea__node *node, const struct reading *whole, struct rea__wishes *grpc)
{
	struct reading reading = *whole;
	const struct rea__node *names = rea__node_child(node, "name"), *item;
	const char *name;
	int error = read_retry_policy(&reading, node);

	if (error == 0)
		error = read_timeout(&reading, node);
	if (error != 0)
		return error;
	if (names == NULL || names->kind != REA__SEQUENCE || names->first == NULL)
		return rea__refuse(reader, names ? names : node, "a methodConfig needs name, a list of at least one");
	for (item = names->first; item != NULL && error == 0; item = item->next) {
		error = read_name(reader, item, &name);
		if (error == 0)
			error = add_entry(reader, item, &reading, name, grpc);
	}
	return error;
}

/* What a methodConfig would be with rea's defaults alone: is it a policy? */
static int check_entry(struct rea__reader *reader, const struct rea__wish *entry, const struct rea__node *at)
{
	const struct rea_policy_layer *const layers[] = {&entry->keys};
	struct rea_error_info wrong;
	struct rea_policy policy;

	rea_policy_merge(layers, 1, SIZE_MAX, &policy);
	memset(&wrong, 0, sizeof(wrong));
	return rea_policy_validate(&policy, &wrong) != 0 ? rea__refuse(reader, at, "%s", wrong.message) : 0;
}

static size_t count_names(const struct rea__node *configs)
{
	size_t count = 1;

	for (const struct rea__node *item = configs ? configs->first : NULL; item != NULL; item = item->next) {
		const struct rea__node *names = rea__node_child(item, "name");

		count += names != NULL && names->kind == REA__SEQUENCE ? names->length : 0;
	}
	return count;
}

static int read_document(struct rea__reader *reader, struct rea__wishes *grpc)
{
	static const struct rea__node nothing = {.line = 1, .column = 1};
	const struct rea__node *root = reader->tree->root ? reader->tree->root : &nothing, *configs, *item;
	struct reading whole = {.reader = reader};
	size_t count;
	int error;

	if (root->kind != REA__MAPPING)
		return rea__refuse(reader, root, "a gRPC service config is a JSON object, such as {\"methodConfig\": []}");
	configs = rea__node_child(root, "methodConfig");
	if (configs != NULL && configs->kind != REA__SEQUENCE)
		return rea__refuse_value(reader, configs, "a list of methodConfig", "");
	error = read_throttling(&whole, root);
	if (error != 0)
		return error;
	count = count_names(configs);
	grpc->entries = rea_arena_array(reader->arena, count, sizeof(*grpc->entries));
	if (grpc->entries == NULL || rea_map_reserve(&grpc->by_name, count) != 0 ||
	    rea_map_insert(&grpc->by_name, REA_SLICE_LIT(""), 0) != 0)
		return rea__nomem(reader);
	grpc->entries_len = 1;
	grpc->entries[0] = (struct rea__wish){.name = ""};
	for (item = configs ? configs->first : NULL; item != NULL && error == 0; item = item->next) {
		size_t before = grpc->entries_len;

		error = read_method_config(reader, item, &whole, grpc);
		/* All names of one methodConfig have the same keys. */
		if (error == 0)
			error = check_entry(reader, &grpc->entries[before < grpc->entries_len ? before : 0], item);
	}
	if (error == 0 && grpc->entries[0].lines == NULL) {
		grpc->entries[0].keys.set = whole.set;
		grpc->entries[0].keys.values = whole.values.values;
		error = rea__lines_new(reader, whole.set, whole.seen, &grpc->entries[0].lines);
	}
	return error;
}

/* It is one of the documents that make the version, and that are watched. */
static int note_file(struct rea__reader *reader, struct rea_config *config, const char *path, const char *text, size_t length)
{
	struct rea_config_contract_file *files =
	    rea_arena_array(reader->arena, config->contract_files_len + 1, sizeof(*files));

	if (files == NULL)
		return rea__nomem(reader);
	if (config->contract_files_len > 0)
		memcpy(files, config->contract_files, config->contract_files_len * sizeof(*files));
	files[config->contract_files_len].path = path;
	rea_hash_hex(rea_hash(text, length), files[config->contract_files_len].version);
	config->contract_files = files;
	config->contract_files_len++;
	config->documents_hash = rea_hash_more(config->documents_hash, text, length);
	return 0;
}

int rea__grpc_config_read(
    struct rea__reader *reader, const struct rea__node *node, struct rea_config *config, struct rea__wishes *ret_grpc)
{
	struct rea_buffer content = {.alloc = &config->alloc};
	struct rea__tree tree;
	struct rea__reader inner = {.tree = &tree, .arena = reader->arena, .info = reader->info};
	struct rea_slice path;
	int error = rea__expect_text(reader, node, "the path of a gRPC service config", &path);

	if (error != 0)
		return error;
	ret_grpc->by_name.alloc = &config->alloc;
	ret_grpc->file = rea__beside(reader->arena, config->name, path);
	if (ret_grpc->file == NULL)
		return rea__nomem(reader);
	error = rea__file_read(ret_grpc->file, &content, reader->info);
	if (error == REA_ERR_IO) {
		char why[sizeof(reader->info->message)];

		memcpy(why, reader->info->message, sizeof(why));
		rea_buffer_fini(&content);
		return rea__refuse_at(reader->info, reader->tree->file, REA_ERR_IO, node, "%s %.200s", ret_grpc->file, why);
	}
	if (error == 0) {
		const char *text = content.data != NULL ? content.data + content.start : "";

		error = note_file(reader, config, ret_grpc->file, text, rea_buffer_length(&content));
		if (error == 0)
			error = rea__tree_parse(
			    ret_grpc->file, text, rea_buffer_length(&content), &config->alloc, &tree, reader->info);
		if (error == 0) {
			error = read_document(&inner, ret_grpc);
			rea__tree_free(&tree);
		}
	}
	rea_buffer_fini(&content);
	return error;
}

/* ---- finding ---- */

size_t rea__grpc_config_find(const struct rea__wishes *grpc, struct rea_slice path)
{
	const char *slash = path.length > 0 ? memchr(path.data, '/', path.length) : NULL;
	uint32_t entry;

	if (slash != NULL &&
	    (rea_map_find(&grpc->by_name, path, &entry) ||
		rea_map_find(&grpc->by_name, rea_slice_make(path.data, (size_t)(slash - path.data) + 1), &entry)))
		return entry;
	return 0;
}

/* How much of a key an entry's name is, 0 = it is another one's. A method's counts for one more than its service's. */
static size_t likeness(const char *name, struct rea_slice key)
{
	size_t length = strlen(name), service = (size_t)(strchr(name, '/') - name);

	if (key.length <= service || memcmp(name, key.data, service) != 0 || key.data[service] != '_')
		return 0;
	if (service + 1 == length)
		return length;
	return length == key.length && memcmp(name + service + 1, key.data + service + 1, length - service - 1) == 0
		   ? length + 1
		   : 0;
}

size_t rea__grpc_config_find_key(const struct rea__wishes *grpc, struct rea_slice key)
{
	size_t best = 0, best_likeness = 0;

	for (size_t i = 1; i < grpc->entries_len; i++) {
		size_t like = likeness(grpc->entries[i].name, key);

		if (like > best_likeness) {
			best = i;
			best_likeness = like;
		}
	}
	return best;
}

void rea__stack_push_wish(struct rea__stack *stack, const struct rea__wishes *wishes, size_t entry)
{
	stack->items[stack->len++] = (struct rea__stack_item){.keys = &wishes->entries[entry].keys,
	    .lines = wishes->entries[entry].lines,
	    .place = REA__PLACE_WISH,
	    .file = wishes->file,
	    .note = wishes->entries[entry].note};
}
