#include "torture/ledger.h"

#include "base/hash.h"
#include "base/slice.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_PREFIX "torture-%llx-"
#define BREACH_MAX 240
/* One submit in so many is one that was there. */
#define AGAIN_IN 10
#define KINDS 8 /* of so many tasks one is of the kind ONCE, one LATER */

enum state { UNSEEN, PENDING, RUNNING, RETRYING, SUCCESS, GIVEN_UP, CANCELLED };
static const char *const state_names[] = {"", "PENDING", "RUNNING", "RETRYING", "SUCCESS", "GIVEN_UP", "CANCELLED"};

struct entry {
	uint64_t id;       /* 0 = not known */
	uint64_t body;     /* of its first request at the target; 0 = none */
	uint32_t recorded; /* attempts */
	uint32_t requests;
	uint32_t list; /* the last list that had it */
	uint8_t state; /* enum state, in that list */
	bool acknowledged, cancelled, has_due, crash_loop;
};

struct ledger {
	pthread_mutex_t mutex;
	uint64_t seed;
	uint32_t concurrency;
	bool power_cuts;
	struct entry *entries;
	size_t entries_len, entries_max;
	uint32_t list;
	struct ledger_counts counts;
	bool broken, closed;
	char breaches[LEDGER_PROMISES_COUNT][BREACH_MAX];
};

struct ledger *ledger_new(uint64_t seed, uint32_t concurrency, bool power_cuts)
{
	struct ledger *ledger = calloc(1, sizeof(*ledger));

	if (ledger == NULL)
		return NULL;
	pthread_mutex_init(&ledger->mutex, NULL);
	ledger->seed = seed;
	ledger->concurrency = concurrency;
	ledger->power_cuts = power_cuts;
	return ledger;
}

void ledger_free(struct ledger *ledger)
{
	if (ledger == NULL)
		return;
	pthread_mutex_destroy(&ledger->mutex);
	free(ledger->entries);
	free(ledger);
}

/* The first breach of a promise stands; the mutex is held. */
__attribute__((format(printf, 3, 4))) static void breach(
    struct ledger *ledger, enum ledger_promise promise, const char *format, ...)
{
	va_list arguments;

	ledger->broken = true;
	if (ledger->breaches[promise][0] != '\0')
		return;
	va_start(arguments, format);
	vsnprintf(ledger->breaches[promise], BREACH_MAX, format, arguments);
	va_end(arguments);
}

static bool grow(void *array, size_t size, size_t length, size_t *max)
{
	void **place = array, *grown;
	size_t larger = *max != 0 ? *max * 2 : 1024;

	if (length < *max)
		return true;
	grown = realloc(*place, larger * size);
	if (grown == NULL)
		return false;
	*place = grown;
	*max = larger;
	return true;
}

/* ---- what tasks there are ---- */

static enum ledger_kind kind_of(uint32_t number)
{
	return number % KINDS == 3 ? LEDGER_ONCE : number % KINDS == 6 ? LEDGER_LATER : LEDGER_AGAIN;
}

static void write_task(const struct ledger *ledger, uint32_t number, struct ledger_task *task)
{
	struct rea_random random;
	size_t length, at;

	rea_random_init(&random, ledger->seed * 1000003 + number);
	task->number = number;
	task->kind = kind_of(number);
	snprintf(task->key, sizeof(task->key), KEY_PREFIX "%u", (unsigned long long)ledger->seed, number);
	at = (size_t)snprintf(task->body, sizeof(task->body), "%u ", number);
	length = at + (size_t)rea_random_below(&random, LEDGER_BODY_MAX - 32);
	for (; at < length; at++)
		task->body[at] = (char)('a' + (char)rea_random_below(&random, 26));
	task->body[at] = '\0';
}

bool ledger_next(struct ledger *ledger, struct rea_random *random, struct ledger_task *ret_task)
{
	bool good = true;

	pthread_mutex_lock(&ledger->mutex);
	ret_task->again = ledger->entries_len > 0 && rea_random_below(random, AGAIN_IN) == 0;
	if (ret_task->again) {
		write_task(ledger, (uint32_t)rea_random_below(random, ledger->entries_len), ret_task);
	} else if (grow(&ledger->entries, sizeof(*ledger->entries), ledger->entries_len, &ledger->entries_max)) {
		ledger->entries[ledger->entries_len] = (struct entry){.id = 0};
		write_task(ledger, (uint32_t)ledger->entries_len++, ret_task);
	} else
		good = false;
	ledger->counts.submits += good;
	pthread_mutex_unlock(&ledger->mutex);
	return good;
}

