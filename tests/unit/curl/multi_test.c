/* Calls in the program's own loop. The connections are real, the time is the test's: it stands still but where a test
 * moves it. */
#include "rig.h"

static const struct server_step ok = {.reply = OK_REPLY};
static const struct server_step unavailable = {.reply = BODY_REPLY("503", "4", "busy")};
static const struct server_step hang = {.reply = NULL};

static const uint64_t begin_ns = 1000 * REA_NS_PER_S;
static CURLM *multi;
static uint64_t now_ns;
static unsigned done_count, foreign_count;

static int multi_init(void **state)
{
	struct rea_curl_options options;

	(void)state;
	memset(&rig, 0, sizeof(rig));
	rig_prepare(&rig);
	multi = curl_multi_init();
	rea_curl_options_init(&options);
	options.seed = 7;
	options.multi = multi;
	now_ns = begin_ns;
	done_count = foreign_count = 0;
	return rea_curl_new(&options, &rig.curl, NULL);
}

static int multi_fini(void **state)
{
	rig_fini(state);
	curl_multi_cleanup(multi);
	return 0;
}

static void on_done(CURL *easy, const struct rea_curl_result *result, void *user_data)
{
	(void)easy;
	(void)user_data;
	rig.result = *result;
	rig.code = result->code;
	done_count++;
}

static void start(void)
{
	assert_int_equal(rea_curl_start(rig.curl, rig.easy, &rig.call, now_ns, on_done, NULL, NULL), 0);
}

/* Let libcurl work for at most this long. */
static void turn(int wait_ms)
{
	int running, left;
	CURLMsg *message;

	curl_multi_perform(multi, &running);
	curl_multi_poll(multi, NULL, 0, wait_ms, NULL);
	curl_multi_perform(multi, &running);
	while ((message = curl_multi_info_read(multi, &left)) != NULL)
		foreign_count += !rea_curl_message(rig.curl, message, now_ns);
}

static void turn_until(const unsigned *count, unsigned value)
{
	for (unsigned i = 0; i < 500 && *count != value; i++)
		turn(10);
	assert_int_equal(*count, value);
}

static void turn_until_events(size_t events)
{
	for (unsigned i = 0; i < 500 && rig.events_len != events; i++)
		turn(10);
	assert_int_equal(rig.events_len, events);
}

static void turn_until_requests(size_t server, unsigned requests)
{
	for (unsigned i = 0; i < 500 && rig_requests(server) != requests; i++)
		turn(10);
	assert_int_equal(rig_requests(server), requests);
}

/* ---- time ---- */

static void times_are_exact(void **state)
{
	uint64_t delay_ns;

	(void)state;
	rig_server(STEPS(unavailable));
	rig_server(STEPS(ok));
	assert_true(rea_curl_next(rig.curl) == REA_NEVER);
	start();
	assert_true(rea_curl_next(rig.curl) == begin_ns);
	rea_curl_run(rig.curl, now_ns);
	assert_true(rea_curl_next(rig.curl) == begin_ns + MS(1000));
	turn_until_events(1);
	delay_ns = rig.events[0].delay_ns;
	assert_true(delay_ns >= MS(20) && delay_ns <= MS(24));
	assert_true(rea_curl_next(rig.curl) == begin_ns + delay_ns);
	now_ns = begin_ns + delay_ns - 1;
	rea_curl_run(rig.curl, now_ns);
	turn(20);
	assert_int_equal(rig_requests(1), 0);
	now_ns = begin_ns + delay_ns;
	rea_curl_run(rig.curl, now_ns);
	assert_true(rea_curl_next(rig.curl) == now_ns + MS(1000));
	turn_until(&done_count, 1);
	assert_succeeded(2);
	assert_string_equal(rig.reply, "hello");
	assert_true(rea_curl_next(rig.curl) == REA_NEVER);
	assert_int_equal(rig_requests(0), 1);
	assert_int_equal(rig_requests(1), 1);
}

static void an_attempt_ends_when_its_time_is_up(void **state)
{
	(void)state;
	rig_server(STEPS(hang));
	start();
	rea_curl_run(rig.curl, now_ns);
	turn_until_requests(0, 1);
	now_ns = begin_ns + MS(1000) - 1;
	rea_curl_run(rig.curl, now_ns);
	assert_int_equal(done_count, 0);
	now_ns++;
	rea_curl_run(rig.curl, now_ns);
	assert_int_equal(done_count, 1);
	assert_int_equal(rig.code, CURLE_OPERATION_TIMEDOUT);
	assert_event(0, REA_EVENT_GIVE_UP, REA_OUTCOME_AMBIGUOUS, REA_REASON_NO_UNTRIED_INSTANCE);
	assert_true(rig.events[0].cost_ns == MS(1000));
}

