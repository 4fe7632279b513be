/*
 * Objects in words: every number that holds and how it stands at now, for a page, a log line or a signal of the program's own. A guard, a shared
 * breaker, an executor and a runner have the same beside their other functions (rea/guard.h, rea/shared.h, rea/executor.h, rea/runner.h), put
 * together of the same words.
 *
 * All take the object, now_ns, an array and its size: lines of English are written to ret_text, cut at size and terminated; the length of the whole is
 * returned, so that ret_text NULL with size 0 asks for it. The words may change from version to version: they are for people. Nothing changes, nothing is
 * allocated. On the object's thread; a budget on any.
 */
#ifndef REA_EXPLAIN_H
#define REA_EXPLAIN_H

#include <rea/adaptive.h>
#include <rea/breaker.h>
#include <rea/budget.h>
#include <rea/call.h>
#include <rea/limiter.h>
#include <rea/policy.h>
#include <rea/rate.h>

#ifdef __cplusplus
extern "C" {
#endif

/* now_ns: of no consequence here, and for an adaptive limit. */
REA_API size_t rea_policy_explain(const struct rea_policy *policy, uint64_t now_ns, char *ret_text, size_t size);
/* Its rule, what is left, and under the rule evidence what it has seen. */
REA_API size_t rea_budget_explain(const struct rea_budget *budget, uint64_t now_ns, char *ret_text, size_t size);
/* Its thresholds, its state, and what it has seen. */
REA_API size_t rea_breaker_explain(const struct rea_breaker *breaker, uint64_t now_ns, char *ret_text, size_t size);
/* Its slots, the line, and who has and who waits for one. */
REA_API size_t rea_limiter_explain(const struct rea_limiter *limiter, uint64_t now_ns, char *ret_text, size_t size);
/* Its rate, and when the next permit may be used. */
REA_API size_t rea_rate_explain(const struct rea_rate *rate, uint64_t now_ns, char *ret_text, size_t size);
/* The limit, its rule, and what it has learnt. */
REA_API size_t rea_adaptive_explain(const struct rea_adaptive *adaptive, uint64_t now_ns, char *ret_text, size_t size);

/*
 * The decision trace: one line per decision, the same for one scripted input whatever face of rea ran it. Times are relative to base_ns, cut to
 * microseconds; "-" stands for what a decision does not have.
 *   t=0.000ms attempt=1/2 instance=127.0.0.1:9001 outcome=- code=- verdict=- reason=- wait=-                          an attempt begins
 *   t=12.345ms attempt=1/2 instance=127.0.0.1:9001 outcome=unavailable code=503 verdict=retry reason=- wait=104.000ms  it ended, retry in 104 ms
 * A gRPC code reads grpc:14, an errno errno:111; observe mode's verdict is would_retry.
 * Writes at most size bytes with the terminator; returns the length it would have had without it. report may be NULL (attempt decisions),
 * instance may be NULL (printed as -).
 */
#define REA_TRACE_LINE_MAX 256
REA_API size_t rea_trace_line(const struct rea_decision *decision, const struct rea_report *report,
    const struct rea_instance_id *instance, uint64_t base_ns, uint64_t now_ns, char *ret_line, size_t size);

#ifdef __cplusplus
}
#endif
#endif
