/*
 * What a caller configures: defaults, profiles, layers, bounds. Guarantee: a policy that rea_policy_validate accepts leads to at most
 * REA_ATTEMPTS_MAX attempts, to waits that are never zero and always jittered, and to a deadline that always comes.
 */
#include <rea/policy.h>

#include "base/bounds.h"
#include "core/internal.h"

#include <rea/time.h>

#include <float.h>
#include <string.h>

#define KEY_BIT(key) (UINT32_C(1) << REA_POLICY_##key)
#define ALL_KEYS ((UINT32_C(1) << REA_POLICY_KEY_COUNT) - 1)
#define MS(ms) (UINT64_C(ms) * REA_NS_PER_MS)

#define BUDGET_DEFAULTS                                                                                      \
	{                                                                                                    \
		.rule = REA_BUDGET_EVIDENCE, .ratio_permille = 200, .reserve_per_s = 10, .window_ms = 10000, \
		.max_tokens = 10, .token_ratio_permille = 100, .capacity = 500, .cost_transient = 14,        \
		.cost_timeout = 14, .cost_throttling = 5,                                                    \
	}

/* The one place where the defaults stand. What is not named is off, 0 or the first value of its enum. */
#define POLICY_DEFAULTS                                                                                         \
	{                                                                                                       \
		.max_retry_next_instance = 1, .min_backoff_ns = MS(100), .max_backoff_ns = MS(1000),            \
		.backoff_multiplier = 2.0, .jitter = 0.2, .jitter_kind = REA_JITTER_SYMMETRIC,                  \
		.backoff_floor_ns = REA_POLICY_BACKOFF_NS_MIN, .attempt_timeout_ns = MS(1000),                  \
		.deadline_ns = MS(3000), .retry_on = REA_RETRY_ON_DEFAULT, .never_sent = REA_NEVER_SENT_STRICT, \
		.when_all_tried = REA_ALL_TRIED_STOP, .mode = REA_MODE_ENFORCE, .chain_stop = true,             \
		.replay_limit_bytes = UINT32_C(64) << 10, .budget = BUDGET_DEFAULTS,                            \
		.breaker = {                                                                                    \
		    .failure_rate_threshold = 50,                                                               \
		    .slow_call_rate_threshold = 100,                                                            \
		    .slow_call_duration_ns = MS(60000),                                                         \
		    .window_type = REA_BREAKER_COUNT_BASED,                                                     \
		    .window_size = 100,                                                                         \
		    .minimum_calls = 100,                                                                       \
		    .wait_in_open_ns = MS(60000),                                                               \
		    .permitted_in_half_open = 10,                                                               \
		},                                                                                              \
	}

void rea_policy_defaults(struct rea_policy *policy)
{
	*policy = (struct rea_policy)POLICY_DEFAULTS;
}

void rea_policy_task_defaults(struct rea_policy *policy)
{
	rea_policy_defaults(policy);
	policy->enabled = true;
	policy->max_retry_next_instance = 2;
	policy->min_backoff_ns = MS(200);
	policy->max_backoff_ns = MS(10000);
	policy->backoff_multiplier = 1.5;
	policy->deadline_ns = MS(24 * 3600 * 1000);
	policy->retry_on = REA_OUTCOME_BIT(REA_OUTCOME_NEVER_SENT) | REA_OUTCOME_BIT(REA_OUTCOME_UNAVAILABLE) |
			   REA_OUTCOME_BIT(REA_OUTCOME_AMBIGUOUS);
	policy->when_all_tried = REA_ALL_TRIED_CYCLE;
}

static const struct rea_policy_layer conservative = {.set = ALL_KEYS & ~KEY_BIT(ENABLED), .values = POLICY_DEFAULTS};

