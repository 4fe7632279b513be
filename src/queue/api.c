#include "queue/api.h"

#include "admin/answer.h"

#include <stdio.h>
#include <stdlib.h>

#define BULK_MAX 1000
#define LIST_DEFAULT 100
#define SMALL_BODY_MAX 65536
#define REPLAY_MAX 1000

#define ROUTES 12

struct api {
	struct queue *queue;
	struct admin_route routes[ROUTES];
};

/* ---- answers ---- */

static void send_problem(struct admin_request *request, const struct task_problem *problem, uint32_t retry_after_s)
{
	struct answer answer;

	answer_init(&answer, NULL);
	answer_problem_at(&answer, problem->status, problem->detail, problem->field);
	answer.retry_after_s = retry_after_s;
	admin_answer(request, &answer);
	answer_fini(&answer);
}

static void refuse(struct admin_request *request, uint16_t status, const char *field, const char *detail)
{
	struct task_problem problem;

	task_problem_set(&problem, status, field, "%s", detail);
	send_problem(request, &problem, status == 503 ? 1 : 0);
}

/* Without its store nothing can be said of tasks; it is answered then. */
static bool is_shut(struct api *api, struct admin_request *request)
{
	struct task_problem problem = {.status = 503};

	if (queue_is_open(api->queue))
		return false;
	queue_trouble(api->queue, problem.detail, sizeof(problem.detail));
	send_problem(request, &problem, QUEUE_OPEN_EVERY_S);
	return true;
}

/* What an operation or a read of the store came to. */
static void refuse_error(struct admin_request *request, int error)
{
	switch (error) {
	case REA_ERR_NOT_FOUND:
		refuse(request, 404, "", "there is no such task; one that is over is kept for tasks.retention-hours");
		break;
	case REA_ERR_CORRUPT:
		refuse(request, 500, "", "what is stored of it is damaged");
		break;
	case REA_ERR_IO:
	case REA_ERR_FULL:
	case REA_ERR_CLOSED:
		refuse(request, 503, "", "the store cannot do it now; nothing has changed");
		break;
	default:
		refuse(request, 503, "", "out of memory");
		break;
	}
}

static void put_name(struct answer *answer, const char *name)
{
	answer_put_text(answer, ",\"");
	answer_put_text(answer, name);
	answer_put_text(answer, "\":");
}

static void put_slice(struct answer *answer, const char *name, struct rea_slice text)
{
	put_name(answer, name);
	answer_put_json(answer, text.data, text.length);
}

static void put_number(struct answer *answer, const char *name, uint64_t value)
{
	put_name(answer, name);
	answer_put_u64(answer, value);
}

static void put_bool(struct answer *answer, const char *name, bool value)
{
	put_name(answer, name);
	answer_put_text(answer, value ? "true" : "false");
}

static void put_unix(struct answer *answer, const char *name, int64_t unix_ns)
{
	char text[TASK_TIME_SIZE];

	put_name(answer, name);
	task_time_format(unix_ns, text);
	answer_put_text(answer, "\"");
	answer_put_text(answer, text);
	answer_put_text(answer, "\"");
}

/* Null where there is none. */
static void put_due(struct answer *answer, struct queue *queue, const char *name, uint64_t time_ns)
{
	if (time_ns != REA_NEVER) {
		put_unix(answer, name, queue_unix_of(queue, time_ns));
		return;
	}
	put_name(answer, name);
	answer_put_text(answer, "null");
}

static void put_ms(struct answer *answer, const char *name, uint64_t ns)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu.%03llu", (unsigned long long)(ns / REA_NS_PER_MS),
	    (unsigned long long)(ns % REA_NS_PER_MS / REA_NS_PER_US));
	put_name(answer, name);
	answer_put_text(answer, text);
}

/* ---- a task ---- */

/* What does not change of it. */
struct shown {
	struct rea_slice target;
	struct rea_slice method; /* empty = it cannot be read */
	struct rea_slice path;
	bool is_url;
	struct rea_slice biz_id;
	struct rea_slice key;
	struct rea_slice reason;
	int64_t submitted_unix_ns;
};

static void put_request(struct answer *answer, const struct shown *shown)
{
	put_slice(answer, "target", shown->target);
	if (!shown->is_url)
		put_slice(answer, "service", shown->target);
	if (shown->method.length > 0) {
		put_slice(answer, "method", shown->method);
		put_slice(answer, shown->is_url ? "url" : "path", shown->path);
	}
	if (shown->biz_id.length > 0)
		put_slice(answer, "biz_id", shown->biz_id);
	if (shown->key.length > 0)
		put_slice(answer, "key", shown->key);
}

static void put_task(struct answer *answer, struct queue *queue, const struct rea_store_task *task,
    const struct shown *shown, bool existed)
{
	answer_put_text(answer, "{\"id\":\"");
	answer_put_u64(answer, task->id);
	answer_put_text(answer, "\",\"state\":\"");
	answer_put_text(answer, rea_store_state_name(task->state));
	answer_put_text(answer, "\"");
	put_number(answer, "generation", task->generation);
	put_number(answer, "attempts", task->attempt);
	put_request(answer, shown);
	put_due(answer, queue, "due", task->state == REA_STORE_RUNNING ? REA_NEVER : task->due_ns);
	put_unix(answer, "submitted", shown->submitted_unix_ns);
	put_unix(answer, "updated", task->updated_unix_ns);
	put_slice(answer, "reason", shown->reason);
	if (existed)
		put_bool(answer, "existed", true);
	answer_put_text(answer, "}");
}

static struct rea_slice slice_of(struct rea_text text)
{
	return rea_slice_make(text.text, text.length);
}

static void show_stored(const struct rea_store_task *task, struct shown *shown)
{
	*shown = (struct shown){
	    .target = slice_of(task->target),
	    .is_url = memchr(task->target.text, '/', task->target.length) != NULL,
	    .biz_id = slice_of(task->biz_id),
	    .key = slice_of(task->key),
	    .reason = slice_of(task->reason),
	    .submitted_unix_ns = task->submitted_unix_ns,
	};
	task_decode_head(slice_of(task->payload), &shown->method, &shown->path);
}

