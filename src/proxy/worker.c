/* A worker: one thread's view of the configuration, its instances, its calls. */
#include "proxy/internal.h"

#include "base/container.h"

#include <stdio.h>
#include <stdlib.h>

/* How fast the median follows: by this share of itself per reply. */
#define MEDIAN_STEP 0.02

void worker_count(atomic_uint_fast64_t *counter)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

void view_service_method(const struct view_service *service, struct rea_slice method, struct rea_slice path,
    const struct rea_operation **ret_operation, const struct rea_policy **ret_policy)
{
	const struct rea_config_service *config = service->config;

	*ret_operation = config->contract == NULL
			     ? NULL
			     : rea_contract_match(config->contract, method.data, method.length, path.data, path.length);
	*ret_policy = *ret_operation != NULL ? config->operation_policies[(*ret_operation)->index] : config->policy;
}

struct rea_slice view_service_scheme(const struct view_service *service)
{
	return service->tls != NULL ? REA_SLICE_LIT("https") : REA_SLICE_LIT("http");
}

const char *view_service_host(const struct view_service *service, size_t instance)
{
	return service->hosts[instance] != NULL ? service->hosts[instance] : service->config->host;
}

void view_service_learn(struct view_service *service, uint64_t latency_ns)
{
	double x = (double)latency_ns;

	if (service->median_latency_ns == 0)
		service->median_latency_ns = x;
	else if (x > service->median_latency_ns)
		service->median_latency_ns *= 1 + MEDIAN_STEP;
	else
		service->median_latency_ns *= 1 - MEDIAN_STEP;
}

/* ---- circuits ---- */

static bool same_numbers(const struct rea_breaker_policy *a, const struct rea_breaker_policy *b)
{
	return a->failure_rate_threshold == b->failure_rate_threshold &&
	       a->slow_call_rate_threshold == b->slow_call_rate_threshold &&
	       a->slow_call_duration_ns == b->slow_call_duration_ns && a->window_type == b->window_type &&
	       a->window_size == b->window_size && a->minimum_calls == b->minimum_calls &&
	       a->wait_in_open_ns == b->wait_in_open_ns && a->permitted_in_half_open == b->permitted_in_half_open &&
	       a->max_wait_in_half_open_ns == b->max_wait_in_half_open_ns;
}

static void circuit_unref(struct circuit *circuit)
{
	if (circuit == NULL || --circuit->refs > 0)
		return;
	rea_breaker_free(circuit->breaker);
	free(circuit->service);
	free(circuit->method);
	free(circuit);
}

static void on_breaker_change(enum rea_breaker_state from, enum rea_breaker_state to, uint64_t now_ns, void *user_data)
{
	record_breaker(user_data, from, to, now_ns);
}

static struct circuit *circuit_new(
    struct proxy_worker *worker, const char *service, const char *method, const struct rea_breaker_policy *policy)
{
	struct circuit *circuit = calloc(1, sizeof(*circuit));

	if (circuit == NULL)
		return NULL;
	circuit->refs = 1;
	circuit->worker = worker;
	circuit->policy = *policy;
	circuit->service = strdup(service);
	circuit->method = strdup(method);
	if (circuit->service == NULL || circuit->method == NULL ||
	    rea_breaker_new(policy, NULL, &circuit->breaker, NULL) != 0) {
		circuit_unref(circuit);
		return NULL;
	}
	rea_breaker_on_change(circuit->breaker, on_breaker_change, circuit);
	return circuit;
}

/* Of one protocol: one per operation, and the service's own. */
static size_t circuits_half(const struct view_service *service)
{
	return 1 + (service->config->contract == NULL ? 0 : rea_contract_count(service->config->contract));
}

/* Those of HTTP calls, then those of gRPC calls. */
static size_t circuits_len(const struct view_service *service)
{
	return 2 * circuits_half(service);
}

struct circuit *view_service_circuit(const struct view_service *service, const struct rea_operation *operation, bool grpc)
{
	size_t half = circuits_half(service);

	return service->circuits[(grpc ? half : 0) + (operation != NULL ? operation->index : half - 1)];
}

static int strictness(enum rea_breaker_state state)
{
	return state == REA_BREAKER_FORCED_OPEN ? 3 : state == REA_BREAKER_OPEN ? 2 : state == REA_BREAKER_HALF_OPEN;
}

bool view_service_breaker(const struct view_service *service, enum rea_breaker_state *ret_state)
{
	bool found = false;

	for (size_t i = 0; i < circuits_len(service); i++) {
		enum rea_breaker_state state;

		if (service->circuits[i] == NULL)
			continue;
		state = rea_breaker_state(service->circuits[i]->breaker);
		if (!found || strictness(state) > strictness(*ret_state))
			*ret_state = state;
		found = true;
	}
	return found;
}

static const char *circuit_method(const struct view_service *service, size_t index)
{
	size_t half = circuits_half(service), at = index % half;

	return at + 1 == half ? "" : rea_contract_operation(service->config->contract, at)->key;
}

