/* Asking the task API of a running rea, as the command line does: one request at a time, what went wrong as a sentence on standard error. */
#ifndef REA_SRC_TASKS_CLIENT_H
#define REA_SRC_TASKS_CLIENT_H

#include "base/buffer.h"

#include <curl/curl.h>
#include <jansson.h>

#define TASKS_ADMIN_DEFAULT "127.0.0.1:7071"

struct tasks_client {
	CURL *curl;
	const char *admin; /* "127.0.0.1:7071", or a URL; borrowed */
	char error[CURL_ERROR_SIZE];
	CURLcode code; /* of the last request */
	long status;   /* of its reply; 0 = none came */
	struct rea_buffer reply;
	json_t *document; /* what it says; NULL = no JSON */
};

/* speaker: who says what went wrong, "rea tasks"; borrowed for good, for the process speaks with one voice. admin NULL: $REA_ADMIN, or the default.
 * False: out of memory, told. */
bool tasks_client_open(struct tasks_client *client, const char *speaker, const char *admin);
void tasks_client_close(struct tasks_client *client);
/* One request, whatever comes of it. body: borrowed until return; NULL = none. False: out of memory, told. */
bool tasks_send(struct tasks_client *client, const char *method, const char *path, const json_t *body);
/* The same, and a reply of 2xx is expected: anything else is told. True: document is there. */
bool tasks_ask(struct tasks_client *client, const char *method, const char *path, const json_t *body);
/* A problem document as a sentence; what: what it is about, "" = nothing to add. */
void tasks_tell_problem(const json_t *problem, long status, const char *what);
/* What came of the last request, if that is no success. */
void tasks_tell(const struct tasks_client *client);
int tasks_out_of_memory(void);

/* A path with one more segment, escaped: "/v1/tasks" and "a/b" and "/cancel" are "/v1/tasks/a%2Fb/cancel". Returns NULL without memory, told. */
char *tasks_path(struct tasks_client *client, const char *before, const char *segment, const char *after);
/* Adds "name=value" to the query of a path that it owns; frees path and returns NULL without memory, told. value NULL: as it is. */
char *tasks_query(struct tasks_client *client, char *path, const char *name, const char *value);

#endif
