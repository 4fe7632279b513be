/*
 * The three rules of a retry budget.
 *
 * ratio: over a sliding window, a share of the first attempts plus a reserve that is always there, less the retries taken. Everything is counted
 * in whole events; a share becomes credits of a millionth retry only in a sum, so nothing is ever rounded.
 *
 *   credits = Σ first attempts · ratio_permille · 1000  +  reserve_per_s · window_ms · 1000  -  Σ retries · 1,000,000
 *
 * grpc, aws: a level of tokens between 0 and a capacity. Nothing expires: outcomes alone move it.
 *
 * Guarantees: under ratio what leaves the window leaves on both sides, so a quiet service comes back to its whole reserve; no level ever leaves
 * [0, capacity]; a withdrawal never takes what is not there, whatever the threads do; a refund gives back what was taken, under the rule
 * that it was taken under.
 */
#include <rea/budget.h>

#include <rea/time.h>

#include <assert.h>
#include <string.h>

#define CACHE_LINE 64
#define SLOTS 10
#define CREDITS_PER_RETRY UINT64_C(1000000)

/*
 * Events by the time they happened in: a ring of slots, each a tenth of the window, the head the newest. A slot is its start and its count in
 * one word, so that a reader never sees a count under another slot's time. One writer at a time, any number of readers.
 */
struct window {
	uint64_t slots[SLOTS];
	uint32_t head; /* the writer's */
};

/* 40 bits of start in ms (34 years, compared modulo that) and 24 bits of count, which stops at its largest value. */
#define COUNT_BITS 24
#define COUNT_MAX ((UINT64_C(1) << COUNT_BITS) - 1)
#define START_MASK ((UINT64_C(1) << (64 - COUNT_BITS)) - 1)

static uint64_t slot_load(const uint64_t *slot)
{
	return __atomic_load_n(slot, __ATOMIC_RELAXED);
}

static void slot_store(uint64_t *slot, uint64_t start_ms, uint64_t count)
{
	__atomic_store_n(slot, start_ms << COUNT_BITS | count, __ATOMIC_RELAXED);
}

static uint64_t slot_count(uint64_t slot)
{
	return slot & COUNT_MAX;
}

/* Did the slot begin less than age_ms ago? So did one that a thread with a later clock began: half of all starts are in the future. */
static bool slot_is_younger(uint64_t slot, uint64_t age_ms, uint64_t now_ms)
{
	const uint64_t future_ms = START_MASK / 2 + 1;

	return ((now_ms - (slot >> COUNT_BITS) + future_ms) & START_MASK) < future_ms + age_ms;
}

static void window_add(struct window *window, uint32_t window_ms, uint64_t now_ms)
{
	uint64_t *head = &window->slots[window->head], slot = slot_load(head);
	uint32_t width_ms = (window_ms + SLOTS - 1) / SLOTS;

	assert(width_ms > 0);
	if (slot_count(slot) > 0 && slot_is_younger(slot, width_ms, now_ms)) {
		if (slot_count(slot) < COUNT_MAX)
			slot_store(head, slot >> COUNT_BITS, slot_count(slot) + 1);
		return;
	}
	/* An empty head starts anew in its place: moving on would drop the oldest slot before its time. */
	if (slot_count(slot) > 0)
		window->head = (window->head + 1) % SLOTS;
	slot_store(&window->slots[window->head], now_ms - now_ms % width_ms, 1);
}

static uint64_t window_sum(const struct window *window, uint32_t window_ms, uint64_t now_ms)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < SLOTS; i++) {
		uint64_t slot = slot_load(&window->slots[i]);

		sum += slot_is_younger(slot, window_ms, now_ms) ? slot_count(slot) : 0;
	}
	return sum;
}

/* Take one event back from the slot of its time: the newest one that began by then, else the oldest one that began later (a thread with
 * a later clock was there first). What has left the window is gone already. */
