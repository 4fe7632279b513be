/* Which kind of document it is, and what its readers share. */
#include "config/contract_document.h"

#include <stdio.h>

void rea_contract_document_init(struct rea_contract_document *document)
{
	*document = (struct rea_contract_document){.version = REA_CONTRACT_DOCUMENT_VERSION, .text = ""};
}

const char *rea_contract_format_name(enum rea_contract_format format)
{
	static const char *const names[] = {
#define X(name, text) [REA_CONTRACT_##name] = text,
	    REA_CONTRACT_FORMAT_MAP(X)
#undef X
	};

	return (unsigned)format < REA_CONTRACT_FORMAT_COUNT ? names[format] : "unknown";
}

const struct rea__node *rea__node_child(const struct rea__node *node, const char *name)
{
	const struct rea__node *child = node != NULL && node->kind == REA__MAPPING ? node->first : NULL;

	while (child != NULL && !rea_slice_equal(rea__node_text(child->key), rea_slice_of(name)))
		child = child->next;
	return child;
}

bool rea__node_is(const struct rea__node *node, const char *text)
{
	return node != NULL && node->kind == REA__SCALAR && rea_slice_equal(rea__node_text(node), rea_slice_of(text));
}

const char *rea__join(struct rea_arena *arena, const char *first, const char *between, struct rea_slice second)
{
	size_t size = first != NULL ? strlen(first) + strlen(between) + second.length + 1 : 0;
	char *text = first != NULL ? rea_arena_alloc(arena, size) : NULL;

	if (text != NULL)
		snprintf(text, size, "%s%s%.*s", first, between, (int)second.length, second.data);
	return text;
}

int rea__contract_put(struct rea__contract_reading *reading, const struct rea__tree *tree, const struct rea__node *node,
    const struct rea_operation *operation)
{
	struct rea_error_info wrong;
	int error = rea_contract_add(reading->contract, operation, &wrong);

	return error ? rea__refuse_key_at(reading->info, tree->file, error, node, "%s", wrong.message) : 0;
}

/* A FileDescriptorSet begins with the tag of its first file, and is full of characters that no text has. */
static bool is_descriptor(const struct rea_contract_document *document)
{
	bool text = document->length == 0 || document->text[0] != '\n';

	for (size_t i = 1; !text && i < document->length; i++) {
		unsigned char c = (unsigned char)document->text[i];

		if (c < 0x20 && c != '\t' && c != '\n' && c != '\r')
			return true;
	}
	return false;
}

static int find_format(const struct rea__tree *tree, struct rea_error_info *info, enum rea_contract_format *ret_format)
{
	const struct rea__node *root = tree->root;

	if (rea__node_child(root, "openapi") != NULL || rea__node_child(root, "swagger") != NULL)
		*ret_format = REA_CONTRACT_OPENAPI;
	else if (rea__node_child(root, "smithy") != NULL)
		*ret_format = REA_CONTRACT_SMITHY;
	else if (rea__node_child(root, "operations") != NULL)
		*ret_format = REA_CONTRACT_PLAIN;
	else if (root == NULL) {
		rea__describe_nomem(info, tree->file);
		snprintf(info->message, sizeof(info->message), "the document is empty");
		return REA_ERR_SYNTAX;
	} else {
		return rea__refuse_at(info, tree->file, REA_ERR_INVALID, root,
		    "no contract: neither `openapi` nor `smithy` nor `operations` stands at its root");
	}
	return 0;
}

static int read_text(struct rea__contract_reading *reading, const struct rea_alloc *alloc, enum rea_contract_format *format)
{
	const struct rea_contract_document *document = reading->document;
	struct rea__tree tree;
	struct rea__reader reader = {.tree = &tree, .arena = reading->arena, .info = reading->info};
	int error = rea__tree_parse(document->name, document->text, document->length, alloc, &tree, reading->info);

	if (error != 0)
		return error;
	if (*format == REA_CONTRACT_AUTO)
		error = find_format(&tree, reading->info, format);
	if (error == 0 && *format == REA_CONTRACT_OPENAPI)
		error = rea__openapi_read(reading, &tree);
	else if (error == 0 && *format == REA_CONTRACT_SMITHY)
		error = rea__smithy_read(reading, &tree);
	else if (error == 0)
		error = rea__contract_plain_read(reading, &reader, tree.root, NULL, REA_PERMISSION_SOURCE_CONTRACT);
	rea__tree_free(&tree);
	return error;
}

static int combine(struct rea__contract_reading *reading, struct rea_contract *contract)
{
	for (size_t i = 0; i < rea_contract_count(reading->contract); i++) {
		struct rea_error_info wrong;
		int error = rea_contract_combine(contract, rea_contract_operation(reading->contract, i), &wrong);

		if (error != 0) {
			*reading->info = wrong;
			snprintf(reading->info->file, sizeof(reading->info->file), "%s",
			    reading->document->name ? reading->document->name : "");
			return error;
		}
	}
	return 0;
}

int rea_contract_read(struct rea_contract *contract, const struct rea_contract_document *document,
    const struct rea_alloc *alloc, enum rea_contract_format *ret_format, struct rea_error_info *ret_info)
{
	const struct rea_alloc *a = alloc ? alloc : rea_alloc_default();
	struct rea_error_info unwanted;
	struct rea_arena arena;
	struct rea__contract_reading reading = {
	    .document = document, .arena = &arena, .info = ret_info ? ret_info : &unwanted};
	enum rea_contract_format format = document->format;
	int error = rea_contract_new(a, &reading.contract);

	if (error != 0)
		return rea__refuse_nomem(reading.info, document->name);
	rea_arena_init(&arena, a);
	if (format == REA_CONTRACT_AUTO && is_descriptor(document))
		format = REA_CONTRACT_PROTOBUF;
	error = format == REA_CONTRACT_PROTOBUF ? rea__descriptor_read(&reading) : read_text(&reading, a, &format);
	if (error == 0)
		error = combine(&reading, contract);
	if (error == 0 && ret_format != NULL)
		*ret_format = format;
	rea_contract_free(reading.contract);
	rea_arena_fini(&arena);
	return error;
}
