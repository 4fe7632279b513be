/* The files of the SQLite store among themselves. */
#ifndef REA_STORE_SQLITE_SQLITE_H
#define REA_STORE_SQLITE_SQLITE_H

#include "store/backend.h"

#include <rea/store_sqlite.h>

#include <sqlite3.h>

/* ---- a connection and its statements (connection.c) ---- */

#define REA__STATEMENTS_MAX 32

struct rea__db {
	sqlite3 *handle; /* NULL = closed */
	sqlite3_stmt *statements[REA__STATEMENTS_MAX];
	size_t statements_len;
};

#define REA__PAGE_SIZE 8192

struct rea__db_options {
	const char *path;
	const char *vfs;
	uint32_t cache_bytes;
	uint64_t size_max;
	bool writes;
};

/* A path is made if it is to be written and does not exist. On an error nothing is open, and message says why. */
int rea__db_open(struct rea__db *db, const struct rea__db_options *options, char *message, size_t message_size);
/* sql: one text per statement; they stay prepared until rea__db_close. */
int rea__db_prepare(struct rea__db *db, const char *const *sql, size_t count);
void rea__db_close(struct rea__db *db);
int rea__db_exec(struct rea__db *db, const char *sql);
/* REA_OK for SQLITE_OK, _ROW, _DONE. What is no trouble of disk, memory or data is REA_ERR_IO. */
int rea__db_error(int code);
/* "disk I/O error (IOERR_FSYNC)": of the latest trouble, for people. */
void rea__db_describe(const struct rea__db *db, char *text, size_t size);

/* 1 = a row, 0 = no (more) row, else an error; without a row the statement is reset. */
int rea__step(sqlite3_stmt *statement);
/* Step a statement that gives no row. */
int rea__run(sqlite3_stmt *statement);
/* The text must live until the statement is reset. */
void rea__bind_text(sqlite3_stmt *statement, int index, struct rea_text text);
void rea__bind_u64(sqlite3_stmt *statement, int index, uint64_t value);

/* Keep other processes out: flock on PATH-lock, until the descriptor is closed. REA_ERR_BUSY: another one is in. */
int rea__db_lock(const char *path, int *ret_fd, char *message, size_t message_size);

/* ---- rows (row.c): what is not as we write it is REA_ERR_CORRUPT ---- */

#define REA__TASK_COLUMNS \
	"id, state, generation, attempt, attempts_before, crashes, claim, due_ns, updated_ns, later, target, ''"
#define REA__DONE_COLUMNS                                                                                           \
	"id, state, generation, attempt, attempts_before, crashes, 0, 9223372036854775807, updated_ns, 0, target, " \
	"reason"
#define REA__SPEC_COLUMNS "submitted_ns, biz_id, key, payload"
#define REA__NAME_COLUMNS "id, biz_id, key"
#define REA__ATTEMPT_COLUMNS \
	"number, generation, interrupted, outcome, code_kind, code, start_ns, cost_ns, instance, reason, detail"

/* The first ten of TASK and DONE columns. */
int rea__decode_row(sqlite3_stmt *statement, struct rea__row *ret_row);
/* target and reason of TASK and DONE columns; borrowed until the statement moves. */
int rea__decode_texts(sqlite3_stmt *statement, struct rea_store_task *task);
/* SPEC columns. The payload may be left out with its column. Borrowed likewise. */
int rea__decode_spec(sqlite3_stmt *statement, struct rea_store_task *task);
/* NAME columns: biz_id and key. Borrowed likewise. */
int rea__decode_names(sqlite3_stmt *statement, struct rea_store_task *task);
/* ATTEMPT columns. Borrowed likewise. */
int rea__decode_attempt(sqlite3_stmt *statement, struct rea_store_attempt *ret_attempt);
/* Copy the texts of a task. */
int rea__task_copy(struct rea_arena *arena, struct rea_store_task *task);

/* ---- the file as a whole (schema.c) ---- */

struct rea__schema {
	int64_t application_id;
	const char *const *migrations; /* each brings it one version up */
	size_t migrations_len;         /* = the version that this library knows */
};
extern const struct rea__schema rea__store_schema;
/* Makes the tables, or brings them up to date. REA_ERR_INVALID: not ours, or newer than this library. */
int rea__schema_prepare(struct rea__db *db, const struct rea__schema *schema, char *message, size_t message_size);
/* The one number that sql asks for. */
int rea__db_number(struct rea__db *db, const char *sql, int64_t *ret_number);

struct rea__census {
	uint64_t counts[REA_STORE_STATE_COUNT];
	uint64_t damaged; /* rows in none of the states */
	uint64_t id_max;
	int64_t seen_ns; /* latest time in any row; INT64_MIN = none */
};
/* Looks at every row of the narrow tables. */
int rea__census(struct rea__db *db, struct rea__census *ret_census);

/* ---- the store ---- */

/* Numbers given out in order; what may have been given out is written down ahead. */
struct rea__sequence {
	uint64_t next;
	uint64_t reserved;
};

/* How far folding has come (names.c). */
struct rea__names_ledger {
	uint32_t next_bucket;
	uint32_t tasks;     /* that came or went since the last fold */
	uint64_t folded_id; /* names of tasks below are in the table */
	uint64_t round_id;  /* will be folded_id when the round is complete */
};

