/*
 * One attempt of a task: claimed in the store, asked of the engine, delivered, judged, and written down. What the engine decides is told as an event when
 * it is on disk, or when nothing of it has to be.
 *
 * A decision that only says "not now" (no instance, an open breaker, an exhausted budget, no slot) ends no task: it waits, and its target with it.
 */
#include "queue/internal.h"

#include "base/container.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* Nobody else can take a task from this store while the process lives; what ends a lease is the next start. */
#define LEASE_NS (UINT64_C(24) * 3600 * REA_NS_PER_S)
/* A task that takes the process with it is given up after so many times. */
#define CRASHES_MAX 3
/* Until what could not be had is asked for again: from this to twice this. */
#define HOLD_NS REA_NS_PER_S
#define STORE_RETRY_NS (200 * REA_NS_PER_MS)

static void settle(struct run *run);
static void on_tick(struct wheel_timer *timer, uint64_t now_ns);

/* ---- memory ---- */

static struct run *run_new(struct queue *queue, struct target *target)
{
	struct run *run = calloc(1, sizeof(*run));

	if (run == NULL)
		return NULL;
	run->queue = queue;
	run->target = target;
	run->deadline_ns = REA_NEVER;
	run->timer.fire = on_tick;
	return run;
}

static void link_run(struct run *run)
{
	struct queue *queue = run->queue;

	run->prev = NULL;
	run->next = queue->runs;
	if (run->next != NULL)
		run->next->prev = run;
	queue->runs = run;
}

static void unlink_run(struct run *run)
{
	if (run->prev != NULL)
		run->prev->next = run->next;
	else
		run->queue->runs = run->next;
	if (run->next != NULL)
		run->next->prev = run->prev;
}

void run_free(struct run *run)
{
	struct rea_decision decision;

	loop_timer_stop(run->queue->loop, &run->timer);
	if (run->delivery != NULL)
		delivery_cancel(run->delivery);
	/* What it holds of budget and breaker goes back. */
	if (run->has_call && !rea_call_done(&run->call))
		rea_call_cancel(&run->call, queue_now(run->queue), &decision);
	if (run->has_route)
		proxy_route_put(&run->route);
	if (run->url.text != NULL)
		vet_url_fini(&run->url);
	rules_unref(run->rules);
	rea_buffer_fini(&run->text);
	rea_buffer_fini(&run->reply);
	free(run);
}

void run_drop(struct run *run)
{
	run->queue->kept--;
	run_free(run);
}

/* Slots back; what waits for them may begin. */
static void release_slots(struct run *run)
{
	struct queue *queue = run->queue;

	unlink_run(run);
	target_end(run->target);
	queue->running--;
	queue_look_at(queue, run->target);
}

static void leave(struct run *run)
{
	struct queue *queue = run->queue;

	release_slots(run);
	run_free(run);
	queue_dispatch(queue);
	queue_check_stopped(queue);
}

/* ---- what it is about ---- */

/* One piece of memory for all texts, so that slices into it stay. */
static bool keep_texts(struct run *run, struct rea_slice payload, struct rea_slice key, struct rea_slice biz_id)
{
	struct rea_buffer *text = &run->text;

	rea_buffer_clear(text);
	if (rea_buffer_reserve(text, payload.length + key.length + biz_id.length + 1) != 0)
		return false;
	rea_buffer_append_slice(text, payload);
	rea_buffer_append_slice(text, key);
	rea_buffer_append_slice(text, biz_id);
	run->key = rea_slice_make(text->data + payload.length, key.length);
	run->biz_id = rea_slice_make(text->data + payload.length + key.length, biz_id.length);
	return true;
}

/* Who permits what, and which policy holds. False: there is no such service now. */
static bool find_terms(struct run *run)
{
	const struct rea_config_settings *settings = run->rules->settings;
	const struct rea_policy *calls = NULL;
	struct rea_slice name = {run->target->name, run->target->name_len};

	if (run->request.is_url) {
		run->grant = (struct rea_grant){REA_PERMISSION_NONE, REA_PERMISSION_SOURCE_NONE};
		run->rule = NULL;
		if (vet_url_parse(run->request.path, &run->url, NULL) == 0)
			run->rule = rules_match(run->rules, &run->url);
		else
			run->url.text = NULL;
		if (run->rule != NULL && run->rule->config->permission != REA_PERMISSION_NONE)
			run->grant = (struct rea_grant){run->rule->config->permission, REA_PERMISSION_SOURCE_CONFIG};
		run->single = true;
	} else {
		if (!proxy_route_get(run->queue->options.worker, name, run->request.method, run->request.path, &run->route))
			return false;
		run->has_route = true;
		calls = run->route.policy;
		run->grant = run->route.grant;
		/* Where there is no choice, the only instance is asked again. */
		run->single = run->route.instances->count == 1;
		if (run->single)
			run->grant = rea_grant_combine(run->grant, run->route.instances->items[0].grant);
	}
	task_policy(&settings->tasks.policy, &run->request.policy, settings->tasks.retries_off, calls, &run->policy);
	return true;
}

