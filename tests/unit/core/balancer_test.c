#include <rea/balancer.h>
#include <rea/time.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MS(n) ((uint64_t)(n)*REA_NS_PER_MS)
#define S(n) ((uint64_t)(n)*REA_NS_PER_S)

enum { MAX = 5 };

static struct rea_load loads[MAX];
static struct rea_instance items[MAX];
static struct rea_instances list;
static struct rea_random random_source;
static unsigned picks[MAX];

static void make_list(size_t count, bool equal_weights)
{
	list = (struct rea_instances){.items = items, .count = count, .equal_weights = equal_weights};
	for (size_t i = 0; i < MAX; i++) {
		loads[i] = (struct rea_load){0};
		picks[i] = 0;
		items[i] = (struct rea_instance){.id = {{0}, (uint16_t)(9001 + i)}, .weight = 1, .load = &loads[i]};
	}
	rea_random_init(&random_source, 11);
}

static size_t choose(uint64_t now_ns)
{
	size_t chosen = rea_balancer_choose(&list, NULL, 0, &random_source, now_ns);

	if (chosen != SIZE_MAX)
		picks[chosen]++;
	return chosen;
}

static void finish(size_t instance, enum rea_outcome outcome, uint64_t latency_ns, uint64_t now_ns)
{
	struct rea_report report = {.outcome = outcome, .latency_ns = latency_ns};

	rea_load_end(&loads[instance], &report, now_ns);
}

static void see(size_t instance, enum rea_outcome outcome, uint64_t latency_ns, uint64_t now_ns)
{
	rea_load_begin(&loads[instance], now_ns - latency_ns);
	finish(instance, outcome, latency_ns, now_ns);
}

static void assert_share(size_t instance, unsigned total, double from, double to)
{
	double share = (double)picks[instance] / total;

	if (share < from || share > to)
		fail_msg("instance %zu got %.3f of the picks", instance, share);
}

static void nothing_to_choose_from(void **state)
{
	struct rea_instance_id both[2];

	(void)state;
	make_list(0, true);
	assert_true(choose(0) == SIZE_MAX);
	list.balance = REA_BALANCE_LISTED;
	assert_true(choose(0) == SIZE_MAX);
	make_list(2, false);
	both[0] = items[1].id;
	both[1] = items[0].id;
	assert_true(rea_balancer_choose(&list, both, 2, &random_source, 0) == SIZE_MAX);
	assert_int_equal(rea_balancer_choose(&list, both, 1, &random_source, 0), 0);
	list.count = 1;
	assert_int_equal(choose(0), 0);
	list.equal_weights = true;
	assert_int_equal(choose(0), 0);
}

static void idle_instances_share_by_weight(void **state)
{
	(void)state;
	for (int fast = 0; fast < 2; fast++) {
		make_list(4, fast);
		for (int i = 0; i < 40000; i++)
			choose(0);
		for (size_t i = 0; i < 4; i++)
			assert_share(i, 40000, 0.24, 0.26);
	}
	make_list(2, false);
	items[0].weight = 3;
	for (int i = 0; i < 40000; i++)
		choose(0);
	assert_share(0, 40000, 0.74, 0.76);
	make_list(3, false);
	items[0].weight = 1000;
	items[1].weight = 0; /* counts as 1 */
	for (int i = 0; i < 100000; i++)
		choose(0);
	assert_share(0, 100000, 0.997, 0.999);
	assert_true(picks[1] > 50 && picks[2] > 50);
}

/* The same with measured latencies that differ by less than a seventh: weights hold, noise does not override them. */
static void near_ties_go_to_the_first_drawn(void **state)
{
	(void)state;
	make_list(2, false);
	items[0].weight = 3;
	see(0, REA_OUTCOME_OK, MS(11), S(1));
	see(1, REA_OUTCOME_OK, MS(10), S(1));
	for (int i = 0; i < 40000; i++)
		choose(S(1));
	assert_share(0, 40000, 0.74, 0.76);
	/* Beyond it the less loaded one wins whenever it is drawn, and of two it always is. */
	make_list(2, true);
	see(0, REA_OUTCOME_OK, MS(12), S(1));
	see(1, REA_OUTCOME_OK, MS(10), S(1));
	for (int i = 0; i < 1000; i++)
		choose(S(1));
	assert_int_equal(picks[1], 1000);
}

