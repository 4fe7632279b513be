#include "event/utf8.h"

static bool is_continuation(unsigned char byte)
{
	return (byte & 0xc0) == 0x80;
}

size_t rea__utf8_length(const char *text, size_t length)
{
	const unsigned char *p = (const unsigned char *)text;
	unsigned char second_min = 0x80, second_max = 0xbf;
	size_t expected;

	if (length == 0)
		return 0;
	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	expected = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (length < expected)
		return 0;
	if (p[0] == 0xe0)
		second_min = 0xa0; /* overlong */
	else if (p[0] == 0xed)
		second_max = 0x9f; /* surrogates */
	else if (p[0] == 0xf0)
		second_min = 0x90; /* overlong */
	else if (p[0] == 0xf4)
		second_max = 0x8f; /* beyond U+10FFFF */
	if (p[1] < second_min || p[1] > second_max)
		return 0;
	for (size_t i = 2; i < expected; i++)
		if (!is_continuation(p[i]))
			return 0;
	return expected;
}

bool rea__utf8_is_control(const char *text, size_t character_length)
{
	unsigned char first = (unsigned char)text[0];

	if (character_length == 1)
		return first < 0x20 || first == 0x7f;
	return character_length == 2 && first == 0xc2 && (unsigned char)text[1] < 0xa0;
}

size_t rea__utf8_cut(const char *text, size_t length, size_t max)
{
	size_t end = max;

	if (length <= max)
		return length;
	while (end > 0 && max - end < 3 && is_continuation((unsigned char)text[end]))
		end--;
	return end;
}
