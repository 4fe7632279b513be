/*
 * The latest events in memory.
 *
 * Guarantees: an add costs the same whatever the ring holds (but for the rare growth of its index); it allocates
 * first and changes nothing when it cannot; memory that no event needed is never touched, so an idle ring costs
 * address space alone.
 *
 * Records stand in `slots` in order of arrival and leave in that order. `buckets` is the index: all records whose
 * biz_id falls into a bucket, oldest first. So the record that leaves is always the first of its bucket, and neither
 * adding nor leaving searches. Order by start time is made when somebody asks, by a merge of the list that needs no
 * memory: people ask seldom, calls fail often.
 */
#include <rea/event.h>

#include "base/bounds.h"
#include "base/hash.h"
#include "event/record.h"

#include <assert.h>
#include <string.h>

#define BUCKETS_MIN 64
#define EVENTS_MAX 1000000

struct node {
	struct node *next;   /* in its bucket */
	struct node *sorted; /* scratch of rea_event_ring_each */
	uint64_t hash;
	struct rea__record record; /* last: its texts follow */
};

struct bucket {
	struct node *first;
	struct node *last;
};

struct rea_event_ring {
	struct rea_alloc alloc;
	size_t capacity;
	size_t count;
	size_t oldest;      /* slot of the oldest */
	size_t buckets_len; /* a power of two, 0 = none */
	struct bucket *buckets;
	struct node *slots[]; /* only count of them mean anything */
};

int rea_event_ring_new(
    size_t events, const struct rea_alloc *alloc, struct rea_event_ring **ret_ring, struct rea_error_info *ret_info)
{
	const struct rea__bound bound = {"events", "the number of events", (double)events, 0, EVENTS_MAX, false, NULL};
	struct rea_event_ring *ring;
	int error = rea__check_bounds(&bound, 1, ret_info);

	if (error != 0)
		return error;
	if (alloc == NULL)
		alloc = rea_alloc_default();
	ring = alloc->realloc(NULL, sizeof(*ring) + events * sizeof(struct node *), alloc->user_data);
	if (ring == NULL)
		return REA_ERR_NOMEM;
	memset(ring, 0, sizeof(*ring));
	ring->alloc = *alloc;
	ring->capacity = events;
	*ret_ring = ring;
	return 0;
}

static struct node *node_at(const struct rea_event_ring *ring, size_t age_index)
{
	return ring->slots[(ring->oldest + age_index) % ring->capacity];
}

void rea_event_ring_free(struct rea_event_ring *ring)
{
	if (ring == NULL)
		return;
	for (size_t i = 0; i < ring->count; i++)
		ring->alloc.free(node_at(ring, i), ring->alloc.user_data);
	ring->alloc.free(ring->buckets, ring->alloc.user_data);
	ring->alloc.free(ring, ring->alloc.user_data);
}

static struct bucket *bucket_of(const struct rea_event_ring *ring, uint64_t hash)
{
	return &ring->buckets[hash & (ring->buckets_len - 1)];
}

static void bucket_append(struct rea_event_ring *ring, struct node *node)
{
	struct bucket *bucket = bucket_of(ring, node->hash);

	node->next = NULL;
	if (bucket->first == NULL)
		bucket->first = node;
	else
		bucket->last->next = node;
	bucket->last = node;
}

/* As many buckets as records, if memory allows; fewer only make questions slower. */
static int index_grow(struct rea_event_ring *ring)
{
	size_t length = ring->buckets_len ? ring->buckets_len * 2 : BUCKETS_MIN;
	struct bucket *buckets;

	if (ring->count < ring->buckets_len)
		return 0;
	buckets = ring->alloc.realloc(NULL, length * sizeof(*buckets), ring->alloc.user_data);
	if (buckets == NULL)
		return ring->buckets_len ? 0 : REA_ERR_NOMEM;
	memset(buckets, 0, length * sizeof(*buckets));
	ring->alloc.free(ring->buckets, ring->alloc.user_data);
	ring->buckets = buckets;
	ring->buckets_len = length;
	for (size_t i = 0; i < ring->count; i++)
		bucket_append(ring, node_at(ring, i));
	return 0;
}

static void drop_oldest(struct rea_event_ring *ring)
{
	struct node *node = node_at(ring, 0);
	struct bucket *bucket = bucket_of(ring, node->hash);

	assert(bucket->first == node);
	bucket->first = node->next;
	ring->oldest = (ring->oldest + 1) % ring->capacity;
	ring->count--;
	ring->alloc.free(node, ring->alloc.user_data);
}

