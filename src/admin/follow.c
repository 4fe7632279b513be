#include "admin/follow.h"

#include "admin/answer.h"
#include "base/container.h"

#include <stdio.h>
#include <stdlib.h>

#define TYPES_ALL ((UINT32_C(1) << REA_EVENT_TYPE_COUNT) - 1)
/* What a piece holds besides the event's JSON. */
#define PIECE_MAX (REA_EVENT_JSON_MAX + 128)

struct follower {
	struct follower *next;
	struct follow *follow;
	struct admin_request *request;
	uint64_t seen; /* id of the latest event that it was sent, or did not ask for */
	uint32_t types;
	unsigned stuck;         /* heartbeats that found its backlog unread */
	struct rea_text biz_id; /* "" = all */
	char biz_id_text[ANSWER_BIZ_ID_MAX];
};

struct follow {
	struct loop *loop;
	struct follow_options options;
	struct follower *followers;
	uint32_t count;
	bool ended;
	struct wheel_timer heartbeat;
	uint64_t lost; /* events that followers were told they missed */
	uint64_t cut;  /* followers that did not read */
};

/* ---- followers ---- */

static void forget(struct follower *follower)
{
	struct follow *follow = follower->follow;
	struct follower **link = &follow->followers;

	while (*link != follower)
		link = &(*link)->next;
	*link = follower->next;
	free(follower);
	if (--follow->count == 0)
		loop_timer_stop(follow->loop, &follow->heartbeat);
}

static void on_aborted(struct admin_request *request)
{
	forget(request->user);
}

/* False: it is gone. */
static bool send_text(struct follower *follower, const char *text, size_t length)
{
	if (admin_stream_write(follower->request, text, length))
		return true;
	forget(follower);
	return false;
}

/* ---- events ---- */

/* The ring has moved on without it. After a restart nobody knows how many events of the process before
 * it missed: those of this one are counted. */
static bool send_lost(struct follower *follower, uint64_t oldest)
{
	uint64_t first_id = follower->follow->options.first_id;
	bool restarted = follower->seen + 1 < first_id;
	uint64_t lost = oldest - (restarted ? first_id : follower->seen + 1);
	char text[160];
	int length = snprintf(text, sizeof(text), "id: %llu\nevent: lost\ndata: {\"lost\":%llu,\"restarted\":%s}\n\n",
	    (unsigned long long)(oldest - 1), (unsigned long long)lost, restarted ? "true" : "false");

	follower->seen = oldest - 1;
	follower->follow->lost += lost;
	return send_text(follower, text, (size_t)length);
}

static bool wanted(const struct follower *follower, const struct rea_event *event)
{
	if ((follower->types & UINT32_C(1) << event->type) == 0)
		return false;
	return follower->biz_id.length == 0 || rea_event_is_of(event, follower->biz_id);
}

/* user_data: the follower, NULL once it is gone. */
static bool send_event(const struct rea_event *event, void *user_data)
{
	struct follower **follower = user_data;
	char text[PIECE_MAX];
	int length;

	(*follower)->seen = event->id;
	if (!wanted(*follower, event))
		return true;
	length = snprintf(text, sizeof(text), "id: %llu\nevent: %s\ndata: ", (unsigned long long)event->id,
	    rea_event_type_name(event->type));
	length += (int)rea_event_json(event, text + length, REA_EVENT_JSON_MAX);
	text[length++] = '\n';
	text[length++] = '\n';
	if (!send_text(*follower, text, (size_t)length)) {
		*follower = NULL;
		return false;
	}
	return !admin_stream_congested((*follower)->request);
}

/* As much as its connection takes now. */
static void feed(struct follower *follower)
{
	const struct rea_event_ring *ring = follower->follow->options.ring;
	uint64_t oldest = rea_event_ring_oldest(ring);

	if (admin_stream_congested(follower->request))
		return;
	if (oldest > follower->seen + 1 && !send_lost(follower, oldest))
		return;
	rea_event_ring_since(ring, follower->seen, send_event, &follower);
}