static void an_attempt_that_never_connects_was_never_sent(void **state)
{
	(void)state;
	rig_server(STEPS(ok));
	start();
	rea_curl_run(rig.curl, now_ns);
	now_ns = begin_ns + MS(1000);
	/* libcurl had no turn: there is no connection yet. */
	rea_curl_run(rig.curl, now_ns);
	assert_event(0, REA_EVENT_GIVE_UP, REA_OUTCOME_NEVER_SENT, REA_REASON_NO_UNTRIED_INSTANCE);
	assert_int_equal(rig_requests(0), 0);
}

static void a_late_run_finds_the_deadline_passed(void **state)
{
	(void)state;
	rig_server(STEPS(unavailable));
	rig_server(STEPS(ok));
	start();
	rea_curl_run(rig.curl, now_ns);
	turn_until_events(1);
	now_ns = begin_ns + MS(5000);
	rea_curl_run(rig.curl, now_ns);
	assert_int_equal(done_count, 1);
	assert_gave_up(REA_REASON_DEADLINE, 1);
	assert_int_equal(rig.code, CURLE_OK);
	assert_string_equal(rig.reply, "busy");
	assert_event(1, REA_EVENT_GIVE_UP, REA_OUTCOME_NEVER_SENT, REA_REASON_DEADLINE);
}

/* ---- many ---- */

enum { CALLS = 12 };

static void many_calls_share_a_multi(void **state)
{
	CURL *easies[CALLS];

	(void)state;
	rig_server(STEPS(unavailable));
	rig_server(STEPS(ok));
	rig.call.event = NULL;
	for (size_t i = 0; i < CALLS; i++) {
		easies[i] = curl_easy_duphandle(rig.easy);
		assert_int_equal(rea_curl_start(rig.curl, easies[i], &rig.call, now_ns, on_done, NULL, NULL), 0);
	}
	for (unsigned i = 0; i < 500 && done_count != CALLS; i++) {
		rea_curl_run(rig.curl, now_ns);
		turn(5);
		/* On to the end of a wait, never to that of an attempt. */
		if (rea_curl_next(rig.curl) <= now_ns + MS(24))
			now_ns = rea_curl_next(rig.curl);
	}
	assert_int_equal(done_count, CALLS);
	assert_int_equal(rig_requests(0), CALLS);
	assert_int_equal(rig_requests(1), CALLS);
	assert_int_equal(rig.reply_length, 5 * CALLS);
	assert_true(rea_curl_next(rig.curl) == REA_NEVER);
	for (size_t i = 0; i < CALLS; i++)
		curl_easy_cleanup(easies[i]);
}

static void other_handles_of_the_program_are_left_alone(void **state)
{
	struct server *server = rig_server(STEPS(ok));
	CURL *own = curl_easy_init();
	char url[80];

	(void)state;
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/own", server->id.port);
	curl_easy_setopt(own, CURLOPT_URL, url);
	curl_easy_setopt(own, CURLOPT_WRITEFUNCTION, rig_on_write);
	curl_easy_setopt(own, CURLOPT_WRITEDATA, &rig);
	curl_multi_add_handle(multi, own);
	turn_until(&foreign_count, 1);
	assert_int_equal(done_count, 0);
	assert_int_equal(rea_curl_cancel(rig.curl, own), REA_ERR_NOT_FOUND);
	curl_multi_remove_handle(multi, own);
	curl_easy_cleanup(own);
}

static void a_handle_has_one_call_at_a_time(void **state)
{
	struct rea_error_info info;

	(void)state;
	rig_server(STEPS(ok));
	start();
	assert_int_equal(rea_curl_start(rig.curl, rig.easy, &rig.call, now_ns, on_done, NULL, &info), REA_ERR_INVALID);
	assert_string_equal(info.key, "easy");
	assert_string_equal(info.message, "the handle's call is under way; the next one must wait until it has ended");
	rea_curl_run(rig.curl, now_ns);
	turn_until(&done_count, 1);
}

static void a_handle_in_another_multi_makes_no_attempt(void **state)
{
	CURLM *other = curl_multi_init();

	(void)state;
	rig_server(STEPS(ok));
	curl_multi_add_handle(other, rig.easy);
	start();
	rea_curl_run(rig.curl, now_ns);
	assert_int_equal(done_count, 1);
	assert_int_equal(rig.code, CURLE_BAD_FUNCTION_ARGUMENT);
	assert_gave_up(REA_REASON_PERMANENT, 1);
	curl_multi_remove_handle(other, rig.easy);
	curl_multi_cleanup(other);
}

