/* What is told of a call: its events, and its numbers. */
#include "http/grpc.h"
#include "proxy/internal.h"

#include "base/format.h"

static struct rea_text text_of(struct rea_slice slice)
{
	return (struct rea_text){slice.data, slice.length};
}

static struct rea_text text_of_name(const char *name)
{
	return text_of(rea_slice_of(name));
}

static void push(struct proxy_worker *worker, const struct rea_event *event)
{
	rea_event_queue_push(worker->events, event);
	worker->proxy->options.notify(worker->proxy->options.user_data);
}

static enum rea_event_type event_type(const struct rea_decision *decision)
{
	if (decision->would_retry)
		return REA_EVENT_WOULD_RETRY;
	switch (decision->verdict) {
	case REA_VERDICT_RETRY:
		return REA_EVENT_RETRY;
	case REA_VERDICT_SUCCESS:
		return REA_EVENT_SUCCESS;
	case REA_VERDICT_GIVE_UP:
		break;
	}
	return REA_EVENT_GIVE_UP;
}

/* "GET /users/7", and what TLS had against the connection. */
static struct rea_slice detail_of(const struct exchange *exchange, const struct attempt *attempt, char *buffer, size_t size)
{
	const char *trouble = attempt != NULL ? attempt->trouble : NULL;
	size_t trouble_len = trouble != NULL ? strnlen(trouble, size * 3 / 4) : 0;
	struct rea_slice method = exchange->request->method, path = exchange->path;
	const char *query = path.length > 0 ? memchr(path.data, '?', path.length) : NULL;
	size_t path_len = query != NULL ? (size_t)(query - path.data) : path.length, length;

	if (method.length > size / 8)
		method.length = size / 8;
	if (path_len > size - method.length - 3 - trouble_len)
		path_len = size - method.length - 3 - trouble_len;
	memcpy(buffer, method.data, method.length);
	buffer[method.length] = ' ';
	length = method.length + 1;
	if (path_len > 0)
		memcpy(buffer + length, path.data, path_len);
	length += path_len;
	if (trouble != NULL) {
		buffer[length++] = ':';
		buffer[length++] = ' ';
		memcpy(buffer + length, trouble, trouble_len);
		length += trouble_len;
	}
	return rea_slice_make(buffer, length);
}

/* The method key: the operation's; of a gRPC call that no contract knows, from its path. */
static struct rea_slice method_of(const struct exchange *exchange, char *buffer, size_t size)
{
	struct rea_slice service, method;

	if (exchange->operation != NULL)
		return rea_slice_of(exchange->operation->key);
	if (!exchange->grpc || !grpc_path_split(exchange->path, &service, &method) || exchange->path.length > size)
		return rea_slice_make("", 0);
	memcpy(buffer, service.data, service.length);
	buffer[service.length] = '_';
	memcpy(buffer + service.length + 1, method.data, method.length);
	return rea_slice_make(buffer, service.length + 1 + method.length);
}

static void format_id(uint64_t id, char text[16])
{
	for (size_t i = 0; i < 16; i++)
		text[i] = "0123456789abcdef"[(id >> (60 - 4 * i)) & 15];
}

/* An attempt that was cancelled before a byte of it went out has met no instance. */
static const char *instance_of(const struct attempt *attempt, const struct rea_report *report)
{
	if (attempt == NULL || (report->outcome == REA_OUTCOME_CANCELLED && attempt_phase(attempt) != REA_PHASE_SENT))
		return "";
	return attempt->upstream->name;
}

static void push_attempt(struct exchange *exchange, const struct attempt *attempt, const struct rea_decision *decision,
    const struct rea_report *report)
{
	struct proxy_worker *worker = exchange->worker;
	uint64_t now = loop_now(worker->loop);
	char call_id[16], detail[REA_EVENT_TEXT_MAX], method[REA_EVENT_TEXT_MAX], evidence[REA_EVIDENCE_TEXT_MAX];
	struct rea_slice trace_id, biz_id;
	struct rea_event event;

	format_id(exchange->id, call_id);
	biz_id = head_biz_id(exchange, rea_slice_make(call_id, sizeof(call_id)), &trace_id);
	event = (struct rea_event){
	    .type = event_type(decision),
	    .time_unix_ns = loop_wall_ns(worker->loop),
	    .attempt_start_ns = attempt != NULL ? attempt->start_ns : now,
	    .time_ns = now,
	    .call_id = {call_id, sizeof(call_id)},
	    .biz_id = text_of(biz_id),
	    .key = text_of(exchange->key),
	    .trace_id = text_of(trace_id),
	    .service = text_of_name(exchange->service->config->name),
	    .method = text_of(method_of(exchange, method, sizeof(method))),
	    .instance = text_of_name(instance_of(attempt, report)),
	    .evidence = {evidence, rea_evidence_format(&decision->evidence, evidence, sizeof(evidence))},
	    .detail = text_of(detail_of(exchange, attempt, detail, sizeof(detail))),
	    .attempt = attempt != NULL ? decision->attempt : rea_call_attempts(&exchange->call) + 1,
	    .attempts_max = decision->attempts_max,
	    .outcome = report->outcome,
	    .code_kind = report->code_kind,
	    .code = report->code,
	    .cost_ns = attempt != NULL ? now - attempt->start_ns : 0,
	    .retryable = decision->retryable,
	    .next_delay_ns = decision->wait_ns,
	    .verdict = decision->verdict,
	    .reason = decision->reason,
	    .grant = decision->grant,
	};
	push(worker, &event);
}

