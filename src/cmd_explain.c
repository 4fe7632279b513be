/* rea explain [--config FILE] [--policy FILE] [SERVICE [METHOD]], rea explain --live [--admin ADDRESS] SERVICE */
#include "cmd.h"

#include "tasks/client.h"

#include <rea/config.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_DEFAULT "rea.yaml"

static int usage(FILE *out)
{
	fprintf(out,
	    "usage: rea explain [--config FILE] [--policy FILE] [SERVICE [METHOD]]\n"
	    "       rea explain --live [--admin ADDRESS] SERVICE\n\n"
	    "Prints what holds for a method, a service or everything, and where each value was written;\n"
	    "or what the retry budget of a service has seen in a running rea.\n\n"
	    "  -c, --config FILE    the configuration (default: " CONFIG_DEFAULT ")\n"
	    "  -p, --policy FILE    the policy in place of what sources.policy tells\n"
	    "  -l, --live           ask a running rea\n"
	    "  -a, --admin ADDRESS  where it has its admin listener (default: $REA_ADMIN, or " TASKS_ADMIN_DEFAULT ")\n"
	    "  -h, --help           print this\n");
	return out == stderr ? 2 : 0;
}

static int fail(const struct rea_error_info *info)
{
	fprintf(stderr, "rea: ");
	if (info->file[0] != '\0' && info->line > 0)
		fprintf(stderr, "%s:%u:%u: ", info->file, info->line, info->column);
	else if (info->file[0] != '\0')
		fprintf(stderr, "%s: ", info->file);
	fprintf(stderr, "%s%s%s\n", info->key, info->key[0] != '\0' ? ": " : "", info->message);
	return 2;
}

static void write_out(const char *text, size_t length, void *user_data)
{
	fwrite(text, 1, length, user_data);
}

/* The configuration as it is with that policy. Takes over *config. */
static int apply_policy(struct rea_config **config, const char *path, const char *policy, struct rea_error_info *ret_info)
{
	struct rea_config *base = *config;
	int error;

	memset(ret_info, 0, sizeof(*ret_info));
	if (policy == NULL) {
		if (rea_config_settings(base)->sources.policy_len == 0)
			return 0;
		snprintf(ret_info->file, sizeof(ret_info->file), "%s", path);
		snprintf(ret_info->message, sizeof(ret_info->message),
		    "sources.policy tells the policy: name one with --policy FILE (`rea config pull` prints it)");
		error = REA_ERR_INVALID;
	} else {
		error = rea_config_load_policy(base, policy, NULL, config, ret_info);
	}
	rea_config_unref(base);
	return error;
}

static int explain(const char *path, const char *policy, const char *service, const char *method)
{
	struct rea_error_info info;
	struct rea_config *config;
	int error = rea_config_load(path, NULL, &config, &info);

	if (error == 0)
		error = apply_policy(&config, path, policy, &info);
	if (error != 0)
		return fail(&info);
	error = rea_config_explain(config, service, method, write_out, stdout, &info);
	rea_config_unref(config);
	if (error != 0)
		return fail(&info);
	return fflush(stdout) == 0 ? 0 : 1;
}

/* ---- live ---- */

static double number(const json_t *object, const char *name)
{
	return json_number_value(json_object_get(object, name));
}

static void show_evidence(const json_t *budget)
{
	const char *congestion = json_string_value(json_object_get(budget, "congestion"));

	printf("  success             %.0f %%; below 15 %% nothing is retried but for tokens\n",
	    number(budget, "success") * 100);
	printf("  tokens              %.1f of 2\n", number(budget, "tokens"));
	if (number(budget, "baseline_ms") > 0)
		printf("  latency             %.3g ms, %.1fx baseline; above %.1fx is congestion\n",
		    number(budget, "latency_ms"), number(budget, "latency_ratio"), number(budget, "latency_ratio_max"));
	else
		printf("  latency             no baseline yet\n");
	printf("  last 2 s            %.0f first attempts, %.0f retries; %.0f of %.0f attempts timed out\n",
	    number(budget, "first_attempts"), number(budget, "retries"), number(budget, "timeouts"),
	    number(budget, "outcomes"));
	printf("  pushback            %.0f %%; above 5 %% is congestion\n", number(budget, "pushback") * 100);
	if (congestion != NULL)
		printf("  congested           for %.0f ms: %s\n", number(budget, "congested_ms"), congestion);
	else
		printf("  congested           no\n");
	printf("  last success        %.0f ms ago\n", number(budget, "since_success_ms"));
}

