/*
 * rea timeline: what happened to the calls and tasks of one business request, from a running rea, from its database of events, or from its event log.
 */
#include "cmd.h"

#include "admin/task_line.h"
#include "base/buffer.h"
#include "event_read.h"
#include "terminal.h"

#include <rea/config.h>
#include <rea/event_sqlite.h>

#include <curl/curl.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ADMIN_DEFAULT "127.0.0.1:7071"
#define REPLY_MAX ((size_t)64 * 1024 * 1024)
#define CONNECT_TIMEOUT_S 2L
#define TIMEOUT_S 20L
#define NOTHING_ANSWERS (-1)

struct options {
	const char *biz_id;
	const char *admin;
	const char *file; /* NULL = ask the admin API */
	const char *config;
	const char *fallback; /* read when no rea answers; NULL = nothing */
	bool json;
};

/* An event with what owns its texts. */
struct item {
	json_t *json;
	char *line; /* as it stood in the file; NULL when it came from the admin API */
	struct rea_event event;
	size_t order;
};

struct items {
	struct item *list;
	size_t length;
};

static int usage(FILE *out)
{
	fprintf(out, "usage: rea timeline [--admin ADDRESS | --config FILE | --file FILE] [--json] BIZ_ID\n\n"
		     "Prints what happened to the calls and tasks of one business request, attempt by attempt.\n\n"
		     "  -a, --admin ADDRESS  where a running rea has its admin listener (default: " ADMIN_DEFAULT ")\n"
		     "  -c, --config FILE    take that address from a rea.yaml; if nothing answers there, read the\n"
		     "                       events.sqlite or events.file that it names\n"
		     "  -f, --file FILE      read a database of events, or an event log of JSON lines, instead\n"
		     "  -j, --json           print the events as JSON\n"
		     "  -h, --help           print this\n");
	return out == stderr ? 2 : 0;
}

/* ---- items ---- */

static void items_free(struct items *items)
{
	for (size_t i = 0; i < items->length; i++) {
		json_decref(items->list[i].json);
		free(items->list[i].line);
	}
	free(items->list);
}

/* Takes json and line. False: out of memory, both are freed. */
static bool items_add(struct items *items, json_t *json, char *line, const struct rea_event *event)
{
	struct item *grown = realloc(items->list, (items->length + 1) * sizeof(*grown));

	if (grown == NULL) {
		json_decref(json);
		free(line);
		return false;
	}
	items->list = grown;
	items->list[items->length] = (struct item){json, line, *event, items->length};
	items->length++;
	return true;
}

