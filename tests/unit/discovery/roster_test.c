/* Lists of instances: names, lives, empty lists, and what counts as a change. Time is an integer. */
#include "discovery/roster.h"

#include <rea/call.h>
#include <rea/error.h>
#include <rea/time.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define S REA_NS_PER_S

static struct roster_name names[2];

static const struct roster_name *find(const char *text, void *user_data)
{
	(void)user_data;
	for (size_t i = 0; i < 2; i++)
		if (names[i].text != NULL && strcmp(names[i].text, text) == 0)
			return &names[i];
	return NULL;
}

static struct rea_instance_id id(const char *address)
{
	struct rea_instance_id made;

	assert_true(roster_is_address(address, &made));
	return made;
}

static void add(struct roster_list *list, const char *name, uint16_t port, uint32_t weight)
{
	const struct roster_entry entry = {.port = port, .weight = weight};

	assert_int_equal(roster_list_add(list, rea_slice_of(name), &entry), 0);
}

/* The list as instances; takes the entries. */
static struct roster_instance *resolved(struct roster_list *list, size_t *ret_len)
{
	struct roster_instance *items;

	assert_int_equal(roster_resolve(list, find, NULL, &items, ret_len), 0);
	roster_list_fini(list);
	return items;
}

static void addresses(void **state)
{
	static const struct {
		const char *text, *name;
		uint16_t port;
	} good[] = {{"10.0.0.1:80", "10.0.0.1", 80}, {"[::1]:65535", "::1", 65535}, {"a:1", "a", 1}};
	static const char *const bad[] = {"", ":", "a", "a:", ":80", "a:0", "a:65536", "a:-1", "a:1x", "::1:80", "a:b:80"};
	struct rea_slice name;
	uint16_t port;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_true(roster_split(rea_slice_of(good[i].text), &name, &port));
		assert_true(rea_slice_equal(name, rea_slice_of(good[i].name)));
		assert_int_equal(port, good[i].port);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(roster_split(rea_slice_of(bad[i]), &name, &port));
}

static void weights(void **state)
{
	(void)state;
	assert_int_equal(roster_weight(1), 100);
	assert_int_equal(roster_weight(0.5), 50);
	assert_int_equal(roster_weight(0.001), 1);
	assert_int_equal(roster_weight(10000), 1000000);
	assert_int_equal(roster_weight(1e300), 1000000);
	assert_int_equal(roster_weight(0), 0);
	assert_int_equal(roster_weight(-1), 0);
	assert_int_equal(roster_weight((double)NAN), 0);
}

static void lives_of_names(void **state)
{
	static const struct {
		uint32_t ttl_s;
		uint64_t least, most;
	} cases[] = {{0, S, S}, {1, S, S}, {10, 8 * S, 10 * S}, {300, 240 * S, 300 * S}, {301, 240 * S, 300 * S},
	    {UINT32_MAX, 240 * S, 300 * S}};
	struct rea_random random;

	(void)state;
	rea_random_init(&random, 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t least = REA_NEVER, most = 0;

		for (int turn = 0; turn < 2000; turn++) {
			uint64_t wait_ns = roster_refresh_ns(cases[i].ttl_s, &random);

			least = wait_ns < least ? wait_ns : least;
			most = wait_ns > most ? wait_ns : most;
		}
		assert_true(least >= cases[i].least && most <= cases[i].most);
		/* Not all at the same time. */
		assert_true(cases[i].least == cases[i].most || most - least > (cases[i].most - cases[i].least) * 9 / 10);
	}
	for (uint32_t failures = 1; failures < 10; failures++) {
		uint64_t base = failures < 6 ? S << (failures - 1) : 30 * S, pause_ns = roster_pause_ns(failures, &random);

		assert_true(pause_ns >= base - base / 5 && pause_ns <= base + base / 5 + 1);
	}
}

