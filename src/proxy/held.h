/* A reply kept while another attempt is tried, to be passed on if none brings a better one. */
#ifndef REA_SRC_PROXY_HELD_H
#define REA_SRC_PROXY_HELD_H

#include "proxy/internal.h"

/* Copies the head. False when out of memory: nothing is held then. */
bool held_set(struct held_reply *held, const struct http_response *response);
/* False when the body outgrew its room or memory ran out: nothing is held any more. */
bool held_append(struct held_reply *held, const char *data, size_t length);
void held_drop(struct held_reply *held);
void held_fini(struct held_reply *held);

#endif
