#include "http_parser_reader.h"

#include <http_parser.h>

#include <stdlib.h>

struct theirs {
	struct rea_buffer *text;
	struct rea_buffer value; /* of the last field; its trailing blanks are not meant */
	bool request;
	bool head;
	bool in_value;
	bool headed;
	bool complete;
};

static void add(struct rea_buffer *buffer, const char *data, size_t length)
{
	if (rea_buffer_append(buffer, data, length) != 0)
		abort();
}

static void add_status(struct theirs *t, unsigned status)
{
	if (rea_buffer_append_u64(t->text, status) != 0)
		abort();
}

static struct theirs *of_parser(http_parser *parser)
{
	return parser->data;
}

static void end_value(struct theirs *t)
{
	size_t length = rea_buffer_length(&t->value);
	const char *value;

	if (!t->in_value)
		return;
	value = length > 0 ? rea_buffer_data(&t->value) : "";
	while (length > 0 && (value[length - 1] == ' ' || value[length - 1] == '\t'))
		length--;
	add(t->text, ":", 1);
	add(t->text, value, length);
	add(t->text, "]", 1);
	rea_buffer_clear(&t->value);
	t->in_value = false;
}

static int on_url(http_parser *parser, const char *at, size_t length)
{
	struct theirs *t = of_parser(parser);

	if (rea_buffer_length(t->text) == 0) {
		const char *method = http_method_str((enum http_method)parser->method);

		add(t->text, method, strlen(method));
		add(t->text, " ", 1);
	}
	add(t->text, at, length);
	return 0;
}

static int on_name(http_parser *parser, const char *at, size_t length)
{
	struct theirs *t = of_parser(parser);

	if (t->headed)
		return 0;
	if (rea_buffer_length(t->text) == 0)
		add_status(t, parser->status_code);
	end_value(t);
	add(t->text, " [", 2);
	add(t->text, at, length);
	return 0;
}

static int on_value(http_parser *parser, const char *at, size_t length)
{
	struct theirs *t = of_parser(parser);

	if (t->headed)
		return 0;
	t->in_value = true;
	add(&t->value, at, length);
	return 0;
}

static int on_headed(http_parser *parser)
{
	struct theirs *t = of_parser(parser);

	end_value(t);
	if (!t->request && parser->status_code / 100 == 1 && parser->status_code != 101) {
		rea_buffer_clear(t->text);
		return 0;
	}
	if (rea_buffer_length(t->text) == 0)
		add_status(t, parser->status_code);
	t->headed = true;
	add(t->text, " body=", 6);
	return t->head;
}

static int on_piece(http_parser *parser, const char *at, size_t length)
{
	add(of_parser(parser)->text, at, length);
	return 0;
}

static int on_complete(http_parser *parser)
{
	struct theirs *t = of_parser(parser);

	t->complete = t->headed;
	if (t->complete)
		http_parser_pause(parser, 1);
	return 0;
}

bool http_parser_reads(bool request, bool head, const char *bytes, size_t length, struct rea_buffer *text)
{
	struct theirs theirs = {.text = text, .request = request, .head = head};
	http_parser_settings settings;
	http_parser parser;

	http_parser_settings_init(&settings);
	settings.on_url = on_url;
	settings.on_header_field = on_name;
	settings.on_header_value = on_value;
	settings.on_headers_complete = on_headed;
	settings.on_body = on_piece;
	settings.on_message_complete = on_complete;
	http_parser_init(&parser, request ? HTTP_REQUEST : HTTP_RESPONSE);
	parser.data = &theirs;
	http_parser_execute(&parser, &settings, bytes, length);
	if (!theirs.complete && HTTP_PARSER_ERRNO(&parser) == HPE_OK)
		http_parser_execute(&parser, &settings, NULL, 0);
	rea_buffer_fini(&theirs.value);
	return theirs.complete;
}
