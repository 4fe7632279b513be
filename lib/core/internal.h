/* What the files of this room share. */
#ifndef REA_CORE_INTERNAL_H
#define REA_CORE_INTERNAL_H

#include "core/common_window.h"

#include <rea/balancer.h>
#include <rea/budget.h>

/* Runs for a configuration, a page of the admin API or every few seconds, not for a call: small, not fast. */
#define REA__COLD __attribute__((cold))

/* A set of permissions, one bit each. */
#define REA__PERMISSION_BIT(permission) (UINT32_C(1) << (permission))
#define REA__PERMISSIONS_ALL ((UINT32_C(1) << REA_PERMISSION_COUNT) - 1)

/* Which instances may be chosen: those that are not in excluded and whose own permission, combined with grant, is in permitted. */
struct rea__candidates {
	const struct rea_instance_id *excluded;
	size_t excluded_len;
	struct rea_grant grant;
	uint32_t permitted;
	bool ejected; /* ejected ones too; false: only one whose probe this is */
	uint32_t probes; /* permissions with which it may be a probe: should it fail, it is repeated elsewhere; 0 = with none */
	uint64_t now_ns;
};

/* Where it stands in the list; SIZE_MAX = nowhere. */
size_t rea__instance_find(const struct rea_instances *instances, const struct rea_instance_id *id);
bool rea__instance_id_in(const struct rea_instance_id *id, const struct rea_instance_id *ids, size_t ids_len);
bool rea__candidates_have(const struct rea__candidates *candidates, const struct rea_instance *instance);
/* rea_balancer_choose among the candidates. */
size_t rea__balancer_choose(const struct rea_instances *instances, const struct rea__candidates *candidates,
    struct rea_random *random, uint64_t now_ns);

/* ---- ejection ---- */

static inline bool rea__is_ejected(const struct rea_instance *instance)
{
	return instance->load != NULL && instance->load->ejection.until_ns != 0;
}

/* An attempt has ended. */
void rea__ejection_end(struct rea_load *load, const struct rea_report *report, bool answered, uint64_t now_ns);
/* The instance is ejected. This is the first attempt of a call that may find out whether it still should be. */
bool rea__may_probe(const struct rea__candidates *candidates, const struct rea_instance *instance);
/* An attempt goes to an instance with a load: the probe, if one is due. probes: as of candidates. Returns how long it may take; REA_NEVER = as long as any. */
uint64_t rea__ejection_sent(
    const struct rea_instances *instances, size_t index, struct rea_grant grant, uint32_t probes, uint64_t now_ns);
/* This attempt has failed at the instance with this index, SIZE_MAX = none of the list: eject it if it does worse than the others. Draws once if it is. */
void rea__balancer_judge(const struct rea_instances *instances, size_t index, const struct rea_report *report,
    struct rea_random *random, uint64_t now_ns);

/* rea_policy_attempts, which every call begins with. */
static inline uint32_t rea__policy_attempts(const struct rea_policy *policy)
{
	uint64_t on_each = UINT64_C(1) + policy->max_retry_same_instance,
		 instances = UINT64_C(1) + policy->max_retry_next_instance, attempts;

	if (policy->when_all_tried == REA_ALL_TRIED_CYCLE)
		on_each = 1;
	/* Neither is 0 nor above 2^32, so that the product wraps at most to 0. */
	attempts = on_each * instances;
	return attempts == 0 || attempts > UINT32_MAX ? UINT32_MAX : (uint32_t)attempts;
}

/* ---- a budget of several processes ---- */

/* What they share: memory that all of them map. All zero is new. */
struct rea__common_budget {
	uint64_t grpc; /* levels of tokens, as in a budget of one process */
	uint64_t aws;
	struct rea__common_window deposits;
	struct rea__common_window retries;
};

struct rea__evidence;
struct rea__budget_attempt;

/* How it is shared, by whom the memory is. All but release belong to the rule evidence: each process has evidence of its own, what they have in common
 * goes in and out. Times are monotonic ones of all processes. */
struct rea__common_ops {
	/* Called by rea_budget_free. */
	void (*release)(struct rea__common_budget *common);
	/* What all have seen by evidence->now_ns. */
	void (*pull)(struct rea__common_budget *common, uint32_t epoch, struct rea__evidence *evidence);
	/* What this one has seen at evidence->now_ns: an attempt's end, NULL = a first attempt. */
	void (*push)(struct rea__common_budget *common, uint32_t epoch, const struct rea__evidence *evidence,
	    const struct rea__budget_attempt *attempt);
	/* A retry, on a token or on evidence. False: others were faster. */
	bool (*take)(struct rea__common_budget *common, uint32_t epoch, bool token, uint64_t now_ns);
	void (*give_back)(struct rea__common_budget *common, uint32_t epoch, bool token, uint64_t taken_ns);
};

/* A budget whose numbers are these; its policy is its own. common: borrowed while it lives. Any number of shards. Returns as rea_budget_new. */
int rea__budget_new_common(const struct rea_budget_policy *policy, struct rea__common_budget *common, uint32_t epoch,
    const struct rea__common_ops *ops, const struct rea_alloc *alloc, struct rea_budget **ret_budget);

#endif