static int by_start(const void *left, const void *right)
{
	const struct item *a = left, *b = right;
	uint64_t a_ns = a->event.attempt_start_ns, b_ns = b->event.attempt_start_ns;

	if (a_ns != b_ns)
		return a_ns < b_ns ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

/* ---- printing ---- */

static void write_out(const char *text, size_t length, void *user_data)
{
	fwrite(text, 1, length, user_data);
}

static void print_timeline(const struct items *items)
{
	struct rea_timeline timeline;

	rea_timeline_begin(&timeline, write_out, stdout);
	timeline.color = terminal_wants_color(STDOUT_FILENO);
	for (size_t i = 0; i < items->length; i++)
		rea_timeline_event(&timeline, &items->list[i].event);
}

/* The same document as the admin API's. False: out of memory. */
static bool print_json(const struct items *items, const char *biz_id, uint64_t left_out)
{
	size_t length = strlen(biz_id), size = length * 6 + 3;
	char *quoted = malloc(size);

	if (quoted == NULL)
		return false;
	rea_json_string(biz_id, length, quoted, size);
	printf("{\"biz_id\":%s,\"left_out\":%" PRIu64 ",\"events\":[", quoted, left_out);
	for (size_t i = 0; i < items->length; i++)
		printf("%s\n%s", i > 0 ? "," : "", items->list[i].line);
	printf("],\"tasks\":[]}\n");
	free(quoted);
	return true;
}

static int finish(void)
{
	if (fflush(stdout) == 0)
		return 0;
	fprintf(stderr, "rea: cannot write: %s\n", strerror(errno));
	return 1;
}

static int out_of_memory(void)
{
	fprintf(stderr, "rea: out of memory\n");
	return 1;
}

/* ---- from a file ---- */

/* Keeps the line's event if it is one of biz_id. A line that is no event is told and skipped: the last one may be
 * half written. */
static bool take_line(struct items *items, const struct options *options, const char *line, size_t length, size_t number)
{
	json_error_t error;
	json_t *json = json_loadb(line, length, 0, &error);
	struct rea_event event;
	char *copy;

	if (json == NULL || !event_read(json, &event)) {
		fprintf(stderr, "rea: %s:%zu: not an event, skipped\n", options->file, number);
		json_decref(json);
		return true;
	}
	if (event.biz_id.length != strlen(options->biz_id) ||
	    memcmp(event.biz_id.text, options->biz_id, event.biz_id.length) != 0) {
		json_decref(json);
		return true;
	}
	copy = strndup(line, length);
	if (copy == NULL) {
		json_decref(json);
		return false;
	}
	return items_add(items, json, copy, &event);
}

static bool read_lines(FILE *file, const struct options *options, struct items *items)
{
	char *line = NULL;
	size_t size = 0, number = 0;
	ssize_t length;
	bool good = true;

	while (good && (length = getline(&line, &size, file)) >= 0) {
		number++;
		while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r'))
			length--;
		if (length > 0)
			good = take_line(items, options, line, (size_t)length, number);
	}
	free(line);
	return good;
}

static int show_items(struct items *items, const struct options *options, uint64_t left_out)
{
	if (items->length == 0) {
		fprintf(stderr, "rea: %s has no event of biz_id %s\n", options->file, options->biz_id);
		return 1;
	}
	qsort(items->list, items->length, sizeof(*items->list), by_start);
	if (!options->json)
		print_timeline(items);
	else if (!print_json(items, options->biz_id, left_out))
		return out_of_memory();
	return finish();
}

static int cannot_read(const char *path)
{
	fprintf(stderr, "rea: cannot read %s: %s\n", path, strerror(errno));
	return 1;
}

/* ---- from a database ---- */

static bool is_database(FILE *file)
{
	static const char magic[16] = "SQLite format 3";
	char head[sizeof(magic)];
	size_t length = fread(head, 1, sizeof(head), file);

	rewind(file);
	return length == sizeof(magic) && memcmp(head, magic, sizeof(magic)) == 0;
}

/* False: out of memory. */
static bool take_row(struct items *items, const struct rea_event *event)
{
	char line[REA_EVENT_JSON_MAX];
	char *copy;

	rea_event_json(event, line, sizeof(line));
	copy = strdup(line);
	return copy != NULL && items_add(items, NULL, copy, event);
}

static void tell_left_out(uint64_t left_out)
{
	if (left_out > 0)
		fprintf(stderr, "rea: %" PRIu64 " older events are left out\n", left_out);
}

static int show_page(const struct rea_event_page *page, const struct options *options)
{
	struct items items = {NULL, 0};
	bool good = true;
	int code;

	if (page->damaged > 0)
		fprintf(stderr, "rea: %s: %" PRIu64 " damaged events are skipped\n", options->file, page->damaged);
	tell_left_out(page->left_out);
	for (size_t i = 0; i < page->events_len && good; i++)
		good = take_row(&items, &page->events[i]);
	code = good ? show_items(&items, options, page->left_out) : out_of_memory();
	items_free(&items);
	return code;
}

static int show_database(const struct options *options)
{
	const struct rea_text biz_id = {options->biz_id, strlen(options->biz_id)};
	struct rea_event_sqlite_reader *reader;
	struct rea_event_page page;
	struct rea_error_info info = {.message = ""};
	int code;

	if (rea_event_sqlite_reader_new(options->file, NULL, &reader) != 0)
		return out_of_memory();
	if (rea_event_sqlite_read(reader, biz_id, REA_NEVER, REA_EVENT_SQLITE_PAGE_MAX, &page, &info) == 0) {
		code = show_page(&page, options);
	} else {
		fprintf(stderr, "rea: cannot read %s: %s\n", options->file, info.message);
		code = 1;
	}
	rea_event_sqlite_reader_free(reader);
	return code;
}

/* ---- from either ---- */

static int show_file(const struct options *options)
{
	FILE *file = fopen(options->file, "r");
	struct items items = {NULL, 0};
	int code;

	if (file == NULL)
		return cannot_read(options->file);
	if (is_database(file)) {
		fclose(file);
		return show_database(options);
	}
	if (!read_lines(file, options, &items))
		code = out_of_memory();
	else if (ferror(file))
		code = cannot_read(options->file);
	else
		code = show_items(&items, options, 0);
	fclose(file);
	items_free(&items);
	return code;
}

/* ---- from the admin API ---- */

static size_t take_reply(char *data, size_t size, size_t count, void *user_data)
{
	struct rea_buffer *reply = user_data;

	if (size * count > REPLY_MAX - rea_buffer_length(reply) || rea_buffer_append(reply, data, size * count) != 0)
		return 0;
	return size * count;
}

static char *timeline_url(CURL *curl, const struct options *options)
{
	char *id = curl_easy_escape(curl, options->biz_id, (int)strlen(options->biz_id)), *url = NULL;

	if (id != NULL && asprintf(&url, "http://%s/v1/timelines/%s", options->admin, id) < 0)
		url = NULL;
	curl_free(id);
	return url;
}

/* Returns the exit code, or NOTHING_ANSWERS; then the reply and its status. */
static int fetch(CURL *curl, const char *url, const struct options *options, struct rea_buffer *reply, long *ret_status)
{
	char error[CURL_ERROR_SIZE] = "";
	CURLcode code;

	curl_easy_setopt(curl, CURLOPT_URL, url);
	/* A business id may be "..": libcurl must not take it for a step up. */
	curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http");
	/* rea itself may be the http_proxy of this environment. */
	curl_easy_setopt(curl, CURLOPT_PROXY, "");
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_TIMEOUT_S);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT, TIMEOUT_S);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_reply);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, reply);
	code = curl_easy_perform(curl);
	if (code == CURLE_COULDNT_CONNECT && options->fallback != NULL)
		return NOTHING_ANSWERS;
	if (code != CURLE_OK) {
		fprintf(stderr, "rea: cannot ask the admin API at %s: %s\n", options->admin,
		    error[0] != '\0' ? error : curl_easy_strerror(code));
		return 1;
	}
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, ret_status);
	return 0;
}

