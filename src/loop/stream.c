#include "loop/stream.h"

#include <assert.h>

/* An empty output buffer that grew past this gives its memory back. */
#define OUT_KEEP_BYTES ((size_t)8 * 1024)

static struct stream *stream_of(uv_handle_t *handle)
{
	return handle->data;
}

int stream_init(struct stream *stream, struct loop *loop, const struct stream_events *events, struct rea_buffer *out)
{
	int error = uv_tcp_init(&loop->uv, &stream->tcp);

	if (error != 0)
		return error;
	stream->tcp.data = stream;
	stream->loop = loop;
	stream->events = events;
	stream->out = out;
	return 0;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	(void)suggested;
	*buf = uv_buf_init(stream_of(handle)->loop->read_buffer, STREAM_READ_BYTES);
}

/* ---- TLS ---- */

static void write_out(struct stream *stream);

static void count(atomic_uint_fast64_t *counter)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

static struct loop_tls_counts *counts_of(struct stream *stream)
{
	return &stream->loop->tls[tls_session_side(stream->tls)];
}

static void shake(struct stream *stream)
{
	if (stream->secure || tls_handshake(stream->tls) != TLS_OPEN)
		return;
	stream->secure = true;
	count(&counts_of(stream)->done);
	if (tls_session_resumed(stream->tls))
		count(&counts_of(stream)->resumed);
	stream->events->on_secure(stream);
}

/* What TLS has come to say, and what that means for the stream. */
static void follow_tls(struct stream *stream)
{
	enum tls_state state = tls_session_state(stream->tls);

	if (state == TLS_FAILED) {
		if (!stream->secure)
			count(&counts_of(stream)->failed);
		/* The server has read nothing of what we sent after a handshake that it did not take. */
		if (tls_session_rejected(stream->tls))
			stream->sent = 0;
		write_out(stream);
	} else if (rea_buffer_length(tls_wire(stream->tls)) > 0) {
		stream_flush(stream);
	}
	if (stream->closing || (state != TLS_FAILED && state != TLS_PEER_CLOSED))
		return;
	stream_read_stop(stream);
	stream->events->on_end(stream, state == TLS_FAILED ? UV_EPROTO : UV_EOF);
}

static void read_tls(struct stream *stream, const char *data, size_t length)
{
	char *plain = stream->loop->read_buffer + STREAM_READ_BYTES;
	size_t filled = 0, got;

	/* What a peer says after we have refused it. */
	if (tls_session_state(stream->tls) == TLS_FAILED)
		return;
	tls_give(stream->tls, data, length);
	shake(stream);
	if (stream->closing)
		return;
	while ((got = tls_read(stream->tls, plain + filled, STREAM_PLAIN_BYTES - filled)) > 0)
		filled += got;
	if (filled > 0)
		stream->events->on_read(stream, plain, filled);
	if (!stream->closing)
		follow_tls(stream);
}

/* Returns how the end is to be told. */
static int end_tls(struct stream *stream, int status)
{
	if (tls_session_state(stream->tls) == TLS_PEER_CLOSED)
		return status;
	if (!stream->secure && tls_session_state(stream->tls) == TLS_HANDSHAKE && !tls_session_untouched(stream->tls))
		count(&counts_of(stream)->failed);
	tls_end(stream->tls, status == UV_EOF ? "the peer closed the connection" : uv_strerror(status));
	return status == UV_EOF ? UV_ECONNRESET : status;
}

void stream_handshake(struct stream *stream)
{
	shake(stream);
	follow_tls(stream);
}

const char *stream_trouble(const struct stream *stream)
{
	return stream->tls != NULL ? tls_session_trouble(stream->tls) : "";
}

/* ---- reading ---- */

