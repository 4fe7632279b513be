/*
 * Events in one SQLite file (librea-sqlite): what became of a business request can still be told after a restart, for as long as it is kept.
 *
 * Adding copies into a queue and never waits; a thread of the sink's own writes. What the disk does not take stays in the queue; when that is
 * full, events are dropped and counted. Whatever befalls the file, the sink goes on by itself: it tries again, or, when the file is damaged,
 * sets it aside and begins a new one. A power cut takes the last seconds; no other event is lost or there twice.
 */
#ifndef REA_EVENT_SQLITE_H
#define REA_EVENT_SQLITE_H

#include <rea/alloc.h>
#include <rea/error.h>
#include <rea/event.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rea_event_sqlite;

struct rea_event_sqlite_options {
	uint32_t version;              /* set by rea_event_sqlite_options_init */
	const struct rea_alloc *alloc; /* default NULL = malloc; copied; must bear calls from several threads */
	const char *path;              /* beside it stand PATH-wal, PATH-shm, PATH-lock. Copied; no default */
	const char *vfs;               /* a registered sqlite3_vfs; default NULL = SQLite's own. Copied */
	uint64_t keep_s;               /* older events go; 60..315360000 (ten years), default 604800 (a week) */
	uint64_t size_max; /* bytes of the database; at 7/8 of it the oldest go; 8 MiB..1 TiB, default 1 GiB */
	size_t queue_bytes; /* waiting events, a power of two 16 KiB..64 MiB, default 4 MiB; memory is used as it fills */
	/* rea_event_sqlite_status has changed its mind about failing, or a file was set aside. From the sink's thread; only passes the news on.
	 * Default NULL. */
	void (*wake)(void *user_data);
	void *user_data;
};
#define REA_EVENT_SQLITE_OPTIONS_VERSION 1
REA_API void rea_event_sqlite_options_init(struct rea_event_sqlite_options *options);

/* options: copied. Makes the file if there is none, brings an older schema up to date. A damaged file is set aside as PATH.damaged-N, which
 * rea_event_sqlite_status tells; a disk that is full or fails now is tried again later. Returns 0, or with ret_info (may be NULL):
 * REA_ERR_INVALID (an option; a database of another program; a schema newer than this library), REA_ERR_BUSY (another process has it open),
 * REA_ERR_IO (the path cannot be opened or made), REA_ERR_NOMEM. */
REA_API int rea_event_sqlite_open(const struct rea_event_sqlite_options *options, struct rea_event_sqlite **ret_sink,
    struct rea_error_info *ret_info);
/* Writes what is queued, as far as the disk takes it, and frees. Returns how many events that were added are not in the file for want of that;
 * they are not counted as dropped. NULL: 0. */
REA_API uint64_t rea_event_sqlite_close(struct rea_event_sqlite *sink);

/* Copies the event, whose id (1..INT64_MAX) tells it from all others of this file: of two with one id the first stays. False: the queue is
 * full, and the event is counted as dropped. One thread at a time. */
REA_API bool rea_event_sqlite_add(struct rea_event_sqlite *sink, const struct rea_event *event);
/* Greater than the id of every event that was in the file at opening; 1 for an empty one, or when that could not be read yet. */
REA_API uint64_t rea_event_sqlite_next_id(const struct rea_event_sqlite *sink);

struct rea_event_sqlite_status {
	bool failing; /* the disk does not take events: they wait, then are dropped; tried again every few seconds */
	char message[256]; /* the latest failure, or which file was set aside; "" = none */
	uint64_t written;  /* events, ever: added = written + waiting; add has refused `dropped` */
	uint64_t waiting;
	uint64_t dropped;
	uint64_t removed;   /* for age or size, ever */
	uint64_t failures;  /* transactions that failed */
	uint64_t set_aside; /* damaged files */
};
/* Any thread. */
REA_API void rea_event_sqlite_status(struct rea_event_sqlite *sink, struct rea_event_sqlite_status *ret_status);

/* ---- reads: on a connection of their own, in this process or another one ---- */

struct rea_event_sqlite_reader;
/* path: copied. Opens nothing yet. Returns 0 or REA_ERR_NOMEM. */
REA_API int rea_event_sqlite_reader_new(
    const char *path, const struct rea_alloc *alloc, struct rea_event_sqlite_reader **ret_reader);
REA_API void rea_event_sqlite_reader_free(struct rea_event_sqlite_reader *reader); /* NULL is fine */

#define REA_EVENT_SQLITE_PAGE_MAX 10000
struct rea_event_page {
	const struct rea_event *events; /* the latest, oldest of them first, by id */
	size_t events_len;
	uint64_t left_out; /* older ones */
	uint64_t damaged;  /* rows that could not be read, and are not among the events */
	/* They tell of more than the boot that runs now. Monotonic times of several boots do not compare: then attempt_start_ns and time_ns
	 * are taken from the wall clock, as by rea_event_use_wall_clock. */
	bool wall_clock;
};
/* Events of one biz_id (not empty) with an id below before_id (REA_NEVER: all); max: 1..REA_EVENT_SQLITE_PAGE_MAX. What is handed out is borrowed
 * until the next call on the reader. Returns 0, or with ret_info (may be NULL): REA_ERR_INVALID (an argument; no file of ours), REA_ERR_NOT_FOUND
 * (there is no file), REA_ERR_CORRUPT, REA_ERR_IO or REA_ERR_NOMEM. A file that was set aside and begun anew is opened anew. */
REA_API int rea_event_sqlite_read(struct rea_event_sqlite_reader *reader, struct rea_text biz_id, uint64_t before_id,
    size_t max, struct rea_event_page *ret_page, struct rea_error_info *ret_info);

#ifdef __cplusplus
}
#endif
#endif
