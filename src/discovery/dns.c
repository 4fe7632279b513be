/*
 * The channel of c-ares is made anew when it is some seconds old and nothing is under way: resolv.conf may be another by now, and c-ares reads it once.
 *
 * c-ares may answer from inside the question, and must not be ended from inside an answer: so answers are put in a list, which the timer empties.
 */
#include "discovery/dns.h"

#include "base/container.h"
#include "discovery/naming_wire.h"

#include <ares.h>
#include <netdb.h>
#include <stdlib.h>

#define TIMEOUT_MS 1500
#define TRIES 2
#define CHANNEL_NS (5 * REA_NS_PER_S)
#define TYPE_SRV 33
#define CLASS_IN 1

/* One socket of the channel. */
struct dns_socket {
	uv_poll_t poll;
	struct dns *dns;
	ares_socket_t fd;
	struct dns_socket *next;
};

struct dns_ask {
	struct dns *dns;
	struct dns_query *query; /* NULL = nobody wants to know any more */
	struct dns_ask *next;    /* in the list of those that are answered */
};

struct dns {
	struct loop *loop;
	const char *const *servers;
	size_t servers_len;
	ares_channel channel;
	bool has_channel;
	uint64_t made_ns;
	size_t under_way; /* asked, and not answered by c-ares */
	struct dns_socket *sockets;
	struct dns_ask *answered, **answered_end;
	struct wheel_timer timer; /* c-ares's own times, and the list of the answered */
};

/* ---- the loop ---- */

static void on_socket_closed(uv_handle_t *handle)
{
	free(REA_CONTAINER_OF((uv_poll_t *)handle, struct dns_socket, poll));
}

static void set_timer(struct dns *dns)
{
	uint64_t now_ns = loop_now(dns->loop);
	struct timeval most = {.tv_sec = 30}, left;

	if (dns->answered != NULL) {
		loop_timer_start(dns->loop, &dns->timer, now_ns);
	} else if (dns->under_way > 0) {
		ares_timeout(dns->channel, &most, &left);
		loop_timer_start(dns->loop, &dns->timer,
		    rea_time_add(now_ns, rea_time_mul((uint64_t)left.tv_sec, REA_NS_PER_S) +
					     (uint64_t)left.tv_usec * 1000 + REA_NS_PER_MS));
	} else {
		loop_timer_stop(dns->loop, &dns->timer);
	}
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct dns_socket *socket = REA_CONTAINER_OF(poll, struct dns_socket, poll);
	struct dns *dns = socket->dns;
	ares_socket_t fd = socket->fd;
	bool in = status < 0 || (events & UV_READABLE), out = status < 0 || (events & UV_WRITABLE);

	ares_process_fd(dns->channel, in ? fd : ARES_SOCKET_BAD, out ? fd : ARES_SOCKET_BAD);
	set_timer(dns);
	loop_flush(dns->loop);
}

static struct dns_socket **find_socket(struct dns *dns, ares_socket_t fd)
{
	struct dns_socket **place = &dns->sockets;

	while (*place != NULL && (*place)->fd != fd)
		place = &(*place)->next;
	return place;
}

/* c-ares waits for other things of a socket than before, or is about to close it. Without memory for a handle the question times out. */
static void on_socket(void *data, ares_socket_t fd, int readable, int writable)
{
	struct dns *dns = data;
	struct dns_socket **place = find_socket(dns, fd), *socket = *place;

	if (!readable && !writable) {
		if (socket == NULL)
			return;
		*place = socket->next;
		uv_poll_stop(&socket->poll);
		uv_close((uv_handle_t *)&socket->poll, on_socket_closed);
		return;
	}
	if (socket == NULL) {
		socket = calloc(1, sizeof(*socket));
		if (socket == NULL)
			return;
		if (uv_poll_init(&dns->loop->uv, &socket->poll, fd) != 0) {
			free(socket);
			return;
		}
		socket->dns = dns;
		socket->fd = fd;
		socket->next = dns->sockets;
		dns->sockets = socket;
	}
	uv_poll_start(&socket->poll, (readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0), on_poll);
}

