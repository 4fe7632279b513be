/*
 * HTTP as src/proxy and src/admin see it: requests, responses and streams, whatever the version. Sans-IO: a session
 * turns received bytes into callbacks and calls into bytes to send, which gather in its output buffer. HTTP/1.1 stands
 * behind it (h1_server.c, h1_client.c on the codec h1.c), and HTTP/2 (h2_server.c, h2_client.c on h2.c and nghttp2).
 *
 * Nothing here reads a clock, a socket or memory that it was not given. One thread at a time.
 */
#ifndef REA_SRC_HTTP_H
#define REA_SRC_HTTP_H

#include "base/slice.h"  /* struct rea_slice { const char *data; size_t length; } and helpers */
#include "base/buffer.h" /* struct rea_buffer: growable byte queue: append, consume from the front */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fields that somebody acts on get an id when a head is parsed; all others are HTTP_FIELD_OTHER. */
#define HTTP_FIELD_MAP(X)                                           \
	X(HOST, "host")                                             \
	X(CONNECTION, "connection")                                 \
	X(KEEP_ALIVE, "keep-alive")                                 \
	X(PROXY_CONNECTION, "proxy-connection")                     \
	X(PROXY_AUTHENTICATE, "proxy-authenticate")                 \
	X(PROXY_AUTHORIZATION, "proxy-authorization")               \
	X(TE, "te")                                                 \
	X(TRAILER, "trailer")                                       \
	X(TRANSFER_ENCODING, "transfer-encoding")                   \
	X(UPGRADE, "upgrade")                                       \
	X(CONTENT_LENGTH, "content-length")                         \
	X(EXPECT, "expect")                                         \
	X(DATE, "date")                                             \
	X(VIA, "via")                                               \
	X(X_FORWARDED_FOR, "x-forwarded-for")                       \
	X(IDEMPOTENCY_KEY, "idempotency-key")                       \
	X(RETRY_AFTER, "retry-after")                               \
	X(TRACEPARENT, "traceparent")                               \
	X(REA_RETRY, "rea-retry")                                   \
	X(REA_ATTEMPT, "rea-attempt")                               \
	X(REA_DEADLINE_MS, "rea-deadline-ms")                       \
	X(REA_REASON, "rea-reason")                                 \
	X(CONTENT_TYPE, "content-type")                             \
	X(GRPC_STATUS, "grpc-status")                               \
	X(GRPC_TIMEOUT, "grpc-timeout")                             \
	X(GRPC_PREVIOUS_RPC_ATTEMPTS, "grpc-previous-rpc-attempts") \
	X(GRPC_RETRY_PUSHBACK_MS, "grpc-retry-pushback-ms")         \
	X(X_ENVOY_ATTEMPT_COUNT, "x-envoy-attempt-count")           \
	X(RPC_PERSIST_RETRYREQ, "rpc-persist-retryreq")             \
	X(AMZ_SDK_REQUEST, "amz-sdk-request")                       \
	X(AUTHORIZATION, "authorization")

enum http_field_id {
	HTTP_FIELD_OTHER,
#define X(name, text) HTTP_FIELD_##name,
	HTTP_FIELD_MAP(X)
#undef X
	    HTTP_FIELD_COUNT
};

/* A name as received (compare case-insensitively) and its value without surrounding blanks. */
struct http_field {
	struct rea_slice name;
	struct rea_slice value;
	uint8_t id; /* enum http_field_id */
	/*
	 * Connection-level: CONNECTION to UPGRADE of the map, or an unknown one that Connection names; never forwarded.
	 * Connection cannot name the others of the map away.
	 */
	bool hop_by_hop;
};

enum http_method {
	HTTP_OTHER,
	HTTP_GET,
	HTTP_HEAD,
	HTTP_POST,
	HTTP_PUT,
	HTTP_DELETE,
	HTTP_PATCH,
	HTTP_OPTIONS,
	HTTP_TRACE,
	HTTP_CONNECT
};

#define HTTP_LENGTH_UNKNOWN UINT64_MAX /* a body whose end is marked (chunked) */

struct http_request {
	enum http_method method_id;
	struct rea_slice method;
	struct rea_slice scheme; /* of absolute-form or :scheme; else empty */
	/* of absolute-form, CONNECT or :authority; else the Host value; may be empty (HTTP/1.0) */
	struct rea_slice authority;
	/* origin-form with query; "/" when absolute-form had none, then "*" for OPTIONS; "*"; empty for CONNECT */
	struct rea_slice path;
	const struct http_field *fields; /* as received, in order; Host too */
	size_t fields_len;
	uint64_t body_length; /* 0 = no body, HTTP_LENGTH_UNKNOWN = until on_body_end */
	uint8_t version;      /* 10, 11, 20 */
	bool absolute_form;
	bool expect_continue;
	bool upgrade; /* asks for another protocol (Connection: upgrade with Upgrade) */
};

