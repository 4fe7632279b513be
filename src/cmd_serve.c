/*
 * rea serve: introduces the rooms to each other. The main thread keeps configuration, admin API, events and signals; workers carry the calls.
 */
#include "cmd.h"

#include "admin/admin.h"
#include "base/buffer.h"
#include "base/container.h"
#include "certificates.h"
#include "discovery/members.h"
#include "discovery/registrar.h"
#include "discovery/sources.h"
#include "discovery/watch.h"
#include "found.h"
#include "proxy/proxy.h"
#include "queue/api.h"
#include "sinks.h"

#include <rea/config.h>
#include <rea/event.h>

#include <getopt.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Descriptors that are not connections: loops, listeners, files, admin. */
#define FILES_RESERVED 32
/* Keys and methods that an event names of a new configuration; the others are counted. */
#define CHANGES_TOLD_MAX 20
#define WORKER_STACK_BYTES ((size_t)256 * 1024)

struct server;

struct worker_listener {
	struct worker_thread *thread;
	struct loop_http_listener *listener; /* NULL when it is gone */
	struct tls_context *tls;             /* under server->lock; NULL = none */
};

struct worker_thread {
	struct server *server;
	struct proxy_worker *worker;
	struct worker_listener *listeners;
	size_t listeners_len;
	size_t listeners_open;
	uv_thread_t thread;
	bool running;
	uint32_t connections_max; /* under server->lock */
	struct loop_post configure;
	bool configure_pending; /* under server->lock */
	uint64_t drain_ns;      /* set before drain is posted */
	struct loop_post drain;
	struct wheel_timer drain_timer;
	struct loop_post ended; /* to the main loop */
};

struct server {
	const char *path;
	struct loop loop; /* main thread */
	struct proxy *proxy;
	struct rea_config *config;
	struct rea_config *started; /* what the admin listener borrows from */
	/* With sources: the document of the file; config is that under what the sources tell. */
	struct rea_config *base;
	struct rea_config *asked; /* what sources borrows from */
	struct rea_config *next;  /* what the start will begin with */
	struct rea_buffer policy; /* what the sources told last that was good */
	char policy_name[320];
	struct sources *sources; /* NULL = none */
	struct members *members; /* the instances of the services */
	struct registrar *registrar;
	struct worker_thread *threads;
	uint32_t threads_len, threads_running;
	uv_mutex_t lock;
	struct admin *admin;
	struct admin_routes tables[2];
	struct queue *queue; /* NULL = no tasks */
	struct api *task_api;
	struct watch *watch;
	struct certificates *certificates;
	struct watch **contract_files; /* NULL where one could not be watched */
	size_t contract_files_len;
	struct watch **named_files; /* what the document names that was refused last, and the running one does not */
	size_t named_files_len;
	struct sinks sinks;
	struct loop_post drain_events;
	atomic_bool drain_events_due;
	uv_signal_t signals[4];
	size_t signals_len;
	bool ready, stopping, queue_stopped, unregistered;
	uint64_t reloads, rejects;
	int64_t loaded_unix_ns;
	struct rea_error_info last_error; /* message "" = none */
};

static int no_memory(struct rea_error_info *ret_info)
{
	memset(ret_info, 0, sizeof(*ret_info));
	snprintf(ret_info->message, sizeof(ret_info->message), "out of memory");
	return REA_ERR_NOMEM;
}

/* ---- events ---- */

static void drain_events(struct loop_post *post)
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

/* On a worker's thread: one wake-up serves all events until the main thread has seen it. */
static void on_notify(void *user_data)
{
	struct server *server = user_data;

	if (!atomic_exchange(&server->drain_events_due, true))
		loop_post(&server->loop, &server->drain_events);
}

static void keep_config_event(struct server *server, const char *detail)
{
	struct rea_event event = {.type = REA_EVENT_CONFIG, .detail = {detail, strlen(detail)}};

	event.time_unix_ns = loop_wall_ns(&server->loop);
	event.time_ns = event.attempt_start_ns = loop_now(&server->loop);
	sinks_keep(&server->sinks, &event);
}

static void push_config_event(struct server *server, const char *detail, const struct rea_error_info *error)
{
	char text[1024];

	if (error != NULL) {
		snprintf(text, sizeof(text), "%s %s:%u:%u: %s%s%s", detail, error->file, error->line, error->column,
		    error->key, error->key[0] != '\0' ? ": " : "", error->message);
		detail = text;
	}
	keep_config_event(server, detail);
	sinks_flush(&server->sinks);
}

