#include "discovery/permits.h"

#include "base/buffer.h"

#include <rea/error.h>

#include <stdio.h>
#include <stdlib.h>

/* As the metadata says it, and as rea's own names say it. */
static const struct word {
	const char *text;
	enum rea_permission permission;
} words[] = {
    {"true", REA_PERMISSION_IDEMPOTENT},
    {"false", REA_PERMISSION_FORBID},
    {"with-key", REA_PERMISSION_IDEMPOTENT_WITH_KEY},
    {"safe", REA_PERMISSION_SAFE},
};

struct permit {
	struct rea_slice method;
	enum rea_permission permission;
};

struct reading {
	struct permit *items;
	size_t len;
	bool too_many;
	enum rea_permission all;    /* said of every method */
	enum rea_permission others; /* said of those that a list does not name */
	char *problem;
	size_t problem_size;
};

static struct rea_slice trim(struct rea_slice text)
{
	while (text.length > 0 && (unsigned char)text.data[0] <= ' ') {
		text.data++;
		text.length--;
	}
	while (text.length > 0 && (unsigned char)text.data[text.length - 1] <= ' ')
		text.length--;
	return text;
}

static bool find_word(struct rea_slice text, enum rea_permission *ret_permission)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!rea_slice_equal_nocase(text, rea_slice_of(words[i].text)))
			continue;
		*ret_permission = words[i].permission;
		return true;
	}
	return false;
}

static enum rea_permission stricter(enum rea_permission a, enum rea_permission b)
{
	return a > b ? a : b;
}

static enum rea_permission read_word(struct reading *reading, struct rea_slice method, struct rea_slice text)
{
	enum rea_permission permission = REA_PERMISSION_UNKNOWN;

	if (!find_word(trim(text), &permission))
		snprintf(reading->problem, reading->problem_size,
		    PERMITS_KEY
		    " of %.*s: \"%.*s\" is none of true, false, with-key and safe: it counts as not declared",
		    (int)(method.length > 80 ? 80 : method.length), method.data,
		    (int)(text.length > 40 ? 40 : text.length), text.data);
	return permission;
}

static void add(struct reading *reading, struct rea_slice method, enum rea_permission permission)
{
	/* These separate what is written. */
	for (size_t i = 0; i < method.length; i++)
		if (method.data[i] == ',' || method.data[i] == '=')
			return;
	if (method.length == 0)
		return;
	if (rea_slice_equal(method, REA_SLICE_LIT("*"))) {
		reading->others = stricter(reading->others, permission);
		return;
	}
	reading->too_many = reading->too_many || reading->len == PERMITS_METHODS_MAX;
	if (!reading->too_many)
		reading->items[reading->len++] = (struct permit){method, permission};
}

static void read_list(struct reading *reading, struct rea_slice text)
{
	bool rest_said = false;

	while (text.length > 0) {
		const char *comma = memchr(text.data, ',', text.length);
		size_t length = comma != NULL ? (size_t)(comma - text.data) : text.length;
		struct rea_slice item = trim(rea_slice_make(text.data, length));
		const char *sign = item.length > 0 ? memchr(item.data, '=', item.length) : NULL;
		struct rea_slice method = trim(sign != NULL ? rea_slice_make(item.data, (size_t)(sign - item.data)) : item);
		enum rea_permission permission =
		    sign == NULL ? REA_PERMISSION_IDEMPOTENT
				 : read_word(reading, method,
				       rea_slice_make(sign + 1, item.length - (size_t)(sign + 1 - item.data)));

		rest_said = rest_said || rea_slice_equal(method, REA_SLICE_LIT("*"));
		add(reading, method, permission);
		length += comma != NULL;
		text = rea_slice_make(text.data + length, text.length - length);
	}
	if (!rest_said)
		reading->others = stricter(reading->others, REA_PERMISSION_UNKNOWN);
}

static struct rea_slice text_of(const json_t *value)
{
	if (json_is_boolean(value))
		return json_is_true(value) ? REA_SLICE_LIT("true") : REA_SLICE_LIT("false");
	return json_is_string(value) ? rea_slice_make(json_string_value(value), json_string_length(value))
				     : REA_SLICE_LIT("?");
}

static void read_key(struct reading *reading, const char *key, const json_t *value)
{
	static const char prefix[] = PERMITS_KEY;
	size_t length = sizeof(prefix) - 1;
	struct rea_slice text;

	if (strncmp(key, prefix, length) != 0 || (key[length] != '\0' && key[length] != '.'))
		return;
	text = text_of(value);
	if (key[length] == '.') {
		struct rea_slice method = rea_slice_of(key + length + 1);

		add(reading, method, read_word(reading, method, text));
	} else if (!find_word(trim(text), &reading->all)) {
		read_list(reading, text);
	}
}

static int by_method(const void *one, const void *other)
{
	const struct permit *a = one, *b = other;
	size_t shorter = a->method.length < b->method.length ? a->method.length : b->method.length;
	int order = memcmp(a->method.data, b->method.data, shorter);

	return order != 0 ? order : (a->method.length > b->method.length) - (a->method.length < b->method.length);
}

