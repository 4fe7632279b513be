/*
 * The decision of one call. Guarantees: no retry without permission and policy; no instance twice in a round; never more attempts than the
 * policy has; no wait towards a deadline that cannot be met; whatever was taken from budget, breaker and limit is given back exactly once.
 *
 *            attempt               report: retry
 *   READY ────────────▶ FLYING ──────────────────▶ WAITING
 *     │                  │  ▲        attempt          │
 *     │                  │  └─────────────────────────┤
 *     │ attempt: none    │ report: final              │ attempt: none
 *     │ cancel           │ cancel                     │ cancel
 *     └────────────────▶ DONE ◀───────────────────────┘
 *
 *   READY    begun (rea_call_begin); holds nothing
 *   FLYING   an attempt is under way; holds the breaker's permit and, if it is a retry, a slot of the limit and the budget's lease, spent
 *   WAITING  a retry was granted and is not due yet; holds the budget's lease, no slot
 *            or parked: none was granted yet, the budget is asked again when it is due; holds a place in the parking, no lease, no slot
 *   DONE     holds nothing
 */
#include <rea/call.h>

#include "base/probe.h"
#include "core/budget.h"
#include "core/internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* An attempt with less time than this is none. */
#define USEFUL_NS_MIN (10 * REA_NS_PER_MS)
/* A parked call asks again after half of this to all of it; once it has waited long, after a share of its wait: tasks wait for hours. */
#define LOOK_NS (100 * REA_NS_PER_MS)
#define LOOK_SHARE 16

enum state { READY, FLYING, WAITING, DONE };

void rea_call_options_init(struct rea_call_options *options)
{
	*options = (struct rea_call_options){.version = REA_CALL_OPTIONS_VERSION, .deadline_ns = REA_NEVER};
}

/* ---- state ---- */

static bool cycles(const struct rea_call *call)
{
	return call->options.policy->when_all_tried == REA_ALL_TRIED_CYCLE;
}

static void assert_valid(const struct rea_call *call)
{
	assert(call->attempts <= call->attempts_max);
	assert(call->attempts_max <= REA_ATTEMPTS_MAX || call->options.single_target || cycles(call));
	assert(call->tried_len <= call->attempts && call->tried_len <= REA_ATTEMPTS_MAX);
	assert((call->attempts == 0) <= (call->state == READY || call->state == DONE));
	assert(!call->limit_held || (call->state == FLYING && call->attempts > 1));
	assert(!call->permit.given || call->state == FLYING);
	assert(!call->lease.held || call->state == WAITING || (call->state == FLYING && call->attempts > 1));
	assert(!call->park.held || (call->state == WAITING && !call->lease.held));
}

/* ---- the breaker, of whichever kind ---- */

static bool breaker_permits(const struct rea_call *call)
{
	const struct rea_call_options *options = &call->options;

	if (options->gate != NULL)
		return options->gate->permits(options->gate->user_data, call->now_ns);
	return options->breaker == NULL || rea_breaker_permits(options->breaker, call->now_ns);
}

static bool breaker_acquire(struct rea_call *call)
{
	const struct rea_call_options *options = &call->options;

	if (options->gate != NULL)
		return options->gate->acquire(options->gate->user_data, call->now_ns, &call->permit);
	return options->breaker == NULL || rea_breaker_acquire(options->breaker, call->now_ns, &call->permit);
}

static void breaker_report(struct rea_call *call, enum rea_breaker_result result, uint64_t latency_ns)
{
	const struct rea_call_options *options = &call->options;

	if (options->gate != NULL)
		options->gate->report(options->gate->user_data, &call->permit, result, latency_ns, call->now_ns);
	else
		rea_breaker_report(options->breaker, &call->permit, result, latency_ns, call->now_ns);
	call->permit.given = false;
}

/* What an attempt under way holds. */
static void give_flight_back(struct rea_call *call, enum rea_breaker_result result, uint64_t latency_ns)
{
	if (call->permit.given)
		breaker_report(call, result, latency_ns);
	if (call->limit_held)
		rea_retry_limit_release(call->options.limit);
	call->limit_held = false;
}

static void unpark(struct rea_call *call)
{
	if (call->park.held)
		rea_retry_limit_release(call->options.parking);
	call->park = (struct rea_call_park){0};
}

static void enter(struct rea_call *call, enum state to)
{
	if (to != WAITING)
		unpark(call);
	/* What is still held here was never sent: a flight's lease is settled when the attempt is told of. */
	if (to == DONE && call->lease.held)
		rea_budget_refund(call->options.budget, &call->lease, call->now_ns);
	call->state = to;
	assert_valid(call);
}

static void see_time(struct rea_call *call, uint64_t now_ns)
{
	call->now_ns = rea_time_max(call->now_ns, now_ns);
}

/* ---- begin ---- */

/* When the call's deadline is, should it begin to run now. */
static uint64_t deadline_from_now(const struct rea_call *call)
{
	return rea_time_min(call->options.deadline_ns, rea_time_add(call->now_ns, call->options.policy->deadline_ns));
}

