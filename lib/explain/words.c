/* What an object's numbers are called, in one place for every text that tells of it. */
#include "explain/words.h"

#include "core/budget.h"

#include <rea/event.h>

void rea__put(struct rea_format *out, const char *text)
{
	rea_format_text(out, text);
}

void rea__put_number(struct rea_format *out, const char *before, uint64_t value, const char *after)
{
	rea__put(out, before);
	rea_format_u64(out, value);
	rea__put(out, after);
}

void rea__put_double(struct rea_format *out, const char *before, double value, const char *after)
{
	rea__put(out, before);
	rea_format_double(out, value);
	rea__put(out, after);
}

void rea__put_ms(struct rea_format *out, const char *before, uint64_t ns, const char *after)
{
	rea__put_double(out, before, (double)ns / (double)REA_NS_PER_MS, after);
}

static void put_percent(struct rea_format *out, const char *before, double share)
{
	rea__put_number(out, before, (uint64_t)(share * 100 + 0.5), " %");
}

/* ---- limiters ---- */

void rea__explain_rate(struct rea_format *out, const struct rea_rate *rate, uint64_t now_ns)
{
	rea__put_ms(out, "a permit each ", rate->interval_ns, " ms");
	rea__put_number(out, ", bursts of ", rate->burst, "");
	rea__put_ms(out, "; the next permit in ", rea_rate_wait(rate, 1, now_ns), " ms");
}

void rea__explain_limiter(struct rea_format *out, const struct rea_limiter *limiter)
{
	rea__put_number(out, "", limiter->concurrent_max, " slots");
	rea__put_number(out, ", a line of ", limiter->waiting_max, "");
	rea__put_number(out, "; ", rea_limiter_in_use(limiter), " in use");
	rea__put_number(out, ", ", rea_limiter_waiting(limiter), " waiting");
}

static void explain_learning(struct rea_format *out, const struct rea_adaptive *adaptive)
{
	const struct rea_adaptive_options *options = &adaptive->options;

	switch (options->rule) {
	case REA_ADAPTIVE_GRADIENT2:
		rea__put_double(out, ", queue ", options->queue, "");
		rea__put_double(out, ", smoothing ", options->smoothing, "");
		rea__put_double(out, ", tolerance ", options->tolerance, "");
		rea__put_number(out, ", window ", options->window, " calls");
		if (adaptive->samples > 0)
			rea__put_ms(out, "; latency ", (uint64_t)adaptive->long_ns, " ms on average");
		return;
	case REA_ADAPTIVE_AIMD:
		rea__put_ms(out, ", dropped from ", options->latency_ns_max, " ms on");
		return;
	case REA_ADAPTIVE_VEGAS:
		if (adaptive->lowest_ns > 0)
			rea__put_ms(out, "; latency ", adaptive->lowest_ns, " ms at least");
		return;
	case REA_ADAPTIVE_RULE_COUNT:
		return;
	}
}

void rea__explain_adaptive(struct rea_format *out, const struct rea_adaptive *adaptive)
{
	const struct rea_adaptive_options *options = &adaptive->options;

	rea__put_number(out, "", rea_adaptive_limit(adaptive), " by ");
	rea__put(out, rea_adaptive_rule_name(options->rule));
	rea__put_number(out, " from ", options->limit_min, "");
	rea__put_number(out, " to ", options->limit_max, "");
	explain_learning(out, adaptive);
}

/* ---- breaker ---- */

void rea__explain_breaker_policy(struct rea_format *out, const struct rea_breaker_policy *policy)
{
	rea__put_double(out, "failures from ", policy->failure_rate_threshold, " %");
	rea__put_double(out, " or slow calls from ", policy->slow_call_rate_threshold, " %");
	rea__put_ms(out, " (slower than ", policy->slow_call_duration_ns, " ms)");
	rea__put_number(out, " of the last ", policy->window_size,
	    policy->window_type == REA_BREAKER_TIME_BASED ? " seconds" : " calls");
	rea__put_number(out, ", from ", policy->minimum_calls, " calls on");
	rea__put_ms(out, "; open for ", policy->wait_in_open_ns, " ms");
	rea__put_number(out, ", then ", policy->permitted_in_half_open, " calls");
	if (policy->max_wait_in_half_open_ns > 0)
		rea__put_ms(out, " within ", policy->max_wait_in_half_open_ns, " ms");
}

