/* rea tasks: the task API of a running rea, from the command line. */
#include "cmd.h"

#include "tasks/bulk.h"
#include "tasks/client.h"
#include "tasks/show.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LIST_DEFAULT 100
#define PAGE 500
#define HEADERS_MAX 64
#define KEYS_MAX 32

enum verb {
	SUBMIT = 1,
	LIST = 2,
	SHOW = 4,
	CANCEL = 8,
	REPLAY = 16,
	TARGETS = 32,
	PAUSE = 64,
	RESUME = 128,
	DRAIN = 256,
	ALL = 511
};

struct options {
	enum verb verb;
	const char *admin;
	bool json;
	/* submit */
	const char *method, *body, *key, *biz_id, *not_before, *delay, *max_age, *file, *key_prefix;
	const char *headers[HEADERS_MAX];
	size_t headers_len;
	const char *policy[KEYS_MAX];
	size_t policy_len;
	bool sync_first;
	/* list, replay */
	const char *state, *target, *limit;
	bool all, force, dry_run;
	/* pause */
	const char *for_s, *why;
	/* what stands behind the options */
	char **words;
	int words_len;
};

static const struct {
	const char *name;
	enum verb verb;
	const char *words, *help;
	int words_min, words_max;
} verbs[] = {
    {"submit", SUBMIT, "SERVICE/PATH | URL", "hand a task in; with --file, one for each line of JSON", 0, 1},
    {"list", LIST, "", "tasks, newest first", 0, 0},
    {"show", SHOW, "ID", "a task and its attempts", 1, 1},
    {"cancel", CANCEL, "ID...", "end tasks that are not over", 1, 1000},
    {"replay", REPLAY, "ID... | --state STATE", "begin tasks anew that are over", 0, 1000},
    {"targets", TARGETS, "", "where tasks go, and what holds them up", 0, 0},
    {"pause", PAUSE, "TARGET", "begin no attempt at a target", 1, 1},
    {"resume", RESUME, "TARGET", "end a pause, or a drain", 1, 1},
    {"drain", DRAIN, "TARGET", "let attempts end, begin none", 1, 1},
};

#define VERBS (sizeof(verbs) / sizeof(verbs[0]))

static int usage(FILE *out)
{
	fprintf(out, "usage: rea tasks COMMAND [OPTION]... [WORD]...\n\n");
	for (size_t i = 0; i < VERBS; i++)
		fprintf(out, "  %-8s%-22s %s\n", verbs[i].name, verbs[i].words, verbs[i].help);
	fprintf(out,
	    "\n"
	    "  -a, --admin URL         where rea listens for this (default: $REA_ADMIN, or " TASKS_ADMIN_DEFAULT ")\n"
	    "  -j, --json              print JSON, one object a line\n"
	    "submit:\n"
	    "  -X, --method METHOD     default POST\n"
	    "  -H, --header 'NAME: V'  may be repeated\n"
	    "  -d, --data TEXT|@FILE   the body; @- is standard input\n"
	    "  -k, --key KEY           idempotency key: the same key and content is the same task\n"
	    "  -b, --biz-id ID         the business request that it belongs to\n"
	    "  -p, --policy KEY=VALUE  of the task, such as max-attempts=5; may be repeated\n"
	    "      --not-before TIME   such as 2026-12-01T08:00:00Z\n"
	    "      --delay-ms MS       first attempt after so long\n"
	    "      --max-age-ms MS     give up after so long\n"
	    "      --sync-first        try at once, and keep it only if that fails\n"
	    "  -f, --file FILE         submit each line of JSON; - is standard input\n"
	    "      --key-prefix TEXT   of the keys made for lines without one (default: bulk)\n"
	    "list, replay:\n"
	    "  -s, --state STATE,...   PENDING RUNNING RETRYING SUCCESS GIVEN_UP CANCELLED\n"
	    "  -t, --target TARGET     a service, or the origin of a URL\n"
	    "  -b, --biz-id ID\n"
	    "  -n, --limit N           at most so many (list: default 100)\n"
	    "      --all               list: no limit\n"
	    "      --force             replay: tasks that succeeded, too\n"
	    "      --dry-run           replay: only count\n"
	    "      --delay-ms MS       replay: first attempt after so long\n"
	    "pause:\n"
	    "      --for SECONDS       default: until resumed\n"
	    "      --why TEXT          shown with the target\n"
	    "  -h, --help              print this\n");
	return out == stderr ? 2 : 0;
}

