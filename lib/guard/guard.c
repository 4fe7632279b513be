/* What a guard is made of: its options, the objects that its threads share, and the threads. */
#include "guard/internal.h"

#include "base/bounds.h"

#include <rea/time.h>

#include <assert.h>
#include <errno.h>
#include <float.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* The one place where the defaults stand; those of the parts stand with the parts. */
void rea_guard_options_init(struct rea_guard_options *options)
{
	*options = (struct rea_guard_options){
	    .version = REA_GUARD_OPTIONS_VERSION,
	    .name = "",
	    .threads = 16,
	    .limiter_wait_ns = REA_NS_PER_S,
	    .concurrent_retries = 256,
	    .parked_calls = 1000,
	};
	rea_policy_defaults(&options->policy);
	rea_rate_options_init(&options->rate);
	rea_limiter_options_init(&options->limiter);
	rea_adaptive_options_init(&options->adaptive, REA_ADAPTIVE_GRADIENT2);
}

/* ---- bounds ---- */

static const char *name_of(const struct rea_guard_options *options)
{
	return options->name != NULL ? options->name : "";
}

static double to_ms(uint64_t ns)
{
	return (double)ns / (double)REA_NS_PER_MS;
}

static int check_numbers(const struct rea_guard_options *options, struct rea_error_info *info)
{
	const double wait_ms_max = to_ms(REA_POLICY_DEADLINE_NS_MAX);
	const struct rea__bound bounds[] = {
	    {"name", "the length of the name", (double)strnlen(name_of(options), REA_GUARD_NAME_MAX + 1), 0,
		REA_GUARD_NAME_MAX, false, NULL},
	    {"threads", "threads", options->threads, 1, REA_SHARDS_MAX, false, NULL},
	    {"rate_wait_ns", "rate_wait_ns in ms", to_ms(options->rate_wait_ns), 0, wait_ms_max, false, NULL},
	    {"limiter_wait_ns", "limiter_wait_ns in ms", to_ms(options->limiter_wait_ns), 0, wait_ms_max, false, NULL},
	    {"adaptive_on", "adaptive_on", options->adaptive_on, 0, options->limiter_on, false, "limiter_on"},
	    {"concurrent_retries", "concurrent_retries", options->concurrent_retries, 1, REA_GUARD_RETRIES_MAX, false, NULL},
	    {"parked_calls", "parked_calls", options->parked_calls, 1, REA_GUARD_RETRIES_MAX, false, NULL},
	};

	return rea__check_bounds(bounds, sizeof(bounds) / sizeof(bounds[0]), info);
}

/* The limiters live in the guard and are made by this; each says itself what is out of its bounds. */
static int init_limiters(struct rea_guard *guard, struct rea_error_info *info)
{
	const struct rea_guard_options *options = &guard->options;
	int error = 0;

	if (options->rate_on)
		error = rea_rate_init(&guard->rate, &options->rate, info);
	if (options->limiter_on && error == 0)
		error = rea_limiter_init(&guard->limiter, &options->limiter, info);
	if (options->adaptive_on && error == 0)
		error = rea_adaptive_init(&guard->adaptive, &options->adaptive, info);
	if (options->adaptive_on && error == 0)
		rea_limiter_resize(&guard->limiter, rea_adaptive_limit(&guard->adaptive), options->limiter.waiting_max, 0);
	return error;
}

/* ---- new and free ---- */

static void tell_breaker(const struct rea_breaker_change *change, void *user_data)
{
	const struct rea_guard *guard = user_data;
	struct rea_event event = {
	    .type = REA_EVENT_BREAKER,
	    .attempt_start_ns = change->now_ns,
	    .time_ns = change->now_ns,
	    .service = {guard->name, strlen(guard->name)},
	};
	struct rea_format text;
	char detail[64];

	rea_format_init(&text, detail, sizeof(detail));
	rea_format_text(&text, rea_breaker_state_name(change->from));
	rea_format_text(&text, " to ");
	rea_format_text(&text, rea_breaker_state_name(change->to));
	event.detail = (struct rea_text){detail, text.length};
	guard->options.event(&event, guard->options.user_data);
}

static int make_shared_parts(struct rea_guard *guard, struct rea_error_info *info)
{
	const struct rea_guard_options *options = &guard->options;
	int error = rea_budget_new(&options->policy.budget, options->threads, &guard->alloc, &guard->budget, info);

	if (error != 0 || !options->policy.breaker.enabled)
		return error;
	error = rea_shared_breaker_new(&options->policy.breaker, options->threads, &guard->alloc, &guard->breaker, info);
	if (error == 0 && options->event != NULL)
		rea_shared_breaker_on_change(guard->breaker, tell_breaker, guard);
	return error;
}