static void on_writable(struct admin_request *request)
{
	struct follower *follower = request->user;

	follower->stuck = 0;
	feed(follower);
}

void follow_events(struct follow *follow)
{
	for (struct follower *follower = follow->followers, *next; follower != NULL; follower = next) {
		next = follower->next;
		feed(follower);
	}
}

/* ---- heartbeats ---- */

static void beat(struct follower *follower)
{
	if (!admin_stream_congested(follower->request)) {
		send_text(follower, ":\n\n", 3);
	} else if (++follower->stuck >= FOLLOW_PATIENCE) {
		follower->follow->cut++;
		admin_stream_cut(follower->request);
		forget(follower);
	}
}

static void on_heartbeat(struct wheel_timer *timer, uint64_t now_ns)
{
	struct follow *follow = REA_CONTAINER_OF(timer, struct follow, heartbeat);

	loop_timer_start(follow->loop, timer, rea_time_add(now_ns, follow->options.heartbeat_ns));
	for (struct follower *follower = follow->followers, *next; follower != NULL; follower = next) {
		next = follower->next;
		beat(follower);
	}
}

/* ---- the request ---- */

static void refuse(struct admin_request *request, uint16_t status, const char *detail)
{
	struct answer answer;

	answer_init(&answer, NULL);
	answer_problem(&answer, status, detail);
	if (status == 503)
		answer.retry_after_s = 5;
	admin_answer(request, &answer);
	answer_fini(&answer);
}

/* "Retry,GiveUp" to bits. */
static bool read_types(struct rea_slice list, uint32_t *ret_types)
{
	uint32_t types = 0;

	while (list.length > 0) {
		const char *comma = memchr(list.data, ',', list.length);
		size_t length = comma != NULL ? (size_t)(comma - list.data) : list.length;
		int type = rea_event_type_parse(list.data, length);

		if (type < 0)
			return false;
		types |= UINT32_C(1) << type;
		length += comma != NULL;
		list = rea_slice_make(list.data + length, list.length - length);
	}
	*ret_types = types;
	return types != 0;
}

static bool read_biz_id(struct rea_slice text, struct follower *follower)
{
	follower->biz_id.text = follower->biz_id_text;
	return answer_percent_decode(text, follower->biz_id_text, sizeof(follower->biz_id_text), &follower->biz_id.length) &&
	       follower->biz_id.length > 0;
}

/* An id that is still to come is one of an earlier process, whose clock was ahead. */
static bool read_last_id(const struct http_request *http, struct follower *follower)
{
	const struct http_field *field = http_field_named(http->fields, http->fields_len, REA_SLICE_LIT("last-event-id"));
	uint64_t id;

	if (field == NULL || field->value.length == 0)
		return true;
	if (!rea_slice_to_u64(field->value, &id))
		return false;
	follower->seen = id <= follower->seen ? id : 0;
	return true;
}

/* What it asks for; NULL, or why not. */
static const char *read_question(const struct admin_request *request, struct follower *follower)
{
	char list[256];
	struct rea_slice value;
	size_t length;

	if (answer_query_value(request->query, "type", &value) &&
	    (!answer_percent_decode(value, list, sizeof(list), &length) ||
		!read_types(rea_slice_make(list, length), &follower->types)))
		return "type is a list of event types, such as Retry,GiveUp";
	if (answer_query_value(request->query, "biz_id", &value) && !read_biz_id(value, follower))
		return "the biz_id is badly percent-encoded, empty or longer than 1024 bytes";
	if (!read_last_id(request->http, follower))
		return "Last-Event-ID is the id of an event";
	return NULL;
}

static uint64_t newest_id(const struct follow *follow)
{
	uint64_t newest = rea_event_ring_newest(follow->options.ring);

	return newest > 0 ? newest : follow->options.first_id - 1;
}

