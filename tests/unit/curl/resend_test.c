/*
 * libcurl sends a request again by itself: on a reused connection that ends without a reply, and on an HTTP/2 stream
 * that was refused. The first test of each pair shows it with curl_easy_perform, so that a libcurl that behaves
 * otherwise is noticed; the second that a call of ours does not.
 */
#include "rig.h"

static const struct server_step dies_when_reused[] = {
    {.reply = OK_REPLY}, {.reply = NULL, .then = CLOSE}, {.reply = OK_REPLY}};

/* The handle's own transfer, straight to the first server. */
static CURLcode plain(void)
{
	char url[80];

	snprintf(url, sizeof(url), "http://127.0.0.1:%u/", rig.items[0].id.port);
	curl_easy_setopt(rig.easy, CURLOPT_URL, url);
	curl_easy_setopt(rig.easy, CURLOPT_WRITEFUNCTION, rig_on_write);
	curl_easy_setopt(rig.easy, CURLOPT_WRITEDATA, &rig);
	return curl_easy_perform(rig.easy);
}

static void libcurl_repeats_a_post_on_a_dead_reused_connection(void **state)
{
	(void)state;
	rig_server(dies_when_reused, 3);
	curl_easy_setopt(rig.easy, CURLOPT_POSTFIELDS, "pay=1");
	assert_int_equal(plain(), CURLE_OK);
	assert_int_equal(plain(), CURLE_OK);
	rig_stop_servers();
	/* Two transfers, three requests: the second went out twice. */
	assert_int_equal(rig_requests(0), 3);
	assert_int_equal(rig.servers[0].conn_of[1], 0);
	assert_int_equal(rig.servers[0].conn_of[2], 1);
}

static void a_call_does_not(void **state)
{
	(void)state;
	rig_server(dies_when_reused, 3);
	curl_easy_setopt(rig.easy, CURLOPT_POSTFIELDS, "pay=1");
	rig.policy.enabled = false;
	rig_perform();
	assert_succeeded(1);
	rig_perform();
	assert_int_equal(rig.code, CURLE_GOT_NOTHING);
	assert_gave_up(REA_REASON_NOT_ENABLED, 1);
	assert_event(0, REA_EVENT_GIVE_UP, REA_OUTCOME_AMBIGUOUS, REA_REASON_NOT_ENABLED);
	rig_stop_servers();
	assert_int_equal(rig_requests(0), 2);
	assert_int_equal(rig.servers[0].conn_of[1], 0);
}

static void a_call_that_may_repeat_it_does_so_as_an_attempt(void **state)
{
	(void)state;
	rig_server(dies_when_reused, 3);
	rig.policy.max_retry_same_instance = 1;
	rig_perform();
	rig_perform();
	assert_succeeded(2);
	assert_event(0, REA_EVENT_RETRY, REA_OUTCOME_AMBIGUOUS, REA_REASON_NONE);
	rig_stop_servers();
	assert_int_equal(rig_requests(0), 3);
	assert_string_equal(server_field(&rig.servers[0], 1, "rea-attempt"), "1/6");
	assert_string_equal(server_field(&rig.servers[0], 2, "rea-attempt"), "2/6");
}

static void a_reset_is_no_different(void **state)
{
	(void)state;
	rig_server(STEPS({.reply = OK_REPLY}, {.reply = NULL, .then = RESET}, {.reply = OK_REPLY}));
	rig.policy.enabled = false;
	rig_perform();
	rig_perform();
	assert_event(0, REA_EVENT_GIVE_UP, REA_OUTCOME_AMBIGUOUS, REA_REASON_NOT_ENABLED);
	rig_stop_servers();
	assert_int_equal(rig_requests(0), 2);
}

static void a_new_connection_that_dies_was_never_repeated(void **state)
{
	(void)state;
	rig_server(STEPS({.reply = NULL, .then = CLOSE}));
	rig.policy.enabled = false;
	rig_perform();
	assert_int_equal(rig.code, CURLE_GOT_NOTHING);
	assert_event(0, REA_EVENT_GIVE_UP, REA_OUTCOME_AMBIGUOUS, REA_REASON_NOT_ENABLED);
	rig_stop_servers();
	assert_int_equal(rig_requests(0), 1);
}

/* The connection had ended before the request: libcurl sees it in time and takes a new one, which is the first request
 * of the attempt. */
static void a_connection_that_ended_while_idle_costs_nothing(void **state)
{
	(void)state;
	rig_server(STEPS({.reply = OK_REPLY, .then = CLOSE}));
	rig.policy.enabled = false;
	rig_perform();
	usleep(20000);
	rig_perform();
	assert_succeeded(1);
	rig_stop_servers();
	assert_int_equal(rig_requests(0), 2);
	assert_int_equal(atomic_load(&rig.servers[0].accepted), 2);
}

static unsigned asked;
static curl_socket_t last_socket;

static curl_socket_t open_socket(void *user_data, curlsocktype purpose, struct curl_sockaddr *address)
{
	(void)user_data;
	(void)purpose;
	last_socket = socket(address->family, address->socktype, address->protocol);
	return last_socket;
}

/* The connection breaks between libcurl's last look at it and the first byte. */
static int break_once(void *user_data, char *ip, char *local_ip, int port, int local_port)
{
	(void)user_data;
	(void)ip;
	(void)local_ip;
	(void)port;
	(void)local_port;
	if (asked++ == 0)
		shutdown(last_socket, SHUT_WR);
	return CURL_PREREQFUNC_OK;
}

