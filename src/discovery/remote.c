#include "discovery/remote.h"

#include "discovery/etcd_wire.h"
#include "discovery/nacos_wire.h"

#include <rea/error.h>
#include <rea/time.h>

#include <openssl/crypto.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TIMEOUT_NS (10 * REA_NS_PER_S)
#define HEADERS_MAX 4

__attribute__((format(printf, 3, 4))) static int refuse(struct remote *remote, int error, const char *format, ...)
{
	char why[REMOTE_ERROR_SIZE / 2];
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	snprintf(remote->error, sizeof(remote->error), "%s: %s", remote->server, why);
	return error;
}

static int no_memory(struct remote *remote)
{
	snprintf(remote->error, sizeof(remote->error), "out of memory");
	return REA_ERR_NOMEM;
}

static struct rea_slice reply_of(const struct remote *remote)
{
	const char *data = rea_buffer_data(&remote->fetch.reply);

	return data != NULL ? rea_slice_make(data, rea_buffer_length(&remote->fetch.reply)) : REA_SLICE_LIT("");
}

/* url and body: freed here; url NULL = out of memory. header: one more, NULL = none. */
static int ask(struct remote *remote, char *url, char *body, const char *header)
{
	const char *headers[HEADERS_MAX];
	char *authorization = NULL;
	struct fetch_request request = {
	    .url = url, .body = body, .headers = headers, .timeout_ns = TIMEOUT_NS, .ca_file = remote->source->ca_file};
	bool good = url != NULL;

	if (header != NULL)
		headers[request.headers_len++] = header;
	if (good && remote->token != NULL) {
		good = asprintf(&authorization, "Authorization: %s%s",
			   remote->source->kind == REA_SOURCE_NACOS ? "Bearer " : "", remote->token) >= 0;
		if (!good)
			authorization = NULL;
		headers[request.headers_len++] = authorization;
	}
	good = good && fetch_wait(&remote->fetch, &request) == 0;
	free(authorization);
	free(url);
	if (body != NULL)
		OPENSSL_cleanse(body, strlen(body));
	free(body);
	if (!good)
		return no_memory(remote);
	return remote->fetch.error[0] != '\0' ? refuse(remote, REA_ERR_IO, "%s", remote->fetch.error) : 0;
}

/* What the server said, when it is text. */
static int refuse_reply(struct remote *remote)
{
	struct rea_slice reply = reply_of(remote);
	char text[160];
	size_t length = reply.length < sizeof(text) - 1 ? reply.length : sizeof(text) - 1;

	for (size_t i = 0; i < length; i++)
		text[i] = (unsigned char)reply.data[i] < ' ' || reply.data[i] == 0x7f ? ' ' : reply.data[i];
	text[length] = '\0';
	return refuse(remote, REA_ERR_IO, "HTTP %ld: %s", remote->fetch.status, text);
}

static bool is_missing(long status)
{
	return status == 404 || status == 405 || status == 410 || status == 501;
}

/* ---- Nacos ---- */

static int nacos_login(struct remote *remote, const char *path)
{
	const char *why;
	char *password = nacos_secret(remote->source->password, &why);
	struct rea_buffer form = {.alloc = NULL};
	uint64_t ttl_s;
	int error;

	if (password == NULL)
		return refuse(remote, REA_ERR_IO, "%s", why);
	error = nacos_form_add(&form, "username", rea_slice_of(remote->source->username));
	if (error == 0)
		error = nacos_form_add(&form, "password", rea_slice_of(password));
	if (error == 0)
		error = rea_buffer_append(&form, "", 1);
	OPENSSL_cleanse(password, strlen(password));
	free(password);
	error = error != 0 ? no_memory(remote)
			   : ask(remote, nacos_url(remote->source, remote->server, path, "", ""),
				 strdup(rea_buffer_data(&form)), NULL);
	if (form.data != NULL)
		OPENSSL_cleanse(form.data, form.capacity);
	rea_buffer_fini(&form);
	if (error != 0)
		return error;
	if (is_missing(remote->fetch.status) && strcmp(path, NACOS_LOGIN_V3) == 0)
		return nacos_login(remote, NACOS_LOGIN_V1);
	if (remote->fetch.status != 200)
		return refuse(
		    remote, REA_ERR_IO, "user %s is refused: HTTP %ld", remote->source->username, remote->fetch.status);
	remote->token = nacos_login_read(reply_of(remote), &ttl_s);
	return remote->token != NULL ? 0 : refuse(remote, REA_ERR_IO, "the answer of the login has no accessToken");
}