/* What the writer remembers of the database. A transaction that does not commit takes it back. */
struct rea__ledger {
	uint64_t counts[REA_STORE_STATE_COUNT];
	struct rea__sequence ids;
	struct rea__sequence claims;
	struct rea__horizon horizon;
	uint64_t purge_id;
	struct rea__names_ledger names;
};

#define REA__NAME_BUCKETS 512

struct rea__name_bucket {
	struct rea__name *names;
	uint32_t len;
	uint32_t capacity;
};

/* Names that are not in the table yet. */
struct rea__names {
	uint64_t seed;
	bool stale; /* a transaction was rolled back: to be loaded again */
	struct rea__name_bucket buckets[REA__NAME_BUCKETS];
};

struct rea__backup;

struct rea__sqlite {
	struct rea_store store;
	struct rea__db_options db_options;
	bool sync_off;
	int lock_fd;
	pthread_t thread;
	pthread_cond_t queued_or_stopping;
	/* under store.mutex */
	struct rea__ops queued;
	bool stopping;
	struct rea_store_status status;
	/* the writer's */
	struct rea__db db;
	struct rea__ledger ledger;
	struct rea__names names;
	bool relaxed;          /* commits do not wait for the disk at the moment */
	bool unsynced;         /* something acknowledged is not on disk yet */
	bool failing;          /* as in status */
	uint64_t flush_at_ns;  /* when unsynced ends */
	uint64_t resume_at_ns; /* when failing is to end */
	uint64_t resume_delay_ns;
	uint64_t damaged; /* rows met that could not be read */
	int wal_pages;
	int checkpoint_pages; /* of the log, that call for the next checkpoint */
	struct rea__backup *backup;
};

/* A condition whose waits are told by CLOCK_MONOTONIC. Returns 0 or REA_ERR_NOMEM. */
int rea__init_condition(pthread_cond_t *condition);

/* Prepare what follows (ops.c). */
int rea__ops_prepare(struct rea__db *db);
/* Do an operation inside the transaction. 0: op->result tells how it went. An error: the transaction has to be rolled back. */
int rea__op_execute(struct rea__sqlite *sqlite, struct rea__op *op);
/* Inside a transaction: begin where the last process ended. */
int rea__ops_recover(struct rea__sqlite *sqlite, const struct rea_store_clock *now);
/* Inside a transaction: something to sync. */
int rea__ops_touch(struct rea__sqlite *sqlite);
int rea__ops_set_number(struct rea__sqlite *sqlite, const char *name, int64_t value);
/* Inside a transaction: give back what was written down ahead. */
int rea__ops_settle(struct rea__sqlite *sqlite);

/* ---- keys and business ids (names.c), inside a transaction ---- */

enum rea__name_kind { REA__NAME_KEY, REA__NAME_BIZ_ID };

/* The statements that names are found and folded with; ops.c prepares them. */
enum rea__names_statement {
	REA__NAMES_KEY_OF,
	REA__NAMES_FIND,
	REA__NAMES_INSERT,
	REA__NAMES_DELETE,
	REA__NAMES_SINCE
};
sqlite3_stmt *rea__names_statement(const struct rea__sqlite *sqlite, enum rea__names_statement which);

uint64_t rea__name_hash(uint64_t seed, enum rea__name_kind kind, struct rea_text text);
/* A task came. Empty names are none. */
int rea__names_add(struct rea__sqlite *sqlite, uint64_t id, struct rea_text key, struct rea_text biz_id);
/* It is gone. */
int rea__names_remove(struct rea__sqlite *sqlite, uint64_t id, struct rea_text key, struct rea_text biz_id);
/* 1: the task that has this key, 0: none has, else an error. */
int rea__names_find_key(struct rea__sqlite *sqlite, struct rea_text key, uint64_t *ret_id, uint8_t ret_fingerprint[16]);
/* A bit of folding, if it is time. */
int rea__names_fold(struct rea__sqlite *sqlite);
/* Begin with what the file says; ids are known. */
int rea__names_start(struct rea__sqlite *sqlite, uint64_t seed, uint64_t folded_id);
/* Make memory again from the table. */
int rea__names_load(struct rea__sqlite *sqlite);
void rea__names_fini(struct rea__names *names, const struct rea_alloc *alloc);

/* ---- backup (backup.c) ---- */

/* The operation is the backup's from now on; false: it is finished, its result tells why. */
bool rea__backup_begin(struct rea__sqlite *sqlite, struct rea__op *op);
/* Between transactions: a piece more. */
void rea__backup_step(struct rea__sqlite *sqlite);
/* Give up, if there is one, with this result. */
void rea__backup_abort(struct rea__sqlite *sqlite, int error);

/* ---- reads (reader.c) ---- */

int rea__sqlite_reader_new(struct rea_store *store, struct rea_store_reader **ret_reader);
void rea__sqlite_reader_free(struct rea_store_reader *reader);
int rea__sqlite_get(struct rea_store_reader *reader, uint64_t id, struct rea_store_task *ret_task);
int rea__sqlite_list(struct rea_store_reader *reader, const struct rea_store_filter *filter, struct rea_store_page *ret_page);
int rea__sqlite_attempts(struct rea_store_reader *reader, uint64_t id, uint32_t after, uint32_t max,
    const struct rea_store_attempt **ret_attempts, size_t *ret_attempts_len);

#endif
