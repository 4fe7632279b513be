/* Which configuration holds: of the file, under the policy of sources, with the instances that were found. */
#include "serve/internal.h"

#include "serve/found.h"

#include <stdio.h>
#include <string.h>

int server_install(struct server *server, struct rea_config *config)
{
	int error = found_install(server->proxy, config, server->members);

	if (error == 0) {
		/* It may be the same one. */
		rea_config_ref(config);
		rea_config_unref(server->config);
		server->config = config;
		certificates_settle(server->certificates, config);
		server->loaded_unix_ns = loop_wall_ns(&server->loop);
	}
	return error;
}

static void reject(struct server *server, const struct rea_error_info *error)
{
	server->rejects++;
	server->last_error = *error;
	serve_print_error(error);
	server_push_event(server, "rejected, the running one stays:", error);
}

int server_check_tasks(const char *path, const struct rea_config *config, struct rea_error_info *ret_info)
{
	int error;

	memset(ret_info, 0, sizeof(*ret_info));
	error = queue_check(config, ret_info);
	if (error != 0 && ret_info->file[0] == '\0')
		snprintf(ret_info->file, sizeof(ret_info->file), "%s", path);
	return error;
}

static void take_up(struct server *server, struct rea_config *config, const char *of)
{
	bool same = strcmp(rea_config_version(config), rea_config_version(server->config)) == 0;
	struct rea_config *before = rea_config_ref(server->config);

	server_tell_restart_keys(server, config);
	if (members_configure(server->members, config) != 0 || server_install(server, config) != 0 ||
	    registrar_configure(server->registrar, config) != 0) {
		fprintf(stderr, "rea: out of memory: the running configuration stays\n");
		rea_config_unref(before);
		return;
	}
	memset(&server->last_error, 0, sizeof(server->last_error));
	server_forget_named_files(server);
	server_configure_workers(server);
	if (server->queue != NULL)
		queue_configure(server->queue, config);
	/* Asked for again by SIGHUP: names were resolved anew, and that is all. */
	if (!same) {
		server_watch_contract_files(server);
		server->reloads++;
		server_tell_loaded(server, config, of);
		server_tell_changes(server, before, config);
		server_tell_unverified(server, config);
	}
	rea_config_unref(before);
}

/* The document of the file, under the policy that holds. */
static void take_up_base(struct server *server, struct rea_config *base)
{
	struct rea_config *config;
	struct rea_error_info why;

	if (server->sources == NULL) {
		take_up(server, base, "");
		return;
	}
	if (rea_config_with_policy(base, server->policy_name, rea_buffer_data(&server->policy),
		rea_buffer_length(&server->policy), NULL, &config, &why) != 0) {
		reject(server, &why);
		return;
	}
	rea_config_unref(server->base);
	server->base = rea_config_ref(base);
	take_up(server, config, "");
	rea_config_unref(config);
	sources_again(server->sources);
}

/* ---- certificates ---- */

int server_prepare_certificates(struct server *server, const struct rea_config *config, struct rea_error_info *ret_info)
{
	return certificates_prepare(
	    server->certificates, config, loop_wall_ns(&server->loop) / (int64_t)REA_NS_PER_S, ret_info);
}

/* Connections that are made from now on have the new ones; what is open stays as it is. */
void server_certificates_changed(void *user_data)
{
	struct server *server = user_data;
	struct rea_error_info why;
	int news = server->stopping ? 0 : server_prepare_certificates(server, server->config, &why);

	if (news < 0) {
		reject(server, &why);
	} else if (news > 0 && server_install(server, server->config) == 0) {
		server_configure_workers(server);
		fprintf(stderr, "rea: certificates read again\n");
		server_push_event(server, "certificates read again", NULL);
	}
}

/* ---- the file ---- */

