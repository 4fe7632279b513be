/*
 * Permission: whether a callee lets an operation be repeated. A lattice, ordered from the most permissive to the most restrictive value,
 * so that combining sources is taking the larger one.
 */
#ifndef REA_PERMISSION_H
#define REA_PERMISSION_H

#include <rea/api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, "name") */
#define REA_PERMISSION_MAP(X)                                                                                  \
	X(NONE, "none")                               /* this source says nothing */                           \
	X(SAFE, "safe")                               /* no side effects; may be hedged or used as a probe */  \
	X(IDEMPOTENT, "idempotent")                   /* may be repeated */                                    \
	X(IDEMPOTENT_WITH_KEY, "idempotent_with_key") /* may be repeated when it carries an Idempotency-Key */ \
	X(UNKNOWN, "unknown")                         /* not declared: permits nothing */                      \
	X(FORBID, "forbid")                           /* must not be repeated */

enum rea_permission {
#define X(name, text) REA_PERMISSION_##name,
	REA_PERMISSION_MAP(X)
#undef X
	    REA_PERMISSION_COUNT
};

/* Who said so. X(NAME, "name") */
#define REA_PERMISSION_SOURCE_MAP(X)                                         \
	X(NONE, "none")         /* nobody */                                 \
	X(CONFIG, "config")     /* inline `contracts` of rea.yaml */         \
	X(CONTRACT, "contract") /* a contract file */                        \
	X(OPENAPI, "openapi")                                                \
	X(PROTOBUF, "protobuf")                                              \
	X(REGISTRY, "registry") /* metadata of the instance */               \
	X(CALLER, "caller")     /* a librea program that states it itself */ \
	X(SMITHY, "smithy")

enum rea_permission_source {
#define X(name, text) REA_PERMISSION_SOURCE_##name,
	REA_PERMISSION_SOURCE_MAP(X)
#undef X
	    REA_PERMISSION_SOURCE_COUNT
};

/* A permission with the source that decided it. Plain value. */
struct rea_grant {
	enum rea_permission permission;
	enum rea_permission_source source;
};

/* The more restrictive of two; of equals, a. A NONE yields to the other. */
REA_API struct rea_grant rea_grant_combine(struct rea_grant a, struct rea_grant b);

/* Names are static; "unknown" when out of range. */
REA_API const char *rea_permission_name(enum rea_permission permission);
REA_API const char *rea_permission_source_name(enum rea_permission_source source);

#ifdef __cplusplus
}
#endif
#endif