static const struct rea_policy_layer adaptive = {
    .set = KEY_BIT(MAX_RETRY_SAME_INSTANCE) | KEY_BIT(MAX_RETRY_NEXT_INSTANCE) | KEY_BIT(MIN_BACKOFF) | KEY_BIT(MAX_BACKOFF) |
	   KEY_BIT(BACKOFF_MULTIPLIER) | KEY_BIT(JITTER_KIND) | KEY_BIT(WHEN_ALL_TRIED) | KEY_BIT(BUDGET),
    .values = {.max_retry_next_instance = REA_ATTEMPTS_MAX - 1,
	.min_backoff_ns = MS(20),
	.max_backoff_ns = MS(250),
	.backoff_multiplier = 1.2,
	.jitter_kind = REA_JITTER_FULL,
	.backoff_floor_ns = REA_POLICY_BACKOFF_NS_MIN_ADAPTIVE,
	.budget = BUDGET_DEFAULTS,
	.when_all_tried = REA_ALL_TRIED_CYCLE},
};

static const struct rea_policy_layer connect_only = {
    .set = KEY_BIT(RETRY_ON),
    .values = {.retry_on = REA_OUTCOME_BIT(REA_OUTCOME_NEVER_SENT)},
};

const struct rea_policy_layer *rea_policy_profile(const char *name, size_t length)
{
	static const struct {
		const char *name;
		const struct rea_policy_layer *layer;
	} profiles[] = {{"conservative", &conservative}, {"adaptive", &adaptive}, {"connect-only", &connect_only}};

	for (size_t i = 0; i < sizeof(profiles) / sizeof(profiles[0]); i++)
		if (strlen(profiles[i].name) == length && memcmp(profiles[i].name, name, length) == 0)
			return profiles[i].layer;
	return NULL;
}

static void take_classify(struct rea_policy *policy, const struct rea_policy *values)
{
	policy->classify_len = values->classify_len;
	memcpy(policy->classify, values->classify, sizeof(policy->classify));
}

static void apply_layer(struct rea_policy *policy, const struct rea_policy_layer *layer)
{
	const struct rea_policy *values = &layer->values;

#define TAKE(KEY, member)              \
	if (layer->set & KEY_BIT(KEY)) \
	policy->member = values->member
	TAKE(ENABLED, enabled);
	TAKE(MAX_RETRY_SAME_INSTANCE, max_retry_same_instance);
	TAKE(MAX_RETRY_NEXT_INSTANCE, max_retry_next_instance);
	TAKE(MIN_BACKOFF, min_backoff_ns);
	TAKE(MAX_BACKOFF, max_backoff_ns);
	TAKE(BACKOFF_MULTIPLIER, backoff_multiplier);
	TAKE(JITTER, jitter);
	TAKE(ATTEMPT_TIMEOUT, attempt_timeout_ns);
	TAKE(DEADLINE, deadline_ns);
	TAKE(RETRY_ON, retry_on);
	TAKE(NEVER_SENT, never_sent);
	TAKE(WHEN_ALL_TRIED, when_all_tried);
	TAKE(MODE, mode);
	TAKE(BUDGET, budget);
	TAKE(BREAKER, breaker);
	TAKE(CHAIN_STOP, chain_stop);
	TAKE(REPLAY_LIMIT, replay_limit_bytes);
	TAKE(JITTER_KIND, jitter_kind);
	TAKE(JITTER_KIND, backoff_floor_ns);
#undef TAKE
	if (layer->set & KEY_BIT(CLASSIFY))
		take_classify(policy, values);
}

void rea_policy_merge(
    const struct rea_policy_layer *const *layers, size_t layers_len, size_t global_index, struct rea_policy *ret_policy)
{
	rea_policy_defaults(ret_policy);
	for (size_t i = 0; i < layers_len; i++)
		if (layers[i] != NULL)
			apply_layer(ret_policy, layers[i]);
	if (global_index < layers_len && layers[global_index] != NULL &&
	    (layers[global_index]->set & KEY_BIT(ENABLED)) && !layers[global_index]->values.enabled)
		ret_policy->enabled = false;
}

uint32_t rea_policy_attempts(const struct rea_policy *policy)
{
	return rea__policy_attempts(policy);
}

void rea_policy_backoff(const struct rea_policy *policy, struct rea_backoff *ret_backoff)
{
	*ret_backoff = (struct rea_backoff){
	    .base_ns = policy->min_backoff_ns,
	    .cap_ns = policy->max_backoff_ns,
	    .multiplier = policy->backoff_multiplier,
	    .ratio = policy->jitter,
	    .floor_ns = policy->backoff_floor_ns,
	    .jitter = policy->jitter_kind,
	};
}

