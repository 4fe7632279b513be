/*
 * When tasks run. Guarantees: never more attempts under way than `concurrency`, never more tasks than `tasks_max`; what
 * is due runs in order of time, then of arrival; every task that was taken leaves exactly once; callbacks fire inside
 * rea_executor_run only, and each of them may call back in.
 *
 * A task waits in the heap, without a slot, or runs, with one. A slot's run:
 *
 *            admit              begin              report                tell: retry
 *   FREE ────────────▶ ADMITTED ──────▶ FLYING ────────────▶ REPORTED ──────────────▶ FREE, the task in the heap
 *                         │               │                     │
 *                         │ begin: none   │ cancel, shutdown    │ tell: over
 *                         ▼               ▼                     ▼
 *                        FREE          STOPPED ───────────────▶ FREE, the task gone
 *                                         │ tell: the handler still runs       ▲
 *                                         └──────────────────▶ ABANDONED ──────┘ report
 *
 *   ADMITTED   due, and its turn comes in this run; the engine was not asked yet
 *   FLYING     the handler has the attempt
 *   REPORTED   the handler is done; in `news`, or just being told
 *   STOPPED    the same for a handler that has to stop
 *   ABANDONED  its task is over; the slot and the task's memory wait for the handler's last word
 */
#include <rea/executor.h>

#include "base/bounds.h"
#include "base/heap.h"
#include "base/map.h"
#include "executor/internal.h"
#include "executor/task.h"
#include "explain/words.h"

#include <assert.h>
#include <string.h>

enum run_state { FREE, ADMITTED, FLYING, REPORTED, STOPPED, ABANDONED };
/* Why a run ends early; the later wins. */
enum stop { GO_ON, INTERRUPT, CANCEL };

struct rea__run {
	struct rea_attempt attempt;
	struct rea_call call;
	struct rea_report report; /* of this attempt */
	struct rea__task *task;
	struct rea__run *next; /* in the one list that it is in */
	uint64_t started_ns, ended_ns;
	uint32_t generation; /* odd while in use: the upper half of attempt ids */
	enum run_state state;
	enum stop stop;
	bool over; /* the handler is done with the attempt */
};

struct list {
	struct rea__run *first, *last;
};

/* A place for a task; its number is the lower half of the task's id. */
union slot {
	struct rea__task *task;
	uint32_t next_free;
};
#define NO_SLOT UINT32_MAX

struct rea_executor {
	struct rea_alloc alloc;
	struct rea_executor_options options;
	struct rea_policy policy; /* of tasks that name none */
	struct rea_random random;
	struct rea_retry_limit own_parking; /* where none is given: as many as there are tasks */
	struct rea__gate gate;
	uint64_t now_ns; /* latest seen */
	bool in_run;

	struct rea_map handler_names; /* to an index of handlers */
	struct rea__handler **handlers;

	struct rea_heap waiting; /* by slot */
	union slot *slots;
	uint32_t *generations; /* by slot; odd while in use: the upper half of task ids */
	uint32_t capacity, used, free_slot;

	struct rea__run *runs; /* `concurrency` of them */
	struct rea__run *free_runs;
	struct list admitted;      /* what is due and has a slot: the private list of a run */
	struct list news;          /* REPORTED and STOPPED, to be told */
	struct rea__task *leaving; /* cancelled while they waited, to be told; the latest first */

	enum rea_shutdown mode; /* 0 = open */
	uint64_t stop_ns;       /* when what runs is stopped */

	struct rea_executor_stats stats;
};

/* ---- names, defaults ---- */

const char *rea_task_state_name(enum rea_task_state state)
{
	static const char *const names[] = {
#define X(name, text) text,
	    REA_TASK_STATE_MAP(X)
#undef X
	};

	return (size_t)state < REA_TASK_STATE_COUNT ? names[state] : "unknown";
}

void rea_task_init(struct rea_task *task)
{
	*task = (struct rea_task){.version = REA_TASK_VERSION, .deadline_ns = REA_NEVER};
}

void rea_executor_options_init(struct rea_executor_options *options)
{
	*options = (struct rea_executor_options){
	    .version = REA_EXECUTOR_OPTIONS_VERSION, .concurrency = 16, .tasks_max = 1000, .task_attempts_max = REA_ATTEMPTS_MAX};
}

/* ---- new, free ---- */

static void *allocate(const struct rea_executor *executor, void *ptr, size_t size)
{
	return executor->alloc.realloc(ptr, size, executor->alloc.user_data);
}

static void release(const struct rea_executor *executor, void *ptr)
{
	executor->alloc.free(ptr, executor->alloc.user_data);
}

static int check_options(const struct rea_executor_options *options, struct rea_error_info *ret_info)
{
	const struct rea__bound bounds[] = {
	    {"version", "the options' version", options->version, REA_EXECUTOR_OPTIONS_VERSION,
		REA_EXECUTOR_OPTIONS_VERSION, false, "rea_executor_options_init"},
	    {"concurrency", "concurrency", options->concurrency, 1, REA_EXECUTOR_CONCURRENCY_MAX, false, NULL},
	    {"tasks_max", "tasks_max", options->tasks_max, 1, REA_EXECUTOR_TASKS_MAX, false, NULL},
	    {"task_attempts_max", "task_attempts_max", options->task_attempts_max, 1, REA_TASK_ATTEMPTS_MAX, false, NULL},
	};

	return rea__check_bounds(bounds, sizeof(bounds) / sizeof(bounds[0]), ret_info);
}

