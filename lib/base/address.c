#include "base/address.h"

static const uint8_t mapped_prefix[12] = {[10] = 0xff, [11] = 0xff};

bool rea_address_is_ipv4(const uint8_t *address)
{
	return memcmp(address, mapped_prefix, sizeof(mapped_prefix)) == 0;
}

/* ---- to text ---- */

static void format_ipv4(struct rea_format *text, const uint8_t *octets)
{
	for (size_t i = 0; i < 4; i++) {
		if (i > 0)
			rea_format_text(text, ".");
		rea_format_u64(text, octets[i]);
	}
}

static unsigned group(const uint8_t *address, size_t i)
{
	return (unsigned)address[2 * i] << 8 | address[2 * i + 1];
}

/* The longest run of at least two zero groups, the first of equals; returns its length, or 0 (RFC 5952 section 4.2). */
static size_t longest_zeros(const uint8_t *address, size_t *ret_start)
{
	size_t best = 1, run = 0;

	for (size_t i = 0; i < 8; i++) {
		run = group(address, i) == 0 ? run + 1 : 0;
		if (run > best) {
			best = run;
			*ret_start = i + 1 - run;
		}
	}
	return best > 1 ? best : 0;
}

static void format_ipv6(struct rea_format *text, const uint8_t *address)
{
	size_t zeros_start = 8, zeros = longest_zeros(address, &zeros_start);

	for (size_t i = 0; i < 8; i++) {
		if (i == zeros_start) {
			rea_format_text(text, "::");
			i += zeros - 1;
			continue;
		}
		if (i > 0 && i != zeros_start + zeros)
			rea_format_text(text, ":");
		rea_format_hex(text, group(address, i));
	}
}

void rea_address_format(const uint8_t *address, struct rea_format *text)
{
	if (rea_address_is_ipv4(address))
		format_ipv4(text, address + 12);
	else
		format_ipv6(text, address);
}

/* ---- from text ---- */

/* Decimal without leading zeros (they read as octal elsewhere). */
static bool parse_octet(struct rea_slice s, uint8_t *ret_octet)
{
	uint64_t value;

	if (!rea_slice_to_u64(s, &value) || value > UINT8_MAX || (s.length > 1 && s.data[0] == '0'))
		return false;
	*ret_octet = (uint8_t)value;
	return true;
}

static bool parse_hex_group(struct rea_slice s, unsigned *ret_value)
{
	unsigned value = 0;

	if (s.length == 0 || s.length > 4)
		return false;
	for (size_t i = 0; i < s.length; i++) {
		char c = rea_ascii_lower(s.data[i]);

		if (c >= '0' && c <= '9')
			value = value << 4 | (unsigned)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (unsigned)(c - 'a' + 10);
		else
			return false;
	}
	*ret_value = value;
	return true;
}

/* Cut off what stands before the first separator; with none, all of it. */
static struct rea_slice cut(struct rea_slice *rest, char separator)
{
	const char *at = rest->length > 0 ? memchr(rest->data, separator, rest->length) : NULL;
	struct rea_slice head = *rest;

	if (at == NULL) {
		*rest = rea_slice_make(rest->data + rest->length, 0);
		return head;
	}
	head.length = (size_t)(at - rest->data);
	*rest = rea_slice_make(at + 1, rest->length - head.length - 1);
	return head;
}

static bool parse_ipv4(struct rea_slice s, uint8_t *ret_octets)
{
	for (size_t i = 0; i < 4; i++) {
		bool more = s.length > 0 && memchr(s.data, '.', s.length) != NULL;

		if (more != (i < 3) || !parse_octet(cut(&s, '.'), &ret_octets[i]))
			return false;
	}
	return true;
}

/* Groups between colons, at most `max`; the last one may be IPv4 and counts as two. Returns how many, or -1. */
static int parse_groups(struct rea_slice s, size_t max, uint8_t *ret_bytes)
{
	size_t count = 0;

	if (s.length == 0)
		return 0;
	for (;;) {
		bool more = memchr(s.data, ':', s.length) != NULL;
		struct rea_slice part = cut(&s, ':');
		unsigned value;

		if (!more && count + 2 <= max && parse_ipv4(part, ret_bytes + 2 * count))
			return (int)count + 2;
		if (count == max || !parse_hex_group(part, &value))
			return -1;
		ret_bytes[2 * count] = (uint8_t)(value >> 8);
		ret_bytes[2 * count + 1] = (uint8_t)value;
		count++;
		if (!more)
			return (int)count;
		if (s.length == 0)
			return -1;
	}
}

static bool parse_ipv6(struct rea_slice s, uint8_t *ret_address)
{
	uint8_t front[16] = {0}, back[16] = {0};
	int front_groups, back_groups;
	size_t gap = 0;

	while (gap + 1 < s.length && !(s.data[gap] == ':' && s.data[gap + 1] == ':'))
		gap++;
	if (gap + 1 >= s.length) {
		if (parse_groups(s, 8, front) != 8)
			return false;
		memcpy(ret_address, front, 16);
		return true;
	}
	/* A gap stands for at least one group. IPv4 may end the whole, not the part before the gap. */
	front_groups = parse_groups(rea_slice_make(s.data, gap), 7, front);
	if (front_groups < 0 || memchr(s.data, '.', gap) != NULL)
		return false;
	back_groups = parse_groups(rea_slice_make(s.data + gap + 2, s.length - gap - 2), 7 - (size_t)front_groups, back);
	if (back_groups < 0)
		return false;
	memset(ret_address, 0, 16);
	memcpy(ret_address, front, 2 * (size_t)front_groups);
	memcpy(ret_address + 16 - 2 * back_groups, back, 2 * (size_t)back_groups);
	return true;
}

bool rea_address_parse(struct rea_slice text, uint8_t *ret_address)
{
	uint8_t address[16] = {0};

	if (text.length > 0 && memchr(text.data, ':', text.length) != NULL)
		return parse_ipv6(text, ret_address);
	memcpy(address, mapped_prefix, sizeof(mapped_prefix));
	if (!parse_ipv4(text, address + 12))
		return false;
	memcpy(ret_address, address, sizeof(address));
	return true;
}
