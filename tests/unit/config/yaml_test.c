/* The tree: positions, the subset, the limits on each side. */
#include "config/yaml.h"

#include "../fail_alloc.h"
#include "refusal.h"

#include <stdlib.h>

static int tree(const char *text, size_t length, struct rea__tree *ret_tree, struct rea_error_info *info)
{
	return rea__tree_parse("t.yaml", text, length, rea_alloc_default(), ret_tree, info);
}

static void kinds_and_positions(void **state)
{
	static const char text[] = "a: x\n"
				   "bb:\n"
				   "  - 'q'\n"
				   "  - {k: ~}\n"
				   "# done\n";
	struct rea_error_info info;
	struct rea__tree t;
	const struct rea__node *a, *list, *quoted, *mapping, *null;

	(void)state;
	assert_int_equal(tree(text, sizeof(text) - 1, &t, &info), 0);
	assert_int_equal(t.root->kind, REA__MAPPING);
	assert_int_equal(t.root->length, 2);
	a = t.root->first;
	list = a->next;
	assert_null(list->next);
	assert_string_equal(a->key->text, "a");
	assert_string_equal(a->text, "x");
	assert_true(a->plain);
	assert_int_equal(a->line, 1);
	assert_int_equal(a->column, 4);
	assert_int_equal(a->key->column, 1);
	assert_ptr_equal(a->parent, t.root);
	assert_int_equal(list->kind, REA__SEQUENCE);
	assert_int_equal(list->length, 2);
	assert_int_equal(list->key->line, 2);
	quoted = list->first;
	mapping = quoted->next;
	assert_false(quoted->plain);
	assert_int_equal(quoted->line, 3);
	assert_int_equal(quoted->column, 5);
	null = mapping->first;
	assert_true(rea__node_is_null(null));
	assert_int_equal(null->line, 4);
	assert_int_equal(null->column, 9);
	rea__tree_free(&t);
}

static void nothing_at_all(void **state)
{
	static const char *const texts[] = {"", "\n", "# only words\n", "---\n", "---\n...\n"};
	struct rea_config *config;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		config = parse(texts[i]);
		assert_int_equal(rea_config_services_count(config), 0);
		rea_config_unref(config);
	}
	config = NULL;
	assert_int_equal(rea_config_parse(NULL, NULL, 0, NULL, &config, NULL), 0);
	rea_config_unref(config);
}

static void nulls(void **state)
{
	static const struct {
		const char *text;
		bool null;
	} cases[] = {{"", true}, {"~", true}, {"null", true}, {"NULL", true}, {"''", false}, {"'~'", false},
	    {"nul", false}, {"[]", false}};
	struct rea_error_info info;
	struct rea__tree t;
	char text[32];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "k: %s\n", cases[i].text);
		assert_int_equal(tree(text, strlen(text), &t, &info), 0);
		assert_int_equal(rea__node_is_null(t.root->first), cases[i].null);
		rea__tree_free(&t);
	}
}

static char *filled(size_t length, char with)
{
	char *text = malloc(length + 1);

	assert_non_null(text);
	memset(text, with, length);
	text[length] = '\0';
	return text;
}

static void bytes_limit(void **state)
{
	char *text = filled(REA__YAML_BYTES_MAX + 1, '\n');
	struct rea_error_info info;
	struct rea__tree t;

	(void)state;
	assert_int_equal(tree(text, REA__YAML_BYTES_MAX, &t, &info), 0);
	rea__tree_free(&t);
	assert_int_equal(tree(text, REA__YAML_BYTES_MAX + 1, &t, &info), REA_ERR_LIMIT);
	assert_string_equal(info.message, "the document is larger than 16 MiB");
	free(text);
}

static void depth_limit(void **state)
{
	char *text = filled(2 * REA__YAML_DEPTH_MAX + 2, ']');
	struct rea_error_info info;
	struct rea__tree t;

	(void)state;
	memset(text, '[', REA__YAML_DEPTH_MAX);
	assert_int_equal(tree(text, 2 * REA__YAML_DEPTH_MAX, &t, &info), 0);
	rea__tree_free(&t);
	text[REA__YAML_DEPTH_MAX] = '[';
	assert_int_equal(tree(text, 2 * REA__YAML_DEPTH_MAX + 2, &t, &info), REA_ERR_LIMIT);
	assert_string_equal(info.message, "the document is nested more than 64 levels deep");
	assert_int_equal(info.line, 1);
	assert_int_equal(info.column, 65);
	free(text);
}

