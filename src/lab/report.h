/* What a study came to: for a terminal, for a program, and as a page for a review. */
#ifndef REA_SRC_LAB_REPORT_H
#define REA_SRC_LAB_REPORT_H

#include "lab/study.h"

#include <stdio.h>

/* The studies are one scenario with different values of a key; values: one for each. */
struct lab_sweep {
	const char *key;
	const double *values;
};

/* A table of all policies, and the goals with result, bound and best peer. color: missed goals in red. Returns how many goals `judged` misses; judged: the
 * entry that the goals are held against, NULL = none. */
uint32_t lab_report_text(const struct lab_study *study, const struct lab_entry *judged, bool color, FILE *out);
/* A list of objects, one for each study. judged: as above, one for each. Returns 0 or REA_ERR_NOMEM. */
int lab_report_json(const struct lab_study *studies, const struct lab_entry *const *judged, uint32_t studies_len, FILE *out);
/* One file, nothing is loaded from elsewhere. */
void lab_report_html(const struct lab_study *studies, const struct lab_entry *const *judged, uint32_t studies_len,
    const struct lab_sweep *sweep, FILE *out);
/* For a terminal: a table for each figure that the scenario has a goal for, a column for each value. */
void lab_report_sweep(const struct lab_study *studies, uint32_t studies_len, const struct lab_sweep *sweep, FILE *out);
/* A section. */
void lab_report_markdown(const struct lab_study *study, const struct lab_entry *judged, FILE *out);

#endif