struct http_response {
	uint16_t status;
	struct rea_slice reason; /* HTTP/1 reason phrase; may be empty */
	const struct http_field *fields;
	size_t fields_len;
	uint64_t body_length; /* 0 = none, HTTP_LENGTH_UNKNOWN = until on_body_end */
	/* false for HEAD, 204, 304: body_length then is only announced, HTTP_LENGTH_UNKNOWN = not even that */
	bool has_body;
	uint8_t version;
	bool upgraded; /* 101, or 2xx to CONNECT: from here on raw bytes both ways, as on_body/write */
};

struct http_limits {
	uint32_t head_bytes;      /* start line and fields together */
	uint32_t fields;          /* number of fields */
	uint32_t chunk_ext_bytes; /* extensions of one chunk header; 256 */
	uint32_t trailer_bytes;   /* 8192 */
};

/* What nobody configures. */
#define HTTP_CHUNK_EXT_BYTES 256
#define HTTP_TRAILER_BYTES 8192

/* Why a message was refused or cut. X(NAME, "english", status to answer, 0 = none) */
#define HTTP_ERROR_MAP(X)                                                        \
	X(BAD_REQUEST_LINE, "malformed request line", 400)                       \
	X(BAD_STATUS_LINE, "malformed status line", 0)                           \
	X(BAD_FIELD, "malformed header field", 400)                              \
	X(BAD_LINE_END, "bare CR or LF", 400)                                    \
	X(OBS_FOLD, "folded header line", 400)                                   \
	X(BAD_HOST, "missing, repeated or malformed Host", 400)                  \
	X(BAD_TARGET, "malformed request target", 400)                           \
	X(BAD_LENGTH, "malformed or conflicting Content-Length", 400)            \
	X(LENGTH_AND_ENCODING, "both Content-Length and Transfer-Encoding", 400) \
	X(BAD_ENCODING, "unsupported Transfer-Encoding", 501)                    \
	X(BAD_CHUNK, "malformed chunk", 400)                                     \
	X(BAD_VERSION, "unsupported HTTP version", 505)                          \
	X(URI_TOO_LONG, "request target too long", 414)                          \
	X(HEAD_TOO_LARGE, "message head too large", 431)                         \
	X(TOO_MANY_FIELDS, "too many header fields", 431)                        \
	X(CHUNK_EXT_TOO_LARGE, "chunk extension too large", 400)                 \
	X(TRAILER_TOO_LARGE, "trailer section too large", 400)                   \
	X(TRUNCATED, "the peer closed in the middle of a message", 0)            \
	X(UNEXPECTED, "bytes nobody asked for", 0)                               \
	X(EXPECTATION, "unknown expectation", 417)                               \
	X(PROTOCOL, "a violation of HTTP/2", 0)                                  \
	X(FLOOD, "too many frames that lead nowhere", 0)                         \
	X(RESET, "the peer reset the stream", 0)                                 \
	X(REFUSED, "the peer refused the stream, unprocessed", 0)                \
	X(GOING_AWAY, "the peer went away before it took the stream", 0)         \
	X(NOMEM, "out of memory", 503)

enum http_error {
	HTTP_ERROR_NONE,
#define X(name, english, status) HTTP_ERROR_##name,
	HTTP_ERROR_MAP(X)
#undef X
	    HTTP_ERROR_COUNT
};
const char *http_error_text(enum http_error error);
uint16_t http_error_status(enum http_error error);
const char *http_status_reason(uint16_t status); /* "Service Unavailable"; "" when unknown */
/* A problem document (RFC 9457) of one line. detail, reason: texts of our own, not escaped; reason "" = none. Cut at size, which
 * HTTP_PROBLEM_MAX never needs. Returns the length. */
#define HTTP_PROBLEM_MAX 512
size_t http_problem_format(char *ret_text, size_t size, uint16_t status, const char *detail, const char *reason);

/* ------------------------------------------------------------------ server */

/* One exchange on a server session: of HTTP/1 the only one, of HTTP/2 one of many. `user` is the callee's. */
struct http_server;
struct http_server_stream {
	struct http_server *session;
	void *user;
};

/*
 * No callback is made from inside a call on the same session, except from http_server_receive, http_server_eof,
 * http_server_resume, http_server_drained and http_server_fill. A session is not freed from inside its callbacks.
 */