static int put(struct rea_buffer *out, struct rea_slice method, enum rea_permission permission)
{
	char digit = (char)('0' + permission);
	int error = rea_buffer_length(out) > 0 ? rea_buffer_append(out, ",", 1) : 0;

	if (error == 0)
		error = rea_buffer_append_slice(out, method);
	if (error == 0)
		error = rea_buffer_append(out, "=", 1);
	return error == 0 ? rea_buffer_append(out, &digit, 1) : error;
}

/* The rest comes first, so that whoever looks for a method has met it when there is no such method. */
static int put_all(struct reading *reading, struct rea_buffer *out)
{
	enum rea_permission rest = stricter(reading->all, reading->others);
	int error = rest != REA_PERMISSION_NONE ? put(out, REA_SLICE_LIT("*"), rest) : 0;

	if (reading->len > 1)
		qsort(reading->items, reading->len, sizeof(reading->items[0]), by_method);
	for (size_t i = 0; i < reading->len && error == 0; i++) {
		struct permit *item = &reading->items[i];

		if (i + 1 < reading->len && by_method(item, item + 1) == 0)
			item[1].permission = stricter(item[1].permission, item->permission);
		else
			error = put(out, item->method, stricter(item->permission, reading->all));
	}
	return error;
}

static size_t count_bytes(const json_t *metadata)
{
	size_t bytes = 0;
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)metadata, key, value) bytes +=
	    strlen(key) + (json_is_string(value) ? json_string_length(value) : 0);
	return bytes;
}

int permits_read(const json_t *metadata, char **ret_permits, char *problem, size_t problem_size)
{
	struct reading reading = {.problem = problem, .problem_size = problem_size};
	struct rea_buffer out = {.alloc = NULL};
	const char *key;
	json_t *value;
	int error;

	*ret_permits = NULL;
	if (!json_is_object(metadata) || json_object_size(metadata) == 0)
		return 0;
	reading.items = malloc(PERMITS_METHODS_MAX * sizeof(reading.items[0]));
	if (reading.items == NULL)
		return REA_ERR_NOMEM;
	reading.too_many = count_bytes(metadata) > PERMITS_BYTES_MAX;
	if (!reading.too_many)
		json_object_foreach((json_t *)(uintptr_t)metadata, key, value) read_key(&reading, key, value);
	if (reading.too_many) {
		snprintf(problem, problem_size,
		    "its metadata has more than %d methods or %zu bytes: nothing counts as declared",
		    PERMITS_METHODS_MAX, PERMITS_BYTES_MAX);
		reading.len = 0;
		reading.others = REA_PERMISSION_UNKNOWN;
	}
	error = put_all(&reading, &out);
	if (error == 0 && rea_buffer_length(&out) > 0) {
		*ret_permits = strndup(rea_buffer_data(&out), rea_buffer_length(&out));
		error = *ret_permits == NULL ? REA_ERR_NOMEM : 0;
	}
	rea_buffer_fini(&out);
	free(reading.items);
	return error;
}

enum rea_permission permits_of(const char *permits, struct rea_slice method)
{
	enum rea_permission rest = REA_PERMISSION_NONE;

	while (permits != NULL && *permits != '\0') {
		const char *sign = strchr(permits, '=');
		struct rea_slice name = rea_slice_make(permits, (size_t)(sign - permits));
		enum rea_permission permission = (enum rea_permission)(sign[1] - '0');

		if (rea_slice_equal(name, REA_SLICE_LIT("*")))
			rest = permission;
		else if (rea_slice_equal(name, method))
			return permission;
		permits = sign[2] == ',' ? sign + 3 : NULL;
	}
	return rest;
}

static const char *word_of(enum rea_permission permission)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (words[i].permission == permission)
			return words[i].text;
	return NULL;
}

char *permits_write(const struct rea_contract *contract)
{
	struct rea_buffer out = {.alloc = NULL};
	char *text = NULL;
	int error = 0;

	for (size_t i = 0; i < rea_contract_count(contract) && error == 0; i++) {
		const struct rea_operation *operation = rea_contract_operation(contract, i);
		const char *word = word_of(operation->grant.permission);

		/* What a list leaves out is not declared. */
		if (word == NULL)
			continue;
		error = rea_buffer_length(&out) > 0 ? rea_buffer_append(&out, ",", 1) : 0;
		if (error == 0)
			error = rea_buffer_append_slice(&out, rea_slice_of(operation->key));
		if (error == 0 && operation->grant.permission != REA_PERMISSION_IDEMPOTENT) {
			error = rea_buffer_append(&out, "=", 1);
			if (error == 0)
				error = rea_buffer_append_slice(&out, rea_slice_of(word));
		}
	}
	if (error == 0)
		text = rea_buffer_length(&out) > 0 ? strndup(rea_buffer_data(&out), rea_buffer_length(&out)) : strdup("");
	rea_buffer_fini(&out);
	return text;
}
