#include "admin/timeline.h"

#include "admin/task_line.h"

#include "base/arena.h"

#include <rea/time.h>

#include <stdio.h>
#include <stdlib.h>

struct timeline {
	const struct admin_sources *sources;
	struct rea_text biz_id;
	struct rea_event *events; /* texts: the ring's, the history's, the arena's */
	size_t events_len;
	size_t events_capacity;
	size_t known; /* of them, those that are events; attempts of tasks follow */
	struct rea_arena arena;
	struct answer tasks; /* their JSON, one after the other with commas */
	struct answer lines;
	uint64_t left_out;
	uint64_t damaged;
	bool wall_clock;      /* monotonic times do not compare: all are taken from the wall clock */
	bool failed;          /* out of memory */
	char incomplete[256]; /* what could not be read; "" = nothing */
};

/* ---- collecting ---- */

static void add(struct timeline *timeline, const struct rea_event *event)
{
	if (timeline->events_len == timeline->events_capacity) {
		size_t capacity = timeline->events_capacity > 0 ? 2 * timeline->events_capacity : 64;
		struct rea_event *grown = realloc(timeline->events, capacity * sizeof(*grown));

		if (grown == NULL) {
			timeline->failed = true;
			return;
		}
		timeline->events = grown;
		timeline->events_capacity = capacity;
	}
	timeline->events[timeline->events_len++] = *event;
}

static bool take_from_ring(const struct rea_event *event, void *user_data)
{
	struct timeline *timeline = user_data;

	add(timeline, event);
	return !timeline->failed;
}

/* What the ring has, the history has too, or will have soon: it is asked for what is older. */
static void read_history(struct timeline *timeline)
{
	uint64_t oldest = timeline->sources->ring != NULL ? rea_event_ring_oldest(timeline->sources->ring) : 0;
	struct rea_event_page page;
	struct rea_error_info info = {.message = ""};
	char why[256];
	int error = rea_event_sqlite_read(timeline->sources->history, timeline->biz_id, oldest > 0 ? oldest : REA_NEVER,
	    ANSWER_TIMELINE_MAX, &page, &info);

	if (error != 0) {
		snprintf(why, sizeof(why), "events.sqlite cannot be read: %.200s", info.message);
		timeline_note_incomplete(timeline, why);
		timeline->failed |= error == REA_ERR_NOMEM;
		return;
	}
	timeline->left_out += page.left_out;
	timeline->damaged += page.damaged;
	timeline->wall_clock |= page.wall_clock;
	for (size_t i = 0; i < page.events_len && !timeline->failed; i++)
		add(timeline, &page.events[i]);
}

static void use_wall_clock(struct timeline *timeline)
{
	/* What came from the history has it already when it told of another boot; doing it once more changes nothing. */
	for (size_t i = 0; i < timeline->events_len; i++)
		rea_event_use_wall_clock(&timeline->events[i]);
}

static void collect(struct timeline *timeline)
{
	if (timeline->sources->history != NULL)
		read_history(timeline);
	if (timeline->sources->ring != NULL)
		rea_event_ring_each(timeline->sources->ring, timeline->biz_id, take_from_ring, timeline);
	timeline->known = timeline->events_len;
	if (timeline->sources->tasks != NULL &&
	    timeline->sources->tasks(timeline->biz_id, timeline, timeline->sources->user_data) != 0)
		timeline_note_incomplete(timeline, "the tasks cannot be read");
	timeline->failed |= timeline->tasks.failed || timeline->lines.failed;
	if (timeline->wall_clock || timeline->events_len > timeline->known)
		use_wall_clock(timeline);
}

void timeline_add_task(struct timeline *timeline, struct rea_slice json)
{
	json_t *task = json_loadb(json.data, json.length, 0, NULL);
	char line[TASK_LINE_MAX];

	if (rea_buffer_length(&timeline->tasks.body) > 0)
		answer_put_text(&timeline->tasks, ",");
	answer_put_text(&timeline->tasks, "\n");
	answer_put(&timeline->tasks, json.data, json.length);
	answer_put(&timeline->lines, line, task_line(task, line, sizeof(line)));
	answer_put_text(&timeline->lines, "\n");
	timeline->failed |= task == NULL;
	json_decref(task);
}

void timeline_note_incomplete(struct timeline *timeline, const char *why)
{
	if (timeline->incomplete[0] == '\0')
		snprintf(timeline->incomplete, sizeof(timeline->incomplete), "%s", why);
}

static bool is_known(const struct timeline *timeline, const struct rea_event *event)
{
	for (size_t i = 0; i < timeline->known; i++) {
		const struct rea_event *other = &timeline->events[i];

		if (other->attempt == event->attempt && other->call_id.length == event->call_id.length &&
		    memcmp(other->call_id.text, event->call_id.text, event->call_id.length) == 0)
			return true;
	}
	return false;
}

static void copy_text(struct timeline *timeline, struct rea_text *text)
{
	if (text->length == 0)
		return;
	text->text = rea_arena_string(&timeline->arena, rea_slice_make(text->text, text->length));
	if (text->text == NULL) {
		timeline->failed = true;
		text->length = 0;
	}
}

