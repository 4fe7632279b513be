/* Where a member's list comes from: what is asked, and what says that it is asked elsewhere. */
#include "discovery/member.h"

#include "base/buffer.h"
#include "discovery/naming_wire.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Nacos, etcd ---- */

static void on_nacos_listed(struct roster_list *list, void *user_data)
{
	member_listed(user_data, list);
}

static void on_nacos_failed(const char *why, void *user_data)
{
	member_failed(user_data, why);
}

static void on_notice(const char *text, void *user_data)
{
	struct member *member = user_data;

	member_notice(member, "%s: %s", member->source, text);
}

static void on_etcd_listed(const json_t *answer, const char *server, void *user_data)
{
	struct member *member = user_data;
	struct roster_list list = {.items = NULL};
	int error = naming_read_etcd(answer, &list);

	(void)server;
	if (error == 0)
		member_listed(member, &list);
	else
		member_failed(member, error == REA_ERR_NOMEM   ? "out of memory"
				      : error == REA_ERR_LIMIT ? "there are too many keys under the prefix"
							       : "what is under the prefix cannot be read");
	roster_list_fini(&list);
}

static void on_etcd_failed(const char *why, bool denied, void *user_data)
{
	(void)denied;
	member_failed(user_data, why);
}

/* ---- files, SRV records ---- */

static void on_file(const char *text, size_t length, const struct rea_error_info *error, void *user_data)
{
	struct member *member = user_data;
	struct roster_list list = {.items = NULL};
	struct rea_error_info info;
	char why[400];

	if (text == NULL) {
		member_failed(member, error->message);
		return;
	}
	if (naming_read_file(rea_slice_make(text, length), &list, &info) == 0) {
		member_listed(member, &list);
	} else {
		snprintf(why, sizeof(why), "%u:%u: %s", info.line, info.column,
		    info.message[0] != '\0' ? info.message : "out of memory");
		member_failed(member, why);
	}
	roster_list_fini(&list);
}

void member_look_for_srv(struct member *member, uint64_t now_ns)
{
	struct members *members = member->members;

	if (member->srv_due_ns > now_ns)
		return;
	member->srv_due_ns = REA_NEVER;
	if (dns_ask(members->shared.dns, &member->srv, member->service->discovery.name, true) == 0)
		return;
	member->srv_due_ns =
	    rea_time_add(loop_now(members->loop), roster_pause_ns(++member->srv_failures, &members->loop->random));
	member_failed(member, "out of memory");
}

static void on_srv(struct dns_query *query)
{
	struct member *member = query->user_data;
	struct loop *loop = member->members->loop;
	char why[400];

	if (query->result == DNS_FAILED) {
		member->srv_due_ns = rea_time_add(loop_now(loop), roster_pause_ns(++member->srv_failures, &loop->random));
		snprintf(why, sizeof(why), "%s", query->why);
		member_failed(member, why);
		member_set_timer(member);
		return;
	}
	member->srv_failures = 0;
	member->srv_due_ns =
	    rea_time_add(loop_now(loop), roster_refresh_ns(query->result == DNS_FOUND ? query->ttl_s : 0, &loop->random));
	member_listed(member, &query->srv);
}

/* ---- signatures ---- */

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

char *member_signature(const struct rea_config_service *service, const struct rea_config_settings *settings)
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

char *member_shared_signature(const struct rea_config_settings *settings)
{
	struct rea_buffer out = {.alloc = NULL};
	int error = add_servers(&out, settings->sources.nacos);

	for (size_t i = 0; i < settings->sources.dns_servers_len && error == 0; i++)
		error = add_text(&out, settings->sources.dns_servers[i]);
	return end_signature(&out, error);
}

/* ---- the beginning ---- */

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

static void name_source(struct member *member)
{
	const struct rea_config_discovery *of = &member->service->discovery;

	switch (of->kind) {
	case REA_DISCOVERY_LIST:
		snprintf(member->source, MEMBER_SOURCE_SIZE, "the configuration");
		break;
	case REA_DISCOVERY_FILE:
		snprintf(member->source, MEMBER_SOURCE_SIZE, "file %s", of->name);
		break;
	case REA_DISCOVERY_DNS:
		snprintf(member->source, MEMBER_SOURCE_SIZE, "dns %s", of->name);
		break;
	case REA_DISCOVERY_NACOS:
		snprintf(member->source, MEMBER_SOURCE_SIZE, "nacos %s/%s/%s",
		    of->namespace_id[0] != '\0' ? of->namespace_id : "public", of->group, of->name);
		break;
	case REA_DISCOVERY_ETCD:
		snprintf(member->source, MEMBER_SOURCE_SIZE, "etcd %s", of->name);
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
		error = member_want_names(member);
	if (error != 0)
		return error;
	/* Addresses hold at once; names are asked for from the timer. */
	if (member->lookups_len == 0) {
		member->answered_ns = loop_now(member->members->loop);
		error = roster_resolve(&member->list, member_find_name, member, &member->roster.items, &member->roster.len);
		member->resolved = member->settled = true;
	}
	return error;
}

int member_begin(struct member *member, const struct shared *shared)
{
	const struct rea_config_discovery *of = &member->service->discovery;
	const struct rea_config_settings *settings = rea_config_settings(member->config);
	const struct nacos_naming_events nacos = {on_nacos_listed, on_nacos_failed, on_notice, member};
	const struct source_events etcd = {
	    .listed = on_etcd_listed, .failed = on_etcd_failed, .notice = on_notice, .user_data = member};
	struct members *members = member->members;

	name_source(member);
	member->srv.done = on_srv;
	member->srv.user_data = member;
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
