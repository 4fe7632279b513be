/*
 * The instances of one service: what its source lists, what the names in it stand for, and what of that holds. Without I/O.
 *
 *   source ─▶ struct roster_list ─▶ names looked up ─▶ struct roster_instance[] ─▶ struct roster: what calls may go to
 *
 * A list without a usable instance is not believed at once: registries are empty for a while after they were restarted. The last list that had some
 * holds for a grace time.
 */
#ifndef REA_SRC_ROSTER_H
#define REA_SRC_ROSTER_H

#include "base/slice.h"

#include <rea/balancer.h>
#include <rea/random.h>

/* Of one service; a source that lists more is not believed. */
#define ROSTER_INSTANCES_MAX 10000
/* Further addresses of one name are left out. */
#define ROSTER_ADDRESSES_MAX 32
#define ROSTER_PROBLEM_SIZE 256
/* Weights of sources that have fractions, and none at all, are so many of ours. */
#define ROSTER_WEIGHT_UNIT 100

/* ---- what a source lists ---- */

struct roster_entry {
	char *name; /* an address or a name to be looked up */
	uint16_t port;
	uint32_t weight; /* >= 1 */
	uint32_t tier;   /* those of a lower one come first */
	char *host;      /* Host sent to it; NULL = the service's */
	char *permits;   /* see permits.h; NULL = it says nothing */
};

struct roster_list {
	struct roster_entry *items; /* the usable ones */
	size_t len, capacity;
	size_t listed;                     /* usable or not */
	bool protection;                   /* the registry tells no health any more, as too few are healthy */
	char problem[ROSTER_PROBLEM_SIZE]; /* something in it that is not right, but no reason to refuse it; "" = nothing */
};

/* A copy of the entry; name: length bytes. Returns 0, REA_ERR_LIMIT or REA_ERR_NOMEM. */
int roster_list_add(struct roster_list *list, struct rea_slice name, const struct roster_entry *entry);
/* By tier, name and port: for sources whose order means nothing. */
void roster_list_sort(struct roster_list *list);
void roster_list_fini(struct roster_list *list);
/* A weight of a source; 0 = it gets no calls: zero, below it, or no number. */
uint32_t roster_weight(double weight);
/* "10.0.0.1:80", "[::1]:80", "users-1:80". Returns false without a name or a good port. */
bool roster_split(struct rea_slice address, struct rea_slice *ret_name, uint16_t *ret_port);

/* ---- names ---- */

/* What is known of one name. due_ns: when it is looked up (again). */
struct roster_name {
	char *text;
	bool known; /* it was looked up, whatever came of it */
	uint32_t failures;
	uint64_t due_ns;
	uint64_t answered_ns; /* 0 = never */
	size_t len;
	struct rea_instance_id addresses[ROSTER_ADDRESSES_MAX]; /* without ports */
};

/* A record that may live for ttl_s is asked for anew so long after: a little before its end, never within a second, after 5 minutes at the latest. */
uint64_t roster_refresh_ns(uint32_t ttl_s, struct rea_random *random);
/* After so many failures in a row: 1 s, doubled up to 30 s, 20 % more or less. */
uint64_t roster_pause_ns(uint32_t failures, struct rea_random *random);
/* One address more, of which the least ROSTER_ADDRESSES_MAX are kept in their order: servers turn the order with each answer, and which ones are left out must
 * not turn with it. Returns how many there are. */
size_t roster_addresses_add(struct rea_instance_id *addresses, size_t len, const struct rea_instance_id *address);
/* There are these addresses, or none. More than fit are left out. Returns whether they are others than before, or the first. */
bool roster_name_answered(struct roster_name *name, const struct rea_instance_id *addresses, size_t len, uint32_t ttl_s,
    struct rea_random *random, uint64_t now_ns);
/* Nobody knows: the last addresses stay. */
void roster_name_failed(struct roster_name *name, struct rea_random *random, uint64_t now_ns);

/* ---- what calls may go to ---- */

struct roster_instance {
	struct rea_instance_id id;
	uint32_t weight;
	uint32_t tier;
	char *name; /* that it was listed under; NULL = its address */
	char *host;
	char *permits;
};

/* find: the name with that text, NULL = it is not known yet. An address that stands in the list twice counts once, as it stands first.
 * Returns 0 or REA_ERR_NOMEM; ret_items: to be freed with roster_instances_free, NULL with a length of 0. */
int roster_resolve(const struct roster_list *list, const struct roster_name *(*find)(const char *text, void *user_data),
    void *user_data, struct roster_instance **ret_items, size_t *ret_len);
void roster_instances_free(struct roster_instance *items, size_t len);
/* The text is an address, so that nothing needs to be looked up. */
bool roster_is_address(const char *text, struct rea_instance_id *ret_id);

/* Zero-initialise with grace_ns and empty_since_ns = REA_NEVER. */
struct roster {
	struct roster_instance *items;
	size_t len;
	uint64_t grace_ns;
	uint64_t empty_since_ns; /* an empty list is held back; REA_NEVER = none is */
	uint64_t changes;        /* how often items were replaced by others */
};

enum roster_news {
	ROSTER_SAME,
	ROSTER_CHANGED, /* items are others */
	ROSTER_HELD,    /* there would be none: the last ones hold for the grace time */
	ROSTER_EMPTIED  /* its end: there are none */
};

struct roster_difference {
	size_t added, removed, altered; /* altered: another weight, tier, Host or permission */
	struct rea_instance_id first;   /* of them; when one of the numbers is not 0 */
};

/* items: taken over. ret_difference: of CHANGED and EMPTIED. */
enum roster_news roster_offer(struct roster *roster, struct roster_instance *items, size_t len, uint64_t now_ns,
    struct roster_difference *ret_difference);
/* When the grace time is over; REA_NEVER = nothing is held. */
uint64_t roster_due_ns(const struct roster *roster);
enum roster_news roster_run(struct roster *roster, uint64_t now_ns, struct roster_difference *ret_difference);
void roster_fini(struct roster *roster);

#endif
