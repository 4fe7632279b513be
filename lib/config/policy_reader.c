/*
 * The `retry` block: layers, and what they come to.
 *
 * Every effective policy of a document is made and checked here, so that nothing can be wrong when a call asks for
 * it. Levels are checked from the top down: whoever is refused is the level that made the combination wrong.
 */
#include "config/snapshot.h"

#include <assert.h>

#define BIT(key) (UINT32_C(1) << (key))

/* ------------------------------------------------------------------ one level */

static int check_place(struct rea__reader *reader, const struct rea__policy_reading *reading, enum rea__place place)
{
	if (reading->service_configs != NULL && place != REA__PLACE_GLOBAL)
		return rea__refuse_key(reader, reading->service_configs,
		    "service-configs stands directly under `retry`, and nowhere else");
	if (reading->method_configs != NULL && place != REA__PLACE_SERVICE)
		return rea__refuse_key(reader, reading->method_configs,
		    "method-configs stands under service-configs.<service>, and nowhere else");
	return 0;
}

int rea__policy_read(struct rea__reader *reader, const struct rea__node *node, enum rea__place place,
    struct rea__policy_reading *ret_reading, uint32_t *ret_set, const struct rea__node *ret_seen[REA__BLOCK_FIELDS_MAX])
{
	int error;

	memset(ret_reading, 0, sizeof(*ret_reading));
	*ret_set = 0;
	error = rea__block_read(reader, node, &rea__policy_block, ret_reading, ret_seen);
	for (uint32_t key = 0; error == 0 && key < REA_POLICY_JITTER_KIND; key++)
		if (ret_seen[key] != NULL)
			*ret_set |= BIT(key);
	return error ? error : check_place(reader, ret_reading, place);
}

static size_t count_bits(uint32_t set)
{
	return (size_t)__builtin_popcount(set);
}

int rea__lines_new(struct rea__reader *reader, uint32_t set, const struct rea__node *const *seen, const uint32_t **ret_lines)
{
	uint32_t *lines = rea_arena_array(reader->arena, count_bits(set) + 1, sizeof(*lines));
	size_t at = 0;

	if (lines == NULL)
		return rea__nomem(reader);
	for (uint32_t key = 0; key < REA_POLICY_JITTER_KIND; key++)
		if (set & BIT(key))
			lines[at++] = seen[key]->key->line;
	lines[at] = seen[REA__FIELD_PROFILE] ? seen[REA__FIELD_PROFILE]->key->line : 0;
	*ret_lines = lines;
	return 0;
}

uint32_t rea__lines_of(const uint32_t *lines, uint32_t set, enum rea_policy_key key)
{
	return lines[count_bits(set & (BIT(key) - 1))];
}

uint32_t rea__lines_of_profile(const uint32_t *lines, uint32_t set)
{
	return lines[count_bits(set)];
}

/* ------------------------------------------------------------------ stacks of layers */

static void push_profile(
    struct rea__stack *stack, enum rea__place place, const struct rea__profile *profile, uint32_t profile_line)
{
	const struct rea__profile *chain[REA__PROFILE_DEPTH_MAX];
	size_t depth = 0;

	for (; profile != NULL; profile = profile->base)
		chain[depth++] = profile;
	while (depth-- > 0)
		stack->items[stack->len++] = (struct rea__stack_item){
		    chain[depth]->keys, chain[depth]->lines, chain[depth], place, profile_line, NULL, NULL};
}

void rea__stack_push(struct rea__stack *stack, enum rea__place place, const struct rea__level *level)
{
	const struct rea__layer_key *key;

	if (level->layer == NULL)
		return;
	key = &level->layer->key;
	push_profile(stack, place, key->profile, rea__lines_of_profile(level->lines, key->keys.set));
	if (place == REA__PLACE_GLOBAL)
		stack->global_index = stack->len;
	stack->items[stack->len++] = (struct rea__stack_item){&key->keys, level->lines, NULL, place, 0, NULL, NULL};
}

