/*
 * The store that forgets: every operation is done when its call returns, only its telling waits for rea_store_drain.
 *
 * Guarantees: an operation allocates first and changes nothing when it cannot; nothing that changes a task fails half-way.
 *
 * Ids are given out in order, so tasks stand in one array by id, from the oldest that is left on; those that are gone leave holes. A task is
 * in at most one of two heaps by time: `waiting` beyond the horizon, `leases` while it is RUNNING.
 */
#include "base/hash.h"
#include "store/backend.h"

#include <assert.h>

#define SLOTS_MIN 64
#define NOWHERE SIZE_MAX

struct logged {
	struct logged *next;
	struct rea_store_attempt attempt; /* its texts follow */
	char texts[];
};

struct task {
	struct rea__row row;
	int64_t submitted_ns;
	struct rea_store_spec spec; /* its texts follow */
	char *reason;
	size_t reason_len;
	struct logged *attempts_first;
	struct logged *attempts_last;
	struct task *key_next; /* in its bucket */
	size_t heap_index;     /* NOWHERE = in none */
	char texts[];
};

struct heap {
	struct task **items;
	size_t count;
};

struct memory_store {
	struct rea_store store;
	pthread_mutex_t tasks_mutex; /* over the rest: readers may be on other threads */
	struct task **slots;         /* slots[i] has id first_id + i; NULL = gone */
	size_t slots_len;
	size_t slots_capacity; /* of slots, of both heaps, of buckets (a power of two) */
	uint64_t first_id;
	struct heap waiting;
	struct heap leases;
	struct task **buckets;
	uint64_t hash_seed;
	struct rea__horizon horizon;
	uint64_t claims;
	uint64_t purge_id; /* where the search for old tasks goes on */
	uint64_t counts[REA_STORE_STATE_COUNT];
	uint64_t operations;
};

static struct memory_store *memory_of(struct rea_store *store)
{
	return (struct memory_store *)store;
}

static void *allocate(struct memory_store *memory, size_t size)
{
	return memory->store.alloc.realloc(NULL, size, memory->store.alloc.user_data);
}

static void release(struct memory_store *memory, void *ptr)
{
	memory->store.alloc.free(ptr, memory->store.alloc.user_data);
}

/* ---- heaps, the earliest first, equal times by id ---- */

static bool earlier(const struct task *a, const struct task *b)
{
	return a->row.due_ns != b->row.due_ns ? a->row.due_ns < b->row.due_ns : a->row.id < b->row.id;
}

static void heap_place(struct heap *heap, size_t index, struct task *task)
{
	heap->items[index] = task;
	task->heap_index = index;
}

static void heap_up(struct heap *heap, size_t index, struct task *task)
{
	for (; index > 0 && earlier(task, heap->items[(index - 1) / 2]); index = (index - 1) / 2)
		heap_place(heap, index, heap->items[(index - 1) / 2]);
	heap_place(heap, index, task);
}

static void heap_down(struct heap *heap, size_t index, struct task *task)
{
	size_t child;

	while ((child = 2 * index + 1) < heap->count) {
		if (child + 1 < heap->count && earlier(heap->items[child + 1], heap->items[child]))
			child++;
		if (!earlier(heap->items[child], task))
			break;
		heap_place(heap, index, heap->items[child]);
		index = child;
	}
	heap_place(heap, index, task);
}

static void heap_push(struct heap *heap, struct task *task)
{
	assert(task->heap_index == NOWHERE);
	heap_up(heap, heap->count++, task);
}

static void heap_remove(struct heap *heap, struct task *task)
{
	size_t index = task->heap_index;
	struct task *last = heap->items[--heap->count];

	task->heap_index = NOWHERE;
	if (last == task)
		return;
	heap_down(heap, index, last);
	heap_up(heap, last->heap_index, last);
}

static struct heap *heap_of(struct memory_store *memory, const struct rea__row *row)
{
	if (row->state == REA_STORE_RUNNING)
		return &memory->leases;
	return row->later ? &memory->waiting : NULL;
}

/* ---- tasks by id ---- */

static uint64_t end_id(const struct memory_store *memory)
{
	return memory->first_id + memory->slots_len;
}

