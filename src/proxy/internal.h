/* What the files of the proxy share. */
#ifndef REA_SRC_PROXY_INTERNAL_H
#define REA_SRC_PROXY_INTERNAL_H

#include "loop/tls.h"
#include "proxy/proxy.h"

#include <stdatomic.h>

/* ---- process-wide, made on the main thread ---- */

/* What outlives snapshots of a service: its budget and its numbers. */
struct service_state {
	char *name;
	uint32_t refs; /* snapshots; under the proxy's lock */
	struct rea_budget *budget;
	struct worker_stats {
		_Alignas(64) struct rea_service_stats stats;
	} * stats; /* one per worker, each on its own cache lines */
	struct service_state *next;
};

/* An address: who has ejected it. */
struct instance_state {
	struct rea_instance_id id;
	uint32_t refs;                  /* snapshots and upstreams; under the proxy's lock */
	atomic_uint ejected;            /* workers that leave it out now */
	atomic_uint_fast64_t ejections; /* ever, by any of them */
	struct instance_state *next;    /* in its bucket */
};

/* An installed configuration: immutable, counted by proxy and workers. */
struct snapshot {
	atomic_uint refs; /* the proxy, and each worker that uses it or is about to */
	struct proxy *proxy;
	struct rea_config *config;
	size_t services_len;
	struct snapshot_service {
		const struct rea_config_service *config;
		struct service_state *state;
		struct tls_context *tls; /* NULL = none */
		struct proxy_instance *instances;
		struct instance_state **states; /* parallel */
		size_t instances_len;
		struct snapshot_grants {
			uint32_t *list_of; /* which of lists is that of an operation, by index, the last of requests that are none; NULL = nobody says anything */
			uint8_t **lists; /* what each instance permits, parallel to instances */
			size_t lists_len;
		} grants;
	} services[];
};

#define INSTANCE_BUCKETS 256

struct proxy {
	struct proxy_options options;
	struct rea_retry_limit limit;
	struct rea_retry_limit parking;
	uv_mutex_t lock;
	struct snapshot *snapshot;
	struct service_state *states;                       /* under lock */
	struct instance_state *instances[INSTANCE_BUCKETS]; /* under lock */
	struct proxy_worker *workers;
	uint32_t workers_len;  /* options.threads, and the one of options.loop */
	struct health *health; /* on options.loop; NULL = nobody checks */
};

/* ---- of one worker ---- */

struct upstream;
struct attempt;

/* Whose attempts a worker's connections carry: calls (attempt.c) or deliveries (deliver.c). */
struct link_users {
	uint64_t trust_ns; /* a connection that was idle for so long is asked whether its peer is still there before a request goes out on it */
	struct http_client_events events; /* a stream's user is its attempt */
	void (*connected)(struct attempt *attempt);
	void (*connect_failed)(struct attempt *attempt, int status);
	void (*closed)(struct attempt *attempt, int status);
};
extern const struct link_users call_links, delivery_links;

/* A pooled connection. */
struct link {
	struct loop_http_client *client;
	struct upstream *upstream;
	struct link *prev, *next;  /* in upstream->idle; a shared one: in upstream->shared */
	struct wheel_timer expiry; /* while idle */
	struct attempt *attempt;   /* NULL while idle; a shared one: who waits first for its connecting */
	struct attempt **attempts_end;
	uint32_t open; /* of a shared one: attempts that wait for it or have a stream on it */
	uint64_t idle_since_ns;
	bool connected;
	bool closing; /* to nobody any more */
	bool reused;
	bool raw;                /* a tunnel: never pooled */
	struct tls_context *tls; /* with these it was made; NULL = without TLS */
	char *tls_name;
	bool shared; /* HTTP/2: many attempts at once */
};

/* What an attempt wants of its connection. */
#define LINK_FRESH 1u /* a new one */
#define LINK_RAW 2u   /* bytes as they are */
#define LINK_H2 4u    /* HTTP/2 */

/* One address as this worker knows it, across snapshots. */
struct upstream {
	struct rea_instance_id id;
	char name[LOOP_ADDRESS_MAX];
	struct rea_load load;
	struct instance_state *state;
	bool ejected; /* so was last told */
	struct proxy_worker *worker;
	struct link *idle; /* latest first */
	uint32_t idle_len;
	struct link *shared; /* HTTP/2, in use or not */
	struct tls_tickets tickets;
	uint32_t links; /* open, idle ones too */
	uint32_t refs;  /* views and links */
	uint32_t views;
	struct upstream *next; /* in the worker's table */
};

