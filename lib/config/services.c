/* The services that rea stands in front of: their names, and their instances as the document lists them. */
#include "config/snapshot.h"

#include "base/address.h"

#define FIELDS(fields) fields, sizeof(fields) / sizeof((fields)[0])
#define NAME_MAX_BYTES 128
#define GRPC_NAME_MAX 256
#define HOST_EXPECTED "a host such as users.internal, with or without a port"

struct service_reading {
	const struct rea__node *hosts;
	const struct rea__node *grpc_services;
	const struct rea__node *grpc_service_config;
	const struct rea__node *health;
	const struct rea__node *found[REA_DISCOVERY_ETCD + 1]; /* the lists and places of instances; one of them is not NULL */
	const struct rea__node *tls;
	const char *host;
	enum rea_balance balance;
	enum rea_config_protocol protocol;
	bool ejection;
	uint32_t empty_grace_ms;
};

/* ------------------------------------------------------------------ instances */

static bool is_authority(struct rea_slice text)
{
	return rea__is_host(text) || rea__is_host_port(text);
}

static int read_authority(
    struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	struct rea_slice text;
	int error = rea__expect_text(reader, node, HOST_EXPECTED, &text);

	(void)field;
	if (error != 0)
		return error;
	return is_authority(text) ? rea__copy_text(reader, text, ret_value)
				  : rea__refuse_value(reader, node, HOST_EXPECTED, "");
}

static const struct rea__type type_authority = {read_authority, rea__format_text};

static int read_instance_address(
    struct rea__reader *reader, const struct rea__node *node, const struct rea__field *field, void *ret_value)
{
	static const char expected[] = "an address and a port such as 127.0.0.1:9001, [::1]:9001 or users-1:9001";
	struct rea_slice text;
	int error = rea__expect_text(reader, node, expected, &text);

	(void)field;
	if (error != 0)
		return error;
	return rea__is_host_port(text) ? rea__copy_text(reader, text, ret_value)
				       : rea__refuse_value(reader, node, expected, "");
}

static const struct rea__type type_instance_address = {read_instance_address, rea__format_text};

static const struct rea__field instance_fields[] = {
    {.name = "address", .type = &type_instance_address, .offset = offsetof(struct rea_config_instance, address)},
    {.name = "weight", .type = &rea__type_u32, .offset = offsetof(struct rea_config_instance, weight), .min = 1, .max = 1000},
    {.name = "host", .type = &type_authority, .offset = offsetof(struct rea_config_instance, host)},
};
const struct rea__block rea__instance_block = {"an instance", FIELDS(instance_fields), REA__NO_LINES};

static int read_instance(struct rea__reader *reader, const struct rea__node *node, struct rea_config_instance *instance)
{
	int error;

	instance->weight = 1;
	instance->line = node->line;
	if (node->kind == REA__SCALAR)
		return read_instance_address(reader, node, NULL, &instance->address);
	error = rea__block_read(reader, node, &rea__instance_block, instance, NULL);
	return error == 0 && instance->address == NULL ? rea__refuse(reader, node, "an instance needs an `address`") : error;
}

/* The same address twice would count as one instance that has failed already. */
static int check_distinct(struct rea__reader *reader, const struct rea__node *first,
    const struct rea_config_instance *instances, size_t count)
{
	struct rea_map seen = {.alloc = reader->arena->alloc};
	const struct rea__node *node = first;
	uint32_t line;
	int error = rea_map_reserve(&seen, count);

	for (size_t i = 0; i < count && error == 0; i++, node = node->next) {
		struct rea_slice address = rea_slice_of(instances[i].address);

		if (rea_map_find(&seen, address, &line))
			error = rea__refuse(reader, node, "the instance %s is listed twice; the first is on line %u",
			    instances[i].address, line);
		else
			error = rea_map_insert(&seen, address, instances[i].line);
	}
	rea_map_fini(&seen);
	return error == REA_ERR_NOMEM ? rea__nomem(reader) : error;
}

