/* The keys of a policy, with the types of their values. */
#include "config/snapshot.h"

#include <rea/time.h>

#include <assert.h>
#include <stdio.h>

#define FIELDS(fields) fields, sizeof(fields) / sizeof((fields)[0])
#define HOUR_MS 3600000

const struct rea_policy *rea__policy_default_values(void)
{
	const struct rea_policy_layer *conservative = rea_policy_profile("conservative", strlen("conservative"));

	assert(conservative != NULL);
	return &conservative->values;
}

/* ------------------------------------------------------------------ retry-on */

#define RETRY_ON_EXPECTED \
	"outcomes that can be retried (never_sent, pushback, throttled, unavailable, ambiguous, failed)"

static bool is_final(int outcome)
{
	return outcome == REA_OUTCOME_OK || outcome == REA_OUTCOME_PERMANENT || outcome == REA_OUTCOME_CANCELLED;
}

static int add_outcome(struct rea__reader *reader, const struct rea__node *node, struct rea_slice name, uint32_t *set)
{
	int outcome = rea_outcome_parse(name.data, name.length);
	struct rea__suggest suggest;
	char hint[REA__SUGGEST_SIZE], quote[REA__QUOTE_SIZE];

	if (outcome >= 0 && !is_final(outcome)) {
		*set |= REA_OUTCOME_BIT((uint32_t)outcome);
		return 0;
	}
	if (outcome >= 0)
		return rea__refuse(
		    reader, node, "expected " RETRY_ON_EXPECTED ", got %s, which is final", rea__quote(name, quote));
	rea__suggest_init(&suggest, name);
	for (int i = 0; i < REA_OUTCOME_COUNT; i++)
		if (!is_final(i))
			rea__suggest_offer(&suggest, rea_outcome_name((enum rea_outcome)i));
	return rea__refuse(reader, node, "expected " RETRY_ON_EXPECTED ", got %s%s", rea__quote(name, quote),
	    rea__suggest_text(&suggest, hint));
}

static bool is_separator(char c)
{
	return c == ' ' || c == ',' || c == '\t' || c == '\n' || c == '\r';
}

/* Names in one text, separated by commas, blanks or both. */
static int add_outcomes(struct rea__reader *reader, const struct rea__node *node, uint32_t *set)
{
	const char *at = node->text, *end = at + node->length;
	int error = 0;

	if (rea__node_is_null(node))
		return rea__refuse_value(reader, node, RETRY_ON_EXPECTED, "; an empty list [] retries nothing");
	while (error == 0) {
		const char *name;

		while (at < end && is_separator(*at))
			at++;
		if (at == end)
			break;
		for (name = at; at < end && !is_separator(*at); at++)
			;
		error = add_outcome(reader, node, rea_slice_make(name, (size_t)(at - name)), set);
	}
	return error;
}

static int read_retry_on(
    struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	uint32_t set = 0;
	int error = 0;

	(void)field;
	if (node->kind == REA__MAPPING)
		return rea__refuse_value(reader, node, "a list of " RETRY_ON_EXPECTED, "");
	if (node->kind == REA__SCALAR)
		error = add_outcomes(reader, node, &set);
	else
		for (const struct rea__node *item = node->first; item != NULL && error == 0; item = item->next)
			error = item->kind == REA__SCALAR ? add_outcome(reader, item, rea__node_text(item), &set)
							  : rea__refuse_value(reader, item, RETRY_ON_EXPECTED, "");
	if (error == 0)
		*(uint32_t *)ret_value = set;
	return error;
}

static void format_retry_on(const struct rea__field *field, const void *value, struct rea_format *text)
{
	const char *separator = "";

	(void)field;
	rea_format_text(text, "[");
	for (int i = 0; i < REA_OUTCOME_COUNT; i++)
		if (*(const uint32_t *)value & REA_OUTCOME_BIT((uint32_t)i)) {
			rea_format_text(text, separator);
			rea_format_text(text, rea_outcome_name((enum rea_outcome)i));
			separator = ", ";
		}
	rea_format_text(text, "]");
}

static const struct rea__type type_retry_on = {read_retry_on, format_retry_on};

/* ------------------------------------------------------------------ classify */

