#include "discovery/kept.h"

#include "base/hash.h"

#include <rea/error.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* One byte more than a document may have, so that the parser can say so. */
#define CONTENT_MAX ((size_t)16 * 1024 * 1024 + 1)

static uint64_t hash_text(uint64_t hash, const char *text)
{
	return rea_hash_byte(rea_hash_more(hash, text, strlen(text)), 0);
}

char *kept_path(const char *directory, const struct rea_config_source *source)
{
	uint64_t hash = hash_text(REA_HASH_INIT, source->namespace_id);
	char hex[REA_HASH_HEX_SIZE], *path = NULL;

	hash = hash_text(hash_text(hash, source->group), source->name);
	hash = hash_text(hash, source->context_path);
	for (size_t i = 0; i < source->servers_len; i++)
		hash = hash_text(hash, source->servers[i]);
	rea_hash_hex(hash, hex);
	if (asprintf(&path, "%s/%s-%s.yaml", directory, source->kind == REA_SOURCE_NACOS ? "nacos" : "etcd", hex) < 0)
		return NULL;
	return path;
}

static int read_to_end(int fd, struct rea_buffer *content)
{
	while (rea_buffer_length(content) < CONTENT_MAX) {
		ssize_t got;

		if (rea_buffer_reserve(content, 4096) != 0)
			return ENOMEM;
		got = read(fd, content->data + content->end, content->capacity - content->end);
		if (got == 0)
			return 0;
		if (got < 0 && errno != EINTR)
			return errno;
		if (got > 0)
			content->end += (size_t)got;
	}
	return 0;
}

int kept_read(const char *path, int64_t now_unix_s, struct rea_buffer *content, uint64_t *ret_age_s)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW), failure = 0;
	struct stat status;

	if (fd < 0)
		return errno;
	if (fstat(fd, &status) != 0)
		failure = errno;
	else if (!S_ISREG(status.st_mode))
		failure = EINVAL;
	else
		failure = read_to_end(fd, content);
	close(fd);
	if (failure == 0)
		*ret_age_s = now_unix_s > status.st_mtim.tv_sec ? (uint64_t)(now_unix_s - status.st_mtim.tv_sec) : 0;
	return failure;
}

static int write_all(int fd, const char *text, size_t length)
{
	while (length > 0) {
		ssize_t done = write(fd, text, length);

		if (done < 0 && errno != EINTR)
			return errno;
		if (done > 0) {
			text += done;
			length -= (size_t)done;
		}
	}
	return fsync(fd) != 0 ? errno : 0;
}

/* The parts that are missing of the path to the file. */
static int make_directories(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		int failure;

		*slash = '\0';
		failure = mkdir(path, 0700) != 0 && errno != EEXIST ? errno : 0;
		*slash = '/';
		if (failure != 0)
			return failure;
	}
	return 0;
}

static void sync_directory(const char *path)
{
	char *directory = strdup(path);
	int fd = -1;

	if (directory != NULL) {
		*strrchr(directory, '/') = '\0';
		fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
	free(directory);
}

int kept_write(const char *path, const char *text, size_t length)
{
	char *draft = NULL;
	int fd, failure;

	if (asprintf(&draft, "%s.XXXXXX", path) < 0)
		return ENOMEM;
	failure = make_directories(draft);
	/* For its owner alone from the first byte on. */
	fd = failure == 0 ? mkostemp(draft, O_CLOEXEC) : -1;
	if (failure == 0 && fd < 0)
		failure = errno;
	if (fd >= 0) {
		failure = write_all(fd, text, length);
		close(fd);
		if (failure == 0 && rename(draft, path) != 0)
			failure = errno;
		if (failure != 0)
			unlink(draft);
		else
			sync_directory(path);
	}
	free(draft);
	return failure;
}

void kept_touch(const char *path)
{
	utimensat(AT_FDCWD, path, NULL, 0);
}

void kept_remove(const char *path)
{
	if (unlink(path) == 0)
		sync_directory(path);
}