/* Does it have v1? A document that is not there and an interface that is not there are both 404, but the long poll tells them apart. */
static int nacos_open(struct remote *remote)
{
	int error = remote->source->username != NULL ? nacos_login(remote, NACOS_LOGIN_V3) : 0;
	char *form;

	remote->v3 = remote->source->mode == REA_NACOS_V3;
	if (error != 0 || remote->source->mode != REA_NACOS_AUTO)
		return error;
	form = nacos_listen_form(remote->source, "");
	if (form == NULL)
		return no_memory(remote);
	/* Without the header that makes it long it is answered at once. */
	error = ask(remote, nacos_url(remote->source, remote->server, NACOS_LISTENER_V1, "", ""), form, NULL);
	remote->v3 = error == 0 && is_missing(remote->fetch.status);
	if (error == 0 && !remote->v3 && remote->fetch.status != 200)
		error = refuse_reply(remote);
	return error;
}

static char *nacos_document_url(struct remote *remote, const char *path, bool v3, const char *more)
{
	char *query = nacos_query(remote->source, v3);
	char *url = query != NULL ? nacos_url(remote->source, remote->server, path, query, more) : NULL;

	free(query);
	return url;
}

static int refuse_answer(struct remote *remote, enum nacos_answer answer, const char *message)
{
	return refuse(remote, REA_ERR_IO, "%s%s", answer == NACOS_FOREIGN ? "it does not have this interface: " : "", message);
}

static int nacos_pull_v3(struct remote *remote, struct rea_buffer *content)
{
	int error = ask(remote, nacos_document_url(remote, NACOS_CONFIG_V3, true, ""), NULL, NULL);
	char message[REMOTE_ERROR_SIZE / 2];
	enum nacos_answer answer;
	const json_t *text;
	json_t *data;

	if (error != 0)
		return error;
	answer = nacos_v3_read(remote->fetch.status, reply_of(remote), &data, message, sizeof(message));
	text = json_object_get(data, "content");
	if (answer == NACOS_ABSENT)
		error = refuse(remote, REA_ERR_NOT_FOUND, "there is no such document");
	else if (answer != NACOS_PRESENT || !json_is_string(text))
		error = refuse_answer(remote, answer, message);
	else if (rea_buffer_append(content, json_string_value(text), json_string_length(text)) != 0)
		error = no_memory(remote);
	json_decref(data);
	return error;
}

static int nacos_pull(struct remote *remote, struct rea_buffer *content, char ret_version[REMOTE_VERSION_SIZE])
{
	size_t before = rea_buffer_length(content);
	int error = remote->v3 ? nacos_pull_v3(remote, content)
			       : ask(remote, nacos_document_url(remote, NACOS_CONFIG_V1, false, ""), NULL, NULL);

	if (error == 0 && !remote->v3) {
		if (remote->fetch.status == 404)
			error = refuse(remote, REA_ERR_NOT_FOUND, "there is no such document");
		else if (remote->fetch.status != 200)
			error = refuse_reply(remote);
		else if (rea_buffer_append_slice(content, reply_of(remote)) != 0)
			error = no_memory(remote);
	}
	if (error == 0)
		nacos_md5(before < rea_buffer_length(content) ? rea_buffer_data(content) + before : "",
		    rea_buffer_length(content) - before, ret_version);
	return error;
}

static char *nacos_publish_form(const struct remote *remote, struct rea_slice text)
{
	const struct rea_config_source *source = remote->source;
	struct rea_buffer form = {.alloc = NULL};
	char *copy = NULL;
	const char *namespace_id = source->namespace_id[0] == '\0' && remote->v3 ? "public" : source->namespace_id;

	if (nacos_form_add(&form, "dataId", rea_slice_of(source->name)) == 0 &&
	    nacos_form_add(&form, remote->v3 ? "groupName" : "group", rea_slice_of(source->group)) == 0 &&
	    nacos_form_add(&form, remote->v3 ? "namespaceId" : "tenant", rea_slice_of(namespace_id)) == 0 &&
	    nacos_form_add(&form, "type", REA_SLICE_LIT("yaml")) == 0 && nacos_form_add(&form, "content", text) == 0 &&
	    rea_buffer_append(&form, "", 1) == 0)
		copy = strdup(rea_buffer_data(&form));
	rea_buffer_fini(&form);
	return copy;
}

