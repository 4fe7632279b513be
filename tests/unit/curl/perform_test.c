/* Whole calls in the calling thread, against servers that count: how many requests went where, with what, and what the
 * program got. */
#include "rig.h"

#include <errno.h>
#include <sys/eventfd.h>

static const struct server_step ok = {.reply = OK_REPLY};
static const struct server_step unavailable = {.reply = BODY_REPLY("503", "4", "busy")};
static const struct server_step hang = {.reply = NULL};

/* ---- how many requests ---- */

static void a_first_success_is_one_request_and_no_event(void **state)
{
	(void)state;
	rig_server(STEPS(ok));
	rig_perform();
	assert_succeeded(1);
	assert_string_equal(rig.reply, "hello");
	assert_int_equal(rig_requests(0), 1);
	assert_int_equal(rig.events_len, 0);
	assert_int_equal(rig.result.report.outcome, REA_OUTCOME_OK);
	assert_int_equal(rig.result.report.code, 200);
}

static void retries_are_as_many_as_the_policy_has(void **state)
{
	(void)state;
	for (uint32_t retries = 0; retries <= 3; retries += retries == 0 ? 1 : 2) {
		rig_init(NULL);
		rig.policy.max_retry_same_instance = retries;
		rig.policy.max_retry_next_instance = 0;
		rig_server(STEPS(unavailable));
		rig_perform();
		assert_int_equal(rig.code, CURLE_OK);
		assert_gave_up(REA_REASON_ATTEMPTS_EXHAUSTED, retries + 1);
		assert_int_equal(rig_requests(0), retries + 1);
		assert_int_equal(rig.events_len, retries + 1);
		for (size_t i = 0; i < retries; i++)
			assert_event(i, REA_EVENT_RETRY, REA_OUTCOME_UNAVAILABLE, REA_REASON_NONE);
		assert_event(retries, REA_EVENT_GIVE_UP, REA_OUTCOME_UNAVAILABLE, REA_REASON_ATTEMPTS_EXHAUSTED);
		/* The last reply, once. */
		assert_string_equal(rig.reply, "busy");
		/* One connection carried them all. */
		assert_int_equal(atomic_load(&rig.servers[0].accepted), 1);
		rig_fini(NULL);
	}
}

static void an_instance_that_failed_is_never_asked_again(void **state)
{
	(void)state;
	for (size_t i = 0; i < RIG_SERVERS; i++)
		rig_server(STEPS(unavailable));
	rig.policy.max_retry_next_instance = 9;
	rig_perform();
	assert_gave_up(REA_REASON_NO_UNTRIED_INSTANCE, 3);
	for (size_t i = 0; i < RIG_SERVERS; i++) {
		char address[64];

		assert_int_equal(rig_requests(i), 1);
		rea_instance_id_format(&rig.items[i].id, address, sizeof(address));
		assert_string_equal(rig.events[i].instance, address);
	}
}

static void the_switch_keeps_host_and_path(void **state)
{
	(void)state;
	rig_server(STEPS(unavailable));
	rig_server(STEPS(ok));
	rig_perform();
	assert_succeeded(2);
	rig_stop_servers();
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(rig_requests(i), 1);
		assert_string_equal(server_field(&rig.servers[i], 0, "Host"), URL_HOST);
		assert_memory_equal(rig.servers[i].request[0], "GET /items?q=1 HTTP/1.1\r\n", 25);
	}
	assert_string_equal(rig.reply, "hello");
	assert_event(0, REA_EVENT_RETRY, REA_OUTCOME_UNAVAILABLE, REA_REASON_NONE);
	assert_event(1, REA_EVENT_SUCCESS, REA_OUTCOME_OK, REA_REASON_NONE);
	assert_string_equal(rig.events[0].detail, "GET /items");
	assert_int_equal(rig.events[0].code, 503);
	assert_true(rig.events[0].delay_ns >= MS(20) && rig.events[0].delay_ns <= MS(24));
	assert_string_equal(rig.events[0].call_id, rig.events[1].call_id);
	assert_string_equal(rig.events[0].biz_id, rig.events[0].call_id);
}

static void kept_connections_belong_to_their_instance(void **state)
{
	(void)state;
	rig_server(STEPS(ok, unavailable, ok));
	rig_server(STEPS(ok));
	rig_perform();
	rig_perform();
	rig_perform();
	assert_int_equal(rig_requests(0), 3);
	assert_int_equal(rig_requests(1), 1);
	assert_int_equal(atomic_load(&rig.servers[0].accepted), 1);
	assert_string_equal(rig.reply, "hellohellohello");
}

static void tls_asks_for_the_name_in_the_url(void **state)
{
	(void)state;
	/* The answer is no TLS, twice. */
	rig_server(STEPS({.reply = "nonsense\r\n", .then = CLOSE, .raw = "service.test", .raw_length = 12}));
	rig_server(STEPS({.reply = "nonsense\r\n", .then = CLOSE, .raw = "service.test", .raw_length = 12}));
	curl_easy_setopt(rig.easy, CURLOPT_URL, "https://service.test/x");
	/* The first use of TLS reads every certificate of the system. */
	rig.policy.attempt_timeout_ns = MS(20000);
	rig.policy.deadline_ns = MS(60000);
	rig_perform();
	assert_int_equal(rig.code, CURLE_SSL_CONNECT_ERROR);
	assert_gave_up(REA_REASON_NO_UNTRIED_INSTANCE, 2);
	assert_event(0, REA_EVENT_RETRY, REA_OUTCOME_NEVER_SENT, REA_REASON_NONE);
	rig_stop_servers();
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(rig_requests(i), 1);
		assert_non_null(memmem(rig.servers[i].request[0], SERVER_REQUEST_MAX, "service.test", 12));
	}
}

