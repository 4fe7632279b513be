/*
 * The four rules of a retry budget. What the rule `evidence` goes by is in evidence.c; here is how threads share it.
 *
 * ratio: over a sliding window, a share of the first attempts plus a reserve that is always there, less the retries taken. Everything is counted
 * in whole events; a share becomes credits of a millionth retry only in a sum, so nothing is ever rounded.
 *
 *   credits = Σ first attempts · ratio_permille · 1000  +  reserve_per_s · window_ms · 1000  -  Σ retries · 1,000,000
 *
 * In memory that several processes share (struct rea__common_budget) the same sums are made of windows without a lock: a retry is written first
 * and counted afterwards, so that of those who take at the same moment at least the last one sees all; who finds the budget overdrawn takes
 * its own back. A process that dies in between has spent one retry.
 *
 * grpc, aws: a level of tokens between 0 and a capacity. Nothing expires: outcomes alone move it.
 *
 * Guarantees: under ratio what leaves the window leaves on both sides, so a quiet service comes back to its whole reserve; no level ever leaves
 * [0, capacity]; a withdrawal never takes what is not there, whatever the threads do; a refund gives back what was taken, under the rule
 * that it was taken under.
 */
#include <rea/budget.h>

#include "base/bounds.h"
#include "core/evidence.h"
#include "core/internal.h"

#include <rea/time.h>

#include <assert.h>
#include <float.h>
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
		level = level < capacity ? level : capacity; /* shared memory may be damaged */
	} while (!bucket_swap(bucket, &before, bucket_of(capacity, level)));
}

/* What one thread counts, on cache lines of its own. */
struct shard {
	_Alignas(CACHE_LINE) struct window deposits;
	struct rea__evidence_batch batch;
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
	struct rea__common_budget *common; /* NULL = this budget is the process's own */
	uint32_t epoch;                    /* of common */
	const struct rea__common_ops *ops;
	uint64_t *grpc; /* bucket of thousandths of a token, in levels or in common */
	uint64_t *aws;  /* bucket of tokens */
	_Alignas(CACHE_LINE) uint64_t levels[2];
	_Alignas(CACHE_LINE) struct window retries;
	uint32_t lock; /* of the writers of retries, and of all that look at evidence */
	struct rea__evidence evidence;
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

REA__COLD static void set_policy(struct rea_budget *budget, const struct rea_budget_policy *policy)
{
	/* What others share means something, whatever the rule was here. */
	bool keep = budget->common != NULL || rule_of(budget) == policy->rule;

	switch (policy->rule) {
	case REA_BUDGET_RATIO:
		set(&budget->ratio_permille, policy->ratio_permille);
		set(&budget->reserve_per_s, policy->reserve_per_s);
		set(&budget->window_ms, policy->window_ms);
		break;
	case REA_BUDGET_GRPC:
		set(&budget->token_ratio_permille, policy->token_ratio_permille);
		bucket_resize(budget->grpc, policy->max_tokens * TOKEN_PERMILLE, keep);
		break;
	case REA_BUDGET_AWS:
		set(&budget->cost_transient, policy->cost_transient);
		set(&budget->cost_timeout, policy->cost_timeout);
		set(&budget->cost_throttling, policy->cost_throttling);
		bucket_resize(budget->aws, policy->capacity, keep);
		break;
	case REA_BUDGET_EVIDENCE:
		/* Never reset = never begun. */
		lock(budget);
		if (rule_of(budget) != policy->rule || budget->evidence.generation == 0)
			rea__evidence_reset(&budget->evidence);
		unlock(budget);
		break;
	}
	__atomic_store_n(&budget->rule, policy->rule, __ATOMIC_RELEASE);
}

/* All zero but for its memory. */
static int allocate(uint32_t shards, const struct rea_alloc *alloc, struct rea_budget **ret_budget)
{
	struct rea_budget *budget;
	size_t size;
	void *block;

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
	budget->grpc = &budget->levels[0];
	budget->aws = &budget->levels[1];
	*ret_budget = budget;
	return 0;
}

REA__COLD int rea_budget_new(const struct rea_budget_policy *policy, uint32_t shards, const struct rea_alloc *alloc,
    struct rea_budget **ret_budget, struct rea_error_info *ret_info)
{
	const struct rea__bound shards_bound = {"shards", "the number of shards", shards, 1, DBL_MAX, false, NULL};
	struct rea_budget *budget;
	int error = rea_budget_policy_validate(policy, ret_info);

