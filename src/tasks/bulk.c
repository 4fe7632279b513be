/*
 * A batch is one call under the engine, with its keys as permission to be repeated: an attempt hands in what is still open, and is a success when nothing is;
 * 503, of the request or of single lines, is `unavailable`, and the server's Retry-After is kept. What is refused for good is told and left behind.
 */
#include "tasks/bulk.h"

#include "base/hash.h"
#include "tasks/show.h"

#include <rea/call.h>
#include <rea/curl.h>
#include <rea/guard.h>

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BATCH 100
/* A request is limited by limits.task-bytes, 1 MiB by default. A longer line goes alone. */
#define BATCH_BYTES ((size_t)512 * 1024)
#define PROGRESS_NS (100 * REA_NS_PER_MS)

/* How often each line was seen: two equal lines are two tasks. Open addressing, at most half full. */
struct seen {
	struct {
		uint64_t hash; /* of the line; 0 = free */
		uint32_t times;
	} * slots;
	size_t capacity, count;
};

struct entry {
	json_t *submit;
	size_t line;
	bool open; /* not answered for good yet */
};

struct bulk {
	struct tasks_client *client;
	const struct bulk_options *options;
	struct seen seen;
	struct entry entries[BATCH];
	size_t entries_len;
	size_t bytes; /* of their lines */
	size_t lines, taken, existed, refused;
	uint64_t told_ns;
	struct rea_policy policy;
	struct rea_random random;
};

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * REA_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* ---- keys ---- */

static bool seen_grow(struct seen *seen)
{
	struct seen larger = {.capacity = seen->capacity ? seen->capacity * 2 : 1024, .count = seen->count};

	larger.slots = calloc(larger.capacity, sizeof(*larger.slots));
	if (larger.slots == NULL)
		return false;
	for (size_t i = 0; i < seen->capacity; i++) {
		size_t at = seen->slots[i].hash & (larger.capacity - 1);

		if (seen->slots[i].hash == 0)
			continue;
		while (larger.slots[at].hash != 0)
			at = (at + 1) & (larger.capacity - 1);
		larger.slots[at].hash = seen->slots[i].hash;
		larger.slots[at].times = seen->slots[i].times;
	}
	free(seen->slots);
	*seen = larger;
	return true;
}

/* How often hash has been seen, this time included; 0 = out of memory. */
static uint32_t seen_again(struct seen *seen, uint64_t hash)
{
	size_t at;

	if ((seen->count + 1) * 2 > seen->capacity && !seen_grow(seen))
		return 0;
	for (at = hash & (seen->capacity - 1); seen->slots[at].hash != 0 && seen->slots[at].hash != hash;)
		at = (at + 1) & (seen->capacity - 1);
	seen->count += seen->slots[at].hash == 0;
	seen->slots[at].hash = hash;
	return ++seen->slots[at].times;
}

/* The same content gives the same key wherever it stands in the file, so that lines around it may be mended. */
static bool give_key(struct bulk *bulk, json_t *submit, const char *line, size_t length)
{
	uint64_t hash = rea_hash(line, length) | 1;
	char hex[REA_HASH_HEX_SIZE];
	uint32_t times;

	if (json_object_get(submit, "key") != NULL)
		return true;
	times = seen_again(&bulk->seen, hash);
	rea_hash_hex(hash, hex);
	return times > 0 &&
	       json_object_set_new(submit, "key", json_sprintf("%s-%s-%u", bulk->options->key_prefix, hex, times)) == 0;
}

/* ---- answers ---- */

static void progress(struct bulk *bulk, bool last)
{
	uint64_t now_ns = clock_ns();

	if (!bulk->options->progress || (!last && now_ns < rea_time_add(bulk->told_ns, PROGRESS_NS)))
		return;
	bulk->told_ns = now_ns;
	fprintf(stderr, "\r%zu lines: %zu taken, %zu there already, %zu refused\033[K%s", bulk->lines, bulk->taken,
	    bulk->existed, bulk->refused, last ? "\n" : "");
}

