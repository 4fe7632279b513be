/*
 * What another configuration changes: the keys that a document states otherwise than before, and the methods for which that comes to something.
 *
 * Ten thousand methods share a handful of policies, so the last pair that was compared is remembered.
 */
#include "config/snapshot.h"

#include <stdarg.h>
#include <stdio.h>

#define VALUE_SIZE 768
#define PLACE_SIZE 512

struct changes {
	const struct rea_config *before, *after;
	size_t max;
	void (*tell)(enum rea_config_change kind, const char *text, void *user_data);
	void *user_data;
	size_t counts[REA_CONFIG_CHANGES];
	const struct rea_policy *a, *b; /* the last pair */
	bool differ;
};

__attribute__((format(printf, 3, 4))) static void tell(
    struct changes *changes, enum rea_config_change kind, const char *format, ...)
{
	char text[PLACE_SIZE + 2 * VALUE_SIZE];
	va_list args;

	if (changes->counts[kind]++ >= changes->max)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	changes->tell(kind, text, changes->user_data);
}

/* ------------------------------------------------------------------ keys */

/* "place" "what." "name" ".", cut where it does not fit. */
static const char *below(char text[PLACE_SIZE], const char *place, const char *what, const char *name)
{
	struct rea_format format;

	rea_format_init(&format, text, PLACE_SIZE);
	rea_format_text(&format, place);
	rea_format_text(&format, what);
	rea_format_text(&format, name);
	rea_format_text(&format, ".");
	return text;
}

static const char *text_of(const struct rea__field *field, const void *values, char text[VALUE_SIZE])
{
	struct rea_format format;

	rea_format_init(&format, text, VALUE_SIZE);
	field->type->format(field, (const char *)values + field->offset, &format);
	return text;
}

/* Bytes that are alike were written alike; others may still say the same. */
static bool alike(const void *before, const void *after, size_t size)
{
	return rea_slice_equal(rea_slice_make(before, size), rea_slice_make(after, size));
}

/* Whether two values are the same, where their bytes can tell; what is told of them needs texts anyway. */
static bool same_bytes(const struct rea__field *field, const void *before, const void *after)
{
	size_t size = field->type == &rea__type_bool     ? sizeof(bool)
		      : field->type == &rea__type_u32    ? sizeof(uint32_t)
		      : field->type == &rea__type_choice ? sizeof(int)
		      : field->type == &rea__type_ms     ? sizeof(uint64_t)
		      : field->type == &rea__type_double ? sizeof(double)
							 : 0;

	return size > 0 && alike((const char *)before + field->offset, (const char *)after + field->offset, size);
}

/* NULL values: the document does not state it. */
static void compare_key(
    struct changes *changes, const char *place, const struct rea__field *field, const void *before, const void *after)
{
	char was[VALUE_SIZE], is[VALUE_SIZE];

	if ((before == NULL && after == NULL) || (before != NULL && after != NULL && same_bytes(field, before, after)))
		return;
	if (before != NULL)
		text_of(field, before, was);
	if (after != NULL)
		text_of(field, after, is);
	if (before != NULL && after != NULL && strcmp(was, is) != 0)
		tell(changes, REA_CHANGED_KEY, "%s%s: %s, was %s", place, field->name, is, was);
	else if (before == NULL && after != NULL)
		tell(changes, REA_CHANGED_KEY, "%s%s: %s, was not set", place, field->name, is);
	else if (before != NULL && after == NULL)
		tell(changes, REA_CHANGED_KEY, "%s%s: not set, was %s", place, field->name, was);
}

static void compare_settings(struct changes *changes)
{
	static const struct {
		const struct rea__block *block;
		const char *prefix;
	} blocks[] = {{&rea__root_block, ""}, {&rea__http_block, "http."}, {&rea__events_block, "events."},
	    {&rea__limits_block, "limits."}, {&rea__timeouts_block, "timeouts."}, {&rea__tasks_block, "tasks."}};

	for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++)
		for (size_t j = 0; j < blocks[i].block->fields_len; j++)
			if (blocks[i].block->fields[j].type->format != NULL)
				compare_key(changes, blocks[i].prefix, &blocks[i].block->fields[j],
				    &changes->before->settings, &changes->after->settings);
}

