#include "proxy/health.h"

#include "base/container.h"
#include "base/format.h"
#include "http/grpc.h"
#include "proxy/deliver.h"

#include <stdlib.h>

#define BODY_MAX 300
#define REPLY_MAX 4096

/* One instance of one service. */
struct check {
	struct check *next; /* in its bucket */
	struct health *health;
	char *service;
	struct rea_instance_id id;
	struct wheel_timer timer;        /* the next question */
	struct proxy_delivery *delivery; /* the question under way; NULL = none */
	struct rea_config *config;       /* whose texts it borrows, a reference; NULL = none */
	uint32_t passed, failed;         /* in a row */
	bool bad;
	bool listed; /* while configuring: it is among the instances */
	uint64_t checks, failures;
	char timeout[GRPC_TIMEOUT_SIZE];
	struct http_field fields[4];
	char body[BODY_MAX];
};

struct health {
	struct proxy_worker *worker;
	struct check *checks[INSTANCE_BUCKETS];
	struct wheel_timer tell; /* some have changed */
};

static struct check **place_of(struct health *health, const char *service, const struct rea_instance_id *id)
{
	struct check **place = &health->checks[instance_bucket(id)];

	while (*place != NULL && !(rea_instance_id_equal(&(*place)->id, id) && strcmp((*place)->service, service) == 0))
		place = &(*place)->next;
	return place;
}

bool health_is_bad(const struct health *health, const char *service, const struct rea_instance_id *id)
{
	const struct check *check = health != NULL ? *place_of((struct health *)(uintptr_t)health, service, id) : NULL;

	return check != NULL && check->bad;
}

/* ---- asking ---- */

static void ask_again(struct check *check, uint64_t interval_ms)
{
	struct loop *loop = check->health->worker->loop;
	uint64_t interval_ns = rea_time_from_ms(interval_ms);

	/* A tenth more or less: no two of them keep step. */
	loop_timer_start(loop, &check->timer,
	    rea_time_add(
		loop_now(loop), interval_ns - interval_ns / 10 + rea_random_below(&loop->random, interval_ns / 5 + 1)));
}

static void settle(struct check *check)
{
	check->delivery = NULL;
	rea_config_unref(check->config);
	check->config = NULL;
}

static void turn(struct check *check, bool bad, const struct proxy_delivery_result *result)
{
	struct proxy_worker *worker = check->health->worker;
	char detail[REA_EVENT_TEXT_MAX];
	struct rea_format text;

	check->bad = bad;
	rea_format_init(&text, detail, sizeof(detail));
	rea_format_text(&text, result->instance);
	rea_format_text(&text, bad ? " unhealthy: " : " healthy again: ");
	rea_format_u64(&text, bad ? check->failed : check->passed);
	rea_format_text(&text, bad ? " checks in a row failed" : " checks in a row passed");
	if (bad && result->detail[0] != '\0') {
		rea_format_text(&text, "; the last one: ");
		rea_format_text(&text, result->detail);
	} else if (bad && result->report.code_kind != REA_CODE_NONE) {
		rea_format_text(&text, result->report.code_kind == REA_CODE_GRPC ? "; the last one with gRPC status "
										 : "; the last one with status ");
		rea_format_u64(&text, result->report.code);
	}
	record_health(worker, check->service, result->instance, detail, text.length);
	loop_timer_start(worker->loop, &check->health->tell, 0);
}

/* SERVING, which is 1, in the only message. */
static bool says_serving(struct rea_slice reply)
{
	static const char serving[] = {0, 0, 0, 0, 2, 8, 1};

	return rea_slice_equal(reply, rea_slice_make(serving, sizeof(serving)));
}

static void on_done(const struct proxy_delivery_result *result, void *user_data)
{
	struct check *check = user_data;
	const struct rea_config_health *how =
	    rea_config_find_service(check->config, check->service, strlen(check->service))->health;
	bool good = result->report.outcome == REA_OUTCOME_OK;

	if (how->protocol == REA_HEALTH_GRPC)
		good = good && says_serving(result->reply);
	else
		good = good && result->report.code < 300;
	check->checks++;
	check->failures += !good;
	check->passed = good ? check->passed + 1 : 0;
	check->failed = good ? 0 : check->failed + 1;
	if (!check->bad && check->failed >= how->unhealthy_after)
		turn(check, true, result);
	else if (check->bad && check->passed >= how->healthy_after)
		turn(check, false, result);
	ask_again(check, how->interval_ms);
	settle(check);
}

