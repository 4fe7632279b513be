#include "base/place.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_mistake(int number)
{
	return number == ENOENT || number == ENOTDIR || number == EACCES || number == EPERM || number == ELOOP ||
	       number == ENAMETOOLONG;
}

static bool can_use(const char *path, int how)
{
	return access(path, how) == 0 || !is_mistake(errno);
}

bool rea_place_is_sound(const char *path)
{
	char directory[4096];
	char *slash;
	struct stat file;

	if (stat(path, &file) == 0)
		return S_ISREG(file.st_mode) && can_use(path, R_OK | W_OK);
	if (errno != ENOENT)
		return !is_mistake(errno);
	if ((size_t)snprintf(directory, sizeof(directory), "%s", path) >= sizeof(directory))
		return false;
	slash = strrchr(directory, '/');
	if (slash == NULL)
		return can_use(".", W_OK | X_OK);
	slash[slash == directory] = '\0';
	return can_use(directory, W_OK | X_OK);
}
