/*
 * gRPC as it stands on HTTP/2: what its fields and its frames say. Sans-IO, no allocation. Peers' texts are only read here: what a peer
 * says in grpc-message is passed on byte for byte by whoever forwards it.
 */
#ifndef REA_SRC_HTTP_GRPC_H
#define REA_SRC_HTTP_GRPC_H

#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(NAME, number), all that there are. */
#define GRPC_STATUS_MAP(X)        \
	X(OK, 0)                  \
	X(CANCELLED, 1)           \
	X(UNKNOWN, 2)             \
	X(INVALID_ARGUMENT, 3)    \
	X(DEADLINE_EXCEEDED, 4)   \
	X(NOT_FOUND, 5)           \
	X(ALREADY_EXISTS, 6)      \
	X(PERMISSION_DENIED, 7)   \
	X(RESOURCE_EXHAUSTED, 8)  \
	X(FAILED_PRECONDITION, 9) \
	X(ABORTED, 10)            \
	X(OUT_OF_RANGE, 11)       \
	X(UNIMPLEMENTED, 12)      \
	X(INTERNAL, 13)           \
	X(UNAVAILABLE, 14)        \
	X(DATA_LOSS, 15)          \
	X(UNAUTHENTICATED, 16)

enum grpc_status {
#define X(name, number) GRPC_##name = (number),
	GRPC_STATUS_MAP(X)
#undef X
	    GRPC_STATUS_COUNT
};

/* "application/grpc", alone or followed by "+…" or ";…"; not "application/grpc-web". */
bool grpc_is_content_type(struct rea_slice value);
/* A value of grpc-status: digits only. A number that is no status is UNKNOWN, as the protocol has it; false for anything else. */
bool grpc_status_parse(struct rea_slice value, enum grpc_status *ret_status);
/* What a reply without grpc-status means, by its HTTP status (the protocol's own table); also for 200, which is UNKNOWN then. */
enum grpc_status grpc_status_from_http(uint16_t status);
/* What the end of a stream by RST_STREAM means, by its HTTP/2 error code. */
enum grpc_status grpc_status_from_h2(uint32_t error_code);

/* grpc-timeout: 1 to 8 digits and one of H M S m u n. False for anything else. "99999999H" fits. */
bool grpc_timeout_parse(struct rea_slice value, uint64_t *ret_ns);
/* The same, in the finest unit that fits, rounded up: a callee must not be told to stop before its time. Returns the length. */
#define GRPC_TIMEOUT_SIZE 9
size_t grpc_timeout_format(uint64_t ns, char ret_text[GRPC_TIMEOUT_SIZE]);

/* grpc-retry-pushback-ms: a signed 32-bit number. False for a negative one and for what is none: both forbid a retry. */
bool grpc_pushback_parse(struct rea_slice value, uint64_t *ret_wait_ns);

/* A text as grpc-message holds it: printable ASCII but "%" as it is, other bytes as %XX. Cut at size between two of them. Returns the length. */
size_t grpc_message_encode(struct rea_slice text, char *ret_text, size_t size);

/* "/package.Service/Method" into its two parts; both are not empty, and Method has no slash. path: without query. */
bool grpc_path_split(struct rea_slice path, struct rea_slice *ret_service, struct rea_slice *ret_method);

/*
 * The messages of a body, one behind the other: a byte that says whether it is compressed, four of length, the message. Tells of each piece as it
 * comes; of a body that breaks the rules it says which one, and takes nothing more.
 */
#define GRPC_PREFIX_BYTES 5
enum grpc_frame_error {
	GRPC_FRAME_OK,
	GRPC_FRAME_BAD_FLAG,  /* the first byte is neither 0 nor 1: INTERNAL */
	GRPC_FRAME_TOO_LARGE, /* longer than the limit: RESOURCE_EXHAUSTED */
};
struct grpc_frames {
	uint32_t limit;                    /* the longest message that is taken */
	uint32_t left;                     /* private: bytes of the present message that are to come */
	uint32_t length;                   /* of the present message */
	uint64_t messages;                 /* begun so far */
	uint8_t prefix_len;                /* private */
	uint8_t prefix[GRPC_PREFIX_BYTES]; /* private */
	bool compressed;                   /* the present message */
	enum grpc_frame_error error;
};
void grpc_frames_init(struct grpc_frames *frames, uint32_t limit);
/* Takes from the front of *data up to the end of a message at most. ret_piece: what of it is the message's. Returns false when *data is used up and
 * nothing can be told; after true ask again. ret_complete: the message is whole with this piece. */
bool grpc_frames_next(struct grpc_frames *frames, struct rea_slice *data, struct rea_slice *ret_piece, bool *ret_complete);
/* Does the body end where a message does? */
bool grpc_frames_at_end(const struct grpc_frames *frames);
void grpc_prefix_make(uint32_t length, char ret_prefix[GRPC_PREFIX_BYTES]);

#endif
