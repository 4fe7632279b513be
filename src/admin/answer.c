#include "admin/answer.h"

#include <rea/api.h>

#include <stdio.h>
#include <time.h>

#define BIZ_ID_MAX 1024

struct request {
	const struct admin_sources *sources;
	struct rea_slice path;
	struct rea_slice query;
	struct rea_slice parameter; /* what the {} of the route's pattern matched */
};

struct route {
	enum http_method method; /* GET answers HEAD too */
	const char *pattern;     /* a {} at its end matches one segment that is not empty */
	void (*answer)(struct answer *answer, const struct request *request);
};

void answer_init(struct answer *answer, const struct rea_alloc *alloc)
{
	*answer = (struct answer){.body.alloc = alloc};
}

void answer_fini(struct answer *answer)
{
	rea_buffer_fini(&answer->body);
}

/* ---- writing ---- */

static void put(struct answer *answer, const char *text, size_t length)
{
	if (rea_buffer_append(&answer->body, text, length) != 0)
		answer->failed = true;
}

static void put_text(struct answer *answer, const char *text)
{
	put(answer, text, strlen(text));
}

static void put_u64(struct answer *answer, uint64_t value)
{
	if (rea_buffer_append_u64(&answer->body, value) != 0)
		answer->failed = true;
}

/* Room for size bytes that a writer fills in; NULL when there is none. */
static char *room(struct answer *answer, size_t size)
{
	if (rea_buffer_reserve(&answer->body, size) == 0)
		return answer->body.data + answer->body.end;
	answer->failed = true;
	return NULL;
}

static void put_json(struct answer *answer, const char *text, size_t length)
{
	size_t size = length * 6 + 3;
	char *end = room(answer, size);

	if (end)
		answer->body.end += rea_json_string(text, length, end, size);
}

static void begin(struct answer *answer, uint16_t status, const char *content_type)
{
	rea_buffer_clear(&answer->body);
	answer->status = status;
	answer->content_type = content_type;
}

void answer_problem(struct answer *answer, uint16_t status, const char *detail)
{
	const char *title = http_status_reason(status);

	begin(answer, status, "application/problem+json");
	put_text(answer, "{\"title\":");
	put_json(answer, title, strlen(title));
	put_text(answer, ",\"status\":");
	put_u64(answer, status);
	put_text(answer, ",\"detail\":");
	put_json(answer, detail, strlen(detail));
	put_text(answer, "}\n");
	if (answer->failed)
		rea_buffer_clear(&answer->body); /* the status alone still says it */
}

static void put_time(struct answer *answer, int64_t unix_ns)
{
	time_t seconds = (time_t)(unix_ns / 1000000000);
	struct tm utc;
	char text[64];

	if (gmtime_r(&seconds, &utc) == NULL || strftime(text, sizeof(text), "\"%Y-%m-%dT%H:%M:%SZ\"", &utc) == 0)
		put_text(answer, "null");
	else
		put_text(answer, text);
}

/* ---- reading ---- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = rea_ascii_lower(c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Undo percent-encoding. False: malformed, or longer than size. */
static bool percent_decode(struct rea_slice text, char *ret_text, size_t size, size_t *ret_length)
{
	size_t length = 0;

	for (size_t i = 0; i < text.length; i++) {
		char c = text.data[i];

		if (c == '%') {
			int high = i + 2 < text.length ? hex_digit(text.data[i + 1]) : -1,
			    low = i + 2 < text.length ? hex_digit(text.data[i + 2]) : -1;

			if (high < 0 || low < 0)
				return false;
			c = (char)(high << 4 | low);
			i += 2;
		}
		if (length == size)
			return false;
		ret_text[length++] = c;
	}
	*ret_length = length;
	return true;
}

/* The value of name in the query. False: it is not there. */
static bool query_value(struct rea_slice query, const char *name, struct rea_slice *ret_value)
{
	size_t name_length = strlen(name);

	while (query.length > 0) {
		const char *ampersand = memchr(query.data, '&', query.length);
		size_t length = ampersand ? (size_t)(ampersand - query.data) : query.length;

		if (length > name_length && memcmp(query.data, name, name_length) == 0 && query.data[name_length] == '=') {
			*ret_value = rea_slice_make(query.data + name_length + 1, length - name_length - 1);
			return true;
		}
		length += ampersand != NULL;
		query = rea_slice_make(query.data + length, query.length - length);
	}
	return false;
}

/* ---- events ---- */

/* The events of an answer: all but the first `skip` of them. */
struct listing {
	struct answer *answer;
	struct rea_timeline timeline;
	uint64_t skip;
	uint64_t listed;
};

static bool count_event(const struct rea_event *event, void *user_data)
{
	(void)event;
	++*(uint64_t *)user_data;
	return true;
}

static uint64_t count_events(const struct rea_event_ring *ring, struct rea_text biz_id)
{
	uint64_t count = 0;

	if (ring)
		rea_event_ring_each(ring, biz_id, count_event, &count);
	return count;
}

