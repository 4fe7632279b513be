#include "lab/caller.h"

#include "base/container.h"

#include <errno.h>
#include <stdlib.h>

#define MEDIAN_STEP 0.02
#define PARKED_CALLS 1000 /* limits.parked-calls */
#define CONCURRENT_RETRIES 256

/* ---- a client ---- */

static void init_instances(struct lab_caller *caller, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		caller->list[i] = (struct rea_instance){.weight = 1, .load = &caller->loads[i]};
		caller->list[i].id.address[15] = (uint8_t)(i + 1);
		caller->list[i].id.port = 80;
	}
	caller->instances = (struct rea_instances){.items = caller->list, .count = count, .equal_weights = true};
}

static int init_caller(struct lab_caller *caller, const struct lab_policy *policy, const struct lab_scenario *scenario,
    uint32_t instances, const struct lab_wire *wire, struct lab_agenda *agenda, uint64_t seed)
{
	int error = 0;

	*caller = (struct lab_caller){.policy = policy, .scenario = scenario, .wire = wire, .agenda = agenda};
	rea_random_init(&caller->random, seed);
	init_instances(caller, instances);
	rea_retry_limit_init(&caller->parking, PARKED_CALLS);
	rea_retry_limit_init(&caller->limit, policy->active_min > 0 ? policy->active_min : CONCURRENT_RETRIES);
	if (policy->budget)
		error = rea_budget_new(&policy->core.budget, 1, NULL, &caller->budget, NULL);
	if (error == 0 && policy->core.breaker.enabled)
		error = rea_breaker_new(&policy->core.breaker, NULL, &caller->breaker, NULL);
	return error;
}

static uint32_t count_callers(const struct lab_scenario *scenario, uint32_t layer)
{
	return layer == 0 ? scenario->clients : scenario->layers[layer - 1].instances;
}

int lab_callers_new(const struct lab_policy *policy, const struct lab_scenario *scenario, uint32_t layer, uint32_t instances,
    const struct lab_wire *wire, struct lab_agenda *agenda, uint64_t seed, struct lab_caller **ret_callers)
{
	uint32_t count = count_callers(scenario, layer);
	struct lab_caller *callers = calloc(count, sizeof(*callers));
	int error = callers == NULL ? REA_ERR_NOMEM : 0;

	*ret_callers = callers;
	for (uint32_t i = 0; error == 0 && i < count; i++)
		error = init_caller(
		    &callers[i], policy, scenario, instances, wire, agenda, seed + ((uint64_t)(layer + 1) << 32) + i);
	return error;
}

void lab_callers_free(struct lab_caller *callers, const struct lab_scenario *scenario, uint32_t layer)
{
	for (uint32_t i = 0; callers != NULL && i < count_callers(scenario, layer); i++) {
		rea_budget_free(callers[i].budget);
		rea_breaker_free(callers[i].breaker);
	}
	free(callers);
}

uint64_t lab_callers_ejections(const struct lab_caller *callers, const struct lab_scenario *scenario, uint32_t layer)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < count_callers(scenario, layer); i++)
		count += callers[i].ejections;
	return count;
}

/* A limit that follows what is under way. */
static void adjust_limit(struct lab_caller *caller)
{
	const struct lab_policy *policy = caller->policy;
	uint32_t share = (uint32_t)(policy->active_share * caller->active);

	if (policy->active_min > 0)
		rea_retry_limit_configure(&caller->limit, share > policy->active_min ? share : policy->active_min);
}

static void note_latency(struct lab_caller *caller, uint64_t latency_ns)
{
	if (caller->median_ns <= 0)
		caller->median_ns = (double)latency_ns;
	else if ((double)latency_ns > caller->median_ns)
		caller->median_ns *= 1 + MEDIAN_STEP;
	else
		caller->median_ns *= 1 - MEDIAN_STEP;
}

/* ---- a call ---- */

static void act(struct lab_call *call, const struct rea_decision *decision, uint64_t now_ns)
{
	struct lab_caller *caller = call->caller;

	switch (decision->step) {
	case REA_STEP_ATTEMPT:
		call->instance = caller->policy->balances
				     ? decision->instance
				     : (size_t)rea_random_below(&caller->random, caller->instances.count);
		call->sent_ns = now_ns;
		call->flying = true;
		rea_load_begin(&caller->loads[call->instance], now_ns);
		lab_agenda_set(caller->agenda, &call->timer, decision->attempt_deadline_ns);
		caller->wire->send(call, call->instance, decision->attempt_deadline_ns, now_ns);
		break;
	case REA_STEP_WAIT:
		lab_agenda_set(caller->agenda, &call->timer, decision->wait_until_ns);
		break;
	case REA_STEP_DONE:
		caller->active--;
		lab_agenda_leave(caller->agenda, &call->timer);
		caller->wire->done(call, decision, now_ns);
		break;
	}
}

static void attempt(struct lab_call *call, uint64_t now_ns)
{
	struct lab_caller *caller = call->caller;
	struct rea_decision decision;

	adjust_limit(caller);
	rea_call_attempt(&call->core, &caller->instances, &caller->random, now_ns, &decision);
	act(call, &decision, now_ns);
}

