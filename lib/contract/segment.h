/* Cutting a request path or a template into segments, refusing what two programs may read differently. */
#ifndef REA_CONTRACT_SEGMENT_H
#define REA_CONTRACT_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rea__segment {
	const char *text; /* as written, not terminated */
	uint32_t length;
	bool escaped;  /* holds percent-escapes */
	uint64_t hash; /* of the decoded text */
};

/* What is wrong with a path; OK = nothing. */
enum rea__path {
	REA__PATH_OK,
	REA__PATH_NOT_ROOTED,
	REA__PATH_EMPTY_SEGMENT,
	REA__PATH_DOT_SEGMENT,
	REA__PATH_BAD_CHARACTER,
	REA__PATH_BAD_ESCAPE,
	REA__PATH_TOO_MANY
};

/* Cut a path of length bytes, up to a "?", into segments (room for REA_CONTRACT_SEGMENTS_MAX). "/" has none. */
enum rea__path rea__path_split(const char *path, size_t length, struct rea__segment *ret_segments, size_t *ret_count);
/* Does the segment, decoded, equal a text that is decoded already? */
bool rea__segment_equal(const struct rea__segment *segment, const char *text, size_t length);
/* Write the decoded text, at most segment->length bytes. Returns its length. */
size_t rea__segment_decode(const struct rea__segment *segment, char *ret_text);
/* A token of HTTP: the name of a method or a header field. */
bool rea__is_token(const char *text, size_t length);

#endif
