/* The queue alone, its edges, and two threads on it (for the thread sanitizer). */
#include "sample.h"

#include "../fail_alloc.h"

#include <rea/random.h>

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static struct rea_event_queue *new_queue(size_t bytes)
{
	struct rea_event_queue *queue = NULL;

	assert_int_equal(rea_event_queue_new(bytes, NULL, &queue, NULL), 0);
	return queue;
}

static void assert_text(struct rea_text text, const char *expected)
{
	assert_int_equal(text.length, strlen(expected));
	assert_memory_equal(text.text, expected, text.length);
}

static void test_records_come_out_as_they_went_in(void **state)
{
	struct rea_event_queue *queue = new_queue(4096);
	struct rea_event event = sample_event(), out;
	char biz_id[] = "order-42";

	(void)state;
	assert_false(rea_event_queue_peek(queue, &out));
	event.biz_id.text = biz_id;
	assert_true(rea_event_queue_push(queue, &event));
	memset(biz_id, 'x', sizeof(biz_id)); /* it was copied */
	assert_true(rea_event_queue_peek(queue, &out));
	assert_true(rea_event_queue_peek(queue, &out));
	assert_text(out.biz_id, "order-42");
	assert_text(out.call_id, "7f3a2c");
	assert_text(out.key, "k-1");
	assert_text(out.trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
	assert_text(out.service, "user-service");
	assert_text(out.method, "users_get");
	assert_text(out.instance, "127.0.0.1:9001");
	assert_text(out.detail, "GET /users/42");
	assert_int_equal(out.code, 503);
	assert_true(out.next_delay_ns == MS(104));
	rea_event_queue_pop(queue);
	assert_false(rea_event_queue_peek(queue, &out));
	assert_int_equal(rea_event_queue_written(queue), 1);
	assert_int_equal(rea_event_queue_dropped(queue), 0);
	rea_event_queue_free(queue);
	rea_event_queue_free(NULL);
}

static void test_full_queue_drops_and_counts(void **state)
{
	struct rea_event_queue *queue = new_queue(4096);
	struct rea_event event = sample_event(), out;
	uint64_t held = 0;

	(void)state;
	while (rea_event_queue_push(queue, &event))
		held++;
	assert_in_range(held, 4, 16);
	assert_false(rea_event_queue_push(queue, &event));
	assert_int_equal(rea_event_queue_written(queue), held);
	assert_int_equal(rea_event_queue_dropped(queue), 2);
	for (uint64_t i = 0; i < held; i++) {
		assert_true(rea_event_queue_peek(queue, &out));
		rea_event_queue_pop(queue);
	}
	assert_false(rea_event_queue_peek(queue, &out));
	assert_true(rea_event_queue_push(queue, &event));
	rea_event_queue_free(queue);
}

static void test_long_texts_are_cut_at_a_character(void **state)
{
	struct rea_event_queue *queue = new_queue(4096);
	struct rea_event event = sample_event(), out;
	char text[300];

	(void)state;
	memset(text, 'a', sizeof(text));
	memcpy(text + 254, "\xe2\x82\xac", 3); /* bytes 254 to 256 */
	event.detail = (struct rea_text){text, sizeof(text)};
	event.biz_id = (struct rea_text){text, 254};
	assert_true(rea_event_queue_push(queue, &event));
	assert_true(rea_event_queue_peek(queue, &out));
	assert_int_equal(out.detail.length, 254);
	assert_int_equal(out.biz_id.length, 254);
	rea_event_queue_free(queue);
}

/* The largest record fits an empty queue of the smallest size, wherever the last one ended. */
static void test_largest_record_fits_at_every_offset(void **state)
{
	struct rea_event_queue *queue = new_queue(4096);
	struct rea_event large = sample_event(), small = {.type = REA_EVENT_CONFIG}, out;
	char text[REA_EVENT_TEXT_MAX];
	struct rea_text whole = {text, sizeof(text)};

	(void)state;
	memset(text, 'z', sizeof(text));
	large.call_id = large.biz_id = large.key = large.trace_id = large.service = large.method = large.instance =
	    large.detail = whole;
	for (size_t i = 0; i < 2000; i++) {
		const struct rea_event *event = i % 2 ? &small : &large;

		small.detail = (struct rea_text){text, i % 256};
		assert_true(rea_event_queue_push(queue, event));
		assert_true(rea_event_queue_peek(queue, &out));
		assert_int_equal(out.detail.length, event->detail.length);
		assert_memory_equal(out.detail.text, text, out.detail.length);
		rea_event_queue_pop(queue);
	}
	rea_event_queue_free(queue);
}

static void test_sizes(void **state)
{
	static const struct {
		size_t bytes;
		const char *message;
	} rows[] = {
	    {0, "the capacity in bytes is 0; it must be at least 4096"},
	    {2048, "the capacity in bytes is 2048; it must be at least 4096"},
	    {5000, "the capacity in bytes is 5000; it must be a power of two"},
	};
	struct rea_event_queue *queue = NULL;
	struct rea_error_info info;
	struct fail_alloc failing;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(rea_event_queue_new(rows[i].bytes, NULL, &queue, NULL), REA_ERR_INVALID);
		assert_int_equal(rea_event_queue_new(rows[i].bytes, NULL, &queue, &info), REA_ERR_INVALID);
		assert_string_equal(info.key, "bytes");
		assert_string_equal(info.message, rows[i].message);
	}
	assert_null(queue);
	fail_alloc_init(&failing, 0, true);
	assert_int_equal(rea_event_queue_new(4096, &failing.alloc, &queue, NULL), REA_ERR_NOMEM);
	assert_null(queue);
}

