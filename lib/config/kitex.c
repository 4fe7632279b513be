/*
 * What Kitex keeps under "Client.Server.retry": JSON or YAML, by method, "*" for all others. It is a layer of a caller's wishes for one service, below
 * all that rea's own documents say.
 *
 * The document is shared with Kitex's own clients, so what rea does not do is left out instead of refused, never so that more is sent: `type` 1, a second
 * request while the first one is under way, leaves a method without retries; waits are raised to what rea allows.
 */
#include "config/contract_document.h"
#include "config/snapshot.h"

#include <rea/time.h>

#include <stdio.h>

#define BIT(key) (UINT32_C(1) << (key))
/* Kitex takes no more. */
#define RETRIES_MAX 5
#define BACKOFF_MS_MAX 3600000.0

enum type { TYPE_FAILURE, TYPE_BACKUP, TYPE_MIXED };

/* One method while it is read. */
struct reading {
	struct rea__reader *reader;
	struct rea_policy values;
	uint32_t set;
	const struct rea__node *seen[REA__BLOCK_FIELDS_MAX]; /* where each key was said */
	const char *note;
};

static void say(struct reading *reading, enum rea_policy_key key, const struct rea__node *node)
{
	reading->set |= BIT(key);
	reading->seen[key] = node;
}

/* ---- names ---- */

static struct rea_slice last_part(struct rea_slice name)
{
	size_t start = name.length;

	while (start > 0 && name.data[start - 1] != '/')
		start--;
	return rea_slice_make(name.data + start, name.length - start);
}

/* Without ".retry"; empty = it does not end so. */
static struct rea_slice stem_of(struct rea_slice name)
{
	static const char suffix[] = ".retry";
	const size_t length = sizeof(suffix) - 1;
	struct rea_slice last = last_part(name);

	if (last.length <= length || memcmp(last.data + last.length - length, suffix, length) != 0)
		return rea_slice_make("", 0);
	return rea_slice_make(last.data, last.length - length);
}

bool rea__kitex_is_name(struct rea_slice name)
{
	struct rea_slice stem = stem_of(name);

	return stem.length > 2 && memchr(stem.data + 1, '.', stem.length - 2) != NULL;
}

const struct rea_config_service *rea__kitex_service(const struct rea_config *config, struct rea_slice name)
{
	struct rea_slice stem = stem_of(name);

	/* The longest first: names have dots of their own. */
	for (size_t at = 1; at + 1 < stem.length; at++) {
		const struct rea_config_service *service =
		    stem.data[at] == '.' ? rea_config_find_service(config, stem.data + at + 1, stem.length - at - 1) : NULL;

		if (service != NULL)
			return service;
	}
	return NULL;
}

/* ---- values ---- */

/* Written only when the key is there. ret_node: where, NULL = it is not. */
static int read_number(struct reading *reading, const struct rea__node *parent, const char *name, double max,
    const struct rea__node **ret_node, double *ret_value)
{
	const struct rea__field field = {.name = name, .min = 0, .max = max};

	*ret_node = parent != NULL ? rea__node_child(parent, name) : NULL;
	return *ret_node != NULL ? rea__type_double.read(reading->reader, *ret_node, &field, ret_value) : 0;
}

static int read_flag(struct reading *reading, const struct rea__node *parent, const char *name,
    const struct rea__node **ret_node, bool *ret_value)
{
	const struct rea__field field = {.name = name};

	*ret_node = parent != NULL ? rea__node_child(parent, name) : NULL;
	return *ret_node != NULL ? rea__type_bool.read(reading->reader, *ret_node, &field, ret_value) : 0;
}

static int read_object(
    struct reading *reading, const struct rea__node *parent, const char *name, const struct rea__node **ret_node)
{
	const struct rea__node *node = parent != NULL ? rea__node_child(parent, name) : NULL;