static struct task *find(const struct memory_store *memory, uint64_t id)
{
	return id >= memory->first_id && id < end_id(memory) ? memory->slots[id - memory->first_id] : NULL;
}

/* ---- tasks by key ---- */

static struct task **bucket_of(const struct memory_store *memory, struct rea_text key)
{
	uint64_t hash = memory->hash_seed;

	for (size_t i = 0; i < key.length; i++)
		hash = rea_hash_byte(hash, (unsigned char)key.text[i]);
	return &memory->buckets[hash & (memory->slots_capacity - 1)];
}

static struct task *find_key(const struct memory_store *memory, struct rea_text key)
{
	struct task *task;

	if (key.length == 0 || memory->slots_capacity == 0)
		return NULL;
	for (task = *bucket_of(memory, key); task != NULL; task = task->key_next)
		if (rea__text_equal(task->spec.key, key))
			break;
	return task;
}

static void key_add(struct memory_store *memory, struct task *task)
{
	struct task **bucket;

	if (task->spec.key.length == 0)
		return;
	bucket = bucket_of(memory, task->spec.key);
	task->key_next = *bucket;
	*bucket = task;
}

static void key_remove(struct memory_store *memory, struct task *task)
{
	struct task **link;

	if (task->spec.key.length == 0)
		return;
	for (link = bucket_of(memory, task->spec.key); *link != task; link = &(*link)->key_next)
		;
	*link = task->key_next;
}

/* ---- room ---- */

static void forget_holes_in_front(struct memory_store *memory)
{
	size_t holes = 0;

	while (holes < memory->slots_len && memory->slots[holes] == NULL)
		holes++;
	if (holes == 0)
		return;
	memmove(memory->slots, memory->slots + holes, (memory->slots_len - holes) * sizeof(*memory->slots));
	memory->slots_len -= holes;
	memory->first_id += holes;
}

static bool grow_array(struct memory_store *memory, struct task ***array, size_t capacity)
{
	struct task **bigger =
	    memory->store.alloc.realloc(*array, capacity * sizeof(**array), memory->store.alloc.user_data);

	if (bigger == NULL)
		return false;
	*array = bigger;
	return true;
}

/* Room for one more task everywhere, so that nothing later has to allocate. */
static int reserve(struct memory_store *memory)
{
	size_t capacity = memory->slots_capacity != 0 ? memory->slots_capacity * 2 : SLOTS_MIN;

	if (memory->slots_len < memory->slots_capacity)
		return 0;
	forget_holes_in_front(memory);
	if (memory->slots_capacity != 0 && memory->slots_len <= memory->slots_capacity / 2)
		return 0;
	if (!grow_array(memory, &memory->slots, capacity) || !grow_array(memory, &memory->waiting.items, capacity) ||
	    !grow_array(memory, &memory->leases.items, capacity) || !grow_array(memory, &memory->buckets, capacity))
		return REA_ERR_NOMEM;
	memory->slots_capacity = capacity;
	memset(memory->buckets, 0, capacity * sizeof(*memory->buckets));
	for (size_t i = 0; i < memory->slots_len; i++)
		if (memory->slots[i] != NULL)
			key_add(memory, memory->slots[i]);
	return 0;
}

/* ---- attempts ---- */

static void copy_text(char **at, struct rea_text *text)
{
	if (text->length > 0)
		memcpy(*at, text->text, text->length);
	text->text = *at;
	*at += text->length;
}

static struct logged *logged_new(struct memory_store *memory, const struct rea_store_attempt *attempt)
{
	struct logged *logged =
	    allocate(memory, sizeof(*logged) + attempt->instance.length + attempt->reason.length + attempt->detail.length);
	char *at;

	if (logged == NULL)
		return NULL;
	logged->next = NULL;
	logged->attempt = *attempt;
	at = logged->texts;
	copy_text(&at, &logged->attempt.instance);
	copy_text(&at, &logged->attempt.reason);
	copy_text(&at, &logged->attempt.detail);
	return logged;
}