/* A breaker of one service and method, kept across snapshots while its numbers stay the same. */
struct circuit {
	struct rea_breaker *breaker;
	struct rea_breaker_policy policy;
	struct proxy_worker *worker;
	uint32_t refs; /* views */
	char *service;
	char *method;
};

/* The instances as operations see them of which each says the same. */
struct view_list {
	struct rea_instances instances;
	struct rea_instance *items; /* those of instances */
	uint32_t granted;           /* a bit per rea_permission that one of them has */
};

struct view_service {
	const struct rea_config_service *config;
	struct service_state *state;
	struct rea_service_stats *stats;
	struct rea_instances instances; /* where none says anything itself */
	const uint32_t *list_of;        /* see struct snapshot_grants */
	struct view_list *lists;
	size_t lists_len;
	struct upstream **upstreams; /* parallel to instances.items */
	const char **hosts;          /* parallel; NULL = the service's */
	const char **names;          /* parallel; see struct proxy_instance */
	struct tls_context *tls;     /* NULL = none; the snapshot's */
	struct circuit **circuits;   /* by operation index, the last is the service's own; NULL entries = off */
	double median_latency_ns;
};

/* A snapshot as a worker uses it. */
struct view {
	struct snapshot *snapshot;
	struct proxy_worker *worker;
	struct view *prev, *next; /* of the worker's */
	uint32_t refs;            /* the worker and its calls */
	size_t services_len;
	struct view_service services[];
};

struct proxy_worker {
	struct loop *loop; /* own_loop, or the proxy's options.loop */
	struct loop own_loop;
	const struct link_users *users;
	struct proxy *proxy;
	uint32_t index;
	struct view *view;
	struct view *views; /* all that have calls yet, the latest first */
	struct upstream *upstreams[INSTANCE_BUCKETS];
	struct exchange *spare; /* finished ones, for reuse */
	uint32_t spare_len;
	struct rea_event_queue *events;
	uint64_t tls_told_ns;         /* when a refused handshake was last told */
	uint32_t tls_untold;          /* since then */
	atomic_uint_fast64_t refused; /* requests that named no service, or asked for a tunnel that is not allowed */
	atomic_uint_fast64_t first_try_events; /* sampled first-try successes that became events */
	struct loop_post post;                 /* carries the next snapshot */
	bool post_pending;                     /* under the proxy's lock */
	struct snapshot *next;                 /* under the proxy's lock; NULL = none waits */
};

/* ---- one call ---- */

enum exchange_phase {
	EXCHANGE_BEGIN,
	EXCHANGE_CONNECT, /* an attempt waits for its connection; timer: the attempt's end */
	EXCHANGE_SEND,    /* the request goes out, the reply has not begun; timer: the attempt's end, or body idle */
	EXCHANGE_HOLD,    /* a good reply's head is held for its first byte; timer: 10 ms */
	EXCHANGE_STREAM,  /* the reply is passed on; timer: body idle */
	EXCHANGE_WAIT     /* backoff; timer: the next attempt */
};

struct attempt {
	struct exchange *exchange;         /* NULL of a delivery's */
	struct link *link;                 /* NULL before it has one, and when it is through with it */
	struct attempt *next_waiting;      /* for the same link to connect */
	bool renewed;                      /* its first connection had grown stale */
	struct http_client_stream *stream; /* NULL until it was begun, and when its reply is over */
	struct upstream *upstream;
	size_t instance; /* index into the view's instances */
	uint32_t number;
	uint64_t start_ns;
	uint64_t deadline_ns; /* REA_NEVER while the request is still arriving */
	uint64_t given;       /* how many bytes of the body it was given */
	char *trouble; /* what TLS had against its connection, with the instance's name; NULL = nothing, or another attempt has begun since */
	bool request_finished;
	bool paused;  /* its reply waits for a slow caller */
	bool over;    /* its reply has come in whole */
	bool in_load; /* counted as open at its instance */
};

/* A reply that is kept while another attempt is tried. */
struct held_reply {
	bool present;
	bool complete;             /* the whole body is in */
	struct http_response head; /* its slices and fields point into what follows */
	struct http_field *fields;
	size_t fields_capacity;
	struct rea_buffer text; /* reason, names, values */
	struct rea_buffer body;
	struct http_field *trailers; /* of a complete one: one allocation with their text; NULL = none */
	size_t trailers_len;
};

