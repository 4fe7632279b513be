#include "event/record.h"

#include "event/utf8.h"

#include <stdalign.h>
#include <string.h>

_Static_assert(
    REA__RECORD_SIZE_MAX % alignof(struct rea__record) == 0, "the largest record is a whole number of units");

size_t rea__text_kept(struct rea_text text)
{
	return rea__utf8_cut(text.text, text.length, REA_EVENT_TEXT_MAX);
}

size_t rea__record_size(const struct rea_event *event)
{
	size_t unit = alignof(struct rea__record), size = sizeof(struct rea__record);

#define X(name) size += rea__text_kept(event->name);
	REA__EVENT_TEXTS(X)
#undef X
	return (size + unit - 1) / unit * unit;
}

static char *keep_text(struct rea_text *text, char *end)
{
	size_t kept = rea__text_kept(*text);

	if (kept > 0)
		memcpy(end, text->text, kept);
	*text = (struct rea_text){end, kept};
	return end + kept;
}

void rea__record_write(struct rea__record *record, size_t size, const struct rea_event *event)
{
	char *end = (char *)(record + 1);

	record->size = size;
	record->event = *event;
#define X(name) end = keep_text(&record->event.name, end);
	REA__EVENT_TEXTS(X)
#undef X
}
