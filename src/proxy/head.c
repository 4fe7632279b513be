/* What the proxy reads from a request's head, and the fields it adds to each attempt's. */
#include "http/grpc.h"
#include "proxy/internal.h"

#include <assert.h>

#define BIT(field) (UINT64_C(1) << HTTP_FIELD_##field)
/* Left out of the forwarded fields because the proxy writes its own. */
#define SKIP_ALWAYS (BIT(REA_ATTEMPT) | BIT(REA_DEADLINE_MS) | BIT(X_FORWARDED_FOR))
#define SKIP_GRPC (BIT(GRPC_TIMEOUT) | BIT(GRPC_PREVIOUS_RPC_ATTEMPTS))
/* What a layer above says of its own retries: nothing that just anybody may say. */
#define MARKS                                                                                                     \
	(BIT(REA_ATTEMPT) | BIT(REA_DEADLINE_MS) | BIT(X_ENVOY_ATTEMPT_COUNT) | BIT(GRPC_PREVIOUS_RPC_ATTEMPTS) | \
	    BIT(RPC_PERSIST_RETRYREQ) | BIT(AMZ_SDK_REQUEST))

struct rea_slice scratch_put(struct exchange *exchange, struct rea_slice text)
{
	char *at = exchange->scratch + exchange->scratch_len;

	if (text.length > EXCHANGE_SCRATCH_BYTES - exchange->scratch_len)
		return rea_slice_make(NULL, 0);
	memcpy(at, text.data, text.length);
	exchange->scratch_len += text.length;
	return rea_slice_make(at, text.length);
}

static struct rea_slice scratch_put_u64(struct exchange *exchange, uint64_t value)
{
	char digits[20];
	size_t i = sizeof(digits);

	do {
		digits[--i] = (char)('0' + value % 10);
		value /= 10;
	} while (value != 0);
	return scratch_put(exchange, rea_slice_make(digits + i, sizeof(digits) - i));
}

/* The leading number of a value, 0 when there is none; saturates. */
static uint32_t leading_number(struct rea_slice value)
{
	uint32_t n = 0;

	for (size_t i = 0; i < value.length && value.data[i] >= '0' && value.data[i] <= '9'; i++) {
		if (n > UINT32_MAX / 10 - 1)
			return UINT32_MAX;
		n = n * 10 + (uint32_t)(value.data[i] - '0');
	}
	return n;
}

/* amz-sdk-request: attempt=2; max=3 */
static uint32_t amz_attempt(struct rea_slice value)
{
	static const struct rea_slice name = REA_SLICE_LIT("attempt=");

	for (size_t i = 0; i + name.length <= value.length; i++)
		if (rea_slice_equal_nocase(rea_slice_make(value.data + i, name.length), name))
			return leading_number(rea_slice_make(value.data + i + name.length, value.length - i - name.length));
	return 0;
}

/* The attempt number that a layer above has put on the request, in any of the known conventions; 0 and 1 are no retry. */
static uint32_t chained_attempt(const struct http_field *field)
{
	uint32_t n;

	switch (field->id) {
	case HTTP_FIELD_REA_ATTEMPT:
	case HTTP_FIELD_X_ENVOY_ATTEMPT_COUNT:
		return leading_number(field->value);
	case HTTP_FIELD_GRPC_PREVIOUS_RPC_ATTEMPTS:
		n = leading_number(field->value);
		return n == UINT32_MAX ? n : n + 1;
	case HTTP_FIELD_RPC_PERSIST_RETRYREQ:
		/* Kitex sets it on retries only; its value counts them. */
		return 2;
	case HTTP_FIELD_AMZ_SDK_REQUEST:
		return amz_attempt(field->value);
	default:
		return 0;
	}
}

/* The peer is asked after only when there is a mark. */
static bool comes_from_edge(const struct exchange *exchange)
{
	const struct rea_config_settings *settings = rea_config_settings(exchange->view->snapshot->config);
	const char *peer = loop_http_conn_peer(loop_http_conn_of(exchange->downstream));

	return rea_config_trusts(settings, peer, strlen(peer));
}

