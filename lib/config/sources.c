/* `sources`: where the retry policy comes from when it does not stand in the document itself. */
#include "config/snapshot.h"

#include <stdio.h>

#define FIELDS(fields) fields, sizeof(fields) / sizeof((fields)[0])
#define SOURCES_MAX 8
#define SERVERS_MAX 16
#define DNS_SERVERS_MAX 8
#define DATA_ID_MAX 256

/* ------------------------------------------------------------------ what a key may hold */

static bool is_nacos_character(char c)
{
	c = rea_ascii_lower(c);
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' || c == ':';
}

static bool is_nacos_name(struct rea_slice text)
{
	for (size_t i = 0; i < text.length; i++)
		if (!is_nacos_character(text.data[i]))
			return false;
	return text.length > 0 && text.length <= DATA_ID_MAX;
}

/* A data id, a group, the id of a namespace: other characters the server does not take. */
static int read_nacos_name(
    struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	static const char expected[] = "letters, digits and any of _ - . :, 256 at most";
	struct rea_slice text;
	int error = rea__expect_text(reader, node, expected, &text);

	(void)field;
	if (error != 0)
		return error;
	return is_nacos_name(text) ? rea__copy_text(reader, text, ret_value) : rea__refuse_value(reader, node, expected, "");
}

/* `public` is another name of the empty namespace: only one of the two is ever sent. */
static int read_namespace(
    struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	bool is_public =
	    node->kind == REA__SCALAR &&
	    ((node->length == 0 && !node->plain) || rea_slice_equal(rea__node_text(node), REA_SLICE_LIT("public")));

	if (!is_public)
		return read_nacos_name(reader, node, field, ret_value);
	*(const char **)ret_value = "";
	return 0;
}

static int read_context(
    struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	static const char expected[] = "a path such as /nacos, or / alone";
	struct rea_slice text;
	int error = rea__expect_text(reader, node, expected, &text);

	(void)field;
	if (error != 0)
		return error;
	for (size_t i = 0; i < text.length; i++)
		if (text.data[0] != '/' || (text.data[i] != '/' && !is_nacos_character(text.data[i])))
			return rea__refuse_value(reader, node, expected, "");
	while (text.length > 0 && text.data[text.length - 1] == '/')
		text.length--;
	return rea__copy_text(reader, text, ret_value);
}

/* What is refused is not quoted: a message must not tell a password. */
static int read_password(
    struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	(void)field;
	if (node->kind != REA__SCALAR || node->length == 0)
		return rea__refuse(reader, node, "expected a password, or file:PATH of a file that holds it");
	return rea__copy_text(reader, rea__node_text(node), ret_value);
}

const struct rea__type rea__type_nacos_name = {read_nacos_name, rea__format_text};
const struct rea__type rea__type_namespace = {read_namespace, rea__format_text};
static const struct rea__type type_context = {read_context, rea__format_text};
static const struct rea__type type_password = {read_password, NULL};

/* ------------------------------------------------------------------ blocks */

struct reading {
	struct rea_config_source source;
	const struct rea__node *servers;
};

static const struct rea__choice mode_choices[] = {
    {"auto", REA_NACOS_AUTO}, {"v1", REA_NACOS_V1}, {"v3", REA_NACOS_V3}, {NULL, 0}};

#define SOURCE(member) offsetof(struct reading, source.member)
#define SERVERS                                                                                         \
	{                                                                                               \
		.name = "servers", .type = &rea__type_node, .offset = offsetof(struct reading, servers) \
	}
#define LOGIN                                                                         \
	{.name = "username", .type = &rea__type_text, .offset = SOURCE(username)},    \
	    {.name = "password", .type = &type_password, .offset = SOURCE(password)}, \
	{                                                                             \
		.name = "ca-file", .type = &rea__type_text, .offset = SOURCE(ca_file) \
	}
#define FAILOVER                                                                                  \
	{                                                                                         \
		.name = "failover-file", .type = &rea__type_text, .offset = SOURCE(failover_file) \
	}
