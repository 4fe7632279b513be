#include "shim.h"

#include <rea/random.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX 8
#define SECTOR 512

enum fate { NOTHING, FAIL_ONCE, FAIL_FOR_GOOD, KILL, CUT };

/* What a sync has brought to the disk of one file. */
struct image {
	char path[512];
	char *durable;
	size_t durable_len;
	/* written since then */
	struct {
		size_t start;
		size_t end;
	} * writes;
	size_t writes_len;
};

static struct {
	sqlite3_vfs vfs;
	sqlite3_vfs *real;
	pthread_mutex_t mutex;
	bool tracks;
	uint64_t counts[4];
	uint64_t left; /* operations of `kinds` until something happens; 0 = never */
	enum shim_kinds kinds;
	enum fate fate;
	bool failing;
	bool failed;
	bool cut;
	struct image images[FILES_MAX];
	size_t images_len;
} shim = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* The real file follows it in memory. */
struct shim_file {
	sqlite3_file base;
	struct image *image; /* NULL = not tracked */
};

static sqlite3_file *real_of(sqlite3_file *file)
{
	return (sqlite3_file *)(void *)((struct shim_file *)(void *)file + 1);
}

/* ---- what happens to an operation ---- */

/* False: it fails. The mutex is held. */
static bool counted(enum shim_kinds kind)
{
	for (int i = 0; i < 4; i++)
		shim.counts[i] += (kind & 1 << i) != 0;
	if (shim.cut)
		return false;
	if (shim.failing && (shim.kinds & kind) != 0)
		return false;
	if (shim.left == 0 || (shim.kinds & kind) == 0 || --shim.left > 0)
		return true;
	if (shim.fate == KILL)
		kill(getpid(), SIGKILL);
	shim.cut = shim.fate == CUT;
	shim.failing = shim.fate == FAIL_FOR_GOOD;
	shim.failed = true;
	return false;
}

static void note_write(struct image *image, size_t start, size_t end)
{
	if (image == NULL)
		return;
	image->writes = realloc(image->writes, (image->writes_len + 1) * sizeof(*image->writes));
	image->writes[image->writes_len].start = start;
	image->writes[image->writes_len++].end = end;
}

static void grow(struct image *image, size_t length)
{
	if (length > image->durable_len) {
		image->durable = realloc(image->durable, length);
		memset(image->durable + image->durable_len, 0, length - image->durable_len);
	}
	image->durable_len = length;
}

/* What was written is on the disk now. */
static void make_durable(struct image *image)
{
	int fd = open(image->path, O_RDONLY);
	struct stat file;

	if (fd < 0 || fstat(fd, &file) != 0)
		abort();
	grow(image, (size_t)file.st_size);
	for (size_t i = 0; i < image->writes_len; i++) {
		size_t start = image->writes[i].start, end = image->writes[i].end;

		if (end > image->durable_len)
			end = image->durable_len;
		if (start < end && pread(fd, image->durable + start, end - start, (off_t)start) != (ssize_t)(end - start))
			abort();
	}
	image->writes_len = 0;
	close(fd);
}

/* ---- files ---- */

static int shim_close(sqlite3_file *file)
{
	return real_of(file)->pMethods->xClose(real_of(file));
}

static int shim_read(sqlite3_file *file, void *buffer, int amount, sqlite3_int64 offset)
{
	int code = SQLITE_IOERR_READ;

	pthread_mutex_lock(&shim.mutex);
	if (counted(SHIM_READS))
		code = real_of(file)->pMethods->xRead(real_of(file), buffer, amount, offset);
	pthread_mutex_unlock(&shim.mutex);
	return code;
}

static int shim_write(sqlite3_file *file, const void *buffer, int amount, sqlite3_int64 offset)
{
	int code = SQLITE_IOERR_WRITE;

	pthread_mutex_lock(&shim.mutex);
	if (counted(SHIM_WRITES)) {
		note_write(((struct shim_file *)(void *)file)->image, (size_t)offset, (size_t)offset + (size_t)amount);
		code = real_of(file)->pMethods->xWrite(real_of(file), buffer, amount, offset);
	}
	pthread_mutex_unlock(&shim.mutex);
	return code;
}

