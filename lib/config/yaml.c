#include "config/yaml.h"

#include "base/map.h"

#include <stdarg.h>
#include <stdio.h>
#include <yaml.h>

/* Mappings with fewer keys are searched for doubles pair by pair. */
#define FEW_KEYS 12

/* ------------------------------------------------------------------ messages */

const char *rea__quote(struct rea_slice text, char buffer[REA__QUOTE_SIZE])
{
	size_t room = REA__QUOTE_SIZE - sizeof("\"...\""), length = text.length < room ? text.length : room, at = 0;

	/* Not in the middle of a UTF-8 sequence. */
	while (length < text.length && length > 0 && ((unsigned char)text.data[length] & 0xc0) == 0x80)
		length--;
	buffer[at++] = '"';
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text.data[i];

		buffer[at++] = c < 0x20 || c == 0x7f ? '?' : (char)c;
	}
	memcpy(buffer + at, length < text.length ? "...\"" : "\"", length < text.length ? 5 : 2);
	return buffer;
}

static size_t index_of(const struct rea__node *node)
{
	size_t index = 0;

	for (const struct rea__node *sibling = node->parent->first; sibling != node; sibling = sibling->next)
		index++;
	return index;
}

/* A document may come from elsewhere: what it says does not reach a terminal as it is. */
static void disarm(char *text)
{
	for (; *text != '\0'; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = '?';
}

/* The dotted path of a node, "services.users.instances[1]". */
static void write_path(const struct rea__node *node, char *text, size_t size)
{
	const struct rea__node *chain[REA__YAML_DEPTH_MAX + 1];
	size_t depth = 0, at = 0;

	for (; node->parent != NULL; node = node->parent)
		chain[depth++] = node;
	text[0] = '\0';
	while (depth-- > 0 && at < size) {
		const struct rea__node *step = chain[depth];
		int written;

		if (step->key != NULL)
			written = snprintf(text + at, size - at, "%s%s", at > 0 ? "." : "", step->key->text);
		else
			written = snprintf(text + at, size - at, "[%zu]", index_of(step));
		at += (size_t)written;
	}
	disarm(text);
}

__attribute__((format(printf, 5, 0))) static void fill(
    struct rea_error_info *info, const char *file, uint32_t line, uint32_t column, const char *format, va_list args)
{
	memset(info, 0, sizeof(*info));
	snprintf(info->file, sizeof(info->file), "%s", file ? file : "");
	info->line = line;
	info->column = column;
	vsnprintf(info->message, sizeof(info->message), format, args);
	disarm(info->message);
}

void rea__describe_at(struct rea_error_info *info, const char *file, const struct rea__node *node, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fill(info, file, node->line, node->column, format, args);
	va_end(args);
	write_path(node, info->key, sizeof(info->key));
}

void rea__describe_key_at(struct rea_error_info *info, const char *file, const struct rea__node *node, const char *format, ...)
{
	const struct rea__node *place = node->key ? node->key : node;
	va_list args;

	va_start(args, format);
	fill(info, file, place->line, place->column, format, args);
	va_end(args);
	write_path(node, info->key, sizeof(info->key));
}

__attribute__((format(printf, 5, 6))) static void describe_place(
    struct rea_error_info *info, const char *file, size_t line, size_t column, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fill(info, file, (uint32_t)line, (uint32_t)column, format, args);
	va_end(args);
}

#define refuse_place(info, file, error, line, column, ...) \
	(describe_place(info, file, line, column, __VA_ARGS__), (error))

void rea__describe_nomem(struct rea_error_info *info, const char *file)
{
	describe_place(info, file, 0, 0, "%s", rea_error_text(REA_ERR_NOMEM));
}

/* ------------------------------------------------------------------ building */

bool rea__node_is_null(const struct rea__node *node)
{
	struct rea_slice text;

	if (node->kind != REA__SCALAR || !node->plain)
		return false;
	text = rea__node_text(node);
	return text.length == 0 || rea_slice_equal(text, REA_SLICE_LIT("~")) ||
	       rea_slice_equal_nocase(text, REA_SLICE_LIT("null"));
}

struct parse {
	yaml_parser_t yaml;
	struct rea__tree *tree;
	struct rea_error_info *info;
	struct rea_slice text;
	struct rea__node *open; /* the innermost container that is not closed */
	struct rea__node *tail; /* its last child */
	struct rea__node *key;  /* read, and waiting for its value */
	uint32_t nodes;
	uint32_t depth;
	bool second; /* a document was read already */
};

static int refuse_mark(struct parse *parse, int error, const yaml_mark_t *mark, const char *message)
{
	return refuse_place(parse->info, parse->tree->file, error, mark->line + 1, mark->column + 1, "%s", message);
}

/* The most frequent mistake deserves better words than the scanner's. */
static bool has_tab_at(const struct parse *parse, const yaml_mark_t *mark)
{
	const char *line = parse->text.data, *end = line + parse->text.length;

	for (size_t i = 0; i < mark->line && line < end; i++) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));

		line = newline ? newline + 1 : end;
	}
	for (size_t i = 0; i <= mark->column && line < end && (*line == ' ' || *line == '\t'); i++)
		if (*line++ == '\t')
			return true;
	return false;
}

