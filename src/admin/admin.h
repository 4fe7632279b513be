/*
 * The admin API: health, version, metrics, events and timelines, on a listener of its own, and the resources that other rooms bring.
 *
 * It knows nothing of what it shows: whoever makes it hands in where to look, and tables of routes. Everything belongs to the loop's thread.
 */
#ifndef REA_SRC_ADMIN_H
#define REA_SRC_ADMIN_H

#include "loop/loop.h"

#include <rea/error.h>
#include <rea/event.h>
#include <rea/event_sqlite.h>
#include <rea/metrics.h>

/* X(NAME, "name") */
#define ADMIN_READINESS_MAP(X) X(STARTING, "starting") X(READY, "ready") X(DRAINING, "draining")

enum admin_readiness {
#define X(name, text) ADMIN_##name,
	ADMIN_READINESS_MAP(X)
#undef X
};

/* The configuration that is in force. Everything is borrowed until the callback's caller returns to the loop. */
struct admin_config {
	const char *path;
	const char *version; /* identifies the document's bytes */
	int64_t loaded_unix_ns;
	uint64_t reloads;                        /* loads that succeeded after the first */
	uint64_t rejects;                        /* loads that were refused */
	const struct rea_error_info *last_error; /* why the latest load was refused; NULL = it was not */
};

/* A service as it stands. */
struct admin_service {
	struct rea_budget_view budget;
	uint32_t parked_calls, parked_calls_max; /* of all services, as the next two */
	uint32_t retries_in_flight, concurrent_retries_max;
	struct {
		const char *source; /* where its instances are found; borrowed as above */
		uint64_t age_ns;    /* since that last gave a list; REA_NEVER = it never did */
		uint64_t failures;  /* how often it was asked and gave none */
		bool troubled;      /* so when it was last asked */
		bool empty_held;    /* it lists none: the last ones hold */
		bool protection;    /* the registry tells no health any more */
	} discovery;
};

/* One of its instances. */
struct admin_instance {
	char address[LOOP_ADDRESS_MAX];
	uint32_t ejected;   /* threads that leave it out now */
	uint64_t ejections; /* ever */
	uint32_t weight;    /* its share of calls, relative to the others */
	uint32_t tier;      /* it gets calls when none of a lower one may */
	bool unhealthy;     /* it has failed its health checks */
	bool usable;        /* it is not, and not every thread leaves it out */
};

struct admin;
struct answer;
struct timeline;

/* ---- resources of other rooms ---- */

#define ADMIN_PARAMETERS_MAX 2

/* One request, from its whole body to its answer. */
struct admin_request {
	const struct http_request *http; /* as long as the request */
	struct rea_slice path;
	struct rea_slice query;
	struct rea_slice parameters[ADMIN_PARAMETERS_MAX]; /* what each {} of the pattern stands for, as received: percent-encoded */
	struct rea_slice body;                             /* as long as the request */
	void *user;                                        /* the handler's; NULL at first */
	/* Whoever answers later sets it: the caller has left, or the process ends. The request is gone with the return. */
	void (*aborted)(struct admin_request *request);
	/* Of a stream: what was written has drained. May be NULL. */
	void (*writable)(struct admin_request *request);
};

struct admin_route {
	enum http_method method; /* GET answers HEAD too */
	const char *pattern; /* "/v1/tasks/{}/cancel": {} is one segment that is not empty; at most ADMIN_PARAMETERS_MAX of them */
	uint32_t body_max; /* bytes of a request's body; more is 413 */
	/* Answer now, with one of the functions below, or keep the request and answer later. */
	void (*handle)(struct admin_request *request, void *user_data);
};

struct admin_routes {
	const struct admin_route *routes;
	size_t routes_len;
	void *user_data; /* of their handlers */
};

/* The answer; the request is gone with the return. answer: borrowed until then. */
void admin_answer(struct admin_request *request, const struct answer *answer);
/* The same in gRPC: the messages, with their prefixes, and the status behind them. message: our own words; data may be NULL with 0. */
void admin_answer_grpc(struct admin_request *request, unsigned status, const char *message, const char *data, size_t length);
/* Instead: an answer whose body comes in pieces. answer: status and fields; its body is the first piece. False: the request is gone, aborted
 * was not called. */
bool admin_stream(struct admin_request *request, const struct answer *answer);
/* False: no memory; the request is gone, cut off, aborted was not called. */
bool admin_stream_write(struct admin_request *request, const char *data, size_t length);
/* More is waiting to be sent than should be: leave out, or wait until writable. */
bool admin_stream_congested(const struct admin_request *request);
void admin_stream_end(struct admin_request *request);
/* The caller does not read: cut it off, with what waits for it. */
void admin_stream_cut(struct admin_request *request);

/* ---- the listener ---- */

/* Where to look. */
struct admin_sources {
	const struct rea_event_ring *ring;       /* borrowed while the admin lives; NULL = no events are kept */
	struct rea_event_sqlite_reader *history; /* the same, of events that the ring has no more; NULL = none */
	enum admin_readiness (*readiness)(void *user_data);
	/* What is wrong although calls work, in the body of /readyz: a line each with answer_put_text, begun with a newline. NULL = nothing ever is. */
	void (*troubles)(struct answer *answer, void *user_data);
	void (*metrics)(struct rea_prometheus *out, void *user_data); /* writes everything there is to count */
	void (*config)(struct admin_config *ret_config, void *user_data);
	/* False: there is no service of this name. */
	bool (*service)(struct rea_slice name, struct admin_service *ret_service, void *user_data);
	/* False: the service has no more instances than index. */
	bool (*instance)(struct rea_slice service, size_t index, struct admin_instance *ret_instance, void *user_data);
	/* Adds what the tasks of one biz_id have to tell, with the functions of timeline.h. NULL = there are no tasks. Returns 0, or an error when they
	 * cannot be read. */
	int (*tasks)(struct rea_text biz_id, struct timeline *timeline, void *user_data);
	void *user_data;
	const struct admin_routes *tables; /* borrowed while the admin lives; a path that one of them knows is its, whatever the method */
	size_t tables_len;
	const char *const *hosts; /* names in Host that mean this listener, besides addresses and localhost; borrowed while the admin lives */
	size_t hosts_len;
	uint32_t connections_max; /* 0 = ADMIN_CONNECTIONS */
};
#define ADMIN_CONNECTIONS 64

/* Listens on address ("127.0.0.1:7071"; port 0: the kernel chooses). sources: copied. Returns 0, REA_ERR_NOMEM or
 * REA_ERR_IO with ret_info. */
int admin_new(struct loop *loop, const char *address, const struct admin_sources *sources, struct admin **ret_admin,
    struct rea_error_info *ret_info);
/* Where it listens. */
const char *admin_address(const struct admin *admin);
/* Stop listening, cut open connections, free. closed (may be NULL) is called once nothing is left; not from inside
 * this call. NULL admin: no-op. */
void admin_close(struct admin *admin, void (*closed)(void *arg), void *arg);

#endif
