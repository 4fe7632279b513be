/* Every byte that goes to a Nacos server, and what its answers mean. */
#include "discovery/nacos_wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static const struct rea_config_source in_public = {
    .kind = REA_SOURCE_NACOS, .name = "rpc-retry.yml", .group = "DEFAULT_GROUP", .namespace_id = "", .context_path = "/nacos"};
static const struct rea_config_source in_team = {
    .kind = REA_SOURCE_NACOS, .name = "a:b", .group = "G", .namespace_id = "team-a", .context_path = ""};

static void assert_freed(char *text, const char *expected)
{
	assert_non_null(text);
	assert_string_equal(text, expected);
	free(text);
}

static void sums(void **state)
{
	char text[FETCH_MD5_SIZE];

	(void)state;
	nacos_md5("", 0, text);
	assert_string_equal(text, "d41d8cd98f00b204e9800998ecf8427e");
	nacos_md5("a\0b\r\n", 5, text);
	assert_string_equal(text, "4d42a3a6c766fd894c6f083473dc8f91");
}

static void requests(void **state)
{
	(void)state;
	assert_freed(nacos_query(&in_public, false), "dataId=rpc-retry.yml&group=DEFAULT_GROUP");
	assert_freed(nacos_query(&in_team, false), "dataId=a:b&group=G&tenant=team-a");
	assert_freed(nacos_query(&in_public, true), "dataId=rpc-retry.yml&groupName=DEFAULT_GROUP&namespaceId=public");
	assert_freed(nacos_query(&in_team, true), "dataId=a:b&groupName=G&namespaceId=team-a");
	assert_freed(nacos_url(&in_public, "http://h:1", NACOS_CONFIG_V1, "q=1", "&p=2"),
	    "http://h:1/nacos/v1/cs/configs?q=1&p=2");
	assert_freed(
	    nacos_url(&in_team, "https://h:1", NACOS_LISTENER_V1, "", ""), "https://h:1/v1/cs/configs/listener");
	assert_freed(nacos_listen_form(&in_public, "270f9e65a80226eccd82c99cdd0dd2fb"),
	    "Listening-Configs=rpc-retry.yml%02DEFAULT_GROUP%02270f9e65a80226eccd82c99cdd0dd2fb%01");
	assert_freed(nacos_listen_form(&in_team, ""), "Listening-Configs=a:b%02G%02%02team-a%01");
}

static void forms(void **state)
{
	struct rea_buffer form = {.alloc = NULL};

	(void)state;
	assert_int_equal(nacos_form_add(&form, "a", REA_SLICE_LIT("x y&=%+\xc3\xa9\n")), 0);
	assert_int_equal(nacos_form_add(&form, "b", REA_SLICE_LIT("")), 0);
	assert_int_equal(nacos_form_add(&form, "c", rea_slice_make("\0Az09-_.", 8)), 0);
	assert_int_equal(rea_buffer_append(&form, "", 1), 0);
	assert_string_equal(rea_buffer_data(&form), "a=x%20y%26%3D%25%2B%C3%A9%0A&b=&c=%00Az09-_.");
	rea_buffer_fini(&form);
}

static void changes(void **state)
{
	static const struct {
		const char *reply;
		enum nacos_changed in_public, in_team;
	} cases[] = {
	    {"", NACOS_UNCHANGED, NACOS_UNCHANGED},
	    {"\r\n", NACOS_UNCHANGED, NACOS_UNCHANGED},
	    {"rpc-retry.yml%02DEFAULT_GROUP%01\n", NACOS_CHANGED, NACOS_CHANGED_OTHERS},
	    {"rpc-retry.yml%02DEFAULT_GROUP%02public%01\n", NACOS_CHANGED, NACOS_CHANGED_OTHERS},
	    {"rpc-retry.yml%02DEFAULT_GROUP%02%01", NACOS_CHANGED, NACOS_CHANGED_OTHERS},
	    {"rpc-retry.yml%02DEFAULT_GROUP", NACOS_CHANGED, NACOS_CHANGED_OTHERS},
	    {"rpc-retry.yml%02OTHER%01a:b%02G%02team-a%01\n", NACOS_CHANGED_OTHERS, NACOS_CHANGED},
	    {"a:b%02G%01\n", NACOS_CHANGED_OTHERS, NACOS_CHANGED_OTHERS},
	    {"a:b%02G%02team-b%01\n", NACOS_CHANGED_OTHERS, NACOS_CHANGED_OTHERS},
	    {"rpc-retry.yml%02DEFAULT_GROUPS%01\n", NACOS_CHANGED_OTHERS, NACOS_CHANGED_OTHERS},
	    {"x", NACOS_CHANGED_OTHERS, NACOS_CHANGED_OTHERS},
	    {"%", NACOS_CHANGED_OTHERS, NACOS_CHANGED_OTHERS},
	    {"%01%01%02%01", NACOS_CHANGED_OTHERS, NACOS_CHANGED_OTHERS},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rea_slice reply = rea_slice_of(cases[i].reply);

		if (nacos_listen_read(&in_public, reply) != cases[i].in_public ||
		    nacos_listen_read(&in_team, reply) != cases[i].in_team)
			fail_msg("%s", cases[i].reply);
	}
}