/* The task as it is stored now. False: it was answered otherwise. */
static bool answer_stored(struct admin_request *request, struct queue *queue, uint64_t id, uint16_t status)
{
	struct rea_store_task task;
	struct shown shown;
	struct answer answer;
	int error = rea_store_get(queue_reader(queue), id, &task);

	if (error != 0) {
		refuse_error(request, error);
		return false;
	}
	show_stored(&task, &shown);
	answer_init(&answer, NULL);
	answer_begin(&answer, status, "application/json");
	put_task(&answer, queue, &task, &shown, false);
	answer_put_text(&answer, "\n");
	admin_answer(request, &answer);
	answer_fini(&answer);
	return true;
}

/* ---- handing in ---- */

/* One submit that waits for its commit. */
struct item {
	struct batch *batch;
	struct task_submit submit;
	bool read;
	uint16_t status;
	struct rea_buffer text; /* of a bulk: its result */
};

struct batch {
	struct queue *queue;
	struct admin_request *request; /* NULL = the caller has left: what was taken stays taken */
	bool bulk;
	size_t open;
	size_t items_len;
	struct item *items;
};

static void free_batch(struct batch *batch)
{
	for (size_t i = 0; i < batch->items_len; i++) {
		if (batch->items[i].read)
			task_submit_fini(&batch->items[i].submit);
		rea_buffer_fini(&batch->items[i].text);
	}
	free(batch->items);
	free(batch);
}

static void put_reply(struct answer *answer, const struct queue_receipt *receipt)
{
	put_name(answer, "reply");
	answer_put_text(answer, "{\"status\":");
	answer_put_u64(answer, receipt->code);
	put_slice(answer, "content_type", receipt->content_type);
	put_slice(answer, "body", receipt->reply);
	put_bool(answer, "cut", receipt->reply_cut);
	answer_put_text(answer, "}");
}

/* sync-first and a success: nothing is stored, so there is no id. */
static void put_unstored(
    struct answer *answer, struct queue *queue, const struct shown *shown, const struct queue_receipt *receipt)
{
	int64_t now = queue_unix_of(queue, loop_now(queue_loop(queue)));

	answer_put_text(answer, "{\"id\":null,\"state\":\"SUCCESS\",\"generation\":1,\"attempts\":1");
	put_request(answer, shown);
	put_due(answer, queue, "due", REA_NEVER);
	put_unix(answer, "submitted", now);
	put_unix(answer, "updated", now);
	put_slice(answer, "reason", REA_SLICE_LIT(""));
	put_reply(answer, receipt);
	answer_put_text(answer, "}");
}

static void put_receipt(struct answer *answer, struct item *item, const struct queue_receipt *receipt)
{
	struct queue *queue = item->batch->queue;
	const struct task_submit *submit = &item->submit;
	struct shown shown = {
	    .target = submit->target,
	    .method = submit->request.method,
	    .path = submit->request.path,
	    .is_url = submit->request.is_url,
	    .biz_id = submit->biz_id,
	    .key = submit->key,
	};

	if (receipt->task == NULL) {
		put_unstored(answer, queue, &shown, receipt);
		return;
	}
	shown.submitted_unix_ns = receipt->existed ? receipt->task->submitted_unix_ns : receipt->task->updated_unix_ns;
	put_task(answer, queue, receipt->task, &shown, receipt->existed);
}

static uint16_t receipt_status(const struct queue_receipt *receipt)
{
	if (receipt->problem.status != 0)
		return receipt->problem.status;
	return receipt->task == NULL || receipt->existed ? 200 : 202;
}

static void answer_single(struct item *item, const struct queue_receipt *receipt)
{
	struct batch *batch = item->batch;
	struct answer answer;

	if (receipt->problem.status != 0) {
		send_problem(batch->request, &receipt->problem, receipt->retry_after_s);
		return;
	}
	answer_init(&answer, NULL);
	rea_buffer_reserve(&answer.body, 512);
	answer_begin(&answer, receipt_status(receipt), "application/json");
	put_receipt(&answer, item, receipt);
	answer_put_text(&answer, "\n");
	if (receipt->task != NULL)
		snprintf(answer.location, sizeof(answer.location), "/v1/tasks/%llu", (unsigned long long)receipt->task->id);
	admin_answer(batch->request, &answer);
	answer_fini(&answer);
}

/* In a bulk, what is wrong with the third is wrong at "/2…". */
static void put_problem(struct answer *answer, const struct item *item, const struct task_problem *problem)
{
	char field[sizeof(problem->field) + 24] = "";
	struct answer alone;

	if (problem->status < 500)
		snprintf(field, sizeof(field), "/%zu%s", (size_t)(item - item->batch->items), problem->field);
	answer_init(&alone, NULL);
	answer_problem_at(&alone, problem->status, problem->detail, field);
	answer_put(answer, rea_buffer_data(&alone.body), rea_buffer_length(&alone.body) - 1);
	answer_fini(&alone);
}

/* The result of one of many: kept until all are there. */
static void keep_result(struct item *item, const struct queue_receipt *receipt)
{
	struct answer answer;

	answer_init(&answer, NULL);
	answer_put_text(&answer, "{\"status\":");
	answer_put_u64(&answer, receipt_status(receipt));
	if (receipt->problem.status != 0) {
		put_name(&answer, "problem");
		put_problem(&answer, item, &receipt->problem);
	} else {
		put_name(&answer, "task");
		put_receipt(&answer, item, receipt);
	}
	answer_put_text(&answer, "}");
	item->text = answer.body;
}

static void answer_bulk(struct batch *batch)
{
	struct answer answer;

	answer_init(&answer, NULL);
	answer_begin(&answer, 200, "application/json");
	answer_put_text(&answer, "{\"results\":[");
	for (size_t i = 0; i < batch->items_len; i++) {
		answer_put_text(&answer, i > 0 ? ",\n" : "\n");
		answer_put(&answer, rea_buffer_data(&batch->items[i].text), rea_buffer_length(&batch->items[i].text));
	}
	answer_put_text(&answer, "]}\n");
	admin_answer(batch->request, &answer);
	answer_fini(&answer);
}