static void window_remove(struct window *window, uint64_t time_ms)
{
	uint64_t *best = NULL;

	for (uint32_t back = 0; back < SLOTS; back++) {
		uint64_t *candidate = &window->slots[(window->head + SLOTS - back) % SLOTS];
		uint64_t slot = slot_load(candidate), after_start_ms = (time_ms - (slot >> COUNT_BITS)) & START_MASK;

		if (slot_count(slot) == 0)
			continue;
		best = candidate;
		if (after_start_ms <= START_MASK / 2)
			break;
	}
	if (best != NULL)
		slot_store(best, slot_load(best) >> COUNT_BITS, slot_count(slot_load(best)) - 1);
}

/*
 * Tokens: how many there are and how many there can be, in one word, so that no thread ever sees a level above its capacity.
 * Capacity 0 = never set.
 */
static uint64_t bucket_of(uint32_t capacity, uint64_t level)
{
	return (uint64_t)capacity << 32 | level;
}

static uint32_t bucket_capacity(uint64_t bucket)
{
	return (uint32_t)(bucket >> 32);
}

static uint32_t bucket_level(uint64_t bucket)
{
	return (uint32_t)bucket;
}

static uint64_t bucket_load(const uint64_t *bucket)
{
	return __atomic_load_n(bucket, __ATOMIC_RELAXED);
}

