/* What a budget saw, in words. */
#include <rea/event.h>

#include "base/format.h"

#include <rea/time.h>

/* To the nearest tenth. */
static void format_tenths(struct rea_format *text, double value)
{
	rea_format_double(text, (double)(uint64_t)(value * 10 + 0.5) / 10);
}

static void format_percent(struct rea_format *text, const char *what, double share)
{
	rea_format_text(text, what);
	rea_format_u64(text, (uint64_t)(share * 100 + 0.5));
	rea_format_text(text, " %");
}

static void format_count(struct rea_format *text, const char *before, double count, const char *after)
{
	rea_format_text(text, before);
	rea_format_u64(text, (uint64_t)count);
	rea_format_text(text, after);
}

/* Cut, never rounded up: what is less than one must not read as one. */
static void format_tokens(struct rea_format *text, double tokens)
{
	rea_format_text(text, "tokens ");
	rea_format_double(text, (double)(uint64_t)(tokens * 10 + 1e-6) / 10);
}

/* False: tokens have no part in it. */
static bool format_kind(struct rea_format *text, const struct rea_evidence *evidence)
{
	switch (evidence->kind) {
	case REA_EVIDENCE_NONE:
		return false;
	case REA_EVIDENCE_TOKENS:
		format_tokens(text, evidence->value);
		return false;
	case REA_EVIDENCE_LATENCY:
		rea_format_text(text, "latency ");
		format_tenths(text, evidence->value);
		rea_format_text(text, "x baseline");
		return true;
	case REA_EVIDENCE_TIMEOUTS:
		format_percent(text, "timeouts ", evidence->value);
		return true;
	case REA_EVIDENCE_PUSHBACK:
		format_percent(text, "pushback ", evidence->value);
		return true;
	case REA_EVIDENCE_SUCCESS:
		format_percent(text, "success ", evidence->value);
		return true;
	case REA_EVIDENCE_DEAD:
		format_count(text, "unreachable at ", evidence->value, evidence->value > 1 ? " instances" : " instance");
		return true;
	case REA_EVIDENCE_RETRIES:
		format_count(text, "", evidence->value, " retries in 2 s");
		return true;
	case REA_EVIDENCE_RECOVERING:
		format_count(text, "recovering after ", evidence->value / (double)REA_NS_PER_MS, " ms");
		return false;
	case REA_EVIDENCE_PARKED:
		format_count(text, "", evidence->value, " calls parked");
		return false;
	}
	return false;
}

size_t rea_evidence_format(const struct rea_evidence *evidence, char *ret_text, size_t size)
{
	struct rea_format text;

	rea_format_init(&text, ret_text, size);
	if (format_kind(&text, evidence)) {
		rea_format_text(&text, ", ");
		format_tokens(&text, evidence->tokens);
	}
	return text.length;
}
