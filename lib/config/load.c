/* From a file. */
#include "base/buffer.h"
#include "config/snapshot.h"

#include <rea/config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static int refuse_io(struct rea_error_info *info, const char *path, int number)
{
	char text[128];

	if (info != NULL) {
		memset(info, 0, sizeof(*info));
		snprintf(info->file, sizeof(info->file), "%s", path);
		snprintf(info->message, sizeof(info->message), "cannot be read: %s", strerror_r(number, text, sizeof(text)));
	}
	return REA_ERR_IO;
}

/* One byte more than the limit is enough: the parser refuses it. */
static int read_all(int fd, const char *path, struct rea_buffer *buffer, struct rea_error_info *info)
{
	while (rea_buffer_length(buffer) <= REA__YAML_BYTES_MAX) {
		ssize_t got;

		if (rea_buffer_reserve(buffer, 4096) != 0)
			return info ? rea__refuse_nomem(info, path) : REA_ERR_NOMEM;
		got = read(fd, buffer->data + buffer->end, buffer->capacity - buffer->end);
		if (got == 0)
			return 0;
		if (got < 0 && errno != EINTR)
			return refuse_io(info, path, errno);
		if (got > 0)
			buffer->end += (size_t)got;
	}
	return 0;
}

int rea__file_read(const char *path, struct rea_buffer *content, struct rea_error_info *info)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), error;

	if (fd < 0)
		return refuse_io(info, path, errno);
	error = read_all(fd, path, content, info);
	close(fd);
	return error;
}

int rea_config_load(
    const char *path, const struct rea_alloc *alloc, struct rea_config **ret_config, struct rea_error_info *ret_info)
{
	struct rea_buffer buffer = {.alloc = alloc};
	int error = rea__file_read(path, &buffer, ret_info);

	if (error == 0)
		error = rea_config_parse(
		    path, buffer.data + buffer.start, rea_buffer_length(&buffer), alloc, ret_config, ret_info);
	rea_buffer_fini(&buffer);
	return error;
}

int rea_config_load_policy(struct rea_config *base, const char *path, const struct rea_alloc *alloc,
    struct rea_config **ret_config, struct rea_error_info *ret_info)
{
	struct rea_buffer buffer = {.alloc = alloc};
	int error = rea__file_read(path, &buffer, ret_info);

	if (error == 0)
		error = rea_config_with_policy(base, path, rea_buffer_length(&buffer) > 0 ? rea_buffer_data(&buffer) : "",
		    rea_buffer_length(&buffer), alloc, ret_config, ret_info);
	rea_buffer_fini(&buffer);
	return error;
}
