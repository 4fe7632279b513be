/*
 * What is seen of a service that says whether retries pay and whether they hurt, and the tokens that are there whatever is seen. The ground that
 * the budget's rule `evidence` stands on; the numbers are those of the project's ALGORITHMS, sections 1 and 2.
 *
 * The object is one thread's at a time. A thread that counts successes on its own keeps them in a batch, which it brings in before it lets anything
 * be decided, and at the latest when the next 100 ms begin: for one thread the result is that of bringing in each success at once.
 */
#ifndef REA_CORE_EVIDENCE_H
#define REA_CORE_EVIDENCE_H

#include "core/budget.h"

#define REA__EVIDENCE_SLOT_NS (100 * UINT64_C(1000000))
#define REA__EVIDENCE_SLOTS 20 /* 2 s */
#define REA__EVIDENCE_MEANS 12 /* a minute, if each takes 5 s */
#define REA__EVIDENCE_TOKEN 1000
#define REA__EVIDENCE_TOKENS_MAX (2 * REA__EVIDENCE_TOKEN)
#define REA__EVIDENCE_SUCCESS_WEIGHT 0.15 /* share of the newest outcome in the average */
#define REA__EVIDENCE_CONGESTED_NS (300 * UINT64_C(1000000))

/* One thread's successes and first attempts since it last brought them in, and what it was told then. Zero-initialised: nothing, and due. */
struct rea__evidence_batch {
	uint32_t slot; /* number of the 100 ms that all of it happened in */
	uint64_t generation;
	uint32_t firsts;
	uint32_t successes;
	uint64_t ok_ns;                             /* the latest success */
	double keep_success, keep_pushback;         /* what these successes leave of the averages as they were before */
	bool measured;                              /* latency holds something */
	double keep_latency, latency_from, latency; /* the average of ln(latency): as it was, and with these successes */
	uint32_t samples, calm;
	double sum;                    /* of ln(latency) of all samples */
	double calm_sum, calm_squares; /* of those outside of congestion, clipped, from the centre */
	/* Told. */
	double hot_above; /* an average above this is news */
	double centre, clip;
	uint64_t congested_until_ns;
};

struct rea__evidence_slot {
	uint32_t number; /* of the 100 ms that it counts, which wraps after 13 years */
	uint32_t firsts, retries, outcomes, timeouts;
	uint32_t timeout_instances; /* a bit each, by index modulo 32 */
};

struct rea__evidence {
	uint64_t generation;            /* counts resets; never 0 in use */
	uint64_t now_ns;                /* latest seen; 0 = not begun */
	uint32_t tokens;                /* thousandths, 0..2000 */
	uint64_t firsts, token_retries; /* ever, for the invariant */
	double success, pushback;
	uint64_t last_ok_ns;
	uint64_t trouble_ns; /* when it was last seen dead, failing or pushing back; 0 = never */
	struct rea__evidence_slot slots[REA__EVIDENCE_SLOTS];
	struct rea__evidence_slot window; /* the sum of those of the last 2 s; its number is the latest */
	uint32_t instances;               /* of the service, as last heard */
	/* ln(latency) */
	bool measured;
	double latency;
	uint64_t slice_ns; /* when the slice under way began */
	uint32_t samples, calm;
	double sum, calm_sum, calm_squares;
	double means[REA__EVIDENCE_MEANS];
	uint32_t means_len, means_next;
	double baseline, variance, theta; /* once there are two means */
	double centre;                    /* of the last slice */
	/* Congestion: until when, and which evidence said so last. */
	uint64_t congested_until_ns;
	struct rea_evidence heat;
};

/* Begin anew, as a budget does: full, and without a bad word. */
void rea__evidence_reset(struct rea__evidence *evidence);

/* How many retries in 2 s may stand beside so many first attempts. */
static inline uint64_t rea__evidence_room(uint64_t firsts)
{
	return 2 * (firsts + 2);
}

/* ---- of one thread ---- */

/* ln of what is above 0, to 0.00013: a hundredth of a percent of a latency. libm's took a sixth of a guarded call. */
double rea__evidence_log(uint64_t latency_ns);

static inline uint32_t rea__evidence_slot_number(uint64_t now_ns)
{
	return (uint32_t)(now_ns / REA__EVIDENCE_SLOT_NS);
}

/* Of threads whose clocks differ, those behind count into the slot of the latest: they would be due at every call. */
static inline bool rea__evidence_batch_due(const struct rea__evidence_batch *batch, uint64_t now_ns)
{
	return (int32_t)(rea__evidence_slot_number(now_ns) - batch->slot) > 0 || batch->generation == 0;
}
/* One success; not due. latency_ns 0 = not measured. True: it shows something that has to be brought in at once. */
bool rea__evidence_batch_success(struct rea__evidence_batch *batch, uint64_t latency_ns, uint64_t now_ns);

/* ---- of all ---- */

/* An earlier now counts as the latest seen. */
void rea__evidence_see_time(struct rea__evidence *evidence, uint64_t now_ns);
/* Bring a batch in; it is empty afterwards and belongs to now. */
void rea__evidence_merge(struct rea__evidence *evidence, struct rea__evidence_batch *batch, uint64_t now_ns);
/* The same, and one failure after it. */
void rea__evidence_failure(struct rea__evidence *evidence, struct rea__evidence_batch *batch,
    const struct rea__budget_attempt *attempt, uint64_t now_ns);
/* What a retry is granted on. */
enum rea__evidence_ground {
	REA__GROUND_EVIDENCE,
	REA__GROUND_BACKLOG, /* nobody has worked for this call yet: it comes now, once, though others make the service slow */
	REA__GROUND_TOKEN
};

/* Rule 12 for one call. Changes nothing but what it notes of the service's state; take then takes what was answered. */
enum rea__budget_answer rea__evidence_ask(struct rea__evidence *evidence, const struct rea__budget_question *question,
    uint64_t now_ns, enum rea__evidence_ground *ret_ground, struct rea_evidence *ret_says);
void rea__evidence_take(struct rea__evidence *evidence, enum rea__evidence_ground ground, uint64_t now_ns);
/* A retry that was taken at taken_ns is never sent. */
void rea__evidence_give_back(struct rea__evidence *evidence, bool token, uint64_t taken_ns);
/* How many could be taken one after the other. */
uint64_t rea__evidence_available(struct rea__evidence *evidence, uint64_t now_ns);
void rea__evidence_view(struct rea__evidence *evidence, uint64_t now_ns, struct rea_budget_view *ret_view);

#endif