static int read_code(struct rea__reader *reader, const struct rea__node *node, struct rea_classify_rule *rule)
{
	char quote[REA__QUOTE_SIZE];
	uint64_t code;

	if (!rea_slice_to_u64(rea__node_text(node->key), &code) || code > 599 || (code > 16 && code < 200))
		return rea__refuse_key(reader, node,
		    "expected an HTTP status from 200 to 599 or a gRPC status from 0 to 16, got %s",
		    rea__quote(rea__node_text(node->key), quote));
	rule->kind = code <= 16 ? REA_CODE_GRPC : REA_CODE_HTTP;
	rule->code = (uint32_t)code;
	return 0;
}

/* A reply proves that something was sent, so no code can mean never_sent; and none that the caller left. */
static bool can_be_code(int outcome)
{
	return outcome >= 0 && outcome != REA_OUTCOME_NEVER_SENT && outcome != REA_OUTCOME_CANCELLED;
}

static int read_class(struct rea__reader *reader, const struct rea__node *node, struct rea_classify_rule *rule)
{
	static const char expected[] = "ok, pushback, throttled, unavailable, ambiguous, failed or permanent";
	struct rea__suggest suggest;
	struct rea_slice name;
	char hint[REA__SUGGEST_SIZE];
	int outcome, error = rea__expect_text(reader, node, expected, &name);

	if (error != 0)
		return error;
	outcome = rea_outcome_parse(name.data, name.length);
	if (can_be_code(outcome)) {
		rule->outcome = (enum rea_outcome)outcome;
		return 0;
	}
	rea__suggest_init(&suggest, name);
	for (int i = 0; i < REA_OUTCOME_COUNT && outcome < 0; i++)
		if (can_be_code(i))
			rea__suggest_offer(&suggest, rea_outcome_name((enum rea_outcome)i));
	return rea__refuse_value(reader, node, expected, rea__suggest_text(&suggest, hint));
}

/* The same number written twice in two ways, "14" and "014". */
static bool has_code(const struct rea_policy *policy, const struct rea_classify_rule *rule)
{
	for (size_t i = 0; i < policy->classify_len; i++)
		if (policy->classify[i].kind == rule->kind && policy->classify[i].code == rule->code)
			return true;
	return false;
}

/* Written to the whole policy, as two members change. */
static int read_classify(
    struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	struct rea_policy *policy = ret_value;
	const struct rea__node *child;
	int error = rea__expect_mapping(reader, node, &child);

	(void)field;
	for (; error == 0 && child != NULL; child = child->next) {
		struct rea_classify_rule rule;

		if (policy->classify_len == REA_CLASSIFY_RULES_MAX)
			return rea__refuse_key(reader, child, "more than %d codes", REA_CLASSIFY_RULES_MAX);
		error = read_code(reader, child, &rule);
		if (error == 0)
			error = read_class(reader, child, &rule);
		if (error == 0 && has_code(policy, &rule))
			return rea__refuse_key(reader, child, "the code %u stands here a second time", rule.code);
		if (error == 0)
			policy->classify[policy->classify_len++] = rule;
	}
	return error;
}

static void format_classify(const struct rea__field *field, const void *value, struct rea_format *text)
{
	const struct rea_policy *policy = value;

	(void)field;
	rea_format_text(text, "{");
	for (size_t i = 0; i < policy->classify_len; i++) {
		rea_format_text(text, i > 0 ? ", " : "");
		rea_format_u64(text, policy->classify[i].code);
		rea_format_text(text, ": ");
		rea_format_text(text, rea_outcome_name(policy->classify[i].outcome));
	}
	rea_format_text(text, "}");
}

static const struct rea__type type_classify = {read_classify, format_classify};

/* ------------------------------------------------------------------ budget */

static const struct rea__choice rule_choices[] = {{"evidence", REA_BUDGET_EVIDENCE}, {"ratio", REA_BUDGET_RATIO},
    {"grpc", REA_BUDGET_GRPC}, {"aws", REA_BUDGET_AWS}, {NULL, 0}};

static const char *rule_name(enum rea_budget_rule rule)
{
	const struct rea__choice *choice = rule_choices;

	while (choice->value != (int)rule)
		choice++;
	return choice->name;
}

/* A share, kept in thousandths. */
static int read_permille(
    struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	double share;
	uint32_t permille;
	int error = rea__type_double.read(reader, node, field, &share);

	if (error != 0)
		return error;
	permille = (uint32_t)(share * 1000 + 0.5);
	if (share * 1000 - permille > 1e-9 || permille - share * 1000 > 1e-9)
		return rea__refuse_value(reader, node, "a number with at most three digits after the point", "");
	*(uint32_t *)ret_value = permille;
	return 0;
}

