/* UTF-8 as it comes from peers: maybe none. */
#ifndef REA_EVENT_UTF8_H
#define REA_EVENT_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#define REA__UTF8_REPLACEMENT "\xef\xbf\xbd"

/* Bytes of the well-formed character that text begins with: 1 to 4, or 0 when there is none (RFC 3629: no surrogates,
 * nothing overlong). */
size_t rea__utf8_length(const char *text, size_t length);
/* Is the well-formed character at text a control character (C0, DEL or C1)? A terminal would obey it. */
bool rea__utf8_is_control(const char *text, size_t character_length);
/* The longest beginning of text that is at most max bytes and splits no character. */
size_t rea__utf8_cut(const char *text, size_t length, size_t max);

#endif
