/*
 * Every source is in one of three states:
 *
 *   UNKNOWN ──▶ ABSENT ◀──▶ PRESENT
 *      └──────────────────────▲
 *
 * UNKNOWN  nothing has been heard of it. When its servers fail at the start, its snapshot, if there is one, makes it PRESENT; when a server refuses us,
 *          nothing does: whoever is not let in is not told that yesterday's policy still holds.
 * ABSENT   the server, or the directory, says that there is no such document
 * PRESENT  text is the document. A server that fails later changes nothing of that.
 *
 * As long as the failover file of a source is there, it is what the source has.
 *
 * Documents of Kitex are no rivals of these: each that is there is in force, for its own service, and is told in a bundle with the others.
 *
 * A document that the program refuses is remembered by its hash, so that it is told once; the file on disk is written only for documents that were taken.
 */
#include "discovery/sources.h"

#include "base/buffer.h"
#include "base/container.h"
#include "base/hash.h"
#include "discovery/etcd.h"
#include "discovery/kept.h"
#include "discovery/nacos.h"
#include "discovery/watch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* At the start nobody waits longer than this for servers. */
#define SETTLE_NS (5 * REA_NS_PER_S)
#define CONNECTIONS_KEPT 16L
#define LINE_SIZE 640
#define AGE_SIZE 40

enum state { UNKNOWN, ABSENT, PRESENT };

/* What can go wrong with a source, as a metric tells it. */
enum trouble { UNREACHABLE, DENIED, REFUSED, TROUBLES };
static const char *const trouble_names[] = {[UNREACHABLE] = "unreachable", [DENIED] = "denied", [REFUSED] = "refused"};

struct source {
	struct sources *sources;
	const struct rea_config_source *spec;
	char *name;
	char *kept; /* path; NULL = nothing is kept */
	enum state state;
	struct rea_buffer text; /* of PRESENT */
	char from[LINE_SIZE / 2];
	bool settled;
	struct watch *watch; /* the file, or the failover file */
	bool has_failover;
	struct rea_buffer failover;
	struct nacos *nacos;
	struct etcd *etcd;
	bool fresh;            /* text is from the server, and not kept since */
	bool troubled, denied; /* told last */
	uint64_t errors[TROUBLES];
	int64_t heard_unix_ns; /* when it last said what it has; of a snapshot, when that was kept; 0 = never */
	uint64_t kept_hash;    /* of what stands in the file; 0 = not known */
	bool kept_failing;
	/* A document of Kitex, which is in force beside the others: */
	bool taken; /* good is */
	struct rea_buffer good;
	uint64_t refused_hash; /* as below */
};

struct sources {
	struct loop *loop;
	struct sources_events events;
	struct transfers transfers;
	struct source *items;
	size_t len;
	struct wheel_timer settle_timer;
	bool settled;
	struct wheel_timer look_timer; /* the first look at files */
	bool taken_any;                /* a document, or the lack of one, is in force … */
	uint64_t taken_hash;           /* … and which */
	uint64_t refused_hash;         /* of the one that was refused last; 0 = none was */
	bool has_kitex;                /* one of the sources at least … */
	bool has_ours;                 /* … and one that is none */
	char *ruling_name; /* with has_kitex: the document of ours in force, as `document` was told; NULL = none yet */
	struct rea_buffer ruling;
};

static void choose(struct sources *sources);

/* ---- telling ---- */

__attribute__((format(printf, 2, 3))) static void notice(struct source *source, const char *format, ...)
{
	char text[LINE_SIZE], line[LINE_SIZE + 300];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	snprintf(line, sizeof(line), "%s: %s", source->name, text);
	source->sources->events.notice(line, source->sources->events.user_data);
}

static void trouble(struct source *source, const char *text, bool denied)
{
	if (!source->troubled || source->denied != denied)
		notice(source, "%s", text);
	source->troubled = true;
	source->denied = denied;
}

static void well(struct source *source)
{
	if (source->troubled)
		notice(source, "answers again");
	source->troubled = source->denied = false;
}

