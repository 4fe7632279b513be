#include "lab/bed.h"

#include "base/container.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct http_limits limits = {
    .head_bytes = 16384, .fields = 100, .chunk_ext_bytes = HTTP_CHUNK_EXT_BYTES, .trailer_bytes = HTTP_TRAILER_BYTES};

struct exchange;

struct listening {
	struct lab_sockets *sockets;
	struct lab_instance *instance;
	struct loop_http_listener *listener; /* NULL while connections are refused */
	int held;                            /* a socket that keeps the port meanwhile; -1 = none */
	char address[LOOP_ADDRESS_MAX];
	struct lab_timer change; /* refusing begins or ends */
};

struct lab_sockets {
	const struct lab_scenario *scenario;
	struct loop loop;
	struct lab_agenda agenda;
	struct lab_callee callee;
	struct lab_pacer pacer;
	struct listening instances[LAB_LAYERS_MAX * LAB_INSTANCES_MAX]; /* layer by layer */
	uint32_t count;
	struct lab_caller *callers[LAB_LAYERS_MAX]; /* of each layer but the first one: the instances of the one above … */
	struct lab_links links[LAB_LAYERS_MAX]; /* … and their connections */
	struct exchange *exchanges;
	uv_thread_t thread;
	struct loop_post stop;
};

/* ---- requests ---- */

struct exchange {
	struct lab_work work;              /* first */
	struct http_server_stream *stream; /* NULL = the client left */
	struct lab_sockets *sockets;
	struct exchange *next, **link; /* of all that are under way */
	bool arrived;
};

static void free_exchange(struct exchange *exchange)
{
	*exchange->link = exchange->next;
	if (exchange->next != NULL)
		exchange->next->link = exchange->link;
	free(exchange);
}

static struct listening *listening_of(struct http_server_stream *stream)
{
	return loop_http_conn_user(loop_http_conn_of(stream));
}

static void respond(struct http_server_stream *stream, uint16_t status, const char *hint)
{
	const struct http_field field = {
	    .name = REA_SLICE_LIT("rea-retry"), .value = rea_slice_of(hint), .id = HTTP_FIELD_REA_RETRY};
	const struct http_response_head head = {
	    .status = status, .fields = &field, .fields_len = hint != NULL, .has_body = true};
	struct loop_http_conn *conn = loop_http_conn_of(stream);

	http_server_respond(stream, &head);
	http_server_finish(stream, NULL, 0);
	loop_http_conn_flush(conn);
}

static void on_answered(struct lab_work *work, enum lab_answer answer, uint64_t now_ns)
{
	struct exchange *exchange = (struct exchange *)work;
	struct http_server_stream *stream = exchange->stream;

	(void)now_ns;
	if (stream != NULL) {
		stream->user = NULL;
		switch (answer) {
		case LAB_ANSWER_OK:
			respond(stream, 200, NULL);
			break;
		case LAB_ANSWER_ERROR:
			respond(stream, (uint16_t)work->status, work->stop ? "stop" : NULL);
			break;
		case LAB_ANSWER_PUSHBACK:
			respond(stream, 503, "after=0");
			break;
		case LAB_ANSWER_REFUSED:
		case LAB_ANSWER_RESET:
			loop_http_conn_reset(stream);
			break;
		}
	}
	free_exchange(exchange);
}

#define NUMBERS 5

static bool parse_value(struct rea_slice text, uint64_t ret_numbers[NUMBERS])
{
	for (size_t i = 0; i < NUMBERS; i++) {
		const char *space = text.length > 0 ? memchr(text.data, ' ', text.length) : NULL;
		size_t length = space != NULL ? (size_t)(space - text.data) : text.length;

		if ((space == NULL) != (i == NUMBERS - 1) ||
		    !rea_slice_to_u64(rea_slice_make(text.data, length), &ret_numbers[i]))
			return false;
		if (space != NULL)
			text = rea_slice_make(space + 1, text.length - length - 1);
	}
	return true;
}

