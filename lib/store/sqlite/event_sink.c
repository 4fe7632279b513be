/*
 * The writer of events: one thread between a queue and a file.
 *
 *   rea_event_sqlite_add ─▶ queue ─peek─▶ BEGIN, insert …, remove what is too old or too much, COMMIT ─pop─▶ (the file)
 *                                          └▶ on trouble: ROLLBACK, nothing is popped, the file is closed and tried again later
 *
 * Guarantees: add copies and returns, whatever the disk does; an event leaves the queue only when its transaction is committed, so none is
 * lost while the queue has room, and none is written twice (its id is the row's); added = written + waiting, and what add refused is counted.
 *
 * A commit is not synced (synchronous=NORMAL). Nobody was promised anything about an event, the call or task that it tells of is what counts:
 * a power cut may take the events since the last checkpoint, never the file's consistency, and an idle disk stays idle.
 *
 * Old rows leave in small portions along with new ones, and a few hundred at a time when there is nothing to write. Their pages are used again;
 * when more than a quarter of the file is free, some are given back to the file system. There is no VACUUM.
 */
#include "base/place.h"
#include "store/sqlite/event_sink.h"

#include <rea/store.h>

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* How long events gather before they are written together. */
#define GATHER_NS (20 * REA_NS_PER_MS)
/* Of one transaction. Far less than the room above the mark at which old rows go. */
#define BATCH_BYTES (256u << 10)
#define KEEP_HOUSE_NS (60 * REA_NS_PER_S)
#define KEEP_HOUSE_MORE_NS (100 * REA_NS_PER_MS)
#define REMOVED_AT_ONCE 500
#define PAGES_FREED_AT_ONCE 64
#define PAGES_FREE_MIN 256
#define RETRY_NS_MIN (20 * REA_NS_PER_MS)
#define RETRY_NS_MAX (8 * REA_NS_PER_S)
#define ASIDE_MAX 9
#define PATH_BYTES_MAX 4000
#define CACHE_BYTES (2u << 20)
#define KEEP_S_MIN 60
#define KEEP_S_MAX UINT64_C(315360000)
#define SIZE_MIN (UINT64_C(8) << 20)
#define SIZE_MAX_BYTES (UINT64_C(1) << 40)
#define QUEUE_BYTES_MIN (16u << 10)
#define QUEUE_BYTES_MAX (64u << 20)

enum statement { BEGIN, COMMIT, ROLLBACK, INSERT, REMOVE_AGED, REMOVE_OLDEST, PAGES, PAGES_FREE, STATEMENT_COUNT };

static const char *const statements[] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
    [INSERT] = rea__events_insert_sql,
    [REMOVE_AGED] = "DELETE FROM event WHERE id IN (SELECT id FROM event WHERE time_ns < ?2 ORDER BY time_ns LIMIT ?1)",
    [REMOVE_OLDEST] = "DELETE FROM event WHERE id IN (SELECT id FROM event ORDER BY id LIMIT ?1)",
    [PAGES] = "PRAGMA page_count",
    [PAGES_FREE] = "PRAGMA freelist_count",
};

struct rea_event_sqlite {
	struct rea_alloc alloc;
	struct rea_event_sqlite_options options;
	struct rea__db_options db_options;
	int lock_fd;
	uint64_t next_id; /* settled before the thread starts */
	bool started;
	struct rea_event_queue *queue;
	atomic_bool news; /* something was added since the writer last looked */
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t woken;
	/* under mutex */
	bool stopping;
	struct rea_event_sqlite_status status; /* but what the queue counts */
	/* the writer's */
	struct rea__db db; /* closed while failing */
	int64_t boot;
	bool failing;
	uint64_t retry_at_ns;
	uint64_t retry_delay_ns;
	uint64_t keep_house_at_ns;
};

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * REA_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* ---- what others see ---- */

