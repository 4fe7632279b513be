/* URLs in one form, patterns on that form, addresses by what they are. */
#include "queue/vet.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void assert_url(const char *text, const char *expected)
{
	struct rea_error_info error;
	struct vet_url url;

	if (vet_url_parse(rea_slice_of(text), &url, &error) != 0)
		fail_msg("%s: %s", text, error.message);
	assert_string_equal(url.text, expected);
	vet_url_fini(&url);
	/* The normal form of the normal form is itself. */
	assert_int_equal(vet_url_parse(rea_slice_of(expected), &url, NULL), 0);
	assert_string_equal(url.text, expected);
	vet_url_fini(&url);
}

static void assert_refused(const char *text, const char *word)
{
	struct vet_url url = {.port = 7};
	struct rea_error_info error;

	if (vet_url_parse(rea_slice_of(text), &url, &error) != REA_ERR_INVALID)
		fail_msg("%s was taken", text);
	if (strstr(error.message, word) == NULL)
		fail_msg("%s: %s", text, error.message);
	assert_int_equal(url.port, 7);
}

static void a_url_has_one_form(void **state)
{
	(void)state;
	assert_url("https://hooks.example.com/in?a=b/../c", "https://hooks.example.com/in?a=b/../c");
	assert_url("HTTPS://Hooks.Example.COM", "https://hooks.example.com/");
	assert_url("https://hooks.example.com.:443/", "https://hooks.example.com/");
	assert_url("http://hooks.example.com:80?x", "http://hooks.example.com/?x");
	assert_url("http://hooks.example.com:/", "http://hooks.example.com/");
	assert_url("http://hooks.example.com:443/", "http://hooks.example.com:443/");
	assert_url("https://hooks.example.com:08443/", "https://hooks.example.com:8443/");
	assert_url("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example/");
	assert_url("http://a_b.internal/", "http://a_b.internal/");
}

static void its_parts_lie_in_it(void **state)
{
	struct vet_url url;

	(void)state;
	assert_int_equal(vet_url_parse(REA_SLICE_LIT("https://[2001:DB8::1]:8443/a/b?c=d"), &url, NULL), 0);
	assert_memory_equal(url.origin.data, "https://[2001:db8::1]:8443", url.origin.length);
	assert_int_equal(url.origin.length, 26);
	assert_memory_equal(url.host.data, "2001:db8::1", url.host.length);
	assert_int_equal(url.host.length, 11);
	assert_memory_equal(url.path.data, "/a/b", url.path.length);
	assert_int_equal(url.path.length, 4);
	assert_int_equal(url.port, 8443);
	assert_true(url.https);
	assert_true(url.is_address);
	vet_url_fini(&url);
}

static void paths_lose_their_detours(void **state)
{
	(void)state;
	assert_url("http://h/a/./b/../c", "http://h/a/c");
	assert_url("http://h/a/b/..", "http://h/a/");
	assert_url("http://h/a/.", "http://h/a/");
	assert_url("http://h/../../a", "http://h/a");
	assert_url("http://h/..", "http://h/");
	assert_url("http://h/a//../b", "http://h/a/b");
	assert_url("http://h/%2e%2E/admin", "http://h/admin");
	assert_url("http://h/a/.%2e/b", "http://h/b");
	assert_url("http://h/%61%7e%2d/%c3%a9", "http://h/a~-/%C3%A9");
	assert_url("http://h/a%2fb", "http://h/a%2Fb");
	assert_url("http://h/...", "http://h/...");
	assert_url("http://h/%2525", "http://h/%2525");
}

