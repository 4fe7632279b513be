#include "admin/health.h"

#include "admin/answer.h"
#include "base/varint.h"
#include "http/grpc.h"

#define MESSAGE_MAX 4096

/* HealthCheckResponse.ServingStatus */
enum { SERVING = 1, NOT_SERVING = 2 };

/* ---- protobuf, as much as one string needs ---- */

/* Field 1 of a HealthCheckRequest; other fields are of a newer version, and skipped. */
static bool read_service(struct rea_slice message, struct rea_slice *ret_service)
{
	*ret_service = rea_slice_make("", 0);
	while (message.length > 0) {
		uint64_t tag, length = 0;

		if (!rea_varint_take(&message, &tag) || tag >> 3 == 0)
			return false;
		switch (tag & 7) {
		case 0:
			if (!rea_varint_take(&message, &length))
				return false;
			length = 0;
			break;
		case 1:
			length = 8;
			break;
		case 2:
			if (!rea_varint_take(&message, &length))
				return false;
			break;
		case 5:
			length = 4;
			break;
		default:
			return false;
		}
		if (length > message.length)
			return false;
		if (tag == (1 << 3 | 2))
			*ret_service = rea_slice_make(message.data, (size_t)length);
		message.data += length;
		message.length -= (size_t)length;
	}
	return true;
}

/* The one message of a unary request. OK, or what is wrong with it. */
static enum grpc_status read_message(struct rea_slice body, struct rea_slice *ret_message)
{
	struct grpc_frames frames;
	bool complete;

	grpc_frames_init(&frames, MESSAGE_MAX);
	if (!grpc_frames_next(&frames, &body, ret_message, &complete))
		return frames.error == GRPC_FRAME_TOO_LARGE ? GRPC_RESOURCE_EXHAUSTED : GRPC_INTERNAL;
	if (frames.compressed)
		return GRPC_UNIMPLEMENTED;
	return complete && body.length == 0 ? GRPC_OK : GRPC_INTERNAL;
}

/* ---- what is served ---- */

static bool has_usable_instance(const struct admin_sources *sources, struct rea_slice service)
{
	struct admin_instance instance;

	for (size_t i = 0; sources->instance(service, i, &instance, sources->user_data); i++)
		if (instance.usable)
			return true;
	return false;
}

static void answer(struct admin_request *request, const struct admin_sources *sources, struct rea_slice service)
{
	struct admin_service unused;
	bool ready = sources->readiness(sources->user_data) == ADMIN_READY;
	char message[GRPC_PREFIX_BYTES + 2];

	if (service.length > 0) {
		if (!sources->service(service, &unused, sources->user_data)) {
			admin_answer_grpc(request, GRPC_NOT_FOUND, "there is no service of this name", NULL, 0);
			return;
		}
		ready = ready && has_usable_instance(sources, service);
	}
	grpc_prefix_make(2, message);
	message[GRPC_PREFIX_BYTES] = 1 << 3; /* field 1, a number */
	message[GRPC_PREFIX_BYTES + 1] = ready ? SERVING : NOT_SERVING;
	admin_answer_grpc(request, GRPC_OK, "", message, sizeof(message));
}

static void refuse_type(struct admin_request *request)
{
	struct answer refusal;

	answer_init(&refusal, NULL);
	answer_problem(&refusal, 415, "this is gRPC: HTTP/2 with the content type application/grpc");
	admin_answer(request, &refusal);
	answer_fini(&refusal);
}

static void on_check(struct admin_request *request, void *user_data)
{
	const struct http_request *http = request->http;
	const struct http_field *type = http_field_find(http->fields, http->fields_len, HTTP_FIELD_CONTENT_TYPE);
	struct rea_slice message, service;
	enum grpc_status status;

	if (http->version != 20 || type == NULL || !grpc_is_content_type(type->value)) {
		refuse_type(request);
		return;
	}
	status = read_message(request->body, &message);
	if (status == GRPC_OK && !read_service(message, &service))
		status = GRPC_INTERNAL;
	if (status == GRPC_RESOURCE_EXHAUSTED)
		admin_answer_grpc(request, status, "a message may have 4096 bytes", NULL, 0);
	else if (status == GRPC_UNIMPLEMENTED)
		admin_answer_grpc(request, status, "compressed messages are not understood", NULL, 0);
	else if (status != GRPC_OK)
		admin_answer_grpc(request, status, "the body is no HealthCheckRequest", NULL, 0);
	else
		answer(request, user_data, service);
}

struct admin_routes health_routes(const struct admin_sources *sources)
{
	static const struct admin_route routes[] = {
	    {.method = HTTP_POST, .pattern = "/grpc.health.v1.Health/Check", .body_max = 65536, .handle = on_check},
	};

	return (struct admin_routes){routes, 1, (void *)(uintptr_t)sources};
}
