/*
 * The way of events out of a thread: a ring of bytes between one writer and one reader, without a lock.
 *
 * Guarantees: a push copies and returns, whatever the reader does; records come out whole, once, in the order they
 * went in; written + dropped = pushes.
 *
 * head and tail are positions in an endless stream of bytes; `& mask` finds them in memory. The writer alone moves
 * tail, the reader alone head; each publishes with release what the other reads with acquire. A record is never
 * split: one that begins before the end of the ring runs on into the spare room behind it, and the next begins where
 * the stream says, so nothing is lost and the largest record always fits an empty queue.
 */
#include <rea/event.h>

#include "base/bounds.h"
#include "event/record.h"

#include <assert.h>
#include <float.h>
#include <stdatomic.h>
#include <string.h>

#define QUEUE_BYTES_MIN 4096
#define CACHE_LINE 64

struct rea_event_queue {
	struct rea_alloc alloc;
	size_t mask;
	char apart_1[CACHE_LINE];
	/* the writer's */
	_Atomic uint64_t tail;
	uint64_t head_seen;
	_Atomic uint64_t written;
	_Atomic uint64_t dropped;
	char apart_2[CACHE_LINE];
	/* the reader's */
	_Atomic uint64_t head;
	uint64_t tail_seen;
	char apart_3[CACHE_LINE];
	struct rea__record records[]; /* mask + 1 bytes and the spare room */
};

static int check_bytes(size_t bytes, struct rea_error_info *info)
{
	const struct rea__bound bound = {
	    "bytes", "the capacity in bytes", (double)bytes, QUEUE_BYTES_MIN, DBL_MAX, false, NULL};
	int error = rea__check_bounds(&bound, 1, info);
	struct rea_format text;

	if (error != 0 || (bytes & (bytes - 1)) == 0)
		return error;
	text = rea__begin_refusal(info, "bytes");
	rea_format_text(&text, "the capacity in bytes is ");
	rea_format_u64(&text, bytes);
	rea_format_text(&text, "; it must be a power of two");
	return REA_ERR_INVALID;
}

int rea_event_queue_new(
    size_t bytes, const struct rea_alloc *alloc, struct rea_event_queue **ret_queue, struct rea_error_info *ret_info)
{
	struct rea_event_queue *queue;
	int error = check_bytes(bytes, ret_info);

	if (error != 0)
		return error;
	if (alloc == NULL)
		alloc = rea_alloc_default();
	queue = alloc->realloc(NULL, sizeof(*queue) + bytes + REA__RECORD_SIZE_MAX, alloc->user_data);
	if (queue == NULL)
		return REA_ERR_NOMEM;
	memset(queue, 0, sizeof(*queue)); /* not the ring: memory that is never used is never touched */
	queue->alloc = *alloc;
	queue->mask = bytes - 1;
	*ret_queue = queue;
	return 0;
}

void rea_event_queue_free(struct rea_event_queue *queue)
{
	if (queue)
		queue->alloc.free(queue, queue->alloc.user_data);
}

static struct rea__record *record_at(struct rea_event_queue *queue, uint64_t position)
{
	return (void *)((char *)queue->records + (position & queue->mask));
}

/* Of a counter that one thread writes. */
static void count_one(_Atomic uint64_t *counter)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

static bool has_room(struct rea_event_queue *queue, uint64_t tail, size_t size)
{
	if (tail + size - queue->head_seen <= queue->mask + 1)
		return true;
	queue->head_seen = atomic_load_explicit(&queue->head, memory_order_acquire);
	return tail + size - queue->head_seen <= queue->mask + 1;
}

bool rea_event_queue_push(struct rea_event_queue *queue, const struct rea_event *event)
{
	uint64_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);
	size_t size = rea__record_size(event);

	if (!has_room(queue, tail, size)) {
		count_one(&queue->dropped);
		return false;
	}
	rea__record_write(record_at(queue, tail), size, event);
	count_one(&queue->written);
	atomic_store_explicit(&queue->tail, tail + size, memory_order_release);
	return true;
}

/* Is there a record at this position? */
static bool has_record(struct rea_event_queue *queue, uint64_t position)
{
	if (position == queue->tail_seen)
		queue->tail_seen = atomic_load_explicit(&queue->tail, memory_order_acquire);
	return position != queue->tail_seen;
}

bool rea_event_queue_peek(struct rea_event_queue *queue, struct rea_event *ret_event)
{
	uint64_t position = 0;

	return rea_event_queue_next(queue, &position, ret_event);
}

bool rea_event_queue_next(struct rea_event_queue *queue, uint64_t *position, struct rea_event *ret_event)
{
	uint64_t head = atomic_load_explicit(&queue->head, memory_order_relaxed);
	uint64_t at = *position == 0 ? head : *position;
	const struct rea__record *record;

	if (!has_record(queue, at))
		return false;
	record = record_at(queue, at);
	*ret_event = record->event;
	*position = at + record->size;
	return true;
}

void rea_event_queue_pop_until(struct rea_event_queue *queue, uint64_t position)
{
	if (position != 0)
		atomic_store_explicit(&queue->head, position, memory_order_release);
}

void rea_event_queue_pop(struct rea_event_queue *queue)
{
	uint64_t head = atomic_load_explicit(&queue->head, memory_order_relaxed);

	assert(head != queue->tail_seen);
	atomic_store_explicit(&queue->head, head + record_at(queue, head)->size, memory_order_release);
}

uint64_t rea_event_queue_written(const struct rea_event_queue *queue)
{
	return atomic_load_explicit(&queue->written, memory_order_relaxed);
}

uint64_t rea_event_queue_dropped(const struct rea_event_queue *queue)
{
	return atomic_load_explicit(&queue->dropped, memory_order_relaxed);
}
