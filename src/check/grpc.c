/* gRPC service configs (JSON). */
#include "check/tree.h"

#include <stdio.h>

#define ATTEMPTS_EFFECTIVE 5 /* a client makes no more, whatever is written */

static uint32_t failures_of(struct rea_slice code)
{
	static const struct {
		const char *name, *number;
		uint32_t failures;
	} codes[] = {
	    {"UNAVAILABLE", "14",
		CHECK_BIT(CHECK_ON_CONNECT) | CHECK_BIT(CHECK_ON_CLOSED) | CHECK_BIT(CHECK_ON_503) |
		    CHECK_BIT(CHECK_ON_503_AFTER)},
	    {"DEADLINE_EXCEEDED", "4", CHECK_BIT(CHECK_ON_TIMEOUT) | CHECK_BIT(CHECK_ON_504)},
	    {"RESOURCE_EXHAUSTED", "8", CHECK_BIT(CHECK_ON_429)},
	    {"INTERNAL", "13", CHECK_BIT(CHECK_ON_500)},
	    {"UNKNOWN", "2", CHECK_BIT(CHECK_ON_500)},
	};

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (check_is(code, codes[i].name) || check_is(code, codes[i].number))
			return codes[i].failures;
	return 0;
}

static uint32_t code_failures(const struct check_node *list)
{
	uint32_t failures = 0;

	for (const struct check_node *code = check_node_first(list); code != NULL; code = code->next)
		if (code->kind == CHECK_SCALAR)
			failures |= failures_of(check_node_text(code));
	return failures;
}

/* A method that reads, by its name. */
static bool is_read(struct rea_slice method)
{
	static const char *const verbs[] = {"Get", "List", "Read", "Find", "Search", "Query", "Watch", "Lookup",
	    "Count", "Describe", "Exists", "Fetch"};

	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (method.length >= strlen(verbs[i]) && memcmp(method.data, verbs[i], strlen(verbs[i])) == 0)
			return true;
	return false;
}

/* "users.Users/Get, users.Users/List"; "(every)" for the entry without a name. */
static const char *name_of(struct check *check, const struct check_node *names, bool *ret_read)
{
	const char *text = "";

	*ret_read = names != NULL;
	for (const struct check_node *name = check_node_first(names); name != NULL; name = name->next) {
		struct rea_slice service = check_node_string(name, "service"),
				 method = check_node_string(name, "method");

		*ret_read = *ret_read && is_read(method);
		if (service.length > 0)
			text = check_text(check, "%s%s%s%s%s", text, text[0] != '\0' ? ", " : "",
			    check_shown(check, service), method.length > 0 ? "/" : "", check_shown(check, method));
	}
	*ret_read = *ret_read && text[0] != '\0';
	return text[0] != '\0' ? text : "(every)";
}

static void refuse(struct check *check, const struct check_file *file, const struct check_node *node,
    const char *message, const char *instead)
{
	check_find(check, "RC19", CHECK_ERROR, check_key_place(file, node), "", message, instead);
}

static uint64_t read_time(struct check *check, const struct check_file *file, const struct check_node *parent,
    const char *key, uint64_t fallback)
{
	const struct check_node *node = check_node_get(parent, key);
	uint64_t ns;

	if (node == NULL || node->kind != CHECK_SCALAR)
		return fallback;
	/* Seconds with an "s" and nothing else. */
	if (node->length > 1 && node->text[node->length - 1] == 's' && check_duration(check_node_text(node), 0, &ns) &&
	    node->text[node->length - 2] != 'm')
		return ns;
	refuse(check, file, node,
	    check_text(check, "%s: expected seconds such as \"0.1s\", got \"%s\"", node->key->text,
		check_shown(check, check_node_text(node))),
	    "a number of seconds with an s behind it");
	return fallback;
}

static uint32_t read_attempts(struct check *check, const struct check_file *file, const struct check_node *policy)
{
	const struct check_node *node = check_node_get(policy, "maxattempts");
	struct check_finding *finding;
	double number;

	if (node == NULL || node->kind != CHECK_SCALAR || !check_decimal(check_node_text(node), &number) || number < 2) {
		refuse(check, file, node ? node : policy,
		    "maxAttempts: expected a number from 2 on; the client refuses the whole config",
		    "maxAttempts: 2, which is the first request and one more");
		return 1;
	}
	if (number <= ATTEMPTS_EFFECTIVE)
		return (uint32_t)number;
	finding = check_find(check, "RC25", CHECK_WARNING, check_node_place(file, node), "",
	    check_text(check, "maxAttempts %s: a client makes 5 at most", check_shown(check, check_node_text(node))),
	    "maxAttempts: 5, or less");
	check_correct(check, finding, check_node_place(file, node), node->text, "5");
	return ATTEMPTS_EFFECTIVE;
}