int rea_executor_new(const struct rea_executor_options *options, const struct rea_alloc *alloc,
    struct rea_executor **ret_executor, struct rea_error_info *ret_info)
{
	struct rea_executor *executor;
	int error = check_options(options, ret_info);

	if (error != 0)
		return error;
	if (alloc == NULL)
		alloc = rea_alloc_default();
	executor = alloc->realloc(NULL, sizeof(*executor), alloc->user_data);
	if (executor == NULL)
		return REA_ERR_NOMEM;
	*executor = (struct rea_executor){.alloc = *alloc, .options = *options, .free_slot = NO_SLOT, .stop_ns = REA_NEVER};
	executor->handler_names.alloc = &executor->alloc;
	executor->runs = allocate(executor, NULL, options->concurrency * sizeof(*executor->runs));
	if (executor->runs == NULL) {
		release(executor, executor);
		return REA_ERR_NOMEM;
	}
	memset(executor->runs, 0, options->concurrency * sizeof(*executor->runs));
	for (uint32_t i = options->concurrency; i-- > 0;) {
		executor->runs[i].next = executor->free_runs;
		executor->free_runs = &executor->runs[i];
	}
	rea_policy_task_defaults(&executor->policy);
	rea_retry_limit_init(&executor->own_parking, options->tasks_max);
	if (options->parking == NULL)
		executor->options.parking = &executor->own_parking;
	rea_random_init(&executor->random, options->seed);
	*ret_executor = executor;
	return 0;
}

bool rea__executor_is_empty(const struct rea_executor *executor)
{
	return executor->stats.tasks == 0 && executor->stats.running == 0;
}

void rea_executor_free(struct rea_executor *executor)
{
	struct rea_alloc alloc;

	if (executor == NULL)
		return;
	assert(!executor->in_run && "an executor is not freed by its own callbacks");
	assert(rea__executor_is_empty(executor) && "rea_executor_shutdown completes the tasks first");
	for (size_t i = 0; i < executor->handler_names.count; i++)
		release(executor, executor->handlers[i]);
	release(executor, executor->handlers);
	rea_map_fini(&executor->handler_names);
	rea_heap_fini(&executor->waiting, &executor->alloc);
	release(executor, executor->slots);
	release(executor, executor->generations);
	release(executor, executor->runs);
	alloc = executor->alloc;
	alloc.free(executor, alloc.user_data);
}

/* ---- callbacks ---- */

void rea__executor_set_gate(struct rea_executor *executor, const struct rea__gate *gate)
{
	executor->gate = *gate;
}

static void leave(const struct rea_executor *executor)
{
	if (executor->gate.open != NULL)
		executor->gate.open(executor->gate.user_data);
}

static void enter(const struct rea_executor *executor)
{
	if (executor->gate.close != NULL)
		executor->gate.close(executor->gate.user_data);
}

static void see_time(struct rea_executor *executor, uint64_t now_ns)
{
	executor->now_ns = rea_time_max(executor->now_ns, now_ns);
}

/* ---- handlers ---- */

/* "handler "x" ..." */
static int refuse_name(const char *name, const char *why, int error, struct rea_error_info *ret_info)
{
	struct rea_format text = rea__begin_refusal(ret_info, "handler");

	rea_format_text(&text, "handler \"");
	rea_format_text(&text, name);
	rea_format_text(&text, "\" ");
	rea_format_text(&text, why);
	return error;
}

static const struct rea__handler *find_handler(const struct rea_executor *executor, const char *name)
{
	uint32_t index;

	if (!rea_map_find(&executor->handler_names, rea_slice_make(name, strlen(name)), &index))
		return NULL;
	return executor->handlers[index];
}

static int check_handler(const struct rea_executor *executor, const struct rea_handler *handler, struct rea_error_info *ret_info)
{
	size_t length = strlen(handler->name);

	if (length == 0 || length > REA_TASK_TEXT_MAX)
		return refuse_name(handler->name, "has no name of 1 to 1024 bytes", REA_ERR_INVALID, ret_info);
	if (handler->attempt == NULL)
		return refuse_name(handler->name, "has no attempt function", REA_ERR_INVALID, ret_info);
	if (handler->breaker != NULL && handler->gate != NULL)
		return refuse_name(handler->name, "has both a breaker and a gate", REA_ERR_INVALID, ret_info);
	if (find_handler(executor, handler->name) != NULL)
		return refuse_name(handler->name, "is there already", REA_ERR_INVALID, ret_info);
	if (executor->handler_names.count == REA_EXECUTOR_HANDLERS_MAX)
		return refuse_name(handler->name, "is one more than 1000", REA_ERR_LIMIT, ret_info);
	return 0;
}

