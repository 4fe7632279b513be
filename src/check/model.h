/*
 * The neutral model: who repeats what, how often, with which waits and limits, on which failures of which methods, and where that is written. Readers
 * fill it, rules look at it, reports print it. Nothing here knows a file format.
 *
 *   check ── files            what was given
 *         ── apps ── targets  an app is one hop (a service, a proxy); a target is one way that its calls go
 *                     └ layers, outermost first: each repeats all that is inside it
 *         ── findings
 *
 * All of it lives in the check's arena. A function that allocates returns NULL (texts: "") when memory has run out; check->error remembers it.
 */
#ifndef REA_SRC_CHECK_MODEL_H
#define REA_SRC_CHECK_MODEL_H

#include "base/arena.h"
#include "base/slice.h"
#include "check/check.h"

#include <rea/time.h>

#include <string.h>

/* The methods as retrying layers tell them apart. X(NAME, "column") */
#define CHECK_METHOD_MAP(X)  \
	X(GET, "GET")        \
	X(PUT, "PUT/DELETE") \
	X(POST, "POST")

enum check_method {
#define X(name, column) CHECK_##name,
	CHECK_METHOD_MAP(X)
#undef X
	    CHECK_METHODS
};

/* How a request fails. X(NAME, "row", "after when") */
#define CHECK_FAILURE_MAP(X)                                                    \
	X(CONNECT, "no connection", "no connection can be made")                \
	X(CLOSED, "connection lost", "the connection is lost before the reply") \
	X(TIMEOUT, "no reply in time", "no reply comes in time")                \
	X(429, "429", "the reply is a 429")                                     \
	X(500, "500", "the reply is a 500")                                     \
	X(502, "502", "the reply is a 502")                                     \
	X(503, "503", "the reply is a 503")                                     \
	X(503_AFTER, "503 Retry-After", "the reply is a 503 with Retry-After")  \
	X(504, "504", "the reply is a 504")

enum check_failure {
#define X(name, row, english) CHECK_ON_##name,
	CHECK_FAILURE_MAP(X)
#undef X
	    CHECK_FAILURES
};

#define CHECK_FINDINGS_MAX 5000
#define CHECK_TARGETS_MAX 1000 /* of one app under one profile */

#define CHECK_BIT(value) (UINT32_C(1) << (value))
#define CHECK_ALL_METHODS (CHECK_BIT(CHECK_METHODS) - 1)
#define CHECK_ALL_FAILURES (CHECK_BIT(CHECK_FAILURES) - 1)
#define CHECK_ON_5XX                                                                                                   \
	(CHECK_BIT(CHECK_ON_500) | CHECK_BIT(CHECK_ON_502) | CHECK_BIT(CHECK_ON_503) | CHECK_BIT(CHECK_ON_503_AFTER) | \
	    CHECK_BIT(CHECK_ON_504))
#define CHECK_ON_IO (CHECK_BIT(CHECK_ON_CONNECT) | CHECK_BIT(CHECK_ON_CLOSED) | CHECK_BIT(CHECK_ON_TIMEOUT))
/* After these nobody knows whether the request was executed, or it likely was. */
#define CHECK_ON_EXECUTED                                                                     \
	(CHECK_BIT(CHECK_ON_CLOSED) | CHECK_BIT(CHECK_ON_TIMEOUT) | CHECK_BIT(CHECK_ON_500) | \
	    CHECK_BIT(CHECK_ON_502) | CHECK_BIT(CHECK_ON_504))

const char *check_method_name(enum check_method method);
const char *check_failure_name(enum check_failure failure);    /* of its row */
const char *check_failure_english(enum check_failure failure); /* after "when" */
/* The failures that an HTTP status is; 0 = none of the rows. */
uint32_t check_failures_of_status(uint64_t status);

struct check_place {
	const struct check_file *file;
	uint32_t line; /* 1-based; 0 = the file as a whole */
	uint32_t column;
};

struct check_file {
	struct check_file *next;
	const char *name;
	const char *shown; /* the name as it can be printed */
	struct rea_slice text;
	enum check_kind kind;
	struct check_app *app; /* NULL = could not be read */
	size_t index;
};

