/* gRPC service configs: what is read, what is refused and where, what stands above what; and which service a gRPC service leads to. */
#include "refusal.h"

#include <rea/time.h>

#include <stdlib.h>
#include <unistd.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define MS REA_NS_PER_MS
#define BIT(outcome) REA_OUTCOME_BIT(REA_OUTCOME_##outcome)

static char directory[] = "/tmp/rea-grpc-config-XXXXXX";

static const char *place(const char *name)
{
	static char path[2][100];
	static int turn;

	turn = !turn;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", directory, name);
	return path[turn];
}

/* rea.yaml with one service that has this service config. rest: what else stands in the document. */
static int load(const char *json, const char *rest, struct rea_config **ret_config, struct rea_error_info *ret_info)
{
	FILE *file = fopen(place("grpc.json"), "w");
	char document[2000];

	fputs(json, file);
	fclose(file);
	snprintf(document,
	    sizeof(document), "services:\n  users: {grpc-service-config: grpc.json, instances: [127.0.0.1:1]}\n  pay: {instances: [127.0.0.1:2]}\n%s",
	    rest);
	return rea_config_parse(place("rea.yaml"), document, strlen(document), NULL, ret_config, ret_info);
}

static struct rea_config *load_good(const char *json, const char *rest)
{
	struct rea_error_info info;
	struct rea_config *config = NULL;

	if (load(json, rest, &config, &info) != 0)
		fail_msg("%s:%u:%u: %s: %s", info.file, info.line, info.column, info.key, info.message);
	return config;
}

static const struct rea_policy *policy_of(const struct rea_config *config, const char *service, const char *path)
{
	return rea_config_grpc_policy(config, rea_config_find_service(config, service, strlen(service)), path, strlen(path));
}

#define RETRY_POLICY(codes)                                                                              \
	"\"retryPolicy\": {\"maxAttempts\": 4, \"initialBackoff\": \"0.1s\", \"maxBackoff\": \"1.5s\", " \
	"\"backoffMultiplier\": 3, \"retryableStatusCodes\": [" codes "]}"
#define UNAVAILABLE RETRY_POLICY("\"UNAVAILABLE\"")

static void every_value(void **state)
{
	struct rea_config *config =
	    load_good("{\"methodConfig\": [{\"name\": [{\"service\": \"p.S\", \"method\": \"M\"}],\n"
		      "\"timeout\": \"2.000000001s\", \"waitForReady\": true, " UNAVAILABLE "}],\n"
		      "\"retryThrottling\": {\"maxTokens\": 20, \"tokenRatio\": 0.1234}, \"unknown\": 1}",
		"");
	const struct rea_policy *p = policy_of(config, "users", "/p.S/M"), *other = policy_of(config, "users", "/p.S/N");

	(void)state;
	assert_true(p->enabled);
	assert_int_equal(p->max_retry_same_instance, 0);
	assert_int_equal(p->max_retry_next_instance, 3);
	assert_true(p->min_backoff_ns == 100 * MS);
	assert_true(p->max_backoff_ns == 1500 * MS);
	assert_true(p->backoff_multiplier == 3);
	assert_true(p->jitter == 0.2);
	assert_true(p->deadline_ns == UINT64_C(2000000001));
	assert_true(p->attempt_timeout_ns == UINT64_C(2000000001));
	assert_int_equal(p->budget.rule, REA_BUDGET_GRPC);
	assert_int_equal(p->budget.max_tokens, 20);
	assert_int_equal(p->budget.token_ratio_permille, 123);
	/* A method that is not named has the throttling alone, which the whole service has. */
	assert_false(other->enabled);
	assert_int_equal(other->budget.rule, REA_BUDGET_GRPC);
	assert_int_equal(rea_config_service(config, 0)->budget->max_tokens, 20);
	assert_int_equal(rea_config_service(config, 1)->budget->rule, REA_BUDGET_EVIDENCE);
	assert_false(rea_config_service(config, 0)->policy->enabled);
	rea_config_unref(config);
}

