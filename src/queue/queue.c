/*
 * Which tasks run when. The store remembers; memory holds what is soon:
 *
 *   submit ─▶ store ─▶ soon? ─▶ heap (by time) ─due─▶ line of its target ─may begin─▶ run (run.c)
 *                │                 ▲                                                    │
 *                └─ asked for what is due within HORIZON, every second ─────────────────┘ another attempt
 *
 * A target whose line does not move (paused, held, at its limit) costs an entry per task and nothing else; every other goes on.
 */
#include "queue/internal.h"

#include "base/container.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define HORIZON_NS (2 * REA_NS_PER_S)
#define TICK_NS REA_NS_PER_S
#define HOUR_NS (UINT64_C(3600) * REA_NS_PER_S)
#define TARGETS_MAX 100000
#define REPLY_HEAD_MAX 65536

static void ask_store(struct queue *queue);

uint64_t queue_now(const struct queue *queue)
{
	return loop_now(queue->loop);
}

struct loop *queue_loop(const struct queue *queue)
{
	return queue->loop;
}

const struct rea_config_settings *queue_settings(const struct queue *queue)
{
	return queue->rules->settings;
}

bool queue_trouble(struct queue *queue, char *ret_text, size_t size)
{
	struct rea_store_status status;

	if (queue->store == NULL) {
		snprintf(ret_text, size, "%s", queue->opening.trouble);
		return true;
	}
	rea_store_status(queue->store, &status);
	if (status.failing)
		snprintf(ret_text, size, "tasks: the store %s cannot be written to: %s", queue->opening.path, status.message);
	return status.failing;
}

bool queue_is_open(const struct queue *queue)
{
	return queue->store != NULL;
}

struct rea_store_reader *queue_reader(struct queue *queue)
{
	return queue->reader;
}

int64_t queue_unix_of(struct queue *queue, uint64_t time_ns)
{
	int64_t wall = loop_wall_ns(queue->loop);
	uint64_t now = queue_now(queue);

	return time_ns >= now ? wall + (int64_t)rea_time_min(time_ns - now, INT64_MAX / 2) : wall - (int64_t)(now - time_ns);
}

void queue_emit(struct queue *queue, struct rea_event *event)
{
	event->time_unix_ns = loop_wall_ns(queue->loop);
	queue->stats.events++;
	queue->options.event(event, queue->options.user_data);
}

/* ---- targets ---- */

void queue_look_at(struct queue *queue, struct target *target)
{
	if (target->ready || target->waiting == 0)
		return;
	target->ready = true;
	target->next_ready = NULL;
	*queue->ready_end = target;
	queue->ready_end = &target->next_ready;
}

static void on_target_timer(struct wheel_timer *timer, uint64_t now_ns)
{
	struct target *target = REA_CONTAINER_OF(timer, struct target, timer);
	struct queue *queue = target->user;

	(void)now_ns;
	queue_look_at(queue, target);
	queue_dispatch(queue);
}

static void configure_target(struct queue *queue, struct target *target)
{
	const struct rea_config_settings *settings = queue->rules->settings;
	uint32_t concurrency = 0;
	double rate_per_s = 0;
	struct vet_url url;

	for (size_t i = 0; !target->is_url && i < settings->tasks.targets_len; i++)
		if (strcmp(settings->tasks.targets[i].service, target->name) == 0) {
			concurrency = settings->tasks.targets[i].concurrency;
			rate_per_s = settings->tasks.targets[i].rate_per_s;
		}
	if (target->is_url && vet_url_parse(rea_slice_of(target->name), &url, NULL) == 0) {
		const struct rule *rule = rules_match(queue->rules, &url);

		if (rule != NULL) {
			concurrency = rule->config->concurrency;
			rate_per_s = rule->config->rate_per_s;
		}
		vet_url_fini(&url);
	}
	target_configure(target, concurrency > 0 ? concurrency : settings->tasks.target_concurrency, rate_per_s);
}

static struct target *find_target(const struct queue *queue, struct rea_slice name)
{
	uint32_t index;

	return rea_map_find(&queue->by_name, name, &index) ? queue->by_number[index] : NULL;
}

struct target *queue_target_of(struct queue *queue, struct rea_slice name)
{
	struct target *target = find_target(queue, name), **grown;
	size_t count = queue->by_name.count;

	if (target != NULL)
		return target;
	if (count == TARGETS_MAX)
		return NULL;
	grown = realloc(queue->by_number, (count + 1) * sizeof(struct target *));
	if (grown == NULL)
		return NULL;
	queue->by_number = grown;
	target = target_new(name, memchr(name.data, '/', name.length) != NULL);
	if (target == NULL)
		return NULL;
	if (rea_map_insert(&queue->by_name, rea_slice_make(target->name, target->name_len), (uint32_t)count) != 0) {
		target_free(target);
		return NULL;
	}
	queue->by_number[count] = target;
	target->user = queue;
	target->timer.fire = on_target_timer;
	*queue->targets_end = target;
	queue->targets_end = &target->next;
	configure_target(queue, target);
	return target;
}

