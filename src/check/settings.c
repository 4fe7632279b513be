#include "check/settings.h"

#include "check/rea.h"
#include "check/tree.h"

#include <stdio.h>
#include <stdlib.h>

#define PLACEHOLDER_DEPTH_MAX 8
#define PLACEHOLDERS_MAX 100
#define MERGES_MAX 64
#define EXPRESSION_DEPTH_MAX 16
#define TEXT_MAX 4096

/* ------------------------------------------------------------------ keys */

static bool is_number(struct rea_slice text)
{
	uint64_t value;

	return rea_slice_to_u64(text, &value);
}

/* An element of a written key. `[0]` belongs to the element before it. */
static bool next_element(struct rea_slice *rest, struct rea_slice *ret_element, bool *ret_index)
{
	size_t at = 0;

	*ret_index = false;
	while (rest->length > 0 && (rest->data[0] == '.' || rest->data[0] == ']'))
		*rest = rea_slice_make(rest->data + 1, rest->length - 1);
	if (rest->length == 0)
		return false;
	if (rest->data[0] == '[') {
		const char *end = memchr(rest->data, ']', rest->length);
		size_t length = end ? (size_t)(end - rest->data) : rest->length;

		*ret_element = rea_slice_make(rest->data + 1, length - 1);
		*ret_index = is_number(*ret_element);
		*rest = rea_slice_make(rest->data + length, rest->length - length);
		return true;
	}
	while (at < rest->length && rest->data[at] != '.' && rest->data[at] != '[')
		at++;
	*ret_element = rea_slice_make(rest->data, at);
	*rest = rea_slice_make(rest->data + at, rest->length - at);
	return true;
}

static void put(char *text, size_t *at, char c)
{
	if (*at + 1 < CHECK_KEY_MAX)
		text[(*at)++] = c;
}

static void put_element(char *text, size_t *at, struct rea_slice element)
{
	for (size_t i = 0; i < element.length; i++)
		if (element.data[i] != '-' && element.data[i] != '_')
			put(text, at, element.data[i] == '.' ? '\1' : rea_ascii_lower(element.data[i]));
}

/* Returns a text of its own. */
static const char *canonical_key(struct check *check, struct rea_slice written)
{
	char text[CHECK_KEY_MAX];
	struct rea_slice element;
	size_t at = 0;
	bool index;

	while (next_element(&written, &element, &index)) {
		if (index) {
			put(text, &at, '[');
			put_element(text, &at, element);
			put(text, &at, ']');
			continue;
		}
		if (at > 0)
			put(text, &at, '.');
		put_element(text, &at, element);
	}
	return check_copy(check, rea_slice_make(text, at));
}

/* '*' in the pattern becomes the name, in its canonical form. */
static void fill_pattern(const char *pattern, const char *name, char ret_key[CHECK_KEY_MAX])
{
	size_t at = 0;

	for (; *pattern != '\0'; pattern++) {
		if (*pattern == '*' && name != NULL)
			put_element(ret_key, &at, rea_slice_of(name));
		else if (*pattern != '*')
			put(ret_key, &at, *pattern);
	}
	ret_key[at] = '\0';
}

/* ------------------------------------------------------------------ documents */

static struct check_document *new_document(
    struct check *check, struct check_file *file, const char *file_profile, bool properties)
{
	struct check_document *document = check_alloc(check, sizeof(*document));

	if (document == NULL)
		return NULL;
	document->file = file;
	document->file_profile = file_profile;
	document->on_profile = "";
	document->properties = properties;
	document->settings_tail = &document->settings;
	*file->app->documents_tail = document;
	file->app->documents_tail = &document->next;
	return document;
}

static struct check_setting *add_setting(
    struct check *check, struct check_document *document, struct rea_slice written, const char *value, size_t order)
{
	struct check_setting *setting = check_alloc(check, sizeof(*setting));

