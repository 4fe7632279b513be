/* The life of the process: start, signals, end. */
#include "serve/internal.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* ---- end ---- */

/* All that was under way is over: the calls, the deliveries of tasks, and what registries were told. */
void server_end_if_done(struct server *server)
{
	if (server->threads_running == 0 && server->unregistered && (server->queue == NULL || server->queue_stopped))
		loop_stop(&server->loop);
}

static void on_unregistered(void *arg)
{
	struct server *server = arg;

	server->unregistered = true;
	server_end_if_done(server);
}

static void on_queue_stopped(void *arg)
{
	struct server *server = arg;

	server->queue_stopped = true;
	server_end_if_done(server);
}

static void stop(struct server *server)
{
	uint64_t drain_ns = rea_time_from_ms(rea_config_settings(server->config)->timeouts.drain_ms);

	if (server->stopping) {
		/* Asked twice: at once. */
		server_drain_events(&server->drain_events);
		_exit(1);
	}
	server->stopping = true;
	registrar_stop(server->registrar, on_unregistered, server);
	follow_end(server->sinks.follow);
	if (server->queue != NULL)
		queue_stop(server->queue, rea_time_add(loop_now(&server->loop), drain_ns), on_queue_stopped, server);
	server_drain_workers(server, drain_ns);
}

/* ---- signals ---- */

static void on_signal(uv_signal_t *handle, int number)
{
	struct server *server = handle->data;
	struct rea_error_info error;

	if (number == SIGHUP) {
		if (sinks_reopen(&server->sinks, &error) != 0)
			serve_print_error(&error);
		watch_look(server->watch, true);
		if (server->sources != NULL)
			sources_look(server->sources);
		members_look(server->members);
	} else {
		stop(server);
	}
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
	const struct certificates_events events = {server_certificates_changed, server_notice, server};
	int error = sinks_open(&server->sinks, &server->loop, rea_config_settings(config), ret_info);

	server->certificates = certificates_new(&server->loop, &events);
	if (error == 0 && server->certificates == NULL)
		error = server_no_memory(ret_info);
	if (error == 0 && server_prepare_certificates(server, config, ret_info) < 0)
		error = REA_ERR_INVALID;

	if (error == 0 && rea_config_settings(config)->sources.policy_len > 0)
		error = server_ask_sources(server, config, ret_info);
	if (error == 0)
		error = server_find_members(server, server->next != NULL ? server->next : config, ret_info);
	if (error == 0)
		error = server_make_proxy(server, server->next != NULL ? server->next : config, ret_info);
	if (error == 0 && rea_config_settings(config)->tasks.file != NULL)
		error = server_start_tasks(server, config, ret_info);
	if (error == 0)
		error = server_listen(server, ret_info);
	if (error == 0)
		error = server_start_registrar(server, ret_info);
	if (error == 0)
		error = server_start_admin(server, ret_info);
	if (error != 0)
		return error;
	watch_signals(server);
	if (watch_start(&server->loop, server->path, rea_config_version(config), server_document, server, &server->watch) != 0)
		return server_no_memory(ret_info);
	server_watch_contract_files(server);
	server_tell_unverified(server, server->config);
	return server_start_threads(server, ret_info);
}

static void finish(struct server *server)
{
	server_drain_events(&server->drain_events);
	watch_stop(server->watch);
	server_forget_named_files(server);
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
	server_free_workers(server);
	sinks_close(&server->sinks);
	rea_config_unref(server->config);
	rea_config_unref(server->started);
	rea_config_unref(server->base);
	rea_config_unref(server->asked);
	rea_config_unref(server->next);
	rea_buffer_fini(&server->policy);
	uv_mutex_destroy(&server->lock);
}

int serve_run(const char *path, struct rea_config *config)
{
	struct server server = {.path = path, .drain_events = {.fn = server_drain_events}};
	struct rea_error_info error = {0};

	if (server_check_tasks(path, config, &error) != 0) {
		serve_print_error(&error);
		return 2;
	}
	raise_file_limit();
	if (loop_init(&server.loop, random_seed()) != 0 || uv_mutex_init(&server.lock) != 0) {
		fprintf(stderr, "rea: cannot make an event loop\n");
		return 1;
	}
	if (start(&server, config, &error) != 0) {
		serve_print_error(&error);
		/* Half a start is not taken apart: the process ends here, and the kernel does it better. */
		exit(1);
	}
	announce(&server);
	loop_run(&server.loop);
	finish(&server);
	return 0;
}

/* ---- only checked ---- */

static void print_notice(const char *text, void *user_data)
{
	(void)user_data;
	fprintf(stderr, "rea: %s\n", text);
}

int serve_check(const char *path, const struct rea_config *config)
{
	const struct certificates_events events = {NULL, print_notice, NULL};
	struct certificates *certificates;
	struct rea_error_info why;
	int result = server_check_tasks(path, config, &why);

	if (result == 0) {
		certificates = certificates_new(NULL, &events);
		result = certificates == NULL ? server_no_memory(&why)
					      : certificates_prepare(certificates, config, time(NULL), &why);
		certificates_free(certificates);
	}
	if (result < 0)
		serve_print_error(&why);
	return result < 0 ? 2 : 0;
}
