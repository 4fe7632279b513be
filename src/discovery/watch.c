#include "discovery/watch.h"

#include "base/container.h"
#include "base/buffer.h"
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* An editor's rename, write and chmod come as one change. Not started anew by each event, or a busy directory
 * would postpone it for ever. */
#define DEBOUNCE_NS (100 * REA_NS_PER_MS)
#define POLL_NS (2 * REA_NS_PER_S)
/* One byte more than a configuration may have, so that the parser can say so. */
#define CONTENT_MAX ((size_t)16 * 1024 * 1024 + 1)
#define LOOKS_UNTIL_LOST 2

/* Where the file's name stands, and where the file itself does. */
enum { DIRECTORY_OF_NAME, DIRECTORY_OF_FILE, DIRECTORIES };

struct directory {
	uv_fs_event_t event;
	char *path; /* watched; NULL = none */
};

/* What tells two files, or two states of one, apart without reading. */
struct file_state {
	dev_t device;
	ino_t inode;
	off_t size;
	struct timespec modified;
	struct timespec changed;
};

struct watch {
	struct loop *loop;
	char *path;
	watch_changed *changed;
	void *user_data;
	struct directory directories[DIRECTORIES];
	unsigned open_handles;
	struct wheel_timer debounce;
	struct wheel_timer poll;
	struct file_state state;
	char version[REA_HASH_HEX_SIZE];
	unsigned failed_looks; /* in a row */
};

/* ------------------------------------------------------------------ directories */

static void on_event(uv_fs_event_t *event, const char *name, int events, int status)
{
	struct watch *watch = event->data;

	(void)name;
	(void)events;
	(void)status;
	if (!wheel_timer_active(&watch->debounce))
		loop_timer_start(watch->loop, &watch->debounce, rea_time_add(loop_now(watch->loop), DEBOUNCE_NS));
}

/* Watch another directory; path: taken over, NULL = none. Without inotify (its limits can be used up) the poll
 * alone finds changes. */
static void move_to(struct directory *directory, char *path)
{
	if (path != NULL && directory->path != NULL && strcmp(path, directory->path) == 0) {
		free(path);
		return;
	}
	uv_fs_event_stop(&directory->event);
	free(directory->path);
	directory->path = path;
	if (path != NULL && uv_fs_event_start(&directory->event, on_event, path, 0) != 0) {
		free(path);
		directory->path = NULL;
	}
}

static char *directory_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (slash == NULL)
		return strdup(".");
	return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

/* A link may have swung since. */
static void follow_links(struct watch *watch)
{
	char *file = realpath(watch->path, NULL);

	move_to(&watch->directories[DIRECTORY_OF_NAME], directory_part(watch->path));
	if (file != NULL)
		move_to(&watch->directories[DIRECTORY_OF_FILE], directory_part(file));
	free(file);
}

/* ------------------------------------------------------------------ content */

static struct file_state state_of(const struct stat *status)
{
	return (struct file_state){status->st_dev, status->st_ino, status->st_size, status->st_mtim, status->st_ctim};
}

static bool state_equal(const struct file_state *a, const struct file_state *b)
{
	return a->device == b->device && a->inode == b->inode && a->size == b->size &&
	       a->modified.tv_sec == b->modified.tv_sec && a->modified.tv_nsec == b->modified.tv_nsec &&
	       a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

/* Returns 0 or an errno value. */
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

/* The state is taken before the content: a change in between shows as another state at the next look. */
static int read_file(const char *path, struct rea_buffer *content, struct file_state *ret_state)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), failure = EINVAL;
	struct stat status;

	if (fd < 0)
		return errno;
	if (fstat(fd, &status) != 0)
		failure = errno;
	else if (S_ISREG(status.st_mode))
		failure = read_to_end(fd, content);
	close(fd);
	if (failure == 0)
		*ret_state = state_of(&status);
	return failure;
}

