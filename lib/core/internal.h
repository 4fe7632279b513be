/* What the files of this room share. */
#ifndef REA_CORE_INTERNAL_H
#define REA_CORE_INTERNAL_H

#include <rea/balancer.h>

/* A set of permissions, one bit each. */
#define REA__PERMISSION_BIT(permission) (UINT32_C(1) << (permission))
#define REA__PERMISSIONS_ALL ((UINT32_C(1) << REA_PERMISSION_COUNT) - 1)

/* Which instances may be chosen: those that are not in excluded and whose own permission, combined with grant, is in permitted. */
struct rea__candidates {
	const struct rea_instance_id *excluded;
	size_t excluded_len;
	struct rea_grant grant;
	uint32_t permitted;
};

bool rea__instance_id_in(const struct rea_instance_id *id, const struct rea_instance_id *ids, size_t ids_len);
bool rea__candidates_have(const struct rea__candidates *candidates, const struct rea_instance *instance);
/* rea_balancer_choose among the candidates. */
size_t rea__balancer_choose(const struct rea_instances *instances, const struct rea__candidates *candidates,
    struct rea_random *random, uint64_t now_ns);

#endif
