#include "queue/document.h"

#include <string.h>

/* Below, all of it is read faster than looked at. */
#define CUT_BYTES_MIN 400

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t skip_blanks(struct rea_slice text, size_t at)
{
	while (at < text.length && is_blank(text.data[at]))
		at++;
	return at;
}

/* at: behind the opening quote. Returns where the closing one stands; text.length: nowhere. */
static size_t string_end(struct rea_slice text, size_t at)
{
	while (at < text.length && text.data[at] != '"')
		at += text.data[at] == '\\' ? 2 : 1;
	return at < text.length ? at : text.length;
}

/* Where the text of a member `body` of the outermost object begins. In a text that is no JSON this may find anything: the rest of it is no
 * JSON either. */
static bool find_body(struct rea_slice text, size_t *ret_begin)
{
	size_t at = skip_blanks(text, 0), depth = 0;
	char last = '\0'; /* outside of strings, blanks aside */

	if (at == text.length || text.data[at] != '{')
		return false;
	for (; at < text.length; at++) {
		char c = text.data[at];

		if (c == '"') {
			size_t begin = at + 1, end = string_end(text, begin);
			bool is_name = depth == 1 && (last == '{' || last == ',');

			at = end;
			if (!is_name ||
			    !rea_slice_equal(rea_slice_make(text.data + begin, end - begin), REA_SLICE_LIT("body"))) {
				last = c;
				continue;
			}
			at = skip_blanks(text, at + 1);
			if (at >= text.length || text.data[at] != ':')
				return false;
			at = skip_blanks(text, at + 1);
			*ret_begin = at + 1;
			return at < text.length && text.data[at] == '"';
		}
		depth += c == '{' || c == '[';
		depth -= c == '}' || c == ']';
		if (!is_blank(c))
			last = c;
	}
	return false;
}

static bool is_plain(char c)
{
	return (unsigned char)c >= ' ' && (unsigned char)c < 0x80 && c != '"' && c != '\\';
}

/* The text from there on to its closing quote, where *at is then. False: there is something in it that is left to others, or no memory. */
static bool read_string(struct rea_slice text, size_t *at, struct rea_buffer *body)
{
	static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";

	if (rea_buffer_reserve(body, text.length - *at + 1) != 0)
		return false;
	for (;;) {
		size_t begin = *at;
		const char *escape;

		while (*at < text.length && is_plain(text.data[*at]))
			++*at;
		memcpy(body->data + body->end, text.data + begin, *at - begin);
		body->end += *at - begin;
		if (*at == text.length)
			return false;
		if (text.data[*at] == '"')
			return true;
		if (text.data[*at] != '\\' || *at + 1 == text.length)
			return false;
		escape = memchr(escapes, text.data[*at + 1], sizeof(escapes) - 1);
		if (escape == NULL)
			return false;
		body->data[body->end++] = meanings[escape - escapes];
		*at += 2;
	}
}

static bool load_cut(struct task_document *document, struct rea_slice text, size_t flags)
{
	struct rea_buffer rest = {.alloc = NULL};
	size_t begin, end;

	if (text.length < CUT_BYTES_MIN || !find_body(text, &begin))
		return false;
	end = begin;
	if (read_string(text, &end, &document->body) && rea_buffer_append(&rest, text.data, begin) == 0 &&
	    rea_buffer_append(&rest, text.data + end, text.length - end) == 0)
		document->json = json_loadb(rea_buffer_data(&rest), rea_buffer_length(&rest), flags, NULL);
	rea_buffer_fini(&rest);
	document->cut = document->json != NULL;
	if (!document->cut)
		rea_buffer_fini(&document->body);
	return document->cut;
}

bool task_document_load(struct task_document *ret_document, struct rea_slice text, size_t flags, json_error_t *ret_error)
{
	*ret_document = (struct task_document){.json = NULL};
	if (!load_cut(ret_document, text, flags))
		ret_document->json = json_loadb(text.data, text.length, flags, ret_error);
	return ret_document->json != NULL;
}

void task_document_fini(struct task_document *document)
{
	json_decref(document->json);
	document->json = NULL;
	rea_buffer_fini(&document->body);
}
