/* Every key of a policy: good values, bounds on each side, and what a refusal says. Scenario P15. */
#include "config/snapshot.h"
#include "refusal.h"

#include <rea/time.h>

#define MS(n) ((uint64_t)(n)*REA_NS_PER_MS)

static struct rea_policy policy_of(const char *body)
{
	struct rea_policy policy;
	struct rea_config *config;
	char text[2048];

	snprintf(text, sizeof(text), RETRY "      enabled: true\n%s", body);
	config = parse(text);
	assert_int_equal(rea_config_policy(config, NULL, NULL, &policy), 0);
	rea_config_unref(config);
	return policy;
}

static void every_key(void **state)
{
	struct rea_policy p = policy_of("      max-retry-same-instance: 1\n"
					"      max-retry-next-instance: 4\n"
					"      min-backoff-ms: 20\n"
					"      max-backoff-ms: 3600000\n"
					"      backoff-multiplier: 1.5\n"
					"      jitter: 1\n"
					"      attempt-timeout-ms: 3600000\n"
					"      deadline-ms: 3600000\n"
					"      retry-on: [never_sent, throttled, failed]\n"
					"      never-sent: allow\n"
					"      when-all-tried: cycle\n"
					"      mode: observe\n"
					"      classify: {409: unavailable, 404: ok, 14: throttled}\n"
					"      budget: {rule: ratio, ratio: 0.125, reserve: 0, window-ms: 60000}\n"
					"      breaker:\n"
					"        enabled: true\n"
					"        failure-rate-threshold: 12.5\n"
					"        slow-call-rate-threshold: 100\n"
					"        slow-call-duration-threshold-ms: 1\n"
					"        sliding-window-type: TIME_BASED\n"
					"        sliding-window-size: 3600\n"
					"        minimum-number-of-calls: 7\n"
					"        wait-duration-in-open-state-ms: 2\n"
					"        permitted-number-of-calls-in-half-open-state: 1000\n"
					"        max-wait-duration-in-half-open-state-ms: 3\n"
					"      chain-stop: false\n"
					"      replay-limit-bytes: 16777216\n");

	(void)state;
	assert_true(p.enabled);
	assert_int_equal(p.max_retry_same_instance, 1);
	assert_int_equal(p.max_retry_next_instance, 4);
	assert_true(p.min_backoff_ns == MS(20) && p.max_backoff_ns == MS(3600000));
	assert_true(p.backoff_multiplier == 1.5 && p.jitter == 1);
	assert_true(p.attempt_timeout_ns == MS(3600000) && p.deadline_ns == MS(3600000));
	assert_int_equal(p.retry_on, REA_OUTCOME_BIT(REA_OUTCOME_NEVER_SENT) | REA_OUTCOME_BIT(REA_OUTCOME_THROTTLED) |
					 REA_OUTCOME_BIT(REA_OUTCOME_FAILED));
	assert_int_equal(p.never_sent, REA_NEVER_SENT_ALLOW);
	assert_int_equal(p.when_all_tried, REA_ALL_TRIED_CYCLE);
	assert_int_equal(p.mode, REA_MODE_OBSERVE);
	assert_int_equal(p.classify_len, 3);
	assert_int_equal(p.classify[0].kind, REA_CODE_HTTP);
	assert_int_equal(p.classify[0].code, 409);
	assert_int_equal(p.classify[0].outcome, REA_OUTCOME_UNAVAILABLE);
	assert_int_equal(p.classify[1].outcome, REA_OUTCOME_OK);
	assert_int_equal(p.classify[2].kind, REA_CODE_GRPC);
	assert_int_equal(p.classify[2].code, 14);
	assert_int_equal(p.budget.ratio_permille, 125);
	assert_int_equal(p.budget.reserve_per_s, 0);
	assert_int_equal(p.budget.window_ms, 60000);
	assert_true(p.breaker.enabled);
	assert_true(p.breaker.failure_rate_threshold == 12.5 && p.breaker.slow_call_rate_threshold == 100);
	assert_true(p.breaker.slow_call_duration_ns == MS(1) && p.breaker.wait_in_open_ns == MS(2) &&
		    p.breaker.max_wait_in_half_open_ns == MS(3));
	assert_int_equal(p.breaker.window_type, REA_BREAKER_TIME_BASED);
	assert_int_equal(p.breaker.window_size, 3600);
	assert_int_equal(p.breaker.minimum_calls, 7);
	assert_int_equal(p.breaker.permitted_in_half_open, 1000);
	assert_false(p.chain_stop);
	assert_int_equal(p.replay_limit_bytes, 16777216);
}