	if (setting == NULL)
		return NULL;
	setting->key = canonical_key(check, written);
	setting->written = check_shown(check, written);
	setting->value = value;
	setting->document = document;
	setting->order = order;
	if (setting->key == NULL || value == NULL)
		return NULL;
	*document->settings_tail = setting;
	document->settings_tail = &setting->next;
	document->settings_len++;
	if (strcmp(setting->key, "spring.config.activate.onprofile") == 0 || strcmp(setting->key, "spring.profiles") == 0)
		document->on_profile = value;
	return setting;
}

static int refuse_nomem(struct check *check, const struct check_file *file, struct rea_error_info *info)
{
	check->error = REA_ERR_NOMEM;
	return check_refuse(info, file, REA_ERR_NOMEM, check_place_at(file, 0, 0), "%s", rea_error_text(REA_ERR_NOMEM));
}

/* ------------------------------------------------------------------ YAML */

struct flatten {
	struct check *check;
	struct check_file *file;
	struct check_document *document;
	struct rea_error_info *info;
	char path[CHECK_KEY_MAX];
	size_t count;
	size_t depth;
};

static int flatten(struct flatten *work, const struct check_node *node, size_t length);

static int refuse_flatten(struct flatten *work, const struct check_node *node, const char *message)
{
	return check_refuse(work->info, work->file, REA_ERR_LIMIT, check_node_place(work->file, node), "%s", message);
}

static int flatten_scalar(struct flatten *work, const struct check_node *node, size_t length)
{
	struct check_setting *setting;

	/* `key:` alone sets nothing; so does what is left where everything below a key was commented out. */
	if (check_node_is_null(node))
		return 0;
	if (work->count == CHECK_SETTINGS_MAX)
		return refuse_flatten(work, node, "the file has more than 100000 settings");
	setting = add_setting(work->check, work->document, rea_slice_make(work->path, length),
	    node->kind != CHECK_SCALAR ? "" : node->text, work->count++);
	if (setting == NULL)
		return refuse_nomem(work->check, work->file, work->info);
	setting->place = check_key_place(work->file, node);
	setting->value_place = check_node_place(work->file, node);
	setting->last_line = node->last_line;
	setting->flow = node->flow || (node->key != NULL && node->key->flow);
	return 0;
}

/* "<<" stands for the keys of others: of a list of them, the first one that has a key gives it. The mapping's own come last and win. */
static bool is_merge(const struct check_node *node)
{
	return node->key != NULL && node->key->plain &&
	       rea_slice_equal(check_node_text(node->key), REA_SLICE_LIT("<<")) && node->kind != CHECK_SCALAR;
}

static int flatten_merges(struct flatten *work, const struct check_node *mapping, size_t length)
{
	int error = 0;

	for (const struct check_node *child = mapping->first; child != NULL && error == 0; child = child->next) {
		if (!is_merge(child))
			continue;
		if (child->kind == CHECK_MAPPING)
			error = flatten(work, child, length);
		else if (child->length > MERGES_MAX)
			error = refuse_flatten(work, child, "more than 64 mappings are merged");
		for (uint32_t index = child->kind == CHECK_SEQUENCE ? child->length : 0; index > 0 && error == 0; index--) {
			const struct check_node *item = child->first;

			for (uint32_t i = 1; i < index; i++)
				item = item->next;
			if (item->kind == CHECK_MAPPING)
				error = flatten(work, item, length);
		}
	}
	return error;
}

static int flatten_child(struct flatten *work, const struct check_node *child, size_t length, size_t index)
{
	int written;

	if (child->key != NULL)
		written = snprintf(work->path + length, CHECK_KEY_MAX - length, "%s%s",
		    length > 0 && child->key->text[0] != '[' ? "." : "", child->key->text);
	else
		written = snprintf(work->path + length, CHECK_KEY_MAX - length, "[%zu]", index);
	if (written < 0 || (size_t)written >= CHECK_KEY_MAX - length)
		return refuse_flatten(work, child, "a key of more than 500 bytes");
	return flatten(work, child, length + (size_t)written);
}

