#include "discovery/roster.h"

#include "base/map.h"

#include <rea/error.h>
#include <rea/time.h>

#include <arpa/inet.h>
#include <assert.h>
#include <math.h>
#include <netinet/in.h>
#include <stdlib.h>

#define WEIGHT_MAX 10000.0
#define REFRESH_NS_MIN REA_NS_PER_S
#define REFRESH_NS_MAX (300 * REA_NS_PER_S)
#define PAUSE_NS REA_NS_PER_S
#define PAUSE_NS_MAX (30 * REA_NS_PER_S)
#define NAME_BYTES_MAX 253

/* ---- what a source lists ---- */

static void entry_fini(struct roster_entry *entry)
{
	free(entry->name);
	free(entry->host);
	free(entry->permits);
}

static bool copy(const char *text, char **ret_copy)
{
	*ret_copy = text != NULL ? strdup(text) : NULL;
	return text == NULL || *ret_copy != NULL;
}

int roster_list_add(struct roster_list *list, struct rea_slice name, const struct roster_entry *entry)
{
	struct roster_entry *item;

	if (list->len == ROSTER_INSTANCES_MAX)
		return REA_ERR_LIMIT;
	if (list->len == list->capacity) {
		size_t capacity = list->capacity > 0 ? 2 * list->capacity : 8;
		struct roster_entry *grown = realloc(list->items, capacity * sizeof(*grown));

		if (grown == NULL)
			return REA_ERR_NOMEM;
		list->items = grown;
		list->capacity = capacity;
	}
	item = &list->items[list->len];
	*item = *entry;
	item->host = item->permits = NULL;
	item->name = strndup(name.data, name.length);
	if (item->name == NULL || !copy(entry->host, &item->host) || !copy(entry->permits, &item->permits)) {
		entry_fini(item);
		return REA_ERR_NOMEM;
	}
	list->len++;
	return 0;
}

static int by_place(const void *one, const void *other)
{
	const struct roster_entry *a = one, *b = other;
	int order;

	if (a->tier != b->tier)
		return a->tier < b->tier ? -1 : 1;
	order = strcmp(a->name, b->name);
	return order != 0 ? order : (a->port > b->port) - (a->port < b->port);
}

void roster_list_sort(struct roster_list *list)
{
	if (list->len > 1)
		qsort(list->items, list->len, sizeof(list->items[0]), by_place);
}

void roster_list_fini(struct roster_list *list)
{
	for (size_t i = 0; i < list->len; i++)
		entry_fini(&list->items[i]);
	free(list->items);
	*list = (struct roster_list){.items = NULL};
}

uint32_t roster_weight(double weight)
{
	double scaled;

	if (!(weight > 0))
		return 0;
	scaled = fmin(weight, WEIGHT_MAX) * ROSTER_WEIGHT_UNIT;
	return scaled < 1 ? 1 : (uint32_t)(scaled + 0.5);
}

bool roster_split(struct rea_slice address, struct rea_slice *ret_name, uint16_t *ret_port)
{
	size_t colon = address.length;
	uint64_t port;

	while (colon > 0 && address.data[colon - 1] != ':')
		colon--;
	if (colon < 2 || colon - 1 > NAME_BYTES_MAX ||
	    !rea_slice_to_u64(rea_slice_make(address.data + colon, address.length - colon), &port) || port == 0 ||
	    port > UINT16_MAX)
		return false;
	*ret_name = rea_slice_make(address.data, colon - 1);
	if (ret_name->length > 2 && ret_name->data[0] == '[' && ret_name->data[ret_name->length - 1] == ']')
		*ret_name = rea_slice_make(ret_name->data + 1, ret_name->length - 2);
	else if (memchr(ret_name->data, ':', ret_name->length) != NULL)
		return false;
	*ret_port = (uint16_t)port;
	return memchr(ret_name->data, '\0', ret_name->length) == NULL;
}

/* ---- names ---- */

static uint64_t spread(uint64_t time_ns, struct rea_random *random)
{
	return time_ns - time_ns / 5 + rea_random_below(random, time_ns / 5 * 2 + 1);
}

uint64_t roster_refresh_ns(uint32_t ttl_s, struct rea_random *random)
{
	uint64_t ttl_ns = rea_time_max(REFRESH_NS_MIN, rea_time_min(rea_time_mul(ttl_s, REA_NS_PER_S), REFRESH_NS_MAX));

	return rea_time_max(REFRESH_NS_MIN, ttl_ns - rea_random_below(random, ttl_ns / 5 + 1));
}

uint64_t roster_pause_ns(uint32_t failures, struct rea_random *random)
{
	uint64_t pause_ns = PAUSE_NS;

	for (uint32_t i = 1; i < failures && pause_ns < PAUSE_NS_MAX; i++)
		pause_ns *= 2;
	return spread(rea_time_min(pause_ns, PAUSE_NS_MAX), random);
}