int rea_executor_handle(struct rea_executor *executor, const struct rea_handler *handler, struct rea_error_info *ret_info)
{
	size_t count = executor->handler_names.count, length;
	struct rea__handler **handlers, *added;
	int error = check_handler(executor, handler, ret_info);

	if (error != 0)
		return error;
	handlers = allocate(executor, executor->handlers, (count + 1) * sizeof(struct rea__handler *));
	if (handlers == NULL)
		return REA_ERR_NOMEM;
	executor->handlers = handlers;
	length = strlen(handler->name);
	added = allocate(executor, NULL, sizeof(*added) + length + 1);
	if (added == NULL)
		return REA_ERR_NOMEM;
	added->is = *handler;
	added->is.name = memcpy(added->name, handler->name, length + 1);
	if (rea_map_insert(&executor->handler_names, rea_slice_make(added->name, length), (uint32_t)count) != 0) {
		release(executor, added);
		return REA_ERR_NOMEM;
	}
	handlers[count] = added;
	return 0;
}

/* ---- slots of tasks ---- */

static int grow(struct rea_executor *executor)
{
	/* By a quarter: the spare room is within the 48 bytes that a task may cost on top of itself. */
	uint64_t capacity = rea_time_min(executor->capacity + executor->capacity / 4 + 16, executor->options.tasks_max);
	void *grown;

	if (rea_heap_reserve(&executor->waiting, (uint32_t)capacity, &executor->alloc) != 0)
		return REA_ERR_NOMEM;
	if ((grown = allocate(executor, executor->slots, capacity * sizeof(*executor->slots))) == NULL)
		return REA_ERR_NOMEM;
	executor->slots = grown;
	if ((grown = allocate(executor, executor->generations, capacity * sizeof(*executor->generations))) == NULL)
		return REA_ERR_NOMEM;
	executor->generations = grown;
	executor->capacity = (uint32_t)capacity;
	return 0;
}

static bool has_slot(const struct rea_executor *executor)
{
	return executor->free_slot != NO_SLOT || executor->used < executor->capacity;
}

static void take_slot(struct rea_executor *executor, struct rea__task *task)
{
	uint32_t slot = executor->free_slot;

	if (slot != NO_SLOT) {
		executor->free_slot = executor->slots[slot].next_free;
	} else {
		slot = executor->used++;
		executor->generations[slot] = 0;
	}
	executor->generations[slot]++;
	executor->slots[slot].task = task;
	task->slot = slot;
	executor->stats.tasks++;
}

/* The task's id is good for nothing from here on; its memory stays. */
static void forget(struct rea_executor *executor, const struct rea__task *task)
{
	executor->generations[task->slot]++;
	executor->slots[task->slot].next_free = executor->free_slot;
	executor->free_slot = task->slot;
	executor->stats.tasks--;
}

static uint64_t make_id(uint32_t generation, uint32_t number)
{
	return (uint64_t)generation << 32 | number;
}

static uint64_t task_id(const struct rea_executor *executor, const struct rea__task *task)
{
	return make_id(executor->generations[task->slot], task->slot);
}

static struct rea__task *find_task(const struct rea_executor *executor, uint64_t id)
{
	uint32_t slot = (uint32_t)id, generation = (uint32_t)(id >> 32);

	if (slot >= executor->used || !(generation & 1) || executor->generations[slot] != generation)
		return NULL;
	return executor->slots[slot].task;
}

static void wait_until(struct rea_executor *executor, struct rea__task *task, uint64_t due_ns)
{
	task->state = REA__TASK_WAITING;
	rea_heap_push(&executor->waiting, task->slot, due_ns);
}

/* ---- submit ---- */

static int refuse_full(const struct rea_executor *executor, struct rea_error_info *ret_info)
{
	struct rea_format text = rea__begin_refusal(ret_info, "tasks_max");

	rea_format_text(&text, "the executor holds ");
	rea_format_u64(&text, executor->options.tasks_max);
	rea_format_text(&text, " tasks; it takes another when one of them has ended");
	return REA_ERR_FULL;
}

static int refuse_closed(struct rea_error_info *ret_info)
{
	struct rea_format text = rea__begin_refusal(ret_info, "");

	rea_format_text(&text, "the executor is shutting down and takes no more tasks");
	return REA_ERR_CLOSED;
}

static int check_submit(const struct rea_executor *executor, const struct rea_task *task,
    const struct rea__handler *handler, struct rea_error_info *ret_info)
{
	int error = rea__task_check(task, ret_info);

	if (error != 0)
		return error;
	if (handler == NULL)
		return refuse_name(task->handler, "is not registered", REA_ERR_NOT_FOUND, ret_info);
	if (executor->mode != 0)
		return refuse_closed(ret_info);
	return executor->stats.tasks == executor->options.tasks_max ? refuse_full(executor, ret_info) : 0;
}

static int add_task(
    struct rea_executor *executor, const struct rea_task *from, uint64_t *ret_id, struct rea_error_info *ret_info)
{
	const struct rea__handler *handler = find_handler(executor, from->handler);
	struct rea__task *task;
	int error = check_submit(executor, from, handler, ret_info);

	if (error == 0 && !has_slot(executor))
		error = grow(executor);
	if (error != 0)
		return error;
	task = rea__task_new(from, handler, &executor->alloc);
	if (task == NULL)
		return REA_ERR_NOMEM;
	take_slot(executor, task);
	/* Not ahead of what has been due since before. */
	wait_until(executor, task, rea_time_max(from->not_before_ns, executor->now_ns));
	*ret_id = task_id(executor, task);
	return 0;
}

