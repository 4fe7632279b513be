/*
 * rea call: one HTTP call through the engine, with the policy, contract and instances of a rea.yaml, or to a URL as it stands. The reply goes to standard
 * output, what happened and why to standard error.
 */
#include "cmd.h"

#include "base/buffer.h"
#include "discovery/members.h"
#include "discovery/permits.h"
#include "policy_values.h"
#include "terminal.h"

#include <rea/curl.h>
#include <rea/guard.h>

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define HEADERS_MAX 64
#define KEYS_MAX 32
#define INSTANCES_MAX 256
#define ATTEMPTS_URL "2" /* retries of a URL, which has one place to go */

/* Exit codes, besides 0, 1 and 2 of every command. */
enum { EXIT_NEVER_SENT = 3, EXIT_PERMANENT = 4, EXIT_REFUSED = 5, EXIT_AMBIGUOUS = 6, EXIT_CANCELLED = 130 };

/* What holds for a URL without --config, unless --policy says otherwise. */
static const struct policy_value defaults[] = {
    {"enabled", "true"},
    {"max-retry-same-instance", ATTEMPTS_URL},
    {"max-retry-next-instance", "0"},
    {"attempt-timeout-ms", "10000"},
    {"deadline-ms", "30000"},
};

struct options {
	const char *config, *method, *body, *key, *biz_id, *word;
	const char *headers[HEADERS_MAX];
	size_t headers_len;
	const char *policy[KEYS_MAX];
	size_t policy_len;
	struct rea_grant grant; /* --permission; NONE = nothing was said */
	bool make_key, include, quiet;
};

/* The call, and what it is made of. */
struct caller {
	const struct options *options;
	CURL *easy;
	struct rea_curl *curl;
	struct rea_config *config; /* NULL = without */
	struct rea_policy policy;  /* without a config */
	struct rea_curl_call call;
	struct curl_slist *headers;
	char *url;
	struct rea_buffer body;
	struct rea_instance items[INSTANCES_MAX];
	struct rea_instances instances;
	struct rea_timeline timeline;
	bool told; /* an event was */
	char detail[REA_EVENT_TEXT_MAX];
};

static int usage(FILE *out)
{
	fprintf(out,
	    "usage: rea call [OPTION]... URL | SERVICE/PATH\n\n"
	    "Makes one call, with retries where they are permitted, and tells what happened.\n\n"
	    "  -c, --config FILE         a rea.yaml: its services, contracts and policies\n"
	    "  -X, --method METHOD       default GET, with a body POST\n"
	    "  -H, --header 'NAME: V'    may be repeated\n"
	    "  -d, --data TEXT|@FILE     the body; @- is standard input\n"
	    "  -k, --key KEY             Idempotency-Key, the same on all attempts\n"
	    "  -K, --make-key            a random one\n"
	    "  -b, --biz-id ID           the business request that it belongs to\n"
	    "  -P, --permission WORD     safe, idempotent, idempotent_with_key: what you know of the callee\n"
	    "  -p, --policy KEY=VALUE    without --config: a key of rea.yaml's retry block; may be repeated\n"
	    "  -i, --include             print the reply's header lines too\n"
	    "  -q, --quiet               tell nothing\n"
	    "  -h, --help                print this\n\n"
	    "Exit codes: 0 success, 3 never sent, 4 refused for good (4xx), 5 failed or refused for now (5xx, 429),\n"
	    "6 not known (no reply), 130 interrupted; 1 and 2 as ever.\n");
	return out == stderr ? 2 : 0;
}

static int wrong(const char *message, const char *what)
{
	fprintf(stderr, "rea call: %s%s%s\n", message, what ? ": " : "", what ? what : "");
	return 2;
}

static int out_of_memory(void)
{
	fprintf(stderr, "rea call: out of memory\n");
	return 1;
}

static int tell(const struct rea_error_info *info)
{
	fprintf(stderr, "rea call: ");
	if (info->file[0] != '\0' && info->line > 0)
		fprintf(stderr, "%s:%u:%u: ", info->file, info->line, info->column);
	else if (info->file[0] != '\0')
		fprintf(stderr, "%s: ", info->file);
	fprintf(stderr, "%s%s%s\n", info->key, info->key[0] != '\0' ? ": " : "", info->message);
	return 2;
}

/* ---- options ---- */