/* ---- entries ---- */

static bool grow_entries(struct queue *queue)
{
	uint32_t capacity = queue->entries_capacity + queue->entries_capacity / 4 + 256;
	struct entry *grown;

	if (rea_heap_reserve(&queue->heap, capacity, rea_alloc_default()) != 0)
		return false;
	grown = realloc(queue->entries, capacity * sizeof(*grown));
	if (grown == NULL)
		return false;
	queue->entries = grown;
	queue->entries_capacity = capacity;
	return true;
}

static uint32_t take_entry(struct queue *queue)
{
	uint32_t number = queue->free_entry;

	if (number != TARGET_NONE) {
		queue->free_entry = queue->entries[number].next;
		return number;
	}
	if (queue->entries_len == queue->entries_capacity && !grow_entries(queue))
		return TARGET_NONE;
	return queue->entries_len++;
}

static void free_entry(struct queue *queue, uint32_t number)
{
	queue->entries[number].next = queue->free_entry;
	queue->free_entry = number;
	queue->entries_used--;
}

static void stand_in_line(struct queue *queue, uint32_t number)
{
	struct target *target = queue->entries[number].target;

	queue->entries[number].next = TARGET_NONE;
	if (target->first == TARGET_NONE)
		target->first = number;
	else
		queue->entries[target->last].next = number;
	target->last = number;
	target->waiting++;
	queue_look_at(queue, target);
}

static uint32_t leave_line(struct queue *queue, struct target *target)
{
	uint32_t number = target->first;

	target->first = queue->entries[number].next;
	target->waiting--;
	return number;
}

static void set_timer(struct queue *queue)
{
	uint64_t next = rea_heap_next(&queue->heap);

	if (next != REA_NEVER)
		loop_timer_start(queue->loop, &queue->timer, next);
}

void queue_add(struct queue *queue, uint64_t id, struct target *target, uint64_t due_ns, bool repeatable, struct run *run)
{
	uint32_t number = take_entry(queue);

	if (number == TARGET_NONE) {
		fprintf(stderr, "rea: out of memory: task %llu waits for the next start\n", (unsigned long long)id);
		if (run != NULL)
			run_drop(run);
		return;
	}
	queue->entries_used++;
	queue->entries[number] = (struct entry){.id = id, .target = target, .run = run, .repeatable = repeatable};
	if (due_ns <= queue_now(queue)) {
		stand_in_line(queue, number);
		return;
	}
	rea_heap_push(&queue->heap, number, due_ns);
	set_timer(queue);
}

static void on_timer(struct wheel_timer *timer, uint64_t now_ns)
{
	struct queue *queue = REA_CONTAINER_OF(timer, struct queue, timer);

	while (rea_heap_next(&queue->heap) <= now_ns)
		stand_in_line(queue, rea_heap_pop(&queue->heap));
	set_timer(queue);
	queue_dispatch(queue);
}

/* ---- beginning ---- */

/* One task of this target, if it may be. False: the target waits for its timer, or for something to end. */
static bool begin_one(struct queue *queue, struct target *target)
{
	struct entry entry;
	uint64_t wake_ns;
	uint32_t number;

	if (!target_begin(target, queue_now(queue), &wake_ns)) {
		if (wake_ns != REA_NEVER)
			loop_timer_start(queue->loop, &target->timer, wake_ns);
		return false;
	}
	number = leave_line(queue, target);
	entry = queue->entries[number];
	free_entry(queue, number);
	if (run_claim(queue, target, &entry))
		return true;
	/* Out of memory: it stands in line again, a little later. */
	target->running--;
	queue_add(queue, entry.id, target, queue_now(queue) + REA_NS_PER_S, entry.repeatable, entry.run);
	return false;
}

/* In turns, so that no target holds up another. */
void queue_dispatch(struct queue *queue)
{
	uint32_t concurrency = queue->rules->settings->tasks.concurrency;

	while (!queue->stopping && queue->ready != NULL && queue->running < concurrency) {
		struct target *target = queue->ready;

		queue->ready = target->next_ready;
		if (queue->ready == NULL)
			queue->ready_end = &queue->ready;
		target->ready = false;
		if (target->waiting > 0 && begin_one(queue, target))
			queue_look_at(queue, target);
	}
}

/* ---- the store ---- */

void queue_operation(struct queue *queue, int by)
{
	queue->operations = (uint32_t)((int64_t)queue->operations + by);
}

static void take_waiting(struct queue *queue, const struct rea_store_result *result)
{
	for (size_t i = 0; i < result->tasks_len; i++) {
		const struct rea_store_task *task = &result->tasks[i];
		struct target *target = queue_target_of(queue, rea_slice_make(task->target.text, task->target.length));

		if (target != NULL)
			queue_add(queue, task->id, target, task->due_ns, false, NULL);
		else
			fprintf(stderr, "rea: no room for its target: task %llu waits for the next start\n",
			    (unsigned long long)task->id);
	}
}

