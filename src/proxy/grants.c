/*
 * What instances permit themselves, each by its registry's metadata, of each operation. Most operations are seen alike by all instances, so operations
 * of which every instance says the same share one list of instances with grants; where no instance says anything there is no such list at all.
 *
 * A call lives under the snapshot it began with, but for this: what an instance does not permit any more counts at once. A rolling revocation
 * would else be overtaken by the calls that wait for their next attempt.
 */
#include "proxy/internal.h"

#include "base/map.h"

#include <stdlib.h>

static size_t rows_of(const struct rea_config_service *config)
{
	return 1 + (config->contract == NULL ? 0 : rea_contract_count(config->contract));
}

/* ---- snapshots ---- */

static bool says_anything(const struct snapshot_service *service)
{
	for (size_t i = 0; i < service->instances_len; i++)
		if (service->instances[i].permissions != NULL)
			return true;
	return false;
}

static void fill_row(const struct snapshot_service *service, size_t operation, uint8_t *row)
{
	for (size_t i = 0; i < service->instances_len; i++) {
		const uint8_t *permissions = service->instances[i].permissions;

		row[i] = permissions != NULL ? permissions[operation] : (uint8_t)REA_PERMISSION_NONE;
	}
}

/* Which list the row is, a new one if it is none yet. UINT32_MAX = out of memory. */
static uint32_t find_list(struct snapshot_grants *grants, struct rea_map *known, const uint8_t *row, size_t length)
{
	uint32_t list;
	uint8_t *copy, **grown;

	if (rea_map_find(known, rea_slice_make((const char *)row, length), &list))
		return list;
	grown = realloc(grants->lists, (grants->lists_len + 1) * sizeof(*grown));
	copy = malloc(length);
	if (grown != NULL)
		grants->lists = grown;
	if (grown == NULL || copy == NULL ||
	    rea_map_insert(known, rea_slice_make((const char *)memcpy(copy, row, length), length),
		(uint32_t)grants->lists_len) != 0) {
		free(copy);
		return UINT32_MAX;
	}
	grants->lists[grants->lists_len] = copy;
	return (uint32_t)grants->lists_len++;
}

bool grants_fill(struct snapshot_service *service)
{
	struct snapshot_grants *grants = &service->grants;
	struct rea_map known = {.alloc = NULL};
	size_t rows = rows_of(service->config);
	uint8_t *row;
	bool good;

	if (!says_anything(service))
		return true;
	row = malloc(service->instances_len);
	grants->list_of = malloc(rows * sizeof(*grants->list_of));
	good = row != NULL && grants->list_of != NULL;
	for (size_t i = 0; good && i < rows; i++) {
		fill_row(service, i, row);
		grants->list_of[i] = find_list(grants, &known, row, service->instances_len);
		good = grants->list_of[i] != UINT32_MAX;
	}
	rea_map_fini(&known);
	free(row);
	/* Whose they are lives no longer than this. */
	for (size_t i = 0; i < service->instances_len; i++)
		service->instances[i].permissions = NULL;
	return good;
}

void grants_drop(struct snapshot_service *service)
{
	struct snapshot_grants *grants = &service->grants;

	for (size_t i = 0; i < grants->lists_len; i++)
		free(grants->lists[i]);
	free(grants->lists);
	free(grants->list_of);
	*grants = (struct snapshot_grants){.list_of = NULL};
}

/* ---- views ---- */

static struct rea_grant grant_of(enum rea_permission permission)
{
	return (struct rea_grant){permission,
	    permission != REA_PERMISSION_NONE ? REA_PERMISSION_SOURCE_REGISTRY : REA_PERMISSION_SOURCE_NONE};
}

static bool make_list(struct view_list *list, const struct rea_instances *instances, const uint8_t *permissions)
{
	list->items = malloc((instances->count + 1) * sizeof(*list->items));
	if (list->items == NULL)
		return false;
	for (size_t i = 0; i < instances->count; i++) {
		list->items[i] = instances->items[i];
		list->items[i].grant = grant_of((enum rea_permission)permissions[i]);
		list->granted |= UINT32_C(1) << permissions[i];
	}
	list->instances = *instances;
	list->instances.items = list->items;
	return true;
}

bool view_grants_make(struct view_service *service, const struct snapshot_service *from)
{
	service->list_of = from->grants.list_of;
	service->lists = calloc(from->grants.lists_len + 1, sizeof(*service->lists));
	if (service->lists == NULL)
		return false;
	for (size_t i = 0; i < from->grants.lists_len; i++, service->lists_len++)
		if (!make_list(&service->lists[i], &service->instances, from->grants.lists[i]))
			return false;
	return true;
}

void view_grants_drop(struct view_service *service)
{
	for (size_t i = 0; i < service->lists_len; i++)
		free(service->lists[i].items);
	free(service->lists);
}

static size_t row_of(const struct view_service *service, const struct rea_operation *operation)
{
	return operation != NULL ? operation->index : rows_of(service->config) - 1;
}

static const struct rea_instances *list_at(const struct view_service *service, size_t row)
{
	return service->list_of != NULL ? &service->lists[service->list_of[row]].instances : &service->instances;
}

