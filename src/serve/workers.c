/* The threads that carry calls, and what they listen on. */
#include "serve/internal.h"

#include "base/container.h"

#include <stdlib.h>
#include <sys/resource.h>

/* Descriptors that are not connections: loops, listeners, files, admin. */
#define FILES_RESERVED 32
#define WORKER_STACK_BYTES ((size_t)256 * 1024)

/* ---- configuring ---- */

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

void server_configure_workers(struct server *server)
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

/* ---- listening ---- */

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
int server_listen(struct server *server, struct rea_error_info *ret_info)
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

/* ---- draining ---- */

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

void server_drain_workers(struct server *server, uint64_t drain_ns)
{
	for (uint32_t i = 0; i < server->threads_len; i++) {
		struct worker_thread *thread = &server->threads[i];

		thread->drain_ns = drain_ns;
		loop_post(proxy_worker_loop(thread->worker), &thread->drain);
	}
}

/* ---- the threads ---- */

static void on_worker_ended(struct loop_post *post)
{
	struct worker_thread *thread = REA_CONTAINER_OF(post, struct worker_thread, ended);
	struct server *server = thread->server;

	uv_thread_join(&thread->thread);
	thread->running = false;
	server->threads_running--;
	server_end_if_done(server);
}

static void run_worker(void *arg)
{
	struct worker_thread *thread = arg;

	loop_run(proxy_worker_loop(thread->worker));
	loop_post(&thread->server->loop, &thread->ended);
}

static struct tls_context *service_tls(const struct rea_config_service *service, void *user_data)
{
	const struct server *server = user_data;

	return certificates_service(server->certificates, service);
}

int server_make_proxy(struct server *server, struct rea_config *config, struct rea_error_info *ret_info)
{
	const struct rea_config_settings *settings = rea_config_settings(config);
	const struct proxy_options options = {
	    .threads = settings->threads,
	    .loop = &server->loop,
	    .health_changed = server_members_changed,
	    .events_queue_bytes = settings->events.queue_bytes,
	    .notify = server_notify,
	    .tls = service_tls,
	    .user_data = server,
	    .seed = rea_random_next(&server->loop.random),
	};

	server->proxy = proxy_new(&options);
	server->threads = calloc(settings->threads, sizeof(struct worker_thread));
	if (server->proxy == NULL || server->threads == NULL || server_install(server, config) != 0)
		return server_no_memory(ret_info);
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

int server_start_threads(struct server *server, struct rea_error_info *ret_info)
{
	const uv_thread_options_t options = {.flags = UV_THREAD_HAS_STACK_SIZE, .stack_size = WORKER_STACK_BYTES};

	for (uint32_t i = 0; i < server->threads_len; i++) {
		struct worker_thread *thread = &server->threads[i];

		if (uv_thread_create_ex(&thread->thread, &options, run_worker, thread) != 0)
			return server_no_memory(ret_info);
		thread->running = true;
		server->threads_running++;
	}
	return 0;
}

void server_free_workers(struct server *server)
{
	for (uint32_t i = 0; i < server->threads_len; i++) {
		for (size_t k = 0; k < server->threads[i].listeners_len; k++)
			tls_context_unref(server->threads[i].listeners[k].tls);
		free(server->threads[i].listeners);
	}
	free(server->threads);
}