static const struct rea_policy *circuit_policy(
    const struct view_service *service, const struct rea_config *config, size_t index)
{
	size_t half = circuits_half(service), at = index % half;
	const char *path = at + 1 == half ? "" : rea_contract_operation(service->config->contract, at)->path;

	if (index >= half)
		return rea_config_grpc_policy(config, service->config, path, strlen(path));
	return at + 1 == half ? service->config->policy : service->config->operation_policies[at];
}

/* A breaker keeps its memory across a reload as long as its numbers are the same. */
static struct circuit *circuit_find(
    const struct view_service *old, bool grpc, const char *method, const struct rea_breaker_policy *policy)
{
	size_t half = old != NULL ? circuits_half(old) : 0;

	for (size_t i = 0; i < half; i++) {
		struct circuit *circuit = old->circuits[(grpc ? half : 0) + i];

		if (circuit != NULL && strcmp(circuit->method, method) == 0)
			return same_numbers(&circuit->policy, policy) ? circuit : NULL;
	}
	return NULL;
}

static bool make_circuits(struct proxy_worker *worker, const struct rea_config *config, struct view_service *service,
    const struct view_service *old)
{
	size_t count = circuits_len(service);

	service->circuits = calloc(count, sizeof(struct circuit *));
	if (service->circuits == NULL)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct rea_policy *policy = circuit_policy(service, config, i);
		const char *method = circuit_method(service, i);

		if (!policy->breaker.enabled)
			continue;
		service->circuits[i] = circuit_find(old, i >= count / 2, method, &policy->breaker);
		if (service->circuits[i] != NULL)
			service->circuits[i]->refs++;
		else
			service->circuits[i] = circuit_new(worker, service->config->name, method, &policy->breaker);
		if (service->circuits[i] == NULL)
			return false;
	}
	return true;
}

/* ---- views ---- */

static bool equal_weights(const struct snapshot_service *service)
{
	for (size_t i = 1; i < service->instances_len; i++)
		if (service->instances[i].weight != service->instances[0].weight ||
		    service->instances[i].tier != service->instances[0].tier)
			return false;
	return true;
}

static bool make_instances(struct proxy_worker *worker, struct view_service *service, const struct snapshot_service *from)
{
	struct rea_instance *items = calloc(from->instances_len + 1, sizeof(*items));

	service->instances = (struct rea_instances){.items = items,
	    .balance = from->config->balance,
	    .equal_weights = equal_weights(from),
	    .never_eject = !from->config->ejection};
	service->upstreams = calloc(from->instances_len + 1, sizeof(struct upstream *));
	service->hosts = calloc(from->instances_len + 1, sizeof(char *));
	service->names = calloc(from->instances_len + 1, sizeof(char *));
	if (items == NULL || service->upstreams == NULL || service->hosts == NULL || service->names == NULL)
		return false;
	for (size_t i = 0; i < from->instances_len; i++) {
		struct upstream *upstream = upstream_get(worker, &from->instances[i].id);

		if (upstream == NULL)
			return false;
		upstream->views++;
		service->upstreams[i] = upstream;
		service->hosts[i] = from->instances[i].host;
		service->names[i] = from->instances[i].name;
		items[i] = (struct rea_instance){.id = upstream->id,
		    .weight = from->instances[i].weight,
		    .load = &upstream->load,
		    .tier = from->instances[i].tier};
		service->instances.count = i + 1;
	}
	return view_grants_make(service, from);
}

static void free_service(struct view_service *service)
{
	for (size_t i = 0; service->upstreams != NULL && i < service->instances.count; i++) {
		struct upstream *upstream = service->upstreams[i];

		if (--upstream->views == 0)
			upstream_close_idle(upstream);
		upstream_unref(upstream);
	}
	for (size_t i = 0; service->circuits != NULL && i < circuits_len(service); i++)
		circuit_unref(service->circuits[i]);
	view_grants_drop(service);
	free(service->circuits);
	free(service->upstreams);
	free(service->hosts);
	free(service->names);
	free((void *)(uintptr_t)service->instances.items);
}

static void view_free(struct view *view)
{
	for (size_t i = 0; i < view->services_len; i++)
		free_service(&view->services[i]);
	if (view->prev != NULL)
		view->prev->next = view->next;
	else if (view->worker != NULL)
		view->worker->views = view->next;
	if (view->next != NULL)
		view->next->prev = view->prev;
	snapshot_unref(view->snapshot);
	free(view);
}

/* It is the one that calls begin under from now on. */
static void link_view(struct proxy_worker *worker, struct view *view)
{
	view->worker = worker;
	view->next = worker->views;
	if (view->next != NULL)
		view->next->prev = view;
	worker->views = view;
}

void view_unref(struct view *view)
{
	if (--view->refs == 0)
		view_free(view);
}

