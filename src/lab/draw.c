#include "lab/draw.h"

#include <rea/time.h>

#include <math.h>

double lab_draw_unit(struct rea_random *random)
{
	return (double)(rea_random_next(random) >> 11) * 0x1p-53;
}

uint64_t lab_draw_gap_ns(double rate, struct rea_random *random)
{
	return (uint64_t)(-log(1 - lab_draw_unit(random)) / rate * REA_NS_PER_S);
}

/* Box and Muller's; the second value is not kept, so that a draw takes the same from the source each time. */
static double draw_normal(struct rea_random *random)
{
	double radius = sqrt(-2 * log(1 - lab_draw_unit(random)));

	return radius * cos(2 * 3.14159265358979323846 * lab_draw_unit(random));
}

uint64_t lab_draw_service(const struct lab_layer *layer, struct rea_random *random)
{
	double time_ns = (double)layer->service_ns * exp(layer->sigma * draw_normal(random));

	if (lab_draw_unit(random) < layer->tail_share)
		time_ns *= layer->tail_factor;
	return time_ns > 1 ? (uint64_t)time_ns : 1;
}

uint32_t lab_draw_operation(const struct lab_scenario *scenario, struct rea_random *random)
{
	double at = scenario->operations_len > 1 ? lab_draw_unit(random) : 0;
	uint32_t i = 0;

	while (i + 1 < scenario->operations_len && at >= scenario->operations[i].share)
		at -= scenario->operations[i++].share;
	return i;
}
