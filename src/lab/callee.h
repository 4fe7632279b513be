/*
 * The callee's side: instances with worker slots, a bounded queue and a plan of faults; what they do with a request, and what was seen of it. Sans-IO: in
 * virtual time and behind sockets alike, time comes in and timers are an agenda's.
 *
 * The counts made here are the truth that policies are judged by: what a client says of itself is not asked.
 */
#ifndef REA_SRC_LAB_CALLEE_H
#define REA_SRC_LAB_CALLEE_H

#include "lab/agenda.h"
#include "lab/scenario.h"

#include <rea/random.h>

#define LAB_BIN_NS (100 * UINT64_C(1000000))

enum lab_answer {
	LAB_ANSWER_OK,
	LAB_ANSWER_ERROR,    /* the work's status */
	LAB_ANSWER_PUSHBACK, /* 503 that says: not carried out, not now */
	LAB_ANSWER_REFUSED,  /* there was no connection */
	LAB_ANSWER_RESET     /* the connection broke after the request was sent */
};

/* One time of a fault. */
struct lab_window {
	const struct lab_fault *fault;
	uint64_t from_ns, to_ns;
};

/* What was seen of one call, by its number. */
struct lab_seen {
	uint8_t executions; /* saturates */
	uint8_t state;      /* of its key, where keys are honoured */
	uint8_t operation;
};

struct lab_work;

struct lab_instance {
	struct lab_callee *callee;
	uint32_t layer, index;
	uint32_t busy;
	uint32_t waiting_len;
	struct lab_work *first, *last; /* that wait for a slot */
	struct lab_timer capacity;     /* slots come back */
	uint32_t *arrivals;            /* per bin */
};

struct lab_callee {
	const struct lab_scenario *scenario;
	struct lab_agenda *agenda;
	struct rea_random random;
	struct lab_instance instances[LAB_LAYERS_MAX][LAB_INSTANCES_MAX];
	struct lab_window *windows; /* in the order of from_ns */
	uint32_t windows_len;
	uint32_t bins;
	struct lab_seen *seen; /* by call */
	uint64_t seen_capacity;
	uint64_t late;             /* requests that came after their call's deadline */
	double work_ns, wasted_ns; /* of the last layer, in the measured time */
	/* A slot's work at an instance of a layer that is not the last one is done: ask the next layer, then lab_callee_done. */
	void (*inner)(struct lab_work *work, uint64_t now_ns);
	int error; /* REA_ERR_NOMEM: the run is worthless */
};

/* A request at an instance. The owner embeds it, fills in the upper part and gives it to lab_callee_arrive. */
struct lab_work {
	uint64_t call; /* number of the call; those of one call share it at every layer */
	uint32_t operation;
	uint32_t attempt;          /* as the request says; 1-based */
	uint64_t deadline_ns;      /* of the attempt: who sent it waits so long */
	bool tells;                /* the request tells that deadline */
	uint64_t call_deadline_ns; /* nothing may come after it */
	uint32_t status;           /* of the answer */
	bool stop;                 /* the answer says `rea-retry: stop`; set before lab_callee_done */
	/* Once, never inside of lab_callee_arrive, if the owner was not told otherwise by lab_callee_leave. */
	void (*answered)(struct lab_work *work, enum lab_answer answer, uint64_t now_ns);
	/* Private. */
	struct lab_instance *instance;
	struct lab_timer timer;
	struct lab_work *next, *previous;
	uint64_t begun_ns, service_ns;
	enum lab_answer answer;
	bool on_slot, waits, hangs, left, over;
};

/* windows are drawn from the seed, and with it everything else that is random here. Returns 0 or REA_ERR_NOMEM. */
int lab_callee_init(struct lab_callee *callee, const struct lab_scenario *scenario, bool faults,
    struct lab_agenda *agenda, uint64_t seed);
void lab_callee_fini(struct lab_callee *callee);
/* Does the instance refuse connections now? */
bool lab_callee_refuses(const struct lab_callee *callee, const struct lab_instance *instance, uint64_t now_ns);
/* Returns 0 or REA_ERR_NOMEM, and then nothing of it is kept. */
int lab_callee_arrive(struct lab_instance *instance, struct lab_work *work, uint64_t now_ns);
/* Who sent it has left: nobody waits for an answer. False: the work goes on, and its answer tells when it is over; true: it is over now. */
bool lab_callee_leave(struct lab_work *work);
/* What the next layer came to, after `inner`. */
void lab_callee_done(struct lab_work *work, enum lab_answer answer, uint32_t status, uint64_t now_ns);
/* An attempt was made that no instance saw, since the connection was refused. */
void lab_callee_note_refused(struct lab_instance *instance, uint64_t call_deadline_ns, uint64_t now_ns);
/* Was a fault under way? */
bool lab_callee_faulty(const struct lab_callee *callee, uint64_t at_ns);

#endif
