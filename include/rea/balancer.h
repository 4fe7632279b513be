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

/* What one thread has seen of an instance. Lives as long as the thread knows the address, across lists. Zero-initialise. */
struct rea_load {
	uint32_t in_flight;
	uint32_t samples;
	double latency_ns;   /* moving average; 0 = none yet */
	double failure_rate; /* moving average, 0..1 */
	uint64_t updated_ns;
};
/* An attempt goes out; its end. Both only on the loads' thread. */
REA_API void rea_load_begin(struct rea_load *load);
REA_API void rea_load_end(struct rea_load *load, const struct rea_report *report, uint64_t now_ns);

struct rea_instance {
	struct rea_instance_id id;
	uint32_t weight;        /* >= 1 relative share */
	struct rea_grant grant; /* what this instance itself declares; NONE = nothing */
	struct rea_load *load;  /* borrowed while the list lives; NULL = not measured, counts as idle */
};

enum rea_balance {
	REA_BALANCE_LEAST_LOADED, /* two random choices, the less loaded */
	REA_BALANCE_LISTED        /* the first that may be used, in the list's order: a primary with standbys */
};

/* A list of instances, immutable while used. */
struct rea_instances {
	const struct rea_instance *items;
	size_t count;
	enum rea_balance balance;
	bool equal_weights; /* every weight is the same: a first choice then looks at two instances only; false is always right */
};

/* Choose among the instances whose id is not in excluded. Returns an index, or SIZE_MAX when none is left. Allocates nothing. */
REA_API size_t rea_balancer_choose(const struct rea_instances *instances, const struct rea_instance_id *excluded,
    size_t excluded_len, struct rea_random *random, uint64_t now_ns);

#ifdef __cplusplus
}
#endif
#endif
