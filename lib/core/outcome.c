/*
 * What replies and errors mean. Guarantee: whatever a peer sent, the answer is one outcome; no input is an error here.
 */
#include <rea/outcome.h>

#include "base/slice.h"
#include "core/internal.h"

#include <rea/time.h>

static const char *const outcome_names[] = {
#define X(name, text) text,
    REA_OUTCOME_MAP(X)
#undef X
};

const char *rea_outcome_name(enum rea_outcome outcome)
{
	return outcome < REA_OUTCOME_COUNT ? outcome_names[outcome] : "unknown";
}

int rea_outcome_parse(const char *name, size_t length)
{
	for (int i = 0; i < REA_OUTCOME_COUNT; i++)
		if (rea_slice_equal(rea_slice_make(name, length), rea_slice_of(outcome_names[i])))
			return i;
	return -1;
}

static const struct rea_classify_rule *find_rule(
    enum rea_code_kind kind, uint32_t code, const struct rea_classify_rule *rules, size_t rules_len)
{
	for (size_t i = 0; i < rules_len; i++)
		if (rules[i].kind == kind && rules[i].code == code)
			return &rules[i];
	return NULL;
}

static enum rea_outcome from_http(uint32_t status)
{
	switch (status) {
	case 429:
		return REA_OUTCOME_THROTTLED;
	case 502:
	case 504:
		return REA_OUTCOME_AMBIGUOUS;
	case 503:
		return REA_OUTCOME_UNAVAILABLE;
	default:
		if (status >= 100 && status < 400)
			return REA_OUTCOME_OK;
		return status >= 500 && status < 600 ? REA_OUTCOME_FAILED : REA_OUTCOME_PERMANENT;
	}
}

enum rea_outcome rea_outcome_from_http(uint32_t status, const struct rea_classify_rule *rules, size_t rules_len)
{
	const struct rea_classify_rule *rule = find_rule(REA_CODE_HTTP, status, rules, rules_len);

	return rule ? rule->outcome : from_http(status);
}

enum rea_outcome rea_outcome_from_grpc(uint32_t status, const struct rea_classify_rule *rules, size_t rules_len)
{
	/* The HTTP status that each gRPC status stands for in gRPC's own table, but for CANCELLED: that is not our caller's doing when the callee
	 * says it. It was stopped in the middle, as servers do while they shut down, so it is like a reply that never came. */
	static const uint16_t http[] = {200, 504, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401};
	const struct rea_classify_rule *rule = find_rule(REA_CODE_GRPC, status, rules, rules_len);

	if (rule)
		return rule->outcome;
	return status < sizeof(http) / sizeof(http[0]) ? from_http(http[status]) : REA_OUTCOME_FAILED;
}

enum rea_outcome rea_outcome_from_phase(enum rea_phase phase)
{
	return phase == REA_PHASE_SENT ? REA_OUTCOME_AMBIGUOUS : REA_OUTCOME_NEVER_SENT;
}

/* ---- Retry-After ---- */

/* What is left to read of a date. Each take_ function moves past what it read, or returns false. */
struct date_reader {
	const char *p, *end;
};

static bool take_text(struct date_reader *in, const char *text)
{
	size_t length = strlen(text);

	if ((size_t)(in->end - in->p) < length || memcmp(in->p, text, length) != 0)
		return false;
	in->p += length;
	return true;
}

/* The index of the first of count names that is next; in its first `length` letters, or whole with length 0. */
static bool take_name(struct date_reader *in, const char *const *names, unsigned count, size_t length, unsigned *ret_index)
{
	for (unsigned i = 0; i < count; i++) {
		size_t n = length ? length : strlen(names[i]);

		if ((size_t)(in->end - in->p) >= n && memcmp(in->p, names[i], n) == 0) {
			in->p += n;
			*ret_index = i;
			return true;
		}
	}
	return false;
}

static bool take_digits(struct date_reader *in, size_t digits, unsigned *ret_value)
{
	uint64_t value;

	if ((size_t)(in->end - in->p) < digits || !rea_slice_to_u64(rea_slice_make(in->p, digits), &value))
		return false;
	in->p += digits;
	*ret_value = (unsigned)value;
	return true;
}

struct date {
	unsigned year, month /* 0..11 */, day, hour, minute, second;
};

