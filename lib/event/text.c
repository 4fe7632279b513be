#include "event/text.h"

#include <rea/time.h>

#define MS_PER_DAY INT64_C(86400000)

static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

static void format_padded(struct rea_format *format, int64_t value, int64_t smallest_without_zero)
{
	for (int64_t unit = smallest_without_zero; unit > 1 && value < unit; unit /= 10)
		rea_format_text(format, "0");
	rea_format_u64(format, (uint64_t)value);
}

/* The Gregorian calendar repeats every 400 years = 146097 days; counted from a 1st of March, leap days come last. */
static void format_date(struct rea_format *format, int64_t days_since_1970)
{
	int64_t days = days_since_1970 + 719468; /* since 0000-03-01 */
	int64_t cycle = floor_div(days, 146097), day_of_cycle = days - cycle * 146097;
	int64_t year_of_cycle = (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36524 - day_of_cycle / 146096) / 365;
	int64_t day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
	int64_t march_month = (5 * day_of_year + 2) / 153;
	int64_t month = march_month < 10 ? march_month + 3 : march_month - 9;

	format_padded(format, cycle * 400 + year_of_cycle + (month <= 2), 1000);
	rea_format_text(format, "-");
	format_padded(format, month, 10);
	rea_format_text(format, "-");
	format_padded(format, day_of_year - (153 * march_month + 2) / 5 + 1, 10);
}

void rea__format_time(struct rea_format *format, int64_t unix_ns)
{
	int64_t ms = floor_div(unix_ns, (int64_t)REA_NS_PER_MS), days = floor_div(ms, MS_PER_DAY),
		of_day = ms - days * MS_PER_DAY;

	format_date(format, days);
	rea_format_text(format, "T");
	format_padded(format, of_day / 3600000, 10);
	rea_format_text(format, ":");
	format_padded(format, of_day / 60000 % 60, 10);
	rea_format_text(format, ":");
	format_padded(format, of_day / 1000 % 60, 10);
	rea_format_text(format, ".");
	format_padded(format, of_day % 1000, 100);
	rea_format_text(format, "Z");
}

bool rea__event_is_call(enum rea_event_type type)
{
	return type != REA_EVENT_BREAKER && type != REA_EVENT_CONFIG;
}

const char *rea__code_kind_name(enum rea_code_kind kind)
{
	switch (kind) {
	case REA_CODE_NONE:
		break;
	case REA_CODE_HTTP:
		return "http";
	case REA_CODE_GRPC:
		return "grpc";
	case REA_CODE_ERRNO:
		return "errno";
	case REA_CODE_EXIT:
		return "exit";
	}
	return "";
}
