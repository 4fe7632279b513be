#include "serve/sinks.h"

#include "base/container.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- what the database has to say ---- */

static void keep_notice(struct sinks *sinks, const char *text)
{
	struct rea_event event = {.type = REA_EVENT_CONFIG,
	    .time_unix_ns = loop_wall_ns(sinks->loop),
	    .attempt_start_ns = loop_now(sinks->loop),
	    .time_ns = loop_now(sinks->loop),
	    .detail = {text, strlen(text)}};

	sinks_keep(sinks, &event);
}

static void tell_failing(struct sinks *sinks, const struct rea_event_sqlite_status *status)
{
	if (status->failing && !sinks->sqlite_failing)
		fprintf(stderr, "rea: events cannot be written to events.sqlite: %s; they wait in memory, then are dropped\n",
		    status->message);
	else if (!status->failing && sinks->sqlite_failing)
		fprintf(stderr, "rea: events are written to events.sqlite again\n");
	sinks->sqlite_failing = status->failing;
	if (status->set_aside > sinks->set_aside)
		fprintf(stderr, "rea: events.sqlite: %s\n", status->message);
	sinks->set_aside = status->set_aside;
}

/* One event when it begins to drop, and one with the number when that is over: a timeline with a hole says so. */
static void tell_dropping(struct sinks *sinks, const struct rea_event_sqlite_status *status)
{
	bool drops = status->dropped > sinks->sqlite_dropped;
	char text[96];

	if (drops && !sinks->sqlite_dropping) {
		sinks->sqlite_dropping = true;
		keep_notice(sinks, "events.sqlite does not keep up: events are left out of it");
	} else if (!drops && sinks->sqlite_dropping && !status->failing && status->waiting == 0) {
		sinks->sqlite_dropping = false;
		snprintf(text, sizeof(text), "events.sqlite takes events again; left out since the start: %" PRIu64,
		    status->dropped);
		keep_notice(sinks, text);
	}
	sinks->sqlite_dropped = status->dropped;
}

static void look(struct sinks *sinks)
{
	struct rea_event_sqlite_status status;

	if (sinks->sqlite == NULL)
		return;
	rea_event_sqlite_status(sinks->sqlite, &status);
	tell_failing(sinks, &status);
	tell_dropping(sinks, &status);
}

static void on_look(struct loop_post *post)
{
	struct sinks *sinks = REA_CONTAINER_OF(post, struct sinks, look);

	atomic_store(&sinks->look_due, false);
	sinks_flush(sinks);
}

/* On the database's thread. */
static void on_wake(void *user_data)
{
	struct sinks *sinks = user_data;

	if (!atomic_exchange(&sinks->look_due, true))
		loop_post(sinks->loop, &sinks->look);
}

/* ---- opening ---- */

static int no_memory(struct rea_error_info *ret_info)
{
	memset(ret_info, 0, sizeof(*ret_info));
	snprintf(ret_info->message, sizeof(ret_info->message), "out of memory");
	return REA_ERR_NOMEM;
}

static int open_database(struct sinks *sinks, const struct rea_config_settings *settings, struct rea_error_info *ret_info)
{
	struct rea_event_sqlite_options options;
	int error;

	rea_event_sqlite_options_init(&options);
	options.path = settings->events.sqlite;
	options.keep_s = UINT64_C(3600) * settings->events.sqlite_retention_hours;
	options.size_max = (uint64_t)settings->events.sqlite_max_mb << 20;
	options.wake = on_wake;
	options.user_data = sinks;
	error = rea_event_sqlite_open(&options, &sinks->sqlite, ret_info);
	if (error != 0)
		return error;
	if (rea_event_sqlite_reader_new(options.path, NULL, &sinks->history) != 0)
		return no_memory(ret_info);
	look(sinks);
	return 0;
}

/* Ids go on where an earlier process stopped, even one that kept no database: whoever followed it resumes here. The clock in microseconds is
 * ahead of any count of events. */
static uint64_t first_id(struct sinks *sinks)
{
	uint64_t clock_us = (uint64_t)loop_wall_ns(sinks->loop) / 1000;

	return sinks->sqlite != NULL ? rea_time_max(clock_us, rea_event_sqlite_next_id(sinks->sqlite)) : clock_us;
}

int sinks_open(
    struct sinks *sinks, struct loop *loop, const struct rea_config_settings *settings, struct rea_error_info *ret_info)
{
	struct follow_options follow = FOLLOW_OPTIONS_DEFAULT;
	int error = 0;