static void wake(const struct rea_event_sqlite *sink)
{
	if (sink->options.wake != NULL)
		sink->options.wake(sink->options.user_data);
}

static void start_failing(struct rea_event_sqlite *sink, const char *message)
{
	bool changed;

	pthread_mutex_lock(&sink->mutex);
	changed = !sink->status.failing;
	sink->status.failing = true;
	sink->status.failures++;
	snprintf(sink->status.message, sizeof(sink->status.message), "%s", message);
	pthread_mutex_unlock(&sink->mutex);
	if (!sink->failing)
		sink->retry_delay_ns = RETRY_NS_MIN;
	sink->failing = true;
	sink->retry_at_ns = clock_ns(CLOCK_MONOTONIC) + sink->retry_delay_ns;
	sink->retry_delay_ns = rea_time_min(2 * sink->retry_delay_ns, RETRY_NS_MAX);
	if (changed)
		wake(sink);
}

static void stop_failing(struct rea_event_sqlite *sink)
{
	if (!sink->failing)
		return;
	sink->failing = false;
	pthread_mutex_lock(&sink->mutex);
	sink->status.failing = false;
	pthread_mutex_unlock(&sink->mutex);
	wake(sink);
}

static void publish(struct rea_event_sqlite *sink, uint64_t written, uint64_t removed)
{
	pthread_mutex_lock(&sink->mutex);
	sink->status.written += written;
	sink->status.removed += removed;
	pthread_mutex_unlock(&sink->mutex);
}

/* ---- the file ---- */

static void path_aside(const struct rea_event_sqlite *sink, int n, const char *suffix, char *ret_path, size_t size)
{
	snprintf(ret_path, size, "%s.damaged-%d%s", sink->db_options.path, n, suffix);
}

/* Out of the way, with its log, for somebody to look at. Only the last place is ever used twice. */
static int set_aside(struct rea_event_sqlite *sink)
{
	char from[4096], to[4096];
	int n = 1;

	for (; n < ASIDE_MAX; n++) {
		path_aside(sink, n, "", to, sizeof(to));
		if (access(to, F_OK) != 0)
			break;
	}
	path_aside(sink, n, "", to, sizeof(to));
	if (rename(sink->db_options.path, to) != 0)
		return REA_ERR_IO;
	pthread_mutex_lock(&sink->mutex);
	sink->status.set_aside++;
	snprintf(sink->status.message, sizeof(sink->status.message),
	    "the file was damaged and set aside; its name ends in .damaged-%d now", n);
	pthread_mutex_unlock(&sink->mutex);
	path_aside(sink, n, "-wal", to, sizeof(to));
	snprintf(from, sizeof(from), "%s-wal", sink->db_options.path);
	rename(from, to);
	snprintf(from, sizeof(from), "%s-shm", sink->db_options.path);
	unlink(from);
	wake(sink);
	return 0;
}

static int note_boot(struct rea_event_sqlite *sink)
{
	struct rea_store_clock clock;
	char sql[160];
	int error;

	rea_store_clock_read(&clock);
	sqlite3_snprintf(sizeof(sql), sql, "INSERT OR IGNORE INTO boot (boot_id) VALUES (%Q)", clock.boot_id);
	error = rea__db_exec(&sink->db, sql);
	sqlite3_snprintf(sizeof(sql), sql, "SELECT id FROM boot WHERE boot_id = %Q", clock.boot_id);
	return error != 0 ? error : rea__db_number(&sink->db, sql, &sink->boot);
}

