/*
 * Permissions that stand in rea.yaml itself: what the callees declare, for those that publish no contract of their
 * own.
 */
#include "config/snapshot.h"

#include <stdio.h>

#define FIELDS(fields) fields, sizeof(fields) / sizeof((fields)[0])

static const struct {
	const char *key;
	const char *method;
} methods[] = {{"get", "GET"}, {"head", "HEAD"}, {"post", "POST"}, {"put", "PUT"}, {"patch", "PATCH"},
    {"delete", "DELETE"}, {"options", "OPTIONS"}, {"trace", "TRACE"}};

#define METHODS (sizeof(methods) / sizeof(methods[0]))

struct operation_reading {
	const char *paths[METHODS];
	const char *id;
	enum rea_permission retryable;
	bool safe;
	bool generate_key;
};

static const struct rea__choice retryable_choices[] = {{"true", REA_PERMISSION_IDEMPOTENT},
    {"false", REA_PERMISSION_FORBID}, {"with-key", REA_PERMISSION_IDEMPOTENT_WITH_KEY}, {NULL, 0}};

#define PATH(index, text)                                               \
	[index] = {.name = text,                                        \
	    .type = &rea__type_text,                                    \
	    .offset = offsetof(struct operation_reading, paths[index]), \
	    .note = "a path template such as /users/{id}"}
enum { FIELD_ID = METHODS, FIELD_RETRYABLE, FIELD_SAFE, FIELD_GENERATE_KEY, OPERATION_FIELDS };

static const struct rea__field operation_fields[OPERATION_FIELDS] = {
    PATH(0, "get"),
    PATH(1, "head"),
    PATH(2, "post"),
    PATH(3, "put"),
    PATH(4, "patch"),
    PATH(5, "delete"),
    PATH(6, "options"),
    PATH(7, "trace"),
    [FIELD_ID] = {.name = "id", .type = &rea__type_text, .offset = offsetof(struct operation_reading, id), .note = "the id of the operation"},
    [FIELD_RETRYABLE] = {.name = "retryable",
	.type = &rea__type_choice,
	.offset = offsetof(struct operation_reading, retryable),
	.choices = retryable_choices},
    [FIELD_SAFE] = {.name = "safe", .type = &rea__type_bool, .offset = offsetof(struct operation_reading, safe)},
    [FIELD_GENERATE_KEY] = {.name = "generate-key",
	.type = &rea__type_bool,
	.offset = offsetof(struct operation_reading, generate_key)},
};
const struct rea__block rea__operation_block = {"an operation", operation_fields, OPERATION_FIELDS, REA__NO_LINES};

struct contract_reading {
	const char *context;
	const struct rea__node *operations;
};

static const struct rea__field contract_fields[] = {
    {.name = "context",
	.type = &rea__type_text,
	.offset = offsetof(struct contract_reading, context),
	.note = "the context id, the first part of method keys"},
    {.name = "operations", .type = &rea__type_node, .offset = offsetof(struct contract_reading, operations)},
};
const struct rea__block rea__contract_block = {"a contract", FIELDS(contract_fields), REA__NO_LINES};

/* Words that contradict one another are not weighed: nobody can know which was meant. */
static int check_words(struct rea__reader *reader, const struct rea__node *const *seen, const struct operation_reading *reading)
{
	bool free = reading->retryable == REA_PERMISSION_NONE || reading->retryable == REA_PERMISSION_IDEMPOTENT;

	if (reading->safe && !free)
		return rea__refuse(reader, seen[FIELD_RETRYABLE],
		    "`safe: true` says that the operation has no side effects, which contradicts this");
	if (reading->generate_key && reading->retryable != REA_PERMISSION_IDEMPOTENT_WITH_KEY)
		return rea__refuse(reader, seen[FIELD_GENERATE_KEY],
		    "a key is generated only for an operation with `retryable: with-key`");
	return 0;
}

/* The one HTTP method that an operation names. */
static int find_method(
    struct rea__reader *reader, const struct rea__node *node, const struct rea__node *const *seen, size_t *ret_method)
{
	size_t found = METHODS;