void head_read(struct exchange *exchange, uint64_t *ret_deadline_ms)
{
	const struct http_request *request = exchange->request;
	bool asked = false;

	*ret_deadline_ms = UINT64_MAX;
	for (size_t i = 0; i < request->fields_len; i++) {
		const struct http_field *field = &request->fields[i];
		uint32_t n;

		if (field->id == HTTP_FIELD_OTHER)
			continue;
		if (!asked && (MARKS >> field->id & 1)) {
			asked = true;
			exchange->outside = !comes_from_edge(exchange);
		}
		if (exchange->outside && (MARKS >> field->id & 1))
			continue;
		n = chained_attempt(field);
		if (n > exchange->chained_from)
			exchange->chained_from = n;
		if (field->id == HTTP_FIELD_REA_ATTEMPT)
			exchange->chained_attempt = field->value;
		else if (field->id == HTTP_FIELD_IDEMPOTENCY_KEY)
			exchange->key = field->value;
		else if (field->id == HTTP_FIELD_GRPC_PREVIOUS_RPC_ATTEMPTS)
			exchange->grpc_previous = leading_number(field->value);
		else if (field->id == HTTP_FIELD_REA_DEADLINE_MS && !rea_slice_to_u64(field->value, ret_deadline_ms))
			*ret_deadline_ms = UINT64_MAX;
	}
}

static void more_add(struct exchange *exchange, size_t *len, struct rea_slice name, struct rea_slice value)
{
	assert(*len < EXCHANGE_FIELDS_MAX);
	exchange->more[(*len)++] = (struct http_field){.name = name, .value = value};
}

static void put_hex(struct rea_random *random, char *text, size_t digits)
{
	static const char hex[] = "0123456789abcdef";
	uint64_t bits = 0;

	for (size_t i = 0; i < digits; i++) {
		if (i % 16 == 0)
			bits = rea_random_next(random);
		text[i] = hex[bits & 15];
		bits >>= 4;
	}
}

/* A UUID version 4 as the structured-field string that the Idempotency-Key draft asks for. */
static struct rea_slice make_key(struct exchange *exchange)
{
	struct rea_random *random = &exchange->worker->loop->random;
	char key[38];

	put_hex(random, key + 1, 36);
	key[0] = key[37] = '"';
	key[9] = key[14] = key[19] = key[24] = '-';
	key[15] = '4';
	key[20] = "89ab"[rea_random_below(random, 4)];
	return scratch_put(exchange, rea_slice_make(key, sizeof(key)));
}

/* The caller's list with the caller at its end, in one field: many programs read only the first. */
static struct rea_slice forwarded_for(struct exchange *exchange, struct rea_slice peer)
{
	const struct http_request *request = exchange->request;
	const char *begin = exchange->scratch + exchange->scratch_len;
	size_t before = exchange->scratch_len;

	for (size_t i = 0; i < request->fields_len; i++) {
		if (request->fields[i].id != HTTP_FIELD_X_FORWARDED_FOR || request->fields[i].value.length == 0)
			continue;
		/* A list too long for us is cut at its old end: the nearest hop is the one that can be trusted. */
		if (request->fields[i].value.length + peer.length + 64 > EXCHANGE_SCRATCH_BYTES - exchange->scratch_len)
			continue;
		scratch_put(exchange, request->fields[i].value);
		scratch_put(exchange, REA_SLICE_LIT(", "));
	}
	scratch_put(exchange, peer);
	return rea_slice_make(begin, exchange->scratch_len - before);
}

void head_prepare(struct exchange *exchange)
{
	size_t len = 0;
	struct rea_slice peer = rea_slice_of(loop_http_conn_peer(loop_http_conn_of(exchange->downstream)));

	if (exchange->operation != NULL && exchange->operation->generate_key && exchange->key.length == 0) {
		exchange->key = make_key(exchange);
		more_add(exchange, &len, REA_SLICE_LIT("idempotency-key"), exchange->key);
	}
	more_add(exchange, &len, REA_SLICE_LIT("via"),
	    exchange->request->version == 10   ? REA_SLICE_LIT("1.0 rea")
	    : exchange->request->version == 20 ? REA_SLICE_LIT("2.0 rea")
					       : REA_SLICE_LIT("1.1 rea"));
	more_add(exchange, &len, REA_SLICE_LIT("x-forwarded-for"), forwarded_for(exchange, peer));
	exchange->more_fixed = len;
}

