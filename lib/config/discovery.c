/* Where the instances of services are found, and where a provider is made known. */
#include "config/snapshot.h"

#define FIELDS(fields) fields, sizeof(fields) / sizeof((fields)[0])
#define REGISTRATIONS_MAX 64
#define METADATA_MAX 64
#define DISCOVERY(member) offsetof(struct rea_config_discovery, member)

/* ------------------------------------------------------------------ services */

/* ok: further characters than letters and digits. */
static int read_name_of(struct rea__reader *reader, const struct rea__node *node, const char *ok, const char *expected,
    const char **ret_value)
{
	struct rea_slice text;
	int error = rea__expect_text(reader, node, expected, &text);

	if (error != 0)
		return error;
	for (size_t i = 0; i < text.length; i++) {
		char c = rea_ascii_lower(text.data[i]);

		if (((c < 'a' || c > 'z') && (c < '0' || c > '9') && (c == '\0' || strchr(ok, c) == NULL)) || text.length > 253)
			return rea__refuse_value(reader, node, expected, "");
	}
	return rea__copy_text(reader, text, ret_value);
}

static int read_dns_name(
    struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	(void)field;
	return read_name_of(reader, node, "-_.", "a name such as users.internal or _http._tcp.users.internal", ret_value);
}

static int read_clusters(
    struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	(void)field;
	return read_name_of(reader, node, "-_,", "names of clusters with commas between", ret_value);
}

static const struct rea__type type_dns_name = {read_dns_name, rea__format_text};
static const struct rea__type type_clusters = {read_clusters, rea__format_text};

struct dns_reading {
	struct rea_config_discovery discovery;
	bool srv;
};

static const struct rea__field dns_fields[] = {
    {.name = "name", .type = &type_dns_name, .offset = offsetof(struct dns_reading, discovery.name)},
    {.name = "port", .type = &rea__type_u32, .offset = offsetof(struct dns_reading, discovery.port), .min = 1, .max = 65535},
    {.name = "srv", .type = &rea__type_bool, .offset = offsetof(struct dns_reading, srv)},
};
const struct rea__block rea__dns_names_block = {"dns", FIELDS(dns_fields), REA__NO_LINES};

static int read_dns(struct rea__reader *reader, const struct rea__node *node, struct rea_config_discovery *discovery)
{
	struct dns_reading reading = {.discovery = *discovery};
	int error = rea__block_read(reader, node, &rea__dns_names_block, &reading, NULL);

	if (error != 0)
		return error;
	*discovery = reading.discovery;
	if (discovery->name[0] == '\0')
		return rea__refuse(reader, node, "dns needs a `name`");
	if (reading.srv == (discovery->port != 0))
		return rea__refuse(reader,
		    node, "dns needs a `port` for the addresses of the name, or `srv: true` where the records say the ports; one of the two");
	return 0;
}

static const struct rea__field nacos_fields[] = {
    {.name = "service", .type = &rea__type_nacos_name, .offset = DISCOVERY(name)},
    {.name = "group", .type = &rea__type_nacos_name, .offset = DISCOVERY(group)},
    {.name = "namespace", .type = &rea__type_namespace, .offset = DISCOVERY(namespace_id)},
    {.name = "clusters", .type = &type_clusters, .offset = DISCOVERY(clusters)},
};
const struct rea__block rea__nacos_names_block = {"nacos", FIELDS(nacos_fields), REA__NO_LINES};

static int read_nacos(struct rea__reader *reader, const struct rea__node *node,
    const struct rea_config_settings *settings, struct rea_config_service *service)
{
	struct rea_config_discovery *discovery = &service->discovery;

	if (settings->sources.nacos == NULL)
		return rea__refuse(reader, node, "nacos needs `sources.nacos`, which says which servers are asked");
	discovery->name = service->name;
	discovery->group = "DEFAULT_GROUP";
	discovery->namespace_id = settings->sources.nacos->namespace_id;
	return rea__block_read(reader, node, &rea__nacos_names_block, discovery, NULL);
}