static int by_address(const struct rea_instance_id *one, const struct rea_instance_id *other)
{
	return memcmp(one->address, other->address, sizeof(one->address));
}

size_t roster_addresses_add(struct rea_instance_id *addresses, size_t len, const struct rea_instance_id *address)
{
	size_t at = len;

	while (at > 0 && by_address(address, &addresses[at - 1]) < 0)
		at--;
	if (at == ROSTER_ADDRESSES_MAX || (at > 0 && by_address(address, &addresses[at - 1]) == 0))
		return len;
	if (len == ROSTER_ADDRESSES_MAX)
		len--;
	memmove(&addresses[at + 1], &addresses[at], (len - at) * sizeof(addresses[0]));
	addresses[at] = *address;
	return len + 1;
}

bool roster_name_answered(struct roster_name *name, const struct rea_instance_id *addresses, size_t len, uint32_t ttl_s,
    struct rea_random *random, uint64_t now_ns)
{
	struct rea_instance_id sorted[ROSTER_ADDRESSES_MAX];
	size_t sorted_len = 0;
	bool changed;

	for (size_t i = 0; i < len; i++)
		sorted_len = roster_addresses_add(sorted, sorted_len, &addresses[i]);
	changed = !name->known || sorted_len != name->len;
	for (size_t i = 0; i < sorted_len && !changed; i++)
		changed = by_address(&sorted[i], &name->addresses[i]) != 0;
	name->known = true;
	name->failures = 0;
	name->answered_ns = now_ns;
	name->due_ns = rea_time_add(now_ns, roster_refresh_ns(ttl_s, random));
	name->len = sorted_len;
	memcpy(name->addresses, sorted, sorted_len * sizeof(sorted[0]));
	return changed;
}

void roster_name_failed(struct roster_name *name, struct rea_random *random, uint64_t now_ns)
{
	name->known = true;
	name->failures += name->failures < UINT32_MAX;
	name->due_ns = rea_time_add(now_ns, roster_pause_ns(name->failures, random));
}

/* ---- what calls may go to ---- */

/* IPv4 as ::ffff:a.b.c.d. */
bool roster_is_address(const char *text, struct rea_instance_id *ret_id)
{
	struct in_addr v4;
	struct in6_addr v6;

	memset(ret_id, 0, sizeof(*ret_id));
	if (inet_pton(AF_INET, text, &v4) == 1) {
		ret_id->address[10] = ret_id->address[11] = 0xff;
		memcpy(ret_id->address + 12, &v4, 4);
		return true;
	}
	if (inet_pton(AF_INET6, text, &v6) != 1)
		return false;
	memcpy(ret_id->address, &v6, sizeof(ret_id->address));
	return true;
}

void roster_instances_free(struct roster_instance *items, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		free(items[i].name);
		free(items[i].host);
		free(items[i].permits);
	}
	free(items);
}

struct resolving {
	struct roster_instance *items;
	size_t len, capacity;
	struct rea_map seen;
};

static int resolve_one(
    struct resolving *to, const struct roster_entry *entry, const char *name, const struct rea_instance_id *address)
{
	struct rea_instance_id id = *address;
	struct roster_instance *item;
	uint32_t found;

	id.port = entry->port;
	if (rea_map_find(&to->seen, rea_slice_make((const char *)&id, sizeof(id)), &found))
		return 0;
	if (to->len == ROSTER_INSTANCES_MAX)
		return 0;
	assert(to->len < to->capacity);
	item = &to->items[to->len++];
	*item = (struct roster_instance){.id = id, .weight = entry->weight, .tier = entry->tier};
	if (!copy(name, &item->name) || !copy(entry->host, &item->host) || !copy(entry->permits, &item->permits))
		return REA_ERR_NOMEM;
	return rea_map_insert(&to->seen, rea_slice_make((const char *)&item->id, sizeof(item->id)), 1);
}

static size_t count_addresses(const struct roster_list *list,
    const struct roster_name *(*find)(const char *text, void *user_data), void *user_data)
{
	struct rea_instance_id id;
	size_t count = 0;

	for (size_t i = 0; i < list->len; i++) {
		const struct roster_name *name;

		if (roster_is_address(list->items[i].name, &id)) {
			count++;
			continue;
		}
		name = find(list->items[i].name, user_data);
		count += name != NULL ? name->len : 0;
	}
	return count;
}