	if (error == 0)
		error = rea__check_bounds(&shards_bound, 1, ret_info);
	if (error == 0)
		error = allocate(shards, alloc, &budget);
	if (error != 0)
		return error;
	set_policy(budget, policy);
	*ret_budget = budget;
	return 0;
}

int rea__budget_new_common(const struct rea_budget_policy *policy, struct rea__common_budget *common, uint32_t epoch,
    const struct rea__common_ops *ops, const struct rea_alloc *alloc, struct rea_budget **ret_budget)
{
	struct rea_budget *budget;
	int error;

	assert(epoch <= REA__COMMON_EPOCH_MAX);
	if (rea_budget_policy_validate(policy, NULL) != 0)
		return REA_ERR_INVALID;
	error = allocate(1, alloc, &budget);
	if (error != 0)
		return error;
	budget->common = common;
	budget->epoch = epoch;
	budget->ops = ops;
	budget->grpc = &common->grpc;
	budget->aws = &common->aws;
	budget->shards_len = UINT32_MAX;
	set_policy(budget, policy);
	*ret_budget = budget;
	return 0;
}

void rea_budget_free(struct rea_budget *budget)
{
	struct rea_alloc alloc;

	if (budget == NULL)
		return;
	if (budget->common != NULL)
		budget->ops->release(budget->common);
	alloc = budget->alloc;
	alloc.free(budget->block, alloc.user_data);
}

void rea_budget_configure(struct rea_budget *budget, const struct rea_budget_policy *policy)
{
	assert(rea_budget_policy_validate(policy, NULL) == 0 &&
	       "rea_budget_configure: a number of the policy is out of its bounds");
	set_policy(budget, policy);
}

void rea__budget_policy(const struct rea_budget *budget, struct rea_budget_policy *ret_policy)
{
	enum rea_budget_rule rule = rule_of(budget);

	*ret_policy = (struct rea_budget_policy){.rule = rule,
	    .ratio_permille = get(&budget->ratio_permille),
	    .reserve_per_s = get(&budget->reserve_per_s),
	    .window_ms = get(&budget->window_ms),
	    .max_tokens = bucket_capacity(bucket_load(budget->grpc)) / TOKEN_PERMILLE,
	    .token_ratio_permille = get(&budget->token_ratio_permille),
	    .capacity = bucket_capacity(bucket_load(budget->aws)),
	    .cost_transient = get(&budget->cost_transient),
	    .cost_timeout = get(&budget->cost_timeout),
	    .cost_throttling = get(&budget->cost_throttling)};
}

/* ---- ratio ---- */

static uint64_t now_in_ms(uint64_t now_ns)
{
	return now_ns / REA_NS_PER_MS;
}

static uint64_t deposits_of(const struct rea_budget *budget, uint32_t window_ms, uint64_t now_ms)
{
	uint64_t deposits = 0;

	if (budget->common != NULL)
		return rea__common_window_sum(&budget->common->deposits, budget->epoch, window_ms, now_ms);
	for (uint32_t i = 0; i < budget->shards_len; i++)
		deposits += window_sum(&budget->shards[i].deposits, window_ms, now_ms);
	return deposits;
}

static uint64_t retries_of(const struct rea_budget *budget, uint32_t window_ms, uint64_t now_ms)
{
	if (budget->common != NULL)
		return rea__common_window_sum(&budget->common->retries, budget->epoch, window_ms, now_ms);
	return window_sum(&budget->retries, window_ms, now_ms);
}

/* What has been earned and what has been spent, in credits. */
static void ratio_sums(const struct rea_budget *budget, uint64_t now_ns, uint64_t *ret_credits, uint64_t *ret_spent)
{
	uint64_t ratio_permille = get(&budget->ratio_permille), reserve_per_s = get(&budget->reserve_per_s);
	uint32_t window_ms = get(&budget->window_ms);
	uint64_t now_ms = now_in_ms(now_ns);

	*ret_credits = deposits_of(budget, window_ms, now_ms) * ratio_permille * (CREDITS_PER_RETRY / 1000) +
		       reserve_per_s * window_ms * (CREDITS_PER_RETRY / 1000);
	*ret_spent = retries_of(budget, window_ms, now_ms) * CREDITS_PER_RETRY;
}

static uint64_t ratio_available(const struct rea_budget *budget, uint64_t now_ns)
{
	uint64_t credits, spent;

	ratio_sums(budget, now_ns, &credits, &spent);
	/* The first attempts that paid for a retry leave the window before it: then it is overdrawn until the retry leaves too. */
	return credits > spent ? (credits - spent) / CREDITS_PER_RETRY : 0;
}

static bool common_take(struct rea_budget *budget, uint64_t now_ns)
{
	struct rea__common_window *retries = &budget->common->retries;
	uint64_t credits, spent;

	rea__common_window_add(retries, budget->epoch, now_in_ms(now_ns));
	ratio_sums(budget, now_ns, &credits, &spent);
	if (credits >= spent)
		return true;
	rea__common_window_remove(retries, budget->epoch, now_in_ms(now_ns));
	return false;
}

static bool ratio_take(struct rea_budget *budget, uint64_t now_ns)
{
	bool granted;

	/* A refusal takes no lock and writes nothing. */
	if (ratio_available(budget, now_ns) == 0)
		return false;
	if (budget->common != NULL)
		return common_take(budget, now_ns);
	lock(budget);
	granted = ratio_available(budget, now_ns) > 0;
	if (granted)
		window_add(&budget->retries, get(&budget->window_ms), now_in_ms(now_ns));
	unlock(budget);
	return granted;
}

static void ratio_give_back(struct rea_budget *budget, uint64_t taken_ns, uint64_t now_ns)
{
	if (budget->common != NULL) {
		rea__common_window_remove(&budget->common->retries, budget->epoch, now_in_ms(taken_ns));
		return;
	}
	lock(budget);
	if (rea_time_sub(now_ns, taken_ns) < rea_time_from_ms(get(&budget->window_ms)))
		window_remove(&budget->retries, now_in_ms(taken_ns));
	unlock(budget);
}

/* ---- grpc ---- */

static void grpc_report(struct rea_budget *budget, enum rea_budget_result result)
{
	if (result == REA_BUDGET_SUCCESS)
		bucket_add(budget->grpc, get(&budget->token_ratio_permille));
	else if (result != REA_BUDGET_NEUTRAL)
		bucket_lower(budget->grpc, TOKEN_PERMILLE);
}

/* Thousandths of a token above the half. */
static uint32_t grpc_spare(const struct rea_budget *budget)
{
	uint64_t bucket = bucket_load(budget->grpc);
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
		bucket_add(budget->aws, 1);
	else if (lease->rule == REA_BUDGET_AWS)
		bucket_add(budget->aws, lease->cost);
}

static uint32_t aws_cost(const struct rea_budget *budget, enum rea_budget_result failure)
{
	if (failure == REA_BUDGET_TIMEOUT)
		return get(&budget->cost_timeout);
	return get(failure == REA_BUDGET_THROTTLING ? &budget->cost_throttling : &budget->cost_transient);
}

/* ---- evidence ---- */

/* All shards of a common budget are one, under the lock. */
static struct rea__evidence_batch *batch_of(struct rea_budget *budget, uint32_t shard)
{
	return &budget->shards[budget->common != NULL ? 0 : shard].batch;
}

/* attempt: a success; NULL = a first attempt was sent. True: it has to be brought in at once. */
static bool batch_count(struct rea__evidence_batch *batch, const struct rea__budget_attempt *attempt, uint64_t now_ns)
{
	if (attempt != NULL)
		return rea__evidence_batch_success(batch, attempt->latency_ns, now_ns);
	batch->firsts++;
	return false;
}

/* With the budget locked: what other processes have seen, ... */
static void pull(struct rea_budget *budget, uint64_t now_ns)
{
	if (budget->common == NULL)
		return;
	rea__evidence_see_time(&budget->evidence, now_ns);
	budget->ops->pull(budget->common, budget->epoch, &budget->evidence);
}

/* ... and what this one has. */
static void push(struct rea_budget *budget, const struct rea__budget_attempt *attempt)
{
	if (budget->common != NULL)
		budget->ops->push(budget->common, budget->epoch, &budget->evidence, attempt);
}

static void evidence_count(struct rea_budget *budget, uint32_t shard, const struct rea__budget_attempt *attempt, uint64_t now_ns)
{
	struct rea__evidence_batch *batch = batch_of(budget, shard);
	bool before = budget->common != NULL || rea__evidence_batch_due(batch, now_ns);

	if (!before && !batch_count(batch, attempt, now_ns))
		return;
	lock(budget);
	pull(budget, now_ns);
	rea__evidence_merge(&budget->evidence, batch, now_ns);
	if (before && (batch_count(batch, attempt, now_ns) || budget->common != NULL))
		rea__evidence_merge(&budget->evidence, batch, now_ns);
	push(budget, attempt);
	unlock(budget);
}

static bool is_failure(enum rea_budget_result result)
{
	return result > REA_BUDGET_SUCCESS && result < REA_BUDGET_NEUTRAL;
}

static void evidence_report(
    struct rea_budget *budget, uint32_t shard, const struct rea__budget_attempt *attempt, uint64_t now_ns)
{
	if (attempt->result == REA_BUDGET_SUCCESS) {
		evidence_count(budget, shard, attempt, now_ns);
	} else if (is_failure(attempt->result)) {
		lock(budget);
		pull(budget, now_ns);
		rea__evidence_failure(&budget->evidence, batch_of(budget, shard), attempt, now_ns);
		push(budget, attempt);
		unlock(budget);
	}
}

/* The cost of a lease; one that was granted on evidence costs nothing. */
#define LEASE_ON_TOKEN 1

/* batch: what this thread has seen since is part of the evidence; NULL = it is not known which thread asks. */
static enum rea__budget_answer evidence_ask(struct rea_budget *budget, struct rea__evidence_batch *batch,
    const struct rea__budget_question *question, uint64_t now_ns, struct rea_budget_lease *ret_lease,
    struct rea_evidence *ret_says)
{
	enum rea__evidence_ground ground = REA__GROUND_TOKEN;
	enum rea__budget_answer answer;
	bool take;

