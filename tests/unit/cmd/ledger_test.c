/* The ledger of `rea torture` finds each broken promise, and only that one. */
#include "torture/ledger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEED 7
#define TASKS 16
/* By their number modulo 8: 3 is ONCE, 6 LATER, the others AGAIN. */
#define ONCE 3
#define LATER 6

static struct ledger *ledger;
static struct ledger_task task;
static size_t open_tasks;

static uint64_t id_of(uint32_t number)
{
	return number + 1;
}

static int begin(void **state)
{
	struct rea_random random;
	struct ledger_counts counts;

	(void)state;
	ledger = ledger_new(SEED, 4, false);
	rea_random_init(&random, 1);
	do {
		assert_true(ledger_next(ledger, &random, &task));
		ledger_count(ledger, &counts);
	} while (counts.tasks < TASKS);
	return 0;
}

static int end(void **state)
{
	(void)state;
	ledger_free(ledger);
	return 0;
}

static void acknowledge_all(void)
{
	for (uint32_t i = 0; i < TASKS; i++)
		ledger_acknowledged(ledger, i, id_of(i), false);
}

/* due NULL: none. */
static void show_as(uint32_t number, uint64_t id, const char *state, int attempts, const char *due, const char *reason)
{
	char key[64], id_text[24];
	json_t *json;

	snprintf(key, sizeof(key), "torture-%x-%u", SEED, number);
	snprintf(id_text, sizeof(id_text), "%llu", (unsigned long long)id);
	json = json_pack("{s:s,s:s,s:s,s:i,s:s?,s:s}", "id", id_text, "key", key, "state", state, "attempts", attempts,
	    "due", due, "reason", reason);
	assert_non_null(json);
	ledger_listed_task(ledger, json);
	json_decref(json);
}

static void show(uint32_t number, const char *state, int attempts)
{
	show_as(number, id_of(number), state, attempts,
	    strcmp(state, "PENDING") == 0 || strcmp(state, "RETRYING") == 0 ? "2026-01-02T03:04:05.678Z" : NULL, "");
}

/* As all should stand, but for one, which is not shown. */
static void show_all_but(uint32_t number)
{
	for (uint32_t i = 0; i < TASKS; i++)
		if (i != number)
			show(i, i % 8 == LATER ? "PENDING" : "SUCCESS", i % 8 == LATER ? 0 : 1);
}

static void request_of(const char *key, const char *body)
{
	json_t *line = json_pack("{s:s,s:[[ss],[ss]],s:s,s:b}", "event", "request", "fields", "Host", "x",
	    "Idempotency-Key", key, "body_sha256", body, "complete", 1);

	assert_non_null(line);
	ledger_request(ledger, line);
	json_decref(line);
}

static void request(uint32_t number, const char *body)
{
	char key[64];

	snprintf(key, sizeof(key), "torture-%x-%u", SEED, number);
	request_of(key, body);
}

static void request_all_but(uint32_t number)
{
	for (uint32_t i = 0; i < TASKS; i++)
		if (i != number && i % 8 != LATER)
			request(i, "aa");
}

/* This one is broken, with these words, and no other. NULL: none is. */
static void expect_breach(enum ledger_promise promise, const char *words)
{
	assert_int_equal(ledger_broken(ledger), words != NULL);
	for (int i = 0; i < LEDGER_PROMISES_COUNT; i++)
		if (words == NULL || i != (int)promise)
			assert_string_equal(ledger_breach(ledger, (enum ledger_promise)i), "");
		else
			assert_string_equal(ledger_breach(ledger, (enum ledger_promise)i), words);
}

static void list_all_but(uint32_t number)
{
	ledger_list(ledger);
	show_all_but(number);
}

