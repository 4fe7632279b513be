/* All members, as the configuration has them: which ones stay, what they share, when a change of theirs is told. */
#include "discovery/member.h"

#include "base/container.h"

#include <assert.h>
#include <stdlib.h>

/* At the start nobody waits longer than this. */
#define SETTLE_NS (5 * REA_NS_PER_S)
#define CONNECTIONS_KEPT 16L

void members_change(struct members *members)
{
	loop_timer_start(members->loop, &members->change_timer, loop_now(members->loop));
}

void members_settle(struct member *member)
{
	struct members *members = member->members;

	member->settled = true;
	if (members->settled)
		return;
	for (const struct member *other = members->items; other != NULL; other = other->next)
		if (!other->settled)
			return;
	members_change(members);
}

static void on_change_timer(struct wheel_timer *timer, uint64_t now_ns)
{
	struct members *members = REA_CONTAINER_OF(timer, struct members, change_timer);
	bool settled = true;

	(void)now_ns;
	members->events.changed(members->events.user_data);
	for (const struct member *member = members->items; member != NULL; member = member->next)
		settled = settled && member->settled;
	if (!settled || members->settled)
		return;
	members->settled = true;
	loop_timer_stop(members->loop, &members->settle_timer);
	members->events.settled(members->events.user_data);
}

/* Who has not answered by now is not there. */
static void on_settle_timer(struct wheel_timer *timer, uint64_t now_ns)
{
	struct members *members = REA_CONTAINER_OF(timer, struct members, settle_timer);

	(void)now_ns;
	for (struct member *member = members->items; member != NULL; member = member->next) {
		if (member->settled)
			continue;
		member_trouble(member, "no answer in time");
		members_settle(member);
	}
}

/* ---- which ones there are ---- */

static struct member **find_member(struct member **items, const char *name)
{
	while (*items != NULL && strcmp((*items)->service->name, name) != 0)
		items = &(*items)->next;
	return items;
}

static void free_members(struct member *items)
{
	for (struct member *member = items, *next; member != NULL; member = next) {
		next = member->next;
		member_free(member);
	}
}

static void shared_fini(struct shared *shared)
{
	nacos_account_free(shared->account);
	dns_free(shared->dns);
	free(shared->signature);
	rea_config_unref(shared->config);
	*shared = (struct shared){.config = NULL};
}

static int shared_init(struct members *members, struct rea_config *config, struct shared *ret_shared)
{
	const struct rea_config_settings *settings = rea_config_settings(config);

	*ret_shared = (struct shared){.config = rea_config_ref(config), .signature = member_shared_signature(settings)};
	ret_shared->dns = dns_new(members->loop, settings->sources.dns_servers, settings->sources.dns_servers_len);
	if (settings->sources.nacos != NULL)
		ret_shared->account = nacos_account_new(members->loop, &members->transfers, settings->sources.nacos);
	if (ret_shared->signature != NULL && ret_shared->dns != NULL &&
	    (settings->sources.nacos == NULL || ret_shared->account != NULL))
		return 0;
	shared_fini(ret_shared);
	return REA_ERR_NOMEM;
}

struct members *members_new(struct loop *loop, const char *only, const struct members_events *events)
{
	struct members *members = calloc(1, sizeof(*members));

	if (members == NULL)
		return NULL;
	members->loop = loop;
	members->only = only;
	members->events = *events;
	members->transfers = (struct transfers){.loop = loop, .connections_kept = CONNECTIONS_KEPT};
	members->change_timer.fire = on_change_timer;
	members->settle_timer.fire = on_settle_timer;
	return members;
}

/* Until the new source has spoken, what the service had before holds. */
static void inherit(struct member *member, struct member *old)
{
	/* What is known already holds. */
	if (old == NULL || member->settled)
		return;
	member->roster.items = old->roster.items;
	member->roster.len = old->roster.len;
	old->roster.items = NULL;
	old->roster.len = 0;
}

