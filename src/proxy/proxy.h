/*
 * The sidecar: calls in, attempts out, judged by lib/core.
 *
 * A proxy is one per process and belongs to the main thread; it has one worker per thread, each with a loop of its own, and may have one more that lives
 * on a loop of the caller's and carries deliveries instead of calls. Snapshots of the configuration are installed on the proxy and reach every worker by
 * post: a call lives its whole life under the snapshot it began with.
 */
#ifndef REA_SRC_PROXY_H
#define REA_SRC_PROXY_H

#include "loop/loop.h"

#include <rea/config.h>
#include <rea/event.h>
#include <rea/metrics.h>

struct proxy;
struct proxy_worker;

/* An instance whose address is known, as discovery found it. */
struct proxy_instance {
	struct rea_instance_id id;
	uint32_t weight;
	const char *host; /* Host sent to it; NULL = the service's */
	const char *name; /* the host that it was listed under, with or without a port: whom its certificate must name; NULL = its address */
	uint32_t tier; /* see struct rea_instance */
	/* What it says itself of its methods, an enum rea_permission each: of the operations of the service's contract by index, the last of requests that
	 * are none of them. NULL = it says nothing. */
	const uint8_t *permissions;
};

struct proxy_options {
	uint32_t threads;
	struct loop *loop; /* where one more worker lives, with index `threads`, for deliveries (proxy/deliver.h); borrowed; NULL = none */
	uint32_t events_queue_bytes;
	/* Instances have become healthy or unhealthy: install anew, with the instances as they were. On the loop's thread; with `loop` only. */
	void (*health_changed)(void *user_data);
	/* A worker has pushed events: drain the queues soon. Called on the workers' threads. */
	void (*notify)(void *user_data);
	/* The TLS that is spoken with the instances of a service, NULL = none; borrowed until the next call. Called in proxy_install. NULL = never any. */
	struct tls_context *(*tls)(const struct rea_config_service *service, void *user_data);
	void *user_data;
	uint64_t seed;
};

/* options: copied. NULL when out of memory. */
struct proxy *proxy_new(const struct proxy_options *options);
/* Every worker must have ended. */
void proxy_free(struct proxy *proxy);

/* Make config the snapshot of every call that begins from now on; what an instance does not permit any more is taken from the calls under way, too.
 * instances[i], counts[i]: of the i-th service, copied with all they point to. Takes its own reference of config.
 * Main thread. Returns 0 or REA_ERR_NOMEM, and then nothing has changed. */
int proxy_install(struct proxy *proxy, struct rea_config *config, const struct proxy_instance *const *instances,
    const size_t *counts);

struct proxy_worker *proxy_worker(struct proxy *proxy, uint32_t index);
struct loop *proxy_worker_loop(struct proxy_worker *worker);
struct rea_event_queue *proxy_worker_events(struct proxy_worker *worker);
/* What a listener of this worker needs; the caller fills in limits and timeouts. */
void proxy_worker_http(struct proxy_worker *worker, struct loop_http_options *ret_options);
/* Take up the first snapshot; on the worker's thread or before it runs. */
void proxy_worker_start(struct proxy_worker *worker);
/* Give up pooled connections and the snapshot; on the worker's thread, when no call is left. */
void proxy_worker_stop(struct proxy_worker *worker);

/* End the health checks; before the worker of options.loop stops. */
void proxy_stop_checks(struct proxy *proxy);

/* What a service's budget has seen, and what all services share. False: there is none of this name. Main thread. */
struct proxy_service_view {
	struct rea_budget_view budget;
	const struct rea_retry_limit *limit, *parking; /* borrowed while the proxy lives */
};
struct proxy_instance_view {
	char address[LOOP_ADDRESS_MAX];
	uint32_t ejected;   /* threads that leave it out now */
	uint64_t ejections; /* ever */
	uint32_t weight, tier;
	bool unhealthy; /* it has failed its health checks */
	bool usable;    /* it is not, and not every thread leaves it out */
};
bool proxy_look(const struct proxy *proxy, struct rea_slice service, struct proxy_service_view *ret_view);

/* One of a service's instances, in the order of its list. False: there are no more, or no such service. Main thread. */
bool proxy_look_instance(
    const struct proxy *proxy, struct rea_slice service, size_t index, struct proxy_instance_view *ret_view);

/* Prometheus text of everything the proxy counts. Main thread. */
void proxy_metrics(struct proxy *proxy, struct rea_prometheus *out);

#endif
