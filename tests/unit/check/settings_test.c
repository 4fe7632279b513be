/* Spring's properties: how they are written, which of them counts, and where they stand. */
#include "rig.h"

#include "check/settings.h"

#include <stdio.h>

static struct check *read_view(const char *name, const char *text, const char *profiles, struct check_view *ret_view)
{
	struct check *check = new_check(NULL);

	add(check, name, text);
	assert_true(check_view_make(check, check->apps, profiles, ret_view));
	return check;
}

static void assert_value(const struct check_view *view, const char *key, const char *value)
{
	const struct check_setting *setting = check_view_get(view, key, NULL);

	if (value == NULL && setting != NULL)
		fail_msg("%s is %s", key, setting->value);
	if (value != NULL && (setting == NULL || strcmp(setting->value, value) != 0))
		fail_msg("%s is %s, not %s", key, setting ? setting->value : "not set", value);
}

static void properties(void **state)
{
	static const char text[] = "# a comment\n"
				   "! another = one\r\n"
				   "a.b=1\n"
				   "  a.C-d : two words  \n"
				   "\ta.e 3\n"
				   "a.long = one \\\n"
				   "    two\\\r\n"
				   "\tthree\n"
				   "a.esc\\:aped\\=key = t\\tn\\u0041\\\\\n"
				   "a.empty\n"
				   "a.last = no newline";
	struct check_view view;
	struct check *check = read_view("a.properties", text, "", &view);
	const struct check_setting *setting;

	(void)state;
	assert_value(&view, "a.b", "1");
	assert_value(&view, "a.cd", "two words");
	assert_value(&view, "a.e", "3");
	assert_value(&view, "a.long", "one twothree");
	assert_value(&view, "a.esc:aped=key", "t\tnA\\");
	assert_value(&view, "a.empty", "");
	assert_value(&view, "a.last", "no newline");
	assert_value(&view, "another", NULL);
	setting = check_view_get(&view, "a.cd", NULL);
	assert_string_equal(setting->written, "a.C-d");
	assert_int_equal(setting->place.line, 4);
	assert_int_equal(setting->place.column, 3);
	assert_int_equal(setting->value_place.column, 11);
	setting = check_view_get(&view, "a.long", NULL);
	assert_int_equal(setting->place.line, 6);
	assert_int_equal(setting->last_line, 8);
	assert_int_equal(check_view_get(&view, "a.last", NULL)->place.line, 11);
	check_free(check);
}

static void relaxed_names(void **state)
{
	static const char *const keys[] = {"max-retries", "maxRetries", "MAX_RETRIES", "max_retries", "maxretries"};

	(void)state;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		char text[64];
		struct check_view view;
		struct check *check;

		snprintf(text, sizeof(text), "a.%s=7\n", keys[i]);
		check = read_view("a.properties", text, "", &view);
		assert_value(&view, "a.maxretries", "7");
		check_free(check);
	}
}

static void bracketed_names(void **state)
{
	struct check_view view;
	struct check *check = read_view(
	    "a.yml", "c:\n  \"[my.service]\": {x: 1}\n  my-other: {x: 2}\n  0: {x: 3}\nl: [a, {b: 4}]\n", "", &view);
	const char *names[8];

	(void)state;
	assert_int_equal(check_view_names(check, &view, "c.*", names, 8), 3);
	assert_string_equal(names[0], "0");
	assert_string_equal(names[1], "my.service");
	assert_string_equal(names[2], "my-other");
	assert_string_equal(check_view_get(&view, "c.*.x", "my.service")->value, "1");
	assert_string_equal(check_view_get(&view, "c.*.x", "MyOther")->value, "2");
	assert_value(&view, "l[0]", "a");
	assert_value(&view, "l[1].b", "4");
	check_free(check);
}

static void lists(void **state)
{
	struct check_setting items[CHECK_LIST_MAX];
	struct check_view view;
	struct check *check = read_view("a.yml", "a: [1, 2, 3]\nb: 4, 5 ,6\nc: ${b}\nd: []\n---\na: [9]\n", "", &view);

	(void)state;
	assert_int_equal(check_view_list(check, &view, "a", NULL, items), 1);
	assert_string_equal(items[0].value, "9");
	assert_int_equal(check_view_list(check, &view, "b", NULL, items), 3);
	assert_string_equal(items[1].value, "5");
	assert_int_equal(items[1].value_place.line, 2);
	assert_int_equal(items[1].value_place.column, 7);
	assert_string_equal(items[2].value, "6");
	assert_int_equal(check_view_list(check, &view, "c", NULL, items), 3);
	assert_int_equal(check_view_list(check, &view, "d", NULL, items), 0);
	assert_int_equal(check_view_list(check, &view, "e", NULL, items), 0);
	check_free(check);
}