static void format_permille(const struct rea__field *field, const void *value, struct rea_format *text)
{
	(void)field;
	rea_format_double(text, *(const uint32_t *)value / 1000.0);
}

static const struct rea__type type_permille = {read_permille, format_permille};

enum {
	BUDGET_RULE,
	BUDGET_RATIO,
	BUDGET_RESERVE,
	BUDGET_WINDOW,
	BUDGET_MAX_TOKENS,
	BUDGET_TOKEN_RATIO,
	BUDGET_CAPACITY,
	BUDGET_COST_TRANSIENT,
	BUDGET_COST_TIMEOUT,
	BUDGET_COST_THROTTLING,
	BUDGET_FIELDS
};

#define BUDGET(member) offsetof(struct rea_budget_policy, member)
#define COST(key, member)                                                                                               \
	{                                                                                                               \
		.name = key, .type = &rea__type_u32, .offset = BUDGET(member), .min = 1, .max = REA_BUDGET_CAPACITY_MAX \
	}

static const struct rea__field budget_fields[BUDGET_FIELDS] = {
    [BUDGET_RULE] = {.name = "rule", .type = &rea__type_choice, .offset = BUDGET(rule), .choices = rule_choices},
    [BUDGET_RATIO] = {.name = "ratio",
	.type = &type_permille,
	.offset = BUDGET(ratio_permille),
	.max = REA_BUDGET_RATIO_PERMILLE_MAX / 1000.0,
	.note = "it is the share of first attempts that may be retried"},
    [BUDGET_RESERVE] = {.name = "reserve", .type = &rea__type_u32, .offset = BUDGET(reserve_per_s), .max = 1000000},
    [BUDGET_WINDOW] = {.name = "window-ms",
	.type = &rea__type_u32,
	.offset = BUDGET(window_ms),
	.min = REA_BUDGET_WINDOW_MS_MIN,
	.max = REA_BUDGET_WINDOW_MS_MAX},
    [BUDGET_MAX_TOKENS] = {.name = "max-tokens", .type = &rea__type_u32, .offset = BUDGET(max_tokens), .min = 1, .max = REA_BUDGET_MAX_TOKENS_MAX},
    [BUDGET_TOKEN_RATIO] = {.name = "token-ratio",
	.type = &type_permille,
	.offset = BUDGET(token_ratio_permille),
	.min = 0.001,
	.max = REA_BUDGET_TOKEN_RATIO_PERMILLE_MAX / 1000.0},
    [BUDGET_CAPACITY] = COST("capacity", capacity),
    [BUDGET_COST_TRANSIENT] = COST("cost-transient", cost_transient),
    [BUDGET_COST_TIMEOUT] = COST("cost-timeout", cost_timeout),
    [BUDGET_COST_THROTTLING] = COST("cost-throttling", cost_throttling),
};
const struct rea__block rea__budget_block = {"budget", FIELDS(budget_fields), REA__NO_LINES};

#define BIT(field) (UINT32_C(1) << (field))
#define ALL_FIELDS UINT32_MAX

/* The keys of a rule, one bit each. */
static const uint32_t rule_fields[] = {
    [REA_BUDGET_RATIO] = BIT(BUDGET_RULE) | BIT(BUDGET_RATIO) | BIT(BUDGET_RESERVE) | BIT(BUDGET_WINDOW),
    [REA_BUDGET_GRPC] = BIT(BUDGET_RULE) | BIT(BUDGET_MAX_TOKENS) | BIT(BUDGET_TOKEN_RATIO),
    [REA_BUDGET_AWS] = BIT(BUDGET_RULE) | BIT(BUDGET_CAPACITY) | BIT(BUDGET_COST_TRANSIENT) | BIT(BUDGET_COST_TIMEOUT) |
		       BIT(BUDGET_COST_THROTTLING),
    [REA_BUDGET_EVIDENCE] = BIT(BUDGET_RULE),
};

/* Without `rule` it is that of the first key that belongs to one. */
static void find_rule(const struct rea__node *const *seen, enum rea_budget_rule *rule)
{
	for (size_t i = 0; seen[BUDGET_RULE] == NULL && i < BUDGET_FIELDS; i++)
		for (enum rea_budget_rule named = REA_BUDGET_RATIO; seen[i] != NULL && named <= REA_BUDGET_EVIDENCE; named++)
			if (rule_fields[named] & BIT(i)) {
				*rule = named;
				return;
			}
}