static void on_due(const struct rea_store_result *result, void *user_data)
{
	struct queue *queue = user_data;

	queue_operation(queue, -1);
	queue->asking = false;
	if (result->error == 0) {
		take_waiting(queue, result);
		if (result->more && !queue->stopping)
			ask_store(queue);
	}
	queue_dispatch(queue);
	queue_check_stopped(queue);
}

static void ask_store(struct queue *queue)
{
	uint64_t now_ns = queue_now(queue);

	if (queue->asking || queue->entries_used >= queue->rules->settings->limits.task_queue ||
	    rea_store_due(queue->store, rea_time_add(now_ns, HORIZON_NS), REA_STORE_DUE_MAX, now_ns, on_due, queue) != 0)
		return;
	queue->asking = true;
	queue_operation(queue, 1);
}

static void keep_house(struct queue *queue);

static void on_kept(const struct rea_store_result *result, void *user_data)
{
	struct queue *queue = user_data;

	queue_operation(queue, -1);
	queue->keeping_house = false;
	if (result->error == 0) {
		take_waiting(queue, result);
		if (result->more && !queue->stopping)
			keep_house(queue);
	}
	queue_dispatch(queue);
	queue_check_stopped(queue);
}

static void keep_house(struct queue *queue)
{
	const struct rea_store_maintain maintain = {
	    .keep_ns = queue->rules->settings->tasks.retention_hours * HOUR_NS, .rows_max = REA_STORE_MAINTAIN_MAX};

	if (queue->keeping_house || rea_store_maintain(queue->store, &maintain, queue_now(queue), on_kept, queue) != 0)
		return;
	queue->keeping_house = true;
	queue_operation(queue, 1);
}

static void on_tick(struct wheel_timer *timer, uint64_t now_ns)
{
	struct queue *queue = REA_CONTAINER_OF(timer, struct queue, tick);

	if (queue->stopping)
		return;
	ask_store(queue);
	keep_house(queue);
	loop_timer_start(queue->loop, timer, rea_time_add(now_ns, TICK_NS));
}

static void on_drain(struct loop_post *post)
{
	struct queue *queue = REA_CONTAINER_OF(post, struct queue, drain);

	atomic_store(&queue->drain_due, false);
	/* Of one that is being opened: it is asked once it is here. */
	if (queue->store != NULL)
		rea_store_drain(queue->store);
}

/* ---- handing in ---- */

struct submission {
	struct queue *queue;
	struct target *target;
	queue_receipt_fn done;
	void *user_data;
	bool repeatable;
	/* sync-first, while it is looked whether its key is there already; NULL = it is to be stored */
	struct task_submit *submit;
};

static bool refuse(struct queue *queue, struct queue_receipt *receipt, uint16_t status, const char *field, const char *detail)
{
	task_problem_set(&receipt->problem, status, field, "%s", detail);
	receipt->retry_after_s = status == 503 ? 1 : 0;
	queue->stats.refused++;
	return false;
}

static void on_submitted(const struct rea_store_result *result, void *user_data)
{
	struct submission *submission = user_data;
	struct queue *queue = submission->queue;
	struct queue_receipt receipt = {.existed = result->existed, .task = &result->task};

	queue_operation(queue, -1);
	queue->submits -= submission->submit == NULL;
	if (result->error == REA_ERR_CONFLICT) {
		queue->stats.refused++;
		task_problem_set(&receipt.problem, 422, "/key",
		    "this key is that of task %llu, whose content is another", (unsigned long long)result->task.id);
	} else if (result->error != 0) {
		refuse(queue, &receipt, 503, "", "the store cannot take it now; nothing was kept of it");
	} else if (result->existed) {
		queue->stats.existed++;
	} else {
		queue->stats.accepted++;
		if (result->soon)
			queue_add(queue, result->task.id, submission->target, result->task.due_ns,
			    submission->repeatable, NULL);
	}
	submission->done(&receipt, submission->user_data);
	free(submission);
	queue_dispatch(queue);
	queue_check_stopped(queue);
}

static struct rea_text text_of(struct rea_slice slice)
{
	return (struct rea_text){slice.data, slice.length};
}