/* ---- bounds ---- */

static const char *key_name(enum rea_policy_key key)
{
	static const char *const names[] = {
#define X(name, bit, text) [bit] = text,
	    REA_POLICY_KEY_MAP(X)
#undef X
	};

	return names[key];
}
#define KEY(name) key_name(REA_POLICY_##name)

static double to_ms(uint64_t ns)
{
	return (double)ns / (double)REA_NS_PER_MS;
}

/* What is not the same for a call and a task. */
struct limits {
	uint32_t attempts_max;
	uint64_t deadline_ns_max;
};

/* A document can only name a choice that exists; a program can store any number. */
static int check_choices(const struct rea_policy *p, struct rea_error_info *info)
{
	const struct rea__bound bounds[] = {
	    {KEY(JITTER_KIND), "the kind of jitter", p->jitter_kind, 0, REA_JITTER_FULL, false, NULL},
	    {KEY(NEVER_SENT), "never-sent", p->never_sent, 0, REA_NEVER_SENT_ALLOW, false, NULL},
	    {KEY(WHEN_ALL_TRIED), "when-all-tried", p->when_all_tried, 0, REA_ALL_TRIED_CYCLE, false, NULL},
	    {KEY(MODE), "mode", p->mode, 0, REA_MODE_OBSERVE, false, NULL},
	};

	return rea__check_bounds(bounds, sizeof(bounds) / sizeof(bounds[0]), info);
}

REA__COLD static int check_numbers(const struct rea_policy *p, const struct limits *limits, struct rea_error_info *info)
{
	bool many = rea_policy_attempts(p) > REA_ATTEMPTS_MAX;
	uint64_t backoff_min_ns =
	    many ? rea_time_max(p->backoff_floor_ns, REA_TASK_MANY_BACKOFF_NS_MIN) : p->backoff_floor_ns;
	double floor_ms =
	    to_ms(p->jitter_kind == REA_JITTER_FULL ? REA_POLICY_BACKOFF_NS_MIN_ADAPTIVE : REA_POLICY_BACKOFF_NS_MIN);
	const struct rea__bound bounds[] = {
	    {KEY(MAX_RETRY_NEXT_INSTANCE),
		p->when_all_tried == REA_ALL_TRIED_CYCLE
		    ? "the number of attempts, 1 + max-retry-next-instance,"
		    : "the number of attempts, (1 + max-retry-same-instance) * (1 + max-retry-next-instance),",
		rea_policy_attempts(p), 1, limits->attempts_max, false, NULL},
	    {KEY(JITTER_KIND), "the floor of the backoff in ms", to_ms(p->backoff_floor_ns), floor_ms, DBL_MAX, false, NULL},
	    {KEY(MIN_BACKOFF), "min-backoff-ms", to_ms(p->min_backoff_ns), to_ms(backoff_min_ns), DBL_MAX, false,
		many ? "with more than 10 attempts" : "the smallest backoff of the profile"},
	    {KEY(MAX_BACKOFF), "max-backoff-ms", to_ms(p->max_backoff_ns), to_ms(p->min_backoff_ns), DBL_MAX, false,
		"min-backoff-ms"},
	    {KEY(BACKOFF_MULTIPLIER), "backoff-multiplier", p->backoff_multiplier, 1, DBL_MAX, false, NULL},
	    {KEY(JITTER), "jitter", p->jitter, 0, 1, true, NULL},
	    {KEY(DEADLINE), "deadline-ms", to_ms(p->deadline_ns), 0, to_ms(limits->deadline_ns_max), true, NULL},
	    {KEY(ATTEMPT_TIMEOUT), "attempt-timeout-ms", to_ms(p->attempt_timeout_ns), 0, to_ms(p->deadline_ns), true,
		"deadline-ms"},
	    {KEY(REPLAY_LIMIT), "replay-limit-bytes", p->replay_limit_bytes, 0, REA_POLICY_REPLAY_BYTES_MAX, false, NULL},
	};

	return rea__check_bounds(bounds, sizeof(bounds) / sizeof(bounds[0]), info);
}

