/* What is told of a process that serves: the events of its threads, and what became of its configuration. */
#include "base/container.h"
#include "serve/internal.h"

#include <stdio.h>
#include <string.h>

/* Keys and methods that an event names of a new configuration; the others are counted. */
#define CHANGES_TOLD_MAX 20

void serve_print_error(const struct rea_error_info *error)
{
	fputs("rea: ", stderr);
	if (error->file[0] != '\0')
		fprintf(stderr, "%s:", error->file);
	if (error->line > 0)
		fprintf(stderr, "%u:%u:", error->line, error->column);
	if (error->file[0] != '\0' || error->line > 0)
		fputc(' ', stderr);
	if (error->key[0] != '\0')
		fprintf(stderr, "%s: ", error->key);
	fprintf(stderr, "%s\n", error->message);
}

int server_no_memory(struct rea_error_info *ret_info)
{
	memset(ret_info, 0, sizeof(*ret_info));
	snprintf(ret_info->message, sizeof(ret_info->message), "out of memory");
	return REA_ERR_NOMEM;
}

/* ---- events ---- */

void server_drain_events(struct loop_post *post)
{
	struct server *server = REA_CONTAINER_OF(post, struct server, drain_events);
	struct rea_event event;

	atomic_store(&server->drain_events_due, false);
	for (uint32_t i = 0; server->proxy != NULL && i < server->threads_len + 1; i++) {
		struct rea_event_queue *queue = proxy_worker_events(proxy_worker(server->proxy, i));

		while (rea_event_queue_peek(queue, &event)) {
			sinks_keep(&server->sinks, &event);
			rea_event_queue_pop(queue);
		}
	}
	sinks_flush(&server->sinks);
}

void server_notify(void *user_data)
{
	struct server *server = user_data;

	if (!atomic_exchange(&server->drain_events_due, true))
		loop_post(&server->loop, &server->drain_events);
}

void server_keep_event(struct server *server, const char *detail)
{
	struct rea_event event = {.type = REA_EVENT_CONFIG, .detail = {detail, strlen(detail)}};

	event.time_unix_ns = loop_wall_ns(&server->loop);
	event.time_ns = event.attempt_start_ns = loop_now(&server->loop);
	sinks_keep(&server->sinks, &event);
}

void server_push_event(struct server *server, const char *detail, const struct rea_error_info *error)
{
	char text[1024];

	if (error != NULL) {
		snprintf(text, sizeof(text), "%s %s:%u:%u: %s%s%s", detail, error->file, error->line, error->column,
		    error->key, error->key[0] != '\0' ? ": " : "", error->message);
		detail = text;
	}
	server_keep_event(server, detail);
	sinks_flush(&server->sinks);
}

void server_notice(const char *text, void *user_data)
{
	struct server *server = user_data;

	fprintf(stderr, "rea: %s\n", text);
	server_push_event(server, text, NULL);
}

/* ---- a new configuration ---- */

/* Texts that may be NULL. */
static bool differ(const char *a, const char *b)
{
	return (a == NULL) != (b == NULL) || (a != NULL && strcmp(a, b) != 0);
}

/* Sources are asked as they stood at the start. */
static bool sources_differ(const struct rea_config_settings *a, const struct rea_config_settings *b)
{
	bool other =
	    a->sources.policy_len != b->sources.policy_len || differ(a->sources.snapshot_dir, b->sources.snapshot_dir);

	for (size_t i = 0; !other && i < a->sources.policy_len; i++) {
		const struct rea_config_source *now = &a->sources.policy[i], *then = &b->sources.policy[i];

		other = now->kind != then->kind || now->mode != then->mode || now->poll_ms != then->poll_ms ||
			now->servers_len != then->servers_len || differ(now->name, then->name) ||
			differ(now->group, then->group) || differ(now->namespace_id, then->namespace_id) ||
			differ(now->context_path, then->context_path) || differ(now->username, then->username) ||
			differ(now->password, then->password) || differ(now->ca_file, then->ca_file) ||
			differ(now->failover_file, then->failover_file);
		for (size_t j = 0; !other && j < now->servers_len; j++)
			other = strcmp(now->servers[j], then->servers[j]) != 0;
	}
	return other;
}

