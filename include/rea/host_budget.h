/*
 * A retry budget that all processes of one user on one host share, through a small file: a thousand cron jobs cannot storm, however each of them
 * is started, and two programs that call one service spend one budget.
 *
 * What is opened here is a struct rea_budget like any other: for rea_call_options, a guard, rea_curl, and freed by rea_budget_free. The counts are the
 * file's, the numbers of the policy each process's own. Any number of shards.
 *
 * The file is mapped, no lock is ever taken: a process that is killed at any moment blocks nobody, and loses at most the one retry that it was about to
 * take. It holds counts by the host's monotonic clock, told apart by boot, so that one that survives a reboot begins anew. 10 KiB, mode
 * 0600. It may be removed at any time (who has it open goes on with the old one), but must not be cut short while somebody has it open.
 *
 * Needs Linux.
 */
#ifndef REA_HOST_BUDGET_H
#define REA_HOST_BUDGET_H

#include <rea/budget.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REA_HOST_BUDGET_NAME_MAX 64

/*
 * name: a file, if it has a slash. Else letters, digits, `.`, `_` and `-`, at most REA_HOST_BUDGET_NAME_MAX of them and the first no dot: then the file is
 * NAME.budget in the first of these that is set, or can be written:
 *   $XDG_RUNTIME_DIR/rea    /run/rea    $TMPDIR/rea-UID    /tmp/rea-UID
 * where the last directory is made, mode 0700, if it is missing.
 *
 * policy: copied; of any rule. Under EVIDENCE processes share what they have seen, all but their latencies. alloc may be NULL. Returns 0, or, with the file and a sentence in ret_info (may be NULL):
 *   REA_ERR_INVALID   the name or the policy
 *   REA_ERR_CONFLICT  the file, or the directory of a name, is another user's, or others may write it, or it is no plain file
 *   REA_ERR_CORRUPT   the file is no budget of this version, or cut short
 *   REA_ERR_IO        it cannot be opened or mapped
 *   REA_ERR_NOMEM
 * A program then goes on with a budget of its own (rea_budget_new), and says so.
 */
REA_API int rea_host_budget_open(const char *name, const struct rea_budget_policy *policy,
    const struct rea_alloc *alloc, struct rea_budget **ret_budget, struct rea_error_info *ret_info);

#ifdef __cplusplus
}
#endif
#endif
