/*
 * The instances of a scenario on sockets, in a thread of their own: what lab/callee.h decides, spoken in HTTP/1.1. Those of a layer that is not the last one
 * are clients of the next, each with a policy, a budget and a breaker of its own, on sockets again.
 */
#ifndef REA_SRC_LAB_BED_H
#define REA_SRC_LAB_BED_H

#include "lab/links.h"

struct lab_sockets;

/* Listens, and starts the thread. port: of the first instance, the others follow, layer by layer; 0 = the kernel chooses. policy: of those that ask a
 * further layer. zero_ns: when the run's clock begins. Returns 0, REA_ERR_IO or
 * REA_ERR_NOMEM with ret_info filled. */
int lab_sockets_start(const struct lab_scenario *scenario, const struct lab_policy *policy, bool faults, uint16_t port,
    uint64_t zero_ns, uint64_t seed, struct lab_sockets **ret_sockets, struct rea_error_info *ret_info);
/* Where an instance of the first layer listens. */
const char *lab_sockets_address(const struct lab_sockets *sockets, uint32_t index);
/* Connections are closed and the thread ends; then what the instances saw may be read. */
void lab_sockets_stop(struct lab_sockets *sockets);
struct lab_callee *lab_sockets_callee(struct lab_sockets *sockets);
/* How late timers fired. */
const struct lab_latencies *lab_sockets_late(const struct lab_sockets *sockets);
/* Stopped; NULL is a no-op. */
void lab_sockets_free(struct lab_sockets *sockets);

#endif
