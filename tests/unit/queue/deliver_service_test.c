/* Deliveries to instances of services, through the pool of src/proxy: as calls go, one request each, ended by their deadline. */
#include "queue/deliver.h"

#include "peer.h"

#include <rea/policy.h>

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define OK_REPLY "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
#define SOON_MS 150
#define LONG_MS 20000

struct outcome {
	unsigned done;
	struct rea_report report;
	char instance[LOOP_ADDRESS_MAX];
	char content_type[64];
	char detail[512];
	char reply[256];
	size_t reply_len;
	bool cut;
};

static struct rig {
	struct loop loop;
	struct proxy *proxy;
	struct proxy_worker *worker;
	struct rea_policy policy;
	struct delivery_request request, requests[4];
	struct peer peer, other;
	struct proxy_route route[4];
	struct outcome outcome[4];
} rig;

static void on_notify(void *user_data)
{
	(void)user_data;
}

static int set_up(void **state)
{
	struct proxy_options options = {.loop = &rig.loop, .events_queue_bytes = 4096, .notify = on_notify};

	(void)state;
	memset(&rig, 0, sizeof(rig));
	loop_init(&rig.loop, 1);
	rig.proxy = proxy_new(&options);
	assert_non_null(rig.proxy);
	rig.worker = proxy_worker(rig.proxy, 0);
	rea_policy_task_defaults(&rig.policy);
	rig.request = (struct delivery_request){
	    .method = REA_SLICE_LIT("POST"),
	    .target = REA_SLICE_LIT("/pay?x=1"),
	    .body = REA_SLICE_LIT("{}"),
	    .attempt = 1,
	    .attempts_max = 3,
	    .reply_max = 200,
	    .policy = &rig.policy,
	};
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	proxy_stop_checks(rig.proxy);
	proxy_worker_stop(rig.worker);
	if (rig.peer.listener.data != NULL)
		peer_stop(&rig.peer);
	if (rig.other.listener.data != NULL)
		peer_stop(&rig.other);
	/* What has been posted is waiting for a turn. */
	uv_run(&rig.loop.uv, UV_RUN_NOWAIT);
	loop_fini(&rig.loop);
	proxy_free(rig.proxy);
	return 0;
}

#define STEPS(...) \
	(const struct peer_step[]){__VA_ARGS__}, sizeof((const struct peer_step[]){__VA_ARGS__}) / sizeof(struct peer_step)

/* A configuration with this service at these ports, and more of it. */
static void install(const uint16_t *ports, size_t count, const char *more)
{
	struct proxy_instance instances[2];
	const struct proxy_instance *all[] = {instances};
	struct rea_error_info error;
	struct rea_config *config;
	char text[1024];

	snprintf(text, sizeof(text), "services:\n  pay-service:\n    instances: [\"127.0.0.1:1\"]\n%s", more);
	if (rea_config_parse(NULL, text, strlen(text), NULL, &config, &error) != 0)
		fail_msg("%u: %s: %s", error.line, error.key, error.message);
	for (size_t i = 0; i < count; i++)
		instances[i] = (struct proxy_instance){
		    .id = {{[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}, ports[i]}, .weight = 1};
	assert_int_equal(proxy_install(rig.proxy, config, all, &count), 0);
	rea_config_unref(config);
	proxy_worker_start(rig.worker);
}

static void start(const struct peer_step *steps, size_t steps_len, const char *more)
{
	peer_start(&rig.peer, &rig.loop, steps, steps_len);
	install(&rig.peer.port, 1, more);
}

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
	outcome->report = result->report;
	outcome->cut = result->reply_cut;
	outcome->reply_len = result->reply.length;
	copy(outcome->reply, sizeof(outcome->reply), result->reply);
	copy(outcome->instance, sizeof(outcome->instance), result->instance);
	copy(outcome->content_type, sizeof(outcome->content_type), result->content_type);
	copy(outcome->detail, sizeof(outcome->detail), rea_slice_of(result->detail));
}

static void get_route(size_t n)
{
	assert_true(proxy_route_get(
	    rig.worker, REA_SLICE_LIT("pay-service"), rig.request.method, rig.request.target, &rig.route[n]));
}