static void a_name_over_time(void **state)
{
	struct roster_name name = {.text = (char *)(uintptr_t) "users"};
	struct rea_instance_id found[ROSTER_ADDRESSES_MAX + 1], one = id("10.0.0.1"), two = id("10.0.0.2");
	struct rea_random random;

	(void)state;
	rea_random_init(&random, 1);
	roster_name_failed(&name, &random, 5 * S);
	assert_true(name.known && name.len == 0 && name.failures == 1 && name.answered_ns == 0);
	assert_true(name.due_ns >= 5 * S + S * 4 / 5 && name.due_ns <= 5 * S + S * 6 / 5 + 1);
	found[0] = two;
	found[1] = one;
	roster_name_answered(&name, found, 2, 10, &random, 7 * S);
	assert_int_equal(name.len, 2);
	assert_int_equal(name.failures, 0);
	assert_int_equal(name.answered_ns, 7 * S);
	/* Always in the same order. */
	assert_true(rea_instance_id_equal(&name.addresses[0], &one) && rea_instance_id_equal(&name.addresses[1], &two));
	/* Nobody knows: the last ones stay. */
	roster_name_failed(&name, &random, 20 * S);
	roster_name_failed(&name, &random, 22 * S);
	assert_true(name.len == 2 && name.failures == 2 && name.answered_ns == 7 * S);
	/* It is known that there are none. */
	roster_name_answered(&name, found, 0, 0, &random, 30 * S);
	assert_true(name.len == 0 && name.failures == 0 && name.due_ns == 31 * S);
	for (size_t i = 0; i <= ROSTER_ADDRESSES_MAX; i++) {
		found[i] = one;
		found[i].address[15] = (uint8_t)i;
	}
	assert_true(roster_name_answered(&name, found, ROSTER_ADDRESSES_MAX + 1, 5, &random, 40 * S));
	assert_int_equal(name.len, ROSTER_ADDRESSES_MAX);
	/* The same, turned: the same ones are left out, and nothing has changed. */
	for (size_t i = 0; i <= ROSTER_ADDRESSES_MAX; i++)
		found[i].address[15] = (uint8_t)((i + 7) % (ROSTER_ADDRESSES_MAX + 1));
	assert_false(roster_name_answered(&name, found, ROSTER_ADDRESSES_MAX + 1, 5, &random, 50 * S));
	assert_int_equal(name.addresses[0].address[15], 0);
	assert_int_equal(name.addresses[ROSTER_ADDRESSES_MAX - 1].address[15], ROSTER_ADDRESSES_MAX - 1);
	/* One twice is one. */
	found[1] = found[0];
	assert_true(roster_name_answered(&name, found, 2, 5, &random, 60 * S));
	assert_int_equal(name.len, 1);
	assert_false(roster_name_answered(&name, found, 1, 5, &random, 70 * S));
}

static void resolving(void **state)
{
	struct roster_list list = {.items = NULL};
	const struct roster_entry entry = {
	    .port = 80, .weight = 7, .tier = 2, .host = (char *)(uintptr_t) "h", .permits = (char *)(uintptr_t) "*=2"};
	struct roster_instance *items;
	size_t len;
	char text[64];

	(void)state;
	memset(names, 0, sizeof(names));
	names[0] =
	    (struct roster_name){.text = (char *)(uintptr_t) "users", .len = 2, .addresses = {id("10.0.0.1"), id("::1")}};
	add(&list, "10.0.0.1", 80, 1);
	assert_int_equal(roster_list_add(&list, rea_slice_of("users"), &entry), 0);
	add(&list, "unknown", 80, 1);
	add(&list, "10.0.0.1", 81, 1);
	items = resolved(&list, &len);
	/* 10.0.0.1:80 counts as it stood first. */
	assert_int_equal(len, 3);
	rea_instance_id_format(&items[0].id, text, sizeof(text));
	assert_string_equal(text, "10.0.0.1:80");
	assert_int_equal(items[0].weight, 1);
	assert_null(items[0].name);
	rea_instance_id_format(&items[1].id, text, sizeof(text));
	assert_string_equal(text, "[::1]:80");
	assert_int_equal(items[1].weight, 7);
	assert_int_equal(items[1].tier, 2);
	assert_string_equal(items[1].name, "users");
	assert_string_equal(items[1].host, "h");
	assert_string_equal(items[1].permits, "*=2");
	rea_instance_id_format(&items[2].id, text, sizeof(text));
	assert_string_equal(text, "10.0.0.1:81");
	roster_instances_free(items, len);
	items = resolved(&list, &len);
	assert_true(items == NULL && len == 0);
}

static enum roster_news offer(
    struct roster *roster, struct roster_list *list, uint64_t now_ns, struct roster_difference *difference)
{
	size_t len;
	struct roster_instance *items = resolved(list, &len);

	return roster_offer(roster, items, len, now_ns, difference);
}