static int shim_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	int code = SQLITE_IOERR_TRUNCATE;

	pthread_mutex_lock(&shim.mutex);
	if (counted(SHIM_OTHERS))
		code = real_of(file)->pMethods->xTruncate(real_of(file), size);
	pthread_mutex_unlock(&shim.mutex);
	return code;
}

static int shim_sync(sqlite3_file *file, int flags)
{
	struct image *image = ((struct shim_file *)(void *)file)->image;
	int code = SQLITE_IOERR_FSYNC;

	(void)flags;
	pthread_mutex_lock(&shim.mutex);
	if (counted(SHIM_SYNCS)) {
		code = SQLITE_OK; /* what is to be on the disk is in the image */
		if (image != NULL)
			make_durable(image);
	}
	pthread_mutex_unlock(&shim.mutex);
	return code;
}

static int shim_size(sqlite3_file *file, sqlite3_int64 *ret_size)
{
	return real_of(file)->pMethods->xFileSize(real_of(file), ret_size);
}

static int shim_lock(sqlite3_file *file, int lock)
{
	return real_of(file)->pMethods->xLock(real_of(file), lock);
}

static int shim_unlock(sqlite3_file *file, int lock)
{
	return real_of(file)->pMethods->xUnlock(real_of(file), lock);
}

static int shim_check_lock(sqlite3_file *file, int *ret_reserved)
{
	return real_of(file)->pMethods->xCheckReservedLock(real_of(file), ret_reserved);
}

static int shim_control(sqlite3_file *file, int op, void *argument)
{
	return real_of(file)->pMethods->xFileControl(real_of(file), op, argument);
}

static int shim_sector_size(sqlite3_file *file)
{
	return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int shim_characteristics(sqlite3_file *file)
{
	return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int shim_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **ret_map)
{
	return real_of(file)->pMethods->xShmMap(real_of(file), page, size, extend, ret_map);
}

static int shim_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
	return real_of(file)->pMethods->xShmLock(real_of(file), offset, count, flags);
}

static void shim_shm_barrier(sqlite3_file *file)
{
	real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int shim_shm_unmap(sqlite3_file *file, int delete_it)
{
	return real_of(file)->pMethods->xShmUnmap(real_of(file), delete_it);
}

static const sqlite3_io_methods methods = {2, shim_close, shim_read, shim_write, shim_truncate, shim_sync, shim_size,
    shim_lock, shim_unlock, shim_check_lock, shim_control, shim_sector_size, shim_characteristics, shim_shm_map,
    shim_shm_lock, shim_shm_barrier, shim_shm_unmap, NULL, NULL};

static struct image *image_of(const char *path)
{
	struct image *image;

	for (size_t i = 0; i < shim.images_len; i++)
		if (strcmp(shim.images[i].path, path) == 0)
			return &shim.images[i];
	if (shim.images_len == FILES_MAX)
		abort();
	image = &shim.images[shim.images_len++];
	memset(image, 0, sizeof(*image));
	strncpy(image->path, path, sizeof(image->path) - 1);
	if (access(path, F_OK) == 0) { /* it was there before: all of it */
		note_write(image, 0, SIZE_MAX);
		make_durable(image);
	}
	return image;
}

/* ---- the file system ---- */

static int shim_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags, int *ret_flags)
{
	struct shim_file *opened = (struct shim_file *)(void *)file;
	int code;

	(void)vfs;
	memset(opened, 0, sizeof(*opened));
	pthread_mutex_lock(&shim.mutex);
	if (shim.tracks && path != NULL && (flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL)) != 0)
		opened->image = image_of(path);
	code = shim.cut ? SQLITE_CANTOPEN : shim.real->xOpen(shim.real, path, real_of(file), flags, ret_flags);
	pthread_mutex_unlock(&shim.mutex);
	if (code == SQLITE_OK || (!shim.cut && real_of(file)->pMethods != NULL))
		opened->base.pMethods = &methods;
	return code;
}

