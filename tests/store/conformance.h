/* What every store has to do. */
#ifndef REA_TESTS_STORE_CONFORMANCE_H
#define REA_TESTS_STORE_CONFORMANCE_H

#include <stdbool.h>

/* Returns the number of tests that failed. */
int conformance_run(const char *name, bool sqlite);

#endif