static void changes(void **state)
{
	struct roster roster = {.grace_ns = 60 * S, .empty_since_ns = REA_NEVER};
	struct roster_list list = {.items = NULL};
	struct roster_difference difference;

	(void)state;
	/* There was none, and there is none. */
	assert_int_equal(offer(&roster, &list, 0, &difference), ROSTER_SAME);
	add(&list, "10.0.0.1", 80, 1);
	add(&list, "10.0.0.2", 80, 1);
	assert_int_equal(offer(&roster, &list, S, &difference), ROSTER_CHANGED);
	assert_true(difference.added == 2 && difference.removed == 0 && difference.altered == 0);
	add(&list, "10.0.0.1", 80, 1);
	add(&list, "10.0.0.2", 80, 1);
	assert_int_equal(offer(&roster, &list, 2 * S, &difference), ROSTER_SAME);
	add(&list, "10.0.0.2", 80, 5);
	add(&list, "10.0.0.3", 80, 1);
	assert_int_equal(offer(&roster, &list, 3 * S, &difference), ROSTER_CHANGED);
	assert_true(difference.added == 1 && difference.removed == 1 && difference.altered == 1);
	/* The order counts, as `listed` goes by it. */
	add(&list, "10.0.0.3", 80, 1);
	add(&list, "10.0.0.2", 80, 5);
	assert_int_equal(offer(&roster, &list, 4 * S, &difference), ROSTER_CHANGED);
	assert_true(difference.added == 0 && difference.removed == 0 && difference.altered == 0);
	assert_int_equal(roster.changes, 3);
	roster_fini(&roster);
}

static void empty_lists(void **state)
{
	struct roster roster = {.grace_ns = 60 * S, .empty_since_ns = REA_NEVER};
	struct roster_list list = {.items = NULL};
	struct roster_difference difference;

	(void)state;
	add(&list, "10.0.0.1", 80, 1);
	assert_int_equal(offer(&roster, &list, 0, &difference), ROSTER_CHANGED);
	assert_int_equal(roster_due_ns(&roster), REA_NEVER);
	assert_int_equal(offer(&roster, &list, 10 * S, &difference), ROSTER_HELD);
	assert_int_equal(roster.len, 1);
	assert_int_equal(roster_due_ns(&roster), 70 * S);
	/* Told once, and counted from the first one on. */
	assert_int_equal(offer(&roster, &list, 40 * S, &difference), ROSTER_SAME);
	assert_int_equal(roster_run(&roster, 70 * S - 1, &difference), ROSTER_SAME);
	/* It fills again: nothing has happened. */
	add(&list, "10.0.0.1", 80, 1);
	assert_int_equal(offer(&roster, &list, 50 * S, &difference), ROSTER_SAME);
	assert_int_equal(roster_due_ns(&roster), REA_NEVER);
	assert_int_equal(offer(&roster, &list, 100 * S, &difference), ROSTER_HELD);
	assert_int_equal(roster_run(&roster, 160 * S, &difference), ROSTER_EMPTIED);
	assert_true(difference.removed == 1 && roster.len == 0);
	assert_int_equal(roster_run(&roster, 161 * S, &difference), ROSTER_SAME);
	roster_fini(&roster);
	/* Without a grace time it is believed at once. */
	roster = (struct roster){.empty_since_ns = REA_NEVER};
	add(&list, "10.0.0.1", 80, 1);
	assert_int_equal(offer(&roster, &list, 0, &difference), ROSTER_CHANGED);
	assert_int_equal(offer(&roster, &list, 0, &difference), ROSTER_EMPTIED);
	roster_fini(&roster);
}

static void limits(void **state)
{
	struct roster_list list = {.items = NULL};
	const struct roster_entry entry = {.port = 80, .weight = 1};
	size_t len;
	struct roster_instance *items;

	(void)state;
	for (uint32_t i = 0; i < ROSTER_INSTANCES_MAX; i++) {
		char name[16];

		snprintf(name, sizeof(name), "10.0.%u.%u", i / 256, i % 256);
		add(&list, name, 80, 1);
	}
	assert_int_equal(roster_list_add(&list, rea_slice_of("10.1.0.0"), &entry), REA_ERR_LIMIT);
	items = resolved(&list, &len);
	assert_int_equal(len, ROSTER_INSTANCES_MAX);
	roster_instances_free(items, len);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(addresses),
	    cmocka_unit_test(weights),
	    cmocka_unit_test(lives_of_names),
	    cmocka_unit_test(a_name_over_time),
	    cmocka_unit_test(resolving),
	    cmocka_unit_test(changes),
	    cmocka_unit_test(empty_lists),
	    cmocka_unit_test(limits),
	};

	return cmocka_run_group_tests_name("roster", tests, NULL, NULL);
}