static void answers_of_v3(void **state)
{
	static const struct {
		long status;
		const char *reply;
		enum nacos_answer answer;
	} cases[] = {
	    {200, "{\"code\":0,\"message\":\"success\",\"data\":{\"content\":\"x\"}}", NACOS_PRESENT},
	    {200, "{\"code\":20004,\"message\":\"resource not found\",\"data\":null}", NACOS_ABSENT},
	    {404, "{\"code\":20004,\"message\":\"resource not found\",\"data\":null}", NACOS_ABSENT},
	    {403, "{\"code\":403,\"message\":\"access denied\"}", NACOS_DENIED},
	    {200, "{\"code\":10001}", NACOS_DENIED},
	    {403, "{\"status\":403,\"error\":\"Forbidden\"}", NACOS_BARRED},
	    {401, "", NACOS_BARRED},
	    {500, "{\"code\":30000,\"message\":\"server error\"}", NACOS_FAILED},
	    {400, "{\"code\":0}", NACOS_FAILED},
	    {503, "busy", NACOS_FAILED},
	    {404, "{\"status\":404,\"error\":\"Not Found\"}", NACOS_FOREIGN},
	    {200, "<html>", NACOS_FOREIGN},
	    {200, "[1]", NACOS_FOREIGN},
	    {501, "", NACOS_FOREIGN},
	};
	char message[64];
	json_t *data;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		enum nacos_answer answer =
		    nacos_v3_read(cases[i].status, rea_slice_of(cases[i].reply), &data, message, sizeof(message));

		if (answer != cases[i].answer || (data != NULL) != (answer == NACOS_PRESENT))
			fail_msg("%ld %s", cases[i].status, cases[i].reply);
		json_decref(data);
	}
	nacos_v3_read(500, REA_SLICE_LIT("{\"code\":30000,\"message\":\"server error\"}"), &data, message, sizeof(message));
	assert_string_equal(message, "HTTP 500, code 30000: server error");
}

static void logins(void **state)
{
	uint64_t ttl_s;

	(void)state;
	assert_freed(nacos_login_read(REA_SLICE_LIT("{\"accessToken\":\"t\",\"tokenTtl\":600}"), &ttl_s), "t");
	assert_int_equal(ttl_s, 600);
	assert_freed(nacos_login_read(REA_SLICE_LIT("{\"code\":0,\"data\":{\"accessToken\":\"u\"}}"), &ttl_s), "u");
	assert_int_equal(ttl_s, 18000);
	assert_null(nacos_login_read(REA_SLICE_LIT("unknown user!"), &ttl_s));
	assert_null(nacos_login_read(REA_SLICE_LIT("{\"accessToken\":\"a\\r\\nb: c\"}"), &ttl_s));
	assert_null(nacos_login_read(REA_SLICE_LIT("{\"accessToken\":7}"), &ttl_s));
}

static void secrets(void **state)
{
	char path[] = "/tmp/rea-secret-XXXXXX", text[64];
	const char *why;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	snprintf(text, sizeof(text), "file:%s", path);
	assert_freed(nacos_secret("plain", &why), "plain");
	assert_null(nacos_secret(text, &why));
	assert_string_equal(why, "the file of the password cannot be read, or is empty");
	assert_int_equal(write(fd, "s3c ret\r\nmore\n", 14), 14);
	close(fd);
	assert_freed(nacos_secret(text, &why), "s3c ret");
	unlink(path);
	assert_null(nacos_secret(text, &why));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sums),
	    cmocka_unit_test(requests),
	    cmocka_unit_test(forms),
	    cmocka_unit_test(changes),
	    cmocka_unit_test(answers_of_v3),
	    cmocka_unit_test(logins),
	    cmocka_unit_test(secrets),
	};

	return cmocka_run_group_tests_name("nacos_wire", tests, NULL, NULL);
}
