/* Contracts from OpenAPI, FileDescriptorSets, Smithy and plain documents: exact permissions, and every refusal with its place. */
#include "../fail_alloc.h"
#include "refusal.h"

#include <rea/contract_document.h>

#include <stdlib.h>
#include <unistd.h>

#define READ(text) text, sizeof(text) - 1

struct expected {
	const char *key, *method, *path;
	enum rea_permission permission;
	bool generate_key;
};

static int read_into(struct rea_contract *contract, const char *text, size_t length, const char *context,
    enum rea_contract_format *ret_format, struct rea_error_info *info)
{
	struct rea_contract_document document;

	rea_contract_document_init(&document);
	document.name = "doc";
	document.text = text;
	document.length = length;
	document.context = context;
	return rea_contract_read(contract, &document, NULL, ret_format, info);
}

static void check(const char *text, size_t length, const char *context, enum rea_contract_format format,
    enum rea_permission_source source, const struct expected *expected, size_t count)
{
	struct rea_contract *contract;
	struct rea_error_info info;
	enum rea_contract_format found = REA_CONTRACT_AUTO;
	int error;

	assert_int_equal(rea_contract_new(NULL, &contract), 0);
	error = read_into(contract, text, length, context, &found, &info);
	if (error != 0)
		fail_msg("%s:%u:%u: %s: %s", info.file, info.line, info.column, info.key, info.message);
	assert_int_equal(found, format);
	assert_int_equal(rea_contract_count(contract), count);
	for (size_t i = 0; i < count; i++) {
		const struct rea_operation *operation = rea_contract_operation(contract, i);

		assert_string_equal(operation->key, expected[i].key);
		assert_string_equal(operation->http_method, expected[i].method);
		assert_string_equal(operation->path, expected[i].path);
		assert_int_equal(operation->grant.permission, expected[i].permission);
		assert_int_equal(operation->grant.source,
		    expected[i].permission == REA_PERMISSION_NONE ? REA_PERMISSION_SOURCE_NONE : source);
		assert_int_equal(operation->generate_key, expected[i].generate_key);
	}
	rea_contract_free(contract);
}

static void refused(const char *text, size_t length, int error, uint32_t line, uint32_t column, const char *message)
{
	struct rea_contract *contract;
	struct rea_error_info info;

	assert_int_equal(rea_contract_new(NULL, &contract), 0);
	assert_int_equal(read_into(contract, text, length, NULL, NULL, &info), error);
	assert_string_equal(info.message, message);
	assert_string_equal(info.file, "doc");
	if (info.line != line || info.column != column)
		fail_msg("at %u:%u, not %u:%u: %s", info.line, info.column, line, column, message);
	rea_contract_free(contract);
}

/* ---- OpenAPI ---- */

#define OPENAPI "openapi: 3.0.3\npaths:\n"

static const char petstore[] =
    "openapi: 3.1.0\n"
    "info: {title: Pets, version: '1'}\n"
    "servers:\n"
    "  - url: 'https://{host}/{v}/'\n"
    "    variables: {host: {default: api.example.com}, v: {default: v2}}\n"
    "  - url: http://localhost:8080/v2\n"
    "paths:\n"
    "  /pets:\n"
    "    parameters: [{$ref: '#/components/parameters/Trace'}]\n"
    "    get: {operationId: listPets, tags: [pets, more], x-rea-retry: safe}\n"
    "    post:\n"
    "      operationId: createPet\n"
    "      tags: [pets]\n"
    "      parameters: [{$ref: '#/components/parameters/Key'}]\n"
    "  /pets/{id}:\n"
    "    put: {operationId: putPet, tags: [pets], x-rpc-retryable: true}\n"
    "    delete: {operationId: dropPet, tags: [pets], x-rpc-retryable: false}\n"
    "    patch: {operationId: patchPet, tags: [pets]}\n"
    "    head: {tags: [pets], x-rpc-retryable: true, x-rea-retry: safe}\n"
    "  /orders:\n"
    "    post:\n"
    "      operationId: order\n"
    "      tags: [orders]\n"
    "      x-rpc-retryable: true\n"
    "      x-rea-generate-key: true\n"
    "      parameters:\n"
    "        - {name: idempotency-KEY, in: header, required: true}\n"
    "    options: {operationId: ask, tags: [orders], parameters: [{name: Idempotency-Key, in: header}]}\n"
    "  /linked: {$ref: '#/components/pathItems/a~1b'}\n"
    "  x-note: nothing\n"
    "components:\n"
    "  parameters:\n"
    "    Trace: {name: x-trace, in: header, required: true}\n"
    "    Key: {$ref: '#/components/parameters/Key%32'}\n"
    "    Key2: {name: Idempotency-Key, in: header, required: true}\n"
    "  pathItems:\n"
    "    a/b: {trace: {operationId: linked, tags: [x]}}\n";