struct http_server_events {
	/*
	 * A whole request head. The request and every slice in it stay valid and unchanged until the stream is over
	 * (finished or aborted). When body_length is 0, on_body_end follows in the same turn.
	 */
	void (*on_request)(struct http_server_stream *stream, const struct http_request *request);
	/* A piece of body, decoded. Borrowed until return. */
	void (*on_body)(struct http_server_stream *stream, const char *data, size_t length);
	/* The whole body was received; trailers may be none. Borrowed until return. */
	void (*on_body_end)(struct http_server_stream *stream, const struct http_field *trailers, size_t trailers_len);
	/*
	 * The stream is over without having been finished: client gone (error NONE), or its body was malformed. Nothing
	 * may be called on it any more. When the error has a status and no response was begun, the session answers it
	 * itself; HTTP/2 says it with a reset of the stream.
	 */
	void (*on_abort)(struct http_server_stream *stream, enum http_error error);
	/* A producer that stopped because the stream was congested may go on. May be NULL. */
	void (*on_writable)(struct http_server_stream *stream);
};

/*
 * A response head; content-length/transfer-encoding/connection are written by the session, never taken from fields
 * (their ids tell). Date is a field like others: a session has no clock.
 */
struct http_response_head {
	uint16_t status;
	struct rea_slice reason;         /* empty = the standard phrase; HTTP/1 only */
	const struct http_field *fields; /* hop_by_hop ones and Content-Length are skipped */
	size_t fields_len;
	const struct http_field *more; /* appended after them */
	size_t more_len;
	uint64_t body_length; /* HTTP_LENGTH_UNKNOWN = chunked, or until close for HTTP/1.0 */
	/*
	 * false with HEAD, 204, 304: body_length then is only announced, HTTP_LENGTH_UNKNOWN = announce none; what is
	 * written is dropped. The session knows these three too
	 */
	bool has_body;
	bool close;    /* end the connection after this exchange */
	bool upgraded; /* 101 or CONNECT's 2xx: raw bytes from here */
};

struct http_server {
	const struct http_server_ops *ops;
	/* bytes to send. The owner takes them after each call into the session, and calls http_server_fill before it does */
	struct rea_buffer out;
	bool output_waits;     /* fill left something inside, for out is long: fill again when it is not */
	bool want_close;       /* close the transport once out is empty; known after fill */
	bool want_reset;       /* with want_close: by RST, since a plain end would pass for the end of the message */
	bool reading_paused;   /* the owner must stop feeding (back-pressure, or a pipelined request that waits) */
	bool work_pending;     /* bytes it holds can be worked on now: call http_server_receive(server, NULL, 0) */
	enum http_error error; /* why it refused a message; NONE = it did not */
	uint64_t now_ns;       /* HTTP/2: set by the owner before receive; what floods is a matter of time */
	void *owner;           /* private: http_server_owner */
};
struct http_server_ops {
	/* 0, or negative: close after flushing out */
	int (*receive)(struct http_server *, const char *data, size_t length);
	void (*eof)(struct http_server *);
	void (*interim)(struct http_server_stream *, uint16_t status, const struct http_field *fields, size_t fields_len);
	int (*respond)(struct http_server_stream *, const struct http_response_head *head);
	int (*write)(struct http_server_stream *, const char *data, size_t length);
	int (*finish)(struct http_server_stream *, const struct http_field *trailers, size_t trailers_len);
	/*
	 * Give up in the middle of a response: the peer must see that it is cut. Until the owner closes, calls on the
	 * stream then do nothing, or return REA_ERR_IO.
	 */
	void (*reset)(struct http_server_stream *);
	void (*pause)(struct http_server_stream *); /* no more on_body, until resume */
	int (*resume)(struct http_server_stream *); /* delivers what was held; may make callbacks */
	/* a request head did not come in time: answer 408, then want_close */
	void (*timeout)(struct http_server *);
	/* the owner's backlog is small again: on_writable to every open stream that waits for it */
	void (*drained)(struct http_server *);
	/* NULL = calls write to out at once. Else: into out what waits inside, as long as out is not long */
	void (*fill)(struct http_server *);
	/* NULL = ask how much waits in out. Else: the stream holds enough; on_writable follows */
	bool (*congested)(struct http_server_stream *);
	void (*shutdown)(struct http_server *);      /* graceful: finish what is open, accept no more */
	bool (*idle)(const struct http_server *);    /* no exchange open and no byte of a next request */
	bool (*in_head)(const struct http_server *); /* a part of a request head has arrived */
	void (*free)(struct http_server *);
};