static int refuse_yaml(struct parse *parse)
{
	const yaml_parser_t *yaml = &parse->yaml;
	const char *problem = yaml->problem ? yaml->problem : "malformed YAML";

	if (yaml->error == YAML_MEMORY_ERROR)
		return rea__refuse_nomem(parse->info, parse->tree->file);
	if (yaml->error == YAML_READER_ERROR)
		return refuse_place(parse->info, parse->tree->file, REA_ERR_SYNTAX, yaml->mark.line + 1,
		    yaml->mark.column + 1, "%s near byte %zu: the document must be UTF-8 text", problem,
		    yaml->problem_offset);
	if (has_tab_at(parse, &yaml->problem_mark))
		problem = "a tab where YAML expects spaces: indent with spaces";
	return refuse_place(parse->info, parse->tree->file, REA_ERR_SYNTAX, yaml->problem_mark.line + 1,
	    yaml->problem_mark.column + 1, "%s%s%s", yaml->context ? yaml->context : "", yaml->context ? ": " : "", problem);
}

static int new_node(struct parse *parse, const yaml_event_t *event, enum rea__node_kind kind, struct rea__node **ret_node)
{
	struct rea__node *node;

	if (parse->nodes == REA__YAML_NODES_MAX)
		return refuse_mark(parse, REA_ERR_LIMIT, &event->start_mark, "the document has more than 2000000 values");
	parse->nodes++;
	node = rea_arena_alloc(&parse->tree->arena, sizeof(*node));
	if (node == NULL)
		return rea__refuse_nomem(parse->info, parse->tree->file);
	node->parent = parse->open;
	node->kind = (uint8_t)kind;
	node->line = (uint32_t)event->start_mark.line + 1;
	node->column = (uint32_t)event->start_mark.column + 1;
	*ret_node = node;
	return 0;
}

/* Hang a value where the document has come to. */
static void attach(struct parse *parse, struct rea__node *node)
{
	node->key = parse->key;
	parse->key = NULL;
	if (parse->open == NULL) {
		parse->tree->root = node;
		return;
	}
	if (parse->tail == NULL)
		parse->open->first = node;
	else
		parse->tail->next = node;
	parse->open->length++;
	parse->tail = node;
}

static bool awaits_key(const struct parse *parse)
{
	return parse->open != NULL && parse->open->kind == REA__MAPPING && parse->key == NULL;
}

static int on_scalar(struct parse *parse, const yaml_event_t *event)
{
	struct rea_slice text = rea_slice_make((const char *)event->data.scalar.value, event->data.scalar.length);
	struct rea__node *node;
	int error;

	if (event->data.scalar.tag != NULL)
		return refuse_mark(
		    parse, REA_ERR_SYNTAX, &event->start_mark, "tags (!...) are not supported: write the plain value");
	if (memchr(text.data, '\0', text.length) != NULL)
		return refuse_mark(parse, REA_ERR_SYNTAX, &event->start_mark, "the text holds a NUL character");
	error = new_node(parse, event, REA__SCALAR, &node);
	if (error != 0)
		return error;
	node->text = rea_arena_string(&parse->tree->arena, text);
	if (node->text == NULL)
		return rea__refuse_nomem(parse->info, parse->tree->file);
	node->length = (uint32_t)text.length;
	node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	if (awaits_key(parse))
		parse->key = node;
	else
		attach(parse, node);
	return 0;
}

static int on_open(struct parse *parse, const yaml_event_t *event, enum rea__node_kind kind, const void *tag)
{
	struct rea__node *node;
	int error;

	if (tag != NULL)
		return refuse_mark(
		    parse, REA_ERR_SYNTAX, &event->start_mark, "tags (!...) are not supported: write the plain value");
	if (awaits_key(parse))
		return refuse_mark(parse, REA_ERR_SYNTAX, &event->start_mark,
		    "a key must be a single word or text, not a list or a mapping");
	if (parse->depth == REA__YAML_DEPTH_MAX)
		return refuse_mark(
		    parse, REA_ERR_LIMIT, &event->start_mark, "the document is nested more than 64 levels deep");
	error = new_node(parse, event, kind, &node);
	if (error != 0)
		return error;
	attach(parse, node);
	parse->depth++;
	parse->open = node;
	parse->tail = NULL;
	return 0;
}