static void openapi_says_what_is_permitted(void **state)
{
	static const struct expected expected[] = {
	    {"pets_listPets", "GET", "/v2/pets", REA_PERMISSION_SAFE, false},
	    {"pets_createPet", "POST", "/v2/pets", REA_PERMISSION_IDEMPOTENT_WITH_KEY, false},
	    {"pets_putPet", "PUT", "/v2/pets/{id}", REA_PERMISSION_IDEMPOTENT, false},
	    {"pets_dropPet", "DELETE", "/v2/pets/{id}", REA_PERMISSION_FORBID, false},
	    {"pets_patchPet", "PATCH", "/v2/pets/{id}", REA_PERMISSION_NONE, false},
	    {"pets_head_pets_{id}", "HEAD", "/v2/pets/{id}", REA_PERMISSION_IDEMPOTENT, false},
	    {"orders_order", "POST", "/v2/orders", REA_PERMISSION_IDEMPOTENT_WITH_KEY, true},
	    {"orders_ask", "OPTIONS", "/v2/orders", REA_PERMISSION_NONE, false},
	    {"x_linked", "TRACE", "/v2/linked", REA_PERMISSION_NONE, false},
	};

	(void)state;
	check(READ(petstore), NULL, REA_CONTRACT_OPENAPI, REA_PERMISSION_SOURCE_OPENAPI, expected, 9);
}

static void openapi_in_json_with_a_context(void **state)
{
	static const char text[] =
	    "{\"openapi\": \"3.0.0\", \"paths\": {\"\\/users\\/{id}\": {\"get\": {\"operationId\": \"getUserInfo\", "
	    "\"x-rpc-retryable\": \"with-key\", \"tags\": [\"User Controller\"]}}}}";
	static const struct expected expected[] = {
	    {"user-service_getUserInfo", "GET", "/users/{id}", REA_PERMISSION_IDEMPOTENT_WITH_KEY, false}};

	(void)state;
	check(READ(text), "user-service", REA_CONTRACT_OPENAPI, REA_PERMISSION_SOURCE_OPENAPI, expected, 1);
}

static void openapi_refusals(void **state)
{
	(void)state;
	refused(READ("swagger: '2.0'\n"), REA_ERR_INVALID, 1, 1,
	    "only OpenAPI 3.0 and 3.1 are read; converters from 2.0 are many");
	refused(READ(OPENAPI "  /a: {get: {tags: [t], x-rpc-retryable: yes}}\n"), REA_ERR_INVALID, 3, 42,
	    "expected true, false or with-key, got \"yes\"");
	refused(READ(OPENAPI "  /a: {get: {tags: [t], x-rea-retry: [safe]}}\n"), REA_ERR_INVALID, 3, 38,
	    "expected forbid, safe, idempotent or idempotent-with-key, got a structure");
	refused(READ(OPENAPI "  /a: {x-rpc-retryable: true, get: {tags: [t]}}\n"), REA_ERR_INVALID, 3, 8,
	    "x-rpc-retryable says nothing of a path: it stands at an operation");
	refused(READ("openapi: 3.0.0\nx-rea-retry: safe\n"), REA_ERR_INVALID, 2, 1,
	    "x-rea-retry says nothing of the whole document: it stands at an operation");
	refused(READ(OPENAPI "  /a: {get: {operationId: x}}\n"), REA_ERR_INVALID, 3, 8,
	    "the operation has no tag, so the first part of its method key is not known: give a context");
	refused(READ(OPENAPI "  /a: {get: {tags: [t], operationId: x}, put: {tags: [t], operationId: x}}\n"),
	    REA_ERR_INVALID, 3, 42, "the method key \"t_x\" is used twice: for GET /a and for PUT /a");
}