static const struct rea__field etcd_fields[] = {
    {.name = "prefix", .type = &rea__type_text, .offset = DISCOVERY(name)},
};
const struct rea__block rea__etcd_names_block = {"etcd", FIELDS(etcd_fields), REA__NO_LINES};

static int read_etcd(struct rea__reader *reader, const struct rea__node *node,
    const struct rea_config_settings *settings, struct rea_config_discovery *discovery)
{
	int error;

	if (settings->sources.etcd == NULL)
		return rea__refuse(reader, node, "etcd needs `sources.etcd`, which says which servers are asked");
	error = rea__block_read(reader, node, &rea__etcd_names_block, discovery, NULL);
	if (error == 0 && discovery->name[0] == '\0')
		return rea__refuse(reader, node, "etcd needs a `prefix`");
	return error;
}

int rea__discovery_read(struct rea__reader *reader, const struct rea__node *const nodes[REA_DISCOVERY_ETCD + 1],
    const struct rea_config *config, struct rea_config_service *service)
{
	struct rea_config_discovery *discovery = &service->discovery;
	struct rea_slice path;
	int error;

	while (nodes[discovery->kind] == NULL)
		discovery->kind++;
	discovery->line = nodes[discovery->kind]->line;
	switch (discovery->kind) {
	case REA_DISCOVERY_LIST:
		break;
	case REA_DISCOVERY_FILE:
		error = rea__expect_text(reader, nodes[REA_DISCOVERY_FILE], "the path of a file", &path);
		return error ? error : rea__copy_text(reader, path, &discovery->name);
	case REA_DISCOVERY_DNS:
		return read_dns(reader, nodes[REA_DISCOVERY_DNS], discovery);
	case REA_DISCOVERY_NACOS:
		return read_nacos(reader, nodes[REA_DISCOVERY_NACOS], &config->settings, service);
	case REA_DISCOVERY_ETCD:
		return read_etcd(reader, nodes[REA_DISCOVERY_ETCD], &config->settings, discovery);
	}
	return 0;
}

/* ------------------------------------------------------------------ register */

#define REGISTRATION(member) offsetof(struct registration_reading, registration.member)

struct registration_reading {
	struct rea_config_registration registration;
	const struct rea__node *metadata;
	const struct rea__node *contract;
};

static const struct rea__choice in_choices[] = {{"nacos", REA_SOURCE_NACOS}, {"etcd", REA_SOURCE_ETCD}, {NULL, 0}};

/* Others must reach it by this: no port that somebody else chooses. */
static int read_own_address(
    struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	struct rea_slice text = rea__node_text(node);
	int error = rea__type_address.read(reader, node, field, ret_value);

	if (error == 0 && text.length > 2 && memcmp(text.data + text.length - 2, ":0", 2) == 0)
		return rea__refuse(reader, node, "a provider needs a port: 0 is none");
	return error;
}

static const struct rea__type type_own_address = {read_own_address, rea__format_text};

static const struct rea__field registration_fields[] = {
    {.name = "in", .type = &rea__type_choice, .offset = REGISTRATION(in), .choices = in_choices},
    {.name = "service", .type = &rea__type_nacos_name, .offset = REGISTRATION(service)},
    {.name = "address", .type = &type_own_address, .offset = REGISTRATION(address)},
    {.name = "weight", .type = &rea__type_double, .offset = REGISTRATION(weight), .max = 10000, .above_min = true},
    {.name = "group", .type = &rea__type_nacos_name, .offset = REGISTRATION(group)},
    {.name = "cluster", .type = &rea__type_nacos_name, .offset = REGISTRATION(cluster)},
    {.name = "prefix", .type = &rea__type_text, .offset = REGISTRATION(prefix)},
    {.name = "ttl-s", .type = &rea__type_u32, .offset = REGISTRATION(ttl_s), .min = 5, .max = 300},
    {.name = "contract", .type = &rea__type_node, .offset = offsetof(struct registration_reading, contract)},
    {.name = "metadata", .type = &rea__type_node, .offset = offsetof(struct registration_reading, metadata)},
};
const struct rea__block rea__registration_block = {"a registration", FIELDS(registration_fields), REA__NO_LINES};