static void what_is_handed_in(void **state)
{
	struct ledger *other = ledger_new(SEED, 4, false);
	struct ledger_task first, again;
	struct rea_random random;
	int kinds[3] = {0, 0, 0}, repeated = 0;

	(void)state;
	rea_random_init(&random, 5);
	assert_true(ledger_next(other, &random, &first));
	assert_false(first.again);
	assert_string_equal(first.key, "torture-7-0");
	for (int i = 0; i < 1000; i++) {
		assert_true(ledger_next(other, &random, &again));
		kinds[again.kind]++;
		repeated += again.again;
		if (again.number == 0)
			assert_true(again.again && strcmp(again.body, first.body) == 0 && strcmp(again.key, first.key) == 0);
	}
	assert_in_range(repeated, 60, 140);
	assert_in_range(kinds[LEDGER_ONCE], 80, 170);
	assert_in_range(kinds[LEDGER_LATER], 80, 170);
	ledger_free(other);
}

static void all_is_well(void **state)
{
	struct ledger_counts counts;

	(void)state;
	acknowledge_all();
	ledger_acknowledged(ledger, 0, id_of(0), true);
	ledger_cancelled(ledger, LATER);
	ledger_running(ledger, 4);
	ledger_list(ledger);
	for (uint32_t i = 0; i < TASKS; i++)
		show(i, i == LATER ? "CANCELLED" : "PENDING", 0);
	ledger_listed(ledger, &open_tasks);
	assert_int_equal(open_tasks, TASKS - 2);
	assert_false(ledger_looked(ledger, LEDGER_I7));
	ledger_list(ledger);
	show_all_but(LATER);
	show(LATER, "CANCELLED", 0);
	ledger_listed(ledger, &open_tasks);
	assert_int_equal(open_tasks, 0);
	request_all_but(LATER);
	ledger_close(ledger);
	assert_true(ledger_looked(ledger, LEDGER_I7));
	expect_breach(LEDGER_KEPT, NULL);
	ledger_count(ledger, &counts);
	assert_int_equal(counts.acknowledged, TASKS);
	assert_int_equal(counts.repeated, 1);
	assert_int_equal(counts.stored, TASKS);
	assert_int_equal(counts.succeeded, TASKS - 2);
	assert_int_equal(counts.cancelled, 1);
	assert_int_equal(counts.waiting, 1);
	assert_int_equal(counts.requests, TASKS - 2);
	assert_int_equal(counts.delivered, TASKS - 2);
	assert_int_equal(counts.running_max, 4);
}

static void a_task_is_gone(void **state)
{
	(void)state;
	acknowledge_all();
	list_all_but(4);
	ledger_listed(ledger, &open_tasks);
	expect_breach(LEDGER_KEPT, "1 of the acknowledged tasks are gone, the first is task 4, acknowledged as 5");
}

/* Nobody was told that it was taken. */
static void one_that_was_not_acknowledged_may_be_gone(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < TASKS; i++)
		if (i != 4)
			ledger_acknowledged(ledger, i, id_of(i), false);
	list_all_but(4);
	ledger_listed(ledger, &open_tasks);
	request_all_but(4);
	ledger_close(ledger);
	expect_breach(LEDGER_KEPT, NULL);
}

static void one_key_two_tasks(void **state)
{
	(void)state;
	ledger_acknowledged(ledger, 2, 3, false);
	ledger_acknowledged(ledger, 2, 9, false);
	expect_breach(LEDGER_KEYS, "task 2 was acknowledged as 3, and asked for again as 9");
}

static void one_key_two_rows(void **state)
{
	(void)state;
	acknowledge_all();
	list_all_but(TASKS);
	show_as(2, 90, "SUCCESS", 1, NULL, "");
	expect_breach(LEDGER_KEYS, "task 2 is there twice, as 3 and 90");
}

static void another_id_than_acknowledged(void **state)
{
	(void)state;
	acknowledge_all();
	ledger_list(ledger);
	show_as(2, 90, "SUCCESS", 1, NULL, "");
	expect_breach(LEDGER_KEYS, "task 2 was acknowledged as 3 and is 90 now");
}

