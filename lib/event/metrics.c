/*
 * Numbers of one thread, and their Prometheus text. A counter has one writer, so adding is a load and a store, not a
 * locked instruction; readers see each number whole. The bucket of +Inf is the count: a histogram is consistent with
 * itself even when read in the middle of an update.
 */
#include <rea/metrics.h>

#include "base/format.h"
#include "event/utf8.h"

#include <rea/time.h>

#include <assert.h>
#include <float.h>
#include <string.h>

static const struct {
	uint64_t ns;
	const char *text;
} buckets[REA_LATENCY_BUCKETS] = {
    {UINT64_C(1000000), "0.001"},
    {UINT64_C(2500000), "0.0025"},
    {UINT64_C(5000000), "0.005"},
    {UINT64_C(10000000), "0.01"},
    {UINT64_C(25000000), "0.025"},
    {UINT64_C(50000000), "0.05"},
    {UINT64_C(100000000), "0.1"},
    {UINT64_C(250000000), "0.25"},
    {UINT64_C(500000000), "0.5"},
    {UINT64_C(1000000000), "1"},
    {UINT64_C(2500000000), "2.5"},
    {UINT64_C(5000000000), "5"},
    {UINT64_C(10000000000), "10"},
    {UINT64_MAX, "+Inf"},
};

/* ---- counting ---- */

