/*
 * The HTTP/1.1 codec (RFC 9112): bytes to heads and bodies, and back. Private to src/http; the sessions h1_server.c and
 * h1_client.c stand on it.
 *
 * Strict: what two readers could understand differently is refused, never repaired. Sans-IO, no global state. Allocates
 * only in its buffers and field arrays.
 */
#ifndef REA_SRC_HTTP_H1_H
#define REA_SRC_HTTP_H1_H

#include "http/http.h"

/* Bounds that no configuration moves. */
#define H1_CHUNK_DIGITS_MAX 16       /* of a chunk's size, leading zeros too */
#define H1_CONNECTION_OPTIONS_MAX 64 /* names listed by all Connection fields of a head */
#define H1_INTERIM_MAX 10            /* interim replies to one request */

/* Fields of one head or trailer section; the array is used again for the next. Zero-initialised it is empty. */
struct h1_fields {
	struct http_field *items;
	size_t length;
	size_t capacity;
};
void h1_fields_fini(struct h1_fields *fields);

/* ---- sections: lines up to an empty one (a head, the trailers), or just one line ---- */

/*
 * Zero-initialised it is empty. What it gathered has been searched: a byte is looked at once however slowly the section
 * drips in.
 */
struct h1_section {
	struct rea_buffer bytes; /* the part that has arrived */
	size_t line;             /* where the current line begins in it */
};
void h1_section_fini(struct h1_section *section);
void h1_section_clear(struct h1_section *section);

/*
 * Take from *in what belongs to the section, CRLFs included. *ret_whole is the section once its end is there, else
 * empty; it lies in section->bytes, or in the memory of *in when all of it came at once and keep is false. Clear the
 * section before the next.
 *
 * HTTP_ERROR_BAD_LINE_END for a LF without CR, HTTP_ERROR_HEAD_TOO_LARGE for more than max bytes, HTTP_ERROR_NOMEM.
 */
enum http_error h1_section_take(
    struct h1_section *section, size_t max, bool keep, struct rea_slice *in, struct rea_slice *ret_whole);

/* ---- heads ---- */

enum h1_framing {
	H1_FRAMING_NONE,
	H1_FRAMING_LENGTH,
	H1_FRAMING_CHUNKED,
	H1_FRAMING_CLOSE, /* everything up to the end of the connection */
};

/* What HTTP/2 shares. Every byte of it may stand in a request's target; host [":" port], no user in front. */
bool h1_target_valid(struct rea_slice target);
bool h1_authority_valid(struct rea_slice authority, bool need_port);

/* Whether a request can begin with this byte: other protocols are recognised at once. */
bool h1_request_may_begin(char c);
enum http_method h1_method_of(struct rea_slice method);
/* Whether a field of a trailer section may be passed on. */
bool h1_trailer_allowed(const struct http_field *field);

/*
 * head is a whole section: a start line, fields, an empty line. On success *ret_request borrows from head and from
 * fields. May shift the authority inside head by a byte ("http://host?query" has no "/" to begin its path with).
 */
enum http_error h1_request_parse(char *head, size_t length, const struct http_limits *limits, struct h1_fields *fields,
    struct http_request *ret_request, enum h1_framing *ret_framing, bool *ret_persistent);

/* What the request was decides how its response is read. */
struct h1_asked {
	bool head;
	bool connect;
	bool upgrade;
};
enum http_error h1_response_parse(const char *head, size_t length, const struct http_limits *limits, struct h1_asked asked,
    struct h1_fields *fields, struct http_response *ret_response, enum h1_framing *ret_framing, bool *ret_persistent);

/* ---- bodies, received ---- */

enum h1_chunk {
	H1_CHUNK_HEADER,
	H1_CHUNK_DATA,
	H1_CHUNK_DATA_END,
	H1_CHUNK_TRAILERS,
	H1_CHUNK_DONE,
};

/* Zero-initialised it is a body of length 0. */
struct h1_body {
	enum h1_framing framing;
	enum h1_chunk chunk;       /* what comes next, when chunked */
	uint64_t left;             /* of the body, or of the chunk */
	struct h1_section section; /* a chunk header or trailer section that has not arrived whole */
	struct h1_fields trailers; /* at the end: what may be used of the trailers. Valid until the next call */
};
void h1_body_begin(struct h1_body *body, enum h1_framing framing, uint64_t length);
void h1_body_fini(struct h1_body *body);
/* Nothing more belongs to it. Never true for H1_FRAMING_CLOSE. */
bool h1_body_ended(const struct h1_body *body);

enum h1_event {
	H1_MORE,  /* all of *in is used up */
	H1_PIECE, /* a piece of the body, never empty, in the memory of *in */
	H1_END,   /* *in begins with what follows the body */
	H1_BAD,
};
enum h1_event h1_body_next(struct h1_body *body, const struct http_limits *limits, struct rea_slice *in,
    struct rea_slice *ret_piece, enum http_error *ret_error);

/* ---- writing: each appends all or nothing; 0 or REA_ERR_NOMEM ---- */

enum h1_connection {
	H1_CONNECTION_DEFAULT, /* says nothing */
	H1_CONNECTION_CLOSE,
	H1_CONNECTION_KEEP_ALIVE,
	H1_CONNECTION_UPGRADE, /* and lets the Upgrade field through */
};

/* framing: how the body follows. With H1_FRAMING_LENGTH head->body_length is announced, which may be 0. */
int h1_request_write(struct rea_buffer *out, const struct http_request_head *head, enum h1_framing framing);
/*
 * With H1_FRAMING_NONE too, unless it is HTTP_LENGTH_UNKNOWN: what a HEAD or 304 says of the body that it does not
 * carry.
 */
int h1_response_write(struct rea_buffer *out, const struct http_response_head *head, enum h1_framing framing,
    enum h1_connection connection);
int h1_interim_write(struct rea_buffer *out, uint16_t status, const struct http_field *fields, size_t fields_len);

/* A body being sent. */
struct h1_sending {
	enum h1_framing framing;
	uint64_t left; /* H1_FRAMING_LENGTH: bytes that must still come */
};
/* REA_ERR_INVALID: more than announced. Without a body what is given is dropped. */
int h1_sending_write(struct h1_sending *sending, struct rea_buffer *out, const char *data, size_t length);
/* REA_ERR_INVALID: less than announced. */
int h1_sending_finish(
    struct h1_sending *sending, struct rea_buffer *out, const struct http_field *trailers, size_t trailers_len);

#endif
