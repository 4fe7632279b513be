#include "check/tree.h"

#include "base/map.h"

#include <stdio.h>
#include <yaml.h>

/* A mapping with fewer keys is searched for doubles pair by pair. */
#define FEW_KEYS 12
#define ANCHORS_MAX 1000

struct level {
	struct check_node *node;
	struct check_node *tail;
	struct check_node *key; /* read, and waiting for its value */
	bool flow;
};

struct anchor {
	struct anchor *next;
	const char *name;
	const struct check_node *node;
	bool open; /* still being read: an alias to it would be a cycle */
};

struct parse {
	struct check *check;
	const struct check_file *file;
	struct rea_error_info *info;
	yaml_parser_t yaml;
	struct check_tree *trees, **trees_tail, *tree;
	struct level levels[CHECK_DEPTH_MAX];
	size_t depth, flow_depth;
	struct anchor *anchors;
	uint32_t nodes, anchors_len;
	int error; /* of new_node */
	bool duplicates;
};

static int refuse_mark(struct parse *parse, int error, const yaml_mark_t *mark, const char *message)
{
	return check_refuse(parse->info, parse->file, error,
	    check_place_at(parse->file, (uint32_t)mark->line + 1, (uint32_t)mark->column + 1), "%s", message);
}

static int refuse_nomem(struct parse *parse)
{
	parse->check->error = REA_ERR_NOMEM;
	return check_refuse(parse->info, parse->file, REA_ERR_NOMEM, check_place_at(parse->file, 0, 0), "%s",
	    rea_error_text(REA_ERR_NOMEM));
}

static int refuse_yaml(struct parse *parse)
{
	const yaml_parser_t *yaml = &parse->yaml;
	const char *problem = yaml->problem ? yaml->problem : "malformed";
	struct check_place place =
	    check_place_at(parse->file, (uint32_t)yaml->problem_mark.line + 1, (uint32_t)yaml->problem_mark.column + 1);

	if (yaml->error == YAML_MEMORY_ERROR)
		return refuse_nomem(parse);
	if (yaml->error == YAML_READER_ERROR)
		return check_refuse(parse->info, parse->file, REA_ERR_SYNTAX,
		    check_place_at(parse->file, (uint32_t)yaml->mark.line + 1, (uint32_t)yaml->mark.column + 1),
		    "%s near byte %zu: the document must be UTF-8 text", problem, yaml->problem_offset);
	return check_refuse(parse->info, parse->file, REA_ERR_SYNTAX, place, "%s%s%s",
	    yaml->context ? yaml->context : "", yaml->context ? ": " : "", problem);
}

/* NULL: parse->error says why. */
static struct check_node *new_node(struct parse *parse, const yaml_event_t *event, enum check_node_kind kind)
{
	struct check_node *node;

	if (parse->nodes == CHECK_NODES_MAX) {
		parse->error = refuse_mark(parse, REA_ERR_LIMIT, &event->start_mark, "the file has more than 200000 values");
		return NULL;
	}
	parse->nodes++;
	node = check_alloc(parse->check, sizeof(*node));
	if (node == NULL) {
		parse->error = refuse_nomem(parse);
		return NULL;
	}
	node->kind = kind;
	node->line = (uint32_t)event->start_mark.line + 1;
	node->column = (uint32_t)event->start_mark.column + 1;
	node->last_line = node->line;
	node->flow = parse->flow_depth > 0;
	return node;
}

static int remember(struct parse *parse, const unsigned char *name, const struct check_node *node, bool open)
{
	struct anchor *anchor;

	if (name == NULL)
		return 0;
	if (parse->anchors_len == ANCHORS_MAX)
		return refuse_mark(parse, REA_ERR_LIMIT, &parse->yaml.mark, "the file has more than 1000 anchors");
	parse->anchors_len++;
	anchor = check_alloc(parse->check, sizeof(*anchor));
	if (anchor == NULL)
		return refuse_nomem(parse);
	anchor->name = check_copy(parse->check, rea_slice_of((const char *)name));
	if (anchor->name == NULL)
		return refuse_nomem(parse);
	anchor->node = node;
	anchor->open = open;
	anchor->next = parse->anchors;
	parse->anchors = anchor;
	return 0;
}

static void attach(struct parse *parse, struct check_node *node)
{
	struct level *level;

	if (parse->depth == 0) {
		parse->tree->root = node;
		return;
	}
	level = &parse->levels[parse->depth - 1];
	if (level->node->kind == CHECK_MAPPING && level->key == NULL) {
		level->key = node;
		return;
	}
	node->key = level->key;
	level->key = NULL;
	if (level->tail == NULL)
		level->node->first = node;
	else
		level->tail->next = node;
	level->tail = node;
	level->node->length++;
}