static void fill_options(const struct run *run, struct rea_call_options *options)
{
	rea_call_options_init(options);
	options->policy = &run->policy;
	options->grant = run->grant;
	options->has_key = run->key.length > 0;
	options->deadline_ns = run->deadline_ns;
	options->single_target = run->single;
	if (!run->has_route)
		return;
	options->useful_ns = run->route.useful_ns;
	options->budget = run->route.budget;
	options->budget_shard = run->route.budget_shard;
	options->breaker = run->route.breaker;
	options->limit = run->route.limit;
}

static const struct rea_instances *instances_of(const struct run *run)
{
	static const struct rea_instances none = {.items = NULL};

	return run->has_route ? run->route.instances : &none;
}

/* ---- events ---- */

static enum rea_event_type event_type(const struct rea_decision *decision)
{
	if (decision->would_retry)
		return REA_EVENT_WOULD_RETRY;
	switch (decision->verdict) {
	case REA_VERDICT_RETRY:
		return REA_EVENT_RETRY;
	case REA_VERDICT_SUCCESS:
		return REA_EVENT_SUCCESS;
	case REA_VERDICT_GIVE_UP:
		break;
	}
	return REA_EVENT_GIVE_UP;
}

static struct rea_text text_of(struct rea_slice slice)
{
	return (struct rea_text){slice.data, slice.length};
}

static struct rea_text text_of_name(const char *name)
{
	return text_of(rea_slice_of(name));
}

/* "POST /orders": without query. */
static struct rea_text request_line(const struct run *run, char *buffer, size_t size)
{
	struct rea_slice path = run->request.path;
	const char *query = memchr(path.data, '?', path.length);
	int length = snprintf(buffer, size, "%.*s %.*s", (int)run->request.method.length, run->request.method.data,
	    (int)(query != NULL ? (size_t)(query - path.data) : path.length), path.data);

	return (struct rea_text){buffer, (size_t)length < size ? (size_t)length : size - 1};
}

static void emit(struct run *run)
{
	const struct rea_decision *decision = &run->decision;
	const struct rea_report *report = &run->report;
	char id[24], line[REA_EVENT_TEXT_MAX], evidence[REA_EVIDENCE_TEXT_MAX];
	struct rea_event event;

	if (decision->verdict == REA_VERDICT_SUCCESS && run->number == 1) {
		run->queue->stats.first_try_successes++;
		return;
	}
	snprintf(id, sizeof(id), "%llu", (unsigned long long)run->id);
	event = (struct rea_event){
	    .type = event_type(decision),
	    .attempt_start_ns = run->start_ns,
	    .time_ns = run->end_ns,
	    .call_id = text_of_name(id),
	    .biz_id = run->biz_id.length > 0 ? text_of(run->biz_id) : text_of_name(id),
	    .key = text_of(run->key),
	    .service = {run->target->name, run->target->name_len},
	    .method = text_of_name(run->has_route && run->route.operation != NULL ? run->route.operation->key : ""),
	    .instance = text_of_name(run->instance),
	    .detail = request_line(run, line, sizeof(line)),
	    .attempt = run->number,
	    .attempts_max = run->attempts_before + decision->attempts_max,
	    .outcome = report->outcome,
	    .code_kind = report->code_kind,
	    .code = report->code,
	    .cost_ns = run->end_ns - run->start_ns,
	    .retryable = decision->retryable,
	    .next_delay_ns = decision->verdict == REA_VERDICT_RETRY ? run->delay_ns : decision->wait_ns,
	    .verdict = decision->verdict,
	    .reason = decision->reason,
	    .grant = decision->grant,
	    .evidence = {evidence, rea_evidence_format(&decision->evidence, evidence, sizeof(evidence))},
	};
	queue_emit(run->queue, &event);
}

/* ---- settling ---- */

static void to_attempt(const struct run *run, struct rea_store_attempt *attempt)
{
	*attempt = (struct rea_store_attempt){
	    .number = run->number,
	    .outcome = run->report.outcome,
	    .code_kind = run->report.code_kind,
	    .code = run->report.code,
	    .start_ns = run->start_ns,
	    .cost_ns = run->end_ns - run->start_ns,
	    .instance = text_of_name(run->instance),
	    .reason = text_of_name(run->reason),
	    .detail = text_of_name(run->detail),
	};
}

static enum rea_store_state end_state(const struct run *run)
{
	if (run->decision.verdict == REA_VERDICT_SUCCESS)
		return REA_STORE_SUCCESS;
	return run->decision.reason == REA_REASON_CANCELLED ? REA_STORE_CANCELLED : REA_STORE_GIVEN_UP;
}