/* A number that repeats: told with its unit, since some count the first request and some do not. */
struct check_layer {
	struct check_layer *inner;
	const char *name;
	const char *key; /* the setting that says how often; NULL = a default */
	struct check_place place;
	uint32_t number;     /* as written or as the default is; 0 = is no number */
	bool counts_retries; /* number leaves the first request out */
	bool written;        /* somebody wrote the number */
	bool hidden;         /* a library's own doing, which nobody configured */
	bool unknown;        /* code or a value that is not in the files: the counts are the least */
	bool deadline;       /* stops by itself in time: total_ns ends no request in the middle */
	const char *when;    /* it is there only then; NULL = always */
	/* Requests that it makes of one that it is given, at least 1. */
	uint32_t most[CHECK_FAILURES][CHECK_METHODS];
	uint32_t least[CHECK_FAILURES][CHECK_METHODS];
	uint64_t wait_ns[CHECK_FAILURES]; /* all its waits together, when it makes the most requests */
	uint64_t attempt_ns;              /* limit of one of its attempts; REA_NEVER = none */
	uint64_t total_ns;                /* limit of all of them; REA_NEVER = none */
	struct check_place total_place;
	/* How writes are left out of it: at that place `old` becomes `new`, or without `old` the line `new` goes below it. NULL = by hand. */
	struct check_place safer_place;
	const char *safer_old;
	const char *safer_new;
};

struct check_target {
	struct check_target *next;
	const struct check_app *app;
	const char *kind;    /* "client", "route", "location" */
	const char *name;    /* as written */
	const char *service; /* whom it calls, as a name to be compared; "" = unknown */
	const char *profile; /* "" = no profile */
	const char *note;    /* said below its table; "" = nothing */
	struct check_place place;
	struct check_layer *layers; /* outermost first; NULL = none */
	uint64_t connect_ns;        /* limits of one request; REA_NEVER = none */
	uint64_t read_ns;
	struct check_place read_place;
	bool keyed;     /* its writes carry an Idempotency-Key, or are declared to be repeatable */
	bool read_only; /* it makes no writes, by its name */
	/* rea: the gRPC service config that it takes its retries from, by its path beside the file; NULL = none */
	const char *grpc_config;
	struct check_place grpc_place;
	uint32_t grpc_requests; /* that it makes of one call by it */
};

struct check_app {
	struct check_app *next;
	const char *name; /* of the hop */
	const char *path; /* where its files are; apps of one path and kind are one */
	enum check_kind kind;
	struct check_place place;
	struct check_target *targets, **targets_tail;
	struct check_document *documents, **documents_tail; /* Spring */
	bool live;                                          /* a file of it could be read */
	struct check_declared *declared;                    /* rea: what callees permit */
};

/* An operation that a contract declares. */
struct check_declared {
	struct check_declared *next;
	const char *service;
	bool write;
	bool repeatable;
};

/* Bytes of a file that a correction replaces. They must still read as `old`. */
struct check_edit {
	struct check_edit *next;
	const struct check_file *file;
	size_t at;
	const char *old;
	const char *new;
};

struct check_finding {
	struct check_finding *next;
	const struct check_rule *rule;
	enum check_severity severity;
	struct check_place place;
	const char *subject; /* the target, "" = none */
	const char *message;
	const char *instead;
	struct check_edit *edits; /* NULL = has to be corrected by hand */
};

struct check_problem {
	struct check_problem *next;
	struct rea_error_info info;
};

/* What the class path and the versions tell; each is yes, no or unknown. */
enum check_known { CHECK_UNKNOWN, CHECK_YES, CHECK_NO };

struct check_facts {
	bool classpath; /* was given: what is not in it is not there */
	enum check_known spring_retry, spring_retry_direct, openfeign, hc5, okhttp, reactive;
	const char *carrier;    /* what brings spring-retry along; NULL = unknown */
	uint32_t cloud;         /* 202200 = 2022.0; 0 = unknown; Hoxton and older are 201900 and below */
	uint32_t cloud_service; /* the release within the train */
};

