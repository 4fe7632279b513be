/* An admin API on a loop in a thread of its own, for tests. */
#ifndef REA_TESTS_ADMIN_HARNESS_H
#define REA_TESTS_ADMIN_HARNESS_H

#include "admin/admin.h"

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
static const struct admin_sources no_sources = {NULL, say_readiness, say_metrics, say_config, NULL};

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

/* One event of biz_id order-42 is in the ring. */
static int start_admin(void **state)
{
	char address[32];
	struct admin_sources sources = no_sources;
	struct rea_event event = sample_event();

	(void)state;
	free_address(address);
	rea_event_ring_new(16, NULL, &ring);
	rea_event_ring_add(ring, &event);
	sources.ring = ring;
	if (loop_init(&loop, 1) != 0 || admin_new(&loop, address, &sources, &admin, NULL) != 0)
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
