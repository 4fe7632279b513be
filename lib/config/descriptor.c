/*
 * A FileDescriptorSet in protobuf's wire format: packages, services, methods, and of their options idempotency_level and rpc_retryable. All else is
 * skipped by its length. A length that reaches beyond what it stands in is refused.
 */
#include "config/contract_document.h"

#include "base/varint.h"

#include <stdarg.h>
#include <stdio.h>

#define TAG(field, type) ((uint64_t)(field) << 3 | (type))
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

/* Numbers of descriptor.proto. */
#define SET_FILE TAG(1, BYTES)
#define FILE_PACKAGE TAG(2, BYTES)
#define FILE_SERVICE TAG(6, BYTES)
#define SERVICE_NAME TAG(1, BYTES)
#define SERVICE_METHOD TAG(2, BYTES)
#define METHOD_NAME TAG(1, BYTES)
#define METHOD_OPTIONS TAG(4, BYTES)
#define METHOD_CLIENT_STREAMING TAG(5, VARINT)
#define METHOD_SERVER_STREAMING TAG(6, VARINT)
#define OPTION_IDEMPOTENCY_LEVEL TAG(34, VARINT)
#define OPTION_RPC_RETRYABLE TAG(REA_CONTRACT_PROTOBUF_OPTION, VARINT)

struct field {
	uint64_t tag;
	uint64_t number;       /* VARINT */
	struct rea_slice text; /* BYTES */
};

struct descriptor {
	struct rea__contract_reading *reading;
	struct rea_slice package;
	struct rea_slice service;
};

__attribute__((format(printf, 3, 4))) static void describe(
    const struct descriptor *set, const char *at, const char *format, ...)
{
	struct rea_error_info *info = set->reading->info;
	const struct rea_contract_document *document = set->reading->document;
	char message[200];
	va_list args;

	memset(info, 0, sizeof(*info));
	snprintf(info->file, sizeof(info->file), "%s", document->name ? document->name : "");
	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	snprintf(info->message, sizeof(info->message), "at byte %zu: %s", (size_t)(at - document->text), message);
}

/* The next field. Returns 0 with ret_field->tag 0 at the end, or refuses. */
static int take_field(const struct descriptor *set, struct rea_slice *message, struct field *ret_field)
{
	const char *at = message->data;
	uint64_t length = 0;
	bool good;

	*ret_field = (struct field){.tag = 0};
	if (message->length == 0)
		return 0;
	good = rea_varint_take(message, &ret_field->tag) && ret_field->tag >> 3 != 0 && ret_field->tag <= UINT32_MAX;
	switch (ret_field->tag & 7) {
	case VARINT:
		good = good && rea_varint_take(message, &ret_field->number);
		break;
	case BYTES:
		good = good && rea_varint_take(message, &length) && length <= message->length;
		break;
	case FIXED64:
	case FIXED32:
		length = (ret_field->tag & 7) == FIXED64 ? 8 : 4;
		good = good && length <= message->length;
		break;
	default:
		good = false; /* groups are older than descriptors */
	}
	if (!good) {
		describe(set, at, "no field of a FileDescriptorSet, or one that is longer than what it stands in");
		return REA_ERR_SYNTAX;
	}
	ret_field->text = rea_slice_make(message->data, (size_t)length);
	message->data += length;
	message->length -= (size_t)length;
	return 0;
}

static int read_options(const struct descriptor *set, struct rea_slice options, struct rea_grant *grant)
{
	static const enum rea_permission levels[] = {REA_PERMISSION_NONE, REA_PERMISSION_SAFE, REA_PERMISSION_IDEMPOTENT};
	static const enum rea_permission retryable[] = {
	    REA_PERMISSION_NONE, REA_PERMISSION_IDEMPOTENT, REA_PERMISSION_FORBID, REA_PERMISSION_IDEMPOTENT_WITH_KEY};
	struct field field;
	uint64_t level = 0, option = 0;
	int error;

	while ((error = take_field(set, &options, &field)) == 0 && field.tag != 0) {
		if (field.tag == OPTION_IDEMPOTENCY_LEVEL)
			level = field.number;
		else if (field.tag == OPTION_RPC_RETRYABLE)
			option = field.number;
		if (level >= sizeof(levels) / sizeof(levels[0]) || option >= sizeof(retryable) / sizeof(retryable[0])) {
			describe(set, field.text.data, "%s %llu has no meaning",
			    field.tag == OPTION_RPC_RETRYABLE ? "rpc_retryable" : "idempotency_level",
			    (unsigned long long)field.number);
			return REA_ERR_INVALID;
		}
	}
	/* What is not set, or unknown, says nothing. */
	for (size_t i = 0; i < 2; i++) {
		enum rea_permission said = i == 0 ? levels[level] : retryable[option];

		if (said != REA_PERMISSION_NONE)
			*grant = rea_grant_combine(*grant, (struct rea_grant){said, REA_PERMISSION_SOURCE_PROTOBUF});
	}
	return error;
}