/* A key of another rule would change nothing: its author meant something else. */
static int check_rule(struct rea__reader *reader, const struct rea__node *const *seen, enum rea_budget_rule rule)
{
	for (size_t i = 0; i < BUDGET_FIELDS; i++)
		if (seen[i] != NULL && !(rule_fields[rule] & BIT(i)))
			return rea__refuse_key(
			    reader, seen[i], "the rule %s has no key %s", rule_name(rule), budget_fields[i].name);
	return 0;
}

static int read_budget(struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	const struct rea__node *seen[REA__BLOCK_FIELDS_MAX];
	struct rea_budget_policy *budget = ret_value;
	int error;

	(void)field;
	if (node->kind != REA__MAPPING)
		return rea__refuse_value(reader, node, "a mapping with a rule and its keys, such as {rule: ratio, ratio: 0.2}",
		    "; the budget cannot be turned off");
	*budget = rea__policy_default_values()->budget;
	error = rea__block_read(reader, node, &rea__budget_block, budget, seen);
	if (error != 0)
		return error;
	find_rule(seen, &budget->rule);
	return check_rule(reader, seen, budget->rule);
}

/* shown: bit per field of the block. */
static void format_fields(const struct rea__block *block, uint32_t shown, const void *value, struct rea_format *text)
{
	const char *separator = "{";

	for (size_t i = 0; i < block->fields_len; i++) {
		const struct rea__field *field = &block->fields[i];

		if (!(shown & BIT(i)))
			continue;
		rea_format_text(text, separator);
		rea_format_text(text, field->name);
		rea_format_text(text, ": ");
		field->type->format(field, (const char *)value + field->offset, text);
		separator = ", ";
	}
	rea_format_text(text, "}");
}

static void format_budget(const struct rea__field *field, const void *value, struct rea_format *text)
{
	const struct rea_budget_policy *budget = value;

	(void)field;
	format_fields(&rea__budget_block, rule_fields[budget->rule], value, text);
}

static const struct rea__type type_budget = {read_budget, format_budget};

/* ------------------------------------------------------------------ breaker */

#define BREAKER(member) offsetof(struct rea_breaker_policy, member)

static const struct rea__choice window_choices[] = {
    {"COUNT_BASED", REA_BREAKER_COUNT_BASED}, {"TIME_BASED", REA_BREAKER_TIME_BASED}, {NULL, 0}};

static const struct rea__field breaker_fields[] = {
    {.name = "enabled", .type = &rea__type_bool, .offset = BREAKER(enabled)},
    {.name = "failure-rate-threshold", .type = &rea__type_double, .offset = BREAKER(failure_rate_threshold), .max = 100, .above_min = true},
    {.name = "slow-call-rate-threshold",
	.type = &rea__type_double,
	.offset = BREAKER(slow_call_rate_threshold),
	.max = 100,
	.above_min = true},
    {.name = "slow-call-duration-threshold-ms", .type = &rea__type_ms, .offset = BREAKER(slow_call_duration_ns), .min = 1, .max = HOUR_MS},
    {.name = "sliding-window-type", .type = &rea__type_choice, .offset = BREAKER(window_type), .choices = window_choices},
    {.name = "sliding-window-size", .type = &rea__type_u32, .offset = BREAKER(window_size), .min = 1, .max = 10000},
    {.name = "minimum-number-of-calls", .type = &rea__type_u32, .offset = BREAKER(minimum_calls), .min = 1, .max = 1000000},
    {.name = "wait-duration-in-open-state-ms", .type = &rea__type_ms, .offset = BREAKER(wait_in_open_ns), .min = 1, .max = HOUR_MS},
    {.name = "permitted-number-of-calls-in-half-open-state",
	.type = &rea__type_u32,
	.offset = BREAKER(permitted_in_half_open),
	.min = 1,
	.max = 1000},
    {.name = "max-wait-duration-in-half-open-state-ms",
	.type = &rea__type_ms,
	.offset = BREAKER(max_wait_in_half_open_ns),
	.max = HOUR_MS},
};
const struct rea__block rea__breaker_block = {"breaker", FIELDS(breaker_fields), REA__NO_LINES};

/* `off`, or a mapping. */
static int read_breaker(
    struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	struct rea_slice text = node->kind == REA__SCALAR ? rea__node_text(node) : rea_slice_make(NULL, 0);
	bool off =
	    rea_slice_equal_nocase(text, REA_SLICE_LIT("false")) || rea_slice_equal_nocase(text, REA_SLICE_LIT("off"));

	(void)field;
	if (!off && node->kind != REA__MAPPING)
		return rea__refuse_value(
		    reader, node, "off, or a mapping such as {enabled: true, failure-rate-threshold: 50}", "");
	memcpy(ret_value, &rea__policy_default_values()->breaker, sizeof(struct rea_breaker_policy));
	return off ? 0 : rea__block_read(reader, node, &rea__breaker_block, ret_value, NULL);
}

