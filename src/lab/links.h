/*
 * The callers' wire on sockets: calls, and the connections to the instances of one layer that they go over. Whoever calls has its own: the clients in their
 * thread, and in the instances' thread each layer that asks another one.
 */
#ifndef REA_SRC_LAB_LINKS_H
#define REA_SRC_LAB_LINKS_H

#include "lab/caller.h"
#include "lab/pacer.h"

/*
 * What a request says of itself: "CALL OPERATION DEADLINE CALL-DEADLINE TELLS", times in ns of the run's clock. A client of another kind, or a proxy
 * between, leaves it as it is. Which attempt it is stands in rea-attempt, as everywhere.
 */
#define LAB_FIELD "x-lab"

struct lab_link;
struct lab_links;

struct lab_socket_call {
	struct lab_call lab; /* first */
	struct lab_links *links;
	struct lab_work *cause; /* the request that it is made for; NULL = a client's own */
	struct lab_link *link;  /* private, as is the rest */
	uint64_t deadline_ns;   /* of the attempt */
	struct lab_socket_call *next;
};

struct lab_links {
	const struct lab_scenario *scenario;
	struct lab_pacer *pacer;
	void (*failed)(struct lab_links *links, int error); /* the run is worthless */
	uint32_t count;                                     /* instances; private, as is the rest */
	struct sockaddr_storage addresses[LAB_INSTANCES_MAX];
	uint32_t *refused[LAB_INSTANCES_MAX]; /* connections, per bin: no instance saw them */
	uint32_t bins;
	struct lab_link *idle[LAB_INSTANCES_MAX];
	struct lab_link *all;
	struct rea_arena memory;
	struct lab_socket_call *free_calls;
};

/* scenario, pacer and failed are set, everything else is zero. Nothing is connected to yet. */
void lab_links_init(struct lab_links *links);
/* One more instance. Returns 0, REA_ERR_INVALID or REA_ERR_NOMEM. */
int lab_links_add(struct lab_links *links, const char *address, uint32_t bins);
/* Every connection is closed, and nobody hears of it. The loop still runs, or its loop_fini is to come. */
void lab_links_close(struct lab_links *links);
/* Closed. */
void lab_links_fini(struct lab_links *links);
/* Connections that were refused, since a port was closed, the layer's instances are told now. */
void lab_links_tell_refused(const struct lab_links *links, struct lab_callee *callee, uint32_t layer);

/* NULL = `failed` was called. */
struct lab_socket_call *lab_links_take(struct lab_links *links);
/* A call that is over. */
void lab_links_give_back(struct lab_socket_call *call);
/* For a lab_wire; calls are struct lab_socket_call. */
void lab_links_send(struct lab_call *call, size_t instance, uint64_t deadline_ns, uint64_t now_ns);
void lab_links_abandon(struct lab_call *call, uint64_t now_ns);

#endif
