/* The `tasks` block: policy, URLs, targets, and what explain says of them. */
#include "refusal.h"

#include "base/buffer.h"

#define BIT(key) (UINT32_C(1) << REA_POLICY_##key)

static void every_key(void **state)
{
	struct rea_config *config =
	    parse("services: {pay: {instances: []}, mail: {instances: []}}\n"
		  "limits: {admin-connections: 8, task-queue: 5, task-bytes: 2048, task-attempts-max: 100}\n"
		  "tasks:\n"
		  "  file: /var/lib/rea/tasks.db\n"
		  "  concurrency: 10\n"
		  "  target-concurrency: 3\n"
		  "  retention-hours: 24\n"
		  "  reply-bytes: 0\n"
		  "  policy: {max-attempts: 20, min-backoff-ms: 1000, max-backoff-ms: 60000, backoff-multiplier: 2, "
		  "jitter: 0.5,\n"
		  "    attempt-timeout-ms: 5000, deadline-ms: 604800000, retry-on: [never_sent, throttled], "
		  "never-sent: allow, classify: {409: unavailable}}\n"
		  "  urls:\n"
		  "    - {pattern: 'https://hooks.example.com/*', permission: with-key, concurrency: 2, rate-per-s: "
		  "0.5, sign: {secrets: [whsec_a, 'file:/s']}}\n"
		  "    - {pattern: 'http://127.0.0.1:*/x', allow-private: true, ca-file: /etc/ca.pem}\n"
		  "    - {pattern: 'http://a/x', allow-private: [127.0.0.0/8, 'fc00::/7']}\n"
		  "    - {pattern: 'http://b/x', allow-private: false}\n"
		  "  targets: {pay: {concurrency: 4, rate-per-s: 100}, mail: {}}\n");
	const struct rea_config_settings *settings = rea_config_settings(config);
	const struct rea_policy *policy = &settings->tasks.policy.values;

	(void)state;
	assert_int_equal(settings->limits.admin_connections, 8);
	assert_int_equal(settings->limits.task_queue, 5);
	assert_int_equal(settings->limits.task_bytes, 2048);
	assert_int_equal(settings->limits.task_attempts, 100);
	assert_string_equal(settings->tasks.file, "/var/lib/rea/tasks.db");
	assert_int_equal(settings->tasks.concurrency, 10);
	assert_int_equal(settings->tasks.target_concurrency, 3);
	assert_int_equal(settings->tasks.retention_hours, 24);
	assert_int_equal(settings->tasks.reply_bytes, 0);
	assert_false(settings->tasks.retries_off);
	assert_int_equal(settings->tasks.policy.set,
	    BIT(MAX_RETRY_NEXT_INSTANCE) | BIT(MIN_BACKOFF) | BIT(MAX_BACKOFF) | BIT(BACKOFF_MULTIPLIER) | BIT(JITTER) |
		BIT(ATTEMPT_TIMEOUT) | BIT(DEADLINE) | BIT(RETRY_ON) | BIT(NEVER_SENT) | BIT(CLASSIFY));
	assert_int_equal(policy->max_retry_next_instance, 19);
	assert_int_equal(policy->min_backoff_ns, UINT64_C(1000000000));
	assert_int_equal(policy->deadline_ns, UINT64_C(604800000000000));
	assert_int_equal(policy->classify_len, 1);
	assert_int_equal(settings->tasks.urls_len, 4);
	assert_string_equal(settings->tasks.urls[0].pattern, "https://hooks.example.com/*");
	assert_int_equal(settings->tasks.urls[0].permission, REA_PERMISSION_IDEMPOTENT_WITH_KEY);
	assert_int_equal(settings->tasks.urls[0].concurrency, 2);
	assert_true(settings->tasks.urls[0].rate_per_s == 0.5);
	assert_int_equal(settings->tasks.urls[0].allow_private_len, 0);
	assert_int_equal(settings->tasks.urls[0].secrets_len, 2);
	assert_string_equal(settings->tasks.urls[0].secrets[1], "file:/s");
	assert_int_equal(settings->tasks.urls[0].line, 12);
	assert_int_equal(settings->tasks.urls[1].permission, REA_PERMISSION_NONE);
	assert_int_equal(settings->tasks.urls[1].allow_private_len, 1);
	assert_int_equal(settings->tasks.urls[1].allow_private[0].bits, 0);
	assert_int_equal(settings->tasks.urls[2].allow_private_len, 2);
	assert_string_equal(settings->tasks.urls[2].allow_private[0].text, "127.0.0.0/8");
	assert_int_equal(settings->tasks.urls[2].allow_private[0].bits, 104);
	assert_int_equal(settings->tasks.urls[2].allow_private[1].bits, 7);
	assert_int_equal(settings->tasks.urls[3].allow_private_len, 0);
	assert_null(settings->tasks.urls[0].ca_file);
	assert_string_equal(settings->tasks.urls[1].ca_file, "/etc/ca.pem");
	assert_int_equal(settings->tasks.targets_len, 2);
	assert_string_equal(settings->tasks.targets[0].service, "pay");
	assert_int_equal(settings->tasks.targets[0].concurrency, 4);
	assert_true(settings->tasks.targets[0].rate_per_s == 100);
	assert_int_equal(settings->tasks.targets[1].concurrency, 0);
	rea_config_unref(config);
}

