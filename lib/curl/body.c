#include "curl/body.h"

#include <stdio.h>

static int file_seek(void *user_data, curl_off_t offset, int origin)
{
	struct rea__body *body = user_data;

	if (origin == SEEK_SET)
		offset += body->file_start;
	return fseeko(body->read_data, offset, origin) == 0 ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_FAIL;
}

static size_t file_read(char *buffer, size_t size, size_t items, void *file)
{
	size_t length = fread(buffer, size, items, file);

	return length == 0 && ferror(file) ? CURL_READFUNC_ABORT : length * size;
}

static void use_file(struct rea__body *body)
{
	body->read = file_read;
	body->file_start = ftello(body->read_data);
	if (body->file_start < 0)
		return;
	body->seek = file_seek;
	body->seek_data = body;
}

void rea__body_init(struct rea__body *body, const struct rea_curl_call *call, size_t limit, const struct rea_alloc *alloc)
{
	*body = (struct rea__body){
	    .read = call->read,
	    .read_data = call->read_data,
	    .seek = call->seek,
	    .seek_data = call->seek_data,
	    .kept = {.alloc = alloc},
	    .limit = limit,
	};
	if (body->read == NULL && body->read_data != NULL)
		use_file(body);
}

void rea__body_fini(struct rea__body *body)
{
	rea_buffer_fini(&body->kept);
}

bool rea__body_rewind(struct rea__body *body)
{
	return !body->touched || rea__body_seek(body, 0, SEEK_SET) == CURL_SEEKFUNC_OK;
}

/* ---- for libcurl ---- */

static void keep(struct rea__body *body, const char *data, size_t length)
{
	body->lost = body->lost || rea_buffer_length(&body->kept) + length > body->limit ||
		     rea_buffer_append(&body->kept, data, length) != 0;
	if (body->lost)
		rea_buffer_fini(&body->kept);
	body->at = rea_buffer_length(&body->kept);
}

static size_t give_kept(struct rea__body *body, char *buffer, size_t room)
{
	size_t length = rea_buffer_length(&body->kept) - body->at;

	if (length > room)
		length = room;
	memcpy(buffer, rea_buffer_data(&body->kept) + body->at, length);
	body->at += length;
	return length;
}

size_t rea__body_read(char *buffer, size_t size, size_t items, void *user_data)
{
	struct rea__body *body = user_data;
	size_t length;

	if (body->read == NULL)
		return CURL_READFUNC_ABORT;
	body->touched = true;
	if (body->at < rea_buffer_length(&body->kept))
		return give_kept(body, buffer, size * items);
	if (body->ended)
		return 0;
	length = body->read(buffer, size, items, body->read_data);
	/* The function's own signals, and lies, are libcurl's to judge. */
	if (length > size * items)
		return length;
	body->ended = length == 0;
	if (body->seek == NULL)
		keep(body, buffer, length);
	return length;
}

int rea__body_seek(void *user_data, curl_off_t offset, int origin)
{
	struct rea__body *body = user_data;
	int result;

	if (body->seek != NULL) {
		result = body->seek(body->seek_data, offset, origin);
		body->ended = body->ended && result != CURL_SEEKFUNC_OK;
	} else if (body->lost || origin != SEEK_SET || offset < 0 || (uint64_t)offset > rea_buffer_length(&body->kept)) {
		result = CURL_SEEKFUNC_CANTSEEK;
	} else {
		body->at = (size_t)offset;
		result = CURL_SEEKFUNC_OK;
	}
	body->touched = body->touched && (result != CURL_SEEKFUNC_OK || offset != 0);
	return result;
}
