/*
 * Connections to instances. One of HTTP/1 carries one attempt, one of HTTP/2 as many as its peer allows: attempts wait for
 * one that is connecting rather than make another. An idle one keeps its socket watched, so that the peer's close is seen at once; it is given out latest first, so that
 * spare ones grow old and expire.
 */
#include "proxy/internal.h"

#include "base/container.h"
#include "http/tunnel.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* With the rest of a problem document less than HTTP_PROBLEM_MAX. */
#define TROUBLE_MAX 320
/* Of a DNS name, with its port. */
#define NAME_MAX_BYTES 272
/* How many may wait for one connection: what an HTTP/2 server should allow at least. */
#define WAITING_MAX 100

struct upstream *upstream_get(struct proxy_worker *worker, const struct rea_instance_id *id)
{
	struct upstream **bucket = &worker->upstreams[instance_bucket(id)], *upstream;

	for (upstream = *bucket; upstream != NULL; upstream = upstream->next) {
		if (rea_instance_id_equal(&upstream->id, id)) {
			upstream->refs++;
			return upstream;
		}
	}
	upstream = calloc(1, sizeof(*upstream));
	if (upstream == NULL)
		return NULL;
	upstream->state = instance_get(worker->proxy, id);
	if (upstream->state == NULL) {
		free(upstream);
		return NULL;
	}
	upstream->id = *id;
	upstream->worker = worker;
	upstream->refs = 1;
	rea_instance_id_format(id, upstream->name, sizeof(upstream->name));
	upstream->next = *bucket;
	*bucket = upstream;
	return upstream;
}

void upstream_unref(struct upstream *upstream)
{
	struct upstream **place = &upstream->worker->upstreams[instance_bucket(&upstream->id)];

	if (--upstream->refs > 0)
		return;
	while (*place != upstream)
		place = &(*place)->next;
	*place = upstream->next;
	if (upstream->ejected)
		atomic_fetch_sub_explicit(&upstream->state->ejected, 1, memory_order_relaxed);
	instance_unref(upstream->worker->proxy, upstream->state);
	tls_tickets_fini(&upstream->tickets);
	free(upstream);
}

static const struct rea_config_settings *settings_of(const struct upstream *upstream)
{
	return rea_config_settings(upstream->worker->view->snapshot->config);
}

static void idle_remove(struct link *link)
{
	struct upstream *upstream = link->upstream;

	loop_timer_stop(upstream->worker->loop, &link->expiry);
	if (link->shared)
		return;
	if (link->prev != NULL)
		link->prev->next = link->next;
	else
		upstream->idle = link->next;
	if (link->next != NULL)
		link->next->prev = link->prev;
	link->prev = link->next = NULL;
	upstream->idle_len--;
}

static void shared_add(struct link *link)
{
	struct upstream *upstream = link->upstream;

	link->next = upstream->shared;
	if (link->next != NULL)
		link->next->prev = link;
	upstream->shared = link;
}

static void shared_remove(struct link *link)
{
	struct upstream *upstream = link->upstream;

	loop_timer_stop(upstream->worker->loop, &link->expiry);
	if (link->prev != NULL)
		link->prev->next = link->next;
	else
		upstream->shared = link->next;
	if (link->next != NULL)
		link->next->prev = link->prev;
	link->prev = link->next = NULL;
}

/* The connection is gone or going: forget it. */
static void link_free(struct link *link)
{
	struct upstream *upstream = link->upstream;

	if (link->shared)
		shared_remove(link);
	else if (link->attempt == NULL)
		idle_remove(link);
	else
		link->attempt->link = NULL;
	upstream->links--;
	tls_context_unref(link->tls);
	free(link->tls_name);
	free(link);
	upstream_unref(upstream);
}

static void link_end(struct link *link)
{
	loop_http_client_close(link->client);
	link_free(link);
}

/* Until when it may stay idle, in ms from now; 0 = not at all. */
static uint64_t idle_ms_of(const struct link *link)
{
	const struct http_client *session = loop_http_client_session(link->client);
	uint64_t idle_ms = settings_of(link->upstream)->timeouts.upstream_idle_ms;

	/* Leave before the peer does: its hint less a second, so that no request meets its closing. */
	if (session->keep_alive_s > 0 && (session->keep_alive_s - 1) * UINT64_C(1000) < idle_ms)
		idle_ms = (session->keep_alive_s - 1) * UINT64_C(1000);
	return idle_ms;
}

