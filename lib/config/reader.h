/*
 * From YAML nodes to C structures, by tables: a block is a mapping whose keys the program knows, a field is one
 * such key with the type of its value. The same tables print values and are compared with rea.yaml(5).
 */
#ifndef REA_CONFIG_READER_H
#define REA_CONFIG_READER_H

#include "base/format.h"
#include "config/suggest.h"
#include "config/yaml.h"

struct rea__reader {
	const struct rea__tree *tree;
	struct rea_arena *arena;     /* for what outlives the tree */
	struct rea_error_info *info; /* never NULL */
	uint32_t *lines;             /* of the settings, by block->lines_at + index of field; NULL = not wanted */
};

struct rea__field;

struct rea__type {
	/* Write the value to ret_value, or refuse with position and what would be right. */
	int (*read)(struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value);
	/* The value as a document would write it. NULL = has no text of its own. */
	void (*format)(const struct rea__field *field, const void *value, struct rea_format *text);
};

/* A name for a number; a table of them ends with a NULL name. */
struct rea__choice {
	const char *name;
	int value;
};

struct rea__block;

struct rea__field {
	const char *name; /* kebab-case; a document may write camelCase */
	const struct rea__type *type;
	size_t offset;   /* of the value in the block's structure */
	double min, max; /* of numbers */
	bool above_min;  /* min itself is out of bounds */
	const struct rea__choice *choices;
	const struct rea__block *block;
	const char *note; /* said with a refusal; NULL = nothing */
};

#define REA__BLOCK_FIELDS_MAX 32
#define REA__NO_LINES SIZE_MAX

struct rea__block {
	const char *name; /* "limits", "breaker" */
	const struct rea__field *fields;
	size_t fields_len;
	size_t lines_at; /* where its fields' lines stand in reader->lines, or REA__NO_LINES */
};

/* Read a mapping (nothing counts as an empty one). Only what the document names is written to out. ret_seen: the
 * node of each field, NULL where absent; may be NULL. */
int rea__block_read(struct rea__reader *reader, const struct rea__node *node, const struct rea__block *block, void *out,
    const struct rea__node *ret_seen[REA__BLOCK_FIELDS_MAX]);
/* A key's kebab-case name, also written in camelCase. */
bool rea__key_equal(struct rea_slice key, const char *name);

extern const struct rea__type rea__type_bool;    /* bool */
extern const struct rea__type rea__type_u32;     /* uint32_t */
extern const struct rea__type rea__type_ms;      /* uint64_t nanoseconds, written in milliseconds */
extern const struct rea__type rea__type_double;  /* double, digits with a point */
extern const struct rea__type rea__type_choice;  /* an enum (int), by field->choices */
extern const struct rea__type rea__type_text;    /* const char *, not empty */
extern const struct rea__type rea__type_block;   /* a structure, by field->block */
extern const struct rea__type rea__type_node;    /* const struct rea__node *, to be read later */
extern const struct rea__type rea__type_address; /* const char *: "ip:port", port 0 too */

/* For types that only read differently. */
void rea__format_u32(const struct rea__field *field, const void *value, struct rea_format *text);
void rea__format_text(const struct rea__field *field, const void *value, struct rea_format *text);

/* Refusals: REA_ERR_INVALID at the value, or at its key. */
#define rea__refuse(reader, node, ...) \
	rea__refuse_at((reader)->info, (reader)->tree->file, REA_ERR_INVALID, node, __VA_ARGS__)
#define rea__refuse_key(reader, node, ...) \
	rea__refuse_key_at((reader)->info, (reader)->tree->file, REA_ERR_INVALID, node, __VA_ARGS__)
#define rea__nomem(reader) rea__refuse_nomem((reader)->info, (reader)->tree->file)

/* "expected X, got Y". hint: added as it is; may be "". */
#define rea__refuse_value(reader, node, expected, hint) \
	(rea__describe_value(reader, node, expected, hint), REA_ERR_INVALID)
void rea__describe_value(struct rea__reader *reader, const struct rea__node *node, const char *expected, const char *hint);
/* A scalar's text that is not empty. Returns 0, or refuses with "expected …". */
int rea__expect_text(
    struct rea__reader *reader, const struct rea__node *node, const char *expected, struct rea_slice *ret_text);
/* A mapping, or nothing. ret_first: its first child. */
int rea__expect_mapping(struct rea__reader *reader, const struct rea__node *node, const struct rea__node **ret_first);
int rea__expect_sequence(
    struct rea__reader *reader, const struct rea__node *node, const char *expected, const struct rea__node **ret_first);
int rea__copy_text(struct rea__reader *reader, struct rea_slice text, const char **ret_text);

/* "name:port", "1.2.3.4:port" or "[v6]:port". */
bool rea__is_host_port(struct rea_slice text);
/* A DNS name or an address without a port. */
bool rea__is_host(struct rea_slice text);

#endif