/* A share of the first-try successes is recorded, too. */
static bool sampled(struct exchange *exchange)
{
	double share = rea_config_settings(exchange->view->snapshot->config)->events.sample_success;

	return share > 0 && (double)(rea_random_next(&exchange->worker->loop->random) >> 11) * 0x1p-53 < share;
}

void record_decision(struct exchange *exchange, const struct attempt *attempt, const struct rea_decision *decision,
    const struct rea_report *report)
{
	if (attempt != NULL)
		rea_service_stats_attempt(exchange->service->stats, report->outcome, decision->attempt > 1);
	if (decision->verdict == REA_VERDICT_SUCCESS && decision->attempt == 1) {
		if (!sampled(exchange))
			return;
		worker_count(&exchange->worker->first_try_events);
	}
	push_attempt(exchange, attempt, decision, report);
}

void record_call_end(struct exchange *exchange)
{
	const struct rea_decision *decision = &exchange->decision;

	if (decision->would_retry)
		rea_service_stats_would_retry(exchange->service->stats);
	rea_service_stats_call(exchange->service->stats, decision->reason,
	    decision->verdict == REA_VERDICT_SUCCESS && decision->attempt == 1,
	    loop_now(exchange->worker->loop) - exchange->begin_ns);
}

void record_health(struct proxy_worker *worker, const char *service, const char *instance, const char *detail, size_t length)
{
	struct rea_event event = {
	    .type = REA_EVENT_BREAKER,
	    .time_unix_ns = loop_wall_ns(worker->loop),
	    .attempt_start_ns = loop_now(worker->loop),
	    .time_ns = loop_now(worker->loop),
	    .service = text_of_name(service),
	    .instance = text_of_name(instance),
	    .detail = {detail, length},
	};

	push(worker, &event);
}

/* "127.0.0.1:9001 ejected for 2.1 s: 3 failures in a row, 3 of 12 attempts" */
void record_ejection(const struct upstream *upstream, const char *service)
{
	struct loop *loop = upstream->worker->loop;
	const struct rea_ejection *e = &upstream->load.ejection;
	struct rea_event event = {
	    .type = REA_EVENT_BREAKER,
	    .time_unix_ns = loop_wall_ns(loop),
	    .attempt_start_ns = loop_now(loop),
	    .time_ns = loop_now(loop),
	    .service = text_of_name(service),
	    .instance = text_of_name(upstream->name),
	};
	char detail[REA_EVENT_TEXT_MAX];
	struct rea_format text;

	rea_format_init(&text, detail, sizeof(detail));
	rea_format_text(&text, upstream->name);
	if (upstream->ejected) {
		rea_format_text(&text, " ejected for ");
		rea_format_fixed(&text, rea_time_sub(e->until_ns, e->since_ns) / (100 * REA_NS_PER_MS), 1);
		rea_format_text(&text, " s: ");
		rea_format_u64(&text, e->streak);
		rea_format_text(&text, " failures in a row, ");
		rea_format_u64(&text, e->failures + e->failures_before);
		rea_format_text(&text, " of its latest ");
		rea_format_u64(&text, e->attempts + e->attempts_before);
		rea_format_text(&text, " attempts, and the others do better");
	} else {
		rea_format_text(&text, " readmitted: its probes were answered");
	}
	event.detail = (struct rea_text){detail, text.length};
	push(upstream->worker, &event);
}

void record_breaker(struct circuit *circuit, enum rea_breaker_state from, enum rea_breaker_state to, uint64_t now_ns)
{
	struct loop *loop = circuit->worker->loop;
	struct rea_event event = {
	    .type = REA_EVENT_BREAKER,
	    .time_unix_ns = loop_wall_ns(loop),
	    .attempt_start_ns = now_ns,
	    .time_ns = now_ns,
	    .service = text_of_name(circuit->service),
	    .method = text_of_name(circuit->method),
	};
	char detail[64];
	size_t length = 0;
	const char *const words[] = {rea_breaker_state_name(from), " to ", rea_breaker_state_name(to)};

	for (size_t i = 0; i < 3; i++) {
		size_t n = strlen(words[i]);

		memcpy(detail + length, words[i], n);
		length += n;
	}
	event.detail = (struct rea_text){detail, length};
	push(circuit->worker, &event);
}
