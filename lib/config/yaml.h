/*
 * A YAML document as a tree that knows where everything stands.
 *
 * The subset that a configuration needs: one document of mappings, sequences and scalars with scalar keys, none
 * twice. Aliases, tags and further documents are refused, so a tree is never larger than its text.
 */
#ifndef REA_CONFIG_YAML_H
#define REA_CONFIG_YAML_H

#include "base/arena.h"
#include "base/slice.h"

#include <rea/error.h>

#define REA__YAML_BYTES_MAX ((size_t)16 * 1024 * 1024)
#define REA__YAML_DEPTH_MAX 64
#define REA__YAML_NODES_MAX 2000000

enum rea__node_kind { REA__SCALAR, REA__SEQUENCE, REA__MAPPING };

struct rea__node {
	const struct rea__node *parent; /* NULL = the root */
	const struct rea__node *key;    /* a mapping's child has one, a scalar */
	struct rea__node *next;         /* sibling, in the order of the document */
	union {
		const char *text;        /* of a scalar; terminated, holds no NUL */
		struct rea__node *first; /* child of the others; NULL = none */
	};
	uint32_t length; /* bytes of text, or number of children */
	uint32_t line;   /* 1-based, as is column */
	uint32_t column;
	uint8_t kind;
	bool plain; /* a scalar without quotes */
};

struct rea__tree {
	struct rea_arena arena;
	const char *file;       /* borrowed */
	struct rea__node *root; /* NULL = an empty document */
};

/* Parse. name and alloc: borrowed while the tree lives. Returns 0, or REA_ERR_SYNTAX, INVALID, LIMIT, NOMEM with
 * info filled and nothing to free. libyaml allocates with malloc on its own while it parses; all of that is freed
 * on return. */
int rea__tree_parse(const char *name, const char *text, size_t length, const struct rea_alloc *alloc,
    struct rea__tree *ret_tree, struct rea_error_info *info);
void rea__tree_free(struct rea__tree *tree);

static inline struct rea_slice rea__node_text(const struct rea__node *node)
{
	return rea_slice_make(node->text, node->length);
}

/* Nothing was written where a value stands: `key:`, `key: ~`, `key: null`. */
bool rea__node_is_null(const struct rea__node *node);

/* A refusal: info gets the node's file, line, column and key path and the message; the value is `error`. Macros, so that
 * a reader and a compiler see that it is never 0. */
#define rea__refuse_at(info, file, error, node, ...) (rea__describe_at(info, file, node, __VA_ARGS__), (error))
/* The same with the position of the node's key. */
#define rea__refuse_key_at(info, file, error, node, ...) (rea__describe_key_at(info, file, node, __VA_ARGS__), (error))
/* Without a position. */
#define rea__refuse_nomem(info, file) (rea__describe_nomem(info, file), REA_ERR_NOMEM)

__attribute__((format(printf, 4, 5))) void rea__describe_at(
    struct rea_error_info *info, const char *file, const struct rea__node *node, const char *format, ...);
__attribute__((format(printf, 4, 5))) void rea__describe_key_at(
    struct rea_error_info *info, const char *file, const struct rea__node *node, const char *format, ...);
void rea__describe_nomem(struct rea_error_info *info, const char *file);

/* A text as it can be shown in a message: quoted, cut, control characters replaced. Returns the buffer. */
#define REA__QUOTE_SIZE 72
const char *rea__quote(struct rea_slice text, char buffer[REA__QUOTE_SIZE]);

#endif