static void without_instances_the_host_of_the_url_is_the_only_one(void **state)
{
	struct server *server = rig_server(STEPS(unavailable, unavailable, ok));
	char url[80], address[64];

	(void)state;
	rig.call.instances = NULL;
	rea_instance_id_format(&server->id, address, sizeof(address));
	snprintf(url, sizeof(url), "http://%s/", address);
	curl_easy_setopt(rig.easy, CURLOPT_URL, url);
	rig_perform();
	assert_gave_up(REA_REASON_NO_UNTRIED_INSTANCE, 1);
	assert_string_equal(rig.events[0].instance, address);
	rig.policy.max_retry_same_instance = 1;
	rig_perform();
	assert_succeeded(2);
	assert_int_equal(rig_requests(0), 3);
}

/* ---- what protects the callee ---- */

static void an_empty_budget_allows_no_retry(void **state)
{
	struct rea_budget_policy numbers = {.ratio_permille = 0, .reserve_per_s = 0, .window_ms = 1000};
	struct rea_budget *budget;

	(void)state;
	rig_server(STEPS(unavailable));
	rig_server(STEPS(ok));
	assert_int_equal(rea_budget_new(&numbers, 1, NULL, &budget, NULL), 0);
	rig.call.options.budget = budget;
	rig_perform();
	assert_gave_up(REA_REASON_BUDGET_EXHAUSTED, 1);
	assert_true(rig.result.decision.stop);
	assert_int_equal(rig_requests(0) + rig_requests(1), 1);
	assert_string_equal(rig.reply, "busy");
	rea_budget_free(budget);
}

static void an_open_breaker_lets_nothing_out(void **state)
{
	struct rea_breaker *breaker;

	(void)state;
	rig_server(STEPS(ok));
	assert_int_equal(rea_breaker_new(&rig.policy.breaker, NULL, &breaker, NULL), 0);
	rea_breaker_force(breaker, REA_BREAKER_FORCED_OPEN, 0);
	rig.call.options.breaker = breaker;
	rig_perform();
	assert_gave_up(REA_REASON_BREAKER_OPEN, 0);
	assert_int_equal(rig.code, CURLE_COULDNT_CONNECT);
	assert_int_equal(rig.result.report.outcome, REA_OUTCOME_NEVER_SENT);
	assert_int_equal(atomic_load(&rig.servers[0].accepted), 0);
	assert_event(0, REA_EVENT_GIVE_UP, REA_OUTCOME_NEVER_SENT, REA_REASON_BREAKER_OPEN);
	rea_breaker_free(breaker);
}

/* The breaker opens while the call waits: the reply of the attempt that was made is the last one. */
static void force_open(const struct rea_event *event, CURLcode code, void *user_data)
{
	rig_on_event(event, code, &rig);
	rea_breaker_force(user_data, REA_BREAKER_FORCED_OPEN, 0);
}

static void a_breaker_that_opens_in_the_wait_ends_the_call_with_the_reply_there_is(void **state)
{
	struct rea_breaker *breaker;

	(void)state;
	rig_server(STEPS(unavailable));
	rig_server(STEPS(ok));
	assert_int_equal(rea_breaker_new(&rig.policy.breaker, NULL, &breaker, NULL), 0);
	rig.call.options.breaker = breaker;
	rig.call.event = force_open;
	rig.call.event_data = breaker;
	rig_perform();
	assert_gave_up(REA_REASON_BREAKER_OPEN, 1);
	assert_int_equal(rig.code, CURLE_OK);
	assert_string_equal(rig.reply, "busy");
	assert_int_equal(rig.result.report.code, 503);
	assert_int_equal(rig_requests(0) + rig_requests(1), 1);
	assert_event(0, REA_EVENT_RETRY, REA_OUTCOME_UNAVAILABLE, REA_REASON_NONE);
	assert_event(1, REA_EVENT_GIVE_UP, REA_OUTCOME_NEVER_SENT, REA_REASON_BREAKER_OPEN);
	rea_breaker_free(breaker);
}

static void loads_see_every_attempt(void **state)
{
	struct rea_load loads[2] = {{0}};

	(void)state;
	rig_server(STEPS(unavailable));
	rig_server(STEPS(ok));
	rig.items[0].load = &loads[0];
	rig.items[1].load = &loads[1];
	rig_perform();
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(loads[i].in_flight, 0);
		assert_int_equal(loads[i].samples, 1);
	}
	assert_true(loads[0].failure_rate > 0 && loads[1].failure_rate <= 0);
}

/* ---- what the server says ---- */

static void retry_after_is_waited_for(void **state)
{
	(void)state;
	rig_server(STEPS({.reply = EMPTY_REPLY("503", "Retry-After: 1\r\n")}));
	rig_server(STEPS(ok));
	rig.policy.deadline_ns = MS(1000);
	rig_perform();
	/* It would take longer than there is time: no attempt, no sleep. */
	assert_gave_up(REA_REASON_DEADLINE, 1);
	assert_true(rig.events[0].cost_ns < MS(500));
	assert_int_equal(rig_requests(1), 0);
}

static void rea_retry_stop_is_obeyed(void **state)
{
	(void)state;
	rig_server(STEPS({.reply = EMPTY_REPLY("503", "rea-retry: stop\r\n")}));
	rig_server(STEPS(ok));
	rig_perform();
	assert_gave_up(REA_REASON_SERVER_REFUSED, 1);
	assert_int_equal(rig_requests(1), 0);
}

static void rea_retry_after_is_pushback(void **state)
{
	(void)state;
	rig_server(STEPS({.reply = EMPTY_REPLY("500", "rea-retry: after=150\r\n")}));
	rig_server(STEPS(ok));
	rig_perform();
	assert_succeeded(2);
	assert_event(0, REA_EVENT_RETRY, REA_OUTCOME_PUSHBACK, REA_REASON_NONE);
	assert_true(rig.events[0].delay_ns >= MS(150) && rig.events[0].delay_ns <= MS(180));
}

