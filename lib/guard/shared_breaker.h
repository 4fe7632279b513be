/* What a shared breaker tells of itself beyond rea/shared.h. */
#ifndef REA_GUARD_SHARED_BREAKER_H
#define REA_GUARD_SHARED_BREAKER_H

#include "core/breaker.h"

#include <rea/shared.h>

/* As rea__breaker_look. */
void rea__shared_breaker_look(const struct rea_shared_breaker *breaker, uint64_t now_ns, struct rea__breaker_view *ret_view);

#endif
