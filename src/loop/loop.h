/*
 * The event loop of one thread: the one clock read per turn, timers on a wheel, and HTTP connections over TCP.
 *
 * Everything here belongs to the thread that runs the loop, but loop_post.
 */
#ifndef REA_SRC_LOOP_H
#define REA_SRC_LOOP_H

#include "http/http.h"
#include "loop/wheel.h"

#include <rea/balancer.h>
#include <rea/error.h>
#include <rea/random.h>
#include <rea/time.h>

#include <stdatomic.h>
#include <uv.h>

struct stream;
struct loop_post;
struct loop_http_conn;
struct tls_context;
struct tls_tickets;

/* TLS handshakes of one side. Any thread may read them. */
struct loop_tls_counts {
	atomic_uint_fast64_t done;
	atomic_uint_fast64_t resumed; /* of those */
	atomic_uint_fast64_t failed;
};

struct loop {
	uv_loop_t uv;
	uv_timer_t tick;      /* private: wakes for the wheel's next timer */
	uint64_t tick_ns;     /* private: when it is set; REA_NEVER = not */
	uv_prepare_t prepare; /* private */
	struct wheel wheel;   /* private */
	uint64_t now_ns;      /* private: loop_now */
	bool now_stale;       /* private: a new turn has begun */
	int64_t wall_ns;      /* private: loop_wall_ns */
	bool wall_stale;      /* private */
	struct rea_random random;
	char *read_buffer; /* private: shared by all reads of this loop; behind it, what TLS makes of them */
	struct loop_tls_counts tls[2]; /* by enum tls_side */
	uv_async_t wake;               /* private */
	uv_mutex_t post_lock;          /* private */
	struct loop_post *posts;       /* private: newest first */
	struct stream *flush;          /* private: connections with bytes to send at the end of this callback */
};

int loop_init(struct loop *loop, uint64_t seed);
/* The loop's own handles are closed here; all others must be closed or closing. */
void loop_fini(struct loop *loop);
/* Until loop_stop. */
void loop_run(struct loop *loop);
void loop_stop(struct loop *loop);
uint64_t loop_read_clock(struct loop *loop); /* private */
/* Monotonic; the same all through one turn of the loop. */
static inline uint64_t loop_now(struct loop *loop)
{
	return loop->now_stale ? loop_read_clock(loop) : loop->now_ns;
}
/* Wall clock in ns since 1970, read at most once a turn. */
int64_t loop_wall_ns(struct loop *loop);
/* At the end of a libuv callback made outside this room: sends what was queued by loop_http_conn_flush and loop_http_client_flush. */
void loop_flush(struct loop *loop);

/* Timers: plain objects, zero-initialise with fire set. Fires at or after due_ns, never before; resolution 1 ms. */
void loop_timer_start(struct loop *loop, struct wheel_timer *timer, uint64_t due_ns);
void loop_timer_stop(struct loop *loop, struct wheel_timer *timer);

/* Run fn(post) on the loop's thread soon, in order of posting. Any thread. The node belongs to the loop until fn is called. */
struct loop_post {
	struct loop_post *next;
	void (*fn)(struct loop_post *post);
};
void loop_post(struct loop *loop, struct loop_post *post);

/* ---- addresses ---- */
#define LOOP_ADDRESS_MAX 56
int loop_address_parse(const char *text, struct sockaddr_storage *ret_address); /* "127.0.0.1:80", "[::1]:80" */
void loop_address_from_id(const struct rea_instance_id *id, struct sockaddr_storage *ret_address);
void loop_address_format(const struct sockaddr *address, char *ret_text, size_t size);
void loop_address_host(const struct sockaddr *address, char *ret_text, size_t size); /* without the port */

/* ---- server side ---- */
struct loop_http_options {
	const struct http_server_events *events; /* stream->session's owner is the struct loop_http_conn */
	struct http_limits limits;
	uint32_t connections_max;
	uint64_t head_timeout_ns; /* from the first byte of a head to its end: 408 and close */
	uint64_t idle_timeout_ns; /* between requests: close */
	struct tls_context *tls; /* spoken with all who connect, within the head timeout; NULL = none. The listener takes its own reference */
	/* A TLS handshake has failed. May be NULL. */
	void (*on_refused)(const char *peer, const char *why, void *user);
	void *user;
};
struct loop_http_listener;
/* address: with port 0 the kernel chooses; loop_http_listener_address tells. reuse_port: several loops share one address. options: copied. */
int loop_http_listen(struct loop *loop, const char *address, bool reuse_port, const struct loop_http_options *options,
    struct loop_http_listener **ret_listener, struct rea_error_info *ret_info);