static int tell_refusal(const struct options *options, const json_t *document, long status)
{
	const char *detail = json_string_value(json_object_get(document, "detail"));

	if (status == 404 && detail != NULL)
		fprintf(stderr, "rea: nothing about biz_id %s: %s\n", options->biz_id, detail);
	else
		fprintf(stderr, "rea: the admin API at %s answered %ld%s%s\n", options->admin, status,
		    detail ? ": " : "", detail ? detail : "");
	return 1;
}

static void print_tasks(const json_t *tasks)
{
	const json_t *task;
	size_t i;

	json_array_foreach(tasks, i, task)
	{
		char line[TASK_LINE_MAX];

		task_line(task, line, sizeof(line));
		puts(line);
	}
}

static int show_document(const json_t *document)
{
	json_t *events = json_object_get(document, "events"), *json;
	json_int_t left_out = json_integer_value(json_object_get(document, "left_out"));
	const char *incomplete = json_string_value(json_object_get(document, "incomplete"));
	struct items items = {NULL, 0};
	int code = 0;
	size_t i;

	if (incomplete != NULL)
		fprintf(stderr, "rea: incomplete: %s\n", incomplete);
	json_array_foreach(events, i, json)
	{
		struct rea_event event;

		if (!event_read(json, &event))
			fprintf(stderr, "rea: event %zu is none that this version knows, skipped\n", i + 1);
		else if (!items_add(&items, json_incref(json), NULL, &event)) {
			code = out_of_memory();
			break;
		}
	}
	tell_left_out(left_out > 0 ? (uint64_t)left_out : 0);
	if (code == 0) {
		print_timeline(&items);
		print_tasks(json_object_get(document, "tasks"));
		code = finish();
	}
	items_free(&items);
	return code;
}

