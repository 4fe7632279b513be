/*
 * The snapshot: built in one go, then read by anybody until the last reference goes. A document that is refused
 * leaves nothing behind.
 */
#include "config/snapshot.h"

#include <stdio.h>

#define AUTHORITY_MAX 260
#define GRPC_NAME_MAX 256
/* Of a method key; a longer path has the service's policy. */
#define GRPC_KEY_MAX 512

/* ------------------------------------------------------------------ building */

struct rpc_reading {
	const struct rea__node *feign;
	const struct rea__node *grpc;
};

static const struct rea__field rpc_fields[] = {
    {.name = "feign", .type = &rea__type_node, .offset = offsetof(struct rpc_reading, feign)},
    {.name = "grpc", .type = &rea__type_node, .offset = offsetof(struct rpc_reading, grpc)},
};
const struct rea__block rea__rpc_block = {"rpc", rpc_fields, sizeof(rpc_fields) / sizeof(rpc_fields[0]), REA__NO_LINES};

static const struct rea__field retry_fields[] = {
    {.name = "retry", .type = &rea__type_node},
};
static const struct rea__block protocol_block = {"a protocol under rpc", retry_fields, 1, REA__NO_LINES};

/* A protocol's `retry` block; absent counts as empty, so that there always is a policy. */
static int read_protocol(struct rea__reader *reader, const struct rea__node *node, const struct rea_config *config,
    bool knows_contracts, struct rea__retry *retry)
{
	const struct rea__node *block = NULL;
	int error = node ? rea__block_read(reader, node, &protocol_block, &block, NULL) : 0;

	retry->policy = rea__policy_default_values();
	return error || block == NULL ? error : rea__retry_read(reader, block, config, knows_contracts, retry);
}

static int read_rpc(struct rea__reader *reader, const struct rea__node *node, struct rea_config *config)
{
	struct rpc_reading reading = {NULL, NULL};
	int error = node ? rea__block_read(reader, node, &rea__rpc_block, &reading, NULL) : 0;

	if (error == 0)
		error = read_protocol(reader, reading.feign, config, true, &config->feign);
	/* A contract need not know every gRPC method: the path of a call names it. */
	if (error == 0)
		error = read_protocol(reader, reading.grpc, config, false, &config->grpc);
	if (error == 0)
		error = rea__kitex_join(reader, config);
	return error ? error : rea__grpc_join(reader, reading.grpc, config);
}

/* Hand each service, and each of its operations, the policy that holds there. */
static int join_policies(struct rea__reader *reader, struct rea_config *config)
{
	for (size_t i = 0; i < config->services_len; i++) {
		struct rea_config_service *service = &config->services[i];
		const struct rea__service_config *own = rea__retry_service(&config->feign, rea_slice_of(service->name));
		size_t count = service->contract ? rea_contract_count(service->contract) : 0;
		const struct rea_policy **policies =
		    rea_arena_array(reader->arena, count, sizeof(const struct rea_policy *));

		if (policies == NULL)
			return rea__nomem(reader);
		service->policy = own ? own->policy : config->feign.policy;
		for (size_t j = 0; j < count; j++) {
			const char *key = rea_contract_operation(service->contract, j)->key;
			const struct rea__method_config *method = own ? rea__service_method(own, rea_slice_of(key)) : NULL;

			policies[j] = method ? method->policy : service->policy;
		}
		service->operation_policies = policies;
		service->budget =
		    config->grpc_services[i].budget ? config->grpc_services[i].budget : &service->policy->budget;
	}
	return 0;
}

static bool is_switched_off(const struct rea__retry *retry)
{
	const struct rea__layer *layer = retry->global.layer;

	return layer != NULL && (layer->key.keys.set & (UINT32_C(1) << REA_POLICY_ENABLED)) && !layer->key.keys.values.enabled;
}