static int flatten(struct flatten *work, const struct check_node *node, size_t length)
{
	size_t index = 0;
	int error;

	if (node->kind == CHECK_SCALAR || (node->first == NULL && length > 0))
		return flatten_scalar(work, node, length);
	if (work->depth == CHECK_DEPTH_MAX)
		return refuse_flatten(work, node, "the document is nested more than 64 levels deep");
	work->depth++;
	error = node->kind == CHECK_MAPPING ? flatten_merges(work, node, length) : 0;
	for (const struct check_node *child = node->first; child != NULL && error == 0; child = child->next)
		if (!is_merge(child))
			error = flatten_child(work, child, length, index++);
	work->depth--;
	return error;
}

int check_settings_yaml(struct check *check, struct check_file *file, const char *file_profile, struct rea_error_info *info)
{
	struct flatten work = {.check = check, .file = file, .info = info};
	struct check_tree *trees = NULL;
	int error = check_tree_parse(check, file, false, &trees, info);

	for (struct check_tree *tree = trees; tree != NULL && error == 0; tree = tree->next) {
		if (tree->root == NULL || check_node_is_null(tree->root))
			continue;
		if (tree->root->kind != CHECK_MAPPING)
			return check_refuse(info, file, REA_ERR_INVALID, check_node_place(file, tree->root),
			    "expected a mapping of keys to values at the top of the document");
		work.document = new_document(check, file, file_profile, false);
		if (work.document == NULL)
			return refuse_nomem(check, file, info);
		error = flatten(&work, tree->root, 0);
	}
	if (error == 0 && check_rea_block(check, file, trees) != 0)
		return refuse_nomem(check, file, info);
	return error;
}

/* ------------------------------------------------------------------ .properties */

struct lines {
	struct check *check;
	struct check_file *file;
	struct rea_error_info *info;
	const char *at;
	const char *end;
	const char *line_start;
	uint32_t line;
};

/* Columns count characters, as YAML's do. */
static struct check_place place_of(const struct lines *lines, const char *at)
{
	uint32_t column = 1;

	for (const char *c = lines->line_start; c < at; c++)
		column += ((unsigned char)*c & 0xc0) != 0x80;
	return check_place_at(lines->file, lines->line, column);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\f';
}

static bool is_break(char c)
{
	return c == '\n' || c == '\r';
}

static void skip_break(struct lines *lines)
{
	if (lines->at < lines->end && *lines->at == '\r')
		lines->at++;
	if (lines->at < lines->end && *lines->at == '\n')
		lines->at++;
	lines->line++;
	lines->line_start = lines->at;
}

static void skip_blanks(struct lines *lines)
{
	while (lines->at < lines->end && is_blank(*lines->at))
		lines->at++;
}

/* A backslash at the end of a line joins the next one to it. */
static bool skip_joint(struct lines *lines)
{
	if (lines->end - lines->at < 2 || lines->at[0] != '\\' || !is_break(lines->at[1]))
		return false;
	lines->at++;
	skip_break(lines);
	skip_blanks(lines);
	return true;
}

/* Blanks and joints. */
static void skip_space(struct lines *lines)
{
	do
		skip_blanks(lines);
	while (skip_joint(lines));
}

static int read_unicode(struct lines *lines, char *text, size_t *at)
{
	static const char digits[] = "0123456789abcdef";
	uint32_t code = 0;

	for (int i = 0; i < 4; i++) {
		char c = lines->at < lines->end ? rea_ascii_lower(*lines->at) : '\0';

		if (!check_is_one_of(c, digits))
			return check_refuse(lines->info, lines->file, REA_ERR_SYNTAX, place_of(lines, lines->at),
			    "\\u needs four hexadecimal digits");
		code = code * 16 + (uint32_t)(strchr(digits, c) - digits);
		lines->at++;
	}
	/* No setting that matters here has such a character in it. */
	text[(*at)++] = code >= 0x20 && code < 0x7f ? (char)code : '?';
	return 0;
}

static int read_escape(struct lines *lines, char *text, size_t *at)
{
	char c;

	if (++lines->at == lines->end)
		return 0;
	c = *lines->at++;
	if (c == 'u')
		return read_unicode(lines, text, at);
	text[(*at)++] = c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c == 'f' ? '\f' : c;
	return 0;
}