static int check_ratio_rule(const struct rea_budget_policy *b, struct rea_error_info *info)
{
	const struct rea__bound bounds[] = {
	    {KEY(BUDGET), "the budget's ratio", b->ratio_permille / 1000.0, 0, REA_BUDGET_RATIO_PERMILLE_MAX / 1000.0,
		false, NULL},
	    {KEY(BUDGET), "the budget's window in ms", b->window_ms, REA_BUDGET_WINDOW_MS_MIN, REA_BUDGET_WINDOW_MS_MAX,
		false, NULL},
	};

	return rea__check_bounds(bounds, sizeof(bounds) / sizeof(bounds[0]), info);
}

static int check_grpc_rule(const struct rea_budget_policy *b, struct rea_error_info *info)
{
	const struct rea__bound bounds[] = {
	    {KEY(BUDGET), "the budget's max-tokens", b->max_tokens, 1, REA_BUDGET_MAX_TOKENS_MAX, false, NULL},
	    {KEY(BUDGET), "the budget's token-ratio", b->token_ratio_permille / 1000.0, 0.001,
		REA_BUDGET_TOKEN_RATIO_PERMILLE_MAX / 1000.0, false, NULL},
	};

	return rea__check_bounds(bounds, sizeof(bounds) / sizeof(bounds[0]), info);
}

static int check_aws_rule(const struct rea_budget_policy *b, struct rea_error_info *info)
{
	const char *note = "capacity";
	const struct rea__bound bounds[] = {
	    {KEY(BUDGET), "the budget's capacity", b->capacity, 1, REA_BUDGET_CAPACITY_MAX, false, NULL},
	    {KEY(BUDGET), "the budget's cost-transient", b->cost_transient, 1, b->capacity, false, note},
	    {KEY(BUDGET), "the budget's cost-timeout", b->cost_timeout, 1, b->capacity, false, note},
	    {KEY(BUDGET), "the budget's cost-throttling", b->cost_throttling, 1, b->capacity, false, note},
	};

	return rea__check_bounds(bounds, sizeof(bounds) / sizeof(bounds[0]), info);
}

REA__COLD int rea_budget_policy_validate(const struct rea_budget_policy *policy, struct rea_error_info *ret_info)
{
	struct rea_format text;

	switch (policy->rule) {
	case REA_BUDGET_RATIO:
		return check_ratio_rule(policy, ret_info);
	case REA_BUDGET_GRPC:
		return check_grpc_rule(policy, ret_info);
	case REA_BUDGET_AWS:
		return check_aws_rule(policy, ret_info);
	case REA_BUDGET_EVIDENCE:
		return 0;
	}
	text = rea__begin_refusal(ret_info, KEY(BUDGET));
	rea_format_text(&text, "the budget's rule is ");
	rea_format_u64(&text, policy->rule);
	rea_format_text(&text, "; it must be evidence, ratio, grpc or aws");
	return REA_ERR_INVALID;
}

REA__COLD int rea_breaker_policy_validate(const struct rea_breaker_policy *policy, struct rea_error_info *ret_info)
{
	const char *key = KEY(BREAKER);
	bool timed = policy->window_type == REA_BREAKER_TIME_BASED;
	const struct rea__bound bounds[] = {
	    {key, "the breaker's window type", policy->window_type, 0, REA_BREAKER_TIME_BASED, false, NULL},
	    {key, "the breaker's failure rate threshold", policy->failure_rate_threshold, 0, 100, true, NULL},
	    {key, "the breaker's slow call rate threshold", policy->slow_call_rate_threshold, 0, 100, true, NULL},
	    {key, "the breaker's slow call duration in ms", to_ms(policy->slow_call_duration_ns), 0, DBL_MAX, true, NULL},
	    {key, timed ? "the breaker's window in seconds" : "the breaker's window in calls", policy->window_size, 1,
		timed ? 3600 : 10000, false, NULL},
	    {key, "the breaker's minimum number of calls", policy->minimum_calls, 1, DBL_MAX, false, NULL},
	    {key, "the breaker's wait in the open state in ms", to_ms(policy->wait_in_open_ns), 0, DBL_MAX, true, NULL},
	    {key, "the breaker's permitted calls in the half-open state", policy->permitted_in_half_open, 1, 1000, false, NULL},
	};

	return rea__check_bounds(bounds, sizeof(bounds) / sizeof(bounds[0]), ret_info);
}

