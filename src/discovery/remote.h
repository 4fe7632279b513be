/* Reads and writes one document at its servers while the caller waits: what `rea config` does. */
#ifndef REA_SRC_REMOTE_H
#define REA_SRC_REMOTE_H

#include "discovery/fetch.h"

#include <rea/config.h>

/* Names a version: an MD5 of Nacos, a revision of etcd; "" = there is no document. */
#define REMOTE_VERSION_SIZE FETCH_MD5_SIZE
#define REMOTE_ERROR_SIZE 512
/* So many of a history are shown. */
#define REMOTE_HISTORY_MAX 50

struct remote {
	const struct rea_config_source *source; /* borrowed */
	const char *server;                     /* the one that answers */
	char error[REMOTE_ERROR_SIZE];          /* why the last call failed */
	struct fetch fetch;                     /* private */
	char *token;                            /* private */
	bool v3;                                /* private: Nacos without v1 */
};

struct remote_version {
	const char *id;     /* as the server counts */
	const char *change; /* "insert", "update", "delete" */
	const char *when;   /* "" = the server does not say, as below */
	const char *who;
};

/* Finds a server that answers and lets us in. Returns 0, REA_ERR_IO or REA_ERR_NOMEM. Closed in any case. */
int remote_open(struct remote *remote, const struct rea_config_source *source);
void remote_close(struct remote *remote);
/* Returns 0, REA_ERR_NOT_FOUND with version "", REA_ERR_IO or REA_ERR_NOMEM. content: appended to. */
int remote_pull(struct remote *remote, struct rea_buffer *content, char ret_version[REMOTE_VERSION_SIZE]);
/* Puts a document in the place of the version over, and of no other. Returns 0, REA_ERR_CONFLICT: it is not that any more, REA_ERR_IO or REA_ERR_NOMEM. */
int remote_push(
    struct remote *remote, const char *text, size_t length, const char *over, char ret_version[REMOTE_VERSION_SIZE]);
/* Versions, the newest first. Returns 0, REA_ERR_IO or REA_ERR_NOMEM. */
int remote_history(
    struct remote *remote, void (*tell)(const struct remote_version *version, void *user_data), void *user_data);

#endif
