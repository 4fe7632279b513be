#include "queue/task.h"

#include <rea/outcome.h>
#include <rea/time.h>

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PAYLOAD_VERSION 1
#define POINTER_MAX 128

void task_problem_set(struct task_problem *problem, uint16_t status, const char *field, const char *format, ...)
{
	va_list args;

	problem->status = status;
	snprintf(problem->field, sizeof(problem->field), "%s", field);
	va_start(args, format);
	vsnprintf(problem->detail, sizeof(problem->detail), format, args);
	va_end(args);
}

/* ---- times ---- */

/* Days since 1970 of a date of the Gregorian calendar. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
	int64_t y = month <= 2 ? year - 1 : year, era = y / 400, yoe = y - era * 400,
		doy = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

	return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

static bool digits(struct rea_slice text, size_t at, size_t count, int64_t *ret_value)
{
	uint64_t value;

	if (at + count > text.length || !rea_slice_to_u64(rea_slice_make(text.data + at, count), &value))
		return false;
	*ret_value = (int64_t)value;
	return true;
}

static int64_t month_days(int64_t year, int64_t month)
{
	static const int64_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return days[month - 1] + (month == 2 && leap);
}

/* "Z", "+02:00". */
static bool read_offset(struct rea_slice text, size_t at, int64_t *ret_seconds)
{
	int64_t hours, minutes;

	if (at + 1 == text.length && (text.data[at] | 0x20) == 'z') {
		*ret_seconds = 0;
		return true;
	}
	if (at + 6 != text.length || (text.data[at] != '+' && text.data[at] != '-') || text.data[at + 3] != ':' ||
	    !digits(text, at + 1, 2, &hours) || !digits(text, at + 4, 2, &minutes) || hours > 23 || minutes > 59)
		return false;
	*ret_seconds = (text.data[at] == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
	return true;
}

bool task_time_parse(struct rea_slice text, int64_t *ret_unix_ns)
{
	int64_t year, month, day, hour, minute, second, offset, fraction = 0, seconds;
	size_t at = 19;

	if (text.length < 20 || text.data[4] != '-' || text.data[7] != '-' || (text.data[10] | 0x20) != 't' ||
	    text.data[13] != ':' || text.data[16] != ':' || !digits(text, 0, 4, &year) || !digits(text, 5, 2, &month) ||
	    !digits(text, 8, 2, &day) || !digits(text, 11, 2, &hour) || !digits(text, 14, 2, &minute) ||
	    !digits(text, 17, 2, &second))
		return false;
	if (year < 1970 || year > 2261 || month < 1 || month > 12 || day < 1 || day > month_days(year, month) ||
	    hour > 23 || minute > 59 || second > 60)
		return false;
	if (text.data[at] == '.') {
		int64_t unit = 100000000;
		size_t first = ++at;

		for (; at < text.length && text.data[at] >= '0' && text.data[at] <= '9'; at++, unit /= 10)
			fraction += (text.data[at] - '0') * unit;
		if (at == first || at == text.length)
			return false;
	}
	if (!read_offset(text, at, &offset))
		return false;
	seconds = days_of(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - offset;
	*ret_unix_ns = seconds * INT64_C(1000000000) + fraction;
	return seconds >= 0;
}

void task_time_format(int64_t unix_ns, char ret_text[TASK_TIME_SIZE])
{
	time_t seconds = (time_t)(unix_ns / 1000000000);
	struct tm utc;
	size_t length;

	if (unix_ns < 0 || gmtime_r(&seconds, &utc) == NULL ||
	    (length = strftime(ret_text, TASK_TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &utc)) == 0) {
		ret_text[0] = '\0';
		return;
	}
	snprintf(ret_text + length, TASK_TIME_SIZE - length, ".%03uZ", (unsigned)(unix_ns / 1000000 % 1000));
}

/* ---- reading a submit ---- */

struct reading {
	struct task_submit *submit;
	uint32_t attempts_max;
	const struct rea_policy_layer *configured;
	struct task_problem *problem;
	bool has_service, has_url, has_path, has_delay, has_not_before, too_large;
};

static bool refuse(const struct reading *reading, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool refuse(const struct reading *reading, const char *name, const char *format, ...)
{
	struct task_problem *problem = reading->problem;
	va_list args;

	problem->status = 422;
	snprintf(problem->field, sizeof(problem->field), "%s%s", name[0] != '\0' ? "/" : "", name);
	va_start(args, format);
	vsnprintf(problem->detail, sizeof(problem->detail), format, args);
	va_end(args);
	return false;
}

/* A name from outside, as a part of a JSON pointer (RFC 6901). */
static const char *point(char buffer[POINTER_MAX], const char *parent, struct rea_slice name)
{
	size_t length = strlen(parent);

	memcpy(buffer, parent, length);
	for (size_t i = 0; i < name.length && length < POINTER_MAX - 2; i++) {
		char c = name.data[i];

		buffer[length++] = c == '~' || c == '/' ? '~' : c;
		if (c == '~' || c == '/')
			buffer[length++] = c == '~' ? '0' : '1';
	}
	buffer[length] = '\0';
	return buffer;
}

bool task_integer(const json_t *value, int64_t *ret_integer)
{
	double number = json_number_value(value);

	if (json_is_integer(value)) {
		*ret_integer = json_integer_value(value);
		return true;
	}
	if (!json_is_real(value) || !(fabs(number) <= 9007199254740992.0) || trunc(number) != number)
		return false;
	*ret_integer = (int64_t)number;
	return true;
}

static struct rea_slice text_of(const json_t *value)
{
	return rea_slice_make(json_string_value(value), json_string_length(value));
}

static bool has_control(struct rea_slice text)
{
	for (size_t i = 0; i < text.length; i++)
		if ((unsigned char)text.data[i] < 0x20 || text.data[i] == 0x7f)
			return true;
	return false;
}

static bool read_text(
    const struct reading *reading, const char *name, const json_t *value, size_t max, struct rea_slice *ret_text)
{
	struct rea_slice text = text_of(value);

	if (!json_is_string(value) || text.length == 0)
		return refuse(reading, name, "%s is a text that is not empty", name);
	if (text.length > max)
		return refuse(reading, name, "%s has %zu bytes; it may have %zu", name, text.length, max);
	if (has_control(text))
		return refuse(reading, name, "%s has a control character in it", name);
	*ret_text = text;
	return true;
}

/* A number of milliseconds that is whole. */
static bool read_ms(const struct reading *reading, const char *name, const json_t *value, uint64_t min_ms,
    uint64_t max_ms, uint64_t *ret_ns)
{
	int64_t ms;

	if (!task_integer(value, &ms) || ms < (int64_t)min_ms || (uint64_t)ms > max_ms)
		return refuse(reading, name, "%s is a whole number of milliseconds from %llu to %llu", name,
		    (unsigned long long)min_ms, (unsigned long long)max_ms);
	*ret_ns = rea_time_from_ms((uint64_t)ms);
	return true;
}

static bool is_token(struct rea_slice text)
{
	for (size_t i = 0; i < text.length; i++) {
		unsigned char c = (unsigned char)text.data[i];

		if (c <= ' ' || c >= 0x7f || strchr("()<>@,;:\\\"/[]?={}", c) != NULL)
			return false;
	}
	return text.length > 0;
}

/* ---- headers ---- */

/* What belongs to the connection, to the body's framing, or to rea. */
static bool is_ours(struct rea_slice name)
{
	static const uint8_t ids[] = {HTTP_FIELD_HOST, HTTP_FIELD_CONNECTION, HTTP_FIELD_KEEP_ALIVE,
	    HTTP_FIELD_PROXY_CONNECTION, HTTP_FIELD_PROXY_AUTHENTICATE, HTTP_FIELD_PROXY_AUTHORIZATION, HTTP_FIELD_TE,
	    HTTP_FIELD_TRAILER, HTTP_FIELD_TRANSFER_ENCODING, HTTP_FIELD_UPGRADE, HTTP_FIELD_CONTENT_LENGTH,
	    HTTP_FIELD_EXPECT, HTTP_FIELD_IDEMPOTENCY_KEY, HTTP_FIELD_REA_RETRY, HTTP_FIELD_REA_ATTEMPT,
	    HTTP_FIELD_REA_DEADLINE_MS, HTTP_FIELD_REA_REASON};

	return memchr(ids, (int)http_field_id_of(name), sizeof(ids)) != NULL;
}

static bool read_header(const struct reading *reading, struct rea_slice name, const json_t *value)
{
	struct task_request *request = &reading->submit->request;
	struct rea_slice text = text_of(value);
	char where[POINTER_MAX];

	point(where, "headers/", name);
	if (!is_token(name))
		return refuse(reading, "headers", "a header's name is made of letters, digits and the likes of \"-\"");
	if (is_ours(name))
		return refuse(reading, where, "%.*s is set by rea%s", (int)name.length, name.data,
		    http_field_id_of(name) == HTTP_FIELD_IDEMPOTENCY_KEY ? "; hand the key in as `key`" : "");
	if (!json_is_string(value))
		return refuse(reading, where, "a header's value is a text");
	if (has_control(text))
		return refuse(reading, where, "a header's value has no line breaks and no control characters in it");
	if (name.length + text.length > TASK_FIELD_BYTES_MAX)
		return refuse(reading, where, "a header may have %d bytes", TASK_FIELD_BYTES_MAX);
	if (request->fields_len == TASK_FIELDS_MAX)
		return refuse(reading, "headers", "a task may have %d headers", TASK_FIELDS_MAX);
	if (http_field_named(request->fields, request->fields_len, name) != NULL)
		return refuse(reading, where, "this header stands here twice");
	request->fields[request->fields_len++] =
	    (struct http_field){.name = name, .value = text, .id = (uint8_t)http_field_id_of(name)};
	return true;
}

static int compare_fields(const void *a, const void *b)
{
	const struct http_field *x = a, *y = b;
	size_t length = x->name.length < y->name.length ? x->name.length : y->name.length;

	for (size_t i = 0; i < length; i++) {
		int order = rea_ascii_lower(x->name.data[i]) - rea_ascii_lower(y->name.data[i]);

		if (order != 0)
			return order;
	}
	return x->name.length < y->name.length ? -1 : x->name.length > y->name.length;
}

/* In one order, whatever order they came in: a submit that says the same is the same. */
static bool read_headers(struct reading *reading, json_t *value)
{
	struct task_request *request = &reading->submit->request;
	const char *name;
	size_t length;
	json_t *item;

	if (!json_is_object(value))
		return refuse(reading, "headers", "headers is an object of names and texts");
	json_object_keylen_foreach(value, name, length, item)
	{
		if (!read_header(reading, rea_slice_make(name, length), item))
			return false;
	}
	qsort(request->fields, request->fields_len, sizeof(request->fields[0]), compare_fields);
	return true;
}

/* ---- body ---- */

static int base64_digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Strict: padded, no other characters, unused bits zero. */
static bool decode_base64(struct rea_slice text, struct rea_buffer *out)
{
	size_t padding = 0;
	uint32_t bits = 0;

	if (text.length % 4 != 0)
		return false;
	while (padding < 2 && padding < text.length && text.data[text.length - 1 - padding] == '=')
		padding++;
	for (size_t i = 0; i < text.length; i++) {
		int digit = i >= text.length - padding ? 0 : base64_digit(text.data[i]);

		if (digit < 0)
			return false;
		bits = bits << 6 | (uint32_t)digit;
		if (i % 4 == 3) {
			out->data[out->end++] = (char)(bits >> 16 & 255);
			out->data[out->end++] = (char)(bits >> 8 & 255);
			out->data[out->end++] = (char)(bits & 255);
			bits = 0;
		}
	}
	for (size_t i = 0; i < padding; i++)
		if (out->data[--out->end] != 0)
			return false;
	return true;
}

static bool read_body(struct reading *reading, const char *name, const json_t *value, bool encoded)
{
	struct task_submit *submit = reading->submit;

	if (submit->has_body)
		return refuse(reading, name, "a task has one body: `body` or `body_base64`");
	if (!json_is_string(value))
		return refuse(reading, name, "%s is a text", name);
	submit->has_body = true;
	submit->request.body = text_of(value);
	if (!encoded && submit->document.cut)
		submit->request.body =
		    rea_slice_make(rea_buffer_data(&submit->document.body), rea_buffer_length(&submit->document.body));
	if (!encoded)
		return true;
	if (rea_buffer_reserve(&submit->decoded, submit->request.body.length) != 0) {
		task_problem_set(reading->problem, 503, "", "out of memory");
		return false;
	}
	if (!decode_base64(submit->request.body, &submit->decoded))
		return refuse(reading, name, "%s is not base64 (RFC 4648 section 4, padded)", name);
	submit->request.body = rea_slice_make(rea_buffer_data(&submit->decoded), rea_buffer_length(&submit->decoded));
	return true;
}

/* ---- policy ---- */

static bool read_share(
    const struct reading *reading, const char *name, const json_t *value, double min, double max, double *ret_value)
{
	double number = json_number_value(value);

	if (!json_is_number(value) || !isfinite(number) || number < min || number > max)
		return refuse(reading, name, "%s is a number from %g to %g", strrchr(name, '/') + 1, min, max);
	*ret_value = number;
	return true;
}

static bool read_outcomes(const struct reading *reading, json_t *value, uint32_t *ret_set)
{
	json_t *item;
	size_t index;

	*ret_set = 0;
	if (!json_is_array(value))
		return refuse(reading, "policy/retry-on", "retry-on is a list of outcomes");
	json_array_foreach(value, index, item)
	{
		int outcome =
		    json_is_string(item) ? rea_outcome_parse(json_string_value(item), json_string_length(item)) : -1;

		if (outcome <= REA_OUTCOME_OK || outcome == REA_OUTCOME_PERMANENT || outcome == REA_OUTCOME_CANCELLED)
			return refuse(reading, "policy/retry-on",
			    "retry-on names never_sent, pushback, throttled, unavailable, "
			    "ambiguous, failed, and nothing else");
		*ret_set |= REA_OUTCOME_BIT((uint32_t)outcome);
	}
	return true;
}

static bool read_classify(const struct reading *reading, json_t *value, struct rea_policy *policy)
{
	static const char expected[] = "classify maps an HTTP status to an outcome: {\"409\": \"unavailable\"}";
	const char *code;
	json_t *item;

	if (!json_is_object(value) || json_object_size(value) > REA_CLASSIFY_RULES_MAX)
		return refuse(reading, "policy/classify", "%s, at most %d", expected, REA_CLASSIFY_RULES_MAX);
	json_object_foreach(value, code, item)
	{
		int outcome =
		    json_is_string(item) ? rea_outcome_parse(json_string_value(item), json_string_length(item)) : -1;
		uint64_t status;

		if (outcome < 0 || outcome == REA_OUTCOME_CANCELLED || !rea_slice_to_u64(rea_slice_of(code), &status) ||
		    status < 100 || status > 599)
			return refuse(reading, "policy/classify", "%s", expected);
		policy->classify[policy->classify_len++] =
		    (struct rea_classify_rule){REA_CODE_HTTP, (uint32_t)status, (enum rea_outcome)outcome};
	}
	return true;
}

static bool read_attempts(const struct reading *reading, const json_t *value, uint32_t *ret_moves)
{
	int64_t number, bound = reading->attempts_max;

	if (!task_integer(value, &number) || number < 1 || number > bound)
		return refuse(reading, "policy/max-attempts",
		    "max-attempts is a number from 1 to %u (limits.task-attempts-max)", reading->attempts_max);
	*ret_moves = (uint32_t)number - 1;
	return true;
}

#define MONTH_MS UINT64_C(2592000000)
#define HOUR_MS UINT64_C(3600000)

static bool read_policy_key(struct reading *reading, const char *name, json_t *value, enum rea_policy_key *ret_key)
{
	struct rea_policy *policy = &reading->submit->request.policy.values;
	char buffer[POINTER_MAX];
	const char *where = point(buffer, "policy/", rea_slice_of(name));

#define IS(text, key) (strcmp(name, text) == 0 && ((*ret_key = REA_POLICY_##key), true))
	if (IS("max-attempts", MAX_RETRY_NEXT_INSTANCE))
		return read_attempts(reading, value, &policy->max_retry_next_instance);
	if (IS("min-backoff-ms", MIN_BACKOFF))
		return read_ms(reading, where, value, 1, MONTH_MS, &policy->min_backoff_ns);
	if (IS("max-backoff-ms", MAX_BACKOFF))
		return read_ms(reading, where, value, 1, MONTH_MS, &policy->max_backoff_ns);
	if (IS("backoff-multiplier", BACKOFF_MULTIPLIER))
		return read_share(reading, where, value, 1, 100, &policy->backoff_multiplier);
	if (IS("jitter", JITTER))
		return read_share(reading, where, value, 1e-6, 1, &policy->jitter);
	if (IS("attempt-timeout-ms", ATTEMPT_TIMEOUT))
		return read_ms(reading, where, value, 1, HOUR_MS, &policy->attempt_timeout_ns);
	if (IS("deadline-ms", DEADLINE))
		return read_ms(reading, where, value, 1, MONTH_MS, &policy->deadline_ns);
	if (IS("retry-on", RETRY_ON))
		return read_outcomes(reading, value, &policy->retry_on);
	if (IS("classify", CLASSIFY))
		return read_classify(reading, value, policy);
#undef IS
	return refuse(reading, where, "there is no such key of a task's policy");
}

static bool read_policy(struct reading *reading, json_t *value)
{
	enum rea_policy_key key = REA_POLICY_ENABLED;
	const char *name;
	json_t *item;

	if (!json_is_object(value))
		return refuse(reading, "policy", "policy is an object");
	json_object_foreach(value, name, item)
	{
		if (!read_policy_key(reading, name, item, &key))
			return false;
		reading->submit->request.policy.set |= UINT32_C(1) << key;
	}
	return true;
}

/* ---- the rest ---- */

static bool read_not_before(struct reading *reading, const json_t *value)
{
	if (!json_is_string(value) || !task_time_parse(text_of(value), &reading->submit->not_before_unix_ns))
		return refuse(reading, "not_before", "not_before is a time such as 2026-01-02T03:04:05Z (RFC 3339)");
	reading->has_not_before = true;
	return true;
}

static bool read_mode(struct reading *reading, const json_t *value)
{
	struct rea_slice text = text_of(value);

	reading->submit->sync_first = rea_slice_equal(text, REA_SLICE_LIT("sync-first"));
	return reading->submit->sync_first || rea_slice_equal(text, REA_SLICE_LIT("accept")) ||
	       refuse(reading, "mode", "mode is accept or sync-first");
}

static bool read_path(struct reading *reading, const json_t *value)
{
	struct rea_slice path = {"", 0};

	if (!read_text(reading, "path", value, TASK_PATH_MAX, &path))
		return false;
	if (path.length == 0 || path.data[0] != '/')
		return refuse(reading, "path", "path begins with /");
	for (size_t i = 0; i < path.length; i++)
		if ((unsigned char)path.data[i] <= ' ' || (unsigned char)path.data[i] >= 0x7f || path.data[i] == '#')
			return refuse(reading, "path", "path has a character in it that must be percent-encoded");
	reading->submit->request.path = path;
	return reading->has_path = true;
}

static bool read_method(struct reading *reading, const json_t *value)
{
	struct rea_slice *method = &reading->submit->request.method;

	if (!read_text(reading, "method", value, 32, method))
		return false;
	return (is_token(*method) && !rea_slice_equal(*method, REA_SLICE_LIT("CONNECT")) &&
		   !rea_slice_equal(*method, REA_SLICE_LIT("TRACE"))) ||
	       refuse(reading, "method", "method is an HTTP method, and not CONNECT or TRACE");
}

/* Blanks around it would be lost on the way: two keys here would be one at the target. */
static bool read_key(struct reading *reading, const char *name, const json_t *value)
{
	struct rea_slice *key = &reading->submit->key;

	if (!read_text(reading, name, value, REA_STORE_TEXT_MAX, key))
		return false;
	return (key->data[0] != ' ' && key->data[key->length - 1] != ' ') ||
	       refuse(reading, name, "%s has a blank at its beginning or end", name);
}

static bool read_member(struct reading *reading, const char *name, json_t *value)
{
	struct task_submit *submit = reading->submit;
	char where[POINTER_MAX];

	if (strcmp(name, "service") == 0)
		return reading->has_service = read_text(reading, name, value, 128, &submit->target);
	if (strcmp(name, "url") == 0)
		return reading->has_url = submit->request.is_url =
			   read_text(reading, name, value, TASK_PATH_MAX, &submit->request.path);
	if (strcmp(name, "path") == 0)
		return read_path(reading, value);
	if (strcmp(name, "method") == 0)
		return read_method(reading, value);
	if (strcmp(name, "headers") == 0)
		return read_headers(reading, value);
	if (strcmp(name, "body") == 0)
		return read_body(reading, name, value, false);
	if (strcmp(name, "body_base64") == 0)
		return read_body(reading, name, value, true);
	if (strcmp(name, "biz_id") == 0)
		return read_text(reading, name, value, REA_STORE_TEXT_MAX, &submit->biz_id);
	if (strcmp(name, "key") == 0)
		return read_key(reading, name, value);
	if (strcmp(name, "policy") == 0)
		return read_policy(reading, value);
	if (strcmp(name, "not_before") == 0)
		return read_not_before(reading, value);
	if (strcmp(name, "delay_ms") == 0)
		return reading->has_delay =
			   read_ms(reading, name, value, 0, REA_STORE_DELAY_NS_MAX / REA_NS_PER_MS, &submit->delay_ns);
	if (strcmp(name, "max_age_ms") == 0)
		return read_ms(reading, name, value, 1, REA_STORE_DELAY_NS_MAX / REA_NS_PER_MS, &submit->request.max_age_ns);
	if (strcmp(name, "mode") == 0)
		return read_mode(reading, value);
	return refuse(reading, point(where, "", rea_slice_of(name)), "there is no such field");
}

static bool check_target(const struct reading *reading)
{
	if (reading->has_service == reading->has_url)
		return refuse(reading, "", "a task goes to a `service` or to a `url`, and to one of them");
	if (reading->has_service && !reading->has_path)
		return refuse(reading, "path", "a task to a service needs a `path`");
	if (reading->has_url && reading->has_path)
		return refuse(reading, "path", "a `url` has its path in it");
	return true;
}

/* IK1: a quoted string and a bare one are two ways to write a key; what is sent on are the caller's bytes. */
static bool take_header_key(const struct reading *reading, struct rea_slice header_key)
{
	struct task_submit *submit = reading->submit;

	if (header_key.length == 0)
		return true;
	if (submit->key.length > 0 && !rea_slice_equal(submit->key, header_key))
		return refuse(reading, "key", "key and the Idempotency-Key of the request differ");
	if (header_key.length > REA_STORE_TEXT_MAX || has_control(header_key))
		return refuse(reading, "key",
		    "an Idempotency-Key has at most %d bytes, none of them control characters", REA_STORE_TEXT_MAX);
	submit->key = header_key;
	return true;
}

#define HAS(layer, key) ((layer)->set & (UINT32_C(1) << REA_POLICY_##key))

/* What cannot be met is refused; where the task's key and one of the configuration do not fit together, the configuration's gives way. */
static bool check_policy(const struct reading *reading)
{
	const struct rea_policy_layer *own = &reading->submit->request.policy;
	struct rea_error_info wrong;
	struct rea_policy policy;
	char where[POINTER_MAX];

	if (own->set == 0)
		return true;
	if (HAS(own, MIN_BACKOFF) && HAS(own, MAX_BACKOFF) && own->values.max_backoff_ns < own->values.min_backoff_ns)
		return refuse(reading, "policy/max-backoff-ms", "max-backoff-ms is below min-backoff-ms");
	if (HAS(own, ATTEMPT_TIMEOUT) && HAS(own, DEADLINE) && own->values.attempt_timeout_ns > own->values.deadline_ns)
		return refuse(reading, "policy/attempt-timeout-ms", "attempt-timeout-ms is above deadline-ms");
	task_policy(reading->configured, own, false, NULL, &policy);
	memset(&wrong, 0, sizeof(wrong));
	if (rea_policy_validate_task(&policy, reading->attempts_max, &wrong) == 0)
		return true;
	snprintf(where, sizeof(where), "policy/%.80s",
	    strcmp(wrong.key, "max-retry-next-instance") == 0 ? "max-attempts" : wrong.key);
	return refuse(reading, where, "%s", wrong.message);
}

static bool read_submit(struct reading *reading, json_t *document, struct rea_slice header_key)
{
	const char *name;
	json_t *value;

	if (!json_is_object(document))
		return refuse(reading, "", "a task is an object");
	json_object_foreach(document, name, value)
	{
		if (!read_member(reading, name, value))
			return false;
	}
	if (reading->has_delay && reading->has_not_before)
		return refuse(reading, "delay_ms", "a task has `delay_ms` or `not_before`, not both");
	return check_target(reading) && take_header_key(reading, header_key) && check_policy(reading);
}

bool task_submit_read(struct task_submit *ret_submit, struct task_document document, struct rea_slice header_key,
    const struct rea_config_settings *settings, struct task_problem *ret_problem)
{
	struct reading reading = {.submit = ret_submit,
	    .attempts_max = settings->limits.task_attempts,
	    .configured = &settings->tasks.policy,
	    .problem = ret_problem};

	ret_submit->document = document;
	ret_submit->target = ret_submit->biz_id = ret_submit->key = rea_slice_make(NULL, 0);
	ret_submit->decoded = (struct rea_buffer){.alloc = NULL};
	ret_submit->url = NULL;
	ret_submit->has_body = ret_submit->sync_first = false;
	ret_submit->delay_ns = 0;
	ret_submit->not_before_unix_ns = INT64_MAX;
	ret_submit->request.is_url = false;
	ret_submit->request.method = REA_SLICE_LIT("POST");
	ret_submit->request.path = ret_submit->request.body = rea_slice_make(NULL, 0);
	ret_submit->request.fields_len = 0;
	ret_submit->request.max_age_ns = ret_submit->request.message_id = 0;
	ret_submit->request.policy.set = 0;
	ret_submit->request.policy.values.classify_len = 0;
	if (read_submit(&reading, document.json, header_key))
		return true;
	task_submit_fini(ret_submit);
	return false;
}

void task_submit_fini(struct task_submit *submit)
{
	task_document_fini(&submit->document);
	rea_buffer_fini(&submit->decoded);
	free(submit->url);
}

/* ---- fingerprint ---- */

/* Two independent 64-bit sums over the same bytes: whoever makes them collide has fooled himself alone, since keys are his own. */
struct hasher {
	uint64_t a, b;
};

static void hash_number(struct hasher *hasher, uint64_t number)
{
	hasher->a = (hasher->a ^ number) * UINT64_C(0xff51afd7ed558ccd);
	hasher->a ^= hasher->a >> 32;
	hasher->b = (hasher->b + number) * UINT64_C(0x9e3779b97f4a7c15);
	hasher->b ^= hasher->b >> 29;
}

/* The length is hashed by whoever has bytes of any length. */
static void hash_bytes(struct hasher *hasher, const void *data, size_t length)
{
	const char *bytes = data;
	uint64_t word;

	for (; length >= sizeof(word); bytes += sizeof(word), length -= sizeof(word)) {
		memcpy(&word, bytes, sizeof(word));
		hash_number(hasher, word);
	}
	if (length == 0)
		return;
	word = 0;
	memcpy(&word, bytes, length);
	hash_number(hasher, word);
}

static void hash_text(struct hasher *hasher, struct rea_slice text)
{
	hash_number(hasher, text.length);
	hash_bytes(hasher, text.data, text.length);
}

static void hash_double(struct hasher *hasher, double value)
{
	hash_bytes(hasher, &value, sizeof(value));
}

static void hash_policy(struct hasher *hasher, const struct rea_policy_layer *layer)
{
	const struct rea_policy *policy = &layer->values;

	hash_number(hasher, layer->set);
	if (HAS(layer, MAX_RETRY_NEXT_INSTANCE))
		hash_number(hasher, policy->max_retry_next_instance);
	if (HAS(layer, MIN_BACKOFF))
		hash_number(hasher, policy->min_backoff_ns);
	if (HAS(layer, MAX_BACKOFF))
		hash_number(hasher, policy->max_backoff_ns);
	if (HAS(layer, BACKOFF_MULTIPLIER))
		hash_double(hasher, policy->backoff_multiplier);
	if (HAS(layer, JITTER))
		hash_double(hasher, policy->jitter);
	if (HAS(layer, ATTEMPT_TIMEOUT))
		hash_number(hasher, policy->attempt_timeout_ns);
	if (HAS(layer, DEADLINE))
		hash_number(hasher, policy->deadline_ns);
	if (HAS(layer, RETRY_ON))
		hash_number(hasher, policy->retry_on);
	for (size_t i = 0; i < policy->classify_len && HAS(layer, CLASSIFY); i++)
		hash_number(hasher, (uint64_t)policy->classify[i].code << 8 | policy->classify[i].outcome);
}

void task_fingerprint(const struct task_submit *submit, uint8_t ret_fingerprint[16])
{
	const struct task_request *request = &submit->request;
	struct hasher hasher = {UINT64_C(0xcbf29ce484222325), UINT64_C(0x2545f4914f6cdd1d)};

	hash_number(&hasher, (uint64_t)request->is_url | (uint64_t)submit->sync_first << 1);
	hash_text(&hasher, submit->target);
	hash_text(&hasher, request->method);
	hash_text(&hasher, request->path);
	hash_text(&hasher, submit->biz_id);
	hash_number(&hasher, request->fields_len);
	for (size_t i = 0; i < request->fields_len; i++) {
		hash_text(&hasher, request->fields[i].name);
		hash_text(&hasher, request->fields[i].value);
	}
	hash_text(&hasher, request->body);
	hash_policy(&hasher, &request->policy);
	hash_number(&hasher, submit->delay_ns);
	hash_number(&hasher, (uint64_t)submit->not_before_unix_ns);
	hash_number(&hasher, request->max_age_ns);
	memcpy(ret_fingerprint, &hasher.a, 8);
	memcpy(ret_fingerprint + 8, &hasher.b, 8);
}

/* ---- payload ----
 * version 1, is_url 1, max age 8, message id 8, policy's set 4, the values of set keys, then texts with their lengths before them: method, path, number of
 * headers 4, names and values, body. Numbers are little-endian. */

static void put_number(struct rea_buffer *out, uint64_t value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		out->data[out->end++] = (char)(value >> (8 * i) & 255);
}

static void put_double(struct rea_buffer *out, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	put_number(out, bits, 8);
}

static void put_text(struct rea_buffer *out, struct rea_slice text)
{
	put_number(out, text.length, 4);
	if (text.length > 0)
		memcpy(out->data + out->end, text.data, text.length);
	out->end += text.length;
}

#define HEAD_BYTES 22
#define POLICY_BYTES_MAX (8 * 8 + 4 + REA_CLASSIFY_RULES_MAX * 4)

static size_t payload_bytes(const struct task_request *request)
{
	size_t bytes =
	    HEAD_BYTES + POLICY_BYTES_MAX + 4 * 4 + request->method.length + request->path.length + request->body.length;

	for (size_t i = 0; i < request->fields_len; i++)
		bytes += 8 + request->fields[i].name.length + request->fields[i].value.length;
	return bytes;
}

static void put_policy(struct rea_buffer *out, const struct rea_policy_layer *layer)
{
	const struct rea_policy *policy = &layer->values;

	put_number(out, layer->set, 4);
	if (HAS(layer, MAX_RETRY_NEXT_INSTANCE))
		put_number(out, policy->max_retry_next_instance, 8);
	if (HAS(layer, MIN_BACKOFF))
		put_number(out, policy->min_backoff_ns, 8);
	if (HAS(layer, MAX_BACKOFF))
		put_number(out, policy->max_backoff_ns, 8);
	if (HAS(layer, BACKOFF_MULTIPLIER))
		put_double(out, policy->backoff_multiplier);
	if (HAS(layer, JITTER))
		put_double(out, policy->jitter);
	if (HAS(layer, ATTEMPT_TIMEOUT))
		put_number(out, policy->attempt_timeout_ns, 8);
	if (HAS(layer, DEADLINE))
		put_number(out, policy->deadline_ns, 8);
	if (HAS(layer, RETRY_ON))
		put_number(out, policy->retry_on, 8);
	if (!HAS(layer, CLASSIFY))
		return;
	put_number(out, policy->classify_len, 4);
	for (size_t i = 0; i < policy->classify_len; i++)
		put_number(out, (uint64_t)policy->classify[i].code << 16 | policy->classify[i].outcome, 4);
}

int task_encode(const struct task_request *request, struct rea_buffer *payload)
{
	if (rea_buffer_reserve(payload, payload_bytes(request)) != 0)
		return REA_ERR_NOMEM;
	put_number(payload, PAYLOAD_VERSION, 1);
	put_number(payload, request->is_url, 1);
	put_number(payload, request->max_age_ns, 8);
	put_number(payload, request->message_id, 8);
	put_policy(payload, &request->policy);
	put_text(payload, request->method);
	put_text(payload, request->path);
	put_number(payload, request->fields_len, 4);
	for (size_t i = 0; i < request->fields_len; i++) {
		put_text(payload, request->fields[i].name);
		put_text(payload, request->fields[i].value);
	}
	put_text(payload, request->body);
	return 0;
}

/* What is left to be read; once something was missing, everything is. */
struct input {
	const char *at;
	size_t left;
	bool damaged;
};

static uint64_t take_number(struct input *in, size_t bytes)
{
	uint64_t value = 0;

	if (in->damaged || in->left < bytes) {
		in->damaged = true;
		return 0;
	}
	for (size_t i = 0; i < bytes; i++)
		value |= (uint64_t)(unsigned char)in->at[i] << (8 * i);
	in->at += bytes;
	in->left -= bytes;
	return value;
}

static double take_double(struct input *in)
{
	uint64_t bits = take_number(in, 8);
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static struct rea_slice take_text(struct input *in)
{
	size_t length = (size_t)take_number(in, 4);
	struct rea_slice text = {in->at, length};

	if (in->damaged || length > in->left) {
		in->damaged = true;
		return rea_slice_make(NULL, 0);
	}
	in->at += length;
	in->left -= length;
	return text;
}

static void take_classify(struct input *in, struct rea_policy *policy)
{
	uint64_t count = take_number(in, 4);

	if (count > REA_CLASSIFY_RULES_MAX)
		in->damaged = true;
	policy->classify_len = 0;
	while (!in->damaged && policy->classify_len < count) {
		uint64_t rule = take_number(in, 4);

		policy->classify[policy->classify_len++] =
		    (struct rea_classify_rule){REA_CODE_HTTP, (uint32_t)(rule >> 16), (enum rea_outcome)(rule & 0xffff)};
	}
}

static void take_policy(struct input *in, struct rea_policy_layer *layer)
{
	struct rea_policy *policy = &layer->values;

	layer->set = (uint32_t)take_number(in, 4);
	if (HAS(layer, MAX_RETRY_NEXT_INSTANCE))
		policy->max_retry_next_instance = (uint32_t)take_number(in, 8);
	if (HAS(layer, MIN_BACKOFF))
		policy->min_backoff_ns = take_number(in, 8);
	if (HAS(layer, MAX_BACKOFF))
		policy->max_backoff_ns = take_number(in, 8);
	if (HAS(layer, BACKOFF_MULTIPLIER))
		policy->backoff_multiplier = take_double(in);
	if (HAS(layer, JITTER))
		policy->jitter = take_double(in);
	if (HAS(layer, ATTEMPT_TIMEOUT))
		policy->attempt_timeout_ns = take_number(in, 8);
	if (HAS(layer, DEADLINE))
		policy->deadline_ns = take_number(in, 8);
	if (HAS(layer, RETRY_ON))
		policy->retry_on = (uint32_t)take_number(in, 8);
	if (HAS(layer, CLASSIFY))
		take_classify(in, policy);
}

#define OWN_KEYS                                                                                     \
	(UINT32_C(1) << REA_POLICY_MAX_RETRY_NEXT_INSTANCE | UINT32_C(1) << REA_POLICY_MIN_BACKOFF | \
	    UINT32_C(1) << REA_POLICY_MAX_BACKOFF | UINT32_C(1) << REA_POLICY_BACKOFF_MULTIPLIER |   \
	    UINT32_C(1) << REA_POLICY_JITTER | UINT32_C(1) << REA_POLICY_ATTEMPT_TIMEOUT |           \
	    UINT32_C(1) << REA_POLICY_DEADLINE | UINT32_C(1) << REA_POLICY_RETRY_ON | UINT32_C(1) << REA_POLICY_CLASSIFY)

/* The engine asserts what a policy must be: rows from elsewhere are weighed again. */
static bool policy_is_sound(const struct rea_policy_layer *layer)
{
	struct rea_policy policy;

	if (layer->set & ~OWN_KEYS)
		return false;
	if (layer->set == 0)
		return true;
	task_policy(NULL, layer, false, NULL, &policy);
	return rea_policy_validate_task(&policy, REA_TASK_ATTEMPTS_MAX, NULL) == 0;
}

/* Up to the path. */
static bool take_head(struct input *in, struct task_request *ret_request)
{
	uint64_t version = take_number(in, 1), is_url = take_number(in, 1);

	ret_request->is_url = is_url == 1;
	ret_request->max_age_ns = take_number(in, 8);
	ret_request->message_id = take_number(in, 8);
	ret_request->policy.values.classify_len = 0;
	take_policy(in, &ret_request->policy);
	ret_request->method = take_text(in);
	ret_request->path = take_text(in);
	return !in->damaged && version == PAYLOAD_VERSION && is_url <= 1;
}

bool task_decode_head(struct rea_slice payload, struct rea_slice *ret_method, struct rea_slice *ret_path)
{
	struct input in = {payload.data, payload.length, false};
	struct task_request request;

	if (!take_head(&in, &request))
		return false;
	*ret_method = request.method;
	*ret_path = request.path;
	return true;
}

bool task_decode(struct rea_slice payload, struct task_request *ret_request)
{
	struct input in = {payload.data, payload.length, false};
	bool sound = take_head(&in, ret_request);
	uint64_t count;

	count = take_number(&in, 4);
	ret_request->fields_len = 0;
	if (!sound || count > TASK_FIELDS_MAX)
		return false;
	for (size_t i = 0; i < count; i++) {
		struct rea_slice name = take_text(&in), value = take_text(&in);

		ret_request->fields[ret_request->fields_len++] =
		    (struct http_field){.name = name, .value = value, .id = (uint8_t)http_field_id_of(name)};
	}
	ret_request->body = take_text(&in);
	return !in.damaged && in.left == 0 && ret_request->method.length > 0 && ret_request->path.length > 0 &&
	       policy_is_sound(&ret_request->policy);
}

/* ---- the policy that holds ---- */

void task_policy(const struct rea_policy_layer *configured, const struct rea_policy_layer *own, bool retries_off,
    const struct rea_policy *calls, struct rea_policy *ret_policy)
{
	struct rea_policy_layer defaults = {.set = (UINT32_C(1) << REA_POLICY_KEY_COUNT) - 1};
	const struct rea_policy_layer *const layers[] = {&defaults, configured, own};

	rea_policy_task_defaults(&defaults.values);
	rea_policy_merge(layers, 3, SIZE_MAX, ret_policy);
	if (calls != NULL && !(configured != NULL && HAS(configured, CLASSIFY)) && !HAS(own, CLASSIFY)) {
		ret_policy->classify_len = calls->classify_len;
		memcpy(ret_policy->classify, calls->classify, sizeof(calls->classify));
	}
	if (retries_off)
		ret_policy->enabled = false;
	ret_policy->max_backoff_ns = rea_time_max(ret_policy->max_backoff_ns, ret_policy->min_backoff_ns);
	ret_policy->attempt_timeout_ns = rea_time_min(ret_policy->attempt_timeout_ns, ret_policy->deadline_ns);
}