static void format_breaker(const struct rea__field *field, const void *value, struct rea_format *text)
{
	const struct rea_breaker_policy *breaker = value;

	(void)field;
	if (breaker->enabled)
		format_fields(&rea__breaker_block, ALL_FIELDS, value, text);
	else
		rea_format_text(text, "off");
}

static const struct rea__type type_breaker = {read_breaker, format_breaker};

/* ------------------------------------------------------------------ the policy */

#define POLICY(member) offsetof(struct rea_policy, member)

static const struct rea__choice never_sent_choices[] = {
    {"strict", REA_NEVER_SENT_STRICT}, {"allow", REA_NEVER_SENT_ALLOW}, {NULL, 0}};
static const struct rea__choice all_tried_choices[] = {
    {"stop", REA_ALL_TRIED_STOP}, {"cycle", REA_ALL_TRIED_CYCLE}, {NULL, 0}};
static const struct rea__choice mode_choices[] = {{"enforce", REA_MODE_ENFORCE}, {"observe", REA_MODE_OBSERVE}, {NULL, 0}};

/* Bounds that depend on other keys, or on the profile, are rea_policy_validate's. */
static const struct rea__field policy_fields[REA__POLICY_FIELDS] = {
    [REA_POLICY_ENABLED] = {.name = "enabled", .type = &rea__type_bool, .offset = POLICY(enabled)},
    [REA_POLICY_MAX_RETRY_SAME_INSTANCE] = {.name = "max-retry-same-instance",
	.type = &rea__type_u32,
	.offset = POLICY(max_retry_same_instance),
	.max = REA_ATTEMPTS_MAX - 1,
	.note = "a call makes at most 10 attempts in all"},
    [REA_POLICY_MAX_RETRY_NEXT_INSTANCE] = {.name = "max-retry-next-instance",
	.type = &rea__type_u32,
	.offset = POLICY(max_retry_next_instance),
	.max = REA_ATTEMPTS_MAX - 1,
	.note = "a call makes at most 10 attempts in all"},
    [REA_POLICY_MIN_BACKOFF] = {.name = "min-backoff-ms", .type = &rea__type_ms, .offset = POLICY(min_backoff_ns), .max = HOUR_MS},
    [REA_POLICY_MAX_BACKOFF] = {.name = "max-backoff-ms", .type = &rea__type_ms, .offset = POLICY(max_backoff_ns), .max = HOUR_MS},
    [REA_POLICY_BACKOFF_MULTIPLIER] = {.name = "backoff-multiplier",
	.type = &rea__type_double,
	.offset = POLICY(backoff_multiplier),
	.min = 1,
	.max = 1000},
    [REA_POLICY_JITTER] = {.name = "jitter",
	.type = &rea__type_double,
	.offset = POLICY(jitter),
	.max = 1,
	.above_min = true,
	.note = "it is a share of the wait, and cannot be turned off"},
    [REA_POLICY_ATTEMPT_TIMEOUT] = {.name = "attempt-timeout-ms",
	.type = &rea__type_ms,
	.offset = POLICY(attempt_timeout_ns),
	.min = 1,
	.max = HOUR_MS},
    [REA_POLICY_DEADLINE] = {.name = "deadline-ms", .type = &rea__type_ms, .offset = POLICY(deadline_ns), .min = 1, .max = HOUR_MS},
    [REA_POLICY_RETRY_ON] = {.name = "retry-on", .type = &type_retry_on, .offset = POLICY(retry_on)},
    [REA_POLICY_NEVER_SENT] = {.name = "never-sent", .type = &rea__type_choice, .offset = POLICY(never_sent), .choices = never_sent_choices},
    [REA_POLICY_WHEN_ALL_TRIED] = {.name = "when-all-tried",
	.type = &rea__type_choice,
	.offset = POLICY(when_all_tried),
	.choices = all_tried_choices},
    [REA_POLICY_MODE] = {.name = "mode", .type = &rea__type_choice, .offset = POLICY(mode), .choices = mode_choices},
    [REA_POLICY_CLASSIFY] = {.name = "classify", .type = &type_classify},
    [REA_POLICY_BUDGET] = {.name = "budget", .type = &type_budget, .offset = POLICY(budget)},
    [REA_POLICY_BREAKER] = {.name = "breaker", .type = &type_breaker, .offset = POLICY(breaker)},
    [REA_POLICY_CHAIN_STOP] = {.name = "chain-stop", .type = &rea__type_bool, .offset = POLICY(chain_stop)},
    [REA_POLICY_REPLAY_LIMIT] = {.name = "replay-limit-bytes",
	.type = &rea__type_u32,
	.offset = POLICY(replay_limit_bytes),
	.max = REA_POLICY_REPLAY_BYTES_MAX},
    [REA__FIELD_PROFILE] = {.name = "profile", .type = &rea__type_node, .offset = offsetof(struct rea__policy_reading, profile)},
    [REA__FIELD_SERVICE_CONFIGS] = {.name = "service-configs",
	.type = &rea__type_node,
	.offset = offsetof(struct rea__policy_reading, service_configs)},
    [REA__FIELD_METHOD_CONFIGS] = {.name = "method-configs",
	.type = &rea__type_node,
	.offset = offsetof(struct rea__policy_reading, method_configs)},
};
const struct rea__block rea__policy_block = {"a retry policy", policy_fields, REA__POLICY_FIELDS, REA__NO_LINES};