/* operation: what is known of it but its names. */
static int put_method(const struct descriptor *set, struct rea_slice name, struct rea_operation operation)
{
	struct rea_arena *arena = set->reading->arena;
	size_t size = set->package.length + set->service.length + name.length + 4;
	char *key = rea_arena_alloc(arena, size), *path = rea_arena_alloc(arena, size);
	const char *dot = set->package.length > 0 ? "." : "";
	struct rea_error_info wrong;
	int error;

	if (key == NULL || path == NULL)
		return rea__refuse_nomem(set->reading->info, set->reading->document->name);
	snprintf(key, size, "%.*s%s%.*s_%.*s", (int)set->package.length, set->package.data, dot,
	    (int)set->service.length, set->service.data, (int)name.length, name.data);
	snprintf(path, size, "/%.*s%s%.*s/%.*s", (int)set->package.length, set->package.data, dot,
	    (int)set->service.length, set->service.data, (int)name.length, name.data);
	operation.http_method = "POST";
	operation.key = key;
	operation.path = path;
	error = rea_contract_add(set->reading->contract, &operation, &wrong);
	if (error != 0)
		describe(set, name.data, "%s", wrong.message);
	return error;
}

static int read_method(const struct descriptor *set, struct rea_slice method)
{
	const char *at = method.data;
	struct rea_slice name = {NULL, 0};
	struct rea_operation operation = {.grant = {REA_PERMISSION_NONE, REA_PERMISSION_SOURCE_NONE}};
	struct field field;
	int error;

	while ((error = take_field(set, &method, &field)) == 0 && field.tag != 0) {
		if (field.tag == METHOD_NAME)
			name = field.text;
		else if (field.tag == METHOD_OPTIONS)
			error = read_options(set, field.text, &operation.grant);
		else if (field.tag == METHOD_CLIENT_STREAMING)
			operation.client_streams = field.number != 0;
		else if (field.tag == METHOD_SERVER_STREAMING)
			operation.server_streams = field.number != 0;
		if (error != 0)
			return error;
	}
	if (error == 0 && name.length == 0) {
		describe(set, at, "a method has no name");
		return REA_ERR_INVALID;
	}
	return error != 0 ? error : put_method(set, name, operation);
}

/* A name may stand behind what it names, so each level is read twice. */
static int find_text(const struct descriptor *set, struct rea_slice message, uint64_t tag, struct rea_slice *ret_text)
{
	struct field field;
	int error;

	*ret_text = rea_slice_make("", 0);
	while ((error = take_field(set, &message, &field)) == 0 && field.tag != 0)
		if (field.tag == tag)
			*ret_text = field.text;
	return error;
}

static int read_service(struct descriptor *set, struct rea_slice service)
{
	struct field field;
	int error = find_text(set, service, SERVICE_NAME, &set->service);

	if (error == 0 && set->service.length == 0) {
		describe(set, service.data, "a service has no name");
		return REA_ERR_INVALID;
	}
	while (error == 0 && (error = take_field(set, &service, &field)) == 0 && field.tag != 0)
		if (field.tag == SERVICE_METHOD)
			error = read_method(set, field.text);
	return error;
}

static int read_file(struct descriptor *set, struct rea_slice file)
{
	struct field field;
	int error = find_text(set, file, FILE_PACKAGE, &set->package);

	while (error == 0 && (error = take_field(set, &file, &field)) == 0 && field.tag != 0)
		if (field.tag == FILE_SERVICE)
			error = read_service(set, field.text);
	return error;
}

int rea__descriptor_read(struct rea__contract_reading *reading)
{
	struct descriptor set = {.reading = reading};
	struct rea_slice text = rea_slice_make(reading->document->text, reading->document->length);
	struct field field;
	int error = 0;

	while (error == 0 && (error = take_field(&set, &text, &field)) == 0 && field.tag != 0)
		if (field.tag == SET_FILE)
			error = read_file(&set, field.text);
	return error;
}