static int wrong(const char *message, const char *what)
{
	fprintf(stderr, "rea tasks: %s%s%s\n", message, what ? ": " : "", what ? what : "");
	return 2;
}

/* ---- options ---- */

enum { NOT_BEFORE = 256, DELAY, MAX_AGE, SYNC_FIRST, KEY_PREFIX, ALL_PAGES, FORCE, DRY_RUN, FOR, WHY };

/* Which commands an option belongs to: elsewhere it would be forgotten silently. */
static int verbs_of(int option)
{
	switch (option) {
	case 'a':
	case 'j':
	case 'h':
		return ALL;
	case 'b':
		return SUBMIT | LIST | REPLAY;
	case 's':
	case 't':
	case 'n':
		return LIST | REPLAY;
	case ALL_PAGES:
		return LIST;
	case DELAY:
		return SUBMIT | REPLAY;
	case FORCE:
	case DRY_RUN:
		return REPLAY;
	case FOR:
	case WHY:
		return PAUSE;
	default:
		return SUBMIT;
	}
}

static int add(const char **list, size_t *length, size_t max, const char *value)
{
	if (*length == max)
		return wrong("too many of this option", value);
	list[(*length)++] = value;
	return 0;
}

static const char **place_of(struct options *options, int option)
{
	switch (option) {
	case 'a':
		return &options->admin;
	case 'X':
		return &options->method;
	case 'd':
		return &options->body;
	case 'k':
		return &options->key;
	case 'b':
		return &options->biz_id;
	case 'f':
		return &options->file;
	case 's':
		return &options->state;
	case 't':
		return &options->target;
	case 'n':
		return &options->limit;
	case NOT_BEFORE:
		return &options->not_before;
	case DELAY:
		return &options->delay;
	case MAX_AGE:
		return &options->max_age;
	case KEY_PREFIX:
		return &options->key_prefix;
	case FOR:
		return &options->for_s;
	default:
		return &options->why;
	}
}

static int parse_option(struct options *options, int option, const char *value)
{
	switch (option) {
	case '?':
		return usage(stderr);
	case 'j':
		options->json = true;
		return 0;
	case SYNC_FIRST:
		options->sync_first = true;
		return 0;
	case ALL_PAGES:
		options->all = true;
		return 0;
	case FORCE:
		options->force = true;
		return 0;
	case DRY_RUN:
		options->dry_run = true;
		return 0;
	case 'H':
		return add(options->headers, &options->headers_len, HEADERS_MAX, value);
	case 'p':
		return add(options->policy, &options->policy_len, KEYS_MAX, value);
	default:
		*place_of(options, option) = value;
		return 0;
	}
}