void rea__stack_merge(const struct rea__stack *stack, struct rea_policy *ret_policy)
{
	const struct rea_policy_layer *layers[REA__STACK_MAX];

	for (size_t i = 0; i < stack->len; i++)
		layers[i] = stack->items[i].keys;
	rea_policy_merge(layers, stack->len, stack->global_index, ret_policy);
}

/* The number of layers up to the highest that sets a key; 0 = none does. */
static size_t height_of(const struct rea__stack *stack, enum rea_policy_key key)
{
	size_t height = stack->len;

	while (height > 0 && !(stack->items[height - 1].keys->set & BIT(key)))
		height--;
	return height;
}

const struct rea__stack_item *rea__stack_source(const struct rea__stack *stack, enum rea_policy_key key)
{
	size_t height = height_of(stack, key);

	if (key == REA_POLICY_ENABLED && stack->global_index != SIZE_MAX) {
		const struct rea__stack_item *global = &stack->items[stack->global_index];

		/* The master switch: nothing above it counts. */
		if ((global->keys->set & BIT(key)) && !global->keys->values.enabled)
			return global;
	}
	return height > 0 ? &stack->items[height - 1] : NULL;
}

/* ------------------------------------------------------------------ effective policies, checked */

struct work {
	struct rea__reader *reader;
	const struct rea_config *config;
	struct rea__retry *retry;
	struct rea_map layers; /* bytes of a layer's key to its number */
	struct rea__layer **numbered;
	size_t numbered_len;
	size_t numbered_max;
};

/* A level while its nodes are at hand. */
struct open_level {
	enum rea__place place;
	struct rea__level *level;
	const struct rea__node *node;
	const struct rea__node *seen[REA__BLOCK_FIELDS_MAX];
	const struct open_level *above;
};

static void stack_levels(struct rea__stack *stack, const struct open_level *open)
{
	if (open == NULL)
		return;
	stack_levels(stack, open->above);
	rea__stack_push(stack, open->place, open->level);
}

/* The keys that take part in the check which refused a key. */
static uint32_t involved_keys(enum rea_policy_key key)
{
	switch ((unsigned)key) {
	case REA_POLICY_MAX_RETRY_NEXT_INSTANCE:
		return BIT(key) | BIT(REA_POLICY_MAX_RETRY_SAME_INSTANCE) | BIT(REA_POLICY_WHEN_ALL_TRIED);
	case REA_POLICY_MIN_BACKOFF:
		return BIT(key) | BIT(REA_POLICY_JITTER_KIND);
	case REA_POLICY_MAX_BACKOFF:
		return BIT(key) | BIT(REA_POLICY_MIN_BACKOFF);
	case REA_POLICY_ATTEMPT_TIMEOUT:
		return BIT(key) | BIT(REA_POLICY_DEADLINE);
	default:
		return BIT(key);
	}
}

static enum rea_policy_key key_called(const char *name)
{
	for (uint32_t key = 0; key < REA_POLICY_JITTER_KIND; key++)
		if (strcmp(rea__policy_block.fields[key].name, name) == 0)
			return (enum rea_policy_key)key;
	return REA_POLICY_JITTER_KIND;
}

/* Where the innermost level brought the fault in: at the key itself, at one that it is weighed against, or at the
 * profile. */
static const struct rea__node *place_of_fault(const struct open_level *open, enum rea_policy_key key)
{
	uint32_t involved = involved_keys(key);

	if (key < REA_POLICY_JITTER_KIND && open->seen[key] != NULL)
		return open->seen[key];
	for (uint32_t other = 0; other < REA_POLICY_JITTER_KIND; other++)
		if ((involved & BIT(other)) && open->seen[other] != NULL)
			return open->seen[other];
	return open->seen[REA__FIELD_PROFILE] ? open->seen[REA__FIELD_PROFILE] : open->node;
}

