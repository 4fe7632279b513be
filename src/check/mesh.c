/* Istio's VirtualService and Envoy's routes. Both repeat by the same words; defaults differ. */
#include "check/tree.h"

#include <stdio.h>

#define ENVOY_TIMEOUT_NS (15 * REA_NS_PER_S)
#define ENVOY_BACKOFF_NS (25 * REA_NS_PER_MS)
#define ISTIO_RETRY_ON "connect-failure,refused-stream,unavailable,cancelled,503"

struct mesh {
	struct check *check;
	struct check_file *file;
	struct rea_error_info *info;
	size_t visits; /* nodes looked at: aliases may lead to one many times */
	size_t targets;
};

/* ------------------------------------------------------------------ values */

static uint32_t failures_of(struct rea_slice word)
{
	static const struct {
		const char *name;
		uint32_t failures;
	} words[] = {
	    {"5xx", CHECK_ON_IO | CHECK_ON_5XX},
	    {"gateway-error", CHECK_ON_IO | (CHECK_ON_5XX & ~CHECK_BIT(CHECK_ON_500))},
	    {"reset", CHECK_ON_IO},
	    {"reset-before-request", CHECK_BIT(CHECK_ON_CONNECT)},
	    {"connect-failure", CHECK_BIT(CHECK_ON_CONNECT)},
	    {"envoy-ratelimited", CHECK_BIT(CHECK_ON_429)},
	    {"resource-exhausted", CHECK_BIT(CHECK_ON_429)},
	    {"unavailable", CHECK_BIT(CHECK_ON_503) | CHECK_BIT(CHECK_ON_503_AFTER)},
	    {"deadline-exceeded", CHECK_BIT(CHECK_ON_504)},
	    {"internal", CHECK_BIT(CHECK_ON_500)},
	};
	uint64_t status;

	if (rea_slice_to_u64(word, &status))
		return check_failures_of_status(status);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (check_is(word, words[i].name))
			return words[i].failures;
	return 0;
}

static bool is_known(struct rea_slice word)
{
	static const char *const others[] = {"refused-stream", "retriable-4xx", "retriable-status-codes",
	    "retriable-headers", "cancelled", "http3-post-connect-failure"};
	uint64_t status;

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (check_is(word, others[i]))
			return true;
	return failures_of(word) != 0 || rea_slice_to_u64(word, &status);
}

static uint32_t read_retry_on(struct mesh *mesh, const struct check_node *node, struct rea_slice text)
{
	struct rea_slice word;
	uint32_t failures = 0;

	while (check_word(&text, ", ", &word)) {
		failures |= failures_of(word);
		if (node != NULL && !is_known(word))
			check_find(mesh->check, "RC19", CHECK_ERROR, check_node_place(mesh->file, node), "",
			    check_text(mesh->check, "%s is no condition of retry_on", check_shown(mesh->check, word)), "connect-failure, refused-stream, reset, gateway-error, 5xx, retriable-status-codes, or a status");
	}
	return failures;
}

static uint64_t read_time(struct mesh *mesh, const struct check_node *parent, const char *key, uint64_t fallback)
{
	const struct check_node *node = check_node_get(parent, key);
	uint64_t ns;

	if (node == NULL || node->kind != CHECK_SCALAR)
		return fallback;
	if (check_duration(check_node_text(node), REA_NS_PER_S, &ns))
		return ns;
	check_find(mesh->check, "RC19", CHECK_ERROR, check_node_place(mesh->file, node), "",
	    check_text(mesh->check, "%s: expected a duration, got \"%s\"", node->key->text,
		check_shown(mesh->check, check_node_text(node))),
	    "a duration such as 2s or 250ms");
	return fallback;
}

static uint32_t read_count(struct mesh *mesh, const struct check_node *node, uint32_t fallback)
{
	uint64_t number;

	if (node == NULL)
		return fallback;
	if (node->kind == CHECK_SCALAR && rea_slice_to_u64(check_node_text(node), &number) && number < UINT32_MAX)
		return (uint32_t)number;
	check_find(mesh->check, "RC19", CHECK_ERROR, check_node_place(mesh->file, node), "",
	    check_text(mesh->check, "%s: expected a whole number", node->key->text), "a number of retries");
	return fallback;
}

/* A value that differs from request to request: '%' stands for a variable. */
static bool has_key_header(const struct check_node *list)
{
	for (const struct check_node *item = check_node_first(list); item != NULL; item = item->next) {
		const struct check_node *header = check_node_get(item, "header");
		struct rea_slice name = header      ? check_node_string(header, "key")
					: item->key ? check_node_text(item->key)
						    : REA_SLICE_LIT("");
		struct rea_slice value = header                       ? check_node_string(header, "value")
					 : item->kind == CHECK_SCALAR ? check_node_text(item)
								      : REA_SLICE_LIT("");

		if (check_is(name, "idempotency-key") && check_contains(value, "%"))
			return true;
	}
	return false;
}