/* ---- configuration ---- */

static void print_error(const struct rea_error_info *error)
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

static int install(struct server *server, struct rea_config *config)
{
	int error = found_install(server->proxy, config, server->members);

	if (error == 0) {
		/* It may be the same one. */
		rea_config_ref(config);
		rea_config_unref(server->config);
		server->config = config;
		certificates_settle(server->certificates, config);
		server->loaded_unix_ns = loop_wall_ns(&server->loop);
	}
	return error;
}

/* ---- workers ---- */

/* Every connection may need another one upstream. */
static uint32_t connections_max(const struct server *server)
{
	uint32_t configured = rea_config_settings(server->config)->limits.connections;
	struct rlimit files;
	rlim_t share;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY)
		return configured;
	share = files.rlim_cur > FILES_RESERVED + 2 ? (files.rlim_cur - FILES_RESERVED) / 2 / server->threads_len : 1;
	if (share < 1)
		share = 1;
	return share < configured ? (uint32_t)share : configured;
}

static void http_options(struct worker_listener *listener, struct loop_http_options *ret_options)
{
	struct worker_thread *thread = listener->thread;

	proxy_worker_http(thread->worker, ret_options);
	uv_mutex_lock(&thread->server->lock);
	ret_options->connections_max = thread->connections_max;
	/* A reference of its own: the next reload must not take it from under the listener. */
	ret_options->tls = tls_context_ref(listener->tls);
	uv_mutex_unlock(&thread->server->lock);
}

static void on_configure(struct loop_post *post)
{
	struct worker_thread *thread = REA_CONTAINER_OF(post, struct worker_thread, configure);
	struct loop_http_options options;

	uv_mutex_lock(&thread->server->lock);
	thread->configure_pending = false;
	uv_mutex_unlock(&thread->server->lock);
	for (size_t i = 0; i < thread->listeners_len; i++)
		if (thread->listeners[i].listener != NULL) {
			http_options(&thread->listeners[i], &options);
			loop_http_listener_configure(thread->listeners[i].listener, &options);
			tls_context_unref(options.tls);
		}
}

/* What listens was settled at the start; with which certificates, by the running configuration. */
static void listen_with(struct worker_thread *thread)
{
	const struct rea_config_settings *settings = rea_config_settings(thread->server->config);

	for (size_t i = 0; i < thread->listeners_len && i < settings->listen_len; i++) {
		struct tls_context *before = thread->listeners[i].tls,
				   *now = certificates_listener(thread->server->certificates, settings->listen[i].tls);

		/* TLS or none is a matter of the start. */
		if ((before == NULL) != (now == NULL))
			continue;
		thread->listeners[i].tls = tls_context_ref(now);
		tls_context_unref(before);
	}
}

/* After proxy_install: posts are run in order, so the new snapshot is already in place when limits and timeouts follow. */
static void configure_workers(struct server *server)
{
	for (uint32_t i = 0; i < server->threads_len; i++) {
		struct worker_thread *thread = &server->threads[i];

		bool post;

		uv_mutex_lock(&server->lock);
		thread->connections_max = connections_max(server);
		listen_with(thread);
		post = !thread->configure_pending;
		thread->configure_pending = true;
		uv_mutex_unlock(&server->lock);
		if (post)
			loop_post(proxy_worker_loop(thread->worker), &thread->configure);
	}
}

static void end_worker(struct worker_thread *thread)
{
	struct loop *loop = proxy_worker_loop(thread->worker);

	loop_timer_stop(loop, &thread->drain_timer);
	proxy_worker_stop(thread->worker);
	loop_stop(loop);
}

static void on_listener_done(void *arg)
{
	struct worker_listener *listener = arg;

	listener->listener = NULL;
	if (--listener->thread->listeners_open == 0)
		end_worker(listener->thread);
}

static void on_drain_timeout(struct wheel_timer *timer, uint64_t now_ns)
{
	struct worker_thread *thread = REA_CONTAINER_OF(timer, struct worker_thread, drain_timer);

	(void)now_ns;
	for (size_t i = 0; i < thread->listeners_len; i++)
		if (thread->listeners[i].listener != NULL)
			loop_http_listener_kill(thread->listeners[i].listener);
}

