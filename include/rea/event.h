/*
 * Events: one record per attempt that failed or followed a failure (DESIGN.md section 8), and where they go.
 *
 * A thread pushes records into its own queue and never waits; one reader drains the queues into sinks. A full queue
 * drops and counts.
 */
#ifndef REA_EVENT_H
#define REA_EVENT_H

#include <rea/alloc.h>
#include <rea/call.h>
#include <rea/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, "Name") */
#define REA_EVENT_TYPE_MAP(X)        \
	X(RETRY, "Retry")            \
	X(SUCCESS, "Success")        \
	X(GIVE_UP, "GiveUp")         \
	X(WOULD_RETRY, "WouldRetry") \
	X(REPLAY, "Replay")          \
	X(BREAKER, "Breaker")        \
	X(CONFIG, "Config")

enum rea_event_type {
#define X(name, text) REA_EVENT_##name,
	REA_EVENT_TYPE_MAP(X)
#undef X
	    REA_EVENT_TYPE_COUNT
};

/* Text that is not terminated and not owned. text may be NULL with length 0. */
struct rea_text {
	const char *text;
	size_t length;
};

/* Longer texts are cut to this in records, at a UTF-8 boundary. */
#define REA_EVENT_TEXT_MAX 256

struct rea_event {
	uint64_t id; /* given by whoever collects the events of all threads: 1 or more, each greater than the one before; 0 = none */
	enum rea_event_type type;
	int64_t time_unix_ns;      /* wall clock of the decision */
	uint64_t attempt_start_ns; /* monotonic; orders and spaces a timeline */
	uint64_t time_ns;          /* monotonic, of the decision */
	struct rea_text call_id;   /* or task id */
	struct rea_text biz_id;
	struct rea_text key; /* Idempotency-Key */
	struct rea_text trace_id;
	struct rea_text service;
	struct rea_text method;   /* method key, or "" when no operation matched */
	struct rea_text instance; /* ip:port; "" = none */
	struct rea_text evidence; /* budget_exhausted, parked: what the budget saw, "latency 2.3x baseline, tokens 0" */
	struct rea_text detail; /* Config, Breaker: what changed; a call: "GET /users/42", the method and path without query */
	uint32_t attempt;
	uint32_t attempts_max;
	enum rea_outcome outcome;
	enum rea_code_kind code_kind;
	uint32_t code;
	uint64_t cost_ns; /* of the attempt */
	bool retryable;
	uint64_t next_delay_ns; /* Retry, WouldRetry */
	enum rea_verdict verdict;
	enum rea_reason reason;
	struct rea_grant grant;
};

/* What a budget saw, as an event tells it: "latency 2.3x baseline, tokens 0"; "" for NONE. Writes at most size bytes with the terminator; returns the
 * length it would have had without it, less than REA_EVIDENCE_TEXT_MAX. */
#define REA_EVIDENCE_TEXT_MAX 96
REA_API size_t rea_evidence_format(const struct rea_evidence *evidence, char *ret_text, size_t size);

/* ---- queue: one writing thread, one reading thread, lock-free ---- */
struct rea_event_queue;
/* bytes: capacity, a power of two >= 4096. Memory is used as it fills. alloc may be NULL. Returns 0, REA_ERR_NOMEM, or REA_ERR_INVALID with key
 * and message in ret_info (may be NULL). */
REA_API int rea_event_queue_new(
    size_t bytes, const struct rea_alloc *alloc, struct rea_event_queue **ret_queue, struct rea_error_info *ret_info);
REA_API void rea_event_queue_free(struct rea_event_queue *queue); /* NULL is fine */
/* Copies the event. False when full: counted as dropped. Writer. */
REA_API bool rea_event_queue_push(struct rea_event_queue *queue, const struct rea_event *event);
/* The oldest record; its texts are borrowed until rea_event_queue_pop. False when empty. Reader. */
REA_API bool rea_event_queue_peek(struct rea_event_queue *queue, struct rea_event *ret_event);
REA_API void rea_event_queue_pop(struct rea_event_queue *queue);
/* The same beyond the oldest: begin with *position 0, which then names the record that follows. Nothing is taken away. */
REA_API bool rea_event_queue_next(struct rea_event_queue *queue, uint64_t *position, struct rea_event *ret_event);
/* Take away what stands before a position that rea_event_queue_next gave; 0 is nothing. */
REA_API void rea_event_queue_pop_until(struct rea_event_queue *queue, uint64_t position);
/* Any thread. written: pushed with success, ever. */
REA_API uint64_t rea_event_queue_written(const struct rea_event_queue *queue);
REA_API uint64_t rea_event_queue_dropped(const struct rea_event_queue *queue);