void ledger_acknowledged(struct ledger *ledger, uint32_t number, uint64_t id, bool existed)
{
	struct entry *entry;

	pthread_mutex_lock(&ledger->mutex);
	entry = &ledger->entries[number];
	ledger->counts.repeated += existed;
	if (id == 0)
		breach(ledger, LEDGER_KEYS, "task %u was acknowledged without an id", number);
	else if (entry->id != 0 && entry->id != id)
		breach(ledger, LEDGER_KEYS, "task %u was acknowledged as %llu, and asked for again as %llu", number,
		    (unsigned long long)entry->id, (unsigned long long)id);
	else
		entry->id = id;
	entry->acknowledged = true;
	pthread_mutex_unlock(&ledger->mutex);
}

void ledger_cancelled(struct ledger *ledger, uint32_t number)
{
	pthread_mutex_lock(&ledger->mutex);
	ledger->entries[number].cancelled = true;
	pthread_mutex_unlock(&ledger->mutex);
}

void ledger_refused(struct ledger *ledger, uint32_t number, long status, const char *detail)
{
	pthread_mutex_lock(&ledger->mutex);
	breach(ledger, LEDGER_KEYS, "task %u, whose content never changes, was answered with %ld: %s", number, status, detail);
	pthread_mutex_unlock(&ledger->mutex);
}

/* ---- what the API shows ---- */

void ledger_list(struct ledger *ledger)
{
	pthread_mutex_lock(&ledger->mutex);
	ledger->list++;
	pthread_mutex_unlock(&ledger->mutex);
}

static bool is_over(enum state state)
{
	return state >= SUCCESS;
}

/* The entry that a key names. NULL: it is none of ours. */
static struct entry *entry_of(struct ledger *ledger, const char *key, uint32_t *ret_number)
{
	char prefix[LEDGER_KEY_MAX];
	size_t length = (size_t)snprintf(prefix, sizeof(prefix), KEY_PREFIX, (unsigned long long)ledger->seed);
	uint64_t number;

	if (key == NULL || strncmp(key, prefix, length) != 0 ||
	    !rea_slice_to_u64(rea_slice_of(key + length), &number) || number >= ledger->entries_len)
		return NULL;
	*ret_number = (uint32_t)number;
	return &ledger->entries[number];
}

static enum state read_state(const json_t *task)
{
	const char *name = json_string_value(json_object_get(task, "state"));

	for (size_t i = 1; name != NULL && i < sizeof(state_names) / sizeof(state_names[0]); i++)
		if (strcmp(name, state_names[i]) == 0)
			return (enum state)i;
	return UNSEEN;
}

static void check_listed(
    struct ledger *ledger, struct entry *entry, uint32_t number, enum state state, uint64_t id, uint32_t recorded)
{
	if (entry->list == ledger->list)
		breach(ledger, LEDGER_KEYS, "task %u is there twice, as %llu and %llu", number,
		    (unsigned long long)entry->id, (unsigned long long)id);
	else if (entry->id != 0 && entry->id != id)
		breach(ledger, LEDGER_KEYS, "task %u was acknowledged as %llu and is %llu now", number,
		    (unsigned long long)entry->id, (unsigned long long)id);
	if (is_over((enum state)entry->state) && state != (enum state)entry->state)
		breach(ledger, LEDGER_I4, "task %u was %s and is %s now", number, state_names[entry->state],
		    state_names[state]);
	if (recorded < entry->recorded && !ledger->power_cuts)
		breach(ledger, LEDGER_I6, "task %u had %u attempts and has %u now", number, entry->recorded, recorded);
	if (entry->cancelled && state != CANCELLED)
		breach(ledger, LEDGER_CANCELLED, "task %u was cancelled and is %s now", number, state_names[state]);
}