static struct rea_slice attempt_value(struct exchange *exchange, uint32_t attempt, uint32_t attempts_max)
{
	const char *begin = exchange->scratch + exchange->scratch_len;
	size_t before = exchange->scratch_len;

	/* A retry of a layer above stays one for the layers below. */
	if (attempt == 1 && exchange->chained_from > 1 && exchange->chained_attempt.length > 0)
		return exchange->chained_attempt;
	scratch_put_u64(exchange, attempt);
	scratch_put(exchange, REA_SLICE_LIT("/"));
	scratch_put_u64(exchange, attempts_max);
	return rea_slice_make(begin, exchange->scratch_len - before);
}

static struct rea_slice host_for(const struct exchange *exchange)
{
	const struct attempt *attempt = exchange->current;
	const char *host = view_service_host(exchange->service, attempt->instance);

	if (host != NULL)
		return rea_slice_of(host);
	return exchange->authority.length > 0 ? exchange->authority : rea_slice_of(attempt->upstream->name);
}

/* The time left and the attempts before this one, as gRPC's servers read them. */
static void add_grpc(struct exchange *exchange, size_t *len, uint32_t attempt, uint64_t remaining_ns)
{
	uint32_t previous = attempt - 1 + (exchange->grpc_previous < UINT32_MAX - attempt ? exchange->grpc_previous : 0);
	char timeout[GRPC_TIMEOUT_SIZE];

	if (remaining_ns != REA_NEVER)
		more_add(exchange, len, REA_SLICE_LIT("grpc-timeout"),
		    scratch_put(exchange, rea_slice_make(timeout, grpc_timeout_format(remaining_ns, timeout))));
	if (previous > 0)
		more_add(exchange, len, REA_SLICE_LIT("grpc-previous-rpc-attempts"), scratch_put_u64(exchange, previous));
}

void head_make(struct exchange *exchange, uint32_t attempt, uint32_t attempts_max, uint64_t remaining_ns,
    struct http_request_head *ret_head)
{
	const struct http_request *request = exchange->request;
	size_t len = exchange->more_fixed, scratch = exchange->scratch_len;

	more_add(exchange, &len, REA_SLICE_LIT("rea-attempt"), attempt_value(exchange, attempt, attempts_max));
	if (exchange->grpc)
		add_grpc(exchange, &len, attempt, remaining_ns);
	else
		more_add(exchange, &len, REA_SLICE_LIT("rea-deadline-ms"),
		    scratch_put_u64(exchange, rea_time_to_ms(remaining_ns)));
	/* The session copies at once: the next attempt may use the same room. */
	exchange->scratch_len = scratch;
	*ret_head = (struct http_request_head){
	    .method = request->method,
	    .scheme = view_service_scheme(exchange->service),
	    .authority = host_for(exchange),
	    .path = exchange->path,
	    .fields = request->fields,
	    .fields_len = request->fields_len,
	    .skip = SKIP_ALWAYS | (exchange->outside ? MARKS : 0) | (exchange->grpc ? SKIP_GRPC : 0),
	    .more = exchange->more,
	    .more_len = len,
	    .body_length = request->body_length,
	    .upgrade = request->upgrade && exchange->tunnel,
	};
}

/* 00-<32 hex trace id>-<16 hex>-<2 hex> */
static struct rea_slice trace_id_of(const struct exchange *exchange)
{
	const struct http_field *field =
	    http_field_find(exchange->request->fields, exchange->request->fields_len, HTTP_FIELD_TRACEPARENT);

	if (field == NULL || field->value.length < 55 || field->value.data[2] != '-' || field->value.data[35] != '-')
		return rea_slice_make(NULL, 0);
	return rea_slice_make(field->value.data + 3, 32);
}

struct rea_slice head_biz_id(const struct exchange *exchange, struct rea_slice call_id, struct rea_slice *ret_trace_id)
{
	const struct rea_config_settings *settings = rea_config_settings(exchange->view->snapshot->config);
	const struct http_field *field = http_field_named(
	    exchange->request->fields, exchange->request->fields_len, rea_slice_of(settings->biz_id_header));

	*ret_trace_id = trace_id_of(exchange);
	if (field != NULL && field->value.length > 0)
		return field->value;
	return ret_trace_id->length > 0 ? *ret_trace_id : call_id;
}