int roster_resolve(const struct roster_list *list, const struct roster_name *(*find)(const char *text, void *user_data),
    void *user_data, struct roster_instance **ret_items, size_t *ret_len)
{
	struct resolving to = {.capacity = count_addresses(list, find, user_data)};
	int error = 0;

	*ret_items = NULL;
	*ret_len = 0;
	if (to.capacity == 0)
		return 0;
	/* All at once: the map borrows its keys, which must stay where they are. */
	to.items = malloc(to.capacity * sizeof(to.items[0]));
	if (to.items == NULL || rea_map_reserve(&to.seen, to.capacity) != 0)
		error = REA_ERR_NOMEM;
	for (size_t i = 0; i < list->len && error == 0; i++) {
		const struct roster_entry *entry = &list->items[i];
		struct rea_instance_id id;
		const struct roster_name *name = NULL;

		if (roster_is_address(entry->name, &id))
			error = resolve_one(&to, entry, NULL, &id);
		else
			name = find(entry->name, user_data);
		for (size_t k = 0; name != NULL && k < name->len && error == 0; k++)
			error = resolve_one(&to, entry, entry->name, &name->addresses[k]);
	}
	rea_map_fini(&to.seen);
	if (error != 0) {
		roster_instances_free(to.items, to.len);
		return error;
	}
	*ret_items = to.items;
	*ret_len = to.len;
	return 0;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool is_altered(const struct roster_instance *a, const struct roster_instance *b)
{
	return a->weight != b->weight || a->tier != b->tier || !same_text(a->name, b->name) ||
	       !same_text(a->host, b->host) || !same_text(a->permits, b->permits);
}

static void note(struct roster_difference *difference, const struct rea_instance_id *id)
{
	if (difference->added + difference->removed + difference->altered == 0)
		difference->first = *id;
}

/* Without memory to compare the lists count as different. */
static void compare(const struct roster *roster, const struct roster_instance *items, size_t len,
    struct roster_difference *ret_difference)
{
	struct rea_map old = {.alloc = NULL};
	size_t kept = 0;
	bool *there = calloc(roster->len + 1, sizeof(*there));

	*ret_difference = (struct roster_difference){.added = 0};
	for (size_t i = 0; there != NULL && i < roster->len; i++)
		if (rea_map_insert(&old, rea_slice_make((const char *)&roster->items[i].id, sizeof(roster->items[i].id)),
			(uint32_t)i) != 0)
			break;
	for (size_t i = 0; there != NULL && i < len; i++) {
		uint32_t at;

		if (!rea_map_find(&old, rea_slice_make((const char *)&items[i].id, sizeof(items[i].id)), &at)) {
			note(ret_difference, &items[i].id);
			ret_difference->added++;
			continue;
		}
		there[at] = true;
		kept++;
		if (is_altered(&roster->items[at], &items[i])) {
			note(ret_difference, &items[i].id);
			ret_difference->altered++;
		}
	}
	for (size_t i = 0; there != NULL && i < roster->len && kept < roster->len; i++) {
		if (there[i])
			continue;
		note(ret_difference, &roster->items[i].id);
		ret_difference->removed++;
	}
	rea_map_fini(&old);
	free(there);
}

static bool same_order(const struct roster *roster, const struct roster_instance *items, size_t len)
{
	for (size_t i = 0; i < len && len == roster->len; i++)
		if (!rea_instance_id_equal(&items[i].id, &roster->items[i].id) || is_altered(&roster->items[i], &items[i]))
			return false;
	return len == roster->len;
}

static void replace(struct roster *roster, struct roster_instance *items, size_t len, struct roster_difference *ret_difference)
{
	compare(roster, items, len, ret_difference);
	roster_instances_free(roster->items, roster->len);
	roster->items = items;
	roster->len = len;
	roster->changes++;
}

enum roster_news roster_offer(struct roster *roster, struct roster_instance *items, size_t len, uint64_t now_ns,
    struct roster_difference *ret_difference)
{
	if (len == 0 && roster->len > 0) {
		roster_instances_free(items, len);
		if (roster->empty_since_ns != REA_NEVER)
			return roster_run(roster, now_ns, ret_difference);
		roster->empty_since_ns = now_ns;
		return roster->grace_ns > 0 ? ROSTER_HELD : roster_run(roster, now_ns, ret_difference);
	}
	roster->empty_since_ns = REA_NEVER;
	if (same_order(roster, items, len)) {
		roster_instances_free(items, len);
		return ROSTER_SAME;
	}
	replace(roster, items, len, ret_difference);
	return ROSTER_CHANGED;
}

uint64_t roster_due_ns(const struct roster *roster)
{
	return roster->empty_since_ns != REA_NEVER ? rea_time_add(roster->empty_since_ns, roster->grace_ns) : REA_NEVER;
}

enum roster_news roster_run(struct roster *roster, uint64_t now_ns, struct roster_difference *ret_difference)
{
	if (now_ns < roster_due_ns(roster))
		return ROSTER_SAME;
	roster->empty_since_ns = REA_NEVER;
	replace(roster, NULL, 0, ret_difference);
	return ROSTER_EMPTIED;
}

void roster_fini(struct roster *roster)
{
	roster_instances_free(roster->items, roster->len);
	roster->items = NULL;
	roster->len = 0;
}