static void add_logged(struct task *task, struct logged *logged)
{
	if (task->attempts_last == NULL)
		task->attempts_first = logged;
	else
		task->attempts_last->next = logged;
	task->attempts_last = logged;
}

/* ---- changes ---- */

static void task_free(struct memory_store *memory, struct task *task)
{
	struct logged *logged;

	while ((logged = task->attempts_first) != NULL) {
		task->attempts_first = logged->next;
		release(memory, logged);
	}
	release(memory, task->reason);
	release(memory, task);
}

/* The row becomes what a change has made of it. */
static void commit_row(struct memory_store *memory, struct task *task, const struct rea__row *row)
{
	struct heap *old_heap = heap_of(memory, &task->row), *new_heap = heap_of(memory, row);

	if (task->heap_index != NOWHERE)
		heap_remove(old_heap, task);
	memory->counts[task->row.state]--;
	memory->counts[row->state]++;
	task->row = *row;
	if (new_heap != NULL)
		heap_push(new_heap, task);
}

static struct rea__change change_of(struct memory_store *memory, int64_t now_ns)
{
	return (struct rea__change){.now_ns = now_ns, .horizon = memory->horizon, .token = memory->claims + 1};
}

static struct rea_text reason_of(const struct rea__op *op)
{
	if (op->type == REA__OP_FINISH)
		return op->in.finish.reason;
	return op->type == REA__OP_CANCEL ? op->in.cancel.reason : (struct rea_text){NULL, 0};
}

static int load_spec(struct rea__op *op, const struct task *task)
{
	op->result.task.submitted_unix_ns = task->submitted_ns;
	op->result.task.target = task->spec.target;
	op->result.task.biz_id = task->spec.biz_id;
	op->result.task.key = task->spec.key;
	op->result.task.payload = task->spec.payload;
	if (rea__text_copy(&op->arena, &op->result.task.target) != 0 ||
	    rea__text_copy(&op->arena, &op->result.task.biz_id) != 0 ||
	    rea__text_copy(&op->arena, &op->result.task.key) != 0 ||
	    rea__text_copy(&op->arena, &op->result.task.payload) != 0)
		return REA_ERR_NOMEM;
	return 0;
}

/* What a change needs besides the row, made before anything is changed. */
struct extras {
	struct logged *logged;
	char *reason;
};

static int extras_make(
    struct memory_store *memory, const struct rea__op *op, const struct rea__change *change, struct extras *ret_extras)
{
	struct rea_text reason = reason_of(op);

	*ret_extras = (struct extras){NULL, NULL};
	if (change->logged && (ret_extras->logged = logged_new(memory, &change->attempt)) == NULL)
		return REA_ERR_NOMEM;
	if (reason.length == 0)
		return 0;
	ret_extras->reason = allocate(memory, reason.length);
	if (ret_extras->reason == NULL) {
		release(memory, ret_extras->logged);
		return REA_ERR_NOMEM;
	}
	memcpy(ret_extras->reason, reason.text, reason.length);
	return 0;
}

static void extras_commit(struct memory_store *memory, struct task *task, const struct rea__op *op, const struct extras *extras)
{
	if (extras->logged != NULL)
		add_logged(task, extras->logged);
	release(memory, task->reason);
	task->reason = extras->reason;
	task->reason_len = reason_of(op).length;
}

static void change_row(struct memory_store *memory, struct rea__op *op)
{
	struct task *task = find(memory, rea__op_id(op));
	struct rea__change change = change_of(memory, op->now_ns);
	struct extras extras;
	struct rea__row row;
	int error;

	if (task == NULL) {
		op->result.error = REA_ERR_NOT_FOUND;
		return;
	}
	row = task->row;
	error = rea__op_apply(op, &row, &change);
	rea__op_conclude(&memory->store, op, &row, error);
	if (error == 0 && op->type == REA__OP_CLAIM && op->in.claim.load)
		error = load_spec(op, task);
	if (error == 0)
		error = extras_make(memory, op, &change, &extras);
	if (error != 0) {
		op->result.error = error;
		return;
	}
	extras_commit(memory, task, op, &extras);
	commit_row(memory, task, &row);
	memory->claims += op->type == REA__OP_CLAIM;
}

