/*
 * A scenario in virtual time: clients and instances of this process meet in memory, and time jumps from one event to the next. The clients decide with the
 * real core; nothing here reads a clock. Equal seeds give equal runs.
 */
#ifndef REA_SRC_LAB_SIM_H
#define REA_SRC_LAB_SIM_H

#include "lab/caller.h"
#include "lab/measure.h"

/* context: not used; there for struct lab_study. faults: false = the same without any, to know what is normal. Returns 0 or REA_ERR_NOMEM. */
int lab_sim_run(const void *context, const struct lab_scenario *scenario, const struct lab_policy *policy, bool faults,
    uint64_t seed, struct lab_measure *ret_measure);

#endif
