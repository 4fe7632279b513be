/*
 * A copy of the database while it is in use. The pieces are copied between the writer's transactions on the writer's own connection, so what is
 * written meanwhile goes into the copy too, and no old state of the log has to be kept for it.
 *
 * The copy grows under another name and gets its own when it is complete and synced.
 */
#include "store/sqlite/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define PAGES_PER_STEP 64
#define PATH_MAX_BYTES 4096

struct rea__backup {
	struct rea__op *op;
	sqlite3 *copy;
	sqlite3_backup *pages;
	char part[PATH_MAX_BYTES]; /* the name it grows under */
};

static bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

/* The file is gone, or was never there. */
static void release(struct rea__sqlite *sqlite, struct rea__backup *backup)
{
	const struct rea_alloc *alloc = &sqlite->store.alloc;

	sqlite3_backup_finish(backup->pages);
	sqlite3_close(backup->copy);
	unlink(backup->part);
	alloc->free(backup, alloc->user_data);
}

static int start(struct rea__sqlite *sqlite, struct rea__backup *backup, const char *path)
{
	int code;

	if ((size_t)snprintf(backup->part, sizeof(backup->part), "%s.part", path) >= sizeof(backup->part))
		return REA_ERR_IO;
	unlink(backup->part); /* of a backup that was killed */
	code = sqlite3_open_v2(backup->part, &backup->copy,
	    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, sqlite->db_options.vfs);
	if (code == SQLITE_OK)
		backup->pages = sqlite3_backup_init(backup->copy, "main", sqlite->db.handle, "main");
	return backup->pages != NULL ? 0 : REA_ERR_IO;
}

bool rea__backup_begin(struct rea__sqlite *sqlite, struct rea__op *op)
{
	const struct rea_alloc *alloc = &sqlite->store.alloc;
	struct rea__backup *backup;

	op->result.error = REA_ERR_CONFLICT;
	if (sqlite->backup != NULL || exists(op->in.backup.path))
		return false;
	op->result.error = REA_ERR_NOMEM;
	backup = alloc->realloc(NULL, sizeof(*backup), alloc->user_data);
	if (backup == NULL)
		return false;
	memset(backup, 0, sizeof(*backup));
	op->result.error = start(sqlite, backup, op->in.backup.path);
	if (op->result.error != 0) {
		release(sqlite, backup);
		return false;
	}
	backup->op = op;
	sqlite->backup = backup;
	return true;
}

static void conclude(struct rea__sqlite *sqlite, int error)
{
	struct rea__backup *backup = sqlite->backup;
	struct rea__ops ops = {NULL, NULL};

	backup->op->result.error = error;
	rea__ops_push(&ops, backup->op);
	sqlite->backup = NULL;
	release(sqlite, backup);
	rea__store_complete(&sqlite->store, &ops);
}

void rea__backup_abort(struct rea__sqlite *sqlite, int error)
{
	if (sqlite->backup != NULL)
		conclude(sqlite, error);
}

/* A name is on disk when its directory is. */
static int sync_directory(const char *path)
{
	char directory[PATH_MAX_BYTES];
	char *slash;
	int fd, error;

	snprintf(directory, sizeof(directory), "%s", path);
	slash = strrchr(directory, '/');
	if (slash != NULL)
		slash[slash == directory ? 1 : 0] = '\0';
	fd = open(slash != NULL ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return REA_ERR_IO;
	error = fsync(fd) == 0 ? 0 : REA_ERR_IO;
	close(fd);
	return error;
}

/* All pages are there: SQLite syncs the copy as it commits it. A file that got the name meanwhile stays. */
static int give_name(struct rea__backup *backup)
{
	const char *path = backup->op->in.backup.path;
	int code = sqlite3_backup_finish(backup->pages);

	backup->pages = NULL;
	if (code == SQLITE_OK)
		code = sqlite3_close(backup->copy);
	if (code != SQLITE_OK)
		return REA_ERR_IO;
	backup->copy = NULL;
	if (link(backup->part, path) != 0)
		return errno == EEXIST ? REA_ERR_CONFLICT : REA_ERR_IO;
	return sync_directory(path);
}

void rea__backup_step(struct rea__sqlite *sqlite)
{
	int code = sqlite3_backup_step(sqlite->backup->pages, PAGES_PER_STEP);

	if (code == SQLITE_DONE)
		conclude(sqlite, give_name(sqlite->backup));
	else if (code != SQLITE_OK && code != SQLITE_BUSY && code != SQLITE_LOCKED)
		conclude(sqlite, REA_ERR_IO);
}
