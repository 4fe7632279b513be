/*
 * YAML and JSON as trees that know where everything stands. Unlike the reader of rea.yaml this one takes what the files of others have: several documents,
 * aliases, tags (left aside). JSON is read as the YAML that it is.
 */
#ifndef REA_SRC_CHECK_TREE_H
#define REA_SRC_CHECK_TREE_H

#include "check/model.h"

#define CHECK_DEPTH_MAX 64
#define CHECK_NODES_MAX 200000 /* of one file */

enum check_node_kind { CHECK_SCALAR, CHECK_SEQUENCE, CHECK_MAPPING };

struct check_node {
	const struct check_node *key; /* a mapping's child has one */
	struct check_node *next;
	union {
		const char *text; /* of a scalar; terminated, without NUL */
		struct check_node *first;
	};
	uint32_t length; /* of the text, or number of children */
	uint32_t line;   /* 1-based, as is column */
	uint32_t column;
	uint32_t last_line; /* on which it ends */
	enum check_node_kind kind;
	bool plain; /* a scalar without quotes */
	bool flow;  /* stands inside { } or [ ], or is such a one */
};

struct check_tree {
	struct check_node *root; /* NULL = an empty document */
	struct check_tree *next;
};

/* The documents of a file. duplicates: a key may stand twice in a mapping (JSON); else that is an error. Returns 0, or REA_ERR_SYNTAX, INVALID, LIMIT,
 * NOMEM with info filled. libyaml allocates with malloc on its own while it parses; all of that is freed on return. */
int check_tree_parse(struct check *check, const struct check_file *file, bool duplicates, struct check_tree **ret_tree,
    struct rea_error_info *info);

static inline struct rea_slice check_node_text(const struct check_node *node)
{
	return rea_slice_make(node->text, node->length);
}

static inline struct check_place check_node_place(const struct check_file *file, const struct check_node *node)
{
	return check_place_at(file, node->line, node->column);
}

static inline struct check_place check_key_place(const struct check_file *file, const struct check_node *node)
{
	return check_node_place(file, node->key ? node->key : node);
}

/* The child with that key; both spellings of "retry_on" and "retryOn" are found by "retryon". NULL = none; node may be NULL. */
const struct check_node *check_node_get(const struct check_node *node, const char *key);
/* The scalar below that key; empty = none. */
struct rea_slice check_node_string(const struct check_node *node, const char *key);
bool check_node_is_null(const struct check_node *node);
/* First child of a mapping or a sequence. */
static inline const struct check_node *check_node_first(const struct check_node *node)
{
	return node == NULL || node->kind == CHECK_SCALAR ? NULL : node->first;
}

#endif
