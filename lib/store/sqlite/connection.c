/* One connection to the database: how it is opened, its statements, and what SQLite's codes mean to us. */
#include "store/sqlite/sqlite.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define BUSY_MS 5000
#define LOG_BYTES_KEPT (64 << 20) /* what a log that once grew may keep of the disk */

int rea__db_error(int code)
{
	switch (code & 0xff) {
	case SQLITE_OK:
	case SQLITE_ROW:
	case SQLITE_DONE:
		return 0;
	case SQLITE_NOMEM:
		return REA_ERR_NOMEM;
	case SQLITE_IOERR:
		return code == SQLITE_IOERR_NOMEM ? REA_ERR_NOMEM : REA_ERR_IO;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	case SQLITE_CONSTRAINT:
	case SQLITE_MISMATCH:
	case SQLITE_ERROR: /* the schema lacks what our statements name */
		return REA_ERR_CORRUPT;
	default:
		return REA_ERR_IO;
	}
}

void rea__db_describe(const struct rea__db *db, char *text, size_t size)
{
	char why[64];

	if (db->handle == NULL)
		snprintf(text, size, "the database is not open");
	else if (sqlite3_system_errno(db->handle) == 0)
		snprintf(text, size, "%s (SQLite code %d)", sqlite3_errmsg(db->handle), sqlite3_extended_errcode(db->handle));
	else
		snprintf(text, size, "%s (SQLite code %d, errno %d: %s)", sqlite3_errmsg(db->handle),
		    sqlite3_extended_errcode(db->handle), sqlite3_system_errno(db->handle),
		    strerror_r(sqlite3_system_errno(db->handle), why, sizeof(why)));
}

int rea__db_exec(struct rea__db *db, const char *sql)
{
	return rea__db_error(sqlite3_exec(db->handle, sql, NULL, NULL, NULL));
}

static int pragma(struct rea__db *db, const char *name, long long value)
{
	char sql[80];

	snprintf(sql, sizeof(sql), "PRAGMA %s=%lld", name, value);
	return rea__db_exec(db, sql);
}

static int answer_is_wal(void *ret_wal, int columns, char **texts, char **names)
{
	(void)names;
	*(bool *)ret_wal = columns == 1 && texts[0] != NULL && sqlite3_stricmp(texts[0], "wal") == 0;
	return 0;
}

static int set_log_mode(struct rea__db *db, char *message, size_t message_size)
{
	bool wal = false;
	int code = sqlite3_exec(db->handle, "PRAGMA journal_mode=WAL", answer_is_wal, &wal, NULL);

	if (code == SQLITE_OK && wal)
		return 0;
	if (code != SQLITE_OK)
		return rea__db_error(code);
	snprintf(message, message_size, "the file system does not bear a write-ahead log");
	return REA_ERR_INVALID;
}

static long long pages_max(uint64_t size_max)
{
	uint64_t pages = size_max / REA__PAGE_SIZE;

	return pages == 0 || pages > UINT32_MAX - 1 ? UINT32_MAX - 1 : (long long)pages;
}

