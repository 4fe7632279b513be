/*
 * Counters and histograms of one thread, and their Prometheus text.
 *
 * A rea_service_stats belongs to one writing thread and one service; any other thread may read it at any time
 * (relaxed loads and stores: each number is right by itself). The reader adds up the threads' stats and writes them
 * out.
 */
#ifndef REA_METRICS_H
#define REA_METRICS_H

#include <rea/alloc.h>
#include <rea/call.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Upper bounds of the latency buckets in seconds: 0.001 … 10, then +Inf. */
#define REA_LATENCY_BUCKETS 14

struct rea_service_stats {
	uint64_t calls; /* finished calls */
	uint64_t first_try_successes;
	uint64_t attempts[REA_OUTCOME_COUNT];        /* finished attempts by outcome */
	uint64_t retries;                            /* attempts after the first that were started */
	uint64_t results[REA_REASON_COUNT];          /* finished calls by final reason, NONE = success */
	uint64_t would_retry;                        /* observe mode */
	uint64_t latency_count[REA_LATENCY_BUCKETS]; /* of calls; not cumulative */
	uint64_t latency_sum_ns;
	uint64_t in_flight;         /* gauge: calls open now */
	uint64_t replay_over_limit; /* requests whose body outgrew the replay limit */
};

/* All of these only on the stats' own thread. */
/* A call begins: in flight until rea_service_stats_call. */
REA_API void rea_service_stats_begin(struct rea_service_stats *stats);
/* A call that began is finished. */
REA_API void rea_service_stats_call(
    struct rea_service_stats *stats, enum rea_reason reason, bool first_try_success, uint64_t latency_ns);
REA_API void rea_service_stats_attempt(struct rea_service_stats *stats, enum rea_outcome outcome, bool is_retry);
/* A retry that was not made because the policy only observes. */
REA_API void rea_service_stats_would_retry(struct rea_service_stats *stats);
/* A request whose body outgrew the replay limit. */
REA_API void rea_service_stats_over_limit(struct rea_service_stats *stats);
/* Any thread. total += part, read with relaxed loads. */
REA_API void rea_service_stats_sum(struct rea_service_stats *total, const struct rea_service_stats *part);

/* ---- Prometheus text exposition, 0.0.4 ---- */
struct rea_prometheus {
	/* Called with pieces of text; false stops the writing. */
	bool (*write)(const char *text, size_t length, void *user_data);
	void *user_data;
	bool failed; /* private */
};
enum rea_metric_type { REA_METRIC_COUNTER, REA_METRIC_GAUGE, REA_METRIC_HISTOGRAM };
/* # HELP and # TYPE; once per name, before its samples. */
REA_API void rea_prometheus_family(struct rea_prometheus *out, const char *name, enum rea_metric_type type, const char *help);
/* One sample; labels: pairs of name and value, values are escaped; labels_len counts strings (2 per label). */
REA_API void rea_prometheus_sample(
    struct rea_prometheus *out, const char *name, const char *const *labels, size_t labels_len, double value);
/* All families of the services: names[i] with stats[i] (already summed over threads). */
REA_API void rea_prometheus_services(
    struct rea_prometheus *out, const char *const *names, const struct rea_service_stats *stats, size_t services);

#ifdef __cplusplus
}
#endif
#endif