/* Up to the end of the logical line, or of the key. text: has room for what is left of the file. */
static int read_text(struct lines *lines, bool key, char *text, size_t *ret_length)
{
	size_t at = 0;
	int error = 0;

	while (lines->at < lines->end && !is_break(*lines->at) && error == 0) {
		char c = *lines->at;

		if (skip_joint(lines))
			continue;
		if (c == '\\') {
			error = read_escape(lines, text, &at);
			continue;
		}
		if (key && (c == '=' || c == ':' || is_blank(c)))
			break;
		text[at++] = c;
		lines->at++;
	}
	*ret_length = at;
	return error;
}

static bool is_separator(const struct lines *lines)
{
	struct rea_slice line;
	const char *end = lines->at;

	while (end < lines->end && !is_break(*end))
		end++;
	line = rea_slice_make(lines->at, (size_t)(end - lines->at));
	return lines->at == lines->line_start && line.length >= 4 && (line.data[0] == '#' || line.data[0] == '!') &&
	       rea_slice_equal(check_trim(rea_slice_make(line.data + 1, line.length - 1)), REA_SLICE_LIT("---")) &&
	       line.data[1] == '-';
}

static int read_property(struct lines *lines, struct check_document *document, char *room, size_t order)
{
	struct check_setting *setting;
	struct check_place place = place_of(lines, lines->at), value_place;
	size_t key_length = 0, value_length = 0;
	int error = read_text(lines, true, room, &key_length);

	if (error != 0)
		return error;
	if (key_length >= CHECK_KEY_MAX)
		return check_refuse(lines->info, lines->file, REA_ERR_LIMIT, place, "a key of more than 500 bytes");
	skip_space(lines);
	if (lines->at < lines->end && (*lines->at == '=' || *lines->at == ':'))
		lines->at++;
	skip_space(lines);
	value_place = place_of(lines, lines->at);
	error = read_text(lines, false, room + key_length, &value_length);
	if (error != 0)
		return error;
	setting = add_setting(lines->check, document, rea_slice_make(room, key_length),
	    check_copy(lines->check, check_trim(rea_slice_make(room + key_length, value_length))), order);
	if (setting == NULL)
		return refuse_nomem(lines->check, lines->file, lines->info);
	setting->place = place;
	setting->value_place = value_place;
	setting->last_line = lines->line;
	return 0;
}

int check_settings_properties(
    struct check *check, struct check_file *file, const char *file_profile, struct rea_error_info *info)
{
	struct lines lines = {
	    .check = check, .file = file, .info = info, .at = file->text.data, .line_start = file->text.data, .line = 1};
	struct check_document *document = new_document(check, file, file_profile, true);
	char *room = check_alloc(check, file->text.length + 1);
	size_t order = 0;
	int error = 0;

	if (document == NULL || room == NULL)
		return refuse_nomem(check, file, info);
	lines.end = lines.at + file->text.length;
	if (memchr(lines.at, '\0', file->text.length) != NULL)
		return check_refuse(info, file, REA_ERR_SYNTAX, check_place_at(file, 0, 0), "the file holds a NUL character");
	while (lines.at < lines.end && error == 0) {
		if (is_separator(&lines)) {
			document = new_document(check, file, file_profile, true);
			if (document == NULL)
				return refuse_nomem(check, file, info);
		}
		skip_blanks(&lines);
		if (lines.at < lines.end && (*lines.at == '#' || *lines.at == '!'))
			while (lines.at < lines.end && !is_break(*lines.at))
				lines.at++;
		else if (lines.at < lines.end && !is_break(*lines.at)) {
			if (order == CHECK_SETTINGS_MAX)
				return check_refuse(info, file, REA_ERR_LIMIT, place_of(&lines, lines.at),
				    "the file has more than 100000 settings");
			error = read_property(&lines, document, room, order++);
		}
		if (lines.at < lines.end && is_break(*lines.at))
			skip_break(&lines);
	}
	return error;
}