static struct rea_slice text_or(const struct check_node *parent, const char *key, struct rea_slice fallback)
{
	struct rea_slice text = check_node_string(parent, key);

	return text.length > 0 ? text : fallback;
}

static struct check_target *new_target(
    struct mesh *mesh, struct rea_slice name, struct rea_slice service, struct check_place place)
{
	struct check_target *target;

	if (mesh->targets++ >= CHECK_TARGETS_MAX)
		return NULL;
	target = check_target_new(mesh->check, mesh->file->app, "route", check_shown(mesh->check, name),
	    check_canonical(mesh->check, service), place);
	if (target != NULL)
		target->keyed = mesh->check->options.keyed;
	return target;
}

static void per_try_is_ignored(struct mesh *mesh, const struct check_node *per_try, const struct check_layer *layer)
{
	if (per_try != NULL && layer->attempt_ns != REA_NEVER && layer->attempt_ns >= layer->total_ns)
		check_find(mesh->check, "RC25", CHECK_WARNING, check_key_place(mesh->file, per_try), "",
		    check_text(mesh->check, "a timeout of %s for one try is ignored: the whole call ends after %s",
			check_time_text(mesh->check, layer->attempt_ns), check_time_text(mesh->check, layer->total_ns)),
		    "a timeout for one try that leaves room for the second");
}

static void finish_layer(struct check_layer *layer, uint32_t number, uint32_t failures, uint64_t base, uint64_t cap)
{
	uint32_t requests = number + 1;

	layer->number = number;
	layer->counts_retries = true;
	check_layer_repeats(layer, failures, CHECK_ALL_METHODS, requests, true);
	/* Retry n waits anything up to (2^n - 1) times the base. */
	check_layer_waits(layer, CHECK_ALL_FAILURES, check_waits(requests, base, 2, cap));
}

/* ------------------------------------------------------------------ Istio */

static void read_istio_route(struct mesh *mesh, const struct check_node *route, struct rea_slice virtual_name)
{
	const struct check_node *retries = check_node_get(route, "retries"),
				*count = check_node_get(retries, "attempts");
	const struct check_node *retry_on = check_node_get(retries, "retryon"),
				*timeout = check_node_get(route, "timeout");
	const struct check_node *destination =
	    check_node_get(check_node_first(check_node_get(route, "route")), "destination");
	struct check_target *target;
	struct check_layer *layer;
	struct rea_slice on = text_or(retries, "retryon", REA_SLICE_LIT(ISTIO_RETRY_ON));

	if (destination == NULL)
		return;
	target = new_target(mesh, text_or(route, "name", virtual_name), check_node_string(destination, "host"),
	    check_node_place(mesh->file, route));
	if (target == NULL)
		return;
	target->keyed = target->keyed || has_key_header(check_node_get(
					     check_node_get(check_node_get(route, "headers"), "request"), "set"));
	layer = check_layer_new(mesh->check, target, "Istio retries",
	    count ? check_key_place(mesh->file, count) : check_node_place(mesh->file, route));
	if (layer == NULL)
		return;
	layer->key = "attempts";
	layer->written = count != NULL;
	layer->total_ns = read_time(mesh, route, "timeout", REA_NEVER);
	layer->total_place = timeout ? check_key_place(mesh->file, timeout) : layer->place;
	layer->attempt_ns = read_time(mesh, retries, "pertrytimeout", REA_NEVER);
	finish_layer(layer, read_count(mesh, count, 2), read_retry_on(mesh, retry_on, on),
	    read_time(mesh, retries, "backoff", ENVOY_BACKOFF_NS), REA_NEVER);
	per_try_is_ignored(mesh, check_node_get(retries, "pertrytimeout"), layer);
}

static void read_istio(struct mesh *mesh, const struct check_node *root)
{
	const struct check_node *spec = check_node_get(root, "spec");
	struct rea_slice name = check_node_string(check_node_get(root, "metadata"), "name");

	if (!check_is(check_node_string(root, "kind"), "VirtualService"))
		return;
	for (const struct check_node *route = check_node_first(check_node_get(spec, "http")); route != NULL;
	     route = route->next)
		read_istio_route(mesh, route, name);
}

/* ------------------------------------------------------------------ Envoy */

static uint32_t status_codes(const struct check_node *policy)
{
	uint32_t failures = 0;
	uint64_t status;

	for (const struct check_node *code = check_node_first(check_node_get(policy, "retriablestatuscodes"));
	     code != NULL; code = code->next)
		if (code->kind == CHECK_SCALAR && rea_slice_to_u64(check_node_text(code), &status))
			failures |= check_failures_of_status(status);
	return failures;
}