static int shim_delete(sqlite3_vfs *vfs, const char *path, int sync_directory)
{
	int code = SQLITE_IOERR_DELETE;

	(void)vfs;
	pthread_mutex_lock(&shim.mutex);
	if (counted(SHIM_OTHERS)) {
		code = shim.real->xDelete(shim.real, path, sync_directory);
		for (size_t i = 0; i < shim.images_len; i++)
			if (code == SQLITE_OK && strcmp(shim.images[i].path, path) == 0)
				shim.images[i].durable_len = shim.images[i].writes_len = 0;
	}
	pthread_mutex_unlock(&shim.mutex);
	return code;
}

void shim_install(bool tracks)
{
	shim.real = sqlite3_vfs_find(NULL);
	shim.vfs = *shim.real;
	shim.vfs.zName = SHIM_NAME;
	shim.vfs.szOsFile = (int)sizeof(struct shim_file) + shim.real->szOsFile;
	shim.vfs.pNext = NULL;
	shim.vfs.xOpen = shim_open;
	shim.vfs.xDelete = shim_delete;
	shim.tracks = tracks;
	if (sqlite3_vfs_register(&shim.vfs, 0) != SQLITE_OK)
		abort();
}

void shim_reset(void)
{
	pthread_mutex_lock(&shim.mutex);
	for (size_t i = 0; i < shim.images_len; i++) {
		free(shim.images[i].durable);
		free(shim.images[i].writes);
	}
	shim.images_len = 0;
	memset(shim.counts, 0, sizeof(shim.counts));
	shim.left = 0;
	shim.failing = shim.failed = shim.cut = false;
	pthread_mutex_unlock(&shim.mutex);
}

uint64_t shim_count(enum shim_kinds kinds)
{
	uint64_t count = 0;

	pthread_mutex_lock(&shim.mutex);
	for (int i = 0; i < 4; i++)
		count += kinds & 1 << i ? shim.counts[i] : 0;
	pthread_mutex_unlock(&shim.mutex);
	return count;
}

static void plan(uint64_t n, enum shim_kinds kinds, enum fate fate)
{
	pthread_mutex_lock(&shim.mutex);
	shim.left = n;
	shim.kinds = kinds;
	shim.fate = fate;
	shim.failing = shim.failed = false;
	pthread_mutex_unlock(&shim.mutex);
}

void shim_fail(uint64_t n, enum shim_kinds kinds, bool for_good)
{
	plan(n, kinds, for_good ? FAIL_FOR_GOOD : FAIL_ONCE);
}

void shim_kill(uint64_t n)
{
	plan(n, SHIM_CHANGES, KILL);
}

void shim_cut(uint64_t n)
{
	plan(n, SHIM_CHANGES, CUT);
}

bool shim_failed(void)
{
	bool failed;

	pthread_mutex_lock(&shim.mutex);
	failed = shim.failed;
	pthread_mutex_unlock(&shim.mutex);
	return failed;
}

void shim_heal(void)
{
	plan(0, SHIM_CHANGES, NOTHING);
}

/* Sector by sector what is there, or what the last sync left; beyond the end of that, nothing. */
static void restore(struct image *image, struct rea_random *random, bool mixed)
{
	int fd = open(image->path, O_RDWR);
	struct stat file;
	size_t durable_len = image->durable_len, length;

	if (fd < 0)
		return; /* it never came to be, or is gone */
	if (fstat(fd, &file) != 0)
		abort();
	length = durable_len;
	if (mixed && (size_t)file.st_size > durable_len && rea_random_below(random, 4) > 0)
		length = (size_t)file.st_size;
	grow(image, length > durable_len ? length : durable_len);
	for (size_t at = 0; at < image->durable_len; at += SECTOR) {
		size_t amount = image->durable_len - at < SECTOR ? image->durable_len - at : SECTOR;

		if (mixed && rea_random_below(random, 2) == 0)
			continue;
		if (pwrite(fd, image->durable + at, amount, (off_t)at) != (ssize_t)amount)
			abort();
	}
	if (ftruncate(fd, (off_t)length) != 0)
		abort();
	close(fd);
}

void shim_restore(uint64_t seed)
{
	struct rea_random random;

	rea_random_init(&random, seed);
	for (size_t i = 0; i < shim.images_len; i++)
		restore(&shim.images[i], &random, seed != 0);
}