/* The run stays for the attempt that comes soon: the engine goes on where it is, with all that it holds. */
static bool keep(struct run *run, uint64_t due_ns)
{
	struct queue *queue = run->queue;
	bool waits = run->has_call && !rea_call_done(&run->call);

	if (!waits || run->delivery != NULL || queue->stopping || queue->kept == RUNS_KEPT_MAX)
		return false;
	release_slots(run);
	run->state = RUN_IDLE;
	queue->kept++;
	queue_add(queue, run->id, run->target, due_ns, run->repeatable, run);
	return true;
}

static void tell_receipt(struct run *run, const struct rea_store_task *task, const struct task_problem *problem, bool existed)
{
	struct queue_receipt receipt = {
	    .existed = existed,
	    .task = task,
	    .tried = true,
	    .code = run->report.code_kind == REA_CODE_HTTP ? run->report.code : 0,
	    .content_type = rea_slice_make(rea_buffer_data(&run->reply), run->content_type_len),
	    .reply_cut = run->reply_cut,
	};

	if (rea_buffer_length(&run->reply) > run->content_type_len)
		receipt.reply = rea_slice_make(
		    run->reply.data + run->content_type_len, rea_buffer_length(&run->reply) - run->content_type_len);
	if (problem != NULL) {
		receipt.problem = *problem;
		receipt.retry_after_s = problem->status == 503;
	}
	if (run->receipt != NULL)
		run->receipt(&receipt, run->receipt_data);
	run->receipt = NULL;
}

/* A stop does not wait for a disk that takes nothing: what came of the attempt is lost, and the next start finds it interrupted. */
static void try_later(struct run *run)
{
	if (run->queue->interrupting) {
		struct task_problem problem;

		fprintf(stderr, "rea: the store takes nothing: what came of task %llu is lost\n",
		    (unsigned long long)run->id);
		task_problem_set(&problem, 503, "", "rea is shutting down, and the store takes nothing");
		tell_receipt(run, NULL, &problem, false);
		leave(run);
		return;
	}
	loop_timer_start(run->queue->loop, &run->timer, rea_time_add(queue_now(run->queue), STORE_RETRY_NS));
}

static void on_settled(const struct rea_store_result *result, void *user_data)
{
	struct run *run = user_data;
	struct queue *queue = run->queue;

	queue_operation(queue, -1);
	if (result->error == REA_ERR_IO || result->error == REA_ERR_NOMEM) {
		try_later(run); /* the outcome is kept here until the store takes it */
		return;
	}
	if (result->error != 0) {
		/* Cancelled, or somebody else's by now: what came of it counts no more. */
		queue->stats.claims_lost++;
		tell_receipt(run, &result->task, NULL, false);
		leave(run);
		return;
	}
	if (run->told)
		emit(run);
	if (run->settle == SETTLE_FINISH)
		queue->stats.ended[result->task.state]++;
	tell_receipt(run, &result->task, NULL, false);
	if (run->settle == SETTLE_RESCHEDULE && result->soon) {
		uint64_t due_ns = run->wait_in_memory ? run->decision.wait_until_ns : result->task.due_ns;

		run->wait_in_memory = false;
		if (keep(run, due_ns)) {
			queue_dispatch(queue);
			queue_check_stopped(queue);
			return;
		}
		queue_add(queue, run->id, run->target, due_ns, run->repeatable, NULL);
	}
	leave(run);
}

static void on_stored(const struct rea_store_result *result, void *user_data);

static int submit_tried(struct run *run)
{
	struct rea_store_attempt attempt;
	struct rea_store_submit submit = {
	    .spec = {.target = {run->target->name, run->target->name_len},
		.biz_id = text_of(run->biz_id),
		.key = text_of(run->key),
		.payload = {run->text.data, rea_buffer_length(&run->text) - run->key.length - run->biz_id.length}},
	    .delay_ns = run->delay_ns,
	    .attempts = &attempt,
	    .attempts_len = 1,
	};

	to_attempt(run, &attempt);
	memcpy(submit.spec.fingerprint, run->fingerprint, sizeof(run->fingerprint));
	return rea_store_submit(run->queue->store, &submit, queue_now(run->queue), on_stored, run);
}

