/*
 * Calls and their attempts, without a clock and without waiting: the program says what time it is and what libcurl
 * said. Guarantees: one attempt is one request (request.c); the handle is given back as it was; whatever the engine
 * decided is done, and `done` is called once.
 *
 *            due                    message, time is up: retry
 *   READY ─────────▶ FLYING ─────────────────────────────────▶ WAITING
 *     │               │  ▲              due                       │
 *     │               │  └────────────────────────────────────────┤
 *     │ due: none,    │ message, time is up: final,               │ due: none,
 *     │ cancelled     │ cancelled                                 │ cancelled
 *     └────────────▶ ENDED ◀──────────────────────────────────────┘
 *
 *   READY    begun, its first attempt is due; the handle is in no multi
 *   FLYING   the handle is in the multi; due when the attempt's time is up
 *   WAITING  the handle is in no multi; due when the wait is over; a failed reply may be held
 *   ENDED    in no list; `done` has been or is being called
 */
#include "curl/internal.h"

#include "base/bounds.h"
#include "base/hash.h"

#include <assert.h>
#include <sys/random.h>

/* ---- the object ---- */

void rea_curl_options_init(struct rea_curl_options *options)
{
	*options = (struct rea_curl_options){.version = REA_CURL_OPTIONS_VERSION};
}

static int read_seed(const struct rea_curl_options *options, uint64_t *ret_seed)
{
	*ret_seed = options->seed;
	return *ret_seed != 0 || getentropy(ret_seed, sizeof(*ret_seed)) == 0 ? 0 : REA_ERR_IO;
}

int rea_curl_new(const struct rea_curl_options *options, struct rea_curl **ret_curl, struct rea_error_info *ret_info)
{
	struct rea_curl_options defaults;
	const struct rea_alloc *alloc;
	struct rea_curl *curl;
	uint64_t seed;

	rea_curl_options_init(&defaults);
	options = options != NULL ? options : &defaults;
	assert(options->version == REA_CURL_OPTIONS_VERSION &&
	       "the options were not initialised by rea_curl_options_init");
	if (read_seed(options, &seed) != 0)
		return rea__refuse(ret_info, "seed", REA_ERR_IO,
		    "the system gives no random numbers; seed must be another one than 0");
	alloc = options->alloc != NULL ? options->alloc : rea_alloc_default();
	curl = alloc->realloc(NULL, sizeof(*curl), alloc->user_data);
	if (curl == NULL)
		return REA_ERR_NOMEM;
	*curl = (struct rea_curl){.alloc = *alloc, .multi = options->multi, .own_multi = options->multi == NULL};
	rea_random_init(&curl->random, seed);
	if (curl->own_multi)
		curl->multi = curl_multi_init();
	if (curl->multi == NULL) {
		rea_curl_free(curl);
		return REA_ERR_NOMEM;
	}
	*ret_curl = curl;
	return 0;
}

/* ---- transfers and their states ---- */

static struct rea__transfer **bucket_of(struct rea_curl *curl, const CURL *easy)
{
	return &curl->buckets[rea_hash(&easy, sizeof(easy)) % REA__CURL_BUCKETS];
}

/* The link to the transfer of this handle, or the one at the end of its bucket. */
static struct rea__transfer **find(struct rea_curl *curl, const CURL *easy)
{
	struct rea__transfer **link = bucket_of(curl, easy);

	while (*link != NULL && (*link)->easy != easy)
		link = &(*link)->next;
	return link;
}

static void set_due(struct rea__transfer *transfer, uint64_t due_ns)
{
	struct rea_heap *heap = &transfer->curl->schedule.heap;

	if (transfer->scheduled)
		rea_heap_remove(heap, transfer->number);
	rea_heap_push(heap, transfer->number, due_ns);
	transfer->scheduled = true;
}

static void unlist(struct rea__transfer *transfer)
{
	struct rea__schedule *schedule = &transfer->curl->schedule;

	rea_heap_remove(&schedule->heap, transfer->number);
	rea__schedule_remove(schedule, transfer->number);
	*find(transfer->curl, transfer->easy) = transfer->next;
}

static void enter(struct rea__transfer *transfer, enum rea__transfer_state to, uint64_t due_ns)
{
	assert(transfer->state != REA__TRANSFER_ENDED && to != REA__TRANSFER_READY && to != transfer->state);
	assert(to != REA__TRANSFER_WAITING || transfer->state == REA__TRANSFER_FLYING);
	/* An attempt that leaves FLYING takes its handle out. */
	if (transfer->state == REA__TRANSFER_FLYING)
		curl_multi_remove_handle(transfer->curl->multi, transfer->easy);
	transfer->state = to;
	if (to == REA__TRANSFER_ENDED)
		unlist(transfer);
	else
		set_due(transfer, transfer->cancelled ? 0 : due_ns);
}

