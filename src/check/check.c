/* A check from its first file to its last rule. */
#include "check/facts.h"
#include "check/model.h"
#include "check/rea.h"

#include <assert.h>
#include <stdio.h>

int check_new(const struct check_options *options, const struct rea_alloc *alloc, struct check **ret_check)
{
	struct check *check;

	alloc = alloc ? alloc : rea_alloc_default();
	check = alloc->realloc(NULL, sizeof(*check), alloc->user_data);
	if (check == NULL)
		return REA_ERR_NOMEM;
	memset(check, 0, sizeof(*check));
	rea_arena_init(&check->arena, alloc);
	check->options = *options;
	check->files_tail = &check->files;
	check->apps_tail = &check->apps;
	check->chains_tail = &check->chains;
	check->problems_tail = &check->problems;
	if (options->cloud != NULL)
		check_facts_cloud(&check->facts, options->cloud);
	else if (options->boot != NULL)
		check_facts_boot(&check->facts, options->boot);
	*ret_check = check;
	return 0;
}

bool check_version_is_known(const char *cloud, const char *boot)
{
	struct check_facts facts = {.cloud = 0};

	return (cloud == NULL || check_facts_cloud(&facts, cloud)) && (boot == NULL || check_facts_boot(&facts, boot));
}

void check_free(struct check *check)
{
	const struct rea_alloc *alloc;

	if (check == NULL)
		return;
	alloc = check->arena.alloc;
	rea_arena_fini(&check->arena);
	alloc->free(check, alloc->user_data);
}

int check_classpath(struct check *check, const char *text, size_t length)
{
	check_facts_classpath(check, rea_slice_make(text, length));
	return check->error;
}

/* ------------------------------------------------------------------ what kind of file it is */

static bool has_end(const char *name, const char *end)
{
	size_t length = strlen(name), end_length = strlen(end);

	return length >= end_length &&
	       rea_slice_equal_nocase(rea_slice_make(name + length - end_length, end_length), rea_slice_of(end));
}

/* A line, after blanks, begins with the word, and that word ends there. */
static bool has_line(struct rea_slice text, const char *word, bool indented)
{
	struct rea_slice line;
	size_t length = strlen(word);

	while (check_word(&text, "\r\n", &line)) {
		size_t at = 0;

		while (indented && at < line.length && strchr(" \t-\"{'", line.data[at]) != NULL)
			at++;
		if (line.length - at >= length && memcmp(line.data + at, word, length) == 0 &&
		    (line.length - at == length || strchr(" \t:\"'{;=", line.data[at + length]) != NULL))
			return true;
	}
	return false;
}

static bool has_any_line(struct rea_slice text, const char *const *words, bool indented)
{
	for (; *words != NULL; words++)
		if (has_line(text, *words, indented))
			return true;
	return false;
}

static enum check_kind kind_of_document(struct rea_slice text)
{
	static const char *const envoy[] = {
	    "static_resources", "staticResources", "virtual_hosts", "virtualHosts", "@type", NULL};
	static const char *const rea[] = {"services", "rpc", "contracts", "listen", NULL};
	static const char *const spring[] = {"spring", "feign", "resilience4j", "server", "management", NULL};

	if (has_line(text, "apiVersion", true) && has_line(text, "kind", true))
		return CHECK_KIND_ISTIO;
	if (has_line(text, "methodConfig", true) || has_line(text, "method_config", true))
		return CHECK_KIND_GRPC;
	if (has_any_line(text, envoy, true))
		return CHECK_KIND_ENVOY;
	if (has_any_line(text, rea, false) && !has_any_line(text, spring, false))
		return CHECK_KIND_REA;
	return CHECK_KIND_SPRING;
}

static enum check_kind kind_of(const char *name, struct rea_slice text)
{
	static const char *const documents[] = {".yml", ".yaml", ".json"};
	static const char *const haproxy[] = {"global", "defaults", "frontend", "backend", "listen", NULL};
	static const char *const nginx[] = {
	    "http", "events", "server", "upstream", "location", "proxy_pass", "proxy_next_upstream", NULL};

	if (has_end(name, ".properties"))
		return CHECK_KIND_SPRING;
	for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++)
		if (has_end(name, documents[i]))
			return kind_of_document(text);
	if (has_any_line(text, haproxy, false) && !check_contains(text, "{\n"))
		return CHECK_KIND_HAPROXY;
	if (has_any_line(text, nginx, true))
		return CHECK_KIND_NGINX;
	return CHECK_KIND_AUTO;
}

/* ------------------------------------------------------------------ files */

static int read_file(struct check *check, struct check_file *file, struct rea_error_info *info)
{
	switch (file->kind) {
	case CHECK_KIND_SPRING:
		return check_read_spring(check, file, info);
	case CHECK_KIND_REA:
		return check_read_rea(check, file, info);
	case CHECK_KIND_ISTIO:
	case CHECK_KIND_ENVOY:
		return check_read_mesh(check, file, info);
	case CHECK_KIND_GRPC:
		return check_read_grpc(check, file, info);
	case CHECK_KIND_NGINX:
		return check_read_nginx(check, file, info);
	case CHECK_KIND_HAPROXY:
		return check_read_haproxy(check, file, info);
	case CHECK_KIND_AUTO:
		break;
	}
	return check_refuse(info, file, REA_ERR_INVALID, check_place_at(file, 0, 0),
	    "it is not clear what kind of file this is: say --kind spring, rea, istio, envoy, grpc, nginx or haproxy");
}

