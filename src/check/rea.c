/*
 * rea.yaml is read by the same reader that `rea serve` has, so that what is refused here is what is refused there. The tree is read beside it for the places
 * of what that reader accepts and a rule does not.
 */
#include "check/rea.h"

#include <rea/config.h>

#include <stdio.h>

/* The failures that an outcome of rea is. */
static uint32_t failures_of(uint32_t retry_on)
{
	static const struct {
		enum rea_outcome outcome;
		uint32_t failures;
	} rows[] = {
	    {REA_OUTCOME_NEVER_SENT, CHECK_BIT(CHECK_ON_CONNECT)},
	    {REA_OUTCOME_THROTTLED, CHECK_BIT(CHECK_ON_429)},
	    {REA_OUTCOME_UNAVAILABLE, CHECK_BIT(CHECK_ON_503) | CHECK_BIT(CHECK_ON_503_AFTER)},
	    {REA_OUTCOME_AMBIGUOUS, CHECK_BIT(CHECK_ON_CLOSED) | CHECK_BIT(CHECK_ON_TIMEOUT) | CHECK_BIT(CHECK_ON_502) |
					CHECK_BIT(CHECK_ON_504)},
	    {REA_OUTCOME_FAILED, CHECK_BIT(CHECK_ON_500)},
	};
	uint32_t failures = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (retry_on & REA_OUTCOME_BIT(rows[i].outcome))
			failures |= rows[i].failures;
	return failures;
}

static uint32_t method_of(const char *http_method)
{
	if (strcmp(http_method, "GET") == 0 || strcmp(http_method, "HEAD") == 0 || strcmp(http_method, "OPTIONS") == 0)
		return CHECK_BIT(CHECK_GET);
	return strcmp(http_method, "PUT") == 0 || strcmp(http_method, "DELETE") == 0 ? CHECK_BIT(CHECK_PUT)
										     : CHECK_BIT(CHECK_POST);
}

static bool is_permitted(enum rea_permission permission)
{
	return permission == REA_PERMISSION_SAFE || permission == REA_PERMISSION_IDEMPOTENT ||
	       permission == REA_PERMISSION_IDEMPOTENT_WITH_KEY;
}

/* What a policy of at most so many requests adds to a layer, for calls with these methods. */
static void add_policy(struct check_layer *layer, const struct rea_policy *policy, uint32_t requests, uint32_t methods,
    enum rea_permission permission, bool certain)
{
	uint32_t failures = failures_of(policy->retry_on);
	uint64_t first = policy->min_backoff_ns, cap = policy->max_backoff_ns;

	if (!policy->enabled || policy->mode == REA_MODE_OBSERVE || permission == REA_PERMISSION_FORBID)
		return;
	if (!is_permitted(permission))
		failures = policy->never_sent == REA_NEVER_SENT_ALLOW ? failures & CHECK_BIT(CHECK_ON_CONNECT) : 0;
	if (failures == 0)
		return;
	check_layer_repeats(layer, failures, methods, requests, certain);
	check_layer_waits(layer, failures,
	    check_waits(requests, first + (uint64_t)((double)first * policy->jitter), policy->backoff_multiplier,
		cap + (uint64_t)((double)cap * policy->jitter)));
	layer->number = requests > layer->number ? requests : layer->number;
}

static struct check_layer *new_layer(struct check *check, struct check_target *target, const struct rea_policy *policy)
{
	struct check_layer *layer = check_layer_new(check, target, "rea", target->place);

	if (layer == NULL)
		return NULL;
	layer->key = "attempts";
	layer->number = 1;
	layer->deadline = true;
	layer->attempt_ns = policy->attempt_timeout_ns;
	layer->total_ns = policy->deadline_ns;
	target->keyed = true; /* rea repeats no write that has neither permission nor key */
	return layer;
}

static void add_service(struct check *check, struct check_file *file, const struct rea_config_service *service)
{
	struct check_target *target =
	    check_target_new(check, file->app, "service", check_shown(check, rea_slice_of(service->name)),
		check_canonical(check, rea_slice_of(service->name)), check_place_at(file, service->line, 1));
	struct check_layer *layer = target ? new_layer(check, target, service->policy) : NULL;
	size_t operations = service->contract ? rea_contract_count(service->contract) : 0;
	bool fewer = false; /* attempts than the policy has */

	if (layer == NULL)
		return;
	for (size_t i = 0; i < operations; i++) {
		const struct rea_operation *operation = rea_contract_operation(service->contract, i);
		const struct rea_policy *policy = service->operation_policies[i];
		struct check_declared *declared = check_alloc(check, sizeof(*declared));
		uint32_t methods = method_of(operation->http_method);
		uint32_t possible = rea_config_attempts(service, policy), wanted = rea_policy_attempts(policy);

		if (declared == NULL)
			return;
		*declared = (struct check_declared){file->app->declared, target->service,
		    !(methods & CHECK_BIT(CHECK_GET)), is_permitted(operation->grant.permission)};
		file->app->declared = declared;
		add_policy(layer, policy, possible, methods, operation->grant.permission, true);
		fewer = fewer || (policy->enabled && possible < wanted);
		layer->attempt_ns = rea_time_max(layer->attempt_ns, policy->attempt_timeout_ns);
		layer->total_ns = rea_time_max(layer->total_ns, policy->deadline_ns);
	}
	if (fewer)
		target->note = check_text(check, "it has %zu instance%s, so rea makes fewer attempts than its policy has",
		    service->instances_len, service->instances_len == 1 ? "" : "s");
	if (operations == 0) {
		add_policy(layer, service->policy, rea_config_attempts(service, service->policy), CHECK_ALL_METHODS,
		    REA_PERMISSION_UNKNOWN, true);
		target->note = "no contract declares what this service permits, so rea repeats nothing that may have "
			       "been executed";
	}
}

