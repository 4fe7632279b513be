/*
 * One struct member per service of the configuration. What its source lists becomes instances in three steps, after each of which the next is due only
 * if something may have changed:
 *
 *   take     the source has told its list
 *   resolve  every name in it is known, or was looked for once
 *   offer    roster.h says what of that holds
 */
#include "discovery/members.h"

#include "base/container.h"
#include "discovery/dns.h"
#include "discovery/etcd.h"
#include "discovery/nacos_account.h"
#include "discovery/nacos_naming.h"
#include "discovery/naming_wire.h"
#include "discovery/watch.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* At the start nobody waits longer than this. */
#define SETTLE_NS (5 * REA_NS_PER_S)
#define CONNECTIONS_KEPT 16L
#define LINE_SIZE 640
#define SOURCE_SIZE 320

struct member;

/* A name in a list. */
struct lookup {
	struct roster_name name;
	struct dns_query query;
	struct member *member;
	struct lookup *next;
	bool wanted; /* while the list is gone through */
	bool troubled;
};

struct member {
	struct members *members;
	struct rea_config *config; /* what follows it borrows from; a reference */
	const struct rea_config_service *service;
	char *signature; /* all that says where its instances are found */
	char source[SOURCE_SIZE];
	struct roster_list list;
	struct roster roster;
	struct lookup *lookups;
	struct wheel_timer timer; /* the next look at a name or for SRV records, or the end of the grace time */
	struct dns_query srv;
	uint64_t srv_due_ns;
	uint32_t srv_failures;
	struct watch *watch;
	struct nacos_naming *nacos;
	struct etcd *etcd;
	uint64_t answered_ns; /* 0 = never */
	uint64_t failures;
	bool settled, troubled, protection;
	char problem[ROSTER_PROBLEM_SIZE]; /* told last */
	struct member *next;               /* in the order of the configuration */
};

/* What is shared by all that ask one registry. */
struct shared {
	struct rea_config *config; /* what the account borrows from; a reference */
	char *signature;
	struct nacos_account *account;
	struct dns *dns;
};

struct members {
	struct loop *loop;
	const char *only; /* NULL = all */
	struct members_events events;
	struct transfers transfers;
	struct shared shared;
	struct member *items;
	struct wheel_timer change_timer; /* 0 = now */
	struct wheel_timer settle_timer;
	bool settled;
};

/* ---- telling ---- */

__attribute__((format(printf, 2, 3))) static void notice(struct member *member, const char *format, ...)
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

static void trouble(struct member *member, const char *why)
{
	uint64_t age_s = rea_time_sub(loop_now(member->members->loop), member->answered_ns) / REA_NS_PER_S;

	member->failures++;
	if (!member->troubled && member->answered_ns == 0)
		notice(member, "%s: %.400s; no list is known yet", member->source, why);
	else if (!member->troubled)
		notice(member, "%s: %.400s; its last list holds, %zu instance%s, %" PRIu64 " s old", member->source,
		    why, member->roster.len, plural(member->roster.len), age_s);
	member->troubled = true;
}

static void well(struct member *member)
{
	member->answered_ns = loop_now(member->members->loop);
	if (member->troubled)
		notice(member, "%s answers again", member->source);
	member->troubled = false;
}

static void change(struct members *members)
{
	loop_timer_start(members->loop, &members->change_timer, loop_now(members->loop));
}

static void settle(struct member *member)
{
	struct members *members = member->members;

	member->settled = true;
	if (members->settled)
		return;
	for (const struct member *other = members->items; other != NULL; other = other->next)
		if (!other->settled)
			return;
	change(members);
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
		trouble(member, "no answer in time");
		settle(member);
	}
}

/* ---- offer ---- */

static void tell_difference(struct member *member, const struct roster_difference *difference)
{
	char first[LOOP_ADDRESS_MAX];
	size_t all = difference->added + difference->removed + difference->altered;

	/* What stands in the configuration is told by whoever loaded it. */
	if (member->service->discovery.kind == REA_DISCOVERY_LIST && member->lookups == NULL)
		return;
	rea_instance_id_format(&difference->first, first, sizeof(first));
	if (all == 0)
		notice(member, "%zu instance%s from %s, in another order", member->roster.len,
		    plural(member->roster.len), member->source);
	else
		notice(member, "%zu instance%s from %s: %zu added, %zu removed, %zu changed, %s%s", member->roster.len,
		    plural(member->roster.len), member->source, difference->added, difference->removed,
		    difference->altered, first, all > 1 ? " and others" : "");
}