static const char *age_text(uint64_t age_s, char text[AGE_SIZE])
{
	if (age_s < 120)
		snprintf(text, AGE_SIZE, "%" PRIu64 " s", age_s);
	else if (age_s < 7200)
		snprintf(text, AGE_SIZE, "%" PRIu64 " min", age_s / 60);
	else if (age_s < 172800)
		snprintf(text, AGE_SIZE, "%" PRIu64 " h", age_s / 3600);
	else
		snprintf(text, AGE_SIZE, "%" PRIu64 " days", age_s / 86400);
	return text;
}

/* ---- snapshots ---- */

/* NULL is empty; what is empty has a pointer all the same. */
static struct rea_slice slice_of(const struct rea_buffer *buffer)
{
	const char *data = buffer != NULL ? rea_buffer_data(buffer) : NULL;

	return data != NULL ? rea_slice_make(data, rea_buffer_length(buffer)) : REA_SLICE_LIT("");
}

static void keep(struct source *source)
{
	struct rea_slice text = slice_of(&source->text);
	uint64_t hash = rea_hash(text.data, text.length);
	int failure;

	if (source->kept == NULL || !source->fresh)
		return;
	source->fresh = false;
	if (source->kept_hash == hash) {
		kept_touch(source->kept);
		return;
	}
	failure = kept_write(source->kept, text.data, text.length);
	source->kept_hash = failure == 0 ? hash : 0;
	if (failure != 0 && !source->kept_failing)
		notice(source, "its snapshot %s cannot be written: %s", source->kept, uv_strerror(-failure));
	source->kept_failing = failure != 0;
}

static void forget_kept(struct source *source)
{
	source->kept_hash = 0;
	if (source->kept != NULL)
		kept_remove(source->kept);
}

/* False: there is none. */
static bool take_snapshot(struct source *source, const char *why)
{
	struct rea_buffer content = {.alloc = NULL};
	char age[AGE_SIZE];
	uint64_t age_s = 0;
	int failure =
	    source->kept != NULL
		? kept_read(source->kept, loop_wall_ns(source->sources->loop) / (int64_t)REA_NS_PER_S, &content, &age_s)
		: ENOENT;

	if (failure != 0) {
		rea_buffer_fini(&content);
		return false;
	}
	rea_buffer_fini(&source->text);
	source->text = content;
	source->state = PRESENT;
	source->fresh = false;
	source->heard_unix_ns = loop_wall_ns(source->sources->loop) - (int64_t)(age_s * REA_NS_PER_S);
	snprintf(source->from, sizeof(source->from), "its snapshot, %s old: %s", age_text(age_s, age), why);
	return true;
}

/* ---- what a server tells ---- */

static void settle(struct source *source)
{
	source->settled = true;
	choose(source->sources);
}

static void on_present(const char *text, size_t length, const char *server, void *user_data)
{
	struct source *source = user_data;
	bool same = source->state == PRESENT && rea_slice_equal(slice_of(&source->text), rea_slice_make(text, length));

	well(source);
	source->heard_unix_ns = loop_wall_ns(source->sources->loop);
	if (!same) {
		struct rea_buffer copy = {.alloc = NULL};

		if (rea_buffer_append(&copy, text, length) != 0) {
			rea_buffer_fini(&copy);
			trouble(source, "out of memory: its document stays as it was", false);
			return;
		}
		rea_buffer_fini(&source->text);
		source->text = copy;
		source->state = PRESENT;
	}
	snprintf(source->from, sizeof(source->from), "%s", server);
	source->fresh = true;
	settle(source);
}

static void on_absent(const char *server, void *user_data)
{
	struct source *source = user_data;

	well(source);
	source->heard_unix_ns = loop_wall_ns(source->sources->loop);
	if (source->state != ABSENT)
		notice(source, "%s has no such document", server);
	source->state = ABSENT;
	rea_buffer_clear(&source->text);
	forget_kept(source);
	settle(source);
}

static void on_failed(const char *why, bool denied, void *user_data)
{
	struct source *source = user_data;

	trouble(source, why, denied);
	source->errors[denied ? DENIED : UNREACHABLE]++;
	/* Once settled without a word from a server, a snapshot would be a step back. */
	if (source->state == UNKNOWN && !denied && !source->settled)
		take_snapshot(source, why);
	settle(source);
}