static int submit(struct rea_executor *executor, const struct rea_task *task, bool bounded, uint64_t now_ns,
    uint64_t *ret_id, struct rea_error_info *ret_info)
{
	struct rea_task from = *task;
	int error = 0;

	see_time(executor, now_ns);
	if (from.policy == NULL)
		from.policy = &executor->policy;
	if (bounded)
		error = rea_policy_validate_task(from.policy, executor->options.task_attempts_max, ret_info);
	if (error == 0)
		error = add_task(executor, &from, ret_id, ret_info);
	if (error == 0)
		executor->stats.submitted++;
	else
		executor->stats.refused++;
	return error;
}

int rea_executor_submit(struct rea_executor *executor, const struct rea_task *task, uint64_t now_ns, uint64_t *ret_id,
    struct rea_error_info *ret_info)
{
	return submit(executor, task, true, now_ns, ret_id, ret_info);
}

int rea__executor_submit_unbounded(struct rea_executor *executor, const struct rea_task *task, uint64_t now_ns,
    uint64_t *ret_id, struct rea_error_info *ret_info)
{
	return submit(executor, task, false, now_ns, ret_id, ret_info);
}

/* ---- runs ---- */

static void append(struct list *list, struct rea__run *run)
{
	run->next = NULL;
	if (list->first == NULL)
		list->first = run;
	else
		list->last->next = run;
	list->last = run;
}

static struct rea__run *take_first(struct list *list)
{
	struct rea__run *run = list->first;

	if (run != NULL)
		list->first = run->next;
	return run;
}

static uint64_t run_id(const struct rea_executor *executor, const struct rea__run *run)
{
	return make_id(run->generation, (uint32_t)(run - executor->runs));
}

static struct rea__run *find_run(const struct rea_executor *executor, uint64_t id)
{
	uint32_t number = (uint32_t)id, generation = (uint32_t)(id >> 32);

	if (number >= executor->options.concurrency || !(generation & 1) || executor->runs[number].generation != generation)
		return NULL;
	return &executor->runs[number];
}

static void take_run(struct rea_executor *executor, struct rea__task *task)
{
	struct rea__run *run = executor->free_runs;

	executor->free_runs = run->next;
	run->generation++;
	run->state = ADMITTED;
	run->stop = GO_ON;
	run->over = true;
	run->task = task;
	task->state = REA__TASK_RUNNING;
	task->run = run;
	executor->stats.running++;
	append(&executor->admitted, run);
}

static void free_run(struct rea_executor *executor, struct rea__run *run)
{
	run->generation++;
	run->state = FREE;
	run->task = NULL;
	run->next = executor->free_runs;
	executor->free_runs = run;
	executor->stats.running--;
}

static void stop_run(struct rea_executor *executor, struct rea__run *run, enum stop stop)
{
	if (stop > run->stop)
		run->stop = stop;
	if (run->state != FLYING)
		return;
	run->state = STOPPED;
	run->ended_ns = executor->now_ns;
	append(&executor->news, run);
}

/* ---- report, cancel ---- */

int rea_executor_report(struct rea_executor *executor, uint64_t attempt_id, const struct rea_report *report, uint64_t now_ns)
{
	struct rea__run *run = find_run(executor, attempt_id);

	assert(report->outcome < REA_OUTCOME_COUNT);
	see_time(executor, now_ns);
	if (run == NULL)
		return REA_ERR_NOT_FOUND;
	switch (run->state) {
	case FLYING:
		run->report = *report;
		run->state = REPORTED;
		run->over = true;
		run->ended_ns = executor->now_ns;
		if (report->latency_ns == 0)
			run->report.latency_ns = run->ended_ns - run->started_ns;
		append(&executor->news, run);
		return 0;
	case STOPPED:
		run->over = true;
		return REA_ERR_NOT_FOUND;
	case ABANDONED:
		release(executor, run->task);
		free_run(executor, run);
		return REA_ERR_NOT_FOUND;
	case FREE:
	case ADMITTED:
	case REPORTED:
		break;
	}
	return REA_ERR_NOT_FOUND;
}

int rea_executor_cancel(struct rea_executor *executor, uint64_t id, uint64_t now_ns)
{
	struct rea__task *task = find_task(executor, id);

	see_time(executor, now_ns);
	if (task == NULL)
		return REA_ERR_NOT_FOUND;
	switch ((enum rea__task_state)task->state) {
	case REA__TASK_WAITING:
		rea_heap_remove(&executor->waiting, task->slot);
		task->state = REA__TASK_LEAVING;
		task->next = executor->leaving;
		executor->leaving = task;
		break;
	case REA__TASK_RUNNING:
		stop_run(executor, task->run, CANCEL);
		break;
	case REA__TASK_LEAVING:
		break;
	}
	return 0;
}

/* ---- the engine ---- */

