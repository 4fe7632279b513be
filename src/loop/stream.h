/*
 * A TCP connection of a loop: reads into the loop's shared buffer, sends what gathers in an output buffer. Both kinds of
 * HTTP connection stand on it, and so do the scripted servers of src/lab, whose faults belong to the transport.
 *
 * With TLS, what comes and goes here is the plaintext: out waits until the handshake is over, so nothing of it leaves on a connection that is refused.
 */
#ifndef REA_SRC_LOOP_STREAM_H
#define REA_SRC_LOOP_STREAM_H

#include "base/buffer.h"
#include "loop/loop.h"
#include "loop/tls.h"

#define STREAM_READ_BYTES ((size_t)16 * 1024)
/* What one read can come to: a record that was almost complete, and another one's worth. */
#define STREAM_PLAIN_BYTES ((size_t)33 * 1024)
/* Small, since every connection may hold so much at once: a thousand slow readers must not cost more than some tens of MiB. */
#define STREAM_HIGH_WATER ((size_t)16 * 1024)
#define STREAM_LOW_WATER ((size_t)4 * 1024)

struct stream;

struct stream_events {
	void (*on_read)(struct stream *stream, const char *data, size_t length);
	/*
	 * The transport is dead (a uv error, UV_EOF for the peer's orderly end). Sending may still work after UV_EOF. With TLS, UV_EPROTO is a failure of it,
	 * and an end without a closing alert is UV_ECONNRESET: stream_trouble tells more.
	 */
	void (*on_end)(struct stream *stream, int status);
	/* Everything was sent. */
	void (*on_sent)(struct stream *stream);
	/* Fell below the low-water mark after having been congested. */
	void (*on_drain)(struct stream *stream);
	/* The handle is closed: free the object. */
	void (*on_closed)(struct stream *stream);
	/* What is in out is about to be sent: put there what goes with it. May be NULL. */
	void (*on_flush)(struct stream *stream);
	/* The TLS handshake is over, and all is well. May be NULL without TLS. */
	void (*on_secure)(struct stream *stream);
};

struct stream {
	uv_tcp_t tcp;
	struct loop *loop;
	const struct stream_events *events;
	struct rea_buffer *out;    /* the session's */
	struct rea_buffer writing; /* handed to a pending uv_write */
	uv_write_t write;
	uint64_t sent; /* bytes of out that the kernel took, or may have taken */
	struct stream *flush_next;
	struct tls_session *tls; /* NULL = none; set before the first read, freed with the stream */
	uint64_t sealed;         /* bytes of out that TLS took */
	bool secure;             /* its handshake is over */
	bool flush_queued;
	bool write_pending;
	bool write_dead; /* sending failed; what the peer said before is still read */
	bool reading;
	bool congested;
	bool closing;
};

int stream_init(struct stream *stream, struct loop *loop, const struct stream_events *events, struct rea_buffer *out);
int stream_read_start(struct stream *stream);
void stream_read_stop(struct stream *stream);
/* Send what is in out at the end of the present callback. */
void stream_flush(struct stream *stream);
size_t stream_pending(const struct stream *stream);
/* Above the high-water mark; remembers it, so that on_drain follows. */
bool stream_congested(struct stream *stream);
/* A client begins its TLS handshake, once it is connected. */
void stream_handshake(struct stream *stream);
/* Why TLS failed, or cut the connection; "" = it did not. */
const char *stream_trouble(const struct stream *stream);
/* End our direction, after what waits to be sent. done(request) as of uv_shutdown. */
int stream_shutdown(struct stream *stream, uv_shutdown_t *request, uv_shutdown_cb done);
void stream_close(struct stream *stream);
void stream_close_reset(struct stream *stream);
#endif