/* ---- JSON: one object on one line, without the newline ---- */
#define REA_EVENT_JSON_MAX 16384
/* Returns the length, always < size for size >= REA_EVENT_JSON_MAX; with a smaller size the text is cut, terminated,
 * and the length is that of the whole. Invalid UTF-8 becomes U+FFFD. Fields that say nothing are left out. */
REA_API size_t rea_event_json(const struct rea_event *event, char *ret_json, size_t size);
/* A text as a JSON string with its quotes, made valid UTF-8; control characters are escaped. Cut and counted in the
 * same way: size > 6 · length + 2 always holds it. */
REA_API size_t rea_json_string(const char *text, size_t length, char *ret_json, size_t size);

/* ---- ring: the latest events in memory, with an index by biz_id; one thread at a time ---- */
struct rea_event_ring;
/* events: 0..1000000; 0 keeps none. Memory is used as it fills. alloc may be NULL. Returns 0, REA_ERR_NOMEM, or REA_ERR_INVALID with key and
 * message in ret_info (may be NULL). */
REA_API int rea_event_ring_new(
    size_t events, const struct rea_alloc *alloc, struct rea_event_ring **ret_ring, struct rea_error_info *ret_info);
REA_API void rea_event_ring_free(struct rea_event_ring *ring); /* NULL is fine */
/* Copies; the oldest gives way. REA_ERR_NOMEM changes nothing. */
REA_API int rea_event_ring_add(struct rea_event_ring *ring, const struct rea_event *event);
/* Events of one biz_id, or all with biz_id.length 0, oldest first by start time. each returns false to stop. Events
 * are borrowed until the ring takes the next; each must not ask it again. Allocates nothing. */
REA_API void rea_event_ring_each(const struct rea_event_ring *ring, struct rea_text biz_id,
    bool (*each)(const struct rea_event *event, void *user_data), void *user_data);
/* Events with an id greater than after, in order of arrival; otherwise as rea_event_ring_each. */
REA_API void rea_event_ring_since(const struct rea_event_ring *ring, uint64_t after,
    bool (*each)(const struct rea_event *event, void *user_data), void *user_data);
/* The id of the oldest event, of the newest; 0: the ring is empty. */
REA_API uint64_t rea_event_ring_oldest(const struct rea_event_ring *ring);
REA_API uint64_t rea_event_ring_newest(const struct rea_event_ring *ring);
REA_API size_t rea_event_ring_count(const struct rea_event_ring *ring);

/* ---- a timeline a person can read: offsets, attempt, instance, outcome, wait, verdict, reason ---- */
/* Writes lines for the events of one biz_id (as rea_event_ring_each hands them) through write. */
struct rea_timeline {
	void (*write)(const char *text, size_t length, void *user_data);
	void *user_data;
	bool color;
	uint64_t base_ns; /* private */
	uint32_t lines;   /* private; 0 = start */
	char call_id[64]; /* private */
};
REA_API void rea_timeline_begin(
    struct rea_timeline *timeline, void (*write)(const char *text, size_t length, void *user_data), void *user_data);
REA_API void rea_timeline_event(struct rea_timeline *timeline, const struct rea_event *event);

/* ---- log: JSON lines to a file ---- */
struct rea_event_log;
/* path: copied; "-" is standard output. Opens for append, mode 0640. Returns 0, REA_ERR_NOMEM or REA_ERR_IO with
 * ret_info. */
REA_API int rea_event_log_open(
    const char *path, const struct rea_alloc *alloc, struct rea_event_log **ret_log, struct rea_error_info *ret_info);
REA_API void rea_event_log_close(struct rea_event_log *log); /* NULL is fine */
/* Buffers; a full buffer is flushed. False when the line was dropped (disk full, unwritable): counted. A line is
 * written whole or not at all. A pipe or terminal that does not take bytes now is not waited for. */
REA_API bool rea_event_log_add(struct rea_event_log *log, const struct rea_event *event);
/* False: something could not be written and stays in the buffer for the next time. */
REA_API bool rea_event_log_flush(struct rea_event_log *log);
/* After a rotation: open the path anew. On failure the old file stays. */
REA_API int rea_event_log_reopen(struct rea_event_log *log, struct rea_error_info *ret_info);
REA_API uint64_t rea_event_log_dropped(const struct rea_event_log *log);

/* Is this its biz_id? Of one that is longer than records keep, only what they keep counts. */
REA_API bool rea_event_is_of(const struct rea_event *event, struct rea_text biz_id);
/* Puts ns since 1970 in the place of both monotonic times, as far apart as they are: to compare events of several boots. */
REA_API void rea_event_use_wall_clock(struct rea_event *event);
/* "Retry", …; "unknown" when out of range. Static. */
REA_API const char *rea_event_type_name(enum rea_event_type type);
/* The value called name (length bytes), or -1. */
REA_API int rea_event_type_parse(const char *name, size_t length);

#ifdef __cplusplus
}
#endif
#endif
