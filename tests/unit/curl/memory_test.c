/* The n-th allocation of ours fails, once and for good: an error or a call without what it needed, no leak, and the
 * object goes on working. */
#include "../fail_alloc.h"
#include "rig.h"

static const struct server_step unavailable = {.reply = BODY_REPLY("503", "4", "busy")};
static const struct server_step ok = {.reply = OK_REPLY};

static size_t read_ten(char *buffer, size_t size, size_t items, void *user_data)
{
	size_t *left = user_data, length = *left;

	(void)size;
	(void)items;
	memcpy(buffer, "0123456789", length);
	*left = 0;
	return length;
}

static void on_done(CURL *easy, const struct rea_curl_result *result, void *user_data)
{
	(void)easy;
	rig.result = *result;
	rig.code = result->code;
	*(bool *)user_data = true;
}

/* The program's own loop. */
static void perform_in(CURLM *multi)
{
	bool done = false;
	CURLMsg *message;
	int running, left;

	if (rea_curl_start(rig.curl, rig.easy, &rig.call, rig_clock_ns(), on_done, &done, NULL) != 0) {
		rig.code = CURLE_OUT_OF_MEMORY;
		return;
	}
	while (!done) {
		rea_curl_run(rig.curl, rig_clock_ns());
		curl_multi_perform(multi, &running);
		while ((message = curl_multi_info_read(multi, &left)) != NULL)
			assert_true(rea_curl_message(rig.curl, message, rig_clock_ns()));
		if (!done)
			curl_multi_poll(multi, NULL, 0, 5, NULL);
	}
}

static void upload(CURLM *multi, size_t *left)
{
	*left = 10;
	rig.events_len = 0;
	rig.reply_length = 0;
	rig.reply[0] = '\0';
	if (multi != NULL)
		perform_in(multi);
	else
		rig_perform();
}

/* A call that uses everything: a key, a body that is kept, a reply that is held, a retry; multi: in the program's loop. Returns whether it was
 * as if memory were there. */
static bool call_with(struct fail_alloc *failing, CURLM *multi)
{
	struct rea_curl_options options;
	size_t left;

	rea_curl_options_init(&options);
	options.alloc = &failing->alloc;
	options.seed = 7;
	options.multi = multi;
	if (rea_curl_new(&options, &rig.curl, NULL) != 0) {
		rig.curl = NULL;
		return false;
	}
	rig.call.read = read_ten;
	rig.call.read_data = &left;
	upload(multi, &left);
	if (failing->failed > 0) {
		/* One that could not be begun, one whose body or reply could not be kept, or one that did without. */
		assert_true(rig.code == CURLE_OUT_OF_MEMORY || rig.code == CURLE_OK);
		if (rig.code == CURLE_OK && rig.result.decision.verdict == REA_VERDICT_GIVE_UP)
			assert_string_equal(rig.reply, "busy");
		if (!failing->for_good)
			upload(multi, &left);
	}
	return rig.code == CURLE_OK && rig.result.decision.verdict == REA_VERDICT_SUCCESS;
}

static void fail_each(CURLM *multi)
{
	for (int for_good = 0; for_good <= 1; for_good++) {
		size_t n = 0;
		bool failed;

		do {
			struct fail_alloc failing;

			memset(&rig, 0, sizeof(rig));
			rig_prepare(&rig);
			rig_server(&unavailable, 1);
			rig_server(&ok, 1);
			curl_easy_setopt(rig.easy, CURLOPT_UPLOAD, 1L);
			curl_easy_setopt(rig.easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)10);
			rig.call.make_key = true;
			rig.call.header = rig_on_header;
			rig.call.header_data = &rig;
			fail_alloc_init(&failing, n, for_good);
			if (call_with(&failing, multi) && rig.result.decision.attempt == 2) {
				rig_stop_servers();
				assert_string_equal(server_body(&rig.servers[1], rig_requests(1) - 1), "0123456789");
				assert_string_equal(rig.reply, "hello");
			}
			failed = failing.failed > 0;
			rig_fini(NULL);
			assert_int_equal(failing.live, 0);
			n++;
		} while (failed);
		/* The object, the call, its number three times, the body, the reply. */
		assert_int_equal(n - 1, 7);
	}
}

static void the_nth_allocation_fails(void **state)
{
	(void)state;
	fail_each(NULL);
}

static void the_nth_allocation_fails_in_a_loop(void **state)
{
	CURLM *multi = curl_multi_init();

	(void)state;
	fail_each(multi);
	curl_multi_cleanup(multi);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_nth_allocation_fails),
	    cmocka_unit_test(the_nth_allocation_fails_in_a_loop),
	};

	curl_global_init(CURL_GLOBAL_ALL);
	return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