void rea_call_begin(struct rea_call *call, const struct rea_call_options *options, uint64_t now_ns)
{
	assert(options->version == REA_CALL_OPTIONS_VERSION &&
	       "rea_call_begin: the options were not initialised by rea_call_options_init");
	assert((options->breaker == NULL || options->gate == NULL) &&
	       "rea_call_begin: breaker and gate are one in place of the other");
	if (options != &call->options)
		call->options = *options;
	call->state = READY;
	call->attempts = call->tried_len = 0;
	call->attempts_max = rea__policy_attempts(options->policy);
	call->same_left = 0;
	call->next_left = 0;
	call->permitted = REA__PERMISSIONS_ALL;
	call->limit_held = false;
	call->refused = 0;
	call->park.held = false;
	call->now_ns = call->begin_ns = now_ns;
	call->deadline_ns = options->deadline_open ? REA_NEVER : deadline_from_now(call);
	call->wait_until_ns = now_ns;
	call->grant = options->grant;
	call->lease.held = false;
	call->permit.given = false;
}

void rea_call_start_deadline(struct rea_call *call, uint64_t now_ns)
{
	see_time(call, now_ns);
	if (!call->options.deadline_open)
		return;
	call->options.deadline_open = false;
	call->begin_ns = call->now_ns;
	call->deadline_ns = deadline_from_now(call);
}

/* ---- the instance of the next attempt ---- */

/* Which permissions let this outcome be repeated. */
static uint32_t permissions_for(const struct rea_call *call, enum rea_outcome outcome)
{
	uint32_t permitted = REA__PERMISSION_BIT(REA_PERMISSION_SAFE) | REA__PERMISSION_BIT(REA_PERMISSION_IDEMPOTENT);

	if (call->options.policy->never_sent == REA_NEVER_SENT_ALLOW &&
	    (outcome == REA_OUTCOME_NEVER_SENT || outcome == REA_OUTCOME_PUSHBACK))
		return REA__PERMISSIONS_ALL & ~REA__PERMISSION_BIT(REA_PERMISSION_FORBID);
	if (call->options.has_key)
		permitted |= REA__PERMISSION_BIT(REA_PERMISSION_IDEMPOTENT_WITH_KEY);
	return permitted;
}

/* Candidates for a move to another instance: those not tried by this call; under a new round of `cycle` all but the last one tried. */
static struct rea__candidates candidates(const struct rea_call *call, bool new_round)
{
	uint32_t skipped = new_round && call->tried_len > 0 ? call->tried_len - 1 : 0;

	return (struct rea__candidates){.excluded = call->tried + skipped,
	    .excluded_len = call->tried_len - skipped,
	    .grant = call->options.grant,
	    .permitted = call->permitted,
	    .ejected = true,
	    .now_ns = call->now_ns};
}

/* Where the last attempt's instance stands in the list; SIZE_MAX if it has left, or there is none. */
static size_t find_last(const struct rea_call *call, const struct rea_instances *instances)
{
	return call->tried_len > 0 ? rea__instance_find(instances, &call->tried[call->tried_len - 1]) : SIZE_MAX;
}

/* Where the last instance stands in the list if it may be tried again at once, else SIZE_MAX. */
static size_t find_same(const struct rea_call *call, const struct rea_instances *instances)
{
	struct rea__candidates any = candidates(call, false);

	size_t last = call->same_left > 0 ? find_last(call, instances) : SIZE_MAX;

	any.excluded_len = 0;
	return last != SIZE_MAX && rea__candidates_have(&any, &instances->items[last]) ? last : SIZE_MAX;
}

/* Position of the last attempt at this instance among those remembered; 0 = none. */
static uint32_t last_attempt_at(const struct rea_call *call, const struct rea_instance *instance)
{
	uint32_t i = call->tried_len;

	while (i > 0 && !rea_instance_id_equal(&call->tried[i - 1], &instance->id))
		i--;
	return i;
}

/* Of the instances that may be tried in a new round, the one whose last attempt is longest ago. */
static size_t find_least_recent(const struct rea_call *call, const struct rea_instances *instances, bool ejected)
{
	struct rea__candidates set = candidates(call, true);
	size_t best = SIZE_MAX;

	set.ejected = ejected;
	for (size_t i = 0; i < instances->count; i++)
		if (rea__candidates_have(&set, &instances->items[i]) &&
		    (best == SIZE_MAX ||
			last_attempt_at(call, &instances->items[i]) < last_attempt_at(call, &instances->items[best])))
			best = i;
	return best;
}

/* Permissions with which a failed first attempt would be repeated. */
static uint32_t probe_permissions(const struct rea_call *call)
{
	const struct rea_policy *policy = call->options.policy;

	if (call->attempts > 0 || !policy->enabled || policy->mode == REA_MODE_OBSERVE || call->attempts_max < 2 ||
	    (call->options.chained && policy->chain_stop))
		return 0;
	return permissions_for(call, REA_OUTCOME_AMBIGUOUS);
}

static size_t choose(
    const struct rea_call *call, const struct rea_instances *instances, struct rea_random *random, uint64_t now_ns)
{
	struct rea__candidates untried = candidates(call, false);
	size_t same = SIZE_MAX, chosen;

	if (call->options.single_target)
		return call->attempts == 0 || call->next_left > 0 ? 0 : SIZE_MAX;
	if (call->attempts > 0)
		same = find_same(call, instances);
	if (same != SIZE_MAX && (instances->never_eject || !rea__is_ejected(&instances->items[same])))
		return same;
	if (call->attempts > 0 && call->next_left == 0)
		return same;
	untried.probes = probe_permissions(call);
	/* An ejected one is the last resort: another round of the others comes before it. */
	for (int resort = 0; resort < 2; resort++) {
		untried.ejected = resort > 0 || instances->never_eject;
		chosen = rea__balancer_choose(instances, &untried, random, now_ns);
		/* The least recently tried comes next in every later round, so no instance comes twice in one. */
		if (chosen == SIZE_MAX && call->attempts > 0 && cycles(call))
			chosen = find_least_recent(call, instances, untried.ejected);
		if (chosen != SIZE_MAX)
			return chosen;
	}
	return same;
}