static void start_expiry(struct link *link, uint64_t idle_ms)
{
	struct loop *loop = link->upstream->worker->loop;

	link->idle_since_ns = loop_now(loop);
	loop_timer_start(loop, &link->expiry, rea_time_add(link->idle_since_ns, rea_time_from_ms(idle_ms)));
}

/* Nobody is on a shared connection any more. */
static void shared_rest(struct link *link)
{
	uint64_t idle_ms = idle_ms_of(link);

	if (!link->connected || loop_http_client_session(link->client)->closing || idle_ms == 0)
		link_end(link);
	else
		start_expiry(link, idle_ms);
}

/* ---- attempts that wait for a shared connection ---- */

static void wait_for(struct link *link, struct attempt *attempt)
{
	attempt->link = link;
	attempt->next_waiting = NULL;
	*link->attempts_end = attempt;
	link->attempts_end = &attempt->next_waiting;
	link->open++;
}

static struct attempt *waiting_take(struct link *link)
{
	struct attempt *attempt = link->attempt;

	if (attempt == NULL)
		return NULL;
	link->attempt = attempt->next_waiting;
	if (link->attempt == NULL)
		link->attempts_end = &link->attempt;
	attempt->next_waiting = NULL;
	return attempt;
}

static void waiting_leave(struct link *link, const struct attempt *attempt)
{
	struct attempt **place = &link->attempt;

	while (*place != NULL && *place != attempt)
		place = &(*place)->next_waiting;
	if (*place == NULL)
		return;
	*place = attempt->next_waiting;
	if (*place == NULL)
		link->attempts_end = place;
}

static void begin_waiting(struct link *link)
{
	const struct link_users *users = link->upstream->worker->users;
	struct attempt *attempt;

	/* The last to leave may take the link with it. */
	link->open++;
	while ((attempt = waiting_take(link)) != NULL)
		users->connected(attempt);
	if (--link->open == 0)
		shared_rest(link);
}

/* "TLS to users.internal (10.0.0.7:8443): the certificate has expired (…)" */
void link_note_trouble(const struct link *link, struct attempt *attempt)
{
	const char *why = loop_http_client_trouble(link->client);
	char text[TROUBLE_MAX];

	if (why[0] == '\0')
		return;
	snprintf(text, sizeof(text), "TLS to %s (%s): %s", link->tls_name, link->upstream->name, why);
	free(attempt->trouble);
	attempt->trouble = strdup(text);
}

static void fail_waiting(struct link *link, int status)
{
	const struct link_users *users = link->upstream->worker->users;
	struct attempt *attempt;

	while ((attempt = waiting_take(link)) != NULL) {
		link_note_trouble(link, attempt);
		attempt->link = NULL;
		users->connect_failed(attempt, status);
	}
	link_free(link);
}

static void on_connect(struct loop_http_client *client, int status)
{
	struct link *link = loop_http_client_user(client);
	struct attempt *attempt = link->attempt;

	link->connected = status == 0;
	if (link->shared && status == 0) {
		begin_waiting(link);
	} else if (link->shared) {
		link->closing = true;
		fail_waiting(link, status);
	} else if (status == 0) {
		attempt->upstream->worker->users->connected(attempt);
	} else {
		link_note_trouble(link, attempt);
		link_free(link);
		attempt->upstream->worker->users->connect_failed(attempt, status);
	}
}

static void on_close(struct loop_http_client *client, int status)
{
	struct link *link = loop_http_client_user(client);

	/* The streams of a shared one have heard of it, each for itself. */
	if (link->attempt != NULL && !link->shared)
		link->upstream->worker->users->closed(link->attempt, status);
	else
		link_free(link);
}

static void on_expiry(struct wheel_timer *timer, uint64_t now_ns)
{
	struct link *link = REA_CONTAINER_OF(timer, struct link, expiry);

	(void)now_ns;
	link_end(link);
}

static struct link *idle_first(struct upstream *upstream)
{
	struct link *link = upstream->idle;

	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it does not see that a closed link has left the list. */
	assert(link == NULL || (link->upstream == upstream && link->attempt == NULL && link->prev == NULL));
	return link;
}

static bool trusted(const struct link *link)
{
	const struct proxy_worker *worker = link->upstream->worker;

	return loop_now(worker->loop) - link->idle_since_ns < worker->users->trust_ns ||
	       loop_http_client_alive(link->client);
}

/* ---- TLS ---- */

