/*
 * A budget in a file that processes map.
 *
 * Guarantees: no lock, at no time, so no process can hold one when it dies. A file is new when it is all zero, and that is what the kernel makes of one
 * that is created and given its length; whoever is first to write the mark, by one compare-and-swap, made it, and nobody has to know who. What is not
 * ours, or not of this version, is not touched.
 */
#include <rea/host_budget.h>

#include "base/container.h"
#include "host/shared_evidence.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_MAX_BYTES 1024
/* The last byte is the version of what follows: its layout and the meaning of each word. */
#define MARK UINT64_C(0x7265612d62756401) /* "rea-bud", 1 */
#define BOOT_ID "/proc/sys/kernel/random/boot_id"

struct file {
	uint64_t mark;
	struct rea__shared_evidence evidence;
	uint64_t reserved;
	struct rea__common_budget budget;
};
/* It is a format: another size is another version. */
static_assert(sizeof(struct file) == 64 + 16 + 2 * 8 * REA__COMMON_SLOTS, "layout of version 1");

__attribute__((format(printf, 4, 5))) static int refuse(
    struct rea_error_info *info, int error, const char *path, const char *format, ...)
{
	va_list arguments;

	if (info == NULL)
		return error;
	memset(info, 0, sizeof(*info));
	snprintf(info->file, sizeof(info->file), "%s", path);
	va_start(arguments, format);
	vsnprintf(info->message, sizeof(info->message), format, arguments);
	va_end(arguments);
	return error;
}

/* ---- where ---- */

static bool is_name(const char *name)
{
	size_t length = strlen(name);

	return length > 0 && length <= REA_HOST_BUDGET_NAME_MAX && name[0] != '.' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == length;
}

/* Ours alone, made if it is missing. Returns 0, REA_ERR_IO (try the next place) or REA_ERR_CONFLICT. */
static int check_directory(const char *path, struct rea_error_info *info)
{
	struct stat directory;

	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return refuse(info, REA_ERR_IO, path, "cannot make this directory: %s", strerror(errno));
	if (lstat(path, &directory) != 0)
		return refuse(info, REA_ERR_IO, path, "cannot look at this directory: %s", strerror(errno));
	if (!S_ISDIR(directory.st_mode))
		return refuse(info, REA_ERR_CONFLICT, path, "this should be a directory");
	if (directory.st_uid != geteuid())
		return refuse(info, REA_ERR_CONFLICT, path, "this directory belongs to another user (%u)",
		    (unsigned)directory.st_uid);
	if ((directory.st_mode & 022) != 0)
		return refuse(info, REA_ERR_CONFLICT, path, "others may write in this directory: its mode should be 0700");
	return 0;
}

/* A directory out of the environment. NULL when it names none: a relative one is as good as none. */
static const char *directory_of(const char *variable)
{
	const char *value = getenv(variable);

	return value != NULL && value[0] == '/' && strlen(value) < PATH_MAX_BYTES / 2 ? value : NULL;
}

static int find_directory(char path[PATH_MAX_BYTES], struct rea_error_info *info)
{
	const char *runtime = directory_of("XDG_RUNTIME_DIR"), *temporary = directory_of("TMPDIR");

	if (runtime != NULL) {
		snprintf(path, PATH_MAX_BYTES, "%s/rea", runtime);
		if (check_directory(path, info) == 0)
			return 0;
	}
	/* Where the system's own rea has made it for this user, or for root. */
	snprintf(path, PATH_MAX_BYTES, "/run/rea");
	if (check_directory(path, NULL) == 0 && access(path, W_OK | X_OK) == 0)
		return 0;
	snprintf(path, PATH_MAX_BYTES, "%s/rea-%u", temporary != NULL ? temporary : "/tmp", (unsigned)geteuid());
	return check_directory(path, info);
}

static int find_file(const char *name, char path[PATH_MAX_BYTES], struct rea_error_info *info)
{
	size_t length;
	int error;

	if (strchr(name, '/') != NULL) {
		if (strlen(name) >= PATH_MAX_BYTES)
			return refuse(info, REA_ERR_INVALID, "", "the budget's file name is too long");
		memcpy(path, name, strlen(name) + 1);
		return 0;
	}
	if (!is_name(name))
		return refuse(info, REA_ERR_INVALID,
		    "", "\"%.100s\" is no name of a budget: letters, digits, . _ and -, at most %d, no dot in front; or a file with its path",
		    name, REA_HOST_BUDGET_NAME_MAX);
	error = find_directory(path, info);
	if (error != 0)
		return error;
	length = strlen(path);
	snprintf(path + length, PATH_MAX_BYTES - length, "/%s.budget", name);
	return 0;
}

/* ---- the file ---- */

static int check_owner(int fd, const char *path, struct stat *ret_file, struct rea_error_info *info)
{
	if (fstat(fd, ret_file) != 0)
		return refuse(info, REA_ERR_IO, path, "cannot look at it: %s", strerror(errno));
	if (!S_ISREG(ret_file->st_mode))
		return refuse(info, REA_ERR_CONFLICT, path, "it is no plain file");
	if (ret_file->st_uid != geteuid())
		return refuse(info, REA_ERR_CONFLICT, path, "it belongs to another user (%u)", (unsigned)ret_file->st_uid);
	if ((ret_file->st_mode & 022) != 0)
		return refuse(info, REA_ERR_CONFLICT, path, "others may write it: its mode should be 0600");
	return 0;
}

