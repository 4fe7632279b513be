/*
 * OpenAPI 3.0 and 3.1. Of all that a document holds only what tells operations apart and what they permit is looked at: paths, methods, ids, tags,
 * header parameters, and the extensions
 *   x-rpc-retryable: true | false | with-key
 *   x-rea-retry: forbid | safe | idempotent | idempotent-with-key
 *   x-rea-generate-key: true
 */
#include "config/contract_document.h"

#include <stdio.h>

#define REFERENCES_MAX 8

static const char *const methods[][2] = {{"get", "GET"}, {"put", "PUT"}, {"post", "POST"}, {"delete", "DELETE"},
    {"options", "OPTIONS"}, {"head", "HEAD"}, {"patch", "PATCH"}, {"trace", "TRACE"}};

static const struct {
	const char *key, *value;
	enum rea_permission permission;
} words[] = {
    {"x-rpc-retryable", "true", REA_PERMISSION_IDEMPOTENT},
    {"x-rpc-retryable", "false", REA_PERMISSION_FORBID},
    {"x-rpc-retryable", "with-key", REA_PERMISSION_IDEMPOTENT_WITH_KEY},
    {"x-rea-retry", "safe", REA_PERMISSION_SAFE},
    {"x-rea-retry", "idempotent", REA_PERMISSION_IDEMPOTENT},
    {"x-rea-retry", "idempotent-with-key", REA_PERMISSION_IDEMPOTENT_WITH_KEY},
    {"x-rea-retry", "forbid", REA_PERMISSION_FORBID},
};
#define WORDS (sizeof(words) / sizeof(words[0]))

struct openapi {
	struct rea__contract_reading *reading;
	const struct rea__tree *tree;
	const char *base;
};

#define refuse(api, node, ...) \
	rea__refuse_at((api)->reading->info, (api)->tree->file, REA_ERR_INVALID, node, __VA_ARGS__)
#define refuse_key(api, node, ...) \
	rea__refuse_key_at((api)->reading->info, (api)->tree->file, REA_ERR_INVALID, node, __VA_ARGS__)
#define no_memory(api) rea__refuse_nomem((api)->reading->info, (api)->tree->file)

/* ---- references ---- */

/* One step of a JSON pointer, with ~0, ~1 and percent-encoding undone. Returns what follows it, NULL = malformed. */
static const char *pointer_step(const char *at, const char *end, char *ret_step, size_t size)
{
	size_t length = 0;

	if (at == end || *at != '/')
		return NULL;
	for (at++; at < end && *at != '/'; at++) {
		char c = *at;

		if (c == '~') {
			if (at + 1 == end || (at[1] != '0' && at[1] != '1'))
				return NULL;
			c = *++at == '0' ? '~' : '/';
		} else if (c == '%') {
			int high = at + 2 < end ? rea_ascii_hex(at[1]) : -1, low = at + 2 < end ? rea_ascii_hex(at[2]) : -1;

			if (high < 0 || low < 0)
				return NULL;
			c = (char)(high << 4 | low);
			at += 2;
		}
		if (length + 1 == size)
			return NULL;
		ret_step[length++] = c;
	}
	ret_step[length] = '\0';
	return at;
}

static const struct rea__node *pointed_at(const struct openapi *api, struct rea_slice pointer)
{
	const char *at = pointer.data + 1, *end = pointer.data + pointer.length;
	const struct rea__node *node = api->tree->root;
	char step[1024];

	while (node != NULL && at < end) {
		at = pointer_step(at, end, step, sizeof(step));
		if (at == NULL)
			return NULL;
		node = rea__node_child(node, step);
	}
	return node;
}

/* The object itself, behind its references. */
static int resolve(const struct openapi *api, const struct rea__node *node, const struct rea__node **ret_node)
{
	const struct rea__node *start = node;

	for (unsigned i = 0; i <= REFERENCES_MAX; i++) {
		const struct rea__node *reference = rea__node_child(node, "$ref");
		char quote[REA__QUOTE_SIZE];

		if (reference == NULL) {
			*ret_node = node;
			return 0;
		}
		if (reference->kind != REA__SCALAR || reference->length == 0 || reference->text[0] != '#')
			return refuse(api, reference,
			    "a reference to another document is not followed; bundle the documents into one");
		node = pointed_at(api, rea__node_text(reference));
		if (node == NULL)
			return refuse(api, reference, "the document has nothing at %s",
			    rea__quote(rea__node_text(reference), quote));
	}
	return refuse(api, start, "its references go in a circle, or are more than %d deep", REFERENCES_MAX);
}

/* ---- what an operation permits ---- */

