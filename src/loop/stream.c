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

static void on_read(uv_stream_t *handle, ssize_t nread, const uv_buf_t *buf)
{
	struct stream *stream = stream_of((uv_handle_t *)handle);
	struct loop *loop = stream->loop;

	if (nread == 0)
		return;
	if (nread > 0) {
		stream->events->on_read(stream, buf->base, (size_t)nread);
	} else {
		stream_read_stop(stream);
		stream->events->on_end(stream, (int)nread);
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

size_t stream_pending(const struct stream *stream)
{
	return rea_buffer_length(stream->out) + rea_buffer_length(&stream->writing);
}

bool stream_congested(struct stream *stream)
{
	if (stream_pending(stream) < STREAM_HIGH_WATER)
		return false;
	stream->congested = true;
	return true;
}

static void write_out(struct stream *stream);

/* A peer that resets us may have answered before: its words are read to the end, only ours are thrown away. */
static void write_failed(struct stream *stream, int status)
{
	stream->write_dead = true;
	rea_buffer_clear(stream->out);
	rea_buffer_clear(&stream->writing);
	if (!stream->reading)
		stream->events->on_end(stream, status);
}

static void after_write(struct stream *stream)
{
	size_t pending = stream_pending(stream);

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
		stream->sent += rea_buffer_length(&stream->writing);
		rea_buffer_clear(&stream->writing);
		rea_buffer_trim(&stream->writing, OUT_KEEP_BYTES);
		after_write(stream);
		write_out(stream);
	}
	loop_flush(loop);
}

/* What the kernel does not take at once moves into `writing`, which stays in place until uv_write is done; new output gathers in `out`. */
static void write_later(struct stream *stream)
{
	struct rea_buffer empty = stream->writing;
	uv_buf_t buf;
	int error;

	stream->writing = *stream->out;
	*stream->out = empty;
	buf = uv_buf_init(stream->writing.data + stream->writing.start, (unsigned)rea_buffer_length(&stream->writing));
	stream->write.data = stream;
	error = uv_write(&stream->write, (uv_stream_t *)&stream->tcp, &buf, 1, on_written);
	stream->write_pending = error == 0;
	if (error != 0)
		write_failed(stream, error);
}

static void write_out(struct stream *stream)
{
	size_t length = rea_buffer_length(stream->out);
	uv_buf_t buf;
	int written;

	if (stream->closing || stream->write_pending || length == 0)
		return;
	if (stream->write_dead) {
		rea_buffer_clear(stream->out);
		return;
	}
	buf = uv_buf_init(stream->out->data + stream->out->start, (unsigned)length);
	written = uv_try_write((uv_stream_t *)&stream->tcp, &buf, 1);
	if (written > 0) {
		stream->sent += (uint64_t)written;
		rea_buffer_consume(stream->out, (size_t)written);
		rea_buffer_trim(stream->out, OUT_KEEP_BYTES);
	} else if (written != UV_EAGAIN && written != 0) {
		write_failed(stream, written);
		return;
	}
	if (rea_buffer_length(stream->out) > 0)
		write_later(stream);
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
	stream->events->on_closed(stream);
}

void stream_close(struct stream *stream)
{
	if (stream->closing)
		return;
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
