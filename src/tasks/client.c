#include "tasks/client.h"

#include <stdio.h>
#include <stdlib.h>

#define REPLY_MAX ((size_t)64 * 1024 * 1024)
#define CONNECT_TIMEOUT_S 2L
/* A sync-first submit is answered when the target has answered. */
#define TIMEOUT_S 120L

static const char *speaker = "rea tasks";

int tasks_out_of_memory(void)
{
	fprintf(stderr, "%s: out of memory\n", speaker);
	return 1;
}

static size_t take_reply(char *data, size_t size, size_t count, void *user_data)
{
	struct rea_buffer *reply = user_data;

	(void)size;
	if (rea_buffer_length(reply) + count > REPLY_MAX || rea_buffer_append(reply, data, count) != 0)
		return 0;
	return count;
}

bool tasks_client_open(struct tasks_client *client, const char *name, const char *admin)
{
	const char *from_environment = getenv("REA_ADMIN");

	speaker = name;
	*client = (struct tasks_client){.admin = admin};
	if (admin == NULL)
		client->admin =
		    from_environment != NULL && from_environment[0] != '\0' ? from_environment : TASKS_ADMIN_DEFAULT;
	client->curl = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? curl_easy_init() : NULL;
	if (client->curl == NULL) {
		tasks_out_of_memory();
		return false;
	}
	curl_easy_setopt(client->curl, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(client->curl, CURLOPT_PROTOCOLS_STR, "http,https");
	/* rea itself may be the http_proxy of this environment. */
	curl_easy_setopt(client->curl, CURLOPT_PROXY, "");
	curl_easy_setopt(client->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(client->curl, CURLOPT_CONNECTTIMEOUT, CONNECT_TIMEOUT_S);
	curl_easy_setopt(client->curl, CURLOPT_TIMEOUT, TIMEOUT_S);
	curl_easy_setopt(client->curl, CURLOPT_ERRORBUFFER, client->error);
	curl_easy_setopt(client->curl, CURLOPT_WRITEFUNCTION, take_reply);
	curl_easy_setopt(client->curl, CURLOPT_WRITEDATA, &client->reply);
	return true;
}

void tasks_client_close(struct tasks_client *client)
{
	json_decref(client->document);
	rea_buffer_fini(&client->reply);
	curl_easy_cleanup(client->curl);
	curl_global_cleanup();
}

/* ---- requests ---- */

static char *url_of(const struct tasks_client *client, const char *path)
{
	const char *scheme = strstr(client->admin, "://") != NULL ? "" : "http://";
	size_t length = strlen(client->admin);
	char *url = NULL;

	while (length > 0 && client->admin[length - 1] == '/')
		length--;
	return asprintf(&url, "%s%.*s%s", scheme, (int)length, client->admin, path) >= 0 ? url : NULL;
}

static void perform(struct tasks_client *client, const char *method, const char *body, struct curl_slist *headers)
{
	client->error[0] = '\0';
	client->status = 0;
	rea_buffer_clear(&client->reply);
	json_decref(client->document);
	curl_easy_setopt(client->curl, CURLOPT_HTTPGET, 1L);
	if (strcmp(method, "GET") != 0) {
		curl_easy_setopt(client->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)(body != NULL ? strlen(body) : 0));
		curl_easy_setopt(client->curl, CURLOPT_POSTFIELDS, body != NULL ? body : "");
	}
	curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, headers);
	client->code = curl_easy_perform(client->curl);
	curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, NULL);
	if (client->code == CURLE_OK)
		curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &client->status);
	client->document = client->reply.data != NULL ? json_loadb(rea_buffer_data(&client->reply),
							    rea_buffer_length(&client->reply), JSON_DECODE_ANY, NULL)
						      : NULL;
}

bool tasks_send(struct tasks_client *client, const char *method, const char *path, const json_t *body)
{
	char *url = url_of(client, path), *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
	struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
	bool good = url != NULL && headers != NULL && (body == NULL || text != NULL);

	if (good) {
		curl_easy_setopt(client->curl, CURLOPT_URL, url);
		perform(client, method, text, headers);
	} else
		tasks_out_of_memory();
	curl_slist_free_all(headers);
	free(text);
	free(url);
	return good;
}

bool tasks_ask(struct tasks_client *client, const char *method, const char *path, const json_t *body)
{
	if (!tasks_send(client, method, path, body))
		return false;
	if (client->status >= 200 && client->status < 300 && client->document != NULL)
		return true;
	tasks_tell(client);
	return false;
}

/* ---- what went wrong ---- */

/* Whatever an answer holds, nothing but text gets to the terminal. */
static void tell_text(const char *text)
{
	for (; *text != '\0'; text++)
		putc((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text, stderr);
}

void tasks_tell_problem(const json_t *problem, long status, const char *what)
{
	const char *title = json_string_value(json_object_get(problem, "title"));
	const char *detail = json_string_value(json_object_get(problem, "detail"));
	const char *field = json_string_value(json_object_get(problem, "field"));

	fprintf(stderr, "%s: %s%s", speaker, what, what[0] != '\0' ? ": " : "");
	tell_text(detail != NULL ? detail : title != NULL ? title : "refused");
	fprintf(stderr, " (");
	if (field != NULL && field[0] != '\0') {
		fprintf(stderr, "field ");
		tell_text(field);
		fprintf(stderr, ", ");
	}
	fprintf(stderr, "%ld)\n", status);
}

void tasks_tell(const struct tasks_client *client)
{
	if (client->code != CURLE_OK)
		fprintf(stderr, "%s: cannot ask the admin API at %s: %s\n", speaker, client->admin,
		    client->error[0] != '\0' ? client->error : curl_easy_strerror(client->code));
	else if (json_is_object(client->document) && client->status >= 300)
		tasks_tell_problem(client->document, client->status, "");
	else
		fprintf(stderr, "%s: what answers at %s is not the admin API of rea (%ld)\n", speaker, client->admin,
		    client->status);
}

/* ---- paths ---- */

char *tasks_path(struct tasks_client *client, const char *before, const char *segment, const char *after)
{
	char *escaped = curl_easy_escape(client->curl, segment, (int)strlen(segment)), *path = NULL;

	if (escaped == NULL || asprintf(&path, "%s/%s%s", before, escaped, after) < 0) {
		tasks_out_of_memory();
		path = NULL;
	}
	curl_free(escaped);
	return path;
}

char *tasks_query(struct tasks_client *client, char *path, const char *name, const char *value)
{
	char *escaped, *longer = NULL;

	if (path == NULL || value == NULL)
		return path;
	escaped = curl_easy_escape(client->curl, value, (int)strlen(value));
	if (escaped == NULL ||
	    asprintf(&longer, "%s%c%s=%s", path, strchr(path, '?') != NULL ? '&' : '?', name, escaped) < 0) {
		tasks_out_of_memory();
		longer = NULL;
	}
	curl_free(escaped);
	free(path);
	return longer;
}
