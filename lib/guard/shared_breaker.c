/*
 * Circuit breaker for many threads.
 *
 * Guarantees: half-open never hands out more permits than are permitted; a result decides only in the generation its permit was given in; a
 * success that is not slow, in a closed breaker, writes one word on its shard's own cache line and nothing else, takes no lock and waits for
 * nobody; a refusal writes nothing.
 *
 * States, transitions and what decides them are those of core/breaker.c. Here is how many threads share them:
 *
 *   word     generation, state, half-open permits left and the watch in one. Read by every call. Written under the lock, but for the permits:
 *            those go by compare-and-swap, and a change of state swaps the whole word, so a permit is of one generation, whoever wins.
 *   shards   good and quick results of the generation that stands beside their number, all of one second. Written by the shard's thread. They
 *            wait there until fold() moves them into the window.
 *   the rest under the lock.
 *
 * A success that is neither late nor slow can do nothing to a closed breaker but lower its rates, so it may wait in its shard until something
 * happens whose decision it has a part in. That is:
 *   a failure or a slow call, any result of another generation, any result in another state     taken under the lock, after a fold
 *   a new second of a time window: what is left of the old ones may weigh more                    each shard's first result in it
 *   the watch: so many failures are there already that reaching the minimum number of calls would open    every result
 * Between two folds there are therefore only successes that came one after the other, and a fold puts them where one thread would have.
 */
#include "guard/shared_breaker.h"

#include "base/bounds.h"
#include "base/probe.h"
#include "core/window.h"
#include "explain/words.h"

#include <rea/time.h>

#include <assert.h>
#include <pthread.h>
#include <string.h>

#define CACHE_LINE 64
/* Successes that a shard lets wait. */
#define PENDING_MAX 65536

/* ---- the word ---- */

#define STATE_BITS 7
#define WATCH (UINT64_C(1) << STATE_BITS)
#define PERMITS_SHIFT 8
#define PERMITS_BITS 16
#define PERMIT (UINT64_C(1) << PERMITS_SHIFT)
#define GENERATION_SHIFT (PERMITS_SHIFT + PERMITS_BITS)

static uint64_t make_word(uint64_t generation, enum rea_breaker_state state, uint32_t permits)
{
	return generation << GENERATION_SHIFT | (uint64_t)permits << PERMITS_SHIFT | state;
}

static enum rea_breaker_state state_of(uint64_t word)
{
	return (enum rea_breaker_state)(word & (WATCH - 1));
}

static uint64_t generation_of(uint64_t word)
{
	return word >> GENERATION_SHIFT;
}

static uint32_t permits_of(uint64_t word)
{
	return (uint32_t)(word >> PERMITS_SHIFT) & ((1 << PERMITS_BITS) - 1);
}

/* ---- a shard's results ---- */

/* 24 bits of the generation and 40 of the number. */
#define COUNT_BITS 40
#define COUNT_MASK ((UINT64_C(1) << COUNT_BITS) - 1)

static uint64_t no_results(uint64_t generation)
{
	return generation << COUNT_BITS;
}

static bool results_are_of(uint64_t results, uint64_t generation)
{
	return (results & ~COUNT_MASK) == no_results(generation);
}

struct shard {
	_Alignas(CACHE_LINE) uint64_t results; /* atomic; the shard's thread writes */
	uint64_t second;                       /* of the results; that thread writes, under the lock */
	uint64_t folded;                       /* under the lock: the results that are in the window already */
};

struct rea_shared_breaker {
	/* Read by every call, seldom written. */
	uint64_t word; /* atomic */
	uint64_t until_ns; /* atomic: OPEN: when it may be tried; HALF_OPEN: when permits that did not come back are given up */
	struct rea_breaker_policy policy;
	uint32_t shards_len;
	uint32_t shards_used; /* atomic: one more than the highest shard that ever reported something */
	struct shard *shards;
	void (*changed)(const struct rea_breaker_change *change, void *user_data);
	void *user_data;
	struct rea_alloc alloc;
	void *block; /* what was allocated */

	_Alignas(CACHE_LINE) pthread_mutex_t lock;
	uint64_t now_ns;          /* latest seen */
	struct rea__tally probes; /* HALF_OPEN: the results of this generation's permits */
	struct rea__window window;
	struct rea__tally slots[];
};