static int open_file(struct rea_event_sqlite *sink, char *message, size_t size)
{
	int64_t last = 0;
	int error = rea__db_open(&sink->db, &sink->db_options, message, size);

	if (error != 0)
		return error;
	error = rea__db_exec(&sink->db, "PRAGMA synchronous=NORMAL");
	if (error == 0)
		error = rea__schema_prepare(&sink->db, &rea__events_schema, message, size);
	if (error == 0)
		error = rea__db_prepare(&sink->db, statements, STATEMENT_COUNT);
	if (error == 0)
		error = note_boot(sink);
	if (error == 0)
		error = rea__db_number(&sink->db, "SELECT ifnull(max(id), 0) FROM event", &last);
	if (error == 0 && !sink->started && last > 0 && last < INT64_MAX)
		sink->next_id = (uint64_t)last + 1;
	if (error != 0 && message[0] == '\0')
		rea__db_describe(&sink->db, message, size);
	if (error != 0)
		rea__db_close(&sink->db);
	return error;
}

/* Opens the file, or another one in its place. */
static int ensure_open(struct rea_event_sqlite *sink, char *message, size_t size)
{
	int error;

	message[0] = '\0';
	if (sink->db.handle != NULL)
		return 0;
	if (sink->lock_fd < 0 && (error = rea__db_lock(sink->db_options.path, &sink->lock_fd, message, size)) != 0)
		return error;
	error = open_file(sink, message, size);
	if (error == REA_ERR_CORRUPT && set_aside(sink) == 0)
		error = open_file(sink, message, size);
	return error;
}

/* ---- writing ---- */

static bool too_large(struct rea_event_sqlite *sink)
{
	int64_t pages = 0, free_pages = 0;

	if (rea__step(sink->db.statements[PAGES]) == 1)
		pages = sqlite3_column_int64(sink->db.statements[PAGES], 0);
	sqlite3_reset(sink->db.statements[PAGES]);
	if (rea__step(sink->db.statements[PAGES_FREE]) == 1)
		free_pages = sqlite3_column_int64(sink->db.statements[PAGES_FREE], 0);
	sqlite3_reset(sink->db.statements[PAGES_FREE]);
	return pages > free_pages && (uint64_t)(pages - free_pages) * REA__PAGE_SIZE > sink->options.size_max / 8 * 7;
}

/* Up to rows that are too old, and as many when the file is too large. */
static int remove_old(struct rea_event_sqlite *sink, uint64_t rows, uint64_t *ret_removed)
{
	sqlite3_stmt *aged = sink->db.statements[REMOVE_AGED], *oldest = sink->db.statements[REMOVE_OLDEST];
	uint64_t now_ns = clock_ns(CLOCK_REALTIME);
	int error;

	rea__bind_u64(aged, 1, rows);
	rea__bind_u64(aged, 2, rea_time_sub(now_ns, rea_time_mul(sink->options.keep_s, REA_NS_PER_S)));
	error = rea__run(aged);
	*ret_removed = error == 0 ? (uint64_t)sqlite3_changes(sink->db.handle) : 0;
	if (error != 0 || !too_large(sink))
		return error;
	rea__bind_u64(oldest, 1, rows);
	error = rea__run(oldest);
	*ret_removed += error == 0 ? (uint64_t)sqlite3_changes(sink->db.handle) : 0;
	return error;
}

static int insert_batch(struct rea_event_sqlite *sink, uint64_t *position, uint64_t *ret_count)
{
	uint64_t first = *position;
	struct rea_event event;
	int error = 0;

	*ret_count = 0;
	while (error == 0 && *position - first < BATCH_BYTES && rea_event_queue_next(sink->queue, position, &event)) {
		if (first == 0)
			first = *position;
		error = rea__events_insert(sink->db.statements[INSERT], &event, sink->boot);
		++*ret_count;
	}
	return error;
}

/* Whatever fails, the connection goes with it: the next one begins with what the disk has. */
static void fail(struct rea_event_sqlite *sink, int error)
{
	char message[sizeof(sink->status.message)];

	rea__db_describe(&sink->db, message, sizeof(message));
	if (!sqlite3_get_autocommit(sink->db.handle))
		rea__run(sink->db.statements[ROLLBACK]);
	rea__db_close(&sink->db);
	start_failing(sink, message);
	if (error == REA_ERR_CORRUPT)
		set_aside(sink);
}