/* One of the batch is settled. */
static void settle(struct item *item, const struct queue_receipt *receipt)
{
	struct batch *batch = item->batch;

	if (batch->bulk)
		keep_result(item, receipt);
	else if (batch->request != NULL)
		answer_single(item, receipt);
	if (--batch->open > 0)
		return;
	if (batch->bulk && batch->request != NULL)
		answer_bulk(batch);
	free_batch(batch);
}

static void on_receipt(const struct queue_receipt *receipt, void *user_data)
{
	settle(user_data, receipt);
}

static void on_left(struct admin_request *request)
{
	struct batch *batch = request->user;

	batch->request = NULL;
}

/* document: taken over. */
static void submit_one(struct item *item, struct task_document document, struct rea_slice header_key)
{
	struct queue *queue = item->batch->queue;
	struct queue_receipt receipt = {.existed = false};

	item->read = task_submit_read(&item->submit, document, header_key, queue_settings(queue), &receipt.problem);
	if (!item->read || !queue_submit(queue, &item->submit, on_receipt, item, &receipt))
		settle(item, &receipt);
}

static struct batch *new_batch(struct queue *queue, struct admin_request *request, size_t items)
{
	struct batch *batch = malloc(sizeof(*batch));

	if (batch == NULL)
		return NULL;
	*batch = (struct batch){.queue = queue, .request = request, .open = items, .items_len = items};
	batch->items = malloc(items * sizeof(*batch->items));
	if (batch->items == NULL) {
		free(batch);
		return NULL;
	}
	for (size_t i = 0; i < items; i++) {
		batch->items[i].batch = batch;
		batch->items[i].read = false;
		batch->items[i].text = (struct rea_buffer){.alloc = NULL};
	}
	request->user = batch;
	request->aborted = on_left;
	return batch;
}

static void submit_bulk(struct queue *queue, struct admin_request *request, json_t *document)
{
	size_t count = json_array_size(document);
	struct batch *batch;

	if (count == 0 || count > BULK_MAX) {
		json_decref(document);
		refuse(request, 422, "", "a bulk has 1 to 1000 tasks");
		return;
	}
	batch = new_batch(queue, request, count);
	if (batch == NULL) {
		json_decref(document);
		refuse(request, 503, "", "out of memory");
		return;
	}
	batch->bulk = true;
	batch->open++; /* ours, until all have begun */
	for (size_t i = 0; i < count; i++)
		submit_one(&batch->items[i], (struct task_document){.json = json_incref(json_array_get(document, i))},
		    rea_slice_make(NULL, 0));
	json_decref(document);
	if (--batch->open > 0)
		return;
	if (batch->request != NULL)
		answer_bulk(batch);
	free_batch(batch);
}

/* At most one; blanks around it are gone. */
static bool find_key(const struct admin_request *request, struct rea_slice *ret_key)
{
	bool found = false;

	*ret_key = rea_slice_make(NULL, 0);
	for (size_t i = 0; i < request->http->fields_len; i++) {
		const struct http_field *field = &request->http->fields[i];

		if (field->id != HTTP_FIELD_IDEMPOTENCY_KEY)
			continue;
		if (found)
			return false;
		found = true;
		*ret_key = field->value;
	}
	return true;
}

#define JSON_FLAGS (JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL)

static void refuse_json(struct admin_request *request, const json_error_t *wrong)
{
	struct task_problem problem;

	task_problem_set(&problem, 400, "", "no JSON: %s, line %d, column %d", wrong->text, wrong->line, wrong->column);
	send_problem(request, &problem, 0);
}

static json_t *read_json(struct admin_request *request, size_t flags)
{
	json_error_t wrong;
	json_t *document = json_loadb(request->body.data, request->body.length, JSON_FLAGS | flags, &wrong);

	if (document == NULL)
		refuse_json(request, &wrong);
	return document;
}

static void handle_submit(struct admin_request *request, void *user_data)
{
	struct api *api = user_data;
	struct rea_slice key;
	struct batch *batch;
	struct task_document document;
	json_error_t wrong;

	if (is_shut(api, request))
		return;
	if (!find_key(request, &key)) {
		refuse(request, 400, "", "a request has one Idempotency-Key");
		return;
	}
	if (!task_document_load(&document, request->body, JSON_FLAGS, &wrong)) {
		refuse_json(request, &wrong);
		return;
	}
	if (json_is_array(document.json)) {
		if (key.length == 0) {
			submit_bulk(api->queue, request, document.json);
		} else {
			json_decref(document.json);
			refuse(request, 400, "",
			    "of a bulk each task has a `key` of its own, and the request no Idempotency-Key");
		}
		return;
	}
	batch = new_batch(api->queue, request, 1);
	if (batch == NULL) {
		task_document_fini(&document);
		refuse(request, 503, "", "out of memory");
		return;
	}
	submit_one(&batch->items[0], document, key);
}

/* ---- looking ---- */

static bool read_id(struct admin_request *request, uint64_t *ret_id)
{
	if (rea_slice_to_u64(request->parameters[0], ret_id) && *ret_id > 0)
		return true;
	refuse(request, 404, "", "there is no such task: its id is a number");
	return false;
}

static void handle_get(struct admin_request *request, void *user_data)
{
	struct api *api = user_data;
	uint64_t id;

	if (is_shut(api, request))
		return;
	if (read_id(request, &id))
		answer_stored(request, api->queue, id, 200);
}

/* A number of the query; absent: as it was. */
static bool query_number(struct admin_request *request, const char *name, uint64_t min, uint64_t max, uint64_t *value)
{
	struct rea_slice text;
	char detail[96];

	if (!answer_query_value(request->query, name, &text))
		return true;
	if (rea_slice_to_u64(text, value) && *value >= min && *value <= max)
		return true;
	snprintf(detail, sizeof(detail), "%s is a number from %llu to %llu", name, (unsigned long long)min,
	    (unsigned long long)max);
	refuse(request, 400, "", detail);
	return false;
}

static bool query_text(
    struct admin_request *request, const char *name, char buffer[REA_STORE_TEXT_MAX], struct rea_text *ret_text)
{
	struct rea_slice text;
	char detail[96];

