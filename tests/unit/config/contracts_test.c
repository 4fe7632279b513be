/* Inline permissions. */
#include "refusal.h"

static const char good[] = SERVICE "contracts:\n"
				   "  users:\n"
				   "    context: user-api\n"
				   "    operations:\n"
				   "      - {get: '/users/{id}', id: getUserInfo, retryable: true}\n"
				   "      - {post: /pay, id: pay, retryable: with-key, generate-key: true}\n"
				   "      - {get: /report, id: report, safe: true}\n"
				   "      - {put: /a, id: put, retryable: false}\n"
				   "      - {delete: /a, id: delete}\n"
				   "      - {head: /a, id: head, retryable: true, safe: true}\n"
				   "      - {patch: /a, id: patch, safe: false, generateKey: false}\n"
				   "      - {options: /a, id: options}\n"
				   "      - {trace: /a, id: trace}\n";

static void every_key(void **state)
{
	static const struct {
		const char *key;
		const char *method;
		enum rea_permission permission;
		bool generate_key;
	} expected[] = {
	    {"user-api_getUserInfo", "GET", REA_PERMISSION_IDEMPOTENT, false},
	    {"user-api_pay", "POST", REA_PERMISSION_IDEMPOTENT_WITH_KEY, true},
	    {"user-api_report", "GET", REA_PERMISSION_SAFE, false},
	    {"user-api_put", "PUT", REA_PERMISSION_FORBID, false},
	    {"user-api_delete", "DELETE", REA_PERMISSION_NONE, false},
	    {"user-api_head", "HEAD", REA_PERMISSION_SAFE, false},
	    {"user-api_patch", "PATCH", REA_PERMISSION_NONE, false},
	    {"user-api_options", "OPTIONS", REA_PERMISSION_NONE, false},
	    {"user-api_trace", "TRACE", REA_PERMISSION_NONE, false},
	};
	struct rea_config *config = parse(good);
	const struct rea_contract *contract = rea_config_service(config, 0)->contract;

	(void)state;
	assert_int_equal(rea_contract_count(contract), 9);
	for (size_t i = 0; i < 9; i++) {
		const struct rea_operation *operation = rea_contract_operation(contract, i);

		assert_string_equal(operation->key, expected[i].key);
		assert_string_equal(operation->http_method, expected[i].method);
		assert_int_equal(operation->grant.permission, expected[i].permission);
		assert_int_equal(operation->grant.source, REA_PERMISSION_SOURCE_CONFIG);
		assert_int_equal(operation->generate_key, expected[i].generate_key);
		assert_int_equal(operation->line, 8 + i);
	}
	assert_string_equal(rea_contract_match(contract, "GET", 3, "/users/42?x=1", 13)->key, "user-api_getUserInfo");
	rea_config_unref(config);
}

/* The context of a Feign client is its service, unless it says otherwise. */
static void context_is_the_service_by_default(void **state)
{
	struct rea_config *config = parse(SERVICE OPERATION "{get: /a, id: b}\n");

	(void)state;
	assert_string_equal(rea_contract_operation(rea_config_service(config, 0)->contract, 0)->key, "users_b");
	rea_config_unref(config);
}

/* Each operation has the policy of its key, by index. */
static void policies_by_operation(void **state)
{
	struct rea_config *config = parse(SERVICE
	    "contracts:\n"
	    "  users: {operations: [{get: /a, id: a}, {get: /b, id: b}]}\n" RETRY "      max-retry-next-instance: 2\n"
	    "      service-configs:\n"
	    "        users:\n"
	    "          max-retry-next-instance: 3\n"
	    "          method-configs: {users_b: {max-retry-next-instance: 4}}\n");
	const struct rea_config_service *service = rea_config_service(config, 0);

	(void)state;
	assert_int_equal(service->policy->max_retry_next_instance, 3);
	assert_ptr_equal(service->operation_policies[0], service->policy);
	assert_int_equal(service->operation_policies[1]->max_retry_next_instance, 4);
	rea_config_unref(config);
}