/* One transaction: what is queued and fits. */
static int write_batch(struct rea_event_sqlite *sink)
{
	uint64_t position = 0, count = 0, removed = 0;
	int error = rea__run(sink->db.statements[BEGIN]);

	if (error == 0)
		error = insert_batch(sink, &position, &count);
	if (error == 0)
		error = remove_old(sink, 2 * count + 16, &removed);
	if (error == 0)
		error = rea__run(sink->db.statements[COMMIT]);
	if (error != 0) {
		fail(sink, error);
		return error;
	}
	rea_event_queue_pop_until(sink->queue, position);
	publish(sink, count, removed);
	stop_failing(sink);
	return 0;
}

static bool queue_is_empty(struct rea_event_sqlite *sink)
{
	struct rea_event event;

	return !rea_event_queue_peek(sink->queue, &event);
}

/* All that is queued, if the disk takes it. After a failure at least one transaction, to see. */
static void write_queued(struct rea_event_sqlite *sink)
{
	char message[sizeof(sink->status.message)];
	int error = 0;

	while (error == 0 && (sink->failing || !queue_is_empty(sink))) {
		error = ensure_open(sink, message, sizeof(message));
		if (error != 0)
			start_failing(sink, message);
		else
			error = write_batch(sink);
	}
}

/* ---- when there is nothing to write ---- */

static int give_back_pages(struct rea_event_sqlite *sink, bool *ret_more)
{
	char sql[64];
	int64_t pages = 0, free_pages = 0;
	int error = rea__db_number(&sink->db, "PRAGMA page_count", &pages);

	if (error == 0)
		error = rea__db_number(&sink->db, "PRAGMA freelist_count", &free_pages);
	*ret_more = free_pages > PAGES_FREE_MIN && free_pages > pages / 4;
	if (error != 0 || !*ret_more)
		return error;
	snprintf(sql, sizeof(sql), "PRAGMA incremental_vacuum(%d)", PAGES_FREED_AT_ONCE);
	return rea__db_exec(&sink->db, sql);
}

static void keep_house(struct rea_event_sqlite *sink)
{
	uint64_t removed = 0;
	bool more = false;
	int error;

	sink->keep_house_at_ns = clock_ns(CLOCK_MONOTONIC) + KEEP_HOUSE_NS;
	if (sink->db.handle == NULL)
		return;
	error = rea__run(sink->db.statements[BEGIN]);
	if (error == 0)
		error = remove_old(sink, REMOVED_AT_ONCE, &removed);
	if (error == 0)
		error = rea__run(sink->db.statements[COMMIT]);
	if (error == 0)
		error = give_back_pages(sink, &more);
	if (error != 0) {
		fail(sink, error);
		return;
	}
	publish(sink, 0, removed);
	if (more || removed >= REMOVED_AT_ONCE)
		sink->keep_house_at_ns = clock_ns(CLOCK_MONOTONIC) + KEEP_HOUSE_MORE_NS;
}

/* ---- the thread ---- */

static void wait_until(struct rea_event_sqlite *sink, uint64_t until_ns)
{
	const struct timespec until = {(time_t)(until_ns / REA_NS_PER_S), (long)(until_ns % REA_NS_PER_S)};

	pthread_cond_timedwait(&sink->woken, &sink->mutex, &until);
}

/* Until there is something to do. True: the sink is closing. */
static bool wait_for_work(struct rea_event_sqlite *sink)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC), gathered_ns;
	bool stopping;

	pthread_mutex_lock(&sink->mutex);
	while (!sink->stopping && !(sink->failing ? now_ns >= sink->retry_at_ns : atomic_load(&sink->news)) &&
	       now_ns < sink->keep_house_at_ns) {
		wait_until(sink,
		    sink->failing ? rea_time_min(sink->retry_at_ns, sink->keep_house_at_ns) : sink->keep_house_at_ns);
		now_ns = clock_ns(CLOCK_MONOTONIC);
	}
	gathered_ns = now_ns + GATHER_NS;
	while (!sink->stopping && atomic_load(&sink->news) && clock_ns(CLOCK_MONOTONIC) < gathered_ns)
		wait_until(sink, gathered_ns);
	stopping = sink->stopping;
	pthread_mutex_unlock(&sink->mutex);
	return stopping;
}