static struct check_file *new_file(struct check *check, const char *name, const char *text, size_t length)
{
	struct check_file *file = check_alloc(check, sizeof(*file));

	if (file == NULL)
		return NULL;
	*file = (struct check_file){.name = name,
	    .shown = check_shown(check, rea_slice_of(name)),
	    .text = rea_slice_make(text, length),
	    .index = check->files_len};
	file->kind = check->options.kind != CHECK_KIND_AUTO ? check->options.kind : kind_of(name, file->text);
	if (check->error != 0)
		return NULL;
	return file;
}

static int refuse_size(const struct check *check, const struct check_file *file, struct rea_error_info *info)
{
	if (file->text.length > CHECK_FILE_BYTES_MAX)
		return check_refuse(info, file, REA_ERR_LIMIT, check_place_at(file, 0, 0), "the file is larger than 4 MiB");
	if (check->files_len == CHECK_FILES_MAX)
		return check_refuse(info, file, REA_ERR_LIMIT, check_place_at(file, 0, 0), "more than 1000 files");
	return 0;
}

int check_add(struct check *check, const char *name, const char *text, size_t length, struct rea_error_info *ret_info)
{
	struct check_file *file = new_file(check, name, text, length);
	int error;

	if (file == NULL)
		return REA_ERR_NOMEM;
	error = refuse_size(check, file, ret_info);
	if (error == 0)
		error = read_file(check, file, ret_info);
	if (check->error != 0)
		return check->error;
	if (error != 0) {
		file->app = NULL;
		check_problem_add(check, ret_info);
		return check->error != 0 ? check->error : error;
	}
	assert(file->app != NULL);
	file->app->live = true;
	*check->files_tail = file;
	check->files_tail = &file->next;
	check->files_len++;
	return 0;
}

int check_unreadable(struct check *check, const char *name, const char *message)
{
	struct rea_error_info info = {.line = 0};

	snprintf(info.file, sizeof(info.file), "%s", check_shown(check, rea_slice_of(name)));
	snprintf(info.message, sizeof(info.message), "%s", message);
	check_problem_add(check, &info);
	return check->error;
}

/* What needs all files of an application. Done once. */
static void prepare(struct check *check)
{
	if (check->prepared)
		return;
	check->prepared = true;
	for (struct check_app *app = check->apps; app != NULL; app = app->next)
		if (app->kind == CHECK_KIND_SPRING && app->live)
			check_spring(check, app);
}

/* ------------------------------------------------------------------ chains */

static const struct check_app *app_named(const struct check *check, struct rea_slice name)
{
	for (const struct check_app *app = check->apps; app != NULL; app = app->next)
		if (app->live && check_same_name(rea_slice_of(app->name), name))
			return app;
	return NULL;
}

static int refuse_chain(struct check *check, struct rea_error_info *info, const char *chain, struct rea_slice name)
{
	const char *known = "";

	for (const struct check_app *app = check->apps; app != NULL; app = app->next)
		known = check_text(check, "%s%s%s", known, known[0] != '\0' ? ", " : "", app->name);
	memset(info, 0, sizeof(*info));
	snprintf(info->message, sizeof(info->message), "--chain %s: no file is %s; there are %s", chain,
	    check_shown(check, name), known[0] != '\0' ? known : "none");
	return REA_ERR_INVALID;
}

int check_chain(struct check *check, const char *text, struct rea_error_info *ret_info)
{
	struct rea_slice rest = rea_slice_of(text), word;
	struct check_chain *chain = check_alloc(check, sizeof(*chain));
	size_t count = 1;

	prepare(check);
	for (const char *c = text; *c != '\0'; c++)
		count += *c == '>';
	if (chain == NULL)
		return REA_ERR_NOMEM;
	chain->text = check_shown(check, rest);
	chain->apps = check_alloc(check, count * sizeof(*chain->apps));
	chain->targets = check_alloc(check, count * sizeof(*chain->targets));
	chain->hops = check_alloc(check, count * sizeof(*chain->hops));
	if (chain->apps == NULL || chain->targets == NULL || chain->hops == NULL || check->error != 0)
		return REA_ERR_NOMEM;
	while (check_word(&rest, ">", &word)) {
		word = check_trim(word);
		chain->apps[chain->apps_len] = app_named(check, word);
		if (chain->apps[chain->apps_len] == NULL)
			return refuse_chain(check, ret_info, text, word);
		chain->apps_len++;
	}
	if (chain->apps_len < 2) {
		memset(ret_info, 0, sizeof(*ret_info));
		snprintf(ret_info->message, sizeof(ret_info->message),
		    "--chain %s: expected at least two names, as in a>b", text);
		return REA_ERR_INVALID;
	}
	*check->chains_tail = chain;
	check->chains_tail = &chain->next;
	return 0;
}

/* ------------------------------------------------------------------ the end */

int check_run(struct check *check)
{
	if (check->error == 0)
		prepare(check);
	if (check->error == 0)
		check_rules_run(check);
	return check->error;
}

int check_exit_code(const struct check *check)
{
	if (check->problems != NULL)
		return 2;
	if (check->counts[CHECK_ERROR] > 0)
		return 1;
	return check->counts[CHECK_WARNING] > 0 ? 3 : 0;
}
