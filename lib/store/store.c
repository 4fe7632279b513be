/*
 * The interface: checks what it is given, copies it, hands it to the store behind it, and tells what came back.
 *
 * Guarantees: an operation that was accepted is told exactly once, on the owner's thread, in the order of the calls; one that was refused is
 * never told. What is under way is bounded in number and bytes.
 */
#include "store/backend.h"

#include <assert.h>

#define LIST_PAYLOAD_MAX 65536

static bool text_fits(struct rea_text text)
{
	return text.length <= REA_STORE_TEXT_MAX;
}

static const char *const state_names[] = {
#define X(name, text) text,
    REA_STORE_STATE_MAP(X)
#undef X
};

const char *rea_store_state_name(enum rea_store_state state)
{
	return (unsigned)state < REA_STORE_STATE_COUNT ? state_names[state] : "unknown";
}

int rea_store_state_parse(const char *name, size_t length)
{
	for (int i = 0; i < REA_STORE_STATE_COUNT; i++)
		if (rea_slice_equal(rea_slice_make(name, length), rea_slice_of(state_names[i])))
			return i;
	return -1;
}

/* ---- a store ---- */

void rea_store_options_init(struct rea_store_options *options)
{
	memset(options, 0, sizeof(*options));
	options->version = REA_STORE_OPTIONS_VERSION;
	options->queue_max = 65536;
	options->queue_bytes_max = UINT64_C(256) << 20;
	rea_store_clock_read(&options->clock);
}

static void tell(struct rea_store *store, struct rea__op *op)
{
	store->ops_len--;
	store->ops_bytes -= op->bytes;
	if (op->done != NULL)
		op->done(&op->result, op->user_data);
	rea_arena_fini(&op->arena);
	store->alloc.free(op, store->alloc.user_data);
}

size_t rea_store_drain(struct rea_store *store)
{
	struct rea__ops ops;
	struct rea__op *op;
	size_t count = 0;

	pthread_mutex_lock(&store->mutex);
	ops = store->completed;
	store->completed = (struct rea__ops){NULL, NULL};
	pthread_mutex_unlock(&store->mutex);
	while ((op = rea__ops_pop(&ops)) != NULL) {
		tell(store, op);
		count++;
	}
	return count;
}

void rea_store_close(struct rea_store *store)
{
	if (store == NULL)
		return;
	store->closing = true;
	store->backend->stop(store);
	rea_store_drain(store);
	assert(store->ops_len == 0 && store->ops_bytes == 0);
	store->backend->free(store);
}

void rea_store_status(const struct rea_store *store, struct rea_store_status *ret_status)
{
	/* Looking takes a lock and changes nothing. */
	store->backend->status((struct rea_store *)(uintptr_t)store, ret_status);
}

/* ---- operations ---- */

static void pack_text(char **at, struct rea_text *text)
{
	if (text->length > 0)
		memcpy(*at, text->text, text->length);
	text->text = *at;
	*at += text->length;
}

static bool attempt_valid(const struct rea_store_attempt *attempt)
{
	return (unsigned)attempt->outcome < REA_OUTCOME_COUNT && (unsigned)attempt->code_kind <= REA_CODE_ERRNO &&
	       attempt->cost_ns <= INT64_MAX && text_fits(attempt->instance) && text_fits(attempt->reason) &&
	       text_fits(attempt->detail);
}

static size_t attempts_size(const struct rea_store_attempt *attempts, size_t count)
{
	size_t size = count * sizeof(*attempts);

	for (size_t i = 0; i < count; i++)
		size += attempts[i].instance.length + attempts[i].reason.length + attempts[i].detail.length;
	return size;
}

/* Copies attempts behind an operation, with their times as those of rows. */
static const struct rea_store_attempt *pack_attempts(const struct rea_store *store, struct rea__op *op,
    const struct rea_store_attempt *attempts, size_t count, char **ret_at)
{
	struct rea_store_attempt *copies = (void *)(op + 1);

	*ret_at = (char *)(copies + count);
	for (size_t i = 0; i < count; i++) {
		copies[i] = attempts[i];
		copies[i].generation = 1;
		copies[i].interrupted = false;
		copies[i].start_unix_ns = rea__clock_to_row(&store->clock, attempts[i].start_ns);
		pack_text(ret_at, &copies[i].instance);
		pack_text(ret_at, &copies[i].reason);
		pack_text(ret_at, &copies[i].detail);
	}
	return count > 0 ? copies : NULL;
}

static bool submit_valid(const struct rea_store_submit *submit)
{
	const struct rea_store_spec *spec = &submit->spec;

	if (spec->target.length == 0 || !text_fits(spec->target) || !text_fits(spec->biz_id) || !text_fits(spec->key) ||
	    spec->payload.length > REA_STORE_PAYLOAD_MAX || submit->delay_ns > REA_STORE_DELAY_NS_MAX ||
	    submit->attempts_len > REA_STORE_SUBMIT_ATTEMPTS_MAX)
		return false;
	for (size_t i = 0; i < submit->attempts_len; i++)
		if (!attempt_valid(&submit->attempts[i]) || submit->attempts[i].number != i + 1)
			return false;
	return true;
}