static int read_words(const struct openapi *api, const struct rea__node *node, struct rea_grant *grant)
{
	static const char *const keys[][2] = {{"x-rpc-retryable", "true, false or with-key"},
	    {"x-rea-retry", "forbid, safe, idempotent or idempotent-with-key"}};

	for (size_t k = 0; k < 2; k++) {
		const struct rea__node *value = rea__node_child(node, keys[k][0]);
		struct rea_grant said = {.source = REA_PERMISSION_SOURCE_OPENAPI};
		char quote[REA__QUOTE_SIZE];

		if (value == NULL)
			continue;
		for (size_t i = 0; i < WORDS; i++)
			if (strcmp(words[i].key, keys[k][0]) == 0 && rea__node_is(value, words[i].value))
				said.permission = words[i].permission;
		if (said.permission == REA_PERMISSION_NONE)
			return refuse(api, value, "expected %s, got %s", keys[k][1],
			    value->kind == REA__SCALAR ? rea__quote(rea__node_text(value), quote) : "a structure");
		*grant = rea_grant_combine(*grant, said);
	}
	return 0;
}

/* A header that names a request so that the callee runs it once: sent on every attempt. */
static bool is_key_header(const struct rea__node *parameter)
{
	const struct rea__node *name = rea__node_child(parameter, "name");
	struct rea_slice text;

	if (!rea__node_is(rea__node_child(parameter, "in"), "header") || name == NULL || name->kind != REA__SCALAR ||
	    !rea__node_is(rea__node_child(parameter, "required"), "true"))
		return false;
	text = rea__node_text(name);
	return rea_slice_equal_nocase(text, REA_SLICE_LIT("idempotency-key"));
}

static int read_parameters(const struct openapi *api, const struct rea__node *owner, struct rea_grant *grant)
{
	const struct rea__node *list = rea__node_child(owner, "parameters"), *parameter;
	int error = 0;

	if (list == NULL)
		return 0;
	if (list->kind != REA__SEQUENCE)
		return refuse(api, list, "expected a list of parameters");
	for (const struct rea__node *item = list->first; item != NULL && error == 0; item = item->next) {
		error = resolve(api, item, &parameter);
		if (error == 0 && is_key_header(parameter))
			*grant = rea_grant_combine(*grant,
			    (struct rea_grant){REA_PERMISSION_IDEMPOTENT_WITH_KEY, REA_PERMISSION_SOURCE_OPENAPI});
	}
	return error;
}

/* ---- operations ---- */

static const char *method_id(const struct openapi *api, const struct rea__node *node, const char *method, const char *path)
{
	const struct rea__node *id = rea__node_child(node, "operationId");
	char *text;

	if (id != NULL && id->kind == REA__SCALAR && id->length > 0)
		return id->text;
	/* Without an id: its method and path, which are as unique. */
	text = (char *)(uintptr_t)rea__join(api->reading->arena, method, "", rea_slice_of(path));
	for (char *at = text; at != NULL && *at != '\0'; at++)
		if (*at == '/')
			*at = '_';
	return text;
}

static int context_of(const struct openapi *api, const struct rea__node *node, const char **ret_context)
{
	const struct rea__node *tags = rea__node_child(node, "tags"),
			       *tag = tags != NULL && tags->kind == REA__SEQUENCE ? tags->first : NULL;

	*ret_context = api->reading->document->context;
	if (*ret_context != NULL)
		return 0;
	if (tag == NULL || tag->kind != REA__SCALAR || tag->length == 0)
		return refuse_key(api, node,
		    "the operation has no tag, so the first part of its method key is not known: give a context");
	*ret_context = tag->text;
	return 0;
}

static int read_operation(const struct openapi *api, const struct rea__node *item, const struct rea__node *node,
    const char *method, const char *path)
{
	struct rea_operation operation = {.http_method = method, .line = node->key->line};
	const struct rea__node *generate = rea__node_child(node, "x-rea-generate-key");
	const char *context = NULL, *id;
	int error = 0;

	if (node->kind != REA__MAPPING)
		return refuse(api, node, "expected an operation");
	error = read_words(api, node, &operation.grant);
	if (error == 0)
		error = read_parameters(api, item, &operation.grant);
	if (error == 0)
		error = read_parameters(api, node, &operation.grant);
	if (error == 0)
		error = context_of(api, node, &context);
	if (error != 0)
		return error;
	operation.generate_key = rea__node_is(generate, "true");
	if (operation.generate_key && operation.grant.permission != REA_PERMISSION_IDEMPOTENT_WITH_KEY)
		return refuse(api, generate, "a key is generated only for an operation that may be repeated with one");
	id = method_id(api, node, node->key->text, path);
	operation.path = rea__join(api->reading->arena, api->base, "", rea_slice_of(path));
	operation.key = id != NULL ? rea__join(api->reading->arena, context, "_", rea_slice_of(id)) : NULL;
	if (operation.path == NULL || operation.key == NULL)
		return no_memory(api);
	return rea__contract_put(api->reading, api->tree, node, &operation);
}

