#include "executor/task.h"

#include "base/bounds.h"

#include <assert.h>
#include <float.h>
#include <string.h>

/* ---- layout ---- */

/* What a task has of its handler's budget while it waits: a retry, or a place to wait for one. */
struct held {
	struct rea_budget_lease lease;
	struct rea_call_park park;
	uint32_t refused;
};

static size_t held_size(const struct rea__handler *handler)
{
	return handler->is.budget != NULL ? sizeof(struct held) : 0;
}

/* How many instances are to be remembered: no more than the policy has attempts. */
static size_t tried_max(const struct rea_task *task, const struct rea__handler *handler)
{
	size_t max = rea_policy_attempts(task->policy);

	if (handler->is.instances == NULL)
		return 0;
	if (max < task->past.tried_len)
		return task->past.tried_len;
	return max < REA_ATTEMPTS_MAX ? max : REA_ATTEMPTS_MAX;
}

static unsigned char *payload_of(const struct rea__task *task)
{
	return (unsigned char *)task->bytes + held_size(task->handler);
}

static struct rea_instance_id *tried_of(const struct rea__task *task)
{
	size_t unit = alignof(struct rea_instance_id), offset = (task->payload_len + unit - 1) / unit * unit;

	return (struct rea_instance_id *)(void *)(payload_of(task) + offset);
}

static char *texts_of(const struct rea__task *task)
{
	return (char *)(tried_of(task) + task->tried_max);
}

_Static_assert(sizeof(struct held) % 8 == 0, "the payload behind it is aligned");

/* ---- bounds ---- */

int rea__task_check(const struct rea_task *task, struct rea_error_info *ret_info)
{
	const struct rea_task_past *past = &task->past;
	double remembered = past->attempts < REA_ATTEMPTS_MAX ? past->attempts : REA_ATTEMPTS_MAX;
	const struct rea__bound bounds[] = {
	    {"version", "the task's version", task->version, REA_TASK_VERSION, REA_TASK_VERSION, false, "rea_task_init"},
	    {"name", "the length of name", (double)task->name.length, 0, REA_TASK_TEXT_MAX, false, NULL},
	    {"biz_id", "the length of biz_id", (double)task->biz_id.length, 0, REA_TASK_TEXT_MAX, false, NULL},
	    {"trace_id", "the length of trace_id", (double)task->trace_id.length, 0, REA_TASK_TEXT_MAX, false, NULL},
	    {"key", "the length of key", (double)task->key.length, 0, REA_TASK_TEXT_MAX, false, NULL},
	    {"payload_len", "payload_len", (double)task->payload_len, 0, REA_TASK_PAYLOAD_MAX, false, NULL},
	    {"grant", "grant.permission", task->grant.permission, 0, REA_PERMISSION_COUNT - 1, false, NULL},
	    {"grant", "grant.source", task->grant.source, 0, REA_PERMISSION_SOURCE_COUNT - 1, false, NULL},
	    {"past", "past.attempts", past->attempts, past->interrupted, DBL_MAX, false, "one was interrupted"},
	    {"past", "past.report.outcome", past->report.outcome, 0, REA_OUTCOME_COUNT - 1, false, NULL},
	    {"past", "past.report.code_kind", past->report.code_kind, 0, REA_CODE_ERRNO, false, NULL},
	    {"past", "past.tried_len", (double)past->tried_len, 0, remembered, false, "attempts, of which 10 are remembered"},
	};

	return rea__check_bounds(bounds, sizeof(bounds) / sizeof(bounds[0]), ret_info);
}

/* ---- in and out ---- */

static char *append(char *end, struct rea_text text)
{
	if (text.length > 0)
		memcpy(end, text.text, text.length);
	return end + text.length;
}

static void copy_bytes(struct rea__task *task, const struct rea_task *from)
{
	char *end;

	if (held_size(task->handler) > 0)
		memset(task->bytes, 0, held_size(task->handler));
	if (from->payload_len > 0)
		memcpy(payload_of(task), from->payload, from->payload_len);
	if (task->tried_max > 0 && from->past.tried_len > 0) {
		memcpy(tried_of(task), from->past.tried, from->past.tried_len * sizeof(*from->past.tried));
		task->tried_len = (uint8_t)from->past.tried_len;
	}
	end = append(texts_of(task), from->name);
	end = append(end, from->biz_id);
	end = append(end, from->trace_id);
	append(end, from->key);
}

