/* Frames of HTTP/2, written by hand and read as text: a peer that knows no rules. */
#ifndef REA_TESTS_HTTP_FRAMES_H
#define REA_TESTS_HTTP_FRAMES_H

#include "base/buffer.h"
#include "http/http.h"

#include <nghttp2/nghttp2.h>

/* Appends. flags: NGHTTP2_FLAG_… */
void frame_put(struct rea_buffer *out, uint8_t type, uint8_t flags, uint32_t stream, const void *payload, size_t length);
/* A header block from "name=value" lines; literals, nothing is remembered. Names may be whatever they like. */
void block_put(struct rea_buffer *out, const char *fields);
void headers_put(struct rea_buffer *out, uint8_t flags, uint32_t stream, const char *fields);
void u32_put(struct rea_buffer *out, uint8_t type, uint8_t flags, uint32_t stream, uint32_t value);
void settings_put(struct rea_buffer *out, uint16_t id, uint32_t value);

/* Reads what a session sent; remembers what its header blocks refer to. Zero-initialise. */
struct frames_reader {
	nghttp2_hd_inflater *inflater;
	struct rea_buffer text;
	struct rea_buffer block;
	char opening[64];
};
/* One line a frame, and out is empty: "HEADERS 1 end :status=200", "DATA 1 5 end hello", "RST_STREAM 1 CANCEL". Borrowed until the next call. */
const char *frames_text(struct frames_reader *reader, struct rea_buffer *out);
/* The same without SETTINGS, WINDOW_UPDATE and PING. */
const char *frames_messages(struct frames_reader *reader, struct rea_buffer *out);
void frames_fini(struct frames_reader *reader);

#endif