static void on_notice(const char *text, void *user_data)
{
	notice(user_data, "%s", text);
}

/* ---- files ---- */

static void on_file(const char *text, size_t length, const struct rea_error_info *error, void *user_data)
{
	struct source *source = user_data;

	if (text != NULL)
		on_present(text, length, "the file", source);
	else if (access(source->spec->name, F_OK) != 0 && errno == ENOENT)
		on_absent("the directory", source);
	else
		on_failed(error->message, false, source);
}

static void on_failover(const char *text, size_t length, const struct rea_error_info *error, void *user_data)
{
	struct source *source = user_data;
	bool had = source->has_failover;

	(void)error;
	rea_buffer_clear(&source->failover);
	source->has_failover = text != NULL && rea_buffer_append(&source->failover, text, length) == 0;
	if (source->has_failover && !had)
		notice(source, "the failover file %s holds in place of what the servers say", source->spec->failover_file);
	else if (had && !source->has_failover)
		notice(source, "the failover file %s is gone: what the servers say holds again", source->spec->failover_file);
	choose(source->sources);
}

/* ---- which one holds ---- */

static enum state state_of(const struct source *source)
{
	return source->has_failover ? PRESENT : source->state;
}

static const char bundle_mark = REA_CONFIG_BUNDLE;

/* One document more for the text that is told; see rea_config_with_policy. */
static int bundle(struct rea_buffer *text, const char *name, struct rea_slice content)
{
	char head[32];
	int length = snprintf(head, sizeof(head), "%zu ", content.length);
	int error = rea_buffer_append(text, head, (size_t)length);

	if (error == 0)
		error = rea_buffer_append(text, name, strlen(name));
	if (error == 0)
		error = rea_buffer_append(text, "\n", 1);
	return error == 0 ? rea_buffer_append(text, content.data, content.length) : error;
}

/* The document of ours, if there is one, and what is in force of Kitex; next, which may be NULL, with the text it has now. */
static int bundle_all(struct rea_buffer *text, const struct sources *sources, const char *name,
    struct rea_slice content, const struct source *next)
{
	int error = rea_buffer_append(text, &bundle_mark, 1);

	if (error == 0 && name != NULL)
		error = bundle(text, name, content);
	for (size_t i = 0; i < sources->len && error == 0; i++) {
		const struct source *source = &sources->items[i];

		if (source == next && state_of(source) == PRESENT)
			error =
			    bundle(text, source->name, slice_of(source->has_failover ? &source->failover : &source->text));
		else if (source != next && source->taken)
			error = bundle(text, source->name, slice_of(&source->good));
	}
	return error;
}

static bool tell_document(struct sources *sources, const char *name, struct rea_slice content, const char *from)
{
	const struct sources_document document = {.name = name, .text = content.data, .length = content.length, .from = from};

	return sources->events.document(&document, sources->events.user_data);
}

/* Remember what is told of ours, for the bundles to come. */
static bool rule(struct sources *sources, const char *name, struct rea_slice content)
{
	char *copy = strdup(name);
	struct rea_buffer text = {.alloc = NULL};

	if (copy == NULL || rea_buffer_append(&text, content.data, content.length) != 0) {
		free(copy);
		rea_buffer_fini(&text);
		return false;
	}
	free(sources->ruling_name);
	rea_buffer_fini(&sources->ruling);
	sources->ruling_name = copy;
	sources->ruling = text;
	return true;
}

/* A document of ours, with what is in force of Kitex below it. */
static bool tell_ours(struct sources *sources, const char *name, struct rea_slice content, const char *from)
{
	struct rea_buffer text = {.alloc = NULL};
	bool taken;

	if (!sources->has_kitex)
		return tell_document(sources, name, content, from);
	taken = bundle_all(&text, sources, name, content, NULL) == 0 &&
		tell_document(sources, name, slice_of(&text), from) && rule(sources, name, content);
	rea_buffer_fini(&text);
	return taken;
}

