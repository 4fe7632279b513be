/*
 * The caller's side: a client program with its own budget, breaker and view of the instances, that makes calls as its policy decides. Every decision is the
 * core's (rea/call.h). Sans-IO: requests go out and answers come in through functions of whoever owns it.
 */
#ifndef REA_SRC_LAB_CALLER_H
#define REA_SRC_LAB_CALLER_H

#include "lab/callee.h"
#include "lab/policies.h"

#include <rea/call.h>

struct lab_call;

struct lab_wire {
	/* Send the attempt to an instance; it ends with lab_call_answered, or with `abandon`. Never answers inside. */
	void (*send)(struct lab_call *call, size_t instance, uint64_t deadline_ns, uint64_t now_ns);
	/* The attempt under way has had its time: nobody waits for it any more. */
	void (*abandon)(struct lab_call *call, uint64_t now_ns);
	/* The call is over; the call's memory is the owner's again. */
	void (*done)(struct lab_call *call, const struct rea_decision *decision, uint64_t now_ns);
};

struct lab_caller {
	const struct lab_policy *policy;
	const struct lab_scenario *scenario;
	const struct lab_wire *wire;
	struct lab_agenda *agenda;
	struct rea_random random;
	struct rea_instances instances;
	struct rea_instance list[LAB_INSTANCES_MAX];
	struct rea_load loads[LAB_INSTANCES_MAX];
	struct rea_budget *budget;
	struct rea_breaker *breaker;
	struct rea_retry_limit limit, parking;
	uint32_t active; /* attempts under way, and calls that wait for the next one */
	uint64_t ejections;
	double median_ns; /* of attempts that succeeded; 0 = none yet */
};

/* One call; the owner embeds it. */
struct lab_call {
	struct rea_call core;
	struct lab_caller *caller;
	struct lab_timer timer; /* the end of the attempt, or of the wait before the next one */
	uint64_t number;        /* shared by the calls that one call causes at deeper layers */
	uint64_t begin_ns;
	uint64_t sent_ns; /* the attempt under way */
	size_t instance;  /* of it */
	uint32_t operation;
	bool flying;
};

/* Who asks a layer: as many clients as the scenario has, or the instances of the layer above. instances: of that layer, as they know it. ret_callers is NULL, or for
 * lab_callers_free, which takes NULL too. Returns 0 or REA_ERR_NOMEM. */
int lab_callers_new(const struct lab_policy *policy, const struct lab_scenario *scenario, uint32_t layer, uint32_t instances,
    const struct lab_wire *wire, struct lab_agenda *agenda, uint64_t seed, struct lab_caller **ret_callers);
void lab_callers_free(struct lab_caller *callers, const struct lab_scenario *scenario, uint32_t layer);
/* How often they left an instance out. */
uint64_t lab_callers_ejections(const struct lab_caller *callers, const struct lab_scenario *scenario, uint32_t layer);
/* number, operation and caller are set. deadline_ns: of what caused it, REA_NEVER = none. chained: that was a retry itself. May end the call at once.
 * Returns 0 or REA_ERR_NOMEM. */
int lab_call_begin(struct lab_call *call, uint64_t deadline_ns, bool chained, uint64_t now_ns);
/* The same for a request at an instance that asks the next layer; callers: the instances of its layer. */
int lab_call_begin_inner(struct lab_call *call, struct lab_caller *callers, const struct lab_work *cause, uint64_t now_ns);
/* What that came to is the answer of the instance. */
void lab_call_answer_cause(struct lab_work *cause, const struct rea_decision *decision, uint64_t now_ns);
/* The attempt under way has ended; latency is filled in here. */
void lab_call_answered(struct lab_call *call, struct rea_report *report, uint64_t now_ns);
/* What an answer means to a client of this policy. stop: it says `rea-retry: stop`. */
void lab_report_of(
    const struct lab_policy *policy, enum lab_answer answer, uint32_t status, bool stop, struct rea_report *ret_report);

#endif
