/* The proxy of a process: snapshots, what outlives them, and the numbers of all workers. */
#include "proxy/health.h"

#include <assert.h>
#include <stdlib.h>

static bool worker_init(struct proxy *proxy, uint32_t index)
{
	const struct proxy_options *options = &proxy->options;
	struct proxy_worker *worker = &proxy->workers[index];
	bool own = index < options->threads;

	if (rea_event_queue_new(options->events_queue_bytes, NULL, &worker->events, NULL) != 0)
		return false;
	if (own && loop_init(&worker->own_loop, options->seed + index) != 0)
		return false;
	worker->loop = own ? &worker->own_loop : options->loop;
	worker->users = own ? &call_links : &delivery_links;
	worker->proxy = proxy;
	worker->index = index;
	worker->post.fn = worker_posted;
	return true;
}

struct proxy *proxy_new(const struct proxy_options *options)
{
	struct proxy *proxy = calloc(1, sizeof(*proxy));
	int error;

	if (proxy == NULL)
		return NULL;
	proxy->options = *options;
	error = uv_mutex_init(&proxy->lock);
	assert(error == 0);
	rea_retry_limit_init(&proxy->limit, 1);
	rea_retry_limit_init(&proxy->parking, 1);
	proxy->workers_len = options->threads + (options->loop != NULL ? 1 : 0);
	proxy->workers = calloc(proxy->workers_len, sizeof(struct proxy_worker));
	if (proxy->workers == NULL)
		goto fail;
	for (uint32_t i = 0; i < proxy->workers_len; i++)
		if (!worker_init(proxy, i))
			goto fail;
	if (options->loop != NULL) {
		proxy->health = health_new(&proxy->workers[options->threads]);
		if (proxy->health == NULL)
			goto fail;
	}
	return proxy;
fail:
	proxy_free(proxy);
	return NULL;
}

static void state_unref(struct proxy *proxy, struct service_state *state)
{
	struct service_state **place = &proxy->states;
	bool last;

	uv_mutex_lock(&proxy->lock);
	last = --state->refs == 0;
	if (last) {
		while (*place != state)
			place = &(*place)->next;
		*place = state->next;
	}
	uv_mutex_unlock(&proxy->lock);
	if (!last)
		return;
	rea_budget_free(state->budget);
	free(state->stats);
	free(state->name);
	free(state);
}

static struct service_state *state_new(struct proxy *proxy, const struct rea_config_service *config)
{
	struct service_state *state = calloc(1, sizeof(*state));

	if (state == NULL)
		return NULL;
	state->name = strdup(config->name);
	state->stats = aligned_alloc(_Alignof(struct worker_stats), proxy->workers_len * sizeof(struct worker_stats));
	if (state->name == NULL || state->stats == NULL ||
	    rea_budget_new(config->budget, proxy->workers_len, NULL, &state->budget, NULL) != 0) {
		free(state->stats);
		free(state->name);
		free(state);
		return NULL;
	}
	memset(state->stats, 0, proxy->workers_len * sizeof(struct worker_stats));
	uv_mutex_lock(&proxy->lock);
	state->next = proxy->states;
	proxy->states = state;
	uv_mutex_unlock(&proxy->lock);
	return state;
}

/* Under its name a service keeps its budget and its numbers through every reload. */
static struct service_state *state_get(struct proxy *proxy, const struct rea_config_service *config)
{
	struct service_state *state;

	uv_mutex_lock(&proxy->lock);
	for (state = proxy->states; state != NULL; state = state->next)
		if (strcmp(state->name, config->name) == 0)
			break;
	if (state != NULL)
		state->refs++;
	uv_mutex_unlock(&proxy->lock);
	if (state == NULL) {
		state = state_new(proxy, config);
		if (state != NULL)
			state->refs = 1;
	}
	return state;
}

static void drop_instances(struct proxy *proxy, struct snapshot_service *service)
{
	for (size_t i = 0; service->states != NULL && i < service->instances_len; i++)
		instance_unref(proxy, service->states[i]);
	for (size_t i = 0; service->instances != NULL && i < service->instances_len; i++) {
		free((char *)(uintptr_t)service->instances[i].host);
		free((char *)(uintptr_t)service->instances[i].name);
	}
	grants_drop(service);
	free(service->states);
	free(service->instances);
	service->states = NULL;
	service->instances = NULL;
	service->instances_len = 0;
}

