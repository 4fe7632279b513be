/* What metadata says of methods, in all its forms, and what a contract makes of it. */
#include "discovery/permits.h"

#include <rea/error.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static char problem[200];

/* Of {"a": …} as it stands. Freed by the caller. */
static char *read(const char *text)
{
	json_t *metadata = json_loads(text, 0, NULL);
	char *permits;

	assert_non_null(metadata);
	problem[0] = '\0';
	assert_int_equal(permits_read(metadata, &permits, problem, sizeof(problem)), 0);
	json_decref(metadata);
	return permits;
}

static void values(void **state)
{
	static const struct {
		const char *metadata;
		enum rea_permission get, pay, none;
	} cases[] = {
	    {"{}", REA_PERMISSION_NONE, REA_PERMISSION_NONE, REA_PERMISSION_NONE},
	    {"{\"version\":\"1\",\"rea.retryables\":\"true\"}", REA_PERMISSION_NONE, REA_PERMISSION_NONE, REA_PERMISSION_NONE},
	    {"{\"rea.retryable\":\"true\"}", REA_PERMISSION_IDEMPOTENT, REA_PERMISSION_IDEMPOTENT, REA_PERMISSION_IDEMPOTENT},
	    {"{\"rea.retryable\":true}", REA_PERMISSION_IDEMPOTENT, REA_PERMISSION_IDEMPOTENT, REA_PERMISSION_IDEMPOTENT},
	    {"{\"rea.retryable\":\" False \"}", REA_PERMISSION_FORBID, REA_PERMISSION_FORBID, REA_PERMISSION_FORBID},
	    /* A list: what it does not name is not declared. */
	    {"{\"rea.retryable\":\"get\"}", REA_PERMISSION_IDEMPOTENT, REA_PERMISSION_UNKNOWN, REA_PERMISSION_UNKNOWN},
	    {"{\"rea.retryable\":\" get=safe , pay = with-key,\"}", REA_PERMISSION_SAFE,
		REA_PERMISSION_IDEMPOTENT_WITH_KEY, REA_PERMISSION_UNKNOWN},
	    {"{\"rea.retryable\":\"\"}", REA_PERMISSION_UNKNOWN, REA_PERMISSION_UNKNOWN, REA_PERMISSION_UNKNOWN},
	    {"{\"rea.retryable\":\"get,*=with-key\"}", REA_PERMISSION_IDEMPOTENT, REA_PERMISSION_IDEMPOTENT_WITH_KEY,
		REA_PERMISSION_IDEMPOTENT_WITH_KEY},
	    /* One method alone: nothing is said of the others. */
	    {"{\"rea.retryable.get\":\"true\"}", REA_PERMISSION_IDEMPOTENT, REA_PERMISSION_NONE, REA_PERMISSION_NONE},
	    /* The more restrictive of two. */
	    {"{\"rea.retryable\":\"get,pay\",\"rea.retryable.pay\":\"false\"}", REA_PERMISSION_IDEMPOTENT,
		REA_PERMISSION_FORBID, REA_PERMISSION_UNKNOWN},
	    {"{\"rea.retryable\":\"false\",\"rea.retryable.pay\":\"true\"}", REA_PERMISSION_FORBID,
		REA_PERMISSION_FORBID, REA_PERMISSION_FORBID},
	    {"{\"rea.retryable\":\"true\",\"rea.retryable.pay\":\"with-key\"}", REA_PERMISSION_IDEMPOTENT,
		REA_PERMISSION_IDEMPOTENT_WITH_KEY, REA_PERMISSION_IDEMPOTENT},
	    {"{\"rea.retryable\":\"pay=safe,pay=false,pay\"}", REA_PERMISSION_UNKNOWN, REA_PERMISSION_FORBID,
		REA_PERMISSION_UNKNOWN},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *permits = read(cases[i].metadata);

		assert_int_equal(permits_of(permits, rea_slice_of("get")), cases[i].get);
		assert_int_equal(permits_of(permits, rea_slice_of("pay")), cases[i].pay);
		assert_int_equal(permits_of(permits, rea_slice_make(NULL, 0)), cases[i].none);
		assert_string_equal(problem, "");
		free(permits);
	}
}