static void openapi_references_are_bounded(void **state)
{
	(void)state;
	refused(READ("openapi: 3.0.0\npaths:\n  /a: {get: {tags: [t], parameters: [{$ref: '#/p/a'}]}}\np:\n  a: {$ref: "
		     "'#/p/b'}\n  b: {$ref: "
		     "'#/p/a'}\n"),
	    REA_ERR_INVALID, 3, 38, "its references go in a circle, or are more than 8 deep");
	refused(READ(OPENAPI "  /a: {$ref: 'other.yaml#/a'}\n"), REA_ERR_INVALID, 3, 14,
	    "a reference to another document is not followed; bundle the documents into one");
	refused(READ(OPENAPI "  /a: {$ref: '#/nowhere'}\n"), REA_ERR_INVALID, 3, 14,
	    "the document has nothing at \"#/nowhere\"");
	refused(READ(OPENAPI "  /a: {$ref: '#/paths/~2'}\n"), REA_ERR_INVALID, 3, 14,
	    "the document has nothing at \"#/paths/~2\"");
	refused(READ("openapi: 3.0.0\nservers: [{url: /v1}, {url: /v2}]\npaths: {}\n"), REA_ERR_INVALID, 2, 23,
	    "the servers have different paths, \"/v1\" and \"/v2\": say which one holds by a base path");
	refused(READ("openapi: 3.0.0\nservers: [{url: '/{v}'}]\n"), REA_ERR_INVALID, 2, 17,
	    "a variable of the URL has no default");
}

/* ---- FileDescriptorSet ---- */

/* As protoc writes it, from: package shop; service Orders { Get NO_SIDE_EFFECTS, Put IDEMPOTENT, New, Pay [rpc_retryable = 3], Del [= 2] }.
 * The package stands behind the service, as another writer may do. */
static const char descriptor[] = "\n\x7c"
				 "\n\x01s"
				 "\x32\x67\n\x06Orders"
				 "\x12\x0e\n\x03Get\x12\x02.A\"\x03\x90\x02\x01"
				 "\x12\x0e\n\x03Put\x12\x02.A\"\x03\x90\x02\x02"
				 "\x12\x0d\n\x03New\x12\x02.A\x1a\x02.B"
				 "\x12\x0f\n\x03Pay\x12\x02.A\"\x04\xf0\xa4\x19\x03"
				 "\x12\x0f\n\x03"
				 "Del\x12\x02.A\"\x04\xf0\xa4\x19\x02"
				 "\x12\x12\n\x03"
				 "Bad\"\x0b\x90\x02\x02\x82\xe3\x0a\x04\x0a\x02hi"
				 "\x12\x04shop";

static void descriptors_say_what_is_permitted(void **state)
{
	static const struct expected expected[] = {
	    {"shop.Orders_Get", "POST", "/shop.Orders/Get", REA_PERMISSION_SAFE, false},
	    {"shop.Orders_Put", "POST", "/shop.Orders/Put", REA_PERMISSION_IDEMPOTENT, false},
	    {"shop.Orders_New", "POST", "/shop.Orders/New", REA_PERMISSION_NONE, false},
	    {"shop.Orders_Pay", "POST", "/shop.Orders/Pay", REA_PERMISSION_IDEMPOTENT_WITH_KEY, false},
	    {"shop.Orders_Del", "POST", "/shop.Orders/Del", REA_PERMISSION_FORBID, false},
	    {"shop.Orders_Bad", "POST", "/shop.Orders/Bad", REA_PERMISSION_IDEMPOTENT, false},
	};
	char text[sizeof(descriptor)];

	(void)state;
	memcpy(text, descriptor, sizeof(text));
	/* The lengths of the file and of the service, which a person cannot count. */
	text[1] = (char)(sizeof(text) - 1 - 2);
	text[6] = (char)(sizeof(text) - 1 - 7 - 6);
	check(text, sizeof(text) - 1, NULL, REA_CONTRACT_PROTOBUF, REA_PERMISSION_SOURCE_PROTOBUF, expected, 6);
	/* Every lying length and every cut is refused or read, and nothing else happens. */
	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		struct rea_contract *contract;
		char wrong[sizeof(text)];

		memcpy(wrong, text, sizeof(text));
		wrong[i] = (char)(wrong[i] + 1);
		assert_int_equal(rea_contract_new(NULL, &contract), 0);
		read_into(contract, wrong, sizeof(text) - 1, NULL, NULL, NULL);
		read_into(contract, text, i, NULL, NULL, NULL);
		rea_contract_free(contract);
	}
}