/* ---- what callbacks may do ---- */

static void start_again(CURL *easy, const struct rea_curl_result *result, void *user_data)
{
	on_done(easy, result, user_data);
	assert_int_equal(rea_curl_start(rig.curl, easy, &rig.call, now_ns, on_done, NULL, NULL), 0);
}

static void done_may_begin_the_next_call(void **state)
{
	(void)state;
	rig_server(STEPS(ok));
	assert_int_equal(rea_curl_start(rig.curl, rig.easy, &rig.call, now_ns, start_again, NULL, NULL), 0);
	rea_curl_run(rig.curl, now_ns);
	turn_until(&done_count, 1);
	assert_true(rea_curl_next(rig.curl) == now_ns);
	rea_curl_run(rig.curl, now_ns);
	turn_until(&done_count, 2);
	assert_int_equal(rig_requests(0), 2);
	assert_string_equal(rig.reply, "hellohello");
}

static void start_for_ever(CURL *easy, const struct rea_curl_result *result, void *user_data)
{
	on_done(easy, result, user_data);
	assert_int_equal(rea_curl_start(rig.curl, easy, &rig.call, now_ns, start_for_ever, NULL, NULL), 0);
}

/* Each call ends at once: none may be begun and ended in the same run. */
static void a_run_takes_up_only_what_was_there_before_it(void **state)
{
	(void)state;
	assert_int_equal(rea_curl_start(rig.curl, rig.easy, &rig.call, now_ns, start_for_ever, NULL, NULL), 0);
	rig.call.event = NULL;
	rea_curl_run(rig.curl, now_ns);
	assert_int_equal(done_count, 1);
	rea_curl_run(rig.curl, now_ns);
	assert_int_equal(done_count, 2);
}

static void free_handle(CURL *easy, const struct rea_curl_result *result, void *user_data)
{
	on_done(easy, result, user_data);
	curl_easy_cleanup(easy);
	rig.easy = NULL;
}

static void done_may_free_the_handle(void **state)
{
	(void)state;
	rig_server(STEPS(ok));
	assert_int_equal(rea_curl_start(rig.curl, rig.easy, &rig.call, now_ns, free_handle, NULL, NULL), 0);
	rea_curl_run(rig.curl, now_ns);
	turn_until(&done_count, 1);
	assert_succeeded(1);
}

static void cancel_in_event(const struct rea_event *event, CURLcode code, void *user_data)
{
	rig_on_event(event, code, user_data);
	if (rig.events_len == 1)
		assert_int_equal(rea_curl_cancel(rig.curl, rig.easy), 0);
}

static void an_event_may_cancel_its_call(void **state)
{
	(void)state;
	rig_server(STEPS(unavailable));
	rig_server(STEPS(ok));
	rig.call.event = cancel_in_event;
	start();
	rea_curl_run(rig.curl, now_ns);
	turn_until_events(1);
	assert_int_equal(done_count, 0);
	assert_true(rea_curl_next(rig.curl) == 0);
	rea_curl_run(rig.curl, now_ns);
	assert_int_equal(done_count, 1);
	assert_gave_up(REA_REASON_CANCELLED, 1);
	assert_event(1, REA_EVENT_GIVE_UP, REA_OUTCOME_CANCELLED, REA_REASON_CANCELLED);
	assert_int_equal(rea_curl_cancel(rig.curl, rig.easy), REA_ERR_NOT_FOUND);
	assert_int_equal(rig_requests(1), 0);
}

static size_t cancel_in_write(char *data, size_t size, size_t items, void *user_data)
{
	assert_int_equal(rea_curl_cancel(rig.curl, rig.easy), 0);
	return rig_on_write(data, size, items, user_data);
}

