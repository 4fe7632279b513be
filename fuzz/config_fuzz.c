/* Any bytes as a configuration, and as a policy over another one: refused with a message, or a snapshot that answers every question about itself. */
#include <rea/config.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
	if (!good)
		abort();
}

static void swallow(const char *text, size_t length, void *user_data)
{
	check(length == strnlen(text, length));
	*(size_t *)user_data += length;
}

static void explain(const struct rea_config *config, const char *service, const char *method)
{
	size_t length = 0;

	check(rea_config_explain(config, service, method, swallow, &length, NULL) == 0);
	check(length > 0);
}

/* Nothing that was accepted is out of the bounds that calls rely on. */
static void check_policy(const struct rea_policy *policy)
{
	check(rea_policy_validate(policy, NULL) == 0);
	check(rea_policy_attempts(policy) <= REA_ATTEMPTS_MAX);
}

static void check_service(const struct rea_config *config, const struct rea_config_service *service)
{
	size_t operations = service->contract ? rea_contract_count(service->contract) : 0;

	check(rea_config_find_service(config, service->name, strlen(service->name)) == service);
	check(rea_config_find_host(config, service->name, strlen(service->name)) == service);
	for (size_t i = 0; i < service->hosts_len; i++)
		check(rea_config_find_host(config, service->hosts[i], strlen(service->hosts[i])) == service);
	check_policy(service->policy);
	explain(config, service->name, NULL);
	for (size_t i = 0; i < operations; i++) {
		check_policy(service->operation_policies[i]);
		explain(config, service->name, rea_contract_operation(service->contract, i)->key);
	}
}

static void no_change(enum rea_config_change kind, const char *text, void *user_data)
{
	(void)kind;
	(void)text;
	(void)user_data;
	abort();
}

static void on_change(enum rea_config_change kind, const char *text, void *user_data)
{
	(void)kind;
	check(text[0] != '\0');
	++*(size_t *)user_data;
}

static void on_file(const struct rea_config_contract_file *file, void *user_data)
{
	(void)user_data;
	check(file->path[0] != '\0');
}

/* The same bytes as the policy over a document with services, contracts and profiles. */
static void as_policy(const char *text, size_t size)
{
	static const char document[] = "services: {users: {instances: ['127.0.0.1:1']}, pay: {instances: []}}\n"
				       "contracts: {users: {operations: [{get: '/u/{id}', id: get, retryable: true}, "
				       "{post: /u, id: add, retryable: with-key}]}}\n"
				       "profiles: {critical: {max-retry-next-instance: 2}}\n";
	struct rea_config *base, *config = NULL;
	struct rea_error_info info;
	size_t told = 0, counts[REA_CONFIG_CHANGES];

	check(rea_config_parse("base.yaml", document, sizeof(document) - 1, NULL, &base, NULL) == 0);
	if (rea_config_with_policy(base, "policy", text, size, NULL, &config, &info) == 0) {
		rea_config_compare(base, config, 5, on_change, &told, counts);
		check(told <= 10 && told <= counts[REA_CHANGED_KEY] + counts[REA_CHANGED_METHOD]);
		rea_config_unref(config);
	} else {
		check(config == NULL && info.message[0] != '\0');
	}
	rea_config_unref(base);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t counts[REA_CONFIG_CHANGES];
	struct rea_config *config = NULL;
	struct rea_error_info info;
	struct rea_policy policy;
	int error = rea_config_parse("fuzz.yaml", (const char *)data, size, NULL, &config, &info);

	as_policy((const char *)data, size);
	rea_config_named_files("fuzz.yaml", (const char *)data, size, NULL, on_file, NULL);
	if (error != 0) {
		check(config == NULL && info.message[0] != '\0' && strcmp(info.file, "fuzz.yaml") == 0);
		return 0;
	}
	for (size_t i = 0; i < rea_config_services_count(config); i++)
		check_service(config, rea_config_service(config, i));
	check(rea_config_policy(config, NULL, NULL, &policy) == 0);
	check_policy(&policy);
	explain(config, NULL, NULL);
	rea_config_compare(config, config, 5, no_change, NULL, counts);
	check(counts[REA_CHANGED_KEY] == 0 && counts[REA_CHANGED_METHOD] == 0);
	rea_config_unref(config);
	return 0;
}