/* False: another thread was faster, and *before is what it left. */
static bool bucket_swap(uint64_t *bucket, uint64_t *before, uint64_t after)
{
	return __atomic_compare_exchange_n(bucket, before, after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* As much of it as fits. A full bucket is only read. */
static void bucket_add(uint64_t *bucket, uint32_t amount)
{
	uint64_t before = bucket_load(bucket), level;
	uint32_t capacity;

	do {
		capacity = bucket_capacity(before);
		level = (uint64_t)bucket_level(before) + amount;
		if (bucket_level(before) == capacity)
			return;
	} while (!bucket_swap(bucket, &before, bucket_of(capacity, level < capacity ? level : capacity)));
}

/* As much of it as is there. An empty bucket is only read. */
static void bucket_lower(uint64_t *bucket, uint32_t amount)
{
	uint64_t before = bucket_load(bucket);
	uint32_t level;

	do {
		level = bucket_level(before);
		if (level == 0)
			return;
	} while (!bucket_swap(bucket, &before, before - (level < amount ? level : amount)));
}

/* All of it or nothing. */
static bool bucket_take(uint64_t *bucket, uint32_t amount)
{
	uint64_t before = bucket_load(bucket);

	do {
		if (bucket_level(before) < amount)
			return false;
	} while (!bucket_swap(bucket, &before, before - amount));
	return true;
}

/* A new capacity, with the level in proportion; full when it is the first one or the old level means nothing. */
static void bucket_resize(uint64_t *bucket, uint32_t capacity, bool keep)
{
	uint64_t before = bucket_load(bucket), level;

	do {
		level = capacity;
		if (keep && bucket_capacity(before) > 0)
			level = (uint64_t)bucket_level(before) * capacity / bucket_capacity(before);
	} while (!bucket_swap(bucket, &before, bucket_of(capacity, level)));
}

/* One thread's first attempts, on cache lines of their own. */
struct shard {
	_Alignas(CACHE_LINE) struct window deposits;
};

struct rea_budget {
	struct rea_alloc alloc;
	void *block; /* what was allocated */
	uint32_t shards_len;
	/* The policy, atomic. rule is set last: who reads it finds the numbers that belong to it. */
	uint32_t rule;
	uint32_t ratio_permille, reserve_per_s, window_ms;
	uint32_t token_ratio_permille;
	uint32_t cost_transient, cost_timeout, cost_throttling;
	_Alignas(CACHE_LINE) uint64_t grpc; /* bucket of thousandths of a token */
	uint64_t aws;                       /* bucket of tokens */
	_Alignas(CACHE_LINE) struct window retries;
	uint32_t lock; /* of the writers of retries */
	struct shard shards[];
};

#define TOKEN_PERMILLE 1000

static enum rea_budget_rule rule_of(const struct rea_budget *budget)
{
	return (enum rea_budget_rule)__atomic_load_n(&budget->rule, __ATOMIC_ACQUIRE);
}

static void set(uint32_t *number, uint32_t value)
{
	__atomic_store_n(number, value, __ATOMIC_RELAXED);
}

static uint32_t get(const uint32_t *number)
{
	return __atomic_load_n(number, __ATOMIC_RELAXED);
}

static void set_policy(struct rea_budget *budget, const struct rea_budget_policy *policy)
{
	bool same_rule = rule_of(budget) == policy->rule;

	switch (policy->rule) {
	case REA_BUDGET_RATIO:
		set(&budget->ratio_permille, policy->ratio_permille);
		set(&budget->reserve_per_s, policy->reserve_per_s);
		set(&budget->window_ms, policy->window_ms);
		break;
	case REA_BUDGET_GRPC:
		set(&budget->token_ratio_permille, policy->token_ratio_permille);
		bucket_resize(&budget->grpc, policy->max_tokens * TOKEN_PERMILLE, same_rule);
		break;
	case REA_BUDGET_AWS:
		set(&budget->cost_transient, policy->cost_transient);
		set(&budget->cost_timeout, policy->cost_timeout);
		set(&budget->cost_throttling, policy->cost_throttling);
		bucket_resize(&budget->aws, policy->capacity, same_rule);
		break;
	}
	__atomic_store_n(&budget->rule, policy->rule, __ATOMIC_RELEASE);
}

int rea_budget_new(const struct rea_budget_policy *policy, uint32_t shards, const struct rea_alloc *alloc,
    struct rea_budget **ret_budget)
{
	struct rea_budget *budget;
	size_t size;
	void *block;

	if (shards == 0 || rea_budget_policy_validate(policy, NULL) != 0)
		return REA_ERR_INVALID;
	if (alloc == NULL)
		alloc = rea_alloc_default();
	/* Room to move to the start of a cache line, which no allocator promises. */
	size = sizeof(*budget) + CACHE_LINE - 1;
	if (shards > (SIZE_MAX - size) / sizeof(budget->shards[0]))
		return REA_ERR_NOMEM;
	size += shards * sizeof(budget->shards[0]);
	block = alloc->realloc(NULL, size, alloc->user_data);
	if (block == NULL)
		return REA_ERR_NOMEM;
	memset(block, 0, size);
	budget = (void *)(((uintptr_t)block + CACHE_LINE - 1) & ~(uintptr_t)(CACHE_LINE - 1));
	budget->alloc = *alloc;
	budget->block = block;
	budget->shards_len = shards;
	set_policy(budget, policy);
	*ret_budget = budget;
	return 0;
}

void rea_budget_free(struct rea_budget *budget)
{
	struct rea_alloc alloc;

	if (budget == NULL)
		return;
	alloc = budget->alloc;
	alloc.free(budget->block, alloc.user_data);
}

void rea_budget_configure(struct rea_budget *budget, const struct rea_budget_policy *policy)
{
	assert(rea_budget_policy_validate(policy, NULL) == 0);
	set_policy(budget, policy);
}

/* ---- ratio ---- */

static uint64_t now_in_ms(uint64_t now_ns)
{
	return now_ns / REA_NS_PER_MS;
}

static uint64_t ratio_available(const struct rea_budget *budget, uint64_t now_ns)
{
	uint64_t ratio_permille = get(&budget->ratio_permille), reserve_per_s = get(&budget->reserve_per_s);
	uint32_t window_ms = get(&budget->window_ms);
	uint64_t now_ms = now_in_ms(now_ns), deposits = 0, credits, spent;

	for (uint32_t i = 0; i < budget->shards_len; i++)
		deposits += window_sum(&budget->shards[i].deposits, window_ms, now_ms);
	credits = deposits * ratio_permille * (CREDITS_PER_RETRY / 1000) +
		  reserve_per_s * window_ms * (CREDITS_PER_RETRY / 1000);
	spent = window_sum(&budget->retries, window_ms, now_ms) * CREDITS_PER_RETRY;
	/* The first attempts that paid for a retry leave the window before it: then it is overdrawn until the retry leaves too. */
	return credits > spent ? (credits - spent) / CREDITS_PER_RETRY : 0;
}

/* Held for a few hundred instructions, on the rare path, by threads that do not outnumber the processors by much. */
static void lock(struct rea_budget *budget)
{
	while (__atomic_exchange_n(&budget->lock, 1, __ATOMIC_ACQUIRE) != 0)
		while (__atomic_load_n(&budget->lock, __ATOMIC_RELAXED) != 0)
			;
}

static void unlock(struct rea_budget *budget)
{
	__atomic_store_n(&budget->lock, 0, __ATOMIC_RELEASE);
}

static bool ratio_take(struct rea_budget *budget, uint64_t now_ns)
{
	bool granted;

	/* A refusal takes no lock. */
	if (ratio_available(budget, now_ns) == 0)
		return false;
	lock(budget);
	granted = ratio_available(budget, now_ns) > 0;
	if (granted)
		window_add(&budget->retries, get(&budget->window_ms), now_in_ms(now_ns));
	unlock(budget);
	return granted;
}

static void ratio_give_back(struct rea_budget *budget, uint64_t taken_ns, uint64_t now_ns)
{
	lock(budget);
	if (rea_time_sub(now_ns, taken_ns) < rea_time_from_ms(get(&budget->window_ms)))
		window_remove(&budget->retries, now_in_ms(taken_ns));
	unlock(budget);
}

/* ---- grpc ---- */

static void grpc_report(struct rea_budget *budget, enum rea_budget_result result)
{
	if (result == REA_BUDGET_SUCCESS)
		bucket_add(&budget->grpc, get(&budget->token_ratio_permille));
	else if (result != REA_BUDGET_NEUTRAL)
		bucket_lower(&budget->grpc, TOKEN_PERMILLE);
}

/* Thousandths of a token above the half. */
static uint32_t grpc_spare(const struct rea_budget *budget)
{
	uint64_t bucket = bucket_load(&budget->grpc);
	uint32_t level = bucket_level(bucket), half = bucket_capacity(bucket) / 2;

	return level > half ? level - half : 0;
}

/* After so many failures more the level is still above the half. */
static uint32_t grpc_available(const struct rea_budget *budget)
{
	uint32_t spare = grpc_spare(budget);

	return spare > 0 ? (spare - 1) / TOKEN_PERMILLE : 0;
}

/* ---- aws ---- */

static void aws_report(struct rea_budget *budget, enum rea_budget_result result, const struct rea_budget_lease *lease)
{
	bool retry = lease != NULL && lease->held;

	if (result != REA_BUDGET_SUCCESS)
		return;
	if (!retry)
		bucket_add(&budget->aws, 1);
	else if (lease->rule == REA_BUDGET_AWS)
		bucket_add(&budget->aws, lease->cost);
}

static uint32_t aws_cost(const struct rea_budget *budget, enum rea_budget_result failure)
{
	if (failure == REA_BUDGET_TIMEOUT)
		return get(&budget->cost_timeout);
	return get(failure == REA_BUDGET_THROTTLING ? &budget->cost_throttling : &budget->cost_transient);
}

/* ---- whichever rule it is ---- */

void rea_budget_deposit(struct rea_budget *budget, uint32_t shard, uint64_t now_ns)
{
	assert(shard < budget->shards_len);
	if (rule_of(budget) == REA_BUDGET_RATIO)
		window_add(&budget->shards[shard].deposits, get(&budget->window_ms), now_in_ms(now_ns));
}

void rea_budget_report(struct rea_budget *budget, uint32_t shard, enum rea_budget_result result,
    struct rea_budget_lease *lease, uint64_t now_ns)
{
	assert(shard < budget->shards_len && result <= REA_BUDGET_NEUTRAL);
	(void)now_ns; /* no rule of these three remembers when */
	switch (rule_of(budget)) {
	case REA_BUDGET_RATIO:
		break;
	case REA_BUDGET_GRPC:
		grpc_report(budget, result);
		break;
	case REA_BUDGET_AWS:
		aws_report(budget, result, lease);
		break;
	}
	if (lease != NULL)
		lease->held = false;
}

static bool is_failure(enum rea_budget_result result)
{
	return result > REA_BUDGET_SUCCESS && result < REA_BUDGET_NEUTRAL;
}

bool rea_budget_withdraw(
    struct rea_budget *budget, enum rea_budget_result failure, uint64_t now_ns, struct rea_budget_lease *ret_lease)
{
	struct rea_budget_lease lease = {.taken_ns = now_ns, .rule = rule_of(budget), .held = true};
	bool granted = false;

	assert(is_failure(failure));
	switch (lease.rule) {
	case REA_BUDGET_RATIO:
		granted = ratio_take(budget, now_ns);
		break;
	case REA_BUDGET_GRPC:
		granted = grpc_spare(budget) > 0; /* the failure was charged for, the retry costs nothing */
		break;
	case REA_BUDGET_AWS:
		lease.cost = aws_cost(budget, failure);
		granted = bucket_take(&budget->aws, lease.cost);
		break;
	}
	if (granted)
		*ret_lease = lease;
	return granted;
}

bool rea_budget_permits(const struct rea_budget *budget, enum rea_budget_result failure, uint64_t now_ns)
{
	assert(is_failure(failure));
	switch (rule_of(budget)) {
	case REA_BUDGET_RATIO:
		return ratio_available(budget, now_ns) > 0;
	case REA_BUDGET_GRPC:
		return grpc_spare(budget) > 0;
	case REA_BUDGET_AWS:
		return bucket_level(bucket_load(&budget->aws)) >= aws_cost(budget, failure);
	}
	return false;
}

void rea_budget_refund(struct rea_budget *budget, struct rea_budget_lease *lease, uint64_t now_ns)
{
	if (!lease->held)
		return;
	lease->held = false;
	if (lease->rule == REA_BUDGET_RATIO)
		ratio_give_back(budget, lease->taken_ns, now_ns);
	else if (lease->rule == REA_BUDGET_AWS)
		bucket_add(&budget->aws, lease->cost);
}

uint64_t rea_budget_available(const struct rea_budget *budget, uint64_t now_ns)
{
	switch (rule_of(budget)) {
	case REA_BUDGET_RATIO:
		return ratio_available(budget, now_ns);
	case REA_BUDGET_GRPC:
		return grpc_available(budget);
	case REA_BUDGET_AWS:
		return bucket_level(bucket_load(&budget->aws)) / aws_cost(budget, REA_BUDGET_TRANSIENT);
	}
	return 0;
}

/* ---- the limit on concurrent retries ---- */

void rea_retry_limit_init(struct rea_retry_limit *limit, uint32_t max)
{
	__atomic_store_n(&limit->in_use, 0, __ATOMIC_RELAXED);
	rea_retry_limit_configure(limit, max);
}

void rea_retry_limit_configure(struct rea_retry_limit *limit, uint32_t max)
{
	assert(max >= 1);
	__atomic_store_n(&limit->max, max, __ATOMIC_RELAXED);
}

bool rea_retry_limit_acquire(struct rea_retry_limit *limit)
{
	uint32_t in_use = rea_retry_limit_in_use(limit);

	do {
		if (in_use >= __atomic_load_n(&limit->max, __ATOMIC_RELAXED))
			return false;
	} while (!__atomic_compare_exchange_n(&limit->in_use, &in_use, in_use + 1, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return true;
}

void rea_retry_limit_release(struct rea_retry_limit *limit)
{
	uint32_t before = __atomic_fetch_sub(&limit->in_use, 1, __ATOMIC_RELAXED);

	assert(before > 0);
	(void)before;
}

bool rea_retry_limit_full(const struct rea_retry_limit *limit)
{
	return rea_retry_limit_in_use(limit) >= __atomic_load_n(&limit->max, __ATOMIC_RELAXED);
}

uint32_t rea_retry_limit_in_use(const struct rea_retry_limit *limit)
{
	return __atomic_load_n(&limit->in_use, __ATOMIC_RELAXED);
}
