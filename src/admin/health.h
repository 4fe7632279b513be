/*
 * grpc.health.v1.Health/Check: is rea ready, and can a service be reached? Of the health protocol that gRPC's probes and load balancers speak; Watch is
 * left out, which the protocol provides for.
 *
 * The name "" is rea itself: SERVING while it is ready. The name of a service is SERVING while rea is ready and the service has an instance that is not
 * left out; another name is NOT_FOUND.
 */
#ifndef REA_SRC_ADMIN_HEALTH_H
#define REA_SRC_ADMIN_HEALTH_H

#include "admin/admin.h"

/* Its routes, to be looked up like those of other rooms. sources: borrowed while they are used. */
struct admin_routes health_routes(const struct admin_sources *sources);

#endif