#define NACOS_SERVER                                                                                      \
	SERVERS, {.name = "namespace", .type = &rea__type_namespace, .offset = SOURCE(namespace_id)},     \
	    {.name = "context-path", .type = &type_context, .offset = SOURCE(context_path)},              \
	    {.name = "mode", .type = &rea__type_choice, .offset = SOURCE(mode), .choices = mode_choices}, \
	    {.name = "poll-ms", .type = &rea__type_u32, .offset = SOURCE(poll_ms), .min = 1000, .max = 3600000}, LOGIN

static const struct rea__field nacos_fields[] = {
    NACOS_SERVER,
    FAILOVER,
    {.name = "data-id", .type = &rea__type_nacos_name, .offset = SOURCE(name)},
    {.name = "group", .type = &rea__type_nacos_name, .offset = SOURCE(group)},
};
const struct rea__block rea__nacos_block = {"nacos", FIELDS(nacos_fields), REA__NO_LINES};

static const struct rea__field etcd_fields[] = {
    SERVERS,
    LOGIN,
    FAILOVER,
    {.name = "key", .type = &rea__type_text, .offset = SOURCE(name)},
};
const struct rea__block rea__etcd_block = {"etcd", FIELDS(etcd_fields), REA__NO_LINES};

static const struct rea__field nacos_server_fields[] = {NACOS_SERVER};
const struct rea__block rea__nacos_server_block = {"sources.nacos", FIELDS(nacos_server_fields), REA__NO_LINES};

static const struct rea__field etcd_server_fields[] = {SERVERS, LOGIN};
const struct rea__block rea__etcd_server_block = {"sources.etcd", FIELDS(etcd_server_fields), REA__NO_LINES};

static const struct rea__field dns_server_fields[] = {{.name = "servers", .type = &rea__type_node}};
const struct rea__block rea__dns_server_block = {"sources.dns", FIELDS(dns_server_fields), REA__NO_LINES};

struct item {
	const char *file;
	const struct rea__node *nacos;
	const struct rea__node *etcd;
};

static const struct rea__field source_fields[] = {
    {.name = "file", .type = &rea__type_text, .offset = offsetof(struct item, file)},
    {.name = "nacos", .type = &rea__type_node, .offset = offsetof(struct item, nacos)},
    {.name = "etcd", .type = &rea__type_node, .offset = offsetof(struct item, etcd)},
};
const struct rea__block rea__source_block = {"a source", FIELDS(source_fields), REA__NO_LINES};

/* ------------------------------------------------------------------ servers */

/* As a URL without a path. A bare address means http. */
static int read_server(struct rea__reader *reader, const struct rea__node *node, const char **ret_url)
{
	static const char expected[] = "a server such as 127.0.0.1:8848 or https://nacos.internal:8848";
	struct rea_slice text, address, scheme = REA_SLICE_LIT("http://");
	char *url;
	int error = rea__expect_text(reader, node, expected, &text);

	if (error != 0)
		return error;
	address = text;
	if (text.length > 8 && memcmp(text.data, "https://", 8) == 0)
		scheme = REA_SLICE_LIT("https://");
	if (text.length > scheme.length && memcmp(text.data, scheme.data, scheme.length) == 0)
		address = rea_slice_make(text.data + scheme.length, text.length - scheme.length);
	if (!rea__is_host_port(address))
		return rea__refuse_value(reader, node, expected, "");
	url = rea_arena_alloc(reader->arena, scheme.length + address.length + 1);
	if (url == NULL)
		return rea__nomem(reader);
	memcpy(url, scheme.data, scheme.length);
	memcpy(url + scheme.length, address.data, address.length);
	url[scheme.length + address.length] = '\0';
	*ret_url = url;
	return 0;
}

static int read_servers(struct rea__reader *reader, const struct rea__node *node, struct rea_config_source *source)
{
	const struct rea__node *item;
	const char **servers;
	int error = rea__expect_sequence(reader, node, "a list of servers", &item);

	if (error != 0)
		return error;
	if (node->length == 0 || node->length > SERVERS_MAX)
		return rea__refuse(reader, node, "from 1 to %d servers can be asked", SERVERS_MAX);
	servers = rea_arena_array(reader->arena, node->length, sizeof(*servers));
	if (servers == NULL)
		return rea__nomem(reader);
	for (; item != NULL && error == 0; item = item->next)
		error = read_server(reader, item, &servers[source->servers_len++]);
	source->servers = servers;
	return error;
}

