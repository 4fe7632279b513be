/*
 * An executor in virtual time whose tasks follow scripts, and the log of what happened: one line per callback, times in
 * ms since the beginning.
 *
 *   0 attempt a 1/3
 *   0 Retry a 1 unavailable 503 wait=100
 *   100 stop a                              the cancel hook
 *   100 GiveUp a 3 unavailable 503 attempts_exhausted
 *   100 done a GIVEN_UP 3 unavailable 503 attempts_exhausted
 */
#ifndef REA_TESTS_EXECUTOR_RIG_H
#define REA_TESTS_EXECUTOR_RIG_H

#include "executor/internal.h"

#include <rea/executor.h>

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS(n) ((uint64_t)(n)*REA_NS_PER_MS)
#define S(n) ((uint64_t)(n)*REA_NS_PER_S)

enum { RIG_ITEMS = 16, RIG_LOG = 65536 };

/* One task of a test. */
struct item {
	struct rig *rig;
	const char *name;
	/* What its attempts come to, one letter each, the last for all that follow: o ok, n never_sent, t throttled 429,
	 * u unavailable 503, a ambiguous, f failed 500, p permanent 403; ? ends without a word; - goes on until the test
	 * reports it. */
	const char *script;
	size_t at;
	struct rea_task task;
	uint64_t id;
	uint64_t attempt_id; /* of its latest attempt */
	uint64_t attempt_deadline_ns;
	uint32_t ended;
	enum rea_task_state state;
	enum rea_reason reason;
};

struct rig {
	struct rea_executor_options options;
	struct rea_handler handler; /* "work" */
	struct rea_policy policy;   /* rig_init: 2 retries, 100 ms apart, exactly */
	struct rea_executor *executor;
	uint64_t base_ns, now_ns;
	struct item items[RIG_ITEMS];
	size_t items_len;
	bool stops; /* the cancel hook says that the attempt is over */
	/* Of the test: called in the handler, the event and the done callback. */
	void (*on_attempt)(struct item *item, const struct rea_attempt *attempt);
	void (*on_event)(struct rig *rig, const struct rea_event *event);
	void (*on_done)(struct item *item, const struct rea_task_end *end);
	void (*on_stop)(struct item *item);
	char log[RIG_LOG];
	size_t log_len;
};

__attribute__((format(printf, 2, 3))) static inline void rig_say(struct rig *rig, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	rig->log_len += (size_t)snprintf(rig->log + rig->log_len, RIG_LOG - rig->log_len, "%" PRIu64 " ",
	    (rig->now_ns - rig->base_ns) / REA_NS_PER_MS);
	rig->log_len += (size_t)vsnprintf(rig->log + rig->log_len, RIG_LOG - rig->log_len, format, args);
	rig->log_len += (size_t)snprintf(rig->log + rig->log_len, RIG_LOG - rig->log_len, "\n");
	va_end(args);
	assert_true(rig->log_len < RIG_LOG);
}

/* What was logged since the last time, as it is to be. */
static inline void rig_expect(struct rig *rig, const char *expected)
{
	if (strcmp(rig->log, expected) != 0)
		fail_msg("expected:\n%sbut got:\n%s", expected, rig->log);
	rig->log_len = 0;
	rig->log[0] = '\0';
}

static inline const char *rig_report_text(const struct rea_report *report, char text[64])
{
	size_t length = (size_t)snprintf(text, 64, "%s", rea_outcome_name(report->outcome));

	if (report->code_kind != REA_CODE_NONE)
		snprintf(text + length, 64 - length, " %" PRIu32, report->code);
	return text;
}

static inline struct rea_report rig_report(char letter)
{
	switch (letter) {
	case 'o':
		return (struct rea_report){.outcome = REA_OUTCOME_OK};
	case 'n':
		return (struct rea_report){.outcome = REA_OUTCOME_NEVER_SENT};
	case 't':
		return (struct rea_report){.outcome = REA_OUTCOME_THROTTLED, .code_kind = REA_CODE_HTTP, .code = 429};
	case 'u':
		return (struct rea_report){.outcome = REA_OUTCOME_UNAVAILABLE, .code_kind = REA_CODE_HTTP, .code = 503};
	case 'a':
		return (struct rea_report){.outcome = REA_OUTCOME_AMBIGUOUS};
	case 'f':
		return (struct rea_report){.outcome = REA_OUTCOME_FAILED, .code_kind = REA_CODE_HTTP, .code = 500};
	default:
		return (struct rea_report){.outcome = REA_OUTCOME_PERMANENT, .code_kind = REA_CODE_HTTP, .code = 403};
	}
}

static inline bool rig_attempt(const struct rea_attempt *attempt, struct rea_report *ret_report, void *user_data)
{
	struct item *item = attempt->task_data;
	struct rig *rig = user_data;
	char letter = item->script[item->at];

	if (item->script[item->at + 1] != '\0')
		item->at++;
	item->attempt_id = attempt->id;
	item->attempt_deadline_ns = attempt->deadline_ns;
	assert_true(attempt->task_id == item->id || item->id == 0);
	rig_say(rig, "attempt %.*s %u/%u", (int)attempt->name.length, attempt->name.text, attempt->number,
	    attempt->attempts_max);
	if (rig->on_attempt != NULL)
		rig->on_attempt(item, attempt);
	if (letter == '-')
		return false;
	if (letter != '?')
		*ret_report = rig_report(letter);
	return true;
}

static inline bool rig_stop(const struct rea_attempt *attempt, void *user_data)
{
	struct rig *rig = user_data;

	rig_say(rig, "stop %.*s", (int)attempt->name.length, attempt->name.text);
	if (rig->on_stop != NULL)
		rig->on_stop(attempt->task_data);
	return rig->stops;
}

