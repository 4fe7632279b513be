/*
 * Text written into a fixed array: cut at its end, always terminated, its full length counted. For code that may not use stdio.
 */
#ifndef REA_BASE_FORMAT_H
#define REA_BASE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

struct rea_format {
	char *text;
	size_t size;
	size_t length; /* that the text would have without the cut */
};

/* text: borrowed while the format lives; NULL with size 0 only counts. The text is "" at first. */
void rea_format_init(struct rea_format *format, char *text, size_t size);
void rea_format_bytes(struct rea_format *format, const char *bytes, size_t length);
void rea_format_text(struct rea_format *format, const char *text);
/* Decimal. */
void rea_format_u64(struct rea_format *format, uint64_t value);
/* Lower case, without leading zeros. */
void rea_format_hex(struct rea_format *format, uint64_t value);
/* value / 10^digits with exactly that many digits (0..19) after the point: 12345 with 3 is "12.345". */
void rea_format_fixed(struct rea_format *format, uint64_t value, unsigned digits);
/* At most 9 digits after the point, no trailing zeros; "nan", "inf"; from 1e15 on with an exponent. For messages: not every
 * value reads back exactly. */
void rea_format_double(struct rea_format *format, double value);

#endif