/* A list of n scalars is n + 1 nodes. */
static int list_of(size_t scalars, struct rea_error_info *info)
{
	char *text = filled(2 * scalars + 1, ',');
	struct rea__tree t;
	int error;

	for (size_t i = 0; i < scalars; i++)
		text[2 * i + 1] = 'x';
	text[0] = '[';
	text[2 * scalars] = ']';
	error = tree(text, 2 * scalars + 1, &t, info);
	if (error == 0) {
		assert_int_equal(t.root->length, scalars);
		rea__tree_free(&t);
	}
	free(text);
	return error;
}

static void nodes_limit(void **state)
{
	struct rea_error_info info;

	(void)state;
	assert_int_equal(list_of(REA__YAML_NODES_MAX - 1, &info), 0);
	assert_int_equal(list_of(REA__YAML_NODES_MAX, &info), REA_ERR_LIMIT);
	assert_string_equal(info.message, "the document has more than 2000000 values");
}

/* Few keys are compared one with another, many through a table: both find the second. */
static void doubles_among_many_keys(void **state)
{
	struct rea_error_info info;
	struct rea__tree t;
	char text[4096] = "";
	size_t at = 0;

	(void)state;
	for (int i = 0; i < 100; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "k%d: v\n", i);
	assert_int_equal(tree(text, at, &t, &info), 0);
	assert_int_equal(t.root->length, 100);
	rea__tree_free(&t);
	at += (size_t)snprintf(text + at, sizeof(text) - at, "k42: v\n");
	assert_int_equal(tree(text, at, &t, &info), REA_ERR_INVALID);
	assert_int_equal(info.line, 101);
	assert_string_equal(info.message, "the key \"k42\" stands here a second time; the first is on line 43");
}

static void quoting(void **state)
{
	char buffer[REA__QUOTE_SIZE], expected[REA__QUOTE_SIZE], long_text[200];

	(void)state;
	assert_string_equal(rea__quote(REA_SLICE_LIT("a\nb\033c"), buffer), "\"a?b?c\"");
	memset(long_text, 'x', sizeof(long_text));
	snprintf(expected, sizeof(expected), "\"%.66s...\"", long_text);
	assert_string_equal(rea__quote(rea_slice_make(long_text, sizeof(long_text)), buffer), expected);
	/* The cut does not fall into a character. */
	memcpy(long_text + 65, "\xc3\xa4", 2);
	snprintf(expected, sizeof(expected), "\"%.65s...\"", long_text);
	assert_string_equal(rea__quote(rea_slice_make(long_text, sizeof(long_text)), buffer), expected);
}

static void other_encodings(void **state)
{
	static const char utf16[] = "\xff\xfe"
				    "a\0:\0 \0x\0";
	static const char broken[] = "a: \xff\xff\n";
	struct rea_error_info info;
	struct rea__tree t;

	(void)state;
	assert_int_equal(tree(utf16, sizeof(utf16) - 1, &t, &info), 0);
	assert_string_equal(t.root->first->text, "x");
	rea__tree_free(&t);
	assert_int_equal(tree(broken, sizeof(broken) - 1, &t, &info), REA_ERR_SYNTAX);
	assert_string_equal(info.message, "invalid leading UTF-8 octet near byte 3: the document must be UTF-8 text");
}