/* Returns 0, the exit code, or -1 after --help. argv[0] is the command. */
static int parse_options(int argc, char **argv, size_t verb, struct options *options)
{
	static const struct option names[] = {{"admin", required_argument, NULL, 'a'}, {"json", no_argument, NULL, 'j'},
	    {"method", required_argument, NULL, 'X'}, {"header", required_argument, NULL, 'H'},
	    {"data", required_argument, NULL, 'd'}, {"key", required_argument, NULL, 'k'},
	    {"biz-id", required_argument, NULL, 'b'}, {"policy", required_argument, NULL, 'p'},
	    {"not-before", required_argument, NULL, NOT_BEFORE}, {"delay-ms", required_argument, NULL, DELAY},
	    {"max-age-ms", required_argument, NULL, MAX_AGE}, {"sync-first", no_argument, NULL, SYNC_FIRST},
	    {"file", required_argument, NULL, 'f'}, {"key-prefix", required_argument, NULL, KEY_PREFIX},
	    {"state", required_argument, NULL, 's'}, {"target", required_argument, NULL, 't'},
	    {"limit", required_argument, NULL, 'n'}, {"all", no_argument, NULL, ALL_PAGES},
	    {"force", no_argument, NULL, FORCE}, {"dry-run", no_argument, NULL, DRY_RUN},
	    {"for", required_argument, NULL, FOR}, {"why", required_argument, NULL, WHY},
	    {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
	int option, error = 0;

	while (error == 0 && (option = getopt_long(argc, argv, "a:jX:H:d:k:b:p:f:s:t:n:h", names, NULL)) != -1) {
		if (option == 'h') {
			usage(stdout);
			return -1;
		}
		if (option != '?' && (verbs_of(option) & (int)options->verb) == 0)
			return wrong("this option does not belong to", verbs[verb].name);
		error = parse_option(options, option, optarg);
	}
	options->words = argv + optind;
	options->words_len = argc - optind;
	if (error == 0 && (options->words_len < verbs[verb].words_min || options->words_len > verbs[verb].words_max))
		return wrong("usage: rea tasks COMMAND [OPTION]... WORDS, here with the words of", verbs[verb].name);
	return error;
}

/* A number of milliseconds or seconds, as the API counts. -1: none, told. */
static json_int_t read_number(const char *text, const char *option)
{
	uint64_t number;

	if (rea_slice_to_u64(rea_slice_of(text), &number) && number < INT64_MAX)
		return (json_int_t)number;
	fprintf(stderr, "rea tasks: %s is a whole number: %s\n", option, text);
	return -1;
}

static int finish(void)
{
	if (fflush(stdout) == 0)
		return 0;
	fprintf(stderr, "rea tasks: cannot write: %s\n", strerror(errno));
	return 1;
}

/* ---- submit ---- */

static bool set(json_t *object, const char *name, json_t *value)
{
	return json_object_set_new(object, name, value) == 0 || (tasks_out_of_memory(), false);
}

static bool set_text(json_t *object, const char *name, const char *text)
{
	if (text == NULL)
		return true;
	if (json_object_set_new(object, name, json_string(text)) == 0)
		return true;
	wrong("not UTF-8", name);
	return false;
}

static bool set_number(json_t *object, const char *name, const char *option, const char *text)
{
	json_int_t number = text != NULL ? read_number(text, option) : 0;

	return text == NULL || (number >= 0 && set(object, name, json_integer(number)));
}

/* "user-service/users/42" or a URL. */
static bool set_target(json_t *object, const char *word)
{
	const char *slash = strchr(word, '/');

	if (strstr(word, "://") != NULL)
		return set_text(object, "url", word);
	if (slash == NULL || slash == word) {
		wrong("where to? SERVICE/PATH or a URL is expected", word);
		return false;
	}
	return set(object, "service", json_stringn(word, (size_t)(slash - word))) && set_text(object, "path", slash);
}

static bool set_header(json_t *headers, const char *line)
{
	const char *colon = strchr(line, ':'), *value = colon != NULL ? colon + 1 : "";
	char *name = colon != NULL ? strndup(line, (size_t)(colon - line)) : NULL;
	bool good;

	if (colon == NULL || colon == line) {
		free(name);
		wrong("a header is NAME: VALUE", line);
		return false;
	}
	while (*value == ' ' || *value == '\t')
		value++;
	good = name != NULL && set_text(headers, name, value);
	free(name);
	return good;
}

static bool set_headers(json_t *object, const struct options *options)
{
	json_t *headers = options->headers_len > 0 ? json_object() : NULL;
	bool good = true;

	if (headers == NULL)
		return true;
	for (size_t i = 0; good && i < options->headers_len; i++)
		good = set_header(headers, options->headers[i]);
	return set(object, "headers", headers) && good;
}

/* "never_sent,failed" as an array. */
static json_t *read_words(const char *text)
{
	json_t *array = json_array();

	for (size_t length; *text != '\0'; text += length + (text[length] == ',')) {
		length = strcspn(text, ",");
		json_array_append_new(array, json_stringn(text, length));
	}
	return array;
}

/* A value as JSON if it is some, else a text, or words for the one key that takes a list. */
static json_t *read_value(const char *key, const char *text)
{
	json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);

	if (value != NULL)
		return value;
	return strcmp(key, "retry-on") == 0 ? read_words(text) : json_string(text);
}

static bool set_policy(json_t *object, const struct options *options)
{
	json_t *policy = options->policy_len > 0 ? json_object() : NULL;
	bool good = true;

	if (policy == NULL)
		return true;
	for (size_t i = 0; good && i < options->policy_len; i++) {
		const char *equal = strchr(options->policy[i], '=');
		char *key = equal != NULL ? strndup(options->policy[i], (size_t)(equal - options->policy[i])) : NULL;

		if (equal == NULL)
			wrong("--policy is KEY=VALUE", options->policy[i]);
		good = key != NULL && set(policy, key, read_value(key, equal + 1));
		free(key);
	}
	return set(object, "policy", policy) && good;
}

static char *to_base64(const char *data, size_t length)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *text = malloc((length + 2) / 3 * 4 + 1), *out = text;

	for (size_t i = 0; text != NULL && i < length; i += 3) {
		uint32_t left = (uint32_t)(length - i < 3 ? length - i : 3), bits = 0;

		for (uint32_t j = 0; j < 3; j++)
			bits = bits << 8 | (j < left ? (unsigned char)data[i + j] : 0);
		for (uint32_t j = 0; j < 4; j++)
			*out++ = j <= left ? digits[bits >> (18 - 6 * j) & 63] : '=';
	}
	if (text != NULL)
		*out = '\0';
	return text;
}

