/* A policy out of KEY=VALUE arguments, as rea.yaml's retry block would have it: the same keys, the same bounds, the same refusals. */
#ifndef REA_SRC_POLICY_VALUES_H
#define REA_SRC_POLICY_VALUES_H

#include <rea/config.h>

#include <stdbool.h>

/* A key in kebab-case and its value as YAML. */
struct policy_value {
	const char *key;
	const char *value;
};

/* Is it KEY=VALUE, and not the name of a file? */
bool policy_value_is_one(const char *argument);
/* defaults: hold for keys that no argument names; the first one always, the others only if none names a profile, which brings its own numbers. Returns 0,
 * or an error with ret_info. */
int policy_values_read(const char *const *arguments, size_t arguments_len, const struct policy_value *defaults,
    size_t defaults_len, struct rea_policy *ret_policy, struct rea_error_info *ret_info);

#endif