static void show_instances(const json_t *instances)
{
	const json_t *instance;
	size_t i;

	json_array_foreach(instances, i, instance)
	{
		const char *address = json_string_value(json_object_get(instance, "address"));
		double ejected = number(instance, "ejected"), ejections = number(instance, "ejections");

		printf("  %-19s %s", i == 0 ? "instances" : "", address != NULL ? address : "");
		if (ejected > 0)
			printf(", ejected by %.0f thread%s", ejected, ejected > 1 ? "s" : "");
		if (ejections > 0)
			printf(", %.0f time%s so far", ejections, ejections > 1 ? "s" : "");
		printf("\n");
	}
}

static void show_discovery(const json_t *discovery)
{
	const char *source = json_string_value(json_object_get(discovery, "source"));

	if (source == NULL)
		return;
	printf("  found by            %s", source);
	if (json_object_get(discovery, "age_ms") == NULL)
		printf(", which has told nothing yet");
	else if (json_is_true(json_object_get(discovery, "troubled")))
		printf(", which has not answered for %.0f s", number(discovery, "age_ms") / 1e3);
	if (json_is_true(json_object_get(discovery, "empty_held")))
		printf("; it lists none, so the last ones hold");
	if (json_is_true(json_object_get(discovery, "protection")))
		printf("; below its protection threshold, so nobody knows which are healthy");
	printf("\n");
}

static void show_service(const json_t *service)
{
	const json_t *budget = json_object_get(service, "budget");
	const char *rule = json_string_value(json_object_get(budget, "rule"));

	printf("%s\n\n", json_string_value(json_object_get(service, "service")));
	printf("  budget              %s, %.0f retries left\n", rule, number(budget, "available"));
	if (strcmp(rule, "evidence") == 0)
		show_evidence(budget);
	else if (json_object_get(budget, "tokens") != NULL)
		printf("  tokens              %.1f\n", number(budget, "tokens"));
	printf("  parked calls        %.0f of %.0f, of all services\n", number(service, "parked_calls"),
	    number(service, "parked_calls_max"));
	printf("  retries in flight   %.0f of %.0f, of all services\n", number(service, "retries_in_flight"),
	    number(service, "concurrent_retries_max"));
	show_discovery(json_object_get(service, "discovery"));
	show_instances(json_object_get(service, "instances"));
}

/* A reply of another program, or of another version, may have nothing of what is shown. */
static bool is_service(const json_t *document)
{
	const json_t *budget = json_object_get(document, "budget");

	return json_is_string(json_object_get(document, "service")) && json_is_string(json_object_get(budget, "rule"));
}

static int show_live(const char *admin, const char *service)
{
	struct tasks_client client;
	char *path;
	int code = 1;

	if (!tasks_client_open(&client, "rea explain", admin))
		return 1;
	path = tasks_path(&client, "/v1/services", service, "");
	if (path != NULL && tasks_ask(&client, "GET", path, NULL)) {
		if (is_service(client.document)) {
			show_service(client.document);
			code = fflush(stdout) == 0 ? 0 : 1;
		} else {
			fprintf(stderr, "rea: what answers at %s is not the admin API of rea\n", client.admin);
		}
	}
	free(path);
	tasks_client_close(&client);
	return code;
}

int cmd_explain(int argc, char **argv)
{
	static const struct option options[] = {{"config", required_argument, NULL, 'c'},
	    {"policy", required_argument, NULL, 'p'}, {"live", no_argument, NULL, 'l'},
	    {"admin", required_argument, NULL, 'a'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
	const char *path = NULL, *policy = NULL, *admin = NULL;
	bool live = false;
	int option;

	while ((option = getopt_long(argc, argv, "c:p:la:h", options, NULL)) != -1) {
		if (option == 'h')
			return usage(stdout);
		if (option == 'c')
			path = optarg;
		else if (option == 'p')
			policy = optarg;
		else if (option == 'l')
			live = true;
		else if (option == 'a')
			admin = optarg;
		else
			return usage(stderr);
	}
	if (live)
		return argc - optind == 1 && path == NULL && policy == NULL ? show_live(admin, argv[optind]) : usage(stderr);
	if (argc - optind > 2 || admin != NULL)
		return usage(stderr);
	if (path == NULL)
		path = CONFIG_DEFAULT;
	return explain(path, policy, argc > optind ? argv[optind] : NULL, argc > optind + 1 ? argv[optind + 1] : NULL);
}
