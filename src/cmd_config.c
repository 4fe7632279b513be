/* rea config: the policy document at its servers, read, replaced and looked back at. */
#include "cmd.h"

#include "base/buffer.h"
#include "discovery/remote.h"

#include <rea/config.h>
#include <rea/error.h>

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONFIG_DEFAULT "rea.yaml"

struct command {
	const char *config_path;
	const char *over; /* --over; NULL = what is there now */
	const char *file; /* of push */
	size_t number;    /* --source, from 1; 0 = the first that has servers */
	struct rea_config *config;
	struct remote remote;
};

static void print_error(const struct rea_error_info *error)
{
	fprintf(stderr, "rea config: ");
	if (error->file[0] != '\0')
		fprintf(stderr, "%s:", error->file);
	if (error->line > 0)
		fprintf(stderr, "%u:%u:", error->line, error->column);
	fprintf(stderr, "%s%s%s%s\n", error->file[0] != '\0' || error->line > 0 ? " " : "", error->key,
	    error->key[0] != '\0' ? ": " : "", error->message);
}

static int fail(const struct command *command)
{
	fprintf(stderr, "rea config: %s\n", command->remote.error);
	return 1;
}

static const struct rea_config_source *find_source(const struct command *command)
{
	const struct rea_config_settings *settings = rea_config_settings(command->config);

	for (size_t i = 0; i < settings->sources.policy_len; i++) {
		const struct rea_config_source *source = &settings->sources.policy[i];

		if (source->servers_len > 0 && (command->number == 0 || command->number == i + 1))
			return source;
	}
	return NULL;
}

/* ---- pull ---- */

static int pull(struct command *command)
{
	struct rea_buffer content = {.alloc = NULL};
	char version[REMOTE_VERSION_SIZE];
	size_t length;
	int code = 1;

	if (remote_pull(&command->remote, &content, version) != 0) {
		fail(command);
	} else {
		length = rea_buffer_length(&content);
		if ((length == 0 || fwrite(rea_buffer_data(&content), 1, length, stdout) == length) && fflush(stdout) == 0)
			code = 0;
		fprintf(stderr, "version %s at %s\n", version, command->remote.server);
	}
	rea_buffer_fini(&content);
	return code;
}

/* ---- push ---- */

static int read_file(const char *path, struct rea_buffer *content)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : 1;

	while (got > 0 && rea_buffer_length(content) <= FETCH_REPLY_MAX) {
		if (rea_buffer_reserve(content, 65536) != 0) {
			errno = ENOMEM;
			got = -1;
			break;
		}
		got = read(fd, content->data + content->end, content->capacity - content->end);
		content->end += got > 0 ? (size_t)got : 0;
	}
	if (got < 0)
		fprintf(stderr, "rea config: %s: cannot be read: %s\n", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return got < 0 ? -1 : 0;
}

static bool is_good(const struct command *command, const struct rea_buffer *content)
{
	const char *text = rea_buffer_length(content) > 0 ? rea_buffer_data(content) : "";
	struct rea_config *config;
	struct rea_error_info why;

	if (rea_config_with_policy(
		command->config, command->file, text, rea_buffer_length(content), NULL, &config, &why) != 0) {
		print_error(&why);
		return false;
	}
	rea_config_unref(config);
	return true;
}

static int publish(struct command *command, const struct rea_buffer *content)
{
	const char *text = rea_buffer_length(content) > 0 ? rea_buffer_data(content) : "";
	struct rea_buffer old = {.alloc = NULL};
	char over[REMOTE_VERSION_SIZE], version[REMOTE_VERSION_SIZE];
	int error = remote_pull(&command->remote, &old, over);

	rea_buffer_fini(&old);
	if (error != 0 && error != REA_ERR_NOT_FOUND)
		return fail(command);
	if (command->over != NULL && strcmp(command->over, over) != 0) {
		fprintf(stderr, "rea config: %s: the document has changed: it is version %s now, not %s\n",
		    command->remote.server, over[0] != '\0' ? over : "none", command->over);
		return 1;
	}
	if (remote_push(&command->remote, text, rea_buffer_length(content), over, version) != 0)
		return fail(command);
	printf("version %s in place of %s at %s\n", version, over[0] != '\0' ? over : "none", command->remote.server);
	return 0;
}