static void the_most_special_name_holds_alone(void **state)
{
	struct rea_config *config = load_good("{\"methodConfig\": [{\"name\": [{}], \"timeout\": \"5s\"},\n"
					      "{\"name\": [{\"service\": \"p.S\"}], \"timeout\": \"6s\"},\n"
					      "{\"name\": [{\"service\": \"p.S\", \"method\": \"M\"}, {\"service\": "
					      "\"p.T\", \"method\": \"M\"}], " UNAVAILABLE "}]}",
	    "");
	static const struct {
		const char *path;
		uint64_t deadline_ms;
		bool enabled;
	} rows[] = {{"/p.S/M", 3000, true}, {"/p.T/M", 3000, true}, {"/p.S/N", 6000, false}, {"/p.T/N", 5000, false},
	    {"/p.S.M/M", 5000, false}, {"/p.S_M", 5000, false}, {"", 5000, false}, {"/", 5000, false},
	    {"/p.S/M/x", 6000, false}, {"*", 5000, false}};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		assert_true(policy_of(config, "users", rows[i].path)->deadline_ns == rows[i].deadline_ms * MS);
		assert_int_equal(policy_of(config, "users", rows[i].path)->enabled, rows[i].enabled);
	}
	assert_true(policy_of(config, "pay", "/p.S/N")->deadline_ns == 3000 * MS);
	rea_config_unref(config);
}

static void our_own_documents_stand_above(void **state)
{
	static const char json[] =
	    "{\"methodConfig\": [{\"name\": [{\"service\": \"p.S_T\"}], \"timeout\": \"6s\", " UNAVAILABLE "}]}";
	static const char rest[] =
	    "rpc:\n  grpc:\n    retry:\n      min-backoff-ms: 50\n      service-configs:\n        users:\n"
	    "          deadline-ms: 7000\n          method-configs: {p.S_T_M: {max-retry-next-instance: 1}, q.S_M: "
	    "{jitter: 0.5}}\n";
	struct rea_config *config = load_good(json, rest), *other;
	const struct rea_policy *p = policy_of(config, "users", "/p.S_T/M");
	struct rea_error_info info;

	(void)state;
	assert_true(p->enabled);
	assert_int_equal(p->max_retry_next_instance, 1);
	assert_true(p->min_backoff_ns == 50 * MS);
	assert_true(p->max_backoff_ns == 1500 * MS);
	assert_true(p->deadline_ns == 7000 * MS);
	assert_true(p->attempt_timeout_ns == 6000 * MS);
	p = policy_of(config, "users", "/p.S_T/N");
	assert_int_equal(p->max_retry_next_instance, 3);
	assert_true(p->deadline_ns == 7000 * MS);
	p = policy_of(config, "users", "/q.S/M");
	assert_false(p->enabled);
	assert_true(p->jitter == 0.5);
	/* The master switch. Another policy document leaves the service config where it is. */
	assert_int_equal(rea_config_with_policy(config, "p.yaml", "rpc: {grpc: {retry: {enabled: false}}}\n",
			     strlen("rpc: {grpc: {retry: {enabled: false}}}\n"), NULL, &other, &info),
	    0);
	assert_false(policy_of(other, "users", "/p.S_T/M")->enabled);
	assert_int_equal(policy_of(other, "users", "/p.S_T/M")->max_retry_next_instance, 3);
	rea_config_unref(other);
	assert_int_equal(rea_config_with_policy(config, "p.yaml", "", 0, NULL, &other, &info), 0);
	assert_true(policy_of(other, "users", "/p.S_T/M")->enabled);
	assert_true(policy_of(other, "users", "/p.S_T/M")->min_backoff_ns == 100 * MS);
	rea_config_unref(config);
	rea_config_unref(other);
}

static void append(const char *text, size_t length, void *user_data)
{
	strncat(user_data, text, length);
}