/* ------------------------------------------------------------------ what stands in the tree alone */

static void check_verify(struct check *check, const struct check_file *file, const char *service, const struct check_node *tls)
{
	const struct check_node *verify = check_node_get(tls, "verify");

	if (verify != NULL && check_is(check_node_string(tls, "verify"), "false"))
		check_find(check, "RC27", CHECK_WARNING, check_key_place(file, verify), service,
		    check_text(check, "service %s: whoever answers at its address is believed", service),
		    "ca-file with the authority that signs its certificates, server-name where they name it otherwise");
}

/* The path of a file that is named in this one. */
static const char *beside(struct check *check, const struct check_file *file, struct rea_slice named)
{
	const char *slash = strrchr(file->name, '/');
	int directory = slash != NULL && named.length > 0 && named.data[0] != '/' ? (int)(slash + 1 - file->name) : 0;

	return check_text(check, "%.*s%.*s", directory, file->name, (int)named.length, named.data);
}

static uint32_t requests_by(const struct rea_config_service *service, const struct rea_policy *policy)
{
	return policy->enabled && policy->mode != REA_MODE_OBSERVE ? rea_config_attempts(service, policy) : 1;
}

static void check_service(struct check *check, const struct check_file *file, const struct rea_config *config,
    const struct rea_config_service *service, struct check_target *target, const struct check_node *node)
{
	const struct check_node *named = check_node_get(node, "grpcserviceconfig");
	size_t operations = service->contract != NULL ? rea_contract_count(service->contract) : 0;

	check_verify(check, file, target->name, check_node_get(node, "tls"));
	if (named == NULL || named->kind != CHECK_SCALAR)
		return;
	target->grpc_config = beside(check, file, check_node_text(named));
	target->grpc_place = check_key_place(file, named);
	target->grpc_requests = requests_by(service, service->grpc_policy);
	for (size_t i = 0; i < operations; i++) {
		const char *path = rea_contract_operation(service->contract, i)->path;
		uint32_t requests = requests_by(service, rea_config_grpc_policy(config, service, path, strlen(path)));

		target->grpc_requests = requests > target->grpc_requests ? requests : target->grpc_requests;
	}
}

static void check_services(
    struct check *check, const struct check_file *file, const struct rea_config *config, const struct check_node *root)
{
	for (const struct check_node *node = check_node_first(check_node_get(root, "services")); node != NULL;
	     node = node->next) {
		const struct rea_config_service *service =
		    node->key ? rea_config_find_service(config, node->key->text, node->key->length) : NULL;

		for (struct check_target *target = file->app->targets; service != NULL && target != NULL;
		     target = target->next)
			if (strcmp(target->name, check_shown(check, rea_slice_of(service->name))) == 0)
				check_service(check, file, config, service, target, node);
	}
}

/* ------------------------------------------------------------------ what the reader accepts and RC14 does not */

/* The reader has made sure that the contract declares the operation. */
static void check_method(struct check *check, const struct check_file *file, const struct rea_config *config,
    const struct rea_contract *contract, const char *service, const struct check_node *node)
{
	const struct rea_operation *operation = rea_contract_find_key(contract, node->key->text, node->key->length);
	struct rea_policy policy;

	if (operation != NULL && rea_config_policy(config, service, operation->key, &policy) == 0 && policy.enabled &&
	    operation->grant.permission == REA_PERMISSION_FORBID && check_is(check_node_string(node, "enabled"), "true"))
		check_find(check, "RC14", CHECK_ERROR, check_key_place(file, node), service,
		    check_text(check, "%s is enabled here, and its callee forbids it to be repeated: it never will be",
			operation->key),
		    "take these settings out, or ask the callee's team to declare the operation retryable");
}

static void check_methods(
    struct check *check, const struct check_file *file, const struct rea_config *config, const struct check_node *retry)
{
	for (const struct check_node *service = check_node_first(check_node_get(retry, "serviceconfigs"));
	     service != NULL; service = service->next) {
		const struct rea_config_service *known =
		    service->key ? rea_config_find_service(config, service->key->text, service->key->length) : NULL;

		if (known == NULL || known->contract == NULL)
			continue;
		for (const struct check_node *method = check_node_first(check_node_get(service, "methodconfigs"));
		     method != NULL; method = method->next)
			check_method(check, file, config, known->contract, known->name, method);
	}
}