/* ---- answers ---- */

static void answer(struct dns_ask *ask)
{
	struct dns *dns = ask->dns;

	dns->under_way--;
	if (ask->query == NULL) {
		free(ask);
		return;
	}
	ask->next = NULL;
	*dns->answered_end = ask;
	dns->answered_end = &ask->next;
}

static void tell_answered(struct dns *dns)
{
	while (dns->answered != NULL) {
		struct dns_ask *ask = dns->answered;
		struct dns_query *query = ask->query;

		dns->answered = ask->next;
		if (dns->answered == NULL)
			dns->answered_end = &dns->answered;
		free(ask);
		if (query == NULL)
			continue;
		query->ask = NULL;
		query->done(query);
	}
}

static void on_timer(struct wheel_timer *timer, uint64_t now_ns)
{
	struct dns *dns = REA_CONTAINER_OF(timer, struct dns, timer);

	(void)now_ns;
	if (dns->has_channel && dns->under_way > 0)
		ares_process_fd(dns->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	tell_answered(dns);
	set_timer(dns);
}

static void fail(struct dns_query *query, int status)
{
	query->result = status == ARES_ENOTFOUND || status == ARES_ENODATA ? DNS_NONE : DNS_FAILED;
	query->why = ares_strerror(status);
}

static uint32_t shorter(uint32_t ttl_s, int other)
{
	return other >= 0 && (uint32_t)other < ttl_s ? (uint32_t)other : ttl_s;
}

static void take_addresses(struct dns_query *query, const struct ares_addrinfo *found)
{
	query->ttl_s = UINT32_MAX;
	for (const struct ares_addrinfo_cname *alias = found->cnames; alias != NULL; alias = alias->next)
		query->ttl_s = shorter(query->ttl_s, alias->ttl);
	for (const struct ares_addrinfo_node *node = found->nodes; node != NULL; node = node->ai_next) {
		struct rea_instance_id id = {.port = 0};

		query->ttl_s = shorter(query->ttl_s, node->ai_ttl);
		if (node->ai_family == AF_INET) {
			struct sockaddr_in v4;

			memcpy(&v4, node->ai_addr, sizeof(v4));
			id.address[10] = id.address[11] = 0xff;
			memcpy(id.address + 12, &v4.sin_addr, 4);
		} else if (node->ai_family == AF_INET6) {
			struct sockaddr_in6 v6;

			memcpy(&v6, node->ai_addr, sizeof(v6));
			memcpy(id.address, &v6.sin6_addr, sizeof(id.address));
		} else {
			continue;
		}
		query->addresses_len = roster_addresses_add(query->addresses, query->addresses_len, &id);
	}
	query->result = query->addresses_len > 0 ? DNS_FOUND : DNS_NONE;
	query->why = ares_strerror(ARES_ENODATA);
}

static void on_addresses(void *arg, int status, int timeouts, struct ares_addrinfo *found)
{
	struct dns_ask *ask = arg;

	(void)timeouts;
	if (ask->query != NULL && status != ARES_SUCCESS)
		fail(ask->query, status);
	else if (ask->query != NULL)
		take_addresses(ask->query, found);
	ares_freeaddrinfo(found);
	answer(ask);
}

static void on_records(void *arg, int status, int timeouts, unsigned char *data, int length)
{
	struct dns_ask *ask = arg;
	struct dns_query *query = ask->query;
	int error;

	(void)timeouts;
	if (query != NULL && status != ARES_SUCCESS) {
		fail(query, status);
	} else if (query != NULL) {
		error = naming_read_srv(data, (size_t)length, &query->srv, &query->ttl_s);
		query->result = error == 0 ? DNS_FOUND : error == REA_ERR_NOT_FOUND ? DNS_NONE : DNS_FAILED;
		query->why = ares_strerror(error == REA_ERR_NOT_FOUND ? ARES_ENODATA : ARES_EBADRESP);
	}
	answer(ask);
}

/* ---- questions ---- */

static int set_servers(struct dns *dns)
{
	struct rea_buffer list = {.alloc = NULL};
	int error = 0;

	if (dns->servers_len == 0)
		return 0;
	for (size_t i = 0; i < dns->servers_len && error == 0; i++) {
		error = i > 0 ? rea_buffer_append(&list, ",", 1) : 0;
		if (error == 0)
			error = rea_buffer_append_slice(&list, rea_slice_of(dns->servers[i]));
	}
	if (error == 0)
		error = rea_buffer_append(&list, "", 1);
	if (error == 0 && ares_set_servers_ports_csv(dns->channel, rea_buffer_data(&list)) != ARES_SUCCESS)
		error = REA_ERR_NOMEM;
	rea_buffer_fini(&list);
	return error;
}

static void end_channel(struct dns *dns)
{
	if (dns->has_channel)
		ares_destroy(dns->channel);
	dns->has_channel = false;
}

static int make_channel(struct dns *dns)
{
	struct ares_options options = {
	    .timeout = TIMEOUT_MS, .tries = TRIES, .sock_state_cb = on_socket, .sock_state_cb_data = dns};
	uint64_t now_ns = loop_now(dns->loop);

	if (dns->has_channel && (dns->under_way > 0 || now_ns < rea_time_add(dns->made_ns, CHANNEL_NS)))
		return 0;
	end_channel(dns);
	if (ares_init_options(&dns->channel, &options, ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB) !=
	    ARES_SUCCESS)
		return REA_ERR_NOMEM;
	dns->has_channel = true;
	dns->made_ns = now_ns;
	if (set_servers(dns) == 0)
		return 0;
	/* The next question must not go to servers that nobody named. */
	end_channel(dns);
	return REA_ERR_NOMEM;
}

struct dns *dns_new(struct loop *loop, const char *const *servers, size_t servers_len)
{
	struct dns *dns = calloc(1, sizeof(*dns));

	if (dns == NULL)
		return NULL;
	/* Counted by c-ares; libcurl may have been first. */
	if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS) {
		free(dns);
		return NULL;
	}
	dns->loop = loop;
	dns->servers = servers;
	dns->servers_len = servers_len;
	dns->answered_end = &dns->answered;
	dns->timer.fire = on_timer;
	return dns;
}

