/*
 *            submit                       claim (its time has come)
 *   (none) ─────────▶ PENDING, RETRYING ─────────────────────────▶ RUNNING ◀─┐ claim (the lease has ended), heartbeat, record
 *                         ▲   ▲    │    reschedule, interrupt         │  └───┘
 *                         │   └────┼──────────────────────────────────┤
 *                         │        │ finish, cancel                   │ finish, cancel
 *                  replay │        ▼                                  ▼
 *                         └─────────── SUCCESS, GIVEN_UP, CANCELLED
 *
 * What holds between changes (rea__row_valid):
 *   RUNNING           has a claim, an attempt of this generation, the end of a lease; is not `later`
 *   PENDING, RETRYING have no claim but a time; RETRYING has an attempt of this generation behind it, PENDING has none
 *   the others        have neither claim nor time
 *
 * Numbers of attempts only grow, and one that stands in the log is never given to another attempt.
 */
#include "store/machine.h"

#include <assert.h>

int64_t rea__row_time_add(int64_t time_ns, uint64_t delay_ns)
{
	assert(delay_ns <= REA_STORE_DELAY_NS_MAX);
	return time_ns > REA__ROW_NEVER - 1 - (int64_t)delay_ns ? REA__ROW_NEVER - 1 : time_ns + (int64_t)delay_ns;
}

bool rea__after_horizon(struct rea__horizon horizon, int64_t due_ns, uint64_t id)
{
	return due_ns != horizon.due_ns ? due_ns > horizon.due_ns : id > horizon.id;
}

bool rea__row_valid(const struct rea__row *row)
{
	if (row->id == 0 || row->generation == 0 || row->attempt < row->attempts_before)
		return false;
	switch (row->state) {
	case REA_STORE_PENDING:
		return row->claim == 0 && row->due_ns != REA__ROW_NEVER && row->attempt == row->attempts_before;
	case REA_STORE_RETRYING:
		return row->claim == 0 && row->due_ns != REA__ROW_NEVER && row->attempt > row->attempts_before;
	case REA_STORE_RUNNING:
		return row->claim != 0 && row->due_ns != REA__ROW_NEVER && row->attempt > row->attempts_before && !row->later;
	case REA_STORE_SUCCESS:
	case REA_STORE_GIVEN_UP:
	case REA_STORE_CANCELLED:
		return row->claim == 0 && row->due_ns == REA__ROW_NEVER && !row->later;
	case REA_STORE_STATE_COUNT:
		break;
	}
	return false;
}

/* ---- the one place where a state changes ---- */

static void enter(struct rea__row *row, enum rea_store_state state, int64_t due_ns, struct rea__change *change)
{
	row->state = state;
	row->claim = state == REA_STORE_RUNNING ? change->token : 0;
	row->due_ns = due_ns;
	row->later = rea__state_waits(state) && rea__after_horizon(change->horizon, due_ns, row->id);
	row->updated_ns = change->now_ns;
	assert(rea__row_valid(row));
}

static void enter_waiting(struct rea__row *row, int64_t due_ns, struct rea__change *change)
{
	enter(row, row->attempt > row->attempts_before ? REA_STORE_RETRYING : REA_STORE_PENDING, due_ns, change);
}

/* ---- attempts ---- */

/* The attempt under way has ended, as its worker tells. */
static void log_ended(struct rea__row *row, const struct rea_store_attempt *attempt, struct rea__change *change)
{
	row->crashes = 0;
	if (attempt == NULL)
		return;
	change->logged = true;
	change->attempt = *attempt;
	change->attempt.number = row->attempt;
	change->attempt.generation = row->generation;
	change->attempt.interrupted = false;
}

/* It has ended for us, and nobody tells how. */
static void log_lost(const struct rea__row *row, enum rea_outcome outcome, struct rea__change *change)
{
	change->logged = true;
	change->attempt = (struct rea_store_attempt){
	    .number = row->attempt,
	    .generation = row->generation,
	    .interrupted = outcome == REA_OUTCOME_AMBIGUOUS,
	    .outcome = outcome,
	    .start_unix_ns = row->updated_ns,
	    .cost_ns = change->now_ns > row->updated_ns ? (uint64_t)change->now_ns - (uint64_t)row->updated_ns : 0,
	};
}

/* The claimed attempt was made, or its number is free again. */
static void settle_attempt(
    struct rea__row *row, bool attempted, const struct rea_store_attempt *attempt, struct rea__change *change)
{
	if (attempted)
		log_ended(row, attempt, change);
	else if (row->state == REA_STORE_RUNNING)
		row->attempt--;
}

