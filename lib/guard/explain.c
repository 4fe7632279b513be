/* A guard in words: the order of its stages, each number that holds, and what is left of it now. */
#include "guard/internal.h"

#include "explain/words.h"
#include "guard/shared_breaker.h"

#include <rea/time.h>

/* Looking takes a lock and changes nothing, so the guard is the same for a caller who may not change it. */
static struct rea_guard *to_look_at(const struct rea_guard *guard)
{
	return (struct rea_guard *)(uintptr_t)guard;
}

static void explain_rate(struct rea_format *out, struct rea_guard *guard, uint64_t now_ns)
{
	struct rea_rate rate;

	rea__put(out, "1 rate limiter: ");
	if (!guard->options.rate_on) {
		rea__put(out, "off\n");
		return;
	}
	pthread_mutex_lock(&guard->rate_lock);
	rate = guard->rate;
	pthread_mutex_unlock(&guard->rate_lock);
	rea__put_ms(out, "waits at most ", guard->options.rate_wait_ns, " ms; ");
	rea__explain_rate(out, &rate, now_ns);
	rea__put(out, "\n");
}

static void explain_limiter(struct rea_format *out, struct rea_guard *guard)
{
	struct rea_adaptive adaptive;
	struct rea_limiter limiter;

	rea__put(out, "2 concurrency limiter: ");
	if (!guard->options.limiter_on) {
		rea__put(out, "off\n");
		return;
	}
	pthread_mutex_lock(&guard->limiter_lock);
	limiter = guard->limiter;
	adaptive = guard->adaptive;
	pthread_mutex_unlock(&guard->limiter_lock);
	rea__put_ms(out, "waits at most ", guard->options.limiter_wait_ns, " ms; ");
	rea__explain_limiter(out, &limiter);
	rea__put(out, "\n");
	if (!guard->options.adaptive_on)
		return;
	rea__put(out, "  adaptive limit: ");
	rea__explain_adaptive(out, &adaptive);
	rea__put(out, "\n");
}

static void explain_breaker(struct rea_format *out, const struct rea_guard *guard, uint64_t now_ns)
{
	struct rea__breaker_view view;

	rea__put(out, "3 circuit breaker: ");
	if (guard->breaker == NULL) {
		rea__put(out, "off\n");
		return;
	}
	rea__shared_breaker_look(guard->breaker, now_ns, &view);
	rea__explain_breaker(out, &view);
	rea__put(out, "\n");
}

static void explain_limit(struct rea_format *out, const char *what, const struct rea_retry_limit *limit, bool with_others)
{
	rea__put(out, what);
	rea__explain_retry_limit(out, limit);
	rea__put(out, with_others ? ", with others\n" : "\n");
}

size_t rea_guard_explain(const struct rea_guard *guard, uint64_t now_ns, char *ret_text, size_t size)
{
	const struct rea_guard_options *options = &guard->options;
	struct rea_format out;

	rea_format_init(&out, ret_text, size);
	rea__put(&out, "guard ");
	rea__put(&out, guard->name[0] != '\0' ? guard->name : "without a name");
	rea__put_number(&out, ", for ", options->threads, " threads; each attempt passes\n");
	explain_rate(&out, to_look_at(guard), now_ns);
	explain_limiter(&out, to_look_at(guard));
	explain_breaker(&out, guard, now_ns);
	rea__put(&out, "4 call\n");
	rea__explain_call(&out, "  ", &options->policy);
	rea__put(&out, "  budget: ");
	rea__explain_budget(&out, guard->budget, now_ns);
	rea__put(&out, "\n");
	rea__explain_evidence(&out, "  ", guard->budget, now_ns);
	explain_limit(&out, "  concurrent retries: ", guard->retry_limit, options->retry_limit != NULL);
	explain_limit(&out, "  parked calls: ", guard->parking, options->parking != NULL);
	return out.length;
}