static bool awaits_key(const struct parse *parse)
{
	const struct level *level;

	if (parse->depth == 0)
		return false;
	level = &parse->levels[parse->depth - 1];
	return level->node->kind == CHECK_MAPPING && level->key == NULL;
}

static int on_scalar(struct parse *parse, const yaml_event_t *event)
{
	struct rea_slice text = rea_slice_make((const char *)event->data.scalar.value, event->data.scalar.length);
	struct check_node *node;

	if (memchr(text.data, '\0', text.length) != NULL)
		return refuse_mark(parse, REA_ERR_SYNTAX, &event->start_mark, "the text holds a NUL character");
	node = new_node(parse, event, CHECK_SCALAR);
	if (node == NULL)
		return parse->error;
	node->text = check_copy(parse->check, text);
	if (node->text == NULL)
		return refuse_nomem(parse);
	node->length = (uint32_t)text.length;
	node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	/* The end of a block of text is the beginning of the line below it. */
	if (event->end_mark.line > event->start_mark.line)
		node->last_line = (uint32_t)event->end_mark.line + (event->end_mark.column > 0);
	attach(parse, node);
	return remember(parse, event->data.scalar.anchor, node, false);
}

static int on_open(
    struct parse *parse, const yaml_event_t *event, enum check_node_kind kind, const unsigned char *name, bool flow)
{
	struct check_node *node;

	if (awaits_key(parse))
		return refuse_mark(parse, REA_ERR_SYNTAX, &event->start_mark,
		    "a key must be a word or a text, not a list or a mapping");
	if (parse->depth == CHECK_DEPTH_MAX)
		return refuse_mark(
		    parse, REA_ERR_LIMIT, &event->start_mark, "the document is nested more than 64 levels deep");
	parse->flow_depth += flow;
	node = new_node(parse, event, kind);
	if (node == NULL)
		return parse->error;
	attach(parse, node);
	parse->levels[parse->depth++] = (struct level){node, NULL, NULL, flow};
	return remember(parse, name, node, true);
}

static int refuse_double(struct parse *parse, const struct check_node *node, uint32_t first_line)
{
	return check_refuse(parse->info, parse->file, REA_ERR_INVALID, check_key_place(parse->file, node),
	    "the key %s stands here a second time; the first is on line %u",
	    check_shown(parse->check, check_node_text(node->key)), first_line);
}

static int check_doubles(struct parse *parse, const struct check_node *mapping)
{
	struct rea_map lines = {.alloc = parse->check->arena.alloc};
	uint32_t first_line;
	int error = 0;

	if (mapping->length <= FEW_KEYS) {
		for (const struct check_node *node = mapping->first; node != NULL; node = node->next)
			for (const struct check_node *before = mapping->first; before != node; before = before->next)
				if (rea_slice_equal(check_node_text(node->key), check_node_text(before->key)))
					return refuse_double(parse, node, before->key->line);
		return 0;
	}
	if (rea_map_reserve(&lines, mapping->length) != 0)
		return refuse_nomem(parse);
	for (const struct check_node *node = mapping->first; node != NULL && error == 0; node = node->next) {
		if (rea_map_find(&lines, check_node_text(node->key), &first_line))
			error = refuse_double(parse, node, first_line);
		else
			error = rea_map_insert(&lines, check_node_text(node->key), node->key->line);
	}
	rea_map_fini(&lines);
	return error;
}

static uint32_t last_line_of(const struct check_node *node)
{
	const struct check_node *last = node->first;

	while (last != NULL && last->next != NULL)
		last = last->next;
	return last != NULL && last->last_line > node->line ? last->last_line : node->line;
}

static int on_close(struct parse *parse, const yaml_event_t *event)
{
	struct check_node *node = parse->levels[--parse->depth].node;
	bool flow = parse->levels[parse->depth].flow;

	node->flow = node->flow || flow;
	node->last_line = flow ? (uint32_t)event->end_mark.line + 1 : last_line_of(node);
	parse->flow_depth -= flow;
	for (struct anchor *anchor = parse->anchors; anchor != NULL; anchor = anchor->next)
		if (anchor->node == node)
			anchor->open = false;
	return node->kind == CHECK_MAPPING && !parse->duplicates ? check_doubles(parse, node) : 0;
}