static void camel_case(void **state)
{
	struct rea_policy p = policy_of("      maxRetryNextInstance: 3\n"
					"      backoffMultiplier: 3\n"
					"      retryOn: []\n"
					"      breaker: {enabled: true, permittedNumberOfCallsInHalfOpenState: 2}\n"
					"      budget: {windowMs: 1000}\n");

	(void)state;
	assert_int_equal(p.max_retry_next_instance, 3);
	assert_true(p.backoff_multiplier == 3);
	assert_int_equal(p.retry_on, 0);
	assert_int_equal(p.breaker.permitted_in_half_open, 2);
	assert_int_equal(p.budget.window_ms, 1000);
}

/* P15: the form with a space in one string is accepted, never ignored. */
static void retry_on_in_one_text(void **state)
{
	const uint32_t expected = REA_OUTCOME_BIT(REA_OUTCOME_NEVER_SENT) | REA_OUTCOME_BIT(REA_OUTCOME_UNAVAILABLE);

	(void)state;
	assert_int_equal(policy_of("      retry-on: \"never_sent, unavailable\"\n").retry_on, expected);
	assert_int_equal(policy_of("      retry-on: never_sent unavailable\n").retry_on, expected);
	assert_int_equal(policy_of("      retry-on: ' unavailable,never_sent,unavailable '\n").retry_on, expected);
}

static void budgets_with_tokens(void **state)
{
	struct rea_budget_policy budget = policy_of("      budget: {rule: grpc, max-tokens: 10, token-ratio: 0.1}\n").budget;

	(void)state;
	assert_int_equal(budget.rule, REA_BUDGET_GRPC);
	assert_int_equal(budget.max_tokens, 10);
	assert_int_equal(budget.token_ratio_permille, 100);
	budget = policy_of("      budget: {tokenRatio: 999.999, maxTokens: 1000, rule: grpc}\n").budget;
	assert_int_equal(budget.max_tokens, 1000);
	assert_int_equal(budget.token_ratio_permille, 999999);
	budget = policy_of("      budget: {rule: aws}\n").budget;
	assert_int_equal(budget.rule, REA_BUDGET_AWS);
	assert_int_equal(budget.capacity, 500);
	assert_int_equal(budget.cost_transient, 14);
	assert_int_equal(budget.cost_timeout, 14);
	assert_int_equal(budget.cost_throttling, 5);
	/* Until 2026. */
	budget = policy_of(
	    "      budget: {rule: aws, capacity: 501, cost-transient: 5, cost-timeout: 10, cost-throttling: 6}\n")
		     .budget;
	assert_int_equal(budget.capacity, 501);
	assert_int_equal(budget.cost_transient, 5);
	assert_int_equal(budget.cost_timeout, 10);
	assert_int_equal(budget.cost_throttling, 6);
}

