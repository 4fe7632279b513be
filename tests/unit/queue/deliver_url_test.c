/* Deliveries to URLs against targets on real sockets: what is sent, what it came to, what a hostile target can do, and where nothing ever goes. */
#include "queue/deliver.h"

#include "peer.h"

#include <rea/policy.h>

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define OK_REPLY "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
#define HEADER_BYTES_MAX 8192
#define SOON_MS 150   /* deadlines that are met by nothing but time */
#define LONG_MS 20000 /* deadlines that nothing reaches */

struct outcome {
	unsigned done; /* how often */
	unsigned order;
	struct rea_report report;
	char instance[LOOP_ADDRESS_MAX];
	char content_type[64];
	char detail[512];
	size_t reply_len;
	char reply[256];
	bool cut;
};

static const struct rea_config_range everywhere = {.bits = 0};
static struct rig {
	struct loop loop;
	struct deliver_urls *urls;
	struct rea_policy policy;
	struct deliver_url_rule rule;
	struct delivery_request request;
	struct peer peer, other;
	struct vet_url url[4];
	struct outcome outcome[4];
	unsigned order;
} rig;

static int set_up(void **state)
{
	(void)state;
	memset(&rig, 0, sizeof(rig));
	loop_init(&rig.loop, 1);
	rig.urls = deliver_urls_new(&rig.loop, HEADER_BYTES_MAX);
	rea_policy_task_defaults(&rig.policy);
	rig.rule.allowed = (struct vet_allowed){&everywhere, 1};
	rig.request = (struct delivery_request){
	    .method = REA_SLICE_LIT("POST"),
	    .body = REA_SLICE_LIT("{}"),
	    .attempt = 1,
	    .attempts_max = 3,
	    .reply_max = 200,
	    .policy = &rig.policy,
	};
	names_answers = NULL;
	names_asked = connects_outside = 0;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	deliver_urls_free(rig.urls);
	for (size_t i = 0; i < 4; i++)
		vet_url_fini(&rig.url[i]);
	if (rig.peer.listener.data != NULL)
		peer_stop(&rig.peer);
	if (rig.other.listener.data != NULL)
		peer_stop(&rig.other);
	loop_fini(&rig.loop);
	return 0;
}

static void start(const struct peer_step *steps, size_t steps_len)
{
	peer_start(&rig.peer, &rig.loop, steps, steps_len);
}

#define STEPS(...) \
	(const struct peer_step[]){__VA_ARGS__}, sizeof((const struct peer_step[]){__VA_ARGS__}) / sizeof(struct peer_step)

static void copy(char *to, size_t size, struct rea_slice from)
{
	snprintf(to, size, "%.*s", (int)from.length, from.length > 0 ? from.data : "");
}

static void on_done(const struct delivery_result *result, void *user_data)
{
	struct outcome *outcome = user_data;

	/* Whoever waits looks before the loop sleeps again. */
	uv_stop(&rig.loop.uv);
	outcome->done++;
	outcome->order = ++rig.order;
	outcome->report = result->report;
	outcome->cut = result->reply_cut;
	outcome->reply_len = result->reply.length;
	copy(outcome->reply, sizeof(outcome->reply), result->reply);
	copy(outcome->instance, sizeof(outcome->instance), result->instance);
	copy(outcome->content_type, sizeof(outcome->content_type), result->content_type);
	copy(outcome->detail, sizeof(outcome->detail), rea_slice_of(result->detail));
}

static struct delivery *begin(size_t n, const char *url, uint64_t deadline_ms)
{
	static struct delivery_request requests[4];
	struct delivery *delivery;

	requests[n] = rig.request;
	requests[n].start_ns = loop_now(&rig.loop);
	requests[n].deadline_ns = rea_time_add(requests[n].start_ns, rea_time_from_ms(deadline_ms));
	vet_url_fini(&rig.url[n]);
	assert_int_equal(vet_url_parse(rea_slice_of(url), &rig.url[n], NULL), 0);
	memset(&rig.outcome[n], 0, sizeof(rig.outcome[n]));
	delivery = deliver_to_url(
	    rig.urls, &rig.rule, &rig.url[n], REA_SLICE_LIT("task_17"), &requests[n], on_done, &rig.outcome[n]);
	assert_non_null(delivery);
	assert_int_equal(rig.outcome[n].done, 0);
	return delivery;
}

