/*
 * A client session that speaks nothing: from its begin on, bytes go through as they are, both ways. For the upstream end of CONNECT. The
 * head given to begin is not sent.
 */
#ifndef REA_SRC_HTTP_TUNNEL_H
#define REA_SRC_HTTP_TUNNEL_H

#include "http/http.h"

struct http_client *tunnel_client_new(const struct http_client_events *events, const struct http_limits *limits, void *owner);

#endif
