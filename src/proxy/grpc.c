/*
 * What is different with gRPC: a call is known by its content type, its time by grpc-timeout, and what came of it by grpc-status, which stands in the
 * reply's only head (trailers-only) or behind its messages.
 */
#include "proxy/internal.h"

#include "http/grpc.h"

bool grpc_call_is(const struct http_request *request)
{
	const struct http_field *type;

	if (request->version != 20 || request->method_id != HTTP_POST)
		return false;
	type = http_field_find(request->fields, request->fields_len, HTTP_FIELD_CONTENT_TYPE);
	return type != NULL && grpc_is_content_type(type->value);
}

bool grpc_call_timeout(const struct http_request *request, uint64_t *ret_timeout_ns)
{
	const struct http_field *field = http_field_find(request->fields, request->fields_len, HTTP_FIELD_GRPC_TIMEOUT);

	*ret_timeout_ns = REA_NEVER;
	return field == NULL || grpc_timeout_parse(field->value, ret_timeout_ns);
}

bool grpc_call_timed(const struct rea_operation *operation, const struct rea_policy *policy)
{
	return policy->enabled && operation != NULL && !operation->client_streams && !operation->server_streams;
}

uint64_t grpc_attempt_left(const struct attempt *attempt)
{
	const struct exchange *exchange = attempt->exchange;
	uint64_t now = loop_now(exchange->worker->loop), left = REA_NEVER;

	if (exchange->deadline_ns != REA_NEVER)
		left = rea_time_sub(exchange->deadline_ns, now);
	if (exchange->untimed)
		return left;
	/* While the one message of the request is still arriving the attempt has its whole time before it. */
	return rea_time_min(left, attempt->deadline_ns == REA_NEVER ? exchange->policy->attempt_timeout_ns
								    : rea_time_sub(attempt->deadline_ns, now));
}

/* ---- what a reply comes to ---- */

static bool find_rule(const struct rea_policy *policy, enum grpc_status status)
{
	for (size_t i = 0; i < policy->classify_len; i++)
		if (policy->classify[i].kind == REA_CODE_GRPC && policy->classify[i].code == (uint32_t)status)
			return true;
	return false;
}

static struct rea_report report_of(const struct attempt *attempt, enum grpc_status status, const struct rea_policy *policy)
{
	return (struct rea_report){
	    .outcome = rea_outcome_from_grpc((uint32_t)status, policy->classify, policy->classify_len),
	    .code_kind = REA_CODE_GRPC,
	    .code = (uint32_t)status,
	    .latency_ns = rea_time_sub(loop_now(attempt->upstream->worker->loop), attempt->start_ns),
	};
}

/*
 * A reply without grpc-status comes from something that is no gRPC server. It is told by the status that gRPC's table gives it; but where no rule names
 * that status, its HTTP status says more: 429 and 502 are both UNAVAILABLE there.
 */
static struct rea_report report_of_http(const struct attempt *attempt, uint16_t http, const struct rea_policy *policy)
{
	enum grpc_status status = grpc_status_from_http(http);
	struct rea_report report = report_of(attempt, status, policy);

	if (http >= 400 && !find_rule(policy, status))
		report.outcome = rea_outcome_from_http(http, policy->classify, policy->classify_len);
	return report;
}

static void read_hints(struct loop *loop, const struct http_field *fields, size_t fields_len, struct rea_report *report)
{
	const struct http_field *pushback = http_field_find(fields, fields_len, HTTP_FIELD_GRPC_RETRY_PUSHBACK_MS);
	uint64_t wait;

	reply_read_hints(loop, fields, fields_len, report);
	if (pushback == NULL)
		return;
	if (!grpc_pushback_parse(pushback->value, &wait)) {
		report->flags |= REA_REPORT_STOP;
	} else if (!(report->flags & REA_REPORT_STOP)) {
		report->outcome = REA_OUTCOME_PUSHBACK;
		report->flags |= REA_REPORT_AFTER;
		report->after_ns = wait;
	}
}

struct rea_report grpc_reply_head(const struct attempt *attempt, const struct http_response *response,
    const struct rea_policy *policy, bool *ret_follows)
{
	const struct http_field *field = http_field_find(response->fields, response->fields_len, HTTP_FIELD_GRPC_STATUS);
	const struct http_field *type = http_field_find(response->fields, response->fields_len, HTTP_FIELD_CONTENT_TYPE);
	bool ends = !response->has_body || response->body_length == 0;
	enum grpc_status status = GRPC_UNKNOWN;
	struct rea_report report;

	*ret_follows = false;
	if (field != NULL) {
		grpc_status_parse(field->value, &status);
		report = report_of(attempt, status, policy);
	} else if (response->status == 200 && !ends && type != NULL && grpc_is_content_type(type->value)) {
		*ret_follows = true;
		report = report_of(attempt, GRPC_OK, policy);
	} else {
		report = report_of_http(attempt, response->status, policy);
	}
	if (report.outcome != REA_OUTCOME_OK)
		read_hints(attempt->upstream->worker->loop, response->fields, response->fields_len, &report);
	return report;
}

struct rea_report grpc_reply_trailers(const struct attempt *attempt, const struct http_field *trailers,
    size_t trailers_len, const struct rea_policy *policy)
{
	const struct http_field *field = http_field_find(trailers, trailers_len, HTTP_FIELD_GRPC_STATUS);
	enum grpc_status status = GRPC_UNKNOWN;
	struct rea_report report;

	if (field != NULL)
		grpc_status_parse(field->value, &status);
	report = report_of(attempt, status, policy);
	if (report.outcome != REA_OUTCOME_OK)
		read_hints(attempt->upstream->worker->loop, trailers, trailers_len, &report);
	return report;
}
