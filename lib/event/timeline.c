/*
 * Events as a person reads them:
 *
 *   biz_id order-42, from 2026-01-02T03:04:05.678Z
 *   call 7f3a2c  user-service  users_get  GET /users/42  permission idempotent (config), at most 2 attempts (1 retry)
 *          +0 ms  #1/2    127.0.0.1:9001         unavailable 503             12 ms  retry in 104 ms
 *        +117 ms  #2/2    127.0.0.1:9002         ok 200                     3.4 ms  success after 2 attempts (1 retry)
 *
 * Guarantee: whatever the texts hold, nothing but printable UTF-8 gets out; colours are ours.
 */
#include <rea/event.h>

#include "base/format.h"
#include "event/text.h"
#include "event/utf8.h"

#include <rea/time.h>

#include <errno.h>
#include <string.h>

#define LINE_MAX_BYTES 4096

#define COLOR_RED "\033[31m"
#define COLOR_GREEN "\033[32m"
#define COLOR_YELLOW "\033[33m"
#define COLOR_BOLD "\033[1m"
#define COLOR_OFF "\033[0m"

/* What each reason means, in one sentence. {o}: the operation, {s}: the service, {c}: the outcome class, {a}: how
 * many attempts. */
static const char *reason_sentence(enum rea_reason reason)
{
	switch (reason) {
	case REA_REASON_NONE:
		return "";
	case REA_REASON_CANCELLED:
		return "the caller left, or rea is shutting down";
	case REA_REASON_PERMANENT:
		return "asking again would not change the answer";
	case REA_REASON_BLOCKED:
		return "the address is not allowed";
	case REA_REASON_SERVER_REFUSED:
		return "{s} asked not to be tried again";
	case REA_REASON_NOT_RETRYABLE:
		return "the policy's retry-on does not name {c}";
	case REA_REASON_FORBIDDEN:
		return "{o} is declared not repeatable";
	case REA_REASON_NOT_DECLARED:
		return "{o} is not declared repeatable";
	case REA_REASON_KEY_MISSING:
		return "{o} is repeatable only with an Idempotency-Key, and the call has none";
	case REA_REASON_NOT_ENABLED:
		return "the policy does not enable retries of {o}";
	case REA_REASON_CHAIN_STOPPED:
		return "a layer above is already retrying this call";
	case REA_REASON_BODY_OVER_LIMIT:
		return "the request body is larger than replay-limit-bytes";
	case REA_REASON_BODY_INCOMPLETE:
		return "the reply came before the whole request body";
	case REA_REASON_RESPONSE_STARTED:
		return "a part of the reply was already passed on";
	case REA_REASON_ATTEMPTS_EXHAUSTED:
		return "the policy allows {a}";
	case REA_REASON_DEADLINE:
		return "no useful attempt fits before the deadline";
	case REA_REASON_NO_UNTRIED_INSTANCE:
		return "{s} has no instance that this call has not tried";
	case REA_REASON_BREAKER_OPEN:
		return "the circuit breaker of {s} is open";
	case REA_REASON_BUDGET_EXHAUSTED:
		return "the retry budget of {s} is used up";
	case REA_REASON_OVERLOADED:
		return "too many retries are in flight";
	case REA_REASON_PARKED:
		return "waiting until {s} recovers";
	case REA_REASON_CRASH_LOOP:
		return "the process died in every one of its last attempts";
	case REA_REASON_COUNT:
		break;
	}
	return "";
}

/* ---- pieces ---- */

static void put_text(struct rea_format *line, struct rea_text text)
{
	while (text.length > 0) {
		size_t character = rea__utf8_length(text.text, text.length);

		if (character == 0)
			rea_format_text(line, REA__UTF8_REPLACEMENT);
		else if (rea__utf8_is_control(text.text, character))
			rea_format_text(line, "?");
		else
			rea_format_bytes(line, text.text, character);
		text.text += character + (character == 0);
		text.length -= character + (character == 0);
	}
}

static void pad_to(struct rea_format *line, size_t column)
{
	while (line->length < column)
		rea_format_text(line, " ");
	rea_format_text(line, "  ");
}