static int refuse_double(struct parse *parse, const struct rea__node *node, uint32_t first_line)
{
	char quote[REA__QUOTE_SIZE];

	return rea__refuse_key_at(parse->info, parse->tree->file, REA_ERR_INVALID, node,
	    "the key %s stands here a second time; the first is on line %u",
	    rea__quote(rea__node_text(node->key), quote), first_line);
}

static int check_few(struct parse *parse, const struct rea__node *mapping)
{
	for (const struct rea__node *node = mapping->first; node != NULL; node = node->next)
		for (const struct rea__node *before = mapping->first; before != node; before = before->next)
			if (rea_slice_equal(rea__node_text(node->key), rea__node_text(before->key)))
				return refuse_double(parse, node, before->key->line);
	return 0;
}

static int check_many(struct parse *parse, const struct rea__node *mapping)
{
	struct rea_map lines = {.alloc = parse->tree->arena.alloc};
	uint32_t first_line;
	int error = rea_map_reserve(&lines, mapping->length);

	for (const struct rea__node *node = mapping->first; node != NULL && error == 0; node = node->next) {
		if (rea_map_find(&lines, rea__node_text(node->key), &first_line))
			error = refuse_double(parse, node, first_line);
		else
			error = rea_map_insert(&lines, rea__node_text(node->key), node->key->line);
	}
	rea_map_fini(&lines);
	return error == REA_ERR_NOMEM ? rea__refuse_nomem(parse->info, parse->tree->file) : error;
}

static int on_close(struct parse *parse)
{
	struct rea__node *closed = parse->open;
	int error = 0;

	if (closed->kind == REA__MAPPING)
		error = closed->length <= FEW_KEYS ? check_few(parse, closed) : check_many(parse, closed);
	parse->open = (struct rea__node *)closed->parent;
	parse->tail = closed;
	parse->depth--;
	return error;
}

static int on_alias(struct parse *parse, const yaml_event_t *event)
{
	char quote[REA__QUOTE_SIZE];

	return refuse_place(parse->info, parse->tree->file, REA_ERR_SYNTAX, event->start_mark.line + 1,
	    event->start_mark.column + 1, "aliases are not supported: write the value of %s out, or use a profile",
	    rea__quote(rea_slice_of((const char *)event->data.alias.anchor), quote));
}

static int on_event(struct parse *parse, const yaml_event_t *event)
{
	switch (event->type) {
	case YAML_SCALAR_EVENT:
		return on_scalar(parse, event);
	case YAML_SEQUENCE_START_EVENT:
		return on_open(parse, event, REA__SEQUENCE, event->data.sequence_start.tag);
	case YAML_MAPPING_START_EVENT:
		return on_open(parse, event, REA__MAPPING, event->data.mapping_start.tag);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		return on_close(parse);
	case YAML_ALIAS_EVENT:
		return on_alias(parse, event);
	case YAML_DOCUMENT_START_EVENT:
		if (parse->second)
			return refuse_mark(parse, REA_ERR_SYNTAX, &event->start_mark,
			    "a second document begins here: one file holds one document");
		parse->second = true;
		return 0;
	case YAML_NO_EVENT:
	case YAML_STREAM_START_EVENT:
	case YAML_STREAM_END_EVENT:
	case YAML_DOCUMENT_END_EVENT:
		break;
	}
	return 0;
}

static int read_events(struct parse *parse)
{
	yaml_event_t event;
	bool end;
	int error;

	do {
		if (!yaml_parser_parse(&parse->yaml, &event))
			return refuse_yaml(parse);
		end = event.type == YAML_STREAM_END_EVENT;
		error = on_event(parse, &event);
		yaml_event_delete(&event);
	} while (!end && error == 0);
	return error;
}

int rea__tree_parse(const char *name, const char *text, size_t length, const struct rea_alloc *alloc,
    struct rea__tree *ret_tree, struct rea_error_info *info)
{
	struct rea__tree tree = {.file = name};
	struct parse parse = {.tree = &tree, .info = info, .text = {text, length}};
	int error;

	if (length > REA__YAML_BYTES_MAX)
		return refuse_place(info, name, REA_ERR_LIMIT, 0, 0, "the document is larger than 16 MiB");
	if (!yaml_parser_initialize(&parse.yaml))
		return rea__refuse_nomem(info, name);
	rea_arena_init(&tree.arena, alloc);
	yaml_parser_set_input_string(&parse.yaml, (const unsigned char *)(length > 0 ? text : ""), length);
	error = read_events(&parse);
	yaml_parser_delete(&parse.yaml);
	if (error != 0)
		rea__tree_free(&tree);
	else
		*ret_tree = tree;
	return error;
}

void rea__tree_free(struct rea__tree *tree)
{
	rea_arena_fini(&tree->arena);
	tree->root = NULL;
}
