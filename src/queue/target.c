#include "queue/target.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct target *target_new(struct rea_slice name, bool is_url)
{
	struct target *target = calloc(1, sizeof(*target));

	if (target == NULL)
		return NULL;
	target->name = malloc(name.length + 1);
	if (target->name == NULL) {
		free(target);
		return NULL;
	}
	memcpy(target->name, name.data, name.length);
	target->name[name.length] = '\0';
	target->name_len = name.length;
	target->is_url = is_url;
	target->concurrency = 1;
	target->first = target->last = TARGET_NONE;
	return target;
}

void target_free(struct target *target)
{
	free(target->name);
	free(target);
}

/* So many in a period that both are whole: 0.5 a second is 1 in 2 s, 2.5 is 5 in 2 s. */
static void configure_rate(struct target *target, double rate_per_s)
{
	struct rea_rate_options options;
	double period_s = rate_per_s < 1 ? 1 / rate_per_s : 1;

	rea_rate_options_init(&options);
	options.permits = rate_per_s < 1 ? 1 : (uint32_t)lround(rate_per_s * 10);
	options.period_ns = (uint64_t)(period_s * (rate_per_s < 1 ? 1 : 10) * (double)REA_NS_PER_S);
	options.burst = rate_per_s < 1 ? 1 : (uint32_t)ceil(rate_per_s / 10);
	if (target->rate_per_s > 0)
		rea_rate_configure(&target->rate, &options, NULL);
	else
		rea_rate_init(&target->rate, &options, NULL);
}

void target_configure(struct target *target, uint32_t concurrency, double rate_per_s)
{
	target->concurrency = concurrency;
	if (rate_per_s > 0 && rate_per_s != target->rate_per_s)
		configure_rate(target, rate_per_s);
	target->rate_per_s = rate_per_s;
}

/* How many may run now; ret_next_ns: when one more. */
static uint32_t allowed(struct target *target, uint64_t now_ns, uint64_t *ret_next_ns)
{
	uint64_t steps;

	if (target->climb_ns == 0)
		target->climb_ns = now_ns;
	steps = rea_time_sub(now_ns, target->climb_ns) / TARGET_STEP_NS + 1;
	*ret_next_ns = REA_NEVER;
	if (steps >= target->concurrency)
		return target->concurrency;
	*ret_next_ns = target->climb_ns + steps * TARGET_STEP_NS;
	return (uint32_t)steps;
}

bool target_begin(struct target *target, uint64_t now_ns, uint64_t *ret_wake_ns)
{
	uint64_t next_ns;

	*ret_wake_ns = REA_NEVER;
	if (target->paused && now_ns >= target->paused_until_ns)
		target->paused = false;
	if (target->held_until_ns <= now_ns)
		target->held_until_ns = 0;
	if (target->draining)
		return false;
	if (target->paused)
		*ret_wake_ns = target->paused_until_ns;
	else if (target->held_until_ns > 0)
		*ret_wake_ns = target->held_until_ns;
	else if (target->running >= allowed(target, now_ns, &next_ns))
		*ret_wake_ns = next_ns;
	else if (target->rate_per_s > 0 && !rea_rate_acquire(&target->rate, 1, now_ns))
		*ret_wake_ns = rea_time_add(now_ns, rea_time_max(REA_NS_PER_MS, rea_rate_wait(&target->rate, 1, now_ns)));
	else {
		target->running++;
		return true;
	}
	return false;
}

void target_end(struct target *target)
{
	target->running--;
}

void target_hold(struct target *target, uint64_t until_ns, const char *why)
{
	if (until_ns <= target->held_until_ns)
		return;
	target->held_until_ns = until_ns;
	target->climb_ns = 0;
	snprintf(target->held_why, sizeof(target->held_why), "%s", why);
}

uint64_t target_ask(struct target *target, uint64_t earliest_ns)
{
	uint64_t ask_ns = rea_time_max(earliest_ns, target->ask_ns);

	target->ask_ns = rea_time_add(ask_ns, TARGET_ASK_NS);
	return ask_ns;
}
