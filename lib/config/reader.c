#include "config/reader.h"

#include <rea/call.h>
#include <rea/time.h>

#include <assert.h>
#include <float.h>
#include <stdio.h>

/* ------------------------------------------------------------------ what a node is */

static const char *describe(const struct rea__node *node, char buffer[REA__QUOTE_SIZE])
{
	if (rea__node_is_null(node))
		return "nothing";
	if (node->kind == REA__SEQUENCE)
		return "a list";
	if (node->kind == REA__MAPPING)
		return "a mapping";
	return rea__quote(rea__node_text(node), buffer);
}

void rea__describe_value(struct rea__reader *reader, const struct rea__node *node, const char *expected, const char *hint)
{
	char quote[REA__QUOTE_SIZE];

	rea__describe_at(
	    reader->info, reader->tree->file, node, "expected %s, got %s%s", expected, describe(node, quote), hint);
}

int rea__expect_text(struct rea__reader *reader, const struct rea__node *node, const char *expected, struct rea_slice *ret_text)
{
	*ret_text = rea_slice_make(NULL, 0);
	if (node->kind != REA__SCALAR || node->length == 0 || rea__node_is_null(node))
		return rea__refuse_value(reader, node, expected, "");
	*ret_text = rea__node_text(node);
	return 0;
}

int rea__expect_mapping(struct rea__reader *reader, const struct rea__node *node, const struct rea__node **ret_first)
{
	if (node->kind != REA__MAPPING && !rea__node_is_null(node))
		return rea__refuse_value(reader, node, "a mapping of keys to values", "");
	*ret_first = node->kind == REA__MAPPING ? node->first : NULL;
	return 0;
}

int rea__expect_sequence(
    struct rea__reader *reader, const struct rea__node *node, const char *expected, const struct rea__node **ret_first)
{
	if (node->kind != REA__SEQUENCE)
		return rea__refuse_value(reader, node, expected, "");
	*ret_first = node->first;
	return 0;
}

int rea__copy_text(struct rea__reader *reader, struct rea_slice text, const char **ret_text)
{
	const char *copy = rea_arena_string(reader->arena, text);

	if (copy == NULL)
		return rea__nomem(reader);
	*ret_text = copy;
	return 0;
}

/* ------------------------------------------------------------------ blocks */

bool rea__key_equal(struct rea_slice key, const char *name)
{
	size_t at = 0;

	/* "max-backoff-ms" or "maxBackoffMs"; a mixture of both is neither. */
	if (rea_slice_equal(key, rea_slice_of(name)))
		return true;
	for (; *name != '\0'; name++, at++) {
		bool capital = *name == '-';

		name += capital;
		if (at == key.length || key.data[at] != (capital && *name >= 'a' && *name <= 'z' ? *name - 'a' + 'A' : *name))
			return false;
	}
	return at == key.length;
}

static const struct rea__field *find_field(const struct rea__block *block, struct rea_slice key)
{
	for (size_t i = 0; i < block->fields_len; i++)
		if (rea__key_equal(key, block->fields[i].name))
			return &block->fields[i];
	return NULL;
}

static int refuse_unknown(struct rea__reader *reader, const struct rea__node *node, const struct rea__block *block)
{
	struct rea__suggest suggest;
	char hint[REA__SUGGEST_SIZE], quote[REA__QUOTE_SIZE];

	rea__suggest_init(&suggest, rea__node_text(node->key));
	for (size_t i = 0; i < block->fields_len; i++)
		rea__suggest_offer(&suggest, block->fields[i].name);
	return rea__refuse_key(reader, node, "%s has no key %s%s", block->name,
	    rea__quote(rea__node_text(node->key), quote), rea__suggest_text(&suggest, hint));
}

