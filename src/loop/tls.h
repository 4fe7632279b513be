/*
 * TLS for the streams of a loop, by OpenSSL: 1.2 and 1.3, no renegotiation, no compression, no early data.
 *
 * A context is what the connections of one configuration share: keys, certificates, whom to believe. It does not change once it is made, is counted, and
 * belongs to no thread. A session is one connection's, and does no I/O: it is given what came from the socket, and `wire` is what has to go there.
 */
#ifndef REA_SRC_TLS_H
#define REA_SRC_TLS_H

#include "base/buffer.h"

#include <rea/config.h>
#include <rea/error.h>

struct tls_context;
struct tls_session;
struct ssl_session_st;

/* ---- contexts ---- */

enum tls_side { TLS_CLIENT, TLS_SERVER };

/* config: borrowed until return. A server takes HTTP/2 before HTTP/1.1. Returns 0, REA_ERR_INVALID, IO or NOMEM; ret_info names the file. */
int tls_context_new(const struct rea_config_tls *config, enum tls_side side, struct tls_context **ret_context,
    struct rea_error_info *ret_info);
struct tls_context *tls_context_ref(struct tls_context *context); /* NULL is fine, in all of these */
void tls_context_unref(struct tls_context *context);

/* One of our own certificates. */
struct tls_certificate {
	const char *file;
	int64_t not_before_s, not_after_s; /* seconds since 1970 */
	const char *open_key; /* the file of its key, when others than its owner may read that; NULL = they may not */
};
/* By index, the main one first; NULL = there are no more. */
const struct tls_certificate *tls_context_certificate(const struct tls_context *context, size_t index);
/* Identifies what it was made of: the configuration and the contents of its files. */
uint64_t tls_context_digest(const struct tls_context *context);
/* What the digest would be now. 0 = a file cannot be read. */
uint64_t tls_digest(const struct rea_config_tls *config, enum tls_side side);

/* ---- sessions to resume ---- */

/* What the servers at one address have given us for the next handshake. Zero-initialise. One thread. */
struct tls_tickets {
	struct tls_ticket {
		struct tls_context *context;
		char *name;
		struct ssl_session_st *session; /* NULL = free */
	} kept[4];
	unsigned next;
};
void tls_tickets_fini(struct tls_tickets *tickets);

/* ---- sessions ---- */

enum tls_state {
	TLS_HANDSHAKE,
	TLS_OPEN,
	TLS_PEER_CLOSED, /* in order: nothing more will come, we may still send */
	TLS_FAILED       /* the wire holds an alert at most */
};

/* NULL = out of memory. name: whom the peer's certificate must name, a host or an address; copied. h2: HTTP/2 is offered and nothing else, or
 * HTTP/1.1 and nothing else. tickets: borrowed while the session lives; NULL = resume nothing. */
struct tls_session *tls_session_client(struct tls_context *context, const char *name, bool h2, struct tls_tickets *tickets);
struct tls_session *tls_session_server(struct tls_context *context);
void tls_session_free(struct tls_session *session); /* NULL is fine */

/* What came from the socket; borrowed until tls_read has returned 0. */
void tls_give(struct tls_session *session, const char *data, size_t length);
/* The socket's end has come, or an error on it (why). */
void tls_end(struct tls_session *session, const char *why);
enum tls_state tls_handshake(struct tls_session *session);
enum tls_state tls_session_state(const struct tls_session *session);
/* Plaintext. 0 = all that was given is used up, or the state has changed. */
size_t tls_read(struct tls_session *session, char *buffer, size_t size);
/* Encrypt all of plain. False: the session has failed. */
bool tls_seal(struct tls_session *session, struct rea_buffer *plain);
/* Nothing more from us. */
void tls_close(struct tls_session *session);
struct rea_buffer *tls_wire(struct tls_session *session);

enum tls_side tls_session_side(const struct tls_session *session);
bool tls_session_h2(const struct tls_session *session); /* agreed on by ALPN */
bool tls_session_resumed(const struct tls_session *session);
/* Why it failed, in English, without the peer's name; "" while it has not. */
const char *tls_session_trouble(const struct tls_session *session);
/* A client whose certificate the server did not take: in TLS 1.3 that is heard only after we have begun to send, yet the server has read nothing of it. */
bool tls_session_rejected(const struct tls_session *session);
/* A server that was not spoken to: somebody looked whether the port is open. */
bool tls_session_untouched(const struct tls_session *session);
/* A server that was asked without TLS, by what looks like HTTP. */
bool tls_session_asked_plainly(const struct tls_session *session);

#endif
