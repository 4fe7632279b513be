#include "store/clock.h"

#include "store/machine.h"

#include <string.h>

/* A time further ahead of the wall clock is no trace of a clock set back but damage, or of a clock that was wrong altogether. */
#define SEEN_AHEAD_NS_MAX ((int64_t)86400 * 1000000000)

/* Saturating: what a file says is not to be trusted. */
static int64_t add(int64_t a, int64_t b)
{
	int64_t sum;

	if (!__builtin_add_overflow(a, b, &sum))
		return sum;
	return b > 0 ? INT64_MAX : INT64_MIN;
}

static int64_t sub(int64_t a, int64_t b)
{
	int64_t difference;

	if (!__builtin_sub_overflow(a, b, &difference))
		return difference;
	return b < 0 ? INT64_MAX : INT64_MIN;
}

static int64_t clip(uint64_t ns)
{
	return ns > INT64_MAX ? INT64_MAX : (int64_t)ns;
}

static int64_t row_now(const struct rea_store_clock *now, const struct rea__clock_past *past)
{
	if (now->boot_ns != 0 && now->boot_id[0] != '\0' && strcmp(now->boot_id, past->boot_id) == 0)
		return add(clip(now->boot_ns), past->boot_offset_ns);
	if (past->seen_ns > now->unix_ns && past->seen_ns <= add(now->unix_ns, SEEN_AHEAD_NS_MAX))
		return past->seen_ns;
	return now->unix_ns;
}

void rea__clock_start(struct rea__clock *clock, const struct rea_store_clock *now, const struct rea__clock_past *past,
    struct rea__clock_past *ret_past)
{
	int64_t row_ns = row_now(now, past);

	clock->offset_ns = sub(row_ns, clip(now->now_ns));
	memcpy(ret_past->boot_id, now->boot_id, sizeof(ret_past->boot_id));
	ret_past->boot_id[sizeof(ret_past->boot_id) - 1] = '\0';
	ret_past->boot_offset_ns = sub(row_ns, clip(now->boot_ns));
	ret_past->seen_ns = row_ns;
}

int64_t rea__clock_to_row(const struct rea__clock *clock, uint64_t now_ns)
{
	int64_t row_ns;

	if (now_ns == REA_NEVER)
		return REA__ROW_NEVER;
	row_ns = add(clip(now_ns), clock->offset_ns);
	return row_ns == REA__ROW_NEVER ? REA__ROW_NEVER - 1 : row_ns;
}

uint64_t rea__clock_from_row(const struct rea__clock *clock, int64_t row_ns)
{
	int64_t now_ns;

	if (row_ns == REA__ROW_NEVER)
		return REA_NEVER;
	now_ns = sub(row_ns, clock->offset_ns);
	return now_ns < 0 ? 0 : (uint64_t)now_ns;
}
