/* The two files of the event sink among themselves. */
#ifndef REA_STORE_SQLITE_EVENT_SINK_H
#define REA_STORE_SQLITE_EVENT_SINK_H

#include "store/sqlite/sqlite.h"

#include <rea/event_sqlite.h>

extern const struct rea__schema rea__events_schema;
extern const char rea__events_insert_sql[];
/* One row. boot: the id of a row in the table boot. */
int rea__events_insert(sqlite3_stmt *insert, const struct rea_event *event, int64_t boot);

#endif