int rea__block_read(struct rea__reader *reader, const struct rea__node *node, const struct rea__block *block, void *out,
    const struct rea__node *ret_seen[REA__BLOCK_FIELDS_MAX])
{
	const struct rea__node *seen[REA__BLOCK_FIELDS_MAX] = {NULL}, *child = NULL;
	int error = rea__expect_mapping(reader, node, &child);

	assert(block->fields_len <= REA__BLOCK_FIELDS_MAX);
	for (; error == 0 && child != NULL; child = child->next) {
		const struct rea__field *field = find_field(block, rea__node_text(child->key));
		size_t index;

		if (field == NULL)
			return refuse_unknown(reader, child, block);
		index = (size_t)(field - block->fields);
		if (seen[index] != NULL)
			return rea__refuse_key(reader, child, "%s stands here a second time; the first is on line %u",
			    field->name, seen[index]->key->line);
		seen[index] = child;
		if (reader->lines != NULL && block->lines_at != REA__NO_LINES)
			reader->lines[block->lines_at + index] = child->key->line;
		error = field->type->read(reader, child, field, (char *)out + field->offset);
	}
	if (error == 0 && ret_seen != NULL)
		memcpy(ret_seen, seen, sizeof(seen));
	return error;
}

static int read_block(struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	return rea__block_read(reader, node, field->block, ret_value, NULL);
}

const struct rea__type rea__type_block = {read_block, NULL};

static int read_node(struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	(void)reader;
	(void)field;
	*(const struct rea__node **)ret_value = node;
	return 0;
}

const struct rea__type rea__type_node = {read_node, NULL};

/* ------------------------------------------------------------------ scalars */

static int read_bool(struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	static const struct {
		const char *text;
		const char *hint; /* NULL = is a bool as it stands */
		bool value;
	} words[] = {
	    {"true", NULL, true},
	    {"True", NULL, true},
	    {"TRUE", NULL, true},
	    {"false", NULL, false},
	    {"False", NULL, false},
	    {"FALSE", NULL, false},
	    {"yes", "; did you mean true?", true},
	    {"on", "; did you mean true?", true},
	    {"1", "; did you mean true?", true},
	    {"no", "; did you mean false?", false},
	    {"off", "; did you mean false?", false},
	    {"0", "; did you mean false?", false},
	};
	struct rea_slice text;
	int error = rea__expect_text(reader, node, "true or false", &text);

	(void)field;
	if (error != 0)
		return error;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (words[i].hint == NULL && rea_slice_equal(text, rea_slice_of(words[i].text))) {
			*(bool *)ret_value = words[i].value;
			return 0;
		}
		if (words[i].hint != NULL && rea_slice_equal_nocase(text, rea_slice_of(words[i].text)))
			return rea__refuse_value(reader, node, "true or false", words[i].hint);
	}
	return rea__refuse_value(reader, node, "true or false", "");
}

static void format_bool(const struct rea__field *field, const void *value, struct rea_format *text)
{
	(void)field;
	rea_format_text(text, *(const bool *)value ? "true" : "false");
}

const struct rea__type rea__type_bool = {read_bool, format_bool};

static int refuse_number(struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field,
    const char *kind, const char *hint)
{
	char expected[128], both[REA__SUGGEST_SIZE + 128];
	struct rea_format text;

	rea_format_init(&text, expected, sizeof(expected));
	rea_format_text(&text, kind);
	rea_format_text(&text, field->above_min ? " above " : field->max == DBL_MAX ? " of at least " : " from ");
	rea_format_double(&text, field->min);
	if (field->max < DBL_MAX) {
		rea_format_text(&text, field->above_min ? " and at most " : " to ");
		rea_format_double(&text, field->max);
	}
	snprintf(both, sizeof(both), "%s%s%s", field->note ? "; " : "", field->note ? field->note : "", hint);
	return rea__refuse_value(reader, node, expected, both);
}

/* A number with a unit, where the plain number in milliseconds is meant. */
static const char *guess_unit(struct rea_slice text, char buffer[REA__SUGGEST_SIZE])
{
	static const struct {
		const char *unit;
		uint64_t ms;
	} units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}};
	struct rea_format hint;
	struct rea_slice unit;
	size_t digits = 0;
	uint64_t value;

	rea_format_init(&hint, buffer, REA__SUGGEST_SIZE);
	while (digits < text.length && text.data[digits] >= '0' && text.data[digits] <= '9')
		digits++;
	unit = rea_slice_make(text.data + digits, text.length - digits);
	if (!rea_slice_to_u64(rea_slice_make(text.data, digits), &value) || value > UINT32_MAX)
		return buffer;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (rea_slice_equal_nocase(unit, rea_slice_of(units[i].unit))) {
			rea_format_text(&hint, "; did you mean ");
			rea_format_u64(&hint, value * units[i].ms);
			rea_format_text(&hint, "?");
		}
	return buffer;
}

