/* What becomes of a list, step by step; and a member's life. */
#include "discovery/member.h"

#include "base/container.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define LINE_SIZE 640

/* ---- telling ---- */

void member_notice(struct member *member, const char *format, ...)
{
	char text[LINE_SIZE], line[LINE_SIZE + 160];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	snprintf(line, sizeof(line), "%s: %s", member->service->name, text);
	member->members->events.notice(line, member->members->events.user_data);
}

static const char *plural(size_t count)
{
	return count == 1 ? "" : "s";
}

void member_trouble(struct member *member, const char *why)
{
	uint64_t age_s = rea_time_sub(loop_now(member->members->loop), member->answered_ns) / REA_NS_PER_S;

	member->failures++;
	if (!member->troubled && member->answered_ns == 0)
		member_notice(member, "%s: %.400s; no list is known yet", member->source, why);
	else if (!member->troubled)
		member_notice(member, "%s: %.400s; its last list holds, %zu instance%s, %" PRIu64 " s old",
		    member->source, why, member->roster.len, plural(member->roster.len), age_s);
	member->troubled = true;
}

void member_well(struct member *member)
{
	member->answered_ns = loop_now(member->members->loop);
	if (member->troubled)
		member_notice(member, "%s answers again", member->source);
	member->troubled = false;
}

/* ---- offer ---- */

static void tell_difference(struct member *member, const struct roster_difference *difference)
{
	char first[LOOP_ADDRESS_MAX];
	size_t all = difference->added + difference->removed + difference->altered;

	/* What stands in the configuration is told by whoever loaded it. */
	if (member->service->discovery.kind == REA_DISCOVERY_LIST && member->lookups_len == 0)
		return;
	rea_instance_id_format(&difference->first, first, sizeof(first));
	if (all == 0)
		member_notice(member, "%zu instance%s from %s, in another order", member->roster.len,
		    plural(member->roster.len), member->source);
	else
		member_notice(member, "%zu instance%s from %s: %zu added, %zu removed, %zu changed, %s%s",
		    member->roster.len, plural(member->roster.len), member->source, difference->added,
		    difference->removed, difference->altered, first, all > 1 ? " and others" : "");
}

static void act(struct member *member, enum roster_news news, const struct roster_difference *difference)
{
	switch (news) {
	case ROSTER_SAME:
		break;
	case ROSTER_CHANGED:
		tell_difference(member, difference);
		members_change(member->members);
		break;
	case ROSTER_HELD:
		member_notice(member,
		    "empty-list-held: %s lists no usable instance (of %zu); the last %zu hold for %u ms more",
		    member->source, member->list.listed, member->roster.len, member->service->discovery.empty_grace_ms);
		break;
	case ROSTER_EMPTIED:
		member_notice(member, "%s has listed no usable instance for %u ms: none is left", member->source,
		    member->service->discovery.empty_grace_ms);
		members_change(member->members);
		break;
	}
}

void member_set_timer(struct member *member)
{
	uint64_t due_ns = rea_time_min(roster_due_ns(&member->roster), member->srv_due_ns);

	for (size_t i = 0; i < member->lookups_len; i++)
		if (member->lookups[i]->query.ask == NULL)
			due_ns = rea_time_min(due_ns, member->lookups[i]->name.due_ns);
	if (due_ns == REA_NEVER)
		loop_timer_stop(member->members->loop, &member->timer);
	else
		loop_timer_start(member->members->loop, &member->timer, due_ns);
}

void member_resolve(struct member *member)
{
	struct roster_instance *items;
	struct roster_difference difference;
	size_t len;

	for (size_t i = 0; i < member->lookups_len; i++)
		if (!member->lookups[i]->name.known) {
			member_set_timer(member);
			return;
		}
	member->resolved = roster_resolve(&member->list, member_find_name, member, &items, &len) == 0;
	if (!member->resolved)
		member_trouble(member, "out of memory");
	else
		act(member, roster_offer(&member->roster, items, len, loop_now(member->members->loop), &difference),
		    &difference);
	member_set_timer(member);
	members_settle(member);
}

/* ---- take ---- */

/* Leaves an empty list. */
static void take(struct member *member, struct roster_list *list)
{
	roster_list_fini(&member->list);
	member->resolved = false;
	member->list = *list;
	*list = (struct roster_list){.items = NULL};
	if (member_want_names(member) != 0) {
		member_trouble(member, "out of memory");
		member_set_timer(member);
		return;
	}
	if (strcmp(member->problem, member->list.problem) != 0 && member->list.problem[0] != '\0')
		member_notice(member, "%s: %s", member->source, member->list.problem);
	snprintf(member->problem, sizeof(member->problem), "%s", member->list.problem);
	if (member->list.protection && !member->protection)
		member_notice(
		    member, "%s has reached its protection threshold: too few are healthy, so it calls all %zu healthy and none of it means anything",
		    member->source, member->list.listed);
	else if (!member->list.protection && member->protection)
		member_notice(member, "%s is above its protection threshold again: health means something", member->source);
	member->protection = member->list.protection;
	member_resolve(member);
}

void member_listed(struct member *member, struct roster_list *list)
{
	member_well(member);
	take(member, list);
}

void member_failed(struct member *member, const char *why)
{
	member_trouble(member, why);
	members_settle(member);
}

static void on_timer(struct wheel_timer *timer, uint64_t now_ns)
{
	struct member *member = REA_CONTAINER_OF(timer, struct member, timer);
	struct roster_difference difference;

	act(member, roster_run(&member->roster, now_ns, &difference), &difference);
	member_look_for_srv(member, now_ns);
	member_look_up(member, now_ns);
	/* A file is looked at once at the start, not only when it changes. */
	if (member->watch != NULL && !member->settled && member->answered_ns == 0 && member->failures == 0)
		watch_look(member->watch, true);
	member_set_timer(member);
}

/* ---- lifetime ---- */

void member_free(struct member *member)
{
	if (member == NULL)
		return;
	loop_timer_stop(member->members->loop, &member->timer);
	watch_stop(member->watch);
	nacos_naming_stop(member->nacos);
	etcd_stop(member->etcd);
	dns_forget(&member->srv);
	member_forget_names(member);
	roster_list_fini(&member->list);
	roster_fini(&member->roster);
	free(member->signature);
	rea_config_unref(member->config);
	free(member);
}

struct member *member_new(struct members *members, struct rea_config *config, const struct rea_config_service *service,
    const struct shared *shared, char *signature)
{
	struct member *member = calloc(1, sizeof(*member));

	if (member == NULL) {
		free(signature);
		return NULL;
	}
	member->members = members;
	member->config = rea_config_ref(config);
	member->service = service;
	member->signature = signature;
	member->timer.fire = on_timer;
	member->srv_due_ns = REA_NEVER;
	member->roster =
	    (struct roster){.grace_ns = rea_time_from_ms(service->discovery.empty_grace_ms), .empty_since_ns = REA_NEVER};
	if (member_begin(member, shared) != 0) {
		member_free(member);
		return NULL;
	}
	return member;
}