#define EXCHANGE_FIELDS_MAX 8
#define EXCHANGE_SCRATCH_BYTES 448

struct exchange {
	/* Kept when an exchange is used again. */
	struct rea_buffer body; /* of the request: what may have to be sent (again), from body_base on */
	struct held_reply held;
	struct exchange *next_spare;
	/* Zero at the start of each. */
	struct proxy_worker *worker;
	struct view *view;
	struct view_service *service;
	const struct rea_operation *operation; /* NULL = none matched */
	const struct rea_policy *policy;
	struct http_server_stream *downstream;
	const struct http_request *request;
	struct rea_slice path;            /* as sent upstream */
	struct rea_slice authority;       /* of the caller, for Host; empty when addressed by prefix */
	struct rea_slice key;             /* Idempotency-Key, the caller's or ours */
	struct rea_slice chained_attempt; /* the incoming rea-attempt value */
	uint32_t chained_from;            /* the highest attempt number that came in, 0 = none */
	uint32_t grpc_previous;           /* the incoming grpc-previous-rpc-attempts, 0 = none */
	uint64_t deadline_ns;             /* of a gRPC call by its grpc-timeout; REA_NEVER = none */
	uint64_t id;                      /* random; the call id in hex */
	uint64_t begin_ns;
	uint64_t progress_ns; /* when a body last moved */
	uint64_t received;    /* bytes of the request body so far */
	uint64_t body_base;
	struct attempt slots[2];
	struct attempt *current; /* NULL between attempts */
	struct attempt *holding; /* whose reply is in held and still arriving */
	struct wheel_timer timer;
	enum exchange_phase phase;
	bool body_complete;
	bool body_streamed; /* what was sent is not kept */
	bool over_limit;    /* because it outgrew the replay limit */
	bool paused;        /* the caller's body waits */
	bool outside;       /* it brings retry marks and is not from the trusted edge: they are nothing */
	bool may_retry;     /* policy and permission do not rule a retry out */
	bool responded;
	bool tunnel;
	bool grpc;
	bool untimed;        /* the policy's times do not bound it: its own grpc-timeout does */
	bool status_follows; /* gRPC: the reply's head is good, its trailers decide */
	bool abandoned;
	bool decided; /* the call is over, `decision` is final; at most the reply is still passed on */
	struct rea_decision decision;
	struct rea_report report; /* of the latest attempt */
	struct rea_call call;
	struct http_field *trailers; /* of the request, one allocation with their text; NULL = none */
	size_t trailers_len;
	size_t more_fixed; /* fields of more that are the same on every attempt */
	struct http_field more[EXCHANGE_FIELDS_MAX];
	size_t scratch_len;
	char scratch[EXCHANGE_SCRATCH_BYTES]; /* last: not cleared */
};

/* instance.c */
uint32_t instance_bucket(const struct rea_instance_id *id);
struct instance_state *instance_get(struct proxy *proxy, const struct rea_instance_id *id); /* + 1 ref; NULL = out of memory */
void instance_unref(struct proxy *proxy, struct instance_state *state);
/* An attempt at it has been judged: if it was ejected or readmitted, say so. service: whose attempt it was. */
void upstream_tell(struct upstream *upstream, const char *service);

/* pool.c */
struct upstream *upstream_get(struct proxy_worker *worker, const struct rea_instance_id *id); /* + 1 ref; NULL = out of memory */
void upstream_unref(struct upstream *upstream);
/* A pooled connection, or a new one that is being made (then the worker's users hear connected or connect_failed). 0, or a negative uv error. */
int link_get(struct upstream *upstream, struct attempt *attempt, const struct view_service *service, unsigned wants,
    bool *ret_ready);
/* If TLS has ended the attempt's connection, keep why in attempt->trouble. */
void link_note_trouble(const struct link *link, struct attempt *attempt);
/* What any request to this service wants. */
unsigned link_wants(const struct view_service *service);
/* The attempt is through with its connection, in order: back to the pool, or closed. */
void link_put(struct attempt *attempt);
/* It has broken off: the connection is closed, but for a shared one; of that only the attempt's stream is over. */
void link_close(struct attempt *attempt);
void upstream_close_idle(struct upstream *upstream);