/* Against a list: random pushes and pops, records of random size. */
static void test_against_a_list(void **state)
{
	struct rea_event_queue *queue = new_queue(4096);
	struct rea_random random;
	struct rea_event event = sample_event(), out;
	char text[REA_EVENT_TEXT_MAX];
	uint32_t pushed = 0, popped = 0;
	uint64_t dropped = 0;

	(void)state;
	memset(text, 'q', sizeof(text));
	rea_random_init(&random, 7);
	for (size_t i = 0; i < 200000; i++) {
		if (rea_random_below(&random, 100) < 52) {
			event.attempt = pushed;
			event.detail = (struct rea_text){text, pushed % (sizeof(text) + 1)};
			if (rea_event_queue_push(queue, &event))
				pushed++;
			else
				dropped++;
		} else if (rea_event_queue_peek(queue, &out)) {
			assert_int_equal(out.attempt, popped);
			assert_int_equal(out.detail.length, popped % (sizeof(text) + 1));
			assert_memory_equal(out.detail.text, text, out.detail.length);
			rea_event_queue_pop(queue);
			popped++;
		} else
			assert_int_equal(popped, pushed);
	}
	assert_true(dropped > 100);
	assert_int_equal(rea_event_queue_written(queue), pushed);
	assert_int_equal(rea_event_queue_dropped(queue), dropped);
	rea_event_queue_free(queue);
}

#define THREAD_EVENTS 200000

static void *write_events(void *arg)
{
	struct rea_event_queue *queue = arg;
	struct rea_event event = sample_event();
	char text[32];

	for (uint32_t i = 0; i < THREAD_EVENTS; i++) {
		event.attempt = i;
		event.biz_id = (struct rea_text){text, (size_t)snprintf(text, sizeof(text), "biz-%u", (unsigned)i)};
		if (!rea_event_queue_push(queue, &event))
			sched_yield();
	}
	return NULL;
}

/* What comes out is whole and in order; what is missing was counted. */
static void test_two_threads(void **state)
{
	struct rea_event_queue *queue = new_queue(16384);
	struct rea_event event;
	uint64_t read = 0;
	uint32_t next = 0;
	pthread_t writer;
	char text[32];

	(void)state;
	assert_int_equal(pthread_create(&writer, NULL, write_events, queue), 0);
	for (;;) {
		bool over = rea_event_queue_written(queue) + rea_event_queue_dropped(queue) == THREAD_EVENTS;

		while (rea_event_queue_peek(queue, &event)) {
			assert_true(event.attempt >= next);
			next = event.attempt + 1;
			snprintf(text, sizeof(text), "biz-%u", (unsigned)event.attempt);
			assert_text(event.biz_id, text);
			assert_text(event.detail, "GET /users/42");
			rea_event_queue_pop(queue);
			read++;
		}
		if (over && read == rea_event_queue_written(queue))
			break;
		sched_yield();
	}
	pthread_join(writer, NULL);
	assert_int_equal(read + rea_event_queue_dropped(queue), THREAD_EVENTS);
	assert_true(read > 0);
	rea_event_queue_free(queue);
}

/* A reader may look ahead and take away later, or not at all: around the end of the memory, too. */
static void test_looking_ahead(void **state)
{
	struct rea_event_queue *queue;
	uint32_t next = 1, expected = 1;

	(void)state;
	assert_int_equal(rea_event_queue_new(4096, NULL, &queue, NULL), 0);
	for (int round = 0; round < 200; round++) {
		struct rea_event event = sample_event();
		uint64_t position = 0;
		uint32_t seen = 0;

		rea_event_queue_pop_until(queue, position); /* nothing */
		for (int i = 0; i < 4; i++) {
			event.attempt = next++;
			assert_true(rea_event_queue_push(queue, &event));
		}
		/* Twice the same, since nothing was taken away. */
		for (int again = 0; again < 2; again++) {
			for (position = 0, seen = 0; rea_event_queue_next(queue, &position, &event); seen++)
				assert_int_equal(event.attempt, expected + seen);
			assert_int_equal(seen, next - expected);
		}
		/* All but the newest go. */
		for (position = 0, seen = 0; seen < next - expected - 1; seen++)
			assert_true(rea_event_queue_next(queue, &position, &event));
		rea_event_queue_pop_until(queue, position);
		expected = next - 1;
		assert_true(rea_event_queue_peek(queue, &event));
		assert_int_equal(event.attempt, expected);
	}
	rea_event_queue_free(queue);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_records_come_out_as_they_went_in),
	    cmocka_unit_test(test_full_queue_drops_and_counts),
	    cmocka_unit_test(test_long_texts_are_cut_at_a_character),
	    cmocka_unit_test(test_largest_record_fits_at_every_offset),
	    cmocka_unit_test(test_sizes),
	    cmocka_unit_test(test_against_a_list),
	    cmocka_unit_test(test_looking_ahead),
	    cmocka_unit_test(test_two_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
