/* The ring's promises one by one, and against a plain list. */
#include "sample.h"

#include "../fail_alloc.h"

#include <rea/random.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#define LIST_MAX 512

/* Attempt numbers name the events in these tests. */
struct list {
	uint32_t numbers[LIST_MAX];
	size_t length;
	size_t stop_at;
};

static bool note(const struct rea_event *event, void *user_data)
{
	struct list *list = user_data;

	assert_in_range(list->length, 0, LIST_MAX - 1);
	list->numbers[list->length++] = event->attempt;
	return list->length != list->stop_at;
}

static struct list ask(const struct rea_event_ring *ring, const char *biz_id)
{
	struct list list = {.length = 0};

	rea_event_ring_each(ring, text_of(biz_id), note, &list);
	return list;
}

static void assert_numbers(struct list list, size_t length, const uint32_t *numbers)
{
	assert_int_equal(list.length, length);
	for (size_t i = 0; i < length; i++)
		assert_int_equal(list.numbers[i], numbers[i]);
}

static void add(struct rea_event_ring *ring, const char *biz_id, uint32_t number, uint64_t start_ns)
{
	struct rea_event event = sample_event();

	event.biz_id = text_of(biz_id);
	event.attempt = number;
	event.attempt_start_ns = start_ns;
	assert_int_equal(rea_event_ring_add(ring, &event), 0);
}

static struct rea_event_ring *new_ring(size_t events)
{
	struct rea_event_ring *ring = NULL;

	assert_int_equal(rea_event_ring_new(events, NULL, &ring, NULL), 0);
	return ring;
}

static void test_timeline_by_start_time(void **state)
{
	struct rea_event_ring *ring = new_ring(8);

	(void)state;
	assert_numbers(ask(ring, "a"), 0, NULL);
	assert_numbers(ask(ring, ""), 0, NULL);
	add(ring, "a", 1, 100);
	add(ring, "b", 2, 50);
	add(ring, "a", 3, 90); /* began earlier, ended later */
	add(ring, "a", 4, 100);
	add(ring, "", 5, 95);
	assert_numbers(ask(ring, "a"), 3, (uint32_t[]){3, 1, 4});
	assert_numbers(ask(ring, "b"), 1, (uint32_t[]){2});
	assert_numbers(ask(ring, "c"), 0, NULL);
	assert_numbers(ask(ring, ""), 5, (uint32_t[]){2, 3, 5, 1, 4});
	assert_int_equal(rea_event_ring_count(ring), 5);
	rea_event_ring_free(ring);
	rea_event_ring_free(NULL);
}

static void test_oldest_gives_way(void **state)
{
	struct rea_event_ring *ring = new_ring(3);

	(void)state;
	for (uint32_t i = 1; i <= 5; i++)
		add(ring, i % 2 ? "odd" : "even", i, i);
	assert_int_equal(rea_event_ring_count(ring), 3);
	assert_numbers(ask(ring, "odd"), 2, (uint32_t[]){3, 5});
	assert_numbers(ask(ring, "even"), 1, (uint32_t[]){4});
	rea_event_ring_free(ring);
}

static bool keep_text(const struct rea_event *event, void *user_data)
{
	*(struct rea_text *)user_data = event->detail;
	return true;
}

static void test_texts_are_owned(void **state)
{
	struct rea_event_ring *ring = new_ring(2);
	struct rea_event event = sample_event();
	char detail[] = "GET /x";
	struct rea_text kept = {NULL, 0};

	(void)state;
	event.detail.text = detail;
	event.detail.length = 6;
	assert_int_equal(rea_event_ring_add(ring, &event), 0);
	memset(detail, '#', sizeof(detail));
	rea_event_ring_each(ring, text_of("order-42"), keep_text, &kept);
	assert_int_equal(kept.length, 6);
	assert_memory_equal(kept.text, "GET /x", 6);
	rea_event_ring_free(ring);
}

static void test_each_stops(void **state)
{
	struct rea_event_ring *ring = new_ring(8);
	struct list list = {.stop_at = 2};

	(void)state;
	for (uint32_t i = 1; i <= 5; i++)
		add(ring, "a", i, i);
	rea_event_ring_each(ring, text_of("a"), note, &list);
	assert_numbers(list, 2, (uint32_t[]){1, 2});
	rea_event_ring_free(ring);
}

/* A biz_id that was cut when it was recorded is found by its whole. */
static void test_long_biz_id(void **state)
{
	struct rea_event_ring *ring = new_ring(8);
	char long_id[400];

	(void)state;
	memset(long_id, 'i', sizeof(long_id) - 1);
	long_id[sizeof(long_id) - 1] = '\0';
	add(ring, long_id, 1, 1);
	assert_numbers(ask(ring, long_id), 1, (uint32_t[]){1});
	rea_event_ring_free(ring);
}