/* What of it the store does not know stands in submit. */
static bool store_submit(struct queue *queue, struct target *target, const struct task_submit *submit,
    uint64_t delay_ns, bool repeatable, queue_receipt_fn done, void *user_data, struct queue_receipt *receipt)
{
	struct submission *submission = malloc(sizeof(*submission));
	struct rea_buffer payload = {.alloc = NULL};
	struct rea_store_submit operation = {
	    .spec = {.target = {target->name, target->name_len},
		.biz_id = text_of(submit->biz_id),
		.key = text_of(submit->key)},
	    .delay_ns = delay_ns,
	};
	int error = REA_ERR_NOMEM;

	if (submission != NULL && task_encode(&submit->request, &payload) == 0) {
		*submission = (struct submission){queue, target, done, user_data, repeatable, NULL};
		task_fingerprint(submit, operation.spec.fingerprint);
		operation.spec.payload = (struct rea_text){payload.data, rea_buffer_length(&payload)};
		error = rea_store_submit(queue->store, &operation, queue_now(queue), on_submitted, submission);
	}
	rea_buffer_fini(&payload);
	if (error == 0) {
		queue_operation(queue, 1);
		queue->submits++;
		return true;
	}
	free(submission);
	if (error == REA_ERR_FULL)
		return refuse(queue, receipt, 503, "", "more is waiting to be written than may wait");
	if (error == REA_ERR_INVALID)
		return refuse(queue, receipt, 422, "", "the task is larger than the store takes");
	return refuse(queue, receipt, 503, "", "out of memory");
}

static bool is_open(struct queue *queue, struct queue_receipt *receipt)
{
	struct rea_store_status status;
	uint64_t open = queue->submits;

	if (queue->stopping)
		return refuse(queue, receipt, 503, "", "rea is shutting down");
	rea_store_status(queue->store, &status);
	if (status.failing)
		return refuse(queue, receipt, 503, "", "the store cannot be written to; nothing is taken until it can");
	for (int i = 0; i < REA_STORE_STATE_COUNT; i++)
		if (REA_STORE_STATE_BIT((uint32_t)i) & REA_STORE_STATES_OPEN)
			open += status.counts[i];
	return open < queue->rules->settings->limits.task_queue ||
	       refuse(queue, receipt, 503, "", "as many tasks are open as limits.task-queue allows");
}

/* The URL in its normal form, in place of what was written. */
static bool find_url(struct queue *queue, struct task_submit *submit, struct queue_receipt *receipt)
{
	struct rea_error_info wrong;
	struct vet_url parsed, *url = &parsed;
	const struct rule *rule;

	memset(&wrong, 0, sizeof(wrong));
	if (vet_url_parse(submit->request.path, url, &wrong) != 0)
		return refuse(queue, receipt, 422, "/url", wrong.message);
	rule = rules_match(queue->rules, url);
	if (rule == NULL) {
		vet_url_fini(url);
		return refuse(queue, receipt, 422, "/url", "no pattern of tasks.urls allows this URL");
	}
	if (url->is_address) {
		struct sockaddr_storage address;
		char text[LOOP_ADDRESS_MAX + 8];
		const char *why;

		snprintf(text, sizeof(text), memchr(url->host.data, ':', url->host.length) ? "[%.*s]:1" : "%.*s:1",
		    (int)url->host.length, url->host.data);
		why = loop_address_parse(text, &address) != 0
			  ? "no address"
			  : vet_address((const struct sockaddr *)&address, &rule->deliver.allowed);
		if (why != NULL) {
			vet_url_fini(url);
			task_problem_set(&receipt->problem, 422, "/url",
			    "the URL leads to %s, which its pattern does not allow", why);
			queue->stats.refused++;
			return false;
		}
	}
	submit->url = url->text;
	submit->request.path = rea_slice_of(url->text);
	submit->target = url->origin;
	return true;
}

static bool find_service(struct queue *queue, struct task_submit *submit, bool *ret_repeatable, struct queue_receipt *receipt)
{
	struct proxy_route route;

	if (!proxy_route_get(queue->options.worker, submit->target, submit->request.method, submit->request.path, &route))
		return refuse(queue, receipt, 422, "/service", "there is no such service");
	if (submit->key.length == 0 && route.operation != NULL && route.operation->generate_key) {
		snprintf(submit->made_key, sizeof(submit->made_key), "%016llx%016llx",
		    (unsigned long long)rea_random_next(&queue->random),
		    (unsigned long long)rea_random_next(&queue->random));
		submit->key = rea_slice_make(submit->made_key, 32);
	}
	*ret_repeatable = route.grant.permission == REA_PERMISSION_SAFE ||
			  route.grant.permission == REA_PERMISSION_IDEMPOTENT ||
			  (route.grant.permission == REA_PERMISSION_IDEMPOTENT_WITH_KEY && submit->key.length > 0);
	proxy_route_put(&route);
	return true;
}

/* Tried at once where slots are free and nothing holds it up; else it is taken like any other. */
static bool try_first(struct queue *queue, struct target *target, const struct task_submit *submit,
    queue_receipt_fn done, void *user_data)
{
	uint64_t wake_ns;

	if (queue->running >= queue->rules->settings->tasks.concurrency || target->waiting > 0 ||
	    !target_begin(target, queue_now(queue), &wake_ns))
		return false;
	if (run_begin_sync(queue, target, submit, queue->rules, done, user_data) != NULL)
		return true;
	target->running--;
	return false;
}

