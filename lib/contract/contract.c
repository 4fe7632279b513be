/*
 * Operations in a tree of path segments. A node stands for the segments from the root to it; its literal children
 * are found in one hash table of all edges, keyed by (parent, segment), its parameter child by a direct link. A
 * match follows literals first and comes back for the parameter, so it visits a node at most once and never
 * allocates.
 */
#include <rea/contract.h>

#include "base/hash.h"
#include "base/map.h"
#include "contract/segment.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#define NONE UINT32_MAX /* no node, no operation */
#define EDGES_MIN 16

struct node {
	uint64_t hash; /* of the literal, decoded */
	char *literal; /* decoded; NULL = the root or a parameter */
	uint32_t length;
	uint32_t parent;
	uint32_t parameter; /* child, or NONE */
	uint32_t first; /* operation whose template ends here, or NONE; others of other methods follow by their `next` */
};

struct entry {
	struct rea_operation operation;
	char *texts; /* owned: key, method and path, each terminated */
	uint32_t method_length;
	uint32_t next;
};

struct rea_contract {
	struct rea_alloc alloc;
	struct entry *entries;
	size_t count;
	size_t capacity;
	struct node *nodes; /* [0] is the root */
	size_t nodes_count;
	size_t nodes_capacity;
	uint32_t *edges; /* node numbers, 0 = free; a power of two of slots, at most half used */
	size_t edges_count;
	size_t edges_capacity;
	struct rea_map keys; /* method key to number of operation */
	bool finished;
};

/* ------------------------------------------------------------------ building */

static void *contract_realloc(struct rea_contract *contract, void *ptr, size_t count, size_t size)
{
	return contract->alloc.realloc(ptr, count * size, contract->alloc.user_data);
}

static void contract_release(struct rea_contract *contract, void *ptr)
{
	contract->alloc.free(ptr, contract->alloc.user_data);
}

static int add_node(struct rea_contract *contract, uint32_t parent, uint32_t *ret_node)
{
	if (contract->nodes_count == contract->nodes_capacity) {
		size_t capacity = contract->nodes_capacity ? contract->nodes_capacity * 2 : 16;
		struct node *nodes = contract_realloc(contract, contract->nodes, capacity, sizeof(*nodes));

		if (nodes == NULL)
			return REA_ERR_NOMEM;
		contract->nodes = nodes;
		contract->nodes_capacity = capacity;
	}
	*ret_node = (uint32_t)contract->nodes_count++;
	contract->nodes[*ret_node] = (struct node){.parent = parent, .parameter = NONE, .first = NONE};
	return 0;
}

int rea_contract_new(const struct rea_alloc *alloc, struct rea_contract **ret_contract)
{
	const struct rea_alloc *a = alloc ? alloc : rea_alloc_default();
	struct rea_contract *contract = a->realloc(NULL, sizeof(*contract), a->user_data);
	uint32_t root;

	if (contract == NULL)
		return REA_ERR_NOMEM;
	*contract = (struct rea_contract){.alloc = *a};
	contract->keys.alloc = &contract->alloc;
	if (add_node(contract, NONE, &root) != 0) {
		rea_contract_free(contract);
		return REA_ERR_NOMEM;
	}
	*ret_contract = contract;
	return 0;
}

void rea_contract_free(struct rea_contract *contract)
{
	if (contract == NULL)
		return;
	for (size_t i = 0; i < contract->count; i++)
		contract_release(contract, contract->entries[i].texts);
	for (size_t i = 0; i < contract->nodes_count; i++)
		contract_release(contract, contract->nodes[i].literal);
	rea_map_fini(&contract->keys);
	contract_release(contract, contract->entries);
	contract_release(contract, contract->nodes);
	contract_release(contract, contract->edges);
	contract_release(contract, contract);
}

__attribute__((format(printf, 3, 4))) static void describe(
    struct rea_error_info *info, const struct rea_operation *operation, const char *format, ...)
{
	va_list args;

	if (info == NULL)
		return;
	memset(info, 0, sizeof(*info));
	info->line = operation->line;
	va_start(args, format);
	vsnprintf(info->message, sizeof(info->message), format, args);
	va_end(args);
}

#define refuse(info, error, operation, ...) (describe(info, operation, __VA_ARGS__), (error))

