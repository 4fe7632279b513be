#include "lab/links.h"

#include <stdio.h>
#include <stdlib.h>

static const struct http_limits limits = {
    .head_bytes = 16384, .fields = 100, .chunk_ext_bytes = HTTP_CHUNK_EXT_BYTES, .trailer_bytes = HTTP_TRAILER_BYTES};

/* A connection to an instance. */
struct lab_link {
	struct lab_links *links;
	struct loop_http_client *client;
	struct http_client_stream *stream;
	struct lab_socket_call *call; /* NULL = idle */
	size_t instance;
	struct lab_link *next;        /* of the idle ones */
	struct lab_link *after, **at; /* of all */
	enum lab_answer answer;
	uint32_t status;
	bool stop, connected;
};

static void free_link(struct lab_link *link)
{
	*link->at = link->after;
	if (link->after != NULL)
		link->after->at = link->at;
	free(link);
}

/* ---- requests ---- */

static void end_exchange(struct lab_link *link, enum lab_answer answer)
{
	struct lab_socket_call *call = link->call;
	struct rea_report report;

	link->call = NULL;
	link->stream = NULL;
	if (call == NULL)
		return;
	call->link = NULL;
	lab_report_of(call->lab.caller->policy, answer, link->status, link->stop, &report);
	lab_call_answered(&call->lab, &report, lab_pacer_now(link->links->pacer));
}

static void drop_idle(struct lab_link *link)
{
	struct lab_link **at = &link->links->idle[link->instance];

	while (*at != NULL && *at != link)
		at = &(*at)->next;
	if (*at == link)
		*at = link->next;
}

static void send_request(struct lab_link *link)
{
	struct lab_socket_call *call = link->call;
	const struct lab_operation *operation = &link->links->scenario->operations[call->lab.operation];
	uint64_t now_ns = lab_pacer_now(link->links->pacer);
	char lab[128], attempt[16], left[24], key[32];
	struct http_field fields[4] = {{.name = REA_SLICE_LIT(LAB_FIELD)},
	    {.name = REA_SLICE_LIT("rea-attempt"), .id = HTTP_FIELD_REA_ATTEMPT},
	    {.name = REA_SLICE_LIT("rea-deadline-ms"), .id = HTTP_FIELD_REA_DEADLINE_MS},
	    {.name = REA_SLICE_LIT("idempotency-key"), .id = HTTP_FIELD_IDEMPOTENCY_KEY}};
	struct http_request_head head = {
	    .method = REA_SLICE_LIT("GET"), .authority = REA_SLICE_LIT("lab"), .path = REA_SLICE_LIT("/"), .fields = fields};
	struct http_client *session = loop_http_client_session(link->client);
	bool tells = call->lab.caller->policy->asks;

	snprintf(lab, sizeof(lab), "%llu %u %llu %llu %d", (unsigned long long)call->lab.number, call->lab.operation,
	    (unsigned long long)call->deadline_ns, (unsigned long long)rea_call_deadline(&call->lab.core), tells);
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
		link->links->failed(link->links, REA_ERR_NOMEM);
		return;
	}
	http_client_finish(link->stream, NULL, 0);
	loop_http_client_flush(link->client);
}

/* ---- answers ---- */

static void on_response(struct http_client_stream *stream, const struct http_response *response)
{
	struct lab_link *link = stream->user;
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
	struct lab_link *link = stream->user;

	(void)trailers;
	(void)trailers_len;
	/* Before the call goes on, which may want it. A session that will not take another request closes by itself. */
	if (loop_http_client_session(link->client)->reusable) {
		link->next = link->links->idle[link->instance];
		link->links->idle[link->instance] = link;
	}
	end_exchange(link, link->answer);
}