void rea__explain_breaker(struct rea_format *out, const struct rea__breaker_view *view)
{
	rea__explain_breaker_policy(out, view->policy);
	rea__put(out, "; ");
	rea__put(out, rea_breaker_state_name(view->state));
	if (view->state == REA_BREAKER_HALF_OPEN)
		rea__put_number(out, ", ", view->permits_left, " calls left");
	if (view->left_ns != REA_NEVER)
		rea__put_ms(out, ", for ", view->left_ns, " ms more");
	rea__put_number(out, ", calls seen ", view->calls, "");
	if (view->failure_rate >= 0) {
		rea__put_double(out, ", failing ", view->failure_rate, " %");
		rea__put_double(out, ", slow ", view->slow_call_rate, " %");
	}
}

/* ---- budget ---- */

void rea__explain_budget_policy(struct rea_format *out, const struct rea_budget_policy *policy)
{
	switch (policy->rule) {
	case REA_BUDGET_EVIDENCE:
		rea__put(out, "evidence, 1 for 10 first attempts and more while retries pay and do not hurt");
		return;
	case REA_BUDGET_RATIO:
		rea__put_double(out, "ratio, ", policy->ratio_permille / 1000.0, " of first attempts");
		rea__put_number(out, " and ", policy->reserve_per_s, " a second");
		rea__put_number(out, " in ", policy->window_ms, " ms");
		return;
	case REA_BUDGET_GRPC:
		rea__put_number(out, "grpc, ", policy->max_tokens, " tokens");
		rea__put_double(out, ", ", policy->token_ratio_permille / 1000.0, " back for a success");
		return;
	case REA_BUDGET_AWS:
		rea__put_number(out, "aws, ", policy->capacity, " tokens");
		rea__put_number(out, ", costs ", policy->cost_transient, " transient");
		rea__put_number(out, ", ", policy->cost_timeout, " timeout");
		rea__put_number(out, ", ", policy->cost_throttling, " throttling");
		return;
	}
}

void rea__explain_budget(struct rea_format *out, const struct rea_budget *budget, uint64_t now_ns)
{
	struct rea_budget_policy policy;

	rea__budget_policy(budget, &policy);
	rea__explain_budget_policy(out, &policy);
	rea__put_number(out, "; ", rea_budget_available(budget, now_ns), " retries left");
}

/* To the nearest tenth. */
static double tenths(double value)
{
	return (double)(uint64_t)(value * 10 + 0.5) / 10;
}

void rea__explain_evidence(struct rea_format *out, const char *indent, const struct rea_budget *budget, uint64_t now_ns)
{
	struct rea_budget_view view;
	char heat[REA_EVIDENCE_TEXT_MAX];

	rea_budget_look(budget, now_ns, &view);
	if (view.rule != REA_BUDGET_EVIDENCE)
		return;
	rea__put(out, indent);
	put_percent(out, "evidence: success ", view.success);
	put_percent(out, ", pushback ", view.pushback);
	/* Cut, never rounded up: what is less than one must not read as one. */
	rea__put_double(out, ", tokens ", (double)(uint64_t)(view.tokens * 10 + 1e-6) / 10, "");
	if (view.baseline_ns > 0) {
		rea__put_double(out, ", latency ", tenths(view.latency_ns / view.baseline_ns), "x baseline");
		rea__put_double(out, " of ", tenths(view.baseline_ns / (double)REA_NS_PER_MS), " ms");
		rea__put_double(out, ", too much from ", tenths(view.latency_ratio_max), "x on");
	}
	if (view.congested_ns > 0) {
		rea_evidence_format(&view.heat, heat, sizeof(heat));
		rea__put(out, ", congested: ");
		rea__put(out, heat);
		rea__put_ms(out, ", for ", view.congested_ns, " ms more");
	}
	rea__put_number(out, "; in 2 s first attempts ", view.first_attempts, "");
	rea__put_number(out, ", retries ", view.retries, "");
	rea__put_number(out, ", outcomes ", view.outcomes, "");
	rea__put_number(out, ", timeouts ", view.timeouts, "\n");
}

