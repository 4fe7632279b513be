/* A guard in words: the order of its stages, each number that holds, and what is left of it now. */
#include "guard/internal.h"

#include "base/format.h"

#include <rea/time.h>

/* ---- words ---- */

static void put(struct rea_format *out, const char *text)
{
	rea_format_text(out, text);
}

static void put_number(struct rea_format *out, const char *before, uint64_t value, const char *after)
{
	put(out, before);
	rea_format_u64(out, value);
	put(out, after);
}

static void put_double(struct rea_format *out, const char *before, double value, const char *after)
{
	put(out, before);
	rea_format_double(out, value);
	put(out, after);
}

static void put_ms(struct rea_format *out, const char *before, uint64_t ns, const char *after)
{
	put_double(out, before, (double)ns / (double)REA_NS_PER_MS, after);
}

/* ---- the stages ---- */

static void explain_rate(struct rea_format *out, struct rea_guard *guard, uint64_t now_ns)
{
	const struct rea_rate_options *rate = &guard->options.rate;
	uint64_t wait_ns;

	put(out, "1 rate limiter: ");
	if (!guard->options.rate_on) {
		put(out, "off\n");
		return;
	}
	pthread_mutex_lock(&guard->rate_lock);
	wait_ns = rea_rate_wait(&guard->rate, 1, now_ns);
	pthread_mutex_unlock(&guard->rate_lock);
	put_number(out, "", rate->permits, "");
	put_ms(out, " in ", rate->period_ns, " ms");
	put_number(out, ", bursts of ", rate->burst, "");
	put_ms(out, ", waits at most ", guard->options.rate_wait_ns, " ms");
	put_ms(out, "; the next permit in ", wait_ns, " ms\n");
}

static void explain_adaptive(struct rea_format *out, const struct rea_guard *guard)
{
	const struct rea_adaptive_options *adaptive = &guard->options.adaptive;

	if (!guard->options.adaptive_on)
		return;
	put(out, ", adaptive by ");
	put(out, rea_adaptive_rule_name(adaptive->rule));
	put_number(out, " from ", adaptive->limit_min, "");
	put_number(out, " to ", adaptive->limit_max, "");
}

static void explain_limiter(struct rea_format *out, struct rea_guard *guard)
{
	uint32_t in_use, waiting, slots;

	put(out, "2 concurrency limiter: ");
	if (!guard->options.limiter_on) {
		put(out, "off\n");
		return;
	}
	pthread_mutex_lock(&guard->limiter_lock);
	in_use = rea_limiter_in_use(&guard->limiter);
	waiting = rea_limiter_waiting(&guard->limiter);
	slots = guard->limiter.concurrent_max;
	pthread_mutex_unlock(&guard->limiter_lock);
	put_number(out, "", slots, " slots");
	explain_adaptive(out, guard);
	put_number(out, ", a line of ", guard->options.limiter.waiting_max, "");
	put_ms(out, ", waits at most ", guard->options.limiter_wait_ns, " ms");
	put_number(out, "; ", in_use, " in use");
	put_number(out, ", ", waiting, " waiting\n");
}

static void explain_window(struct rea_format *out, const struct rea_breaker_policy *policy)
{
	put_double(out, "failures from ", policy->failure_rate_threshold, " %");
	put_double(out, " or slow calls from ", policy->slow_call_rate_threshold, " %");
	put_ms(out, " (slower than ", policy->slow_call_duration_ns, " ms)");
	put_number(out, " of the last ", policy->window_size,
	    policy->window_type == REA_BREAKER_TIME_BASED ? " seconds" : " calls");
	put_number(out, ", from ", policy->minimum_calls, " calls on");
}

static void explain_breaker(struct rea_format *out, struct rea_guard *guard, uint64_t now_ns)
{
	const struct rea_breaker_policy *policy = &guard->options.policy.breaker;
	double rate;

	put(out, "3 circuit breaker: ");
	if (guard->breaker == NULL) {
		put(out, "off\n");
		return;
	}
	explain_window(out, policy);
	put_ms(out, "; open for ", policy->wait_in_open_ns, " ms");
	put_number(out, ", then ", policy->permitted_in_half_open, " calls");
	if (policy->max_wait_in_half_open_ns > 0)
		put_ms(out, " within ", policy->max_wait_in_half_open_ns, " ms");
	put(out, "; ");
	put(out, rea_breaker_state_name(rea_shared_breaker_state(guard->breaker)));
	rate = rea_shared_breaker_failure_rate(guard->breaker, now_ns);
	if (rate >= 0)
		put_double(out, ", failing ", rate, " %");
	put(out, "\n");
}

