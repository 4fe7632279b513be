/*
 * The writer: one thread, one connection, one transaction at a time for whatever has queued.
 *
 *   queued ─take─▶ batch: BEGIN, execute …, COMMIT (with its sync) ─complete─▶ rea_store_drain
 *                    └▶ on trouble ROLLBACK; what memory or a damaged row brought is done once more, one operation at a time;
 *                       what the disk brought fails, and the store is `failing` until `resume` has succeeded
 *
 * Guarantees: an operation is told of after the commit that covers it, with its sync unless it is a relaxed one; a batch that failed has
 * changed nothing; what was acknowledged relaxed is synced within 50 ms, the last before an idle time too.
 *
 * A batch is never waited for: it takes what queued while the last one was on its way to the disk, and what queues while it is being
 * executed, up to 256 operations or 2 ms. The log is written back into the database after the acknowledgement, not inside it.
 */
#include "base/bounds.h"
#include "store/sqlite/sqlite.h"

#include <assert.h>
#include <errno.h>
#include <float.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define BATCH_OPERATIONS_MAX 256
#define BATCH_NS_MAX (2 * REA_NS_PER_MS)
#define FLUSH_NS (50 * REA_NS_PER_MS)
#define RESUME_NS_MIN (20 * REA_NS_PER_MS)
#define RESUME_NS_MAX (2 * REA_NS_PER_S)
#define CHECKPOINT_PAGES 256
#define CACHE_BYTES_MIN (64u << 10)
#define CACHE_BYTES_MAX (1u << 30)
#define SIZE_MIN (UINT64_C(1) << 20)

static struct rea__sqlite *sqlite_of(struct rea_store *store)
{
	return (struct rea__sqlite *)store;
}

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * REA_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* ---- what others see ---- */

static void wake(struct rea__sqlite *sqlite)
{
	if (sqlite->store.options.wake != NULL)
		sqlite->store.options.wake(sqlite->store.options.user_data);
}

static void publish_commit(struct rea__sqlite *sqlite, size_t operations)
{
	pthread_mutex_lock(&sqlite->store.mutex);
	memcpy(sqlite->status.counts, sqlite->ledger.counts, sizeof(sqlite->status.counts));
	sqlite->status.damaged = sqlite->damaged;
	sqlite->status.operations += operations;
	sqlite->status.commits++;
	sqlite->status.syncs += !sqlite->relaxed && !sqlite->sync_off;
	pthread_mutex_unlock(&sqlite->store.mutex);
}

/* What was acknowledged may not be on disk: nothing more is, until resume has looked. */
static void start_failing(struct rea__sqlite *sqlite, const char *what, const char *why)
{
	pthread_mutex_lock(&sqlite->store.mutex);
	sqlite->status.failing = true;
	sqlite->status.failures++;
	snprintf(sqlite->status.message, sizeof(sqlite->status.message), "%s: %s", what, why);
	pthread_mutex_unlock(&sqlite->store.mutex);
	if (!sqlite->failing)
		sqlite->resume_delay_ns = RESUME_NS_MIN;
	sqlite->failing = true;
	sqlite->resume_at_ns = clock_ns() + sqlite->resume_delay_ns;
	sqlite->resume_delay_ns = rea_time_min(2 * sqlite->resume_delay_ns, RESUME_NS_MAX);
	wake(sqlite);
}

static void fail(struct rea__sqlite *sqlite, const char *what)
{
	char why[160];

	rea__db_describe(&sqlite->db, why, sizeof(why));
	start_failing(sqlite, what, why);
}

static void stop_failing(struct rea__sqlite *sqlite)
{
	sqlite->failing = false;
	pthread_mutex_lock(&sqlite->store.mutex);
	sqlite->status.failing = false;
	pthread_mutex_unlock(&sqlite->store.mutex);
	wake(sqlite);
}

static void reset_result(struct rea__sqlite *sqlite, struct rea__op *op, int error)
{
	rea_arena_fini(&op->arena);
	rea_arena_init(&op->arena, &sqlite->store.alloc);
	memset(&op->result, 0, sizeof(op->result));
	op->result.error = error;
}

static void fail_all(struct rea__sqlite *sqlite, struct rea__ops *ops)
{
	for (struct rea__op *op = ops->first; op != NULL; op = op->next)
		reset_result(sqlite, op, REA_ERR_IO);
	rea__store_complete(&sqlite->store, ops);
}

