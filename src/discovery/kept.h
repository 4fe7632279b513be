/* The last good document of a server, in a file of our own: what holds when the server is not there at the next start. */
#ifndef REA_SRC_KEPT_H
#define REA_SRC_KEPT_H

#include "base/buffer.h"

#include <rea/config.h>

/* The file of this source in that directory. Two sources that differ in servers, namespace, group or name have two files. Freed by the caller; NULL = out of
 * memory. */
char *kept_path(const char *directory, const struct rea_config_source *source);
/* Returns 0, or an errno value: ENOENT = nothing is kept. ret_age_s: since the server last had it so. */
int kept_read(const char *path, int64_t now_unix_s, struct rea_buffer *content, uint64_t *ret_age_s);
/* All of it or nothing, readable for us alone; the directory is made when it is missing. Returns 0 or an errno value. */
int kept_write(const char *path, const char *text, size_t length);
/* The server has it still: its age begins anew. */
void kept_touch(const char *path);
void kept_remove(const char *path);

#endif
