#include <rea/event.h>

const char *rea_event_type_name(enum rea_event_type type)
{
	static const char *const names[REA_EVENT_TYPE_COUNT] = {
#define X(name, text) text,
	    REA_EVENT_TYPE_MAP(X)
#undef X
	};

	return (size_t)type < REA_EVENT_TYPE_COUNT ? names[type] : "invalid";
}
