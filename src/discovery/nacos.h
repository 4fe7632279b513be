/* Follows one document of a Nacos server: by long polling where the server has it (v1), else by asking every so often (v3). */
#ifndef REA_SRC_NACOS_H
#define REA_SRC_NACOS_H

#include "discovery/source.h"
#include "loop/transfer.h"

#include <rea/config.h>

struct nacos;

/* source: borrowed while it lives; events: copied. NULL = out of memory. */
struct nacos *nacos_start(struct loop *loop, struct transfers *transfers, const struct rea_config_source *source,
    const struct source_events *events);
/* No more events. NULL is a no-op. */
void nacos_stop(struct nacos *nacos);

#endif