	lock(budget);
	if (batch != NULL)
		rea__evidence_merge(&budget->evidence, batch, now_ns);
	pull(budget, now_ns);
	answer = rea__evidence_ask(&budget->evidence, question, now_ns, &ground, ret_says);
	take = answer == REA__BUDGET_GRANTED && ret_lease != NULL;
	if (take && budget->common == NULL) {
		rea__evidence_take(&budget->evidence, ground, now_ns);
	} else if (take && !budget->ops->take(budget->common, budget->epoch, ground == REA__GROUND_TOKEN, now_ns)) {
		*ret_says = (struct rea_evidence){.kind = REA_EVIDENCE_RETRIES, .value = budget->evidence.window.retries};
		answer = REA__BUDGET_REFUSED;
		take = false;
	}
	unlock(budget);
	if (take)
		*ret_lease = (struct rea_budget_lease){.taken_ns = now_ns,
		    .rule = REA_BUDGET_EVIDENCE,
		    .cost = ground == REA__GROUND_TOKEN ? LEASE_ON_TOKEN : 0,
		    .held = true};
	return answer;
}

static void evidence_give_back(struct rea_budget *budget, const struct rea_budget_lease *lease)
{
	if (budget->common != NULL) {
		budget->ops->give_back(budget->common, budget->epoch, lease->cost == LEASE_ON_TOKEN, lease->taken_ns);
		return;
	}
	lock(budget);
	rea__evidence_give_back(&budget->evidence, lease->cost == LEASE_ON_TOKEN, lease->taken_ns);
	unlock(budget);
}

/* Looking notes the time and nothing else, so the budget is the same for a caller who may not change it. */
static struct rea_budget *to_look_at(const struct rea_budget *budget)
{
	return (struct rea_budget *)(uintptr_t)budget;
}

static uint64_t evidence_available(const struct rea_budget *budget, uint64_t now_ns)
{
	struct rea_budget *own = to_look_at(budget);
	uint64_t available;

	lock(own);
	pull(own, now_ns);
	available = rea__evidence_available(&own->evidence, now_ns);
	unlock(own);
	return available;
}

/* ---- whichever rule it is ---- */

void rea_budget_deposit(struct rea_budget *budget, uint32_t shard, uint64_t now_ns)
{
	enum rea_budget_rule rule = rule_of(budget);

	assert(shard < budget->shards_len && "rea_budget: the budget was made for fewer shards");
	if (rule == REA_BUDGET_EVIDENCE)
		evidence_count(budget, shard, NULL, now_ns);
	if (rule != REA_BUDGET_RATIO)
		return;
	if (budget->common != NULL)
		rea__common_window_add(&budget->common->deposits, budget->epoch, now_in_ms(now_ns));
	else
		window_add(&budget->shards[shard].deposits, get(&budget->window_ms), now_in_ms(now_ns));
}

bool rea__budget_is_evidence(const struct rea_budget *budget)
{
	return rule_of(budget) == REA_BUDGET_EVIDENCE;
}

void rea__budget_report(struct rea_budget *budget, uint32_t shard, const struct rea__budget_attempt *attempt,
    struct rea_budget_lease *lease, uint64_t now_ns)
{
	assert(shard < budget->shards_len && "rea_budget: the budget was made for fewer shards");
	assert(attempt->result <= REA_BUDGET_NEUTRAL && "rea_budget_report: the result is none of rea/budget.h");
	switch (rule_of(budget)) {
	case REA_BUDGET_RATIO:
		break;
	case REA_BUDGET_GRPC:
		grpc_report(budget, attempt->result);
		break;
	case REA_BUDGET_AWS:
		aws_report(budget, attempt->result, lease);
		break;
	case REA_BUDGET_EVIDENCE:
		evidence_report(budget, shard, attempt, now_ns);
		break;
	}
	if (lease != NULL)
		lease->held = false;
}

void rea_budget_report(struct rea_budget *budget, uint32_t shard, enum rea_budget_result result,
    struct rea_budget_lease *lease, uint64_t now_ns)
{
	const struct rea__budget_attempt attempt = {.result = result, .instances = 1};

