/* Everything that stands beside the services: where to listen, limits, timeouts, events. */
#include "config/snapshot.h"

#include "contract/segment.h"

#define BIZ_ID_HEADER_MAX 256
#define FIELDS(fields) fields, sizeof(fields) / sizeof((fields)[0])
#define SETTING(member) offsetof(struct rea_config_settings, member)

void rea_config_settings_defaults(struct rea_config_settings *settings)
{
	static const struct rea_config_listen listen = {.address = "127.0.0.1:7070"};
	/* What is no address of the public network. */
	static const struct rea_config_range edge[] = {
	    {"127.0.0.0/8", {[10] = 0xff, [11] = 0xff, 127}, 104},
	    {"10.0.0.0/8", {[10] = 0xff, [11] = 0xff, 10}, 104},
	    {"172.16.0.0/12", {[10] = 0xff, [11] = 0xff, 172, 16}, 108},
	    {"192.168.0.0/16", {[10] = 0xff, [11] = 0xff, 192, 168}, 112},
	    {"100.64.0.0/10", {[10] = 0xff, [11] = 0xff, 100, 64}, 106},
	    {"169.254.0.0/16", {[10] = 0xff, [11] = 0xff, 169, 254}, 112},
	    {"::1", {[15] = 1}, 128},
	    {"fc00::/7", {0xfc}, 7},
	    {"fe80::/10", {0xfe, 0x80}, 10},
	};

	*settings = (struct rea_config_settings){
	    .listen = &listen,
	    .listen_len = 1,
	    .admin = "127.0.0.1:7071",
	    .threads = 1,
	    .biz_id_header = "x-biz-id",
	    .trusted_edge = edge,
	    .trusted_edge_len = sizeof(edge) / sizeof(edge[0]),
	    .events = {.file = NULL,
		.ring = 4096,
		.sample_success = 0,
		.queue_bytes = 262144,
		.sqlite = NULL,
		.sqlite_retention_hours = 168,
		.sqlite_max_mb = 1024},
	    .limits = {.concurrent_retries = 256,
		.parked_calls = 1000,
		.header_bytes = 32768,
		.headers = 100,
		.connections = 10000,
		.upstream_connections = 1024,
		.upstream_idle = 64,
		.admin_connections = 512,
		.task_queue = 1000000,
		.task_bytes = 1 << 20,
		.task_attempts = REA_ATTEMPTS_MAX},
	    .timeouts = {.request_head_ms = 10000,
		.keep_alive_ms = 60000,
		.stream_idle_ms = 30000,
		.upstream_idle_ms = 30000,
		.drain_ms = 10000},
	    .upgrade = REA_TUNNEL_REFUSE,
	    .connect = REA_TUNNEL_REFUSE,
	    .tasks = {.file = NULL, .concurrency = 64, .target_concurrency = 16, .retention_hours = 168, .reply_bytes = 16384},
	};
}

struct listen_reading {
	const char *address;
	const struct rea__node *tls;
};

static const struct rea__field listen_fields[] = {
    {.name = "address", .type = &rea__type_address, .offset = offsetof(struct listen_reading, address)},
    {.name = "tls", .type = &rea__type_node, .offset = offsetof(struct listen_reading, tls)},
};
const struct rea__block rea__listen_block = {"a listener", FIELDS(listen_fields), REA__NO_LINES};

static int read_listener(struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field,
    struct rea_config_listen *listen)
{
	struct listen_reading reading = {NULL, NULL};
	int error;

	listen->line = node->line;
	if (node->kind == REA__SCALAR)
		return rea__type_address.read(reader, node, field, &listen->address);
	error = rea__block_read(reader, node, &rea__listen_block, &reading, NULL);
	if (error == 0 && reading.address == NULL)
		error = rea__refuse(reader, node, "a listener needs an `address`");
	listen->address = reading.address;
	return error == 0 && reading.tls != NULL ? rea__listen_tls_read(reader, reading.tls, &listen->tls) : error;
}

/* One address or mapping, or a list of them. Written to the whole settings, as two members change. */
static int read_listen(struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	struct rea_config_settings *settings = ret_value;
	const struct rea__node *item = node->kind == REA__SEQUENCE ? node->first : node;
	size_t count = node->kind == REA__SEQUENCE ? node->length : 1;
	struct rea_config_listen *listen = rea_arena_array(reader->arena, count, sizeof(*listen));
	int error = 0;

	if (listen == NULL)
		return rea__nomem(reader);
	if (count == 0)
		return rea__refuse_value(reader, node, "at least one address", "");
	for (size_t i = 0; i < count && error == 0; i++, item = item->next)
		error = read_listener(reader, item, field, &listen[i]);
	settings->listen = listen;
	settings->listen_len = count;
	return error;
}