static bool parse_field(struct rea_slice value, const struct lab_scenario *scenario, struct lab_work *work)
{
	uint64_t numbers[NUMBERS];

	if (!parse_value(value, numbers) || numbers[0] >= LAB_CALLS_MAX || numbers[1] >= scenario->operations_len)
		return false;
	work->call = numbers[0];
	work->operation = (uint32_t)numbers[1];
	work->deadline_ns = numbers[2];
	work->call_deadline_ns = numbers[3];
	work->tells = numbers[4] != 0;
	return true;
}

static bool parse_fields(const struct http_request *request, const struct lab_scenario *scenario, struct lab_work *work)
{
	bool found = false;

	work->attempt = 1;
	for (size_t i = 0; i < request->fields_len; i++) {
		const struct http_field *field = &request->fields[i];
		uint64_t attempt;

		if (field->id == HTTP_FIELD_REA_ATTEMPT && rea_slice_to_u64(field->value, &attempt))
			work->attempt = (uint32_t)rea_time_min(attempt, REA_ATTEMPTS_MAX);
		else if (rea_slice_equal_nocase(field->name, REA_SLICE_LIT(LAB_FIELD)))
			found = parse_field(field->value, scenario, work);
	}
	return found;
}

static void on_request(struct http_server_stream *stream, const struct http_request *request)
{
	struct exchange *exchange = calloc(1, sizeof(*exchange));

	stream->user = exchange;
	if (exchange == NULL)
		return;
	exchange->stream = stream;
	exchange->sockets = listening_of(stream)->sockets;
	exchange->work.answered = on_answered;
	exchange->link = &exchange->sockets->exchanges;
	exchange->next = *exchange->link;
	if (exchange->next != NULL)
		exchange->next->link = &exchange->next;
	*exchange->link = exchange;
	if (!parse_fields(request, exchange->sockets->scenario, &exchange->work)) {
		free_exchange(exchange);
		stream->user = NULL;
	}
}

static void on_body(struct http_server_stream *stream, const char *data, size_t length)
{
	(void)stream;
	(void)data;
	(void)length;
}

static void on_body_end(struct http_server_stream *stream, const struct http_field *trailers, size_t trailers_len)
{
	struct listening *listening = listening_of(stream);
	struct exchange *exchange = stream->user;

	(void)trailers;
	(void)trailers_len;
	if (exchange == NULL) {
		respond(stream, 400, NULL);
		return;
	}
	exchange->arrived = true;
	if (lab_callee_arrive(listening->instance, &exchange->work, lab_pacer_now(&listening->sockets->pacer)) != 0) {
		stream->user = NULL;
		free_exchange(exchange);
		respond(stream, 500, NULL);
	}
}

static void on_abort(struct http_server_stream *stream, enum http_error error)
{
	struct exchange *exchange = stream->user;

	(void)error;
	if (exchange == NULL)
		return;
	exchange->stream = NULL;
	if (!exchange->arrived || lab_callee_leave(&exchange->work))
		free_exchange(exchange);
}

static const struct http_server_events events = {on_request, on_body, on_body_end, on_abort, NULL};

/* ---- an instance asks the next layer ---- */

static void on_failed(struct lab_links *links, int error)
{
	struct lab_sockets *sockets = REA_CONTAINER_OF(links->pacer, struct lab_sockets, pacer);

	sockets->callee.error = error;
}

static void on_inner_done(struct lab_call *lab, const struct rea_decision *decision, uint64_t now_ns)
{
	struct lab_socket_call *call = (struct lab_socket_call *)lab;
	struct lab_work *cause = call->cause;

	lab_links_give_back(call);
	lab_call_answer_cause(cause, decision, now_ns);
}

static const struct lab_wire wire = {lab_links_send, lab_links_abandon, on_inner_done};

static void on_inner(struct lab_work *work, uint64_t now_ns)
{
	struct lab_sockets *sockets = ((struct exchange *)work)->sockets;
	uint32_t layer = work->instance->layer + 1;
	struct lab_socket_call *call = lab_links_take(&sockets->links[layer]);

	if (call == NULL)
		return;
	call->cause = work;
	if (lab_call_begin_inner(&call->lab, sockets->callers[layer], work, now_ns) != 0)
		on_failed(call->links, REA_ERR_NOMEM);
}

/* ---- refusing ---- */

