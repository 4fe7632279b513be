/*
 * Deliveries: attempts of tasks at instances of services, through the same connections, loads and numbers as calls. Who has the task decides
 * (rea/executor.h): a delivery is one request, sent once; only what is provably unsent goes out again, on a fresh connection.
 *
 * Everything here belongs to the thread of the proxy's options.loop, whose worker is the one to give.
 */
#ifndef REA_SRC_PROXY_DELIVER_H
#define REA_SRC_PROXY_DELIVER_H

#include "proxy/proxy.h"

#include <rea/call.h>

struct view;
struct view_service;

/* A method of a service as the snapshot of the moment has it. All it points to stays, through reloads, until proxy_route_put. */
struct proxy_route {
	const struct rea_config_service *service;
	const struct rea_operation *operation; /* NULL = the contract declares none that matches */
	const struct rea_policy *policy;       /* of calls of that method */
	struct rea_grant grant;                /* what the contract declares; NONE without an operation */
	const struct rea_instances *instances;
	struct rea_budget *budget; /* the service's, the same object for as long as its name is configured */
	uint32_t budget_shard;
	struct rea_breaker *breaker;   /* of this method at this worker; NULL = off */
	struct rea_retry_limit *limit; /* of the process; lives as long as the proxy */
	uint64_t useful_ns;            /* median latency of an attempt now, 0 = unknown */
	const char *biz_id_header;
	struct view *view; /* private, like what follows */
	struct view_service *in;
};

/* service: its configured name. path: with query. False: there is no such service (now); nothing to put back. */
bool proxy_route_get(struct proxy_worker *worker, struct rea_slice service, struct rea_slice method,
    struct rea_slice path, struct proxy_route *ret_route);
void proxy_route_put(struct proxy_route *route);
/* Of the breakers of a service's methods at this worker, the state of the one that lets the least through. False: it has none. */
bool proxy_service_breaker(struct proxy_worker *worker, struct rea_slice service, enum rea_breaker_state *ret_state);

struct proxy_delivery; /* gone after done or proxy_delivery_cancel */

struct proxy_delivery_options {
	/* Borrowed while the delivery lives, with all that it points to; authority is filled in. Of its fields those of the SKIP set below
	 * are left out: `more` is for them. */
	struct http_request_head head;
	struct rea_slice body;           /* borrowed while the delivery lives */
	size_t instance;                 /* index into the route's instances */
	bool is_retry;                   /* an attempt after the task's first */
	uint64_t deadline_ns;            /* absolute: whatever the instance does, the delivery is over by then */
	size_t reply_max;                /* bytes of the reply's body that are kept; the rest is not read */
	const struct rea_policy *policy; /* its classify reads the status; borrowed while the delivery lives */
	bool check;                      /* no attempt of anything: it counts nowhere, the instance's load included */
	bool grpc;                       /* by HTTP/2, whatever is spoken otherwise, and judged by its grpc-status */
};

/* Borrowed until done returns. */
struct proxy_delivery_result {
	struct rea_report report;
	const char *instance; /* "127.0.0.1:9001" */
	struct rea_slice content_type;
	struct rea_slice reply;
	bool reply_cut;     /* there was more, or it broke off */
	const char *detail; /* for people: what went wrong where; "" = the status says it */
};

/* Sends the request to that instance. route: need not outlive this call. done fires exactly once, never from within; NULL = out of memory. */
struct proxy_delivery *proxy_deliver(const struct proxy_route *route, const struct proxy_delivery_options *options,
    void (*done)(const struct proxy_delivery_result *result, void *user_data), void *user_data);
/* No done any more; what is on its way is cut off. */
void proxy_delivery_cancel(struct proxy_delivery *delivery);

#endif