int rea_store_submit(struct rea_store *store, const struct rea_store_submit *submit, uint64_t now_ns,
    void (*done)(const struct rea_store_result *result, void *user_data), void *user_data)
{
	const struct rea_store_spec *spec = &submit->spec;
	struct rea__op *op;
	size_t extra;
	char *at;
	int error;

	if (!submit_valid(submit))
		return REA_ERR_INVALID;
	extra = attempts_size(submit->attempts, submit->attempts_len) + spec->target.length + spec->biz_id.length +
		spec->key.length + spec->payload.length;
	error = rea__op_new(store, REA__OP_SUBMIT, extra, &op);
	if (error != 0)
		return error;
	op->in.submit = *submit;
	op->in.submit.attempts = pack_attempts(store, op, submit->attempts, submit->attempts_len, &at);
	pack_text(&at, &op->in.submit.spec.target);
	pack_text(&at, &op->in.submit.spec.biz_id);
	pack_text(&at, &op->in.submit.spec.key);
	pack_text(&at, &op->in.submit.spec.payload);
	rea__op_start(store, op, now_ns, done, user_data);
	return 0;
}

static bool lease_valid(uint64_t lease_ns)
{
	return lease_ns > 0 && lease_ns <= REA_STORE_DELAY_NS_MAX;
}

int rea_store_claim(struct rea_store *store, const struct rea_store_claim *claim, uint64_t now_ns,
    void (*done)(const struct rea_store_result *result, void *user_data), void *user_data)
{
	struct rea__op *op;
	int error;

	if (!lease_valid(claim->lease_ns))
		return REA_ERR_INVALID;
	error = rea__op_new(store, REA__OP_CLAIM, 0, &op);
	if (error != 0)
		return error;
	op->in.claim = *claim;
	rea__op_start(store, op, now_ns, done, user_data);
	return 0;
}

int rea_store_heartbeat(struct rea_store *store, uint64_t id, uint64_t claim, uint64_t lease_ns, uint64_t now_ns,
    void (*done)(const struct rea_store_result *result, void *user_data), void *user_data)
{
	struct rea__op *op;
	int error;

	if (!lease_valid(lease_ns) || claim == 0)
		return REA_ERR_INVALID;
	error = rea__op_new(store, REA__OP_HEARTBEAT, 0, &op);
	if (error != 0)
		return error;
	op->in.hold.id = id;
	op->in.hold.claim = claim;
	op->in.hold.lease_ns = lease_ns;
	rea__op_start(store, op, now_ns, done, user_data);
	return 0;
}

int rea_store_record(struct rea_store *store, uint64_t id, uint64_t claim, const struct rea_store_attempt *attempt,
    uint64_t now_ns, void (*done)(const struct rea_store_result *result, void *user_data), void *user_data)
{
	struct rea__op *op;
	char *at;
	int error;

	if (claim == 0 || !attempt_valid(attempt))
		return REA_ERR_INVALID;
	error = rea__op_new(store, REA__OP_RECORD, attempts_size(attempt, 1), &op);
	if (error != 0)
		return error;
	op->in.hold.id = id;
	op->in.hold.claim = claim;
	op->in.hold.attempt = pack_attempts(store, op, attempt, 1, &at);
	rea__op_start(store, op, now_ns, done, user_data);
	return 0;
}

/* An attempt that was made needs a claim; a record of it needs the attempt. */
static bool settlement_valid(uint64_t claim, bool attempted, const struct rea_store_attempt *attempt)
{
	return attempted ? claim != 0 && (attempt == NULL || attempt_valid(attempt)) : attempt == NULL;
}

int rea_store_reschedule(struct rea_store *store, const struct rea_store_reschedule *reschedule, uint64_t now_ns,
    void (*done)(const struct rea_store_result *result, void *user_data), void *user_data)
{
	size_t attempts_len = reschedule->attempt != NULL;
	struct rea__op *op;
	char *at;
	int error;

	if (reschedule->delay_ns > REA_STORE_DELAY_NS_MAX ||
	    !settlement_valid(reschedule->claim, reschedule->attempted, reschedule->attempt))
		return REA_ERR_INVALID;
	error = rea__op_new(store, REA__OP_RESCHEDULE, attempts_size(reschedule->attempt, attempts_len), &op);
	if (error != 0)
		return error;
	op->in.reschedule = *reschedule;
	op->in.reschedule.attempt = pack_attempts(store, op, reschedule->attempt, attempts_len, &at);
	rea__op_start(store, op, now_ns, done, user_data);
	return 0;
}

static bool finish_valid(const struct rea_store_finish *finish)
{
	if (finish->state != REA_STORE_SUCCESS && finish->state != REA_STORE_GIVEN_UP && finish->state != REA_STORE_CANCELLED)
		return false;
	if (finish->state == REA_STORE_SUCCESS && !finish->attempted)
		return false;
	return text_fits(finish->reason) && settlement_valid(finish->claim, finish->attempted, finish->attempt);
}