/* With the n-th route, which it gives back. */
static struct delivery *begin_by(size_t n, uint64_t deadline_ms)
{
	struct delivery *delivery;

	rig.requests[n] = rig.request;
	rig.requests[n].start_ns = loop_now(&rig.loop);
	rig.requests[n].deadline_ns = rea_time_add(rig.requests[n].start_ns, rea_time_from_ms(deadline_ms));
	memset(&rig.outcome[n], 0, sizeof(rig.outcome[n]));
	delivery = deliver_to_service(&rig.route[n], 0, &rig.requests[n], on_done, &rig.outcome[n]);
	assert_non_null(delivery);
	assert_int_equal(rig.outcome[n].done, 0);
	assert_int_equal(rig.route[n].instances->items[0].load->in_flight > 0, true);
	proxy_route_put(&rig.route[n]);
	/* As at the end of a libuv callback. */
	loop_flush(&rig.loop);
	return delivery;
}

static struct delivery *begin(size_t n, uint64_t deadline_ms)
{
	get_route(n);
	return begin_by(n, deadline_ms);
}

static void assert_idle(void)
{
	struct proxy_route route;

	assert_true(
	    proxy_route_get(rig.worker, REA_SLICE_LIT("pay-service"), rig.request.method, rig.request.target, &route));
	assert_int_equal(route.instances->items[0].load->in_flight, 0);
	proxy_route_put(&route);
}

static void wait_for(size_t n)
{
	peer_run_until(&rig.loop, rig.outcome[n].done > 0);
	assert_int_equal(rig.outcome[n].done, 1);
}

static struct outcome *deliver_within(uint64_t deadline_ms)
{
	begin(0, deadline_ms);
	wait_for(0);
	assert_idle();
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
}

#define assert_status(outcome, expected, code) assert_outcome(outcome, REA_OUTCOME_##expected, REA_CODE_HTTP, code)
#define assert_errno(outcome, expected, code) assert_outcome(outcome, REA_OUTCOME_##expected, REA_CODE_ERRNO, code)

static const char *address_of(const struct peer *peer)
{
	static char text[LOOP_ADDRESS_MAX];

	snprintf(text, sizeof(text), "127.0.0.1:%u", (unsigned)peer->port);
	return text;
}

/* One number of the metrics page, -1 = it is not there. */
struct search {
	const char *line;
	double value;
	char text[65536];
	size_t length;
};

static bool on_text(const char *text, size_t length, void *user_data)
{
	struct search *search = user_data;

	assert_true(search->length + length < sizeof(search->text));
	memcpy(search->text + search->length, text, length);
	search->length += length;
	return true;
}

static double metric(const char *line)
{
	static struct search search;
	struct rea_prometheus out = {.write = on_text, .user_data = &search};
	const char *at;

	memset(&search, 0, sizeof(search));
	proxy_metrics(rig.proxy, &out);
	at = strstr(search.text, line);
	return at == NULL ? -1 : strtod(at + strlen(line), NULL);
}

/* ---- routes ---- */

static void a_route_tells_what_holds_for_a_method(void **state)
{
	struct proxy_route route;

	(void)state;
	start(NULL, 0,
	    "contracts:\n  pay-service:\n    context: pay\n    operations:\n      - { post: /pay, id: post, retryable: "
	    "true }\n"
	    "rpc: { feign: { retry: { enabled: true, breaker: { enabled: true } } } }\n");
	get_route(0);
	route = rig.route[0];
	assert_string_equal(route.service->name, "pay-service");
	assert_string_equal(route.operation->key, "pay_post");
	assert_int_equal(route.grant.permission, REA_PERMISSION_IDEMPOTENT);
	assert_int_equal(route.instances->count, 1);
	assert_int_equal(route.instances->items[0].id.port, rig.peer.port);
	assert_non_null(route.breaker);
	assert_non_null(route.budget);
	assert_int_equal(route.budget_shard, 0);
	assert_true(route.policy->enabled);
	assert_string_equal(route.biz_id_header, "x-biz-id");
	proxy_route_put(&rig.route[0]);
	assert_true(proxy_route_get(
	    rig.worker, REA_SLICE_LIT("pay-service"), REA_SLICE_LIT("GET"), REA_SLICE_LIT("/other"), &route));
	assert_null(route.operation);
	assert_int_equal(route.grant.permission, REA_PERMISSION_NONE);
	proxy_route_put(&route);
	assert_false(
	    proxy_route_get(rig.worker, REA_SLICE_LIT("no-service"), REA_SLICE_LIT("GET"), REA_SLICE_LIT("/"), &route));
}

