/* Proves durability on the user's own disk: hands tasks in, kills, restarts, and looks whether every promise was kept. */
#ifndef REA_SRC_TORTURE_H
#define REA_SRC_TORTURE_H

#include <stdbool.h>
#include <stdint.h>

struct torture_options {
	const char *directory; /* on the disk in question; a directory of its own is made there */
	uint32_t rounds;       /* kills */
	uint32_t seconds;      /* of handing in, all rounds together */
	uint32_t clients;      /* 1..64 */
	uint32_t rate_per_s;   /* submits of all of them */
	uint64_t seed;
	bool power_cuts; /* a kill takes with it what was not synced: attempts may then be counted short */
	bool keep;       /* the directory, when all is well too */
	bool progress;   /* a bar on standard error */
};

/* Prints the evidence. Returns the exit code: 0 every promise was kept, 1 one was broken, or the test could not be made. */
int torture_run(const struct torture_options *options);

#endif