/* Returns whether this is in force now. ret_refused: counts a document that is refused for the first time; may be NULL. */
static bool tell(
    struct sources *sources, const char *name, const struct rea_buffer *text, const char *from, uint64_t *ret_refused)
{
	const struct rea_slice content = slice_of(text);
	uint64_t hash = rea_hash_more(rea_hash(name, strlen(name)), content.data, content.length);

	if (sources->taken_any && sources->taken_hash == hash)
		return true;
	if (sources->refused_hash == hash)
		return false;
	if (!tell_ours(sources, name, content, from)) {
		sources->refused_hash = hash;
		if (ret_refused != NULL)
			(*ret_refused)++;
		return false;
	}
	sources->taken_any = true;
	sources->taken_hash = hash;
	return true;
}

static void tell_source(struct sources *sources, struct source *source)
{
	char from[LINE_SIZE / 2];

	if (source->has_failover) {
		snprintf(from, sizeof(from), "failover file %s", source->spec->failover_file);
		tell(sources, source->name, &source->failover, from, &source->errors[REFUSED]);
		return;
	}
	if (tell(sources, source->name, &source->text, source->from, &source->errors[REFUSED]))
		keep(source);
	/* At the start there is no last good document but the one on disk. */
	else if (!sources->taken_any && take_snapshot(source, "what the server has is refused"))
		tell(sources, source->name, &source->text, source->from, &source->errors[REFUSED]);
}

static bool all_settled(const struct sources *sources)
{
	for (size_t i = 0; i < sources->len; i++)
		if (!sources->items[i].settled && !sources->items[i].has_failover)
			return false;
	return true;
}

/* Of ours: the first that is there. */
static void choose_ours(struct sources *sources)
{
	struct source *source = sources->items, *end = sources->items + sources->len;

	while (source < end && (source->spec->kitex || state_of(source) == ABSENT))
		source++;
	if (source < end && state_of(source) == PRESENT)
		tell_source(sources, source);
	/* One that has not spoken: what is in force stays. */
	if (source == end)
		tell(sources, "", NULL, "no source has a document", NULL);
	else if (!sources->taken_any)
		tell(sources, "", NULL,
		    state_of(source) == PRESENT ? "its document is refused" : "nothing is known of it", NULL);
}

/* With the text that this one has now, or without it. */
static bool tell_with(struct source *source, const char *from)
{
	struct sources *sources = source->sources;
	struct rea_buffer text = {.alloc = NULL};
	bool taken = bundle_all(&text, sources, sources->ruling_name, slice_of(&sources->ruling), source) == 0 &&
		     tell_document(sources, source->name, slice_of(&text), from);

	rea_buffer_fini(&text);
	return taken;
}

/* One of Kitex: all that are there are in force, each for its own service. What is refused leaves the last good one. */
static void adopt(struct source *source)
{
	struct rea_slice text = slice_of(source->has_failover ? &source->failover : &source->text);
	uint64_t hash = rea_hash(text.data, text.length);
	char from[LINE_SIZE];

	if (state_of(source) == UNKNOWN)
		return;
	if (state_of(source) == ABSENT) {
		if (source->taken && tell_with(source, "it is gone")) {
			source->taken = false;
			rea_buffer_clear(&source->good);
		}
		return;
	}
	if (source->taken && rea_slice_equal(slice_of(&source->good), text)) {
		if (!source->has_failover)
			keep(source);
		return;
	}
	if (source->refused_hash == hash)
		return;
	snprintf(from, sizeof(from), "%s%s", source->has_failover ? "failover file " : "",
	    source->has_failover ? source->spec->failover_file : source->from);
	if (tell_with(source, from)) {
		source->sources->taken_any = true;
		rea_buffer_clear(&source->good);
		source->taken = rea_buffer_append(&source->good, text.data, text.length) == 0;
		if (!source->has_failover)
			keep(source);
	} else {
		source->refused_hash = hash;
		source->errors[REFUSED]++;
		/* As of ours: at the start the last good one is on disk. */
		if (!source->taken && !source->has_failover && source->fresh &&
		    take_snapshot(source, "what the server has is refused"))
			adopt(source);
	}
}