static void explain_names_the_document(void **state)
{
	struct rea_config *config = load_good("{\"methodConfig\": [\n{\"name\": [{\"service\": \"p.S\"}],\n" UNAVAILABLE
					      ",\n\"timeout\": \"6s\"}]}",
	    "rpc: {grpc: {retry: {jitter: 0.5}}}\n");
	char text[10000] = "", expected[500];
	struct rea_error_info info;

	(void)state;
	assert_int_equal(rea_config_explain(config, "users", "p.S_M", append, text, &info), 0);
	snprintf(expected, sizeof(expected), "p.S_M of users\n\n  enabled                   true          %s, line 3\n",
	    place("grpc.json"));
	assert_ptr_equal(strstr(text, expected), text);
	snprintf(expected, sizeof(expected), "\n  deadline-ms               6000          %s, line 4\n", place("grpc.json"));
	assert_non_null(strstr(text, expected));
	assert_non_null(strstr(text, "\n  jitter                    0.5           global, line 4\n"));
	assert_non_null(strstr(text, "\n  never-sent                strict        default\n"));
	rea_config_unref(config);
}

/* By code 0..16 under this list: what it counts as, and whether that is retried. */
static void check_codes(const char *json, uint32_t retried)
{
	struct rea_config *config = load_good(json, "");
	const struct rea_policy *p = policy_of(config, "users", "/p.S/M");

	for (uint32_t code = 1; code <= 16; code++) {
		enum rea_outcome outcome = rea_outcome_from_grpc(code, p->classify, p->classify_len);

		if (!!(p->retry_on & REA_OUTCOME_BIT(outcome)) != !!(retried >> code & 1))
			fail_msg("status %u is %s", code, rea_outcome_name(outcome));
	}
	assert_true(p->retry_on & BIT(NEVER_SENT));
	assert_true(p->retry_on & BIT(PUSHBACK));
	/* A connection that breaks is UNAVAILABLE for gRPC. */
	assert_int_equal(!!(p->retry_on & BIT(AMBIGUOUS)), !!(retried >> 14 & 1) || !!(retried >> 4 & 1));
	rea_config_unref(config);
}

#define WITH_CODES(codes) "{\"methodConfig\": [{\"name\": [{\"service\": \"p.S\"}], " RETRY_POLICY(codes) "}]}"

static void exactly_the_listed_codes_are_retried(void **state)
{
	(void)state;
	check_codes(WITH_CODES("\"UNAVAILABLE\""), 1U << 14);
	check_codes(WITH_CODES("14"), 1U << 14);
	check_codes(WITH_CODES("\"unavailable\", \"Deadline_Exceeded\""), 1U << 14 | 1U << 4);
	check_codes(WITH_CODES("\"DEADLINE_EXCEEDED\""), 1U << 4);
	check_codes(WITH_CODES("\"RESOURCE_EXHAUSTED\", \"UNAVAILABLE\""), 1U << 8 | 1U << 14);
	check_codes(WITH_CODES("\"INTERNAL\""), 1U << 13);
	check_codes(WITH_CODES("\"ABORTED\", \"UNKNOWN\", 16"), 1U << 10 | 1U << 2 | 1U << 16);
	check_codes(WITH_CODES("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16"), 0x1fffe);
}

static void what_is_too_small_is_raised(void **state)
{
	static const struct {
		const char *attempts, *initial, *max, *multiplier;
		uint32_t retries;
		uint64_t min_ms, max_ms;
		double factor;
	} rows[] = {
	    {"2", "0.001s", "0.010s", "0.5", 1, 20, 20, 1},
	    {"5", "0.020s", "0.02s", "1", 4, 20, 20, 1},
	    {"6", "1s", "0.5s", "1.3", 4, 1000, 1000, 1.3},
	    {"100", "9000s", "9000s", "5000", 4, 3600000, 3600000, 1000},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		char json[600];
		struct rea_config *config;
		const struct rea_policy *p;

		snprintf(json, sizeof(json),
		    "{\"methodConfig\": [{\"name\": [{}], \"retryPolicy\": {\"maxAttempts\": %s, \"initialBackoff\": "
		    "\"%s\", "
		    "\"maxBackoff\": \"%s\", \"backoffMultiplier\": %s, \"retryableStatusCodes\": [14]}}]}",
		    rows[i].attempts, rows[i].initial, rows[i].max, rows[i].multiplier);
		config = load_good(json, "");
		p = policy_of(config, "users", "/p.S/M");
		assert_int_equal(p->max_retry_next_instance, rows[i].retries);
		assert_true(p->min_backoff_ns == rows[i].min_ms * MS);
		assert_true(p->max_backoff_ns == rows[i].max_ms * MS);
		assert_true(p->backoff_multiplier == rows[i].factor);
		rea_config_unref(config);
	}
}