/* ---- what the budget is told ---- */

static bool timed_out(const struct rea_report *report)
{
	return report->code_kind == REA_CODE_ERRNO && report->code == ETIMEDOUT;
}

/* Failures count if the policy would retry them, or if the reply forbids it: a callee that says so is asked too much (gRFC A6). */
static enum rea_budget_result budget_result(const struct rea_call *call, const struct rea_report *report)
{
	bool counts =
	    (report->flags & REA_REPORT_STOP) || (call->options.policy->retry_on & REA_OUTCOME_BIT(report->outcome));

	if (report->outcome == REA_OUTCOME_OK)
		return REA_BUDGET_SUCCESS;
	if (report->outcome == REA_OUTCOME_CANCELLED || !counts)
		return REA_BUDGET_NEUTRAL;
	if (report->outcome == REA_OUTCOME_THROTTLED || report->outcome == REA_OUTCOME_PUSHBACK)
		return REA_BUDGET_THROTTLING;
	return timed_out(report) ? REA_BUDGET_TIMEOUT : REA_BUDGET_TRANSIENT;
}

static uint32_t count_instances(const struct rea_call *call, const struct rea_instances *instances)
{
	return call->options.single_target || instances->count == 0 ? 1 : (uint32_t)instances->count;
}

/* Each attempt once, before anything is decided: failures of calls that may not be retried count too. */
static void tell_budget(struct rea_call *call, const struct rea_report *report, const struct rea_instances *instances)
{
	const struct rea_call_options *options = &call->options;
	struct rea__budget_attempt attempt = {.result = budget_result(call, report), .instances = 1};
	size_t last;

	if (options->budget == NULL)
		return;
	if (attempt.result == REA_BUDGET_SUCCESS) {
		attempt.latency_ns = report->latency_ns;
	} else if (attempt.result != REA_BUDGET_NEUTRAL) {
		attempt.stop = report->flags & REA_REPORT_STOP;
		last = find_last(call, instances);
		/* Of one that has left, any place will do. */
		attempt.instance = last != SIZE_MAX ? (uint32_t)last : 0;
		attempt.instances = count_instances(call, instances);
	}
	rea__budget_report(options->budget, options->budget_shard, &attempt, &call->lease, call->now_ns);
}

/* In refused, above the bits of those tried: an attempt has reached an instance. */
#define REACHED (UINT32_C(1) << 31)

/* An instance that could not be reached is remembered: of a call that has met too many of them none is known to live. */
static void note_refused(struct rea_call *call, bool reached)
{
	call->refused |= reached ? REACHED : UINT32_C(1) << (call->tried_len > 0 ? call->tried_len - 1 : 0);
}

/* How many different ones. */
static uint32_t count_refused(const struct rea_call *call)
{
	uint32_t count = 0;

	if (call->options.single_target)
		return call->refused & 1;
	for (uint32_t i = 0; i < call->tried_len; i++) {
		bool again = false;

		for (uint32_t k = 0; k < i && !again; k++)
			again = call->refused >> k & 1 && rea_instance_id_equal(&call->tried[k], &call->tried[i]);
		count += call->refused >> i & 1 && !again;
	}
	return count;
}

/* ---- the rules ---- */

/* NONE, or why this permission does not let the last outcome be repeated. */
static enum rea_reason refuse_permission(const struct rea_call *call, enum rea_permission permission)
{
	if (call->permitted & REA__PERMISSION_BIT(permission))
		return REA_REASON_NONE;
	if (permission == REA_PERMISSION_FORBID)
		return REA_REASON_FORBIDDEN;
	return permission == REA_PERMISSION_IDEMPOTENT_WITH_KEY ? REA_REASON_KEY_MISSING : REA_REASON_NOT_DECLARED;
}

/* Under the rule evidence a callee that says "not now" and no time gets one alternative at once, and that was it. */
static bool is_refused_again(const struct rea_call *call, const struct rea_report *report)
{
	return report->outcome == REA_OUTCOME_PUSHBACK && !(report->flags & REA_REPORT_AFTER) && call->attempts >= 2 &&
	       call->options.budget != NULL && rea__budget_is_evidence(call->options.budget);
}

/* Rules 1 to 6: may this outcome be repeated at all? */
static enum rea_reason refuse_repetition(const struct rea_call *call, const struct rea_report *report)
{
	const struct rea_policy *policy = call->options.policy;
	enum rea_reason reason;