static size_t edge_slot(const struct rea_contract *contract, uint32_t parent, const struct rea__segment *segment)
{
	size_t mask = contract->edges_capacity - 1;
	size_t slot = (size_t)((segment->hash ^ parent) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & mask;

	for (;; slot = (slot + 1) & mask) {
		const struct node *node = &contract->nodes[contract->edges[slot]];

		if (contract->edges[slot] == 0)
			return slot;
		if (node->parent == parent && node->hash == segment->hash &&
		    rea__segment_equal(segment, node->literal, node->length))
			return slot;
	}
}

static int grow_edges(struct rea_contract *contract)
{
	size_t old_capacity = contract->edges_capacity, capacity = old_capacity ? old_capacity * 2 : EDGES_MIN;
	uint32_t *old = contract->edges, *edges;

	if (contract->edges_count < old_capacity / 2)
		return 0;
	edges = contract_realloc(contract, NULL, capacity, sizeof(*edges));
	if (edges == NULL)
		return REA_ERR_NOMEM;
	memset(edges, 0, capacity * sizeof(*edges));
	contract->edges = edges;
	contract->edges_capacity = capacity;
	for (size_t i = 0; i < old_capacity; i++) {
		const struct node *node = &contract->nodes[old[i]];
		struct rea__segment segment = {node->literal, node->length, false, node->hash};

		/* A literal may hold a "%" of its own: not escaped, it is compared as it is. */
		if (old[i] != 0)
			edges[edge_slot(contract, node->parent, &segment)] = old[i];
	}
	contract_release(contract, old);
	return 0;
}

/* The literal child, made when it is missing. */
static int enter_literal(struct rea_contract *contract, uint32_t parent, const struct rea__segment *segment, uint32_t *ret_child)
{
	size_t slot;
	char *literal;
	int error = grow_edges(contract);

	if (error != 0)
		return error;
	slot = edge_slot(contract, parent, segment);
	if (contract->edges[slot] != 0) {
		*ret_child = contract->edges[slot];
		return 0;
	}
	literal = contract_realloc(contract, NULL, segment->length, 1);
	if (literal == NULL)
		return REA_ERR_NOMEM;
	error = add_node(contract, parent, ret_child);
	if (error != 0) {
		contract_release(contract, literal);
		return error;
	}
	contract->nodes[*ret_child].literal = literal;
	contract->nodes[*ret_child].length = (uint32_t)rea__segment_decode(segment, literal);
	contract->nodes[*ret_child].hash = segment->hash;
	contract->edges[slot] = *ret_child;
	contract->edges_count++;
	return 0;
}

static int enter_parameter(struct rea_contract *contract, uint32_t parent, uint32_t *ret_child)
{
	int error;

	if (contract->nodes[parent].parameter == NONE) {
		error = add_node(contract, parent, ret_child);
		if (error != 0)
			return error;
		contract->nodes[parent].parameter = *ret_child;
	}
	*ret_child = contract->nodes[parent].parameter;
	return 0;
}

static int enter(struct rea_contract *contract, const struct rea__segment *segments, size_t count, uint32_t *ret_node)
{
	int error = 0;

	*ret_node = 0;
	for (size_t i = 0; i < count && error == 0; i++)
		error = segments[i].text[0] == '{' ? enter_parameter(contract, *ret_node, ret_node)
						   : enter_literal(contract, *ret_node, &segments[i], ret_node);
	return error;
}

static bool is_parameter_name(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		char c = rea_ascii_lower(text[i]);

		if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.')
			return false;
	}
	return true;
}

/* What is wrong with one segment of a template, in English; NULL = nothing. */
static const char *segment_fault(const struct rea__segment *segment)
{
	const char *text = segment->text;
	size_t length = segment->length, braces = 0;

	for (size_t i = 0; i < length; i++)
		braces += text[i] == '{' || text[i] == '}';
	if (braces == 0)
		return NULL;
	if (memchr(text, '}', length) == NULL)
		return "has a \"{\" that is not closed in its segment";
	if (text[0] != '{' || text[length - 1] != '}')
		return "has a parameter that is not a whole segment";
	if (length == 2)
		return "has a parameter without a name";
	if (!is_parameter_name(text + 1, length - 2))
		return "has a parameter whose name is not made of letters, digits, \"_\", \"-\" and \".\"";
	return NULL;
}

static const char *path_fault(enum rea__path wrong)
{
	switch (wrong) {
	case REA__PATH_OK:
		return NULL;
	case REA__PATH_NOT_ROOTED:
		return "does not begin with \"/\"";
	case REA__PATH_EMPTY_SEGMENT:
		return "has an empty segment";
	case REA__PATH_DOT_SEGMENT:
		return "has a dot segment";
	case REA__PATH_BAD_CHARACTER:
		return "has a character that does not belong in a path";
	case REA__PATH_BAD_ESCAPE:
		return "has a \"%\" without two hex digits";
	case REA__PATH_TOO_MANY:
		break;
	}
	return "has too many segments";
}