static void choose(struct sources *sources)
{
	if (!sources->settled && !all_settled(sources))
		return;
	if (sources->has_ours)
		choose_ours(sources);
	for (size_t i = 0; i < sources->len; i++)
		if (sources->items[i].spec->kitex)
			adopt(&sources->items[i]);
	/* Of Kitex nothing is known, and of ours nobody was asked. */
	if (!sources->taken_any)
		sources->taken_any = tell_document(sources, "rpc", rea_slice_make(&bundle_mark, 1), "this document alone");
	if (!sources->settled) {
		sources->settled = true;
		loop_timer_stop(sources->loop, &sources->settle_timer);
		sources->events.settled(sources->events.user_data);
	}
}

/* Who has not answered by now is not there. */
static void on_settle_timer(struct wheel_timer *timer, uint64_t now_ns)
{
	struct sources *sources = REA_CONTAINER_OF(timer, struct sources, settle_timer);

	(void)now_ns;
	for (size_t i = 0; i < sources->len; i++)
		if (!sources->items[i].settled)
			on_failed("no answer in time", false, &sources->items[i]);
}

static void on_look_timer(struct wheel_timer *timer, uint64_t now_ns)
{
	(void)now_ns;
	sources_look(REA_CONTAINER_OF(timer, struct sources, look_timer));
}

/* ---- lifetime ---- */

static char *name_of(const struct rea_config_source *spec)
{
	char *name = NULL;
	int length = 0;

	switch (spec->kind) {
	case REA_SOURCE_FILE:
		length = asprintf(&name, "%s", spec->name);
		break;
	case REA_SOURCE_NACOS:
		length = asprintf(&name, "nacos %s/%s/%s",
		    spec->namespace_id[0] != '\0' ? spec->namespace_id : "public", spec->group, spec->name);
		break;
	case REA_SOURCE_ETCD:
		length = asprintf(&name, "etcd %s", spec->name);
		break;
	}
	return length >= 0 ? name : NULL;
}

static int start_source(struct source *source, const char *snapshot_dir)
{
	const struct rea_config_source *spec = source->spec;
	const struct source_events events = {
	    .present = on_present, .absent = on_absent, .failed = on_failed, .notice = on_notice, .user_data = source};
	struct sources *sources = source->sources;
	const char *path = spec->kind == REA_SOURCE_FILE ? spec->name : spec->failover_file;

	source->name = name_of(spec);
	if (source->name == NULL)
		return REA_ERR_NOMEM;
	if (path != NULL && watch_start(sources->loop, path, "", spec->kind == REA_SOURCE_FILE ? on_file : on_failover,
				source, &source->watch) != 0)
		return REA_ERR_NOMEM;
	if (spec->kind == REA_SOURCE_FILE)
		return 0;
	source->kept = snapshot_dir != NULL ? kept_path(snapshot_dir, spec) : NULL;
	if (snapshot_dir != NULL && source->kept == NULL)
		return REA_ERR_NOMEM;
	if (spec->kind == REA_SOURCE_NACOS)
		source->nacos = nacos_start(sources->loop, &sources->transfers, spec, &events);
	else
		source->etcd = etcd_start(sources->loop, &sources->transfers, spec, spec->name, &events);
	return source->nacos != NULL || source->etcd != NULL ? 0 : REA_ERR_NOMEM;
}

struct sources *sources_start(
    struct loop *loop, const struct rea_config_settings *settings, const struct sources_events *events)
{
	struct sources *sources = calloc(1, sizeof(*sources));

	if (sources == NULL)
		return NULL;
	sources->loop = loop;
	sources->events = *events;
	sources->transfers = (struct transfers){.loop = loop, .connections_kept = CONNECTIONS_KEPT};
	sources->settle_timer.fire = on_settle_timer;
	sources->look_timer.fire = on_look_timer;
	sources->items = calloc(settings->sources.policy_len, sizeof(*sources->items));
	for (size_t i = 0; i < settings->sources.policy_len; i++) {
		sources->has_kitex = sources->has_kitex || settings->sources.policy[i].kitex;
		sources->has_ours = sources->has_ours || !settings->sources.policy[i].kitex;
	}
	for (size_t i = 0; sources->items != NULL && i < settings->sources.policy_len; i++) {
		struct source *source = &sources->items[sources->len++];

		source->sources = sources;
		source->spec = &settings->sources.policy[i];
		if (start_source(source, settings->sources.snapshot_dir) != 0) {
			sources_stop(sources);
			return NULL;
		}
	}
	if (sources->items == NULL) {
		free(sources);
		return NULL;
	}
	loop_timer_start(loop, &sources->look_timer, loop_now(loop));
	loop_timer_start(loop, &sources->settle_timer, rea_time_add(loop_now(loop), SETTLE_NS));
	return sources;
}