	if (report->outcome == REA_OUTCOME_CANCELLED)
		return REA_REASON_CANCELLED;
	if (report->outcome == REA_OUTCOME_PERMANENT)
		return report->flags & REA_REPORT_BLOCKED ? REA_REASON_BLOCKED : REA_REASON_PERMANENT;
	if ((report->flags & REA_REPORT_STOP) || is_refused_again(call, report))
		return REA_REASON_SERVER_REFUSED;
	if (!(policy->retry_on & REA_OUTCOME_BIT(report->outcome)))
		return REA_REASON_NOT_RETRYABLE;
	reason = refuse_permission(call, call->grant.permission);
	if (reason != REA_REASON_NONE)
		return reason;
	if (!policy->enabled)
		return REA_REASON_NOT_ENABLED;
	return call->options.chained && policy->chain_stop ? REA_REASON_CHAIN_STOPPED : REA_REASON_NONE;
}

/* Rule 7: can the request be sent again, and would its reply still be welcome? */
static enum rea_reason refuse_replay(const struct rea_report *report)
{
	if (report->flags & REA_REPORT_BODY_OVER_LIMIT)
		return REA_REASON_BODY_OVER_LIMIT;
	/* Of a request that was never sent nothing was given away: what still arrives goes to the next instance. */
	if ((report->flags & REA_REPORT_BODY_INCOMPLETE) && report->outcome != REA_OUTCOME_NEVER_SENT)
		return REA_REASON_BODY_INCOMPLETE;
	return report->flags & REA_REPORT_RESPONSE_STARTED ? REA_REASON_RESPONSE_STARTED : REA_REASON_NONE;
}

/* Rule 8. */
static enum rea_reason refuse_attempts(const struct rea_call *call, const struct rea_instances *instances)
{
	bool left = call->next_left > 0 || (!call->options.single_target && find_same(call, instances) != SIZE_MAX);

	return left ? REA_REASON_NONE : REA_REASON_ATTEMPTS_EXHAUSTED;
}

static uint64_t choose_backoff(const struct rea_call *call, struct rea_random *random)
{
	struct rea_backoff backoff;

	rea_policy_backoff(call->options.policy, &backoff);
	return rea_backoff_delay(&backoff, call->attempts, rea_random_next(random));
}

/* When the server asks not to come before; 0 = it does not ask. */
static uint64_t asked_until(const struct rea_call *call, const struct rea_report *report, struct rea_random *random)
{
	if (!(report->flags & REA_REPORT_AFTER))
		return 0;
	return rea_time_add(call->now_ns, rea_backoff_server_wait(report->after_ns, rea_random_next(random)));
}

static uint64_t useful_ns(const struct rea_call *call)
{
	return rea_time_max(USEFUL_NS_MIN, call->options.useful_ns);
}

/* A deadline that is still open cannot come earlier than if it began to run now. */
static uint64_t remaining_ns(const struct rea_call *call)
{
	return rea_time_sub(call->options.deadline_open ? deadline_from_now(call) : call->deadline_ns, call->now_ns);
}

/* In [low, high]. */
static uint64_t draw_between(uint64_t low_ns, uint64_t high_ns, struct rea_random *random)
{
	return low_ns + rea_random_below(random, high_ns - low_ns + 1);
}

/* Rule 9. Only a full jitter, which may be any wait, is cut to one that fits; what a server asks for is never cut. */
static enum rea_reason refuse_wait(const struct rea_call *call, uint64_t asked_ns, struct rea_random *random, uint64_t *wait_ns)
{
	uint64_t least_ns = rea_time_max(REA_BACKOFF_NS_MIN, rea_time_sub(asked_ns, call->now_ns));
	uint64_t left_ns = remaining_ns(call), useful = useful_ns(call), most_ns;

	*wait_ns = rea_time_max(*wait_ns, least_ns);
	if (rea_time_add(*wait_ns, useful) <= left_ns)
		return REA_REASON_NONE;
	most_ns = rea_time_sub(left_ns, useful + useful / 10);
	if (call->options.policy->jitter_kind != REA_JITTER_FULL || left_ns <= useful + useful / 5 || most_ns < least_ns)
		return REA_REASON_DEADLINE;
	*wait_ns = draw_between(least_ns, most_ns, random);
	return REA_REASON_NONE;
}

/* Rule 10. Of instances that are left but must not repeat this, the first one's permission is the reason. */
static enum rea_reason refuse_instances(const struct rea_call *call, const struct rea_instances *instances)
{
	const struct rea__candidates set = candidates(call, cycles(call));
	enum rea_reason reason = REA_REASON_NO_UNTRIED_INSTANCE;

	if (call->options.single_target || find_same(call, instances) != SIZE_MAX)
		return REA_REASON_NONE;
	for (size_t i = 0; i < instances->count; i++) {
		struct rea_grant grant = rea_grant_combine(set.grant, instances->items[i].grant);

		if (rea__candidates_have(&set, &instances->items[i]))
			return REA_REASON_NONE;
		if (reason == REA_REASON_NO_UNTRIED_INSTANCE &&
		    !rea__instance_id_in(&instances->items[i].id, set.excluded, set.excluded_len))
			reason = refuse_permission(call, grant.permission);
	}
	return reason;
}

static bool observes(const struct rea_call *call)
{
	return call->options.policy->mode == REA_MODE_OBSERVE;
}

/* Half of the call's whole time, if there is time for a look and an attempt after it. */
static uint64_t park_max_ns(const struct rea_call *call)
{
	uint64_t left_ns = remaining_ns(call);

	if (call->options.parking == NULL || left_ns <= 2 * useful_ns(call))
		return 0;
	return rea_time_sub(rea_time_add(call->now_ns, left_ns), call->begin_ns) / 2;
}

