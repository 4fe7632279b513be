/* The objects of the core in words, each alone. */
#include "explain/words.h"

size_t rea_policy_explain(const struct rea_policy *policy, uint64_t now_ns, char *ret_text, size_t size)
{
	struct rea_format out;

	(void)now_ns;
	rea_format_init(&out, ret_text, size);
	rea__explain_call(&out, "", policy);
	rea__put(&out, "budget: ");
	rea__explain_budget_policy(&out, &policy->budget);
	rea__put(&out, "\nbreaker: ");
	if (policy->breaker.enabled)
		rea__explain_breaker_policy(&out, &policy->breaker);
	else
		rea__put(&out, "off");
	rea__put(&out, "\n");
	return out.length;
}

size_t rea_budget_explain(const struct rea_budget *budget, uint64_t now_ns, char *ret_text, size_t size)
{
	struct rea_format out;

	rea_format_init(&out, ret_text, size);
	rea__put(&out, "budget: ");
	rea__explain_budget(&out, budget, now_ns);
	rea__put(&out, "\n");
	rea__explain_evidence(&out, "", budget, now_ns);
	return out.length;
}

size_t rea_breaker_explain(const struct rea_breaker *breaker, uint64_t now_ns, char *ret_text, size_t size)
{
	struct rea__breaker_view view;
	struct rea_format out;

	rea_format_init(&out, ret_text, size);
	rea__breaker_look(breaker, now_ns, &view);
	rea__put(&out, "circuit breaker: ");
	rea__explain_breaker(&out, &view);
	rea__put(&out, "\n");
	return out.length;
}

size_t rea_limiter_explain(const struct rea_limiter *limiter, uint64_t now_ns, char *ret_text, size_t size)
{
	uint64_t next_ns = rea_limiter_next_ns(limiter);
	struct rea_format out;

	rea_format_init(&out, ret_text, size);
	rea__put(&out, "concurrency limiter: ");
	rea__explain_limiter(&out, limiter);
	if (next_ns != REA_NEVER)
		rea__put_ms(&out, "; the next wait ends in ", rea_time_sub(next_ns, now_ns), " ms");
	rea__put(&out, "\n");
	return out.length;
}

size_t rea_rate_explain(const struct rea_rate *rate, uint64_t now_ns, char *ret_text, size_t size)
{
	struct rea_format out;

	rea_format_init(&out, ret_text, size);
	rea__put(&out, "rate limiter: ");
	rea__explain_rate(&out, rate, now_ns);
	rea__put(&out, "\n");
	return out.length;
}

size_t rea_adaptive_explain(const struct rea_adaptive *adaptive, uint64_t now_ns, char *ret_text, size_t size)
{
	struct rea_format out;

	(void)now_ns;
	rea_format_init(&out, ret_text, size);
	rea__put(&out, "adaptive limit: ");
	rea__explain_adaptive(&out, adaptive);
	rea__put(&out, "\n");
	return out.length;
}
