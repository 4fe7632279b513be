/*
 * Contracts: what a callee declares about its operations, and finding the operation of a request. Immutable once
 * built: any thread.
 */
#ifndef REA_CONTRACT_H
#define REA_CONTRACT_H

#include <rea/alloc.h>
#include <rea/error.h>
#include <rea/permission.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of one template: segments, and bytes. */
#define REA_CONTRACT_SEGMENTS_MAX 64
#define REA_CONTRACT_PATH_MAX 4096
/* Of one contract. */
#define REA_CONTRACT_OPERATIONS_MAX 1000000

struct rea_contract;

struct rea_operation {
	const char *key;         /* method key: contextId_methodName */
	const char *http_method; /* "GET"; upper case */
	const char *path;        /* template: "/users/{id}" */
	struct rea_grant grant;
	bool generate_key; /* rea makes an Idempotency-Key when the caller sent none */
	/* gRPC: the caller sends, or the callee answers with, any number of messages. What does not say so has one each. */
	bool client_streams, server_streams;
	size_t index;  /* 0 .. count-1, in order of adding */
	uint32_t line; /* where it was declared; 0 = unknown */
};

/* Build: new, add each, finish; after that it is read-only. */
REA_API int rea_contract_new(const struct rea_alloc *alloc, struct rea_contract **ret_contract);
REA_API void rea_contract_free(struct rea_contract *contract);
/* All texts are copied. Refused with REA_ERR_INVALID and a message: a template that does not begin with "/", an
 * empty segment or parameter name, a parameter name with other characters than letters, digits, "_", "-" and "."
 * (patterns such as "{id:[0-9]+}" are not understood), an unclosed brace, a parameter that is not a whole segment,
 * a segment that no request path can hold (see rea_contract_match), a second operation with the same method and
 * shape ("/a/{x}" and "/a/{y}"), an empty method key or one used twice, an http_method that is no token.
 * REA_ERR_LIMIT beyond the limits above, REA_ERR_NOMEM. A refused operation changes nothing. */
REA_API int rea_contract_add(
    struct rea_contract *contract, const struct rea_operation *operation, struct rea_error_info *ret_info);
/* What another document says of the same contract: an operation that is there already, with the same key, method and shape, gets the more
 * restrictive permission of both, and a key is generated if either says so and the permission still asks for one; a new one is added. Returns
 * as rea_contract_add; REA_ERR_INVALID also when key and shape belong to two different operations. */
REA_API int rea_contract_combine(
    struct rea_contract *contract, const struct rea_operation *operation, struct rea_error_info *ret_info);
/* No more operations come. Must be called before the first match. Returns 0. */
REA_API int rea_contract_finish(struct rea_contract *contract);

REA_API size_t rea_contract_count(const struct rea_contract *contract);
REA_API const struct rea_operation *rea_contract_operation(const struct rea_contract *contract, size_t index);
REA_API const struct rea_operation *rea_contract_find_key(const struct rea_contract *contract, const char *key, size_t length);
/* The operation of a request: of those with its method whose template fits, literal segments beat parameters, from
 * the left; a parameter matches one non-empty segment. Literals are compared after percent-decoding, so "/%70ay"
 * is "/pay". path: origin-form with or without query. A path with dot segments (plain or percent-encoded), an
 * empty segment (a slash at its end too), a backslash or a slash that is encoded, a malformed escape, a control
 * character, a fragment or a ";" (some servers cut it off) matches nothing: what the callee would make of it is
 * not known. Allocates nothing. */
REA_API const struct rea_operation *rea_contract_match(const struct rea_contract *contract, const char *method,
    size_t method_length, const char *path, size_t path_length);

#ifdef __cplusplus
}
#endif
#endif
