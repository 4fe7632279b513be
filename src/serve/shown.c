/* What the admin API shows of the process. */
#include "admin/answer.h"
#include "serve/internal.h"

#include <string.h>

static enum admin_readiness readiness(void *user_data)
{
	const struct server *server = user_data;

	if (server->stopping)
		return ADMIN_DRAINING;
	return server->ready ? ADMIN_READY : ADMIN_STARTING;
}

static void troubles(struct answer *answer, void *user_data)
{
	struct server *server = user_data;
	char text[512];

	if (server->queue != NULL && queue_trouble(server->queue, text, sizeof(text))) {
		answer_put_text(answer, "\n");
		answer_put_text(answer, text);
	}
	for (int i = 0; sinks_trouble(&server->sinks, i, text, sizeof(text)); i++) {
		answer_put_text(answer, "\n");
		answer_put_text(answer, text);
	}
}

static void write_metric(
    struct rea_prometheus *out, const char *name, enum rea_metric_type type, const char *help, double value)
{
	rea_prometheus_family(out, name, type, help);
	rea_prometheus_sample(out, name, NULL, 0, value);
}

static void metrics(struct rea_prometheus *out, void *user_data)
{
	struct server *server = user_data;

	proxy_metrics(server->proxy, out);
	sinks_metrics(&server->sinks, out);
	members_metrics(server->members, out);
	registrar_metrics(server->registrar, out);
	certificates_metrics(server->certificates, out);
	if (server->queue != NULL)
		queue_metrics(server->queue, out);
	if (server->sources != NULL)
		sources_metrics(server->sources, out);
	write_metric(out, "rea_config_reloads_total", REA_METRIC_COUNTER, "Configurations taken up after the first.",
	    (double)server->reloads);
	write_metric(out, "rea_config_rejects_total", REA_METRIC_COUNTER,
	    "Configurations refused; the running one stayed.", (double)server->rejects);
	write_metric(out, "rea_config_loaded_timestamp_seconds", REA_METRIC_GAUGE,
	    "When the running configuration was taken up.", (double)server->loaded_unix_ns / 1e9);
}

static void show_config(struct admin_config *ret_config, void *user_data)
{
	const struct server *server = user_data;

	*ret_config = (struct admin_config){
	    .path = server->path,
	    .version = rea_config_version(server->config),
	    .loaded_unix_ns = server->loaded_unix_ns,
	    .reloads = server->reloads,
	    .rejects = server->rejects,
	    .last_error = server->last_error.message[0] != '\0' ? &server->last_error : NULL,
	};
}

static bool show_service(struct rea_slice name, struct admin_service *ret_service, void *user_data)
{
	const struct server *server = user_data;
	struct proxy_service_view view;
	struct members_view found;

	if (!proxy_look(server->proxy, name, &view) || !members_look_at(server->members, name, &found))
		return false;
	*ret_service = (struct admin_service){
	    .budget = view.budget,
	    .parked_calls = rea_retry_limit_in_use(view.parking),
	    .parked_calls_max = rea_retry_limit_max(view.parking),
	    .retries_in_flight = rea_retry_limit_in_use(view.limit),
	    .concurrent_retries_max = rea_retry_limit_max(view.limit),
	    .discovery = {.source = found.source,
		.age_ns = found.age_ns,
		.failures = found.failures,
		.troubled = found.troubled,
		.empty_held = found.held,
		.protection = found.protection},
	};
	return true;
}

static bool show_instance(struct rea_slice service, size_t index, struct admin_instance *ret_instance, void *user_data)
{
	const struct server *server = user_data;
	struct proxy_instance_view view;

	if (!proxy_look_instance(server->proxy, service, index, &view))
		return false;
	*ret_instance = (struct admin_instance){.ejected = view.ejected,
	    .ejections = view.ejections,
	    .weight = view.weight,
	    .tier = view.tier,
	    .unhealthy = view.unhealthy,
	    .usable = view.usable};
	memcpy(ret_instance->address, view.address, sizeof(view.address));
	return true;
}

int server_start_admin(struct server *server, struct rea_error_info *ret_info)
{
	const struct rea_config_settings *settings = rea_config_settings(server->config);
	struct admin_sources sources = {
	    .ring = server->sinks.ring,
	    .history = server->sinks.history,
	    .readiness = readiness,
	    .troubles = troubles,
	    .metrics = metrics,
	    .config = show_config,
	    .service = show_service,
	    .instance = show_instance,
	    .user_data = server,
	    .tasks = server->task_api != NULL ? server_tell_tasks : NULL,
	    .tables = server->tables,
	    .hosts = settings->admin_hosts,
	    .hosts_len = settings->admin_hosts_len,
	    .connections_max = settings->limits.admin_connections,
	};

	server->started = rea_config_ref(server->config);
	server->tables[sources.tables_len++] = follow_routes(server->sinks.follow);
	if (server->task_api != NULL)
		server->tables[sources.tables_len++] = api_routes(server->task_api);
	return admin_new(&server->loop, settings->admin, &sources, &server->admin, ret_info);
}
