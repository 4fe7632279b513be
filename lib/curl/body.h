/*
 * The request's body where libcurl reads it through a function: the same bytes on every attempt. A source that can seek
 * is set back; of one that cannot what was read is kept, up to a limit.
 */
#ifndef REA_CURL_BODY_H
#define REA_CURL_BODY_H

#include <rea/curl.h>

#include "base/buffer.h"

struct rea__body {
	curl_read_callback read; /* NULL = there is no source: the body is the handle's own, or there is none */
	void *read_data;
	curl_seek_callback seek; /* NULL = cannot seek */
	void *seek_data;
	curl_off_t file_start;  /* of a FILE: where it stood */
	struct rea_buffer kept; /* from its first byte on */
	size_t at;              /* how much of kept the present attempt was given */
	size_t limit;
	bool touched; /* something was read since the start or the last rewind */
	bool ended;   /* the source has no more */
	bool lost;    /* a part is neither kept nor can be read again */
};

/* alloc: borrowed while the body lives. */
void rea__body_init(struct rea__body *body, const struct rea_curl_call *call, size_t limit, const struct rea_alloc *alloc);
void rea__body_fini(struct rea__body *body);
/* Back to the first byte. False: the body cannot be had again. */
bool rea__body_rewind(struct rea__body *body);

/* For libcurl, with the body as user data. */
size_t rea__body_read(char *buffer, size_t size, size_t items, void *body);
int rea__body_seek(void *body, curl_off_t offset, int origin);

#endif
