/*
 * The instances of a scenario on sockets, in a thread of their own: what lab/callee.h decides, spoken in HTTP/1.1.
 *
 * A request tells what it is in the field x-lab: "CALL OPERATION ATTEMPT DEADLINE CALL-DEADLINE TELLS", times in ns of the run's clock. A client of
 * another kind, or a proxy between, leaves it as it is.
 */
#ifndef REA_SRC_LAB_BED_H
#define REA_SRC_LAB_BED_H

#include "lab/callee.h"
#include "lab/measure.h"
#include "loop/loop.h"

#define LAB_FIELD "x-lab"

struct lab_sockets;

/* Listens, and starts the thread. port: of the first instance, the others follow; 0 = the kernel chooses. zero_ns: when the run's clock begins. Returns 0, REA_ERR_IO or
 * REA_ERR_NOMEM with ret_info filled. */
int lab_sockets_start(const struct lab_scenario *scenario, bool faults, uint16_t port, uint64_t zero_ns, uint64_t seed,
    struct lab_sockets **ret_sockets, struct rea_error_info *ret_info);
/* Where an instance listens. */
const char *lab_sockets_address(const struct lab_sockets *sockets, uint32_t index);
/* Connections are closed and the thread ends; then what the instances saw may be read. */
void lab_sockets_stop(struct lab_sockets *sockets);
struct lab_callee *lab_sockets_callee(struct lab_sockets *sockets);
/* How late timers fired. */
const struct lab_latencies *lab_sockets_late(const struct lab_sockets *sockets);
/* Stopped; NULL is a no-op. */
void lab_sockets_free(struct lab_sockets *sockets);

#endif
