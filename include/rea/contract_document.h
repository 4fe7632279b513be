/*
 * Contracts from the documents that callees publish: what each operation permits, and how a request is told to be one of it.
 *
 *   plain      context and operations, as under `contracts` in rea.yaml(5)
 *   openapi    OpenAPI 3.0 and 3.1, YAML or JSON: `x-rpc-retryable: true|false|with-key`, `x-rea-retry`, or a required Idempotency-Key parameter
 *   protobuf   a FileDescriptorSet (protoc -o): idempotency_level, and the option rea.rpc_retryable
 *   smithy     a Smithy 2.0 model as JSON AST: readonly, idempotent, idempotencyToken
 *
 * A document is read whole or refused whole, with the place where it is wrong.
 */
#ifndef REA_CONTRACT_DOCUMENT_H
#define REA_CONTRACT_DOCUMENT_H

#include <rea/contract.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, "name") */
#define REA_CONTRACT_FORMAT_MAP(X)                                          \
	X(AUTO, "auto") /* by the document's beginning and its root keys */ \
	X(PLAIN, "plain")                                                   \
	X(OPENAPI, "openapi")                                               \
	X(PROTOBUF, "protobuf")                                             \
	X(SMITHY, "smithy")

enum rea_contract_format {
#define X(name, text) REA_CONTRACT_##name,
	REA_CONTRACT_FORMAT_MAP(X)
#undef X
	    REA_CONTRACT_FORMAT_COUNT
};

/* Field of google.protobuf.MethodOptions that holds `rpc_retryable` (an int32: 1 true, 2 false, 3 with-key), in the range for use within an organisation. */
#define REA_CONTRACT_PROTOBUF_OPTION 51790

struct rea_contract_document {
	uint32_t version; /* set by rea_contract_document_init */
	enum rea_contract_format format;
	const char *name; /* for messages; NULL = none */
	const char *text; /* borrowed until return */
	size_t length;
	/* First part of the method keys. NULL = the document's own: `context`, an operation's first tag, a service's name. Means nothing for protobuf,
	 * whose keys are package.Service_Method. */
	const char *context;
	/* What stands before every path, "" = nothing. NULL = the document's own: the path of an OpenAPI document's servers. */
	const char *base_path;
};
#define REA_CONTRACT_DOCUMENT_VERSION 1
REA_API void rea_contract_document_init(struct rea_contract_document *document);

/* Combine what the document declares into the contract, which is not finished: see rea_contract_combine. alloc: for what lives until return; NULL =
 * malloc. Returns 0, or REA_ERR_SYNTAX, INVALID, LIMIT, NOMEM with ret_info (may be NULL); after an error the contract may hold a part. ret_format
 * (may be NULL): what AUTO found. */
REA_API int rea_contract_read(struct rea_contract *contract, const struct rea_contract_document *document,
    const struct rea_alloc *alloc, enum rea_contract_format *ret_format, struct rea_error_info *ret_info);

/* "auto", "plain", …; "unknown" when out of range. Static. */
REA_API const char *rea_contract_format_name(enum rea_contract_format format);

#ifdef __cplusplus
}
#endif
#endif
