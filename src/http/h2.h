/*
 * What both ends of an HTTP/2 connection (RFC 9113) share: a session of nghttp2, its streams, and what waits in them. Private to
 * src/http; h2_server.c and h2_client.c stand on it.
 *
 * nghttp2 does the framing, the compression and the flow control, and refuses what is malformed. Here are the bounds: a stream holds at
 * most H2_STREAM_HIGH and one piece of what is written to it, and at most its window of what its reader does not take.
 */
#ifndef REA_SRC_HTTP_H2_H
#define REA_SRC_HTTP_H2_H

#include "http/http.h"

#include <nghttp2/nghttp2.h>

/* Streams that a client may have open at once. */
#define H2_STREAMS_MAX 100u
/* Of what one connection receives, unread. A stream's own is the protocol's, 65535: that is what a paused one may hold. */
#define H2_CONNECTION_WINDOW (1 << 20)
/* Past this out is long: what else there is to send waits inside. */
#define H2_OUT_HIGH ((size_t)16 * 1024)
/* Where a stream is congested, and is not any more. */
#define H2_STREAM_HIGH ((size_t)16 * 1024)
#define H2_STREAM_LOW ((size_t)4 * 1024)
/*
 * Streams that we have reset lately: on them the peer may have sent more, which is no fault of it. It has more of them unknown to it at no time,
 * since it opens another only when it knows that one is closed.
 */
#define H2_RESETS_KEPT 128u
/*
 * Streams of a client that wait until its peer allows them. One that is given up keeps its place, empty, until its turn comes: this bounds what a peer can make
 * us keep that holds the ones it has taken.
 */
#define H2_WAITING_MAX 1000u
/* Frames that lead nowhere: so many at once, and so many a second. */
#define H2_WASTE_MAX 500u
#define H2_WASTE_PER_S 50u
/* A request that its client resets sooner than this was one of them. */
#define H2_WASTE_NS (50 * REA_NS_PER_MS)

/* Fields of one head or trailer section. Their text stays in nghttp2's memory, which it counts for us. */
struct h2_fields {
	struct http_field *items;
	nghttp2_rcbuf **owned; /* names and values */
	size_t length;
	size_t capacity;
	size_t owned_len;           /* at most twice the capacity */
	struct rea_slice pseudo[4]; /* by enum h2_pseudo */
	nghttp2_rcbuf *pseudo_owned[4];
	size_t bytes;
	enum http_error error; /* more than the limits allow */
};
enum h2_pseudo { H2_METHOD, H2_STATUS = H2_METHOD, H2_SCHEME, H2_AUTHORITY, H2_PATH };

struct h2;

struct h2_stream {
	/* Memory that stays when the stream is used again. */
	struct rea_buffer out;  /* written, not sent */
	struct rea_buffer tail; /* trailers to send behind it */
	struct rea_buffer held; /* received, not taken */
	struct rea_buffer text; /* of fields that had to be put together */
	struct h2_fields head, trailers;
	struct h2_stream *prev, *next; /* in h2->streams; next: in its lists of ended and spare ones */
	/* From here on zero at the start of each. */
	struct h2 *h2;
	int32_t id;
	uint64_t left;   /* of the body that is sent: bytes that must still come, when they were announced */
	bool body;       /* one is sent */
	bool finished;   /* written to its end */
	bool deferred;   /* nghttp2 waits to be told of more */
	bool congested;  /* its writer waits for on_writable */
	bool writable;   /* and is to be told */
	bool paused;     /* its reader takes nothing */
	bool delivering; /* what was held */
	bool headed;     /* its head has come */
	bool received;   /* to its end */
	bool end_told;   /* and its reader knows */
	bool peer_reset;
	bool over;   /* for whoever uses it: no callback any more */
	bool closed; /* for nghttp2 */
		     /* The end's own part follows. */
};