static void act(struct member *member, enum roster_news news, const struct roster_difference *difference)
{
	switch (news) {
	case ROSTER_SAME:
		break;
	case ROSTER_CHANGED:
		tell_difference(member, difference);
		change(member->members);
		break;
	case ROSTER_HELD:
		notice(member, "empty-list-held: %s lists no usable instance (of %zu); the last %zu hold for %u ms more",
		    member->source, member->list.listed, member->roster.len, member->service->discovery.empty_grace_ms);
		break;
	case ROSTER_EMPTIED:
		notice(member, "%s has listed no usable instance for %u ms: none is left", member->source,
		    member->service->discovery.empty_grace_ms);
		change(member->members);
		break;
	}
}

static void set_timer(struct member *member)
{
	uint64_t due_ns = rea_time_min(roster_due_ns(&member->roster), member->srv_due_ns);

	for (const struct lookup *lookup = member->lookups; lookup != NULL; lookup = lookup->next)
		if (lookup->query.ask == NULL)
			due_ns = rea_time_min(due_ns, lookup->name.due_ns);
	if (due_ns == REA_NEVER)
		loop_timer_stop(member->members->loop, &member->timer);
	else
		loop_timer_start(member->members->loop, &member->timer, due_ns);
}

static const struct roster_name *find_name(const char *text, void *user_data)
{
	const struct member *member = user_data;

	for (const struct lookup *lookup = member->lookups; lookup != NULL; lookup = lookup->next)
		if (strcmp(lookup->name.text, text) == 0)
			return &lookup->name;
	return NULL;
}

static void resolve(struct member *member)
{
	struct roster_instance *items;
	struct roster_difference difference;
	size_t len;

	for (const struct lookup *lookup = member->lookups; lookup != NULL; lookup = lookup->next)
		if (!lookup->name.known) {
			set_timer(member);
			return;
		}
	if (roster_resolve(&member->list, find_name, member, &items, &len) != 0)
		trouble(member, "out of memory");
	else
		act(member, roster_offer(&member->roster, items, len, loop_now(member->members->loop), &difference),
		    &difference);
	set_timer(member);
	settle(member);
}

/* ---- names ---- */

