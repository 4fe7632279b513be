/* What sessions tell, as text: two runs that mean the same write the same. */
#ifndef REA_TESTS_HTTP_RECORDER_H
#define REA_TESTS_HTTP_RECORDER_H

#include "http/http.h"

/* The limits of these tests; small enough to reach. */
extern const struct http_limits limits;

/*
 * Owner of a session. Pieces of a body that follow each other are one, so that the text does not depend on how bytes
 * came in.
 */
struct recorder {
	struct rea_buffer log;  /* one line per callback */
	struct rea_buffer body; /* pieces of the body not yet in the log */
	const char *answer;     /* server: body of a 200 sent when the request has arrived; NULL = the test answers */
	bool pause;             /* pause as soon as a head has arrived */
	struct http_server_stream *server_stream; /* the last request's */
	const struct http_request *request;
	struct http_client_stream *client_stream; /* the last response's */
	bool reusable_at_end;                     /* client: as seen from inside on_body_end */
};
void recorder_fini(struct recorder *recorder);
/* The log, terminated; then it begins anew. Borrowed until the next call. */
const char *recorder_text(struct recorder *recorder);

extern const struct http_server_events server_events;
extern const struct http_client_events client_events;

/* Data as a string literal would have it. */
void escape(struct rea_buffer *out, const char *data, size_t length);
/* What gathered in out, escaped and terminated, and taken from it. Borrowed until the next call. */
const char *taken(struct rea_buffer *out);

/* Feed whole strings; what the session returns. */
int server_feed(struct http_server *server, const char *text);
int client_feed(struct http_client *client, const char *text);

#endif
