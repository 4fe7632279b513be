#include "config/suggest.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const char *const names[] = {"enabled", "min-backoff-ms", "max-backoff-ms", "retry-on", "get", "never_sent"};

static void nearest(void **state)
{
	static const struct {
		const char *wanted;
		const char *hint;
	} cases[] = {
	    {"enable", "; did you mean enabled?"},
	    {"Enabled", "; did you mean enabled?"},
	    {"eanbled", "; did you mean enabled?"},
	    {"max-backof-ms", "; did you mean max-backoff-ms?"},
	    {"minBackoffMs", "; did you mean min-backoff-ms?"},
	    {"retryon", "; did you mean retry-on?"},
	    {"gte", "; did you mean get?"},
	    {"never-sent", "; did you mean never_sent?"},
	    {"port", ""},
	    {"timeout", ""},
	    {"", ""},
	    {"-", ""},
	    {"g", ""},
	};
	char buffer[REA__SUGGEST_SIZE];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rea__suggest suggest;

		rea__suggest_init(&suggest, rea_slice_of(cases[i].wanted));
		for (size_t j = 0; j < sizeof(names) / sizeof(names[0]); j++)
			rea__suggest_offer(&suggest, names[j]);
		assert_string_equal(rea__suggest_text(&suggest, buffer), cases[i].hint);
	}
}

/* Names of any length are safe; very long ones are not compared. */
static void long_names(void **state)
{
	struct rea__suggest suggest;
	char name[300];

	(void)state;
	for (size_t length = 90; length < 100; length++) {
		memset(name, 'x', length);
		name[length] = '\0';
		rea__suggest_init(&suggest, rea_slice_of(name));
		rea__suggest_offer(&suggest, name);
		assert_int_equal(suggest.nearest != NULL, length <= 96);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(nearest), cmocka_unit_test(long_names)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