static int read_document(struct rea__reader *reader, const struct rea__node *root, struct rea_config *config)
{
	struct rea__document document = {.services = NULL};
	int error;

	rea_config_settings_defaults(&document.settings);
	reader->lines = config->lines;
	error = root ? rea__block_read(reader, root, &rea__root_block, &document, NULL) : 0;
	reader->lines = NULL;
	if (error == 0 && root != NULL && root->kind == REA__MAPPING)
		error = rea__settings_check(reader, root, &document.settings);
	config->settings = document.settings;
	if (error == 0)
		error = rea__sources_read(reader, &document, config);
	if (error == 0)
		error = rea__services_read(reader, document.services, config);
	if (error == 0)
		error = rea__sources_check(reader, config);
	if (error == 0 && document.registrations != NULL)
		error = rea__registrations_read(reader, document.registrations, config);
	if (error == 0)
		error = rea__tasks_read(reader, &document, config);
	if (error == 0)
		error = rea__contracts_read(reader, document.contracts, config);
	if (error == 0)
		error = rea__profiles_read(reader, document.profiles, config);
	if (error == 0)
		error = read_rpc(reader, document.rpc, config);
	if (error == 0)
		config->settings.tasks.retries_off = is_switched_off(&config->feign);
	rea_hash_hex(config->documents_hash, config->version);
	return error ? error : join_policies(reader, config);
}

static struct rea_config *new_config(const char *name, uint64_t hash, const struct rea_alloc *alloc)
{
	struct rea_config *config = alloc->realloc(NULL, sizeof(*config), alloc->user_data);

	if (config == NULL)
		return NULL;
	memset(config, 0, sizeof(*config));
	config->alloc = *alloc;
	atomic_init(&config->references, 1);
	rea_arena_init(&config->arena, &config->alloc);
	config->by_name.alloc = config->by_host.alloc = config->by_grpc.alloc = &config->alloc;
	config->feign.by_name.alloc = config->grpc.by_name.alloc = &config->alloc;
	config->documents_hash = hash;
	config->name = rea_arena_string(&config->arena, rea_slice_of(name ? name : ""));
	if (config->name == NULL) {
		rea_config_unref(config);
		return NULL;
	}
	return config;
}

int rea_config_parse(const char *name, const char *text, size_t length, const struct rea_alloc *alloc,
    struct rea_config **ret_config, struct rea_error_info *ret_info)
{
	const struct rea_alloc *a = alloc ? alloc : rea_alloc_default();
	struct rea_error_info unwanted, *info = ret_info ? ret_info : &unwanted;
	struct rea__tree tree;
	struct rea__reader reader = {.tree = &tree, .info = info};
	struct rea_config *config;
	int error = rea__tree_parse(name, text, length, a, &tree, info);

	if (error != 0)
		return error;
	config = new_config(name, rea_hash(text, length), a);
	if (config == NULL) {
		rea__tree_free(&tree);
		return rea__refuse_nomem(info, name);
	}
	reader.arena = &config->arena;
	error = read_document(&reader, tree.root, config);
	rea__tree_free(&tree);
	if (error != 0)
		rea_config_unref(config);
	else
		*ret_config = config;
	return error;
}

/* ------------------------------------------------------------------ another policy */

static const struct rea__field policy_document_fields[] = {
    {.name = "rpc", .type = &rea__type_node},
};
static const struct rea__block policy_document_block = {"a policy document", policy_document_fields, 1, REA__NO_LINES};

/* All that is not policy, from base, where it stays. */
static int borrow(struct rea__reader *reader, const struct rea_config *base, struct rea_config *config)
{
	config->settings = base->settings;
	memcpy(config->lines, base->lines, sizeof(config->lines));
	config->task_policy_lines = base->task_policy_lines;
	config->by_name = base->by_name;
	config->by_host = base->by_host;
	config->by_grpc = base->by_grpc;
	config->grpc_configs = base->grpc_configs;
	config->contracts = base->contracts;
	config->contract_files = base->contract_files;
	config->contract_files_len = base->contract_files_len;
	config->profiles = base->profiles;
	config->profiles_len = base->profiles_len;
	config->services = rea_arena_array(reader->arena, base->services_len, sizeof(*config->services));
	if (config->services == NULL)
		return rea__nomem(reader);
	for (size_t i = 0; i < base->services_len; i++)
		config->services[i] = base->services[i];
	config->services_len = base->services_len;
	return 0;
}

/* `rpc` of the base's own document, with what has come since below it. */
static int keep_rpc(struct rea__reader *reader, const struct rea_config *base, struct rea_config *config)
{
	static const struct rea__node nowhere = {.line = 0};
	int error = rea__retry_copy(reader, &base->feign, &config->feign);

	if (error == 0)
		error = rea__retry_copy(reader, &base->grpc, &config->grpc);
	if (error == 0)
		error = rea__kitex_join(reader, config);
	return error ? error : rea__grpc_join(reader, &nowhere, config);
}