/* Full jitter takes no ratio. One that was set below the profile, for others, is no fault. */
static bool sets_jitter_over_full(const struct rea__stack *stack, const struct rea_policy *policy)
{
	return policy->jitter_kind == REA_JITTER_FULL &&
	       height_of(stack, REA_POLICY_JITTER) > height_of(stack, REA_POLICY_JITTER_KIND);
}

static int check_policy(
    struct work *work, const struct open_level *open, const struct rea__stack *stack, const struct rea_policy *policy)
{
	struct rea_error_info wrong;

	if (sets_jitter_over_full(stack, policy))
		return rea__refuse(work->reader, place_of_fault(open, REA_POLICY_JITTER),
		    "`jitter` is not accepted under the profile adaptive, whose jitter is always full");
	memset(&wrong, 0, sizeof(wrong));
	if (rea_policy_validate(policy, &wrong) != 0)
		return rea__refuse(work->reader, place_of_fault(open, key_called(wrong.key)), "%s", wrong.message);
	return 0;
}

/* The policy of a level, from the cache of its layer where the same combination came before. */
static int make_policy(struct work *work, const struct open_level *open, const struct rea_policy **ret_policy)
{
	struct rea__layer *layer = open->level->layer;
	const struct rea__layer *parent = open->above ? open->above->level->layer : NULL;
	struct rea__stack stack = {.global_index = SIZE_MAX};
	struct rea_policy *policy;
	int error;

	if (layer->policy == NULL || layer->parent != parent) {
		policy = rea_arena_alloc(work->reader->arena, sizeof(*policy));
		if (policy == NULL)
			return rea__nomem(work->reader);
		stack_levels(&stack, open);
		rea__stack_merge(&stack, policy);
		error = check_policy(work, open, &stack, policy);
		if (error != 0)
			return error;
		layer->parent = parent;
		layer->policy = policy;
	}
	*ret_policy = layer->policy;
	return 0;
}

/* ------------------------------------------------------------------ the block */

static int number_layer(struct work *work, struct rea__layer *layer)
{
	if (work->numbered_len == work->numbered_max) {
		size_t max = work->numbered_max ? work->numbered_max * 2 : 16;
		struct rea__layer **numbered = rea_arena_array(work->reader->arena, max, sizeof(struct rea__layer *));

		if (numbered == NULL)
			return REA_ERR_NOMEM;
		if (work->numbered_len > 0)
			memcpy(numbered, work->numbered, work->numbered_len * sizeof(struct rea__layer *));
		work->numbered = numbered;
		work->numbered_max = max;
	}
	work->numbered[work->numbered_len] = layer;
	return rea_map_insert(&work->layers, rea_slice_make((const char *)&layer->key, sizeof(layer->key)),
	    (uint32_t)work->numbered_len++);
}

/* The one object for these keys. */
static int share_layer(struct work *work, const struct rea__layer_key *key, struct rea__layer **ret_layer)
{
	struct rea__layer *layer;
	uint32_t number;

	if (rea_map_find(&work->layers, rea_slice_make((const char *)key, sizeof(*key)), &number)) {
		assert(number < work->numbered_len && work->numbered != NULL);
		*ret_layer = work->numbered[number];
		return 0;
	}
	layer = rea_arena_alloc(work->reader->arena, sizeof(*layer));
	if (layer == NULL)
		return rea__nomem(work->reader);
	memcpy(&layer->key, key, sizeof(*key));
	*ret_layer = layer;
	return number_layer(work, layer) ? rea__nomem(work->reader) : 0;
}

/* Read one level and make its policy. ret_reading tells where the levels below it are. */
static int read_level(struct work *work, struct open_level *open, struct rea__policy_reading *ret_reading,
    const struct rea_policy **ret_policy)
{
	struct rea__layer_key key;
	int error;

	memset(&key, 0, sizeof(key));
	error = rea__policy_read(work->reader, open->node, open->place, ret_reading, &key.keys.set, open->seen);
	if (error != 0)
		return error;
	memcpy(&key.keys.values, &ret_reading->values, sizeof(key.keys.values));
	if (ret_reading->profile != NULL)
		error = rea__profile_find(work->reader, ret_reading->profile, work->config, &key.profile);
	if (error == 0)
		error = share_layer(work, &key, &open->level->layer);
	if (error == 0)
		error = rea__lines_new(work->reader, key.keys.set, open->seen, &open->level->lines);
	return error ? error : make_policy(work, open, ret_policy);
}