void timeline_add_attempt(struct timeline *timeline, const struct rea_event *event)
{
	struct rea_event copy = *event;

	if (is_known(timeline, event))
		return;
	copy_text(timeline, &copy.call_id);
	copy_text(timeline, &copy.biz_id);
	copy_text(timeline, &copy.key);
	copy_text(timeline, &copy.trace_id);
	copy_text(timeline, &copy.service);
	copy_text(timeline, &copy.method);
	copy_text(timeline, &copy.instance);
	copy_text(timeline, &copy.detail);
	copy_text(timeline, &copy.evidence);
	add(timeline, &copy);
}

static int by_start(const void *left, const void *right)
{
	const struct rea_event *a = left, *b = right;

	if (a->attempt_start_ns != b->attempt_start_ns)
		return a->attempt_start_ns < b->attempt_start_ns ? -1 : 1;
	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

/* In order, and the latest alone when there are too many. */
static void settle(struct timeline *timeline)
{
	size_t surplus = timeline->events_len > ANSWER_TIMELINE_MAX ? timeline->events_len - ANSWER_TIMELINE_MAX : 0;

	if (timeline->events_len == 0)
		return;
	qsort(timeline->events, timeline->events_len, sizeof(*timeline->events), by_start);
	memmove(timeline->events, timeline->events + surplus, (timeline->events_len - surplus) * sizeof(*timeline->events));
	timeline->events_len -= surplus;
	timeline->left_out += surplus;
}

/* ---- telling ---- */

static void put_answer(struct answer *answer, const struct answer *part)
{
	if (rea_buffer_length(&part->body) > 0)
		answer_put(answer, rea_buffer_data(&part->body), rea_buffer_length(&part->body));
}

static void put_event(struct answer *answer, const struct rea_event *event, bool first)
{
	char *end;

	answer_put_text(answer, first ? "\n" : ",\n");
	end = answer_room(answer, REA_EVENT_JSON_MAX);
	if (end != NULL)
		answer->body.end += rea_event_json(event, end, REA_EVENT_JSON_MAX);
}

static void put_json(struct answer *answer, const struct timeline *timeline)
{
	answer_begin(answer, 200, "application/json");
	answer_put_text(answer, "{\"biz_id\":");
	answer_put_json(answer, timeline->biz_id.text, timeline->biz_id.length);
	answer_put_text(answer, ",\"left_out\":");
	answer_put_u64(answer, timeline->left_out);
	if (timeline->damaged > 0) {
		answer_put_text(answer, ",\"damaged\":");
		answer_put_u64(answer, timeline->damaged);
	}
	if (timeline->incomplete[0] != '\0') {
		answer_put_text(answer, ",\"incomplete\":");
		answer_put_json(answer, timeline->incomplete, strlen(timeline->incomplete));
	}
	answer_put_text(answer, ",\"events\":[");
	for (size_t i = 0; i < timeline->events_len && !answer->failed; i++)
		put_event(answer, &timeline->events[i], i == 0);
	answer_put_text(answer, "],\"tasks\":[");
	put_answer(answer, &timeline->tasks);
	answer_put_text(answer, "]}\n");
}

static void write_line(const char *text, size_t length, void *user_data)
{
	answer_put(user_data, text, length);
}

static void put_lines(struct answer *answer, const struct timeline *timeline)
{
	struct rea_timeline lines;

	answer_begin(answer, 200, "text/plain; charset=utf-8");
	if (timeline->incomplete[0] != '\0') {
		answer_put_text(answer, "incomplete: ");
		answer_put_text(answer, timeline->incomplete);
		answer_put_text(answer, "\n");
	}
	rea_timeline_begin(&lines, write_line, answer);
	for (size_t i = 0; i < timeline->events_len && !answer->failed; i++)
		rea_timeline_event(&lines, &timeline->events[i]);
	put_answer(answer, &timeline->lines);
}

void timeline_answer(struct answer *answer, const struct admin_sources *sources, struct rea_text biz_id, bool text)
{
	struct timeline timeline = {.sources = sources, .biz_id = biz_id};

	rea_arena_init(&timeline.arena, rea_alloc_default());
	answer_init(&timeline.tasks, NULL);
	answer_init(&timeline.lines, NULL);
	collect(&timeline);
	settle(&timeline);
	if (timeline.failed)
		answer->failed = true;
	else if (timeline.events_len == 0 && rea_buffer_length(&timeline.lines.body) == 0 && timeline.incomplete[0] != '\0')
		answer_problem(answer, 503, timeline.incomplete);
	else if (timeline.events_len == 0 && rea_buffer_length(&timeline.lines.body) == 0)
		answer_problem(answer, 404, "no event of this biz_id is kept: nothing of it failed, or it is too long ago");
	else if (text)
		put_lines(answer, &timeline);
	else
		put_json(answer, &timeline);
	answer_fini(&timeline.lines);
	answer_fini(&timeline.tasks);
	rea_arena_fini(&timeline.arena);
	free(timeline.events);
}