int rea_event_ring_add(struct rea_event_ring *ring, const struct rea_event *event)
{
	size_t size = rea__record_size(event);
	struct node *node;
	int error;

	if (ring->capacity == 0)
		return 0;
	error = index_grow(ring);
	if (error != 0)
		return error;
	node = ring->alloc.realloc(NULL, sizeof(*node) - sizeof(node->record) + size, ring->alloc.user_data);
	if (node == NULL)
		return REA_ERR_NOMEM;
	rea__record_write(&node->record, size, event);
	node->hash = rea_hash(node->record.event.biz_id.text, node->record.event.biz_id.length);
	if (ring->count == ring->capacity)
		drop_oldest(ring);
	ring->slots[(ring->oldest + ring->count) % ring->capacity] = node;
	ring->count++;
	bucket_append(ring, node);
	return 0;
}

size_t rea_event_ring_count(const struct rea_event_ring *ring)
{
	return ring->count;
}

/* ---- questions ---- */

static bool starts_later(const struct node *a, const struct node *b)
{
	return a->record.event.attempt_start_ns > b->record.event.attempt_start_ns;
}

/* Of equal starts, a's come first. */
static struct node *merge(struct node *a, struct node *b)
{
	struct node *first = NULL, **end = &first;

	while (a && b) {
		struct node **smaller = starts_later(a, b) ? &b : &a;

		*end = *smaller;
		end = &(*smaller)->sorted;
		*smaller = (*smaller)->sorted;
	}
	*end = a ? a : b;
	return first;
}

/* A list being sorted, bottom up: runs[i] is a sorted run of 2^i nodes, older than all runs below it. */
struct sorter {
	struct node *runs[24];
};

_Static_assert(EVENTS_MAX < 1 << 23, "every run has its place");

static void sorter_add(struct sorter *sorter, struct node *node)
{
	size_t i;

	node->sorted = NULL;
	for (i = 0; sorter->runs[i]; i++) {
		node = merge(sorter->runs[i], node);
		sorter->runs[i] = NULL;
	}
	sorter->runs[i] = node;
}

static struct node *sorter_finish(struct sorter *sorter)
{
	struct node *result = NULL;

	for (size_t i = 0; i < sizeof(sorter->runs) / sizeof(sorter->runs[0]); i++)
		result = merge(sorter->runs[i], result);
	return result;
}

static void sort_bucket(const struct rea_event_ring *ring, struct rea_text biz_id, struct sorter *sorter)
{
	uint64_t hash = rea_hash(biz_id.text, rea__text_kept(biz_id));

	if (ring->buckets_len == 0)
		return;
	for (struct node *node = bucket_of(ring, hash)->first; node; node = node->next) {
		if (rea_event_is_of(&node->record.event, biz_id))
			sorter_add(sorter, node);
	}
}

void rea_event_ring_each(const struct rea_event_ring *ring, struct rea_text biz_id,
    bool (*each)(const struct rea_event *event, void *user_data), void *user_data)
{
	struct sorter sorter = {{NULL}};
	struct node *node;

	if (biz_id.length > 0)
		sort_bucket(ring, biz_id, &sorter);
	else
		for (size_t i = 0; i < ring->count; i++)
			sorter_add(&sorter, node_at(ring, i));
	for (node = sorter_finish(&sorter); node; node = node->sorted)
		if (!each(&node->record.event, user_data))
			return;
}

uint64_t rea_event_ring_newest(const struct rea_event_ring *ring)
{
	return ring->count > 0 ? node_at(ring, ring->count - 1)->record.event.id : 0;
}

uint64_t rea_event_ring_oldest(const struct rea_event_ring *ring)
{
	return ring->count > 0 ? node_at(ring, 0)->record.event.id : 0;
}

void rea_event_ring_since(const struct rea_event_ring *ring, uint64_t after,
    bool (*each)(const struct rea_event *event, void *user_data), void *user_data)
{
	size_t from = 0, end = ring->count;

	/* Ids grow: the first that is greater is found by halving. */
	while (from < end) {
		size_t middle = from + (end - from) / 2;

		if (node_at(ring, middle)->record.event.id > after)
			end = middle;
		else
			from = middle + 1;
	}
	while (from < ring->count)
		if (!each(&node_at(ring, from++)->record.event, user_data))
			return;
}
