/*
 * What processes that share a budget have seen together, under the rule evidence: a handful of words, each changed by one compare-and-swap and judged alone, as
 * everything in the file of a host budget. A word of another boot, or one that is all zero, is not there.
 *
 * Shared are the tokens, the success average, the last success, congestion and what showed it, trouble; first attempts and retries are in the windows of the
 * common budget. Latencies are each process's own: what one of them finds too slow, all hear of.
 */
#ifndef REA_HOST_SHARED_EVIDENCE_H
#define REA_HOST_SHARED_EVIDENCE_H

#include "core/evidence.h"
#include "core/internal.h"

struct rea__shared_evidence {
	uint64_t tokens;    /* thousandths */
	uint64_t success;   /* the average, of 2^40 */
	uint64_t ok;        /* ms of the last success */
	uint64_t congested; /* ms until which it lasts */
	uint64_t heat;      /* the kind of evidence that showed it, and a float */
	uint64_t trouble;   /* ms */
};

void rea__shared_evidence_pull(const struct rea__shared_evidence *shared, struct rea__common_budget *common,
    uint32_t epoch, struct rea__evidence *evidence);
void rea__shared_evidence_push(struct rea__shared_evidence *shared, struct rea__common_budget *common, uint32_t epoch,
    const struct rea__evidence *evidence, const struct rea__budget_attempt *attempt);
bool rea__shared_evidence_take(struct rea__shared_evidence *shared, struct rea__common_budget *common, uint32_t epoch,
    bool token, uint64_t now_ns);
void rea__shared_evidence_give_back(struct rea__shared_evidence *shared, struct rea__common_budget *common,
    uint32_t epoch, bool token, uint64_t taken_ns);

#endif
