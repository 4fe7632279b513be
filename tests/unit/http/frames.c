#include "frames.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void append(struct rea_buffer *out, const void *data, size_t length)
{
	if (rea_buffer_append(out, data, length) != 0)
		abort();
}

__attribute__((format(printf, 2, 3))) static void print(struct rea_buffer *out, const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	append(out, text, strlen(text));
}

static void be32(unsigned char *p, uint32_t value)
{
	p[0] = (unsigned char)(value >> 24);
	p[1] = (unsigned char)(value >> 16);
	p[2] = (unsigned char)(value >> 8);
	p[3] = (unsigned char)value;
}

static uint32_t get32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

void frame_put(struct rea_buffer *out, uint8_t type, uint8_t flags, uint32_t stream, const void *payload, size_t length)
{
	unsigned char head[9] = {
	    (unsigned char)(length >> 16), (unsigned char)(length >> 8), (unsigned char)length, type, flags};

	be32(head + 5, stream);
	append(out, head, sizeof(head));
	append(out, payload != NULL ? payload : "", length);
}

/* The length of a string of HPACK, in 7 bits and more. */
static void length_put(struct rea_buffer *out, size_t length)
{
	unsigned char byte = length < 127 ? (unsigned char)length : 127;

	append(out, &byte, 1);
	if (length >= 127) {
		for (length -= 127; length >= 128; length /= 128) {
			byte = (unsigned char)(length % 128 + 128);
			append(out, &byte, 1);
		}
		byte = (unsigned char)length;
		append(out, &byte, 1);
	}
}

void block_put(struct rea_buffer *out, const char *fields)
{
	while (*fields != '\0') {
		const char *end = strchr(fields, '\n'), *is;
		size_t name, value;

		if (end == NULL)
			end = fields + strlen(fields);
		is = memchr(fields + 1, '=', (size_t)(end - fields - 1));
		name = (size_t)(is - fields);
		value = (size_t)(end - is - 1);
		append(out, "", 1); /* a literal that is not indexed, with a name of its own */
		length_put(out, name);
		append(out, fields, name);
		length_put(out, value);
		append(out, is + 1, value);
		fields = *end == '\n' ? end + 1 : end;
	}
}

void headers_put(struct rea_buffer *out, uint8_t flags, uint32_t stream, const char *fields)
{
	struct rea_buffer block = {.alloc = out->alloc};

	block_put(&block, fields);
	frame_put(out, NGHTTP2_HEADERS, flags | NGHTTP2_FLAG_END_HEADERS, stream, rea_buffer_data(&block),
	    rea_buffer_length(&block));
	rea_buffer_fini(&block);
}

void u32_put(struct rea_buffer *out, uint8_t type, uint8_t flags, uint32_t stream, uint32_t value)
{
	unsigned char bytes[4];

	be32(bytes, value);
	frame_put(out, type, flags, stream, bytes, sizeof(bytes));
}

void settings_put(struct rea_buffer *out, uint16_t id, uint32_t value)
{
	unsigned char bytes[6] = {(unsigned char)(id >> 8), (unsigned char)id};

	be32(bytes + 2, value);
	frame_put(out, NGHTTP2_SETTINGS, 0, 0, bytes, sizeof(bytes));
}

/* ---- reading ---- */

static void read_block(struct frames_reader *reader)
{
	const uint8_t *p = (const uint8_t *)rea_buffer_data(&reader->block);
	size_t length = rea_buffer_length(&reader->block);
	nghttp2_nv nv;
	int flags;

	print(&reader->text, "%s", reader->opening);
	do {
		ssize_t taken;

		flags = 0;
		taken = nghttp2_hd_inflate_hd2(reader->inflater, &nv, &flags, p, length, 1);
		if (taken < 0)
			abort();
		p += taken;
		length -= (size_t)taken;
		if (flags & NGHTTP2_HD_INFLATE_EMIT)
			print(&reader->text, " %.*s=%.*s", (int)nv.namelen, (const char *)nv.name, (int)nv.valuelen,
			    (const char *)nv.value);
	} while (!(flags & NGHTTP2_HD_INFLATE_FINAL) && (length > 0 || (flags & NGHTTP2_HD_INFLATE_EMIT)));
	nghttp2_hd_inflate_end_headers(reader->inflater);
	print(&reader->text, "\n");
	rea_buffer_clear(&reader->block);
}