/* Whom the certificate of a service's instance must name: a host without its port, or the address. */
static void name_of(const struct view_service *service, const struct attempt *attempt, char text[NAME_MAX_BYTES])
{
	const char *listed = service->config->tls->server_name != NULL   ? service->config->tls->server_name
			     : service->names[attempt->instance] != NULL ? service->names[attempt->instance]
									 : attempt->upstream->name,
		   *colon = strrchr(listed, ':');
	bool in_brackets = listed[0] == '[';
	size_t length = strlen(listed);

	/* "users.internal:8443", "10.0.0.7", "[::1]:8443", "::1" */
	if (in_brackets)
		length = strcspn(++listed, "]");
	else if (colon != NULL && strchr(listed, ':') == colon)
		length = (size_t)(colon - listed);
	snprintf(text, NAME_MAX_BYTES, "%.*s", (int)length, listed);
}

static bool made_for(const struct link *link, const struct tls_context *tls, const char *name)
{
	return link->tls == tls && (tls == NULL || strcmp(link->tls_name, name) == 0);
}

/* The latest that was made so. */
static struct link *idle_find(struct upstream *upstream, const struct tls_context *tls, const char *name)
{
	struct link *link = idle_first(upstream);

	while (link != NULL && !made_for(link, tls, name))
		link = link->next;
	return link;
}

static struct link *idle_take(struct upstream *upstream, const struct tls_context *tls, const char *name)
{
	struct link *link;

	while ((link = idle_find(upstream, tls, name)) != NULL) {
		if (trusted(link)) {
			idle_remove(link);
			return link;
		}
		link_end(link);
	}
	return NULL;
}

/* One that takes an attempt more; a connecting one is filled before another is made, and fresh is nothing but that. */
static struct link *shared_find(struct upstream *upstream, bool fresh, const struct tls_context *tls, const char *name)
{
	struct link *link, *next;

	for (link = upstream->shared; link != NULL; link = next) {
		next = link->next;
		if (link->closing || !made_for(link, tls, name))
			continue;
		if (!link->connected) {
			if (link->open < WAITING_MAX)
				return link;
		} else if (!fresh && loop_http_client_session(link->client)->reusable &&
			   !loop_http_client_doubted(link->client)) {
			if (link->open > 0 || trusted(link))
				return link;
			link_end(link);
		}
	}
	return NULL;
}

/* What is idle was made for others, or it would have been taken; that must keep nobody out. */
static bool make_room(struct upstream *upstream)
{
	struct link *link = idle_first(upstream);

	if (link == NULL)
		for (link = upstream->shared; link != NULL && link->open > 0; link = link->next)
			;
	if (link == NULL)
		return false;
	link_end(link);
	return true;
}

static int link_new(
    struct upstream *upstream, struct attempt *attempt, unsigned wants, struct tls_context *tls, const char *name)
{
	const struct rea_config_settings *settings = settings_of(upstream);
	struct loop_http_client_options options = {
	    .events = &upstream->worker->users->events,
	    .make = wants & LINK_RAW  ? tunnel_client_new
		    : wants & LINK_H2 ? h2_client_new
				      : h1_client_new,
	    .limits = {settings->limits.header_bytes, settings->limits.headers, HTTP_CHUNK_EXT_BYTES, HTTP_TRAILER_BYTES},
	    .on_connect = on_connect,
	    .on_close = on_close,
	    .tls = tls,
	    .tls_name = name,
	    .tls_h2 = (wants & LINK_H2) != 0,
	    .tickets = &upstream->tickets,
	};
	struct sockaddr_storage address;
	struct link *link;
	int error;

	if (upstream->links >= settings->limits.upstream_connections && !make_room(upstream))
		return UV_EAGAIN;
	link = calloc(1, sizeof(*link));
	if (link == NULL || (tls != NULL && (link->tls_name = strdup(name)) == NULL)) {
		free(link);
		return UV_ENOMEM;
	}
	options.user = link;
	loop_address_from_id(&upstream->id, &address);
	error = loop_http_connect(upstream->worker->loop, (const struct sockaddr *)&address, &options, &link->client);
	if (error != 0) {
		free(link->tls_name);
		free(link);
		return error;
	}
	link->tls = tls_context_ref(tls);
	link->upstream = upstream;
	link->raw = (wants & LINK_RAW) != 0;
	link->shared = (wants & LINK_H2) != 0;
	link->attempts_end = &link->attempt;
	link->expiry.fire = on_expiry;
	upstream->links++;
	upstream->refs++;
	attempt->link = link;
	if (link->shared) {
		shared_add(link);
		wait_for(link, attempt);
	} else {
		link->attempt = attempt;
	}
	return 0;
}

