/* Values, and what layers come to. */
#include "rig.h"

#define S REA_NS_PER_S
#define MS REA_NS_PER_MS

static void durations(void **state)
{
	static const struct {
		const char *text;
		uint64_t bare_ns, ns;
	} good[] = {
	    {"5s", 1, 5 * S},
	    {"PT5S", 1, 5 * S},
	    {"pt1m30s", 1, 90 * S},
	    {"1m30s", 1, 90 * S},
	    {"250ms", 1, 250 * MS},
	    {"1.5s", 1, 1500 * MS},
	    {" 40 ", MS, 40 * MS},
	    {"2d", 1, 2 * 86400 * S},
	    {"10us", 1, 10000},
	    {"0", MS, 0},
	    {"5 s", 1, 5 * S},
	    {"99999999999999999999h", 1, REA_NEVER},
	};
	static const char *const bad[] = {"", " ", "s", "5x", "PT", "-5s", "5s5", "1.2.3s", "abc", "5ss", "."};
	uint64_t ns;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		ns = 1;
		if (!check_duration(rea_slice_of(good[i].text), good[i].bare_ns, &ns) || ns != good[i].ns)
			fail_msg("%s: %llu", good[i].text, (unsigned long long)ns);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ns = 7;
		if (check_duration(rea_slice_of(bad[i]), 1, &ns) || ns != 7)
			fail_msg("\"%s\" is a duration", bad[i]);
	}
}

static void time_texts(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {{0, "0 ms"}, {1, "1 ms"}, {999 * MS, "999 ms"}, {S, "1 s"}, {1500 * MS, "1.5 s"},
	    {119 * S, "119 s"}, {120 * S, "2 min"}, {90 * 60 * S, "90 min"}, {7200 * S, "2 h"}, {REA_NEVER, "no limit"}};
	struct check *check = new_check(NULL);

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(check_time_text(check, cases[i].ns), cases[i].text);
	check_free(check);
}

static void waits(void **state)
{
	(void)state;
	assert_int_equal(check_waits(1, 100, 2, REA_NEVER), 0);
	assert_int_equal(check_waits(2, 100, 2, REA_NEVER), 100);
	assert_int_equal(check_waits(5, 100, 2, REA_NEVER), 1500);
	assert_int_equal(check_waits(5, 100, 2, 250), 100 + 200 + 250 + 250);
	assert_int_equal(check_waits(5, 500, 2, 250), 4 * 250);
	assert_int_equal(check_waits(4, 100, 1, 50), 150);
	assert_int_equal(check_waits(1000001, S, 2, 10 * S), (1 + 2 + 4 + 8) * S + (UINT64_C(1000000) - 4) * 10 * S);
	assert_int_equal(check_waits(UINT32_MAX, S, 2, 10 * S), REA_NEVER);
	assert_int_equal(check_waits(UINT32_MAX, REA_NEVER, 1, REA_NEVER), REA_NEVER);
}

static void names(void **state)
{
	(void)state;
	assert_true(check_same_name(REA_SLICE_LIT("order-service"), REA_SLICE_LIT("OrderService")));
	assert_true(check_same_name(REA_SLICE_LIT("a_b-"), REA_SLICE_LIT("ab")));
	assert_false(check_same_name(REA_SLICE_LIT("ab"), REA_SLICE_LIT("abc")));
	assert_false(check_same_name(REA_SLICE_LIT("abc"), REA_SLICE_LIT("ab")));
}

static void shown(void **state)
{
	struct check *check = new_check(NULL);

	(void)state;
	assert_string_equal(check_shown(check, REA_SLICE_LIT("a\x1b[31m\n\x7f")), "a?[31m??");
	assert_string_equal(check_shown(check, REA_SLICE_LIT("\xc3\xa9\xf0\x9f\x98\x80")), "\xc3\xa9\xf0\x9f\x98\x80");
	assert_string_equal(check_shown(check, REA_SLICE_LIT("\xc3|\xff|\xc0\xaf|\xed\xa0\x80")), "?|?|??|???");
	check_free(check);
}

