#include "admin/task_line.h"

#include "base/format.h"

#include <string.h>

/* jansson gives well-formed UTF-8; what a terminal would obey (C0, DEL, C1) is replaced. */
static void put_clean(struct rea_format *out, const char *text)
{
	for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
		if (*at < 0x20 || *at == 0x7f) {
			rea_format_text(out, "?");
		} else if (*at == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0) {
			rea_format_text(out, "?");
			at++;
		} else {
			rea_format_bytes(out, (const char *)at, 1);
		}
	}
}

static void put_member(struct rea_format *out, const char *before, const json_t *task, const char *name)
{
	const char *text = json_string_value(json_object_get(task, name));

	if (text == NULL || text[0] == '\0')
		return;
	rea_format_text(out, before);
	put_clean(out, text);
}

/* Both ways of counting, always. */
static void put_attempts(struct rea_format *out, json_int_t made)
{
	rea_format_text(out, "  ");
	rea_format_u64(out, made > 0 ? (uint64_t)made : 0);
	rea_format_text(out, made == 1 ? " attempt" : " attempts");
	if (made < 1)
		return;
	rea_format_text(out, " (");
	rea_format_u64(out, (uint64_t)made - 1);
	rea_format_text(out, made == 2 ? " retry)" : " retries)");
}

size_t task_line(const json_t *task, char *ret_text, size_t size)
{
	struct rea_format out;

	rea_format_init(&out, ret_text, size);
	rea_format_text(&out, "task");
	put_member(&out, " ", task, "id");
	put_member(&out, "  ", task, "state");
	put_member(&out, "  ", task, "target");
	put_member(&out, "  ", task, "method");
	put_member(&out, " ", task, json_object_get(task, "url") != NULL ? "url" : "path");
	put_attempts(&out, json_integer_value(json_object_get(task, "attempts")));
	put_member(&out, ", next at ", task, "due");
	put_member(&out, ": ", task, "reason");
	return out.length < size ? out.length : size - 1;
}