static void refused_though_it_never_changes(void **state)
{
	(void)state;
	ledger_refused(ledger, 1, 422, "this key is another's");
	expect_breach(LEDGER_KEYS, "task 1, whose content never changes, was answered with 422: this key is another's");
}

static void a_stranger(void **state)
{
	(void)state;
	ledger_list(ledger);
	show_as(TASKS, 1, "SUCCESS", 1, NULL, "");
	expect_breach(LEDGER_KEYS, "the list has a task that nobody handed in: id 1, key torture-7-16");
}

static void no_next_time(void **state)
{
	(void)state;
	acknowledge_all();
	list_all_but(LATER);
	show_as(LATER, id_of(LATER), "PENDING", 0, NULL, "");
	ledger_listed(ledger, &open_tasks);
	request_all_but(LATER);
	ledger_close(ledger);
	expect_breach(LEDGER_I1, "task 6 is PENDING and has no next time");
}

static void no_end(void **state)
{
	(void)state;
	acknowledge_all();
	list_all_but(1);
	show(1, "RETRYING", 1);
	ledger_listed(ledger, &open_tasks);
	request_all_but(TASKS);
	ledger_close(ledger);
	expect_breach(LEDGER_I1, "task 1 is RETRYING and does not come to an end");
}

static void close_with(void (*requests)(void))
{
	acknowledge_all();
	list_all_but(TASKS);
	ledger_listed(ledger, &open_tasks);
	request_all_but(TASKS);
	requests();
	ledger_close(ledger);
}

static void another_body(void)
{
	ledger_list(ledger);
	show_all_but(1);
	show(1, "SUCCESS", 2);
	request(1, "bb");
}

static void two_bodies(void **state)
{
	(void)state;
	close_with(another_body);
	expect_breach(LEDGER_I2, "task 1 reached the target with two bodies");
}

static void one_more(void)
{
	request(1, "aa");
}

static void more_requests_than_attempts(void **state)
{
	(void)state;
	close_with(one_more);
	expect_breach(LEDGER_I3, "task 1 has 1 attempts, and the target saw 2 requests");
}

/* The same when the power goes: attempts that may be repeated need not all have been counted. */
static void but_not_after_a_power_cut(void **state)
{
	(void)state;
	end(NULL);
	ledger = ledger_new(SEED, 4, true);
	for (struct rea_random random = {{1, 2, 3, 4}};;) {
		struct ledger_counts counts;

		assert_true(ledger_next(ledger, &random, &task));
		ledger_count(ledger, &counts);
		if (counts.tasks == TASKS)
			break;
	}
	close_with(one_more);
	expect_breach(LEDGER_I3, NULL);
}

static void once_more(void)
{
	ledger_list(ledger);
	show_all_but(ONCE);
	show(ONCE, "SUCCESS", 2);
	request(ONCE, "aa");
}

static void sent_twice_without_permission(void **state)
{
	(void)state;
	close_with(once_more);
	expect_breach(LEDGER_I7, "task 3 may not be repeated, and was sent 2 times");
}

static void a_strange_key(void)
{
	request_of("torture-7-16", "aa");
}

static void a_request_of_nobody(void **state)
{
	(void)state;
	close_with(a_strange_key);
	expect_breach(LEDGER_SEEN, "the target got a request with a key that nobody handed in: torture-7-16");
}

static void success_that_nobody_saw(void **state)
{
	(void)state;
	acknowledge_all();
	list_all_but(TASKS);
	request_all_but(1);
	ledger_close(ledger);
	expect_breach(LEDGER_SEEN, "task 1 is SUCCESS, and the target never saw it");
}