static void refuse(struct bulk *bulk, struct entry *entry, const json_t *problem, long status)
{
	char what[64];

	if (bulk->options->progress)
		fprintf(stderr, "\r\033[K");
	snprintf(what, sizeof(what), "%.40s:%zu", bulk->options->name, entry->line);
	tasks_tell_problem(problem, status, what);
	entry->open = false;
	bulk->refused++;
}

/* One line's result. What is not answered for good stays open. */
static void take_result(struct bulk *bulk, struct entry *entry, const json_t *result)
{
	long status = (long)json_integer_value(json_object_get(result, "status"));
	const json_t *task = json_object_get(result, "task");

	if (status == 503 || status == 429)
		return;
	if (status < 200 || status >= 300) {
		refuse(bulk, entry, json_object_get(result, "problem"), status);
		return;
	}
	entry->open = false;
	if (json_is_true(json_object_get(task, "existed")))
		bulk->existed++;
	else
		bulk->taken++;
	if (bulk->options->json && task != NULL)
		show_json(task);
}

static size_t count_open(const struct bulk *bulk)
{
	size_t count = 0;

	for (size_t i = 0; i < bulk->entries_len; i++)
		count += bulk->entries[i].open;
	return count;
}

/* The results stand in the order of what was open. False: there are not as many. */
static bool take_results(struct bulk *bulk, const json_t *results)
{
	size_t at = 0;

	if (json_array_size(results) != count_open(bulk))
		return false;
	for (size_t i = 0; i < bulk->entries_len; i++)
		if (bulk->entries[i].open)
			take_result(bulk, &bulk->entries[i], json_array_get(results, at++));
	return true;
}

/* ---- batches ---- */

static json_t *open_submits(const struct bulk *bulk)
{
	json_t *array = json_array();

	for (size_t i = 0; i < bulk->entries_len; i++)
		if (bulk->entries[i].open && json_array_append(array, bulk->entries[i].submit) != 0) {
			json_decref(array);
			return NULL;
		}
	return array;
}

/* One attempt. False: out of memory, told. */
static bool hand_in(struct bulk *bulk, struct rea_report *ret_report)
{
	struct tasks_client *client = bulk->client;
	json_t *array = open_submits(bulk);
	bool good = array != NULL && tasks_send(client, "POST", "/v1/tasks", array);

	if (array == NULL)
		tasks_out_of_memory();
	json_decref(array);
	if (!good)
		return false;
	rea_curl_report(client->curl, client->code, &bulk->policy, ret_report);
	if (ret_report->outcome != REA_OUTCOME_OK)
		return true;
	if (!take_results(bulk, json_object_get(client->document, "results")))
		ret_report->outcome = REA_OUTCOME_PERMANENT;
	else if (count_open(bulk) > 0)
		ret_report->outcome = REA_OUTCOME_UNAVAILABLE;
	return true;
}