/* An attempt that was made needs somebody who made it. */
static bool holds(const struct rea__row *row, uint64_t claim, bool attempted)
{
	return rea__state_open(row->state) && row->claim == claim && (row->state == REA_STORE_RUNNING || !attempted);
}

/* ---- changes ---- */

void rea__row_submit(struct rea__row *row, const struct rea_store_submit *submit, struct rea__change *change)
{
	row->generation = 1;
	row->attempts_before = 0;
	row->attempt = (uint32_t)submit->attempts_len;
	row->crashes = 0;
	enter_waiting(row, rea__row_time_add(change->now_ns, submit->delay_ns), change);
}

static bool claimable(const struct rea__row *row, const struct rea_store_claim *claim, int64_t now_ns)
{
	return rea__state_open(row->state) && row->due_ns <= now_ns &&
	       (claim->generation == 0 || claim->generation == row->generation);
}

int rea__row_claim(struct rea__row *row, const struct rea_store_claim *claim, struct rea__change *change)
{
	if (!claimable(row, claim, change->now_ns))
		return REA_ERR_CONFLICT;
	if (row->attempt == UINT32_MAX)
		return REA_ERR_LIMIT;
	if (row->state == REA_STORE_RUNNING)
		rea__row_interrupt(row, change);
	row->attempt++;
	enter(row, REA_STORE_RUNNING, rea__row_time_add(change->now_ns, claim->lease_ns), change);
	return 0;
}

int rea__row_heartbeat(struct rea__row *row, uint64_t claim, uint64_t lease_ns, struct rea__change *change)
{
	if (row->state != REA_STORE_RUNNING || row->claim != claim)
		return REA_ERR_CONFLICT;
	row->due_ns = rea__row_time_add(change->now_ns, lease_ns);
	return 0;
}

int rea__row_record(struct rea__row *row, uint64_t claim, const struct rea_store_attempt *attempt, struct rea__change *change)
{
	if (row->state != REA_STORE_RUNNING || row->claim != claim)
		return REA_ERR_CONFLICT;
	if (row->attempt == UINT32_MAX)
		return REA_ERR_LIMIT;
	log_ended(row, attempt, change);
	row->attempt++;
	row->updated_ns = change->now_ns;
	return 0;
}

int rea__row_reschedule(struct rea__row *row, const struct rea_store_reschedule *reschedule, struct rea__change *change)
{
	if (!holds(row, reschedule->claim, reschedule->attempted))
		return REA_ERR_CONFLICT;
	settle_attempt(row, reschedule->attempted, reschedule->attempt, change);
	enter_waiting(row, rea__row_time_add(change->now_ns, reschedule->delay_ns), change);
	return 0;
}

int rea__row_finish(struct rea__row *row, const struct rea_store_finish *finish, struct rea__change *change)
{
	if (!holds(row, finish->claim, finish->attempted))
		return REA_ERR_CONFLICT;
	settle_attempt(row, finish->attempted, finish->attempt, change);
	enter(row, finish->state, REA__ROW_NEVER, change);
	return 0;
}

int rea__row_cancel(struct rea__row *row, struct rea__change *change)
{
	if (!rea__state_open(row->state))
		return REA_ERR_CONFLICT;
	if (row->state == REA_STORE_RUNNING)
		log_lost(row, REA_OUTCOME_CANCELLED, change);
	enter(row, REA_STORE_CANCELLED, REA__ROW_NEVER, change);
	return 0;
}

int rea__row_replay(struct rea__row *row, const struct rea_store_replay *replay, struct rea__change *change)
{
	if (rea__state_open(row->state) || (replay->generation != 0 && replay->generation != row->generation))
		return REA_ERR_CONFLICT;
	if (row->state == REA_STORE_SUCCESS && !replay->force)
		return REA_ERR_CONFLICT;
	if (row->generation == UINT32_MAX)
		return REA_ERR_LIMIT;
	row->generation++;
	row->attempts_before = row->attempt;
	row->crashes = 0;
	enter_waiting(row, rea__row_time_add(change->now_ns, replay->delay_ns), change);
	return 0;
}

void rea__row_interrupt(struct rea__row *row, struct rea__change *change)
{
	assert(row->state == REA_STORE_RUNNING);
	log_lost(row, REA_OUTCOME_AMBIGUOUS, change);
	if (row->crashes < UINT32_MAX)
		row->crashes++;
	enter_waiting(row, change->now_ns, change);
}