static bool same_key_flies(const struct queue *queue, struct rea_slice key)
{
	for (const struct run *run = queue->runs; run != NULL && key.length > 0; run = run->next)
		if (run->id == 0 && rea_slice_equal(run->key, key))
			return true;
	return false;
}

static void tell_refusal(struct submission *submission, const struct queue_receipt *receipt)
{
	submission->done(receipt, submission->user_data);
	free(submission);
}

/* The key is new, or a task with it is there. */
static void on_looked(const struct rea_store_result *result, void *user_data)
{
	struct submission *submission = user_data;
	struct queue *queue = submission->queue;
	struct queue_receipt refusal = {.existed = false};

	if (result->error != REA_ERR_NOT_FOUND) {
		on_submitted(result, user_data);
		return;
	}
	queue_operation(queue, -1);
	if (same_key_flies(queue, submission->submit->key)) {
		refuse(queue, &refusal, 409, "/key", "a task with this key is being tried now");
		tell_refusal(submission, &refusal);
	} else if (!queue->stopping &&
		   try_first(queue, submission->target, submission->submit, submission->done, submission->user_data)) {
		free(submission);
	} else if (store_submit(queue, submission->target, submission->submit, 0, submission->repeatable,
		       submission->done, submission->user_data, &refusal)) {
		free(submission);
	} else {
		tell_refusal(submission, &refusal);
	}
	queue_check_stopped(queue);
}

/* Without a key there is nothing to look for. */
static bool look_first(struct queue *queue, struct target *target, struct task_submit *submit, bool repeatable,
    queue_receipt_fn done, void *user_data)
{
	struct rea_store_submit look = {
	    .spec = {.target = {target->name, target->name_len}, .key = text_of(submit->key)}, .only_look = true};
	struct submission *submission = submit->key.length > 0 ? malloc(sizeof(*submission)) : NULL;

	if (submission == NULL)
		return false;
	*submission = (struct submission){queue, target, done, user_data, repeatable, submit};
	task_fingerprint(submit, look.spec.fingerprint);
	if (rea_store_submit(queue->store, &look, queue_now(queue), on_looked, submission) != 0) {
		free(submission);
		return false;
	}
	queue_operation(queue, 1);
	return true;
}

bool queue_submit(struct queue *queue, struct task_submit *submit, queue_receipt_fn done, void *user_data,
    struct queue_receipt *ret_refusal)
{
	struct target *target;
	uint64_t delay_ns = submit->delay_ns;
	bool repeatable = false;

	*ret_refusal = (struct queue_receipt){.existed = false};
	if (!is_open(queue, ret_refusal) || !(submit->request.is_url ? find_url(queue, submit, ret_refusal)
								     : find_service(queue, submit, &repeatable, ret_refusal)))
		return false;
	if (submit->not_before_unix_ns != INT64_MAX)
		delay_ns = submit->not_before_unix_ns > loop_wall_ns(queue->loop)
			       ? (uint64_t)(submit->not_before_unix_ns - loop_wall_ns(queue->loop))
			       : 0;
	submit->request.message_id = rea_random_next(&queue->random);
	target = queue_target_of(queue, submit->target);
	if (target == NULL)
		return refuse(queue, ret_refusal, 503, "", "out of memory");
	if (delay_ns > REA_STORE_DELAY_NS_MAX)
		return refuse(queue, ret_refusal, 422, "/not_before", "not_before is more than ten years from now");
	if (submit->sync_first && delay_ns == 0) {
		if (look_first(queue, target, submit, repeatable, done, user_data) ||
		    (submit->key.length == 0 && try_first(queue, target, submit, done, user_data)))
			return true;
	}
	return store_submit(queue, target, submit, delay_ns, repeatable, done, user_data, ret_refusal);
}

/* ---- changing ---- */

struct change {
	struct queue *queue;
	queue_task_fn done;
	void *user_data;
};

/* An event of a task that nobody runs. */
static void emit_task(struct queue *queue, const struct rea_store_task *task, enum rea_event_type type)
{
	char id[24];
	struct rea_event event = {.type = type, .outcome = REA_OUTCOME_CANCELLED, .verdict = REA_VERDICT_GIVE_UP};
	struct rea_store_task read;

	snprintf(id, sizeof(id), "%llu", (unsigned long long)task->id);
	event.call_id = event.biz_id = (struct rea_text){id, strlen(id)};
	if (rea_store_get(queue->reader, task->id, &read) == 0) {
		if (read.biz_id.length > 0)
			event.biz_id = read.biz_id;
		event.key = read.key;
		event.service = read.target;
	}
	event.time_ns = event.attempt_start_ns = queue_now(queue);
	event.attempt = event.attempts_max = task->attempt + 1;
	if (type == REA_EVENT_REPLAY) {
		event.verdict = REA_VERDICT_RETRY;
		event.outcome = REA_OUTCOME_OK;
	} else {
		event.reason = REA_REASON_CANCELLED;
	}
	queue_emit(queue, &event);
}