static void descriptor_refusals(void **state)
{
	(void)state;
	refused(READ("\n\x06\x32\x03\n\x01\0"), REA_ERR_SYNTAX, 0, 0,
	    "at byte 0: no field of a FileDescriptorSet, or one that is longer than what it stands in");
	refused(READ("\n\x04\x32\x02\x12\0"), REA_ERR_INVALID, 0, 0, "at byte 4: a service has no name");
	refused(READ("\n\x10\x32\x0e\n\x01S\x12\x09\n\x01M\"\x05\x90\x02\x03\0"), REA_ERR_SYNTAX, 0, 0,
	    "at byte 12: no field of a FileDescriptorSet, or one that is longer than what it stands in");
	refused(READ("\n\x0f\x32\x0d\n\x01S\x12\x08\n\x01M\"\x03\x90\x02\x03\0"), REA_ERR_INVALID, 0, 0,
	    "at byte 17: idempotency_level 3 has no meaning");
}

/* ---- Smithy, plain ---- */

static const char smithy[] =
    "{\"smithy\":\"2.0\",\"shapes\":{\n"
    "\"w#Weather\":{\"type\":\"service\",\"version\":\"1\"},\n"
    "\"w#Get\":{\"type\":\"operation\",\"traits\":{\"smithy.api#readonly\":{},\"smithy.api#http\":{\"method\":\"GET\","
    "\"uri\":\"/cities/{id}?full\"}}},\n"
    "\"w#Put\":{\"type\":\"operation\",\"traits\":{\"smithy.api#idempotent\":{},\"smithy.api#http\":{\"method\":"
    "\"PUT\",\"uri\":\"/cities/{id}\"}}},\n"
    "\"w#New\":{\"type\":\"operation\",\"input\":{\"target\":\"w#NewIn\"},\"traits\":{\"smithy.api#http\":{\"method\":"
    "\"POST\",\"uri\":\"/cities\"}}},\n"
    "\"w#NewIn\":{\"type\":\"structure\",\"members\":{\"t\":{\"target\":\"smithy.api#String\",\"traits\":{\"smithy.api#"
    "idempotencyToken\":{}}}}},\n"
    "\"w#Run\":{\"type\":\"operation\",\"traits\":{\"smithy.api#http\":{\"method\":\"POST\",\"uri\":\"/run\"}}},\n"
    "\"w#Rpc\":{\"type\":\"operation\"}}}";