/* events and limits: borrowed while the session lives. owner: http_server_owner. NULL when out of memory. */
struct http_server *h1_server_new(const struct http_server_events *events, const struct http_limits *limits, void *owner);
struct http_server *h2_server_new(const struct http_server_events *events, const struct http_limits *limits, void *owner);
/* What an HTTP/2 client says first. */
#define H2_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define H2_PREFACE_LENGTH (sizeof(H2_PREFACE) - 1)
void *http_server_owner(const struct http_server *server);

/* Thin calls through ops. */
static inline int http_server_receive(struct http_server *s, const char *data, size_t length)
{
	return s->ops->receive(s, data, length);
}
static inline void http_server_eof(struct http_server *s)
{
	s->ops->eof(s);
}
static inline void http_server_interim(struct http_server_stream *s, uint16_t status, const struct http_field *f, size_t n)
{
	s->session->ops->interim(s, status, f, n);
}
static inline int http_server_respond(struct http_server_stream *s, const struct http_response_head *head)
{
	return s->session->ops->respond(s, head);
}
static inline int http_server_write(struct http_server_stream *s, const char *data, size_t length)
{
	return s->session->ops->write(s, data, length);
}
static inline int http_server_finish(struct http_server_stream *s, const struct http_field *f, size_t n)
{
	return s->session->ops->finish(s, f, n);
}
static inline void http_server_reset(struct http_server_stream *s)
{
	s->session->ops->reset(s);
}
static inline void http_server_pause(struct http_server_stream *s)
{
	s->session->ops->pause(s);
}
static inline int http_server_resume(struct http_server_stream *s)
{
	return s->session->ops->resume(s);
}
static inline void http_server_timeout(struct http_server *s)
{
	s->ops->timeout(s);
}
static inline void http_server_drained(struct http_server *s)
{
	s->ops->drained(s);
}
static inline void http_server_fill(struct http_server *s)
{
	if (s->ops->fill != NULL)
		s->ops->fill(s);
}
static inline void http_server_shutdown(struct http_server *s)
{
	s->ops->shutdown(s);
}
static inline bool http_server_idle(const struct http_server *s)
{
	return s->ops->idle(s);
}
static inline bool http_server_in_head(const struct http_server *s)
{
	return s->ops->in_head(s);
}
static inline void http_server_free(struct http_server *s)
{
	if (s)
		s->ops->free(s);
}

/* ------------------------------------------------------------------ client */

struct http_client;
struct http_client_stream {
	struct http_client *session;
	void *user;
	/* how many bytes had left or stood in the session's out before the first of this request: UINT64_MAX = none has come there */
	uint64_t first_byte;
	uint32_t error_code; /* HTTP/2, in on_error: the code of the peer's RST_STREAM, of our own, or of a GOAWAY */
};

/* Callbacks come from receive, eof, resume, drained and fill, as on the server's side. */
struct http_client_events {
	/* 1xx, not 101. Borrowed until return. */
	void (*on_interim)(struct http_client_stream *stream, const struct http_response *response);
	/* The final response head. Borrowed until return. on_body…, on_body_end follow, also for a body of length 0. */
	void (*on_response)(struct http_client_stream *stream, const struct http_response *response);
	void (*on_body)(struct http_client_stream *stream, const char *data, size_t length);
	/*
	 * The exchange is over on this side; trailers borrowed until return. What HTTP/2 has not been given of the request by
	 * then is not sent: nothing may be called on the stream any more.
	 */
	void (*on_body_end)(struct http_client_stream *stream, const struct http_field *trailers, size_t trailers_len);
	/*
	 * Undecodable reply, or the peer closed before the end (TRUNCATED), and what else a stream of HTTP/2 may die of:
	 * REFUSED and GOING_AWAY say that the peer provably did nothing, whatever was sent. The stream is over, and with it a
	 * session of HTTP/1; of HTTP/2 the other streams go on.
	 */
	void (*on_error)(struct http_client_stream *stream, enum http_error error);
	/* A producer that stopped because the stream was congested may go on. May be NULL. */
	void (*on_writable)(struct http_client_stream *stream);
};

struct http_request_head {
	struct rea_slice method;
	struct rea_slice scheme;    /* HTTP/2 only */
	struct rea_slice authority; /* Host */
	struct rea_slice path;
	/* hop_by_hop ones, Host, Content-Length and Expect are skipped; HTTP/2 lets `te: trailers` through */
	const struct http_field *fields;
	size_t fields_len;
	uint64_t skip;                 /* ids (1 << enum http_field_id) among fields that are left out too */
	const struct http_field *more; /* appended after them: what rea adds */
	size_t more_len;
	uint64_t body_length;
	bool upgrade; /* send Connection: upgrade and the Upgrade field */
};

