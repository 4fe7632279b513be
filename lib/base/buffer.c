#include "base/buffer.h"

#include <rea/error.h>

#include <assert.h>

void rea_buffer_fini(struct rea_buffer *buffer)
{
	const struct rea_alloc *alloc = buffer->alloc ? buffer->alloc : rea_alloc_default();

	alloc->free(buffer->data, alloc->user_data);
	buffer->data = NULL;
	buffer->start = buffer->end = buffer->capacity = 0;
}

int rea_buffer_reserve(struct rea_buffer *buffer, size_t length)
{
	const struct rea_alloc *alloc = buffer->alloc ? buffer->alloc : rea_alloc_default();
	size_t used = rea_buffer_length(buffer), capacity;
	char *data;

	if (buffer->capacity - buffer->end >= length)
		return 0;
	if (length > SIZE_MAX / 2 - used)
		return REA_ERR_NOMEM;
	/* Moving to the front is worth it only when at least half of the room is free, else appends would go quadratic. */
	if (buffer->start > 0 && used + length <= buffer->capacity && used <= buffer->capacity / 2) {
		memmove(buffer->data, buffer->data + buffer->start, used);
		buffer->start = 0;
		buffer->end = used;
		return 0;
	}
	capacity = buffer->capacity ? buffer->capacity : 512;
	while (capacity - used < length || capacity < used)
		capacity *= 2;
	if (buffer->start > 0 && used > 0)
		memmove(buffer->data, buffer->data + buffer->start, used);
	buffer->start = 0;
	buffer->end = used;
	data = alloc->realloc(buffer->data, capacity, alloc->user_data);
	if (data == NULL)
		return REA_ERR_NOMEM;
	buffer->data = data;
	buffer->capacity = capacity;
	return 0;
}

int rea_buffer_append(struct rea_buffer *buffer, const char *data, size_t length)
{
	int error;

	if (length == 0)
		return 0;
	error = rea_buffer_reserve(buffer, length);
	if (error != 0)
		return error;
	memcpy(buffer->data + buffer->end, data, length);
	buffer->end += length;
	return 0;
}

int rea_buffer_append_u64(struct rea_buffer *buffer, uint64_t value)
{
	char digits[20];
	size_t i = sizeof(digits);

	do {
		digits[--i] = (char)('0' + value % 10);
		value /= 10;
	} while (value != 0);
	return rea_buffer_append(buffer, digits + i, sizeof(digits) - i);
}

void rea_buffer_consume(struct rea_buffer *buffer, size_t length)
{
	assert(length <= rea_buffer_length(buffer));
	buffer->start += length;
	if (buffer->start == buffer->end)
		rea_buffer_clear(buffer);
}

void rea_buffer_trim(struct rea_buffer *buffer, size_t keep)
{
	if (rea_buffer_length(buffer) == 0 && buffer->capacity > keep)
		rea_buffer_fini(buffer);
}
