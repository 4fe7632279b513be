/*
 * Durable tasks in one SQLite file (librea-sqlite): WAL, synchronous=FULL, one thread that writes and commits whatever has queued.
 *
 * A commit that fails (a sync, a full disk) ends all acknowledging: its operations and all later ones fail with REA_ERR_IO. The store then
 * writes what is acknowledged from the log into the database, opens it anew, checks that all of it is there, and resumes by itself;
 * rea_store_status tells. Nothing that was acknowledged is lost.
 */
#ifndef REA_STORE_SQLITE_H
#define REA_STORE_SQLITE_H

#include <rea/store.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rea_store_sqlite_options {
	struct rea_store_options store; /* rea_store_sqlite_options_init fills it too */
	const char *path;  /* of the database; beside it stand PATH-wal, PATH-shm, PATH-lock. Copied; no default */
	const char *vfs;   /* a registered sqlite3_vfs; default NULL = SQLite's own. Copied */
	uint64_t size_max; /* of the database in bytes, at least 1 MiB; default 0 = as the disk allows */
	uint32_t cache_bytes; /* pages kept in memory by the writer, 64 KiB..1 GiB, default 8 MiB; a reader keeps a quarter */
	bool sync_off; /* acknowledge what a power cut may lose: to measure by, and to show that tests find it. Default false */
};
REA_API void rea_store_sqlite_options_init(struct rea_store_sqlite_options *options);

/* options: copied. Makes the database if there is none; brings an older schema up to date; a task that was RUNNING is RETRYING, with an
 * interrupted attempt. Waits for the disk: with a million open tasks for about a second. Returns 0, or with ret_info (may be NULL):
 * REA_ERR_INVALID (an option; no database of ours; a schema newer than this library), REA_ERR_BUSY (another process has it open),
 * REA_ERR_CORRUPT, REA_ERR_IO, REA_ERR_NOMEM. */
REA_API int rea_store_sqlite_open(
    const struct rea_store_sqlite_options *options, struct rea_store **ret_store, struct rea_error_info *ret_info);

/* Copy the database to a new file while it is in use, a piece between every two commits. path: copied; no file yet; it appears when it is
 * complete and on disk. store: of rea_store_sqlite_open. Returns as an operation; result: 0, CONFLICT (a backup is under way, or the file
 * exists), REA_ERR_IO. */
REA_API int rea_store_sqlite_backup(struct rea_store *store, const char *path,
    void (*done)(const struct rea_store_result *result, void *user_data), void *user_data);

#ifdef __cplusplus
}
#endif
#endif
