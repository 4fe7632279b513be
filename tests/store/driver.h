/*
 * Many tasks under way at once, each one step after the other, and a record of what was acknowledged of each: what a store may say of them
 * afterwards.
 */
#ifndef REA_TESTS_STORE_DRIVER_H
#define REA_TESTS_STORE_DRIVER_H

#include "rig.h"

#include <rea/random.h>

#define LANES 12
#define STEPS_MAX 64

/* A task as it has to be after a step. */
struct stage {
	enum rea_store_state state;
	uint32_t generation;
	uint32_t attempt;
	uint32_t logged; /* attempts in the log */
};

struct lane {
	struct driver *driver;
	uint32_t number;
	uint64_t id; /* 0 = its submit was not acknowledged */
	uint64_t claim;
	struct stage stages[STEPS_MAX]; /* [0] = after the submit */
	uint32_t issued;                /* stages that were asked for: at most one more than acknowledged */
	uint32_t acknowledged;
	uint32_t synced; /* of the acknowledged: what a power cut must leave */
	bool under_way;
	bool relaxed; /* the step under way may ride */
};

/* No pointers into the heap, so that it can lie in memory shared with a process that is killed. */
struct driver {
	struct rig *rig;
	struct rea_random random;
	struct lane lanes[LANES];
	uint32_t steps_left;
	uint32_t under_way;
	bool final;
	bool failed;
};

void driver_init(struct driver *driver, uint64_t seed);
/* Begin or go on, until so many steps were asked for or one has failed; returns when nothing is under way: true if none failed. final: the store
 * dies with it, and what failed last may be found to have happened. */
bool driver_run(struct driver *driver, struct rig *rig, uint32_t steps, bool final);

enum driver_loss { LOSS_NONE, LOSS_PROCESS, LOSS_POWER };
/* The store, opened anew unless the loss is NONE, has every acknowledged task in a state that it may have; and the invariants hold: I1 a next time or
 * an end, I2 the payload that was submitted, I4 one place for each task, I6 numbers of attempts that grow. NULL, or what is wrong. */
const char *driver_check(struct driver *driver, struct rig *rig, enum driver_loss loss);

#endif
