/*
 * A growable queue of bytes: appended at the back, consumed at the front. Zero-initialised it is empty and uses malloc.
 */
#ifndef REA_BASE_BUFFER_H
#define REA_BASE_BUFFER_H

#include "base/slice.h"

#include <rea/alloc.h>

struct rea_buffer {
	char *data;
	size_t start; /* first byte that is not consumed */
	size_t end;   /* one past the last */
	size_t capacity;
	const struct rea_alloc *alloc; /* NULL = malloc */
};

static inline size_t rea_buffer_length(const struct rea_buffer *buffer)
{
	return buffer->end - buffer->start;
}

static inline const char *rea_buffer_data(const struct rea_buffer *buffer)
{
	return buffer->data ? buffer->data + buffer->start : "";
}

void rea_buffer_fini(struct rea_buffer *buffer);
/* Room for length more bytes at data + end. Returns 0 or REA_ERR_NOMEM, the contents unchanged. */
int rea_buffer_reserve(struct rea_buffer *buffer, size_t length);
int rea_buffer_append(struct rea_buffer *buffer, const char *data, size_t length);
static inline int rea_buffer_append_slice(struct rea_buffer *buffer, struct rea_slice slice)
{
	return rea_buffer_append(buffer, slice.data, slice.length);
}
/* Decimal. */
int rea_buffer_append_u64(struct rea_buffer *buffer, uint64_t value);
/* Drop length bytes from the front; an empty buffer starts anew at its beginning. */
void rea_buffer_consume(struct rea_buffer *buffer, size_t length);
static inline void rea_buffer_clear(struct rea_buffer *buffer)
{
	buffer->start = buffer->end = 0;
}
/* Give memory back when the buffer is empty and holds more than keep bytes. */
void rea_buffer_trim(struct rea_buffer *buffer, size_t keep);

#endif