	*ret_node = node != NULL && rea__node_is_null(node) ? NULL : node;
	if (*ret_node != NULL && node->kind != REA__MAPPING)
		return rea__refuse_value(reading->reader, node, "an object", "");
	return 0;
}

static int need_number(struct reading *reading, const struct rea__node *items, const struct rea__node *backoff,
    const char *name, double *ret_ms)
{
	const struct rea__node *node;
	int error = read_number(reading, items, name, BACKOFF_MS_MAX, &node, ret_ms);

	if (error == 0 && node == NULL)
		return rea__refuse(
		    reading->reader, items ? items : backoff, "this backoff_type needs cfg_items with %s", name);
	return error;
}

/* ---- when to stop ---- */

static int read_attempts(struct reading *reading, const struct rea__node *stop, const struct rea__node *policy)
{
	const struct rea__node *times, *same;
	bool same_node = false;
	double retries = 0;
	int error = read_number(reading, stop, "max_retry_times", RETRIES_MAX, &times, &retries);

	if (error == 0 && retries > (double)(uint32_t)retries)
		return rea__refuse_value(reading->reader, times, "a whole number of retries", "");
	if (error == 0)
		error = read_flag(reading, policy, "retry_same_node", &same, &same_node);
	if (error != 0)
		return error;
	/* 0 is Kitex's way to say that nothing is retried. */
	if (retries < 1) {
		reading->values.enabled = false;
		say(reading, REA_POLICY_ENABLED, times ? times : policy);
		return 0;
	}
	reading->values.max_retry_same_instance = same_node ? (uint32_t)retries : 0;
	reading->values.max_retry_next_instance = same_node ? 0 : (uint32_t)retries;
	say(reading, REA_POLICY_MAX_RETRY_SAME_INSTANCE, same ? same : times);
	say(reading, REA_POLICY_MAX_RETRY_NEXT_INSTANCE, times);
	return 0;
}

static int read_stop(struct reading *reading, const struct rea__node *policy)
{
	const struct rea__node *stop, *duration, *chain;
	struct rea_policy *values = &reading->values;
	bool no_chain_stop = false;
	double ms = 0;
	int error = read_object(reading, policy, "stop_policy", &stop);

	if (error == 0)
		error = read_attempts(reading, stop, policy);
	if (error == 0)
		error = read_number(reading, stop, "max_duration_ms", UINT32_MAX, &duration, &ms);
	if (error == 0)
		error = read_flag(reading, stop, "disable_chain_stop", &chain, &no_chain_stop);
	if (error != 0)
		return error;
	/* 0 = no bound of Kitex's; ours holds. */
	if (ms > 0) {
		values->deadline_ns =
		    ms < 1 ? REA_NS_PER_MS : rea_time_min((uint64_t)ms * REA_NS_PER_MS, REA_POLICY_DEADLINE_NS_MAX);
		say(reading, REA_POLICY_DEADLINE, duration);
		values->attempt_timeout_ns =
		    rea_time_min(values->deadline_ns, rea__policy_default_values()->attempt_timeout_ns);
		say(reading, REA_POLICY_ATTEMPT_TIMEOUT, duration);
	}
	if (no_chain_stop) {
		values->chain_stop = false;
		say(reading, REA_POLICY_CHAIN_STOP, chain);
	}
	return 0;
}

/* ---- backoff ---- */

/* A wait that does not grow, between these two. */
static void set_backoff(struct reading *reading, const struct rea__node *node, double min_ms, double max_ms)
{
	struct rea_policy *values = &reading->values;
	uint64_t middle_ns = (uint64_t)((min_ms + max_ms) / 2 * (double)REA_NS_PER_MS);

	values->min_backoff_ns = values->max_backoff_ns = rea_time_max(middle_ns, REA_POLICY_BACKOFF_NS_MIN);
	values->backoff_multiplier = 1;
	say(reading, REA_POLICY_MIN_BACKOFF, node);
	say(reading, REA_POLICY_MAX_BACKOFF, node);
	say(reading, REA_POLICY_BACKOFF_MULTIPLIER, node);
	if (max_ms > min_ms) {
		values->jitter = (max_ms - min_ms) / (max_ms + min_ms);
		say(reading, REA_POLICY_JITTER, node);
	}
}

