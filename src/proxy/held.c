#include "proxy/held.h"

#include <stdlib.h>

/* Error pages are small; one that is not is given up rather than kept. */
#define BODY_BYTES_MAX ((size_t)64 * 1024)

static bool reserve_fields(struct held_reply *held, size_t count)
{
	struct http_field *fields;

	if (count <= held->fields_capacity)
		return true;
	fields = realloc(held->fields, count * sizeof(*fields));
	if (fields == NULL)
		return false;
	held->fields = fields;
	held->fields_capacity = count;
	return true;
}

/* Appends within what was reserved, so that slices stay where they are. */
static struct rea_slice keep(struct rea_buffer *text, struct rea_slice slice)
{
	const char *at = text->data + text->end;

	rea_buffer_append_slice(text, slice);
	return rea_slice_make(at, slice.length);
}

bool held_set(struct held_reply *held, const struct http_response *response)
{
	size_t bytes = response->reason.length;

	held_drop(held);
	for (size_t i = 0; i < response->fields_len; i++)
		bytes += response->fields[i].name.length + response->fields[i].value.length;
	if (rea_buffer_reserve(&held->text, bytes + 1) != 0 || !reserve_fields(held, response->fields_len))
		return false;
	held->head = *response;
	held->head.fields = held->fields;
	held->head.reason = keep(&held->text, response->reason);
	for (size_t i = 0; i < response->fields_len; i++) {
		held->fields[i] = response->fields[i];
		held->fields[i].name = keep(&held->text, response->fields[i].name);
		held->fields[i].value = keep(&held->text, response->fields[i].value);
	}
	held->present = true;
	held->complete = false;
	return true;
}

bool held_append(struct held_reply *held, const char *data, size_t length)
{
	if (rea_buffer_length(&held->body) + length <= BODY_BYTES_MAX && rea_buffer_append(&held->body, data, length) == 0)
		return true;
	held_drop(held);
	return false;
}

struct http_field *fields_copy(const struct http_field *fields, size_t count)
{
	size_t bytes = count * sizeof(*fields);
	struct http_field *copy;
	char *text;

	for (size_t i = 0; i < count; i++)
		bytes += fields[i].name.length + fields[i].value.length;
	copy = malloc(bytes);
	if (copy == NULL)
		return NULL;
	text = (char *)(copy + count);
	for (size_t i = 0; i < count; i++) {
		copy[i] = fields[i];
		copy[i].name.data = memcpy(text, fields[i].name.data, fields[i].name.length);
		text += fields[i].name.length;
		copy[i].value.data = memcpy(text, fields[i].value.data, fields[i].value.length);
		text += fields[i].value.length;
	}
	return copy;
}

void held_complete(struct held_reply *held, const struct http_field *trailers, size_t trailers_len)
{
	held->complete = true;
	held->trailers = trailers_len > 0 ? fields_copy(trailers, trailers_len) : NULL;
	held->trailers_len = held->trailers != NULL ? trailers_len : 0;
}

void held_drop(struct held_reply *held)
{
	free(held->trailers);
	held->trailers = NULL;
	held->trailers_len = 0;
	held->present = held->complete = false;
	rea_buffer_clear(&held->text);
	rea_buffer_clear(&held->body);
}

void held_fini(struct held_reply *held)
{
	held_drop(held);
	rea_buffer_fini(&held->text);
	rea_buffer_fini(&held->body);
	free(held->fields);
	held->fields = NULL;
	held->fields_capacity = 0;
}
