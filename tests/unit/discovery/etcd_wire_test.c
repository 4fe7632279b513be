/* Every byte that goes to etcd's JSON gateway, and what its answers mean. */
#include "discovery/etcd_wire.h"

#include <rea/error.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void assert_freed(char *text, const char *expected)
{
	assert_non_null(text);
	assert_string_equal(text, expected);
	free(text);
}

static json_t *json_of(const char *text)
{
	json_t *value = json_loads(text, 0, NULL);

	assert_non_null(value);
	return value;
}

static void base64(void **state)
{
	static const char *const pairs[][2] = {
	    {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}};
	struct rea_buffer out = {.alloc = NULL};

	(void)state;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		assert_freed(etcd_encode(pairs[i][0], strlen(pairs[i][0])), pairs[i][1]);
		rea_buffer_clear(&out);
		assert_int_equal(etcd_decode(pairs[i][1], &out), 0);
		assert_int_equal(rea_buffer_length(&out), strlen(pairs[i][0]));
		if (pairs[i][0][0] != '\0')
			assert_memory_equal(rea_buffer_data(&out), pairs[i][0], strlen(pairs[i][0]));
	}
	assert_int_equal(etcd_decode("a", &out), REA_ERR_SYNTAX);
	assert_int_equal(etcd_decode("Zm9v!mFy", &out), REA_ERR_SYNTAX);
	rea_buffer_fini(&out);
}

static void requests(void **state)
{
	(void)state;
	assert_freed(etcd_range_body("/k", false, 0), "{\"key\":\"L2s=\",\"revision\":\"0\"}");
	assert_freed(etcd_watch_body("/k", false, 9007199254740993),
	    "{\"create_request\":{\"key\":\"L2s=\",\"start_revision\":\"9007199254740993\"}}");
	assert_freed(etcd_range_body("/k/", true, 0), "{\"key\":\"L2sv\",\"range_end\":\"L2sw\",\"revision\":\"0\"}");
	assert_freed(etcd_range_body("a\xff", true, 0), "{\"key\":\"Yf8=\",\"range_end\":\"Yg==\",\"revision\":\"0\"}");
	assert_freed(etcd_range_body("\xff", true, 0), "{\"key\":\"/w==\",\"range_end\":\"AA==\",\"revision\":\"0\"}");
	assert_freed(etcd_watch_body("/k/", true, 7),
	    "{\"create_request\":{\"key\":\"L2sv\",\"range_end\":\"L2sw\",\"start_revision\":\"7\"}}");
	assert_freed(etcd_put_body("/k", "v", 1, 7),
	    "{\"compare\":[{\"key\":\"L2s=\",\"target\":\"MOD\",\"result\":\"EQUAL\",\"mod_revision\":\"7\"}],"
	    "\"success\":[{\"request_put\":{\"key\":\"L2s=\",\"value\":\"dg==\"}}]}");
}

static void ranges(void **state)
{
	struct rea_buffer value = {.alloc = NULL};
	struct etcd_value found;
	json_t *answer = json_of("{\"header\":{\"revision\":\"12\"},\"kvs\":[{\"key\":\"L2s=\",\"mod_revision\":\"7\","
				 "\"version\":\"3\",\"value\":\"Zm9v\"}]}");

	(void)state;
	assert_int_equal(etcd_range_read(answer, &found, &value), 0);
	assert_true(found.present);
	assert_int_equal(found.revision, 12);
	assert_int_equal(found.mod_revision, 7);
	assert_int_equal(found.version, 3);
	assert_int_equal(rea_buffer_length(&value), 3);
	assert_memory_equal(rea_buffer_data(&value), "foo", 3);
	json_decref(answer);
	answer = json_of("{\"header\":{\"revision\":\"12\"}}");
	assert_int_equal(etcd_range_read(answer, &found, &value), 0);
	assert_false(found.present);
	assert_int_equal(rea_buffer_length(&value), 0);
	json_decref(answer);
	answer = json_of("{\"header\":{\"revision\":\"12\"},\"kvs\":[{\"key\":\"L2s=\",\"mod_revision\":\"7\"}]}");
	assert_int_equal(etcd_range_read(answer, &found, &value), 0);
	assert_true(found.present);
	json_decref(answer);
	answer = json_of("{\"status\":\"ok\"}");
	assert_int_equal(etcd_range_read(answer, &found, &value), REA_ERR_SYNTAX);
	json_decref(answer);
	rea_buffer_fini(&value);
}

static void watches(void **state)
{
	static const struct {
		const char *message;
		enum etcd_news news;
		const char *text; /* the value, or why it ended */
	} cases[] = {
	    {"{\"result\":{\"header\":{},\"created\":true}}", ETCD_NOTHING, ""},
	    {"{\"result\":{\"header\":{\"revision\":\"9\"}}}", ETCD_NOTHING, ""},
	    {"{\"result\":{\"events\":[{\"kv\":{\"key\":\"L2s=\",\"value\":\"Zm9v\"}}]}}", ETCD_PUT, "foo"},
	    {"{\"result\":{\"events\":[{\"kv\":{\"key\":\"L2s=\"}}]}}", ETCD_PUT, ""},
	    {"{\"result\":{\"events\":[{\"kv\":{\"value\":\"Zm9v\"}},{\"type\":\"DELETE\",\"kv\":{\"key\":\"L2s=\"}}]}"
	     "}",
		ETCD_DELETED, ""},
	    {"{\"result\":{\"events\":[{\"type\":\"DELETE\"},{\"type\":\"PUT\",\"kv\":{\"value\":\"Zg==\"}}]}}", ETCD_PUT, "f"},
	    {"{\"result\":{\"canceled\":true,\"compact_revision\":\"4\"}}", ETCD_ENDED,
		"history before revision 4 is compacted"},
	    {"{\"result\":{\"canceled\":true,\"cancel_reason\":\"no\"}}", ETCD_ENDED, "the watch is canceled: no"},
	    {"{\"error\":{\"message\":\"gone\"}}", ETCD_ENDED, "the watch is canceled: gone"},
	    {"{\"error\":\"gone\",\"code\":2}", ETCD_ENDED, "the watch is canceled: gone"},
	    {"{}", ETCD_ENDED, "the watch is canceled: no reason given"},
	};
	struct rea_buffer value = {.alloc = NULL};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *message = json_of(cases[i].message);
		char why[80] = "";
		enum etcd_news news;

		assert_int_equal(etcd_watch_read(message, &news, &value, why, sizeof(why)), 0);
		assert_int_equal(news, cases[i].news);
		if (news == ETCD_PUT)
			snprintf(why, sizeof(why), "%.*s", (int)rea_buffer_length(&value), rea_buffer_data(&value));
		assert_string_equal(why, cases[i].text);
		json_decref(message);
	}
	rea_buffer_fini(&value);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(base64),
	    cmocka_unit_test(requests),
	    cmocka_unit_test(ranges),
	    cmocka_unit_test(watches),
	};

	return cmocka_run_group_tests_name("etcd_wire", tests, NULL, NULL);
}