static const char *profile_of(const struct rea__level *level)
{
	return level != NULL && level->layer != NULL && level->layer->key.profile != NULL ? level->layer->key.profile->name
											  : "not set";
}

static const struct rea_policy_layer *keys_of(const struct rea__level *level)
{
	return level != NULL && level->layer != NULL ? &level->layer->key.keys : NULL;
}

static const void *value_at(const struct rea_policy_layer *keys, uint32_t key)
{
	return keys != NULL && (keys->set & (UINT32_C(1) << key)) != 0 ? &keys->values : NULL;
}

/* NULL: states nothing. */
static void compare_keys(struct changes *changes, const char *place, const struct rea_policy_layer *before,
    const struct rea_policy_layer *after)
{
	for (uint32_t key = 0; key < REA_POLICY_JITTER_KIND; key++)
		compare_key(changes, place, &rea__policy_block.fields[key], value_at(before, key), value_at(after, key));
}

/* NULL: the document has no such level. */
static void compare_level(
    struct changes *changes, const char *place, const struct rea__level *before, const struct rea__level *after)
{
	const struct rea__layer *a = before ? before->layer : NULL, *b = after ? after->layer : NULL;

	bool same_profile = strcmp(profile_of(before), profile_of(after)) == 0;

	if (same_profile && a != NULL && b != NULL && alike(&a->key.keys, &b->key.keys, sizeof(a->key.keys)))
		return;
	if (!same_profile)
		tell(changes, REA_CHANGED_KEY, "%sprofile: %s, was %s", place, profile_of(after), profile_of(before));
	compare_keys(changes, place, keys_of(before), keys_of(after));
}

static void compare_method_levels(struct changes *changes, const char *place, const struct rea__service_config *before,
    const struct rea__service_config *after)
{
	char text[PLACE_SIZE];

	for (size_t i = 0; after != NULL && i < after->methods_len; i++) {
		const struct rea__method_config *is = &after->methods[i];
		const struct rea__method_config *was = before ? rea__service_method(before, rea_slice_of(is->key)) : NULL;

		compare_level(changes, below(text, place, "method-configs.", is->key), was ? &was->level : NULL, &is->level);
	}
	for (size_t i = 0; before != NULL && i < before->methods_len; i++) {
		const struct rea__method_config *was = &before->methods[i];

		if (after == NULL || rea__service_method(after, rea_slice_of(was->key)) == NULL)
			compare_level(changes, below(text, place, "method-configs.", was->key), &was->level, NULL);
	}
}

static void compare_service_level(struct changes *changes, const char *place, const struct rea__service_config *before,
    const struct rea__service_config *after)
{
	char text[PLACE_SIZE];

	below(text, place, "service-configs.", after ? after->name : before->name);
	compare_level(changes, text, before ? &before->level : NULL, after ? &after->level : NULL);
	compare_method_levels(changes, text, before, after);
}

static const struct rea__profile *find_profile(const struct rea_config *config, const char *name)
{
	for (size_t i = 0; i < config->profiles_len; i++)
		if (strcmp(config->profiles[i].name, name) == 0)
			return &config->profiles[i];
	return NULL;
}

static void compare_profiles(struct changes *changes)
{
	char text[PLACE_SIZE];

	for (size_t i = 0; i < changes->after->profiles_len; i++) {
		const struct rea__profile *is = &changes->after->profiles[i];
		const struct rea__profile *was = find_profile(changes->before, is->name);

		compare_keys(changes, below(text, "profiles.", "", is->name), was ? was->keys : NULL, is->keys);
	}
	for (size_t i = 0; i < changes->before->profiles_len; i++)
		if (find_profile(changes->after, changes->before->profiles[i].name) == NULL)
			tell(changes, REA_CHANGED_KEY, "profiles.%s: gone", changes->before->profiles[i].name);
}

static void compare_retry(
    struct changes *changes, const char *place, const struct rea__retry *before, const struct rea__retry *after)
{
	compare_level(changes, place, &before->global, &after->global);
	for (size_t i = 0; i < after->services_len; i++)
		compare_service_level(changes, place, rea__retry_service(before, rea_slice_of(after->services[i].name)),
		    &after->services[i]);
	for (size_t i = 0; i < before->services_len; i++)
		if (rea__retry_service(after, rea_slice_of(before->services[i].name)) == NULL)
			compare_service_level(changes, place, &before->services[i], NULL);
}

