/* Which server is asked next, and when: one until it fails, then the next, and a pause only when a whole round has failed. */
#include "discovery/servers.h"

#include <rea/time.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const urls[] = {"a", "b", "c"};

static void a_round_ends_in_a_pause(void **state)
{
	struct rea_random random;
	struct servers servers;

	(void)state;
	rea_random_init(&random, 7);
	servers_init(&servers, urls, 3, &random);
	servers.at = 1;
	assert_string_equal(servers_url(&servers), "b");
	assert_int_equal(servers_failed(&servers, &random), 0);
	assert_string_equal(servers_url(&servers), "c");
	assert_int_equal(servers_failed(&servers, &random), 0);
	assert_string_equal(servers_url(&servers), "a");
	assert_in_range(servers_failed(&servers, &random), 1600 * REA_NS_PER_MS, 2400 * REA_NS_PER_MS);
	assert_string_equal(servers_url(&servers), "b");
}

static void pauses_double_up_to_30_s(void **state)
{
	static const uint64_t seconds[] = {2, 4, 8, 16, 30, 30, 30};
	struct rea_random random;
	struct servers servers;

	(void)state;
	rea_random_init(&random, 7);
	servers_init(&servers, urls, 1, &random);
	for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++)
		assert_in_range(servers_failed(&servers, &random), seconds[i] * 800 * REA_NS_PER_MS,
		    seconds[i] * 1200 * REA_NS_PER_MS);
	servers_worked(&servers);
	assert_in_range(servers_failed(&servers, &random), 1600 * REA_NS_PER_MS, 2400 * REA_NS_PER_MS);
}

static void pauses_are_not_all_alike(void **state)
{
	uint64_t least = UINT64_MAX, most = 0;
	struct rea_random random;
	struct servers servers;

	(void)state;
	rea_random_init(&random, 7);
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t pause_ns;

		servers_init(&servers, urls, 1, &random);
		pause_ns = servers_failed(&servers, &random);
		least = rea_time_min(least, pause_ns);
		most = rea_time_max(most, pause_ns);
	}
	assert_in_range(least, 1600 * REA_NS_PER_MS, 1610 * REA_NS_PER_MS);
	assert_in_range(most, 2390 * REA_NS_PER_MS, 2400 * REA_NS_PER_MS);
}

static void beginnings_spread(void **state)
{
	unsigned begun[3] = {0, 0, 0};
	struct rea_random random;
	struct servers servers;

	(void)state;
	rea_random_init(&random, 7);
	for (unsigned i = 0; i < 300; i++) {
		servers_init(&servers, urls, 3, &random);
		begun[servers.at]++;
	}
	for (unsigned i = 0; i < 3; i++)
		assert_in_range(begun[i], 70, 130);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_round_ends_in_a_pause),
	    cmocka_unit_test(pauses_double_up_to_30_s),
	    cmocka_unit_test(pauses_are_not_all_alike),
	    cmocka_unit_test(beginnings_spread),
	};

	return cmocka_run_group_tests_name("servers", tests, NULL, NULL);
}