/* A task that was looked up before a reload goes where it was looked up, and the budget is the same one. */
static void a_route_outlives_a_reload(void **state)
{
	/* Nothing closes because it was idle. */
	static const char patient[] = "timeouts: {upstream-idle-ms: 3600000}\n";
	struct rea_budget *budget;

	(void)state;
	start(STEPS({.reply = OK_REPLY}), patient);
	peer_start(&rig.other, &rig.loop, STEPS({.reply = OK_REPLY}));
	get_route(0);
	budget = rig.route[0].budget;
	install(&rig.other.port, 1, patient);
	begin_by(0, LONG_MS);
	begin(1, LONG_MS);
	wait_for(0);
	wait_for(1);
	assert_string_equal(rig.outcome[0].instance, address_of(&rig.peer));
	assert_string_equal(rig.outcome[1].instance, address_of(&rig.other));
	get_route(0);
	assert_ptr_equal(rig.route[0].budget, budget);
	proxy_route_put(&rig.route[0]);
	/* Its connection went with the last who knew it. */
	peer_run_until(&rig.loop, rig.peer.open == 0);
}

/* ---- what is sent ---- */

static void a_request_goes_out_as_it_was_given(void **state)
{
	const struct http_field fields[] = {
	    {REA_SLICE_LIT("Content-Type"), REA_SLICE_LIT("application/json"), HTTP_FIELD_OTHER, false},
	    {REA_SLICE_LIT("idempotency-key"), REA_SLICE_LIT("another"), HTTP_FIELD_IDEMPOTENCY_KEY, false},
	    {REA_SLICE_LIT("rea-attempt"), REA_SLICE_LIT("9/9"), HTTP_FIELD_REA_ATTEMPT, false},
	    {REA_SLICE_LIT("Host"), REA_SLICE_LIT("evil.example"), HTTP_FIELD_HOST, false},
	};
	struct outcome *outcome;

	(void)state;
	start(STEPS({.reply = OK_REPLY}), "");
	rig.request.fields = fields;
	rig.request.fields_len = 4;
	rig.request.key = REA_SLICE_LIT("k-1");
	rig.request.biz_id = REA_SLICE_LIT("order-7");
	rig.request.attempt = 2;
	outcome = deliver();
	assert_status(outcome, OK, 200);
	assert_string_equal(outcome->reply, "hello");
	assert_string_equal(outcome->content_type, "text/plain");
	assert_string_equal(outcome->instance, address_of(&rig.peer));
	assert_string_equal(outcome->detail, "");
	assert_false(outcome->cut);
	assert_memory_equal(rig.peer.request[0], "POST /pay?x=1 HTTP/1.1\r\n", 24);
	assert_string_equal(strstr(rig.peer.request[0], "\r\n\r\n") + 4, "{}");
	assert_string_equal(peer_field(&rig.peer, 0, "host"), address_of(&rig.peer));
	assert_string_equal(peer_field(&rig.peer, 0, "content-type"), "application/json");
	assert_string_equal(peer_field(&rig.peer, 0, "idempotency-key"), "k-1");
	assert_string_equal(peer_field(&rig.peer, 0, "rea-attempt"), "2/3");
	assert_string_equal(peer_field(&rig.peer, 0, "rea-deadline-ms"), "20000");
	assert_string_equal(peer_field(&rig.peer, 0, "x-biz-id"), "order-7");
	assert_null(strstr(rig.peer.request[0], "another"));
	assert_null(strstr(rig.peer.request[0], "9/9"));
}