/* secure_delete is on in some distributions: every deleted row would be written once more as zeros. */
static int configure(struct rea__db *db, const struct rea__db_options *options, char *message, size_t message_size)
{
	int error = 0;

	sqlite3_extended_result_codes(db->handle, 1);
	sqlite3_busy_timeout(db->handle, BUSY_MS);
	sqlite3_db_config(db->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(db->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	if (error == 0)
		error = pragma(db, "cache_size", -(long long)(options->cache_bytes / 1024));
	if (error == 0)
		error = rea__db_exec(db, "PRAGMA temp_store=MEMORY; PRAGMA mmap_size=0; PRAGMA cell_size_check=ON");
	if (error != 0 || !options->writes)
		return error != 0 ? error : pragma(db, "query_only", 1);
	error = pragma(db, "page_size", REA__PAGE_SIZE);
	if (error == 0)
		error = rea__db_exec(db, "PRAGMA auto_vacuum=INCREMENTAL; PRAGMA secure_delete=OFF");
	if (error == 0)
		error = set_log_mode(db, message, message_size);
	if (error == 0)
		error = pragma(db, "max_page_count", pages_max(options->size_max));
	if (error == 0)
		error = pragma(db, "journal_size_limit", LOG_BYTES_KEPT);
	return error;
}

/* Requests hold what is nobody else's business. SQLite gives the files beside it the mode of the database. What cannot be made here is told by
 * SQLite. */
static void make_private(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);

	/* Only one that was made here: closing a second descriptor of an open database would give up SQLite's locks. */
	if (fd >= 0)
		close(fd);
}

int rea__db_open(struct rea__db *db, const struct rea__db_options *options, char *message, size_t message_size)
{
	int flags = SQLITE_OPEN_NOMUTEX;
	int error;

	memset(db, 0, sizeof(*db));
	message[0] = '\0';
	if (options->writes && options->vfs == NULL)
		make_private(options->path);
	flags |= options->writes ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
	error = rea__db_error(sqlite3_open_v2(options->path, &db->handle, flags, options->vfs));
	if (error == 0)
		error = configure(db, options, message, message_size);
	if (error == 0)
		return 0;
	if (message[0] == '\0')
		rea__db_describe(db, message, message_size);
	rea__db_close(db);
	return error;
}

int rea__db_lock(const char *path, int *ret_fd, char *message, size_t message_size)
{
	char lock_path[4096], why[64];
	int fd, error;

	if ((size_t)snprintf(lock_path, sizeof(lock_path), "%s-lock", path) >= sizeof(lock_path)) {
		snprintf(message, message_size, "the path is too long");
		return REA_ERR_INVALID;
	}
	fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
	if (fd < 0) {
		error = errno;
		snprintf(message, message_size, "its lock file cannot be opened (errno %d: %s)", error,
		    strerror_r(error, why, sizeof(why)));
		return REA_ERR_IO;
	}
	if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
		*ret_fd = fd;
		return 0;
	}
	error = errno == EWOULDBLOCK ? REA_ERR_BUSY : REA_ERR_IO;
	snprintf(message, message_size, "another process has it open");
	close(fd);
	return error;
}

int rea__db_prepare(struct rea__db *db, const char *const *sql, size_t count)
{
	assert(count <= REA__STATEMENTS_MAX && db->statements_len == 0);
	for (size_t i = 0; i < count; i++) {
		int code = sqlite3_prepare_v3(db->handle, sql[i], -1, SQLITE_PREPARE_PERSISTENT, &db->statements[i], NULL);

		if (code != SQLITE_OK)
			return rea__db_error(code);
		db->statements_len++;
	}
	return 0;
}

void rea__db_close(struct rea__db *db)
{
	int code;

	for (size_t i = 0; i < db->statements_len; i++)
		sqlite3_finalize(db->statements[i]);
	code = sqlite3_close(db->handle);
	assert(code == SQLITE_OK);
	(void)code;
	memset(db, 0, sizeof(*db));
}

int rea__step(sqlite3_stmt *statement)
{
	int code = sqlite3_step(statement);

	if (code == SQLITE_ROW)
		return 1;
	sqlite3_reset(statement);
	return rea__db_error(code);
}

int rea__run(sqlite3_stmt *statement)
{
	int code = sqlite3_step(statement);

	sqlite3_reset(statement);
	return rea__db_error(code);
}

void rea__bind_text(sqlite3_stmt *statement, int index, struct rea_text text)
{
	sqlite3_bind_text64(statement, index, text.length > 0 ? text.text : "", text.length, SQLITE_STATIC, SQLITE_UTF8);
}

void rea__bind_u64(sqlite3_stmt *statement, int index, uint64_t value)
{
	assert(value <= INT64_MAX);
	sqlite3_bind_int64(statement, index, (int64_t)value);
}
