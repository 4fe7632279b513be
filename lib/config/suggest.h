/* "Did you mean …?": the nearest of many names. */
#ifndef REA_CONFIG_SUGGEST_H
#define REA_CONFIG_SUGGEST_H

#include "base/slice.h"

#define REA__SUGGEST_SIZE 192

struct rea__suggest {
	struct rea_slice wanted;
	const char *nearest; /* NULL = none is near enough; borrowed */
	size_t distance;
};

/* wanted: borrowed while it lives. */
void rea__suggest_init(struct rea__suggest *suggest, struct rea_slice wanted);
void rea__suggest_offer(struct rea__suggest *suggest, const char *candidate);
/* "; did you mean X?", or "" when nothing was near. Returns the buffer. */
const char *rea__suggest_text(const struct rea__suggest *suggest, char buffer[REA__SUGGEST_SIZE]);

#endif