/* Ends at column. */
static void put_right(struct rea_format *line, size_t column, const char *text)
{
	size_t length = strlen(text);

	while (line->length + length < column)
		rea_format_text(line, " ");
	rea_format_text(line, text);
	rea_format_text(line, "  ");
}

/* Rounded; below 10 ms with one decimal. */
static void put_ms(struct rea_format *out, uint64_t ns)
{
	uint64_t unit = REA_NS_PER_MS, decimal = unit / 10;

	if (ns < 10 * unit - decimal / 2)
		rea_format_fixed(out, (ns + decimal / 2) / decimal, 1);
	else
		rea_format_u64(out, ns / unit + (ns % unit >= unit / 2));
	rea_format_text(out, " ms");
}

static void put_count(struct rea_format *line, uint32_t count, const char *one, const char *more)
{
	rea_format_u64(line, count);
	rea_format_text(line, " ");
	rea_format_text(line, count == 1 ? one : more);
}

/* Both ways of counting, always. */
static void put_attempts(struct rea_format *line, uint32_t attempts)
{
	put_count(line, attempts, "attempt", "attempts");
	rea_format_text(line, " (");
	put_count(line, attempts - 1, "retry", "retries");
	rea_format_text(line, ")");
}

static const char *errno_name(uint32_t code)
{
	static const struct {
		int code;
		const char *name;
	} names[] = {
	    {ECONNREFUSED, "ECONNREFUSED"},
	    {ECONNRESET, "ECONNRESET"},
	    {ECONNABORTED, "ECONNABORTED"},
	    {ETIMEDOUT, "ETIMEDOUT"},
	    {EPIPE, "EPIPE"},
	    {EHOSTUNREACH, "EHOSTUNREACH"},
	    {ENETUNREACH, "ENETUNREACH"},
	    {ENETDOWN, "ENETDOWN"},
	    {EADDRNOTAVAIL, "EADDRNOTAVAIL"},
	    {EMFILE, "EMFILE"},
	    {ENFILE, "ENFILE"},
	    {ENOBUFS, "ENOBUFS"},
	    {ENOMEM, "ENOMEM"},
	    {EACCES, "EACCES"},
	    {EPERM, "EPERM"},
	    {EPROTO, "EPROTO"},
	    {ECANCELED, "ECANCELED"},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if ((uint32_t)names[i].code == code)
			return names[i].name;
	return NULL;
}

static void put_outcome(struct rea_format *line, const struct rea_event *event)
{
	const char *name = event->code_kind == REA_CODE_ERRNO ? errno_name(event->code) : NULL;

	rea_format_text(line, rea_outcome_name(event->outcome));
	if (event->code_kind == REA_CODE_NONE)
		return;
	rea_format_text(line, " ");
	if (name) {
		rea_format_text(line, name);
		return;
	}
	if (event->code_kind != REA_CODE_HTTP) {
		rea_format_text(line, rea__code_kind_name(event->code_kind));
		rea_format_text(line, " ");
	}
	rea_format_u64(line, event->code);
}

static void put_operation(struct rea_format *line, const struct rea_event *event)
{
	if (event->detail.length > 0)
		put_text(line, event->detail);
	else if (event->method.length > 0)
		put_text(line, event->method);
	else
		rea_format_text(line, "the operation");
}

static void put_service(struct rea_format *line, const struct rea_event *event)
{
	if (event->service.length > 0)
		put_text(line, event->service);
	else
		rea_format_text(line, "the service");
}

static void put_sentence(struct rea_format *line, const struct rea_event *event)
{
	const char *sentence = reason_sentence(event->reason), *brace;

	for (; (brace = strchr(sentence, '{')) != NULL; sentence = brace + 3) {
		rea_format_bytes(line, sentence, (size_t)(brace - sentence));
		if (brace[1] == 'o')
			put_operation(line, event);
		else if (brace[1] == 's')
			put_service(line, event);
		else if (brace[1] == 'c')
			rea_format_text(line, rea_outcome_name(event->outcome));
		else
			put_attempts(line, event->attempts_max ? event->attempts_max : 1);
	}
	rea_format_text(line, sentence);
}

static void put_reason(struct rea_format *line, const struct rea_event *event)
{
	if (event->reason == REA_REASON_NONE)
		return;
	rea_format_text(line, ": ");
	rea_format_text(line, rea_reason_name(event->reason));
	rea_format_text(line, " (");
	put_sentence(line, event);
	if (event->evidence.length > 0) {
		rea_format_text(line, "; ");
		put_text(line, event->evidence);
	}
	rea_format_text(line, ")");
}

/* An event without an instance tells of the attempt that was not made, unless it took time: then there was no list of instances. */
static void put_after_attempts(struct rea_format *line, const struct rea_event *event)
{
	bool is_made = event->instance.length > 0 || event->cost_ns > 0;
	uint32_t made = event->attempt - (event->attempt > 0 && !is_made);

	if (made < 2)
		return;
	rea_format_text(line, " after ");
	put_attempts(line, made);
}

static void put_verdict(struct rea_format *line, const struct rea_event *event)
{
	switch (event->type) {
	case REA_EVENT_RETRY:
		/* A parked call is not sure of its retry. */
		rea_format_text(line, event->reason == REA_REASON_PARKED ? "look again in " : "retry in ");
		put_ms(line, event->next_delay_ns);
		put_reason(line, event);
		break;
	case REA_EVENT_WOULD_RETRY:
		rea_format_text(line, "would retry in ");
		put_ms(line, event->next_delay_ns);
		rea_format_text(line, ", but the policy only observes");
		break;
	case REA_EVENT_SUCCESS:
		rea_format_text(line, "success");
		put_after_attempts(line, event);
		break;
	case REA_EVENT_GIVE_UP:
		rea_format_text(line, "give up");
		put_after_attempts(line, event);
		put_reason(line, event);
		break;
	case REA_EVENT_REPLAY:
		rea_format_text(line, "replayed by an operator");
		break;
	case REA_EVENT_BREAKER:
		rea_format_text(line, "breaker of ");
		put_service(line, event);
		rea_format_text(line, ": ");
		put_text(line, event->detail);
		break;
	case REA_EVENT_CONFIG:
		rea_format_text(line, "configuration: ");
		put_text(line, event->detail);
		break;
	case REA_EVENT_TYPE_COUNT:
		break;
	}
}

static const char *verdict_color(enum rea_event_type type)
{
	switch (type) {
	case REA_EVENT_SUCCESS:
		return COLOR_GREEN;
	case REA_EVENT_GIVE_UP:
		return COLOR_RED;
	case REA_EVENT_RETRY:
	case REA_EVENT_WOULD_RETRY:
	case REA_EVENT_REPLAY:
	case REA_EVENT_BREAKER:
		return COLOR_YELLOW;
	case REA_EVENT_CONFIG:
	case REA_EVENT_TYPE_COUNT:
		break;
	}
	return "";
}

/* ---- lines ---- */

static void write_piece(struct rea_timeline *timeline, const char *color, const struct rea_format *piece)
{
	size_t length = piece->length < piece->size ? piece->length : piece->size - 1;
	bool colored = timeline->color && *color;

	if (colored)
		timeline->write(color, strlen(color), timeline->user_data);
	timeline->write(piece->text, length, timeline->user_data);
	if (colored)
		timeline->write(COLOR_OFF, strlen(COLOR_OFF), timeline->user_data);
}

static void write_line(struct rea_timeline *timeline, const char *color, const struct rea_format *line)
{
	write_piece(timeline, color, line);
	timeline->write("\n", 1, timeline->user_data);
	timeline->lines++;
}

static void write_title(struct rea_timeline *timeline, const struct rea_event *event)
{
	char text[LINE_MAX_BYTES];
	struct rea_format line;

	rea_format_init(&line, text, sizeof(text));
	if (event->biz_id.length > 0) {
		rea_format_text(&line, "biz_id ");
		put_text(&line, event->biz_id);
		rea_format_text(&line, ", ");
	}
	rea_format_text(&line, "from ");
	rea__format_time(&line, event->time_unix_ns - (int64_t)rea_time_sub(event->time_ns, event->attempt_start_ns));
	write_line(timeline, COLOR_BOLD, &line);
}

static void put_field(struct rea_format *line, struct rea_text text)
{
	if (text.length == 0)
		return;
	rea_format_text(line, "  ");
	put_text(line, text);
}

static void write_call_header(struct rea_timeline *timeline, const struct rea_event *event)
{
	char text[LINE_MAX_BYTES];
	struct rea_format line;

	rea_format_init(&line, text, sizeof(text));
	rea_format_text(&line, "call ");
	put_text(&line, event->call_id);
	put_field(&line, event->service);
	put_field(&line, event->method);
	put_field(&line, event->detail);
	rea_format_text(&line, "  permission ");
	rea_format_text(&line, rea_permission_name(event->grant.permission));
	if (event->grant.source != REA_PERMISSION_SOURCE_NONE) {
		rea_format_text(&line, " (");
		rea_format_text(&line, rea_permission_source_name(event->grant.source));
		rea_format_text(&line, ")");
	}
	if (event->attempts_max > 0) {
		rea_format_text(&line, ", at most ");
		put_attempts(&line, event->attempts_max);
	}
	write_line(timeline, COLOR_BOLD, &line);
}

static void put_offset(struct rea_format *line, uint64_t offset_ns)
{
	char text[32];
	struct rea_format offset;

	rea_format_init(&offset, text, sizeof(text));
	rea_format_text(&offset, "+");
	rea_format_u64(&offset, offset_ns / REA_NS_PER_MS + (offset_ns % REA_NS_PER_MS >= REA_NS_PER_MS / 2));
	rea_format_text(&offset, " ms");
	put_right(line, 12, text);
}

static void put_columns(struct rea_format *line, const struct rea_event *event)
{
	char cost_text[32];
	struct rea_format cost;

	rea_format_text(line, "#");
	rea_format_u64(line, event->attempt);
	rea_format_text(line, "/");
	rea_format_u64(line, event->attempts_max);
	pad_to(line, 20);
	put_text(line, event->instance.length > 0 ? event->instance : (struct rea_text){"-", 1});
	pad_to(line, 43);
	put_outcome(line, event);
	pad_to(line, 68);
	rea_format_init(&cost, cost_text, sizeof(cost_text));
	put_ms(&cost, event->cost_ns);
	put_right(line, 78, cost_text);
}

static void write_event_line(struct rea_timeline *timeline, const struct rea_event *event)
{
	char text[LINE_MAX_BYTES], verdict_text[LINE_MAX_BYTES];
	struct rea_format line, verdict;

	rea_format_init(&line, text, sizeof(text));
	put_offset(&line, rea_time_sub(event->attempt_start_ns, timeline->base_ns));
	if (event->attempt > 0)
		put_columns(&line, event);
	write_piece(timeline, "", &line);
	rea_format_init(&verdict, verdict_text, sizeof(verdict_text));
	put_verdict(&verdict, event);
	write_line(timeline, verdict_color(event->type), &verdict);
}

/* Keeps as much of the call id as fits. Is it the one of the line before? */
static bool same_call(struct rea_timeline *timeline, struct rea_text call_id)
{
	size_t kept = rea__utf8_cut(call_id.text, call_id.length, sizeof(timeline->call_id) - 1);

	if (kept == strlen(timeline->call_id) && (kept == 0 || memcmp(timeline->call_id, call_id.text, kept) == 0))
		return true;
	memcpy(timeline->call_id, call_id.text, kept);
	timeline->call_id[kept] = '\0';
	return false;
}

void rea_timeline_begin(
    struct rea_timeline *timeline, void (*write)(const char *text, size_t length, void *user_data), void *user_data)
{
	memset(timeline, 0, sizeof(*timeline));
	timeline->write = write;
	timeline->user_data = user_data;
}

void rea_timeline_event(struct rea_timeline *timeline, const struct rea_event *event)
{
	if (timeline->lines == 0) {
		timeline->base_ns = event->attempt_start_ns;
		write_title(timeline, event);
	}
	if (rea__event_is_call(event->type) && !same_call(timeline, event->call_id))
		write_call_header(timeline, event);
	write_event_line(timeline, event);
}