	*ret_text = (struct rea_text){NULL, 0};
	if (!answer_query_value(request->query, name, &text))
		return true;
	ret_text->text = buffer;
	if (answer_percent_decode(text, buffer, REA_STORE_TEXT_MAX, &ret_text->length))
		return true;
	snprintf(detail, sizeof(detail), "%s is badly percent-encoded, or longer than %d bytes", name, REA_STORE_TEXT_MAX);
	refuse(request, 400, "", detail);
	return false;
}

/* "PENDING,RETRYING". */
static bool parse_states(struct rea_slice text, uint32_t *ret_states)
{
	*ret_states = 0;
	while (text.length > 0) {
		const char *comma = memchr(text.data, ',', text.length);
		size_t length = comma != NULL ? (size_t)(comma - text.data) : text.length;
		int state = rea_store_state_parse(text.data, length);

		if (state < 0)
			return false;
		*ret_states |= REA_STORE_STATE_BIT((uint32_t)state);
		length += comma != NULL;
		text = rea_slice_make(text.data + length, text.length - length);
	}
	return *ret_states != 0;
}

static void put_next(struct answer *answer, uint64_t next)
{
	put_name(answer, "next");
	if (next == 0) {
		answer_put_text(answer, "null");
		return;
	}
	answer_put_text(answer, "\"");
	answer_put_u64(answer, next);
	answer_put_text(answer, "\"");
}

static void handle_list(struct admin_request *request, void *user_data)
{
	struct api *api = user_data;
	struct rea_store_filter filter = {.payload_max = TASK_HEAD_MAX};
	uint64_t limit = LIST_DEFAULT;
	char states[256], target[REA_STORE_TEXT_MAX], biz_id[REA_STORE_TEXT_MAX];
	struct rea_store_page page;
	struct rea_slice text;
	struct answer answer;
	int error;

	if (is_shut(api, request))
		return;
	if (answer_query_value(request->query, "state", &text) &&
	    (!answer_percent_decode(text, states, sizeof(states), &text.length) ||
		!parse_states(rea_slice_make(states, text.length), &filter.states))) {
		refuse(request, 400, "", "state is a list of PENDING, RUNNING, RETRYING, SUCCESS, GIVEN_UP, CANCELLED");
		return;
	}
	if (!query_number(request, "limit", 1, REA_STORE_PAGE_MAX, &limit) ||
	    !query_number(request, "cursor", 1, UINT64_MAX, &filter.before_id) ||
	    !query_text(request, "target", target, &filter.target) || !query_text(request, "biz_id", biz_id, &filter.biz_id))
		return;
	filter.max = (uint32_t)limit;
	error = rea_store_list(queue_reader(api->queue), &filter, &page);
	if (error != 0) {
		refuse_error(request, error);
		return;
	}
	answer_init(&answer, NULL);
	answer_begin(&answer, 200, "application/json");
	answer_put_text(&answer, "{\"tasks\":[");
	for (size_t i = 0; i < page.tasks_len; i++) {
		struct shown shown;

		answer_put_text(&answer, i > 0 ? ",\n" : "\n");
		show_stored(&page.tasks[i], &shown);
		put_task(&answer, api->queue, &page.tasks[i], &shown, false);
	}
	answer_put_text(&answer, "]");
	put_next(&answer, page.next);
	if (page.damaged > 0)
		put_number(&answer, "damaged", page.damaged);
	answer_put_text(&answer, "}\n");
	admin_answer(request, &answer);
	answer_fini(&answer);
}

static void put_attempt(struct answer *answer, const struct rea_store_attempt *attempt)
{
	answer_put_text(answer, "{\"number\":");
	answer_put_u64(answer, attempt->number);
	put_number(answer, "generation", attempt->generation);
	put_slice(answer, "outcome", rea_slice_of(rea_outcome_name(attempt->outcome)));
	put_name(answer, "code");
	if (attempt->code_kind == REA_CODE_NONE)
		answer_put_text(answer, "null");
	else
		answer_put_u64(answer, attempt->code);
	if (attempt->code_kind == REA_CODE_ERRNO)
		put_bool(answer, "errno", true);
	put_unix(answer, "start", attempt->start_unix_ns);
	put_ms(answer, "cost_ms", attempt->cost_ns);
	put_slice(answer, "instance", slice_of(attempt->instance));
	put_slice(answer, "reason", slice_of(attempt->reason));
	put_slice(answer, "detail", slice_of(attempt->detail));
	put_bool(answer, "interrupted", attempt->interrupted);
	answer_put_text(answer, "}");
}

static void handle_attempts(struct admin_request *request, void *user_data)
{
	struct api *api = user_data;
	struct rea_store_reader *reader = queue_reader(api->queue);
	const struct rea_store_attempt *attempts;
	struct rea_store_task task;
	uint64_t id, after = 0, limit = LIST_DEFAULT;
	size_t len;
	struct answer answer;
	int error;

	if (is_shut(api, request))
		return;
	if (!read_id(request, &id) || !query_number(request, "after", 0, UINT32_MAX, &after) ||
	    !query_number(request, "limit", 1, REA_STORE_PAGE_MAX, &limit))
		return;
	error = rea_store_get(reader, id, &task);
	if (error == 0)
		error = rea_store_attempts(reader, id, (uint32_t)after, (uint32_t)limit, &attempts, &len);
	if (error != 0) {
		refuse_error(request, error);
		return;
	}
	answer_init(&answer, NULL);
	answer_begin(&answer, 200, "application/json");
	answer_put_text(&answer, "{\"attempts\":[");
	for (size_t i = 0; i < len; i++) {
		answer_put_text(&answer, i > 0 ? ",\n" : "\n");
		put_attempt(&answer, &attempts[i]);
	}
	answer_put_text(&answer, "]");
	put_next(&answer, len == limit ? attempts[len - 1].number : 0);
	answer_put_text(&answer, "}\n");
	admin_answer(request, &answer);
	answer_fini(&answer);
}

/* ---- changing ---- */

/* A request that waits for an operation. */
struct waiter {
	struct queue *queue;
	struct admin_request *request; /* NULL = the caller has left */
	const char *conflict;
};

static void on_waiter_left(struct admin_request *request)
{
	struct waiter *waiter = request->user;

	waiter->request = NULL;
}

