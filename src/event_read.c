#include "event_read.h"

#include <math.h>
#include <string.h>
#include <time.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
/* Longest time that a number of milliseconds may name: beyond it a uint64_t of nanoseconds ends. */
#define MS_MAX 1.8e13

#define WORD(name, text) text,
static const char *const types[] = {REA_EVENT_TYPE_MAP(WORD)};
static const char *const outcomes[] = {REA_OUTCOME_MAP(WORD)};
static const char *const reasons[] = {REA_REASON_MAP(WORD)};
static const char *const permissions[] = {REA_PERMISSION_MAP(WORD)};
static const char *const sources[] = {REA_PERMISSION_SOURCE_MAP(WORD)};
static const char *const verdicts[] = {
    [REA_VERDICT_SUCCESS] = "success", [REA_VERDICT_RETRY] = "retry", [REA_VERDICT_GIVE_UP] = "give_up"};
static const char *const code_kinds[] = {
    [REA_CODE_NONE] = "", [REA_CODE_HTTP] = "http", [REA_CODE_GRPC] = "grpc", [REA_CODE_ERRNO] = "errno", [REA_CODE_EXIT] = "exit"};

static struct rea_text read_text(const json_t *json, const char *name)
{
	const json_t *value = json_object_get(json, name);

	return json_is_string(value) ? (struct rea_text){json_string_value(value), json_string_length(value)}
				     : (struct rea_text){NULL, 0};
}

/* Which of the words the member is; the first one when it is absent. False: none of them. */
static bool read_word(const json_t *json, const char *name, const char *const *words, size_t count, size_t *ret_word)
{
	const json_t *value = json_object_get(json, name);
	const char *text = json_string_value(value);
	size_t i = 0;

	if (text == NULL) {
		*ret_word = 0;
		return value == NULL;
	}
	while (i < count && strcmp(text, words[i]) != 0)
		i++;
	*ret_word = i;
	return i < count;
}

/* An absent member is 0. */
static bool read_u32(const json_t *json, const char *name, uint32_t *ret_number)
{
	const json_t *value = json_object_get(json, name);
	json_int_t number = json_integer_value(value);

	if ((value != NULL && !json_is_integer(value)) || number < 0 || number > UINT32_MAX)
		return false;
	*ret_number = (uint32_t)number;
	return true;
}

static bool read_ms(const json_t *json, const char *name, uint64_t *ret_ns)
{
	const json_t *value = json_object_get(json, name);
	double ms = json_number_value(value);

	if ((value != NULL && !json_is_number(value)) || !(ms >= 0 && ms < MS_MAX))
		return false;
	*ret_ns = (uint64_t)round(ms * 1000) * 1000;
	return true;
}

/* The number whose digits stand in text at the places of pattern's letter. */
static int number_at(const char *text, const char *pattern, char letter)
{
	int number = 0;

	for (size_t i = 0; pattern[i] != '\0'; i++)
		if (pattern[i] == letter)
			number = number * 10 + (text[i] - '0');
	return number;
}

static bool read_time(const json_t *json, int64_t *ret_unix_ns)
{
	static const char pattern[] = "YYYY-MM-DDThh:mm:ss.fffZ";
	const char *text = json_string_value(json_object_get(json, "time"));
	struct tm utc = {0};

	if (text == NULL || strlen(text) != strlen(pattern))
		return false;
	for (size_t i = 0; pattern[i] != '\0'; i++)
		if (strchr("-T:.Z", pattern[i]) != NULL ? text[i] != pattern[i] : text[i] < '0' || text[i] > '9')
			return false;
	utc.tm_year = number_at(text, pattern, 'Y') - 1900;
	utc.tm_mon = number_at(text, pattern, 'M') - 1;
	utc.tm_mday = number_at(text, pattern, 'D');
	utc.tm_hour = number_at(text, pattern, 'h');
	utc.tm_min = number_at(text, pattern, 'm');
	utc.tm_sec = number_at(text, pattern, 's');
	*ret_unix_ns = ((int64_t)timegm(&utc) * 1000 + number_at(text, pattern, 'f')) * 1000000;
	return true;
}

static bool read_words(const json_t *json, struct rea_event *event)
{
	size_t type, outcome, kind, verdict, reason, permission, source;

	if (json_object_get(json, "type") == NULL || !read_word(json, "type", types, COUNT(types), &type) ||
	    !read_word(json, "outcome", outcomes, COUNT(outcomes), &outcome) ||
	    !read_word(json, "error_code_kind", code_kinds, COUNT(code_kinds), &kind) ||
	    !read_word(json, "verdict", verdicts, COUNT(verdicts), &verdict) ||
	    !read_word(json, "reason", reasons, COUNT(reasons), &reason) ||
	    !read_word(json, "permission", permissions, COUNT(permissions), &permission) ||
	    !read_word(json, "permission_source", sources, COUNT(sources), &source))
		return false;
	event->type = (enum rea_event_type)type;
	event->outcome = (enum rea_outcome)outcome;
	event->code_kind = (enum rea_code_kind)kind;
	event->verdict = (enum rea_verdict)verdict;
	event->reason = (enum rea_reason)reason;
	event->grant.permission = (enum rea_permission)permission;
	event->grant.source = (enum rea_permission_source)source;
	return true;
}

static bool read_numbers(const json_t *json, struct rea_event *event)
{
	event->retryable = json_is_true(json_object_get(json, "retryable"));
	return read_time(json, &event->time_unix_ns) && read_u32(json, "attempt", &event->attempt) &&
	       read_u32(json, "attempts_max", &event->attempts_max) && read_u32(json, "error_code", &event->code) &&
	       read_ms(json, "cost_ms", &event->cost_ns) && read_ms(json, "next_delay_ms", &event->next_delay_ns) &&
	       read_ms(json, "start_ms", &event->attempt_start_ns) && read_ms(json, "end_ms", &event->time_ns);
}

bool event_read(const json_t *json, struct rea_event *ret_event)
{
	struct rea_event event = {
	    .call_id = read_text(json, "call_id"),
	    .biz_id = read_text(json, "biz_id"),
	    .key = read_text(json, "key"),
	    .trace_id = read_text(json, "trace_id"),
	    .service = read_text(json, "service"),
	    .method = read_text(json, "method"),
	    .instance = read_text(json, "instance"),
	    .evidence = read_text(json, "evidence"),
	    .detail = read_text(json, "detail"),
	};

	if (!read_words(json, &event) || !read_numbers(json, &event))
		return false;
	*ret_event = event;
	return true;
}