static void what_was_provably_not_sent_goes_out_in_the_same_attempt(void **state)
{
	(void)state;
	rig_server(STEPS({.reply = OK_REPLY}));
	rig.policy.enabled = false;
	curl_easy_setopt(rig.easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	rig_perform();
	rig.call.prereq = break_once;
	asked = 0;
	rig_perform();
	assert_succeeded(1);
	assert_int_equal(asked, 2);
	rig_stop_servers();
	assert_int_equal(rig_requests(0), 2);
	assert_int_equal(rig.servers[0].conn_of[1], 1);
}

static void the_second_hop_of_a_redirect_is_not_repeated_either(void **state)
{
	(void)state;
	rig_server(STEPS({.reply = EMPTY_REPLY("302", "Location: /there\r\n")}, {.reply = NULL, .then = CLOSE},
	    {.reply = OK_REPLY}));
	curl_easy_setopt(rig.easy, CURLOPT_FOLLOWLOCATION, 1L);
	rig.policy.enabled = false;
	rig_perform();
	assert_int_equal(rig.code, CURLE_GOT_NOTHING);
	assert_event(0, REA_EVENT_GIVE_UP, REA_OUTCOME_AMBIGUOUS, REA_REASON_NOT_ENABLED);
	rig_stop_servers();
	assert_int_equal(rig_requests(0), 2);
}

static void rounds_of_authentication_are_no_resend(void **state)
{
	(void)state;
	rig_server(
	    STEPS({.reply = EMPTY_REPLY("401", "WWW-Authenticate: Digest realm=\"r\", nonce=\"n\", qop=\"auth\"\r\n")},
		{.reply = OK_REPLY}));
	curl_easy_setopt(rig.easy, CURLOPT_HTTPAUTH, CURLAUTH_DIGEST);
	curl_easy_setopt(rig.easy, CURLOPT_USERPWD, "u:p");
	rig_perform();
	assert_succeeded(1);
	assert_string_equal(rig.reply, "hello");
	rig_stop_servers();
	assert_int_equal(rig_requests(0), 2);
	assert_non_null(server_field(&rig.servers[0], 1, "Authorization"));
}

/* ---- HTTP/2 ---- */

/* A whole HEADERS frame without a body: type, flags, stream. */
#define H2_REQUEST "\1\5\0\0\0\1"
/* SETTINGS, then RST_STREAM of stream 1 with this error. */
#define H2_RESET(error)      \
	"\0\0\0\4\0\0\0\0\0" \
	"\0\0\4\3\0\0\0\0\1\0\0\0" error
#define H2_STEP(error)                            \
	((struct server_step){.raw = H2_REQUEST,  \
	    .raw_length = sizeof(H2_REQUEST) - 1, \
	    .reply = H2_RESET(error),             \
	    .length = sizeof(H2_RESET(error)) - 1})

static void speak_h2(const struct server_step *step)
{
	rig_server(step, 1);
	curl_easy_setopt(rig.easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE);
}

static void libcurl_repeats_a_refused_stream_up_to_six_times(void **state)
{
	const struct server_step refused = H2_STEP("\7");

	(void)state;
	speak_h2(&refused);
	assert_int_not_equal(plain(), CURLE_OK);
	rig_stop_servers();
	assert_int_equal(rig_requests(0), 6);
}

static void a_refused_stream_is_one_attempt_that_was_never_sent(void **state)
{
	const struct server_step refused = H2_STEP("\7");

	(void)state;
	speak_h2(&refused);
	rig_perform();
	assert_int_equal(rig.code, CURLE_HTTP2_STREAM);
	assert_gave_up(REA_REASON_NO_UNTRIED_INSTANCE, 1);
	assert_event(0, REA_EVENT_GIVE_UP, REA_OUTCOME_NEVER_SENT, REA_REASON_NO_UNTRIED_INSTANCE);
	rig_stop_servers();
	assert_int_equal(rig_requests(0), 1);
}

static void a_stream_that_broke_is_ambiguous(void **state)
{
	const struct server_step broken = H2_STEP("\2");

	(void)state;
	speak_h2(&broken);
	rig_perform();
	assert_event(0, REA_EVENT_GIVE_UP, REA_OUTCOME_AMBIGUOUS, REA_REASON_NO_UNTRIED_INSTANCE);
	rig_stop_servers();
	assert_int_equal(rig_requests(0), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    RIG_TEST(libcurl_repeats_a_post_on_a_dead_reused_connection),
	    RIG_TEST(a_call_does_not),
	    RIG_TEST(a_call_that_may_repeat_it_does_so_as_an_attempt),
	    RIG_TEST(a_reset_is_no_different),
	    RIG_TEST(a_new_connection_that_dies_was_never_repeated),
	    RIG_TEST(a_connection_that_ended_while_idle_costs_nothing),
	    RIG_TEST(what_was_provably_not_sent_goes_out_in_the_same_attempt),
	    RIG_TEST(the_second_hop_of_a_redirect_is_not_repeated_either),
	    RIG_TEST(rounds_of_authentication_are_no_resend),
	    RIG_TEST(libcurl_repeats_a_refused_stream_up_to_six_times),
	    RIG_TEST(a_refused_stream_is_one_attempt_that_was_never_sent),
	    RIG_TEST(a_stream_that_broke_is_ambiguous),
	};

	curl_global_init(CURL_GLOBAL_ALL);
	return cmocka_run_group_tests_name("resend", tests, NULL, NULL);
}
