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

struct answer {
	uint16_t status;
	const char *content_type;
	char allow[64]; /* 405: the methods that there are; else "" */
	struct rea_buffer body;
	bool failed; /* private: out of memory while writing the body */
};

/* alloc: for the body; NULL = malloc. */
void answer_init(struct answer *answer, const struct rea_alloc *alloc);
void answer_fini(struct answer *answer);
/* target: path with or without query, as received. Out of memory is an answer too: 503 without a body. */
void answer_request(
    struct answer *answer, const struct admin_sources *sources, enum http_method method, struct rea_slice target);
/* A problem document (RFC 9457). */
void answer_problem(struct answer *answer, uint16_t status, const char *detail);

#endif