static int read_instances(struct rea__reader *reader, const struct rea__node *node, struct rea_config_service *service)
{
	const struct rea__node *first, *item;
	struct rea_config_instance *instances;
	size_t count = 0;
	int error = rea__expect_sequence(reader, node, "a list of instances", &first);

	if (error != 0)
		return error;
	instances = rea_arena_array(reader->arena, node->length, sizeof(*instances));
	if (instances == NULL)
		return rea__nomem(reader);
	for (item = first; item != NULL && error == 0; item = item->next)
		error = read_instance(reader, item, &instances[count++]);
	service->instances = instances;
	service->instances_len = count;
	return error ? error : check_distinct(reader, first, instances, count);
}

/* ------------------------------------------------------------------ names */

static struct rea_slice to_lower(struct rea__reader *reader, struct rea_slice text)
{
	char *copy = rea_arena_string(reader->arena, text);

	if (copy == NULL)
		return rea_slice_make(NULL, 0);
	for (size_t i = 0; i < text.length; i++)
		copy[i] = rea_ascii_lower(copy[i]);
	return rea_slice_make(copy, text.length);
}

/* Every name leads to one service. ret_owner: the service that a name leads to already, NULL when all is well. */
static int add_host(struct rea__reader *reader, struct rea_slice text, struct rea_config *config,
    const struct rea_config_service *service, const struct rea_config_service **ret_owner)
{
	struct rea_slice lower = to_lower(reader, text);
	uint32_t owner;

	*ret_owner = NULL;
	if (lower.data == NULL)
		return rea__nomem(reader);
	if (!rea_map_find(&config->by_host, lower, &owner))
		return rea_map_insert(&config->by_host, lower, (uint32_t)service->index) ? rea__nomem(reader) : 0;
	if (owner != service->index)
		*ret_owner = &config->services[owner];
	return 0;
}

static int read_hosts(struct rea__reader *reader, const struct rea__node *node, struct rea_config *config,
    struct rea_config_service *service)
{
	const struct rea_config_service *owner = NULL;
	const struct rea__node *item;
	const char **hosts;
	int error = rea__expect_sequence(reader, node, "a list of hosts", &item);

	if (error != 0)
		return error;
	hosts = rea_arena_array(reader->arena, node->length, sizeof(*hosts));
	if (hosts == NULL)
		return rea__nomem(reader);
	for (; item != NULL && error == 0; item = item->next) {
		error = read_authority(reader, item, NULL, &hosts[service->hosts_len]);
		if (error == 0)
			error = add_host(reader, rea__node_text(item), config, service, &owner);
		if (error == 0 && owner != NULL)
			return rea__refuse(
			    reader, item, "%s already leads to the service %s", hosts[service->hosts_len], owner->name);
		service->hosts_len++;
	}
	service->hosts = hosts;
	return error;
}

/* "package.Service", "package.*" or "*". */
static bool is_grpc_pattern(struct rea_slice text)
{
	bool begins = true;

	if (text.length > GRPC_NAME_MAX)
		return false;
	for (size_t i = 0; i < text.length; i++) {
		char c = rea_ascii_lower(text.data[i]);
		bool digit = c >= '0' && c <= '9', letter = (c >= 'a' && c <= 'z') || c == '_';

		if (begins ? !letter && !(c == '*' && i + 1 == text.length) : !letter && !digit && c != '.')
			return false;
		begins = c == '.';
	}
	return !begins;
}

static int read_grpc_services(struct rea__reader *reader, const struct rea__node *node, struct rea_config *config,
    const struct rea_config_service *service)
{
	static const char expected[] =
	    "a gRPC service such as package.Service, or package.* for all of a package and below";
	const struct rea__node *item;
	int error = rea__expect_sequence(reader, node, "a list of gRPC services", &item);

	for (; item != NULL && error == 0; item = item->next) {
		struct rea_slice text;
		const char *name;
		uint32_t owner;

		error = rea__expect_text(reader, item, expected, &text);
		if (error == 0 && !is_grpc_pattern(text))
			return rea__refuse_value(reader, item, expected, "");
		if (error == 0 && rea_map_find(&config->by_grpc, text, &owner))
			return rea__refuse(reader, item, "%.*s already leads to the service %s", (int)text.length,
			    text.data, config->services[owner].name);
		if (error == 0)
			error = rea__copy_text(reader, text, &name);
		if (error == 0 && rea_map_insert(&config->by_grpc, rea_slice_of(name), (uint32_t)service->index) != 0)
			return rea__nomem(reader);
	}
	return error;
}