/* ---- submit ---- */

static struct task *task_new(struct memory_store *memory, const struct rea__op *op)
{
	const struct rea_store_spec *spec = &op->in.submit.spec;
	struct task *task = allocate(memory,
	    sizeof(*task) + spec->target.length + spec->biz_id.length + spec->key.length + spec->payload.length);
	char *at;

	if (task == NULL)
		return NULL;
	memset(task, 0, sizeof(*task));
	task->heap_index = NOWHERE;
	task->submitted_ns = op->now_ns;
	task->spec = *spec;
	at = task->texts;
	copy_text(&at, &task->spec.target);
	copy_text(&at, &task->spec.biz_id);
	copy_text(&at, &task->spec.key);
	copy_text(&at, &task->spec.payload);
	for (size_t i = 0; i < op->in.submit.attempts_len; i++) {
		struct logged *logged = logged_new(memory, &op->in.submit.attempts[i]);

		if (logged == NULL) {
			task_free(memory, task);
			return NULL;
		}
		add_logged(task, logged);
	}
	return task;
}

static void repeat_submit(struct memory_store *memory, struct rea__op *op, const struct task *task)
{
	bool same = memcmp(task->spec.fingerprint, op->in.submit.spec.fingerprint, sizeof(task->spec.fingerprint)) == 0;

	op->result.error = same ? 0 : REA_ERR_CONFLICT;
	op->result.existed = same;
	op->result.task = rea__task_of(&memory->store, &task->row);
	op->result.task.submitted_unix_ns = task->submitted_ns;
}

static void submit(struct memory_store *memory, struct rea__op *op)
{
	struct rea__change change = change_of(memory, op->now_ns);
	struct task *task = find_key(memory, op->in.submit.spec.key);
	struct heap *heap;

	if (task != NULL) {
		repeat_submit(memory, op, task);
		return;
	}
	if (op->in.submit.only_look) {
		op->result.error = REA_ERR_NOT_FOUND;
		return;
	}
	if (reserve(memory) != 0 || (task = task_new(memory, op)) == NULL) {
		op->result.error = REA_ERR_NOMEM;
		return;
	}
	task->row.id = end_id(memory);
	rea__row_submit(&task->row, &op->in.submit, &change);
	memory->slots[memory->slots_len++] = task;
	key_add(memory, task);
	memory->counts[task->row.state]++;
	heap = heap_of(memory, &task->row);
	if (heap != NULL)
		heap_push(heap, task);
	rea__op_conclude(&memory->store, op, &task->row, 0);
}

/* ---- due ---- */

/* Tell of a task as it will stand. False: no memory, and nothing has happened. */
static bool hand_out(struct memory_store *memory, struct rea__op *op, struct rea_store_task *tasks,
    const struct rea__row *row, struct rea_text target)
{
	struct rea_store_task *told = &tasks[op->result.tasks_len];

	*told = rea__task_of(&memory->store, row);
	told->target = target;
	if (rea__text_copy(&op->arena, &told->target) != 0)
		return false;
	op->result.tasks_len++;
	return true;
}

static struct task *first_before(const struct heap *heap, int64_t until_ns)
{
	return heap->count > 0 && heap->items[0]->row.due_ns < until_ns ? heap->items[0] : NULL;
}

static void due(struct memory_store *memory, struct rea__op *op)
{
	struct rea_store_task *tasks = rea_arena_array(&op->arena, op->in.due.max, sizeof(*tasks));
	struct rea__horizon all = {op->in.due.until_ns - 1, UINT64_MAX};
	struct task *task;

	if (tasks == NULL) {
		op->result.error = REA_ERR_NOMEM;
		return;
	}
	op->result.tasks = tasks;
	while ((task = first_before(&memory->waiting, op->in.due.until_ns)) != NULL &&
	       op->result.tasks_len < op->in.due.max && hand_out(memory, op, tasks, &task->row, task->spec.target)) {
		memory->horizon = (struct rea__horizon){task->row.due_ns, task->row.id};
		heap_remove(&memory->waiting, task);
		task->row.later = false;
	}
	if (task != NULL) {
		op->result.more = true;
		op->result.error = op->result.tasks_len == 0 ? REA_ERR_NOMEM : 0;
	} else if (rea__after_horizon(memory->horizon, all.due_ns, all.id))
		memory->horizon = all;
}