/* An extension that stands where nobody reads it would be believed to hold. */
static int refuse_stray_words(const struct openapi *api, const struct rea__node *node, const char *where)
{
	for (size_t i = 0; i < WORDS; i++) {
		const struct rea__node *stray = rea__node_child(node, words[i].key);

		if (stray != NULL)
			return refuse_key(api, stray, "%s says nothing %s: it stands at an operation", words[i].key, where);
	}
	return 0;
}

static int read_path(const struct openapi *api, const struct rea__node *node)
{
	const char *path = node->key->text;
	const struct rea__node *item = NULL;
	int error;

	if (path[0] == 'x' && path[1] == '-')
		return 0;
	error = resolve(api, node, &item);
	if (error == 0 && item->kind != REA__MAPPING)
		return refuse(api, item, "expected the operations of a path");
	if (error == 0)
		error = refuse_stray_words(api, item, "of a path");
	for (const struct rea__node *child = error == 0 ? item->first : NULL; child != NULL && error == 0; child = child->next)
		for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]) && error == 0; i++)
			if (rea_slice_equal(rea__node_text(child->key), rea_slice_of(methods[i][0])))
				error = read_operation(api, item, child, methods[i][1], path);
	return error;
}

/* ---- servers ---- */

/* The path of a server's URL, without a slash at its end. Variables are replaced by their defaults. */
static int server_path(const struct openapi *api, const struct rea__node *server, const char **ret_path)
{
	const struct rea__node *url = rea__node_child(server, "url"), *variables = rea__node_child(server, "variables");
	char text[REA_CONTRACT_PATH_MAX];
	size_t length = 0;
	char *path, *scheme;

	*ret_path = "";
	if (url == NULL || url->kind != REA__SCALAR)
		return 0;
	for (const char *at = url->text; *at != '\0';) {
		const char *close = *at == '{' ? strchr(at, '}') : NULL;
		struct rea_slice piece = {at, 1};

		if (close != NULL) {
			const char *name =
			    rea_arena_string(api->reading->arena, rea_slice_make(at + 1, (size_t)(close - at) - 1));
			const struct rea__node *value;

			if (name == NULL)
				return no_memory(api);
			value = rea__node_child(rea__node_child(variables, name), "default");
			if (value == NULL || value->kind != REA__SCALAR)
				return refuse(api, url, "a variable of the URL has no default");
			piece = rea__node_text(value);
			at = close;
		}
		at++;
		if (length + piece.length >= sizeof(text))
			return refuse(api, url, "the URL is too long");
		memcpy(text + length, piece.data, piece.length);
		length += piece.length;
	}
	text[length] = '\0';
	scheme = strstr(text, "://");
	path = scheme != NULL ? strchr(scheme + 3, '/') : text[0] == '/' ? text : NULL;
	if (path == NULL)
		return 0;
	length = strlen(path);
	while (length > 0 && path[length - 1] == '/')
		length--;
	*ret_path = rea_arena_string(api->reading->arena, rea_slice_make(path, length));
	return *ret_path == NULL ? no_memory(api) : 0;
}

static int find_base(struct openapi *api)
{
	const struct rea__node *servers = rea__node_child(api->tree->root, "servers"),
			       *server = servers != NULL && servers->kind == REA__SEQUENCE ? servers->first : NULL;
	const char *other;
	int error;

	api->base = api->reading->document->base_path != NULL ? api->reading->document->base_path : "";
	if (api->reading->document->base_path != NULL || server == NULL)
		return 0;
	error = server_path(api, server, &api->base);
	for (server = server->next; server != NULL && error == 0; server = server->next) {
		error = server_path(api, server, &other);
		if (error == 0 && strcmp(other, api->base) != 0)
			return refuse(api, server,
			    "the servers have different paths, \"%s\" and \"%s\": say which one holds by a base path",
			    api->base, other);
	}
	return error;
}

int rea__openapi_read(struct rea__contract_reading *reading, const struct rea__tree *tree)
{
	struct openapi api = {.reading = reading, .tree = tree};
	const struct rea__node *version = rea__node_child(tree->root, "openapi"),
			       *paths = rea__node_child(tree->root, "paths");
	int error;

	if (version == NULL || version->kind != REA__SCALAR ||
	    (strncmp(version->text, "3.0", 3) != 0 && strncmp(version->text, "3.1", 3) != 0))
		return refuse(&api, version != NULL ? version : tree->root,
		    "only OpenAPI 3.0 and 3.1 are read; converters from 2.0 are many");
	error = refuse_stray_words(&api, tree->root, "of the whole document");
	if (error == 0)
		error = find_base(&api);
	if (error == 0 && paths != NULL && paths->kind != REA__MAPPING)
		return refuse(&api, paths, "expected the paths and their operations");
	for (const struct rea__node *path = error == 0 && paths != NULL ? paths->first : NULL;
	     path != NULL && error == 0; path = path->next)
		error = read_path(&api, path);
	return error;
}