/* Until it asks again, when there must still be time for a backoff and an attempt. spread: so that all who wait come back over twice the time that
 * they have waited. */
static uint64_t choose_look(const struct rea_call *call, bool spread, struct rea_random *random)
{
	uint64_t parked_ns = call->park.held ? rea_time_sub(call->now_ns, call->park.since_ns) : 0;
	uint64_t most_ns = rea_time_sub(remaining_ns(call), 2 * useful_ns(call)), wait_ns;

	if (spread) {
		/* What does not fit is cut before it is drawn, else the latest would all come at the same moment. */
		wait_ns = draw_between(0, rea_time_min(rea_time_mul(parked_ns, 2), most_ns), random);
	} else {
		uint64_t look_ns = rea_time_max(LOOK_NS, parked_ns / LOOK_SHARE);

		wait_ns = draw_between(look_ns / 2, look_ns, random);
	}
	return rea_time_max(REA_BACKOFF_NS_MIN, rea_time_min(wait_ns, most_ns));
}

/* A place for it; it keeps the one that it has. */
static bool find_place(struct rea_call *call)
{
	if (call->park.held)
		return true;
	if (!observes(call) && !rea_retry_limit_acquire(call->options.parking))
		return false;
	call->park.held = !observes(call);
	call->park.since_ns = call->now_ns;
	return true;
}

/* Asks the budget, which takes one retry save in observe mode; if there is no slot for it after all, the end of the call gives it back. PARKED: a
 * place was found, and wait_ns is the time until the next look. */
static enum rea_reason ask_budget(struct rea_call *call, const struct rea_instances *instances,
    struct rea_random *random, uint64_t *wait_ns, struct rea_evidence *ret_says)
{
	const struct rea_call_options *options = &call->options;
	const struct rea__budget_question question = {
	    .failure = call->park.failure,
	    .pushback = call->park.pushback,
	    .refused_by = count_refused(call),
	    .instances = count_instances(call, instances),
	    .unserved = call->refused != 0 && !(call->refused & REACHED),
	    .parked = call->park.held,
	    .spread = call->park.spread,
	    .parked_ns = call->park.since_ns,
	    .park_max_ns = park_max_ns(call),
	};
	enum rea__budget_answer answer = rea__budget_ask(options->budget, options->budget_shard, &question,
	    call->now_ns, observes(call) ? NULL : &call->lease, ret_says);

	switch (answer) {
	case REA__BUDGET_GRANTED:
		return REA_REASON_NONE;
	case REA__BUDGET_REFUSED:
		break;
	case REA__BUDGET_PARK:
	case REA__BUDGET_SPREAD:
		if (find_place(call)) {
			*wait_ns = choose_look(call, answer == REA__BUDGET_SPREAD, random);
			call->park.spread |= answer == REA__BUDGET_SPREAD;
			return REA_REASON_PARKED;
		}
		*ret_says =
		    (struct rea_evidence){.kind = REA_EVIDENCE_PARKED, .value = rea_retry_limit_in_use(options->parking)};
		break;
	}
	REA__PROBE(budget_exhausted, call, call->attempts, options->budget, question.failure);
	return REA_REASON_BUDGET_EXHAUSTED;
}

/* Rule 12. */
static enum rea_reason take_retry(struct rea_call *call, const struct rea_instances *instances,
    struct rea_random *random, uint64_t *wait_ns, struct rea_evidence *ret_says)
{
	enum rea_reason reason = REA_REASON_NONE;

	if (call->options.budget != NULL)
		reason = ask_budget(call, instances, random, wait_ns, ret_says);
	if (reason == REA_REASON_NONE && call->options.limit != NULL && rea_retry_limit_full(call->options.limit))
		return REA_REASON_OVERLOADED;
	return reason;
}

/* Rules 9 to 12: can it be repeated now? NONE means that everything it needs is taken; PARKED: not yet. */
static enum rea_reason refuse_now(struct rea_call *call, const struct rea_instances *instances,
    struct rea_random *random, uint64_t *wait_ns, struct rea_evidence *ret_says)
{
	enum rea_reason reason = refuse_wait(call, call->park.asked_ns, random, wait_ns);

	if (reason == REA_REASON_NONE)
		reason = refuse_instances(call, instances);
	if (reason == REA_REASON_NONE && !breaker_permits(call))
		reason = REA_REASON_BREAKER_OPEN;
	return reason == REA_REASON_NONE ? take_retry(call, instances, random, wait_ns, ret_says) : reason;
}

/* Rules 7 to 12: can it be repeated here? */
static enum rea_reason refuse_retry(struct rea_call *call, const struct rea_report *report,
    const struct rea_instances *instances, struct rea_random *random, uint64_t *ret_wait_ns, struct rea_evidence *ret_says)
{
	enum rea_reason reason = refuse_replay(report);

	if (reason == REA_REASON_NONE)
		reason = refuse_attempts(call, instances);
	if (reason != REA_REASON_NONE)
		return reason;
	*ret_wait_ns = choose_backoff(call, random);
	call->park = (struct rea_call_park){.asked_ns = asked_until(call, report, random),
	    .failure = budget_result(call, report),
	    .pushback = report->outcome == REA_OUTCOME_PUSHBACK};
	return refuse_now(call, instances, random, ret_wait_ns, ret_says);
}