static bool list_as_json(const struct rea_event *event, void *user_data)
{
	struct listing *listing = user_data;
	char *end;

	if (listing->skip > 0) {
		listing->skip--;
		return true;
	}
	put_text(listing->answer, listing->listed++ > 0 ? ",\n" : "\n");
	end = room(listing->answer, REA_EVENT_JSON_MAX);
	if (end)
		listing->answer->body.end += rea_event_json(event, end, REA_EVENT_JSON_MAX);
	return !listing->answer->failed;
}

/* "events":[…] of the latest events_max, and how many older ones were left out. */
static void put_events(struct answer *answer, const struct rea_event_ring *ring, struct rea_text biz_id, uint64_t events_max)
{
	uint64_t count = count_events(ring, biz_id);
	struct listing listing = {.answer = answer, .skip = count > events_max ? count - events_max : 0};

	put_text(answer, "\"left_out\":");
	put_u64(answer, listing.skip);
	put_text(answer, ",\"events\":[");
	if (ring)
		rea_event_ring_each(ring, biz_id, list_as_json, &listing);
	put_text(answer, "]}\n");
}

static void write_timeline(const char *text, size_t length, void *user_data)
{
	put(user_data, text, length);
}

static bool list_as_text(const struct rea_event *event, void *user_data)
{
	struct listing *listing = user_data;

	if (listing->skip > 0)
		listing->skip--;
	else
		rea_timeline_event(&listing->timeline, event);
	return !listing->answer->failed;
}

static void put_timeline(struct answer *answer, const struct rea_event_ring *ring, struct rea_text biz_id)
{
	uint64_t count = count_events(ring, biz_id);
	struct listing listing = {.answer = answer, .skip = count > ANSWER_TIMELINE_MAX ? count - ANSWER_TIMELINE_MAX : 0};

	rea_timeline_begin(&listing.timeline, write_timeline, answer);
	rea_event_ring_each(ring, biz_id, list_as_text, &listing);
}

/* ---- endpoints ---- */

static void answer_healthz(struct answer *answer, const struct request *request)
{
	(void)request;
	begin(answer, 200, "text/plain; charset=utf-8");
	put_text(answer, "ok");
}

static void answer_readyz(struct answer *answer, const struct request *request)
{
	static const char *const names[] = {
#define X(name, text) [ADMIN_##name] = text,
	    ADMIN_READINESS_MAP(X)
#undef X
	};
	enum admin_readiness readiness = request->sources->readiness(request->sources->user_data);

	begin(answer, readiness == ADMIN_READY ? 200 : 503, "text/plain; charset=utf-8");
	put_text(answer, names[readiness]);
}

static void answer_version(struct answer *answer, const struct request *request)
{
	(void)request;
	begin(answer, 200, "application/json");
	put_text(answer, "{\"name\":\"rea\",\"version\":");
	put_json(answer, rea_version(), strlen(rea_version()));
	put_text(answer, "}\n");
}

static bool write_metrics(const char *text, size_t length, void *user_data)
{
	struct answer *answer = user_data;

	put(answer, text, length);
	return !answer->failed;
}

static void answer_metrics(struct answer *answer, const struct request *request)
{
	struct rea_prometheus out = {.write = write_metrics, .user_data = answer};

	begin(answer, 200, "text/plain; version=0.0.4; charset=utf-8");
	request->sources->metrics(&out, request->sources->user_data);
}

static void answer_events(struct answer *answer, const struct request *request)
{
	uint64_t limit = ANSWER_EVENTS_DEFAULT;
	struct rea_slice value;

	if (query_value(request->query, "limit", &value) &&
	    (!rea_slice_to_u64(value, &limit) || limit < 1 || limit > ANSWER_EVENTS_MAX)) {
		answer_problem(answer, 400, "limit is a number from 1 to 1000");
		return;
	}
	begin(answer, 200, "application/json");
	put_text(answer, "{");
	put_events(answer, request->sources->ring, (struct rea_text){NULL, 0}, limit);
}

static void answer_timeline(struct answer *answer, const struct request *request)
{
	const struct rea_event_ring *ring = request->sources->ring;
	struct rea_slice format = REA_SLICE_LIT("json");
	char id[BIZ_ID_MAX];
	struct rea_text biz_id = {id, 0};

	query_value(request->query, "format", &format);
	if (!percent_decode(request->parameter, id, sizeof(id), &biz_id.length))
		answer_problem(answer, 400, "the biz_id is badly percent-encoded or longer than 1024 bytes");
	else if (count_events(ring, biz_id) == 0)
		answer_problem(answer, 404, "no event of this biz_id is kept: nothing of it failed, or it is too long ago");
	else if (rea_slice_equal(format, REA_SLICE_LIT("text"))) {
		begin(answer, 200, "text/plain; charset=utf-8");
		put_timeline(answer, ring, biz_id);
	} else if (rea_slice_equal(format, REA_SLICE_LIT("json"))) {
		begin(answer, 200, "application/json");
		put_text(answer, "{\"biz_id\":");
		put_json(answer, biz_id.text, biz_id.length);
		put_text(answer, ",");
		put_events(answer, ring, biz_id, ANSWER_TIMELINE_MAX);
	} else
		answer_problem(answer, 400, "format is json or text");
}

