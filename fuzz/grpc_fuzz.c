/* gRPC's framing, timeouts and statuses: the first byte chooses the size of pieces, the rest is read as each of them. */
#include "http/grpc.h"

#include <rea/time.h>

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MESSAGE_MAX 1000

/* In pieces and in one, a body is the same messages. */
static uint64_t read_frames(const char *body, size_t length, size_t step, enum grpc_frame_error *ret_error)
{
	struct grpc_frames frames;
	uint64_t sum = 0;

	grpc_frames_init(&frames, MESSAGE_MAX);
	for (size_t at = 0; at < length; at += step) {
		struct rea_slice rest = rea_slice_make(body + at, length - at < step ? length - at : step), piece;
		bool complete;

		while (grpc_frames_next(&frames, &rest, &piece, &complete)) {
			if (piece.length > MESSAGE_MAX || frames.length > MESSAGE_MAX)
				abort();
			for (size_t i = 0; i < piece.length; i++)
				sum = sum * 31 + (uint8_t)piece.data[i];
			if (complete)
				sum = sum * 31 + 257 + frames.compressed;
		}
		if (rest.length > 0 && frames.error == GRPC_FRAME_OK)
			abort();
	}
	*ret_error = frames.error;
	return sum * 31 + frames.messages + grpc_frames_at_end(&frames);
}

static void read_texts(struct rea_slice text)
{
	struct rea_slice service, method;
	char written[GRPC_TIMEOUT_SIZE], encoded[3 * 64];
	enum grpc_status status;
	uint64_t ns, again;

	if (grpc_timeout_parse(text, &ns) &&
	    (!grpc_timeout_parse(rea_slice_make(written, grpc_timeout_format(ns, written)), &again) || again < ns))
		abort();
	if (grpc_status_parse(text, &status) && status >= GRPC_STATUS_COUNT)
		abort();
	if (grpc_pushback_parse(text, &ns) && ns > INT32_MAX * REA_NS_PER_MS)
		abort();
	if (grpc_path_split(text, &service, &method) && service.length + method.length + 2 != text.length)
		abort();
	grpc_is_content_type(text);
	for (size_t i = 0, length = grpc_message_encode(text, encoded, sizeof(encoded)); i < length; i++)
		if (encoded[i] < 0x20 || encoded[i] > 0x7e)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum grpc_frame_error in_pieces, in_one;
	const char *text = (const char *)data + 1;

	if (size == 0)
		return 0;
	if (read_frames(text, size - 1, (size_t)data[0] + 1, &in_pieces) != read_frames(text, size - 1, SIZE_MAX / 2, &in_one) ||
	    in_pieces != in_one)
		abort();
	read_texts(rea_slice_make(text, size - 1));
	return 0;
}