/* attempt.c: from the choice of an instance to the end of its reply */
void attempt_start(struct exchange *exchange, const struct rea_decision *decision);
/* Its time is up. */
void attempt_timeout(struct attempt *attempt);
/* And of any attempt, whoever makes it: */
/* How far it has come. */
enum rea_phase attempt_phase(const struct attempt *attempt);
/* An I/O error has ended it there. */
struct rea_report attempt_report_io(const struct attempt *attempt, enum rea_phase phase, int uv_error);
/* Its connection died, or brought what is no reply. */
struct rea_report attempt_report_broken(struct attempt *attempt, int status, enum http_error error);
/* Provably unsent on a connection that had grown stale, which is closed: the same attempt may use a new one. */
bool attempt_went_stale(struct attempt *attempt, enum http_error error);
/* No longer under way: out of the instance's load, its connection closed unless it was put back. Makes no callback. */
void attempt_drop(struct attempt *attempt, const struct rea_report *report);

/* body.c: the request's body, on its way and kept for replay */
void body_receive(struct exchange *exchange, const char *data, size_t length);
/* Give the present attempt what it can take. */
void body_pump(struct exchange *exchange);

/* reply.c: replies, passed on, held or left */
/* What a reply's head says of its attempt; of gRPC's in grpc.c. */
struct rea_report reply_judge(
    const struct attempt *attempt, const struct http_response *response, const struct rea_policy *policy);
/* What its fields say about repeating the call. */
void reply_read_hints(struct loop *loop, const struct http_field *fields, size_t fields_len, struct rea_report *report);
void reply_head(struct attempt *attempt, const struct http_response *response);
void reply_body(struct attempt *attempt, const char *data, size_t length);
void reply_end(struct attempt *attempt, const struct http_field *trailers, size_t trailers_len);
/* The reply broke off, or its attempt timed out. report: why. */
void reply_failed(struct attempt *attempt, const struct rea_report *report);
void reply_pass(struct exchange *exchange, const struct http_response *response);
/* Keep this failed reply, and what is still to come of it, while another attempt is tried. */
void reply_hold(struct attempt *attempt, const struct http_response *response);
/* Forget the reply that is held. */
void reply_leave_held(struct exchange *exchange);
/* Pass on the head that was kept back for its first byte. */
void reply_release(struct exchange *exchange);
/* Pass on the last reply that was held, and what is still to come of it. */
void reply_adopt(struct exchange *exchange);

/* exchange.c */
extern const struct http_server_events exchange_events;
/* Enter a phase; due_ns: when its timer fires, REA_NEVER = when bodies stand still for too long. */
void exchange_set_phase(struct exchange *exchange, enum exchange_phase phase, uint64_t due_ns);
/* An attempt is over: ask the engine, tell what it decided, act on it. With a decision that ends the call and response != NULL that reply is passed on,
 * otherwise the call is answered from what there is. */
void exchange_report(struct exchange *exchange, struct attempt *attempt, const struct rea_report *report,
    const struct http_response *response);
/* Out of memory in the middle: the caller's connection is reset at the next turn. */
void exchange_abandon(struct exchange *exchange);
/* Everything that can be said was said; decided must be true. */
void exchange_end(struct exchange *exchange);
void exchange_free_spares(struct proxy_worker *worker);

/* grants.c: what instances permit themselves */
/* From the permissions of its instances; false = out of memory. */
bool grants_fill(struct snapshot_service *service);
void grants_drop(struct snapshot_service *service);
bool view_grants_make(struct view_service *service, const struct snapshot_service *from);
void view_grants_drop(struct view_service *service);
/* What now's instances do not permit any more, those of the views from before on do not either. */
void view_grants_withdraw(struct view *now, struct view *before);
/* The instances, with what each permits of that method. */
const struct rea_instances *view_service_instances(const struct view_service *service, const struct rea_operation *operation);
/* The most that is permitted of it at any of them. */
struct rea_grant view_service_grant(const struct view_service *service, const struct rea_operation *operation);

/* worker.c */
void worker_count(atomic_uint_fast64_t *counter); /* + 1; the worker alone writes it */
/* The operation that a request matches (may be NULL), and the policy of that method. path: with query. */
void view_service_method(const struct view_service *service, struct rea_slice method, struct rea_slice path,
    const struct rea_operation **ret_operation, const struct rea_policy **ret_policy);
