/*
 * The words that the texts of all objects are put together from: each says its thing in one place. Pieces of a line end without a newline; those that
 * are lines of their own begin with an indent.
 */
#ifndef REA_EXPLAIN_WORDS_H
#define REA_EXPLAIN_WORDS_H

#include "base/format.h"
#include "core/breaker.h"

#include <rea/explain.h>

void rea__put(struct rea_format *out, const char *text);
void rea__put_number(struct rea_format *out, const char *before, uint64_t value, const char *after);
void rea__put_double(struct rea_format *out, const char *before, double value, const char *after);
void rea__put_ms(struct rea_format *out, const char *before, uint64_t ns, const char *after);

/* ---- pieces of a line ---- */

void rea__explain_rate(struct rea_format *out, const struct rea_rate *rate, uint64_t now_ns);
void rea__explain_limiter(struct rea_format *out, const struct rea_limiter *limiter);
void rea__explain_adaptive(struct rea_format *out, const struct rea_adaptive *adaptive);
void rea__explain_breaker_policy(struct rea_format *out, const struct rea_breaker_policy *policy);
void rea__explain_breaker(struct rea_format *out, const struct rea__breaker_view *view);
void rea__explain_budget_policy(struct rea_format *out, const struct rea_budget_policy *policy);
/* Without what it has seen. */
void rea__explain_budget(struct rea_format *out, const struct rea_budget *budget, uint64_t now_ns);
void rea__explain_retry_limit(struct rea_format *out, const struct rea_retry_limit *limit);

/* ---- lines ---- */

/* What the policy says of a call; without budget and breaker. */
void rea__explain_call(struct rea_format *out, const char *indent, const struct rea_policy *policy);
/* What a budget of the rule evidence has seen; of another rule nothing. */
void rea__explain_evidence(struct rea_format *out, const char *indent, const struct rea_budget *budget, uint64_t now_ns);

#endif
