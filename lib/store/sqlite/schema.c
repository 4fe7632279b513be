/*
 * The tables, and how they came to be as they are.
 *
 *   task     open tasks, narrow: what a change of state touches
 *   done     tasks that are over; a replay moves them back
 *   spec     what a task is; written once, gone with it
 *   name     hashes of keys and business ids, and the tasks that have them (names.c)
 *   attempt  the log of attempts
 *   meta     numbers and names about the file itself
 *
 * task has no index by state or time: one costs half the rate. Two small ones serve instead: of rows that wait beyond the horizon, which the
 * writer need not touch while it is busy with what is due, and of the few rows that are RUNNING.
 */
#include "store/sqlite/sqlite.h"

#include <stdio.h>

#define APPLICATION_ID 0x72656101 /* "rea", 1 */

/* Each brings the schema one version up. What stands here is in files out there and is never changed. */
/* clang-format off */
static const char *const migrations[] = {
    "PRAGMA application_id=1919246593;"
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE task (id INTEGER PRIMARY KEY, state INTEGER NOT NULL, generation INTEGER NOT NULL,"
    " attempt INTEGER NOT NULL, attempts_before INTEGER NOT NULL, crashes INTEGER NOT NULL, claim INTEGER NOT NULL,"
    " due_ns INTEGER NOT NULL, updated_ns INTEGER NOT NULL, later INTEGER NOT NULL, target TEXT NOT NULL) STRICT;"
    "CREATE INDEX task_later ON task (due_ns) WHERE later = 1;"
    "CREATE INDEX task_running ON task (due_ns) WHERE state = 1;"
    "CREATE TABLE done (id INTEGER PRIMARY KEY, state INTEGER NOT NULL, generation INTEGER NOT NULL,"
    " attempt INTEGER NOT NULL, attempts_before INTEGER NOT NULL, crashes INTEGER NOT NULL, updated_ns INTEGER NOT NULL,"
    " target TEXT NOT NULL, reason TEXT NOT NULL) STRICT;"
    "CREATE TABLE spec (id INTEGER PRIMARY KEY, submitted_ns INTEGER NOT NULL, biz_id TEXT NOT NULL, key TEXT NOT NULL,"
    " fingerprint BLOB NOT NULL, payload BLOB NOT NULL) STRICT;"
    "CREATE TABLE name (hash INTEGER NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (hash, id)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE attempt (id INTEGER NOT NULL, number INTEGER NOT NULL, generation INTEGER NOT NULL,"
    " interrupted INTEGER NOT NULL, outcome TEXT NOT NULL, code_kind INTEGER NOT NULL, code INTEGER NOT NULL,"
    " start_ns INTEGER NOT NULL, cost_ns INTEGER NOT NULL, instance TEXT NOT NULL, reason TEXT NOT NULL,"
    " detail TEXT NOT NULL, PRIMARY KEY (id, number)) STRICT, WITHOUT ROWID;"
    "INSERT INTO meta VALUES ('ids', 1), ('claims', 1), ('touched', 0), ('folded_id', 1), ('seed', random()),"
    " ('boot_id', ''), ('boot_offset_ns', 0);",
};
/* clang-format on */

_Static_assert(APPLICATION_ID == 1919246593, "as in the first migration");

const struct rea__schema rea__store_schema = {APPLICATION_ID, migrations, sizeof(migrations) / sizeof(migrations[0])};

int rea__db_number(struct rea__db *db, const char *sql, int64_t *ret_number)
{
	sqlite3_stmt *statement;
	int error = rea__db_error(sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL));

	if (error != 0)
		return error;
	error = rea__step(statement);
	if (error == 1)
		*ret_number = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return error == 1 ? 0 : error == 0 ? REA_ERR_CORRUPT : error;
}

static int check_owner(struct rea__db *db, const struct rea__schema *schema, int64_t version, char *message, size_t message_size)
{
	int64_t application = 0, tables = 0;
	int error = rea__db_number(db, "PRAGMA application_id", &application);

	if (error == 0)
		error = rea__db_number(db, "SELECT count(*) FROM sqlite_schema", &tables);
	if (error != 0)
		return error;
	if (application != schema->application_id && (application != 0 || version != 0 || tables != 0)) {
		snprintf(message, message_size, "this is a database of another program");
		return REA_ERR_INVALID;
	}
	if (version < 0 || version > (int64_t)schema->migrations_len) {
		snprintf(message, message_size,
		    "its schema has version %lld, this library knows up to %lld: use the newer rea that wrote it",
		    (long long)version, (long long)schema->migrations_len);
		return REA_ERR_INVALID;
	}
	return 0;
}

static int migrate(struct rea__db *db, const struct rea__schema *schema, int64_t version)
{
	char sql[64];
	int error = 0;

	for (; version < (int64_t)schema->migrations_len && error == 0; version++)
		error = rea__db_exec(db, schema->migrations[version]);
	snprintf(sql, sizeof(sql), "PRAGMA user_version=%zu", schema->migrations_len);
	return error != 0 ? error : rea__db_exec(db, sql);
}

int rea__schema_prepare(struct rea__db *db, const struct rea__schema *schema, char *message, size_t message_size)
{
	int64_t version = 0;
	int error = rea__db_exec(db, "BEGIN IMMEDIATE");

	message[0] = '\0';
	if (error == 0)
		error = rea__db_number(db, "PRAGMA user_version", &version);
	if (error == 0)
		error = check_owner(db, schema, version, message, message_size);
	if (error == 0 && version < (int64_t)schema->migrations_len)
		error = migrate(db, schema, version);
	if (error == 0)
		error = rea__db_exec(db, "COMMIT");
	if (error == 0)
		return 0;
	if (message[0] == '\0')
		rea__db_describe(db, message, message_size);
	if (!sqlite3_get_autocommit(db->handle))
		rea__db_exec(db, "ROLLBACK");
	return error;
}

static const char census_sql[] =
    "SELECT count(*), sum(state = 0), sum(state = 1), sum(state = 2), 0, 0, 0, max(updated_ns), max(id) FROM task "
    "UNION ALL "
    "SELECT count(*), 0, 0, 0, sum(state = 3), sum(state = 4), sum(state = 5), max(updated_ns), max(id) FROM done";

static void add_half(sqlite3_stmt *statement, struct rea__census *census)
{
	uint64_t rows = (uint64_t)sqlite3_column_int64(statement, 0);
	int64_t seen_ns = sqlite3_column_int64(statement, 7);
	uint64_t id_max = (uint64_t)sqlite3_column_int64(statement, 8);

	if (rows == 0)
		return;
	census->damaged += rows;
	for (int i = 0; i < REA_STORE_STATE_COUNT; i++) {
		census->counts[i] += (uint64_t)sqlite3_column_int64(statement, i + 1);
		census->damaged -= (uint64_t)sqlite3_column_int64(statement, i + 1);
	}
	if (census->seen_ns < seen_ns)
		census->seen_ns = seen_ns;
	if (census->id_max < id_max)
		census->id_max = id_max;
}

int rea__census(struct rea__db *db, struct rea__census *ret_census)
{
	struct rea__census census = {.seen_ns = INT64_MIN};
	sqlite3_stmt *statement;
	int error = rea__db_error(sqlite3_prepare_v2(db->handle, census_sql, -1, &statement, NULL));

	if (error != 0)
		return error;
	while ((error = rea__step(statement)) == 1)
		add_half(statement, &census);
	sqlite3_finalize(statement);
	if (error == 0)
		*ret_census = census;
	return error;
}