/* ---- transactions ---- */

static int set_relaxed(struct rea__sqlite *sqlite, bool relaxed)
{
	int error;

	if (sqlite->sync_off || relaxed == sqlite->relaxed)
		return 0;
	error = rea__db_exec(&sqlite->db, relaxed ? "PRAGMA synchronous=NORMAL" : "PRAGMA synchronous=FULL");
	if (error == 0)
		sqlite->relaxed = relaxed;
	return error;
}

static int begin(struct rea__sqlite *sqlite, bool relaxed)
{
	int error = set_relaxed(sqlite, relaxed);

	if (error == 0)
		error = rea__db_exec(&sqlite->db, "BEGIN IMMEDIATE");
	return error == 0 && sqlite->names.stale ? rea__names_load(sqlite) : error;
}

static int commit(struct rea__sqlite *sqlite, size_t operations)
{
	int error = rea__db_exec(&sqlite->db, "COMMIT");

	if (error != 0)
		return error;
	if (!sqlite->relaxed)
		sqlite->unsynced = false;
	else if (!sqlite->unsynced) {
		sqlite->unsynced = true;
		sqlite->flush_at_ns = clock_ns() + FLUSH_NS;
	}
	publish_commit(sqlite, operations);
	return 0;
}

/* SQLite itself takes back what a full disk or a lack of memory interrupts. */
static void roll_back(struct rea__sqlite *sqlite, const struct rea__ledger *ledger)
{
	if (!sqlite3_get_autocommit(sqlite->db.handle))
		rea__db_exec(&sqlite->db, "ROLLBACK");
	sqlite->ledger = *ledger;
	sqlite->names.stale = true;
}

/* ---- batches ---- */

/* A power cut may take it back. */
static bool may_ride(const struct rea__op *op)
{
	switch (op->type) {
	case REA__OP_HEARTBEAT:
	case REA__OP_RECORD:
	case REA__OP_RESCHEDULE:
	case REA__OP_DUE:
	case REA__OP_MAINTAIN:
	case REA__OP_BACKUP:
		return true;
	case REA__OP_CLAIM:
		return op->in.claim.relaxed;
	case REA__OP_SUBMIT:
	case REA__OP_FINISH:
	case REA__OP_CANCEL:
	case REA__OP_REPLAY:
		return false;
	}
	return false;
}

/* Those that can be in one batch. */
static bool all_may_ride(const struct rea__ops *ops)
{
	const struct rea__op *op = ops->first;

	for (size_t i = 0; op != NULL && i < BATCH_OPERATIONS_MAX; i++, op = op->next)
		if (!may_ride(op))
			return false;
	return true;
}

struct batch {
	struct rea__ops ops; /* executed, or tried */
	size_t count;
	bool relaxed;
	uint64_t start_ns;
};

static void take_queued(struct rea__sqlite *sqlite, struct rea__ops *taken)
{
	pthread_mutex_lock(&sqlite->store.mutex);
	*taken = sqlite->queued;
	sqlite->queued = (struct rea__ops){NULL, NULL};
	pthread_mutex_unlock(&sqlite->store.mutex);
}

/* The next operation of the batch; NULL: it is complete. */
static struct rea__op *next_op(struct rea__sqlite *sqlite, struct batch *batch, struct rea__ops *taken)
{
	if (batch->count == BATCH_OPERATIONS_MAX)
		return NULL;
	if (taken->first == NULL && clock_ns() - batch->start_ns < BATCH_NS_MAX)
		take_queued(sqlite, taken);
	if (taken->first == NULL || (batch->relaxed && !may_ride(taken->first)))
		return NULL;
	batch->count++;
	return rea__ops_pop(taken);
}

static int execute(struct rea__sqlite *sqlite, struct batch *batch, struct rea__op *op)
{
	if (op->type == REA__OP_BACKUP) {
		if (!rea__backup_begin(sqlite, op))
			rea__ops_push(&batch->ops, op);
		return 0;
	}
	rea__ops_push(&batch->ops, op);
	return rea__op_execute(sqlite, op);
}