/* ------------------------------------------------------------------ services */

static bool texts_differ(const char *a, const char *b)
{
	return (a == NULL) != (b == NULL) || (a != NULL && strcmp(a, b) != 0);
}

static bool instances_differ(const struct rea_config_service *a, const struct rea_config_service *b)
{
	bool differ = a->instances_len != b->instances_len;

	for (size_t i = 0; !differ && i < a->instances_len; i++)
		differ = strcmp(a->instances[i].address, b->instances[i].address) != 0 ||
			 a->instances[i].weight != b->instances[i].weight ||
			 texts_differ(a->instances[i].host, b->instances[i].host);
	return differ;
}

static bool hosts_differ(const struct rea_config_service *a, const struct rea_config_service *b)
{
	bool differ = a->hosts_len != b->hosts_len;

	for (size_t i = 0; !differ && i < a->hosts_len; i++)
		differ = strcmp(a->hosts[i], b->hosts[i]) != 0;
	return differ;
}

static bool discovery_differs(const struct rea_config_discovery *a, const struct rea_config_discovery *b)
{
	return a->kind != b->kind || texts_differ(a->name, b->name) || a->port != b->port ||
	       texts_differ(a->group, b->group) || texts_differ(a->namespace_id, b->namespace_id) ||
	       texts_differ(a->clusters, b->clusters) || a->empty_grace_ms != b->empty_grace_ms;
}

static bool tls_differs(const struct rea_config_tls *a, const struct rea_config_tls *b)
{
	if (a == NULL || b == NULL)
		return a != b;
	return texts_differ(a->certificate_file, b->certificate_file) || texts_differ(a->key_file, b->key_file) ||
	       texts_differ(a->ca_file, b->ca_file) || texts_differ(a->server_name, b->server_name) ||
	       a->verify != b->verify || a->min_version != b->min_version;
}

static void compare_service(
    struct changes *changes, const struct rea_config_service *before, const struct rea_config_service *after)
{
	const struct {
		const char *key;
		bool differs;
	} keys[] = {{"hosts", hosts_differ(before, after)}, {"host", texts_differ(before->host, after->host)},
	    {"instances", instances_differ(before, after)},
	    {"discovery", discovery_differs(&before->discovery, &after->discovery)},
	    {"balance", before->balance != after->balance}, {"protocol", before->protocol != after->protocol},
	    {"tls", tls_differs(before->tls, after->tls)}, {"ejection", before->ejection != after->ejection}};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i].differs)
			tell(changes, REA_CHANGED_KEY, "services.%s.%s", after->name, keys[i].key);
}

static void compare_services(struct changes *changes)
{
	const struct rea_config *before = changes->before, *after = changes->after;

	/* Another policy over the same document. */
	if (before->base != NULL && before->base == after->base)
		return;
	for (size_t i = 0; i < after->services_len; i++) {
		const struct rea_config_service *is = &after->services[i];
		const struct rea_config_service *was = rea_config_find_service(before, is->name, strlen(is->name));

		if (was == NULL)
			tell(changes, REA_CHANGED_KEY, "services.%s: new", is->name);
		else
			compare_service(changes, was, is);
	}
	for (size_t i = 0; i < before->services_len; i++)
		if (rea_config_find_service(after, before->services[i].name, strlen(before->services[i].name)) == NULL)
			tell(changes, REA_CHANGED_KEY, "services.%s: gone", before->services[i].name);
}

/* ------------------------------------------------------------------ tasks, registrations */

static bool urls_differ(const struct rea_config_settings *a, const struct rea_config_settings *b)
{
	bool differ = a->tasks.urls_len != b->tasks.urls_len;

	for (size_t i = 0; !differ && i < a->tasks.urls_len; i++) {
		const struct rea_config_url *was = &a->tasks.urls[i], *is = &b->tasks.urls[i];

		differ = strcmp(was->pattern, is->pattern) != 0 || was->permission != is->permission ||
			 was->allow_private_len != is->allow_private_len || texts_differ(was->ca_file, is->ca_file) ||
			 was->secrets_len != is->secrets_len || was->concurrency != is->concurrency ||
			 was->rate_per_s < is->rate_per_s || was->rate_per_s > is->rate_per_s;
		for (size_t j = 0; !differ && j < was->allow_private_len; j++)
			differ = strcmp(was->allow_private[j].text, is->allow_private[j].text) != 0;
		for (size_t j = 0; !differ && j < was->secrets_len; j++)
			differ = strcmp(was->secrets[j], is->secrets[j]) != 0;
	}
	return differ;
}