static void format_listen(const struct rea__field *field, const void *value, struct rea_format *text)
{
	const struct rea_config_settings *settings = value;

	(void)field;
	for (size_t i = 0; i < settings->listen_len; i++) {
		rea_format_text(text, i > 0 ? ", " : "");
		rea_format_text(text, settings->listen[i].address);
		rea_format_text(text, settings->listen[i].tls != NULL ? " (TLS)" : "");
	}
}

static const struct rea__type type_listen = {read_listen, format_listen};

/* Written to the whole settings, as two members change. */
static int read_hosts(struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	static const char expected[] = "a list of host names without ports";
	struct rea_config_settings *settings = ret_value;
	const struct rea__node *item;
	const char **hosts;
	int error = rea__expect_sequence(reader, node, expected, &item);

	(void)field;
	if (error != 0)
		return error;
	hosts = rea_arena_array(reader->arena, node->length, sizeof(*hosts));
	if (hosts == NULL)
		return rea__nomem(reader);
	for (size_t i = 0; item != NULL && error == 0; item = item->next, i++) {
		struct rea_slice text;

		error = rea__expect_text(reader, item, "a host name without a port", &text);
		if (error == 0)
			error = rea__is_host(text) ? rea__copy_text(reader, text, &hosts[i])
						   : rea__refuse_value(reader, item, "a host name without a port", "");
	}
	settings->admin_hosts = hosts;
	settings->admin_hosts_len = node->length;
	return error;
}

static void format_hosts(const struct rea__field *field, const void *value, struct rea_format *text)
{
	const struct rea_config_settings *settings = value;

	(void)field;
	if (settings->admin_hosts_len == 0)
		rea_format_text(text, "none");
	for (size_t i = 0; i < settings->admin_hosts_len; i++) {
		rea_format_text(text, i > 0 ? ", " : "");
		rea_format_text(text, settings->admin_hosts[i]);
	}
}

static const struct rea__type type_hosts = {read_hosts, format_hosts};

static int read_header(struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	static const char expected[] = "the name of a header such as x-biz-id";
	struct rea_slice text;
	int error = rea__expect_text(reader, node, expected, &text);

	(void)field;
	if (error != 0)
		return error;
	return rea__is_token(text.data, text.length) && text.length <= BIZ_ID_HEADER_MAX
		   ? rea__copy_text(reader, text, ret_value)
		   : rea__refuse_value(reader, node, expected, "");
}

static const struct rea__type type_header = {read_header, rea__format_text};

static int read_file_or(struct rea__reader *reader, const struct rea__node *node, const char *expected, void *ret_value)
{
	struct rea_slice text;
	int error = rea__expect_text(reader, node, expected, &text);

	if (error != 0)
		return error;
	if (rea_slice_equal(text, REA_SLICE_LIT("off"))) {
		*(const char **)ret_value = NULL;
		return 0;
	}
	return rea__copy_text(reader, text, ret_value);
}

static int read_file(struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	(void)field;
	return read_file_or(reader, node, "a path, \"-\" for standard output, or off", ret_value);
}

static int read_path(struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	(void)field;
	return read_file_or(reader, node, "a path, or off", ret_value);
}

static void format_file(const struct rea__field *field, const void *value, struct rea_format *text)
{
	const char *const *file = value;

	(void)field;
	rea_format_text(text, *file ? *file : "off");
}

static const struct rea__type type_file = {read_file, format_file};
static const struct rea__type type_path = {read_path, format_file};

static int read_power(struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	uint32_t value;
	int error = rea__type_u32.read(reader, node, field, &value);

	if (error != 0)
		return error;
	if ((value & (value - 1)) != 0)
		return rea__refuse_value(reader, node, "a power of two", "");
	*(uint32_t *)ret_value = value;
	return 0;
}

static const struct rea__type type_power = {read_power, rea__format_u32};

static const struct rea__choice tunnel_choices[] = {{"refuse", REA_TUNNEL_REFUSE}, {"tunnel", REA_TUNNEL_ALLOW}, {NULL, 0}};

static const struct rea__field http_fields[] = {
    {.name = "upgrade", .type = &rea__type_choice, .offset = SETTING(upgrade), .choices = tunnel_choices},
    {.name = "connect", .type = &rea__type_choice, .offset = SETTING(connect), .choices = tunnel_choices},
};
const struct rea__block rea__http_block = {"http", FIELDS(http_fields), REA__LINES_HTTP};

