/*
 * What a run came to: counts per 100 ms, latencies, and the figures that goals are set for. What the instances saw comes from lab/callee.h.
 */
#ifndef REA_SRC_LAB_MEASURE_H
#define REA_SRC_LAB_MEASURE_H

#include "lab/callee.h"

#include <rea/call.h>

/* Latencies in steps of 1 %, from 10 us to an hour. */
#define LAB_LATENCIES 2000

struct lab_latencies {
	uint32_t counts[LAB_LATENCIES];
	uint64_t total;
};

struct lab_measure {
	const struct lab_scenario *scenario;
	uint64_t calls, succeeded;               /* in the measured time */
	uint64_t inside_calls, inside_succeeded; /* of those, begun while a fault lasted */
	uint64_t attempts, inside_attempts;
	struct lab_latencies latencies, inside_latencies;
	uint64_t reasons[REA_REASON_COUNT]; /* why calls were given up */
	uint32_t bins;
	uint32_t *begun;            /* calls begun, per bin */
	uint32_t *begun_ok;         /* of those, that succeeded */
	uint32_t *done_ok;          /* calls that succeeded, by when */
	uint32_t *arrivals;         /* requests at the last layer, all instances */
	uint32_t *instances;        /* the same for each: instance * bins + bin */
	struct lab_window *windows; /* of its faults */
	uint32_t windows_len;
	double figures[LAB_FIGURES]; /* NAN = there is none */
	bool invalid;                /* the load could not be offered as planned: nothing here means anything */
	double schedule_p99_ms;      /* how late requests were sent; 0 in virtual time */
};

/* Returns 0 or REA_ERR_NOMEM. */
int lab_measure_init(struct lab_measure *measure, const struct lab_scenario *scenario, uint32_t bins);
void lab_measure_fini(struct lab_measure *measure);
void lab_measure_begun(struct lab_measure *measure, uint64_t begin_ns);
void lab_measure_done(struct lab_measure *measure, const struct lab_callee *callee, uint64_t begin_ns,
    uint32_t attempts, enum rea_verdict verdict, enum rea_reason reason, uint64_t now_ns);
/* The run is over: take what the instances saw, windows and all, and work out the figures. ejections: of all clients. */
void lab_measure_finish(struct lab_measure *measure, struct lab_callee *callee, uint64_t ejections);
/* Milliseconds that `share` of them do not pass; NAN if there are none. */
double lab_latencies_at(const struct lab_latencies *latencies, double share);
void lab_latencies_add(struct lab_latencies *latencies, uint64_t latency_ns);

/* The best that is possible, by theory, whatever the policy; NAN = there is no bound worth a word. */
double lab_bound(const struct lab_scenario *scenario, enum lab_figure figure);

#endif