/* ------------------------------------------------------------------ sources */

/* Servers, and how to be let in. */
static int read_servers_of(struct rea__reader *reader, const struct rea__node *node, const struct rea__node *servers,
    struct rea_config_source *source)
{
	if ((source->username == NULL) != (source->password == NULL))
		return rea__refuse(reader, node, "`username` and `password` are given together, or neither is");
	return read_servers(reader, servers, source);
}

/* A source without servers of its own asks those that all share. */
static int share_servers(struct rea__reader *reader, const struct rea__node *node,
    const struct rea_config_source *shared, struct rea_config_source *source)
{
	const char *kind = source->kind == REA_SOURCE_NACOS ? "nacos" : "etcd";

	if (shared == NULL)
		return rea__refuse(reader, node, "%s needs `servers`, here or in sources.%s", kind, kind);
	if (source->username != NULL || source->password != NULL || source->ca_file != NULL)
		return rea__refuse(reader, node,
		    "`username`, `password` and `ca-file` belong to `servers`: they stand beside them in sources.%s", kind);
	source->servers = shared->servers;
	source->servers_len = shared->servers_len;
	source->username = shared->username;
	source->password = shared->password;
	source->ca_file = shared->ca_file;
	return 0;
}

static int read_remote(struct rea__reader *reader, const struct rea__node *node, const struct rea__block *block,
    const struct rea_config_source *shared, struct rea_config_source *source)
{
	struct reading reading = {.source = *source};
	int error = rea__block_read(reader, node, block, &reading, NULL);

	if (error != 0)
		return error;
	*source = reading.source;
	if (source->name == NULL)
		return rea__refuse(
		    reader, node, "%s needs `%s`", block->name, source->kind == REA_SOURCE_NACOS ? "data-id" : "key");
	return reading.servers != NULL ? read_servers_of(reader, node, reading.servers, source)
				       : share_servers(reader, node, shared, source);
}

static void set_nacos_defaults(struct rea_config_source *source, const struct rea_config_source *shared)
{
	source->kind = REA_SOURCE_NACOS;
	source->group = "DEFAULT_GROUP";
	source->namespace_id = shared != NULL ? shared->namespace_id : "";
	source->context_path = shared != NULL ? shared->context_path : "/nacos";
	source->mode = shared != NULL ? shared->mode : REA_NACOS_AUTO;
	source->poll_ms = shared != NULL ? shared->poll_ms : 5000;
}

static int read_source(struct rea__reader *reader, const struct rea__node *node,
    const struct rea_config_settings *settings, struct rea_config_source *source)
{
	struct item item = {NULL, NULL, NULL};
	int error = rea__block_read(reader, node, &rea__source_block, &item, NULL);

	if (error != 0)
		return error;
	if ((item.file != NULL) + (item.nacos != NULL) + (item.etcd != NULL) != 1)
		return rea__refuse(reader, node, "a source is one of `file`, `nacos` and `etcd`");
	*source = (struct rea_config_source){
	    .kind = REA_SOURCE_FILE, .name = item.file, .group = "", .namespace_id = "", .context_path = "", .line = node->line};
	if (item.file != NULL)
		return 0;
	if (item.etcd != NULL) {
		source->kind = REA_SOURCE_ETCD;
		return read_remote(reader, item.etcd, &rea__etcd_block, settings->sources.etcd, source);
	}
	set_nacos_defaults(source, settings->sources.nacos);
	return read_remote(reader, item.nacos, &rea__nacos_block, settings->sources.nacos, source);
}

/* What all that ask a registry share. */
static int read_shared(struct rea__reader *reader, const struct rea__node *node, const struct rea__block *block,
    enum rea_config_source_kind kind, const struct rea_config_source **ret_source)
{
	struct reading reading = {
	    .source = {.kind = kind, .group = "", .namespace_id = "", .context_path = "", .line = node->line}};
	struct rea_config_source *source = rea_arena_array(reader->arena, 1, sizeof(*source));
	int error;