static int read_random(struct reading *reading, const struct rea__node *backoff, const struct rea__node *items)
{
	double min_ms = 0, max_ms = 0;
	int error = need_number(reading, items, backoff, "min_ms", &min_ms);

	if (error == 0)
		error = need_number(reading, items, backoff, "max_ms", &max_ms);
	if (error == 0 && max_ms < min_ms)
		error = rea__refuse(reading->reader, rea__node_child(items, "max_ms"), "max_ms is less than min_ms");
	if (error == 0)
		set_backoff(reading, backoff, min_ms, max_ms);
	return error;
}

static int read_backoff(struct reading *reading, const struct rea__node *policy)
{
	const struct rea__node *backoff, *items, *type;
	struct rea_slice text = REA_SLICE_LIT("none");
	double fixed_ms = 0;
	int error = read_object(reading, policy, "backoff_policy", &backoff);

	if (error == 0)
		error = read_object(reading, backoff, "cfg_items", &items);
	if (error != 0)
		return error;
	type = backoff ? rea__node_child(backoff, "backoff_type") : NULL;
	if (type != NULL)
		text = type->kind == REA__SCALAR ? rea__node_text(type) : REA_SLICE_LIT("");
	if (rea_slice_equal(text, REA_SLICE_LIT("random")))
		return read_random(reading, backoff, items);
	if (rea_slice_equal(text, REA_SLICE_LIT("fixed")))
		error = need_number(reading, items, backoff, "fix_ms", &fixed_ms);
	else if (!rea_slice_equal(text, REA_SLICE_LIT("none")))
		error = rea__refuse_value(reading->reader, type, "none, fixed or random", "");
	if (error == 0)
		set_backoff(reading, backoff ? backoff : policy, fixed_ms, fixed_ms);
	return error;
}

/* ---- a method ---- */

static int read_policy(struct reading *reading, const struct rea__node *entry, const char *name)
{
	const struct rea__node *policy;
	int error = read_object(reading, entry, name, &policy);

	if (error == 0 && policy == NULL)
		return rea__refuse(reading->reader, entry, "this type needs %s", name);
	if (error == 0)
		error = read_stop(reading, policy);
	if (error == 0)
		error = read_backoff(reading, policy);
	/* Kitex repeats what timed out, and what did not get through. */
	reading->values.retry_on = REA_OUTCOME_BIT(REA_OUTCOME_NEVER_SENT) | REA_OUTCOME_BIT(REA_OUTCOME_PUSHBACK) |
				   REA_OUTCOME_BIT(REA_OUTCOME_AMBIGUOUS);
	if (error == 0)
		say(reading, REA_POLICY_RETRY_ON, policy);
	return error;
}

static int read_entry(struct reading *reading, const struct rea__node *entry)
{
	static const struct rea__field type_field = {.name = "type", .min = TYPE_FAILURE, .max = TYPE_MIXED};
	const struct rea__node *enable, *type = rea__node_child(entry, "type");
	uint32_t number = TYPE_FAILURE;
	int error;

	if (entry->kind != REA__MAPPING)
		return rea__refuse_value(reading->reader, entry, "an object with enable, type and failure_policy", "");
	error = read_flag(reading, entry, "enable", &enable, &reading->values.enabled);
	if (error == 0 && enable == NULL)
		return rea__refuse(reading->reader, entry, "a method needs enable: true or false. %s",
		    "A document of this name is read as Kitex writes it");
	if (error == 0 && type != NULL)
		error = rea__type_u32.read(reading->reader, type, &type_field, &number);
	if (error != 0)
		return error;
	say(reading, REA_POLICY_ENABLED, enable);
	if (!reading->values.enabled)
		return 0;
	if (number != TYPE_BACKUP)
		return read_policy(reading, entry, number == TYPE_MIXED ? "mixed_policy" : "failure_policy");
	reading->values.enabled = false;
	reading->note = "type 1, backup requests, which rea does not send";
	say(reading, REA_POLICY_ENABLED, type);
	return 0;
}

