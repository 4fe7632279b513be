/* Any bytes as a configuration: refused with a message, or a snapshot that answers every question about itself. */
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rea_config *config = NULL;
	struct rea_error_info info;
	struct rea_policy policy;
	int error = rea_config_parse("fuzz.yaml", (const char *)data, size, NULL, &config, &info);

	if (error != 0) {
		check(config == NULL && info.message[0] != '\0' && strcmp(info.file, "fuzz.yaml") == 0);
		return 0;
	}
	for (size_t i = 0; i < rea_config_services_count(config); i++)
		check_service(config, rea_config_service(config, i));
	check(rea_config_policy(config, NULL, NULL, &policy) == 0);
	check_policy(&policy);
	explain(config, NULL, NULL);
	rea_config_unref(config);
	return 0;
}
