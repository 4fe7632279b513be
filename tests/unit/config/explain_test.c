/* What `rea explain` prints. */
#include "base/buffer.h"

#include "everything.h"
#include "refusal.h"

static void append(const char *text, size_t length, void *user_data)
{
	assert_int_equal(rea_buffer_append(user_data, text, length), 0);
}

/* The whole text, terminated. Freed with rea_buffer_fini. */
static struct rea_buffer explain(const struct rea_config *config, const char *service, const char *method)
{
	struct rea_buffer text = {.alloc = NULL};
	struct rea_error_info info;

	if (rea_config_explain(config, service, method, append, &text, &info) != 0)
		fail_msg("%s", info.message);
	assert_int_equal(rea_buffer_append(&text, "", 1), 0);
	return text;
}

static void assert_line(const struct rea_buffer *text, const char *line)
{
	if (strstr(rea_buffer_data(text), line) == NULL)
		fail_msg("no line\n%s\nin\n%s", line, rea_buffer_data(text));
}

static void a_method_in_full(void **state)
{
	static const char expected[] =
	    "user-api_get of users\n"
	    "\n"
	    "  enabled                   true          global, line 29\n"
	    "  max-retry-same-instance   0             default\n"
	    "  max-retry-next-instance   3             method, line 37\n"
	    "  min-backoff-ms            30            profile critical (line 24) of service, line 34\n"
	    "  max-backoff-ms            1000          default\n"
	    "  backoff-multiplier        2             default\n"
	    "  jitter                    0.2           default\n"
	    "  attempt-timeout-ms        1000          default\n"
	    "  deadline-ms               3000          default\n"
	    "  retry-on                  [never_sent, unavailable]  service, line 35\n"
	    "  never-sent                allow         profile eager (line 25) of service, line 34\n"
	    "  when-all-tried            stop          default\n"
	    "  mode                      enforce       default\n"
	    "  classify                  {409: unavailable}  global, line 31\n"
	    "  budget                    {rule: evidence}  default\n"
	    "  breaker                   {enabled: true, failure-rate-threshold: 50, slow-call-rate-threshold: 100, "
	    "slow-call-duration-threshold-ms: 60000, sliding-window-type: COUNT_BASED, sliding-window-size: 100, "
	    "minimum-number-of-calls: 100, "
	    "wait-duration-in-open-state-ms: 60000, permitted-number-of-calls-in-half-open-state: 10, "
	    "max-wait-duration-in-half-open-state-ms: 0}  method, line 37\n"
	    "  chain-stop                true          default\n"
	    "  replay-limit-bytes        65536         default\n"
	    "\n"
	    "permission: idempotent: it may be repeated; from config, line 20: GET /users/{id}\n"
	    "\n"
	    "attempts: 4 attempts, 3 retries\n"
	    "\n"
	    "  before retry  exponential  with jitter\n"
	    "  1             30 ms        24 ms to 36 ms\n"
	    "  2             60 ms        48 ms to 72 ms\n"
	    "  3             120 ms       96 ms to 144 ms\n"
	    "\n"
	    "worst case: 3000 ms: the deadline cuts off 4 x attempt-timeout 1000 ms + waits 252 ms = 4252 ms\n"
	    "\n"
	    "  failure rate  success without  with retries  added load\n"
	    "  1 %           99 %             > 99.9999 %   1.01 %\n"
	    "  10 %          90 %             99.99 %       11.1 %\n"
	    "  50 %          50 %             93.75 %       87.5 %\n"
	    "  (where failures are independent of one another, and budget and breaker let every retry through)\n";
	struct rea_config *config = parse(everything);
	struct rea_buffer text = explain(config, "users", "user-api_get");

	(void)state;
	assert_string_equal(rea_buffer_data(&text), expected);
	rea_buffer_fini(&text);
	rea_config_unref(config);
}

static void permissions(void **state)
{
	struct rea_config *config = parse(everything);
	struct rea_buffer create = explain(config, "users", "user-api_create"),
			  me = explain(config, "users", "user-api_me"), undeclared = explain(config, "elsewhere", "a_b");

	(void)state;
	assert_line(&create, "\npermission: idempotent_with_key: it may be repeated when the call carries an "
			     "Idempotency-Key; from config, line 22: "
			     "POST /users, rea makes a key where the caller sent none\n");
	assert_line(&create, "\nattempts: 1 attempt, no retries: enabled is false (method, line 38)\n");
	assert_line(&create,
	    "\nworst case: 1000 ms: 1 x attempt-timeout 1000 ms + waits 0 ms, within the deadline of 3000 ms\n");
	assert_line(&me, "\npermission: safe: it may be repeated; from config, line 21: GET /users/me\n");
	assert_line(&undeclared, "\npermission: unknown: it is not repeated; no contract declares it\n");
	rea_buffer_fini(&create);
	rea_buffer_fini(&me);
	rea_buffer_fini(&undeclared);
	rea_config_unref(config);
}