static void put_member(struct answer *answer, const char *name, const char *text)
{
	put_text(answer, ",\"");
	put_text(answer, name);
	put_text(answer, "\":");
	put_json(answer, text, strlen(text));
}

static void put_error(struct answer *answer, const struct rea_error_info *error)
{
	if (error == NULL) {
		put_text(answer, "null");
		return;
	}
	put_text(answer, "{\"line\":");
	put_u64(answer, error->line);
	put_text(answer, ",\"column\":");
	put_u64(answer, error->column);
	put_member(answer, "file", error->file);
	put_member(answer, "key", error->key);
	put_member(answer, "message", error->message);
	put_text(answer, "}");
}

static void answer_config(struct answer *answer, const struct request *request)
{
	struct admin_config config = {.path = "", .version = ""};

	request->sources->config(&config, request->sources->user_data);
	begin(answer, 200, "application/json");
	put_text(answer, "{\"version\":");
	put_json(answer, config.version, strlen(config.version));
	put_member(answer, "path", config.path);
	put_text(answer, ",\"loaded_at\":");
	put_time(answer, config.loaded_unix_ns);
	put_text(answer, ",\"reloads\":");
	put_u64(answer, config.reloads);
	put_text(answer, ",\"rejects\":");
	put_u64(answer, config.rejects);
	put_text(answer, ",\"last_error\":");
	put_error(answer, config.last_error);
	put_text(answer, "}\n");
}

/* ---- routes ---- */

static const struct route routes[] = {
    {HTTP_GET, "/healthz", answer_healthz},
    {HTTP_GET, "/readyz", answer_readyz},
    {HTTP_GET, "/version", answer_version},
    {HTTP_GET, "/metrics", answer_metrics},
    {HTTP_GET, "/v1/config", answer_config},
    {HTTP_GET, "/v1/events", answer_events},
    {HTTP_GET, "/v1/timelines/{}", answer_timeline},
};

#define ROUTES (sizeof(routes) / sizeof(routes[0]))

static bool matches(const struct route *route, struct rea_slice path, struct rea_slice *ret_parameter)
{
	struct rea_slice pattern = rea_slice_of(route->pattern);
	size_t literal = pattern.length - 2;

	if (pattern.data[pattern.length - 1] != '}')
		return rea_slice_equal(pattern, path);
	if (path.length <= literal || memcmp(path.data, pattern.data, literal) != 0 ||
	    memchr(path.data + literal, '/', path.length - literal))
		return false;
	*ret_parameter = rea_slice_make(path.data + literal, path.length - literal);
	return true;
}

static const char *allowed_methods(enum http_method method)
{
	switch (method) {
	case HTTP_GET:
		return "GET, HEAD";
	case HTTP_POST:
		return "POST";
	case HTTP_PUT:
		return "PUT";
	case HTTP_DELETE:
		return "DELETE";
	case HTTP_PATCH:
		return "PATCH";
	case HTTP_HEAD:
	case HTTP_OPTIONS:
	case HTTP_TRACE:
	case HTTP_CONNECT:
	case HTTP_OTHER:
		break;
	}
	return "";
}

static void allow(struct answer *answer, enum http_method method)
{
	size_t used = strlen(answer->allow);

	snprintf(answer->allow + used, sizeof(answer->allow) - used, "%s%s", used ? ", " : "", allowed_methods(method));
}

static void split_target(struct rea_slice target, struct request *ret_request)
{
	const char *question = target.length > 0 ? memchr(target.data, '?', target.length) : NULL;
	size_t path_length = question ? (size_t)(question - target.data) : target.length;

	ret_request->path = rea_slice_make(target.data, path_length);
	ret_request->query =
	    question ? rea_slice_make(question + 1, target.length - path_length - 1) : (struct rea_slice){NULL, 0};
}

static void answer_route(struct answer *answer, struct request *request, enum http_method method)
{
	enum http_method wanted = method == HTTP_HEAD ? HTTP_GET : method;

	for (size_t i = 0; i < ROUTES; i++) {
		if (!matches(&routes[i], request->path, &request->parameter))
			continue;
		if (routes[i].method == wanted) {
			answer->allow[0] = '\0';
			routes[i].answer(answer, request);
			return;
		}
		allow(answer, routes[i].method);
	}
	if (answer->allow[0])
		answer_problem(answer, 405, "this resource does not know the method");
	else
		answer_problem(answer, 404, "there is no such resource");
}

void answer_request(struct answer *answer, const struct admin_sources *sources, enum http_method method, struct rea_slice target)
{
	struct request request = {.sources = sources};

	split_target(target, &request);
	answer_route(answer, &request, method);
	if (answer->failed) {
		begin(answer, 503, "text/plain; charset=utf-8");
		answer->allow[0] = '\0';
	}
}