static void placeholders(void **state)
{
	static const struct {
		const char *value, *result; /* NULL = not known */
	} cases[] = {
	    {"plain", "plain"},
	    {"${a}", "1"},
	    {"x${a}y${b-c}z", "x1y2z"},
	    {"${none:3}", "3"},
	    {"${none:${a}}", "1"},
	    {"${none:}", ""},
	    {"${none:a:b}", "a:b"},
	    {"${none}", NULL},
	    {"${none:${nothing}}", NULL},
	    {"${self}", NULL},
	    {"${open", "${open"},
	    {"${d}", "1"},
	};
	struct check_view view;
	struct check *check = read_view("a.properties", "a=1\nbC=2\nself=${self}\nd=${a}\n", "", &view);

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *result = check_view_resolve(check, &view, cases[i].value);

		if ((result == NULL) != (cases[i].result == NULL) || (result != NULL && strcmp(result, cases[i].result) != 0))
			fail_msg("%s is %s", cases[i].value, result ? result : "not known");
	}
	check_free(check);
}

static void profiles(void **state)
{
	static const struct {
		const char *expression, *profiles;
		bool matches;
	} cases[] = {
	    {"a", "a", true},
	    {"a", "b", false},
	    {"a", "", false},
	    {"default", "", true},
	    {"default", "a", false},
	    {"!a", "", true},
	    {"!a", "b,a", false},
	    {"a & b", "a,b", true},
	    {"a & b", "a", false},
	    {"a & !b", "a", true},
	    {"a | b", "b", true},
	    {"(a | b) & c", "b,c", true},
	    {"(a | b) & c", "b", false},
	    {"!(a | b)", "c", true},
	    {"a, b", "b", true},
	    {"a & b, c", "c", true},
	    {"((((a))))", "a", true},
	    {"!!a", "a", true},
	    {"(a", "a", true},
	    {"", "a", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (check_profile_matches(cases[i].expression, cases[i].profiles) != cases[i].matches)
			fail_msg("%s under %s", cases[i].expression, cases[i].profiles);
}

static void the_last_document_counts(void **state)
{
	static const char text[] = "a: 1\nb: 1\n"
				   "---\nspring.config.activate.on-profile: x\na: 2\n"
				   "---\nspring.profiles: y\na: 3\nb: 3\n"
				   "---\nb: 4\n";
	struct check_view view;
	struct check *check = read_view("a.yml", text, "", &view);

	(void)state;
	assert_value(&view, "a", "1");
	assert_value(&view, "b", "4");
	assert_true(check_view_make(check, check->apps, "x", &view));
	assert_value(&view, "a", "2");
	assert_true(check_view_make(check, check->apps, "y,x", &view));
	assert_value(&view, "a", "3");
	assert_value(&view, "b", "4");
	check_free(check);
}

static void merges(void **state)
{
	static const char text[] = "x: &x {a: 1, b: 2}\ny: &y {b: 3, c: 4}\n"
				   "one:\n  <<: *x\n  b: 5\ntwo:\n  <<: [*x, *y]\nthree: *x\n";
	struct check_view view;
	struct check *check = read_view("a.yml", text, "", &view);

	(void)state;
	assert_value(&view, "one.a", "1");
	assert_value(&view, "one.b", "5");
	assert_value(&view, "two.a", "1");
	assert_value(&view, "two.c", "4");
	assert_value(&view, "two.b", "2"); /* of several, the first one that has a key */
	assert_value(&view, "three.b", "2");
	check_free(check);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(properties),
	    cmocka_unit_test(relaxed_names),
	    cmocka_unit_test(bracketed_names),
	    cmocka_unit_test(lists),
	    cmocka_unit_test(placeholders),
	    cmocka_unit_test(profiles),
	    cmocka_unit_test(the_last_document_counts),
	    cmocka_unit_test(merges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