static void *write_until_closed(void *arg)
{
	struct rea_event_sqlite *sink = arg;
	bool stopping;

	do {
		stopping = wait_for_work(sink);
		/* Before looking: what is added from here on is news again. */
		atomic_store(&sink->news, false);
		if (stopping || !sink->failing || clock_ns(CLOCK_MONOTONIC) >= sink->retry_at_ns)
			write_queued(sink);
		if (!stopping && clock_ns(CLOCK_MONOTONIC) >= sink->keep_house_at_ns)
			keep_house(sink);
	} while (!stopping);
	rea__db_close(&sink->db);
	return NULL;
}

/* ---- from outside ---- */

void rea_event_sqlite_options_init(struct rea_event_sqlite_options *options)
{
	*options = (struct rea_event_sqlite_options){
	    .version = REA_EVENT_SQLITE_OPTIONS_VERSION,
	    .keep_s = 7 * 86400,
	    .size_max = UINT64_C(1) << 30,
	    .queue_bytes = 4 << 20,
	};
}

static int refuse(struct rea_error_info *info, const char *path, const char *key, int error, const char *message)
{
	if (info != NULL) {
		memset(info, 0, sizeof(*info));
		snprintf(info->file, sizeof(info->file), "%s", path != NULL ? path : "");
		snprintf(info->key, sizeof(info->key), "%s", key);
		snprintf(info->message, sizeof(info->message), "%s", message);
	}
	return error;
}

static const char *wrong_option(const struct rea_event_sqlite_options *options)
{
	if (options->path == NULL || options->path[0] == '\0' || strlen(options->path) > PATH_BYTES_MAX)
		return "path";
	if (options->keep_s < KEEP_S_MIN || options->keep_s > KEEP_S_MAX)
		return "keep_s";
	if (options->size_max < SIZE_MIN || options->size_max > SIZE_MAX_BYTES)
		return "size_max";
	if (options->queue_bytes < QUEUE_BYTES_MIN || options->queue_bytes > QUEUE_BYTES_MAX ||
	    (options->queue_bytes & (options->queue_bytes - 1)) != 0)
		return "queue_bytes";
	return NULL;
}

static int make(const struct rea_event_sqlite_options *options, struct rea_event_sqlite **ret_sink)
{
	const struct rea_alloc *alloc = options->alloc != NULL ? options->alloc : rea_alloc_default();
	size_t path_size = strlen(options->path) + 1, vfs_size = options->vfs != NULL ? strlen(options->vfs) + 1 : 0;
	struct rea_event_sqlite *sink = alloc->realloc(NULL, sizeof(*sink) + path_size + vfs_size, alloc->user_data);
	char *texts = (char *)(sink + 1);

	if (sink == NULL)
		return REA_ERR_NOMEM;
	memset(sink, 0, sizeof(*sink));
	sink->alloc = *alloc;
	sink->options = *options;
	sink->lock_fd = -1;
	sink->next_id = 1;
	sink->db_options = (struct rea__db_options){.path = memcpy(texts, options->path, path_size),
	    .vfs = vfs_size > 0 ? memcpy(texts + path_size, options->vfs, vfs_size) : NULL,
	    .cache_bytes = CACHE_BYTES,
	    .size_max = options->size_max,
	    .writes = true};
	if (rea_event_queue_new(options->queue_bytes, alloc, &sink->queue, NULL) != 0)
		goto free_sink;
	if (pthread_mutex_init(&sink->mutex, NULL) != 0)
		goto free_queue;
	if (rea__init_condition(&sink->woken) != 0)
		goto destroy_mutex;
	*ret_sink = sink;
	return 0;

destroy_mutex:
	pthread_mutex_destroy(&sink->mutex);
free_queue:
	rea_event_queue_free(sink->queue);
free_sink:
	alloc->free(sink, alloc->user_data);
	return REA_ERR_NOMEM;
}