static void requests_in_flight_count_by_weight(void **state)
{
	(void)state;
	make_list(2, true);
	rea_load_begin(&loads[0], 0);
	for (int i = 0; i < 100; i++)
		choose(0);
	assert_int_equal(picks[1], 100);
	/* Three times the weight carries three times as much: 3 and 1 in flight are a tie. */
	make_list(2, false);
	items[0].weight = 3;
	for (int i = 0; i < 3; i++)
		rea_load_begin(&loads[0], 0);
	rea_load_begin(&loads[1], 0);
	for (int i = 0; i < 40000; i++)
		choose(0);
	assert_share(0, 40000, 0.74, 0.76);
	/* One more on the heavier, and the lighter is less loaded. */
	rea_load_begin(&loads[0], 0);
	picks[0] = picks[1] = 0;
	for (int i = 0; i < 1000; i++)
		choose(0);
	assert_int_equal(picks[1], 1000);
}

/* One of three ten times slower, requests one after the other and many at once. */
static void a_slow_instance_gets_little(void **state)
{
	static const uint64_t latency_ms[] = {10, 100, 10};
	enum { CALLS = 30000, SLOTS = 40 };

	(void)state;
	for (int together = 1; together <= SLOTS; together += SLOTS - 1) {
		struct {
			size_t instance;
			uint64_t end_ns;
		} flying[SLOTS];
		uint64_t now_ns = S(1);

		make_list(3, true);
		for (int i = 0; i < CALLS; i++) {
			int slot = i % together;

			if (i >= together) {
				now_ns = flying[slot].end_ns > now_ns ? flying[slot].end_ns : now_ns;
				finish(flying[slot].instance, REA_OUTCOME_OK, MS(latency_ms[flying[slot].instance]), now_ns);
			}
			flying[slot].instance = choose(now_ns);
			flying[slot].end_ns = now_ns + MS(latency_ms[flying[slot].instance]);
			rea_load_begin(&loads[flying[slot].instance], now_ns);
		}
		assert_share(1, CALLS, 0.0001, 0.15);
	}
}

static void a_failing_instance_is_no_attraction(void **state)
{
	uint64_t now_ns = S(1);

	(void)state;
	make_list(3, true);
	/* Instance 1 refuses at once, with and without an answer before it began to. */
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 20000; i++) {
			size_t chosen = choose(now_ns);

			now_ns += MS(1);
			see(chosen, chosen == 1 ? REA_OUTCOME_NEVER_SENT : REA_OUTCOME_OK, chosen == 1 ? 50000 : MS(10),
			    now_ns);
		}
		assert_share(1, 20000, 0.0001, 0.02);
		make_list(3, true);
		see(1, REA_OUTCOME_OK, MS(10), now_ns);
	}
}

static void what_was_seen_fades(void **state)
{
	(void)state;
	make_list(2, true);
	see(0, REA_OUTCOME_OK, MS(100), S(100));
	see(1, REA_OUTCOME_OK, MS(10), S(100));
	/* Instance 0 is not heard of. 100 ms fades below 11.5 ms after more than three half-lives. */
	for (uint64_t second = 100; second < 131; second++) {
		see(1, REA_OUTCOME_OK, MS(10), S(second));
		assert_int_equal(choose(S(second)), 1);
	}
	picks[0] = 0;
	see(1, REA_OUTCOME_OK, MS(10), S(132));
	for (int i = 0; i < 100; i++)
		choose(S(132));
	assert_true(picks[0] > 20);
	/* One look is enough to know again. */
	see(0, REA_OUTCOME_OK, MS(100), S(132));
	assert_true(loads[0].latency_ns > 90e6);
	assert_int_equal(choose(S(132)), 1);
}

