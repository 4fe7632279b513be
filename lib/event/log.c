/*
 * JSON lines in a file.
 *
 * Guarantees: a line is in the file whole or not at all; nothing waits: what a full disk or a slow reader does not
 * take stays in the buffer, and when that is full new lines are dropped and counted.
 *
 * A regular file that took a part of a line is cut back to the line's beginning, unless somebody else has written
 * behind us. A pipe cannot be cut: the rest of the line goes first the next time.
 */
#include <rea/event.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_BYTES 65536

_Static_assert(BUFFER_BYTES > 2 * REA_EVENT_JSON_MAX, "an empty buffer takes any line");

struct rea_event_log {
	struct rea_alloc alloc;
	int fd;
	bool regular;
	size_t start;   /* of the first line that is not wholly in the file */
	size_t partial; /* how much of it is */
	size_t end;
	uint64_t dropped;
	char *path; /* terminated, behind the buffer */
	char buffer[BUFFER_BYTES];
};

static void tell(struct rea_error_info *ret_info, const char *path, int error)
{
	char text[128];

	if (ret_info == NULL)
		return;
	memset(ret_info, 0, sizeof(*ret_info));
	snprintf(ret_info->file, sizeof(ret_info->file), "%s", path);
	snprintf(ret_info->message, sizeof(ret_info->message), "cannot open it for appending: %s",
	    strerror_r(error, text, sizeof(text)));
}

/* Returns a descriptor or a negative errno. */
static int open_path(const char *path)
{
	int fd = strcmp(path, "-") == 0 ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
					: open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640);

	return fd < 0 ? -errno : fd;
}

static void take_fd(struct rea_event_log *log, int fd)
{
	struct stat status;

	log->fd = fd;
	log->regular = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

int rea_event_log_open(
    const char *path, const struct rea_alloc *alloc, struct rea_event_log **ret_log, struct rea_error_info *ret_info)
{
	size_t path_size = strlen(path) + 1;
	struct rea_event_log *log;
	int fd;

	if (alloc == NULL)
		alloc = rea_alloc_default();
	log = alloc->realloc(NULL, sizeof(*log) + path_size, alloc->user_data);
	if (log == NULL)
		return REA_ERR_NOMEM;
	memset(log, 0, offsetof(struct rea_event_log, buffer)); /* not the buffer: what is never used is never touched */
	log->alloc = *alloc;
	log->path = (char *)(log + 1);
	memcpy(log->path, path, path_size);
	fd = open_path(path);
	if (fd < 0) {
		tell(ret_info, path, -fd);
		alloc->free(log, alloc->user_data);
		return REA_ERR_IO;
	}
	take_fd(log, fd);
	*ret_log = log;
	return 0;
}

void rea_event_log_close(struct rea_event_log *log)
{
	if (log == NULL)
		return;
	rea_event_log_flush(log);
	close(log->fd);
	log->alloc.free(log, log->alloc.user_data);
}

/* How many of length bytes can go out without waiting; 0 = none now. */
static size_t writable(const struct rea_event_log *log, size_t length)
{
	struct pollfd pollfd = {.fd = log->fd, .events = POLLOUT};

	if (log->regular)
		return length;
	/* A pipe that is writable takes PIPE_BUF bytes. */
	if (poll(&pollfd, 1, 0) != 1)
		return 0;
	return length < PIPE_BUF ? length : PIPE_BUF;
}

/* Take the written part of the first line out of the file again. */
static void cut_back(struct rea_event_log *log)
{
	off_t end = lseek(log->fd, 0, SEEK_CUR), line_start = end - (off_t)log->partial;
	struct stat status;

	if (log->partial == 0 || !log->regular || fstat(log->fd, &status) != 0 || status.st_size != end)
		return;
	if (ftruncate(log->fd, line_start) != 0)
		return;
	lseek(log->fd, line_start, SEEK_SET); /* standard output may not be open for append */
	log->partial = 0;
}

/* length bytes more are in the file: whole lines leave the buffer. */
static void advance(struct rea_event_log *log, size_t length)
{
	const char *newline;

	log->partial += length;
	newline = memrchr(log->buffer + log->start, '\n', log->partial);
	if (newline) {
		size_t whole = (size_t)(newline + 1 - (log->buffer + log->start));

		log->start += whole;
		log->partial -= whole;
	}
}

bool rea_event_log_flush(struct rea_event_log *log)
{
	while (log->start < log->end) {
		size_t from = log->start + log->partial, length = writable(log, log->end - from);
		ssize_t written = length > 0 ? write(log->fd, log->buffer + from, length) : 0;

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0) {
			cut_back(log);
			return false;
		}
		advance(log, (size_t)written);
	}
	log->start = log->end = 0;
	return true;
}

static bool make_room(struct rea_event_log *log)
{
	if (BUFFER_BYTES - log->end >= REA_EVENT_JSON_MAX)
		return true;
	rea_event_log_flush(log);
	memmove(log->buffer, log->buffer + log->start, log->end - log->start);
	log->end -= log->start;
	log->start = 0;
	return BUFFER_BYTES - log->end >= REA_EVENT_JSON_MAX;
}

bool rea_event_log_add(struct rea_event_log *log, const struct rea_event *event)
{
	if (!make_room(log)) {
		log->dropped++;
		return false;
	}
	log->end += rea_event_json(event, log->buffer + log->end, REA_EVENT_JSON_MAX);
	log->buffer[log->end++] = '\n';
	return true;
}

/* A line that is partly in one file cannot go on in another. */
static void drop_partial_line(struct rea_event_log *log)
{
	const char *newline;

	if (log->partial == 0)
		return;
	newline = memchr(log->buffer + log->start, '\n', log->end - log->start);
	log->start = (size_t)(newline + 1 - log->buffer);
	log->partial = 0;
	log->dropped++;
}

int rea_event_log_reopen(struct rea_event_log *log, struct rea_error_info *ret_info)
{
	int fd = open_path(log->path);

	if (fd < 0) {
		tell(ret_info, log->path, -fd);
		return REA_ERR_IO;
	}
	rea_event_log_flush(log);
	drop_partial_line(log);
	close(log->fd);
	take_fd(log, fd);
	return 0;
}

uint64_t rea_event_log_dropped(const struct rea_event_log *log)
{
	return log->dropped;
}