static void free_sink(struct rea_event_sqlite *sink)
{
	rea__db_close(&sink->db);
	if (sink->lock_fd >= 0)
		close(sink->lock_fd);
	pthread_cond_destroy(&sink->woken);
	pthread_mutex_destroy(&sink->mutex);
	rea_event_queue_free(sink->queue);
	sink->alloc.free(sink, sink->alloc.user_data);
}

/* A disk that has its troubles is no reason not to start; a path that leads nowhere is. */
static int first_open(struct rea_event_sqlite *sink, char *message, size_t size)
{
	const char *path = sink->db_options.path;
	int error = ensure_open(sink, message, size);

	if (error != REA_ERR_IO && error != REA_ERR_CORRUPT)
		return error;
	if (!rea_place_is_sound(path))
		return REA_ERR_IO;
	start_failing(sink, message);
	return 0;
}

int rea_event_sqlite_open(
    const struct rea_event_sqlite_options *options, struct rea_event_sqlite **ret_sink, struct rea_error_info *ret_info)
{
	const char *wrong = wrong_option(options);
	char message[256] = "out of memory";
	struct rea_event_sqlite *sink;
	int error;

	if (wrong != NULL)
		return refuse(ret_info, options->path, wrong, REA_ERR_INVALID, "this option is out of its bounds");
	error = make(options, &sink);
	if (error != 0)
		return refuse(ret_info, options->path, "", error, message);
	error = first_open(sink, message, sizeof(message));
	sink->started = true;
	if (error == 0 && pthread_create(&sink->thread, NULL, write_until_closed, sink) != 0) {
		snprintf(message, sizeof(message), "no thread can be started");
		error = REA_ERR_NOMEM;
	}
	if (error != 0) {
		free_sink(sink);
		return refuse(ret_info, options->path, "", error, message);
	}
	*ret_sink = sink;
	return 0;
}

uint64_t rea_event_sqlite_close(struct rea_event_sqlite *sink)
{
	struct rea_event_sqlite_status status;

	if (sink == NULL)
		return 0;
	pthread_mutex_lock(&sink->mutex);
	sink->stopping = true;
	pthread_cond_signal(&sink->woken);
	pthread_mutex_unlock(&sink->mutex);
	pthread_join(sink->thread, NULL);
	rea_event_sqlite_status(sink, &status);
	free_sink(sink);
	return status.waiting;
}

bool rea_event_sqlite_add(struct rea_event_sqlite *sink, const struct rea_event *event)
{
	assert(event->id > 0);
	if (!rea_event_queue_push(sink->queue, event))
		return false;
	if (!atomic_exchange(&sink->news, true)) {
		pthread_mutex_lock(&sink->mutex);
		pthread_cond_signal(&sink->woken);
		pthread_mutex_unlock(&sink->mutex);
	}
	return true;
}

uint64_t rea_event_sqlite_next_id(const struct rea_event_sqlite *sink)
{
	return sink->next_id;
}

void rea_event_sqlite_status(struct rea_event_sqlite *sink, struct rea_event_sqlite_status *ret_status)
{
	pthread_mutex_lock(&sink->mutex);
	*ret_status = sink->status;
	pthread_mutex_unlock(&sink->mutex);
	ret_status->waiting = rea_event_queue_written(sink->queue) - ret_status->written;
	ret_status->dropped = rea_event_queue_dropped(sink->queue);
}