static uint64_t read_counter(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static void add(uint64_t *counter, uint64_t more)
{
	__atomic_store_n(counter, read_counter(counter) + more, __ATOMIC_RELAXED);
}

void rea_service_stats_begin(struct rea_service_stats *stats)
{
	add(&stats->in_flight, 1);
}

static size_t bucket_of(uint64_t latency_ns)
{
	size_t i = 0;

	while (latency_ns > buckets[i].ns)
		i++;
	return i;
}

void rea_service_stats_call(struct rea_service_stats *stats, enum rea_reason reason, bool first_try_success, uint64_t latency_ns)
{
	assert(reason < REA_REASON_COUNT);
	add(&stats->in_flight, UINT64_MAX); /* one less */
	add(&stats->calls, 1);
	add(&stats->results[reason], 1);
	if (first_try_success)
		add(&stats->first_try_successes, 1);
	add(&stats->latency_count[bucket_of(latency_ns)], 1);
	add(&stats->latency_sum_ns, latency_ns);
}

void rea_service_stats_attempt(struct rea_service_stats *stats, enum rea_outcome outcome, bool is_retry)
{
	assert(outcome < REA_OUTCOME_COUNT);
	add(&stats->attempts[outcome], 1);
	if (is_retry)
		add(&stats->retries, 1);
}

void rea_service_stats_would_retry(struct rea_service_stats *stats)
{
	add(&stats->would_retry, 1);
}

void rea_service_stats_over_limit(struct rea_service_stats *stats)
{
	add(&stats->replay_over_limit, 1);
}

void rea_service_stats_sum(struct rea_service_stats *total, const struct rea_service_stats *part)
{
	total->calls += read_counter(&part->calls);
	total->first_try_successes += read_counter(&part->first_try_successes);
	for (size_t i = 0; i < REA_OUTCOME_COUNT; i++)
		total->attempts[i] += read_counter(&part->attempts[i]);
	total->retries += read_counter(&part->retries);
	for (size_t i = 0; i < REA_REASON_COUNT; i++)
		total->results[i] += read_counter(&part->results[i]);
	total->would_retry += read_counter(&part->would_retry);
	for (size_t i = 0; i < REA_LATENCY_BUCKETS; i++)
		total->latency_count[i] += read_counter(&part->latency_count[i]);
	total->latency_sum_ns += read_counter(&part->latency_sum_ns);
	total->in_flight += read_counter(&part->in_flight);
	total->replay_over_limit += read_counter(&part->replay_over_limit);
}

/* ---- Prometheus text ---- */

static void put(struct rea_prometheus *out, const char *text, size_t length)
{
	if (!out->failed && length > 0 && !out->write(text, length, out->user_data))
		out->failed = true;
}

static void put_text(struct rea_prometheus *out, const char *text)
{
	put(out, text, strlen(text));
}

/* Valid UTF-8 with \ and newline escaped, and the quote where it would end a label. */
static void put_escaped(struct rea_prometheus *out, const char *text, bool in_label)
{
	size_t length = strlen(text);

	while (length > 0) {
		size_t character = rea__utf8_length(text, length);

		if (character == 0)
			put_text(out, REA__UTF8_REPLACEMENT);
		else if (*text == '\\')
			put_text(out, "\\\\");
		else if (*text == '\n')
			put_text(out, "\\n");
		else if (*text == '"' && in_label)
			put_text(out, "\\\"");
		else
			put(out, text, character);
		text += character + (character == 0);
		length -= character + (character == 0);
	}
}

static const char *type_name(enum rea_metric_type type)
{
	switch (type) {
	case REA_METRIC_COUNTER:
		return "counter";
	case REA_METRIC_GAUGE:
		return "gauge";
	case REA_METRIC_HISTOGRAM:
		return "histogram";
	}
	return "untyped";
}

void rea_prometheus_family(struct rea_prometheus *out, const char *name, enum rea_metric_type type, const char *help)
{
	put_text(out, "# HELP ");
	put_text(out, name);
	put_text(out, " ");
	put_escaped(out, help, false);
	put_text(out, "\n# TYPE ");
	put_text(out, name);
	put_text(out, " ");
	put_text(out, type_name(type));
	put_text(out, "\n");
}

static void put_series(struct rea_prometheus *out, const char *name, const char *const *labels, size_t labels_len)
{
	assert(labels_len % 2 == 0);
	put_text(out, name);
	for (size_t i = 0; i < labels_len; i += 2) {
		put_text(out, i == 0 ? "{" : ",");
		put_text(out, labels[i]);
		put_text(out, "=\"");
		put_escaped(out, labels[i + 1], true);
		put_text(out, "\"");
	}
	put_text(out, labels_len > 0 ? "} " : " ");
}

static void put_sample(
    struct rea_prometheus *out, const char *name, const char *const *labels, size_t labels_len, const char *number)
{
	put_series(out, name, labels, labels_len);
	put_text(out, number);
	put_text(out, "\n");
}

static void sample_u64(
    struct rea_prometheus *out, const char *name, const char *const *labels, size_t labels_len, uint64_t value)
{
	char text[32];
	struct rea_format number;

	rea_format_init(&number, text, sizeof(text));
	rea_format_u64(&number, value);
	put_sample(out, name, labels, labels_len, text);
}

void rea_prometheus_sample(
    struct rea_prometheus *out, const char *name, const char *const *labels, size_t labels_len, double value)
{
	char text[64];
	struct rea_format number;

	rea_format_init(&number, text, sizeof(text));
	if (value != value)
		rea_format_text(&number, "NaN");
	else if (value > DBL_MAX || value < -DBL_MAX)
		rea_format_text(&number, value > 0 ? "+Inf" : "-Inf");
	else if (value >= 0 && value < 0x1p63 && value == (double)(uint64_t)value)
		rea_format_u64(&number, (uint64_t)value); /* all digits of a large count */
	else
		rea_format_double(&number, value);
	put_sample(out, name, labels, labels_len, text);
}

/* ---- the services ---- */

/* The families with one number per service. */
static const struct {
	const char *name;
	enum rea_metric_type type;
	const char *help;
	size_t offset;
} families[] = {
    {"rea_calls_total", REA_METRIC_COUNTER, "Finished calls.", offsetof(struct rea_service_stats, calls)},
    {"rea_calls_in_flight", REA_METRIC_GAUGE, "Calls that are open now.", offsetof(struct rea_service_stats, in_flight)},
    {"rea_first_try_successes_total", REA_METRIC_COUNTER, "Calls whose first attempt succeeded.",
	offsetof(struct rea_service_stats, first_try_successes)},
    {"rea_retries_total", REA_METRIC_COUNTER, "Attempts after the first.", offsetof(struct rea_service_stats, retries)},
    {"rea_would_retry_total", REA_METRIC_COUNTER, "Retries that were not made because the policy only observes.",
	offsetof(struct rea_service_stats, would_retry)},
    {"rea_replay_over_limit_total", REA_METRIC_COUNTER, "Requests whose body outgrew replay-limit-bytes.",
	offsetof(struct rea_service_stats, replay_over_limit)},
};

static uint64_t number_at(const struct rea_service_stats *stats, size_t offset)
{
	uint64_t number;

	memcpy(&number, (const char *)stats + offset, sizeof(number));
	return number;
}

static void write_attempts(
    struct rea_prometheus *out, const char *const *names, const struct rea_service_stats *stats, size_t services)
{
	rea_prometheus_family(out, "rea_attempts_total", REA_METRIC_COUNTER, "Finished attempts by outcome class.");
	for (size_t i = 0; i < services; i++)
		for (int outcome = 0; outcome < REA_OUTCOME_COUNT; outcome++) {
			const char *labels[] = {"service", names[i], "outcome", rea_outcome_name((enum rea_outcome)outcome)};

			sample_u64(out, "rea_attempts_total", labels, 4, stats[i].attempts[outcome]);
		}
}

static void write_results(
    struct rea_prometheus *out, const char *const *names, const struct rea_service_stats *stats, size_t services)
{
	rea_prometheus_family(out, "rea_results_total", REA_METRIC_COUNTER, "Finished calls by the reason they ended for.");
	for (size_t i = 0; i < services; i++)
		for (int reason = 0; reason < REA_REASON_COUNT; reason++) {
			const char *labels[] = {"service", names[i], "reason",
			    reason == REA_REASON_NONE ? "success" : rea_reason_name((enum rea_reason)reason)};

			sample_u64(out, "rea_results_total", labels, 4, stats[i].results[reason]);
		}
}

static void write_seconds(
    struct rea_prometheus *out, const char *name, const char *const *labels, size_t labels_len, uint64_t ns)
{
	char text[32];
	struct rea_format number;

	rea_format_init(&number, text, sizeof(text));
	rea_format_fixed(&number, ns, 9);
	put_sample(out, name, labels, labels_len, text);
}

static void write_durations(
    struct rea_prometheus *out, const char *const *names, const struct rea_service_stats *stats, size_t services)
{
	rea_prometheus_family(out, "rea_call_duration_seconds", REA_METRIC_HISTOGRAM,
	    "Calls from their first byte to their end, waits included.");
	for (size_t i = 0; i < services; i++) {
		const char *labels[] = {"service", names[i], "le", NULL};
		uint64_t count = 0;

		for (size_t b = 0; b < REA_LATENCY_BUCKETS; b++) {
			labels[3] = buckets[b].text;
			count += stats[i].latency_count[b];
			sample_u64(out, "rea_call_duration_seconds_bucket", labels, 4, count);
		}
		write_seconds(out, "rea_call_duration_seconds_sum", labels, 2, stats[i].latency_sum_ns);
		sample_u64(out, "rea_call_duration_seconds_count", labels, 2, count);
	}
}

void rea_prometheus_services(
    struct rea_prometheus *out, const char *const *names, const struct rea_service_stats *stats, size_t services)
{
	for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
		rea_prometheus_family(out, families[f].name, families[f].type, families[f].help);
		for (size_t i = 0; i < services; i++) {
			const char *labels[] = {"service", names[i]};

			sample_u64(out, families[f].name, labels, 2, number_at(&stats[i], families[f].offset));
		}
	}
	write_attempts(out, names, stats, services);
	write_results(out, names, stats, services);
	write_durations(out, names, stats, services);
}
