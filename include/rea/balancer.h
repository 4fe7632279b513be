/*
 * Which instance an attempt goes to. An instance is its address and port, never an object: a refreshed list with equal addresses is the
 * same list.
 *
 * One thread at a time; loads belong to one thread.
 */
#ifndef REA_BALANCER_H
#define REA_BALANCER_H

#include <rea/outcome.h>
#include <rea/permission.h>
#include <rea/random.h>

#ifdef __cplusplus
extern "C" {
#endif

/* IPv4 is kept as ::ffff:a.b.c.d. Compare with rea_instance_id_equal. */
struct rea_instance_id {
	uint8_t address[16];
	uint16_t port; /* host order */
};
REA_API bool rea_instance_id_equal(const struct rea_instance_id *a, const struct rea_instance_id *b);

/* How an instance has done of late, and whether it is ejected: left out while there are others. To be shown; only the functions here change it. */
struct rea_ejection {
	uint32_t attempts; /* that ended in the last 2.5 s or less */
	uint32_t failures;
	uint32_t attempts_before; /* in the 2.5 s before */
	uint32_t failures_before;
	uint64_t half_ns;   /* when the 2.5 s under way began */
	uint32_t streak;    /* failures since the last answer; a long silence counts as several */
	uint64_t streak_ns; /* when the first of them was sent */
	uint64_t asked_ns;  /* when the latest attempt that has ended was sent … */
	uint64_t well_ns;   /* … and the latest that was answered */
	uint32_t proofs;    /* probes that were answered, of the three that readmit it */
	uint32_t doublings; /* of its first pause */
	uint32_t pause_ns;  /* the first one: 2 s, give or take a fifth */
	uint64_t until_ns;  /* when a probe is due, if none is under way; 0 = it is not ejected */
	bool suspect;       /* the last attempt there waited long in vain, while its peers answered */
	uint64_t since_ns;  /* the last ejection or readmission */
	uint64_t probe_ns;  /* when the probe under way was sent; 0 = there is none */
};

/* What one thread has seen of an instance. Lives as long as the thread knows the address, across lists. Zero-initialise. */
struct rea_load {
	uint32_t in_flight;
	uint32_t samples;
	double latency_ns;   /* moving average; 0 = none yet */
	double failure_rate; /* moving average, 0..1 */
	uint64_t updated_ns;
	uint64_t busy_ns;     /* since when something is under way */
	uint64_t answered_ns; /* the last answer */
	struct rea_ejection ejection;
};
/* An attempt goes out; its end, to be told before rea_call_report. Both only on the loads' thread. */
REA_API void rea_load_begin(struct rea_load *load, uint64_t now_ns);
REA_API void rea_load_end(struct rea_load *load, const struct rea_report *report, uint64_t now_ns);
/* It is left out while there are others. */
REA_API bool rea_load_ejected(const struct rea_load *load);

struct rea_instance {
	struct rea_instance_id id;
	uint32_t weight;        /* >= 1 relative share */
	struct rea_grant grant; /* what this instance itself declares; NONE = nothing */
	struct rea_load *load;  /* borrowed while the list lives; NULL = not measured, counts as idle */
	uint32_t tier; /* one of a higher number is chosen only when none of a lower one may be: standbys, the priorities of SRV records; default 0 */
};

enum rea_balance {
	REA_BALANCE_LEAST_LOADED, /* two random choices, the less loaded */
	REA_BALANCE_LISTED /* the first that may be used, in the list's order, of the lowest tier: a primary with standbys */
};

/* A list of instances, immutable while used. */
struct rea_instances {
	const struct rea_instance *items;
	size_t count;
	enum rea_balance balance;
	bool equal_weights; /* every weight is the same, and every tier: a first choice then looks at two instances only; false is always right */
	bool never_eject; /* none is ejected, and one that another list has ejected counts like the others */
};

/* Choose among the instances whose id is not in excluded; an ejected one is chosen when no other is left, or to probe it. Ejections are decided by
 * rea_call_report. Returns an index, or SIZE_MAX when none is left. Allocates nothing. */
REA_API size_t rea_balancer_choose(const struct rea_instances *instances, const struct rea_instance_id *excluded,
    size_t excluded_len, struct rea_random *random, uint64_t now_ns);

#ifdef __cplusplus
}
#endif
#endif