static const struct rea__field events_fields[] = {
    {.name = "file", .type = &type_file, .offset = SETTING(events.file)},
    {.name = "ring", .type = &rea__type_u32, .offset = SETTING(events.ring), .max = 1000000},
    {.name = "sample-success", .type = &rea__type_double, .offset = SETTING(events.sample_success), .max = 1},
    {.name = "queue-bytes", .type = &type_power, .offset = SETTING(events.queue_bytes), .min = 4096, .max = 64 << 20},
    {.name = "sqlite", .type = &type_path, .offset = SETTING(events.sqlite)},
    {.name = "sqlite-retention-hours", .type = &rea__type_u32, .offset = SETTING(events.sqlite_retention_hours), .min = 1, .max = 87600},
    {.name = "sqlite-max-mb", .type = &rea__type_u32, .offset = SETTING(events.sqlite_max_mb), .min = 8, .max = 1048576},
};
const struct rea__block rea__events_block = {"events", FIELDS(events_fields), REA__LINES_EVENTS};

static const struct rea__field limits_fields[] = {
    {.name = "concurrent-retries",
	.type = &rea__type_u32,
	.offset = SETTING(limits.concurrent_retries),
	.min = 1,
	.max = 1000000,
	.note = "this limit cannot be turned off"},
    {.name = "parked-calls", .type = &rea__type_u32, .offset = SETTING(limits.parked_calls), .min = 1, .max = 1000000},
    {.name = "header-bytes", .type = &rea__type_u32, .offset = SETTING(limits.header_bytes), .min = 1024, .max = 1 << 20},
    {.name = "headers", .type = &rea__type_u32, .offset = SETTING(limits.headers), .min = 8, .max = 1000},
    {.name = "connections", .type = &rea__type_u32, .offset = SETTING(limits.connections), .min = 1, .max = 1000000},
    {.name = "upstream-connections", .type = &rea__type_u32, .offset = SETTING(limits.upstream_connections), .min = 1, .max = 1000000},
    {.name = "upstream-idle", .type = &rea__type_u32, .offset = SETTING(limits.upstream_idle), .max = 1000000},
    {.name = "admin-connections", .type = &rea__type_u32, .offset = SETTING(limits.admin_connections), .min = 8, .max = 100000},
    {.name = "task-queue", .type = &rea__type_u32, .offset = SETTING(limits.task_queue), .min = 1, .max = 100000000},
    {.name = "task-bytes", .type = &rea__type_u32, .offset = SETTING(limits.task_bytes), .min = 1024, .max = 64 << 20},
    {.name = "task-attempts-max", .type = &rea__type_u32, .offset = SETTING(limits.task_attempts), .min = 1, .max = REA_TASK_ATTEMPTS_MAX},
};
const struct rea__block rea__limits_block = {"limits", FIELDS(limits_fields), REA__LINES_LIMITS};

#define DAY_MS 86400000

static const struct rea__field timeouts_fields[] = {
    {.name = "request-head-ms", .type = &rea__type_u32, .offset = SETTING(timeouts.request_head_ms), .min = 1, .max = DAY_MS},
    {.name = "keep-alive-ms", .type = &rea__type_u32, .offset = SETTING(timeouts.keep_alive_ms), .min = 1, .max = DAY_MS},
    {.name = "stream-idle-ms", .type = &rea__type_u32, .offset = SETTING(timeouts.stream_idle_ms), .min = 1, .max = DAY_MS},
    {.name = "upstream-idle-ms", .type = &rea__type_u32, .offset = SETTING(timeouts.upstream_idle_ms), .min = 1, .max = DAY_MS},
    {.name = "drain-ms", .type = &rea__type_u32, .offset = SETTING(timeouts.drain_ms), .max = DAY_MS},
};
const struct rea__block rea__timeouts_block = {"timeouts", FIELDS(timeouts_fields), REA__LINES_TIMEOUTS};

static const struct rea__field tasks_fields[] = {
    {.name = "file", .type = &type_path, .offset = SETTING(tasks.file)},
    {.name = "concurrency", .type = &rea__type_u32, .offset = SETTING(tasks.concurrency), .min = 1, .max = 10000},
    {.name = "target-concurrency", .type = &rea__type_u32, .offset = SETTING(tasks.target_concurrency), .min = 1, .max = 10000},
    {.name = "retention-hours", .type = &rea__type_u32, .offset = SETTING(tasks.retention_hours), .min = 1, .max = 87600},
    {.name = "reply-bytes", .type = &rea__type_u32, .offset = SETTING(tasks.reply_bytes), .max = 1 << 20},
    {.name = "policy", .type = &rea__type_node, .offset = offsetof(struct rea__document, task_policy)},
    {.name = "urls", .type = &rea__type_node, .offset = offsetof(struct rea__document, task_urls)},
    {.name = "targets", .type = &rea__type_node, .offset = offsetof(struct rea__document, task_targets)},
};
const struct rea__block rea__tasks_block = {"tasks", FIELDS(tasks_fields), REA__LINES_TASKS};