	rea__budget_report(budget, shard, &attempt, lease, now_ns);
}

/* Under a rule that counts in tokens and nothing else. */
static double tokens_left(const struct rea_budget *budget)
{
	if (rule_of(budget) == REA_BUDGET_GRPC)
		return (double)bucket_level(bucket_load(budget->grpc)) / TOKEN_PERMILLE;
	return rule_of(budget) == REA_BUDGET_AWS ? bucket_level(bucket_load(budget->aws)) : 0;
}

/* The rules that only grant or refuse. lease: with its rule; its cost is filled in. */
static bool simple_ask(struct rea_budget *budget, enum rea_budget_result failure, bool take, uint64_t now_ns,
    struct rea_budget_lease *lease)
{
	if (lease->rule == REA_BUDGET_RATIO)
		return take ? ratio_take(budget, now_ns) : ratio_available(budget, now_ns) > 0;
	if (lease->rule == REA_BUDGET_GRPC)
		return grpc_spare(budget) > 0; /* the failure was charged for, the retry costs nothing */
	lease->cost = aws_cost(budget, failure);
	return take ? bucket_take(budget->aws, lease->cost) : bucket_level(bucket_load(budget->aws)) >= lease->cost;
}

/* batch: as in evidence_ask. ret_lease NULL: only ask. */
static enum rea__budget_answer ask(struct rea_budget *budget, struct rea__evidence_batch *batch,
    const struct rea__budget_question *question, uint64_t now_ns, struct rea_budget_lease *ret_lease,
    struct rea_evidence *ret_says)
{
	struct rea_budget_lease lease = {.taken_ns = now_ns, .rule = rule_of(budget), .held = true};