const struct rea_instances *view_service_instances(const struct view_service *service, const struct rea_operation *operation)
{
	return list_at(service, row_of(service, operation));
}

/* What counts is what it permits: to say nothing is not to permit. */
static int strictness(enum rea_permission permission)
{
	return permission == REA_PERMISSION_NONE ? REA_PERMISSION_UNKNOWN : (int)permission;
}

struct rea_grant view_service_grant(const struct view_service *service, const struct rea_operation *operation)
{
	struct rea_grant declared = operation != NULL ? operation->grant : grant_of(REA_PERMISSION_NONE), best = declared;
	bool found = false;
	uint32_t granted;

	if (service->list_of == NULL)
		return declared;
	granted = service->lists[service->list_of[row_of(service, operation)]].granted;
	for (int i = 0; i < REA_PERMISSION_COUNT; i++) {
		struct rea_grant grant = rea_grant_combine(declared, grant_of((enum rea_permission)i));

		if (!(granted & UINT32_C(1) << i) || (found && strictness(grant.permission) >= strictness(best.permission)))
			continue;
		best = grant;
		found = true;
	}
	return best;
}

/* ---- what is withdrawn ---- */

static const struct view_service *find_service(const struct view *view, const char *name)
{
	for (size_t i = 0; i < view->services_len; i++)
		if (strcmp(view->services[i].config->name, name) == 0)
			return &view->services[i];
	return NULL;
}

/* An operation of the older service as the newer one knows it. */
static size_t same_row(const struct view_service *older, size_t row, const struct view_service *newer)
{
	const struct rea_operation *operation = NULL;
	const char *key;

	if (row + 1 < rows_of(older->config) && newer->config->contract != NULL) {
		key = rea_contract_operation(older->config->contract, row)->key;
		operation = rea_contract_find_key(newer->config->contract, key, strlen(key));
	}
	return row_of(newer, operation);
}

static bool map_instances(const struct rea_instances *instances, struct rea_map *ret_map)
{
	for (size_t i = 0; i < instances->count; i++) {
		const struct rea_instance_id *id = &instances->items[i].id;

		if (rea_map_insert(ret_map, rea_slice_make((const char *)id, sizeof(*id)), (uint32_t)i) != 0)
			return false;
	}
	return true;
}

/* What is left of a permission for the calls that began under it; never more than it was. declared: what the contract says. */
static enum rea_permission left_of(enum rea_permission declared, enum rea_permission older, enum rea_permission newer)
{
	enum rea_permission was = declared > older ? declared : older, is = declared > newer ? declared : newer;

	if (strictness(is) <= strictness(was))
		return older;
	/* For these calls nothing that is said for the first time permits anything. */
	return newer == REA_PERMISSION_NONE || (older == REA_PERMISSION_NONE && newer < REA_PERMISSION_UNKNOWN)
		   ? REA_PERMISSION_UNKNOWN
		   : newer;
}

/* Whether an instance of the older list permits less in the newer one. With change it is made so. */
static bool compare(struct rea_instance *items, size_t count, const struct rea_instances *newer,
    const struct rea_map *places, enum rea_permission declared, bool change)
{
	bool found = false;

	for (size_t i = 0; i < count && (change || !found); i++) {
		enum rea_permission left;
		uint32_t at;

		if (!rea_map_find(places, rea_slice_make((const char *)&items[i].id, sizeof(items[i].id)), &at))
			continue;
		left = left_of(declared, items[i].grant.permission, newer->items[at].grant.permission);
		found = found || left != items[i].grant.permission;
		if (change && left != items[i].grant.permission)
			items[i].grant = grant_of(left);
	}
	return found;
}

static bool compare_service(struct view_service *older, const struct view_service *newer, bool change)
{
	struct rea_map places = {.alloc = NULL};
	bool found = false;

	/* Without memory to tell what was withdrawn, all of it counts as withdrawn from the calls under way. */
	if (!map_instances(&newer->instances, &places)) {
		rea_map_fini(&places);
		return true;
	}
	for (size_t row = 0; row < rows_of(older->config) && (change || !found); row++) {
		const struct rea_instances *list = list_at(older, row);
		enum rea_permission declared = row + 1 < rows_of(older->config)
						   ? rea_contract_operation(older->config->contract, row)->grant.permission
						   : REA_PERMISSION_NONE;

		found = compare((struct rea_instance *)(uintptr_t)list->items, list->count,
			    list_at(newer, same_row(older, row, newer)), &places, declared, change) ||
			found;
	}
	rea_map_fini(&places);
	return found;
}

static bool compare_views(struct view *older, const struct view *newer, bool change)
{
	bool found = false;

	for (size_t i = 0; i < older->services_len && (change || !found); i++) {
		const struct view_service *now = find_service(newer, older->services[i].config->name);

		/* Where nobody said anything and nobody does, nothing is lost. */
		if (now != NULL && (now->list_of != NULL || older->services[i].list_of != NULL))
			found = compare_service(&older->services[i], now, change) || found;
	}
	return found;
}

void view_grants_withdraw(struct view *now, struct view *before)
{
	/* The views before that one have lost what it had lost: mostly nothing is new. */
	if (!compare_views(before, now, false))
		return;
	for (struct view *view = before; view != NULL; view = view->next)
		compare_views(view, now, true);
}