	if (source == NULL)
		return rea__nomem(reader);
	if (kind == REA_SOURCE_NACOS)
		set_nacos_defaults(&reading.source, NULL);
	error = rea__block_read(reader, node, block, &reading, NULL);
	if (error != 0)
		return error;
	if (reading.servers == NULL)
		return rea__refuse(reader, node, "%s needs `servers`", block->name);
	*source = reading.source;
	*ret_source = source;
	return read_servers_of(reader, node, reading.servers, source);
}

static int read_dns(struct rea__reader *reader, const struct rea__node *node, struct rea_config_settings *settings)
{
	const struct rea__node *list = NULL, *item;
	const char **servers;
	int error = rea__block_read(reader, node, &rea__dns_server_block, &list, NULL);

	if (error != 0 || list == NULL)
		return error;
	error = rea__expect_sequence(reader, list, "a list of servers such as 127.0.0.1:53", &item);
	if (error != 0)
		return error;
	if (list->length == 0 || list->length > DNS_SERVERS_MAX)
		return rea__refuse(reader, list, "from 1 to %d servers can be asked", DNS_SERVERS_MAX);
	servers = rea_arena_array(reader->arena, list->length, sizeof(*servers));
	if (servers == NULL)
		return rea__nomem(reader);
	for (; item != NULL && error == 0; item = item->next)
		error = rea__type_address.read(reader, item, NULL, &servers[settings->sources.dns_servers_len++]);
	settings->sources.dns_servers = servers;
	return error;
}

static int read_policies(struct rea__reader *reader, const struct rea__node *node, struct rea_config *config)
{
	const struct rea__node *item;
	struct rea_config_source *sources;
	int error = rea__expect_sequence(reader, node, "a list of sources", &item);

	if (error != 0)
		return error;
	if (node->length > SOURCES_MAX)
		return rea__refuse(reader, node, "at most %d sources are asked", SOURCES_MAX);
	sources = rea_arena_array(reader->arena, node->length, sizeof(*sources));
	if (sources == NULL)
		return rea__nomem(reader);
	for (; item != NULL && error == 0; item = item->next)
		error = read_source(reader, item, &config->settings, &sources[config->settings.sources.policy_len++]);
	for (size_t i = 0; i < config->settings.sources.policy_len && error == 0; i++)
		sources[i].kitex = rea__kitex_is_name(rea_slice_of(sources[i].name));
	config->settings.sources.policy = sources;
	return error;
}

int rea__sources_read(struct rea__reader *reader, const struct rea__document *document, struct rea_config *config)
{
	struct rea_config_settings *settings = &config->settings;
	int error = 0;

	if (document->nacos != NULL)
		error = read_shared(
		    reader, document->nacos, &rea__nacos_server_block, REA_SOURCE_NACOS, &settings->sources.nacos);
	if (error == 0 && document->etcd != NULL)
		error =
		    read_shared(reader, document->etcd, &rea__etcd_server_block, REA_SOURCE_ETCD, &settings->sources.etcd);
	if (error == 0 && document->dns != NULL)
		error = read_dns(reader, document->dns, settings);
	if (error == 0 && document->sources != NULL)
		error = read_policies(reader, document->sources, config);
	return error;
}

int rea__sources_check(struct rea__reader *reader, const struct rea_config *config)
{
	for (size_t i = 0; i < config->settings.sources.policy_len; i++) {
		const struct rea_config_source *source = &config->settings.sources.policy[i];
		const struct rea__node at = {.line = source->line, .column = 1};
		char quote[REA__QUOTE_SIZE];

		if (source->kitex && rea__kitex_service(config, rea_slice_of(source->name)) == NULL)
			return rea__refuse(reader, &at,
			    "%s is a name as Kitex has it, Client.Server.retry, and no service here is its Server",
			    rea__quote(rea_slice_of(source->name), quote));
	}
	return 0;
}