static void sleep_until(uint64_t until_ns)
{
	struct timespec until = {.tv_sec = (time_t)(until_ns / REA_NS_PER_S), .tv_nsec = (long)(until_ns % REA_NS_PER_S)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

static void begin_call(const struct bulk *bulk, struct rea_call *call)
{
	struct rea_call_options options;

	rea_call_options_init(&options);
	options.policy = &bulk->policy;
	options.grant = (struct rea_grant){REA_PERMISSION_IDEMPOTENT_WITH_KEY, REA_PERMISSION_SOURCE_CALLER};
	options.has_key = true;
	options.single_target = true;
	rea_call_begin(call, &options, clock_ns());
}

/* True: nothing of the batch is open. Else it cannot go on, and why was told. */
static bool submit_batch(struct bulk *bulk)
{
	struct rea_decision decision;
	struct rea_report report = {.outcome = REA_OUTCOME_NEVER_SENT};
	struct rea_call call;

	begin_call(bulk, &call);
	for (;;) {
		rea_call_attempt(&call, NULL, &bulk->random, clock_ns(), &decision);
		if (decision.step == REA_STEP_DONE)
			break;
		if (!hand_in(bulk, &report)) {
			rea_call_cancel(&call, clock_ns(), &decision);
			return false;
		}
		rea_call_report(&call, &report, NULL, &bulk->random, clock_ns(), &decision);
		progress(bulk, false);
		if (decision.step == REA_STEP_DONE)
			break;
		sleep_until(decision.wait_until_ns);
	}
	if (decision.verdict == REA_VERDICT_SUCCESS)
		return true;
	if (bulk->options->progress)
		fprintf(stderr, "\n");
	if (bulk->client->status == 200 && report.outcome == REA_OUTCOME_UNAVAILABLE)
		fprintf(stderr, "rea tasks: the queue takes no more now (503): %s after %u attempts\n",
		    rea_reason_name(decision.reason), rea_call_attempts(&call));
	else
		tasks_tell(bulk->client);
	return false;
}

static void clear_batch(struct bulk *bulk)
{
	for (size_t i = 0; i < bulk->entries_len; i++)
		json_decref(bulk->entries[i].submit);
	bulk->entries_len = bulk->bytes = 0;
}

/* ---- lines ---- */

/* False: it cannot go on, told. */
static bool make_room(struct bulk *bulk, size_t length)
{
	bool good = true;

	if (bulk->entries_len == BATCH || (bulk->entries_len > 0 && bulk->bytes + length > BATCH_BYTES)) {
		good = submit_batch(bulk);
		clear_batch(bulk);
	}
	return good;
}

/* False: out of memory, told. */
static bool add_line(struct bulk *bulk, const char *line, size_t length)
{
	struct entry *entry = &bulk->entries[bulk->entries_len];
	json_error_t error;

	*entry = (struct entry){
	    .line = bulk->lines, .open = true, .submit = json_loadb(line, length, JSON_REJECT_DUPLICATES, &error)};
	if (!json_is_object(entry->submit)) {
		json_t *problem =
		    json_pack("{s:s}", "detail", entry->submit == NULL ? error.text : "a line is a JSON object");

		json_decref(entry->submit);
		refuse(bulk, entry, problem, 400);
		json_decref(problem);
		return true;
	}
	bulk->entries_len++;
	bulk->bytes += length;
	if (give_key(bulk, entry->submit, line, length))
		return true;
	tasks_out_of_memory();
	return false;
}

static bool submit_lines(struct bulk *bulk, FILE *file)
{
	char *line = NULL;
	size_t size = 0;
	ssize_t length;
	bool good = true;

	while (good && (length = getline(&line, &size, file)) >= 0) {
		while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r'))
			length--;
		bulk->lines++;
		if (length > 0)
			good = make_room(bulk, (size_t)length) && add_line(bulk, line, (size_t)length);
	}
	free(line);
	if (good && !feof(file)) {
		fprintf(stderr, "rea tasks: cannot read %s: %s\n", bulk->options->name, strerror(errno));
		good = false;
	}
	if (good && bulk->entries_len > 0)
		good = submit_batch(bulk);
	clear_batch(bulk);
	return good;
}

int bulk_submit(struct tasks_client *client, FILE *file, const struct bulk_options *options)
{
	struct bulk bulk = {.client = client, .options = options};
	bool good;

	rea_policy_defaults(&bulk.policy);
	bulk.policy.enabled = true;
	bulk.policy.max_retry_next_instance = REA_ATTEMPTS_MAX - 1;
	bulk.policy.min_backoff_ns = 200 * REA_NS_PER_MS;
	bulk.policy.max_backoff_ns = 10 * REA_NS_PER_S;
	bulk.policy.attempt_timeout_ns = bulk.policy.deadline_ns = 300 * REA_NS_PER_S;
	rea_random_init(&bulk.random, rea_seed());
	good = submit_lines(&bulk, file);
	progress(&bulk, true);
	if (!options->progress || !good)
		fprintf(stderr, "rea tasks: %zu lines: %zu taken, %zu there already, %zu refused%s\n", bulk.lines,
		    bulk.taken, bulk.existed, bulk.refused,
		    good ? "" : "; not finished: hand the same file in again, what is there is not repeated");
	free(bulk.seen.slots);
	return good && bulk.refused == 0 ? 0 : 1;
}
