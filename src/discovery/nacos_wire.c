#include "discovery/nacos_wire.h"

#include <rea/error.h>

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

#define FIELD_END "%02"
#define ENTRY_END "%01"
#define TTL_S_DEFAULT 18000
#define SECRET_MAX 4096

void nacos_md5(const char *data, size_t length, char ret_text[FETCH_MD5_SIZE])
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned sum_length = 0;

	/* Without MD5 (a machine under FIPS) no sum is known, and none is compared. */
	if (EVP_Digest(data, length, sum, &sum_length, EVP_md5(), NULL) != 1)
		sum_length = 0;
	for (unsigned i = 0; i < sum_length; i++)
		snprintf(ret_text + (size_t)2 * i, 3, "%02x", sum[i]);
	ret_text[(size_t)2 * sum_length] = '\0';
}

/* ---- requests ---- */

char *nacos_query(const struct rea_config_source *source, bool v3)
{
	char *query = NULL;
	int length;

	if (v3)
		length = asprintf(&query, "dataId=%s&groupName=%s&namespaceId=%s", source->name, source->group,
		    source->namespace_id[0] != '\0' ? source->namespace_id : "public");
	else
		length = asprintf(&query, "dataId=%s&group=%s%s%s", source->name, source->group,
		    source->namespace_id[0] != '\0' ? "&tenant=" : "", source->namespace_id);
	return length >= 0 ? query : NULL;
}

char *nacos_url(
    const struct rea_config_source *source, const char *server, const char *path, const char *query, const char *more)
{
	char *url = NULL;

	if (asprintf(&url, "%s%s%s%s%s%s", server, source->context_path, path, query[0] != '\0' ? "?" : "", query, more) < 0)
		return NULL;
	return url;
}

