/*
 * Connections to instances. An idle one keeps its socket watched, so that the peer's close is seen at once; it is given out latest first, so that
 * spare ones grow old and expire.
 */
#include "proxy/internal.h"

#include "base/container.h"
#include "http/tunnel.h"

#include <assert.h>
#include <stdlib.h>

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
	free(upstream);
}

static const struct rea_config_settings *settings_of(const struct upstream *upstream)
{
	return rea_config_settings(upstream->worker->view->snapshot->config);
}

static void idle_remove(struct link *link)
{
	struct upstream *upstream = link->upstream;

	if (link->prev != NULL)
		link->prev->next = link->next;
	else
		upstream->idle = link->next;
	if (link->next != NULL)
		link->next->prev = link->prev;
	link->prev = link->next = NULL;
	upstream->idle_len--;
	loop_timer_stop(upstream->worker->loop, &link->expiry);
}

/* The connection is gone or going: forget it. */
static void link_free(struct link *link)
{
	struct upstream *upstream = link->upstream;

	if (link->attempt == NULL)
		idle_remove(link);
	else
		link->attempt->link = NULL;
	upstream->links--;
	free(link);
	upstream_unref(upstream);
}

void link_close(struct link *link)
{
	loop_http_client_close(link->client);
	link_free(link);
}

static void on_connect(struct loop_http_client *client, int status)
{
	struct link *link = loop_http_client_user(client);
	struct attempt *attempt = link->attempt;

	if (status == 0) {
		attempt->upstream->worker->users->connected(attempt);
	} else {
		link_free(link);
		attempt->upstream->worker->users->connect_failed(attempt, status);
	}
}

static void on_close(struct loop_http_client *client, int status)
{
	struct link *link = loop_http_client_user(client);

	if (link->attempt != NULL)
		link->upstream->worker->users->closed(link->attempt, status);
	else
		link_free(link);
}

static void on_drain(struct loop_http_client *client)
{
	struct link *link = loop_http_client_user(client);

	if (link->attempt != NULL)
		link->upstream->worker->users->drained(link->attempt);
}

static void on_expiry(struct wheel_timer *timer, uint64_t now_ns)
{
	struct link *link = REA_CONTAINER_OF(timer, struct link, expiry);

	(void)now_ns;
	link_close(link);
}

static struct link *idle_first(struct upstream *upstream)
{
	struct link *link = upstream->idle;

	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it does not see that a closed link has left the list. */
	assert(link == NULL || (link->upstream == upstream && link->attempt == NULL && link->prev == NULL));
	return link;
}

static struct link *idle_take(struct upstream *upstream)
{
	uint64_t now = loop_now(upstream->worker->loop);
	struct link *link;

	while ((link = idle_first(upstream)) != NULL) {
		if (now - link->idle_since_ns < upstream->worker->users->trust_ns || loop_http_client_alive(link->client)) {
			idle_remove(link);
			return link;
		}
		link_close(link);
	}
	return NULL;
}

static int link_new(struct upstream *upstream, struct attempt *attempt, bool raw)
{
	const struct rea_config_settings *settings = settings_of(upstream);
	struct loop_http_client_options options = {
	    .events = &upstream->worker->users->events,
	    .make = raw ? tunnel_client_new : h1_client_new,
	    .limits = {settings->limits.header_bytes, settings->limits.headers, HTTP_CHUNK_EXT_BYTES, HTTP_TRAILER_BYTES},
	    .on_connect = on_connect,
	    .on_close = on_close,
	    .on_drain = on_drain,
	};
	struct sockaddr_storage address;
	struct link *link;
	int error;

	if (upstream->links >= settings->limits.upstream_connections)
		return UV_EAGAIN;
	link = calloc(1, sizeof(*link));
	if (link == NULL)
		return UV_ENOMEM;
	options.user = link;
	loop_address_from_id(&upstream->id, &address);
	error = loop_http_connect(upstream->worker->loop, (const struct sockaddr *)&address, &options, &link->client);
	if (error != 0) {
		free(link);
		return error;
	}
	link->upstream = upstream;
	link->attempt = attempt;
	link->raw = raw;
	link->expiry.fire = on_expiry;
	upstream->links++;
	upstream->refs++;
	attempt->link = link;
	return 0;
}

int link_get(struct upstream *upstream, struct attempt *attempt, bool fresh, bool raw, bool *ret_ready)
{
	struct link *link = fresh || raw ? NULL : idle_take(upstream);

	*ret_ready = link != NULL;
	if (link == NULL)
		return link_new(upstream, attempt, raw);
	link->attempt = attempt;
	link->reused = true;
	attempt->link = link;
	return 0;
}

void link_put(struct link *link)
{
	struct upstream *upstream = link->upstream;
	struct proxy_worker *worker = upstream->worker;
	const struct rea_config_settings *settings = settings_of(upstream);
	struct http_client *session = loop_http_client_session(link->client);
	uint64_t idle_ms = settings->timeouts.upstream_idle_ms;

	/* Leave before the peer does: its hint less a second, so that no request meets its closing. */
	if (session->keep_alive_s > 0 && (session->keep_alive_s - 1) * UINT64_C(1000) < idle_ms)
		idle_ms = (session->keep_alive_s - 1) * UINT64_C(1000);
	if (!session->reusable || link->raw || idle_ms == 0 || upstream->idle_len >= settings->limits.upstream_idle) {
		link_close(link);
		return;
	}
	link->attempt->link = NULL;
	link->attempt = NULL;
	link->idle_since_ns = loop_now(worker->loop);
	link->next = upstream->idle;
	if (link->next != NULL)
		link->next->prev = link;
	upstream->idle = link;
	upstream->idle_len++;
	loop_timer_start(worker->loop, &link->expiry, rea_time_add(link->idle_since_ns, rea_time_from_ms(idle_ms)));
}

void upstream_close_idle(struct upstream *upstream)
{
	struct link *link;

	while ((link = idle_first(upstream)) != NULL)
		link_close(link);
}