static void transfer_free(struct rea__transfer *transfer)
{
	struct rea_alloc alloc = transfer->curl->alloc;

	rea__body_fini(&transfer->body);
	rea__sink_fini(&transfer->sink);
	alloc.free(transfer, alloc.user_data);
}

/* The end: hand over the last reply, give the handle back, tell. */
static void finish(struct rea__transfer *transfer, const struct rea_decision *decision)
{
	void (*done)(CURL *, const struct rea_curl_result *, void *) = transfer->done;
	struct rea_curl_result result;
	CURL *easy = transfer->easy;
	void *done_data = transfer->done_data;

	enter(transfer, REA__TRANSFER_ENDED, 0);
	transfer->result.decision = *decision;
	if (decision->reason != REA_REASON_CANCELLED && transfer->call.write != NULL && !rea__sink_release(&transfer->sink))
		transfer->result.code = CURLE_WRITE_ERROR;
	rea__request_give_handle_back(transfer);
	result = transfer->result;
	transfer_free(transfer);
	done(easy, &result, done_data);
}

static void leave_load(struct rea__transfer *transfer, const struct rea_report *report, uint64_t now_ns)
{
	if (transfer->attempt.load != NULL)
		rea_load_end(transfer->attempt.load, report, now_ns);
	transfer->attempt.load = NULL;
}

/* Without a word to the program. */
static void abandon(struct rea__transfer *transfer)
{
	static const struct rea_report cancelled = {.outcome = REA_OUTCOME_CANCELLED};
	struct rea_decision decision;

	leave_load(transfer, &cancelled, transfer->attempt.start_ns);
	rea_call_cancel(&transfer->decide, transfer->attempt.start_ns, &decision);
	enter(transfer, REA__TRANSFER_ENDED, 0);
	rea__request_give_handle_back(transfer);
	transfer_free(transfer);
}

void rea_curl_free(struct rea_curl *curl)
{
	struct rea_alloc alloc;

	if (curl == NULL)
		return;
	for (size_t i = 0; i < REA__CURL_BUCKETS; i++)
		while (curl->buckets[i] != NULL)
			abandon(curl->buckets[i]);
	if (curl->own_multi)
		curl_multi_cleanup(curl->multi);
	rea__schedule_fini(&curl->schedule, &curl->alloc);
	alloc = curl->alloc;
	alloc.free(curl, alloc.user_data);
}

/* ---- the end of an attempt ---- */

/* What libcurl would have said had we not stopped it. */
static CURLcode code_of(const struct rea__attempt *attempt, CURLcode code)
{
	return attempt->misplaced ? CURLE_COULDNT_CONNECT : rea__once_code(&attempt->once, code);
}

/* What the engine has to know besides the outcome. */
static uint32_t replay_flags(struct rea__transfer *transfer, enum rea_outcome outcome)
{
	uint32_t flags = 0;

	/* Nothing follows these: the program's file stays where it is. */
	if (outcome == REA_OUTCOME_OK || outcome == REA_OUTCOME_CANCELLED || outcome == REA_OUTCOME_PERMANENT)
		return 0;
	if (!rea__request_unanswered(transfer))
		flags |= REA_REPORT_RESPONSE_STARTED;
	if (!rea__body_rewind(&transfer->body))
		flags |= REA_REPORT_BODY_OVER_LIMIT;
	return flags;
}

static void judge(struct rea__transfer *transfer, CURLcode libcurl_code, uint64_t now_ns)
{
	struct rea_report *report = &transfer->result.report;
	CURLcode code = code_of(&transfer->attempt, libcurl_code);

	rea__curl_judge(transfer->easy, code, rea__once_phase(&transfer->attempt.once, transfer->easy),
	    transfer->call.options.policy, report);
	if (transfer->attempt.misplaced) {
		report->outcome = REA_OUTCOME_PERMANENT;
		report->flags = REA_REPORT_BLOCKED;
	}
	report->flags |= replay_flags(transfer, report->outcome);
	report->latency_ns = rea_time_sub(now_ns, transfer->attempt.start_ns);
	transfer->result.code = code;
}

static const struct rea_instances *instances_of(const struct rea__transfer *transfer)
{
	static const struct rea_instance url_host = {.weight = 1};
	static const struct rea_instances whole = {.items = &url_host, .count = 1};

	return transfer->call.instances != NULL ? transfer->call.instances : &whole;
}