static void smithy_says_what_is_permitted(void **state)
{
	static const struct expected expected[] = {
	    {"Weather_Get", "GET", "/cities/{id}", REA_PERMISSION_SAFE, false},
	    {"Weather_Put", "PUT", "/cities/{id}", REA_PERMISSION_IDEMPOTENT, false},
	    {"Weather_New", "POST", "/cities", REA_PERMISSION_IDEMPOTENT_WITH_KEY, false},
	    {"Weather_Run", "POST", "/run", REA_PERMISSION_NONE, false},
	};

	(void)state;
	check(READ(smithy), NULL, REA_CONTRACT_SMITHY, REA_PERMISSION_SOURCE_SMITHY, expected, 4);
	refused(READ("{\"smithy\":\"2.0\"}"), REA_ERR_INVALID, 1, 1, "a Smithy model needs its `shapes`");
	refused(READ("{\"smithy\":\"2.0\",\"shapes\":{\"a#A\":{\"type\":\"service\"},\"a#B\":{\"type\":\"service\"}}}"),
	    REA_ERR_INVALID, 1, 26,
	    "the model has no service, or several, so the first part of method keys is not known: give a context");
	refused(READ("{\"smithy\":\"2.0\",\"shapes\":{\"a#A\":{\"type\":\"service\"},\n\"a#O\":{\"type\":\"operation\","
		     "\"traits\":"
		     "{\"smithy.api#http\":{\"method\":\"GET\",\"uri\":\"/{k+}\"}}}}}"),
	    REA_ERR_INVALID, 2, 77, "a greedy label takes several segments, which is not understood here");
}

static void plain_documents(void **state)
{
	static const struct expected expected[] = {
	    {"user-api_get", "GET", "/users/{id}", REA_PERMISSION_IDEMPOTENT, false},
	    {"user-api_pay", "POST", "/pay", REA_PERMISSION_IDEMPOTENT_WITH_KEY, true},
	};

	(void)state;
	check(READ("context: user-api\noperations:\n  - {get: '/users/{id}', id: get, retryable: true}\n"
		   "  - {post: /pay, id: pay, retryable: with-key, generate-key: true}\n"),
	    NULL, REA_CONTRACT_PLAIN, REA_PERMISSION_SOURCE_CONTRACT, expected, 2);
	refused(READ("operations: []\n"), REA_ERR_INVALID, 1, 1,
	    "a contract file needs its `context`, the first part of method keys");
	refused(READ("context: a\noperations: []\nfiles: [b]\n"), REA_ERR_INVALID, 3, 1,
	    "a contract file names no further files");
	refused(READ(""), REA_ERR_SYNTAX, 0, 0, "the document is empty");
	refused(READ("a: 1\n"), REA_ERR_INVALID, 1, 1,
	    "no contract: neither `openapi` nor `smithy` nor `operations` stands at its root");
}

/* ---- several documents of one contract ---- */

static void the_most_restrictive_source_wins(void **state)
{
	static const char first[] = OPENAPI "  /pay: {post: {operationId: pay, tags: [u], x-rpc-retryable: true}}\n"
					    "  /get: {get: {operationId: get, tags: [u], x-rpc-retryable: true}}\n";
	static const char second[] =
	    "context: u\noperations:\n  - {post: /pay, id: pay, retryable: with-key, generate-key: true}\n"
	    "  - {get: /get, id: get}\n  - {get: /more, id: more, safe: true}\n";
	struct rea_contract *contract;
	const struct rea_operation *operation;
	struct rea_error_info info;

	(void)state;
	assert_int_equal(rea_contract_new(NULL, &contract), 0);
	assert_int_equal(read_into(contract, READ(first), NULL, NULL, &info), 0);
	assert_int_equal(read_into(contract, READ(second), NULL, NULL, &info), 0);
	assert_int_equal(rea_contract_count(contract), 3);
	operation = rea_contract_find_key(contract, "u_pay", 5);
	assert_int_equal(operation->grant.permission, REA_PERMISSION_IDEMPOTENT_WITH_KEY);
	assert_int_equal(operation->grant.source, REA_PERMISSION_SOURCE_CONTRACT);
	assert_true(operation->generate_key);
	operation = rea_contract_find_key(contract, "u_get", 5);
	assert_int_equal(operation->grant.permission, REA_PERMISSION_IDEMPOTENT);
	assert_int_equal(operation->grant.source, REA_PERMISSION_SOURCE_OPENAPI);
	/* The same requests under another name: nobody knows which is meant. */
	assert_int_equal(read_into(contract, READ("context: v\noperations:\n  - {get: /get, id: get}\n"), NULL, NULL, &info),
	    REA_ERR_INVALID);
	assert_string_equal(info.message, "GET /get takes the same requests as /get, which has the key \"u_get\"");
	assert_int_equal(info.line, 3);
	rea_contract_free(contract);
}

