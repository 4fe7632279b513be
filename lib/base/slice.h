/* Bytes that somebody else owns. */
#ifndef REA_BASE_SLICE_H
#define REA_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct rea_slice {
	const char *data; /* may be NULL when length is 0 */
	size_t length;
};

#define REA_SLICE_LIT(text) ((struct rea_slice){(text), sizeof(text) - 1})

static inline struct rea_slice rea_slice_of(const char *text)
{
	return (struct rea_slice){text, text ? strlen(text) : 0};
}

static inline struct rea_slice rea_slice_make(const char *data, size_t length)
{
	return (struct rea_slice){data, length};
}

static inline bool rea_slice_equal(struct rea_slice a, struct rea_slice b)
{
	return a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}

static inline char rea_ascii_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* The value of a hex digit, -1 for anything else. */
static inline int rea_ascii_hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = rea_ascii_lower(c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* ASCII letters compare equal in both cases. */
static inline bool rea_slice_equal_nocase(struct rea_slice a, struct rea_slice b)
{
	if (a.length != b.length)
		return false;
	for (size_t i = 0; i < a.length; i++)
		if (rea_ascii_lower(a.data[i]) != rea_ascii_lower(b.data[i]))
			return false;
	return true;
}

/* Decimal digits only, no sign, at least one; false on overflow or anything else. */
static inline bool rea_slice_to_u64(struct rea_slice s, uint64_t *ret_value)
{
	uint64_t v = 0;

	if (s.length == 0)
		return false;
	for (size_t i = 0; i < s.length; i++) {
		unsigned digit = (unsigned)(s.data[i] - '0');

		if (digit > 9 || v > (UINT64_MAX - digit) / 10)
			return false;
		v = v * 10 + digit;
	}
	*ret_value = v;
	return true;
}

#endif