/* What an end makes of it. */
struct h2_role {
	size_t stream_size;
	bool keeps_received; /* what has come to its end is delivered even when the connection has ended */
	/* Whose head begins, when nghttp2 does not know yet; NULL = refuse it. May be NULL itself. */
	struct h2_stream *(*opened)(struct h2 *h2, int32_t id);
	/* A head has come; sets headed when no other may follow. ends: and nothing else. */
	void (*head)(struct h2_stream *stream, bool ends);
	void (*body)(struct h2_stream *stream, const char *data, size_t length);
	void (*body_end)(struct h2_stream *stream);
	void (*writable)(struct h2_stream *stream);
	/* The stream is over, not by its user. code: of the RST_STREAM, ours or the peer's; 0 = the connection is gone. */
	void (*broken)(struct h2_stream *stream, enum http_error error, uint32_t code);
	/* Any frame comes, whether nghttp2 passes over it or not; one has come, and is none of HEADERS. False = the connection ends, for h2->error. Each may be NULL. */
	bool (*frame_begins)(struct h2 *h2, const nghttp2_frame_hd *head);
	bool (*frame)(struct h2 *h2, const nghttp2_frame *frame);
	void (*frame_starts)(struct h2 *h2, const nghttp2_frame *frame); /* it will stand at the end of out */
	void (*frame_sent)(struct h2 *h2, const nghttp2_frame *frame);   /* may be NULL */
	/* The connection is at its end: h2->dead is set, no stream is left but those that are kept. */
	void (*ended)(struct h2 *h2);
};

struct h2 {
	const struct h2_role *role;
	const struct http_limits *limits;
	struct rea_buffer *out;
	nghttp2_session *session;
	struct h2_piece *pieces; /* of its memory */
	nghttp2_nv *nv;          /* of the head that is being made */
	size_t nv_len, nv_capacity;
	struct h2_stream *streams;
	struct h2_stream *ended; /* to be used again when no callback is on the stack */
	struct h2_stream *spares;
	struct h2_stream *head_of;   /* whose head or trailers are arriving */
	size_t preface_left;         /* to receive */
	unsigned char frame_head[9]; /* as far as it has come */
	size_t frame_head_len;
	size_t frame_left;      /* of the present frame's payload */
	size_t unread;          /* bytes of the present receive behind the frame that is reported */
	unsigned continuations; /* of the present head */
	size_t streams_len;     /* that nghttp2 has not closed */
	size_t spares_len;
	size_t writables; /* streams that are to be told */
	bool inside;      /* nghttp2 is on the stack */
	bool filling;
	bool dead;
	enum http_error error; /* why */
	uint32_t code;         /* what the peer is told of it; 0 = what fits the error */
};

/* server: which end. 0 or REA_ERR_NOMEM; h2_fini in both cases. */
int h2_init(struct h2 *h2, const struct h2_role *role, const struct http_limits *limits, struct rea_buffer *out, bool server);
void h2_fini(struct h2 *h2);

/* 0 = the connection lives. */
int h2_receive(struct h2 *h2, const char *data, size_t length);
/* True = out is long, something may wait inside. */
bool h2_fill(struct h2 *h2);
/* The connection is over: every stream hears of it that is not kept. */
void h2_end(struct h2 *h2, enum http_error error);

/* A stream whose out, held and fields are empty; NULL = out of memory. */
struct h2_stream *h2_stream_new(struct h2 *h2);
/* It was never given to nghttp2. */
void h2_stream_drop(struct h2_stream *stream);
/* Its user has nothing to do with it any more. code: of the RST_STREAM that ends it. */
void h2_stream_cancel(struct h2_stream *stream, uint32_t code);
/* The same, and its user has to be told: broken. */
void h2_stream_refuse(struct h2_stream *stream, enum http_error error, uint32_t code);
/* Its user has nothing to do with it any more; what it wrote is still sent. */
void h2_stream_over(struct h2_stream *stream);
/* REA_ERR_INVALID: more, or less, than announced. */
int h2_stream_write(struct h2_stream *stream, const char *data, size_t length);
int h2_stream_finish(struct h2_stream *stream, const struct http_field *trailers, size_t trailers_len);
bool h2_stream_congested(struct h2_stream *stream);
int h2_stream_resume(struct h2_stream *stream);

/* Heads to send. False = out of memory. text: borrowed until the head is submitted. */
void h2_head_begin(struct h2 *h2);
bool h2_head_add(struct h2 *h2, struct rea_slice name, struct rea_slice value);
/* except: ids (1 << enum http_field_id) that are left out; connection-level ones are anyway. */
bool h2_head_add_fields(struct h2 *h2, const struct http_field *fields, size_t fields_len, uint64_t except);
/* What its body is read from. */
nghttp2_data_provider h2_body_of(struct h2_stream *stream);

void h2_fields_clear(struct h2_fields *fields);
/* The announced length; HTTP_LENGTH_UNKNOWN = none. */
uint64_t h2_content_length(const struct h2_fields *fields);

#define H2_DIGITS 20
struct rea_slice h2_decimal(uint64_t value, char digits[H2_DIGITS]);

#endif