static void on_drain(struct loop_post *post)
{
	struct worker_thread *thread = REA_CONTAINER_OF(post, struct worker_thread, drain);
	struct loop *loop = proxy_worker_loop(thread->worker);

	thread->drain_timer.fire = on_drain_timeout;
	loop_timer_start(loop, &thread->drain_timer, rea_time_add(loop_now(loop), thread->drain_ns));
	for (size_t i = 0; i < thread->listeners_len; i++)
		loop_http_listener_drain(thread->listeners[i].listener, on_listener_done, &thread->listeners[i]);
}

/* All that was under way is over: the calls, the deliveries of tasks, and what registries were told. */
static void end_if_done(struct server *server)
{
	if (server->threads_running == 0 && server->unregistered && (server->queue == NULL || server->queue_stopped))
		loop_stop(&server->loop);
}

static void on_worker_ended(struct loop_post *post)
{
	struct worker_thread *thread = REA_CONTAINER_OF(post, struct worker_thread, ended);
	struct server *server = thread->server;

	uv_thread_join(&thread->thread);
	thread->running = false;
	server->threads_running--;
	end_if_done(server);
}

static void run_worker(void *arg)
{
	struct worker_thread *thread = arg;

	loop_run(proxy_worker_loop(thread->worker));
	loop_post(&thread->server->loop, &thread->ended);
}

static int listen_worker(
    struct worker_thread *thread, const char *const *addresses, size_t count, struct rea_error_info *ret_info)
{
	const struct rea_config_settings *settings = rea_config_settings(thread->server->config);
	struct loop_http_options options;

	thread->connections_max = connections_max(thread->server);
	thread->listeners = calloc(count, sizeof(struct worker_listener));
	if (thread->listeners == NULL)
		return REA_ERR_NOMEM;
	for (size_t i = 0; i < count; i++) {
		struct worker_listener *listener = &thread->listeners[i];
		int error;

		listener->thread = thread;
		listener->tls =
		    tls_context_ref(certificates_listener(thread->server->certificates, settings->listen[i].tls));
		http_options(listener, &options);
		error = loop_http_listen(proxy_worker_loop(thread->worker), addresses[i],
		    thread->server->threads_len > 1, &options, &listener->listener, ret_info);
		tls_context_unref(options.tls);
		if (error != 0)
			return error;
		thread->listeners_len = thread->listeners_open = i + 1;
	}
	return 0;
}

/* The first worker's listeners settle ports that were left to the kernel; the others share them. */
static int listen_workers(struct server *server, struct rea_error_info *ret_info)
{
	const struct rea_config_settings *settings = rea_config_settings(server->config);
	const char **addresses = calloc(settings->listen_len, sizeof(*addresses));
	int error = addresses == NULL ? REA_ERR_NOMEM : 0;

	for (size_t i = 0; error == 0 && i < settings->listen_len; i++)
		addresses[i] = settings->listen[i].address;
	for (uint32_t i = 0; error == 0 && i < server->threads_len; i++) {
		error = listen_worker(&server->threads[i], addresses, settings->listen_len, ret_info);
		for (size_t k = 0; error == 0 && i == 0 && k < settings->listen_len; k++)
			addresses[k] = loop_http_listener_address(server->threads[0].listeners[k].listener);
	}
	free(addresses);
	return error;
}

/* ---- reload ---- */

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

/* What only a start can change. */
static void tell_restart_keys(const struct server *server, const struct rea_config *config)
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

static void reject(struct server *server, const struct rea_error_info *error)
{
	server->rejects++;
	server->last_error = *error;
	print_error(error);
	push_config_event(server, "rejected, the running one stays:", error);
}