static void the_host_and_the_business_id_are_where_they_are_configured(void **state)
{
	const struct http_field own = {REA_SLICE_LIT("x-order"), REA_SLICE_LIT("its own"), HTTP_FIELD_OTHER, false};

	(void)state;
	start(STEPS({.reply = OK_REPLY}), "    host: pay.internal\nbiz-id-header: x-order\n");
	rig.request.biz_id = REA_SLICE_LIT("order-7");
	assert_status(deliver(), OK, 200);
	assert_string_equal(peer_field(&rig.peer, 0, "host"), "pay.internal");
	assert_string_equal(peer_field(&rig.peer, 0, "x-order"), "order-7");
	rig.request.fields = &own;
	rig.request.fields_len = 1;
	assert_status(deliver(), OK, 200);
	assert_string_equal(peer_field(&rig.peer, 1, "x-order"), "its own");
	assert_null(strstr(rig.peer.request[1], "order-7"));
}

static void a_large_body_goes_out_whole(void **state)
{
	size_t length = (size_t)5 << 20;
	char *body = malloc(length);

	(void)state;
	memset(body, 'b', length);
	start(STEPS({.reply = OK_REPLY}), "");
	rig.request.body = rea_slice_make(body, length);
	assert_status(deliver(), OK, 200);
	assert_int_equal(rig.peer.body_length[0], length);
	free(body);
}

/* ---- one attempt is one request ---- */

static void connections_are_used_again_and_each_request_is_counted(void **state)
{
	(void)state;
	start(STEPS({.reply = OK_REPLY}), "");
	for (uint32_t i = 0; i < 5; i++) {
		rig.request.attempt = i + 1;
		assert_status(deliver(), OK, 200);
	}
	assert_int_equal(rig.peer.requests, 5);
	assert_int_equal(rig.peer.accepted, 1);
	assert_true(metric("rea_attempts_total{service=\"pay-service\",outcome=\"ok\"} ") == 5);
	assert_true(metric("rea_retries_total{service=\"pay-service\"} ") == 4);
}

static void a_reused_connection_that_dies_is_one_request_and_not_known(void **state)
{
	(void)state;
	start(STEPS({.reply = OK_REPLY}, {.then = PEER_CLOSE}, {.reply = OK_REPLY}), "");
	assert_status(deliver(), OK, 200);
	assert_errno(deliver(), AMBIGUOUS, ECONNRESET);
	assert_int_equal(rig.peer.requests, 2);
	assert_status(deliver(), OK, 200);
	assert_int_equal(rig.peer.requests, 3);
	assert_int_equal(rig.peer.accepted, 2);
}

static void a_server_that_closes_idle_connections_sees_each_delivery_once(void **state)
{
	(void)state;
	start(STEPS({.reply = OK_REPLY, .then = PEER_CLOSE}), "");
	for (size_t i = 0; i < 20; i++)
		assert_status(deliver(), OK, 200);
	assert_int_equal(rig.peer.requests, 20);
	assert_int_equal(rig.peer.accepted, 20);
}

/* ---- what it came to ---- */

static void a_reply_tells_its_outcome_and_its_wait(void **state)
{
	struct outcome *outcome;

	(void)state;
	start(STEPS({.reply = "HTTP/1.1 429 x\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"},
		  {.reply = "HTTP/1.1 503 x\r\nrea-retry: stop\r\nContent-Length: 4\r\n\r\nbusy"},
		  {.reply = "HTTP/1.1 500 x\r\nrea-retry: after=9\r\nContent-Length: 0\r\n\r\n"},
		  {.reply = "HTTP/1.1 302 x\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n"}),
	    "");
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
	outcome = deliver();
	assert_status(outcome, PERMANENT, 302);
	assert_string_equal(outcome->detail, "a redirect, which is not followed");
	assert_int_equal(rig.peer.accepted, 1);
}

static void a_refused_connection_was_never_sent(void **state)
{
	char detail[128];

	(void)state;
	start(NULL, 0, "");
	assert_errno(deliver(), NEVER_SENT, ECONNREFUSED);
	snprintf(detail, sizeof(detail), "%s: not reached: connection refused", address_of(&rig.peer));
	assert_string_equal(rig.outcome[0].detail, detail);
	assert_string_equal(rig.outcome[0].instance, address_of(&rig.peer));
}