static void test_ring_of_none(void **state)
{
	struct rea_event_ring *ring = new_ring(0);
	struct rea_error_info info;

	(void)state;
	add(ring, "a", 1, 1);
	assert_int_equal(rea_event_ring_count(ring), 0);
	assert_numbers(ask(ring, ""), 0, NULL);
	assert_numbers(ask(ring, "a"), 0, NULL);
	rea_event_ring_free(ring);
	assert_int_equal(rea_event_ring_new(1000001, NULL, &ring, NULL), REA_ERR_INVALID);
	assert_int_equal(rea_event_ring_new(1000001, NULL, &ring, &info), REA_ERR_INVALID);
	assert_string_equal(info.key, "events");
	assert_string_equal(info.message, "the number of events is 1000001; it must be at most 1000000");
}

/* Anonymous memory in use, in bytes, as the kernel counts it. */
static size_t resident(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long pages = 0, shared = 0;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%*u %lu %lu", &pages, &shared), 2);
	fclose(file);
	return (size_t)(pages - shared) * (size_t)sysconf(_SC_PAGESIZE);
}

static void test_idle_ring_costs_next_to_nothing(void **state)
{
	size_t before = resident();
	struct rea_event_ring *rings[16];

	(void)state;
	if (SANITIZED) /* a sanitizer's own bookkeeping touches memory */
		skip();
	for (size_t i = 0; i < 16; i++)
		rings[i] = new_ring(1000000);
	assert_true(resident() - before < 256 * 1024); /* 128 MB if they were touched */
	for (size_t i = 0; i < 16; i++)
		rea_event_ring_free(rings[i]);
}

/* The n-th allocation fails, once and for good: the ring stays as it was and stays usable. */
static void add_id(struct rea_event_ring *ring, uint64_t id)
{
	struct rea_event event = sample_event();

	event.id = id;
	event.attempt = (uint32_t)id;
	event.attempt_start_ns = 1000 - id; /* the order of arrival is another one than that of start */
	assert_int_equal(rea_event_ring_add(ring, &event), 0);
}

static struct list ask_since(const struct rea_event_ring *ring, uint64_t after)
{
	struct list list = {.length = 0};

	rea_event_ring_since(ring, after, note, &list);
	return list;
}

static void test_since(void **state)
{
	static const uint32_t numbers[] = {4, 6, 7, 8, 11};
	struct rea_event_ring *ring = new_ring(5);
	struct list list = {.stop_at = 2};

	(void)state;
	assert_int_equal(rea_event_ring_oldest(ring), 0);
	assert_int_equal(rea_event_ring_newest(ring), 0);
	assert_numbers(ask_since(ring, 0), 0, NULL);
	/* Ids grow, but may leave gaps; 1..3 give way. */
	for (uint64_t id = 1; id <= 3; id++)
		add_id(ring, id);
	for (size_t i = 0; i < 5; i++)
		add_id(ring, numbers[i]);
	assert_int_equal(rea_event_ring_oldest(ring), 4);
	assert_int_equal(rea_event_ring_newest(ring), 11);
	assert_numbers(ask_since(ring, 0), 5, numbers);
	assert_numbers(ask_since(ring, 3), 5, numbers);
	assert_numbers(ask_since(ring, 4), 4, numbers + 1);
	assert_numbers(ask_since(ring, 5), 4, numbers + 1);
	assert_numbers(ask_since(ring, 8), 1, numbers + 4);
	assert_numbers(ask_since(ring, 10), 1, numbers + 4);
	assert_numbers(ask_since(ring, 11), 0, NULL);
	assert_numbers(ask_since(ring, UINT64_MAX), 0, NULL);
	rea_event_ring_since(ring, 0, note, &list);
	assert_int_equal(list.length, 2);
	rea_event_ring_free(ring);
}

static void test_whose_event_it_is(void **state)
{
	struct rea_event event = sample_event();
	char text[REA_EVENT_TEXT_MAX + 10];

	(void)state;
	memset(text, 'x', sizeof(text));
	assert_true(rea_event_is_of(&event, text_of("order-42")));
	assert_false(rea_event_is_of(&event, text_of("order-4")));
	assert_false(rea_event_is_of(&event, text_of("order-43")));
	assert_false(rea_event_is_of(&event, text_of("")));
	event.biz_id = (struct rea_text){text, REA_EVENT_TEXT_MAX};
	assert_true(rea_event_is_of(&event, (struct rea_text){text, sizeof(text)}));
	assert_false(rea_event_is_of(&event, (struct rea_text){text, REA_EVENT_TEXT_MAX - 1}));
	event.biz_id = (struct rea_text){NULL, 0};
	assert_true(rea_event_is_of(&event, (struct rea_text){NULL, 0}));
}

