/* Address ranges: what they say, who is in, and what is refused. */
#include "refusal.h"

static bool trusts(const struct rea_config *config, const char *address)
{
	return rea_config_trusts(rea_config_settings(config), address, strlen(address));
}

static void loopback_and_private_addresses_by_default(void **state)
{
	static const char *const in[] = {"127.0.0.1", "127.255.255.255", "10.0.0.0", "10.255.255.255", "172.16.0.1",
	    "172.31.255.255", "192.168.0.1", "100.64.0.1", "100.127.255.255", "169.254.1.1", "::1", "fc00::1",
	    "fdff::1", "fe80::1", "febf::1", "::ffff:10.1.2.3"};
	static const char *const out[] = {"126.255.255.255", "128.0.0.0", "9.255.255.255", "11.0.0.0", "172.15.255.255",
	    "172.32.0.0", "192.167.255.255", "192.169.0.0", "100.63.255.255", "100.128.0.0", "169.253.0.1", "8.8.8.8",
	    "0.0.0.0", "::", "::2", "fbff::1", "fe00::1", "fec0::1", "2001:db8::1", "::ffff:8.8.8.8", "::127.0.0.1",
	    "::7f00:1"};
	struct rea_config *config = parse("");

	(void)state;
	assert_int_equal(rea_config_settings(config)->trusted_edge_len, 9);
	for (size_t i = 0; i < sizeof(in) / sizeof(in[0]); i++)
		if (!trusts(config, in[i]))
			fail_msg("%s is not trusted", in[i]);
	for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++)
		if (trusts(config, out[i]))
			fail_msg("%s is trusted", out[i]);
	rea_config_unref(config);
}

static void what_is_no_address_is_not_trusted(void **state)
{
	static const char *const texts[] = {"", "localhost", "10.0.0.1:80", "[::1]", "10.0.0", "10.0.0.01", "unix",
	    "::1%lo", "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa"};
	struct rea_config *config = parse("trusted-edge: [0.0.0.0/0, '::/0']");

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_false(trusts(config, texts[i]));
	assert_true(trusts(config, "203.0.113.9"));
	assert_true(trusts(config, "1111:2222:3333:4444:5555:6666:123.123.123.123"));
	rea_config_unref(config);
}

static void a_list_takes_the_place_of_the_default(void **state)
{
	struct rea_config *config =
	    parse("trusted-edge: [192.0.2.7, 198.51.100.128/25, '2001:db8::/33', '2001:db8:ffff::1']");
	const struct rea_config_settings *settings = rea_config_settings(config);

	(void)state;
	assert_int_equal(settings->trusted_edge_len, 4);
	assert_string_equal(settings->trusted_edge[1].text, "198.51.100.128/25");
	assert_int_equal(settings->trusted_edge[1].bits, 121);
	assert_int_equal(settings->trusted_edge[0].bits, 128);
	assert_true(trusts(config, "192.0.2.7"));
	assert_false(trusts(config, "192.0.2.6"));
	assert_true(trusts(config, "198.51.100.128"));
	assert_true(trusts(config, "198.51.100.255"));
	assert_false(trusts(config, "198.51.100.127"));
	assert_true(trusts(config, "2001:db8:7fff::"));
	assert_false(trusts(config, "2001:db8:8000::"));
	assert_true(trusts(config, "2001:DB8:FFFF::1"));
	assert_false(trusts(config, "127.0.0.1"));
	assert_false(trusts(config, "::1"));
	rea_config_unref(config);
	/* One family's everybody is not the other's. */
	config = parse("trusted-edge: [0.0.0.0/0]");
	assert_true(trusts(config, "8.8.8.8"));
	assert_false(trusts(config, "2001:db8::1"));
	rea_config_unref(config);
	config = parse("trusted-edge: []");
	assert_int_equal(rea_config_settings(config)->trusted_edge_len, 0);
	assert_false(trusts(config, "127.0.0.1"));
	rea_config_unref(config);
}

static void what_is_refused(void **state)
{
#define RANGE "expected an address range such as 10.0.0.0/8 or fd00::/8, got "
	static const struct refusal refusals[] = {
	    {"trusted-edge: 10.0.0.0/8\n", REA_ERR_INVALID, 1, 15, "trusted-edge",
		"expected a list of address ranges, got \"10.0.0.0/8\""},
	    {"trusted-edge: [10.0.0.0/33]\n", REA_ERR_INVALID, 1, 16, "trusted-edge[0]", RANGE "\"10.0.0.0/33\""},
	    {"trusted-edge: ['::1', 'fd00::/129']\n", REA_ERR_INVALID, 1, 23, "trusted-edge[1]", RANGE "\"fd00::/129\""},
	    {"trusted-edge: [10.0.0.0/]\n", REA_ERR_INVALID, 1, 16, "trusted-edge[0]", RANGE "\"10.0.0.0/\""},
	    {"trusted-edge: [10.0.0.0/-1]\n", REA_ERR_INVALID, 1, 16, "trusted-edge[0]", RANGE "\"10.0.0.0/-1\""},
	    {"trusted-edge: [10.0.0.0/99999999999999999999]\n", REA_ERR_INVALID, 1, 16, "trusted-edge[0]",
		RANGE "\"10.0.0.0/99999999999999999999\""},
	    {"trusted-edge: [10/8]\n", REA_ERR_INVALID, 1, 16, "trusted-edge[0]", RANGE "\"10/8\""},
	    {"trusted-edge: [mesh.internal]\n", REA_ERR_INVALID, 1, 16, "trusted-edge[0]", RANGE "\"mesh.internal\""},
	    {"trusted-edge: [10.1.0.0/8]\n", REA_ERR_INVALID, 1, 16, "trusted-edge[0]",
		RANGE "\"10.1.0.0/8\": the address has bits behind the range's"},
	    {"trusted-edge: ['fd00::1/127']\n", REA_ERR_INVALID, 1, 16, "trusted-edge[0]",
		RANGE "\"fd00::1/127\": the address has bits behind the range's"},
	};

	(void)state;
	CHECK_REFUSALS(refusals);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(loopback_and_private_addresses_by_default),
	    cmocka_unit_test(what_is_no_address_is_not_trusted),
	    cmocka_unit_test(a_list_takes_the_place_of_the_default),
	    cmocka_unit_test(what_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