static void snapshot_free(struct snapshot *snapshot)
{
	for (size_t i = 0; i < snapshot->services_len; i++) {
		drop_instances(snapshot->proxy, &snapshot->services[i]);
		tls_context_unref(snapshot->services[i].tls);
		state_unref(snapshot->proxy, snapshot->services[i].state);
	}
	rea_config_unref(snapshot->config);
	free(snapshot);
}

void snapshot_unref(struct snapshot *snapshot)
{
	if (atomic_fetch_sub(&snapshot->refs, 1) == 1)
		snapshot_free(snapshot);
}

/* Who found the instance may forget it before the snapshot does. */
static bool copy_texts(struct proxy_instance *instance)
{
	const char *host = instance->host, *name = instance->name;

	instance->host = host != NULL ? strdup(host) : NULL;
	instance->name = name != NULL ? strdup(name) : NULL;
	return (instance->host != NULL || host == NULL) && (instance->name != NULL || name == NULL);
}

static bool fill_service(struct proxy *proxy, struct snapshot_service *service, const struct rea_config_service *config,
    const struct proxy_instance *instances, size_t count)
{
	service->config = config;
	service->instances = calloc(count + 1, sizeof(*instances));
	service->states = calloc(count + 1, sizeof(struct instance_state *));
	if (service->instances == NULL || service->states == NULL)
		goto fail;
	for (size_t i = 0; i < count; i++) {
		service->states[i] = instance_get(proxy, &instances[i].id);
		if (service->states[i] == NULL)
			goto fail;
		service->instances_len = i + 1;
		service->instances[i] = instances[i];
		if (health_is_bad(proxy->health, config->name, &instances[i].id))
			service->instances[i].tier |= HEALTH_TIER;
		if (!copy_texts(&service->instances[i]))
			goto fail;
	}
	if (!grants_fill(service))
		goto fail;
	service->state = state_get(proxy, config);
	if (service->state != NULL) {
		if (proxy->options.tls != NULL)
			service->tls = tls_context_ref(proxy->options.tls(config, proxy->options.user_data));
		return true;
	}
fail:
	drop_instances(proxy, service);
	return false;
}

static struct snapshot *snapshot_new(
    struct proxy *proxy, struct rea_config *config, const struct proxy_instance *const *instances, const size_t *counts)
{
	size_t services = rea_config_services_count(config);
	struct snapshot *snapshot = calloc(1, sizeof(*snapshot) + services * sizeof(snapshot->services[0]));

	if (snapshot == NULL)
		return NULL;
	atomic_init(&snapshot->refs, 1);
	snapshot->proxy = proxy;
	snapshot->config = rea_config_ref(config);
	for (size_t i = 0; i < services; i++) {
		if (!fill_service(proxy, &snapshot->services[i], rea_config_service(config, i), instances[i], counts[i])) {
			snapshot_free(snapshot);
			return NULL;
		}
		snapshot->services_len = i + 1;
	}
	return snapshot;
}

int proxy_install(
    struct proxy *proxy, struct rea_config *config, const struct proxy_instance *const *instances, const size_t *counts)
{
	struct snapshot *snapshot = snapshot_new(proxy, config, instances, counts), *old = proxy->snapshot;

	if (snapshot == NULL)
		return REA_ERR_NOMEM;
	for (size_t i = 0; i < snapshot->services_len; i++)
		rea_budget_configure(snapshot->services[i].state->budget, snapshot->services[i].config->budget);
	rea_retry_limit_configure(&proxy->limit, rea_config_settings(config)->limits.concurrent_retries);
	rea_retry_limit_configure(&proxy->parking, rea_config_settings(config)->limits.parked_calls);
	proxy->snapshot = snapshot;
	for (uint32_t i = 0; i < proxy->workers_len; i++) {
		struct proxy_worker *worker = &proxy->workers[i];
		struct snapshot *skipped;
		bool post;

		atomic_fetch_add(&snapshot->refs, 1);
		uv_mutex_lock(&proxy->lock);
		skipped = worker->next;
		worker->next = snapshot;
		post = !worker->post_pending;
		worker->post_pending = true;
		uv_mutex_unlock(&proxy->lock);
		if (skipped != NULL)
			snapshot_unref(skipped);
		if (post)
			loop_post(worker->loop, &worker->post);
	}
	if (old != NULL)
		snapshot_unref(old);
	if (proxy->health != NULL)
		health_configure(proxy->health, snapshot);
	return 0;
}