static void on_changed(const struct rea_store_result *result, void *user_data)
{
	struct waiter *waiter = user_data;

	if (waiter->request == NULL)
		;
	else if (result->error == REA_ERR_CONFLICT)
		refuse(waiter->request, 409, "", waiter->conflict);
	else if (result->error != 0)
		refuse_error(waiter->request, result->error);
	else
		answer_stored(waiter->request, waiter->queue, result->task.id, 200);
	free(waiter);
}

static struct waiter *new_waiter(struct api *api, struct admin_request *request, const char *conflict)
{
	struct waiter *waiter = malloc(sizeof(*waiter));

	if (waiter == NULL) {
		refuse(request, 503, "", "out of memory");
		return NULL;
	}
	*waiter = (struct waiter){api->queue, request, conflict};
	request->user = waiter;
	request->aborted = on_waiter_left;
	return waiter;
}

static void handle_cancel(struct admin_request *request, void *user_data)
{
	struct api *api = user_data;
	struct waiter *waiter;
	uint64_t id;
	int error;

	if (is_shut(api, request))
		return;
	if (!read_id(request, &id) || (waiter = new_waiter(api, request, "the task is over already")) == NULL)
		return;
	error = queue_cancel(api->queue, id, on_changed, waiter);
	if (error == 0)
		return;
	refuse_error(request, error);
	free(waiter);
}

/* An object, or no body at all: NULL with *ret_good true. */
static json_t *read_object(struct admin_request *request, bool *ret_good)
{
	json_t *document;

	*ret_good = true;
	if (request->body.length == 0)
		return NULL;
	document = read_json(request, 0);
	*ret_good = json_is_object(document);
	if (document != NULL && !*ret_good) {
		json_decref(document);
		refuse(request, 422, "", "an object");
		return NULL;
	}
	return document;
}

static bool wrong_field(struct admin_request *request, const char *name, const char *what)
{
	char field[64], detail[192];

	snprintf(field, sizeof(field), "/%.60s", name);
	snprintf(detail, sizeof(detail), "%.60s %s", name, what);
	refuse(request, 422, field, detail);
	return false;
}

static bool take_bool(struct admin_request *request, const char *name, const json_t *value, bool *ret_value)
{
	*ret_value = json_is_true(value);
	return json_is_boolean(value) || wrong_field(request, name, "is true or false");
}

static bool take_ms(struct admin_request *request, const char *name, const json_t *value, uint64_t *ret_ns)
{
	int64_t ms;

	if (!task_integer(value, &ms) || ms < 0 || (uint64_t)ms > REA_STORE_DELAY_NS_MAX / REA_NS_PER_MS)
		return wrong_field(request, name, "is a whole number of milliseconds, at most ten years");
	*ret_ns = rea_time_from_ms((uint64_t)ms);
	return true;
}

static bool read_replay(struct admin_request *request, const json_t *document, struct rea_store_replay *replay)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)document, name, value)
	{
		bool good = strcmp(name, "force") == 0      ? take_bool(request, name, value, &replay->force)
			    : strcmp(name, "delay_ms") == 0 ? take_ms(request, name, value, &replay->delay_ns)
							    : wrong_field(request, name, "is no field of a replay");

		if (!good)
			return false;
	}
	return true;
}

static void handle_replay(struct admin_request *request, void *user_data)
{
	struct api *api = user_data;
	struct rea_store_replay replay = {.id = 0};
	struct rea_store_task task;
	struct waiter *waiter;
	json_t *document;
	bool good;
	int error;

	if (is_shut(api, request))
		return;
	if (!read_id(request, &replay.id))
		return;
	document = read_object(request, &good);
	good = good && read_replay(request, document, &replay);
	json_decref(document);
	if (!good)
		return;
	/* Asked for twice at once it happens once: both mean the generation that they saw. */
	error = rea_store_get(queue_reader(api->queue), replay.id, &task);
	if (error != 0) {
		refuse_error(request, error);
		return;
	}
	replay.generation = task.generation;
	waiter = new_waiter(
	    api, request, "the task is not over, or it was replayed already, or it succeeded (then only with `force`)");
	if (waiter == NULL)
		return;
	error = queue_replay(api->queue, &replay, on_changed, waiter);
	if (error == 0)
		return;
	refuse_error(request, error);
	free(waiter);
}

/* ---- replaying many ---- */

struct many {
	struct admin_request *request; /* NULL = the caller has left; what was begun goes on */
	size_t open, matched, replayed, failed;
	uint64_t next;
};

struct many_reading {
	struct rea_store_filter filter;
	bool force, dry_run;
};

static void on_many_left(struct admin_request *request)
{
	struct many *many = request->user;

	many->request = NULL;
}

static void many_done(struct many *many)
{
	struct answer answer;

	if (--many->open > 0)
		return;
	if (many->request != NULL) {
		answer_init(&answer, NULL);
		answer_begin(&answer, 200, "application/json");
		answer_put_text(&answer, "{\"matched\":");
		answer_put_u64(&answer, many->matched);
		put_number(&answer, "replayed", many->replayed);
		if (many->failed > 0)
			put_number(&answer, "failed", many->failed);
		put_next(&answer, many->next);
		answer_put_text(&answer, "}\n");
		admin_answer(many->request, &answer);
		answer_fini(&answer);
	}
	free(many);
}

static void on_one_replayed(const struct rea_store_result *result, void *user_data)
{
	struct many *many = user_data;

	many->replayed += result->error == 0;
	/* Replayed by somebody else meanwhile is no failure. */
	many->failed += result->error != 0 && result->error != REA_ERR_CONFLICT;
	many_done(many);
}

static bool take_states(struct admin_request *request, const json_t *value, uint32_t *ret_states)
{
	const uint32_t over = REA_STORE_STATES_ALL & ~REA_STORE_STATES_OPEN;
	size_t index;
	json_t *item;

	*ret_states = 0;
	json_array_foreach((json_t *)(uintptr_t)value, index, item)
	{
		int state =
		    json_is_string(item) ? rea_store_state_parse(json_string_value(item), json_string_length(item)) : -1;

		if (state < 0 || !(REA_STORE_STATE_BIT((uint32_t)state) & over))
			return wrong_field(request, "state", "is a list of GIVEN_UP, CANCELLED and SUCCESS");
		*ret_states |= REA_STORE_STATE_BIT((uint32_t)state);
	}
	return *ret_states != 0 || wrong_field(request, "state", "is a list of GIVEN_UP, CANCELLED and SUCCESS");
}