_Static_assert(REA_POLICY_JITTER_KIND == REA_POLICY_KEY_COUNT - 1,
    "the jitter kind is the last key, and the one that no document writes");
_Static_assert(REA__POLICY_FIELDS <= REA__BLOCK_FIELDS_MAX, "room for every key of a policy");

/* ------------------------------------------------------------------ the keys of a task's policy */

#define MONTH_MS 2592000000.0

/* Attempts in all, where a call's keys count moves: under `cycle` every attempt after the first is one. */
static int read_attempts(
    struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	uint32_t attempts;
	int error = rea__type_u32.read(reader, node, field, &attempts);

	if (error == 0)
		*(uint32_t *)ret_value = attempts - 1;
	return error;
}

static void format_attempts(const struct rea__field *field, const void *value, struct rea_format *text)
{
	(void)field;
	rea_format_u64(text, (uint64_t) * (const uint32_t *)value + 1);
}

static const struct rea__type type_attempts = {read_attempts, format_attempts};

static const struct rea__field task_policy_fields[REA__TASK_POLICY_FIELDS] = {
    {.name = "max-attempts", .type = &type_attempts, .offset = POLICY(max_retry_next_instance), .min = 1, .max = REA_TASK_ATTEMPTS_MAX},
    {.name = "min-backoff-ms", .type = &rea__type_ms, .offset = POLICY(min_backoff_ns), .max = MONTH_MS},
    {.name = "max-backoff-ms", .type = &rea__type_ms, .offset = POLICY(max_backoff_ns), .max = MONTH_MS},
    {.name = "backoff-multiplier", .type = &rea__type_double, .offset = POLICY(backoff_multiplier), .min = 1, .max = 100},
    {.name = "jitter", .type = &rea__type_double, .offset = POLICY(jitter), .max = 1, .above_min = true, .note = "there is no way to turn jitter off"},
    {.name = "attempt-timeout-ms", .type = &rea__type_ms, .offset = POLICY(attempt_timeout_ns), .min = 1, .max = HOUR_MS},
    {.name = "deadline-ms", .type = &rea__type_ms, .offset = POLICY(deadline_ns), .min = 1, .max = MONTH_MS},
    {.name = "retry-on", .type = &type_retry_on, .offset = POLICY(retry_on)},
    {.name = "never-sent", .type = &rea__type_choice, .offset = POLICY(never_sent), .choices = never_sent_choices},
    {.name = "classify", .type = &type_classify},
};
const struct rea__block rea__task_policy_block = {"the policy of tasks", FIELDS(task_policy_fields), REA__NO_LINES};

const enum rea_policy_key rea__task_policy_keys[REA__TASK_POLICY_FIELDS] = {REA_POLICY_MAX_RETRY_NEXT_INSTANCE,
    REA_POLICY_MIN_BACKOFF, REA_POLICY_MAX_BACKOFF, REA_POLICY_BACKOFF_MULTIPLIER, REA_POLICY_JITTER,
    REA_POLICY_ATTEMPT_TIMEOUT, REA_POLICY_DEADLINE, REA_POLICY_RETRY_ON, REA_POLICY_NEVER_SENT, REA_POLICY_CLASSIFY};