static int read_metadata(struct rea__reader *reader, const struct rea__node *node, struct rea_config_registration *registration)
{
	const struct rea__node *item;
	struct rea_config_pair *pairs;
	int error = rea__expect_mapping(reader, node, &item);

	if (error != 0 || item == NULL)
		return error;
	if (node->length > METADATA_MAX)
		return rea__refuse(reader, node, "at most %d entries can be told", METADATA_MAX);
	pairs = rea_arena_array(reader->arena, node->length, sizeof(*pairs));
	if (pairs == NULL)
		return rea__nomem(reader);
	for (; item != NULL && error == 0; item = item->next) {
		struct rea_config_pair *pair = &pairs[registration->metadata_len++];

		struct rea_slice value;

		error = rea__copy_text(reader, rea__node_text(item->key), &pair->name);
		if (error == 0)
			error = rea__expect_text(reader, item, "a text", &value);
		if (error == 0)
			error = rea__copy_text(reader, value, &pair->value);
	}
	registration->metadata = pairs;
	return error;
}

static int read_contract(struct rea__reader *reader, const struct rea__node *node, const struct rea_config *config,
    struct rea_config_registration *registration)
{
	const struct rea_config_service *service;
	struct rea_slice name;
	int error = rea__expect_text(reader, node, "the name of a service", &name);

	if (error != 0)
		return error;
	service = rea_config_find_service(config, name.data, name.length);
	if (service == NULL)
		return rea__refuse(reader, node, "there is no service %.*s, so it has no contract to tell",
		    (int)name.length, name.data);
	registration->contract = service->name;
	return 0;
}

static int read_registration(struct rea__reader *reader, const struct rea__node *node, const struct rea_config *config,
    struct rea_config_registration *ret_registration)
{
	struct registration_reading reading = {.registration = {.in = REA_SOURCE_FILE,
						   .weight = 1,
						   .group = "DEFAULT_GROUP",
						   .cluster = "DEFAULT",
						   .prefix = "/services/",
						   .ttl_s = 15,
						   .line = node->line}};
	struct rea_config_registration *registration = &reading.registration;
	const struct rea_config_settings *settings = &config->settings;
	int error = rea__block_read(reader, node, &rea__registration_block, &reading, NULL);

	if (error != 0)
		return error;
	if (registration->in == REA_SOURCE_FILE || registration->service == NULL || registration->address == NULL)
		return rea__refuse(reader, node, "a registration needs `in`, `service` and `address`");
	if ((registration->in == REA_SOURCE_NACOS ? settings->sources.nacos : settings->sources.etcd) == NULL)
		return rea__refuse(reader, node, "a registration in %s needs `sources.%s`, which says which servers are told",
		    registration->in == REA_SOURCE_NACOS ? "nacos" : "etcd",
		    registration->in == REA_SOURCE_NACOS ? "nacos" : "etcd");
	if (reading.metadata != NULL)
		error = read_metadata(reader, reading.metadata, registration);
	if (error == 0 && reading.contract != NULL)
		error = read_contract(reader, reading.contract, config, registration);
	*ret_registration = *registration;
	return error;
}

int rea__registrations_read(struct rea__reader *reader, const struct rea__node *node, struct rea_config *config)
{
	const struct rea__node *item;
	struct rea_config_registration *registrations;
	size_t count = 0;
	int error = rea__expect_sequence(reader, node, "a list of registrations", &item);

	if (error != 0)
		return error;
	if (node->length > REGISTRATIONS_MAX)
		return rea__refuse(reader, node, "at most %d providers can be registered", REGISTRATIONS_MAX);
	registrations = rea_arena_array(reader->arena, node->length, sizeof(*registrations));
	if (registrations == NULL)
		return rea__nomem(reader);
	for (; item != NULL && error == 0; item = item->next)
		error = read_registration(reader, item, config, &registrations[count++]);
	config->settings.registrations = registrations;
	config->settings.registrations_len = count;
	return error;
}