/* A whole number within the field's bounds. Leading zeros are refused: YAML 1.1 reads them as octal, YAML 1.2 does
 * not. */
static int read_whole(struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field,
    bool time, uint64_t *ret_value)
{
	struct rea_slice text;
	char hint[REA__SUGGEST_SIZE] = "";
	uint64_t value;

	if (node->kind != REA__SCALAR)
		return refuse_number(reader, node, field, "a whole number", "");
	text = rea__node_text(node);
	if (!rea_slice_to_u64(text, &value) || (text.length > 1 && text.data[0] == '0'))
		return refuse_number(reader, node, field, "a whole number", time ? guess_unit(text, hint) : "");
	if ((double)value < field->min || (double)value > field->max)
		return refuse_number(reader, node, field, "a whole number", "");
	*ret_value = value;
	return 0;
}

static int read_u32(struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	size_t length = strlen(field->name);
	bool time = length > 3 && strcmp(field->name + length - 3, "-ms") == 0;
	uint64_t value = 0;
	int error = read_whole(reader, node, field, time, &value);

	if (error == 0)
		*(uint32_t *)ret_value = (uint32_t)value;
	return error;
}

void rea__format_u32(const struct rea__field *field, const void *value, struct rea_format *text)
{
	(void)field;
	rea_format_u64(text, *(const uint32_t *)value);
}

const struct rea__type rea__type_u32 = {read_u32, rea__format_u32};

static int read_ms(struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	uint64_t value = 0;
	int error = read_whole(reader, node, field, true, &value);

	if (error == 0)
		*(uint64_t *)ret_value = rea_time_from_ms(value);
	return error;
}

static void format_ms(const struct rea__field *field, const void *value, struct rea_format *text)
{
	(void)field;
	rea_format_u64(text, rea_time_to_ms(*(const uint64_t *)value));
}

const struct rea__type rea__type_ms = {read_ms, format_ms};

/* Digits with at most one point, at most 15 in all: such a number is exact after one division. */
static bool parse_decimal(struct rea_slice text, double *ret_value)
{
	uint64_t digits = 0, scale = 1;
	size_t count = 0;
	bool point = false;

	for (size_t i = 0; i < text.length; i++) {
		char c = text.data[i];

		if (c == '.' && !point && i > 0 && i + 1 < text.length) {
			point = true;
			continue;
		}
		if (c < '0' || c > '9' || ++count > 15)
			return false;
		digits = digits * 10 + (uint64_t)(c - '0');
		scale *= point ? 10 : 1;
	}
	*ret_value = (double)digits / (double)scale;
	return count > 0;
}

/* A percentage where a share is meant. */
static const char *guess_share(struct rea_slice text, const struct rea__field *field, char buffer[REA__SUGGEST_SIZE])
{
	double percent;
	struct rea_format hint;

	rea_format_init(&hint, buffer, REA__SUGGEST_SIZE);
	if (field->max == 1 && text.length > 1 && text.data[text.length - 1] == '%' &&
	    parse_decimal(rea_slice_make(text.data, text.length - 1), &percent) && percent <= 100) {
		rea_format_text(&hint, "; did you mean ");
		rea_format_double(&hint, percent / 100);
		rea_format_text(&hint, "?");
	}
	return buffer;
}

static int read_double(struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	char hint[REA__SUGGEST_SIZE];
	double value;

	if (node->kind != REA__SCALAR)
		return refuse_number(reader, node, field, "a number", "");
	if (!parse_decimal(rea__node_text(node), &value))
		return refuse_number(reader, node, field, "a number", guess_share(rea__node_text(node), field, hint));
	if (value < field->min || value > field->max || (field->above_min && value == field->min))
		return refuse_number(reader, node, field, "a number", "");
	*(double *)ret_value = value;
	return 0;
}

static void format_double(const struct rea__field *field, const void *value, struct rea_format *text)
{
	(void)field;
	rea_format_double(text, *(const double *)value);
}

const struct rea__type rea__type_double = {read_double, format_double};

