/* Events back from the JSON that rea_event_json wrote: for programs that show them. */
#ifndef REA_SRC_EVENT_READ_H
#define REA_SRC_EVENT_READ_H

#include <rea/event.h>

#include <jansson.h>

/* False: not an event as this version knows it. The texts are borrowed from json. Times are exact to the microsecond
 * (durations up to some years), time_unix_ns to the millisecond. */
bool event_read(const json_t *json, struct rea_event *ret_event);

#endif
