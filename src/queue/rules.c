/* What the configuration says of tasks: a snapshot that outlives a reload for as long as an attempt stands on it. */
#include "queue/internal.h"

#include <stdio.h>
#include <stdlib.h>

static int refuse(const struct rea_config_url *url, const char *key, struct rea_error_info *ret_info)
{
	char message[sizeof(ret_info->message)];

	if (ret_info == NULL)
		return REA_ERR_INVALID;
	snprintf(message, sizeof(message), "%s", ret_info->message);
	memset(ret_info, 0, sizeof(*ret_info));
	ret_info->line = url->line;
	snprintf(ret_info->key, sizeof(ret_info->key), "tasks.urls.%s", key);
	snprintf(ret_info->message, sizeof(ret_info->message), "%s", message);
	return REA_ERR_INVALID;
}

#define SECRET_FILE_MAX 512

/* A file that holds a secret and nothing else but blanks. */
static bool read_secret(const char *path, char ret_text[SECRET_FILE_MAX], struct rea_error_info *ret_info)
{
	FILE *file = fopen(path, "re");
	size_t length;

	if (file == NULL) {
		snprintf(ret_info->message, sizeof(ret_info->message), "cannot read %s", path);
		return false;
	}
	length = fread(ret_text, 1, SECRET_FILE_MAX - 1, file);
	fclose(file);
	while (length > 0 && (ret_text[length - 1] == '\n' || ret_text[length - 1] == '\r' || ret_text[length - 1] == ' '))
		length--;
	ret_text[length] = '\0';
	return true;
}

static int read_keys(struct rule *rule, const struct rea_config_url *url, struct rea_error_info *info)
{
	char secret[SECRET_FILE_MAX];

	for (size_t i = 0; i < url->secrets_len && i < SIGN_KEYS_MAX; i++) {
		const char *text = url->secrets[i];

		if (strncmp(text, "file:", 5) == 0) {
			if (!read_secret(text + 5, secret, info))
				return refuse(url, "sign.secrets", info);
			text = secret;
		}
		if (sign_key_parse(rea_slice_of(text), &rule->keys[i], info) != 0)
			return refuse(url, "sign.secrets", info);
	}
	rule->deliver = (struct deliver_url_rule){.allowed = {url->allow_private, url->allow_private_len},
	    .ca_file = url->ca_file,
	    .keys = rule->keys,
	    .keys_len = url->secrets_len};
	return 0;
}

static int read_rule(struct rule *rule, const struct rea_config_url *url, struct rea_error_info *info)
{
	int error = vet_pattern_parse(rea_slice_of(url->pattern), &rule->pattern, info);

	if (error != 0)
		return error == REA_ERR_NOMEM ? error : refuse(url, "pattern", info);
	rule->config = url;
	error = read_keys(rule, url, info);
	if (error != 0)
		vet_pattern_fini(&rule->pattern);
	return error;
}

int rules_new(struct rea_config *config, struct rules **ret_rules, struct rea_error_info *ret_info)
{
	struct rea_error_info unwanted = {.message = ""}, *info = ret_info ? ret_info : &unwanted;
	struct rules *rules = calloc(1, sizeof(*rules));
	int error = 0;

	if (rules == NULL)
		return REA_ERR_NOMEM;
	rules->refs = 1;
	rules->config = rea_config_ref(config);
	rules->settings = rea_config_settings(config);
	rules->urls = calloc(rules->settings->tasks.urls_len + 1, sizeof(*rules->urls));
	if (rules->urls == NULL)
		error = REA_ERR_NOMEM;
	for (size_t i = 0; error == 0 && i < rules->settings->tasks.urls_len; i++) {
		error = read_rule(&rules->urls[i], &rules->settings->tasks.urls[i], info);
		rules->urls_len += error == 0;
	}
	if (error != 0)
		rules_unref(rules);
	else
		*ret_rules = rules;
	return error;
}

struct rules *rules_ref(struct rules *rules)
{
	rules->refs++;
	return rules;
}

void rules_unref(struct rules *rules)
{
	if (rules == NULL || --rules->refs > 0)
		return;
	for (size_t i = 0; i < rules->urls_len; i++)
		vet_pattern_fini(&rules->urls[i].pattern);
	free(rules->urls);
	rea_config_unref(rules->config);
	free(rules);
}

const struct rule *rules_match(const struct rules *rules, const struct vet_url *url)
{
	for (size_t i = 0; i < rules->urls_len; i++)
		if (vet_pattern_matches(&rules->urls[i].pattern, url))
			return &rules->urls[i];
	return NULL;
}

int queue_check(const struct rea_config *config, struct rea_error_info *ret_info)
{
	struct rules *rules;
	/* A reference more or less is no change that anybody sees. */
	int error = rules_new((struct rea_config *)(uintptr_t)config, &rules, ret_info);

	if (error == 0)
		rules_unref(rules);
	return error;
}
