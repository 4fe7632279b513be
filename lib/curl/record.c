/* What is told of a call. */
#include "curl/internal.h"

#include "base/format.h"
#include "base/hash.h"

#include <time.h>

static struct rea_text text_of(const char *text)
{
	return (struct rea_text){text, text != NULL ? strlen(text) : 0};
}

static int64_t wall_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * (int64_t)REA_NS_PER_S + now.tv_nsec;
}

static enum rea_event_type type_of(const struct rea_decision *decision)
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

/* "GET /users/42" */
static struct rea_text detail_of(const struct rea__transfer *transfer, char *buffer, size_t size)
{
	struct rea_format text;
	char *method = NULL;

	curl_easy_getinfo(transfer->easy, CURLINFO_EFFECTIVE_METHOD, &method);
	rea_format_init(&text, buffer, size);
	rea_format_text(&text, method != NULL ? method : "");
	rea_format_text(&text, " ");
	rea_format_text(&text, transfer->path);
	return (struct rea_text){buffer, text.length < size ? text.length : size - 1};
}

/* The address of the attempt: that of its instance, or the one libcurl has reached. */
static struct rea_text instance_of(const struct rea__transfer *transfer, char *buffer, size_t size)
{
	struct rea_format text;
	char *ip = NULL;

	if (transfer->call.instances != NULL)
		return (struct rea_text){buffer, rea_instance_id_format(&transfer->attempt.id, buffer, size)};
	curl_easy_getinfo(transfer->easy, CURLINFO_PRIMARY_IP, &ip);
	if (ip == NULL || ip[0] == '\0')
		return (struct rea_text){NULL, 0};
	rea_format_init(&text, buffer, size);
	rea_format_text(&text, strchr(ip, ':') != NULL ? "[" : "");
	rea_format_text(&text, ip);
	rea_format_text(&text, strchr(ip, ':') != NULL ? "]:" : ":");
	rea_format_u64(&text, (uint64_t)rea__curl_long(transfer->easy, CURLINFO_PRIMARY_PORT));
	return (struct rea_text){buffer, text.length < size ? text.length : 0};
}

static struct rea_text biz_id_of(const struct rea_curl_call *call, struct rea_text call_id)
{
	if (call->biz_id != NULL)
		return text_of(call->biz_id);
	return call->trace_id != NULL ? text_of(call->trace_id) : call_id;
}

void rea__record(struct rea__transfer *transfer, const struct rea_decision *decision, const struct rea_report *report,
    bool attempted, uint64_t now_ns)
{
	const struct rea_curl_call *call = &transfer->call;
	char id[REA_HASH_HEX_SIZE], detail[REA_EVENT_TEXT_MAX], instance[80], evidence[REA_EVIDENCE_TEXT_MAX];
	uint64_t start_ns = attempted ? transfer->attempt.start_ns : now_ns;
	struct rea_event event;

	/* A success at the first try is only counted. */
	if (call->event == NULL || (decision->verdict == REA_VERDICT_SUCCESS && decision->attempt == 1))
		return;
	rea_hash_hex(transfer->id, id);
	event = (struct rea_event){
	    .type = type_of(decision),
	    .time_unix_ns = wall_clock_ns(),
	    .attempt_start_ns = start_ns,
	    .time_ns = now_ns,
	    .call_id = text_of(id),
	    .biz_id = biz_id_of(call, text_of(id)),
	    .key = {transfer->key.data, transfer->key.length},
	    .trace_id = text_of(call->trace_id),
	    .service = text_of(call->service),
	    .method = text_of(call->method),
	    .evidence = {evidence, rea_evidence_format(&decision->evidence, evidence, sizeof(evidence))},
	    .detail = detail_of(transfer, detail, sizeof(detail)),
	    .attempt = attempted ? decision->attempt : rea_call_attempts(&transfer->decide) + 1,
	    .attempts_max = decision->attempts_max,
	    .outcome = report->outcome,
	    .code_kind = report->code_kind,
	    .code = report->code,
	    .cost_ns = rea_time_sub(now_ns, start_ns),
	    .retryable = decision->retryable,
	    .next_delay_ns = decision->wait_ns,
	    .verdict = decision->verdict,
	    .reason = decision->reason,
	    .grant = decision->grant,
	};
	if (attempted)
		event.instance = instance_of(transfer, instance, sizeof(instance));
	call->event(&event, transfer->result.code, call->event_data);
}