static void tell_lost(struct watch *watch, int failure)
{
	struct rea_error_info info;
	char text[128];

	memset(&info, 0, sizeof(info));
	snprintf(info.file, sizeof(info.file), "%s", watch->path);
	snprintf(info.message, sizeof(info.message), "cannot be read: %s", strerror_r(failure, text, sizeof(text)));
	watch->changed(NULL, 0, &info, watch->user_data);
}

static void tell_content(struct watch *watch, const struct rea_buffer *content, bool again)
{
	char version[REA_HASH_HEX_SIZE];
	const char *text = rea_buffer_length(content) > 0 ? rea_buffer_data(content) : "";

	rea_hash_hex(rea_hash(text, rea_buffer_length(content)), version);
	if (strcmp(version, watch->version) == 0 && !again)
		return;
	memcpy(watch->version, version, sizeof(version));
	watch->changed(text, rea_buffer_length(content), NULL, watch->user_data);
}

static void read_content(struct watch *watch, bool again)
{
	struct rea_buffer content = {.alloc = NULL};
	int failure = read_file(watch->path, &content, &watch->state);

	if (failure == 0) {
		/* What comes back may be what was there before: whoever was told of the loss wants to know. */
		again = again || watch->failed_looks >= LOOKS_UNTIL_LOST;
		watch->failed_looks = 0;
		tell_content(watch, &content, again);
	} else if (++watch->failed_looks == LOOKS_UNTIL_LOST || again) {
		tell_lost(watch, failure);
	}
	rea_buffer_fini(&content);
}

void watch_look(struct watch *watch, bool again)
{
	follow_links(watch);
	read_content(watch, again);
}

static void on_debounced(struct wheel_timer *timer, uint64_t now_ns)
{
	struct watch *watch = REA_CONTAINER_OF(timer, struct watch, debounce);

	(void)now_ns;
	watch_look(watch, false);
}

static void on_poll(struct wheel_timer *timer, uint64_t now_ns)
{
	struct watch *watch = REA_CONTAINER_OF(timer, struct watch, poll);
	struct stat status;
	struct file_state state;

	loop_timer_start(watch->loop, timer, rea_time_add(now_ns, POLL_NS));
	if (stat(watch->path, &status) == 0) {
		state = state_of(&status);
		if (state_equal(&state, &watch->state))
			return;
	}
	watch_look(watch, false);
}

/* ------------------------------------------------------------------ lifetime */

int watch_start(struct loop *loop, const char *path, const char *version, watch_changed *changed, void *user_data,
    struct watch **ret_watch)
{
	struct watch *watch = calloc(1, sizeof(*watch));

	if (watch == NULL)
		return REA_ERR_NOMEM;
	watch->path = strdup(path);
	if (watch->path == NULL) {
		free(watch);
		return REA_ERR_NOMEM;
	}
	watch->loop = loop;
	watch->changed = changed;
	watch->user_data = user_data;
	watch->debounce.fire = on_debounced;
	watch->poll.fire = on_poll;
	snprintf(watch->version, sizeof(watch->version), "%s", version);
	for (size_t i = 0; i < DIRECTORIES; i++) {
		uv_fs_event_init(&loop->uv, &watch->directories[i].event);
		watch->directories[i].event.data = watch;
		watch->open_handles++;
	}
	follow_links(watch);
	/* The first look is soon: the file may have changed since it was loaded. */
	loop_timer_start(loop, &watch->debounce, rea_time_add(loop_now(loop), DEBOUNCE_NS));
	loop_timer_start(loop, &watch->poll, rea_time_add(loop_now(loop), POLL_NS));
	*ret_watch = watch;
	return 0;
}

static void on_closed(uv_handle_t *handle)
{
	struct watch *watch = handle->data;

	if (--watch->open_handles > 0)
		return;
	free(watch->path);
	free(watch);
}

void watch_stop(struct watch *watch)
{
	if (watch == NULL)
		return;
	loop_timer_stop(watch->loop, &watch->debounce);
	loop_timer_stop(watch->loop, &watch->poll);
	for (size_t i = 0; i < DIRECTORIES; i++) {
		free(watch->directories[i].path);
		watch->directories[i].path = NULL;
		uv_close((uv_handle_t *)&watch->directories[i].event, on_closed);
	}
}