static struct run *find_flying(const struct queue *queue, uint64_t id)
{
	struct run *run = queue->runs;

	while (run != NULL && (run->id != id || run->state != RUN_FLYING))
		run = run->next;
	return run;
}

static void on_cancelled(const struct rea_store_result *result, void *user_data)
{
	struct change *change = user_data;
	struct queue *queue = change->queue;

	queue_operation(queue, -1);
	if (result->error == 0) {
		struct run *run = find_flying(queue, result->task.id);

		queue->stats.ended[REA_STORE_CANCELLED]++;
		if (run != NULL)
			run_cancelled(run);
		else
			emit_task(queue, &result->task, REA_EVENT_GIVE_UP);
	}
	change->done(result, change->user_data);
	free(change);
	queue_check_stopped(queue);
}

static void on_replayed(const struct rea_store_result *result, void *user_data)
{
	struct change *change = user_data;
	struct queue *queue = change->queue;

	queue_operation(queue, -1);
	if (result->error == 0) {
		emit_task(queue, &result->task, REA_EVENT_REPLAY);
		if (result->soon) {
			struct rea_store_task task;
			struct target *target =
			    rea_store_get(queue->reader, result->task.id, &task) == 0
				? queue_target_of(queue, rea_slice_make(task.target.text, task.target.length))
				: NULL;

			if (target != NULL)
				queue_add(queue, result->task.id, target, result->task.due_ns, false, NULL);
			else
				fprintf(stderr, "rea: task %llu waits for the next start\n",
				    (unsigned long long)result->task.id);
		}
	}
	change->done(result, change->user_data);
	free(change);
	queue_dispatch(queue);
	queue_check_stopped(queue);
}

static struct change *new_change(struct queue *queue, queue_task_fn done, void *user_data)
{
	struct change *change = malloc(sizeof(*change));

	if (change != NULL)
		*change = (struct change){queue, done, user_data};
	return change;
}

static int begin_change(struct queue *queue, struct change *change, int error)
{
	if (error == 0)
		queue_operation(queue, 1);
	else
		free(change);
	return error;
}

int queue_cancel(struct queue *queue, uint64_t id, queue_task_fn done, void *user_data)
{
	static const struct rea_text reason = {"cancelled", 9};
	struct change *change = new_change(queue, done, user_data);

	if (change == NULL)
		return REA_ERR_NOMEM;
	return begin_change(
	    queue, change, rea_store_cancel(queue->store, id, reason, queue_now(queue), on_cancelled, change));
}

int queue_replay(struct queue *queue, const struct rea_store_replay *replay, queue_task_fn done, void *user_data)
{
	struct change *change = new_change(queue, done, user_data);

	if (change == NULL)
		return REA_ERR_NOMEM;
	return begin_change(queue, change, rea_store_replay(queue->store, replay, queue_now(queue), on_replayed, change));
}

/* ---- targets, from outside ---- */

static const char *breaker_of(struct queue *queue, const struct target *target)
{
	enum rea_breaker_state state;

	if (target->is_url ||
	    !proxy_service_breaker(queue->options.worker, rea_slice_make(target->name, target->name_len), &state))
		return NULL;
	return rea_breaker_state_name(state);
}

static void describe(struct queue *queue, const struct target *target, struct queue_target *ret_target)
{
	uint64_t now_ns = queue_now(queue);
	bool paused = target->paused && now_ns < target->paused_until_ns, held = now_ns < target->held_until_ns;

	*ret_target = (struct queue_target){
	    .name = {target->name, target->name_len},
	    .paused = paused,
	    .paused_until_ns = paused ? target->paused_until_ns : 0,
	    .why = paused ? target->paused_why
		   : held ? target->held_why
			  : "",
	    .held_until_ns = held ? target->held_until_ns : 0,
	    .draining = target->draining,
	    .running = target->running,
	    .waiting = target->waiting,
	    .concurrency = target->concurrency,
	    .rate_per_s = target->rate_per_s,
	    .breaker = breaker_of(queue, target),
	};
}

void queue_targets_each(struct queue *queue, void (*each)(const struct queue_target *target, void *user_data), void *user_data)
{
	struct queue_target described;

	for (const struct target *target = queue->targets; target != NULL; target = target->next) {
		describe(queue, target, &described);
		each(&described, user_data);
	}
}

bool queue_target_get(struct queue *queue, struct rea_slice name, struct queue_target *ret_target)
{
	const struct target *target = find_target(queue, name);

	if (target != NULL)
		describe(queue, target, ret_target);
	return target != NULL;
}

/* A service that no task has gone to yet may be paused too. */
static struct target *target_to_change(struct queue *queue, struct rea_slice name)
{
	if (rea_config_find_service(queue->rules->config, name.data, name.length) != NULL)
		return queue_target_of(queue, name);
	return find_target(queue, name);
}