static void test_names_and_wall_clock(void **state)
{
	struct rea_event event = sample_event();

	(void)state;
	for (int i = 0; i < REA_EVENT_TYPE_COUNT; i++) {
		const char *name = rea_event_type_name((enum rea_event_type)i);

		assert_int_equal(rea_event_type_parse(name, strlen(name)), i);
		assert_int_equal(rea_event_type_parse(name, strlen(name) - 1), -1);
	}
	assert_int_equal(rea_event_type_parse("", 0), -1);
	for (int i = 0; i < 2; i++) { /* twice is once */
		rea_event_use_wall_clock(&event);
		assert_true(event.time_ns == (uint64_t)event.time_unix_ns);
		assert_true(event.attempt_start_ns == (uint64_t)event.time_unix_ns - MS(12));
	}
	event.time_unix_ns = -5;
	rea_event_use_wall_clock(&event);
	assert_true(event.time_ns == 0 && event.attempt_start_ns == 0);
}

static void test_out_of_memory(void **state)
{
	(void)state;
	for (int for_good = 0; for_good < 2; for_good++)
		for (size_t n = 0; n < 100; n++) {
			struct fail_alloc failing;
			struct rea_event_ring *ring = NULL;
			struct rea_event event = sample_event();
			uint32_t kept = 0;

			fail_alloc_init(&failing, n, for_good);
			if (rea_event_ring_new(200, &failing.alloc, &ring, NULL) != 0) {
				assert_null(ring);
				assert_int_equal(n, 0);
				continue;
			}
			for (event.attempt = 1; event.attempt <= 90; event.attempt++) {
				size_t before = rea_event_ring_count(ring);
				int error = rea_event_ring_add(ring, &event);

				assert_int_equal(rea_event_ring_count(ring), before + (error == 0));
				assert_true(error == 0 || error == REA_ERR_NOMEM);
				kept += error == 0;
			}
			assert_int_equal(ask(ring, "order-42").length, kept);
			assert_true(for_good || kept >= 89);
			rea_event_ring_free(ring);
			assert_int_equal(failing.live, 0);
		}
}

/* ---- against a list ---- */

struct entry {
	uint32_t number, biz;
	uint64_t start_ns;
};

/* The last `capacity` entries of that biz (or all), sorted by start, insertion by insertion. */
static struct list ask_model(const struct entry *entries, size_t length, size_t capacity, uint32_t biz)
{
	struct list list = {.length = 0};
	uint64_t starts[LIST_MAX];

	for (size_t i = length > capacity ? length - capacity : 0; i < length; i++) {
		size_t at = list.length;

		if (biz != UINT32_MAX && entries[i].biz != biz)
			continue;
		for (; at > 0 && starts[at - 1] > entries[i].start_ns; at--) {
			starts[at] = starts[at - 1];
			list.numbers[at] = list.numbers[at - 1];
		}
		starts[at] = entries[i].start_ns;
		list.numbers[at] = entries[i].number;
		list.length++;
	}
	return list;
}

static void test_against_a_list(void **state)
{
	static struct entry entries[2000];
	struct rea_random random;

	(void)state;
	for (uint64_t seed = 1; seed <= 10; seed++) {
		size_t capacity = (size_t)(1 + seed * seed * 4);
		struct rea_event_ring *ring = new_ring(capacity);

		rea_random_init(&random, seed);
		for (uint32_t i = 0; i < 2000; i++) {
			char biz[16];
			uint32_t asked = (uint32_t)rea_random_below(&random, 20);

			entries[i] = (struct entry){
			    i, (uint32_t)rea_random_below(&random, 20), i * 10 + rea_random_below(&random, 300)};
			snprintf(biz, sizeof(biz), "biz-%u", (unsigned)entries[i].biz);
			add(ring, biz, i, entries[i].start_ns);
			if (rea_random_below(&random, 10) == 0) {
				struct list expected = ask_model(entries, i + 1, capacity, asked);

				snprintf(biz, sizeof(biz), "biz-%u", (unsigned)asked);
				assert_numbers(ask(ring, biz), expected.length, expected.numbers);
				expected = ask_model(entries, i + 1, capacity, UINT32_MAX);
				assert_numbers(ask(ring, ""), expected.length, expected.numbers);
			}
		}
		rea_event_ring_free(ring);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_timeline_by_start_time),
	    cmocka_unit_test(test_oldest_gives_way),
	    cmocka_unit_test(test_texts_are_owned),
	    cmocka_unit_test(test_each_stops),
	    cmocka_unit_test(test_long_biz_id),
	    cmocka_unit_test(test_ring_of_none),
	    cmocka_unit_test(test_idle_ring_costs_next_to_nothing),
	    cmocka_unit_test(test_since),
	    cmocka_unit_test(test_whose_event_it_is),
	    cmocka_unit_test(test_names_and_wall_clock),
	    cmocka_unit_test(test_out_of_memory),
	    cmocka_unit_test(test_against_a_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