static void read_envoy_policy(
    struct mesh *mesh, struct check_target *target, const struct check_node *action, const struct check_node *policy)
{
	const struct check_node *number = check_node_get(policy, "numretries"), *on = check_node_get(policy, "retryon");
	const struct check_node *back_off = check_node_get(policy, "retrybackoff"),
				*timeout = check_node_get(action, "timeout");
	uint64_t base = read_time(mesh, back_off, "baseinterval", ENVOY_BACKOFF_NS);
	struct check_layer *layer;
	uint32_t failures;

	if (on == NULL || on->kind != CHECK_SCALAR) {
		check_find(mesh->check, "RC25", CHECK_WARNING, check_key_place(mesh->file, policy), target->name,
		    "a retry policy without retry_on repeats nothing",
		    "retry_on: connect-failure, refused-stream, or no policy");
		return;
	}
	layer =
	    check_layer_new(mesh->check, target, "Envoy retries", check_key_place(mesh->file, number ? number : policy));
	if (layer == NULL)
		return;
	failures = read_retry_on(mesh, on, check_node_text(on));
	if (check_contains(check_node_text(on), "retriable-status-codes"))
		failures |= status_codes(policy);
	layer->key = "num_retries";
	layer->written = number != NULL;
	layer->total_ns = read_time(mesh, action, "timeout", ENVOY_TIMEOUT_NS);
	layer->total_ns = layer->total_ns == 0 ? REA_NEVER : layer->total_ns;
	layer->total_place = timeout ? check_key_place(mesh->file, timeout) : layer->place;
	layer->attempt_ns = read_time(mesh, policy, "pertrytimeout", REA_NEVER);
	finish_layer(layer, read_count(mesh, number, 1), failures, base,
	    read_time(mesh, back_off, "maxinterval", rea_time_mul(base, 10)));
	per_try_is_ignored(mesh, check_node_get(policy, "pertrytimeout"), layer);
}

static void read_envoy_route(struct mesh *mesh, const struct check_node *route, const struct check_node *host)
{
	const struct check_node *action = check_node_get(route, "route"), *match = check_node_get(route, "match");
	const struct check_node *policy = check_node_get(action, "retrypolicy");
	struct check_target *target;

	if (action == NULL)
		return;
	policy = policy ? policy : check_node_get(host, "retrypolicy");
	target = new_target(mesh,
	    text_or(route, "name",
		text_or(match, "prefix", text_or(match, "path", text_or(action, "cluster", REA_SLICE_LIT("(unnamed)"))))),
	    check_node_string(action, "cluster"), check_node_place(mesh->file, route));
	if (target == NULL)
		return;
	target->keyed = target->keyed || has_key_header(check_node_get(route, "requestheaderstoadd")) ||
			has_key_header(check_node_get(host, "requestheaderstoadd"));
	if (policy != NULL)
		read_envoy_policy(mesh, target, action, policy);
}

static void read_virtual_hosts(struct mesh *mesh, const struct check_node *hosts)
{
	for (const struct check_node *host = check_node_first(hosts); host != NULL; host = host->next)
		for (const struct check_node *route = check_node_first(check_node_get(host, "routes")); route != NULL;
		     route = route->next)
			read_envoy_route(mesh, route, host);
}

/* Virtual hosts stand deep inside of listeners, or near the top of a route configuration. */
static int find_virtual_hosts(struct mesh *mesh, const struct check_node *node, size_t depth)
{
	int error = 0;

	if (mesh->visits++ >= CHECK_NODES_MAX || depth > CHECK_DEPTH_MAX)
		return check_refuse(mesh->info, mesh->file, REA_ERR_LIMIT, check_node_place(mesh->file, node),
		    "the aliases of this file come to more than 200000 values, or nest more than 64 levels deep");
	for (const struct check_node *child = check_node_first(node); child != NULL && error == 0; child = child->next) {
		if (child->key != NULL &&
		    (check_same_name(check_node_text(child->key), REA_SLICE_LIT("virtual_hosts"))))
			read_virtual_hosts(mesh, child);
		else if (child->kind != CHECK_SCALAR)
			error = find_virtual_hosts(mesh, child, depth + 1);
	}
	return error;
}

int check_read_mesh(struct check *check, struct check_file *file, struct rea_error_info *info)
{
	struct mesh mesh = {.check = check, .file = file, .info = info};
	struct check_tree *tree = NULL;
	int error = check_tree_parse(check, file, true, &tree, info);

	if (error != 0)
		return error;
	if (check_app_of(check, file, file->name, check_hop_of(check, file)) == NULL)
		return REA_ERR_NOMEM;
	for (; tree != NULL && error == 0; tree = tree->next) {
		if (tree->root == NULL)
			continue;
		if (file->kind == CHECK_KIND_ISTIO)
			read_istio(&mesh, tree->root);
		else
			error = find_virtual_hosts(&mesh, tree->root, 0);
	}
	return error;
}
