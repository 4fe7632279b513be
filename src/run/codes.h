/* What the exit status of a command means: which outcome it is. */
#ifndef REA_SRC_RUN_CODES_H
#define REA_SRC_RUN_CODES_H

#include <rea/error.h>
#include <rea/outcome.h>

#define RUN_TIMED_OUT 124 /* as timeout(1) says it */
#define RUN_OWN_FAILURE 125
#define RUN_CANNOT_RUN 126
#define RUN_NOT_FOUND 127
#define RUN_SIGNALLED 128 /* plus the signal's number */

/* By exit status, 0..255. */
struct run_codes {
	uint8_t outcomes[256]; /* enum rea_outcome */
};

/*
 * The defaults: 0 is ok. 2 and the statuses of sysexits.h that speak of the command line, its data or a permission (64-67, 76-78) are permanent, 69 and 75
 * unavailable. Over 128, ended by a signal, is ambiguous; everything else failed.
 */
void run_codes_init(struct run_codes *codes);
/* Only these are worth another attempt: every other status but 0 becomes permanent, and one of these that was permanent, failed. list: numbers and
 * ranges, "1,75,100-110", 1..255 without 126 and 127, which tell that there is nothing to run. Returns 0, or REA_ERR_INVALID with the message. */
int run_codes_retry(struct run_codes *codes, const char *list, struct rea_error_info *ret_info);
/* These are not worth another attempt. */
int run_codes_permanent(struct run_codes *codes, const char *list, struct rea_error_info *ret_info);

#endif