/* ---- attempt, report, cancel ---- */

/* A decision is made where the caller wants it: copying one costs as much as making it. */
static void describe(
    const struct rea_call *call, enum rea_step step, enum rea_verdict verdict, struct rea_decision *ret_decision)
{
	/* Field by field: to clear all of it at once takes compilers a string instruction, which alone is a tenth of a call. */
	ret_decision->step = step;
	ret_decision->verdict = verdict;
	ret_decision->reason = REA_REASON_NONE;
	ret_decision->stop = false;
	ret_decision->would_retry = false;
	ret_decision->retryable = false;
	ret_decision->attempt = call->attempts;
	ret_decision->attempts_max = call->attempts_max;
	ret_decision->instance = 0;
	ret_decision->wait_ns = 0;
	ret_decision->wait_until_ns = 0;
	ret_decision->attempt_deadline_ns = 0;
	ret_decision->grant = call->grant;
	ret_decision->evidence.kind = REA_EVIDENCE_NONE;
	ret_decision->evidence.value = 0;
	ret_decision->evidence.tokens = 0;
}

static void give_up(struct rea_call *call, enum rea_reason reason, struct rea_decision *ret_decision)
{
	/* A cancel of what is over gives nothing up. */
	if (call->state != DONE)
		REA__PROBE(give_up, call, call->attempts, reason, call->now_ns);
	describe(call, REA_STEP_DONE, REA_VERDICT_GIVE_UP, ret_decision);
	ret_decision->reason = reason;
	/* A layer above must not begin anew what was already repeated, or what the protection of the callee refused. */
	ret_decision->stop = call->attempts > 1 || reason == REA_REASON_BUDGET_EXHAUSTED || reason == REA_REASON_OVERLOADED;
	enter(call, DONE);
}

static void wait_on(const struct rea_call *call, struct rea_decision *ret_decision)
{
	describe(call, REA_STEP_WAIT, REA_VERDICT_RETRY, ret_decision);
	ret_decision->reason = call->park.held ? REA_REASON_PARKED : REA_REASON_NONE;
	ret_decision->wait_ns = rea_time_sub(call->wait_until_ns, call->now_ns);
	ret_decision->wait_until_ns = call->wait_until_ns;
}

/* Permit and slot for the coming attempt; without one, nothing is held. */
static enum rea_reason take_flight(struct rea_call *call)
{
	const struct rea_call_options *options = &call->options;

	if (!breaker_acquire(call))
		return REA_REASON_BREAKER_OPEN;
	if (options->limit == NULL || call->attempts == 0)
		return REA_REASON_NONE;
	call->limit_held = rea_retry_limit_acquire(options->limit);
	if (call->limit_held)
		return REA_REASON_NONE;
	give_flight_back(call, REA_BREAKER_IGNORED, 0);
	return REA_REASON_OVERLOADED;
}

/* Moves that the policy has for the whole call. */
static uint32_t moves_max(const struct rea_call *call)
{
	return call->options.single_target ? rea_policy_attempts(call->options.policy) - 1
					   : call->options.policy->max_retry_next_instance;
}

static void remember(struct rea_call *call, const struct rea_instance_id *id)
{
	/* More attempts than are remembered there are only under `cycle`: the longest ago comes next and is forgotten first. */
	if (call->tried_len == REA_ATTEMPTS_MAX) {
		memmove(call->tried, call->tried + 1, --call->tried_len * sizeof(call->tried[0]));
		call->refused = (call->refused & REACHED) | (call->refused & ~REACHED) >> 1;
	}
	call->tried[call->tried_len++] = *id;
}

static void count_attempt(struct rea_call *call, const struct rea_instance_id *id)
{
	const struct rea_policy *policy = call->options.policy;
	bool first = call->attempts == 0,
	     same = call->tried_len > 0 && rea_instance_id_equal(id, &call->tried[call->tried_len - 1]);

	if (first)
		call->next_left = call->options.single_target ? call->attempts_max - 1 : policy->max_retry_next_instance;
	else if (!same)
		call->next_left--;
	if (same)
		call->same_left--;
	else
		call->same_left = cycles(call) ? 0 : policy->max_retry_same_instance;
	call->attempts++;
	if (!call->options.single_target)
		remember(call, id);
	if (first && call->options.budget != NULL)
		rea_budget_deposit(call->options.budget, call->options.budget_shard, call->now_ns);
}

static void start(struct rea_call *call, const struct rea_instances *instances, size_t index, struct rea_decision *ret_decision)
{
	static const struct rea_instance single = {.weight = 1};
	const struct rea_instance *instance = call->options.single_target ? &single : &instances->items[index];
	uint64_t most_ns = call->options.policy->attempt_timeout_ns;

	if (instance->load != NULL)
		most_ns = rea_time_min(most_ns,
		    rea__ejection_sent(instances, index, call->options.grant, probe_permissions(call), call->now_ns));
	count_attempt(call, &instance->id);
	call->grant = rea_grant_combine(call->options.grant, instance->grant);
	enter(call, FLYING);
	describe(call, REA_STEP_ATTEMPT, REA_VERDICT_RETRY, ret_decision);
	ret_decision->instance = index;
	ret_decision->attempt_deadline_ns =
	    call->options.deadline_open ? REA_NEVER : rea_time_min(rea_time_add(call->now_ns, most_ns), call->deadline_ns);
	REA__PROBE(attempt_begin, call, call->attempts, index, call->now_ns);
}