struct rea__task *rea__task_new(const struct rea_task *from, const struct rea__handler *handler, const struct rea_alloc *alloc)
{
	size_t texts = from->name.length + from->biz_id.length + from->trace_id.length + from->key.length;
	size_t tried = tried_max(from, handler), pad = alignof(struct rea_instance_id) - 1;
	size_t size = sizeof(struct rea__task) + held_size(handler) + from->payload_len + pad +
		      tried * sizeof(struct rea_instance_id) + texts;
	struct rea__task *task = alloc->realloc(NULL, size, alloc->user_data);

	if (task == NULL)
		return NULL;
	*task = (struct rea__task){
	    .handler = handler,
	    .policy = from->policy,
	    .done = from->done,
	    .user_data = from->user_data,
	    .deadline_ns = from->deadline_ns,
	    .attempts = from->past.attempts,
	    .code = from->past.report.code,
	    .payload_len = (uint32_t)from->payload_len,
	    .name_len = (uint16_t)from->name.length,
	    .biz_id_len = (uint16_t)from->biz_id.length,
	    .trace_id_len = (uint16_t)from->trace_id.length,
	    .key_len = (uint16_t)from->key.length,
	    .outcome = (uint8_t)from->past.report.outcome,
	    .code_kind = (uint8_t)from->past.report.code_kind,
	    .permission = (uint8_t)from->grant.permission,
	    .source = (uint8_t)from->grant.source,
	    .tried_max = (uint8_t)tried,
	    .chained = from->chained,
	    .interrupted = from->past.interrupted,
	};
	copy_bytes(task, from);
	return task;
}

static struct rea_text take(const char **end, size_t length)
{
	struct rea_text text = {*end, length};

	*end += length;
	return text;
}

void rea__task_view(const struct rea__task *task, struct rea_task *ret_view)
{
	const char *end = texts_of(task);

	rea_task_init(ret_view);
	ret_view->handler = task->handler->is.name;
	ret_view->policy = task->policy;
	ret_view->name = take(&end, task->name_len);
	ret_view->biz_id = take(&end, task->biz_id_len);
	ret_view->trace_id = take(&end, task->trace_id_len);
	ret_view->key = take(&end, task->key_len);
	ret_view->payload = payload_of(task);
	ret_view->payload_len = task->payload_len;
	ret_view->grant.permission = (enum rea_permission)task->permission;
	ret_view->grant.source = (enum rea_permission_source)task->source;
	ret_view->chained = task->chained;
	ret_view->deadline_ns = task->deadline_ns;
	ret_view->past.attempts = task->attempts;
	ret_view->past.interrupted = task->interrupted;
	ret_view->past.report.outcome = (enum rea_outcome)task->outcome;
	ret_view->past.report.code_kind = (enum rea_code_kind)task->code_kind;
	ret_view->past.report.code = task->code;
	ret_view->past.tried = task->tried_len > 0 ? tried_of(task) : NULL;
	ret_view->past.tried_len = task->tried_len;
	ret_view->done = task->done;
	ret_view->user_data = task->user_data;
}

/* ---- what the engine keeps here ---- */

struct rea_call_past rea__task_past(const struct rea__task *task)
{
	struct rea_call_past past = {.attempts = task->attempts,
	    .outcome = (enum rea_outcome)task->outcome,
	    .flying = task->interrupted,
	    .tried = tried_of(task),
	    .tried_len = task->tried_len};

	if (held_size(task->handler) > 0) {
		struct held held;

		memcpy(&held, task->bytes, sizeof(held));
		past.lease = held.lease;
		past.park = held.park;
		past.refused = held.refused;
	}
	return past;
}

void rea__task_keep(struct rea__task *task, const struct rea_call_past *past)
{
	assert(past->tried_len <= task->tried_max);
	task->attempts = past->attempts;
	task->tried_len = (uint8_t)past->tried_len;
	if (past->tried_len > 0)
		memcpy(tried_of(task), past->tried, past->tried_len * sizeof(*past->tried));
	if (held_size(task->handler) > 0) {
		const struct held held = {past->lease, past->park, past->refused};

		memcpy(task->bytes, &held, sizeof(held));
	}
}
