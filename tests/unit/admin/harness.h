/* An admin API on a loop in a thread of its own, for tests. */
#ifndef REA_TESTS_ADMIN_HARNESS_H
#define REA_TESTS_ADMIN_HARNESS_H

#include "admin/admin.h"
#include "admin/answer.h"

#include "../event/sample.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

static struct loop loop;
static struct admin *admin;
static struct rea_event_ring *ring;
static pthread_t thread;
static struct loop_post stop_post;
/* Called with the sources before the admin API starts; may be NULL. */
static void (*prepare)(struct admin_sources *sources);

static enum admin_readiness say_readiness(void *user_data)
{
	(void)user_data;
	return ADMIN_READY;
}

static void say_metrics(struct rea_prometheus *out, void *user_data)
{
	(void)out;
	(void)user_data;
}

static void say_config(struct admin_config *ret_config, void *user_data)
{
	(void)ret_config;
	(void)user_data;
}

/* Sources with nothing to show. */
static const struct admin_sources no_sources = {.readiness = say_readiness, .metrics = say_metrics, .config = say_config};

static void stop(void *arg)
{
	loop_stop(arg);
}

static void close_admin(struct loop_post *post)
{
	(void)post;
	admin_close(admin, stop, &loop);
}

static void *run(void *arg)
{
	(void)arg;
	loop_run(&loop);
	return NULL;
}

/* A port that is free now. */
static void free_address(char ret_address[32])
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
	close(fd);
	snprintf(ret_address, 32, "127.0.0.1:%u", ntohs(address.sin_port));
}

/* ---- resources of another room ---- */

static struct admin_request *kept; /* by POST /later, until POST /release */
static size_t aborted;

static void note_abort(struct admin_request *request)
{
	aborted++;
	if (kept == request)
		kept = NULL;
}

static void say_answer(struct admin_request *request, uint16_t status, struct rea_slice text)
{
	struct answer answer;

	answer_init(&answer, NULL);
	answer_begin(&answer, status, "text/plain");
	answer_put(&answer, text.data, text.length);
	snprintf(answer.location, sizeof(answer.location), "/here");
	answer.retry_after_s = 7;
	admin_answer(request, &answer);
	answer_fini(&answer);
}

/* The parameters and the body back. */
static void handle_echo(struct admin_request *request, void *user_data)
{
	struct answer text;

	assert_ptr_equal(user_data, &kept);
	answer_init(&text, NULL);
	for (size_t i = 0; i < ADMIN_PARAMETERS_MAX; i++) {
		answer_put(&text, request->parameters[i].data, request->parameters[i].length);
		answer_put_text(&text, "|");
	}
	answer_put(&text, request->body.data, request->body.length);
	say_answer(request, 201, rea_slice_make(rea_buffer_data(&text.body), rea_buffer_length(&text.body)));
	answer_fini(&text);
}

static void handle_later(struct admin_request *request, void *user_data)
{
	(void)user_data;
	kept = request;
	request->aborted = note_abort;
}

static void handle_release(struct admin_request *request, void *user_data)
{
	(void)user_data;
	if (kept != NULL) {
		say_answer(kept, 200, REA_SLICE_LIT("at last"));
		kept = NULL;
	}
	say_answer(request, 200, REA_SLICE_LIT("released"));
}

static void handle_stream(struct admin_request *request, void *user_data)
{
	struct answer answer;

	(void)user_data;
	answer_init(&answer, NULL);
	answer_begin(&answer, 200, "text/event-stream");
	answer_put_text(&answer, "one ");
	if (admin_stream(request, &answer) && admin_stream_write(request, "two", 3))
		admin_stream_end(request);
	answer_fini(&answer);
}

static const struct admin_route routes[] = {
    {HTTP_POST, "/echo/{}/x/{}", 8, handle_echo},
    {HTTP_POST, "/later", 8, handle_later},
    {HTTP_POST, "/release", 0, handle_release},
    {HTTP_GET, "/stream", 0, handle_stream},
};
static const struct admin_routes tables[] = {{routes, sizeof(routes) / sizeof(routes[0]), &kept}};
static const char *const hosts[] = {"rea.internal"};

/* One event of biz_id order-42 is in the ring. */
static int start_admin(void **state)
{
	char address[32];
	struct admin_sources sources = no_sources;
	struct rea_event event = sample_event();

	(void)state;
	free_address(address);
	rea_event_ring_new(16, NULL, &ring, NULL);
	rea_event_ring_add(ring, &event);
	sources.ring = ring;
	sources.tables = tables;
	sources.tables_len = 1;
	sources.hosts = hosts;
	sources.hosts_len = 1;
	if (loop_init(&loop, 1) != 0)
		return -1;
	if (prepare != NULL)
		prepare(&sources);
	if (admin_new(&loop, address, &sources, &admin, NULL) != 0)
		return -1;
	stop_post.fn = close_admin;
	return pthread_create(&thread, NULL, run, NULL);
}

static int stop_admin(void **state)
{
	(void)state;
	loop_post(&loop, &stop_post);
	pthread_join(thread, NULL);
	loop_fini(&loop);
	rea_event_ring_free(ring);
	return 0;
}

#endif