/* sync-first, and the first attempt failed: it is a task from now on. */
static void on_stored(const struct rea_store_result *result, void *user_data)
{
	struct run *run = user_data;
	struct task_problem problem;

	queue_operation(run->queue, -1);
	if (result->error == REA_ERR_CONFLICT) {
		task_problem_set(&problem, 422, "/key", "this key is that of another task, %llu",
		    (unsigned long long)result->task.id);
		tell_receipt(run, NULL, &problem, false);
		leave(run);
	} else if (result->error != 0) {
		task_problem_set(&problem, 503, "", "the store cannot take it now: %s", rea_error_text(result->error));
		tell_receipt(run, NULL, &problem, false);
		leave(run);
	} else if (result->existed) {
		tell_receipt(run, &result->task, NULL, true);
		leave(run);
	} else {
		run->id = result->task.id;
		run->generation = result->task.generation;
		if (run->decision.verdict == REA_VERDICT_RETRY) {
			run->settle = SETTLE_RESCHEDULE;
			run->claim = 0;
			emit(run);
			tell_receipt(run, &result->task, NULL, false);
			if (!result->soon || !keep(run, result->task.due_ns)) {
				if (result->soon)
					queue_add(run->queue, run->id, run->target, result->task.due_ns,
					    run->repeatable, NULL);
				leave(run);
				return;
			}
			queue_dispatch(run->queue);
			queue_check_stopped(run->queue);
			return;
		}
		run->settle = SETTLE_FINISH;
		run->attempted = false; /* it is recorded already */
		run->told = true;
		settle(run);
	}
}

static int write_end(struct run *run)
{
	struct rea_store_attempt attempt;
	struct rea_store_finish finish = {
	    .id = run->id,
	    .claim = run->claim,
	    .state = end_state(run),
	    .reason = text_of_name(run->reason),
	    .attempted = run->attempted,
	    .attempt = run->attempted ? &attempt : NULL,
	};
	struct rea_store_reschedule reschedule = {
	    .id = run->id,
	    .claim = run->claim,
	    .delay_ns = run->wait_in_memory ? 0 : rea_time_min(run->delay_ns, REA_STORE_DELAY_NS_MAX),
	    .attempted = run->attempted,
	    .attempt = finish.attempt,
	};
	uint64_t now_ns = queue_now(run->queue);

	to_attempt(run, &attempt);
	switch (run->settle) {
	case SETTLE_FINISH:
		return rea_store_finish(run->queue->store, &finish, now_ns, on_settled, run);
	case SETTLE_RESCHEDULE:
		return rea_store_reschedule(run->queue->store, &reschedule, now_ns, on_settled, run);
	case SETTLE_SUBMIT:
		return submit_tried(run);
	case SETTLE_REPLY:
		break;
	}
	return 0;
}

static void settle(struct run *run)
{
	int error;

	run->state = RUN_SETTLING;
	if (run->settle == SETTLE_REPLY) {
		emit(run);
		tell_receipt(run, NULL, NULL, false);
		leave(run);
		return;
	}
	error = write_end(run);
	if (error == 0)
		queue_operation(run->queue, 1);
	else
		try_later(run);
}

static void on_tick(struct wheel_timer *timer, uint64_t now_ns)
{
	struct run *run = REA_CONTAINER_OF(timer, struct run, timer);

	(void)now_ns;
	settle(run);
}

/* ---- what is decided ---- */

static bool is_temporary(enum rea_reason reason)
{
	return reason == REA_REASON_NO_UNTRIED_INSTANCE || reason == REA_REASON_BREAKER_OPEN ||
	       reason == REA_REASON_BUDGET_EXHAUSTED || reason == REA_REASON_OVERLOADED;
}

static uint64_t hold_ns(struct queue *queue)
{
	return HOLD_NS + rea_random_below(&queue->random, HOLD_NS);
}

static void wait_until(struct run *run, uint64_t until_ns)
{
	run->settle = SETTLE_RESCHEDULE;
	run->delay_ns = rea_time_sub(until_ns, queue_now(run->queue));
	run->reason = "";
	run->queue->stats.held++;
}

/* The task waits, and the next at this target with it: one look per hold, however many there are. */
static void hold(struct run *run, const char *why)
{
	uint64_t until_ns = rea_time_add(queue_now(run->queue), hold_ns(run->queue));

	wait_until(run, until_ns);
	target_hold(run->target, until_ns, why);
}

/* What speaks against this retry speaks against the target too, or there are only too many retries: then first attempts go on. */
static bool is_of_target(const struct rea_decision *decision)
{
	enum rea_evidence_kind says = decision->evidence.kind;

	if (decision->reason == REA_REASON_BUDGET_EXHAUSTED)
		return says != REA_EVIDENCE_NONE && says != REA_EVIDENCE_TOKENS && says != REA_EVIDENCE_RETRIES;
	return decision->reason != REA_REASON_OVERLOADED;
}

/* "not now" */
static void hold_decided(struct run *run)
{
	const struct rea_decision *decision = &run->decision;
	char why[TARGET_WHY_MAX], evidence[REA_EVIDENCE_TEXT_MAX];

	if (!is_of_target(decision)) {
		wait_until(run, target_ask(run->target, rea_time_add(queue_now(run->queue), hold_ns(run->queue))));
		return;
	}
	rea_evidence_format(&decision->evidence, evidence, sizeof(evidence));
	snprintf(why, sizeof(why), "%s%s%.90s", rea_reason_name(decision->reason), evidence[0] != '\0' ? ": " : "", evidence);
	hold(run, why);
}