/* ------------------------------------------------------------------ profiles */

static bool has_profile(const char *profiles, struct rea_slice name)
{
	struct rea_slice rest = rea_slice_of(profiles), word;

	if (*profiles == '\0')
		return rea_slice_equal(name, REA_SLICE_LIT("default"));
	while (check_word(&rest, ", ", &word))
		if (rea_slice_equal(word, name))
			return true;
	return false;
}

static void skip_spaces(const char **at)
{
	while (is_blank(**at))
		(*at)++;
}

static bool match_or(const char **at, const char *profiles, int depth);

static bool match_one(const char **at, const char *profiles, int depth)
{
	const char *start;
	bool result;

	skip_spaces(at);
	if (depth > EXPRESSION_DEPTH_MAX)
		return false;
	if (**at == '!') {
		(*at)++;
		return !match_one(at, profiles, depth + 1);
	}
	if (**at == '(') {
		(*at)++;
		result = match_or(at, profiles, depth + 1);
		skip_spaces(at);
		if (**at == ')')
			(*at)++;
		return result;
	}
	for (start = *at; **at != '\0' && strchr("!()&| \t", **at) == NULL; (*at)++)
		;
	return has_profile(profiles, rea_slice_make(start, (size_t)(*at - start)));
}

static bool match_and(const char **at, const char *profiles, int depth)
{
	bool result = match_one(at, profiles, depth);

	for (skip_spaces(at); **at == '&'; skip_spaces(at)) {
		bool next;

		(*at)++;
		next = match_one(at, profiles, depth);
		result = result && next;
	}
	return result;
}

static bool match_or(const char **at, const char *profiles, int depth)
{
	bool result = match_and(at, profiles, depth);

	for (skip_spaces(at); **at == '|'; skip_spaces(at)) {
		bool next;

		(*at)++;
		next = match_and(at, profiles, depth);
		result = result || next;
	}
	return result;
}

bool check_profile_matches(const char *expression, const char *profiles)
{
	struct rea_slice rest = rea_slice_of(expression), word;
	char text[TEXT_MAX];
	const char *at;

	while (check_word(&rest, ",", &word)) {
		snprintf(text, sizeof(text), "%.*s", (int)(word.length < sizeof(text) ? word.length : sizeof(text) - 1),
		    word.data);
		at = text;
		if (match_or(&at, profiles, 0))
			return true;
	}
	return false;
}

static bool is_active(const struct check_document *document, const char *profiles)
{
	/* A file that turned out to be broken counts as a whole for nothing. */
	if (document->file->app == NULL)
		return false;
	if (document->file_profile[0] != '\0' && !has_profile(profiles, rea_slice_of(document->file_profile)))
		return false;
	return document->on_profile[0] == '\0' || check_profile_matches(document->on_profile, profiles);
}

/* ------------------------------------------------------------------ a view */

/* A profile's file is stronger than the plain one, and .properties than .yml. */
static int strength(const struct check_document *document)
{
	return 2 * (document->file_profile[0] != '\0') + document->properties;
}

static int by_key(const void *left, const void *right)
{
	const struct check_setting *a = *(const struct check_setting *const *)left,
				   *b = *(const struct check_setting *const *)right;
	int order = strcmp(a->key, b->key);

	return order != 0 ? order : a->order < b->order ? -1 : a->order > b->order;
}

static void collect(const struct check_app *app, struct check_view *view)
{
	size_t order = 0;

	for (int pass = 0; pass < 4; pass++)
		for (const struct check_document *document = app->documents; document != NULL; document = document->next) {
			if (strength(document) != pass || !is_active(document, view->profiles))
				continue;
			view->documents[view->documents_len++] = document;
			for (struct check_setting *setting = document->settings; setting != NULL; setting = setting->next) {
				setting->order = order++;
				view->settings[view->settings_len++] = setting;
			}
		}
}

