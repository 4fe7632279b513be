#include "config/reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void keys_in_both_cases(void **state)
{
	static const struct {
		const char *key;
		bool equal;
	} cases[] = {{"max-backoff-ms", true}, {"maxBackoffMs", true}, {"maxbackoffms", false}, {"MaxBackoffMs", false},
	    {"max_backoff_ms", false}, {"maxBackoff-ms", false}, {"maxBackoffM", false}, {"maxBackoffMss", false},
	    {"max-backoff-m", false}, {"", false}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(rea__key_equal(rea_slice_of(cases[i].key), "max-backoff-ms"), cases[i].equal);
}

static void hosts(void **state)
{
	static const char *const good[] = {"a", "users", "users.internal", "users.internal.", "a_b-c", "127.0.0.1",
	    "[::1]", "1a", "xn--bcher-kva.example"};
	static const char *const bad[] = {"", ".", ".a", "a..b", "a b", "a/b", "a:1", "1.2.3", "1234", "300.1.1.1",
	    "::1", "[::1", "[::g]", "a@b", "\xc3\xa4"};
	char long_name[256];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(rea__is_host(rea_slice_of(good[i])));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(rea__is_host(rea_slice_of(bad[i])));
	memset(long_name, 'a', sizeof(long_name));
	assert_true(rea__is_host(rea_slice_make(long_name, 253)));
	assert_false(rea__is_host(rea_slice_make(long_name, 254)));
}

static void hosts_with_ports(void **state)
{
	static const char *const good[] = {"a:1", "users.internal:65535", "127.0.0.1:80", "[::1]:80"};
	static const char *const bad[] = {
	    "a", "a:", ":80", "a:0", "a:65536", "a:+1", "a:1x", "::1:80", "127.0.0:80", "a b:80"};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(rea__is_host_port(rea_slice_of(good[i])));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(rea__is_host_port(rea_slice_of(bad[i])));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(keys_in_both_cases),
	    cmocka_unit_test(hosts),
	    cmocka_unit_test(hosts_with_ports),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
