/*
 * A file system for SQLite that fails when it is told to, kills the process, or loses what was not synced.
 *
 * It counts what changes files: writes, syncs, truncations, deletions; and reads. Everything else passes through to SQLite's own.
 */
#ifndef REA_TESTS_STORE_SHIM_H
#define REA_TESTS_STORE_SHIM_H

#include <stdbool.h>
#include <stdint.h>

#define SHIM_NAME "shim"

enum shim_kinds { SHIM_WRITES = 1, SHIM_SYNCS = 2, SHIM_OTHERS = 4, SHIM_CHANGES = 7, SHIM_READS = 8 };

/* Register it; files opened from here on are tracked, as far as power cuts are to be played. */
void shim_install(bool tracks);
/* Nothing is counted yet, nothing fails, nothing is tracked. No file is open. */
void shim_reset(void);
/* Operations of these kinds from now on. */
uint64_t shim_count(enum shim_kinds kinds);
/* The n-th operation (1 = the next) of these kinds fails: once, or that and all later ones of these kinds until shim_heal. */
void shim_fail(uint64_t n, enum shim_kinds kinds, bool for_good);
/* Has one failed? */
bool shim_failed(void);
void shim_heal(void);
/* Instead of the n-th operation the process is killed, by SIGKILL. */
void shim_kill(uint64_t n);
/* The power goes at the n-th operation: from there on nothing reaches the disk. */
void shim_cut(uint64_t n);
/* After a cut, all files closed: every file is what its last sync left, and of what was written since, some sectors and not others, as seed will;
 * 0 = none. */
void shim_restore(uint64_t seed);

#endif
