/* The one place where the store room reads clocks for its callers. */
#include <rea/store.h>

#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t read_ns(clockid_t id)
{
	struct timespec now;

	if (clock_gettime(id, &now) != 0 || now.tv_sec < 0)
		return 0;
	return rea_time_add(rea_time_mul((uint64_t)now.tv_sec, REA_NS_PER_S), (uint64_t)now.tv_nsec);
}

static void read_boot_id(char *ret_id, size_t size)
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? 0 : read(fd, ret_id, size - 1);

	if (fd >= 0)
		close(fd);
	ret_id[got < 0 ? 0 : got] = '\0';
	ret_id[strcspn(ret_id, "\n")] = '\0';
}

void rea_store_clock_read(struct rea_store_clock *ret_clock)
{
	memset(ret_clock, 0, sizeof(*ret_clock));
	ret_clock->now_ns = read_ns(CLOCK_MONOTONIC);
	ret_clock->boot_ns = read_ns(CLOCK_BOOTTIME);
	ret_clock->unix_ns = (int64_t)(read_ns(CLOCK_REALTIME) & INT64_MAX);
	read_boot_id(ret_clock->boot_id, sizeof(ret_clock->boot_id));
}