static bool is_followed(const struct members *members, const struct rea_config_service *service)
{
	return members->only == NULL || strcmp(members->only, service->name) == 0;
}

/* The members of config: old ones that are found where they were are named in *ret_kept by their place in the order, NULL = new ones stand in
 * ret_items. */
static int make_members(struct members *members, struct rea_config *config, const struct shared *shared,
    struct member **ret_items, struct member ***ret_kept)
{
	const struct rea_config_settings *settings = rea_config_settings(config);
	size_t count = rea_config_services_count(config);
	struct member **end = ret_items, **kept = calloc(count + 1, sizeof(struct member *));
	bool same_shared = shared == &members->shared;

	if (kept == NULL)
		return REA_ERR_NOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct rea_config_service *service = rea_config_service(config, i);
		struct member *old = *find_member(&members->items, service->name);
		char *signature;

		if (!is_followed(members, service))
			continue;
		signature = member_signature(service, settings);
		if (signature != NULL && old != NULL && same_shared && strcmp(old->signature, signature) == 0) {
			kept[i] = old;
			free(signature);
			continue;
		}
		*end = signature != NULL ? member_new(members, config, service, shared, signature) : NULL;
		if (*end == NULL) {
			free_members(*ret_items);
			free(kept);
			return REA_ERR_NOMEM;
		}
		end = &(*end)->next;
	}
	*ret_kept = kept;
	return 0;
}

static void start_timers(struct members *members)
{
	for (struct member *member = members->items; member != NULL; member = member->next) {
		if (member->watch != NULL && !member->settled)
			loop_timer_start(members->loop, &member->timer, loop_now(members->loop));
		else
			member_set_timer(member);
	}
	if (!members->settled)
		loop_timer_start(members->loop, &members->settle_timer, rea_time_add(loop_now(members->loop), SETTLE_NS));
	members_change(members);
}

int members_configure(struct members *members, struct rea_config *config)
{
	size_t count = rea_config_services_count(config);
	struct member *made = NULL, *items = NULL, **end = &items, **kept = NULL;
	struct shared shared, old_shared = {.config = NULL};
	bool other;

	if (shared_init(members, config, &shared) != 0)
		return REA_ERR_NOMEM;
	other = members->shared.signature == NULL || strcmp(members->shared.signature, shared.signature) != 0;
	if (!other)
		shared_fini(&shared);
	if (make_members(members, config, other ? &shared : &members->shared, &made, &kept) != 0) {
		if (other)
			shared_fini(&shared);
		return REA_ERR_NOMEM;
	}
	if (other) {
		old_shared = members->shared;
		members->shared = shared;
	}
	for (size_t i = 0; i < count; i++) {
		struct member *member = kept[i];

		if (!is_followed(members, rea_config_service(config, i)))
			continue;
		if (member != NULL) {
			*find_member(&members->items, member->service->name) = member->next;
		} else {
			assert(made != NULL);
			member = made;
			made = made->next;
			inherit(member, *find_member(&members->items, member->service->name));
		}
		member->next = NULL;
		*end = member;
		end = &member->next;
	}
	free(kept);
	free_members(members->items);
	shared_fini(&old_shared);
	members->items = items;
	start_timers(members);
	return 0;
}

void members_look(struct members *members)
{
	for (struct member *member = members->items; member != NULL; member = member->next) {
		if (member->watch != NULL)
			watch_look(member->watch, true);
		if (member->srv_due_ns != REA_NEVER)
			member->srv_due_ns = 0;
		for (size_t i = 0; i < member->lookups_len; i++)
			if (member->lookups[i]->query.ask == NULL)
				member->lookups[i]->name.due_ns = 0;
		member_set_timer(member);
	}
}

void members_free(struct members *members)
{
	if (members == NULL)
		return;
	loop_timer_stop(members->loop, &members->change_timer);
	loop_timer_stop(members->loop, &members->settle_timer);
	free_members(members->items);
	shared_fini(&members->shared);
	transfers_fini(&members->transfers);
	free(members);
}