static void off_by_default(void **state)
{
	struct rea_config *config = parse("tasks: {file: off}\nrpc: {feign: {retry: {enabled: false}}}\n");
	const struct rea_config_settings *settings = rea_config_settings(config);

	(void)state;
	assert_null(settings->tasks.file);
	assert_int_equal(settings->tasks.policy.set, 0);
	assert_true(settings->tasks.retries_off);
	rea_config_unref(config);
	config = parse("rpc: {feign: {retry: {}}}\n");
	assert_false(rea_config_settings(config)->tasks.retries_off);
	rea_config_unref(config);
}

static const struct refusal refusals[] = {
    {"tasks: {files: x}\n", REA_ERR_INVALID, 1, 9, "tasks.files", "tasks has no key \"files\"; did you mean file?"},
    {"tasks: {concurrency: 0}\n", REA_ERR_INVALID, 1, 22, "tasks.concurrency",
	"expected a whole number from 1 to 10000, got \"0\""},
    {"tasks: {policy: {max-attempts: 0}}\n", REA_ERR_INVALID, 1, 32, "tasks.policy.max-attempts",
	"expected a whole number from 1 to 100, got \"0\""},
    {"tasks: {policy: {max-attempts: 11}}\n", REA_ERR_INVALID, 1, 32, "tasks.policy.max-attempts",
	"the number of attempts, 1 + max-retry-next-instance, is 11; it must be at least 1 and at most 10"},
    {"tasks: {policy: {min-backoff-ms: 19}}\n", REA_ERR_INVALID, 1, 34, "tasks.policy.min-backoff-ms",
	"min-backoff-ms is 19; it must be at least 20 (the smallest backoff of the profile)"},
    {"tasks: {policy: {jitter: 0}}\n", REA_ERR_INVALID, 1, 26, "tasks.policy.jitter",
	"expected a number above 0 and at most 1, got \"0\"; there is no way to turn jitter off"},
    {"tasks: {urls: [{}]}\n", REA_ERR_INVALID, 1, 16, "tasks.urls[0]", "a url needs a `pattern`"},
    {"tasks: {urls: [{pattern: 'ftp://x/*'}]}\n", REA_ERR_INVALID, 1, 26, "tasks.urls[0].pattern",
	"expected a pattern such as https://hooks.example.com/*, got \"ftp://x/*\""},
    {"tasks: {urls: [{pattern: 'https://x/*', allow-private: [127.0.0.1/8]}]}\n", REA_ERR_INVALID, 1, 57,
	"tasks.urls[0].allow-private[0]", "expected an address range such as 10.0.0.0/8 or fd00::/8, got \"127.0.0.1/8\": the address has bits behind the range's"},
    {"tasks: {urls: [{pattern: 'https://x/*', allow-private: maybe}]}\n", REA_ERR_INVALID, 1, 56,
	"tasks.urls[0].allow-private", "expected true or false, got \"maybe\""},
    {"tasks: {urls: [{pattern: 'https://x/*', permission: true}]}\n", REA_ERR_INVALID, 1, 53,
	"tasks.urls[0].permission", "expected none, safe, idempotent or with-key, got \"true\""},
    {"tasks: {urls: [{pattern: 'https://x/*', sign: {secrets: [hunter2]}}]}\n", REA_ERR_INVALID, 1, 58,
	"tasks.urls[0].sign.secrets[0]", "expected a secret such as whsec_..., or file:PATH of a file that holds one"},
    {"services: {pay: {instances: []}}\ntasks: {targets: {pai: {}}}\n", REA_ERR_INVALID, 2, 19, "tasks.targets.pai",
	"there is no service \"pai\"; did you mean pay?"},
    {"admin-hosts: [a:1]\n", REA_ERR_INVALID, 1, 15, "admin-hosts[0]", "expected a host name without a port, got \"a:1\""},
};

static void refused(void **state)
{
	(void)state;
	CHECK_REFUSALS(refusals);
}

static void keep(const char *text, size_t length, void *user_data)
{
	assert_int_equal(rea_buffer_append(user_data, text, length), 0);
}

static void explained(void **state)
{
	struct rea_config *config = parse("tasks: {file: t.db,\n policy: {max-attempts: 5},\n"
					  " urls: [{pattern: 'https://x/*', sign: {secrets: [whsec_hush]}}]}\n"
					  "rpc: {feign: {retry: {enabled: false}}}\n");
	struct rea_buffer text = {.alloc = NULL};

	(void)state;
	assert_int_equal(rea_config_explain(config, NULL, NULL, keep, &text, NULL), 0);
	assert_int_equal(rea_buffer_append(&text, "", 1), 0);
	assert_non_null(strstr(text.data, "\n  tasks.file                    t.db              line 1\n"));
	assert_non_null(strstr(text.data, "\n  max-attempts              5             line 2\n"));
	assert_non_null(strstr(text.data, "\n  min-backoff-ms            200           default\n"));
	assert_non_null(strstr(text.data, "\n  url https://x/*  permission unknown, signed, line 3\n"));
	assert_non_null(strstr(text.data, "rpc.feign.retry.enabled is false: tasks too are tried once\n"));
	assert_null(strstr(text.data, "hush"));
	rea_buffer_fini(&text);
	rea_config_unref(config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_key),
	    cmocka_unit_test(off_by_default),
	    cmocka_unit_test(refused),
	    cmocka_unit_test(explained),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
