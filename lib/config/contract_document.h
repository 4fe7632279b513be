/* What the readers of contract documents share. Each fills a contract of its own, which is then combined into the caller's. */
#ifndef REA_CONFIG_CONTRACT_DOCUMENT_H
#define REA_CONFIG_CONTRACT_DOCUMENT_H

#include "config/reader.h"

#include <rea/contract_document.h>

struct rea__contract_reading {
	const struct rea_contract_document *document;
	struct rea_contract *contract; /* of this document alone */
	struct rea_arena *arena;       /* for keys and paths until the reading is over */
	struct rea_error_info *info;   /* never NULL */
};

/* A child of a mapping, NULL when there is none (or node is no mapping). */
const struct rea__node *rea__node_child(const struct rea__node *node, const char *name);
bool rea__node_is(const struct rea__node *node, const char *text);
/* base + path, and context_id, in the arena; NULL = out of memory, or first was NULL because of it. */
const char *rea__join(struct rea_arena *arena, const char *first, const char *between, struct rea_slice second);
/* Add an operation; a refusal gets the node's position. */
int rea__contract_put(struct rea__contract_reading *reading, const struct rea__tree *tree, const struct rea__node *node,
    const struct rea_operation *operation);

/* contracts.c: `context` and `operations`, as in rea.yaml. service: the context when neither says one. */
int rea__contract_plain_read(struct rea__contract_reading *reading, struct rea__reader *reader,
    const struct rea__node *root, const char *service, enum rea_permission_source source);
int rea__openapi_read(struct rea__contract_reading *reading, const struct rea__tree *tree);
int rea__smithy_read(struct rea__contract_reading *reading, const struct rea__tree *tree);
int rea__descriptor_read(struct rea__contract_reading *reading);

#endif
