/*
 * Numbers that a caller hands in, and the sentence that refuses one: which field, its value, and what it may be.
 */
#ifndef REA_BASE_BOUNDS_H
#define REA_BASE_BOUNDS_H

#include "base/format.h"

#include <rea/error.h>

/* One number and what it may be: in [min, max], or in (min, max]. The bounds are themselves legal numbers, so that NaN
 * and infinity never are; a max of DBL_MAX is none. */
struct rea__bound {
	const char *key;  /* of the error: the field or the key of a document */
	const char *what; /* as the message calls it */
	double value, min, max;
	bool above_min;
	const char *note; /* where a bound that is no constant comes from; NULL = none */
};

/* 0, or REA_ERR_INVALID with key and message of the first that is out of its bounds in info (may be NULL). */
int rea__check_bounds(const struct rea__bound *bounds, size_t bounds_len, struct rea_error_info *info);
/* A refusal in one sentence of its own; returns error. */
int rea__refuse(struct rea_error_info *info, const char *key, int error, const char *message);
/* For refusals that are put together: name the key and begin the message; with info NULL the message is only counted. */
struct rea_format rea__begin_refusal(struct rea_error_info *info, const char *key);

#endif