static const struct refusal refusals[] = {
    {"contracts: {users: {operations: []}}\n", REA_ERR_INVALID, 1, 13, "contracts.users", "`services` has no service \"users\""},
    {SERVICE "contracts: {user: {operations: []}}\n", REA_ERR_INVALID, 4, 13, "contracts.user",
	"`services` has no service \"user\"; did you mean users?"},
    {SERVICE "contracts: {users: {}}\n", REA_ERR_INVALID, 4, 13, "contracts.users", "a contract needs `operations` or `files`"},
    {SERVICE "contracts: {users: {operations: {}}}\n", REA_ERR_INVALID, 4, 33, "contracts.users.operations",
	"expected a list of operations, got a mapping"},
    {SERVICE "contracts: {users: {operations: [], contxt: a}}\n", REA_ERR_INVALID, 4, 37, "contracts.users.contxt",
	"a contract has no key \"contxt\"; did you mean context?"},
    {SERVICE "contracts: {users: {context: [a], operations: []}}\n", REA_ERR_INVALID, 4, 30, "contracts.users.context",
	"expected the context id, the first part of method keys, got a list"},
    {SERVICE OPERATION "{get: /a}\n", REA_ERR_INVALID, 7, 9, "contracts.users.operations[0]",
	"an operation needs an `id`, the second part of its method key"},
    {SERVICE OPERATION "{id: a}\n", REA_ERR_INVALID, 7, 9, "contracts.users.operations[0]",
	"an operation needs its HTTP method and path, such as `get: /users/{id}`"},
    {SERVICE OPERATION "{get: /a, post: /a, id: a}\n", REA_ERR_INVALID, 7, 19, "contracts.users.operations[0].post",
	"an operation has one HTTP method, and this one already has get"},
    {SERVICE OPERATION "{gte: /a, id: a}\n", REA_ERR_INVALID, 7, 10, "contracts.users.operations[0].gte",
	"an operation has no key \"gte\"; did you mean get?"},
    {SERVICE OPERATION "{get: a, id: a}\n", REA_ERR_INVALID, 7, 15, "contracts.users.operations[0].get",
	"the path \"a\" does not begin with \"/\""},
    {SERVICE OPERATION "{get: /a/{id, id: a}\n", REA_ERR_SYNTAX, 7, 18, "",
	"while parsing a flow mapping: did not find expected ',' or '}'"},
    {SERVICE OPERATION "{get: \"/a/{id\", id: a}\n", REA_ERR_INVALID, 7, 15, "contracts.users.operations[0].get",
	"the path \"/a/{id\" has a \"{\" that is not closed in its segment"},
    {SERVICE OPERATION "{get: \"/a/x{id}\", id: a}\n", REA_ERR_INVALID, 7, 15, "contracts.users.operations[0].get",
	"the path \"/a/x{id}\" has a parameter that is not a whole segment"},
    {SERVICE OPERATION "{get: /a//b, id: a}\n", REA_ERR_INVALID, 7, 15, "contracts.users.operations[0].get",
	"the path \"/a//b\" has an empty segment"},
    {SERVICE OPERATION "{get: /a/../b, id: a}\n", REA_ERR_INVALID, 7, 15, "contracts.users.operations[0].get",
	"the path \"/a/../b\" has a dot segment"},
    {SERVICE OPERATION "{get: \"/a/{id:[0-9]+}\", id: a}\n", REA_ERR_INVALID, 7, 15,
	"contracts.users.operations[0].get", "the path \"/a/{id:[0-9]+}\" has a parameter whose name is not made of letters, digits, \"_\", \"-\" and \".\""},
    {SERVICE OPERATION "{get: /a, id: a, retryable: maybe}\n", REA_ERR_INVALID, 7, 37,
	"contracts.users.operations[0].retryable", "expected true, false or with-key, got \"maybe\""},
    {SERVICE OPERATION "{get: /a, id: a, retryable: with_key}\n", REA_ERR_INVALID, 7, 37,
	"contracts.users.operations[0].retryable",
	"expected true, false or with-key, got \"with_key\"; did you mean with-key?"},
    {SERVICE OPERATION "{get: /a, id: a, retryable: false, safe: true}\n", REA_ERR_INVALID, 7, 37,
	"contracts.users.operations[0].retryable",
	"`safe: true` says that the operation has no side effects, which contradicts this"},
    {SERVICE OPERATION "{get: /a, id: a, retryable: with-key, safe: true}\n", REA_ERR_INVALID, 7, 37,
	"contracts.users.operations[0].retryable",
	"`safe: true` says that the operation has no side effects, which contradicts this"},
    {SERVICE OPERATION "{get: /a, id: a, safe: 1}\n", REA_ERR_INVALID, 7, 32, "contracts.users.operations[0].safe",
	"expected true or false, got \"1\"; did you mean true?"},
    {SERVICE OPERATION "{post: /a, id: a, generate-key: true}\n", REA_ERR_INVALID, 7, 41,
	"contracts.users.operations[0].generate-key", "a key is generated only for an operation with `retryable: with-key`"},
    {SERVICE OPERATION "{post: /a, id: a, retryable: true, generateKey: true}\n", REA_ERR_INVALID, 7, 57,
	"contracts.users.operations[0].generateKey", "a key is generated only for an operation with `retryable: with-key`"},
    {SERVICE OPERATION "{get: /a, id: a}\n      - {get: /b, id: a}\n", REA_ERR_INVALID, 8, 15,
	"contracts.users.operations[1].get", "the method key \"users_a\" is used twice: for GET /a and for GET /b"},
    {SERVICE OPERATION "{get: \"/a/{x}\", id: a}\n      - {get: \"/a/{y}\", id: b}\n", REA_ERR_INVALID, 8, 15,
	"contracts.users.operations[1].get", "GET /a/{y} takes the same requests as /a/{x}, which has the key \"users_a\""},
    {SERVICE OPERATION "get /a\n", REA_ERR_INVALID, 7, 9, "contracts.users.operations[0]",
	"expected a mapping of keys to values, got \"get /a\""},
};

static void refused(void **state)
{
	(void)state;
	CHECK_REFUSALS(refusals);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_key),
	    cmocka_unit_test(context_is_the_service_by_default),
	    cmocka_unit_test(policies_by_operation),
	    cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