static void read_data(struct rea_buffer *text, const char *data, size_t length)
{
	if (length == 0)
		print(text, "\n");
	else if (length <= 32)
		print(text, " %.*s\n", (int)length, data);
	else
		print(text, " %.4s...\n", data);
}

static void read_settings(struct rea_buffer *text, const unsigned char *p, size_t length)
{
	for (size_t i = 0; i < length; i += 6)
		print(text, " %u=%" PRIu32, p[i] << 8 | p[i + 1], get32(p + i + 2));
	print(text, "\n");
}

static void read_frame(
    struct frames_reader *reader, uint8_t type, uint8_t flags, uint32_t stream, const unsigned char *p, size_t length)
{
	struct rea_buffer *text = &reader->text;
	const char *end = flags & NGHTTP2_FLAG_END_STREAM ? " end" : "";

	switch (type) {
	case NGHTTP2_DATA:
		print(text, "DATA %" PRIu32 " %zu%s", stream, length, end);
		read_data(text, (const char *)p, length);
		return;
	case NGHTTP2_HEADERS:
		snprintf(reader->opening, sizeof(reader->opening), "HEADERS %" PRIu32 "%s", stream, end);
		append(&reader->block, p, length);
		break;
	case NGHTTP2_CONTINUATION:
		append(&reader->block, p, length);
		break;
	case NGHTTP2_RST_STREAM:
		print(text, "RST_STREAM %" PRIu32 " %s\n", stream, nghttp2_http2_strerror(get32(p)));
		return;
	case NGHTTP2_GOAWAY:
		print(text, "GOAWAY %" PRIu32 " %s\n", get32(p), nghttp2_http2_strerror(get32(p + 4)));
		return;
	case NGHTTP2_WINDOW_UPDATE:
		print(text, "WINDOW_UPDATE %" PRIu32 " %" PRIu32 "\n", stream, get32(p));
		return;
	case NGHTTP2_SETTINGS:
		print(text, "SETTINGS%s", flags & NGHTTP2_FLAG_ACK ? " ack" : "");
		read_settings(text, p, length);
		return;
	case NGHTTP2_PING:
		print(text, "PING%s\n", flags & NGHTTP2_FLAG_ACK ? " ack" : "");
		return;
	default:
		print(text, "type %u\n", type);
		return;
	}
	if (flags & NGHTTP2_FLAG_END_HEADERS)
		read_block(reader);
}

const char *frames_text(struct frames_reader *reader, struct rea_buffer *out)
{
	const unsigned char *p = (const unsigned char *)rea_buffer_data(out), *end = p + rea_buffer_length(out);

	if (reader->inflater == NULL && nghttp2_hd_inflate_new(&reader->inflater) != 0)
		abort();
	rea_buffer_clear(&reader->text);
	if (end - p >= (ptrdiff_t)H2_PREFACE_LENGTH && memcmp(p, H2_PREFACE, H2_PREFACE_LENGTH) == 0) {
		print(&reader->text, "PREFACE\n");
		p += H2_PREFACE_LENGTH;
	}
	while (p < end) {
		size_t length = (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];

		if (end - p < 9 || (size_t)(end - p) < 9 + length)
			abort();
		read_frame(reader, p[3], p[4], get32(p + 5), p + 9, length);
		p += 9 + length;
	}
	rea_buffer_clear(out);
	append(&reader->text, "", 1);
	return rea_buffer_data(&reader->text);
}

static bool is_housekeeping(const char *line)
{
	return strncmp(line, "SETTINGS", 8) == 0 || strncmp(line, "WINDOW_UPDATE", 13) == 0 ||
	       strncmp(line, "PING", 4) == 0 || strncmp(line, "PREFACE", 7) == 0;
}

const char *frames_messages(struct frames_reader *reader, struct rea_buffer *out)
{
	char *text = (char *)(uintptr_t)frames_text(reader, out), *to = text;

	for (const char *line = text, *next; *line != '\0'; line = next) {
		next = strchr(line, '\n') + 1;
		if (is_housekeeping(line))
			continue;
		memmove(to, line, (size_t)(next - line));
		to += next - line;
	}
	*to = '\0';
	return text;
}

void frames_fini(struct frames_reader *reader)
{
	if (reader->inflater != NULL)
		nghttp2_hd_inflate_del(reader->inflater);
	rea_buffer_fini(&reader->text);
	rea_buffer_fini(&reader->block);
}