static void end_attempt(struct rea__transfer *transfer, CURLcode code, uint64_t now_ns)
{
	struct rea_report *report = &transfer->result.report;
	struct rea_decision decision;

	judge(transfer, code, now_ns);
	leave_load(transfer, report, now_ns);
	rea_call_report(&transfer->decide, report, instances_of(transfer), &transfer->curl->random, now_ns, &decision);
	rea__record(transfer, &decision, report, true, now_ns);
	if (decision.step == REA_STEP_WAIT)
		enter(transfer, REA__TRANSFER_WAITING, decision.wait_until_ns);
	else
		finish(transfer, &decision);
}

/* From outside, in any state. */
static void end_cancelled(struct rea__transfer *transfer, uint64_t now_ns)
{
	struct rea_report report = {.outcome = REA_OUTCOME_CANCELLED};
	bool flying = transfer->state == REA__TRANSFER_FLYING;
	struct rea_decision decision;

	if (flying)
		report.latency_ns = rea_time_sub(now_ns, transfer->attempt.start_ns);
	leave_load(transfer, &report, now_ns);
	rea_call_cancel(&transfer->decide, now_ns, &decision);
	transfer->result.code = CURLE_ABORTED_BY_CALLBACK;
	if (flying)
		transfer->result.report = report;
	rea__record(transfer, &decision, &report, flying, now_ns);
	finish(transfer, &decision);
}

/* ---- the beginning of an attempt ---- */

/* There was none to make. The last one's result stays what it was. */
static void end_without_attempt(struct rea__transfer *transfer, const struct rea_decision *decision, uint64_t now_ns)
{
	static const struct rea_report none = {.outcome = REA_OUTCOME_NEVER_SENT};

	if (rea_call_attempts(&transfer->decide) == 0) {
		transfer->result.report = none;
		transfer->result.code =
		    decision->reason == REA_REASON_DEADLINE ? CURLE_OPERATION_TIMEDOUT : CURLE_COULDNT_CONNECT;
	}
	rea__record(transfer, decision, &none, false, now_ns);
	finish(transfer, decision);
}

static CURLcode code_of_multi(CURLMcode code)
{
	if (code == CURLM_OK)
		return CURLE_OK;
	return code == CURLM_OUT_OF_MEMORY ? CURLE_OUT_OF_MEMORY : CURLE_BAD_FUNCTION_ARGUMENT;
}

static void begin_attempt(struct rea__transfer *transfer, const struct rea_decision *decision, uint64_t now_ns)
{
	const struct rea_instance *instance = &instances_of(transfer)->items[decision->instance];
	CURLcode code;

	transfer->attempt = (struct rea__attempt){
	    .number = decision->attempt,
	    .start_ns = now_ns,
	    .instance = decision->instance,
	    .load = instance->load,
	    .id = instance->id,
	};
	/* A later attempt's reply takes the place of the one that is held. */
	rea__sink_drop(&transfer->sink);
	rea__request_prepare(transfer, decision, now_ns);
	if (instance->load != NULL)
		rea_load_begin(instance->load, now_ns);
	code = code_of_multi(curl_multi_add_handle(transfer->curl->multi, transfer->easy));
	if (code != CURLE_OK)
		end_attempt(transfer, code, now_ns);
	else
		enter(transfer, REA__TRANSFER_FLYING, decision->attempt_deadline_ns);
}

static void next_attempt(struct rea__transfer *transfer, uint64_t now_ns)
{
	struct rea_decision decision;

	rea_call_attempt(&transfer->decide, instances_of(transfer), &transfer->curl->random, now_ns, &decision);
	switch (decision.step) {
	case REA_STEP_ATTEMPT:
		begin_attempt(transfer, &decision, now_ns);
		return;
	case REA_STEP_WAIT:
		set_due(transfer, decision.wait_until_ns);
		return;
	case REA_STEP_DONE:
		end_without_attempt(transfer, &decision, now_ns);
		return;
	}
}

/* ---- what is due ---- */

/* A reply that is being passed on has kept the attempt's time; only the call's deadline can end it now. */
static void time_up(struct rea__transfer *transfer, uint64_t now_ns)
{
	uint64_t deadline_ns = rea_call_deadline(&transfer->decide);

	if (now_ns < deadline_ns && !rea__request_unanswered(transfer))
		set_due(transfer, deadline_ns);
	else
		end_attempt(transfer, CURLE_OPERATION_TIMEDOUT, now_ns);
}

static void run_due(struct rea__transfer *transfer, uint64_t now_ns)
{
	if (transfer->cancelled) {
		end_cancelled(transfer, now_ns);
		return;
	}
	switch (transfer->state) {
	case REA__TRANSFER_READY:
	case REA__TRANSFER_WAITING:
		next_attempt(transfer, now_ns);
		return;
	case REA__TRANSFER_FLYING:
		time_up(transfer, now_ns);
		return;
	case REA__TRANSFER_ENDED:
		break;
	}
	assert(transfer->state != REA__TRANSFER_ENDED);
}

