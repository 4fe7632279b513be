#include "policy_values.h"

#include "base/slice.h"

#include <stdio.h>
#include <stdlib.h>

bool policy_value_is_one(const char *argument)
{
	const char *equal = strchr(argument, '='), *slash = strchr(argument, '/');

	return equal != NULL && (slash == NULL || equal < slash);
}

/* The key of "KEY=VALUE", in kebab-case or camelCase. */
static bool names_key(const char *argument, const char *key)
{
	for (; *key != '\0'; key++) {
		if (*key == '-')
			argument += *argument == '-';
		else if (rea_ascii_lower(*argument++) != *key)
			return false;
	}
	return *argument == '=';
}

static bool is_given(const char *const *arguments, size_t arguments_len, const char *key)
{
	for (size_t i = 0; i < arguments_len; i++)
		if (names_key(arguments[i], key))
			return true;
	return false;
}

static void write_key(FILE *out, const char *key, size_t key_length, const char *value)
{
	fprintf(out, "      %.*s: %s\n", (int)key_length, key, value);
}

static void write_document(FILE *out, const char *const *arguments, size_t arguments_len,
    const struct policy_value *defaults, size_t defaults_len)
{
	bool profile = is_given(arguments, arguments_len, "profile");

	fprintf(out, "rpc:\n  feign:\n    retry:\n");
	for (size_t i = 0; i < defaults_len; i++)
		if (!is_given(arguments, arguments_len, defaults[i].key) && (!profile || i == 0))
			write_key(out, defaults[i].key, strlen(defaults[i].key), defaults[i].value);
	for (size_t i = 0; i < arguments_len; i++) {
		const char *equal = strchr(arguments[i], '=');

		write_key(out, arguments[i], (size_t)(equal - arguments[i]), equal + 1);
	}
}

/* The argument would otherwise write lines of its own. */
static int check(const char *argument, struct rea_error_info *ret_info)
{
	for (const char *at = argument; *at != '\0'; at++)
		if ((unsigned char)*at < ' ') {
			memset(ret_info, 0, sizeof(*ret_info));
			snprintf(ret_info->message, sizeof(ret_info->message), "a control character in a policy's value");
			return REA_ERR_INVALID;
		}
	return 0;
}

int policy_values_read(const char *const *arguments, size_t arguments_len, const struct policy_value *defaults,
    size_t defaults_len, struct rea_policy *ret_policy, struct rea_error_info *ret_info)
{
	struct rea_config *config = NULL;
	char *text = NULL;
	size_t length = 0;
	FILE *out;
	int error = 0;

	for (size_t i = 0; error == 0 && i < arguments_len; i++)
		error = check(arguments[i], ret_info);
	if (error != 0)
		return error;
	*ret_info = (struct rea_error_info){.message = "out of memory"};
	error = REA_ERR_NOMEM;
	out = open_memstream(&text, &length);
	if (out != NULL) {
		write_document(out, arguments, arguments_len, defaults, defaults_len);
		if (fclose(out) == 0)
			error = rea_config_parse(NULL, text, length, NULL, &config, ret_info);
	}
	free(text);
	if (error != 0) {
		ret_info->line = 0; /* of a text that nobody has seen */
		return error;
	}
	rea_config_policy(config, NULL, NULL, ret_policy);
	rea_config_unref(config);
	return 0;
}