/* ---- refusals ---- */

static void refusals(void **state)
{
#define ONE(inside) "{\"methodConfig\": [{\"name\": [{}],\n" inside "}]}"
#define POLICY(inside) ONE("\"retryPolicy\": {" inside "}")
#define GOOD \
	"\"initialBackoff\": \"1s\", \"maxBackoff\": \"1s\", \"backoffMultiplier\": 1, \"retryableStatusCodes\": [14]"
	static const struct {
		const char *json;
		uint32_t line, column;
		const char *message;
	} rows[] = {
	    {"", 1, 1, "a gRPC service config is a JSON object, such as {\"methodConfig\": []}"},
	    {"[]", 1, 1, "a gRPC service config is a JSON object, such as {\"methodConfig\": []}"},
	    {"{\"methodConfig\": {}}", 1, 18, "expected a list of methodConfig, got a mapping"},
	    {POLICY("\"maxAttempts\": 1, " GOOD), 2, 32, "expected a number from 2 to 4294967295, got \"1\""},
	    {POLICY("\"maxAttempts\": 2.5, " GOOD), 2, 32,
		"expected a whole number of attempts, the first one included, got \"2.5\""},
	    {POLICY(GOOD), 2, 16, "a retryPolicy needs maxAttempts"},
	    {POLICY("\"maxAttempts\": 2, \"maxBackoff\": \"1s\""), 2, 16, "a retryPolicy needs initialBackoff"},
	    {POLICY("\"maxAttempts\": 2, \"initialBackoff\": \"1\""), 2, 53,
		"expected a time above 0 such as \"0.1s\", got \"1\""},
	    {POLICY("\"maxAttempts\": 2, \"initialBackoff\": \"0s\""), 2, 53,
		"expected a time above 0 such as \"0.1s\", got \"0s\""},
	    {POLICY("\"maxAttempts\": 2, \"initialBackoff\": \"-1s\""), 2, 53,
		"expected a time above 0 such as \"0.1s\", got \"-1s\""},
	    {POLICY("\"maxAttempts\": 2, \"initialBackoff\": \"1.s\""), 2, 53,
		"expected a time above 0 such as \"0.1s\", got \"1.s\""},
	    {POLICY("\"maxAttempts\": 2, \"initialBackoff\": \"0.0000000001s\""), 2, 53,
		"expected a time above 0 such as \"0.1s\", got \"0.0000000001s\""},
	    {POLICY("\"maxAttempts\": 2, \"initialBackoff\": \"1s\", \"maxBackoff\": \"1s\", \"backoffMultiplier\": 0"),
		2, 100, "expected a number above 0 and at most 1000000000, got \"0\""},
	    {POLICY("\"maxAttempts\": 2, \"initialBackoff\": \"1s\", \"maxBackoff\": \"1s\", \"backoffMultiplier\": 1"),
		2, 16, "a retryPolicy needs retryableStatusCodes, a list of at least one gRPC status"},
	    {POLICY("\"maxAttempts\": 2, \"initialBackoff\": \"1s\", \"maxBackoff\": \"1s\", \"backoffMultiplier\": 1, "
		    "\"retryableStatusCodes\": []"),
		2, 127, "a retryPolicy needs retryableStatusCodes, a list of at least one gRPC status"},
	    {WITH_CODES("\"UNAVAILIBLE\""), 1, 181, "there is no gRPC status \"UNAVAILIBLE\"; did you mean UNAVAILABLE?"},
	    {WITH_CODES("17"), 1, 181, "there is no gRPC status \"17\""},
	    {WITH_CODES("\"OK\""), 1, 181, "OK is no failure that could be retried"},
	    {ONE("\"hedgingPolicy\": {\"maxAttempts\": 3}"), 2,
		1, "rea does not hedge: nothing here sends a call twice at once. Use a retryPolicy, or leave it out of this copy"},
	    {ONE("\"timeout\": 5"), 2, 12, "expected a time above 0 such as \"0.1s\", got \"5\""},
	    {"{\"methodConfig\": [{\"timeout\": \"1s\"}]}", 1, 19, "a methodConfig needs name, a list of at least one"},
	    {"{\"methodConfig\": [{\"name\": []}]}", 1, 28, "a methodConfig needs name, a list of at least one"},
	    {"{\"methodConfig\": [{\"name\": [{\"method\": \"M\"}]}]}", 1, 40, "a method needs the service that it belongs to"},
	    {"{\"methodConfig\": [{\"name\": [{\"service\": \"a/b\"}]}]}", 1, 29, "no part of a name has a slash in it"},
	    {"{\"methodConfig\": [{\"name\": [{}, {}]}]}", 1, 33, "another methodConfig has this name already"},
	    {"{\"methodConfig\": [{\"name\": [{\"service\": \"S\"}]},\n{\"name\": [{\"service\": \"S\", \"method\": "
	     "\"\"}]}]}",
		2, 11, "another methodConfig has this name already"},
	    {"{\"retryThrottling\": {\"maxTokens\": 1001, \"tokenRatio\": 1}}", 1, 35,
		"expected a number above 0 and at most 1000, got \"1001\""},
	    {"{\"retryThrottling\": {\"maxTokens\": 10}}", 1, 21, "a retryThrottling needs tokenRatio"},
	    {"{\"retryThrottling\": {\"maxTokens\": 10, \"tokenRatio\": 0.0001}}", 1, 53,
		"expected at least 0.001, got \"0.0001\""},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct rea_error_info info;
		struct rea_config *config = NULL;

		if (load(rows[i].json, "", &config, &info) != REA_ERR_INVALID)
			fail_msg("not refused: %s", rows[i].json);
		assert_string_equal(info.message, rows[i].message);
		assert_string_equal(info.file, place("grpc.json"));
		if (info.line != rows[i].line || info.column != rows[i].column)
			fail_msg("at %u:%u, not %u:%u: %s", info.line, info.column, rows[i].line, rows[i].column,
			    rows[i].json);
	}
}