static int execute_all(struct rea__sqlite *sqlite, struct batch *batch, struct rea__ops *taken)
{
	struct rea__op *op;
	int error = begin(sqlite, batch->relaxed);

	while (error == 0 && (op = next_op(sqlite, batch, taken)) != NULL)
		error = execute(sqlite, batch, op);
	return error;
}

/* One operation, in a transaction of its own; only the disk's trouble is an error, what else goes wrong is told by its result. */
static int run_alone(struct rea__sqlite *sqlite, struct rea__op *op)
{
	struct rea__ledger ledger = sqlite->ledger;
	int error;

	if (op->type == REA__OP_BACKUP)
		return 0; /* it touched nothing, and knows its result */
	reset_result(sqlite, op, 0);
	error = begin(sqlite, false);
	if (error == 0)
		error = rea__op_execute(sqlite, op);
	if (error == 0)
		error = commit(sqlite, 1);
	if (error == 0)
		return 0;
	if (error == REA_ERR_IO)
		fail(sqlite, "an operation failed");
	roll_back(sqlite, &ledger);
	reset_result(sqlite, op, error);
	return error == REA_ERR_IO ? error : 0;
}

/* So that only the one that cannot be done fails. */
static void run_one_by_one(struct rea__sqlite *sqlite, struct rea__ops *ops)
{
	struct rea__ops done = {NULL, NULL};
	struct rea__op *op;
	int error = 0;

	while (error == 0 && (op = rea__ops_pop(ops)) != NULL) {
		error = run_alone(sqlite, op);
		rea__ops_push(&done, op);
	}
	rea__store_complete(&sqlite->store, &done);
	fail_all(sqlite, ops);
}

static void run_batch(struct rea__sqlite *sqlite, struct rea__ops *taken)
{
	struct batch batch = {.relaxed = all_may_ride(taken), .start_ns = clock_ns()};
	struct rea__ledger ledger = sqlite->ledger;
	int error = execute_all(sqlite, &batch, taken);

	if (error == 0)
		error = commit(sqlite, batch.count);
	if (error == 0) {
		rea__store_complete(&sqlite->store, &batch.ops);
		return;
	}
	if (error == REA_ERR_IO)
		fail(sqlite, "a commit failed");
	roll_back(sqlite, &ledger);
	if (error == REA_ERR_IO)
		fail_all(sqlite, &batch.ops);
	else
		run_one_by_one(sqlite, &batch.ops);
}

/* ---- between batches ---- */

static int pages_in_log(void *user_data, sqlite3 *handle, const char *name, int pages)
{
	struct rea__sqlite *sqlite = user_data;

	(void)handle;
	(void)name;
	sqlite->wal_pages = pages;
	return SQLITE_OK;
}

/* Readers may hold it up: then it is tried again when the log has grown as much once more. */
static void checkpoint(struct rea__sqlite *sqlite)
{
	int pages = 0, written = 0, code;

	if (sqlite->wal_pages < CHECKPOINT_PAGES)
		sqlite->checkpoint_pages = CHECKPOINT_PAGES;
	if (sqlite->failing || sqlite->wal_pages < sqlite->checkpoint_pages)
		return;
	code = sqlite3_wal_checkpoint_v2(sqlite->db.handle, "main", SQLITE_CHECKPOINT_PASSIVE, &pages, &written);
	sqlite->checkpoint_pages = sqlite->wal_pages + CHECKPOINT_PAGES;
	sqlite->wal_pages = pages == written ? 0 : pages;
	if (code != SQLITE_OK && code != SQLITE_BUSY && code != SQLITE_LOCKED)
		fail(sqlite, "writing the log back failed");
}

/* A transaction without an operation. */
static int commit_touch(struct rea__sqlite *sqlite)
{
	struct rea__ledger ledger = sqlite->ledger;
	int error = begin(sqlite, false);

	if (error == 0)
		error = rea__ops_touch(sqlite);
	if (error == 0)
		error = commit(sqlite, 0);
	if (error != 0)
		roll_back(sqlite, &ledger);
	return error;
}

static void flush(struct rea__sqlite *sqlite)
{
	if (!sqlite->failing && sqlite->unsynced && clock_ns() >= sqlite->flush_at_ns && commit_touch(sqlite) != 0)
		fail(sqlite, "a sync failed");
}

/* ---- opening, for the first time and anew ---- */