/* ---- maintain ---- */

/* False: no memory, and nothing has happened. */
static bool expire_one(struct memory_store *memory, struct rea__op *op, struct rea_store_task *tasks, struct task *task)
{
	struct rea__change change = change_of(memory, op->now_ns);
	struct rea__row row = task->row;
	struct logged *logged;

	rea__row_interrupt(&row, &change);
	logged = logged_new(memory, &change.attempt);
	if (logged == NULL)
		return false;
	if (rea__row_soon(&row) && !hand_out(memory, op, tasks, &row, task->spec.target)) {
		release(memory, logged);
		return false;
	}
	add_logged(task, logged);
	commit_row(memory, task, &row);
	op->result.expired++;
	return true;
}

static void purge_task(struct memory_store *memory, struct task *task)
{
	key_remove(memory, task);
	memory->counts[task->row.state]--;
	memory->slots[task->row.id - memory->first_id] = NULL;
	task_free(memory, task);
}

static void purge(struct memory_store *memory, struct rea__op *op)
{
	int64_t old_ns = op->now_ns - (int64_t)op->in.maintain.keep_ns;

	if (memory->purge_id < memory->first_id)
		memory->purge_id = memory->first_id;
	for (uint32_t looked = 0; memory->purge_id < end_id(memory); looked++, memory->purge_id++) {
		struct task *task = find(memory, memory->purge_id);

		if (looked == op->in.maintain.rows_max) {
			op->result.more = true;
			return;
		}
		if (task == NULL || rea__state_open(task->row.state) || task->row.updated_ns > old_ns)
			continue;
		purge_task(memory, task);
		op->result.purged++;
	}
	memory->purge_id = memory->first_id;
}

static void maintain(struct memory_store *memory, struct rea__op *op)
{
	struct rea_store_task *tasks = rea_arena_array(&op->arena, op->in.maintain.rows_max, sizeof(*tasks));
	struct task *task;

	if (tasks == NULL) {
		op->result.error = REA_ERR_NOMEM;
		return;
	}
	op->result.tasks = tasks;
	while ((task = first_before(&memory->leases, op->now_ns + 1)) != NULL &&
	       op->result.expired < op->in.maintain.rows_max && expire_one(memory, op, tasks, task))
		;
	if (task == NULL)
		purge(memory, op);
	else {
		op->result.more = true;
		op->result.error = op->result.expired == 0 ? REA_ERR_NOMEM : 0;
	}
}

/* ---- the store ---- */

static void execute(struct memory_store *memory, struct rea__op *op)
{
	switch (op->type) {
	case REA__OP_SUBMIT:
		submit(memory, op);
		break;
	case REA__OP_CLAIM:
	case REA__OP_HEARTBEAT:
	case REA__OP_RECORD:
	case REA__OP_RESCHEDULE:
	case REA__OP_FINISH:
	case REA__OP_CANCEL:
	case REA__OP_REPLAY:
		change_row(memory, op);
		break;
	case REA__OP_DUE:
		due(memory, op);
		break;
	case REA__OP_MAINTAIN:
		maintain(memory, op);
		break;
	case REA__OP_BACKUP:
		assert(false && (const void *)"memory has no backup");
		break;
	}
}

static void memory_start(struct rea_store *store, struct rea__op *op)
{
	struct memory_store *memory = memory_of(store);
	struct rea__ops ops = {NULL, NULL};

	pthread_mutex_lock(&memory->tasks_mutex);
	execute(memory, op);
	memory->operations++;
	pthread_mutex_unlock(&memory->tasks_mutex);
	rea__ops_push(&ops, op);
	rea__store_complete(store, &ops);
}

static void memory_stop(struct rea_store *store)
{
	(void)store; /* nothing is under way */
}

