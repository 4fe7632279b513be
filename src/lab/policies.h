/*
 * Retry policies as the lab seats them: rea's own, and the classic ones of the field for comparison, each as its documentation tells. All of them are numbers
 * for the real core: none is a second implementation.
 */
#ifndef REA_SRC_LAB_POLICIES_H
#define REA_SRC_LAB_POLICIES_H

#include "lab/scenario.h"

#include <rea/policy.h>

struct lab_policy {
	const char *name;
	const char *about; /* what it is, and whose documentation says so */
	struct rea_policy core;
	/* It asks what the callee permits, obeys `rea-retry`, tells and hears of attempts above. The classic ones repeat whatever fails. */
	bool asks;
	bool balances; /* instances by load and never one twice in a round; else at random each time, as behind a virtual address */
	bool budget; /* core.budget holds */
	/* Retries under way at once for each client, by what is under way in all; 0 = no such limit. */
	double active_share;
	uint32_t active_min;
	bool usual; /* stands in a comparison that names none */
};

/* By name; NULL = there is none. The scenario's times stand in it. */
int lab_policy_find(const char *name, const struct lab_scenario *scenario, struct lab_policy *ret_policy);
/* The policy at the global level of a rea.yaml, called by the file's name. Returns as rea_config_load. */
int lab_policy_load(const char *path, const struct lab_scenario *scenario, struct lab_policy *ret_policy,
    struct rea_error_info *ret_info);
/* All built-in ones, in the order of a comparison; rea's own is the last of the usual ones. NULL behind the last. */
const char *lab_policy_name(size_t index);

#endif
