/* An event that owns its texts: one piece of memory, the texts behind the event. It must not be moved. */
#ifndef REA_EVENT_RECORD_H
#define REA_EVENT_RECORD_H

#include <rea/event.h>

/* The texts of an event. */
#define REA__EVENT_TEXTS(X) \
	X(call_id) X(biz_id) X(key) X(trace_id) X(service) X(method) X(instance) X(evidence) X(detail)
#define REA__EVENT_TEXTS_COUNT 9

struct rea__record {
	size_t size; /* of the whole, a multiple of its alignment */
	struct rea_event event;
};

#define REA__RECORD_SIZE_MAX (sizeof(struct rea__record) + REA__EVENT_TEXTS_COUNT * REA_EVENT_TEXT_MAX)

/* How many bytes of text an event keeps: at most REA_EVENT_TEXT_MAX, no character split. */
size_t rea__text_kept(struct rea_text text);
/* Size of the record of event, at most REA__RECORD_SIZE_MAX. */
size_t rea__record_size(const struct rea_event *event);
/* size: rea__record_size of the same event. */
void rea__record_write(struct rea__record *record, size_t size, const struct rea_event *event);

#endif
