#include "lab/run.h"

#include "base/container.h"
#include "lab/bed.h"
#include "lab/draw.h"
#include "lab/pacer.h"

#include <stdio.h>
#include <stdlib.h>

/* Before the first call, for threads and listeners to be there. */
#define BEGIN_NS (50 * REA_NS_PER_MS)
/* A run whose calls do not end is not waited for. */
#define BEHIND_NS (5 * REA_NS_PER_S)
/* Later than this, or than a tenth of the service time, 1 of 100 requests must not be sent. */
#define LATE_MS 1.0

static const struct http_limits limits = {
    .head_bytes = 16384, .fields = 100, .chunk_ext_bytes = HTTP_CHUNK_EXT_BYTES, .trailer_bytes = HTTP_TRAILER_BYTES};

struct call;

/* A connection to an instance. */
struct link {
	struct world *world;
	struct loop_http_client *client;
	struct http_client_stream *stream;
	struct call *call; /* NULL = idle */
	size_t instance;
	struct link *next; /* of the idle ones */
	enum lab_answer answer;
	uint32_t status;
	bool stop, connected;
};

struct call {
	struct lab_call lab; /* first */
	struct world *world;
	struct link *link;
	uint64_t deadline_ns; /* of the attempt */
	struct call *next;    /* of the free ones */
};

struct world {
	const struct lab_scenario *scenario;
	const struct lab_run_options *options;
	struct loop loop;
	struct lab_agenda agenda;
	struct lab_pacer pacer;
	struct lab_sockets *sockets;
	struct lab_caller *clients;
	uint32_t instances; /* that the clients know */
	struct sockaddr_storage addresses[LAB_INSTANCES_MAX];
	struct link *idle[LAB_INSTANCES_MAX];
	uint32_t *refused[LAB_INSTANCES_MAX]; /* connections, per bin: no instance saw them */
	uint32_t bins;
	struct lab_timer arrival, end;
	struct rea_random random;
	double rate;
	uint64_t due_ns, end_ns, calls, open;
	bool offered;              /* all calls were begun */
	struct lab_latencies late; /* when requests should have been sent, and were */
	struct rea_arena memory;
	struct call *free_calls;
	struct lab_measure *measure;
	int error;
};

static void fail(struct world *world, int error)
{
	world->error = error;
	loop_stop(&world->loop);
}

/* ---- connections ---- */

static void end_exchange(struct link *link, enum lab_answer answer)
{
	struct call *call = link->call;
	struct rea_report report;

	link->call = NULL;
	link->stream = NULL;
	if (call == NULL)
		return;
	call->link = NULL;
	lab_report_of(call->lab.caller->policy, answer, link->status, link->stop, &report);
	lab_call_answered(&call->lab, &report, lab_pacer_now(&link->world->pacer));
}

static void drop_idle(struct link *link)
{
	struct link **at = &link->world->idle[link->instance];

	while (*at != NULL && *at != link)
		at = &(*at)->next;
	if (*at == link)
		*at = link->next;
}

static void send_request(struct link *link)
{
	struct call *call = link->call;
	const struct lab_operation *operation = &link->world->scenario->operations[call->lab.operation];
	uint64_t now_ns = lab_pacer_now(&link->world->pacer);
	char lab[128], attempt[16], left[24], key[32];
	struct http_field fields[4] = {{.name = REA_SLICE_LIT(LAB_FIELD)},
	    {.name = REA_SLICE_LIT("rea-attempt"), .id = HTTP_FIELD_REA_ATTEMPT},
	    {.name = REA_SLICE_LIT("rea-deadline-ms"), .id = HTTP_FIELD_REA_DEADLINE_MS},
	    {.name = REA_SLICE_LIT("idempotency-key"), .id = HTTP_FIELD_IDEMPOTENCY_KEY}};
	struct http_request_head head = {
	    .method = REA_SLICE_LIT("GET"), .authority = REA_SLICE_LIT("lab"), .path = REA_SLICE_LIT("/"), .fields = fields};
	struct http_client *session = loop_http_client_session(link->client);
	bool tells = call->lab.caller->policy->asks;

	snprintf(lab, sizeof(lab), "%llu %u %u %llu %llu %d", (unsigned long long)call->lab.number, call->lab.operation,
	    rea_call_attempts(&call->lab.core), (unsigned long long)call->deadline_ns,
	    (unsigned long long)rea_call_deadline(&call->lab.core), tells);
	snprintf(attempt, sizeof(attempt), "%u", rea_call_attempts(&call->lab.core));
	snprintf(left, sizeof(left), "%llu", (unsigned long long)rea_time_to_ms(rea_time_sub(call->deadline_ns, now_ns)));
	snprintf(key, sizeof(key), "lab-%llu", (unsigned long long)call->lab.number);
	fields[0].value = rea_slice_of(lab);
	fields[1].value = rea_slice_of(attempt);
	fields[2].value = rea_slice_of(left);
	fields[3].value = rea_slice_of(key);
	head.fields_len = tells ? 3 : 1;
	if (operation->key)
		fields[head.fields_len++] = fields[3];
	link->status = 0;
	link->stop = false;
	link->answer = LAB_ANSWER_OK;
	link->stream = http_client_begin(session, &head, link);
	if (link->stream == NULL) {
		fail(link->world, REA_ERR_NOMEM);
		return;
	}
	http_client_finish(link->stream, NULL, 0);
	loop_http_client_flush(link->client);
}

