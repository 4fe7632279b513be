/*
 * Permissions in rea.yaml: what stands there itself, for callees that publish no contract of their own, and the documents of those that do.
 */
#include "config/contract_document.h"
#include "config/snapshot.h"

#include "base/buffer.h"

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
	const struct rea__node *files;
	const char *base_path;
};

enum { FIELD_CONTEXT, FIELD_OPERATIONS, FIELD_FILES, FIELD_BASE_PATH, CONTRACT_FIELDS };

static const struct rea__field contract_fields[CONTRACT_FIELDS] = {
    [FIELD_CONTEXT] = {.name = "context",
	.type = &rea__type_text,
	.offset = offsetof(struct contract_reading, context),
	.note = "the context id, the first part of method keys"},
    [FIELD_OPERATIONS] = {.name = "operations", .type = &rea__type_node, .offset = offsetof(struct contract_reading, operations)},
    [FIELD_FILES] = {.name = "files", .type = &rea__type_node, .offset = offsetof(struct contract_reading, files)},
    [FIELD_BASE_PATH] = {.name = "base-path",
	.type = &rea__type_text,
	.offset = offsetof(struct contract_reading, base_path),
	.note = "what stands before every path of the files, such as /v1"},
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

static int read_operation(struct rea__reader *reader, const struct rea__node *node, const char *context,
    enum rea_permission_source source, struct rea_contract *contract)
{
	struct operation_reading reading = {.retryable = REA_PERMISSION_NONE};
	const struct rea__node *seen[REA__BLOCK_FIELDS_MAX];
	struct rea_operation operation = {.grant = {.source = source}, .line = node->line};
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

static int read_operations(struct rea__reader *reader, const struct rea__node *node, const char *context,
    enum rea_permission_source source, struct rea_contract *contract)
{
	const struct rea__node *item = NULL;
	int error = rea__expect_sequence(reader, node, "a list of operations", &item);

	for (; item != NULL && error == 0; item = item->next)
		error = read_operation(reader, item, context, source, contract);
	return error;
}

int rea__contract_plain_read(struct rea__contract_reading *reading, struct rea__reader *reader,
    const struct rea__node *root, const char *service, enum rea_permission_source source)
{
	struct contract_reading plain = {.context = service};
	const struct rea__node *seen[REA__BLOCK_FIELDS_MAX];
	int error = rea__block_read(reader, root, &rea__contract_block, &plain, seen);

	if (error == 0 && seen[FIELD_FILES] != NULL)
		return rea__refuse_key(reader, seen[FIELD_FILES], "a contract file names no further files");
	if (error == 0 && seen[FIELD_BASE_PATH] != NULL)
		return rea__refuse_key(reader, seen[FIELD_BASE_PATH], "a contract file has whole paths");
	if (error == 0 && plain.operations == NULL)
		return rea__refuse(reader, root, "a contract needs `operations`");
	if (reading->document->context != NULL)
		plain.context = reading->document->context;
	if (error == 0 && plain.context == NULL)
		return rea__refuse(reader, root, "a contract file needs its `context`, the first part of method keys");
	return error ? error : read_operations(reader, plain.operations, plain.context, source, reading->contract);
}

/* What goes wrong is told at its place in that file; that it cannot be read at all, here. */
static int read_file(struct rea__reader *reader, const struct rea__node *node, const struct contract_reading *reading,
    struct rea_config *config, struct rea_contract *contract, struct rea_config_contract_file *file)
{
	struct rea_contract_document document;
	struct rea_buffer content = {.alloc = &config->alloc};
	struct rea_slice path;
	int error = rea__expect_text(reader, node, "the path of a contract document", &path);

	if (error != 0)
		return error;
	rea_contract_document_init(&document);
	file->path = document.name = rea__beside(reader->arena, config->name, path);
	if (file->path == NULL)
		return rea__nomem(reader);
	document.context = reading->context;
	document.base_path = reading->base_path;
	error = rea__file_read(file->path, &content, reader->info);
	if (error == REA_ERR_IO) {
		char why[sizeof(reader->info->message)];

		memcpy(why, reader->info->message, sizeof(why));
		rea_buffer_fini(&content);
		return rea__refuse_at(reader->info, reader->tree->file, REA_ERR_IO, node, "%s %.200s", file->path, why);
	}
	document.text = content.data != NULL ? content.data + content.start : "";
	document.length = rea_buffer_length(&content);
	if (error == 0) {
		config->documents_hash = rea_hash_more(config->documents_hash, document.text, document.length);
		rea_hash_hex(rea_hash(document.text, document.length), file->version);
		error = rea_contract_read(contract, &document, &config->alloc, NULL, reader->info);
	}
	rea_buffer_fini(&content);
	return error;
}

static int read_files(struct rea__reader *reader, const struct rea__node *node, const struct contract_reading *reading,
    struct rea_config *config, struct rea_contract *contract)
{
	const struct rea__node *item = NULL;
	struct rea_config_contract_file *files;
	int error = rea__expect_sequence(reader, node, "a list of contract documents", &item);

	if (error != 0)
		return error;
	files = rea_arena_array(reader->arena, config->contract_files_len + node->length, sizeof(*files));
	if (files == NULL)
		return rea__nomem(reader);
	if (config->contract_files_len > 0)
		memcpy(files, config->contract_files, config->contract_files_len * sizeof(*files));
	config->contract_files = files;
	for (; item != NULL && error == 0; item = item->next)
		error = read_file(reader, item, reading, config, contract, &files[config->contract_files_len++]);
	return error;
}

/* The operations that stand in rea.yaml, as one more document. */
static int combine_operations(struct rea__reader *reader, const struct contract_reading *reading, const char *context,
    struct rea_config *config, struct rea_contract *contract)
{
	struct rea_contract *own;
	int error = rea_contract_new(&config->alloc, &own);

	if (error != 0)
		return rea__nomem(reader);
	error = read_operations(reader, reading->operations, context, REA_PERMISSION_SOURCE_CONFIG, own);
	for (size_t i = 0; error == 0 && i < rea_contract_count(own); i++) {
		struct rea_error_info wrong;

		error = rea_contract_combine(contract, rea_contract_operation(own, i), &wrong);
		if (error != 0)
			error = rea__refuse_at(
			    reader->info, reader->tree->file, error, reading->operations, "%s", wrong.message);
	}
	rea_contract_free(own);
	return error;
}

static int read_contract(struct rea__reader *reader, const struct rea__node *node,
    const struct rea_config_service *service, struct rea_config *config, struct rea_contract *contract)
{
	struct contract_reading reading = {NULL, NULL, NULL, NULL};
	const struct rea__node *seen[REA__BLOCK_FIELDS_MAX];
	int error = rea__block_read(reader, node, &rea__contract_block, &reading, seen);

	if (error == 0 && reading.operations == NULL && reading.files == NULL)
		return rea__refuse_key(reader, node, "a contract needs `operations` or `files`");
	if (error == 0 && reading.base_path != NULL && reading.files == NULL)
		return rea__refuse_key(
		    reader, seen[FIELD_BASE_PATH], "there are no `files` whose paths it would stand before");
	if (error == 0 && reading.files != NULL)
		error = read_files(reader, reading.files, &reading, config, contract);
	if (error == 0 && reading.operations != NULL)
		error = combine_operations(
		    reader, &reading, reading.context != NULL ? reading.context : service->name, config, contract);
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
		error = read_contract(reader, child, &config->services[service], config, config->contracts[service]);
	}
	return error;
}
