/*
 * A rate limiter (GCRA): so many permits in a period, evenly, with bursts up to a size, and reservations: take a permit now and be told how
 * long to wait before using it.
 *
 * In every stretch of time, of whatever length d, at most burst + d / interval permits are used, interval being period / permits rounded up to whole
 * nanoseconds; cancelled reservations make no exception. No clock, no memory of its own. One thread at a time. Time never runs backwards: an
 * earlier now counts as the last seen.
 */
#ifndef REA_RATE_H
#define REA_RATE_H

#include <rea/error.h>
#include <rea/time.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REA_RATE_PERMITS_MAX 1000000
#define REA_RATE_PERIOD_NS_MIN UINT64_C(1000000)       /* 1 ms */
#define REA_RATE_PERIOD_NS_MAX UINT64_C(3600000000000) /* one hour */
#define REA_RATE_BURST_MAX 1000000

struct rea_rate_options {
	uint32_t version;   /* set by rea_rate_options_init */
	uint32_t permits;   /* in a period; 1..1000000, and at most one in a microsecond; default 50 */
	uint64_t period_ns; /* 1 ms..1 h; default 1 s */
	uint32_t burst;     /* permits that may be used at once after a quiet time; 1..1000000; default 50 */
};
#define REA_RATE_OPTIONS_VERSION 1
REA_API void rea_rate_options_init(struct rea_rate_options *options);

/* A stretch of the line on which each permit takes an interval. */
struct rea_rate_stretch {
	uint64_t start_ns, end_ns;
};

#define REA_RATE_GAPS_MAX 8

/* Embed it; every member is private. */
struct rea_rate {
	uint64_t interval_ns; /* of one permit */
	uint32_t burst;
	uint32_t gaps_len;
	uint64_t taken_to_ns;                            /* the line is taken up to here, but for the gaps */
	uint64_t now_ns;                                 /* latest seen */
	struct rea_rate_stretch gaps[REA_RATE_GAPS_MAX]; /* given back, in order, apart from one another */
};

/* Permits that were taken. Plain value; {0} is none. */
struct rea_rate_reservation {
	uint64_t wait_ns;                /* from the now of the reserve: how long to wait before using them */
	struct rea_rate_stretch stretch; /* private */
};

/* options: copied. Returns 0, or REA_ERR_INVALID with field and message in ret_info (may be NULL), the limiter untouched. A new limiter has its
 * whole burst. There is nothing to free. */
REA_API int rea_rate_init(struct rea_rate *rate, const struct rea_rate_options *options, struct rea_error_info *ret_info);
/* New numbers for a living limiter; what was reserved keeps its time. Returns as rea_rate_init. */
REA_API int rea_rate_configure(struct rea_rate *rate, const struct rea_rate_options *options, struct rea_error_info *ret_info);

/* Take permits (>= 1) if they may be used at once. False: nothing taken. */
REA_API bool rea_rate_acquire(struct rea_rate *rate, uint32_t permits, uint64_t now_ns);
/* Take permits (>= 1) that may be used after a wait of at most wait_max_ns. False: the wait would be longer, or there are more of them than the burst;
 * nothing taken, ret_reservation untouched. */
REA_API bool rea_rate_reserve(struct rea_rate *rate, uint32_t permits, uint64_t wait_max_ns, uint64_t now_ns,
    struct rea_rate_reservation *ret_reservation);
/* Give back permits that were not used: later callers get their time. Those that already have a time keep it. The reservation is cleared; a
 * cleared one gives nothing. */
REA_API void rea_rate_cancel(struct rea_rate *rate, struct rea_rate_reservation *reservation, uint64_t now_ns);
/* How long permits (>= 1) reserved now would have to wait; REA_NEVER for more than the burst. Changes nothing. */
REA_API uint64_t rea_rate_wait(const struct rea_rate *rate, uint32_t permits, uint64_t now_ns);

#ifdef __cplusplus
}
#endif
#endif
