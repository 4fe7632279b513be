#include <rea/event.h>

#include "base/slice.h"
#include "event/record.h"

#include <rea/time.h>

const char *rea_event_type_name(enum rea_event_type type)
{
	static const char *const names[REA_EVENT_TYPE_COUNT] = {
#define X(name, text) text,
	    REA_EVENT_TYPE_MAP(X)
#undef X
	};

	return (size_t)type < REA_EVENT_TYPE_COUNT ? names[type] : "unknown";
}

int rea_event_type_parse(const char *name, size_t length)
{
	for (int i = 0; i < REA_EVENT_TYPE_COUNT; i++)
		if (rea_slice_equal(rea_slice_make(name, length), rea_slice_of(rea_event_type_name((enum rea_event_type)i))))
			return i;
	return -1;
}

void rea_event_use_wall_clock(struct rea_event *event)
{
	uint64_t took_ns = rea_time_sub(event->time_ns, event->attempt_start_ns);

	event->time_ns = event->time_unix_ns > 0 ? (uint64_t)event->time_unix_ns : 0;
	event->attempt_start_ns = rea_time_sub(event->time_ns, took_ns);
}

bool rea_event_is_of(const struct rea_event *event, struct rea_text biz_id)
{
	size_t kept = rea__text_kept(biz_id);

	return event->biz_id.length == kept && (kept == 0 || memcmp(event->biz_id.text, biz_id.text, kept) == 0);
}