void server_document(const char *text, size_t length, const struct rea_error_info *error, void *user_data)
{
	struct server *server = user_data;
	struct rea_config *config;
	struct rea_error_info why;

	if (server->stopping)
		return;
	if (text == NULL) {
		reject(server, error);
	} else if (rea_config_parse(server->path, text, length, NULL, &config, &why) != 0) {
		reject(server, &why);
		server_watch_named_files(server, text, length);
	} else if (server_check_tasks(server->path, config, &why) != 0 ||
		   server_prepare_certificates(server, config, &why) < 0) {
		reject(server, &why);
		rea_config_unref(config);
	} else {
		take_up_base(server, config);
		rea_config_unref(config);
	}
}

/* ---- sources ---- */

static bool on_document(const struct sources_document *document, void *user_data)
{
	struct server *server = user_data;
	struct rea_buffer policy = {.alloc = NULL};
	struct rea_config *config;
	struct rea_error_info why;
	char of[480];

	if (rea_config_with_policy(server->base, document->name, document->text, document->length, NULL, &config, &why) != 0) {
		reject(server, &why);
		return false;
	}
	if (rea_buffer_append(&policy, document->text, document->length) != 0) {
		fprintf(stderr, "rea: out of memory: the running configuration stays\n");
		rea_config_unref(config);
		return false;
	}
	rea_buffer_fini(&server->policy);
	server->policy = policy;
	snprintf(server->policy_name, sizeof(server->policy_name), "%s", document->name);
	if (document->name[0] != '\0')
		snprintf(of, sizeof(of), ": policy of %s from %s", document->name, document->from);
	else
		snprintf(of, sizeof(of), ": retries are off, %s", document->from);
	if (server->config != NULL) {
		take_up(server, config, of);
		rea_config_unref(config);
		return true;
	}
	rea_config_unref(server->next);
	server->next = config;
	server_tell_loaded(server, config, of);
	return true;
}

static void on_settled(void *user_data)
{
	struct server *server = user_data;

	loop_stop(&server->loop);
}

/* A document of Kitex stands below what the file says, and in place of nothing. */
static bool tells_policy(const struct rea_config_settings *settings)
{
	for (size_t i = 0; i < settings->sources.policy_len; i++)
		if (!settings->sources.policy[i].kitex)
			return true;
	return false;
}

int server_ask_sources(struct server *server, struct rea_config *config, struct rea_error_info *ret_info)
{
	const struct sources_events events = {on_document, server_notice, on_settled, server};

	if (rea_config_policy_line(config) > 0 && tells_policy(rea_config_settings(config)))
		fprintf(stderr, "rea: rpc.feign.retry, line %u: has no effect, as sources.policy tells the policy\n",
		    rea_config_policy_line(config));
	server->base = rea_config_ref(config);
	server->asked = rea_config_ref(config);
	server->sources = sources_start(&server->loop, rea_config_settings(config), &events);
	if (server->sources == NULL)
		return server_no_memory(ret_info);
	loop_run(&server->loop);
	return server->next != NULL ? 0 : server_no_memory(ret_info);
}

/* ---- instances ---- */

void server_members_changed(void *user_data)
{
	struct server *server = user_data;

	if (server->proxy != NULL && found_install(server->proxy, server->config, server->members) != 0)
		fprintf(stderr, "rea: out of memory: instances stay as they were\n");
}

int server_start_registrar(struct server *server, struct rea_error_info *ret_info)
{
	const struct registrar_events events = {server_notice, server};

	server->registrar = registrar_new(&server->loop, &events);
	if (server->registrar == NULL || registrar_configure(server->registrar, server->config) != 0)
		return server_no_memory(ret_info);
	return 0;
}

int server_find_members(struct server *server, struct rea_config *config, struct rea_error_info *ret_info)
{
	const struct members_events events = {server_members_changed, server_notice, on_settled, server};

	server->members = members_new(&server->loop, NULL, &events);
	if (server->members == NULL || members_configure(server->members, config) != 0)
		return server_no_memory(ret_info);
	loop_run(&server->loop);
	return 0;
}