static int show_reply(const struct options *options, const struct rea_buffer *reply, long status)
{
	json_t *document = json_loadb(reply->data ? rea_buffer_data(reply) : "", rea_buffer_length(reply), 0, NULL);
	int code;

	if (status != 200)
		code = tell_refusal(options, document, status);
	else if (!json_is_array(json_object_get(document, "events"))) {
		fprintf(stderr, "rea: what answers at %s is not the admin API of rea\n", options->admin);
		code = 1;
	} else if (options->json) {
		fwrite(rea_buffer_data(reply), 1, rea_buffer_length(reply), stdout);
		code = finish();
	} else
		code = show_document(document);
	json_decref(document);
	return code;
}

static int show_admin(const struct options *options)
{
	CURL *curl = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? curl_easy_init() : NULL;
	char *url = curl ? timeline_url(curl, options) : NULL;
	struct rea_buffer reply = {0};
	long status = 0;
	int code;

	if (url == NULL)
		code = out_of_memory();
	else
		code = fetch(curl, url, options, &reply, &status);
	if (code == 0)
		code = show_reply(options, &reply, status);
	rea_buffer_fini(&reply);
	free(url);
	curl_easy_cleanup(curl);
	curl_global_cleanup();
	return code;
}

/* Returns 0, the exit code, or -1 after --help. */
static int parse_options(int argc, char **argv, struct options *options)
{
	static const struct option names[] = {{"admin", required_argument, NULL, 'a'},
	    {"config", required_argument, NULL, 'c'}, {"file", required_argument, NULL, 'f'},
	    {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
	int option;

	while ((option = getopt_long(argc, argv, "a:c:f:jh", names, NULL)) != -1)
		switch (option) {
		case 'a':
			options->admin = optarg;
			break;
		case 'c':
			options->config = optarg;
			break;
		case 'f':
			options->file = optarg;
			break;
		case 'j':
			options->json = true;
			break;
		case 'h':
			usage(stdout);
			return -1;
		default:
			return usage(stderr);
		}
	if (optind != argc - 1 || argv[optind][0] == '\0' ||
	    (options->admin != NULL) + (options->file != NULL) + (options->config != NULL) > 1)
		return usage(stderr);
	options->biz_id = argv[optind];
	if (options->admin == NULL)
		options->admin = ADMIN_DEFAULT;
	return 0;
}

/* What the configuration says of where events are. */
static int show_configured(struct options *options)
{
	struct rea_config *config;
	const struct rea_config_settings *settings;
	struct rea_error_info error;
	int code = rea_config_load(options->config, NULL, &config, &error);

	if (code != 0) {
		fprintf(stderr, "rea: %s:%u:%u: %s%s%s\n", error.file, error.line, error.column, error.key,
		    error.key[0] != '\0' ? ": " : "", error.message);
		return 2;
	}
	settings = rea_config_settings(config);
	options->admin = settings->admin;
	options->fallback = settings->events.sqlite;
	if (options->fallback == NULL && settings->events.file != NULL && strcmp(settings->events.file, "-") != 0)
		options->fallback = settings->events.file;
	code = show_admin(options);
	if (code == NOTHING_ANSWERS) {
		fprintf(stderr, "rea: nothing answers at %s; this is what %s has\n", options->admin, options->fallback);
		options->file = options->fallback;
		code = show_file(options);
	}
	rea_config_unref(config);
	return code;
}

int cmd_timeline(int argc, char **argv)
{
	struct options options = {.biz_id = NULL};
	int code = parse_options(argc, argv, &options);

	if (code != 0)
		return code > 0 ? code : 0;
	if (options.config != NULL)
		return show_configured(&options);
	return options.file ? show_file(&options) : show_admin(&options);
}