static void make_grpc(struct check *check, const struct rea_config_health *how, struct proxy_delivery_options *options)
{
	size_t name = strlen(how->service), length = 0;
	char *p = check->body + GRPC_PREFIX_BYTES;

	if (name > 0) {
		p[length++] = 1 << 3 | 2; /* field 1, a text */
		if (name > 127)
			p[length++] = (char)(uint8_t)((name & 127) | 128);
		p[length++] = (char)(uint8_t)(name > 127 ? name >> 7 : name);
		memcpy(p + length, how->service, name);
		length += name;
	}
	grpc_prefix_make((uint32_t)length, check->body);
	options->body = rea_slice_make(check->body, GRPC_PREFIX_BYTES + length);
	options->grpc = true;
	options->head.method = REA_SLICE_LIT("POST");
	options->head.path = REA_SLICE_LIT("/grpc.health.v1.Health/Check");
	check->fields[1] = (struct http_field){
	    REA_SLICE_LIT("content-type"), REA_SLICE_LIT("application/grpc"), HTTP_FIELD_CONTENT_TYPE, false};
	check->fields[2] = (struct http_field){REA_SLICE_LIT("te"), REA_SLICE_LIT("trailers"), HTTP_FIELD_TE, true};
	check->fields[3] = (struct http_field){REA_SLICE_LIT("grpc-timeout"),
	    rea_slice_make(check->timeout, grpc_timeout_format(rea_time_from_ms(how->timeout_ms), check->timeout)),
	    HTTP_FIELD_GRPC_TIMEOUT, false};
	options->head.fields_len = 4;
}

static void ask(struct check *check, const struct proxy_route *route, size_t instance)
{
	const struct rea_config_health *how = route->service->health;
	struct loop *loop = check->health->worker->loop;
	struct proxy_delivery_options options = {
	    .head = {.method = REA_SLICE_LIT("GET"), .path = rea_slice_of(how->path), .fields = check->fields, .fields_len = 1},
	    .instance = instance,
	    .deadline_ns = rea_time_add(loop_now(loop), rea_time_from_ms(how->timeout_ms)),
	    .reply_max = REPLY_MAX,
	    .policy = route->service->policy,
	    .check = true,
	};

	check->fields[0] =
	    (struct http_field){REA_SLICE_LIT("user-agent"), REA_SLICE_LIT("rea health check"), HTTP_FIELD_OTHER, false};
	if (how->protocol == REA_HEALTH_GRPC)
		make_grpc(check, how, &options);
	check->config = rea_config_ref(route->view->snapshot->config);
	check->delivery = proxy_deliver(route, &options, on_done, check);
	if (check->delivery == NULL) {
		settle(check);
		ask_again(check, how->interval_ms);
	}
}

static size_t find_instance(const struct rea_instances *instances, const struct rea_instance_id *id)
{
	size_t i = 0;

	while (i < instances->count && !rea_instance_id_equal(&instances->items[i].id, id))
		i++;
	return i;
}

static void on_timer(struct wheel_timer *timer, uint64_t now_ns)
{
	struct check *check = REA_CONTAINER_OF(timer, struct check, timer);
	struct proxy_route route;
	size_t instance;

	(void)now_ns;
	if (!proxy_route_get(
		check->health->worker, rea_slice_of(check->service), REA_SLICE_LIT("GET"), REA_SLICE_LIT("/"), &route))
		return; /* it is on its way out */
	instance = find_instance(route.instances, &check->id);
	if (route.service->health != NULL && instance < route.instances->count)
		ask(check, &route, instance);
	else
		ask_again(check, 100); /* the worker has not taken up yet what says so */
	proxy_route_put(&route);
}

/* ---- what is asked ---- */