static int read_policy_document(struct rea__reader *reader, const struct rea__node *root, struct rea_config *config)
{
	const struct rea__node *rpc = NULL;
	int error = root ? rea__block_read(reader, root, &policy_document_block, &rpc, NULL) : 0;

	return error ? error : read_rpc(reader, rpc, config);
}

/* One of the documents that make a policy. */
struct part {
	const char *name;
	struct rea_slice text;
};

#define PARTS_MAX 9 /* one of ours, and as many of Kitex as there are sources */

struct parts {
	struct part items[PARTS_MAX];
	size_t len;
	bool bundled;
};

/* LENGTH SPACE NAME NEWLINE, LENGTH bytes. False: it is none. */
static bool take_part(struct rea__reader *reader, struct rea_slice *rest, struct part *part)
{
	const char *newline = rest->length > 0 ? memchr(rest->data, '\n', rest->length) : NULL;
	struct rea_slice head = rea_slice_make(rest->data, newline ? (size_t)(newline - rest->data) : 0);
	const char *space = head.length > 0 ? memchr(head.data, ' ', head.length) : NULL;
	size_t name_at = space ? (size_t)(space - head.data) + 1 : 0;
	uint64_t length;

	if (space == NULL || !rea_slice_to_u64(rea_slice_make(head.data, name_at - 1), &length) ||
	    length > rest->length - head.length - 1)
		return false;
	part->name = rea_arena_string(reader->arena, rea_slice_make(head.data + name_at, head.length - name_at));
	part->text = rea_slice_make(newline + 1, (size_t)length);
	*rest = rea_slice_make(newline + 1 + length, rest->length - head.length - 1 - (size_t)length);
	return part->name != NULL;
}

static int split(struct rea__reader *reader, const char *name, struct rea_slice text, struct parts *parts)
{
	parts->bundled = text.length > 0 && text.data[0] == REA_CONFIG_BUNDLE;
	if (!parts->bundled) {
		parts->items[parts->len++] = (struct part){name ? name : "", text};
		return 0;
	}
	text = rea_slice_make(text.data + 1, text.length - 1);
	while (text.length > 0)
		if (parts->len == PARTS_MAX || !take_part(reader, &text, &parts->items[parts->len++])) {
			memset(reader->info, 0, sizeof(*reader->info));
			snprintf(reader->info->message, sizeof(reader->info->message), "this is no bundle of documents");
			return REA_ERR_INVALID;
		}
	return 0;
}

static int read_kitex(struct rea__reader *reader, const struct part *part, bool bundled, struct rea_config *config)
{
	static const struct rea__node nowhere = {.line = 1, .column = 1};
	struct rea_slice name = rea_slice_of(part->name);
	const struct rea_config_service *service = rea__kitex_service(config, name);

	/* One of a source may be of a service that is there no more. */
	if (service == NULL)
		return bundled
			   ? 0
			   : rea__refuse(reader, &nowhere,
				 "its name, Client.Server.retry as Kitex has it, has no service of %s for the Server",
				 config->name);
	if (config->kitex == NULL)
		config->kitex = rea_arena_array(reader->arena, config->services_len, sizeof(*config->kitex));
	if (config->kitex == NULL)
		return rea__nomem(reader);
	if (config->kitex[service->index].entries_len > 0)
		return rea__refuse(reader, &nowhere, "%s is of the service %s as well",
		    config->kitex[service->index].file, service->name);
	return rea__kitex_read(reader, name, &config->kitex[service->index]);
}

/* do_kitex: only the documents of Kitex; else only ours. */
static int read_parts(
    struct rea__reader *reader, const struct parts *parts, bool do_kitex, bool *ret_any, struct rea_config *config)
{
	const struct rea__tree *before = reader->tree;
	struct rea__tree tree;
	int error = 0;

	*ret_any = false;
	for (size_t i = 0; i < parts->len && error == 0; i++) {
		const struct part *part = &parts->items[i];

		if (rea__kitex_is_name(rea_slice_of(part->name)) != do_kitex)
			continue;
		*ret_any = true;
		error = rea__tree_parse(
		    part->name, part->text.data, part->text.length, reader->arena->alloc, &tree, reader->info);
		if (error != 0)
			return error;
		reader->tree = &tree;
		if (do_kitex)
			error = read_kitex(reader, part, parts->bundled, config);
		else
			error = read_policy_document(reader, tree.root, config);
		if (!do_kitex)
			config->policy_name = rea_arena_string(reader->arena, rea_slice_of(part->name));
		reader->tree = before;
		rea__tree_free(&tree);
		if (!do_kitex && error == 0 && config->policy_name == NULL)
			error = rea__nomem(reader);
	}
	return error;
}

