/* The files that a configuration names: when one changes, all of it is read again. */
#include "serve/internal.h"

#include <stdlib.h>
#include <string.h>

static void on_contract_file(const char *text, size_t length, const struct rea_error_info *error, void *user_data)
{
	struct server *server = user_data;

	(void)text;
	(void)length;
	(void)error;
	watch_look(server->watch, true);
}

void server_watch_contract_files(struct server *server)
{
	size_t count;
	const struct rea_config_contract_file *files = rea_config_contract_files(server->config, &count);

	for (size_t i = 0; i < server->contract_files_len; i++)
		watch_stop(server->contract_files[i]);
	free(server->contract_files);
	server->contract_files = calloc(count > 0 ? count : 1, sizeof(struct watch *));
	server->contract_files_len = server->contract_files != NULL ? count : 0;
	for (size_t i = 0; i < server->contract_files_len; i++)
		watch_start(&server->loop, files[i].path, files[i].version, on_contract_file, server,
		    &server->contract_files[i]);
}

/* What is not there stays so until it is. */
static void on_named_file(const char *text, size_t length, const struct rea_error_info *error, void *user_data)
{
	if (text != NULL)
		on_contract_file(text, length, error, user_data);
}

void server_forget_named_files(struct server *server)
{
	for (size_t i = 0; i < server->named_files_len; i++)
		watch_stop(server->named_files[i]);
	free(server->named_files);
	server->named_files = NULL;
	server->named_files_len = 0;
}

static void watch_named_file(const struct rea_config_contract_file *file, void *user_data)
{
	struct server *server = user_data;
	size_t count;
	const struct rea_config_contract_file *files = rea_config_contract_files(server->config, &count);
	struct watch **grown;

	for (size_t i = 0; i < count; i++)
		if (strcmp(files[i].path, file->path) == 0)
			return;
	grown = realloc(server->named_files, (server->named_files_len + 1) * sizeof(*grown));
	if (grown == NULL)
		return;
	server->named_files = grown;
	if (watch_start(&server->loop, file->path, file->version, on_named_file, server, &grown[server->named_files_len]) == 0)
		server->named_files_len++;
}

void server_watch_named_files(struct server *server, const char *text, size_t length)
{
	server_forget_named_files(server);
	rea_config_named_files(server->path, text, length, NULL, watch_named_file, server);
}