/* Given up before it was sent: a task without permission may be; one that kills the process too. */
static void given_up_unseen(void **state)
{
	(void)state;
	acknowledge_all();
	ledger_list(ledger);
	show_all_but(1);
	request_all_but(1);
	show_as(1, id_of(1), "GIVEN_UP", 3, NULL, "crash_loop");
	ledger_close(ledger);
	expect_breach(LEDGER_SEEN, NULL);
	ledger_list(ledger);
	show_all_but(1);
	show_as(1, id_of(1), "GIVEN_UP", 3, NULL, "deadline");
	ledger_close(ledger);
	expect_breach(LEDGER_SEEN, "task 1 was given up, and the target never saw it");
}

static void an_end_that_was_none(void **state)
{
	(void)state;
	acknowledge_all();
	list_all_but(TASKS);
	ledger_list(ledger);
	show(1, "RETRYING", 2);
	expect_breach(LEDGER_I4, "task 1 was SUCCESS and is RETRYING now");
}

static void too_many_at_once(void **state)
{
	(void)state;
	ledger_running(ledger, 5);
	expect_breach(LEDGER_I5, "5 attempts were under way, the limit is 4");
}

static void attempts_backwards(void **state)
{
	(void)state;
	ledger_list(ledger);
	show(1, "RETRYING", 2);
	ledger_list(ledger);
	show(1, "RETRYING", 1);
	expect_breach(LEDGER_I6, "task 1 had 2 attempts and has 1 now");
}

static void cancelled_in_vain(void **state)
{
	(void)state;
	ledger_cancelled(ledger, LATER);
	ledger_list(ledger);
	show(LATER, "PENDING", 0);
	expect_breach(LEDGER_CANCELLED, "task 6 was cancelled and is PENDING now");
}

static void sent_before_its_time(void **state)
{
	(void)state;
	acknowledge_all();
	list_all_but(LATER);
	show(LATER, "PENDING", 1);
	request_all_but(TASKS);
	request(LATER, "aa");
	ledger_close(ledger);
	expect_breach(LEDGER_CANCELLED, "task 6 was sent long before its time");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(what_is_handed_in, begin, end),
	    cmocka_unit_test_setup_teardown(all_is_well, begin, end),
	    cmocka_unit_test_setup_teardown(a_task_is_gone, begin, end),
	    cmocka_unit_test_setup_teardown(one_that_was_not_acknowledged_may_be_gone, begin, end),
	    cmocka_unit_test_setup_teardown(one_key_two_tasks, begin, end),
	    cmocka_unit_test_setup_teardown(one_key_two_rows, begin, end),
	    cmocka_unit_test_setup_teardown(another_id_than_acknowledged, begin, end),
	    cmocka_unit_test_setup_teardown(refused_though_it_never_changes, begin, end),
	    cmocka_unit_test_setup_teardown(a_stranger, begin, end),
	    cmocka_unit_test_setup_teardown(no_next_time, begin, end),
	    cmocka_unit_test_setup_teardown(no_end, begin, end),
	    cmocka_unit_test_setup_teardown(two_bodies, begin, end),
	    cmocka_unit_test_setup_teardown(more_requests_than_attempts, begin, end),
	    cmocka_unit_test_setup_teardown(but_not_after_a_power_cut, begin, end),
	    cmocka_unit_test_setup_teardown(sent_twice_without_permission, begin, end),
	    cmocka_unit_test_setup_teardown(a_request_of_nobody, begin, end),
	    cmocka_unit_test_setup_teardown(success_that_nobody_saw, begin, end),
	    cmocka_unit_test_setup_teardown(given_up_unseen, begin, end),
	    cmocka_unit_test_setup_teardown(an_end_that_was_none, begin, end),
	    cmocka_unit_test_setup_teardown(too_many_at_once, begin, end),
	    cmocka_unit_test_setup_teardown(attempts_backwards, begin, end),
	    cmocka_unit_test_setup_teardown(cancelled_in_vain, begin, end),
	    cmocka_unit_test_setup_teardown(sent_before_its_time, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
