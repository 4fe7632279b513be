/* A reply kept while another attempt is tried, to be passed on if none brings a better one. */
#ifndef REA_SRC_PROXY_HELD_H
#define REA_SRC_PROXY_HELD_H

#include "proxy/internal.h"

/* Copies the head. False when out of memory: nothing is held then. */
bool held_set(struct held_reply *held, const struct http_response *response);
/* False when the body outgrew its room or memory ran out: nothing is held any more. */
bool held_append(struct held_reply *held, const char *data, size_t length);
/* All of it is here. Without memory its trailers are lost, rather than the reply. */
void held_complete(struct held_reply *held, const struct http_field *trailers, size_t trailers_len);
void held_drop(struct held_reply *held);
void held_fini(struct held_reply *held);

/* One allocation with their texts; NULL = out of memory. count >= 1. */
struct http_field *fields_copy(const struct http_field *fields, size_t count);

#endif