void lab_call_answered(struct lab_call *call, struct rea_report *report, uint64_t now_ns)
{
	struct lab_caller *caller = call->caller;
	struct rea_load *load = &caller->loads[call->instance];
	bool ejected = rea_load_ejected(load);
	struct rea_decision decision;

	call->flying = false;
	report->latency_ns = rea_time_sub(now_ns, call->sent_ns);
	lab_agenda_unset(caller->agenda, &call->timer);
	rea_load_end(load, report, now_ns);
	if (report->outcome == REA_OUTCOME_OK)
		note_latency(caller, report->latency_ns);
	adjust_limit(caller);
	rea_call_report(&call->core, report, &caller->instances, &caller->random, now_ns, &decision);
	caller->ejections += !ejected && rea_load_ejected(load);
	act(call, &decision, now_ns);
}

void lab_report_of(
    const struct lab_policy *policy, enum lab_answer answer, uint32_t status, bool stop, struct rea_report *ret_report)
{
	*ret_report = (struct rea_report){.outcome = REA_OUTCOME_OK, .code_kind = REA_CODE_HTTP, .code = 200};
	switch (answer) {
	case LAB_ANSWER_OK:
		break;
	case LAB_ANSWER_ERROR:
		ret_report->code = status;
		ret_report->outcome = rea_outcome_from_http(status, policy->core.classify, policy->core.classify_len);
		break;
	case LAB_ANSWER_PUSHBACK:
		ret_report->code = status;
		ret_report->outcome = policy->asks ? REA_OUTCOME_PUSHBACK : REA_OUTCOME_UNAVAILABLE;
		break;
	case LAB_ANSWER_REFUSED:
		*ret_report = (struct rea_report){
		    .outcome = REA_OUTCOME_NEVER_SENT, .code_kind = REA_CODE_ERRNO, .code = ECONNREFUSED};
		break;
	case LAB_ANSWER_RESET:
		*ret_report =
		    (struct rea_report){.outcome = REA_OUTCOME_AMBIGUOUS, .code_kind = REA_CODE_ERRNO, .code = ECONNRESET};
		break;
	}
	if (stop && policy->asks)
		ret_report->flags |= REA_REPORT_STOP;
}

static void on_time(struct lab_timer *timer, uint64_t now_ns)
{
	struct lab_call *call = REA_CONTAINER_OF(timer, struct lab_call, timer);
	struct rea_report report = {.outcome = REA_OUTCOME_AMBIGUOUS, .code_kind = REA_CODE_ERRNO, .code = ETIMEDOUT};

	if (!call->flying) {
		attempt(call, now_ns);
		return;
	}
	call->caller->wire->abandon(call, now_ns);
	lab_call_answered(call, &report, now_ns);
}

int lab_call_begin(struct lab_call *call, uint64_t deadline_ns, bool chained, uint64_t now_ns)
{
	struct lab_caller *caller = call->caller;
	const struct lab_policy *policy = caller->policy;
	const struct lab_operation *operation = &caller->scenario->operations[call->operation];
	struct rea_call_options *options = &call->core.options;

	if (lab_agenda_join(caller->agenda, &call->timer, on_time) != 0)
		return REA_ERR_NOMEM;
	call->begin_ns = now_ns;
	call->flying = false;
	caller->active++;
	rea_call_options_init(options);
	options->policy = &policy->core;
	options->grant.permission = policy->asks ? operation->permission : REA_PERMISSION_IDEMPOTENT;
	options->grant.source = REA_PERMISSION_SOURCE_CONTRACT;
	options->has_key = operation->key;
	options->chained = policy->asks && chained;
	options->deadline_ns = policy->asks ? deadline_ns : REA_NEVER;
	options->useful_ns = policy->asks ? (uint64_t)caller->median_ns : 0;
	options->budget = caller->budget;
	options->breaker = caller->breaker;
	options->limit = &caller->limit;
	options->parking = &caller->parking;
	options->single_target = !policy->balances;
	rea_call_begin(&call->core, options, now_ns);
	attempt(call, now_ns);
	return 0;
}

/* ---- calls of instances ---- */

int lab_call_begin_inner(struct lab_call *call, struct lab_caller *callers, const struct lab_work *cause, uint64_t now_ns)
{
	call->caller = &callers[cause->instance->index];
	call->number = cause->call;
	call->operation = cause->operation;
	return lab_call_begin(call, cause->deadline_ns, cause->attempt > 1, now_ns);
}

void lab_call_answer_cause(struct lab_work *cause, const struct rea_decision *decision, uint64_t now_ns)
{
	bool ok = decision->verdict == REA_VERDICT_SUCCESS;

	/* The reply that it got is the one that it gives: a `rea-retry: stop` in it goes up. */
	cause->stop = decision->stop || decision->reason == REA_REASON_SERVER_REFUSED;
	lab_callee_done(cause, ok ? LAB_ANSWER_OK : LAB_ANSWER_ERROR, 503, now_ns);
}