/* Kitex's come first, as what they say stands below. */
static int read_policy(
    struct rea__reader *reader, const struct parts *parts, const struct rea_config *base, struct rea_config *config)
{
	bool any;
	int error = read_parts(reader, parts, true, &any, config);

	if (error == 0)
		error = read_parts(reader, parts, false, &any, config);
	if (error == 0 && !any)
		error = keep_rpc(reader, base, config);
	config->settings.tasks.retries_off = error == 0 && is_switched_off(&config->feign);
	rea_hash_hex(config->documents_hash, config->version);
	return error ? error : join_policies(reader, config);
}

int rea_config_with_policy(struct rea_config *base, const char *name, const char *text, size_t length,
    const struct rea_alloc *alloc, struct rea_config **ret_config, struct rea_error_info *ret_info)
{
	const struct rea_alloc *a = alloc ? alloc : rea_alloc_default();
	struct rea_error_info unwanted, *info = ret_info ? ret_info : &unwanted;
	struct rea__reader reader = {.info = info};
	struct rea__tree none = {.file = NULL}; /* where no document of its own is being read */
	struct parts parts = {.len = 0};
	struct rea_config *config;
	int error;

	if (base->base != NULL)
		base = base->base;
	none.file = base->name;
	reader.tree = &none;
	config = new_config(base->name, rea_hash_more(base->documents_hash, text, length), a);
	if (config == NULL)
		return rea__refuse_nomem(info, name);
	config->base = rea_config_ref(base);
	reader.arena = &config->arena;
	error = split(&reader, name, rea_slice_make(text, length), &parts);
	if (error == 0)
		error = borrow(&reader, base, config);
	if (error == 0)
		error = read_policy(&reader, &parts, base, config);
	if (error != 0)
		rea_config_unref(config);
	else
		*ret_config = config;
	return error;
}

uint32_t rea_config_policy_line(const struct rea_config *config)
{
	return config->feign.line;
}

/* ------------------------------------------------------------------ lifetime */

struct rea_config *rea_config_ref(struct rea_config *config)
{
	atomic_fetch_add_explicit(&config->references, 1, memory_order_relaxed);
	return config;
}

void rea_config_unref(struct rea_config *config)
{
	struct rea_alloc alloc;

	if (config == NULL || atomic_fetch_sub_explicit(&config->references, 1, memory_order_acq_rel) != 1)
		return;
	for (size_t i = 0; config->base == NULL && config->contracts != NULL && i < config->services_len; i++)
		rea_contract_free(config->contracts[i]);
	rea__retry_fini(&config->feign);
	rea__retry_fini(&config->grpc);
	for (size_t i = 0; config->base == NULL && config->grpc_configs != NULL && i < config->services_len; i++)
		rea_map_fini(&config->grpc_configs[i].by_name);
	for (size_t i = 0; config->kitex != NULL && i < config->services_len; i++)
		rea_map_fini(&config->kitex[i].by_name);
	if (config->base == NULL) {
		rea_map_fini(&config->by_grpc);
		rea_map_fini(&config->by_name);
		rea_map_fini(&config->by_host);
	}
	rea_config_unref(config->base);
	rea_arena_fini(&config->arena);
	alloc = config->alloc;
	alloc.free(config, alloc.user_data);
}

/* ------------------------------------------------------------------ asking */

const struct rea_config_settings *rea_config_settings(const struct rea_config *config)
{
	return &config->settings;
}

size_t rea_config_services_count(const struct rea_config *config)
{
	return config->services_len;
}

const struct rea_config_service *rea_config_service(const struct rea_config *config, size_t index)
{
	return index < config->services_len ? &config->services[index] : NULL;
}

const struct rea_config_service *rea_config_find_service(const struct rea_config *config, const char *name, size_t length)
{
	uint32_t index;

	return rea_map_find(&config->by_name, rea_slice_make(name, length), &index) ? &config->services[index] : NULL;
}

