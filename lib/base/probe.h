/*
 * Static probes (USDT): places where a tracer may look at what is decided, doc/man/rea_probes.7 lists them. Without a tracer a probe is one
 * nop; built without them (meson's option `probes`), nothing at all: then its arguments are not evaluated, so they have no side effects.
 */
#ifndef REA_BASE_PROBE_H
#define REA_BASE_PROBE_H

#ifdef REA_PROBES
#define SDT_USE_VARIADIC
#include <sys/sdt.h>
#define REA__PROBE(name, ...) STAP_PROBEV(rea, name, __VA_ARGS__)
#else
#define REA__PROBE(name, ...) ((void)0)
#endif

#endif