/* Nothing was sent: the number goes back. */
static void hold_unbegun(struct run *run, const char *why)
{
	run->attempted = false;
	run->told = false;
	hold(run, why);
	settle(run);
}

static void give_up_unbegun(struct run *run, const char *reason)
{
	run->settle = SETTLE_FINISH;
	run->attempted = false;
	run->told = true;
	run->reason = reason;
	run->end_ns = run->start_ns = queue_now(run->queue);
	run->report = (struct rea_report){.outcome = REA_OUTCOME_NEVER_SENT};
	settle(run);
}

/* Retry-After is a word to all who would come (CE2). */
static void heed_server(struct run *run)
{
	const struct rea_report *report = &run->report;

	if ((report->flags & REA_REPORT_AFTER) && report->after_ns > 0 &&
	    (report->outcome == REA_OUTCOME_THROTTLED || report->outcome == REA_OUTCOME_UNAVAILABLE))
		target_hold(run->target, rea_time_add(run->end_ns, rea_time_min(report->after_ns, REA_STORE_DELAY_NS_MAX)),
		    "the target asked to wait (Retry-After)");
}

static void decided(struct run *run)
{
	struct rea_decision *decision = &run->decision;

	run->told = true;
	run->reason = rea_reason_name(decision->reason);
	if (decision->step == REA_STEP_DONE && decision->verdict == REA_VERDICT_GIVE_UP && is_temporary(decision->reason)) {
		decision->verdict = REA_VERDICT_RETRY;
		hold_decided(run);
	} else if (decision->step == REA_STEP_DONE) {
		run->settle = SETTLE_FINISH;
	} else {
		run->settle = SETTLE_RESCHEDULE;
		run->delay_ns = rea_time_sub(decision->wait_until_ns, queue_now(run->queue));
	}
	if (run->id == 0)
		run->settle = decision->verdict == REA_VERDICT_SUCCESS ? SETTLE_REPLY : SETTLE_SUBMIT;
	settle(run);
}

static void take_report(struct run *run, const struct rea_report *report)
{
	struct queue *queue = run->queue;

	run->report = *report;
	run->end_ns = queue_now(queue);
	if (run->report.latency_ns == 0)
		run->report.latency_ns = run->end_ns - run->start_ns;
	run->attempted = true;
	queue->stats.attempts[report->outcome]++;
	heed_server(run);
	rea_call_report(&run->call, &run->report, instances_of(run), &queue->random, run->end_ns, &run->decision);
	decided(run);
}

static void on_delivered(const struct delivery_result *result, void *user_data)
{
	struct run *run = user_data;

	run->delivery = NULL;
	snprintf(run->instance, sizeof(run->instance), "%.*s", (int)result->instance.length, result->instance.data);
	snprintf(run->detail, sizeof(run->detail), "%s", result->detail);
	if (run->receipt != NULL) {
		run->reply_cut = result->reply_cut;
		run->content_type_len = result->content_type.length;
		if (rea_buffer_append_slice(&run->reply, result->content_type) != 0 ||
		    rea_buffer_append_slice(&run->reply, result->reply) != 0) {
			rea_buffer_clear(&run->reply);
			run->content_type_len = 0;
			run->reply_cut = true;
		}
	}
	take_report(run, &result->report);
}

/* ---- an attempt ---- */

static void fly(struct run *run)
{
	struct queue *queue = run->queue;
	const struct rea_config_settings *settings = run->rules->settings;

	run->state = RUN_FLYING;
	run->start_ns = queue_now(queue);
	run->instance[0] = run->detail[0] = '\0';
	queue->stats.retries += run->number > 1;
	run->delivery_request = (struct delivery_request){
	    .method = run->request.method,
	    .target = run->request.path,
	    .fields = run->request.fields,
	    .fields_len = run->request.fields_len,
	    .body = run->request.body,
	    .key = run->key,
	    .biz_id = run->biz_id,
	    .attempt = run->number,
	    .attempts_max = run->attempts_before + run->decision.attempts_max,
	    .start_ns = run->start_ns,
	    .deadline_ns = run->decision.attempt_deadline_ns,
	    .reply_max = settings->tasks.reply_bytes,
	    .policy = &run->policy,
	};
	if (run->request.is_url) {
		snprintf(run->webhook_id, sizeof(run->webhook_id), "msg_%016llx", (unsigned long long)run->request.message_id);
		run->delivery = deliver_to_url(queue->urls, &run->rule->deliver, &run->url,
		    rea_slice_of(run->webhook_id), &run->delivery_request, on_delivered, run);
	} else {
		run->delivery = deliver_to_service(
		    &run->route, run->single ? 0 : run->decision.instance, &run->delivery_request, on_delivered, run);
	}
	if (run->delivery == NULL) {
		/* Out of memory: nothing was sent. */
		const struct rea_report report = {.outcome = REA_OUTCOME_NEVER_SENT};

		snprintf(run->detail, sizeof(run->detail), "out of memory");
		take_report(run, &report);
	}
}