static bool is_service_name(struct rea_slice text)
{
	bool only_dots = true;

	for (size_t i = 0; i < text.length; i++) {
		char c = rea_ascii_lower(text.data[i]);

		if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.')
			return false;
		only_dots = only_dots && c == '.';
	}
	return text.length <= NAME_MAX_BYTES && !only_dots;
}

static int add_name(struct rea__reader *reader, const struct rea__node *node, struct rea_config *config)
{
	struct rea_config_service *service = &config->services[config->services_len];
	const struct rea_config_service *owner = NULL;
	int error;

	if (!is_service_name(rea__node_text(node->key)))
		return rea__refuse_key(reader,
		    node, "the name of a service is made of letters, digits, \"-\", \"_\" and \".\", since it stands in paths and in Host");
	error = rea__copy_text(reader, rea__node_text(node->key), &service->name);
	if (error != 0)
		return error;
	service->index = config->services_len++;
	service->line = node->key->line;
	if (rea_map_insert(&config->by_name, rea_slice_of(service->name), (uint32_t)service->index) != 0)
		return rea__nomem(reader);
	error = add_host(reader, rea__node_text(node->key), config, service, &owner);
	if (error == 0 && owner != NULL)
		return rea__refuse_key(reader, node,
		    "the names of services must differ in more than case, since hosts do not; there is already %s",
		    owner->name);
	return error;
}

/* ------------------------------------------------------------------ services */

static const struct rea__choice balance_choices[] = {
    {"least-loaded", REA_BALANCE_LEAST_LOADED}, {"listed", REA_BALANCE_LISTED}, {NULL, 0}};

static const struct rea__choice protocol_choices[] = {{"http1", REA_PROTOCOL_HTTP1}, {"h2", REA_PROTOCOL_H2}, {NULL, 0}};

static const struct rea__field service_fields[] = {
    {.name = "hosts", .type = &rea__type_node, .offset = offsetof(struct service_reading, hosts)},
    {.name = "grpc-services", .type = &rea__type_node, .offset = offsetof(struct service_reading, grpc_services)},
    {.name = "grpc-service-config", .type = &rea__type_node, .offset = offsetof(struct service_reading, grpc_service_config)},
    {.name = "host", .type = &type_authority, .offset = offsetof(struct service_reading, host)},
    {.name = "balance", .type = &rea__type_choice, .offset = offsetof(struct service_reading, balance), .choices = balance_choices},
    {.name = "protocol", .type = &rea__type_choice, .offset = offsetof(struct service_reading, protocol), .choices = protocol_choices},
    {.name = "ejection", .type = &rea__type_bool, .offset = offsetof(struct service_reading, ejection)},
    {.name = "health-check", .type = &rea__type_node, .offset = offsetof(struct service_reading, health)},
    {.name = "tls", .type = &rea__type_node, .offset = offsetof(struct service_reading, tls)},
    {.name = "instances", .type = &rea__type_node, .offset = offsetof(struct service_reading, found[REA_DISCOVERY_LIST])},
    {.name = "instances-file", .type = &rea__type_node, .offset = offsetof(struct service_reading, found[REA_DISCOVERY_FILE])},
    {.name = "dns", .type = &rea__type_node, .offset = offsetof(struct service_reading, found[REA_DISCOVERY_DNS])},
    {.name = "nacos", .type = &rea__type_node, .offset = offsetof(struct service_reading, found[REA_DISCOVERY_NACOS])},
    {.name = "etcd", .type = &rea__type_node, .offset = offsetof(struct service_reading, found[REA_DISCOVERY_ETCD])},
    {.name = "empty-grace-ms", .type = &rea__type_u32, .offset = offsetof(struct service_reading, empty_grace_ms), .max = 86400000},
};
const struct rea__block rea__service_block = {"a service", FIELDS(service_fields), REA__NO_LINES};

static int read_service(struct rea__reader *reader, const struct rea__node *node, struct rea_config *config,
    struct rea_config_service *service)
{
	static const char *const places[] = {"instances", "instances-file", "dns", "nacos", "etcd"};
	struct service_reading reading = {.balance = REA_BALANCE_LEAST_LOADED, .ejection = true, .empty_grace_ms = 60000};
	size_t first = SIZE_MAX;
	int error = rea__block_read(reader, node, &rea__service_block, &reading, NULL);

