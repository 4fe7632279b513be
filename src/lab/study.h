/*
 * A comparison: several policies in one scenario, each with several seeds. All policies of a seed are offered the same load and meet the same faults.
 */
#ifndef REA_SRC_LAB_STUDY_H
#define REA_SRC_LAB_STUDY_H

#include "lab/measure.h"
#include "lab/policies.h"

#define LAB_POLICIES_MAX 16
#define LAB_SEEDS_MAX 100

/* Of the seeds; NAN where there is none. */
struct lab_spread {
	double median, low, high;
};

struct lab_entry {
	struct lab_policy policy;
	struct lab_measure *runs; /* by seed; of all but the first only the figures are kept */
	struct lab_spread figures[LAB_FIGURES];
	bool invalid; /* a run of it was */
};

struct lab_study {
	const struct lab_scenario *scenario;
	struct lab_entry entries[LAB_POLICIES_MAX];
	uint32_t entries_len;
	uint32_t seeds;
	uint64_t first_seed;
	struct lab_spread calm_p99_ms; /* without faults and retries */
	const char *how;               /* "virtual time", "sockets" */
	/* Runs one policy with one seed. */
	int (*run)(const void *context, const struct lab_scenario *scenario, const struct lab_policy *policy,
	    bool faults, uint64_t seed, struct lab_measure *ret_measure);
	const void *context; /* for run */
	/* After each run; NULL = nobody wants to know. */
	void (*progress)(const struct lab_study *study, uint32_t done, uint32_t all);
};

/* scenario, seeds, first_seed, how, run and the policies of the entries are set. Returns 0 or what a run returned. */
int lab_study_run(struct lab_study *study);
void lab_study_fini(struct lab_study *study);

/* Has the entry reached the goal, by its median? */
bool lab_goal_met(const struct lab_goal *goal, const struct lab_entry *entry);
/* How many of the scenario's goals it misses. */
uint32_t lab_study_missed(const struct lab_study *study, const struct lab_entry *entry);
/* The entry other than `but` with the best median; NULL = there is none. */
const struct lab_entry *lab_study_best(const struct lab_study *study, enum lab_figure figure, const struct lab_entry *but);
/* A figure as a person reads it. */
#define LAB_FIGURE_TEXT 32
const char *lab_figure_format(enum lab_figure figure, double value, char ret_text[LAB_FIGURE_TEXT]);

#endif
