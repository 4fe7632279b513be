/* One request of the admin API and its answer, without a connection: what is asked, what is said. */
#ifndef REA_SRC_ADMIN_ANSWER_H
#define REA_SRC_ADMIN_ANSWER_H

#include "admin/admin.h"

/* Bytes of a request body; beyond them 413. */
#define ANSWER_REQUEST_BODY_MAX (UINT64_C(1024) * 1024)
/* Events that one answer holds; the latest are kept. */
#define ANSWER_EVENTS_DEFAULT 100
#define ANSWER_EVENTS_MAX 1000
#define ANSWER_TIMELINE_MAX 10000
/* Bytes of a business id in a request. */
#define ANSWER_BIZ_ID_MAX 1024

struct answer {
	uint16_t status;
	const char *content_type;
	char allow[64];         /* 405: the methods that there are; else "" */
	char location[64];      /* Location; "" = none */
	uint32_t retry_after_s; /* Retry-After; 0 = none */
	struct rea_buffer body;
	bool failed; /* out of memory while writing the body */
};

/* alloc: for the body; NULL = malloc. */
void answer_init(struct answer *answer, const struct rea_alloc *alloc);
void answer_fini(struct answer *answer);
/* target: path with or without query, as received. Out of memory is an answer too: 503 without a body. */
void answer_request(
    struct answer *answer, const struct admin_sources *sources, enum http_method method, struct rea_slice target);
/* A problem document (RFC 9457). */
void answer_problem(struct answer *answer, uint16_t status, const char *detail);
/* The same, with what it is about: a JSON pointer into the request's body; "" = none. */
void answer_problem_at(struct answer *answer, uint16_t status, const char *detail, const char *field);

/* ---- writing a body; what there is no memory for sets failed ---- */

/* Start anew. */
void answer_begin(struct answer *answer, uint16_t status, const char *content_type);
void answer_put(struct answer *answer, const char *text, size_t length);
void answer_put_text(struct answer *answer, const char *text);
void answer_put_u64(struct answer *answer, uint64_t value);
/* A text as a JSON string. */
void answer_put_json(struct answer *answer, const char *text, size_t length);
/* Room for size bytes at body.data + body.end, for a writer that fills them in and moves the end; NULL when there is none. */
char *answer_room(struct answer *answer, size_t size);

/* ---- reading a target ---- */

/* Undo percent-encoding. False: malformed, or longer than size. */
bool answer_percent_decode(struct rea_slice text, char *ret_text, size_t size, size_t *ret_length);
/* The value of name in the query, percent-encoded. False: it is not there. */
bool answer_query_value(struct rea_slice query, const char *name, struct rea_slice *ret_value);

#endif