static inline void rig_event(struct rea_event *event, void *user_data)
{
	struct rig *rig = user_data;
	struct rea_report report = {.outcome = event->outcome, .code_kind = event->code_kind, .code = event->code};
	char text[64];

	if (event->type == REA_EVENT_RETRY || event->type == REA_EVENT_WOULD_RETRY)
		rig_say(rig, "%s %.*s %u %s wait=%" PRIu64, rea_event_type_name(event->type),
		    (int)event->call_id.length, event->call_id.text, event->attempt, rig_report_text(&report, text),
		    event->next_delay_ns / REA_NS_PER_MS);
	else
		rig_say(rig, "%s %.*s %u %s%s%s", rea_event_type_name(event->type), (int)event->call_id.length,
		    event->call_id.text, event->attempt, rig_report_text(&report, text), event->reason ? " " : "",
		    rea_reason_name(event->reason));
	assert_true(event->time_unix_ns == 0);
	if (rig->on_event != NULL)
		rig->on_event(rig, event);
}

static inline void rig_done(const struct rea_task_end *end, void *user_data)
{
	struct item *item = user_data;
	char text[64];

	item->ended++;
	item->state = end->state;
	item->reason = end->reason;
	rig_say(item->rig, "done %s %s %u %s%s%s", item->name, rea_task_state_name(end->state), end->attempts,
	    end->attempts > 0 ? rig_report_text(&end->task->past.report, text) : "-", end->reason ? " " : "",
	    rea_reason_name(end->reason));
	assert_true(end->id == item->id || item->id == 0);
	if (item->rig->on_done != NULL)
		item->rig->on_done(item, end);
}

/* Before rig_open everything may be changed. */
static inline void rig_init(struct rig *rig)
{
	memset(rig, 0, sizeof(*rig));
	rig->base_ns = rig->now_ns = S(1000);
	rea_executor_options_init(&rig->options);
	rig->options.event = rig_event;
	rig->options.user_data = rig;
	rig->handler = (struct rea_handler){.name = "work", .attempt = rig_attempt, .cancel = rig_stop, .user_data = rig};
	rea_policy_task_defaults(&rig->policy);
	rig->policy.min_backoff_ns = rig->policy.max_backoff_ns = MS(100);
	rig->policy.backoff_multiplier = 1;
	rig->policy.jitter = 1e-10; /* legal, and less than a nanosecond */
}

static inline void rig_open(struct rig *rig)
{
	assert_int_equal(rea_executor_new(&rig->options, NULL, &rig->executor, NULL), 0);
	assert_int_equal(rea_executor_handle(rig->executor, &rig->handler, NULL), 0);
}

static inline void rig_run(struct rig *rig, uint64_t at_ms)
{
	rig->now_ns = rig->base_ns + MS(at_ms);
	rea_executor_run(rig->executor, rig->now_ns);
}

/* As a loop does, up to and including that time. */
static inline void rig_run_until(struct rig *rig, uint64_t until_ms)
{
	uint64_t until_ns = rig->base_ns + MS(until_ms), next_ns;

	while ((next_ns = rea_executor_next(rig->executor)) <= until_ns) {
		rig->now_ns = rea_time_max(rig->now_ns, next_ns);
		rea_executor_run(rig->executor, rig->now_ns);
	}
	rig->now_ns = until_ns;
}

/* The executor is to be empty, or everything is cancelled. */
static inline void rig_close(struct rig *rig)
{
	rea_executor_shutdown(rig->executor, REA_SHUTDOWN_CANCEL, 0);
	rea_executor_run(rig->executor, rig->now_ns);
	for (size_t i = 0; i < rig->items_len; i++)
		assert_int_equal(rig->items[i].ended, 1);
	rea_executor_free(rig->executor);
}

/* A task that may be repeated. */
static inline struct item *rig_item(struct rig *rig, const char *name, const char *script)
{
	struct item *item = &rig->items[rig->items_len++];

	assert_true(rig->items_len <= RIG_ITEMS);
	*item = (struct item){.rig = rig, .name = name, .script = script};
	rea_task_init(&item->task);
	item->task.handler = "work";
	item->task.policy = &rig->policy;
	item->task.name = (struct rea_text){name, strlen(name)};
	item->task.grant = (struct rea_grant){REA_PERMISSION_IDEMPOTENT, REA_PERMISSION_SOURCE_CALLER};
	item->task.done = rig_done;
	item->task.user_data = item;
	return item;
}

static inline void rig_submit_item(struct item *item)
{
	struct rea_error_info info = {.message = ""};
	int error = rea_executor_submit(item->rig->executor, &item->task, item->rig->now_ns, &item->id, &info);

	if (error != 0)
		fail_msg("%s: %s", rea_error_name(error), info.message);
}

static inline struct item *rig_submit(struct rig *rig, const char *name, const char *script)
{
	struct item *item = rig_item(rig, name, script);

	rig_submit_item(item);
	return item;
}

static inline int rig_report_item(struct item *item, char letter)
{
	struct rea_report report = rig_report(letter);

	return rea_executor_report(item->rig->executor, item->attempt_id, &report, item->rig->now_ns);
}

static inline int rig_cancel(struct item *item)
{
	return rea_executor_cancel(item->rig->executor, item->id, item->rig->now_ns);
}

static inline struct rea_executor_stats rig_stats(const struct rig *rig)
{
	struct rea_executor_stats stats;

	rea_executor_stats(rig->executor, &stats);
	return stats;
}

/* No task, nothing running, no timer. */
static inline void assert_idle(const struct rig *rig)
{
	struct rea_executor_stats stats = rig_stats(rig);

	assert_int_equal(stats.tasks, 0);
	assert_int_equal(stats.running, 0);
	assert_true(rea_executor_next(rig->executor) == REA_NEVER);
}

#endif