static void a_failing_instance_is_tried_again(void **state)
{
	(void)state;
	make_list(2, true);
	for (int i = 0; i < 50; i++) {
		see(0, REA_OUTCOME_UNAVAILABLE, MS(10), S(100));
		see(1, REA_OUTCOME_OK, MS(10), S(100));
	}
	assert_true(loads[0].failure_rate > 0.99);
	see(1, REA_OUTCOME_OK, MS(10), S(160));
	for (int i = 0; i < 100; i++)
		choose(S(160));
	assert_true(picks[0] > 20);
	see(0, REA_OUTCOME_OK, MS(10), S(160));
	assert_true(loads[0].failure_rate < 0.02);
}

static void moving_averages(void **state)
{
	struct rea_load *load = &loads[0];

	(void)state;
	make_list(1, true);
	see(0, REA_OUTCOME_FAILED, MS(1), S(1));
	assert_true(load->latency_ns == 0); /* only an answer starts it */
	assert_true(fabs(load->failure_rate - 0.15) < 1e-9);
	make_list(1, true);
	see(0, REA_OUTCOME_OK, MS(100), S(1));
	assert_true(load->latency_ns == 100e6);
	see(0, REA_OUTCOME_PERMANENT, MS(200), S(1));
	assert_true(fabs(load->latency_ns - 115e6) < 1);
	assert_true(load->failure_rate == 0);
	/* A failure can raise it, not lower it. */
	see(0, REA_OUTCOME_AMBIGUOUS, MS(1), S(1));
	assert_true(fabs(load->latency_ns - 115e6) < 1);
	assert_true(fabs(load->failure_rate - 0.15) < 1e-9);
	see(0, REA_OUTCOME_AMBIGUOUS, MS(215), S(1));
	assert_true(fabs(load->latency_ns - 130e6) < 1);
	/* A caller who left tells how long there was no answer, and nothing else. */
	see(0, REA_OUTCOME_CANCELLED, MS(230), S(1));
	assert_true(fabs(load->latency_ns - 145e6) < 1);
	assert_true(fabs(load->failure_rate - 0.2775) < 1e-9);
	see(0, REA_OUTCOME_CANCELLED, MS(1), S(1));
	assert_true(fabs(load->latency_ns - 145e6) < 1);
	assert_int_equal(load->in_flight, 0);
	assert_int_equal(load->samples, 4);
	/* Time that steps back changes nothing. */
	see(0, REA_OUTCOME_OK, MS(145), 0);
	assert_true(load->updated_ns == S(1));
}

static void a_new_instance_is_neither_flooded_nor_shunned(void **state)
{
	(void)state;
	make_list(2, true);
	see(0, REA_OUTCOME_OK, MS(10), S(1));
	rea_load_begin(&loads[1], S(1));
	for (int i = 0; i < 100; i++)
		choose(S(1));
	assert_int_equal(picks[0], 100);
	rea_load_begin(&loads[0], S(1));
	for (int i = 0; i < 1000; i++)
		choose(S(1));
	assert_in_range(picks[1], 400, 600);
}

/* It takes at least as long as it is taking. */
static void a_silent_instance_is_avoided(void **state)
{
	(void)state;
	make_list(2, true);
	for (size_t i = 0; i < 2; i++) {
		see(i, REA_OUTCOME_OK, MS(10), S(1));
		rea_load_begin(&loads[i], S(2));
	}
	for (int i = 0; i < 1000; i++)
		choose(S(2) + MS(10));
	assert_in_range(picks[0], 400, 600);
	/* The other one answers, and has another request at once: ten times as many may wait there. */
	finish(0, REA_OUTCOME_OK, MS(10), S(2) + MS(100));
	for (int i = 0; i < 15; i++)
		rea_load_begin(&loads[0], S(2) + MS(100));
	picks[0] = picks[1] = 0;
	for (int i = 0; i < 100; i++)
		choose(S(2) + MS(100));
	assert_int_equal(picks[0], 100);
	rea_load_begin(&loads[0], S(2) + MS(100));
	for (int i = 0; i < 8; i++)
		rea_load_begin(&loads[0], S(2) + MS(100));
	picks[0] = picks[1] = 0;
	for (int i = 0; i < 100; i++)
		choose(S(2) + MS(100));
	assert_int_equal(picks[1], 100);
}