/* ---- the call ---- */

static void explain_retries(struct rea_format *out, const struct rea_policy *policy)
{
	const char *separator = ", on ";

	put_number(out, "  attempts: ", rea_policy_attempts(policy), "");
	put_number(out, " (retries: ", rea_policy_attempts(policy) - 1, ")");
	put(out, policy->enabled ? "" : ", but retries are not enabled");
	put(out, policy->mode == REA_MODE_OBSERVE ? ", observed only" : "");
	for (unsigned i = 0; i < REA_OUTCOME_COUNT; i++) {
		if (!(policy->retry_on & REA_OUTCOME_BIT(i)))
			continue;
		put(out, separator);
		put(out, rea_outcome_name((enum rea_outcome)i));
		separator = ", ";
	}
	put(out, "\n");
}

static void explain_permission(struct rea_format *out, const struct rea_policy *policy)
{
	put(out, "  permission: each call brings its own");
	put(out, policy->never_sent == REA_NEVER_SENT_ALLOW ? "; what was never sent needs none" : "");
	put(out, policy->chain_stop ? "; none within a retry of a layer above\n" : "\n");
}

static void explain_times(struct rea_format *out, const struct rea_policy *policy)
{
	put_ms(out, "  deadline: ", policy->deadline_ns, " ms");
	put_ms(out, ", of an attempt ", policy->attempt_timeout_ns, " ms\n");
	put_ms(out, "  backoff: ", policy->min_backoff_ns, " ms");
	put_double(out, " x ", policy->backoff_multiplier, "");
	put_ms(out, " up to ", policy->max_backoff_ns, " ms, ");
	if (policy->jitter_kind == REA_JITTER_FULL)
		put(out, "full jitter");
	else
		put_double(out, "jitter ", policy->jitter, "");
	put_ms(out, ", never below ", policy->backoff_floor_ns, " ms\n");
}

static void explain_budget_rule(struct rea_format *out, const struct rea_budget_policy *budget)
{
	switch (budget->rule) {
	case REA_BUDGET_RATIO:
		put_double(out, "ratio, ", budget->ratio_permille / 1000.0, " of first attempts");
		put_number(out, " and ", budget->reserve_per_s, " a second");
		put_number(out, " in ", budget->window_ms, " ms");
		return;
	case REA_BUDGET_GRPC:
		put_number(out, "grpc, ", budget->max_tokens, " tokens");
		put_double(out, ", ", budget->token_ratio_permille / 1000.0, " back for a success");
		return;
	case REA_BUDGET_AWS:
		put_number(out, "aws, ", budget->capacity, " tokens");
		put_number(out, ", costs ", budget->cost_transient, " transient");
		put_number(out, ", ", budget->cost_timeout, " timeout");
		put_number(out, ", ", budget->cost_throttling, " throttling");
		return;
	}
}

static void explain_budget(struct rea_format *out, const struct rea_guard *guard, uint64_t now_ns)
{
	put(out, "  budget: ");
	explain_budget_rule(out, &guard->options.policy.budget);
	put_number(out, "; ", rea_budget_available(guard->budget, now_ns), " retries left\n");
	put_number(out, "  concurrent retries: ", __atomic_load_n(&guard->retry_limit->max, __ATOMIC_RELAXED),
	    guard->options.retry_limit != NULL ? " with others" : "");
	put_number(out, "; ", rea_retry_limit_in_use(guard->retry_limit), " in use\n");
}

size_t rea_guard_explain(struct rea_guard *guard, uint64_t now_ns, char *ret_text, size_t size)
{
	const struct rea_policy *policy = &guard->options.policy;
	struct rea_format out;

	rea_format_init(&out, ret_text, size);
	put(&out, "guard ");
	put(&out, guard->name[0] != '\0' ? guard->name : "without a name");
	put_number(&out, ", for ", guard->options.threads, " threads; each attempt passes\n");
	explain_rate(&out, guard, now_ns);
	explain_limiter(&out, guard);
	explain_breaker(&out, guard, now_ns);
	put(&out, "4 call\n");
	explain_retries(&out, policy);
	explain_permission(&out, policy);
	explain_times(&out, policy);
	explain_budget(&out, guard, now_ns);
	return out.length;
}