static void on_read(uv_stream_t *handle, ssize_t nread, const uv_buf_t *buf)
{
	struct stream *stream = stream_of((uv_handle_t *)handle);
	struct loop *loop = stream->loop;
	int status = (int)nread;

	if (nread == 0)
		return;
	if (nread > 0 && stream->tls != NULL) {
		read_tls(stream, buf->base, (size_t)nread);
	} else if (nread > 0) {
		stream->events->on_read(stream, buf->base, (size_t)nread);
	} else {
		stream_read_stop(stream);
		stream->events->on_end(stream, stream->tls != NULL ? end_tls(stream, status) : status);
	}
	loop_flush(loop);
}

int stream_read_start(struct stream *stream)
{
	int error;

	if (stream->reading || stream->closing)
		return 0;
	error = uv_read_start((uv_stream_t *)&stream->tcp, on_alloc, on_read);
	stream->reading = error == 0;
	return error;
}

void stream_read_stop(struct stream *stream)
{
	if (!stream->reading)
		return;
	uv_read_stop((uv_stream_t *)&stream->tcp);
	stream->reading = false;
}

/* ---- writing ---- */

/* What goes to the kernel. */
static struct rea_buffer *wire_of(const struct stream *stream)
{
	return stream->tls != NULL ? tls_wire(stream->tls) : stream->out;
}

size_t stream_pending(const struct stream *stream)
{
	size_t sealed = stream->tls != NULL ? rea_buffer_length(tls_wire(stream->tls)) : 0;

	return rea_buffer_length(stream->out) + sealed + rea_buffer_length(&stream->writing);
}

bool stream_congested(struct stream *stream)
{
	if (stream_pending(stream) < STREAM_HIGH_WATER)
		return false;
	stream->congested = true;
	return true;
}

/* A peer that resets us may have answered before: its words are read to the end, only ours are thrown away. */
static void write_failed(struct stream *stream, int status)
{
	stream->write_dead = true;
	rea_buffer_clear(stream->out);
	rea_buffer_clear(wire_of(stream));
	rea_buffer_clear(&stream->writing);
	if (!stream->reading)
		stream->events->on_end(stream, status);
}

static void after_write(struct stream *stream)
{
	size_t pending = stream_pending(stream);

	if (stream->tls != NULL && !stream->secure)
		return;
	if (stream->congested && pending < STREAM_LOW_WATER) {
		stream->congested = false;
		stream->events->on_drain(stream);
	}
	if (!stream->closing && stream_pending(stream) == 0)
		stream->events->on_sent(stream);
}

static void on_written(uv_write_t *request, int status)
{
	struct stream *stream = request->data;
	struct loop *loop = stream->loop;

	stream->write_pending = false;
	if (stream->closing)
		return;
	if (status != 0) {
		write_failed(stream, status);
	} else {
		rea_buffer_clear(&stream->writing);
		rea_buffer_trim(&stream->writing, OUT_KEEP_BYTES);
		after_write(stream);
		write_out(stream);
	}
	loop_flush(loop);
}

/* So much of the wire has gone to the kernel, or may have. Of a record, any part counts as all that was sealed. */
static void count_sent(struct stream *stream, size_t length)
{
	if (stream->tls != NULL)
		stream->sent = stream->sealed;
	else
		stream->sent += length;
}

/* What the kernel does not take at once moves into `writing`, which stays in place until uv_write is done; new output gathers anew. */
static void write_later(struct stream *stream, struct rea_buffer *wire)
{
	struct rea_buffer empty = stream->writing;
	uv_buf_t buf;
	int error;

	stream->writing = *wire;
	*wire = empty;
	buf = uv_buf_init(stream->writing.data + stream->writing.start, (unsigned)rea_buffer_length(&stream->writing));
	stream->write.data = stream;
	/* From here on nobody knows how much of it has left. */
	count_sent(stream, rea_buffer_length(&stream->writing));
	error = uv_write(&stream->write, (uv_stream_t *)&stream->tcp, &buf, 1, on_written);
	stream->write_pending = error == 0;
	if (error != 0)
		write_failed(stream, error);
}