static bool is_unreserved(char c)
{
	char lower = rea_ascii_lower(c);

	return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

int nacos_form_add(struct rea_buffer *out, const char *name, struct rea_slice value)
{
	int error = rea_buffer_length(out) > 0 ? rea_buffer_append(out, "&", 1) : 0;

	if (error == 0)
		error = rea_buffer_append_slice(out, rea_slice_of(name));
	if (error == 0)
		error = rea_buffer_append(out, "=", 1);
	for (size_t i = 0; error == 0 && i < value.length; i++) {
		char escaped[4];

		snprintf(escaped, sizeof(escaped), "%%%02X", (unsigned)(unsigned char)value.data[i]);
		error = is_unreserved(value.data[i]) ? rea_buffer_append(out, &value.data[i], 1)
						     : rea_buffer_append(out, escaped, 3);
	}
	return error;
}

char *nacos_listen_form(const struct rea_config_source *source, const char *md5)
{
	char *form = NULL;
	bool named = source->namespace_id[0] != '\0';

	if (asprintf(&form, "Listening-Configs=%s%s%s%s%s%s%s%s", source->name, FIELD_END, source->group, FIELD_END,
		md5, named ? FIELD_END : "", source->namespace_id, ENTRY_END) < 0)
		return NULL;
	return form;
}

/* ---- answers ---- */

static bool starts_with(struct rea_slice text, const char *word)
{
	return text.length >= strlen(word) && memcmp(text.data, word, strlen(word)) == 0;
}

/* Takes one field from the front of a list of them. */
static struct rea_slice take_field(struct rea_slice *text)
{
	struct rea_slice field = {text->data, 0};

	while (field.length < text->length &&
	       !starts_with(rea_slice_make(text->data + field.length, text->length - field.length), FIELD_END))
		field.length++;
	text->data += field.length;
	text->length -= field.length;
	if (text->length > 0) {
		text->data += strlen(FIELD_END);
		text->length -= strlen(FIELD_END);
	}
	return field;
}

/* A server names a document without its namespace when it was asked without, and some name `public`. */
static bool is_ours(const struct rea_config_source *source, struct rea_slice entry)
{
	struct rea_slice data_id = take_field(&entry), group = take_field(&entry), tenant = take_field(&entry);

	if (rea_slice_equal(tenant, REA_SLICE_LIT("public")))
		tenant.length = 0;
	return rea_slice_equal(data_id, rea_slice_of(source->name)) && rea_slice_equal(group, rea_slice_of(source->group)) &&
	       rea_slice_equal(tenant, rea_slice_of(source->namespace_id));
}

/* Legal names have nothing that is escaped but the separators, so these are looked for as they come. */
enum nacos_changed nacos_listen_read(const struct rea_config_source *source, struct rea_slice reply)
{
	enum nacos_changed changed = NACOS_UNCHANGED;
	size_t start = 0;

	while (reply.length > 0 && (unsigned char)reply.data[reply.length - 1] <= ' ')
		reply.length--;
	for (size_t at = 0; at < reply.length; at++) {
		struct rea_slice rest = rea_slice_make(reply.data + at, reply.length - at);
		bool ends = starts_with(rest, ENTRY_END);

		if (!ends && rest.length > 1)
			continue;
		if (is_ours(source, rea_slice_make(reply.data + start, at - start + !ends)))
			return NACOS_CHANGED;
		changed = NACOS_CHANGED_OTHERS;
		start = at + strlen(ENTRY_END);
		at = ends ? start - 1 : at;
	}
	return changed;
}

#define CODE_OK 0
#define CODE_NOT_FOUND 20004
#define CODE_ACCESS_DENIED 10001

static enum nacos_answer judge_code(long status, json_int_t code)
{
	if (status == 401 || status == 403 || code == 401 || code == 403 || code == CODE_ACCESS_DENIED)
		return NACOS_DENIED;
	if (code == CODE_NOT_FOUND)
		return NACOS_ABSENT;
	return code == CODE_OK && status == 200 ? NACOS_PRESENT : NACOS_FAILED;
}

enum nacos_answer nacos_v3_read(long status, struct rea_slice reply, json_t **ret_data, char *message, size_t message_size)
{
	json_t *document = reply.length > 0 ? json_loadb(reply.data, reply.length, 0, NULL) : NULL;
	const json_t *code = json_object_get(document, "code");
	const char *said = json_string_value(json_object_get(document, "message"));
	enum nacos_answer answer;

	*ret_data = NULL;
	snprintf(message, message_size, "HTTP %ld", status);
	/* A framework's own error pages are JSON too, but have no code. */
	if (!json_is_integer(code)) {
		json_decref(document);
		if (status == 401 || status == 403)
			return NACOS_BARRED;
		return status >= 500 && status != 501 ? NACOS_FAILED : NACOS_FOREIGN;
	}
	answer = judge_code(status, json_integer_value(code));
	if (answer == NACOS_PRESENT)
		*ret_data = json_incref(json_object_get(document, "data"));
	snprintf(message, message_size, "HTTP %ld, code %lld: %.200s", status, (long long)json_integer_value(code),
	    said != NULL ? said : "no message");
	json_decref(document);
	return answer;
}

char *nacos_login_read(struct rea_slice reply, uint64_t *ret_ttl_s)
{
	json_t *document = reply.length > 0 ? json_loadb(reply.data, reply.length, 0, NULL) : NULL;
	const json_t *answer =
	    json_object_get(document, "accessToken") != NULL ? document : json_object_get(document, "data");
	const char *token = json_string_value(json_object_get(answer, "accessToken"));
	json_int_t ttl_s = json_integer_value(json_object_get(answer, "tokenTtl"));
	char *copy = token != NULL && strpbrk(token, "\r\n") == NULL ? strdup(token) : NULL;

	*ret_ttl_s = ttl_s > 0 ? (uint64_t)ttl_s : TTL_S_DEFAULT;
	json_decref(document);
	return copy;
}

char *nacos_secret(const char *text, const char **ret_why)
{
	char line[SECRET_MAX];
	char *secret;
	FILE *file;

	*ret_why = "out of memory";
	if (strncmp(text, "file:", 5) != 0)
		return strdup(text);
	file = fopen(text + 5, "re");
	if (file == NULL || fgets(line, sizeof(line), file) == NULL) {
		*ret_why = "the file of the password cannot be read, or is empty";
		if (file != NULL)
			fclose(file);
		return NULL;
	}
	fclose(file);
	line[strcspn(line, "\r\n")] = '\0';
	secret = strdup(line);
	OPENSSL_cleanse(line, sizeof(line));
	return secret;
}