static void addresses_have_one_form(void **state)
{
	(void)state;
	assert_url("http://127.0.0.1/", "http://127.0.0.1/");
	assert_url("http://2130706433/", "http://127.0.0.1/");
	assert_url("http://0x7f.1/", "http://127.0.0.1/");
	assert_url("http://0X7F000001/", "http://127.0.0.1/");
	assert_url("http://0177.0.0.01/", "http://127.0.0.1/");
	assert_url("http://127.1.:8080/", "http://127.0.0.1:8080/");
	assert_url("http://10.0.258/", "http://10.0.1.2/");
	assert_url("http://0/", "http://0.0.0.0/");
	assert_url("http://0x/", "http://0.0.0.0/");
	assert_url("http://4294967295/", "http://255.255.255.255/");
	assert_url("http://[0:0:0:0:0:0:0:1]/", "http://[::1]/");
	assert_url("http://[::FFFF:7f00:1]/", "http://[::ffff:127.0.0.1]/");
	assert_url("http://1.example/", "http://1.example/");
	assert_refused("http://4294967296/", "host");
	assert_refused("http://256.0.0.1/", "host");
	assert_refused("http://1.2.3.4.5/", "host");
	assert_refused("http://1.2.3.08/", "host");
	assert_refused("http://a.0x1/", "host");
	assert_refused("http://99999999999999999999/", "host");
	assert_refused("http://1..2/", "host");
	assert_refused("http://[::1/", "brackets");
	assert_refused("http://[::1]x/", "brackets");
	assert_refused("http://[fe80::1%25eth0]/", "host");
	assert_refused("http://[127.0.0.1]/", "host");
	assert_refused("http://[]/", "host");
}

static void what_can_be_read_in_two_ways_is_refused(void **state)
{
	(void)state;
	assert_refused("", "http://");
	assert_refused("hooks.example.com/", "http://");
	assert_refused("//hooks.example.com/", "http://");
	assert_refused("file:///etc/passwd", "http://");
	assert_refused("gopher://hooks.example.com/", "http://");
	assert_refused("httpsx://h/", "http://");
	assert_refused("http:/h/", "http://");
	assert_refused("http:///path", "host");
	assert_refused("http://user@h/", "password");
	assert_refused("http://user:secret@h/", "password");
	assert_refused("http://good.example@evil.example/", "password");
	assert_refused("http://good.example%40evil.example/", "host");
	assert_refused("http://good.example#@evil.example/", "fragment");
	assert_refused("http://h/#top", "fragment");
	assert_refused("http://h\\@evil.example/", "backslash");
	assert_refused("http://h/a b", "blanks");
	assert_refused("http://h/a\r\nHost: evil", "blanks");
	assert_refused("http://h/\x7f", "ASCII");
	assert_refused("http://b\xc3\xbc"
		       "cher.example/",
	    "punycode");
	assert_refused("http://h/\xc3\xbc", "percent-encode");
	assert_refused("http://h/%", "%");
	assert_refused("http://h/%4", "%");
	assert_refused("http://h/%g0", "%");
	assert_refused("http://h:0/", "port");
	assert_refused("http://h:65536/", "port");
	assert_refused("http://h:+80/", "port");
	assert_refused("http://h:80:80/", "port");
	assert_refused("http://.h/", "host");
	assert_refused("http://h../", "host");
	assert_refused("http://./", "host");
	assert_refused("http://h!/", "host");
	assert_refused("http://h/a/..%2fadmin", "%2F");
	assert_refused("http://h/a/%2e%2e%2Fadmin", "%2F");
	assert_refused("http://h/a/x%5c..%5cadmin", "%2F");
	assert_refused("http://h/a%2f..", "%2F");
}

static void names_and_urls_have_bounds(void **state)
{
	char text[VET_URL_MAX + 2], label[96];
	struct vet_url url;

	(void)state;
	memset(text, 'a', sizeof(text));
	memcpy(text, "http://h/", 9);
	assert_int_equal(vet_url_parse(rea_slice_make(text, VET_URL_MAX), &url, NULL), 0);
	vet_url_fini(&url);
	assert_int_equal(vet_url_parse(rea_slice_make(text, VET_URL_MAX + 1), &url, NULL), REA_ERR_LIMIT);
	snprintf(label, sizeof(label), "http://%063d.example/", 0);
	assert_url(label, label);
	snprintf(label, sizeof(label), "http://%064d.example/", 0);
	assert_refused(label, "63");
	/* Labels of one letter: 253 bytes, and 255. */
	for (size_t i = 7; i < 7 + 255; i++)
		text[i] = i % 2 == 1 ? 'a' : '.';
	assert_int_equal(vet_url_parse(rea_slice_make(text, 7 + 253), &url, NULL), 0);
	vet_url_fini(&url);
	assert_int_equal(vet_url_parse(rea_slice_make(text, 7 + 255), &url, NULL), REA_ERR_INVALID);
}

