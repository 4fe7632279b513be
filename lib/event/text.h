/* Pieces of text that the writers of events share. */
#ifndef REA_EVENT_TEXT_H
#define REA_EVENT_TEXT_H

#include "base/format.h"

#include <rea/event.h>

/* "2026-01-02T03:04:05.678Z". Milliseconds, rounded down. */
void rea__format_time(struct rea_format *format, int64_t unix_ns);
/* Does the event tell of a call? Breaker and Config do not. */
bool rea__event_is_call(enum rea_event_type type);
/* "http", "grpc", "errno"; "" for none. */
const char *rea__code_kind_name(enum rea_code_kind kind);

#endif