static void on_response(struct http_client_stream *stream, const struct http_response *response)
{
	struct link *link = stream->user;
	uint64_t after_ns;

	link->status = response->status;
	link->answer = response->status < 400 ? LAB_ANSWER_OK : LAB_ANSWER_ERROR;
	for (size_t i = 0; i < response->fields_len; i++) {
		enum rea_hint hint;

		if (response->fields[i].id != HTTP_FIELD_REA_RETRY)
			continue;
		hint = rea_hint_parse(response->fields[i].value.data, response->fields[i].value.length, &after_ns);
		link->stop = hint == REA_HINT_STOP;
		if (hint == REA_HINT_AFTER)
			link->answer = LAB_ANSWER_PUSHBACK;
	}
}

static void on_interim(struct http_client_stream *stream, const struct http_response *response)
{
	(void)stream;
	(void)response;
}

static void on_body(struct http_client_stream *stream, const char *data, size_t length)
{
	(void)stream;
	(void)data;
	(void)length;
}

static void on_body_end(struct http_client_stream *stream, const struct http_field *trailers, size_t trailers_len)
{
	struct link *link = stream->user;

	(void)trailers;
	(void)trailers_len;
	/* Before the call goes on, which may want it. A session that will not take another request closes by itself. */
	if (loop_http_client_session(link->client)->reusable) {
		link->next = link->world->idle[link->instance];
		link->world->idle[link->instance] = link;
	}
	end_exchange(link, link->answer);
}

static void on_error(struct http_client_stream *stream, enum http_error error)
{
	struct link *link = stream->user;

	(void)error;
	end_exchange(link, LAB_ANSWER_RESET);
}

static const struct http_client_events events = {
    .on_interim = on_interim,
    .on_response = on_response,
    .on_body = on_body,
    .on_body_end = on_body_end,
    .on_error = on_error,
};

static void note_refused(struct world *world, size_t instance)
{
	uint64_t bin = lab_pacer_now(&world->pacer) / LAB_BIN_NS;

	world->refused[instance][bin < world->bins ? bin : world->bins - 1]++;
}

static void on_connect(struct loop_http_client *client, int status)
{
	struct link *link = loop_http_client_user(client);

	link->connected = status == 0;
	if (status == 0) {
		send_request(link);
		return;
	}
	note_refused(link->world, link->instance);
	end_exchange(link, LAB_ANSWER_REFUSED);
	free(link);
}

static void on_close(struct loop_http_client *client, int status)
{
	struct link *link = loop_http_client_user(client);

	(void)status;
	drop_idle(link);
	end_exchange(link, LAB_ANSWER_RESET);
	free(link);
}

static struct link *connect_to(struct world *world, size_t instance)
{
	const struct loop_http_client_options options = {
	    .events = &events, .make = h1_client_new, .limits = limits, .on_connect = on_connect, .on_close = on_close, .user = NULL};
	struct link *link = calloc(1, sizeof(*link));
	int error;

	if (link == NULL)
		return NULL;
	link->world = world;
	link->instance = instance;
	error = loop_http_connect(&world->loop, (const struct sockaddr *)&world->addresses[instance], &options, &link->client);
	if (error != 0) {
		fprintf(stderr, "rea lab: cannot connect: %s\n", uv_strerror(error));
		free(link);
		return NULL;
	}
	loop_http_client_set_user(link->client, link);
	return link;
}

/* ---- the wire of the clients ---- */