void server_tell_restart_keys(const struct server *server, const struct rea_config *config)
{
	const struct rea_config_settings *now = rea_config_settings(server->config), *next = rea_config_settings(config);
	bool listen = now->listen_len != next->listen_len;

	for (size_t i = 0; !listen && i < now->listen_len; i++)
		listen = strcmp(now->listen[i].address, next->listen[i].address) != 0 ||
			 (now->listen[i].tls == NULL) != (next->listen[i].tls == NULL);
	if (listen || strcmp(now->admin, next->admin) != 0 || now->threads != next->threads)
		fprintf(stderr, "rea: listen, admin and threads take effect at the next start\n");
	if (now->events.ring != next->events.ring || now->events.queue_bytes != next->events.queue_bytes ||
	    differ(now->events.file, next->events.file) || differ(now->events.sqlite, next->events.sqlite) ||
	    now->events.sqlite_retention_hours != next->events.sqlite_retention_hours ||
	    now->events.sqlite_max_mb != next->events.sqlite_max_mb)
		fprintf(stderr, "rea: events takes effect at the next start, but for sample-success\n");
	if (sources_differ(now, next))
		fprintf(stderr, "rea: sources takes effect at the next start\n");
	if (differ(now->tasks.file, next->tasks.file) || now->limits.task_bytes != next->limits.task_bytes ||
	    now->limits.admin_connections != next->limits.admin_connections)
		fprintf(stderr,
		    "rea: tasks.file, limits.task-bytes and limits.admin-connections take effect at the next start\n");
}

void server_tell_loaded(struct server *server, const struct rea_config *config, const char *of)
{
	char detail[512];

	snprintf(detail, sizeof(detail), "loaded version %s%s", rea_config_version(config), of);
	server_push_event(server, detail, NULL);
	fprintf(stderr, "rea: %s\n", detail);
}

/* As many changes as fit stand in one event, and the next ones in another. */
struct changes {
	struct server *server;
	enum rea_config_change kind;
	char text[REA_EVENT_TEXT_MAX + 1];
	size_t length; /* 0 = none as yet */
};

static void keep_changes(struct changes *changes)
{
	if (changes->length > 0)
		server_keep_event(changes->server, changes->text);
	changes->length = 0;
}

static void on_change(enum rea_config_change kind, const char *text, void *user_data)
{
	struct changes *changes = user_data;
	size_t length = strlen(text);

	if (kind != changes->kind || changes->length + 2 + length > REA_EVENT_TEXT_MAX)
		keep_changes(changes);
	changes->kind = kind;
	if (changes->length > 0)
		changes->length += (size_t)snprintf(
		    changes->text + changes->length, sizeof(changes->text) - changes->length, ", %s", text);
	else
		changes->length = (size_t)snprintf(changes->text, sizeof(changes->text), "changed %s: %s",
		    kind == REA_CHANGED_KEY ? "keys" : "methods", text);
	/* One that fits nowhere was cut. */
	if (changes->length >= sizeof(changes->text))
		changes->length = sizeof(changes->text) - 1;
}

void server_tell_changes(struct server *server, const struct rea_config *before, const struct rea_config *after)
{
	struct changes changes = {.server = server};
	size_t counts[REA_CONFIG_CHANGES];

	rea_config_compare(before, after, CHANGES_TOLD_MAX, on_change, &changes, counts);
	keep_changes(&changes);
	if (counts[REA_CHANGED_KEY] > CHANGES_TOLD_MAX || counts[REA_CHANGED_METHOD] > CHANGES_TOLD_MAX) {
		snprintf(changes.text, sizeof(changes.text), "changed in all: %zu keys, %zu methods",
		    counts[REA_CHANGED_KEY], counts[REA_CHANGED_METHOD]);
		server_keep_event(server, changes.text);
	}
	sinks_flush(&server->sinks);
}

void server_tell_unverified(struct server *server, const struct rea_config *config)
{
	for (size_t i = 0; i < rea_config_services_count(config); i++) {
		const struct rea_config_service *service = rea_config_service(config, i);
		char text[320];

		if (service->tls == NULL || service->tls->verify)
			continue;
		snprintf(text, sizeof(text),
		    "service %s: the certificates of its instances are not verified (`verify: false`, line %u)",
		    service->name, service->tls->line);
		server_notice(text, server);
	}
}