static void what_does_not_fit_together_is_told_where_it_can_be_mended(void **state)
{
	struct rea_error_info info;
	struct rea_config *config = NULL;
	char expected[300];

	(void)state;
	assert_int_equal(load("{\"methodConfig\": [{\"name\": [{}], \"timeout\": \"0.5s\"}]}",
			     "rpc: {grpc: {retry: {attempt-timeout-ms: 800}}}\n", &config, &info),
	    REA_ERR_INVALID);
	assert_string_equal(info.file, place("rea.yaml"));
	assert_string_equal(info.key, "rpc.grpc");
	assert_int_equal(info.line, 4);
	snprintf(expected, sizeof(expected),
	    "with %s: attempt-timeout-ms is 800; it must be above 0 and at most 500 (deadline-ms)", place("grpc.json"));
	assert_string_equal(info.message, expected);
	unlink(place("grpc.json"));
	assert_int_equal(
	    rea_config_parse(place("rea.yaml"), "services: {a: {grpc-service-config: grpc.json, instances: []}}\n",
		strlen("services: {a: {grpc-service-config: grpc.json, instances: []}}\n"), NULL, &config, &info),
	    REA_ERR_IO);
	snprintf(expected, sizeof(expected), "%s cannot be read: No such file or directory", place("grpc.json"));
	assert_string_equal(info.message, expected);
	assert_int_equal(info.column, 37);
}