	if (error != 0)
		return error;
	service->host = reading.host;
	service->balance = reading.balance;
	service->protocol = reading.protocol;
	service->ejection = reading.ejection;
	service->discovery = (struct rea_config_discovery){.name = "",
	    .group = "",
	    .namespace_id = "",
	    .clusters = "",
	    .empty_grace_ms = reading.empty_grace_ms,
	    .line = service->line};
	for (size_t i = 0; i <= REA_DISCOVERY_ETCD; i++) {
		if (reading.found[i] == NULL)
			continue;
		if (first != SIZE_MAX)
			return rea__refuse_key(reader, reading.found[i],
			    "the instances of %s come from one place: `%s` stands here as well as `%s`", service->name,
			    places[i], places[first]);
		first = i;
	}
	if (first == SIZE_MAX)
		return rea__refuse_key(reader, node,
		    "the service %s has no `instances`, nor `instances-file`, `dns`, `nacos` or `etcd` to find them by",
		    service->name);
	if (reading.tls != NULL)
		error = rea__service_tls_read(reader, reading.tls, &service->tls);
	if (error == 0 && reading.hosts != NULL)
		error = read_hosts(reader, reading.hosts, config, service);
	if (error == 0 && reading.health != NULL)
		error = rea__health_read(reader, reading.health, &service->health);
	if (error == 0 && reading.grpc_services != NULL)
		error = read_grpc_services(reader, reading.grpc_services, config, service);
	if (error == 0 && reading.grpc_service_config != NULL)
		error = rea__grpc_config_read(
		    reader, reading.grpc_service_config, config, &config->grpc_configs[service->index]);
	if (error != 0)
		return error;
	return first == REA_DISCOVERY_LIST ? read_instances(reader, reading.found[first], service)
					   : rea__discovery_read(reader, reading.found, config, service);
}

int rea__services_read(struct rea__reader *reader, const struct rea__node *node, struct rea_config *config)
{
	const struct rea__node *first = NULL, *child;
	int error = node ? rea__expect_mapping(reader, node, &first) : 0;
	size_t i = 0;

	if (error != 0 || first == NULL)
		return error;
	config->services = rea_arena_array(reader->arena, node->length, sizeof(*config->services));
	config->grpc_configs = rea_arena_array(reader->arena, node->length, sizeof(*config->grpc_configs));
	if (config->services == NULL || config->grpc_configs == NULL || rea_map_reserve(&config->by_name, node->length) != 0)
		return rea__nomem(reader);
	/* All names first: a `hosts` entry must not take the name of a service that stands below it. */
	for (child = first; child != NULL && error == 0; child = child->next)
		error = add_name(reader, child, config);
	for (child = first; child != NULL && error == 0; child = child->next)
		error = read_service(reader, child, config, &config->services[i++]);
	return error;
}

/* 0 = nobody knows: a name can stand for several, and registries have their own say. */
static size_t known_instances(const struct rea_config_service *service)
{
	uint8_t address[16];

	if (service->discovery.kind != REA_DISCOVERY_LIST)
		return 0;
	for (size_t i = 0; i < service->instances_len; i++) {
		struct rea_slice host = rea_slice_of(service->instances[i].address);

		while (host.length > 0 && host.data[host.length - 1] != ':')
			host.length--;
		host.length -= host.length > 0;
		if (host.length > 1 && host.data[0] == '[')
			host = rea_slice_make(host.data + 1, host.length - 2);
		if (!rea_address_parse(host, address))
			return 0;
	}
	return service->instances_len;
}

uint32_t rea_config_attempts(const struct rea_config_service *service, const struct rea_policy *policy)
{
	size_t instances = known_instances(service);
	struct rea_policy possible = *policy;

	if (instances == 0)
		return rea_policy_attempts(policy);
	if (policy->when_all_tried == REA_ALL_TRIED_STOP && instances <= policy->max_retry_next_instance)
		possible.max_retry_next_instance = (uint32_t)instances - 1;
	else if (policy->when_all_tried == REA_ALL_TRIED_CYCLE && instances == 1)
		possible.max_retry_next_instance = 0;
	return rea_policy_attempts(&possible);
}