void proxy_free(struct proxy *proxy)
{
	if (proxy == NULL)
		return;
	for (uint32_t i = 0; proxy->workers != NULL && i < proxy->workers_len; i++) {
		if (proxy->workers[i].loop == &proxy->workers[i].own_loop)
			loop_fini(&proxy->workers[i].own_loop);
		rea_event_queue_free(proxy->workers[i].events);
	}
	if (proxy->snapshot != NULL)
		snapshot_unref(proxy->snapshot);
	uv_mutex_destroy(&proxy->lock);
	free(proxy->workers);
	free(proxy);
}

struct proxy_worker *proxy_worker(struct proxy *proxy, uint32_t index)
{
	assert(index < proxy->workers_len);
	return &proxy->workers[index];
}

bool proxy_look(const struct proxy *proxy, struct rea_slice service, struct proxy_service_view *ret_view)
{
	const struct rea_config_service *config =
	    rea_config_find_service(proxy->snapshot->config, service.data, service.length);

	if (config == NULL)
		return false;
	ret_view->limit = &proxy->limit;
	ret_view->parking = &proxy->parking;
	rea_budget_look(proxy->snapshot->services[config->index].state->budget, uv_hrtime(), &ret_view->budget);
	return true;
}

bool proxy_look_instance(const struct proxy *proxy, struct rea_slice service, size_t index, struct proxy_instance_view *ret_view)
{
	const struct rea_config_service *config =
	    rea_config_find_service(proxy->snapshot->config, service.data, service.length);
	const struct snapshot_service *in = config != NULL ? &proxy->snapshot->services[config->index] : NULL;
	const struct instance_state *state;

	if (in == NULL || index >= in->instances_len)
		return false;
	state = in->states[index];
	rea_instance_id_format(&state->id, ret_view->address, sizeof(ret_view->address));
	ret_view->ejected = atomic_load_explicit(&state->ejected, memory_order_relaxed);
	ret_view->ejections = atomic_load_explicit(&state->ejections, memory_order_relaxed);
	ret_view->weight = in->instances[index].weight;
	ret_view->tier = in->instances[index].tier & ~HEALTH_TIER;
	ret_view->unhealthy = (in->instances[index].tier & HEALTH_TIER) != 0;
	ret_view->usable = !ret_view->unhealthy && ret_view->ejected < proxy->options.threads;
	return true;
}

static void write_services(struct proxy *proxy, struct rea_prometheus *out)
{
	size_t services = proxy->snapshot->services_len;
	const char **names = calloc(services + 1, sizeof(*names));
	struct rea_service_stats *stats = calloc(services + 1, sizeof(*stats));

	for (size_t i = 0; names != NULL && stats != NULL && i < services; i++) {
		const struct service_state *state = proxy->snapshot->services[i].state;

		names[i] = state->name;
		for (uint32_t k = 0; k < proxy->workers_len; k++)
			rea_service_stats_sum(&stats[i], &state->stats[k].stats);
	}
	if (names != NULL && stats != NULL)
		rea_prometheus_services(out, names, stats, services);
	free(names);
	free(stats);
}

static void write_budgets(struct proxy *proxy, struct rea_prometheus *out)
{
	uint64_t now = uv_hrtime();

	rea_prometheus_family(
	    out, "rea_budget_available", REA_METRIC_GAUGE, "Retries that the service's budget would grant now.");
	for (size_t i = 0; i < proxy->snapshot->services_len; i++) {
		const struct service_state *state = proxy->snapshot->services[i].state;
		const char *const labels[] = {"service", state->name};

		rea_prometheus_sample(
		    out, "rea_budget_available", labels, 2, (double)rea_budget_available(state->budget, now));
	}
}

