/*
 * The store's opening. What may pass by itself (a full disk, another process that still has the file) keeps nobody else from working: the queue is there without
 * its store, says so, and tries again on a thread of its own, since it waits for the disk.
 */
#include "base/container.h"
#include "base/place.h"
#include "queue/internal.h"

#include <rea/store_sqlite.h>

#include <stdio.h>
#include <stdlib.h>

/* On the store's thread. One post serves all that has ended until it is seen. */
static void on_wake(void *user_data)
{
	struct queue *queue = user_data;

	if (!atomic_exchange(&queue->drain_due, true))
		loop_post(queue->loop, &queue->drain);
}

/* On any thread. */
static void open_file(struct opening *opening)
{
	struct queue *queue = REA_CONTAINER_OF(opening, struct queue, opening);
	struct rea_store_sqlite_options options;

	memset(&opening->why, 0, sizeof(opening->why));
	rea_store_sqlite_options_init(&options);
	options.path = opening->path;
	options.store.wake = on_wake;
	options.store.user_data = queue;
	opening->error = rea_store_sqlite_open(&options, &opening->store, &opening->why);
	if (opening->error == 0)
		opening->error = rea_store_reader_new(opening->store, &opening->reader);
}

static void close_file(struct opening *opening)
{
	rea_store_reader_free(opening->reader);
	rea_store_close(opening->store);
	opening->reader = NULL;
	opening->store = NULL;
}

/* The store becomes the queue's. */
static int take_file(struct queue *queue, struct rea_error_info *ret_info)
{
	struct opening *opening = &queue->opening;
	int error = opening->error;

	*ret_info = opening->why;
	if (error == 0)
		error = pauses_load(queue, ret_info);
	if (error != 0) {
		close_file(opening);
		return error;
	}
	queue->store = opening->store;
	queue->reader = opening->reader;
	opening->store = NULL;
	opening->reader = NULL;
	loop_timer_start(queue->loop, &queue->tick, queue_now(queue));
	return 0;
}

/* What a person has to put right before anything is served is wrong for good. A damaged file is not: calls can do without it. */
static bool may_pass(int error, const char *path)
{
	return error == REA_ERR_BUSY || error == REA_ERR_CORRUPT || (error == REA_ERR_IO && rea_place_is_sound(path));
}

static void note_trouble(struct queue *queue, const struct rea_error_info *why)
{
	snprintf(queue->opening.trouble, sizeof(queue->opening.trouble),
	    "tasks: the store %s cannot be opened: %s; tried again every %d s", queue->opening.path,
	    why->message[0] != '\0' ? why->message : "out of memory", QUEUE_OPEN_EVERY_S);
}

static void wait_to_open(struct queue *queue)
{
	loop_timer_start(
	    queue->loop, &queue->opening.timer, rea_time_add(queue_now(queue), QUEUE_OPEN_EVERY_S * REA_NS_PER_S));
}

static void on_work(uv_work_t *work)
{
	open_file(work->data);
}

static void on_worked(uv_work_t *work, int status)
{
	struct opening *opening = work->data;
	struct queue *queue = REA_CONTAINER_OF(opening, struct queue, opening);
	struct rea_error_info why;
	char text[320];

	(void)status;
	queue_operation(queue, -1);
	if (queue->stopping) {
		close_file(opening);
		queue_check_stopped(queue);
	} else if (take_file(queue, &why) != 0) {
		note_trouble(queue, &why);
		wait_to_open(queue);
	} else {
		opening->trouble[0] = '\0';
		snprintf(text, sizeof(text), "tasks: the store %.256s is open", opening->path);
		queue->options.notice(text, queue->options.user_data);
	}
}

static void on_open_again(struct wheel_timer *timer, uint64_t now_ns)
{
	struct queue *queue = REA_CONTAINER_OF(timer, struct queue, opening.timer);

	(void)now_ns;
	if (queue->stopping)
		return;
	queue->opening.work.data = &queue->opening;
	if (uv_queue_work(&queue->loop->uv, &queue->opening.work, on_work, on_worked) == 0)
		queue_operation(queue, 1);
	else
		wait_to_open(queue);
}

int open_begin(struct queue *queue, struct rea_error_info *ret_info)
{
	struct opening *opening = &queue->opening;
	int error;

	opening->timer.fire = on_open_again;
	opening->path = strdup(queue->rules->settings->tasks.file);
	if (opening->path == NULL)
		return REA_ERR_NOMEM;
	open_file(opening);
	error = take_file(queue, ret_info);
	if (error == 0 || !may_pass(error, opening->path))
		return error;
	note_trouble(queue, ret_info);
	queue->options.notice(opening->trouble, queue->options.user_data);
	wait_to_open(queue);
	return 0;
}

void open_end(struct queue *queue)
{
	loop_timer_stop(queue->loop, &queue->opening.timer);
	free(queue->opening.path);
}