/* ---- routing ---- */

static void by_grpc_service(void **state)
{
	struct rea_config *config = parse("services:\n"
					  "  a: {grpc-services: [p.S, p.q.*, Plain], instances: []}\n"
					  "  b: {grpc-services: ['p.*', p.q.T], instances: []}\n"
					  "  c: {grpc-services: ['*'], instances: []}\n");
	static const struct {
		const char *name, *service;
	} rows[] = {{"p.S", "a"}, {"p.q.S", "a"}, {"p.q.r.S", "a"}, {"p.q.T", "b"}, {"p.T", "b"}, {"p.s", "b"},
	    {"Plain", "a"}, {"plain", "c"}, {"px.S", "c"}, {"", "c"}, {".", "c"}};
	char longest[300];

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++)
		assert_string_equal(rea_config_find_grpc(config, rows[i].name, strlen(rows[i].name))->name, rows[i].service);
	memset(longest, 'a', sizeof(longest));
	assert_string_equal(rea_config_find_grpc(config, longest, 256)->name, "c");
	assert_null(rea_config_find_grpc(config, longest, 257));
	rea_config_unref(config);
	config = parse("services:\n  a: {grpc-services: [p.S], instances: []}\n");
	assert_null(rea_config_find_grpc(config, "p.T", 3));
	assert_null(rea_config_find_grpc(config, "p", 1));
	rea_config_unref(config);
}

static void names_of_grpc_services_that_are_none(void **state)
{
#define EXPECTED "expected a gRPC service such as package.Service, or package.* for all of a package and below, got "
	static const struct refusal rows[] = {
	    {"services: {a: {grpc-services: [a/b], instances: []}}\n", REA_ERR_INVALID, 1, 32,
		"services.a.grpc-services[0]", EXPECTED "\"a/b\""},
	    {"services: {a: {grpc-services: ['a*'], instances: []}}\n", REA_ERR_INVALID, 1, 32,
		"services.a.grpc-services[0]", EXPECTED "\"a*\""},
	    {"services: {a: {grpc-services: ['*.a'], instances: []}}\n", REA_ERR_INVALID, 1, 32,
		"services.a.grpc-services[0]", EXPECTED "\"*.a\""},
	    {"services: {a: {grpc-services: [a.], instances: []}}\n", REA_ERR_INVALID, 1, 32,
		"services.a.grpc-services[0]", EXPECTED "\"a.\""},
	    {"services: {a: {grpc-services: [a..b], instances: []}}\n", REA_ERR_INVALID, 1, 32,
		"services.a.grpc-services[0]", EXPECTED "\"a..b\""},
	    {"services: {a: {grpc-services: [1a], instances: []}}\n", REA_ERR_INVALID, 1, 32,
		"services.a.grpc-services[0]", EXPECTED "\"1a\""},
	    {"services: {a: {grpc-services: [p.S], instances: []},\n b: {grpc-services: [p.S], instances: []}}\n",
		REA_ERR_INVALID, 2, 22, "services.b.grpc-services[0]", "p.S already leads to the service a"},
	};

	(void)state;
	CHECK_REFUSALS(rows);
}

static int make_directory(void **state)
{
	(void)state;
	return mkdtemp(directory) == NULL;
}

static int remove_directory(void **state)
{
	(void)state;
	unlink(place("grpc.json"));
	return rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_value),
	    cmocka_unit_test(the_most_special_name_holds_alone),
	    cmocka_unit_test(our_own_documents_stand_above),
	    cmocka_unit_test(explain_names_the_document),
	    cmocka_unit_test(exactly_the_listed_codes_are_retried),
	    cmocka_unit_test(what_is_too_small_is_raised),
	    cmocka_unit_test(refusals),
	    cmocka_unit_test(what_does_not_fit_together_is_told_where_it_can_be_mended),
	    cmocka_unit_test(by_grpc_service),
	    cmocka_unit_test(names_of_grpc_services_that_are_none),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