static int read_permission(struct options *options, const char *word)
{
	static const enum rea_permission known[] = {
	    REA_PERMISSION_SAFE, REA_PERMISSION_IDEMPOTENT, REA_PERMISSION_IDEMPOTENT_WITH_KEY, REA_PERMISSION_FORBID};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(word, rea_permission_name(known[i])) == 0) {
			options->grant = (struct rea_grant){known[i], REA_PERMISSION_SOURCE_CALLER};
			return 0;
		}
	return wrong("--permission is safe, idempotent, idempotent_with_key or forbid", word);
}

static int add(const char **list, size_t *length, size_t max, const char *value)
{
	if (*length == max)
		return wrong("too many of this option", value);
	list[(*length)++] = value;
	return 0;
}

static int parse_option(struct options *options, int option, const char *value)
{
	switch (option) {
	case 'c':
		options->config = value;
		return 0;
	case 'X':
		options->method = value;
		return 0;
	case 'H':
		return strchr(value, ':') != NULL ? add(options->headers, &options->headers_len, HEADERS_MAX, value)
						  : wrong("a header is NAME: VALUE", value);
	case 'd':
		options->body = value;
		return 0;
	case 'k':
		options->key = value;
		return 0;
	case 'K':
		options->make_key = true;
		return 0;
	case 'b':
		options->biz_id = value;
		return 0;
	case 'P':
		return read_permission(options, value);
	case 'p':
		return policy_value_is_one(value) ? add(options->policy, &options->policy_len, KEYS_MAX, value)
						  : wrong("--policy is KEY=VALUE", value);
	case 'i':
		options->include = true;
		return 0;
	case 'q':
		options->quiet = true;
		return 0;
	default:
		return usage(stderr);
	}
}

/* Returns 0, the exit code, or -1 after --help. */
static int parse_options(int argc, char **argv, struct options *options)
{
	static const struct option names[] = {{"config", required_argument, NULL, 'c'},
	    {"method", required_argument, NULL, 'X'}, {"header", required_argument, NULL, 'H'},
	    {"data", required_argument, NULL, 'd'}, {"key", required_argument, NULL, 'k'},
	    {"make-key", no_argument, NULL, 'K'}, {"biz-id", required_argument, NULL, 'b'},
	    {"permission", required_argument, NULL, 'P'}, {"policy", required_argument, NULL, 'p'},
	    {"include", no_argument, NULL, 'i'}, {"quiet", no_argument, NULL, 'q'}, {"help", no_argument, NULL, 'h'},
	    {NULL, 0, NULL, 0}};
	int option, error = 0;

	while (error == 0 && (option = getopt_long(argc, argv, "c:X:H:d:k:Kb:P:p:iqh", names, NULL)) != -1) {
		if (option == 'h') {
			usage(stdout);
			return -1;
		}
		error = parse_option(options, option, optarg);
	}
	if (error == 0 && optind != argc - 1)
		return usage(stderr);
	if (error == 0 && options->config != NULL && options->policy_len > 0)
		return wrong("--policy is for calls without --config: the policy stands there", NULL);
	options->word = argv[optind];
	return error;
}

/* ---- where to ---- */

static bool is_url(const char *word)
{
	return strncmp(word, "http://", 7) == 0 || strncmp(word, "https://", 8) == 0;
}

/* The authority of a URL, as it stands. */
static struct rea_slice authority_of(const char *url)
{
	const char *start = strstr(url, "://") + 3;

	return rea_slice_make(start, strcspn(start, "/?#"));
}

/* What is found of a service's instances, and what was told last. */
struct finding {
	struct loop loop;
	char notice[REA_EVENT_TEXT_MAX];
};

static void on_changed(void *user_data)
{
	(void)user_data;
}

static void on_notice(const char *text, void *user_data)
{
	struct finding *finding = user_data;

	snprintf(finding->notice, sizeof(finding->notice), "%s", text);
}

static void on_settled(void *user_data)
{
	struct finding *finding = user_data;

	loop_stop(&finding->loop);
}

static void take_instances(struct caller *caller, const struct roster_instance *items, size_t len)
{
	for (size_t i = 0; i < len && caller->instances.count < INSTANCES_MAX; i++) {
		struct rea_instance *instance = &caller->items[caller->instances.count++];
		const char *method = caller->call.method != NULL ? caller->call.method : "";

		*instance = (struct rea_instance){.id = items[i].id, .weight = items[i].weight, .tier = items[i].tier};
		instance->grant.permission = permits_of(items[i].permits, rea_slice_of(method));
		if (instance->grant.permission != REA_PERMISSION_NONE)
			instance->grant.source = REA_PERMISSION_SOURCE_REGISTRY;
	}
}

