/*
 * Events of a sliding window in memory that several processes share. A slot is a tenth of a second, in one atomic word that says which tenth and
 * how many: it can be judged alone, so a process may die between any two words, and what is damaged or left over counts as nothing. No lock.
 */
#ifndef REA_CORE_COMMON_WINDOW_H
#define REA_CORE_COMMON_WINDOW_H

#include <stdint.h>

#define REA__COMMON_SLOT_MS 100
#define REA__COMMON_SLOTS 640 /* the longest window, and room for clocks that were read at different times */

/* All zero is empty. */
struct rea__common_window {
	uint64_t slots[REA__COMMON_SLOTS];
};

/* epoch: processes with the same one count together; 0..REA__COMMON_EPOCH_MAX, a different one after each boot, where clocks begin anew. */
#define REA__COMMON_EPOCH_MAX 0xfff
void rea__common_window_add(struct rea__common_window *window, uint32_t epoch, uint64_t now_ms);
/* Take one event of time_ms back, if it is still there. */
void rea__common_window_remove(struct rea__common_window *window, uint32_t epoch, uint64_t time_ms);
/* Of the last window_ms, and of the slot that they begin in. */
uint64_t rea__common_window_sum(const struct rea__common_window *window, uint32_t epoch, uint32_t window_ms, uint64_t now_ms);

#endif