/* Its whole length, and the room on the disk for it: a hole that cannot be filled would end the process that writes there. */
static int check_length(int fd, const char *path, const struct stat *file, struct rea_error_info *info)
{
	if (file->st_size != 0 && (uint64_t)file->st_size != sizeof(struct file))
		return refuse(info, REA_ERR_CORRUPT, path,
		    "it has %llu bytes where a budget has %zu: cut short, or not a budget",
		    (unsigned long long)file->st_size, sizeof(struct file));
	if (file->st_size == 0 && ftruncate(fd, sizeof(struct file)) != 0)
		return refuse(info, REA_ERR_IO, path, "cannot give it its length: %s", strerror(errno));
	if (fallocate(fd, 0, 0, sizeof(struct file)) != 0 && errno != EOPNOTSUPP && errno != ENOSYS)
		return refuse(info, REA_ERR_IO, path, "there is no room for it: %s", strerror(errno));
	return 0;
}

static int map(int fd, const char *path, struct file **ret_file, struct rea_error_info *info)
{
	uint64_t found = 0;
	struct file *file = mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (file == MAP_FAILED)
		return refuse(info, REA_ERR_IO, path, "cannot map it: %s", strerror(errno));
	if (!__atomic_compare_exchange_n(&file->mark, &found, MARK, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) &&
	    found != MARK) {
		munmap(file, sizeof(*file));
		return refuse(
		    info, REA_ERR_CORRUPT, path, "it is no budget of this version of rea; remove it if nobody uses it");
	}
	*ret_file = file;
	return 0;
}

static int open_file(const char *path, struct file **ret_file, struct rea_error_info *info)
{
	/* NONBLOCK: a FIFO of that name must not hold us up. */
	int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
	struct stat file;
	int error;

	if (fd < 0)
		return refuse(info, errno == ELOOP || errno == EACCES ? REA_ERR_CONFLICT : REA_ERR_IO, path,
		    "cannot open it: %s", errno == ELOOP ? "it is a symbolic link" : strerror(errno));
	error = check_owner(fd, path, &file, info);
	if (error == 0)
		error = check_length(fd, path, &file, info);
	if (error == 0)
		error = map(fd, path, ret_file, info);
	close(fd);
	return error;
}

/* A number that is another one after the next boot. Where the kernel does not tell, 0: then old counts fade because they lie in the future. */
static uint32_t epoch_of_boot(void)
{
	uint32_t hash = UINT32_C(2166136261);
	char text[64];
	int fd = open(BOOT_ID, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd >= 0 ? read(fd, text, sizeof(text)) : 0;

	if (fd >= 0)
		close(fd);
	for (ssize_t i = 0; i < length; i++)
		hash = (hash ^ (unsigned char)text[i]) * UINT32_C(16777619);
	return length > 0 ? (hash ^ hash >> 12 ^ hash >> 24) & REA__COMMON_EPOCH_MAX : 0;
}

static struct file *file_of(struct rea__common_budget *common)
{
	return REA_CONTAINER_OF(common, struct file, budget);
}

static void release(struct rea__common_budget *common)
{
	munmap(file_of(common), sizeof(struct file));
}

static void pull(struct rea__common_budget *common, uint32_t epoch, struct rea__evidence *evidence)
{
	rea__shared_evidence_pull(&file_of(common)->evidence, common, epoch, evidence);
}

static void push(struct rea__common_budget *common, uint32_t epoch, const struct rea__evidence *evidence,
    const struct rea__budget_attempt *attempt)
{
	rea__shared_evidence_push(&file_of(common)->evidence, common, epoch, evidence, attempt);
}

static bool take(struct rea__common_budget *common, uint32_t epoch, bool token, uint64_t now_ns)
{
	return rea__shared_evidence_take(&file_of(common)->evidence, common, epoch, token, now_ns);
}

static void give_back(struct rea__common_budget *common, uint32_t epoch, bool token, uint64_t taken_ns)
{
	rea__shared_evidence_give_back(&file_of(common)->evidence, common, epoch, token, taken_ns);
}

static const struct rea__common_ops ops = {
    .release = release, .pull = pull, .push = push, .take = take, .give_back = give_back};

int rea_host_budget_open(const char *name, const struct rea_budget_policy *policy, const struct rea_alloc *alloc,
    struct rea_budget **ret_budget, struct rea_error_info *ret_info)
{
	char path[PATH_MAX_BYTES];
	struct file *file = NULL;
	int error = rea_budget_policy_validate(policy, ret_info);

	if (error == 0)
		error = find_file(name, path, ret_info);
	if (error == 0)
		error = open_file(path, &file, ret_info);
	if (error != 0)
		return error;
	error = rea__budget_new_common(policy, &file->budget, epoch_of_boot(), &ops, alloc, ret_budget);
	if (error != 0) {
		munmap(file, sizeof(*file));
		return refuse(ret_info, error, path, "%s", rea_error_text(error));
	}
	return 0;
}