/* Why there was no instance to choose. */
static enum rea_reason no_choice(const struct rea_call *call, const struct rea_instances *instances)
{
	if (call->attempts == 0)
		return REA_REASON_NO_UNTRIED_INSTANCE;
	return call->next_left == 0 ? REA_REASON_ATTEMPTS_EXHAUSTED : refuse_instances(call, instances);
}

/* A retry was granted, or a place to wait for one: wait_ns from now on. */
static void wait_for(struct rea_call *call, uint64_t wait_ns, struct rea_decision *ret_decision)
{
	call->wait_until_ns = rea_time_add(call->now_ns, wait_ns);
	/* What the budget gave was taken for this state. */
	enter(call, WAITING);
	wait_on(call, ret_decision);
	REA__PROBE(retry, call, call->attempts, wait_ns, call->now_ns);
}

/* A parked call is decided again from rule 9 on. */
static void look_again(struct rea_call *call, const struct rea_instances *instances, struct rea_random *random,
    struct rea_decision *ret_decision)
{
	struct rea_evidence says = {.kind = REA_EVIDENCE_NONE};
	uint64_t wait_ns = choose_backoff(call, random);
	enum rea_reason reason = refuse_now(call, instances, random, &wait_ns, &says);

	if (reason == REA_REASON_NONE)
		unpark(call);
	if (reason == REA_REASON_NONE || reason == REA_REASON_PARKED)
		wait_for(call, wait_ns, ret_decision);
	else
		give_up(call, reason, ret_decision);
	ret_decision->evidence = says;
	ret_decision->retryable = true;
}

void rea_call_attempt(struct rea_call *call, const struct rea_instances *instances, struct rea_random *random,
    uint64_t now_ns, struct rea_decision *ret_decision)
{
	enum rea_reason reason;
	size_t index;

	assert((call->state == READY || call->state == WAITING) &&
	       "rea_call_attempt: the call was not begun, has an attempt under way, or is over");
	see_time(call, now_ns);
	if (call->now_ns < call->wait_until_ns) {
		wait_on(call, ret_decision);
		return;
	}
	if (call->now_ns >= call->deadline_ns) {
		give_up(call, REA_REASON_DEADLINE, ret_decision);
		return;
	}
	if (call->park.held) {
		look_again(call, instances, random, ret_decision);
		return;
	}
	index = choose(call, instances, random, call->now_ns);
	reason = index == SIZE_MAX ? no_choice(call, instances) : take_flight(call);
	if (reason == REA_REASON_NONE)
		start(call, instances, index, ret_decision);
	else
		give_up(call, reason, ret_decision);
}

static enum rea_breaker_result breaker_result(const struct rea_report *report)
{
	if (report->flags & REA_REPORT_BLOCKED)
		return REA_BREAKER_IGNORED; /* nobody was asked */
	switch (report->outcome) {
	case REA_OUTCOME_OK:
	case REA_OUTCOME_PERMANENT: /* it answered */
		return REA_BREAKER_SUCCESS;
	case REA_OUTCOME_NEVER_SENT:
	case REA_OUTCOME_UNAVAILABLE:
	case REA_OUTCOME_AMBIGUOUS:
	case REA_OUTCOME_FAILED:
		return REA_BREAKER_FAILURE;
	case REA_OUTCOME_PUSHBACK:
	case REA_OUTCOME_THROTTLED:
	case REA_OUTCOME_CANCELLED:
	case REA_OUTCOME_COUNT:
		break;
	}
	return REA_BREAKER_IGNORED;
}

static void succeed(struct rea_call *call, struct rea_decision *ret_decision)
{
	enter(call, DONE);
	describe(call, REA_STEP_DONE, REA_VERDICT_SUCCESS, ret_decision);
}

/* reason: NONE, or PARKED. */
static void retry(struct rea_call *call, enum rea_reason reason, uint64_t wait_ns, struct rea_decision *ret_decision)
{
	if (!observes(call)) {
		wait_for(call, wait_ns, ret_decision);
		return;
	}
	give_up(call, reason, ret_decision);
	ret_decision->would_retry = true;
	ret_decision->wait_ns = wait_ns;
}

void rea_call_report(struct rea_call *call, const struct rea_report *report, const struct rea_instances *instances,
    struct rea_random *random, uint64_t now_ns, struct rea_decision *ret_decision)
{
	struct rea_evidence says = {.kind = REA_EVIDENCE_NONE};
	enum rea_reason reason;
	uint64_t wait_ns = 0;
	bool retryable;

	assert(call->state == FLYING && "rea_call_report: no attempt of the call is under way");
	assert(report->outcome < REA_OUTCOME_COUNT && "rea_call_report: the outcome is none of rea/outcome.h");
	see_time(call, now_ns);
	REA__PROBE(attempt_end, call, call->attempts, report->outcome, report->code, report->latency_ns, call->now_ns);
	give_flight_back(call, breaker_result(report), report->latency_ns);
	tell_budget(call, report, instances);
	if (report->outcome == REA_OUTCOME_OK) {
		succeed(call, ret_decision);
		return;
	}
	note_refused(call, report->outcome != REA_OUTCOME_NEVER_SENT);
	if (report->outcome != REA_OUTCOME_PERMANENT && report->outcome != REA_OUTCOME_CANCELLED)
		rea__balancer_judge(instances, find_last(call, instances), report, random, call->now_ns);
	call->last_outcome = report->outcome;
	call->permitted = permissions_for(call, report->outcome);
	reason = refuse_repetition(call, report);
	retryable = reason == REA_REASON_NONE;
	if (retryable)
		reason = refuse_retry(call, report, instances, random, &wait_ns, &says);
	if (reason == REA_REASON_NONE || reason == REA_REASON_PARKED)
		retry(call, reason, wait_ns, ret_decision);
	else
		give_up(call, reason, ret_decision);
	ret_decision->evidence = says;
	ret_decision->retryable = retryable;
}

