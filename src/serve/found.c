#include "serve/found.h"

#include "base/map.h"
#include "discovery/permits.h"

#include <stdlib.h>

/* Of one service. What instances say of themselves is mostly the same: each text is looked through once. */
struct found {
	struct proxy_instance *instances;
	uint8_t **permissions;
	size_t permissions_len;
};

static void found_fini(struct found *found)
{
	for (size_t i = 0; i < found->permissions_len; i++)
		free(found->permissions[i]);
	free(found->permissions);
	free(found->instances);
}

static uint8_t *permissions_of(const char *permits, const struct rea_contract *contract)
{
	size_t count = contract != NULL ? rea_contract_count(contract) : 0;
	uint8_t *permissions = malloc(count + 1);

	if (permissions == NULL)
		return NULL;
	for (size_t i = 0; i < count; i++)
		permissions[i] = (uint8_t)permits_of(permits, rea_slice_of(rea_contract_operation(contract, i)->key));
	permissions[count] = (uint8_t)permits_of(permits, rea_slice_make(NULL, 0));
	return permissions;
}

/* NULL = out of memory. */
static const uint8_t *find_permissions(
    struct found *found, struct rea_map *known, const char *permits, const struct rea_contract *contract)
{
	uint32_t at;
	uint8_t *permissions;

	if (rea_map_find(known, rea_slice_of(permits), &at))
		return found->permissions[at];
	permissions = permissions_of(permits, contract);
	if (permissions == NULL || rea_map_insert(known, rea_slice_of(permits), (uint32_t)found->permissions_len) != 0) {
		free(permissions);
		return NULL;
	}
	return found->permissions[found->permissions_len++] = permissions;
}

static bool fill(struct found *found, const struct rea_config_service *service, const struct roster_instance *items, size_t len)
{
	struct rea_map known = {.alloc = NULL};
	bool good;

	found->instances = calloc(len + 1, sizeof(*found->instances));
	found->permissions = calloc(len + 1, sizeof(*found->permissions));
	good = found->instances != NULL && found->permissions != NULL;
	for (size_t i = 0; good && i < len; i++) {
		struct proxy_instance *instance = &found->instances[i];

		*instance = (struct proxy_instance){.id = items[i].id,
		    .weight = items[i].weight,
		    .tier = items[i].tier,
		    .host = items[i].host,
		    .name = items[i].name};
		if (items[i].permits == NULL)
			continue;
		instance->permissions = find_permissions(found, &known, items[i].permits, service->contract);
		good = instance->permissions != NULL;
	}
	rea_map_fini(&known);
	return good;
}

int found_install(struct proxy *proxy, struct rea_config *config, const struct members *members)
{
	size_t count = rea_config_services_count(config);
	struct found *found = calloc(count + 1, sizeof(*found));
	const struct proxy_instance **instances = calloc(count + 1, sizeof(*instances));
	size_t *counts = calloc(count + 1, sizeof(*counts));
	bool good = found != NULL && instances != NULL && counts != NULL;
	int error = REA_ERR_NOMEM;

	for (size_t i = 0; good && i < count; i++) {
		const struct rea_config_service *service = rea_config_service(config, i);
		const struct roster_instance *items = members_of(members, service->name, &counts[i]);

		good = fill(&found[i], service, items, counts[i]);
		instances[i] = found[i].instances;
	}
	if (good)
		error = proxy_install(proxy, config, instances, counts);
	for (size_t i = 0; found != NULL && i < count; i++)
		found_fini(&found[i]);
	free(found);
	free(instances);
	free(counts);
	return error;
}