static void check_blocks(
    struct check *check, const struct check_file *file, const struct rea_config *config, const struct check_node *root)
{
	const struct check_node *rpc = check_node_get(root, "rpc");

	check_methods(check, file, config, check_node_get(check_node_get(rpc, "feign"), "retry"));
	check_methods(check, file, config, check_node_get(check_node_get(rpc, "grpc"), "retry"));
}

/* ------------------------------------------------------------------ files */

static void find_refusal(struct check *check, const struct check_file *file, const struct rea_error_info *info)
{
	check_find(check, "RC14", CHECK_ERROR, check_place_at(file, info->line, info->column), "",
	    check_text(check, "%s%s%s", info->key, info->key[0] != '\0' ? ": " : "", info->message),
	    "what the message asks for; rea.yaml(5) has every key with its bounds");
}

static int nomem(struct check *check, const struct check_file *file, struct rea_error_info *info)
{
	check->error = REA_ERR_NOMEM;
	return check_refuse(info, file, REA_ERR_NOMEM, check_place_at(file, 0, 0), "%s", rea_error_text(REA_ERR_NOMEM));
}

int check_read_rea(struct check *check, struct check_file *file, struct rea_error_info *info)
{
	struct check_tree *tree = NULL;
	struct rea_config *config;
	int error = rea_config_parse(file->shown, file->text.data, file->text.length, check->arena.alloc, &config, info);

	if (error == REA_ERR_NOMEM)
		return nomem(check, file, info);
	if (error == REA_ERR_SYNTAX || error == REA_ERR_LIMIT)
		return error;
	if (check_app_of(check, file, file->name, check_hop_of(check, file)) == NULL) {
		if (error == 0)
			rea_config_unref(config);
		return nomem(check, file, info);
	}
	if (error != 0) {
		find_refusal(check, file, info);
		return 0;
	}
	error = check_tree_parse(check, file, false, &tree, info);
	for (size_t i = 0; i < rea_config_services_count(config) && i < CHECK_TARGETS_MAX; i++)
		add_service(check, file, rea_config_service(config, i));
	if (error == 0 && tree != NULL && tree->root != NULL) {
		check_services(check, file, config, tree->root);
		check_blocks(check, file, config, tree->root);
	}
	rea_config_unref(config);
	return error;
}

/* ------------------------------------------------------------------ our block in somebody else's file */

/* The file with every line but these made empty, so that places stay what they are. */
static char *only_lines(struct check *check, const struct check_file *file, uint32_t first, uint32_t last)
{
	char *text = check_copy(check, file->text);
	uint32_t line = 1;

	for (size_t i = 0; text != NULL && i < file->text.length; i++) {
		if (text[i] == '\n')
			line++;
		else if (line < first || line > last)
			text[i] = ' ';
	}
	return text;
}

static void add_block_target(struct check *check, struct check_file *file, const struct rea_config *config,
    const struct check_node *service, struct check_place place)
{
	const char *name = service ? check_shown(check, check_node_text(service->key)) : "(every other)";
	struct rea_policy policy;
	struct check_target *target;
	struct check_layer *layer;

	if (rea_config_policy(config, service ? service->key->text : NULL, NULL, &policy) != 0)
		return;
	target = check_target_new(check, file->app, "rpc service", name,
	    service ? check_canonical(check, check_node_text(service->key)) : "",
	    service ? check_key_place(file, service) : place);
	layer = target ? new_layer(check, target, &policy) : NULL;
	if (layer == NULL)
		return;
	layer->when = "where the callee permits it";
	add_policy(layer, &policy, rea_policy_attempts(&policy), CHECK_ALL_METHODS, REA_PERMISSION_IDEMPOTENT, false);
}

static int add_block(struct check *check, struct check_file *file, const struct check_node *rpc)
{
	char *text = only_lines(check, file, rpc->key->line, rpc->last_line);
	struct rea_error_info info;
	struct rea_config *config;
	const struct check_node *retry = check_node_get(check_node_get(rpc, "feign"), "retry"), *service;
	int error;

	if (text == NULL)
		return REA_ERR_NOMEM;
	error = rea_config_parse(file->shown, text, file->text.length, check->arena.alloc, &config, &info);
	if (error == REA_ERR_NOMEM)
		return check->error = error;
	if (error != 0) {
		find_refusal(check, file, &info);
		return 0;
	}
	if (retry != NULL) {
		add_block_target(check, file, config, NULL, check_key_place(file, retry));
		for (service = check_node_first(check_node_get(retry, "serviceconfigs")); service != NULL;
		     service = service->next)
			if (service->key != NULL)
				add_block_target(check, file, config, service, check_key_place(file, retry));
	}
	rea_config_unref(config);
	return check->error;
}

int check_rea_block(struct check *check, struct check_file *file, const struct check_tree *tree)
{
	int error = 0;

	for (; tree != NULL && error == 0; tree = tree->next) {
		const struct check_node *rpc = check_node_get(tree->root, "rpc");

		if (rpc != NULL && rpc->kind == CHECK_MAPPING && !rpc->flow && rpc->key->column == 1)
			error = add_block(check, file, rpc);
	}
	return error;
}