static void fill_options(const struct rea_executor *executor, const struct rea__task *task, struct rea_call_options *ret_options)
{
	const struct rea_handler *handler = &task->handler->is;

	rea_call_options_init(ret_options);
	ret_options->policy = task->policy;
	ret_options->grant.permission = (enum rea_permission)task->permission;
	ret_options->grant.source = (enum rea_permission_source)task->source;
	ret_options->has_key = task->key_len > 0;
	ret_options->chained = task->chained;
	ret_options->deadline_ns = task->deadline_ns;
	ret_options->budget = handler->budget;
	ret_options->budget_shard = handler->budget_shard;
	ret_options->breaker = handler->breaker;
	ret_options->gate = handler->gate;
	ret_options->limit = executor->options.retry_limit;
	ret_options->parking = executor->options.parking;
	ret_options->single_target = handler->instances == NULL;
}

/* The call that this task is, ready for its next attempt, or for the report of one that was interrupted. */
static void revive(const struct rea_executor *executor, const struct rea__task *task, struct rea_call *ret_call)
{
	struct rea_call_options options;
	struct rea_call_past past;

	fill_options(executor, task, &options);
	if (task->attempts == 0) {
		rea_call_begin(ret_call, &options, executor->now_ns);
		return;
	}
	past = rea__task_past(task);
	rea_call_resume(ret_call, &options, &past, executor->now_ns);
}

/* NULL for a single target. */
static const struct rea_instances *ask_instances(const struct rea_executor *executor, const struct rea__task *task)
{
	const struct rea_handler *handler = &task->handler->is;
	const struct rea_instances *instances;

	if (handler->instances == NULL)
		return NULL;
	leave(executor);
	instances = handler->instances(handler->user_data);
	enter(executor);
	return instances;
}

/* ---- events ---- */

static enum rea_event_type event_type(const struct rea_decision *decision)
{
	if (decision->step == REA_STEP_WAIT)
		return REA_EVENT_RETRY;
	if (decision->would_retry)
		return REA_EVENT_WOULD_RETRY;
	return decision->verdict == REA_VERDICT_SUCCESS ? REA_EVENT_SUCCESS : REA_EVENT_GIVE_UP;
}

static void send_event(const struct rea_executor *executor, const struct rea__task *task, const struct rea__run *run,
    const struct rea_decision *decision, const struct rea_report *report)
{
	char number[24], instance[64] = "", evidence[REA_EVIDENCE_TEXT_MAX];
	struct rea_format id;
	struct rea_event event;
	struct rea_task view;

	rea__task_view(task, &view);
	rea_format_init(&id, number, sizeof(number));
	rea_format_u64(&id, task_id(executor, task));
	if (run != NULL && run->attempt.instance_id.port != 0)
		rea_instance_id_format(&run->attempt.instance_id, instance, sizeof(instance));
	event = (struct rea_event){
	    .type = event_type(decision),
	    .attempt_start_ns = run != NULL ? run->started_ns : executor->now_ns,
	    .time_ns = run != NULL ? run->ended_ns : executor->now_ns,
	    .call_id = view.name.length > 0 ? view.name : (struct rea_text){number, id.length},
	    .biz_id = view.biz_id,
	    .key = view.key,
	    .trace_id = view.trace_id,
	    .service = {view.handler, strlen(view.handler)},
	    .instance = {instance, strlen(instance)},
	    .evidence = {evidence, rea_evidence_format(&decision->evidence, evidence, sizeof(evidence))},
	    /* A decision that no attempt led to stands where the next one would have. */
	    .attempt = decision->attempt + (run == NULL),
	    .attempts_max = decision->attempts_max,
	    .outcome = report->outcome,
	    .code_kind = report->code_kind,
	    .code = report->code,
	    .cost_ns = run != NULL ? run->ended_ns - run->started_ns : 0,
	    .retryable = decision->retryable,
	    .next_delay_ns = decision->wait_ns,
	    .verdict = decision->verdict,
	    .reason = decision->reason,
	    .grant = decision->grant,
	};
	leave(executor);
	executor->options.event(&event, executor->options.user_data);
	enter(executor);
}

/* run: whose attempt led to the decision; NULL = none did. */
static void tell_event(struct rea_executor *executor, const struct rea__task *task, const struct rea__run *run,
    const struct rea_decision *decision, const struct rea_report *report)
{
	if (decision->verdict == REA_VERDICT_SUCCESS && decision->attempt == 1) {
		executor->stats.first_try_successes++;
		return;
	}
	executor->stats.events++;
	if (executor->options.event != NULL)
		send_event(executor, task, run, decision, report);
}

/* ---- the end of a task ---- */

static enum rea_task_state final_state(const struct rea_decision *decision)
{
	if (decision->verdict == REA_VERDICT_SUCCESS)
		return REA_TASK_SUCCESS;
	return decision->reason == REA_REASON_CANCELLED ? REA_TASK_CANCELLED : REA_TASK_GIVEN_UP;
}

static void tell_done(struct rea_executor *executor, struct rea__task *task, struct rea_task_end *end, uint64_t next_ns)
{
	struct rea_task view;

	rea__task_view(task, &view);
	view.not_before_ns = next_ns;
	end->id = task_id(executor, task);
	end->attempts = task->attempts;
	end->task = &view;
	executor->stats.ended[end->state]++;
	forget(executor, task);
	if (task->done != NULL) {
		leave(executor);
		task->done(end, task->user_data);
		enter(executor);
	}
	end->task = NULL; /* it was lent to the callback */
}