/* A method key that the service's own contract does not know would never match. */
static int check_declared(struct work *work, const struct rea__node *node, const struct rea_contract *contract)
{
	struct rea__suggest suggest;
	char hint[REA__SUGGEST_SIZE], quote[REA__QUOTE_SIZE];

	if (contract == NULL || rea_contract_find_key(contract, node->key->text, node->key->length) != NULL)
		return 0;
	rea__suggest_init(&suggest, rea__node_text(node->key));
	for (size_t i = 0; i < rea_contract_count(contract); i++)
		rea__suggest_offer(&suggest, rea_contract_operation(contract, i)->key);
	return rea__refuse_key(work->reader, node, "the contract of this service declares no method %s%s",
	    rea__quote(rea__node_text(node->key), quote), rea__suggest_text(&suggest, hint));
}

static int read_method(struct work *work, const struct rea__node *node, const struct open_level *service,
    struct rea__method_config *method)
{
	struct open_level open = {.place = REA__PLACE_METHOD, .level = &method->level, .node = node, .above = service};
	struct rea__policy_reading reading;
	int error = rea__copy_text(work->reader, rea__node_text(node->key), &method->key);

	method->line = node->key->line;
	return error ? error : read_level(work, &open, &reading, &method->policy);
}

static int read_methods(struct work *work, const struct rea__node *node, const struct open_level *above,
    const struct rea_contract *contract, struct rea__service_config *service)
{
	const struct rea__node *child;
	int error = rea__expect_mapping(work->reader, node, &child);

	if (error != 0 || child == NULL)
		return error;
	service->methods = rea_arena_array(work->reader->arena, node->length, sizeof(*service->methods));
	if (service->methods == NULL || rea_map_reserve(&service->by_key, node->length) != 0)
		return rea__nomem(work->reader);
	for (; child != NULL && error == 0; child = child->next) {
		struct rea__method_config *method = &service->methods[service->methods_len];

		error = check_declared(work, child, contract);
		if (error == 0)
			error = read_method(work, child, above, method);
		if (error == 0)
			error =
			    rea_map_insert(&service->by_key, rea_slice_of(method->key), (uint32_t)service->methods_len++);
	}
	return error;
}

static int read_service(struct work *work, const struct rea__node *node, const struct open_level *global,
    bool knows_contracts, struct rea__service_config *service)
{
	struct open_level open = {.place = REA__PLACE_SERVICE, .level = &service->level, .node = node, .above = global};
	const struct rea_config_service *served = rea_config_find_service(work->config, node->key->text, node->key->length);
	struct rea__policy_reading reading;
	int error = rea__copy_text(work->reader, rea__node_text(node->key), &service->name);

	service->line = node->key->line;
	service->by_key.alloc = work->reader->arena->alloc;
	if (error == 0)
		error = read_level(work, &open, &reading, &service->policy);
	if (error == 0 && reading.method_configs != NULL)
		error = read_methods(
		    work, reading.method_configs, &open, knows_contracts && served ? served->contract : NULL, service);
	return error;
}

static int read_services(struct work *work, const struct rea__node *node, const struct open_level *global, bool knows_contracts)
{
	struct rea__retry *retry = work->retry;
	const struct rea__node *child;
	int error = rea__expect_mapping(work->reader, node, &child);

	if (error != 0 || child == NULL)
		return error;
	retry->services = rea_arena_array(work->reader->arena, node->length, sizeof(*retry->services));
	if (retry->services == NULL || rea_map_reserve(&retry->by_name, node->length) != 0)
		return rea__nomem(work->reader);
	for (; child != NULL && error == 0; child = child->next) {
		struct rea__service_config *service = &retry->services[retry->services_len++];

		error = read_service(work, child, global, knows_contracts, service);
		if (error == 0)
			error = rea_map_insert(
			    &retry->by_name, rea_slice_of(service->name), (uint32_t)(service - retry->services));
	}
	return error;
}