/* of: what else to say of it; "" = nothing. */
static void tell_loaded(struct server *server, const struct rea_config *config, const char *of)
{
	char detail[512];

	snprintf(detail, sizeof(detail), "loaded version %s%s", rea_config_version(config), of);
	push_config_event(server, detail, NULL);
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
		keep_config_event(changes->server, changes->text);
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

static void tell_changes(struct server *server, const struct rea_config *before, const struct rea_config *after)
{
	struct changes changes = {.server = server};
	size_t counts[REA_CONFIG_CHANGES];

	rea_config_compare(before, after, CHANGES_TOLD_MAX, on_change, &changes, counts);
	keep_changes(&changes);
	if (counts[REA_CHANGED_KEY] > CHANGES_TOLD_MAX || counts[REA_CHANGED_METHOD] > CHANGES_TOLD_MAX) {
		snprintf(changes.text, sizeof(changes.text), "changed in all: %zu keys, %zu methods",
		    counts[REA_CHANGED_KEY], counts[REA_CHANGED_METHOD]);
		keep_config_event(server, changes.text);
	}
	sinks_flush(&server->sinks);
}

static void on_contract_file(const char *text, size_t length, const struct rea_error_info *error, void *user_data)
{
	struct server *server = user_data;

	(void)text;
	(void)length;
	(void)error;
	watch_look(server->watch, true);
}

/* The contract files of the running configuration: when one changes, all of it is read again. A file that cannot be watched is found at the
 * next SIGHUP. */
static void watch_contract_files(struct server *server)
{
	size_t count;
	const struct rea_config_contract_file *files = rea_config_contract_files(server->config, &count);

	for (size_t i = 0; i < server->contract_files_len; i++)
		watch_stop(server->contract_files[i]);
	free(server->contract_files);
	server->contract_files = calloc(count > 0 ? count : 1, sizeof(struct watch *));
	server->contract_files_len = server->contract_files != NULL ? count : 0;
	for (size_t i = 0; i < server->contract_files_len; i++)
		watch_start(&server->loop, files[i].path, files[i].version, on_contract_file, server,
		    &server->contract_files[i]);
}

/* What is not there stays so until it is. */
static void on_named_file(const char *text, size_t length, const struct rea_error_info *error, void *user_data)
{
	if (text != NULL)
		on_contract_file(text, length, error, user_data);
}

static void forget_named_files(struct server *server)
{
	for (size_t i = 0; i < server->named_files_len; i++)
		watch_stop(server->named_files[i]);
	free(server->named_files);
	server->named_files = NULL;
	server->named_files_len = 0;
}

static void watch_named_file(const struct rea_config_contract_file *file, void *user_data)
{
	struct server *server = user_data;
	size_t count;
	const struct rea_config_contract_file *files = rea_config_contract_files(server->config, &count);
	struct watch **grown;

	for (size_t i = 0; i < count; i++)
		if (strcmp(files[i].path, file->path) == 0)
			return;
	grown = realloc(server->named_files, (server->named_files_len + 1) * sizeof(*grown));
	if (grown == NULL)
		return;
	server->named_files = grown;
	if (watch_start(&server->loop, file->path, file->version, on_named_file, server, &grown[server->named_files_len]) == 0)
		server->named_files_len++;
}

/* A document that was refused: the fault may be in a file that it names, and be mended there. */
static void watch_named_files(struct server *server, const char *text, size_t length)
{
	forget_named_files(server);
	rea_config_named_files(server->path, text, length, NULL, watch_named_file, server);
}

static void on_certificates_notice(const char *text, void *user_data)
{
	struct server *server = user_data;

	fprintf(stderr, "rea: %s\n", text);
	push_config_event(server, text, NULL);
}

/* So that nobody need find it out. */
static void tell_unverified(struct server *server, const struct rea_config *config)
{
	for (size_t i = 0; i < rea_config_services_count(config); i++) {
		const struct rea_config_service *service = rea_config_service(config, i);
		char text[320];

		if (service->tls == NULL || service->tls->verify)
			continue;
		snprintf(text, sizeof(text),
		    "service %s: the certificates of its instances are not verified (`verify: false`, line %u)",
		    service->name, service->tls->line);
		on_certificates_notice(text, server);
	}
}

static void take_up(struct server *server, struct rea_config *config, const char *of)
{
	bool same = strcmp(rea_config_version(config), rea_config_version(server->config)) == 0;
	struct rea_config *before = rea_config_ref(server->config);

	tell_restart_keys(server, config);
	if (members_configure(server->members, config) != 0 || install(server, config) != 0 ||
	    registrar_configure(server->registrar, config) != 0) {
		fprintf(stderr, "rea: out of memory: the running configuration stays\n");
		rea_config_unref(before);
		return;
	}
	memset(&server->last_error, 0, sizeof(server->last_error));
	forget_named_files(server);
	configure_workers(server);
	if (server->queue != NULL)
		queue_configure(server->queue, config);
	/* Asked for again by SIGHUP: names were resolved anew, and that is all. */
	if (!same) {
		watch_contract_files(server);
		server->reloads++;
		tell_loaded(server, config, of);
		tell_changes(server, before, config);
		tell_unverified(server, config);
	}
	rea_config_unref(before);
}

/* What only those who deliver tasks can judge. */
static int check_tasks(const char *path, const struct rea_config *config, struct rea_error_info *ret_info)
{
	int error;

	memset(ret_info, 0, sizeof(*ret_info));
	error = queue_check(config, ret_info);
	if (error != 0 && ret_info->file[0] == '\0')
		snprintf(ret_info->file, sizeof(ret_info->file), "%s", path);
	return error;
}

/* The document of the file, under the policy that holds. */
static void take_up_base(struct server *server, struct rea_config *base)
{
	struct rea_config *config;
	struct rea_error_info why;

	if (server->sources == NULL) {
		take_up(server, base, "");
		return;
	}
	if (rea_config_with_policy(base, server->policy_name, rea_buffer_data(&server->policy),
		rea_buffer_length(&server->policy), NULL, &config, &why) != 0) {
		reject(server, &why);
		return;
	}
	rea_config_unref(server->base);
	server->base = rea_config_ref(base);
	take_up(server, config, "");
	rea_config_unref(config);
	sources_again(server->sources);
}

/* ---- certificates ---- */

static int prepare_certificates(struct server *server, const struct rea_config *config, struct rea_error_info *ret_info)
{
	return certificates_prepare(
	    server->certificates, config, loop_wall_ns(&server->loop) / (int64_t)REA_NS_PER_S, ret_info);
}

/* Connections that are made from now on have the new ones; what is open stays as it is. */
static void on_certificates_changed(void *user_data)
{
	struct server *server = user_data;
	struct rea_error_info why;
	int news = server->stopping ? 0 : prepare_certificates(server, server->config, &why);

	if (news < 0) {
		reject(server, &why);
	} else if (news > 0 && install(server, server->config) == 0) {
		configure_workers(server);
		fprintf(stderr, "rea: certificates read again\n");
		push_config_event(server, "certificates read again", NULL);
	}
}

static void on_watch(const char *text, size_t length, const struct rea_error_info *error, void *user_data)
{
	struct server *server = user_data;
	struct rea_config *config;
	struct rea_error_info why;

	if (server->stopping)
		return;
	if (text == NULL) {
		reject(server, error);
	} else if (rea_config_parse(server->path, text, length, NULL, &config, &why) != 0) {
		reject(server, &why);
		watch_named_files(server, text, length);
	} else if (check_tasks(server->path, config, &why) != 0 || prepare_certificates(server, config, &why) < 0) {
		reject(server, &why);
		rea_config_unref(config);
	} else {
		take_up_base(server, config);
		rea_config_unref(config);
	}
}

/* ---- sources ---- */

static bool on_document(const struct sources_document *document, void *user_data)
{
	struct server *server = user_data;
	struct rea_buffer policy = {.alloc = NULL};
	struct rea_config *config;
	struct rea_error_info why;
	char of[480];

	if (rea_config_with_policy(server->base, document->name, document->text, document->length, NULL, &config, &why) != 0) {
		reject(server, &why);
		return false;
	}
	if (rea_buffer_append(&policy, document->text, document->length) != 0) {
		fprintf(stderr, "rea: out of memory: the running configuration stays\n");
		rea_config_unref(config);
		return false;
	}
	rea_buffer_fini(&server->policy);
	server->policy = policy;
	snprintf(server->policy_name, sizeof(server->policy_name), "%s", document->name);
	if (document->name[0] != '\0')
		snprintf(of, sizeof(of), ": policy of %s from %s", document->name, document->from);
	else
		snprintf(of, sizeof(of), ": retries are off, %s", document->from);
	if (server->config != NULL) {
		take_up(server, config, of);
		rea_config_unref(config);
		return true;
	}
	rea_config_unref(server->next);
	server->next = config;
	tell_loaded(server, config, of);
	return true;
}

static void on_source_notice(const char *text, void *user_data)
{
	struct server *server = user_data;

	fprintf(stderr, "rea: %s\n", text);
	push_config_event(server, text, NULL);
}

static void on_settled(void *user_data)
{
	struct server *server = user_data;

	loop_stop(&server->loop);
}

/* ---- instances ---- */

static void on_members_changed(void *user_data)
{
	struct server *server = user_data;

	if (server->proxy != NULL && found_install(server->proxy, server->config, server->members) != 0)
		fprintf(stderr, "rea: out of memory: instances stay as they were\n");
}

/* Once calls can come. */
static int start_registrar(struct server *server, struct rea_error_info *ret_info)
{
	const struct registrar_events events = {on_source_notice, server};

	server->registrar = registrar_new(&server->loop, &events);
	if (server->registrar == NULL || registrar_configure(server->registrar, server->config) != 0)
		return no_memory(ret_info);
	return 0;
}

/* Wait until the services have instances, or have none for a reason. */
static int find_members(struct server *server, struct rea_config *config, struct rea_error_info *ret_info)
{
	const struct members_events events = {on_members_changed, on_source_notice, on_settled, server};

	server->members = members_new(&server->loop, NULL, &events);
	if (server->members == NULL || members_configure(server->members, config) != 0)
		return no_memory(ret_info);
	loop_run(&server->loop);
	return 0;
}

/* Ask them, and wait until it is known what holds: nobody is served under a policy that is not. */
static int ask_sources(struct server *server, struct rea_config *config, struct rea_error_info *ret_info)
{
	const struct sources_events events = {on_document, on_source_notice, on_settled, server};

	if (rea_config_policy_line(config) > 0)
		fprintf(stderr, "rea: rpc.feign.retry, line %u: has no effect, as sources.policy tells the policy\n",
		    rea_config_policy_line(config));
	server->base = rea_config_ref(config);
	server->asked = rea_config_ref(config);
	server->sources = sources_start(&server->loop, rea_config_settings(config), &events);
	if (server->sources == NULL)
		return no_memory(ret_info);
	loop_run(&server->loop);
	return server->next != NULL ? 0 : no_memory(ret_info);
}

/* ---- end ---- */

static void on_unregistered(void *arg)
{
	struct server *server = arg;

	server->unregistered = true;
	end_if_done(server);
}

static void on_queue_stopped(void *arg)
{
	struct server *server = arg;

	server->queue_stopped = true;
	end_if_done(server);
}

static void stop(struct server *server)
{
	uint64_t drain_ns = rea_time_from_ms(rea_config_settings(server->config)->timeouts.drain_ms);

	if (server->stopping) {
		/* Asked twice: at once. */
		drain_events(&server->drain_events);
		_exit(1);
	}
	server->stopping = true;
	registrar_stop(server->registrar, on_unregistered, server);
	follow_end(server->sinks.follow);
	if (server->queue != NULL)
		queue_stop(server->queue, rea_time_add(loop_now(&server->loop), drain_ns), on_queue_stopped, server);
	for (uint32_t i = 0; i < server->threads_len; i++) {
		struct worker_thread *thread = &server->threads[i];

		thread->drain_ns = drain_ns;
		thread->drain.fn = on_drain;
		loop_post(proxy_worker_loop(thread->worker), &thread->drain);
	}
}

static void on_signal(uv_signal_t *handle, int number)
{
	struct server *server = handle->data;
	struct rea_error_info error;

	if (number == SIGHUP) {
		if (sinks_reopen(&server->sinks, &error) != 0)
			print_error(&error);
		watch_look(server->watch, true);
		if (server->sources != NULL)
			sources_look(server->sources);
		members_look(server->members);
	} else {
		stop(server);
	}
}

/* ---- what the admin API shows ---- */

static enum admin_readiness readiness(void *user_data)
{
	const struct server *server = user_data;

	if (server->stopping)
		return ADMIN_DRAINING;
	return server->ready ? ADMIN_READY : ADMIN_STARTING;
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

/* ---- start ---- */

static uint64_t random_seed(void)
{
	uint64_t seed;

	return getrandom(&seed, sizeof(seed), 0) == sizeof(seed) ? seed : uv_hrtime();
}

static void raise_file_limit(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
}

static struct tls_context *service_tls(const struct rea_config_service *service, void *user_data)
{
	const struct server *server = user_data;

	return certificates_service(server->certificates, service);
}

static int make_proxy(struct server *server, struct rea_config *config, struct rea_error_info *ret_info)
{
	const struct rea_config_settings *settings = rea_config_settings(config);
	const struct proxy_options options = {
	    .threads = settings->threads,
	    .loop = &server->loop,
	    .health_changed = on_members_changed,
	    .events_queue_bytes = settings->events.queue_bytes,
	    .notify = on_notify,
	    .tls = service_tls,
	    .user_data = server,
	    .seed = rea_random_next(&server->loop.random),
	};

	server->proxy = proxy_new(&options);
	server->threads = calloc(settings->threads, sizeof(struct worker_thread));
	if (server->proxy == NULL || server->threads == NULL || install(server, config) != 0)
		return no_memory(ret_info);
	server->threads_len = settings->threads;
	for (uint32_t i = 0; i < server->threads_len; i++) {
		struct worker_thread *thread = &server->threads[i];

		thread->server = server;
		thread->worker = proxy_worker(server->proxy, i);
		thread->configure.fn = on_configure;
		thread->drain.fn = on_drain;
		thread->ended.fn = on_worker_ended;
		proxy_worker_start(thread->worker);
	}
	proxy_worker_start(proxy_worker(server->proxy, server->threads_len));
	return 0;
}

/* Of tasks: decided here, on the loop of the sinks. */
static void on_task_event(const struct rea_event *event, void *user_data)
{
	struct server *server = user_data;

	sinks_keep(&server->sinks, event);
	on_notify(server);
}

static int start_tasks(struct server *server, struct rea_config *config, struct rea_error_info *ret_info)
{
	const struct queue_options options = {.loop = &server->loop,
	    .worker = proxy_worker(server->proxy, server->threads_len),
	    .config = config,
	    .event = on_task_event,
	    .user_data = server};
	int error = queue_new(&options, &server->queue, ret_info);

	if (error != 0)
		return error == REA_ERR_NOMEM ? no_memory(ret_info) : error;
	server->task_api = api_new(server->queue);
	return server->task_api != NULL ? 0 : no_memory(ret_info);
}

static int tell_tasks(struct rea_text biz_id, struct timeline *timeline, void *user_data)
{
	struct server *server = user_data;

	return api_timeline(server->task_api, biz_id, timeline);
}

static int start_admin(struct server *server, struct rea_error_info *ret_info)
{
	const struct rea_config_settings *settings = rea_config_settings(server->config);
	struct admin_sources sources = {
	    .ring = server->sinks.ring,
	    .history = server->sinks.history,
	    .readiness = readiness,
	    .metrics = metrics,
	    .config = show_config,
	    .service = show_service,
	    .instance = show_instance,
	    .user_data = server,
	    .tasks = server->task_api != NULL ? tell_tasks : NULL,
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

static void watch_signals(struct server *server)
{
	static const int numbers[] = {SIGHUP, SIGINT, SIGTERM};

	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		uv_signal_t *handle = &server->signals[server->signals_len++];

		uv_signal_init(&server->loop.uv, handle);
		handle->data = server;
		uv_signal_start(handle, on_signal, numbers[i]);
	}
}

static int start_threads(struct server *server, struct rea_error_info *ret_info)
{
	const uv_thread_options_t options = {.flags = UV_THREAD_HAS_STACK_SIZE, .stack_size = WORKER_STACK_BYTES};

	for (uint32_t i = 0; i < server->threads_len; i++) {
		struct worker_thread *thread = &server->threads[i];

		if (uv_thread_create_ex(&thread->thread, &options, run_worker, thread) != 0)
			return no_memory(ret_info);
		thread->running = true;
		server->threads_running++;
	}
	return 0;
}

static void announce(struct server *server)
{
	const struct worker_thread *first = &server->threads[0];

	for (size_t i = 0; i < first->listeners_len; i++)
		printf("rea: calls on %s\n", loop_http_listener_address(first->listeners[i].listener));
	printf("rea: admin on %s\n", admin_address(server->admin));
	printf("rea: ready\n");
	fflush(stdout);
	server->ready = true;
}

static int start(struct server *server, struct rea_config *config, struct rea_error_info *ret_info)
{
	const struct certificates_events events = {on_certificates_changed, on_certificates_notice, server};
	int error = sinks_open(&server->sinks, &server->loop, rea_config_settings(config), ret_info);

	server->certificates = certificates_new(&server->loop, &events);
	if (error == 0 && server->certificates == NULL)
		error = no_memory(ret_info);
	if (error == 0 && prepare_certificates(server, config, ret_info) < 0)
		error = REA_ERR_INVALID;

	if (error == 0 && rea_config_settings(config)->sources.policy_len > 0)
		error = ask_sources(server, config, ret_info);
	if (error == 0)
		error = find_members(server, server->next != NULL ? server->next : config, ret_info);
	if (error == 0)
		error = make_proxy(server, server->next != NULL ? server->next : config, ret_info);
	if (error == 0 && rea_config_settings(config)->tasks.file != NULL)
		error = start_tasks(server, config, ret_info);
	if (error == 0)
		error = listen_workers(server, ret_info);
	if (error == 0)
		error = start_registrar(server, ret_info);
	if (error == 0)
		error = start_admin(server, ret_info);
	if (error != 0)
		return error;
	watch_signals(server);
	if (watch_start(&server->loop, server->path, rea_config_version(config), on_watch, server, &server->watch) != 0)
		return no_memory(ret_info);
	watch_contract_files(server);
	tell_unverified(server, server->config);
	return start_threads(server, ret_info);
}

static void finish(struct server *server)
{
	drain_events(&server->drain_events);
	watch_stop(server->watch);
	forget_named_files(server);
	for (size_t i = 0; i < server->contract_files_len; i++)
		watch_stop(server->contract_files[i]);
	free(server->contract_files);
	certificates_free(server->certificates);
	sources_stop(server->sources);
	members_free(server->members);
	registrar_free(server->registrar);
	admin_close(server->admin, NULL, NULL);
	queue_free(server->queue);
	if (server->proxy != NULL) {
		proxy_stop_checks(server->proxy);
		proxy_worker_stop(proxy_worker(server->proxy, server->threads_len));
	}
	for (size_t i = 0; i < server->signals_len; i++)
		uv_close((uv_handle_t *)&server->signals[i], NULL);
	loop_fini(&server->loop);
	api_free(server->task_api);
	proxy_free(server->proxy);
	for (uint32_t i = 0; i < server->threads_len; i++) {
		for (size_t k = 0; k < server->threads[i].listeners_len; k++)
			tls_context_unref(server->threads[i].listeners[k].tls);
		free(server->threads[i].listeners);
	}
	free(server->threads);
	sinks_close(&server->sinks);
	rea_config_unref(server->config);
	rea_config_unref(server->started);
	rea_config_unref(server->base);
	rea_config_unref(server->asked);
	rea_config_unref(server->next);
	rea_buffer_fini(&server->policy);
	uv_mutex_destroy(&server->lock);
}

static int serve(const char *path, struct rea_config *config)
{
	struct server server = {.path = path, .drain_events = {.fn = drain_events}};
	struct rea_error_info error = {0};

	raise_file_limit();
	if (loop_init(&server.loop, random_seed()) != 0 || uv_mutex_init(&server.lock) != 0) {
		fprintf(stderr, "rea: cannot make an event loop\n");
		return 1;
	}
	if (start(&server, config, &error) != 0) {
		print_error(&error);
		/* Half a start is not taken apart: the process ends here, and the kernel does it better. */
		exit(1);
	}
	announce(&server);
	loop_run(&server.loop);
	finish(&server);
	return 0;
}

static void print_notice(const char *text, void *user_data)
{
	(void)user_data;
	fprintf(stderr, "rea: %s\n", text);
}

/* Are its certificates, keys and authorities there, and do they belong together? Returns the exit code. */
static int check_certificates(const struct rea_config *config)
{
	const struct certificates_events events = {NULL, print_notice, NULL};
	struct certificates *certificates = certificates_new(NULL, &events);
	struct rea_error_info why = {.message = "out of memory"};
	int result = certificates == NULL ? REA_ERR_NOMEM : certificates_prepare(certificates, config, time(NULL), &why);

	if (result < 0)
		print_error(&why);
	certificates_free(certificates);
	return result < 0 ? 2 : 0;
}

static int usage(FILE *out)
{
	fprintf(out, "usage: rea serve [--check] --config FILE\n\n"
		     "  -c, --config FILE  the configuration, rea.yaml(5); watched, and read again when it changes or "
		     "on SIGHUP\n"
		     "      --check        read the configuration, say what is wrong with it, and stop\n");
	return out == stderr ? 2 : 0;
}

int cmd_serve(int argc, char **argv)
{
	static const struct option options[] = {
	    {"config", required_argument, NULL, 'c'},
	    {"check", no_argument, NULL, 'k'},
	    {"help", no_argument, NULL, 'h'},
	    {NULL, 0, NULL, 0},
	};
	struct rea_config *config;
	struct rea_error_info error;
	const char *path = NULL;
	bool check = false;
	int option, result;

	while ((option = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		if (option == 'c')
			path = optarg;
		else if (option == 'k')
			check = true;
		else
			return usage(option == 'h' ? stdout : stderr);
	}
	if (path == NULL || optind < argc)
		return usage(stderr);
	if (rea_config_load(path, NULL, &config, &error) != 0) {
		print_error(&error);
		return 2;
	}
	if (check_tasks(path, config, &error) != 0) {
		print_error(&error);
		rea_config_unref(config);
		return 2;
	}
	result = check ? check_certificates(config) : serve(path, config);
	if (check && result == 0)
		printf("rea: %s is good\n", path);
	rea_config_unref(config);
	return result;
}