	assert(is_failure(question->failure) &&
	       "rea_budget: a retry follows a transient failure, a timeout or throttling");
	if (lease.rule == REA_BUDGET_EVIDENCE)
		return evidence_ask(budget, batch, question, now_ns, ret_lease, ret_says);
	if (!simple_ask(budget, question->failure, ret_lease != NULL, now_ns, &lease)) {
		*ret_says = (struct rea_evidence){.kind = REA_EVIDENCE_TOKENS, .value = tokens_left(budget)};
		return REA__BUDGET_REFUSED;
	}
	if (ret_lease != NULL)
		*ret_lease = lease;
	return REA__BUDGET_GRANTED;
}

enum rea__budget_answer rea__budget_ask(struct rea_budget *budget, uint32_t shard, const struct rea__budget_question *question,
    uint64_t now_ns, struct rea_budget_lease *ret_lease, struct rea_evidence *ret_says)
{
	assert(shard < budget->shards_len && "rea_budget: the budget was made for fewer shards");
	return ask(budget, batch_of(budget, shard), question, now_ns, ret_lease, ret_says);
}

/* For somebody who says nothing of a call: there is no waiting. */
static bool ask_for_anyone(
    struct rea_budget *budget, enum rea_budget_result failure, uint64_t now_ns, struct rea_budget_lease *ret_lease)
{
	const struct rea__budget_question question = {.failure = failure, .instances = 1};
	struct rea_evidence says;