static int change_target(
    struct queue *queue, struct target *target, bool paused, bool draining, uint64_t until_ns, const char *why)
{
	const struct target before = *target;
	int error;

	target->paused = paused;
	target->draining = draining;
	target->paused_until_ns = until_ns;
	snprintf(target->paused_why, sizeof(target->paused_why), "%s", why);
	error = pauses_save(queue);
	if (error != 0) {
		target->paused = before.paused;
		target->draining = before.draining;
		target->paused_until_ns = before.paused_until_ns;
		memcpy(target->paused_why, before.paused_why, sizeof(before.paused_why));
		return error;
	}
	queue_look_at(queue, target);
	queue_dispatch(queue);
	return 0;
}

int queue_target_pause(struct queue *queue, struct rea_slice name, uint64_t for_ns, const char *why)
{
	struct target *target = target_to_change(queue, name);

	if (target == NULL)
		return REA_ERR_NOT_FOUND;
	return change_target(queue, target, true, target->draining, rea_time_add(queue_now(queue), for_ns), why);
}

int queue_target_resume(struct queue *queue, struct rea_slice name)
{
	struct target *target = target_to_change(queue, name);

	if (target == NULL)
		return REA_ERR_NOT_FOUND;
	target->held_until_ns = 0;
	return change_target(queue, target, false, false, 0, "");
}

int queue_target_drain(struct queue *queue, struct rea_slice name)
{
	struct target *target = target_to_change(queue, name);

	if (target == NULL)
		return REA_ERR_NOT_FOUND;
	return change_target(queue, target, target->paused, true, target->paused_until_ns, target->paused_why);
}

/* ---- life ---- */

int queue_new(const struct queue_options *options, struct queue **ret_queue, struct rea_error_info *ret_info)
{
	struct queue *queue = calloc(1, sizeof(*queue));
	int error;

	if (queue == NULL)
		return REA_ERR_NOMEM;
	queue->options = *options;
	queue->loop = options->loop;
	queue->drain.fn = on_drain;
	queue->targets_end = &queue->targets;
	queue->ready_end = &queue->ready;
	queue->free_entry = TARGET_NONE;
	queue->timer.fire = on_timer;
	queue->tick.fire = on_tick;
	rea_random_init(&queue->random, rea_random_next(&options->loop->random));
	error = rules_new(options->config, &queue->rules, ret_info);
	if (error == 0 && (queue->urls = deliver_urls_new(queue->loop, REPLY_HEAD_MAX)) == NULL)
		error = REA_ERR_NOMEM;
	if (error == 0)
		error = open_begin(queue, ret_info);
	if (error != 0) {
		queue_free(queue);
		return error;
	}
	*ret_queue = queue;
	return 0;
}

void queue_configure(struct queue *queue, struct rea_config *config)
{
	struct rules *rules;

	if (rules_new(config, &rules, NULL) != 0)
		return;
	rules_unref(queue->rules);
	queue->rules = rules;
	for (struct target *target = queue->targets; target != NULL; target = target->next) {
		configure_target(queue, target);
		queue_look_at(queue, target);
	}
	queue_dispatch(queue);
}

static void on_stopped(struct loop_post *post)
{
	struct queue *queue = REA_CONTAINER_OF(post, struct queue, stopped_post);

	queue->stopped(queue->stopped_arg);
}

void queue_check_stopped(struct queue *queue)
{
	if (!queue->stopping || queue->running > 0 || queue->operations > 0 || queue->stopped_post.fn != NULL)
		return;
	loop_timer_stop(queue->loop, &queue->stop_timer);
	queue->stopped_post.fn = on_stopped;
	loop_post(queue->loop, &queue->stopped_post);
}

static void on_stop_timeout(struct wheel_timer *timer, uint64_t now_ns)
{
	struct queue *queue = REA_CONTAINER_OF(timer, struct queue, stop_timer);

	(void)now_ns;
	queue->interrupting = true;
	for (struct run *run = queue->runs, *next; run != NULL; run = next) {
		next = run->next;
		run_interrupt(run);
	}
}

void queue_stop(struct queue *queue, uint64_t deadline_ns, void (*stopped)(void *arg), void *arg)
{
	assert(!queue->stopping);
	queue->stopping = true;
	queue->stopped = stopped;
	queue->stopped_arg = arg;
	queue->stop_timer.fire = on_stop_timeout;
	loop_timer_start(queue->loop, &queue->stop_timer, deadline_ns);
	loop_timer_stop(queue->loop, &queue->tick);
	queue_check_stopped(queue);
}

static void drop_kept(struct queue *queue)
{
	for (uint32_t i = 0; i < queue->entries_len; i++)
		queue->entries[i].next = TARGET_NONE;
	while (queue->heap.count > 0) {
		struct run *run = queue->entries[rea_heap_pop(&queue->heap)].run;

		if (run != NULL)
			run_drop(run);
	}
}