static void two_different_retry_afters_say_nothing(void **state)
{
	(void)state;
	rig_server(STEPS({.reply = EMPTY_REPLY("503", "Retry-After: 2\r\nRetry-After: 3\r\n")}));
	rig_server(STEPS(ok));
	rig_perform();
	assert_succeeded(2);
	assert_true(rig.events[0].delay_ns <= MS(24));
}

/* ---- time ---- */

static void a_read_timeout_is_ambiguous(void **state)
{
	(void)state;
	rig_server(STEPS(hang));
	rig_server(STEPS(ok));
	rig.policy.attempt_timeout_ns = MS(200);
	rig_perform();
	assert_succeeded(2);
	assert_event(0, REA_EVENT_RETRY, REA_OUTCOME_AMBIGUOUS, REA_REASON_NONE);
	assert_int_equal(rig.events[0].curl_code, CURLE_OPERATION_TIMEDOUT);
	assert_int_equal(rig.events[0].code, ETIMEDOUT);
	assert_true(rig.events[0].cost_ns >= MS(200) && rig.events[0].cost_ns < MS(900));
	assert_int_equal(rig_requests(0), 1);
}

static void the_deadline_ends_the_call(void **state)
{
	uint64_t begin_ns, took_ns;

	(void)state;
	rig_server(STEPS(hang));
	rig_server(STEPS(hang));
	rig.policy.attempt_timeout_ns = MS(200);
	rig.policy.deadline_ns = MS(300);
	begin_ns = rig_clock_ns();
	rig_perform();
	took_ns = rig_clock_ns() - begin_ns;
	assert_int_equal(rig.code, CURLE_OPERATION_TIMEDOUT);
	assert_int_equal(rig.result.decision.attempt, 2);
	assert_true(took_ns >= MS(300) && took_ns < MS(900));
	rig_stop_servers();
	assert_string_equal(server_field(&rig.servers[0], 0, "rea-deadline-ms"), "300");
	assert_in_range(strtoul(server_field(&rig.servers[1], 0, "rea-deadline-ms"), NULL, 10), 1, 80);
}

static void a_deadline_in_the_past_allows_no_attempt(void **state)
{
	(void)state;
	rig_server(STEPS(ok));
	rig.call.options.deadline_ns = 1;
	rig_perform();
	assert_gave_up(REA_REASON_DEADLINE, 0);
	assert_int_equal(rig.code, CURLE_OPERATION_TIMEDOUT);
	assert_int_equal(rig_requests(0), 0);
}