static void listed_takes_the_first(void **state)
{
	struct rea_instance_id excluded[2];

	(void)state;
	make_list(3, false);
	list.balance = REA_BALANCE_LISTED;
	rea_load_begin(&loads[0], 0);
	excluded[0] = items[0].id;
	excluded[1] = items[2].id;
	assert_int_equal(choose(0), 0);
	assert_int_equal(rea_balancer_choose(&list, excluded, 1, &random_source, 0), 1);
	assert_int_equal(rea_balancer_choose(&list, excluded, 2, &random_source, 0), 1);
	/* A lower tier comes before the order. */
	list.equal_weights = false;
	items[0].tier = 5;
	items[1].tier = items[2].tier = 1;
	assert_int_equal(choose(0), 1);
	excluded[0] = items[1].id;
	assert_int_equal(rea_balancer_choose(&list, excluded, 1, &random_source, 0), 2);
	excluded[1] = items[2].id;
	assert_int_equal(rea_balancer_choose(&list, excluded, 2, &random_source, 0), 0);
}

static void property_never_an_excluded_one(void **state)
{
	(void)state;
	make_list(MAX, false);
	for (int i = 0; i < 20000; i++) {
		struct rea_instance_id excluded[MAX];
		uint64_t set = rea_random_below(&random_source, 1 << MAX);
		size_t excluded_len = 0, chosen;

		for (size_t k = 0; k < MAX; k++) {
			items[k].weight = (uint32_t)rea_random_below(&random_source, 4);
			items[k].load = rea_random_below(&random_source, 4) ? &loads[k] : NULL;
			loads[k].in_flight = (uint32_t)rea_random_below(&random_source, 3);
			loads[k].latency_ns = (double)rea_random_below(&random_source, MS(50));
			loads[k].failure_rate = (double)rea_random_below(&random_source, 101) / 100;
			if (set >> k & 1)
				excluded[excluded_len++] = items[k].id;
		}
		list.equal_weights = i % 2 == 0;
		chosen = rea_balancer_choose(&list, excluded, excluded_len, &random_source, S(i));
		assert_true(excluded_len == MAX ? chosen == SIZE_MAX : chosen < MAX && !(set >> chosen & 1));
	}
}

/* Standbys get nothing as long as one before them may be chosen, and then by their weights. */
static void test_tiers_of_weighted_lists(void **state)
{
	struct rea_instance_id tried[2];

	(void)state;
	make_list(4, false);
	items[0].tier = items[1].tier = 7;
	items[2].tier = items[3].tier = 3;
	items[2].weight = 9;
	for (int i = 0; i < 2000; i++)
		choose(S(1));
	assert_int_equal(picks[0] + picks[1], 0);
	assert_share(2, 2000, 0.85, 0.95);
	tried[0] = items[2].id;
	for (int i = 0; i < 50; i++)
		assert_int_equal(rea_balancer_choose(&list, tried, 1, &random_source, S(1)), 3);
	tried[1] = items[3].id;
	for (int i = 0; i < 50; i++)
		assert_true(rea_balancer_choose(&list, tried, 2, &random_source, S(1)) < 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_tiers_of_weighted_lists),
	    cmocka_unit_test(nothing_to_choose_from),
	    cmocka_unit_test(idle_instances_share_by_weight),
	    cmocka_unit_test(near_ties_go_to_the_first_drawn),
	    cmocka_unit_test(requests_in_flight_count_by_weight),
	    cmocka_unit_test(a_slow_instance_gets_little),
	    cmocka_unit_test(a_failing_instance_is_no_attraction),
	    cmocka_unit_test(what_was_seen_fades),
	    cmocka_unit_test(a_failing_instance_is_tried_again),
	    cmocka_unit_test(moving_averages),
	    cmocka_unit_test(a_new_instance_is_neither_flooded_nor_shunned),
	    cmocka_unit_test(a_silent_instance_is_avoided),
	    cmocka_unit_test(listed_takes_the_first),
	    cmocka_unit_test(property_never_an_excluded_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
