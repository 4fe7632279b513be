#include "loop/transfer.h"

#include "base/container.h"

#include <stdlib.h>

/* A socket that libcurl waits for. */
struct watched {
	uv_poll_t poll;
	struct transfers *transfers;
	curl_socket_t fd;
};

static void take_messages(struct transfers *transfers)
{
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(transfers->multi, &left)) != NULL) {
		CURLcode code = message->data.result;
		struct transfer *transfer;
		char *private;

		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
		transfer = (struct transfer *)(void *)private;
		transfer_end(transfer);
		transfer->done(transfer, code);
	}
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct watched *watched = poll->data;
	struct transfers *transfers = watched->transfers;
	int what = (events & UV_READABLE ? CURL_CSELECT_IN : 0) | (events & UV_WRITABLE ? CURL_CSELECT_OUT : 0) |
		   (status < 0 ? CURL_CSELECT_ERR : 0);
	int running;

	curl_multi_socket_action(transfers->multi, watched->fd, what, &running);
	take_messages(transfers);
	loop_flush(transfers->loop);
}

static void on_watched_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static struct watched *watched_new(struct transfers *transfers, curl_socket_t fd)
{
	struct watched *watched = calloc(1, sizeof(*watched));

	if (watched == NULL)
		return NULL;
	watched->transfers = transfers;
	watched->fd = fd;
	watched->poll.data = watched;
	if (uv_poll_init_socket(&transfers->loop->uv, &watched->poll, fd) == 0)
		return watched;
	free(watched);
	return NULL;
}

/* Without memory for it a socket is not watched: the owner's time limit ends the transfer. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *user_data, void *socket_data)
{
	struct transfers *transfers = user_data;
	struct watched *watched = socket_data;

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		if (watched != NULL)
			uv_close((uv_handle_t *)&watched->poll, on_watched_closed);
		return 0;
	}
	if (watched == NULL)
		watched = watched_new(transfers, fd);
	if (watched == NULL)
		return 0;
	curl_multi_assign(transfers->multi, fd, watched);
	uv_poll_start(&watched->poll,
	    (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0), on_poll);
	return 0;
}

static void on_timer(struct wheel_timer *timer, uint64_t now_ns)
{
	struct transfers *transfers = REA_CONTAINER_OF(timer, struct transfers, timer);
	int running;

	(void)now_ns;
	curl_multi_socket_action(transfers->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	take_messages(transfers);
}

static int on_timeout(CURLM *multi, long timeout_ms, void *user_data)
{
	struct transfers *transfers = user_data;

	(void)multi;
	if (timeout_ms < 0)
		loop_timer_stop(transfers->loop, &transfers->timer);
	else
		loop_timer_start(transfers->loop, &transfers->timer,
		    rea_time_add(loop_now(transfers->loop), rea_time_from_ms((uint64_t)timeout_ms)));
	return 0;
}

bool transfers_ready(struct transfers *transfers)
{
	if (transfers->multi != NULL)
		return true;
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0)
		return false;
	transfers->multi = curl_multi_init();
	if (transfers->multi == NULL) {
		curl_global_cleanup();
		return false;
	}
	transfers->timer.fire = on_timer;
	curl_multi_setopt(transfers->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl_multi_setopt(transfers->multi, CURLMOPT_SOCKETDATA, transfers);
	curl_multi_setopt(transfers->multi, CURLMOPT_TIMERFUNCTION, on_timeout);
	curl_multi_setopt(transfers->multi, CURLMOPT_TIMERDATA, transfers);
	curl_multi_setopt(transfers->multi, CURLMOPT_MAXCONNECTS, transfers->connections_kept);
	return true;
}

void transfers_fini(struct transfers *transfers)
{
	if (transfers->multi == NULL)
		return;
	curl_multi_cleanup(transfers->multi);
	curl_global_cleanup();
	loop_timer_stop(transfers->loop, &transfers->timer);
	transfers->multi = NULL;
}

bool transfer_begin(struct transfers *transfers, struct transfer *transfer)
{
	curl_easy_setopt(transfer->easy, CURLOPT_PRIVATE, transfer);
	if (curl_multi_add_handle(transfers->multi, transfer->easy) != CURLM_OK)
		return false;
	transfer->transfers = transfers;
	return true;
}

void transfer_end(struct transfer *transfer)
{
	if (transfer->transfers != NULL)
		curl_multi_remove_handle(transfer->transfers->multi, transfer->easy);
	transfer->transfers = NULL;
}
