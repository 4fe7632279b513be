/* http-parser as a reader. Apart, for its header and ours use the same names. */
#ifndef REA_TESTS_HTTP_PARSER_READER_H
#define REA_TESTS_HTTP_PARSER_READER_H

#include "base/buffer.h"

/*
 * Whether it accepts the message as a whole; then text is "METHOD TARGET [name:value]... body=..." or "STATUS
 * [name:value]... body=...". head: the answer to a HEAD.
 */
bool http_parser_reads(bool request, bool head, const char *bytes, size_t length, struct rea_buffer *text);

#endif