void rea_curl_run(struct rea_curl *curl, uint64_t now_ns)
{
	/* What becomes due while this runs is for the next time. */
	uint32_t arrivals = curl->schedule.heap.arrivals;
	struct rea__transfer *transfer;

	while ((transfer = rea__schedule_due(&curl->schedule, now_ns, arrivals)) != NULL)
		run_due(transfer, now_ns);
}

uint64_t rea_curl_next(const struct rea_curl *curl)
{
	return rea_heap_next(&curl->schedule.heap);
}

bool rea_curl_message(struct rea_curl *curl, const CURLMsg *message, uint64_t now_ns)
{
	struct rea__transfer *transfer = *find(curl, message->easy_handle);

	if (transfer == NULL || message->msg != CURLMSG_DONE)
		return false;
	assert(transfer->state == REA__TRANSFER_FLYING);
	end_attempt(transfer, message->data.result, now_ns);
	return true;
}

int rea_curl_cancel(struct rea_curl *curl, CURL *easy)
{
	struct rea__transfer *transfer = *find(curl, easy);

	if (transfer == NULL)
		return REA_ERR_NOT_FOUND;
	transfer->cancelled = true;
	set_due(transfer, 0);
	return 0;
}

/* ---- the beginning of a call ---- */

void rea_curl_call_init(struct rea_curl_call *call)
{
	*call = (struct rea_curl_call){
	    .version = REA_CURL_CALL_VERSION, .held_bytes_max = REA_CURL_HELD_BYTES, .cancel_fd = -1};
	rea_call_options_init(&call->options);
}

static int check(struct rea_curl *curl, const CURL *easy, const struct rea_curl_call *call, struct rea_error_info *info)
{
	assert(call->version == REA_CURL_CALL_VERSION && "the call was not initialised by rea_curl_call_init");
	if (call->options.policy == NULL)
		return rea__refuse(info, "options.policy", REA_ERR_INVALID, "options.policy is NULL; it must be set");
	if (call->header != NULL && call->write == NULL)
		return rea__refuse(info, "header", REA_ERR_INVALID, "header is set and write is not; it must be set too");
	if (*find(curl, easy) != NULL)
		return rea__refuse(info, "easy", REA_ERR_INVALID,
		    "the handle's call is under way; the next one must wait until it has ended");
	return rea_policy_validate(call->options.policy, info);
}

static int read_request(struct rea__transfer *transfer, struct rea_error_info *info)
{
	int error = rea__request_read_fields(transfer, info);

	return error != 0 ? error : rea__request_read_url(transfer, info);
}

int rea__curl_start(struct rea_curl *curl, CURL *easy, const struct rea_curl_call *call, uint64_t now_ns,
    void (*done)(CURL *easy, const struct rea_curl_result *result, void *user_data), void *user_data,
    struct rea_error_info *info)
{
	struct rea__transfer *transfer;
	int error = check(curl, easy, call, info);

	if (error != 0)
		return error;
	transfer = curl->alloc.realloc(NULL, sizeof(*transfer), curl->alloc.user_data);
	if (transfer == NULL)
		return REA_ERR_NOMEM;
	*transfer = (struct rea__transfer){.curl = curl, .easy = easy, .call = *call, .done = done, .done_data = user_data};
	/* The request is complete before it begins. */
	transfer->call.options.deadline_open = false;
	rea__body_init(&transfer->body, call, call->options.policy->replay_limit_bytes, &curl->alloc);
	rea__sink_init(&transfer->sink, call, &curl->alloc);
	error = read_request(transfer, info);
	if (error == 0)
		error = rea__schedule_add(&curl->schedule, transfer, &curl->alloc, &transfer->number);
	if (error != 0) {
		transfer_free(transfer);
		return error;
	}
	transfer->id = rea_random_next(&curl->random);
	rea_call_begin(&transfer->decide, &transfer->call.options, now_ns);
	rea__request_take_handle(transfer);
	*find(curl, easy) = transfer;
	set_due(transfer, now_ns);
	return 0;
}

int rea_curl_start(struct rea_curl *curl, CURL *easy, const struct rea_curl_call *call, uint64_t now_ns,
    void (*done)(CURL *easy, const struct rea_curl_result *result, void *user_data), void *user_data,
    struct rea_error_info *ret_info)
{
	assert(!curl->own_multi && "rea_curl_start is for a program that drives its own multi");
	return rea__curl_start(curl, easy, call, now_ns, done, user_data, ret_info);
}