void dns_free(struct dns *dns)
{
	if (dns == NULL)
		return;
	/* Whatever was still asked is answered by this, to nobody. */
	end_channel(dns);
	tell_answered(dns);
	loop_timer_stop(dns->loop, &dns->timer);
	ares_library_cleanup();
	free(dns);
}

int dns_ask(struct dns *dns, struct dns_query *query, const char *name, bool srv)
{
	const struct ares_addrinfo_hints hints = {
	    .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = ARES_AI_NOSORT};
	struct dns_ask *ask;

	dns_forget(query);
	if (make_channel(dns) != 0)
		return REA_ERR_NOMEM;
	ask = calloc(1, sizeof(*ask));
	if (ask == NULL)
		return REA_ERR_NOMEM;
	ask->dns = dns;
	ask->query = query;
	query->ask = ask;
	dns->under_way++;
	if (srv)
		ares_search(dns->channel, name, CLASS_IN, TYPE_SRV, on_records, ask);
	else
		ares_getaddrinfo(dns->channel, name, NULL, &hints, on_addresses, ask);
	set_timer(dns);
	return 0;
}

void dns_forget(struct dns_query *query)
{
	if (query->ask != NULL)
		query->ask->query = NULL;
	query->ask = NULL;
	query->addresses_len = 0;
	roster_list_fini(&query->srv);
}