/* As text where it is text. */
static bool set_bytes(json_t *object, const char *data, size_t length)
{
	json_t *text = json_stringn(length > 0 ? data : "", length);
	char *base64;
	bool good;

	if (text != NULL)
		return set(object, "body", text);
	base64 = to_base64(data, length);
	good = base64 != NULL ? set_text(object, "body_base64", base64) : (tasks_out_of_memory(), false);
	free(base64);
	return good;
}

static FILE *open_input(const char *path)
{
	FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");

	if (file == NULL)
		fprintf(stderr, "rea tasks: cannot read %s: %s\n", path, strerror(errno));
	return file;
}

static void close_input(FILE *file)
{
	if (file != stdin)
		fclose(file);
}

static bool set_file(json_t *object, const char *path)
{
	FILE *file = open_input(path);
	struct rea_buffer bytes = {0};
	size_t length = 1;
	bool good = file != NULL;

	while (good && length > 0) {
		good = rea_buffer_reserve(&bytes, 65536) == 0 || (tasks_out_of_memory(), false);
		length = good ? fread(bytes.data + bytes.end, 1, 65536, file) : 0;
		bytes.end += length;
	}
	if (good && ferror(file)) {
		fprintf(stderr, "rea tasks: cannot read %s: %s\n", path, strerror(errno));
		good = false;
	}
	good = good && set_bytes(object, bytes.data + bytes.start, rea_buffer_length(&bytes));
	rea_buffer_fini(&bytes);
	if (file != NULL)
		close_input(file);
	return good;
}

static bool set_body(json_t *object, const char *body)
{
	if (body == NULL)
		return true;
	return body[0] == '@' ? set_file(object, body + 1) : set_bytes(object, body, strlen(body));
}

/* NULL: wrong options, told. */
static json_t *submit_of(const struct options *options)
{
	json_t *object = json_object();

	if (object != NULL && set_target(object, options->words[0]) && set_text(object, "method", options->method) &&
	    set_headers(object, options) && set_body(object, options->body) && set_text(object, "key", options->key) &&
	    set_text(object, "biz_id", options->biz_id) && set_policy(object, options) &&
	    set_text(object, "not_before", options->not_before) &&
	    set_number(object, "delay_ms", "--delay-ms", options->delay) &&
	    set_number(object, "max_age_ms", "--max-age-ms", options->max_age) &&
	    set_text(object, "mode", options->sync_first ? "sync-first" : NULL))
		return object;
	json_decref(object);
	return NULL;
}

static int submit_one(struct tasks_client *client, const struct options *options)
{
	json_t *submit = submit_of(options);
	bool good;

	if (submit == NULL)
		return 2;
	good = tasks_ask(client, "POST", "/v1/tasks", submit);
	json_decref(submit);
	if (!good)
		return 1;
	if (options->json)
		show_json(client->document);
	else
		show_task(client->document);
	return finish();
}

static int submit_file(struct tasks_client *client, const struct options *options)
{
	struct bulk_options bulk = {.name = strcmp(options->file, "-") == 0 ? "standard input" : options->file,
	    .key_prefix = options->key_prefix != NULL ? options->key_prefix : "bulk",
	    .json = options->json,
	    .progress = isatty(STDERR_FILENO)};
	FILE *file = open_input(options->file);
	int code;

	if (file == NULL)
		return 1;
	code = bulk_submit(client, file, &bulk);
	close_input(file);
	return code != 0 ? code : finish();
}

