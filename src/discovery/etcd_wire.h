/* What an etcd server is asked through its JSON gateway (v3) and what its answers mean, without any I/O. Keys and values travel as base64, 64-bit numbers
 * as strings. */
#ifndef REA_SRC_ETCD_WIRE_H
#define REA_SRC_ETCD_WIRE_H

#include "base/buffer.h"

#include <jansson.h>
#include <stdbool.h>

#define ETCD_RANGE "/v3/kv/range"
#define ETCD_TXN "/v3/kv/txn"
#define ETCD_WATCH "/v3/watch"
#define ETCD_LOGIN "/v3/auth/authenticate"

/* Standard base64, padded. Freed by the caller; NULL = out of memory. */
char *etcd_encode(const char *data, size_t length);
/* Returns 0, REA_ERR_SYNTAX or REA_ERR_NOMEM; out: appended to. */
int etcd_decode(const char *text, struct rea_buffer *out);

/* Bodies of requests. Freed by the caller; NULL = out of memory. prefix: of all keys that begin with key. revision 0 = as it
 * is now. */
char *etcd_range_body(const char *key, bool prefix, uint64_t revision);
char *etcd_watch_body(const char *key, bool prefix, uint64_t start_revision);
/* Put, if the key was last changed at that revision; 0 = if there is no such key. */
char *etcd_put_body(const char *key, const char *text, size_t length, uint64_t mod_revision);

struct etcd_value {
	bool present;
	uint64_t revision;     /* of the store, when it answered */
	uint64_t mod_revision; /* of the key's last change, and the number of its changes since it was made; when present */
	uint64_t version;
};
/* An answer of range; value: cleared, then what the key holds. Returns 0, REA_ERR_SYNTAX or REA_ERR_NOMEM. */
int etcd_range_read(const json_t *answer, struct etcd_value *ret_value, struct rea_buffer *value);

enum etcd_news {
	ETCD_NOTHING, /* the watch is there, or lives */
	ETCD_PUT,
	ETCD_DELETED,
	ETCD_ENDED /* canceled; why says it when the server does: look again */
};
/* One message of a watch. Of several changes the last one counts. Returns 0, REA_ERR_SYNTAX or REA_ERR_NOMEM. */
int etcd_watch_read(const json_t *message, enum etcd_news *ret_news, struct rea_buffer *value, char *why, size_t why_size);

/* What an error answer says. */
const char *etcd_message(const json_t *answer);
uint64_t etcd_number(const json_t *object, const char *name);

#endif
