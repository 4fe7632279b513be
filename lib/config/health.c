/* `health-check` of a service: how its instances are asked whether they are well. */
#include "config/snapshot.h"

#define FIELDS(fields) fields, sizeof(fields) / sizeof((fields)[0])
#define HEALTH(member) offsetof(struct rea_config_health, member)
#define SERVICE_NAME_MAX 256

static int read_path(struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	static const char expected[] = "a path such as /health";
	struct rea_slice text;
	int error = rea__expect_text(reader, node, expected, &text);

	(void)field;
	if (error != 0)
		return error;
	for (size_t i = 0; i < text.length; i++)
		if (text.data[0] != '/' || text.data[i] <= ' ' || text.data[i] > '~' || text.data[i] == '#')
			return rea__refuse_value(reader, node, expected, "");
	return rea__copy_text(reader, text, ret_value);
}

static int read_service(
    struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	static const char expected[] = "the name of a gRPC service of at most 256 bytes";
	struct rea_slice text;
	int error = rea__expect_text(reader, node, expected, &text);

	(void)field;
	if (error != 0)
		return error;
	return text.length > SERVICE_NAME_MAX ? rea__refuse_value(reader, node, expected, "")
					      : rea__copy_text(reader, text, ret_value);
}

static const struct rea__type type_path = {read_path, rea__format_text};
static const struct rea__type type_service = {read_service, NULL};

static const struct rea__choice protocol_choices[] = {{"http", REA_HEALTH_HTTP}, {"grpc", REA_HEALTH_GRPC}, {NULL, 0}};

enum {
	FIELD_PROTOCOL,
	FIELD_PATH,
	FIELD_SERVICE,
	FIELD_INTERVAL,
	FIELD_TIMEOUT,
	FIELD_UNHEALTHY,
	FIELD_HEALTHY,
	HEALTH_FIELDS
};

static const struct rea__field health_fields[HEALTH_FIELDS] = {
    [FIELD_PROTOCOL] = {.name = "protocol", .type = &rea__type_choice, .offset = HEALTH(protocol), .choices = protocol_choices},
    [FIELD_PATH] = {.name = "path", .type = &type_path, .offset = HEALTH(path)},
    [FIELD_SERVICE] = {.name = "service", .type = &type_service, .offset = HEALTH(service)},
    [FIELD_INTERVAL] = {.name = "interval-ms", .type = &rea__type_u32, .offset = HEALTH(interval_ms), .min = 100, .max = 3600000},
    [FIELD_TIMEOUT] = {.name = "timeout-ms", .type = &rea__type_u32, .offset = HEALTH(timeout_ms), .min = 1, .max = 60000},
    [FIELD_UNHEALTHY] = {.name = "unhealthy-after", .type = &rea__type_u32, .offset = HEALTH(unhealthy_after), .min = 1, .max = 100},
    [FIELD_HEALTHY] = {.name = "healthy-after", .type = &rea__type_u32, .offset = HEALTH(healthy_after), .min = 1, .max = 100},
};
const struct rea__block rea__health_block = {"health-check", FIELDS(health_fields), REA__NO_LINES};

const struct rea_config_health *rea__health_defaults(void)
{
	static const struct rea_config_health defaults = {
	    .path = "/health", .service = "", .interval_ms = 5000, .timeout_ms = 1000, .unhealthy_after = 3, .healthy_after = 2};

	return &defaults;
}

int rea__health_read(struct rea__reader *reader, const struct rea__node *node, const struct rea_config_health **ret_health)
{
	const struct rea__node *seen[REA__BLOCK_FIELDS_MAX];
	struct rea_config_health *health = rea_arena_alloc(reader->arena, sizeof(*health));
	int error;

	if (health == NULL)
		return rea__nomem(reader);
	*health = *rea__health_defaults();
	health->line = node->key->line;
	error = rea__block_read(reader, node, &rea__health_block, health, seen);
	if (error != 0)
		return error;
	if (health->protocol == REA_HEALTH_GRPC && seen[FIELD_PATH] != NULL)
		return rea__refuse_key(reader, seen[FIELD_PATH], "a check by gRPC has no path, but a `service`");
	if (health->protocol == REA_HEALTH_HTTP && seen[FIELD_SERVICE] != NULL)
		return rea__refuse_key(reader, seen[FIELD_SERVICE], "a check by HTTP has no service, but a `path`");
	if (health->timeout_ms > health->interval_ms)
		return rea__refuse(reader, seen[FIELD_TIMEOUT] != NULL ? seen[FIELD_TIMEOUT] : seen[FIELD_INTERVAL],
		    "timeout-ms is %u; it must be at most interval-ms, which is %u", health->timeout_ms,
		    health->interval_ms);
	*ret_health = health;
	return 0;
}