static const struct view_service *find_old(const struct view *view, const char *name)
{
	for (size_t i = 0; view != NULL && i < view->services_len; i++)
		if (strcmp(view->services[i].config->name, name) == 0)
			return &view->services[i];
	return NULL;
}

/* Takes over the reference to the snapshot. NULL = out of memory, the snapshot given back. */
static struct view *view_new(struct proxy_worker *worker, struct snapshot *snapshot)
{
	struct view *view = calloc(1, sizeof(*view) + snapshot->services_len * sizeof(view->services[0]));

	if (view == NULL) {
		snapshot_unref(snapshot);
		return NULL;
	}
	view->snapshot = snapshot;
	view->refs = 1;
	for (size_t i = 0; i < snapshot->services_len; i++) {
		const struct snapshot_service *from = &snapshot->services[i];
		const struct view_service *old = find_old(worker->view, from->config->name);
		struct view_service *service = &view->services[i];

		view->services_len = i + 1;
		service->config = from->config;
		service->state = from->state;
		service->tls = from->tls;
		service->stats = &from->state->stats[worker->index].stats;
		service->median_latency_ns = old != NULL ? old->median_latency_ns : 0;
		if (!make_instances(worker, service, from) || !make_circuits(worker, snapshot->config, service, old)) {
			view_free(view);
			return NULL;
		}
	}
	return view;
}

/* ---- taking up snapshots ---- */

static struct snapshot *take_next(struct proxy_worker *worker)
{
	struct snapshot *snapshot;

	uv_mutex_lock(&worker->proxy->lock);
	snapshot = worker->next;
	worker->next = NULL;
	uv_mutex_unlock(&worker->proxy->lock);
	return snapshot;
}

/* Without memory for the new view the old one stays: calls go on as before. */
static void take_up(struct proxy_worker *worker)
{
	struct snapshot *snapshot = take_next(worker);
	struct view *view = snapshot != NULL ? view_new(worker, snapshot) : NULL, *old = worker->view;

	if (view == NULL)
		return;
	worker->view = view;
	if (old != NULL)
		view_grants_withdraw(view, old);
	link_view(worker, view);
	if (old != NULL)
		view_unref(old);
}

void worker_posted(struct loop_post *post)
{
	struct proxy_worker *worker = REA_CONTAINER_OF(post, struct proxy_worker, post);

	/* The node is the loop's until now, whoever took the snapshot up before. */
	uv_mutex_lock(&worker->proxy->lock);
	worker->post_pending = false;
	uv_mutex_unlock(&worker->proxy->lock);
	take_up(worker);
}

void proxy_worker_start(struct proxy_worker *worker)
{
	take_up(worker);
}

void proxy_worker_stop(struct proxy_worker *worker)
{
	struct view *view = worker->view;
	struct snapshot *waiting = take_next(worker);

	if (waiting != NULL)
		snapshot_unref(waiting);
	exchange_free_spares(worker);
	for (size_t i = 0; i < INSTANCE_BUCKETS; i++)
		for (struct upstream *upstream = worker->upstreams[i], *next; upstream != NULL; upstream = next) {
			next = upstream->next;
			upstream_close_idle(upstream);
		}
	worker->view = NULL;
	if (view != NULL)
		view_unref(view);
}

struct loop *proxy_worker_loop(struct proxy_worker *worker)
{
	return worker->loop;
}

struct rea_event_queue *proxy_worker_events(struct proxy_worker *worker)
{
	return worker->events;
}

/* One line a second at most: a flood of handshakes is no flood of lines. All are counted. */
static void on_refused(const char *peer, const char *why, void *user)
{
	struct proxy_worker *worker = user;
	uint64_t now = loop_now(worker->loop);

	if (worker->tls_told_ns != 0 && now - worker->tls_told_ns < REA_NS_PER_S) {
		worker->tls_untold++;
		return;
	}
	fprintf(stderr, "rea: TLS with %s: %s", peer, why);
	if (worker->tls_untold > 0)
		fprintf(stderr, "; %u more that were not told", worker->tls_untold);
	fprintf(stderr, "\n");
	worker->tls_told_ns = now;
	worker->tls_untold = 0;
}

void proxy_worker_http(struct proxy_worker *worker, struct loop_http_options *ret_options)
{
	const struct rea_config_settings *settings = rea_config_settings(worker->view->snapshot->config);

	*ret_options = (struct loop_http_options){
	    .events = &exchange_events,
	    .limits = {settings->limits.header_bytes, settings->limits.headers, HTTP_CHUNK_EXT_BYTES, HTTP_TRAILER_BYTES},
	    .connections_max = settings->limits.connections,
	    .head_timeout_ns = rea_time_from_ms(settings->timeouts.request_head_ms),
	    .idle_timeout_ns = rea_time_from_ms(settings->timeouts.keep_alive_ms),
	    .on_refused = on_refused,
	    .user = worker,
	};
}
