/*
 * What one operation of each primitive costs, CPU time of the thread, with time supplied: budgets by rule, concurrency limiter, rate limiter, adaptive
 * limit, breaker; and what a refusal costs. The best of several runs: what disturbs a run only ever adds.
 */
#include <rea/adaptive.h>
#include <rea/breaker.h>
#include <rea/budget.h>
#include <rea/limiter.h>
#include <rea/rate.h>
#include <rea/time.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { OPERATIONS = 5000000, RUNS = 7 };

#define START_NS (1000 * REA_NS_PER_S)

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * REA_NS_PER_S + (uint64_t)now.tv_nsec;
}

static void must(bool good)
{
	if (!good)
		abort();
}

/* ---- budgets ---- */

static struct rea_budget *budget;

static void first_try_ok(uint64_t now_ns)
{
	rea_budget_deposit(budget, 0, now_ns);
	rea_budget_report(budget, 0, REA_BUDGET_SUCCESS, NULL, now_ns);
}

/* Two failures in a thousand: what moves a bucket of tokens instead of only reading it. */
static void first_try_mostly_ok(uint64_t now_ns)
{
	rea_budget_deposit(budget, 0, now_ns);
	rea_budget_report(
	    budget, 0, now_ns / REA_NS_PER_US % 5000 == 0 ? REA_BUDGET_TRANSIENT : REA_BUDGET_SUCCESS, NULL, now_ns);
}

/* A retry that was taken and is given back, so that the next one is there again. */
static void take_and_refund(uint64_t now_ns)
{
	struct rea_budget_lease lease;

	must(rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, now_ns, &lease));
	rea_budget_refund(budget, &lease, now_ns);
}

static void refused_retry(uint64_t now_ns)
{
	struct rea_budget_lease lease;

	must(!rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, now_ns, &lease));
}

static void use_budget(enum rea_budget_rule rule, bool empty)
{
	struct rea_policy policy;
	struct rea_budget_lease lease;

	rea_policy_defaults(&policy);
	policy.budget.rule = rule;
	if (rule == REA_BUDGET_RATIO && empty)
		policy.budget.reserve_per_s = 0;
	rea_budget_free(budget);
	must(rea_budget_new(&policy.budget, 2, NULL, &budget, NULL) == 0);
	for (int i = 0; empty && i < 100; i++) {
		rea_budget_report(budget, 0, REA_BUDGET_TRANSIENT, NULL, START_NS);
		(void)rea_budget_withdraw(budget, REA_BUDGET_TRANSIENT, START_NS, &lease);
	}
}

/* ---- the others ---- */

static struct rea_limiter limiter;
static struct rea_rate rate;
static struct rea_adaptive adaptive;
static struct rea_breaker *breaker;

static void use_limiter(uint32_t waiting_max)
{
	struct rea_limiter_options options;

	rea_limiter_options_init(&options);
	options.waiting_max = waiting_max;
	must(rea_limiter_init(&limiter, &options, NULL) == 0);
}

static void slot(uint64_t now_ns)
{
	must(rea_limiter_try_acquire(&limiter));
	rea_limiter_release(&limiter, now_ns);
}

static void refused_slot(uint64_t now_ns)
{
	struct rea_limiter_waiter waiter = {.user_data = NULL};

	must(rea_limiter_acquire(&limiter, &waiter, REA_NEVER, now_ns) == REA_LIMITER_REFUSED);
}

/* In a line of a thousand others: get in, be cancelled. */
static void wait_and_cancel(uint64_t now_ns)
{
	static struct rea_limiter_waiter waiter;

	must(rea_limiter_acquire(&limiter, &waiter, now_ns + REA_NS_PER_S, now_ns) == REA_LIMITER_WAITING);
	rea_limiter_cancel(&limiter, &waiter, now_ns);
}

static void fill_limiter(uint32_t waiters)
{
	static struct rea_limiter_waiter line[1000];

	while (rea_limiter_try_acquire(&limiter))
		;
	for (uint32_t i = 0; i < waiters; i++) {
		line[i] = (struct rea_limiter_waiter){.user_data = NULL};
		must(rea_limiter_acquire(&limiter, &line[i], 2 * START_NS + i, START_NS) == REA_LIMITER_WAITING);
	}
}

static void use_rate(uint32_t permits)
{
	struct rea_rate_options options;

	rea_rate_options_init(&options);
	options.permits = permits;
	must(rea_rate_init(&rate, &options, NULL) == 0);
	while (permits == 1 && rea_rate_acquire(&rate, 1, 2 * START_NS))
		;
}

static void permit(uint64_t now_ns)
{
	must(rea_rate_acquire(&rate, 1, now_ns));
}

static void refused_permit(uint64_t now_ns)
{
	must(!rea_rate_acquire(&rate, 1, now_ns));
}