/* The breaker of that method, NULL = off. grpc: for gRPC calls, whose policy is another one. */
struct circuit *view_service_circuit(const struct view_service *service, const struct rea_operation *operation, bool grpc);
/* Of all its breakers, the state of the one that lets the least through. False: it has none. */
bool view_service_breaker(const struct view_service *service, enum rea_breaker_state *ret_state);
/* The Host of an instance; NULL = nothing is configured. */
/* "https" where TLS is spoken with it. */
struct rea_slice view_service_scheme(const struct view_service *service);
const char *view_service_host(const struct view_service *service, size_t instance);
/* A reply came in this time: the median follows. */
void view_service_learn(struct view_service *service, uint64_t latency_ns);
void view_unref(struct view *view);
void worker_posted(struct loop_post *post);
void snapshot_unref(struct snapshot *snapshot);

/* match.c */
struct match {
	struct view_service *service;
	struct rea_slice path;
	struct rea_slice authority;
};
/* Which service a request is for; a gRPC request's path is never a prefix's. False = none. */
bool match_service(struct view *view, const struct http_request *request, struct match *ret_match);

/* head.c: what is read from a request, and what is added to it */
void head_read(struct exchange *exchange, uint64_t *ret_deadline_ms);
/* The head of the present attempt. more: room for EXCHANGE_FIELDS_MAX. */
void head_make(struct exchange *exchange, uint32_t attempt, uint32_t attempts_max, uint64_t remaining_ns,
    struct http_request_head *ret_head);
void head_prepare(struct exchange *exchange);
struct rea_slice scratch_put(struct exchange *exchange, struct rea_slice text);
/* biz_id as DESIGN.md section 8: the configured header, else the trace id, else the call id in call_id. */
struct rea_slice head_biz_id(const struct exchange *exchange, struct rea_slice call_id, struct rea_slice *ret_trace_id);

/* answer.c: replies of rea's own */
/* grpc: as a gRPC status that says the same. */
void exchange_answer_problem(struct http_server_stream *stream, bool grpc, uint16_t status, const char *detail,
    enum rea_reason reason, bool stop, bool close);
/* The end of a gRPC reply that was passed on in part. */
void exchange_answer_trailers(struct exchange *exchange);
void exchange_answer_give_up(struct exchange *exchange);

/* grpc.c: what is different with gRPC */
bool grpc_call_is(const struct http_request *request);
/* Is the grpc-timeout of this request, if there is one, well-formed? */
bool grpc_call_timeout(const struct http_request *request, uint64_t *ret_timeout_ns);
/* Does the policy bound the time of calls to this method? Streams, and what is not known, have no time but their own. */
bool grpc_call_timed(const struct rea_operation *operation, const struct rea_policy *policy);
/* What a reply's head says; *ret_follows: nothing yet, its trailers will. */
struct rea_report grpc_reply_head(const struct attempt *attempt, const struct http_response *response,
    const struct rea_policy *policy, bool *ret_follows);
struct rea_report grpc_reply_trailers(const struct attempt *attempt, const struct http_field *trailers,
    size_t trailers_len, const struct rea_policy *policy);
/* The time that this attempt has, for grpc-timeout; REA_NEVER = none is known. */
uint64_t grpc_attempt_left(const struct attempt *attempt);

/* The end of retries, as fields: ours, and what gRPC's clients obey. */
#define STOP_FIELD                                                                             \
	{                                                                                      \
		REA_SLICE_LIT("rea-retry"), REA_SLICE_LIT("stop"), HTTP_FIELD_REA_RETRY, false \
	}
#define PUSHBACK_STOP_FIELD                                                                                            \
	{                                                                                                              \
		REA_SLICE_LIT("grpc-retry-pushback-ms"), REA_SLICE_LIT("-1"), HTTP_FIELD_GRPC_RETRY_PUSHBACK_MS, false \
	}

/* record.c: events and numbers */
/* attempt NULL: none was made. */
void record_decision(struct exchange *exchange, const struct attempt *attempt, const struct rea_decision *decision,
    const struct rea_report *report);
void record_call_end(struct exchange *exchange);
void record_health(struct proxy_worker *worker, const char *service, const char *instance, const char *detail, size_t length);
void record_ejection(const struct upstream *upstream, const char *service);
void record_breaker(struct circuit *circuit, enum rea_breaker_state from, enum rea_breaker_state to, uint64_t now_ns);

#endif