int rea__retry_read(struct rea__reader *reader, const struct rea__node *node, const struct rea_config *config,
    bool knows_contracts, struct rea__retry *ret_retry)
{
	struct work work = {
	    .reader = reader, .config = config, .retry = ret_retry, .layers = {.alloc = reader->arena->alloc}};
	struct open_level global = {.place = REA__PLACE_GLOBAL, .level = &ret_retry->global, .node = node};
	struct rea__policy_reading reading;
	int error;

	ret_retry->by_name.alloc = reader->arena->alloc;
	ret_retry->line = node->key ? node->key->line : node->line;
	error = read_level(&work, &global, &reading, &ret_retry->policy);
	if (error == 0 && reading.service_configs != NULL)
		error = read_services(&work, reading.service_configs, &global, knows_contracts);
	rea_map_fini(&work.layers);
	return error;
}

/* ------------------------------------------------------------------ wishes of other documents */

/* The policy of a wish with these levels above it. node: where what does not fit together is told of. */
static int join_policy(struct rea__reader *reader, const struct rea__node *node, const struct rea__wishes *wishes,
    size_t entry, const struct rea__level *const *levels, size_t levels_len, const struct rea_policy **ret_policy)
{
	static const enum rea__place places[] = {REA__PLACE_GLOBAL, REA__PLACE_SERVICE, REA__PLACE_METHOD};
	struct rea__stack stack = {.global_index = SIZE_MAX};
	struct rea_policy *policy = rea_arena_alloc(reader->arena, sizeof(*policy));
	struct rea_error_info wrong;

	if (policy == NULL)
		return rea__nomem(reader);
	rea__stack_push_wish(&stack, wishes, entry);
	for (size_t i = 0; i < levels_len; i++)
		rea__stack_push(&stack, places[i], levels[i]);
	rea__stack_merge(&stack, policy);
	memset(&wrong, 0, sizeof(wrong));
	/* A profile's full jitter above a wish is checked where the levels were read. */
	if (rea_policy_validate(policy, &wrong) != 0)
		return rea__refuse(reader, node, "with %s: %s", wishes->file, wrong.message);
	*ret_policy = policy;
	return 0;
}

static int join_service(struct rea__reader *reader, const struct rea__node *node, struct rea__retry *retry,
    struct rea__grpc_service *service)
{
	static const struct rea__level nothing = {.layer = NULL};
	struct rea__service_config *own = service->own ? &retry->services[service->own - retry->services] : NULL;
	const struct rea__level *levels[3] = {&retry->global, own ? &own->level : &nothing, NULL};
	int error = 0;

	service->policies = rea_arena_array(reader->arena, service->config->entries_len, sizeof(*service->policies));
	if (service->policies == NULL)
		return rea__nomem(reader);
	for (size_t i = 0; i < service->config->entries_len && error == 0; i++)
		error = join_policy(reader, node, service->config, i, levels, 2, &service->policies[i]);
	for (size_t i = 0; own != NULL && i < own->methods_len && error == 0; i++) {
		levels[2] = &own->methods[i].level;
		error = join_policy(reader, node, service->config,
		    rea__grpc_config_find_key(service->config, rea_slice_of(own->methods[i].key)), levels, 3,
		    &own->methods[i].policy);
	}
	return error;
}

static bool says_budget(const struct rea__level *level)
{
	return level->layer != NULL && (level->layer->key.keys.set & BIT(REA_POLICY_BUDGET));
}

