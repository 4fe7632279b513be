/*
 * A scenario of the fault lab: who calls, what answers, what goes wrong and when, and what should come of it. Read from YAML; rea-lab(1) tells the keys.
 */
#ifndef REA_SRC_LAB_SCENARIO_H
#define REA_SRC_LAB_SCENARIO_H

#include "base/arena.h"

#include <rea/error.h>
#include <rea/permission.h>

#define LAB_LAYERS_MAX 4
#define LAB_INSTANCES_MAX 26 /* A to Z */
#define LAB_EVERY_INSTANCE UINT32_MAX
#define LAB_CALLS_MAX 20000000 /* of one run */

/* What an instance does while a fault lasts. X(NAME, "name") */
#define LAB_FAULT_MAP(X)                                                                                      \
	X(ERROR, "error")       /* a share of requests gets a status, at once or after a full service time */ \
	X(REFUSE, "refuse")     /* connections are refused */                                                 \
	X(HANG, "hang")         /* a share of requests is taken and never answered */                         \
	X(SLOW, "slow")         /* the service time is `factor` times as long */                              \
	X(CAPACITY, "capacity") /* only this share of the worker slots is there */                            \
	X(DROP, "drop")         /* a share of requests is carried out, then the connection is reset */

enum lab_fault_kind {
#define X(name, text) LAB_FAULT_##name,
	LAB_FAULT_MAP(X)
#undef X
};

struct lab_fault {
	uint32_t kind;     /* enum lab_fault_kind */
	uint32_t layer;    /* index; default the last one */
	uint32_t instance; /* index, or LAB_EVERY_INSTANCE */
	uint64_t at_ns;    /* from the beginning of the run; with windows not used */
	uint64_t for_ns;
	uint64_t for_max_ns; /* with windows: each lasts for_ns to this */
	uint32_t windows; /* 0 = one fault at at_ns; else so many, each at random in its own equal part of the measured time */
	double share;    /* of requests; of capacity: what is left; 0..1 */
	double factor;   /* of slow */
	uint32_t status; /* of error */
	bool costly;     /* error: after a full service time on a worker slot */
	uint32_t line;
};

struct lab_layer {
	const char *name;
	uint32_t instances;
	uint32_t workers;     /* slots of each instance; 0 = no limit */
	uint32_t queue;       /* requests that may wait for a slot; beyond it 503 */
	uint64_t service_ns;  /* median of the service time, which is log-normal */
	double sigma;         /* of its logarithm */
	double tail_share;    /* so many requests … */
	double tail_factor;   /* … take so many times as long */
	uint64_t error_ns;    /* an error that costs nothing takes this */
	bool heeds_deadlines; /* what waited and cannot be done in the time that its request tells is not begun */
	bool gate;            /* the same when it comes, or when it would wait too long; with pushback */
	double margin;        /* so many mean service times must be left for it to be done in time; default 3 */
	bool forgets;         /* a waiting request whose caller has left is not worked on */
	bool honours_keys;    /* a key that was seen gets the answer of the first execution */
};

struct lab_operation {
	const char *name;
	double share;
	enum rea_permission permission;
	bool key; /* its calls carry an Idempotency-Key */
};

/* What is measured, and what is wanted of it. X(NAME, "name", lower is better, "what it is") */
#define LAB_FIGURE_MAP(X)                                                                                              \
	X(SUCCESS, "success", false, "calls that succeeded")                                                           \
	X(SUCCESS_INSIDE, "success-inside", false, "the same, of calls begun while a fault lasted")                    \
	X(SUCCESS_OF_BOUND, "success-of-bound", false, "that as a share of what is possible")                          \
	X(ATTEMPTS, "attempts", true, "attempts for each call")                                                        \
	X(ATTEMPTS_INSIDE, "attempts-inside", true, "the same, of calls begun while a fault lasted")                   \
	X(LOAD_INSIDE, "load-inside", true, "requests at the last layer during faults, by what comes without retries") \
	X(PEAK, "peak", true, "the same in the worst second of the run")                                               \
	X(P99_MS, "p99-ms", true, "99 of 100 calls end sooner, ms")                                                    \
	X(P99_INSIDE_MS, "p99-inside-ms", true, "the same, of calls begun while a fault lasted")                       \
	X(P99_RATIO, "p99-inside-ratio", true, "that by the same of calls without faults and retries")                 \
	X(RECOVERY_S, "recovery-s", true, "after a fault, until 99 % of new calls succeed again; the worst, s")        \
	X(WASTED, "wasted", true, "service time spent on answers that nobody waited for")                              \
	X(DUPLICATES, "duplicates", true, "calls carried out twice without permission")                                \
	X(LATE, "late", true, "requests sent after their call's deadline")                                             \
	X(EJECTIONS, "ejections", true, "instances that clients left out for a while, all clients together")           \
	X(HARM, "harm", true, "success below that of `none`, points")

enum lab_figure {
#define X(name, text, lower, what) LAB_##name,
	LAB_FIGURE_MAP(X)
#undef X
	    LAB_FIGURES
};
const char *lab_figure_name(enum lab_figure figure);
const char *lab_figure_text(enum lab_figure figure);
bool lab_figure_lower_is_better(enum lab_figure figure);

struct lab_goal {
	enum lab_figure figure;
	double value; /* at least; at most if lower is better */
};

struct lab_scenario {
	struct rea_arena arena; /* private */
	const char *name;
	const char *about;
	double duration_s; /* with the warm-up */
	double warm_up_s;  /* not measured: what is normal has to be learned first */
	uint32_t clients;
	double load; /* offered to the last layer, by what it can do; 0 = by rate */
	double rate; /* calls a second in all; 0 = by load */
	uint64_t deadline_ns, attempt_timeout_ns;
	uint64_t network_ns; /* there and back */
	struct lab_layer layers[LAB_LAYERS_MAX];
	uint32_t layers_len;
	struct lab_operation *operations;
	uint32_t operations_len;
	struct lab_fault *faults;
	uint32_t faults_len;
	struct lab_goal *goals;
	uint32_t goals_len;
};

/* name: for messages. vary: "KEY=VALUE" settings over the document's top level and its last layer, an array that ends with NULL; may be NULL. Returns 0, or
 * REA_ERR_SYNTAX, INVALID, LIMIT, NOMEM with ret_info filled. */
int lab_scenario_parse(const char *name, const char *text, size_t length, const char *const *vary,
    struct lab_scenario *ret_scenario, struct rea_error_info *ret_info);
/* The same for a file; REA_ERR_IO too. */
int lab_scenario_load(
    const char *path, const char *const *vary, struct lab_scenario *ret_scenario, struct rea_error_info *ret_info);
void lab_scenario_fini(struct lab_scenario *scenario);

/* Mean service time of a layer, without faults. */
double lab_layer_mean_ns(const struct lab_layer *layer);
/* Calls a second in all. */
double lab_scenario_rate(const struct lab_scenario *scenario);

#endif
