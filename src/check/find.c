/* Findings, and the corrections that go with them. */
#include "check/model.h"

#include <assert.h>

static const struct check_rule *rule_of(const char *id)
{
	const struct check_rule *rule = check_rules;

	while (strcmp(rule->id, id) != 0)
		rule++;
	assert(rule < check_rules + check_rules_len);
	return rule;
}

static size_t file_index(const struct check_finding *finding)
{
	return finding->place.file->index;
}

/* By place, then by rule. */
static bool is_before(const struct check_finding *a, const struct check_finding *b)
{
	if (file_index(a) != file_index(b))
		return file_index(a) < file_index(b);
	if (a->place.line != b->place.line)
		return a->place.line < b->place.line;
	if (a->place.column != b->place.column)
		return a->place.column < b->place.column;
	return a->rule < b->rule;
}

static bool is_same(const struct check_finding *a, const struct check_finding *b)
{
	return a->rule == b->rule && file_index(a) == file_index(b) && a->place.line == b->place.line &&
	       a->place.column == b->place.column && strcmp(a->message, b->message) == 0;
}

struct check_finding *check_find(struct check *check, const char *rule, enum check_severity severity,
    struct check_place place, const char *subject, const char *message, const char *instead)
{
	struct check_finding *finding, **at = &check->findings;

	if (check->counts[CHECK_INFO] + check->counts[CHECK_WARNING] + check->counts[CHECK_ERROR] >= CHECK_FINDINGS_MAX) {
		check->full = true;
		return NULL;
	}
	finding = check_alloc(check, sizeof(*finding));
	if (finding == NULL)
		return NULL;
	*finding = (struct check_finding){.rule = rule_of(rule), .severity = severity, .place = place, .instead = instead};
	/* Names in them come from files. */
	finding->subject = check_shown(check, rea_slice_of(subject));
	finding->message = check_shown(check, rea_slice_of(message));
	while (*at != NULL && !is_before(finding, *at)) {
		if (is_same(finding, *at))
			return NULL;
		at = &(*at)->next;
	}
	finding->next = *at;
	*at = finding;
	check->counts[severity]++;
	return finding;
}

/* ------------------------------------------------------------------ corrections */

/* Byte of the first column of a line; the file's length when it has no such line. */
static size_t line_start(const struct check_file *file, uint32_t line)
{
	size_t at = 0;

	for (uint32_t i = 1; i < line; i++) {
		const char *end = memchr(file->text.data + at, '\n', file->text.length - at);

		if (end == NULL)
			return file->text.length;
		at = (size_t)(end - file->text.data) + 1;
	}
	return at;
}

static size_t offset_of(struct check_place place)
{
	struct rea_slice text = place.file->text;
	size_t at = line_start(place.file, place.line);

	for (uint32_t i = 1; i < place.column && at < text.length; i++)
		for (at++; at < text.length && ((unsigned char)text.data[at] & 0xc0) == 0x80; at++)
			;
	return at;
}

static void add_edit(struct check *check, struct check_finding *finding, const struct check_file *file, size_t at,
    const char *old, const char *new)
{
	struct check_edit *edit;
	size_t length = strlen(old);

	/* What stands there is not what the reader read, an escape perhaps: better no correction than a wrong one. */
	if (file->text.length - at < length || memcmp(file->text.data + at, old, length) != 0)
		return;
	edit = check_alloc(check, sizeof(*edit));
	if (edit == NULL)
		return;
	*edit = (struct check_edit){finding->edits, file, at, old, new};
	finding->edits = edit;
}

void check_correct(
    struct check *check, struct check_finding *finding, struct check_place place, const char *old, const char *new)
{
	size_t at;

	if (finding == NULL || place.line == 0)
		return;
	at = offset_of(place);
	if (at < place.file->text.length && (place.file->text.data[at] == '"' || place.file->text.data[at] == '\''))
		at++;
	add_edit(check, finding, place.file, at, old, new);
}

static size_t indent_of(const struct check_file *file, size_t at)
{
	size_t end = at;

	while (end < file->text.length && (file->text.data[end] == ' ' || file->text.data[end] == '\t'))
		end++;
	return end - at;
}

void check_comment_out(
    struct check *check, struct check_finding *finding, const struct check_file *file, uint32_t first, uint32_t last)
{
	size_t at;

	if (finding == NULL || first == 0)
		return;
	at = line_start(file, first);
	for (uint32_t line = first; line <= last && at < file->text.length; line++) {
		const char *end = memchr(file->text.data + at, '\n', file->text.length - at);
		size_t indent = indent_of(file, at);

		if (file->text.data + at + indent != end)
			add_edit(check, finding, file, at + indent, "", "# ");
		at = end ? (size_t)(end - file->text.data) + 1 : file->text.length;
	}
}

void check_line_below(struct check *check, struct check_finding *finding, struct check_place place, const char *text)
{
	size_t start, next;

	if (finding == NULL)
		return;
	start = line_start(place.file, place.line);
	next = line_start(place.file, place.line + 1);
	if (next == place.file->text.length && (next == 0 || place.file->text.data[next - 1] != '\n'))
		return;
	add_edit(check, finding, place.file, next, "",
	    check_text(check, "%.*s%s\n", (int)indent_of(place.file, start), place.file->text.data + start, text));
}

/* In the order of the file; of two that overlap the first wins. */
static void insert_sorted(struct check_edit **list, struct check_edit *edit)
{
	while (*list != NULL && (*list)->at <= edit->at) {
		if ((*list)->at == edit->at && strcmp((*list)->old, edit->old) == 0 && strcmp((*list)->new, edit->new) == 0)
			return;
		if ((*list)->at + strlen((*list)->old) > edit->at)
			return;
		list = &(*list)->next;
	}
	edit->next = *list;
	*list = edit;
}

int check_fix(struct check *check, const char *name, struct rea_buffer *ret_text, size_t *ret_changes)
{
	struct check_edit *edits = NULL;
	const struct check_file *file = NULL;
	size_t changes = 0, at = 0;
	int error = check->error;

	for (const struct check_finding *finding = check->findings; finding != NULL; finding = finding->next) {
		for (const struct check_edit *edit = finding->edits; edit != NULL; edit = edit->next) {
			struct check_edit *copy;

			if (strcmp(edit->file->name, name) != 0)
				continue;
			copy = check_alloc(check, sizeof(*copy));
			if (copy == NULL)
				return REA_ERR_NOMEM;
			*copy = *edit;
			file = edit->file;
			insert_sorted(&edits, copy);
			changes += edit->next == NULL;
		}
	}
	for (const struct check_edit *edit = edits; edit != NULL && error == 0; edit = edit->next) {
		if (edit->at < at)
			continue;
		error = rea_buffer_append(ret_text, file->text.data + at, edit->at - at);
		if (error == 0)
			error = rea_buffer_append(ret_text, edit->new, strlen(edit->new));
		at = edit->at + strlen(edit->old);
	}
	if (error == 0 && file != NULL)
		error = rea_buffer_append(ret_text, file->text.data + at, file->text.length - at);
	if (error == 0)
		*ret_changes = changes;
	return error;
}
