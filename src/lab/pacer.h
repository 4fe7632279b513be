/* An agenda on a loop: its timers fire when they are due, to some microseconds; the loop's own have a millisecond. Time begins at zero_ns. */
#ifndef REA_SRC_LAB_PACER_H
#define REA_SRC_LAB_PACER_H

#include "lab/agenda.h"
#include "lab/measure.h"
#include "loop/loop.h"

struct lab_pacer {
	struct loop *loop;
	struct lab_agenda *agenda;
	uint64_t zero_ns;
	struct lab_latencies late; /* how long after their time timers fired */
	uint64_t armed_ns;         /* private, as is the rest */
	int fd;
	uv_poll_t poll;
	uv_prepare_t prepare;
};

/* agenda: borrowed. Returns 0, or REA_ERR_IO with nothing to close; `loop` is set exactly while there is. */
int lab_pacer_init(struct lab_pacer *pacer, struct loop *loop, struct lab_agenda *agenda, uint64_t zero_ns);
/* The object must live until loop_fini has returned. */
void lab_pacer_close(struct lab_pacer *pacer);
/* Since zero_ns; the same all through one turn of the loop. */
uint64_t lab_pacer_now(const struct lab_pacer *pacer);

#endif