static void a_reply_under_way_has_until_the_deadline(void **state)
{
	(void)state;
	/* The body stays short: one byte is passed on, then nothing comes. */
	rig_server(STEPS({.reply = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nh"}));
	rig_server(STEPS(ok));
	rig.policy.attempt_timeout_ns = MS(150);
	rig.policy.deadline_ns = MS(400);
	rig_perform();
	assert_gave_up(REA_REASON_RESPONSE_STARTED, 1);
	assert_int_equal(rig.code, CURLE_OPERATION_TIMEDOUT);
	assert_true(rig.events[0].cost_ns >= MS(400));
	assert_string_equal(rig.reply, "h");
	assert_int_equal(rig_requests(1), 0);
}

/* ---- cancelling ---- */

struct canceller {
	int fd;
	uint64_t asked_ns;
	unsigned after_ms;
	pthread_t thread;
};

static void *cancel_later(void *user_data)
{
	struct canceller *canceller = user_data;
	uint64_t one = 1;

	usleep(canceller->after_ms * 1000);
	canceller->asked_ns = rig_clock_ns();
	assert_int_equal(write(canceller->fd, &one, sizeof(one)), sizeof(one));
	return NULL;
}

/* How long perform went on after another thread had asked it to end. */
static uint64_t perform_cancelled(unsigned after_ms)
{
	struct canceller canceller = {.fd = eventfd(0, EFD_CLOEXEC), .after_ms = after_ms};
	uint64_t end_ns;

	rig.events_len = 0;
	rig.call.cancel_fd = canceller.fd;
	assert_int_equal(pthread_create(&canceller.thread, NULL, cancel_later, &canceller), 0);
	rig_perform();
	end_ns = rig_clock_ns();
	pthread_join(canceller.thread, NULL);
	close(canceller.fd);
	assert_int_equal(rig.code, CURLE_ABORTED_BY_CALLBACK);
	return end_ns - canceller.asked_ns;
}

/* A machine that is busy elsewhere may be late, but not every time. */
static void assert_cancelled_within(uint64_t limit_ns, unsigned after_ms)
{
	unsigned tries = 5;

	while (perform_cancelled(after_ms) >= limit_ns)
		assert_true(--tries > 0);
}

static void a_wait_can_be_cancelled_from_another_thread(void **state)
{
	(void)state;
	rig_server(STEPS(unavailable));
	rig_server(STEPS(ok));
	rig.policy.min_backoff_ns = rig.policy.max_backoff_ns = MS(3000);
	assert_cancelled_within(MS(10), 100);
	assert_gave_up(REA_REASON_CANCELLED, 1);
	assert_int_equal(rig_requests(1), 0);
	assert_event(1, REA_EVENT_GIVE_UP, REA_OUTCOME_CANCELLED, REA_REASON_CANCELLED);
	/* Nothing more is written to a program that has left. */
	assert_int_equal(rig.reply_length, 0);
}

static void an_attempt_can_be_cancelled_from_another_thread(void **state)
{
	(void)state;
	rig_server(STEPS(hang));
	assert_cancelled_within(MS(10), 50);
	assert_gave_up(REA_REASON_CANCELLED, 1);
	assert_event(0, REA_EVENT_GIVE_UP, REA_OUTCOME_CANCELLED, REA_REASON_CANCELLED);
}

static void what_was_cancelled_before_makes_no_attempt(void **state)
{
	(void)state;
	rig_server(STEPS(ok));
	rig.call.cancel_fd = eventfd(1, EFD_CLOEXEC);
	rig_perform();
	close(rig.call.cancel_fd);
	assert_gave_up(REA_REASON_CANCELLED, 0);
	assert_int_equal(atomic_load(&rig.servers[0].accepted), 0);
}

/* ---- permission and key ---- */

static void post(const char *body)
{
	curl_easy_setopt(rig.easy, CURLOPT_POSTFIELDS, body);
	rig.call.options.grant = (struct rea_grant){REA_PERMISSION_NONE, REA_PERMISSION_SOURCE_NONE};
}

static void an_undeclared_post_that_times_out_is_one_request(void **state)
{
	(void)state;
	rig_server(STEPS(hang));
	rig_server(STEPS(ok));
	post("a=1");
	rig.policy.never_sent = REA_NEVER_SENT_ALLOW;
	rig.policy.attempt_timeout_ns = MS(50);
	rig_perform();
	assert_gave_up(REA_REASON_NOT_DECLARED, 1);
	assert_int_equal(rig.code, CURLE_OPERATION_TIMEDOUT);
	assert_int_equal(rig_requests(0), 1);
	assert_int_equal(rig_requests(1), 0);
}

static void an_undeclared_post_that_was_refused_goes_on_under_allow_only(void **state)
{
	(void)state;
	rig_server(NULL, 0);
	rig_server(STEPS(ok));
	post("a=1");
	rig_perform();
	assert_gave_up(REA_REASON_NOT_DECLARED, 1);
	assert_int_equal(rig.code, CURLE_COULDNT_CONNECT);
	assert_int_equal(rig.result.report.code, ECONNREFUSED);
	rig.policy.never_sent = REA_NEVER_SENT_ALLOW;
	rig.events_len = 0;
	rig_perform();
	assert_succeeded(2);
	assert_event(0, REA_EVENT_RETRY, REA_OUTCOME_NEVER_SENT, REA_REASON_NONE);
	rig_stop_servers();
	assert_int_equal(rig_requests(1), 1);
	assert_string_equal(server_body(&rig.servers[1], 0), "a=1");
}

static void a_key_is_the_same_bytes_on_every_attempt(void **state)
{
	(void)state;
	rig_server(STEPS(hang));
	rig_server(STEPS({.reply = NULL, .then = RESET}));
	rig_server(STEPS(ok));
	post("a=1");
	rig.call.options.grant.permission = REA_PERMISSION_IDEMPOTENT_WITH_KEY;
	rig.call.make_key = true;
	rig.policy.attempt_timeout_ns = MS(200);
	rig_perform();
	assert_succeeded(3);
	rig_stop_servers();
	for (size_t i = 0; i < 3; i++) {
		char attempt[16];

		snprintf(attempt, sizeof(attempt), "%zu/3", i + 1);
		assert_int_equal(rig_requests(i), 1);
		assert_string_equal(server_field(&rig.servers[i], 0, "rea-attempt"), attempt);
		assert_string_equal(server_field(&rig.servers[i], 0, "Idempotency-Key"), rig.events[0].key);
		assert_string_equal(server_body(&rig.servers[i], 0), "a=1");
	}
	assert_int_equal(strlen(rig.events[0].key), 38);
	assert_event(1, REA_EVENT_RETRY, REA_OUTCOME_AMBIGUOUS, REA_REASON_NONE);
}

static void a_key_is_missing(void **state)
{
	(void)state;
	rig_server(STEPS({.reply = NULL, .then = CLOSE}));
	rig_server(STEPS(ok));
	post("a=1");
	rig.call.options.grant.permission = REA_PERMISSION_IDEMPOTENT_WITH_KEY;
	rig_perform();
	assert_gave_up(REA_REASON_KEY_MISSING, 1);
	assert_int_equal(rig.code, CURLE_GOT_NOTHING);
	rig_stop_servers();
	assert_null(server_field(&rig.servers[0], 0, "Idempotency-Key"));
}

static void a_key_that_was_given_is_sent_as_it_stands(void **state)
{
	struct curl_slist own = {(char[]){"idempotency-key:  \"of-the-list\" "}, NULL};

	(void)state;
	rig_server(STEPS(ok));
	rig.call.key = "order-4711";
	rig_perform();
	rig.call.headers = &own;
	rig_perform();
	rig_stop_servers();
	assert_string_equal(server_field(&rig.servers[0], 0, "Idempotency-Key"), "order-4711");
	assert_null(strstr(rig.servers[0].request[1], "order-4711"));
	assert_non_null(strstr(rig.servers[0].request[1], "\"of-the-list\""));
}

/* Refused before it began, and with these words. */
static void assert_refused(const char *key, const char *message)
{
	assert_int_equal(rig.code, CURLE_BAD_FUNCTION_ARGUMENT);
	assert_string_equal(rig.info.key, key);
	assert_string_equal(rig.info.message, message);
}

static void what_is_no_key_is_refused(void **state)
{
	char key[REA_CURL_KEY_MAX + 2];

	(void)state;
	rig_server(STEPS(ok));
	rig.call.key = "a\r\nX: 1";
	rig_perform();
	assert_refused("key", "the key has other bytes than visible ASCII; it must have none");
	memset(key, 'k', sizeof(key));
	key[REA_CURL_KEY_MAX + 1] = '\0';
	rig.call.key = key;
	rig_perform();
	assert_refused("key", "the length of the key is 256; it must be at most 255");
	key[REA_CURL_KEY_MAX] = '\0';
	rig_perform();
	assert_succeeded(1);
	rig_stop_servers();
	assert_int_equal(rig_requests(0), 1);
	assert_string_equal(server_field(&rig.servers[0], 0, "Idempotency-Key"), key);
}

static void a_layer_above_that_retries_allows_none_here(void **state)
{
	(void)state;
	rig_server(STEPS(unavailable));
	rig_server(STEPS(ok));
	rig.call.incoming_attempt = "2/3";
	rig_perform();
	assert_gave_up(REA_REASON_CHAIN_STOPPED, 1);
	rig.call.incoming_attempt = "1/3";
	rig_perform();
	assert_succeeded(2);
	rig_stop_servers();
	assert_string_equal(server_field(&rig.servers[0], 0, "rea-attempt"), "2/3");
	assert_string_equal(server_field(&rig.servers[0], 1, "rea-attempt"), "1/3");
}

/* ---- the request's body ---- */

struct source {
	const char *text;
	size_t piece;
	size_t at;
	unsigned seeks;
	int seek_result;
};

/* Three bytes at a time, unless told otherwise. */
static size_t source_read(char *buffer, size_t size, size_t items, void *user_data)
{
	struct source *source = user_data;
	size_t piece = source->piece > 0 ? source->piece : 3, length = strnlen(source->text + source->at, piece);

	assert_true(size * items >= piece);
	memcpy(buffer, source->text + source->at, length);
	source->at += length;
	return length;
}

static int source_seek(void *user_data, curl_off_t offset, int origin)
{
	struct source *source = user_data;

	assert_int_equal(origin, SEEK_SET);
	source->seeks++;
	if (source->seek_result == CURL_SEEKFUNC_OK)
		source->at = (size_t)offset;
	return source->seek_result;
}

static void upload(struct source *source)
{
	curl_easy_setopt(rig.easy, CURLOPT_UPLOAD, 1L);
	curl_easy_setopt(rig.easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)10);
	rig_server(&unavailable, 1);
	rig_server(&ok, 1);
	rig.call.read = source_read;
	rig.call.read_data = source;
}

static void assert_body_on_both(const char *body)
{
	assert_succeeded(2);
	rig_stop_servers();
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(rig_requests(i), 1);
		assert_string_equal(server_body(&rig.servers[i], 0), body);
	}
}

static void a_body_from_a_function_is_set_back(void **state)
{
	struct source source = {.text = "0123456789"};

	(void)state;
	upload(&source);
	rig.call.seek = source_seek;
	rig.call.seek_data = &source;
	rig.policy.replay_limit_bytes = 0;
	rig_perform();
	assert_body_on_both("0123456789");
	assert_int_equal(source.seeks, 1);
}

static void a_body_that_cannot_be_set_back_is_kept(void **state)
{
	struct source source = {.text = "0123456789"};

	(void)state;
	upload(&source);
	rig.policy.replay_limit_bytes = 10;
	rig_perform();
	assert_body_on_both("0123456789");
}

static void a_body_over_the_limit_is_sent_once(void **state)
{
	struct source source = {.text = "0123456789"};

	(void)state;
	upload(&source);
	rig.policy.replay_limit_bytes = 9;
	rig_perform();
	assert_gave_up(REA_REASON_BODY_OVER_LIMIT, 1);
	assert_int_equal(rig_requests(0), 1);
	assert_int_equal(rig_requests(1), 0);
	assert_string_equal(rig.reply, "busy");
}

static void a_body_whose_seek_fails_is_sent_once(void **state)
{
	struct source source = {.text = "0123456789", .seek_result = CURL_SEEKFUNC_FAIL};

	(void)state;
	upload(&source);
	rig.call.seek = source_seek;
	rig.call.seek_data = &source;
	rig_perform();
	assert_gave_up(REA_REASON_BODY_OVER_LIMIT, 1);
	assert_int_equal(rig_requests(1), 0);
}

static void a_body_from_a_file_begins_where_the_file_stood(void **state)
{
	FILE *file = tmpfile();

	(void)state;
	fputs("skip0123456789", file);
	fseek(file, 4, SEEK_SET);
	upload(NULL);
	rig.call.read = NULL;
	rig.call.read_data = file;
	rig.policy.replay_limit_bytes = 0;
	rig_perform();
	assert_body_on_both("0123456789");
	fclose(file);
}

static void a_body_from_a_pipe_is_kept(void **state)
{
	int ends[2];
	FILE *file;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "0123456789", 10), 10);
	close(ends[1]);
	file = fdopen(ends[0], "r");
	upload(NULL);
	rig.call.read = NULL;
	rig.call.read_data = file;
	rig_perform();
	assert_body_on_both("0123456789");
	fclose(file);
}