static void attempt(struct run *run)
{
	struct queue *queue = run->queue;

	rea_call_attempt(&run->call, instances_of(run), &queue->random, queue_now(queue), &run->decision);
	run->start_ns = run->end_ns = queue_now(queue);
	run->report = (struct rea_report){.outcome = REA_OUTCOME_NEVER_SENT};
	switch (run->decision.step) {
	case REA_STEP_ATTEMPT:
		fly(run);
		break;
	case REA_STEP_WAIT:
		run->attempted = run->told = false;
		run->settle = SETTLE_RESCHEDULE;
		run->delay_ns = run->decision.wait_ns;
		settle(run);
		break;
	case REA_STEP_DONE:
		if (is_temporary(run->decision.reason)) {
			run->attempted = run->told = false;
			hold_decided(run);
			settle(run);
		} else {
			give_up_unbegun(run, rea_reason_name(run->decision.reason));
		}
		break;
	}
}

/* ---- what was before ---- */

/* The log of this generation: the latest attempts, and when the first began. */
struct history {
	struct rea_instance_id tried[REA_ATTEMPTS_MAX];
	size_t places; /* used of it */
	enum rea_outcome outcome;
	struct rea_report report;
	int64_t first_unix_ns;
	bool found;
};

static void note_attempt(struct history *history, const struct rea_store_attempt *attempt)
{
	struct rea_instance_id id;

	history->outcome = attempt->outcome;
	history->report =
	    (struct rea_report){.outcome = attempt->outcome, .code_kind = attempt->code_kind, .code = attempt->code};
	history->found = true;
	if (!rea_instance_id_parse(attempt->instance.text, attempt->instance.length, &id))
		return;
	if (history->places == REA_ATTEMPTS_MAX)
		memmove(history->tried, history->tried + 1, --history->places * sizeof(history->tried[0]));
	history->tried[history->places++] = id;
}

static int read_history(struct run *run, uint32_t made, struct history *history)
{
	const struct rea_store_attempt *attempts;
	size_t len;
	uint32_t after = run->attempts_before + (made > REA_ATTEMPTS_MAX ? made - REA_ATTEMPTS_MAX : 0);
	int error = rea_store_attempts(queue_reader(run->queue), run->id, run->attempts_before, 1, &attempts, &len);

	*history = (struct history){.outcome = REA_OUTCOME_AMBIGUOUS};
	if (error == 0 && len > 0)
		history->first_unix_ns = attempts[0].start_unix_ns;
	if (error == 0)
		error = rea_store_attempts(queue_reader(run->queue), run->id, after, REA_ATTEMPTS_MAX, &attempts, &len);
	for (size_t i = 0; error == 0 && i < len && attempts[i].number < run->number; i++)
		note_attempt(history, &attempts[i]);
	return error;
}

/* In the time of rows, which no step of the wall clock touches. */
static uint64_t elapsed_ns(int64_t from_ns, int64_t to_ns)
{
	return to_ns > from_ns ? (uint64_t)(to_ns - from_ns) : 0;
}

static uint64_t left_until(struct run *run, uint64_t span_ns, uint64_t elapsed)
{
	return rea_time_add(queue_now(run->queue), rea_time_sub(span_ns, elapsed));
}

/* The engine as it stood after `made` attempts. flying: the last one never ended. */
static void resume(struct run *run, const struct history *history, uint32_t made, bool flying)
{
	struct rea_call_options options;
	struct rea_call_past past = {
	    .attempts = made,
	    .outcome = history->outcome,
	    .flying = flying,
	    .wait_until_ns = 0,
	    .tried = run->single ? NULL : history->tried,
	    .tried_len = run->single ? 0 : rea_time_min(history->places, made),
	};

	fill_options(run, &options);
	rea_call_resume(&run->call, &options, &past, queue_now(run->queue));
	run->has_call = true;
}

/* Nobody knows how the last attempt ended: that is ambiguous, and what follows is decided before anything is tried again. The wait that it may lead to is
 * kept in memory alone: what the store would know of it is that the task waits, and at the next start it would be decided twice. */
static void decide_interrupted(struct run *run, const struct history *history, uint32_t made)
{
	struct queue *queue = run->queue;

	resume(run, history, made, true);
	run->number--;
	run->start_ns = run->end_ns = queue_now(queue);
	run->report = (struct rea_report){.outcome = REA_OUTCOME_AMBIGUOUS};
	snprintf(run->detail, sizeof(run->detail), "interrupted");
	rea_call_report(&run->call, &run->report, instances_of(run), &queue->random, run->end_ns, &run->decision);
	run->attempted = false;
	run->wait_in_memory = run->decision.step == REA_STEP_WAIT;
	decided(run);
}

