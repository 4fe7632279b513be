/*
 * What an operation does to a task: the states and every way from one to another. Pure: no store, no clock. The stores keep rows, and
 * change none but through this.
 *
 * Times of rows are int64_t nanoseconds, close to those of the wall clock (store/clock.h). REA__ROW_NEVER is none.
 */
#ifndef REA_STORE_MACHINE_H
#define REA_STORE_MACHINE_H

#include <rea/store.h>

#define REA__ROW_NEVER INT64_MAX

struct rea__row {
	uint64_t id;
	enum rea_store_state state;
	uint32_t generation;
	uint32_t attempt;
	uint32_t attempts_before;
	uint32_t crashes;
	uint64_t claim;
	int64_t due_ns;
	int64_t updated_ns; /* RUNNING: when the attempt began, for heartbeats do not count */
	bool later;         /* waits beyond the horizon: not in the caller's memory */
};

/* How far rea_store_due has come: everything up to here, in order of time and id, is soon. */
struct rea__horizon {
	int64_t due_ns;
	uint64_t id;
};
/* Nothing was handed out yet. */
#define REA__HORIZON_NONE ((struct rea__horizon){INT64_MIN, 0})

/* What one change is made with. */
struct rea__change {
	int64_t now_ns;
	struct rea__horizon horizon;
	uint64_t token; /* the claim it may give out */
	/* Set by the change: an attempt for the log. */
	bool logged;
	struct rea_store_attempt attempt;
};

static inline bool rea__state_open(enum rea_store_state state)
{
	return (REA_STORE_STATES_OPEN & REA_STORE_STATE_BIT(state)) != 0;
}

static inline bool rea__state_waits(enum rea_store_state state)
{
	return state == REA_STORE_PENDING || state == REA_STORE_RETRYING;
}

static inline bool rea__row_soon(const struct rea__row *row)
{
	return rea__state_waits(row->state) && !row->later;
}

/* No more than REA__ROW_NEVER - 1. */
int64_t rea__row_time_add(int64_t time_ns, uint64_t delay_ns);
bool rea__after_horizon(struct rea__horizon horizon, int64_t due_ns, uint64_t id);
/* What holds for every row that a change has left. */
bool rea__row_valid(const struct rea__row *row);

/* Each returns 0, REA_ERR_CONFLICT or REA_ERR_LIMIT (of numbers); on an error nothing has changed. */
void rea__row_submit(struct rea__row *row, const struct rea_store_submit *submit, struct rea__change *change);
int rea__row_claim(struct rea__row *row, const struct rea_store_claim *claim, struct rea__change *change);
int rea__row_heartbeat(struct rea__row *row, uint64_t claim, uint64_t lease_ns, struct rea__change *change);
int rea__row_record(struct rea__row *row, uint64_t claim, const struct rea_store_attempt *attempt, struct rea__change *change);
int rea__row_reschedule(struct rea__row *row, const struct rea_store_reschedule *reschedule, struct rea__change *change);
int rea__row_finish(struct rea__row *row, const struct rea_store_finish *finish, struct rea__change *change);
int rea__row_cancel(struct rea__row *row, struct rea__change *change);
int rea__row_replay(struct rea__row *row, const struct rea_store_replay *replay, struct rea__change *change);
/* RUNNING, and its worker is gone: its lease has ended, or its process has. */
void rea__row_interrupt(struct rea__row *row, struct rea__change *change);

#endif