static int start_listening(struct listening *listening, struct rea_error_info *info)
{
	const struct loop_http_options options = {.events = &events,
	    .limits = limits,
	    .connections_max = 100000,
	    .head_timeout_ns = 60 * REA_NS_PER_S,
	    .idle_timeout_ns = 3600 * REA_NS_PER_S,
	    .user = listening};
	int error =
	    loop_http_listen(&listening->sockets->loop, listening->address, false, &options, &listening->listener, info);

	if (error == 0)
		snprintf(listening->address, sizeof(listening->address), "%s",
		    loop_http_listener_address(listening->listener));
	return error;
}

/* A socket that is bound and does not listen: connections are refused, and nobody else gets the port. */
static int hold_port(const char *address)
{
	struct sockaddr_storage bound;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0 || loop_address_parse(address, &bound) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
	    bind(fd, (const struct sockaddr *)&bound, sizeof(struct sockaddr_in)) != 0) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	return fd;
}

static void schedule_change(struct listening *listening, uint64_t now_ns)
{
	const struct lab_callee *callee = &listening->sockets->callee;
	uint64_t next_ns = REA_NEVER;

	for (uint32_t i = 0; i < callee->windows_len; i++) {
		const struct lab_window *window = &callee->windows[i];

		if (window->fault->kind != LAB_FAULT_REFUSE)
			continue;
		if (window->from_ns > now_ns)
			next_ns = rea_time_min(next_ns, window->from_ns);
		if (window->to_ns > now_ns)
			next_ns = rea_time_min(next_ns, window->to_ns);
	}
	if (next_ns != REA_NEVER)
		lab_agenda_set(&listening->sockets->agenda, &listening->change, next_ns);
}

static void on_change(struct lab_timer *timer, uint64_t now_ns)
{
	struct listening *listening = REA_CONTAINER_OF(timer, struct listening, change);
	bool refuses = lab_callee_refuses(&listening->sockets->callee, listening->instance, now_ns);

	if (refuses && listening->listener != NULL) {
		loop_http_listener_drain(listening->listener, NULL, NULL);
		listening->listener = NULL;
		listening->held = hold_port(listening->address);
	} else if (!refuses && listening->listener == NULL) {
		if (listening->held >= 0)
			close(listening->held);
		listening->held = -1;
		if (start_listening(listening, NULL) != 0)
			listening->sockets->callee.error = REA_ERR_IO;
	}
	schedule_change(listening, now_ns);
}

/* ---- the thread ---- */

static void on_stop(struct loop_post *post)
{
	struct lab_sockets *sockets = REA_CONTAINER_OF(post, struct lab_sockets, stop);

	for (uint32_t layer = 1; layer < sockets->scenario->layers_len; layer++)
		lab_links_close(&sockets->links[layer]);
	for (uint32_t i = 0; i < sockets->count; i++) {
		if (sockets->instances[i].listener == NULL)
			continue;
		loop_http_listener_drain(sockets->instances[i].listener, NULL, NULL);
		loop_http_listener_kill(sockets->instances[i].listener);
	}
	lab_pacer_close(&sockets->pacer);
	loop_stop(&sockets->loop);
}

static void run(void *arg)
{
	struct lab_sockets *sockets = arg;

	loop_run(&sockets->loop);
	loop_fini(&sockets->loop);
}

static int listen_one(struct lab_sockets *sockets, uint32_t layer, uint32_t index, uint16_t port, struct rea_error_info *info)
{
	struct listening *listening = &sockets->instances[sockets->count];
	int error;

	*listening =
	    (struct listening){.sockets = sockets, .instance = &sockets->callee.instances[layer][index], .held = -1};
	snprintf(listening->address, sizeof(listening->address), "127.0.0.1:%u", port == 0 ? 0U : port + sockets->count);
	error = start_listening(listening, info);
	if (error != 0)
		return error;
	sockets->count++;
	if (layer > 0)
		error = lab_links_add(&sockets->links[layer], listening->address, sockets->callee.bins);
	if (error == 0)
		error = lab_agenda_join(&sockets->agenda, &listening->change, on_change);
	if (error == 0)
		schedule_change(listening, 0);
	return error;
}