static void out_of_memory(void **state)
{
	static const char text[] =
	    "a: {b: [1, 2, 3], c: d, d: 1, e: 1, f: 1, g: 1, h: 1, i: 1, j: 1, k: 1, l: 1, m: 1, n: 1, o: 1}\n";
	struct rea_error_info info;
	struct rea__tree t;

	(void)state;
	for (int for_good = 0; for_good < 2; for_good++)
		for (size_t n = 0;; n++) {
			struct fail_alloc failing;
			int error;

			fail_alloc_init(&failing, n, for_good);
			error = rea__tree_parse("t", text, sizeof(text) - 1, &failing.alloc, &t, &info);
			if (error == 0) {
				rea__tree_free(&t);
				assert_int_equal(failing.live, 0);
				assert_true(n > 1);
				break;
			}
			assert_int_equal(error, REA_ERR_NOMEM);
			assert_int_equal(failing.live, 0);
		}
}

/* A document may come from a registry: nothing that it says moves a cursor. */
static void control_characters_are_disarmed(void **state)
{
	static const char *const texts[] = {"\"a\\eb\": 1\n", "profiles: {\"a\\eb\": {profile: \"a\\eb\"}}\n"};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct rea_config *config = NULL;
		struct rea_error_info info;

		assert_int_equal(rea_config_parse("t", texts[i], strlen(texts[i]), NULL, &config, &info), REA_ERR_INVALID);
		assert_null(strchr(info.key, '\033'));
		assert_null(strchr(info.message, '\033'));
		assert_non_null(strstr(info.key, "a?b"));
		assert_non_null(strstr(info.message, "a?b"));
	}
}

static const struct refusal refusals[] = {
    {"a: [1\n", REA_ERR_SYNTAX, 2, 1, "", "while parsing a flow sequence: did not find expected ',' or ']'"},
    {"a: b: c\n", REA_ERR_SYNTAX, 1, 5, "", "mapping values are not allowed in this context"},
    {"a:\n\t- b\n", REA_ERR_SYNTAX, 2, 1, "",
	"while scanning for the next token: a tab where YAML expects spaces: indent with spaces"},
    {"listen: *x\n", REA_ERR_SYNTAX, 1, 9, "", "aliases are not supported: write the value of \"x\" out, or use a profile"},
    {"a: &x 1\nb: *x\n", REA_ERR_SYNTAX, 2, 4, "", "aliases are not supported: write the value of \"x\" out, or use a profile"},
    {"a: 1\n---\nb: 2\n", REA_ERR_SYNTAX, 2, 1, "", "a second document begins here: one file holds one document"},
    {"{a: 1}: 2\n", REA_ERR_SYNTAX, 1, 1, "", "a key must be a single word or text, not a list or a mapping"},
    {"? [a]\n: b\n", REA_ERR_SYNTAX, 1, 3, "", "a key must be a single word or text, not a list or a mapping"},
    {"listen: !!str a\n", REA_ERR_SYNTAX, 1, 9, "", "tags (!...) are not supported: write the plain value"},
    {"services: !x {}\n", REA_ERR_SYNTAX, 1, 11, "", "tags (!...) are not supported: write the plain value"},
    {"listen: \"a\\0b\"\n", REA_ERR_SYNTAX, 1, 9, "", "the text holds a NUL character"},
    {"a: \001\n", REA_ERR_SYNTAX, 1, 1, "", "control characters are not allowed near byte 3: the document must be UTF-8 text"},
    {"threads: 'a\n", REA_ERR_SYNTAX, 2, 1, "", "while scanning a quoted scalar: found unexpected end of stream"},
    {" - a\n b\n", REA_ERR_SYNTAX, 3, 1, "", "while scanning a simple key: could not find expected ':'"},
    {"<<: {a: b}\n", REA_ERR_INVALID, 1, 1, "<<", "the document has no key \"<<\""},
};

static void refused(void **state)
{
	(void)state;
	CHECK_REFUSALS(refusals);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(kinds_and_positions),
	    cmocka_unit_test(nothing_at_all),
	    cmocka_unit_test(nulls),
	    cmocka_unit_test(bytes_limit),
	    cmocka_unit_test(depth_limit),
	    cmocka_unit_test(nodes_limit),
	    cmocka_unit_test(doubles_among_many_keys),
	    cmocka_unit_test(quoting),
	    cmocka_unit_test(other_encodings),
	    cmocka_unit_test(control_characters_are_disarmed),
	    cmocka_unit_test(out_of_memory),
	    cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