	for (size_t i = 0; i < METHODS; i++) {
		if (seen[i] == NULL)
			continue;
		if (found != METHODS)
			return rea__refuse_key(reader, seen[i],
			    "an operation has one HTTP method, and this one already has %s", methods[found].key);
		found = i;
	}
	if (found == METHODS)
		return rea__refuse(reader, node, "an operation needs its HTTP method and path, such as `get: /users/{id}`");
	if (seen[FIELD_ID] == NULL)
		return rea__refuse(reader, node, "an operation needs an `id`, the second part of its method key");
	*ret_method = found;
	return 0;
}

static int method_key(struct rea__reader *reader, const char *context, const char *id, const char **ret_key)
{
	size_t size = strlen(context) + strlen(id) + 2;
	char *key = rea_arena_alloc(reader->arena, size);

	if (key == NULL)
		return rea__nomem(reader);
	snprintf(key, size, "%s_%s", context, id);
	*ret_key = key;
	return 0;
}

static int read_operation(
    struct rea__reader *reader, const struct rea__node *node, const char *context, struct rea_contract *contract)
{
	struct operation_reading reading = {.retryable = REA_PERMISSION_NONE};
	const struct rea__node *seen[REA__BLOCK_FIELDS_MAX];
	struct rea_operation operation = {.grant = {.source = REA_PERMISSION_SOURCE_CONFIG}, .line = node->line};
	struct rea_error_info wrong;
	size_t method = 0;
	int error = rea__block_read(reader, node, &rea__operation_block, &reading, seen);

	if (error == 0)
		error = find_method(reader, node, seen, &method);
	if (error == 0)
		error = check_words(reader, seen, &reading);
	if (error == 0)
		error = method_key(reader, context, reading.id, &operation.key);
	if (error != 0)
		return error;
	operation.http_method = methods[method].method;
	operation.path = reading.paths[method];
	operation.grant.permission = reading.safe ? REA_PERMISSION_SAFE : reading.retryable;
	operation.generate_key = reading.generate_key;
	error = rea_contract_add(contract, &operation, &wrong);
	return error ? rea__refuse_at(reader->info, reader->tree->file, error, seen[method], "%s", wrong.message) : 0;
}

static int read_contract(struct rea__reader *reader, const struct rea__node *node,
    const struct rea_config_service *service, struct rea_contract *contract)
{
	struct contract_reading reading = {.context = service->name};
	const struct rea__node *item = NULL;
	int error = rea__block_read(reader, node, &rea__contract_block, &reading, NULL);

	if (error == 0 && reading.operations == NULL)
		return rea__refuse_key(reader, node, "a contract needs `operations`");
	if (error == 0)
		error = rea__expect_sequence(reader, reading.operations, "a list of operations", &item);
	for (; item != NULL && error == 0; item = item->next)
		error = read_operation(reader, item, reading.context, contract);
	return error ? error : rea_contract_finish(contract);
}

static int refuse_service(struct rea__reader *reader, const struct rea__node *node, const struct rea_config *config)
{
	struct rea__suggest suggest;
	char hint[REA__SUGGEST_SIZE], quote[REA__QUOTE_SIZE];

	rea__suggest_init(&suggest, rea__node_text(node->key));
	for (size_t i = 0; i < config->services_len; i++)
		rea__suggest_offer(&suggest, config->services[i].name);
	return rea__refuse_key(reader, node, "`services` has no service %s%s",
	    rea__quote(rea__node_text(node->key), quote), rea__suggest_text(&suggest, hint));
}

int rea__contracts_read(struct rea__reader *reader, const struct rea__node *node, struct rea_config *config)
{
	const struct rea__node *child = NULL;
	int error = node ? rea__expect_mapping(reader, node, &child) : 0;

	config->contracts = rea_arena_array(reader->arena, config->services_len, sizeof(struct rea_contract *));
	if (config->contracts == NULL)
		return error ? error : rea__nomem(reader);
	for (; child != NULL && error == 0; child = child->next) {
		uint32_t service;

		if (!rea_map_find(&config->by_name, rea__node_text(child->key), &service))
			return refuse_service(reader, child, config);
		if (rea_contract_new(&config->alloc, &config->contracts[service]) != 0)
			return rea__nomem(reader);
		config->services[service].contract = config->contracts[service];
		error = read_contract(reader, child, &config->services[service], config->contracts[service]);
	}
	return error;
}