static int set_up_layers(struct lab_sockets *sockets, const struct lab_policy *policy, uint16_t port, uint64_t seed,
    struct rea_error_info *info)
{
	const struct lab_scenario *scenario = sockets->scenario;
	int error = 0;

	for (uint32_t layer = 0; error == 0 && layer < scenario->layers_len; layer++) {
		for (uint32_t i = 0; error == 0 && i < scenario->layers[layer].instances; i++)
			error = listen_one(sockets, layer, i, port, info);
		if (error == 0 && layer > 0)
			error = lab_callers_new(policy, scenario, layer, scenario->layers[layer].instances, &wire,
			    &sockets->agenda, seed, &sockets->callers[layer]);
	}
	return error;
}

static void free_layers(struct lab_sockets *sockets)
{
	for (uint32_t layer = 1; layer < sockets->scenario->layers_len; layer++) {
		lab_callers_free(sockets->callers[layer], sockets->scenario, layer);
		lab_links_fini(&sockets->links[layer]);
	}
}

int lab_sockets_start(const struct lab_scenario *scenario, const struct lab_policy *policy, bool faults, uint16_t port,
    uint64_t zero_ns, uint64_t seed, struct lab_sockets **ret_sockets, struct rea_error_info *ret_info)
{
	struct lab_sockets *sockets = calloc(1, sizeof(*sockets));
	int error = REA_ERR_NOMEM;

	snprintf(ret_info->message, sizeof(ret_info->message), "out of memory");
	if (sockets == NULL)
		return error;
	sockets->scenario = scenario;
	sockets->stop.fn = on_stop;
	for (uint32_t layer = 1; layer < scenario->layers_len; layer++) {
		sockets->links[layer] =
		    (struct lab_links){.scenario = scenario, .pacer = &sockets->pacer, .failed = on_failed};
		lab_links_init(&sockets->links[layer]);
	}
	if (lab_callee_init(&sockets->callee, scenario, faults, &sockets->agenda, seed) != 0)
		goto free_sockets;
	if (loop_init(&sockets->loop, seed) != 0)
		goto free_callee;
	sockets->callee.inner = on_inner;
	error = lab_pacer_init(&sockets->pacer, &sockets->loop, &sockets->agenda, zero_ns);
	if (error != 0)
		goto free_loop;
	error = set_up_layers(sockets, policy, port, seed, ret_info);
	if (error == 0 && uv_thread_create(&sockets->thread, run, sockets) != 0)
		error = REA_ERR_NOMEM;
	if (error == 0) {
		*ret_sockets = sockets;
		return 0;
	}
	on_stop(&sockets->stop);
free_loop:
	loop_fini(&sockets->loop);
free_callee:
	lab_callee_fini(&sockets->callee);
free_sockets:
	free_layers(sockets);
	lab_agenda_fini(&sockets->agenda);
	free(sockets);
	return error;
}

const char *lab_sockets_address(const struct lab_sockets *sockets, uint32_t index)
{
	return sockets->instances[index].address;
}

void lab_sockets_stop(struct lab_sockets *sockets)
{
	loop_post(&sockets->loop, &sockets->stop);
	uv_thread_join(&sockets->thread);
	for (uint32_t layer = 1; layer < sockets->scenario->layers_len; layer++)
		lab_links_tell_refused(&sockets->links[layer], &sockets->callee, layer);
}

struct lab_callee *lab_sockets_callee(struct lab_sockets *sockets)
{
	return &sockets->callee;
}

const struct lab_latencies *lab_sockets_late(const struct lab_sockets *sockets)
{
	return &sockets->pacer.late;
}

void lab_sockets_free(struct lab_sockets *sockets)
{
	if (sockets == NULL)
		return;
	for (uint32_t i = 0; i < sockets->count; i++)
		if (sockets->instances[i].held >= 0)
			close(sockets->instances[i].held);
	/* That were worked on for nobody when it ended. */
	for (struct exchange *exchange = sockets->exchanges, *next; exchange != NULL; exchange = next) {
		next = exchange->next;
		free(exchange);
	}
	free_layers(sockets);
	lab_callee_fini(&sockets->callee);
	lab_agenda_fini(&sockets->agenda);
	free(sockets);
}