/* As `rea serve` finds them, once. */
static int find_instances(struct caller *caller, const struct rea_config_service *service, struct finding *finding)
{
	const struct members_events events = {on_changed, on_notice, on_settled, finding};
	struct members *members = members_new(&finding->loop, service->name, &events);
	const struct roster_instance *items;
	size_t len;
	int error = members == NULL ? REA_ERR_NOMEM : members_configure(members, caller->config);

	if (error == 0) {
		loop_run(&finding->loop);
		items = members_of(members, service->name, &len);
		take_instances(caller, items, len);
	}
	members_free(members);
	return error == 0 ? 0 : out_of_memory();
}

static int add_instances(struct caller *caller, const struct rea_config_service *service)
{
	struct finding finding = {.notice = ""};
	int error;

	if (loop_init(&finding.loop, uv_hrtime()) != 0)
		return out_of_memory();
	error = find_instances(caller, service, &finding);
	loop_fini(&finding.loop);
	if (error == 0 && caller->instances.count == 0 && finding.notice[0] != '\0')
		fprintf(stderr, "rea: %s\n", finding.notice);
	caller->instances.items = caller->items;
	caller->instances.balance = service->balance;
	caller->call.instances = &caller->instances;
	return error;
}

static const char *method_of(const struct options *options)
{
	return options->method != NULL ? options->method : options->body != NULL ? "POST" : "GET";
}

/* What the service's contract says of this request, and which policy holds for it. */
static void apply_contract(struct caller *caller, const struct rea_config_service *service, const char *path)
{
	const char *method = method_of(caller->options);
	const struct rea_operation *operation =
	    service->contract != NULL ? rea_contract_match(service->contract, method, strlen(method), path, strlen(path))
				      : NULL;

	caller->call.service = service->name;
	caller->call.options.policy = service->policy;
	if (operation == NULL)
		return;
	caller->call.method = operation->key;
	caller->call.options.policy = service->operation_policies[operation->index];
	caller->call.options.grant = rea_grant_combine(operation->grant, caller->options->grant);
	caller->call.make_key |= operation->generate_key;
}

/* path: with its leading slash. */
static int to_service(struct caller *caller, const struct rea_config_service *service, const char *path)
{
	const char *host = service->host != NULL ? service->host : service->name;

	if (asprintf(&caller->url, "http://%s%s", host, path) < 0) {
		caller->url = NULL;
		return out_of_memory();
	}
	apply_contract(caller, service, path);
	return add_instances(caller, service);
}

static int to_url(struct caller *caller, const char *url)
{
	struct rea_error_info info;

	caller->url = strdup(url);
	if (caller->url == NULL)
		return out_of_memory();
	if (caller->config != NULL)
		rea_config_policy(caller->config, NULL, NULL, &caller->policy);
	else if (policy_values_read(caller->options->policy, caller->options->policy_len, defaults,
		     sizeof(defaults) / sizeof(defaults[0]), &caller->policy, &info) != 0)
		return tell(&info);
	caller->call.options.policy = &caller->policy;
	return 0;
}

/* "SERVICE/PATH", "/SERVICE/PATH", or a URL; with a config one whose host names a service is a call to that. */
static int find_target(struct caller *caller)
{
	const char *word = caller->options->word, *slash;
	const struct rea_config_service *service;

	caller->call.options.grant = caller->options->grant;
	if (is_url(word)) {
		struct rea_slice authority = authority_of(word);
		const char *path = authority.data + authority.length;

		service = caller->config != NULL ? rea_config_find_host(caller->config, authority.data, authority.length)
						 : NULL;
		return service != NULL ? to_service(caller, service, *path == '/' ? path : "/") : to_url(caller, word);
	}
	if (caller->config == NULL)
		return wrong("without --config a URL is expected", word);
	word += *word == '/';
	slash = word + strcspn(word, "/?");
	service = rea_config_find_service(caller->config, word, (size_t)(slash - word));
	if (service == NULL)
		return wrong("the configuration has no service of this name", word);
	return to_service(caller, service, *slash == '/' ? slash : "/");
}

/* ---- what is sent ---- */

static int read_body(struct caller *caller, const char *path)
{
	FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
	int code = file != NULL ? 0 : 1;
	size_t length = 1;

	while (code == 0 && length > 0) {
		if (rea_buffer_reserve(&caller->body, 65536) != 0)
			code = out_of_memory();
		length = code == 0 ? fread(caller->body.data + caller->body.end, 1, 65536, file) : 0;
		caller->body.end += length;
	}
	if (file == NULL || ferror(file)) {
		fprintf(stderr, "rea call: cannot read %s: %s\n", path, strerror(errno));
		code = 1;
	}
	if (file != NULL && file != stdin)
		fclose(file);
	return code;
}