static bool matches(const char *pattern_text, const char *url_text)
{
	struct vet_pattern pattern;
	struct rea_error_info error;
	struct vet_url url;
	bool result;

	if (vet_pattern_parse(rea_slice_of(pattern_text), &pattern, &error) != 0)
		fail_msg("%s: %s", pattern_text, error.message);
	if (vet_url_parse(rea_slice_of(url_text), &url, &error) != 0)
		fail_msg("%s: %s", url_text, error.message);
	result = vet_pattern_matches(&pattern, &url);
	vet_url_fini(&url);
	vet_pattern_fini(&pattern);
	return result;
}

static void patterns_match_the_form(void **state)
{
	(void)state;
	assert_true(matches("https://hooks.example.com/*", "https://hooks.example.com/"));
	assert_true(matches("https://hooks.example.com/*", "https://HOOKS.example.com.:443/a/b?c"));
	assert_true(matches("https://hooks.example.com", "https://hooks.example.com/a"));
	assert_false(matches("https://hooks.example.com/*", "http://hooks.example.com/"));
	assert_false(matches("https://hooks.example.com/*", "https://hooks.example.com:8443/"));
	assert_false(matches("https://hooks.example.com/*", "https://hooks.example.com.evil.example/"));
	assert_false(matches("https://hooks.example.com/*", "https://xhooks.example.com/"));
	assert_true(matches("https://hooks.example.com:8443/*", "https://hooks.example.com:8443/"));
	assert_true(matches("https://hooks.example.com:*/*", "https://hooks.example.com:8443/"));
	assert_true(matches("http://127.1:*/*", "http://0x7f000001:99/"));
	assert_true(matches("http://[::1]:*", "http://[0::1]:99/"));
}

static void patterns_match_paths_by_prefix_or_whole(void **state)
{
	(void)state;
	assert_true(matches("https://h/in", "https://h/in"));
	assert_true(matches("https://h/in", "https://h/in?x=1"));
	assert_false(matches("https://h/in", "https://h/in/"));
	assert_false(matches("https://h/in", "https://h/inner"));
	assert_true(matches("https://h/", "https://h"));
	assert_false(matches("https://h/", "https://h/x"));
	assert_true(matches("https://h/in/*", "https://h/in/"));
	assert_true(matches("https://h/in/*", "https://h/in/a/b"));
	assert_false(matches("https://h/in/*", "https://h/in"));
	assert_false(matches("https://h/in/*", "https://h/in/../admin"));
	assert_false(matches("https://h/in/*", "https://h/in/%2e%2e/admin"));
	assert_true(matches("https://h/%69n/*", "https://h/i%6e/x"));
	assert_true(matches("https://h/in*", "https://h/inner"));
}

static void patterns_match_domains(void **state)
{
	(void)state;
	assert_true(matches("https://*.example.com/*", "https://a.example.com/"));
	assert_true(matches("https://*.example.com/*", "https://a.b.example.com/"));
	assert_false(matches("https://*.example.com/*", "https://example.com/"));
	assert_false(matches("https://*.example.com/*", "https://evilexample.com/"));
	assert_false(matches("https://*.example.com/*", "https://a.example.com.evil.example/"));
	assert_true(matches("https://*/hooks/*", "https://anything.example/hooks/1"));
	assert_true(matches("https://*", "https://192.0.2.1/"));
	assert_false(matches("https://*", "http://anything.example/"));
}

static void assert_no_pattern(const char *text, const char *word)
{
	struct vet_pattern pattern;
	struct rea_error_info error;

	assert_int_equal(vet_pattern_parse(rea_slice_of(text), &pattern, &error), REA_ERR_INVALID);
	if (strstr(error.message, word) == NULL)
		fail_msg("%s: %s", text, error.message);
}