static void reserve_and_cancel(uint64_t now_ns)
{
	struct rea_rate_reservation reservation;

	must(rea_rate_reserve(&rate, 1, REA_NEVER, now_ns, &reservation));
	rea_rate_cancel(&rate, &reservation, now_ns);
}

static void adapt(uint64_t now_ns)
{
	(void)rea_adaptive_report(&adaptive, now_ns % REA_NS_PER_MS, 100, false);
}

static void use_adaptive(enum rea_adaptive_rule rule)
{
	struct rea_adaptive_options options;

	rea_adaptive_options_init(&options, rule);
	must(rea_adaptive_init(&adaptive, &options, NULL) == 0);
}

static void guarded(uint64_t now_ns)
{
	struct rea_breaker_permit pass;

	must(rea_breaker_acquire(breaker, now_ns, &pass));
	rea_breaker_report(breaker, &pass, REA_BREAKER_SUCCESS, REA_NS_PER_MS, now_ns);
}

static void refused_call(uint64_t now_ns)
{
	struct rea_breaker_permit pass;

	must(!rea_breaker_acquire(breaker, now_ns, &pass));
}

static void use_breaker(enum rea_breaker_window window, bool open)
{
	struct rea_policy policy;

	rea_policy_defaults(&policy);
	policy.breaker.window_type = window;
	rea_breaker_free(breaker);
	must(rea_breaker_new(&policy.breaker, NULL, &breaker, NULL) == 0);
	if (open)
		rea_breaker_force(breaker, REA_BREAKER_FORCED_OPEN, START_NS);
}

/* ---- measuring ---- */

static void measure(const char *what, void (*operation)(uint64_t now_ns))
{
	uint64_t now_ns = START_NS, best_ns = UINT64_MAX;

	for (int i = 0; i < RUNS; i++) {
		uint64_t begin_ns = cpu_ns(), spent_ns;

		for (uint32_t k = 0; k < OPERATIONS; k++, now_ns += 10 * REA_NS_PER_US)
			operation(now_ns);
		spent_ns = cpu_ns() - begin_ns;
		best_ns = spent_ns < best_ns ? spent_ns : best_ns;
	}
	printf("%-52s %6.1f ns\n", what, (double)best_ns / OPERATIONS);
}

static void nothing(uint64_t now_ns)
{
	must(now_ns > 0);
}

int main(void)
{
	measure("(the loop, contained in each number)", nothing);
	use_budget(REA_BUDGET_RATIO, false);
	measure("budget ratio: first try, success", first_try_ok);
	measure("budget ratio: take a retry, give it back", take_and_refund);
	use_budget(REA_BUDGET_RATIO, true);
	measure("budget ratio: refused", refused_retry);
	use_budget(REA_BUDGET_GRPC, false);
	measure("budget grpc: first try, success, full", first_try_ok);
	measure("budget grpc: first try, 2 failures in 1000", first_try_mostly_ok);
	measure("budget grpc: take a retry, give it back", take_and_refund);
	use_budget(REA_BUDGET_GRPC, true);
	measure("budget grpc: refused", refused_retry);
	use_budget(REA_BUDGET_AWS, false);
	measure("budget aws: first try, success, full", first_try_ok);
	measure("budget aws: take a retry, give it back", take_and_refund);
	use_budget(REA_BUDGET_AWS, true);
	measure("budget aws: refused", refused_retry);
	use_budget(REA_BUDGET_EVIDENCE, false);
	measure("budget evidence: first try, success", first_try_ok);
	measure("budget evidence: take a retry, give it back", take_and_refund);
	use_budget(REA_BUDGET_EVIDENCE, true);
	measure("budget evidence: refused", refused_retry);
	use_limiter(0);
	measure("limiter: take a slot, release it", slot);
	fill_limiter(0);
	measure("limiter: refused", refused_slot);
	use_limiter(1001);
	fill_limiter(1000);
	measure("limiter: into a line of 1000 and out again", wait_and_cancel);
	use_rate(1000000);
	measure("rate: a permit", permit);
	measure("rate: reserve, cancel", reserve_and_cancel);
	use_rate(1);
	measure("rate: refused", refused_permit);
	use_adaptive(REA_ADAPTIVE_GRADIENT2);
	measure("adaptive gradient2: report", adapt);
	use_adaptive(REA_ADAPTIVE_AIMD);
	measure("adaptive aimd: report", adapt);
	use_adaptive(REA_ADAPTIVE_VEGAS);
	measure("adaptive vegas: report", adapt);
	use_breaker(REA_BREAKER_COUNT_BASED, false);
	measure("breaker, window of calls: acquire, success", guarded);
	use_breaker(REA_BREAKER_TIME_BASED, false);
	measure("breaker, window of seconds: acquire, success", guarded);
	use_breaker(REA_BREAKER_COUNT_BASED, true);
	measure("breaker: refused", refused_call);
	rea_breaker_free(breaker);
	rea_budget_free(budget);
	return 0;
}