static void on_looked_up(struct dns_query *query)
{
	struct lookup *lookup = query->user_data;
	struct member *member = lookup->member;
	struct loop *loop = member->members->loop;
	bool had = lookup->name.len > 0;
	char why[400];

	if (query->result == DNS_FAILED) {
		roster_name_failed(&lookup->name, &loop->random, loop_now(loop));
		snprintf(why, sizeof(why), "%s: %s", lookup->name.text, query->why);
		trouble(member, why);
	} else {
		roster_name_answered(&lookup->name, query->addresses, query->addresses_len,
		    query->result == DNS_FOUND ? query->ttl_s : 0, &loop->random, loop_now(loop));
		if (query->result == DNS_NONE && (had || !lookup->troubled))
			notice(member, "%s has no address: %s", lookup->name.text, query->why);
		lookup->troubled = query->result == DNS_NONE;
		/* Where a list comes from elsewhere, names say nothing of that. */
		if (member->service->discovery.kind == REA_DISCOVERY_LIST ||
		    (member->service->discovery.kind == REA_DISCOVERY_DNS && member->service->discovery.port != 0))
			well(member);
	}
	resolve(member);
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

static struct lookup *find_lookup(struct member *member, const char *name)
{
	struct lookup *lookup = member->lookups;

	while (lookup != NULL && strcmp(lookup->name.text, name) != 0)
		lookup = lookup->next;
	return lookup;
}

static int want(struct member *member, const char *name)
{
	struct rea_instance_id id;
	struct lookup *lookup;

	if (roster_is_address(name, &id))
		return 0;
	lookup = find_lookup(member, name);
	if (lookup == NULL) {
		lookup = calloc(1, sizeof(*lookup));
		if (lookup == NULL)
			return REA_ERR_NOMEM;
		lookup->name.text = strdup(name);
		if (lookup->name.text == NULL) {
			free(lookup);
			return REA_ERR_NOMEM;
		}
		lookup->query.done = on_looked_up;
		lookup->query.user_data = lookup;
		lookup->member = member;
		lookup->next = member->lookups;
		member->lookups = lookup;
	}
	lookup->wanted = true;
	return 0;
}

/* The names of its list, and no others. */
static int want_names(struct member *member)
{
	int error = 0;

	for (struct lookup *lookup = member->lookups; lookup != NULL; lookup = lookup->next)
		lookup->wanted = false;
	for (size_t i = 0; i < member->list.len && error == 0; i++)
		error = want(member, member->list.items[i].name);
	for (struct lookup **place = &member->lookups, *lookup = *place; lookup != NULL; lookup = *place) {
		if (lookup->wanted || error != 0) {
			place = &lookup->next;
			continue;
		}
		*place = lookup->next;
		lookup_free(lookup);
	}
	return error;
}

/* ---- take ---- */

/* Leaves an empty list. */
static void take(struct member *member, struct roster_list *list)
{
	roster_list_fini(&member->list);
	member->list = *list;
	*list = (struct roster_list){.items = NULL};
	if (want_names(member) != 0) {
		trouble(member, "out of memory");
		set_timer(member);
		return;
	}
	if (strcmp(member->problem, member->list.problem) != 0 && member->list.problem[0] != '\0')
		notice(member, "%s: %s", member->source, member->list.problem);
	snprintf(member->problem, sizeof(member->problem), "%s", member->list.problem);
	if (member->list.protection && !member->protection)
		notice(member, "%s has reached its protection threshold: too few are healthy, so it calls all %zu healthy and none of it means anything",
		    member->source, member->list.listed);
	else if (!member->list.protection && member->protection)
		notice(member, "%s is above its protection threshold again: health means something", member->source);
	member->protection = member->list.protection;
	resolve(member);
}

static void on_listed(struct roster_list *list, void *user_data)
{
	struct member *member = user_data;

	well(member);
	take(member, list);
}

static void on_failed(const char *why, void *user_data)
{
	struct member *member = user_data;

	trouble(member, why);
	settle(member);
}

static void on_notice(const char *text, void *user_data)
{
	struct member *member = user_data;

	notice(member, "%s: %s", member->source, text);
}

/* ---- sources: etcd, files, SRV records ---- */

static void on_etcd_listed(const json_t *answer, const char *server, void *user_data)
{
	struct member *member = user_data;
	struct roster_list list = {.items = NULL};
	int error = naming_read_etcd(answer, &list);

	(void)server;
	if (error == 0)
		on_listed(&list, member);
	else
		on_failed(error == REA_ERR_NOMEM   ? "out of memory"
			  : error == REA_ERR_LIMIT ? "there are too many keys under the prefix"
						   : "what is under the prefix cannot be read",
		    member);
	roster_list_fini(&list);
}

static void on_etcd_failed(const char *why, bool denied, void *user_data)
{
	(void)denied;
	on_failed(why, user_data);
}

static void on_file(const char *text, size_t length, const struct rea_error_info *error, void *user_data)
{
	struct member *member = user_data;
	struct roster_list list = {.items = NULL};
	struct rea_error_info info;
	char why[400];

	if (text == NULL) {
		on_failed(error->message, member);
		return;
	}
	if (naming_read_file(rea_slice_make(text, length), &list, &info) == 0) {
		on_listed(&list, member);
	} else {
		snprintf(why, sizeof(why), "%u:%u: %s", info.line, info.column,
		    info.message[0] != '\0' ? info.message : "out of memory");
		on_failed(why, member);
	}
	roster_list_fini(&list);
}

static void look_for_srv(struct member *member)
{
	struct members *members = member->members;

	member->srv_due_ns = REA_NEVER;
	if (dns_ask(members->shared.dns, &member->srv, member->service->discovery.name, true) == 0)
		return;
	member->srv_due_ns =
	    rea_time_add(loop_now(members->loop), roster_pause_ns(++member->srv_failures, &members->loop->random));
	on_failed("out of memory", member);
}

static void on_srv(struct dns_query *query)
{
	struct member *member = query->user_data;
	struct loop *loop = member->members->loop;
	char why[400];

	if (query->result == DNS_FAILED) {
		member->srv_due_ns = rea_time_add(loop_now(loop), roster_pause_ns(++member->srv_failures, &loop->random));
		snprintf(why, sizeof(why), "%s", query->why);
		on_failed(why, member);
		set_timer(member);
		return;
	}
	member->srv_failures = 0;
	member->srv_due_ns =
	    rea_time_add(loop_now(loop), roster_refresh_ns(query->result == DNS_FOUND ? query->ttl_s : 0, &loop->random));
	on_listed(&query->srv, member);
}

static void on_timer(struct wheel_timer *timer, uint64_t now_ns)
{
	struct member *member = REA_CONTAINER_OF(timer, struct member, timer);
	struct roster_difference difference;

	act(member, roster_run(&member->roster, now_ns, &difference), &difference);
	if (member->srv_due_ns <= now_ns)
		look_for_srv(member);
	for (struct lookup *lookup = member->lookups; lookup != NULL; lookup = lookup->next)
		if (lookup->query.ask == NULL && lookup->name.due_ns <= now_ns)
			look_up(lookup);
	/* A file is looked at once at the start, not only when it changes. */
	if (member->watch != NULL && !member->settled && member->answered_ns == 0 && member->failures == 0)
		watch_look(member->watch, true);
	set_timer(member);
}

/* ---- one member ---- */

static int list_of_config(const struct rea_config_service *service, struct roster_list *list)
{
	int error = 0;

	for (size_t i = 0; i < service->instances_len && error == 0; i++) {
		const struct rea_config_instance *instance = &service->instances[i];
		struct roster_entry entry = {.weight = instance->weight, .host = (char *)(uintptr_t)instance->host};
		struct rea_slice name;

		if (roster_split(rea_slice_of(instance->address), &name, &entry.port))
			error = roster_list_add(list, name, &entry);
	}
	list->listed = list->len;
	return error;
}

static int add_text(struct rea_buffer *out, const char *text)
{
	int error = text != NULL ? rea_buffer_append_slice(out, rea_slice_of(text)) : 0;

	return error == 0 ? rea_buffer_append(out, "\n", 1) : error;
}

static int add_number(struct rea_buffer *out, uint64_t number)
{
	int error = rea_buffer_append_u64(out, number);

	return error == 0 ? rea_buffer_append(out, "\n", 1) : error;
}

/* Where it is asked, and as whom. */
static int add_servers(struct rea_buffer *out, const struct rea_config_source *source)
{
	int error = 0;

	if (source == NULL)
		return add_text(out, NULL);
	for (size_t i = 0; i < source->servers_len && error == 0; i++)
		error = add_text(out, source->servers[i]);
	if (error == 0)
		error = add_text(out, source->username);
	if (error == 0)
		error = add_text(out, source->password);
	if (error == 0)
		error = add_text(out, source->ca_file);
	if (error == 0)
		error = add_text(out, source->context_path);
	if (error == 0)
		error = add_number(out, source->mode);
	return error == 0 ? add_number(out, source->poll_ms) : error;
}

static char *end_signature(struct rea_buffer *out, int error)
{
	char *text = error == 0 ? strndup(rea_buffer_data(out), rea_buffer_length(out)) : NULL;

	rea_buffer_fini(out);
	return text;
}

/* Freed by the caller; NULL = out of memory. */
static char *signature_of(const struct rea_config_service *service, const struct rea_config_settings *settings)
{
	const struct rea_config_discovery *of = &service->discovery;
	struct rea_buffer out = {.alloc = NULL};
	int error = add_number(&out, of->kind);

	if (error == 0)
		error = add_text(&out, of->name);
	if (error == 0)
		error = add_text(&out, of->group);
	if (error == 0)
		error = add_text(&out, of->namespace_id);
	if (error == 0)
		error = add_text(&out, of->clusters);
	if (error == 0)
		error = add_number(&out, of->port);
	if (error == 0)
		error = add_number(&out, of->empty_grace_ms);
	for (size_t i = 0; i < service->instances_len && error == 0; i++) {
		error = add_text(&out, service->instances[i].address);
		if (error == 0)
			error = add_text(&out, service->instances[i].host);
		if (error == 0)
			error = add_number(&out, service->instances[i].weight);
	}
	if (error == 0 && of->kind == REA_DISCOVERY_NACOS)
		error = add_servers(&out, settings->sources.nacos);
	if (error == 0 && of->kind == REA_DISCOVERY_ETCD)
		error = add_servers(&out, settings->sources.etcd);
	for (size_t i = 0; i < settings->sources.dns_servers_len && error == 0; i++)
		error = add_text(&out, settings->sources.dns_servers[i]);
	return end_signature(&out, error);
}

static void member_free(struct member *member)
{
	if (member == NULL)
		return;
	loop_timer_stop(member->members->loop, &member->timer);
	watch_stop(member->watch);
	nacos_naming_stop(member->nacos);
	etcd_stop(member->etcd);
	dns_forget(&member->srv);
	for (struct lookup *lookup = member->lookups, *next; lookup != NULL; lookup = next) {
		next = lookup->next;
		lookup_free(lookup);
	}
	roster_list_fini(&member->list);
	roster_fini(&member->roster);
	free(member->signature);
	rea_config_unref(member->config);
	free(member);
}

static void name_source(struct member *member)
{
	const struct rea_config_discovery *of = &member->service->discovery;

	switch (of->kind) {
	case REA_DISCOVERY_LIST:
		snprintf(member->source, SOURCE_SIZE, "the configuration");
		break;
	case REA_DISCOVERY_FILE:
		snprintf(member->source, SOURCE_SIZE, "file %s", of->name);
		break;
	case REA_DISCOVERY_DNS:
		snprintf(member->source, SOURCE_SIZE, "dns %s", of->name);
		break;
	case REA_DISCOVERY_NACOS:
		snprintf(member->source, SOURCE_SIZE, "nacos %s/%s/%s",
		    of->namespace_id[0] != '\0' ? of->namespace_id : "public", of->group, of->name);
		break;
	case REA_DISCOVERY_ETCD:
		snprintf(member->source, SOURCE_SIZE, "etcd %s", of->name);
		break;
	}
}

/* A list that is known already. */
static int begin_list(struct member *member)
{
	const struct rea_config_discovery *of = &member->service->discovery;
	const struct roster_entry entry = {.port = (uint16_t)of->port, .weight = 1};
	int error = of->kind == REA_DISCOVERY_LIST ? list_of_config(member->service, &member->list)
						   : roster_list_add(&member->list, rea_slice_of(of->name), &entry);

	if (error == 0)
		error = want_names(member);
	if (error != 0)
		return error;
	/* Addresses hold at once; names are asked for from the timer. */
	if (member->lookups == NULL) {
		member->answered_ns = loop_now(member->members->loop);
		error = roster_resolve(&member->list, find_name, member, &member->roster.items, &member->roster.len);
		member->settled = true;
	}
	return error;
}

static int begin(struct member *member, const struct shared *shared)
{
	const struct rea_config_discovery *of = &member->service->discovery;
	const struct rea_config_settings *settings = rea_config_settings(member->config);
	const struct nacos_naming_events nacos = {on_listed, on_failed, on_notice, member};
	const struct source_events etcd = {
	    .listed = on_etcd_listed, .failed = on_etcd_failed, .notice = on_notice, .user_data = member};
	struct members *members = member->members;

	switch (of->kind) {
	case REA_DISCOVERY_LIST:
		return begin_list(member);
	case REA_DISCOVERY_FILE:
		return watch_start(members->loop, of->name, "", on_file, member, &member->watch);
	case REA_DISCOVERY_DNS:
		if (of->port != 0)
			return begin_list(member);
		member->srv_due_ns = 0;
		return 0;
	case REA_DISCOVERY_NACOS:
		member->nacos = nacos_naming_start(members->loop, shared->account, of, &nacos);
		return member->nacos != NULL ? 0 : REA_ERR_NOMEM;
	case REA_DISCOVERY_ETCD:
		member->etcd = etcd_start(members->loop, &members->transfers, settings->sources.etcd, of->name, &etcd);
		return member->etcd != NULL ? 0 : REA_ERR_NOMEM;
	}
	return 0;
}

/* signature: taken over in any case. NULL = out of memory. */
static struct member *member_new(struct members *members, struct rea_config *config,
    const struct rea_config_service *service, const struct shared *shared, char *signature)
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
	member->srv.done = on_srv;
	member->srv.user_data = member;
	member->roster =
	    (struct roster){.grace_ns = rea_time_from_ms(service->discovery.empty_grace_ms), .empty_since_ns = REA_NEVER};
	name_source(member);
	if (begin(member, shared) != 0) {
		member_free(member);
		return NULL;
	}
	return member;
}

