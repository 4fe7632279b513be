/* A whole check: the numbers of known stacks, places of what is refused, and memory that runs out anywhere. Takes the directory of the sample files. */
#include "../fail_alloc.h"
#include "rig.h"

#include <dirent.h>
#include <stdio.h>

static const char *directory;

static const char feign[] =
    "spring.cloud.openfeign.client.config.default: {connect-timeout: 500, read-timeout: 2000}\n";
static const char with_retry[] = "org.springframework.retry:spring-retry:jar:2.0.5:compile\n";
static const char with_hc5[] =
    "org.springframework.retry:spring-retry:jar:2.0.5:compile\nio.github.openfeign:feign-hc5:jar:13.1:compile\n";

/* What the real stack was seen to make of one call: on a GET whose connection is lost, a GET and a POST without a reply in time, a POST with a 503. */
static void known_stacks(void **state)
{
	static const struct {
		const char *name, *classpath, *more;
		uint32_t retryer, closed, timeout, post_timeout, post_503;
	} stacks[] = {
	    {"OpenFeign alone", "", "", 0, 2, 1, 1, 1},
	    {"and spring-retry", with_retry, "", 0, 4, 2, 1, 1},
	    {"and feign-hc5", with_hc5, "", 0, 4, 2, 1, 2},
	    {"three layers",
		with_retry, "spring.cloud.loadbalancer.retry: {maxRetriesOnSameServiceInstance: 1, maxRetriesOnNextServiceInstance: 1}\n",
		3, 24, 12, 3, 1},
	    {"four layers",
		with_hc5, "spring.cloud.loadbalancer.clients.u.retry.maxRetriesOnNextServiceInstance: 1\nresilience4j.retry.instances.u.maxAttempts: 3\n",
		5, 60, 30, 15, 6},
	    {"all operations", with_retry, "spring.cloud.loadbalancer.retry.retryOnAllOperations: true\n", 0, 4, 2, 2, 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++) {
		struct check_options options = {.product_max = 4};
		struct check *check;
		const struct check_target *target;
		char text[1024];

		options.retryer =
		    (struct check_retryer){stacks[i].retryer > 0, REA_NS_PER_S, 5 * REA_NS_PER_S, stacks[i].retryer};
		check = new_check(&options);
		assert_int_equal(check_classpath(check, stacks[i].classpath, strlen(stacks[i].classpath)), 0);
		snprintf(text, sizeof(text), "%s%s", feign, stacks[i].more);
		add(check, "application.yml", text);
		assert_int_equal(check_run(check), 0);
		for (target = check->apps->targets; target->next != NULL;)
			target = target->next;
		if (check_requests_most(target, CHECK_ON_CLOSED, CHECK_GET) != stacks[i].closed ||
		    check_requests_most(target, CHECK_ON_TIMEOUT, CHECK_GET) != stacks[i].timeout ||
		    check_requests_most(target, CHECK_ON_TIMEOUT, CHECK_POST) != stacks[i].post_timeout ||
		    check_requests_most(target, CHECK_ON_503, CHECK_POST) != stacks[i].post_503)
			fail_msg("%s", stacks[i].name);
		check_free(check);
	}
}

/* 150, 225, 337 and 506 ms. */
static void waits_of_the_default_retryer(void **state)
{
	struct check *check = new_check(NULL);
	const struct check_target *target;

	(void)state;
	check_classpath(check, "", 0);
	add(check,
	    "a.yml", "spring.cloud.openfeign.client.config.u: {retryer: feign.Retryer$Default, connectTimeout: 100, readTimeout: 900}\n");
	assert_int_equal(check_run(check), 0);
	target = check->apps->targets->next;
	assert_int_equal(target->layers->wait_ns[CHECK_ON_TIMEOUT], 1218 * REA_NS_PER_MS);
	assert_int_equal(check_time(target, CHECK_ON_TIMEOUT, CHECK_GET), 6218 * REA_NS_PER_MS);
	check_free(check);
}

static void refusals_have_places(void **state)
{
	static const struct {
		const char *name, *text;
		int error;
		uint32_t line, column;
		const char *message;
	} cases[] = {
	    {"a.yml", "a: 1\nb: [\n", REA_ERR_SYNTAX, 3, 1, "did not find expected node content"},
	    {"a.yml", "a: 1\nb: 2\na: 3\n", REA_ERR_INVALID, 3, 1,
		"the key a stands here a second time; the first is on line 1"},
	    {"a.yml", "a: *b\n", REA_ERR_SYNTAX, 1, 4, "an alias whose anchor stands nowhere before it"},
	    {"a.yml", "? [a]\n: b\n", REA_ERR_SYNTAX, 1, 3, "a key must be a word or a text"},
	    {"a.properties", "a=1\nb=\\u00g0\n", REA_ERR_SYNTAX, 2, 7, "\\u needs four hexadecimal digits"},
	    {"a.json", "{\"methodConfig\": [}", REA_ERR_SYNTAX, 1, 19, "expected"},
	    {"nginx.conf", "server {\n  listen 80\n}\n", REA_ERR_SYNTAX, 3, 1, "expected ';' before '}'"},
	    {"nginx.conf", "server {\n  listen 80;\n", REA_ERR_SYNTAX, 1, 1, "the block that begins here does not end with '}'"},
	    {"nginx.conf", "server { listen 80; }\n}\n", REA_ERR_SYNTAX, 2, 1, "unexpected '}'"},
	    {"nginx.conf", "server { set $a \"b; }\n", REA_ERR_SYNTAX, 1, 17, "the quote that begins here does not end"},
	    {"nginx.conf", "server { ; }\n", REA_ERR_SYNTAX, 1, 10, "expected a directive"},
	    {"nginx.conf", "server { content_by_lua_block { if { }\n", REA_ERR_SYNTAX, 1, 10,
		"the block that begins here does not end"},
	    {"nginx.conf", "server { listen 80", REA_ERR_SYNTAX, 1, 10, "the directive that begins here does not end with ';'"},
	    {"haproxy.cfg", "defaults\n  timeout 'connect 1s\n", REA_ERR_SYNTAX, 2, 11,
		"the quote in this word does not end on its line"},
	    {"haproxy.cfg", "retries 3\ndefaults\n", REA_ERR_SYNTAX, 1, 1, "expected a section such as defaults or backend"},
	    {"rea.yaml", "services: [\n", REA_ERR_SYNTAX, 2, 1, "expected node content"},
	    {"notes.txt", "hello\n", REA_ERR_INVALID, 0, 0, "it is not clear what kind of file this is"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct check *check = new_check(NULL);
		struct rea_error_info info = {.line = 77};
		int error = check_add(check, cases[i].name, cases[i].text, strlen(cases[i].text), &info);

		if (error != cases[i].error || info.line != cases[i].line || info.column != cases[i].column ||
		    strstr(info.message, cases[i].message) == NULL || strcmp(info.file, cases[i].name) != 0)
			fail_msg("%s: %s: %d at %u:%u: %s", cases[i].name, cases[i].text, error, info.line, info.column,
			    info.message);
		assert_int_equal(check_run(check), 0);
		assert_int_equal(check_exit_code(check), 2);
		check_free(check);
	}
}

/* Half of a broken file is not half believed: its good documents count for nothing either. */
static void a_broken_file_counts_for_nothing(void **state)
{
	static const char broken[] = "spring.cloud.loadbalancer.retry.retry-on-all-operations: true\n---\na: [\n";
	struct check *check = new_check(NULL);
	struct rea_error_info info;

	(void)state;
	add(check, "x/application.yml", feign);
	assert_int_equal(check_add(check, "x/application-prod.yml", broken, strlen(broken), &info), REA_ERR_SYNTAX);
	assert_int_equal(check_run(check), 0);
	assert_int_equal(found(check, "RC02"), 0);
	check_free(check);
}

/* On the first byte, next to each other, two findings about one value, and none that reads otherwise than it was read. */
static void corrections(void **state)
{
	static const struct {
		const char *name, *text, *fixed; /* NULL = nothing to correct */
		size_t changes;
	} cases[] = {
	    {"a.properties", "u.ribbon.A=1\nu.ribbon.B=2\n", "# u.ribbon.A=1\n# u.ribbon.B=2\n", 1},
	    {"a.properties", "u.ribbon.A=1 \\\n  2", "# u.ribbon.A=1 \\\n  # 2", 1},
	    {"a.properties", "spring.cloud.loadbalancer.retry.retryable-status-codes=500,503,429",
		"spring.cloud.loadbalancer.retry.retryable-status-codes=503", 2},
	    {"a.properties", "spring.cloud.loadbalancer.retry.retryable-status-codes=500,429", NULL, 0},
	    {"a.properties", "spring.cloud.loadbalancer.retry.retry-on-all-operations=\\u0074rue", NULL, 0},
	    {"a.yml", "spring.cloud.loadbalancer.retry.retry-on-all-operations: \"true\"\r\n",
		"spring.cloud.loadbalancer.retry.retry-on-all-operations: \"false\"\r\n", 1},
	    {"a.yml", "\xc3\xa4: {b: \xc3\xa4, spring.cloud.loadbalancer.retry.retry-on-all-operations: true}\n", NULL, 0},
	    {"a.yml", "u: {ribbon: {A: 1}}\n", NULL, 0},
	    {"haproxy.cfg", "backend a\n\tretry-on 500\n",
		"backend a\n    http-request disable-l7-retry unless METH_GET\n\tretry-on 500\n", 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct check *check = new_check(NULL);
		struct rea_buffer text = {.data = NULL};
		size_t changes = 0;

		add(check, cases[i].name, cases[i].text);
		assert_int_equal(check_run(check), 0);
		assert_int_equal(check_fix(check, cases[i].name, &text, &changes), 0);
		assert_int_equal(rea_buffer_append(&text, "", 1), 0);
		if (changes != cases[i].changes || strcmp(rea_buffer_data(&text), cases[i].fixed ? cases[i].fixed : "") != 0)
			fail_msg("%s: %zu: %s", cases[i].text, changes, rea_buffer_data(&text));
		rea_buffer_fini(&text);
		check_free(check);
	}
}

static void findings_are_bounded(void **state)
{
	struct check *check = new_check(NULL);
	char *text = malloc(6000 * 64 + 1), *at = text;

	(void)state;
	assert_non_null(text);
	for (int i = 0; i < 6000; i++)
		at += sprintf(at, "s%d.ribbon.ReadTimeout=1\n", i);
	add(check, "a.properties", text);
	assert_int_equal(check_run(check), 0);
	assert_true(found(check, "RC05") <= CHECK_FINDINGS_MAX);
	check_free(check);
	free(text);
}

static void kinds_are_told_by_content(void **state)
{
	static const struct {
		const char *name, *text;
		enum check_kind kind;
	} cases[] = {
	    {"a.yml", "spring: {}\n", CHECK_KIND_SPRING},
	    {"a.yml", "whatever: 1\n", CHECK_KIND_SPRING},
	    {"a.properties", "services=1\n", CHECK_KIND_SPRING},
	    {"a.yaml", "services: {}\nrpc: {}\n", CHECK_KIND_REA},
	    {"a.yaml", "rpc: {}\nspring: {}\n", CHECK_KIND_SPRING},
	    {"a.yaml", "apiVersion: v1\nkind: VirtualService\n", CHECK_KIND_ISTIO},
	    {"a.json", "{\"apiVersion\": \"v1\",\n \"kind\": \"X\"}\n", CHECK_KIND_ISTIO},
	    {"a.yaml", "static_resources: {}\n", CHECK_KIND_ENVOY},
	    {"a.json", "{\n  \"virtualHosts\": []}\n", CHECK_KIND_ENVOY},
	    {"a.json", "{\"methodConfig\": []}", CHECK_KIND_GRPC},
	    {"a.conf", "server {\n}\n", CHECK_KIND_NGINX},
	    {"default", "upstream a { server b; }\n", CHECK_KIND_NGINX},
	    {"a.cfg", "defaults\n  mode http\n", CHECK_KIND_HAPROXY},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct check *check = new_check(NULL);

		add(check, cases[i].name, cases[i].text);
		if (check->files->kind != cases[i].kind)
			fail_msg("%s: %s is kind %d", cases[i].name, cases[i].text, check->files->kind);
		check_free(check);
	}
}

/* ------------------------------------------------------------------ memory */

struct sample {
	char name[256];
	char *text;
	size_t length;
};

static struct sample samples[200];
static size_t samples_len;

static void read_samples(void)
{
	DIR *open_directory = opendir(directory);
	struct dirent *entry;

	assert_non_null(open_directory);
	while ((entry = readdir(open_directory)) != NULL && samples_len < sizeof(samples) / sizeof(samples[0])) {
		struct sample *sample = &samples[samples_len];
		char path[1024];
		FILE *file;

		snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
		file = entry->d_name[0] != '.' && strchr(entry->d_name, '.') != NULL ? fopen(path, "r") : NULL;
		if (file == NULL)
			continue;
		snprintf(sample->name, sizeof(sample->name), "%s", entry->d_name);
		sample->text = malloc(65536);
		assert_non_null(sample->text);
		sample->length = fread(sample->text, 1, 65536, file);
		fclose(file);
		samples_len++;
	}
	closedir(open_directory);
	assert_true(samples_len > 90);
}

static int check_samples(struct fail_alloc *failing, const struct sample *all, size_t count)
{
	struct check_options options = {.product_max = 4};
	struct rea_buffer out = {.alloc = &failing->alloc};
	struct rea_error_info info;
	struct check *check = NULL;
	size_t changes = 0;
	int error = check_new(&options, &failing->alloc, &check), added = 0;

	for (size_t i = 0; i < count && error == 0; i++) {
		added = check_add(check, all[i].name, all[i].text, all[i].length, &info);
		if (added == REA_ERR_NOMEM)
			error = added;
	}
	if (error == 0)
		error = check_run(check);
	if (error == 0)
		error = check_report_text(check, true, &out);
	if (error == 0)
		error = check_report_json(check, &out);
	if (error == 0)
		error = check_report_sarif(check, &out);
	for (size_t i = 0; i < count && error == 0; i++)
		error = check_fix(check, all[i].name, &out, &changes);
	rea_buffer_fini(&out);
	check_free(check);
	return error;
}

static void run_out(const struct sample *all, size_t count, bool for_good)
{
	struct fail_alloc failing;
	size_t left = 0;
	int error;

	do {
		fail_alloc_init(&failing, left, for_good);
		error = check_samples(&failing, all, count);
		if (failing.live != 0)
			fail_msg("%s: %zu pieces left after allocation %zu failed", all->name, failing.live, left);
		if (failing.failed == 0 && error != 0)
			fail_msg("%s: %d, and no allocation failed", all->name, error);
		if (failing.failed > 0 && error != REA_ERR_NOMEM)
			fail_msg("%s: allocation %zu failed, and that was lost: %d", all->name, left, error);
		left++;
	} while (failing.failed > 0);
}

/* Each sample alone, and all of them together. */
static void memory_runs_out(void **state)
{
	(void)state;
	for (size_t i = 0; i < samples_len; i++) {
		run_out(&samples[i], 1, false);
		run_out(&samples[i], 1, true);
	}
	run_out(samples, samples_len, true);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(known_stacks),
	    cmocka_unit_test(waits_of_the_default_retryer),
	    cmocka_unit_test(refusals_have_places),
	    cmocka_unit_test(a_broken_file_counts_for_nothing),
	    cmocka_unit_test(corrections),
	    cmocka_unit_test(findings_are_bounded),
	    cmocka_unit_test(kinds_are_told_by_content),
	    cmocka_unit_test(memory_runs_out),
	};
	int failed;

	if (argc < 2)
		return 2;
	directory = argv[1];
	read_samples();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	for (size_t i = 0; i < samples_len; i++)
		free(samples[i].text);
	return failed;
}