static void a_write_function_may_cancel_its_call(void **state)
{
	(void)state;
	/* The reply is not whole, so the attempt is still under way. */
	rig_server(STEPS({.reply = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"}));
	rig.call.write = cancel_in_write;
	start();
	rea_curl_run(rig.curl, now_ns);
	for (unsigned i = 0; i < 500 && rig.reply_length == 0; i++)
		turn(10);
	assert_true(rea_curl_next(rig.curl) == 0);
	rea_curl_run(rig.curl, now_ns);
	assert_int_equal(done_count, 1);
	assert_int_equal(rig.code, CURLE_ABORTED_BY_CALLBACK);
	assert_gave_up(REA_REASON_CANCELLED, 1);
}

static bool pause_next;

static size_t pause_once(char *data, size_t size, size_t items, void *user_data)
{
	if (pause_next) {
		pause_next = false;
		return CURL_WRITEFUNC_PAUSE;
	}
	return rig_on_write(data, size, items, user_data);
}

/* The failed reply outgrows what is held: it is handed over from its beginning, with a pause at its first piece. */
static void a_reply_that_is_handed_over_can_be_paused(void **state)
{
	static char reply[60100];
	int head = snprintf(reply, sizeof(reply), "HTTP/1.1 503 x\r\nContent-Length: 60000\r\n\r\n");
	struct server_step large = {.reply = reply};

	(void)state;
	for (int i = 0; i < 60000; i++)
		reply[head + i] = (char)('a' + i % 26);
	rig_server(&large, 1);
	rig.call.write = pause_once;
	rig.call.held_bytes_max = 50000;
	pause_next = true;
	start();
	rea_curl_run(rig.curl, now_ns);
	for (unsigned i = 0; i < 500 && pause_next; i++)
		turn(10);
	turn(20);
	assert_int_equal(rig.reply_length, 0);
	curl_easy_pause(rig.easy, CURLPAUSE_CONT);
	turn_until(&done_count, 1);
	assert_gave_up(REA_REASON_RESPONSE_STARTED, 1);
	assert_int_equal(rig.reply_length, 60000);
	assert_memory_equal(rig.reply, reply + head, 60000);
}

/* ---- the end ---- */

static void what_a_call_holds_comes_back_when_the_object_is_freed(void **state)
{
	struct rea_load load = {0};
	struct rea_retry_limit limit;
	CURL *waiting = curl_easy_duphandle(rig.easy);

	(void)state;
	rig_server(STEPS(unavailable, hang));
	rig.items[0].load = &load;
	rig.policy.max_retry_same_instance = 1;
	rea_retry_limit_init(&limit, 4);
	rig.call.options.limit = &limit;
	start();
	rea_curl_run(rig.curl, now_ns);
	turn_until_events(1);
	now_ns = rea_curl_next(rig.curl);
	rea_curl_run(rig.curl, now_ns);
	turn_until_requests(0, 2);
	assert_int_equal(rea_retry_limit_in_use(&limit), 1);
	assert_int_equal(load.in_flight, 1);
	assert_int_equal(rea_curl_start(rig.curl, waiting, &rig.call, now_ns, on_done, NULL, NULL), 0);
	rea_curl_free(rig.curl);
	rig.curl = NULL;
	assert_int_equal(rea_retry_limit_in_use(&limit), 0);
	assert_int_equal(load.in_flight, 0);
	assert_int_equal(done_count, 0);
	/* Both handles are the program's again. */
	assert_int_equal(curl_multi_add_handle(multi, rig.easy), CURLM_OK);
	assert_int_equal(curl_multi_remove_handle(multi, rig.easy), CURLM_OK);
	curl_easy_cleanup(waiting);
}

int main(void)
{
#define MULTI_TEST(function) cmocka_unit_test_setup_teardown(function, multi_init, multi_fini)
	const struct CMUnitTest tests[] = {
	    MULTI_TEST(times_are_exact),
	    MULTI_TEST(an_attempt_ends_when_its_time_is_up),
	    MULTI_TEST(an_attempt_that_never_connects_was_never_sent),
	    MULTI_TEST(a_late_run_finds_the_deadline_passed),
	    MULTI_TEST(many_calls_share_a_multi),
	    MULTI_TEST(other_handles_of_the_program_are_left_alone),
	    MULTI_TEST(a_handle_has_one_call_at_a_time),
	    MULTI_TEST(a_handle_in_another_multi_makes_no_attempt),
	    MULTI_TEST(done_may_begin_the_next_call),
	    MULTI_TEST(a_run_takes_up_only_what_was_there_before_it),
	    MULTI_TEST(done_may_free_the_handle),
	    MULTI_TEST(an_event_may_cancel_its_call),
	    MULTI_TEST(a_write_function_may_cancel_its_call),
	    MULTI_TEST(a_reply_that_is_handed_over_can_be_paused),
	    MULTI_TEST(what_a_call_holds_comes_back_when_the_object_is_freed),
	};

	curl_global_init(CURL_GLOBAL_ALL);
	return cmocka_run_group_tests_name("multi", tests, NULL, NULL);
}