int rea_store_finish(struct rea_store *store, const struct rea_store_finish *finish, uint64_t now_ns,
    void (*done)(const struct rea_store_result *result, void *user_data), void *user_data)
{
	size_t attempts_len = finish->attempt != NULL;
	struct rea__op *op;
	char *at;
	int error;

	if (!finish_valid(finish))
		return REA_ERR_INVALID;
	error =
	    rea__op_new(store, REA__OP_FINISH, attempts_size(finish->attempt, attempts_len) + finish->reason.length, &op);
	if (error != 0)
		return error;
	op->in.finish = *finish;
	op->in.finish.attempt = pack_attempts(store, op, finish->attempt, attempts_len, &at);
	pack_text(&at, &op->in.finish.reason);
	rea__op_start(store, op, now_ns, done, user_data);
	return 0;
}

int rea_store_cancel(struct rea_store *store, uint64_t id, struct rea_text reason, uint64_t now_ns,
    void (*done)(const struct rea_store_result *result, void *user_data), void *user_data)
{
	struct rea__op *op;
	char *at;
	int error;

	if (!text_fits(reason))
		return REA_ERR_INVALID;
	error = rea__op_new(store, REA__OP_CANCEL, reason.length, &op);
	if (error != 0)
		return error;
	op->in.cancel.id = id;
	op->in.cancel.reason = reason;
	at = (char *)(op + 1);
	pack_text(&at, &op->in.cancel.reason);
	rea__op_start(store, op, now_ns, done, user_data);
	return 0;
}

int rea_store_replay(struct rea_store *store, const struct rea_store_replay *replay, uint64_t now_ns,
    void (*done)(const struct rea_store_result *result, void *user_data), void *user_data)
{
	struct rea__op *op;
	int error;

	if (replay->delay_ns > REA_STORE_DELAY_NS_MAX)
		return REA_ERR_INVALID;
	error = rea__op_new(store, REA__OP_REPLAY, 0, &op);
	if (error != 0)
		return error;
	op->in.replay = *replay;
	rea__op_start(store, op, now_ns, done, user_data);
	return 0;
}

int rea_store_due(struct rea_store *store, uint64_t until_ns, uint32_t max, uint64_t now_ns,
    void (*done)(const struct rea_store_result *result, void *user_data), void *user_data)
{
	struct rea__op *op;
	int error;

	if (max < 1 || max > REA_STORE_DUE_MAX)
		return REA_ERR_INVALID;
	error = rea__op_new(store, REA__OP_DUE, 0, &op);
	if (error != 0)
		return error;
	op->in.due.until_ns = rea__clock_to_row(&store->clock, until_ns);
	op->in.due.max = max;
	rea__op_start(store, op, now_ns, done, user_data);
	return 0;
}

int rea_store_maintain(struct rea_store *store, const struct rea_store_maintain *maintain, uint64_t now_ns,
    void (*done)(const struct rea_store_result *result, void *user_data), void *user_data)
{
	struct rea__op *op;
	int error;

	if (maintain->keep_ns > REA_STORE_DELAY_NS_MAX || maintain->rows_max < 1 || maintain->rows_max > REA_STORE_MAINTAIN_MAX)
		return REA_ERR_INVALID;
	error = rea__op_new(store, REA__OP_MAINTAIN, 0, &op);
	if (error != 0)
		return error;
	op->in.maintain = *maintain;
	rea__op_start(store, op, now_ns, done, user_data);
	return 0;
}

/* ---- reads ---- */

int rea_store_reader_new(struct rea_store *store, struct rea_store_reader **ret_reader)
{
	return store->backend->reader_new(store, ret_reader);
}

void rea_store_reader_free(struct rea_store_reader *reader)
{
	if (reader != NULL)
		reader->store->backend->reader_free(reader);
}

/* What the last call handed out goes. */
static void reader_begin(struct rea_store_reader *reader)
{
	rea_arena_fini(&reader->arena);
	rea_arena_init(&reader->arena, &reader->store->alloc);
}

int rea_store_get(struct rea_store_reader *reader, uint64_t id, struct rea_store_task *ret_task)
{
	reader_begin(reader);
	return reader->store->backend->get(reader, id, ret_task);
}

int rea_store_list(struct rea_store_reader *reader, const struct rea_store_filter *filter, struct rea_store_page *ret_page)
{
	if (filter->max < 1 || filter->max > REA_STORE_PAGE_MAX || filter->payload_max > LIST_PAYLOAD_MAX ||
	    !text_fits(filter->target) || !text_fits(filter->biz_id) || (filter->states & ~REA_STORE_STATES_ALL) != 0)
		return REA_ERR_INVALID;
	reader_begin(reader);
	return reader->store->backend->list(reader, filter, ret_page);
}

int rea_store_attempts(struct rea_store_reader *reader, uint64_t id, uint32_t after, uint32_t max,
    const struct rea_store_attempt **ret_attempts, size_t *ret_attempts_len)
{
	if (max < 1 || max > REA_STORE_PAGE_MAX)
		return REA_ERR_INVALID;
	reader_begin(reader);
	return reader->store->backend->attempts(reader, id, after, max, ret_attempts, ret_attempts_len);
}