static void end_task(struct rea_executor *executor, struct rea__task *task, const struct rea_decision *decision)
{
	struct rea_task_end end = {.state = final_state(decision),
	    .reason = decision->reason,
	    .stop = decision->stop,
	    .attempts_max = decision->attempts_max};

	tell_done(executor, task, &end, 0);
}

static void hand_back(struct rea_executor *executor, struct rea__task *task, uint64_t next_ns)
{
	struct rea_task_end end = {.state = REA_TASK_HANDED_BACK, .attempts_max = rea_policy_attempts(task->policy)};
	struct rea_decision decision;
	struct rea_call call;

	/* What it holds of the budget is this process's. */
	revive(executor, task, &call);
	rea_call_cancel(&call, executor->now_ns, &decision);
	tell_done(executor, task, &end, next_ns);
}

/* Of a task that waits. */
static void end_cancelled(struct rea_executor *executor, struct rea__task *task)
{
	static const struct rea_report cancelled = {.outcome = REA_OUTCOME_CANCELLED};
	struct rea_decision decision;
	struct rea_call call;

	revive(executor, task, &call);
	rea_call_cancel(&call, executor->now_ns, &decision);
	tell_event(executor, task, NULL, &decision, &cancelled);
	end_task(executor, task, &decision);
}

/* ---- tell: what becomes of an attempt that has ended ---- */

/* The task is over. Its memory is the handler's as long as that runs. */
static void retire(struct rea_executor *executor, struct rea__run *run)
{
	if (!run->over) {
		run->state = ABANDONED;
		return;
	}
	release(executor, run->task);
	free_run(executor, run);
}

static bool stop_handler(const struct rea_executor *executor, const struct rea__run *run)
{
	const struct rea_handler *handler = &run->task->handler->is;
	bool over;

	if (handler->cancel == NULL)
		return false;
	leave(executor);
	over = handler->cancel(&run->attempt, handler->user_data);
	enter(executor);
	return over;
}

static void judge(const struct rea_executor *executor, struct rea__run *run)
{
	const struct rea_handler *handler = &run->task->handler->is;

	if (handler->judge == NULL || run->task->interrupted)
		return;
	leave(executor);
	handler->judge(&run->attempt, &run->report, handler->user_data);
	enter(executor);
	assert(run->report.outcome < REA_OUTCOME_COUNT);
}

static void decide(struct rea_executor *executor, struct rea__run *run, struct rea_decision *ret_decision)
{
	const struct rea_instances *instances;

	if (run->state == REPORTED)
		judge(executor, run);
	else if (!run->over && stop_handler(executor, run))
		run->over = true;
	if (run->state == STOPPED)
		run->report =
		    (struct rea_report){.outcome = run->stop == CANCEL ? REA_OUTCOME_CANCELLED : REA_OUTCOME_AMBIGUOUS,
			.latency_ns = run->ended_ns - run->started_ns};
	executor->stats.attempts[run->report.outcome]++;
	if (run->state == STOPPED && run->stop == CANCEL) {
		rea_call_cancel(&run->call, run->ended_ns, ret_decision);
		return;
	}
	instances = ask_instances(executor, run->task);
	rea_call_report(&run->call, &run->report, instances, &executor->random, run->ended_ns, ret_decision);
}

/* The last report of an attempt that ended; a cancelled one leaves that of the attempt before. */
static void keep_report(struct rea__task *task, const struct rea_report *report, const struct rea_decision *decision)
{
	task->attempts = decision->attempt;
	task->interrupted = false;
	if (report->outcome == REA_OUTCOME_CANCELLED)
		return;
	task->outcome = (uint8_t)report->outcome;
	task->code_kind = (uint8_t)report->code_kind;
	task->code = report->code;
}

static void pause_call(struct rea__run *run)
{
	struct rea_call_past past;

	rea_call_pause(&run->call, &past);
	rea__task_keep(run->task, &past);
}

/* Another attempt was granted, or the task is parked until one is. */
static void await_retry(struct rea_executor *executor, struct rea__run *run, uint64_t due_ns)
{
	struct rea__task *task = run->task;

	pause_call(run);
	if (run->stop == CANCEL || executor->mode == REA_SHUTDOWN_CANCEL) {
		end_cancelled(executor, task);
		retire(executor, run);
	} else if (executor->mode == REA_SHUTDOWN_HAND_BACK) {
		hand_back(executor, task, due_ns);
		retire(executor, run);
	} else {
		free_run(executor, run);
		wait_until(executor, task, due_ns);
	}
}

static void tell_run(struct rea_executor *executor, struct rea__run *run)
{
	struct rea__task *task = run->task;
	struct rea_decision decision;

	decide(executor, run, &decision);
	keep_report(task, &run->report, &decision);
	tell_event(executor, task, run, &decision, &run->report);
	if (decision.step == REA_STEP_WAIT) {
		await_retry(executor, run, decision.wait_until_ns);
		return;
	}
	end_task(executor, task, &decision);
	retire(executor, run);
}

/* What callbacks add to the lists meanwhile is told next time. */
static void tell(struct rea_executor *executor)
{
	struct list news = executor->news;
	struct rea__task *leaving = executor->leaving;
	struct rea__run *run;

	executor->news = (struct list){NULL, NULL};
	executor->leaving = NULL;
	while ((run = take_first(&news)) != NULL)
		tell_run(executor, run);
	while (leaving != NULL) {
		struct rea__task *task = leaving;

		leaving = task->next;
		end_cancelled(executor, task);
		release(executor, task);
	}
}

