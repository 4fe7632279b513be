/* From an address as a configuration writes it to instances. */
#ifndef REA_SRC_RESOLVE_H
#define REA_SRC_RESOLVE_H

#include <rea/balancer.h>
#include <rea/error.h>

/* Further addresses of one name are left out. */
#define RESOLVE_ADDRESSES_MAX 32

/* "127.0.0.1:80", "[::1]:80" or "name:80". A name is looked up, which may block for as long as the system's
 * resolver takes: for start and reload, on the main thread. ret_ids: room for max; each address once, in the
 * resolver's order. Returns 0 with *ret_count >= 1, REA_ERR_INVALID for an address without a good port, or
 * REA_ERR_NOT_FOUND for a name that has no address. */
int resolve_address(const char *address, struct rea_instance_id *ret_ids, size_t max, size_t *ret_count,
    struct rea_error_info *ret_info);

#endif