static void link_parts(struct rea_guard *guard)
{
	guard->retry_limit = guard->options.retry_limit;
	if (guard->retry_limit == NULL)
		guard->retry_limit = &guard->own_retry_limit;
	rea_retry_limit_init(&guard->own_retry_limit, guard->options.concurrent_retries);
	guard->parking = guard->options.parking;
	if (guard->parking == NULL)
		guard->parking = &guard->own_parking;
	rea_retry_limit_init(&guard->own_parking, guard->options.parked_calls);
	rea_shards_init(&guard->taken, guard->options.threads);
	rea_call_options_init(&guard->call);
	guard->call.policy = &guard->options.policy;
	guard->call.budget = guard->budget;
	guard->call.limit = guard->retry_limit;
	guard->call.parking = guard->parking;
	for (uint32_t i = 0; guard->breaker != NULL && i < guard->options.threads; i++)
		rea_shared_gate_init(&guard->shards[i].gate, guard->breaker, i);
}

/* The guard and its shards in one block. The options are valid. */
static struct rea_guard *allocate(const struct rea_guard_options *options, const struct rea_alloc *alloc)
{
	/* Room to move to the start of a cache line, which no allocator promises. */
	size_t size = sizeof(struct rea_guard) + options->threads * sizeof(struct rea__guard_shard) + REA__CACHE_LINE - 1;
	void *block = alloc->realloc(NULL, size, alloc->user_data);
	struct rea_guard *guard;

	if (block == NULL)
		return NULL;
	memset(block, 0, size);
	guard = (void *)(((uintptr_t)block + REA__CACHE_LINE - 1) & ~(uintptr_t)(REA__CACHE_LINE - 1));
	guard->block = block;
	guard->alloc = *alloc;
	guard->shards = (void *)(guard + 1);
	guard->options = *options;
	memcpy(guard->name, name_of(options), strlen(name_of(options)));
	guard->options.name = guard->name;
	return guard;
}

static void release(struct rea_guard *guard)
{
	struct rea_alloc alloc = guard->alloc;

	rea_shared_breaker_free(guard->breaker);
	rea_budget_free(guard->budget);
	alloc.free(guard->block, alloc.user_data);
}

int rea_guard_new(const struct rea_guard_options *options, const struct rea_alloc *alloc, struct rea_guard **ret_guard,
    struct rea_error_info *ret_info)
{
	struct rea_guard *guard;
	int error;

	assert(options->version == REA_GUARD_OPTIONS_VERSION &&
	       "rea_guard_new: the options were not initialised by rea_guard_options_init");
	error = check_numbers(options, ret_info);
	if (error == 0)
		error = rea_policy_validate(&options->policy, ret_info);
	if (error != 0)
		return error;
	guard = allocate(options, alloc != NULL ? alloc : rea_alloc_default());
	if (guard == NULL)
		return REA_ERR_NOMEM;
	error = init_limiters(guard, ret_info);
	if (error == 0)
		error = make_shared_parts(guard, ret_info);
	if (error != 0) {
		release(guard);
		return error;
	}
	link_parts(guard);
	pthread_mutex_init(&guard->rate_lock, NULL);
	pthread_mutex_init(&guard->limiter_lock, NULL);
	*ret_guard = guard;
	return 0;
}

static bool has_threads(const struct rea_guard *guard)
{
	for (size_t i = 0; i < sizeof(guard->taken.taken) / sizeof(guard->taken.taken[0]); i++)
		if (__atomic_load_n(&guard->taken.taken[i], __ATOMIC_ACQUIRE) != 0)
			return true;
	return false;
}

void rea_guard_free(struct rea_guard *guard)
{
	struct rea_service_stats stats;

	if (guard == NULL)
		return;
	rea_guard_stats(guard, &stats);
	assert(stats.in_flight == 0 && "rea_guard_free: a call is still open");
	assert(!has_threads(guard) && "rea_guard_free: a thread has not left");
	pthread_mutex_destroy(&guard->rate_lock);
	pthread_mutex_destroy(&guard->limiter_lock);
	release(guard);
}

/* ---- looking ---- */

void rea_guard_stats(const struct rea_guard *guard, struct rea_service_stats *ret_stats)
{
	struct rea_service_stats total = {0};

	for (uint32_t i = 0; i < guard->options.threads; i++)
		rea_service_stats_sum(&total, &guard->shards[i].stats);
	*ret_stats = total;
}

struct rea_shared_breaker *rea_guard_breaker(struct rea_guard *guard)
{
	return guard->breaker;
}

const struct rea_policy *rea_guard_policy(const struct rea_guard *guard)
{
	return &guard->options.policy;
}

/* ---- threads ---- */

int rea_guard_join(struct rea_guard *guard, uint64_t seed, struct rea_guard_thread *ret_thread)
{
	uint32_t shard;
	int error = rea_shards_take(&guard->taken, &shard);

	if (error != 0)
		return error;
	*ret_thread = (struct rea_guard_thread){.guard = guard, .shard = shard, .wake_fd = -1};
	rea_random_init(&ret_thread->random, seed);
	return 0;
}

void rea_guard_leave(struct rea_guard_thread *thread)
{
	assert(thread->guard != NULL && "rea_guard_leave: the thread has not joined");
	if (thread->wake_fd >= 0)
		close(thread->wake_fd);
	rea_shards_give_back(&thread->guard->taken, thread->shard);
	thread->guard = NULL;
}

uint64_t rea_seed(void)
{
	uint64_t seed;

	/* Eight bytes come whole, and fail only before the system has gathered any. */
	while (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
		assert(errno == EINTR);
	return seed;
}