/* From out to the wire; not before the handshake is over, and nothing after TLS has failed. */
static bool seal(struct stream *stream)
{
	size_t length = rea_buffer_length(stream->out);

	if (tls_session_state(stream->tls) == TLS_FAILED)
		rea_buffer_clear(stream->out);
	if (!stream->secure || rea_buffer_length(stream->out) == 0)
		return true;
	stream->sealed += length;
	if (!tls_seal(stream->tls, stream->out))
		return false;
	rea_buffer_trim(stream->out, OUT_KEEP_BYTES);
	return true;
}

static void write_out(struct stream *stream)
{
	struct rea_buffer *wire = wire_of(stream);
	uv_buf_t buf;
	int written;

	if (stream->closing || stream->write_pending)
		return;
	if (stream->write_dead) {
		rea_buffer_clear(stream->out);
		rea_buffer_clear(wire);
		return;
	}
	if (stream->tls != NULL && !seal(stream)) {
		write_failed(stream, UV_EPROTO);
		return;
	}
	if (rea_buffer_length(wire) == 0)
		return;
	buf = uv_buf_init(wire->data + wire->start, (unsigned)rea_buffer_length(wire));
	written = uv_try_write((uv_stream_t *)&stream->tcp, &buf, 1);
	if (written > 0) {
		count_sent(stream, (size_t)written);
		rea_buffer_consume(wire, (size_t)written);
		rea_buffer_trim(wire, OUT_KEEP_BYTES);
	} else if (written != UV_EAGAIN && written != 0) {
		write_failed(stream, written);
		return;
	}
	if (rea_buffer_length(wire) > 0)
		write_later(stream, wire);
	else
		after_write(stream);
}

void stream_flush(struct stream *stream)
{
	if (stream->flush_queued || stream->closing)
		return;
	stream->flush_queued = true;
	stream->flush_next = stream->loop->flush;
	stream->loop->flush = stream;
}

void loop_flush(struct loop *loop)
{
	struct stream *stream;

	while ((stream = loop->flush) != NULL) {
		loop->flush = stream->flush_next;
		stream->flush_queued = false;
		if (stream->events->on_flush != NULL)
			stream->events->on_flush(stream);
		write_out(stream);
	}
}

static void unqueue(struct stream *stream)
{
	struct stream **link = &stream->loop->flush;

	if (!stream->flush_queued)
		return;
	while (*link != stream)
		link = &(*link)->flush_next;
	*link = stream->flush_next;
	stream->flush_queued = false;
}

static void on_close(uv_handle_t *handle)
{
	struct stream *stream = stream_of(handle);

	rea_buffer_fini(&stream->writing);
	tls_session_free(stream->tls);
	stream->tls = NULL;
	stream->events->on_closed(stream);
}

int stream_shutdown(struct stream *stream, uv_shutdown_t *request, uv_shutdown_cb done)
{
	if (stream->tls != NULL) {
		tls_close(stream->tls);
		write_out(stream);
	}
	return uv_shutdown(request, (uv_stream_t *)&stream->tcp, done);
}

/* Said if it can be said at once: that the connection ends here, and not in the middle. */
static void say_end(struct stream *stream)
{
	const struct rea_buffer *wire;
	uv_buf_t buf;

	if (stream->tls == NULL || !stream->secure || stream->write_pending || stream->write_dead)
		return;
	tls_close(stream->tls);
	wire = tls_wire(stream->tls);
	if (rea_buffer_length(wire) == 0)
		return;
	buf = uv_buf_init(wire->data + wire->start, (unsigned)rea_buffer_length(wire));
	uv_try_write((uv_stream_t *)&stream->tcp, &buf, 1);
}

void stream_close(struct stream *stream)
{
	if (stream->closing)
		return;
	say_end(stream);
	unqueue(stream);
	stream->closing = true;
	uv_close((uv_handle_t *)&stream->tcp, on_close);
}

void stream_close_reset(struct stream *stream)
{
	if (stream->closing)
		return;
	unqueue(stream);
	stream->closing = true;
	/* Refused by libuv while a shutdown is pending or the socket is not there: then an ordinary close must do. */
	if (uv_tcp_close_reset(&stream->tcp, on_close) != 0)
		uv_close((uv_handle_t *)&stream->tcp, on_close);
}
