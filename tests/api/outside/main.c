/* A program of somebody else, built on nothing but what is installed: outside DIRECTORY. Each library does one real thing. */
#include <rea/config.h>
#include <rea/curl.h>
#include <rea/guard.h>
#include <rea/store_sqlite.h>

#include <stdio.h>
#include <string.h>

static struct rea_report fail_once(const struct rea_guard_attempt *attempt, void *arg)
{
	(void)arg;
	return attempt->number == 1 ? rea_report_fail(REA_OUTCOME_NEVER_SENT) : rea_report_ok();
}

/* librea: a guarded call whose second attempt succeeds, under the policy of the configuration. */
static bool run_guarded(const struct rea_policy *policy)
{
	struct rea_guard_options options;
	struct rea_guard_run_options run;
	struct rea_guard_result result;
	struct rea_guard_thread thread;
	struct rea_guard *guard;
	enum rea_verdict verdict;

	rea_guard_options_init(&options);
	options.policy = *policy;
	if (rea_guard_new(&options, NULL, &guard, NULL) != 0 || rea_guard_join(guard, 1, &thread) != 0)
		return false;
	rea_guard_run_options_init(&run);
	run.call.grant = (struct rea_grant){REA_PERMISSION_IDEMPOTENT, REA_PERMISSION_SOURCE_CALLER};
	verdict = rea_guard_run(&thread, fail_once, NULL, &run, &result);
	rea_guard_leave(&thread);
	rea_guard_free(guard);
	return verdict == REA_VERDICT_SUCCESS && result.decision.attempt == 2;
}

/* librea-config. */
static bool read_policy(struct rea_policy *ret_policy)
{
	static const char text[] =
	    "rpc: {feign: {retry: {enabled: true, max-retry-next-instance: 0, max-retry-same-instance: 1,"
	    " min-backoff-ms: 20}}}\n";
	struct rea_error_info info;
	struct rea_config *config;
	int error = rea_config_parse("outside.yaml", text, strlen(text), NULL, &config, &info);

	if (error != 0) {
		fprintf(stderr, "%s:%u: %s\n", info.file, info.line, info.message);
		return false;
	}
	error = rea_config_policy(config, NULL, "any_method", ret_policy);
	rea_config_unref(config);
	return error == 0 && ret_policy->enabled;
}

/* librea-sqlite. */
static bool open_store(const char *directory)
{
	char path[4096];
	struct rea_store_sqlite_options options;
	struct rea_error_info info;
	struct rea_store *store;

	snprintf(path, sizeof(path), "%s/tasks.db", directory);
	rea_store_sqlite_options_init(&options);
	options.path = path;
	if (rea_store_sqlite_open(&options, &store, &info) != 0) {
		fprintf(stderr, "%s: %s\n", info.key, info.message);
		return false;
	}
	rea_store_close(store);
	return true;
}

/* librea-curl: nobody listens on port 1 of this machine, which is found out without sending anything. */
static bool refuse(const struct rea_policy *policy)
{
	struct rea_curl_call call;
	struct rea_curl_result result;
	struct rea_curl *curl;
	CURL *easy = curl_easy_init();

	if (easy == NULL || rea_curl_new(NULL, &curl, NULL) != 0)
		return false;
	curl_easy_setopt(easy, CURLOPT_URL, "http://127.0.0.1:1/");
	rea_curl_call_init(&call);
	call.options.policy = policy;
	rea_curl_perform(curl, easy, &call, &result, NULL);
	rea_curl_free(curl);
	curl_easy_cleanup(easy);
	return result.code == CURLE_COULDNT_CONNECT && result.report.outcome == REA_OUTCOME_NEVER_SENT;
}

int main(int argc, char **argv)
{
	struct rea_policy policy;
	bool well = argc == 2 && read_policy(&policy) && run_guarded(&policy) && open_store(argv[1]) && refuse(&policy);

	printf("rea %s: %s\n", rea_version(), well ? "well" : "not well");
	return !well;
}