static const char *const day_names[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
static const char *const month_names[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

static bool take_month(struct date_reader *in, struct date *date)
{
	return take_name(in, month_names, 12, 0, &date->month);
}

static bool take_clock(struct date_reader *in, struct date *date)
{
	return take_digits(in, 2, &date->hour) && take_text(in, ":") && take_digits(in, 2, &date->minute) &&
	       take_text(in, ":") && take_digits(in, 2, &date->second);
}

/* Sun, 06 Nov 1994 08:49:37 GMT */
static bool read_imf_fixdate(struct date_reader in, struct date *date)
{
	unsigned weekday;

	return take_name(&in, day_names, 7, 3, &weekday) && take_text(&in, ", ") && take_digits(&in, 2, &date->day) &&
	       take_text(&in, " ") && take_month(&in, date) && take_text(&in, " ") && take_digits(&in, 4, &date->year) &&
	       take_text(&in, " ") && take_clock(&in, date) && take_text(&in, " GMT") && in.p == in.end;
}

/* Sunday, 06-Nov-94 08:49:37 GMT; the year is left in two digits. */
static bool read_rfc850(struct date_reader in, struct date *date)
{
	unsigned weekday;

	return take_name(&in, day_names, 7, 0, &weekday) && take_text(&in, ", ") && take_digits(&in, 2, &date->day) &&
	       take_text(&in, "-") && take_month(&in, date) && take_text(&in, "-") && take_digits(&in, 2, &date->year) &&
	       take_text(&in, " ") && take_clock(&in, date) && take_text(&in, " GMT") && in.p == in.end;
}

/* Sun Nov  6 08:49:37 1994 */
static bool read_asctime(struct date_reader in, struct date *date)
{
	unsigned weekday;

	return take_name(&in, day_names, 7, 3, &weekday) && take_text(&in, " ") && take_month(&in, date) &&
	       take_text(&in, " ") &&
	       (take_text(&in, " ") ? take_digits(&in, 1, &date->day) : take_digits(&in, 2, &date->day)) &&
	       take_text(&in, " ") && take_clock(&in, date) && take_text(&in, " ") &&
	       take_digits(&in, 4, &date->year) && in.p == in.end;
}

static bool is_leap(unsigned year)
{
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static bool date_exists(const struct date *date)
{
	static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	unsigned last = days[date->month] + (unsigned)(date->month == 1 && is_leap(date->year));

	/* Second 60 is a leap second. */
	return date->day >= 1 && date->day <= last && date->hour <= 23 && date->minute <= 59 && date->second <= 60;
}

/* Seconds since 1970. The year may be 0. */
static int64_t date_to_unix(const struct date *date)
{
	static const uint16_t days_before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
	int64_t years = date->year, leaps = years > 0 ? (years - 1) / 4 - (years - 1) / 100 + (years - 1) / 400 + 1 : 0;
	int64_t days = years * 365 + leaps + days_before[date->month] + date->day - 1;

	if (date->month > 1 && is_leap(date->year))
		days++;
	days -= 719528; /* from year 0 to 1970 */
	return ((days * 24 + date->hour) * 60 + date->minute) * 60 + date->second;
}

/* The latest year with these last two digits that makes a date at most 50 years ahead (RFC 9110 5.6.7). */
static int64_t rfc850_to_unix(struct date date, int64_t now_unix_s)
{
	const int64_t fifty_years_s = INT64_C(50) * 31556952;
	unsigned short_year = date.year;
	int64_t unix_s = INT64_MIN;

	for (unsigned century = 1900; century <= 9900; century += 100) {
		int64_t candidate_s;

		date.year = century + short_year;
		candidate_s = date_to_unix(&date);
		if (unix_s != INT64_MIN && candidate_s - fifty_years_s > now_unix_s)
			break;
		unix_s = candidate_s;
	}
	return unix_s;
}

REA__COLD static bool parse_date(struct date_reader in, int64_t now_unix_s, int64_t *ret_unix_s)
{
	struct date date;

	if (read_imf_fixdate(in, &date) || read_asctime(in, &date))
		*ret_unix_s = date_to_unix(&date);
	else if (read_rfc850(in, &date))
		*ret_unix_s = rfc850_to_unix(date, now_unix_s);
	else
		return false;
	return date_exists(&date);
}

/* Decimal digits only, at least one; a number too large becomes UINT64_MAX. */
static bool parse_number(const char *text, size_t length, uint64_t *ret_value)
{
	if (length == 0)
		return false;
	for (size_t i = 0; i < length; i++)
		if (text[i] < '0' || text[i] > '9')
			return false;
	if (!rea_slice_to_u64(rea_slice_make(text, length), ret_value))
		*ret_value = UINT64_MAX;
	return true;
}

bool rea_retry_after_parse(const char *value, size_t length, int64_t now_unix_s, uint64_t *ret_wait_ns)
{
	uint64_t wait_s;
	int64_t unix_s;

	if (!parse_number(value, length, &wait_s)) {
		if (!parse_date((struct date_reader){value, value + length}, now_unix_s, &unix_s))
			return false;
		/* As unsigned numbers, for a clock that is far off. */
		wait_s = unix_s > now_unix_s ? (uint64_t)unix_s - (uint64_t)now_unix_s : 0;
	}
	*ret_wait_ns = rea_time_min(rea_time_mul(wait_s, REA_NS_PER_S), REA_NEVER - 1);
	return true;
}

/* ---- rea-retry ---- */

static struct rea_slice trim_blanks(struct rea_slice s)
{
	while (s.length > 0 && (s.data[0] == ' ' || s.data[0] == '\t')) {
		s.data++;
		s.length--;
	}
	while (s.length > 0 && (s.data[s.length - 1] == ' ' || s.data[s.length - 1] == '\t'))
		s.length--;
	return s;
}

enum rea_hint rea_hint_parse(const char *value, size_t length, uint64_t *ret_wait_ns)
{
	static const struct rea_slice after = {"after=", 6};
	struct rea_slice hint = trim_blanks(rea_slice_make(value, length));
	uint64_t wait_ms;

	if (hint.length <= after.length || !rea_slice_equal_nocase(rea_slice_make(hint.data, after.length), after) ||
	    !parse_number(hint.data + after.length, hint.length - after.length, &wait_ms))
		return REA_HINT_STOP;
	*ret_wait_ns = rea_time_min(rea_time_from_ms(wait_ms), REA_NEVER - 1);
	return REA_HINT_AFTER;
}