void sources_look(struct sources *sources)
{
	for (size_t i = 0; i < sources->len; i++)
		if (sources->items[i].watch != NULL)
			watch_look(sources->items[i].watch, true);
}

void sources_again(struct sources *sources)
{
	sources->refused_hash = 0;
	for (size_t i = 0; i < sources->len; i++)
		sources->items[i].refused_hash = 0;
	if (sources->settled)
		choose(sources);
}

/* ---- metrics ---- */

static void write_each(struct rea_prometheus *out, const struct sources *sources, const char *name, const char *help,
    double (*value)(const struct source *source))
{
	rea_prometheus_family(out, name, REA_METRIC_GAUGE, help);
	for (size_t i = 0; i < sources->len; i++) {
		const char *const labels[] = {"source", sources->items[i].name};

		if (sources->items[i].heard_unix_ns != 0)
			rea_prometheus_sample(out, name, labels, 2, value(&sources->items[i]));
	}
}

static double last_success(const struct source *source)
{
	return (double)source->heard_unix_ns / 1e9;
}

static double age(const struct source *source)
{
	int64_t age_ns = loop_wall_ns(source->sources->loop) - source->heard_unix_ns;

	return age_ns > 0 ? (double)age_ns / 1e9 : 0;
}

void sources_metrics(const struct sources *sources, struct rea_prometheus *out)
{
	write_each(out, sources, "rea_source_last_success_timestamp_seconds",
	    "When the source last said what it has; of a snapshot, when that was kept.", last_success);
	write_each(out, sources, "rea_source_age_seconds", "How long ago that was.", age);
	rea_prometheus_family(
	    out, "rea_source_document_info", REA_METRIC_GAUGE, "The version of the document that the source has.");
	for (size_t i = 0; i < sources->len; i++) {
		const struct source *source = &sources->items[i];
		const struct rea_slice text = slice_of(source->has_failover ? &source->failover : &source->text);
		char version[REA_HASH_HEX_SIZE];
		const char *const labels[] = {"source", source->name, "version", version};

		rea_hash_hex(rea_hash(text.data, text.length), version);
		if (state_of(source) == PRESENT)
			rea_prometheus_sample(out, "rea_source_document_info", labels, 4, 1);
	}
	rea_prometheus_family(out, "rea_source_errors_total", REA_METRIC_COUNTER,
	    "What went wrong with the source: no answer, no access, or a document that was refused.");
	for (size_t i = 0; i < sources->len; i++)
		for (size_t kind = 0; kind < TROUBLES; kind++) {
			const char *const labels[] = {"source", sources->items[i].name, "kind", trouble_names[kind]};

			rea_prometheus_sample(
			    out, "rea_source_errors_total", labels, 4, (double)sources->items[i].errors[kind]);
		}
}

void sources_stop(struct sources *sources)
{
	if (sources == NULL)
		return;
	loop_timer_stop(sources->loop, &sources->settle_timer);
	loop_timer_stop(sources->loop, &sources->look_timer);
	for (size_t i = 0; i < sources->len; i++) {
		struct source *source = &sources->items[i];

		nacos_stop(source->nacos);
		etcd_stop(source->etcd);
		watch_stop(source->watch);
		rea_buffer_fini(&source->text);
		rea_buffer_fini(&source->failover);
		rea_buffer_fini(&source->good);
		free(source->name);
		free(source->kept);
	}
	transfers_fini(&sources->transfers);
	rea_buffer_fini(&sources->ruling);
	free(sources->ruling_name);
	free(sources->items);
	free(sources);
}
