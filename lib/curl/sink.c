#include "curl/sink.h"

#include <assert.h>

/* Before the bytes of each record. */
struct record {
	size_t length;
	enum rea__sink_kind kind;
};

void rea__sink_init(struct rea__sink *sink, const struct rea_curl_call *call, const struct rea_alloc *alloc)
{
	*sink = (struct rea__sink){
	    .write = call->write,
	    .write_data = call->write_data,
	    .header = call->header,
	    .header_data = call->header_data,
	    .held = {.alloc = alloc},
	    .held_max = call->held_bytes_max,
	};
}

void rea__sink_fini(struct rea__sink *sink)
{
	rea_buffer_fini(&sink->held);
}

static size_t give(struct rea__sink *sink, enum rea__sink_kind kind, char *data, size_t length)
{
	return kind == REA__SINK_HEADER ? sink->header(data, 1, length, sink->header_data)
					: sink->write(data, 1, length, sink->write_data);
}

static bool hold(struct rea__sink *sink, enum rea__sink_kind kind, const char *data, size_t length)
{
	const struct record record = {length, kind};

	if (length > sink->held_max - sink->held_bytes || rea_buffer_reserve(&sink->held, sizeof(record) + length) != 0)
		return false;
	rea_buffer_append(&sink->held, (const char *)&record, sizeof(record));
	rea_buffer_append(&sink->held, data, length);
	sink->held_bytes += length;
	return true;
}

/* Hand over what is held: bodies in the pieces that libcurl makes, header lines whole. False when the program did not
 * take a piece; what it said then is written to ret_answer, and the piece stays. */
static bool hand_over(struct rea__sink *sink, size_t *ret_answer)
{
	struct record record;

	while (rea_buffer_length(&sink->held) > 0) {
		size_t length, taken;

		if (sink->rest == 0) {
			memcpy(&record, rea_buffer_data(&sink->held), sizeof(record));
			rea_buffer_consume(&sink->held, sizeof(record));
			sink->rest = record.length;
			sink->rest_kind = record.kind;
		}
		length = sink->rest;
		if (sink->rest_kind == REA__SINK_BODY && length > CURL_MAX_WRITE_SIZE)
			length = CURL_MAX_WRITE_SIZE;
		taken = give(sink, sink->rest_kind, sink->held.data + sink->held.start, length);
		if (taken != length) {
			*ret_answer = taken;
			return false;
		}
		rea_buffer_consume(&sink->held, length);
		sink->rest -= length;
	}
	return true;
}

size_t rea__sink_put(struct rea__sink *sink, enum rea__sink_kind kind, char *data, size_t length, bool hold_back)
{
	size_t answer;

	if (!sink->open && hold_back && hold(sink, kind, data, length))
		return length;
	sink->open = true;
	/* libcurl brings a piece again after a pause, and breaks off at any other number that is not the piece's
	 * length. */
	if (!hand_over(sink, &answer))
		return answer == CURL_WRITEFUNC_PAUSE ? answer : CURL_WRITEFUNC_ERROR;
	return give(sink, kind, data, length);
}

bool rea__sink_release(struct rea__sink *sink)
{
	size_t answer;

	sink->open = true;
	return hand_over(sink, &answer);
}

void rea__sink_drop(struct rea__sink *sink)
{
	assert(!sink->open);
	rea_buffer_clear(&sink->held);
	sink->held_bytes = 0;
}