/* The end of all attempts: of this generation, and of the task's age. A replay is a new start. */
static void find_deadline(struct run *run, const struct rea_store_task *task, const struct history *history, uint32_t made)
{
	run->deadline_ns = REA_NEVER;
	if (made > 0 && history->first_unix_ns != 0)
		run->deadline_ns =
		    left_until(run, run->policy.deadline_ns, elapsed_ns(history->first_unix_ns, task->updated_unix_ns));
	if (run->request.max_age_ns > 0 && task->generation == 1)
		run->deadline_ns = rea_time_min(run->deadline_ns,
		    left_until(run, run->request.max_age_ns, elapsed_ns(task->submitted_unix_ns, task->updated_unix_ns)));
}

static void begin(struct run *run, const struct rea_store_task *task)
{
	uint32_t made = task->attempt - 1 - task->attempts_before;
	struct history history = {.outcome = REA_OUTCOME_AMBIGUOUS};
	struct rea_call_options options;

	run->decision =
	    (struct rea_decision){.verdict = REA_VERDICT_GIVE_UP, .attempts_max = rea_policy_attempts(&run->policy)};
	if (task->crashes >= CRASHES_MAX) {
		run->decision.reason = REA_REASON_CRASH_LOOP;
		give_up_unbegun(run, "crash_loop");
		return;
	}
	if (run->request.is_url && run->rule == NULL) {
		run->decision.reason = REA_REASON_BLOCKED;
		give_up_unbegun(run, "blocked");
		return;
	}
	if (made > 0 && read_history(run, made, &history) != 0) {
		hold_unbegun(run, "the store cannot be read");
		return;
	}
	find_deadline(run, task, &history, made);
	if (made > 0 && task->crashes > 0) {
		decide_interrupted(run, &history, made);
		return;
	}
	if (made > 0) {
		resume(run, &history, made, false);
	} else {
		fill_options(run, &options);
		rea_call_begin(&run->call, &options, queue_now(run->queue));
		run->has_call = true;
	}
	attempt(run);
}

/* ---- claiming ---- */

static bool load(struct run *run, const struct rea_store_task *task)
{
	struct rea_slice payload = {task->payload.text, task->payload.length}, key = {task->key.text, task->key.length},
			 biz_id = {task->biz_id.text, task->biz_id.length};

	return keep_texts(run, payload, key, biz_id);
}

/* It is not ours to run: cancelled, over, or its time was moved. */
static void lose(struct run *run, const struct rea_store_result *result)
{
	struct queue *queue = run->queue;
	const struct rea_store_task *task = &result->task;
	bool waits =
	    result->error == REA_ERR_CONFLICT && (task->state == REA_STORE_PENDING || task->state == REA_STORE_RETRYING);

	queue->stats.claims_lost++;
	/* Rows keep time in another clock: a time that has come here may come there a moment later. */
	if (waits && task->due_ns < rea_time_add(queue_now(queue), REA_NS_PER_S))
		queue_add(queue, run->id, run->target, rea_time_max(task->due_ns, queue_now(queue) + REA_NS_PER_MS),
		    run->repeatable, NULL);
	leave(run);
}

/* The store cannot be written to: the task is still soon, and stands in line again. */
static void claim_later(struct run *run)
{
	struct queue *queue = run->queue;
	uint64_t due_ns = rea_time_add(queue_now(queue), STORE_RETRY_NS);

	if (run->has_call && keep(run, due_ns)) {
		queue_check_stopped(queue);
		return;
	}
	queue_add(queue, run->id, run->target, due_ns, run->repeatable, NULL);
	leave(run);
}

static void on_claimed(const struct rea_store_result *result, void *user_data)
{
	struct run *run = user_data;
	struct queue *queue = run->queue;
	const struct rea_store_task *task = &result->task;

	queue_operation(queue, -1);
	if (result->error == REA_ERR_IO || result->error == REA_ERR_NOMEM) {
		claim_later(run);
		return;
	}
	if (result->error != 0) {
		lose(run, result);
		return;
	}
	run->claim = task->claim;
	run->number = task->attempt;
	run->attempts_before = task->attempts_before;
	if (run->has_call && run->generation != task->generation) {
		/* Replayed since: the engine begins anew, from the store. */
		struct rea_decision decision;

		rea_call_cancel(&run->call, queue_now(queue), &decision);
		run->has_call = false;
	}
	run->generation = task->generation;
	if (queue->stopping) {
		run->attempted = run->told = false;
		run->settle = SETTLE_RESCHEDULE;
		run->delay_ns = 0;
		run->reason = "";
		settle(run);
		return;
	}
	if (run->has_call) {
		attempt(run);
		return;
	}
	if (!load(run, task)) {
		hold_unbegun(run, "out of memory");
		return;
	}
	run->rules = run->rules != NULL ? run->rules : rules_ref(queue->rules);
	if (!task_decode(rea_slice_make(run->text.data, task->payload.length), &run->request)) {
		run->decision = (struct rea_decision){.verdict = REA_VERDICT_GIVE_UP, .reason = REA_REASON_PERMANENT};
		run->request = (struct task_request){.method = REA_SLICE_LIT("?"), .path = REA_SLICE_LIT("?")};
		snprintf(run->detail, sizeof(run->detail), "what is stored of it is damaged");
		give_up_unbegun(run, "damaged");
	} else if (!find_terms(run)) {
		hold_unbegun(run, "the service is not configured");
	} else {
		begin(run, task);
	}
}