static const char *url_of(const char *host, const struct peer *peer, const char *path)
{
	static char url[128];

	snprintf(url, sizeof(url), "http://%s:%u%s", host, (unsigned)peer->port, path);
	return url;
}

static void wait_for(size_t n)
{
	peer_run_until(&rig.loop, rig.outcome[n].done > 0);
	assert_int_equal(rig.outcome[n].done, 1);
}

static struct outcome *deliver_within(uint64_t deadline_ms)
{
	begin(0, url_of("127.0.0.1", &rig.peer, "/hooks/1?a=b"), deadline_ms);
	wait_for(0);
	return &rig.outcome[0];
}

static struct outcome *deliver(void)
{
	return deliver_within(LONG_MS);
}

static void assert_outcome(const struct outcome *outcome, enum rea_outcome expected, enum rea_code_kind kind, uint32_t code)
{
	if (outcome->report.outcome != expected || outcome->report.code_kind != kind || outcome->report.code != code)
		fail_msg("%s, code %u of kind %u: %s", rea_outcome_name(outcome->report.outcome), outcome->report.code,
		    outcome->report.code_kind, outcome->detail);
	assert_int_equal(outcome->done, 1);
}

#define assert_status(outcome, expected, code) assert_outcome(outcome, REA_OUTCOME_##expected, REA_CODE_HTTP, code)
#define assert_errno(outcome, expected, code) assert_outcome(outcome, REA_OUTCOME_##expected, REA_CODE_ERRNO, code)

/* ---- what is sent ---- */

static void a_request_goes_out_as_it_was_given(void **state)
{
	const struct http_field fields[] = {
	    {.name = REA_SLICE_LIT("Content-Type"), .value = REA_SLICE_LIT("application/json")},
	    {.name = REA_SLICE_LIT("X-Empty"), .value = REA_SLICE_LIT("")},
	    {.name = REA_SLICE_LIT("Host"), .value = REA_SLICE_LIT("evil.example")},
	    {.name = REA_SLICE_LIT("content-length"), .value = REA_SLICE_LIT("99")},
	    {.name = REA_SLICE_LIT("Connection"), .value = REA_SLICE_LIT("close")},
	    {.name = REA_SLICE_LIT("rea-attempt"), .value = REA_SLICE_LIT("9/9")},
	};
	struct outcome *outcome;

	(void)state;
	start(STEPS({.reply = OK_REPLY}));
	rig.request.fields = fields;
	rig.request.fields_len = sizeof(fields) / sizeof(fields[0]);
	rig.request.key = REA_SLICE_LIT("\"k-1\"");
	rig.request.biz_id = REA_SLICE_LIT("order-7");
	rig.request.attempt = 2;
	outcome = deliver();
	assert_status(outcome, OK, 200);
	assert_string_equal(outcome->reply, "hello");
	assert_false(outcome->cut);
	assert_string_equal(outcome->content_type, "text/plain");
	assert_string_equal(outcome->detail, "");
	assert_string_equal(strchr(outcome->instance, ':') + 1, strrchr(url_of("x", &rig.peer, ""), ':') + 1);
	assert_int_equal(rig.peer.requests, 1);
	assert_memory_equal(rig.peer.request[0], "POST /hooks/1?a=b HTTP/1.1\r\n", 28);
	assert_string_equal(strstr(rig.peer.request[0], "\r\n\r\n") + 4, "{}");
	assert_string_equal(peer_field(&rig.peer, 0, "content-type"), "application/json");
	assert_string_equal(peer_field(&rig.peer, 0, "x-empty"), "");
	assert_string_equal(peer_field(&rig.peer, 0, "host"), url_of("127.0.0.1", &rig.peer, "") + 7);
	assert_string_equal(peer_field(&rig.peer, 0, "content-length"), "2");
	assert_string_equal(peer_field(&rig.peer, 0, "idempotency-key"), "\"k-1\"");
	assert_string_equal(peer_field(&rig.peer, 0, "rea-attempt"), "2/3");
	assert_string_equal(peer_field(&rig.peer, 0, "rea-deadline-ms"), "20000");
	assert_string_equal(peer_field(&rig.peer, 0, "user-agent"), "rea");
	assert_null(peer_field(&rig.peer, 0, "connection"));
	assert_null(peer_field(&rig.peer, 0, "expect"));
	assert_null(peer_field(&rig.peer, 0, "accept-encoding"));
	assert_null(peer_field(&rig.peer, 0, "webhook-id"));
	assert_null(strstr(rig.peer.request[0], "order-7"));
}

