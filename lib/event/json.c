/* One event as one JSON object on one line: UTF-8 whatever the texts hold, no float, nothing allocated. */
#include <rea/event.h>

#include "base/format.h"
#include "event/record.h"
#include "event/text.h"
#include "event/utf8.h"

#include <rea/time.h>

#include <string.h>

/* Every byte of a text takes at most the six of \u0000; names, numbers, punctuation and the longest words of the
 * enums take less than 1024. */
_Static_assert(REA_EVENT_JSON_MAX > REA__EVENT_TEXTS_COUNT * REA_EVENT_TEXT_MAX * 6 + 1024, "a line fits");

static void format_escape(struct rea_format *out, unsigned code)
{
	static const char digits[] = "0123456789abcdef";
	char escape[6] = {'\\', 'u', '0', '0', digits[code >> 4 & 15], digits[code & 15]};

	rea_format_bytes(out, escape, sizeof(escape));
}

static void format_character(struct rea_format *out, const char *text, size_t length)
{
	if (*text == '"' || *text == '\\')
		rea_format_bytes(out, "\\", 1);
	else if (*text == '\n' || *text == '\r' || *text == '\t') {
		rea_format_text(out, *text == '\n' ? "\\n" : *text == '\r' ? "\\r" : "\\t");
		return;
	} else if (rea__utf8_is_control(text, length)) {
		/* The second byte of a C1 character in UTF-8 is its code. */
		format_escape(out, (unsigned char)text[length - 1]);
		return;
	}
	rea_format_bytes(out, text, length);
}

static void format_string(struct rea_format *out, const char *text, size_t length)
{
	rea_format_text(out, "\"");
	while (length > 0) {
		size_t character = rea__utf8_length(text, length);

		if (character > 0)
			format_character(out, text, character);
		else
			rea_format_text(out, REA__UTF8_REPLACEMENT);
		text += character + (character == 0);
		length -= character + (character == 0);
	}
	rea_format_text(out, "\"");
}

size_t rea_json_string(const char *text, size_t length, char *ret_json, size_t size)
{
	struct rea_format out;

	rea_format_init(&out, ret_json, size);
	format_string(&out, text, length);
	return out.length;
}

static void member(struct rea_format *out, const char *name)
{
	rea_format_text(out, out->length == 0 ? "{\"" : ",\"");
	rea_format_text(out, name);
	rea_format_text(out, "\":");
}

static void member_word(struct rea_format *out, const char *name, const char *word)
{
	member(out, name);
	format_string(out, word, strlen(word));
}

static void member_text(struct rea_format *out, const char *name, struct rea_text text)
{
	if (text.length == 0)
		return;
	member(out, name);
	format_string(out, text.text, rea__text_kept(text));
}

static void member_number(struct rea_format *out, const char *name, uint64_t value)
{
	member(out, name);
	rea_format_u64(out, value);
}

static void member_ms(struct rea_format *out, const char *name, uint64_t ns)
{
	member(out, name);
	rea_format_fixed(out, ns / REA_NS_PER_US + (ns % REA_NS_PER_US >= REA_NS_PER_US / 2), 3);
}

static void members_attempt(struct rea_format *out, const struct rea_event *event)
{
	member_number(out, "attempt", event->attempt);
	member_number(out, "attempts_max", event->attempts_max);
	member_number(out, "retries", event->attempt - 1);
	member_word(out, "outcome", rea_outcome_name(event->outcome));
	if (event->code_kind != REA_CODE_NONE) {
		member_number(out, "error_code", event->code);
		member_word(out, "error_code_kind", rea__code_kind_name(event->code_kind));
	}
	member_ms(out, "cost_ms", event->cost_ns);
	member(out, "retryable");
	rea_format_text(out, event->retryable ? "true" : "false");
}

static void members_decision(struct rea_format *out, const struct rea_event *event)
{
	if (event->type == REA_EVENT_RETRY || event->type == REA_EVENT_WOULD_RETRY)
		member_ms(out, "next_delay_ms", event->next_delay_ns);
	member_word(out, "verdict", rea_verdict_name(event->verdict));
	if (event->reason != REA_REASON_NONE)
		member_word(out, "reason", rea_reason_name(event->reason));
	member_text(out, "evidence", event->evidence);
	if (event->grant.permission != REA_PERMISSION_NONE) {
		member_word(out, "permission", rea_permission_name(event->grant.permission));
		member_word(out, "permission_source", rea_permission_source_name(event->grant.source));
	}
}

size_t rea_event_json(const struct rea_event *event, char *ret_json, size_t size)
{
	struct rea_format out;

	rea_format_init(&out, ret_json, size);
	member(&out, "time");
	rea_format_text(&out, "\"");
	rea__format_time(&out, event->time_unix_ns);
	rea_format_text(&out, "\"");
	member_word(&out, "type", rea_event_type_name(event->type));
	member_text(&out, "call_id", event->call_id);
	member_text(&out, "biz_id", event->biz_id);
	member_text(&out, "key", event->key);
	member_text(&out, "trace_id", event->trace_id);
	member_text(&out, "service", event->service);
	member_text(&out, "method", event->method);
	member_text(&out, "instance", event->instance);
	if (event->attempt > 0)
		members_attempt(&out, event);
	if (rea__event_is_call(event->type))
		members_decision(&out, event);
	member_text(&out, "detail", event->detail);
	member_ms(&out, "start_ms", event->attempt_start_ns);
	member_ms(&out, "end_ms", event->time_ns);
	rea_format_text(&out, "}");
	return out.length;
}
