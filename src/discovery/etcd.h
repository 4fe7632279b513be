/* Follows one key of an etcd cluster, or all that begin alike, through the JSON gateway of v3: reads it, then watches it from that revision on. */
#ifndef REA_SRC_ETCD_H
#define REA_SRC_ETCD_H

#include "discovery/source.h"
#include "loop/transfer.h"

#include <rea/config.h>

struct etcd;

/* source: its servers; name: the key, or with events->listed the prefix of the keys; both borrowed while it lives. events: copied. NULL = out of
 * memory. */
struct etcd *etcd_start(struct loop *loop, struct transfers *transfers, const struct rea_config_source *source,
    const char *name, const struct source_events *events);
/* No more events. NULL is a no-op. */
void etcd_stop(struct etcd *etcd);

#endif