void rea_call_cancel(struct rea_call *call, uint64_t now_ns, struct rea_decision *ret_decision)
{
	static const struct rea_report cancelled = {.outcome = REA_OUTCOME_CANCELLED};

	see_time(call, now_ns);
	give_flight_back(call, REA_BREAKER_IGNORED, 0);
	if (call->state == FLYING) {
		REA__PROBE(attempt_end, call, call->attempts, REA_OUTCOME_CANCELLED, 0, UINT64_C(0), call->now_ns);
		tell_budget(call, &cancelled, NULL);
	}
	give_up(call, REA_REASON_CANCELLED, ret_decision);
}

void rea_call_refuse(struct rea_call *call, enum rea_reason reason, uint64_t now_ns, struct rea_decision *ret_decision)
{
	assert((call->state == READY || call->state == WAITING) &&
	       "rea_call_refuse: the call was not begun, has an attempt under way, or is over");
	see_time(call, now_ns);
	give_up(call, reason, ret_decision);
}

/* ---- between two attempts ---- */

void rea_call_pause(struct rea_call *call, struct rea_call_past *ret_past)
{
	assert(call->state == WAITING && "rea_call_pause: the call does not wait between two attempts");
	*ret_past = (struct rea_call_past){.attempts = call->attempts,
	    .outcome = call->last_outcome,
	    .wait_until_ns = call->wait_until_ns,
	    .lease = call->lease,
	    .park = call->park,
	    .refused = call->refused,
	    .tried = call->tried,
	    .tried_len = call->tried_len};
	call->lease.held = call->park.held = false;
	enter(call, DONE);
}

/* Attempts that stayed on the instance of the one before; of those remembered. */
static uint32_t count_repeats(const struct rea_call *call, bool last_only)
{
	uint32_t repeats = 0;

	for (uint32_t i = call->tried_len; i > 1; i--) {
		if (rea_instance_id_equal(&call->tried[i - 1], &call->tried[i - 2]))
			repeats++;
		else if (last_only)
			break;
	}
	return repeats;
}

static void recall_attempts(struct rea_call *call, const struct rea_call_past *past)
{
	uint32_t same_max = cycles(call) ? 0 : call->options.policy->max_retry_same_instance, moves;

	assert(past->attempts > 0 && past->tried_len <= past->attempts && past->tried_len <= REA_ATTEMPTS_MAX &&
	       "rea_call_resume: the past has no attempt, or more instances than attempts");
	call->attempts = past->attempts;
	/* The policy may have had more attempts when they were made. */
	if (call->attempts_max < past->attempts)
		call->attempts_max = past->attempts;
	call->tried_len = (uint32_t)past->tried_len;
	if (past->tried_len > 0)
		memcpy(call->tried, past->tried, past->tried_len * sizeof(call->tried[0]));
	moves = past->attempts - 1 - count_repeats(call, false);
	call->next_left = (uint32_t)rea_time_sub(moves_max(call), moves);
	call->same_left = call->tried_len == 0 ? 0 : (uint32_t)rea_time_sub(same_max, count_repeats(call, true));
}

REA__COLD void rea_call_resume(
    struct rea_call *call, const struct rea_call_options *options, const struct rea_call_past *past, uint64_t now_ns)
{
	rea_call_begin(call, options, now_ns);
	call->deadline_ns = options->deadline_ns;
	call->begin_ns = rea_time_sub(call->deadline_ns, options->policy->deadline_ns);
	recall_attempts(call, past);
	call->permitted = permissions_for(call, past->outcome);
	call->last_outcome = past->outcome;
	call->wait_until_ns = past->wait_until_ns;
	call->lease = past->lease;
	assert((!past->park.held || options->parking != NULL) &&
	       "rea_call_resume: a parked call needs the parking that its place is of");
	call->park = past->park;
	call->refused = past->refused;
	enter(call, past->flying ? FLYING : WAITING);
}

uint64_t rea_call_deadline(const struct rea_call *call)
{
	return call->deadline_ns;
}

uint32_t rea_call_attempts(const struct rea_call *call)
{
	return call->attempts;
}

bool rea_call_done(const struct rea_call *call)
{
	return call->state == DONE;
}

const char *rea_verdict_name(enum rea_verdict verdict)
{
	static const char *const names[] = {"success", "retry", "give_up"};

	return verdict <= REA_VERDICT_GIVE_UP ? names[verdict] : "unknown";
}

const char *rea_reason_name(enum rea_reason reason)
{
	static const char *const names[] = {
#define X(name, text) text,
	    REA_REASON_MAP(X)
#undef X
	};

	return reason < REA_REASON_COUNT ? names[reason] : "unknown";
}