static void a_read_function_on_the_handle_only_is_never_called(void **state)
{
	struct source source = {.text = "0123456789"};

	(void)state;
	upload(NULL);
	rig.call.read = NULL;
	curl_easy_setopt(rig.easy, CURLOPT_READFUNCTION, source_read);
	curl_easy_setopt(rig.easy, CURLOPT_READDATA, &source);
	rig_perform();
	assert_int_equal(rig.code, CURLE_ABORTED_BY_CALLBACK);
	assert_int_equal(source.at, 0);
	assert_int_equal(rig_requests(0) + rig_requests(1), 0);
}

static void an_answer_before_the_body_is_read(void **state)
{
	char *text = malloc(100001);
	struct source source = {.text = text, .piece = 4096};

	(void)state;
	memset(text, 'x', 100000);
	text[100000] = '\0';
	upload(&source);
	rig_stop_servers();
	rig.servers_len = 0;
	rig_server(STEPS({.reply = BODY_REPLY("503", "0", ""), .early = true, .then = CLOSE}));
	rig_server(STEPS(ok));
	curl_easy_setopt(rig.easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)100000);
	rig.policy.replay_limit_bytes = 200000;
	rig.policy.attempt_timeout_ns = MS(4000);
	rig_perform();
	assert_succeeded(2);
	rig_stop_servers();
	assert_int_equal(rig.servers[1].body_length[0], 100000);
	free(text);
}