static void check_required(struct check *check, const struct check_file *file, const struct check_node *policy)
{
	static const struct {
		const char *key, *written;
	} required[] = {{"initialbackoff", "initialBackoff"}, {"maxbackoff", "maxBackoff"},
	    {"backoffmultiplier", "backoffMultiplier"}, {"retryablestatuscodes", "retryableStatusCodes"}};

	for (size_t i = 0; i < sizeof(required) / sizeof(required[0]); i++)
		if (check_node_get(policy, required[i].key) == NULL)
			refuse(check, file, policy,
			    check_text(check, "%s is missing: the client refuses the whole config", required[i].written),
			    check_text(check, "a retryPolicy with maxAttempts, initialBackoff, maxBackoff, "
					      "backoffMultiplier and retryableStatusCodes"));
}

static void read_policy(struct check *check, struct check_target *target, const struct check_file *file,
    const struct check_node *policy, bool hedging)
{
	const struct check_node *count = check_node_get(policy, "maxattempts");
	struct check_layer *layer = check_layer_new(
	    check, target, hedging ? "gRPC hedging" : "gRPC retries", check_key_place(file, count ? count : policy));
	struct rea_slice factor = check_node_string(policy, "backoffmultiplier");
	uint64_t first = read_time(check, file, policy, hedging ? "hedgingdelay" : "initialbackoff", 0);
	double multiplier = 1;
	uint32_t requests;

	if (layer == NULL)
		return;
	requests = read_attempts(check, file, policy);
	if (!hedging)
		check_required(check, file, policy);
	check_decimal(factor, &multiplier);
	layer->number = requests;
	layer->key = "maxAttempts";
	layer->written = count != NULL;
	layer->deadline = true;
	check_layer_repeats(layer,
	    hedging ? CHECK_ALL_FAILURES : code_failures(check_node_get(policy, "retryablestatuscodes")),
	    CHECK_ALL_METHODS, requests, true);
	/* 20 % of jitter on each. */
	check_layer_waits(layer, CHECK_ALL_FAILURES,
	    check_waits(requests, first + first / 5, multiplier, read_time(check, file, policy, "maxbackoff", REA_NEVER)));
}

static void read_method(struct check *check, struct check_file *file, const struct check_node *config, bool throttled)
{
	const struct check_node *retry = check_node_get(config, "retrypolicy"),
				*hedging = check_node_get(config, "hedgingpolicy");
	const struct check_node *policy = retry ? retry : hedging, *timeout = check_node_get(config, "timeout");
	struct check_target *target;
	const char *name;
	bool reads;

	name = name_of(check, check_node_get(config, "name"), &reads);
	target = check_target_new(check, file->app, "method", name, "", check_node_place(file, config));
	if (target == NULL)
		return;
	target->read_only = reads;
	target->keyed = check->options.keyed;
	target->read_ns = read_time(check, file, config, "timeout", REA_NEVER);
	target->read_place = timeout ? check_key_place(file, timeout) : target->place;
	target->connect_ns = 0;
	if (policy == NULL)
		return;
	if (retry != NULL && hedging != NULL)
		refuse(check, file, hedging,
		    "a retryPolicy and a hedgingPolicy for one method: the client refuses the whole config", "one of them");
	read_policy(check, target, file, policy, retry == NULL);
	/* The deadline spans all attempts. */
	if (target->layers != NULL)
		target->layers->total_ns = target->read_ns;
	if (!throttled)
		check_find(check, "RC24", CHECK_WARNING, check_key_place(file, policy), name,
		    "there is no retryThrottling: when every call fails, every call is repeated",
		    "retryThrottling: {maxTokens: 10, tokenRatio: 0.1} at the top of the service config");
}

int check_read_grpc(struct check *check, struct check_file *file, struct rea_error_info *info)
{
	struct check_tree *tree = NULL;
	int error = check_tree_parse(check, file, true, &tree, info);
	size_t count = 0;

	if (error != 0)
		return error;
	if (check_app_of(check, file, file->name, check_hop_of(check, file)) == NULL)
		return REA_ERR_NOMEM;
	for (; tree != NULL; tree = tree->next) {
		const struct check_node *config = check_node_first(check_node_get(tree->root, "methodconfig"));
		bool throttled = check_node_get(tree->root, "retrythrottling") != NULL;

		for (; config != NULL && count++ < CHECK_TARGETS_MAX; config = config->next)
			read_method(check, file, config, throttled);
	}
	return 0;
}
