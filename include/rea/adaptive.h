/*
 * An adaptive concurrency limit: from the latency of calls, how many may run at once. Three rules of the field:
 *   gradient2  the short against the long average of latency; the default
 *   aimd       one more while it is used, a tenth less after a drop
 *   vegas      the queue that latency above the lowest seen tells of
 * It only says the number; rea/limiter.h keeps it:
 *
 *   rea_limiter_resize(&limiter, rea_adaptive_report(&adaptive, latency_ns, in_flight, dropped), waiting_max, now_ns);
 *
 * No clock, no memory of its own. One thread at a time.
 */
#ifndef REA_ADAPTIVE_H
#define REA_ADAPTIVE_H

#include <rea/error.h>
#include <rea/random.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REA_ADAPTIVE_LIMIT_MAX 1000000

/* X(NAME, "name") */
#define REA_ADAPTIVE_RULE_MAP(X)  \
	X(GRADIENT2, "gradient2") \
	X(AIMD, "aimd")           \
	X(VEGAS, "vegas")

enum rea_adaptive_rule {
#define X(name, text) REA_ADAPTIVE_##name,
	REA_ADAPTIVE_RULE_MAP(X)
#undef X
	    REA_ADAPTIVE_RULE_COUNT
};

struct rea_adaptive_options {
	uint32_t version; /* set by rea_adaptive_options_init */
	enum rea_adaptive_rule rule;
	uint32_t limit_start; /* limit_min..limit_max; default 20, aimd 10 */
	uint32_t limit_min;   /* 1..limit_max; default gradient2 20, else 1 */
	uint32_t limit_max;   /* 1..1000000; default 200, vegas 1000 */
	/* GRADIENT2 */
	double queue;     /* calls that may queue at the callee; 0..1000; default 4 */
	double smoothing; /* weight of a new limit against the old one; (0, 1]; default 0.2 */
	double tolerance; /* growth of latency that is no reason to shrink; 1..10; default 1 (Netflix's own programs run with 1.5) */
	uint32_t window; /* calls that the long average remembers; 10..1000000; default 600 */
	/* AIMD */
	uint64_t latency_ns_max; /* a slower call counts as dropped; >= 1; default 5 s */
	/* VEGAS */
	uint64_t seed; /* of the moments when the lowest latency is measured anew; default 0 */
};
#define REA_ADAPTIVE_OPTIONS_VERSION 1
REA_API void rea_adaptive_options_init(struct rea_adaptive_options *options, enum rea_adaptive_rule rule);

/* Embed it; every member is private. */
struct rea_adaptive {
	struct rea_adaptive_options options;
	double limit;
	/* GRADIENT2: the long average of latency */
	double long_ns;
	uint32_t samples; /* in it, while it is still a plain mean */
	/* VEGAS */
	uint64_t lowest_ns; /* latency; 0 = none seen */
	uint64_t probe_in;  /* calls until it is measured anew */
	struct rea_random random;
};

/* options: copied. Returns 0, or REA_ERR_INVALID with field and message in ret_info (may be NULL), the object untouched. */
REA_API int rea_adaptive_init(
    struct rea_adaptive *adaptive, const struct rea_adaptive_options *options, struct rea_error_info *ret_info);
/* A call has ended. latency_ns: of the call (0 counts as 1). in_flight: how many were under way when it began, itself included. dropped: it was refused for
 * overload or timed out, so that its latency tells nothing. Calls that failed at once for another reason are not reported. Returns the limit. */
REA_API uint32_t rea_adaptive_report(struct rea_adaptive *adaptive, uint64_t latency_ns, uint32_t in_flight, bool dropped);
/* limit_min..limit_max. */
REA_API uint32_t rea_adaptive_limit(const struct rea_adaptive *adaptive);
/* "gradient2", …; "unknown" when out of range. Static. */
REA_API const char *rea_adaptive_rule_name(enum rea_adaptive_rule rule);

#ifdef __cplusplus
}
#endif
#endif