static int open_database(struct rea__sqlite *sqlite, char *message, size_t message_size)
{
	int error = rea__db_open(&sqlite->db, &sqlite->db_options, message, message_size);

	if (error != 0)
		return error;
	sqlite3_wal_hook(sqlite->db.handle, pages_in_log, sqlite);
	sqlite->wal_pages = 0;
	sqlite->relaxed = false;
	error = rea__schema_prepare(&sqlite->db, &rea__store_schema, message, message_size);
	if (error != 0)
		return error;
	error = rea__ops_prepare(&sqlite->db);
	if (error == 0)
		error = rea__db_exec(&sqlite->db, sqlite->sync_off ? "PRAGMA synchronous=OFF" : "PRAGMA synchronous=FULL");
	if (error != 0)
		rea__db_describe(&sqlite->db, message, message_size);
	return error;
}

/* Everything that was acknowledged has to be there. */
static int verify(struct rea__sqlite *sqlite, char *message, size_t message_size)
{
	struct rea__census census;
	int error = rea__census(&sqlite->db, &census);

	if (error == 0 && memcmp(census.counts, sqlite->ledger.counts, sizeof(census.counts)) != 0) {
		snprintf(message, message_size, "there are not as many tasks in it as were acknowledged");
		return REA_ERR_CORRUPT;
	}
	if (error == 0)
		error = commit_touch(sqlite);
	if (error != 0)
		rea__db_describe(&sqlite->db, message, message_size);
	return error;
}

/* The frames of a commit that failed may stand in the log, behind those that hold. Writing the log back and cutting it off leaves nothing of
 * them for the next opening to find, and puts all that was acknowledged where a sync has to carry it once more. */