void ledger_listed_task(struct ledger *ledger, const json_t *task)
{
	const char *key = json_string_value(json_object_get(task, "key")),
		   *id_text = json_string_value(json_object_get(task, "id"));
	const char *reason = json_string_value(json_object_get(task, "reason"));
	uint32_t number, recorded = (uint32_t)json_integer_value(json_object_get(task, "attempts"));
	uint64_t id = id_text != NULL ? strtoull(id_text, NULL, 10) : 0;
	enum state state = read_state(task);
	struct entry *entry;

	pthread_mutex_lock(&ledger->mutex);
	entry = entry_of(ledger, key, &number);
	if (entry == NULL || state == UNSEEN || id == 0) {
		breach(ledger, LEDGER_KEYS, "the list has a task that nobody handed in: id %.40s, key %.60s",
		    id_text != NULL ? id_text : "none", key != NULL ? key : "none");
	} else {
		check_listed(ledger, entry, number, state, id, recorded);
		entry->id = id;
		entry->list = ledger->list;
		entry->state = (uint8_t)state;
		entry->recorded = recorded;
		entry->has_due = json_is_string(json_object_get(task, "due"));
		entry->crash_loop = reason != NULL && strcmp(reason, "crash_loop") == 0;
	}
	pthread_mutex_unlock(&ledger->mutex);
}

static bool is_open(const struct ledger *ledger, size_t i)
{
	const struct entry *entry = &ledger->entries[i];

	return entry->list == ledger->list && !is_over((enum state)entry->state) && kind_of((uint32_t)i) != LEDGER_LATER;
}

void ledger_listed(struct ledger *ledger, size_t *ret_open)
{
	size_t gone = 0, first = 0;

	pthread_mutex_lock(&ledger->mutex);
	*ret_open = 0;
	for (size_t i = ledger->entries_len; i-- > 0;) {
		const struct entry *entry = &ledger->entries[i];

		*ret_open += is_open(ledger, i);
		if (!entry->acknowledged || entry->list == ledger->list)
			continue;
		gone++;
		first = i;
	}
	if (gone > 0)
		breach(ledger, LEDGER_KEPT,
		    "%zu of the acknowledged tasks are gone, the first is task %zu, acknowledged as %llu", gone, first,
		    (unsigned long long)ledger->entries[first].id);
	pthread_mutex_unlock(&ledger->mutex);
}

void ledger_running(struct ledger *ledger, uint32_t running)
{
	pthread_mutex_lock(&ledger->mutex);
	if (running > ledger->counts.running_max)
		ledger->counts.running_max = running;
	if (running > ledger->concurrency)
		breach(ledger, LEDGER_I5, "%u attempts were under way, the limit is %u", running, ledger->concurrency);
	pthread_mutex_unlock(&ledger->mutex);
}

void ledger_lost(struct ledger *ledger, const char *why)
{
	pthread_mutex_lock(&ledger->mutex);
	breach(ledger, LEDGER_KEPT, "%s", why);
	pthread_mutex_unlock(&ledger->mutex);
}

/* ---- what the target saw ---- */

static const char *field_of(const json_t *line, const char *name)
{
	json_t *field;
	size_t i;

	json_array_foreach(json_object_get(line, "fields"), i, field)
	{
		const char *found = json_string_value(json_array_get(field, 0));

		if (found != NULL && strcasecmp(found, name) == 0)
			return json_string_value(json_array_get(field, 1));
	}
	return NULL;
}

void ledger_request(struct ledger *ledger, const json_t *line)
{
	const char *event = json_string_value(json_object_get(line, "event")),
		   *sha = json_string_value(json_object_get(line, "body_sha256"));
	const char *key = field_of(line, "idempotency-key");
	struct entry *entry;
	uint64_t body;
	uint32_t number;

	if (event == NULL || strcmp(event, "request") != 0)
		return;
	pthread_mutex_lock(&ledger->mutex);
	ledger->counts.requests++;
	entry = entry_of(ledger, key, &number);
	if (entry == NULL) {
		breach(ledger, LEDGER_SEEN, "the target got a request with a key that nobody handed in: %.60s",
		    key != NULL ? key : "none");
	} else if (json_is_true(json_object_get(line, "complete"))) {
		body = rea_hash(sha != NULL ? sha : "", sha != NULL ? strlen(sha) : 0);
		if (entry->body != 0 && entry->body != body)
			breach(ledger, LEDGER_I2, "task %u reached the target with two bodies", number);
		entry->body = body;
		entry->requests++;
	}
	pthread_mutex_unlock(&ledger->mutex);
}

