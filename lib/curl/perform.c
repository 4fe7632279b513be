/* A call in the calling thread: the one place of this room that reads the monotonic clock and waits. */
#include "curl/internal.h"

#include <assert.h>
#include <limits.h>
#include <poll.h>
#include <time.h>

struct waiter {
	bool done;
	struct rea_curl_result result;
};

static void on_done(CURL *easy, const struct rea_curl_result *result, void *user_data)
{
	struct waiter *waiter = user_data;

	(void)easy;
	waiter->done = true;
	waiter->result = *result;
}

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * REA_NS_PER_S + (uint64_t)now.tv_nsec;
}

static bool is_readable(int fd)
{
	struct pollfd pollfd = {.fd = fd, .events = POLLIN};

	return fd >= 0 && poll(&pollfd, 1, 0) > 0;
}

/* Let libcurl work, and take up what has ended. False: it cannot go on. */
static bool work(struct rea_curl *curl)
{
	int running, left;
	CURLMsg *message;

	if (curl_multi_perform(curl->multi, &running) != CURLM_OK)
		return false;
	while ((message = curl_multi_info_read(curl->multi, &left)) != NULL)
		rea_curl_message(curl, message, clock_ns());
	return true;
}

/* Until something happens on a connection, or something is due, or the call shall end. */
static bool wait_for_work(struct rea_curl *curl, int cancel_fd)
{
	uint64_t wait_ms = rea_time_to_ms(rea_time_sub(rea_curl_next(curl), clock_ns()));
	struct curl_waitfd extra = {.fd = cancel_fd, .events = CURL_WAIT_POLLIN};

	return curl_multi_poll(curl->multi, &extra, cancel_fd >= 0, wait_ms > INT_MAX ? INT_MAX : (int)wait_ms, NULL) ==
	       CURLM_OK;
}

static void run_until_done(struct rea_curl *curl, CURL *easy, int cancel_fd, const struct waiter *waiter)
{
	bool well = true;

	for (;;) {
		if (!well || is_readable(cancel_fd))
			rea_curl_cancel(curl, easy);
		rea_curl_run(curl, clock_ns());
		if (!waiter->done)
			well = work(curl);
		if (waiter->done)
			return;
		well = well && wait_for_work(curl, cancel_fd);
	}
}

CURLcode rea_curl_perform(struct rea_curl *curl, CURL *easy, const struct rea_curl_call *call,
    struct rea_curl_result *ret_result, struct rea_error_info *ret_info)
{
	struct waiter waiter = {0};
	int error;

	assert(curl->own_multi && "rea_curl_perform needs a multi of its own");
	error = rea__curl_start(curl, easy, call, clock_ns(), on_done, &waiter, ret_info);
	if (error != 0)
		return error == REA_ERR_NOMEM ? CURLE_OUT_OF_MEMORY : CURLE_BAD_FUNCTION_ARGUMENT;
	run_until_done(curl, easy, call->cancel_fd, &waiter);
	if (ret_result != NULL)
		*ret_result = waiter.result;
	return waiter.result.code;
}