static bool targets_differ(const struct rea_config_settings *a, const struct rea_config_settings *b)
{
	bool differ = a->tasks.targets_len != b->tasks.targets_len;

	for (size_t i = 0; !differ && i < a->tasks.targets_len; i++) {
		const struct rea_config_target *was = &a->tasks.targets[i], *is = &b->tasks.targets[i];

		differ = strcmp(was->service, is->service) != 0 || was->concurrency != is->concurrency ||
			 was->rate_per_s < is->rate_per_s || was->rate_per_s > is->rate_per_s;
	}
	return differ;
}

static void compare_tasks(struct changes *changes)
{
	const struct rea_config_settings *before = &changes->before->settings, *after = &changes->after->settings;

	for (size_t i = 0; i < REA__TASK_POLICY_FIELDS; i++)
		compare_key(changes, "tasks.policy.", &rea__task_policy_block.fields[i],
		    value_at(&before->tasks.policy, rea__task_policy_keys[i]),
		    value_at(&after->tasks.policy, rea__task_policy_keys[i]));
	if (urls_differ(before, after))
		tell(changes, REA_CHANGED_KEY, "tasks.urls");
	if (targets_differ(before, after))
		tell(changes, REA_CHANGED_KEY, "tasks.targets");
}

/* ------------------------------------------------------------------ methods */

static bool policies_differ(struct changes *changes, const struct rea_policy *before, const struct rea_policy *after)
{
	char was[VALUE_SIZE], is[VALUE_SIZE];

	if (before == changes->a && after == changes->b)
		return changes->differ;
	changes->a = before;
	changes->b = after;
	changes->differ = before->jitter_kind != after->jitter_kind;
	if (alike(before, after, sizeof(*before)))
		return changes->differ;
	for (uint32_t key = 0; key < REA_POLICY_JITTER_KIND && !changes->differ; key++) {
		const struct rea__field *field = &rea__policy_block.fields[key];

		changes->differ = !same_bytes(field, before, after) &&
				  strcmp(text_of(field, before, was), text_of(field, after, is)) != 0;
	}
	return changes->differ;
}

static const struct rea_policy *policy_of(const struct rea__retry *retry, const char *service, const char *key)
{
	const struct rea__service_config *own = rea__retry_service(retry, rea_slice_of(service));
	const struct rea__method_config *method = own && key ? rea__service_method(own, rea_slice_of(key)) : NULL;

	return method ? method->policy : own ? own->policy : retry->policy;
}

static enum rea_permission permission_of(const struct rea_config *config, const char *service, const char *key)
{
	const struct rea_config_service *served = rea_config_find_service(config, service, strlen(service));
	const struct rea_operation *operation =
	    served && served->contract ? rea_contract_find_key(served->contract, key, strlen(key)) : NULL;

	return operation ? operation->grant.permission : REA_PERMISSION_NONE;
}

static void compare_method(struct changes *changes, const char *service, const char *key)
{
	enum rea_permission was = permission_of(changes->before, service, key),
			    is = permission_of(changes->after, service, key);
	bool policy = policies_differ(
	    changes, policy_of(&changes->before->feign, service, key), policy_of(&changes->after->feign, service, key));

	if (was != is)
		tell(changes, REA_CHANGED_METHOD, "%s %s (permission %s, was %s%s)", service, key,
		    rea_permission_name(is), rea_permission_name(was), policy ? "; policy" : "");
	else if (policy)
		tell(changes, REA_CHANGED_METHOD, "%s %s (policy)", service, key);
}

