/*
 * What an instance says itself of which of its methods may be repeated, in the metadata of its registry:
 *
 *   rea.retryable = true                                  of all its methods
 *   rea.retryable = getUser, listUsers=safe, pay=with-key of these; the others are not declared there
 *   rea.retryable.pay = false                             of this one
 *
 * Values are true, false, with-key and safe. Of two that speak of one method the more restrictive holds; what cannot be read counts as not declared.
 * Without I/O.
 */
#ifndef REA_SRC_PERMITS_H
#define REA_SRC_PERMITS_H

#include "base/slice.h"

#include <rea/contract.h>

#include <jansson.h>

#define PERMITS_KEY "rea.retryable"
/* Of one instance; beyond, all of it counts as not declared. */
#define PERMITS_METHODS_MAX 1000
#define PERMITS_BYTES_MAX ((size_t)64 * 1024)

/* In a form that is equal for equal meanings. metadata: an object of texts and booleans. ret_permits: freed by the caller; NULL = it says nothing.
 * problem: what cannot be read, left alone when all can. Returns 0 or REA_ERR_NOMEM. */
int permits_read(const json_t *metadata, char **ret_permits, char *problem, size_t problem_size);
/* What that form says of a method; empty = of a request that is none of the contract's. NONE: nothing. permits: NULL = says nothing. */
enum rea_permission permits_of(const char *permits, struct rea_slice method);
/* The value of PERMITS_KEY that says what a contract says. Freed by the caller; NULL = out of memory. */
char *permits_write(const struct rea_contract *contract);

#endif