static int refuse_choice(struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field)
{
	struct rea__suggest suggest;
	char expected[160], hint[REA__SUGGEST_SIZE] = "";
	struct rea_format text;

	rea_format_init(&text, expected, sizeof(expected));
	rea__suggest_init(&suggest, node->kind == REA__SCALAR ? rea__node_text(node) : rea_slice_make(NULL, 0));
	for (const struct rea__choice *choice = field->choices; choice->name != NULL; choice++) {
		if (choice != field->choices)
			rea_format_text(&text, choice[1].name == NULL ? " or " : ", ");
		rea_format_text(&text, choice->name);
		rea__suggest_offer(&suggest, choice->name);
	}
	return rea__refuse_value(reader, node, expected, rea__suggest_text(&suggest, hint));
}

static int read_choice(struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	if (node->kind == REA__SCALAR)
		for (const struct rea__choice *choice = field->choices; choice->name != NULL; choice++)
			if (rea_slice_equal(rea__node_text(node), rea_slice_of(choice->name))) {
				memcpy(ret_value, &choice->value, sizeof(choice->value));
				return 0;
			}
	return refuse_choice(reader, node, field);
}

static void format_choice(const struct rea__field *field, const void *value, struct rea_format *text)
{
	for (const struct rea__choice *choice = field->choices; choice->name != NULL; choice++)
		if (memcmp(value, &choice->value, sizeof(choice->value)) == 0) {
			rea_format_text(text, choice->name);
			return;
		}
}

const struct rea__type rea__type_choice = {read_choice, format_choice};

static int read_text(struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	struct rea_slice text;
	int error = rea__expect_text(reader, node, field->note ? field->note : "a text", &text);

	return error ? error : rea__copy_text(reader, text, ret_value);
}

void rea__format_text(const struct rea__field *field, const void *value, struct rea_format *text)
{
	const char *const *words = value;

	(void)field;
	rea_format_text(text, *words ? *words : "");
}

const struct rea__type rea__type_text = {read_text, rea__format_text};

/* ------------------------------------------------------------------ addresses */

static bool is_name_character(char c)
{
	c = rea_ascii_lower(c);
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

/* The text with a port put behind it is an "ip:port". */
static bool is_numeric(struct rea_slice host)
{
	char address[64];
	struct rea_instance_id id;
	int length;

	if (host.length > 48)
		return false;
	length = snprintf(address, sizeof(address), "%.*s:1", (int)host.length, host.data);
	return rea_instance_id_parse(address, (size_t)length, &id);
}

bool rea__is_host(struct rea_slice text)
{
	bool letters = false;

	if (text.length == 0 || text.length > 253)
		return false;
	if (is_numeric(text))
		return true;
	for (size_t i = 0; i < text.length; i++) {
		if (!is_name_character(text.data[i]) || (text.data[i] == '.' && (i == 0 || text.data[i - 1] == '.')))
			return false;
		letters = letters || (text.data[i] != '.' && (text.data[i] < '0' || text.data[i] > '9'));
	}
	return letters; /* digits and dots alone are a mistyped address */
}

/* The part before the last colon and the number after it. */
static bool split_port(struct rea_slice text, struct rea_slice *ret_host, uint64_t *ret_port)
{
	size_t colon = text.length;

	while (colon > 0 && text.data[colon - 1] != ':')
		colon--;
	if (colon == 0)
		return false;
	*ret_host = rea_slice_make(text.data, colon - 1);
	return rea_slice_to_u64(rea_slice_make(text.data + colon, text.length - colon), ret_port) && *ret_port <= UINT16_MAX;
}

bool rea__is_host_port(struct rea_slice text)
{
	struct rea_slice host;
	uint64_t port;

	return split_port(text, &host, &port) && port > 0 && rea__is_host(host);
}

static int read_address(
    struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	static const char expected[] = "an address and a port such as 127.0.0.1:7070 or [::1]:7070";
	struct rea_slice text, host = {NULL, 0};
	uint64_t port;
	int error = rea__expect_text(reader, node, expected, &text);

	(void)field;
	if (error != 0)
		return error;
	if (!split_port(text, &host, &port) || !is_numeric(host))
		return rea__refuse_value(reader, node, expected,
		    rea_slice_equal(host, REA_SLICE_LIT("localhost"))
			? "; names are not looked up here: did you mean 127.0.0.1?"
			: "");
	return rea__copy_text(reader, text, ret_value);
}

const struct rea__type rea__type_address = {read_address, rea__format_text};