	return ask(budget, NULL, &question, now_ns, ret_lease, &says) == REA__BUDGET_GRANTED;
}

bool rea_budget_withdraw(
    struct rea_budget *budget, enum rea_budget_result failure, uint64_t now_ns, struct rea_budget_lease *ret_lease)
{
	return ask_for_anyone(budget, failure, now_ns, ret_lease);
}

bool rea_budget_permits(const struct rea_budget *budget, enum rea_budget_result failure, uint64_t now_ns)
{
	return ask_for_anyone(to_look_at(budget), failure, now_ns, NULL);
}

void rea_budget_refund(struct rea_budget *budget, struct rea_budget_lease *lease, uint64_t now_ns)
{
	if (!lease->held)
		return;
	lease->held = false;
	if (lease->rule == REA_BUDGET_RATIO)
		ratio_give_back(budget, lease->taken_ns, now_ns);
	else if (lease->rule == REA_BUDGET_AWS)
		bucket_add(budget->aws, lease->cost);
	else if (lease->rule == REA_BUDGET_EVIDENCE)
		evidence_give_back(budget, lease);
}

uint64_t rea_budget_available(const struct rea_budget *budget, uint64_t now_ns)
{
	switch (rule_of(budget)) {
	case REA_BUDGET_RATIO:
		return ratio_available(budget, now_ns);
	case REA_BUDGET_GRPC:
		return grpc_available(budget);
	case REA_BUDGET_AWS:
		return bucket_level(bucket_load(budget->aws)) / aws_cost(budget, REA_BUDGET_TRANSIENT);
	case REA_BUDGET_EVIDENCE:
		return evidence_available(budget, now_ns);
	}
	return 0;
}

void rea_budget_look(const struct rea_budget *budget, uint64_t now_ns, struct rea_budget_view *ret_view)
{
	struct rea_budget *own = to_look_at(budget);

	if (rule_of(budget) != REA_BUDGET_EVIDENCE) {
		*ret_view = (struct rea_budget_view){.rule = rule_of(budget),
		    .available = rea_budget_available(budget, now_ns),
		    .tokens = tokens_left(budget)};
		return;
	}
	lock(own);
	pull(own, now_ns);
	rea__evidence_view(&own->evidence, now_ns, ret_view);
	unlock(own);
}

/* ---- the limit on concurrent retries ---- */

void rea_retry_limit_init(struct rea_retry_limit *limit, uint32_t max)
{
	__atomic_store_n(&limit->in_use, 0, __ATOMIC_RELAXED);
	rea_retry_limit_configure(limit, max);
}

void rea_retry_limit_configure(struct rea_retry_limit *limit, uint32_t max)
{
	assert(max >= 1 && "rea_retry_limit: max is 0");
	__atomic_store_n(&limit->max, max, __ATOMIC_RELAXED);
}

bool rea_retry_limit_acquire(struct rea_retry_limit *limit)
{
	uint32_t in_use = rea_retry_limit_in_use(limit);

	do {
		if (in_use >= rea_retry_limit_max(limit))
			return false;
	} while (!__atomic_compare_exchange_n(&limit->in_use, &in_use, in_use + 1, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return true;
}

void rea_retry_limit_release(struct rea_retry_limit *limit)
{
	uint32_t before = __atomic_fetch_sub(&limit->in_use, 1, __ATOMIC_RELAXED);

	assert(before > 0 && "rea_retry_limit_release: nothing is held");
	(void)before;
}

bool rea_retry_limit_full(const struct rea_retry_limit *limit)
{
	return rea_retry_limit_in_use(limit) >= rea_retry_limit_max(limit);
}

uint32_t rea_retry_limit_in_use(const struct rea_retry_limit *limit)
{
	return __atomic_load_n(&limit->in_use, __ATOMIC_RELAXED);
}

uint32_t rea_retry_limit_max(const struct rea_retry_limit *limit)
{
	return __atomic_load_n(&limit->max, __ATOMIC_RELAXED);
}
