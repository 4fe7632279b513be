/* Tasks and targets as resources of the admin API (doc/internals/queue.md lists them). */
#ifndef REA_SRC_QUEUE_API_H
#define REA_SRC_QUEUE_API_H

#include "admin/admin.h"
#include "admin/timeline.h"
#include "queue/queue.h"

struct api;

/* queue: borrowed while the api lives. NULL = out of memory. */
struct api *api_new(struct queue *queue);
/* The admin that has its routes is closed. NULL is fine. */
void api_free(struct api *api);
/* For admin_sources.tasks: the tasks of one biz_id, and their recorded attempts. Returns 0, or an error when they cannot be read. */
int api_timeline(struct api *api, struct rea_text biz_id, struct timeline *timeline);
/* For admin_sources.tables. Lives as long as the api. */
struct admin_routes api_routes(struct api *api);

#endif