/* A wish alone, with rea's defaults: is it a policy? */
static int check(const struct reading *reading, const struct rea__node *entry)
{
	const struct rea_policy_layer layer = {.set = reading->set, .values = reading->values};
	const struct rea_policy_layer *const layers[] = {&layer};
	struct rea_error_info wrong;
	struct rea_policy policy;

	rea_policy_merge(layers, 1, SIZE_MAX, &policy);
	memset(&wrong, 0, sizeof(wrong));
	return rea_policy_validate(&policy, &wrong) != 0 ? rea__refuse(reading->reader, entry, "%s", wrong.message) : 0;
}

static int add_entry(struct rea__reader *reader, const struct rea__node *node, struct rea__wishes *wishes)
{
	struct reading reading = {.reader = reader};
	bool is_default = rea_slice_equal(rea__node_text(node->key), REA_SLICE_LIT("*"));
	struct rea__wish *wish = &wishes->entries[is_default ? 0 : wishes->entries_len];
	int error = read_entry(&reading, node);

	if (error == 0)
		error = check(&reading, node);
	if (error == 0)
		error = rea__lines_new(reader, reading.set, reading.seen, &wish->lines);
	if (error != 0)
		return error;
	wish->keys.set = reading.set;
	wish->keys.values = reading.values;
	wish->note = reading.note;
	if (is_default)
		return 0;
	wish->name = rea_arena_string(reader->arena, rea__node_text(node->key));
	if (wish->name == NULL ||
	    rea_map_insert(&wishes->by_name, rea_slice_of(wish->name), (uint32_t)wishes->entries_len) != 0)
		return rea__nomem(reader);
	wishes->entries_len++;
	return 0;
}

int rea__kitex_read(struct rea__reader *reader, struct rea_slice name, struct rea__wishes *ret_wishes)
{
	static const struct rea__node nothing = {.kind = REA__MAPPING, .line = 1, .column = 1};
	const struct rea__node *root = reader->tree->root ? reader->tree->root : &nothing;
	int error = 0;

	if (root->kind != REA__MAPPING)
		return rea__refuse(reader, root, "a retry document of Kitex is an object: {\"*\": {\"enable\": true, …}}");
	ret_wishes->by_name.alloc = reader->arena->alloc;
	ret_wishes->file = rea_arena_string(reader->arena, name);
	ret_wishes->entries = rea_arena_array(reader->arena, root->length + (size_t)1, sizeof(*ret_wishes->entries));
	if (ret_wishes->file == NULL || ret_wishes->entries == NULL ||
	    rea_map_reserve(&ret_wishes->by_name, root->length + (size_t)1) != 0)
		return rea__nomem(reader);
	ret_wishes->entries[0].name = "";
	ret_wishes->entries_len = 1;
	for (const struct rea__node *node = root->first; node != NULL && error == 0; node = node->next)
		error = add_entry(reader, node, ret_wishes);
	return error;
}

/* ---- finding ---- */

/* A key of ours is "Service_method"; Kitex names the method alone, which may have underscores as well. */
size_t rea__kitex_find_key(const struct rea__wishes *wishes, struct rea_slice key)
{
	uint32_t entry;

	while (!rea_map_find(&wishes->by_name, key, &entry)) {
		const char *end = key.length > 0 ? memchr(key.data, '_', key.length) : NULL;
		size_t skip = end != NULL ? (size_t)(end - key.data) + 1 : 0;

		if (end == NULL)
			return 0;
		key = rea_slice_make(key.data + skip, key.length - skip);
	}
	return entry;
}
