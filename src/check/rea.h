/* Our own files, and our block in the files of others. */
#ifndef REA_SRC_CHECK_REA_H
#define REA_SRC_CHECK_REA_H

#include "check/tree.h"

/* The `rpc` of a YAML file whose other keys are somebody else's: RC14, and a target for each service that it names. Returns 0 or REA_ERR_NOMEM. */
int check_rea_block(struct check *check, struct check_file *file, const struct check_tree *tree);

#endif
