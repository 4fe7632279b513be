#include <rea/call.h>
#include <rea/random.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct rea_instance_id parse(const char *text)
{
	struct rea_instance_id id;

	memset(&id, 0xaa, sizeof(id));
	assert_true(rea_instance_id_parse(text, strlen(text), &id));
	return id;
}

static void text_goes_both_ways(void **state)
{
	static const char *const rows[][2] = {
	    {"127.0.0.1:9001", "127.0.0.1:9001"},
	    {"0.0.0.0:1", "0.0.0.0:1"},
	    {"255.255.255.255:65535", "255.255.255.255:65535"},
	    {"[::1]:80", "[::1]:80"},
	    {"[::]:80", "[::]:80"},
	    {"[1::]:80", "[1::]:80"},
	    {"[2001:DB8:0:0:1:0:0:1]:443", "[2001:db8::1:0:0:1]:443"},
	    {"[2001:db8:0:1:1:1:1:1]:443", "[2001:db8:0:1:1:1:1:1]:443"},
	    {"[1:0:0:2:0:0:0:3]:443", "[1:0:0:2::3]:443"},
	    {"[fe80::0001]:1", "[fe80::1]:1"},
	    {"[1:2:3:4:5:6:7::]:1", "[1:2:3:4:5:6:7:0]:1"},
	    {"[1:2:3:4:5:6:1.2.3.4]:1", "[1:2:3:4:5:6:102:304]:1"},
	    {"[64:ff9b::127.0.0.1]:1", "[64:ff9b::7f00:1]:1"},
	    /* The same address in two forms is the same instance. */
	    {"[::ffff:127.0.0.1]:9001", "127.0.0.1:9001"},
	    {"[::ffff:7f00:1]:9001", "127.0.0.1:9001"},
	    {"[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535", "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"},
	};
	char text[56];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rea_instance_id id = parse(rows[i][0]), again;

		assert_int_equal(rea_instance_id_format(&id, text, sizeof(text)), strlen(rows[i][1]));
		assert_string_equal(text, rows[i][1]);
		again = parse(text);
		assert_true(rea_instance_id_equal(&id, &again));
	}
}

static void anything_else_is_refused(void **state)
{
	static const char *const rows[] = {"", ":", ":80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536",
	    "127.0.0.1:080", "127.0.0.1:-1", "127.0.0.1:+1", "127.0.0.1: 80", "127.0.0:80", "127.0.0.0.1:80",
	    "127.0.0.256:80", "127.0.0.01:80", "127..0.1:80", ".127.0.1:80", "127.1:80", "0x7f.0.0.1:80",
	    "localhost:80", "::1:80", "[]:80", "[:]:80", "[::1:80", "::1]:80", "[::1]80", "[::1]", "[::1]:", "[:::]:80",
	    "[1::2::3]:80", "[1:2:3:4:5:6:7:8:9]:80", "[1:2:3:4:5:6:7]:80", "[1:2:3:4:5:6:7:8::]:80",
	    "[::1:2:3:4:5:6:7:8]:80", "[12345::]:80", "[g::]:80", "[:1::2]:80", "[1::2:]:80", "[1.2.3.4::]:80",
	    "[::1.2.3.4:5]:80", "[1:2:3:4:5:6:7:1.2.3.4]:80", "[::1%lo]:80", "[127.0.0.1]:80"};
	struct rea_instance_id id = {.port = 77};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rea_instance_id_parse(rows[i], strlen(rows[i]), &id))
			fail_msg("accepted %s", rows[i]);
	assert_false(rea_instance_id_parse(NULL, 0, &id));
	assert_int_equal(id.port, 77);
}

static void equal_means_address_and_port(void **state)
{
	struct rea_instance_id a = parse("127.0.0.1:9001"), port = parse("127.0.0.1:9002"),
			       address = parse("127.0.0.2:9001");

	(void)state;
	assert_true(rea_instance_id_equal(&a, &a));
	assert_false(rea_instance_id_equal(&a, &port));
	assert_false(rea_instance_id_equal(&a, &address));
}

static void text_is_cut(void **state)
{
	struct rea_instance_id id = parse("127.0.0.1:9001");
	char text[6] = "xxxxx";

	(void)state;
	assert_int_equal(rea_instance_id_format(&id, text, 5), 14);
	assert_string_equal(text, "127.");
	assert_int_equal(rea_instance_id_format(&id, NULL, 0), 14);
}

static void property_every_address_comes_back(void **state)
{
	struct rea_random random;
	char text[56];

	(void)state;
	rea_random_init(&random, 5);
	for (int i = 0; i < 50000; i++) {
		struct rea_instance_id id = {.port = (uint16_t)(1 + rea_random_below(&random, 65535))}, again;
		uint64_t zeros = rea_random_next(&random);

		for (size_t byte = 0; byte < 16; byte++)
			id.address[byte] = zeros >> (byte / 2) & 1 ? 0 : (uint8_t)rea_random_next(&random);
		assert_true(rea_instance_id_format(&id, text, sizeof(text)) < sizeof(text));
		again = parse(text);
		assert_true(rea_instance_id_equal(&id, &again));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(text_goes_both_ways),
	    cmocka_unit_test(anything_else_is_refused),
	    cmocka_unit_test(equal_means_address_and_port),
	    cmocka_unit_test(text_is_cut),
	    cmocka_unit_test(property_every_address_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
