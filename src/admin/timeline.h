/*
 * GET /v1/timelines/{biz_id}: everything that is known of one business request, from the ring, the history and the tasks, each thing once.
 */
#ifndef REA_SRC_ADMIN_TIMELINE_H
#define REA_SRC_ADMIN_TIMELINE_H

#include "admin/answer.h"

/* The whole answer. text: as a person reads it, else JSON. */
void timeline_answer(struct answer *answer, const struct admin_sources *sources, struct rea_text biz_id, bool text);

/* ---- for admin_sources.tasks ---- */

/* A task as the API tells of it: a JSON object. Copied. */
void timeline_add_task(struct timeline *timeline, struct rea_slice json);
/* An attempt that the task's store has recorded, with id 0, its times in ns since 1970. Left out when an event of this call_id and attempt is there
 * already. Copied with its texts. */
void timeline_add_attempt(struct timeline *timeline, const struct rea_event *event);
/* Something is missing. The first reason that was given is told. why: copied. */
void timeline_note_incomplete(struct timeline *timeline, const char *why);

#endif