static void a_full_pool_was_never_sent_and_is_told_later(void **state)
{
	struct delivery *first;

	(void)state;
	start(STEPS({.then = PEER_SILENT}), "limits: {upstream-connections: 1}\n");
	first = begin(0, LONG_MS);
	begin(1, LONG_MS);
	wait_for(1);
	assert_errno(&rig.outcome[1], NEVER_SENT, EAGAIN);
	delivery_cancel(first);
	assert_idle();
}

static void a_reply_that_breaks_off_is_not_known_unless_its_head_said_no(void **state)
{
	(void)state;
	start(STEPS({.reply = "HTTP/1.1 20", .then = PEER_CLOSE},
		  {.reply = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhel", .then = PEER_CLOSE},
		  {.reply = "HTTP/1.1 503 x\r\nContent-Length: 10\r\n\r\nbus", .then = PEER_RESET},
		  {.reply = "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"}),
	    "");
	assert_errno(deliver(), AMBIGUOUS, ECONNRESET);
	assert_errno(deliver(), AMBIGUOUS, ECONNRESET);
	assert_true(rig.outcome[0].cut);
	assert_string_equal(rig.outcome[0].reply, "hel");
	assert_non_null(strstr(rig.outcome[0].detail, "in the middle of the reply"));
	assert_status(deliver(), UNAVAILABLE, 503);
	assert_true(rig.outcome[0].cut);
	assert_outcome(deliver(), REA_OUTCOME_PERMANENT, REA_CODE_NONE, 0);
	assert_non_null(strstr(rig.outcome[0].detail, "Content-Length"));
	assert_int_equal(rig.peer.requests, 4);
}

/* An answer before the request is through ends it; the connection is of no use any more. */
static void an_early_reply_ends_the_request(void **state)
{
	size_t length = (size_t)32 << 20;
	char *body = calloc(1, length);

	(void)state;
	peer_start(
	    &rig.peer, &rig.loop, STEPS({.reply = "HTTP/1.1 413 x\r\nContent-Length: 0\r\n\r\n", .then = PEER_SILENT}));
	rig.peer.early = true;
	install(&rig.peer.port, 1, "");
	rig.request.body = rea_slice_make(body, length);
	assert_status(deliver(), PERMANENT, 413);
	peer_run_until(&rig.loop, rig.peer.open == 0);
	assert_int_equal(rig.peer.requests, 1);
	free(body);
}

/* ---- hostile instances ---- */

static void silence_ends_at_the_deadline(void **state)
{
	(void)state;
	start(STEPS({.then = PEER_SILENT}), "");
	assert_errno(deliver_within(SOON_MS), AMBIGUOUS, ETIMEDOUT);
	assert_non_null(strstr(rig.outcome[0].detail, "no reply"));
}

static void a_dripping_head_ends_at_the_deadline(void **state)
{
	(void)state;
	start(STEPS({.reply = "HTTP/1.1 200 OK\r\n", .then = PEER_DRIP, .filler = "x-a: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}),
	    "");
	assert_errno(deliver_within(SOON_MS), AMBIGUOUS, ETIMEDOUT);
}

static void a_dripping_body_ends_at_the_deadline(void **state)
{
	(void)state;
	start(STEPS({.reply = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", .then = PEER_DRIP, .filler = "d"}), "");
	assert_errno(deliver_within(SOON_MS), AMBIGUOUS, ETIMEDOUT);
	assert_true(rig.outcome[0].reply_len > 0 && rig.outcome[0].reply_len < 200);
	assert_true(rig.outcome[0].cut);
}

static void an_endless_body_is_cut_and_the_status_counts(void **state)
{
	(void)state;
	start(STEPS({.reply = "HTTP/1.1 200 OK\r\n\r\n", .then = PEER_FLOOD, .filler = "e"}), "");
	assert_status(deliver(), OK, 200);
	assert_int_equal(rig.outcome[0].reply_len, 200);
	assert_true(rig.outcome[0].cut);
	peer_run_until(&rig.loop, rig.peer.open == 0);
	assert_true(rig.peer.flooded < (uint64_t)16 << 20);
}

static void a_body_of_exactly_the_limit_is_whole(void **state)
{
	(void)state;
	start(STEPS({.reply = OK_REPLY}), "");
	rig.request.reply_max = 5;
	assert_status(deliver(), OK, 200);
	assert_false(rig.outcome[0].cut);
	rig.request.reply_max = 4;
	assert_status(deliver(), OK, 200);
	assert_true(rig.outcome[0].cut);
	assert_string_equal(rig.outcome[0].reply, "hell");
}

static void an_endless_head_ends_at_its_limit(void **state)
{
	(void)state;
	start(STEPS({.reply = "HTTP/1.1 200 OK\r\n", .then = PEER_FLOOD, .filler = "x-bomb: bbbbbbbbbbbbbbbbbbbbbbbb\r\n"}),
	    "");
	assert_outcome(deliver(), REA_OUTCOME_PERMANENT, REA_CODE_NONE, 0);
	peer_run_until(&rig.loop, rig.peer.open == 0);
	assert_true(rig.peer.flooded < (uint64_t)16 << 20);
}

static void others_go_on_beside_a_hostile_one(void **state)
{
	struct delivery *hostile;
	uint16_t ports[2];

	(void)state;
	peer_start(&rig.peer, &rig.loop, STEPS({.reply = OK_REPLY}));
	peer_start(&rig.other, &rig.loop, STEPS({.reply = "HTTP/1.1 200 OK\r\n\r\n", .then = PEER_FLOOD, .filler = "e"}));
	ports[0] = rig.peer.port;
	install(&rig.other.port, 1, "");
	rig.request.reply_max = SIZE_MAX;
	hostile = begin(0, LONG_MS);
	rig.request.reply_max = 200;
	install(ports, 1, "");
	for (size_t i = 0; i < 20; i++) {
		begin(1, LONG_MS);
		wait_for(1);
		assert_status(&rig.outcome[1], OK, 200);
	}
	assert_int_equal(rig.outcome[0].done, 0);
	delivery_cancel(hostile);
}

/* ---- cancel ---- */

static void a_cancelled_delivery_says_nothing_more(void **state)
{
	struct delivery *connecting, *waiting;

	(void)state;
	start(STEPS({.then = PEER_SILENT}), "");
	waiting = begin(0, LONG_MS);
	peer_run_until(&rig.loop, rig.peer.requests == 1);
	connecting = begin(1, LONG_MS);
	delivery_cancel(connecting);
	delivery_cancel(waiting);
	assert_idle();
	peer_run_until(&rig.loop, rig.peer.open == 0);
	assert_int_equal(rig.outcome[0].done + rig.outcome[1].done, 0);
	assert_true(metric("rea_attempts_total{service=\"pay-service\",outcome=\"cancelled\"} ") == 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	    TEST(a_route_tells_what_holds_for_a_method),
	    TEST(a_route_outlives_a_reload),
	    TEST(a_request_goes_out_as_it_was_given),
	    TEST(the_host_and_the_business_id_are_where_they_are_configured),
	    TEST(a_large_body_goes_out_whole),
	    TEST(connections_are_used_again_and_each_request_is_counted),
	    TEST(a_reused_connection_that_dies_is_one_request_and_not_known),
	    TEST(a_server_that_closes_idle_connections_sees_each_delivery_once),
	    TEST(a_reply_tells_its_outcome_and_its_wait),
	    TEST(a_refused_connection_was_never_sent),
	    TEST(a_full_pool_was_never_sent_and_is_told_later),
	    TEST(a_reply_that_breaks_off_is_not_known_unless_its_head_said_no),
	    TEST(an_early_reply_ends_the_request),
	    TEST(silence_ends_at_the_deadline),
	    TEST(a_dripping_head_ends_at_the_deadline),
	    TEST(a_dripping_body_ends_at_the_deadline),
	    TEST(an_endless_body_is_cut_and_the_status_counts),
	    TEST(a_body_of_exactly_the_limit_is_whole),
	    TEST(an_endless_head_ends_at_its_limit),
	    TEST(others_go_on_beside_a_hostile_one),
	    TEST(a_cancelled_delivery_says_nothing_more),
#undef TEST
	};

	signal(SIGPIPE, SIG_IGN); /* as in the program */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