/* An alias shares what its anchor holds. */
static int on_alias(struct parse *parse, const yaml_event_t *event)
{
	const char *name = (const char *)event->data.alias.anchor;
	const struct anchor *anchor = parse->anchors;
	struct check_node *node;

	while (anchor != NULL && strcmp(anchor->name, name) != 0)
		anchor = anchor->next;
	if (anchor == NULL)
		return refuse_mark(
		    parse, REA_ERR_SYNTAX, &event->start_mark, "an alias whose anchor stands nowhere before it");
	if (anchor->open)
		return refuse_mark(parse, REA_ERR_SYNTAX, &event->start_mark, "an alias inside of what it stands for");
	if (awaits_key(parse) && anchor->node->kind != CHECK_SCALAR)
		return refuse_mark(parse, REA_ERR_SYNTAX, &event->start_mark,
		    "a key must be a word or a text, not a list or a mapping");
	node = new_node(parse, event, anchor->node->kind);
	if (node == NULL)
		return parse->error;
	node->first = anchor->node->first;
	if (node->kind == CHECK_SCALAR)
		node->text = anchor->node->text;
	node->length = anchor->node->length;
	node->flow = true; /* its children stand elsewhere */
	attach(parse, node);
	return 0;
}

static int on_document(struct parse *parse)
{
	parse->tree = check_alloc(parse->check, sizeof(*parse->tree));
	if (parse->tree == NULL)
		return refuse_nomem(parse);
	*parse->trees_tail = parse->tree;
	parse->trees_tail = &parse->tree->next;
	parse->anchors = NULL;
	parse->depth = parse->flow_depth = 0;
	return 0;
}

static int on_event(struct parse *parse, const yaml_event_t *event)
{
	switch (event->type) {
	case YAML_SCALAR_EVENT:
		return on_scalar(parse, event);
	case YAML_SEQUENCE_START_EVENT:
		return on_open(parse, event, CHECK_SEQUENCE, event->data.sequence_start.anchor,
		    event->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE);
	case YAML_MAPPING_START_EVENT:
		return on_open(parse, event, CHECK_MAPPING, event->data.mapping_start.anchor,
		    event->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		return on_close(parse, event);
	case YAML_ALIAS_EVENT:
		return on_alias(parse, event);
	case YAML_DOCUMENT_START_EVENT:
		return on_document(parse);
	case YAML_NO_EVENT:
	case YAML_STREAM_START_EVENT:
	case YAML_STREAM_END_EVENT:
	case YAML_DOCUMENT_END_EVENT:
		return 0;
	}
	return 0;
}

static int parse_events(struct parse *parse)
{
	yaml_event_type_t type;
	int error;

	do {
		yaml_event_t event;

		if (!yaml_parser_parse(&parse->yaml, &event))
			return refuse_yaml(parse);
		type = event.type;
		error = on_event(parse, &event);
		yaml_event_delete(&event);
	} while (error == 0 && type != YAML_STREAM_END_EVENT);
	return error;
}

int check_tree_parse(struct check *check, const struct check_file *file, bool duplicates, struct check_tree **ret_tree,
    struct rea_error_info *info)
{
	struct parse parse = {.check = check, .file = file, .info = info, .duplicates = duplicates};
	int error;

	parse.trees_tail = &parse.trees;
	if (!yaml_parser_initialize(&parse.yaml))
		return refuse_nomem(&parse);
	yaml_parser_set_encoding(&parse.yaml, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&parse.yaml, (const unsigned char *)file->text.data, file->text.length);
	error = parse_events(&parse);
	yaml_parser_delete(&parse.yaml);
	if (error == 0)
		*ret_tree = parse.trees;
	return error;
}

/* ------------------------------------------------------------------ questions */

/* key: lower case, without '-' and '_'. */
static bool key_is(struct rea_slice written, const char *key)
{
	for (size_t i = 0; i < written.length; i++) {
		if (written.data[i] == '_' || written.data[i] == '-')
			continue;
		if (*key == '\0' || rea_ascii_lower(written.data[i]) != *key)
			return false;
		key++;
	}
	return *key == '\0';
}

const struct check_node *check_node_get(const struct check_node *node, const char *key)
{
	const struct check_node *found = NULL;

	if (node == NULL || node->kind != CHECK_MAPPING)
		return NULL;
	for (const struct check_node *child = node->first; child != NULL; child = child->next)
		if (key_is(check_node_text(child->key), key))
			found = child;
	return found;
}

struct rea_slice check_node_string(const struct check_node *node, const char *key)
{
	const struct check_node *child = check_node_get(node, key);

	return child != NULL && child->kind == CHECK_SCALAR ? check_node_text(child) : rea_slice_make("", 0);
}

bool check_node_is_null(const struct check_node *node)
{
	struct rea_slice text;

	if (node->kind != CHECK_SCALAR || !node->plain)
		return false;
	text = check_node_text(node);
	return text.length == 0 || check_is(text, "~") || check_is(text, "null");
}