static void check_free(struct check *check)
{
	loop_timer_stop(check->health->worker->loop, &check->timer);
	if (check->delivery != NULL)
		proxy_delivery_cancel(check->delivery);
	settle(check);
	free(check->service);
	free(check);
}

static void check_add(struct health *health, struct check **place, const struct rea_config_service *service,
    const struct rea_instance_id *id)
{
	struct check *check = calloc(1, sizeof(*check));
	struct loop *loop = health->worker->loop;

	if (check == NULL)
		return;
	check->health = health;
	check->id = *id;
	check->listed = true;
	check->timer.fire = on_timer;
	check->service = strdup(service->name);
	if (check->service == NULL) {
		free(check);
		return;
	}
	*place = check;
	/* Soon, but not all at once. */
	loop_timer_start(loop, &check->timer,
	    rea_time_add(loop_now(loop),
		rea_random_below(&loop->random, rea_time_from_ms(service->health->interval_ms) / 4 + 1)));
}

static void sweep(struct health *health)
{
	for (size_t i = 0; i < INSTANCE_BUCKETS; i++) {
		struct check **place = &health->checks[i];

		while (*place != NULL) {
			struct check *check = *place;

			if (check->listed) {
				check->listed = false;
				place = &check->next;
			} else {
				*place = check->next;
				check_free(check);
			}
		}
	}
}

void health_configure(struct health *health, const struct snapshot *snapshot)
{
	for (size_t i = 0; i < snapshot->services_len; i++) {
		const struct snapshot_service *service = &snapshot->services[i];

		for (size_t k = 0; service->config->health != NULL && k < service->instances_len; k++) {
			struct check **place = place_of(health, service->config->name, &service->instances[k].id);

			if (*place != NULL)
				(*place)->listed = true;
			else
				check_add(health, place, service->config, &service->instances[k].id);
		}
	}
	sweep(health);
}

static void on_tell(struct wheel_timer *timer, uint64_t now_ns)
{
	const struct health *health = REA_CONTAINER_OF(timer, struct health, tell);
	const struct proxy_options *options = &health->worker->proxy->options;

	(void)now_ns;
	options->health_changed(options->user_data);
}

struct health *health_new(struct proxy_worker *worker)
{
	struct health *health = calloc(1, sizeof(*health));

	if (health != NULL) {
		health->worker = worker;
		health->tell.fire = on_tell;
	}
	return health;
}

void health_free(struct health *health)
{
	if (health == NULL)
		return;
	loop_timer_stop(health->worker->loop, &health->tell);
	for (size_t i = 0; i < INSTANCE_BUCKETS; i++)
		for (struct check *check = health->checks[i]; check != NULL; check = check->next)
			check->listed = false;
	sweep(health);
	free(health);
}

/* ---- numbers ---- */

static void sample(const struct check *check, struct rea_prometheus *out, const char *name, const char *result, double value)
{
	char address[LOOP_ADDRESS_MAX];
	const char *const labels[] = {"service", check->service, "instance", address, "result", result};

	rea_instance_id_format(&check->id, address, sizeof(address));
	rea_prometheus_sample(out, name, labels, result != NULL ? 6 : 4, value);
}

void health_metrics(const struct health *health, struct rea_prometheus *out)
{
	rea_prometheus_family(
	    out, "rea_instance_unhealthy", REA_METRIC_GAUGE, "1: the instance has failed its health checks.");
	for (size_t i = 0; i < INSTANCE_BUCKETS; i++)
		for (const struct check *check = health->checks[i]; check != NULL; check = check->next)
			sample(check, out, "rea_instance_unhealthy", NULL, check->bad);
	rea_prometheus_family(
	    out, "rea_health_checks_total", REA_METRIC_COUNTER, "Health checks of instances, by what came of them.");
	for (size_t i = 0; i < INSTANCE_BUCKETS; i++)
		for (const struct check *check = health->checks[i]; check != NULL; check = check->next) {
			sample(check, out, "rea_health_checks_total", "passed", (double)(check->checks - check->failures));
			sample(check, out, "rea_health_checks_total", "failed", (double)check->failures);
		}
}