int rea__grpc_join(struct rea__reader *reader, const struct rea__node *node, struct rea_config *config)
{
	config->grpc_services = rea_arena_array(reader->arena, config->services_len, sizeof(*config->grpc_services));
	if (config->grpc_services == NULL)
		return rea__nomem(reader);
	for (size_t i = 0; i < config->services_len; i++) {
		struct rea_config_service *service = &config->services[i];
		struct rea__grpc_service *grpc = &config->grpc_services[i];
		const struct rea__service_config *own = rea__retry_service(&config->grpc, rea_slice_of(service->name));
		int error;

		grpc->own = own;
		service->grpc_policy = own ? own->policy : config->grpc.policy;
		if (config->grpc_configs != NULL && config->grpc_configs[i].entries_len > 0) {
			grpc->config = &config->grpc_configs[i];
			error = join_service(reader, node, &config->grpc, grpc);
			if (error != 0)
				return error;
			service->grpc_policy = grpc->policies[0];
		}
		if (says_budget(&config->grpc.global) || (own != NULL && says_budget(&own->level)) ||
		    (grpc->config != NULL && (grpc->config->entries[0].keys.set & BIT(REA_POLICY_BUDGET))))
			grpc->budget = &service->grpc_policy->budget;
	}
	return 0;
}

/* ------------------------------------------------------------------ Kitex */

static bool has_method(const struct rea__service_config *service, const char *key)
{
	return rea__service_method(service, rea_slice_of(key)) != NULL;
}

static int add_method(struct rea__reader *reader, struct rea__service_config *service, const char *key)
{
	service->methods[service->methods_len] = (struct rea__method_config){.key = key};
	return rea_map_insert(&service->by_key, rea_slice_of(key), (uint32_t)service->methods_len++) != 0
		   ? rea__nomem(reader)
		   : 0;
}

/* Room for the methods that the wishes name: those of the contract by its keys, the rest by their own names. */
static int add_methods(struct rea__reader *reader, const struct rea__wishes *wishes,
    const struct rea_contract *contract, struct rea__service_config *service)
{
	size_t declared = contract ? rea_contract_count(contract) : 0;
	struct rea__method_config *methods =
	    rea_arena_array(reader->arena, service->methods_len + declared + wishes->entries_len, sizeof(*methods));
	int error = 0;

	if (methods == NULL)
		return rea__nomem(reader);
	if (service->methods_len > 0)
		memcpy(methods, service->methods, service->methods_len * sizeof(*methods));
	service->methods = methods;
	for (size_t i = 0; i < declared && error == 0; i++) {
		const char *key = rea_contract_operation(contract, i)->key;

		if (rea__kitex_find_key(wishes, rea_slice_of(key)) > 0 && !has_method(service, key))
			error = add_method(reader, service, key);
	}
	for (size_t i = 1; i < wishes->entries_len && error == 0; i++)
		if (!has_method(service, wishes->entries[i].name))
			error = add_method(reader, service, wishes->entries[i].name);
	return error;
}

/* The settings of a service, with none in them when the document says nothing. */
static int open_service(
    struct rea__reader *reader, struct rea__retry *retry, const char *name, struct rea__service_config **ret_service)
{
	struct rea__service_config *services;
	uint32_t index;

	if (rea_map_find(&retry->by_name, rea_slice_of(name), &index)) {
		*ret_service = &retry->services[index];
		return 0;
	}
	services = rea_arena_array(reader->arena, retry->services_len + 1, sizeof(*services));
	if (services == NULL)
		return rea__nomem(reader);
	if (retry->services_len > 0)
		memcpy(services, retry->services, retry->services_len * sizeof(*services));
	retry->services = services;
	retry->by_name.alloc = reader->arena->alloc;
	*ret_service = &services[retry->services_len];
	**ret_service = (struct rea__service_config){.name = name, .by_key = {.alloc = reader->arena->alloc}};
	return rea_map_insert(&retry->by_name, rea_slice_of(name), (uint32_t)retry->services_len++) != 0
		   ? rea__nomem(reader)
		   : 0;
}