struct http_client {
	const struct http_client_ops *ops;
	struct rea_buffer out; /* as the server's, with http_client_fill */
	bool output_waits;
	/*
	 * another exchange may begin: a new session, or the last exchange is over (keep-alive, nothing unread); of HTTP/2: the
	 * peer allows one stream more; what is begun beyond that waits inside until it does
	 */
	bool reusable;
	bool multiplexed;      /* many exchanges at once */
	bool full;             /* multiplexed: nothing more may wait inside either, for now */
	bool closing;          /* multiplexed: never again will an exchange begin; close when none is open */
	bool reading_paused;   /* the owner must stop feeding: the stream is paused and bytes are held */
	void *owner;           /* private: http_client_owner */
	size_t unread;         /* during a callback: bytes of the present receive that follow what it reports */
	uint32_t keep_alive_s; /* the server's hint (Keep-Alive: timeout=N); 0 = none */
	bool broken; /* set by the owner before eof: the transport did not end in order, so no message ends with it */
	uint64_t taken; /* set by the owner before begin and fill: bytes that it has taken from out so far */
};
struct http_client_ops {
	/*
	 * Begin an exchange; NULL when the session cannot take one: HTTP/1 that is not reusable, HTTP/2 that is full or closing. finish ends every request, one without a body too.
	 */
	struct http_client_stream *(*begin)(struct http_client *, const struct http_request_head *head, void *user);
	int (*write)(struct http_client_stream *, const char *data, size_t length);
	int (*finish)(struct http_client_stream *, const struct http_field *trailers, size_t trailers_len);
	/* negative: the session is dead, close */
	int (*receive)(struct http_client *, const char *data, size_t length);
	void (*eof)(struct http_client *);
	void (*pause)(struct http_client_stream *);
	int (*resume)(struct http_client_stream *);
	/* no more callbacks; HTTP/1: the session is dead, close; HTTP/2: RST_STREAM */
	void (*cancel)(struct http_client_stream *);
	void (*drained)(struct http_client *); /* as the server's */
	void (*fill)(struct http_client *);
	bool (*congested)(struct http_client_stream *);
	void (*ping)(struct http_client *); /* NULL = cannot. Ask the peer for a sign of life: what it then sends is one */
	void (*free)(struct http_client *);
};
struct http_client *h1_client_new(const struct http_client_events *events, const struct http_limits *limits, void *owner);
/* With prior knowledge: the preface goes out at once. */
struct http_client *h2_client_new(const struct http_client_events *events, const struct http_limits *limits, void *owner);
void *http_client_owner(const struct http_client *client);

static inline struct http_client_stream *http_client_begin(
    struct http_client *c, const struct http_request_head *head, void *user)
{
	return c->ops->begin(c, head, user);
}
static inline int http_client_write(struct http_client_stream *s, const char *data, size_t length)
{
	return s->session->ops->write(s, data, length);
}
static inline int http_client_finish(struct http_client_stream *s, const struct http_field *f, size_t n)
{
	return s->session->ops->finish(s, f, n);
}
static inline int http_client_receive(struct http_client *c, const char *data, size_t length)
{
	return c->ops->receive(c, data, length);
}
static inline void http_client_eof(struct http_client *c)
{
	c->ops->eof(c);
}
static inline void http_client_pause(struct http_client_stream *s)
{
	s->session->ops->pause(s);
}
static inline int http_client_resume(struct http_client_stream *s)
{
	return s->session->ops->resume(s);
}
static inline void http_client_cancel(struct http_client_stream *s)
{
	s->session->ops->cancel(s);
}
static inline void http_client_drained(struct http_client *c)
{
	c->ops->drained(c);
}
static inline void http_client_fill(struct http_client *c)
{
	if (c->ops->fill != NULL)
		c->ops->fill(c);
}
static inline void http_client_free(struct http_client *c)
{
	if (c)
		c->ops->free(c);
}

/* Field lookup: the first with the id, or NULL. */
const struct http_field *http_field_find(const struct http_field *fields, size_t fields_len, enum http_field_id id);
/* The first with that name (case-insensitive), or NULL. */
const struct http_field *http_field_named(const struct http_field *fields, size_t fields_len, struct rea_slice name);
/* The id of a name. */
enum http_field_id http_field_id_of(struct rea_slice name);

#endif