/* ---- history ---- */

static void tell_version(const struct remote_version *version, void *user_data)
{
	(void)user_data;
	printf("%-20s %-8s %-32s %s\n", version->id, version->change, version->when, version->who);
}

static int history(struct command *command)
{
	printf("%-20s %-8s %-32s %s\n", "id", "change", "when", "who");
	return remote_history(&command->remote, tell_version, NULL) != 0 ? fail(command) : 0;
}

/* ---- */

static int usage(FILE *out)
{
	fprintf(out, "usage: rea config pull [OPTION]...\n"
		     "       rea config push [OPTION]... FILE\n"
		     "       rea config history [OPTION]...\n\n"
		     "  -c, --config FILE   the configuration whose sources.policy names the servers; rea.yaml\n"
		     "  -s, --source N      the N-th source there; the first that has servers\n"
		     "      --over VERSION  replace this version, as pull told it, and no other\n");
	return out == stderr ? 2 : 0;
}

static int at_server(struct command *command, const char *what, const struct rea_buffer *content)
{
	const struct rea_config_source *source = find_source(command);
	int code;

	if (source == NULL) {
		fprintf(stderr,
		    command->number > 0 ? "rea config: %s: sources.policy has no server at this place\n"
					: "rea config: %s: sources.policy names no server\n",
		    command->config_path);
		return 2;
	}
	if (remote_open(&command->remote, source) != 0)
		code = fail(command);
	else if (strcmp(what, "pull") == 0)
		code = pull(command);
	else if (strcmp(what, "push") == 0)
		code = publish(command, content);
	else
		code = history(command);
	remote_close(&command->remote);
	return code;
}

static int run(struct command *command, const char *what)
{
	struct rea_buffer content = {.alloc = NULL};
	struct rea_error_info why;
	int code = 0;

	if (rea_config_load(command->config_path, NULL, &command->config, &why) != 0) {
		print_error(&why);
		return 2;
	}
	/* What is not good never gets to a server. */
	if (command->file != NULL)
		code = read_file(command->file, &content) != 0 ? 1 : is_good(command, &content) ? 0 : 2;
	if (code == 0)
		code = at_server(command, what, &content);
	rea_buffer_fini(&content);
	rea_config_unref(command->config);
	return code;
}

int cmd_config(int argc, char **argv)
{
	static const struct option options[] = {{"config", required_argument, NULL, 'c'},
	    {"source", required_argument, NULL, 's'}, {"over", required_argument, NULL, 'o'},
	    {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
	struct command command = {.config_path = CONFIG_DEFAULT};
	const char *what;
	uint64_t number;
	bool pushes;
	int option, code;

	while ((option = getopt_long(argc, argv, "c:s:h", options, NULL)) != -1) {
		if (option == 'h')
			return usage(stdout);
		if (option == 'c')
			command.config_path = optarg;
		else if (option == 'o')
			command.over = optarg;
		else if (option == 's' && rea_slice_to_u64(rea_slice_of(optarg), &number) && number > 0)
			command.number = (size_t)number;
		else
			return usage(stderr);
	}
	what = optind < argc ? argv[optind] : "";
	pushes = strcmp(what, "push") == 0;
	if ((!pushes && strcmp(what, "pull") != 0 && strcmp(what, "history") != 0) || argc - optind != 1 + pushes ||
	    (command.over != NULL && !pushes))
		return usage(stderr);
	command.file = pushes ? argv[optind + 1] : NULL;
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0) {
		fprintf(stderr, "rea config: out of memory\n");
		return 1;
	}
	code = run(&command, what);
	curl_global_cleanup();
	return code;
}