static void send_attempt(struct lab_call *lab, size_t instance, uint64_t deadline_ns, uint64_t now_ns)
{
	struct call *call = (struct call *)lab;
	struct world *world = call->world;
	struct link *link = world->idle[instance];

	(void)now_ns;
	call->deadline_ns = deadline_ns;
	/* One that the other end is about to close would cost the attempt. */
	while (link != NULL && !loop_http_client_alive(link->client)) {
		world->idle[instance] = link->next;
		loop_http_client_close(link->client);
		free(link);
		link = world->idle[instance];
	}
	if (link != NULL)
		world->idle[instance] = link->next;
	else
		link = connect_to(world, instance);
	if (link == NULL) {
		fail(world, REA_ERR_IO);
		return;
	}
	link->call = call;
	call->link = link;
	if (link->connected)
		send_request(link);
}

static void abandon(struct lab_call *lab, uint64_t now_ns)
{
	struct call *call = (struct call *)lab;
	struct link *link = call->link;

	(void)now_ns;
	call->link = NULL;
	if (link == NULL)
		return;
	link->call = NULL;
	loop_http_client_close(link->client);
	free(link);
}

static void check_end(struct world *world)
{
	if (world->offered && world->open == 0)
		loop_stop(&world->loop);
}

static void on_done(struct lab_call *lab, const struct rea_decision *decision, uint64_t now_ns)
{
	struct call *call = (struct call *)lab;
	struct world *world = call->world;

	lab_measure_done(world->measure, lab_sockets_callee(world->sockets), lab->begin_ns,
	    rea_call_attempts(&lab->core), decision->verdict, decision->reason, now_ns);
	call->next = world->free_calls;
	world->free_calls = call;
	world->open--;
	check_end(world);
}

static const struct lab_wire wire = {send_attempt, abandon, on_done};

/* ---- the load: drawn in advance, whatever comes of it ---- */

static void begin_call(struct world *world, uint64_t due_ns, uint64_t now_ns)
{
	struct call *call = world->free_calls;

	if (call != NULL)
		world->free_calls = call->next;
	else
		call = rea_arena_alloc(&world->memory, sizeof(*call));
	if (call == NULL) {
		fail(world, REA_ERR_NOMEM);
		return;
	}
	call->world = world;
	call->link = NULL;
	call->lab.caller = &world->clients[rea_random_below(&world->random, world->scenario->clients)];
	call->lab.operation = lab_draw_operation(world->scenario, &world->random);
	call->lab.number = world->calls++;
	world->open++;
	lab_latencies_add(&world->late, rea_time_sub(now_ns, due_ns));
	lab_measure_begun(world->measure, due_ns);
	/* A call is as old as it was planned to be: its delay is not hidden from anybody. */
	if (lab_call_begin(&call->lab, REA_NEVER, false, due_ns) != 0)
		fail(world, REA_ERR_NOMEM);
}

static void on_arrival(struct lab_timer *timer, uint64_t now_ns)
{
	struct world *world = REA_CONTAINER_OF(timer, struct world, arrival);
	uint64_t due_ns = world->due_ns;

	world->due_ns = rea_time_add(due_ns, lab_draw_gap_ns(world->rate, &world->random));
	world->offered = world->due_ns >= world->end_ns;
	if (!world->offered)
		lab_agenda_set(&world->agenda, timer, world->due_ns);
	begin_call(world, due_ns, now_ns);
	check_end(world);
}

static void on_end(struct lab_timer *timer, uint64_t now_ns)
{
	(void)now_ns;
	loop_stop(&REA_CONTAINER_OF(timer, struct world, end)->loop);
}

/* ---- the whole ---- */

static int find_addresses(struct world *world)
{
	int error = 0;

	world->instances = world->options->through != NULL ? 1 : world->scenario->layers[0].instances;
	for (uint32_t i = 0; error == 0 && i < world->instances; i++) {
		error = loop_address_parse(
		    world->options->through != NULL ? world->options->through : lab_sockets_address(world->sockets, i),
		    &world->addresses[i]);
		world->refused[i] = calloc(world->bins, sizeof(uint32_t));
		if (error == 0 && world->refused[i] == NULL)
			return REA_ERR_NOMEM;
	}
	return error != 0 ? REA_ERR_INVALID : 0;
}