/* ---- all of them ---- */

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
	struct rea_buffer out = {.alloc = NULL};
	int error = add_servers(&out, settings->sources.nacos);

	for (size_t i = 0; i < settings->sources.dns_servers_len && error == 0; i++)
		error = add_text(&out, settings->sources.dns_servers[i]);
	*ret_shared = (struct shared){.config = rea_config_ref(config), .signature = end_signature(&out, error)};
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
		signature = signature_of(service, settings);
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
			set_timer(member);
	}
	if (!members->settled)
		loop_timer_start(members->loop, &members->settle_timer, rea_time_add(loop_now(members->loop), SETTLE_NS));
	change(members);
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
		for (struct lookup *lookup = member->lookups; lookup != NULL; lookup = lookup->next)
			if (lookup->query.ask == NULL)
				lookup->name.due_ns = 0;
		set_timer(member);
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

/* ---- looking ---- */

const struct roster_instance *members_of(const struct members *members, const char *service, size_t *ret_len)
{
	const struct member *member = members->items;

	while (member != NULL && strcmp(member->service->name, service) != 0)
		member = member->next;
	*ret_len = member != NULL ? member->roster.len : 0;
	return member != NULL ? member->roster.items : NULL;
}

static void view(const struct member *member, struct members_view *ret_view)
{
	uint64_t now_ns = loop_now(member->members->loop);

	*ret_view = (struct members_view){
	    .source = member->source,
	    .age_ns = member->answered_ns != 0 ? rea_time_sub(now_ns, member->answered_ns) : REA_NEVER,
	    .failures = member->failures,
	    .held = member->roster.empty_since_ns != REA_NEVER,
	    .protection = member->protection,
	    .troubled = member->troubled,
	};
	/* What stands in the configuration does not grow old. */
	if (member->service->discovery.kind == REA_DISCOVERY_LIST && member->lookups == NULL)
		ret_view->age_ns = 0;
}

