/*
 * A TCP connection of a loop: reads into the loop's shared buffer, sends what gathers in an output buffer. Both kinds of
 * HTTP connection stand on it, and so do the scripted servers of src/lab, whose faults belong to the transport.
 */
#ifndef REA_SRC_LOOP_STREAM_H
#define REA_SRC_LOOP_STREAM_H

#include "base/buffer.h"
#include "loop/loop.h"

#define STREAM_READ_BYTES ((size_t)16 * 1024)
/* Small, since every connection may hold so much at once: a thousand slow readers must not cost more than some tens of MiB. */
#define STREAM_HIGH_WATER ((size_t)16 * 1024)
#define STREAM_LOW_WATER ((size_t)4 * 1024)

struct stream;

struct stream_events {
	void (*on_read)(struct stream *stream, const char *data, size_t length);
	/* The transport is dead (a uv error, UV_EOF for the peer's orderly end). Sending may still work after UV_EOF. */
	void (*on_end)(struct stream *stream, int status);
	/* Everything was sent. */
	void (*on_sent)(struct stream *stream);
	/* Fell below the low-water mark after having been congested. */
	void (*on_drain)(struct stream *stream);
	/* The handle is closed: free the object. */
	void (*on_closed)(struct stream *stream);
};

struct stream {
	uv_tcp_t tcp;
	struct loop *loop;
	const struct stream_events *events;
	struct rea_buffer *out;    /* the session's */
	struct rea_buffer writing; /* handed to a pending uv_write */
	uv_write_t write;
	uint64_t sent; /* bytes that the kernel took */
	struct stream *flush_next;
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
void stream_close(struct stream *stream);
void stream_close_reset(struct stream *stream);
#endif
