#include <rea/permission.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct rea_grant grant(enum rea_permission permission, enum rea_permission_source source)
{
	return (struct rea_grant){permission, source};
}

static void the_most_restrictive_wins(void **state)
{
	static const enum rea_permission order[] = {REA_PERMISSION_NONE, REA_PERMISSION_SAFE, REA_PERMISSION_IDEMPOTENT,
	    REA_PERMISSION_IDEMPOTENT_WITH_KEY, REA_PERMISSION_UNKNOWN, REA_PERMISSION_FORBID};

	(void)state;
	for (size_t a = 0; a < REA_PERMISSION_COUNT; a++) {
		for (size_t b = 0; b < REA_PERMISSION_COUNT; b++) {
			struct rea_grant both = rea_grant_combine(grant(order[a], REA_PERMISSION_SOURCE_OPENAPI),
			    grant(order[b], REA_PERMISSION_SOURCE_REGISTRY));

			assert_int_equal(both.permission, order[a > b ? a : b]);
			assert_int_equal(both.source, b > a ? REA_PERMISSION_SOURCE_REGISTRY : REA_PERMISSION_SOURCE_OPENAPI);
		}
	}
}

static void names(void **state)
{
	(void)state;
	assert_string_equal(rea_permission_name(REA_PERMISSION_NONE), "none");
	assert_string_equal(rea_permission_name(REA_PERMISSION_IDEMPOTENT_WITH_KEY), "idempotent_with_key");
	assert_string_equal(rea_permission_name(REA_PERMISSION_FORBID), "forbid");
	assert_string_equal(rea_permission_name(REA_PERMISSION_COUNT), "unknown");
	assert_string_equal(rea_permission_source_name(REA_PERMISSION_SOURCE_CALLER), "caller");
	assert_string_equal(rea_permission_source_name(REA_PERMISSION_SOURCE_COUNT), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_most_restrictive_wins),
	    cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