/* Who says nothing gets the default; who names a key means the rule that has it. */
static void the_rule_of_a_budget(void **state)
{
	static const struct {
		const char *text;
		enum rea_budget_rule rule;
	} rows[] = {
	    {"", REA_BUDGET_EVIDENCE},
	    {"      budget: {}\n", REA_BUDGET_EVIDENCE},
	    {"      budget: {rule: evidence}\n", REA_BUDGET_EVIDENCE},
	    {"      profile: adaptive\n", REA_BUDGET_EVIDENCE},
	    {"      profile: conservative\n", REA_BUDGET_EVIDENCE},
	    {"      budget: {reserve: 3}\n", REA_BUDGET_RATIO},
	    {"      budget: {window-ms: 3000}\n", REA_BUDGET_RATIO},
	    {"      profile: adaptive\n      budget: {ratio: 0.1}\n", REA_BUDGET_RATIO},
	    {"      budget: {tokenRatio: 0.1, maxTokens: 10}\n", REA_BUDGET_GRPC},
	    {"      budget: {cost-timeout: 3}\n", REA_BUDGET_AWS},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(policy_of(rows[i].text).budget.rule, rows[i].rule);
}

/* Each shows the keys of its own rule. */
static void budgets_as_text(void **state)
{
	static const char *const texts[] = {"{rule: evidence}",
	    "{rule: ratio, ratio: 0.3, reserve: 1, window-ms: 1000}", "{rule: grpc, max-tokens: 7, token-ratio: 0.125}",
	    "{rule: aws, capacity: 400, cost-transient: 3, cost-timeout: 4, cost-throttling: 5}"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const struct rea__field *field = &rea__policy_block.fields[REA_POLICY_BUDGET];
		char line[160], shown[160];
		struct rea_policy policy;
		struct rea_format text;

		snprintf(line, sizeof(line), "      budget: %s\n", texts[i]);
		policy = policy_of(line);
		rea_format_init(&text, shown, sizeof(shown));
		field->type->format(field, (const char *)&policy + field->offset, &text);
		assert_string_equal(shown, texts[i]);
	}
}

/* A block of its own stands for the whole: what it does not say is at its default, not inherited. */
static void blocks_are_taken_whole(void **state)
{
	struct rea_policy policy;
	struct rea_config *config = parse(RETRY "      budget: {ratio: 0.5, reserve: 3}\n"
						"      breaker: {enabled: true, sliding-window-size: 5}\n"
						"      classify: {409: unavailable}\n"
						"      service-configs:\n"
						"        a: {budget: {reserve: 4}, breaker: off, classify: {}}\n");

	(void)state;
	assert_int_equal(rea_config_policy(config, "a", NULL, &policy), 0);
	assert_int_equal(policy.budget.rule, REA_BUDGET_RATIO);
	assert_int_equal(policy.budget.reserve_per_s, 4);
	assert_int_equal(policy.budget.ratio_permille, 200);
	assert_false(policy.breaker.enabled);
	assert_int_equal(policy.classify_len, 0);
	rea_config_unref(config);
}

/* One table of names serves core, reader, explain and the manual page. */
static void names_are_those_of_the_core(void **state)
{
	static const char *const names[] = {
#define X(name, bit, text) [bit] = text,
	    REA_POLICY_KEY_MAP(X)
#undef X
	};

	(void)state;
	for (size_t key = 0; key < REA_POLICY_JITTER_KIND; key++)
		assert_string_equal(rea__policy_block.fields[key].name, names[key]);
}

static void default_values_are_the_defaults(void **state)
{
	struct rea_policy defaults;
	char ours[1024], theirs[1024];

	(void)state;
	rea_policy_defaults(&defaults);
	for (size_t key = 0; key < REA_POLICY_JITTER_KIND; key++) {
		const struct rea__field *field = &rea__policy_block.fields[key];
		struct rea_format a, b;

		rea_format_init(&a, ours, sizeof(ours));
		rea_format_init(&b, theirs, sizeof(theirs));
		field->type->format(field, (const char *)rea__policy_default_values() + field->offset, &a);
		field->type->format(field, (const char *)&defaults + field->offset, &b);
		assert_string_equal(ours, theirs);
	}
}

static const struct refusal refusals[] = {
    {"rpc: {feing: {}}\n", REA_ERR_INVALID, 1, 7, "rpc.feing", "rpc has no key \"feing\"; did you mean feign?"},
    {"rpc: {feign: {retries: {}}}\n", REA_ERR_INVALID, 1, 15, "rpc.feign.retries",
	"a protocol under rpc has no key \"retries\""},
    {"rpc: {grpc: {retry: {jiter: 1}}}\n", REA_ERR_INVALID, 1, 22, "rpc.grpc.retry.jiter",
	"a retry policy has no key \"jiter\"; did you mean jitter?"},
    {RETRY "      enabled: yes\n", REA_ERR_INVALID, 4, 16, "rpc.feign.retry.enabled",
	"expected true or false, got \"yes\"; did you mean true?"},
    {RETRY "      enabled: maybe\n", REA_ERR_INVALID, 4, 16, "rpc.feign.retry.enabled", "expected true or false, got \"maybe\""},
    {RETRY "      enable: true\n", REA_ERR_INVALID, 4, 7, "rpc.feign.retry.enable",
	"a retry policy has no key \"enable\"; did you mean enabled?"},
    {RETRY "      enabled:\n", REA_ERR_INVALID, 4, 15, "rpc.feign.retry.enabled", "expected true or false, got nothing"},
    {RETRY "      profile: fast\n", REA_ERR_INVALID, 4, 16, "rpc.feign.retry.profile", "there is no profile \"fast\""},
    {RETRY "      profile: conservativ\n", REA_ERR_INVALID, 4, 16, "rpc.feign.retry.profile",
	"there is no profile \"conservativ\"; did you mean conservative?"},
    {RETRY "      max-retry-same-instance: 10\n", REA_ERR_INVALID, 4, 32, "rpc.feign.retry.max-retry-same-instance",
	"expected a whole number from 0 to 9, got \"10\"; a call makes at most 10 attempts in all"},
    {RETRY "      max-retry-next-instance: 11\n", REA_ERR_INVALID, 4, 32, "rpc.feign.retry.max-retry-next-instance",
	"expected a whole number from 0 to 9, got \"11\"; a call makes at most 10 attempts in all"},
    {RETRY "      max-retry-same-instance: 4\n      max-retry-next-instance: 4\n", REA_ERR_INVALID, 5, 32,
	"rpc.feign.retry.max-retry-next-instance", "the number of attempts, (1 + max-retry-same-instance) * (1 + max-retry-next-instance), is 25; it must be at least 1 and at most 10"},
    {RETRY "      maxRetryNextInstance: -1\n", REA_ERR_INVALID, 4, 29, "rpc.feign.retry.maxRetryNextInstance",
	"expected a whole number from 0 to 9, got \"-1\"; a call makes at most 10 attempts in all"},
    {RETRY "      min-backoff-ms: 5\n", REA_ERR_INVALID, 4, 23, "rpc.feign.retry.min-backoff-ms",
	"min-backoff-ms is 5; it must be at least 20 (the smallest backoff of the profile)"},
    {RETRY "      min-backoff-ms: 0\n", REA_ERR_INVALID, 4, 23, "rpc.feign.retry.min-backoff-ms",
	"min-backoff-ms is 0; it must be at least 20 (the smallest backoff of the profile)"},
    {RETRY "      min-backoff-ms: 2000\n", REA_ERR_INVALID, 4, 23, "rpc.feign.retry.min-backoff-ms",
	"max-backoff-ms is 1000; it must be at least 2000 (min-backoff-ms)"},
    {RETRY "      max-backoff-ms: 50\n", REA_ERR_INVALID, 4, 23, "rpc.feign.retry.max-backoff-ms",
	"max-backoff-ms is 50; it must be at least 100 (min-backoff-ms)"},
    {RETRY "      min-backoff-ms: 500\n      max-backoff-ms: 400\n", REA_ERR_INVALID, 5, 23,
	"rpc.feign.retry.max-backoff-ms", "max-backoff-ms is 400; it must be at least 500 (min-backoff-ms)"},
    {RETRY "      max-backoff-ms: 1s\n", REA_ERR_INVALID, 4, 23, "rpc.feign.retry.max-backoff-ms",
	"expected a whole number from 0 to 3600000, got \"1s\"; did you mean 1000?"},
    {RETRY "      backoff-multiplier: 0.5\n", REA_ERR_INVALID, 4, 27, "rpc.feign.retry.backoff-multiplier",
	"expected a number from 1 to 1000, got \"0.5\""},
    {RETRY "      backoff-multiplier: 2x\n", REA_ERR_INVALID, 4, 27, "rpc.feign.retry.backoff-multiplier",
	"expected a number from 1 to 1000, got \"2x\""},
    {RETRY "      jitter: 0\n", REA_ERR_INVALID, 4, 15, "rpc.feign.retry.jitter",
	"expected a number above 0 and at most 1, got \"0\"; it is a share of the wait, and cannot be turned off"},
    {RETRY "      jitter: 1.5\n", REA_ERR_INVALID, 4, 15, "rpc.feign.retry.jitter",
	"expected a number above 0 and at most 1, got \"1.5\"; it is a share of the wait, and cannot be turned off"},
    {RETRY "      jitter: -0.2\n", REA_ERR_INVALID, 4, 15, "rpc.feign.retry.jitter",
	"expected a number above 0 and at most 1, got \"-0.2\"; it is a share of the wait, and cannot be turned off"},
    {RETRY "      jitter: nan\n", REA_ERR_INVALID, 4, 15, "rpc.feign.retry.jitter",
	"expected a number above 0 and at most 1, got \"nan\"; it is a share of the wait, and cannot be turned off"},
    {RETRY "      jitter: 20%\n", REA_ERR_INVALID, 4, 15,
	"rpc.feign.retry.jitter", "expected a number above 0 and at most 1, got \"20%\"; it is a share of the wait, and cannot be turned off; did you mean 0.2?"},
    {RETRY "      profile: adaptive\n      jitter: 0.2\n", REA_ERR_INVALID, 5, 15, "rpc.feign.retry.jitter",
	"`jitter` is not accepted under the profile adaptive, whose jitter is always full"},
    {RETRY "      profile: adaptive\n      min-backoff-ms: 9\n", REA_ERR_INVALID, 5, 23, "rpc.feign.retry.min-backoff-ms",
	"min-backoff-ms is 9; it must be at least 10 (the smallest backoff of the profile)"},
    {RETRY "      attempt-timeout-ms: 3000\n      deadline-ms: 1000\n", REA_ERR_INVALID, 4, 27,
	"rpc.feign.retry.attempt-timeout-ms", "attempt-timeout-ms is 3000; it must be above 0 and at most 1000 (deadline-ms)"},
    {RETRY "      deadline-ms: 500\n", REA_ERR_INVALID, 4, 20, "rpc.feign.retry.deadline-ms",
	"attempt-timeout-ms is 1000; it must be above 0 and at most 500 (deadline-ms)"},
    {RETRY "      deadline-ms: 0\n", REA_ERR_INVALID, 4, 20, "rpc.feign.retry.deadline-ms",
	"expected a whole number from 1 to 3600000, got \"0\""},
    {RETRY "      attempt-timeout-ms: 3600001\n", REA_ERR_INVALID, 4, 27, "rpc.feign.retry.attempt-timeout-ms",
	"expected a whole number from 1 to 3600000, got \"3600001\""},
    {RETRY "      retry-on: timeoutt\n", REA_ERR_INVALID, 4, 17,
	"rpc.feign.retry.retry-on", "expected outcomes that can be retried (never_sent, pushback, throttled, unavailable, ambiguous, failed), got \"timeoutt\""},
    {RETRY "      retry-on: never-sent\n", REA_ERR_INVALID, 4, 17,
	"rpc.feign.retry.retry-on", "expected outcomes that can be retried (never_sent, pushback, throttled, unavailable, ambiguous, failed), got \"never-sent\"; did you mean never_sent?"},
    {RETRY "      retry-on: [ambigous]\n", REA_ERR_INVALID, 4, 18,
	"rpc.feign.retry.retry-on[0]", "expected outcomes that can be retried (never_sent, pushback, throttled, unavailable, ambiguous, failed), got \"ambigous\"; did you mean ambiguous?"},
    {RETRY "      retry-on: [permanent]\n", REA_ERR_INVALID, 4, 18,
	"rpc.feign.retry.retry-on[0]", "expected outcomes that can be retried (never_sent, pushback, throttled, unavailable, ambiguous, failed), got \"permanent\", which is final"},
    {RETRY "      retry-on: [[ok]]\n", REA_ERR_INVALID, 4, 18,
	"rpc.feign.retry.retry-on[0]", "expected outcomes that can be retried (never_sent, pushback, throttled, unavailable, ambiguous, failed), got a list"},
    {RETRY "      retry-on: {a: b}\n", REA_ERR_INVALID, 4, 17,
	"rpc.feign.retry.retry-on", "expected a list of outcomes that can be retried (never_sent, pushback, throttled, unavailable, ambiguous, failed), got a mapping"},
    {RETRY "      retry-on:\n", REA_ERR_INVALID, 4, 16,
	"rpc.feign.retry.retry-on", "expected outcomes that can be retried (never_sent, pushback, throttled, unavailable, ambiguous, failed), got nothing; an empty list [] retries nothing"},
    {RETRY "      never-sent: alow\n", REA_ERR_INVALID, 4, 19, "rpc.feign.retry.never-sent",
	"expected strict or allow, got \"alow\"; did you mean allow?"},
    {RETRY "      never-sent: true\n", REA_ERR_INVALID, 4, 19, "rpc.feign.retry.never-sent",
	"expected strict or allow, got \"true\""},
    {RETRY "      when-all-tried: circle\n", REA_ERR_INVALID, 4, 23, "rpc.feign.retry.when-all-tried",
	"expected stop or cycle, got \"circle\"; did you mean cycle?"},
    {RETRY "      mode: off\n", REA_ERR_INVALID, 4, 13, "rpc.feign.retry.mode", "expected enforce or observe, got \"off\""},
    {RETRY "      classify: [409]\n", REA_ERR_INVALID, 4, 17, "rpc.feign.retry.classify",
	"expected a mapping of keys to values, got a list"},
    {RETRY "      classify: {conflict: unavailable}\n", REA_ERR_INVALID, 4, 18, "rpc.feign.retry.classify.conflict",
	"expected an HTTP status from 200 to 599 or a gRPC status from 0 to 16, got \"conflict\""},
    {RETRY "      classify: {100: ok}\n", REA_ERR_INVALID, 4, 18, "rpc.feign.retry.classify.100",
	"expected an HTTP status from 200 to 599 or a gRPC status from 0 to 16, got \"100\""},
    {RETRY "      classify: {600: ok}\n", REA_ERR_INVALID, 4, 18, "rpc.feign.retry.classify.600",
	"expected an HTTP status from 200 to 599 or a gRPC status from 0 to 16, got \"600\""},
    {RETRY "      classify: {17: ok}\n", REA_ERR_INVALID, 4, 18, "rpc.feign.retry.classify.17",
	"expected an HTTP status from 200 to 599 or a gRPC status from 0 to 16, got \"17\""},
    {RETRY "      classify: {409: unavailabel}\n", REA_ERR_INVALID, 4, 23,
	"rpc.feign.retry.classify.409", "expected ok, pushback, throttled, unavailable, ambiguous, failed or permanent, got \"unavailabel\"; did you mean unavailable?"},
    {RETRY "      classify: {409: never_sent}\n", REA_ERR_INVALID, 4, 23, "rpc.feign.retry.classify.409",
	"expected ok, pushback, throttled, unavailable, ambiguous, failed or permanent, got \"never_sent\""},
    {RETRY "      classify: {409: cancelled}\n", REA_ERR_INVALID, 4, 23, "rpc.feign.retry.classify.409",
	"expected ok, pushback, throttled, unavailable, ambiguous, failed or permanent, got \"cancelled\""},
    {RETRY "      classify: {409: failed, 0409: failed}\n", REA_ERR_INVALID, 4, 31, "rpc.feign.retry.classify.0409",
	"the code 409 stands here a second time"},
    {RETRY "      classify: {200: ok, 201: ok, 202: ok, 203: ok, 204: ok, 205: ok, 206: ok, 207: ok, 208: ok, 209: ok, "
	   "210: ok, 211: ok, 212: ok, 213: ok, 214: ok, 215: ok, 216: ok, 217: ok, 218: ok, 219: ok, 220: ok, 221: "
	   "ok, 222: ok, 223: ok, 224: ok, 225: ok, 226: ok, 227: ok, 228: ok, 229: ok, 230: ok, 231: ok, 232: ok}\n",
	REA_ERR_INVALID, 4, 306, "rpc.feign.retry.classify.232", "more than 32 codes"},
    {RETRY "      budget: off\n", REA_ERR_INVALID, 4, 15,
	"rpc.feign.retry.budget", "expected a mapping with a rule and its keys, such as {rule: ratio, ratio: 0.2}, got \"off\"; the budget cannot be turned off"},
    {RETRY "      budget: {ratio: 150}\n", REA_ERR_INVALID, 4, 23, "rpc.feign.retry.budget.ratio",
	"expected a number from 0 to 1, got \"150\"; it is the share of first attempts that may be retried"},
    {RETRY "      budget: {ratio: 0.2005}\n", REA_ERR_INVALID, 4, 23, "rpc.feign.retry.budget.ratio",
	"expected a number with at most three digits after the point, got \"0.2005\""},
    {RETRY "      budget: {rule: fixed}\n", REA_ERR_INVALID, 4, 22, "rpc.feign.retry.budget.rule",
	"expected evidence, ratio, grpc or aws, got \"fixed\""},
    {RETRY "      budget: {rule: evidence, ratio: 0.2}\n", REA_ERR_INVALID, 4, 32, "rpc.feign.retry.budget.ratio",
	"the rule evidence has no key ratio"},
    {RETRY "      budget: {rule: grpc, ratio: 0.2}\n", REA_ERR_INVALID, 4, 28, "rpc.feign.retry.budget.ratio",
	"the rule grpc has no key ratio"},
    {RETRY "      budget: {maxTokens: 10, reserve: 1}\n", REA_ERR_INVALID, 4, 16, "rpc.feign.retry.budget.maxTokens",
	"the rule ratio has no key max-tokens"},
    {RETRY "      budget: {cost-timeout: 14, rule: grpc}\n", REA_ERR_INVALID, 4, 16,
	"rpc.feign.retry.budget.cost-timeout", "the rule grpc has no key cost-timeout"},
    {RETRY "      budget: {rule: aws, window-ms: 5000}\n", REA_ERR_INVALID, 4, 27, "rpc.feign.retry.budget.window-ms",
	"the rule aws has no key window-ms"},
    {RETRY "      budget: {rule: grpc, max-tokens: 0}\n", REA_ERR_INVALID, 4, 40, "rpc.feign.retry.budget.max-tokens",
	"expected a whole number from 1 to 1000, got \"0\""},
    {RETRY "      budget: {rule: grpc, max-tokens: 1001}\n", REA_ERR_INVALID, 4, 40,
	"rpc.feign.retry.budget.max-tokens", "expected a whole number from 1 to 1000, got \"1001\""},
    {RETRY "      budget: {rule: grpc, token-ratio: 0}\n", REA_ERR_INVALID, 4, 41, "rpc.feign.retry.budget.token-ratio",
	"expected a number from 0.001 to 1000, got \"0\""},
    {RETRY "      budget: {rule: grpc, token-ratio: 0.0005}\n", REA_ERR_INVALID, 4, 41,
	"rpc.feign.retry.budget.token-ratio", "expected a number from 0.001 to 1000, got \"0.0005\""},
    {RETRY "      budget: {rule: grpc, token-ratio: 0.1005}\n", REA_ERR_INVALID, 4, 41, "rpc.feign.retry.budget.token-ratio",
	"expected a number with at most three digits after the point, got \"0.1005\""},
    {RETRY "      budget: {rule: aws, capacity: 0}\n", REA_ERR_INVALID, 4, 37, "rpc.feign.retry.budget.capacity",
	"expected a whole number from 1 to 1000000, got \"0\""},
    {RETRY "      budget: {rule: aws, cost-throttling: 1000001}\n", REA_ERR_INVALID, 4, 44,
	"rpc.feign.retry.budget.cost-throttling", "expected a whole number from 1 to 1000000, got \"1000001\""},
    {RETRY "      budget: {rule: aws, capacity: 13}\n", REA_ERR_INVALID, 4, 15, "rpc.feign.retry.budget",
	"the budget's cost-transient is 14; it must be at least 1 and at most 13 (capacity)"},
    {RETRY "      budget: {reserve: -1}\n", REA_ERR_INVALID, 4, 25, "rpc.feign.retry.budget.reserve",
	"expected a whole number from 0 to 1000000, got \"-1\""},
    {RETRY "      budget: {window-ms: 500}\n", REA_ERR_INVALID, 4, 27, "rpc.feign.retry.budget.window-ms",
	"expected a whole number from 1000 to 60000, got \"500\""},
    {RETRY "      budget: {windw-ms: 5000}\n", REA_ERR_INVALID, 4, 16, "rpc.feign.retry.budget.windw-ms",
	"budget has no key \"windw-ms\"; did you mean window-ms?"},
    {RETRY "      breaker: on\n", REA_ERR_INVALID, 4, 16, "rpc.feign.retry.breaker",
	"expected off, or a mapping such as {enabled: true, failure-rate-threshold: 50}, got \"on\""},
    {RETRY "      breaker: {enabled: 1}\n", REA_ERR_INVALID, 4, 26, "rpc.feign.retry.breaker.enabled",
	"expected true or false, got \"1\"; did you mean true?"},
    {RETRY "      breaker: {failure-rate-threshold: 0}\n", REA_ERR_INVALID, 4, 41,
	"rpc.feign.retry.breaker.failure-rate-threshold", "expected a number above 0 and at most 100, got \"0\""},
    {RETRY "      breaker: {slow-call-rate-threshold: 101}\n", REA_ERR_INVALID, 4, 43,
	"rpc.feign.retry.breaker.slow-call-rate-threshold", "expected a number above 0 and at most 100, got \"101\""},
    {RETRY "      breaker: {slow-call-duration-threshold-ms: 0}\n", REA_ERR_INVALID, 4, 50,
	"rpc.feign.retry.breaker.slow-call-duration-threshold-ms", "expected a whole number from 1 to 3600000, got \"0\""},
    {RETRY "      breaker: {sliding-window-type: count}\n", REA_ERR_INVALID, 4, 38,
	"rpc.feign.retry.breaker.sliding-window-type", "expected COUNT_BASED or TIME_BASED, got \"count\""},
    {RETRY "      breaker: {sliding-window-size: 0}\n", REA_ERR_INVALID, 4, 38,
	"rpc.feign.retry.breaker.sliding-window-size", "expected a whole number from 1 to 10000, got \"0\""},
    {RETRY "      breaker: {sliding-window-type: TIME_BASED, sliding-window-size: 3601}\n", REA_ERR_INVALID, 4, 16,
	"rpc.feign.retry.breaker", "the breaker's window in seconds is 3601; it must be at least 1 and at most 3600"},
    {RETRY "      breaker: {minimum-number-of-calls: 0}\n", REA_ERR_INVALID, 4, 42,
	"rpc.feign.retry.breaker.minimum-number-of-calls", "expected a whole number from 1 to 1000000, got \"0\""},
    {RETRY "      breaker: {wait-duration-in-open-state-ms: 0}\n", REA_ERR_INVALID, 4, 49,
	"rpc.feign.retry.breaker.wait-duration-in-open-state-ms", "expected a whole number from 1 to 3600000, got \"0\""},
    {RETRY "      breaker: {permitted-number-of-calls-in-half-open-state: 1001}\n", REA_ERR_INVALID, 4, 63,
	"rpc.feign.retry.breaker.permitted-number-of-calls-in-half-open-state",
	"expected a whole number from 1 to 1000, got \"1001\""},
    {RETRY "      breaker: {max-wait-duration-in-half-open-state-ms: -1}\n", REA_ERR_INVALID, 4, 58,
	"rpc.feign.retry.breaker.max-wait-duration-in-half-open-state-ms",
	"expected a whole number from 0 to 3600000, got \"-1\""},
    {RETRY "      breaker: {failure-rate: 50}\n", REA_ERR_INVALID, 4, 17, "rpc.feign.retry.breaker.failure-rate",
	"breaker has no key \"failure-rate\""},
    {RETRY "      chain-stop: 2\n", REA_ERR_INVALID, 4, 19, "rpc.feign.retry.chain-stop", "expected true or false, got \"2\""},
    {RETRY "      replay-limit-bytes: 16777217\n", REA_ERR_INVALID, 4, 27, "rpc.feign.retry.replay-limit-bytes",
	"expected a whole number from 0 to 16777216, got \"16777217\""},
    {RETRY "      replay-limit-bytes: 64k\n", REA_ERR_INVALID, 4, 27, "rpc.feign.retry.replay-limit-bytes",
	"expected a whole number from 0 to 16777216, got \"64k\""},
    {RETRY "      method-configs: {}\n", REA_ERR_INVALID, 4, 7, "rpc.feign.retry.method-configs",
	"method-configs stands under service-configs.<service>, and nowhere else"},
    {RETRY "      service-configs: {users: {service-configs: {}}}\n", REA_ERR_INVALID, 4, 33,
	"rpc.feign.retry.service-configs.users.service-configs",
	"service-configs stands directly under `retry`, and nowhere else"},
    {RETRY "      service-configs: [users]\n", REA_ERR_INVALID, 4, 24, "rpc.feign.retry.service-configs",
	"expected a mapping of keys to values, got a list"},
    {RETRY "      service-configs: {users: {method-configs: {a_b: {method-configs: {}}}}}\n", REA_ERR_INVALID, 4, 56,
	"rpc.feign.retry.service-configs.users.method-configs.a_b.method-configs",
	"method-configs stands under service-configs.<service>, and nowhere else"},
    {RETRY "      service-configs: {users: {method-configs: {a_b: {jitter: 2}}}}\n", REA_ERR_INVALID, 4, 64,
	"rpc.feign.retry.service-configs.users.method-configs.a_b.jitter",
	"expected a number above 0 and at most 1, got \"2\"; it is a share of the wait, and cannot be turned off"},
    {RETRY "      service-configs:\n        users:\n          max-retry-same-instance: 4\n          method-configs:\n  "
	   "          a_b:\n              max-retry-next-instance: 4\n",
	REA_ERR_INVALID, 9, 40,
	"rpc.feign.retry.service-configs.users.method-configs.a_b.max-retry-next-instance", "the number of attempts, (1 + max-retry-same-instance) * (1 + max-retry-next-instance), is 25; it must be at least 1 and at most 10"},
    {RETRY "      attempt-timeout-ms: 2000\n      service-configs:\n        users:\n          deadline-ms: 1500\n",
	REA_ERR_INVALID, 7, 24, "rpc.feign.retry.service-configs.users.deadline-ms",
	"attempt-timeout-ms is 2000; it must be above 0 and at most 1500 (deadline-ms)"},
    {RETRY "      jitter: 0.3\n      service-configs:\n        users:\n          profile: adaptive\n          "
	   "method-configs:\n            a_b: {jitter: 0.5}\n",
	REA_ERR_INVALID, 9, 27, "rpc.feign.retry.service-configs.users.method-configs.a_b.jitter",
	"`jitter` is not accepted under the profile adaptive, whose jitter is always full"},
    {SERVICE OPERATION "{get: /a, id: getUser}\nrpc:\n  feign:\n    retry:\n      service-configs: {users: "
		       "{method-configs: {users_getUsr: {}}}}\n",
	REA_ERR_INVALID, 11, 50, "rpc.feign.retry.service-configs.users.method-configs.users_getUsr",
	"the contract of this service declares no method \"users_getUsr\"; did you mean users_getUser?"},
};

static void refused(void **state)
{
	(void)state;
	CHECK_REFUSALS(refusals);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_key),
	    cmocka_unit_test(camel_case),
	    cmocka_unit_test(retry_on_in_one_text),
	    cmocka_unit_test(budgets_with_tokens),
	    cmocka_unit_test(the_rule_of_a_budget),
	    cmocka_unit_test(budgets_as_text),
	    cmocka_unit_test(blocks_are_taken_whole),
	    cmocka_unit_test(names_are_those_of_the_core),
	    cmocka_unit_test(default_values_are_the_defaults),
	    cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
