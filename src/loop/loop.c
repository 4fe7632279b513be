#include "loop/stream.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

uint64_t loop_read_clock(struct loop *loop)
{
	uint64_t now = uv_hrtime();

	if (now > loop->now_ns)
		loop->now_ns = now;
	loop->now_stale = false;
	return loop->now_ns;
}

int64_t loop_wall_ns(struct loop *loop)
{
	struct timespec ts;

	if (loop->wall_stale) {
		clock_gettime(CLOCK_REALTIME, &ts);
		loop->wall_ns = (int64_t)ts.tv_sec * (int64_t)REA_NS_PER_S + ts.tv_nsec;
		loop->wall_stale = false;
	}
	return loop->wall_ns;
}

static void on_tick(uv_timer_t *timer);

static void set_tick(struct loop *loop, uint64_t due_ns)
{
	uint64_t now = loop_now(loop);

	loop->tick_ns = due_ns;
	uv_timer_start(&loop->tick, on_tick, rea_time_to_ms(rea_time_sub(due_ns, now)), 0);
}

static void on_tick(uv_timer_t *timer)
{
	struct loop *loop = timer->data;
	uint64_t next;

	/* Timers run at the start of a turn, when the last reading is as old as the sleep before. */
	loop->tick_ns = REA_NEVER;
	wheel_run(&loop->wheel, loop_read_clock(loop));
	next = wheel_next(&loop->wheel);
	if (next < loop->tick_ns)
		set_tick(loop, next);
	loop_flush(loop);
}

void loop_timer_start(struct loop *loop, struct wheel_timer *timer, uint64_t due_ns)
{
	wheel_start(&loop->wheel, timer, due_ns);
	/* A later first timer leaves the tick where it is: it will find nothing due and set itself anew, which is cheaper than moving it
	 * with every request. */
	if (due_ns < loop->tick_ns)
		set_tick(loop, due_ns);
}

void loop_timer_stop(struct loop *loop, struct wheel_timer *timer)
{
	wheel_stop(&loop->wheel, timer);
}

static void on_prepare(uv_prepare_t *prepare)
{
	struct loop *loop = prepare->data;

	loop_flush(loop);
	loop->now_stale = true;
	loop->wall_stale = true;
}

static void on_wake(uv_async_t *async)
{
	struct loop *loop = async->data;
	struct loop_post *posts, *post, *in_order = NULL;

	uv_mutex_lock(&loop->post_lock);
	posts = loop->posts;
	loop->posts = NULL;
	uv_mutex_unlock(&loop->post_lock);
	while ((post = posts) != NULL) {
		posts = post->next;
		post->next = in_order;
		in_order = post;
	}
	while ((post = in_order) != NULL) {
		in_order = post->next;
		post->fn(post);
	}
	loop_flush(loop);
}

void loop_post(struct loop *loop, struct loop_post *post)
{
	uv_mutex_lock(&loop->post_lock);
	post->next = loop->posts;
	loop->posts = post;
	uv_mutex_unlock(&loop->post_lock);
	uv_async_send(&loop->wake);
}

int loop_init(struct loop *loop, uint64_t seed)
{
	int error;

	memset(loop, 0, sizeof(*loop));
	loop->read_buffer = malloc(STREAM_READ_BYTES + STREAM_PLAIN_BYTES);
	if (loop->read_buffer == NULL)
		return UV_ENOMEM;
	error = uv_loop_init(&loop->uv);
	if (error != 0) {
		free(loop->read_buffer);
		return error;
	}
	error = uv_mutex_init(&loop->post_lock);
	assert(error == 0);
	uv_timer_init(&loop->uv, &loop->tick);
	loop->tick.data = loop;
	uv_prepare_init(&loop->uv, &loop->prepare);
	loop->prepare.data = loop;
	uv_prepare_start(&loop->prepare, on_prepare);
	error = uv_async_init(&loop->uv, &loop->wake, on_wake);
	assert(error == 0);
	loop->wake.data = loop;
	loop->now_stale = loop->wall_stale = true;
	loop->tick_ns = REA_NEVER;
	rea_random_init(&loop->random, seed);
	wheel_init(&loop->wheel, loop_now(loop));
	return 0;
}

void loop_fini(struct loop *loop)
{
	int error;

	uv_close((uv_handle_t *)&loop->tick, NULL);
	uv_close((uv_handle_t *)&loop->prepare, NULL);
	uv_close((uv_handle_t *)&loop->wake, NULL);
	uv_run(&loop->uv, UV_RUN_DEFAULT);
	error = uv_loop_close(&loop->uv);
	assert(error == 0);
	uv_mutex_destroy(&loop->post_lock);
	free(loop->read_buffer);
}

void loop_run(struct loop *loop)
{
	uv_run(&loop->uv, UV_RUN_DEFAULT);
}

void loop_stop(struct loop *loop)
{
	uv_stop(&loop->uv);
}
