/*
 * The time of rows, and the one boundary where it meets the monotonic time of the interface.
 *
 * A store fixes the difference of the two when it opens, and never asks a clock again: while it is open nothing that happens to the wall
 * clock moves a task. The next opening goes on where the last one stood (rea__clock_start).
 */
#ifndef REA_STORE_CLOCK_H
#define REA_STORE_CLOCK_H

#include <rea/store.h>

struct rea__clock {
	int64_t offset_ns; /* time of rows - monotonic time */
};

/* What an earlier opening left behind. */
struct rea__clock_past {
	char boot_id[40];       /* "" = nothing */
	int64_t boot_offset_ns; /* time of rows - time since that boot */
	int64_t seen_ns;        /* latest time in any row; INT64_MIN = none */
};

/* Within one boot the time of rows follows the clock of that boot, which neither steps nor stops. After another boot it is the wall clock's,
 * but never behind what rows have seen, as far as that can be true. ret_past: what to leave behind. */
void rea__clock_start(struct rea__clock *clock, const struct rea_store_clock *now, const struct rea__clock_past *past,
    struct rea__clock_past *ret_past);

/* REA_NEVER is REA__ROW_NEVER, both ways. */
int64_t rea__clock_to_row(const struct rea__clock *clock, uint64_t now_ns);
/* What is before the monotonic clock's beginning is 0. */
uint64_t rea__clock_from_row(const struct rea__clock *clock, int64_t row_ns);

#endif
