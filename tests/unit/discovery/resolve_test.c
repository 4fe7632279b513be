#include "discovery/resolve.h"

#include <rea/call.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char *text_of(const struct rea_instance_id *id)
{
	static char text[64];

	rea_instance_id_format(id, text, sizeof(text));
	return text;
}

static void numbers(void **state)
{
	static const char *const addresses[] = {"127.0.0.1:9001", "[::1]:9001", "10.1.2.3:65535"};

	(void)state;
	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		struct rea_instance_id ids[RESOLVE_ADDRESSES_MAX];
		size_t count = 0;

		assert_int_equal(resolve_address(addresses[i], ids, RESOLVE_ADDRESSES_MAX, &count, NULL), 0);
		assert_int_equal(count, 1);
		assert_string_equal(text_of(&ids[0]), addresses[i]);
	}
}

/* The one name that every system knows. Each of its addresses once, and no more than there is room for. */
static void a_name(void **state)
{
	struct rea_instance_id ids[RESOLVE_ADDRESSES_MAX];
	size_t count = 0, fewer = 0;
	bool loopback = false;

	(void)state;
	assert_int_equal(resolve_address("localhost:81", ids, RESOLVE_ADDRESSES_MAX, &count, NULL), 0);
	assert_in_range(count, 1, RESOLVE_ADDRESSES_MAX);
	for (size_t i = 0; i < count; i++) {
		loopback = loopback || strcmp(text_of(&ids[i]), "127.0.0.1:81") == 0 ||
			   strcmp(text_of(&ids[i]), "[::1]:81") == 0;
		for (size_t j = 0; j < i; j++)
			assert_false(rea_instance_id_equal(&ids[i], &ids[j]));
	}
	assert_true(loopback);
	assert_int_equal(resolve_address("localhost:81", ids, 1, &fewer, NULL), 0);
	assert_int_equal(fewer, 1);
}

static void refused(void **state)
{
	static const struct {
		const char *address, *message;
		int error;
	} cases[] = {
	    {"localhost", "localhost is no address with a port from 1 to 65535", REA_ERR_INVALID},
	    {"localhost:", "localhost: is no address with a port from 1 to 65535", REA_ERR_INVALID},
	    {":80", ":80 is no address with a port from 1 to 65535", REA_ERR_INVALID},
	    {"localhost:0", "localhost:0 is no address with a port from 1 to 65535", REA_ERR_INVALID},
	    {"localhost:65536", "localhost:65536 is no address with a port from 1 to 65535", REA_ERR_INVALID},
	    {"", " is no address with a port from 1 to 65535", REA_ERR_INVALID},
	};
	struct rea_instance_id ids[1];
	struct rea_error_info info;
	size_t count = 77;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(resolve_address(cases[i].address, ids, 1, &count, &info), cases[i].error);
		assert_string_equal(info.message, cases[i].message);
	}
	/* A name under "invalid" exists nowhere (RFC 2606). */
	assert_int_equal(resolve_address("nowhere.invalid:80", ids, 1, &count, &info), REA_ERR_NOT_FOUND);
	assert_memory_equal(info.message, "nowhere.invalid:80 cannot be resolved: ", 39);
	assert_int_equal(count, 77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(numbers), cmocka_unit_test(a_name), cmocka_unit_test(refused)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