static void on_error(struct http_client_stream *stream, enum http_error error)
{
	struct lab_link *link = stream->user;

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

/* ---- connections ---- */

static void note_refused(struct lab_links *links, size_t instance)
{
	uint64_t bin = lab_pacer_now(links->pacer) / LAB_BIN_NS;

	links->refused[instance][bin < links->bins ? bin : links->bins - 1]++;
}

static void on_connect(struct loop_http_client *client, int status)
{
	struct lab_link *link = loop_http_client_user(client);

	link->connected = status == 0;
	if (status == 0) {
		send_request(link);
		return;
	}
	note_refused(link->links, link->instance);
	end_exchange(link, LAB_ANSWER_REFUSED);
	free_link(link);
}

static void on_close(struct loop_http_client *client, int status)
{
	struct lab_link *link = loop_http_client_user(client);

	(void)status;
	drop_idle(link);
	end_exchange(link, LAB_ANSWER_RESET);
	free_link(link);
}

static struct lab_link *connect_to(struct lab_links *links, size_t instance)
{
	const struct loop_http_client_options options = {
	    .events = &events, .make = h1_client_new, .limits = limits, .on_connect = on_connect, .on_close = on_close, .user = NULL};
	struct lab_link *link = calloc(1, sizeof(*link));
	int error;

	if (link == NULL)
		return NULL;
	link->links = links;
	link->instance = instance;
	error = loop_http_connect(
	    links->pacer->loop, (const struct sockaddr *)&links->addresses[instance], &options, &link->client);
	if (error != 0) {
		fprintf(stderr, "rea lab: cannot connect: %s\n", uv_strerror(error));
		free(link);
		return NULL;
	}
	loop_http_client_set_user(link->client, link);
	link->at = &links->all;
	link->after = links->all;
	if (link->after != NULL)
		link->after->at = &link->after;
	links->all = link;
	return link;
}

/* ---- calls ---- */

struct lab_socket_call *lab_links_take(struct lab_links *links)
{
	struct lab_socket_call *call = links->free_calls;

	if (call != NULL)
		links->free_calls = call->next;
	else
		call = rea_arena_alloc(&links->memory, sizeof(*call));
	if (call == NULL) {
		links->failed(links, REA_ERR_NOMEM);
		return NULL;
	}
	call->links = links;
	call->cause = NULL;
	call->link = NULL;
	return call;
}

void lab_links_give_back(struct lab_socket_call *call)
{
	call->next = call->links->free_calls;
	call->links->free_calls = call;
}

void lab_links_send(struct lab_call *lab, size_t instance, uint64_t deadline_ns, uint64_t now_ns)
{
	struct lab_socket_call *call = (struct lab_socket_call *)lab;
	struct lab_links *links = call->links;
	struct lab_link *link = links->idle[instance];

	(void)now_ns;
	call->deadline_ns = deadline_ns;
	/* One that the other end is about to close would cost the attempt. */
	while (link != NULL && !loop_http_client_alive(link->client)) {
		links->idle[instance] = link->next;
		loop_http_client_close(link->client);
		free_link(link);
		link = links->idle[instance];
	}
	if (link != NULL)
		links->idle[instance] = link->next;
	else
		link = connect_to(links, instance);
	if (link == NULL) {
		links->failed(links, REA_ERR_IO);
		return;
	}
	link->call = call;
	call->link = link;
	if (link->connected)
		send_request(link);
}

void lab_links_abandon(struct lab_call *lab, uint64_t now_ns)
{
	struct lab_socket_call *call = (struct lab_socket_call *)lab;
	struct lab_link *link = call->link;

	(void)now_ns;
	call->link = NULL;
	if (link == NULL)
		return;
	link->call = NULL;
	loop_http_client_close(link->client);
	free_link(link);
}

/* ---- the whole ---- */

void lab_links_init(struct lab_links *links)
{
	rea_arena_init(&links->memory, rea_alloc_default());
}

int lab_links_add(struct lab_links *links, const char *address, uint32_t bins)
{
	if (loop_address_parse(address, &links->addresses[links->count]) != 0)
		return REA_ERR_INVALID;
	links->refused[links->count] = calloc(bins, sizeof(uint32_t));
	if (links->refused[links->count] == NULL)
		return REA_ERR_NOMEM;
	links->bins = bins;
	links->count++;
	return 0;
}

void lab_links_close(struct lab_links *links)
{
	for (struct lab_link *link = links->all, *after; link != NULL; link = after) {
		after = link->after;
		if (link->call != NULL)
			link->call->link = NULL;
		loop_http_client_close(link->client);
		free(link);
	}
	links->all = NULL;
	memset(links->idle, 0, sizeof(links->idle));
}

void lab_links_fini(struct lab_links *links)
{
	for (uint32_t i = 0; i < links->count; i++)
		free(links->refused[i]);
	rea_arena_fini(&links->memory);
}

void lab_links_tell_refused(const struct lab_links *links, struct lab_callee *callee, uint32_t layer)
{
	for (uint32_t i = 0; i < links->count; i++)
		for (uint32_t bin = 0; bin < links->bins; bin++)
			callee->instances[layer][i].arrivals[bin] += links->refused[i][bin];
}