/* Three layers around requests of 1 s and 4 s, with waits, and limits of which each cuts what is inside it. */
static void amounts(void **state)
{
	struct check *check = new_check(NULL);
	struct check_file file = {.name = "f", .shown = "f", .kind = CHECK_KIND_ENVOY};
	struct check_app *app = check_app_of(check, &file, "f", "f");
	struct check_target *target = check_target_new(check, app, "route", "r", "", check_place_at(&file, 1, 1));
	struct check_layer *outer = check_layer_new(check, target, "outer", target->place);
	struct check_layer *inner = check_layer_new(check, target, "inner", target->place);
	struct check_layer *hidden = check_layer_new(check, target, "hidden", target->place);

	(void)state;
	target->connect_ns = S;
	target->read_ns = 4 * S;
	check_layer_repeats(outer, CHECK_ON_IO, CHECK_ALL_METHODS, 3, true);
	check_layer_waits(outer, CHECK_ON_IO, 2 * S);
	check_layer_repeats(inner, CHECK_BIT(CHECK_ON_TIMEOUT), CHECK_BIT(CHECK_GET), 2, false);
	check_layer_repeats(hidden, CHECK_BIT(CHECK_ON_CLOSED), CHECK_ALL_METHODS, 2, true);
	hidden->hidden = true;
	assert_int_equal(check_requests_most(target, CHECK_ON_TIMEOUT, CHECK_GET), 6);
	assert_int_equal(check_requests_least(target, CHECK_ON_TIMEOUT, CHECK_GET), 3);
	assert_int_equal(check_requests_most(target, CHECK_ON_CLOSED, CHECK_POST), 6);
	assert_int_equal(check_requests_most(target, CHECK_ON_500, CHECK_GET), 1);
	assert_int_equal(check_requests_worst(target), 6);
	assert_int_equal(check_time(target, CHECK_ON_CONNECT, CHECK_GET), 3 * S + 2 * S);
	assert_int_equal(check_time(target, CHECK_ON_TIMEOUT, CHECK_GET), 3 * 2 * 5 * S + 2 * S);
	assert_int_equal(check_time(target, CHECK_ON_500, CHECK_GET), 5 * S);
	assert_int_equal(check_time_worst(target), 32 * S);
	inner->most[CHECK_ON_TIMEOUT][CHECK_GET] = 1;
	assert_int_equal(check_time_worst(target), 32 * S);
	assert_int_equal(check_time_configured(target), 17 * S);
	inner->most[CHECK_ON_TIMEOUT][CHECK_GET] = 2;
	inner->attempt_ns = 2 * S;
	assert_int_equal(check_time(target, CHECK_ON_TIMEOUT, CHECK_GET), 3 * 2 * 2 * S + 2 * S);
	assert_int_equal(check_attempt_time(target), 2 * S);
	inner->total_ns = 3 * S;
	assert_int_equal(check_time(target, CHECK_ON_TIMEOUT, CHECK_GET), 3 * 3 * S + 2 * S);
	outer->total_ns = 8 * S;
	assert_int_equal(check_time(target, CHECK_ON_TIMEOUT, CHECK_GET), 8 * S);
	check_free(check);
}

static void amounts_saturate(void **state)
{
	struct check *check = new_check(NULL);
	struct check_file file = {.name = "f", .shown = "f", .kind = CHECK_KIND_ENVOY};
	struct check_app *app = check_app_of(check, &file, "f", "f");
	struct check_target *target = check_target_new(check, app, "route", "r", "", check_place_at(&file, 1, 1));

	(void)state;
	for (int i = 0; i < 3; i++)
		check_layer_repeats(check_layer_new(check, target, "l", target->place), CHECK_ALL_FAILURES,
		    CHECK_ALL_METHODS, UINT32_MAX, true);
	assert_int_equal(check_requests_worst(target), UINT64_MAX);
	target->connect_ns = target->read_ns = S;
	assert_int_equal(check_time_worst(target), REA_NEVER);
	check_free(check);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(durations),
	    cmocka_unit_test(time_texts),
	    cmocka_unit_test(waits),
	    cmocka_unit_test(names),
	    cmocka_unit_test(shown),
	    cmocka_unit_test(amounts),
	    cmocka_unit_test(amounts_saturate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