static int set_body(struct caller *caller)
{
	const char *body = caller->options->body;
	int code = 0;

	if (body == NULL)
		return 0;
	if (body[0] == '@')
		code = read_body(caller, body + 1);
	else if (rea_buffer_append(&caller->body, body, strlen(body)) != 0)
		code = out_of_memory();
	if (code != 0)
		return code;
	curl_easy_setopt(caller->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)rea_buffer_length(&caller->body));
	curl_easy_setopt(caller->easy, CURLOPT_POSTFIELDS, caller->body.data != NULL ? rea_buffer_data(&caller->body) : "");
	return 0;
}

static bool add_header(struct caller *caller, const char *line)
{
	struct curl_slist *longer = curl_slist_append(caller->headers, line);

	if (longer == NULL)
		return false;
	caller->headers = longer;
	return true;
}

static int set_headers(struct caller *caller)
{
	const struct options *options = caller->options;
	char *line = NULL;
	bool good = true;

	for (size_t i = 0; good && i < options->headers_len; i++)
		good = add_header(caller, options->headers[i]);
	if (good && options->biz_id != NULL) {
		const char *name = caller->config != NULL ? rea_config_settings(caller->config)->biz_id_header : "x-biz-id";

		good = asprintf(&line, "%s: %s", name, options->biz_id) >= 0 && add_header(caller, line);
		free(line);
	}
	caller->call.headers = caller->headers;
	return good ? 0 : out_of_memory();
}

static void set_method(struct caller *caller)
{
	const char *method = method_of(caller->options);

	if (strcmp(method, "HEAD") == 0)
		curl_easy_setopt(caller->easy, CURLOPT_NOBODY, 1L);
	else
		curl_easy_setopt(caller->easy, CURLOPT_CUSTOMREQUEST, method);
}

/* ---- what is told ---- */

static size_t write_body(char *data, size_t size, size_t count, void *user_data)
{
	(void)user_data;
	return fwrite(data, size, count, stdout);
}

static void write_told(const char *text, size_t length, void *user_data)
{
	(void)user_data;
	fwrite(text, 1, length, stderr);
}

static void on_event(const struct rea_event *event, CURLcode code, void *user_data)
{
	struct caller *caller = user_data;

	(void)code;
	caller->told = true;
	if (!caller->options->quiet)
		rea_timeline_event(&caller->timeline, event);
}

static struct rea_text text_of(const char *text)
{
	return (struct rea_text){text, text != NULL ? strlen(text) : 0};
}

static int64_t wall_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * (int64_t)REA_NS_PER_S + now.tv_nsec;
}

/* A success at the first try is no event; here it is told all the same. */
static void tell_first_try(struct caller *caller, const struct rea_curl_result *result)
{
	char *ip = NULL, instance[80];
	long port = 0;
	struct rea_event event;

	curl_easy_getinfo(caller->easy, CURLINFO_PRIMARY_IP, &ip);
	curl_easy_getinfo(caller->easy, CURLINFO_PRIMARY_PORT, &port);
	snprintf(instance, sizeof(instance), ip != NULL && strchr(ip, ':') ? "[%s]:%ld" : "%s:%ld",
	    ip != NULL ? ip : "", port);
	event = (struct rea_event){
	    .type = REA_EVENT_SUCCESS,
	    .time_unix_ns = wall_clock_ns(),
	    .time_ns = result->report.latency_ns,
	    .biz_id = text_of(caller->options->biz_id),
	    .service = text_of(caller->call.service),
	    .method = text_of(caller->call.method),
	    .detail = text_of(caller->detail),
	    .instance = text_of(instance),
	    .attempt = result->decision.attempt,
	    .attempts_max = result->decision.attempts_max,
	    .outcome = result->report.outcome,
	    .code_kind = result->report.code_kind,
	    .code = result->report.code,
	    .cost_ns = result->report.latency_ns,
	    .verdict = result->decision.verdict,
	    .grant = result->decision.grant,
	    .call_id = text_of("-"),
	};
	on_event(&event, CURLE_OK, caller);
}

/* Why libcurl could not: the reason alone would not say which name was not found. */
static void tell_transport(const struct caller *caller, CURLcode code, const char *error)
{
	if (code != CURLE_OK && code != CURLE_ABORTED_BY_CALLBACK && !caller->options->quiet)
		fprintf(stderr, "rea call: %s\n", error[0] != '\0' ? error : curl_easy_strerror(code));
}

