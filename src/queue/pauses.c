/*
 * What operators have said of targets, in a small file beside the store: whole or not at all, written before it is answered. Times are wall clock, as they were
 * said to a person.
 */
#include "queue/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FILE_MAX ((size_t)16 << 20)

static bool is_worth_keeping(const struct target *target)
{
	return target->paused || target->draining;
}

static json_t *describe(struct queue *queue, const struct target *target)
{
	json_t *object = json_object();

	json_object_set_new(object, "name", json_stringn(target->name, target->name_len));
	json_object_set_new(object, "paused", json_boolean(target->paused));
	json_object_set_new(object, "draining", json_boolean(target->draining));
	json_object_set_new(object, "why", json_string(target->paused_why));
	if (target->paused && target->paused_until_ns != REA_NEVER)
		json_object_set_new(object, "until", json_integer(queue_unix_of(queue, target->paused_until_ns)));
	return object;
}

static char *dump(struct queue *queue)
{
	json_t *list = json_array();
	char *text;

	for (const struct target *target = queue->targets; target != NULL; target = target->next)
		if (is_worth_keeping(target))
			json_array_append_new(list, describe(queue, target));
	text = json_dumps(list, JSON_INDENT(1));
	json_decref(list);
	return text;
}

static bool write_all(int fd, const char *text, size_t length)
{
	while (length > 0) {
		ssize_t n = write(fd, text, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		text += n;
		length -= (size_t)n;
	}
	return fdatasync(fd) == 0;
}

static bool sync_directory(const char *path)
{
	char *directory = strdup(path);
	char *slash = directory != NULL ? strrchr(directory, '/') : NULL;
	int fd;
	bool done;

	if (directory == NULL)
		return false;
	if (slash != NULL)
		slash[slash == directory] = '\0';
	fd = open(slash != NULL ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(directory);
	done = fd >= 0 && fsync(fd) == 0;
	if (fd >= 0)
		close(fd);
	return done;
}

int pauses_save(struct queue *queue)
{
	size_t size = strlen(queue->pauses_path) + 5;
	char *next = malloc(size), *text = dump(queue);
	int fd = -1, error = REA_ERR_NOMEM;

	if (next != NULL && text != NULL) {
		snprintf(next, size, "%s.new", queue->pauses_path);
		fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
		error = REA_ERR_IO;
	}
	if (fd >= 0) {
		bool written = write_all(fd, text, strlen(text));

		close(fd);
		if (written && rename(next, queue->pauses_path) == 0 && sync_directory(queue->pauses_path))
			error = 0;
	}
	free(text);
	free(next);
	return error;
}

static void take_up(struct queue *queue, const json_t *object)
{
	const json_t *name = json_object_get(object, "name"), *until = json_object_get(object, "until");
	struct target *target;

	if (!json_is_string(name) || json_string_length(name) == 0)
		return;
	target = queue_target_of(queue, rea_slice_make(json_string_value(name), json_string_length(name)));
	if (target == NULL)
		return;
	target->paused = json_is_true(json_object_get(object, "paused"));
	target->draining = json_is_true(json_object_get(object, "draining"));
	target->paused_until_ns = REA_NEVER;
	if (json_is_integer(until)) {
		int64_t left = json_integer_value(until) - loop_wall_ns(queue->loop);

		target->paused_until_ns = rea_time_add(queue_now(queue), left > 0 ? (uint64_t)left : 0);
	}
	if (json_is_string(json_object_get(object, "why")))
		snprintf(target->paused_why, sizeof(target->paused_why), "%s",
		    json_string_value(json_object_get(object, "why")));
}

int pauses_load(struct queue *queue, struct rea_error_info *ret_info)
{
	const char *store = queue->rules->settings->tasks.file;
	size_t size = strlen(store) + 9, index;
	json_t *list, *item;
	json_error_t wrong;

	free(queue->pauses_path);
	queue->pauses_path = malloc(size);
	if (queue->pauses_path == NULL)
		return REA_ERR_NOMEM;
	snprintf(queue->pauses_path, size, "%s-targets", store);
	if (access(queue->pauses_path, F_OK) != 0)
		return 0;
	list = json_load_file(queue->pauses_path, 0, &wrong);
	if (!json_is_array(list)) {
		json_decref(list);
		/* A pause that is not known must not be taken for none: somebody had a reason. */
		memset(ret_info, 0, sizeof(*ret_info));
		snprintf(ret_info->message, sizeof(ret_info->message),
		    "%s, which says what is paused, cannot be read: %s", queue->pauses_path, wrong.text);
		return REA_ERR_CORRUPT;
	}
	json_array_foreach(list, index, item) take_up(queue, item);
	json_decref(list);
	return 0;
}