static const struct rea__field sources_fields[] = {
    {.name = "snapshot-dir", .type = &type_path, .offset = SETTING(sources.snapshot_dir)},
    {.name = "nacos", .type = &rea__type_node, .offset = offsetof(struct rea__document, nacos)},
    {.name = "etcd", .type = &rea__type_node, .offset = offsetof(struct rea__document, etcd)},
    {.name = "dns", .type = &rea__type_node, .offset = offsetof(struct rea__document, dns)},
    {.name = "policy", .type = &rea__type_node, .offset = offsetof(struct rea__document, sources)},
};
const struct rea__block rea__sources_block = {"sources", FIELDS(sources_fields), REA__NO_LINES};

static const struct rea__field root_fields[] = {
    {.name = "listen", .type = &type_listen},
    {.name = "admin", .type = &rea__type_address, .offset = SETTING(admin)},
    {.name = "admin-hosts", .type = &type_hosts},
    {.name = "threads", .type = &rea__type_u32, .offset = SETTING(threads), .min = 1, .max = 64},
    {.name = "biz-id-header", .type = &type_header, .offset = SETTING(biz_id_header)},
    {.name = "trusted-edge", .type = &rea__type_edge},
    {.name = "http", .type = &rea__type_block, .block = &rea__http_block},
    {.name = "events", .type = &rea__type_block, .block = &rea__events_block},
    {.name = "limits", .type = &rea__type_block, .block = &rea__limits_block},
    {.name = "timeouts", .type = &rea__type_block, .block = &rea__timeouts_block},
    {.name = "tasks", .type = &rea__type_block, .block = &rea__tasks_block},
    {.name = "sources", .type = &rea__type_block, .block = &rea__sources_block},
    {.name = "register", .type = &rea__type_node, .offset = offsetof(struct rea__document, registrations)},
    {.name = "services", .type = &rea__type_node, .offset = offsetof(struct rea__document, services)},
    {.name = "contracts", .type = &rea__type_node, .offset = offsetof(struct rea__document, contracts)},
    {.name = "profiles", .type = &rea__type_node, .offset = offsetof(struct rea__document, profiles)},
    {.name = "rpc", .type = &rea__type_node, .offset = offsetof(struct rea__document, rpc)},
};
const struct rea__block rea__root_block = {"the document", FIELDS(root_fields), REA__LINES_ROOT};

_Static_assert(sizeof(http_fields) / sizeof(http_fields[0]) == REA__LINES_EVENTS - REA__LINES_HTTP, "lines of http");
_Static_assert(
    sizeof(events_fields) / sizeof(events_fields[0]) == REA__LINES_LIMITS - REA__LINES_EVENTS, "lines of events");
_Static_assert(
    sizeof(limits_fields) / sizeof(limits_fields[0]) == REA__LINES_TIMEOUTS - REA__LINES_LIMITS, "lines of limits");
_Static_assert(sizeof(timeouts_fields) / sizeof(timeouts_fields[0]) == REA__LINES_TASKS - REA__LINES_TIMEOUTS,
    "lines of timeouts");
_Static_assert(sizeof(tasks_fields) / sizeof(tasks_fields[0]) == REA__LINES_COUNT - REA__LINES_TASKS, "lines of tasks");

static const struct rea__node *child_of(const struct rea__node *node, const char *name)
{
	for (const struct rea__node *child = node->first; child != NULL; child = child->next)
		if (rea__key_equal(rea__node_text(child->key), name))
			return child;
	return NULL;
}

/* The node of one listening address: the list's item, or the one scalar. */
static const struct rea__node *listen_node(const struct rea__node *listen, size_t index)
{
	const struct rea__node *item = listen->kind == REA__SEQUENCE ? listen->first : listen;

	while (index-- > 0)
		item = item->next;
	return item;
}

static bool has_free_port(const char *address)
{
	size_t length = strlen(address);

	return length > 1 && strcmp(address + length - 2, ":0") == 0;
}

/* One address twice would serve one half of the connections, or refuse to start. */
int rea__settings_check(struct rea__reader *reader, const struct rea__node *root, const struct rea_config_settings *settings)
{
	const struct rea__node *listen = child_of(root, "listen"), *admin = child_of(root, "admin");

	for (size_t i = 0; i < settings->listen_len; i++) {
		const char *address = settings->listen[i].address;

		if (has_free_port(address))
			continue;
		if (strcmp(address, settings->admin) == 0)
			return rea__refuse(reader, admin ? admin : listen_node(listen, i),
			    "%s cannot be both `listen` and `admin`", address);
		for (size_t j = 0; j < i; j++)
			if (strcmp(address, settings->listen[j].address) == 0)
				return rea__refuse(reader, listen_node(listen, i), "%s stands in this list twice", address);
	}
	return 0;
}