static void never_sent_without_permission(void **state)
{
	struct rea_config *config = parse(RETRY "      never-sent: allow\n");
	struct rea_buffer text = explain(config, "s", "a_b");

	(void)state;
	assert_line(&text, "no contract declares it\n  but never-sent: allow repeats what provably never ran "
			   "(never_sent, pushback)\n");
	rea_buffer_fini(&text);
	rea_config_unref(config);
}

/* Whoever reads this at night must not believe that payments are repeated. */
static void a_forbidden_method_is_made_once(void **state)
{
	struct rea_config *config =
	    parse("services:\n  s: {instances: []}\n"
		  "contracts:\n  s: {context: s, operations: [{post: /pay, id: pay, retryable: false}]}\n"
		  "rpc: {feign: {retry: {enabled: true, max-retry-next-instance: 2}}}\n");
	struct rea_buffer pay = explain(config, "s", "s_pay"), all = explain(config, "s", NULL);

	(void)state;
	assert_line(&pay, "\nattempts: 1 attempt, no retries: the callee forbids them\n");
	assert_line(&pay, "\nworst case: 1000 ms: 1 x attempt-timeout 1000 ms");
	assert_line(&all, "\n  s_pay                             1 attempt, no retries     forbid, POST\n"
			  "  any other method                  1 attempt, no retries     not declared\n");
	rea_buffer_fini(&pay);
	rea_buffer_fini(&all);
	rea_config_unref(config);
}

static void a_service_with_its_methods(void **state)
{
	struct rea_config *config = parse(everything);
	struct rea_buffer users = explain(config, "users", NULL), elsewhere = explain(config, "elsewhere", NULL);

	(void)state;
	assert_line(&users, "users, for methods without settings of their own\n\n");
	assert_line(&users, "\nmethods\n"
			    "  user-api_get                      4 attempts, 3 retries     idempotent, GET\n"
			    "  user-api_me                       3 attempts, 2 retries     safe, GET\n"
			    "  user-api_create                   1 attempt, no retries     idempotent_with_key, POST\n"
			    "  any other method                  as above\n");
	assert_line(&elsewhere, "\nmethods\n"
				"  a_b                               3 attempts, 2 retries     not declared\n"
				"  any other method                  as above\n");
	rea_buffer_fini(&users);
	rea_buffer_fini(&elsewhere);
	rea_config_unref(config);
}

static void the_overview(void **state)
{
	struct rea_config *config = parse(everything);
	struct rea_buffer text = explain(config, NULL, NULL);

	(void)state;
	assert_line(&text, "rea.yaml, version ");
	assert_line(&text, "\n  listen                        127.0.0.1:7070, 127.0.0.1:7072 (TLS)  line 1\n");
	assert_line(&text, "\n  threads                       2                 line 3\n");
	assert_line(&text, "\n  http.upgrade                  tunnel            line 5\n");
	assert_line(&text, "\n  events.file                   events.jsonl      line 6\n");
	assert_line(&text, "\n  limits.concurrent-retries     10                line 7\n");
	assert_line(&text, "\n  limits.headers                100               default\n");
	assert_line(&text, "\n  timeouts.drain-ms             5                 line 8\n");
	assert_line(&text, "\nrpc.feign.retry, for every service without settings of its own\n");
	assert_line(
	    &text, "\n  max-retry-next-instance   2             profile critical (line 24) of global, line 30\n");
	assert_line(&text, "\nrpc.grpc.retry, for every gRPC call without settings of its own\n\n"
			   "  enabled                   true          global, line 40\n"
			   "  max-retry-same-instance   0             default\n"
			   "  max-retry-next-instance   1             default\n");
	assert_line(&text, "\nservices\n"
			   "  users                     2 instances, 3 attempts, 2 retries\n"
			   "  pay                       1 instance, 1 attempt, no retries\n"
			   "  elsewhere                 0 instances, 3 attempts, 2 retries\n");
	assert_line(&text, "\nprofiles: conservative, adaptive, connect-only, critical, eager\n");
	rea_buffer_fini(&text);
	rea_config_unref(config);
}

/* What holds for gRPC calls stands in another block. */
static void grpc_methods_and_services(void **state)
{
	struct rea_config *config = parse(everything);
	struct rea_buffer method = explain(config, "users", "p.S_M"), service = explain(config, "pay", NULL);

	(void)state;
	assert_line(&method, "p.S_M of users\n\n  enabled                   true          global, line 40\n");
	assert_line(&method, "\n  jitter                    0.1           method, line 40\n");
	assert_line(&method, "\nattempts: 2 attempts, 1 retry\n");
	assert_line(&service, "pay, for methods without settings of their own\n\n");
	assert_line(&service, "\n  enabled                   true          global, line 29\n");
	assert_line(&service, "\ngRPC calls of pay, for methods without settings of their own\n\n"
			      "  enabled                   true          global, line 40\n");
	rea_buffer_fini(&method);
	rea_buffer_fini(&service);
	rea_config_unref(config);
}