static void drop_lines(struct queue *queue)
{
	for (struct target *target = queue->targets; target != NULL; target = target->next)
		while (target->waiting > 0) {
			struct run *run = queue->entries[leave_line(queue, target)].run;

			if (run != NULL)
				run_drop(run);
		}
}

void queue_free(struct queue *queue)
{
	if (queue == NULL)
		return;
	assert(queue->running == 0);
	drop_lines(queue);
	drop_kept(queue);
	loop_timer_stop(queue->loop, &queue->timer);
	loop_timer_stop(queue->loop, &queue->tick);
	open_end(queue);
	for (struct target *target = queue->targets, *next; target != NULL; target = next) {
		next = target->next;
		loop_timer_stop(queue->loop, &target->timer);
		target_free(target);
	}
	rea_store_reader_free(queue->reader);
	if (queue->store != NULL)
		rea_store_close(queue->store);
	if (queue->urls != NULL)
		deliver_urls_free(queue->urls);
	free(queue->by_number);
	rea_map_fini(&queue->by_name);
	rea_heap_fini(&queue->heap, rea_alloc_default());
	free(queue->entries);
	free(queue->pauses_path);
	rules_unref(queue->rules);
	free(queue);
}

/* ---- metrics ---- */

static void write_number(
    struct rea_prometheus *out, const char *name, enum rea_metric_type type, const char *help, uint64_t value)
{
	rea_prometheus_family(out, name, type, help);
	rea_prometheus_sample(out, name, NULL, 0, (double)value);
}

static void write_by(struct rea_prometheus *out, const char *name, enum rea_metric_type type, const char *help,
    const char *label, const char *(*name_of)(int index), const uint64_t *values, int count)
{
	rea_prometheus_family(out, name, type, help);
	for (int i = 0; i < count; i++) {
		const char *const labels[] = {label, name_of(i)};

		rea_prometheus_sample(out, name, labels, 2, (double)values[i]);
	}
}

static const char *state_name(int index)
{
	return rea_store_state_name((enum rea_store_state)index);
}

static const char *outcome_name(int index)
{
	return rea_outcome_name((enum rea_outcome)index);
}

void queue_metrics(struct queue *queue, struct rea_prometheus *out)
{
	struct rea_store_status status = {.failing = true};

	if (queue->store != NULL)
		rea_store_status(queue->store, &status);
	write_by(out, "rea_tasks", REA_METRIC_GAUGE, "Tasks in the store, by state.", "state", state_name,
	    status.counts, REA_STORE_STATE_COUNT);
	write_by(out, "rea_task_attempts_total", REA_METRIC_COUNTER, "Attempts of tasks that have ended.", "outcome",
	    outcome_name, queue->stats.attempts, REA_OUTCOME_COUNT);
	write_number(out, "rea_task_retries_total", REA_METRIC_COUNTER, "Attempts of tasks after the first.",
	    queue->stats.retries);
	write_number(out, "rea_task_accepted_total", REA_METRIC_COUNTER, "Tasks that were taken and are on disk.",
	    queue->stats.accepted);
	write_number(out, "rea_task_existed_total", REA_METRIC_COUNTER, "Submits that found their task there already.",
	    queue->stats.existed);
	write_number(out, "rea_task_refused_total", REA_METRIC_COUNTER, "Submits that were refused.", queue->stats.refused);
	write_number(out, "rea_task_first_try_successes_total", REA_METRIC_COUNTER,
	    "Tasks whose first attempt succeeded.", queue->stats.first_try_successes);
	write_number(
	    out, "rea_task_events_total", REA_METRIC_COUNTER, "Events that tasks have recorded.", queue->stats.events);
	write_number(out, "rea_task_held_total", REA_METRIC_COUNTER,
	    "Attempts put off because their target could not be asked: no instance, breaker, budget.", queue->stats.held);
	write_number(out, "rea_tasks_running", REA_METRIC_GAUGE, "Attempts of tasks under way.", queue->running);
	write_number(out, "rea_tasks_soon", REA_METRIC_GAUGE, "Tasks that are due or nearly so, in memory.",
	    queue->entries_used);
	write_number(out, "rea_store_operations_total", REA_METRIC_COUNTER, "Operations of the store that ended.",
	    status.operations);
	write_number(out, "rea_store_commits_total", REA_METRIC_COUNTER, "Commits of the store.", status.commits);
	write_number(out, "rea_store_syncs_total", REA_METRIC_COUNTER, "Commits that waited for the disk.", status.syncs);
	write_number(out, "rea_store_failures_total", REA_METRIC_COUNTER, "Commits that failed.", status.failures);
	write_number(out, "rea_store_damaged_total", REA_METRIC_COUNTER, "Rows that could not be read.", status.damaged);
	write_number(out, "rea_store_failing", REA_METRIC_GAUGE, "1 while the store cannot be opened or written to.",
	    status.failing);
}
