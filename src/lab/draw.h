/* Random times. */
#ifndef REA_SRC_LAB_DRAW_H
#define REA_SRC_LAB_DRAW_H

#include "lab/scenario.h"

#include <rea/random.h>

/* Uniform in [0, 1). */
double lab_draw_unit(struct rea_random *random);
/* Exponential: between two events that come `rate` times a second. */
uint64_t lab_draw_gap_ns(double rate, struct rea_random *random);
/* A service time of the layer. */
uint64_t lab_draw_service(const struct lab_layer *layer, struct rea_random *random);
/* One of the scenario's operations, by their shares. */
uint32_t lab_draw_operation(const struct lab_scenario *scenario, struct rea_random *random);

#endif