static void what_cannot_be_read(void **state)
{
	static const char *const wrong[] = {"{\"rea.retryable.pay\":\"maybe\"}", "{\"rea.retryable\":\"pay=maybe,get\"}",
	    "{\"rea.retryable.pay\":7}", "{\"rea.retryable.pay\":null}", "{\"rea.retryable.pay\":\"\"}"};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char *permits = read(wrong[i]);

		assert_int_equal(permits_of(permits, rea_slice_of("pay")), REA_PERMISSION_UNKNOWN);
		assert_non_null(strstr(problem, "rea.retryable of pay: \""));
		assert_non_null(strstr(problem, "is none of true, false, with-key and safe"));
		free(permits);
	}
}

static void equal_meanings_are_equal(void **state)
{
	char *one = read("{\"rea.retryable\":\"b,a=safe\",\"rea.retryable.c\":\"false\"}"),
	     *other = read("{\"rea.retryable.c\":\"false\",\"x\":\"y\",\"rea.retryable\":\" a = SAFE,b = true\"}");

	(void)state;
	assert_string_equal(one, other);
	assert_string_equal(one, "*=4,a=1,b=2,c=5");
	free(one);
	free(other);
}

/* One more than may be: nothing of it counts. */
static void limits(void **state)
{
	for (size_t count = PERMITS_METHODS_MAX; count <= PERMITS_METHODS_MAX + 1; count++) {
		json_t *metadata = json_object();
		char *permits;

		(void)state;
		for (size_t i = 0; i < count; i++) {
			char key[40];

			snprintf(key, sizeof(key), PERMITS_KEY ".m%zu", i);
			assert_int_equal(json_object_set_new(metadata, key, json_true()), 0);
		}
		problem[0] = '\0';
		assert_int_equal(permits_read(metadata, &permits, problem, sizeof(problem)), 0);
		assert_int_equal(permits_of(permits, rea_slice_of("m999")),
		    count == PERMITS_METHODS_MAX ? REA_PERMISSION_IDEMPOTENT : REA_PERMISSION_UNKNOWN);
		assert_int_equal(problem[0] == '\0', count == PERMITS_METHODS_MAX);
		free(permits);
		json_decref(metadata);
	}
}

static void of_a_contract_and_back(void **state)
{
	static const struct rea_operation operations[] = {
	    {.key = "get", .http_method = "GET", .path = "/a", .grant = {REA_PERMISSION_IDEMPOTENT, REA_PERMISSION_SOURCE_CONFIG}},
	    {.key = "list", .http_method = "GET", .path = "/b", .grant = {REA_PERMISSION_SAFE, REA_PERMISSION_SOURCE_CONFIG}},
	    {.key = "pay",
		.http_method = "POST",
		.path = "/c",
		.grant = {REA_PERMISSION_IDEMPOTENT_WITH_KEY, REA_PERMISSION_SOURCE_CONFIG}},
	    {.key = "drop", .http_method = "POST", .path = "/d", .grant = {REA_PERMISSION_FORBID, REA_PERMISSION_SOURCE_CONFIG}},
	    {.key = "open", .http_method = "POST", .path = "/e", .grant = {REA_PERMISSION_NONE, REA_PERMISSION_SOURCE_NONE}},
	};
	struct rea_contract *contract;
	json_t *metadata;
	char *text, *permits;

	(void)state;
	assert_int_equal(rea_contract_new(NULL, &contract), 0);
	text = permits_write(contract);
	assert_string_equal(text, "");
	free(text);
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
		assert_int_equal(rea_contract_add(contract, &operations[i], NULL), 0);
	assert_int_equal(rea_contract_finish(contract), 0);
	text = permits_write(contract);
	assert_string_equal(text, "get,list=safe,pay=with-key,drop=false");
	metadata = json_pack("{s:s}", PERMITS_KEY, text);
	assert_int_equal(permits_read(metadata, &permits, problem, sizeof(problem)), 0);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(permits_of(permits, rea_slice_of(operations[i].key)), operations[i].grant.permission);
	assert_int_equal(permits_of(permits, rea_slice_of("open")), REA_PERMISSION_UNKNOWN);
	free(permits);
	free(text);
	json_decref(metadata);
	rea_contract_free(contract);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(values),
	    cmocka_unit_test(what_cannot_be_read),
	    cmocka_unit_test(equal_meanings_are_equal),
	    cmocka_unit_test(limits),
	    cmocka_unit_test(of_a_contract_and_back),
	};

	return cmocka_run_group_tests_name("permits", tests, NULL, NULL);
}