static void write_instances(struct proxy *proxy, struct rea_prometheus *out, const char *name,
    enum rea_metric_type type, const char *help, double (*value)(const struct instance_state *state))
{
	rea_prometheus_family(out, name, type, help);
	for (size_t i = 0; i < proxy->snapshot->services_len; i++) {
		const struct snapshot_service *service = &proxy->snapshot->services[i];

		for (size_t k = 0; k < service->instances_len; k++) {
			char address[LOOP_ADDRESS_MAX];
			const char *const labels[] = {"service", service->state->name, "instance", address};

			rea_instance_id_format(&service->states[k]->id, address, sizeof(address));
			rea_prometheus_sample(out, name, labels, 4, value(service->states[k]));
		}
	}
}

static double ejected(const struct instance_state *state)
{
	return atomic_load_explicit(&state->ejected, memory_order_relaxed);
}

static double ejections(const struct instance_state *state)
{
	return (double)atomic_load_explicit(&state->ejections, memory_order_relaxed);
}

void proxy_stop_checks(struct proxy *proxy)
{
	health_free(proxy->health);
	proxy->health = NULL;
}

/* By side. */
static void write_handshakes(struct proxy *proxy, struct rea_prometheus *out, const char *name, const char *help, size_t offset)
{
	static const char *const sides[] = {"upstream", "listener"};

	rea_prometheus_family(out, name, REA_METRIC_COUNTER, help);
	for (size_t side = 0; side < 2; side++) {
		const char *const labels[] = {"side", sides[side]};
		uint64_t sum = 0;

		for (uint32_t i = 0; i < proxy->workers_len; i++)
			sum += atomic_load_explicit(
			    (const atomic_uint_fast64_t *)(const void *)((const char *)&proxy->workers[i].loop->tls[side] +
									 offset),
			    memory_order_relaxed);
		rea_prometheus_sample(out, name, labels, 2, (double)sum);
	}
}

static void write_number(
    struct rea_prometheus *out, const char *name, enum rea_metric_type type, const char *help, uint64_t value)
{
	rea_prometheus_family(out, name, type, help);
	rea_prometheus_sample(out, name, NULL, 0, (double)value);
}

void proxy_metrics(struct proxy *proxy, struct rea_prometheus *out)
{
	uint64_t refused = 0, first_try = 0, written = 0, dropped = 0;

	for (uint32_t i = 0; i < proxy->workers_len; i++) {
		const struct proxy_worker *worker = &proxy->workers[i];

		refused += atomic_load_explicit(&worker->refused, memory_order_relaxed);
		first_try += atomic_load_explicit(&worker->first_try_events, memory_order_relaxed);
		written += rea_event_queue_written(worker->events);
		dropped += rea_event_queue_dropped(worker->events);
	}
	write_services(proxy, out);
	write_budgets(proxy, out);
	write_instances(proxy, out, "rea_instance_ejected", REA_METRIC_GAUGE,
	    "Threads that leave the instance out, as it does worse than the others.", ejected);
	write_instances(proxy, out, "rea_instance_ejections_total", REA_METRIC_COUNTER,
	    "How often a thread has ejected the instance.", ejections);
	if (proxy->health != NULL)
		health_metrics(proxy->health, out);
	write_handshakes(proxy, out, "rea_tls_handshakes_total", "TLS handshakes that were completed.",
	    offsetof(struct loop_tls_counts, done));
	write_handshakes(proxy, out, "rea_tls_resumed_total", "Those of them that resumed an earlier session.",
	    offsetof(struct loop_tls_counts, resumed));
	write_handshakes(proxy, out, "rea_tls_failed_total",
	    "TLS handshakes that failed; nothing was sent on these connections.", offsetof(struct loop_tls_counts, failed));
	write_number(out, "rea_requests_refused_total", REA_METRIC_COUNTER,
	    "Requests that named no service or asked for a tunnel that is not allowed.", refused);
	write_number(out, "rea_retries_in_flight", REA_METRIC_GAUGE, "Attempts after the first that are under way.",
	    rea_retry_limit_in_use(&proxy->limit));
	write_number(out, "rea_parked_calls", REA_METRIC_GAUGE,
	    "Calls that wait until a budget may let them be retried.", rea_retry_limit_in_use(&proxy->parking));
	write_number(out, "rea_events_written_total", REA_METRIC_COUNTER, "Events that calls have recorded.", written);
	write_number(out, "rea_events_dropped_total", REA_METRIC_COUNTER, "Events lost because a queue was full.", dropped);
	write_number(out, "rea_events_sampled_total", REA_METRIC_COUNTER,
	    "First-try successes that were recorded as events.", first_try);
}