/* No instance is asked twice, so there are no more attempts than instances. */
static void fewer_instances_than_attempts(void **state)
{
	struct rea_config *config = parse("services:\n"
					  "  two: {instances: ['127.0.0.1:1', '[::1]:1']}\n"
					  "  one: {instances: ['127.0.0.1:1']}\n"
					  "  name: {instances: ['users.internal:1']}\n" RETRY
					  "      enabled: true\n      max-retry-next-instance: 4\n"
					  "      service-configs: {one: {when-all-tried: cycle}}\n");

	struct rea_buffer text = explain(config, "two", NULL);

	(void)state;
	assert_line(&text, "\nattempts: 2 attempts, 1 retry: the policy has 5, but there are fewer instances, and "
			   "when-all-tried is stop\n");
	assert_line(&text,
	    "\nworst case: 2120 ms: 2 x attempt-timeout 1000 ms + waits 120 ms, within the deadline of 3000 ms\n");
	rea_buffer_fini(&text);
	text = explain(config, "one", NULL);
	assert_line(&text,
	    "\nattempts: 1 attempt, no retries: the policy has 5, but there is one instance, and when-all-tried is "
	    "cycle, which never asks one twice in a row\n");
	rea_buffer_fini(&text);
	/* A name may stand for many. */
	text = explain(config, "name", NULL);
	assert_line(&text, "\nattempts: 5 attempts, 4 retries\n");
	rea_buffer_fini(&text);
	rea_config_unref(config);
}

static void the_master_switch_is_named(void **state)
{
	struct rea_config *config =
	    parse("rpc: {feign: {retry: {enabled: false,\n service-configs: {s: {enabled: true}}}}}\n");
	struct rea_buffer text = explain(config, "s", NULL);

	(void)state;
	assert_line(&text, "\n  enabled                   false         global, line 1\n");
	assert_line(&text, "\nattempts: 1 attempt, no retries: enabled is false (global, line 1)\n");
	rea_buffer_fini(&text);
	rea_config_unref(config);
}

static void full_jitter(void **state)
{
	struct rea_config *config =
	    parse("rpc: {feign: {retry: {enabled: true, jitter: 0.3,\n service-configs: {s: {profile: adaptive}}}}}\n");
	struct rea_buffer text = explain(config, "s", NULL);

	(void)state;
	assert_line(&text, "\n  jitter                    full          profile adaptive of service, line 2\n");
	assert_line(&text, "\nattempts: 10 attempts, 9 retries\n");
	assert_line(&text, "\n  1             20 ms        10 ms to 20 ms\n");
	assert_line(&text, "\n  3             28.800 ms    10 ms to 28.800 ms\n");
	assert_line(&text, "\n  9             85.996 ms    10 ms to 85.996 ms\n");
	rea_buffer_fini(&text);
	rea_config_unref(config);
}

static void observing(void **state)
{
	struct rea_config *config = parse("rpc: {feign: {retry: {enabled: true, mode: observe}}}\n");
	struct rea_buffer text = explain(config, "s", NULL);

	(void)state;
	assert_line(
	    &text, "\nattempts: 1 attempt, no retries: mode observe only tells what it would do (2 attempts)\n");
	rea_buffer_fini(&text);
	rea_config_unref(config);
}

static void refuse(const struct rea_config *config, const char *service, const char *method, const char *message)
{
	struct rea_buffer text = {.alloc = NULL};
	struct rea_error_info info;

	assert_int_equal(rea_config_explain(config, service, method, append, &text, &info), REA_ERR_NOT_FOUND);
	assert_string_equal(info.message, message);
	assert_string_equal(info.file, "rea.yaml");
	assert_int_equal(rea_buffer_length(&text), 0);
	assert_int_equal(rea_config_explain(config, service, method, append, &text, NULL), REA_ERR_NOT_FOUND);
}

static void unknown_names(void **state)
{
	struct rea_config *config = parse(everything);

	(void)state;
	refuse(config, "user", NULL, "there is no service \"user\"; did you mean users?");
	refuse(config, "elsewere", "a_b", "there is no service \"elsewere\"; did you mean elsewhere?");
	refuse(config, "zzz", NULL, "there is no service \"zzz\"");
	refuse(config, "users", "user-api_got", "there is no method \"user-api_got\"; did you mean user-api_get?");
	rea_config_unref(config);
}

/* Y01: a document from a registry does not say what services there are. */
static void without_services_any_name_will_do(void **state)
{
	struct rea_config *config = parse(RETRY "      enabled: true\n      max-retry-next-instance: 2\n");
	struct rea_buffer text = explain(config, "order-service", "order-api_get");

	(void)state;
	assert_line(&text, "\nattempts: 3 attempts, 2 retries\n");
	rea_buffer_fini(&text);
	rea_config_unref(config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_method_in_full),
	    cmocka_unit_test(permissions),
	    cmocka_unit_test(never_sent_without_permission),
	    cmocka_unit_test(a_forbidden_method_is_made_once),
	    cmocka_unit_test(a_service_with_its_methods),
	    cmocka_unit_test(the_overview),
	    cmocka_unit_test(grpc_methods_and_services),
	    cmocka_unit_test(fewer_instances_than_attempts),
	    cmocka_unit_test(the_master_switch_is_named),
	    cmocka_unit_test(full_jitter),
	    cmocka_unit_test(observing),
	    cmocka_unit_test(unknown_names),
	    cmocka_unit_test(without_services_any_name_will_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