static void assert_method(const char *method, const char *body, const char *length)
{
	size_t n = rig.peer.requests;
	char line[64];

	rig.request.method = rea_slice_of(method);
	rig.request.body = rea_slice_of(body);
	assert_status(deliver(), OK, 204);
	snprintf(line, sizeof(line), "%s /hooks/1?a=b HTTP/1.1\r\n", method);
	assert_memory_equal(rig.peer.request[n], line, strlen(line));
	assert_string_equal(strstr(rig.peer.request[n], "\r\n\r\n") + 4, body);
	if (length == NULL)
		assert_null(peer_field(&rig.peer, n, "content-length"));
	else
		assert_string_equal(peer_field(&rig.peer, n, "content-length"), length);
	assert_null(peer_field(&rig.peer, n, "content-type"));
}

static void every_method_has_the_body_it_was_given(void **state)
{
	(void)state;
	start(STEPS({.reply = "HTTP/1.1 204 x\r\n\r\n"}));
	assert_method("GET", "", NULL);
	assert_method("HEAD", "", NULL);
	assert_method("DELETE", "", NULL);
	assert_method("DELETE", "why", "3");
	assert_method("POST", "", "0");
	assert_method("PUT", "x", "1");
	assert_method("PATCH", "", "0");
	assert_method("PURGE", "", NULL);
	assert_int_equal(rig.peer.accepted, 1);
}

static void a_large_body_goes_out_whole_and_at_once(void **state)
{
	size_t length = (size_t)3 << 20;
	char *body = malloc(length);

	(void)state;
	memset(body, 'b', length);
	start(STEPS({.reply = OK_REPLY}));
	rig.request.body = rea_slice_make(body, length);
	assert_status(deliver(), OK, 200);
	assert_int_equal(rig.peer.body_length[0], length);
	assert_null(peer_field(&rig.peer, 0, "expect"));
	free(body);
}

