/*
 * A disk that forgets what was not synced, for one program: LD_PRELOAD it into `rea torture`.
 *
 * The store's files are opened as copies beside them (NAME.cache), made anew from the files by each process; a sync brings what was written since the
 * last one from the copy to the file. What a process had not synced when it was killed is therefore gone, as after a power cut.
 * LYING_DISK says how often a sync is one: 1 always, 3 every third time, 0 never; the others only say so.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define IMAGES 8
#define FDS 4096
#define PATH_BYTES 1024

struct image {
	char path[PATH_BYTES], copy[PATH_BYTES];
	int disk; /* the file itself */
	struct range {
		off_t start, end;
	} * ranges; /* written since the last sync */
	size_t len, max;
};

static struct image images[IMAGES];
static size_t images_len;
static struct image *by_fd[FDS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned long syncs;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static bool is_ours(const char *path)
{
	const char *name = path != NULL ? strrchr(path, '/') : NULL;

	return name != NULL && strstr(path, "/rea-torture-") != NULL &&
	       (strcmp(name, "/tasks.db") == 0 || strcmp(name, "/tasks.db-wal") == 0 ||
		   strcmp(name, "/tasks.db-journal") == 0);
}

static void copy_range(int from, int to, off_t start, off_t end)
{
	char buffer[65536];

	while (start < end) {
		size_t want = (size_t)(end - start) < sizeof(buffer) ? (size_t)(end - start) : sizeof(buffer);
		ssize_t length = pread(from, buffer, want, start);

		if (length <= 0)
			return;
		if (REAL(pwrite)(to, buffer, (size_t)length, start) != length)
			abort();
		start += length;
	}
}

/* The mutex is held. */
static struct image *image_of(const char *path)
{
	struct image *image;
	int copy;

	for (size_t i = 0; i < images_len; i++)
		if (strcmp(images[i].path, path) == 0)
			return &images[i];
	if (images_len == IMAGES)
		abort();
	image = &images[images_len++];
	snprintf(image->path, sizeof(image->path), "%s", path);
	snprintf(image->copy, sizeof(image->copy), "%.1000s.cache", path);
	REAL(unlink)(image->copy);
	image->disk = REAL(open)(path, O_RDWR | O_CLOEXEC);
	if (image->disk < 0)
		return image;
	copy = REAL(open)(image->copy, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	copy_range(image->disk, copy, 0, lseek(image->disk, 0, SEEK_END));
	REAL(close)(copy);
	return image;
}

static void note(int fd, off_t start, off_t end)
{
	struct image *image = fd >= 0 && fd < FDS ? by_fd[fd] : NULL;

	if (image == NULL)
		return;
	pthread_mutex_lock(&mutex);
	if (image->len == image->max) {
		image->max = image->max ? image->max * 2 : 256;
		image->ranges = realloc(image->ranges, image->max * sizeof(*image->ranges));
	}
	image->ranges[image->len++] = (struct range){start, end};
	pthread_mutex_unlock(&mutex);
}

/* False: not a file of ours. */
static bool sync_image(int fd)
{
	struct image *image = fd >= 0 && fd < FDS ? by_fd[fd] : NULL;
	const char *every = getenv("LYING_DISK");
	unsigned long n = every != NULL ? strtoul(every, NULL, 10) : 1;
	struct stat copy;

	if (image == NULL)
		return false;
	pthread_mutex_lock(&mutex);
	if (n > 0 && ++syncs % n == 0 && fstat(fd, &copy) == 0) {
		if (image->disk < 0)
			image->disk = REAL(open)(image->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		for (size_t i = 0; i < image->len; i++)
			copy_range(fd, image->disk, image->ranges[i].start, image->ranges[i].end);
		if (REAL(ftruncate)(image->disk, copy.st_size) != 0)
			abort();
		image->len = 0;
	}
	pthread_mutex_unlock(&mutex);
	return true;
}

/* ---- what is in the way ---- */

/* NULL: not a file of ours. */
static struct image *find(const char *path)
{
	struct image *image;

	if (!is_ours(path))
		return NULL;
	pthread_mutex_lock(&mutex);
	image = image_of(path);
	pthread_mutex_unlock(&mutex);
	return image;
}

static int open_any(const char *path, int flags, mode_t mode)
{
	struct image *image = find(path);
	int fd;

	fd = REAL(open)(image != NULL ? image->copy : path, flags, mode);
	if (fd >= 0 && fd < FDS)
		by_fd[fd] = image;
	return fd;
}

int open(const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	return open_any(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	return open_any(path, flags, mode);
}

int close(int fd)
{
	if (fd >= 0 && fd < FDS)
		by_fd[fd] = NULL;
	return REAL(close)(fd);
}

ssize_t pwrite(int fd, const void *buffer, size_t length, off_t offset)
{
	ssize_t written = REAL(pwrite)(fd, buffer, length, offset);

	if (written > 0)
		note(fd, offset, offset + written);
	return written;
}

ssize_t pwrite64(int fd, const void *buffer, size_t length, off_t offset)
{
	return pwrite(fd, buffer, length, offset);
}

int fsync(int fd)
{
	return sync_image(fd) ? 0 : REAL(fsync)(fd);
}

int fdatasync(int fd)
{
	return sync_image(fd) ? 0 : REAL(fdatasync)(fd);
}

/* At once on the disk too. */
int unlink(const char *path)
{
	struct image *image;
	int result;

	if (!is_ours(path))
		return REAL(unlink)(path);
	pthread_mutex_lock(&mutex);
	image = image_of(path);
	image->len = 0;
	if (image->disk >= 0)
		REAL(close)(image->disk);
	image->disk = -1;
	REAL(unlink)(path);
	result = REAL(unlink)(image->copy);
	pthread_mutex_unlock(&mutex);
	return result;
}

int access(const char *path, int mode)
{
	struct image *image = find(path);

	return REAL(access)(image != NULL ? image->copy : path, mode);
}

int stat(const char *path, struct stat *ret_file)
{
	struct image *image = find(path);

	return REAL(stat)(image != NULL ? image->copy : path, ret_file);
}

int stat64(const char *path, struct stat64 *ret_file)
{
	return stat(path, (struct stat *)ret_file);
}