/* The length of an authority without its port. A bare IPv6 address, which has colons of its own, is none: it
 * stands in brackets. */
static size_t without_port(const char *authority, size_t length)
{
	size_t digits = length;

	while (digits > 0 && authority[digits - 1] >= '0' && authority[digits - 1] <= '9')
		digits--;
	return digits > 1 && authority[digits - 1] == ':' ? digits - 1 : length;
}

const struct rea_config_service *rea_config_find_host(const struct rea_config *config, const char *authority, size_t length)
{
	char lower[AUTHORITY_MAX];
	uint32_t index;

	if (length > sizeof(lower))
		return NULL;
	for (size_t i = 0; i < length; i++)
		lower[i] = rea_ascii_lower(authority[i]);
	if (rea_map_find(&config->by_host, rea_slice_make(lower, length), &index))
		return &config->services[index];
	if (rea_map_find(&config->by_host, rea_slice_make(lower, without_port(lower, length)), &index))
		return &config->services[index];
	return NULL;
}

const struct rea_config_service *rea_config_find_grpc(const struct rea_config *config, const char *name, size_t length)
{
	char pattern[GRPC_NAME_MAX + 2];
	uint32_t index;

	if (length > GRPC_NAME_MAX || config->by_grpc.count == 0)
		return NULL;
	if (rea_map_find(&config->by_grpc, rea_slice_make(name, length), &index))
		return &config->services[index];
	memcpy(pattern, name, length);
	for (;;) {
		while (length > 0 && pattern[length - 1] != '.')
			length--;
		pattern[length] = '*';
		if (rea_map_find(&config->by_grpc, rea_slice_make(pattern, length + 1), &index))
			return &config->services[index];
		if (length == 0)
			return NULL;
		length--;
	}
}

/* "/S/M" as a method key: the last slash is an underscore. */
static const struct rea__method_config *find_grpc_method(const struct rea__service_config *own, const char *path, size_t length)
{
	char key[GRPC_KEY_MAX];
	const char *slash = length > 1 ? memchr(path + 1, '/', length - 1) : NULL;

	if (own->methods_len == 0 || slash == NULL || length - 1 > sizeof(key))
		return NULL;
	memcpy(key, path + 1, length - 1);
	key[slash - path - 1] = '_';
	return rea__service_method(own, rea_slice_make(key, length - 1));
}

/* Kitex names the method of "/S/M" alone. */
static const struct rea_policy *kitex_policy(
    const struct rea_config *config, const struct rea_config_service *service, const char *path, size_t length)
{
	const struct rea__service_config *own = config->grpc_services[service->index].own;
	const char *slash = config->kitex != NULL && own != NULL && length > 1 ? memchr(path + 1, '/', length - 1) : NULL;
	const struct rea__method_config *method = NULL;

	if (slash != NULL && config->kitex[service->index].entries_len > 0)
		method = rea__service_method(own, rea_slice_make(slash + 1, length - (size_t)(slash - path) - 1));
	return method != NULL ? method->policy : service->grpc_policy;
}

const struct rea_policy *rea_config_grpc_policy(
    const struct rea_config *config, const struct rea_config_service *service, const char *path, size_t length)
{
	const struct rea__grpc_service *grpc = &config->grpc_services[service->index];
	const struct rea__method_config *method = grpc->own ? find_grpc_method(grpc->own, path, length) : NULL;

	if (method != NULL)
		return method->policy;
	if (grpc->config == NULL || length == 0)
		return kitex_policy(config, service, path, length);
	return grpc->policies[rea__grpc_config_find(grpc->config, rea_slice_make(path + 1, length - 1))];
}

int rea_config_policy(
    const struct rea_config *config, const char *service, const char *method_key, struct rea_policy *ret_policy)
{
	const struct rea__service_config *own = service ? rea__retry_service(&config->feign, rea_slice_of(service)) : NULL;
	const struct rea__method_config *method =
	    own && method_key ? rea__service_method(own, rea_slice_of(method_key)) : NULL;

	*ret_policy = method ? *method->policy : own ? *own->policy : *config->feign.policy;
	return 0;
}

const struct rea_config_contract_file *rea_config_contract_files(const struct rea_config *config, size_t *ret_count)
{
	*ret_count = config->contract_files_len;
	return config->contract_files;
}

const char *rea_config_version(const struct rea_config *config)
{
	return config->version;
}
