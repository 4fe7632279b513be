/*
 * A list of servers that are as good as each other: one is asked until it fails, then the next. Only when all have failed in a row it is a failure,
 * after which one waits: 2 s, doubled up to 30 s, each time 20 % more or less. A success forgets all that.
 */
#ifndef REA_SRC_SERVERS_H
#define REA_SRC_SERVERS_H

#include <rea/random.h>

#include <stddef.h>
#include <stdint.h>

struct servers {
	const char *const *urls; /* borrowed */
	size_t len;
	size_t at;       /* the one to ask */
	size_t failed;   /* in a row, in this round */
	uint32_t rounds; /* in a row that found none */
};

/* Begins with any of them, so that many clients spread. */
void servers_init(struct servers *servers, const char *const *urls, size_t len, struct rea_random *random);
void servers_worked(struct servers *servers);
/* Returns how long to wait before the next one is asked; 0 = not at all, the round goes on. */
uint64_t servers_failed(struct servers *servers, struct rea_random *random);
static inline const char *servers_url(const struct servers *servers)
{
	return servers->urls[servers->at];
}

#endif
