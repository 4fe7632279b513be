/*
 * Where events go once they are collected: the ring, the log, the database, and whoever follows them. One thread, the loop's.
 */
#ifndef REA_SRC_SERVE_SINKS_H
#define REA_SRC_SERVE_SINKS_H

#include "admin/follow.h"
#include "loop/loop.h"

#include <rea/config.h>
#include <rea/event.h>
#include <rea/event_sqlite.h>
#include <rea/metrics.h>

#include <stdatomic.h>

struct sinks {
	struct loop *loop;
	struct rea_event_ring *ring; /* NULL = none, like the others */
	struct rea_event_log *log;
	struct rea_event_sqlite *sqlite;
	struct rea_event_sqlite_reader *history;
	struct follow *follow;
	uint64_t next_id;
	uint64_t log_dropped;
	bool log_failing; /* told, and not over yet */
	bool sqlite_failing;
	bool sqlite_dropping;
	uint64_t sqlite_dropped; /* when that was told */
	uint64_t set_aside;
	struct loop_post look;
	atomic_bool look_due;
};

/* As the settings say. Returns 0, or REA_ERR_NOMEM, REA_ERR_IO, … with ret_info; sinks_close in any case. */
int sinks_open(struct sinks *sinks, struct loop *loop, const struct rea_config_settings *settings,
    struct rea_error_info *ret_info);
/* Writes what waits, as far as it can, and tells what was lost. No follower is open any more. */
void sinks_close(struct sinks *sinks);
/* Takes an event, and gives it its id. */
void sinks_keep(struct sinks *sinks, const struct rea_event *event);
/* After a batch of them. */
void sinks_flush(struct sinks *sinks);
/* The log was rotated. */
int sinks_reopen(struct sinks *sinks, struct rea_error_info *ret_info);
/* The index-th thing that keeps events from being written. False: there is none. */
bool sinks_trouble(const struct sinks *sinks, int index, char *ret_text, size_t size);
void sinks_metrics(struct sinks *sinks, struct rea_prometheus *out);

#endif
