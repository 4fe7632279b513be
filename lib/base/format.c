#include "base/format.h"

#include <assert.h>
#include <string.h>

void rea_format_init(struct rea_format *format, char *text, size_t size)
{
	format->text = text;
	format->size = size;
	format->length = 0;
	if (size > 0)
		text[0] = '\0';
}

void rea_format_bytes(struct rea_format *format, const char *bytes, size_t length)
{
	if (length > 0 && format->length + 1 < format->size) {
		size_t room = format->size - 1 - format->length, fits = length < room ? length : room;

		memcpy(format->text + format->length, bytes, fits);
		format->text[format->length + fits] = '\0';
	}
	format->length += length;
}

void rea_format_text(struct rea_format *format, const char *text)
{
	rea_format_bytes(format, text, strlen(text));
}

static void format_digits(struct rea_format *format, uint64_t value, unsigned base, size_t digits_min)
{
	char digits[20];
	size_t i = sizeof(digits);

	assert(digits_min <= sizeof(digits));
	do {
		digits[--i] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value != 0 || sizeof(digits) - i < digits_min);
	rea_format_bytes(format, digits + i, sizeof(digits) - i);
}

void rea_format_u64(struct rea_format *format, uint64_t value)
{
	format_digits(format, value, 10, 1);
}

void rea_format_hex(struct rea_format *format, uint64_t value)
{
	format_digits(format, value, 16, 1);
}

void rea_format_fixed(struct rea_format *format, uint64_t value, unsigned digits)
{
	uint64_t unit = 1;

	assert(digits <= 19);
	for (unsigned i = 0; i < digits; i++)
		unit *= 10;
	rea_format_u64(format, value / unit);
	if (digits > 0) {
		rea_format_text(format, ".");
		format_digits(format, value % unit, 10, digits);
	}
}

static void format_trimmed(struct rea_format *format, uint64_t billionths)
{
	unsigned digits = 9;

	while (digits > 0 && billionths % 10 == 0) {
		billionths /= 10;
		digits--;
	}
	if (digits > 0) {
		rea_format_text(format, ".");
		format_digits(format, billionths, 10, digits);
	}
}

void rea_format_double(struct rea_format *format, double value)
{
	unsigned exponent = 0;
	uint64_t whole, billionths;

	if (value != value) {
		rea_format_text(format, "nan");
		return;
	}
	if (value < 0) {
		rea_format_text(format, "-");
		value = -value;
	}
	if (value > 1.7976931348623157e308) {
		rea_format_text(format, "inf");
		return;
	}
	if (value >= 1e15)
		for (; value >= 10; value /= 10)
			exponent++;
	whole = (uint64_t)value;
	billionths = (uint64_t)((value - (double)whole) * 1e9 + 0.5);
	if (billionths == 1000000000) {
		whole++;
		billionths = 0;
	}
	rea_format_u64(format, whole);
	format_trimmed(format, billionths);
	if (exponent > 0) {
		rea_format_text(format, "e");
		rea_format_u64(format, exponent);
	}
}