static bool take_text(struct admin_request *request, const char *name, const json_t *value, struct rea_text *ret_text)
{
	*ret_text = (struct rea_text){json_string_value(value), json_string_length(value)};
	return (json_is_string(value) && ret_text->length > 0 && ret_text->length <= REA_STORE_TEXT_MAX) ||
	       wrong_field(request, name, "is a text that is not empty");
}

static bool take_limit(struct admin_request *request, const json_t *value, uint32_t *ret_limit)
{
	int64_t limit;

	if (!task_integer(value, &limit) || limit < 1 || limit > REPLAY_MAX)
		return wrong_field(request, "limit", "is a number from 1 to 1000");
	*ret_limit = (uint32_t)limit;
	return true;
}

static bool take_cursor(struct admin_request *request, const json_t *value, uint64_t *ret_id)
{
	return (json_is_string(value) &&
		   rea_slice_to_u64(rea_slice_make(json_string_value(value), json_string_length(value)), ret_id)) ||
	       wrong_field(request, "cursor", "is what `next` said");
}

static bool read_many(struct admin_request *request, json_t *document, struct many_reading *ret)
{
	const char *name;
	json_t *value;

	*ret = (struct many_reading){.filter = {.states = REA_STORE_STATE_BIT(REA_STORE_GIVEN_UP), .max = LIST_DEFAULT}};
	json_object_foreach(document, name, value)
	{
		bool good = strcmp(name, "state") == 0     ? take_states(request, value, &ret->filter.states)
			    : strcmp(name, "target") == 0  ? take_text(request, name, value, &ret->filter.target)
			    : strcmp(name, "biz_id") == 0  ? take_text(request, name, value, &ret->filter.biz_id)
			    : strcmp(name, "limit") == 0   ? take_limit(request, value, &ret->filter.max)
			    : strcmp(name, "cursor") == 0  ? take_cursor(request, value, &ret->filter.before_id)
			    : strcmp(name, "force") == 0   ? take_bool(request, name, value, &ret->force)
			    : strcmp(name, "dry_run") == 0 ? take_bool(request, name, value, &ret->dry_run)
							   : wrong_field(request, name, "is no field of a replay of many");

		if (!good)
			return false;
	}
	/* What was meant as a filter and stands elsewhere must not replay everything. */
	if (request->query.length > 0)
		refuse(request, 400, "", "a replay of many has its filter in the body, not in the query");
	else if (!ret->dry_run && json_object_get(document, "state") == NULL &&
		 json_object_get(document, "target") == NULL && json_object_get(document, "biz_id") == NULL)
		refuse(request, 400, "", "a replay of many needs a filter: `state`, `target` or `biz_id`");
	else
		return true;
	return false;
}

static void replay_page(
    struct queue *queue, struct many *many, const struct rea_store_page *page, const struct many_reading *reading)
{
	many->open = 1; /* ours */
	many->next = page->next;
	for (size_t i = 0; i < page->tasks_len; i++) {
		const struct rea_store_replay replay = {
		    .id = page->tasks[i].id, .generation = page->tasks[i].generation, .force = reading->force};

		many->matched++;
		if (reading->dry_run)
			continue;
		if (queue_replay(queue, &replay, on_one_replayed, many) == 0)
			many->open++;
		else
			many->failed++;
	}
	many_done(many);
}

static void handle_replay_many(struct admin_request *request, void *user_data)
{
	struct api *api = user_data;
	struct many_reading reading;
	struct rea_store_page page;
	struct many *many;
	bool good;
	int error;
	json_t *document;

	if (is_shut(api, request))
		return;
	document = read_object(request, &good);
	if (!good || !read_many(request, document, &reading)) {
		json_decref(document);
		return;
	}
	error = rea_store_list(queue_reader(api->queue), &reading.filter, &page);
	json_decref(document);
	if (error != 0) {
		refuse_error(request, error);
		return;
	}
	many = calloc(1, sizeof(*many));
	if (many == NULL) {
		refuse(request, 503, "", "out of memory");
		return;
	}
	many->request = request;
	request->user = many;
	request->aborted = on_many_left;
	replay_page(api->queue, many, &page, &reading);
}

/* ---- targets ---- */

struct listing {
	struct answer *answer;
	struct queue *queue;
	size_t listed;
};

static void put_target(struct answer *answer, struct queue *queue, const struct queue_target *target)
{
	answer_put_text(answer, "{\"name\":");
	answer_put_json(answer, target->name.data, target->name.length);
	put_bool(answer, "paused", target->paused);
	put_due(answer, queue, "paused_until",
	    target->paused && target->paused_until_ns != REA_NEVER ? target->paused_until_ns : REA_NEVER);
	put_slice(answer, "why", rea_slice_of(target->why));
	put_due(answer, queue, "held_until", target->held_until_ns > 0 ? target->held_until_ns : REA_NEVER);
	put_bool(answer, "draining", target->draining);
	put_number(answer, "running", target->running);
	put_number(answer, "waiting", target->waiting);
	put_number(answer, "concurrency", target->concurrency);
	put_name(answer, "rate_per_s");
	if (target->rate_per_s > 0) {
		char text[32];

		snprintf(text, sizeof(text), "%g", target->rate_per_s);
		answer_put_text(answer, text);
	} else {
		answer_put_text(answer, "null");
	}
	if (target->breaker != NULL) {
		put_slice(answer, "breaker", rea_slice_of(target->breaker));
	} else {
		put_name(answer, "breaker");
		answer_put_text(answer, "null");
	}
	answer_put_text(answer, "}");
}

static void list_target(const struct queue_target *target, void *user_data)
{
	struct listing *listing = user_data;

	answer_put_text(listing->answer, listing->listed++ > 0 ? ",\n" : "\n");
	put_target(listing->answer, listing->queue, target);
}

