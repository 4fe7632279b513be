/*
 * Names to addresses, off the loop's thread. Who asks for a name that is being looked up joins that lookup, so a name server that does not answer
 * holds one thread of libuv's pool per name, not one per delivery. Nothing is remembered: every answer is fresh.
 */
#ifndef REA_SRC_QUEUE_LOOKUP_H
#define REA_SRC_QUEUE_LOOKUP_H

#include "loop/loop.h"

/* Zero-initialise with loop set. */
struct lookups {
	struct loop *loop;
	struct lookup *first; /* private: under way */
};

/* One who waits. Zero-initialise with done set; in place until done or lookup_leave. */
struct lookup_wait {
	struct lookup_wait *next; /* private */
	struct lookup *lookup;    /* private; NULL = does not wait */
	/* found: borrowed until return; NULL with a negative uv error. Never from inside lookup_join. */
	void (*done)(struct lookup_wait *wait, const struct addrinfo *found, int error);
};

/* host: a name, copied. Returns 0 or a negative uv error. */
int lookup_join(struct lookups *lookups, struct rea_slice host, struct lookup_wait *wait);
/* No done any more. One that does not wait: no-op. */
void lookup_leave(struct lookup_wait *wait);
/* Nobody waits. What is under way ends by itself on the loop. */
void lookups_fini(struct lookups *lookups);

#endif
