/*
 * Scripted HTTP/1.1 servers on one loop: they answer, delay, refuse, reset and lie as their scripts say, and record what they saw.
 */
#ifndef REA_SRC_LAB_UPSTREAM_H
#define REA_SRC_LAB_UPSTREAM_H

#include "lab/script.h"
#include "loop/loop.h"

#include <stdio.h>

struct lab_bed;

/* A bed of instances. log: borrowed, NULL = none. seed: of the steps with a chance. NULL when out of memory. */
struct lab_bed *lab_bed_new(struct loop *loop, FILE *log, uint64_t seed);
/* Add an instance. name: copied. script: taken over, in any case. Returns 0, REA_ERR_IO or REA_ERR_NOMEM with the message in ret_info. */
int lab_bed_add(struct lab_bed *bed, const char *name, const char *address, struct lab_script *script,
    struct rea_error_info *ret_info);
/* "NAME listening on ADDRESS", one line per instance. */
void lab_bed_print(const struct lab_bed *bed, FILE *out);
/* Reset every connection and stop listening; NULL is a no-op. What is closed here is gone when loop_fini returns: only then free the bed. */
void lab_bed_close(struct lab_bed *bed);
void lab_bed_free(struct lab_bed *bed);

#endif