static bool reply_has(const struct remote *remote, const char *words)
{
	struct rea_slice reply = reply_of(remote);

	return memmem(reply.data, reply.length, words, strlen(words)) != NULL;
}

static int nacos_push(struct remote *remote, struct rea_slice text, const char *over, char ret_version[REMOTE_VERSION_SIZE])
{
	char header[64], md5[FETCH_MD5_SIZE], message[REMOTE_ERROR_SIZE / 2], *form = nacos_publish_form(remote, text);
	enum nacos_answer answer;
	json_t *data;
	bool done;
	int error;

	if (form == NULL)
		return no_memory(remote);
	/* Where there is nothing, the sum of nothing: whoever makes one meanwhile is not overwritten. */
	nacos_md5("", 0, md5);
	snprintf(header, sizeof(header), "casMd5: %s", over[0] != '\0' ? over : md5);
	error = ask(remote,
	    nacos_url(remote->source, remote->server, remote->v3 ? NACOS_CONFIG_V3_ADMIN : NACOS_CONFIG_V1, "", ""),
	    form, header);
	if (error != 0)
		return error;
	/* In the words of 2.x, of v3, and of v1 in 3.x. */
	if (remote->fetch.status == 409 || reply_has(remote, "Cas publish fail") || reply_has(remote, "20005") ||
	    rea_slice_equal(reply_of(remote), REA_SLICE_LIT("false")))
		return refuse(remote, REA_ERR_CONFLICT, "the document has changed meanwhile");
	if (!remote->v3) {
		done = remote->fetch.status == 200 && rea_slice_equal(reply_of(remote), REA_SLICE_LIT("true"));
		if (!done)
			return refuse_reply(remote);
	} else {
		answer = nacos_v3_read(remote->fetch.status, reply_of(remote), &data, message, sizeof(message));
		done = answer == NACOS_PRESENT && json_is_true(data);
		json_decref(data);
		if (!done)
			return refuse_answer(remote, answer, message);
	}
	nacos_md5(text.data, text.length, ret_version);
	return 0;
}