bool check_view_make(struct check *check, const struct check_app *app, const char *profiles, struct check_view *ret_view)
{
	size_t settings = 0, documents = 0;
	struct check_view view = {.profiles = profiles};

	for (const struct check_document *document = app->documents; document != NULL; document = document->next) {
		settings += document->settings_len;
		documents++;
	}
	view.settings = check_alloc(check, (settings + 1) * sizeof(struct check_setting *));
	view.documents = check_alloc(check, (documents + 1) * sizeof(struct check_document *));
	if (view.settings == NULL || view.documents == NULL)
		return false;
	collect(app, &view);
	qsort(view.settings, view.settings_len, sizeof(struct check_setting *), by_key);
	*ret_view = view;
	return true;
}

/* Index of the first setting whose key is not before this one. */
static size_t lower_bound(const struct check_view *view, const char *key)
{
	size_t low = 0, high = view->settings_len;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(view->settings[middle]->key, key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static const struct check_setting *get(const struct check_view *view, const char *key)
{
	const struct check_setting *found = NULL;

	for (size_t i = lower_bound(view, key); i < view->settings_len && strcmp(view->settings[i]->key, key) == 0; i++)
		found = view->settings[i];
	return found;
}

const struct check_setting *check_view_get(const struct check_view *view, const char *pattern, const char *name)
{
	char key[CHECK_KEY_MAX];

	fill_pattern(pattern, name, key);
	return get(view, key);
}

const struct check_setting *check_view_below(const struct check_view *view, const char *pattern, const char *name)
{
	char key[CHECK_KEY_MAX];
	size_t length, i;

	fill_pattern(pattern, name, key);
	length = strlen(key);
	for (i = lower_bound(view, key); i < view->settings_len && strncmp(view->settings[i]->key, key, length) == 0; i++)
		if (view->settings[i]->key[length] == '\0' || view->settings[i]->key[length] == '.' ||
		    view->settings[i]->key[length] == '[')
			return view->settings[i];
	return NULL;
}

const struct check_setting *const *check_view_all_below(
    const struct check_view *view, const char *pattern, const char *name, size_t *ret_count)
{
	char key[CHECK_KEY_MAX];
	size_t length, start, end;

	fill_pattern(pattern, name, key);
	length = strlen(key);
	start = end = lower_bound(view, key);
	while (end < view->settings_len && strncmp(view->settings[end]->key, key, length) == 0 &&
	       (view->settings[end]->key[length] == '\0' || view->settings[end]->key[length] == '.' ||
		   view->settings[end]->key[length] == '['))
		end++;
	*ret_count = end - start;
	return view->settings + start;
}

/* The element of a written key with that many elements before it. */
static struct rea_slice element_at(const char *written, size_t index)
{
	struct rea_slice rest = rea_slice_of(written), element = {NULL, 0};
	bool is_index;

	while (next_element(&rest, &element, &is_index))
		if (!is_index && index-- == 0)
			break;
	return element;
}

size_t check_view_names(
    struct check *check, const struct check_view *view, const char *pattern, const char **ret_names, size_t names_max)
{
	char prefix[CHECK_KEY_MAX];
	const char *last = NULL;
	size_t length, elements = 0, last_length = 0, count = 0;

	fill_pattern(pattern, NULL, prefix);
	length = strlen(prefix);
	for (const char *c = prefix; *c != '\0'; c++)
		elements += *c == '.';
	for (size_t i = lower_bound(view, prefix);
	     i < view->settings_len && count < names_max && strncmp(view->settings[i]->key, prefix, length) == 0; i++) {
		const char *name = view->settings[i]->key + length;
		size_t name_length = strcspn(name, ".[");

		if (name_length == 0 || (last != NULL && last_length == name_length && memcmp(last, name, name_length) == 0))
			continue;
		last = name;
		last_length = name_length;
		ret_names[count] = check_copy(check, element_at(view->settings[i]->written, elements));
		if (ret_names[count] == NULL)
			return count;
		count++;
	}
	return count;
}

size_t check_view_list(struct check *check, const struct check_view *view, const char *pattern, const char *name,
    struct check_setting ret_items[CHECK_LIST_MAX])
{
	char key[CHECK_KEY_MAX], item_key[CHECK_KEY_MAX + 24];
	const struct check_setting *whole, *first;
	const char *text;
	struct rea_slice rest, word;
	size_t count = 0;

	fill_pattern(pattern, name, key);
	whole = get(view, key);
	snprintf(item_key, sizeof(item_key), "%s[0]", key);
	first = get(view, item_key);
	if (first != NULL && (whole == NULL || first->order > whole->order)) {
		/* A list is taken whole from the document that counts. */
		for (const struct check_setting *item = first; item != NULL && count < CHECK_LIST_MAX;) {
			if (item->document == first->document)
				ret_items[count++] = *item;
			snprintf(item_key, sizeof(item_key), "%s[%zu]", key, count);
			item = get(view, item_key);
			if (item != NULL && item->document != first->document)
				break;
		}
		return count;
	}
	text = whole ? check_view_resolve(check, view, whole->value) : NULL;
	if (text == NULL)
		return 0;
	for (rest = rea_slice_of(text); count < CHECK_LIST_MAX && check_word(&rest, ",", &word);) {
		struct check_setting *item = &ret_items[count];

		*item = *whole;
		item->value = check_copy(check, check_trim(word));
		if (text == whole->value)
			item->value_place.column += (uint32_t)(check_trim(word).data - text);
		if (item->value == NULL)
			return count;
		count += item->value[0] != '\0';
	}
	return count;
}

/* ------------------------------------------------------------------ placeholders */

struct resolver {
	struct check *check;
	const struct check_view *view;
	size_t left; /* placeholders that may still be put in: each may stand for many others */
};

static const char *resolve(struct resolver *resolver, const char *value, int depth);

/* The end of the placeholder that begins at `at` ("${"): its "}", or NULL. */
static const char *placeholder_end(const char *at)
{
	int depth = 0;

	for (; *at != '\0'; at++) {
		if (at[0] == '$' && at[1] == '{') {
			depth++;
			at++;
		} else if (*at == '}' && --depth == 0) {
			return at;
		}
	}
	return NULL;
}

static const char *resolve_one(struct resolver *resolver, struct rea_slice inside, int depth)
{
	const char *colon = memchr(inside.data, ':', inside.length);
	struct rea_slice name = rea_slice_make(inside.data, colon ? (size_t)(colon - inside.data) : inside.length);
	const char *key, *rest;
	const struct check_setting *setting;

	if (resolver->left == 0)
		return NULL;
	resolver->left--;
	key = canonical_key(resolver->check, check_trim(name));
	setting = key ? get(resolver->view, key) : NULL;
	if (setting != NULL)
		return resolve(resolver, setting->value, depth + 1);
	if (colon == NULL)
		return NULL;
	rest = check_copy(resolver->check, rea_slice_make(colon + 1, inside.length - name.length - 1));
	return rest ? resolve(resolver, rest, depth + 1) : NULL;
}

static const char *resolve(struct resolver *resolver, const char *value, int depth)
{
	char text[TEXT_MAX];
	const char *at = value, *mark;
	size_t length = 0;

	if (strstr(value, "${") == NULL)
		return value;
	if (depth > PLACEHOLDER_DEPTH_MAX)
		return NULL;
	while ((mark = strstr(at, "${")) != NULL) {
		const char *end = placeholder_end(mark), *inner;
		int written;

		if (end == NULL)
			break;
		inner = resolve_one(resolver, rea_slice_make(mark + 2, (size_t)(end - mark) - 2), depth);
		if (inner == NULL)
			return NULL;
		written = snprintf(text + length, sizeof(text) - length, "%.*s%s", (int)(mark - at), at, inner);
		if (written < 0 || (size_t)written >= sizeof(text) - length)
			return NULL;
		length += (size_t)written;
		at = end + 1;
	}
	return check_text(resolver->check, "%.*s%s", (int)length, text, at);
}

const char *check_view_resolve(struct check *check, const struct check_view *view, const char *value)
{
	struct resolver resolver = {check, view, PLACEHOLDERS_MAX};

	return resolve(&resolver, value, 0);
}
