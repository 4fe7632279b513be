/* The snapshot as a whole: lifetime, version, memory that runs out, size. */
#include "../fail_alloc.h"
#include "everything.h"
#include "refusal.h"

#include <stdlib.h>

static int parse_with(const struct rea_alloc *alloc, struct rea_config **config, struct rea_error_info *info)
{
	return rea_config_parse("rea.yaml", everything, sizeof(everything) - 1, alloc, config, info);
}

static void a_document_with_everything(void **state)
{
	struct fail_alloc counting;
	struct rea_config *config = NULL;
	struct rea_error_info info;
	struct rea_policy policy;

	(void)state;
	fail_alloc_init(&counting, SIZE_MAX, true);
	if (parse_with(&counting.alloc, &config, &info) != 0)
		fail_msg("%u:%u: %s: %s", info.line, info.column, info.key, info.message);
	assert_int_equal(rea_config_services_count(config), 2);
	assert_int_equal(rea_config_policy(config, "users", "user-api_get", &policy), 0);
	assert_int_equal(rea_policy_attempts(&policy), 4);
	assert_int_equal(policy.never_sent, REA_NEVER_SENT_ALLOW);
	assert_true(policy.breaker.enabled);
	assert_true(counting.live > 0);
	rea_config_unref(config);
	assert_int_equal(counting.live, 0);
}

static void references(void **state)
{
	struct fail_alloc counting;
	struct rea_config *config = NULL;

	(void)state;
	fail_alloc_init(&counting, SIZE_MAX, true);
	assert_int_equal(parse_with(&counting.alloc, &config, NULL), 0);
	assert_ptr_equal(rea_config_ref(config), config);
	rea_config_unref(config);
	assert_int_equal(rea_config_services_count(config), 2);
	rea_config_unref(config);
	assert_int_equal(counting.live, 0);
	rea_config_unref(NULL);
}

/* FNV-1a of the bytes: of none, its offset basis. */
static void version(void **state)
{
	struct rea_config *empty = parse(""), *one = parse("threads: 1\n"), *same = parse("threads: 1\n"),
			  *other = parse("threads: 1 \n");

	(void)state;
	assert_string_equal(rea_config_version(empty), "cbf29ce484222325");
	assert_int_equal(strlen(rea_config_version(one)), 16);
	assert_string_equal(rea_config_version(one), rea_config_version(same));
	assert_string_not_equal(rea_config_version(one), rea_config_version(other));
	rea_config_unref(empty);
	rea_config_unref(one);
	rea_config_unref(same);
	rea_config_unref(other);
}

/* Every allocation fails once, or from then on: nothing leaks, the caller's pointer is left alone, and the error
 * says what happened. */
static void out_of_memory(void **state)
{
	(void)state;
	for (int for_good = 0; for_good < 2; for_good++)
		for (size_t n = 0;; n++) {
			struct rea_config *untouched = (struct rea_config *)&for_good, *config = untouched;
			struct rea_error_info info;
			struct fail_alloc failing;
			int error;

			fail_alloc_init(&failing, n, for_good);
			error = parse_with(&failing.alloc, &config, &info);
			if (error == 0) {
				assert_true(n > 20);
				rea_config_unref(config);
				assert_int_equal(failing.live, 0);
				break;
			}
			assert_int_equal(error, REA_ERR_NOMEM);
			assert_string_equal(info.message, "out of memory");
			assert_ptr_equal(config, untouched);
			assert_int_equal(failing.live, 0);
		}
}

/* What fails late in a document is freed like what fails early. */
static void a_refused_document_leaves_nothing(void **state)
{
	char text[sizeof(everything) + 64];
	struct rea_config *config = NULL;
	struct fail_alloc counting;
	struct rea_error_info info;

	(void)state;
	snprintf(text, sizeof(text), "%s  more: 1\n", everything);
	fail_alloc_init(&counting, SIZE_MAX, true);
	assert_int_equal(rea_config_parse("rea.yaml", text, strlen(text), &counting.alloc, &config, &info), REA_ERR_INVALID);
	assert_string_equal(info.key, "tasks.more");
	assert_null(config);
	assert_int_equal(counting.live, 0);
}

#define METHODS 10000

/* Ten thousand methods: every one is found, and they share their policies. */
static void ten_thousand_methods(void **state)
{
	char *text = malloc(METHODS * 96 + 256), key[32];
	size_t at = (size_t)sprintf(text, RETRY "      service-configs:\n        s:\n          method-configs:\n");
	struct rea_config *config = NULL;
	struct rea_policy policy;

	(void)state;
	for (int i = 0; i < METHODS; i++)
		at += (size_t)sprintf(
		    text + at, "            api_m%d: {enabled: true, max-retry-next-instance: %d}\n", i, i % 7);
	assert_int_equal(rea_config_parse("rea.yaml", text, at, NULL, &config, NULL), 0);
	for (int i = 0; i < METHODS; i++) {
		sprintf(key, "api_m%d", i);
		assert_int_equal(rea_config_policy(config, "s", key, &policy), 0);
		assert_int_equal(policy.max_retry_next_instance, i % 7);
	}
	rea_config_unref(config);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_document_with_everything),
	    cmocka_unit_test(references),
	    cmocka_unit_test(version),
	    cmocka_unit_test(out_of_memory),
	    cmocka_unit_test(a_refused_document_leaves_nothing),
	    cmocka_unit_test(ten_thousand_methods),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
