/* A handle, its call and up to three servers as its instances, for tests that look at what really goes out. */
#ifndef REA_TESTS_CURL_RIG_H
#define REA_TESTS_CURL_RIG_H

#include <rea/curl.h>

#include "server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

#include <cmocka.h>

#define MS(n) ((uint64_t)(n)*REA_NS_PER_MS)
#define STEPS(...)                                   \
	((const struct server_step[]){__VA_ARGS__}), \
	    sizeof((struct server_step[]){__VA_ARGS__}) / sizeof(struct server_step)
#define URL_HOST "service.test:8080"

enum { RIG_SERVERS = 3, RIG_EVENTS = 16, RIG_REPLY = 200000 };

struct rig_event {
	enum rea_event_type type;
	enum rea_outcome outcome;
	enum rea_reason reason;
	enum rea_code_kind code_kind;
	uint32_t code, attempt, attempts_max;
	uint64_t delay_ns, cost_ns;
	bool retryable;
	CURLcode curl_code;
	char instance[64], key[80], detail[80], biz_id[40], call_id[40];
};

struct rig {
	struct server servers[RIG_SERVERS];
	size_t servers_len;
	struct rea_policy policy; /* rig_init: enabled, waits of 20 ms, 1 s an attempt, 5 s in all */
	struct rea_instance items[RIG_SERVERS];
	struct rea_instances instances; /* the servers in their order */
	struct rea_curl *curl;
	CURL *easy;                /* rig_init: http://service.test:8080/items?q=1 */
	struct rea_curl_call call; /* rig_init: declared safe; reply and events go to the rig */
	struct rea_curl_result result;
	struct rea_error_info info; /* of the latest refusal */
	CURLcode code;
	struct rig_event events[RIG_EVENTS];
	size_t events_len;
	char reply[RIG_REPLY];
	size_t reply_length;
	char lines[4096]; /* header lines */
	size_t lines_length;
};

static struct rig rig;

static inline void rig_copy(char *to, size_t size, struct rea_text text)
{
	snprintf(to, size, "%.*s", (int)text.length, text.text != NULL ? text.text : "");
}

static inline void rig_on_event(const struct rea_event *event, CURLcode code, void *user_data)
{
	struct rig *to = user_data;
	struct rig_event *entry = &to->events[to->events_len++];

	assert_true(to->events_len <= RIG_EVENTS);
	*entry = (struct rig_event){event->type, event->outcome, event->reason, event->code_kind, event->code, event->attempt,
	    event->attempts_max, event->next_delay_ns, event->cost_ns, event->retryable, code, "", "", "", "", ""};
	rig_copy(entry->instance, sizeof(entry->instance), event->instance);
	rig_copy(entry->key, sizeof(entry->key), event->key);
	rig_copy(entry->detail, sizeof(entry->detail), event->detail);
	rig_copy(entry->biz_id, sizeof(entry->biz_id), event->biz_id);
	rig_copy(entry->call_id, sizeof(entry->call_id), event->call_id);
}

static inline size_t rig_on_write(char *data, size_t size, size_t items, void *user_data)
{
	struct rig *to = user_data;

	assert_true(to->reply_length + size * items < RIG_REPLY);
	memcpy(to->reply + to->reply_length, data, size * items);
	to->reply_length += size * items;
	to->reply[to->reply_length] = '\0';
	return size * items;
}

static inline size_t rig_on_header(char *data, size_t size, size_t items, void *user_data)
{
	struct rig *to = user_data;

	memcpy(to->lines + to->lines_length, data, size * items);
	to->lines_length += size * items;
	to->lines[to->lines_length] = '\0';
	return size * items;
}

/* Everything but the servers and the object. */
static inline void rig_prepare(struct rig *to)
{
	rea_policy_defaults(&to->policy);
	to->policy.enabled = true;
	to->policy.max_retry_next_instance = RIG_SERVERS - 1;
	to->policy.min_backoff_ns = to->policy.max_backoff_ns = MS(20);
	to->policy.deadline_ns = MS(5000);
	to->instances = (struct rea_instances){.items = to->items, .balance = REA_BALANCE_LISTED};
	to->easy = curl_easy_init();
	curl_easy_setopt(to->easy, CURLOPT_URL, "http://" URL_HOST "/items?q=1");
	curl_easy_setopt(to->easy, CURLOPT_NOPROXY, "*");
	rea_curl_call_init(&to->call);
	to->call.options.policy = &to->policy;
	to->call.options.grant = (struct rea_grant){REA_PERMISSION_SAFE, REA_PERMISSION_SOURCE_CALLER};
	to->call.instances = &to->instances;
	to->call.write = rig_on_write;
	to->call.write_data = to;
	to->call.event = rig_on_event;
	to->call.event_data = to;
}

static inline int rig_init(void **state)
{
	struct rea_curl_options options;

	(void)state;
	memset(&rig, 0, sizeof(rig));
	rea_curl_options_init(&options);
	options.seed = 7;
	rig_prepare(&rig);
	assert_int_equal(rea_curl_new(&options, &rig.curl, NULL), 0);
	return 0;
}

static inline int rig_fini(void **state)
{
	(void)state;
	rea_curl_free(rig.curl);
	curl_easy_cleanup(rig.easy);
	for (size_t i = 0; i < rig.servers_len; i++)
		server_stop(&rig.servers[i]);
	return 0;
}

/* Another instance. */
static inline struct server *rig_server(const struct server_step *steps, size_t steps_len)
{
	struct server *server = &rig.servers[rig.servers_len];

	server_start(server, steps, steps_len);
	rig.items[rig.servers_len] = (struct rea_instance){.id = server->id, .weight = 1};
	rig.instances.count = ++rig.servers_len;
	return server;
}

/* The call, and all servers to their end, so that what they saw may be read. */
static inline void rig_perform(void)
{
	rig.code = rea_curl_perform(rig.curl, rig.easy, &rig.call, &rig.result, &rig.info);
}

static inline void rig_stop_servers(void)
{
	for (size_t i = 0; i < rig.servers_len; i++)
		server_stop(&rig.servers[i]);
}

static inline unsigned rig_requests(size_t server)
{
	return atomic_load(&rig.servers[server].requests);
}

static inline uint64_t rig_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * REA_NS_PER_S + (uint64_t)now.tv_nsec;
}

static inline void assert_event(size_t index, enum rea_event_type type, enum rea_outcome outcome, enum rea_reason reason)
{
	assert_true(index < rig.events_len);
	assert_string_equal(rea_event_type_name(rig.events[index].type), rea_event_type_name(type));
	assert_string_equal(rea_outcome_name(rig.events[index].outcome), rea_outcome_name(outcome));
	assert_string_equal(rea_reason_name(rig.events[index].reason), rea_reason_name(reason));
	assert_int_equal(rig.events[index].attempt, index + 1);
}

static inline void assert_gave_up(enum rea_reason reason, uint32_t attempts)
{
	assert_int_equal(rig.result.decision.verdict, REA_VERDICT_GIVE_UP);
	assert_string_equal(rea_reason_name(rig.result.decision.reason), rea_reason_name(reason));
	assert_int_equal(rig.result.decision.attempt, attempts);
}

static inline void assert_succeeded(uint32_t attempts)
{
	assert_string_equal(rea_reason_name(rig.result.decision.reason), "");
	assert_int_equal(rig.result.decision.verdict, REA_VERDICT_SUCCESS);
	assert_int_equal(rig.result.decision.attempt, attempts);
	assert_int_equal(rig.code, CURLE_OK);
}

#define RIG_TEST(function) cmocka_unit_test_setup_teardown(function, rig_init, rig_fini)

#endif