/* Methods that either configuration names: those of contracts, and those of `method-configs` of services without one. */
static void compare_methods(struct changes *changes, const char *service)
{
	const struct rea_config *configs[] = {changes->after, changes->before};
	const struct rea_contract *contracts[2];
	const struct rea__service_config *own[2];

	for (size_t i = 0; i < 2; i++) {
		const struct rea_config_service *served = rea_config_find_service(configs[i], service, strlen(service));

		contracts[i] = served ? served->contract : NULL;
		own[i] = rea__retry_service(&configs[i]->feign, rea_slice_of(service));
		for (size_t j = 0; contracts[i] != NULL && j < rea_contract_count(contracts[i]); j++) {
			const char *key = rea_contract_operation(contracts[i], j)->key;

			if (i == 0 || contracts[0] == NULL || rea_contract_find_key(contracts[0], key, strlen(key)) == NULL)
				compare_method(changes, service, key);
		}
		for (size_t j = 0; contracts[i] == NULL && own[i] != NULL && j < own[i]->methods_len; j++) {
			const char *key = own[i]->methods[j].key;

			if (i == 0 || own[0] == NULL || rea__service_method(own[0], rea_slice_of(key)) == NULL)
				compare_method(changes, service, key);
		}
	}
	if (contracts[0] == NULL && policies_differ(changes, policy_of(&changes->before->feign, service, NULL),
					policy_of(&changes->after->feign, service, NULL)))
		tell(changes, REA_CHANGED_METHOD, "%s, every method without settings of its own (policy)", service);
}

/* gRPC methods need no contract: those that `method-configs` names, and the others as one. */
static void compare_grpc_methods(struct changes *changes, const char *service)
{
	const struct rea__retry *retries[] = {&changes->after->grpc, &changes->before->grpc};
	const struct rea__service_config *first = rea__retry_service(retries[0], rea_slice_of(service));

	for (size_t i = 0; i < 2; i++) {
		const struct rea__service_config *own = rea__retry_service(retries[i], rea_slice_of(service));

		for (size_t j = 0; own != NULL && j < own->methods_len; j++) {
			const char *key = own->methods[j].key;

			if (i > 0 && first != NULL && rea__service_method(first, rea_slice_of(key)) != NULL)
				continue;
			if (policies_differ(changes, policy_of(retries[1], service, key), policy_of(retries[0], service, key)))
				tell(changes, REA_CHANGED_METHOD, "%s %s (policy of gRPC calls)", service, key);
		}
	}
	if (policies_differ(changes, policy_of(retries[1], service, NULL), policy_of(retries[0], service, NULL)))
		tell(changes, REA_CHANGED_METHOD, "%s, every gRPC method without settings of its own (policy)", service);
}

/* Each service that either configuration knows, once. */
static void compare_all_methods(struct changes *changes)
{
	const struct rea_config *after = changes->after, *before = changes->before;

	for (size_t i = 0; i < after->services_len; i++) {
		compare_methods(changes, after->services[i].name);
		compare_grpc_methods(changes, after->services[i].name);
	}
	for (size_t i = 0; i < after->feign.services_len; i++) {
		const char *name = after->feign.services[i].name;

		if (rea_config_find_service(after, name, strlen(name)) == NULL)
			compare_methods(changes, name);
	}
	for (size_t i = 0; i < before->feign.services_len; i++) {
		const char *name = before->feign.services[i].name;

		if (rea_config_find_service(after, name, strlen(name)) == NULL &&
		    rea__retry_service(&after->feign, rea_slice_of(name)) == NULL)
			compare_methods(changes, name);
	}
}

void rea_config_compare(const struct rea_config *before, const struct rea_config *after, size_t max,
    void (*tell_change)(enum rea_config_change kind, const char *text, void *user_data), void *user_data,
    size_t ret_counts[REA_CONFIG_CHANGES])
{
	struct changes changes = {.before = before, .after = after, .max = max, .tell = tell_change, .user_data = user_data};

	compare_settings(&changes);
	compare_tasks(&changes);
	compare_services(&changes);
	compare_profiles(&changes);
	compare_retry(&changes, "rpc.feign.retry.", &before->feign, &after->feign);
	compare_retry(&changes, "rpc.grpc.retry.", &before->grpc, &after->grpc);
	compare_all_methods(&changes);
	for (size_t i = 0; i < REA_CONFIG_CHANGES; i++)
		ret_counts[i] = changes.counts[i];
}