/* ---- begin ---- */

static void fill_attempt(const struct rea_executor *executor, struct rea__run *run, const struct rea_decision *decision,
    const struct rea_instances *instances)
{
	struct rea_attempt *attempt = &run->attempt;
	struct rea_task view;

	rea__task_view(run->task, &view);
	*attempt = (struct rea_attempt){
	    .id = run_id(executor, run),
	    .task_id = task_id(executor, run->task),
	    .number = decision->attempt,
	    .attempts_max = decision->attempts_max,
	    .deadline_ns = decision->attempt_deadline_ns,
	    .task_deadline_ns = run->task->deadline_ns,
	    .name = view.name,
	    .biz_id = view.biz_id,
	    .trace_id = view.trace_id,
	    .key = view.key,
	    .payload = view.payload,
	    .payload_len = view.payload_len,
	    .grant = decision->grant,
	    .policy = view.policy,
	    .task_data = view.user_data,
	};
	if (instances != NULL) {
		attempt->instance = decision->instance;
		attempt->instance_id = instances->items[decision->instance].id;
	}
}

static void fly(struct rea_executor *executor, struct rea__run *run)
{
	const struct rea_handler *handler = &run->task->handler->is;
	/* Who says nothing does not know. */
	struct rea_report report = {.outcome = REA_OUTCOME_AMBIGUOUS};
	uint64_t id = run->attempt.id;
	bool ended;

	run->state = FLYING;
	run->over = false;
	run->started_ns = executor->now_ns;
	executor->stats.retries += run->attempt.number > 1;
	leave(executor);
	ended = handler->attempt(&run->attempt, &report, handler->user_data);
	enter(executor);
	if (ended)
		rea_executor_report(executor, id, &report, executor->now_ns);
}

/* The attempt that another process never ended. */
static void report_interrupted(struct rea_executor *executor, struct rea__run *run)
{
	struct rea_task view;

	rea__task_view(run->task, &view);
	run->report = (struct rea_report){.outcome = REA_OUTCOME_AMBIGUOUS};
	run->state = REPORTED;
	run->started_ns = run->ended_ns = executor->now_ns;
	run->attempt.instance_id = (struct rea_instance_id){.port = 0};
	if (view.past.tried_len > 0)
		run->attempt.instance_id = view.past.tried[view.past.tried_len - 1];
	append(&executor->news, run);
}

/* No attempt comes of it: too late, or nobody to try. */
static void end_unbegun(struct rea_executor *executor, struct rea__run *run, const struct rea_decision *decision)
{
	static const struct rea_report never_sent = {.outcome = REA_OUTCOME_NEVER_SENT};

	tell_event(executor, run->task, NULL, decision, &never_sent);
	end_task(executor, run->task, decision);
	retire(executor, run);
}

static void begin(struct rea_executor *executor, struct rea__run *run)
{
	struct rea__task *task = run->task;
	const struct rea_instances *instances = ask_instances(executor, task);
	struct rea_decision decision;

	if (run->stop == CANCEL) {
		end_cancelled(executor, task);
		retire(executor, run);
		return;
	}
	revive(executor, task, &run->call);
	if (task->interrupted) {
		report_interrupted(executor, run);
		return;
	}
	rea_call_attempt(&run->call, instances, &executor->random, executor->now_ns, &decision);
	/* The policy's deadline runs from the first attempt on. */
	task->deadline_ns = rea_call_deadline(&run->call);
	if (decision.step == REA_STEP_DONE) {
		end_unbegun(executor, run, &decision);
		return;
	}
	if (decision.step == REA_STEP_WAIT) {
		await_retry(executor, run, decision.wait_until_ns);
		return;
	}
	fill_attempt(executor, run, &decision, instances);
	fly(executor, run);
}

/* All that is due and finds a slot, before any of it runs. */
static void admit(struct rea_executor *executor)
{
	while (executor->free_runs != NULL && executor->waiting.count > 0 &&
	       rea_heap_next(&executor->waiting) <= executor->now_ns)
		take_run(executor, executor->slots[rea_heap_pop(&executor->waiting)].task);
}

/* ---- shutdown ---- */

void rea_executor_shutdown(struct rea_executor *executor, enum rea_shutdown mode, uint64_t deadline_ns)
{
	assert(mode >= REA_SHUTDOWN_DRAIN && mode <= REA_SHUTDOWN_CANCEL);
	if (mode > executor->mode)
		executor->mode = mode;
	executor->stop_ns = rea_time_min(executor->stop_ns, mode == REA_SHUTDOWN_CANCEL ? 0 : deadline_ns);
}

static void stop_runs(struct rea_executor *executor)
{
	executor->stop_ns = REA_NEVER;
	if (executor->mode == REA_SHUTDOWN_DRAIN)
		executor->mode = REA_SHUTDOWN_HAND_BACK;
	for (uint32_t i = 0; i < executor->options.concurrency; i++)
		if (executor->runs[i].state != FREE)
			stop_run(executor, &executor->runs[i], executor->mode == REA_SHUTDOWN_CANCEL ? CANCEL : INTERRUPT);
}

