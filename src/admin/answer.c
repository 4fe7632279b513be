#include "admin/answer.h"

#include "admin/openapi.h"
#include "admin/route.h"
#include "admin/timeline.h"

#include "base/format.h"

#include <rea/api.h>

#include <stdio.h>
#include <time.h>

struct request {
	const struct admin_sources *sources;
	struct rea_slice path;
	struct rea_slice query;
	struct rea_slice parameters[ADMIN_PARAMETERS_MAX];
};

/* Of what is answered at once from the sources. */
struct route {
	enum http_method method;
	const char *pattern;
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

void answer_put(struct answer *answer, const char *text, size_t length)
{
	if (rea_buffer_append(&answer->body, text, length) != 0)
		answer->failed = true;
}

void answer_put_text(struct answer *answer, const char *text)
{
	answer_put(answer, text, strlen(text));
}

void answer_put_u64(struct answer *answer, uint64_t value)
{
	if (rea_buffer_append_u64(&answer->body, value) != 0)
		answer->failed = true;
}

char *answer_room(struct answer *answer, size_t size)
{
	if (rea_buffer_reserve(&answer->body, size) == 0)
		return answer->body.data + answer->body.end;
	answer->failed = true;
	return NULL;
}

void answer_put_json(struct answer *answer, const char *text, size_t length)
{
	size_t size = length * 6 + 3;
	char *end = answer_room(answer, size);

	if (end)
		answer->body.end += rea_json_string(text, length, end, size);
}

void answer_begin(struct answer *answer, uint16_t status, const char *content_type)
{
	rea_buffer_clear(&answer->body);
	answer->status = status;
	answer->content_type = content_type;
}

void answer_problem(struct answer *answer, uint16_t status, const char *detail)
{
	answer_problem_at(answer, status, detail, "");
}

void answer_problem_at(struct answer *answer, uint16_t status, const char *detail, const char *field)
{
	const char *title = http_status_reason(status);

	answer_begin(answer, status, "application/problem+json");
	answer_put_text(answer, "{\"title\":");
	answer_put_json(answer, title, strlen(title));
	answer_put_text(answer, ",\"status\":");
	answer_put_u64(answer, status);
	answer_put_text(answer, ",\"detail\":");
	answer_put_json(answer, detail, strlen(detail));
	if (field[0] != '\0') {
		answer_put_text(answer, ",\"field\":");
		answer_put_json(answer, field, strlen(field));
	}
	answer_put_text(answer, "}\n");
	if (answer->failed)
		rea_buffer_clear(&answer->body); /* the status alone still says it */
}

static void put_time(struct answer *answer, int64_t unix_ns)
{
	time_t seconds = (time_t)(unix_ns / 1000000000);
	struct tm utc;
	char text[64];

	if (gmtime_r(&seconds, &utc) == NULL || strftime(text, sizeof(text), "\"%Y-%m-%dT%H:%M:%SZ\"", &utc) == 0)
		answer_put_text(answer, "null");
	else
		answer_put_text(answer, text);
}

/* ---- reading ---- */

bool answer_percent_decode(struct rea_slice text, char *ret_text, size_t size, size_t *ret_length)
{
	size_t length = 0;

	for (size_t i = 0; i < text.length; i++) {
		char c = text.data[i];

		if (c == '%') {
			int high = i + 2 < text.length ? rea_ascii_hex(text.data[i + 1]) : -1,
			    low = i + 2 < text.length ? rea_ascii_hex(text.data[i + 2]) : -1;

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

bool answer_query_value(struct rea_slice query, const char *name, struct rea_slice *ret_value)
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
	uint64_t skip;
	uint64_t listed;
};

static bool list_event(const struct rea_event *event, void *user_data)
{
	struct listing *listing = user_data;
	char *end;

	if (listing->skip > 0) {
		listing->skip--;
		return true;
	}
	answer_put_text(listing->answer, listing->listed++ > 0 ? ",\n" : "\n");
	end = answer_room(listing->answer, REA_EVENT_JSON_MAX);
	if (end)
		listing->answer->body.end += rea_event_json(event, end, REA_EVENT_JSON_MAX);
	return !listing->answer->failed;
}

/* ---- endpoints ---- */

static void answer_healthz(struct answer *answer, const struct request *request)
{
	(void)request;
	answer_begin(answer, 200, "text/plain; charset=utf-8");
	answer_put_text(answer, "ok");
}

static void answer_readyz(struct answer *answer, const struct request *request)
{
	static const char *const names[] = {
#define X(name, text) [ADMIN_##name] = text,
	    ADMIN_READINESS_MAP(X)
#undef X
	};
	enum admin_readiness readiness = request->sources->readiness(request->sources->user_data);

	answer_begin(answer, readiness == ADMIN_READY ? 200 : 503, "text/plain; charset=utf-8");
	answer_put_text(answer, names[readiness]);
	if (request->sources->troubles != NULL)
		request->sources->troubles(answer, request->sources->user_data);
}

static void answer_version(struct answer *answer, const struct request *request)
{
	(void)request;
	answer_begin(answer, 200, "application/json");
	answer_put_text(answer, "{\"name\":\"rea\",\"version\":");
	answer_put_json(answer, rea_version(), strlen(rea_version()));
	answer_put_text(answer, "}\n");
}

static bool write_metrics(const char *text, size_t length, void *user_data)
{
	struct answer *answer = user_data;

	answer_put(answer, text, length);
	return !answer->failed;
}

static void answer_metrics(struct answer *answer, const struct request *request)
{
	struct rea_prometheus out = {.write = write_metrics, .user_data = answer};

	answer_begin(answer, 200, "text/plain; version=0.0.4; charset=utf-8");
	request->sources->metrics(&out, request->sources->user_data);
}

static void answer_events(struct answer *answer, const struct request *request)
{
	const struct rea_event_ring *ring = request->sources->ring;
	struct listing listing = {.answer = answer};
	uint64_t limit = ANSWER_EVENTS_DEFAULT;
	struct rea_slice value;

	if (answer_query_value(request->query, "limit", &value) &&
	    (!rea_slice_to_u64(value, &limit) || limit < 1 || limit > ANSWER_EVENTS_MAX)) {
		answer_problem(answer, 400, "limit is a number from 1 to 1000");
		return;
	}
	if (ring != NULL && rea_event_ring_count(ring) > limit)
		listing.skip = rea_event_ring_count(ring) - limit;
	answer_begin(answer, 200, "application/json");
	answer_put_text(answer, "{\"left_out\":");
	answer_put_u64(answer, listing.skip);
	answer_put_text(answer, ",\"events\":[");
	if (ring != NULL)
		rea_event_ring_each(ring, (struct rea_text){NULL, 0}, list_event, &listing);
	answer_put_text(answer, "]}\n");
}

static void answer_timeline(struct answer *answer, const struct request *request)
{
	struct rea_slice format = REA_SLICE_LIT("json");
	char id[ANSWER_BIZ_ID_MAX];
	struct rea_text biz_id = {id, 0};
	bool text;

	answer_query_value(request->query, "format", &format);
	text = rea_slice_equal(format, REA_SLICE_LIT("text"));
	if (!answer_percent_decode(request->parameters[0], id, sizeof(id), &biz_id.length))
		answer_problem(answer, 400, "the biz_id is badly percent-encoded or longer than 1024 bytes");
	else if (!text && !rea_slice_equal(format, REA_SLICE_LIT("json")))
		answer_problem(answer, 400, "format is json or text");
	else
		timeline_answer(answer, request->sources, biz_id, text);
}

static void put_member(struct answer *answer, const char *name, const char *text)
{
	answer_put_text(answer, ",\"");
	answer_put_text(answer, name);
	answer_put_text(answer, "\":");
	answer_put_json(answer, text, strlen(text));
}

static void put_error(struct answer *answer, const struct rea_error_info *error)
{
	if (error == NULL) {
		answer_put_text(answer, "null");
		return;
	}
	answer_put_text(answer, "{\"line\":");
	answer_put_u64(answer, error->line);
	answer_put_text(answer, ",\"column\":");
	answer_put_u64(answer, error->column);
	put_member(answer, "file", error->file);
	put_member(answer, "key", error->key);
	put_member(answer, "message", error->message);
	answer_put_text(answer, "}");
}

static void answer_config(struct answer *answer, const struct request *request)
{
	struct admin_config config = {.path = "", .version = ""};

	request->sources->config(&config, request->sources->user_data);
	answer_begin(answer, 200, "application/json");
	answer_put_text(answer, "{\"version\":");
	answer_put_json(answer, config.version, strlen(config.version));
	put_member(answer, "path", config.path);
	answer_put_text(answer, ",\"loaded_at\":");
	put_time(answer, config.loaded_unix_ns);
	answer_put_text(answer, ",\"reloads\":");
	answer_put_u64(answer, config.reloads);
	answer_put_text(answer, ",\"rejects\":");
	answer_put_u64(answer, config.rejects);
	answer_put_text(answer, ",\"last_error\":");
	put_error(answer, config.last_error);
	answer_put_text(answer, "}\n");
}

/* ---- a service ---- */

static void put_number(struct answer *answer, const char *name, double value)
{
	char number[32];
	struct rea_format text;

	rea_format_init(&text, number, sizeof(number));
	rea_format_double(&text, value);
	answer_put_text(answer, ",\"");
	answer_put_text(answer, name);
	answer_put_text(answer, "\":");
	answer_put(answer, number, text.length);
}

static void put_ms(struct answer *answer, const char *name, double ns)
{
	put_number(answer, name, (double)(uint64_t)(ns / 1e3 + 0.5) / 1e3);
}

static void put_evidence(struct answer *answer, const struct rea_budget_view *view)
{
	char heat[REA_EVIDENCE_TEXT_MAX];

	put_number(answer, "success", view->success);
	put_number(answer, "pushback", view->pushback);
	put_number(answer, "first_attempts", (double)view->first_attempts);
	put_number(answer, "retries", (double)view->retries);
	put_number(answer, "outcomes", (double)view->outcomes);
	put_number(answer, "timeouts", (double)view->timeouts);
	put_ms(answer, "latency_ms", view->latency_ns);
	put_ms(answer, "baseline_ms", view->baseline_ns);
	put_number(answer, "latency_ratio", view->baseline_ns > 0 ? view->latency_ns / view->baseline_ns : 0);
	put_number(answer, "latency_ratio_max", view->latency_ratio_max);
	put_ms(answer, "since_success_ms", (double)view->since_success_ns);
	put_ms(answer, "congested_ms", (double)view->congested_ns);
	if (view->congested_ns == 0)
		return;
	rea_evidence_format(&view->heat, heat, sizeof(heat));
	put_member(answer, "congestion", heat);
}

static void put_flag(struct answer *answer, const char *name, bool flag)
{
	answer_put_text(answer, ",\"");
	answer_put_text(answer, name);
	answer_put_text(answer, flag ? "\":true" : "\":false");
}

static void put_discovery(struct answer *answer, const struct admin_service *service)
{
	answer_put_text(answer, ",\"discovery\":{\"source\":");
	answer_put_json(answer, service->discovery.source, strlen(service->discovery.source));
	if (service->discovery.age_ns != REA_NEVER)
		put_ms(answer, "age_ms", (double)service->discovery.age_ns);
	put_number(answer, "failures", (double)service->discovery.failures);
	put_flag(answer, "troubled", service->discovery.troubled);
	put_flag(answer, "empty_held", service->discovery.empty_held);
	put_flag(answer, "protection", service->discovery.protection);
	answer_put_text(answer, "}");
}

static void put_instances(struct answer *answer, const struct request *request, struct rea_slice service)
{
	struct admin_instance instance;

	answer_put_text(answer, ",\"instances\":[");
	for (size_t i = 0; request->sources->instance(service, i, &instance, request->sources->user_data); i++) {
		answer_put_text(answer, i > 0 ? ",{\"address\":" : "{\"address\":");
		answer_put_json(answer, instance.address, strlen(instance.address));
		put_number(answer, "ejected", instance.ejected);
		put_number(answer, "ejections", (double)instance.ejections);
		put_number(answer, "weight", instance.weight);
		put_number(answer, "tier", instance.tier);
		put_flag(answer, "unhealthy", instance.unhealthy);
		answer_put_text(answer, "}");
	}
	answer_put_text(answer, "]");
}

static void answer_service(struct answer *answer, const struct request *request)
{
	static const char *const rules[] = {
	    [REA_BUDGET_RATIO] = "ratio", [REA_BUDGET_GRPC] = "grpc", [REA_BUDGET_AWS] = "aws", [REA_BUDGET_EVIDENCE] = "evidence"};
	char name[ANSWER_BIZ_ID_MAX];
	struct admin_service service;
	size_t length;

	if (!answer_percent_decode(request->parameters[0], name, sizeof(name), &length) ||
	    !request->sources->service(rea_slice_make(name, length), &service, request->sources->user_data)) {
		answer_problem(answer, 404, "there is no service of this name");
		return;
	}
	answer_begin(answer, 200, "application/json");
	answer_put_text(answer, "{\"service\":");
	answer_put_json(answer, name, length);
	answer_put_text(answer, ",\"budget\":{\"rule\":");
	answer_put_json(answer, rules[service.budget.rule], strlen(rules[service.budget.rule]));
	put_number(answer, "available", (double)service.budget.available);
	if (service.budget.rule != REA_BUDGET_RATIO)
		put_number(answer, "tokens", service.budget.tokens);
	if (service.budget.rule == REA_BUDGET_EVIDENCE)
		put_evidence(answer, &service.budget);
	answer_put_text(answer, "}");
	put_number(answer, "parked_calls", service.parked_calls);
	put_number(answer, "parked_calls_max", service.parked_calls_max);
	put_number(answer, "retries_in_flight", service.retries_in_flight);
	put_number(answer, "concurrent_retries_max", service.concurrent_retries_max);
	put_discovery(answer, &service);
	put_instances(answer, request, rea_slice_make(name, length));
	answer_put_text(answer, "}\n");
}

static void answer_openapi(struct answer *answer, const struct request *request)
{
	(void)request;
	answer_begin(answer, 200, "application/json");
	answer_put(answer, admin_openapi, admin_openapi_length);
}

/* ---- routes ---- */

static const struct route routes[] = {
    {HTTP_GET, "/healthz", answer_healthz},
    {HTTP_GET, "/readyz", answer_readyz},
    {HTTP_GET, "/version", answer_version},
    {HTTP_GET, "/metrics", answer_metrics},
    {HTTP_GET, "/v1/config", answer_config},
    {HTTP_GET, "/v1/events", answer_events},
    {HTTP_GET, "/v1/openapi.json", answer_openapi},
    {HTTP_GET, "/v1/services/{}", answer_service},
    {HTTP_GET, "/v1/timelines/{}", answer_timeline},
};

#define ROUTES (sizeof(routes) / sizeof(routes[0]))

static void answer_route(struct answer *answer, struct request *request, enum http_method method)
{
	enum http_method wanted = route_method(method);

	for (size_t i = 0; i < ROUTES; i++) {
		if (!route_matches(routes[i].pattern, request->path, request->parameters))
			continue;
		if (routes[i].method == wanted) {
			answer->allow[0] = '\0';
			routes[i].answer(answer, request);
			return;
		}
		route_allow(answer->allow, routes[i].method);
	}
	if (answer->allow[0])
		answer_problem(answer, 405, "this resource does not know the method");
	else
		answer_problem(answer, 404, "there is no such resource");
}

void answer_request(struct answer *answer, const struct admin_sources *sources, enum http_method method, struct rea_slice target)
{
	struct request request = {.sources = sources};

	route_split(target, &request.path, &request.query);
	answer_route(answer, &request, method);
	if (answer->failed) {
		answer_begin(answer, 503, "text/plain; charset=utf-8");
		answer->allow[0] = '\0';
	}
}
