/* The names in a member's list: each is looked up once, and again when its records end. They are an array in the order of their texts, as there may be thousands. */
#include "discovery/member.h"

#include <stdio.h>
#include <stdlib.h>

static void on_looked_up(struct dns_query *query)
{
	struct lookup *lookup = query->user_data;
	struct member *member = lookup->member;
	struct loop *loop = member->members->loop;
	bool had = lookup->name.len > 0, changed = !lookup->name.known;
	char why[400];

	if (query->result == DNS_FAILED) {
		roster_name_failed(&lookup->name, &loop->random, loop_now(loop));
		snprintf(why, sizeof(why), "%s: %s", lookup->name.text, query->why);
		member_trouble(member, why);
	} else {
		changed = roster_name_answered(&lookup->name, query->addresses, query->addresses_len,
		    query->result == DNS_FOUND ? query->ttl_s : 0, &loop->random, loop_now(loop));
		if (query->result == DNS_NONE && (had || !lookup->troubled))
			member_notice(member, "%s has no address: %s", lookup->name.text, query->why);
		lookup->troubled = query->result == DNS_NONE;
		/* Where a list comes from elsewhere, names say nothing of that. */
		if (member->service->discovery.kind == REA_DISCOVERY_LIST ||
		    (member->service->discovery.kind == REA_DISCOVERY_DNS && member->service->discovery.port != 0))
			member_well(member);
	}
	/* Lists may have thousands of names, each of which is asked for again and again. */
	if (changed || !member->resolved)
		member_resolve(member);
	else
		member_set_timer(member);
}

static void look_up(struct lookup *lookup)
{
	struct members *members = lookup->member->members;

	lookup->name.due_ns = REA_NEVER;
	if (dns_ask(members->shared.dns, &lookup->query, lookup->name.text, false) != 0)
		roster_name_failed(&lookup->name, &members->loop->random, loop_now(members->loop));
}

static void lookup_free(struct lookup *lookup)
{
	dns_forget(&lookup->query);
	free(lookup->name.text);
	free(lookup);
}

static int by_text(const void *one, const void *other)
{
	const struct lookup *const *a = one, *const *b = other;

	return strcmp((*a)->name.text, (*b)->name.text);
}

static int text_to_lookup(const void *text, const void *other)
{
	const struct lookup *const *lookup = other;

	return strcmp(text, (*lookup)->name.text);
}

static struct lookup *find_lookup(const struct member *member, const char *name)
{
	struct lookup **found = member->lookups_len > 0 ? bsearch(name, member->lookups, member->lookups_len,
							      sizeof(struct lookup *), text_to_lookup)
							: NULL;

	return found != NULL ? *found : NULL;
}

const struct roster_name *member_find_name(const char *text, void *user_data)
{
	const struct lookup *lookup = find_lookup(user_data, text);

	return lookup != NULL ? &lookup->name : NULL;
}

static struct lookup *lookup_new(struct member *member, const char *name)
{
	struct lookup *lookup = calloc(1, sizeof(*lookup));

	if (lookup == NULL)
		return NULL;
	lookup->name.text = strdup(name);
	lookup->query.done = on_looked_up;
	lookup->query.user_data = lookup;
	lookup->member = member;
	if (lookup->name.text == NULL) {
		free(lookup);
		return NULL;
	}
	return lookup;
}

static int by_pointed(const void *one, const void *other)
{
	return strcmp(*(const char *const *)one, *(const char *const *)other);
}

/* The names of a list that are no addresses, in their order and each once. ret_names: freed by the caller. */
static int names_of(const struct roster_list *list, const char ***ret_names, size_t *ret_len)
{
	const char **names = malloc((list->len + 1) * sizeof(*names));
	struct rea_instance_id id;
	size_t found = 0, len = 0;

	if (names == NULL)
		return REA_ERR_NOMEM;
	for (size_t i = 0; i < list->len; i++)
		if (!roster_is_address(list->items[i].name, &id))
			names[found++] = list->items[i].name;
	qsort(names, found, sizeof(*names), by_pointed);
	for (size_t i = 0; i < found; i++)
		if (len == 0 || strcmp(names[i], names[len - 1]) != 0)
			names[len++] = names[i];
	*ret_names = names;
	*ret_len = len;
	return 0;
}

/* Old ones where there are such, new ones else. False: not all, for lack of memory. */
static bool make_lookups(struct member *member, const char *const *names, size_t len, struct lookup **lookups)
{
	for (size_t i = 0; i < len; i++) {
		lookups[i] = find_lookup(member, names[i]);
		if (lookups[i] == NULL)
			lookups[i] = lookup_new(member, names[i]);
		if (lookups[i] == NULL)
			return false;
	}
	return true;
}

/* Of an array in its order: those that are not in the other one. */
static void free_others(struct lookup **lookups, size_t len, struct lookup *const *kept, size_t kept_len)
{
	size_t at = 0;

	for (size_t i = 0; i < len && lookups[i] != NULL; i++) {
		while (at < kept_len && by_text(&kept[at], &lookups[i]) < 0)
			at++;
		if (at == kept_len || kept[at] != lookups[i])
			lookup_free(lookups[i]);
	}
}

int member_want_names(struct member *member)
{
	const char **names;
	struct lookup **lookups;
	size_t len;

	if (names_of(&member->list, &names, &len) != 0)
		return REA_ERR_NOMEM;
	lookups = calloc(len + 1, sizeof(struct lookup *));
	if (lookups == NULL || !make_lookups(member, names, len, lookups)) {
		if (lookups != NULL)
			free_others(lookups, len, member->lookups, member->lookups_len);
		free(lookups);
		free(names);
		return REA_ERR_NOMEM;
	}
	free(names);
	free_others(member->lookups, member->lookups_len, lookups, len);
	free(member->lookups);
	member->lookups = lookups;
	member->lookups_len = len;
	return 0;
}

void member_look_up(struct member *member, uint64_t now_ns)
{
	for (size_t i = 0; i < member->lookups_len; i++)
		if (member->lookups[i]->query.ask == NULL && member->lookups[i]->name.due_ns <= now_ns)
			look_up(member->lookups[i]);
}

void member_forget_names(struct member *member)
{
	for (size_t i = 0; i < member->lookups_len; i++)
		lookup_free(member->lookups[i]);
	free(member->lookups);
	member->lookups = NULL;
	member->lookups_len = 0;
}