static int join_kitex(struct rea__reader *reader, struct rea__retry *retry, const struct rea__wishes *wishes,
    const char *name, const struct rea_contract *contract)
{
	static const struct rea__node nowhere = {.line = 0};
	const struct rea__level *levels[3] = {&retry->global, NULL, NULL};
	struct rea__service_config *service;
	int error = open_service(reader, retry, name, &service);

	if (error == 0)
		error = add_methods(reader, wishes, contract, service);
	if (error != 0)
		return error;
	levels[1] = &service->level;
	error = join_policy(reader, &nowhere, wishes, 0, levels, 2, &service->policy);
	for (size_t i = 0; i < service->methods_len && error == 0; i++) {
		struct rea__method_config *method = &service->methods[i];

		levels[2] = &method->level;
		error = join_policy(reader, &nowhere, wishes, rea__kitex_find_key(wishes, rea_slice_of(method->key)),
		    levels, 3, &method->policy);
	}
	return error;
}

int rea__kitex_join(struct rea__reader *reader, struct rea_config *config)
{
	int error = 0;

	for (size_t i = 0; config->kitex != NULL && i < config->services_len && error == 0; i++) {
		const struct rea_config_service *service = &config->services[i];
		const struct rea__wishes *wishes = &config->kitex[i];

		if (wishes->entries_len == 0)
			continue;
		error = join_kitex(reader, &config->feign, wishes, service->name, service->contract);
		/* A gRPC service config stands in our own document, so it is the nearer one. */
		if (error == 0 && (config->grpc_configs == NULL || config->grpc_configs[i].entries_len == 0))
			error = join_kitex(reader, &config->grpc, wishes, service->name, service->contract);
	}
	return error;
}

/* ------------------------------------------------------------------ copies, ends */

static int copy_service(struct rea__reader *reader, const struct rea__service_config *from, struct rea__service_config *service)
{
	struct rea__method_config *methods = rea_arena_array(reader->arena, from->methods_len, sizeof(*methods));

	*service = *from;
	service->by_key = (struct rea_map){.alloc = reader->arena->alloc};
	if (methods == NULL || rea_map_reserve(&service->by_key, from->methods_len) != 0)
		return rea__nomem(reader);
	if (from->methods_len > 0)
		memcpy(methods, from->methods, from->methods_len * sizeof(*methods));
	service->methods = methods;
	for (size_t i = 0; i < from->methods_len; i++)
		if (rea_map_insert(&service->by_key, rea_slice_of(methods[i].key), (uint32_t)i) != 0)
			return rea__nomem(reader);
	return 0;
}

int rea__retry_copy(struct rea__reader *reader, const struct rea__retry *from, struct rea__retry *ret_retry)
{
	struct rea__service_config *services = rea_arena_array(reader->arena, from->services_len, sizeof(*services));
	int error = 0;

	*ret_retry = *from;
	ret_retry->services = services;
	ret_retry->services_len = 0;
	ret_retry->by_name = (struct rea_map){.alloc = reader->arena->alloc};
	if (services == NULL || rea_map_reserve(&ret_retry->by_name, from->services_len) != 0)
		return rea__nomem(reader);
	for (size_t i = 0; i < from->services_len && error == 0; i++) {
		ret_retry->services_len++;
		error = copy_service(reader, &from->services[i], &services[i]);
		if (error == 0 && rea_map_insert(&ret_retry->by_name, rea_slice_of(services[i].name), (uint32_t)i) != 0)
			error = rea__nomem(reader);
	}
	return error;
}

void rea__retry_fini(struct rea__retry *retry)
{
	for (size_t i = 0; i < retry->services_len; i++)
		rea_map_fini(&retry->services[i].by_key);
	rea_map_fini(&retry->by_name);
}

const struct rea__service_config *rea__retry_service(const struct rea__retry *retry, struct rea_slice name)
{
	uint32_t index;

	return rea_map_find(&retry->by_name, name, &index) ? &retry->services[index] : NULL;
}

const struct rea__method_config *rea__service_method(const struct rea__service_config *service, struct rea_slice key)
{
	uint32_t index;

	return rea_map_find(&service->by_key, key, &index) ? &service->methods[index] : NULL;
}