static int exit_code(const struct rea_curl_result *result)
{
	if (result->decision.verdict == REA_VERDICT_SUCCESS)
		return 0;
	if (result->decision.reason == REA_REASON_CANCELLED)
		return EXIT_CANCELLED;
	switch (result->report.outcome) {
	case REA_OUTCOME_NEVER_SENT:
		return EXIT_NEVER_SENT;
	case REA_OUTCOME_PERMANENT:
		return EXIT_PERMANENT;
	case REA_OUTCOME_PUSHBACK:
	case REA_OUTCOME_THROTTLED:
	case REA_OUTCOME_UNAVAILABLE:
	case REA_OUTCOME_FAILED:
		return EXIT_REFUSED;
	case REA_OUTCOME_AMBIGUOUS:
		return EXIT_AMBIGUOUS;
	case REA_OUTCOME_CANCELLED:
		return EXIT_CANCELLED;
	case REA_OUTCOME_OK:
	case REA_OUTCOME_COUNT:
		break;
	}
	return 1;
}

/* ---- the call ---- */

/* Readable once we are told to end: the call's way to hear of it. */
static int watch_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

/* "GET /users/42", as events have it. */
static void write_detail(struct caller *caller)
{
	struct rea_slice authority = authority_of(caller->url);
	const char *path = authority.data + authority.length;
	int length = (int)strcspn(path, "?#");

	snprintf(caller->detail, sizeof(caller->detail), "%s %.*s", method_of(caller->options), length > 0 ? length : 1,
	    length > 0 ? path : "/");
}

static int perform(struct caller *caller)
{
	char error[CURL_ERROR_SIZE] = "";
	struct rea_curl_result result;
	CURLcode code;

	caller->call.key = caller->options->key;
	caller->call.make_key |= caller->options->make_key;
	caller->call.biz_id = caller->options->biz_id;
	caller->call.write = write_body;
	if (caller->options->include)
		caller->call.header = write_body;
	caller->call.event = on_event;
	caller->call.event_data = caller;
	caller->call.cancel_fd = watch_signals();
	write_detail(caller);
	rea_timeline_begin(&caller->timeline, write_told, NULL);
	caller->timeline.color = terminal_wants_color(STDERR_FILENO);
	curl_easy_setopt(caller->easy, CURLOPT_URL, caller->url);
	curl_easy_setopt(caller->easy, CURLOPT_ERRORBUFFER, error);
	memset(&result, 0, sizeof(result));
	result.report.outcome = REA_OUTCOME_COUNT;
	code = rea_curl_perform(caller->curl, caller->easy, &caller->call, &result, NULL);
	if (result.report.outcome == REA_OUTCOME_COUNT) /* it was not begun */
		return code == CURLE_OUT_OF_MEMORY
			   ? out_of_memory()
			   : wrong("this cannot be called: the URL, the key or a header is none", caller->url);
	if (!caller->told && result.decision.verdict == REA_VERDICT_SUCCESS)
		tell_first_try(caller, &result);
	tell_transport(caller, result.code, error);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "rea call: cannot write: %s\n", strerror(errno));
		return 1;
	}
	return exit_code(&result);
}

static int prepare(struct caller *caller)
{
	const struct options *options = caller->options;
	struct rea_error_info info;
	int code;

	if (options->config != NULL && rea_config_load(options->config, NULL, &caller->config, &info) != 0)
		return tell(&info);
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || (caller->easy = curl_easy_init()) == NULL ||
	    rea_curl_new(NULL, &caller->curl, NULL) != 0)
		return out_of_memory();
	curl_easy_setopt(caller->easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(caller->easy, CURLOPT_NOSIGNAL, 1L);
	rea_curl_call_init(&caller->call);
	code = find_target(caller);
	/* Instances are reached directly: a proxy would choose for itself. */
	if (code == 0 && caller->call.instances != NULL)
		curl_easy_setopt(caller->easy, CURLOPT_PROXY, "");
	if (code == 0)
		code = set_body(caller);
	if (code == 0)
		code = set_headers(caller);
	set_method(caller);
	return code;
}

int cmd_call(int argc, char **argv)
{
	struct options options = {.config = NULL};
	struct caller caller = {.options = &options};
	int code = parse_options(argc, argv, &options);

	if (code != 0)
		return code > 0 ? code : 0;
	code = prepare(&caller);
	if (code == 0)
		code = perform(&caller);
	rea_curl_free(caller.curl);
	curl_easy_cleanup(caller.easy);
	curl_slist_free_all(caller.headers);
	rea_buffer_fini(&caller.body);
	rea_config_unref(caller.config);
	free(caller.url);
	curl_global_cleanup();
	return code;
}