	*sinks = (struct sinks){.loop = loop, .look = {.fn = on_look}};
	if (settings->events.ring > 0 && rea_event_ring_new(settings->events.ring, NULL, &sinks->ring, NULL) != 0)
		return no_memory(ret_info);
	if (settings->events.file != NULL)
		error = rea_event_log_open(settings->events.file, NULL, &sinks->log, ret_info);
	if (error == 0 && settings->events.sqlite != NULL)
		error = open_database(sinks, settings, ret_info);
	if (error != 0)
		return error;
	sinks->next_id = first_id(sinks);
	follow.ring = sinks->ring;
	follow.first_id = sinks->next_id;
	return follow_new(loop, &follow, &sinks->follow) == 0 ? 0 : no_memory(ret_info);
}

void sinks_close(struct sinks *sinks)
{
	uint64_t lost = rea_event_sqlite_close(sinks->sqlite);

	if (lost > 0)
		fprintf(stderr, "rea: %" PRIu64 " events could not be written to events.sqlite and are lost\n", lost);
	rea_event_sqlite_reader_free(sinks->history);
	rea_event_log_close(sinks->log);
	follow_free(sinks->follow);
	rea_event_ring_free(sinks->ring);
}

/* ---- events ---- */

void sinks_keep(struct sinks *sinks, const struct rea_event *event)
{
	struct rea_event numbered = *event;

	numbered.id = sinks->next_id++;
	if (sinks->ring != NULL)
		rea_event_ring_add(sinks->ring, &numbered);
	if (sinks->log != NULL && !rea_event_log_add(sinks->log, &numbered))
		sinks->log_dropped++;
	if (sinks->sqlite != NULL)
		rea_event_sqlite_add(sinks->sqlite, &numbered);
}

/* What the disk does not take waits in memory for a while and then is lost: whoever reads the log must learn it from elsewhere, at once. */
static void flush_log(struct sinks *sinks)
{
	bool failing = sinks->log != NULL && !rea_event_log_flush(sinks->log);

	if (failing != sinks->log_failing)
		fprintf(stderr,
		    failing ? "rea: events cannot be written to events.file; they wait in memory, then are dropped\n"
			    : "rea: events are written to events.file again\n");
	sinks->log_failing = failing;
}

void sinks_flush(struct sinks *sinks)
{
	look(sinks);
	flush_log(sinks);
	follow_events(sinks->follow);
}

int sinks_reopen(struct sinks *sinks, struct rea_error_info *ret_info)
{
	return sinks->log != NULL ? rea_event_log_reopen(sinks->log, ret_info) : 0;
}

bool sinks_trouble(const struct sinks *sinks, int index, char *ret_text, size_t size)
{
	struct rea_event_sqlite_status status = {.failing = false};

	if (sinks->sqlite != NULL)
		rea_event_sqlite_status(sinks->sqlite, &status);
	if (status.failing && index == 0)
		snprintf(ret_text, size, "events: they cannot be written to events.sqlite: %s", status.message);
	else if (sinks->log_failing && index == status.failing)
		snprintf(ret_text, size, "events: they cannot be written to events.file");
	else
		return false;
	return true;
}

static void write_metric(
    struct rea_prometheus *out, const char *name, enum rea_metric_type type, const char *help, uint64_t value)
{
	rea_prometheus_family(out, name, type, help);
	rea_prometheus_sample(out, name, NULL, 0, (double)value);
}

void sinks_metrics(struct sinks *sinks, struct rea_prometheus *out)
{
	struct rea_event_sqlite_status status = {.failing = false};

	if (sinks->sqlite != NULL)
		rea_event_sqlite_status(sinks->sqlite, &status);
	write_metric(out, "rea_event_log_dropped_total", REA_METRIC_COUNTER,
	    "Events that could not be written to events.file.", sinks->log_dropped);
	write_metric(out, "rea_event_sqlite_written_total", REA_METRIC_COUNTER, "Events written to events.sqlite.",
	    status.written);
	write_metric(out, "rea_event_sqlite_dropped_total", REA_METRIC_COUNTER,
	    "Events that were not written to events.sqlite because too many waited.", status.dropped);
	write_metric(out, "rea_event_sqlite_waiting", REA_METRIC_GAUGE,
	    "Events that wait to be written to events.sqlite.", status.waiting);
	write_metric(out, "rea_event_sqlite_failing", REA_METRIC_GAUGE,
	    "1 while events cannot be written to events.sqlite.", status.failing);
	write_metric(out, "rea_event_sqlite_failures_total", REA_METRIC_COUNTER,
	    "Writes to events.sqlite that failed; what they had waits.", status.failures);
	write_metric(out, "rea_event_sqlite_removed_total", REA_METRIC_COUNTER,
	    "Events removed from events.sqlite for their age or its size.", status.removed);
	write_metric(out, "rea_event_sqlite_set_aside_total", REA_METRIC_COUNTER,
	    "Damaged databases that were set aside.", status.set_aside);
	follow_metrics(sinks->follow, out);
}