static void a_signature_covers_id_time_and_body(void **state)
{
	const struct http_field forged = {.name = REA_SLICE_LIT("Webhook-Id"), .value = REA_SLICE_LIT("forged")};
	struct rea_buffer expected = {0};
	struct sign_key keys[2];
	uint64_t timestamp = 0;

	(void)state;
	sign_key_parse(REA_SLICE_LIT("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), &keys[0], NULL);
	sign_key_parse(REA_SLICE_LIT("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="), &keys[1], NULL);
	rig.rule.keys = keys;
	rig.rule.keys_len = 2;
	rig.request.fields = &forged;
	rig.request.fields_len = 1;
	start(STEPS({.reply = OK_REPLY}));
	for (size_t n = 0; n < 2; n++) {
		assert_status(deliver(), OK, 200);
		/* The same on every delivery. */
		assert_string_equal(peer_field(&rig.peer, n, "webhook-id"), "task_17");
		assert_null(strstr(rig.peer.request[n], "forged"));
		assert_true(rea_slice_to_u64(rea_slice_of(peer_field(&rig.peer, n, "webhook-timestamp")), &timestamp));
		assert_true(timestamp > 1600000000);
		sign_append(&expected, keys, 2, REA_SLICE_LIT("task_17"), (int64_t)timestamp, rig.request.body);
		rea_buffer_append(&expected, "", 1);
		assert_string_equal(peer_field(&rig.peer, n, "webhook-signature"), rea_buffer_data(&expected));
		rea_buffer_clear(&expected);
	}
	rea_buffer_fini(&expected);
}

static void nothing_of_the_environment_counts(void **state)
{
	char proxy[64];

	(void)state;
	start(STEPS({.reply = OK_REPLY}));
	peer_start(&rig.other, &rig.loop, STEPS({.reply = OK_REPLY}));
	snprintf(proxy, sizeof(proxy), "http://127.0.0.1:%u", (unsigned)rig.other.port);
	setenv("http_proxy", proxy, 1);
	setenv("all_proxy", proxy, 1);
	assert_status(deliver(), OK, 200);
	unsetenv("http_proxy");
	unsetenv("all_proxy");
	assert_int_equal(rig.peer.requests, 1);
	assert_int_equal(rig.other.accepted, 0);
}

/* ---- one attempt is one request ---- */

static void connections_are_used_again(void **state)
{
	(void)state;
	start(STEPS({.reply = OK_REPLY}));
	for (size_t i = 0; i < 5; i++)
		assert_status(deliver(), OK, 200);
	assert_int_equal(rig.peer.requests, 5);
	assert_int_equal(rig.peer.accepted, 1);
}

static void a_reused_connection_that_dies_is_one_request_and_not_known(void **state)
{
	(void)state;
	start(STEPS({.reply = OK_REPLY}, {.then = PEER_CLOSE}, {.reply = OK_REPLY}));
	assert_status(deliver(), OK, 200);
	assert_errno(deliver(), AMBIGUOUS, ECONNRESET);
	assert_non_null(strstr(rig.outcome[0].detail, "ended without a reply"));
	/* libcurl alone would have sent it again, and called it a success: it has made the connection for it. */
	assert_int_equal(rig.peer.requests, 2);
	assert_status(deliver(), OK, 200);
	assert_int_equal(rig.peer.requests, 3);
}

static void a_server_that_closes_idle_connections_sees_each_delivery_once(void **state)
{
	(void)state;
	start(STEPS({.reply = OK_REPLY, .then = PEER_CLOSE}));
	for (size_t i = 0; i < 20; i++)
		assert_status(deliver(), OK, 200);
	assert_int_equal(rig.peer.requests, 20);
	assert_int_equal(rig.peer.accepted, 20);
}

/* ---- what it came to ---- */

static void redirects_are_not_followed_and_no_success(void **state)
{
	const struct rea_classify_rule rule = {REA_CODE_HTTP, 302, REA_OUTCOME_OK};
	char reply[256];

	(void)state;
	peer_start(&rig.other, &rig.loop, STEPS({.reply = OK_REPLY}));
	snprintf(reply, sizeof(reply), "HTTP/1.1 302 x\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n",
	    url_of("127.0.0.1", &rig.other, "/"));
	start(STEPS({.reply = reply}));
	assert_status(deliver(), PERMANENT, 302);
	assert_string_equal(rig.outcome[0].detail, "a redirect, which is not followed");
	rig.policy.classify[0] = rule;
	rig.policy.classify_len = 1;
	assert_status(deliver(), OK, 302);
	assert_int_equal(rig.other.accepted, 0);
}

static void a_reply_tells_its_outcome_and_its_wait(void **state)
{
	struct outcome *outcome;

	(void)state;
	start(STEPS({.reply = "HTTP/1.1 429 x\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"},
	    {.reply = "HTTP/1.1 503 x\r\nrea-retry: stop\r\nContent-Length: 4\r\n\r\nbusy"},
	    {.reply = "HTTP/1.1 500 x\r\nrea-retry: after=9\r\nContent-Length: 0\r\n\r\n"},
	    {.reply = "HTTP/1.1 410 x\r\nContent-Length: 0\r\n\r\n"}));
	outcome = deliver();
	assert_status(outcome, THROTTLED, 429);
	assert_int_equal(outcome->report.flags, REA_REPORT_AFTER);
	assert_int_equal(outcome->report.after_ns, 7 * REA_NS_PER_S);
	outcome = deliver();
	assert_status(outcome, UNAVAILABLE, 503);
	assert_int_equal(outcome->report.flags, REA_REPORT_STOP);
	assert_string_equal(outcome->reply, "busy");
	outcome = deliver();
	assert_status(outcome, PUSHBACK, 500);
	assert_int_equal(outcome->report.after_ns, 9 * REA_NS_PER_MS);
	assert_status(deliver(), PERMANENT, 410);
}

static void a_refused_connection_was_never_sent(void **state)
{
	(void)state;
	start(NULL, 0);
	assert_errno(deliver(), NEVER_SENT, ECONNREFUSED);
	assert_string_equal(rig.outcome[0].instance, "");
	assert_non_null(strstr(rig.outcome[0].detail, "127.0.0.1"));
}

static void a_reply_that_breaks_off_is_not_known_unless_its_head_said_no(void **state)
{
	(void)state;
	start(STEPS({.reply = "HTTP/1.1 20", .then = PEER_CLOSE},
	    {.reply = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhel", .then = PEER_CLOSE},
	    {.reply = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", .then = PEER_RESET},
	    {.reply = "HTTP/1.1 503 x\r\nContent-Length: 10\r\n\r\nbus", .then = PEER_CLOSE}));
	deliver();
	assert_int_equal(rig.outcome[0].report.outcome, REA_OUTCOME_AMBIGUOUS);
	assert_errno(deliver(), AMBIGUOUS, ECONNRESET);
	assert_true(rig.outcome[0].cut);
	assert_errno(deliver(), AMBIGUOUS, ECONNRESET);
	assert_status(deliver(), UNAVAILABLE, 503);
	assert_true(rig.outcome[0].cut);
	assert_string_equal(rig.outcome[0].reply, "bus");
	assert_int_equal(rig.peer.requests, 4);
}

static void no_http_is_no_reply(void **state)
{
	(void)state;
	start(STEPS({.reply = "SSH-2.0-OpenSSH_9.2\r\n", .then = PEER_CLOSE}));
	assert_outcome(deliver(), REA_OUTCOME_PERMANENT, REA_CODE_NONE, 0);
}

/* ---- hostile targets ---- */

static void silence_ends_at_the_deadline(void **state)
{
	(void)state;
	start(STEPS({.then = PEER_SILENT}));
	assert_errno(deliver_within(SOON_MS), AMBIGUOUS, ETIMEDOUT);
	assert_non_null(strstr(rig.outcome[0].detail, "no reply in time"));
	assert_int_equal(rig.peer.requests, 1);
}

static void a_dripping_head_ends_at_the_deadline(void **state)
{
	(void)state;
	start(STEPS(
	    {.reply = "HTTP/1.1 200 OK\r\n", .then = PEER_DRIP, .filler = "x-a: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}));
	assert_errno(deliver_within(SOON_MS), AMBIGUOUS, ETIMEDOUT);
}

static void a_dripping_body_ends_at_the_deadline(void **state)
{
	(void)state;
	start(STEPS({.reply = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", .then = PEER_DRIP, .filler = "d"}));
	assert_errno(deliver_within(SOON_MS), AMBIGUOUS, ETIMEDOUT);
	assert_true(rig.outcome[0].reply_len > 0 && rig.outcome[0].reply_len < 200);
	assert_true(rig.outcome[0].cut);
	assert_non_null(strstr(rig.outcome[0].detail, "did not end"));
}

static void an_endless_body_is_cut_and_the_status_counts(void **state)
{
	(void)state;
	start(STEPS({.reply = "HTTP/1.1 200 OK\r\n\r\n", .then = PEER_FLOOD, .filler = "e"}));
	assert_status(deliver(), OK, 200);
	assert_int_equal(rig.outcome[0].reply_len, 200);
	assert_true(rig.outcome[0].cut);
	peer_run_until(&rig.loop, rig.peer.open == 0);
	/* No more than sockets hold. */
	assert_true(rig.peer.flooded < (uint64_t)16 << 20);
}

static void a_body_of_exactly_the_limit_is_whole(void **state)
{
	(void)state;
	start(STEPS({.reply = OK_REPLY}));
	rig.request.reply_max = 5;
	assert_status(deliver(), OK, 200);
	assert_false(rig.outcome[0].cut);
	assert_string_equal(rig.outcome[0].reply, "hello");
	rig.request.reply_max = 4;
	assert_status(deliver(), OK, 200);
	assert_true(rig.outcome[0].cut);
	assert_string_equal(rig.outcome[0].reply, "hell");
	rig.request.reply_max = 0;
	assert_status(deliver(), OK, 200);
	assert_true(rig.outcome[0].cut);
	assert_int_equal(rig.outcome[0].reply_len, 0);
}

static void an_endless_head_ends_at_its_limit(void **state)
{
	(void)state;
	start(STEPS({.reply = "HTTP/1.1 200 OK\r\n", .then = PEER_FLOOD, .filler = "x-bomb: bbbbbbbbbbbbbbbbbbbbbbbb\r\n"}));
	assert_outcome(deliver(), REA_OUTCOME_PERMANENT, REA_CODE_NONE, 0);
	assert_non_null(strstr(rig.outcome[0].detail, "head too large"));
	peer_run_until(&rig.loop, rig.peer.open == 0);
	assert_true(rig.peer.flooded < (uint64_t)16 << 20);
}

static void endless_interim_replies_end_at_the_same_limit(void **state)
{
	(void)state;
	start(STEPS(
	    {.reply = "HTTP/1.1 103 x\r\n\r\n", .then = PEER_FLOOD, .filler = "HTTP/1.1 103 x\r\nLink: </a>\r\n\r\n"}));
	assert_outcome(deliver(), REA_OUTCOME_PERMANENT, REA_CODE_NONE, 0);
	assert_non_null(strstr(rig.outcome[0].detail, "head too large"));
}

static void an_endless_line_ends_too(void **state)
{
	(void)state;
	start(STEPS({.reply = "HTTP/1.1 200 OK\r\nx-bomb: ", .then = PEER_FLOOD, .filler = "b"}));
	deliver();
	assert_int_not_equal(rig.outcome[0].report.outcome, REA_OUTCOME_OK);
	peer_run_until(&rig.loop, rig.peer.open == 0);
	assert_true(rig.peer.flooded < (uint64_t)16 << 20);
}

static void nothing_in_a_reply_unfolds(void **state)
{
	/* A kilobyte of zeros. */
	static const char bomb[] =
	    "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 29\r\n\r\n"
	    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x63\x60\x18\x05\xa3\x60\x14\x0c\x77\x00\x00\x2e\xaf"
	    "\xb5\xef\x00\x04\x00\x00";

	(void)state;
	start(STEPS({.reply = bomb, .length = sizeof(bomb) - 1}));
	assert_status(deliver(), OK, 200);
	assert_int_equal(rig.outcome[0].reply_len, 29);
	assert_false(rig.outcome[0].cut);
}

static void a_handshake_that_stands_still_was_never_sent(void **state)
{
	char url[64];

	(void)state;
	start(STEPS({.then = PEER_SILENT}));
	snprintf(url, sizeof(url), "https://127.0.0.1:%u/", (unsigned)rig.peer.port);
	begin(0, url, SOON_MS);
	wait_for(0);
	assert_errno(&rig.outcome[0], NEVER_SENT, ETIMEDOUT);
	assert_int_equal(rig.peer.accepted, 1);
}

static void others_go_on_beside_a_hostile_one(void **state)
{
	struct delivery *hostile;

	(void)state;
	start(STEPS({.reply = "HTTP/1.1 200 OK\r\n\r\n", .then = PEER_FLOOD, .filler = "e"}));
	peer_start(&rig.other, &rig.loop, STEPS({.reply = OK_REPLY}));
	rig.request.reply_max = SIZE_MAX;
	hostile = begin(0, url_of("127.0.0.1", &rig.peer, "/"), LONG_MS);
	rig.request.reply_max = 200;
	for (size_t i = 0; i < 20; i++) {
		begin(1, url_of("127.0.0.1", &rig.other, "/"), LONG_MS);
		wait_for(1);
		assert_status(&rig.outcome[1], OK, 200);
	}
	assert_int_equal(rig.outcome[0].done, 0);
	delivery_cancel(hostile);
}

/* ---- where nothing goes ---- */

static void assert_blocked(const struct outcome *outcome, const char *what)
{
	assert_outcome(outcome, REA_OUTCOME_PERMANENT, REA_CODE_NONE, 0);
	assert_int_equal(outcome->report.flags, REA_REPORT_BLOCKED);
	assert_string_equal(outcome->instance, "");
	if (strstr(outcome->detail, what) == NULL)
		fail_msg("%s", outcome->detail);
}

static void private_addresses_are_not_connected_to(void **state)
{
	static const char *const answers[] = {"127.0.0.1", NULL};
	static const char *const hosts[] = {"127.0.0.1", "2130706433", "[::ffff:127.0.0.1]", "localhost", "inside.example"};

	(void)state;
	names_answers = answers;
	rig.rule.allowed.len = 0;
	start(STEPS({.reply = OK_REPLY}));
	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		begin(0, url_of(hosts[i], &rig.peer, "/"), LONG_MS);
		wait_for(0);
		assert_blocked(&rig.outcome[0], "a loopback address");
	}
	begin(0, "http://169.254.169.254/latest/meta-data/", LONG_MS);
	wait_for(0);
	assert_blocked(&rig.outcome[0], "a link-local address");
	begin(0, "http://[64:ff9b::a00:1]/", LONG_MS);
	wait_for(0);
	assert_blocked(&rig.outcome[0], "a private address");
	assert_int_equal(rig.peer.accepted, 0);
	assert_int_equal(connects_outside, 0);
}

/* A name server that answers first what may be, then what may not: the check and the connection are one and the same answer. */
static void a_name_that_changes_its_mind_leads_nowhere(void **state)
{
	static const char *const answers[] = {"8.8.8.8", "127.0.0.1", NULL};
	(void)state;
	names_answers = answers;
	rig.rule.allowed.len = 0;
	start(STEPS({.reply = OK_REPLY}));
	begin(0, url_of("rebind.example", &rig.peer, "/"), LONG_MS);
	wait_for(0);
	assert_errno(&rig.outcome[0], NEVER_SENT, ECONNREFUSED);
	assert_int_equal(names_asked, 1);
	assert_int_equal(connects_outside, 1);
	assert_memory_equal(connects_last, "8.8.8.8:", 8);
	begin(0, url_of("rebind.example", &rig.peer, "/"), LONG_MS);
	wait_for(0);
	assert_blocked(&rig.outcome[0], "a loopback address");
	assert_int_equal(names_asked, 2);
	assert_int_equal(connects_outside, 1);
	assert_int_equal(rig.peer.accepted, 0);
}

static void of_several_addresses_only_those_that_may_be_are_tried(void **state)
{
	static const char *const answers[] = {"127.0.0.1 8.8.8.8 10.0.0.1", NULL};
	(void)state;
	names_answers = answers;
	rig.rule.allowed.len = 0;
	start(STEPS({.reply = OK_REPLY}));
	begin(0, url_of("mixed.example", &rig.peer, "/"), LONG_MS);
	wait_for(0);
	assert_errno(&rig.outcome[0], NEVER_SENT, ECONNREFUSED);
	assert_int_equal(connects_outside, 1);
	assert_memory_equal(connects_last, "8.8.8.8:", 8);
	assert_int_equal(rig.peer.accepted, 0);
}

/* A connection in the pool was made under another rule. */
static void a_standing_connection_is_judged_by_the_rule_of_who_uses_it(void **state)
{
	(void)state;
	start(STEPS({.reply = OK_REPLY}));
	assert_status(deliver(), OK, 200);
	rig.rule.allowed.len = 0;
	deliver();
	assert_int_equal(rig.outcome[0].report.outcome, REA_OUTCOME_PERMANENT);
	assert_int_equal(rig.outcome[0].report.flags, REA_REPORT_BLOCKED);
	assert_int_equal(rig.peer.requests, 1);
	assert_int_equal(rig.peer.accepted, 1);
}

/* ---- names ---- */

static void a_name_leads_to_its_address_under_its_own_name(void **state)
{
	static const char *const answers[] = {"127.0.0.1", NULL};
	(void)state;
	names_answers = answers;
	start(STEPS({.reply = OK_REPLY}));
	begin(0, url_of("hooks.example", &rig.peer, "/"), LONG_MS);
	wait_for(0);
	assert_status(&rig.outcome[0], OK, 200);
	assert_string_equal(peer_field(&rig.peer, 0, "host"), url_of("hooks.example", &rig.peer, "") + 7);
	assert_string_equal(rig.outcome[0].instance, url_of("127.0.0.1", &rig.peer, "") + 7);
	assert_int_equal(names_asked, 1);
}

static void a_name_that_is_none_was_never_sent(void **state)
{
	(void)state;
	begin(0, "http://nowhere.example/", LONG_MS);
	wait_for(0);
	assert_outcome(&rig.outcome[0], REA_OUTCOME_NEVER_SENT, REA_CODE_NONE, 0);
	assert_non_null(strstr(rig.outcome[0].detail, "nowhere.example: "));
}

static void a_name_server_that_hangs_holds_one_lookup_and_nobody_else(void **state)
{
	static const char *const answers[] = {"127.0.0.1", NULL};
	(void)state;
	names_answers = answers;
	names_hang = true;
	start(STEPS({.reply = OK_REPLY}));
	begin(0, "http://hangs.example/", SOON_MS);
	begin(1, "http://hangs.example/", SOON_MS);
	begin(2, url_of("127.0.0.1", &rig.peer, "/"), LONG_MS);
	wait_for(2);
	assert_status(&rig.outcome[2], OK, 200);
	wait_for(0);
	wait_for(1);
	assert_errno(&rig.outcome[0], NEVER_SENT, ETIMEDOUT);
	assert_errno(&rig.outcome[1], NEVER_SENT, ETIMEDOUT);
	assert_int_equal(names_asked, 1);
	/* Who comes later joins, too. */
	begin(0, url_of("hangs.example", &rig.peer, "/"), LONG_MS);
	names_hang = false;
	wait_for(0);
	assert_status(&rig.outcome[0], OK, 200);
	assert_int_equal(names_asked, 1);
}

/* ---- cancel ---- */

static void a_cancelled_delivery_says_nothing_more(void **state)
{
	/* A lookup that hangs reads it on its own thread, when the test is over. */
	static const char *const answers[] = {"127.0.0.1", NULL};
	struct delivery *lookup, *transfer;

	(void)state;
	names_answers = answers;
	names_hang = true;
	start(STEPS({.then = PEER_SILENT}));
	lookup = begin(0, "http://hangs.example/", LONG_MS);
	transfer = begin(1, url_of("127.0.0.1", &rig.peer, "/"), LONG_MS);
	peer_run_until(&rig.loop, rig.peer.requests == 1);
	delivery_cancel(lookup);
	delivery_cancel(transfer);
	names_hang = false;
	/* What was on its way is cut off. */
	peer_run_until(&rig.loop, rig.peer.open == 0);
	assert_int_equal(rig.outcome[0].done, 0);
	assert_int_equal(rig.outcome[1].done, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	    TEST(a_request_goes_out_as_it_was_given),
	    TEST(every_method_has_the_body_it_was_given),
	    TEST(a_large_body_goes_out_whole_and_at_once),
	    TEST(a_signature_covers_id_time_and_body),
	    TEST(nothing_of_the_environment_counts),
	    TEST(connections_are_used_again),
	    TEST(a_reused_connection_that_dies_is_one_request_and_not_known),
	    TEST(a_server_that_closes_idle_connections_sees_each_delivery_once),
	    TEST(redirects_are_not_followed_and_no_success),
	    TEST(a_reply_tells_its_outcome_and_its_wait),
	    TEST(a_refused_connection_was_never_sent),
	    TEST(a_reply_that_breaks_off_is_not_known_unless_its_head_said_no),
	    TEST(no_http_is_no_reply),
	    TEST(silence_ends_at_the_deadline),
	    TEST(a_dripping_head_ends_at_the_deadline),
	    TEST(a_dripping_body_ends_at_the_deadline),
	    TEST(an_endless_body_is_cut_and_the_status_counts),
	    TEST(a_body_of_exactly_the_limit_is_whole),
	    TEST(an_endless_head_ends_at_its_limit),
	    TEST(endless_interim_replies_end_at_the_same_limit),
	    TEST(an_endless_line_ends_too),
	    TEST(nothing_in_a_reply_unfolds),
	    TEST(a_handshake_that_stands_still_was_never_sent),
	    TEST(others_go_on_beside_a_hostile_one),
	    TEST(private_addresses_are_not_connected_to),
	    TEST(a_name_that_changes_its_mind_leads_nowhere),
	    TEST(of_several_addresses_only_those_that_may_be_are_tried),
	    TEST(a_standing_connection_is_judged_by_the_rule_of_who_uses_it),
	    TEST(a_name_leads_to_its_address_under_its_own_name),
	    TEST(a_name_that_is_none_was_never_sent),
	    TEST(a_name_server_that_hangs_holds_one_lookup_and_nobody_else),
	    TEST(a_cancelled_delivery_says_nothing_more),
#undef TEST
	};

	/* As in the program: a peer that is gone is an error of the write. */
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
