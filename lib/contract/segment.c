#include "contract/segment.h"

#include "base/hash.h"
#include "base/slice.h"

#include <rea/contract.h>

#include <string.h>

/* The byte that an escape at text, with left bytes to come, stands for; -1 = malformed. */
static int decode_escape(const char *text, size_t left)
{
	int high, low;

	if (left < 3)
		return -1;
	high = rea_ascii_hex(text[1]);
	low = rea_ascii_hex(text[2]);
	return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Characters that end a path early, or split it, for some servers and not for others. */
static bool is_doubtful(unsigned char c, bool escaped)
{
	if (c < 0x20 || c == 0x7f || c == '\\')
		return true;
	return escaped ? c == '/' : c == ' ' || c == ';' || c == '#';
}

/* Read the segment that begins at path[*at], to the next "/" or the end. */
static enum rea__path read_segment(const char *path, size_t length, size_t *at, struct rea__segment *ret_segment)
{
	size_t i = *at, decoded = 0, dots = 0;
	uint64_t hash = REA_HASH_INIT;
	bool escaped = false;

	for (; i < length && path[i] != '/' && path[i] != '?'; decoded++) {
		unsigned char c = (unsigned char)path[i];
		bool escape = c == '%';

		if (escape) {
			int byte = decode_escape(path + i, length - i);

			if (byte < 0)
				return REA__PATH_BAD_ESCAPE;
			c = (unsigned char)byte;
			escaped = true;
		}
		if (is_doubtful(c, escape))
			return REA__PATH_BAD_CHARACTER;
		hash = rea_hash_byte(hash, c);
		dots += c == '.';
		i += escape ? 3 : 1;
	}
	if (decoded == 0)
		return REA__PATH_EMPTY_SEGMENT;
	if (dots == decoded && dots <= 2)
		return REA__PATH_DOT_SEGMENT;
	*ret_segment = (struct rea__segment){path + *at, (uint32_t)(i - *at), escaped, hash};
	*at = i;
	return REA__PATH_OK;
}

enum rea__path rea__path_split(const char *path, size_t length, struct rea__segment *ret_segments, size_t *ret_count)
{
	size_t at = 1, count = 0;

	*ret_count = 0;
	if (length == 0 || path[0] != '/')
		return REA__PATH_NOT_ROOTED;
	if (length > UINT32_MAX)
		return REA__PATH_TOO_MANY;
	if (length == 1 || path[1] == '?')
		return REA__PATH_OK;
	for (;; at++) {
		enum rea__path wrong;

		if (count == REA_CONTRACT_SEGMENTS_MAX)
			return REA__PATH_TOO_MANY;
		wrong = read_segment(path, length, &at, &ret_segments[count]);
		if (wrong != REA__PATH_OK)
			return wrong;
		count++;
		if (at == length || path[at] == '?')
			break;
	}
	*ret_count = count;
	return REA__PATH_OK;
}

size_t rea__segment_decode(const struct rea__segment *segment, char *ret_text)
{
	size_t length = 0;

	for (size_t i = 0; i < segment->length; i++) {
		char c = segment->text[i];

		if (c == '%') {
			c = (char)decode_escape(segment->text + i, segment->length - i);
			i += 2;
		}
		ret_text[length++] = c;
	}
	return length;
}

bool rea__segment_equal(const struct rea__segment *segment, const char *text, size_t length)
{
	size_t at = 0;

	if (!segment->escaped)
		return segment->length == length && memcmp(segment->text, text, length) == 0;
	for (size_t i = 0; i < segment->length; i++) {
		char c = segment->text[i];

		if (c == '%') {
			c = (char)decode_escape(segment->text + i, segment->length - i);
			i += 2;
		}
		if (at == length || text[at++] != c)
			return false;
	}
	return at == length;
}

bool rea__is_token(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (text[i] <= ' ' || text[i] >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", text[i]) != NULL)
			return false;
	return length > 0;
}
