/* The default allocator, made to fail. For programs linked with -Wl,--wrap=rea_alloc_default. */
#ifndef REA_TESTS_HTTP_OOM_H
#define REA_TESTS_HTTP_OOM_H

#include <rea/alloc.h>

#include <stdbool.h>

extern unsigned long oom_count; /* allocations so far */
extern unsigned long oom_at;    /* the one that fails; 0 = none */
extern bool oom_for_good;       /* and all after it */
/* Begin counting anew. */
void oom_start(unsigned long at, bool for_good);

/* Never fails. */
extern const struct rea_alloc oom_exempt;

#endif