/* ---- the reply ---- */

static void a_failed_reply_over_the_limit_is_passed_on_and_final(void **state)
{
	(void)state;
	rig_server(STEPS(unavailable));
	rig_server(STEPS(ok));
	rig.call.held_bytes_max = 3;
	rig_perform();
	assert_gave_up(REA_REASON_RESPONSE_STARTED, 1);
	assert_string_equal(rig.reply, "busy");
	assert_int_equal(rig_requests(1), 0);
	rig.reply_length = 0;
	rig.call.held_bytes_max = 4;
	rig_perform();
	assert_succeeded(2);
	assert_string_equal(rig.reply, "hello");
}

static void a_reply_that_breaks_off_after_its_first_byte_is_final(void **state)
{
	(void)state;
	rig_server(STEPS({.reply = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", .then = CLOSE}));
	rig_server(STEPS(ok));
	rig_perform();
	assert_int_equal(rig.code, CURLE_PARTIAL_FILE);
	assert_gave_up(REA_REASON_RESPONSE_STARTED, 1);
	assert_event(0, REA_EVENT_GIVE_UP, REA_OUTCOME_AMBIGUOUS, REA_REASON_RESPONSE_STARTED);
	assert_string_equal(rig.reply, "hel");
}

static void a_reply_that_breaks_off_before_its_first_byte_is_not(void **state)
{
	(void)state;
	rig_server(STEPS({.reply = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", .then = CLOSE}));
	rig_server(STEPS(ok));
	rig.call.header = rig_on_header;
	rig.call.header_data = &rig;
	rig_perform();
	assert_succeeded(2);
	assert_string_equal(rig.reply, "hello");
	assert_string_equal(rig.lines, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
}

static void header_lines_are_those_of_the_last_attempt(void **state)
{
	(void)state;
	rig_server(STEPS(unavailable));
	rig_server(STEPS({.reply = EMPTY_REPLY("503", "X: 2\r\n")}));
	rig.call.header = rig_on_header;
	rig.call.header_data = &rig;
	rig_perform();
	assert_gave_up(REA_REASON_NO_UNTRIED_INSTANCE, 2);
	assert_string_equal(rig.lines, "HTTP/1.1 503 x\r\nX: 2\r\nContent-Length: 0\r\n\r\n");
	assert_int_equal(rig.reply_length, 0);
}

static void without_write_the_handles_own_function_gets_everything(void **state)
{
	(void)state;
	rig_server(STEPS({.reply = EMPTY_REPLY("503", "")}, unavailable));
	rig_server(STEPS(ok));
	curl_easy_setopt(rig.easy, CURLOPT_WRITEFUNCTION, rig_on_write);
	curl_easy_setopt(rig.easy, CURLOPT_WRITEDATA, &rig);
	rig.call.write = NULL;
	rig_perform();
	assert_succeeded(2);
	assert_string_equal(rig.reply, "hello");
	rig_perform();
	assert_gave_up(REA_REASON_RESPONSE_STARTED, 1);
	assert_string_equal(rig.reply, "hellobusy");
}

static size_t refuse_to_write(char *data, size_t size, size_t items, void *user_data)
{
	(void)data;
	(void)size;
	(void)items;
	(void)user_data;
	return 0;
}

static void a_program_that_does_not_take_the_reply_ends_the_call(void **state)
{
	(void)state;
	rig_server(STEPS(ok, unavailable));
	rig_server(STEPS(ok));
	rig.call.write = refuse_to_write;
	rig_perform();
	assert_int_equal(rig.code, CURLE_WRITE_ERROR);
	assert_gave_up(REA_REASON_CANCELLED, 1);
	rig.policy.max_retry_next_instance = 0;
	rig_perform();
	assert_int_equal(rig.code, CURLE_WRITE_ERROR);
	assert_gave_up(REA_REASON_ATTEMPTS_EXHAUSTED, 1);
	assert_int_equal(rig_requests(1), 0);
}

static void redirects_stay_inside_their_attempt(void **state)
{
	(void)state;
	rig_server(STEPS({.reply = EMPTY_REPLY("302", "Location: /there\r\n")}, unavailable));
	rig_server(STEPS({.reply = EMPTY_REPLY("302", "Location: /there\r\n")}, ok));
	curl_easy_setopt(rig.easy, CURLOPT_FOLLOWLOCATION, 1L);
	rig.call.header = rig_on_header;
	rig.call.header_data = &rig;
	rig_perform();
	assert_succeeded(2);
	assert_int_equal(rig_requests(0), 2);
	assert_int_equal(rig_requests(1), 2);
	assert_string_equal(rig.reply, "hello");
	assert_string_equal(rig.lines, "HTTP/1.1 302 x\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n"
				       "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
}

static void too_many_redirects_are_permanent(void **state)
{
	(void)state;
	rig_server(STEPS({.reply = EMPTY_REPLY("302", "Location: /there\r\n")}));
	rig_server(STEPS(ok));
	curl_easy_setopt(rig.easy, CURLOPT_FOLLOWLOCATION, 1L);
	curl_easy_setopt(rig.easy, CURLOPT_MAXREDIRS, 2L);
	rig_perform();
	assert_int_equal(rig.code, CURLE_TOO_MANY_REDIRECTS);
	assert_gave_up(REA_REASON_PERMANENT, 1);
	assert_int_equal(rig_requests(0), 3);
}

static void failonerror_does_not_hide_the_status(void **state)
{
	(void)state;
	rig_server(STEPS(unavailable));
	rig_server(STEPS({.reply = BODY_REPLY("404", "2", "no")}));
	curl_easy_setopt(rig.easy, CURLOPT_FAILONERROR, 1L);
	rig_perform();
	assert_int_equal(rig.code, CURLE_HTTP_RETURNED_ERROR);
	assert_gave_up(REA_REASON_PERMANENT, 2);
	assert_event(0, REA_EVENT_RETRY, REA_OUTCOME_UNAVAILABLE, REA_REASON_NONE);
}

static void what_a_proxy_was_asked_is_no_request(void **state)
{
	struct server *proxy = rig_server(STEPS({.reply = EMPTY_REPLY("502", "")}));
	char url[80];

	(void)state;
	snprintf(url, sizeof(url), "http://127.0.0.1:%u", proxy->id.port);
	curl_easy_setopt(rig.easy, CURLOPT_NOPROXY, "");
	curl_easy_setopt(rig.easy, CURLOPT_PROXY, url);
	curl_easy_setopt(rig.easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
	rig.call.instances = NULL;
	rig_perform();
	assert_int_equal(rig.code, CURLE_RECV_ERROR);
	assert_event(0, REA_EVENT_GIVE_UP, REA_OUTCOME_NEVER_SENT, REA_REASON_NO_UNTRIED_INSTANCE);
	rig_stop_servers();
	assert_int_equal(rig_requests(0), 1);
	assert_memory_equal(proxy->request[0], "CONNECT " URL_HOST, 8 + sizeof(URL_HOST) - 1);
}

/* ---- the handle ---- */

static void the_handle_is_given_back(void **state)
{
	struct curl_slist headers = {(char[]){"X-Own: 1"}, NULL};
	struct curl_slist connect_to = {(char[64]){""}, NULL};
	struct source source = {.text = "0123456789"};
	char address[56];

	(void)state;
	upload(&source);
	rig.call.headers = &headers;
	rea_instance_id_format(&rig.items[0].id, address, sizeof(address));
	snprintf(connect_to.data, 64, "::%s", address);
	rig.call.connect_to = &connect_to;
	rig.call.seek = source_seek;
	rig.call.seek_data = &source;
	rig_perform();
	assert_succeeded(2);
	source.at = 0;
	rig.reply_length = 0;
	assert_int_equal(curl_easy_perform(rig.easy), CURLE_OK);
	rig_stop_servers();
	/* The last attempt went to the second server, the plain transfer where the program's own list leads. */
	assert_int_equal(rig_requests(0), 2);
	assert_int_equal(rig_requests(1), 1);
	for (size_t i = 0; i < 2; i++) {
		assert_string_equal(server_field(&rig.servers[0], i, "X-Own"), "1");
		assert_string_equal(server_body(&rig.servers[0], i), "0123456789");
	}
	assert_non_null(server_field(&rig.servers[0], 0, "rea-attempt"));
	assert_null(server_field(&rig.servers[0], 1, "rea-attempt"));
	assert_string_equal(rig.reply, "busy");
}

static int count_and_refuse(void *user_data, char *ip, char *local_ip, int port, int local_port)
{
	(void)local_port;
	assert_string_equal(ip, "127.0.0.1");
	assert_string_equal(local_ip, "127.0.0.1");
	assert_int_equal(port, rig.items[0].id.port);
	++*(unsigned *)user_data;
	return CURL_PREREQFUNC_ABORT;
}

static void the_programs_own_prereq_function_is_asked(void **state)
{
	unsigned asked = 0;

	(void)state;
	rig_server(STEPS(ok));
	rig.call.prereq = count_and_refuse;
	rig.call.prereq_data = &asked;
	rig_perform();
	assert_int_equal(rig.code, CURLE_ABORTED_BY_CALLBACK);
	assert_gave_up(REA_REASON_CANCELLED, 1);
	assert_int_equal(asked, 1);
	assert_int_equal(rig_requests(0), 0);
}

static void an_attempt_that_would_go_elsewhere_is_blocked(void **state)
{
	struct server *server = rig_server(STEPS(ok));

	(void)state;
	/* The port in the URL is not the one libcurl uses, so the instance would not be met. */
	curl_easy_setopt(rig.easy, CURLOPT_URL, "http://127.0.0.1:8080/");
	curl_easy_setopt(rig.easy, CURLOPT_PORT, (long)server->id.port);
	rig.items[0].id.port ^= 1;
	rig_perform();
	assert_int_equal(rig.code, CURLE_COULDNT_CONNECT);
	assert_gave_up(REA_REASON_BLOCKED, 1);
	assert_int_equal(rig_requests(0), 0);
}

static void what_cannot_be_begun_is_refused_and_touches_nothing(void **state)
{
	const struct rea_curl_call whole = rig.call;

	(void)state;
	rig_server(STEPS(ok));
	rig.call.options.policy = NULL;
	rig_perform();
	assert_refused("options.policy", "options.policy is NULL; it must be set");
	rig.call = whole;
	rig.policy.jitter = 2;
	rig_perform();
	assert_refused("jitter", "jitter is 2; it must be above 0 and at most 1");
	rig.policy.jitter = 0.2;
	rig.call.header = rig_on_header;
	rig.call.write = NULL;
	rig_perform();
	assert_refused("header", "header is set and write is not; it must be set too");
	rig.call = whole;
	curl_easy_setopt(rig.easy, CURLOPT_URL, "http://[::1/");
	rig_perform();
	assert_refused(
	    "instances", "the handle's URL cannot be read; with instances it must be whole, with its scheme");
	rig.call.instances = NULL;
	rig_perform();
	assert_int_equal(rig.code, CURLE_URL_MALFORMAT);
	assert_gave_up(REA_REASON_PERMANENT, 1);
}

static void no_instance_is_no_attempt(void **state)
{
	(void)state;
	rig_perform();
	assert_gave_up(REA_REASON_NO_UNTRIED_INSTANCE, 0);
	assert_int_equal(rig.code, CURLE_COULDNT_CONNECT);
}

static void observe_mode_tells_and_does_not(void **state)
{
	(void)state;
	rig_server(STEPS(unavailable));
	rig_server(STEPS(ok));
	rig.policy.mode = REA_MODE_OBSERVE;
	rig_perform();
	assert_int_equal(rig.events[0].type, REA_EVENT_WOULD_RETRY);
	assert_true(rig.events[0].delay_ns >= MS(20));
	assert_true(rig.result.decision.would_retry);
	assert_string_equal(rig.reply, "busy");
	assert_int_equal(rig_requests(1), 0);
}

static void a_plain_transfer_can_be_judged_alone(void **state)
{
	struct server *server = rig_server(STEPS({.reply = EMPTY_REPLY("503", "Retry-After: 7\r\n")}));
	struct rea_report report;
	char url[64];

	(void)state;
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/", server->id.port);
	curl_easy_setopt(rig.easy, CURLOPT_URL, url);
	rea_curl_report(rig.easy, curl_easy_perform(rig.easy), NULL, &report);
	assert_int_equal(report.outcome, REA_OUTCOME_UNAVAILABLE);
	assert_int_equal(report.code_kind, REA_CODE_HTTP);
	assert_int_equal(report.code, 503);
	assert_int_equal(report.flags, REA_REPORT_AFTER);
	assert_true(report.after_ns == 7 * REA_NS_PER_S);
	assert_true(report.latency_ns > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    RIG_TEST(a_first_success_is_one_request_and_no_event),
	    cmocka_unit_test(retries_are_as_many_as_the_policy_has),
	    RIG_TEST(an_instance_that_failed_is_never_asked_again),
	    RIG_TEST(the_switch_keeps_host_and_path),
	    RIG_TEST(kept_connections_belong_to_their_instance),
	    RIG_TEST(tls_asks_for_the_name_in_the_url),
	    RIG_TEST(without_instances_the_host_of_the_url_is_the_only_one),
	    RIG_TEST(an_empty_budget_allows_no_retry),
	    RIG_TEST(an_open_breaker_lets_nothing_out),
	    RIG_TEST(a_breaker_that_opens_in_the_wait_ends_the_call_with_the_reply_there_is),
	    RIG_TEST(loads_see_every_attempt),
	    RIG_TEST(retry_after_is_waited_for),
	    RIG_TEST(rea_retry_stop_is_obeyed),
	    RIG_TEST(rea_retry_after_is_pushback),
	    RIG_TEST(two_different_retry_afters_say_nothing),
	    RIG_TEST(a_read_timeout_is_ambiguous),
	    RIG_TEST(the_deadline_ends_the_call),
	    RIG_TEST(a_deadline_in_the_past_allows_no_attempt),
	    RIG_TEST(a_reply_under_way_has_until_the_deadline),
	    RIG_TEST(a_wait_can_be_cancelled_from_another_thread),
	    RIG_TEST(an_attempt_can_be_cancelled_from_another_thread),
	    RIG_TEST(what_was_cancelled_before_makes_no_attempt),
	    RIG_TEST(an_undeclared_post_that_times_out_is_one_request),
	    RIG_TEST(an_undeclared_post_that_was_refused_goes_on_under_allow_only),
	    RIG_TEST(a_key_is_the_same_bytes_on_every_attempt),
	    RIG_TEST(a_key_is_missing),
	    RIG_TEST(a_key_that_was_given_is_sent_as_it_stands),
	    RIG_TEST(what_is_no_key_is_refused),
	    RIG_TEST(a_layer_above_that_retries_allows_none_here),
	    RIG_TEST(a_body_from_a_function_is_set_back),
	    RIG_TEST(a_body_that_cannot_be_set_back_is_kept),
	    RIG_TEST(a_body_over_the_limit_is_sent_once),
	    RIG_TEST(a_body_whose_seek_fails_is_sent_once),
	    RIG_TEST(a_body_from_a_file_begins_where_the_file_stood),
	    RIG_TEST(a_body_from_a_pipe_is_kept),
	    RIG_TEST(a_read_function_on_the_handle_only_is_never_called),
	    RIG_TEST(an_answer_before_the_body_is_read),
	    RIG_TEST(a_failed_reply_over_the_limit_is_passed_on_and_final),
	    RIG_TEST(a_reply_that_breaks_off_after_its_first_byte_is_final),
	    RIG_TEST(a_reply_that_breaks_off_before_its_first_byte_is_not),
	    RIG_TEST(header_lines_are_those_of_the_last_attempt),
	    RIG_TEST(without_write_the_handles_own_function_gets_everything),
	    RIG_TEST(a_program_that_does_not_take_the_reply_ends_the_call),
	    RIG_TEST(redirects_stay_inside_their_attempt),
	    RIG_TEST(too_many_redirects_are_permanent),
	    RIG_TEST(failonerror_does_not_hide_the_status),
	    RIG_TEST(what_a_proxy_was_asked_is_no_request),
	    RIG_TEST(the_handle_is_given_back),
	    RIG_TEST(the_programs_own_prereq_function_is_asked),
	    RIG_TEST(an_attempt_that_would_go_elsewhere_is_blocked),
	    RIG_TEST(what_cannot_be_begun_is_refused_and_touches_nothing),
	    RIG_TEST(no_instance_is_no_attempt),
	    RIG_TEST(observe_mode_tells_and_does_not),
	    RIG_TEST(a_plain_transfer_can_be_judged_alone),
	};

	curl_global_init(CURL_GLOBAL_ALL);
	return cmocka_run_group_tests_name("perform", tests, NULL, NULL);
}