static void handle_targets(struct admin_request *request, void *user_data)
{
	struct api *api = user_data;
	struct answer answer;
	struct listing listing = {&answer, api->queue, 0};

	if (is_shut(api, request))
		return;
	answer_init(&answer, NULL);
	answer_begin(&answer, 200, "application/json");
	answer_put_text(&answer, "{\"targets\":[");
	queue_targets_each(api->queue, list_target, &listing);
	answer_put_text(&answer, "]}\n");
	admin_answer(request, &answer);
	answer_fini(&answer);
}

static bool target_name(struct admin_request *request, char buffer[REA_STORE_TEXT_MAX], struct rea_slice *ret_name)
{
	ret_name->data = buffer;
	if (answer_percent_decode(request->parameters[0], buffer, REA_STORE_TEXT_MAX, &ret_name->length))
		return true;
	refuse(request, 400, "", "the name of the target is badly percent-encoded, or too long");
	return false;
}

static void answer_target(struct admin_request *request, struct queue *queue, struct rea_slice name)
{
	struct queue_target target;
	struct answer answer;

	if (!queue_target_get(queue, name, &target)) {
		refuse(request, 404, "", "there is no such target: no task has gone there");
		return;
	}
	answer_init(&answer, NULL);
	answer_begin(&answer, 200, "application/json");
	put_target(&answer, queue, &target);
	answer_put_text(&answer, "\n");
	admin_answer(request, &answer);
	answer_fini(&answer);
}

static void handle_target(struct admin_request *request, void *user_data)
{
	struct api *api = user_data;
	char buffer[REA_STORE_TEXT_MAX];
	struct rea_slice name;

	if (is_shut(api, request))
		return;
	if (target_name(request, buffer, &name))
		answer_target(request, api->queue, name);
}

static void answer_change(struct admin_request *request, struct queue *queue, struct rea_slice name, int error)
{
	if (error == 0)
		answer_target(request, queue, name);
	else if (error == REA_ERR_NOT_FOUND)
		refuse(request, 404, "", "there is no such target: no task has gone there");
	else
		refuse(request, 503, "", "it cannot be written down, so nothing has changed");
}

static bool read_pause(struct admin_request *request, json_t *document, uint64_t *for_ns, char why[QUEUE_WHY_MAX])
{
	const char *name;
	json_t *value;

	*for_ns = REA_NEVER;
	why[0] = '\0';
	json_object_foreach(document, name, value)
	{
		if (strcmp(name, "for_ms") == 0) {
			if (!take_ms(request, name, value, for_ns))
				return false;
			if (*for_ns == 0)
				return wrong_field(request, name, "is at least 1: a resume ends a pause");
		} else if (strcmp(name, "why") == 0) {
			if (!json_is_string(value) || json_string_length(value) >= QUEUE_WHY_MAX)
				return wrong_field(request, name, "is a text of at most 127 bytes");
			snprintf(why, QUEUE_WHY_MAX, "%s", json_string_value(value));
		} else {
			return wrong_field(request, name, "is no field of a pause");
		}
	}
	return true;
}

static void handle_pause(struct admin_request *request, void *user_data)
{
	struct api *api = user_data;
	char buffer[REA_STORE_TEXT_MAX], why[QUEUE_WHY_MAX];
	struct rea_slice name;
	uint64_t for_ns;
	bool good;
	json_t *document;

	if (is_shut(api, request))
		return;
	document = read_object(request, &good);
	if (good && read_pause(request, document, &for_ns, why) && target_name(request, buffer, &name))
		answer_change(request, api->queue, name, queue_target_pause(api->queue, name, for_ns, why));
	json_decref(document);
}

static void handle_resume(struct admin_request *request, void *user_data)
{
	struct api *api = user_data;
	char buffer[REA_STORE_TEXT_MAX];
	struct rea_slice name;

	if (is_shut(api, request))
		return;
	if (target_name(request, buffer, &name))
		answer_change(request, api->queue, name, queue_target_resume(api->queue, name));
}

static void handle_drain(struct admin_request *request, void *user_data)
{
	struct api *api = user_data;
	char buffer[REA_STORE_TEXT_MAX];
	struct rea_slice name;

	if (is_shut(api, request))
		return;
	if (target_name(request, buffer, &name))
		answer_change(request, api->queue, name, queue_target_drain(api->queue, name));
}

/* ---- timelines ---- */

#define TIMELINE_TASKS_MAX 100
#define TIMELINE_PAGES_MAX 100

/* Ids of the newest tasks of that biz_id. ret_more: there are older ones. */
static int find_tasks(struct rea_store_reader *reader, struct rea_text biz_id, uint64_t ret_ids[TIMELINE_TASKS_MAX],
    size_t *ret_len, bool *ret_more)
{
	struct rea_store_filter filter = {.biz_id = biz_id, .max = TIMELINE_TASKS_MAX};
	struct rea_store_page page;
	size_t len = 0, pages = 0;

	do {
		int error = rea_store_list(reader, &filter, &page);

		if (error != 0)
			return error;
		for (size_t i = 0; i < page.tasks_len && len < TIMELINE_TASKS_MAX; i++)
			ret_ids[len++] = page.tasks[i].id;
		filter.before_id = page.next;
	} while (page.next != 0 && len < TIMELINE_TASKS_MAX && ++pages < TIMELINE_PAGES_MAX);
	*ret_len = len;
	*ret_more = page.next != 0;
	return 0;
}

static enum rea_reason reason_named(struct rea_text name)
{
	for (int i = 0; i < REA_REASON_COUNT; i++)
		if (rea_slice_equal(slice_of(name), rea_slice_of(rea_reason_name((enum rea_reason)i))))
			return (enum rea_reason)i;
	return REA_REASON_NONE;
}