static void begin(struct admin_request *request, struct follower *follower)
{
	struct follow *follow = follower->follow;
	struct answer answer;
	bool good;

	answer_init(&answer, NULL);
	answer_begin(&answer, 200, "text/event-stream");
	answer_put_text(&answer, "retry: 2000\n\n");
	request->user = follower;
	request->aborted = on_aborted;
	request->writable = on_writable;
	good = admin_stream(request, &answer);
	answer_fini(&answer);
	if (!good) {
		free(follower);
		return;
	}
	follower->next = follow->followers;
	follow->followers = follower;
	if (follow->count++ == 0)
		loop_timer_start(follow->loop, &follow->heartbeat,
		    rea_time_add(loop_now(follow->loop), follow->options.heartbeat_ns));
	feed(follower);
}

static void answer_head(struct admin_request *request)
{
	struct answer answer;

	answer_init(&answer, NULL);
	answer_begin(&answer, 200, "text/event-stream");
	admin_answer(request, &answer);
	answer_fini(&answer);
}

static void handle(struct admin_request *request, void *user_data)
{
	struct follow *follow = user_data;
	struct follower *follower;
	const char *wrong;

	if (follow->options.ring == NULL) {
		refuse(request, 404, "events.ring is 0: no events are kept that could be followed");
		return;
	}
	if (follow->ended || follow->count >= follow->options.followers_max) {
		refuse(request, 503, follow->ended ? "rea is stopping" : "as many follow the events as may at once");
		return;
	}
	follower = calloc(1, sizeof(*follower));
	if (follower == NULL) {
		refuse(request, 503, "out of memory");
		return;
	}
	*follower = (struct follower){.follow = follow, .request = request, .types = TYPES_ALL, .seen = newest_id(follow)};
	wrong = read_question(request, follower);
	if (wrong == NULL && request->http->method_id != HTTP_HEAD) {
		begin(request, follower);
		return;
	}
	free(follower);
	if (wrong != NULL)
		refuse(request, 400, wrong);
	else
		answer_head(request);
}

/* ---- from outside ---- */

int follow_new(struct loop *loop, const struct follow_options *options, struct follow **ret_follow)
{
	struct follow *follow = calloc(1, sizeof(*follow));

	if (follow == NULL)
		return REA_ERR_NOMEM;
	*follow = (struct follow){.loop = loop, .options = *options, .heartbeat = {.fire = on_heartbeat}};
	*ret_follow = follow;
	return 0;
}

/* in_order: their answers end. Else their connections are gone. */
static void forget_all(struct follow *follow, bool in_order)
{
	struct follower *follower = follow->followers, *next;

	if (follower != NULL)
		loop_timer_stop(follow->loop, &follow->heartbeat);
	follow->followers = NULL;
	follow->count = 0;
	for (; follower != NULL; follower = next) {
		next = follower->next;
		if (in_order)
			admin_stream_end(follower->request);
		free(follower);
	}
}

void follow_end(struct follow *follow)
{
	follow->ended = true;
	forget_all(follow, true);
}

void follow_free(struct follow *follow)
{
	if (follow == NULL)
		return;
	forget_all(follow, false);
	free(follow);
}

struct admin_routes follow_routes(struct follow *follow)
{
	static const struct admin_route routes[] = {
	    {HTTP_GET, "/v1/events/stream", ANSWER_REQUEST_BODY_MAX, handle},
	};

	return (struct admin_routes){routes, sizeof(routes) / sizeof(routes[0]), follow};
}

static void write_metric(
    struct rea_prometheus *out, const char *name, enum rea_metric_type type, const char *help, uint64_t value)
{
	rea_prometheus_family(out, name, type, help);
	rea_prometheus_sample(out, name, NULL, 0, (double)value);
}

void follow_metrics(const struct follow *follow, struct rea_prometheus *out)
{
	write_metric(out, "rea_event_followers", REA_METRIC_GAUGE, "Open streams of events.", follow->count);
	write_metric(out, "rea_event_followers_lost_total", REA_METRIC_COUNTER,
	    "Events that followers were too slow for, or came back too late for.", follow->lost);
	write_metric(out, "rea_event_followers_cut_total", REA_METRIC_COUNTER,
	    "Followers that did not read and were cut off.", follow->cut);
}