unsigned link_wants(const struct view_service *service)
{
	return service->config->protocol == REA_PROTOCOL_H2 ? LINK_H2 : 0;
}

/* The least crowded of those that are made so, when there can be no other. What its peer does not allow yet waits inside, unsent, as long as its attempt has time. */
static struct link *shared_crowded(struct upstream *upstream, const struct tls_context *tls, const char *name)
{
	struct link *best = NULL;

	for (struct link *link = upstream->shared; link != NULL; link = link->next) {
		const struct http_client *session = loop_http_client_session(link->client);

		if (link->closing || !made_for(link, tls, name) || session->closing || session->full ||
		    loop_http_client_doubted(link->client))
			continue;
		if (best == NULL || link->open < best->open)
			best = link;
	}
	return best;
}

static int shared_get(struct upstream *upstream, struct attempt *attempt, unsigned wants, struct tls_context *tls,
    const char *name, bool *ret_ready)
{
	struct link *link = shared_find(upstream, (wants & LINK_FRESH) != 0, tls, name);

	*ret_ready = false;
	if (link == NULL) {
		int error = link_new(upstream, attempt, wants, tls, name);

		if (error != UV_EAGAIN || (link = shared_crowded(upstream, tls, name)) == NULL)
			return error;
	}
	if (!link->connected) {
		wait_for(link, attempt);
		return 0;
	}
	loop_timer_stop(upstream->worker->loop, &link->expiry);
	link->reused = true;
	link->open++;
	attempt->link = link;
	*ret_ready = true;
	return 0;
}

int link_get(struct upstream *upstream, struct attempt *attempt, const struct view_service *service, unsigned wants,
    bool *ret_ready)
{
	/* Through a tunnel the caller speaks TLS itself. */
	struct tls_context *tls = wants & LINK_RAW ? NULL : service->tls;
	char name[NAME_MAX_BYTES] = "";
	struct link *link;

	if (tls != NULL)
		name_of(service, attempt, name);
	if (wants & LINK_H2)
		return shared_get(upstream, attempt, wants, tls, name, ret_ready);
	link = wants & (LINK_FRESH | LINK_RAW) ? NULL : idle_take(upstream, tls, name);
	*ret_ready = link != NULL;
	if (link == NULL)
		return link_new(upstream, attempt, wants, tls, name);
	link->attempt = attempt;
	link->reused = true;
	attempt->link = link;
	return 0;
}

static void shared_leave(struct link *link, struct attempt *attempt)
{
	attempt->link = NULL;
	waiting_leave(link, attempt);
	if (--link->open == 0)
		shared_rest(link);
}

void link_put(struct attempt *attempt)
{
	struct link *link = attempt->link;
	struct upstream *upstream = link->upstream;
	uint64_t idle_ms;

	if (link->shared) {
		shared_leave(link, attempt);
		return;
	}
	idle_ms = idle_ms_of(link);
	if (!loop_http_client_session(link->client)->reusable || link->raw || idle_ms == 0 ||
	    upstream->idle_len >= settings_of(upstream)->limits.upstream_idle) {
		link_end(link);
		return;
	}
	attempt->link = NULL;
	link->attempt = NULL;
	link->next = upstream->idle;
	if (link->next != NULL)
		link->next->prev = link;
	upstream->idle = link;
	upstream->idle_len++;
	start_expiry(link, idle_ms);
}

void link_close(struct attempt *attempt)
{
	struct link *link = attempt->link;
	struct loop *loop = link->upstream->worker->loop;

	if (!link->shared) {
		link_end(link);
		return;
	}
	/* When nothing came in its latter half either, it may have met a connection of which nobody knows that it is dead. */
	if (link->connected)
		loop_http_client_doubt(link->client, attempt->start_ns + rea_time_sub(loop_now(loop), attempt->start_ns) / 2);
	shared_leave(link, attempt);
}

void upstream_close_idle(struct upstream *upstream)
{
	struct link *link, *next;

	while ((link = idle_first(upstream)) != NULL)
		link_end(link);
	for (link = upstream->shared; link != NULL; link = next) {
		next = link->next;
		if (link->open == 0)
			link_end(link);
	}
}
