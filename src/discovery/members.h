/*
 * Which instances each service has now: followed from wherever the configuration says they are found, names looked up, empty lists held back.
 *
 * What is not known any more (a registry that is away, a name that nobody resolves) leaves the last list as it is; how old it is is told.
 *
 * Belongs to the loop's thread.
 */
#ifndef REA_SRC_MEMBERS_H
#define REA_SRC_MEMBERS_H

#include "discovery/roster.h"
#include "loop/loop.h"

#include <rea/config.h>
#include <rea/metrics.h>

struct members;

struct members_events {
	/* Some services have other instances than before: members_of tells. Once for all that changed in one turn. */
	void (*changed)(void *user_data);
	/* One line for whoever runs this: what changed, what is wrong with a source, that it is well again. */
	void (*notice)(const char *text, void *user_data);
	/* Once: each service of the first configuration has a list, or will not have one soon. */
	void (*settled)(void *user_data);
	void *user_data;
};

/* only: the one service that is followed, borrowed while it lives; NULL = all. events: copied. NULL = out of memory. */
struct members *members_new(struct loop *loop, const char *only, const struct members_events *events);
/* Follow the services of this configuration from now on: those that are found where they were found before go on as they are, others keep what their
 * name had until their new source has answered. Addresses that stand in the configuration hold with the return. Takes references of config. No event
 * from inside. Returns 0, or REA_ERR_NOMEM and nothing has changed. */
int members_configure(struct members *members, struct rea_config *config);
/* Look at files and names now (SIGHUP). */
void members_look(struct members *members);
/* No more events. NULL is a no-op. The memory goes when the loop has closed the handles of files and sockets. */
void members_free(struct members *members);

/* The instances of a service of the configuration; borrowed until the next turn of the loop. NULL with *ret_len = 0 when there are none. */
const struct roster_instance *members_of(const struct members *members, const char *service, size_t *ret_len);

/* Where a service's instances come from, and how that stands. */
struct members_view {
	const char *source; /* "dns users.internal"; borrowed until the next turn */
	uint64_t age_ns;    /* since the source last gave a list; REA_NEVER = it never did */
	uint64_t failures;  /* of the source, ever */
	bool held;          /* the source lists none: what is used are the last ones */
	bool protection;    /* the registry tells no health any more */
	bool troubled;      /* the source failed when it was last asked */
};
/* False: there is no such service. */
bool members_look_at(const struct members *members, struct rea_slice service, struct members_view *ret_view);
void members_metrics(const struct members *members, struct rea_prometheus *out);

#endif
