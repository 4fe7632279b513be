/* Durable tasks, as a part of the process. */
#include "serve/internal.h"

/* Of tasks: decided here, on the loop of the sinks. */
static void on_task_event(const struct rea_event *event, void *user_data)
{
	struct server *server = user_data;

	sinks_keep(&server->sinks, event);
	server_notify(server);
}

int server_start_tasks(struct server *server, struct rea_config *config, struct rea_error_info *ret_info)
{
	const struct queue_options options = {.loop = &server->loop,
	    .worker = proxy_worker(server->proxy, server->threads_len),
	    .config = config,
	    .event = on_task_event,
	    .notice = server_notice,
	    .user_data = server};
	int error = queue_new(&options, &server->queue, ret_info);

	if (error != 0)
		return error == REA_ERR_NOMEM ? server_no_memory(ret_info) : error;
	server->task_api = api_new(server->queue);
	return server->task_api != NULL ? 0 : server_no_memory(ret_info);
}

int server_tell_tasks(struct rea_text biz_id, struct timeline *timeline, void *user_data)
{
	struct server *server = user_data;

	return api_timeline(server->task_api, biz_id, timeline);
}