/* The template's segments, every one of them good. */
static int parse_template(const struct rea_operation *operation, struct rea__segment *ret_segments, size_t *ret_count,
    struct rea_error_info *info)
{
	size_t length = strlen(operation->path);
	enum rea__path wrong;
	const char *fault;

	if (length > REA_CONTRACT_PATH_MAX)
		return refuse(
		    info, REA_ERR_LIMIT, operation, "a path template is longer than %d bytes", REA_CONTRACT_PATH_MAX);
	wrong = rea__path_split(operation->path, length, ret_segments, ret_count);
	if (wrong == REA__PATH_TOO_MANY)
		return refuse(info, REA_ERR_LIMIT, operation, "the path \"%s\" has more than %d segments",
		    operation->path, REA_CONTRACT_SEGMENTS_MAX);
	fault = path_fault(wrong);
	if (fault == NULL && strchr(operation->path, '?') != NULL)
		fault = "has a query, which is no part of a template";
	for (size_t i = 0; fault == NULL && i < *ret_count; i++)
		fault = segment_fault(&ret_segments[i]);
	return fault ? refuse(info, REA_ERR_INVALID, operation, "the path \"%s\" %s", operation->path, fault) : 0;
}

static const struct rea_operation *operation_at(
    const struct rea_contract *contract, uint32_t node, const char *method, size_t length)
{
	for (uint32_t i = contract->nodes[node].first; i != NONE; i = contract->entries[i].next)
		if (contract->entries[i].method_length == length &&
		    memcmp(contract->entries[i].operation.http_method, method, length) == 0)
			return &contract->entries[i].operation;
	return NULL;
}

/* Room for one more operation, so that what follows cannot fail half-way. */
static int reserve(struct rea_contract *contract)
{
	int error = rea_map_reserve(&contract->keys, contract->count + 1);

	if (error == 0 && contract->count == contract->capacity) {
		size_t capacity = contract->capacity ? contract->capacity * 2 : 8;
		struct entry *entries = contract_realloc(contract, contract->entries, capacity, sizeof(*entries));

		if (entries == NULL)
			return REA_ERR_NOMEM;
		contract->entries = entries;
		contract->capacity = capacity;
	}
	return error;
}

/* Copy the operation to the end of the list and hang it on its node. */
static int append(struct rea_contract *contract, const struct rea_operation *operation, uint32_t node)
{
	size_t key = strlen(operation->key) + 1, method = strlen(operation->http_method) + 1,
	       path = strlen(operation->path) + 1;
	char *texts = contract_realloc(contract, NULL, key + method + path, 1);
	struct entry *entry = &contract->entries[contract->count];
	int error;

	assert(contract->entries != NULL && contract->count < contract->capacity); /* room was reserved */
	if (texts == NULL)
		return REA_ERR_NOMEM;
	memcpy(texts, operation->key, key);
	memcpy(texts + key, operation->http_method, method);
	memcpy(texts + key + method, operation->path, path);
	*entry = (struct entry){.operation = *operation, .texts = texts, .method_length = (uint32_t)(method - 1)};
	entry->operation.key = texts;
	entry->operation.http_method = texts + key;
	entry->operation.path = texts + key + method;
	entry->operation.index = contract->count;
	entry->next = contract->nodes[node].first;
	error = rea_map_insert(&contract->keys, rea_slice_make(texts, key - 1), (uint32_t)contract->count);
	assert(error == 0);
	contract->nodes[node].first = (uint32_t)contract->count++;
	return 0;
}

/* What is the same in every way of getting in: is it an operation at all, and where does its template end? */
static int place(struct rea_contract *contract, const struct rea_operation *operation, uint32_t *ret_node,
    struct rea_error_info *info)
{
	struct rea__segment segments[REA_CONTRACT_SEGMENTS_MAX];
	size_t count;
	int error;

	assert(!contract->finished);
	if (!rea__is_token(operation->http_method, strlen(operation->http_method)))
		return refuse(info, REA_ERR_INVALID, operation, "\"%s\" is no HTTP method", operation->http_method);
	if (operation->key[0] == '\0')
		return refuse(info, REA_ERR_INVALID, operation, "the method key is empty");
	error = parse_template(operation, segments, &count, info);
	if (error != 0)
		return error;
	error = reserve(contract);
	if (error == 0)
		error = enter(contract, segments, count, ret_node);
	return error ? refuse(info, error, operation, "%s", rea_error_text(error)) : 0;
}