static uint64_t load_word(const struct rea_shared_breaker *breaker)
{
	/* Acquire: until_ns is at least as new as the word. */
	return __atomic_load_n(&breaker->word, __ATOMIC_ACQUIRE);
}

/* ---- making and freeing ---- */

/* Everything in one block: the breaker, its window, and from the next cache line on the shards. */
static size_t shards_offset(const struct rea_breaker_policy *policy)
{
	size_t size = sizeof(struct rea_shared_breaker) + policy->window_size * sizeof(struct rea__tally);

	return (size + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
}

static struct rea_shared_breaker *allocate(
    const struct rea_breaker_policy *policy, uint32_t shards, const struct rea_alloc *alloc)
{
	/* Room to move to the start of a cache line, which no allocator promises. */
	size_t offset = shards_offset(policy), size = offset + shards * sizeof(struct shard) + CACHE_LINE - 1;
	void *block = alloc->realloc(NULL, size, alloc->user_data);
	struct rea_shared_breaker *breaker;

	if (block == NULL)
		return NULL;
	memset(block, 0, size);
	breaker = (void *)(((uintptr_t)block + CACHE_LINE - 1) & ~(uintptr_t)(CACHE_LINE - 1));
	breaker->block = block;
	breaker->alloc = *alloc;
	breaker->shards = (void *)((char *)breaker + offset);
	breaker->shards_len = shards;
	return breaker;
}

int rea_shared_breaker_new(const struct rea_breaker_policy *policy, uint32_t shards, const struct rea_alloc *alloc,
    struct rea_shared_breaker **ret_breaker, struct rea_error_info *ret_info)
{
	const struct rea__bound shards_bound = {"shards", "the number of shards", shards, 1, REA_SHARDS_MAX, false, NULL};
	struct rea_shared_breaker *breaker;
	int error = rea_breaker_policy_validate(policy, ret_info);

	if (error == 0)
		error = rea__check_bounds(&shards_bound, 1, ret_info);
	if (error != 0)
		return error;
	breaker = allocate(policy, shards, alloc != NULL ? alloc : rea_alloc_default());
	if (breaker == NULL)
		return REA_ERR_NOMEM;
	if (pthread_mutex_init(&breaker->lock, NULL) != 0) {
		breaker->alloc.free(breaker->block, breaker->alloc.user_data);
		return REA_ERR_NOMEM;
	}
	breaker->policy = *policy;
	/* Not 0, which the shards stand at: so the first result of each of them comes to the lock and makes it known. */
	breaker->word = make_word(1, REA_BREAKER_CLOSED, 0);
	breaker->until_ns = REA_NEVER;
	rea__window_init(&breaker->window, policy, breaker->slots);
	*ret_breaker = breaker;
	return 0;
}

void rea_shared_breaker_free(struct rea_shared_breaker *breaker)
{
	struct rea_alloc alloc;

	if (breaker == NULL)
		return;
	pthread_mutex_destroy(&breaker->lock);
	alloc = breaker->alloc;
	alloc.free(breaker->block, alloc.user_data);
}

void rea_shared_breaker_on_change(struct rea_shared_breaker *breaker,
    void (*changed)(const struct rea_breaker_change *change, void *user_data), void *user_data)
{
	breaker->changed = changed;
	breaker->user_data = user_data;
}

/* ---- under the lock ---- */

/* What happened while the lock was held, to be told afterwards: what was overdue, and what the caller came for. */
struct changes {
	struct rea_breaker_change items[2];
	size_t count;
};

static void tell(struct rea_shared_breaker *breaker, const struct changes *changes)
{
	for (size_t i = 0; i < changes->count && breaker->changed != NULL; i++)
		breaker->changed(&changes->items[i], breaker->user_data);
}

static void lock(struct rea_shared_breaker *breaker, struct changes *changes)
{
	changes->count = 0;
	pthread_mutex_lock(&breaker->lock);
}

static void unlock(struct rea_shared_breaker *breaker, const struct changes *changes)
{
	pthread_mutex_unlock(&breaker->lock);
	tell(breaker, changes);
}

static void assert_valid(const struct rea_shared_breaker *breaker)
{
	const struct rea__tally *total = &breaker->window.total, *probes = &breaker->probes;
	uint64_t word = load_word(breaker);

	assert(state_of(word) < REA_BREAKER_STATE_COUNT);
	assert(total->failures <= total->calls && total->slow <= total->calls);
	assert(breaker->window.timed || total->calls <= breaker->window.size);
	assert(probes->failures <= probes->calls && probes->slow <= probes->calls);
	if (state_of(word) == REA_BREAKER_HALF_OPEN)
		assert(permits_of(word) + probes->calls <= breaker->policy.permitted_in_half_open);
	else
		assert(permits_of(word) == 0 && probes->calls == 0);
	(void)word;
}

/* Are results of this kind counted in this state? */
static bool counts(enum rea_breaker_state state, bool current)
{
	return state != REA_BREAKER_DISABLED && (state != REA_BREAKER_CLOSED || current);
}

/* Move what the shards hold into the window. */
static void fold(struct rea_shared_breaker *breaker)
{
	uint32_t used = __atomic_load_n(&breaker->shards_used, __ATOMIC_RELAXED);
	uint64_t word = load_word(breaker);

	for (uint32_t i = 0; i < used; i++) {
		struct shard *shard = &breaker->shards[i];
		uint64_t results = __atomic_load_n(&shard->results, __ATOMIC_RELAXED);

		if (results == shard->folded)
			continue;
		if (counts(state_of(word), results_are_of(results, generation_of(word))))
			rea__window_add_successes(&breaker->window, (results - shard->folded) & COUNT_MASK,
			    rea_time_mul(shard->second, REA_NS_PER_S));
		shard->folded = results;
	}
}

static bool may_follow(enum rea_breaker_state from, enum rea_breaker_state to)
{
	return (from == REA_BREAKER_CLOSED && to == REA_BREAKER_OPEN) ||
	       (from == REA_BREAKER_OPEN && to == REA_BREAKER_HALF_OPEN) ||
	       (from == REA_BREAKER_HALF_OPEN && (to == REA_BREAKER_OPEN || to == REA_BREAKER_CLOSED));
}

/* When a state that began at at_ns ends by itself, or may be left. */
static uint64_t until(const struct rea_breaker_policy *policy, enum rea_breaker_state state, uint64_t at_ns)
{
	if (state == REA_BREAKER_OPEN)
		return rea_time_add(at_ns, policy->wait_in_open_ns);
	if (state == REA_BREAKER_HALF_OPEN && policy->max_wait_in_half_open_ns > 0)
		return rea_time_add(at_ns, policy->max_wait_in_half_open_ns);
	return REA_NEVER;
}

/* The only place where the state changes. The shards are folded. */
static void change_state(
    struct rea_shared_breaker *breaker, enum rea_breaker_state to, bool forced, uint64_t at_ns, struct changes *changes)
{
	uint64_t word = load_word(breaker), generation = generation_of(word) + 1;
	enum rea_breaker_state from = state_of(word);

	assert(forced || may_follow(from, to));
	memset(&breaker->probes, 0, sizeof(breaker->probes));
	if (to == REA_BREAKER_CLOSED)
		rea__window_clear(&breaker->window);
	/* Before the word: who reads the new word reads this too. Who reads it under the old word is refused, or comes to the lock in vain. */
	__atomic_store_n(&breaker->until_ns, until(&breaker->policy, to, at_ns), __ATOMIC_RELAXED);
	__atomic_store_n(&breaker->word,
	    make_word(generation, to, to == REA_BREAKER_HALF_OPEN ? breaker->policy.permitted_in_half_open : 0),
	    __ATOMIC_RELEASE);
	if (from == to)
		return;
	REA__PROBE(breaker_change, breaker, from, to, at_ns);
	assert(changes->count < sizeof(changes->items) / sizeof(changes->items[0]));
	changes->items[changes->count++] = (struct rea_breaker_change){from, to, generation, at_ns};
}

static uint64_t until_of(const struct rea_shared_breaker *breaker)
{
	return __atomic_load_n(&breaker->until_ns, __ATOMIC_RELAXED);
}

/* Bring the breaker to now: what a timer would have done meanwhile happens as of the time it was due; what the shards hold is counted. */
static void catch_up(struct rea_shared_breaker *breaker, uint64_t now_ns, struct changes *changes)
{
	assert_valid(breaker);
	breaker->now_ns = rea_time_max(breaker->now_ns, now_ns);
	fold(breaker);
	if (state_of(load_word(breaker)) == REA_BREAKER_HALF_OPEN && breaker->now_ns >= until_of(breaker))
		change_state(breaker, REA_BREAKER_OPEN, false, until_of(breaker), changes);
}

/* ---- permits ---- */

/* A permit of the state that the word is in, if it has one to give. False with *ret_stale: the word is no longer what it was. */
static bool take_permit(struct rea_shared_breaker *breaker, uint64_t word, bool *ret_stale)
{
	*ret_stale = false;
	switch (state_of(word)) {
	case REA_BREAKER_CLOSED:
	case REA_BREAKER_DISABLED:
	case REA_BREAKER_METRICS_ONLY:
		return true;
	case REA_BREAKER_OPEN:
	case REA_BREAKER_FORCED_OPEN:
		return false;
	case REA_BREAKER_HALF_OPEN:
		if (permits_of(word) == 0)
			return false;
		*ret_stale = !__atomic_compare_exchange_n(
		    &breaker->word, &word, word - PERMIT, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
		return !*ret_stale;
	case REA_BREAKER_STATE_COUNT:
		break;
	}
	assert(false);
	return false;
}

static void notice_overdue(struct rea_shared_breaker *breaker, uint64_t now_ns)
{
	struct changes changes;

	lock(breaker, &changes);
	catch_up(breaker, now_ns, &changes);
	unlock(breaker, &changes);
}

/* Back to the half-open state that it came from, if that is not over; to no other. */
static void give_permit_back(struct rea_shared_breaker *breaker, uint64_t generation, uint64_t now_ns)
{
	uint64_t word = load_word(breaker);

	if (state_of(word) == REA_BREAKER_HALF_OPEN && now_ns >= until_of(breaker)) {
		notice_overdue(breaker, now_ns);
		return;
	}
	while (generation_of(word) == generation && state_of(word) == REA_BREAKER_HALF_OPEN)
		if (__atomic_compare_exchange_n(&breaker->word, &word, word + PERMIT, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			return;
}

/* Has the time come that the state waits for? */
static bool overdue(const struct rea_shared_breaker *breaker, uint64_t word, uint64_t now_ns)
{
	return (state_of(word) == REA_BREAKER_OPEN || state_of(word) == REA_BREAKER_HALF_OPEN) &&
	       now_ns >= until_of(breaker);
}

/* OPEN whose wait has passed becomes HALF_OPEN; HALF_OPEN whose permits never came back becomes OPEN. */
static uint64_t move_on(struct rea_shared_breaker *breaker, uint64_t now_ns)
{
	struct changes changes;
	uint64_t word;

	lock(breaker, &changes);
	catch_up(breaker, now_ns, &changes);
	if (state_of(load_word(breaker)) == REA_BREAKER_OPEN && breaker->now_ns >= until_of(breaker))
		change_state(breaker, REA_BREAKER_HALF_OPEN, false, breaker->now_ns, &changes);
	word = load_word(breaker);
	assert_valid(breaker);
	unlock(breaker, &changes);
	return word;
}

bool rea_shared_breaker_acquire(struct rea_shared_breaker *breaker, uint64_t now_ns, struct rea_breaker_permit *ret_permit)
{
	uint64_t word = load_word(breaker);
	bool stale;

	do {
		if (overdue(breaker, word, now_ns))
			word = move_on(breaker, now_ns);
		ret_permit->given = take_permit(breaker, word, &stale);
		ret_permit->generation = generation_of(word);
		if (stale)
			word = load_word(breaker);
	} while (stale);
	return ret_permit->given;
}

bool rea_shared_breaker_permits(const struct rea_shared_breaker *breaker, uint64_t now_ns)
{
	uint64_t word = load_word(breaker), until_ns = until_of(breaker);

	switch (state_of(word)) {
	case REA_BREAKER_CLOSED:
	case REA_BREAKER_DISABLED:
	case REA_BREAKER_METRICS_ONLY:
		return true;
	case REA_BREAKER_FORCED_OPEN:
		return false;
	case REA_BREAKER_OPEN:
		return now_ns >= until_ns;
	case REA_BREAKER_HALF_OPEN:
		return now_ns < until_ns ? permits_of(word) > 0
					 : now_ns >= rea_time_add(until_ns, breaker->policy.wait_in_open_ns);
	case REA_BREAKER_STATE_COUNT:
		break;
	}
	assert(false);
	return false;
}

/* ---- results ---- */

/* Would a success that brings the calls to the minimum open the breaker? */
static bool must_watch(const struct rea_shared_breaker *breaker)
{
	struct rea__tally total = breaker->window.total;
	uint32_t minimum = rea__minimum_calls(&breaker->policy);

	if (total.calls >= minimum)
		return false;
	total.calls = minimum;
	return rea__over_threshold(&breaker->policy, &total);
}

static void decide_closed(struct rea_shared_breaker *breaker, struct changes *changes)
{
	const struct rea__tally *total = &breaker->window.total;
	uint64_t word = load_word(breaker);

	if (total->calls >= rea__minimum_calls(&breaker->policy) && rea__over_threshold(&breaker->policy, total))
		change_state(breaker, REA_BREAKER_OPEN, false, breaker->now_ns, changes);
	else if (must_watch(breaker) != ((word & WATCH) != 0))
		__atomic_store_n(&breaker->word, word ^ WATCH, __ATOMIC_RELEASE);
}

static void decide_half_open(struct rea_shared_breaker *breaker, bool failed, bool slow, struct changes *changes)
{
	const struct rea_breaker_policy *policy = &breaker->policy;
	uint32_t needed = policy->minimum_calls < policy->permitted_in_half_open ? policy->minimum_calls
										 : policy->permitted_in_half_open;

	rea__tally_count(&breaker->probes, failed, slow);
	if (breaker->probes.calls >= needed)
		change_state(breaker, rea__over_threshold(policy, &breaker->probes) ? REA_BREAKER_OPEN : REA_BREAKER_CLOSED,
		    false, breaker->now_ns, changes);
}

/* The shard's thread, under the lock, folded: from now on it counts results of this generation and second. */
static void begin_counting(struct rea_shared_breaker *breaker, struct shard *shard)
{
	uint32_t used = (uint32_t)(shard - breaker->shards) + 1;

	shard->second = breaker->now_ns / REA_NS_PER_S;
	shard->folded = no_results(generation_of(load_word(breaker)));
	__atomic_store_n(&shard->results, shard->folded, __ATOMIC_RELAXED);
	if (used > __atomic_load_n(&breaker->shards_used, __ATOMIC_RELAXED))
		__atomic_store_n(&breaker->shards_used, used, __ATOMIC_RELAXED);
}

static void report_locked(struct rea_shared_breaker *breaker, struct shard *shard, uint64_t generation, bool failed,
    bool slow, uint64_t now_ns)
{
	struct changes changes;
	uint64_t word;
	bool current;

	lock(breaker, &changes);
	catch_up(breaker, now_ns, &changes);
	word = load_word(breaker);
	current = generation == generation_of(word);
	if (counts(state_of(word), current))
		rea__window_add(&breaker->window, failed, slow, breaker->now_ns);
	if (current && state_of(word) == REA_BREAKER_CLOSED)
		decide_closed(breaker, &changes);
	else if (current && state_of(word) == REA_BREAKER_HALF_OPEN)
		decide_half_open(breaker, failed, slow, &changes);
	begin_counting(breaker, shard);
	assert_valid(breaker);
	unlock(breaker, &changes);
}

/* A result that nothing depends on: one more for the shard. */
static bool count_quietly(const struct rea_shared_breaker *breaker, struct shard *shard, uint64_t generation, uint64_t now_ns)
{
	uint64_t word = load_word(breaker), results = __atomic_load_n(&shard->results, __ATOMIC_RELAXED);

	if ((word & (~UINT64_C(0) << GENERATION_SHIFT | WATCH)) != generation << GENERATION_SHIFT ||
	    state_of(word) == REA_BREAKER_HALF_OPEN || !results_are_of(results, generation) ||
	    (results & COUNT_MASK) == PENDING_MAX || (breaker->window.timed && now_ns / REA_NS_PER_S > shard->second))
		return false;
	__atomic_store_n(&shard->results, results + 1, __ATOMIC_RELAXED);
	return true;
}

void rea_shared_breaker_report(struct rea_shared_breaker *breaker, uint32_t shard, struct rea_breaker_permit *permit,
    enum rea_breaker_result result, uint64_t latency_ns, uint64_t now_ns)
{
	bool failed = result == REA_BREAKER_FAILURE, slow = rea__is_slow(&breaker->policy, latency_ns);

	assert(shard < breaker->shards_len && "rea_shared_breaker: the breaker was made for fewer shards");
	if (!permit->given)
		return;
	permit->given = false;
	if (result == REA_BREAKER_IGNORED) {
		give_permit_back(breaker, permit->generation, now_ns);
		return;
	}
	if (failed || slow || !count_quietly(breaker, &breaker->shards[shard], permit->generation, now_ns))
		report_locked(breaker, &breaker->shards[shard], permit->generation, failed, slow, now_ns);
}

/* ---- looking, and the operator ---- */

enum rea_breaker_state rea_shared_breaker_state(const struct rea_shared_breaker *breaker)
{
	return state_of(load_word(breaker));
}

void rea_shared_breaker_force(struct rea_shared_breaker *breaker, enum rea_breaker_state state, uint64_t now_ns)
{
	struct changes changes;

	assert(state < REA_BREAKER_STATE_COUNT && "rea_shared_breaker_force: the state is none of rea/breaker.h");
	lock(breaker, &changes);
	catch_up(breaker, now_ns, &changes);
	change_state(breaker, state, true, breaker->now_ns, &changes);
	assert_valid(breaker);
	unlock(breaker, &changes);
}

/* Looking counts what the shards hold, which changes no answer, so the breaker is the same for a caller who may not change it. */
static struct rea_shared_breaker *to_look_at(const struct rea_shared_breaker *breaker)
{
	return (struct rea_shared_breaker *)(uintptr_t)breaker;
}

void rea__shared_breaker_look(const struct rea_shared_breaker *breaker, uint64_t now_ns, struct rea__breaker_view *ret_view)
{
	struct rea_shared_breaker *own = to_look_at(breaker);
	struct changes changes;
	struct rea__tally total;
	bool enough;

	lock(own, &changes);
	fold(own);
	now_ns = rea_time_max(own->now_ns, now_ns);
	total = rea__window_at(&own->window, now_ns);
	enough = total.calls >= rea__minimum_calls(&own->policy);
	*ret_view = (struct rea__breaker_view){.policy = &own->policy,
	    .state = state_of(load_word(own)),
	    .left_ns = rea_time_sub(until_of(own), now_ns),
	    .permits_left = permits_of(load_word(own)),
	    .calls = total.calls,
	    .failure_rate = enough ? rea__percent(total.failures, total.calls) : -1,
	    .slow_call_rate = enough ? rea__percent(total.slow, total.calls) : -1};
	unlock(own, &changes);
}

double rea_shared_breaker_failure_rate(const struct rea_shared_breaker *breaker, uint64_t now_ns)
{
	struct rea__breaker_view view;

	rea__shared_breaker_look(breaker, now_ns, &view);
	return view.failure_rate;
}

double rea_shared_breaker_slow_call_rate(const struct rea_shared_breaker *breaker, uint64_t now_ns)
{
	struct rea__breaker_view view;

	rea__shared_breaker_look(breaker, now_ns, &view);
	return view.slow_call_rate;
}

size_t rea_shared_breaker_explain(const struct rea_shared_breaker *breaker, uint64_t now_ns, char *ret_text, size_t size)
{
	struct rea__breaker_view view;
	struct rea_format out;

	rea_format_init(&out, ret_text, size);
	rea__shared_breaker_look(breaker, now_ns, &view);
	rea__put(&out, "circuit breaker: ");
	rea__explain_breaker(&out, &view);
	rea__put_number(&out, "; for ", breaker->shards_len, " threads\n");
	return out.length;
}

/* ---- as a call sees it ---- */

static bool gate_acquire(void *user_data, uint64_t now_ns, struct rea_breaker_permit *ret_permit)
{
	struct rea_shared_gate *gate = user_data;

	return rea_shared_breaker_acquire(gate->breaker, now_ns, ret_permit);
}

static bool gate_permits(void *user_data, uint64_t now_ns)
{
	struct rea_shared_gate *gate = user_data;

	return rea_shared_breaker_permits(gate->breaker, now_ns);
}

static void gate_report(void *user_data, struct rea_breaker_permit *permit, enum rea_breaker_result result,
    uint64_t latency_ns, uint64_t now_ns)
{
	struct rea_shared_gate *gate = user_data;

	rea_shared_breaker_report(gate->breaker, gate->shard, permit, result, latency_ns, now_ns);
}

void rea_shared_gate_init(struct rea_shared_gate *gate, struct rea_shared_breaker *breaker, uint32_t shard)
{
	assert(shard < breaker->shards_len && "rea_shared_breaker: the breaker was made for fewer shards");
	*gate = (struct rea_shared_gate){{gate_acquire, gate_permits, gate_report, gate}, breaker, shard};
}