bool members_look_at(const struct members *members, struct rea_slice service, struct members_view *ret_view)
{
	for (const struct member *member = members->items; member != NULL; member = member->next) {
		if (!rea_slice_equal(service, rea_slice_of(member->service->name)))
			continue;
		view(member, ret_view);
		return true;
	}
	return false;
}

static void write_family(const struct members *members, struct rea_prometheus *out, const char *name,
    enum rea_metric_type type, const char *help, double (*value)(const struct member *member))
{
	rea_prometheus_family(out, name, type, help);
	for (const struct member *member = members->items; member != NULL; member = member->next) {
		const char *const labels[] = {"service", member->service->name, "source", member->source};

		if (value(member) >= 0)
			rea_prometheus_sample(out, name, labels, 4, value(member));
	}
}

static double count_instances(const struct member *member)
{
	return (double)member->roster.len;
}

/* Below 0: it never had a list. */
static double age(const struct member *member)
{
	struct members_view seen;

	view(member, &seen);
	return seen.age_ns != REA_NEVER ? (double)seen.age_ns / 1e9 : -1;
}

static double failures(const struct member *member)
{
	return (double)member->failures;
}

static double changes(const struct member *member)
{
	return (double)member->roster.changes;
}

static double held(const struct member *member)
{
	return member->roster.empty_since_ns != REA_NEVER;
}

static double protection(const struct member *member)
{
	return member->protection;
}

void members_metrics(const struct members *members, struct rea_prometheus *out)
{
	write_family(members, out, "rea_discovery_instances", REA_METRIC_GAUGE,
	    "Instances that calls of the service may go to.", count_instances);
	write_family(members, out, "rea_discovery_age_seconds", REA_METRIC_GAUGE,
	    "Since the source of the service's instances last gave a list.", age);
	write_family(members, out, "rea_discovery_failures_total", REA_METRIC_COUNTER,
	    "How often the source was asked and gave no list.", failures);
	write_family(members, out, "rea_discovery_changes_total", REA_METRIC_COUNTER,
	    "How often the instances became others.", changes);
	write_family(members, out, "rea_discovery_empty_held", REA_METRIC_GAUGE,
	    "1 while the source lists none and the last instances hold.", held);
	write_family(members, out, "rea_discovery_protection", REA_METRIC_GAUGE,
	    "1 while the registry tells no health, as too few are healthy.", protection);
}