static const struct rea_operation *same_requests(
    const struct rea_contract *contract, const struct rea_operation *operation, uint32_t node)
{
	return operation_at(contract, node, operation->http_method, strlen(operation->http_method));
}

static int add_at(
    struct rea_contract *contract, const struct rea_operation *operation, uint32_t node, struct rea_error_info *info)
{
	const struct rea_operation *other = rea_contract_find_key(contract, operation->key, strlen(operation->key));
	int error;

	if (other != NULL)
		return refuse(info, REA_ERR_INVALID, operation, "the method key \"%s\" is used twice: for %s %s and for %s %s",
		    operation->key, other->http_method, other->path, operation->http_method, operation->path);
	other = same_requests(contract, operation, node);
	if (other != NULL)
		return refuse(info, REA_ERR_INVALID, operation,
		    "%s %s takes the same requests as %s, which has the key \"%s\"", operation->http_method,
		    operation->path, other->path, other->key);
	if (contract->count == REA_CONTRACT_OPERATIONS_MAX)
		return refuse(info, REA_ERR_LIMIT, operation, "a contract has more than %d operations",
		    REA_CONTRACT_OPERATIONS_MAX);
	error = append(contract, operation, node);
	return error ? refuse(info, error, operation, "%s", rea_error_text(error)) : 0;
}

int rea_contract_add(struct rea_contract *contract, const struct rea_operation *operation, struct rea_error_info *ret_info)
{
	uint32_t node;
	int error = place(contract, operation, &node, ret_info);

	return error ? error : add_at(contract, operation, node, ret_info);
}

int rea_contract_combine(struct rea_contract *contract, const struct rea_operation *operation, struct rea_error_info *ret_info)
{
	const struct rea_operation *other;
	struct rea_operation *mine;
	uint32_t node;
	int error = place(contract, operation, &node, ret_info);

	if (error != 0)
		return error;
	other = same_requests(contract, operation, node);
	if (other == NULL || strcmp(other->key, operation->key) != 0)
		return add_at(contract, operation, node, ret_info);
	mine = &contract->entries[other->index].operation;
	mine->grant = rea_grant_combine(mine->grant, operation->grant);
	mine->client_streams |= operation->client_streams;
	mine->server_streams |= operation->server_streams;
	mine->generate_key = (mine->generate_key || operation->generate_key) &&
			     mine->grant.permission == REA_PERMISSION_IDEMPOTENT_WITH_KEY;
	return 0;
}

int rea_contract_finish(struct rea_contract *contract)
{
	contract->finished = true;
	return 0;
}

/* ------------------------------------------------------------------ asking */

size_t rea_contract_count(const struct rea_contract *contract)
{
	return contract->count;
}

const struct rea_operation *rea_contract_operation(const struct rea_contract *contract, size_t index)
{
	assert(index < contract->count);
	return &contract->entries[index].operation;
}

const struct rea_operation *rea_contract_find_key(const struct rea_contract *contract, const char *key, size_t length)
{
	uint32_t index;

	return rea_map_find(&contract->keys, rea_slice_make(key, length), &index) ? &contract->entries[index].operation
										  : NULL;
}

struct search {
	const struct rea_contract *contract;
	const char *method;
	size_t method_length;
	const struct rea__segment *segments;
	size_t count;
};

static const struct rea_operation *descend(const struct search *search, uint32_t node, size_t depth)
{
	const struct rea_contract *contract = search->contract;
	const struct rea_operation *found = NULL;
	uint32_t child;

	if (depth == search->count)
		return operation_at(contract, node, search->method, search->method_length);
	child = contract->edges_count == 0 ? 0 : contract->edges[edge_slot(contract, node, &search->segments[depth])];
	if (child != 0)
		found = descend(search, child, depth + 1);
	child = contract->nodes[node].parameter;
	return found != NULL || child == NONE ? found : descend(search, child, depth + 1);
}

const struct rea_operation *rea_contract_match(
    const struct rea_contract *contract, const char *method, size_t method_length, const char *path, size_t path_length)
{
	struct rea__segment segments[REA_CONTRACT_SEGMENTS_MAX];
	struct search search = {.contract = contract, .method = method, .method_length = method_length, .segments = segments};

	assert(contract->finished);
	if (rea__path_split(path, path_length, segments, &search.count) != REA__PATH_OK)
		return NULL;
	return descend(&search, 0, 0);
}