void rea__explain_retry_limit(struct rea_format *out, const struct rea_retry_limit *limit)
{
	rea__put_number(out, "", rea_retry_limit_in_use(limit), "");
	rea__put_number(out, " of ", rea_retry_limit_max(limit), "");
}

/* ---- policy ---- */

static void explain_attempts(struct rea_format *out, const struct rea_policy *policy)
{
	const char *separator = ", on ";

	rea__put_number(out, "attempts: ", rea_policy_attempts(policy), "");
	rea__put_number(out, " (retries: ", rea_policy_attempts(policy) - 1, ")");
	rea__put(out, policy->enabled ? "" : ", but retries are not enabled");
	rea__put(out, policy->mode == REA_MODE_OBSERVE ? ", observed only" : "");
	for (unsigned i = 0; i < REA_OUTCOME_COUNT; i++) {
		if (!(policy->retry_on & REA_OUTCOME_BIT(i)))
			continue;
		rea__put(out, separator);
		rea__put(out, rea_outcome_name((enum rea_outcome)i));
		separator = ", ";
	}
}

static void explain_instances(struct rea_format *out, const struct rea_policy *policy)
{
	rea__put_number(out, "instances: retries at the same ", policy->max_retry_same_instance, "");
	rea__put_number(out, ", moves to another ", policy->max_retry_next_instance, "");
	rea__put(out, policy->when_all_tried == REA_ALL_TRIED_CYCLE ? ", round and round" : ", each tried once");
}

static void explain_permission(struct rea_format *out, const struct rea_policy *policy)
{
	rea__put(out, "permission: each call brings its own");
	rea__put(out, policy->never_sent == REA_NEVER_SENT_ALLOW ? "; what was never sent needs none" : "");
	rea__put(out, policy->chain_stop ? "; none within a retry of a layer above" : "");
}

static void explain_backoff(struct rea_format *out, const struct rea_policy *policy)
{
	rea__put_ms(out, "backoff: ", policy->min_backoff_ns, " ms");
	rea__put_double(out, " x ", policy->backoff_multiplier, "");
	rea__put_ms(out, " up to ", policy->max_backoff_ns, " ms, ");
	if (policy->jitter_kind == REA_JITTER_FULL)
		rea__put(out, "full jitter");
	else
		rea__put_double(out, "jitter ", policy->jitter, "");
	rea__put_ms(out, ", never below ", policy->backoff_floor_ns, " ms");
}

static void explain_classify(struct rea_format *out, const char *indent, const struct rea_policy *policy)
{
	for (size_t i = 0; i < policy->classify_len; i++) {
		const struct rea_classify_rule *rule = &policy->classify[i];

		rea__put(out, i == 0 ? indent : ", ");
		rea__put(out, i == 0 ? "codes: " : "");
		rea__put_number(out, rule->kind == REA_CODE_GRPC ? "grpc " : "http ", rule->code, " is ");
		rea__put(out, rea_outcome_name(rule->outcome));
	}
	rea__put(out, policy->classify_len > 0 ? "\n" : "");
}

void rea__explain_call(struct rea_format *out, const char *indent, const struct rea_policy *policy)
{
	rea__put(out, indent);
	explain_attempts(out, policy);
	rea__put(out, "\n");
	rea__put(out, indent);
	explain_instances(out, policy);
	rea__put(out, "\n");
	rea__put(out, indent);
	explain_permission(out, policy);
	rea__put(out, "\n");
	rea__put(out, indent);
	rea__put_ms(out, "deadline: ", policy->deadline_ns, " ms");
	rea__put_ms(out, ", of an attempt ", policy->attempt_timeout_ns, " ms\n");
	rea__put(out, indent);
	explain_backoff(out, policy);
	rea__put(out, "\n");
	rea__put(out, indent);
	rea__put_number(out, "replay: bodies of at most ", policy->replay_limit_bytes, " bytes\n");
	explain_classify(out, indent, policy);
}
