/*
 * GET /v1/events/stream: events as they come, as server-sent events.
 *
 * A follower has a place in the ring, and is sent what follows it as fast as it reads. One that is too slow finds that the ring has moved on, and is
 * told how many events it missed: it costs its connection's buffer, and nothing waits for it. The same holds for one that comes back with
 * Last-Event-ID. Everything belongs to the loop's thread.
 */
#ifndef REA_SRC_ADMIN_FOLLOW_H
#define REA_SRC_ADMIN_FOLLOW_H

#include "admin/admin.h"

/* Heartbeats at which a follower may still have its backlog, before it is cut off. */
#define FOLLOW_PATIENCE 4

struct follow;

struct follow_options {
	const struct rea_event_ring *ring; /* of events with ids, borrowed while follow lives; NULL = there is nothing to follow */
	uint64_t first_id;                 /* of the first event of this process */
	uint32_t followers_max;            /* at once; more are refused */
	uint64_t heartbeat_ns;             /* at least this often something is sent */
};
#define FOLLOW_OPTIONS_DEFAULT                                         \
	{                                                              \
		.followers_max = 64, .heartbeat_ns = 15 * REA_NS_PER_S \
	}

/* options: copied. Returns 0 or REA_ERR_NOMEM. */
int follow_new(struct loop *loop, const struct follow_options *options, struct follow **ret_follow);
/* All answers end in order, new ones are refused. */
void follow_end(struct follow *follow);
/* After follow_end, or when the admin API is closed. NULL is a no-op. */
void follow_free(struct follow *follow);
/* There are new events in the ring. */
void follow_events(struct follow *follow);
/* To be among the tables of the admin API. */
struct admin_routes follow_routes(struct follow *follow);
void follow_metrics(const struct follow *follow, struct rea_prometheus *out);

#endif