static int submit(struct tasks_client *client, const struct options *options)
{
	bool one = options->method || options->body || options->key || options->biz_id || options->not_before ||
		   options->delay || options->max_age || options->sync_first || options->headers_len > 0 ||
		   options->policy_len > 0 || options->words_len > 0;

	if (options->file == NULL && options->words_len == 0)
		return wrong("where to? SERVICE/PATH or a URL is expected, or --file", NULL);
	if (options->file == NULL && options->key_prefix != NULL)
		return wrong("--key-prefix is for the lines of --file", NULL);
	if (options->file != NULL && one)
		return wrong("with --file each line says for itself where it goes and how", NULL);
	return options->file != NULL ? submit_file(client, options) : submit_one(client, options);
}

/* ---- looking ---- */

static char *list_path(struct tasks_client *client, const struct options *options, size_t limit, const char *cursor)
{
	char number[32], *path = strdup("/v1/tasks");

	snprintf(number, sizeof(number), "%zu", limit);
	path = tasks_query(client, path, "state", options->state);
	path = tasks_query(client, path, "target", options->target);
	path = tasks_query(client, path, "biz_id", options->biz_id);
	path = tasks_query(client, path, "limit", number);
	return tasks_query(client, path, "cursor", cursor);
}

/* One page. False: told. */
static bool ask_page(struct tasks_client *client, char *path)
{
	bool good = path != NULL && tasks_ask(client, "GET", path, NULL);

	free(path);
	return good;
}

/* Where the next page begins, as a text of our own; NULL = it was the last. */
static char *next_of(const json_t *document)
{
	const char *next = json_string_value(json_object_get(document, "next"));

	return next != NULL ? strdup(next) : NULL;
}

static int list(struct tasks_client *client, const struct options *options)
{
	json_int_t limit = options->limit != NULL ? read_number(options->limit, "--limit") : LIST_DEFAULT;
	size_t left = options->all ? SIZE_MAX : (size_t)limit;
	char *cursor = NULL;
	bool titled = false, good;

	if (limit < 0)
		return 2;
	do {
		json_t *task;
		size_t i;

		good = ask_page(client, list_path(client, options, left < PAGE ? left : PAGE, cursor));
		free(cursor);
		cursor = NULL;
		if (!good)
			break;
		if (!options->json && !titled)
			show_tasks_title();
		titled = true;
		json_array_foreach(json_object_get(client->document, "tasks"), i, task)
		{
			(options->json ? show_json : show_task_line)(task);
			left--;
		}
		cursor = next_of(client->document);
	} while (cursor != NULL && left > 0);
	if (good && cursor != NULL && !options->json)
		fprintf(stderr, "rea tasks: there are more; --limit N or --all shows them\n");
	free(cursor);
	return good ? finish() : 1;
}

static int show_attempts(struct tasks_client *client, const struct options *options)
{
	char *after = NULL;
	bool titled = false, good;

	do {
		json_t *attempt;
		size_t i;

		good = ask_page(client,
		    tasks_query(client, tasks_path(client, "/v1/tasks", options->words[0], "/attempts"), "after", after));
		free(after);
		after = NULL;
		if (!good)
			return 1;
		json_array_foreach(json_object_get(client->document, "attempts"), i, attempt)
		{
			if (!options->json && !titled)
				show_attempts_title();
			titled = true;
			(options->json ? show_json : show_attempt_line)(attempt);
		}
		after = next_of(client->document);
	} while (after != NULL);
	return finish();
}

static int show(struct tasks_client *client, const struct options *options)
{
	if (!ask_page(client, tasks_path(client, "/v1/tasks", options->words[0], "")))
		return 1;
	if (options->json)
		show_json(client->document);
	else
		show_task(client->document);
	return show_attempts(client, options);
}

static int targets(struct tasks_client *client, const struct options *options)
{
	json_t *target;
	size_t i;

	if (!tasks_ask(client, "GET", "/v1/targets", NULL))
		return 1;
	if (!options->json)
		show_targets_title();
	json_array_foreach(json_object_get(client->document, "targets"), i, target)
	{
		(options->json ? show_json : show_target_line)(target);
	}
	return finish();
}

/* ---- changing ---- */

/* POST to something of that name, and show what it is then. */
static bool act(struct tasks_client *client, const struct options *options, const char *before, const char *name,
    const char *after, const json_t *body, void (*show_line)(const json_t *json))
{
	char *path = tasks_path(client, before, name, after);
	bool good = path != NULL && tasks_ask(client, "POST", path, body);

	free(path);
	if (good)
		(options->json ? show_json : show_line)(client->document);
	return good;
}

