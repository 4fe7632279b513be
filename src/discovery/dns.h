/*
 * Names looked up through c-ares on the loop: addresses (with /etc/hosts, search domains and all that the system is configured to do) and SRV records.
 *
 * Belongs to the loop's thread.
 */
#ifndef REA_SRC_DNS_H
#define REA_SRC_DNS_H

#include "discovery/roster.h"
#include "loop/loop.h"

struct dns;
struct dns_ask;

enum dns_result {
	DNS_FOUND,
	DNS_NONE,  /* there is no such name, or it has none of what was asked for */
	DNS_FAILED /* nobody gave an answer */
};

/* One question. Zero-initialise with done set. */
struct dns_query {
	/* The answer is here. Never from inside dns_ask; may ask again. */
	void (*done)(struct dns_query *query);
	void *user_data;
	enum dns_result result;
	const char *why; /* unless FOUND; static */
	uint32_t ttl_s;  /* of the record that dies first */
	struct rea_instance_id addresses[ROSTER_ADDRESSES_MAX];
	size_t addresses_len;
	struct roster_list srv; /* of a question for SRV; whoever was told may take it, and else it goes with the next question */
	struct dns_ask *ask; /* private; NULL = not under way */
};

/* servers: "127.0.0.1:53", borrowed while it lives; none = those of the system. NULL = out of memory. */
struct dns *dns_new(struct loop *loop, const char *const *servers, size_t servers_len);
/* Nothing is under way. NULL is a no-op. The memory goes when the loop has closed the handles. */
void dns_free(struct dns *dns);
/* Returns 0, or REA_ERR_NOMEM and done will not be called. */
int dns_ask(struct dns *dns, struct dns_query *query, const char *name, bool srv);
/* No done any more, and nothing of the answer is left. */
void dns_forget(struct dns_query *query);

#endif