/* May repeat it without asking: then a claim that a power cut forgets costs nothing but that. */
static bool is_repeatable(const struct run *run)
{
	return run->has_call &&
	       (run->grant.permission == REA_PERMISSION_SAFE || run->grant.permission == REA_PERMISSION_IDEMPOTENT ||
		   (run->grant.permission == REA_PERMISSION_IDEMPOTENT_WITH_KEY && run->key.length > 0));
}

bool run_claim(struct queue *queue, struct target *target, const struct entry *entry)
{
	struct run *run = entry->run != NULL ? entry->run : run_new(queue, target);
	struct rea_store_claim claim = {.id = entry->id, .lease_ns = LEASE_NS};
	int error;

	if (run == NULL)
		return false;
	if (entry->run != NULL)
		queue->kept--;
	run->id = entry->id;
	run->repeatable = entry->repeatable || is_repeatable(run);
	run->state = RUN_CLAIMING;
	claim.load = !run->has_call;
	claim.relaxed = run->repeatable;
	link_run(run);
	queue->running++;
	error = rea_store_claim(queue->store, &claim, queue_now(queue), on_claimed, run);
	if (error == 0)
		queue_operation(queue, 1);
	else
		claim_later(run);
	return true;
}

/* ---- sync-first ---- */

struct run *run_begin_sync(struct queue *queue, struct target *target, const struct task_submit *submit,
    struct rules *rules, queue_receipt_fn receipt, void *receipt_data)
{
	struct run *run = run_new(queue, target);
	struct rea_buffer payload = {.alloc = NULL};
	struct rea_call_options options;

	if (run == NULL)
		return NULL;
	if (task_encode(&submit->request, &payload) != 0 ||
	    !keep_texts(run, rea_slice_make(payload.data, rea_buffer_length(&payload)), submit->key, submit->biz_id)) {
		rea_buffer_fini(&payload);
		run_free(run);
		return NULL;
	}
	task_decode(rea_slice_make(run->text.data, rea_buffer_length(&payload)), &run->request);
	rea_buffer_fini(&payload);
	task_fingerprint(submit, run->fingerprint);
	run->rules = rules_ref(rules);
	if (!find_terms(run)) {
		run_free(run);
		return NULL;
	}
	run->receipt = receipt;
	run->receipt_data = receipt_data;
	run->number = 1;
	run->generation = 1;
	run->submitted_ns = queue_now(queue);
	if (run->request.max_age_ns > 0)
		run->deadline_ns = rea_time_add(run->submitted_ns, run->request.max_age_ns);
	fill_options(run, &options);
	rea_call_begin(&run->call, &options, queue_now(queue));
	run->has_call = true;
	run->repeatable = is_repeatable(run);
	link_run(run);
	queue->running++;
	rea_call_attempt(&run->call, instances_of(run), &queue->random, queue_now(queue), &run->decision);
	if (run->decision.step != REA_STEP_ATTEMPT) {
		release_slots(run);
		run_free(run);
		return NULL;
	}
	fly(run);
	return run;
}

/* ---- from outside ---- */

void run_cancelled(struct run *run)
{
	struct queue *queue = run->queue;

	assert(run->state == RUN_FLYING);
	delivery_cancel(run->delivery);
	run->delivery = NULL;
	run->end_ns = queue_now(queue);
	run->report = (struct rea_report){.outcome = REA_OUTCOME_CANCELLED};
	rea_call_cancel(&run->call, run->end_ns, &run->decision);
	queue->stats.attempts[REA_OUTCOME_CANCELLED]++;
	emit(run);
	leave(run);
}

void run_interrupt(struct run *run)
{
	const struct rea_report report = {.outcome = REA_OUTCOME_AMBIGUOUS};

	if (run->state == RUN_SETTLING && wheel_timer_active(&run->timer)) {
		try_later(run);
		return;
	}
	if (run->state != RUN_FLYING)
		return;
	delivery_cancel(run->delivery);
	run->delivery = NULL;
	snprintf(run->detail, sizeof(run->detail), "interrupted by a shutdown");
	take_report(run, &report);
}