static void memory_free(struct rea_store *store)
{
	struct memory_store *memory = memory_of(store);
	struct rea_alloc alloc = store->alloc;

	for (size_t i = 0; i < memory->slots_len; i++)
		if (memory->slots[i] != NULL)
			task_free(memory, memory->slots[i]);
	release(memory, memory->slots);
	release(memory, memory->waiting.items);
	release(memory, memory->leases.items);
	release(memory, memory->buckets);
	pthread_mutex_destroy(&memory->tasks_mutex);
	rea__store_fini(store);
	alloc.free(memory, alloc.user_data);
}

static void memory_status(struct rea_store *store, struct rea_store_status *ret_status)
{
	struct memory_store *memory = memory_of(store);

	memset(ret_status, 0, sizeof(*ret_status));
	pthread_mutex_lock(&memory->tasks_mutex);
	memcpy(ret_status->counts, memory->counts, sizeof(ret_status->counts));
	ret_status->operations = ret_status->commits = memory->operations;
	pthread_mutex_unlock(&memory->tasks_mutex);
}

/* ---- reads ---- */

static int memory_reader_new(struct rea_store *store, struct rea_store_reader **ret_reader)
{
	struct rea_store_reader *reader = allocate(memory_of(store), sizeof(*reader));

	if (reader == NULL)
		return REA_ERR_NOMEM;
	reader->store = store;
	rea_arena_init(&reader->arena, &store->alloc);
	*ret_reader = reader;
	return 0;
}

static void memory_reader_free(struct rea_store_reader *reader)
{
	rea_arena_fini(&reader->arena);
	release(memory_of(reader->store), reader);
}

/* All texts but the payload. */
static int describe(struct rea_store_reader *reader, const struct task *task, struct rea_store_task *ret_task)
{
	*ret_task = rea__task_of(reader->store, &task->row);
	ret_task->submitted_unix_ns = task->submitted_ns;
	ret_task->target = task->spec.target;
	ret_task->biz_id = task->spec.biz_id;
	ret_task->key = task->spec.key;
	ret_task->reason = (struct rea_text){task->reason, task->reason_len};
	if (rea__text_copy(&reader->arena, &ret_task->target) != 0 || rea__text_copy(&reader->arena, &ret_task->biz_id) != 0 ||
	    rea__text_copy(&reader->arena, &ret_task->key) != 0 || rea__text_copy(&reader->arena, &ret_task->reason) != 0)
		return REA_ERR_NOMEM;
	return 0;
}

static int memory_get(struct rea_store_reader *reader, uint64_t id, struct rea_store_task *ret_task)
{
	struct memory_store *memory = memory_of(reader->store);
	struct rea_store_task result;
	const struct task *task;
	int error = REA_ERR_NOT_FOUND;

	pthread_mutex_lock(&memory->tasks_mutex);
	task = find(memory, id);
	if (task != NULL)
		error = describe(reader, task, &result);
	if (error == 0) {
		result.payload = task->spec.payload;
		error = rea__text_copy(&reader->arena, &result.payload);
	}
	pthread_mutex_unlock(&memory->tasks_mutex);
	if (error == 0)
		*ret_task = result;
	return error;
}

static bool matches(const struct rea_store_filter *filter, const struct task *task)
{
	if (task == NULL || !rea__filter_matches(filter, task->row.state, task->spec.target))
		return false;
	return filter->biz_id.length == 0 || rea__text_equal(filter->biz_id, task->spec.biz_id);
}

static int copy_head(struct rea_store_reader *reader, const struct task *task, uint32_t max, struct rea_store_task *ret_task)
{
	ret_task->payload = task->spec.payload;
	if (ret_task->payload.length > max)
		ret_task->payload.length = max;
	return rea__text_copy(&reader->arena, &ret_task->payload);
}

static int fill_page(struct rea_store_reader *reader, const struct rea_store_filter *filter,
    struct rea_store_task *tasks, struct rea_store_page *page)
{
	struct memory_store *memory = memory_of(reader->store);
	uint64_t id = end_id(memory);