#define CHECK_CLOUD_UNKNOWN 0
#define CHECK_CLOUD_2020 UINT32_C(202000)
#define CHECK_CLOUD_2021 UINT32_C(202100)
#define CHECK_CLOUD_2022 UINT32_C(202200)
#define CHECK_CLOUD_2025 UINT32_C(202500)

/* By what a hop of a chain was taken for. */
enum check_hop {
	CHECK_HOP_NAMED,   /* what it makes calls to the next hop with, by its name */
	CHECK_HOP_GENERAL, /* nothing has that name: what holds for any other */
	CHECK_HOP_WORST,   /* nor does anything hold for any other: the worst that there is */
	CHECK_HOP_LAST,    /* no hop follows: the worst that there is */
	CHECK_HOP_NONE     /* it makes no calls */
};

struct check_chain {
	struct check_chain *next;
	const struct check_app **apps;
	const struct check_target **targets; /* the calls of apps[i] to apps[i + 1]; of the last its worst; NULL = it makes none */
	enum check_hop *hops;
	size_t apps_len;
	const char *text;
};

struct check {
	struct rea_arena arena;
	struct check_options options;
	int error; /* 0, or REA_ERR_NOMEM */
	struct check_facts facts;
	struct check_file *files, **files_tail;
	size_t files_len;
	struct check_app *apps, **apps_tail;
	struct check_chain *chains, **chains_tail;
	struct check_finding *findings;
	struct check_problem *problems, **problems_tail;
	size_t counts[CHECK_SEVERITIES];
	bool prepared;
	bool full; /* there were more than CHECK_FINDINGS_MAX */
};

/* ---- memory ---- */

void *check_alloc(struct check *check, size_t size);
char *check_copy(struct check *check, struct rea_slice text);
__attribute__((format(printf, 2, 3))) const char *check_text(struct check *check, const char *format, ...);
/* Fit to be printed: what is no UTF-8 or a control character becomes '?'. */
const char *check_shown(struct check *check, struct rea_slice text);
/* The name with case, '-' and '_' taken out, as relaxed names are compared. */
const char *check_canonical(struct check *check, struct rea_slice text);

/* Equal in that form. */
bool check_same_name(struct rea_slice a, struct rea_slice b);

/* ---- building ---- */

struct check_place check_place_at(const struct check_file *file, uint32_t line, uint32_t column);
/* The name of the hop that a file is of: of its directory when it has the name of its kind ("a/nginx.conf"), else its own without what follows a dot. */
const char *check_hop_of(struct check *check, const struct check_file *file);
/* The app of a file. name: of the hop. */
struct check_app *check_app_of(struct check *check, struct check_file *file, const char *path, const char *name);
/* A target without limits. service "" = unknown. */
struct check_target *check_target_new(struct check *check, struct check_app *app, const char *kind, const char *name,
    const char *service, struct check_place place);
/* A layer that makes one request of one, hung below those that the target has. */
struct check_layer *check_layer_new(
    struct check *check, struct check_target *target, const char *name, struct check_place place);
/* It makes `requests` on these failures of these methods. certain: so in every case. */
void check_layer_repeats(struct check_layer *layer, uint32_t failures, uint32_t methods, uint32_t requests, bool certain);
/* How often at most. */
uint32_t check_layer_requests(const struct check_layer *layer);
/* waits between `requests` requests: first, first·factor, … up to cap. */
uint64_t check_waits(uint32_t requests, uint64_t first_ns, double factor, uint64_t cap_ns);
void check_layer_waits(struct check_layer *layer, uint32_t failures, uint64_t wait_ns);
void check_problem_add(struct check *check, const struct rea_error_info *info);

/* ---- amounts ---- */