static int set_up(struct world *world, const struct lab_policy *policy, bool faults, uint64_t seed)
{
	const struct lab_scenario *scenario = world->scenario;
	struct rea_error_info info;
	uint64_t zero_ns = rea_time_add(loop_now(&world->loop), BEGIN_NS);
	int error = lab_sockets_start(scenario, faults, world->options->port, zero_ns, seed, &world->sockets, &info);

	if (error != 0) {
		fprintf(stderr, "rea lab: %s\n", info.message);
		return error;
	}
	world->bins = lab_sockets_callee(world->sockets)->bins;
	error = lab_pacer_init(&world->pacer, &world->loop, &world->agenda, zero_ns);
	if (error != 0)
		return error;
	error = find_addresses(world);
	if (error == 0)
		error = lab_measure_init(world->measure, scenario, world->bins);
	world->clients = calloc(scenario->clients, sizeof(*world->clients));
	if (error == 0 && world->clients == NULL)
		error = REA_ERR_NOMEM;
	for (uint32_t i = 0; error == 0 && i < scenario->clients; i++)
		error = lab_caller_init(&world->clients[i], policy, scenario, world->instances, &wire, &world->agenda,
		    seed + (UINT64_C(1) << 32) + i);
	if (error == 0)
		error = lab_agenda_join(&world->agenda, &world->arrival, on_arrival);
	if (error == 0)
		error = lab_agenda_join(&world->agenda, &world->end, on_end);
	if (error != 0)
		return error;
	world->rate = lab_scenario_rate(scenario);
	world->end_ns = (uint64_t)(scenario->duration_s * REA_NS_PER_S);
	rea_random_init(&world->random, seed ^ UINT64_C(0x6c6f6164));
	world->due_ns = lab_draw_gap_ns(world->rate, &world->random);
	lab_agenda_set(&world->agenda, &world->arrival, world->due_ns);
	lab_agenda_set(&world->agenda, &world->end, rea_time_add(world->end_ns, scenario->deadline_ns + BEHIND_NS));
	return 0;
}

static void close_links(struct world *world)
{
	for (uint32_t i = 0; i < world->instances; i++)
		while (world->idle[i] != NULL) {
			struct link *link = world->idle[i];

			world->idle[i] = link->next;
			loop_http_client_close(link->client);
			free(link);
		}
}

/* What no instance saw, since it had closed its port, it is told now. */
static void tell_refused(struct world *world)
{
	for (uint32_t i = 0; world->options->through == NULL && i < world->instances; i++)
		for (uint32_t bin = 0; bin < world->bins; bin++)
			lab_sockets_callee(world->sockets)->instances[0][i].arrivals[bin] += world->refused[i][bin];
}

static void judge_schedule(struct world *world)
{
	double limit_ms = (double)world->scenario->layers[0].service_ns / REA_NS_PER_MS / 10;
	double sent_ms = lab_latencies_at(&world->late, 0.99),
	       served_ms = lab_latencies_at(lab_sockets_late(world->sockets), 0.99);

	world->measure->schedule_p99_ms = sent_ms;
	limit_ms = limit_ms > LATE_MS ? limit_ms : LATE_MS;
	world->measure->invalid = sent_ms > limit_ms || served_ms > limit_ms || world->open > 0;
}

static void tear_down(struct world *world)
{
	close_links(world);
	if (world->pacer.loop != NULL)
		lab_pacer_close(&world->pacer);
	for (uint32_t i = 0; world->clients != NULL && i < world->scenario->clients; i++)
		lab_caller_fini(&world->clients[i]);
	free(world->clients);
	for (uint32_t i = 0; i < world->instances; i++)
		free(world->refused[i]);
	loop_fini(&world->loop);
	lab_sockets_free(world->sockets);
	rea_arena_fini(&world->memory);
	lab_agenda_fini(&world->agenda);
}

static uint64_t count_ejections(const struct world *world)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < world->scenario->clients; i++)
		count += world->clients[i].ejections;
	return count;
}

int lab_run_run(const void *context, const struct lab_scenario *scenario, const struct lab_policy *policy, bool faults,
    uint64_t seed, struct lab_measure *ret_measure)
{
	struct world *world = calloc(1, sizeof(*world));
	int error;

	*ret_measure = (struct lab_measure){.scenario = NULL};
	if (world == NULL || loop_init(&world->loop, seed) != 0) {
		free(world);
		return REA_ERR_NOMEM;
	}
	world->scenario = scenario;
	world->options = context;
	world->measure = ret_measure;
	rea_arena_init(&world->memory, rea_alloc_default());
	error = set_up(world, policy, faults, seed);
	if (error == 0) {
		loop_run(&world->loop);
		error = world->error;
	}
	if (world->sockets != NULL)
		lab_sockets_stop(world->sockets);
	if (error == 0)
		error = lab_sockets_callee(world->sockets)->error;
	if (error == 0) {
		judge_schedule(world);
		tell_refused(world);
		lab_measure_finish(ret_measure, lab_sockets_callee(world->sockets), count_ejections(world));
	} else {
		lab_measure_fini(ret_measure);
	}
	tear_down(world);
	free(world);
	return error;
}