	if (filter->before_id != 0 && filter->before_id < id)
		id = filter->before_id;
	for (size_t looked = 0; id > memory->first_id; looked++) {
		const struct task *task = find(memory, id - 1);

		if (page->tasks_len == filter->max || looked == REA__LIST_SCAN_MAX) {
			page->next = id;
			break;
		}
		id--;
		if (!matches(filter, task))
			continue;
		if (describe(reader, task, &tasks[page->tasks_len]) != 0 ||
		    copy_head(reader, task, filter->payload_max, &tasks[page->tasks_len]) != 0)
			return REA_ERR_NOMEM;
		page->tasks_len++;
	}
	return 0;
}

static int memory_list(struct rea_store_reader *reader, const struct rea_store_filter *filter, struct rea_store_page *ret_page)
{
	struct memory_store *memory = memory_of(reader->store);
	struct rea_store_task *tasks = rea_arena_array(&reader->arena, filter->max, sizeof(*tasks));
	struct rea_store_page page = {.tasks = tasks};
	int error;

	if (tasks == NULL)
		return REA_ERR_NOMEM;
	pthread_mutex_lock(&memory->tasks_mutex);
	error = fill_page(reader, filter, tasks, &page);
	pthread_mutex_unlock(&memory->tasks_mutex);
	if (error == 0)
		*ret_page = page;
	return error;
}

static int copy_attempt(struct rea_arena *arena, const struct rea_store_attempt *from, struct rea_store_attempt *ret_attempt)
{
	*ret_attempt = *from;
	ret_attempt->start_ns = 0;
	if (rea__text_copy(arena, &ret_attempt->instance) != 0 || rea__text_copy(arena, &ret_attempt->reason) != 0 ||
	    rea__text_copy(arena, &ret_attempt->detail) != 0)
		return REA_ERR_NOMEM;
	return 0;
}

static int memory_attempts(struct rea_store_reader *reader, uint64_t id, uint32_t after, uint32_t max,
    const struct rea_store_attempt **ret_attempts, size_t *ret_attempts_len)
{
	struct memory_store *memory = memory_of(reader->store);
	struct rea_store_attempt *attempts = rea_arena_array(&reader->arena, max, sizeof(*attempts));
	const struct logged *logged;
	const struct task *task;
	size_t count = 0;
	int error = attempts != NULL ? 0 : REA_ERR_NOMEM;

	pthread_mutex_lock(&memory->tasks_mutex);
	task = find(memory, id);
	for (logged = task != NULL ? task->attempts_first : NULL; logged != NULL && count < max && error == 0;
	     logged = logged->next)
		if (logged->attempt.number > after)
			error = copy_attempt(&reader->arena, &logged->attempt, &attempts[count++]);
	pthread_mutex_unlock(&memory->tasks_mutex);
	if (error == 0) {
		*ret_attempts = attempts;
		*ret_attempts_len = count;
	}
	return error;
}

int rea_store_memory_new(const struct rea_store_options *options, struct rea_store **ret_store, struct rea_error_info *ret_info)
{
	static const struct rea__backend backend = {memory_start, memory_stop, memory_free, memory_status,
	    memory_reader_new, memory_reader_free, memory_get, memory_list, memory_attempts};
	const struct rea__clock_past past = {"", 0, INT64_MIN};
	const struct rea_alloc *alloc = options->alloc != NULL ? options->alloc : rea_alloc_default();
	struct rea__clock_past unused;
	struct memory_store *memory;
	int error = rea__store_options_check(options, ret_info);

	if (error != 0)
		return error;
	memory = alloc->realloc(NULL, sizeof(*memory), alloc->user_data);
	if (memory == NULL)
		return REA_ERR_NOMEM;
	memset(memory, 0, sizeof(*memory));
	if (rea__store_init(&memory->store, &backend, options) != 0 || pthread_mutex_init(&memory->tasks_mutex, NULL) != 0) {
		alloc->free(memory, alloc->user_data);
		return REA_ERR_NOMEM;
	}
	rea__clock_start(&memory->store.clock, &options->clock, &past, &unused);
	memory->first_id = 1;
	memory->horizon = REA__HORIZON_NONE;
	memory->hash_seed = REA_HASH_INIT ^ (uint64_t)(uintptr_t)memory ^ options->clock.boot_ns;
	*ret_store = &memory->store;
	return 0;
}