static void a_pattern_says_no_more_than_it_can(void **state)
{
	(void)state;
	assert_no_pattern("*", "http://");
	assert_no_pattern("*://h/", "http://");
	assert_no_pattern("https://a.*.com/", "leading labels");
	assert_no_pattern("https://hooks*.example.com/", "leading labels");
	assert_no_pattern("https://**.example.com/", "leading labels");
	assert_no_pattern("https://h:8*/", "port");
	assert_no_pattern("https://h/*/x", "end");
	assert_no_pattern("https://h/x?*", "query");
	assert_no_pattern("https://h/a/..*", "dots");
	assert_no_pattern("https://h/a/.*", "dots");
	assert_no_pattern("https://*.0.0.1/", "address");
	assert_no_pattern("https://user@h/*", "password");
}

static const char *vet_within(const char *text, const struct vet_allowed *allowed)
{
	struct sockaddr_in ipv4 = {.sin_family = AF_INET};
	struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6};

	if (inet_pton(AF_INET, text, &ipv4.sin_addr) == 1)
		return vet_address((const struct sockaddr *)&ipv4, allowed);
	assert_int_equal(inet_pton(AF_INET6, text, &ipv6.sin6_addr), 1);
	return vet_address((const struct sockaddr *)&ipv6, allowed);
}

static const char *vet(const char *text, bool allow_private)
{
	static const struct rea_config_range everywhere = {.bits = 0};
	const struct vet_allowed allowed = {&everywhere, allow_private};

	return vet_within(text, &allowed);
}

static void only_what_is_allowed_is_gone_to(void **state)
{
	static const struct rea_config_range ranges[] = {
	    {.address = {[10] = 0xff, [11] = 0xff, [12] = 127}, .bits = 104}, {.address = {0xfd, 0x12}, .bits = 16}};
	const struct vet_allowed allowed = {ranges, 2};

	(void)state;
	assert_null(vet_within("127.0.0.1", &allowed));
	assert_null(vet_within("127.255.255.255", &allowed));
	assert_null(vet_within("::ffff:127.0.0.1", &allowed));
	assert_null(vet_within("64:ff9b::7f00:1", &allowed));
	assert_null(vet_within("fd12::1", &allowed));
	assert_null(vet_within("93.184.216.34", &allowed));
	assert_string_equal(vet_within("10.0.0.1", &allowed), "a private address");
	assert_string_equal(vet_within("169.254.169.254", &allowed), "a link-local address");
	assert_string_equal(vet_within("::1", &allowed), "a loopback address");
	assert_string_equal(vet_within("fd13::1", &allowed), "a private address");
	assert_string_equal(vet_within("::ffff:10.0.0.1", &allowed), "a private address");
	assert_string_equal(vet_within("224.0.0.1", &allowed), "a multicast address");
}

static void assert_open(const char *first, const char *last)
{
	assert_null(vet(first, false));
	assert_null(vet(last, false));
}

static void assert_private(const char *first, const char *last, const char *name)
{
	assert_string_equal(vet(first, false), name);
	assert_string_equal(vet(last, false), name);
	assert_null(vet(first, true));
	assert_null(vet(last, true));
}

static void assert_never(const char *first, const char *last, const char *name)
{
	assert_string_equal(vet(first, false), name);
	assert_string_equal(vet(last, true), name);
}

