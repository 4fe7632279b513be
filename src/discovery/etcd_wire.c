#include "discovery/etcd_wire.h"

#include <rea/error.h>

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- base64 ---- */

char *etcd_encode(const char *data, size_t length)
{
	char *text = malloc((length + 2) / 3 * 4 + 1);

	if (text != NULL)
		EVP_EncodeBlock((unsigned char *)text, (const unsigned char *)data, (int)length);
	return text;
}

int etcd_decode(const char *text, struct rea_buffer *out)
{
	size_t length = strlen(text), padding = 0;
	int decoded;

	if (length == 0)
		return 0;
	if (rea_buffer_reserve(out, length / 4 * 3 + 3) != 0)
		return REA_ERR_NOMEM;
	decoded = EVP_DecodeBlock((unsigned char *)out->data + out->end, (const unsigned char *)text, (int)length);
	while (padding < 2 && padding < length && text[length - 1 - padding] == '=')
		padding++;
	if (decoded < (int)padding)
		return REA_ERR_SYNTAX;
	out->end += (size_t)decoded - padding;
	return 0;
}

/* ---- requests ---- */

/* "key":"…" and, of all keys that begin with it, "range_end": the first one behind them. Freed by the caller; NULL = out of memory. */
static char *keys_of(const char *key, bool prefix)
{
	size_t length = strlen(key), end_length = length;
	char *encoded = etcd_encode(key, length), *end = strdup(key), *encoded_end = NULL, *text = NULL;
	int written = -1;

	/* Behind a byte of 0xff there is none: the one before it counts. Of nothing but those, or of no prefix, all keys to the last (0). */
	while (end != NULL && end_length > 0 && (unsigned char)end[end_length - 1] == 0xff)
		end_length--;
	if (end != NULL && end_length > 0)
		end[end_length - 1]++;
	if (end != NULL && prefix)
		encoded_end = end_length > 0 ? etcd_encode(end, end_length) : etcd_encode("", 1);
	if (encoded != NULL && (encoded_end != NULL || !prefix))
		written = asprintf(&text, "\"key\":\"%s\"%s%s%s", encoded, prefix ? ",\"range_end\":\"" : "",
		    prefix ? encoded_end : "", prefix ? "\"" : "");
	free(encoded);
	free(encoded_end);
	free(end);
	return written >= 0 ? text : NULL;
}

char *etcd_range_body(const char *key, bool prefix, uint64_t revision)
{
	char *keys = keys_of(key, prefix), *body = NULL;

	if (keys == NULL || asprintf(&body, "{%s,\"revision\":\"%llu\"}", keys, (unsigned long long)revision) < 0)
		body = NULL;
	free(keys);
	return body;
}

char *etcd_watch_body(const char *key, bool prefix, uint64_t start_revision)
{
	char *keys = keys_of(key, prefix), *body = NULL;

	if (keys == NULL || asprintf(&body, "{\"create_request\":{%s,\"start_revision\":\"%llu\"}}", keys,
				(unsigned long long)start_revision) < 0)
		body = NULL;
	free(keys);
	return body;
}

char *etcd_put_body(const char *key, const char *text, size_t length, uint64_t mod_revision)
{
	char *encoded = etcd_encode(key, strlen(key)), *value = etcd_encode(text, length), *body = NULL;

	if (encoded == NULL || value == NULL ||
	    asprintf(&body,
		"{\"compare\":[{\"key\":\"%s\",\"target\":\"MOD\",\"result\":\"EQUAL\",\"mod_revision\":\"%llu\"}],"
		"\"success\":[{\"request_put\":{\"key\":\"%s\",\"value\":\"%s\"}}]}",
		encoded, (unsigned long long)mod_revision, encoded, value) < 0)
		body = NULL;
	free(encoded);
	free(value);
	return body;
}

/* ---- answers ---- */

uint64_t etcd_number(const json_t *object, const char *name)
{
	const json_t *number = json_object_get(object, name);
	uint64_t value = 0;

	if (json_is_string(number) && rea_slice_to_u64(rea_slice_of(json_string_value(number)), &value))
		return value;
	return json_is_integer(number) && json_integer_value(number) > 0 ? (uint64_t)json_integer_value(number) : 0;
}

/* A value that is empty is left out. */
static int take_value(const json_t *pair, struct rea_buffer *value)
{
	const char *text = json_string_value(json_object_get(pair, "value"));

	rea_buffer_clear(value);
	return text != NULL ? etcd_decode(text, value) : 0;
}

int etcd_range_read(const json_t *answer, struct etcd_value *ret_value, struct rea_buffer *value)
{
	const json_t *pair = json_array_get(json_object_get(answer, "kvs"), 0);

	*ret_value = (struct etcd_value){
	    .present = json_is_object(pair), .revision = etcd_number(json_object_get(answer, "header"), "revision")};
	if (ret_value->revision == 0)
		return REA_ERR_SYNTAX;
	ret_value->mod_revision = etcd_number(pair, "mod_revision");
	ret_value->version = etcd_number(pair, "version");
	rea_buffer_clear(value);
	return ret_value->present ? take_value(pair, value) : 0;
}

const char *etcd_message(const json_t *answer)
{
	const json_t *error = json_object_get(answer, "error");
	const char *text = json_string_value(error);

	if (text == NULL)
		text = json_string_value(json_object_get(error, "message"));
	return text != NULL ? text : json_string_value(json_object_get(answer, "message"));
}

int etcd_watch_read(const json_t *message, enum etcd_news *ret_news, struct rea_buffer *value, char *why, size_t why_size)
{
	const json_t *result = json_object_get(message, "result"), *event = NULL;
	const json_t *events = json_object_get(result, "events");
	uint64_t compacted = etcd_number(result, "compact_revision");
	const char *said = json_string_value(json_object_get(result, "cancel_reason"));

	*ret_news = ETCD_NOTHING;
	if (result == NULL || json_is_true(json_object_get(result, "canceled"))) {
		*ret_news = ETCD_ENDED;
		if (said == NULL)
			said = etcd_message(message);
		if (compacted > 0)
			snprintf(why, why_size, "history before revision %llu is compacted", (unsigned long long)compacted);
		else
			snprintf(why, why_size, "the watch is canceled: %s", said != NULL ? said : "no reason given");
		return 0;
	}
	if (json_array_size(events) > 0)
		event = json_array_get(events, json_array_size(events) - 1);
	if (event == NULL)
		return 0;
	said = json_string_value(json_object_get(event, "type"));
	if (said != NULL && strcmp(said, "DELETE") == 0) {
		*ret_news = ETCD_DELETED;
		return 0;
	}
	*ret_news = ETCD_PUT;
	return take_value(json_object_get(event, "kv"), value);
}