/* next: NULL = it was the last. */
static void attempt_event(const struct rea_store_attempt *attempt, const struct rea_store_attempt *next,
    const struct rea_event *task, struct rea_event *ret_event)
{
	int64_t end_ns = attempt->start_unix_ns + (int64_t)attempt->cost_ns;

	*ret_event = *task;
	ret_event->attempt = attempt->number;
	ret_event->outcome = attempt->outcome;
	ret_event->code_kind = attempt->code_kind;
	ret_event->code = attempt->code;
	ret_event->cost_ns = attempt->cost_ns;
	ret_event->time_unix_ns = end_ns;
	ret_event->attempt_start_ns = attempt->start_unix_ns > 0 ? (uint64_t)attempt->start_unix_ns : 0;
	ret_event->time_ns = end_ns > 0 ? (uint64_t)end_ns : 0;
	ret_event->instance = attempt->instance;
	ret_event->reason = reason_named(attempt->reason);
	ret_event->type = attempt->outcome == REA_OUTCOME_OK     ? REA_EVENT_SUCCESS
			  : ret_event->reason == REA_REASON_NONE ? REA_EVENT_RETRY
								 : REA_EVENT_GIVE_UP;
	ret_event->verdict = ret_event->type == REA_EVENT_SUCCESS ? REA_VERDICT_SUCCESS
			     : ret_event->type == REA_EVENT_RETRY ? REA_VERDICT_RETRY
								  : REA_VERDICT_GIVE_UP;
	if (next != NULL && next->start_unix_ns > end_ns)
		ret_event->next_delay_ns = (uint64_t)(next->start_unix_ns - end_ns);
}

static int tell_attempts(struct rea_store_reader *reader, uint64_t id, const struct rea_event *task, struct timeline *timeline)
{
	const struct rea_store_attempt *attempts;
	size_t len;
	int error = rea_store_attempts(reader, id, 0, REA_STORE_PAGE_MAX, &attempts, &len);

	for (size_t i = 0; error == 0 && i < len; i++) {
		struct rea_event event;

		attempt_event(&attempts[i], i + 1 < len ? &attempts[i + 1] : NULL, task, &event);
		timeline_add_attempt(timeline, &event);
	}
	return error;
}

static struct rea_text keep_text(char *buffer, size_t size, struct rea_text text)
{
	size_t length = text.length < size ? text.length : size;

	if (length > 0)
		memcpy(buffer, text.text, length);
	return (struct rea_text){buffer, length};
}

/* What is borrowed from the reader is copied before it is asked for the attempts. */
static int tell_task(struct api *api, uint64_t id, struct timeline *timeline)
{
	struct rea_store_reader *reader = queue_reader(api->queue);
	char call_id[24], biz_id[REA_EVENT_TEXT_MAX], key[REA_EVENT_TEXT_MAX], service[REA_EVENT_TEXT_MAX],
	    line[REA_EVENT_TEXT_MAX];
	struct rea_store_task task;
	struct rea_event event = {.type = REA_EVENT_RETRY};
	struct shown shown;
	struct answer json;
	int error = rea_store_get(reader, id, &task), length;

	if (error != 0)
		return error == REA_ERR_NOT_FOUND ? 0 : error; /* it has just been removed */
	show_stored(&task, &shown);
	answer_init(&json, NULL);
	put_task(&json, api->queue, &task, &shown, false);
	if (!json.failed)
		timeline_add_task(timeline, rea_slice_make(rea_buffer_data(&json.body), rea_buffer_length(&json.body)));
	error = json.failed ? REA_ERR_NOMEM : 0;
	answer_fini(&json);
	if (error != 0)
		return error;
	length = snprintf(call_id, sizeof(call_id), "%llu", (unsigned long long)id);
	event.call_id = (struct rea_text){call_id, (size_t)length};
	event.biz_id = keep_text(biz_id, sizeof(biz_id), task.biz_id);
	event.key = keep_text(key, sizeof(key), task.key);
	event.service = keep_text(service, sizeof(service), task.target);
	length = snprintf(line, sizeof(line), "%.*s %.*s", (int)shown.method.length, shown.method.data,
	    (int)shown.path.length, shown.path.data);
	event.detail = (struct rea_text){line, (size_t)length < sizeof(line) ? (size_t)length : sizeof(line) - 1};
	return tell_attempts(reader, id, &event, timeline);
}

int api_timeline(struct api *api, struct rea_text biz_id, struct timeline *timeline)
{
	uint64_t ids[TIMELINE_TASKS_MAX];
	size_t len = 0;
	bool more = false;
	int error = queue_is_open(api->queue) ? find_tasks(queue_reader(api->queue), biz_id, ids, &len, &more) : REA_ERR_IO;

	if (more)
		timeline_note_incomplete(timeline, "older tasks are left out");
	while (error == 0 && len > 0) /* the oldest first */
		error = tell_task(api, ids[--len], timeline);
	return error;
}

/* ---- routes ---- */

struct api *api_new(struct queue *queue)
{
	struct api *api = malloc(sizeof(*api));
	const struct admin_route routes[ROUTES] = {
	    {HTTP_POST, "/v1/tasks", queue_settings(queue)->limits.task_bytes, handle_submit},
	    {HTTP_GET, "/v1/tasks", 0, handle_list},
	    {HTTP_POST, "/v1/tasks/replay", SMALL_BODY_MAX, handle_replay_many},
	    {HTTP_GET, "/v1/tasks/{}", 0, handle_get},
	    {HTTP_GET, "/v1/tasks/{}/attempts", 0, handle_attempts},
	    {HTTP_POST, "/v1/tasks/{}/cancel", SMALL_BODY_MAX, handle_cancel},
	    {HTTP_POST, "/v1/tasks/{}/replay", SMALL_BODY_MAX, handle_replay},
	    {HTTP_GET, "/v1/targets", 0, handle_targets},
	    {HTTP_GET, "/v1/targets/{}", 0, handle_target},
	    {HTTP_POST, "/v1/targets/{}/pause", SMALL_BODY_MAX, handle_pause},
	    {HTTP_POST, "/v1/targets/{}/resume", SMALL_BODY_MAX, handle_resume},
	    {HTTP_POST, "/v1/targets/{}/drain", SMALL_BODY_MAX, handle_drain},
	};

	if (api == NULL)
		return NULL;
	api->queue = queue;
	memcpy(api->routes, routes, sizeof(routes));
	return api;
}

void api_free(struct api *api)
{
	free(api);
}

struct admin_routes api_routes(struct api *api)
{
	return (struct admin_routes){.routes = api->routes, .routes_len = ROUTES, .user_data = api};
}