/* Requests that arrive for one call when every one of them fails in this way. Saturates. */
uint64_t check_requests_most(const struct check_target *target, enum check_failure failure, enum check_method method);
uint64_t check_requests_least(const struct check_target *target, enum check_failure failure, enum check_method method);
/* How long that takes at most; REA_NEVER = for ever. */
uint64_t check_time(const struct check_target *target, enum check_failure failure, enum check_method method);
uint64_t check_time_worst(const struct check_target *target);
/* The same without what libraries do by themselves. */
uint64_t check_time_configured(const struct check_target *target);
/* The limit of one request. */
uint64_t check_attempt_time(const struct check_target *target);
uint64_t check_requests_worst(const struct check_target *target);
/* Its numbers are others than those that it has without a profile. */
bool check_target_is_news(const struct check_target *target);

/* ---- values ---- */

/* "5s", "1m30s", "PT5S", "250ms", "1.5s"; a number alone counts bare_ns. False = is no duration. */
bool check_duration(struct rea_slice text, uint64_t bare_ns, uint64_t *ret_ns);
/* Digits with at most one point. */
bool check_decimal(struct rea_slice text, double *ret_value);
/* "1.5 s", "40 ms", "no limit". */
const char *check_time_text(struct check *check, uint64_t ns);
struct rea_slice check_trim(struct rea_slice text);
/* The next of the words between separators; false = none is left. */
bool check_word(struct rea_slice *rest, const char *separators, struct rea_slice *ret_word);
static inline bool check_is(struct rea_slice text, const char *word)
{
	return rea_slice_equal_nocase(text, rea_slice_of(word));
}
bool check_contains(struct rea_slice text, const char *word);
static inline bool check_is_one_of(char c, const char *set)
{
	return c != '\0' && strchr(set, c) != NULL;
}

/* ---- findings ---- */

/* A contract among the files declares every write of that service to be repeatable. service: canonical. */
bool check_writes_declared(const struct check *check, const char *service);

/* What a rule found. The same thing found twice is told once. Returns NULL when it was told already, or memory has run out. */
struct check_finding *check_find(struct check *check, const char *rule, enum check_severity severity,
    struct check_place place, const char *subject, const char *message, const char *instead);
/* Correct: the text that begins at a place and reads `old`. */
void check_correct(
    struct check *check, struct check_finding *finding, struct check_place place, const char *old, const char *new);
/* Correct: put '#' before these lines. */
void check_comment_out(
    struct check *check, struct check_finding *finding, const struct check_file *file, uint32_t first, uint32_t last);
/* Correct: a line below that of the place, indented as it is. */
void check_line_below(struct check *check, struct check_finding *finding, struct check_place place, const char *text);

/* ---- readers: each adds its targets to the app of the file. Return 0, or an error with info filled. ---- */

int check_read_spring(struct check *check, struct check_file *file, struct rea_error_info *info);
int check_read_rea(struct check *check, struct check_file *file, struct rea_error_info *info);
int check_read_mesh(struct check *check, struct check_file *file, struct rea_error_info *info); /* Istio and Envoy */
int check_read_grpc(struct check *check, struct check_file *file, struct rea_error_info *info);
int check_read_nginx(struct check *check, struct check_file *file, struct rea_error_info *info);
int check_read_haproxy(struct check *check, struct check_file *file, struct rea_error_info *info);
/* Spring's targets need all documents of an application, so they come at the end. */
void check_spring(struct check *check, struct check_app *app);

__attribute__((format(printf, 5, 6))) int check_refuse(struct rea_error_info *info, const struct check_file *file,
    int error, struct check_place place, const char *format, ...);

/* ---- rules ---- */

struct check_rule {
	const char *id;
	enum check_severity severity; /* of the worst that it finds */
	const char *title;
	const char *why;
};

extern const struct check_rule check_rules[];
extern const size_t check_rules_len;

/* The rules that look at the model alone. */
void check_rules_run(struct check *check);
/* How many requests a chain comes to, for reports and rules. */
/* "orders by its client (every other), as nothing of it is named users". */
const char *check_chain_hop(struct check *check, const struct check_chain *chain, size_t hop);
uint64_t check_chain_requests(const struct check_chain *chain, enum check_failure failure, enum check_method method);

#endif