static void check_end(struct ledger *ledger, uint32_t number, const struct entry *entry)
{
	enum ledger_kind kind = kind_of(number);
	enum state state = (enum state)entry->state;

	if (entry->list != ledger->list) {
		if (entry->requests > 0)
			breach(ledger, LEDGER_SEEN, "task %u was sent, and the list does not know it", number);
		return;
	}
	if (!is_over(state) && !entry->has_due)
		breach(ledger, LEDGER_I1, "task %u is %s and has no next time", number, state_names[state]);
	if (!is_over(state) && kind != LEDGER_LATER)
		breach(ledger, LEDGER_I1, "task %u is %s and does not come to an end", number, state_names[state]);
	if (entry->requests > entry->recorded && !ledger->power_cuts)
		breach(ledger, LEDGER_I3, "task %u has %u attempts, and the target saw %u requests", number,
		    entry->recorded, entry->requests);
	if (kind == LEDGER_ONCE && entry->requests > 1)
		breach(ledger, LEDGER_I7, "task %u may not be repeated, and was sent %u times", number, entry->requests);
	if (state == SUCCESS && entry->requests == 0)
		breach(ledger, LEDGER_SEEN, "task %u is SUCCESS, and the target never saw it", number);
	if (kind == LEDGER_AGAIN && state == GIVEN_UP && entry->requests == 0 && !entry->crash_loop)
		breach(ledger, LEDGER_SEEN, "task %u was given up, and the target never saw it", number);
	if (kind == LEDGER_LATER && entry->requests > 0)
		breach(ledger, LEDGER_CANCELLED, "task %u was sent long before its time", number);
}

void ledger_close(struct ledger *ledger)
{
	pthread_mutex_lock(&ledger->mutex);
	ledger->closed = true;
	for (size_t i = 0; i < ledger->entries_len; i++)
		check_end(ledger, (uint32_t)i, &ledger->entries[i]);
	pthread_mutex_unlock(&ledger->mutex);
}

/* ---- results ---- */

void ledger_count(struct ledger *ledger, struct ledger_counts *ret_counts)
{
	pthread_mutex_lock(&ledger->mutex);
	*ret_counts = ledger->counts;
	ret_counts->tasks = ledger->entries_len;
	for (size_t i = 0; i < ledger->entries_len; i++) {
		const struct entry *entry = &ledger->entries[i];
		enum state state = (enum state)entry->state;

		ret_counts->acknowledged += entry->acknowledged;
		ret_counts->delivered += entry->requests > 0;
		if (ledger->list == 0 || entry->list != ledger->list)
			continue;
		ret_counts->stored++;
		ret_counts->succeeded += state == SUCCESS;
		ret_counts->given_up += state == GIVEN_UP;
		ret_counts->crash_loops += entry->crash_loop;
		ret_counts->cancelled += state == CANCELLED;
		ret_counts->waiting += !is_over(state);
	}
	pthread_mutex_unlock(&ledger->mutex);
}

bool ledger_broken(struct ledger *ledger)
{
	bool broken;

	pthread_mutex_lock(&ledger->mutex);
	broken = ledger->broken;
	pthread_mutex_unlock(&ledger->mutex);
	return broken;
}

const char *ledger_breach(const struct ledger *ledger, enum ledger_promise promise)
{
	return ledger->breaches[promise];
}

bool ledger_looked(const struct ledger *ledger, enum ledger_promise promise)
{
	switch (promise) {
	case LEDGER_I1:
	case LEDGER_I2:
	case LEDGER_I3:
	case LEDGER_I7:
	case LEDGER_SEEN:
		return ledger->closed;
	case LEDGER_KEPT:
	case LEDGER_KEYS:
	case LEDGER_I4:
	case LEDGER_I5:
	case LEDGER_I6:
	case LEDGER_CANCELLED:
	case LEDGER_PROMISES_COUNT:
		break;
	}
	return true;
}

#define X(name, text, says) text,
static const char *const names[] = {LEDGER_PROMISES(X)};
#undef X
#define X(name, text, says) says,
static const char *const sentences[] = {LEDGER_PROMISES(X)};
#undef X

const char *ledger_promise_name(enum ledger_promise promise)
{
	return names[promise];
}

const char *ledger_promise_says(enum ledger_promise promise)
{
	return sentences[promise];
}
