/*
 * Fetches a URL with retries and tells what happened:
 *
 *   curl-client http://orders.test/orders/7 127.0.0.1:9001 127.0.0.1:9002
 *
 * The addresses are the instances of the service that the URL names; without any, the URL's own host is the only one.
 * The reply goes to standard output, a timeline to standard error. Ends with 0 when the call succeeded. Whom to trust says
 * CURL_CA_BUNDLE, as for curl(1).
 *
 *   cc main.c $(pkg-config --cflags --libs rea-curl)
 */
#include <rea/curl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INSTANCES_MAX = 10 };

static void print(const char *text, size_t length, void *user_data)
{
	fwrite(text, 1, length, user_data);
}

static size_t on_write(char *data, size_t size, size_t items, void *user_data)
{
	return fwrite(data, size, items, user_data);
}

static void on_event(const struct rea_event *event, CURLcode code, void *user_data)
{
	(void)code;
	rea_timeline_event(user_data, event);
}

/* The arguments as instances. Returns how many, or -1. */
static int read_instances(int argc, char **argv, struct rea_instance *ret_items)
{
	if (argc > INSTANCES_MAX)
		return -1;
	for (int i = 0; i < argc; i++) {
		ret_items[i] = (struct rea_instance){.weight = 1};
		if (!rea_instance_id_parse(argv[i], strlen(argv[i]), &ret_items[i].id))
			return -1;
	}
	return argc;
}

/* Two more attempts, each elsewhere if there is an elsewhere; a quick first retry. */
static void set_policy(struct rea_policy *policy, bool has_instances)
{
	rea_policy_defaults(policy);
	policy->enabled = true;
	policy->max_retry_next_instance = has_instances ? 2 : 0;
	policy->max_retry_same_instance = has_instances ? 0 : 2;
	policy->min_backoff_ns = 50 * REA_NS_PER_MS;
}

static int fetch(struct rea_curl *curl, const char *url, const struct rea_instances *instances)
{
	struct rea_policy policy;
	struct rea_curl_call call;
	struct rea_curl_result result;
	struct rea_timeline timeline;
	CURL *easy = curl_easy_init();
	char cause[CURL_ERROR_SIZE] = ""; /* of the latest attempt */
	CURLcode code;

	if (easy == NULL)
		return EXIT_FAILURE;
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, cause);
	if (getenv("CURL_CA_BUNDLE") != NULL)
		curl_easy_setopt(easy, CURLOPT_CAINFO, getenv("CURL_CA_BUNDLE"));
	set_policy(&policy, instances->count > 0);
	rea_timeline_begin(&timeline, print, stderr);

	rea_curl_call_init(&call);
	call.options.policy = &policy;
	/* A GET that changes nothing: this program knows so, and says so. */
	call.options.grant = (struct rea_grant){REA_PERMISSION_SAFE, REA_PERMISSION_SOURCE_CALLER};
	call.instances = instances->count > 0 ? instances : NULL;
	call.write = on_write;
	call.write_data = stdout;
	call.event = on_event;
	call.event_data = &timeline;

	code = rea_curl_perform(curl, easy, &call, &result, NULL);
	if (code != CURLE_OK)
		fprintf(stderr, "curl-client: %s: %s\n", url, cause[0] != '\0' ? cause : curl_easy_strerror(code));
	curl_easy_cleanup(easy);
	return code == CURLE_OK && result.decision.verdict == REA_VERDICT_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	struct rea_instance items[INSTANCES_MAX];
	int count = argc < 2 ? -1 : read_instances(argc - 2, argv + 2, items);
	struct rea_instances instances = {.items = items, .count = count > 0 ? (size_t)count : 0};
	struct rea_curl *curl;
	int status = EXIT_FAILURE;

	if (count < 0) {
		fprintf(stderr, "usage: curl-client URL [ADDRESS:PORT...]\n");
		return 2;
	}
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return EXIT_FAILURE;
	if (rea_curl_new(NULL, &curl, NULL) == 0) {
		status = fetch(curl, argv[1], &instances);
		rea_curl_free(curl);
	}
	curl_global_cleanup();
	return status;
}
