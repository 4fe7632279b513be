/*
 * Active checks: each instance of a service with `health-check` is asked at intervals whether it is well. One that was not, so many times in a row, is
 * unhealthy: it gets no call as long as there is another one, until it has passed so many checks in a row. If all are unhealthy, all are used.
 *
 * Checks run on the thread of the proxy's options.loop, over the connections of its worker; they count as no attempts, in no budget and no load.
 */
#ifndef REA_SRC_PROXY_HEALTH_H
#define REA_SRC_PROXY_HEALTH_H

#include "proxy/internal.h"

/* Of an unhealthy instance: behind every tier that a source gives. */
#define HEALTH_TIER (UINT32_C(1) << 31)

/* worker: that of options.loop; borrowed while health lives. NULL = out of memory. */
struct health *health_new(struct proxy_worker *worker);
/* Ends every check. NULL is fine. */
void health_free(struct health *health);
/* Check the instances of this snapshot, and no others; what is known of those that stay stays. Without memory for an instance it is not checked. */
void health_configure(struct health *health, const struct snapshot *snapshot);
/* Is it unhealthy, as far as is known? health may be NULL. */
bool health_is_bad(const struct health *health, const char *service, const struct rea_instance_id *id);
void health_metrics(const struct health *health, struct rea_prometheus *out);

#endif
