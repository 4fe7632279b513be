/*
 * A scenario on real sockets: the instances of lab/bed.h in one thread, whatever their layer, the clients and their load in this one. The clients decide with the same code as in
 * virtual time; between them there is TCP and HTTP/1.1, and the clock is the machine's.
 */
#ifndef REA_SRC_LAB_RUN_H
#define REA_SRC_LAB_RUN_H

#include "lab/caller.h"
#include "lab/measure.h"

/* How runs on sockets are made. */
struct lab_run_options {
	uint16_t port; /* of the first instance; 0 = the kernel chooses */
	const char *through; /* "127.0.0.1:8080": requests go to a proxy, or another client, that knows the instances; NULL = to them */
};
/* context: a struct lab_run_options. As lab_sim_run; REA_ERR_IO too, which was told on standard error. */
int lab_run_run(const void *context, const struct lab_scenario *scenario, const struct lab_policy *policy, bool faults,
    uint64_t seed, struct lab_measure *ret_measure);

#endif