static int close_database(struct rea__sqlite *sqlite, char *message, size_t message_size)
{
	int code;

	if (sqlite->db.handle == NULL)
		return 0;
	code = sqlite3_wal_checkpoint_v2(sqlite->db.handle, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	if (code != SQLITE_OK) {
		rea__db_describe(&sqlite->db, message, message_size);
		return REA_ERR_IO;
	}
	rea__db_close(&sqlite->db);
	return 0;
}

static void resume(struct rea__sqlite *sqlite)
{
	char message[160];

	if (!sqlite->failing || clock_ns() < sqlite->resume_at_ns)
		return;
	rea__backup_abort(sqlite, REA_ERR_IO);
	if (close_database(sqlite, message, sizeof(message)) != 0) {
		start_failing(sqlite, "not resumed, the log cannot be written back", message);
		return;
	}
	if (open_database(sqlite, message, sizeof(message)) != 0 || verify(sqlite, message, sizeof(message)) != 0) {
		start_failing(sqlite, "not resumed", message);
		rea__db_close(&sqlite->db);
		return;
	}
	sqlite->unsynced = false;
	stop_failing(sqlite);
}

/* ---- the thread ---- */

static uint64_t next_ns(const struct rea__sqlite *sqlite)
{
	if (sqlite->failing)
		return sqlite->resume_at_ns;
	if (sqlite->backup != NULL)
		return 0;
	return sqlite->unsynced ? sqlite->flush_at_ns : REA_NEVER;
}

/* False: stopped, and nothing is left to do. */
static bool wait_for_work(struct rea__sqlite *sqlite, struct rea__ops *ret_taken)
{
	uint64_t until_ns = next_ns(sqlite);
	struct timespec until = {(time_t)(until_ns / REA_NS_PER_S), (long)(until_ns % REA_NS_PER_S)};
	bool work;

	pthread_mutex_lock(&sqlite->store.mutex);
	while (sqlite->queued.first == NULL && !sqlite->stopping) {
		if (until_ns == REA_NEVER)
			pthread_cond_wait(&sqlite->queued_or_stopping, &sqlite->store.mutex);
		else if (pthread_cond_timedwait(&sqlite->queued_or_stopping, &sqlite->store.mutex, &until) == ETIMEDOUT)
			break;
	}
	*ret_taken = sqlite->queued;
	sqlite->queued = (struct rea__ops){NULL, NULL};
	work = ret_taken->first != NULL || !sqlite->stopping;
	pthread_mutex_unlock(&sqlite->store.mutex);
	return work;
}

static void finish_writing(struct rea__sqlite *sqlite)
{
	struct rea__ledger ledger = sqlite->ledger;
	int error;

	rea__backup_abort(sqlite, REA_ERR_CLOSED);
	if (sqlite->failing)
		return;
	error = begin(sqlite, false);
	if (error == 0)
		error = rea__ops_settle(sqlite);
	if (error == 0)
		error = commit(sqlite, 0);
	if (error != 0)
		roll_back(sqlite, &ledger);
}

static void *write_until_stopped(void *arg)
{
	struct rea__sqlite *sqlite = arg;
	struct rea__ops taken;

	while (wait_for_work(sqlite, &taken)) {
		while (taken.first != NULL && !sqlite->failing)
			run_batch(sqlite, &taken);
		fail_all(sqlite, &taken);
		checkpoint(sqlite);
		flush(sqlite);
		if (sqlite->backup != NULL && !sqlite->failing)
			rea__backup_step(sqlite);
		resume(sqlite);
	}
	finish_writing(sqlite);
	return NULL;
}

/* ---- a store ---- */

static void sqlite_start(struct rea_store *store, struct rea__op *op)
{
	struct rea__sqlite *sqlite = sqlite_of(store);
	bool first;

	pthread_mutex_lock(&store->mutex);
	first = sqlite->queued.first == NULL;
	rea__ops_push(&sqlite->queued, op);
	pthread_mutex_unlock(&store->mutex);
	if (first)
		pthread_cond_signal(&sqlite->queued_or_stopping);
}

static void sqlite_stop(struct rea_store *store)
{
	struct rea__sqlite *sqlite = sqlite_of(store);

	pthread_mutex_lock(&store->mutex);
	sqlite->stopping = true;
	pthread_mutex_unlock(&store->mutex);
	pthread_cond_signal(&sqlite->queued_or_stopping);
	pthread_join(sqlite->thread, NULL);
}

static void sqlite_status(struct rea_store *store, struct rea_store_status *ret_status)
{
	pthread_mutex_lock(&store->mutex);
	*ret_status = sqlite_of(store)->status;
	pthread_mutex_unlock(&store->mutex);
}

/* In whatever state opening has left it; the thread has ended. */
static void sqlite_free(struct rea_store *store)
{
	struct rea__sqlite *sqlite = sqlite_of(store);
	struct rea_alloc alloc = store->alloc;

	rea__names_fini(&sqlite->names, &sqlite->store.alloc);
	rea__db_close(&sqlite->db);
	if (sqlite->lock_fd >= 0)
		close(sqlite->lock_fd);
	pthread_cond_destroy(&sqlite->queued_or_stopping);
	rea__store_fini(store);
	alloc.free((char *)sqlite->db_options.path, alloc.user_data);
	alloc.free((char *)sqlite->db_options.vfs, alloc.user_data);
	alloc.free(sqlite, alloc.user_data);
}

static const struct rea__backend backend = {sqlite_start, sqlite_stop, sqlite_free, sqlite_status,
    rea__sqlite_reader_new, rea__sqlite_reader_free, rea__sqlite_get, rea__sqlite_list, rea__sqlite_attempts};

void rea_store_sqlite_options_init(struct rea_store_sqlite_options *options)
{
	memset(options, 0, sizeof(*options));
	rea_store_options_init(&options->store);
	options->cache_bytes = 8u << 20;
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

static int check_options(const struct rea_store_sqlite_options *options, struct rea_error_info *info)
{
	const struct rea__bound bounds[] = {
	    {"cache_bytes", "cache_bytes", options->cache_bytes, CACHE_BYTES_MIN, CACHE_BYTES_MAX, false, NULL},
	    {"size_max", "size_max", (double)options->size_max, options->size_max != 0 ? SIZE_MIN : 0, DBL_MAX, false, NULL},
	};
	int error = rea__store_options_check(&options->store, info);

	if (error != 0)
		return error;
	if (options->path == NULL || options->path[0] == '\0')
		return refuse(info, NULL, "path", REA_ERR_INVALID, "path is empty; it must name the database's file");
	return rea__check_bounds(bounds, sizeof(bounds) / sizeof(bounds[0]), info);
}

static char *copy_string(const struct rea_alloc *alloc, const char *text)
{
	char *copy = alloc->realloc(NULL, strlen(text) + 1, alloc->user_data);

	return copy != NULL ? strcpy(copy, text) : NULL;
}

int rea__init_condition(pthread_cond_t *condition)
{
	pthread_condattr_t attributes;
	int error;

	if (pthread_condattr_init(&attributes) != 0)
		return REA_ERR_NOMEM;
	error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) != 0 ||
		pthread_cond_init(condition, &attributes) != 0;
	pthread_condattr_destroy(&attributes);
	return error ? REA_ERR_NOMEM : 0;
}

/* The object, without anything opened. */
static int make(const struct rea_store_sqlite_options *options, struct rea__sqlite **ret_sqlite)
{
	const struct rea_alloc *alloc = options->store.alloc != NULL ? options->store.alloc : rea_alloc_default();
	struct rea__sqlite *sqlite = alloc->realloc(NULL, sizeof(*sqlite), alloc->user_data);

	if (sqlite == NULL)
		return REA_ERR_NOMEM;
	memset(sqlite, 0, sizeof(*sqlite));
	sqlite->lock_fd = -1;
	sqlite->sync_off = options->sync_off;
	sqlite->checkpoint_pages = CHECKPOINT_PAGES;
	if (rea__store_init(&sqlite->store, &backend, &options->store) != 0)
		goto free_object;
	if (rea__init_condition(&sqlite->queued_or_stopping) != 0)
		goto fini_store;
	sqlite->db_options = (struct rea__db_options){.path = copy_string(alloc, options->path),
	    .vfs = options->vfs != NULL ? copy_string(alloc, options->vfs) : NULL,
	    .cache_bytes = options->cache_bytes,
	    .size_max = options->size_max,
	    .writes = true};
	*ret_sqlite = sqlite;
	if (sqlite->db_options.path != NULL && (options->vfs == NULL || sqlite->db_options.vfs != NULL))
		return 0;
	sqlite_free(&sqlite->store);
	return REA_ERR_NOMEM;

fini_store:
	rea__store_fini(&sqlite->store);
free_object:
	alloc->free(sqlite, alloc->user_data);
	return REA_ERR_NOMEM;
}

static int recover(struct rea__sqlite *sqlite, char *message, size_t message_size)
{
	int error = begin(sqlite, false);

	if (error == 0)
		error = rea__ops_recover(sqlite, &sqlite->store.options.clock);
	if (error == 0)
		error = commit(sqlite, 0);
	if (error != 0)
		rea__db_describe(&sqlite->db, message, message_size);
	return error;
}

int rea_store_sqlite_open(
    const struct rea_store_sqlite_options *options, struct rea_store **ret_store, struct rea_error_info *ret_info)
{
	struct rea__sqlite *sqlite;
	char message[256] = "out of memory";
	int error = check_options(options, ret_info);

	if (error != 0)
		return error;
	error = make(options, &sqlite);
	if (error != 0)
		return refuse(ret_info, options->path, "", error, message);
	/* SQLite would let two processes write in turn; each would take the other's running tasks for its own that died. */
	error = rea__db_lock(sqlite->db_options.path, &sqlite->lock_fd, message, sizeof(message));
	if (error == 0)
		error = open_database(sqlite, message, sizeof(message));
	if (error == 0)
		error = recover(sqlite, message, sizeof(message));
	if (error == 0 && pthread_create(&sqlite->thread, NULL, write_until_stopped, sqlite) != 0) {
		snprintf(message, sizeof(message), "no thread can be started");
		error = REA_ERR_NOMEM;
	}
	if (error == 0) {
		*ret_store = &sqlite->store;
		return 0;
	}
	sqlite_free(&sqlite->store);
	return refuse(ret_info, options->path, "", error, message);
}

int rea_store_sqlite_backup(struct rea_store *store, const char *path,
    void (*done)(const struct rea_store_result *result, void *user_data), void *user_data)
{
	struct rea__op *op;
	int error;

	if (path == NULL || path[0] == '\0')
		return REA_ERR_INVALID;
	error = rea__op_new(store, REA__OP_BACKUP, strlen(path) + 1, &op);
	if (error != 0)
		return error;
	op->in.backup.path = strcpy((char *)(op + 1), path);
	rea__op_start(store, op, 0, done, user_data);
	return 0;
}