const char *loop_http_listener_address(const struct loop_http_listener *listener);
/* New limits and timeouts for connections accepted from now on. */
void loop_http_listener_configure(struct loop_http_listener *listener, const struct loop_http_options *options);
/* Accept no more; open connections finish their exchange and close; done is called when the last is gone (may be NULL). */
void loop_http_listener_drain(struct loop_http_listener *listener, void (*done)(void *arg), void *arg);
/* Close every connection of it now. */
void loop_http_listener_kill(struct loop_http_listener *listener);
size_t loop_http_listener_connections(const struct loop_http_listener *listener);

struct loop_http_conn *loop_http_conn_of(struct http_server_stream *stream);
struct loop *loop_http_conn_loop(const struct loop_http_conn *conn);
void *loop_http_conn_user(const struct loop_http_conn *conn);       /* options.user */
const char *loop_http_conn_peer(const struct loop_http_conn *conn); /* "127.0.0.1", no port */
/* After calls into its session from outside its own callbacks: send what gathered. Cheap; the write happens before the loop sleeps. */
void loop_http_conn_flush(struct loop_http_conn *conn);
/* More than the high-water mark (16 KiB) of the stream's words is waiting: stop producing until on_writable. */
bool loop_http_conn_congested(struct http_server_stream *stream);
/* Cut the stream off: HTTP/1 closes at once with a reset (SO_LINGER 0), HTTP/2 resets the stream alone. It gets no on_abort. */
void loop_http_conn_reset(struct http_server_stream *stream);

/* ---- client side ---- */
struct loop_http_client;
struct loop_http_client_options {
	const struct http_client_events *events; /* stream->session's owner is the struct loop_http_client */
	/* The protocol to speak: h1_client_new and its like. */
	struct http_client *(*make)(const struct http_client_events *events, const struct http_limits *limits, void *owner);
	struct http_limits limits;
	/* Connected (status 0) or failed (a negative uv error): after a failure the connection closes itself. */
	void (*on_connect)(struct loop_http_client *client, int status);
	/* The transport died (uv error, UV_EOF for an idle close) outside of an exchange or after its on_error; the connection closes itself. */
	void (*on_close)(struct loop_http_client *client, int status);
	void *user;
	struct tls_context *tls; /* NULL = none. The connection takes its own reference; on_connect comes after the handshake, whose failure is UV_EPROTO */
	const char *tls_name;    /* whom the peer's certificate must name; copied */
	bool tls_h2;             /* it must agree to HTTP/2; else to HTTP/1.1 */
	struct tls_tickets *tickets; /* what is left by earlier connections to this address; borrowed until the client is closed */
};
int loop_http_connect(struct loop *loop, const struct sockaddr *address, const struct loop_http_client_options *options,
    struct loop_http_client **ret_client);
struct http_client *loop_http_client_session(struct loop_http_client *client);
void *loop_http_client_user(const struct loop_http_client *client);
void loop_http_client_set_user(struct loop_http_client *client, void *user);
void loop_http_client_flush(struct loop_http_client *client);
/* As loop_http_conn_congested. */
bool loop_http_client_congested(struct http_client_stream *stream);
/* Why the transport ended (a uv error, UV_EOF); 0 while it has not. For the session's on_error. */
int loop_http_client_status(const struct loop_http_client *client);
/* Why TLS failed; "" = it did not. */
const char *loop_http_client_trouble(const struct loop_http_client *client);
/* Begin an exchange on its session: http_client_begin. */
struct http_client_stream *loop_http_client_begin(
    struct loop_http_client *client, const struct http_request_head *head, void *user);
/* Not a byte of the request was handed to the kernel. */
bool loop_http_client_unsent(const struct http_client_stream *stream);
/* Is the peer's end still open, as far as the kernel knows now (a peek)? */
bool loop_http_client_alive(const struct loop_http_client *client);
/*
 * HTTP/2: nothing has come from the peer since then, though something should have: ask it for a sign of life. Without one
 * for 5 s the connection is taken for dead. Also asked by itself after 5 minutes of silence.
 */
void loop_http_client_doubt(struct loop_http_client *client, uint64_t since_ns);
/* It was asked, and has not answered yet. */
bool loop_http_client_doubted(const struct loop_http_client *client);
void loop_http_client_close(struct loop_http_client *client); /* no more callbacks */

#endif