static void ipv4_addresses_are_judged_at_both_ends_of_each_range(void **state)
{
	(void)state;
	assert_never("0.0.0.0", "0.255.255.255", "an unspecified address");
	assert_open("1.0.0.0", "9.255.255.255");
	assert_private("10.0.0.0", "10.255.255.255", "a private address");
	assert_open("11.0.0.0", "100.63.255.255");
	assert_private("100.64.0.0", "100.127.255.255", "a carrier's private address");
	assert_open("100.128.0.0", "126.255.255.255");
	assert_private("127.0.0.0", "127.255.255.255", "a loopback address");
	assert_open("128.0.0.0", "169.253.255.255");
	assert_private("169.254.0.0", "169.254.255.255", "a link-local address");
	assert_open("169.255.0.0", "172.15.255.255");
	assert_private("172.16.0.0", "172.31.255.255", "a private address");
	assert_open("172.32.0.0", "191.255.255.255");
	assert_never("192.0.0.0", "192.0.0.255", "a reserved address");
	assert_open("192.0.1.0", "192.0.1.255");
	assert_never("192.0.2.0", "192.0.2.255", "a documentation address");
	assert_open("192.0.3.0", "192.88.98.255");
	assert_never("192.88.99.0", "192.88.99.255", "a reserved address");
	assert_open("192.88.100.0", "192.167.255.255");
	assert_private("192.168.0.0", "192.168.255.255", "a private address");
	assert_open("192.169.0.0", "198.17.255.255");
	assert_private("198.18.0.0", "198.19.255.255", "a benchmarking address");
	assert_open("198.20.0.0", "198.51.99.255");
	assert_never("198.51.100.0", "198.51.100.255", "a documentation address");
	assert_open("198.51.101.0", "203.0.112.255");
	assert_never("203.0.113.0", "203.0.113.255", "a documentation address");
	assert_open("203.0.114.0", "223.255.255.255");
	assert_never("224.0.0.0", "239.255.255.255", "a multicast address");
	assert_never("240.0.0.0", "255.255.255.255", "a reserved address");
}

static void ipv6_addresses_are_judged_by_what_is_in_them(void **state)
{
	(void)state;
	assert_open("2000::", "2606:4700::1111");
	assert_open("2003::", "3ffe:ffff::");
	assert_never("::", "::", "an unspecified address");
	assert_private("::1", "::1", "a loopback address");
	assert_private("fc00::", "fdff:ffff::1", "a private address");
	assert_private("fe80::", "febf:ffff::1", "a link-local address");
	assert_private("fec0::", "feff::1", "a private address");
	assert_private("64:ff9b:1::", "64:ff9b:1:ffff::", "a private translation address");
	assert_never("ff00::", "ffff::1", "a multicast address");
	assert_never("2001::1", "2001:1ff:ffff::", "a reserved address");
	assert_open("2001:200::", "2001:db7:ffff::");
	assert_never("2001:db8::", "2001:db8:ffff::", "a documentation address");
	assert_open("2001:db9::", "2001:ffff::");
	assert_never("3fff::", "3fff:fff::", "a documentation address");
	assert_never("::2", "::7f00:1", "a reserved address");
	assert_never("100::1", "1fff:ffff::", "a reserved address");
	assert_never("4000::", "fbff::", "a reserved address");
}

static void ipv4_within_ipv6_is_judged_as_what_it_is(void **state)
{
	(void)state;
	assert_private("::ffff:127.0.0.1", "64:ff9b::7f00:1", "a loopback address");
	assert_private("2002:7f00:1::", "2002:7fff:ffff::1", "a loopback address");
	assert_private("::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "a link-local address");
	assert_never("::ffff:0.0.0.0", "64:ff9b::", "an unspecified address");
	assert_open("::ffff:8.8.8.8", "64:ff9b::808:808");
	assert_open("2002:808:808::1", "2002:808:808::");
}

static void other_families_are_refused(void **state)
{
	const struct sockaddr local = {.sa_family = AF_UNIX};

	(void)state;
	assert_string_equal(vet_address(&local, &(struct vet_allowed){NULL, 0}), "no IP address");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_url_has_one_form),
	    cmocka_unit_test(its_parts_lie_in_it),
	    cmocka_unit_test(paths_lose_their_detours),
	    cmocka_unit_test(addresses_have_one_form),
	    cmocka_unit_test(what_can_be_read_in_two_ways_is_refused),
	    cmocka_unit_test(names_and_urls_have_bounds),
	    cmocka_unit_test(patterns_match_the_form),
	    cmocka_unit_test(patterns_match_paths_by_prefix_or_whole),
	    cmocka_unit_test(patterns_match_domains),
	    cmocka_unit_test(a_pattern_says_no_more_than_it_can),
	    cmocka_unit_test(ipv4_addresses_are_judged_at_both_ends_of_each_range),
	    cmocka_unit_test(only_what_is_allowed_is_gone_to),
	    cmocka_unit_test(ipv6_addresses_are_judged_by_what_is_in_them),
	    cmocka_unit_test(ipv4_within_ipv6_is_judged_as_what_it_is),
	    cmocka_unit_test(other_families_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
