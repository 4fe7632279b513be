/* What a Nacos server is asked and what its answers mean, without any I/O. A document's data id, group and namespace are of characters that need no
 * escaping (lib/config sees to it); the namespace `public` is the empty one here. */
#ifndef REA_SRC_NACOS_WIRE_H
#define REA_SRC_NACOS_WIRE_H

#include "base/buffer.h"
#include "discovery/fetch.h"

#include <rea/config.h>

#include <jansson.h>

#define NACOS_CONFIG_V1 "/v1/cs/configs"
#define NACOS_LISTENER_V1 "/v1/cs/configs/listener"
#define NACOS_HISTORY_V1 "/v1/cs/history"
#define NACOS_CONFIG_V3 "/v3/client/cs/config"
#define NACOS_CONFIG_V3_ADMIN "/v3/admin/cs/config"
#define NACOS_HISTORY_V3_ADMIN "/v3/admin/cs/history/list"
#define NACOS_LOGIN_V1 "/v1/auth/users/login"
#define NACOS_LOGIN_V3 "/v3/auth/user/login"

/* 32 lower-case hex digits. */
void nacos_md5(const char *data, size_t length, char ret_text[FETCH_MD5_SIZE]);

/* "dataId=…&group=…&tenant=…", or as v3 names them. Freed by the caller; NULL = out of memory. */
char *nacos_query(const struct rea_config_source *source, bool v3);
/* A URL with that query, "" = none, and more of it: "&pageNo=1". Freed by the caller. */
char *nacos_url(
    const struct rea_config_source *source, const char *server, const char *path, const char *query, const char *more);
/* name=value, escaped for a form; added behind "&" when out is not empty. Returns 0 or REA_ERR_NOMEM. */
int nacos_form_add(struct rea_buffer *out, const char *name, struct rea_slice value);

/* The body of a long poll for one document. md5: of what we have; "" = nothing. Freed by the caller. */
char *nacos_listen_form(const struct rea_config_source *source, const char *md5);
enum nacos_changed { NACOS_UNCHANGED, NACOS_CHANGED, NACOS_CHANGED_OTHERS };
/* What the answer of a long poll names: nothing, our document, or only others. */
enum nacos_changed nacos_listen_read(const struct rea_config_source *source, struct rea_slice reply);

enum nacos_answer {
	NACOS_PRESENT,
	NACOS_ABSENT,
	NACOS_DENIED,
	NACOS_BARRED, /* the same, but not in the words of this interface: it may be that the server does not have it */
	NACOS_FAILED,
	NACOS_FOREIGN /* not what this interface answers: the server does not have it */
};
/* An answer of v3; of the others message says what the server said. *ret_data: what stands in `data` of NACOS_PRESENT, new reference;
 * else NULL. */
enum nacos_answer nacos_v3_read(long status, struct rea_slice reply, json_t **ret_data, char *message, size_t message_size);

/* The answer of a login. ret_token: freed by the caller; NULL = there is none in it, or no memory. */
char *nacos_login_read(struct rea_slice reply, uint64_t *ret_ttl_s);

/* What a configured secret is: itself, or with file:PATH the first line of that file. Freed by the caller; NULL with the reason. */
char *nacos_secret(const char *text, const char **ret_why);

#endif