/* From rea.yaml: beside it, combined with what stands there, and a part of its version. */
static void files_of_a_configuration(void **state)
{
	char directory[] = "/tmp/rea-contract-XXXXXX", path[64], yaml[64], version[17];
	static const char text[] =
	    SERVICE "contracts:\n  users:\n    context: pets\n    base-path: ''\n    files: [api.yaml]\n"
		    "    operations:\n      - {get: /pets, id: listPets, retryable: false}\n";
	char good[sizeof(text)];
	const struct rea_config_contract_file *files;
	struct rea_config *config;
	struct rea_error_info info;
	size_t count;
	FILE *file;

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/api.yaml", directory);
	snprintf(yaml, sizeof(yaml), "%s/rea.yaml", directory);
	memcpy(good, text, sizeof(text));
	memcpy(strstr(good, "''"), "/x", 2);
	assert_int_equal(rea_config_parse(yaml, READ(good), NULL, &config, &info), REA_ERR_IO);
	assert_int_equal(info.line, 8);
	assert_non_null(strstr(info.message, "/api.yaml cannot be read: No such file"));
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "openapi: 3.0.0\npaths:\n  /pets: {get: {operationId: other, x-rea-retry: safe}}\n");
	fclose(file);
	assert_int_equal(rea_config_parse(yaml, READ(good), NULL, &config, &info), 0);
	assert_int_equal(rea_contract_count(rea_config_service(config, 0)->contract), 2);
	assert_string_equal(rea_contract_operation(rea_config_service(config, 0)->contract, 0)->path, "/x/pets");
	files = rea_config_contract_files(config, &count);
	assert_int_equal(count, 1);
	assert_string_equal(files[0].path, path);
	assert_int_equal(strlen(files[0].version), 16);
	memcpy(version, rea_config_version(config), sizeof(version));
	rea_config_unref(config);
	/* Another contract under the same rea.yaml is another version. */
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "openapi: 3.0.0\npaths: {}\n");
	fclose(file);
	assert_int_equal(rea_config_parse(yaml, READ(good), NULL, &config, &info), 0);
	assert_string_not_equal(rea_config_version(config), version);
	rea_config_unref(config);
	unlink(path);
	rmdir(directory);
}

/* Every allocation fails once, and for good: an error, nothing lost. */
static void out_of_memory(void **state)
{
	static const struct {
		const char *text;
		size_t length;
	} documents[] = {
	    {READ(petstore)}, {READ(smithy)}, {READ("context: u\noperations:\n  - {get: /a, id: a, safe: true}\n")}};

	(void)state;
	for (size_t i = 0; i < 6; i++)
		for (size_t left = 0, error = 1; error != 0; left++) {
			struct fail_alloc failing;
			struct rea_contract_document document;
			struct rea_contract *contract;
			struct rea_error_info info;
			int result;

			fail_alloc_init(&failing, left, i % 2 == 1);
			rea_contract_document_init(&document);
			document.text = documents[i / 2].text;
			document.length = documents[i / 2].length;
			assert_int_equal(rea_contract_new(NULL, &contract), 0);
			result = rea_contract_read(contract, &document, &failing.alloc, NULL, &info);
			error = result != 0;
			assert_true(result == 0 || result == REA_ERR_NOMEM);
			assert_int_equal(failing.live, 0);
			assert_int_equal(result == 0, failing.failed == 0);
			rea_contract_free(contract);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(openapi_says_what_is_permitted),
	    cmocka_unit_test(openapi_in_json_with_a_context),
	    cmocka_unit_test(openapi_refusals),
	    cmocka_unit_test(openapi_references_are_bounded),
	    cmocka_unit_test(descriptors_say_what_is_permitted),
	    cmocka_unit_test(descriptor_refusals),
	    cmocka_unit_test(smithy_says_what_is_permitted),
	    cmocka_unit_test(plain_documents),
	    cmocka_unit_test(the_most_restrictive_source_wins),
	    cmocka_unit_test(files_of_a_configuration),
	    cmocka_unit_test(out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