/* Each of the tasks that were named; one that cannot be does not keep the others from it. */
static int act_on_tasks(struct tasks_client *client, const struct options *options, const char *action, const json_t *body)
{
	int code = 0;

	for (int i = 0; i < options->words_len; i++)
		if (!act(client, options, "/v1/tasks", options->words[i], action, body, show_task_line))
			code = 1;
	return code != 0 ? (void)finish(), code : finish();
}

static bool set_states(json_t *object, const char *states)
{
	return states == NULL || set(object, "state", read_words(states));
}

static int replay_many(struct tasks_client *client, const struct options *options, json_t *body)
{
	const json_t *document;

	if (!set_states(body, options->state) || !set_text(body, "target", options->target) ||
	    !set_text(body, "biz_id", options->biz_id) || !set_number(body, "limit", "--limit", options->limit) ||
	    (options->dry_run && !set(body, "dry_run", json_true())))
		return 2;
	if (!tasks_ask(client, "POST", "/v1/tasks/replay", body))
		return 1;
	document = client->document;
	if (options->json)
		show_json(document);
	else
		printf("%" JSON_INTEGER_FORMAT " matched, %" JSON_INTEGER_FORMAT " replayed%s\n",
		    json_integer_value(json_object_get(document, "matched")),
		    json_integer_value(json_object_get(document, "replayed")),
		    json_is_string(json_object_get(document, "next")) ? "; there are more" : "");
	return finish();
}

static int replay(struct tasks_client *client, const struct options *options)
{
	bool filter = options->state || options->target || options->biz_id || options->limit || options->dry_run;
	json_t *body = json_object();
	int code = 2;

	if (filter == (options->words_len > 0))
		wrong(filter ? "either IDs or a filter" : "which? IDs, or --state, --target or --biz-id", NULL);
	else if (body == NULL)
		code = tasks_out_of_memory();
	else if ((!options->force || set(body, "force", json_true())) &&
		 set_number(body, "delay_ms", "--delay-ms", options->delay))
		code = filter ? replay_many(client, options, body) : act_on_tasks(client, options, "/replay", body);
	json_decref(body);
	return code;
}

static int pause_target(struct tasks_client *client, const struct options *options)
{
	json_int_t seconds = options->for_s != NULL ? read_number(options->for_s, "--for") : 0;
	json_t *body = json_object();
	int code = 2;

	if (seconds >= 0 && seconds <= INT64_MAX / 1000 && set_text(body, "why", options->why) &&
	    (options->for_s == NULL || set(body, "for_ms", json_integer(seconds * 1000))))
		code = act(client, options, "/v1/targets", options->words[0], "/pause", body, show_target_line) ? finish()
														: 1;
	json_decref(body);
	return code;
}

static int act_on_target(struct tasks_client *client, const struct options *options, const char *action)
{
	return act(client, options, "/v1/targets", options->words[0], action, NULL, show_target_line) ? finish() : 1;
}

static int run_verb(struct tasks_client *client, const struct options *options)
{
	switch (options->verb) {
	case SUBMIT:
		return submit(client, options);
	case LIST:
		return list(client, options);
	case SHOW:
		return show(client, options);
	case CANCEL:
		return act_on_tasks(client, options, "/cancel", NULL);
	case REPLAY:
		return replay(client, options);
	case TARGETS:
		return targets(client, options);
	case PAUSE:
		return pause_target(client, options);
	case RESUME:
		return act_on_target(client, options, "/resume");
	case DRAIN:
		return act_on_target(client, options, "/drain");
	case ALL:
		break;
	}
	return 2;
}

int cmd_tasks(int argc, char **argv)
{
	struct options options = {.admin = NULL};
	struct tasks_client client;
	size_t verb = 0;
	int code;

	if (argc < 2)
		return usage(stderr);
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return usage(stdout);
	while (verb < VERBS && strcmp(argv[1], verbs[verb].name) != 0)
		verb++;
	if (verb == VERBS)
		return wrong("there is no command", argv[1]);
	options.verb = verbs[verb].verb;
	code = parse_options(argc - 1, argv + 1, verb, &options);
	if (code != 0)
		return code > 0 ? code : 0;
	if (!tasks_client_open(&client, "rea tasks", options.admin))
		return 1;
	code = run_verb(&client, &options);
	tasks_client_close(&client);
	return code;
}
