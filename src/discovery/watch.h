/*
 * Watches one file for new content, however it comes: written in place, renamed over by an editor, or by a link
 * that swings to another directory (Kubernetes ConfigMaps). The kernel tells of changes in the directories; a look
 * every 2 s finds what it did not tell.
 *
 * Belongs to the loop's thread.
 */
#ifndef REA_SRC_WATCH_H
#define REA_SRC_WATCH_H

#include "loop/loop.h"

#include <rea/error.h>

struct watch;

/* Called with the file's whole content when it is other than the last; text is borrowed until return. Or, once,
 * with text NULL and an error when the file has been unreadable for two looks in a row. Never called inside
 * watch_start. May call watch_stop. */
typedef void watch_changed(const char *text, size_t length, const struct rea_error_info *error, void *user_data);

/* path: copied. version: rea_config_version of the content in use, so that a change since then is noticed; copied.
 * Returns 0 or REA_ERR_NOMEM. */
int watch_start(struct loop *loop, const char *path, const char *version, watch_changed *changed, void *user_data,
    struct watch **ret_watch);
/* Look now (SIGHUP). again: call back even when the content is the last one, or unreadable. */
void watch_look(struct watch *watch, bool again);
/* No more callbacks. The memory goes when the loop has closed the handles. NULL is a no-op. */
void watch_stop(struct watch *watch);

#endif