static void evict_waiting(struct rea_executor *executor)
{
	while (executor->waiting.count > 0) {
		uint64_t due_ns = rea_heap_next(&executor->waiting);
		struct rea__task *task = executor->slots[rea_heap_pop(&executor->waiting)].task;

		task->state = REA__TASK_LEAVING;
		if (executor->mode == REA_SHUTDOWN_CANCEL)
			end_cancelled(executor, task);
		else
			hand_back(executor, task, due_ns);
		release(executor, task);
	}
}

static void go_on_with_shutdown(struct rea_executor *executor)
{
	if (executor->mode != 0 && executor->now_ns >= executor->stop_ns)
		stop_runs(executor);
	if (executor->mode >= REA_SHUTDOWN_HAND_BACK)
		evict_waiting(executor);
}

/* ---- run ---- */

uint64_t rea_executor_next(const struct rea_executor *executor)
{
	if (executor->news.first != NULL || executor->leaving != NULL)
		return 0;
	if (executor->mode >= REA_SHUTDOWN_HAND_BACK && executor->waiting.count > 0)
		return 0;
	return rea_time_min(executor->free_runs != NULL ? rea_heap_next(&executor->waiting) : REA_NEVER, executor->stop_ns);
}

void rea_executor_run(struct rea_executor *executor, uint64_t now_ns)
{
	struct rea__run *run;

	see_time(executor, now_ns);
	if (executor->in_run)
		return;
	executor->in_run = true;
	tell(executor);
	go_on_with_shutdown(executor);
	admit(executor);
	while ((run = take_first(&executor->admitted)) != NULL)
		begin(executor, run);
	tell(executor);
	executor->in_run = false;
}

/* ---- what can be seen ---- */

void rea_executor_stats(const struct rea_executor *executor, struct rea_executor_stats *ret_stats)
{
	*ret_stats = executor->stats;
	ret_stats->waiting = executor->waiting.count;
}

int rea_executor_state(const struct rea_executor *executor, uint64_t id, enum rea_task_state *ret_state)
{
	const struct rea__task *task = find_task(executor, id);

	if (task == NULL)
		return REA_ERR_NOT_FOUND;
	if (task->state == REA__TASK_RUNNING)
		*ret_state = REA_TASK_RUNNING;
	else
		*ret_state = task->attempts == 0 ? REA_TASK_PENDING : REA_TASK_RETRYING;
	return 0;
}

/* ---- in words ---- */

static void explain_handler(struct rea_format *out, const struct rea_handler *handler, uint64_t now_ns)
{
	struct rea__breaker_view view;

	rea__put(out, "handler ");
	rea__put(out, handler->name);
	rea__put(out, "\n");
	if (handler->budget != NULL) {
		rea__put(out, "  budget: ");
		rea__explain_budget(out, handler->budget, now_ns);
		rea__put(out, "\n");
		rea__explain_evidence(out, "  ", handler->budget, now_ns);
	}
	if (handler->breaker != NULL) {
		rea__breaker_look(handler->breaker, now_ns, &view);
		rea__put(out, "  circuit breaker: ");
		rea__explain_breaker(out, &view);
		rea__put(out, "\n");
	}
	if (handler->gate != NULL) {
		bool permits = handler->gate->permits(handler->gate->user_data, now_ns);

		rea__put(out, permits ? "  gate: lets calls through\n" : "  gate: refuses calls\n");
	}
}

static void explain_tasks(struct rea_format *out, const struct rea_executor *executor, uint64_t now_ns)
{
	static const char *const modes[] = {"", "; drains", "; hands back", "; cancels"};
	uint64_t next_ns = rea_executor_next(executor);
	struct rea_executor_stats stats;

	rea_executor_stats(executor, &stats);
	rea__put_number(out, "executor: ", executor->options.concurrency, " attempts at once");
	rea__put_number(out, ", ", executor->options.tasks_max, " tasks");
	rea__put_number(out, " of at most ", executor->options.task_attempts_max, " attempts");
	rea__put_number(out, "; ", stats.tasks, " held");
	rea__put_number(out, ", ", stats.waiting, " waiting");
	rea__put_number(out, ", ", stats.running, " running");
	if (next_ns != REA_NEVER)
		rea__put_ms(out, "; something is due in ", rea_time_sub(next_ns, now_ns), " ms");
	rea__put(out, modes[executor->mode]);
	rea__put(out, "\n");
}

size_t rea_executor_explain(const struct rea_executor *executor, uint64_t now_ns, char *ret_text, size_t size)
{
	struct rea_format out;

	rea_format_init(&out, ret_text, size);
	explain_tasks(&out, executor, now_ns);
	if (executor->options.retry_limit != NULL) {
		rea__put(&out, "concurrent retries: ");
		rea__explain_retry_limit(&out, executor->options.retry_limit);
		rea__put(&out, "\n");
	}
	rea__put(&out, "parked tasks: ");
	rea__explain_retry_limit(&out, executor->options.parking);
	rea__put(&out, "\n");
	for (size_t i = 0; i < executor->handler_names.count; i++)
		explain_handler(&out, &executor->handlers[i]->is, now_ns);
	return out.length;
}