/* v1 tells a text, v3 milliseconds. */
static const char *time_text(const json_t *item, char *text, size_t size)
{
	const char *written = json_string_value(json_object_get(item, "lastModifiedTime"));
	json_int_t ms = json_integer_value(json_object_get(item, "modifyTime"));
	time_t seconds;
	struct tm parts;

	if (written != NULL)
		return written;
	if (ms == 0)
		ms = json_integer_value(json_object_get(item, "createTime"));
	seconds = (time_t)(ms / 1000);
	if (ms <= 0 || gmtime_r(&seconds, &parts) == NULL || strftime(text, size, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
		text[0] = '\0';
	return text;
}

static const char *change_of(const json_t *item)
{
	const char *type = json_string_value(json_object_get(item, "opType"));

	if (type == NULL)
		return "";
	return type[0] == 'I' ? "insert" : type[0] == 'D' ? "delete" : "update";
}

static const char *text_or_empty(const json_t *text)
{
	return json_is_string(text) ? json_string_value(text) : "";
}

static void tell_items(const json_t *items, void (*tell)(const struct remote_version *version, void *user_data), void *user_data)
{
	char when[40], id[24];

	for (size_t i = 0; i < json_array_size(items); i++) {
		const json_t *item = json_array_get(items, i), *number = json_object_get(item, "id");
		struct remote_version version = {
		    .id = text_or_empty(number), .change = change_of(item), .when = time_text(item, when, sizeof(when))};

		if (json_is_integer(number)) {
			snprintf(id, sizeof(id), "%lld", (long long)json_integer_value(number));
			version.id = id;
		}
		version.who = text_or_empty(json_object_get(item, "srcUser"));
		if (version.who[0] == '\0')
			version.who = text_or_empty(json_object_get(item, "srcIp"));
		tell(&version, user_data);
	}
}

static int nacos_history(
    struct remote *remote, void (*tell)(const struct remote_version *version, void *user_data), void *user_data)
{
	char message[REMOTE_ERROR_SIZE / 2];
	enum nacos_answer answer;
	json_t *data;
	int error;

	if (!remote->v3) {
		error = ask(remote,
		    nacos_document_url(remote, NACOS_HISTORY_V1, false, "&search=accurate&pageNo=1&pageSize=50"), NULL,
		    NULL);
		if (error != 0)
			return error;
		data = json_loadb(reply_of(remote).data, reply_of(remote).length, 0, NULL);
		if (remote->fetch.status == 200 && json_is_array(json_object_get(data, "pageItems"))) {
			tell_items(json_object_get(data, "pageItems"), tell, user_data);
			json_decref(data);
			return 0;
		}
		json_decref(data);
		/* Servers of 3.x have v1 for clients, and v3 for who administers. */
		if (!is_missing(remote->fetch.status))
			return refuse_reply(remote);
	}
	error = ask(remote, nacos_document_url(remote, NACOS_HISTORY_V3_ADMIN, true, "&pageNo=1&pageSize=50"), NULL, NULL);
	if (error != 0)
		return error;
	answer = nacos_v3_read(remote->fetch.status, reply_of(remote), &data, message, sizeof(message));
	if (answer == NACOS_PRESENT)
		tell_items(json_object_get(data, "pageItems"), tell, user_data);
	json_decref(data);
	return answer == NACOS_PRESENT ? 0 : refuse_answer(remote, answer, message);
}

/* ---- etcd ---- */

/* body: freed here. ret_answer: new reference on success. */
static int etcd_ask(struct remote *remote, const char *path, char *body, json_t **ret_answer)
{
	char *url = NULL;
	const char *said;
	json_t *answer;
	int error;

	if (body == NULL || asprintf(&url, "%s%s", remote->server, path) < 0)
		url = NULL;
	error = ask(remote, url, body, NULL);
	if (error != 0)
		return error;
	answer = json_loadb(reply_of(remote).data, reply_of(remote).length, 0, NULL);
	if (remote->fetch.status == 200 && json_is_object(answer)) {
		*ret_answer = answer;
		return 0;
	}
	said = etcd_message(answer);
	error = said != NULL ? refuse(remote, REA_ERR_IO, "%s", said) : refuse_reply(remote);
	json_decref(answer);
	return error;
}

static int etcd_open(struct remote *remote)
{
	const char *why;
	json_t *body, *answer = NULL;
	char *password;
	int error;

	if (remote->source->username == NULL)
		return 0;
	password = nacos_secret(remote->source->password, &why);
	if (password == NULL)
		return refuse(remote, REA_ERR_IO, "%s", why);
	body = json_pack("{s:s, s:s}", "name", remote->source->username, "password", password);
	error = etcd_ask(remote, ETCD_LOGIN, body != NULL ? json_dumps(body, JSON_COMPACT) : NULL, &answer);
	if (error == 0 && json_is_string(json_object_get(answer, "token")))
		remote->token = strdup(json_string_value(json_object_get(answer, "token")));
	if (error == 0 && remote->token == NULL)
		error = refuse(remote, REA_ERR_IO, "the answer of the login has no token");
	json_decref(answer);
	json_decref(body);
	OPENSSL_cleanse(password, strlen(password));
	free(password);
	return error;
}

static int etcd_range(struct remote *remote, uint64_t revision, struct etcd_value *ret_value, struct rea_buffer *value)
{
	json_t *answer = NULL;
	int error = etcd_ask(remote, ETCD_RANGE, etcd_range_body(remote->source->name, false, revision), &answer);

	if (error == 0 && etcd_range_read(answer, ret_value, value) != 0)
		error = refuse(remote, REA_ERR_IO, "its answer is not what etcd's v3 gateway answers");
	json_decref(answer);
	return error;
}

static int etcd_pull(struct remote *remote, struct rea_buffer *content, char ret_version[REMOTE_VERSION_SIZE])
{
	struct rea_buffer value = {.alloc = NULL};
	struct etcd_value found;
	int error = etcd_range(remote, 0, &found, &value);

	if (error == 0 && !found.present)
		error = refuse(remote, REA_ERR_NOT_FOUND, "there is no such key");
	if (error == 0 && rea_buffer_length(&value) > 0 &&
	    rea_buffer_append(content, rea_buffer_data(&value), rea_buffer_length(&value)) != 0)
		error = no_memory(remote);
	if (error == 0)
		snprintf(ret_version, REMOTE_VERSION_SIZE, "%llu", (unsigned long long)found.mod_revision);
	rea_buffer_fini(&value);
	return error;
}

static int etcd_push(struct remote *remote, struct rea_slice text, const char *over, char ret_version[REMOTE_VERSION_SIZE])
{
	json_t *answer = NULL;
	uint64_t revision = 0;
	int error;

	if (over[0] != '\0' && !rea_slice_to_u64(rea_slice_of(over), &revision))
		return refuse(remote, REA_ERR_CONFLICT, "%s is no revision", over);
	error = etcd_ask(remote, ETCD_TXN, etcd_put_body(remote->source->name, text.data, text.length, revision), &answer);
	if (error == 0 && !json_is_true(json_object_get(answer, "succeeded")))
		error = refuse(remote, REA_ERR_CONFLICT, "the document has changed meanwhile");
	if (error == 0)
		snprintf(ret_version, REMOTE_VERSION_SIZE, "%llu",
		    (unsigned long long)etcd_number(json_object_get(answer, "header"), "revision"));
	json_decref(answer);
	return error;
}

/* The key as it was before each of its changes, back to where it was made or history is compacted. */
static int etcd_history(
    struct remote *remote, void (*tell)(const struct remote_version *version, void *user_data), void *user_data)
{
	struct rea_buffer value = {.alloc = NULL};
	struct etcd_value found;
	uint64_t revision = 0;
	char id[24];
	int error = 0;

	for (unsigned i = 0; i < REMOTE_HISTORY_MAX; i++) {
		error = etcd_range(remote, revision, &found, &value);
		if (error != 0 || !found.present)
			break;
		snprintf(id, sizeof(id), "%llu", (unsigned long long)found.mod_revision);
		tell(&(struct remote_version){.id = id, .change = found.version == 1 ? "insert" : "update", .when = "", .who = ""},
		    user_data);
		if (found.version <= 1)
			break;
		revision = found.mod_revision - 1;
	}
	rea_buffer_fini(&value);
	/* What is compacted is no failure: there is no more to tell. */
	return error != 0 && revision != 0 && reply_has(remote, "compacted") ? 0 : error;
}

/* ---- both ---- */

int remote_open(struct remote *remote, const struct rea_config_source *source)
{
	int error = REA_ERR_IO;

	*remote = (struct remote){.source = source};
	for (size_t i = 0; i < source->servers_len && error != 0; i++) {
		remote->server = source->servers[i];
		error = source->kind == REA_SOURCE_NACOS ? nacos_open(remote) : etcd_open(remote);
	}
	return error;
}

void remote_close(struct remote *remote)
{
	fetch_end(&remote->fetch);
	if (remote->token != NULL)
		OPENSSL_cleanse(remote->token, strlen(remote->token));
	free(remote->token);
}

int remote_pull(struct remote *remote, struct rea_buffer *content, char ret_version[REMOTE_VERSION_SIZE])
{
	ret_version[0] = '\0';
	return remote->source->kind == REA_SOURCE_NACOS ? nacos_pull(remote, content, ret_version)
							: etcd_pull(remote, content, ret_version);
}

int remote_push(
    struct remote *remote, const char *text, size_t length, const char *over, char ret_version[REMOTE_VERSION_SIZE])
{
	return remote->source->kind == REA_SOURCE_NACOS
		   ? nacos_push(remote, rea_slice_make(text, length), over, ret_version)
		   : etcd_push(remote, rea_slice_make(text, length), over, ret_version);
}

int remote_history(struct remote *remote, void (*tell)(const struct remote_version *version, void *user_data), void *user_data)
{
	return remote->source->kind == REA_SOURCE_NACOS ? nacos_history(remote, tell, user_data)
							: etcd_history(remote, tell, user_data);
}