static int check_retry_on(uint32_t retry_on, struct rea_error_info *info)
{
	const uint32_t final_bits = REA_OUTCOME_BIT(REA_OUTCOME_OK) | REA_OUTCOME_BIT(REA_OUTCOME_PERMANENT) |
				    REA_OUTCOME_BIT(REA_OUTCOME_CANCELLED);

	for (uint32_t i = 0; i < 32; i++) {
		struct rea_format text;

		if (!(retry_on & (UINT32_C(1) << i)) || (i < REA_OUTCOME_COUNT && !(final_bits & (UINT32_C(1) << i))))
			continue;
		text = rea__begin_refusal(info, KEY(RETRY_ON));
		rea_format_text(&text, "retry-on names ");
		rea_format_text(&text, rea_outcome_name((enum rea_outcome)i));
		rea_format_text(&text, ", which is never retried; it may name never_sent, pushback, throttled, "
				       "unavailable, ambiguous and failed");
		return REA_ERR_INVALID;
	}
	return 0;
}

static bool classify_rule_is_valid(const struct rea_classify_rule *rule)
{
	bool code_exists = rule->kind == REA_CODE_HTTP ? rule->code >= 100 && rule->code <= 599
						       : rule->kind == REA_CODE_GRPC && rule->code <= 16;

	return code_exists && rule->outcome < REA_OUTCOME_CANCELLED;
}

static int check_classify(const struct rea_policy *policy, struct rea_error_info *info)
{
	const struct rea__bound count = {KEY(CLASSIFY), "the number of codes in classify", (double)policy->classify_len,
	    0, REA_CLASSIFY_RULES_MAX, false, NULL};

	if (rea__check_bounds(&count, 1, info) != 0)
		return REA_ERR_INVALID;
	for (size_t i = 0; i < policy->classify_len; i++) {
		const struct rea_classify_rule *rule = &policy->classify[i];
		struct rea_format text;

		if (classify_rule_is_valid(rule))
			continue;
		text = rea__begin_refusal(info, KEY(CLASSIFY));
		rea_format_text(&text, "classify maps ");
		rea_format_u64(&text, rule->code);
		rea_format_text(&text, " to ");
		rea_format_text(&text, rea_outcome_name(rule->outcome));
		rea_format_text(
		    &text, "; it maps an HTTP status 100 to 599 or a gRPC status 0 to 16 to any class but cancelled");
		return REA_ERR_INVALID;
	}
	return 0;
}

REA__COLD static int validate(const struct rea_policy *policy, const struct limits *limits, struct rea_error_info *ret_info)
{
	int error = check_choices(policy, ret_info);

	if (error == 0)
		error = check_numbers(policy, limits, ret_info);
	if (error == 0)
		error = check_retry_on(policy->retry_on, ret_info);
	if (error == 0)
		error = check_classify(policy, ret_info);
	if (error == 0)
		error = rea_budget_policy_validate(&policy->budget, ret_info);
	if (error == 0)
		error = rea_breaker_policy_validate(&policy->breaker, ret_info);
	return error;
}

int rea_policy_validate(const struct rea_policy *policy, struct rea_error_info *ret_info)
{
	static const struct limits limits = {REA_ATTEMPTS_MAX, REA_POLICY_DEADLINE_NS_MAX};

	return validate(policy, &limits, ret_info);
}

int rea_policy_validate_task(const struct rea_policy *policy, uint32_t attempts_max, struct rea_error_info *ret_info)
{
	struct limits limits = {attempts_max, REA_TASK_DEADLINE_NS_MAX};

	/* Each attempt at an instance that was not tried yet: so many are remembered. */
	if (policy->when_all_tried == REA_ALL_TRIED_STOP && attempts_max > REA_ATTEMPTS_MAX)
		limits.attempts_max = REA_ATTEMPTS_MAX;
	return validate(policy, &limits, ret_info);
}
